/* Moves of fleets: cases on paper, and properties over random fleets. */
#include "fleet_cases.h"

#include "base/text/text.h"
#include "core/fleet/fleet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define HOUR SPOT_US_PER_HOUR
#define NOW (INT64_C(490896) * HOUR) /* midnight UTC */
#define NODES_MAX 200

static struct supply_policy supply;
static struct rank_policy ranks;
static struct fleet_move_policy rules = { &supply, 8 * HOUR, &ranks };

struct moving {
	struct made x;
	struct fleet_move_node nodes[NODES_MAX];
	struct fleet_move_in in;
};

static void nodes_make(struct moving *m)
{
	m->in = (struct fleet_move_in){ .ask = &m->x.ask,
		.nodes = m->nodes,
		.policy = &rules,
		.now_us = NOW };
	for (size_t i = 0; i < m->x.ask.have_n; i++) {
		for (int32_t k = 0; k < m->x.have[i].nodes; k++) {
			m->nodes[m->in.n] =
			    (struct fleet_move_node){ .node_id = (int64_t)m->in.n + 1,
				    .job_id = k < m->x.have[i].idle ? 0 : (int64_t)m->in.n + 1,
				    .pool_id = m->x.have[i].pool_id,
				    .ready_us = NOW - HOUR,
				    .price_micros = m->x.have[i].price_micros,
				    .save_us = 20 * SPOT_US_PER_S,
				    .restart_us = 60 * SPOT_US_PER_S };
			m->in.n++;
		}
	}
}

/* Pools in zones of their own: price and market. Nodes in the first `held` ones, one each. */
static void paper(struct arena *a, struct moving *m, const int64_t *prices,
    const enum spot_market *markets, size_t n, size_t held)
{
	static struct gpu_ask gpu = { "A100-80GB", 1000 };
	static struct resource_ask res = { .gpus = &gpu, .gpus_n = 1 };
	static const char *const zones[] = { "a", "b", "c", "d", "e", "f" };

	*m = (struct moving){ 0 };
	supply_policy_default(&supply);
	rank_policy_default(&ranks);
	m->x.n = n;
	m->x.f = (struct fleet_spec){ .asks = &res,
		.asks_n = 1,
		.nodes = (int32_t)held,
		.gpus_of = "",
		.pools_min = 1,
		.risk = 0,
		.rebalance = { .at_once = 10, .per_zone = 10, .per_hour = 10 } };
	for (size_t i = 0; i < n; i++) {
		m->x.o[i] = (struct offer){ .pool_id = (int32_t)i + 1,
			.provider = "aws",
			.region = "r",
			.zone = zones[i],
			.zone_name = "",
			.instance_type = "t",
			.gpu_name = "A100-80GB",
			.gpu_milli = 1000,
			.market = markets[i],
			.price_micros = prices[i] };
		m->x.s[i] = (struct score){ .offer = &m->x.o[i],
			.total_micros = prices[i],
			.price_micros = prices[i],
			.work_h = 1,
			.throughput = 1,
			.hazard = markets[i] == SPOT_MARKET_SPOT ? 0.05 : 0.0005 };
		if (i < held) {
			m->x.have[i] = (struct fleet_have){ .pool_id = (int32_t)i + 1,
				.zone = zones[i],
				.region = "r",
				.provider = "aws",
				.market = markets[i],
				.gpu_milli = 1000,
				.nodes = 1,
				.offer = &m->x.o[i],
				.score = &m->x.s[i],
				.price_micros = prices[i] };
		}
	}
	m->x.ask = (struct fleet_ask){ .spec = &m->x.f,
		.have = m->x.have,
		.have_n = held,
		.scores = m->x.s,
		.scores_n = n,
		.hazards = hazard_model_build(a, m->x.o, n, &policy, 0) };
	nodes_make(m);
}

