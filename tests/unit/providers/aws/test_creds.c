#include "base/base.h"
#include "creds_test.h"

/*
 * The credential chain: which source wins, how each is asked. The signature's key id of a
 * GetCallerIdentity call shows the credentials in use.
 */

/* ---- order ----------------------------------------------------------------------------------- */

static void the_environment_goes_first(void **state)
{
	struct drive d;

	(void)state;
	drive_init(&d, &aws_ops,
	    ENV("AWS_ACCESS_KEY_ID", "AKENV", "AWS_SECRET_ACCESS_KEY", "s", "AWS_ROLE_ARN", "arn:x",
		"AWS_WEB_IDENTITY_TOKEN_FILE", "/t", "AWS_PROFILE", "p"),
	    NULL);
	assert_int_equal(drive_run(&d, DRIVE_AUTH, NULL), SPOT_DONE);
	assert_string_equal(key_in_use(&d), "AKENV");
	assert_true(aws_ops.auth_fresh(d.self, INT64_MAX / 2));
	drive_fini(&d);
}

static void an_explicit_profile_goes_before_the_environment(void **state)
{
	static const char *const settings[] = { "profile", "p", NULL };
	struct drive d;

	(void)state;
	drive_init(&d, &aws_ops,
	    ENV("AWS_ACCESS_KEY_ID", "AKENV", "AWS_SECRET_ACCESS_KEY", "s", "AWS_ROLE_ARN", "arn:x",
		"AWS_WEB_IDENTITY_TOKEN_FILE", "/t"),
	    settings);
	assert_int_equal(AUTH(&d,
			     FILES("", "[p]\naws_access_key_id=AKFILE\naws_secret_access_key=s\n")),
	    SPOT_DONE);
	assert_string_equal(key_in_use(&d), "AKFILE");
	drive_fini(&d);
}

/* A line break in a key id would end the header that it goes into. */
static void keys_that_cannot_be_headers_are_refused_without_quoting_them(void **state)
{
	struct drive d;

	(void)state;
	drive_init(&d, &aws_ops,
	    ENV("AWS_ACCESS_KEY_ID", "AK\r\nx-evil: 1", "AWS_SECRET_ACCESS_KEY", "s"), NULL);
	assert_int_equal(drive_run(&d, DRIVE_AUTH, NULL), SPOT_FAIL);
	assert_int_equal(d.call.err.rc, SPOT_CONFIG);
	assert_null(strstr(d.call.err.text, "evil"));
	drive_fini(&d);
	drive_init(&d, &aws_ops,
	    ENV("AWS_ACCESS_KEY_ID", "AK", "AWS_SECRET_ACCESS_KEY", "s", "AWS_SESSION_TOKEN",
		"a b"),
	    NULL);
	assert_int_equal(drive_run(&d, DRIVE_AUTH, NULL), SPOT_FAIL);
	assert_int_equal(d.call.err.rc, SPOT_CONFIG);
	drive_fini(&d);
}

static void a_role_of_the_profile_goes_before_web_identity(void **state)
{
	struct drive d;

	(void)state;
	drive_init(&d, &aws_ops, ENV("AWS_ROLE_ARN", "arn:x", "AWS_WEB_IDENTITY_TOKEN_FILE", "/t"),
	    NULL);
	assert_int_equal(AUTH(&d,
			     FILES("[default]\nrole_arn=arn:role\nsource_profile=base\n",
				 "[base]\naws_access_key_id=AKBASE\naws_secret_access_key=s\n"),
			     { .url = STS,
				 .headers = { "authorization: "
					      "Credential=AKBASE/20150830/us-east-1/sts/" },
				 .has = { "Action=AssumeRole&", "RoleArn=arn%3Arole",
				     "RoleSessionName=spotbroker-", "DurationSeconds=3600" },
				 .hasnt = { "ExternalId" },
				 .mutating = -1,
				 .limit = "sts",
				 .status = 200,
				 .reply = STS_KEYS("AssumeRole", "AKROLE", LATER) }),
	    SPOT_DONE);
	assert_string_equal(key_in_use(&d), "AKROLE");
	drive_fini(&d);
}

