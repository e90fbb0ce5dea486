#include "base/base.h"
#include "aws_test.h"

/* The check before trusting a configuration: its requests, and the verdict on each answer. */

#define WHO \
	"<GetCallerIdentityResponse><GetCallerIdentityResult><Account>123456789012</Account>" \
	"</GetCallerIdentityResult></GetCallerIdentityResponse>"
#define NONE_ENDED "<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>"
#define ONE_ENDED \
	"<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>i-0abc" \
	"</instanceId></item></instancesSet></item></reservationSet></DescribeInstancesResponse>"
#define QUOTAS(g) \
	"{\"Quotas\":[{\"QuotaName\":\"All G and VT Spot Instance Requests\",\"Value\":" g "}," \
	"{\"QuotaName\":\"Running On-Demand G and VT instances\",\"Value\":64.0}," \
	"{\"QuotaName\":\"Running On-Demand P instances\",\"Value\":0.0}," \
	"{\"QuotaName\":\"All P4, P3 and P2 Spot Instance Requests\",\"Value\":0.0}," \
	"{\"QuotaName\":\"All P5 Spot Instance Requests\",\"Value\":0.0}]}"
#define DRY EC2_XML("DryRunOperation", "would have succeeded")
#define FORBIDDEN EC2_XML("UnauthorizedOperation", "You are not authorized")
#define TRY_DRY(what) \
	{ \
		.has = { "Action=" what "&", "DryRun=true" }, .mutating = -1, .status = 412, \
		.reply = DRY \
	}
#define READ_ALL \
	TRY_DRY("DescribeAvailabilityZones"), TRY_DRY("DescribeInstanceTypes"), \
	    TRY_DRY("DescribeInstanceTypeOfferings"), TRY_DRY("DescribeSpotPriceHistory"), \
	    TRY_DRY("DescribeSpotInstanceRequests"), TRY_DRY("DescribeInstanceStatus")
#define SCORES TRY_DRY("GetSpotPlacementScores")
#define MANAGER(words) \
	{ \
		.url = US_EAST, .has = { "Action=GetCapacityManagerAttributes&" }, \
		.hasnt = { "DryRun" }, .status = 200, \
		.reply = "<GetCapacityManagerAttributesResponse>" words \
			 "</GetCapacityManagerAttributesResponse>" \
	}
#define MANAGED \
	MANAGER("<capacityManagerStatus>enabled</capacityManagerStatus>" \
		"<latestDatapointTimestamp>2015-08-30T10:00:00.000Z</latestDatapointTimestamp>"), \
	    TRY_DRY("GetCapacityManagerMetricData")
#define GROUPS TRY_DRY("CreatePlacementGroup"), TRY_DRY("DescribePlacementGroups")
#define PRICES \
	{ \
		.has = { "\"MaxResults\":1" }, .status = 200, .reply = "{\"PriceList\":[\"{}\"]}" \
	}

static const char *const plain[] = { "ami", "ami-1", "regions", "us-east-1", NULL };
static const struct spot_pool_info pools[] = {
	{ .key = { "aws", "us-east-1", "use1-az4", "g5.xlarge", SPOT_MARKET_SPOT },
	    .zone_name = "us-east-1a",
	    .shape = { .arch = "x86_64", .vcpus = 4 },
	    .quota_class = "G/Spot" },
	{ .key = { "aws", "us-east-1", "use1-az4", "g5.xlarge", SPOT_MARKET_ON_DEMAND },
	    .zone_name = "us-east-1a",
	    .shape = { .arch = "x86_64", .vcpus = 4 },
	    .quota_class = "G/OnDemand" },
	{ .key = { "aws", "us-east-1", "use1-az4", "p6-b200.48xlarge", SPOT_MARKET_SPOT },
	    .shape = { .arch = "x86_64", .vcpus = 192 },
	    .quota_class = "P6/Spot" },
	{ .key = { "aws", "eu-west-1", "euw1-az1", "p5.48xlarge", SPOT_MARKET_SPOT },
	    .quota_class = "P5/Spot" },
};

static struct spot_check check_args(void)
{
	return (struct spot_check){ .region = "us-east-1",
		.pools = pools,
		.pools_n = ARRAY_LEN(pools),
		.install = "7f3a" };
}

static const struct spot_check_item *item_find(const struct spot_check *c, const char *name)
{
	for (size_t i = 0; i < c->n; i++) {
		if (strcmp(c->items[i].name, name) == 0) {
			return &c->items[i];
		}
	}
	fail_msg("no item '%s'", name);
	return NULL;
}

