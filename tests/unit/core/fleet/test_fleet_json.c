/* The JSON of a fleet's plan: its figures, one row for each pool, and the limits that bind. And the
 * budget of moves, from the file to the row and back. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/fleet/fleet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <jansson.h>

#include "../../json_read.h"

static double real_of(const json_t *j, const char *name)
{
	return json_number_value(json_object_get(j, name));
}

static struct offer l4_offer(int32_t id, enum spot_market m, int64_t micros)
{
	return (struct offer){ .pool_id = id,
		.provider = "aws",
		.region = "us-east-1",
		.zone = "a",
		.instance_type = "g6.xlarge",
		.gpu_name = "L4",
		.gpu_milli = 1000,
		.market = m,
		.price_micros = micros };
}

static const json_t *plan_row(const json_t *plan, size_t i)
{
	return json_array_get(json_object_get(plan, "pool_list"), i);
}

static void a_pool_has_one_row_with_what_is_held_and_added(void **state UNUSED)
{
	struct offer o[2] = { l4_offer(7, SPOT_MARKET_SPOT, 300000),
		l4_offer(8, SPOT_MARKET_ON_DEMAND, 800000) };
	struct score s[2] = {
		{ .offer = &o[0], .total_micros = 350000, .egress_micros = 40000, .hazard = 0.125 },
		{ .offer = &o[1], .total_micros = 810000 }
	};
	struct fleet_have have = { .pool_id = 7, .nodes = 2, .offer = &o[0] };
	struct fleet_pick picks[2] = { { &s[0], 3, 360000 }, { &s[1], 1, 820000 } };
	struct fleet_spec spec = { .nodes = 6 };
	struct fleet_ask ask = { .spec = &spec, .have = &have, .have_n = 1 };
	struct fleet_plan p = { .picks = picks, .n = 2, .why = "" };
	json_t *j = fleet_plan_json(&ask, &p);

	assert_int_equal(json_array_size(json_object_get(j, "pool_list")), 2);
	assert_string_equal(text_read(plan_row(j, 0), "pool"), "p7");
	assert_string_equal(text_read(plan_row(j, 0), "provider"), "aws");
	assert_string_equal(text_read(plan_row(j, 0), "region"), "us-east-1");
	assert_string_equal(text_read(plan_row(j, 0), "zone"), "a");
	assert_string_equal(text_read(plan_row(j, 0), "instance_type"), "g6.xlarge");
	assert_string_equal(text_read(plan_row(j, 0), "market"), "spot");
	assert_string_equal(text_read(plan_row(j, 0), "gpu"), "L4");
	assert_int_equal(int_read(plan_row(j, 0), "held"), 2);
	assert_int_equal(int_read(plan_row(j, 0), "add"), 3);
	assert_int_equal(int_read(plan_row(j, 0), "give_back"), 0);
	assert_int_equal(int_read(plan_row(j, 0), "price_micros"), 300000);
	assert_int_equal(int_read(plan_row(j, 0), "work_micros"), 350000);
	assert_int_equal(int_read(plan_row(j, 0), "egress_micros"), 40000);
	assert_int_equal(int_read(plan_row(j, 0), "marginal_micros"), 360000);
	assert_true(real_of(plan_row(j, 0), "reclaims_per_hour") == 0.125);
	assert_string_equal(text_read(plan_row(j, 1), "pool"), "p8");
	assert_string_equal(text_read(plan_row(j, 1), "market"), "on_demand");
	assert_int_equal(int_read(plan_row(j, 1), "held"), 0);
	assert_int_equal(int_read(plan_row(j, 1), "add"), 1);
	json_decref(j);
}

/* Of a pool that is held and of which nothing more is known, its own row tells. */
static void a_pool_that_only_gives_back_is_shown_too(void **state UNUSED)
{
	struct offer o = l4_offer(9, SPOT_MARKET_SPOT, 500000);
	struct score s = { .offer = &o, .total_micros = 510000, .hazard = 0.5 };
	struct fleet_have have[2] = { { .pool_id = 3,
					  .provider = "gcp",
					  .region = "us-central1",
					  .zone = "b",
					  .market = SPOT_MARKET_ON_DEMAND,
					  .nodes = 4,
					  .price_micros = 900000 },
		{ .pool_id = 9, .nodes = 1, .score = &s } };
	struct fleet_give gives[3] = { { 3, 1, 10 }, { 9, 1, 10 }, { 3, 2, 10 } };
	struct fleet_spec spec = { .nodes = 1 };
	struct fleet_ask ask = { .spec = &spec, .have = have, .have_n = 2 };
	struct fleet_plan p = { .gives = gives, .gives_n = 3, .surplus = 4, .why = "" };
	json_t *j = fleet_plan_json(&ask, &p);

	assert_int_equal(json_array_size(json_object_get(j, "pool_list")), 2);
	assert_string_equal(text_read(plan_row(j, 0), "pool"), "p3");
	assert_string_equal(text_read(plan_row(j, 0), "provider"), "gcp");
	assert_string_equal(text_read(plan_row(j, 0), "region"), "us-central1");
	assert_string_equal(text_read(plan_row(j, 0), "zone"), "b");
	assert_string_equal(text_read(plan_row(j, 0), "market"), "on_demand");
	assert_string_equal(text_read(plan_row(j, 0), "instance_type"), "");
	assert_string_equal(text_read(plan_row(j, 0), "gpu"), "");
	assert_int_equal(int_read(plan_row(j, 0), "price_micros"), 900000);
	assert_int_equal(int_read(plan_row(j, 0), "give_back"), 3);
	assert_true(json_is_null(json_object_get(plan_row(j, 0), "work_micros")));
	assert_true(json_is_null(json_object_get(plan_row(j, 0), "egress_micros")));
	assert_true(json_is_null(json_object_get(plan_row(j, 0), "reclaims_per_hour")));
	assert_true(json_is_null(json_object_get(plan_row(j, 0), "marginal_micros")));
	assert_int_equal(int_read(plan_row(j, 1), "give_back"), 1);
	assert_int_equal(int_read(plan_row(j, 1), "work_micros"), 510000);
	assert_true(json_is_null(json_object_get(plan_row(j, 1), "marginal_micros")));
	json_decref(j);
}

