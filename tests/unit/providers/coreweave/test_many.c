#include "base/base.h"
#include "cases.h"

#include "base/text/text.h"

/* As many machines in one cluster as the engine asks about at once: a call's memory does not grow
 * with their square. */

#define MANY 5000
#define VANISHED 10 /* the last ones: no Pod */
#define LOST 7 /* its node does not exist */
#define ROOM ((size_t)64 << 20)

static const char *pod_name(struct arena *a, size_t i)
{
	return arena_printf(a, "brk." CW_INSTALL ".n%zu.1767323045", i);
}

static const char *pod_uid(struct arena *a, size_t i)
{
	return arena_printf(a, "5f0c6d2e-0001-4000-8000-%012zu", i);
}

static const char *pod_json(struct arena *a, size_t i)
{
	return arena_printf(a,
	    "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"%s\",\"uid\":\"%s\","
	    "\"resourceVersion\":\"7\","
	    "\"labels\":{\"spotbroker.io/install\":\"" CW_INSTALL
	    "\",\"spotbroker.io/market\":\"spot\",\"spotbroker.io/pool\":\"" CW_POOL "\"},"
	    "\"annotations\":{\"spotbroker.io/instance-type\":\"gd-8xh100ib-i128\"}},"
	    "\"spec\":{\"nodeName\":\"g%zu\"},\"status\":{\"phase\":\"Running\"}}",
	    pod_name(a, i), pod_uid(a, i), i);
}

static const char *node_json(struct arena *a, size_t i)
{
	return arena_printf(a,
	    "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"g%zu\"}}",
	    i == LOST ? MANY : i);
}

/* n objects in pages of size, by the API's own tokens. */
static size_t pages_make(struct arena *a, struct drive_try *t, const char *kind, size_t n,
    size_t size, const char *(*item)(struct arena *, size_t))
{
	size_t count = 0;

	for (size_t at = 0; at < n; at += size) {
		struct sbuf b;

		sbuf_init(&b, (size_t)32 << 20);
		sbuf_printf(&b,
		    "{\"kind\":\"%s\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":"
		    "\"9\"",
		    kind);
		if (at + size < n) {
			sbuf_printf(&b, ",\"continue\":\"t%zu\"", at + size);
		}
		sbuf_puts(&b, "},\"items\":[");
		/* The other way round: that they are in order is for nobody to believe. */
		for (size_t i = MIN(at + size, n); i-- > at;) {
			sbuf_printf(&b, "%s%s", item(a, i), i > at ? "," : "");
		}
		sbuf_puts(&b, "]}");
		t[count++] = (struct drive_try){ .method = "GET",
			.status = 200,
			.reply = arena_strdup(a, b.p) };
		sbuf_fini(&b);
	}
	return count;
}

static size_t script_make(struct arena *a, struct drive_try *t)
{
	size_t n = 0;

	t[n++] = (struct drive_try){ .status = 200,
		.reply = CW_LIST("NodePoolList", CW_NODEPOOL(5000, 5000, "")) };
	n += pages_make(a, &t[n], "PodList", MANY - VANISHED, 500, pod_json);
	n += pages_make(a, &t[n], "NodeList", MANY - VANISHED, 250, node_json);
	return n;
}

