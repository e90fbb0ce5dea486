/* The choice of a fleet's moves: one after the other, the largest gain first (fleet_move.h). */
#include "base/base.h"
#include "base/text/text.h"
#include "core/fleet/fleet_priv.h"

#include <math.h>

/* Destinations looked at: the cheapest of each zone and kind of market, so that full groups of
 * cheap pools hide no others. */
#define ZONE_MOST 24
#define DESTS_MOST 2048
/* Feasible destinations that are weighed for one node, the cheapest first. */
#define WEIGHED_MOST 24
/* Moves beyond those that may begin now are only shown. */
#define SHOWN_MOST 32

/* ---- destinations ---------------------------------------------------------------------------- */

static int dest_compare(const void *pa, const void *pb)
{
	const struct fleet_item *a = *(struct fleet_item *const *)pa;
	const struct fleet_item *b = *(struct fleet_item *const *)pb;

	if (a->c != b->c) {
		return a->c < b->c ? -1 : 1;
	}
	return (a->pool_id > b->pool_id) - (a->pool_id < b->pool_id);
}

static bool dest_allowed(const struct fleet_movement *x, const struct fleet_item *i, bool ending)
{
	const struct fleet_move_in *in = x->in;

	return i->score != NULL && i->w > 0 &&
	    (!in->return_only || ending || spot_market_reclaims(i->offer->market)) &&
	    (in->tight == NULL || !in->tight(in->tight_ctx, i->offer));
}

/* ending: also for nodes whose capacity ends. */
static void dests_find(struct fleet_movement *x, bool ending)
{
	struct fleet_model *m = &x->m;
	int32_t *zones = arena_array(x->arena, 2 * m->groups_n + 1, sizeof(*zones));
	/* Arrays of pointers. NOLINTBEGIN(bugprone-sizeof-expression) */
	struct fleet_item **all = arena_array(x->arena, m->n + 1, sizeof(*all));
	size_t n = 0;

	for (size_t k = 0; k < m->n; k++) {
		if (dest_allowed(x, &m->items[k], ending)) {
			all[n++] = &m->items[k];
		}
	}
	if (n > 1) {
		qsort(all, n, sizeof(*all), dest_compare);
	}
	/* NOLINTEND(bugprone-sizeof-expression) */
	x->dests = all;
	x->dests_n = 0;
	for (size_t k = 0; k < n && x->dests_n < DESTS_MOST; k++) {
		int32_t *zone = &zones[2 * all[k]->g[FG_ZONE] + (all[k]->fw > 0)];

		if (++*zone <= ZONE_MOST) {
			all[x->dests_n++] = all[k];
		}
	}
}

/* ---- one pair -------------------------------------------------------------------------------- */

static double hours_of(int64_t us)
{
	return (double)us / (double)SPOT_US_PER_HOUR;
}

static double rest_hours(const struct fleet_move_in *in, int64_t ends_us,
    const struct fleet_item *from, const struct fleet_item *to)
{
	double h = hours_of(in->policy->rest_us);
	double here = from->u > 0 ? from->q / from->u : 0, there = to->u > 0 ? to->q / to->u : 0;
	double hazard = fmax(here * here, there * there);

	if (in->expires_us > 0) {
		h = hours_of(MAX(in->expires_us - in->now_us, 0));
	}
	if (ends_us > 0) {
		h = fmin(h, hours_of(MAX(ends_us - in->now_us, 0)));
	}
	if (to->offer->ends_us > 0) {
		h = fmin(h, hours_of(MAX(to->offer->ends_us - in->now_us, 0)));
	}
	return hazard > 0 ? fmin(h, 1 / hazard) : h;
}

static int64_t egress_micros(const struct fleet_move_in *in, const struct fleet_move_node *n,
    const struct fleet_item *from, const struct offer *to)
{
	const char *provider = in->store_provider, *region = in->store_region;

	if (n->checkpoint_bytes <= 0) {
		return 0;
	}
	if (str_empty(provider) && from->offer != NULL) {
		provider = from->offer->provider;
		region = from->offer->region;
	}
	if (provider == NULL || region == NULL) {
		return 0;
	}
	return llround((double)n->checkpoint_bytes / 1e9 *
	    (double)egress_micros_per_gb(provider, region, to->provider, to->region));
}

