#include "base/base.h"
#include "aws_test.h"

/* RunInstances: the request by settings and arguments, and refusals before any request. */

#define OK_REPLY \
	"<RunInstancesResponse><instancesSet><item><instanceId>i-1</instanceId></item></" \
	"instancesSet></RunInstancesResponse>"
static const char *const image[] = { "ami", "ami-1", NULL };

static struct spot_launch launch_args(void)
{
	return (struct spot_launch){ .key = { "aws", "us-east-1", "use1-az4", "g5.xlarge",
					 SPOT_MARKET_SPOT },
		.zone_name = "us-east-1a",
		.shape = { .arch = "x86_64" },
		.token = "t-1",
		.name = "n-1",
		.install = "i-1" };
}

static void requests_that_cannot_be_right_are_refused_unsent(void **state)
{
	static const struct spot_tag aws_tag[] = { { "aws:x", "y" } },
				     ours[] = { { "spotbroker:install", "other" } },
				     empty[] = { { "", "y" } }, null_value[] = { { "k", NULL } };
	static char big[16385], token[66], value[300];
	struct spot_launch bad[14];
	struct drive d;

	(void)state;
	memset(big, 'x', sizeof(big));
	memset(token, 't', sizeof(token) - 1);
	memset(value, 'v', sizeof(value) - 1);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		bad[i] = launch_args();
	}
	bad[0].token = "";
	bad[1].token = token;
	bad[2].token = NULL;
	bad[3].user_data = (struct str){ big, sizeof(big) };
	bad[4].tags = aws_tag;
	bad[5].tags = ours;
	bad[6].tags = empty;
	bad[7].tags = null_value;
	for (size_t i = 4; i <= 7; i++) {
		bad[i].tags_n = 1;
	}
	bad[8].key.market = SPOT_MARKET_RESERVED;
	bad[9].key.instance_type = "";
	bad[10].key.zone = bad[10].zone_name = "";
	bad[11].install = "";
	bad[12].install = value;
	bad[13].tags = aws_tag;
	bad[13].tags_n = 49;
	keyed_init(&d, image);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		failed_with(&d, drive_run(&d, DRIVE_LAUNCH, &bad[i]), SPOT_INVALID, "aws launch");
	}
	drive_fini(&d);
}

static void user_data_of_sixteen_kib_is_taken(void **state)
{
	static char data[16384];
	struct spot_launch a = launch_args();
	struct drive d;

	(void)state;
	memset(data, '#', sizeof(data));
	a.user_data = (struct str){ data, sizeof(data) };
	keyed_init(&d, image);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .has = { "&UserData=IyMj" }, .status = 200, .reply = OK_REPLY }),
	    SPOT_DONE);
	drive_fini(&d);
}

static void spot_and_on_demand_differ_where_they_must(void **state)
{
	struct spot_launch a = launch_args();
	struct drive d;

	(void)state;
	keyed_init(&d, image);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .has = { "MarketType=spot", "SpotInstanceType=one-time",
				   "InstanceInterruptionBehavior=terminate",
				   "ResourceType=spot-instances-request",
				   "InstanceInitiatedShutdownBehavior=terminate",
				   "HttpTokens=required", "HttpPutResponseHopLimit=2",
				   "MinCount=1&MaxCount=1" },
				 .hasnt = { "MaxPrice", "CapacityReservation", "UserData",
				     "SubnetId", "BlockDevice", "IamInstance" },
				 .status = 200,
				 .reply = OK_REPLY }),
	    SPOT_DONE);
	a.price_cap_micros = 2500000;
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .has = { "SpotOptions.MaxPrice=2.500000&" },
				 .status = 200,
				 .reply = OK_REPLY }),
	    SPOT_DONE);
	a.key.market = SPOT_MARKET_ON_DEMAND;
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .has = { "CapacityReservationPreference=none" },
				 .hasnt = { "InstanceMarketOptions", "spot-instances-request" },
				 .status = 200,
				 .reply = OK_REPLY }),
	    SPOT_DONE);
	drive_fini(&d);
}

