/*
 * Finds out whether an ambiguous launch took effect. If the instance exists, its nodes adopt it. If
 * it does not, a launch with a token is repeated with identical parameters while its node is still
 * wanted. The provider's contract makes that harmless. A launch without a token is looked up until
 * the provider's list lag is over. It is void when two answers in a row after that lack it
 * (providers/lambda/README.md). So is one whose token is spent (LAUNCH_SPENT): its instance may
 * have ended meanwhile, and its life is billed. So is one whose repeat was refused before the token
 * counted (LAUNCH_TOKEN_UNREAD). If an instance appears even later, the sweep ends it.
 *
 * A gang's launch may be found in part, since the list may lag. After the lag the found nodes are
 * adopted and the others are void; the incomplete gang is given up.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/launch/launch_priv.h"

#define RESEND_MAX 16 /* times lookup_again_us */
#define LOOK_ABSENT "not found after the provider's list lag; asked once more"

struct looking {
	struct spot_find args;
	size_t want;
	char me[32];
	int64_t sent_us, last_us; /* its first call, its last */
	int32_t tries;
	bool token, wanted, absent; /* absent: from the last answer after the lag */
	const char
	    *spent; /* error text to keep: the token must not be used again; NULL: it may be */
	int64_t lag_us, life_us;
};

/* Orders a live one before an ended one, then by age, then by ref: the same choice every time. */
static int ages_compare(const void *pa, const void *pb)
{
	const struct spot_instance *a = pa, *b = pb;
	bool a_over = a->state == SPOT_INSTANCE_GONE, b_over = b->state == SPOT_INSTANCE_GONE;

	if (a_over != b_over) {
		return a_over ? 1 : -1;
	}
	if (a->created_us != b->created_us) {
		return a->created_us < b->created_us ? -1 : 1;
	}
	return strcmp(a->ref, b->ref);
}

/* A disk that carries the token is no machine, and an instance on two overlapping pages counts
 * once. */
static void machines_keep(struct spot_find *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++) {
		bool no = f->found[i].leftover;

		for (size_t k = 0; k < n && !no; k++) {
			no = strcmp(f->found[k].ref, f->found[i].ref) == 0;
		}
		if (!no) {
			f->found[n++] = f->found[i];
		}
	}
	f->n = n;
}

static void look_found(struct act *a, struct looking *l)
{
	static const enum node_state was[] = { NODE_UNKNOWN };
	struct spot_find *f = &l->args;
	const char *how = "found by its token";

	qsort(f->found, f->n, sizeof(*f->found), ages_compare);
	if (f->n > l->want) {
		how = "found by its token; others with the same token are ended by the sweep";
		log_error("launch.doubled", I64("node", a->id), STR("launch_token", f->token),
		    I64("instances", f->n), STR("adopted", f->found[0].ref));
	}
	launch_exists(a, f->token, f->found, MIN(f->n, l->want), was, ARRAY_LEN(was), NODE_EV_FOUND,
	    NODE_EV_VOID, how);
}

static void look_move(struct act *a, const struct looking *l, enum node_event ev, const char *why,
    int64_t next_us)
{
	ACT_WRITE(a, engine_launch_undone,
	    (&(struct q_engine_launch_undone){ .id = a->id,
		.was = NODE_UNKNOWN,
		.now = node_next(a->id, NODE_UNKNOWN, ev),
		.event = ev,
		.why = why,
		.claimed_by = l->me,
		.next_us = next_us,
		.at_us = engine_now(a->e),
		.fence = a->epoch,
		.token = l->args.token }));
}

static void look_again(struct act *a, const struct looking *l, const char *error)
{
	int64_t next = engine_now(a->e) + a->e->conf.lookup_again_us;

	if (l->spent != NULL) {
		error = strcmp(error, LOOK_ABSENT) == 0
		    ? arena_printf(a->arena, "%s; " LOOK_ABSENT, l->spent)
		    : l->spent;
	}
	recon_later_of(a->e, &lookup_kind, a->e->conf.lookup_again_us);
	ACT_WRITE(a, engine_lookup_again,
	    (&(struct q_engine_lookup_again){ .id = a->id,
		.claimed_by = l->me,
		.next_us = next,
		.error = error,
		.fence = a->epoch }));
}

/* Each round counts twice: the launch and the look-up. The first repeat goes out at once. */
static int64_t pause_us(const struct act *a, const struct looking *l)
{
	int rounds = l->tries / 2;

	const struct backoff pauses = { .first_us = a->e->conf.lookup_again_us,
		.cap_us = RESEND_MAX * a->e->conf.lookup_again_us };

	return rounds <= 1 ? 0 : backoff_wait_us(&pauses, rounds - 2, NULL);
}

