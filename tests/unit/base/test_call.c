/* Helpers of provider steps. */
#include "base/base.h"
#include "unit.h"

#include "base/crypto/crypto.h"
#include "base/text/text.h"

static void a_request_is_copied_into_the_arena(void **state)
{
	struct arena *a = arena_new(0);
	struct spot_call c = { .arena = a };
	char url[] = "https://h/", name[] = "x-a", body[] = "hello";

	(void)state;
	c.out.headers_n = 5;
	call_request(&c, "POST", url);
	call_header(&c, name, "1");
	call_body(&c, "text/plain", body, 5);
	memset(url, 'z', sizeof(url) - 1);
	memset(name, 'z', sizeof(name) - 1);
	memset(body, 'z', sizeof(body) - 1);
	assert_string_equal(c.out.url, "https://h/");
	assert_string_equal(c.out.method, "POST");
	assert_int_equal(c.out.headers_n, 2);
	assert_string_equal(c.out.headers[0].name, "x-a");
	assert_string_equal(c.out.headers[1].value, "text/plain");
	assert_string_equal(c.out.body.p, "hello");
	call_body(&c, NULL, "", 0);
	assert_int_equal(c.out.headers_n, 2);
	assert_int_equal(c.out.body.n, 0);
	arena_free(a);
}

static void verdicts_fill_the_error(void **state)
{
	struct arena *a = arena_new(0);
	struct spot_call c = { .arena = a };

	(void)state;
	assert_int_equal(call_fail(&c, SPOT_NO_CAPACITY, "InsufficientInstanceCapacity", "zone %s",
			     "z1"),
	    SPOT_FAIL);
	assert_int_equal(c.err.rc, SPOT_NO_CAPACITY);
	assert_string_equal(c.err.code, "InsufficientInstanceCapacity");
	assert_string_equal(c.err.text, "zone z1");
	assert_int_equal(call_again(&c, SPOT_THROTTLED, 7, c.err.code, "slow %s", c.err.text),
	    SPOT_AGAIN);
	assert_string_equal(c.err.code, "InsufficientInstanceCapacity");
	assert_string_equal(c.err.text, "slow zone z1");
	assert_int_equal(c.err.retry_after_us, 7);
	call_fail(&c, SPOT_INVALID, NULL, "x");
	assert_string_equal(c.err.code, "");
	assert_int_equal(c.err.retry_after_us, 0);
	arena_free(a);
}

static void a_key_of_ours_in_a_vendors_code_is_replaced(void **state)
{
	static const char key[] = "0123456789-key-0123456789";
	struct arena *a = arena_new(0);
	struct spot_call c = { .arena = a };
	char code[200];

	(void)state;
	redact_add(key, strlen(key));
	/* Begins before the code is cut to its size, and ends behind it. */
	snprintf(code, sizeof(code), "%.*s%s", (int)sizeof(c.err.code) - 15,
	    "a-code-that-is-as-long-as-codes-of-vendors-are-when-they-are-long-and-longer", key);
	call_fail(&c, SPOT_INVALID, code, "refused (%s)", code);
	assert_null(strstr(c.err.code, "0123"));
	assert_non_null(strstr(c.err.code, "[redacted]"));
	assert_null(strstr(c.err.text, "0123"));
	redact_remove(key, strlen(key));
	arena_free(a);
}

static int64_t retry_after(const char *value)
{
	struct spot_header h = { "Retry-After", value };
	struct spot_http_response in = { .headers = &h, .headers_n = 1 };
	/* 1994-11-06T08:49:37Z */
	struct spot_call c = { .in = &in, .now_us = INT64_C(784111777000000) };

	return call_retry_after_us(&c);
}

static void retry_after_is_seconds_or_a_date(void **state)
{
	struct spot_http_response none = { 0 };
	struct spot_call c = { .in = &none };

	(void)state;
	assert_int_equal(retry_after("120"), 120000000);
	assert_int_equal(retry_after("0"), 0);
	assert_int_equal(retry_after("-1"), 0);
	assert_int_equal(retry_after("soon"), 0);
	assert_int_equal(retry_after("99999999999"), 0);
	assert_int_equal(retry_after("Sun, 06 Nov 1994 08:50:37 GMT"), 60000000);
	assert_int_equal(retry_after("Sun, 06 Nov 1994 08:49:37 GMT"), 0);
	assert_int_equal(retry_after("Sun, 06 Nov 1994 08:48:37 GMT"), 0);
	assert_int_equal(retry_after("Sun, 06 Nox 1994 08:50:37 GMT"), 0);
	assert_int_equal(retry_after("Sun, 06 ovD 1994 08:50:37 GMT"), 0);
	assert_int_equal(retry_after("Sun, 36 Nov 1994 08:50:37 GMT"), 0);
	assert_int_equal(call_retry_after_us(&c), 0);
	c.in = NULL;
	assert_int_equal(call_retry_after_us(&c), 0);
}

