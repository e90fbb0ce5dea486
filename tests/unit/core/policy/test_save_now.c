/* A save after siblings were reclaimed: its cost against the expected loss. */
#include "base/base.h"
#include "core/policy/policy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define MIN_US (60 * SPOT_US_PER_S)

/* A machine of 3.60 dollars an hour, ten minutes of unsaved work, saves of six seconds: 6,000
 * micro-dollars a save. */
static struct save_now_in case_make(void)
{
	struct save_now_in in = { .hazard_per_hour = 0.1,
		.price_micros = 3600000,
		.unsaved_us = 10 * MIN_US,
		.save_us = 6 * SPOT_US_PER_S,
		.next_us = INT64_MAX,
		.notice_saves = 0.9 };

	rise_add(&sibling_fitted, SIBLING_POOL, 0.01, &in.rise);
	return in;
}

static struct save_now_out judged(const struct save_now_in *in)
{
	struct save_now_out out;

	save_now_judge(in, &out);
	return out;
}

static void a_save_is_asked_where_it_costs_less_than_the_expected_loss(void **state)
{
	struct save_now_in in = case_make();
	struct save_now_out out = judged(&in);

	(void)state;
	assert_true(out.save && out.hours == 1);
	assert_int_equal(out.cost_micros, 6000);
	assert_true(
	    fabs(out.odds + expm1(-(0.1 + rise_within(&sibling_fitted, &in.rise, 1)))) < 1e-12);
	assert_int_equal(out.loss_micros, llround(out.odds * 0.1 * 600000));
	/* Any of three nodes may be taken. */
	in.nodes = 3;
	assert_true(fabs(judged(&in).odds - (1 - pow(1 - out.odds, 3))) < 1e-12);
	in.nodes = 1;
	in.save_us = out.loss_micros * 1000 + 1000;
	assert_false(judged(&in).save);
	in.save_us -= 3000;
	assert_true(judged(&in).save);
}

static void a_job_that_has_just_saved_or_is_about_to_is_left_alone(void **state)
{
	struct save_now_in in = case_make();

	(void)state;
	in.unsaved_us = SPOT_US_PER_S;
	assert_false(judged(&in).save);
	in = case_make();
	in.next_us = 0;
	assert_true(judged(&in).odds == 0);
	assert_false(judged(&in).save);
	in.next_us = -MIN_US; /* overdue */
	assert_false(judged(&in).save);
}

static void without_a_notice_that_suffices_more_is_lost(void **state)
{
	struct save_now_in in = case_make();
	int64_t warned = judged(&in).loss_micros;

	(void)state;
	in.notice_saves = 0;
	assert_true(judged(&in).loss_micros > 9 * warned);
}

static void without_a_reclaimed_sibling_nothing_is_asked(void **state)
{
	struct save_now_in in = case_make();

	(void)state;
	in.rise = (struct rise){ 0 };
	in.hazard_per_hour = 10;
	in.save_us = 1;
	assert_true(judged(&in).loss_micros > judged(&in).cost_micros);
	assert_false(judged(&in).save);
}

static void a_burst_that_is_over_asks_nothing(void **state)
{
	struct save_now_in in = case_make();

	(void)state;
	in.rise = (struct rise){ 0 };
	rise_add(&sibling_fitted, SIBLING_POOL, 4, &in.rise);
	in.hazard_per_hour = 0;
	assert_false(judged(&in).save);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_save_is_asked_where_it_costs_less_than_the_expected_loss),
		cmocka_unit_test(a_job_that_has_just_saved_or_is_about_to_is_left_alone),
		cmocka_unit_test(without_a_notice_that_suffices_more_is_lost),
		cmocka_unit_test(without_a_reclaimed_sibling_nothing_is_asked),
		cmocka_unit_test(a_burst_that_is_over_asks_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
