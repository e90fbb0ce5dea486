/* A machine's life, and the common rules of all clouds in it. */
#include "live.h"

#include "base/text/text.h"

#define LIFE_TURNS 300

void live_market_within_limits(struct live *v)
{
	bool everywhere = (v->ops.caps & SPOT_CAP_ALL_REGIONS) != 0;
	struct spot_regions regions = { 0 };
	struct spot_pools pools = { .region = everywhere ? "" : v->cloud->region };
	struct spot_prices prices = { .region = pools.region };
	struct spot_signals signals = { .region = pools.region };
	struct spot_quotas quotas = { .region = v->cloud->region };
	const char *account = NULL;

	if (v->ops.whoami != NULL) {
		live_ok(v, CALL_WHOAMI, &account);
		assert_true(account != NULL && *account != '\0');
	}
	live_ok(v, CALL_REGIONS, &regions);
	assert_true(regions.n > 0);
	live_ok(v, CALL_POOLS, &pools);
	assert_true(pools.n > 0);
	prices.pools = signals.pools = pools.pools;
	prices.pools_n = signals.pools_n = pools.n;
	live_ok(v, CALL_PRICES, &prices);
	assert_true(prices.n > 0);
	for (size_t i = 0; i < prices.n; i++) {
		assert_true(prices.points[i].price_micros > 0);
		assert_true(prices.points[i].observed_us > 0);
		assert_string_not_equal(prices.points[i].source, "");
	}
	if (v->ops.signals != NULL) {
		live_ok(v, CALL_SIGNALS, &signals);
	}
	if (v->ops.quotas != NULL) {
		live_ok(v, CALL_QUOTAS, &quotas);
		assert_true(quotas.n > 0);
	}
	/* the provider kept the vendor's published limits: no reply was a throttle */
	assert_int_equal(call_provider_stats(v->p).throttled, 0);
}

/* Looks until the machine is in that state. */
static struct spot_instance wait_state(struct live *v, const struct spot_instance *x,
    enum spot_instance_state s)
{
	enum spot_instance_state last = SPOT_INSTANCE_NONE;

	for (int i = 0; i < LIFE_TURNS; i++) {
		struct spot_describe d = { .region = x->key.region, .refs = &x->ref, .refs_n = 1 };

		live_ok(v, CALL_DESCRIBE, &d);
		assert_true(d.n <= 1);
		if (d.n == 1 && d.found[0].state == s) {
			return d.found[0];
		}
		if (d.n == 0 && s == SPOT_INSTANCE_GONE) {
			return (struct spot_instance){ .ref = x->ref, .state = SPOT_INSTANCE_GONE };
		}
		last = d.n == 1 ? d.found[0].state : SPOT_INSTANCE_NONE;
		live_pause(v, 10000);
	}
	fail_msg("%s never got %s, it is %s", x->ref, spot_instance_state_name(s),
	    last == SPOT_INSTANCE_NONE ? "absent" : spot_instance_state_name(last));
	return *x;
}

static bool list_names(const struct spot_list *list, const char *ref)
{
	for (size_t i = 0; i < list->n; i++) {
		if (strcmp(list->found[i].ref, ref) == 0) {
			return strcmp(list->found[i].install, LIVE_INSTALL) == 0;
		}
	}
	return false;
}

static void an_instance_lives_and_ends(struct live *v)
{
	struct spot_launch a = live_launch(v);
	struct spot_terminate end = { .region = a.key.region, .zone = a.key.zone };
	struct spot_list list = { .region = a.key.region, .install = LIVE_INSTALL };
	struct spot_instance x;

	live_ok(v, CALL_LAUNCH, &a);
	assert_string_not_equal(a.instance.ref, "");
	assert_string_equal(a.instance.install, LIVE_INSTALL);
	assert_int_equal(live_find(v, &a), 1);
	x = wait_state(v, &a.instance, SPOT_INSTANCE_RUNNING);
	assert_string_equal(x.ref, a.instance.ref);
	assert_string_equal(x.key.instance_type, a.key.instance_type);
	assert_string_equal(x.key.region, a.key.region);
	assert_int_equal(x.key.market, a.key.market);
	if ((v->ops.caps & SPOT_CAP_ALL_REGIONS) != 0) {
		list.region = "";
	}
	live_ok(v, CALL_LIST, &list);
	assert_int_equal(live_in(&list), 1);
	assert_true(list_names(&list, a.instance.ref));
	end.ref = x.ref;
	end.spot_request = x.spot_request == NULL ? "" : x.spot_request;
	live_ok(v, CALL_TERMINATE, &end);
	assert_true(
	    end.after.state == SPOT_INSTANCE_STOPPING || end.after.state == SPOT_INSTANCE_GONE);
	live_ok(v, CALL_TERMINATE, &end); /* a second time does no harm */
	assert_true(
	    end.after.state == SPOT_INSTANCE_STOPPING || end.after.state == SPOT_INSTANCE_GONE);
	(void)wait_state(v, &a.instance, SPOT_INSTANCE_GONE);
	live_ok(v, CALL_TERMINATE, &end);
	assert_int_equal(end.after.state, SPOT_INSTANCE_GONE);
	assert_int_equal(live_count(v), 0);
}

