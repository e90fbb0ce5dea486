/* Asks the providers about our nodes. Replies are only written down (provider_state, gone_seen,
 * notices); the rows decide (watch_due.c). A silent agent alone never ends a node: the engine then
 * asks its provider at once. */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/kernel/kernel.h"
#include "engine/watch/watch.h"

#define HURRY_US (2 * SPOT_US_PER_S)
#define PAGE 5000 /* nodes in one call */
/* All places are read once in so many watch intervals, though nothing changed. */
#define PLACES_EACH 6

struct watch {
	struct watch_places places; /* the first */
	int64_t listed_us; /* mono: when all places were last read; 0 = never */
	bool moved; /* machines changed since */
};

struct watch_places *watch_places(const struct engine *e)
{
	return recon_state(e, &watch_kind);
}

static void watch_fini(void *state)
{
	struct watch_places *w = state;
	struct watch_place *p;

	while ((p = LIST_FIRST(w)) != NULL) {
		LIST_REMOVE(p, link);
		free(p->provider);
		free(p->region);
		free(p);
	}
}

static struct watch_place *watch_place(const struct engine *e, const char *provider,
    const char *region)
{
	struct watch_places *w = watch_places(e);
	struct watch_place *p;

	LIST_FOREACH (p, w, link) {
		if (strcmp(p->provider, provider) == 0 && strcmp(p->region, region) == 0) {
			return p;
		}
	}
	p = calloc(1, sizeof(*p));
	if (p == NULL || (p->provider = strdup(provider)) == NULL ||
	    (p->region = strdup(region)) == NULL) {
		abort();
	}
	LIST_INSERT_HEAD(w, p, link);
	return p;
}

struct watch_place *watch_place_of(struct engine *e, const char *provider, const char *region)
{
	const struct call_provider *p = engine_provider(e, provider);

	if (p == NULL) {
		return NULL;
	}
	return watch_place(e, provider,
	    (call_provider_ops(p)->caps & SPOT_CAP_ALL_REGIONS) != 0 ? "" : region);
}

/* ---- asking ---------------------------------------------------------------------------------- */

struct asking {
	struct watch_place *place;
	struct q_engine_watch_refs_row *rows;
	size_t n;
	int64_t asked_us; /* wall */
	struct spot_describe describe;
	struct spot_notices notices;
};

/* A machine that never came for lack of capacity: the provider took the order and reports it later
 * (a Kubernetes Pod that cannot be scheduled). */
static const char *failed_name(const struct spot_instance *i)
{
	const char *why = i->raw_reason == NULL ? "" : i->raw_reason;

	return str_prefix(why, "NO_CAPACITY") ? "failed_no_capacity"
	    : str_prefix(why, "QUOTA")        ? "failed_quota"
					      : "failed";
}

const char *instance_state(const struct spot_instance *i)
{
	if (i->state == SPOT_INSTANCE_FAILED) {
		return failed_name(i);
	}
	if (i->state == SPOT_INSTANCE_GONE && i->end_cause == SPOT_END_RECLAIM) {
		return "gone_reclaimed";
	}
	if (i->state == SPOT_INSTANCE_GONE &&
	    (i->end_cause == SPOT_END_USER || i->end_cause == SPOT_END_GUEST)) {
		return "gone_user"; /* no evidence about the pool */
	}
	return spot_instance_state_name(i->state);
}

const char *instance_reason(struct arena *a, const struct spot_instance *i)
{
	if (i->state == SPOT_INSTANCE_RUNNING || i->state == SPOT_INSTANCE_PENDING ||
	    i->state == SPOT_INSTANCE_QUEUED) {
		return "";
	}
	return arena_printf(a, "%s %s", i->raw_state == NULL ? "" : i->raw_state,
	    i->raw_reason == NULL ? "" : i->raw_reason);
}

/* The state for a row. One answer without the instance does not prove its end if the previous
 * answer had it, unless the answer is exact and the instance ran. */