static void web_identity_goes_before_keys_of_a_profile(void **state)
{
	struct drive d;

	(void)state;
	drive_init(&d, &aws_ops,
	    ENV("AWS_ROLE_ARN", "arn:x", "AWS_WEB_IDENTITY_TOKEN_FILE", "/t", "AWS_REGION",
		"eu-west-3"),
	    NULL);
	assert_int_equal(AUTH(&d,
			     FILES("",
				 "[default]\naws_access_key_id=AKFILE\naws_secret_access_key=s\n"),
			     { .read = "/t", .status = 200, .reply = "web-identity-token\n" },
			     { .url = "https://sts.eu-west-3.amazonaws.com/",
				 .headers = { "!authorization", "!x-amz-security-token" },
				 .has = { "Action=AssumeRoleWithWebIdentity&",
				     "WebIdentityToken=web-identity-token&" },
				 .status = 200,
				 .reply = STS_KEYS("AssumeRoleWithWebIdentity", "AKWEB", LATER) }),
	    SPOT_DONE);
	assert_string_equal(key_in_use(&d), "AKWEB");
	drive_fini(&d);
}

static void the_credentials_file_goes_before_the_config_file(void **state)
{
	struct drive d;

	(void)state;
	drive_init(&d, &aws_ops, ENV("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x"), NULL);
	assert_int_equal(AUTH(&d,
			     FILES("[default]\naws_access_key_id=AKCONF\naws_secret_access_key=s\n",
				 "; a comment\n[default]\naws_access_key_id = AKFILE "
				 "\naws_secret_access_key = s\n")),
	    SPOT_DONE);
	assert_string_equal(key_in_use(&d), "AKFILE");
	assert_int_equal(AUTH(&d,
			     FILES("[default]\naws_access_key_id=AKCONF\naws_secret_access_key=s\n",
				 "")),
	    SPOT_DONE);
	assert_string_equal(key_in_use(&d), "AKCONF");
	drive_fini(&d);
}

