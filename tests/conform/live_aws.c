/* AWS at the emulator. */
#include "live.h"

#include "aws/aws.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

static const char *env_value(struct live *v, const char *name)
{
	if (strcmp(name, "AWS_ACCESS_KEY_ID") == 0) {
		return live_text(v, "credentials/aws/access_key_id");
	}
	if (strcmp(name, "AWS_SECRET_ACCESS_KEY") == 0) {
		return live_text(v, "credentials/aws/secret_access_key");
	}
	if (strcmp(name, "AWS_ENDPOINT_URL") == 0) {
		return live_text(v, "urls/aws");
	}
	return strcmp(name, "AWS_REGION") == 0 ? "us-east-1" : NULL;
}

static const char *setting_value(struct live *v, const char *key)
{
	if (strcmp(key, "interruption_queue.us-east-1") == 0) {
		return arena_printf(v->arena, "%s/123456789012/spotbroker-interruptions",
		    live_text(v, "urls/aws"));
	}
	if (strcmp(key, "reservations") == 0) {
		return "on";
	}
	return strcmp(key, "advisor_url") == 0 ? live_text(v, "urls/advisor") : NULL;
}

/* The bucket of the presigned requests. */
static void bucket_prepare(struct live *v)
{
	struct sigv4 k = { .access_key = env_value(v, "AWS_ACCESS_KEY_ID"),
		.secret_key = env_value(v, "AWS_SECRET_ACCESS_KEY"),
		.region = "us-east-1",
		.service = "s3",
		.now_us = loop_wall_us(v->loop) };
	char *url = arena_printf(v->arena, "%s/conform", live_text(v, "urls/s3"));

	assert_int_equal(live_plain(v, "PUT", sigv4_presign(v->arena, &k, "PUT", url, 60), NULL,
			     ""),
	    200);
}

/* ---- AWS's own features ---------------------------------------------------------------------- */

static bool is_told(const struct spot_watch *w, const char *ref, enum spot_notice_kind kind)
{
	for (size_t i = 0; i < w->notices_n; i++) {
		if (strcmp(w->notices[i].ref, ref) == 0 && w->notices[i].kind == kind) {
			return true;
		}
	}
	return false;
}

static bool seen_as(const struct spot_watch *w, const char *ref, enum spot_instance_state state)
{
	for (size_t i = 0; i < w->seen_n; i++) {
		if (strcmp(w->seen[i].ref, ref) == 0 && w->seen[i].state == state) {
			return true;
		}
	}
	return false;
}

static void events_come_through_the_queue_once_each(struct live *v)
{
	struct spot_launch a = live_launch(v);
	const char *cursor = "";
	int warnings = 0, rebalances = 0;
	bool ran = false, ended = false;

	live_ok(v, CALL_LAUNCH, &a);
	json_decref(live_control(v, "/aws/events", "{\"twice\":true}"));
	for (int i = 0; i < 60 && !ended; i++) {
		struct spot_watch w = { .region = a.key.region,
			.install = LIVE_INSTALL,
			.cursor = cursor,
			.hold_us = 2 * SPOT_US_PER_S };

		live_ok(v, CALL_WATCH, &w);
		assert_int_equal(w.gap, *cursor == '\0');
		cursor = w.next_cursor;
		warnings += is_told(&w, a.instance.ref, SPOT_NOTICE_INTERRUPTION);
		rebalances += is_told(&w, a.instance.ref, SPOT_NOTICE_REBALANCE);
		if (!ran && seen_as(&w, a.instance.ref, SPOT_INSTANCE_RUNNING)) {
			ran = true;
			json_decref(live_control(v, "/reclaim",
			    arena_printf(v->arena,
				"{\"instance\":\"%s\",\"notice_s\":0.5,\"rebalance_s_before\":0.2}",
				a.instance.ref)));
		}
		ended = seen_as(&w, a.instance.ref, SPOT_INSTANCE_GONE);
	}
	json_decref(live_control(v, "/aws/events", "{\"twice\":false}"));
	assert_true(ran && ended);
	assert_int_equal(warnings, 1);
	assert_int_equal(rebalances, 1);
}

static const char *reservation_make(struct live *v, const struct spot_pool_key *k, const char *more)
{
	AUTO(json)
	json_t *made = live_control(v, "/aws/reservation",
	    arena_printf(v->arena,
		"{\"region\":\"%s\",\"zone\":\"%s\",\"type\":\"%s\",\"count\":2%s}", k->region,
		k->zone, k->instance_type, more));

	return arena_strdup(v->arena, json_string_value(json_object_get(made, "id")));
}

