/* The budget that a start needs, and the words about the rest of one. */
#include "base/base.h"
#include "core/money/money.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define AN_HOUR_MICROS INT64_C(3600000) /* an hour costs 3.60 USD, a second 1000 micro-dollars */

static void a_start_needs_its_boot_some_work_a_save_and_its_end(void **state)
{
	struct job_spec s = { .checkpoint = { .budget_s = 60 } };

	(void)state;
	/* 100 s until it is there, 300 s of work, 60 s of saving, 150 s until the machine's end is
	 * confirmed */
	assert_int_equal(budget_need(AN_HOUR_MICROS, 100 * SPOT_US_PER_S, 150 * SPOT_US_PER_S, &s),
	    610000);
	s.checkpoint.budget_s = 360;
	assert_int_equal(budget_need(AN_HOUR_MICROS, 100 * SPOT_US_PER_S, 150 * SPOT_US_PER_S, &s),
	    910000);
	assert_int_equal(budget_need(2 * AN_HOUR_MICROS, 0, 150 * SPOT_US_PER_S, &s), 1620000);
	assert_int_equal(budget_need(0, 100 * SPOT_US_PER_S, 150 * SPOT_US_PER_S, &s), 0);
}

static void a_missing_machine_needs_its_end_and_the_work_of_all(void **state)
{
	struct job_spec s = { .checkpoint = { .budget_s = 60 } };

	(void)state;
	/* 300 s of work of each, 60 s of saving and 150 s until its end of each that is missing */
	assert_int_equal(budget_need_again(AN_HOUR_MICROS, 2, 1, 150 * SPOT_US_PER_S, &s), 810000);
	assert_int_equal(budget_need_again(AN_HOUR_MICROS, 8, 3, 150 * SPOT_US_PER_S, &s), 3030000);
	/* Never more than the request for all, less the reserve of the existing ones. */
	assert_int_equal(budget_need_again(AN_HOUR_MICROS, 2, 2, 150 * SPOT_US_PER_S, &s),
	    2 * budget_need(AN_HOUR_MICROS, 0, 150 * SPOT_US_PER_S, &s));
}

static void the_cost_of_a_start_is_rounded_up_and_never_wraps(void **state)
{
	struct job_spec s = { .checkpoint = { .budget_s = 60 } };

	(void)state;
	assert_int_equal(budget_need(1, 0, 150 * SPOT_US_PER_S, &s), 1);
	assert_int_equal(budget_need(AN_HOUR_MICROS + 1, 0, 150 * SPOT_US_PER_S, &s), 510001);
	/* 510 s of an hour */
	assert_true(budget_need(INT64_MAX, 0, 150 * SPOT_US_PER_S, &s) < INT64_MAX);
	assert_true(
	    budget_need(INT64_MAX, 2 * SPOT_US_PER_HOUR, 150 * SPOT_US_PER_S, &s) == INT64_MAX);
	assert_true(budget_need(INT64_MAX, INT64_MAX, 150 * SPOT_US_PER_S, &s) == INT64_MAX);
}

static void the_rest_is_shown_beside_the_whole_and_is_never_negative(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);

	(void)state;
	assert_string_equal(budget_words(a, 4900000, 5000000), "4.9000 of 5.0000 USD");
	assert_string_equal(budget_words(a, -1, 5000000), "0.0000 of 5.0000 USD");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_start_needs_its_boot_some_work_a_save_and_its_end),
		cmocka_unit_test(a_missing_machine_needs_its_end_and_the_work_of_all),
		cmocka_unit_test(the_cost_of_a_start_is_rounded_up_and_never_wraps),
		cmocka_unit_test(the_rest_is_shown_beside_the_whole_and_is_never_negative),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
