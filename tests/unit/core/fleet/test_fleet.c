/* Fleets by hand: files, and plans small enough to be checked on paper. Random ones are in
 * test_fleet_plan.c. */
#include "base/base.h"
#include "core/fleet/fleet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static struct str text_str(const char *s)
{
	return (struct str){ s, strlen(s) };
}

struct world {
	struct offer o[8];
	struct score s[8];
	struct fleet_ask ask;
};

/* Pools of one node size, each a bit dearer than the one before. */
static void world_make(struct world *w, const struct fleet_spec *f, int n, int spot)
{
	*w = (struct world){ .ask = { .spec = f, .scores = w->s, .scores_n = (size_t)n } };
	for (int i = 0; i < n; i++) {
		w->o[i] = (struct offer){ .pool_id = i,
			.provider = "aws",
			.region = "r",
			.zone = "z",
			.gpu_milli = 1000,
			.gpu_name = "L4",
			.market = i < spot ? SPOT_MARKET_SPOT : SPOT_MARKET_ON_DEMAND,
			.price_micros = 1000000 + i * 10000 };
		w->s[i] = (struct score){ .offer = &w->o[i],
			.total_micros = 1000000 + i * 10000,
			.work_h = 1,
			.throughput = 1 };
	}
}

static int32_t nodes_in(const struct fleet_plan *p, int32_t pool)
{
	int32_t n = 0;

	for (size_t i = 0; i < p->n; i++) {
		n += p->picks[i].score->offer->pool_id == pool ? p->picks[i].nodes : 0;
	}
	return n;
}

static int32_t on_demand(const struct fleet_plan *p)
{
	int32_t n = 0;

	for (size_t i = 0; i < p->n; i++) {
		n += p->picks[i].score->offer->market != SPOT_MARKET_SPOT ? p->picks[i].nodes : 0;
	}
	return n;
}

static void five_pools_are_used_where_they_exist(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct fleet_spec f = { .nodes = 10, .pools_min = 5 };
	struct fleet_plan plan;
	struct world w;

	(void)state;
	world_make(&w, &f, 8, 8);
	fleet_plan_make(a, &w.ask, &plan);
	assert_int_equal(plan.n, 5);
	/* Without risk the rest is where it is cheapest. */
	assert_int_equal(nodes_in(&plan, 0), 6);
	w.ask.scores_n = 2;
	fleet_plan_make(a, &w.ask, &plan);
	assert_int_equal(plan.n, 2);
	assert_int_equal(plan.missing, 0);
	assert_non_null(strstr(plan.why, "2 pools of 5"));
	/* One node wants one pool, not five. */
	f.nodes = 1;
	fleet_plan_make(a, &w.ask, &plan);
	assert_int_equal(plan.n, 1);
	assert_int_equal(nodes_in(&plan, 0), 1);
}

/* Two spot pools for six nodes, with pools_min 5. On-demand pools are not added for the count. They
 * hold the floor, and the nodes that no spot pool takes. */
static void on_demand_pools_do_not_count_for_pools_min(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct fleet_spec f = { .nodes = 6, .pools_min = 5 };
	struct fleet_plan plan;
	struct world w;

	(void)state;
	world_make(&w, &f, 6, 2);
	fleet_plan_make(a, &w.ask, &plan);
	assert_int_equal(on_demand(&plan), 0);
	assert_int_equal(plan.n, 2);
	assert_non_null(strstr(plan.why, "2 pools of 5"));
	f.on_demand_floor = 2;
	fleet_plan_make(a, &w.ask, &plan);
	assert_int_equal(on_demand(&plan), 2);
	assert_int_equal(plan.pools, 2);
	/* The floor is one of the five. */
	assert_int_equal(plan.pools_want, 4);
	f.on_demand_floor = 4;
	fleet_plan_make(a, &w.ask, &plan);
	assert_int_equal(plan.pools_want, 2);
	f.on_demand_floor = 0;
	f.per_pool_max = 2;
	fleet_plan_make(a, &w.ask, &plan);
	assert_int_equal(on_demand(&plan), 2);
	assert_int_equal(plan.missing, 0);
}

