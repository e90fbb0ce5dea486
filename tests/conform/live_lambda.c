/*
 * The Lambda provider behind io/call against the emulator, over real sockets: a whole life of one
 * instance, what a lost reply leads to, and that the published rate limits are kept. argv[1] is the
 * emulator's program.
 */
#include "base/base.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <cmocka.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "io/call.h"
#include "io/proc.h"
#include "lambda/lambda.h"

#define NAME "brk.live.n1.1767323045"

static const char *program;

struct live {
	char dir[64];
	int pid;
	char endpoint[128], key[128], control[128];
	struct rng rng;
	struct loop *loop;
	struct http_client *http;
	struct call_provider *p;
	struct arena *arena;
	int64_t timeout_us; /* of calls, 0 = a minute */
};

/* ---- the emulator -------------------------------------------------------------------------- */

static bool announced(struct live *v)
{
	char path[128], text[4096] = {0};
	struct spot_err err = {0};
	AUTO(json) json_t *doc = NULL;
	const json_t *urls;
	FILE *f;

	snprintf(path, sizeof(path), "%s/cloudsim.json", v->dir);
	f = fopen(path, "r");
	if (f == NULL) {
		return false;
	}
	size_t n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	if (json_parse((struct str){text, n}, "cloudsim.json", &doc, &err) != SPOT_OK) {
		return false;
	}
	urls = json_object_get(doc, "urls");
	snprintf(v->endpoint, sizeof(v->endpoint), "%s", json_str(urls, "lambda", "", &err));
	snprintf(v->control, sizeof(v->control), "%s", json_str(urls, "control", "", &err));
	snprintf(v->key, sizeof(v->key), "%s",
	    json_str(json_object_get(json_object_get(doc, "credentials"), "lambda"), "api_key", "",
		&err));
	return v->key[0] != '\0';
}

static void emulator_start(struct live *v)
{
	const char *argv[] = {program, "--dir", v->dir, "--seed", "5", "--boot-ms", "50",
	    "--terminate-ms", "50", "--lag-ms", "200", NULL};
	const struct proc_spec spec = {.argv = argv,
	    .in = -1,
	    .out = -1,
	    .err = 2,
	    .uid = -1,
	    .gid = -1,
	    .death_signal = SIGKILL};
	struct spot_err err = {0};

	assert_int_equal(proc_spawn(&spec, &v->pid, &err), SPOT_OK);
	for (int i = 0; i < 1000 && !announced(v); i++) {
		loop_turn(v->loop, 10000);
	}
	assert_string_not_equal(v->key, "");
}

/* ---- the provider -------------------------------------------------------------------------- */

static const char *conf_env(void *ctx, const char *name)
{
	return strcmp(name, "LAMBDA_API_KEY") == 0 ? ((struct live *)ctx)->key : NULL;
}

static const char *conf_setting(void *ctx, const char *key)
{
	if (strcmp(key, "endpoint") == 0) {
		return ((struct live *)ctx)->endpoint;
	}
	return strcmp(key, "ssh_key_name") == 0 ? "brk" : NULL;
}

static void http_done(struct op *op UNUSED)
{
}

/* A plain request to the emulator, outside of the provider. */
static int plain(struct live *v, const char *url, const char *body)
{
	char *bearer = arena_printf(v->arena, "Bearer %s", v->key);
	struct spot_http_request out = {.method = "POST",
	    .url = url,
	    .headers = {{"authorization", bearer}, {"content-type", "application/json"}},
	    .headers_n = 2,
	    .body = {body, strlen(body)}};
	struct http_req req = {0};

	http_send(v->http, &req, &out, v->arena, false, http_done);
	while (op_busy(&req.op)) {
		loop_turn(v->loop, 1000);
	}
	return req.in.status;
}

/* A launch names a registered key. The rate limit saw this request and the provider did not, so it
 * gets its second. */
static void register_key(struct live *v)
{
	const char *url = arena_printf(v->arena, "%s/ssh-keys", v->endpoint);
	int64_t until;

	assert_int_equal(plain(v, url,
			     "{\"name\":\"brk\",\"public_key\":\"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 x\"}"),
	    200);
	until = loop_mono_us(v->loop) + SPOT_US_PER_S;
	while (loop_mono_us(v->loop) < until) {
		loop_turn(v->loop, until - loop_mono_us(v->loop));
	}
}

