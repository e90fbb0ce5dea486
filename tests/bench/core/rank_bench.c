/*
 * Ranking: rank_offers over 5,000, 50,000 and 500,000 offers under a job with every constraint set.
 * It is compared with a loop over the same offers that only multiplies price and hours and sorts
 * (price, id) by qsort. Runs of both alternate, so that a busy machine hurts both. The order must
 * be the same on every run.
 *
 *   rank_bench [RUNS [OFFERS]]
 */
#include "bench.h"

#include "base/base.h"
#include "base/text/text.h"
#include "core/hazard/hazard.h"
#include "core/rank/rank.h"

#define NOW INT64_C(1767323045000000)

struct plain {
	int64_t micros;
	int32_t id;
};

static const char job_text[] = "name: bench\n"
			       "resources:\n"
			       "  accelerators: {H100: 1, A100-80GB: 1, A100: 2, L40S: 1, L4: 4}\n"
			       "  use_spot: true\n"
			       "  cpus: 4+\n"
			       "  memory: 16+\n"
			       "  max_hourly_cost: 20\n"
			       "run: ./train\n"
			       "config:\n"
			       "  spotctl:\n"
			       "    deadline: 12h\n"
			       "    checkpoint:\n"
			       "      path: ckpt\n"
			       "      size_gb: 40\n";

static const struct {
	const char *gpu, *type;
	int32_t mib;
	int64_t micros; /* one GPU, one hour */
} kinds[] = {
	{ "H100-80GB-SXM", "p5.4xlarge", 81559, 3200000 },
	{ "A100-80GB", "p4de.6xlarge", 81251, 1700000 },
	{ "A100-40GB", "p4d.6xlarge", 40960, 1200000 },
	{ "L40S", "g6e.xlarge", 45776, 700000 },
	{ "L4", "g6.xlarge", 22888, 300000 },
	{ "A10G", "g5.xlarge", 22888, 350000 },
	{ "T4", "g4dn.xlarge", 16384, 160000 },
	{ "V100-16GB", "p3.2xlarge", 16160, 900000 },
};
static const char *const regions[] = { "us-east-1", "us-west-2", "eu-west-1", "ap-northeast-1" };

/* Names lie apart as they do in rows of the database: each offer has its own. */
static void offer_make(struct arena *a, struct offer *o, int32_t id, struct rng *r)
{
	size_t kind = rng_below(r, ARRAY_LEN(kinds));
	int32_t gpus = 1 << rng_below(r, 4);

	*o = (struct offer){ .pool_id = id,
		.provider = arena_strdup(a, rng_below(r, 10) == 0 ? "lambda" : "aws"),
		.region = arena_strdup(a, regions[rng_below(r, ARRAY_LEN(regions))]),
		.zone = "z1",
		.zone_name = "z1",
		.instance_type = arena_strdup(a, kinds[kind].type),
		.market = rng_below(r, 3) == 0 ? SPOT_MARKET_ON_DEMAND : SPOT_MARKET_SPOT,
		.gpu_name = arena_strdup(a, kinds[kind].gpu),
		.gpu_milli = gpus * 1000,
		.gpu_mem_mib = kinds[kind].mib,
		.vcpus = gpus * 4,
		.mem_mib = gpus * 16384,
		.arch = "x86_64",
		.quota_class = "G/Spot",
		.price_observed_us = NOW - 60 * SPOT_US_PER_S,
		.price_state = rng_below(r, 20) == 0 ? PRICE_STALE : PRICE_FRESH,
		.placement_score = rng_below(r, 2) == 0 ? -1 : (double)(1 + rng_below(r, 10)),
		.capacity = -1,
		.own_node_us = (int64_t)rng_below(r, 200) * SPOT_US_PER_HOUR,
		.own_reclaims = (int32_t)rng_below(r, 4),
		.cool_until_us = rng_below(r, 50) == 0 ? NOW + 60 * SPOT_US_PER_S : 0 };
	o->price_micros = kinds[kind].micros * gpus * (int64_t)(500 + rng_below(r, 1000)) / 1000;
	if (o->market == SPOT_MARKET_SPOT) {
		o->price_mean = (double)o->price_micros / 1e6 * (0.8 + 0.4 * rng_unit(r));
		o->price_var = 0.01 * o->price_mean * o->price_mean;
		o->price_cover = rng_unit(r);
	}
	o->advisor_lo = rng_below(r, 4) == 0 ? -1 : 0.05;
	o->advisor_hi = 0.10;
}

static int plain_compare(const void *pa, const void *pb)
{
	const struct plain *a = pa, *b = pb;

	if (a->micros != b->micros) {
		return a->micros < b->micros ? -1 : 1;
	}
	return (a->id > b->id) - (a->id < b->id);
}

