/* Google Cloud at the emulator. */
#include "live.h"

#include "base/text/text.h"
#include "gcp/gcp.h"

static const char *setting_value(struct live *v, const char *key)
{
	if (strcmp(key, "endpoint") == 0) {
		return live_text(v, "urls/gcp");
	}
	if (strcmp(key, "project") == 0) {
		return live_text(v, "credentials/gcp/project");
	}
	if (strcmp(key, "credentials") == 0) {
		return live_text(v, "credentials/gcp/key_file");
	}
	if (strcmp(key, "reservations") == 0 || strcmp(key, "flex_start") == 0) {
		return "on";
	}
	return strcmp(key, "regions") == 0 ? "us-central1,us-east4" : NULL;
}

/* The bucket of the presigned requests. */
static void bucket_prepare(struct live *v)
{
	json_t *token = live_control(v, "/gcp/credentials", "{\"action\":\"token\"}");
	char *url = arena_printf(v->arena, "%s/storage/v1/b?project=%s", live_text(v, "urls/gcp"),
	    live_text(v, "credentials/gcp/project"));

	int status = live_plain(v, "POST", url,
	    json_string_value(json_object_get(token, "access_token")), "{\"name\":\"conform\"}");

	json_decref(token);
	if (status != 200) {
		fail_msg("the bucket is not made: %d", status);
	}
}

#define COMPUTE(action) "\"service\":\"compute\",\"action\":\"" action "\""
#define REFUSED(n, code) \
	"\"kind\":\"status\",\"status\":" #n ",\"code\":\"" code "\",\"message\":\"words\""

/* throttled_for_s: to the next minute, mostly longer than the call may take. */
#define GCP \
	.ops = &gcp_ops, .setting = setting_value, .prepare = bucket_prepare, \
	.region = "us-central1", .create = COMPUTE("instances.insert"), \
	.create_set = COMPUTE("instances.bulkInsert"), \
	.list = COMPUTE("instances.aggregatedList"), .end = COMPUTE("instances.delete"), \
	.service = "\"service\":\"compute\"", .throttled = REFUSED(403, "rateLimitExceeded"), \
	.throttled_for_s = 60, .expired = REFUSED(401, "authError"), \
	.quota = REFUSED(403, "quotaExceeded"), .bucket = "conform", .objects = "urls/gcp"

/* The list prices of 2026-05-20, host and GPUs together (tests/cloudsim/data/PROVENANCE.md has the
 * source). The sums of the catalog's parts are nano-dollars off. */
static void the_price_of_a_host_is_that_of_all_its_parts(struct live *v)
{
	static const struct {
		const char *type;
		int64_t on_demand, spot;
	} want[] = {
		{ "n1-standard-8+nvidia-tesla-t4x1", 730000, 304940 },
		{ "n1-standard-16+nvidia-tesla-v100x2", 5720000, 2759080 },
	};
	struct spot_pools pools = { .region = "" };
	struct spot_prices prices = { .region = "" };
	size_t n = 0;

	live_ok(v, CALL_POOLS, &pools);
	prices.pools = pools.pools;
	prices.pools_n = pools.n;
	live_ok(v, CALL_PRICES, &prices);
	for (size_t i = 0; i < prices.n; i++) {
		const struct spot_price_point *p = &prices.points[i];

		for (size_t k = 0; k < ARRAY_LEN(want); k++) {
			int64_t usd =
			    p->key.market == SPOT_MARKET_SPOT ? want[k].spot : want[k].on_demand;

			if (strcmp(p->key.zone, "us-central1-a") != 0 ||
			    strcmp(p->key.instance_type, want[k].type) != 0) {
				continue;
			}
			assert_in_range(p->price_micros, (uint64_t)usd - 1, (uint64_t)usd + 1);
			n++;
		}
	}
	assert_int_equal(n, 2 * ARRAY_LEN(want));
}

#define MANY 60

/* More than a call gets one by one: their zone's list has them, and each missing one is asked
 * for. */
