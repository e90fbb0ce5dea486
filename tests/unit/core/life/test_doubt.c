/* When a wall clock is believed: core/life/life.h. */
#include "core/life/life.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define S SPOT_US_PER_S
#define LIMIT (900 * S)

static void test_without_a_reason_it_is_believed(void **state)
{
	(void)state;
	assert_int_equal(doubt_judge(0, 0, 0, 5 * S, LIMIT), DOUBT_NONE);
	assert_int_equal(doubt_judge(0, 4 * S, 7200 * S, 5 * S, LIMIT), DOUBT_NONE);
	/* nobody doubts */
	assert_int_equal(doubt_judge(3 * S, 4 * S, 7200 * S, 5 * S, 0), DOUBT_NONE);
}

static void test_a_time_that_was_told_before_proves_nothing(void **state)
{
	(void)state;
	assert_int_equal(doubt_judge(3 * S, 0, 0, 5 * S, LIMIT), DOUBT_WAITS);
	assert_int_equal(doubt_judge(3 * S, 2 * S, 0, 5 * S, LIMIT), DOUBT_WAITS);
	assert_int_equal(doubt_judge(3 * S, 3 * S, 0, 5 * S, LIMIT), DOUBT_WAITS);
	assert_int_equal(doubt_judge(3 * S, 3 * S + 1, 0, 5 * S, LIMIT), DOUBT_PROVEN);
}

static void test_a_cloud_that_differs_keeps_the_doubt_either_way(void **state)
{
	const int64_t offs[] = { 31 * S, -31 * S, 14400 * S, -14400 * S },
		      near[] = { 30 * S, -30 * S, 0, 900000 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(offs); i++) {
		assert_int_equal(doubt_judge(3 * S, 4 * S, offs[i], 5 * S, LIMIT), DOUBT_WAITS);
		assert_int_equal(doubt_judge(3 * S, 4 * S, near[i], 5 * S, LIMIT), DOUBT_PROVEN);
	}
}

static void test_after_its_time_a_clock_that_is_simply_wrong_is_gone_by(void **state)
{
	(void)state;
	assert_int_equal(doubt_judge(3 * S, 4 * S, 7200 * S, 3 * S + LIMIT - 1, LIMIT),
	    DOUBT_WAITS);
	assert_int_equal(doubt_judge(3 * S, 4 * S, 7200 * S, 3 * S + LIMIT, LIMIT), DOUBT_NONE);
	assert_int_equal(doubt_judge(3 * S, 0, 0, 3 * S + LIMIT, LIMIT), DOUBT_NONE);
	/* proof is proof however late */
	assert_int_equal(doubt_judge(3 * S, 4 * S, 0, 9 * LIMIT, LIMIT), DOUBT_PROVEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_a_reason_it_is_believed),
		cmocka_unit_test(test_a_time_that_was_told_before_proves_nothing),
		cmocka_unit_test(test_a_cloud_that_differs_keeps_the_doubt_either_way),
		cmocka_unit_test(test_after_its_time_a_clock_that_is_simply_wrong_is_gone_by),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
