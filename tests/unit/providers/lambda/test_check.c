/* check: names errors, marks untried items as untested, changes nothing. Also the effect of a
 * region's settings on a launch. */
#include "base/base.h"
#include "lambda_test.h"

static const struct spot_pool_info pools[] = {
	{ .key = { "lambda", "us-east-1", "", "gpu_1x_a10", SPOT_MARKET_ON_DEMAND },
	    .zone_name = "",
	    .shape = { .arch = "x86_64" },
	    .quota_class = "" },
	{ .key = { "lambda", "us-east-1", "", "gpu_1x_gh200", SPOT_MARKET_ON_DEMAND },
	    .zone_name = "",
	    .shape = { .arch = "arm64" },
	    .quota_class = "" },
	{ .key = { "lambda", "us-west-1", "", "gpu_1x_b200", SPOT_MARKET_ON_DEMAND },
	    .zone_name = "",
	    .shape = { .arch = "x86_64" },
	    .quota_class = "" },
};

#define REGION "{\"name\":\"us-east-1\",\"description\":\"Virginia, USA\"}"
#define ELSEWHERE "{\"name\":\"us-west-1\",\"description\":\"California, USA\"}"
#define TYPE(name, regions) \
	"\"" name "\":{\"instance_type\":{\"name\":\"" name \
	"\"},\"regions_with_capacity_available\":[" regions "]}"
#define TYPES \
	"{\"data\":{" TYPE("gpu_1x_a10", ELSEWHERE "," REGION) "," TYPE("gpu_1x_gh200", "") "}}"
#define KEYS \
	"{\"data\":[{\"id\":\"1\",\"name\":\"other\",\"public_key\":\"ssh-ed25519 " \
	"x\"},{\"id\":\"2\",\"name\":\"brk-key\",\"public_key\":\"y\"}]}"
#define IMAGE(family, arch, region) \
	"{\"id\":\"i\",\"family\":\"" family "\",\"version\":\"1.2\",\"architecture\":\"" arch \
	"\",\"region\":" region "}"
#define IMAGES \
	"{\"data\":[" IMAGE("lambda-stack-22-04", "arm64", \
	    ELSEWHERE) "," IMAGE("lambda-stack-22-04", "x86_64", REGION) "]}"
#define RULE(port, to) \
	"{\"protocol\":\"tcp\",\"port_range\":[" port "," to \
	"],\"source_network\":\"0.0.0.0/0\",\"description\":\"\"}"
#define GLOBAL "{\"data\":{\"id\":\"global\",\"name\":\"g\",\"rules\":[" RULE("22", "22") "]}}"
#define SETS \
	"{\"data\":[{\"id\":\"aa11\",\"name\":\"wide\",\"region\":" REGION \
	",\"rules\":[" RULE("1", \
	    "65535") "]}," \
		     "{\"id\":\"bb22\",\"name\":\"far\",\"region\":" ELSEWHERE ",\"rules\":[]}]}"
#define FILES \
	"{\"data\":[{\"id\":\"f1\",\"name\":\"shared\",\"mount_point\":\"/lambda/nfs/" \
	"shared\",\"region\":" REGION "}," \
	"{\"id\":\"f2\",\"name\":\"far\",\"mount_point\":\"/lambda/nfs/" \
	"far\",\"region\":" ELSEWHERE "}]}"
#define AUDIT "{\"data\":[],\"page_token\":null}"
#define DATE .reply_headers = { "Date: Sun, 30 Aug 2015 12:36:10 GMT" }

static const struct spot_check_item *item_find(const struct spot_check *a, const char *name)
{
	for (size_t i = 0; i < a->n; i++) {
		if (strcmp(a->items[i].name, name) == 0) {
			return &a->items[i];
		}
	}
	fail_msg("there is no item '%s'", name);
	return NULL;
}

static void assert_item(const struct spot_check *a, const char *name, enum spot_check_state state,
    const char *words)
{
	const struct spot_check_item *i = item_find(a, name);

	if (i->state != state || strstr(i->words, words) == NULL) {
		fail_msg("%s: %d '%s' fix '%s'", name, (int)i->state, i->words, i->fix);
	}
	assert_true(state != SPOT_CHECK_BAD || i->fix[0] != '\0');
}

static struct spot_check check_run(struct drive *d, const struct drive_try *script, size_t n)
{
	struct spot_check a = { .region = "us-east-1",
		.pools = pools,
		.pools_n = ARRAY_LEN(pools) };

	drive_script(d, script, n);
	assert_int_equal(drive_run(d, DRIVE_CHECK, &a), SPOT_DONE);
	drive_used(d);
	return a;
}