static void look_called(struct act *a)
{
	struct looking *l = a->ctx;
	int64_t now = engine_now(a->e), age = now - l->last_us,
		lag = clock_span_us(a->e, l->lag_us);

	machines_keep(&l->args);
	if (a->call.op.rc != SPOT_OK) {
		log_warn("lookup.failed", I64("node", a->id),
		    STR("rc", spot_rc_name(a->call.op.rc)), STR("error", a->call.op.err.text));
		look_again(a, l, a->call.op.err.text);
	} else if (l->args.n >= l->want || (l->args.n > 0 && age >= lag)) {
		look_found(a, l);
	} else if (l->args.n == 0 && l->token && l->wanted && now - l->sent_us < l->life_us &&
	    l->spent == NULL) {
		look_move(a, l, NODE_EV_RESEND,
		    "not found by its token: repeated with the same token", now + pause_us(a, l));
	} else if (age < lag) {
		look_again(a, l,
		    l->args.n == 0 ? "not found yet; the provider's list may lag"
				   : "not all are found yet; the provider's list may lag");
	} else if (!l->absent) {
		/* one list may lack an instance that exists (watch.c waits for two as well) */
		look_again(a, l, LOOK_ABSENT);
	} else {
		look_move(a, l, NODE_EV_VOID, "not found after the provider's list lag", 0);
	}
}

static void look_claimed(struct step *s)
{
	struct act *a = s->ctx;
	struct looking *l = a->ctx;
	struct call_provider *p = a->call.priv;

	if (step_rows(s) == 0) {
		act_end(a);
		return;
	}
	l->tries = (int32_t)pg_int(s->req.result, 0, 0);
	act_call(a, p, CALL_FIND, &l->args, a->e->conf.call_timeout_us, true);
}

static void look_one(struct recon *r, const struct q_engine_lookup_due_row *w)
{
	struct engine *e = r->e;
	struct call_provider *p = engine_provider(e, w->provider);
	const struct spot_provider_ops *ops;
	const char *absent;
	struct looking *l;
	struct act *a;
	struct step *s;

	if (p == NULL) {
		return;
	}
	ops = call_provider_ops(p);
	a = act_new(e, w->id, look_called);
	l = arena_alloc(a->arena, sizeof(*l));
	a->ctx = l;
	a->call.priv = p;
	memcpy(l->me, e->me, sizeof(l->me));
	l->want = (size_t)w->want;
	l->sent_us = w->launch_sent_us;
	l->last_us = w->launch_last_us;
	l->token = (ops->caps & SPOT_CAP_TOKEN) != 0;
	l->wanted = w->wanted;
	absent = strstr(w->last_error, LOOK_ABSENT);
	l->absent = absent != NULL;
	if (str_prefix(w->last_error, LAUNCH_SPENT) ||
	    str_prefix(w->last_error, LAUNCH_TOKEN_UNREAD)) {
		/* Without "; " and the text that an answer without the instance added. */
		l->spent = arena_printf(a->arena, "%.*s",
		    (int)(absent == NULL ? (ptrdiff_t)strlen(w->last_error)
					 : absent - w->last_error - 2),
		    w->last_error);
	}
	l->lag_us = e->conf.list_lag_us > 0 ? e->conf.list_lag_us : ops->list_lag_us;
	l->life_us = ops->token_life_us;
	l->args = (struct spot_find){
		.region = arena_strdup(a->arena, w->region),
		.zone = arena_strdup(a->arena, w->zone),
		.token = arena_strdup(a->arena, w->token),
		.name = arena_strdup(a->arena, w->name),
		.install = e->install,
	};
	s = step_new(r, look_claimed, a);
	s->always = true;
	STEP(s, engine_lookup_claim,
	    (&(struct q_engine_lookup_claim){ .id = w->id,
		.claimed_by = e->me,
		.at_us = engine_now(e),
		.until_us = engine_now(e) + e->conf.call_timeout_us * 2,
		.fence = r->epoch }));
}

static void look_due(struct step *s)
{
	struct q_engine_lookup_due_row *rows;
	size_t n = q_engine_lookup_due_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		look_one(s->r, &rows[i]);
	}
}

static void lookup_pass(struct recon *r, void *state)
{
	const char **names;
	size_t n = engine_provider_names(r, NULL, &names);
	struct step *s = step_new(r, look_due, NULL);

	(void)state;
	STEP(s, engine_lookup_due,
	    (&(struct q_engine_lookup_due){ .claimed_by = r->e->me,
		.at_us = engine_now(r->e),
		.providers = names,
		.providers_n = n }));
}

const struct recon_kind lookup_kind = { .name = "lookup", .pass = lookup_pass };