#define SPOT SPOT_MARKET_SPOT
#define ON_DEMAND SPOT_MARKET_ON_DEMAND
#define RESERVED SPOT_MARKET_RESERVED

/* ---- on paper -------------------------------------------------------------------------------- */

/* 3 and 1 USD/h, for 8 h. The old machine is paid for the changeover (4 min), the hold (5 min) and
 * the save (20 s). The job stands still for the save and its restart. */
static void test_the_terms_of_a_move_add_up(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	static struct moving m;
	struct fleet_moves out;

	(void)state;
	paper(a, &m, (int64_t[]){ 3000000, 1000000 }, (enum spot_market[]){ ON_DEMAND, SPOT }, 2,
	    1);
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.now, 1);
	assert_int_equal(out.moves[0].to->offer->pool_id, 2);
	assert_int_equal(out.moves[0].hourly_micros, 2000000);
	assert_int_equal(out.moves[0].risk_micros, 0);
	assert_int_equal(out.moves[0].rest_us, 8 * HOUR);
	assert_int_equal(out.moves[0].saving_micros, 16000000);
	assert_int_equal(out.moves[0].both_micros, 3000000 * INT64_C(560) / 3600 + 1);
	assert_int_equal(out.moves[0].restart_micros, 1000000 * 80 / 3600);
	assert_int_equal(out.moves[0].cost_micros,
	    out.moves[0].both_micros + out.moves[0].restart_micros);
	assert_int_equal(out.before_micros - out.after_micros, 2000000);
	/* An idle node pays the changeover alone. */
	m.nodes[0].job_id = 0;
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.moves[0].cost_micros, 200000);
}

/* 10 GB leave the region of the store once: by its price, or by that of the node's own place. */
static void test_a_checkpoint_that_leaves_its_region_is_paid(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	static struct moving m;
	struct fleet_moves out;
	json_t *doc;

	(void)state;
	paper(a, &m, (int64_t[]){ 3000000, 1000000 }, (enum spot_market[]){ ON_DEMAND, SPOT }, 2,
	    1);
	m.nodes[0].checkpoint_bytes = INT64_C(10000000000);
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.moves[0].egress_micros, 0); /* within the region */
	m.in.store_provider = "gcp";
	m.in.store_region = "elsewhere";
	fleet_moves_choose(a, &m.in, &out);
	assert_true(out.moves[0].egress_micros > 0);
	assert_int_equal(out.moves[0].egress_micros,
	    10 * egress_micros_per_gb("gcp", "elsewhere", "aws", "r"));
	doc = fleet_move_json(&m.in, &out.moves[0]);
	assert_int_equal(json_integer_value(json_object_get(doc, "egress_micros")),
	    out.moves[0].egress_micros);
	assert_int_equal(json_integer_value(json_object_get(doc, "from_pool")), 1);
	assert_float_equal(json_number_value(json_object_get(doc, "speed")), 1.0, 1e-9);
	assert_true(json_is_object(json_object_get(doc, "here")));
	json_decref(doc);
	m.in.store_region = NULL;
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.moves[0].egress_micros, 0);
}

/* A spot machine that lives two hours saves for two hours; a fleet that expires, until then. */
static void test_the_rest_of_the_use_is_bounded_by_life_and_expiry(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	static struct moving m;
	struct fleet_moves out;

	(void)state;
	paper(a, &m, (int64_t[]){ 3000000, 1000000 }, (enum spot_market[]){ ON_DEMAND, SPOT }, 2,
	    1);
	m.x.s[1].hazard = 0.5;
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.moves[0].rest_us, 2 * HOUR);
	m.in.expires_us = NOW + HOUR;
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.moves[0].rest_us, HOUR);
	m.in.expires_us = NOW + HOUR / 60;
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.n, 0);
	assert_non_null(strstr(out.stays[0].why, "not worth it"));
}

