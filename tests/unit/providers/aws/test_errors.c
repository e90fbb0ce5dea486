#include "base/base.h"
#include "aws_test.h"

#include "aws_int.h"

/* Each error code of the vendor leads to its verdict; an unknown code goes by HTTP class. */

static struct spot_launch launch_args(void)
{
	return (struct spot_launch){ .key = { "aws", "us-east-1", "use1-az4", "g5.xlarge",
					 SPOT_MARKET_SPOT },
		.zone_name = "us-east-1a",
		.shape = { .arch = "x86_64" },
		.token = "t-1",
		.name = "n",
		.install = "i" };
}

static const char *const ami[] = { "ami", "ami-1", NULL };

/* Returns RunInstances' verdict on one reply. */
static enum spot_step launch_reply(struct drive *d, int status, const char *body)
{
	struct drive_try t = { .status = status, .reply = body };
	struct spot_launch a = launch_args();

	d->agains_max = 0;
	d->cycle = true; /* after REAUTH the same answer again */
	drive_script(d, &t, 1);
	return drive_run(d, DRIVE_LAUNCH, &a);
}

static enum spot_rc expected_rc(const struct aws_code *e)
{
	return e->how == AWS_AGAIN && e->rc == SPOT_UNAVAILABLE ? SPOT_UNKNOWN : e->rc;
}

static void every_code_of_the_table_has_its_verdict(void **state)
{
	(void)state;
	for (size_t i = 0; i < aws_codes_n; i++) {
		const struct aws_code *e = &aws_codes[i];
		int status = strcmp(e->code, "InsufficientInstanceCapacity") == 0 ? 500 : 400;
		struct drive d;
		const char *body;
		enum spot_step s;

		keyed_init(&d, ami);
		body = arena_printf(d.arena, EC2_XML("%s", "words of the vendor"), e->code);
		s = launch_reply(&d, status, body);
		failed_with(&d, s, expected_rc(e), "words of the vendor");
		assert_string_equal(d.call.err.code, e->code);
		assert_int_equal(d.agains, e->how == AWS_AGAIN);
		assert_int_equal(d.reauths,
		    e->how == AWS_REAUTH || e->how == AWS_KEYS || e->how == AWS_EXPIRED);
		drive_fini(&d);
	}
}

static void codes_are_in_the_table_once(void **state)
{
	(void)state;
	for (size_t i = 0; i < aws_codes_n; i++) {
		assert_ptr_equal(aws_code_find(aws_codes[i].code, ""), &aws_codes[i]);
		assert_int_not_equal(aws_codes[i].rc, SPOT_OK);
		assert_true(aws_codes[i].how >= AWS_FAIL && aws_codes[i].how <= AWS_EXPIRED);
	}
	assert_null(aws_code_find("Nothing", ""));
	assert_non_null(aws_code_find("Server.InsufficientInstanceCapacity", ""));
}

/* The verdicts on the codes that the broker's behaviour rests on (providers/aws/README.md). */
static void the_codes_that_matter_most(void **state)
{
	static const struct {
		const char *code;
		int status;
		enum spot_rc rc;
		int agains;
	} cases[] = {
		{ "InsufficientInstanceCapacity", 500, SPOT_NO_CAPACITY, 0 },
		{ "UnfulfillableCapacity", 400, SPOT_NO_CAPACITY, 0 },
		{ "SpotMaxPriceTooLow", 400, SPOT_PRICE_CAP, 0 },
		{ "MaxSpotInstanceCountExceeded", 400, SPOT_QUOTA, 0 },
		{ "VcpuLimitExceeded", 400, SPOT_QUOTA, 0 },
		{ "Unsupported", 400, SPOT_NOT_OFFERED, 0 },
		{ "RequestLimitExceeded", 503, SPOT_THROTTLED, 1 },
		{ "IdempotentParameterMismatch", 400, SPOT_MISMATCH, 0 },
		{ "IdempotentInstanceTerminated", 400, SPOT_GONE, 0 },
		{ "InvalidAMIID.NotFound", 400, SPOT_CONFIG, 0 },
		{ "InvalidUserData.Malformed", 400, SPOT_INVALID, 0 },
		{ "UnauthorizedOperation", 403, SPOT_DENIED, 0 },
		{ "AuthFailure.ServiceLinkedRoleCreationNotPermitted", 403, SPOT_DENIED, 0 },
		{ "InternalError", 500, SPOT_UNKNOWN, 1 },
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct drive d;

		keyed_init(&d, ami);
		failed_with(&d,
		    launch_reply(&d, cases[i].status,
			arena_printf(d.arena, EC2_XML("%s", "m"), cases[i].code)),
		    cases[i].rc, cases[i].code);
		assert_int_equal(d.agains, cases[i].agains);
		drive_fini(&d);
	}
}

