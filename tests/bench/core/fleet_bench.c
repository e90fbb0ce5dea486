/*
 * Allocating fleets: 10,000 nodes (or as many GPUs) over 50,000 pools of a market like the clouds',
 * under limits of several kinds. Prints the gap to the lower bound. Then a rebalancing pass over
 * 1,000 nodes. Random markets, seeded; the
 * plan must be the same on every run.
 *
 *   fleet_bench [RUNS]
 */
#include "bench.h"

#include "base/base.h"
#include "base/text/text.h"
#include "core/fleet/fleet.h"
#include "core/hazard/hazard.h"

#define POOLS 50000
#define NOW INT64_C(1767323045000000)

struct market {
	struct offer *offers;
	struct score *scores;
	struct hazard_model *hazards;
};

static const struct {
	const char *gpu;
	int64_t micros;
	const char *class;
} kinds[] = { { "H100-80GB-SXM", 2500000, "P" }, { "A100-80GB", 1400000, "P" },
	{ "A100-40GB", 1000000, "P" }, { "L40S", 700000, "G" }, { "L4", 300000, "G" },
	{ "A10G", 350000, "G" }, { "T4", 160000, "G" }, { "V100-16GB", 900000, "P" } };
static const char *const providers[] = { "aws", "azure", "gcp", "lambda", "coreweave" };
static const char *const zones[] = { "a", "b", "c" };

static void offer_make(struct arena *a, struct offer *o, struct score *s, int32_t id, struct rng *r)
{
	size_t kind = rng_below(r, ARRAY_LEN(kinds));
	bool spot = rng_below(r, 3) != 0;
	int32_t gpus = 1 << rng_below(r, 4);

	*o = (struct offer){ .pool_id = id,
		.provider = providers[rng_below(r, 5)],
		.region = arena_printf(a, "region-%d", (int)rng_below(r, 20)),
		.zone = zones[rng_below(r, 3)],
		.zone_name = "",
		.instance_type = arena_printf(a, "t%d.%d", (int)kind, (int)rng_below(r, 6)),
		.gpu_name = kinds[kind].gpu,
		.gpu_milli = gpus * 1000,
		.vcpus = 8 * gpus,
		.quota_class = kinds[kind].class,
		.market = spot ? SPOT_MARKET_SPOT : SPOT_MARKET_ON_DEMAND,
		.quota_unit = "vcpu",
		.has_quota = true,
		.quota_limit = 4000 };
	o->price_micros =
	    kinds[kind].micros * gpus * (int64_t)((spot ? 500 : 1500) + rng_below(r, 500)) / 1000;
	/* Dollars per unit of work differ less than prices do. */
	*s = (struct score){ .offer = o,
		.total_micros =
		    (int64_t)(spot ? 1000000 : 2000000) + (int64_t)rng_below(r, 2000000),
		.work_h = 1,
		.throughput = 1,
		.hazard = spot ? 0.002 + 0.1 * rng_unit(r) * rng_unit(r) : 0.0005 };
}

static void market_make(struct arena *a, struct market *m, struct rng *r)
{
	static struct rank_policy policy;

	rank_policy_default(&policy);
	m->offers = arena_array(a, POOLS, sizeof(*m->offers));
	m->scores = arena_array(a, POOLS, sizeof(*m->scores));
	for (int32_t i = 0; i < POOLS; i++) {
		offer_make(a, &m->offers[i], &m->scores[i], i + 1, r);
	}
	/* As a ranking gives them: by cost, not by pool. */
	for (size_t k = POOLS; k > 1; k--) {
		size_t at = rng_below(r, k);
		struct score swap = m->scores[k - 1];

		m->scores[k - 1] = m->scores[at];
		m->scores[at] = swap;
	}
	offers_share_names(m->offers, POOLS);
	m->hazards = hazard_model_build(a, m->offers, POOLS, &policy, NOW);
}