static void test_the_floor_keeps_one_on_demand_and_reserved_is_never_left(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	static struct moving m;
	struct fleet_moves out;

	(void)state;
	paper(a, &m, (int64_t[]){ 3000000, 3100000, 9000000, 1000000 },
	    (enum spot_market[]){ ON_DEMAND, ON_DEMAND, SPOT_MARKET_RESERVED, SPOT }, 4, 3);
	m.x.f.on_demand_floor = 2;
	/* no more is reserved */
	m.x.s[2] = m.x.s[3];
	m.x.have[2].score = NULL;
	m.x.ask.scores_n = 3;
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.n, 1);
	assert_int_equal(m.nodes[out.moves[0].node].pool_id, 2); /* the dearer of the two */
	assert_int_equal(out.stays_n, 2);
	assert_string_equal(out.stays[0].why, "it stays for the floor: on_demand_floor");
	assert_string_equal(out.stays[1].why, "no other place is better");
}

static void test_the_budget_of_the_file_says_how_many_begin(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	static struct moving m;
	struct fleet_leaving leaving = { "aws", "r", "z" };
	struct fleet_moves out;

	(void)state;
	paper(a, &m, (int64_t[]){ 5000000, 4000000, 3000000, 1000000 },
	    (enum spot_market[]){ SPOT, SPOT, SPOT, SPOT }, 4, 3);
	m.x.f.rebalance = (struct fleet_rebalance){ 0 };
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.n, 3);
	assert_int_equal(out.now, 1);
	assert_int_equal(m.nodes[out.moves[0].node].pool_id, 1);
	assert_int_equal(strncmp(out.moves[1].why, "waits: rebalance.at_once 1 ", 27), 0);
	m.x.f.rebalance.at_once = 2;
	m.in.leaving = &leaving;
	m.in.leaving_n = 1;
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.now, 1);
	m.in.began_hour = 4;
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.now, 0);
	assert_int_equal(strncmp(out.moves[0].why, "waits: rebalance.per_hour 4 ", 28), 0);
	m.in.began_hour = 0;
	leaving.zone = "a";
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.now, 1);
	assert_int_equal(m.nodes[out.moves[0].node].pool_id, 2);
	m.x.f.rebalance.hours = 2;
	m.x.f.rebalance.hours_text = "1";
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.now, 0);
	assert_int_equal(strncmp(out.moves[0].why, "waits for the hours 1 (UTC)", 27), 0);
	m.x.f.rebalance.off = true;
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.n, 0);
	assert_string_equal(out.stays[0].why, "rebalance.enabled is false");
}

/* Hysteresis: what is young stays, and refused probes make the fleet wait and look elsewhere. */
static void test_young_nodes_and_refused_probes_wait(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	static struct moving m;
	struct fleet_moves out;
	const struct offer *refused[4];

	(void)state;
	paper(a, &m, (int64_t[]){ 3000000, 1000000, 1500000 },
	    (enum spot_market[]){ ON_DEMAND, SPOT, SPOT }, 3, 1);
	m.x.o[2].region = "r2";
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		refused[i] = &m.x.o[1];
	}
	m.in.refused = refused;
	m.in.refused_n = 1;
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.moves[0].to->offer->pool_id, 3);
	m.in.probes_refused = 1;
	m.in.last_probe_us = NOW - 60 * SPOT_US_PER_S;
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.now, 0);
	assert_non_null(strstr(out.moves[0].why, "probes refused in a row: 1"));
	m.in.last_probe_us = NOW - HOUR;
	m.nodes[0].ready_us = NOW - 60 * SPOT_US_PER_S;
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.n, 0);
	assert_string_equal(out.stays[0].why, "it is ready only for 1m00s");
}

