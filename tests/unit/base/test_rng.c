/* Randomness: repeatable where seeded, uniform, in range. */
#include "base/base.h"
#include "unit.h"

static void the_same_seed_gives_the_same_numbers(void **state)
{
	struct rng a, b, c;

	(void)state;
	rng_seeded_init(&a, 42);
	rng_seeded_init(&b, 42);
	rng_seeded_init(&c, 43);
	uint64_t first = rng_u64(&a);
	assert_true(first == rng_u64(&b));
	assert_true(first != rng_u64(&c));
	for (int i = 0; i < 1000; i++) {
		assert_true(rng_u64(&a) == rng_u64(&b));
	}
}

static void numbers_below_n_are_in_range_and_even_handed(void **state)
{
	struct rng r;
	int hits[7] = { 0 };

	(void)state;
	rng_seeded_init(&r, 1);
	for (int i = 0; i < 70000; i++) {
		hits[rng_below(&r, 7)]++;
	}
	for (int i = 0; i < 7; i++) {
		assert_in_range(hits[i], 9600, 10400); /* 4 sigma is 370 */
	}
	assert_int_equal(rng_below(&r, 1), 0);
	for (int i = 0; i < 100; i++) {
		assert_true(rng_below(&r, UINT64_C(1) << 63) < UINT64_C(1) << 63);
	}
}

static void the_unit_interval_is_half_open_and_centred(void **state)
{
	struct rng r;
	double sum = 0;

	(void)state;
	rng_seeded_init(&r, 7);
	for (int i = 0; i < 10000; i++) {
		double v = rng_unit(&r);

		assert_true(v >= 0 && v < 1);
		sum += v;
	}
	assert_true(sum > 4850 && sum < 5150);
}

static void jitter_stays_within_its_share_and_uses_it(void **state)
{
	struct rng r;
	int64_t low = INT64_MAX, high = 0;

	(void)state;
	rng_seeded_init(&r, 9);
	for (int i = 0; i < 10000; i++) {
		int64_t v = rng_jitter(&r, 1000000, 0.25);

		low = MIN(low, v);
		high = MAX(high, v);
	}
	assert_in_range(low, 750000, 751000);
	assert_in_range(high, 1249000, 1250000);
	assert_int_equal(rng_jitter(&r, 5, 0), 5);
	assert_int_equal(rng_jitter(&r, 0, 1), 0);
}

static void real_randomness_differs_and_hex_is_hex(void **state)
{
	struct rng r;
	char a[33], b[33];

	(void)state;
	rng_real_init(&r);
	rng_hex(&r, a, 16);
	rng_hex(&r, b, 16);
	assert_int_equal(strlen(a), 32);
	assert_int_equal(strspn(a, "0123456789abcdef"), 32);
	assert_string_not_equal(a, b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_seed_gives_the_same_numbers),
		cmocka_unit_test(numbers_below_n_are_in_range_and_even_handed),
		cmocka_unit_test(the_unit_interval_is_half_open_and_centred),
		cmocka_unit_test(jitter_stays_within_its_share_and_uses_it),
		cmocka_unit_test(real_randomness_differs_and_hex_is_hex),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