static void containers_go_before_instance_metadata(void **state)
{
	struct drive d;

	(void)state;
	drive_init(&d, &aws_ops,
	    ENV("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/creds?id=1",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN", "Basic abcdefgh"),
	    NULL);
	assert_int_equal(AUTH(&d, FILES_EMPTY,
			     { .method = "GET",
				 .url = "http://169.254.170.2/v2/creds?id=1",
				 .headers = { "authorization: Basic abcdefgh" },
				 .status = 200,
				 .reply = JSON_KEYS("AKCONT", LATER) }),
	    SPOT_DONE);
	assert_string_equal(key_in_use(&d), "AKCONT");
	drive_fini(&d);
}

static void instance_metadata_is_last(void **state)
{
	struct drive d;

	(void)state;
	drive_init(&d, &aws_ops, ENV("X", "y"), NULL);
	assert_int_equal(AUTH(&d, FILES_EMPTY,
			     { .method = "PUT",
				 .url = META "/api/token",
				 .headers = { "x-aws-ec2-metadata-token-ttl-seconds: 21600" },
				 .status = 200,
				 .reply = "meta-token" },
			     { .method = "GET",
				 .url = META_ROLE,
				 .headers = { "x-aws-ec2-metadata-token: meta-token" },
				 .status = 200,
				 .reply = "the-role\n" },
			     { .method = "GET",
				 .url = META_ROLE "the-role",
				 .headers = { "x-aws-ec2-metadata-token: meta-token" },
				 .status = 200,
				 .reply = JSON_KEYS("AKMETA", LATER) }),
	    SPOT_DONE);
	assert_string_equal(key_in_use(&d), "AKMETA");
	drive_fini(&d);
}

static void nothing_anywhere_is_said_in_words(void **state)
{
	struct drive d;

	(void)state;
	drive_init(&d, &aws_ops, ENV(NO_METADATA), NULL);
	failed_with(&d, AUTH(&d, FILES_EMPTY), SPOT_CONFIG, "no credentials");
	failed_with(&d, AUTH(&d, FILES("[default]\nsso_session=x\n", "")), SPOT_CONFIG,
	    "sso_session");
	drive_fini(&d);
	drive_init(&d, &aws_ops, ENV("X", "y"), NULL);
	failed_with(&d, AUTH(&d, FILES("[default]\ncredential_process=/bin/x\n", "")), SPOT_CONFIG,
	    "credential_process");
	failed_with(&d, AUTH(&d, FILES_EMPTY, { .url = META "/api/token", .status = 404 }),
	    SPOT_CONFIG, "version 2");
	failed_with(&d,
	    AUTH(&d, FILES_EMPTY, { .url = META "/api/token", .status = 200, .reply = "t1234567" },
		{ .url = META_ROLE, .status = 404 }),
	    SPOT_CONFIG, "no role");
	drive_fini(&d);
}

/* ---- profiles -------------------------------------------------------------------------------- */

static void a_named_profile_must_exist(void **state)
{
	struct drive d;

	(void)state;
	drive_init(&d, &aws_ops, ENV("AWS_PROFILE", "p"), NULL);
	failed_with(&d, AUTH(&d, FILES("[p]\nregion=x\n", "[default]\naws_access_key_id=A\n")),
	    SPOT_CONFIG, "profile 'p'");
	drive_fini(&d);
}

static void roles_are_chained_from_the_innermost(void **state)
{
	struct drive d;

	(void)state;
	drive_init(&d, &aws_ops, ENV("AWS_PROFILE", "outer"), NULL);
	assert_int_equal(
	    AUTH(&d,
		FILES("[profile "
		      "outer]\nrole_arn=arn:outer\nsource_profile=inner\nrole_session_name="
		      "me\nduration_seconds=900\n"
		      "[profile "
		      "\"inner\"]\nrole_arn=arn:inner\nsource_profile=base\nexternal_id=e1\n",
		    "[base]\naws_access_key_id=AKBASE\naws_secret_access_key=s\naws_session_token="
		    "base-token\n"),
		{ .url = STS,
		    .headers = { "authorization: Credential=AKBASE/",
			"x-amz-security-token: base-token" },
		    .has = { "RoleArn=arn%3Ainner", "ExternalId=e1" },
		    .status = 200,
		    .reply = STS_KEYS("AssumeRole", "AKINNER", LATER) },
		{ .url = STS,
		    .headers = { "authorization: Credential=AKINNER/",
			"x-amz-security-token: token-of-AKINNER" },
		    .has = { "RoleArn=arn%3Aouter", "RoleSessionName=me&", "DurationSeconds=900" },
		    .status = 200,
		    .reply = STS_KEYS("AssumeRole", "AKOUTER", LATER) }),
	    SPOT_DONE);
	assert_string_equal(key_in_use(&d), "AKOUTER");
	drive_fini(&d);
}

static void a_role_may_start_from_metadata_environment_or_web_identity(void **state)
{
	struct drive d;

	(void)state;
	drive_init(&d, &aws_ops,
	    ENV("AWS_PROFILE", "p", "AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:9/"),
	    NULL);
	assert_int_equal(
	    AUTH(&d,
		FILES("[profile p]\nrole_arn=arn:p\ncredential_source=Ec2InstanceMetadata\n", ""),
		{ .url = "http://127.0.0.1:9/latest/api/token",
		    .status = 200,
		    .reply = "t1234567" },
		{ .url = "http://127.0.0.1:9/latest/meta-data/iam/security-credentials/",
		    .status = 200,
		    .reply = "r" },
		{ .status = 200, .reply = JSON_KEYS("AKMETA", LATER) },
		{ .headers = { "authorization: Credential=AKMETA/" },
		    .status = 200,
		    .reply = STS_KEYS("AssumeRole", "AKROLE", LATER) }),
	    SPOT_DONE);
	assert_string_equal(key_in_use(&d), "AKROLE");
	assert_int_equal(AUTH(&d,
			     FILES("[profile p]\nrole_arn=arn:p\nsource_profile=w\n"
				   "[profile w]\nrole_arn=arn:w\nweb_identity_token_file=~/tok\n",
				 ""),
			     { .read = "/h/tok", .status = 200, .reply = "jwt-jwt-jwt" },
			     { .has = { "RoleArn=arn%3Aw&" },
				 .status = 200,
				 .reply = STS_KEYS("AssumeRoleWithWebIdentity", "AKWEB", LATER) },
			     { .headers = { "authorization: Credential=AKWEB/" },
				 .status = 200,
				 .reply = STS_KEYS("AssumeRole", "AKROLE2", LATER) }),
	    SPOT_DONE);
	assert_string_equal(key_in_use(&d), "AKROLE2");
	drive_fini(&d);
}

static void broken_profiles_are_named(void **state)
{
	static const struct {
		const char *config, *words;
	} cases[] = {
		{ "[profile p]\nrole_arn=a\nsource_profile=q\n",
		    "source_profile 'q' does not exist" },
		{ "[profile p]\nrole_arn=a\nsource_profile=q\n[profile "
		  "q]\nrole_arn=b\nsource_profile=p\n",
		    "circles" },
		{ "[profile p]\nrole_arn=a\nsource_profile=q\ncredential_source=Environment\n",
		    "both" },
		{ "[profile p]\nrole_arn=a\nsource_profile=q\nmfa_serial=m\n[profile q]\n", "MFA" },
		{ "[profile p]\nrole_arn=a\ncredential_source=Environment\n", "gives nothing" },
		{ "[profile p]\naws_access_key_id=A\n", "aws_secret_access_key" },
		{ "[profile p]\nrole_arn=a\nsource_profile=q\n[profile q]\nregion=r\n",
		    "profile 'q' has no" },
	};
	struct drive d;

	(void)state;
	drive_init(&d, &aws_ops, ENV("AWS_PROFILE", "p"), NULL);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct drive_try script[] = { FILES(cases[i].config, "") };

		drive_script(&d, script, 2);
		failed_with(&d, drive_run(&d, DRIVE_AUTH, NULL), SPOT_CONFIG, cases[i].words);
	}
	failed_with(&d, AUTH(&d, { .read = "/h/.aws/config", .status = 403 }), SPOT_CONFIG,
	    "may not read");
	drive_fini(&d);
}