static int live_setup(void **state)
{
	struct live *v = calloc(1, sizeof(*v));
	struct spot_provider_conf conf = {
	    .name = "lambda", .env = conf_env, .setting = conf_setting, .ctx = v};
	struct http_client_conf client = {.user_agent = "test"};
	struct spot_err err = {0};
	void *self = NULL;

	assert_non_null(v);
	snprintf(v->dir, sizeof(v->dir), "/tmp/spot-live-XXXXXX");
	assert_non_null(mkdtemp(v->dir));
	rng_real_init(&v->rng);
	v->loop = loop_new(&clock_real, &v->rng);
	v->http = http_client_new(v->loop, &client);
	v->arena = arena_new(0);
	emulator_start(v);
	register_key(v);
	assert_int_equal(lambda_ops.open(&conf, &self, &err), SPOT_OK);
	v->p = call_provider_new(v->loop, v->http, &lambda_ops, self, "lambda", NULL);
	*state = v;
	return 0;
}

static int live_teardown(void **state)
{
	struct live *v = *state;
	const char *const argv[] = {"/bin/rm", "-rf", v->dir, NULL};
	const struct proc_spec spec = {.argv = argv,
	    .in = -1,
	    .out = -1,
	    .err = -1,
	    .uid = -1,
	    .gid = -1};
	struct spot_err err = {0};
	int pid = 0;

	call_provider_free(v->p);
	http_client_free(v->http);
	loop_turn(v->loop, 0);
	loop_free(v->loop);
	arena_free(v->arena);
	kill(v->pid, SIGTERM);
	waitpid(v->pid, NULL, 0);
	if (proc_spawn(&spec, &pid, &err) == SPOT_OK) {
		waitpid(pid, NULL, 0);
	}
	free(v);
	return 0;
}

static void call_done(struct op *op UNUSED)
{
}

static enum spot_rc run(struct live *v, enum call_verb verb, void *args, struct spot_err *err)
{
	struct call call = {0};
	int64_t timeout = v->timeout_us > 0 ? v->timeout_us : 60 * SPOT_US_PER_S;

	call_start(&call, v->p, verb, args, v->arena, timeout, 0, verb == CALL_TERMINATE,
	    call_done);
	while (op_busy(&call.op)) {
		loop_turn(v->loop, 20000);
	}
	*err = call.op.err;
	return call.op.rc;
}

static void ok(struct live *v, enum call_verb verb, void *args)
{
	struct spot_err err;

	if (run(v, verb, args, &err) != SPOT_OK) {
		fail_msg("verb %d: %s %s: %s", (int)verb, spot_rc_name(err.rc), err.code, err.text);
	}
}

/* ---- tests --------------------------------------------------------------------------------- */

static struct spot_launch launch_args(const struct spot_signals *s, const char *name)
{
	struct spot_launch a = {.zone_name = "",
	    .shape = {.arch = "x86_64"},
	    .token = "tok-1",
	    .name = name,
	    .install = "live",
	    .user_data = STR_LIT("#!/bin/sh\ntrue\n")};

	for (size_t i = 0; i < s->n; i++) {
		if (s->signals[i].value > 0.5) {
			a.key = s->signals[i].key;
			return a;
		}
	}
	fail_msg("the emulator has no capacity at all");
	return a;
}

static void the_market_is_read(void **state)
{
	struct live *v = *state;
	struct spot_regions regions = {0};
	struct spot_pools pools = {.region = ""};
	struct spot_prices prices = {.region = ""};
	struct spot_signals signals = {.region = ""};
	const char *account = NULL;

	ok(v, CALL_WHOAMI, &account);
	ok(v, CALL_REGIONS, &regions);
	ok(v, CALL_POOLS, &pools);
	assert_true(regions.n > 5);
	assert_true(pools.n > 100);
	prices.pools = signals.pools = pools.pools;
	prices.pools_n = signals.pools_n = pools.n;
	ok(v, CALL_PRICES, &prices);
	ok(v, CALL_SIGNALS, &signals);
	assert_int_equal(prices.n, pools.n);
	assert_int_equal(signals.n, pools.n);
	for (size_t i = 0; i < prices.n; i++) {
		assert_true(prices.points[i].price_micros > 0);
	}
	/* six requests at under one a second, and none of them refused */
	assert_int_equal(call_provider_stats(v->p).throttled, 0);
	assert_true(call_provider_stats(v->p).waited_us > 4 * SPOT_US_PER_S);
}

static const struct spot_instance *find_wait(struct live *v, const char *name)
{
	struct spot_find *find = arena_alloc(v->arena, sizeof(*find));

	for (int i = 0; i < 10; i++) {
		*find = (struct spot_find){.name = name, .token = "tok-1", .install = "live"};
		ok(v, CALL_FIND, find);
		if (find->n > 0) {
			assert_int_equal(find->n, 1);
			return &find->found[0];
		}
	}
	fail_msg("the launch is not found");
	return NULL;
}

