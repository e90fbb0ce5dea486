#include "base/base.h"
#include "aws_test.h"

#include "aws_int.h"

/* Signatures by the vendor's signer, the clock, presigned objects. */

/* Vectors made with botocore's SigV4Auth and S3SigV4QueryAuth at 2015-08-30T12:36:00Z; the order of
 * the query is ours, its signature does not depend on it. */
static void requests_carry_the_signature_of_the_vendors_signer(void **state)
{
	struct spot_launch a = { .key = { "aws", "us-east-1", "use1-az4", "g5.xlarge",
				     SPOT_MARKET_SPOT },
		.zone_name = "z",
		.token = "t",
		.install = "i" };
	static const char *const parameter[] = { "ami_parameter", "/x", NULL };
	struct drive d;

	(void)state;
	keyed_init(&d, parameter);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
		{ .method = "POST",
		    .url = "https://ssm.us-east-1.amazonaws.com/",
		    .body = "{\"Name\":\"/x\"}",
		    .headers = { "content-type: application/x-amz-json-1.1",
			"x-amz-target: AmazonSSM.GetParameter", "x-amz-date: 20150830T123600Z",
			"x-amz-security-token: SESSIONTOKENEXAMPLE",
			"authorization: "
			"SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-"
			"target, "
			"Signature="
			"f4f46a2c54fae1d8b981159a8ae5ec66fd287c43c0affc088d073ca47a152eb2" },
		    .status = 400,
		    .reply = "{\"__type\":\"ParameterNotFound\"}" }),
	    SPOT_CONFIG, "ParameterNotFound");
	drive_fini(&d);
}

#define REGIONS_OK "<DescribeRegionsResponse><regionInfo/></DescribeRegionsResponse>"

static void a_wrong_clock_is_taken_from_the_vendor_once(void **state)
{
	struct spot_regions a = { 0 };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_REGIONS, &a,
			     { .headers = { "x-amz-date: 20150830T123600Z" },
				 .status = 403,
				 .reply = EC2_XML("SignatureDoesNotMatch", "m"),
				 .reply_headers = { "Date: Sun, 30 Aug 2015 12:56:00 GMT" } },
			     { .headers = { "x-amz-date: 20150830T125600Z" },
				 .status = 200,
				 .reply = REGIONS_OK }),
	    SPOT_DONE);
	assert_int_equal(d.agains, 1);
	/* It stays corrected. */
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_REGIONS, &a,
			     { .headers = { "x-amz-date: 20150830T125600Z" },
				 .status = 200,
				 .reply = REGIONS_OK }),
	    SPOT_DONE);
	/* Twice in one call is something else than the clock. */
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_REGIONS, &a,
		{ .status = 403,
		    .reply = EC2_XML("RequestTimeTooSkewed", "m"),
		    .reply_headers = { "Date: Sun, 30 Aug 2015 11:56:00 GMT" } },
		{ .headers = { "x-amz-date: 20150830T115600Z" },
		    .status = 403,
		    .reply = EC2_XML("RequestTimeTooSkewed", "m"),
		    .reply_headers = { "Date: Sun, 30 Aug 2015 10:00:00 GMT" } }),
	    SPOT_UNAUTHENTICATED, "RequestTimeTooSkewed");
	drive_fini(&d);
}

static void wrong_keys_are_not_taken_for_a_wrong_clock(void **state)
{
	static const char *const dates[] = { "Date: Sun, 30 Aug 2015 12:37:00 GMT",
		"Date: nonsense", "X: y" };
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(dates); i++) {
		struct drive_try t = { .status = 401,
			.reply = EC2_XML("AuthFailure", "not able to validate"),
			.reply_headers = { dates[i] } };
		struct spot_regions a = { 0 };
		struct drive d;

		keyed_init(&d, NULL);
		d.cycle = true; /* the keys are looked up again, and again they are refused */
		drive_script(&d, &t, 1);
		failed_with(&d, drive_run(&d, DRIVE_REGIONS, &a), SPOT_UNAUTHENTICATED,
		    "not able to validate");
		assert_int_equal(d.reauths, 1);
		drive_fini(&d);
	}
}

/* ---- presigned objects ----------------------------------------------------------------------- */

static enum spot_rc url_presign(struct drive *d, struct spot_presign *a, struct spot_err *err)
{
	memset(err, 0, sizeof(*err));
	return aws_ops.presign(d->self, d->arena, d->now_us, a, err);
}

