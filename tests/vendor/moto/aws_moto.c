/*
 * The AWS provider behind io/call against moto, a third party's EC2. Every verb that moto knows is
 * called over real HTTP and its results are checked. Verbs that moto lacks are called as well: they
 * must fail in words, never succeed with an empty answer. One line per verb; exit 1 when a check
 * failed.
 *
 *   aws_moto ENDPOINT IMAGE      (key and secret by AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)
 */
#include "base/base.h"

#include <stdarg.h>

#include "aws/aws.h"
#include "base/text/text.h"
#include "io/call/call.h"

#define REGION "us-east-1"
#define TYPE "g4dn.xlarge"
#define INSTALL "moto"

struct moto {
	const char *endpoint, *image;
	const char *secret; /* instead of the environment's, or NULL */
	/* the image is looked up by this SSM parameter; NULL = it is given */
	const char *parameter;
	struct loop *loop;
	struct http_client *http;
	struct call_provider *p;
	struct arena *arena;
	int failed;
};

/* ---- settings -------------------------------------------------------------------------------- */

static const char *conf_env(void *ctx, const char *name)
{
	const struct moto *m = ctx;

	if (strcmp(name, "AWS_SECRET_ACCESS_KEY") == 0 && m->secret != NULL) {
		return m->secret;
	}
	return str_prefix(name, "AWS_ACCESS_KEY_ID") || str_prefix(name, "AWS_SECRET_ACCESS_KEY")
	    ? getenv(name)
	    : NULL;
}

static const char *conf_setting(void *ctx, const char *key)
{
	const struct moto *m = ctx;

	if (strcmp(key, "endpoint") == 0) {
		return m->endpoint;
	}
	if (strcmp(key, "ami") == 0) {
		return m->parameter == NULL ? m->image : NULL;
	}
	if (strcmp(key, "ami_parameter") == 0) {
		return m->parameter;
	}
	return strcmp(key, "advisor_url") == 0 ? "off" : NULL;
}

static void provider_open(struct moto *m)
{
	const struct spot_provider_conf conf = { .name = "aws",
		.env = conf_env,
		.setting = conf_setting,
		.ctx = m };
	struct spot_err err = { 0 };
	void *self = NULL;

	if (aws_ops.open(&conf, &self, &err) != SPOT_OK) {
		fprintf(stderr, "aws: %s\n", err.text);
		exit(1);
	}
	m->p = call_provider_new(m->loop, m->http, &aws_ops, self, "aws", NULL);
}

/* ---- calls and checks ------------------------------------------------------------------------ */

static void call_done(struct op *op UNUSED)
{
}

static enum spot_rc call_run(struct moto *m, enum call_verb verb, void *args, int tries_max,
    struct spot_err *ret)
{
	struct call call = { 0 };

	call_start(&call, m->p, verb, args, m->arena, 60 * SPOT_US_PER_S, tries_max,
	    verb == CALL_TERMINATE, call_done);
	while (op_busy(&call.op)) {
		loop_turn(m->loop, 20000);
	}
	*ret = call.op.err;
	return call.op.rc;
}

PRINTF(4, 5)
static void verdict(struct moto *m, const char *verb, bool good, const char *fmt, ...)
{
	va_list ap;

	printf("%-6s %-10s ", good ? "agree" : "FAIL", verb);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	m->failed += good ? 0 : 1;
}

/* False, and counted, when the call failed. */
static bool called(struct moto *m, const char *name, enum call_verb verb, void *args)
{
	struct spot_err err;

	if (call_run(m, verb, args, 0, &err) == SPOT_OK) {
		return true;
	}
	verdict(m, name, false, "%s %s: %s", spot_rc_name(err.rc), err.code, err.text);
	return false;
}

/* Calls a verb that moto lacks: moto's error must not count as an answer. */
static void lacking(struct moto *m, const char *name, enum call_verb verb, void *args,
    const char *why)
{
	struct spot_err err;
	enum spot_rc rc = call_run(m, verb, args, 1, &err);

	if (rc == SPOT_OK) {
		verdict(m, name, false, "moto answers now: judge it (was: %s)", why);
	} else {
		printf("%-6s %-10s not judged: %s; we say %s: %.90s\n", "lacks", name, why,
		    spot_rc_name(rc), err.text);
	}
}

/* ---- account and market ---------------------------------------------------------------------- */