/* Nothing asks for a spot pool that is dearer than on demand. */
static void a_dear_spot_pool_does_not_count_for_pools_min(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct fleet_spec f = { .nodes = 4, .pools_min = 3 };
	struct fleet_plan plan;
	struct world w;

	(void)state;
	world_make(&w, &f, 4, 3);
	w.s[2].total_micros = w.s[3].total_micros + 1;
	fleet_plan_make(a, &w.ask, &plan);
	assert_int_equal(nodes_in(&plan, 2), 0);
	assert_int_equal(plan.pools, 2);
	assert_int_equal(plan.pools_want, 3);
	/* A fleet on demand has nothing to spread. */
	w.ask.scores = &w.s[3];
	w.ask.scores_n = 1;
	fleet_plan_make(a, &w.ask, &plan);
	assert_int_equal(nodes_in(&plan, 3), 4);
	assert_int_equal(plan.pools_want, 0);
	assert_null(strstr(plan.why, "pools of"));
}

static void risk_spreads_nodes_as_far_as_it_pays(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct fleet_spec f = { .nodes = 10, .pools_min = 1, .risk = 4 };
	struct fleet_plan plan;
	struct world w;

	(void)state;
	world_make(&w, &f, 2, 2);
	w.s[0].hazard = w.s[1].hazard = 0.1;
	fleet_plan_make(a, &w.ask, &plan);
	/* By hand. Cost 1.00 and 1.01. Risk price 4 x 1.00 USD. Pairs of one pool only: 4 / 10 x
	 * 0.1 x (n1 (n1 - 1) + n2 (n2 - 1)). Five and five: 10.05 + 0.04 x 40 = 11.65. Six and
	 * four: 10.04 + 0.04 x 42 = 11.72. */
	assert_int_equal(nodes_in(&plan, 0), 5);
	assert_int_equal(plan.cost_micros, 10050000);
	assert_int_equal(plan.risk_micros, 1600000);
	assert_int_equal(plan.risk_price_micros, 4000000);
	assert_true(plan.proved);
	f.risk = 0;
	fleet_plan_make(a, &w.ask, &plan);
	assert_int_equal(nodes_in(&plan, 0), 10);
	assert_int_equal(plan.risk_micros, 0);
}

/* Past 1,000 pools the search weighs only the cheapest. Six GPUs are wanted: four for 1.00 USD
 * each and three for 1.02 cost 7.06. Twice three for 1.02 cost 6.12. The rest costs ten times as
 * much. */
static void a_large_market_hides_no_cheap_pool(void **state)
{
	enum { MANY = 1500 };
	AUTO(arena) struct arena *a = arena_new(0);
	struct fleet_spec f = { .gpus = 6, .pools_min = 1, .per_pool_max = 1 };
	struct offer *o = arena_array(a, MANY, sizeof(*o));
	struct score *s = arena_array(a, MANY, sizeof(*s));
	struct fleet_plan plan;
	struct world w;

	(void)state;
	world_make(&w, &f, 1, 1);
	for (int i = 0; i < MANY; i++) {
		bool four = i == 1400, three = i == 700 || i == 1300;

		o[i] = w.o[0];
		o[i].pool_id = i;
		o[i].gpu_milli = four ? 4000 : three ? 3000 : 1000;
		s[i] = w.s[0];
		s[i].offer = &o[i];
		s[i].total_micros = four ? 1000000
		    : three              ? 1020000
					 : 10000000 + i * 7919 % MANY * 6000;
	}
	w.ask.scores = s;
	w.ask.scores_n = MANY;
	fleet_plan_make(a, &w.ask, &plan);
	assert_int_equal(plan.n, 2);
	assert_int_equal(nodes_in(&plan, 700), 1);
	assert_int_equal(nodes_in(&plan, 1300), 1);
	assert_int_equal(plan.missing, 0);
	assert_int_equal(plan.cost_micros, 6120000);
}

static void the_floor_is_a_count_or_a_share(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct fleet_spec f = { .nodes = 8,
		.pools_min = 5,
		.per_pool_max = 2,
		.on_demand_floor = 2 };
	struct fleet_plan plan;
	struct world w;

	(void)state;
	world_make(&w, &f, 8, 6);
	fleet_plan_make(a, &w.ask, &plan);
	assert_int_equal(on_demand(&plan), 2);
	assert_int_equal(plan.missing, 0);
	f.on_demand_floor = 0;
	f.floor_pm = 300; /* 2.4 of 8 */
	fleet_plan_make(a, &w.ask, &plan);
	assert_int_equal(on_demand(&plan), 3);
	assert_int_equal(plan.floor_want, 2400);
	/* No on-demand pool: the rest is launched all the same, and it is said. */
	w.ask.scores_n = 6;
	fleet_plan_make(a, &w.ask, &plan);
	assert_int_equal(plan.missing, 0);
	assert_non_null(strstr(plan.why, "0 of 2.4 on demand"));
	/* A lent reservation may be reclaimed. */
	w.o[5].market = SPOT_MARKET_INTERRUPTIBLE;
	w.s[5].total_micros = 400000;
	fleet_plan_make(a, &w.ask, &plan);
	assert_int_equal(nodes_in(&plan, 5), 2);
	assert_non_null(strstr(plan.why, "0 of 2.4 on demand"));
	/* Reserved capacity is paid for: it goes first and is no risk. */
	w.o[5].market = SPOT_MARKET_RESERVED;
	fleet_plan_make(a, &w.ask, &plan);
	assert_int_equal(nodes_in(&plan, 5), 2);
}