static const char *seen_state(const struct spot_instance *i, int32_t lacked, bool exact)
{
	if (i == NULL && exact) {
		return spot_instance_state_name(SPOT_INSTANCE_GONE);
	}
	if (i == NULL ||
	    (lacked == 0 && i->state == SPOT_INSTANCE_GONE && i->raw_state != NULL &&
		strcmp(i->raw_state, SPOT_ABSENT_STATE) == 0)) {
		return "absent";
	}
	return instance_state(i);
}

static int refs_compare(const void *a, const void *b)
{
	const struct spot_instance *x = *(const struct spot_instance *const *)a,
				   *y = *(const struct spot_instance *const *)b;

	return strcmp(x->ref, y->ref);
}

/* Sorted by ref: thousands are searched among thousands. */
static const struct spot_instance **found_sort(struct arena *a, const struct spot_describe *d)
{
	const struct spot_instance **ret =
	    arena_array(a, d->n + 1, sizeof(const struct spot_instance *));

	for (size_t i = 0; i < d->n; i++) {
		ret[i] = &d->found[i];
	}
	qsort(ret, d->n, sizeof(const struct spot_instance *), refs_compare);
	return ret;
}

/* Of an instance that appears more than once the first entry counts. */
static const struct spot_instance *found_ref(const struct spot_instance **sorted, size_t n,
    const char *ref)
{
	const struct spot_instance key = { .ref = ref }, *one = &key, *first;
	const struct spot_instance **hit =
	    bsearch(&one, sorted, n, sizeof(const struct spot_instance *), refs_compare);

	if (hit == NULL) {
		return NULL;
	}
	while (hit > sorted && strcmp(hit[-1]->ref, ref) == 0) {
		hit--;
	}
	first = *hit;
	for (; hit < sorted + n && strcmp((*hit)->ref, ref) == 0; hit++) {
		first = MIN(first, *hit);
	}
	return first;
}

static void seen_write(struct act *a, const struct asking *k)
{
	const struct spot_provider_ops *ops =
	    call_provider_ops(engine_provider(a->e, k->place->provider));
	struct q_engine_watch_seen_node *seen = arena_array(a->arena, k->n, sizeof(*seen));
	const struct spot_instance **found = found_sort(a->arena, &k->describe);
	size_t n = 0;

	for (size_t i = 0; i < k->n; i++) {
		const struct spot_instance *x = found_ref(found, k->describe.n, k->rows[i].ref);

		if (x == NULL && k->describe.untold != NULL && k->describe.untold[i]) {
			continue; /* stays as last seen */
		}
		seen[n++] = (struct q_engine_watch_seen_node){
			.id = k->rows[i].id,
			.state = seen_state(x, k->rows[i].gone_seen,
			    k->describe.exact && k->rows[i].ran),
			.ip = x == NULL || x->ip == NULL ? "" : x->ip,
			.reason = x != NULL                       ? instance_reason(a->arena, x)
			    : k->describe.exact && k->rows[i].ran ? "it does not exist any more"
								  : "",
		};
	}
	ACT_WRITE(a, engine_watch_seen,
	    (&(struct q_engine_watch_seen){ .node = seen,
		.node_n = n,
		.at_us = engine_now(a->e),
		.lag_us = clock_span_us(a->e,
		    a->e->conf.list_lag_us > 0 ? a->e->conf.list_lag_us : ops->list_lag_us),
		.fence = a->epoch,
		.asked_us = k->asked_us }));
}

/* No answer, but evidence for a later decision without one. */
static void unanswered_write(struct act *a, const struct asking *k)
{
	int64_t *ids = arena_array(a->arena, k->n, sizeof(*ids));

	for (size_t i = 0; i < k->n; i++) {
		ids[i] = k->rows[i].id;
	}
	ACT_WRITE(a, engine_watch_unanswered,
	    (&(struct q_engine_watch_unanswered){ .ids = ids,
		.ids_n = k->n,
		.why = a->call.op.err.text,
		.at_us = engine_now(a->e),
		.fence = a->epoch }));
}

