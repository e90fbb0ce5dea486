/* The slack of a deadline: for refused launches, for work that a reclaim takes, for moves. And the
 * time to leave spot. */
#include "base/base.h"
#include "core/policy/policy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define S SPOT_US_PER_S
#define H SPOT_US_PER_HOUR
#define NOW (1000 * H)

static struct arena *arena;
static struct gpu_ask gpu = { .gpu = "A100", .milli = 1000 };
static struct resource_ask ask = { .use_spot = -1, .gpus = &gpu, .gpus_n = 1 };
static struct job_spec spec;
static struct rank_policy policy;
static struct offer_record records[3];
static struct offer offers[3];

static int setup(void **state)
{
	static const struct {
		const char *provider, *region;
		enum spot_market market;
		double hazard;
	} of[] = { { "gcp", "r1", SPOT_MARKET_SPOT, 0.1 },
		{ "gcp", "r1", SPOT_MARKET_ON_DEMAND, 0.0005 },
		{ "aws", "r2", SPOT_MARKET_ON_DEMAND, 0.0005 } };

	(void)state;
	arena = arena_new(0);
	rank_policy_default(&policy);
	spec = (struct job_spec){ .asks = &ask,
		.asks_n = 1,
		.interruptible = true,
		.work_s = 36000,
		.checkpoint = { .path = "c" } };
	memset(records, 0, sizeof(records));
	for (size_t i = 0; i < ARRAY_LEN(offers); i++) {
		offers[i] = (struct offer){ .pool_id = (int32_t)i,
			.provider = of[i].provider,
			.region = of[i].region,
			.zone = "z",
			.zone_name = "",
			.instance_type = "t",
			.market = of[i].market,
			.gpu_name = "A100-80GB",
			.gpu_milli = 1000,
			.price_micros = 1000000 * (int64_t)(i + 1),
			.advisor_lo = -1,
			.placement_score = -1,
			.capacity = -1,
			.arch = "",
			.quota_class = "",
			.record = &records[i],
			.has_hazard = true,
			.hazard = of[i].hazard,
			.hazard_lo = of[i].hazard,
			.hazard_hi = of[i].hazard,
			.hazard_source = "",
			.launch = 1,
			.launch_source = "" };
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	arena_free(arena);
	return 0;
}

static struct ranking ranking_make(int64_t deadline_us, int64_t save_us)
{
	struct ranking r;

	rank_run(arena, offers, ARRAY_LEN(offers),
	    &(struct rank_job){ .spec = &spec,
		.work_left_s = spec.work_s,
		.save_us = save_us,
		.spot_allowed = true,
		.on_demand_allowed = true,
		.deadline_us = deadline_us },
	    &policy, NOW, &r);
	return r;
}

static const struct score *of_pool(const struct ranking *r, int32_t pool)
{
	for (size_t i = 0; i < r->usable; i++) {
		if (r->scores[i].offer->pool_id == pool) {
			return &r->scores[i];
		}
	}
	return NULL;
}

static int64_t reserve_of(double within_h)
{
	struct ranking r = ranking_make(0, 0);
	struct launch_reserve x;

	launch_reserve_find(&r, within_h, 60 * S, 900 * S, &x);
	return x.us;
}

static void launches_that_nobody_refused_need_no_reserve(void **state)
{
	(void)state;
	assert_int_equal(reserve_of(100), 0);
	records[1].launches = 5;
	assert_int_equal(reserve_of(100), 0);
}

static void refusals_of_one_region_do_not_matter_while_another_accepts(void **state)
{
	(void)state;
	records[1].refusals = 50;
	assert_int_equal(reserve_of(100), 0);
	/* Both refuse two times out of five: 0.404 x 0.404 is not rare, its square is. */
	records[1].refusals = records[2].refusals = 2.1;
	assert_int_equal(reserve_of(100), 60 * S);
}

static void the_reserve_grows_with_refusals_and_has_an_end(void **state)
{
	struct launch_reserve x;
	struct ranking r;
	int64_t last = 0;

	(void)state;
	for (double n = 1; n < 100; n *= 2) {
		records[1].refusals = records[2].refusals = n;
		assert_true(reserve_of(100) >= last);
		last = reserve_of(100);
	}
	assert_int_equal(last, LAUNCH_RESERVE_MOST_US);
	r = ranking_make(0, 0);
	/* A cooldown that is longer than the rest of the maximum. */
	launch_reserve_find(&r, 100, 2500 * S, 2500 * S, &x);
	assert_int_equal(x.us, LAUNCH_RESERVE_MOST_US);
}

static void a_pool_that_would_be_late_is_no_way_out(void **state)
{
	static struct gpu_ask any[] = { { .gpu = "A100", .milli = 1000 },
		{ .gpu = "V100", .milli = 1000 } };

	(void)state;
	records[1].refusals = 50;
	ask.gpus = any;
	ask.gpus_n = 2;
	offers[2].gpu_name = "V100-16GB"; /* accepts, and is slower */
	assert_int_equal(reserve_of(1000), 0);
	assert_true(reserve_of(10.3) > 0);
	/* None is in time: then all count. */
	assert_int_equal(reserve_of(1), 0);
	ask.gpus = &gpu;
	ask.gpus_n = 1;
}

static void an_interval_never_takes_more_than_a_quarter_of_the_slack(void **state)
{
	static const int64_t slacks_s[] = { 1, 300, 1200, 3600, 7200, 36000 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(slacks_s); i++) {
		struct score_terms t;
		struct ranking r;

		r = ranking_make(NOW + 36000 * S + 480 * S + slacks_s[i] * S, 0);
		score_explain(of_pool(&r, 0), &t);
		assert_true(fabs(t.slack_h * 3600 - (double)slacks_s[i]) < 1);
		assert_true(t.interval_s <= fmax((double)slacks_s[i] / 4, 10 * t.save_s) + 1e-6);
		score_explain(of_pool(&r, 1), &t);
		assert_true(t.interval_s > 3000); /* on demand nothing is taken back */
	}
}

static void a_save_that_is_longer_than_the_notice_saves_nothing(void **state)
{
	struct ranking r = ranking_make(0, 29 * S);
	struct score_terms t;
	double before;

	(void)state;
	score_explain(of_pool(&r, 0), &t);
	assert_true(t.notice_saves == policy.notice_saves && t.notice_s == 30);
	before = t.interval_s;
	r = ranking_make(0, 31 * S);
	score_explain(of_pool(&r, 0), &t);
	assert_true(t.notice_saves == 0 && t.lost_per_h * 3600 == t.interval_s / 2);
	assert_true(t.interval_s < before);
	offers[0].provider = "aws"; /* two minutes */
	r = ranking_make(0, 31 * S);
	score_explain(of_pool(&r, 0), &t);
	assert_true(t.notice_saves == policy.notice_saves);
}

static void the_work_that_a_reclaim_may_take(void **state)
{
	struct ranking r = ranking_make(0, 31 * S);
	struct score_terms t;

	(void)state;
	score_explain(of_pool(&r, 0), &t);
	assert_int_equal(spot_loss_us(of_pool(&r, 0), &spec.checkpoint, 10 * H),
	    (int64_t)((t.interval_s + 31) * 1e6));
	assert_int_equal(spot_loss_us(of_pool(&r, 0), &spec.checkpoint, S), S);
	spec.checkpoint.interval_off = true;
	assert_int_equal(spot_loss_us(of_pool(&r, 0), &spec.checkpoint, 10 * H), 10 * H);
	spec.checkpoint = (struct checkpoint_spec){ 0 };
	assert_int_equal(spot_loss_us(of_pool(&r, 0), &spec.checkpoint, 10 * H), 10 * H);
}

/* Against the sum that the header promises, over deadlines around it. */
static void a_move_is_made_only_when_the_deadline_is_kept_whatever_spot_does(void **state)
{
	struct ranking r = ranking_make(NOW + 20 * H, 60 * S);
	const struct score *spot = of_pool(&r, 0), *od = of_pool(&r, 1);
	struct move_in in = { .now_us = NOW,
		.here = od,
		.there = spot,
		.on_demand = od,
		.save_us = 60 * S,
		.changeover_us = 240 * S,
		.launch_us = 600 * S,
		.checkpoint = &spec.checkpoint };
	int64_t work = (int64_t)(od->hours * (double)H), need;

	(void)state;
	assert_null(move_refused(arena, &in)); /* no deadline */
	need = 300 * S + spot_loss_us(spot, &spec.checkpoint, work) + 600 * S + work;
	in.deadline_us = NOW + need;
	assert_null(move_refused(arena, &in));
	in.deadline_us--;
	assert_non_null(strstr(move_refused(arena, &in), "deadline"));
	/* The save before it may fail: its work is done again. */
	in.unsaved_us = 900 * S;
	in.deadline_us = NOW + need + 900 * S;
	assert_null(move_refused(arena, &in));
	in.deadline_us--;
	assert_non_null(strstr(move_refused(arena, &in), "deadline"));
	in.unsaved_us = 0;
	in.on_demand = NULL;
	in.deadline_us = NOW + 1000 * H;
	assert_non_null(strstr(move_refused(arena, &in), "fall back"));
	in.there = od;
	in.deadline_us = NOW + work + 60 * S;
	assert_null(move_refused(arena, &in));
	in.deadline_us--;
	assert_non_null(move_refused(arena, &in));
}

static void spot_is_left_before_what_is_not_saved_is_more_than_the_slack(void **state)
{
	struct ranking r = ranking_make(0, 0);
	struct stay_in in = { .now_us = NOW,
		.here = of_pool(&r, 0),
		.left_us = 11 * H,
		.unsaved_us = 600 * S,
		.save_us = 20 * S,
		.changeover_us = 240 * S };

	(void)state;
	in.deadline_us = NOW + 11 * H + 840 * S;
	assert_int_equal(stay_judge(&in), STAY);
	in.deadline_us--;
	assert_int_equal(stay_judge(&in), STAY_UNSAFE);
	in.unsaved_us--;
	assert_int_equal(stay_judge(&in), STAY);
	in.launch_us = 60 * S;
	assert_int_equal(stay_judge(&in), STAY_UNSAFE);
	/* On demand would be late, too: nothing is gained by leaving. */
	in.deadline_us = NOW + 11 * H;
	assert_int_equal(stay_judge(&in), STAY);
	/* Late here even without a reclaim, and on demand is done sooner. */
	in.left_us = 5 * H;
	in.deadline_us = NOW + 9 * H;
	assert_int_equal(stay_judge(&in), STAY_TOO_SLOW);
}

/* Without steps all of the work counts as undone, also the part that is done by the clock and not
 * saved. A reclaim costs no more than that, leaving with a save less. */
static void work_done_by_the_clock_is_saved_in_time(void **state)
{
	struct ranking r = ranking_make(0, 0);
	struct stay_in in = { .now_us = NOW,
		.here = of_pool(&r, 0),
		.left_us = 11 * H,
		.unsaved_us = 3 * H,
		.clock_us = 3 * H,
		.save_us = 20 * S,
		.changeover_us = 240 * S,
		.launch_us = H,
		.deadline_us = NOW + 12 * H + 240 * S };

	(void)state;
	assert_int_equal(stay_judge(&in), STAY);
	in.deadline_us--;
	assert_int_equal(stay_judge(&in), STAY_UNSAFE);
	/* Too late for all of the work, in time for the rest once this is saved. */
	in.deadline_us = NOW + 10 * H + 1800 * S;
	assert_int_equal(stay_judge(&in), STAY_UNSAFE);
	in.clock_us = in.unsaved_us = 0;
	assert_int_equal(stay_judge(&in), STAY);
}

static void a_late_job_goes_where_it_finishes_first(void **state)
{
	struct ranking r = ranking_make(NOW - H, 0);

	(void)state;
	/* Three machines of one speed: spot is the cheapest, and may be taken back; of the others
	 * the cheapest. */
	assert_int_equal(r.scores[0].offer->pool_id, 0);
	assert_int_equal(rank_quickest(r.scores, r.usable)->offer->pool_id, 1);
	r.usable = 1;
	assert_int_equal(rank_quickest(r.scores, r.usable)->offer->pool_id, 0);
	assert_null(rank_quickest(r.scores, 0));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(launches_that_nobody_refused_need_no_reserve),
		T(refusals_of_one_region_do_not_matter_while_another_accepts),
		T(the_reserve_grows_with_refusals_and_has_an_end),
		T(a_pool_that_would_be_late_is_no_way_out),
		T(an_interval_never_takes_more_than_a_quarter_of_the_slack),
		T(a_save_that_is_longer_than_the_notice_saves_nothing),
		T(the_work_that_a_reclaim_may_take),
		T(a_move_is_made_only_when_the_deadline_is_kept_whatever_spot_does),
		T(spot_is_left_before_what_is_not_saved_is_more_than_the_slack),
		T(work_done_by_the_clock_is_saved_in_time),
		T(a_late_job_goes_where_it_finishes_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
