/* Our policy for a fleet: its set-up, launches and plan (held_ours.h). */
#include "base/base.h"

#include "fleets/held_ours.h"

static void *mind_init(struct fs_sim *s, const void *arg)
{
	static const struct ours_conf whole;
	struct held *h = held_of(s);
	struct mind *m = arena_alloc(s->arena, sizeof(*m));

	m->conf = arg;
	ours_begin(s, &m->o, &whole);
	place_policy_default(&m->place);
	m->place.rank = m->o.rank;
	m->place.supply = m->o.supply;
	m->place.store_provider = h->s.w->jobs[0].store_provider;
	m->place.store_region = h->s.w->jobs[0].store_region;
	m->spec = *h->spec;
	if (m->conf->on_demand) {
		m->spec.asks = arena_alloc(s->arena, sizeof(*m->spec.asks));
		m->spec.asks[0] = h->spec->asks[0];
		m->spec.asks[0].use_spot = 0;
	}
	if (m->conf->no_floor) {
		m->spec.on_demand_floor = m->spec.floor_pm = 0;
	}
	m->spec.pools_min = m->conf->no_pools_min ? 1 : m->spec.pools_min;
	if (m->conf->no_size || m->spec.scaling == NULL) {
		m->spec.scaling = NULL;
		m->spec.nodes = held_most(h->spec);
	}
	fleet_job(&m->spec, &m->job);
	return m;
}

/* ---- launches -------------------------------------------------------------------------------- */

bool mind_launch(struct held *h, struct mind *m, int32_t pool, int64_t replaces)
{
	struct fs_sim *s = &h->s;
	size_t before = s->nodes_n;
	bool got = held_launch(h, pool, replaces);

	market_tried(s, &m->o, pool, got, s->t);
	m->sent = arena_grow(s->arena, m->sent, m->sent_n, &m->sent_cap, sizeof(*m->sent));
	m->sent[m->sent_n++] = (struct sent){ .at_us = s->t,
		.node = got ? (int64_t)before : -1,
		.before = before,
		.pool = pool,
		.probe = replaces >= 0 };
	return got;
}

bool node_was_ready(const struct held *h, int64_t node)
{
	const struct fs_node *n = &h->s.nodes[node];

	return n->ready_us <= h->s.t && (n->ended_us == 0 || n->ended_us > n->ready_us);
}

bool node_counts(const struct held *h, int64_t node)
{
	return held_there(h, node) && !held_stands_in(h, node);
}

/* Returns since when spot launches are refused, without one that became ready; 0 = they are not. */
static int64_t refused_since(const struct held *h, const struct mind *m)
{
	int64_t since = 0;
	size_t newest = h->s.nodes_n;

	while (newest > 0 && !node_was_ready(h, (int64_t)newest - 1)) {
		newest--;
	}
	for (size_t i = m->sent_n; i > 0; i--) {
		const struct sent *x = &m->sent[i - 1];

		if (x->before < newest || x->at_us < h->s.t - PAST_US) {
			break;
		}
		if (x->node < 0 && !x->probe && h->s.w->pools[x->pool].market == SPOT_MARKET_SPOT) {
			since = sim_now(&h->s, x->at_us);
		}
	}
	return since;
}

/* ---- nodes as the plan and the moves read them ----------------------------------------------- */

struct fleet_have *have_find(const struct held *h, struct mind *m, struct fleet_ask *ask,
    struct fleet_have *list, int32_t pool)
{
	const struct fs_pool *p = &h->s.w->pools[pool];
	size_t k = 0;

	while (k < ask->have_n && list[k].pool_id != pool) {
		k++;
	}
	if (k == ask->have_n) {
		list[ask->have_n++] = (struct fleet_have){ .pool_id = pool,
			.zone = p->zone,
			.region = p->region,
			.provider = p->provider,
			.market = p->market,
			.gpu_milli = p->gpu_milli,
			.price_micros = fs_price(p, h->s.t),
			.offer = &m->o.offers[pool] };
	}
	return &list[k];
}

/* The newest jobs that ran, as migration 0049 reads them. */
#define SAVES_OF 20

static struct fleet_saves saves_read(const struct held *h)
{
	int64_t bytes = 0, save_us = 0, n = 0, ran = 0;

	for (size_t i = h->s.w->jobs_n; i > 0 && ran < SAVES_OF; i--) {
		const struct fs_task *k = &h->s.tasks[i - 1];

		ran += k->starts > 0;
		if (k->has_checkpoint) {
			bytes += k->job->checkpoint_bytes;
			save_us += k->job->save_us;
			n++;
		}
	}
	return n > 0 ? (struct fleet_saves){ bytes / n, save_us / n } : (struct fleet_saves){ 0 };
}

static void market_score(const struct held *h, struct mind *m, const struct offer *offers, size_t n,
    struct score **ret, size_t *ret_n)
{
	struct place_market market = { .offers = offers, .offers_n = n };
	struct fleet_saves saves = saves_read(h);

