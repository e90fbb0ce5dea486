/* The distribution of a plan: it agrees with the expectation where both say the same, and moves as
 * it should. */
#include "base/base.h"
#include "core/place/place.h"
#include "core/rank/rank.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static struct gpu_ask v100 = { .gpu = "V100", .milli = 1000 };
static struct gpu_ask slow_or_fast[] = { { .gpu = "V100", .milli = 1000 },
	{ .gpu = "V100", .milli = 50 } };

struct setting {
	struct arena *a;
	struct resource_ask ask;
	struct job_spec spec;
	struct rank_job job;
	struct rank_policy policy;
	struct offer offers[4];
	struct ranking ranking;
	struct hazard_model *hazards;
};

static struct offer offer_make(int32_t id, enum spot_market market, int64_t price, double hazard)
{
	return (struct offer){ .pool_id = id,
		.provider = "aws",
		.region = "us-east-1",
		.zone = "z",
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
		.quota_class = "",
		.has_hazard = true,
		.hazard = hazard,
		.hazard_lo = hazard * 0.8,
		.hazard_hi = hazard * 1.2,
		.hazard_source = "test",
		.launch = 0.9,
		.launch_lo = 0.8,
		.launch_hi = 1,
		.launch_source = "test" };
}

static void setting_rank(struct setting *s, size_t n)
{
	s->spec.asks = &s->ask;
	s->spec.asks_n = 1;
	s->job.spec = &s->spec;
	s->job.spot_allowed = s->job.on_demand_allowed = true;
	rank_run(s->a, s->offers, n, &s->job, &s->policy, 1, &s->ranking);
}

static int setup(void **state)
{
	struct arena *a = arena_new(0);
	struct setting *s = arena_alloc(a, sizeof(*s));

	s->a = a;
	s->ask = (struct resource_ask){ .use_spot = -1, .gpus = &v100, .gpus_n = 1 };
	s->spec.checkpoint.path = "ckpt";
	s->job.work_left_s = 36000;
	rank_policy_default(&s->policy);
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	arena_free(((struct setting *)*state)->a);
	return 0;
}

static struct montecarlo_out setting_play(struct setting *s, size_t runs, uint64_t seed,
    double deadline_h)
{
	struct montecarlo_out m;

	montecarlo_run(s->a,
	    &(struct montecarlo_in){ .ranking = &s->ranking,
		.hazards = s->hazards,
		.runs = runs,
		.seed = seed,
		.now_us = 1,
		.deadline_us = deadline_h > 0 ? 1 + (int64_t)(deadline_h * 3.6e9) : 0 },
	    &m);
	return m;
}

/* Begun in this pool. */
static struct montecarlo_out play_from(struct setting *s, int32_t pool, double deadline_h)
{
	struct montecarlo_out m;
	size_t at = 0;

	while (s->ranking.scores[at].offer->pool_id != pool) {
		at++;
	}
	montecarlo_run(s->a,
	    &(struct montecarlo_in){ .ranking = &s->ranking,
		.chosen = at,
		.runs = 2000,
		.seed = 3,
		.now_us = 1,
		.deadline_us = deadline_h > 0 ? 1 + (int64_t)(deadline_h * 3.6e9) : 0 },
	    &m);
	return m;
}

static void the_mean_is_the_expectation_when_there_is_one_pool(void **state)
{
	struct setting *s = *state;
	struct rng r;

	rng_seeded_init(&r, 5);
	for (int i = 0; i < 20; i++) {
		double hazard = 0.02 + 0.2 * rng_unit(&r);
		struct score_terms t;
		struct montecarlo_out m;

		/* Certain to launch, and the hazard is known: both compute the rest. */
		s->offers[0] = offer_make(1, SPOT_MARKET_SPOT, 1000000, hazard);
		s->offers[0].hazard_lo = s->offers[0].hazard_hi = hazard;
		s->offers[0].launch = 1;
		s->spec.checkpoint.path = i % 2 == 0 ? "ckpt" : NULL;
		setting_rank(s, 1);
		assert_int_equal(s->ranking.usable, 1);
		score_explain(&s->ranking.scores[0], &t);
		m = setting_play(s, 20000, 7, 0);
		assert_int_equal(m.unfinished, 0);
		assert_true(fabs((double)m.cost_mean_micros / (double)t.total_micros - 1) < 0.03);
		assert_true(fabs(m.interruptions / t.interruptions - 1) < 0.06);
		assert_true(fabs(m.lost_h - t.lost_h) < 0.05 * (t.lost_h + 0.2));
		/* The quick quantiles are those of the runs, roughly. */
		assert_true(fabs((double)t.cost_p50_micros / (double)m.cost_p50_micros - 1) < 0.12);
		assert_true(fabs((double)t.cost_p95_micros / (double)m.cost_p95_micros - 1) < 0.12);
	}
}

