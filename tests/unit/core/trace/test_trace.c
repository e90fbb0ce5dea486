/* The form of a trace file, and the words that refuse any other. */
#include "unit.h"
#include "base/base.h"
#include "base/text/text.h"
#include "core/trace/trace.h"

static struct arena *arena;

static enum spot_rc trace_read(const char *text, const char *path, struct trace *ret,
    struct spot_err *err)
{
	*err = (struct spot_err){ 0 };
	return trace_parse_supply(arena, str_from(text), path, ret, err);
}

static void counts_are_read_and_compared_with_the_nodes_wanted(void **state)
{
	struct trace t;
	struct spot_err err;
	const uint8_t *up;

	(void)state;
	assert_int_equal(trace_read("{\"metadata\": {\"gap_seconds\": 300, \"zone\": \"x\"}, "
				    "\"data\": "
				    "[0, 4, 16, 3.0], \"prices\": [1]}",
			     "a/b/us-east-2b_v100_1.json", &t, &err),
	    SPOT_OK);
	assert_int_equal(t.n, 4);
	assert_int_equal(t.gap_us, 300 * SPOT_US_PER_S);
	assert_string_equal(t.name, "us-east-2b_v100_1.json");
	up = trace_up(arena, &t, 1);
	assert_true(!up[0] && up[1] && up[2] && up[3]);
	up = trace_up(arena, &t, 4);
	assert_true(!up[0] && up[1] && up[2] && !up[3]);
}

static void zone_and_region_come_from_the_file_name(void **state)
{
	static const struct {
		const char *path, *zone, *region;
	} cases[] = { { "us-east-1a_v100_1.json", "us-east-1a", "us-east-1" },
		{ "/t/us-central1-a_h100_1.json", "us-central1-a", "us-central1" },
		{ "asia-southeast1-c_h100_1.json", "asia-southeast1-c", "asia-southeast1" },
		{ "ap-northeast-3c_a100_8.json", "ap-northeast-3c", "ap-northeast-3" },
		{ "eastus-2_a100_1.json", "eastus-2", "eastus" },
		{ "us-east-1_v100_1.json", "us-east-1", "us-east-1" },
		{ "mine.json", "mine", "mine" }, { "a", "a", "a" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct trace t;
		struct spot_err err;

		assert_int_equal(trace_read("{\"metadata\": {\"gap_seconds\": 60.0}, \"data\": "
					    "[1]}",
				     cases[i].path, &t, &err),
		    SPOT_OK);
		assert_string_equal(t.zone, cases[i].zone);
		assert_string_equal(t.region, cases[i].region);
	}
}

static void an_invalid_trace_is_refused_with_file_and_place(void **state)
{
	static const struct {
		const char *text, *words;
	} cases[] = { { "", "f.json: empty" },
		{ "{\"metadata\": {\"gap_seconds\": 60}, \"data\": [1,}", "line 1" },
		{ "{\"data\": [1]}", "gap_seconds is missing" },
		{ "[1]", "gap_seconds is missing" },
		{ "{\"metadata\": {\"gap_seconds\": \"60\"}, \"data\": [1]}", "no number" },
		{ "{\"metadata\": {\"gap_seconds\": 0}, \"data\": [1]}", "gap_seconds is 0" },
		{ "{\"metadata\": {\"gap_seconds\": 0.5}, \"data\": [1]}", "whole seconds" },
		{ "{\"metadata\": {\"gap_seconds\": 86401}, \"data\": [1]}", "whole seconds" },
		{ "{\"metadata\": {\"gap_seconds\": 60}}", "\"data\" is missing" },
		{ "{\"metadata\": {\"gap_seconds\": 60}, \"data\": []}", "empty" },
		{ "{\"metadata\": {\"gap_seconds\": 60}, \"data\": {\"0\": 1}}", "no array" },
		{ "{\"metadata\": {\"gap_seconds\": 60}, \"data\": [1, 0, -1]}",
		    "f.json: data[2]" },
		{ "{\"metadata\": {\"gap_seconds\": 60}, \"data\": [1, null]}", "data[1]" },
		{ "{\"metadata\": {\"gap_seconds\": 60}, \"data\": [true]}", "data[0]" },
		{ "{\"metadata\": {\"gap_seconds\": 60}, \"data\": [1, 0.918]}",
		    "--price-trace" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct trace t;
		struct spot_err err;

		assert_int_equal(trace_read(cases[i].text, "d/f.json", &t, &err), SPOT_INVALID);
		if (strstr(err.text, cases[i].words) == NULL) {
			fail_msg("'%s' lacks '%s'", err.text, cases[i].words);
		}
	}
}

static void prices_are_read_to_the_micro_dollar(void **state)
{
	struct trace t;
	struct spot_err err = { 0 };

	(void)state;
	assert_int_equal(trace_parse_prices(arena,
			     str_from("{\"metadata\": {\"gap_seconds\": 195}, \"data\": [0.918, "
				      "1.0741, 3]}"),
			     "p.json", &t, &err),
	    SPOT_OK);
	assert_int_equal(t.price_micros[0], 918000);
	assert_int_equal(t.price_micros[1], 1074100);
	assert_int_equal(t.price_micros[2], 3000000);
	assert_int_equal(trace_parse_prices(arena,
			     str_from("{\"metadata\": {\"gap_seconds\": 195}, \"data\": [1, 0]}"),
			     "p.json", &t, &err),
	    SPOT_INVALID);
	assert_non_null(strstr(err.text, "p.json: data[1] is no price"));
	assert_int_equal(trace_parse_prices(arena,
			     str_from("{\"metadata\": {\"gap_seconds\": 195}, \"data\": [1001]}"),
			     "p.json", &t, &err),
	    SPOT_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(
						counts_are_read_and_compared_with_the_nodes_wanted),
		cmocka_unit_test(zone_and_region_come_from_the_file_name),
		cmocka_unit_test(an_invalid_trace_is_refused_with_file_and_place),
		cmocka_unit_test(prices_are_read_to_the_micro_dollar) };
	int failed;

	arena = arena_new(0);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	arena_free(arena);
	return failed;
}
