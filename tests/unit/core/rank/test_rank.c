/* Expected dollars per finished work: suitable offers, their order, and the terms that move it. The
 * arithmetic: test_score.py. */
#include "base/base.h"
#include "core/rank/rank.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static struct gpu_ask v100 = { .gpu = "V100", .milli = 1000 };

static struct job_spec *spec_new(struct arena *a)
{
	struct job_spec *s = arena_alloc(a, sizeof(*s));

	s->asks = arena_alloc(a, sizeof(*s->asks));
	s->asks[0] = (struct resource_ask){ .use_spot = -1, .gpus = &v100, .gpus_n = 1 };
	s->asks_n = 1;
	s->checkpoint = (struct checkpoint_spec){ .path = "ckpt", .signal = "USR1" };
	return s;
}

static struct offer offer_make(int32_t id, enum spot_market market, int64_t price)
{
	return (struct offer){ .pool_id = id,
		.provider = "aws",
		.region = "us-east-1",
		.zone = "use1-az4",
		.zone_name = "",
		.instance_type = "p3.2xlarge",
		.market = market,
		.gpu_name = "V100-16GB",
		.gpu_milli = 1000,
		.price_micros = price,
		.price_state = PRICE_FRESH,
		.advisor_lo = -1,
		.placement_score = -1,
		.capacity = -1,
		.arch = "",
		.quota_class = "" };
}

static void a_cheap_pool_that_dies_often_loses_against_a_calm_one(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct rank_policy p;
	struct offer o[2] = { offer_make(1, SPOT_MARKET_SPOT, 900000),
		offer_make(2, SPOT_MARKET_SPOT, 1000000) };
	struct rank_job job = { .spec = spec_new(a),
		.work_left_s = 36000,
		.spot_allowed = true,
		.on_demand_allowed = true };
	struct score *s;
	size_t usable;

	(void)state;
	rank_policy_default(&p);
	o[0].own_node_us = o[1].own_node_us = 50 * SPOT_US_PER_HOUR;
	o[0].own_reclaims = 100;
	rank_offers(a, o, 2, &job, &p, 1, &s, &usable);
	assert_int_equal(usable, 2);
	assert_int_equal(s[0].offer->pool_id, 2);
	assert_true(s[1].hazard > s[0].hazard);
}

static void the_cheapest_in_time_is_found_and_else_the_fastest(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	static struct gpu_ask either[2] = { { .gpu = "H100", .milli = 1000 },
		{ .gpu = "T4", .milli = 1000 } };
	struct rank_policy p;
	struct offer o[3] = { offer_make(1, SPOT_MARKET_ON_DEMAND, 100000),
		offer_make(2, SPOT_MARKET_ON_DEMAND, 9000000),
		offer_make(3, SPOT_MARKET_SPOT, 3000000) };
	struct rank_job job = { .spec = spec_new(a),
		.work_left_s = 36000,
		.spot_allowed = true,
		.on_demand_allowed = true };
	struct ranking r;

	(void)state;
	rank_policy_default(&p);
	job.spec->asks[0].gpus = either;
	job.spec->asks[0].gpus_n = 2;
	o[0].gpu_name = "T4";
	o[1].gpu_name = o[2].gpu_name = "H100-80GB";
	rank_run(a, o, 3, &job, &p, 1, &r);
	assert_int_equal(r.usable, 3);
	assert_int_equal(r.scores[0].offer->pool_id, 1);
	assert_true(r.scores[0].hours > 24);
	assert_int_equal(rank_in_time(&r, SPOT_MARKET_ON_DEMAND, 10000)->offer->pool_id, 1);
	assert_int_equal(rank_in_time(&r, SPOT_MARKET_ON_DEMAND, 12)->offer->pool_id, 2);
	assert_int_equal(rank_in_time(&r, SPOT_MARKET_ON_DEMAND, 1)->offer->pool_id, 2);
	assert_int_equal(rank_in_time(&r, SPOT_MARKET_SPOT, 1)->offer->pool_id, 3);
	assert_null(rank_in_time(&r, SPOT_MARKET_RESERVED, 12));
}