/* Any of its machines that goes stops all of them, and all are paid. */
static void a_gang_costs_what_its_score_says(void **state)
{
	struct setting *s = *state;
	struct montecarlo_out one, four;
	struct gang_score g;

	s->offers[0] = offer_make(1, SPOT_MARKET_SPOT, 1000000, 0.03);
	s->offers[0].hazard_lo = s->offers[0].hazard_hi = 0.03;
	s->offers[0].launch = 1;
	setting_rank(s, 1);
	gang_whole(&s->ranking.scores[0], 4, &g);
	one = setting_play(s, 20000, 7, 0);
	montecarlo_run(s->a,
	    &(struct montecarlo_in){ .ranking = &s->ranking,
		.runs = 20000,
		.seed = 7,
		.now_us = 1,
		.nodes = 4 },
	    &four);
	assert_true(fabs((double)four.cost_mean_micros / (double)g.total_micros - 1) < 0.03);
	assert_true(fabs(four.interruptions / g.interruptions - 1) < 0.1);
	assert_true(four.cost_mean_micros > 4 * one.cost_mean_micros);
	assert_true(four.hours_p95 > one.hours_p95);
}

static void the_same_seed_gives_the_same_figures(void **state)
{
	struct setting *s = *state;
	struct montecarlo_out a, b, c;

	s->offers[0] = offer_make(1, SPOT_MARKET_SPOT, 1000000, 0.1);
	s->offers[1] = offer_make(2, SPOT_MARKET_SPOT, 1200000, 0.1);
	s->offers[2] = offer_make(3, SPOT_MARKET_ON_DEMAND, 3000000, 0.0005);
	setting_rank(s, 3);
	a = setting_play(s, 0, 1, 14);
	b = setting_play(s, 0, 1, 14);
	c = setting_play(s, 0, 2, 14);
	assert_int_equal(a.runs, MONTECARLO_RUNS);
	assert_memory_equal(&a, &b, sizeof(a));
	assert_true(a.cost_p50_micros != c.cost_p50_micros);
	assert_true(fabs((double)a.cost_mean_micros / (double)c.cost_mean_micros - 1) < 0.05);
	assert_true(
	    a.cost_p5_micros <= a.cost_p50_micros && a.cost_p50_micros <= a.cost_p95_micros);
	assert_true(a.hours_p5 <= a.hours_p50 && a.hours_p50 <= a.hours_p95);
}

/* A plan is made while others wait for the daemon. */
static void a_long_job_in_a_bad_pool_gets_fewer_runs(void **state)
{
	struct setting *s = *state;
	struct montecarlo_out m;

	for (int32_t i = 0; i < 4; i++) {
		s->offers[i] = offer_make(i + 1, SPOT_MARKET_SPOT, 1000000, 2.0);
	}
	s->job.work_left_s = 3600 * 1000;
	setting_rank(s, 4);
	m = setting_play(s, 0, 1, 0);
	assert_int_equal(m.runs, MONTECARLO_LEAST);
	assert_true(m.interruptions > 1000 && m.unfinished < m.runs);
}

static void later_deadlines_are_met_more_often(void **state)
{
	struct setting *s = *state;
	double last = 0;

	s->offers[0] = offer_make(1, SPOT_MARKET_SPOT, 1000000, 0.5);
	s->spec.checkpoint.interval_s = 3600;
	setting_rank(s, 1);
	for (double h = 10; h < 20; h += 0.5) {
		double odds = setting_play(s, 4000, 3, h).deadline_odds;

		assert_true(odds >= last);
		last = odds;
	}
	assert_true(setting_play(s, 4000, 3, 10.1).deadline_odds < 0.2);
	assert_true(last > 0.95);
}

static void on_demand_saves_a_deadline_that_spot_alone_would_miss(void **state)
{
	struct setting *s = *state;
	struct montecarlo_out alone, helped;

	s->offers[0] = offer_make(1, SPOT_MARKET_SPOT, 1000000, 1.5);
	s->offers[1] = offer_make(2, SPOT_MARKET_ON_DEMAND, 4000000, 0.0001);
	s->offers[1].launch = 1;
	setting_rank(s, 1);
	alone = setting_play(s, 4000, 3, 12);
	setting_rank(s, 2);
	assert_int_equal(s->ranking.scores[0].offer->pool_id, 1);
	helped = setting_play(s, 4000, 3, 12);
	assert_true(helped.deadline_odds > alone.deadline_odds + 0.2);
	assert_true(helped.on_demand_h > 0 && alone.on_demand_h == 0);
	assert_true(helped.cost_mean_micros > alone.cost_mean_micros);
}

