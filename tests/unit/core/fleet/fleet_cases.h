/* Random fleets, and an evaluation of their plans that follows core/fleet/fleet.h and shares no
 * code with the allocation. */
#ifndef FLEET_CASES_H
#define FLEET_CASES_H

#include "base/base.h"
#include "core/fleet/fleet.h"
#include "core/hazard/hazard.h"

#include <math.h>

#define POOLS_MAX 60

struct made {
	struct offer o[POOLS_MAX];
	struct score s[POOLS_MAX];
	struct fleet_have have[POOLS_MAX];
	struct fleet_spec f;
	struct fleet_ask ask;
	size_t n;
	double joint[4];
};

static const struct rank_policy policy = { .prior_hours = 100,
	.unknown_spot_per_hour = 0.1,
	.on_demand_per_hour = 0.0005,
	.age_half_life_h = 336,
	.odds_half_life_h = 8,
	.recent_half_life_h = 8 };

static int32_t maybe(struct rng *r, unsigned odds, unsigned most)
{
	return rng_below(r, odds) == 0 ? (int32_t)(1 + rng_below(r, most)) : 0;
}

static void offer_make(struct made *x, size_t k, struct rng *r)
{
	static const char *const providers[] = { "aws", "gcp" }, *const regions[] = { "r1", "r2" };
	static const char *const zones[] = { "a", "b" },
				 *const gpus[] = { "A100-80GB", "L4", "H100-80GB-SXM" };
	static const int32_t counts[] = { 1, 1, 2, 4, 8 };
	struct offer *o = &x->o[k];
	size_t gpu = rng_below(r, 3);
	bool spot = rng_below(r, 3) != 0;

	*o = (struct offer){ .pool_id = (int32_t)(100 + k * 7),
		.provider = providers[rng_below(r, 2)],
		.region = regions[rng_below(r, 2)],
		.zone = zones[rng_below(r, 2)],
		.zone_name = "",
		.instance_type = "t",
		.gpu_name = gpus[gpu],
		.gpu_milli = x->f.nodes > 0 ? 1000 : 1000 * counts[rng_below(r, 5)],
		.market = spot             ? SPOT_MARKET_SPOT
		    : rng_below(r, 8) == 0 ? SPOT_MARKET_RESERVED
					   : SPOT_MARKET_ON_DEMAND,
		.vcpus = 4,
		.quota_class = gpu == 0 ? "P" : "G",
		.quota_unit = "vcpu" };
	o->price_micros = (int64_t)(300000 + rng_below(r, 3000000)) * o->gpu_milli / 1000;
	x->s[k] = (struct score){ .offer = o,
		.total_micros = o->price_micros * 1000 / o->gpu_milli,
		.work_h = 1,
		.throughput = 1,
		.hazard = spot ? 0.005 + 0.2 * rng_unit(r) : 0.0005 };
}

/* One room per class, market and region, as accounts have it. */
static void quotas_make(struct made *x, struct rng *r)
{
	for (size_t k = 0; k < x->n; k++) {
		struct offer *o = &x->o[k];

		o->has_quota = true;
		o->quota_used = 8;
		o->quota_limit = o->quota_used + (int64_t)rng_below(r, 30);
		for (size_t i = 0; i < k; i++) {
			if (x->o[i].market == o->market &&
			    strcmp(x->o[i].provider, o->provider) == 0 &&
			    strcmp(x->o[i].region, o->region) == 0 &&
			    strcmp(x->o[i].quota_class, o->quota_class) == 0) {
				o->quota_limit = x->o[i].quota_limit;
			}
		}
	}
}

static void have_make(struct made *x, struct rng *r)
{
	for (size_t k = 0; k < x->n; k++) {
		const struct offer *o = &x->o[k];

		if (rng_below(r, 4) == 0) {
			x->have[x->ask.have_n] = (struct fleet_have){ .pool_id = o->pool_id,
				.zone = o->zone,
				.region = o->region,
				.provider = o->provider,
				.market = o->market,
				.gpu_milli = o->gpu_milli,
				.offer = o,
				.price_micros = o->price_micros,
				.nodes = (int32_t)(1 + rng_below(r, 3)) };
			x->have[x->ask.have_n].idle =
			    (int32_t)rng_below(r, (unsigned)x->have[x->ask.have_n].nodes + 1);
			x->ask.have_n++;
		}
	}
}

