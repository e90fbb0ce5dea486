#include "base/base.h"
#include "gcp_test.h"

/* The golden cases of Google Cloud: the verbs and arguments, with token and settings. */

const char *const golden_env[] = { "GCE_METADATA_HOST", "metadata.test", NULL };
const char *const golden_settings[] = { "project", "spot-golden", NULL };
const struct drive_try golden_auth[] = { { .url = "http://metadata.test/*",
    .status = 200,
    .reply_headers = { "Metadata-Flavor: Google" },
    .reply =
	"{\"access_token\":\"" GOLDEN_TOKEN "\",\"expires_in\":3599,\"token_type\":\"Bearer\"}" } };
const size_t golden_auth_n = ARRAY_LEN(golden_auth);

/* ---- arguments ------------------------------------------------------------------------------- */

#define POOL(z, t, m, n, q) \
	{ \
		.key = { "gcp", "us-central1", z, t, SPOT_MARKET_##m }, .zone_name = "", \
		.shape = { .gpu_milli = (n)*1000 }, .quota_class = q \
	}
static const struct spot_pool_info pools[] = {
	POOL("us-central1-a", "g2-standard-4", SPOT, 1, "L4/Spot"),
	POOL("us-central1-a", "g2-standard-4", ON_DEMAND, 1, "L4/OnDemand"),
	POOL("us-central1-ai1a", "a3-highgpu-8g", SPOT, 8, "H100/Spot"),
	POOL("us-central1-ai1a", "a3-highgpu-8g", ON_DEMAND, 8, "H100/OnDemand"),
	POOL("us-central1-a", "a4-highgpu-8g", SPOT, 8, "B200/Spot"),
	POOL("us-central1-a", "n1-standard-8+nvidia-tesla-t4x1", SPOT, 1, "T4/Spot"),
	POOL("us-central1-a", "n1-standard-8+nvidia-tesla-t4x1", ON_DEMAND, 1, "T4/OnDemand"),
};

static const struct spot_tag tags[] = { { "spotbroker:node", "41" }, { "Team", "Vision & Co" } };
#define VM_1 "us-central1-a/7239000000000000001"
static const char *const refs[] = { VM_1, "us-central1-a/7239000000000000002", "nonsense" };
static const struct spot_instance nodes[] = {
	{ .ref = VM_1, .key = { .market = SPOT_MARKET_SPOT } },
	{ .ref = "us-central1-ai1a/7239000000000000002", .key = { .market = SPOT_MARKET_SPOT } },
};

static const struct spot_pool_info reserved_pools[] = {
	POOL("us-central1-a", "g2-standard-4", RESERVED, 1, ""),
	POOL("us-central1-a", "n1-standard-8+nvidia-tesla-t4x1", RESERVED, 1, ""),
};
static const struct spot_instance reserved[] = {
	{ .ref = VM_1, .install = "7f3a", .key = { .market = SPOT_MARKET_RESERVED } },
};

static const struct spot_instance queued[] = {
	{ .ref = VM_1, .install = "7f3a", .key = { .market = SPOT_MARKET_FLEX_START } },
};

#define ALL .region = ""
#define HERE .region = "us-central1"
#define POOLS .pools = pools, .pools_n = ARRAY_LEN(pools)
#define TOKEN "spt-7f3a-n0011223344556677"
#define NAME "brk.7f3a.n0011223344556677.1767323045"
#define LAUNCH(m) LAUNCH_OF("g2-standard-4", m)
#define LAUNCH_OF(type, m) \
	.key = { "gcp", "us-central1", ZONE, type, SPOT_MARKET_##m }, .zone_name = "", \
	.shape = { .gpu_name = "L4", .gpu_milli = 1000, .arch = "x86_64" }, .token = TOKEN, \
	.name = NAME, .install = "7f3a", .tags = tags, .tags_n = ARRAY_LEN(tags), \
	.user_data = GOLDEN_USER_DATA
#define TERMINATE(what) \
	GOLDEN_ARGS(spot_terminate, HERE, .zone = ZONE, .ref = what, .spot_request = "")

/* ---- the table ------------------------------------------------------------------------------- */

static const char *const place[] = { "project", "spot-golden", "subnetwork.us-central1", "nodes",
	"service_account", "node@spot-golden.iam.gserviceaccount.com", "disk_gib", "200",
	"public_ip", "off", "max_run_hours", "24", NULL };
static const char *const plain[] = { "project", "spot-golden", "preemption_notice", "off", NULL };
static const char *const bucket[] = { "project", "spot-golden", "bucket", "ckpt-golden", NULL };
static const char *const beta[] = { "project", "spot-golden", "advice_version", "beta", NULL };
static const char *const reserving[] = { "project", "spot-golden", "reservations", "on",
	"advice_version", "off", NULL };
static const char *const flex[] = { "project", "spot-golden", "flex_start", "on", "flex_start_wait",
	"1h", NULL };
static const char *const env_file[] = { "GOOGLE_APPLICATION_CREDENTIALS", "/etc/gcp.json", NULL };
static const char *const env_home[] = { "HOME", "/home/broker", NULL };

static const struct golden_case cases[] = {
	{ .name = "whoami", .verb = DRIVE_WHOAMI },
	{ .name = "regions", .verb = DRIVE_REGIONS },
	{ .name = "pools", .verb = DRIVE_POOLS, GOLDEN_ARGS(spot_pools, ALL) },
	{ .name = "prices", .verb = DRIVE_PRICES, GOLDEN_ARGS(spot_prices, ALL, POOLS) },
	{ .name = "prices_past",
	    .verb = DRIVE_PRICES,
	    GOLDEN_ARGS(spot_prices, ALL, POOLS, .market = SPOT_MARKET_SPOT,
		.since_us = GOLDEN_NOW_US - 30 * 24 * SPOT_US_PER_HOUR) },
	{ .name = "signals", .verb = DRIVE_SIGNALS, GOLDEN_ARGS(spot_signals, HERE, POOLS) },
	{ .name = "signals_refused",
	    .verb = DRIVE_SIGNALS,
	    GOLDEN_ARGS(spot_signals, HERE, POOLS) },
	{ .name = "signals_beta",
	    .verb = DRIVE_SIGNALS,
	    .settings = beta,
	    GOLDEN_ARGS(spot_signals, HERE, POOLS) },
	{ .name = "quotas", .verb = DRIVE_QUOTAS, GOLDEN_ARGS(spot_quotas, ALL) },
	{ .name = "launch_spot", .verb = DRIVE_LAUNCH, GOLDEN_ARGS(spot_launch, LAUNCH(SPOT)) },
	{ .name = "launch_attached",
	    .verb = DRIVE_LAUNCH,
	    GOLDEN_ARGS(spot_launch, LAUNCH_OF("n1-standard-16+nvidia-tesla-v100x2", SPOT)) },
	{ .name = "launch_on_demand",
	    .verb = DRIVE_LAUNCH,
	    .settings = place,
	    GOLDEN_ARGS(spot_launch, LAUNCH(ON_DEMAND)) },
	{ .name = "launch_exhausted",
	    .verb = DRIVE_LAUNCH,
	    .settings = plain,
	    GOLDEN_ARGS(spot_launch, LAUNCH(SPOT)) },
	{ .name = "launch_adopted",
	    .verb = DRIVE_LAUNCH,
	    .settings = plain,
	    GOLDEN_ARGS(spot_launch, LAUNCH(SPOT)) },
	{ .name = "launch_reserved",
	    .verb = DRIVE_LAUNCH,
	    .settings = reserving,
	    GOLDEN_ARGS(spot_launch, LAUNCH(RESERVED)) },
	{ .name = "launch_flex",
	    .verb = DRIVE_LAUNCH,
	    .settings = flex,
	    GOLDEN_ARGS(spot_launch, LAUNCH(FLEX_START)) },
	{ .name = "notices_flex",
	    .verb = DRIVE_NOTICES,
	    .settings = flex,
	    GOLDEN_ARGS(spot_notices, ALL, .instances = queued, .instances_n = ARRAY_LEN(queued)) },
	{ .name = "pools_reserved",
	    .verb = DRIVE_POOLS,
	    .settings = reserving,
	    GOLDEN_ARGS(spot_pools, ALL) },
	{ .name = "signals_reserved",
	    .verb = DRIVE_SIGNALS,
	    .settings = reserving,
	    GOLDEN_ARGS(spot_signals, ALL, .pools = reserved_pools,
		.pools_n = ARRAY_LEN(reserved_pools)) },
	{ .name = "notices_reserved",
	    .verb = DRIVE_NOTICES,
	    .settings = reserving,
	    GOLDEN_ARGS(spot_notices, ALL, .instances = reserved,
		.instances_n = ARRAY_LEN(reserved)) },
	{ .name = "gang",
	    .verb = DRIVE_LAUNCH_GANG,
	    GOLDEN_ARGS(spot_launch_gang, .common = { LAUNCH(SPOT) }, .want = 2) },
	{ .name = "gang_together",
	    .verb = DRIVE_LAUNCH_GANG,
	    GOLDEN_ARGS(spot_launch_gang, .common = { LAUNCH(SPOT), .together = "brk-7f3a-g7" },
		.want = 2) },
	{ .name = "gang_together_again",
	    .verb = DRIVE_LAUNCH_GANG,
	    GOLDEN_ARGS(spot_launch_gang, .common = { LAUNCH(SPOT), .together = "brk-7f3a-g7" },
		.want = 2) },
	{ .name = "terminate_policy",
	    .verb = DRIVE_TERMINATE,
	    TERMINATE("us-central1/resourcePolicies/brk-7f3a-g3") },
	{ .name = "set",
	    .verb = DRIVE_LAUNCH_GANG,
	    GOLDEN_ARGS(spot_launch_gang, .common = { LAUNCH(SPOT) }, .want = 3, .least = 1) },
	{ .name = "gang_failed",
	    .verb = DRIVE_LAUNCH_GANG,
	    .settings = plain,
	    GOLDEN_ARGS(spot_launch_gang, .common = { LAUNCH(SPOT) }, .want = 2) },
	{ .name = "find",
	    .verb = DRIVE_FIND,
	    GOLDEN_ARGS(spot_find, HERE, .zone = ZONE, .token = TOKEN, .name = NAME,
		.install = "7f3a") },
	{ .name = "list", .verb = DRIVE_LIST, GOLDEN_ARGS(spot_list, ALL, .install = "7f3a") },
	{ .name = "describe",
	    .verb = DRIVE_DESCRIBE,
	    GOLDEN_ARGS(spot_describe, HERE, .refs = refs, .refs_n = ARRAY_LEN(refs)) },
	{ .name = "terminate", .verb = DRIVE_TERMINATE, TERMINATE(VM_1) },
	{ .name = "terminate_disk",
	    .verb = DRIVE_TERMINATE,
	    TERMINATE("us-central1-a/disks/7239000000000000009") },
	{ .name = "notices",
	    .verb = DRIVE_NOTICES,
	    GOLDEN_ARGS(spot_notices, HERE, .instances = nodes, .instances_n = ARRAY_LEN(nodes)) },
	{ .name = "check",
	    .verb = DRIVE_CHECK,
	    .settings = bucket,
	    GOLDEN_ARGS(spot_check, HERE, .pools = pools, .pools_n = 2) },
	{ .name = "auth_key", .verb = DRIVE_AUTH, .env = env_file, .no_keys = true },
	{ .name = "auth_user", .verb = DRIVE_AUTH, .env = env_home, .no_keys = true },
	{ .name = "auth_external", .verb = DRIVE_AUTH, .env = env_file, .no_keys = true },
	{ .name = "auth_metadata", .verb = DRIVE_AUTH, .env = env_home, .no_keys = true },
};

/* The published test key is not in the files as a key, or every scanner for leaked keys would find
 * it there. */
static const char *key_fill(struct arena *a, const char *text)
{
	return strstr(text, "@KEY@") != NULL ? golden_replace(a, text, "@KEY@", golden_key(a, true))
					     : text;
}

/* Hides the signature, which differs with the key only; test_creds.c checks it. */
static const char *jwt_hide(struct arena *a, const char *text)
{
	const char *at = strstr(text, "assertion=");

	if (at == NULL) {
		return text;
	}
	at += 10;
	return arena_printf(a, "%.*s@JWT@%s", (int)(at - text), text, at + strcspn(at, "&\n"));
}

const struct golden_suite golden_suite = { .ops = &gcp_ops,
	.cases = cases,
	.cases_n = ARRAY_LEN(cases),
	.env = golden_env,
	.settings = golden_settings,
	.auth = golden_auth,
	.auth_n = ARRAY_LEN(golden_auth),
	.reply_fill = key_fill,
	.request_hide = jwt_hide };

/* ---- the key --------------------------------------------------------------------------------- */

const char *golden_replace(struct arena *a, const char *text, const char *from, const char *to)
{
	const char *at = strstr(text, from);

	if (at == NULL) {
		return text;
	}
	return arena_printf(a, "%.*s%s%s", (int)(at - text), text, to,
	    golden_replace(a, at + strlen(from), from, to));
}

const char *golden_key(struct arena *a, bool json)
{
	const char *end = json ? "\\n" : "\n";
	const char *body =
	    golden_replace(a, golden_data(a, "storage/service_account.txt").p, "\n", end);

	return arena_printf(a,
	    "-----BEGIN PRIV"
	    "ATE KEY-----%s%s-----END PRIV"
	    "ATE KEY-----%s",
	    end, body, end);
}