static void pools_of_one_quota_draw_from_one_room(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct fleet_spec f = { .nodes = 6, .pools_min = 1 };
	struct fleet_plan plan;
	struct world w;

	(void)state;
	world_make(&w, &f, 3, 3);
	for (int i = 0; i < 2; i++) {
		w.o[i].has_quota = true;
		w.o[i].quota_class = "G";
		w.o[i].quota_unit = "vcpu";
		w.o[i].vcpus = 4;
		w.o[i].quota_limit = 24;
		w.o[i].quota_used = 10;
	}
	fleet_plan_make(a, &w.ask, &plan);
	assert_int_equal(nodes_in(&plan, 0) + nodes_in(&plan, 1), 3);
	assert_int_equal(nodes_in(&plan, 2), 3);
	f.per_pool_max = 2;
	fleet_plan_make(a, &w.ask, &plan);
	assert_int_equal(plan.missing, 1);
	assert_non_null(strstr(plan.why, "quota aws r spot G: 22 of 24 vcpu keeps"));
	assert_non_null(strstr(plan.why, "limits.per_pool 2 is reached"));
}

static void work_is_weighed_by_throughput(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct gpu_ask gpus[2] = { { "A100-80GB", 1000 }, { "H100", 1000 } };
	struct resource_ask ask = { .gpus = gpus, .gpus_n = 2 };
	struct fleet_spec f = { .gpus = 8,
		.gpus_of = "H100",
		.pools_min = 1,
		.asks = &ask,
		.asks_n = 1 };
	struct job_spec h100 = { .asks = &(struct resource_ask){ .gpus = &gpus[1], .gpus_n = 1 },
		.asks_n = 1 };
	double speed = gpu_speed_table(&h100, "A100-80GB");
	struct fleet_plan plan;
	struct world w;

	(void)state;
	world_make(&w, &f, 1, 1);
	w.o[0].gpu_name = "A100-80GB";
	fleet_plan_make(a, &w.ask, &plan);
	assert_true(speed > 0.1 && speed < 0.9);
	assert_int_equal(nodes_in(&plan, 0), (int32_t)(8 / speed + 0.999));
	assert_true(plan.want == 8);
	f.gpus_of = "";
	fleet_plan_make(a, &w.ask, &plan);
	assert_int_equal(nodes_in(&plan, 0), 8);
}

static void limits_that_cross_do_not_lock_a_fleet_out(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct fleet_spec f = { .nodes = 2, .pools_min = 1, .per_zone_max = 1, .per_gpu_max = 1 };
	struct fleet_plan plan;
	struct world w;

	(void)state;
	/* The cheapest, L4 in z, stops both others. */
	world_make(&w, &f, 3, 3);
	w.o[1].gpu_name = "T4";
	w.o[2].zone = "y";
	for (int64_t search = -1; search <= 0; search++) {
		w.ask.search_max = search;
		fleet_plan_make(a, &w.ask, &plan);
		assert_int_equal(plan.missing, 0);
		assert_int_equal(nodes_in(&plan, 0), 0);
	}
}

static void existing_nodes_count_and_a_surplus_goes_back(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct fleet_have have[2] = { { .pool_id = 1,
					  .zone = "z",
					  .region = "r",
					  .provider = "aws",
					  .market = SPOT_MARKET_SPOT,
					  .gpu_milli = 8000,
					  .nodes = 4,
					  .idle = 4,
					  .price_micros = 5 },
		{ .pool_id = 2,
		    .zone = "z",
		    .region = "r",
		    .provider = "aws",
		    .market = SPOT_MARKET_SPOT,
		    .gpu_milli = 8000,
		    .nodes = 2,
		    .idle = 1,
		    .price_micros = 9 } };
	struct fleet_spec f = { .nodes = 3, .pools_min = 1 };
	struct fleet_ask ask = { .spec = &f, .have = have, .have_n = 2 };
	struct fleet_plan plan;

	(void)state;
	fleet_plan_make(a, &ask, &plan);
	assert_int_equal(plan.surplus, 3);
	assert_int_equal(plan.missing, 0);
	/* The dearest first, and only idle nodes. */
	assert_int_equal(plan.gives_n, 2);
	assert_int_equal(plan.gives[1].pool_id, 2);
	assert_int_equal(plan.gives[1].nodes, 1);
	assert_int_equal(plan.gives[0].nodes, 2);
	f = (struct fleet_spec){ .gpus = 56, .pools_min = 1 };
	fleet_plan_make(a, &ask, &plan);
	assert_int_equal(plan.missing, 8);
	assert_non_null(strstr(plan.why, "no pool suits"));
	f = (struct fleet_spec){ .pools_min = 5, .on_demand_floor = 2 };
	fleet_plan_make(a, &ask, &plan);
	assert_int_equal(plan.surplus, 5);
}