static void a_broken_connection_leaves_only_changes_open(void **state)
{
	struct arena *a = arena_new(0);
	struct spot_call c = { .arena = a };

	(void)state;
	assert_int_equal(call_no_reply(&c, "acme", "list"), SPOT_AGAIN);
	assert_int_equal(c.err.rc, SPOT_UNAVAILABLE);
	assert_string_equal(c.err.text, "acme list: no reply");
	c.mutating = true;
	assert_int_equal(call_no_reply(&c, "acme", "launch"), SPOT_FAIL);
	assert_int_equal(c.err.rc, SPOT_UNKNOWN);
	assert_string_equal(c.err.text, "acme launch: no reply, it may have happened");
	arena_free(a);
}

static void bodies_that_are_no_object_are_bad_replies(void **state)
{
	static const char *const bad[] = { "", "{", "[]", "\"x\"", "null", NULL };
	struct arena *a = arena_new(0);
	struct spot_http_response in = { .status = 200 };
	struct spot_call c = { .arena = a, .in = &in };
	json_t *doc = NULL;

	(void)state;
	for (size_t i = 0; bad[i] != NULL; i++) {
		in.body = str_from(bad[i]);
		c.mutating = i == 0;
		assert_int_equal(call_json_object(&c, "acme", "list", &doc), SPOT_FAIL);
		assert_int_equal(c.err.rc, c.mutating ? SPOT_UNKNOWN : SPOT_BAD_REPLY);
		assert_non_null(strstr(c.err.text, "acme list: bad reply: "));
		assert_null(doc);
	}
	in.body = str_from("{\"n\":1}");
	assert_int_equal(call_json_object(&c, "acme", "list", &doc), SPOT_STEP_NONE);
	assert_int_equal(json_integer_value(json_object_get(doc, "n")), 1);
	json_decref(doc);
	arena_free(a);
}

static void unknown_codes_are_judged_by_their_class(void **state)
{
	static const struct {
		int status;
		bool mutating;
		const char *code, *words;
		enum spot_step step;
		enum spot_rc rc;
		const char *text;
	} cases[] = {
		{ 429, false, "", "", SPOT_AGAIN, SPOT_THROTTLED, "acme list: HTTP 429: no words" },
		{ 500, false, "Odd", "w", SPOT_AGAIN, SPOT_UNAVAILABLE, "acme list: HTTP 500: w" },
		{ 503, true, "Odd", "w", SPOT_AGAIN, SPOT_UNKNOWN, "acme list: HTTP 503: w" },
		{ 404, false, "", "w", SPOT_FAIL, SPOT_BAD_REPLY,
		    "acme list: bad reply: HTTP 404 without an error code" },
		{ 404, true, "", "w", SPOT_FAIL, SPOT_UNKNOWN,
		    "acme list: bad reply: HTTP 404 without an error code" },
		{ 401, false, "Odd", "w", SPOT_FAIL, SPOT_UNAUTHENTICATED, "acme list: Odd: w" },
		{ 403, false, "Odd", "", SPOT_FAIL, SPOT_DENIED, "acme list: Odd: no words" },
		{ 418, true, "Odd", "w", SPOT_FAIL, SPOT_INVALID, "acme list: Odd: w" },
		{ 302, false, "Odd", "w", SPOT_FAIL, SPOT_BAD_REPLY,
		    "acme list: bad reply: HTTP 302" },
	};
	struct arena *a = arena_new(0);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spot_http_response in = { .status = cases[i].status };
		struct spot_call c = { .arena = a, .in = &in, .mutating = cases[i].mutating };

		assert_int_equal(call_status_verdict(&c, "acme", "list", cases[i].code,
				     cases[i].words, 9),
		    cases[i].step);
		assert_int_equal(c.err.rc, cases[i].rc);
		assert_string_equal(c.err.text, cases[i].text);
		assert_int_equal(c.err.retry_after_us, cases[i].step == SPOT_AGAIN ? 9 : 0);
	}
	arena_free(a);
}