static void other_peoples_machines_are_not_listed(struct live *v)
{
	struct spot_launch a = live_launch(v);
	struct spot_list list = { .region = a.key.region, .install = "someone-else" };

	live_ok(v, CALL_LAUNCH, &a);
	if ((v->ops.caps & SPOT_CAP_ALL_REGIONS) != 0) {
		list.region = "";
	}
	live_ok(v, CALL_LIST, &list);
	assert_int_equal(list.n, 0);
	assert_int_equal(live_count(v), 1);
}

static void a_launch_repeated_is_the_same_machine(struct live *v)
{
	struct spot_launch a = live_launch(v), again = a, other = a;
	struct spot_err err;

	if (v->ops.token_scope == SPOT_TOKEN_NONE) {
		return; /* told by its table: the engine never repeats there */
	}
	live_ok(v, CALL_LAUNCH, &a);
	live_ok(v, CALL_LAUNCH, &again);
	assert_string_equal(again.instance.ref, a.instance.ref);
	other.user_data = str_from("#!/bin/sh\nfalse\n");
	/* The same name for other parameters: refused, or answered with the machine that exists. */
	if (live_run(v, CALL_LAUNCH, &other, &err) == SPOT_OK) {
		assert_string_equal(other.instance.ref, a.instance.ref);
	} else {
		assert_int_equal(err.rc, SPOT_MISMATCH);
	}
	assert_int_equal(live_count(v), 1);
}

static char *pool_pattern(struct live *v)
{
	return arena_printf(v->arena, "%s/*/*/*/*",
	    v->cloud->sim_name != NULL ? v->cloud->sim_name : v->cloud->name);
}

/* Machines that are there already: every one of them is taken, then there is none. */
static void all_machines_taken(struct live *v)
{
	for (int i = 0; i < 20; i++) {
		struct spot_launch a = live_launch(v);
		struct spot_describe d = { .region = a.key.region, .refs_n = 1 };
		struct spot_err err;

		if (live_run(v, CALL_LAUNCH, &a, &err) != SPOT_OK) {
			assert_int_equal(err.rc, SPOT_NO_CAPACITY);
			assert_int_equal(live_find(v, &a), 0);
			return;
		}
		d.refs = &a.instance.ref;
		for (int k = 0; k < LIFE_TURNS; k++) {
			live_ok(v, CALL_DESCRIBE, &d);
			if (d.n == 1 && d.found[0].state == SPOT_INSTANCE_FAILED) {
				assert_true(str_prefix(d.found[0].raw_reason, "NO_CAPACITY"));
				return;
			}
			if (d.n == 1 && d.found[0].state == SPOT_INSTANCE_RUNNING) {
				break;
			}
			live_pause(v, 10000);
		}
	}
	fail_msg("there is no end of machines");
}

static void a_sold_out_pool_says_so(struct live *v)
{
	struct spot_launch a = live_launch(v);
	struct spot_err err;

	if (v->cloud->fixed) {
		all_machines_taken(v);
		return;
	}
	json_decref(live_control(v, "/stock",
	    arena_printf(v->arena, "{\"pool\":\"%s\",\"count\":0}", pool_pattern(v))));
	if (v->cloud->late) {
		live_ok(v, CALL_LAUNCH, &a);
		struct spot_instance x = wait_state(v, &a.instance, SPOT_INSTANCE_FAILED);

		assert_true(str_prefix(x.raw_reason, "NO_CAPACITY"));
		return;
	}
	assert_int_equal(live_run(v, CALL_LAUNCH, &a, &err), SPOT_NO_CAPACITY);
	assert_string_not_equal(err.code, "");
	assert_int_equal(live_find(v, &a), 0);
	assert_int_equal(live_count(v), 0);
}

