/*
 * Launches wanted nodes, and all nodes of a gang by one call where the provider has one (verb
 * launch_gang). One statement claims the rows of a launch (LAUNCHING, with the time the call may
 * first leave us) before anything is sent. A definite answer moves them on. An indefinite one makes
 * them UNKNOWN (lookup.c); so does a claim whose daemon died. A claim whose time is over says
 * nothing while its call is under way. Machines go to ranks in the order of their refs, so that a
 * repeat gives the same.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/launch/launch_priv.h"

#define LAUNCH_MOST 64 /* of each provider */
#define RETRY_DOUBLINGS 4
#define LAUNCHES_UNTOKENED 4

/* The launches of a provider that are under way. */
struct launch_line {
	const char *provider;
	int64_t n;
};

struct launch_work {
	struct q_engine_launch_due_row *rows;
	size_t n;
	struct launch_line *lines;
	size_t lines_n, lines_cap;
	struct set_room *rooms;
	struct launch_claims claims;
	bool due_in, flying_in;
};

/* ---- the reply ------------------------------------------------------------------------------- */

/* Returns false when there are fewer machines than requested, and others may have been made. After
 * the only try of a set, fewer is definite: the others are launched anew, and the provider then
 * refuses them for its own reason. */
static bool launch_ok(struct act *a, struct launching *l)
{
	static const enum node_state was[] = { NODE_LAUNCHING, NODE_UNKNOWN };
	struct spot_instance *list = l->args.instances;
	size_t n = l->args.instances_n;

	if (l->args.want == 1) {
		list = &l->args.common.instance;
		n = 1;
	} else if (n != l->args.want &&
	    (!l->set || n == 0 || n > l->args.want || l->unsure || a->call.doubted)) {
		return false;
	}
	launch_exists(a, l->args.common.token, list, n, was, ARRAY_LEN(was), NODE_EV_LAUNCHED,
	    n < l->args.want ? NODE_EV_RESEND : NODE_EV_VOID, "launched");
	return true;
}

/* Names in engine_launch_refused. */
static const char *const scope_names[] = {
	[SPOT_SCOPE_POOL] = "pool",
	[SPOT_SCOPE_TYPE] = "type",
	[SPOT_SCOPE_ZONE] = "zone",
	[SPOT_SCOPE_CLASS] = "class",
	[SPOT_SCOPE_REGION] = "region",
	[SPOT_SCOPE_MARKET] = "market",
	[SPOT_SCOPE_PROVIDER] = "provider",
};

/* The scope that cools after a refusal: the one that the provider names. Else its code decides: the
 * pool, all pools of the quota class, or the account's region. */
static const char *refusal_scope(const struct spot_err *err)
{
	if (err->scope > SPOT_SCOPE_NONE && (size_t)err->scope < ARRAY_LEN(scope_names)) {
		return scope_names[err->scope];
	}
	switch (err->rc) {
	case SPOT_NO_CAPACITY:
	case SPOT_NOT_OFFERED:
	case SPOT_PRICE_CAP:
	case SPOT_INVALID:
	case SPOT_NOT_FOUND:
	case SPOT_TOO_LARGE:
		return "pool";
	case SPOT_QUOTA:
		return "class";
	case SPOT_UNAUTHENTICATED:
	case SPOT_DENIED:
	case SPOT_CONFIG:
		return "region";
	case SPOT_OK:
	case SPOT_CONFLICT:
	case SPOT_STALE_EPOCH:
	case SPOT_GONE:
	case SPOT_MISMATCH:
	case SPOT_THROTTLED:
	case SPOT_UNAVAILABLE:
	case SPOT_TIMEOUT:
	case SPOT_UNKNOWN:
	case SPOT_BAD_REPLY:
	case SPOT_CANCELLED:
	case SPOT_INTERNAL:
	case SPOT_RC_COUNT:
		break;
	}
	return "";
}

static void refused_wrote(struct act *a)
{
	offers_write_end(a->e);
}

