/* A ranking equals ranking each offer alone and sorting, in every field, whatever the market. The
 * fields are its size, its order, the place of its names, its refusals. */
#include "base/base.h"
#include "core/rank/rank.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define MOST 3000

static const char *const providers[] = { "aws", "gcp", "azure", "lambda" };
static const char *const gpus[] = { "V100-16GB", "A100-80GB", "A100-40GB", "L4", "H100-80GB-SXM",
	"" };

struct world {
	struct arena *arena;
	struct rng r;
	struct offer *offers;
	size_t n;
	struct job_spec spec;
	struct resource_ask asks[2];
	struct gpu_ask gpus[2][2];
	struct rank_job job;
	struct rank_policy policy;
};

static double unit_draw(struct world *w, double lo, double hi)
{
	return lo + (hi - lo) * rng_unit(&w->r);
}

static void offer_random(struct world *w, struct offer *o, int32_t id)
{
	struct rng *r = &w->r;

	*o = (struct offer){ .pool_id = id,
		.provider = arena_strdup(w->arena, providers[rng_below(r, 4)]),
		.region = arena_printf(w->arena, "region-%d", (int)rng_below(r, 400)),
		.zone = "a",
		.zone_name = "",
		.instance_type = "t",
		.market = rng_below(r, 3) == 0 ? SPOT_MARKET_ON_DEMAND : SPOT_MARKET_SPOT,
		.gpu_name = arena_strdup(w->arena, gpus[rng_below(r, ARRAY_LEN(gpus))]),
		.gpu_milli = 1000 << rng_below(r, 3),
		.vcpus = 8,
		.price_micros = 1000000 + (int64_t)rng_below(r, 40) * 50000,
		.arch = "",
		.quota_class = "",
		.quota_unit = "vcpu",
		.price_state = (enum price_state)(PRICE_FRESH + rng_below(r, 4)),
		.advisor_lo = -1,
		.placement_score = -1,
		.capacity = -1,
		.cool_until_us = rng_below(r, 20) == 0 ? 10 : 0,
		.has_odds = rng_below(r, 4) == 0,
		.odds = rng_unit(r),
		.has_quota = rng_below(r, 4) == 0,
		.quota_limit = 10,
		.quota_used = (int64_t)rng_below(r, 10) };
	if (rng_below(r, 5) != 0) {
		o->has_hazard = true;
		o->hazard = rng_below(r, 30) == 0 ? 30 : unit_draw(w, 1e-4, 0.3);
		o->hazard_lo = o->hazard / 2;
		o->hazard_hi = o->hazard * 2;
		o->hazard_source = o->launch_source = "test";
		o->launch = unit_draw(w, 0.01, 1);
	}
	if (o->market == SPOT_MARKET_SPOT && rng_below(r, 2) == 0) {
		o->price_mean = unit_draw(w, 0.5, 3);
		o->price_var = unit_draw(w, 0, 1);
		o->price_cover = rng_unit(r);
	}
}

static void job_random(struct world *w)
{
	struct rng *r = &w->r;

	w->spec = (struct job_spec){ .asks = w->asks,
		.asks_n = 1 + rng_below(r, 2),
		.checkpoint = { .path = rng_below(r, 3) ? "ckpt" : NULL,
		    .interval_s = rng_below(r, 3) ? 0 : 600,
		    .interval_off = rng_below(r, 6) == 0,
		    .size_bytes = (int64_t)rng_below(r, 2) * 40000000000 } };
	for (size_t i = 0; i < 2; i++) {
		for (size_t k = 0; k < 2; k++) {
			w->gpus[i][k] =
			    (struct gpu_ask){ gpus[rng_below(r, 5)], 1000 << rng_below(r, 3) };
		}
		w->asks[i] = (struct resource_ask){ .use_spot = -1,
			.gpus = w->gpus[i],
			.gpus_n = rng_below(r, 3) };
	}
	w->job = (struct rank_job){ .spec = &w->spec,
		.work_left_s = (int64_t)(1 + rng_below(r, 400)) * 3600,
		.save_us = rng_below(r, 2) ? 30000000 : 0,
		.at_provider = rng_below(r, 2) ? "aws" : NULL,
		.at_region = "region-7",
		.store_provider = rng_below(r, 2) ? "gcp" : NULL,
		.store_region = "region-8",
		.spot_allowed = rng_below(r, 8) != 0,
		.on_demand_allowed = rng_below(r, 8) != 0 };
}

