/* Waves of moves: the largest saving first, and never more than the limits. */
#include "base/base.h"
#include "core/policy/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define H SPOT_US_PER_HOUR

static struct arena *arena;
static struct rebalance_policy policy;

static int setup(void **state)
{
	(void)state;
	arena = arena_new(0);
	rebalance_policy_default(&policy);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	arena_free(arena);
	return 0;
}

static void the_best_saving_goes_first_and_the_rest_says_why_not(void **state)
{
	struct rebalance_move m[] = {
		{ .job_id = 1,
		    .pays = true,
		    .saving_micros = 100,
		    .cost_micros = 10,
		    .to_pool = 1 },
		{ .job_id = 2,
		    .pays = true,
		    .saving_micros = 900,
		    .cost_micros = 10,
		    .to_pool = 2 },
		{ .job_id = 3, .why_not = "it is in the best pool already" },
	};
	struct rebalance_choice c[3];

	(void)state;
	rebalance_wave(arena, m, 3, 10, 0, 0, &policy, c);
	assert_false(c[0].go);
	assert_non_null(strstr(c[0].why, "on the move"));
	assert_true(c[1].go);
	assert_string_equal(c[2].why, "it is in the best pool already");
	/* Somebody is on the move already: nobody else of ten. */
	rebalance_wave(arena, m, 3, 10, 1, 0, &policy, c);
	assert_false(c[1].go);
}

static void outside_the_window_only_what_is_urgent_moves(void **state)
{
	struct rebalance_policy p = policy;
	struct rebalance_move m[] = {
		{ .job_id = 1, .pays = true, .saving_micros = 900, .to_pool = 1 },
		{ .job_id = 2, .pays = true, .saving_micros = 100, .to_pool = 2, .urgent = true },
	};
	struct rebalance_choice c[2];

	(void)state;
	assert_true(rebalance_hours_parse("22-5", &p.hours));
	rebalance_wave(arena, m, 2, 100, 0, 12 * H, &p, c);
	assert_false(c[0].go);
	assert_non_null(strstr(c[0].why, "hour 12"));
	assert_true(c[1].go);
	rebalance_wave(arena, m, 2, 100, 0, 24 * H, &p, c);
	assert_true(c[0].go && c[1].go);
}

static void hours_are_read_strictly(void **state)
{
	static const char *const bad[] = { "24", "a", "1,", ",1", "1-", "-1", "1--2", "5-24",
		"1 2" };
	uint32_t h;

	(void)state;
	assert_true(rebalance_hours_parse("0-6,22,23", &h));
	assert_int_equal(h, 0x7f | 1u << 22 | 1u << 23);
	assert_true(rebalance_hours_parse("", &h));
	assert_int_equal(h, 0xffffff);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (rebalance_hours_parse(bad[i], &h)) {
			fail_msg("'%s' was read as hours", bad[i]);
		}
	}
}

/* 10,000 random waves against the limits, and against the same wave in another order. */
static void no_wave_breaks_a_limit_and_order_does_not_matter(void **state)
{
	uint64_t r = 7;

	(void)state;
	for (int round = 0; round < 10000; round++) {
		struct rebalance_move m[40], turned[40];
		struct rebalance_choice c[40], d[40];
		struct rebalance_policy p = policy;
		size_t n = 1 + (r >> 33) % 40;
		int64_t running, moving, begun = 0, into[8] = { 0 }, budget;

		for (size_t i = 0; i < n; i++) {
			r = r * UINT64_C(6364136223846793005) + 1442695040888963407u;
			m[i] = (struct rebalance_move){ .job_id = (int64_t)i,
				.pays = (r >> 40) % 4 != 0,
				.saving_micros = (int64_t)((r >> 20) % 1000),
				.cost_micros = (int64_t)((r >> 30) % 100),
				.to_pool = (int32_t)((r >> 50) % 8),
				.urgent = (r >> 45) % 16 == 0 };
			turned[n - 1 - i] = m[i];
		}
		r = r * UINT64_C(6364136223846793005) + 1442695040888963407u;
		p.wave_max = 1 + (int32_t)((r >> 35) % 12);
		p.pool_max = 1 + (int32_t)((r >> 41) % 4);
		p.budget_pm = (int64_t)((r >> 22) % 1000);
		p.hours = (uint32_t)(r >> 17) & 0xffffff;
		running = (int64_t)n + (int64_t)((r >> 47) % 50);
		moving = (int64_t)((r >> 52) % 5);
		rebalance_wave(arena, m, n, running, moving, (int64_t)((r >> 29) % 24) * H, &p, c);
		rebalance_wave(arena, turned, n, running, moving, (int64_t)((r >> 29) % 24) * H, &p,
		    d);
		budget = p.budget_pm == 0 ? 0 : MAX(running * p.budget_pm / 1000, 1);
		for (size_t i = 0; i < n; i++) {
			assert_int_equal(c[i].go, d[n - 1 - i].go);
			assert_true(c[i].go == (c[i].why == NULL));
			assert_true(!c[i].go || m[i].pays);
			assert_true(
			    !c[i].go || m[i].urgent || (p.hours >> ((r >> 29) % 24) & 1) != 0);
			begun += c[i].go;
			into[m[i].to_pool] += c[i].go;
		}
		assert_true(begun <= p.wave_max);
		assert_true(begun == 0 || begun + moving <= budget);
		for (size_t i = 0; i < ARRAY_LEN(into); i++) {
			assert_true(into[i] <= p.pool_max);
		}
		arena_reset(arena);
	}
}

static void a_recommendation_is_worth_what_followed_the_earlier_ones(void **state)
{
	struct recommend_in in = { .move_micros = 100, .lost_micros = 300 };
	struct recommend_out out;

	(void)state;
	/* Nothing seen: one in four, 75 of 300. */
	recommend_judge(arena, &in, 200, &out);
	assert_false(out.move);
	assert_int_equal(out.worth_micros, 75);
	in.heard = in.followed = 20;
	recommend_judge(arena, &in, 200, &out);
	assert_true(out.move);
	assert_int_equal(out.worth_micros, 262);
	assert_non_null(strstr(out.why, "20 of 20"));
	/* Always wrong. */
	in.followed = 0;
	recommend_judge(arena, &in, 200, &out);
	assert_false(out.move);
	/* It says no more than the pool's own hazard does. */
	in.followed = 10;
	in.base_followed_pm = 460;
	recommend_judge(arena, &in, 200, &out);
	assert_int_equal(out.worth_micros, 0);
	assert_false(out.move);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_best_saving_goes_first_and_the_rest_says_why_not),
		cmocka_unit_test(outside_the_window_only_what_is_urgent_moves),
		cmocka_unit_test(hours_are_read_strictly),
		cmocka_unit_test(no_wave_breaks_a_limit_and_order_does_not_matter),
		cmocka_unit_test(a_recommendation_is_worth_what_followed_the_earlier_ones),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