static void a_new_instance_profile_is_waited_for(void **state)
{
	struct drive d;

	(void)state;
	keyed_init(&d, ami);
	failed_with(&d,
	    launch_reply(&d, 400,
		EC2_XML("InvalidParameterValue",
		    "Value (x) for parameter iamInstanceProfile.name "
		    "is invalid. Invalid IAM Instance Profile name")),
	    SPOT_CONFIG, "Invalid IAM Instance Profile");
	assert_int_equal(d.agains, 1);
	assert_int_equal(d.waited_us, 10 * SPOT_US_PER_S);
	drive_fini(&d);
}

static void unknown_codes_go_by_http_class(void **state)
{
	static const struct {
		int status;
		const char *body;
		enum spot_rc rc;
		int agains;
	} cases[] = {
		{ 400, EC2_XML("SomethingNew", "m"), SPOT_INVALID, 0 },
		{ 401, EC2_XML("SomethingNew", "m"), SPOT_UNAUTHENTICATED, 0 },
		{ 403, EC2_XML("SomethingNew", "m"), SPOT_DENIED, 0 },
		{ 429, "", SPOT_THROTTLED, 1 },
		{ 500, EC2_XML("SomethingNew", "m"), SPOT_UNKNOWN, 1 },
		{ 502, "<html>bad gateway</html>", SPOT_UNKNOWN, 1 },
		{ 503, "", SPOT_UNKNOWN, 1 },
		{ 400, "", SPOT_UNKNOWN, 0 }, /* unknown sender: it may have happened */
		{ 404, "not found", SPOT_UNKNOWN, 0 },
		{ 302, "", SPOT_UNKNOWN, 0 },
		{ 200, "", SPOT_UNKNOWN, 0 }, /* launched, but the reply is unreadable */
		{ 200, "<RunInstancesResponse><instancesSet>", SPOT_UNKNOWN, 0 },
		{ 200, "<RunInstancesResponse/>", SPOT_UNKNOWN, 0 },
		{ 200, "<SomethingElse/>", SPOT_UNKNOWN, 0 },
		{ 200, "{\"json\":1}", SPOT_UNKNOWN, 0 },
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct drive d;

		keyed_init(&d, ami);
		failed_with(&d, launch_reply(&d, cases[i].status, cases[i].body), cases[i].rc,
		    "RunInstances");
		assert_int_equal(d.agains, cases[i].agains);
		drive_fini(&d);
	}
}

/* The same on a call that changes nothing. */
static void reading_calls_say_bad_reply_where_creating_ones_say_unknown(void **state)
{
	static const struct {
		int status;
		const char *body;
		enum spot_rc rc;
	} cases[] = {
		{ 200, "", SPOT_BAD_REPLY },
		{ 200, "<DescribeRegionsResponse/>", SPOT_BAD_REPLY },
		{ 200, "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>", SPOT_BAD_REPLY },
		{ 400, "nonsense", SPOT_BAD_REPLY },
		{ 500, "", SPOT_UNAVAILABLE },
		{ 503, EC2_XML("Unavailable", "m"), SPOT_UNAVAILABLE },
		{ 0, NULL, SPOT_UNAVAILABLE },
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct drive_try t = { .status = cases[i].status,
			.reply = cases[i].body,
			.mutating = -1 };
		struct spot_regions a = { 0 };
		struct drive d;

		keyed_init(&d, NULL);
		d.agains_max = 0;
		drive_script(&d, &t, 1);
		failed_with(&d, drive_run(&d, DRIVE_REGIONS, &a), cases[i].rc, "DescribeRegions");
		drive_fini(&d);
	}
}

