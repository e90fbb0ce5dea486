/*
 * Compares the allocation with all plans of small random fleets, one by one. Its own evaluation
 * weighs them: it follows core/fleet/fleet.h and shares no code with the allocation. Also checks
 * the lower bound, and the limits on fleets of every kind. Neither the order of the rows nor small
 * changes of price matter.
 */
#include "base/base.h"
#include "fleet_lp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* ---- tests ----------------------------------------------------------------------------------- */

/* No allowed plan adds more weight than this. */
static int64_t wanted_most(const struct made *x)
{
	int64_t w_max = 0, floor = x->f.on_demand_floor;

	for (size_t k = 0; k < x->n; k++) {
		w_max = MAX(w_max, weight(x, k));
	}
	return w_max + MAX(1000 * (int64_t)(x->f.nodes + x->f.gpus), floor * w_max);
}

struct tally {
	int cases, optimal, proved, other_coverage;
	double gap_sum, over_sum, over_most;
};

static void plan_weigh(const struct made *x, struct arena *a, const struct verdict *best,
    int64_t search, struct tally *t)
{
	struct fleet_ask ask = x->ask;
	struct fleet_plan p;
	int32_t add[POOLS_MAX];
	struct verdict got;
	double over;

	ask.search_max = search;
	fleet_plan_make(a, &ask, &p);
	adds_of(x, &p, add);
	got = judge(x, add);
	assert_true(got.allowed);
	/* The plan's figures are the fleet's costs. */
	assert_true(fabs((double)p.cost_micros / 1e6 - got.cost) < 1e-5);
	assert_true(fabs((double)p.risk_micros / 1e6 - got.risk) < 1e-5);
	assert_int_equal(p.missing, (got.missing + 999) / 1000);
	t->cases++;
	if (got.missing != best->missing || got.floor_short != best->floor_short ||
	    got.pools_short != best->pools_short) {
		t->other_coverage++;
		return;
	}
	over = best->cost + best->risk > 1e-6
	    ? (got.cost + got.risk) / (best->cost + best->risk) - 1
	    : 0;
	t->optimal += verdict_compare(&got, best) == 0;
	t->proved += p.proved;
	t->over_sum += over;
	t->over_most = fmax(t->over_most, over);
	t->gap_sum += p.gap;
	/* The bound is one: nothing is below it, whether the search found the best or not. */
	assert_true((double)p.bound_micros / 1e6 <= best->cost + best->risk + 1e-5);
	assert_true(!p.proved || verdict_compare(&got, best) == 0);
}

static void tally_print(const char *what, const struct tally *t)
{
	print_message("%s: %d of %d optimal, %d proved, %d differ in coverage; over the optimum "
		      "mean %.4f %% most %.2f %%; printed "
		      "gap mean %.2f %%\n",
	    what, t->optimal, t->cases, t->proved, t->other_coverage, t->over_sum / t->cases * 100,
	    t->over_most * 100, t->gap_sum / t->cases * 100);
}

static void small_fleets_are_optimal(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct tally with = { 0 }, without = { 0 };
	struct rng r;

	(void)state;
	rng_seeded_init(&r, 41);
	for (int i = 0; i < 2000; i++) {
		struct made *x = arena_alloc(a, sizeof(*x));
		int32_t add[POOLS_MAX] = { 0 };
		struct verdict best;

		fleet_make(a, x, &r, 5, 4);
		if (rng_below(&r, 3) == 0) {
			have_make(x, &r);
			for (size_t k = 0; k < x->ask.have_n; k++) {
				x->have[k].idle = 0;
			}
		}
		best = judge(x, add);
		all_plans(x, add, 0, wanted_most(x), &best);
		plan_weigh(x, a, &best, 0, &with);
		plan_weigh(x, a, &best, -1, &without);
		arena_reset(a);
	}
	tally_print("as planned", &with);
	tally_print("without branch and bound", &without);
	assert_int_equal(with.optimal, 2000);
	assert_true(without.other_coverage <= 20);
	assert_true(without.optimal >= 1970);
	assert_true(without.over_sum / 2000 < 0.002);
}