static void account_check(struct moto *m)
{
	const char *account = NULL;
	struct spot_regions regions = { 0 };
	bool here = false;

	if (called(m, "whoami", CALL_WHOAMI, &account)) {
		verdict(m, "whoami", strcmp(account, "123456789012") == 0, "%s", account);
	}
	if (called(m, "regions", CALL_REGIONS, &regions)) {
		for (size_t i = 0; i < regions.n; i++) {
			here = here || strcmp(regions.names[i], REGION) == 0;
		}
		verdict(m, "regions", here && regions.n > 10, "%zu", regions.n);
	}
}

static const struct spot_pool_info *pool_find(const struct spot_pools *pools)
{
	for (size_t i = 0; i < pools->n; i++) {
		if (strcmp(pools->pools[i].key.instance_type, TYPE) == 0 &&
		    pools->pools[i].key.market == SPOT_MARKET_SPOT) {
			return &pools->pools[i];
		}
	}
	return NULL;
}

/* The pool that is launched in, NULL when there is none. */
static const struct spot_pool_info *pools_check(struct moto *m, struct spot_pools *pools)
{
	const struct spot_pool_info *pool;
	const struct spot_shape *s;
	bool good = pools->n > 100;

	for (size_t i = 0; i < pools->n; i++) {
		const struct spot_pool_info *p = &pools->pools[i];

		good = good && str_prefix(p->key.zone, "use1-az") && *p->shape.gpu_name != '\0' &&
		    p->shape.gpu_milli > 0 && p->shape.gpu_mem_mib > 0 && p->shape.vcpus > 0;
	}
	pool = pool_find(pools);
	if (pool == NULL) {
		verdict(m, "pools", false, "%zu, none of %s", pools->n, TYPE);
		return NULL;
	}
	s = &pool->shape;
	good = good && strcmp(s->gpu_name, "T4") == 0 && s->gpu_milli == 1000 && s->vcpus == 4 &&
	    s->mem_mib == 16384 && strcmp(s->arch, "x86_64") == 0 &&
	    strcmp(pool->quota_class, "G/Spot") == 0 && str_prefix(pool->zone_name, REGION);
	verdict(m, "pools", good, "%zu; %s in %s: %d x %s, %d vCPU, %d MiB", pools->n, TYPE,
	    pool->key.zone, s->gpu_milli / 1000, s->gpu_name, s->vcpus, s->mem_mib);
	return pool;
}

static void prices_check(struct moto *m, const struct spot_pools *pools)
{
	struct spot_prices a = { .region = REGION,
		.market = SPOT_MARKET_SPOT,
		.pools = pools->pools,
		.pools_n = pools->n };
	bool good = true;

	if (!called(m, "prices", CALL_PRICES, &a)) {
		return;
	}
	for (size_t i = 0; i < a.n; i++) {
		good = good && a.points[i].price_micros > 0 && a.points[i].effective_us > 0 &&
		    a.points[i].key.market == SPOT_MARKET_SPOT;
	}
	verdict(m, "prices", good && a.n > 100, "%zu spot prices for %zu pools of both markets",
	    a.n, pools->n);
	a = (struct spot_prices){ .region = REGION,
		.market = SPOT_MARKET_ON_DEMAND,
		.pools = pools->pools,
		.pools_n = pools->n };
	lacking(m, "prices", CALL_PRICES, &a, "moto has no GetProducts (on-demand prices)");
}

/* ---- one instance ---------------------------------------------------------------------------- */

static bool instance_same(const struct spot_instance *x, const struct spot_launch *l)
{
	return strcmp(x->ref, l->instance.ref) == 0 && strcmp(x->install, INSTALL) == 0 &&
	    strcmp(x->key.instance_type, TYPE) == 0 && x->key.market == SPOT_MARKET_SPOT &&
	    strcmp(x->key.region, REGION) == 0;
}

static bool launch_check(struct moto *m, struct spot_launch *l)
{
	if (!called(m, "launch", CALL_LAUNCH, l)) {
		return false;
	}
	verdict(m, "launch",
	    str_prefix(l->instance.ref, "i-") && l->instance.state == SPOT_INSTANCE_PENDING &&
		instance_same(&l->instance, l),
	    "%s %s, %s in %s", l->instance.ref, l->instance.raw_state,
	    l->instance.key.instance_type, l->instance.key.zone);
	return true;
}

