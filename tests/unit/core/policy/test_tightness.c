/* Supply tightness: its measure, and that the state cannot flicker. */
#include "base/base.h"
#include "core/policy/policy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define MIN_US (60 * SPOT_US_PER_S)

static struct arena *arena;
static struct tightness_policy policy;

static int setup(void **state)
{
	(void)state;
	arena = arena_new(0);
	tightness_policy_default(&policy);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	arena_free(arena);
	return 0;
}

static struct tightness tightness_next(const struct tightness *was, struct tightness_seen seen,
    int64_t now_us)
{
	struct tightness t;

	tightness_step(arena, was, &seen, &policy, now_us, &t);
	return t;
}

static const struct tightness_seen calm = { .launches = 5,
	.node_hours = 20,
	.hazard_per_hour = 0.05,
	.pools = 10 };
static const struct tightness_seen refusing = { .launches = 1,
	.refusals = 6,
	.pools = 10,
	.pools_out = 6 };

static void refusals_and_resting_pools_make_it_tight_at_once(void **state)
{
	struct tightness t = tightness_next(&(struct tightness){ 0 }, calm, MIN_US);

	(void)state;
	assert_int_equal(t.state, SUPPLY_EASY);
	t = tightness_next(&t, refusing, 2 * MIN_US);
	assert_int_equal(t.state, SUPPLY_TIGHT);
	assert_int_equal(t.since_us, 2 * MIN_US);
	assert_non_null(strstr(t.why, "6 of 7 launches refused"));
}

static void the_parts_sum_to_the_index_and_are_the_formula(void **state)
{
	struct tightness_seen s = { .launches = 2,
		.refusals = 4,
		.reclaims = 3,
		.node_hours = 10,
		.hazard_per_hour = 0.1,
		.pools = 8,
		.pools_out = 2,
		.price = 1.25,
		.price_mean = 1.0 };
	struct tightness t = tightness_next(&(struct tightness){ 0 }, s, MIN_US);

	(void)state;
	assert_true(fabs(t.refusals - 0.5 * 4 / 8) < 1e-12);
	assert_true(fabs(t.reclaims - 0.3 * (1 - exp2(-3 / 1.5))) < 1e-12);
	assert_true(fabs(t.scores - 0.3 * 0.25) < 1e-12);
	assert_true(fabs(t.price - 0.2 * 0.5) < 1e-12);
	assert_true(fabs(t.index - t.refusals - t.reclaims - t.scores - t.price) < 1e-12);
}

static void one_refusal_among_calm_is_no_squeeze(void **state)
{
	struct tightness t = tightness_next(&(struct tightness){ 0 },
	    (struct tightness_seen){ .refusals = 1, .pools = 10, .pools_out = 1 }, MIN_US);

	(void)state;
	assert_int_equal(t.state, SUPPLY_EASY);
}

static void it_eases_only_after_it_was_calm_for_the_whole_hold(void **state)
{
	struct tightness t = tightness_next(&(struct tightness){ 0 }, refusing, MIN_US);

	(void)state;
	t = tightness_next(&t, calm, 2 * MIN_US);
	assert_int_equal(t.state, SUPPLY_TIGHT);
	t = tightness_next(&t, calm, 16 * MIN_US);
	assert_int_equal(t.state, SUPPLY_TIGHT);
	t = tightness_next(&t, calm, 17 * MIN_US);
	assert_int_equal(t.state, SUPPLY_EASY);
}

static void between_the_thresholds_it_stays_what_it_was(void **state)
{
	/* 2 of 6 with the two calm ones: 0.5 * 2/6 = 0.17, over easy_at and under tight_at. */
	struct tightness_seen middle = { .launches = 2, .refusals = 2, .pools = 10 };
	struct tightness easy = tightness_next(&(struct tightness){ 0 }, calm, MIN_US),
			 tight = tightness_next(&easy, refusing, 2 * MIN_US);

	(void)state;
	for (int64_t m = 3; m < 60; m++) {
		easy = tightness_next(&easy, middle, m * MIN_US);
		tight = tightness_next(&tight, middle, m * MIN_US);
	}
	assert_int_equal(easy.state, SUPPLY_EASY);
	assert_int_equal(tight.state, SUPPLY_TIGHT);
}

/* An adversary with knowledge of the thresholds: refusals and calm in turn, as fast as it likes. */
static void no_adversary_makes_it_change_more_than_twice_per_hold(void **state)
{
	(void)state;
	for (int64_t period = 1; period <= 40; period++) {
		struct tightness t = tightness_next(&(struct tightness){ 0 }, calm, MIN_US);
		int64_t changes = 0, minutes = 24 * 60;

		for (int64_t m = 2; m < minutes; m++) {
			enum supply_state was = t.state;

			t = tightness_next(&t, (m / period) % 2 == 0 ? refusing : calm, m * MIN_US);
			changes += t.state != was;
		}
		assert_true(changes <= 2 * (minutes * MIN_US / policy.hold_us + 1));
		if (period < 15) {
			/* It is never calm for a whole hold: it got tight once and stays so. */
			assert_int_equal(changes, 1);
		}
	}
}

static void names_are_read_back(void **state)
{
	(void)state;
	assert_int_equal(supply_state_parse(supply_state_name(SUPPLY_EASY)), SUPPLY_EASY);
	assert_int_equal(supply_state_parse(supply_state_name(SUPPLY_TIGHT)), SUPPLY_TIGHT);
	assert_int_equal(supply_state_parse("scarce"), SUPPLY_STATE_NONE);
	assert_int_equal(supply_state_parse(NULL), SUPPLY_STATE_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refusals_and_resting_pools_make_it_tight_at_once),
		cmocka_unit_test(the_parts_sum_to_the_index_and_are_the_formula),
		cmocka_unit_test(one_refusal_among_calm_is_no_squeeze),
		cmocka_unit_test(it_eases_only_after_it_was_calm_for_the_whole_hold),
		cmocka_unit_test(between_the_thresholds_it_stays_what_it_was),
		cmocka_unit_test(no_adversary_makes_it_change_more_than_twice_per_hold),
		cmocka_unit_test(names_are_read_back),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
