/* A fleet's patience: when it gives up spot that is refused, and for which offers. */
#include "base/base.h"
#include "core/fleet/fleet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define NOW (INT64_C(500000) * SPOT_US_PER_HOUR)

static struct supply_policy policy;
static struct offer offers[3];
static struct score scores[3];

/* Spot, on demand and spot again, in the order of their cost. */
static size_t scores_make(void)
{
	static const enum spot_market markets[] = { SPOT_MARKET_SPOT, SPOT_MARKET_ON_DEMAND,
		SPOT_MARKET_INTERRUPTIBLE };

	supply_policy_default(&policy);
	for (size_t i = 0; i < ARRAY_LEN(markets); i++) {
		offers[i] = (struct offer){ .pool_id = (int32_t)i + 1, .market = markets[i] };
		scores[i] = (struct score){ .offer = &offers[i] };
	}
	return ARRAY_LEN(markets);
}

static const char *patience_ask(struct arena *a, int64_t refused_us, size_t *n)
{
	return fleet_spot_given_up(a, scores, n,
	    &(struct supply_in){ .now_us = NOW, .queued_us = refused_us }, &policy);
}

static void spot_is_given_up_after_the_patience(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	size_t n = scores_make();

	(void)state;
	assert_null(patience_ask(a, 0, &n)); /* nothing was refused */
	assert_null(patience_ask(a, NOW - policy.patience_us / 2, &n));
	assert_int_equal(n, 3);
	assert_non_null(patience_ask(a, NOW - policy.patience_us - 1, &n));
	assert_int_equal(n, 1);
	assert_int_equal(scores[0].offer->pool_id, 2);
}

static void nothing_is_given_up_where_nothing_else_is_for_sale(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	size_t n = scores_make();

	(void)state;
	n = 1; /* spot alone */
	assert_null(patience_ask(a, NOW - 2 * policy.patience_us, &n));
	assert_int_equal(n, 1);
	offers[0].market = SPOT_MARKET_ON_DEMAND; /* on demand alone */
	assert_null(patience_ask(a, NOW - 2 * policy.patience_us, &n));
	assert_int_equal(n, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spot_is_given_up_after_the_patience),
		cmocka_unit_test(nothing_is_given_up_where_nothing_else_is_for_sale),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