/* A pool that lacks room for many machines may have one: it cools only for gangs (gang.c). */
static void launch_refused(struct act *a, struct launching *l, enum spot_rc rc, const char *scope)
{
	const struct engine_conf *c = &a->e->conf;

	if (l->args.want > 1 && !l->set && strcmp(scope, "pool") == 0) {
		scope = "";
	}
	/* In a market read before this was written the pool does not cool, and its job would go
	 * there once more. */
	offers_invalidate(a->e);
	offers_write_begin(a->e);
	a->wrote = refused_wrote;
	ACT_WRITE(a, engine_launch_refused,
	    (&(struct q_engine_launch_refused){ .id = a->id,
		.was = NODE_LAUNCHING,
		.now = node_next(a->id, NODE_LAUNCHING, NODE_EV_REFUSED),
		.event = NODE_EV_REFUSED,
		.why = a->call.op.err.text,
		.rc = spot_rc_name(rc),
		.scope = scope,
		.cool_min_us = c->cool_min_us,
		.cool_max_us = c->cool_max_us,
		.claimed_by = l->me,
		.at_us = engine_now(a->e),
		.day = engine_day(a->e),
		.fence = a->epoch,
		.token = l->args.common.token }));
}

/* Refused before the provider reads the token: for credentials, the request's words, or another
 * call that it needs. The market refuses after it: the token of a launch that took effect returns
 * its machines. */
static bool refused_before_token(enum spot_rc rc)
{
	return rc == SPOT_INVALID || rc == SPOT_UNAUTHENTICATED || rc == SPOT_DENIED ||
	    rc == SPOT_NOT_FOUND || rc == SPOT_CONFLICT || rc == SPOT_TOO_LARGE ||
	    rc == SPOT_CONFIG;
}

static void launch_undone(struct act *a, struct launching *l, enum node_event ev, int64_t after_us)
{
	const char *why = a->call.op.err.text;

	/* The look-up reads its prefix. */
	if (a->call.op.rc == SPOT_MISMATCH || a->call.op.rc == SPOT_GONE) {
		why = arena_printf(a->arena, LAUNCH_SPENT "%s", why);
	} else if (l->unsure && refused_before_token(a->call.op.rc)) {
		why = arena_printf(a->arena, LAUNCH_TOKEN_UNREAD "%s", why);
	}
	ACT_WRITE(a, engine_launch_undone,
	    (&(struct q_engine_launch_undone){ .id = a->id,
		.was = NODE_LAUNCHING,
		.now = node_next(a->id, NODE_LAUNCHING, ev),
		.event = ev,
		.why = why,
		.claimed_by = l->me,
		.next_us = engine_now(a->e) + after_us,
		.at_us = engine_now(a->e),
		.fence = a->epoch,
		.token = l->args.common.token }));
}

static int64_t launch_retry_us(struct engine *e, int32_t tries, int64_t said_us)
{
	int64_t first = e->conf.launch_retry_us;
	const struct backoff waits = { .first_us = first,
		.cap_us = first << RETRY_DOUBLINGS,
		.jitter = 0.3 };

	return said_us > 0 ? MIN(said_us, waits.cap_us)
			   : backoff_wait_us(&waits, tries - 1, loop_rng(e->loop));
}