static void a_full_quota_says_so(struct live *v)
{
	struct spot_launch a = live_launch(v);
	struct spot_err err;

	if (v->cloud->quota == NULL) {
		return;
	}
	live_fault(v, v->cloud->create, v->cloud->quota, -1);
	if (live_run(v, CALL_LAUNCH, &a, &err) != SPOT_QUOTA) {
		fail_msg("%s: %s", spot_rc_name(err.rc), err.text);
	}
	assert_int_equal(live_count(v), 0);
}

static void a_reclaimed_machine_is_known_as_taken(struct live *v)
{
	struct spot_launch a = live_launch(v);

	if (a.key.market != SPOT_MARKET_SPOT) {
		return;
	}
	live_ok(v, CALL_LAUNCH, &a);
	(void)wait_state(v, &a.instance, SPOT_INSTANCE_RUNNING);
	json_decref(live_control(v, "/reclaim",
	    arena_printf(v->arena, "{\"pool\":\"%s\",\"notice_s\":0}", pool_pattern(v))));
	for (int i = 0; i < LIFE_TURNS; i++) {
		struct spot_notices n = { .region = a.key.region,
			.instances = &a.instance,
			.instances_n = 1 };
		struct spot_describe d = { .region = a.key.region,
			.refs = &a.instance.ref,
			.refs_n = 1 };

		live_ok(v, CALL_DESCRIBE, &d);
		if (d.n == 1 && d.found[0].end_cause == SPOT_END_RECLAIM) {
			assert_true(d.found[0].state != SPOT_INSTANCE_RUNNING);
			return;
		}
		if (v->ops.notices != NULL) {
			live_ok(v, CALL_NOTICES, &n);
			if (n.n > 0 && n.notices[0].kind == SPOT_NOTICE_INTERRUPTION) {
				assert_string_equal(n.notices[0].ref, a.instance.ref);
				return;
			}
		}
		live_pause(v, 10000);
	}
	fail_msg("nobody said that it was taken");
}

static void ending_what_never_was_succeeds(struct live *v)
{
	struct spot_launch a = live_launch(v);
	struct spot_terminate end;

	live_ok(v, CALL_LAUNCH, &a);
	live_end(v, &a.instance);
	end = (struct spot_terminate){ .region = a.key.region,
		.zone = a.key.zone,
		.ref = a.instance.ref,
		.spot_request = "" };
	live_ok(v, CALL_TERMINATE, &end);
	assert_int_equal(end.after.state, SPOT_INSTANCE_GONE);
}

static void a_list_that_lags_hides_nothing_for_ever(struct live *v)
{
	struct spot_launch a = live_launch(v);
	size_t n = 0;

	json_decref(live_control(v, "/config", "{\"lag_ms\":300}"));
	live_ok(v, CALL_LAUNCH, &a);
	for (int i = 0; i < LIFE_TURNS && n == 0; i++) {
		n = live_find(v, &a);
		live_pause(v, 10000);
	}
	assert_int_equal(n, 1);
}

static void a_gang_is_all_or_nothing(struct live *v)
{
	struct spot_launch_gang g = { .common = live_launch(v), .want = 3 };
	struct spot_err err;

	if (v->ops.launch_gang == NULL) {
		return;
	}
	live_ok(v, CALL_LAUNCH_GANG, &g);
	assert_int_equal(g.instances_n, 3);
	assert_int_equal(live_count(v), 3);
	live_end_all(v);
	json_decref(live_control(v, "/stock",
	    arena_printf(v->arena, "{\"pool\":\"%s\",\"count\":2}", pool_pattern(v))));
	g = (struct spot_launch_gang){ .common = live_launch(v), .want = 3 };
	assert_int_equal(live_run(v, CALL_LAUNCH_GANG, &g, &err), SPOT_NO_CAPACITY);
	assert_int_equal(live_count(v), 0);
}

static size_t find_set(struct live *v, const struct spot_launch_gang *g)
{
	struct spot_find f = { .region = v->cloud->region,
		.zone = g->common.key.zone,
		.token = g->common.token,
		.name = g->common.name,
		.install = g->common.install };

	live_ok(v, CALL_FIND, &f);
	return f.n;
}

static void stock_set(struct live *v, int machines)
{
	json_decref(live_control(v, "/stock",
	    arena_printf(v->arena, "{\"pool\":\"%s\",\"count\":%d}", pool_pattern(v), machines)));
}

