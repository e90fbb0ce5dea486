/*
 * Keeps fleets at their size: wants missing nodes where core/fleet places them, gives surplus nodes
 * back, and empties closing fleets. The plan is stored with the fleet and in each decision. If a
 * plan calls for nothing, the next one follows when offers, refusals or the fleet change, and once
 * a minute. A pass covers a page of the fleets; the next pass follows at once until all are
 * covered.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "core/fleet/fleet.h"
#include "engine/kernel/kernel.h"
#include "engine/launch/launch.h"
#include "engine/launch/launch_priv.h"

#define PAGE 200 /* fleets in a pass */
#define AGAIN_US (60 * SPOT_US_PER_S)
/* Each reply of a launch wakes the pass, which reads all nodes. A read that takes longer than this
 * is repeated after PAUSES times as long. Thousands of nodes on their way would otherwise keep the
 * database busy. */
#define READ_LONG_US INT64_C(20000)
#define PAUSES 3

struct fleet_work {
	struct q_engine_fleets_row *fleets;
	size_t fleets_n;
	struct q_engine_fleet_nodes_row *nodes; /* in the order of the fleets */
	size_t nodes_n;
	struct q_engine_fleet_nodes_row *own; /* those of the fleet at hand */
	size_t own_n;
	uint64_t offers; /* digest */
	int64_t until_us; /* when the first cooldown ends */
};

static bool node_leaves(const struct q_engine_fleet_nodes_row *n)
{
	return n->state == NODE_DRAINING || n->state == NODE_TERMINATING;
}

/* Nodes on their way out do not count, nor does one whose place another still holds. */
static bool node_counts(const struct q_engine_fleet_nodes_row *n)
{
	return !node_leaves(n) && !n->stands_in;
}

static void node_give_back(struct recon *r, const struct q_engine_fleet_nodes_row *n,
    const char *why)
{
	if (n->state == NODE_WANTED) {
		node_unwanted(r, n->id, n->unsure, why);
	} else if (n->state == NODE_BOOTING || n->state == NODE_READY) {
		node_event(r, n->id, n->state, NODE_EV_RELEASE, "released", why);
	}
}

/* True when the node may be given back at once. */
static bool node_idle(const struct q_engine_fleet_nodes_row *n)
{
	return !n->used &&
	    (n->state == NODE_WANTED || n->state == NODE_BOOTING || n->state == NODE_READY);
}

/* Orders a pool's nodes for giving back: those not launched yet first, then the most expensive. */
static bool nodes_compare(const struct q_engine_fleet_nodes_row *a,
    const struct q_engine_fleet_nodes_row *b)
{
	bool wanted_a = a->state == NODE_WANTED, wanted_b = b->state == NODE_WANTED;

	return wanted_a != wanted_b ? wanted_a : a->price_micros > b->price_micros;
}

/* The surplus goes with the node that was to replace it. */
static void surplus_drop(struct recon *r, const struct fleet_work *t,
    const struct q_engine_fleet_nodes_row *n)
{
	node_give_back(r, n, "more than the fleet wants");
	for (size_t i = 0; i < t->own_n; i++) {
		if (t->own[i].stands_in && t->own[i].replaces_id == n->id) {
			node_give_back(r, &t->own[i], "more than the fleet wants");
		}
	}
}

static void surplus_give_back(struct recon *r, struct fleet_work *t, const struct fleet_give *give)
{
	bool *gone = arena_array(r->arena, t->own_n + 1, sizeof(*gone));

	for (int32_t k = 0; k < give->nodes; k++) {
		size_t best = SIZE_MAX;

		for (size_t i = 0; i < t->own_n; i++) {
			const struct q_engine_fleet_nodes_row *n = &t->own[i];

			if (n->pool_id == give->pool_id && !gone[i] && node_counts(n) &&
			    node_idle(n) && (best == SIZE_MAX || nodes_compare(n, &t->own[best]))) {
				best = i;
			}
		}
		if (best == SIZE_MAX) {
			return;
		}
		gone[best] = true;
		surplus_drop(r, t, &t->own[best]);
	}
}

static size_t fleet_have(struct recon *r, const struct fleet_work *t, struct fleet_have **ret,
    int64_t *ret_nodes)
{
	struct fleet_have *have = arena_array(r->arena, t->own_n + 1, sizeof(*have));
	size_t n = 0;

	*ret_nodes = 0;
	for (size_t i = 0; i < t->own_n; i++) {
		const struct q_engine_fleet_nodes_row *w = &t->own[i];
		size_t k = 0;

		if (node_leaves(w)) {
			continue;
		}
		while (k < n && have[k].pool_id != w->pool_id) {
			k++;
		}
		if (k == n) {
			have[n++] = (struct fleet_have){ .pool_id = w->pool_id,
				.zone = w->zone,
				.region = w->region,
				.provider = w->provider,
				.market = w->market,
				.gpu_milli = w->gpu_milli,
				.price_micros = w->price_micros,
				.offer = offer_find(r->e, w->pool_id) };
		}
		if (w->stands_in) {
			have[k].coming++;
			continue;
		}
		++*ret_nodes;
		have[k].nodes++;
		have[k].idle += node_idle(w);
	}
	*ret = have;
	return n;
}

