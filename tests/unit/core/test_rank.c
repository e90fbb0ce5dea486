/* Expected dollars per finished work: every printed score equals its terms, worked out again here. */
#include "base/base.h"
#include "base/arena.h"
#include "base/rng.h"
#include "core/rank.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static struct gpu_ask v100 = {.gpu = "V100", .milli = 1000};

static struct job_spec *spec_new(struct arena *a)
{
	struct job_spec *s = arena_alloc(a, sizeof(*s));

	s->asks = arena_alloc(a, sizeof(*s->asks));
	s->asks[0] = (struct resource_ask){.use_spot = -1, .gpus = &v100, .gpus_n = 1};
	s->asks_n = 1;
	s->checkpoint = (struct checkpoint_spec){.path = "ckpt", .signal = "USR1"};
	return s;
}

static struct offer offer_make(int32_t id, enum spot_market market, int64_t price)
{
	return (struct offer){.pool_id = id, .provider = "aws", .region = "us-east-1", .zone = "use1-az4", .zone_name = "",
		.instance_type = "p3.2xlarge", .market = market, .gpu_name = "V100-16GB", .gpu_milli = 1000,
		.price_micros = price, .price_state = PRICE_FRESH, .advisor_lo = -1, .placement_score = -1, .capacity = -1,
		.arch = "", .quota_class = ""};
}

static void scores_equal_their_terms(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct rank_policy p;
	struct rng r;

	(void)state;
	rank_policy_default(&p);
	rng_seeded_init(&r, 3);
	for (int i = 0; i < 2000; i++) {
		struct offer o = offer_make(1, rng_below(&r, 2) ? SPOT_MARKET_SPOT : SPOT_MARKET_ON_DEMAND,
		    (int64_t)rng_below(&r, 9000000) + 100000);
		struct rank_job job = {.spec = spec_new(a), .work_left_s = (int64_t)rng_below(&r, 400000) + 60,
			.spot_allowed = true, .on_demand_allowed = true, .save_us = (int64_t)rng_below(&r, 90) * 1000000};
		struct score *s;
		size_t usable;

		o.own_reclaims = (int32_t)rng_below(&r, 4);
		o.own_node_us = (int64_t)rng_below(&r, 100) * SPOT_US_PER_HOUR;
		rank_offers(a, &o, 1, &job, &p, 1, &s, &usable);
		if (usable == 0) {
			assert_non_null(s->refused);
			continue;
		}
		double save = job.save_us > 0 ? (double)job.save_us / 1e6 : 20.0;
		double interval = fmin(fmax(sqrt(2 * fmax(save, 0.1) * 3600 / s->hazard), 30), 3600);
		double lost = 0.1 * interval / 2 / 3600, restart = 240.0 / 3600;
		double work = (double)job.work_left_s / 3600;
		double hours = work * (1 + save / interval) / (1 - s->hazard * (lost + restart));

		assert_true(fabs(s->hours - hours) < 1e-9 * hours);
		assert_true(fabs(s->hours - (s->work_h * (1 + s->overhead) + s->lost_h + s->restart_h)) < 1e-6 * hours);
		assert_int_equal(s->total_micros, s->compute_micros + s->egress_micros);
		assert_true(llabs(s->compute_micros - llround((double)s->price_micros * hours)) <= 1);
		arena_reset(a);
	}
}

