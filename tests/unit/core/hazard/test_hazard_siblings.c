/* The rise of the hazard after reclaims of siblings. */
#include "base/base.h"
#include "core/hazard/hazard.h"
#include "core/rank/rank.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const struct sibling_fit *const fit = &sibling_fitted;

static struct rise rise_of(const enum sibling *levels, const double *ages_h, size_t n)
{
	struct rise r = { 0 };

	for (size_t i = 0; i < n; i++) {
		rise_add(fit, levels[i], ages_h[i], &r);
	}
	return r;
}

static void the_fitted_shares_are_probabilities_and_the_paces_minutes_to_hours(void **state)
{
	(void)state;
	for (int part = 0; part < RISE_PARTS; part++) {
		for (int level = 0; level < SIBLING_LEVELS; level++) {
			assert_true(fit->share[level][part] >= 0 && fit->share[level][part] < 1);
		}
		assert_true(fit->tau_h[part] > 1 / 120.0 && fit->tau_h[part] < 2);
		assert_true(fit->share[SIBLING_POOL][part] > fit->share[SIBLING_ZONE][part]);
		assert_true(fit->share[SIBLING_POOL][part] > fit->share[SIBLING_REGION][part]);
	}
	/* 92 % of the quick part come within three minutes. */
	assert_true(fabs(-expm1(-0.05 / fit->tau_h[RISE_QUICK]) - 0.92) < 0.005);
}

static void a_rise_only_falls_with_age(void **state)
{
	double was = HUGE_VAL, within = HUGE_VAL;

	(void)state;
	for (double age = 0; age < 6; age += 0.01) {
		enum sibling levels[] = { SIBLING_POOL, SIBLING_ZONE, SIBLING_REGION };
		double ages[] = { age, age + 0.1, age };
		struct rise r = rise_of(levels, ages, 3);

		assert_true(rise_now(fit, &r) < was && rise_within(fit, &r, 1) < within);
		was = rise_now(fit, &r);
		within = rise_within(fit, &r, 1);
	}
	assert_true(within < 2e-3);
}

static void many_strikes_stay_below_one_reclaim_a_part(void **state)
{
	struct rise r = { 0 };

	(void)state;
	for (int i = 0; i < 10000; i++) {
		rise_add(fit, SIBLING_POOL, -1, &r);
	}
	for (int part = 0; part < RISE_PARTS; part++) {
		assert_true(r.left[part] <= 1 && r.left[part] > 0.999);
	}
	assert_true(rise_within(fit, &r, 1e6) <= RISE_PARTS);
	assert_true(
	    rise_now(fit, &r) <= 1 / fit->tau_h[RISE_QUICK] + 1 / fit->tau_h[RISE_SLOW] + 1e-9);
}

static void the_order_of_strikes_does_not_matter(void **state)
{
	enum sibling a[] = { SIBLING_POOL, SIBLING_REGION, SIBLING_ZONE, SIBLING_REGION };
	enum sibling b[] = { SIBLING_REGION, SIBLING_ZONE, SIBLING_REGION, SIBLING_POOL };
	double ages_a[] = { 0.01, 0.5, 0.02, 0.3 }, ages_b[] = { 0.3, 0.02, 0.5, 0.01 };
	struct rise x = rise_of(a, ages_a, 4), y = rise_of(b, ages_b, 4);

	(void)state;
	for (int part = 0; part < RISE_PARTS; part++) {
		assert_true(fabs(x.left[part] - y.left[part]) < 1e-12);
	}
}

static void a_pool_that_shares_nothing_does_not_rise(void **state)
{
	struct rise r = { 0 };

	(void)state;
	rise_add(fit, SIBLING_NONE, 0, &r);
	assert_false(rise_any(&r));
	assert_true(isinf(rise_keep_h(fit, &r)));
}

static void a_rise_is_kept_for_the_half_life_of_its_quickest_part_that_is_left(void **state)
{
	struct rise fresh = { { 0.4, 0.4 } }, late = { { 0.001, 0.4 } }, over = { { 0, 0.005 } };

	(void)state;
	assert_true(fabs(rise_keep_h(fit, &fresh) - fit->tau_h[RISE_QUICK] * M_LN2) < 1e-12);
	assert_true(fabs(rise_keep_h(fit, &late) - fit->tau_h[RISE_SLOW] * M_LN2) < 1e-12);
	assert_true(isinf(rise_keep_h(fit, &over)));
}

/* ---- in the model ---------------------------------------------------------------------------- */

#define MINUTE_US (60 * SPOT_US_PER_S)
#define NOW_US (1000 * SPOT_US_PER_HOUR)

static struct rank_policy policy;
static struct offer offers[6];
enum { STRUCK, SAME_ZONE, SAME_REGION, OTHER_FAMILY, OTHER_REGION, ON_DEMAND };