void fleet_rank(struct recon *r, const struct offer *offers, size_t n, const struct fleet_use *use,
    struct score **ret, size_t *ret_n)
{
	struct place_policy k = engine_place_policy(&r->e->conf);
	struct place_market m = { .offers = offers, .offers_n = n };
	struct place_in in = { .arena = r->arena,
		.market = &m,
		.policy = &k,
		.now_us = engine_now(r->e) };

	placement_fleet(&in, &use->job, &use->saves, ret, ret_n);
}

void fleet_have_score(struct recon *r, const struct fleet_use *use, struct fleet_have *have,
    size_t n)
{
	struct offer *offers = arena_array(r->arena, n + 1, sizeof(*offers));
	struct score *scores;
	size_t usable, offers_n = 0;

	for (size_t i = 0; i < n; i++) {
		if (have[i].offer != NULL) {
			offers[offers_n] = *have[i].offer;
			offers[offers_n].cool_until_us = 0;
			offers[offers_n].capacity = -1;
			offers[offers_n++].has_quota = false;
		}
	}
	fleet_rank(r, offers, offers_n, use, &scores, &usable);
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < usable; k++) {
			if (scores[k].offer->pool_id == have[i].pool_id) {
				have[i].score = &scores[k];
			}
		}
	}
}

bool fleet_spec_read(struct recon *r, int64_t id, const char *text, struct fleet_spec **ret)
{
	struct spot_err err = { 0 };
	AUTO(json) json_t *doc = NULL;

	if (json_parse(str_from(text), "fleet.spec", &doc, &err) != SPOT_OK ||
	    fleet_spec_from_json(r->arena, doc, ret, &err) != SPOT_OK) {
		log_error("fleet.spec", I64("fleet", id), STR("error", err.text));
		return false;
	}
	return true;
}

static void node_wanted(struct step *s)
{
	offers_write_end(s->r->e);
}

static void node_want(struct recon *r, const struct q_engine_fleets_row *f,
    const struct fleet_pick *k, int64_t others, const struct fleet_plan *plan, json_t *shown)
{
	AUTO(json)
	json_t *in = json_pack("{s:I, s:s, s:I, s:O}", "now_us", (json_int_t)engine_now(r->e),
	    "fleet", f->name, "version", (json_int_t)f->version, "plan", shown);
	AUTO(json)
	json_t *out = json_pack("{s:i, s:I, s:f, s:o}", "nodes", (int)k->nodes, "marginal_micros",
	    (json_int_t)k->marginal_micros, "gap", plan->gap, "pool", score_json(k->score));
	struct step *s;

	s = step_new(r, node_wanted, NULL);
	s->always = true;
	offers_write_begin(r->e);
	STEP(s, engine_want_for_fleet,
	    (&(struct q_engine_want_for_fleet){ .fleet_id = f->id,
		.version = f->version,
		.have = others,
		.pool_id = k->score->offer->pool_id,
		.node = node_labels_make(r, (size_t)k->nodes),
		.node_n = (size_t)k->nodes,
		.price_micros = k->score->offer->price_micros,
		.inputs = json_text(r->arena, in),
		.outcome = json_text(r->arena, out),
		.why = plan->why,
		.at_us = engine_now(r->e),
		.fence = r->epoch,
		.has_size = f->has_size,
		.size = f->size }));
}

/* Gives back what a fleet that follows demand has too much: what idles for the longest. */
static void idle_give_back(struct recon *r, struct fleet_work *t, const struct fleet_ask *ask,
    const struct fleet_plan *plan)
{
	size_t *at,
	    n = fleet_idle_find(r->arena, t->own, t->own_n, ask->spec, plan->floor_want, &at);

	for (size_t i = 0; i < n; i++) {
		node_give_back(r, &t->own[at[i]], "idle, and more than the fleet wants");
	}
}

