/* The job file that people are shown: whatever way a secret is written, it is not there, and all
 * else is. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/spec/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static char *source_shown(struct arena *a, const char *text)
{
	struct spot_err err = { 0 };
	struct job_spec *s;

	if (jobspec_parse(a, str_from(text), 0, &s, NULL, NULL, &err) != SPOT_OK) {
		fail_msg("%s\n%s", err.text, text);
	}
	return jobspec_source(a, str_from(text), s);
}

static void each_way_to_write_a_secret(void **state)
{
	static const struct {
		const char *text, *shown;
	} cases[] = {
		{ "secrets:\n  A: hunter2hunter2\nrun: x\n", "secrets:\n  A: \"***\"\nrun: x\n" },
		{ "secrets: {A: hunter2, B: 'it''s one', C: \"a\\tb\\\"c\\u00e9\"}\nrun: x\n",
		    "secrets: {A: \"***\", B: \"***\", C: \"***\"}\nrun: x\n" },
		{ "secrets:\n  K: |\n    -----BEGIN-----\n    c2VjcmV0IHNlY3JldA\n\n    "
		  "-----END-----\n\nrun: x\n",
		    "secrets:\n  K: \"***\"\n\n\n\n\n\nrun: x\n" },
		{ "secrets:\n  K: |2-\n      first line\n     second\n  L: >+\n    folded\n    "
		  "text\n\nrun: x\n",
		    "secrets:\n  K: \"***\"\n\n\n  L: \"***\"\n\n\n\nrun: x\n" },
		{ "run: x\nsecrets:\n  K: |\n    the last line has no end",
		    "run: x\nsecrets:\n  K: \"***\"\n" },
		{ "secrets:\n  P: of several\n    lines\n  Q: \"one \\\n    two\n    three\"\n  R: "
		  "'four\n\n    five'\nrun: x\n",
		    "secrets:\n  P: \"***\"\n\n  Q: \"***\"\n\n\n  R: \"***\"\n\n\nrun: x\n" },
		{ "secrets:\r\n  A: |\r\n    first\r\n    second\r\nrun: x\r\n",
		    "secrets:\r\n  A: \"***\"\r\n\r\n\r\nrun: x\r\n" },
		{ "# \xc3\xa9\xe2\x82\xac\nname: a\nsecrets: {\"\xc3\xa9\": 1}\nrun: x\n", NULL },
		{ "envs: {E: \"\xc3\xa9\xe2\x82\xac\"} # \xc3\xbc\nsecrets: {A: "
		  "\xc3\xa9t\xc3\xa9}\nrun: \"\xc3\xbc\"\n",
		    "envs: {E: \"\xc3\xa9\xe2\x82\xac\"} # \xc3\xbc\nsecrets: {A: \"***\"}\nrun: "
		    "\"\xc3\xbc\"\n" },
		{ "{\"run\": \"x\", \"secrets\": {\"A\": \"q\\\"uote\\\\d \\u00e9\", \"B\": 17}, "
		  "\"name\": \"n\"}",
		    "{\"run\": \"x\", \"secrets\": {\"A\": \"***\", \"B\": \"***\"}, \"name\": "
		    "\"n\"}" },
		{ "secrets:\n  ? A\n  : hunter2\nrun: x\n",
		    "secrets:\n  ? A\n  : \"***\"\nrun: x\n" },
		{ "\"secrets\": {A: hunter2}\nrun: x\n", "\"secrets\": {A: \"***\"}\nrun: x\n" },
		{ "run: x # all stays\nenvs: {A: 1}\n", "run: x # all stays\nenvs: {A: 1}\n" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena) struct arena *a = arena_new(0);

		if (cases[i].shown != NULL) {
			assert_string_equal(source_shown(a, cases[i].text), cases[i].shown);
		}
	}
}

static void repetitions_of_a_secret_go_too(void **state)
{
	static const struct {
		const char *text, *shown;
	} cases[] = {
		{ "run: curl -H hunter2hunter2 x hunter2hunter2\nsecrets: {A: hunter2hunter2}\n",
		    "run: curl -H *** x ***\nsecrets: {A: \"***\"}\n" },
		{ "run: |\n  cat <<END\n    c2VjcmV0IHNlY3JldA\n  short\n  END\nsecrets:\n  K: |\n "
		  "   c2VjcmV0IHNlY3JldA\n    short\n",
		    "run: |\n  cat <<END\n    ***\n  short\n  END\nsecrets:\n  K: \"***\"\n\n\n" },
		{ "secrets: # was: hunter2\n  # OLD: hunter3\n# OLDER: hunter4\n  A: b1 # "
		  "hunter5\n  # hunter6\n# of the next\nrun: x # stays\n",
		    "secrets: ***\n  ***\n***\n  A: \"***\" ***\n  ***\n# of the next\nrun: x # "
		    "stays\n" },
		{ "secrets: {A: '#1', B: b2} # hunter7\nrun: 'echo # stays'\n",
		    "secrets: {A: \"***\", B: \"***\"} ***\nrun: 'echo # stays'\n" },
		{ "secrets: {A: \"\\n\", B: ' '}\nrun: x y\n",
		    "secrets: {A: \"***\", B: \"***\"}\nrun: x y\n" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena) struct arena *a = arena_new(0);

		assert_string_equal(source_shown(a, cases[i].text), cases[i].shown);
	}
}

static void many_lines_in_a_large_file_take_no_time(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	AUTO(sbuf) struct sbuf text;

	(void)state;
	sbuf_init(&text, 0);
	sbuf_puts(&text, "run: x\nsecrets:\n");
	for (int v = 0; v < 7; v++) {
		sbuf_printf(&text, "  B%d: |\n", v);
		for (int i = 0; i < 9000; i++) {
			sbuf_printf(&text, "    %d\n", 100000000 + v * 9000 + i);
		}
	}
	assert_non_null(strstr(source_shown(a, text.p), "not kept"));
}

static void a_file_with_stars_is_not_taken_for_one_with_secrets(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct spot_err err = { 0 };
	struct job_spec *s;

	(void)state;
	assert_int_equal(jobspec_parse(a,
			     str_from(source_shown(a, "run: x\nsecrets:\n  A: b1\n  C: d\n")), 0,
			     &s, NULL, NULL, &err),
	    SPOT_INVALID);
	assert_non_null(strstr(err.text, "line 3, column 6: secrets: A is starred out"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_way_to_write_a_secret),
		cmocka_unit_test(repetitions_of_a_secret_go_too),
		cmocka_unit_test(many_lines_in_a_large_file_take_no_time),
		cmocka_unit_test(a_file_with_stars_is_not_taken_for_one_with_secrets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