static void a_reservation_is_a_pool_and_is_used(struct live *v)
{
	struct spot_launch_gang g = { .common = live_launch(v), .want = 2 };
	struct spot_launch more = live_launch(v);
	struct spot_pools pools = { .region = v->cloud->region };
	const char *id = reservation_make(v, &g.common.key, ",\"block\":true");
	struct spot_err err;
	size_t found = 0;

	live_ok(v, CALL_POOLS, &pools);
	for (size_t i = 0; i < pools.n; i++) {
		found += pools.pools[i].key.market == SPOT_MARKET_RESERVED;
	}
	assert_int_equal(found, 1);
	g.common.key.market = more.key.market = SPOT_MARKET_RESERVED;
	live_ok(v, CALL_LAUNCH_GANG, &g);
	assert_int_equal(g.instances_n, 2);
	assert_int_equal(g.instances[0].key.market, SPOT_MARKET_RESERVED);
	assert_int_equal(live_run(v, CALL_LAUNCH, &more, &err), SPOT_NO_CAPACITY);
	json_decref(
	    live_control(v, "/aws/reservation", arena_printf(v->arena, "{\"cancel\":\"%s\"}", id)));
}

static void reservation_change(struct live *v, const char *body)
{
	json_decref(live_control(v, "/aws/reservation", body));
}

/* Pool and machine are told of the end, half an hour before the end date. Then the machine is gone,
 * and none comes in its place. */
static void a_block_ends_half_an_hour_early(struct live *v)
{
	struct spot_launch a = live_launch(v), more = live_launch(v);
	const char *id = reservation_make(v, &a.key, ",\"block\":true,\"ends_in_s\":7200");
	struct spot_pool_info pool = { .key = a.key, .zone_name = a.zone_name };
	struct spot_signals s = { .region = v->cloud->region, .pools = &pool, .pools_n = 1 };
	struct spot_notices n = { .region = v->cloud->region,
		.instances = &a.instance,
		.instances_n = 1 };
	struct spot_describe d = { .region = v->cloud->region,
		.refs = &a.instance.ref,
		.refs_n = 1 };
	int64_t end = loop_wall_us(v->loop) + 90 * 60 * SPOT_US_PER_S;
	struct spot_err err;

	a.key.market = more.key.market = pool.key.market = SPOT_MARKET_RESERVED;
	live_ok(v, CALL_LAUNCH, &a);
	live_ok(v, CALL_SIGNALS, &s);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.signals[1].kind, SPOT_SIGNAL_ENDS);
	assert_true(llabs((int64_t)s.signals[1].value * SPOT_US_PER_S - end) < 60000000);
	live_ok(v, CALL_NOTICES, &n);
	assert_int_equal(n.n, 1);
	assert_int_equal(n.notices[0].kind, SPOT_NOTICE_EXPIRY);
	assert_true(llabs(n.notices[0].deadline_us - end) < 60000000);
	reservation_change(v, arena_printf(v->arena, "{\"extend\":\"%s\",\"ends_in_s\":1800}", id));
	for (int i = 0; i < 200; i++) {
		live_ok(v, CALL_DESCRIBE, &d);
		if (d.n == 0 || d.found[0].state == SPOT_INSTANCE_GONE) {
			break;
		}
		live_pause(v, 20000);
	}
	assert_true(d.n == 0 || d.found[0].state == SPOT_INSTANCE_GONE);
	assert_int_equal(live_run(v, CALL_LAUNCH, &more, &err), SPOT_NO_CAPACITY);
	reservation_change(v, arena_printf(v->arena, "{\"cancel\":\"%s\"}", id));
}

static void fill(struct live *v, const struct spot_pool_key *k, int hours_ago, int fulfilled)
{
	json_decref(live_control(v, "/aws/fulfilment",
	    arena_printf(v->arena,
		"{\"region\":\"%s\",\"zone\":\"%s\",\"type\":\"%s\",\"requested\":16,"
		"\"fulfilled\":%d,\"hours_ago\":%d}",
		k->region, k->zone, k->instance_type, fulfilled, hours_ago)));
}

/* The manager tells of another region, of which no other case asks: a region is asked for once an
 * hour. Eight hours make half of a count. */