void launch_called(struct act *a)
{
	struct launching *l = a->ctx;
	enum spot_rc rc = a->call.op.rc;
	const struct spot_err *err = &a->call.op.err;

	if (rc == SPOT_OK && launch_ok(a, l)) {
		return;
	}
	l->unsure = l->unsure || a->call.doubted;
	log_warn("launch.failed", I64("node", a->id), STR("rc", spot_rc_name(rc)),
	    STR("code", err->code), STR("error", err->text));
	switch (rc) {
	case SPOT_THROTTLED:
	case SPOT_UNAVAILABLE:
	case SPOT_TIMEOUT:
		/* No effect for sure, unless a try before it had one. Without a token the same row
		 * is never sent twice; the job finds another place. */
		if (a->call.doubted) {
			launch_undone(a, l, NODE_EV_AMBIGUOUS, 0);
		} else if (l->token) {
			launch_undone(a, l, NODE_EV_RESEND,
			    launch_retry_us(a->e, l->tries, err->retry_after_us));
		} else {
			launch_refused(a, l, rc, "pool");
		}
		return;
	case SPOT_OK: /* fewer than requested: look them up */
	case SPOT_UNKNOWN:
	case SPOT_MISMATCH: /* the token was used before: look up whether by us */
	/* an earlier call took effect and its reply was lost: bill the instance's life */
	case SPOT_GONE:
	case SPOT_BAD_REPLY:
	case SPOT_CANCELLED:
	case SPOT_INTERNAL:
		launch_undone(a, l, NODE_EV_AMBIGUOUS, 0);
		return;
	case SPOT_INVALID:
	case SPOT_UNAUTHENTICATED:
	case SPOT_DENIED:
	case SPOT_NOT_FOUND:
	case SPOT_CONFLICT:
	case SPOT_STALE_EPOCH:
	case SPOT_TOO_LARGE:
	case SPOT_NO_CAPACITY:
	case SPOT_NOT_OFFERED:
	case SPOT_PRICE_CAP:
	case SPOT_QUOTA:
	case SPOT_CONFIG:
	case SPOT_RC_COUNT:
		break;
	}
	if (l->unsure && (refused_before_token(rc) || !l->token)) {
		launch_undone(a, l, NODE_EV_AMBIGUOUS, 0);
		return;
	}
	launch_refused(a, l, rc, refusal_scope(err));
}

/* ---- due launches ---------------------------------------------------------------------------- */

static struct launch_line *line_get(struct recon *r, struct launch_work *t, const char *provider)
{
	for (size_t i = 0; i < t->lines_n; i++) {
		if (strcmp(t->lines[i].provider, provider) == 0) {
			return &t->lines[i];
		}
	}
	t->lines = arena_grow(r->arena, t->lines, t->lines_n, &t->lines_cap, sizeof(*t->lines));
	t->lines[t->lines_n] = (struct launch_line){ .provider = provider };
	return &t->lines[t->lines_n++];
}

/* A launch that cannot be repeated must not time out in the provider's own queue: Lambda takes one
 * launch in 12 s. */
static int64_t launches_most(const struct engine *e, struct call_provider *p)
{
	return (call_provider_ops(p)->caps & SPOT_CAP_TOKEN) != 0
	    ? e->conf.launches_max
	    : MIN(e->conf.launches_max, LAUNCHES_UNTOKENED);
}

/* Launches as many of the equal nodes as their place takes. */
static void equal_launch(struct recon *r, struct launch_work *t, struct launch_line *line,
    const struct q_engine_launch_due_row *w, struct call_provider *p)
{
	int64_t size = set_size(set_room(r, &t->rooms, p, w->region), p, w->want);

	line->n += size > 0;
	if (size == 1) {
		launch_claim(r, &t->claims, w, 1, p);
	} else if (size > 1) {
		set_claim(r, w, size, p);
	}
}

static void launch_one(struct recon *r, struct launch_work *t,
    const struct q_engine_launch_due_row *w)
{
	struct engine *e = r->e;
	struct call_provider *p = engine_provider(e, w->provider);
	struct launch_line *line = line_get(r, t, w->provider);

	if (w->torn) {
		node_event(r, w->id, NODE_WANTED, NODE_EV_AMBIGUOUS, "",
		    "another node of its set is not wanted any more: looked up first");
	} else if (p == NULL ||
	    (w->want > 1 && !w->equal && call_provider_ops(p)->launch_gang == NULL)) {
		node_event(r, w->id, NODE_WANTED, w->unsure ? NODE_EV_AMBIGUOUS : NODE_EV_REFUSED,
		    w->unsure ? "unwanted" : "refused", "its provider is not configured any more");
	} else if (line->n < launches_most(e, p) && w->equal) {
		equal_launch(r, t, line, w, p);
	} else if (line->n < launches_most(e, p)) {
		launch_claim(r, &t->claims, w, w->want, p);
		line->n++;
	} else if (w->rests) {
		node_unwanted(r, w->id, false,
		    "its pool has refused another launch since: its job looks elsewhere");
	}
}

