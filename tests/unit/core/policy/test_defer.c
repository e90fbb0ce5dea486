/* Off-peak deferral: only within the room of the deadline, only for a pattern that is believed. */
#include "base/base.h"
#include "core/policy/policy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define H SPOT_US_PER_HOUR

static struct arena *arena;
static struct defer_policy policy;

static int setup(void **state)
{
	(void)state;
	arena = arena_new(0);
	defer_policy_default(&policy);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	arena_free(arena);
	return 0;
}

/* Dear by day (8 to 20 h), cheap by night. */
static struct defer_in night_is_cheap(int32_t days)
{
	struct defer_in in = { .now_us = 240 * H + 10 * H, .run_us = 3 * H, .safe_us = 3 * H };

	for (int h = 0; h < DEFER_HOURS; h++) {
		in.hours[h] =
		    (struct defer_hour){ .price = h >= 8 && h < 20 ? 2.0 : 1.0, .days = days };
	}
	return in;
}

static struct defer_out defer_ask(struct defer_in in)
{
	struct defer_out out;

	defer_decide(arena, &in, &policy, &out);
	return out;
}

static void a_job_with_room_waits_for_the_night(void **state)
{
	struct defer_in in = night_is_cheap(14);
	struct defer_out out;

	(void)state;
	in.deadline_us = in.now_us + 40 * H;
	out = defer_ask(in);
	assert_int_equal(out.start_us, 240 * H + 20 * H);
	/* 14 days: believed by 14/19. */
	assert_true(fabs(out.saving -
			(1 + 14.0 / 19 * (2 / 1.5 - 1) - (1 + 14.0 / 19 * (1 / 1.5 - 1))) /
			    (1 + 14.0 / 19 * (2 / 1.5 - 1))) < 1e-9);
	assert_non_null(strstr(out.why, "1970-01-11T20:00:00Z"));
}

static void only_a_share_of_the_room_is_waited_away(void **state)
{
	struct defer_in in = night_is_cheap(14);

	(void)state;
	/* The night begins in 10 h. Half of a room of 17 h reaches its edge only, of 20 h all of
	 * it. */
	in.deadline_us = in.now_us + 20 * H;
	assert_int_equal(defer_ask(in).start_us, in.now_us + 8 * H);
	in.deadline_us = in.now_us + 23 * H;
	assert_int_equal(defer_ask(in).start_us, in.now_us + 10 * H);
	/* The slower of both ways to finish counts. */
	in.safe_us = 8 * H;
	assert_int_equal(defer_ask(in).start_us, in.now_us);
}

static void a_pattern_of_one_day_is_hardly_believed(void **state)
{
	struct defer_in in = night_is_cheap(1);

	(void)state;
	in.deadline_us = in.now_us + 40 * H;
	assert_true(defer_ask(in).saving < defer_ask(night_is_cheap(30)).saving);
	for (int h = 0; h < DEFER_HOURS; h++) {
		in.hours[h].price = h >= 8 && h < 20 ? 1.05 : 1.0;
	}
	assert_int_equal(defer_ask(in).start_us, in.now_us);
	assert_non_null(strstr(defer_ask(in).why, "not worth it"));
}

static void without_any_record_it_begins_at_once(void **state)
{
	(void)state;
	assert_int_equal(defer_ask((struct defer_in){ .now_us = 5 * H,
				       .run_us = H,
				       .deadline_us = 100 * H })
			     .start_us,
	    5 * H);
}

static void hours_that_refuse_launches_are_avoided_too(void **state)
{
	struct defer_in in = { .now_us = 10 * H, .run_us = H, .deadline_us = 60 * H };

	(void)state;
	for (int h = 0; h < DEFER_HOURS; h++) {
		in.hours[h] = (struct defer_hour){ .price = 1,
			.days = 14,
			.launches = h < 12 ? 5 : 60,
			.refusals = h < 12 ? 60 : 0 };
	}
	assert_true(defer_ask(in).start_us >= 12 * H);
	assert_true(defer_ask(in).start_us % (24 * H) >= 12 * H);
}

static void start_after_is_the_first_moment(void **state)
{
	struct defer_in in = night_is_cheap(14);

	(void)state;
	in.not_before_us = in.now_us + 11 * H;
	assert_int_equal(defer_ask(in).start_us, in.not_before_us);
}

static void a_job_of_many_days_sees_no_gain(void **state)
{
	struct defer_in in = night_is_cheap(30);

	(void)state;
	in.run_us = 20 * 24 * H;
	in.deadline_us = in.now_us + 100 * 24 * H;
	assert_int_equal(defer_ask(in).start_us, in.now_us);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_with_room_waits_for_the_night),
		cmocka_unit_test(only_a_share_of_the_room_is_waited_away),
		cmocka_unit_test(a_pattern_of_one_day_is_hardly_believed),
		cmocka_unit_test(without_any_record_it_begins_at_once),
		cmocka_unit_test(hours_that_refuse_launches_are_avoided_too),
		cmocka_unit_test(start_after_is_the_first_moment),
		cmocka_unit_test(a_job_of_many_days_sees_no_gain),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
