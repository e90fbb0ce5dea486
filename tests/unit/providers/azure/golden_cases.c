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
	sbuf_printf(out, " %s cause=%d token=%s install=%s raw=%s reason=[%s] ip=%s%s created=%s\n",
		    spot_instance_state_name(i->state), (int)i->end_cause, i->token, i->install,
		    i->raw_state, i->raw_reason, i->ip, i->leftover ? " LEFTOVER" : "",
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
			    x->zone_name, x->shape.gpu_name, x->shape.gpu_milli,
			    x->shape.gpu_mem_mib, x->shape.vcpus, x->shape.mem_mib, x->shape.arch,
			    x->quota_class);
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
		sbuf_printf(out, " value=%.0f lo=%.2f hi=%.2f as of %s by %s\n", x->value, x->lo,
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
			    a->notices[i].deadline_us ? format_time_s(a->notices[i].deadline_us, t)
						      : "-",
			    a->notices[i].source, a->notices[i].raw);
}

static void print_account(const void *p, struct sbuf *out)
{
	sbuf_printf(out, "%s\n", *(const char *const *)p);
}

static void print_check(const void *p, struct sbuf *out)
{
	static const char *const states[] = {"?", "ok", "warn", "BAD", "untested"};
	const struct spot_check *a = p;

	for (size_t i = 0; i < a->n; i++)
		sbuf_printf(out, "%s: %s: %s%s%s\n", a->items[i].name, states[a->items[i].state],
			    a->items[i].words, *a->items[i].fix != '\0' ? " -> " : "",
			    a->items[i].fix);
}

static void print_nothing(const void *p, struct sbuf *out)
{
	(void)p;
	(void)out;
}

/* ---- arguments --------------------------------------------------------------------------- */

#define POOL(z, t, m, c)                                                                           \
	{                                                                                          \
		.key = {"azure", "eastus2", "eastus2-" z, t, SPOT_MARKET_##m}, .zone_name = z,     \
		.quota_class = c, .shape = {                                                       \
			.vcpus = 40                                                                \
		}                                                                                  \
	}
#define H100 "Standard_NC40ads_H100_v5"
#define T4   "Standard_NC4as_T4_v3"
static const struct spot_pool_info pools[] = {
    POOL("1", H100, SPOT, "lowprioritycores"),
    POOL("1", H100, ON_DEMAND, "standardncadsh100v5family"),
    POOL("2", H100, SPOT, "lowprioritycores"),
    POOL("2", H100, ON_DEMAND, "standardncadsh100v5family"),
    POOL("1", T4, SPOT, "lowprioritycores"),
    POOL("1", T4, ON_DEMAND, "standardncasv3_t4family"),
};
#define LEASE "spotbroker-brk-7f3a-n41-1767323045"

static void *args_nothing(struct arena *a)
{
	return arena_alloc(a, 256);
}

static void *args_pools(struct arena *a)
{
	struct spot_pools *x = arena_alloc(a, sizeof(*x));

	x->region = "eastus2";
	return x;
}

static void *args_prices(struct arena *a)
{
	struct spot_prices *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_prices){.region = "eastus2", .pools = pools, .pools_n = ARRAY_LEN(pools)};
	return x;
}

static void *args_price_history(struct arena *a)
{
	struct spot_prices *x = args_prices(a);

	x->market = SPOT_MARKET_SPOT;
	x->since_us = GOLDEN_NOW_US - 30 * 24 * SPOT_US_PER_HOUR;
	return x;
}

static void *args_signals(struct arena *a)
{
	struct spot_signals *x = arena_alloc(a, sizeof(*x));

	*x =
	    (struct spot_signals){.region = "eastus2", .pools = pools, .pools_n = ARRAY_LEN(pools)};
	return x;
}

static void *args_quotas(struct arena *a)
{
	struct spot_quotas *x = arena_alloc(a, sizeof(*x));

	x->region = "eastus2";
	return x;
}

static void *args_check(struct arena *a)
{
	struct spot_check *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_check){.region = "eastus2", .pools = pools, .pools_n = ARRAY_LEN(pools)};
	return x;
}

static void *args_launch_on_demand(struct arena *a)
{
	static const struct spot_tag tags[] = {{"brk-node", "n41"}, {"team", "vision & co"}};
	struct spot_launch *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_launch){
	    .key = {"azure", "eastus2", "eastus2-1", H100, SPOT_MARKET_ON_DEMAND},
	    .zone_name = "1",
	    .shape = {.gpu_name = "H100-94GB-NVL", .gpu_milli = 1000, .arch = "x86_64"},
	    .token = "spt-7f3a-n41",
	    .name = "brk.7f3a.n41.1767323045",
	    .install = "7f3a",
	    .tags = tags,
	    .tags_n = 2,
	    .user_data = STR_LIT("#!/bin/sh\necho hello > /tmp/\xc3\xa9\n")};
	return x;
}