static void everything_is_looked_at_once(void **state)
{
	const struct drive_try script[] = {
		{ .method = "GET",
		    .url = LAMBDA_API "/instance-types",
		    .mutating = -1,
		    .limit = "general",
		    .status = 200,
		    .reply = TYPES,
		    DATE },
		{ .method = "GET",
		    .url = LAMBDA_API "/ssh-keys",
		    .mutating = -1,
		    .status = 200,
		    .reply = KEYS },
		{ .method = "GET",
		    .url = LAMBDA_API "/images",
		    .mutating = -1,
		    .status = 200,
		    .reply = IMAGES },
		{ .method = "GET",
		    .url = LAMBDA_API "/firewall-rulesets/global",
		    .mutating = -1,
		    .status = 200,
		    .reply = GLOBAL },
		{ .method = "GET",
		    .url = LAMBDA_API "/audit-events?*",
		    .mutating = -1,
		    .status = 200,
		    .reply = AUDIT },
	};
	struct spot_check a = check_run(*state, script, ARRAY_LEN(script));

	assert_item(&a, "credentials", SPOT_CHECK_OK, "accepted");
	assert_item(&a, "clock", SPOT_CHECK_OK, "within a minute");
	assert_item(&a, "capacity gpu_1x_a10", SPOT_CHECK_OK, "some now");
	assert_item(&a, "capacity gpu_1x_gh200", SPOT_CHECK_WARN, "none in the region");
	assert_item(&a, "ssh key", SPOT_CHECK_OK, "brk-key");
	assert_item(&a, "image x86_64", SPOT_CHECK_OK, "lambda-stack-22-04, version 1.2");
	assert_item(&a, "image arm64", SPOT_CHECK_BAD,
	    "no arm64 image of family lambda-stack-22-04 in us-east-1");
	assert_item(&a, "firewall", SPOT_CHECK_OK, "lets in tcp 22-22 from 0.0.0.0/0");
	assert_item(&a, "audit events", SPOT_CHECK_OK, "read");
	assert_item(&a, "launch", SPOT_CHECK_UNTESTED, "no dry run");
	assert_item(&a, "terminate", SPOT_CHECK_UNTESTED, "no dry run");
	assert_item(&a, "quota", SPOT_CHECK_UNTESTED, "does not tell");
	assert_int_equal(a.n, 12); /* a pool of another region is none of this one's */
}

static void names_in_a_regions_settings_are_looked_up_there(void **state)
{
	static const char *const settings[] = { "file_system.us-east-1", "shared, far,none",
		"firewall_ruleset.us-east-1", "aa11 bb22 cc33", "audit_events", "off", NULL };
	const struct drive_try script[] = {
		{ .status = 200,
		    .reply = "{\"data\":{}}",
		    .reply_headers = { "Date: Sun, 30 Aug 2015 12:46:00 GMT" } },
		{ .status = 200, .reply = KEYS },
		{ .status = 403, .reply = LAMBDA_ERROR("global/forbidden") },
		{ .url = LAMBDA_API "/firewall-rulesets", .status = 200, .reply = SETS },
		{ .url = LAMBDA_API "/file-systems", .status = 200, .reply = FILES },
	};
	struct drive *d = *state;
	struct spot_check a;

	drive_fini(d);
	drive_init(d, &lambda_ops, lambda_env, settings);
	a = check_run(d, script, ARRAY_LEN(script));
	assert_item(&a, "clock", SPOT_CHECK_WARN, "10m");
	assert_item(&a, "capacity gpu_1x_a10", SPOT_CHECK_WARN, "does not list");
	assert_item(&a, "ssh key", SPOT_CHECK_BAD, "not set");
	assert_non_null(strstr(item_find(&a, "ssh key")->fix, "other, brk-key"));
	assert_item(&a, "image", SPOT_CHECK_UNTESTED, "global/forbidden");
	assert_item(&a, "firewall aa11", SPOT_CHECK_WARN, "tcp 1-65535");
	assert_item(&a, "firewall bb22", SPOT_CHECK_BAD, "us-west-1");
	assert_item(&a, "firewall cc33", SPOT_CHECK_BAD, "no ruleset");
	assert_item(&a, "file system shared", SPOT_CHECK_OK, "/lambda/nfs/shared");
	assert_item(&a, "file system far", SPOT_CHECK_BAD, "us-west-1");
	assert_item(&a, "file system none", SPOT_CHECK_BAD, "none of that name");
}

static void a_bad_key_ends_it(void **state)
{
	const struct drive_try script[] = { { .status = 403,
	    .reply = LAMBDA_ERROR("global/account-inactive") } };
	struct spot_check a = check_run(*state, script, 1);

	assert_item(&a, "credentials", SPOT_CHECK_BAD, "global/account-inactive");
	assert_int_equal(a.n, 4); /* and the three that are never tried */
}

