/* Whether a gang that lost one machine waits for another: its bound, and each reason. */
#include "base/base.h"
#include "core/place/place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static struct gang_wait_in lost_one(void)
{
	return (struct gang_wait_in){ .want = 4,
		.gaps = 1,
		.ready = 3,
		.price_micros = 2000000,
		.restart_us = 240 * SPOT_US_PER_S,
		.refused_us = 60 * SPOT_US_PER_S,
		.odds = 1,
		.most_us = INT64_MAX,
		.now_us = 1000 };
}

static struct gang_wait_out judged(struct arena *a, const struct gang_wait_in *in)
{
	struct gang_wait_out out;

	gang_wait_judge(a, in, &out);
	return out;
}

/* 4 x 2 USD for 240 s, and 3 x 2 USD an hour for the wait. */
static void a_wait_costs_no_more_than_a_new_gang(void **state UNUSED)
{
	struct arena *a = arena_new(4096);
	struct gang_wait_in in = lost_one();
	struct gang_wait_out out = judged(a, &in);

	assert_int_equal(out.what, GANG_WAIT_BEGIN);
	assert_int_equal(out.anew_us, 240 * SPOT_US_PER_S);
	assert_int_equal(out.anew_micros, 533333);
	assert_int_equal(out.hour_micros, 6000000);
	assert_int_equal(out.bound_us, 320 * SPOT_US_PER_S);
	assert_int_equal(out.until_us, 1000 + 320 * SPOT_US_PER_S);
	for (int32_t n = 2; n <= GANG_NODES_MAX; n++) {
		for (in.odds = 0; in.odds <= 1; in.odds += 0.25) {
			double cost;

			in.want = n;
			out = judged(a, &in);
			cost = (double)out.hour_micros * (double)out.bound_us /
			    (double)SPOT_US_PER_HOUR;
			assert_true(cost <= (double)out.anew_micros + 1);
			assert_true(cost >= (double)out.anew_micros - 1);
		}
	}
	arena_free(a);
}

/* An even chance: one refused launch more on average. Bad odds count three, no odds as many. */
static void refused_launches_make_a_new_gang_dearer(void **state UNUSED)
{
	struct arena *a = arena_new(4096);
	struct gang_wait_in in = lost_one();

	in.odds = 0.5;
	assert_int_equal(judged(a, &in).anew_us, 300 * SPOT_US_PER_S);
	in.odds = 0.01;
	assert_int_equal(judged(a, &in).anew_us, 420 * SPOT_US_PER_S);
	in.odds = 0;
	assert_int_equal(judged(a, &in).anew_us, 420 * SPOT_US_PER_S);
	arena_free(a);
}

static void check_over(struct arena *a, const struct gang_wait_in *in, const char *why)
{
	struct gang_wait_out out = judged(a, in);

	assert_int_equal(out.what, GANG_WAIT_OVER);
	assert_string_equal(out.why, why);
}

static void no_wait_begins_that_cannot_pay(void **state UNUSED)
{
	struct arena *a = arena_new(4096);
	struct gang_wait_in in = lost_one();

	in.most_us = 239 * SPOT_US_PER_S;
	check_over(a, &in, "its deadline does not leave the time that another machine takes");
	in.most_us = 240 * SPOT_US_PER_S;
	assert_int_equal(judged(a, &in).bound_us, 240 * SPOT_US_PER_S);
	in = lost_one();
	in.unpaid = "no money";
	check_over(a, &in, "no money");
	in = lost_one();
	in.gaps = 2;
	check_over(a, &in, "2 of 4 machines are gone: the place is short");
	in.other = true;
	check_over(a, &in, "another gang is being acquired already");
	in.gaps = 0;
	assert_int_equal(judged(a, &in).what, GANG_WAIT_NONE);
	arena_free(a);
}

/* The lost machine may still count against the quota: not yet while the others stop. */
static void a_full_quota_is_tried_when_the_others_have_stopped(void **state UNUSED)
{
	struct arena *a = arena_new(4096);
	struct gang_wait_in in = lost_one();

	in.no_quota = "full";
	in.stopping = true;
	assert_int_equal(judged(a, &in).what, GANG_WAIT_LATER);
	in.stopping = false;
	assert_int_equal(judged(a, &in).what, GANG_WAIT_BEGIN);
	arena_free(a);
}

static void a_wait_ends(void **state UNUSED)
{
	struct arena *a = arena_new(4096);
	struct gang_wait_in in = lost_one();

	in.since_us = 1000;
	in.until_us = 5000;
	check_over(a, &in, "the place gave no other machine");
	in.gaps = 0;
	in.now_us = 4999;
	assert_int_equal(judged(a, &in).what, GANG_WAIT_ON);
	in.now_us = 5000;
	check_over(a, &in, "no other machine came while the wait was cheaper than a new gang");
	in.ready = 4; /* all are there: they only have to begin */
	assert_int_equal(judged(a, &in).what, GANG_WAIT_ON);
	in.other = true;
	check_over(a, &in, "another gang is being acquired already");
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wait_costs_no_more_than_a_new_gang),
		cmocka_unit_test(refused_launches_make_a_new_gang_dearer),
		cmocka_unit_test(no_wait_begins_that_cannot_pay),
		cmocka_unit_test(a_full_quota_is_tried_when_the_others_have_stopped),
		cmocka_unit_test(a_wait_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
