/* Launch: exactly one request, and an answer that is not sure is UNKNOWN. */
#include "base/base.h"
#include "lambda_test.h"

#include "base/text/text.h"

static struct spot_launch launch_args(void)
{
	static const struct spot_tag tags[] = { { "team", "vision" } };

	return (struct spot_launch){
		.key = { "lambda", "us-east-1", "", "gpu_1x_a10", SPOT_MARKET_ON_DEMAND },
		.zone_name = "",
		.shape = { .arch = "x86_64" },
		.token = "tok-12",
		.name = LAMBDA_NAME,
		.install = "7f3a",
		.tags = tags,
		.tags_n = 1,
		.user_data = STR_LIT("#cloud-config\nruncmd: [\"echo ä\"]\n"),
	};
}

static void the_request_is_the_golden_one(void **state)
{
	struct drive *d = *state;
	struct spot_launch a = launch_args();
	const struct drive_try script[] = { { .limit = "launch",
	    .mutating = 1,
	    .status = 200,
	    .reply = "{\"data\":{\"instance_ids\":[\"" LAMBDA_ID "\"]}}" } };

	drive_script(d, script, 1);
	assert_int_equal(drive_run(d, DRIVE_LAUNCH, &a), SPOT_DONE);
	assert_string_equal(drive_request_text(d), golden(d, "launch_request.txt"));
	assert_true(d->call.out.fresh_connection);
	assert_string_equal(a.instance.ref, LAMBDA_ID);
	assert_string_equal(a.instance.token, "tok-12");
	assert_int_equal(a.instance.state, SPOT_INSTANCE_PENDING);
	assert_int_equal(a.instance.created_us, INT64_C(1767323045000000));
	assert_string_equal(a.instance.key.instance_type, "gpu_1x_a10");
}

/* The request includes the attachments of the region's settings, and the image of the other
 * architecture. */
static void the_request_with_everything_is_the_golden_one(void **state)
{
	static const char *const settings[] = { "ssh_key_name", "brk-key", "file_system.us-east-1",
		"shared, data", "firewall_ruleset.us-east-1", "c4d291f47f9d436fa39f58493ce3b50d",
		"image_family_arm64", "lambda-stack-24-04", NULL };
	struct drive *d = *state;
	struct spot_launch a = launch_args();
	const struct drive_try script[] = { { .status = 200,
	    .reply = "{\"data\":{\"instance_ids\":[\"" LAMBDA_ID "\"]}}" } };

	drive_fini(d);
	drive_init(d, &lambda_ops, lambda_env, settings);
	a.key.instance_type = "gpu_1x_gh200";
	a.shape.arch = "arm64";
	drive_script(d, script, 1);
	assert_int_equal(drive_run(d, DRIVE_LAUNCH, &a), SPOT_DONE);
	assert_string_equal(drive_request_text(d), golden(d, "launch_attached_request.txt"));
}

