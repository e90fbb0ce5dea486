#include "base/base.h"
#include "aws_test.h"

/* Several machines as a whole, and machines in capacity that is paid for already. */

#define ITEM(id, code) \
	"<item><instanceId>" id "</instanceId><instanceState><code>" code \
	"</code></instanceState></item>"
#define RUN_REPLY(items) \
	"<RunInstancesResponse><instancesSet>" items "</instancesSet></RunInstancesResponse>"
#define ENDED \
	"<TerminateInstancesResponse><instancesSet><item><instanceId>i-1</instanceId></item>" \
	"</instancesSet></TerminateInstancesResponse>"
#define CR(id, type, zone, free, kind, state) \
	"<item><capacityReservationId>" id "</capacityReservationId><availabilityZoneId>" zone \
	"</availabilityZoneId><instanceType>" type "</instanceType><instancePlatform>Linux/UNIX" \
	"</instancePlatform><tenancy>default</tenancy><totalInstanceCount>4</totalInstanceCount>" \
	"<availableInstanceCount>" free "</availableInstanceCount><state>" state \
	"</state><reservationType>" kind "</reservationType></item>"
#define CRS(items, more) \
	"<DescribeCapacityReservationsResponse><capacityReservationSet>" items \
	"</capacityReservationSet>" more "</DescribeCapacityReservationsResponse>"

static const char *const image[] = { "ami", "ami-1", NULL };
static const char *const reserving[] = { "ami", "ami-1", "reservations", "on", NULL };

static struct spot_launch launch_args(enum spot_market market)
{
	return (struct spot_launch){ .key = { "aws", "us-east-1", "use1-az4", "g5.xlarge", market },
		.zone_name = "us-east-1a",
		.shape = { .arch = "x86_64" },
		.token = "t-1",
		.name = "n-1",
		.install = "i-1" };
}

static struct spot_launch_gang gang_args(size_t want)
{
	return (struct spot_launch_gang){ .common = launch_args(SPOT_MARKET_SPOT), .want = want };
}

static void a_gang_is_one_request_for_all_or_none(void **state)
{
	struct spot_launch_gang g = gang_args(3);
	struct drive d;

	(void)state;
	keyed_init(&d, image);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
			     { .url = US_EAST,
				 .has = { "MinCount=3&MaxCount=3", "ClientToken=t-1&",
				     "MarketType=spot", "Placement.AvailabilityZone=us-east-1a" },
				 .mutating = 1,
				 .status = 200,
				 .reply = RUN_REPLY(
				     ITEM("i-1", "0") ITEM("i-2", "0") ITEM("i-3", "16")) }),
	    SPOT_DONE);
	assert_int_equal(g.instances_n, 3);
	assert_string_equal(g.instances[2].ref, "i-3");
	assert_string_equal(g.instances[2].key.zone, "use1-az4");
	assert_string_equal(g.instances[2].install, "i-1");
	drive_fini(&d);
}

#define GROUP_MADE \
	"<CreatePlacementGroupResponse><placementGroup><groupName>brk-i-1-g7</groupName>" \
	"<state>pending</state></placementGroup></CreatePlacementGroupResponse>"
#define GROUP_READ(strategy, install, state) \
	"<DescribePlacementGroupsResponse><placementGroupSet><item>" \
	"<groupName>brk-i-1-g7</groupName><strategy>" strategy "</strategy><state>" state \
	"</state><tagSet><item><key>spotbroker:install</key><value>" install \
	"</value></item></tagSet></item></placementGroupSet></DescribePlacementGroupsResponse>"
#define THREE RUN_REPLY(ITEM("i-1", "0") ITEM("i-2", "0") ITEM("i-3", "16"))

static struct spot_launch_gang together_args(void)
{
	struct spot_launch_gang g = gang_args(3);

	g.common.together = "brk-i-1-g7";
	return g;
}

static void a_gang_that_is_placed_together_makes_its_group_first(void **state)
{
	struct spot_launch_gang g = together_args();
	struct drive d;

	(void)state;
	keyed_init(&d, image);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
			     { .has = { "Action=CreatePlacementGroup", "GroupName=brk-i-1-g7",
				   "Strategy=cluster", "ResourceType=placement-group",
				   "Key=spotbroker%3Ainstall", "Value=i-1" },
				 .mutating = -1,
				 .status = 200,
				 .reply = GROUP_MADE },
			     { .has = { "Action=RunInstances", "Placement.GroupName=brk-i-1-g7",
				   "MinCount=3&MaxCount=3" },
				 .mutating = 1,
				 .status = 200,
				 .reply = THREE }),
	    SPOT_DONE);
	assert_int_equal(g.instances_n, 3);
	drive_fini(&d);
}

