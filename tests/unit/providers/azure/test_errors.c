#include "base/base.h"
#include "azure_test.h"

/* The vendor's errors, told apart by code and message. */

static enum spot_rc verdict_on(struct drive *d, int status, const char *reply, const char *header)
{
	const struct drive_try t = { .status = status,
		.reply = reply,
		.reply_headers = { header } };
	const char *account;

	d->agains_max = 0;
	drive_script(d, &t, 1);
	assert_int_equal(drive_run(d, DRIVE_WHOAMI, &account), SPOT_FAIL);
	return d->call.err.rc;
}

static void one_code_two_meanings_by_its_message(void **state)
{
	static const struct {
		int status;
		const char *reply;
		enum spot_rc rc;
	} cases[] = {
		{ 409,
		    ERROR("OperationNotAllowed",
			"... exceeding approved LowPriorityCores quota ..."),
		    SPOT_QUOTA },
		{ 409,
		    ERROR("OperationNotAllowed", "exceeding approved Total Regional Cores Quota"),
		    SPOT_QUOTA },
		{ 409, ERROR("OperationNotAllowed", "please retry after 180 seconds"),
		    SPOT_UNAVAILABLE },
		{ 400, ERROR("NicReservedForAnotherVm", "m"), SPOT_UNAVAILABLE },
		{ 400, ERROR("SomethingLimitReached", "m"), SPOT_QUOTA },
		{ 409, ERROR("Conflict", "m"), SPOT_UNAVAILABLE },
		{ 403, ERROR("NeverHeardOf", "m"), SPOT_DENIED },
		{ 400, ERROR("NeverHeardOf", "m"), SPOT_INVALID },
		{ 503, ERROR("NeverHeardOf", "m"), SPOT_UNAVAILABLE },
		{ 429, ERROR("OperationNotAllowed", "quota of calls"), SPOT_THROTTLED },
		{ 429, "Too many requests", SPOT_THROTTLED },
		{ 502, "<html>Bad Gateway", SPOT_UNAVAILABLE },
		{ 404, "<html>", SPOT_BAD_REPLY },
		{ 302, "", SPOT_BAD_REPLY },
		{ 404, ERROR("SubscriptionNotFound", "m"), SPOT_CONFIG },
		{ 409, ERROR("MissingSubscriptionRegistration", "m"), SPOT_CONFIG },
		{ 409, ERROR("ReadOnlyDisabledSubscription", "m"), SPOT_DENIED },
		{ 409, ERROR("NeverHeardOf", "m"), SPOT_UNAVAILABLE },
		{ 408, ERROR("RequestTimeout", "m"), SPOT_UNAVAILABLE },
		{ 400, ERROR("InUseSubnetCannotBeDeleted", "m"), SPOT_UNAVAILABLE },
		{ 400, ERROR("ReferencedResourceNotProvisioned", "m"), SPOT_UNAVAILABLE },
		{ 403, ERROR("RequestDisallowedByAzure", "m"), SPOT_NOT_OFFERED },
	};
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		enum spot_rc rc = verdict_on(&d, cases[i].status, cases[i].reply, NULL);

		if (rc != cases[i].rc) {
			fail_msg("case %zu: %s: %s", i, spot_rc_name(rc), d.call.err.text);
		}
	}
	drive_fini(&d);
}

static void the_innermost_code_that_is_known_counts(void **state)
{
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(verdict_on(&d, 400,
			     "{\"error\":{\"code\":\"DeploymentFailed\",\"message\":\"outer\","
			     "\"details\":[{\"code\":\"Conflict\","
			     "\"message\":\"middle\",\"details\":[{\"code\":\"Odd\"},{\"code\":"
			     "\"ZonalAllocationFailed\",\"message\":"
			     "\"inner\"}]}]}}",
			     NULL),
	    SPOT_NO_CAPACITY);
	assert_string_equal(d.call.err.code, "ZonalAllocationFailed");
	assert_non_null(strstr(d.call.err.text, "inner"));
	assert_int_equal(verdict_on(&d, 400,
			     "{\"error\":{\"code\":\"BadRequest\",\"message\":\"outer\","
			     "\"innererror\":{\"code\":\"Odd\",\"innererror\":{\"code\":"
			     "\"SkuNotAvailable\",\"message\":\"inner\"}}}}",
			     NULL),
	    SPOT_NO_CAPACITY);
	/* a sure code on top is not overruled by one below it */
	assert_int_equal(verdict_on(&d, 403,
			     "{\"error\":{\"code\":\"RequestDisallowedByPolicy\",\"message\":"
			     "\"m\",\"details\":[{\"code\":"
			     "\"SkuNotAvailable\"}]}}",
			     NULL),
	    SPOT_DENIED);
	drive_fini(&d);
}

static void waits_are_taken_from_where_the_vendor_says_them(void **state)
{
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	verdict_on(&d, 429, "", "Retry-After: 17");
	assert_int_equal(d.call.err.retry_after_us, 17 * SPOT_US_PER_S);
	verdict_on(&d, 429, "", "x-ms-user-quota-resets-after: 00:01:03");
	assert_int_equal(d.call.err.retry_after_us, 63 * SPOT_US_PER_S);
	verdict_on(&d, 429, "", "x-ms-user-quota-resets-after: soon");
	assert_int_equal(d.call.err.retry_after_us, 0);
	verdict_on(&d, 400, ERROR("NicReservedForAnotherVm", "m"), NULL);
	assert_int_equal(d.call.err.retry_after_us, 180 * SPOT_US_PER_S);
	drive_fini(&d);
}

static void words_of_the_vendor_are_one_clean_line(void **state)
{
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	verdict_on(&d, 400, ERROR("InvalidParameter", "a\\nb\\u0007c Bearer " GOLDEN_TOKEN "  "),
	    NULL);
	assert_null(strstr(d.call.err.text, GOLDEN_TOKEN));
	assert_null(strchr(d.call.err.text, '\n'));
	assert_non_null(strstr(d.call.err.text, "a b c"));
	drive_fini(&d);
}

static void a_token_that_is_refused_is_renewed_once_whatever_the_body_says(void **state)
{
	static const char *const bodies[] = { ERROR("InvalidAuthenticationToken", "m"),
		ERROR("Strange", "m"), "" };
	const char *account;
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		const struct drive_try script[] = { { .status = 401, .reply = bodies[i] },
			{ .url = TOKEN_URL, .status = 200, .reply = TOKEN_OK("next") },
			{ .headers = { "Authorization: Bearer next" },
			    .status = 200,
			    .reply =
				"{\"subscriptionId\":\"" GOLDEN_SUB "\",\"displayName\":\"s\"}" } };

		drive_script(&d, script, 3);
		assert_int_equal(drive_run(&d, DRIVE_WHOAMI, &account), SPOT_DONE);
		assert_int_equal(d.reauths, 1);
	}
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_code_two_meanings_by_its_message),
		cmocka_unit_test(the_innermost_code_that_is_known_counts),
		cmocka_unit_test(waits_are_taken_from_where_the_vendor_says_them),
		cmocka_unit_test(words_of_the_vendor_are_one_clean_line),
		cmocka_unit_test(a_token_that_is_refused_is_renewed_once_whatever_the_body_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
