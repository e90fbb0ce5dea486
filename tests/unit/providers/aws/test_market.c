#include "base/base.h"
#include "aws_test.h"

#include "aws_priv.h"

/* pools, prices, signals, quotas: the odd rows, the missing parts, the ends. */

#define POOL(zone, zone_name_, type, m) \
	{ \
		.key = { "aws", "us-east-1", zone, type, SPOT_MARKET_##m }, \
		.zone_name = zone_name_ \
	}
static const struct spot_pool_info known[] = {
	POOL("use1-az1", "us-east-1a", "g5.xlarge", SPOT),
	POOL("use1-az2", "us-east-1b", "g5.xlarge", SPOT),
	POOL("use1-az1", "us-east-1a", "g5.xlarge", ON_DEMAND),
	POOL("use1-az1", "us-east-1a", "p4d.24xlarge", SPOT),
};

static struct spot_prices prices_args(enum spot_market market)
{
	return (struct spot_prices){ .region = "us-east-1",
		.market = market,
		.pools = known,
		.pools_n = ARRAY_LEN(known) };
}

#define ROW(type, price, time, id) \
	"<item><instanceType>" type \
	"</instanceType><productDescription>Linux/UNIX</productDescription><spotPrice>" price \
	"</spotPrice><timestamp>" time \
	"</timestamp><availabilityZone>us-east-1a</availabilityZone><availabilityZoneId>" id \
	"</availabilityZoneId></item>"
#define HISTORY(rows) \
	"<DescribeSpotPriceHistoryResponse><spotPriceHistorySet>" rows \
	"</spotPriceHistorySet><nextToken/>" \
	"</DescribeSpotPriceHistoryResponse>"

static void the_current_spot_price_is_asked_for_from_now_on(void **state)
{
	struct spot_prices a = prices_args(SPOT_MARKET_SPOT);
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_PRICES, &a,
			     { .has = { "StartTime=2015-08-30T12%3A36%3A00Z",
				   "InstanceType.1=g5.xlarge&InstanceType.2=p4d.24xlarge&",
				   "ProductDescription.2=Linux%2FUNIX%20%28Amazon%20VPC%29" },
				 .hasnt = { "InstanceType.3" },
				 .status = 200,
				 .reply = HISTORY(ROW("g5.xlarge", "0.412300",
				     "2015-08-01T00:00:00.000Z", "use1-az1") ROW("g5.xlarge", "0.4",
				     "2015-07-01T00:00:00Z", "use1-az1")
					 ROW("m5.large", "0.1", "x", "use1-az1") ROW("g5.xlarge",
					     "9", "2015-08-01T00:00:00Z", "use1-az9")) }),
	    SPOT_DONE);
	assert_int_equal(a.n, 2);
	assert_int_equal(a.points[0].price_micros, 400000);
	assert_int_equal(a.points[1].price_micros, 412300);
	assert_int_equal(a.points[1].observed_us, DRIVE_NOW_US);
	/* Old marks are cut to the vendor's retention. */
	a = prices_args(SPOT_MARKET_SPOT);
	a.since_us = 1;
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_PRICES, &a,
			     { .has = { "StartTime=2015-06-01T12%3A36%3A00Z" },
				 .status = 200,
				 .reply = HISTORY("") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 0);
	drive_fini(&d);
}

static void prices_that_are_no_prices_make_a_bad_reply(void **state)
{
	static const char *const bad[] = { HISTORY(ROW("g5.xlarge", "free", "2015-08-01T00:00:00Z",
					       "use1-az1")),
		HISTORY(ROW("g5.xlarge", "-1", "2015-08-01T00:00:00Z", "use1-az1")),
		HISTORY(ROW("g5.xlarge", "1e3", "2015-08-01T00:00:00Z", "use1-az1")),
		HISTORY(ROW("g5.xlarge", "", "2015-08-01T00:00:00Z", "use1-az1")),
		HISTORY(ROW("g5.xlarge", "1", "yesterday", "use1-az1")),
		"<DescribeSpotPriceHistoryResponse/>" };
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct drive_try t = { .status = 200, .reply = bad[i] };
		struct spot_prices a = prices_args(SPOT_MARKET_SPOT);
		struct drive d;

		keyed_init(&d, NULL);
		drive_script(&d, &t, 1);
		failed_with(&d, drive_run(&d, DRIVE_PRICES, &a), SPOT_BAD_REPLY,
		    "DescribeSpotPriceHistory");
		drive_fini(&d);
	}
}