static void an_instance_lives_and_ends(void **state)
{
	struct live *v = *state;
	struct spot_signals signals = {.region = ""};
	struct spot_terminate end = {.region = "", .zone = "", .spot_request = ""};
	struct spot_list list = {.region = "", .install = "live"};
	struct spot_launch a;
	const struct spot_instance *x;

	ok(v, CALL_SIGNALS, &signals);
	a = launch_args(&signals, NAME);
	ok(v, CALL_LAUNCH, &a);
	x = find_wait(v, NAME);
	assert_string_equal(x->ref, a.instance.ref);
	assert_string_equal(x->install, "live");
	assert_int_equal(x->created_us, INT64_C(1767323045000000));
	ok(v, CALL_LIST, &list);
	assert_int_equal(list.n, 1);
	end.ref = x->ref;
	ok(v, CALL_TERMINATE, &end);
	assert_true(end.after.state == SPOT_INSTANCE_STOPPING || end.after.state == SPOT_INSTANCE_GONE);
	/* again: the vendor's "unknown" or "does not exist", decided by the list */
	ok(v, CALL_TERMINATE, &end);
	assert_true(end.after.state == SPOT_INSTANCE_STOPPING || end.after.state == SPOT_INSTANCE_GONE);
	assert_int_equal(call_provider_stats(v->p).throttled, 0);
}

/* ---- faults -------------------------------------------------------------------------------- */

/* What the wire does to a launch, and how many instances exist then. */
static const struct {
	const char *fault;
	enum spot_rc rc;
	size_t exist;
} launch_faults[] = {
    {"\"kind\":\"reset_before\"", SPOT_UNKNOWN, 0},
    {"\"kind\":\"reset_after\"", SPOT_UNKNOWN, 1},
    {"\"kind\":\"truncate\"", SPOT_UNKNOWN, 1},
    {"\"kind\":\"malform\"", SPOT_UNKNOWN, 1},
    {"\"kind\":\"status\",\"status\":500", SPOT_UNKNOWN, 0},
    {"\"kind\":\"status\",\"status\":503,\"after\":true", SPOT_UNKNOWN, 1},
    {"\"kind\":\"status\",\"status\":429", SPOT_THROTTLED, 0},
    {"\"kind\":\"hang\"", SPOT_UNKNOWN, 0},
    {"\"kind\":\"hang\",\"after\":true", SPOT_UNKNOWN, 1},
    /* No idempotency: the only defence is to look for more than one. */
    {"\"kind\":\"duplicate\"", SPOT_OK, 2},
};

static void without_limits(struct live *v)
{
	static struct spot_provider_ops ops;
	struct spot_provider_conf conf = {
	    .name = "lambda", .env = conf_env, .setting = conf_setting, .ctx = v};
	struct spot_err err = {0};
	void *self = NULL;

	ops = lambda_ops;
	ops.limits_n = 0;
	assert_int_equal(ops.open(&conf, &self, &err), SPOT_OK);
	call_provider_free(v->p);
	v->p = call_provider_new(v->loop, v->http, &ops, self, "lambda", NULL);
	assert_int_equal(plain(v, arena_printf(v->arena, "%s/config", v->control),
			     "{\"throttle\":false,\"lag_ms\":0}"),
	    200);
}

static void a_launch_under_any_fault_is_found_again_or_never_was(void **state)
{
	struct live *v = *state;
	struct spot_signals signals = {.region = ""};

	without_limits(v);
	ok(v, CALL_SIGNALS, &signals);
	v->timeout_us = 2 * SPOT_US_PER_S;
	for (size_t i = 0; i < ARRAY_LEN(launch_faults); i++) {
		const char *name = arena_printf(v->arena, "brk.live.n%zu.1767323045", i);
		const char *token = arena_printf(v->arena, "tok-%zu", i);
		struct spot_find find = {.name = name, .token = token, .install = "live"};
		struct spot_launch a = launch_args(&signals, name);
		struct spot_err err;

		a.token = token;
		assert_int_equal(
		    plain(v, arena_printf(v->arena, "%s/fault", v->control),
			arena_printf(v->arena,
			    "{\"match\":{\"service\":\"lambda\",\"action\":"
			    "\"POST /instance-operations/launch\"},\"count\":1,%s}",
			    launch_faults[i].fault)),
		    200);
		if (run(v, CALL_LAUNCH, &a, &err) != launch_faults[i].rc) {
			fail_msg("%s: %s: %s", launch_faults[i].fault, spot_rc_name(err.rc), err.text);
		}
		ok(v, CALL_FIND, &find);
		if (find.n != launch_faults[i].exist) {
			fail_msg("%s: %zu instances", launch_faults[i].fault, find.n);
		}
	}
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, live_setup, live_teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    T(the_market_is_read),
	    T(an_instance_lives_and_ends),
	    T(a_launch_under_any_fault_is_found_again_or_never_was),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: live_lambda CLOUDSIM\n");
		return 2;
	}
	program = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