static void describe_called(struct act *a)
{
	struct asking *k = a->ctx;

	k->place->asking = false;
	if (a->call.op.rc != SPOT_OK) {
		log_warn("watch.failed", STR("provider", k->place->provider),
		    STR("region", k->place->region), STR("rc", spot_rc_name(a->call.op.rc)),
		    STR("error", a->call.op.err.text));
		unanswered_write(a, k);
		return;
	}
	seen_write(a, k);
}

/* The end of a reservation is told long before; it is a notice once a save must begin. */
static bool notice_is_due(struct engine *e, const struct spot_notice *x, int64_t save_us)
{
	return x->kind != SPOT_NOTICE_EXPIRY || x->deadline_us == 0 ||
	    x->deadline_us - rank_leave_us(&e->conf.rank, save_us) <= engine_now(e);
}

static struct q_engine_notice_add_notice notice_row(struct engine *e, int64_t node_id,
    const struct spot_notice *x)
{
	return (struct q_engine_notice_add_notice){ .node_id = node_id,
		.kind = spot_notice_name(x->kind),
		.deadline_us =
		    x->deadline_us > 0 ? x->deadline_us : engine_now(e) + e->conf.notice_default_us,
		.source = x->source == NULL ? "provider" : x->source,
		.raw = x->raw == NULL ? "" : x->raw };
}

/* The end of capacity that was told of a machine; 0 = none. */
static int64_t end_told(const struct spot_notices *o, const char *ref)
{
	int64_t ends = 0;

	for (size_t i = 0; i < o->n; i++) {
		const struct spot_notice *x = &o->notices[i];

		if (x->kind == SPOT_NOTICE_EXPIRY && x->deadline_us > 0 &&
		    strcmp(x->ref, ref) == 0 && (ends == 0 || x->deadline_us < ends)) {
			ends = x->deadline_us;
		}
	}
	return ends;
}

static size_t ends_changed(const struct asking *k, struct q_engine_notice_add_node *ret)
{
	size_t n = 0;

	for (size_t r = 0; r < k->n; r++) {
		int64_t ends =
		    spot_market_ends(k->rows[r].market) ? end_told(&k->notices, k->rows[r].ref) : 0;

		if (ends != k->rows[r].ends_us) {
			ret[n++] = (struct q_engine_notice_add_node){ k->rows[r].id, ends };
		}
	}
	return n;
}

static size_t notices_due(const struct act *a, const struct asking *k,
    struct q_engine_notice_add_notice *ret)
{
	const struct spot_notices *o = &k->notices;
	size_t n = 0;

	for (size_t i = 0; i < o->n; i++) {
		const struct spot_notice *x = &o->notices[i];

		for (size_t r = 0; r < k->n; r++) {
			if (strcmp(k->rows[r].ref, x->ref) == 0) {
				if (notice_is_due(a->e, x, k->rows[r].save_us)) {
					ret[n++] = notice_row(a->e, k->rows[r].id, x);
				}
				break;
			}
		}
	}
	return n;
}

static void notices_called(struct act *a)
{
	struct asking *k = a->ctx;
	struct q_engine_notice_add_notice *rows;
	struct q_engine_notice_add_node *nodes;
	size_t n, nodes_n;

	k->place->noticing = false;
	if (a->call.op.rc != SPOT_OK) {
		log_warn("notices.failed", STR("provider", k->place->provider),
		    STR("region", k->place->region), STR("rc", spot_rc_name(a->call.op.rc)),
		    STR("error", a->call.op.err.text));
		act_end(a);
		return;
	}
	rows = arena_array(a->arena, k->notices.n + 1, sizeof(*rows));
	nodes = arena_array(a->arena, k->n + 1, sizeof(*nodes));
	n = notices_due(a, k, rows);
	nodes_n = ends_changed(k, nodes);
	if (n == 0 && nodes_n == 0) {
		act_end(a);
		return;
	}
	ACT_WRITE(a, engine_notice_add,
	    (&(struct q_engine_notice_add){ .notice = rows,
		.notice_n = n,
		.node = nodes,
		.node_n = nodes_n,
		.at_us = engine_now(a->e),
		.fence = a->epoch }));
}