static void both_markets_come_in_one_call_and_metal_only_where_there_is_some(void **state)
{
	struct spot_prices a = prices_args(SPOT_MARKET_NONE);
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_PRICES, &a,
			     { .url = US_EAST,
				 .limit = "Describe",
				 .status = 200,
				 .reply = HISTORY("") },
			     { .url = "https://api.pricing.us-east-1.amazonaws.com/",
				 .limit = "pricing",
				 .has = { "marketoption", "capacitystatus" },
				 .status = 200,
				 .reply = "{\"PriceList\":[]}" }),
	    SPOT_DONE);
	a.pools_n = 0;
	assert_int_equal(drive_run(&d, DRIVE_PRICES, &a), SPOT_DONE);
	drive_fini(&d);
}

static void the_price_list_region_is_not_the_resource_region(void **state)
{
	static const struct {
		const char *region, *url;
	} cases[] = {
		{ "ap-northeast-1", "https://api.pricing.ap-south-1.amazonaws.com/" },
		{ "eu-north-1", "https://api.pricing.eu-central-1.amazonaws.com/" },
		{ "sa-east-1", "https://api.pricing.us-east-1.amazonaws.com/" },
		{ "us-gov-west-1", NULL },
		{ "eusc-de-east-1", NULL },
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spot_prices a = prices_args(SPOT_MARKET_ON_DEMAND);
		struct drive_try t = { .url = cases[i].url,
			.has = { cases[i].region },
			.status = 200,
			.reply = "{\"PriceList\":[],\"NextToken\":\"\"}" };
		struct drive d;

		a.region = cases[i].region;
		keyed_init(&d, NULL);
		drive_script(&d, &t, cases[i].url != NULL);
		assert_int_equal(drive_run(&d, DRIVE_PRICES, &a), SPOT_DONE);
		assert_int_equal(a.n, 0);
		drive_fini(&d);
	}
}

/* Spot history has no currency in it: taken for dollars, yuan would rank and bill seven times too
 * high. */
static void prices_in_another_currency_are_not_asked_for(void **state)
{
	static const enum spot_market markets[] = { SPOT_MARKET_SPOT, SPOT_MARKET_ON_DEMAND };
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(markets); i++) {
		struct spot_prices a = prices_args(markets[i]);
		struct drive d;

		a.region = "cn-north-1";
		keyed_init(&d, NULL);
		drive_script(&d, NULL, 0);
		failed_with(&d, drive_run(&d, DRIVE_PRICES, &a), SPOT_CONFIG, "CNY");
		drive_fini(&d);
	}
}

static void price_lists_of_the_wrong_shape_are_bad_replies(void **state)
{
	static const char *const bad[] = { "{}", "[]", "{\"PriceList\":{}}", "{\"PriceList\":[{}]}",
		"{\"PriceList\":[\"{\"]}", "{\"PriceList\":[\"\"]}", "{\"PriceList\":[]} x",
		"{\"PriceList\":[],\"PriceList\":[]}" };
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct drive_try t = { .status = 200, .reply = bad[i] };
		struct spot_prices a = prices_args(SPOT_MARKET_ON_DEMAND);
		struct drive d;

		keyed_init(&d, NULL);
		drive_script(&d, &t, 1);
		failed_with(&d, drive_run(&d, DRIVE_PRICES, &a), SPOT_BAD_REPLY, "GetProducts");
		drive_fini(&d);
	}
}

/* ---- signals --------------------------------------------------------------------------------- */

#define RANGES \
	"\"ranges\":[{\"index\":0,\"label\":\"<5%\"},{\"index\":1,\"label\":\"5-10%\"},{" \
	"\"index\":2,\"label\":\"10-15%\"}," \
	"{\"index\":3,\"label\":\"15-20%\"},{\"index\":4,\"label\":\">20%\"}]"
#define ADVISOR(rows) "{" RANGES ",\"spot_advisor\":{\"us-east-1\":{\"Linux\":{" rows "}}}}"

static const char *const unmanaged[] = { "capacity_manager", "off", NULL };

static struct spot_signals signals_args(void)
{
	return (struct spot_signals){ .region = "us-east-1",
		.pools = known,
		.pools_n = ARRAY_LEN(known) };
}