static const char *const fleets_wrong[][2] = {
	{ "name: f\nnodes: 2\non_demand_floor: 120%\n", "share from 0% to 100%" },
	{ "name: f\nnodes: 2\non_demand_floor: x%\n", "share from 0% to 100%" },
	{ "name: f\nnodes: 2\non_demand_floor: -1\n", "on_demand_floor" },
	{ "name: f\nnodes: 2\nrisk: much\n", "risk: a number" },
	{ "name: f\nnodes: 2\nrisk: -1\n", "risk: a number" },
	{ "name: f\ngpus: {H100: 1, A100: 2}\n", "one GPU to count in" },
	{ "name: f\ngpus: {ZX81: 1}\n", "ZX81" },
	{ "name: f\nnodes: 2\nlimits: {per_gpu: -3}\n", "per_gpu" },
};

static void a_fleet_file_is_read_strictly(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct fleet_spec *f, *g;
	const char *name;
	struct spot_err err = { 0 };

	(void)state;
	assert_int_equal(fleet_spec_parse(a,
			     text_str(
				 "name: f\ngpus: 16\nresources:\n  accelerators: {A10G: 1, L4: 1}\n"
				 "limits: {per_zone: 4}\non_demand_floor: 1\n"),
			     &f, &name, &err),
	    SPOT_OK);
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
	assert_true(f->risk > 3.9 && f->risk < 4.1);
	assert_int_equal(
	    fleet_spec_parse(a,
		text_str(
		    "name: f\ngpus: {H100: 64}\nresources: {accelerators: {H100: 8, A100: 8}}\n"
		    "on_demand_floor: 12.5%\nrisk: 0.5\nlimits: {per_gpu: 3, per_region: 2}\n"),
		&f, &name, &err),
	    SPOT_OK);
	assert_string_equal(f->gpus_of, "H100");
	assert_int_equal(f->floor_pm, 125);
	j = fleet_spec_to_json(f);
	assert_int_equal(fleet_spec_from_json(a, j, &g, &err), SPOT_OK);
	json_decref(j);
	assert_string_equal(g->gpus_of, "H100");
	assert_int_equal(g->per_gpu_max, 3);
	assert_int_equal(g->per_region_max, 2);
	assert_int_equal(g->floor_pm, 125);
	assert_true(g->risk > 0.4 && g->risk < 0.6);
	for (size_t i = 0; i < ARRAY_LEN(fleets_wrong); i++) {
		assert_int_equal(fleet_spec_parse(a, text_str(fleets_wrong[i][0]), &f, &name, &err),
		    SPOT_INVALID);
		assert_non_null(strstr(err.text, fleets_wrong[i][1]));
	}
	assert_int_equal(fleet_spec_parse(a, text_str("name: f\nnodes: 1\ngpus: 1\n"), &f, &name,
			     &err),
	    SPOT_INVALID);
	assert_int_equal(fleet_spec_parse(a, text_str("name: f\nnodes: 1\nlimits: {per_rack: 1}\n"),
			     &f, &name, &err),
	    SPOT_INVALID);
	assert_non_null(strstr(err.text, "line 3"));
}

