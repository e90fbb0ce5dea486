/* The odds of being late, the spread of prices, and the words of a refusal. test_score.py checks
 * the terms of a score. */
#include "base/base.h"
#include "core/hazard/hazard.h"
#include "core/rank/rank.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

struct bench {
	struct resource_ask ask;
	struct job_spec spec;
	struct rank_job job;
	struct rank_policy policy;
	struct offer offer;
};

/* Ten hours of work on any machine of one pool, which costs a dollar an hour. */
static void bench_open(struct bench *b)
{
	*b = (struct bench){ .ask = { .use_spot = -1 } };
	b->spec = (struct job_spec){ .asks = &b->ask, .asks_n = 1, .checkpoint = { .path = "c" } };
	b->job = (struct rank_job){ .spec = &b->spec,
		.work_left_s = 36000,
		.spot_allowed = true,
		.on_demand_allowed = true };
	b->offer = (struct offer){ .pool_id = 1,
		.provider = "aws",
		.region = "us-east-1",
		.zone = "a",
		.zone_name = "",
		.instance_type = "t",
		.gpu_name = "",
		.market = SPOT_MARKET_SPOT,
		.price_micros = 1000000,
		.price_state = PRICE_FRESH,
		.advisor_lo = -1,
		.placement_score = -1,
		.capacity = -1,
		.arch = "",
		.quota_class = "",
		.has_hazard = true,
		.hazard = 0.1,
		.hazard_lo = 0.1,
		.hazard_hi = 0.1,
		.launch = 1 };
	rank_policy_default(&b->policy);
}

static void bench_rank(struct arena *a, const struct bench *b, struct ranking *r)
{
	rank_run(a, &b->offer, 1, &b->job, &b->policy, 1, r);
}

static void terms_of(struct arena *a, const struct bench *b, struct score_terms *t)
{
	const struct score *s = rank_one(a, &b->offer, &b->job, &b->policy, 1);

	assert_non_null(s);
	score_explain(s, t);
}

static void one_run_in_twenty_takes_longer_than_its_95_percent(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct score_terms t;
	struct bench b;

	bench_open(&b);
	terms_of(a, &b, &t);
	assert_true(t.hours_p50 < t.hours_p95);
	assert_true(fabs(score_late_odds(&t, t.hours_p95) - 0.05) < 1e-3);
	assert_true(fabs(score_late_odds(&t, t.hours_p50) - 0.5) < 1e-3);
	assert_true(score_late_odds(&t, 1000) < 1e-6);
	/* It cannot be done before the work itself is. */
	assert_true(score_late_odds(&t, 10) == 1);
}

static void without_a_spread_a_run_is_late_or_it_is_not(void **state UNUSED)
{
	struct score_terms t = { .start_h = 1, .work_h = 2, .hours = 3 };

	assert_true(score_late_odds(&t, 2.9) == 1);
	assert_true(score_late_odds(&t, 3) == 0);
	t.hours = 4; /* reclaims cost an hour, exactly */
	assert_true(score_late_odds(&t, 3.5) == 1);
	assert_true(score_late_odds(&t, 4) == 0);
}

static void a_price_strays_further_the_longer_a_run_is(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct score_terms hour, ten;
	struct bench b;
	double x;

	bench_open(&b);
	b.offer.hazard = b.offer.hazard_lo = b.offer.hazard_hi = 0.001;
	terms_of(a, &b, &ten);
	assert_true(ten.price_sd_micros == 0); /* its past is not known */
	b.offer.price_mean = 1;
	b.offer.price_cover = 1;
	b.offer.price_var = 0.01;
	terms_of(a, &b, &ten);
	b.job.work_left_s = 3600;
	terms_of(a, &b, &hour);
	/* x is the run in units of the time in which a price fades. The mean of a path then has
	 * 2 x / 3 of the price's variance, less a little. */
	x = hour.hours / PRICE_FADE_H;
	assert_true(fabs(hour.price_sd_micros / (1e5 * sqrt(2 * x / 3)) - 1) < 0.01);
	x = ten.hours / PRICE_FADE_H;
	assert_true(fabs(ten.price_sd_micros / (1e5 * sqrt(2 * x / 3)) - 1) < 0.05);
	assert_true(ten.price_sd_micros > 2 * hour.price_sd_micros);
}