static void refused_offers_have_a_reason_in_words(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct rank_policy p;
	struct offer o[8];
	struct rank_job job = { .spec = spec_new(a),
		.work_left_s = 3600,
		.spot_allowed = true,
		.on_demand_allowed = false };
	static const char *const words[] = { "cooling for", "implausible",
		"on-demand is not allowed", "has none now", "has 2x V100-16GB", "odds of 1.0 %",
		"no room in quota" };
	struct ranking r;

	(void)state;
	rank_policy_default(&p);
	for (int i = 0; i < 8; i++) {
		o[i] = offer_make(i + 1, SPOT_MARKET_SPOT, 1000000);
	}
	o[0].cool_until_us = 100;
	o[1].price_state = PRICE_IMPLAUSIBLE;
	o[2].market = SPOT_MARKET_ON_DEMAND;
	o[3].capacity = 0;
	o[4].gpu_milli = 2000;
	o[5].has_odds = true;
	o[5].odds = 0.01;
	o[6].has_quota = true;
	o[6].quota_unit = "instances";
	o[6].quota_limit = o[6].quota_used = 1;
	rank_run(a, o, 8, &job, &p, 50, &r);
	assert_int_equal(r.usable, 1);
	assert_int_equal(r.scores[0].offer->pool_id, 8);
	assert_int_equal(r.refused_n, 7);
	assert_int_equal(r.spot_cooling, 1);
	for (int i = 0; i < 7; i++) {
		assert_int_equal(r.refused[i].offer->pool_id, i + 1);
		assert_non_null(strstr(refusal_words(a, &r, &r.refused[i]), words[i]));
	}
	rank_run(a, o, 8, &job, &p, 101, &r);
	assert_int_equal(r.usable, 2);
}

static void the_order_is_the_same_whatever_the_input_order(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct rank_policy p;
	struct rank_job job = { .spec = spec_new(a),
		.work_left_s = 3600,
		.spot_allowed = true,
		.on_demand_allowed = true };
	struct offer o[200], q[200];
	struct score *s, *t;
	size_t us, ut;
	struct rng r;

	(void)state;
	rank_policy_default(&p);
	rng_seeded_init(&r, 4);
	for (int i = 0; i < 200; i++) {
		o[i] = offer_make(i, SPOT_MARKET_SPOT, 1000000 + (int64_t)rng_below(&r, 5) * 1000);
		q[199 - i] = o[i];
	}
	rank_offers(a, o, 200, &job, &p, 1, &s, &us);
	rank_offers(a, q, 200, &job, &p, 1, &t, &ut);
	assert_int_equal(us, ut);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(s[i].offer->pool_id, t[i].offer->pool_id);
	}
}

static const char *const gpu_names[] = { "V100", "V100-16GB", "A100", "A100-80GB", "A100-40GB",
	"A10", "H100", "" };
static const char *const place_texts[] = { NULL, NULL, "aws", "us-east-1", "use1-az4", "us-east-1a",
	"p3.2xlarge", "gcp" };

static void ask_random(struct rng *r, struct resource_ask *x, struct gpu_ask gpus[3])
{
	x->gpus = gpus;
	x->gpus_n = rng_below(r, 4);
	for (size_t g = 0; g < x->gpus_n; g++) {
		gpus[g] = (struct gpu_ask){ .gpu = gpu_names[rng_below(r, 7)],
			.milli = 1000 << rng_below(r, 2) };
	}
	x->provider = rng_below(r, 4) ? NULL : place_texts[rng_below(r, ARRAY_LEN(place_texts))];
	x->region = rng_below(r, 4) ? NULL : place_texts[rng_below(r, ARRAY_LEN(place_texts))];
	x->zone = rng_below(r, 4) ? NULL : place_texts[rng_below(r, ARRAY_LEN(place_texts))];
	x->instance_type =
	    rng_below(r, 4) ? NULL : place_texts[rng_below(r, ARRAY_LEN(place_texts))];
	x->use_spot = (int)rng_below(r, 3) - 1;
	x->vcpus_min = rng_below(r, 4) ? 0 : (int64_t)rng_below(r, 16);
	x->mem_mib_min = rng_below(r, 4) ? 0 : (int64_t)rng_below(r, 2048);
	x->max_hourly_micros = rng_below(r, 4) ? 0 : (int64_t)rng_below(r, 2000000);
}

