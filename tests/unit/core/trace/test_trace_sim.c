/* The model of a run, rule by rule, on traces written by hand. Ticks have 600 s, spot costs 0.6
 * USD/h, on demand 6 USD/h, so a tick costs 0.1 or 1 USD. */
#include "trace_case.h"

#include "base/base.h"

#define TICK (600 * SPOT_US_PER_S)
#define SPOT_TICK INT64_C(100000)
#define OD_TICK INT64_C(1000000)

static struct arena *arena;

/* A policy that follows a script: '.' wait, 'o' on demand, '0'..'3' spot in that pool; the last one
 * goes on. */
static const char *script;
static struct policy_view seen[64];
static size_t tracks_seen, track_samples;

static void *script_begin(struct arena *a, const struct policy_setup *s,
    const struct policy_track *tracks, size_t n)
{
	size_t *at = arena_alloc(a, sizeof(*at));

	(void)s;
	tracks_seen = n;
	track_samples = n > 0 ? tracks[0].n : 0;
	return at;
}

static void script_decide(void *state, const struct policy_view *v, struct policy_choice *ret)
{
	size_t *at = state;
	char c = script[MIN(*at, strlen(script) - 1)];

	seen[(*at)++] = *v;
	*ret = (struct policy_choice){ .act = c == '.' ? POLICY_WAIT
		    : c == 'o'                         ? POLICY_ON_DEMAND
						       : POLICY_SPOT,
		.pool = c >= '0' && c <= '9' ? (size_t)(c - '0') : 0,
		.why = "as written" };
}
static const struct policy scripted = { "scripted", script_begin, script_decide };

static struct trace_run script_play(struct trace_case *c, const char *text)
{
	struct trace_run r = { 0 };
	struct spot_err err = { 0 };

	script = text;
	c->job.on_demand_micros = 6000000;
	if (trace_run_policy(arena, &c->market, &c->job, 0, &scripted, NULL, 0, true, &r, &err) !=
	    SPOT_OK) {
		fail_msg("%s", err.text);
	}
	return r;
}

static struct trace_case one_pool(const char *up, int64_t work, int64_t deadline,
    int64_t changeover)
{
	struct trace_case c;

	case_text(arena, &c, (const char *const[]){ up }, 1, 600000);
	c.job.work_us = work;
	c.job.deadline_us = deadline;
	c.job.changeover_us = changeover;
	return c;
}

static void the_last_tick_is_paid_in_full_and_the_finish_is_exact(void **state)
{
	struct trace_case c =
	    one_pool("1111", 2 * TICK + 60 * SPOT_US_PER_S, 4 * TICK, 60 * SPOT_US_PER_S);
	struct trace_run r = script_play(&c, "0");

	(void)state;
	assert_int_equal(r.cost_micros, 3 * SPOT_TICK);
	assert_int_equal(r.finish_us, 2 * TICK + 120 * SPOT_US_PER_S);
	assert_int_equal(r.changeovers, 1);
	assert_false(r.missed);
	assert_int_equal(r.spot_micros, 3 * SPOT_TICK);
}

static void a_changeover_is_paid_and_spans_ticks(void **state)
{
	struct trace_case c = one_pool("1111", TICK, 4 * TICK, TICK + 120 * SPOT_US_PER_S);
	struct trace_run r = script_play(&c, "0");

	(void)state;
	assert_int_equal(seen[1].done_us, 0);
	assert_int_equal(seen[1].changeover_left_us, 120 * SPOT_US_PER_S);
	assert_int_equal(seen[2].done_us, TICK - 120 * SPOT_US_PER_S);
	assert_int_equal(seen[2].changeover_left_us, 0);
	assert_int_equal(r.cost_micros, 3 * SPOT_TICK);
	assert_int_equal(r.finish_us, 2 * TICK + 120 * SPOT_US_PER_S);
}

static void spot_is_lost_at_the_start_of_the_first_tick_that_is_down(void **state)
{
	struct trace_case c = one_pool("11011111", 3 * TICK, 8 * TICK, 60 * SPOT_US_PER_S);
	struct trace_run r = script_play(&c, "00.0");

	(void)state;
	assert_int_equal(seen[1].held, POLICY_SPOT);
	assert_int_equal(seen[2].held, POLICY_WAIT);
	assert_int_equal(seen[2].done_us, 2 * TICK - 60 * SPOT_US_PER_S);
	assert_int_equal(seen[3].done_us, seen[2].done_us);
	assert_int_equal(r.changeovers, 2);
	assert_int_equal(r.wait_ticks, 1);
	/* 2 before, 2 after with a second changeover: 1140 + 660 s */
	assert_int_equal(r.cost_micros, 4 * SPOT_TICK);
	assert_int_equal(r.finish_us, 4 * TICK + 120 * SPOT_US_PER_S);
}