static void all_are_described_within_what_a_call_may_take(void **state)
{
	struct drive *d = *state;
	struct drive_try t[64];
	const char **refs = arena_array(d->arena, MANY, sizeof(*refs));
	struct spot_describe a = { .region = "US-EAST", .refs = refs, .refs_n = MANY };
	size_t n = script_make(d->arena, t), before, count[SPOT_INSTANCE_ODD + 1] = { 0 };

	for (size_t i = 0; i < MANY; i++) {
		refs[i] = arena_printf(d->arena, "main/%s/%s", pod_name(d->arena, i),
		    pod_uid(d->arena, i));
	}
	t[n++] = (struct drive_try){ .method = "PATCH",
		.has = { "\"targetNodes\":4990" },
		.status = 200,
		.reply = CW_NODEPOOL(4990, 5000, "") };
	drive_script(d, t, n);
	before = arena_used(d->arena);
	assert_int_equal(drive_run(d, DRIVE_DESCRIBE, &a), SPOT_DONE);
	drive_used(d);
	assert_true(arena_used(d->arena) - before < ROOM);
	assert_int_equal(a.n, MANY);
	for (size_t i = 0; i < a.n; i++) {
		count[a.found[i].state]++;
		if (a.found[i].state == SPOT_INSTANCE_INTERRUPTED) {
			assert_string_equal(a.found[i].ref, refs[LOST]);
		}
	}
	assert_int_equal(count[SPOT_INSTANCE_RUNNING], MANY - VANISHED - 1);
	assert_int_equal(count[SPOT_INSTANCE_INTERRUPTED], 1);
	assert_int_equal(count[SPOT_INSTANCE_GONE], VANISHED);
	for (size_t i = 0; i < VANISHED; i++) { /* found first, in the order of the question */
		assert_string_equal(a.found[i].ref, refs[MANY - VANISHED + i]);
	}
}

static void only_requested_instances_are_reported(void **state)
{
	struct drive *d = *state;
	struct drive_try t[64];
	const char *refs[] = { arena_printf(d->arena, "main/%s/%s", pod_name(d->arena, 4000),
				   pod_uid(d->arena, 4000)),
		/* a namesake */
		arena_printf(d->arena, "main/%s/%s", pod_name(d->arena, 4001),
		    pod_uid(d->arena, 9)),
		arena_printf(d->arena, "main/%s/%s", pod_name(d->arena, 4000),
		    pod_uid(d->arena, 4000)) };
	static const struct spot_pool_key elsewhere[3] = { { "coreweave", "", "", "gd-8xl40",
							       SPOT_MARKET_SPOT },
		{ "coreweave", "", "", "gd-8xl40", SPOT_MARKET_SPOT },
		{ "coreweave", "", "", "gd-8xl40", SPOT_MARKET_SPOT } };
	struct spot_describe a = { .region = "US-EAST",
		.refs = refs,
		.refs_n = ARRAY_LEN(refs),
		.keys = elsewhere };
	size_t n = script_make(d->arena, t);

	t[n++] = (struct drive_try){ .method = "PATCH",
		.has = { "\"targetNodes\":4990" },
		.status = 409,
		.reply = "{}" };
	drive_script(d, t, n);
	assert_int_equal(drive_run(d, DRIVE_DESCRIBE, &a), SPOT_DONE);
	drive_used(d);
	assert_int_equal(a.n, 1);
	assert_string_equal(a.found[0].ref, refs[0]);
}

static void notices_are_for_those_asked_for(void **state)
{
	struct drive *d = *state;
	struct drive_try t[64];
	struct spot_instance *list = arena_array(d->arena, MANY, sizeof(*list));
	struct spot_notices a = { .region = "US-EAST", .instances = list, .instances_n = MANY };
	size_t n = script_make(d->arena, t), before;

	for (size_t i = 0; i < MANY; i++) {
		list[i].ref = arena_printf(d->arena, "main/%s/%s", pod_name(d->arena, i),
		    pod_uid(d->arena, i));
	}
	t[n - 1].reply = "{\"kind\":\"NodeList\",\"metadata\":{},\"items\":[{\"metadata\":{"
			 "\"name\":\"g4900\"},\"spec\":{\"unschedulable\":true}}]}";
	drive_script(d, t, n);
	before = arena_used(d->arena);
	assert_int_equal(drive_run(d, DRIVE_NOTICES, &a), SPOT_DONE);
	drive_used(d);
	assert_true(arena_used(d->arena) - before < ROOM);
	assert_int_equal(a.n, 1);
	assert_string_equal(a.notices[0].ref, list[4900].ref);
	assert_int_equal(a.notices[0].kind, SPOT_NOTICE_REBALANCE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_are_described_within_what_a_call_may_take,
		    cw_setup, cw_teardown),
		cmocka_unit_test_setup_teardown(only_requested_instances_are_reported, cw_setup,
		    cw_teardown),
		cmocka_unit_test_setup_teardown(notices_are_for_those_asked_for, cw_setup,
		    cw_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
