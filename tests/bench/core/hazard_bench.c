/*
 * The hazard model over 5,000, 50,000 and 500,000 offers in the order of their ids. It is built,
 * then asked for hazard and odds of each. A record is in one pool of a hundred, as a broker has it,
 * or in every one.
 *
 *   hazard_bench [RUNS [OFFERS]]
 */
#include "bench.h"

#include "base/base.h"
#include "base/text/text.h"
#include "core/hazard/hazard.h"
#include "core/rank/rank.h"

static const char *const gpus[] = { "H100-80GB-SXM", "A100-80GB", "A100-40GB", "L40S", "L4", "A10G",
	"T4", "V100-16GB" };
static const char *const providers[] = { "aws", "gcp", "azure", "lambda" };

/* Names lie apart as they do in rows of the database: each offer has its own. */
static void offers_make(struct arena *a, struct offer *o, size_t n, uint32_t used_of_1000)
{
	struct rng r;

	rng_seeded_init(&r, 7);
	for (size_t i = 0; i < n; i++) {
		const char *region = arena_printf(a, "region-%d", (int)rng_below(&r, 30)),
			   *gpu = gpus[rng_below(&r, 8)];
		struct offer_record *record = arena_alloc(a, sizeof(*record));

		o[i] = (struct offer){ .pool_id = (int32_t)i + 1,
			.provider = arena_strdup(a, providers[rng_below(&r, 4)]),
			.region = region,
			.zone = arena_printf(a, "%s-%c", region, 'a' + (int)rng_below(&r, 3)),
			.instance_type = "t",
			.gpu_name = arena_strdup(a, gpu),
			.market = rng_below(&r, 3) == 0 ? SPOT_MARKET_ON_DEMAND : SPOT_MARKET_SPOT,
			.advisor_lo = rng_below(&r, 3) == 0 ? 0.05 * (double)rng_below(&r, 5) : -1,
			.placement_score = -1,
			.capacity = -1 };
		o[i].advisor_hi = o[i].advisor_lo + 0.05;
		if (rng_below(&r, 1000) < used_of_1000) {
			*record = (struct offer_record){ .node_hours = (double)rng_below(&r, 500),
				.reclaims = (double)rng_below(&r, 10),
				.launches = 3,
				.refusals = 1 };
			record->recent_hours = record->node_hours / 20;
			o[i].record = record;
		}
	}
}

static bool size_bench(size_t n, size_t runs, uint32_t used_of_1000)
{
	struct arena *names = arena_new((size_t)4 << 30), *a = arena_new((size_t)1 << 30);
	struct offer *o = arena_array(names, n, sizeof(*o));
	int64_t *build = arena_array(names, runs, sizeof(*build)),
		*ask = arena_array(names, runs, sizeof(*ask));
	struct rank_policy p;
	double sum = 0, first = 0;
	int64_t share;
	bool same = true;

	rank_policy_default(&p);
	offers_make(names, o, n, used_of_1000);
	share = bench_us();
	offers_share_names(o, n);
	share = bench_us() - share;
	for (size_t i = 0; i < runs; i++) {
		int64_t t0 = bench_us();
		const struct hazard_model *m = hazard_model_build(a, o, n, &p, 0);
		int64_t t1 = bench_us();

		sum = 0;
		for (size_t k = 0; k < n; k++) {
			struct hazard h;
			struct odds q;

			hazard_of(m, &o[k], &h);
			hazard_odds(m, &o[k], &q);
			sum += h.per_hour + h.lo + h.hi + q.odds;
		}
		ask[i] = bench_us() - t1;
		build[i] = t1 - t0;
		first = i == 0 ? sum : first;
		same = same && !(sum < first) && !(sum > first);
		arena_reset(a);
	}
	printf("hazard %zu offers, %.1f %% with a record: names shared %.2f ms, once; build p50 "
	       "%.2f ms, p99 %.2f ms; all asked p50 %.2f ms, p99 %.2f ms; %s\n",
	    n, used_of_1000 / 10.0, (double)share / 1e3, bench_ms(build, runs, 50),
	    bench_ms(build, runs, 99), bench_ms(ask, runs, 50), bench_ms(ask, runs, 99),
	    same ? "the same on every run" : "DIFFERS between runs");
	arena_free(a);
	arena_free(names);
	return same;
}

int main(int argc, char **argv)
{
	int64_t runs = 100, only = 0;
	bool good;

	if (argc > 3 || (argc >= 2 && !parse_i64(argv[1], 1, 100000, &runs)) ||
	    (argc == 3 && !parse_i64(argv[2], 1, 1000000, &only))) {
		fprintf(stderr, "usage: hazard_bench [RUNS [OFFERS]]\n");
		return 2;
	}
	if (only > 0) {
		return size_bench((size_t)only, (size_t)runs, 10) ? 0 : 1;
	}
	good = size_bench(5000, (size_t)runs, 10);
	good = size_bench(50000, (size_t)runs, 10) && good;
	good = size_bench(50000, (size_t)runs, 1000) && good;
	good = size_bench(500000, (size_t)MAX(runs / 10, 1), 10) && good;
	return good ? 0 : 1;
}
