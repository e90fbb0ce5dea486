/* Rules for every policy. It misses no deadline that is feasible on demand, whatever the supply
 * does, and later data decides nothing. Also the decisions of Uniform Progress and greedy. */
#include "trace_case.h"

#define TICK (600 * SPOT_US_PER_S)

static struct arena *arena;

static struct trace_run run_policy(const struct trace_case *c, const struct policy *p, size_t start)
{
	struct trace_run r = { 0 };
	struct spot_err err = { 0 };

	if (trace_run_policy(arena, &c->market, &c->job, start, p, NULL, 0, true, &r, &err) !=
	    SPOT_OK) {
		fail_msg("%s", err.text);
	}
	return r;
}

static int32_t steps_of(const struct trace_run *r)
{
	return r->spot_ticks + r->on_demand_ticks + r->wait_ticks;
}

static void no_policy_misses_a_feasible_deadline(void **state)
{
	struct rng r;

	(void)state;
	rng_seeded_init(&r, 99);
	for (int n = 0; n < 2000; n++) {
		struct trace_case c;

		arena_reset(arena);
		case_draw(arena, &r, 3 + rng_below(&r, 50), 1 + rng_below(&r, 3), 10, &c);
		for (size_t i = 0; policy_at(i) != NULL; i++) {
			struct trace_run out = run_policy(&c, policy_at(i), rng_below(&r, 11));

			if (out.missed) {
				fail_msg("case %d: %s is late by %" PRId64 " us", n,
				    policy_at(i)->name, out.finish_us - c.job.deadline_us);
			}
		}
	}
}

/* Supply made against the policy: its decisions are known as far as the trace is, since they hang
 * on nothing later. Spot is taken away in the tick after it was taken, or just when its changeover
 * is over. */
static void draw_against(struct rng *r, const struct policy *p, struct trace_case *c)
{
	size_t n = trace_job_ticks(&c->market, &c->job);
	int32_t *counts = arena_array(arena, c->market.ticks, sizeof(*counts));
	int64_t patience = case_between(r, 0, 3), held = 0;

	for (size_t k = 0; k < c->pools; k++) {
		c->supply[k].counts = counts; /* all pools fall together */
	}
	for (size_t i = 0; i < n; i++) {
		struct trace_run out;

		counts[i] = held <= patience;
		case_build(arena, c);
		out = run_policy(c, p, 0);
		if (steps_of(&out) <= (int32_t)i) {
			break;
		}
		held = counts[i] != 0 && out.steps[i].act == POLICY_SPOT ? held + 1 : 0;
	}
}

static void no_policy_misses_against_supply_that_knows_it(void **state)
{
	struct rng r;

	(void)state;
	rng_seeded_init(&r, 3);
	for (int n = 0; n < 60; n++) {
		for (size_t i = 0; policy_at(i) != NULL; i++) {
			struct trace_case c;

			arena_reset(arena);
			case_draw(arena, &r, 10 + rng_below(&r, 20), 1 + rng_below(&r, 2), 0, &c);
			draw_against(&r, policy_at(i), &c);
			assert_false(run_policy(&c, policy_at(i), 0).missed);
		}
	}
}

static void alter_from(struct rng *r, struct trace_case *c, size_t tick)
{
	for (size_t k = 0; k < c->pools; k++) {
		int32_t *counts = arena_array(arena, c->supply[k].n, sizeof(*counts));
		int64_t *prices = arena_array(arena, c->supply[k].n, sizeof(*prices));

		case_fill(r, counts, prices, c->supply[k].n);
		memcpy(counts, c->supply[k].counts, tick * sizeof(*counts));
		memcpy(prices, c->prices[k].price_micros, tick * sizeof(*prices));
		c->supply[k].counts = counts;
		c->prices[k].price_micros = prices;
	}
	case_build(arena, c);
}

static void later_data_changes_no_decision(void **state)
{
	struct rng r;
	size_t differ = 0;

	(void)state;
	rng_seeded_init(&r, 11);
	for (int n = 0; n < 600; n++) {
		struct trace_case c;
		size_t ticks = 5 + rng_below(&r, 60), start = rng_below(&r, 30), at;

		arena_reset(arena);
		case_draw(arena, &r, ticks, 1 + rng_below(&r, 3), 30, &c);
		at = rng_below(&r, ticks);
		for (size_t i = 0; policy_at(i) != NULL; i++) {
			struct trace_case other = c;
			struct trace_run one = run_policy(&c, policy_at(i), start), two;
			int32_t same;

			alter_from(&r, &other, start + at);
			two = run_policy(&other, policy_at(i), start);
			same = MIN((int32_t)at, MIN(steps_of(&one), steps_of(&two)));
			for (int32_t s = 0; s < same; s++) {
				if (one.steps[s].act != two.steps[s].act ||
				    one.steps[s].pool != two.steps[s].pool ||
				    one.steps[s].done_us != two.steps[s].done_us) {
					fail_msg("case %d: %s decided otherwise in tick %d, the "
						 "supply differs from %zu on",
					    n, policy_at(i)->name, s, at);
				}
			}
			differ += one.cost_micros != two.cost_micros;
		}
	}
	assert_true(differ > 500); /* the future was another */
}

static void decisions_are(const struct trace_case *c, const struct policy *p, const char *want)
{
	struct trace_run r = run_policy(c, p, 0);
	char got[128] = "";

	for (int32_t i = 0; i < steps_of(&r); i++) {
		got[i] = r.steps[i].act == POLICY_WAIT   ? '.'
		    : r.steps[i].act == POLICY_ON_DEMAND ? 'o'
							 : (char)('0' + r.steps[i].pool);
	}
	assert_string_equal(got, want);
}