/* Fills the costs of the pair. The old machine is paid until the new one holds the job. */
static void costs_fill(const struct fleet_move_in *in, const struct fleet_move_node *n,
    const struct fleet_item *from, const struct fleet_item *to, struct fleet_move *ret)
{
	const struct supply_policy *p = in->policy->supply;
	int64_t both = p->changeover_us + (n->job_id != 0 ? p->return_hold_us + n->save_us : 0);
	int64_t stop = n->job_id != 0 ? n->save_us + n->restart_us : 0;

	ret->both_micros = llround((double)n->price_micros * hours_of(both));
	ret->restart_micros = llround((double)to->score->price_micros * hours_of(stop));
	ret->egress_micros = egress_micros(in, n, from, to->offer);
	ret->cost_micros = ret->both_micros + ret->restart_micros + ret->egress_micros;
}

double fleet_move_net(const struct fleet_move_in *in, const struct fleet_move *m)
{
	return (double)m->saving_micros * m->share -
	    (double)m->cost_micros * (double)(1000 + in->policy->supply->return_margin_pm) / 1000;
}

void fleet_pair_fill(const struct fleet_movement *x, size_t node, const struct fleet_item *from,
    const struct fleet_item *to, struct fleet_move *ret)
{
	const struct fleet_move_in *in = x->in;
	double drop = fleet_marginal(&x->m, from) - fleet_marginal(&x->m, to);
	double per = to->u > 0 && to->score->throughput > 0 ? to->score->throughput / to->u : 1;
	double rest = rest_hours(in, in->nodes[node].ends_us, from, to);

	*ret = (struct fleet_move){ .node = node,
		.here = from->score != NULL ? from->score
		    : from->have != NULL    ? from->have->score
					    : NULL,
		.to = to->score,
		.hourly_micros = llround(drop * per * 1e6),
		.risk_micros = llround((drop - (from->c - to->c)) * per * 1e6),
		.rest_us = llround(rest * (double)SPOT_US_PER_HOUR),
		.saving_micros = llround(drop * per * rest * 1e6),
		.share = return_share(to->offer, in->refused, in->refused_n) };
	costs_fill(in, &in->nodes[node], from, to, ret);
}

bool fleet_pair_keeps(struct fleet_movement *x, const struct fleet_item *to)
{
	const struct fleet_model *m = &x->m;
	const struct fleet_kept *was = &x->was;

	if (!fleet_room(m, to) || m->total + to->w < was->total) {
		return false;
	}
	if (m->floor_have + to->fw < was->floor) {
		x->binds = "it stays for the floor: on_demand_floor";
		return false;
	}
	if (m->pools + (to->spread && to->x == 0) < was->pools) {
		x->binds = "it stays for the number of pools: pools_min";
		return false;
	}
	return true;
}

bool fleet_job_suits(const struct fleet_movement *x, const struct fleet_move_node *n,
    const struct offer *o)
{
	for (size_t i = 0; i < n->asks_n; i++) {
		if (offer_refusal(x->arena, o, &n->asks[i]) == NULL &&
		    (!spot_market_reclaims(o->market) || n->asks[i].use_spot != 0)) {
			return true;
		}
	}
	return n->asks_n == 0;
}

/* ---- one node -------------------------------------------------------------------------------- */

/* Chooses the destination with the largest gain for one node. Returns false when none is better
 * for the objective. */
static bool node_choose(struct fleet_movement *x, size_t node, struct fleet_move *ret)
{
	struct fleet_item *from = x->at[node];
	const struct fleet_move_node *n = &x->in->nodes[node];
	double best = -INFINITY, worth;
	size_t weighed = 0;

	x->binds = NULL;
	fleet_put(&x->m, from, -1);
	worth = fleet_marginal(&x->m, from);
	for (size_t k = 0; k < x->dests_n && weighed < WEIGHED_MOST && x->dests[k]->c < worth;
	     k++) {
		struct fleet_item *to = x->dests[k];
		struct fleet_move m = { 0 };

		if (to == from || fleet_marginal(&x->m, to) >= worth || !fleet_pair_keeps(x, to)) {
			continue;
		}
		fleet_pair_fill(x, node, from, to, &m);
		x->weighed++;
		if (fleet_move_net(x->in, &m) > best && fleet_job_suits(x, n, to->offer)) {
			best = fleet_move_net(x->in, &m);
			*ret = m;
			x->to[node] = to;
		}
		weighed++;
	}
	fleet_put(&x->m, from, 1);
	return best > -INFINITY;
}

/* ---- the order of the moves ------------------------------------------------------------------ */