/* Returns true when the plan called for something. */
static bool plan_do(struct recon *r, struct fleet_work *t, const struct q_engine_fleets_row *f,
    const struct fleet_ask *ask, int64_t nodes, const char *impatient)
{
	struct engine *e = r->e;
	struct fleet_plan plan;
	AUTO(json) json_t *shown = NULL;
	int64_t picked = 0;
	struct step *s;

	fleet_plan_make(r->arena, ask, &plan);
	plan.why =
	    impatient != NULL ? arena_printf(r->arena, "%s; %s", impatient, plan.why) : plan.why;
	shown = fleet_plan_json(ask, &plan);
	for (size_t i = 0; i < plan.n; i++) {
		offers_count(e, plan.picks[i].score->offer, plan.picks[i].nodes);
		picked += plan.picks[i].nodes;
	}
	for (size_t i = 0; i < plan.n; i++) {
		node_want(r, f, &plan.picks[i], nodes + picked - plan.picks[i].nodes, &plan, shown);
	}
	if (f->has_size && plan.gives_n > 0) {
		idle_give_back(r, t, ask, &plan);
	}
	for (size_t i = 0; i < plan.gives_n && !f->has_size; i++) {
		surplus_give_back(r, t, &plan.gives[i]);
	}
	s = step_new(r, NULL, NULL);
	STEP(s, engine_fleet_why,
	    (&(struct q_engine_fleet_why){ .id = f->id,
		.why = plan.why,
		.plan = json_text(r->arena, shown),
		.at_us = engine_now(e),
		.fence = r->epoch }));
	return plan.n > 0 || plan.gives_n > 0;
}

/* ---- planning again -------------------------------------------------------------------------- */

static struct fleet_seen seen_make(const struct recon *r, const struct fleet_work *t,
    const struct q_engine_fleets_row *f)
{
	int64_t soon = engine_now(r->e) + AGAIN_US;
	struct fleet_seen s = { .fleet_id = f->id,
		.version = f->version,
		.offers = t->offers,
		.nodes = f->has_size ? (uint64_t)f->size + 1 : 0,
		.until_us = t->until_us != 0 ? MIN(soon, t->until_us) : soon };

	for (size_t i = 0; i < t->own_n; i++) {
		const struct q_engine_fleet_nodes_row *n = &t->own[i];

		s.nodes = hash_mix(hash_mix(s.nodes, (uint64_t)n->id), n->used);
		s.nodes = hash_mix(hash_mix(s.nodes, (uint64_t)n->state), n->stands_in);
	}
	return s;
}

struct fleet_pace {
	struct fleet_seen *seen; /* fleets whose last plan called for nothing; only pacing */
	size_t n, cap;
	int64_t after; /* the next pass begins behind this fleet; 0 = with the first */
	int64_t read_us, next_us; /* mono: the read began, and the next begins */
};

static struct fleet_seen *seen_find(const struct fleet_pace *st, int64_t fleet_id)
{
	for (size_t i = 0; i < st->n; i++) {
		if (st->seen[i].fleet_id == fleet_id) {
			return &st->seen[i];
		}
	}
	return NULL;
}

static void seen_drop(struct fleet_pace *st, int64_t fleet_id)
{
	struct fleet_seen *s = seen_find(st, fleet_id);

	if (s != NULL) {
		*s = st->seen[--st->n];
	}
}

static void seen_keep(struct fleet_pace *st, const struct fleet_seen *is)
{
	if (st->n == st->cap) {
		size_t more = st->cap + PAGE;
		struct fleet_seen *list = realloc(st->seen, more * sizeof(*list));

		if (list == NULL) {
			abort();
		}
		st->seen = list;
		st->cap = more;
	}
	st->seen[st->n++] = *is;
}

static void fleet_active(struct recon *r, struct fleet_work *t, const struct q_engine_fleets_row *f)
{
	struct engine *e = r->e;
	struct fleet_pace *st = r->state;
	struct fleet_ask ask = { .hazards = e->offers.hazards };
	struct fleet_spec *spec;
	struct fleet_have *have;
	struct fleet_use *use = arena_alloc(r->arena, sizeof(*use));
	struct fleet_seen is = seen_make(r, t, f);
	struct score *scores;
	const char *impatient;
	int64_t nodes;

	if (!fleet_again(seen_find(st, f->id), &is, engine_now(e)) ||
	    !fleet_spec_read(r, f->id, f->spec, &spec)) {
		return;
	}
	seen_drop(st, f->id);
	if (f->has_size) {
		fleet_spec_resize(spec, f->size);
	}
	fleet_job(spec, &use->job);
	use->saves = (struct fleet_saves){ f->saved_bytes, f->save_us };
	fleet_rank(r, e->offers.list, e->offers.n, use, &scores, &ask.scores_n);
	impatient = fleet_spot_given_up(r->arena, scores, &ask.scores_n,
	    &(struct supply_in){ .now_us = engine_now(e), .queued_us = f->refused_us },
	    &e->conf.supply);
	ask.scores = scores;
	ask.spec = spec;
	ask.have_n = fleet_have(r, t, &have, &nodes);
	fleet_have_score(r, use, have, ask.have_n);
	ask.have = have;
	if (!plan_do(r, t, f, &ask, nodes, impatient)) {
		seen_keep(st, &is);
	}
}