/* The quick match of rank.c is offer_refusal(), whatever is asked for. */
static void suitable_offers_are_those_without_a_refusal(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct rank_policy p;
	size_t suited = 0;
	struct rng r;

	(void)state;
	rank_policy_default(&p);
	rng_seeded_init(&r, 11);
	for (int i = 0; i < 20000; i++) {
		struct resource_ask asks[3] = { 0 };
		struct gpu_ask gpus[3][3];
		struct job_spec spec = { .asks = asks, .asks_n = 1 + rng_below(&r, 3) };
		struct rank_job job = { .spec = &spec,
			.spot_allowed = true,
			.on_demand_allowed = true };
		struct offer o = offer_make(1,
		    rng_below(&r, 2) ? SPOT_MARKET_SPOT : SPOT_MARKET_ON_DEMAND, 1000000);
		struct ranking k;
		bool suits = false;

		spec.checkpoint.path = "ckpt";
		o.gpu_name = gpu_names[1 + rng_below(&r, 7)];
		o.gpu_milli = 1000 << rng_below(&r, 2);
		o.zone_name = "us-east-1a";
		o.vcpus = 8;
		o.mem_mib = 1024;
		for (size_t n = 0; n < spec.asks_n; n++) {
			struct resource_ask *x = &asks[n];

			ask_random(&r, x, gpus[n]);
			suits = suits || offer_refusal(a, &o, x) == NULL;
		}
		rank_run(a, &o, 1, &job, &p, 1, &k);
		assert_int_equal(k.usable, suits);
		if (!suits) {
			assert_string_equal(refusal_words(a, &k, &k.refused[0]),
			    offer_refusal(a, &o, &asks[spec.asks_n - 1]));
		}
		suited += suits;
		arena_reset(a);
	}
	assert_true(suited > 3000 && suited < 17000);
}

/* One's own measurements outweigh the table, the more hours the more. */
static void own_step_rates_correct_the_table(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct job_spec *spec = spec_new(a);
	struct gpu_rate rates[2] = {
		{ .gpu = "V100-16GB", .gpu_milli = 1000, .steps = 1000, .hours = 10 },
		{ .gpu = "A100-80GB", .gpu_milli = 2000, .steps = 6000, .hours = 10 }
	};
	struct rank_job job = { .spec = spec, .rates = rates, .rates_n = 2 };
	double hours, table = gpu_speed_table(spec, "A100-80GB"), brief;

	(void)state;
	/* 300 steps an hour and GPU against 100. */
	assert_true(
	    fabs(gpu_speed(&job, "A100-80GB", &hours) - (table * 0.5 + 3 * 10) / 10.5) < 1e-9);
	assert_true(hours == 10);
	assert_true(
	    gpu_speed(&job, "H100-80GB-SXM", &hours) == gpu_speed_table(spec, "H100-80GB-SXM") &&
	    hours == 0);
	rates[1].hours = 0.1;
	rates[1].steps = 60;
	brief = gpu_speed(&job, "A100-80GB", &hours);
	assert_true(fabs(brief - table) < fabs(brief - 3));
	/* 5,000 steps at 100 an hour are 50 h; a file that said 100 h counts for half an hour of
	 * 10. */
	assert_int_equal(rank_work_left_s(&job, 5000, 0), 180000);
	assert_int_equal(rank_work_left_s(&job, 5000, 360000),
	    (int64_t)((360000 * 0.5 + 180000 * 10) / 10.5));
	job.rates_n = 0;
	assert_int_equal(rank_work_left_s(&job, 5000, 360000), 360000);
}

/* Saving costs time, losing costs more: the interval follows the cost of reclaims without a
 * save. */
static void the_interval_is_the_cheapest_one(void **state)
{
	const char *source;
	double h = 0.8, saves = 0.9, d = 60, mtbf = 3600 / (h * (1 - saves)), best = 0, least = 1e9;

	(void)state;
	/* Expected time per unit of work under exponential failures (Daly 2006, equation 20), over
	 * all intervals. */
	for (double i = 30; i < 3600; i += 1) {
		double cost = mtbf * expm1((i + d) / mtbf) / i;

		best = cost < least ? i : best;
		least = fmin(cost, least);
	}
	assert_true(fabs(save_interval_s(h, saves, d, true, &source) - best) < 3);
	assert_non_null(strstr(source, "Daly"));
	assert_true(save_interval_s(h, saves, d, false, &source) > best + 10);
	assert_string_equal(source, "Young");
	assert_true(save_interval_s(1e-9, saves, d, true, &source) == 3600 &&
	    save_interval_s(100, 0, 0.1, true, &source) == 30);
}