static const struct {
	int status;
	const char *body;
	enum spot_rc rc;
	const char *code;
} error_cases[] = {
	/* capacity is an HTTP 400 */
	{ 400, LAMBDA_ERROR("instance-operations/launch/insufficient-capacity"), SPOT_NO_CAPACITY,
	    "instance-operations/launch/insufficient-capacity" },
	{ 400, LAMBDA_ERROR("instance-operations/launch/file-system-in-wrong-region"), SPOT_CONFIG,
	    "instance-operations/launch/file-system-in-wrong-region" },
	{ 400, LAMBDA_ERROR("global/quota-exceeded"), SPOT_QUOTA, "global/quota-exceeded" },
	{ 400, LAMBDA_ERROR("global/invalid-parameters"), SPOT_INVALID,
	    "global/invalid-parameters" },
	{ 400, LAMBDA_ERROR("global/object-does-not-exist"), SPOT_CONFIG,
	    "global/object-does-not-exist" },
	{ 404, LAMBDA_ERROR("global/object-does-not-exist"), SPOT_CONFIG,
	    "global/object-does-not-exist" },
	{ 401, LAMBDA_ERROR("global/invalid-api-key"), SPOT_UNAUTHENTICATED,
	    "global/invalid-api-key" },
	{ 403, LAMBDA_ERROR("global/account-inactive"), SPOT_DENIED, "global/account-inactive" },
	{ 403, LAMBDA_ERROR("global/invalid-address"), SPOT_DENIED, "global/invalid-address" },
	{ 403, LAMBDA_ERROR("global/forbidden"), SPOT_DENIED, "global/forbidden" },
	{ 404, LAMBDA_ERROR("global/not-found"), SPOT_CONFIG, "global/not-found" },
	{ 400, LAMBDA_ERROR("global/duplicate"), SPOT_CONFLICT, "global/duplicate" },
	{ 400, LAMBDA_ERROR("global/some-new-code"), SPOT_INVALID, "global/some-new-code" },
	{ 429, "<html>Too Many Requests</html>", SPOT_THROTTLED, "" },
	{ 429, LAMBDA_ERROR("global/rate-limited"), SPOT_THROTTLED, "" },
	{ 301, "", SPOT_CONFIG, "" },
	{ 308, LAMBDA_ERROR("global/moved"), SPOT_CONFIG, "" },
	/* not sure that nothing happened */
	{ 409, LAMBDA_ERROR("global/internal-error"), SPOT_UNKNOWN, "global/internal-error" },
	{ 409, LAMBDA_ERROR("global/conflict"), SPOT_UNKNOWN, "global/conflict" },
	{ 500, LAMBDA_ERROR("global/unknown"), SPOT_UNKNOWN, "global/unknown" },
	{ 400, LAMBDA_ERROR("provider/internal-unavailable"), SPOT_UNKNOWN,
	    "provider/internal-unavailable" },
	{ 503, LAMBDA_ERROR("provider/internal-unavailable"), SPOT_UNKNOWN,
	    "provider/internal-unavailable" },
	{ 500, "", SPOT_UNKNOWN, "" },
	{ 502, "<html>Bad Gateway</html>", SPOT_UNKNOWN, "" },
	{ 504, LAMBDA_ERROR("global/some-new-code"), SPOT_UNKNOWN, "global/some-new-code" },
	{ 400, "not json", SPOT_UNKNOWN, "" },
	{ 401, "{}", SPOT_UNKNOWN, "" },
	{ 403, "{\"error\":{\"code\":42}}", SPOT_UNKNOWN, "" },
	{ 418, "{\"error\":\"text\"}", SPOT_UNKNOWN, "" },
	{ 0, NULL, SPOT_UNKNOWN, "" },
	/* good status, no use */
	{ 200, "", SPOT_UNKNOWN, "" },
	{ 200, "{\"data\":", SPOT_UNKNOWN, "" },
	{ 200, "{\"instance_ids\":[\"x\"]}", SPOT_UNKNOWN, "" },
	{ 200, "{\"data\":{\"instance_ids\":[]}}", SPOT_UNKNOWN, "" },
	{ 200, "{\"data\":{\"instance_ids\":[\"a\",\"b\"]}}", SPOT_UNKNOWN, "" },
	{ 200, "{\"data\":{\"instance_ids\":[7]}}", SPOT_UNKNOWN, "" },
	{ 200, "{\"data\":{\"instance_ids\":\"a\"}}", SPOT_UNKNOWN, "" },
};

static void every_error_has_its_meaning(void **state)
{
	struct drive *d = *state;

	for (size_t i = 0; i < ARRAY_LEN(error_cases); i++) {
		struct spot_launch a = launch_args();

		assert_int_equal(reply_with(d, DRIVE_LAUNCH, &a, error_cases[i].status,
				     error_cases[i].body),
		    SPOT_FAIL);
		if (d->call.err.rc != error_cases[i].rc) {
			fail_msg("HTTP %d %s: rc %d, not %d: %s", error_cases[i].status,
			    error_cases[i].body, (int)d->call.err.rc, (int)error_cases[i].rc,
			    d->call.err.text);
		}
		assert_string_equal(d->call.err.code, error_cases[i].code);
		assert_null(a.instance.ref);
	}
}

static void throttling_says_when_and_is_not_repeated(void **state)
{
	struct drive *d = *state;
	struct spot_launch a = launch_args();
	const struct drive_try script[] = {
		{ .status = 429, .reply_headers = { "Retry-After: 12" }, .reply = "slow" }
	};

	drive_script(d, script, 1);
	assert_int_equal(drive_run(d, DRIVE_LAUNCH, &a), SPOT_FAIL);
	rc_is(d, SPOT_THROTTLED);
	assert_int_equal(d->call.err.retry_after_us, INT64_C(12000000));
	assert_int_equal(d->agains, 0);
}

