/* From the clouds' published rates to reclaims per node-hour and odds of a launch: each conversion
 * with its assumption, and how far the doubt reaches. */
#include "base/base.h"
#include "core/hazard/hazard.h"
#include "core/rank/rank.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static struct rank_policy policy;
static struct offer offer_new(void)
{
	rank_policy_default(&policy);
	return (struct offer){ .market = SPOT_MARKET_SPOT,
		.advisor_lo = -1,
		.placement_score = -1,
		.capacity = -1,
		.quota_class = "P/spot",
		.region = "r1",
		.gpu_milli = 8000,
		.vcpus = 96 };
}

static struct hazard hazard_ask(const struct offer *o)
{
	struct hazard h;

	hazard_alone(&policy, o, &h, NULL);
	assert_true(h.lo <= h.per_hour && h.per_hour <= h.hi && h.lo >= 0 && isfinite(h.hi));
	return h;
}

static struct odds odds_told(const struct offer *o)
{
	struct hazard h;
	struct odds s;

	hazard_alone(&policy, o, &h, &s);
	return s;
}

static bool is_near(double a, double b)
{
	return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

static void an_eviction_band_is_read_over_28_days_and_doubted_up_to_an_hour(void **state)
{
	struct offer o = offer_new();
	struct hazard h;

	(void)state;
	o.has_band = true;
	o.band_lo = 0.05;
	o.band_hi = 0.10;
	h = hazard_ask(&o);
	assert_true(is_near(h.per_hour, -log1p(-0.075) / 672));
	assert_true(h.lo <= -log1p(-0.05) / 672);
	assert_true(is_near(h.hi, -log1p(-0.10)));
	assert_non_null(strstr(h.source, "eviction band"));
	/* "20+" has no upper edge, however it is written. */
	o.band_lo = 0.20;
	o.band_hi = 1.0;
	assert_true(is_near(hazard_ask(&o).per_hour, -log1p(-0.225) / 672));
	o.band_hi = 0.20;
	assert_true(is_near(hazard_ask(&o).per_hour, -log1p(-0.225) / 672));
}

static void a_share_of_stops_is_not_taken_for_a_rate(void **state)
{
	struct offer o = offer_new();
	struct hazard h;

	(void)state;
	o.has_share = true;
	o.share = o.share_lo = o.share_hi = 0.31;
	h = hazard_ask(&o);
	assert_true(is_near(h.per_hour, 0.31 / 0.69 / 12));
	assert_true(h.hi >= 0.31 / 0.69 / 2 - 1e-12 && h.lo <= 0.31 / 0.69 / 168 + 1e-12);
	assert_non_null(strstr(h.source, "preemption share"));
	/* All that stopped on a quiet day were preempted: no infinity comes of it. */
	o.share = o.share_hi = 1;
	assert_true(hazard_ask(&o).per_hour <= 2);
	o.share = o.share_lo = 0;
	assert_true(hazard_ask(&o).per_hour > 0);
}

static void a_better_signal_goes_before_a_worse_one(void **state)
{
	struct offer o = offer_new();

	(void)state;
	assert_string_equal(hazard_ask(&o).source, "wide prior");
	o.has_band = true;
	o.band_lo = 0.05;
	o.band_hi = 0.10;
	assert_non_null(strstr(hazard_ask(&o).source, "eviction band"));
	o.has_share = true;
	o.share = 0.2;
	assert_non_null(strstr(hazard_ask(&o).source, "preemption share"));
	o.advisor_lo = 0.05;
	o.advisor_hi = 0.10;
	assert_string_equal(hazard_ask(&o).source, "spot advisor");
	o.market = SPOT_MARKET_ON_DEMAND;
	assert_string_equal(hazard_ask(&o).source, "on-demand prior");
}

/* The same record of our own moves a converted prior further than one that was published as a
 * rate. */
static void a_converted_signal_weighs_less_than_our_own_record(void **state)
{
	struct offer band = offer_new(), advisor = offer_new();
	double from_band, from_advisor;

	(void)state;
	band.has_band = true;
	band.band_lo = advisor.advisor_lo = 0.05;
	band.band_hi = advisor.advisor_hi = 0.10;
	band.own_node_us = advisor.own_node_us = 10 * SPOT_US_PER_HOUR;
	band.own_reclaims = advisor.own_reclaims = 2;
	from_band = hazard_ask(&band).per_hour;
	from_advisor = hazard_ask(&advisor).per_hour;
	assert_true(from_band > from_advisor * 1.5);
	assert_string_equal(hazard_ask(&band).source, "own record and prior");
}

static void odds_come_from_the_best_that_is_known_and_say_which(void **state)
{
	struct offer o = offer_new();

	(void)state;
	assert_true(
	    is_near(odds_told(&o).odds, 0.5) && odds_told(&o).lo < 0.02 && odds_told(&o).hi > 0.98);
	assert_string_equal(odds_told(&o).source, "nothing known");
	o.capacity = 1;
	assert_string_equal(odds_told(&o).source, "capacity");
	o.placement_score = 9;
	assert_true(is_near(odds_told(&o).odds, 0.9) && odds_told(&o).hi - odds_told(&o).lo > 0.3);
	assert_string_equal(odds_told(&o).source, "placement score");
	o.has_odds = true;
	o.odds = 0.3;
	assert_true(
	    is_near(odds_told(&o).odds, 0.3) && odds_told(&o).lo < 0.2 && odds_told(&o).hi > 0.4);
	assert_string_equal(odds_told(&o).source, "obtainability");
	o.own_refusals = 30;
	assert_true(odds_told(&o).odds < 0.1);
	assert_string_equal(odds_told(&o).source, "own launches");
	/* None of it is a word about reclaims. */
	o.own_refusals = 0;
	assert_string_equal(hazard_ask(&o).source, "wide prior");
}

static void a_quota_has_room_in_its_own_unit(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct offer o = offer_new();

	(void)state;
	assert_true(offer_quota_room(&o) == INT64_MAX);
	o.has_quota = true;
	o.quota_limit = -1;
	o.quota_unit = "vcpu";
	assert_true(offer_quota_room(&o) == INT64_MAX);
	o.quota_limit = 200;
	assert_int_equal(offer_quota_room(&o), 2);
	o.quota_used = 105;
	assert_int_equal(offer_quota_room(&o), 0);
	assert_string_equal(offer_quota_refusal(a, &o, 1),
	    "no room in quota P/spot of r1: 105 of 200 vcpu taken by our nodes, this one needs 96");
	o.quota_unit = "gpus";
	o.quota_limit = 16;
	o.quota_used = 8;
	assert_int_equal(offer_quota_room(&o), 1);
	assert_null(offer_quota_refusal(a, &o, 1));
	o.quota_unit = "instances";
	assert_int_equal(offer_quota_room(&o), 8);
	o.quota_limit = 0;
	assert_int_equal(offer_quota_room(&o), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_eviction_band_is_read_over_28_days_and_doubted_up_to_an_hour),
		cmocka_unit_test(a_share_of_stops_is_not_taken_for_a_rate),
		cmocka_unit_test(a_better_signal_goes_before_a_worse_one),
		cmocka_unit_test(a_converted_signal_weighs_less_than_our_own_record),
		cmocka_unit_test(odds_come_from_the_best_that_is_known_and_say_which),
		cmocka_unit_test(a_quota_has_room_in_its_own_unit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
