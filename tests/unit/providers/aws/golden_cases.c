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
		    a->notices[i].deadline_us ? format_time_s(a->notices[i].deadline_us, t) : "-",
		    a->notices[i].source, a->notices[i].raw);
}

static void print_gang(const void *p, struct sbuf *out)
{
	const struct spot_launch_gang *a = p;

	for (size_t i = 0; i < a->instances_n; i++)
		print_instance(&a->instances[i], out);
}

static void print_watch(const void *p, struct sbuf *out)
{
	const struct spot_watch *a = p;
	const struct spot_notices n = {.notices = a->notices, .n = a->notices_n};

	print_notices(&n, out);
	for (size_t i = 0; i < a->seen_n; i++)
		print_instance(&a->seen[i], out);
	sbuf_printf(out, "gap=%d next %s\n", a->gap, a->next_cursor);
}

static void print_check(const void *p, struct sbuf *out)
{
	static const char *const states[] = {"?", "ok", "warn", "bad", "untested"};
	const struct spot_check *a = p;

	for (size_t i = 0; i < a->n; i++)
		sbuf_printf(out, "%s: %s: %s [%s]\n", a->items[i].name, states[a->items[i].state],
		    a->items[i].words, a->items[i].fix);
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

/* ---- arguments --------------------------------------------------------------------------- */

#define POOL(z, n, t, m)                                                                           \
	{                                                                                          \
		.key = {"aws", "us-east-1", z, t, SPOT_MARKET_##m}, .zone_name = n                 \
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

static void *args_nothing(struct arena *a)
{
	return arena_alloc(a, 256);
}

static void *args_pools(struct arena *a)
{
	struct spot_pools *x = arena_alloc(a, sizeof(*x));

	x->region = "us-east-1";
	return x;
}

static struct spot_prices *prices(struct arena *a, enum spot_market market, int64_t since_us)
{
	struct spot_prices *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_prices){.region = "us-east-1",
	    .market = market,
	    .since_us = since_us,
	    .pools = pools,
	    .pools_n = ARRAY_LEN(pools)};
	return x;
}

static void *args_spot_prices(struct arena *a)
{
	return prices(a, SPOT_MARKET_SPOT, GOLDEN_NOW_US - 3 * 24 * SPOT_US_PER_HOUR);
}

static void *args_list_prices(struct arena *a)
{
	return prices(a, SPOT_MARKET_ON_DEMAND, 0);
}

static void *args_signals(struct arena *a)
{
	struct spot_signals *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_signals){
	    .region = "us-east-1", .pools = pools, .pools_n = ARRAY_LEN(pools)};
	return x;
}

static void *args_quotas(struct arena *a)
{
	struct spot_quotas *x = arena_alloc(a, sizeof(*x));

	x->region = "us-east-1";
	return x;
}

static struct spot_launch *launch(struct arena *a, enum spot_market market)
{
	static const struct spot_tag tags[] = {{"spotbroker:node", "41"}, {"team", "vision & co"}};
	struct spot_launch *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_launch){.key = {"aws", "us-east-1", "use1-az4", "g5.xlarge", market},
	    .zone_name = "us-east-1a",
	    .shape = {.gpu_name = "A10G", .gpu_milli = 1000, .arch = "x86_64"},
	    .token = "sb-7f3a-41-1",
	    .name = "sb-7f3a-n41",
	    .install = "7f3a",
	    .tags = tags,
	    .tags_n = 2,
	    .user_data = STR_LIT("#!/bin/sh\necho hello > /tmp/\xc3\xa9\n")};
	return x;
}

static void *args_launch_spot(struct arena *a)
{
	struct spot_launch *x = launch(a, SPOT_MARKET_SPOT);

	x->price_cap_micros = 612345;
	return x;
}

static void *args_launch_on_demand(struct arena *a)
{
	return launch(a, SPOT_MARKET_ON_DEMAND);
}

static void *args_find(struct arena *a)
{
	struct spot_find *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_find){.region = "us-east-1",
	    .zone = "use1-az4",
	    .token = "sb-7f3a-41-1",
	    .name = "sb-7f3a-n41",
	    .install = "7f3a"};
	return x;
}

static void *args_list(struct arena *a)
{
	struct spot_list *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_list){.region = "us-east-1", .install = "7f3a"};
	return x;
}

static void *args_describe(struct arena *a)
{
	static const char *const refs[] = {"i-0aaa", "i-0bbb", "i-0ccc"};
	struct spot_describe *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_describe){.region = "us-east-1", .refs = refs, .refs_n = ARRAY_LEN(refs)};
	return x;
}

static void *args_terminate(struct arena *a)
{
	struct spot_terminate *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_terminate){
	    .region = "us-east-1", .zone = "use1-az4", .ref = "i-0aaa", .spot_request = "sir-1"};
	return x;
}

static void *args_notices(struct arena *a)
{
	static const struct spot_instance nodes[] = {
	    {.ref = "i-0aaa", .key = {.market = SPOT_MARKET_SPOT}, .spot_request = "sir-1"},
	    {.ref = "i-0bbb", .key = {.market = SPOT_MARKET_SPOT}, .spot_request = "sir-2"},
	    {.ref = "i-0ddd", .key = {.market = SPOT_MARKET_ON_DEMAND}},
	};
	struct spot_notices *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_notices){
	    .region = "us-east-1", .instances = nodes, .instances_n = ARRAY_LEN(nodes)};
	return x;
}

static void *args_launch_reserved(struct arena *a)
{
	return launch(a, SPOT_MARKET_RESERVED);
}

static void *args_launch_gang(struct arena *a)
{
	struct spot_launch_gang *x = arena_alloc(a, sizeof(*x));

	x->common = *launch(a, SPOT_MARKET_SPOT);
	x->want = 3;
	return x;
}