static bool one_bench(const char *name, const struct fleet_spec *f, const struct market *m,
    size_t runs)
{
	struct fleet_ask ask = { .spec = f,
		.scores = m->scores,
		.scores_n = POOLS,
		.hazards = m->hazards };
	int64_t *us = calloc(runs, sizeof(*us)), first = 0;
	struct arena *a = arena_new((size_t)1 << 30);
	struct fleet_plan p;
	bool same = true;
	double gap = 0;
	size_t pools = 0, bytes = 0;
	int32_t missing = 0;

	if (us == NULL) {
		abort();
	}
	for (size_t i = 0; i < runs; i++) {
		int64_t t0 = bench_us();

		fleet_plan_make(a, &ask, &p);
		us[i] = bench_us() - t0;
		same = same && (i == 0 || first == p.cost_micros + p.risk_micros);
		first = p.cost_micros + p.risk_micros;
		gap = p.gap;
		pools = p.n;
		missing = p.missing;
		bytes = arena_used(a);
		arena_reset(a);
	}
	printf("fleet (%s) over %d pools, %zu runs: p50 %.1f ms, p99 %.1f ms of CPU; %zu pools "
	       "used, %d missing, %.2f USD/h, gap "
	       "%.3f %%, %.1f MB; plan %s\n",
	    name, POOLS, runs, bench_ms(us, runs, 50), bench_ms(us, runs, 99), pools, missing,
	    (double)first / 1e6, gap * 100, (double)bytes / 1e6,
	    same ? "the same on every run" : "DIFFERS between runs");
	arena_free(a);
	free(us);
	return same;
}

/* ---- a rebalancing pass ---------------------------------------------------------------------- */

#define MOVERS 1000
#define MOVES_US 1000000 /* a pass over MOVERS nodes and POOLS pools takes no longer */

/* A fleet as it was planned, each node on a job. */
static void held_make(struct arena *a, const struct fleet_plan *p, struct fleet_move_in *in)
{
	struct fleet_have *have = arena_array(a, p->n + 1, sizeof(*have));
	struct fleet_move_node *nodes = arena_array(a, MOVERS + 1, sizeof(*nodes));
	struct fleet_ask *ask = arena_alloc(a, sizeof(*ask));

	*ask = *in->ask;
	for (size_t i = 0; i < p->n; i++) {
		const struct offer *o = p->picks[i].score->offer;

		have[i] = (struct fleet_have){ .pool_id = o->pool_id,
			.zone = o->zone,
			.region = o->region,
			.provider = o->provider,
			.market = o->market,
			.gpu_milli = o->gpu_milli,
			.nodes = p->picks[i].nodes,
			.offer = o,
			.price_micros = o->price_micros };
		for (int32_t k = 0; k < have[i].nodes && in->n < MOVERS; k++) {
			nodes[in->n++] = (struct fleet_move_node){ .node_id = (int64_t)in->n + 1,
				.job_id = 1,
				.pool_id = o->pool_id,
				.price_micros = o->price_micros,
				.save_us = 20 * SPOT_US_PER_S,
				.restart_us = 60 * SPOT_US_PER_S };
		}
	}
	ask->have = have;
	ask->have_n = p->n;
	in->ask = ask;
	in->nodes = nodes;
}