	placement_fleet(&(struct place_in){ .arena = m->o.step,
			    .market = &market,
			    .policy = &m->place,
			    .now_us = sim_now(&h->s, h->s.t) },
	    &m->job, &saves, ret, ret_n);
}

/* The scores of the pools in use, whether they cool or not. */
void have_end(const struct held *h, struct mind *m, struct fleet_ask *ask, struct fleet_have *list)
{
	size_t n = ask->have_n;
	struct offer *offers = arena_array(m->o.step, n + 1, sizeof(*offers));
	struct score *scores;
	size_t scores_n;

	for (size_t i = 0; i < n; i++) {
		offers[i] = *list[i].offer;
		offers[i].cool_until_us = 0;
	}
	market_score(h, m, offers, n, &scores, &scores_n);
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < scores_n; k++) {
			if (scores[k].offer->pool_id == list[i].pool_id) {
				list[i].score = &scores[k];
			}
		}
	}
	ask->have = list;
}

struct score *ask_begin(struct held *h, struct mind *m, struct fleet_ask *ret)
{
	struct score *scores;

	market_need(&h->s, &m->o);
	*ret = (struct fleet_ask){ .spec = &m->spec, .hazards = m->o.model };
	market_score(h, m, m->o.offers, h->s.w->pools_n, &scores, &ret->scores_n);
	ret->scores = scores;
	return scores;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static void have_fill(struct held *h, struct mind *m, struct fleet_ask *ask)
{
	struct fleet_have *list = arena_array(m->o.step, h->alive_n + 1, sizeof(*list));

	for (size_t i = 0; i < h->alive_n; i++) {
		int64_t node = h->alive[i];
		struct fleet_have *x;

		if (!held_there(h, node)) {
			continue;
		}
		x = have_find(h, m, ask, list, h->s.nodes[node].pool);
		if (held_stands_in(h, node)) {
			x->coming++;
		} else {
			x->nodes++;
			x->idle += held_idle(h, node);
		}
	}
	have_end(h, m, ask, list);
}

static void gives_drop(struct held *h, const struct fleet_plan *plan)
{
	for (size_t g = 0; g < plan->gives_n; g++) {
		int32_t left = plan->gives[g].nodes;

		for (size_t i = 0; i < h->alive_n && left > 0; i++) {
			int64_t node = h->alive[i];

			if (node_counts(h, node) && held_idle(h, node) &&
			    h->s.nodes[node].pool == plan->gives[g].pool_id) {
				surplus_drop(h, node);
				left--;
			}
		}
	}
}

static void plan_step(struct held *h, struct mind *m)
{
	struct fleet_ask ask;
	struct score *scores = ask_begin(h, m, &ask);
	struct fleet_plan plan;

	(void)fleet_spot_given_up(m->o.step, scores, &ask.scores_n,
	    &(struct supply_in){ .now_us = sim_now(&h->s, h->s.t),
		.queued_us = refused_since(h, m) },
	    &m->o.supply);
	have_fill(h, m, &ask);
	fleet_plan_make(m->o.step, &ask, &plan);
	for (size_t i = 0; i < plan.n; i++) {
		for (int32_t k = 0; k < plan.picks[i].nodes; k++) {
			(void)mind_launch(h, m, plan.picks[i].score->offer->pool_id, -1);
		}
	}
	if (m->spec.scaling != NULL && plan.gives_n > 0) {
		idle_drop(h, m, plan.floor_want);
	} else {
		gives_drop(h, &plan);
	}
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void mind_step(struct fs_sim *s, void *self, int64_t t)
{
	struct held *h = held_of(s);
	struct mind *m = self;

	m->o.offers = NULL;
	arena_reset(m->o.step);
	market_step(s, &m->o, t);
	pairs_step(h, m);
	size_step(h, m);
	plan_step(h, m);
	if (!m->conf->no_return && !m->conf->on_demand && return_due(h, m)) {
		moves_step(h, m, true);
	}
	if (!m->conf->no_rebalance && t - m->rebalanced_us >= REBALANCE_EVERY_US) {
		m->rebalanced_us = t;
		moves_step(h, m, false);
	}
}

static void mind_reclaimed(struct fs_sim *s, void *self, const struct fs_node *n, int64_t t)
{
	struct mind *m = self;

	market_reclaimed(s, &m->o, n->pool, t);
}

static void mind_end(void *self)
{
	struct mind *m = self;

	arena_free(m->o.step);
}

void held_ours(const char *name, const struct held_conf *conf, struct fs_brain *ret)
{
	*ret = (struct fs_brain){
		.name = name,
		.hears_notice = true,
		.init = mind_init,
		.end = mind_end,
		.step = mind_step,
		.interval = ours_interval,
		.reclaimed = mind_reclaimed,
		.arg = conf,
	};
}