static struct fleet_item *item_find(struct fleet_model *m, int32_t pool_id)
{
	size_t lo = 0, hi = m->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (((uint32_t)m->items[mid].pool_id ^ UINT32_C(0x80000000)) <
		    ((uint32_t)pool_id ^ UINT32_C(0x80000000))) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo < m->n && m->items[lo].pool_id == pool_id ? &m->items[lo] : NULL;
}

void fleet_kept_read(struct fleet_movement *x)
{
	const struct fleet_model *m = &x->m;

	x->was = (struct fleet_kept){ .total = MIN(m->total, m->want),
		.floor = MIN(m->floor_have, m->floor),
		.pools = MIN(m->pools, m->pools_want) };
}

/* Chooses the next move. Nodes are asked in their order, so ties go to the first. now: only of
 * nodes whose move may begin beside those of so_far. */
static bool next_choose(struct fleet_movement *x, const struct fleet_moves *so_far, bool now,
    struct fleet_move *ret)
{
	double best = 0;

	fleet_kept_read(x);
	for (size_t i = 0; i < x->in->n; i++) {
		struct fleet_move m = { 0 };

		if (x->why[i] != NULL || x->moved[i] ||
		    (now && fleet_move_waits(x, so_far, i) != NULL)) {
			continue;
		}
		x->better[i] = node_choose(x, i, &m);
		x->bound[i] = x->binds;
		if (!x->better[i]) {
			continue;
		}
		x->best[i] = m;
		if (fleet_move_net(x->in, &m) > best) {
			best = fleet_move_net(x->in, &m);
			*ret = m;
		}
	}
	return best > 0;
}

/* Returns true when the capacity of a node ends. */
static bool movement_init(struct fleet_movement *x, struct arena *a, const struct fleet_move_in *in)
{
	size_t n = in->n + 1;
	struct fleet_least least;
	bool ending = false;

	*x = (struct fleet_movement){ .arena = a, .in = in };
	fleet_least_find(in->ask, &least);
	fleet_model_build(&x->m, a, in->ask, false, &least);
	/* Arrays of pointers. NOLINTBEGIN(bugprone-sizeof-expression) */
	x->at = arena_array(a, n, sizeof(*x->at));
	x->to = arena_array(a, n, sizeof(*x->to));
	/* NOLINTEND(bugprone-sizeof-expression) */
	x->why = arena_array(a, n, sizeof(*x->why));
	x->best = arena_array(a, n, sizeof(*x->best));
	x->moved = arena_array(a, n, sizeof(*x->moved));
	x->better = arena_array(a, n, sizeof(*x->better));
	x->bound = arena_array(a, n, sizeof(*x->bound));
	for (size_t i = 0; i < in->n; i++) {
		x->at[i] = item_find(&x->m, in->nodes[i].pool_id);
		x->why[i] = fleet_move_never(x, i);
		ending |= x->why[i] == NULL && fleet_node_ends(x, i);
	}
	return ending;
}

static void move_take(struct fleet_movement *x, struct fleet_moves *ret, struct fleet_move *m)
{
	x->moved[m->node] = true;
	fleet_put(&x->m, x->at[m->node], -1);
	fleet_put(&x->m, x->to[m->node], 1);
	m->why = fleet_move_words(x, m, m->now ? NULL : fleet_move_waits(x, ret, m->node));
	ret->moves[ret->n++] = *m;
	ret->now += m->now;
}

/* The moves that begin now are chosen first: none of them may need one that waits. */
void fleet_moves_choose(struct arena *a, const struct fleet_move_in *in, struct fleet_moves *ret)
{
	struct fleet_movement x;
	struct fleet_move m = { 0 };
	bool ending;

	*ret = (struct fleet_moves){ 0 };
	ending = movement_init(&x, a, in);
	ret->moves = arena_array(a, in->n + 1, sizeof(*ret->moves));
	ret->before_micros = llround(fleet_cost(&x.m, NULL) * 1e6);
	if (ending) {
		dests_find(&x, true);
		fleet_endings_choose(&x, ret);
	}
	dests_find(&x, false);
	while (next_choose(&x, ret, true, &m)) {
		m.now = true;
		move_take(&x, ret, &m);
	}
	while (ret->n < ret->now + SHOWN_MOST && next_choose(&x, ret, false, &m)) {
		move_take(&x, ret, &m);
	}
	ret->after_micros = llround(fleet_cost(&x.m, NULL) * 1e6);
	ret->weighed = x.weighed;
	fleet_stays_fill(&x, ret);
}