static void many_are_described_by_the_list_of_their_zone(struct live *v)
{
	struct spot_launch_gang g = { .common = live_launch(v), .want = MANY };
	const char *refs[MANY];
	struct spot_describe d = { .region = "",
		.refs = refs,
		.refs_n = MANY,
		.install = LIVE_INSTALL };

	live_ok(v, CALL_LAUNCH_GANG, &g);
	assert_int_equal(g.instances_n, MANY);
	for (size_t i = 0; i < MANY; i++) {
		refs[i] = g.instances[i].ref;
	}
	live_fault(v, COMPUTE("instances.get"), REFUSED(403, "forbidden"), -1);
	live_ok(v, CALL_DESCRIBE, &d);
	assert_int_equal(d.n, MANY);
	live_unfault(v);
	live_end(v, &g.instances[MANY / 2]);
	live_ok(v, CALL_DESCRIBE, &d);
	assert_int_equal(d.n, MANY - 1);
	assert_null(d.untold);
	for (size_t i = 0; i < d.n; i++) {
		assert_string_not_equal(d.found[i].ref, refs[MANY / 2]);
	}
}

/* Its pool and its machine are told of its end; a second launch finds it full. */
static void a_reservation_is_a_pool_and_is_used(struct live *v)
{
	struct spot_launch a = live_launch(v), more = live_launch(v);
	struct spot_launch_gang g = { .common = live_launch(v), .want = 2 };
	struct spot_pools pools = { .region = "" };
	struct spot_pool_info pool = { .key = a.key, .zone_name = "" };
	struct spot_signals s = { .region = "", .pools = &pool, .pools_n = 1 };
	struct spot_notices n = { .region = "", .instances = &a.instance, .instances_n = 1 };
	int64_t end = loop_wall_us(v->loop) + 2 * SPOT_US_PER_HOUR;
	struct spot_err err;
	size_t found = 0;

	a.key.market = more.key.market = g.common.key.market = pool.key.market =
	    SPOT_MARKET_RESERVED;
	assert_int_equal(live_run(v, CALL_LAUNCH, &more, &err), SPOT_NO_CAPACITY);
	json_decref(live_control(v, "/gcp/reservation",
	    arena_printf(v->arena,
		"{\"name\":\"mine\",\"zone\":\"%s\",\"type\":\"%s\",\"count\":1,"
		"\"ends_in_s\":7200}",
		a.key.zone, a.key.instance_type)));
	live_ok(v, CALL_POOLS, &pools);
	for (size_t i = 0; i < pools.n; i++) {
		found += pools.pools[i].key.market == SPOT_MARKET_RESERVED;
	}
	assert_int_equal(found, 1);
	assert_int_equal(live_run(v, CALL_LAUNCH_GANG, &g, &err), SPOT_NO_CAPACITY);
	live_ok(v, CALL_SIGNALS, &s);
	assert_int_equal(s.n, 2);
	assert_true(s.signals[0].value > 0);
	assert_true(llabs((int64_t)s.signals[1].value * SPOT_US_PER_S - end) < 60000000);
	live_ok(v, CALL_LAUNCH, &a);
	assert_int_equal(live_run(v, CALL_LAUNCH, &more, &err), SPOT_NO_CAPACITY);
	live_ok(v, CALL_SIGNALS, &s);
	assert_int_equal(s.n, 1);
	assert_true(s.signals[0].value < 1);
	a.instance.install = LIVE_INSTALL;
	live_ok(v, CALL_NOTICES, &n);
	assert_int_equal(n.n, 1);
	assert_int_equal(n.notices[0].kind, SPOT_NOTICE_EXPIRY);
	assert_true(llabs(n.notices[0].deadline_us - end) < 60000000);
	json_decref(live_control(v, "/gcp/reservation",
	    arena_printf(v->arena,
		"{\"name\":\"mine\",\"zone\":\"%s\",\"type\":\"%s\",\"count\":3}", a.key.zone,
		a.key.instance_type)));
	live_ok(v, CALL_LAUNCH_GANG, &g);
	assert_int_equal(g.instances_n, 2);
	assert_int_equal(g.instances[0].key.market, SPOT_MARKET_RESERVED);
	json_decref(live_control(v, "/gcp/reservation",
	    arena_printf(v->arena,
		"{\"name\":\"mine\",\"zone\":\"%s\",\"type\":\"%s\",\"ends_in_s\":0.001}",
		a.key.zone, a.key.instance_type)));
}

