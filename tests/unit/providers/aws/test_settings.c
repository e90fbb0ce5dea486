#include "base/base.h"
#include "aws_test.h"

#include "aws_priv.h"

/* Settings are checked at open, with words that name the key; endpoints follow the vendor's
 * variables. */

static void bad_settings_are_refused_by_name(void **state)
{
	static const struct {
		const char *key, *value, *words;
	} cases[] = {
		{ "regions", "us-east-1, Mars", "'Mars'" },
		{ "regions", "us-east-1,,eu-west-1", "regions: ''" },
		{ "regions", "useast1", "'useast1'" },
		{ "regions", "us-east-1/x", "us-east-1/x" },
		{ "endpoint", "localhost:4566", "endpoint: not an http" },
		{ "endpoint", "http://", "endpoint" },
		{ "endpoint", "http://h/path", "only scheme, host and port" },
		{ "endpoint", "http://u:p@h", "only scheme" },
		{ "endpoint", "http://h?x=1", "only scheme" },
		{ "ami", "image-1", "'image-1'" },
		{ "ami_parameter", "deeplearning", "/aws/service" },
		{ "root_gib", "7", "'7'" },
		{ "root_gib", "lots", "'lots'" },
		{ "root_gib", "16385", "8 to 16384" },
		{ "root_device", "sda1", "'sda1'" },
		{ "public_ip", "maybe", "'maybe'" },
		{ "efa", "yes", "neither on nor off" },
		{ "placement_scores", "yes", "neither on nor off" },
		{ "capacity_manager", "yes", "not on, off or a region" },
		{ "reservations", "1", "is not on, all or off" },
		{ "ami_arm64", "image-1", "'image-1'" },
		{ "advisor_url", "ftp://x", "advisor_url" },
		{ "advisor_url", "https://u@x", "advisor_url" },
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *settings[] = { cases[i].key, cases[i].value, NULL };
		struct spot_err err;

		assert_int_equal(drive_open(&aws_ops, NULL, settings, &err), SPOT_CONFIG);
		if (!strstr(err.text, cases[i].words) || !strstr(err.text, cases[i].key)) {
			fail_msg("%s=%s: %s", cases[i].key, cases[i].value, err.text);
		}
	}
}

static void settings_that_exclude_each_other_are_refused(void **state)
{
	static const char *const both[] = { "ami", "ami-1", "ami_parameter", "/x", NULL };
	static const char *const subnet[] = { "regions", "us-east-1", "subnet.us-east-1", "vpc-1",
		NULL };
	static const char *const groups[] = { "regions", "us-east-1", "security_groups.us-east-1",
		"default", NULL };
	static const char *const queues[] = { "spotbroker-interruptions",
		"https://sqs.us-east-1.amazonaws.com", "https://u@h/1/q" };
	struct spot_err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(queues); i++) {
		const char *settings[] = { "regions", "us-east-1", "interruption_queue.us-east-1",
			queues[i], NULL };

		assert_int_equal(drive_open(&aws_ops, NULL, settings, &err), SPOT_CONFIG);
		assert_non_null(strstr(err.text, "interruption_queue.us-east-1"));
	}
	assert_int_equal(drive_open(&aws_ops, NULL, both, &err), SPOT_CONFIG);
	assert_int_equal(drive_open(&aws_ops, NULL, subnet, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "subnet.us-east-1"));
	assert_int_equal(drive_open(&aws_ops, NULL, groups, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "security_groups.us-east-1"));
}

static void bad_variables_are_refused_by_name(void **state)
{
	static const char *const region[] = { "AWS_REGION", "Nowhere", NULL };
	static const char *const url[] = { "AWS_ENDPOINT_URL_STS", "nonsense", NULL };
	struct spot_err err;

	(void)state;
	assert_int_equal(drive_open(&aws_ops, region, NULL, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "AWS_REGION"));
	assert_int_equal(drive_open(&aws_ops, url, NULL, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "AWS_ENDPOINT_URL_STS"));
}

static void good_settings_open(void **state)
{
	static const char *const all[] = { "regions", " us-east-1 , eu-west-1", "endpoint",
		"http://127.0.0.1:4566/", "ami_parameter", "/mine/{arch}", "root_gib", "100",
		"root_device", "/dev/xvda", "public_ip", "default", "efa", "on", "placement_scores",
		"off", "capacity_manager", "eu-west-1", "advisor_url", "off", "subnet.us-east-1",
		"subnet-1", "security_groups.us-east-1", "sg-1", NULL };
	struct spot_err err;

	(void)state;
	assert_int_equal(drive_open(&aws_ops, NULL, all, &err), SPOT_OK);
	assert_int_equal(drive_open(&aws_ops, NULL, NULL, &err), SPOT_OK);
}