static void launch_decide(struct recon *r, struct launch_work *t)
{
	if (!t->due_in || !t->flying_in) {
		return;
	}
	for (size_t i = 0; i < t->n; i++) {
		launch_one(r, t, &t->rows[i]);
	}
	launch_claims_end(r, &t->claims);
}

static void launch_due(struct step *s)
{
	struct launch_work *t = s->ctx;

	t->n = q_engine_launch_due_rows(&s->req, s->r->arena, &t->rows);
	t->due_in = true;
	launch_decide(s->r, t);
}

static void launch_flying(struct step *s)
{
	struct launch_work *t = s->ctx;

	struct q_engine_launch_flying_row *rows;
	size_t n = q_engine_launch_flying_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		line_get(s->r, t, rows[i].provider)->n = rows[i].n;
	}
	t->flying_in = true;
	launch_decide(s->r, t);
}

/* Rows whose call is still under way here: however old their claims are by the clock, the call may
 * yet leave. */
static size_t launch_calls(struct recon *r, int64_t **ret)
{
	struct act *a;
	size_t n = 0;

	TAILQ_FOREACH (a, &r->e->acts, link) {
		n += a->called == launch_called;
	}
	*ret = arena_array(r->arena, n + 1, sizeof(**ret));
	n = 0;
	TAILQ_FOREACH (a, &r->e->acts, link) {
		if (a->called == launch_called && a->epoch == r->epoch) {
			(*ret)[n++] = a->id;
		}
	}
	return n;
}

static bool ids_have(const int64_t *ids, size_t n, int64_t id)
{
	for (size_t i = 0; i < n; i++) {
		if (ids[i] == id) {
			return true;
		}
	}
	return false;
}

static void launch_stale(struct step *s)
{
	struct q_engine_launch_stale_row *rows;
	size_t n = q_engine_launch_stale_rows(&s->req, s->r->arena, &rows);
	struct engine *e = s->r->e;
	int64_t *calls;
	/* some began since the statement was sent */
	size_t calls_n = launch_calls(s->r, &calls);

	for (size_t i = 0; i < n; i++) {
		struct step *w;

		if (strcmp(rows[i].claimed_by, e->me) == 0 &&
		    ids_have(calls, calls_n, rows[i].id)) {
			continue;
		}
		w = step_new(s->r, NULL, NULL);
		STEP(w, engine_launch_undone,
		    (&(struct q_engine_launch_undone){ .id = rows[i].id,
			.was = NODE_LAUNCHING,
			.now = node_next(rows[i].id, NODE_LAUNCHING, NODE_EV_AMBIGUOUS),
			.event = NODE_EV_AMBIGUOUS,
			.why = "nobody answers for the launch call any more",
			.claimed_by = rows[i].claimed_by,
			.next_us = 0,
			.at_us = engine_now(e),
			.fence = s->r->epoch,
			.token = rows[i].token }));
	}
}

static void launcher_pass(struct recon *r, void *state)
{
	struct launch_work *t = arena_alloc(r->arena, sizeof(*t));
	int64_t now = engine_now(r->e), *calls;
	struct q_engine_launch_due_sets *sets;
	size_t calls_n = launch_calls(r, &calls), sets_n = set_providers(r, &sets);
	struct step *s = step_new(r, launch_flying, t);

	(void)state;
	STEP(s, engine_launch_flying, NULL);
	s = step_new(r, launch_due, t);
	STEP(s, engine_launch_due,
	    (&(struct q_engine_launch_due){ .at_us = now,
		.most = LAUNCH_MOST,
		.sets = sets,
		.sets_n = sets_n }));
	s = step_new(r, launch_stale, NULL);
	STEP(s, engine_launch_stale,
	    (&(struct q_engine_launch_stale){ .claimed_by = r->e->me,
		.at_us = now,
		.calls = calls,
		.calls_n = calls_n }));
}

const struct recon_kind launcher_kind = { .name = "launcher",
	.wakes = TOUCH_NODE | TOUCH_GANG | TOUCH_JOB | TOUCH_FLEET,
	.pass = launcher_pass };
