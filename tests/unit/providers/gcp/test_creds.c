#include "base/base.h"
#include "gcp_test.h"

/* Every source of credentials, refusals, and that nothing of a file gets into an error. */

#define FILE_ENV ((const char *const[]){ "GOOGLE_APPLICATION_CREDENTIALS", "/c.json", NULL })
#define TOKEN(t) "{\"access_token\":\"" t "\",\"expires_in\":3599,\"token_type\":\"Bearer\"}"

static void open_with(struct drive *d, const char *const *env, const char *const *settings)
{
	drive_init(d, &gcp_ops, env, settings != NULL ? settings : golden_settings);
	d->now_us = GOLDEN_NOW_US;
}

/* The token that a request now carries. */
static const char *in_use(struct drive *d)
{
	const char *account = NULL, *at;

	assert_int_equal(RUN_SCRIPT(d, DRIVE_WHOAMI, &account,
			     { .status = 200,
				 .reply =
				     "{\"kind\":\"compute#project\",\"name\":\"spot-golden\"}" }),
	    SPOT_DONE);
	at = strstr(drive_request_text(d), "Bearer ") + 7;
	return arena_strndup(d->arena, at, strcspn(at, "\n"));
}

static const char *key_file(struct arena *a, const char *token_uri)
{
	return arena_printf(a,
	    "{\"type\":\"service_account\",\"private_key_id\":\"k1\",\"private_key\":\"%s\","
	    "\"client_email\":\"%s\","
	    "\"token_uri\":\"%s\"}",
	    golden_key(a, true), GOLDEN_EMAIL, token_uri);
}

static void a_service_accounts_key_signs_a_token_for_its_own_token_uri(void **state)
{
	struct drive d;
	struct jwt t;
	struct rsa_key *key = NULL;
	const char *text;

	(void)state;
	open_with(&d, FILE_ENV, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
			     { .read = "/c.json",
				 .status = 200,
				 .reply = key_file(d.arena, "https://idp.test/tok") },
			     { .method = "POST",
				 .url = "https://idp.test/tok",
				 .limit = "auth",
				 .mutating = -1,
				 .has = { "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%"
					  "3Ajwt-bearer&assertion=" },
				 .status = 200,
				 .reply = TOKEN("ya29.from-key") }),
	    SPOT_DONE);
	text = strstr(drive_request_text(&d), "assertion=") + 10;
	assert_int_equal(jwt_read(d.arena, (struct str){ text, strcspn(text, "\n") }, &t, NULL),
	    SPOT_OK);
	assert_string_equal(t.alg, "RS256");
	assert_string_equal(t.kid, "k1");
	assert_string_equal(json_string_value(json_object_get(t.claims, "iss")), GOLDEN_EMAIL);
	assert_string_equal(json_string_value(json_object_get(t.claims, "aud")),
	    "https://idp.test/tok");
	assert_string_equal(json_string_value(json_object_get(t.claims, "scope")), GCP_SCOPE);
	assert_int_equal(json_integer_value(json_object_get(t.claims, "iat")),
	    GOLDEN_NOW_US / SPOT_US_PER_S);
	assert_int_equal(json_integer_value(json_object_get(t.claims, "exp")),
	    GOLDEN_NOW_US / SPOT_US_PER_S + 3600);
	assert_int_equal(rsa_private_pem(str_from(golden_key(d.arena, false)), &key, NULL),
	    SPOT_OK);
	assert_true(rsa_verify(key, t.signed_part.p, t.signed_part.n, t.signature));
	jwt_fini(&t);
	rsa_key_free(key);
	assert_string_equal(in_use(&d), "ya29.from-key");
	drive_fini(&d);
}

static void one_endpoint_stands_for_googles_hosts_and_leaves_the_audience(void **state)
{
	struct drive d;
	struct jwt t;
	const char *text;

	(void)state;
	open_with(&d, FILE_ENV, SETTINGS("endpoint", "http://sim:8080/"));
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
			     { .read = "/c.json",
				 .status = 200,
				 .reply =
				     key_file(d.arena, "https://oauth2.googleapis.com/token") },
			     { .url = "http://sim:8080/token",
				 .status = 200,
				 .reply = TOKEN("t") }),
	    SPOT_DONE);
	text = strstr(drive_request_text(&d), "assertion=") + 10;
	assert_int_equal(jwt_read(d.arena, (struct str){ text, strcspn(text, "\n") }, &t, NULL),
	    SPOT_OK);
	assert_string_equal(json_string_value(json_object_get(t.claims, "aud")),
	    "https://oauth2.googleapis.com/token");
	jwt_fini(&t);
	drive_fini(&d);
}