/* All nodes of the fleet become three times as dear: every one of them would move. */
static bool moves_bench(struct fleet_spec *f, struct market *m, size_t runs)
{
	static struct supply_policy supply;
	struct fleet_move_policy policy = { &supply, 8 * SPOT_US_PER_HOUR };
	struct fleet_ask ask = { .spec = f,
		.scores = m->scores,
		.scores_n = POOLS,
		.hazards = m->hazards };
	struct fleet_move_in in = { .ask = &ask, .policy = &policy, .now_us = NOW };
	int64_t *us = calloc(runs, sizeof(*us)), after = 0;
	struct arena *a = arena_new((size_t)1 << 30), *part = arena_new((size_t)1 << 30);
	struct fleet_moves out = { 0 };
	struct fleet_plan p;
	bool same = true;

	if (us == NULL) {
		abort();
	}
	supply_policy_default(&supply);
	fleet_plan_make(a, &ask, &p);
	held_make(a, &p, &in);
	for (size_t i = 0; i < p.n; i++) {
		size_t at = (size_t)(p.picks[i].score - m->scores);

		m->scores[at].total_micros *= 3;
	}
	for (size_t i = 0; i < runs; i++) {
		int64_t t0 = bench_us();

		fleet_moves_choose(part, &in, &out);
		us[i] = bench_us() - t0;
		same = same && (i == 0 || after == out.after_micros);
		after = out.after_micros;
		arena_reset(part);
	}
	printf("moves of %zu nodes in %zu pools over %d pools, %zu runs: p50 %.1f ms, p99 %.1f ms "
	       "of "
	       "CPU; %zu begin, %zu wait, %zu pairs; %s, floor %s\n",
	    in.n, p.n, POOLS, runs, bench_ms(us, runs, 50), bench_ms(us, runs, 99), out.now,
	    out.n - out.now, out.weighed, same ? "the same on every run" : "DIFFERS between runs",
	    bench_ms(us, runs, 50) * 1000 <= MOVES_US ? "kept" : "MISSED");
	same = same && bench_ms(us, runs, 50) * 1000 <= MOVES_US;
	arena_free(part);
	arena_free(a);
	free(us);
	return same;
}

static bool movers_bench(struct market *m, struct resource_ask *res, size_t runs)
{
	bool good = true;

	for (int32_t per_pool = 0; per_pool <= 2; per_pool += 2) {
		struct fleet_spec f = { .asks = res,
			.asks_n = 1,
			.nodes = MOVERS,
			.pools_min = 5,
			.risk = 4,
			.per_pool_max = per_pool,
			.rebalance = { .at_once = 50, .per_zone = 50, .per_hour = 1000 } };

		good = moves_bench(&f, m, runs) && good;
	}
	return good;
}

int main(int argc, char **argv)
{
	static struct gpu_ask gpu = { "A100-80GB", 1000 };
	static struct resource_ask res = { .gpus = &gpu, .gpus_n = 1 };
	const struct {
		const char *name;
		struct fleet_spec f;
	} cases[] = {
		{ "100 nodes, quotas", { .nodes = 100, .pools_min = 5, .risk = 4 } },
		{ "10,000 nodes, quotas", { .nodes = 10000, .pools_min = 5, .risk = 4 } },
		{ "10,000 nodes, two per pool",
		    { .nodes = 10000, .pools_min = 5, .risk = 4, .per_pool_max = 2 } },
		{ "10,000 nodes, every limit",
		    { .nodes = 10000,
			.pools_min = 500,
			.risk = 4,
			.per_pool_max = 4,
			.per_zone_max = 100,
			.per_region_max = 250,
			.per_provider_max = 3000,
			.per_gpu_max = 2500,
			.floor_pm = 200 } },
		{ "10,000 GPUs, 20 % on demand",
		    { .gpus = 10000,
			.pools_min = 5,
			.risk = 4,
			.per_zone_max = 50,
			.floor_pm = 200 } },
		{ "work of 10,000 H100",
		    { .gpus = 10000,
			.gpus_of = "H100",
			.pools_min = 5,
			.risk = 4,
			.per_pool_max = 20 } },
	};
	struct arena *a = arena_new((size_t)1 << 30);
	struct market m;
	int64_t runs = 30;
	struct rng r;
	bool good = true;

	if (argc > 2 || (argc == 2 && !parse_i64(argv[1], 1, 100000, &runs))) {
		fprintf(stderr, "usage: fleet_bench [RUNS]\n");
		return 2;
	}
	rng_seeded_init(&r, 11);
	market_make(a, &m, &r);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fleet_spec f = cases[i].f;

		f.asks = &res;
		f.asks_n = 1;
		good = one_bench(cases[i].name, &f, &m, (size_t)runs) && good;
	}
	good = movers_bench(&m, &res, (size_t)runs) && good;
	arena_free(a);
	return good ? 0 : 1;
}