static void world_make(struct world *w, struct arena *a, uint64_t seed)
{
	*w = (struct world){ .arena = a };
	rng_seeded_init(&w->r, seed);
	rank_policy_default(&w->policy);
	w->n = rng_below(&w->r, 4) == 0 ? rng_below(&w->r, 4) : rng_below(&w->r, MOST);
	w->offers = arena_array(a, w->n + 1, sizeof(*w->offers));
	for (size_t i = 0; i < w->n; i++) {
		offer_random(w, &w->offers[i], (int32_t)i - 5);
	}
	for (size_t i = w->n; rng_below(&w->r, 2) == 0 && i > 1; i--) {
		size_t at = rng_below(&w->r, i);
		struct offer swap = w->offers[i - 1];

		w->offers[i - 1] = w->offers[at];
		w->offers[at] = swap;
	}
	if (rng_below(&w->r, 2) == 0) {
		offers_share_names(w->offers, w->n);
	}
	job_random(w);
}

static int by_cost(const void *pa, const void *pb)
{
	const struct score *a = pa, *b = pb;

	if (a->total_micros != b->total_micros) {
		return a->total_micros < b->total_micros ? -1 : 1;
	}
	if (a->hours < b->hours || a->hours > b->hours) {
		return a->hours < b->hours ? -1 : 1;
	}
	return (a->offer->pool_id > b->offer->pool_id) - (a->offer->pool_id < b->offer->pool_id);
}

static int by_id(const void *pa, const void *pb)
{
	const struct refused *a = pa, *b = pb;

	return (a->offer->pool_id > b->offer->pool_id) - (a->offer->pool_id < b->offer->pool_id);
}

static void assert_same(const struct score *a, const struct score *b)
{
	struct score copy = *a;

	copy.by = b->by;
	assert_memory_equal(&copy, b, sizeof(copy));
}

/* Ranks each alone; returns how many suit. */
static size_t rank_each(struct world *w, struct score *scores, struct refused *refused,
    size_t *ret_refused)
{
	size_t n = 0;

	*ret_refused = 0;
	for (size_t i = 0; i < w->n; i++) {
		struct ranking one;

		rank_run(w->arena, &w->offers[i], 1, &w->job, &w->policy, 5, &one);
		assert_int_equal(one.usable + one.refused_n, 1);
		if (one.usable > 0) {
			scores[n++] = one.scores[0];
		} else {
			refused[(*ret_refused)++] = one.refused[0];
		}
	}
	qsort(scores, n, sizeof(*scores), by_cost);
	qsort(refused, *ret_refused, sizeof(*refused), by_id);
	return n;
}

static void a_ranking_is_that_of_each_offer_alone_sorted(void **state)
{
	size_t suited = 0, refused_n = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		AUTO(arena) struct arena *a = arena_new((size_t)1 << 30);
		struct world w;
		struct ranking k;
		struct score *scores;
		struct refused *refused;
		size_t n, out;

		world_make(&w, a, seed);
		scores = arena_array(a, w.n + 1, sizeof(*scores));
		refused = arena_array(a, w.n + 1, sizeof(*refused));
		n = rank_each(&w, scores, refused, &out);
		rank_run(a, w.offers, w.n, &w.job, &w.policy, 5, &k);
		assert_int_equal(k.usable, n);
		assert_int_equal(k.refused_n, out);
		for (size_t i = 0; i < n; i++) {
			assert_same(&k.scores[i], &scores[i]);
		}
		for (size_t i = 0; i < out; i++) {
			assert_ptr_equal(k.refused[i].offer, refused[i].offer);
			assert_int_equal(k.refused[i].why, refused[i].why);
		}
		suited += n;
		refused_n += out;
	}
	assert_true(suited > 3000 && refused_n > 3000);
}

