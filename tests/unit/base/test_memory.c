/* Arenas, and error words. */
#include "base/base.h"
#include "unit.h"

#include "base/crypto/crypto.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void memory_is_zeroed_aligned_and_distinct(void **state)
{
	struct arena *a = arena_new(0);
	char *seen[200];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(seen); i++) {
		size_t n = i * 37 % 9000;

		seen[i] = arena_alloc(a, n);
		assert_int_equal((uintptr_t)seen[i] % _Alignof(max_align_t), 0);
		for (size_t j = 0; j < n; j++) {
			assert_int_equal(seen[i][j], 0);
		}
		memset(seen[i], (int)i + 1, n);
	}
	for (size_t i = 0; i < ARRAY_LEN(seen); i++) {
		for (size_t j = 0; j < i * 37 % 9000; j++) {
			assert_int_equal((unsigned char)seen[i][j], (unsigned char)(i + 1));
		}
	}
	arena_free(a);
	arena_free(NULL);
}

static void a_reset_arena_hands_out_zeroed_memory_again(void **state)
{
	struct arena *a = arena_new(0);

	(void)state;
	memset(arena_alloc(a, 3000), 'x', 3000);
	memset(arena_alloc(a, (size_t)4 << 20), 'x', (size_t)4 << 20);
	assert_true(arena_used(a) >= 3000);
	arena_reset(a);
	assert_int_equal(arena_used(a), 0);
	char *p = arena_alloc(a, 3000);
	for (int i = 0; i < 3000; i++) {
		assert_int_equal(p[i], 0);
	}
	arena_free(a);
}

static void texts_are_copied_and_terminated(void **state)
{
	struct arena *a = arena_new(0);

	(void)state;
	assert_null(arena_strdup(a, NULL));
	assert_string_equal(arena_strdup(a, "abc"), "abc");
	assert_string_equal(arena_strndup(a, "abcdef", 3), "abc");
	assert_string_equal(arena_printf(a, "%s-%03d", "x", 7), "x-007");
	struct str b = arena_bytes(a, "a\0b", 3);
	assert_memory_equal(b.p, "a\0b", 4);
	assert_int_equal(arena_bytes(a, NULL, 0).n, 0);
	arena_free(a);
}

static void a_grown_array_keeps_its_items(void **state)
{
	struct arena *a = arena_new(0);
	int *items = NULL;
	size_t cap = 0;

	(void)state;
	for (size_t i = 0; i < 1000; i++) {
		items = arena_grow(a, items, i, &cap, sizeof(*items));
		items[i] = (int)i;
	}
	for (size_t i = 0; i < 1000; i++) {
		assert_int_equal(items[i], i);
	}
	arena_free(a);
}

static void over_cap(void)
{
	struct arena *a = arena_new(10000);

	arena_alloc(a, 6000);
	arena_alloc(a, 6000);
}

static void array_overflow(void)
{
	arena_array(arena_new(0), SIZE_MAX / 2, 3);
}

static void far_too_much(void)
{
	arena_alloc(arena_new(1000), SIZE_MAX);
}

/* Runs fn in a child and tells whether it aborted. */
static bool is_aborted(void (*fn)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		close(STDERR_FILENO);
		fn();
		_exit(0);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void going_over_the_cap_aborts(void **state)
{
	(void)state;
	assert_true(is_aborted(over_cap));
	assert_true(is_aborted(array_overflow));
	assert_true(is_aborted(far_too_much));
}

static void an_error_carries_words_and_clears_what_was_there(void **state)
{
	struct spot_err err = { .retry_after_us = 5, .code = "Old", .text = "old" };

	(void)state;
	assert_int_equal(err_set(&err, SPOT_QUOTA, "%s: %d", "limit", 3), SPOT_QUOTA);
	assert_int_equal(err.rc, SPOT_QUOTA);
	assert_string_equal(err.text, "limit: 3");
	assert_string_equal(err.code, "");
	assert_int_equal(err.retry_after_us, 0);
	assert_int_equal(err_set(NULL, SPOT_GONE, "x"), SPOT_GONE);
	err_set(&err, SPOT_GONE, "again: %s", err.text);
	assert_string_equal(err.text, "again: limit: 3");
}

static void each_layer_puts_its_name_before_the_words(void **state)
{
	struct spot_err err = { 0 };

	(void)state;
	err_set(&err, SPOT_DENIED, "no");
	assert_int_equal(err_prefix(&err, "region %s", "r1"), SPOT_DENIED);
	assert_int_equal(err_prefix(&err, "aws"), SPOT_DENIED);
	assert_string_equal(err.text, "aws: region r1: no");
	assert_int_equal(err_prefix(NULL, "x"), SPOT_INTERNAL);
}

static void long_words_are_cut_between_characters(void **state)
{
	struct spot_err err = { 0 };
	char text[500] = "x";

	(void)state;
	for (size_t i = 1; i + 2 < sizeof(text); i += 2) {
		memcpy(text + i, "\xc3\xa9", 3);
	}
	err_set(&err, SPOT_INVALID, "%s", text);
	assert_int_equal(strlen(err.text), 399);
	err_set(&err, SPOT_INVALID, "x%s", text);
	assert_int_equal(strlen(err.text), 398);
	err_prefix(&err, "%s", text);
	assert_true(strlen(err.text) < sizeof(err.text));
}

static void a_secret_in_error_words_is_replaced_even_where_the_words_are_cut(void **state)
{
	struct spot_err err = { 0 };
	char pad[396];

	(void)state;
	memset(pad, '.', sizeof(pad) - 1);
	pad[sizeof(pad) - 1] = '\0';
	redact_add("hunter2-hunter2", 15);
	err_set(&err, SPOT_DENIED, "key hunter2-hunter2 refused");
	assert_string_equal(err.text, "key [redacted] refused");
	err_set(&err, SPOT_DENIED, "%shunter2-hunter2", pad);
	assert_null(strstr(err.text, "hunt"));
	redact_remove("hunter2-hunter2", 15);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_zeroed_aligned_and_distinct),
		cmocka_unit_test(a_reset_arena_hands_out_zeroed_memory_again),
		cmocka_unit_test(texts_are_copied_and_terminated),
		cmocka_unit_test(a_grown_array_keeps_its_items),
		cmocka_unit_test(going_over_the_cap_aborts),
		cmocka_unit_test(an_error_carries_words_and_clears_what_was_there),
		cmocka_unit_test(each_layer_puts_its_name_before_the_words),
		cmocka_unit_test(long_words_are_cut_between_characters),
		cmocka_unit_test(a_secret_in_error_words_is_replaced_even_where_the_words_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