static void going_idle_costs_nothing_but_starting_again_does(void **state)
{
	struct trace_case c = one_pool("11111111", 3 * TICK, 8 * TICK, 60 * SPOT_US_PER_S);
	struct trace_run r = script_play(&c, "o.o0");

	(void)state;
	assert_int_equal(r.changeovers, 3);
	/* 540 on demand, 540 on demand, 540 on spot, 180 on spot */
	assert_int_equal(r.cost_micros, 2 * OD_TICK + 2 * SPOT_TICK);
	assert_int_equal(r.on_demand_micros, 2 * OD_TICK);
	assert_int_equal(r.finish_us, 4 * TICK + 180 * SPOT_US_PER_S);
}

static void moving_between_pools_is_a_changeover_and_between_regions_has_a_fee(void **state)
{
	struct trace_case c;
	struct trace_run r;

	(void)state;
	case_text(arena, &c, (const char *const[]){ "1111111", "1111111" }, 2, 600000);
	c.job = (struct trace_job){ .work_us = 4 * TICK,
		.deadline_us = 7 * TICK,
		.changeover_us = 60 * SPOT_US_PER_S,
		.transfer_micros = 50000 };
	r = script_play(&c, "01o100");
	assert_int_equal(r.changeovers, 5); /* 0, 1, on demand, 1, 0 */
	/* the checkpoint goes 0 to 1, stays while on demand, and goes back to 0 at the end */
	assert_int_equal(r.transfer_micros, 2 * 50000);
	assert_int_equal(r.cost_micros, 4 * SPOT_TICK + OD_TICK + 2 * 50000);
	assert_int_equal(seen[0].last_pool, SIZE_MAX);
	assert_int_equal(seen[3].last_pool, 1);
	r = script_play(&c, "o1");
	assert_int_equal(r.transfer_micros, 0); /* nowhere yet */
	c.supply[1].region = c.supply[0].region;
	case_build(arena, &c);
	assert_int_equal(script_play(&c, "01o100").transfer_micros,
	    0); /* two zones of one region */
}

static void a_tick_costs_the_price_of_that_tick(void **state)
{
	struct trace_case c = one_pool("111", 3 * TICK, 3 * TICK, 0);
	int64_t *p = arena_array(arena, 3, sizeof(*p));
	struct trace_run r;

	(void)state;
	p[0] = 600000, p[1] = 1200000, p[2] = 600001;
	c.prices[0].price_micros = p;
	case_build(arena, &c);
	r = script_play(&c, "0");
	assert_int_equal(r.cost_micros, 400000); /* 400000.17 */
}

static void a_run_past_its_deadline_is_a_miss_and_is_finished_on_demand(void **state)
{
	struct trace_case c = one_pool("1111", 2 * TICK, 4 * TICK, 60 * SPOT_US_PER_S);
	struct trace_run r = script_play(&c, "...0");

	(void)state;
	assert_true(r.missed);
	/* 540 s on spot, then 60 + 660 s on demand: two ticks */
	assert_int_equal(r.cost_micros, SPOT_TICK + 2 * OD_TICK);
	assert_int_equal(r.finish_us, 4 * TICK + 720 * SPOT_US_PER_S);
	assert_int_equal(r.changeovers, 2);
}

static void a_choice_that_cannot_be_had_is_an_error_not_a_run(void **state)
{
	struct trace_case c = one_pool("1011", 2 * TICK, 4 * TICK, 0);
	struct trace_run r;
	struct spot_err err = { 0 };

	(void)state;
	script = "00";
	c.job.on_demand_micros = 6000000;
	assert_int_equal(trace_run_policy(arena, &c.market, &c.job, 0, &scripted, NULL, 0, false,
			     &r, &err),
	    SPOT_INTERNAL);
	assert_non_null(strstr(err.text, "tick 1"));
	script = "3";
	assert_int_equal(trace_run_policy(arena, &c.market, &c.job, 0, &scripted, NULL, 0, false,
			     &r, &err),
	    SPOT_INTERNAL);
}

static void the_policy_is_given_the_past_before_the_start_and_no_more(void **state)
{
	struct trace_case c = one_pool("110111", 2 * TICK, 3 * TICK, 0);
	struct trace_run r;
	struct spot_err err = { 0 };
	struct policy_track other = { .pool = -1,
		.tick_us = TICK,
		.n = 1,
		.up = (const uint8_t[]){ 1 } };

	(void)state;
	script = "0";
	c.job.on_demand_micros = 6000000;
	assert_int_equal(trace_run_policy(arena, &c.market, &c.job, 3, &scripted, &other, 1, false,
			     &r, &err),
	    SPOT_OK);
	assert_int_equal(tracks_seen, 2);
	assert_int_equal(track_samples, 3);
	assert_int_equal(r.start, 3);
	assert_int_equal(trace_run_policy(arena, &c.market, &c.job, 0, &scripted, NULL, 0, false,
			     &r, &err),
	    SPOT_OK);
	assert_int_equal(tracks_seen, 0);
}