static void fleet_make(struct arena *a, struct made *x, struct rng *r, size_t pools_max,
    unsigned size_max)
{
	struct gpu_ask *gpu = arena_alloc(a, sizeof(*gpu));
	struct resource_ask *res = arena_alloc(a, sizeof(*res));
	bool gpus = rng_below(r, 3) == 0;

	*gpu = (struct gpu_ask){ "A100-80GB", 1000 };
	*res = (struct resource_ask){ .gpus = gpu, .gpus_n = 1 };
	*x = (struct made){ .n = 1 + rng_below(r, pools_max) };
	x->f = (struct fleet_spec){ .asks = res,
		.asks_n = 1,
		.nodes = gpus ? 0 : (int32_t)(1 + rng_below(r, size_max)),
		.gpus = gpus ? (int32_t)(1 + rng_below(r, size_max * 2)) : 0,
		.gpus_of = "",
		.pools_min = (int32_t)rng_below(r, 5),
		.per_pool_max = maybe(r, 2, 3),
		.per_zone_max = maybe(r, 3, 4),
		.per_region_max = maybe(r, 4, 6),
		.per_provider_max = maybe(r, 4, 7),
		.per_gpu_max = maybe(r, 3, 5),
		.on_demand_floor = maybe(r, 3, 3),
		.risk = rng_below(r, 4) == 0 ? 0 : 20 * rng_unit(r) };
	if (rng_below(r, 6) == 0) {
		x->f.floor_pm = (int32_t)rng_below(r, 600);
	}
	if (gpus && rng_below(r, 2) == 0) {
		x->f.gpus_of = "H100";
	}
	for (size_t k = 0; k < x->n; k++) {
		offer_make(x, k, r);
	}
	if (rng_below(r, 2) == 0) {
		quotas_make(x, r);
	}
	x->ask = (struct fleet_ask){ .spec = &x->f,
		.have = x->have,
		.scores = x->s,
		.scores_n = x->n,
		.hazards = hazard_model_build(a, x->o, x->n, &policy, 0) };
}

/* ---- an evaluation that shares nothing with the allocation ----------------------------------- */

static int64_t weight(const struct made *x, size_t k)
{
	struct gpu_ask ask = { x->f.gpus_of, 1000 };
	struct resource_ask res = { .gpus = &ask, .gpus_n = 1 };
	struct job_spec job = { .asks = &res, .asks_n = 1 };

	if (x->f.nodes > 0) {
		return 1000;
	}
	return *x->f.gpus_of == '\0'
	    ? x->o[k].gpu_milli
	    : llround(gpu_speed_table(&job, x->o[k].gpu_name) * x->o[k].gpu_milli);
}

static double reference_weight(const struct made *x)
{
	struct gpu_ask ask = { x->f.gpus_of, 1000 };
	struct resource_ask res = { .gpus = &ask, .gpus_n = 1 };
	struct job_spec job = { .asks = &res, .asks_n = 1 };

	return x->f.nodes > 0 || *x->f.gpus_of == '\0'
	    ? 1000.0
	    : (double)llround(gpu_speed_table(&job, "A100-80GB") * 1000);
}

static int32_t had(const struct made *x, size_t k)
{
	int32_t n = 0;

	for (size_t i = 0; i < x->ask.have_n; i++) {
		n += x->have[i].pool_id == x->o[k].pool_id ? x->have[i].nodes : 0;
	}
	return n;
}

struct verdict {
	bool allowed;
	int64_t missing, floor_short, pools_short;
	double cost, risk;
};

