#include "base/base.h"
#include "azure_test.h"

/* The golden cases of Azure: the verbs and arguments, with token and settings. */

#define NET "/subscriptions/" GOLDEN_SUB "/resourceGroups/net/providers/Microsoft.Network/"
#define BASE \
	"subscription", GOLDEN_SUB, "tenant", "contoso.example", "client_id", \
	    "66666666-7777-8888-9999-000000000000"

const char *const golden_env[] = { "AZURE_CLIENT_SECRET", "golden~client.secret/0123456789", NULL };
const char *const golden_settings[] = { BASE, "ssh_public_key",
	"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 golden", "subnet.eastus2",
	NET "virtualNetworks/v/subnets/gpu", NULL };
static const struct drive_try token[] = {
	{ .method = "POST", .url = TOKEN_URL, .status = 200, .reply = TOKEN_OK(GOLDEN_TOKEN) }
};

/* ---- arguments ------------------------------------------------------------------------------- */

#define POOL(z, t, m, c) \
	{ \
		.key = { "azure", "eastus2", "eastus2-" z, t, SPOT_MARKET_##m }, .zone_name = z, \
		.quota_class = c, .shape = { \
			.vcpus = 40 \
		} \
	}
#define H100 "Standard_NC40ads_H100_v5"
#define T4 "Standard_NC4as_T4_v3"
static const struct spot_pool_info pools[] = {
	POOL("1", H100, SPOT, "lowprioritycores"),
	POOL("1", H100, ON_DEMAND, "standardncadsh100v5family"),
	POOL("2", H100, SPOT, "lowprioritycores"),
	POOL("2", H100, ON_DEMAND, "standardncadsh100v5family"),
	POOL("1", T4, SPOT, "lowprioritycores"),
	POOL("1", T4, ON_DEMAND, "standardncasv3_t4family"),
};
static const struct spot_tag tags[] = { { "brk-node", "n41" }, { "team", "vision & co" } };
#define OTHER "spotbroker-brk-7f3a-n42-1767323046"
static const char *const refs[] = { LEASE, OTHER, "somebody-elses" };
static const struct spot_instance nodes[] = {
	{ .ref = LEASE, .key = { .market = SPOT_MARKET_SPOT } },
	{ .ref = OTHER, .key = { .market = SPOT_MARKET_SPOT } },
};

static const struct spot_pool_info reserved_pools[] = { POOL("1", H100, RESERVED, ""),
	POOL("2", H100, RESERVED, "") };

#define HERE .region = "eastus2"
#define POOLS .pools = pools, .pools_n = ARRAY_LEN(pools)
#define NAME "brk.7f3a.n41.1767323045"
#define LAUNCH(m, zone, zone_number) \
	.key = { "azure", "eastus2", zone, H100, SPOT_MARKET_##m }, .zone_name = zone_number, \
	.shape = { .gpu_name = "H100-94GB-NVL", .gpu_milli = 1000, .arch = "x86_64" }, \
	.token = "spt-7f3a-n41", .name = NAME, .install = "7f3a", .tags = tags, \
	.tags_n = ARRAY_LEN(tags), .user_data = GOLDEN_USER_DATA

/* ---- the table ------------------------------------------------------------------------------- */

static const char *const full[] = { BASE, "ssh_public_key", "ssh-rsa AAAAB3NzaC1yc2E golden",
	"subnet.eastus2", NET "virtualNetworks/v/subnets/gpu", "nsg.eastus2",
	NET "networkSecurityGroups/closed", "identity",
	"/subscriptions/" GOLDEN_SUB
	"/resourceGroups/net/providers/Microsoft.ManagedIdentity/userAssignedIdentities/node",
	"os_disk_gib", "256", "public_ip", "off", "image",
	"/subscriptions/" GOLDEN_SUB
	"/resourceGroups/img/providers/Microsoft.Compute/galleries/g/images/gpu",
	NULL };
static const char *const reserving[] = { BASE, "ssh_public_key", "ssh-rsa AAAAB3NzaC1yc2E golden",
	"subnet.eastus2", NET "virtualNetworks/v/subnets/gpu", "reservation_group.eastus2",
	"/subscriptions/" GOLDEN_SUB
	"/resourceGroups/capacity/providers/Microsoft.Compute/capacityReservationGroups/gpus",
	NULL };
static const char *const storage[] = { BASE, "federated_token_file", "/run/azure/token",
	"storage_account", "contosockpt", NULL };
static const char *const managed[] = { "subscription", GOLDEN_SUB, NULL };
static const char *const no_env[] = { NULL };

static const struct golden_case cases[] = {
	{ .name = "regions", .verb = DRIVE_REGIONS },
	{ .name = "whoami", .verb = DRIVE_WHOAMI },
	{ .name = "pools", .verb = DRIVE_POOLS, GOLDEN_ARGS(spot_pools, HERE) },
	{ .name = "prices", .verb = DRIVE_PRICES, GOLDEN_ARGS(spot_prices, HERE, POOLS) },
	{ .name = "price_history",
	    .verb = DRIVE_PRICES,
	    GOLDEN_ARGS(spot_prices, HERE, POOLS, .market = SPOT_MARKET_SPOT,
		.since_us = GOLDEN_NOW_US - 30 * 24 * SPOT_US_PER_HOUR) },
	{ .name = "signals", .verb = DRIVE_SIGNALS, GOLDEN_ARGS(spot_signals, HERE, POOLS) },
	{ .name = "quotas", .verb = DRIVE_QUOTAS, GOLDEN_ARGS(spot_quotas, HERE) },
	{ .name = "launch_spot",
	    .verb = DRIVE_LAUNCH,
	    GOLDEN_ARGS(spot_launch, LAUNCH(SPOT, "eastus2-1", "1")) },
	{ .name = "launch_together",
	    .verb = DRIVE_LAUNCH,
	    GOLDEN_ARGS(spot_launch, LAUNCH(SPOT, "eastus2-1", "1"), .together = "brk-7f3a-g7") },
	{ .name = "launch_on_demand",
	    .verb = DRIVE_LAUNCH,
	    .settings = full,
	    GOLDEN_ARGS(spot_launch, LAUNCH(ON_DEMAND, "eastus2-1", "1")) },
	{ .name = "launch_reserved",
	    .verb = DRIVE_LAUNCH,
	    .settings = reserving,
	    GOLDEN_ARGS(spot_launch, LAUNCH(RESERVED, "eastus2-1", "1")) },
	{ .name = "pools_reserved",
	    .verb = DRIVE_POOLS,
	    .settings = reserving,
	    GOLDEN_ARGS(spot_pools, HERE) },
	{ .name = "signals_reserved",
	    .verb = DRIVE_SIGNALS,
	    .settings = reserving,
	    GOLDEN_ARGS(spot_signals, HERE, .pools = reserved_pools,
		.pools_n = ARRAY_LEN(reserved_pools)) },
	{ .name = "launch_capped",
	    .verb = DRIVE_LAUNCH,
	    GOLDEN_ARGS(spot_launch, LAUNCH(SPOT, "", ""), .price_cap_micros = 2612345) },
	{ .name = "find",
	    .verb = DRIVE_FIND,
	    GOLDEN_ARGS(spot_find, HERE, .zone = "eastus2-1", .token = "spt-7f3a-n41", .name = NAME,
		.install = "7f3a") },
	{ .name = "list", .verb = DRIVE_LIST, GOLDEN_ARGS(spot_list, HERE, .install = "7f3a") },
	{ .name = "describe",
	    .verb = DRIVE_DESCRIBE,
	    GOLDEN_ARGS(spot_describe, HERE, .refs = refs, .refs_n = ARRAY_LEN(refs)) },
	{ .name = "terminate",
	    .verb = DRIVE_TERMINATE,
	    GOLDEN_ARGS(spot_terminate, HERE, .zone = "eastus2-1", .ref = LEASE,
		.spot_request = "") },
	{ .name = "notices",
	    .verb = DRIVE_NOTICES,
	    GOLDEN_ARGS(spot_notices, HERE, .instances = nodes, .instances_n = ARRAY_LEN(nodes)) },
	{ .name = "check", .verb = DRIVE_CHECK, GOLDEN_ARGS(spot_check, HERE, POOLS) },
	{ .name = "auth_workload",
	    .verb = DRIVE_AUTH,
	    .env = no_env,
	    .settings = storage,
	    .no_keys = true },
	{ .name = "auth_managed",
	    .verb = DRIVE_AUTH,
	    .env = no_env,
	    .settings = managed,
	    .no_keys = true },
};

const struct golden_suite golden_suite = { .ops = &azure_ops,
	.cases = cases,
	.cases_n = ARRAY_LEN(cases),
	.env = golden_env,
	.settings = golden_settings,
	.auth = token,
	.auth_n = ARRAY_LEN(token) };