static void everything_in_order_is_found_so(void **state)
{
	struct spot_check c = check_args();
	struct drive d;

	(void)state;
	keyed_init(&d, plain);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_CHECK, &c,
			     { .url = "https://sts.us-east-1.amazonaws.com/",
				 .status = 200,
				 .reply_headers = { "Date: Sun, 30 Aug 2015 12:36:10 GMT" },
				 .reply = WHO },
			     { .has = { "Action=RunInstances&", "DryRun=true", "MarketType=spot",
				   "ImageId=ami-1&", "Value=7f3a" },
				 .mutating = -1,
				 .status = 412,
				 .reply = DRY },
			     { .has = { "Action=RunInstances&", "DryRun=true", "Preference=none" },
				 .hasnt = { "MarketType" },
				 .mutating = -1,
				 .status = 412,
				 .reply = DRY },
			     { .has = { "Action=DescribeInstances&", "Value.1=terminated" },
				 .status = 200,
				 .reply = ONE_ENDED },
			     { .has = { "Action=TerminateInstances&", "DryRun=true",
				   "InstanceId.1=i-0abc" },
				 .mutating = -1,
				 .status = 412,
				 .reply = DRY },
			     READ_ALL, SCORES, MANAGED, GROUPS, PRICES,
			     { .status = 200, .reply = QUOTAS("64.0") }),
	    SPOT_DONE);
	for (size_t i = 0; i < c.n; i++) {
		bool unknown = strcmp(c.items[i].name, "quota P6/Spot") == 0;

		if (c.items[i].state != (unknown ? SPOT_CHECK_WARN : SPOT_CHECK_OK)) {
			fail_msg("%s: %s", c.items[i].name, c.items[i].words);
		}
	}
	assert_string_equal(item_find(&c, "credentials")->words, "account 123456789012");
	assert_non_null(strstr(item_find(&c, "quota G/Spot")->words, "64 vCPUs"));
	assert_non_null(
	    strstr(item_find(&c, "capacity manager")->words, "newest data of 2015-08-30T10:00"));
	assert_int_equal(c.n, 23);
	drive_fini(&d);
}

/* Not enabled is no fault, but the rates may not be read either. */
static void manager_is_off(const struct spot_check *c)
{
	assert_int_equal(item_find(c, "capacity manager")->state, SPOT_CHECK_OK);
	assert_non_null(strstr(item_find(c, "capacity manager")->words,
	    "aws ec2 enable-capacity-manager --region us-east-1"));
	assert_int_equal(item_find(c, "fulfilment rates")->state, SPOT_CHECK_WARN);
}

static void refusals_are_listed_item_by_item(void **state)
{
	static const char *const no_ami[] = { "regions", "us-east-1", "placement_scores", "on",
		"subnet.use1-az4", "subnet-7", NULL };
	struct spot_check c = check_args();
	struct drive d;

	(void)state;
	keyed_init(&d, no_ami);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_CHECK, &c,
			     { .status = 200,
				 .reply_headers = { "Date: Sun, 30 Aug 2015 12:39:00 GMT" },
				 .reply = WHO },
			     { .url = "https://ssm.us-east-1.amazonaws.com/",
				 .status = 200,
				 .reply = "{\"Parameter\":{\"Value\":\"ami-9\"}}" },
			     { .has = { "ImageId=ami-9&" }, .status = 403, .reply = FORBIDDEN },
			     { .has = { "SubnetId=subnet-7" },
				 .status = 400,
				 .reply = EC2_XML("InvalidSubnetID.NotFound", "no such subnet") },
			     { .status = 200, .reply = NONE_ENDED },
			     { .has = { "InstanceId.1=i-0123456789abcdef0" },
				 .status = 403,
				 .reply = FORBIDDEN },
			     READ_ALL,
			     { .has = { "GetSpotPlacementScores" },
				 .status = 403,
				 .reply = FORBIDDEN },
			     MANAGER("<capacityManagerStatus>disabled</capacityManagerStatus>"),
			     { .has = { "GetCapacityManagerMetricData" },
				 .status = 403,
				 .reply = FORBIDDEN },
			     { .has = { "CreatePlacementGroup", "Strategy=cluster", "DryRun=true" },
				 .mutating = -1,
				 .status = 403,
				 .reply = FORBIDDEN },
			     TRY_DRY("DescribePlacementGroups"),
			     { .status = 400,
				 .reply =
				     "{\"__type\":\"AccessDeniedException\",\"message\":\"no\"}" },
			     { .status = 200, .reply = QUOTAS("2.0") }),
	    SPOT_DONE);
	assert_int_equal(item_find(&c, "clock")->state, SPOT_CHECK_WARN);
	assert_int_equal(item_find(&c, "launch spot")->state, SPOT_CHECK_BAD);
	assert_non_null(strstr(item_find(&c, "launch spot")->fix, "aws-policy.json"));
	assert_int_equal(item_find(&c, "launch on-demand")->state, SPOT_CHECK_BAD);
	assert_non_null(strstr(item_find(&c, "launch on-demand")->fix, "subnet"));
	/* A policy for tagged machines refuses a made-up one: that says nothing. */
	assert_int_equal(item_find(&c, "terminate")->state, SPOT_CHECK_UNTESTED);
	assert_int_equal(item_find(&c, "placement scores")->state, SPOT_CHECK_WARN);
	manager_is_off(&c);
	assert_int_equal(item_find(&c, "placement group")->state, SPOT_CHECK_WARN);
	assert_non_null(strstr(item_find(&c, "placement group")->fix, "network_tier: best"));
	assert_int_equal(item_find(&c, "on-demand prices")->state, SPOT_CHECK_BAD);
	assert_int_equal(item_find(&c, "quota G/Spot")->state, SPOT_CHECK_BAD);
	for (size_t i = 0; i < c.n; i++) {
		assert_true(c.items[i].state == SPOT_CHECK_OK || *c.items[i].fix != '\0');
	}
	drive_fini(&d);
}