static void a_set_has_as_many_as_were_asked_for(struct live *v)
{
	struct spot_launch_gang g = { .common = live_launch(v), .want = 3, .least = 1 };

	if (v->ops.set_most == 0) {
		return;
	}
	live_ok(v, CALL_LAUNCH_GANG, &g);
	assert_int_equal(g.instances_n, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_string_equal(g.instances[i].token, g.common.token);
		assert_string_not_equal(g.instances[i].ref, g.instances[(i + 1) % 3].ref);
	}
	assert_int_equal(find_set(v, &g), 3);
	assert_int_equal(live_count(v), 3);
}

/* A set takes what there is. Its token gives the same machines again, and no others. */
static void a_set_is_as_many_as_there_are(struct live *v)
{
	struct spot_launch_gang g = { .common = live_launch(v), .want = 3, .least = 1 }, again;
	struct spot_err err;

	if (v->ops.set_most == 0) {
		return;
	}
	stock_set(v, 2);
	again = g;
	live_ok(v, CALL_LAUNCH_GANG, &g);
	assert_int_equal(g.instances_n, 2);
	live_ok(v, CALL_LAUNCH_GANG, &again);
	assert_int_equal(again.instances_n, 2);
	assert_int_equal(live_count(v), 2);
	assert_int_equal(find_set(v, &g), 2);
	/* For other parameters: refused, or answered with the machines that exist. */
	again = (struct spot_launch_gang){ .common = g.common, .want = 4, .least = 1 };
	if (live_run(v, CALL_LAUNCH_GANG, &again, &err) == SPOT_OK) {
		assert_int_equal(again.instances_n, 2);
	} else {
		assert_int_equal(err.rc, SPOT_MISMATCH);
	}
	assert_int_equal(live_count(v), 2);
}

static void a_set_of_a_sold_out_pool_says_so(struct live *v)
{
	struct spot_launch_gang g = { .common = live_launch(v), .want = 3, .least = 1 };
	struct spot_err err;

	if (v->ops.set_most == 0) {
		return;
	}
	stock_set(v, 0);
	assert_int_equal(live_run(v, CALL_LAUNCH_GANG, &g, &err), SPOT_NO_CAPACITY);
	assert_string_not_equal(err.code, "");
	assert_int_equal(find_set(v, &g), 0);
	assert_int_equal(live_count(v), 0);
}

/* The engine looks a set up, then repeats it whole under its token. */
static void a_set_whose_reply_is_lost_comes_once(struct live *v)
{
	static const struct {
		const char *fault;
		size_t made;
	} lost[] = { { "\"kind\":\"reset_before\"", 0 }, { "\"kind\":\"reset_after\"", 3 },
		{ "\"kind\":\"status\",\"status\":503,\"after\":true", 3 },
		{ "\"kind\":\"duplicate\"", 3 } };
	const char *at = v->cloud->create_set != NULL ? v->cloud->create_set : v->cloud->create;

	for (size_t i = 0; i < ARRAY_LEN(lost) && v->ops.set_most > 0; i++) {
		struct spot_launch_gang g = { .common = live_launch(v), .want = 3, .least = 1 };
		struct spot_err err;
		enum spot_rc rc;

		live_fault(v, at, lost[i].fault, 1);
		rc = live_run(v, CALL_LAUNCH_GANG, &g, &err);
		live_struck(v);
		assert_true(rc == SPOT_OK || rc == SPOT_UNKNOWN);
		assert_int_equal(find_set(v, &g), rc == SPOT_OK ? 3 : lost[i].made);
		live_ok(v, CALL_LAUNCH_GANG, &g);
		assert_int_equal(g.instances_n, 3);
		assert_int_equal(find_set(v, &g), 3);
		assert_int_equal(live_count(v), 3);
		live_end_all(v);
	}
}

static void a_check_finds_everything_in_order(struct live *v)
{
	struct spot_check c = { .region = v->cloud->region };

	if (v->ops.check == NULL) {
		fail_msg("this provider has no check");
	}
	(void)live_launch(v); /* chooses the pool */
	c.pools = &v->pool;
	c.pools_n = 1;
	live_ok(v, CALL_CHECK, &c);
	assert_true(c.n >= 3);
	for (size_t i = 0; i < c.n; i++) {
		assert_string_not_equal(c.items[i].name, "");
		assert_string_not_equal(c.items[i].words, "");
		if (c.items[i].state == SPOT_CHECK_BAD) {
			fail_msg("%s: %s; %s", c.items[i].name, c.items[i].words, c.items[i].fix);
		}
	}
	assert_int_equal(live_count(v), 0); /* nothing was made for it */
}

