/*
 * Lists everything with our installation tag in every region we know, at start and then regularly.
 * Instances and leftovers without a live row are written down (table orphan). An instance raises an
 * alarm first and is ended after a grace period. A leftover is a disk, a network card, or an order
 * for more machines. It is ended when it had no owner for longer than the provider's list lag and
 * is older than any launch under way. Without exactly our tag nothing is ever touched: accounts are
 * shared.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/kernel/kernel.h"
#include "engine/watch/watch.h"

#define NEVER_US (INT64_MAX / 4)
/* None: at the edges of a lease a machine without a row is better shown than ended. A database may
 * lose its last seconds (a restored backup, a standby that was behind). A daemon then leads again
 * within a minute, and machines that the database forgot are at work. */
#define CLOCKS_US 0

struct sweeping {
	struct watch_place *place;
	struct call_provider *provider;
	struct spot_list list;
	/* by ref; an instance listed twice stays twice */
	const struct spot_instance **ours;
	struct q_engine_sweep_judge_listed *listed; /* the same, in the order of the list */
	size_t n;
	const char **present;
	size_t present_n;
	int64_t asked_us, at_us;
};

static void orphan_called(struct act *a)
{
	const struct spot_terminate *t = a->ctx;

	if (a->call.op.rc != SPOT_OK) {
		log_warn("orphan.terminate", STR("ref", t->ref),
		    STR("rc", spot_rc_name(a->call.op.rc)), STR("error", a->call.op.err.text));
	} else {
		log_info("orphan.terminated", STR("ref", t->ref));
	}
	act_end(a);
}

static void orphan_end(struct engine *e, const struct sweeping *w, const struct spot_instance *i)
{
	struct act *a = act_new(e, 0, orphan_called);
	struct spot_terminate *t = arena_alloc(a->arena, sizeof(*t));

	*t = (struct spot_terminate){
		.region = arena_strdup(a->arena,
		    str_empty(i->key.region) ? w->place->region : i->key.region),
		.zone = arena_strdup(a->arena, i->key.zone == NULL ? "" : i->key.zone),
		.ref = arena_strdup(a->arena, i->ref),
		.spot_request =
		    arena_strdup(a->arena, i->spot_request == NULL ? "" : i->spot_request),
	};
	a->ctx = t;
	act_call(a, w->provider, CALL_TERMINATE, t, e->conf.call_timeout_us, true);
}

static int refs_compare(const void *a, const void *b)
{
	const struct spot_instance *const *x = a, *const *y = b;
	int c = strcmp((*x)->ref, (*y)->ref);

	return c != 0 ? c : (*x > *y) - (*x < *y);
}

static const struct spot_instance *instance_find(const struct sweeping *w, const char *ref)
{
	size_t lo = 0, hi = w->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(w->ours[mid]->ref, ref) < 0) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo < w->n && strcmp(w->ours[lo]->ref, ref) == 0 ? w->ours[lo] : NULL;
}

static int64_t list_lag_us(const struct engine *e, const struct sweeping *w)
{
	return e->conf.list_lag_us > 0 ? e->conf.list_lag_us
				       : call_provider_ops(w->provider)->list_lag_us;
}

/* How long an instance must be absent from lists to be gone. */
static int64_t absent_us(const struct engine *e, const struct sweeping *w)
{
	return w->list.partial ? NEVER_US : list_lag_us(e, w);
}

static bool sweep_due(const struct engine *e, const struct sweeping *w,
    const struct q_engine_sweep_judge_row *o)
{
	const struct spot_instance *x = instance_find(w, o->ref);
	int64_t now = engine_now(e), seen = now - o->first_us;
	/* A time in the future comes from a clock that was ahead, since our names carry times. The
	 * age then counts from the first sight. */
	int64_t created = x->created_us <= now ? x->created_us : 0;
	int64_t age = created > 0 ? now - created : INT64_MAX;

	if (o->word[0] != '\0') {
		return strcmp(o->word, "end") == 0;
	}
	if (o->kept || !e->conf.orphan_end) {
		return false;
	}

	if (x->leftover) {
		int64_t launch = MAX(e->conf.launch_timeout_us,
		    call_provider_ops(w->provider)->launch_timeout_us);

		return !o->busy && seen > 0 && seen >= clock_span_us(e, list_lag_us(e, w)) &&
		    (created > 0 ? age : seen) >= clock_span_us(e, launch) &&
		    x->state != SPOT_INSTANCE_ODD;
	}
	return seen > 0 && MIN(seen, age) >= clock_span_us(e, e->conf.orphan_grace_us);
}

