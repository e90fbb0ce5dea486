/* Reservations that end: which one a launch takes, what their pools and machines are told of it. */
#include "aws_test.h"

#define CR(id, kind, free, end, more) \
	"<item><capacityReservationId>" id "</capacityReservationId><availabilityZoneId>use1-az4" \
	"</availabilityZoneId><instanceType>g5.xlarge</instanceType><instancePlatform>Linux/UNIX" \
	"</instancePlatform><tenancy>default</tenancy><totalInstanceCount>4</totalInstanceCount>" \
	"<availableInstanceCount>" free "</availableInstanceCount><state>active</state>" end \
	"<reservationType>" kind "</reservationType>" more "</item>"
#define UNTIL(at) "<endDate>" at "</endDate><endDateType>limited</endDateType>"
#define FOREVER "<endDateType>unlimited</endDateType>"
#define CRS(items) \
	"<DescribeCapacityReservationsResponse><capacityReservationSet>" items \
	"</capacityReservationSet></DescribeCapacityReservationsResponse>"
#define NO_EVENTS \
	"<DescribeInstanceStatusResponse><instanceStatusSet/></DescribeInstanceStatusResponse>"
#define IN(ref, cr) \
	"<item><instanceId>" ref "</instanceId><capacityReservationId>" cr \
	"</capacityReservationId></item>"
#define INSTANCES(items, more) \
	"<DescribeInstancesResponse><reservationSet><item><instancesSet>" items \
	"</instancesSet></item></reservationSet>" more "</DescribeInstancesResponse>"
#define RUN_REPLY \
	"<RunInstancesResponse><instancesSet><item><instanceId>i-1</instanceId><instanceState>" \
	"<code>0</code></instanceState></item></instancesSet></RunInstancesResponse>"
#define LENT "<interruptible>true</interruptible>"
#define OWNER(account) "<ownerId>" account "</ownerId>"
#define CALLER \
	"<GetCallerIdentityResponse><GetCallerIdentityResult><Account>123456789012</Account>" \
	"</GetCallerIdentityResult></GetCallerIdentityResponse>"
#define ZONES \
	"<DescribeAvailabilityZonesResponse><availabilityZoneInfo><item><zoneId>use1-az4</zoneId>" \
	"<zoneName>us-east-1a</zoneName></item></availabilityZoneInfo>" \
	"</DescribeAvailabilityZonesResponse>"
#define TYPES \
	"<DescribeInstanceTypesResponse><instanceTypeSet><item><instanceType>g5.xlarge" \
	"</instanceType><supportedUsageClasses><item>on-demand</item></supportedUsageClasses>" \
	"<gpuInfo><gpus><item><name>A10G</name><manufacturer>NVIDIA</manufacturer><count>1" \
	"</count></item></gpus></gpuInfo></item></instanceTypeSet></" \
	"DescribeInstanceTypesResponse>"
#define PRICE_LIST \
	"{\"PriceList\":[\"{\\\"product\\\":{\\\"attributes\\\":{\\\"instanceType\\\":" \
	"\\\"g5.xlarge\\\"}},\\\"terms\\\":{\\\"OnDemand\\\":{\\\"a\\\":{" \
	"\\\"effectiveDate\\\":\\\"2015-08-01T00:00:00Z\\\",\\\"priceDimensions\\\":{" \
	"\\\"b\\\":{\\\"unit\\\":\\\"Hrs\\\",\\\"pricePerUnit\\\":{\\\"USD\\\":" \
	"\\\"1.006\\\"}}}}}}}\"]}"
#define MINUTES(n) ((n)*60 * SPOT_US_PER_S)
/* The clock of the tests is 2015-08-30T12:36. */
#define SOON "2015-08-30T13:05:00.000Z" /* a block is being cleared since 12:35 */
#define TODAY "2015-08-30T18:36:00.000Z"
#define TOMORROW "2015-08-31T12:36:00.000Z"

static const char *const reserving[] = { "ami", "ami-1", "reservations", "on", NULL };
static const char *const queued[] = { "ami", "ami-1", "reservations", "all",
	"interruption_queue.us-east-1", "https://sqs.us-east-1.amazonaws.com/1/q", NULL };
static const struct spot_pool_info pool = { .key = { "aws", "us-east-1", "use1-az4", "g5.xlarge",
						SPOT_MARKET_RESERVED } };
