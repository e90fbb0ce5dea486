#include "base/base.h"
#include "golden.h"

#include "base/str.h"

/* The cases: arguments that stay the same, and results as text. */

/* ---- printing ---------------------------------------------------------------------------- */

static void print_key(const struct spot_pool_key *k, struct sbuf *out)
{
	sbuf_printf(out, "%s/%s/%s/%s/%s", k->provider, k->region, k->zone, k->instance_type,
	    spot_market_name(k->market));
}

static void print_instance(const struct spot_instance *i, struct sbuf *out)
{
	char t[TIME_TEXT_MAX];

	sbuf_printf(out, "%s ", i->ref);
	print_key(&i->key, out);
	sbuf_printf(out,
	    " %s cause=%d token=%s install=%s raw=%s reason=[%s] ip=%s request=%s created=%s\n",
	    spot_instance_state_name(i->state), (int)i->end_cause, i->token, i->install,
	    i->raw_state, i->raw_reason, i->ip, i->spot_request,
	    i->created_us ? format_time_s(i->created_us, t) : "-");
}

static void print_regions(const void *p, struct sbuf *out)
{
	const struct spot_regions *a = p;

	for (size_t i = 0; i < a->n; i++)
		sbuf_printf(out, "%s\n", a->names[i]);
}

static void print_pools(const void *p, struct sbuf *out)
{
	const struct spot_pools *a = p;

	for (size_t i = 0; i < a->n; i++) {
		const struct spot_pool_info *x = &a->pools[i];

		print_key(&x->key, out);
		sbuf_printf(out, " %s %s milli=%d mib=%d vcpus=%d mem=%d %s class=%s\n",
		    x->zone_name, x->shape.gpu_name, x->shape.gpu_milli, x->shape.gpu_mem_mib,
		    x->shape.vcpus, x->shape.mem_mib, x->shape.arch, x->quota_class);
	}
}

static void print_prices(const void *p, struct sbuf *out)
{
	const struct spot_prices *a = p;
	char t[TIME_TEXT_MAX], usd[USD_TEXT_MAX];

	for (size_t i = 0; i < a->n; i++) {
		const struct spot_price_point *x = &a->points[i];

		print_key(&x->key, out);
		sbuf_printf(out, " %s since %s by %s\n", format_usd(x->price_micros, usd),
		    x->effective_us ? format_time_s(x->effective_us, t) : "-", x->source);
	}
}

static void print_signals(const void *p, struct sbuf *out)
{
	const struct spot_signals *a = p;
	char t[TIME_TEXT_MAX];

	for (size_t i = 0; i < a->n; i++) {
		const struct spot_signal *x = &a->signals[i];

		sbuf_printf(out, "%s ", spot_signal_name(x->kind));
		print_key(&x->key, out);
		sbuf_printf(out, " value=%.2f lo=%.2f hi=%.2f as of %s by %s\n", x->value, x->lo,
		    x->hi, x->as_of_us ? format_time_s(x->as_of_us, t) : "-", x->source);
	}
}

static void print_quotas(const void *p, struct sbuf *out)
{
	const struct spot_quotas *a = p;

	for (size_t i = 0; i < a->n; i++) {
		const struct spot_quota *x = &a->quotas[i];

		sbuf_printf(out, "%s/%s %s %s %s %" PRId64 "\n", x->provider, x->region, x->class,
		    spot_market_name(x->market), x->unit, x->limit);
	}
}

static void print_launch(const void *p, struct sbuf *out)
{
	print_instance(&((const struct spot_launch *)p)->instance, out);
}

static void print_find(const void *p, struct sbuf *out)
{
	const struct spot_find *a = p;

	for (size_t i = 0; i < a->n; i++)
		print_instance(&a->found[i], out);
}

static void print_list(const void *p, struct sbuf *out)
{
	const struct spot_list *a = p;

	for (size_t i = 0; i < a->n; i++)
		print_instance(&a->found[i], out);
}

static void print_describe(const void *p, struct sbuf *out)
{
	const struct spot_describe *a = p;

	for (size_t i = 0; i < a->n; i++)
		print_instance(&a->found[i], out);
}

static void print_terminate(const void *p, struct sbuf *out)
{
	print_instance(&((const struct spot_terminate *)p)->after, out);
}

static void print_notices(const void *p, struct sbuf *out)
{
	const struct spot_notices *a = p;
	char t[TIME_TEXT_MAX];

	for (size_t i = 0; i < a->n; i++)
		sbuf_printf(out, "%s %s until %s by %s [%s]\n", a->notices[i].ref,
		    spot_notice_name(a->notices[i].kind),
		    a->notices[i].deadline_us ? format_time_s(a->notices[i].deadline_us, t) : "-",
		    a->notices[i].source, a->notices[i].raw);
}

static void print_account(const void *p, struct sbuf *out)
{
	sbuf_printf(out, "%s\n", *(const char *const *)p);
}

static void print_nothing(const void *p, struct sbuf *out)
{
	(void)p;
	(void)out;
}