static void find_check(struct moto *m, const struct spot_launch *l)
{
	struct spot_find f = { .region = REGION,
		.zone = l->key.zone,
		.token = l->token,
		.name = l->name,
		.install = INSTALL };

	lacking(m, "find", CALL_FIND, &f, "by token: moto has no filter client-token");
	f.token = "";
	if (called(m, "find", CALL_FIND, &f)) {
		verdict(m, "find", f.n == 1 && instance_same(&f.found[0], l),
		    "by name and tag: %zu", f.n);
	}
	f.name = "brk.moto.nobody";
	if (called(m, "find", CALL_FIND, &f)) {
		verdict(m, "find", f.n == 0, "a name that is not there: %zu", f.n);
	}
}

static void list_check(struct moto *m, const struct spot_launch *l)
{
	struct spot_list own = { .region = REGION, .install = INSTALL },
			 other = { .region = REGION, .install = "somebody-else" };

	if (called(m, "list", CALL_LIST, &own) && called(m, "list", CALL_LIST, &other)) {
		verdict(m, "list", own.n == 1 && instance_same(&own.found[0], l) && other.n == 0,
		    "%zu of ours, %s; %zu of another installation", own.n,
		    own.n > 0 ? spot_instance_state_name(own.found[0].state) : "-", other.n);
	}
}

static void describe_check(struct moto *m, const struct spot_launch *l)
{
	const char *refs[] = { l->instance.ref, "i-0123456789abcdef0" };
	struct spot_describe a = { .region = REGION, .refs = refs, .refs_n = ARRAY_LEN(refs) };

	if (called(m, "describe", CALL_DESCRIBE, &a)) {
		verdict(m, "describe", a.n == 1 && instance_same(&a.found[0], l),
		    "%zu of two, the other one does not exist", a.n);
	}
}

static void notices_check(struct moto *m, const struct spot_launch *l)
{
	struct spot_notices a = { .region = REGION, .instances = &l->instance, .instances_n = 1 };

	if (called(m, "notices", CALL_NOTICES, &a)) {
		verdict(m, "notices", a.n == 0, "none (moto never reclaims)");
	}
}

static void terminate_check(struct moto *m, const struct spot_launch *l)
{
	struct spot_terminate a = { .region = REGION,
		.zone = l->key.zone,
		.ref = l->instance.ref,
		.spot_request = l->instance.spot_request };
	struct spot_describe after = { .region = REGION, .refs = &a.ref, .refs_n = 1 };

	if (!called(m, "terminate", CALL_TERMINATE, &a)) {
		return;
	}
	verdict(m, "terminate",
	    a.after.state == SPOT_INSTANCE_STOPPING || a.after.state == SPOT_INSTANCE_GONE, "%s",
	    spot_instance_state_name(a.after.state));
	if (called(m, "terminate", CALL_DESCRIBE, &after)) {
		verdict(m, "terminate", after.n == 1 && after.found[0].state == SPOT_INSTANCE_GONE,
		    "described then: %s",
		    after.n > 0 ? spot_instance_state_name(after.found[0].state) : "absent");
	}
	/* EC2 would say terminated; moto says shutting-down each time. */
	if (called(m, "terminate", CALL_TERMINATE, &a)) {
		verdict(m, "terminate",
		    a.after.state == SPOT_INSTANCE_STOPPING || a.after.state == SPOT_INSTANCE_GONE,
		    "again: %s", spot_instance_state_name(a.after.state));
	}
	a.ref = "i-0123456789abcdef0";
	if (called(m, "terminate", CALL_TERMINATE, &a)) {
		verdict(m, "terminate", a.after.state == SPOT_INSTANCE_GONE,
		    "an instance that never was: %s", spot_instance_state_name(a.after.state));
	}
}

static void instance_check(struct moto *m, const struct spot_pool_info *pool)
{
	const struct spot_tag tags[] = { { "Purpose",
	    "a value with blanks, \"quotes\" & ümlauts" } };
	struct spot_launch l = { .key = pool->key,
		.zone_name = pool->zone_name,
		.shape = pool->shape,
		.token = "brk.moto.token-1",
		.name = "brk.moto.n1.1767323045",
		.install = INSTALL,
		.tags = tags,
		.tags_n = ARRAY_LEN(tags),
		.user_data = STR_LIT("#!/bin/sh\ntrue\n"),
		.price_cap_micros = 500000 };

	if (!launch_check(m, &l)) {
		return;
	}
	find_check(m, &l);
	list_check(m, &l);
	describe_check(m, &l);
	notices_check(m, &l);
	terminate_check(m, &l);
}

