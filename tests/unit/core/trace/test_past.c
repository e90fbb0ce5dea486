/* A backtest's knowledge: it picks by the prices of their time, and has a rule for unknown
 * supply. */
#include "base/base.h"
#include "core/trace/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void a_price_holds_until_the_next_and_the_first_one_before(void **state)
{
	const struct past_price prices[] = { { 10, 5 }, { 20, 7 } };
	struct past_pool p = { 1, prices, 2 }, none = { 0 };

	(void)state;
	assert_int_equal(past_price_at(&p, 3), 5);
	assert_int_equal(past_price_at(&p, 10), 5);
	assert_int_equal(past_price_at(&p, 19), 5);
	assert_int_equal(past_price_at(&p, 20), 7);
	assert_int_equal(past_price_at(&p, 99), 7);
	assert_int_equal(past_price_at(&none, 99), 0);
}

static void pools_are_picked_by_the_prices_of_their_time(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	/* The second gets cheap, the third is twice as fast. */
	const struct past_price one[] = { { 0, 100 } }, two[] = { { 0, 300 }, { 150, 10 } },
				three[] = { { 0, 180 } };
	const struct past_pool pools[] = { { 1, one, 1 }, { 1, two, 2 }, { 2, three, 1 },
		{ 1, NULL, 0 } };
	struct past_pick *p;

	(void)state;
	assert_int_equal(past_picks(a, pools, 4, 0, 300, 100, 2, &p), 6);
	assert_int_equal(p[0].pool, 2);
	assert_int_equal(p[1].pool, 0);
	assert_int_equal(p[2].round, 1);
	assert_int_equal(p[2].pool, 2);
	assert_int_equal(p[3].pool, 0);
	assert_int_equal(p[4].round, 2);
	assert_int_equal(p[4].pool, 1);
	assert_int_equal(p[5].pool, 2);
	assert_int_equal(past_picks(a, pools, 4, 0, 100, 100, 9, &p), 3);
}

static void later_data_changes_no_earlier_pick(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct past_price prices[20][30], other[20][30];
	struct past_pool pools[20], changed[20];
	struct rng r;

	(void)state;
	rng_seeded_init(&r, 5);
	for (size_t i = 0; i < 20; i++) {
		for (size_t k = 0; k < 30; k++) {
			prices[i][k] = other[i][k] = (struct past_price){ (int64_t)k * 10,
				1 + (int64_t)rng_below(&r, 1000) };
			other[i][k].micros =
			    k * 10 > 150 ? 1 + (int64_t)rng_below(&r, 1000) : other[i][k].micros;
		}
		pools[i] = (struct past_pool){ 1, prices[i], 30 };
		changed[i] = (struct past_pool){ 1, other[i], 30 };
	}
	for (size_t round = 0; round < 2; round++) {
		struct past_pick *p, *q;
		size_t n = past_picks(a, pools, 20, 0, 300, 50, 5, &p),
		       m = past_picks(a, changed, 20, 0, 300, 50, 5, &q), early = 0;
		bool later = false;

		assert_int_equal(n, m);
		for (size_t i = 0; i < n; i++) {
			if (p[i].round <= 3) {
				assert_int_equal(p[i].pool, q[i].pool);
				early++;
			}
			later = later || p[i].pool != q[i].pool;
		}
		assert_int_equal(early, 20);
		assert_true(later);
	}
}

static void unknown_supply_is_drawn_with_its_odds_and_hazard_and_known_supply_is_kept(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	size_t n = 400000, up = 0, left = 0, held = 0;
	char *s = arena_alloc(a, n + 1), known[] = "1?0?";
	struct rng r;

	(void)state;
	rng_seeded_init(&r, 9);
	memset(s, '?', n);
	past_fill(s, n, 600 * SPOT_US_PER_S, 0.7, 0.3, &r);
	for (size_t i = 0; i < n; i++) {
		up += s[i] == '1';
		held += i > 0 && s[i - 1] == '1';
		left += i > 0 && s[i - 1] == '1' && s[i] == '0';
	}
	assert_true(up > n * 69 / 100 && up < n * 71 / 100);
	/* A sixth of 0.3 an hour, less the pools that came back within the tick. */
	assert_true((double)left / (double)held > 0.042 && (double)left / (double)held < 0.051);
	past_fill(known, 4, 600 * SPOT_US_PER_S, 0.5, 0.1, &r);
	assert_true(known[0] == '1' && known[2] == '0' && known[1] != '?' && known[3] != '?');
	memcpy(known, "1?0?", 5);
	past_fill_with(known, 4, '0');
	assert_string_equal(known, "1000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_price_holds_until_the_next_and_the_first_one_before),
		cmocka_unit_test(pools_are_picked_by_the_prices_of_their_time),
		cmocka_unit_test(later_data_changes_no_earlier_pick),
		cmocka_unit_test(
		    unknown_supply_is_drawn_with_its_odds_and_hazard_and_known_supply_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