static void a_clock_that_is_off_is_set_right_once(void **state)
{
	struct drive d;

	(void)state;
	open_with(&d, FILE_ENV, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
			     { .read = "/c.json",
				 .status = 200,
				 .reply =
				     key_file(d.arena, "https://oauth2.googleapis.com/token") },
			     { .status = 400,
				 .reply_headers = { "Date: Fri, 02 Jan 2026 04:04:05 GMT" },
				 .reply = "{\"error\":\"invalid_grant\",\"error_description\":"
					  "\"Invalid JWT: short-lived\"}" },
			     { .status = 200, .reply = TOKEN("t") }),
	    SPOT_DONE);
	assert_int_equal(d.agains, 1);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
		{ .read = "/c.json",
		    .status = 200,
		    .reply = key_file(d.arena, "https://oauth2.googleapis.com/token") },
		{ .status = 400,
		    .reply_headers = { "Date: Fri, 02 Jan 2026 04:04:05 GMT" },
		    .reply = "{\"error\":\"invalid_grant\",\"error_description\":\"deleted\"}" }),
	    SPOT_UNAUTHENTICATED, "invalid_grant");
	drive_fini(&d);
}

static void a_users_refresh_token_of_gcloud_is_exchanged(void **state)
{
	struct drive d;

	(void)state;
	open_with(&d, (const char *const[]){ "HOME", "/h", NULL }, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
			     { .read = "/h/.config/gcloud/application_default_credentials.json",
				 .status = 200,
				 .reply = "{\"type\":\"authorized_user\",\"client_id\":\"c\","
					  "\"client_secret\":\"s\",\"refresh_token\":\"1//r\"}" },
			     { .url = "https://oauth2.googleapis.com/token",
				 .body = "client_id=c&client_secret=s&grant_type=refresh_token&"
					 "refresh_token=1%2F%2Fr",
				 .status = 200,
				 .reply = TOKEN("ya29.user") }),
	    SPOT_DONE);
	assert_string_equal(in_use(&d), "ya29.user");
	drive_fini(&d);
}

#define EXTERNAL(source, more) \
	"{\"type\":\"external_account\",\"audience\":\"//iam.googleapis.com/" \
	"p\",\"subject_token_type\":\"urn:x:jwt\"," \
	"\"token_url\":\"https://sts.googleapis.com/v1/token\"," more \
	"\"credential_source\":" source "}"

static void a_token_from_a_url_is_exchanged_and_may_be_absent_of_life(void **state)
{
	struct drive d;

	(void)state;
	open_with(&d, FILE_ENV, NULL);
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
		{ .read = "/c.json",
		    .status = 200,
		    .reply =
			EXTERNAL("{\"url\":\"http://idp.test/"
				 "t?a=b\",\"headers\":{\"X-Flavor\":\"yes\"},\"format\":{\"type\":"
				 "\"json\",\"subject_token_field_name\":\"id_token\"}}",
			    "") },
		{ .method = "GET",
		    .url = "http://idp.test/t?a=b",
		    .headers = { "X-Flavor: yes" },
		    .status = 200,
		    .reply = "{\"id_token\":\"subject-1\"}" },
		{ .method = "POST",
		    .url = "https://sts.googleapis.com/v1/token",
		    .has = { "subject_token=subject-1", "subject_token_type=urn%3Ax%3Ajwt",
			"audience=%2F%2Fiam.googleapis.com%2Fp",
			"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange" },
		    .status = 200,
		    .reply = "{\"access_token\":\"ya29.fed\",\"token_type\":\"Bearer\"}" }),
	    SPOT_DONE);
	assert_true(gcp_ops.auth_fresh(d.self, GOLDEN_NOW_US + 50 * 60 * SPOT_US_PER_S));
	assert_false(gcp_ops.auth_fresh(d.self, GOLDEN_NOW_US + 56 * 60 * SPOT_US_PER_S));
	drive_fini(&d);
}

static void impersonation_takes_the_second_token_and_its_end(void **state)
{
	struct drive d;

	(void)state;
	open_with(&d, FILE_ENV, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
			     { .read = "/c.json",
				 .status = 200,
				 .reply = EXTERNAL("{\"file\":\"/tok\"}",
				     "\"service_account_impersonation_url\":\"https://"
				     "iamcredentials.googleapis.com/v1/x:generateAccessToken\",") },
			     { .read = "/tok", .status = 200, .reply = "subject-2\n" },
			     { .has = { "subject_token=subject-2" },
				 .hasnt = { "%0A" },
				 .status = 200,
				 .reply = TOKEN("ya29.first") },
			     { .url = "https://iamcredentials.googleapis.com/v1/"
				      "x:generateAccessToken",
				 .headers = { "authorization: Bearer ya29.first" },
				 .has = { "\"lifetime\":\"3600s\"" },
				 .status = 200,
				 .reply = "{\"accessToken\":\"ya29.second\",\"expireTime\":\"2026-"
					  "01-02T03:24:05Z\"}" }),
	    SPOT_DONE);
	assert_string_equal(in_use(&d), "ya29.second");
	assert_true(gcp_ops.auth_fresh(d.self, GOLDEN_NOW_US + 14 * 60 * SPOT_US_PER_S));
	assert_false(gcp_ops.auth_fresh(d.self, GOLDEN_NOW_US + 16 * 60 * SPOT_US_PER_S));
	drive_fini(&d);
}