/* As src/agent does it, in the small: one piece. */
static void object_upload(struct live *v, struct spot_presign p, const char *body)
{
	struct spot_http_request out;
	struct http_req req;
	const char *url = p.url;

	if (p.upload == SPOT_UPLOAD_RESUMABLE) {
		p.method = "POST";
		live_send(v, &p, "", &out, &req);
		if (req.in.status < 200 || req.in.status > 201) {
			fail_msg("%d %s", req.in.status, req.in.body.p);
		}
		p.url = spot_http_header(&req.in, "location");
		assert_non_null(p.url);
		p.method = "PUT";
		p.headers_n = 0;
	} else if (p.upload == SPOT_UPLOAD_BLOCKS) {
		p.url = arena_printf(v->arena, "%s&comp=block&blockid=MDAwMA%%3D%%3D", url);
		live_send(v, &p, body, &out, &req);
		assert_int_equal(req.in.status, 201);
		p.url = arena_printf(v->arena, "%s&comp=blocklist", url);
		body = "<?xml version=\"1.0\" "
		       "encoding=\"utf-8\"?><BlockList><Latest>MDAwMA==</Latest></BlockList>";
	}
	live_send(v, &p, body, &out, &req);
	if (req.in.status < 200 || req.in.status > 201) {
		fail_msg("%d %s", req.in.status, req.in.body.p);
	}
}

static void an_object_goes_there_and_back(struct live *v)
{
	struct spot_presign put = { .method = "PUT",
		.bucket = v->cloud->bucket,
		.key = "a b/c+d",
		.query = "",
		.endpoint = v->cloud->objects != NULL ? live_text(v, v->cloud->objects) : "",
		.region = v->cloud->region,
		.expires_s = 600 };
	struct spot_presign get = put;
	struct spot_err err = { 0 };
	struct spot_http_request out = { 0 };
	struct http_req req = { 0 };

	if (v->ops.presign == NULL || v->cloud->bucket == NULL) {
		return;
	}
	get.method = "GET";
	if (v->ops.presign(call_provider_self(v->p), v->arena, loop_wall_us(v->loop), &get, &err) !=
	    SPOT_OK) {
		fail_msg("%s", err.text);
	}
	assert_int_equal(v->ops.presign(call_provider_self(v->p), v->arena, loop_wall_us(v->loop),
			     &put, &err),
	    SPOT_OK);
	object_upload(v, put, "hello");
	live_send(v, &get, "", &out, &req);
	assert_int_equal(req.in.status, 200);
	assert_string_equal(req.in.body.p, "hello");
	get.url = arena_printf(v->arena, "%s0", get.url); /* the signature is looked at */
	live_send(v, &get, "", &out, &req);
	assert_in_range(req.in.status, 400, 403);
}

/* The books of the cloud, not ours. Every case before this one ended its machines. */
static void the_clouds_own_books_know_of_nothing_left(struct live *v)
{
	AUTO(json) json_t *books = live_control(v, "/books", NULL);
	const json_t *left = json_object_get(books, "left");
	const json_t *twice = json_object_get(books, "double_launches");

	assert_non_null(left);
	assert_true(v->cloud->fixed || json_array_size(json_object_get(books, "instances")) > 5);
	if (json_array_size(left) != 0) {
		fail_msg("left: %s", json_dumps(left, JSON_COMPACT));
	}
	if (v->ops.token_scope != SPOT_TOKEN_NONE && json_array_size(twice) != 0) {
		fail_msg("launched twice: %s", json_dumps(twice, JSON_COMPACT));
	}
}

static void no_secret_was_ever_logged(struct live *v)
{
	live_log_check(v);
}

#define CASE(fn) \
	{ \
		#fn, fn \
	}
const struct live_case live_cases[] = {
	CASE(an_instance_lives_and_ends),
	CASE(other_peoples_machines_are_not_listed),
	CASE(a_launch_repeated_is_the_same_machine),
	CASE(a_sold_out_pool_says_so),
	CASE(a_full_quota_says_so),
	CASE(a_reclaimed_machine_is_known_as_taken),
	CASE(ending_what_never_was_succeeds),
	CASE(a_list_that_lags_hides_nothing_for_ever),
	CASE(a_gang_is_all_or_nothing),
	CASE(a_set_has_as_many_as_were_asked_for),
	CASE(a_set_is_as_many_as_there_are),
	CASE(a_set_of_a_sold_out_pool_says_so),
	CASE(a_set_whose_reply_is_lost_comes_once),
	CASE(a_check_finds_everything_in_order),
	CASE(an_object_goes_there_and_back),
	CASE(the_clouds_own_books_know_of_nothing_left),
	CASE(no_secret_was_ever_logged),
	{ NULL, NULL },
};