static void a_cheap_pool_that_dies_often_loses_against_a_calm_one(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct rank_policy p;
	struct offer o[2] = {offer_make(1, SPOT_MARKET_SPOT, 900000), offer_make(2, SPOT_MARKET_SPOT, 1000000)};
	struct rank_job job = {.spec = spec_new(a), .work_left_s = 36000, .spot_allowed = true, .on_demand_allowed = true};
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

static void refusals_come_last_with_a_reason(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct rank_policy p;
	struct offer o[5];
	struct rank_job job = {.spec = spec_new(a), .work_left_s = 3600, .spot_allowed = true, .on_demand_allowed = false};
	struct score *s;
	size_t usable;

	(void)state;
	rank_policy_default(&p);
	for (int i = 0; i < 5; i++) {
		o[i] = offer_make(i + 1, SPOT_MARKET_SPOT, 1000000);
	}
	o[0].cool_until_us = 100;
	o[1].price_state = PRICE_IMPLAUSIBLE;
	o[2].market = SPOT_MARKET_ON_DEMAND;
	o[3].capacity = 0;
	rank_offers(a, o, 5, &job, &p, 50, &s, &usable);
	assert_int_equal(usable, 1);
	assert_int_equal(s[0].offer->pool_id, 5);
	for (int i = 1; i < 5; i++) {
		assert_non_null(s[i].refused);
	}
	rank_offers(a, o, 5, &job, &p, 101, &s, &usable);
	assert_int_equal(usable, 2);
}

static void the_order_is_the_same_whatever_the_input_order(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct rank_policy p;
	struct rank_job job = {.spec = spec_new(a), .work_left_s = 3600, .spot_allowed = true, .on_demand_allowed = true};
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

static void own_record_moves_the_hazard_from_its_prior(void **state)
{
	struct rank_policy p;
	struct offer o = offer_make(1, SPOT_MARKET_SPOT, 1);
	double h0, h1, h2, lo, hi;
	const char *source;

	(void)state;
	rank_policy_default(&p);
	hazard_estimate(&o, &p, &h0, &lo, &hi, &source);
	assert_true(fabs(h0 - 0.10) < 1e-9 && lo < h0 && hi > h0);
	assert_string_equal(source, "wide prior");
	o.own_node_us = 1000 * SPOT_US_PER_HOUR;
	hazard_estimate(&o, &p, &h1, &lo, &hi, &source);
	assert_true(h1 < h0 / 10);
	o.own_reclaims = 500;
	hazard_estimate(&o, &p, &h2, &lo, &hi, &source);
	assert_true(h2 > 0.45 && lo > 0.4 && hi < 0.6);
	o = offer_make(1, SPOT_MARKET_SPOT, 1);
	o.advisor_lo = 0.05;
	o.advisor_hi = 0.10;
	hazard_estimate(&o, &p, &h0, &lo, &hi, &source);
	assert_true(fabs(h0 - (-log1p(-0.075) / 720)) < 1e-9);
	assert_string_equal(source, "spot advisor");
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
	struct rank_job job = {.spec = spec_new(a), .work_left_s = 36000, .spot_allowed = true};
	struct score *with, *without;
	size_t n;

	(void)state;
	rank_policy_default(&p);
	rank_offers(a, &o, 1, &job, &p, 1, &with, &n);
	job.spec = spec_new(a);
	((struct job_spec *)(uintptr_t)job.spec)->checkpoint.path = NULL;
	rank_offers(a, &o, 1, &job, &p, 1, &without, &n);
	assert_true(without->hours > with->hours * 1.3);
	assert_true(fabs(without->hours - (expm1(1.0) * (10 + 240.0 / 3600))) < 1e-6);
}

/* A price that stands still loses against one that moves when they are near, and not when it is clearly cheaper. */
static void frozen_prices_do_not_rank_like_fresh_ones(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct rank_policy p;
	struct offer o[2] = {offer_make(1, SPOT_MARKET_SPOT, 1000000), offer_make(2, SPOT_MARKET_SPOT, 1010000)};
	struct rank_job job = {.spec = spec_new(a), .work_left_s = 3600, .spot_allowed = true};
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
	assert_non_null(strstr(s[1].why, "0.0200 USD/h of it because the price is frozen"));
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
		cmocka_unit_test(scores_equal_their_terms),
		cmocka_unit_test(a_cheap_pool_that_dies_often_loses_against_a_calm_one),
		cmocka_unit_test(refusals_come_last_with_a_reason),
		cmocka_unit_test(the_order_is_the_same_whatever_the_input_order),
		cmocka_unit_test(own_record_moves_the_hazard_from_its_prior),
		cmocka_unit_test(throughput_comes_from_the_table),
		cmocka_unit_test(a_job_without_checkpoint_pays_for_starting_over),
		cmocka_unit_test(frozen_prices_do_not_rank_like_fresh_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
