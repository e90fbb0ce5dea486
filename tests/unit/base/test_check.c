/* Items of a provider's check verb. */
#include "base/base.h"
#include "unit.h"

#include "base/text/text.h"

#define NOW INT64_C(784111777000000) /* 1994-11-06T08:49:37Z */

static void items_are_copied_and_found_by_name(void **state)
{
	struct arena *a = arena_new(0);
	struct spot_call c = { .arena = a };
	struct check_list l = { 0 };
	struct spot_check answer = { 0 };
	char name[] = "quota G", words[] = "8 vCPUs";

	(void)state;
	check_add(&c, &l, name, SPOT_CHECK_OK, words, "");
	memset(name, 'z', sizeof(name) - 1);
	memset(words, 'z', sizeof(words) - 1);
	assert_true(check_has(&l, "quota G"));
	assert_false(check_has(&l, "quota P"));
	check_done(&l, &answer);
	assert_int_equal(answer.n, 1);
	assert_string_equal(answer.items[0].words, "8 vCPUs");
	arena_free(a);
}

static void a_failed_question_becomes_an_item(void **state)
{
	struct arena *a = arena_new(0);
	struct spot_call c = { .arena = a };
	struct check_list l = { 0 };

	(void)state;
	call_fail(&c, SPOT_DENIED, "AccessDenied", "acme list: not you");
	check_add_err(&c, &l, "list", SPOT_CHECK_BAD, "attach the role");
	assert_string_equal(l.items[0].words, "acme list: not you");
	assert_string_equal(l.items[0].fix, "attach the role");
	assert_int_equal(l.items[0].state, SPOT_CHECK_BAD);
	assert_int_equal(c.err.rc, SPOT_OK);
	assert_string_equal(c.err.text, "");
	arena_free(a);
}

static void the_clock_is_judged_by_the_date_of_the_reply(void **state)
{
	static const struct {
		const char *date;
		enum spot_check_state state;
		const char *words;
	} cases[] = {
		{ "Sun, 06 Nov 1994 08:49:37 GMT", SPOT_CHECK_OK, "within a minute" },
		{ "Sun, 06 Nov 1994 08:50:36 GMT", SPOT_CHECK_OK, "within a minute" },
		{ "Sun, 06 Nov 1994 08:48:38 GMT", SPOT_CHECK_OK, "within a minute" },
		{ "Sun, 06 Nov 1994 08:50:37 GMT", SPOT_CHECK_WARN, "1m" },
		{ "Sun, 06 Nov 1994 08:48:37 GMT", SPOT_CHECK_WARN, "1m" },
		{ "Sun, 06 Nov 1994 08:53:37 GMT", SPOT_CHECK_BAD, "4m" },
		{ "yesterday", SPOT_CHECK_UNTESTED, "no date" },
	};
	struct arena *a = arena_new(0);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spot_header h = { "Date", cases[i].date };
		struct spot_http_response in = { .headers = &h, .headers_n = 1 };
		struct spot_call c = { .arena = a, .in = &in, .now_us = NOW };
		struct check_list l = { 0 };

		check_clock(&c, &l, 240 * SPOT_US_PER_S, "signatures depend on it");
		assert_int_equal(l.n, 1);
		assert_string_equal(l.items[0].name, "clock");
		assert_int_equal(l.items[0].state, cases[i].state);
		assert_non_null(strstr(l.items[0].words, cases[i].words));
		if (cases[i].state == SPOT_CHECK_BAD || cases[i].state == SPOT_CHECK_WARN) {
			assert_non_null(strstr(l.items[0].fix, ": signatures depend on it"));
		}
	}
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(items_are_copied_and_found_by_name),
		cmocka_unit_test(a_failed_question_becomes_an_item),
		cmocka_unit_test(the_clock_is_judged_by_the_date_of_the_reply),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