static void the_profile_gives_the_home_region_if_nothing_else_does(void **state)
{
	struct drive d;
	struct spot_regions a = { 0 };

	(void)state;
	drive_init(&d, &aws_ops, ENV("AWS_PROFILE", "p"), NULL);
	assert_int_equal(AUTH(&d,
			     FILES("[profile p]\nregion = cn-north-1\n",
				 "[p]\naws_access_key_id=AKFILE\naws_secret_access_key=s\n")),
	    SPOT_DONE);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_REGIONS, &a,
		{ .url = "https://ec2.cn-north-1.amazonaws.com.cn/",
		    .status = 400,
		    .reply = EC2_XML("InvalidAction", "m") }),
	    SPOT_INVALID, NULL);
	drive_fini(&d);
}

/* ---- sources: refusals ----------------------------------------------------------------------- */

static void containers_are_asked_only_where_keys_may_go_in_the_clear(void **state)
{
	static const struct {
		const char *uri;
		bool ok;
	} cases[] = {
		{ "https://vault.example.test/x", true },
		{ "http://127.0.0.1:51679/x", true },
		{ "http://localhost/x", true },
		{ "http://[::1]:80/x", true },
		{ "http://169.254.170.2/x", true },
		{ "http://169.254.170.23/x", true },
		{ "http://[fd00:ec2::23]/x", true },
		{ "http://example.test/x", false },
		{ "http://169.254.170.24/x", false },
		{ "http://127.0.0.1.example.test/x", false },
		{ "http://localhost@example.test/x", false },
		{ "file:///x", false },
		{ "http://169.254.170.2 x/", false },
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *env[] = { "HOME", "/h", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
			cases[i].uri, NULL };
		struct drive_try script[] = {
			FILES_EMPTY,
			{ .url = cases[i].uri, .status = 200, .reply = JSON_KEYS("AKCONT", LATER) }
		};
		struct drive d;

		drive_init(&d, &aws_ops, env, NULL);
		drive_script(&d, script, cases[i].ok ? 3 : 2);
		if (cases[i].ok) {
			assert_int_equal(drive_run(&d, DRIVE_AUTH, NULL), SPOT_DONE);
		} else {
			failed_with(&d, drive_run(&d, DRIVE_AUTH, NULL), SPOT_CONFIG, "FULL_URI");
		}
		drive_fini(&d);
	}
}

static void the_token_file_wins_and_must_be_one_line(void **state)
{
	struct drive d;

	(void)state;
	drive_init(&d, &aws_ops,
	    ENV("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1/credentials",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/tok",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN", "from-env"),
	    NULL);
	assert_int_equal(AUTH(&d, FILES_EMPTY,
			     { .read = "/tok", .status = 200, .reply = "from-file" },
			     { .headers = { "authorization: from-file" },
				 .status = 200,
				 .reply = JSON_KEYS("AKPOD", LATER) }),
	    SPOT_DONE);
	failed_with(&d,
	    AUTH(&d, FILES_EMPTY, { .read = "/tok", .status = 200, .reply = "a\r\nX-Evil: 1" }),
	    SPOT_CONFIG, "line breaks");
	failed_with(&d, AUTH(&d, FILES_EMPTY, { .read = "/tok", .status = 404 }), SPOT_CONFIG,
	    "cannot read /tok");
	drive_fini(&d);
}