static const struct {
	const char *setting, *env, *env_value, *url;
} endpoints[] = {
	{ "http://127.0.0.1:1", "AWS_ENDPOINT_URL_EC2", "http://127.0.0.1:2",
	    "http://127.0.0.1:1/" },
	{ NULL, "AWS_ENDPOINT_URL_EC2", "http://127.0.0.1:2", "http://127.0.0.1:2/" },
	{ NULL, "AWS_ENDPOINT_URL", "http://127.0.0.1:3/", "http://127.0.0.1:3/" },
	{ NULL, "AWS_ENDPOINT_URL_STS", "http://127.0.0.1:4",
	    "https://ec2.us-east-1.amazonaws.com/" },
	{ NULL, "AWS_REGION", "eu-west-3", "https://ec2.eu-west-3.amazonaws.com/" },
	{ NULL, "AWS_DEFAULT_REGION", "cn-north-1", "https://ec2.cn-north-1.amazonaws.com.cn/" },
	{ NULL, "AWS_REGION", "us-gov-west-1", "https://ec2.us-gov-west-1.amazonaws.com/" },
	{ NULL, "AWS_REGION", "eusc-de-east-1", "https://ec2.eusc-de-east-1.amazonaws.eu/" },
};

static void endpoints_follow_setting_variables_and_partition(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(endpoints); i++) {
		const char *env[] = { "AWS_ACCESS_KEY_ID", "AKX", "AWS_SECRET_ACCESS_KEY", "s",
			endpoints[i].env, endpoints[i].env_value, NULL };
		const char *settings[] = { "endpoint", endpoints[i].setting, NULL };
		struct drive_try t = { .url = endpoints[i].url,
			.status = 200,
			.reply =
			    "<DescribeRegionsResponse><regionInfo/></DescribeRegionsResponse>" };
		struct spot_regions a = { 0 };
		struct drive d;

		drive_init(&d, &aws_ops, env, endpoints[i].setting ? settings : NULL);
		assert_int_equal(drive_run(&d, DRIVE_AUTH, NULL), SPOT_DONE);
		drive_script(&d, &t, 1);
		assert_int_equal(drive_run(&d, DRIVE_REGIONS, &a), SPOT_DONE);
		drive_fini(&d);
	}
}

static void the_vendor_switch_turns_endpoint_variables_off(void **state)
{
	static const char *const env[] = { "AWS_ACCESS_KEY_ID", "AKX", "AWS_SECRET_ACCESS_KEY", "s",
		"AWS_ENDPOINT_URL", "http://127.0.0.1:3", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
		"true", NULL };
	struct spot_regions a = { 0 };
	struct drive d;

	(void)state;
	drive_init(&d, &aws_ops, env, NULL);
	assert_int_equal(drive_run(&d, DRIVE_AUTH, NULL), SPOT_DONE);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_REGIONS, &a,
			     { .url = US_EAST,
				 .status = 200,
				 .reply = "<DescribeRegionsResponse><regionInfo/></"
					  "DescribeRegionsResponse>" }),
	    SPOT_DONE);
	drive_fini(&d);
}

static void named_regions_need_no_request(void **state)
{
	static const char *const settings[] = { "regions", "eu-west-1,us-east-1", NULL };
	struct spot_regions a = { 0 };
	struct drive d;

	(void)state;
	keyed_init(&d, settings);
	assert_int_equal(drive_run(&d, DRIVE_REGIONS, &a), SPOT_DONE);
	assert_int_equal(a.n, 2);
	assert_string_equal(a.names[0], "eu-west-1");
	assert_string_equal(a.names[1], "us-east-1");
	drive_fini(&d);
}

static void the_table_tells_what_the_provider_can(void **state)
{
	(void)state;
	assert_int_equal(aws_ops.abi, SPOT_PROVIDER_ABI);
	assert_int_equal(aws_ops.size, sizeof(aws_ops));
	assert_int_equal(aws_ops.token_scope, SPOT_TOKEN_ZONE);
	assert_int_equal(aws_ops.limits_n, AWS_LIMIT_COUNT);
	for (size_t i = 0; i < aws_ops.limits_n; i++) {
		assert_non_null(aws_ops.limits[i].name);
		assert_true(aws_ops.limits[i].per_second > 0 && aws_ops.limits[i].burst >= 1);
	}
	assert_string_equal(aws_ops.limits[AWS_LIMIT_RUN].name, "RunInstances");
	assert_true(aws_ops.limits[AWS_LIMIT_RUN].per_second <= 2 &&
	    aws_ops.limits[AWS_LIMIT_RUN].burst <= 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_settings_are_refused_by_name),
		cmocka_unit_test(settings_that_exclude_each_other_are_refused),
		cmocka_unit_test(bad_variables_are_refused_by_name),
		cmocka_unit_test(good_settings_open),
		cmocka_unit_test(endpoints_follow_setting_variables_and_partition),
		cmocka_unit_test(the_vendor_switch_turns_endpoint_variables_off),
		cmocka_unit_test(named_regions_need_no_request),
		cmocka_unit_test(the_table_tells_what_the_provider_can),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