/* A repeat, or the launch of a lost rank: the group is read before it is used. */
static void a_group_that_is_there_is_read_first(void **state)
{
	static const struct {
		const char *reply;
		enum spot_rc rc;
		const char *words;
	} bad[] = {
		{ GROUP_READ("spread", "i-1", "available"), SPOT_CONFIG, "not ours" },
		{ GROUP_READ("cluster", "other", "available"), SPOT_CONFIG, "not ours" },
		{ GROUP_READ("cluster", "i-1", "deleting"), SPOT_UNAVAILABLE, "is deleting" },
	};
	struct spot_launch_gang g = together_args();
	struct drive d;

	(void)state;
	keyed_init(&d, image);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
			     { .status = 400,
				 .reply = EC2_XML("InvalidPlacementGroup.Duplicate", "m") },
			     { .has = { "Action=DescribePlacementGroups",
				   "GroupName.1=brk-i-1-g7" },
				 .status = 503,
				 .reply = EC2_XML("RequestLimitExceeded", "m") },
			     { .has = { "Action=DescribePlacementGroups" },
				 .status = 200,
				 .reply = GROUP_READ("cluster", "i-1", "available") },
			     { .has = { "Placement.GroupName=brk-i-1-g7" },
				 .status = 200,
				 .reply = THREE }),
	    SPOT_DONE);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		failed_with(&d,
		    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
			{ .status = 400, .reply = EC2_XML("InvalidPlacementGroup.Duplicate", "m") },
			{ .status = 200, .reply = bad[i].reply }),
		    bad[i].rc, bad[i].words);
	}
	drive_fini(&d);
}

static void a_group_that_cannot_be_made_launches_nothing(void **state)
{
	struct spot_launch_gang g = together_args();
	struct drive d;

	(void)state;
	keyed_init(&d, image);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
		{ .status = 400, .reply = EC2_XML("PlacementGroupLimitExceeded", "500") }),
	    SPOT_QUOTA, "500");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g, { .status = 200, .reply = GROUP_MADE },
		{ .status = 400, .reply = EC2_XML("InvalidPlacementGroup.Unknown", "m") }),
	    SPOT_UNAVAILABLE, NULL);
	/* A reservation outside the group refuses it. */
	g.common.key.market = SPOT_MARKET_RESERVED;
	drive_fini(&d);
	keyed_init(&d, reserving);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
			     { .status = 200,
				 .reply = CRS(CR("cr-1", "g5.xlarge", "use1-az4", "4", "default",
						  "active"),
				     "") },
			     { .has = { "Action=RunInstances" },
				 .hasnt = { "Placement.GroupName" },
				 .status = 200,
				 .reply = THREE }),
	    SPOT_DONE);
	drive_fini(&d);
}

/* A repeat may find some ended: their lives are billed, so they are reported and nothing is given
 * back here. */
static void a_gang_of_which_some_ended_is_told_as_it_is(void **state)
{
	struct spot_launch_gang g = gang_args(3);
	struct drive d;

	(void)state;
	keyed_init(&d, image);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
			     { .status = 200,
				 .reply = RUN_REPLY(
				     ITEM("i-1", "0") ITEM("i-2", "48") ITEM("i-3", "16")) }),
	    SPOT_DONE);
	assert_int_equal(g.instances_n, 3);
	assert_int_equal(g.instances[0].state, SPOT_INSTANCE_PENDING);
	assert_int_equal(g.instances[1].state, SPOT_INSTANCE_GONE);
	assert_int_equal(g.instances[2].state, SPOT_INSTANCE_RUNNING);
	drive_fini(&d);
}

static void a_gang_that_is_not_told_whole_is_unknown(void **state)
{
	struct spot_launch_gang g = gang_args(3);
	struct drive d;

	(void)state;
	keyed_init(&d, image);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
		{ .status = 200, .reply = RUN_REPLY(ITEM("i-1", "0") ITEM("i-2", "48")) }),
	    SPOT_UNKNOWN, "2 of 3 machines");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
		{ .status = 200,
		    .reply = RUN_REPLY(
			ITEM("i-1", "0") ITEM("i-2", "0") ITEM("i-3", "0") ITEM("i-4", "0")) }),
	    SPOT_UNKNOWN, "4 of 3 machines");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g, { .status = 200, .reply = RUN_REPLY("") }),
	    SPOT_UNKNOWN, "no instance");
	drive_fini(&d);
}

