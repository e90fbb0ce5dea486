/* How EC2 expresses the cases of the suite (API reference, "Error codes"; see
 * providers/aws/README.md). */
#include "base/base.h"
#include "conform.h"

#include "aws/aws.h"
#include "base/text/text.h"

#define SECRET "conform/secret+key/0123456789EXAMPLE"
#define SESSION "conform-session-token-0123456789"
#define ERROR(code) \
	"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response><Errors><Error><Code>" code \
	"</Code><Message>words" \
	"</Message></Error></Errors><RequestID>r-1</RequestID></Response>"
#define INSTANCE(code, name) \
	"<item><reservationId>r-1</" \
	"reservationId><instancesSet><item><instanceId>i-0123456789abcdef0</instanceId>" \
	"<instanceState><code>" code "</code><name>" name \
	"</name></instanceState><clientToken>tok</clientToken>" \
	"<instanceType>g5.xlarge</instanceType><launchTime>2026-01-02T03:04:05.000Z</" \
	"launchTime><placement>" \
	"<availabilityZone>us-east-1a</availabilityZone><availabilityZoneId>use1-az4</" \
	"availabilityZoneId>" \
	"</placement><instanceLifecycle>spot</instanceLifecycle><spotInstanceRequestId>sir-1</" \
	"spotInstanceRequestId>" \
	"<tagSet><item><key>spotbroker:install</key><value>7f3a</value></item></tagSet></item></" \
	"instancesSet></item>"
#define LIST(items, more) \
	"<DescribeInstancesResponse " \
	"xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><requestId>q</requestId>" \
	"<reservationSet>" items "</reservationSet>" more "</DescribeInstancesResponse>"

static const char *const env[] = { "AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY",
	SECRET, "AWS_SESSION_TOKEN", SESSION, "AWS_REGION", "us-east-1", NULL };
static const char *const settings[] = { "ami", "ami-0123456789abcdef0", NULL };
static const char *const secrets[] = { SECRET, SESSION, NULL };
/* Limits of the account that every type draws on, a full subnet, and an account without the role
 * for spot. */
static const struct drive_try volumes[] = { { .status = 400,
    .reply = ERROR("VolumeLimitExceeded") } };
static const struct drive_try subnet[] = { { .status = 400,
    .reply = ERROR("InsufficientFreeAddressesInSubnet") } };
static const struct drive_try blocked[] = { { .status = 400, .reply = ERROR("Blocked") } };
static const struct drive_try no_spot_role[] = { { .status = 403,
    .reply = ERROR("AuthFailure.ServiceLinkedRoleCreationNotPermitted") } };
static const struct conform_reach reach[] = {
	{ { volumes, 1 }, SPOT_QUOTA, SPOT_SCOPE_REGION },
	{ { subnet, 1 }, SPOT_NO_CAPACITY, SPOT_SCOPE_ZONE },
	{ { blocked, 1 }, SPOT_DENIED, SPOT_SCOPE_PROVIDER },
	{ { no_spot_role, 1 }, SPOT_DENIED, SPOT_SCOPE_MARKET },
};
/* A list ends with the placement groups. */
static const struct drive_try groups[] = { { .status = 200,
    .reply = "<DescribePlacementGroupsResponse "
	     "xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><requestId>q</requestId>"
	     "<placementGroupSet/></DescribePlacementGroupsResponse>" } };
static const char *const wrong[] = {
	"<DescribeInstancesResponse><requestId>q</requestId></DescribeInstancesResponse>",
	"<RunInstancesResponse/>",
	"<html><body>hello</body></html>",
	LIST("<item><instancesSet><item><instanceId/></item></instancesSet></item>", ""),
	LIST("<item><instancesSet><item></item></instancesSet></item>", ""),
	"{\"reservationSet\":[]}",
	NULL,
};

const struct conform_provider conform_aws = {
    .name = "aws",
    .ops = &aws_ops,
    .env = env,
    .settings = settings,
    .secrets = secrets,
    .launch =
	{
	    .key = {"aws", "us-east-1", "use1-az4", "g5.xlarge", SPOT_MARKET_SPOT},
	    .zone_name = "us-east-1a",
	    .shape = {.arch = "x86_64"},
	    .token = "tok",
	    .name = "brk.7f3a.n1.1767323045",
	    .install = "7f3a",
	    .user_data = {"#!/bin/sh\n", 10},
	},
    .install = "7f3a",
    .region = "us-east-1",
    .ref = "i-0123456789abcdef0",
    .list_good = LIST(INSTANCE("16", "running"), ""),
    .list_empty = LIST("", ""),
    .list_odd = LIST(INSTANCE("99", "dreaming"), ""),
    .list_after = {groups, ARRAY_LEN(groups)},
    .list_page = LIST("", "<nextToken>@@</nextToken>"),
    .launch_good = "<RunInstancesResponse "
		   "xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><requestId>q</requestId>"
		   "<reservationId>r-1</"
		   "reservationId><instancesSet><item><instanceId>i-0123456789abcdef0</instanceId>"
		   "<instanceState><code>0</code><name>pending</name></"
		   "instanceState><clientToken>tok</clientToken>"
		   "<instanceType>g5.xlarge</instanceType><instanceLifecycle>spot</"
		   "instanceLifecycle></item></instancesSet>"
		   "</RunInstancesResponse>",
    .list_wrong = wrong,
    .throttled = {503, ERROR("RequestLimitExceeded")},
    .broken = {500, ERROR("InternalError")},
    .expired = {400, ERROR("ExpiredToken")},
    .denied = {403, ERROR("UnauthorizedOperation")},
    .capacity = {500, ERROR("InsufficientInstanceCapacity")}, /* a 500 that is not to be repeated */
    .quota = {400, ERROR("MaxSpotInstanceCountExceeded")},
    .mismatch = {400, ERROR("IdempotentParameterMismatch")},
    .unknown_instance = {400, ERROR("InvalidInstanceID.NotFound")},
    .wrong_place = {404, "<html>Not Found</html>"},
    .reach = reach,
    .reach_n = ARRAY_LEN(reach),
};