static void sums_and_the_unit_follow_from_the_file(void **state UNUSED)
{
	struct fleet_spec spec = { .gpus = 16, .gpus_of = "H100", .floor_pm = 200, .risk = 4 };
	struct fleet_ask ask = { .spec = &spec };
	struct fleet_plan p = { .want = 16,
		.have = 2.5,
		.missing = 1,
		.floor_want = 3200,
		.floor_have = 1500,
		.cost_micros = 70,
		.risk_micros = 5,
		.bound_micros = 72,
		.gap = 0.04,
		.pools = 2,
		.pools_want = 5,
		.hourly_micros = 80,
		.steps = 12,
		.usable = 9,
		.why = "because" };
	json_t *j = fleet_plan_json(&ask, &p);

	assert_string_equal(text_read(j, "unit"), "gpus");
	assert_string_equal(text_read(j, "gpus_of"), "H100");
	assert_true(real_of(j, "want") == 16 && real_of(j, "have") == 2.5);
	/* Of a share the thousandths are of a GPU. */
	assert_true(real_of(j, "floor_want") == 3.2 && real_of(j, "floor_have") == 1.5);
	assert_int_equal(int_read(j, "total_micros"), 75);
	assert_int_equal(int_read(j, "bound_micros"), 72);
	assert_int_equal(int_read(j, "missing"), 1);
	assert_int_equal(int_read(j, "pools_want"), 5);
	assert_int_equal(int_read(j, "pools_usable"), 9);
	assert_int_equal(int_read(j, "steps"), 12);
	assert_true(json_is_false(json_object_get(j, "proved")));
	assert_string_equal(text_read(j, "why"), "because");
	json_decref(j);
	spec = (struct fleet_spec){ .nodes = 3 };
	p.floor_want = 2;
	p.proved = true;
	j = fleet_plan_json(&ask, &p);
	assert_string_equal(text_read(j, "unit"), "nodes");
	assert_string_equal(text_read(j, "gpus_of"), "");
	assert_true(real_of(j, "floor_want") == 2);
	assert_true(json_is_true(json_object_get(j, "proved")));
	json_decref(j);
}

/* The size is shown in the unit that the fleet counts in. */
static void what_each_gpu_is_worth_is_told_where_work_is_counted(void **state UNUSED)
{
	struct offer o[2] = { l4_offer(7, SPOT_MARKET_SPOT, 300000),
		l4_offer(8, SPOT_MARKET_SPOT, 300000) };
	struct score s = { .offer = &o[0] };
	struct fleet_have have = { .pool_id = 8, .nodes = 2, .offer = &o[1] };
	struct fleet_pick pick = { &s, 1, 1 };
	struct fleet_spec spec = { .gpus = 16, .gpus_of = "H100" };
	struct fleet_ask ask = { .spec = &spec, .have = &have, .have_n = 1 };
	struct fleet_plan p = { .picks = &pick, .n = 1, .why = "" };
	json_t *j, *worth;

	o[1].gpu_name = "H100-80GB-SXM";
	j = fleet_plan_json(&ask, &p);
	worth = json_object_get(j, "gpu_worth");
	assert_int_equal(json_object_size(worth), 2);
	assert_true(real_of(worth, "H100-80GB-SXM") == 1);
	assert_true(real_of(worth, "L4") > 0 && real_of(worth, "L4") < 0.5);
	json_decref(j);
	spec.gpus_of = "";
	j = fleet_plan_json(&ask, &p);
	assert_null(json_object_get(j, "gpu_worth"));
	json_decref(j);
}

