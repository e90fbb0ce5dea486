/* Settings, the key and where it comes from. */
#include "base/base.h"
#include "lambda_test.h"

#define KEY2 "another-test-key-9876543210"

static void open_is(const char *const *env, const char *const *settings, enum spot_rc rc,
    const char *words)
{
	struct spot_err err = { 0 };

	if (drive_open(&lambda_ops, env, settings, &err) != rc) {
		fail_msg("open: rc %d, not %d: %s", (int)err.rc, (int)rc, err.text);
	}
	if (words != NULL && strstr(err.text, words) == NULL) {
		fail_msg("open: '%s' lacks '%s'", err.text, words);
	}
	assert_null(strstr(err.text, LAMBDA_KEY));
}

static void settings_are_checked_at_open(void **state)
{
	const struct {
		const char *key, *value;
		enum spot_rc rc;
		const char *words;
	} cases[] = {
		{ "endpoint", "https://cloud.lambda.ai/", SPOT_OK, NULL },
		{ "endpoint", "https://cloud.lambda.ai/api/v1", SPOT_OK, NULL },
		{ "endpoint", "http://127.0.0.1:4711", SPOT_OK, NULL },
		{ "endpoint", "http://localhost", SPOT_OK, NULL },
		{ "endpoint", "http://[::1]:80/x", SPOT_OK, NULL },
		{ "endpoint", "http://cloud.lambda.ai", SPOT_CONFIG, "unencrypted" },
		{ "endpoint", "http://127.0.0.1.evil.test", SPOT_CONFIG, "unencrypted" },
		{ "endpoint", "https://cloud.lambdalabs.com", SPOT_CONFIG, "deprecated" },
		{ "endpoint", "cloud.lambda.ai", SPOT_CONFIG, "https://" },
		{ "endpoint", "https://user:pw@host", SPOT_CONFIG, "plain" },
		{ "image_family", "lambda-stack-24-04", SPOT_OK, NULL },
		{ "image_family", "Lambda Stack!", SPOT_CONFIG, "image_family" },
		{ "ssh_key_name",
		    "0123456789012345678901234567890123456789012345678901234567890123x",
		    SPOT_CONFIG, "64" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *const settings[] = { cases[i].key, cases[i].value, NULL };

		open_is(lambda_env, settings, cases[i].rc, cases[i].words);
	}
}

static void a_key_that_is_none_is_refused_without_being_shown(void **state)
{
	static const char *const short_key[] = { "LAMBDA_API_KEY", "short", NULL };
	static const char *const broken_key[] = { "LAMBDA_API_KEY", LAMBDA_KEY "\nX: y", NULL };
	static const char *const nothing[] = { NULL };

	(void)state;
	open_is(short_key, NULL, SPOT_CONFIG, "LAMBDA_API_KEY");
	open_is(broken_key, NULL, SPOT_CONFIG, "LAMBDA_API_KEY");
	open_is(nothing, NULL, SPOT_CONFIG, "LAMBDA_API_KEY");
}

static void list_once(struct drive *d, const char *bearer)
{
	struct spot_list a = { .region = "", .install = "i" };
	struct drive_try *t = arena_alloc(d->arena, sizeof(*t));

	*t = (struct drive_try){ .headers = { arena_printf(d->arena, "authorization: Bearer %s",
				     bearer) },
		.status = 200,
		.reply = "{\"data\":[]}" };
	drive_script(d, t, 1);
	assert_int_equal(drive_run(d, DRIVE_LIST, &a), SPOT_DONE);
}

static void the_endpoint_loses_its_tail(void **state)
{
	static const char *const settings[] = { "endpoint", "http://127.0.0.1:4711/api/v1//",
		NULL };
	static const char *const env[] = { "LAMBDA_API_KEY", LAMBDA_KEY, "LAMBDA_API_ENDPOINT",
		"https://x.test", NULL };
	struct spot_list a = { .region = "", .install = "i" };
	const struct drive_try first[] = { { .url = "http://127.0.0.1:4711/api/v1/instances",
	    .status = 200,
	    .reply = "{\"data\":[]}" } };
	const struct drive_try second[] = { { .url = "https://x.test/api/v1/instances",
	    .status = 200,
	    .reply = "{\"data\":[]}" } };
	struct drive d;

	(void)state;
	drive_init(&d, &lambda_ops, env, settings);
	drive_script(&d, first, 1);
	assert_int_equal(drive_run(&d, DRIVE_LIST, &a), SPOT_DONE);
	drive_fini(&d);
	drive_init(&d, &lambda_ops, env, NULL);
	drive_script(&d, second, 1);
	assert_int_equal(drive_run(&d, DRIVE_LIST, &a), SPOT_DONE);
	drive_fini(&d);
}

static void the_second_variable_serves_too(void **state)
{
	static const char *const env[] = { "LAMBDA_CLOUD_TOKEN", KEY2, NULL };
	struct drive d;

	(void)state;
	drive_init(&d, &lambda_ops, env, NULL);
	assert_true(lambda_ops.auth_fresh(d.self, d.now_us));
	list_once(&d, KEY2);
	assert_int_equal(drive_run(&d, DRIVE_AUTH, NULL), SPOT_DONE); /* nothing to read */
	drive_fini(&d);
}

static enum spot_step auth_from(struct drive *d, const char *path, int status, const char *text)
{
	struct drive_try *t = arena_alloc(d->arena, sizeof(*t));

	*t = (struct drive_try){ .read = path, .status = status, .reply = text };
	drive_script(d, t, 1);
	return drive_run(d, DRIVE_AUTH, NULL);
}

static void the_key_file_is_read_in_its_forms(void **state)
{
	static const char *const env[] = { "HOME", "/home/u", NULL };
	static const char *const texts[] = {
		"api_key = " KEY2 "\n",
		"api_key=" KEY2,
		"# comment\nssh_key = x\n\n  api_key = \"" KEY2 "\"\r\n",
		KEY2 "\n",
	};
	const char *secret = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct drive d;

		drive_init(&d, &lambda_ops, env, NULL);
		assert_false(lambda_ops.auth_fresh(d.self, d.now_us));
		assert_int_equal(auth_from(&d, "/home/u/.lambda_cloud/lambda_keys", 200, texts[i]),
		    SPOT_DONE);
		assert_true(lambda_ops.auth_fresh(d.self, d.now_us));
		assert_int_equal(lambda_ops.secrets(d.self, &secret, 1), 1);
		assert_string_equal(secret, KEY2);
		list_once(&d, KEY2);
		drive_fini(&d);
	}
}

