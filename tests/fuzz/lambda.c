/* Replies of Lambda Cloud to every verb, through the step functions. */
#include "base/base.h"
#include "replies.h"
#include "lambda/lambda.h"

static const char *const env[] = { "LAMBDA_API_KEY", "lambda-fuzz-key-0123456789", NULL };
static const char *const settings[] = { "ssh_key_name", "fuzz", "file_system.us-east-1", "shared",
	NULL };
#define KEY \
	{ \
		"lambda", "us-east-1", "", "gpu_1x_a10", SPOT_MARKET_ON_DEMAND \
	}
static const struct spot_pool_info pools[] = { { .key = KEY,
    .zone_name = "",
    .shape = { .gpu_name = "A10", .gpu_milli = 1000, .arch = "x86_64" },
    .quota_class = "" } };

union args {
	struct spot_regions regions;
	struct spot_pools pools;
	struct spot_prices prices;
	struct spot_signals signals;
	struct spot_quotas quotas;
	struct spot_launch launch;
	struct spot_find find;
	struct spot_list list;
	struct spot_describe describe;
	struct spot_terminate terminate;
	struct spot_notices notices;
	struct spot_check check;
	const char *account;
};

static struct spot_launch launch_args(void)
{
	return (struct spot_launch){ .key = KEY,
		.zone_name = "",
		.shape = pools[0].shape,
		.token = "sb-7f3a-12-1",
		.name = "brk.7f3a.n12.1767323045",
		.install = "7f3a",
		.user_data = { "#!/bin/sh\n", 10 } };
}

static void *args_of(struct arena *a, enum drive_verb verb)
{
	static const char *const refs[] = { "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
		"00000000000000000000000000000000" };
	union args *u = arena_alloc(a, sizeof(*u));

	switch (verb) {
	case DRIVE_POOLS:
		u->pools.region = "us-east-1";
		break;
	case DRIVE_PRICES:
		u->prices =
		    (struct spot_prices){ .region = "us-east-1", .pools = pools, .pools_n = 1 };
		break;
	case DRIVE_SIGNALS:
		u->signals =
		    (struct spot_signals){ .region = "us-east-1", .pools = pools, .pools_n = 1 };
		break;
	case DRIVE_QUOTAS:
		u->quotas.region = "us-east-1";
		break;
	case DRIVE_LAUNCH:
		u->launch = launch_args();
		break;
	case DRIVE_FIND:
		u->find = (struct spot_find){ .region = "us-east-1",
			.zone = "",
			.token = "sb-7f3a-12-1",
			.name = "brk.7f3a.n12.1767323045",
			.install = "7f3a" };
		break;
	case DRIVE_LIST:
		u->list = (struct spot_list){ .region = "", .install = "7f3a" };
		break;
	case DRIVE_DESCRIBE:
		u->describe =
		    (struct spot_describe){ .region = "us-east-1", .refs = refs, .refs_n = 2 };
		break;
	case DRIVE_TERMINATE:
		u->terminate = (struct spot_terminate){ .region = "us-east-1",
			.zone = "",
			.ref = refs[0],
			.spot_request = "" };
		break;
	case DRIVE_AUTH:
	case DRIVE_REGIONS:
	case DRIVE_WHOAMI:
	case DRIVE_NOTICES:
	case DRIVE_LAUNCH_GANG:
	case DRIVE_VERIFY:
	case DRIVE_WATCH:
		break;
	case DRIVE_CHECK:
		u->check =
		    (struct spot_check){ .region = "us-east-1", .pools = pools, .pools_n = 1 };
		break;
	}
	return u;
}

static enum drive_verb verb_of(const char *name)
{
	static const struct {
		const char *name;
		enum drive_verb verb;
	} verbs[] = { { "regions", DRIVE_REGIONS }, { "pools", DRIVE_POOLS },
		{ "prices", DRIVE_PRICES }, { "signals", DRIVE_SIGNALS },
		{ "quotas", DRIVE_QUOTAS }, { "launch", DRIVE_LAUNCH }, { "find", DRIVE_FIND },
		{ "list", DRIVE_LIST }, { "describe", DRIVE_DESCRIBE },
		{ "terminate", DRIVE_TERMINATE }, { "whoami", DRIVE_WHOAMI },
		{ "check", DRIVE_CHECK } };

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		if (strcmp(verbs[i].name, name) == 0) {
			return verbs[i].verb;
		}
	}
	return DRIVE_POOLS;
}

static bool has_verb(const struct spot_provider_ops *o, enum drive_verb verb)
{
	return (verb != DRIVE_SIGNALS || o->signals != NULL) &&
	    (verb != DRIVE_QUOTAS || o->quotas != NULL) &&
	    (verb != DRIVE_WHOAMI || o->whoami != NULL) &&
	    (verb != DRIVE_NOTICES || o->notices != NULL);
}

int fuzz_one(const uint8_t *p, size_t n)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct replies r;
	struct drive d;
	enum drive_verb verb;

	replies_read(a, p, n, &r);
	verb = verb_of(r.name);
	if (!has_verb(&lambda_ops, verb)) {
		return 0;
	}
	drive_init(&d, &lambda_ops, env, settings);
	d.lenient = true;
	replies_run(&d, &r, verb, args_of(d.arena, verb));
	drive_fini(&d);
	return 0;
}