static struct spot_instance state_await(struct live *v, const struct spot_instance *x,
    enum spot_instance_state state)
{
	struct spot_describe d = { .region = x->key.region, .refs = &x->ref, .refs_n = 1 };

	for (int i = 0; i < 1000; i++) {
		live_ok(v, CALL_DESCRIBE, &d);
		assert_int_equal(d.n, 1);
		if (d.found[0].state == state) {
			break;
		}
		live_pause(v, 10000);
	}
	assert_int_equal(d.found[0].state, state);
	return d.found[0];
}

/* Flex-start: accepted at once, then in the queue until there is capacity; its end is told. */
static void an_order_waits_for_its_machine(struct live *v)
{
	struct spot_launch a = live_launch(v);
	struct spot_notices n = { .region = "", .instances = &a.instance, .instances_n = 1 };
	struct spot_pools pools = { .region = "" };
	size_t found = 0;

	json_decref(live_control(v, "/gcp/config", "{\"flex_queue_ms\":-1}"));
	a.key.market = SPOT_MARKET_FLEX_START;
	live_ok(v, CALL_POOLS, &pools);
	for (size_t i = 0; i < pools.n; i++) {
		found += pools.pools[i].key.market == SPOT_MARKET_FLEX_START;
	}
	assert_true(found > 0);
	live_ok(v, CALL_LAUNCH, &a);
	assert_int_equal(a.instance.state, SPOT_INSTANCE_QUEUED);
	(void)state_await(v, &a.instance, SPOT_INSTANCE_QUEUED);
	a.instance.install = LIVE_INSTALL;
	live_ok(v, CALL_NOTICES, &n);
	assert_int_equal(n.n, 0);
	json_decref(live_control(v, "/gcp/config", "{\"flex_queue_ms\":0}"));
	assert_int_equal(state_await(v, &a.instance, SPOT_INSTANCE_RUNNING).key.market,
	    SPOT_MARKET_FLEX_START);
	n = (struct spot_notices){ .region = "", .instances = &a.instance, .instances_n = 1 };
	live_ok(v, CALL_NOTICES, &n);
	assert_int_equal(n.n, 1);
	assert_int_equal(n.notices[0].kind, SPOT_NOTICE_EXPIRY);
	assert_true(llabs(n.notices[0].deadline_us - loop_wall_us(v->loop) -
			INT64_C(168) * SPOT_US_PER_HOUR) < 60000000);
}

static const struct live_case own[] = {
	{ "a_reservation_is_a_pool_and_is_used", a_reservation_is_a_pool_and_is_used },
	{ "an_order_waits_for_its_machine", an_order_waits_for_its_machine },
	{ "many_are_described_by_the_list_of_their_zone",
	    many_are_described_by_the_list_of_their_zone },
	{ NULL, NULL },
};
static const struct live_case attached[] = {
	{ "the_price_of_a_host_is_that_of_all_its_parts",
	    the_price_of_a_host_is_that_of_all_its_parts },
	{ NULL, NULL },
};

const struct live_cloud live_gcp = { .name = "gcp", .type = "g2-standard-4", .own = own, GCP };
/* A host and the GPUs beside it instead of a machine type. */
const struct live_cloud live_gcp_attached = { .name = "gcp-attached",
	.sim_name = "gcp",
	.type = "n1-standard-16+nvidia-tesla-v100x2",
	.own = attached,
	GCP };