/* Their end is written down: now they may end. */
static void sweep_ending(struct act *a)
{
	struct sweeping *w = a->ctx;
	struct q_engine_sweep_ending_row *rows;
	size_t n;

	if (a->req.op.rc != SPOT_OK) {
		return;
	}
	n = q_engine_sweep_ending_rows(&a->req, a->arena, &rows);
	for (size_t i = 0; i < n; i++) {
		orphan_end(a->e, w, instance_find(w, rows[i].ref));
	}
}

/* An instance costs money; a leftover may be normal, such as the group of a gang that is over. */
static void found_log(const struct sweeping *w, const struct q_engine_sweep_judge_row *r)
{
	log_event(strcmp(r->kind, "leftover") == 0 ? LOG_WARN : LOG_ERROR, "orphan.found",
	    (const struct log_pair[]){ STR("provider", w->place->provider),
		STR("region", w->place->region), STR("kind", r->kind), STR("ref", r->ref),
		STR("why", r->why), { 0 } });
}

/* Handles the judged orphans: raises alarms for new ones, and ends those whose grace is over. */
static void sweep_judged(struct op *op)
{
	struct act *a = container_of(container_of(op, struct pg_req, op), struct act, req);
	struct sweeping *w = a->ctx;
	struct engine *e = a->e;
	struct q_engine_sweep_judge_row *rows;
	const char **refs;
	int64_t now = engine_now(e);
	size_t n, due = 0;

	a->writing = false;
	w->place->sweeping = false;
	if (op->rc != SPOT_OK) {
		log_warn("sweep.failed", STR("provider", w->place->provider),
		    STR("error", op->err.text));
		act_end(a);
		return;
	}
	n = q_engine_sweep_judge_rows(&a->req, a->arena, &rows);
	refs = arena_array(a->arena, n + 1, sizeof(*refs));
	for (size_t i = 0; i < n; i++) {
		if (sweep_due(e, w, &rows[i])) {
			refs[due++] = rows[i].ref;
		} else if (rows[i].first_us == w->at_us) {
			found_log(w, &rows[i]);
		}
	}
	engine_touch(e, TOUCH_ENROL); /* an enrolment may have waited for this list */
	if (due == 0) {
		act_end(a);
		return;
	}
	pg_req_fini(&a->req);
	a->wrote = sweep_ending;
	ACT_WRITE(a, engine_sweep_ending,
	    (&(struct q_engine_sweep_ending){ .provider = w->place->provider,
		.region = w->place->region,
		.refs = refs,
		.refs_n = due,
		.at_us = now,
		.fence = a->epoch }));
}

static bool instance_counts(const struct engine *e, const struct spot_instance *i)
{
	return i->install != NULL && strcmp(i->install, e->install) == 0 &&
	    i->state != SPOT_INSTANCE_GONE && i->state != SPOT_INSTANCE_INTERRUPTED &&
	    i->state != SPOT_INSTANCE_STOPPING && i->ref != NULL;
}

static void instance_add(struct sweeping *w, const struct spot_instance *x)
{
	size_t n = w->n++;

	w->ours[n] = x;
	w->listed[n] = (struct q_engine_sweep_judge_listed){
		.ref = x->ref,
		.token = x->token == NULL ? "" : x->token,
		.request = x->spot_request == NULL ? "" : x->spot_request,
		.leftover = x->leftover,
		.zone = x->key.zone == NULL ? "" : x->key.zone,
		.where_region = str_empty(x->key.region) ? w->place->region : x->key.region,
		.instance_type = x->key.instance_type == NULL ? "" : x->key.instance_type,
		.market = x->key.market == SPOT_MARKET_NONE ? "" : spot_market_name(x->key.market),
		.created_us = x->created_us,
	};
}

