/* The rise of the hazard after reclaims of siblings. */
#include "base/base.h"
#include "core/hazard/hazard_siblings.h"

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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