static void print_gang(const void *p, struct sbuf *out)
{
	const struct spot_launch_gang *a = p;

	for (size_t i = 0; i < a->instances_n; i++)
		print_instance(&a->instances[i], out);
}

static void print_check(const void *p, struct sbuf *out)
{
	static const char *const states[] = {"?", "ok", "warn", "bad", "untested"};
	const struct spot_check *a = p;

	for (size_t i = 0; i < a->n; i++)
		sbuf_printf(out, "%s %s [%s] [%s]\n", states[a->items[i].state], a->items[i].name, a->items[i].words,
		    a->items[i].fix);
}

/* ---- arguments --------------------------------------------------------------------------- */

#define POOL(z, t, m, n, q)                                                                        \
	{                                                                                          \
		.key = {"gcp", "us-central1", z, t, SPOT_MARKET_##m}, .zone_name = "",             \
		.shape = {.gpu_milli = (n) * 1000}, .quota_class = q                               \
	}
static const struct spot_pool_info pools[] = {
    POOL("us-central1-a", "g2-standard-4", SPOT, 1, "L4/Spot"),
    POOL("us-central1-a", "g2-standard-4", ON_DEMAND, 1, "L4/OnDemand"),
    POOL("us-central1-ai1a", "a3-highgpu-8g", SPOT, 8, "H100/Spot"),
    POOL("us-central1-ai1a", "a3-highgpu-8g", ON_DEMAND, 8, "H100/OnDemand"),
    POOL("us-central1-a", "a4-highgpu-8g", SPOT, 8, "B200/Spot"),
};

static void *args_nothing(struct arena *a)
{
	return arena_alloc(a, 256);
}

static void *args_pools(struct arena *a)
{
	struct spot_pools *x = arena_alloc(a, sizeof(*x));

	x->region = "";
	return x;
}

static struct spot_prices *prices(struct arena *a, enum spot_market market, int64_t since_us)
{
	struct spot_prices *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_prices){
	    .region = "", .market = market, .since_us = since_us, .pools = pools, .pools_n = ARRAY_LEN(pools)};
	return x;
}

static void *args_prices(struct arena *a)
{
	return prices(a, SPOT_MARKET_NONE, 0);
}

static void *args_prices_past(struct arena *a)
{
	return prices(a, SPOT_MARKET_SPOT, GOLDEN_NOW_US - 30 * 24 * SPOT_US_PER_HOUR);
}

static void *args_signals(struct arena *a)
{
	struct spot_signals *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_signals){.region = "us-central1", .pools = pools, .pools_n = ARRAY_LEN(pools)};
	return x;
}

static void *args_quotas(struct arena *a)
{
	struct spot_quotas *x = arena_alloc(a, sizeof(*x));

	x->region = "";
	return x;
}

static struct spot_launch *launch(struct arena *a, enum spot_market market)
{
	static const struct spot_tag tags[] = {{"spotbroker:node", "41"}, {"Team", "Vision & Co"}};
	struct spot_launch *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_launch){.key = {"gcp", "us-central1", "us-central1-a", "g2-standard-4", market},
	    .zone_name = "",
	    .shape = {.gpu_name = "L4", .gpu_milli = 1000, .arch = "x86_64"},
	    .token = "spt-7f3a-n0011223344556677",
	    .name = "brk.7f3a.n0011223344556677.1767323045",
	    .install = "7f3a",
	    .tags = tags,
	    .tags_n = 2,
	    .user_data = STR_LIT("#!/bin/sh\necho hello > /tmp/\xc3\xa9\n")};
	return x;
}

static void *args_launch_spot(struct arena *a)
{
	return launch(a, SPOT_MARKET_SPOT);
}

static void *args_launch_on_demand(struct arena *a)
{
	return launch(a, SPOT_MARKET_ON_DEMAND);
}

static void *args_gang(struct arena *a)
{
	struct spot_launch_gang *x = arena_alloc(a, sizeof(*x));

	x->common = *launch(a, SPOT_MARKET_SPOT);
	x->want = 2;
	return x;
}

static void *args_find(struct arena *a)
{
	struct spot_find *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_find){.region = "us-central1",
	    .zone = "us-central1-a",
	    .token = "spt-7f3a-n0011223344556677",
	    .name = "brk.7f3a.n0011223344556677.1767323045",
	    .install = "7f3a"};
	return x;
}

static void *args_list(struct arena *a)
{
	struct spot_list *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_list){.region = "", .install = "7f3a"};
	return x;
}

static void *args_describe(struct arena *a)
{
	static const char *const refs[] = {"us-central1-a/7239000000000000001", "us-central1-a/7239000000000000002",
	    "nonsense"};
	struct spot_describe *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_describe){.region = "us-central1", .refs = refs, .refs_n = ARRAY_LEN(refs)};
	return x;
}

static void *args_terminate(struct arena *a)
{
	struct spot_terminate *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_terminate){.region = "us-central1",
	    .zone = "us-central1-a",
	    .ref = "us-central1-a/7239000000000000001",
	    .spot_request = ""};
	return x;
}