static void notices_ask(struct engine *e, struct asking *from, struct call_provider *p)
{
	struct act *a = act_new(e, 0, notices_called);
	struct asking *k = arena_alloc(a->arena, sizeof(*k));
	struct spot_instance *list;

	*k = (struct asking){ .place = from->place, .n = from->n };
	k->rows = arena_array(a->arena, from->n, sizeof(*k->rows));
	list = arena_array(a->arena, from->n, sizeof(*list));
	for (size_t i = 0; i < from->n; i++) {
		k->rows[i] = from->rows[i];
		k->rows[i].ref = arena_strdup(a->arena, from->rows[i].ref);
		if (from->rows[i].state != NODE_BOOTING && from->rows[i].state != NODE_READY) {
			continue;
		}
		list[k->notices.instances_n++] = (struct spot_instance){
			.ref = k->rows[i].ref,
			.token = "",
			.install = e->install,
			.key = { .provider = from->place->provider,
			    .region = from->place->region,
			    .zone = arena_strdup(a->arena, from->rows[i].zone),
			    .instance_type = arena_strdup(a->arena, from->rows[i].instance_type),
			    .market = from->rows[i].market },
			.state = SPOT_INSTANCE_RUNNING,
			.raw_state = "",
			.raw_reason = "",
			.ip = "",
			.spot_request = arena_strdup(a->arena, from->rows[i].spot_request),
		};
	}
	k->notices.region = from->place->region;
	k->notices.instances = list;
	a->ctx = k;
	if (k->notices.instances_n == 0) {
		act_end(a);
		return;
	}
	k->place->noticing = true;
	act_call(a, p, CALL_NOTICES, &k->notices, e->conf.call_timeout_us, false);
}

static void refs_describe(struct step *s)
{
	struct engine *e = s->r->e;
	struct act *a = s->ctx;
	struct asking *k = a->ctx;
	struct call_provider *p = engine_provider(e, k->place->provider);
	const char **refs;
	struct spot_pool_key *keys;

	k->n = s->req.op.rc == SPOT_OK ? q_engine_watch_refs_rows(&s->req, a->arena, &k->rows) : 0;
	k->place->watched &= s->req.op.rc != SPOT_OK || k->n > 0 || k->place->after_id > 0;
	k->place->after_id = k->n == PAGE ? k->rows[k->n - 1].id : 0;
	if (k->n == 0 || p == NULL) {
		k->place->asking = false;
		act_end(a);
		return;
	}
	refs = arena_array(a->arena, k->n, sizeof(*refs));
	keys = arena_array(a->arena, k->n, sizeof(*keys));
	for (size_t i = 0; i < k->n; i++) {
		refs[i] = k->rows[i].ref;
		keys[i] = (struct spot_pool_key){ .provider = k->place->provider,
			.region = k->place->region,
			.zone = arena_strdup(a->arena, k->rows[i].zone),
			.instance_type = arena_strdup(a->arena, k->rows[i].instance_type),
			.market = k->rows[i].market };
	}
	k->describe = (struct spot_describe){ .region = k->place->region,
		.refs = refs,
		.refs_n = k->n,
		.keys = keys,
		.install = e->install };
	if (call_provider_ops(p)->notices != NULL && !k->place->noticing) {
		notices_ask(e, k, p);
	}
	k->asked_us = engine_now(e);
	act_call(a, p, CALL_DESCRIBE, &k->describe, e->conf.call_timeout_us, false);
}

