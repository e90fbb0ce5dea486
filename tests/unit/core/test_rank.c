/* Expected dollars per finished work: what suits, the order, and what moves it. The arithmetic: test_rank_terms.c. */
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

static void refused_offers_have_a_reason_in_words(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct rank_policy p;
	struct offer o[8];
	struct rank_job job = {.spec = spec_new(a), .work_left_s = 3600, .spot_allowed = true, .on_demand_allowed = false};
	static const char *const words[] = {"cooling for", "implausible", "on-demand is not allowed", "has none now",
		"has 2x V100-16GB", "odds of 1.0 %", "no room in quota"};
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
	/* With its first start of 240 s. */
	assert_true(fabs(without->paid_hours - (expm1(1.0) * (10 + 240.0 / 3600) + 240.0 / 3600)) < 1e-6);
}

/* A price that stands still loses against one that moves when they are near, and not when it is clearly cheaper. */
static void frozen_prices_do_not_rank_like_fresh_ones(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct rank_policy p;
	struct offer o[2] = {offer_make(1, SPOT_MARKET_SPOT, 1000000), offer_make(2, SPOT_MARKET_SPOT, 1010000)};
	struct rank_job job = {.spec = spec_new(a), .work_left_s = 3600, .spot_allowed = true};
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
		cmocka_unit_test(own_record_moves_the_hazard_from_its_prior),
		cmocka_unit_test(throughput_comes_from_the_table),
		cmocka_unit_test(a_job_without_checkpoint_pays_for_starting_over),
		cmocka_unit_test(frozen_prices_do_not_rank_like_fresh_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
