/* Fleets: limits hold in every random case, and nothing usable is left while something is missing. */
#include "base/base.h"
#include "base/arena.h"
#include "base/rng.h"
#include "core/fleet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static struct str text(const char *s)
{
	return (struct str){s, strlen(s)};
}

static void five_pools_are_used_where_they_exist(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct offer o[8];
	struct score s[8] = {0};
	struct fleet_spec f = {.nodes = 10, .pools_min = 5};
	struct fleet_plan plan;

	(void)state;
	for (int i = 0; i < 8; i++) {
		o[i] = (struct offer){.pool_id = i, .provider = "aws", .region = "r", .zone = "z", .gpu_milli = 1000,
			.market = SPOT_MARKET_SPOT};
		s[i] = (struct score){.offer = &o[i], .total_micros = 100 + i};
	}
	fleet_allocate(a, &f, NULL, 0, s, 8, &plan);
	assert_int_equal(plan.n, 5);
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(plan.picks[i].nodes, 2);
		assert_int_equal(plan.picks[i].score->offer->pool_id, i);
	}
	fleet_allocate(a, &f, NULL, 0, s, 2, &plan);
	assert_int_equal(plan.n, 2);
	assert_int_equal(plan.missing, 0);
}

static int32_t count(const struct fleet_plan *p, int zone, int pool, enum spot_market m)
{
	int32_t n = 0;

	for (size_t i = 0; i < p->n; i++) {
		const struct offer *o = p->picks[i].score->offer;

		if ((zone < 0 || o->zone[0] == 'a' + zone) && (pool < 0 || o->pool_id == pool) &&
		    (m == SPOT_MARKET_NONE || o->market == m)) {
			n += p->picks[i].nodes;
		}
	}
	return n;
}

static void nodes_that_do_not_divide_still_use_five_pools(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct offer o[8];
	struct score s[8] = {0};
	struct fleet_spec f = {.nodes = 8, .pools_min = 5, .per_pool_max = 2, .on_demand_floor = 2};
	struct fleet_have have = {.pool_id = 0, .zone = "z", .region = "r", .provider = "aws", .market = SPOT_MARKET_SPOT,
		.gpu_milli = 1000, .nodes = 2};
	struct fleet_plan plan;

	(void)state;
	for (int i = 0; i < 8; i++) {
		o[i] = (struct offer){.pool_id = i, .provider = "aws", .region = "r", .zone = "z", .gpu_milli = 1000,
			.market = i < 6 ? SPOT_MARKET_SPOT : SPOT_MARKET_ON_DEMAND};
		s[i] = (struct score){.offer = &o[i], .total_micros = 100 + i};
	}
	fleet_allocate(a, &f, NULL, 0, s, 8, &plan);
	assert_true(plan.n >= 5);
	assert_int_equal(plan.missing, 0);
	assert_int_equal(count(&plan, -1, -1, SPOT_MARKET_NONE), 8);
	assert_int_equal(count(&plan, -1, -1, SPOT_MARKET_ON_DEMAND), 2);
	/* What it already has is not a new pool. */
	fleet_allocate(a, &f, &have, 1, s, 8, &plan);
	assert_true(plan.n >= 4);
	assert_int_equal(count(&plan, -1, 0, SPOT_MARKET_NONE), 0);
	/* One node wants one pool, not five. */
	f.nodes = 1;
	f.on_demand_floor = 0;
	fleet_allocate(a, &f, NULL, 0, s, 8, &plan);
	assert_int_equal(plan.n, 1);
	assert_int_equal(plan.picks[0].score->offer->pool_id, 0);
}