static void test_a_job_goes_only_where_it_suits(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	static struct moving m;
	struct gpu_ask gpu = { "H100", 1000 };
	struct resource_ask res = { .gpus = &gpu, .gpus_n = 1, .use_spot = -1 };
	struct fleet_moves out;

	(void)state;
	paper(a, &m, (int64_t[]){ 3000000, 1000000, 1500000 },
	    (enum spot_market[]){ ON_DEMAND, SPOT, SPOT }, 3, 1);
	m.x.o[2].gpu_name = "H100-80GB-SXM";
	m.nodes[0].asks = &res;
	m.nodes[0].asks_n = 1;
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.now, 1);
	assert_int_equal(out.moves[0].to->offer->pool_id, 3);
	res.use_spot = 0;
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.n, 0);
}

static void test_a_return_goes_from_on_demand_to_spot_alone(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	static struct moving m;
	struct fleet_moves out;

	(void)state;
	paper(a, &m, (int64_t[]){ 5000000, 6000000, 1000000 },
	    (enum spot_market[]){ SPOT, ON_DEMAND, ON_DEMAND }, 3, 2);
	m.in.return_only = true;
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.n, 1);
	assert_int_equal(m.nodes[out.moves[0].node].pool_id, 2);
	assert_int_equal(out.moves[0].to->offer->pool_id, 1);
}

/* A fleet in one pool spreads although nothing becomes cheaper. */
/* Changeover 4 min, hold 5 min; two saves of 20 s and a margin of 5 min before the end. */
#define LEAVES_S (9 * 60 + 40 + 5 * 60)

static void test_a_node_whose_pool_ends_is_replaced_in_time_whatever_it_costs(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	static struct moving m;
	struct fleet_moves out;

	(void)state;
	paper(a, &m, (int64_t[]){ 1000000, 1000000, 5000000, 4000000 },
	    (enum spot_market[]){ RESERVED, RESERVED, ON_DEMAND, SPOT }, 4, 2);
	m.x.f.rebalance = (struct fleet_rebalance){ .off = true, .at_once = 1, .per_zone = 1 };
	m.nodes[0].ends_us = m.nodes[1].ends_us = NOW + (LEAVES_S + 1) * SPOT_US_PER_S;
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.now, 0);
	m.nodes[0].ends_us = m.nodes[1].ends_us = NOW + LEAVES_S * SPOT_US_PER_S;
	m.x.o[0].ends_us = m.x.o[1].ends_us = m.nodes[0].ends_us;
	m.in.return_only = true;
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.now, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_true(out.moves[i].ends);
		assert_int_equal(out.moves[i].to->offer->pool_id, 4);
		assert_string_equal(out.moves[i].why, "its pool ends in 14m40s");
	}
	/* A job that is about to leave, or saves nothing, is left to its notice. */
	m.nodes[0].fixed = "its job saves nothing";
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.now, 1);
	m.nodes[0].fixed = NULL;
	/* The floor holds where a place keeps it. */
	m.x.f.on_demand_floor = 2;
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.now, 2);
	assert_int_equal(out.moves[0].to->offer->pool_id, 3);
	assert_int_equal(out.moves[1].to->offer->pool_id, 3);
	/* Nowhere else is room. */
	m.x.ask.scores_n = 2;
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.now, 0);
	assert_string_equal(out.stays[0].why, "its pool ends, and no other place has room");
}

static void test_an_idle_node_beyond_the_size_does_not_move(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	static struct moving m;
	struct fleet_moves out;

	(void)state;
	paper(a, &m, (int64_t[]){ 9000000, 9000000, 1000000 },
	    (enum spot_market[]){ SPOT, SPOT, SPOT }, 3, 2);
	m.x.f.nodes = 1;
	m.nodes[0].job_id = 0;
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.now, 1);
	assert_int_equal(out.moves[0].node, 1);
	assert_string_equal(out.stays[0].why, "it is idle, and more than the fleet wants");
}

