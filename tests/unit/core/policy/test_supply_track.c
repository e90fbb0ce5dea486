/* Samples of supply out of our own rows. */
#include "base/base.h"
#include "core/policy/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define T (600 * SPOT_US_PER_S)

static struct arena *arena;

static int setup(void **state)
{
	(void)state;
	arena = arena_new(0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	arena_free(arena);
	return 0;
}

static const char *samples_text(const struct supply_word *w, size_t n, int32_t pool, int64_t now_us)
{
	struct policy_track t;
	char *text;

	supply_track_make(arena, w, n, pool, T, 3 * T, now_us, &t);
	text = arena_strndup(arena,
	    "                                                                ", 64);
	assert_true(t.n < 64);
	for (size_t i = 0; i < t.n; i++) {
		text[i] = t.up[i] ? '+' : '-';
	}
	text[t.n] = '\0';
	return text;
}

static void nothing_is_claimed_of_a_pool_never_tried(void **state)
{
	struct supply_word w[] = { { .pool_id = 2, .from_us = T, .up = true } };

	(void)state;
	assert_string_equal(samples_text(w, 1, 1, 10 * T), "");
	assert_string_equal(samples_text(NULL, 0, 1, 10 * T), "");
}

static void a_node_says_up_and_a_refusal_says_down_for_a_while(void **state)
{
	struct supply_word w[] = { { .pool_id = 1, .from_us = 1 * T, .up = true },
		{ .pool_id = 1, .from_us = 4 * T } };

	(void)state;
	assert_string_equal(samples_text(w, 2, 1, 10 * T), "+++---+++");
}

static void the_next_node_ends_the_time_that_was_down(void **state)
{
	struct supply_word w[] = { { .pool_id = 1, .from_us = 1 * T },
		{ .pool_id = 1, .from_us = 2 * T, .up = true } };

	(void)state;
	assert_string_equal(samples_text(w, 2, 1, 5 * T), "-+++");
}

static void refusals_in_a_row_go_on_being_down(void **state)
{
	struct supply_word w[] = { { .pool_id = 1, .from_us = 1 * T },
		{ .pool_id = 7, .from_us = 2 * T, .up = true }, { .pool_id = 1, .from_us = 3 * T },
		{ .pool_id = 1, .from_us = 5 * T } };

	(void)state;
	assert_string_equal(samples_text(w, 4, 1, 10 * T), "-------++");
}

static void a_tick_counts_by_its_greater_part(void **state)
{
	struct supply_word a[] = { { .pool_id = 1, .from_us = T, .up = true },
		{ .pool_id = 1, .from_us = 2 * T + T / 4 },
		{ .pool_id = 1, .from_us = 2 * T + T / 2, .up = true } };
	struct supply_word b[] = { { .pool_id = 1, .from_us = T, .up = true },
		{ .pool_id = 1, .from_us = 2 * T + T / 10 },
		{ .pool_id = 1, .from_us = 2 * T + T * 9 / 10, .up = true } };

	(void)state;
	assert_string_equal(samples_text(a, 3, 1, 4 * T), "+++");
	assert_string_equal(samples_text(b, 3, 1, 4 * T), "+-+");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_claimed_of_a_pool_never_tried),
		cmocka_unit_test(a_node_says_up_and_a_refusal_says_down_for_a_while),
		cmocka_unit_test(the_next_node_ends_the_time_that_was_down),
		cmocka_unit_test(refusals_in_a_row_go_on_being_down),
		cmocka_unit_test(a_tick_counts_by_its_greater_part),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