static void the_nearest_subnet_setting_wins(void **state)
{
	static const struct {
		const char *settings[7], *subnet;
	} cases[] = {
		{ { "ami", "ami-1", "subnet.us-east-1", "subnet-3", "subnet.use1-az4", "subnet-1" },
		    "&SubnetId=subnet-1&" },
		{ { "ami", "ami-1", "subnet.us-east-1", "subnet-3", "subnet.us-east-1a",
		      "subnet-2" },
		    "&SubnetId=subnet-2&" },
		{ { "ami", "ami-1", "subnet.us-east-1", "subnet-3" }, "&SubnetId=subnet-3&" },
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct drive_try t = { .has = { cases[i].subnet,
					   "Placement.AvailabilityZone=us-east-1a" },
			.status = 200,
			.reply = OK_REPLY };
		struct spot_launch a = launch_args();
		struct drive d;

		keyed_init(&d, cases[i].settings);
		drive_script(&d, &t, 1);
		assert_int_equal(drive_run(&d, DRIVE_LAUNCH, &a), SPOT_DONE);
		drive_fini(&d);
	}
}

static void network_settings_that_are_no_ids_fail_as_configuration(void **state)
{
	static const char *const subnet[] = { "ami", "ami-1", "subnet.use1-az4", "vpc-1", NULL };
	static const char *const groups[] = { "ami", "ami-1", "security_groups.us-east-1",
		"sg-1,default", NULL };
	struct spot_launch a = launch_args();
	struct drive d;

	(void)state;
	keyed_init(&d, subnet);
	failed_with(&d, drive_run(&d, DRIVE_LAUNCH, &a), SPOT_CONFIG, "use1-az4");
	drive_fini(&d);
	keyed_init(&d, groups);
	failed_with(&d, drive_run(&d, DRIVE_LAUNCH, &a), SPOT_CONFIG, "security_groups.us-east-1");
	drive_fini(&d);
}

static void a_zone_without_a_name_is_given_by_id(void **state)
{
	struct spot_launch a = launch_args();
	struct drive d;

	(void)state;
	a.zone_name = "";
	keyed_init(&d, image);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .has = { "Placement.AvailabilityZoneId=use1-az4" },
				 .status = 200,
				 .reply = OK_REPLY }),
	    SPOT_DONE);
	drive_fini(&d);
}

#define SSM_REPLY "{\"Parameter\":{\"Value\":\"ami-9\"}}"

static void the_image_is_looked_up_by_architecture_and_stays_over_repeats(void **state)
{
	struct spot_launch a = launch_args();
	struct drive d;

	(void)state;
	a.shape.arch = "arm64";
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .url = "https://ssm.us-east-1.amazonaws.com/",
				 .has = { "/ami/arm64/base-oss" },
				 .mutating = -1,
				 .status = 500 },
			     { .url = "https://ssm.us-east-1.amazonaws.com/",
				 .status = 200,
				 .reply = SSM_REPLY },
			     { .url = US_EAST,
				 .has = { "ImageId=ami-9&" },
				 .mutating = 1,
				 .status = 503,
				 .reply = EC2_XML("RequestLimitExceeded", "m") },
			     { .url = US_EAST,
				 .has = { "ImageId=ami-9&" },
				 .mutating = 1,
				 .status = 200,
				 .reply = OK_REPLY }),
	    SPOT_DONE);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
		{ .status = 200, .reply = "{\"Parameter\":{\"Value\":\"x\"}}" }),
	    SPOT_BAD_REPLY, "not an image id");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, { .status = 200, .reply = "{\"Parameter\":null}" }),
	    SPOT_BAD_REPLY, NULL);
	drive_fini(&d);
}

static void a_lost_reply_is_unknown(void **state)
{
	struct spot_launch a = launch_args();
	struct drive d;

	(void)state;
	keyed_init(&d, image);
	failed_with(&d, RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, { .mutating = 1, .status = 0 }),
	    SPOT_UNKNOWN, "may have happened");
	assert_int_equal(spot_rc_act(SPOT_UNKNOWN), SPOT_ACT_ASK_FIRST);
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_that_cannot_be_right_are_refused_unsent),
		cmocka_unit_test(user_data_of_sixteen_kib_is_taken),
		cmocka_unit_test(spot_and_on_demand_differ_where_they_must),
		cmocka_unit_test(the_nearest_subnet_setting_wins),
		cmocka_unit_test(network_settings_that_are_no_ids_fail_as_configuration),
		cmocka_unit_test(a_zone_without_a_name_is_given_by_id),
		cmocka_unit_test(the_image_is_looked_up_by_architecture_and_stays_over_repeats),
		cmocka_unit_test(a_lost_reply_is_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
