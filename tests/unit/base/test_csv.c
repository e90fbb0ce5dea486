/* CSV after RFC 4180. */
#include "base/base.h"
#include "unit.h"

#include "base/text/text.h"

static void rows_are_read_by_column_name(void **state)
{
	struct arena *a = arena_new(0);
	struct csv c;

	(void)state;
	assert_int_equal(csv_open(&c, a,
			     str_from("\xef\xbb\xbf"
				      "a,b,\"c d\"\r\n1,\"x, \"\"y\"\"\nz\",\r\n\r\n2,,3"),
			     NULL),
	    SPOT_OK);
	assert_int_equal(c.columns, 3);
	assert_int_equal(csv_next(&c, NULL), 1);
	assert_string_equal(csv_get(&c, "a"), "1");
	assert_string_equal(csv_get(&c, "b"), "x, \"y\"\nz");
	assert_string_equal(csv_get(&c, "c d"), "");
	assert_string_equal(csv_get(&c, "none"), "");
	assert_int_equal(csv_next(&c, NULL), 1);
	assert_string_equal(csv_get(&c, "b"), "");
	assert_string_equal(csv_get(&c, "c d"), "3");
	assert_int_equal(csv_next(&c, NULL), 0);
	assert_int_equal(csv_next(&c, NULL), 0);
	arena_free(a);
}

static void bad_files_are_refused_with_their_line(void **state)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
		{ "", "empty" },
		{ "a,a\n", "column 'a' appears twice" },
		{ "\"a\n", "line 1, field 1: bad quoting" },
		{ "a,\"b\"x\n", "line 1, field 2: bad quoting" },
		{ "a,b\n1\n", "line 2: 1 fields, the header has 2" },
		{ "a,b\n\"1\n\n\",2\n1,2,3\n", "line 5: 3 fields, the header has 2" },
		{ "a\n\"x\n", "line 2, field 1: bad quoting" },
	};
	struct arena *a = arena_new(0);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct csv c;
		struct spot_err err = { 0 };

		if (csv_open(&c, a, str_from(cases[i].text), &err) == SPOT_OK) {
			int got;

			while ((got = csv_next(&c, &err)) == 1) {
				continue;
			}
			assert_int_equal(got, -1);
		}
		assert_int_equal(err.rc, SPOT_INVALID);
		if (strstr(err.text, cases[i].words) == NULL) {
			fail_msg("'%s' gave '%s'", cases[i].text, err.text);
		}
	}
	struct csv c;
	assert_int_equal(csv_open(&c, a, ((struct str){ "a\0b", 3 }), NULL), SPOT_INVALID);
	arena_free(a);
}

static void the_number_of_columns_is_capped(void **state)
{
	struct arena *a = arena_new(0);
	char text[1102];
	struct csv c;

	(void)state;
	memset(text, ',', sizeof(text));
	assert_int_equal(csv_open(&c, a, ((struct str){ text, 1100 }), NULL), SPOT_INVALID);
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_read_by_column_name),
		cmocka_unit_test(bad_files_are_refused_with_their_line),
		cmocka_unit_test(the_number_of_columns_is_capped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