static const struct spot_pool_info lent = { .key = { "aws", "us-east-1", "use1-az4", "g5.xlarge",
						SPOT_MARKET_INTERRUPTIBLE } };

static void launch_takes(const char *items, const char *id)
{
	struct spot_launch a = { .key = pool.key,
		.zone_name = "us-east-1a",
		.shape = { .arch = "x86_64" },
		.token = "t-1",
		.name = "n-1",
		.install = "i-1" };
	struct drive d;

	keyed_init(&d, reserving);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, { .status = 200, .reply = items },
			     { .has = { id }, .status = 200, .reply = RUN_REPLY }),
	    SPOT_DONE);
	drive_fini(&d);
}

static void what_ends_last_is_launched_into(void **state)
{
	(void)state;
	launch_takes(CRS(CR("cr-1", "capacity-block", "4", UNTIL(TODAY), "")
			     CR("cr-2", "capacity-block", "4", UNTIL(TOMORROW), "")),
	    "CapacityReservationId=cr-2&");
	launch_takes(CRS(CR("cr-1", "capacity-block", "4", UNTIL(TOMORROW), "")
			     CR("cr-2", "default", "1", FOREVER, "")),
	    "CapacityReservationId=cr-2&");
	/* At the same time: the block. */
	launch_takes(CRS(CR("cr-1", "default", "4", UNTIL("2015-08-31T12:06:00Z"), "")
			     CR("cr-2", "capacity-block", "1", UNTIL(TOMORROW), "")),
	    "CapacityReservationId=cr-2&");
}

static void a_block_that_is_cleared_and_one_of_another_market_take_nothing(void **state)
{
	struct spot_launch a = { .key = pool.key,
		.zone_name = "us-east-1a",
		.shape = { .arch = "x86_64" },
		.token = "t-1",
		.name = "n-1",
		.install = "i-1" };
	struct drive d;

	(void)state;
	keyed_init(&d, reserving);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
		{ .status = 200,
		    .reply = CRS(CR("cr-1", "capacity-block", "4", UNTIL(SOON), "")
			    CR("cr-2", "default", "4", FOREVER, LENT)) }),
	    SPOT_NO_CAPACITY, "no active reservation");
	a.key.market = SPOT_MARKET_INTERRUPTIBLE;
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
		{ .status = 200, .reply = CRS(CR("cr-1", "default", "4", FOREVER, "")) }),
	    SPOT_NO_CAPACITY, "no active interruptible reservation");
	drive_fini(&d);
}

static void an_interruptible_one_is_launched_into_under_its_market_type(void **state)
{
	struct spot_launch_gang g = { .common = { .key = lent.key,
					  .zone_name = "us-east-1a",
					  .shape = { .arch = "x86_64" },
					  .token = "t-1",
					  .name = "n-1",
					  .install = "i-1" },
		.want = 2 };
	struct drive d;

	(void)state;
	keyed_init(&d, queued);
	/* One must have room for all of a gang. */
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
		{ .status = 200,
		    .reply = CRS(CR("cr-1", "default", "1", FOREVER, LENT) CR("cr-2", "default",
			"4", FOREVER, "") CR("cr-3", "default", "2", FOREVER, LENT)) },
		{ .has = { "InstanceMarketOptions.MarketType=interruptible-capacity-reservation&"
			   "CapacityReservationSpecification.CapacityReservationTarget."
			   "CapacityReservationId=cr-3&" },
		    .hasnt = { "SpotOptions", "CapacityReservationPreference" },
		    .status = 400,
		    .reply = EC2_XML("ReservationCapacityExceeded", "m") }),
	    SPOT_FAIL);
	drive_fini(&d);
}