/* A set takes what there is: MinCount is one. Each machine is a token of the vendor's bucket. */
static void a_set_is_one_request_for_as_many_as_there_are(void **state)
{
	struct spot_launch_gang g = gang_args(3);
	struct drive d;

	(void)state;
	g.least = 1;
	keyed_init(&d, image);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
			     { .url = US_EAST,
				 .has = { "MinCount=1&MaxCount=3", "ClientToken=t-1&" },
				 .mutating = 1,
				 .status = 200,
				 .reply = RUN_REPLY(ITEM("i-1", "0") ITEM("i-2", "0")) }),
	    SPOT_DONE);
	assert_int_equal(g.instances_n, 2);
	assert_string_equal(g.instances[1].token, "t-1");
	assert_int_equal(d.call.limit_also_cost, 3);
	assert_int_equal(d.call.limit_also, aws_ops.set_limit);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g, { .status = 200, .reply = RUN_REPLY("") }),
	    SPOT_UNKNOWN, "no instance");
	drive_fini(&d);
}

static void a_gang_of_none_or_of_thousands_is_refused_unsent(void **state)
{
	struct spot_launch_gang none = gang_args(0), many = gang_args(1001), bare = gang_args(2);
	struct drive d;

	(void)state;
	bare.common.token = "";
	keyed_init(&d, image);
	failed_with(&d, drive_run(&d, DRIVE_LAUNCH_GANG, &none), SPOT_INVALID, "gang of 0");
	failed_with(&d, drive_run(&d, DRIVE_LAUNCH_GANG, &many), SPOT_INVALID, "gang of 1001");
	failed_with(&d, drive_run(&d, DRIVE_LAUNCH_GANG, &bare), SPOT_INVALID, "token");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, (bare.common.token = "t", &bare),
		{ .status = 500, .reply = EC2_XML("InsufficientInstanceCapacity", "none") }),
	    SPOT_NO_CAPACITY, NULL);
	failed_with(&d, RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &bare, { .status = 0 }), SPOT_UNKNOWN,
	    NULL);
	drive_fini(&d);
}

static void a_reserved_launch_names_the_reservation(void **state)
{
	struct spot_launch a = launch_args(SPOT_MARKET_RESERVED);
	struct drive d;

	(void)state;
	keyed_init(&d, reserving);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .has = { "DescribeCapacityReservations", "Filter.1.Name=state",
				   "Filter.2.Value.1=g5.xlarge" },
				 .mutating = -1,
				 .status = 200,
				 .reply =
				     CRS(CR("cr-9", "g5.xlarge", "use1-az4", "1", "default",
					     "active") CR("cr-1", "g5.xlarge", "use1-az6", "4",
					     "default", "active") CR("cr-2", "g5.xlarge",
					     "use1-az4", "0", "default", "active") CR("cr-3",
					     "g5.xlarge", "use1-az4", "4", "default", "cancelled"),
					 "<nextToken>p2</nextToken>") },
			     { .has = { "NextToken=p2" },
				 .status = 200,
				 .reply = CRS(CR("cr-5", "g5.xlarge", "use1-az4", "2", "default",
						  "active"),
				     "") },
			     { .has = { "CapacityReservationTarget.CapacityReservationId=cr-5&" },
				 .hasnt = { "InstanceMarketOptions", "Preference",
				     "spot-instances-request" },
				 .mutating = 1,
				 .status = 200,
				 .reply = RUN_REPLY(ITEM("i-1", "0")) }),
	    SPOT_DONE);
	assert_int_equal(a.instance.key.market, SPOT_MARKET_RESERVED);
	drive_fini(&d);
}

static void a_capacity_block_is_a_market_of_its_own(void **state)
{
	struct spot_launch a = launch_args(SPOT_MARKET_RESERVED);
	struct drive d;

	(void)state;
	keyed_init(&d, reserving);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .status = 200,
				 .reply = CRS(CR("cr-1", "g5.xlarge", "use1-az4", "4", "default",
						  "active") CR("cr-8", "g5.xlarge", "use1-az4", "1",
						  "capacity-block", "active"),
				     "") },
			     { .has = { "MarketType=capacity-block",
				   "CapacityReservationId=cr-8&" },
				 .hasnt = { "SpotOptions" },
				 .status = 200,
				 .reply = RUN_REPLY(ITEM("i-1", "0")) }),
	    SPOT_DONE);
	drive_fini(&d);
}