/* The cheapest way out is no way out when it would be late, nor is a spot pool that is too slow. */
static void nobody_falls_back_on_what_would_be_late(void **state)
{
	struct setting *s = *state;
	struct montecarlo_out m;

	s->offers[0] = offer_make(1, SPOT_MARKET_SPOT, 1000000, 1.0);
	s->offers[1] = offer_make(2, SPOT_MARKET_SPOT, 10000, 0.01);
	s->offers[2] = offer_make(3, SPOT_MARKET_ON_DEMAND, 20000, 0.0001);
	s->offers[3] = offer_make(4, SPOT_MARKET_ON_DEMAND, 4000000, 0.0001);
	s->offers[1].gpu_milli = s->offers[2].gpu_milli = 50;
	s->offers[3].launch = 1;
	s->ask.gpus = slow_or_fast;
	s->ask.gpus_n = 2;
	setting_rank(s, 4);
	assert_int_equal(s->ranking.usable, 4);
	m = play_from(s, 1, 20);
	assert_true(m.deadline_odds > 0.95);
	assert_true(m.on_demand_h > 0);
	assert_true(m.hours_p95 < 20);
	m = play_from(s, 4, 20);
	assert_true(m.deadline_odds > 0.99);
	m = play_from(s, 1, 0);
	assert_true(m.hours_p95 > 100);
}

/* A price far under its mean comes back to it: the longer the run, the more it costs. */
static void prices_go_back_to_their_mean(void **state)
{
	struct setting *s = *state;
	struct montecarlo_out m;
	struct score_terms t;

	s->offers[0] = offer_make(1, SPOT_MARKET_SPOT, 1000000, 0.01);
	s->offers[0].hazard_lo = s->offers[0].hazard_hi = 0.01;
	s->offers[0].launch = 1;
	s->offers[0].price_mean = 2;
	s->offers[0].price_var = 0.01;
	s->offers[0].price_cover = 1;
	s->job.work_left_s = 14 * 86400;
	s->policy.price_reversion_s = 7 * 86400;
	setting_rank(s, 1);
	score_explain(&s->ranking.scores[0], &t);
	/* Two reversion times: 1 - (1 - e^-2) / 2 of the way, a little more by the restarts. */
	assert_true(fabs((double)t.price_move_micros / 1e6 - (1 - (1 - exp(-2)) / 2)) < 0.02);
	m = setting_play(s, 10000, 4, 0);
	assert_true(fabs((double)m.cost_mean_micros / (double)t.total_micros - 1) < 0.04);
	assert_true(m.cost_p95_micros > m.cost_p50_micros);
}

static void pools_that_fail_together_help_each_other_less(void **state)
{
	struct setting *s = *state;
	struct montecarlo_out apart, together;

	s->offers[0] = offer_make(1, SPOT_MARKET_SPOT, 1000000, 1.0);
	s->offers[1] = offer_make(2, SPOT_MARKET_SPOT, 1000000, 1.0);
	s->offers[0].launch = s->offers[1].launch = 1;
	setting_rank(s, 2);
	apart = setting_play(s, 4000, 3, 0);
	s->hazards = hazard_model_build(s->a, s->offers, 2, &s->policy, 1);
	assert_true(hazard_correlation(s->hazards, &s->offers[0], &s->offers[1]) > 0.01);
	together = setting_play(s, 4000, 3, 0);
	assert_true(together.hours_mean > apart.hours_mean);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_mean_is_the_expectation_when_there_is_one_pool,
		    setup, teardown),
		cmocka_unit_test_setup_teardown(a_gang_costs_what_its_score_says, setup, teardown),
		cmocka_unit_test_setup_teardown(the_same_seed_gives_the_same_figures, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(a_long_job_in_a_bad_pool_gets_fewer_runs, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(later_deadlines_are_met_more_often, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(
		    on_demand_saves_a_deadline_that_spot_alone_would_miss, setup, teardown),
		cmocka_unit_test_setup_teardown(nobody_falls_back_on_what_would_be_late, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(prices_go_back_to_their_mean, setup, teardown),
		cmocka_unit_test_setup_teardown(pools_that_fail_together_help_each_other_less,
		    setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
