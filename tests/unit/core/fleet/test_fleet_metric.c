/* The demand of a fleet by a query of Prometheus: its answers, and how long one holds. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/fleet/fleet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define T0 (INT64_C(1790000000) * SPOT_US_PER_S)

static double answer_of(const char *body, const char **ret_words)
{
	static struct spot_err err;
	double v = -1;

	err = (struct spot_err){ 0 };
	*ret_words = err.text;
	return fleet_metric_read((struct str){ body, strlen(body) }, &v, &err) == SPOT_OK ? v : -1;
}

/* The forms of prometheus.io/docs/prometheus/latest/querying/api. */
static void answers_of_prometheus_are_read_strictly(void **state)
{
	static const char *const bad[][2] = {
		{ "{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"parse error\"}",
		    "parse error" },
		{ "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[]}}",
		    "no series" },
		{ "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[]}}",
		    "'matrix'" },
		{ "{\"status\":\"success\",\"data\":{\"resultType\":\"scalar\",\"result\":[1,"
		  "\"NaN\"]}}",
		    "no number" },
		{ "<html>", "the answer" },
		{ "[]", "no status" },
	};
	const char *words;

	(void)state;
	assert_true(answer_of("{\"status\":\"success\",\"data\":{\"resultType\":\"scalar\","
			      "\"result\":[1435781451.781,\"7.5\"]}}",
			&words) == 7.5);
	assert_true(answer_of("{\"status\":\"success\",\"data\":{\"resultType\":\"vector\","
			      "\"result\":[{\"metric\":{},\"value\":[1,\"3\"]},{\"metric\":{},"
			      "\"value\":[1,\"4\"]}]}}",
			&words) == 7);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (answer_of(bad[i][0], &words) != -1 || strstr(words, bad[i][1]) == NULL) {
			fail_msg("%s: '%s'", bad[i][0], words);
		}
	}
}

static void a_query_that_fails_is_held_and_then_said(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct fleet_metric m = { .target = 4,
		.per = 2,
		.every_us = 30 * SPOT_US_PER_S,
		.prewarm = 3 };
	struct fleet_answer last = { .error = "" };
	struct fleet_demand d;

	(void)state;
	fleet_metric_demand(a, &m, &last, T0, &d);
	assert_false(d.there);
	last = (struct fleet_answer){ .there = true, .value = 9, .at_us = T0, .error = "" };
	fleet_metric_demand(a, &m, &last, T0 + 1, &d);
	assert_int_equal(d.units, 6);
	assert_string_equal(d.words, "query 9 / target 4 asks for 6");
	/* While it rises the spares of prewarm come on top. */
	last.before_there = true;
	last.before = 5;
	fleet_metric_demand(a, &m, &last, T0 + 1, &d);
	assert_int_equal(d.units, 9);
	last.error = "timeout";
	fleet_metric_demand(a, &m, &last, T0 + 60 * SPOT_US_PER_S, &d);
	assert_true(d.there);
	assert_non_null(strstr(d.words, "answer of 60 s ago is held: timeout"));
	assert_int_equal(d.until_us, T0 + 300 * SPOT_US_PER_S);
	fleet_metric_demand(a, &m, &last, T0 + 300 * SPOT_US_PER_S, &d);
	assert_false(d.there);
	assert_string_equal(d.words, "the query has no answer for 300 s: timeout");
	assert_true(fleet_metric_allowed("a:1, prom:9090", "http://prom:9090/x"));
	assert_true(fleet_metric_allowed("prom", "https://PROM"));
	assert_false(fleet_metric_allowed("prom", "http://prom:9090"));
	assert_false(fleet_metric_allowed("", "http://prom"));
	assert_false(fleet_metric_allowed("prom", "http://prometheus"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_of_prometheus_are_read_strictly),
		cmocka_unit_test(a_query_that_fails_is_held_and_then_said),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
