#include "base/base.h"
#include "aws_test.h"

/* The golden cases of AWS: the verbs and arguments, with keys and settings. */

const char *const golden_env[] = { "AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY",
	"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "AWS_SESSION_TOKEN", "SESSIONTOKENEXAMPLE",
	NULL };

/* ---- arguments ------------------------------------------------------------------------------- */

#define POOL(z, n, t, m, ...) \
	{ \
		.key = { "aws", "us-east-1", z, t, SPOT_MARKET_##m }, .zone_name = n, __VA_ARGS__ \
	}
static const struct spot_pool_info pools[] = {
	POOL("use1-az4", "us-east-1a", "g5.xlarge", SPOT),
	POOL("use1-az4", "us-east-1a", "g5.xlarge", ON_DEMAND),
	POOL("use1-az6", "us-east-1b", "g5.xlarge", SPOT),
	POOL("use1-az6", "us-east-1b", "g5.xlarge", ON_DEMAND),
	POOL("use1-az4", "us-east-1a", "p5.48xlarge", SPOT),
	POOL("use1-az4", "us-east-1a", "p5.48xlarge", ON_DEMAND),
	POOL("use1-az6", "us-east-1b", "g4dn.metal", ON_DEMAND),
};

/* Doctor weighs the quota of a class against the need of its pools. */
#define WANTED(m, class) \
	POOL("use1-az4", "us-east-1a", "g5.xlarge", m, .shape = { .arch = "x86_64", .vcpus = 4 }, \
	    .quota_class = class)
static const struct spot_pool_info wanted[] = { WANTED(SPOT, "G/Spot"),
	WANTED(ON_DEMAND, "G/OnDemand") };
static const struct spot_tag tags[] = { { "spotbroker:node", "41" }, { "team", "vision & co" } };
static const char *const refs[] = { "i-0aaa", "i-0bbb", "i-0ccc" };
static const struct spot_instance nodes[] = {
	{ .ref = "i-0aaa", .key = { .market = SPOT_MARKET_SPOT }, .spot_request = "sir-1" },
	{ .ref = "i-0bbb", .key = { .market = SPOT_MARKET_SPOT }, .spot_request = "sir-2" },
	{ .ref = "i-0ddd", .key = { .market = SPOT_MARKET_ON_DEMAND } },
};

static const struct spot_instance reserved[] = {
	{ .ref = "i-0ddd", .key = { .market = SPOT_MARKET_RESERVED } },
};
static const struct spot_pool_info reserved_pools[] = {
	POOL("use1-az4", "us-east-1a", "g5.xlarge", RESERVED),
};

#define HERE .region = "us-east-1"
#define POOLS .pools = pools, .pools_n = ARRAY_LEN(pools)
#define LAUNCH(m) \
	.key = { "aws", "us-east-1", "use1-az4", "g5.xlarge", SPOT_MARKET_##m }, \
	.zone_name = "us-east-1a", \
	.shape = { .gpu_name = "A10G", .gpu_milli = 1000, .arch = "x86_64" }, \
	.token = "sb-7f3a-41-1", .name = "sb-7f3a-n41", .install = "7f3a", .tags = tags, \
	.tags_n = ARRAY_LEN(tags), .user_data = GOLDEN_USER_DATA

/* ---- the table ------------------------------------------------------------------------------- */

static const char *const place[] = { "subnet.use1-az4", "subnet-0123", "security_groups.us-east-1",
	"sg-1, sg-2", "instance_profile", "spot-node", "root_gib", "200", "public_ip", "on", NULL };
static const char *const fixed_image[] = { "ami", "ami-0fed", "instance_profile",
	"arn:aws:iam::123456789012:instance-profile/spot-node", "security_groups.us-east-1", "sg-1",
	NULL };
static const char *const fixed_amis[] = { "ami", "ami-0fed", "reservations", "on", NULL };
static const char *const managed[] = { "placement_scores", "off", "advisor_url", "off", NULL };
static const char *const efa_on[] = { "ami", "ami-0fed", "efa", "on", "subnet.use1-az4",
	"subnet-0123", "security_groups.us-east-1", "sg-1", NULL };
static const char *const everything[] = { "reservations", "on", "interruption_queue.us-east-1",
	"https://sqs.us-east-1.amazonaws.com/123456789012/spotbroker-interruptions", NULL };
static const char *const env_web[] = { "AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/broker",
	"AWS_WEB_IDENTITY_TOKEN_FILE", "/run/token", "AWS_ROLE_SESSION_NAME", "broker", NULL };
static const char *const env_role[] = { "AWS_SHARED_CREDENTIALS_FILE", "/etc/aws/credentials",
	"AWS_CONFIG_FILE", "/etc/aws/config", "AWS_PROFILE", "broker", NULL };
static const char *const env_container[] = { "AWS_CONTAINER_CREDENTIALS_FULL_URI",
	"http://169.254.170.23/v1/credentials", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
	"/run/pod-token", NULL };
static const char *const env_metadata[] = { "HOME", "/home/broker", NULL };

static const struct golden_case cases[] = {
	{ .name = "regions", .verb = DRIVE_REGIONS },
	{ .name = "pools", .verb = DRIVE_POOLS, GOLDEN_ARGS(spot_pools, HERE) },
	{ .name = "spot_prices",
	    .verb = DRIVE_PRICES,
	    GOLDEN_ARGS(spot_prices, HERE, POOLS, .market = SPOT_MARKET_SPOT,
		.since_us = GOLDEN_NOW_US - 3 * 24 * SPOT_US_PER_HOUR) },
	{ .name = "list_prices",
	    .verb = DRIVE_PRICES,
	    GOLDEN_ARGS(spot_prices, HERE, POOLS, .market = SPOT_MARKET_ON_DEMAND) },
	{ .name = "signals", .verb = DRIVE_SIGNALS, GOLDEN_ARGS(spot_signals, HERE, POOLS) },
	{ .name = "signals_filled",
	    .verb = DRIVE_SIGNALS,
	    .settings = managed,
	    GOLDEN_ARGS(spot_signals, HERE, .pools = wanted, .pools_n = ARRAY_LEN(wanted)) },
	{ .name = "quotas", .verb = DRIVE_QUOTAS, GOLDEN_ARGS(spot_quotas, HERE) },
	{ .name = "launch_spot",
	    .verb = DRIVE_LAUNCH,
	    .settings = place,
	    GOLDEN_ARGS(spot_launch, LAUNCH(SPOT), .price_cap_micros = 612345) },
	{ .name = "launch_on_demand",
	    .verb = DRIVE_LAUNCH,
	    .settings = fixed_image,
	    GOLDEN_ARGS(spot_launch, LAUNCH(ON_DEMAND)) },
	{ .name = "find",
	    .verb = DRIVE_FIND,
	    GOLDEN_ARGS(spot_find, HERE, .zone = "use1-az4", .token = "sb-7f3a-41-1",
		.name = "sb-7f3a-n41", .install = "7f3a") },
	{ .name = "list", .verb = DRIVE_LIST, GOLDEN_ARGS(spot_list, HERE, .install = "7f3a") },
	{ .name = "describe",
	    .verb = DRIVE_DESCRIBE,
	    GOLDEN_ARGS(spot_describe, HERE, .refs = refs, .refs_n = ARRAY_LEN(refs)) },
	{ .name = "terminate",
	    .verb = DRIVE_TERMINATE,
	    GOLDEN_ARGS(spot_terminate, HERE, .zone = "use1-az4", .ref = "i-0aaa",
		.spot_request = "sir-1") },
	{ .name = "notices",
	    .verb = DRIVE_NOTICES,
	    GOLDEN_ARGS(spot_notices, HERE, .instances = nodes, .instances_n = ARRAY_LEN(nodes)) },
	{ .name = "launch_gang",
	    .verb = DRIVE_LAUNCH_GANG,
	    .settings = fixed_amis,
	    GOLDEN_ARGS(spot_launch_gang, .common = { LAUNCH(SPOT) }, .want = 3) },
	{ .name = "launch_together",
	    .verb = DRIVE_LAUNCH_GANG,
	    .settings = fixed_amis,
	    GOLDEN_ARGS(spot_launch_gang, .common = { LAUNCH(SPOT), .together = "brk-7f3a-g7" },
		.want = 3) },
	{ .name = "launch_together_again",
	    .verb = DRIVE_LAUNCH_GANG,
	    .settings = fixed_amis,
	    GOLDEN_ARGS(spot_launch_gang, .common = { LAUNCH(SPOT), .together = "brk-7f3a-g7" },
		.want = 3) },
	{ .name = "launch_efa",
	    .verb = DRIVE_LAUNCH_GANG,
	    .settings = efa_on,
	    GOLDEN_ARGS(spot_launch_gang, .common = { LAUNCH(SPOT), .together = "brk-7f3a-g7" },
		.want = 3) },
	{ .name = "terminate_group",
	    .verb = DRIVE_TERMINATE,
	    GOLDEN_ARGS(spot_terminate, HERE, .zone = "", .ref = "pg/brk-7f3a-g3") },
	{ .name = "launch_reserved",
	    .verb = DRIVE_LAUNCH,
	    .settings = fixed_amis,
	    GOLDEN_ARGS(spot_launch, LAUNCH(RESERVED)) },
	{ .name = "launch_interruptible",
	    .verb = DRIVE_LAUNCH,
	    .settings = fixed_amis,
	    GOLDEN_ARGS(spot_launch, LAUNCH(INTERRUPTIBLE)) },
	{ .name = "notices_reserved",
	    .verb = DRIVE_NOTICES,
	    .settings = fixed_amis,
	    GOLDEN_ARGS(spot_notices, HERE, .instances = reserved,
		.instances_n = ARRAY_LEN(reserved)) },
	{ .name = "signals_reserved",
	    .verb = DRIVE_SIGNALS,
	    .settings = fixed_amis,
	    GOLDEN_ARGS(spot_signals, HERE, .pools = reserved_pools,
		.pools_n = ARRAY_LEN(reserved_pools)) },
	{ .name = "watch",
	    .verb = DRIVE_WATCH,
	    .settings = everything,
	    GOLDEN_ARGS(spot_watch, HERE, .install = "7f3a",
		.cursor = "{\"delete\":[\"AQEBold\"],\"seen\":[\"e-0\"]}",
		.hold_us = 25 * SPOT_US_PER_S) },
	{ .name = "check",
	    .verb = DRIVE_CHECK,
	    .settings = everything,
	    GOLDEN_ARGS(spot_check, HERE, .pools = wanted, .pools_n = ARRAY_LEN(wanted),
		.install = "7f3a") },
	{ .name = "whoami", .verb = DRIVE_WHOAMI },
	{ .name = "auth_web", .verb = DRIVE_AUTH, .env = env_web, .no_keys = true },
	{ .name = "auth_role", .verb = DRIVE_AUTH, .env = env_role, .no_keys = true },
	{ .name = "auth_container", .verb = DRIVE_AUTH, .env = env_container, .no_keys = true },
	{ .name = "auth_metadata", .verb = DRIVE_AUTH, .env = env_metadata, .no_keys = true },
};

const struct golden_suite golden_suite = { .ops = &aws_ops,
	.cases = cases,
	.cases_n = ARRAY_LEN(cases),
	.env = golden_env };