/* The physical limit: nothing but the arithmetic of a price list. */
static int64_t plain_run(struct plain *rows, const struct offer *offers, size_t n)
{
	int64_t t0 = bench_us();

	for (size_t i = 0; i < n; i++) {
		rows[i].micros = offers[i].price_micros * 3600 * 1000 / offers[i].gpu_milli;
		rows[i].id = offers[i].pool_id;
	}
	qsort(rows, n, sizeof(*rows), plain_compare);
	return bench_us() - t0;
}

/* FNV-1a over the order. */
static uint64_t order_hash(const struct score *scores, size_t n)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < n; i++) {
		h = (h ^ (uint64_t)scores[i].offer->pool_id) * UINT64_C(0x100000001b3);
	}
	return h;
}

static bool size_bench(const char *name, const struct rank_job *job, size_t n, size_t runs)
{
	struct offer *offers = calloc(n, sizeof(*offers));
	struct plain *rows = calloc(n, sizeof(*rows));
	int64_t *ours = calloc(runs, sizeof(*ours)), *theirs = calloc(runs, sizeof(*theirs));
	struct arena *a = arena_new((size_t)1 << 30), *market = arena_new((size_t)4 << 30);
	struct rank_policy policy;
	int64_t believed;
	uint64_t order = 0;
	size_t usable = 0;
	bool same = true;
	struct rng r;

	if (offers == NULL || rows == NULL || ours == NULL || theirs == NULL) {
		abort();
	}
	rng_seeded_init(&r, 7);
	rank_policy_default(&policy);
	for (size_t i = 0; i < n; i++) {
		offer_make(market, &offers[i], (int32_t)i + 1, &r);
	}
	offers_share_names(offers, n);
	believed = bench_us();
	offers_believe(hazard_model_build(market, offers, n, &policy, NOW), offers, n);
	believed = bench_us() - believed;
	for (size_t i = 0; i < runs; i++) {
		struct ranking ranking;
		int64_t t0 = bench_us();
		uint64_t h;

		rank_run(a, offers, n, job, &policy, NOW, &ranking);
		ours[i] = bench_us() - t0;
		usable = ranking.usable;
		h = order_hash(ranking.scores, usable);
		same = same && (i == 0 || h == order);
		order = h;
		arena_reset(a);
		theirs[i] = plain_run(rows, offers, n);
	}
	printf("rank (%s) %zu offers (%zu usable), %zu runs: p50 %.2f ms, p99 %.2f ms of CPU; "
	       "multiply "
	       "and sort: "
	       "p50 %.2f ms, p99 %.2f ms; %.1f times (p50); order %s; hazards, once per read of "
	       "the "
	       "market: %.1f ms\n",
	    name, n, usable, runs, bench_ms(ours, runs, 50), bench_ms(ours, runs, 99),
	    bench_ms(theirs, runs, 50), bench_ms(theirs, runs, 99),
	    bench_ms(ours, runs, 50) / bench_ms(theirs, runs, 50),
	    same ? "the same on every run" : "DIFFERS between runs", (double)believed / 1e3);
	arena_free(a);
	arena_free(market);
	free(offers);
	free(rows);
	free(ours);
	free(theirs);
	return same;
}

static bool sizes_bench(const char *name, const struct rank_job *job, size_t runs, size_t only)
{
	bool good;

	if (only > 0) {
		return size_bench(name, job, only, runs);
	}
	good = size_bench(name, job, 5000, runs);

	good = size_bench(name, job, 50000, runs) && good;
	return size_bench(name, job, 500000, MAX(runs / 10, 1)) && good;
}

int main(int argc, char **argv)
{
	struct resource_ask anything = { .use_spot = -1 };
	struct job_spec any = { 0 };
	struct arena *a = arena_new(0);
	struct rank_job job = { .work_left_s = 36000,
		.at_provider = "aws",
		.at_region = "us-east-1",
		.spot_allowed = true,
		.on_demand_allowed = true };
	struct job_spec *spec = NULL;
	const char **warnings;
	struct spot_err err = { 0 };
	int64_t runs = 200, only = 0;
	size_t n;
	bool good;

	if (argc > 3 || (argc >= 2 && !parse_i64(argv[1], 1, 100000, &runs)) ||
	    (argc == 3 && !parse_i64(argv[2], 1, 1000000, &only))) {
		fprintf(stderr, "usage: rank_bench [RUNS [OFFERS]]\n");
		return 2;
	}
	if (jobspec_parse(a, (struct str){ job_text, sizeof(job_text) - 1 }, NOW, &spec, &warnings,
		&n, &err) != SPOT_OK) {
		fprintf(stderr, "job: %s\n", err.text);
		return 1;
	}
	job.spec = spec;
	good = sizes_bench("every constraint", &job, (size_t)runs, (size_t)only);
	/* Nothing is refused but for pools that rest. */
	any.asks = &anything;
	any.asks_n = 1;
	any.checkpoint = spec->checkpoint;
	job.spec = &any;
	good = sizes_bench("no constraint", &job, (size_t)runs, (size_t)only) && good;
	arena_free(a);
	return good ? 0 : 1;
}
