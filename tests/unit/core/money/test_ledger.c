/* Money: however an interval is cut, the parts sum to the whole. */
#include "base/base.h"
#include "core/money/money.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define H SPOT_US_PER_HOUR

static void one_hour_costs_the_price(void **state)
{
	(void)state;
	assert_int_equal(ledger_amount(0, 0, H, 2500000), 2500000);
	assert_int_equal(ledger_amount(5, 5, 5 + H / 2, 2500001), 1250000);
	assert_int_equal(ledger_amount(0, 0, 0, 2500000), 0);
	/* A hundred years of the dearest machine does not overflow. */
	assert_int_equal(ledger_amount(0, 0, 876000 * H, 200000000), INT64_C(175200000000000));
}

static void cuts_sum_to_the_whole(void **state)
{
	struct rng r;

	(void)state;
	rng_seeded_init(&r, 1);
	for (int i = 0; i < 20000; i++) {
		int64_t o = (int64_t)rng_below(&r, 1000000000),
			price = (int64_t)rng_below(&r, 100000000) + 1;
		int64_t a = o + (int64_t)rng_below(&r, 100000000000),
			b = a + (int64_t)rng_below(&r, 100000000000);
		int64_t m = a + (int64_t)rng_below(&r, (uint64_t)(b - a) + 1);

		assert_int_equal(ledger_amount(o, a, b, price),
		    ledger_amount(o, a, m, price) + ledger_amount(o, m, b, price));
	}
}

static void a_node_s_life_is_boot_compute_idle(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	const struct ledger_price prices[] = { { 0, 1000000, 7 }, { 2 * H, 3000000, 8 } };
	const struct ledger_attempt tries[] = {
		{ .job_id = 5, .epoch = 1, .from_us = H, .to_us = 3 * H }
	};
	struct ledger_line *l;
	size_t n;

	(void)state;
	ledger_cut(a, 0, 0, 4 * H, H / 2, 5, prices, 2, tries, 1, &l, &n);
	assert_int_equal(n, 5);
	assert_string_equal(l[0].kind, "boot");
	assert_int_equal(l[0].job_id, 5);
	assert_int_equal(l[0].amount_micros, 500000);
	assert_string_equal(l[1].kind, "idle");
	assert_string_equal(l[2].kind, "compute");
	assert_int_equal(l[2].to_us, 2 * H);
	assert_int_equal(l[2].epoch, 1);
	assert_int_equal(l[3].price_micros, 3000000);
	assert_int_equal(l[3].price_observed_us, 8);
	assert_int_equal(l[3].amount_micros, 3000000);
	assert_string_equal(l[4].kind, "idle");
	assert_int_equal(l[4].to_us, 4 * H);
}

static void lines_tile_the_interval_whatever_the_cuts(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct rng r;

	(void)state;
	rng_seeded_init(&r, 2);
	for (int i = 0; i < 2000; i++) {
		struct ledger_price p[3] = { { 0, 1000000, 0 } };
		struct ledger_attempt t[2];
		struct ledger_line *l;
		int64_t end = (int64_t)rng_below(&r, 10 * H) + 1, at = 0, whole = 0, parts = 0;
		size_t n;

		p[1] = (struct ledger_price){ (int64_t)rng_below(&r, 5 * H), 2000000, 1 };
		p[2] = (struct ledger_price){ p[1].from_us + (int64_t)rng_below(&r, 5 * H), 1500000,
			2 };
		t[0] = (struct ledger_attempt){ 1, 1, (int64_t)rng_below(&r, 5 * H), 0 };
		t[0].to_us = t[0].from_us + (int64_t)rng_below(&r, H) + 1;
		t[1] = (struct ledger_attempt){ 1, 2, t[0].to_us, 0 };
		ledger_cut(a, 0, 0, end, (int64_t)rng_below(&r, H), 1, p, 3, t, 2, &l, &n);
		for (size_t k = 0; k < n; k++) {
			assert_int_equal(l[k].from_us, at);
			assert_true(l[k].to_us > at);
			at = l[k].to_us;
			whole += l[k].amount_micros;
		}
		assert_int_equal(at, end);
		/* Billing in two steps gives the same sum as in one. */
		int64_t mid = (int64_t)rng_below(&r, (uint64_t)end + 1);

		for (int half = 0; half < 2; half++) {
			ledger_cut(a, 0, half ? mid : 0, half ? end : mid, 0, 1, p, 3, t, 2, &l,
			    &n);
			for (size_t k = 0; k < n; k++) {
				parts += l[k].amount_micros;
			}
		}
		assert_int_equal(parts, whole);
		arena_reset(a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_hour_costs_the_price),
		cmocka_unit_test(cuts_sum_to_the_whole),
		cmocka_unit_test(a_node_s_life_is_boot_compute_idle),
		cmocka_unit_test(lines_tile_the_interval_whatever_the_cuts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