static void scores_that_are_refused_leave_the_advisor(void **state)
{
	static const char *const codes[] = { "UnauthorizedOperation",
		"MaxConfigLimitExceededException", "InvalidAction" };
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		struct spot_signals a = signals_args();
		struct drive d;

		keyed_init(&d, unmanaged);
		struct drive_try script[] = {
			{ .has = { "Action=GetSpotPlacementScores",
			      "InstanceType.3=", "SingleAvailabilityZone=true",
			      "RegionName.1=us-east-1", "TargetCapacity=1&" },
			    .status = 400,
			    .reply = arena_printf(d.arena, EC2_XML("%s", "m"), codes[i]) },
			{ .method = "GET",
			    .url =
				"https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json",
			    .headers = { "!authorization" },
			    .limit = "advisor",
			    .status = 200,
			    .reply = ADVISOR(
				"\"g5.xlarge\":{\"s\":59,\"r\":4},\"m5.large\":{\"r\":\"odd\"}") },
		};
		drive_script(&d, script, 2);
		assert_int_equal(drive_run(&d, DRIVE_SIGNALS, &a), SPOT_DONE);
		assert_int_equal(a.n, 1);
		assert_int_equal(a.signals[0].kind, SPOT_SIGNAL_ADVISOR_BUCKET);
		assert_true(
		    a.signals[0].value == 4 && a.signals[0].lo == 0.2 && a.signals[0].hi == 1.0);
		drive_fini(&d);
	}
}

static void an_advisor_of_another_shape_is_refused(void **state)
{
	static const char *const settings[] = { "placement_scores", "off", "capacity_manager",
		"off", "advisor_url", "https://mirror.example.test/a.json", NULL };
	static const char *const bad[] = { "{}", "{\"ranges\":[]}", "{" RANGES "}",
		"{" RANGES ",\"spot_advisor\":[]}", ADVISOR("\"g5.xlarge\":{\"r\":5}"),
		ADVISOR("\"g5.xlarge\":{\"r\":-1}"), ADVISOR("\"g5.xlarge\":{\"r\":1.5}"),
		ADVISOR("\"g5.xlarge\":7"), "null", "<html>" };
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct drive_try t = { .url = "https://mirror.example.test/a.json",
			.status = 200,
			.reply = bad[i] };
		struct spot_signals a = signals_args();
		struct drive d;

		keyed_init(&d, settings);
		drive_script(&d, &t, 1);
		failed_with(&d, drive_run(&d, DRIVE_SIGNALS, &a), SPOT_BAD_REPLY, "spot-advisor");
		drive_fini(&d);
	}
}

static void signals_can_be_turned_off(void **state)
{
	static const char *const off[] = { "placement_scores", "off", "capacity_manager", "off",
		"advisor_url", "off", NULL };
	struct spot_signals a = signals_args();
	struct drive d;

	(void)state;
	keyed_init(&d, off);
	assert_int_equal(drive_run(&d, DRIVE_SIGNALS, &a), SPOT_DONE);
	assert_int_equal(a.n, 0);
	drive_fini(&d);
}

static void scores_survive_a_broken_advisor(void **state)
{
	struct spot_signals a = signals_args();
	struct drive d;

	(void)state;
	keyed_init(&d, unmanaged);
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_SIGNALS, &a,
		{ .status = 200,
		    .reply = "<GetSpotPlacementScoresResponse><spotPlacementScoreSet><item><"
			     "availabilityZoneId>use1-az2"
			     "</availabilityZoneId><score>9</score></"
			     "item><item><availabilityZoneId>use1-az1</availabilityZoneId>"
			     "<score>11</score></item></spotPlacementScoreSet></"
			     "GetSpotPlacementScoresResponse>" },
		{ .status = 200, .reply = "<GetSpotPlacementScoresResponse/>" },
		{ .status = 404, .reply = "gone" }),
	    SPOT_DONE);
	assert_int_equal(a.n, 1);
	assert_string_equal(a.signals[0].key.zone, "use1-az2");
	drive_fini(&d);
}

/* ---- quotas ---------------------------------------------------------------------------------- */

#define QUOTA(name, value) "{\"QuotaName\":\"" name "\",\"Value\":" value "}"

static int64_t quota_of(const struct spot_quotas *a, const char *class)
{
	for (size_t i = 0; i < a->n; i++) {
		if (strcmp(a->quotas[i].class, class) == 0) {
			return a->quotas[i].limit;
		}
	}
	fail_msg("no quota %s", class);
	return 0;
}