static void fleet_closing(struct recon *r, struct fleet_work *t,
    const struct q_engine_fleets_row *f)
{
	struct step *s;

	seen_drop(r->state, f->id);
	for (size_t i = 0; i < t->own_n; i++) {
		if (!t->own[i].used) {
			node_give_back(r, &t->own[i], "the fleet is closing");
		}
	}
	s = step_new(r, NULL, NULL);
	STEP(s, engine_fleet_closed,
	    (&(struct q_engine_fleet_closed){ .id = f->id,
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
}

/* Fleets come in the order of their nodes: those of the next one begin behind the last one's. */
static void nodes_own(struct fleet_work *t, int64_t fleet_id)
{
	const struct q_engine_fleet_nodes_row *end = t->nodes + t->nodes_n;

	t->own = t->own == NULL ? t->nodes : t->own + t->own_n;
	while (t->own < end && t->own->fleet_id < fleet_id) {
		t->own++;
	}
	t->own_n = 0;
	while (t->own + t->own_n < end && t->own[t->own_n].fleet_id == fleet_id) {
		t->own_n++;
	}
}

static void fleet_decide(struct recon *r, void *ctx)
{
	struct fleet_work *t = ctx;
	struct engine *e = r->e;

	t->offers = offers_digest(e->offers.list, e->offers.n, engine_now(e), &t->until_us);
	for (size_t i = 0; i < t->fleets_n; i++) {
		part_begin(r); /* a plan scores the whole market */
		nodes_own(t, t->fleets[i].id);
		if (t->fleets[i].state == FLEET_ACTIVE) {
			fleet_active(r, t, &t->fleets[i]);
		} else {
			fleet_closing(r, t, &t->fleets[i]);
		}
		part_end(r);
	}
}

static void fleet_nodes(struct step *s)
{
	struct fleet_work *t = s->ctx;
	struct fleet_pace *st = s->r->state;
	int64_t now = loop_mono_us(s->r->e->loop), took = now - st->read_us;

	st->next_us = took > READ_LONG_US ? now + PAUSES * took : 0;
	t->nodes_n = q_engine_fleet_nodes_rows(&s->req, s->r->arena, &t->nodes);
	offers_need(s->r, fleet_decide, t);
}

static void fleets_in(struct step *s)
{
	struct fleet_pace *st = s->r->state;
	struct fleet_work *t = arena_alloc(s->r->arena, sizeof(*t));
	size_t n = q_engine_fleets_rows(&s->req, s->r->arena, &t->fleets);
	int64_t *ids = arena_array(s->r->arena, n + 1, sizeof(*ids));
	struct step *next;
	bool more;

	while (t->fleets_n < n && t->fleets[t->fleets_n].spec != NULL) {
		ids[t->fleets_n] = t->fleets[t->fleets_n].id;
		t->fleets_n++;
	}
	more = t->fleets_n < n || n == PAGE;
	st->after = more ? ids[t->fleets_n - 1] : 0;
	s->r->changed |= more;
	if (t->fleets_n == 0) {
		return;
	}
	st->read_us = loop_mono_us(s->r->e->loop);
	next = step_new(s->r, fleet_nodes, t);
	STEP(next, engine_fleet_nodes,
	    (&(struct q_engine_fleet_nodes){ .fleets = ids, .fleets_n = t->fleets_n }));
}

static void fleet_pass(struct recon *r, void *state)
{
	const struct fleet_pace *st = state;
	int64_t wait_us = st->next_us - loop_mono_us(r->e->loop);
	struct step *s;

	if (wait_us > 0) {
		recon_later(r, wait_us);
		return;
	}
	s = step_new(r, fleets_in, NULL);
	STEP(s, engine_fleets,
	    (&(struct q_engine_fleets){ .after_id = st->after,
		.most = PAGE,
		.spec_bytes = SPEC_BYTES,
		.at_us = engine_now(r->e) }));
}

static void fleet_fini(void *state)
{
	struct fleet_pace *st = state;

	free(st->seen);
}

const struct recon_kind fleet_kind = { .name = "fleet",
	.wakes = TOUCH_FLEET | TOUCH_NODE | TOUCH_ATTEMPT | TOUCH_JOB | TOUCH_MARKET,
	.state_size = sizeof(struct fleet_pace),
	.fini = fleet_fini,
	.pass = fleet_pass };