/* Additions that give no idle node back, and no node that was not asked for. */
static void check_gives(const struct made *x, const struct fleet_plan *p)
{
	for (size_t g = 0; g < p->gives_n; g++) {
		int32_t idle = 0;

		for (size_t k = 0; k < x->ask.have_n; k++) {
			idle += x->have[k].pool_id == p->gives[g].pool_id ? x->have[k].idle : 0;
		}
		assert_true(p->gives[g].nodes <= idle);
		for (size_t i = 0; i < p->n; i++) {
			assert_int_not_equal(p->picks[i].score->offer->pool_id,
			    p->gives[g].pool_id);
		}
	}
}

static void check_coverage(const struct made *x, const struct fleet_plan *p, int64_t given,
    int64_t given_floor)
{
	int32_t none[POOLS_MAX] = { 0 };
	struct verdict before = judge(x, none);
	int64_t want = 1000 * (int64_t)(x->f.nodes + x->f.gpus), total = 0;

	for (size_t k = 0; k < x->n; k++) {
		total += weight(x, k) * had(x, k);
	}
	/* The plan gives back surplus nodes only, and never of the floor. */
	assert_true(given == 0 || total - given >= want);
	assert_true(given_floor == 0 || before.floor_short == 0);
	assert_true(given == 0 || p->missing == 0);
}

static void check_random(struct arena *a, struct rng *r)
{
	struct made *x = arena_alloc(a, sizeof(*x));
	struct fleet_plan p;
	int32_t add[POOLS_MAX];
	int64_t given = 0, given_floor = 0;

	fleet_make(a, x, r, POOLS_MAX - 1, 40);
	if (rng_below(r, 2) == 0) {
		have_make(x, r);
	}
	x->ask.search_max = (int64_t)rng_below(r, 300) - 1;
	fleet_plan_make(a, &x->ask, &p);
	adds_of(x, &p, add);
	assert_true(judge(x, add).allowed);
	for (size_t g = 0; g < p.gives_n; g++) {
		for (size_t k = 0; k < x->n; k++) {
			if (x->o[k].pool_id == p.gives[g].pool_id) {
				given += weight(x, k) * p.gives[g].nodes;
				given_floor += x->o[k].market != SPOT_MARKET_SPOT;
			}
		}
	}
	check_gives(x, &p);
	check_coverage(x, &p, given, given_floor);
	assert_true(p.gap >= 0 && p.gap <= 1);
	/* Something is missing only when each pool is stopped by something that is named. */
	if (p.missing > 0) {
		assert_true(p.usable == 0 || p.bindings_n > 0);
		for (size_t k = 0; k < x->n; k++) {
			add[k]++;
			assert_false(limits_allow(x, add));
			add[k]--;
		}
	}
}

/* Nothing is lost together with a single node, so that the cheapest is the best, and the printed
 * gap says so. */
static void one_node_has_no_gap(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct rng r;
	int cases = 0;

	(void)state;
	rng_seeded_init(&r, 43);
	while (cases < 200) {
		struct made *x = arena_alloc(a, sizeof(*x));
		struct fleet_plan p;

		fleet_make(a, x, &r, POOLS_MAX - 1, 40);
		x->f.on_demand_floor = x->f.floor_pm = x->f.pools_min = 0;
		x->ask.search_max = -1;
		for (size_t k = 0; k < x->n; k++) {
			x->o[k].has_quota = false;
		}
		if (x->f.nodes > 0 && x->n > 0) {
			x->f.nodes = 1;
			fleet_plan_make(a, &x->ask, &p);
			assert_int_equal(p.missing, 0);
			assert_true(p.gap < 1e-5);
			cases++;
		}
		arena_reset(a);
	}
}

static void limits_hold_in_random_fleets(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct rng r;

	(void)state;
	rng_seeded_init(&r, 43);
	for (int i = 0; i < 10000; i++) {
		check_random(a, &r);
		arena_reset(a);
	}
}

static void the_order_of_rows_does_not_matter(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct rng r;

	(void)state;
	rng_seeded_init(&r, 44);
	for (int i = 0; i < 1000; i++) {
		struct made *x = arena_alloc(a, sizeof(*x));
		struct score *other;
		struct fleet_ask ask;
		struct fleet_plan p, q;

		fleet_make(a, x, &r, POOLS_MAX - 1, 40);
		have_make(x, &r);
		fleet_plan_make(a, &x->ask, &p);
		other = arena_array(a, x->n, sizeof(*other));
		memcpy(other, x->s, x->n * sizeof(*other));
		for (size_t k = x->n; k > 1; k--) {
			size_t at = rng_below(&r, k);
			struct score swap = other[k - 1];

			other[k - 1] = other[at];
			other[at] = swap;
		}
		ask = x->ask;
		ask.scores = other;
		fleet_plan_make(a, &ask, &q);
		assert_int_equal(p.n, q.n);
		assert_string_equal(p.why, q.why);
		assert_int_equal(p.bound_micros, q.bound_micros);
		for (size_t k = 0; k < p.n; k++) {
			assert_ptr_equal(p.picks[k].score->offer, q.picks[k].score->offer);
			assert_int_equal(p.picks[k].nodes, q.picks[k].nodes);
		}
		arena_reset(a);
	}
}