static void limits_hold_in_random_cases(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	static const char *const zones[] = {"a", "b", "c", "d"};
	struct rng r;

	(void)state;
	rng_seeded_init(&r, 5);
	for (int i = 0; i < 10000; i++) {
		struct offer o[12];
		struct score s[12] = {0};
		size_t n = rng_below(&r, 12) + 1;
		struct fleet_spec f = {.nodes = (int32_t)rng_below(&r, 30), .pools_min = 5,
			.per_pool_max = (int32_t)rng_below(&r, 4), .per_zone_max = (int32_t)rng_below(&r, 8),
			.per_provider_max = (int32_t)rng_below(&r, 25), .on_demand_floor = (int32_t)rng_below(&r, 4)};
		struct fleet_plan plan;
		int32_t sum, od = 0;

		for (size_t k = 0; k < n; k++) {
			o[k] = (struct offer){.pool_id = (int32_t)k, .provider = "aws", .region = "r", .zone = zones[rng_below(&r, 4)],
				.gpu_milli = 1000, .market = rng_below(&r, 3) ? SPOT_MARKET_SPOT : SPOT_MARKET_ON_DEMAND};
			s[k] = (struct score){.offer = &o[k], .total_micros = (int64_t)(100 + k)};
			od += o[k].market == SPOT_MARKET_ON_DEMAND;
		}
		fleet_allocate(a, &f, NULL, 0, s, n, &plan);
		sum = count(&plan, -1, -1, SPOT_MARKET_NONE);
		assert_true(sum + plan.missing == MAX(f.nodes, sum));
		assert_true(sum <= MAX(f.nodes, f.on_demand_floor));
		for (int z = 0; z < 4; z++) {
			assert_true(f.per_zone_max == 0 || count(&plan, z, -1, SPOT_MARKET_NONE) <= f.per_zone_max);
		}
		for (int k = 0; k < 12; k++) {
			assert_true(f.per_pool_max == 0 || count(&plan, -1, k, SPOT_MARKET_NONE) <= f.per_pool_max);
		}
		assert_true(f.per_provider_max == 0 || sum <= f.per_provider_max);
		if (plan.missing == 0 && od > 0 && f.per_pool_max == 0 && f.per_zone_max == 0 && f.per_provider_max == 0) {
			assert_true(count(&plan, -1, -1, SPOT_MARKET_ON_DEMAND) >= f.on_demand_floor);
		}
		arena_reset(a);
	}
}

static void what_it_has_counts_and_too_much_is_surplus(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct fleet_have have = {.pool_id = 1, .zone = "z", .region = "r", .provider = "aws", .market = SPOT_MARKET_SPOT,
		.gpu_milli = 8000, .nodes = 4};
	struct fleet_spec f = {.nodes = 3, .pools_min = 5};
	struct fleet_plan plan;

	(void)state;
	fleet_allocate(a, &f, &have, 1, NULL, 0, &plan);
	assert_int_equal(plan.surplus, 1);
	assert_int_equal(plan.missing, 0);
	f = (struct fleet_spec){.gpus = 40, .pools_min = 5};
	fleet_allocate(a, &f, &have, 1, NULL, 0, &plan);
	assert_int_equal(plan.missing, 8);
	f.gpus = 16;
	fleet_allocate(a, &f, &have, 1, NULL, 0, &plan);
	assert_int_equal(plan.surplus, 2);
}

static void a_fleet_file_is_read_strictly(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct fleet_spec *f, *g;
	const char *name;
	struct spot_err err = {0};

	(void)state;
	assert_int_equal(fleet_spec_parse(a, text("name: f\ngpus: 16\nresources:\n  accelerators: {A10G: 1, L4: 1}\n"
	    "limits: {per_zone: 4}\non_demand_floor: 1\n"), &f, &name, &err), SPOT_OK);
	assert_string_equal(name, "f");
	assert_int_equal(f->gpus, 16);
	assert_int_equal(f->asks[0].gpus_n, 2);
	assert_int_equal(f->per_zone_max, 4);
	assert_int_equal(f->pools_min, 5);
	json_t *j = fleet_spec_to_json(f);

	assert_int_equal(fleet_spec_from_json(a, j, &g, &err), SPOT_OK);
	json_decref(j);
	assert_int_equal(g->gpus, 16);
	assert_string_equal(g->asks[0].gpus[1].gpu, "L4");
	assert_int_equal(fleet_spec_parse(a, text("name: f\nnodes: 1\ngpus: 1\n"), &f, &name, &err), SPOT_INVALID);
	assert_int_equal(fleet_spec_parse(a, text("name: f\nnodes: 1\nlimits: {per_rack: 1}\n"), &f, &name, &err), SPOT_INVALID);
	assert_non_null(strstr(err.text, "line 3"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(five_pools_are_used_where_they_exist),
		cmocka_unit_test(nodes_that_do_not_divide_still_use_five_pools),
		cmocka_unit_test(limits_hold_in_random_cases),
		cmocka_unit_test(what_it_has_counts_and_too_much_is_surplus),
		cmocka_unit_test(a_fleet_file_is_read_strictly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