static bool same(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

/* Of all that shares `level` with pool k: nodes had and added. */
static int32_t shared(const struct made *x, const int32_t *add, size_t k, int level)
{
	const struct offer *o = &x->o[k];
	int32_t n = 0;

	for (size_t i = 0; i < x->n; i++) {
		const struct offer *p = &x->o[i];
		bool in = level == 4
		    ? same(p->gpu_name, o->gpu_name)
		    : same(p->provider, o->provider) && (level < 1 || same(p->region, o->region)) &&
			(level < 2 || same(p->zone, o->zone)) && (level < 3 || i == k);

		n += in ? had(x, i) + add[i] : 0;
	}
	return n;
}

static bool limits_allow(const struct made *x, const int32_t *add)
{
	const int32_t caps[] = { x->f.per_provider_max, x->f.per_region_max, x->f.per_zone_max,
		x->f.per_pool_max, x->f.per_gpu_max };

	for (size_t k = 0; k < x->n; k++) {
		int64_t quota = 0;

		if (add[k] == 0) {
			continue;
		}
		for (int l = 0; l < 5; l++) {
			if (caps[l] > 0 && shared(x, add, k, l) > caps[l]) {
				return false;
			}
		}
		for (size_t i = 0; i < x->n; i++) {
			if (x->o[i].market == x->o[k].market &&
			    same(x->o[i].provider, x->o[k].provider) &&
			    same(x->o[i].region, x->o[k].region) &&
			    same(x->o[i].quota_class, x->o[k].quota_class)) {
				quota += add[i] * 4;
			}
		}
		if (x->o[k].has_quota && quota > x->o[k].quota_limit - x->o[k].quota_used) {
			return false;
		}
	}
	return true;
}

static double pair_sum(const struct made *x, const int32_t *add)
{
	double sum = 0, ref = reference_weight(x);

	for (size_t i = 0; i < x->n; i++) {
		for (size_t k = 0; k < x->n; k++) {
			double ni = had(x, i) + add[i], nk = had(x, k) + add[k];
			double rho = hazard_correlation(x->ask.hazards, &x->o[i], &x->o[k]);
			double u = (double)weight(x, i) / ref * (double)weight(x, k) / ref;

			sum += rho * sqrt(x->s[i].hazard * x->s[k].hazard) * u *
			    (i == k ? ni * (ni - 1) : ni * nk);
		}
	}
	return sum;
}

/* Reserved pools count for pools_min, and spot pools that cost less than the cheapest on demand. */
static bool spreads(const struct made *x, size_t k)
{
	int64_t least = INT64_MAX;

	for (size_t i = 0; i < x->n; i++) {
		least = x->o[i].market == SPOT_MARKET_ON_DEMAND ? MIN(least, x->s[i].total_micros)
								: least;
	}
	return x->o[k].market == SPOT_MARKET_RESERVED ||
	    (x->o[k].market == SPOT_MARKET_SPOT && x->s[k].total_micros < least);
}

static int64_t pools_wanted(const struct made *x, int64_t want, int64_t floor, int64_t w_min)
{
	int64_t rest = want - (x->f.floor_pm > 0 ? floor : floor * w_min);
	bool any = false;

	for (size_t k = 0; k < x->n; k++) {
		any = any || spreads(x, k);
	}
	return any ? MIN(MAX(x->f.pools_min, 1) - (floor > 0), (MAX(rest, 0) + w_min - 1) / w_min)
		   : 0;
}

static struct verdict judge(const struct made *x, const int32_t *add)
{
	double ref = reference_weight(x), cheapest = INFINITY;
	int64_t total = 0, floor_have = 0, w_min = INT64_MAX, floor, pools = 0, want;
	int64_t total_had = 0, floor_had = 0;
	bool added = false;
	struct verdict v = { .allowed = limits_allow(x, add) };

	want = 1000 * (int64_t)(x->f.nodes > 0 ? x->f.nodes : x->f.gpus);
	floor = x->f.floor_pm > 0 ? (want * x->f.floor_pm + 999) / 1000 : x->f.on_demand_floor;
	floor = x->f.nodes > 0 && x->f.floor_pm == 0 ? MIN(floor, x->f.nodes) : floor;
	for (size_t k = 0; k < x->n; k++) {
		int64_t w = weight(x, k),
			fw = x->o[k].market == SPOT_MARKET_SPOT ? 0
		    : x->f.floor_pm > 0                         ? w
								: 1;
		int32_t n = had(x, k) + add[k];
		double c = x->o[k].market == SPOT_MARKET_RESERVED
		    ? 0
		    : (double)x->s[k].total_micros / 1e6 * (double)w / ref;

		total += w * n;
		total_had += w * had(x, k);
		floor_had += fw * had(x, k);
		floor_have += fw * n;
		w_min = MIN(w_min, w);
		pools += n > 0 && spreads(x, k);
		added = added || add[k] > 0;
		cheapest = c > 0 ? fmin(cheapest, c / ((double)w / ref)) : cheapest;
		v.cost += c * n;
	}
	v.missing = MAX(want - total, 0);
	v.floor_short = MAX(floor - floor_have, 0);
	v.pools_short = MAX(pools_wanted(x, want, floor, w_min) - pools, 0);
	v.risk =
	    isfinite(cheapest) ? x->f.risk * cheapest / ((double)want / ref) * pair_sum(x, add) : 0;
	for (size_t k = 0; k < x->n; k++) {
		int64_t w = weight(x, k),
			fw = x->o[k].market == SPOT_MARKET_SPOT ? 0
		    : x->f.floor_pm > 0                         ? w
								: 1;

		/* Nothing is bought that could be left out. */
		v.allowed = v.allowed &&
		    (add[k] == 0 || total - w < want || (fw > 0 && floor_have - fw < floor));
	}
	v.allowed = v.allowed && (!added || total_had < want || floor_had < floor);
	return v;
}

#endif