static void the_metadata_server_must_say_that_it_is_googles(void **state)
{
	struct drive d;

	(void)state;
	open_with(&d, NULL, NULL);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
		{ .url = "http://169.254.169.254/computeMetadata/v1/*",
		    .headers = { "Metadata-Flavor: Google" },
		    .status = 200,
		    .reply = TOKEN("portal") }),
	    SPOT_CONFIG, "not Google's");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
		{ .status = 404, .reply_headers = { "Metadata-Flavor: Google" }, .reply = "" }),
	    SPOT_CONFIG, "no service account");
	drive_fini(&d);
}

static void a_named_file_must_be_there_and_gclouds_need_not(void **state)
{
	struct drive d;

	(void)state;
	open_with(&d, FILE_ENV, NULL);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_AUTH, NULL, { .read = "/c.json", .status = 404, .reply = "" }),
	    SPOT_CONFIG, "/c.json");
	drive_fini(&d);
	open_with(&d, (const char *const[]){ "CLOUDSDK_CONFIG", "/g", NULL }, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
			     { .read = "/g/application_default_credentials.json",
				 .status = 404,
				 .reply = "" },
			     { .status = 200,
				 .reply_headers = { "Metadata-Flavor: Google" },
				 .reply = TOKEN("m") }),
	    SPOT_DONE);
	drive_fini(&d);
}

static void a_files_content_is_never_in_an_error(void **state)
{
	static const char *const bad[] = { "hunter2-not-json", "[]", "{\"type\":\"hunter2\"}",
		"{\"type\":\"service_account\",\"private_key\":\"hunter2\",\"client_email\":\"a@"
		"b\"}",
		"{\"type\":\"service_account\",\"private_key\":\"hunter2\"}",
		"{\"type\":\"authorized_user\",\"client_secret\":\"hunter2\"}",
		EXTERNAL("{\"executable\":{\"command\":\"hunter2\"}}", ""),
		EXTERNAL("{\"environment_id\":\"aws1\"}", ""),
		EXTERNAL("{\"url\":\"hunter2\"}", ""),
		EXTERNAL("{\"file\":\"/t\",\"format\":{\"type\":\"hunter2\"}}", ""),
		EXTERNAL("{\"file\":\"/t\",\"headers\":{\"a\":\"b\\r\\nhunter2\"}}", ""),
		"{\"type\":\"impersonated_service_account\",\"source_credentials\":{\"type\":"
		"\"hunter2\"}}" };
	struct drive d;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		open_with(&d, FILE_ENV, NULL);
		failed_with(&d,
		    RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
			{ .read = "/c.json", .status = 200, .reply = bad[i] }),
		    SPOT_CONFIG, "/c.json");
		assert_null(strstr(d.call.err.text, "hunter2"));
		drive_fini(&d);
	}
}

static void a_reply_without_a_usable_token_is_refused(void **state)
{
	static const char *const bad[] = { "", "x", "{}", "{\"access_token\":5}",
		"{\"access_token\":\"a b\"}", "{\"access_token\":\"\"}",
		"{\"access_token\":\"t\",\"expires_in\":-1}",
		"{\"access_token\":\"t\",\"expires_in\":\"x\"}" };
	struct drive d;

	(void)state;
	open_with(&d, NULL, NULL);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		failed_with(&d,
		    RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
			{ .status = 200,
			    .reply_headers = { "Metadata-Flavor: Google" },
			    .reply = bad[i] }),
		    SPOT_BAD_REPLY, NULL);
	}
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_service_accounts_key_signs_a_token_for_its_own_token_uri),
		cmocka_unit_test(one_endpoint_stands_for_googles_hosts_and_leaves_the_audience),
		cmocka_unit_test(a_clock_that_is_off_is_set_right_once),
		cmocka_unit_test(a_users_refresh_token_of_gcloud_is_exchanged),
		cmocka_unit_test(a_token_from_a_url_is_exchanged_and_may_be_absent_of_life),
		cmocka_unit_test(impersonation_takes_the_second_token_and_its_end),
		cmocka_unit_test(the_metadata_server_must_say_that_it_is_googles),
		cmocka_unit_test(a_named_file_must_be_there_and_gclouds_need_not),
		cmocka_unit_test(a_files_content_is_never_in_an_error),
		cmocka_unit_test(a_reply_without_a_usable_token_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