/* The image by a public parameter, as SSM has them; moto knows the vendor's own distribution. */
static void parameter_check(struct moto *m, const struct spot_pool_info *pool)
{
	struct spot_launch l = { .key = pool->key,
		.zone_name = pool->zone_name,
		.shape = pool->shape,
		.token = "brk.moto.token-2",
		.name = "brk.moto.n2.1767323045",
		.install = INSTALL,
		.user_data = STR_LIT("#!/bin/sh\ntrue\n") };
	struct spot_terminate end = { .region = REGION,
		.zone = pool->key.zone,
		.spot_request = "" };
	struct spot_err err;
	enum spot_rc rc;

	call_provider_free(m->p);
	m->parameter = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64";
	provider_open(m);
	if (called(m, "ssm", CALL_LAUNCH, &l)) {
		verdict(m, "ssm", l.instance.ref[0] != '\0', "launched with the image of %.70s",
		    m->parameter);
		end.ref = l.instance.ref;
		(void)called(m, "ssm", CALL_TERMINATE, &end);
	}
	call_provider_free(m->p);
	m->parameter = "/aws/service/no-such-parameter";
	provider_open(m);
	rc = call_run(m, CALL_LAUNCH, &l, 1, &err);
	verdict(m, "ssm", rc == SPOT_CONFIG, "a parameter that is not there: %s: %.60s",
	    spot_rc_name(rc), err.text);
	call_provider_free(m->p);
	m->parameter = NULL;
	provider_open(m);
}

/* ---- credentials ----------------------------------------------------------------------------- */

/* moto recomputes every signature with botocore's signer: a wrong secret is the proof. */
static void signature_check(struct moto *m)
{
	struct spot_list a = { .region = REGION, .install = INSTALL };
	struct spot_err err;
	enum spot_rc rc;

	call_provider_free(m->p);
	m->secret = "not/the+secret";
	provider_open(m);
	rc = call_run(m, CALL_LIST, &a, 1, &err);
	verdict(m, "auth", rc == SPOT_UNAUTHENTICATED, "a wrong secret: %s: %.60s",
	    spot_rc_name(rc), err.text);
}

static void all_check(struct moto *m)
{
	struct spot_pools pools = { .region = REGION };
	struct spot_quotas quotas = { .region = REGION };
	struct spot_signals signals = { .region = REGION };
	const struct spot_pool_info *pool = NULL;

	account_check(m);
	if (called(m, "pools", CALL_POOLS, &pools)) {
		pool = pools_check(m, &pools);
		prices_check(m, &pools);
		signals.pools = pools.pools;
		signals.pools_n = pools.n;
	}
	lacking(m, "quotas", CALL_QUOTAS, &quotas, "moto has no ListServiceQuotas");
	lacking(m, "signals", CALL_SIGNALS, &signals, "moto has no GetSpotPlacementScores");
	if (pool != NULL) {
		instance_check(m, pool);
		parameter_check(m, pool);
	}
	signature_check(m);
}

int main(int argc, char **argv)
{
	const struct http_client_conf client = { .user_agent = "test" };
	struct moto m = { 0 };
	struct rng rng;

	if (argc != 3) {
		fprintf(stderr, "usage: aws_moto ENDPOINT IMAGE\n");
		return 2;
	}
	m.endpoint = argv[1];
	m.image = argv[2];
	rng_real_init(&rng);
	m.loop = loop_new(&clock_real, &rng);
	m.http = http_client_new(m.loop, &client);
	m.arena = arena_new(0);
	provider_open(&m);
	all_check(&m);
	printf("lacks  %-10s not judged: moto ignores ClientToken: a repeat launches again\n",
	    "launch");
	printf("lacks  %-10s not judged: the default image; moto has no Deep Learning AMI "
	       "parameter\n",
	    "launch");
	call_provider_free(m.p);
	http_client_free(m.http);
	loop_turn(m.loop, 0);
	loop_free(m.loop);
	arena_free(m.arena);
	printf("%s\n", m.failed == 0 ? "moto agrees" : "moto disagrees");
	return m.failed == 0 ? 0 : 1;
}