static struct trace_case job_on(const char *const *ups, size_t n, int64_t work_ticks,
    int64_t deadline_ticks, int64_t changeover_us)
{
	struct trace_case c;

	case_text(arena, &c, ups, n, 600000);
	c.job = (struct trace_job){ .work_us = work_ticks * TICK,
		.deadline_us = deadline_ticks * TICK,
		.changeover_us = changeover_us,
		.on_demand_micros = 3000000 };
	return c;
}

static void uniform_progress_keeps_to_its_line(void **state)
{
	/* Line: half a tick of progress per tick. Idle at the start (not behind), behind from the
	 * second tick on. Then on demand until spot is back and the lead is above two changeovers;
	 * then idle while ahead. */
	struct trace_case c = job_on((const char *const[]){ "000000110000000000000000" }, 1, 8, 16,
	    60 * SPOT_US_PER_S);

	(void)state;
	decisions_are(&c, &policy_uniform_progress, ".ooooo00......oo");
	c = job_on((const char *const[]){ "001100000000000000000000" }, 1, 8, 16,
	    300 * SPOT_US_PER_S);
	/* one tick on demand with half a changeover gives no lead of two: it stays */
	decisions_are(&c, &policy_uniform_progress, ".ooooooooo");
}

static void greedy_waits_for_spot_until_the_last_safe_moment(void **state)
{
	struct trace_case c =
	    job_on((const char *const[]){ "110000000000" }, 1, 4, 10, 60 * SPOT_US_PER_S);

	(void)state;
	/* 2 ticks done less a changeover; 2.1 left and two changeovers need 3 of the ticks: at 3
	 * left there is no room */
	decisions_are(&c, &policy_greedy, "00.....ooo");
	/* work and two changeovers of a tick need just the ticks that are left: on demand, although
	 * spot is up */
	c = job_on((const char *const[]){ "0001111111" }, 1, 4, 9, TICK);
	decisions_are(&c, &policy_greedy, "...ooooo");
	c = job_on((const char *const[]){ "0001111111" }, 1, 4, 10, TICK);
	decisions_are(&c, &policy_greedy, "...00000");
}

static void of_several_pools_the_cheapest_then_the_longest_up(void **state)
{
	struct trace_case c =
	    job_on((const char *const[]){ "1110000000", "0011111111", "0111111111" }, 3, 6, 10, 0);
	int64_t *p = arena_array(arena, 10, sizeof(*p));

	(void)state;
	/* prices are equal: it stays where it is until that falls, then the one that has been up
	 * longest */
	decisions_are(&c, &policy_greedy, "000222");
	decisions_are(&c, &policy_uniform_progress, "000222");
	for (size_t i = 0; i < 10; i++) {
		p[i] = 599999;
	}
	c.prices[1].price_micros = p;
	case_build(arena, &c);
	/* cheaper, but no reason to leave pool 0 in tick 2 */
	decisions_are(&c, &policy_greedy, "000111");
}

static void the_last_safe_moment_is_exact(void **state)
{
	struct policy_setup s = { .work_us = 3 * TICK,
		.deadline_us = 6 * TICK,
		.changeover_us = 60 * SPOT_US_PER_S,
		.tick_us = TICK,
		.pools_n = 1 };
	struct policy_view v = { .elapsed_us = TICK, .held = POLICY_WAIT };

	(void)state;
	/* three ticks of work and a changeover need four whole ticks; five are left, so one may
	 * pass idle */
	assert_false(policy_must_run(&s, &v));
	v.elapsed_us = 2 * TICK;
	assert_true(policy_must_run(&s, &v));
	/* 540 s of a tick on spot leave 2 ticks and 60 s, and with the next changeover they fit in
	 * three */
	assert_true(policy_spot_safe(&s, &v, 0));
	v.done_us = 61 * SPOT_US_PER_S;
	v.elapsed_us = 3 * TICK;
	assert_false(policy_spot_safe(&s, &v, 0));
	v.held = POLICY_SPOT;
	assert_true(policy_spot_safe(&s, &v, 0)); /* a running job loses nothing */
	v.changeover_left_us = 2 * SPOT_US_PER_S;
	assert_false(policy_spot_safe(&s, &v, 0));
	v.elapsed_us = 5 * TICK;
	v.done_us = 3 * TICK - 540 * SPOT_US_PER_S;
	v.held = POLICY_WAIT;
	v.changeover_left_us = 0;
	assert_true(policy_spot_safe(&s, &v, 0)); /* it would be done within the tick */
	v.done_us--;
	assert_false(policy_spot_safe(&s, &v, 0));
}

static void policies_are_found_by_name(void **state)
{
	(void)state;
	assert_ptr_equal(policy_find("greedy"), &policy_greedy);
	assert_ptr_equal(policy_find("uniform-progress"), &policy_uniform_progress);
	assert_ptr_equal(policy_find("on-demand"), &policy_on_demand);
	assert_null(policy_find("optimal"));
	assert_null(policy_find(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(no_policy_misses_a_feasible_deadline),
		cmocka_unit_test(no_policy_misses_against_supply_that_knows_it),
		cmocka_unit_test(later_data_changes_no_decision),
		cmocka_unit_test(uniform_progress_keeps_to_its_line),
		cmocka_unit_test(greedy_waits_for_spot_until_the_last_safe_moment),
		cmocka_unit_test(of_several_pools_the_cheapest_then_the_longest_up),
		cmocka_unit_test(the_last_safe_moment_is_exact),
		cmocka_unit_test(policies_are_found_by_name) };
	int failed;

	arena = arena_new((size_t)1 << 30);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	arena_free(arena);
	return failed;
}
