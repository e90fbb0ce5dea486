/* Helpers of provider steps. */
#include "base/base.h"
#include "unit.h"

#include "base/call.h"

static void a_request_is_copied_into_the_arena(void **state)
{
	struct arena *a = arena_new(0);
	struct spot_call c = {.arena = a};
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
	struct spot_call c = {.arena = a};

	(void)state;
	assert_int_equal(call_fail(&c, SPOT_NO_CAPACITY, "InsufficientInstanceCapacity", "zone %s", "z1"), SPOT_FAIL);
	assert_int_equal(c.err.rc, SPOT_NO_CAPACITY);
	assert_string_equal(c.err.code, "InsufficientInstanceCapacity");
	assert_string_equal(c.err.text, "zone z1");
	assert_int_equal(call_again(&c, SPOT_THROTTLED, 7, c.err.code, "slow %s", c.err.text), SPOT_AGAIN);
	assert_string_equal(c.err.code, "InsufficientInstanceCapacity");
	assert_string_equal(c.err.text, "slow zone z1");
	assert_int_equal(c.err.retry_after_us, 7);
	call_fail(&c, SPOT_INVALID, NULL, "x");
	assert_string_equal(c.err.code, "");
	assert_int_equal(c.err.retry_after_us, 0);
	arena_free(a);
}

static int64_t retry_after(const char *value)
{
	struct spot_header h = {"Retry-After", value};
	struct spot_http_response in = {.headers = &h, .headers_n = 1};
	struct spot_call c = {.in = &in, .now_us = INT64_C(784111777000000)}; /* 1994-11-06T08:49:37Z */

	return call_retry_after_us(&c);
}

static void retry_after_is_seconds_or_a_date(void **state)
{
	struct spot_http_response none = {0};
	struct spot_call c = {.in = &none};

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_copied_into_the_arena),
		cmocka_unit_test(verdicts_fill_the_error),
		cmocka_unit_test(retry_after_is_seconds_or_a_date),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