static void without_room_or_leave_nothing_reserved_is_launched(void **state)
{
	struct spot_launch a = launch_args(SPOT_MARKET_RESERVED);
	struct spot_launch_gang g = { .common = a, .want = 3 };
	struct drive d;

	(void)state;
	keyed_init(&d, image);
	failed_with(&d, drive_run(&d, DRIVE_LAUNCH, &a), SPOT_INVALID, "reserved");
	drive_fini(&d);
	keyed_init(&d, reserving);
	failed_with(&d, RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, { .status = 200, .reply = CRS("", "") }),
	    SPOT_NO_CAPACITY, "no active reservation");
	/* A gang needs one reservation with room for all of it. */
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
		{ .status = 200,
		    .reply = CRS(CR("cr-1", "g5.xlarge", "use1-az4", "2", "default", "active")
				     CR("cr-2", "g5.xlarge", "use1-az4", "2", "default", "active"),
			"") }),
	    SPOT_NO_CAPACITY, "room for 3");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
		{ .status = 200, .reply = "<DescribeCapacityReservationsResponse/>" }),
	    SPOT_BAD_REPLY, NULL);
	drive_fini(&d);
}

static void reserved_pools_cost_next_to_nothing(void **state)
{
	static const struct spot_pool_info pools[] = {
		{ .key = { "aws", "us-gov-east-1", "usge1-az1", "p5.48xlarge",
		      SPOT_MARKET_RESERVED } },
		{ .key = { "aws", "us-gov-east-1", "usge1-az1", "p5.48xlarge",
		      SPOT_MARKET_ON_DEMAND } },
	};
	struct spot_prices p = { .region = "us-gov-east-1",
		.market = SPOT_MARKET_ON_DEMAND,
		.pools = pools,
		.pools_n = 2 };
	struct drive d;

	(void)state;
	keyed_init(&d, reserving);
	assert_int_equal(drive_run(&d, DRIVE_PRICES, &p), SPOT_DONE); /* no Price List there */
	assert_int_equal(p.n, 1);
	assert_int_equal(p.points[0].price_micros, 1);
	assert_int_equal(p.points[0].key.market, SPOT_MARKET_RESERVED);
	p.market = SPOT_MARKET_SPOT;
	assert_int_equal(drive_run(&d, DRIVE_PRICES, &p), SPOT_DONE);
	assert_int_equal(p.n, 0);
	drive_fini(&d);
}

#define ZONES \
	"<DescribeAvailabilityZonesResponse><availabilityZoneInfo><item><zoneId>use1-az4</zoneId>" \
	"<zoneName>us-east-1a</zoneName></item></availabilityZoneInfo>" \
	"</DescribeAvailabilityZonesResponse>"
#define TYPES \
	"<DescribeInstanceTypesResponse><instanceTypeSet><item><instanceType>g5.xlarge" \
	"</instanceType><supportedUsageClasses><item>spot</item></supportedUsageClasses>" \
	"<gpuInfo><gpus><item><name>A10G</name><manufacturer>NVIDIA</manufacturer><count>1</" \
	"count>" \
	"</item></gpus></gpuInfo></item></instanceTypeSet></DescribeInstanceTypesResponse>"
#define OFFERED \
	"<DescribeInstanceTypeOfferingsResponse><instanceTypeOfferingSet><item><instanceType>" \
	"g5.xlarge</instanceType><location>use1-az4</location></item></instanceTypeOfferingSet>" \
	"</DescribeInstanceTypeOfferingsResponse>"

static void each_reserved_type_and_zone_is_one_pool(void **state)
{
	struct spot_pools p = { .region = "us-east-1" };
	struct drive d;

	(void)state;
	keyed_init(&d, reserving);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_POOLS, &p, { .status = 200, .reply = ZONES },
			     { .has = { "Filter.2.Value.3=capacity-block" },
				 .status = 200,
				 .reply = TYPES },
			     { .status = 200, .reply = OFFERED },
			     { .has = { "DescribeCapacityReservations", "Filter.1.Value.1=active" },
				 .status = 200,
				 .reply = CRS(CR("cr-1", "g5.xlarge", "use1-az4", "0", "default",
						  "active") CR("cr-2", "g5.xlarge", "use1-az4", "1",
						  "default", "active") CR("cr-3", "g5.xlarge",
						  "use1-az9", "1", "default", "active") CR("cr-4",
						  "m5.large", "use1-az4", "1", "default", "active"),
				     "") }),
	    SPOT_DONE);
	assert_int_equal(p.n, 2);
	assert_int_equal(p.pools[0].key.market, SPOT_MARKET_SPOT);
	assert_int_equal(p.pools[1].key.market, SPOT_MARKET_RESERVED);
	assert_string_equal(p.pools[1].key.zone, "use1-az4");
	assert_string_equal(p.pools[1].quota_class, "");
	drive_fini(&d);
	keyed_init(&d, image);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_POOLS, &p, { .status = 200, .reply = ZONES },
			     { .hasnt = { "capacity-block" }, .status = 200, .reply = TYPES },
			     { .status = 200, .reply = OFFERED }),
	    SPOT_DONE);
	assert_int_equal(p.n, 1);
	drive_fini(&d);
}