static void *args_terminate_disk(struct arena *a)
{
	struct spot_terminate *x = args_terminate(a);

	x->ref = "us-central1-a/disks/7239000000000000009";
	return x;
}

static void *args_notices(struct arena *a)
{
	static const struct spot_instance nodes[] = {
	    {.ref = "us-central1-a/7239000000000000001", .key = {.market = SPOT_MARKET_SPOT}},
	    {.ref = "us-central1-ai1a/7239000000000000002", .key = {.market = SPOT_MARKET_SPOT}},
	};
	struct spot_notices *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_notices){.region = "us-central1", .instances = nodes, .instances_n = ARRAY_LEN(nodes)};
	return x;
}

static void *args_check(struct arena *a)
{
	struct spot_check *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_check){.region = "us-central1", .pools = pools, .pools_n = 2};
	return x;
}

/* ---- the table --------------------------------------------------------------------------- */

static const char *const place[] = {"project", "spot-golden", "subnetwork.us-central1", "nodes", "service_account",
    "node@spot-golden.iam.gserviceaccount.com", "disk_gib", "200", "public_ip", "off", "max_run_hours", "24", NULL};
static const char *const plain[] = {"project", "spot-golden", "preemption_notice", "off", NULL};
static const char *const bucket[] = {"project", "spot-golden", "bucket", "ckpt-golden", NULL};
static const char *const beta[] = {"project", "spot-golden", "advice_version", "beta", NULL};
static const char *const env_file[] = {"GOOGLE_APPLICATION_CREDENTIALS", "/etc/gcp.json", NULL};
static const char *const env_home[] = {"HOME", "/home/broker", NULL};

const struct golden_case golden_cases[] = {
    {.name = "whoami", .verb = DRIVE_WHOAMI, .args = args_nothing, .print = print_account},
    {.name = "regions", .verb = DRIVE_REGIONS, .args = args_nothing, .print = print_regions},
    {.name = "pools", .verb = DRIVE_POOLS, .args = args_pools, .print = print_pools},
    {.name = "prices", .verb = DRIVE_PRICES, .args = args_prices, .print = print_prices},
    {.name = "prices_past", .verb = DRIVE_PRICES, .args = args_prices_past, .print = print_prices},
    {.name = "signals", .verb = DRIVE_SIGNALS, .args = args_signals, .print = print_signals},
    {.name = "signals_beta",
	.verb = DRIVE_SIGNALS,
	.settings = beta,
	.args = args_signals,
	.print = print_signals},
    {.name = "quotas", .verb = DRIVE_QUOTAS, .args = args_quotas, .print = print_quotas},
    {.name = "launch_spot", .verb = DRIVE_LAUNCH, .args = args_launch_spot, .print = print_launch},
    {.name = "launch_on_demand",
	.verb = DRIVE_LAUNCH,
	.settings = place,
	.args = args_launch_on_demand,
	.print = print_launch},
    {.name = "launch_exhausted",
	.verb = DRIVE_LAUNCH,
	.settings = plain,
	.args = args_launch_spot,
	.print = print_launch},
    {.name = "launch_adopted",
	.verb = DRIVE_LAUNCH,
	.settings = plain,
	.args = args_launch_spot,
	.print = print_launch},
    {.name = "gang", .verb = DRIVE_LAUNCH_GANG, .args = args_gang, .print = print_gang},
    {.name = "gang_failed",
	.verb = DRIVE_LAUNCH_GANG,
	.settings = plain,
	.args = args_gang,
	.print = print_gang},
    {.name = "find", .verb = DRIVE_FIND, .args = args_find, .print = print_find},
    {.name = "list", .verb = DRIVE_LIST, .args = args_list, .print = print_list},
    {.name = "describe", .verb = DRIVE_DESCRIBE, .args = args_describe, .print = print_describe},
    {.name = "terminate", .verb = DRIVE_TERMINATE, .args = args_terminate, .print = print_terminate},
    {.name = "terminate_disk",
	.verb = DRIVE_TERMINATE,
	.args = args_terminate_disk,
	.print = print_terminate},
    {.name = "notices", .verb = DRIVE_NOTICES, .args = args_notices, .print = print_notices},
    {.name = "check", .verb = DRIVE_CHECK, .settings = bucket, .args = args_check, .print = print_check},
    {.name = "auth_key",
	.verb = DRIVE_AUTH,
	.env = env_file,
	.no_token = true,
	.args = args_nothing,
	.print = print_nothing},
    {.name = "auth_user",
	.verb = DRIVE_AUTH,
	.env = env_home,
	.no_token = true,
	.args = args_nothing,
	.print = print_nothing},
    {.name = "auth_external",
	.verb = DRIVE_AUTH,
	.env = env_file,
	.no_token = true,
	.args = args_nothing,
	.print = print_nothing},
    {.name = "auth_metadata",
	.verb = DRIVE_AUTH,
	.env = env_home,
	.no_token = true,
	.args = args_nothing,
	.print = print_nothing},
};
const size_t golden_cases_n = ARRAY_LEN(golden_cases);