static void sweep_called(struct act *a)
{
	struct sweeping *w = a->ctx;
	size_t most = w->list.n;

	if (a->call.op.rc != SPOT_OK) {
		w->place->sweeping = false;
		log_warn("sweep.failed", STR("provider", w->place->provider),
		    STR("region", w->place->region), STR("rc", spot_rc_name(a->call.op.rc)),
		    STR("error", a->call.op.err.text));
		act_end(a);
		return;
	}
	w->ours = arena_array(a->arena, most + 1, sizeof(*w->ours));
	w->listed = arena_array(a->arena, most + 1, sizeof(*w->listed));
	w->present = arena_array(a->arena, most + 1, sizeof(*w->present));
	for (size_t i = 0; i < most; i++) {
		const struct spot_instance *x = &w->list.found[i];

		if (x->ref != NULL && x->state != SPOT_INSTANCE_GONE &&
		    x->state != SPOT_INSTANCE_INTERRUPTED) {
			w->present[w->present_n++] = x->ref;
		}
		if (instance_counts(a->e, x)) {
			instance_add(w, x);
		}
	}
	qsort(w->ours, w->n, sizeof(*w->ours), refs_compare);
	a->writing = true;
	w->at_us = engine_now(a->e);
	q_engine_sweep_judge(a->e->pg, &a->req,
	    &(struct q_engine_sweep_judge){ .provider = w->place->provider,
		.region = w->place->region,
		.listed = w->listed,
		.listed_n = w->n,
		.present = w->present,
		.present_n = w->present_n,
		.at_us = w->at_us,
		.lag_us = absent_us(a->e, w),
		.over_us = w->asked_us - list_lag_us(a->e, w),
		.slack_us = CLOCKS_US,
		.dry = !a->e->conf.orphan_end,
		.fence = a->epoch },
	    sweep_judged);
}

static void sweep_one(struct engine *e, struct watch_place *place, struct call_provider *p)
{
	struct act *a = act_new(e, 0, sweep_called);
	struct sweeping *w = arena_alloc(a->arena, sizeof(*w));

	w->place = place;
	w->provider = p;
	w->asked_us = engine_now(e);
	w->list = (struct spot_list){ .region = place->region, .install = e->install };
	a->ctx = w;
	place->sweeping = true;
	place->swept_us = loop_mono_us(e->loop);
	act_call(a, p, CALL_LIST, &w->list, e->conf.call_timeout_us, false);
}

/* Places come with their pools, and each is due once in sweep_us. */
#define PLACES_SHARE 10
#define PLACES_MOST_US (5 * SPOT_US_PER_S)

struct sweep {
	int64_t next_us; /* mono: the places are not read before */
};

static void sweep_places(struct step *s)
{
	struct sweep *st = s->r->state;
	struct q_engine_sweep_places_row *rows;
	size_t n = q_engine_sweep_places_rows(&s->req, s->r->arena, &rows);
	struct engine *e = s->r->e;
	int64_t now = loop_mono_us(e->loop);

	st->next_us = n == 0 ? 0 : st->next_us; /* the first pools may come at any moment */
	for (size_t i = 0; i < n; i++) {
		struct call_provider *p = engine_provider(e, rows[i].provider);
		struct watch_place *place = watch_place_of(e, rows[i].provider, rows[i].region);

		if (place != NULL && !place->sweeping &&
		    (place->swept_us == 0 || now - place->swept_us >= e->conf.sweep_us)) {
			sweep_one(e, place, p);
		}
	}
}

static void sweep_pass(struct recon *r, void *state)
{
	struct sweep *st = state;
	int64_t share = r->e->conf.sweep_us / PLACES_SHARE;

	if (recon_paced(r, &st->next_us, MIN(share, PLACES_MOST_US))) {
		struct step *s = step_new(r, sweep_places, NULL);

		STEP(s, engine_sweep_places, NULL);
	}
}

const struct recon_kind sweep_kind = { .name = "sweep",
	.state_size = sizeof(struct sweep),
	.wakes = TOUCH_ORPHAN | TOUCH_ENROL | TOUCH_NODE | TOUCH_MARKET,
	.pass = sweep_pass };
