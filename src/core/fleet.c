/* Spreading a fleet's missing nodes: greedy by expected dollars per unit of work, under limits. */
#include "base/base.h"
#include "base/arena.h"
#include "core/fleet.h"

struct alloc {
	const struct fleet_spec *f;
	const struct fleet_have *have;
	size_t have_n;
	struct fleet_plan *plan;
	int32_t pool_share;   /* even spread: nodes per pool before others are used */
};

static int32_t picked_in(const struct alloc *x, const struct offer *o, char scope)
{
	int32_t n = 0;

	for (size_t i = 0; i < x->have_n; i++) {
		const struct fleet_have *h = &x->have[i];
		bool same = strcmp(h->provider, o->provider) == 0;

		if (scope != 'v') {
			same = same && strcmp(h->region, o->region) == 0 && strcmp(h->zone, o->zone) == 0;
		}
		if (scope == 'p') {
			same = h->pool_id == o->pool_id;
		}
		n += same ? h->nodes : 0;
	}
	for (size_t i = 0; i < x->plan->n; i++) {
		const struct offer *p = x->plan->picks[i].score->offer;
		bool same = strcmp(p->provider, o->provider) == 0;

		if (scope != 'v') {
			same = same && strcmp(p->region, o->region) == 0 && strcmp(p->zone, o->zone) == 0;
		}
		if (scope == 'p') {
			same = p->pool_id == o->pool_id;
		}
		n += same ? x->plan->picks[i].nodes : 0;
	}
	return n;
}

static bool fits(const struct alloc *x, const struct offer *o, int32_t pool_max)
{
	const struct fleet_spec *f = x->f;

	if (pool_max > 0 && picked_in(x, o, 'p') >= pool_max) {
		return false;
	}
	if (f->per_pool_max > 0 && picked_in(x, o, 'p') >= f->per_pool_max) {
		return false;
	}
	if (f->per_zone_max > 0 && picked_in(x, o, 'z') >= f->per_zone_max) {
		return false;
	}
	return f->per_provider_max == 0 || picked_in(x, o, 'v') < f->per_provider_max;
}

static void pick_add(struct alloc *x, const struct score *s)
{
	for (size_t i = 0; i < x->plan->n; i++) {
		if (x->plan->picks[i].score == s) {
			x->plan->picks[i].nodes++;
			return;
		}
	}
	x->plan->picks[x->plan->n++] = (struct fleet_pick){.score = s, .nodes = 1};
}

static size_t pools_used(const struct alloc *x)
{
	size_t n = x->have_n;

	for (size_t i = 0; i < x->plan->n; i++) {
		bool had = false;

		for (size_t k = 0; k < x->have_n && !had; k++) {
			had = x->have[k].pool_id == x->plan->picks[i].score->offer->pool_id;
		}
		n += !had;
	}
	return n;
}

/* The best score in a market (NONE = any) that still fits. Until enough pools are in use only an unused one will do
 * (an even share alone is not enough: eight nodes in twos are four pools), then the even share, then whatever the
 * limits allow, because capacity matters more than perfect spread. */
static const struct score *best_fit(const struct alloc *x, const struct score *scores, size_t usable,
    enum spot_market market)
{
	int32_t shares[] = {1, x->pool_share, 0};
	size_t first = pools_used(x) < (size_t)MAX(x->f->pools_min, 1) ? 0 : 1;

	for (size_t r = first; r < ARRAY_LEN(shares); r++) {
		for (size_t i = 0; i < usable; i++) {
			if ((market == SPOT_MARKET_NONE || scores[i].offer->market == market) &&
			    fits(x, scores[i].offer, shares[r])) {
				return &scores[i];
			}
		}
	}
	return NULL;
}

static int32_t have_nodes(const struct alloc *x, enum spot_market market, int64_t *ret_milli)
{
	int32_t n = 0;

	for (size_t i = 0; i < x->have_n; i++) {
		if (market == SPOT_MARKET_NONE || x->have[i].market == market) {
			n += x->have[i].nodes;
			*ret_milli += (int64_t)x->have[i].gpu_milli * x->have[i].nodes;
		}
	}
	return n;
}

static void take_floor(struct alloc *x, const struct score *scores, size_t usable, int64_t *nodes, int64_t *milli)
{
	int64_t unused = 0;
	int32_t have = have_nodes(x, SPOT_MARKET_ON_DEMAND, &unused);

	for (; have < x->f->on_demand_floor; have++) {
		const struct score *s = best_fit(x, scores, usable, SPOT_MARKET_ON_DEMAND);

		if (s == NULL) {
			return;
		}
		pick_add(x, s);
		*nodes += 1;
		*milli += s->offer->gpu_milli;
	}
}

void fleet_allocate(struct arena *a, const struct fleet_spec *f, const struct fleet_have *have, size_t have_n,
    const struct score *scores, size_t usable, struct fleet_plan *ret)
{
	struct alloc x = {.f = f, .have = have, .have_n = have_n, .plan = ret};
	size_t pools = MIN(usable, (size_t)MAX(f->pools_min, 1));
	int64_t milli = 0, want_milli = (int64_t)f->gpus * 1000;
	int64_t nodes = have_nodes(&x, SPOT_MARKET_NONE, &milli);
	int32_t unit_nodes;

	*ret = (struct fleet_plan){.picks = arena_array(a, usable + 1, sizeof(*ret->picks))};
	unit_nodes = f->nodes > 0 ? f->nodes
	                          : (usable > 0 && scores[0].offer->gpu_milli > 0
	                                    ? (int32_t)((want_milli + scores[0].offer->gpu_milli - 1) / scores[0].offer->gpu_milli)
	                                    : 0);
	x.pool_share = pools > 0 ? (unit_nodes + (int32_t)pools - 1) / (int32_t)pools : 0;
	if (f->nodes > 0 ? nodes > f->nodes : milli > want_milli && nodes > 0 && f->gpus > 0) {
		ret->surplus = f->nodes > 0 ? (int32_t)(nodes - f->nodes)
		                            : (int32_t)((milli - want_milli) * nodes / milli);
	}
	if (f->nodes == 0 && f->gpus == 0) {
		ret->surplus = (int32_t)nodes;
	}
	take_floor(&x, scores, usable, &nodes, &milli);
	while (f->nodes > 0 ? nodes < f->nodes : milli < want_milli) {
		const struct score *s = best_fit(&x, scores, usable, SPOT_MARKET_NONE);

		if (s == NULL || (f->nodes == 0 && s->offer->gpu_milli <= 0)) {
			ret->missing = f->nodes > 0 ? (int32_t)(f->nodes - nodes) : (int32_t)((want_milli - milli + 999) / 1000);
			break;
		}
		pick_add(&x, s);
		nodes++;
		milli += s->offer->gpu_milli;
	}
	ret->why = arena_printf(a, "%zu pools chosen of %zu usable, %d missing, %d surplus", ret->n, usable, ret->missing,
	    ret->surplus);
}
