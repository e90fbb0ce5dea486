/* The hash map, FNV-1a and the back-off. */
#include "base/base.h"
#include "unit.h"

#define ENTRIES 2000

struct entry {
	char name[16];
	bool in;
};

static bool entry_is(const void *entry, const void *name)
{
	return strcmp(((const struct entry *)entry)->name, name) == 0;
}

static bool entry_is_same(const void *entry, const void *other)
{
	return entry == other;
}

static void fnv_1a_gives_the_published_values(void **state)
{
	(void)state;
	/* Appendix C of draft-eastlake-fnv */
	assert_true(hash_str(HASH_START, "") == UINT64_C(0xcbf29ce484222325));
	assert_true(hash_str(HASH_START, "a") == UINT64_C(0xaf63dc4c8601ec8c));
	assert_true(hash_str(HASH_START, "foobar") == UINT64_C(0x85944171f73967e8));
	assert_true(hash_bytes(HASH_START, "foobar", 6) == UINT64_C(0x85944171f73967e8));
	assert_true(
	    hash_bytes(hash_str(HASH_START, "foo"), "bar", 3) == UINT64_C(0x85944171f73967e8));
}

static void hash_words_tells_texts_apart(void **state)
{
	(void)state;
	/* a digest is compared within one process: only its order must count */
	assert_true(hash_mix(hash_mix(0, 1), 2) != hash_mix(hash_mix(0, 2), 1));
	for (size_t n = 0; n < 20; n++) {
		static const char text[21] = "aaaaaaaaaaaaaaaaaaaa", zeros[21];

		assert_true(hash_words(0, text, n) != hash_words(0, text, n + 1));
		assert_true(hash_words(0, zeros, n) != hash_words(0, zeros, n + 1));
		assert_true(hash_words(0, text + 1, n) == hash_words(0, text, n));
	}
}

/* Adds and removes at random; a flag in each entry says whether the map must hold it. */
static void map_against_flags(struct map *m, struct entry *e, bool collide)
{
	struct rng rng;
	size_t in = 0;

	rng_seeded_init(&rng, 7);
	for (int i = 0; i < ENTRIES; i++) {
		(void)snprintf(e[i].name, sizeof(e[i].name), "n%d", i);
	}
	for (int step = 0; step < 20 * ENTRIES; step++) {
		struct entry *x = &e[rng_below(&rng, ENTRIES)];
		uint64_t h = collide ? (uint64_t)(x - e) % 8 : hash_str(HASH_START, x->name);

		assert_ptr_equal(map_get(m, h, x->name), x->in ? x : NULL);
		if (x->in) {
			assert_ptr_equal(map_remove(m, h, x->name), x);
			in--;
		} else {
			map_put(m, h, x);
			in++;
		}
		x->in = !x->in;
		assert_int_equal(m->n, in);
		if (collide && in > 40) {
			break;
		}
	}
	for (int i = 0; i < ENTRIES; i++) {
		uint64_t h = collide ? (uint64_t)i % 8 : hash_str(HASH_START, e[i].name);

		assert_ptr_equal(map_get(m, h, e[i].name), e[i].in ? &e[i] : NULL);
	}
}

static void a_map_holds_exactly_what_was_put_and_not_removed(void **state)
{
	static struct entry e[ENTRIES];
	struct map m;

	(void)state;
	map_init(&m, NULL, entry_is);
	assert_null(map_get(&m, 1, "n1"));
	assert_null(map_remove(&m, 1, "n1"));
	map_against_flags(&m, e, false);
	map_clear(&m);
	assert_int_equal(m.n, 0);
	assert_null(map_get(&m, hash_str(HASH_START, "n1"), "n1"));
	map_fini(&m);
}

static void entries_whose_hashes_collide_are_told_apart_by_their_keys(void **state)
{
	static struct entry e[ENTRIES];
	struct map m;

	(void)state;
	map_init(&m, NULL, entry_is);
	map_against_flags(&m, e, true);
	map_fini(&m);
}