static void an_interruptible_one_is_a_pool_where_a_queue_hears_of_it(void **state)
{
	static const char *const unheard[] = { "ami", "ami-1", "reservations", "all", NULL };
	static const char *const unwanted[] = { "ami", "ami-1", "reservations", "on",
		"interruption_queue.us-east-1", "https://sqs.us-east-1.amazonaws.com/1/q", NULL };
	static const char *const *const settings[] = { queued, unheard, unwanted };
	static const size_t pools_n[] = { 2, 1, 1 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		struct spot_pools p = { .region = "us-east-1" };
		struct drive d;

		keyed_init(&d, settings[i]);
		assert_int_equal(RUN_SCRIPT(&d, DRIVE_POOLS, &p, { .status = 200, .reply = ZONES },
				     { .status = 200, .reply = TYPES },
				     { .status = 200,
					 .reply = "<DescribeInstanceTypeOfferingsResponse>"
						  "<instanceTypeOfferingSet/>"
						  "</DescribeInstanceTypeOfferingsResponse>" },
				     { .status = 200,
					 .reply = CRS(CR("cr-1", "default", "0", FOREVER, LENT)
						 CR("cr-2", "default", "1", FOREVER, "")
						     CR("cr-3", "default", "1", FOREVER, LENT)) }),
		    SPOT_DONE);
		assert_int_equal(p.n, pools_n[i]);
		assert_int_equal(p.pools[p.n - 1].key.market, SPOT_MARKET_RESERVED);
		if (p.n == 2) {
			assert_int_equal(p.pools[0].key.market, SPOT_MARKET_INTERRUPTIBLE);
			assert_string_equal(p.pools[0].quota_class, "");
		}
		drive_fini(&d);
	}
}

static void each_market_has_the_room_of_its_own_reservations(void **state)
{
	const struct spot_pool_info both[] = { pool, lent };
	struct spot_signals s = { .region = "us-east-1", .pools = both, .pools_n = 2 };
	struct drive d;

	(void)state;
	keyed_init(&d, queued);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_SIGNALS, &s,
			     { .status = 200,
				 .reply = CRS(CR("cr-1", "default", "0", FOREVER, "")
					 CR("cr-2", "default", "1", FOREVER, LENT)) }),
	    SPOT_DONE);
	assert_int_equal(s.n, 2);
	assert_true(s.signals[0].value < 1 && s.signals[1].value > 0);
	assert_int_equal(s.signals[1].key.market, SPOT_MARKET_INTERRUPTIBLE);
	drive_fini(&d);
}

/* The consumer of a shared reservation pays on-demand for what runs; ours is paid for already. */
static void one_of_another_account_costs_the_on_demand_price(void **state)
{
	const struct spot_pool_info pools[] = { pool, lent,
		{ .key = { "aws", "us-east-1", "use1-az4", "g5.xlarge", SPOT_MARKET_ON_DEMAND } } };
	struct spot_prices p = { .region = "us-east-1",
		.market = SPOT_MARKET_ON_DEMAND,
		.pools = pools,
		.pools_n = 3 };
	struct drive d;

	(void)state;
	keyed_init(&d, queued);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_PRICES, &p, { .status = 200, .reply = PRICE_LIST },
			     { .has = { "DescribeCapacityReservations" },
				 .status = 200,
				 .reply = CRS(CR("cr-1", "default", "1", FOREVER,
				     OWNER("123456789012")) CR("cr-2", "default", "1", FOREVER,
				     LENT OWNER("210987654321"))) },
			     { .has = { "GetCallerIdentity" }, .status = 200, .reply = CALLER }),
	    SPOT_DONE);
	assert_int_equal(p.n, 3);
	for (size_t i = 0; i < p.n; i++) {
		assert_int_equal(p.points[i].price_micros,
		    p.points[i].key.market == SPOT_MARKET_RESERVED ? 1 : 1006000);
	}
	drive_fini(&d);
}

static void a_pool_ends_with_the_reservation_that_a_launch_takes(void **state)
{
	struct spot_signals s = { .region = "us-east-1", .pools = &pool, .pools_n = 1 };
	struct drive d;

	(void)state;
	keyed_init(&d, reserving);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_SIGNALS, &s,
			     { .status = 200,
				 .reply = CRS(CR("cr-1", "capacity-block", "4", UNTIL(TODAY), "")
					 CR("cr-2", "capacity-block", "1", UNTIL(TOMORROW), "")
					     CR("cr-3", "default", "0", FOREVER, "")) }),
	    SPOT_DONE);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.signals[0].kind, SPOT_SIGNAL_CAPACITY);
	assert_true(s.signals[0].value > 0);
	assert_int_equal(s.signals[1].kind, SPOT_SIGNAL_ENDS);
	assert_string_equal(s.signals[1].key.instance_type, "g5.xlarge");
	/* Thirty minutes before its end date. */
	assert_int_equal((int64_t)s.signals[1].value * SPOT_US_PER_S,
	    DRIVE_NOW_US + 24 * SPOT_US_PER_HOUR - MINUTES(30));
	/* One without an end has room: the pool has none. */
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_SIGNALS, &s,
			     { .status = 200,
				 .reply = CRS(CR("cr-1", "capacity-block", "4", UNTIL(TODAY), "")
					 CR("cr-3", "default", "1", FOREVER, "")) }),
	    SPOT_DONE);
	assert_int_equal(s.n, 1);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_SIGNALS, &s,
			     { .status = 200,
				 .reply =
				     CRS(CR("cr-1", "capacity-block", "4", UNTIL(SOON), "")) }),
	    SPOT_DONE);
	assert_int_equal(s.n, 1);
	assert_true(s.signals[0].value < 1);
	drive_fini(&d);
}

