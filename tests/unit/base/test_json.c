/* JSON: caps, typed getters, output. */
#include "base/base.h"
#include "unit.h"

#include "base/text/text.h"

static json_t *json_read(const char *text)
{
	json_t *doc = NULL;
	struct spot_err err = { 0 };

	if (json_parse(str_from(text), "test", &doc, &err) != SPOT_OK) {
		fail_msg("%s", err.text);
	}
	return doc;
}

static void bad_documents_are_refused_with_their_place(void **state)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
		{ "", "feed: empty" },
		{ "{\"a\":1,\n\"a\":2}", "line 2" }, /* duplicate key */
		{ "{} x", "line 1" }, /* trailing text */
		{ "{\"a\":}", "line 1, column 6" },
		{ "{\"a\":\"\\u0000\"}", "line 1" }, /* NUL in a string */
		{ "\"text\"", "line 1" }, /* neither object nor array */
		{ "[1e999]", "line 1" },
		{ "[\"\xff\"]", "line 1" },
	};
	json_t *doc = NULL;
	struct spot_err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(json_parse(str_from(cases[i].text), "feed", &doc, &err),
		    SPOT_INVALID);
		if (strstr(err.text, cases[i].words) == NULL) {
			fail_msg("'%s' gave '%s'", cases[i].text, err.text);
		}
		assert_null(doc);
	}
	assert_int_equal(json_parse(str_from(NULL), "feed", &doc, NULL), SPOT_INVALID);
}

static void nesting_is_capped_and_brackets_in_strings_do_not_count(void **state)
{
	char text[200] = "";
	json_t *doc = NULL;
	struct spot_err err;

	(void)state;
	memset(text, '[', 32);
	memset(text + 32, ']', 32);
	assert_int_equal(json_parse(str_from(text), "t", &doc, &err), SPOT_OK);
	json_decref(doc);
	memset(text, '[', 33);
	memset(text + 33, ']', 33);
	assert_int_equal(json_parse(str_from(text), "t", &doc, &err), SPOT_INVALID);
	assert_non_null(strstr(err.text, "deeper than 32"));
	json_decref(json_read("[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[\"]"));
}

static void getters_give_defaults_for_absent_and_null(void **state)
{
	AUTO(json) json_t *o = json_read("{\"n\":null,\"s\":\"x\",\"i\":7,\"f\":1.5,\"b\":true}");
	struct spot_err err = { 0 };

	(void)state;
	assert_string_equal(json_str(o, "s", "d", &err), "x");
	assert_string_equal(json_str(o, "n", "d", &err), "d");
	assert_null(json_str(o, "absent", NULL, &err));
	assert_int_equal(json_i64(o, "i", 1, &err), 7);
	assert_int_equal(json_i64(o, "n", 1, &err), 1);
	assert_true(json_f64(o, "f", 0, &err) == 1.5);
	assert_true(json_f64(o, "i", 0, &err) == 7);
	assert_true(json_f64(o, "absent", 2, &err) == 2);
	assert_true(json_bool(o, "b", false, &err));
	assert_true(json_bool(o, "n", true, &err));
	assert_string_equal(json_need_str(o, "s", &err), "x");
	assert_int_equal(json_need_i64(o, "i", &err), 7);
	assert_int_equal(err.rc, SPOT_OK);
	assert_string_equal(json_str(NULL, "s", "d", &err), "d");
}

static void a_wrong_type_names_the_field_and_the_first_one_wins(void **state)
{
	AUTO(json)
	json_t *o =
	    json_read("{\"s\":1,\"i\":\"x\",\"f\":[],\"b\":{},\"r\":1.5,\"t\":true,\"n\":null}");
	struct spot_err err = { 0 };

	(void)state;
	assert_string_equal(json_str(o, "s", "d", &err), "d");
	assert_string_equal(err.text, "field 's': expected a string, found an integer");
	assert_int_equal(json_i64(o, "i", 3, &err), 3);
	assert_string_equal(err.text, "field 's': expected a string, found an integer");
	err = (struct spot_err){ 0 };
	json_i64(o, "r", 0, &err);
	assert_string_equal(err.text, "field 'r': expected an integer, found a number");
	err = (struct spot_err){ 0 };
	json_f64(o, "f", 0, &err);
	assert_string_equal(err.text, "field 'f': expected a number, found an array");
	err = (struct spot_err){ 0 };
	json_bool(o, "b", false, &err);
	assert_string_equal(err.text, "field 'b': expected true or false, found an object");
	err = (struct spot_err){ 0 };
	json_str(o, "t", NULL, &err);
	assert_string_equal(err.text, "field 't': expected a string, found a boolean");
	err = (struct spot_err){ 0 };
	assert_string_equal(json_need_str(o, "n", &err), "");
	assert_string_equal(err.text, "field 'n': missing");
	err = (struct spot_err){ 0 };
	assert_int_equal(json_need_i64(o, "absent", &err), 0);
	assert_string_equal(err.text, "field 'absent': missing");
	assert_int_equal(json_i64(o, "i", 4, NULL), 4);
}

static void unknown_keys_are_found(void **state)
{
	static const char *const known[] = { "a", "b", NULL };
	AUTO(json) json_t *good = json_read("{\"b\":1,\"a\":2}");
	AUTO(json) json_t *bad = json_read("{\"a\":1,\"c\":2}");

	(void)state;
	assert_null(json_unknown_key(good, known));
	assert_string_equal(json_unknown_key(bad, known), "c");
}

static void output_is_compact_and_money_is_exact(void **state)
{
	struct arena *a = arena_new(0);
	AUTO(json) json_t *o = json_object();

	(void)state;
	json_object_set_new(o, "z", json_usd(412300));
	json_object_set_new(o, "a", json_usd(INT64_C(123456789123456)));
	json_object_set_new(o, "t", json_time(INT64_C(1767323045000006)));
	json_object_set_new(o, "n", json_time(0));
	assert_string_equal(json_text(a, o),
	    "{\"z\":0.4123,\"a\":123456789.123456,"
	    "\"t\":\"2026-01-02T03:04:05.000006Z\",\"n\":null}");
	assert_string_equal(json_text(a, NULL), "null");
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_documents_are_refused_with_their_place),
		cmocka_unit_test(nesting_is_capped_and_brackets_in_strings_do_not_count),
		cmocka_unit_test(getters_give_defaults_for_absent_and_null),
		cmocka_unit_test(a_wrong_type_names_the_field_and_the_first_one_wins),
		cmocka_unit_test(unknown_keys_are_found),
		cmocka_unit_test(output_is_compact_and_money_is_exact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