static void the_model_writes_its_results_into_the_offers(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct hazard_model *m;
	struct offer o[2];
	struct hazard h;
	struct odds q;
	struct bench b;

	bench_open(&b);
	b.offer.has_hazard = false;
	o[0] = o[1] = b.offer;
	o[1].pool_id = 2;
	o[1].own_node_us = 200 * SPOT_US_PER_HOUR;
	o[1].own_reclaims = 40;
	o[0].own_launches = 20;
	o[1].own_refusals = 20;
	m = hazard_model_build(a, o, 2, &b.policy, 1);
	offers_believe(m, o, 2);
	for (size_t i = 0; i < 2; i++) {
		hazard_of(m, &o[i], &h);
		hazard_odds(m, &o[i], &q);
		assert_true(o[i].has_hazard);
		assert_true(o[i].hazard == h.per_hour && o[i].launch == q.odds);
		assert_true(o[i].hazard_lo == h.lo && o[i].hazard_hi == h.hi);
		assert_true(o[i].launch_lo == q.lo && o[i].launch_hi == q.hi);
		assert_string_equal(o[i].hazard_source, h.source);
		assert_string_equal(o[i].launch_source, q.source);
	}
	/* It lost one in five hours, and every second launch. */
	assert_true(o[1].hazard > 0.1 && o[1].hazard < 0.3);
	assert_true(o[1].launch < o[0].launch);
}

static void refused_is(const struct bench *b, const char *words)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct ranking r;

	bench_rank(a, b, &r);
	assert_int_equal(r.usable, 0);
	assert_int_equal(r.refused_n, 1);
	assert_string_equal(refusal_words(a, &r, &r.refused[0]), words);
}

static void a_refusal_has_words_for_each_reason(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct refused none = { .why = REFUSED_NOT };
	struct ranking r;
	struct bench b;

	bench_open(&b);
	bench_rank(a, &b, &r);
	assert_int_equal(r.usable, 1);
	none.offer = &b.offer;
	assert_string_equal(refusal_words(a, &r, &none), "");
	b.job.spot_allowed = false;
	refused_is(&b, "spot is not allowed for this job");
	b.job.spot_allowed = true;
	b.ask.region = "eu-west-1";
	refused_is(&b, "another region was asked for");
	b.ask.region = NULL;
	b.spec.asks_n = 0;
	refused_is(&b, "nothing was asked for");
	b.spec.asks_n = 1;
	b.offer.cool_until_us = 1 + 90 * SPOT_US_PER_S;
	refused_is(&b, "cooling for 1m30s: refused lately");
	b.offer.cool_why = "no capacity";
	refused_is(&b, "cooling for 1m30s: no capacity");
	b.offer.cool_until_us = 0;
	/* A job that saves nothing does not finish ten hours where a machine lasts one minute. */
	b.offer.hazard = b.offer.hazard_lo = b.offer.hazard_hi = 60;
	b.spec.checkpoint.path = NULL;
	refused_is(&b, "interruptions would eat the progress");
	assert_null(rank_one(a, &b.offer, &b.job, &b.policy, 1));
}

static void data_without_a_region_is_in_another_one(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct score_terms t;
	struct bench b;

	bench_open(&b);
	b.offer.market = SPOT_MARKET_ON_DEMAND;
	b.spec.data_bytes = 10 * INT64_C(1000000000);
	b.spec.data_provider = "aws";
	terms_of(a, &b, &t);
	assert_int_equal(t.data_per_micros, 10 * 20000); /* us-east-1 to other regions */
	b.spec.data_region = "us-east-1";
	terms_of(a, &b, &t);
	assert_int_equal(t.data_per_micros, 0);
	b.spec.data_provider = "nobody";
	b.spec.data_region = "";
	terms_of(a, &b, &t);
	assert_int_equal(t.data_per_micros, 10 * 120000); /* the dearest common tier */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_run_in_twenty_takes_longer_than_its_95_percent),
		cmocka_unit_test(without_a_spread_a_run_is_late_or_it_is_not),
		cmocka_unit_test(a_price_strays_further_the_longer_a_run_is),
		cmocka_unit_test(the_model_writes_its_results_into_the_offers),
		cmocka_unit_test(a_refusal_has_words_for_each_reason),
		cmocka_unit_test(data_without_a_region_is_in_another_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