static void json_errors_are_read_from_header_and_body(void **state)
{
	static const struct {
		const char *header, *body, *code;
		enum spot_rc rc;
	} cases[] = {
		{ NULL, "{\"__type\":\"ParameterNotFound\"}", "ParameterNotFound", SPOT_CONFIG },
		{ NULL, "{\"__type\":\"com.amazonaws.ssm#ParameterNotFound\",\"message\":\"m\"}",
		    "ParameterNotFound", SPOT_CONFIG },
		{ "x-amzn-ErrorType: AccessDeniedException:http://internal.amazon.com/",
		    "{\"Message\":\"m\"}", "AccessDeniedException", SPOT_DENIED },
		{ "x-amzn-errortype: ThrottlingException", "", "ThrottlingException",
		    SPOT_THROTTLED },
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct drive_try t = { .method = "POST",
			.url = "https://ssm.us-east-1.amazonaws.com/",
			.status = 400,
			.reply = cases[i].body,
			.reply_headers = { cases[i].header } };
		struct spot_launch a = launch_args();
		struct drive d;

		keyed_init(&d, NULL);
		d.agains_max = 0;
		drive_script(&d, &t, 1);
		failed_with(&d, drive_run(&d, DRIVE_LAUNCH, &a), cases[i].rc, NULL);
		assert_string_equal(d.call.err.code, cases[i].code);
		drive_fini(&d);
	}
}

static void throttles_are_repeated_with_the_same_bytes(void **state)
{
	struct spot_launch a = launch_args();
	struct drive d;

	(void)state;
	keyed_init(&d, ami);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .has = { "ClientToken=t-1" },
				 .mutating = 1,
				 .limit = "RunInstances",
				 .limit_scope = "us-east-1",
				 .headers = { "x-amz-date: 20150830T123600Z" },
				 .status = 503,
				 .reply_headers = { "Retry-After: 3" },
				 .reply = EC2_XML("RequestLimitExceeded", "m"),
				 .later_us = 5 * SPOT_US_PER_S },
			     { .has = { "ClientToken=t-1" },
				 .headers = { "x-amz-date: 20150830T123605Z" },
				 .status = 500,
				 .reply = EC2_XML("InternalError", "m") },
			     { .has = { "ClientToken=t-1" },
				 .status = 200,
				 .reply = "<RunInstancesResponse><instancesSet><item><instanceId>i-"
					  "1</instanceId></item></instancesSet>"
					  "</RunInstancesResponse>" }),
	    SPOT_DONE);
	assert_string_equal(a.instance.ref, "i-1");
	assert_int_equal(d.agains, 2);
	assert_int_equal(d.waited_us, 3 * SPOT_US_PER_S);
	drive_fini(&d);
}

static void secrets_and_blobs_stay_out_of_the_words(void **state)
{
	struct drive d;

	(void)state;
	keyed_init(&d, ami);
	failed_with(&d,
	    launch_reply(&d, 403,
		EC2_XML("UnauthorizedOperation",
		    "You are not authorized. Encoded authorization "
		    "failure message: aGVsbG8gd29ybGQ")),
	    SPOT_DENIED, "You are not authorized.");
	assert_null(strstr(d.call.err.text, "aGVsbG8"));
	failed_with(&d,
	    launch_reply(&d, 403,
		EC2_XML("SignatureDoesNotMatch",
		    "The request signature does not match. The Canonical String for this request "
		    "should have been 'POST\n"
		    "x-amz-security-token:SESSIONTOKENEXAMPLE'")),
	    SPOT_UNAUTHENTICATED, "does not match");
	assert_null(strstr(d.call.err.text, "SESSIONTOKEN"));
	failed_with(&d,
	    launch_reply(&d, 400,
		EC2_XML("SomethingNew",
		    "token SESSIONTOKENEXAMPLE key "
		    "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY line&#10;break")),
	    SPOT_INVALID, "line break");
	assert_null(strstr(d.call.err.text, "wJalr"));
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_code_of_the_table_has_its_verdict),
		cmocka_unit_test(codes_are_in_the_table_once),
		cmocka_unit_test(the_codes_that_matter_most),
		cmocka_unit_test(a_new_instance_profile_is_waited_for),
		cmocka_unit_test(unknown_codes_go_by_http_class),
		cmocka_unit_test(reading_calls_say_bad_reply_where_creating_ones_say_unknown),
		cmocka_unit_test(json_errors_are_read_from_header_and_body),
		cmocka_unit_test(throttles_are_repeated_with_the_same_bytes),
		cmocka_unit_test(secrets_and_blobs_stay_out_of_the_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