static void pages_end_and_do_not_go_round(void **state)
{
	struct arena *a = arena_new(0);
	const char *next = NULL;
	char token[] = "t1";
	size_t pages = 0;
	bool bad = true;

	(void)state;
	assert_false(call_next_page(a, NULL, 3, &next, &pages, &bad));
	assert_false(bad);
	assert_true(call_next_page(a, token, 3, &next, &pages, &bad));
	token[1] = '2';
	assert_string_equal(next, "t1"); /* kept, not pointed to */
	assert_false(call_next_page(a, "t1", 3, &next, &pages, &bad));
	assert_true(bad);
	pages = 0;
	assert_true(call_next_page(a, "t2", 3, &next, &pages, &bad));
	assert_true(call_next_page(a, "t3", 3, &next, &pages, &bad));
	assert_false(call_next_page(a, "t4", 3, &next, &pages, &bad));
	assert_true(bad);
	assert_false(call_next_page(a, "", 3, &next, &pages, &bad));
	assert_false(bad);
	assert_null(next);
	assert_int_equal(pages, 0);
	arena_free(a);
}

static void a_call_keeps_its_place_and_the_verbs_own(void **state)
{
	struct arena *a = arena_new(0);
	struct spot_call c = { .arena = a }, other = { .arena = a };
	struct call_state *st = call_state_get(&c, sizeof(int64_t));

	(void)state;
	assert_int_equal(st->at, 0);
	assert_int_equal(*(int64_t *)st->own, 0);
	*(int64_t *)st->own = 7;
	assert_ptr_equal(call_state_get(&c, sizeof(int64_t)), st);
	assert_int_equal(*(int64_t *)call_state_get(&c, sizeof(int64_t))->own, 7);
	assert_ptr_not_equal(call_state_get(&other, 0), st);
	assert_null(call_state_get(&other, 0)->own);
	arena_free(a);
}

static void a_time_too_far_ahead_has_come(void **state)
{
	(void)state;
	assert_false(call_due(100, 150, 60));
	assert_true(call_due(150, 150, 60));
	assert_true(call_due(200, 150, 60));
	assert_false(call_due(90, 150, 60));
	assert_true(call_due(89, 150, 60)); /* another clock wrote it */
}

static void prices_are_appended_with_the_time_of_the_call(void **state)
{
	struct arena *a = arena_new(0);
	struct spot_call c = { .arena = a, .now_us = 77 };
	struct spot_pool_info pools[20] = { { .key = { .region = "r" } } };
	struct price_points x = { 0 };

	(void)state;
	for (int i = 0; i < 20; i++) {
		pools[i].key.region = i % 2 == 0 ? "even" : "odd";
		price_point_add(&c, &x, &pools[i], 1000 + i, 50 + i, "feed");
	}
	assert_int_equal(x.n, 20);
	for (int i = 0; i < 20; i++) {
		assert_string_equal(x.items[i].key.region, i % 2 == 0 ? "even" : "odd");
		assert_int_equal(x.items[i].price_micros, 1000 + i);
		assert_int_equal(x.items[i].effective_us, 50 + i);
		assert_int_equal(x.items[i].observed_us, 77);
		assert_string_equal(x.items[i].source, "feed");
	}
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_copied_into_the_arena),
		cmocka_unit_test(verdicts_fill_the_error),
		cmocka_unit_test(a_key_of_ours_in_a_vendors_code_is_replaced),
		cmocka_unit_test(retry_after_is_seconds_or_a_date),
		cmocka_unit_test(a_broken_connection_leaves_only_changes_open),
		cmocka_unit_test(bodies_that_are_no_object_are_bad_replies),
		cmocka_unit_test(unknown_codes_are_judged_by_their_class),
		cmocka_unit_test(a_call_keeps_its_place_and_the_verbs_own),
		cmocka_unit_test(a_time_too_far_ahead_has_come),
		cmocka_unit_test(pages_end_and_do_not_go_round),
		cmocka_unit_test(prices_are_appended_with_the_time_of_the_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
