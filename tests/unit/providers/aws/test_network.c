#include "base/base.h"
#include "aws_test.h"

/* The network interfaces of a launch with `efa = on`. */

#define GROUP_MADE \
	"<CreatePlacementGroupResponse><placementGroup><groupName>brk-i-1-g7</groupName>" \
	"<state>available</state></placementGroup></CreatePlacementGroupResponse>"
#define LAUNCHED \
	"<RunInstancesResponse><instancesSet><item><instanceId>i-1</instanceId><instanceState>" \
	"<code>0</code></instanceState></item></instancesSet></RunInstancesResponse>"

static struct spot_launch launch_args(const char *together)
{
	return (struct spot_launch){ .key = { "aws", "us-east-1", "use1-az4", "g5.xlarge",
					 SPOT_MARKET_SPOT },
		.zone_name = "us-east-1a",
		.shape = { .arch = "x86_64" },
		.token = "t-1",
		.name = "n-1",
		.install = "i-1",
		.together = together };
}

static const char *const efa_on[] = { "ami", "ami-1", "efa", "on", "security_groups.us-east-1",
	"sg-1", "subnet.use1-az4", "subnet-1", NULL };

#define TYPE_READ(net) \
	"<DescribeInstanceTypesResponse><instanceTypeSet><item><instanceType>g5.xlarge" \
	"</instanceType><networkInfo>" net "</networkInfo></item></instanceTypeSet>" \
	"</DescribeInstanceTypesResponse>"
#define EFAS(cards, efa) \
	"<maximumNetworkCards>" cards "</maximumNetworkCards><efaSupported>true</efaSupported>" \
	"<efaInfo><maximumEfaInterfaces>" efa "</maximumEfaInterfaces></efaInfo>"
#define NIC(n, device, card, type) \
	"&NetworkInterface." n ".DeviceIndex=" device "&NetworkInterface." n \
	".NetworkCardIndex=" card "&NetworkInterface." n ".InterfaceType=" type \
	"&NetworkInterface." n ".DeleteOnTermination=true&NetworkInterface." n \
	".SubnetId=subnet-1&NetworkInterface." n ".SecurityGroupId.1=sg-1"
#define NIC_END "&InstanceMarketOptions"

static void machines_that_are_placed_together_get_the_efas_of_their_type(void **state)
{
	static const struct {
		const char *reply, *has;
	} cases[] = {
		{ TYPE_READ("<efaSupported>false</efaSupported>"),
		    "&SubnetId=subnet-1&SecurityGroupId.1=sg-1" NIC_END },
		{ TYPE_READ(EFAS("1", "1")), NIC("1", "0", "0", "efa") NIC_END },
		/* each card takes one */
		{ TYPE_READ(EFAS("3", "3")),
		    NIC("1", "0", "0", "interface") NIC("2", "1", "0", "efa-only")
			NIC("3", "0", "1", "efa-only") NIC("4", "0", "2", "efa-only") NIC_END },
		{ TYPE_READ(EFAS("2", "4")),
		    NIC("1", "0", "0", "interface") NIC("2", "1", "0", "efa-only")
			NIC("3", "0", "1", "efa-only") NIC_END },
		/* the first card takes none */
		{ TYPE_READ(EFAS("4", "2")),
		    NIC("1", "0", "0", "interface") NIC("2", "0", "1", "efa-only")
			NIC("3", "0", "2", "efa-only") NIC_END },
	};
	struct spot_launch together = launch_args("brk-i-1-g7"), apart = launch_args(NULL);
	struct drive d;

	(void)state;
	keyed_init(&d, efa_on);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &together,
				     { .has = { "Action=DescribeInstanceTypes",
					   "InstanceType.1=g5.xlarge" },
					 .mutating = -1,
					 .status = 200,
					 .reply = cases[i].reply },
				     { .has = { "Action=CreatePlacementGroup" },
					 .status = 200,
					 .reply = GROUP_MADE },
				     { .has = { "Action=RunInstances", cases[i].has },
					 .status = 200,
					 .reply = LAUNCHED }),
		    SPOT_DONE);
	}
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &apart,
			     { .has = { "Action=RunInstances" },
				 .hasnt = { "NetworkInterface" },
				 .status = 200,
				 .reply = LAUNCHED }),
	    SPOT_DONE);
	drive_fini(&d);
}

static void efas_that_cannot_be_launch_nothing(void **state)
{
	static const char *const open[] = { "ami", "ami-1", "efa", "on", "public_ip", "on", NULL };
	struct spot_launch together = launch_args("brk-i-1-g7");
	struct drive d;

	(void)state;
	keyed_init(&d, open);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &together,
		{ .status = 200, .reply = TYPE_READ(EFAS("2", "2")) },
		{ .status = 200, .reply = GROUP_MADE }),
	    SPOT_CONFIG, "no public address");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &together,
		{ .status = 200, .reply = TYPE_READ(EFAS("65", "2")) }),
	    SPOT_BAD_REPLY, "number of EFAs");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &together,
		{ .status = 200,
		    .reply = "<DescribeInstanceTypesResponse><instanceTypeSet/>"
			     "</DescribeInstanceTypesResponse>" }),
	    SPOT_BAD_REPLY, "networkInfo");
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &together,
			     { .status = 200, .reply = TYPE_READ(EFAS("1", "1")) },
			     { .status = 200, .reply = GROUP_MADE },
			     { .has = { "NetworkInterface.1.AssociatePublicIpAddress=true",
				   "NetworkInterface.1.InterfaceType=efa&" },
				 .status = 200,
				 .reply = LAUNCHED }),
	    SPOT_DONE);
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(machines_that_are_placed_together_get_the_efas_of_their_type),
		cmocka_unit_test(efas_that_cannot_be_launch_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