static void a_setting_that_builds_no_request_is_an_item_too(void **state)
{
	static const char *const wrong[] = { "ami", "ami-1", "regions", "us-east-1",
		"subnet.use1-az4", "vpc-1", "placement_scores", "off", "reservations", "all",
		NULL };
	struct spot_check c = check_args();
	struct drive d;

	(void)state;
	keyed_init(&d, wrong);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_CHECK, &c, { .status = 200, .reply = WHO },
			     { .status = 200, .reply = NONE_ENDED }, TRY_DRY("TerminateInstances"),
			     READ_ALL, MANAGED, TRY_DRY("DescribeCapacityReservations"), GROUPS,
			     PRICES, { .status = 200, .reply = QUOTAS("64.0") }),
	    SPOT_DONE);
	assert_int_equal(item_find(&c, "launch spot")->state, SPOT_CHECK_BAD);
	assert_non_null(strstr(item_find(&c, "launch spot")->words, "vpc-1"));
	assert_non_null(strstr(item_find(&c, "reservations")->words,
	    "interruptible ones are left alone, since interruption_queue.us-east-1 is not set"));
	assert_int_equal(item_find(&c, "clock")->state, SPOT_CHECK_UNTESTED);
	drive_fini(&d);
}

static void an_endpoint_that_does_not_know_dry_runs_is_found_out(void **state)
{
	struct spot_check c = check_args();
	struct drive d;

	(void)state;
	keyed_init(&d, plain);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_CHECK, &c, { .status = 200, .reply = WHO },
			     { .status = 200, .reply = "<RunInstancesResponse/>" },
			     TRY_DRY("RunInstances"), { .status = 200, .reply = NONE_ENDED },
			     TRY_DRY("TerminateInstances"), READ_ALL, SCORES, MANAGED, GROUPS,
			     PRICES, { .status = 200, .reply = QUOTAS("64.0") }),
	    SPOT_DONE);
	assert_int_equal(item_find(&c, "launch spot")->state, SPOT_CHECK_BAD);
	assert_non_null(strstr(item_find(&c, "launch spot")->words, "DryRun"));
	drive_fini(&d);
}

static void no_pool_means_no_launch_to_try(void **state)
{
	static const char *const queued[] = { "regions", "us-east-1",
		"interruption_queue.us-east-1", "https://sqs.us-east-1.amazonaws.com/1/q", NULL };
	struct spot_check c = { .region = "us-east-1" };
	struct drive d;

	(void)state;
	keyed_init(&d, queued);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_CHECK, &c, { .status = 200, .reply = WHO },
			     { .status = 503, .reply = EC2_XML("RequestLimitExceeded", "m") },
			     { .status = 200, .reply = NONE_ENDED }, TRY_DRY("TerminateInstances"),
			     READ_ALL, SCORES, MANAGED, GROUPS, PRICES,
			     { .has = { "\"VisibilityTimeout\":0", "\"WaitTimeSeconds\":0" },
				 .status = 400,
				 .reply = "{\"__type\":\"com.amazonaws.sqs#QueueDoesNotExist\","
					  "\"message\":\"m\"}" },
			     { .status = 200, .reply = QUOTAS("0.0") }),
	    SPOT_DONE);
	assert_int_equal(item_find(&c, "launch")->state, SPOT_CHECK_UNTESTED);
	assert_int_equal(item_find(&c, "interruption queue")->state, SPOT_CHECK_BAD);
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_in_order_is_found_so),
		cmocka_unit_test(refusals_are_listed_item_by_item),
		cmocka_unit_test(a_setting_that_builds_no_request_is_an_item_too),
		cmocka_unit_test(an_endpoint_that_does_not_know_dry_runs_is_found_out),
		cmocka_unit_test(no_pool_means_no_launch_to_try),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