/* The probe sequence of the last home wraps to the first slots; a removal must follow it there. */
static void a_removal_moves_entries_back_across_the_end_of_the_table(void **state)
{
	static struct entry e[6];
	const uint64_t homes[] = { 14, 15, 15, 15, 0, 1 };
	struct map m;

	(void)state;
	map_init(&m, NULL, entry_is_same);
	for (size_t i = 0; i < ARRAY_LEN(homes); i++) {
		map_put(&m, homes[i], &e[i]);
	}
	assert_int_equal(m.slots_n, 16);
	assert_ptr_equal(map_remove(&m, 15, &e[1]), &e[1]);
	assert_ptr_equal(map_remove(&m, 0, &e[4]), &e[4]);
	assert_ptr_equal(map_get(&m, 14, &e[0]), &e[0]);
	assert_ptr_equal(map_get(&m, 15, &e[2]), &e[2]);
	assert_ptr_equal(map_get(&m, 15, &e[3]), &e[3]);
	assert_ptr_equal(map_get(&m, 1, &e[5]), &e[5]);
	assert_null(map_get(&m, 15, &e[1]));
	map_fini(&m);
}

static void a_map_in_an_arena_needs_no_end(void **state)
{
	static const char *const names[] = { "alpha", "beta", "gamma" };
	AUTO(arena) struct arena *a = arena_new(0);
	struct map m;

	(void)state;
	map_init(&m, a, map_same_text);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		map_put(&m, hash_str(HASH_START, names[i]), (char *)(uintptr_t)names[i]);
	}
	assert_ptr_equal(map_get(&m, hash_str(HASH_START, "beta"), "beta"), names[1]);
	assert_null(map_get(&m, hash_str(HASH_START, "delta"), "delta"));
}

static void waits_double_up_to_the_cap(void **state)
{
	const struct backoff b = { .first_us = 500, .cap_us = 3000 };
	const int64_t want[] = { 500, 1000, 2000, 3000, 3000 };

	(void)state;
	for (int i = 0; i < (int)ARRAY_LEN(want); i++) {
		assert_int_equal(backoff_wait_us(&b, i, NULL), want[i]);
	}
	assert_int_equal(backoff_wait_us(&b, -1, NULL), 500);
	assert_int_equal(backoff_wait_us(&b, INT32_MAX, NULL), 3000);
}

static void a_huge_cap_does_not_overflow(void **state)
{
	const struct backoff b = { .first_us = 3, .cap_us = INT64_MAX };

	(void)state;
	assert_true(backoff_wait_us(&b, 61, NULL) == INT64_C(3) << 61);
	assert_true(backoff_wait_us(&b, 62, NULL) == INT64_MAX);
	assert_true(backoff_wait_us(&b, 1000, NULL) == INT64_MAX);
}

static void jitter_spreads_waits_evenly_around_the_wait(void **state)
{
	const struct backoff b = { .first_us = 1000000, .cap_us = 1000000, .jitter = 0.5 };
	int64_t least = INT64_MAX, most = 0;
	struct rng rng;

	(void)state;
	rng_seeded_init(&rng, 3);
	for (int i = 0; i < 1000; i++) {
		int64_t us = backoff_wait_us(&b, 5, &rng);

		least = MIN(least, us);
		most = MAX(most, us);
	}
	assert_in_range(least, 500000, 520000);
	assert_in_range(most, 1480000, 1500000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fnv_1a_gives_the_published_values),
		cmocka_unit_test(hash_words_tells_texts_apart),
		cmocka_unit_test(a_map_holds_exactly_what_was_put_and_not_removed),
		cmocka_unit_test(entries_whose_hashes_collide_are_told_apart_by_their_keys),
		cmocka_unit_test(a_removal_moves_entries_back_across_the_end_of_the_table),
		cmocka_unit_test(a_map_in_an_arena_needs_no_end),
		cmocka_unit_test(waits_double_up_to_the_cap),
		cmocka_unit_test(a_huge_cap_does_not_overflow),
		cmocka_unit_test(jitter_spreads_waits_evenly_around_the_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