static void a_file_without_a_key_is_a_configuration_error(void **state)
{
	static const char *const settings[] = { "api_key_file", "/etc/key", NULL };
	static const struct {
		int status;
		const char *text, *words;
	} cases[] = {
		{ 404, "", "does not exist" },
		{ 403, "", "cannot be read" },
		{ 200, "", "no line" },
		{ 200, "two\nlines\n", "no line" },
		{ 200, "api_key = \n", "no line" },
		{ 200, "api_key = tiny\n", "4 characters" },
		{ 200, "api_key = with blanks in it\n", "position" },
	};
	struct drive d;

	(void)state;
	drive_init(&d, &lambda_ops, lambda_env,
	    settings); /* the setting goes before the environment */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(auth_from(&d, "/etc/key", cases[i].status, cases[i].text),
		    SPOT_FAIL);
		rc_is(&d, SPOT_CONFIG);
		assert_non_null(strstr(d.call.err.text, "/etc/key"));
		assert_non_null(strstr(d.call.err.text, cases[i].words));
	}
	drive_fini(&d);
}

static void a_refused_key_is_read_again_once(void **state)
{
	static const char *const settings[] = { "api_key_file", "/etc/key", NULL };
	struct spot_list a = { .region = "", .install = "i" };
	const struct drive_try script[] = {
		{ .headers = { "authorization: Bearer " LAMBDA_KEY },
		    .status = 401,
		    .reply = LAMBDA_ERROR("global/invalid-api-key") },
		{ .read = "/etc/key", .status = 200, .reply = "api_key = " KEY2 },
		{ .headers = { "authorization: Bearer " KEY2 },
		    .status = 200,
		    .reply = "{\"data\":[]}" },
	};
	struct drive d;

	(void)state;
	drive_init(&d, &lambda_ops, NULL, settings);
	assert_int_equal(auth_from(&d, "/etc/key", 200, "api_key = " LAMBDA_KEY), SPOT_DONE);
	drive_script(&d, script, 3);
	assert_int_equal(drive_run(&d, DRIVE_LIST, &a), SPOT_DONE);
	assert_int_equal(d.reauths, 1);
	drive_fini(&d);
}

static void whoami_tells_a_good_key_from_a_bad(void **state)
{
	struct drive *d = *state;
	const char *account = NULL;

	assert_int_equal(reply_with(d, DRIVE_WHOAMI, &account, 200, "{\"data\":{}}"), SPOT_DONE);
	assert_string_equal(account, "lambda");
	assert_int_equal(reply_with(d, DRIVE_WHOAMI, &account, 401,
			     LAMBDA_ERROR("global/invalid-api-key")),
	    SPOT_FAIL);
	rc_is(d, SPOT_UNAUTHENTICATED);
}

static void a_key_in_the_vendors_words_is_not_repeated(void **state)
{
	struct drive *d = *state;
	struct spot_list a = { .region = "", .install = "i" };

	assert_int_equal(reply_with(d, DRIVE_LIST, &a, 403,
			     "{\"error\":{\"code\":\"global/"
			     "forbidden\",\"message\":\"key " LAMBDA_KEY " may not\\n\"}}"),
	    SPOT_FAIL);
	assert_null(strstr(d->call.err.text, LAMBDA_KEY));
	assert_null(strchr(d->call.err.text, '\n'));
	assert_non_null(strstr(d->call.err.text, "may not"));
}

static void the_table_says_what_the_vendor_is(void **state)
{
	(void)state;
	assert_int_equal(lambda_ops.caps, SPOT_CAP_ALL_REGIONS);
	assert_int_equal(lambda_ops.token_scope, SPOT_TOKEN_NONE);
	assert_true(lambda_ops.list_lag_us >= INT64_C(120000000));
	assert_null((void *)(uintptr_t)lambda_ops.notices);
	assert_null((void *)(uintptr_t)lambda_ops.presign);
	for (size_t i = 0; i < lambda_ops.limits_n; i++) {
		assert_true(lambda_ops.limits[i].shared);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_are_checked_at_open),
		cmocka_unit_test(a_key_that_is_none_is_refused_without_being_shown),
		cmocka_unit_test(the_endpoint_loses_its_tail),
		cmocka_unit_test(the_second_variable_serves_too),
		cmocka_unit_test(the_key_file_is_read_in_its_forms),
		cmocka_unit_test(a_file_without_a_key_is_a_configuration_error),
		cmocka_unit_test(a_refused_key_is_read_again_once),
		T(whoami_tells_a_good_key_from_a_bad),
		T(a_key_in_the_vendors_words_is_not_repeated),
		cmocka_unit_test(the_table_says_what_the_vendor_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