static void quota_names_of_all_ages_are_understood(void **state)
{
	struct spot_quotas a = { .region = "us-east-1" };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_QUOTAS, &a,
			     { .url = "https://servicequotas.us-east-1.amazonaws.com/",
				 .status = 200,
				 .reply = "{\"Quotas\":[" QUOTA("All P Spot Instance Requests",
				     "64.0") "," QUOTA("All P6 Spot Instance Requests",
				     "8") "," QUOTA("All G and VT Spot Instance Requests",
				     "32") "," QUOTA("Running On-Demand P instances",
				     "16.0") "," QUOTA("Running On-Demand G instances",
				     "4") "," QUOTA("All Standard (A, G, P) Spot Instance Requests",
				     "999") "," QUOTA("All Inf Spot Instance Requests",
				     "999") "," QUOTA("Running On-Demand HPC instances",
				     "999") "]}" }),
	    SPOT_DONE);
	assert_int_equal(quota_of(&a, "P/Spot"), 64);
	assert_int_equal(quota_of(&a, "P5/Spot"), 64);
	assert_int_equal(quota_of(&a, "P6/Spot"), 8);
	assert_int_equal(quota_of(&a, "G/Spot"), 32);
	assert_int_equal(quota_of(&a, "P/OnDemand"), 16);
	assert_int_equal(quota_of(&a, "G/OnDemand"), 4);
	drive_fini(&d);
}

static void quotas_that_are_not_listed_are_asked_for_by_code(void **state)
{
	struct spot_quotas a = { .region = "us-east-1" };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_QUOTAS, &a,
		{ .has = { "\"ServiceCode\":\"ec2\"" },
		    .status = 200,
		    .reply = "{\"Quotas\":[" QUOTA("Running On-Demand P instances",
			"16") "," QUOTA("Running On-Demand G and VT instances", "-3") "]}" },
		{ .headers = { "x-amz-target: ServiceQuotasV20190624.GetAWSDefaultServiceQuota" },
		    .has = { "L-DB2E81BA" },
		    .status = 200,
		    .reply = "{\"Quota\":{\"Value\":0.0}}" },
		{ .has = { "L-7212CCBC" },
		    .status = 400,
		    .reply = "{\"__type\":\"NoSuchResourceException\"}" },
		{ .has = { "L-C4BD4855" },
		    .status = 400,
		    .reply = "{\"__type\":\"TooManyRequestsException\"}" },
		{ .has = { "L-C4BD4855" }, .status = 200, .reply = "{\"Quota\":{\"Value\":5}}" },
		{ .has = { "L-3819A6DF" }, .status = 200, .reply = "{\"Quota\":{\"Value\":6}}" }),
	    SPOT_DONE);
	assert_int_equal(quota_of(&a, "G/OnDemand"), 0);
	assert_int_equal(quota_of(&a, "P/Spot"), -1);
	assert_int_equal(quota_of(&a, "P5/Spot"), 5);
	assert_int_equal(quota_of(&a, "P6/Spot"), -1);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_QUOTAS, &a, { .status = 200, .reply = "{\"Quotas\":[{}]}" }),
	    SPOT_BAD_REPLY, "QuotaName");
	drive_fini(&d);
}

/* ---- pools ----------------------------------------------------------------------------------- */

static void pools_and_quotas_agree_on_class_names(void **state)
{
	static const struct {
		const char *type;
		enum spot_market market;
		const char *class;
	} cases[] = {
		{ "p3.2xlarge", SPOT_MARKET_SPOT, "P/Spot" },
		{ "p4d.24xlarge", SPOT_MARKET_SPOT, "P/Spot" },
		{ "p5.4xlarge", SPOT_MARKET_SPOT, "P5/Spot" },
		{ "p5en.48xlarge", SPOT_MARKET_SPOT, "P5/Spot" },
		{ "p6-b200.48xlarge", SPOT_MARKET_SPOT, "P6/Spot" },
		{ "p6-b200.48xlarge", SPOT_MARKET_ON_DEMAND, "P/OnDemand" },
		{ "g6e.xlarge", SPOT_MARKET_SPOT, "G/Spot" },
		{ "gr6f.4xlarge", SPOT_MARKET_SPOT, "G/Spot" },
		{ "g4dn.metal", SPOT_MARKET_ON_DEMAND, "G/OnDemand" },
	};
	struct arena *a = arena_new(0);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_string_equal(aws_quota_class(a, cases[i].type, cases[i].market),
		    cases[i].class);
	}
	arena_free(a);
}