static void an_invalid_launch_costs_no_request(void **state)
{
	struct drive *d = *state;
	struct spot_launch a = launch_args();
	char *big = arena_alloc(d->arena, 1000002);
	char name[80] = { 0 };

	drive_script(d, NULL, 0);
	a.key.market = SPOT_MARKET_SPOT;
	assert_int_equal(drive_run(d, DRIVE_LAUNCH, &a), SPOT_FAIL);
	rc_is(d, SPOT_NOT_OFFERED);
	a = launch_args();
	memset(name, 'a', 65);
	a.name = name;
	assert_int_equal(drive_run(d, DRIVE_LAUNCH, &a), SPOT_FAIL);
	rc_is(d, SPOT_INVALID);
	a = launch_args();
	a.token = "";
	assert_int_equal(drive_run(d, DRIVE_LAUNCH, &a), SPOT_FAIL);
	rc_is(d, SPOT_INVALID);
	a = launch_args();
	memset(big, 'x', 1000001);
	a.user_data = (struct str){ big, 1000001 };
	assert_int_equal(drive_run(d, DRIVE_LAUNCH, &a), SPOT_FAIL);
	rc_is(d, SPOT_TOO_LARGE);
	a = launch_args();
	a.user_data = STR_LIT("\xff\xfe");
	assert_int_equal(drive_run(d, DRIVE_LAUNCH, &a), SPOT_FAIL);
	rc_is(d, SPOT_INVALID);
}

static void without_an_ssh_key_name_the_error_says_where_to_set_it(void **state)
{
	struct drive d;
	struct spot_launch a = launch_args();

	(void)state;
	drive_init(&d, &lambda_ops, lambda_env, NULL);
	assert_int_equal(drive_run(&d, DRIVE_LAUNCH, &a), SPOT_FAIL);
	rc_is(&d, SPOT_CONFIG);
	assert_non_null(strstr(d.call.err.text, "ssh_key_name"));
	drive_fini(&d);
}

static void tags_are_brought_into_the_vendors_form(void **state)
{
	static const struct spot_tag tags[] = { { "Team Name", "v" }, { "9lives", "v" },
		{ "x", "v" }, { "BRK-INSTALL", "evil" }, { "bad", "\xff" } };
	struct drive *d = *state;
	struct spot_launch a = launch_args();
	const struct drive_try script[] = { { .has = { "{\"key\":\"team-name\",\"value\":\"v\"}",
						  "{\"key\":\"t-9lives\",", "{\"key\":\"x-\"," },
	    .hasnt = { "evil", "bad" },
	    .status = 400,
	    .reply = LAMBDA_ERROR("instance-operations/launch/insufficient-capacity") } };

	a.tags = tags;
	a.tags_n = ARRAY_LEN(tags);
	drive_script(d, script, 1);
	assert_int_equal(drive_run(d, DRIVE_LAUNCH, &a), SPOT_FAIL);
	rc_is(d, SPOT_NO_CAPACITY);
}

static void the_image_family_can_be_chosen(void **state)
{
	static const char *const settings[] = { "ssh_key_name", "k", "image_family", "ubuntu-24-04",
		NULL };
	struct drive d;
	struct spot_launch a = launch_args();
	const struct drive_try script[] = { { .has = { "\"image\":{\"family\":\"ubuntu-24-04\"}" },
	    .status = 200,
	    .reply = "{\"data\":{\"instance_ids\":[\"" LAMBDA_ID "\"]}}" } };

	(void)state;
	drive_init(&d, &lambda_ops, lambda_env, settings);
	drive_script(&d, script, 1);
	assert_int_equal(drive_run(&d, DRIVE_LAUNCH, &a), SPOT_DONE);
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_request_is_the_golden_one),
		T(the_request_with_everything_is_the_golden_one),
		T(every_error_has_its_meaning),
		T(throttling_says_when_and_is_not_repeated),
		T(an_invalid_launch_costs_no_request),
		cmocka_unit_test(without_an_ssh_key_name_the_error_says_where_to_set_it),
		T(tags_are_brought_into_the_vendors_form),
		cmocka_unit_test(the_image_family_can_be_chosen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