static void replies_without_keys_are_refused_without_quoting_them(void **state)
{
	static const struct {
		const char *reply;
		enum spot_rc rc;
	} cases[] = {
		{ "{\"Code\":\"AssumeRoleUnauthorizedAccess\",\"Message\":\"m\"}",
		    SPOT_UNAUTHENTICATED },
		{ "{\"AccessKeyId\":\"AKX\",\"SecretAccessKey\":\"very-secret-value\","
		  "\"Expiration\":"
		  "\"soon\"}",
		    SPOT_BAD_REPLY },
		{ "{\"AccessKeyId\":\"AKX\",\"SecretAccessKey\":\"very-secret-value\"",
		    SPOT_BAD_REPLY },
		{ "{\"AccessKeyId\":\"AKX\",\"SecretAccessKey\":7}", SPOT_BAD_REPLY },
		{ "", SPOT_BAD_REPLY },
		{ "[]", SPOT_BAD_REPLY },
	};
	struct drive d;

	(void)state;
	drive_init(&d, &aws_ops, ENV("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x"), NULL);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct drive_try script[] = { FILES_EMPTY,
			{ .status = 200, .reply = cases[i].reply } };

		drive_script(&d, script, 3);
		failed_with(&d, drive_run(&d, DRIVE_AUTH, NULL), cases[i].rc,
		    "container credentials");
		assert_null(strstr(d.call.err.text, "very-secret"));
		assert_false(aws_ops.auth_fresh(d.self, d.now_us));
	}
	drive_fini(&d);
}

static void sts_errors_have_their_verdict(void **state)
{
#define STS_ERROR(code) \
	"<ErrorResponse><Error><Type>Sender</Type><Code>" code \
	"</Code><Message>m</Message></Error></ErrorResponse>"
	struct drive d;

	(void)state;
	drive_init(&d, &aws_ops, ENV("AWS_ROLE_ARN", "arn:x", "AWS_WEB_IDENTITY_TOKEN_FILE", "/t"),
	    NULL);
	failed_with(&d,
	    AUTH(&d, FILES_EMPTY, { .read = "/t", .status = 200, .reply = "jwt-jwt-jwt" },
		{ .status = 400, .reply = STS_ERROR("ExpiredTokenException") }),
	    SPOT_UNAUTHENTICATED, "ExpiredTokenException");
	failed_with(&d,
	    AUTH(&d, FILES_EMPTY, { .read = "/t", .status = 200, .reply = "jwt-jwt-jwt" },
		{ .status = 403, .reply = STS_ERROR("IDPRejectedClaim") }),
	    SPOT_UNAUTHENTICATED, NULL);
	failed_with(&d,
	    AUTH(&d, FILES_EMPTY, { .read = "/t", .status = 200, .reply = "jwt-jwt-jwt" },
		{ .status = 403, .reply = STS_ERROR("RegionDisabledException") }),
	    SPOT_DENIED, NULL);
	failed_with(&d,
	    AUTH(&d, FILES_EMPTY, { .read = "/t", .status = 200, .reply = "jwt-jwt-jwt" },
		{ .status = 200, .reply = "<AssumeRoleWithWebIdentityResponse/>" }),
	    SPOT_BAD_REPLY, "incomplete");
	/* Passing trouble is tried again, with the token it has. */
	assert_int_equal(AUTH(&d, FILES_EMPTY,
			     { .read = "/t", .status = 200, .reply = "jwt-jwt-jwt" },
			     { .status = 400, .reply = STS_ERROR("IDPCommunicationError") },
			     { .status = 503, .reply = "" },
			     { .has = { "jwt-jwt-jwt" },
				 .status = 200,
				 .reply = STS_KEYS("AssumeRoleWithWebIdentity", "AKWEB", LATER) }),
	    SPOT_DONE);
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_environment_goes_first),
		cmocka_unit_test(an_explicit_profile_goes_before_the_environment),
		cmocka_unit_test(keys_that_cannot_be_headers_are_refused_without_quoting_them),
		cmocka_unit_test(a_role_of_the_profile_goes_before_web_identity),
		cmocka_unit_test(web_identity_goes_before_keys_of_a_profile),
		cmocka_unit_test(the_credentials_file_goes_before_the_config_file),
		cmocka_unit_test(containers_go_before_instance_metadata),
		cmocka_unit_test(instance_metadata_is_last),
		cmocka_unit_test(nothing_anywhere_is_said_in_words),
		cmocka_unit_test(a_named_profile_must_exist),
		cmocka_unit_test(roles_are_chained_from_the_innermost),
		cmocka_unit_test(a_role_may_start_from_metadata_environment_or_web_identity),
		cmocka_unit_test(broken_profiles_are_named),
		cmocka_unit_test(the_profile_gives_the_home_region_if_nothing_else_does),
		cmocka_unit_test(containers_are_asked_only_where_keys_may_go_in_the_clear),
		cmocka_unit_test(the_token_file_wins_and_must_be_one_line),
		cmocka_unit_test(replies_without_keys_are_refused_without_quoting_them),
		cmocka_unit_test(sts_errors_have_their_verdict),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