static void replies_that_are_none_make_nothing_of_it(void **state)
{
	static const char *const odd[] = { "{\"data\":7}", "{\"data\":[7,null,[],{}]}",
		"{\"data\":{\"rules\":[7,{}]}}" };

	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		const struct drive_try script[] = { { .status = 200, .reply = odd[i] },
			{ .status = 200, .reply = odd[i] }, { .status = 200, .reply = odd[i] },
			{ .status = 200, .reply = odd[i] }, { .status = 200, .reply = odd[i] } };
		struct spot_check a = check_run(*state, script, ARRAY_LEN(script));

		assert_item(&a, "ssh key", SPOT_CHECK_BAD, "not registered");
		assert_item(&a, "image x86_64", SPOT_CHECK_BAD, "no x86_64 image");
	}
}

static void no_region_no_lookups_of_one(void **state)
{
	const struct drive_try script[] = { { .status = 200, .reply = TYPES },
		{ .status = 200, .reply = KEYS }, { .status = 200, .reply = AUDIT } };
	struct drive *d = *state;
	struct spot_check a = { .region = "" };

	drive_script(d, script, ARRAY_LEN(script));
	assert_int_equal(drive_run(d, DRIVE_CHECK, &a), SPOT_DONE);
	drive_used(d);
	assert_int_equal(a.n, 7);
}

/* ---- launch ---------------------------------------------------------------------------------- */

static struct spot_launch launch_into(const char *region, const char *arch)
{
	return (struct spot_launch){ .key = { "lambda", region, "", "gpu_1x_gh200",
					 SPOT_MARKET_ON_DEMAND },
		.zone_name = "",
		.shape = { .arch = arch },
		.token = "tok-12",
		.name = LAMBDA_NAME,
		.install = "7f3a" };
}

static void a_launch_takes_what_its_region_names(void **state)
{
	static const char *const settings[] = { "ssh_key_name", "k", "file_system.us-east-1",
		"shared,data", "firewall_ruleset.us-east-1", "aa11", "image_family",
		"gpu-base-24-04", "image_family_arm64", "lambda-stack-24-04", NULL };
	const struct drive_try here[] = {
		{ .has = { "\"image\":{\"family\":\"lambda-stack-24-04\"}",
		      "\"file_system_names\":[\"shared\",\"data\"]",
		      "\"firewall_rulesets\":[{\"id\":\"aa11\"}]" },
		    .status = 200,
		    .reply = "{\"data\":{\"instance_ids\":[\"" LAMBDA_ID "\"]}}" }
	};
	const struct drive_try there[] = { { .has = { "\"image\":{\"family\":\"gpu-base-24-04\"}" },
	    .hasnt = { "file_system", "firewall" },
	    .status = 200,
	    .reply = "{\"data\":{\"instance_ids\":[\"" LAMBDA_ID "\"]}}" } };
	struct spot_launch a = launch_into("us-east-1", "arm64"),
			   b = launch_into("us-west-1", "x86_64");
	struct drive *d = *state;

	drive_fini(d);
	drive_init(d, &lambda_ops, lambda_env, settings);
	drive_script(d, here, 1);
	assert_int_equal(drive_run(d, DRIVE_LAUNCH, &a), SPOT_DONE);
	drive_script(d, there, 1);
	assert_int_equal(drive_run(d, DRIVE_LAUNCH, &b), SPOT_DONE);
}

static void a_name_that_is_none_stops_the_launch(void **state)
{
	static const char *const settings[][5] = {
		{ "ssh_key_name", "k", "file_system.us-east-1", "ok,9bad", NULL },
		{ "ssh_key_name", "k", "file_system.us-east-1", "a/b", NULL },
		{ "ssh_key_name", "k", "firewall_ruleset.us-east-1", "a:b", NULL },
		{ "ssh_key_name", "k", "firewall_ruleset.us-east-1",
		    "a a a a a a a a a a a a a a a a a", NULL },
	};
	struct drive *d = *state;

	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		struct spot_launch a = launch_into("us-east-1", "x86_64");

		drive_fini(d);
		drive_init(d, &lambda_ops, lambda_env, settings[i]);
		drive_script(d, NULL, 0);
		assert_int_equal(drive_run(d, DRIVE_LAUNCH, &a), SPOT_FAIL);
		rc_is(d, SPOT_CONFIG);
		assert_non_null(strstr(d->call.err.text, settings[i][2]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(everything_is_looked_at_once),
		T(names_in_a_regions_settings_are_looked_up_there),
		T(a_bad_key_ends_it),
		T(replies_that_are_none_make_nothing_of_it),
		T(no_region_no_lookups_of_one),
		T(a_launch_takes_what_its_region_names),
		T(a_name_that_is_none_stops_the_launch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
