/* Fulfilment rates by Capacity Manager: when they are asked for, how hours and pools add up, and
 * that their absence harms nothing. */
#include "aws_test.h"

#include <math.h>

#define ATTRIBUTES(words) \
	"<GetCapacityManagerAttributesResponse>" words "</GetCapacityManagerAttributesResponse>"
#define ENABLED(latest) \
	ATTRIBUTES("<capacityManagerStatus>enabled</" \
		   "capacityManagerStatus><latestDatapointTimestamp>" latest \
		   "</latestDatapointTimestamp>")
#define METRIC(name, value) "<item><metric>" name "</metric><value>" value "</value></item>"
#define REQUESTED(n) METRIC("spot-capacity-total-requested-vcpu", n)
#define RATE(n) METRIC("spot-inst-az-fulfillment-rate", n)
#define POINT(type, zone, at, values) \
	"<item><dimension><instanceType>" type "</instanceType><availabilityZoneId>" zone \
	"</availabilityZoneId></dimension><timestamp>" at "</timestamp><metricValueSet>" values \
	"</metricValueSet></item>"
#define DATA(items, more) \
	"<GetCapacityManagerMetricDataResponse><metricDataResultSet>" items \
	"</metricDataResultSet>" more "</GetCapacityManagerMetricDataResponse>"
/* The clock of the tests is 2015-08-30T12:36. */
#define LATEST "2015-08-30T10:00:00.000Z"
#define BEFORE "2015-08-30T02:00:00.000Z" /* half as much */

static const char *const managed[] = { "placement_scores", "off", "advisor_url", "off", NULL };
static const struct spot_pool_info known[] = {
	{ .key = { "aws", "us-east-1", "use1-az4", "g5.xlarge", SPOT_MARKET_SPOT },
	    .shape.vcpus = 4 },
	{ .key = { "aws", "us-east-1", "use1-az6", "g5.xlarge", SPOT_MARKET_SPOT },
	    .shape.vcpus = 4 },
	{ .key = { "aws", "us-east-1", "use1-az4", "g5.xlarge", SPOT_MARKET_ON_DEMAND },
	    .shape.vcpus = 4 },
};

static struct spot_signals signals_args(void)
{
	return (struct spot_signals){ .region = "us-east-1",
		.pools = known,
		.pools_n = ARRAY_LEN(known) };
}

static bool is_near(double a, double b)
{
	return fabs(a - b) < 1e-9;
}

static void signal_is(const struct spot_signal *s, const char *zone, double delivered, double asked)
{
	assert_int_equal(s->kind, SPOT_SIGNAL_FULFILMENT);
	assert_int_equal(s->key.market, SPOT_MARKET_SPOT);
	assert_string_equal(s->key.zone, zone);
	if (!is_near(s->lo, delivered) || !is_near(s->hi, asked) ||
	    !is_near(s->value, delivered / asked)) {
		fail_msg("%s: %g of %g, %g", zone, s->lo, s->hi, s->value);
	}
}

/* The time of the newest data is the end of their hour. */
static void hours_fade_and_pages_add_up(void **state)
{
	struct spot_signals a = signals_args();
	struct drive d;

	(void)state;
	keyed_init(&d, managed);
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_SIGNALS, &a,
		{ .url = US_EAST,
		    .has = { "Action=GetCapacityManagerAttributes&" },
		    .status = 200,
		    .reply = ENABLED(LATEST) },
		{ .has = { "Action=GetCapacityManagerMetricData&", "Period=3600&",
		      "StartTime=2015-08-29T11%3A00%3A00Z&EndTime=2015-08-30T11%3A00%3A00Z&",
		      "GroupBy.1=instance-type&GroupBy.2=availability-zone-id&",
		      "FilterBy.1.DimensionCondition.Value.1=us-east-1&" },
		    .hasnt = { "NextToken", "DryRun" },
		    .status = 200,
		    .reply =
			DATA(POINT("g5.xlarge", "use1-az4", LATEST, REQUESTED("8") RATE("50"))
				 POINT("m5.large", "use1-az4", LATEST, REQUESTED("8") RATE("0")),
			    "<nextToken>n2</nextToken>") },
		{ .has = { "NextToken=n2" },
		    .status = 200,
		    .reply = DATA(POINT("g5.xlarge", "use1-az4", BEFORE, REQUESTED("16") RATE("0"))
				      POINT("g5.xlarge", "use1-az6", LATEST,
					  REQUESTED("4") RATE("100.0"))
					  POINT("g5.xlarge", "use1-az6", BEFORE, RATE("100.0")),
			"") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 2);
	signal_is(&a.signals[0], "use1-az4", 1, 4);
	signal_is(&a.signals[1], "use1-az6", 1, 1);
	assert_int_equal(a.signals[0].as_of_us, INT64_C(1440932400) * SPOT_US_PER_S);
	drive_fini(&d);
}