static void test_a_move_into_a_pool_that_ends_pays_only_until_then(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	static struct moving m;
	struct fleet_moves out;

	(void)state;
	paper(a, &m, (int64_t[]){ 3000000, 1000000 }, (enum spot_market[]){ ON_DEMAND, SPOT }, 2,
	    1);
	m.x.o[1].ends_us = NOW + 2 * HOUR;
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.moves[0].rest_us, 2 * HOUR);
}

static void test_a_concentrated_fleet_spreads(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	static struct moving m;
	struct fleet_moves out;

	(void)state;
	paper(a, &m, (int64_t[]){ 1000000, 1000000 }, (enum spot_market[]){ SPOT, SPOT }, 2, 1);
	m.x.f.nodes = 4;
	m.x.f.risk = 20;
	m.x.have[0].nodes = 4;
	m.in.n = 0;
	nodes_make(&m);
	fleet_moves_choose(a, &m.in, &out);
	assert_int_equal(out.n, 2);
	assert_true(out.moves[0].risk_micros > 0);
	assert_int_equal(out.moves[0].risk_micros, out.moves[0].hourly_micros);
}

/* ---- over random fleets ---------------------------------------------------------------------- */

static void have_of(struct made *x, int32_t pool_id, int32_t nodes, bool idle)
{
	for (size_t i = 0; i < x->ask.have_n; i++) {
		if (x->have[i].pool_id == pool_id) {
			x->have[i].nodes += nodes;
			x->have[i].idle += idle ? nodes : 0;
			return;
		}
	}
	for (size_t k = 0; k < x->n; k++) {
		const struct offer *o = &x->o[k];

		if (o->pool_id == pool_id) {
			x->have[x->ask.have_n++] = (struct fleet_have){ .pool_id = pool_id,
				.zone = o->zone,
				.region = o->region,
				.provider = o->provider,
				.market = o->market,
				.gpu_milli = o->gpu_milli,
				.offer = o,
				.price_micros = o->price_micros,
				.nodes = nodes,
				.idle = idle ? nodes : 0 };
		}
	}
}

/* How far each limit is passed by what the fleet has, 0 = not. */
static int64_t limits_over(const struct made *x)
{
	const int32_t none[POOLS_MAX] = { 0 };
	const int32_t caps[] = { x->f.per_provider_max, x->f.per_region_max, x->f.per_zone_max,
		x->f.per_pool_max, x->f.per_gpu_max };
	int64_t over = 0;

	for (size_t k = 0; k < x->n; k++) {
		for (int l = 0; l < 5; l++) {
			int32_t n = shared(x, none, k, l);

			over += caps[l] > 0 && had(x, k) > 0 && n > caps[l] ? n - caps[l] : 0;
		}
	}
	return over;
}

/* Carries out one move, and checks that nothing became worse than wanted. */
static void move_do(struct moving *m, const struct fleet_move *v)
{
	const int32_t none[POOLS_MAX] = { 0 };
	struct fleet_move_node *n = &m->nodes[v->node];
	struct verdict was = judge(&m->x, none), is;
	int64_t over = limits_over(&m->x);

	have_of(&m->x, n->pool_id, -1, n->job_id == 0);
	have_of(&m->x, v->to->offer->pool_id, 1, n->job_id == 0);
	is = judge(&m->x, none);
	assert_true(is.missing <= was.missing);
	assert_true(is.floor_short <= was.floor_short);
	assert_true(is.pools_short <= was.pools_short);
	assert_true(limits_over(&m->x) <= over);
	assert_true(is.cost + is.risk < was.cost + was.risk);
	n->pool_id = v->to->offer->pool_id;
	n->price_micros = v->to->offer->price_micros;
	n->ready_us = NOW - HOUR;
}