static void fulfilment_rates_are_read_where_the_manager_is_enabled(struct live *v)
{
	struct spot_pool_info pool = { .key = { v->cloud->name, "us-west-2", "usw2-az1",
					   "g5.xlarge", SPOT_MARKET_SPOT },
		.zone_name = "us-west-2a",
		.shape.vcpus = 4 };
	struct spot_signals s = { .region = "us-west-2", .pools = &pool, .pools_n = 1 };
	size_t found = 0;

	json_decref(live_control(v, "/aws/capacity-manager",
	    arena_printf(v->arena, "{\"region\":\"%s\"}", v->cloud->region)));
	fill(v, &pool.key, 1, 4);
	fill(v, &pool.key, 9, 16);
	live_ok(v, CALL_SIGNALS, &s);
	for (size_t i = 0; i < s.n; i++) {
		const struct spot_signal *x = &s.signals[i];

		if (x->kind == SPOT_SIGNAL_FULFILMENT) {
			found++;
			assert_string_equal(x->key.zone, "usw2-az1");
			assert_true(x->lo > 2.99 && x->lo < 3.01 && x->hi > 5.99 && x->hi < 6.01);
		}
	}
	assert_int_equal(found, 1);
	json_decref(live_control(v, "/aws/capacity-manager", "{}"));
}

static void machines_elsewhere_are_known_while_a_zone_is_disrupted(struct live *v)
{
	struct spot_launch here = live_launch(v), there = live_launch(v);
	const char *refs[2];
	struct spot_describe d = { .region = v->cloud->region, .refs = refs, .refs_n = 2 };

	there.key.zone = strcmp(here.key.zone, "use1-az4") == 0 ? "use1-az6" : "use1-az4";
	there.zone_name = "";
	live_ok(v, CALL_LAUNCH, &here);
	live_ok(v, CALL_LAUNCH, &there);
	refs[0] = here.instance.ref;
	refs[1] = there.instance.ref;
	json_decref(live_control(v, "/aws/impaired",
	    arena_printf(v->arena, "{\"zone\":\"%s\"}", here.key.zone)));
	live_ok(v, CALL_DESCRIBE, &d);
	json_decref(live_control(v, "/aws/impaired", "{\"zone\":\"\"}"));
	assert_int_equal(d.n, 2);
	assert_int_equal(d.found[0].state, SPOT_INSTANCE_ODD);
	assert_true(
	    d.found[1].state == SPOT_INSTANCE_PENDING || d.found[1].state == SPOT_INSTANCE_RUNNING);
}

static void maintenance_that_is_scheduled_is_told(struct live *v)
{
	struct spot_launch a = live_launch(v);
	struct spot_notices n = { .region = v->cloud->region,
		.instances = &a.instance,
		.instances_n = 1 };

	live_ok(v, CALL_LAUNCH, &a);
	json_decref(live_control(v, "/maintenance",
	    arena_printf(v->arena, "{\"instance\":\"%s\",\"in_s\":600}", a.instance.ref)));
	for (int i = 0; i < 100 && n.n == 0; i++) {
		live_ok(v, CALL_NOTICES, &n);
		live_pause(v, 20000);
	}
	assert_int_equal(n.n, 1);
	assert_int_equal(n.notices[0].kind, SPOT_NOTICE_MAINTENANCE);
	assert_true(n.notices[0].deadline_us > loop_wall_us(v->loop));
}

static const struct live_case own[] = {
	{ "events_come_through_the_queue_once_each", events_come_through_the_queue_once_each },
	{ "a_reservation_is_a_pool_and_is_used", a_reservation_is_a_pool_and_is_used },
	{ "a_block_ends_half_an_hour_early", a_block_ends_half_an_hour_early },
	{ "fulfilment_rates_are_read_where_the_manager_is_enabled",
	    fulfilment_rates_are_read_where_the_manager_is_enabled },
	{ "machines_elsewhere_are_known_while_a_zone_is_disrupted",
	    machines_elsewhere_are_known_while_a_zone_is_disrupted },
	{ "maintenance_that_is_scheduled_is_told", maintenance_that_is_scheduled_is_told },
	{ NULL, NULL },
};

const struct live_cloud live_aws = {
	.name = "aws",
	.ops = &aws_ops,
	.env = env_value,
	.setting = setting_value,
	.prepare = bucket_prepare,
	.region = "us-east-1",
	.type = "g5.xlarge",
	.create = "\"service\":\"ec2\",\"action\":\"RunInstances\"",
	.list = "\"service\":\"ec2\",\"action\":\"DescribeInstances\"",
	.end = "\"service\":\"ec2\",\"action\":\"TerminateInstances\"",
	.service = "\"service\":\"ec2\"",
	.throttled = "\"kind\":\"status\",\"status\":503,\"code\":\"RequestLimitExceeded\"",
	.expired = NULL, /* static keys do not run out */
	.quota = "\"kind\":\"status\",\"status\":400,\"code\":\"MaxSpotInstanceCountExceeded\"",
	.bucket = "conform",
	.objects = "urls/s3",
	.skew = true,
	.own = own,
};