static void a_full_reservation_has_no_capacity(void **state)
{
	static const struct spot_pool_info pools[] = {
		{ .key = { "aws", "us-east-1", "use1-az4", "g5.xlarge", SPOT_MARKET_RESERVED } },
		{ .key = { "aws", "us-east-1", "use1-az6", "g5.xlarge", SPOT_MARKET_RESERVED } },
	};
	struct spot_signals s = { .region = "us-east-1", .pools = pools, .pools_n = 2 };
	struct drive d;

	(void)state;
	keyed_init(&d, reserving);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_SIGNALS, &s,
			     { .status = 503, .reply = EC2_XML("RequestLimitExceeded", "m") },
			     { .hasnt = { "instance-type" },
				 .status = 200,
				 .reply = CRS(CR("cr-1", "g5.xlarge", "use1-az4", "0", "default",
						  "active"),
				     "<nextToken>n</nextToken>") },
			     { .status = 200,
				 .reply = CRS(CR("cr-2", "g5.xlarge", "use1-az6", "1", "default",
						  "active"),
				     "") }),
	    SPOT_DONE);
	assert_int_equal(s.n, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(s.signals[i].kind, SPOT_SIGNAL_CAPACITY);
		assert_true(
		    (s.signals[i].value > 0) == (strcmp(s.signals[i].key.zone, "use1-az6") == 0));
	}
	drive_fini(&d);
}

static void arm_types_have_an_image_of_their_own(void **state)
{
	static const char *const both[] = { "ami", "ami-1", "ami_arm64", "ami-2", NULL };
	struct spot_launch a = launch_args(SPOT_MARKET_SPOT);
	struct drive d;

	(void)state;
	a.shape.arch = "arm64";
	a.key.instance_type = "g5g.xlarge";
	keyed_init(&d, both);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .has = { "ImageId=ami-2&" },
				 .status = 200,
				 .reply = RUN_REPLY(ITEM("i-1", "0")) }),
	    SPOT_DONE);
	drive_fini(&d);
	/* An image for the other architecture is never tried. */
	keyed_init(&d, image);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .url = "https://ssm.us-east-1.amazonaws.com/",
				 .has = { "/ami/arm64/" },
				 .status = 200,
				 .reply = "{\"Parameter\":{\"Value\":\"ami-7\"}}" },
			     { .has = { "ImageId=ami-7&" },
				 .status = 200,
				 .reply = RUN_REPLY(ITEM("i-1", "0")) }),
	    SPOT_DONE);
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_gang_is_one_request_for_all_or_none),
		cmocka_unit_test(a_gang_that_is_placed_together_makes_its_group_first),
		cmocka_unit_test(a_group_that_is_there_is_read_first),
		cmocka_unit_test(a_group_that_cannot_be_made_launches_nothing),
		cmocka_unit_test(a_gang_of_which_some_ended_is_told_as_it_is),
		cmocka_unit_test(a_gang_that_is_not_told_whole_is_unknown),
		cmocka_unit_test(a_set_is_one_request_for_as_many_as_there_are),
		cmocka_unit_test(a_gang_of_none_or_of_thousands_is_refused_unsent),
		cmocka_unit_test(a_reserved_launch_names_the_reservation),
		cmocka_unit_test(a_capacity_block_is_a_market_of_its_own),
		cmocka_unit_test(without_room_or_leave_nothing_reserved_is_launched),
		cmocka_unit_test(reserved_pools_cost_next_to_nothing),
		cmocka_unit_test(each_reserved_type_and_zone_is_one_pool),
		cmocka_unit_test(a_full_reservation_has_no_capacity),
		cmocka_unit_test(arm_types_have_an_image_of_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