static void objects_are_presigned_like_the_vendors_signer_does(void **state)
{
	static const struct {
		const char *method, *bucket, *key, *query, *region, *url;
	} cases[] = {
		{ "PUT", "ckpt-bucket", "jobs/41/step 10/model+1.bin", "", "eu-west-1",
		    "https://ckpt-bucket.s3.eu-west-1.amazonaws.com/jobs/41/step%2010/"
		    "model%2B1.bin?X"
		    "-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20150830%2Feu-"
		    "wes"
		    "t-1%2Fs3%2Faws4_request&X-Amz-Date=20150830T123600Z&X-Amz-Expires=900&X-Amz-"
		    "Secu"
		    "rity-Token=SESSIONTOKENEXAMPLE&X-Amz-SignedHeaders=host&X-Amz-Signature="
		    "da562666"
		    "a51947f32f7b2f4d874e94370dc284bd5c503eaef91f014ca87a7034" },
		{ "POST", "ckpt-bucket", "jobs/41/x", "uploads=", "us-east-1",
		    "https://ckpt-bucket.s3.us-east-1.amazonaws.com/jobs/41/"
		    "x?X-Amz-Algorithm=AWS4-HM"
		    "AC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20150830%2Fus-east-1%2Fs3%2Faws4_"
		    "reques"
		    "t&X-Amz-Date=20150830T123600Z&X-Amz-Expires=900&X-Amz-Security-Token="
		    "SESSIONTOKE"
		    "NEXAMPLE&X-Amz-SignedHeaders=host&uploads=&X-Amz-Signature="
		    "188b089c69286856c33a3"
		    "74243f896151fbbcec893ba0d0c0b01c8e936252b5f" },
		{ "GET", "dotted.bucket", "a/b", "", "",
		    "https://s3.us-east-1.amazonaws.com/dotted.bucket/a/"
		    "b?X-Amz-Algorithm=AWS4-HMAC-S"
		    "HA256&X-Amz-Credential=AKIDEXAMPLE%2F20150830%2Fus-east-1%2Fs3%2Faws4_request&"
		    "X-"
		    "Amz-Date=20150830T123600Z&X-Amz-Expires=900&X-Amz-Security-Token="
		    "SESSIONTOKENEXA"
		    "MPLE&X-Amz-SignedHeaders=host&X-Amz-Signature="
		    "8fb8960c2d0a1c4426f3acd507a9c27aea"
		    "434c0d4a2be3c75810699d44166b10" },
	};
	struct spot_err err;
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spot_presign a = { .method = cases[i].method,
			.endpoint = "",
			.region = cases[i].region,
			.bucket = cases[i].bucket,
			.key = cases[i].key,
			.query = cases[i].query,
			.expires_s = 900 };

		assert_int_equal(url_presign(&d, &a, &err), SPOT_OK);
		assert_string_equal(a.url, cases[i].url);
	}
	drive_fini(&d);
}

static void own_object_stores_are_addressed_by_path(void **state)
{
	static const char *const settings[] = { "endpoint", "http://127.0.0.1:4566", NULL };
	struct spot_presign a = { .method = "PUT",
		.endpoint = "",
		.region = "us-east-1",
		.bucket = "ckpt",
		.key = "k",
		.query = "",
		.expires_s = 60 };
	struct spot_err err;
	struct drive d;

	(void)state;
	keyed_init(&d, settings);
	assert_int_equal(url_presign(&d, &a, &err), SPOT_OK);
	assert_true(str_prefix(a.url, "http://127.0.0.1:4566/ckpt/k?"));
	a.endpoint = "https://objects.example.test/";
	assert_int_equal(url_presign(&d, &a, &err), SPOT_OK);
	assert_true(str_prefix(a.url, "https://objects.example.test/ckpt/k?"));
	assert_null(strstr(a.url, golden_env[3]));
	drive_fini(&d);
}

/* The keys of a role's session: the store honours nothing that they signed when they have ended, by
 * its clock. */
static void objects_signed_by_a_session_end_with_it(void **state)
{
	struct spot_presign a = { .method = "GET",
		.endpoint = "",
		.region = "us-east-1",
		.bucket = "ckpt",
		.key = "k",
		.query = "",
		.expires_s = 3600 };
	struct spot_err err;
	struct drive d;
	struct aws *self;

	(void)state;
	keyed_init(&d, NULL);
	self = d.self;
	assert_int_equal(url_presign(&d, &a, &err), SPOT_OK);
	assert_int_equal(a.until_us, 0);
	self->keys.expires_us = d.now_us + 40 * 60 * SPOT_US_PER_S;
	self->skew_us = 7 * SPOT_US_PER_S;
	assert_int_equal(url_presign(&d, &a, &err), SPOT_OK);
	assert_int_equal(a.until_us, d.now_us + 40 * 60 * SPOT_US_PER_S - 7 * SPOT_US_PER_S);
	drive_fini(&d);
}

static void bad_presign_requests_are_refused(void **state)
{
	static const struct spot_presign cases[] = {
		{ .method = "TRACE", .bucket = "ckpt", .key = "k", .expires_s = 60 },
		{ .method = "GET", .bucket = "Ckpt", .key = "k", .expires_s = 60 },
		{ .method = "GET", .bucket = "a/b", .key = "k", .expires_s = 60 },
		{ .method = "GET", .bucket = "ckpt", .key = "", .expires_s = 60 },
		{ .method = "GET", .bucket = "ckpt", .key = "k", .expires_s = 0 },
		{ .method = "GET", .bucket = "ckpt", .key = "k", .expires_s = 604801 },
		{ .method = "GET", .bucket = "ckpt", .key = "k", .expires_s = 60, .region = "x y" },
	};
	struct spot_presign a = { .method = "GET", .bucket = "ckpt", .key = "k", .expires_s = 60 };
	struct spot_err err;
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spot_presign bad = cases[i];

		assert_int_equal(url_presign(&d, &bad, &err), SPOT_INVALID);
		assert_null(bad.url);
	}
	drive_fini(&d);
	drive_init(&d, &aws_ops, NULL, NULL);
	assert_int_equal(url_presign(&d, &a, &err), SPOT_UNAUTHENTICATED);
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_carry_the_signature_of_the_vendors_signer),
		cmocka_unit_test(a_wrong_clock_is_taken_from_the_vendor_once),
		cmocka_unit_test(wrong_keys_are_not_taken_for_a_wrong_clock),
		cmocka_unit_test(objects_are_presigned_like_the_vendors_signer_does),
		cmocka_unit_test(own_object_stores_are_addressed_by_path),
		cmocka_unit_test(objects_signed_by_a_session_end_with_it),
		cmocka_unit_test(bad_presign_requests_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