static void throughput_comes_from_the_table(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct job_spec *s = spec_new(a);
	struct offer o = offer_make(1, SPOT_MARKET_SPOT, 1);

	(void)state;
	assert_true(rank_throughput(s, &o) == 1.0);
	o.gpu_milli = 8000;
	assert_true(rank_throughput(s, &o) == 8.0);
	o.gpu_name = "A100-80GB";
	o.gpu_milli = 1000;
	assert_true(fabs(rank_throughput(s, &o) - 312.0 / 125.0) < 1e-9);
	assert_int_equal(egress_micros_per_gb("aws", "us-east-1", "aws", "us-east-1"), 0);
	assert_true(egress_micros_per_gb("aws", "us-east-1", "aws", "us-west-2") > 0);
	assert_true(egress_micros_per_gb("lambda", "us-south-2", "aws", "us-west-2") > 0);
}

static void a_job_without_checkpoint_pays_for_starting_over(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct rank_policy p;
	struct offer o = offer_make(1, SPOT_MARKET_SPOT, 1000000);
	struct rank_job job = { .spec = spec_new(a), .work_left_s = 36000, .spot_allowed = true };
	struct score *with, *without;
	size_t n;

	(void)state;
	rank_policy_default(&p);
	rank_offers(a, &o, 1, &job, &p, 1, &with, &n);
	job.spec = spec_new(a);
	((struct job_spec *)(uintptr_t)job.spec)->checkpoint.path = NULL;
	rank_offers(a, &o, 1, &job, &p, 1, &without, &n);
	assert_true(without->hours > with->hours * 1.3);
	/* With its first start of 240 s. */
	assert_true(
	    fabs(without->paid_hours - (expm1(1.0) * (10 + 240.0 / 3600) + 240.0 / 3600)) < 1e-6);
}

/* A price that stands still loses against one that moves when they are near, and not when it is
 * clearly cheaper. */
static void frozen_prices_do_not_rank_like_fresh_ones(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct rank_policy p;
	struct offer o[2] = { offer_make(1, SPOT_MARKET_SPOT, 1000000),
		offer_make(2, SPOT_MARKET_SPOT, 1010000) };
	struct rank_job job = { .spec = spec_new(a), .work_left_s = 3600, .spot_allowed = true };
	char why[SCORE_WHY_MAX];
	struct score *s;
	size_t n;

	(void)state;
	rank_policy_default(&p);
	o[0].price_state = PRICE_FROZEN;
	rank_offers(a, o, 2, &job, &p, 1, &s, &n);
	assert_int_equal(s[0].offer->pool_id, 2);
	assert_int_equal(s[0].penalty_micros, 0);
	assert_int_equal(s[1].penalty_micros, 20000);
	assert_int_equal(s[1].price_micros, 1020000);
	score_why(&s[1], why);
	assert_non_null(strstr(why, "0.0200 USD/h of it because the price is frozen"));
	o[1].price_micros = 1030000;
	rank_offers(a, o, 2, &job, &p, 1, &s, &n);
	assert_int_equal(s[0].offer->pool_id, 1);
	o[0].price_state = PRICE_STALE;
	rank_offers(a, o, 2, &job, &p, 1, &s, &n);
	assert_int_equal(s[0].offer->pool_id, 2);
	assert_int_equal(s[1].penalty_micros, 250000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cheap_pool_that_dies_often_loses_against_a_calm_one),
		cmocka_unit_test(refused_offers_have_a_reason_in_words),
		cmocka_unit_test(the_order_is_the_same_whatever_the_input_order),
		cmocka_unit_test(suitable_offers_are_those_without_a_refusal),
		cmocka_unit_test(the_cheapest_in_time_is_found_and_else_the_fastest),
		cmocka_unit_test(own_step_rates_correct_the_table),
		cmocka_unit_test(the_interval_is_the_cheapest_one),
		cmocka_unit_test(throughput_comes_from_the_table),
		cmocka_unit_test(a_job_without_checkpoint_pays_for_starting_over),
		cmocka_unit_test(frozen_prices_do_not_rank_like_fresh_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