static void offers_make(int64_t struck_us)
{
	rank_policy_default(&policy);
	for (int32_t i = 0; i < 6; i++) {
		offers[i] = (struct offer){ .pool_id = i + 1,
			.provider = "aws",
			.region = i == OTHER_REGION ? "r2" : "r1",
			.zone = i == SAME_REGION ? "z2"
			    : i == OTHER_REGION  ? "z3"
						 : "z1",
			.instance_type = i == SAME_ZONE ? "p4.large" : "p4.small",
			.gpu_name = i == OTHER_FAMILY ? "T4" : "H100",
			.market = i == ON_DEMAND ? SPOT_MARKET_ON_DEMAND : SPOT_MARKET_SPOT,
			.advisor_lo = -1,
			.placement_score = -1,
			.capacity = -1,
			.reclaimed_us = i == STRUCK ? struck_us : 0 };
	}
}

static double raised(struct arena *a, int i)
{
	struct hazard h, usual;
	struct offer calm = offers[i];
	const struct hazard_model *m = hazard_model_build(a, offers, 6, &policy, NOW_US);

	hazard_of(m, &offers[i], &h);
	calm.reclaimed_us = 0;
	hazard_of(hazard_model_build(a, &calm, 1, &policy, NOW_US), &calm, &usual);
	assert_true(h.lo <= h.per_hour && h.per_hour <= h.hi);
	assert_true(fabs(h.per_hour - usual.per_hour - h.raised_per_hour) < 1e-9);
	return h.raised_per_hour;
}

static void a_reclaim_raises_its_siblings_and_nobody_else(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);

	(void)state;
	offers_make(NOW_US - MINUTE_US);
	assert_true(raised(a, STRUCK) > raised(a, SAME_ZONE));
	assert_true(raised(a, SAME_ZONE) > 0 && raised(a, SAME_REGION) > 0);
	assert_true(raised(a, OTHER_FAMILY) == 0 && raised(a, OTHER_REGION) == 0);
	assert_true(raised(a, ON_DEMAND) == 0);
	offers_make(NOW_US - SIBLING_WINDOW_US);
	assert_true(raised(a, STRUCK) == 0);
	offers_make(NOW_US + MINUTE_US); /* a clock step */
	assert_true(raised(a, STRUCK) <= rise_now(fit, &(struct rise){ { 1, 1 } }));
}

static void a_model_is_near_enough_until_its_rise_has_halved(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	int64_t quick_us = (int64_t)(fit->tau_h[RISE_QUICK] * M_LN2 * 3.6e9), until;

	(void)state;
	offers_make(NOW_US);
	until = hazard_until_us(hazard_model_build(a, offers, 6, &policy, NOW_US));
	assert_true(llabs(until - NOW_US - quick_us) <= 1);
	offers_make(NOW_US - SPOT_US_PER_HOUR);
	until = hazard_until_us(hazard_model_build(a, offers, 6, &policy, NOW_US));
	assert_true(until > NOW_US + 10 * MINUTE_US);
	offers_make(0);
	assert_true(
	    hazard_until_us(hazard_model_build(a, offers, 6, &policy, NOW_US)) == INT64_MAX);
}

static void a_score_feels_the_mean_rise_over_its_work(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct job_spec spec = { .work_s = 3600, .num_nodes = 1, .checkpoint.path = "ckpt" };
	struct rank_job job = { .spec = &spec, .nodes = 1, .work_left_s = 3600 };
	struct score_terms t, longer;
	const struct score *s;

	(void)state;
	offers_make(NOW_US);
	for (int i = 0; i < 6; i++) {
		offers[i].price_micros = 1000000;
		offers[i].price_state = PRICE_FRESH;
	}
	offers_believe(hazard_model_build(a, offers, 6, &policy, NOW_US), offers, 6);
	s = rank_one(a, &offers[STRUCK], &job, &policy, NOW_US);
	assert_non_null(s);
	score_explain(s, &t);
	assert_true(fabs(s->hazard - offers[STRUCK].hazard - t.hazard_raised) < 1e-9);
	assert_true(fabs(t.hazard_raised * t.work_h -
			rise_within(fit, &offers[STRUCK].rise, t.work_h)) < 1e-9);
	job.work_left_s = 36000;
	score_explain(rank_one(a, &offers[STRUCK], &job, &policy, NOW_US), &longer);
	assert_true(longer.hazard_raised > 0 && longer.hazard_raised < t.hazard_raised / 5);
	s = rank_one(a, &offers[OTHER_REGION], &job, &policy, NOW_US);
	score_explain(s, &t);
	assert_true(t.hazard_raised == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
		    the_fitted_shares_are_probabilities_and_the_paces_minutes_to_hours),
		cmocka_unit_test(a_rise_only_falls_with_age),
		cmocka_unit_test(many_strikes_stay_below_one_reclaim_a_part),
		cmocka_unit_test(the_order_of_strikes_does_not_matter),
		cmocka_unit_test(a_pool_that_shares_nothing_does_not_rise),
		cmocka_unit_test(
		    a_rise_is_kept_for_the_half_life_of_its_quickest_part_that_is_left),
		cmocka_unit_test(a_reclaim_raises_its_siblings_and_nobody_else),
		cmocka_unit_test(a_model_is_near_enough_until_its_rise_has_halved),
		cmocka_unit_test(a_score_feels_the_mean_rise_over_its_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