static void a_limit_that_binds_is_named_and_only_twenty_are_shown(void **state UNUSED)
{
	struct fleet_binding b[30] = { { .limit = FLEET_QUOTA,
	    .where = "aws us-east-1 spot G",
	    .max = 64,
	    .used = 60,
	    .unit = "vcpu",
	    .pools = 3,
	    .worth_micros = 1500 } };
	struct fleet_spec spec = { .nodes = 1 };
	struct fleet_ask ask = { .spec = &spec };
	struct fleet_plan p = { .bindings = b, .bindings_n = ARRAY_LEN(b), .why = "" };
	const json_t *first;
	json_t *j;

	for (size_t i = 1; i < ARRAY_LEN(b); i++) {
		b[i] = (struct fleet_binding){ FLEET_PER_ZONE, "a", 1, 1, "nodes", 1, 0 };
	}
	j = fleet_plan_json(&ask, &p);
	assert_int_equal(json_array_size(json_object_get(j, "limits")), 20);
	first = json_array_get(json_object_get(j, "limits"), 0);
	assert_string_equal(text_read(first, "limit"), fleet_limit_name(FLEET_QUOTA));
	assert_string_equal(text_read(first, "where"), "aws us-east-1 spot G");
	assert_string_equal(text_read(first, "unit"), "vcpu");
	assert_int_equal(int_read(first, "max"), 64);
	assert_int_equal(int_read(first, "used"), 60);
	assert_int_equal(int_read(first, "pools_kept_out"), 3);
	assert_int_equal(int_read(first, "worth_micros"), 1500);
	json_decref(j);
}

static void at_most_five_hundred_pools_are_shown(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct fleet_have *have = arena_array(a, 600, sizeof(*have));
	struct offer o = l4_offer(1000, SPOT_MARKET_SPOT, 1);
	struct score s = { .offer = &o };
	struct fleet_pick pick = { &s, 1, 1 };
	struct fleet_spec spec = { .nodes = 601 };
	struct fleet_ask ask = { .spec = &spec, .have = have, .have_n = 600 };
	struct fleet_plan p = { .picks = &pick, .n = 1, .why = "" };
	json_t *j;

	for (int32_t i = 0; i < 600; i++) {
		have[i] = (struct fleet_have){ .pool_id = i,
			.provider = "aws",
			.region = "r",
			.zone = "z",
			.market = SPOT_MARKET_SPOT,
			.nodes = 1 };
	}
	j = fleet_plan_json(&ask, &p);
	assert_int_equal(json_array_size(json_object_get(j, "pool_list")), 500);
	assert_string_equal(text_read(plan_row(j, 0), "pool"), "p1000");
	assert_string_equal(text_read(plan_row(j, 499), "pool"), "p498");
	json_decref(j);
}

static struct fleet_spec *parsed(struct arena *a, const char *rebalance, struct spot_err *err)
{
	struct fleet_spec *f = NULL;
	const char *name;
	char *text = arena_printf(a,
	    "{name: f, nodes: 2, resources: {accelerators: A100}, rebalance: %s}", rebalance);

	return fleet_spec_parse(a, str_from(text), &f, &name, err) == SPOT_OK ? f : NULL;
}

static void the_file_states_the_budget(void **state)
{
	static const struct {
		const char *text, *error;
	} bad[] = { { "{at_once: 0}", "at_once" }, { "{per_zone: x}", "per_zone" },
		{ "{per_hour: 1001}", "per_hour" }, { "{hours: 24}", "hours from 0 to 23" },
		{ "{hour: 3}", "hour" }, { "{enabled: maybe}", "enabled" } };
	AUTO(arena) struct arena *a = arena_new(0);
	struct spot_err err = { 0 };
	struct fleet_spec *f = parsed(a,
			      "{enabled: false, at_once: 2, per_zone: 3, per_hour: 9, hours: "
			      "'0-6,22'}",
			      &err),
			  *again;
	AUTO(json) json_t *j = NULL;

	(void)state;
	assert_non_null(f);
	j = fleet_spec_to_json(f);
	assert_int_equal(fleet_spec_from_json(a, j, &again, &err), SPOT_OK);
	assert_true(again->rebalance.off);
	assert_int_equal(again->rebalance.at_once, 2);
	assert_int_equal(again->rebalance.per_zone, 3);
	assert_int_equal(again->rebalance.per_hour, 9);
	assert_int_equal(again->rebalance.hours, 0x40007f);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		err = (struct spot_err){ 0 };
		assert_null(parsed(a, bad[i].text, &err));
		assert_non_null(strstr(err.text, bad[i].error));
	}
	f = parsed(a, "{}", &err);
	assert_int_equal(fleet_rebalance_of(f).at_once, 1);
	assert_int_equal(fleet_rebalance_of(f).per_hour, 4);
	assert_int_equal(fleet_rebalance_of(f).hours, 0xffffff);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pool_has_one_row_with_what_is_held_and_added),
		cmocka_unit_test(a_pool_that_only_gives_back_is_shown_too),
		cmocka_unit_test(sums_and_the_unit_follow_from_the_file),
		cmocka_unit_test(what_each_gpu_is_worth_is_told_where_work_is_counted),
		cmocka_unit_test(a_limit_that_binds_is_named_and_only_twenty_are_shown),
		cmocka_unit_test(at_most_five_hundred_pools_are_shown),
		cmocka_unit_test(the_file_states_the_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