static void place_ask(struct recon *r, struct watch_place *place)
{
	struct act *a = act_new(r->e, 0, describe_called);
	struct asking *k = arena_alloc(a->arena, sizeof(*k));
	struct step *s = step_new(r, refs_describe, a);

	k->place = place;
	a->ctx = k;
	s->always = true;
	place->asking = true;
	if (place->after_id == 0) {
		place->asked_us = loop_mono_us(r->e->loop);
	}
	STEP(s, engine_watch_refs,
	    (&(struct q_engine_watch_refs){ .provider = place->provider,
		.region = place->region,
		.after = place->after_id,
		.most = PAGE }));
}

/* All places are read at the start, when machines changed, and now and then. Each pass reads the
 * places of booting machines (engine_watch_odd). So only a machine that never boots here waits for
 * this read, such as one that is found and ended. */
static bool places_due(struct recon *r)
{
	struct watch *w = r->state;
	int64_t age = loop_mono_us(r->e->loop) - w->listed_us, most = r->e->conf.watch_us;

	w->moved |= (r->seen & TOUCH_NODE) != 0;
	return w->listed_us == 0 || age >= (w->moved ? most / 2 : PLACES_EACH * most);
}

static void places_ask(struct recon *r)
{
	struct watch *w = r->state;
	int64_t now = loop_mono_us(r->e->loop);
	struct watch_place *p;

	LIST_FOREACH (p, &w->places, link) {
		int64_t pause = p->hurry ? MIN(HURRY_US, r->e->conf.watch_us) : r->e->conf.watch_us;
		bool more = p->after_id > 0 && !p->noticing;

		if (p->watched && !p->asking && engine_provider(r->e, p->provider) != NULL &&
		    (more || p->asked_us == 0 || now - p->asked_us >= pause)) {
			place_ask(r, p);
		}
	}
}

static void odd_read(struct step *s)
{
	struct engine *e = s->r->e;
	struct q_engine_watch_odd_row *rows;
	size_t n = q_engine_watch_odd_rows(&s->req, s->r->arena, &rows);
	struct watch_place *p;

	LIST_FOREACH (p, watch_places(e), link) {
		p->hurry = false;
	}
	for (size_t i = 0; i < n; i++) {
		p = watch_place(e, rows[i].provider, rows[i].region);
		p->watched = true;
		p->hurry = rows[i].hurry;
	}
	places_ask(s->r);
}

static void odd_ask(struct recon *r)
{
	struct step *s = step_new(r, odd_read, NULL);

	STEP(s, engine_watch_odd,
	    (&(struct q_engine_watch_odd){ .at_us = engine_now(r->e),
		.silent_us = r->e->conf.agent_silent_us }));
}

static void places_read(struct step *s)
{
	struct watch *w = s->r->state;
	struct q_engine_watch_places_row *rows;
	size_t n = q_engine_watch_places_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		watch_place(s->r->e, rows[i].provider, rows[i].region)->watched = true;
	}
	w->listed_us = loop_mono_us(s->r->e->loop);
	odd_ask(s->r);
}

static void places_look(struct recon *r)
{
	struct watch *w = r->state;

	if (places_due(r)) {
		struct step *s = step_new(r, places_read, NULL);

		w->moved = false; /* a later change makes another pass */
		STEP(s, engine_watch_places, NULL);
	} else {
		odd_ask(r);
	}
}

/* Another daemon may have launched machines since. */
static void watch_lease_lost(void *state)
{
	struct watch *w = state;

	w->listed_us = 0;
}

static void watch_pass(struct recon *r, void *state)
{
	(void)state;
	places_look(r);
	watch_due_ask(r);
}

const struct recon_kind watch_kind = { .name = "watch",
	.ticks = 2,
	.state_size = sizeof(struct watch),
	.lease_lost = watch_lease_lost,
	.fini = watch_fini,
	.pass = watch_pass };