static void *args_launch_spot(struct arena *a)
{
	struct spot_launch *x = args_launch_on_demand(a);

	x->key.market = SPOT_MARKET_SPOT;
	return x;
}

static void *args_launch_capped(struct arena *a)
{
	struct spot_launch *x = args_launch_spot(a);

	x->price_cap_micros = 2612345;
	x->key.zone = x->zone_name = "";
	return x;
}

static void *args_find(struct arena *a)
{
	struct spot_find *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_find){.region = "eastus2",
				.zone = "eastus2-1",
				.token = "spt-7f3a-n41",
				.name = "brk.7f3a.n41.1767323045",
				.install = "7f3a"};
	return x;
}

static void *args_list(struct arena *a)
{
	struct spot_list *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_list){.region = "eastus2", .install = "7f3a"};
	return x;
}

static void *args_describe(struct arena *a)
{
	static const char *const refs[] = {LEASE, "spotbroker-brk-7f3a-n42-1767323046",
					   "somebody-elses"};
	struct spot_describe *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_describe){.region = "eastus2", .refs = refs, .refs_n = ARRAY_LEN(refs)};
	return x;
}

static void *args_terminate(struct arena *a)
{
	struct spot_terminate *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_terminate){
	    .region = "eastus2", .zone = "eastus2-1", .ref = LEASE, .spot_request = ""};
	return x;
}

static void *args_notices(struct arena *a)
{
	static const struct spot_instance nodes[] = {
	    {.ref = LEASE, .key = {.market = SPOT_MARKET_SPOT}},
	    {.ref = "spotbroker-brk-7f3a-n42-1767323046", .key = {.market = SPOT_MARKET_SPOT}},
	};
	struct spot_notices *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_notices){
	    .region = "eastus2", .instances = nodes, .instances_n = ARRAY_LEN(nodes)};
	return x;
}

/* ---- the table --------------------------------------------------------------------------- */

#define NET "/subscriptions/" GOLDEN_SUB "/resourceGroups/net/providers/Microsoft.Network/"
#define BASE                                                                                       \
	"subscription", GOLDEN_SUB, "tenant", "contoso.example", "client_id",                      \
	    "66666666-7777-8888-9999-000000000000"
static const char *const full[] = {
    BASE,
    "ssh_public_key",
    "ssh-rsa AAAAB3NzaC1yc2E golden",
    "subnet.eastus2",
    NET "virtualNetworks/v/subnets/gpu",
    "nsg.eastus2",
    NET "networkSecurityGroups/closed",
    "identity",
    "/subscriptions/" GOLDEN_SUB
    "/resourceGroups/net/providers/Microsoft.ManagedIdentity/userAssignedIdentities/node",
    "os_disk_gib",
    "256",
    "public_ip",
    "off",
    "image",
    "/subscriptions/" GOLDEN_SUB
    "/resourceGroups/img/providers/Microsoft.Compute/galleries/g/images/gpu",
    NULL};
static const char *const storage[] = {
    BASE, "federated_token_file", "/run/azure/token", "storage_account", "contosockpt", NULL};
static const char *const managed[] = {"subscription", GOLDEN_SUB, NULL};
static const char *const no_env[] = {NULL};

#define CASE(n, v, ...)                                                                            \
	{                                                                                          \
		.name = #n, .verb = DRIVE_##v, .args = args_##n, __VA_ARGS__                       \
	}
const struct golden_case golden_cases[] = {
    {.name = "regions", .verb = DRIVE_REGIONS, .args = args_nothing, .print = print_regions},
    {.name = "whoami", .verb = DRIVE_WHOAMI, .args = args_nothing, .print = print_account},
    CASE(pools, POOLS, .print = print_pools),
    CASE(prices, PRICES, .print = print_prices),
    CASE(price_history, PRICES, .print = print_prices),
    CASE(signals, SIGNALS, .print = print_signals),
    CASE(quotas, QUOTAS, .print = print_quotas),
    CASE(launch_spot, LAUNCH, .print = print_launch),
    CASE(launch_on_demand, LAUNCH, .settings = full, .print = print_launch),
    CASE(launch_capped, LAUNCH, .print = print_launch),
    CASE(find, FIND, .print = print_find),
    CASE(list, LIST, .print = print_list),
    CASE(describe, DESCRIBE, .print = print_describe),
    CASE(terminate, TERMINATE, .print = print_terminate),
    CASE(notices, NOTICES, .print = print_notices),
    CASE(check, CHECK, .print = print_check),
    {.name = "auth_workload",
     .verb = DRIVE_AUTH,
     .env = no_env,
     .settings = storage,
     .no_keys = true,
     .args = args_nothing,
     .print = print_nothing},
    {.name = "auth_managed",
     .verb = DRIVE_AUTH,
     .env = no_env,
     .settings = managed,
     .no_keys = true,
     .args = args_nothing,
     .print = print_nothing},
};
const size_t golden_cases_n = ARRAY_LEN(golden_cases);