static void of_equal_costs_the_one_that_is_done_first_goes_first(void **state)
{
	static const size_t sizes[] = { 2, 7, 32, 33, 500 };
	(void)state;

	for (size_t k = 0; k < ARRAY_LEN(sizes); k++) {
		AUTO(arena) struct arena *a = arena_new((size_t)1 << 30);
		struct world w;
		struct ranking ret;

		world_make(&w, a, 1);
		w.n = sizes[k];
		w.offers = arena_array(a, w.n, sizeof(*w.offers));
		for (size_t i = 0; i < w.n; i++) {
			w.offers[i] = (struct offer){ .pool_id = (int32_t)i,
				.provider = "aws",
				.region = "r",
				.zone = "z",
				.zone_name = "",
				.instance_type = "t",
				.gpu_name = "H100",
				.gpu_milli = 1000,
				.market = SPOT_MARKET_SPOT,
				.price_state = PRICE_FRESH,
				.price_micros = 1000000,
				.advisor_lo = -1,
				.placement_score = -1,
				.capacity = -1,
				.has_hazard = true,
				.hazard = 0.01,
				.launch = 0.1 + 0.1 * (double)rng_below(&w.r, 9) };
		}
		w.spec = (struct job_spec){ .asks = w.asks, .asks_n = 1 };
		w.asks[0] = (struct resource_ask){ .use_spot = 1 };
		w.job = (struct rank_job){ .spec = &w.spec, .spot_allowed = true };
		rank_run(a, w.offers, w.n, &w.job, &w.policy, 5, &ret);
		assert_int_equal(ret.usable, w.n);
		for (size_t i = 1; i < w.n; i++) {
			const struct score *x = &ret.scores[i - 1], *y = &ret.scores[i];

			assert_int_equal(x->total_micros, y->total_micros);
			assert_true(x->hours < y->hours ||
			    (x->odds >= y->odds && x->offer->pool_id < y->offer->pool_id));
		}
	}
}

static void shared_names_are_the_same_names(void **state)
{
	AUTO(arena) struct arena *a = arena_new((size_t)1 << 30);
	struct world w;
	struct offer *was;
	size_t shared = 0;

	(void)state;
	world_make(&w, a, 3);
	w.n = MOST;
	w.offers = arena_array(a, w.n, sizeof(*w.offers));
	was = arena_array(a, w.n, sizeof(*was));
	for (size_t i = 0; i < w.n; i++) {
		offer_random(&w, &w.offers[i], (int32_t)i);
		w.offers[i].zone = i % 7 == 0 ? NULL : w.offers[i].zone;
		was[i] = w.offers[i];
	}
	offers_share_names(w.offers, w.n);
	for (size_t i = 0; i < w.n; i++) {
		assert_string_equal(w.offers[i].provider, was[i].provider);
		assert_string_equal(w.offers[i].region, was[i].region);
		assert_string_equal(w.offers[i].gpu_name, was[i].gpu_name);
		assert_true((w.offers[i].zone == NULL) == (was[i].zone == NULL));
		shared += i > 0 && strcmp(was[i].gpu_name, was[i - 1].gpu_name) == 0
		    ? w.offers[i].gpu_name == w.offers[i - 1].gpu_name
		    : 1;
	}
	assert_int_equal(shared, w.n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_ranking_is_that_of_each_offer_alone_sorted),
		cmocka_unit_test(of_equal_costs_the_one_that_is_done_first_goes_first),
		cmocka_unit_test(shared_names_are_the_same_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