#define GPU_TYPE(name, mib) \
	"<DescribeInstanceTypesResponse><instanceTypeSet><item><instanceType>x1.large</" \
	"instanceType><supportedUsageClasses>" \
	"<item>spot</item></supportedUsageClasses><gpuInfo><gpus><item><name>" name \
	"</name><manufacturer>NVIDIA</manufacturer>" \
	"<count>1</count><memoryInfo><sizeInMiB>" mib \
	"</sizeInMiB></memoryInfo></item></gpus></gpuInfo></item></instanceTypeSet>" \
	"</DescribeInstanceTypesResponse>"
#define ZONES \
	"<DescribeAvailabilityZonesResponse><availabilityZoneInfo><item><zoneId>use1-az1</" \
	"zoneId></item></availabilityZoneInfo>" \
	"</DescribeAvailabilityZonesResponse>"
#define OFFERED \
	"<DescribeInstanceTypeOfferingsResponse><instanceTypeOfferingSet><item><instanceType>x1." \
	"large</instanceType>" \
	"<location>use1-az1</location></item></instanceTypeOfferingSet></" \
	"DescribeInstanceTypeOfferingsResponse>"

static void gpu_names_are_those_of_the_catalogue(void **state)
{
	static const struct {
		const char *reply, *name;
	} cases[] = {
		{ GPU_TYPE("V100", "16384"), "V100-16GB" },
		{ GPU_TYPE("V100", "32768"), "V100-32GB" },
		{ GPU_TYPE("A100", "40960"), "A100-40GB" },
		{ GPU_TYPE("A100", "81920"), "A100-80GB" },
		{ GPU_TYPE("H100", "81920"), "H100-80GB-SXM" },
		{ GPU_TYPE("H200", "144384"), "H200" },
		{ GPU_TYPE("B200", "183359"), "B200" },
		{ GPU_TYPE("B300", "275040"), "B300" },
		{ GPU_TYPE("T4g", "16384"), "T4G" },
		{ GPU_TYPE("T4", "16384"), "T4" },
		{ GPU_TYPE("A10G", "22888"), "A10G" },
		{ GPU_TYPE("L40S", "45776"), "L40S" },
		{ GPU_TYPE("RTX PRO 4500", "32768"), "RTXPRO4500-32GB" },
		{ GPU_TYPE("RTX PRO Server 6000", "98304"), "RTXPRO6000-96GB" },
		{ GPU_TYPE("Tesla M60", "8192"), "M60" },
		{ GPU_TYPE("New GPU 9", "1"), "NewGPU9" },
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spot_pools a = { .region = "us-east-1" };
		struct drive_try script[] = { { .status = 200, .reply = ZONES },
			{ .status = 200, .reply = cases[i].reply },
			{ .status = 200, .reply = OFFERED } };
		struct drive d;

		keyed_init(&d, NULL);
		drive_script(&d, script, 3);
		assert_int_equal(drive_run(&d, DRIVE_POOLS, &a), SPOT_DONE);
		assert_int_equal(a.n, 1);
		assert_string_equal(a.pools[0].shape.gpu_name, cases[i].name);
		drive_fini(&d);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_current_spot_price_is_asked_for_from_now_on),
		cmocka_unit_test(prices_that_are_no_prices_make_a_bad_reply),
		cmocka_unit_test(both_markets_come_in_one_call_and_metal_only_where_there_is_some),
		cmocka_unit_test(the_price_list_region_is_not_the_resource_region),
		cmocka_unit_test(prices_in_another_currency_are_not_asked_for),
		cmocka_unit_test(price_lists_of_the_wrong_shape_are_bad_replies),
		cmocka_unit_test(scores_that_are_refused_leave_the_advisor),
		cmocka_unit_test(an_advisor_of_another_shape_is_refused),
		cmocka_unit_test(signals_can_be_turned_off),
		cmocka_unit_test(scores_survive_a_broken_advisor),
		cmocka_unit_test(quota_names_of_all_ages_are_understood),
		cmocka_unit_test(quotas_that_are_not_listed_are_asked_for_by_code),
		cmocka_unit_test(pools_and_quotas_agree_on_class_names),
		cmocka_unit_test(gpu_names_are_those_of_the_catalogue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