static void each_machine_hears_of_the_end_of_its_own_reservation(void **state)
{
	static const struct spot_instance nodes[] = {
		{ .ref = "i-1", .key = { .market = SPOT_MARKET_RESERVED } },
		{ .ref = "i-2", .key = { .market = SPOT_MARKET_RESERVED } },
		{ .ref = "i-3", .key = { .market = SPOT_MARKET_ON_DEMAND } },
	};
	struct spot_notices a = { .region = "us-east-1", .instances = nodes, .instances_n = 3 };
	struct drive d;

	(void)state;
	keyed_init(&d, reserving);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_NOTICES, &a, { .status = 200, .reply = NO_EVENTS },
			     { .has = { "DescribeCapacityReservations" },
				 .status = 200,
				 .reply = CRS(CR("cr-1", "capacity-block", "3", UNTIL(TODAY), "")
					 CR("cr-2", "default", "3", UNTIL(TOMORROW), "")
					     CR("cr-3", "default", "2", FOREVER, "")
						 CR("cr-4", "default", "4", UNTIL(TODAY), "")) },
			     { .has = { "Filter.1.Name=capacity-reservation-id&"
					"Filter.1.Value.1=cr-1&Filter.1.Value.2=cr-2&MaxResults" },
				 .status = 200,
				 .reply = INSTANCES(IN("i-1", "cr-1") IN("i-9", "cr-1"),
				     "<nextToken>n</nextToken>") },
			     { .has = { "NextToken=n" },
				 .status = 200,
				 .reply = INSTANCES(IN("i-2", "cr-2"), "") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 2);
	assert_string_equal(a.notices[0].ref, "i-1");
	assert_int_equal(a.notices[0].kind, SPOT_NOTICE_EXPIRY);
	assert_int_equal(a.notices[0].deadline_us,
	    DRIVE_NOW_US + 6 * SPOT_US_PER_HOUR - MINUTES(30));
	assert_string_equal(a.notices[1].ref, "i-2");
	assert_int_equal(a.notices[1].deadline_us, DRIVE_NOW_US + 24 * SPOT_US_PER_HOUR);
	/* Nothing is asked where nothing ends, or nothing is reserved. */
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_NOTICES, &a, { .status = 200, .reply = NO_EVENTS },
			     { .status = 200,
				 .reply = CRS(CR("cr-3", "default", "2", FOREVER, "")) }),
	    SPOT_DONE);
	assert_int_equal(a.n, 0);
	/* Without the right to ask, the other notices still come. */
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_NOTICES, &a, { .status = 200, .reply = NO_EVENTS },
			     { .status = 403, .reply = EC2_XML("UnauthorizedOperation", "m") }),
	    SPOT_DONE);
	a.instances = &nodes[2];
	a.instances_n = 1;
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_NOTICES, &a, { .status = 200, .reply = NO_EVENTS }),
	    SPOT_DONE);
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_ends_last_is_launched_into),
		cmocka_unit_test(a_block_that_is_cleared_and_one_of_another_market_take_nothing),
		cmocka_unit_test(an_interruptible_one_is_launched_into_under_its_market_type),
		cmocka_unit_test(an_interruptible_one_is_a_pool_where_a_queue_hears_of_it),
		cmocka_unit_test(each_market_has_the_room_of_its_own_reservations),
		cmocka_unit_test(one_of_another_account_costs_the_on_demand_price),
		cmocka_unit_test(a_pool_ends_with_the_reservation_that_a_launch_takes),
		cmocka_unit_test(each_machine_hears_of_the_end_of_its_own_reservation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