/* The unit is told nowhere for certain. */
static void rates_are_shares_where_none_is_over_one(void **state)
{
	struct spot_signals a = signals_args();
	struct drive d;

	(void)state;
	keyed_init(&d, managed);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_SIGNALS, &a,
			     { .status = 200, .reply = ENABLED(LATEST) },
			     { .status = 200,
				 .reply = DATA(POINT("g5.xlarge", "use1-az4", LATEST,
						   REQUESTED("8") RATE("1")) POINT("g5.xlarge",
						   "use1-az6", LATEST, REQUESTED("8") RATE("0.25")),
				     "") }),
	    SPOT_DONE);
	signal_is(&a.signals[0], "use1-az4", 2, 2);
	signal_is(&a.signals[1], "use1-az6", 0.5, 2);
	drive_fini(&d);
}

static void a_request_that_would_take_four_pools_is_a_quarter_of_one(void **state)
{
	struct spot_signals a = signals_args();
	struct drive d;

	(void)state;
	keyed_init(&d, managed);
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_SIGNALS, &a, { .status = 200, .reply = ENABLED(LATEST) },
		{ .status = 200,
		    .reply = DATA(POINT("g5.xlarge", "use1-az4", LATEST,
				      REQUESTED("16")
					  METRIC("spot-avg-inst-az-count-per-requested-vcpu", "4")
					      METRIC("spot-capacity-total-fulfilled-vcpu", "8")),
			"") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 1);
	signal_is(&a.signals[0], "use1-az4", 0.5, 1);
	drive_fini(&d);
}

static void without_the_manager_the_other_signals_go_on(void **state)
{
	static const struct {
		int status;
		const char *reply;
	} cases[] = {
		{ 200, ATTRIBUTES("<capacityManagerStatus>disabled</capacityManagerStatus>") },
		{ 200, ATTRIBUTES("<capacityManagerStatus>enabled</capacityManagerStatus>") },
		{ 200, ENABLED("2015-08-20T10:00:00.000Z") },
		{ 403, EC2_XML("UnauthorizedOperation", "m") },
		{ 400, EC2_XML("InvalidAction", "m") },
		{ 503, EC2_XML("RequestLimitExceeded", "m") },
		{ 503, EC2_XML("Unavailable", "m") },
		{ 200, "<html>" },
	};
	static const char *const scored[] = { "advisor_url", "off", NULL };
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spot_signals a = signals_args();
		struct drive d;

		keyed_init(&d, scored);
		struct drive_try script[] = {
			{ .has = { "GetCapacityManagerAttributes" },
			    .status = cases[i].status,
			    .reply = cases[i].reply },
			{ .has = { "GetSpotPlacementScores" },
			    .status = 200,
			    .reply = "<GetSpotPlacementScoresResponse><spotPlacementScoreSet><item>"
				     "<availabilityZoneId>use1-az4</availabilityZoneId><score>9"
				     "</score></item></spotPlacementScoreSet>"
				     "</GetSpotPlacementScoresResponse>" },
		};
		drive_script(&d, script, 2);
		assert_int_equal(drive_run(&d, DRIVE_SIGNALS, &a), SPOT_DONE);
		assert_int_equal(a.n, 1);
		assert_int_equal(a.signals[0].kind, SPOT_SIGNAL_PLACEMENT_SCORE);
		drive_fini(&d);
	}
}

/* Data come by the hour, signals every ten minutes. */
static void the_manager_is_asked_once_an_hour_where_it_is_enabled(void **state)
{
	static const char *const elsewhere[] = { "placement_scores", "off", "advisor_url", "off",
		"capacity_manager", "eu-west-1", NULL };
	static const char *const off[] = { "placement_scores", "off", "advisor_url", "off",
		"capacity_manager", "off", NULL };
	struct drive_try ask = { .url = "https://ec2.eu-west-1.amazonaws.com/",
		.status = 200,
		.reply = ATTRIBUTES("<capacityManagerStatus>disabled</capacityManagerStatus>") };
	struct spot_signals a = signals_args();
	struct drive d;

	(void)state;
	keyed_init(&d, elsewhere);
	for (int minute = 0; minute <= 60; minute += 10) {
		drive_script(&d, &ask, minute % 60 == 0 ? 1 : 0);
		assert_int_equal(drive_run(&d, DRIVE_SIGNALS, &a), SPOT_DONE);
		d.now_us += 600 * SPOT_US_PER_S;
	}
	drive_fini(&d);
	keyed_init(&d, off);
	drive_script(&d, NULL, 0);
	assert_int_equal(drive_run(&d, DRIVE_SIGNALS, &a), SPOT_DONE);
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hours_fade_and_pages_add_up),
		cmocka_unit_test(rates_are_shares_where_none_is_over_one),
		cmocka_unit_test(a_request_that_would_take_four_pools_is_a_quarter_of_one),
		cmocka_unit_test(without_the_manager_the_other_signals_go_on),
		cmocka_unit_test(the_manager_is_asked_once_an_hour_where_it_is_enabled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