static void a_fleet_is_one_mapping_with_a_name(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	static const char *const wrong[][2] = { { "", "a fleet is one mapping" },
		{ "- nodes: 1\n", "a fleet is one mapping" },
		{ "name: f\n---\nname: g\n", "a fleet is one mapping" },
		{ "name: f\nnodes: [\n", "line" }, { "name: ''\nnodes: 1\n", "name is missing" },
		{ "name: f\nnodes:\n", "give nodes or gpus" },
		{ "name: f\nnodes: 1\nrisk: [1]\n", "risk: a number from 0" },
		{ "name: f\nnodes: 1\nrisk: 1001\n", "risk: a number from 0" },
		{ "name: f\nnodes: 1\nrisk: 1.2.3\n", "risk: a number from 0" },
		{ "name: f\nnodes: 1\non_demand_floor: 1.2.3%\n", "not '1.2.3%'" },
		{ "name: f\nnodes: 1\non_demand_floor: 101%\n", "not '101%'" } };
	json_t *j = json_pack("{s:s}", "nodes", "two");
	struct spot_err err = { 0 };
	struct fleet_spec *f;
	const char *name;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		assert_int_equal(fleet_spec_parse(a, text_str(wrong[i][0]), &f, &name, &err),
		    SPOT_INVALID);
		assert_non_null(strstr(err.text, wrong[i][1]));
	}
	assert_int_not_equal(fleet_spec_from_json(a, j, &f, &err), SPOT_OK);
	assert_non_null(strstr(err.text, "fleet.spec: "));
	json_decref(j);
	assert_int_equal(fleet_spec_parse(a,
			     text_str("name: f\nnodes: 2\ngpus:\nrisk:\non_demand_floor:\nteam:\n"),
			     &f, &name, &err),
	    SPOT_OK);
	assert_int_equal(f->nodes, 2);
	assert_int_equal(f->gpus, 0);
	assert_int_equal(f->on_demand_floor, 0);
	assert_true(f->risk == FLEET_RISK);
	assert_string_equal(f->team, "");
}

static void a_market_where_other_things_can_be_had_has_another_digest(void **state)
{
	struct offer o[2] = { { .pool_id = 1,
				  .market = SPOT_MARKET_SPOT,
				  .price_micros = 5,
				  .price_state = PRICE_FRESH,
				  .capacity = -1,
				  .has_quota = true,
				  .quota_limit = 4 },
		{ .pool_id = 2, .cool_until_us = 90 } };
	uint64_t first, d;
	int64_t until;

	(void)state;
	first = offers_digest(o, 2, 50, &until);
	assert_int_equal(until, 90);
	o[0].hazard = 3;
	assert_true(offers_digest(o, 2, 60, &until) == first);
	d = offers_digest(o, 2, 90, &until);
	assert_true(d != first);
	assert_int_equal(until, 0);
	o[0].price_micros = 6;
	assert_true(offers_digest(o, 2, 50, &until) != first);
	o[0].price_micros = 5;
	o[0].quota_used = 1;
	assert_true(offers_digest(o, 2, 50, &until) != first);
	o[0].quota_used = 0;
	o[0].capacity = 0;
	assert_true(offers_digest(o, 2, 50, &until) != first);
	o[0].capacity = -1;
	o[0].price_state = PRICE_STALE;
	assert_true(offers_digest(o, 2, 50, &until) != first);
	assert_true(offers_digest(o, 1, 50, &until) != first);
}

static void a_fleet_is_planned_again_for_a_reason(void **state)
{
	struct fleet_seen was = { .fleet_id = 1,
		.version = 2,
		.offers = 3,
		.nodes = 4,
		.until_us = 100 },
			  is = was;

	(void)state;
	assert_true(fleet_again(NULL, &is, 0));
	assert_false(fleet_again(&was, &is, 99));
	assert_true(fleet_again(&was, &is, 100));
	is.version++;
	assert_true(fleet_again(&was, &is, 0));
	is = was;
	is.offers++;
	assert_true(fleet_again(&was, &is, 0));
	is = was;
	is.nodes++;
	assert_true(fleet_again(&was, &is, 0));
	is = was;
	is.fleet_id++;
	assert_true(fleet_again(&was, &is, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_market_where_other_things_can_be_had_has_another_digest),
		cmocka_unit_test(a_fleet_is_planned_again_for_a_reason),
		cmocka_unit_test(five_pools_are_used_where_they_exist),
		cmocka_unit_test(on_demand_pools_do_not_count_for_pools_min),
		cmocka_unit_test(a_dear_spot_pool_does_not_count_for_pools_min),
		cmocka_unit_test(risk_spreads_nodes_as_far_as_it_pays),
		cmocka_unit_test(a_large_market_hides_no_cheap_pool),
		cmocka_unit_test(the_floor_is_a_count_or_a_share),
		cmocka_unit_test(pools_of_one_quota_draw_from_one_room),
		cmocka_unit_test(work_is_weighed_by_throughput),
		cmocka_unit_test(limits_that_cross_do_not_lock_a_fleet_out),
		cmocka_unit_test(existing_nodes_count_and_a_surplus_goes_back),
		cmocka_unit_test(a_fleet_file_is_read_strictly),
		cmocka_unit_test(a_fleet_is_one_mapping_with_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
