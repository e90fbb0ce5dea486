#include "base/base.h"
#include "creds_test.h"

/* Renewal of credentials: when, once per call, and the keys in use while it fails. */

static void keys_are_renewed_a_quarter_of_an_hour_early(void **state)
{
	struct drive d;
	const int64_t min = 60 * SPOT_US_PER_S;
	int64_t end;

	(void)state;
	drive_init(&d, &aws_ops, ENV("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x"), NULL);
	assert_false(aws_ops.auth_fresh(d.self, d.now_us));
	assert_int_equal(AUTH(&d, FILES_EMPTY,
			     { .status = 200, .reply = JSON_KEYS("AKONE", LATER) }),
	    SPOT_DONE);
	end = d.now_us + 60 * min;
	assert_true(aws_ops.auth_fresh(d.self, end - 16 * min));
	assert_false(aws_ops.auth_fresh(d.self, end - 14 * min));
	/* In the advisory time a failure keeps the old keys and pauses for a minute. */
	d.now_us = end - 14 * min;
	assert_int_equal(AUTH(&d, FILES_EMPTY, { .status = 404 }), SPOT_DONE);
	assert_true(aws_ops.auth_fresh(d.self, d.now_us));
	assert_false(aws_ops.auth_fresh(d.self, d.now_us + min));
	assert_string_equal(key_in_use(&d), "AKONE");
	/* After that it is one. */
	d.now_us = end - 9 * min;
	assert_false(aws_ops.auth_fresh(d.self, d.now_us));
	failed_with(&d, AUTH(&d, FILES_EMPTY, { .status = 404 }), SPOT_UNAUTHENTICATED, "HTTP 404");
	assert_int_equal(AUTH(&d, FILES_EMPTY,
			     { .status = 200,
				 .reply = JSON_KEYS("AKTWO", "2015-08-30T19:36:00Z") }),
	    SPOT_DONE);
	assert_string_equal(key_in_use(&d), "AKTWO");
	drive_fini(&d);
}

static void metadata_that_has_nothing_newer_is_good_for_a_while(void **state)
{
	struct drive d;
	const int64_t min = 60 * SPOT_US_PER_S;

	(void)state;
	drive_init(&d, &aws_ops, ENV("X", "y"), NULL);
	assert_int_equal(AUTH(&d, FILES_EMPTY, { .status = 200, .reply = "t1234567" },
			     { .status = 200, .reply = "r" },
			     { .status = 200,
				 .reply = JSON_KEYS("AKMETA", "2015-08-30T12:30:00Z") }),
	    SPOT_DONE);
	assert_true(aws_ops.auth_fresh(d.self, d.now_us + 1 * min));
	assert_false(aws_ops.auth_fresh(d.self, d.now_us + 11 * min));
	drive_fini(&d);
}

static void refused_keys_are_renewed_once_per_call(void **state)
{
	struct spot_regions a = { 0 };
	struct drive d;

	(void)state;
	drive_init(&d, &aws_ops, ENV("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x"), NULL);
	assert_int_equal(AUTH(&d, FILES_EMPTY,
			     { .status = 200, .reply = JSON_KEYS("AKONE", LATER) }),
	    SPOT_DONE);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_REGIONS, &a,
			     { .headers = { "authorization: Credential=AKONE/" },
				 .status = 400,
				 .reply = EC2_XML("RequestExpired", "Request has expired."),
				 .reply_headers = { "Date: Sun, 30 Aug 2015 12:36:01 GMT" } },
			     FILES_EMPTY, { .status = 200, .reply = JSON_KEYS("AKTWO", LATER) },
			     { .headers = { "authorization: Credential=AKTWO/" },
				 .status = 200,
				 .reply = "<DescribeRegionsResponse><regionInfo/></"
					  "DescribeRegionsResponse>" }),
	    SPOT_DONE);
	assert_int_equal(d.reauths, 1);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_REGIONS, &a,
		{ .status = 400, .reply = EC2_XML("ExpiredToken", "m") }, FILES_EMPTY,
		{ .status = 200, .reply = JSON_KEYS("AKTHREE", LATER) },
		{ .status = 400, .reply = EC2_XML("ExpiredToken", "m") }),
	    SPOT_UNAUTHENTICATED, "ExpiredToken");
	drive_fini(&d);
}

static void all_secrets_are_told_for_redaction(void **state)
{
	const char *secrets[8];
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(aws_ops.secrets(d.self, secrets, 8), 2);
	assert_string_equal(secrets[0], golden_env[3]);
	assert_string_equal(secrets[1], golden_env[5]);
	assert_int_equal(aws_ops.secrets(d.self, secrets, 1), 1);
	drive_fini(&d);
	aws_ops.close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_are_renewed_a_quarter_of_an_hour_early),
		cmocka_unit_test(metadata_that_has_nothing_newer_is_good_for_a_while),
		cmocka_unit_test(refused_keys_are_renewed_once_per_call),
		cmocka_unit_test(all_secrets_are_told_for_redaction),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