static void test_moves_keep_the_wanted_and_come_to_an_end(void **state)
{
	static struct moving m;
	struct rng r;
	size_t moved = 0, fleets = 0;

	(void)state;
	supply_policy_default(&supply);
	rng_seeded_init(&r, 5);
	for (int i = 0; i < 3000; i++) {
		AUTO(arena) struct arena *a = arena_new(0);
		struct fleet_moves out;
		int rounds = 0;

		m = (struct moving){ 0 };
		fleet_make(a, &m.x, &r, 12, 12);
		m.x.ask.spec = &m.x.f;
		m.x.ask.have = m.x.have;
		m.x.ask.scores = m.x.s;
		for (size_t k = 0; k < m.x.n; k++) {
			m.x.s[k].price_micros = m.x.o[k].price_micros;
			m.x.o[k].has_quota = false;
		}
		have_make(&m.x, &r);
		nodes_make(&m);
		m.x.f.rebalance.at_once = (int32_t)(1 + rng_below(&r, 4));
		m.x.f.rebalance.per_zone = 4;
		m.x.f.rebalance.per_hour = 100;
		do {
			fleet_moves_choose(a, &m.in, &out);
			assert_int_equal(out.n + out.stays_n, m.in.n);
			for (size_t k = 0; k < out.now; k++) {
				assert_true(out.moves[k].now);
				move_do(&m, &out.moves[k]);
			}
			moved += out.now;
			rounds++;
		} while (out.now > 0);
		/* No thrash: all is done within as many rounds as nodes could need. */
		assert_int_equal(out.n, 0);
		assert_true(rounds <= (int)(3 * m.in.n + 2));
		fleets += rounds > 1;
	}
	assert_true(fleets > 500);
	assert_true(moved > 1000);
}

static void test_the_order_of_the_rows_changes_nothing(void **state)
{
	static struct moving m, other;
	struct rng r;

	(void)state;
	supply_policy_default(&supply);
	rng_seeded_init(&r, 6);
	for (int i = 0; i < 200; i++) {
		AUTO(arena) struct arena *a = arena_new(0);
		struct fleet_moves one, two;

		m = (struct moving){ 0 };
		fleet_make(a, &m.x, &r, 20, 12);
		m.x.ask.spec = &m.x.f;
		m.x.ask.have = m.x.have;
		m.x.ask.scores = m.x.s;
		have_make(&m.x, &r);
		nodes_make(&m);
		fleet_moves_choose(a, &m.in, &one);
		other = m;
		for (size_t k = 0; k < m.x.n; k++) {
			other.x.s[k] = m.x.s[m.x.n - 1 - k];
		}
		other.x.ask.scores = other.x.s;
		other.x.ask.have = other.x.have;
		other.in.ask = &other.x.ask;
		other.in.nodes = other.nodes;
		fleet_moves_choose(a, &other.in, &two);
		assert_int_equal(one.n, two.n);
		for (size_t k = 0; k < one.n; k++) {
			assert_int_equal(one.moves[k].node, two.moves[k].node);
			assert_int_equal(one.moves[k].to->offer->pool_id,
			    two.moves[k].to->offer->pool_id);
		}
	}
}

/* ---- the file -------------------------------------------------------------------------------- */

#define T(f) cmocka_unit_test(f)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_the_terms_of_a_move_add_up),
		T(test_a_checkpoint_that_leaves_its_region_is_paid),
		T(test_the_rest_of_the_use_is_bounded_by_life_and_expiry),
		T(test_the_floor_keeps_one_on_demand_and_reserved_is_never_left),
		T(test_the_budget_of_the_file_says_how_many_begin),
		T(test_young_nodes_and_refused_probes_wait),
		T(test_a_job_goes_only_where_it_suits),
		T(test_a_return_goes_from_on_demand_to_spot_alone),
		T(test_a_node_whose_pool_ends_is_replaced_in_time_whatever_it_costs),
		T(test_an_idle_node_beyond_the_size_does_not_move),
		T(test_a_move_into_a_pool_that_ends_pays_only_until_then),
		T(test_a_concentrated_fleet_spreads),
		T(test_moves_keep_the_wanted_and_come_to_an_end),
		T(test_the_order_of_the_rows_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