static void an_impossible_run_is_refused_with_words(void **state)
{
	struct trace_case c = one_pool("1111", 3 * TICK, 4 * TICK, TICK);
	struct spot_err err = { 0 };

	(void)state;
	c.job.on_demand_micros = 1;
	assert_int_equal(trace_job_check(&c.market, &c.job, &err), SPOT_OK);
	assert_int_equal(trace_starts(&c.market, &c.job), 1);
	c.job.changeover_us++;
	assert_int_equal(trace_job_check(&c.market, &c.job, &err), SPOT_INVALID);
	assert_non_null(strstr(err.text, "cannot be kept even on demand"));
	c.job.deadline_us = 5 * TICK;
	assert_int_equal(trace_job_check(&c.market, &c.job, &err), SPOT_INVALID);
	assert_non_null(strstr(err.text, "too short"));
	c.job.work_us = 0;
	assert_int_equal(trace_job_check(&c.market, &c.job, &err), SPOT_INVALID);
}

static void zones_of_one_market_need_the_same_gap_and_end_with_the_shortest(void **state)
{
	struct trace_case c;
	struct trace_market m;
	struct spot_err err = { 0 };

	(void)state;
	case_text(arena, &c, (const char *const[]){ "11111", "111" }, 2, 600000);
	assert_int_equal(c.market.ticks, 3);
	c.supply[1].gap_us = 300 * SPOT_US_PER_S;
	assert_int_equal(trace_market_build(arena, c.supply, NULL, 2, 1, 600000, &m, &err),
	    SPOT_INVALID);
	assert_non_null(strstr(err.text, "600 s"));
	assert_non_null(strstr(err.text, "300 s"));
	/* a price trace may have its own */
	c.supply[1].gap_us = TICK;
	c.prices[1].gap_us = 300 * SPOT_US_PER_S;
	assert_int_equal(trace_market_build(arena, c.supply, c.price_list, 2, 1, 0, &m, &err),
	    SPOT_OK);
	assert_int_equal(m.ticks, 2);
}

static void a_job_without_slack_may_use_the_piece_of_a_tick_before_its_deadline(void **state)
{
	struct trace_case c = one_pool("11111", 2 * TICK + 90 * SPOT_US_PER_S,
	    2 * TICK + 100 * SPOT_US_PER_S, 10 * SPOT_US_PER_S);
	struct trace_run r;

	(void)state;
	assert_int_equal(trace_job_ticks(&c.market, &c.job), 3);
	r = script_play(&c, "o");
	assert_false(r.missed);
	assert_int_equal(r.finish_us, c.job.deadline_us);
	c.job.work_us -= 200 * SPOT_US_PER_S;
	assert_int_equal(trace_job_ticks(&c.market, &c.job), 2);
	assert_int_equal(trace_on_demand_cost(&c.market, &c.job), 2 * OD_TICK);
}

static void costs_of_odd_ticks_are_rounded_once(void **state)
{
	struct trace_unit u = trace_unit_of(195 * SPOT_US_PER_S);

	(void)state;
	assert_int_equal(u.num, 13);
	assert_int_equal(u.den, 240);
	/* 973100 x 195 x 886 / 3600 = 46700690.8 */
	assert_int_equal(trace_unit_micros(&u, 973100 * 13 * INT64_C(886)), 46700691);
	assert_int_equal(trace_unit_micros(&u, 120), 1);
	assert_int_equal(trace_unit_micros(&u, 119), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_tick_is_paid_in_full_and_the_finish_is_exact),
		cmocka_unit_test(a_changeover_is_paid_and_spans_ticks),
		cmocka_unit_test(spot_is_lost_at_the_start_of_the_first_tick_that_is_down),
		cmocka_unit_test(going_idle_costs_nothing_but_starting_again_does),
		cmocka_unit_test(
		    moving_between_pools_is_a_changeover_and_between_regions_has_a_fee),
		cmocka_unit_test(a_tick_costs_the_price_of_that_tick),
		cmocka_unit_test(a_run_past_its_deadline_is_a_miss_and_is_finished_on_demand),
		cmocka_unit_test(a_choice_that_cannot_be_had_is_an_error_not_a_run),
		cmocka_unit_test(the_policy_is_given_the_past_before_the_start_and_no_more),
		cmocka_unit_test(an_impossible_run_is_refused_with_words),
		cmocka_unit_test(zones_of_one_market_need_the_same_gap_and_end_with_the_shortest),
		cmocka_unit_test(
		    a_job_without_slack_may_use_the_piece_of_a_tick_before_its_deadline),
		cmocka_unit_test(costs_of_odd_ticks_are_rounded_once)
	};
	int failed;

	arena = arena_new(0);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	arena_free(arena);
	return failed;
}