/* Takes a plan as if all of it were launched. */
static void launch_all(struct made *x, const struct fleet_plan *p)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct offer *o = p->picks[i].score->offer;

		x->have[x->ask.have_n++] = (struct fleet_have){ .pool_id = o->pool_id,
			.zone = o->zone,
			.region = o->region,
			.provider = o->provider,
			.market = o->market,
			.gpu_milli = o->gpu_milli,
			.nodes = p->picks[i].nodes,
			.idle = p->picks[i].nodes,
			.price_micros = o->price_micros,
			.offer = o };
		for (size_t k = 0; k < x->n && o->has_quota; k++) {
			if (x->o[k].market == o->market && same(x->o[k].provider, o->provider) &&
			    same(x->o[k].region, o->region) &&
			    same(x->o[k].quota_class, o->quota_class)) {
				x->o[k].quota_used += 4 * p->picks[i].nodes;
			}
		}
	}
}

static void a_fleet_at_its_size_rests_while_prices_move(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct rng r;
	int whole = 0;

	(void)state;
	rng_seeded_init(&r, 45);
	for (int i = 0; i < 2000; i++) {
		struct made *x = arena_alloc(a, sizeof(*x));
		struct fleet_plan p;

		fleet_make(a, x, &r, POOLS_MAX / 2, 20);
		fleet_plan_make(a, &x->ask, &p);
		launch_all(x, &p);
		for (int turn = 0; turn < 3; turn++) {
			bool done = p.missing == 0 && p.floor_have >= p.floor_want;

			for (size_t k = 0; k < x->n; k++) {
				x->s[k].total_micros = x->s[k].total_micros *
				    (int64_t)(900 + rng_below(&r, 200)) / 1000;
			}
			fleet_plan_make(a, &x->ask, &p);
			assert_true(!done || (p.n == 0 && p.gives_n == 0));
			whole += done;
		}
		arena_reset(a);
	}
	assert_true(whole > 1000);
}

static void larger_fleets_are_near_a_linear_programme(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	double over = 0, over_most = 0, gap = 0;
	int cases = 0;
	struct rng r;

	(void)state;
	rng_seeded_init(&r, 46);
	while (cases < 500) {
		struct made *x = arena_alloc(a, sizeof(*x));
		struct fleet_plan p;
		double lp, all;

		fleet_make(a, x, &r, 40, 60);
		x->f.risk = 0;
		x->f.pools_min = 1;
		x->ask.search_max = -1;
		fleet_plan_make(a, &x->ask, &p);
		all = (double)p.cost_micros / 1e6;
		if (p.missing == 0 && all > 1 && x->f.nodes > 0) {
			lp = lp_bound(a, x, &p);
			assert_true(lp >= 0 && all >= lp - 1e-4);
			/* Dual prices cannot do better than the programme itself. */
			assert_true((double)p.bound_micros / 1e6 <= lp + 1e-4);
			over += (all - lp) / all;
			over_most = fmax(over_most, (all - lp) / all);
			gap += p.gap;
			cases++;
		}
		arena_reset(a);
	}
	print_message("%d fleets of up to 60 nodes in up to 40 pools: over the linear programme "
		      "mean %.3f %% most %.2f %%; printed gap "
		      "mean %.3f %%\n",
	    cases, over / cases * 100, over_most * 100, gap / cases * 100);
	assert_true(over / cases < 0.005);
	assert_true(gap / cases < 0.02);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_fleets_are_optimal),
		cmocka_unit_test(larger_fleets_are_near_a_linear_programme),
		cmocka_unit_test(one_node_has_no_gap),
		cmocka_unit_test(limits_hold_in_random_fleets),
		cmocka_unit_test(the_order_of_rows_does_not_matter),
		cmocka_unit_test(a_fleet_at_its_size_rests_while_prices_move),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