static void *args_watch(struct arena *a)
{
	struct spot_watch *x = arena_alloc(a, sizeof(*x));

	*x = (struct spot_watch){.region = "us-east-1",
	    .install = "7f3a",
	    .cursor = "{\"delete\":[\"AQEBold\"],\"seen\":[\"e-0\"]}",
	    .hold_us = 25 * SPOT_US_PER_S};
	return x;
}

static void *args_check(struct arena *a)
{
	struct spot_check *x = arena_alloc(a, sizeof(*x));
	struct spot_pool_info *wanted = arena_array(a, 2, sizeof(*wanted));

	for (size_t i = 0; i < 2; i++) {
		wanted[i] = pools[i];
		wanted[i].shape = (struct spot_shape){.arch = "x86_64", .vcpus = 4};
		wanted[i].quota_class = i == 0 ? "G/Spot" : "G/OnDemand";
	}
	*x = (struct spot_check){
	    .region = "us-east-1", .pools = wanted, .pools_n = 2, .install = "7f3a"};
	return x;
}

/* ---- the table --------------------------------------------------------------------------- */

static const char *const place[] = {"subnet.use1-az4", "subnet-0123", "security_groups.us-east-1",
    "sg-1, sg-2", "instance_profile", "spot-node", "root_gib", "200", "public_ip", "on", NULL};
static const char *const fixed_image[] = {"ami", "ami-0fed", "instance_profile",
    "arn:aws:iam::123456789012:instance-profile/spot-node", "security_groups.us-east-1", "sg-1",
    NULL};
static const char *const fixed_amis[] = {"ami", "ami-0fed", "reservations", "on", NULL};
static const char *const everything[] = {"reservations", "on", "interruption_queue.us-east-1",
    "https://sqs.us-east-1.amazonaws.com/123456789012/spotbroker-interruptions", NULL};
static const char *const env_web[] = {"AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/broker",
    "AWS_WEB_IDENTITY_TOKEN_FILE", "/run/token", "AWS_ROLE_SESSION_NAME", "broker", NULL};
static const char *const env_role[] = {"AWS_SHARED_CREDENTIALS_FILE", "/etc/aws/credentials",
    "AWS_CONFIG_FILE", "/etc/aws/config", "AWS_PROFILE", "broker", NULL};
static const char *const env_container[] = {"AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "http://169.254.170.23/v1/credentials", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "/run/pod-token", NULL};
static const char *const env_metadata[] = {"HOME", "/home/broker", NULL};

const struct golden_case golden_cases[] = {
    {.name = "regions", .verb = DRIVE_REGIONS, .args = args_nothing, .print = print_regions},
    {.name = "pools", .verb = DRIVE_POOLS, .args = args_pools, .print = print_pools},
    {.name = "spot_prices", .verb = DRIVE_PRICES, .args = args_spot_prices, .print = print_prices},
    {.name = "list_prices", .verb = DRIVE_PRICES, .args = args_list_prices, .print = print_prices},
    {.name = "signals", .verb = DRIVE_SIGNALS, .args = args_signals, .print = print_signals},
    {.name = "quotas", .verb = DRIVE_QUOTAS, .args = args_quotas, .print = print_quotas},
    {.name = "launch_spot",
	.verb = DRIVE_LAUNCH,
	.settings = place,
	.args = args_launch_spot,
	.print = print_launch},
    {.name = "launch_on_demand",
	.verb = DRIVE_LAUNCH,
	.settings = fixed_image,
	.args = args_launch_on_demand,
	.print = print_launch},
    {.name = "find", .verb = DRIVE_FIND, .args = args_find, .print = print_find},
    {.name = "list", .verb = DRIVE_LIST, .args = args_list, .print = print_list},
    {.name = "describe", .verb = DRIVE_DESCRIBE, .args = args_describe, .print = print_describe},
    {.name = "terminate",
	.verb = DRIVE_TERMINATE,
	.args = args_terminate,
	.print = print_terminate},
    {.name = "notices", .verb = DRIVE_NOTICES, .args = args_notices, .print = print_notices},
    {.name = "launch_gang",
	.verb = DRIVE_LAUNCH_GANG,
	.settings = fixed_amis,
	.args = args_launch_gang,
	.print = print_gang},
    {.name = "launch_reserved",
	.verb = DRIVE_LAUNCH,
	.settings = fixed_amis,
	.args = args_launch_reserved,
	.print = print_launch},
    {.name = "watch",
	.verb = DRIVE_WATCH,
	.settings = everything,
	.args = args_watch,
	.print = print_watch},
    {.name = "check",
	.verb = DRIVE_CHECK,
	.settings = everything,
	.args = args_check,
	.print = print_check},
    {.name = "whoami", .verb = DRIVE_WHOAMI, .args = args_nothing, .print = print_account},
    {.name = "auth_web",
	.verb = DRIVE_AUTH,
	.env = env_web,
	.no_keys = true,
	.args = args_nothing,
	.print = print_nothing},
    {.name = "auth_role",
	.verb = DRIVE_AUTH,
	.env = env_role,
	.no_keys = true,
	.args = args_nothing,
	.print = print_nothing},
    {.name = "auth_container",
	.verb = DRIVE_AUTH,
	.env = env_container,
	.no_keys = true,
	.args = args_nothing,
	.print = print_nothing},
    {.name = "auth_metadata",
	.verb = DRIVE_AUTH,
	.env = env_metadata,
	.no_keys = true,
	.args = args_nothing,
	.print = print_nothing},
};
const size_t golden_cases_n = ARRAY_LEN(golden_cases);
