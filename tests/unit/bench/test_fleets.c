/* Fleets in the simulation keep their books and their size, whatever the policy. */
#include "unit.h"

#include "fleets/held_brains.h"
#include "sim_world.h"

#include "base/base.h"
#include "base/text/text.h"

#define SEEDS 2
#define HORIZON_US (INT64_C(2) * 24 * SPOT_US_PER_HOUR)
#define STEPS ((size_t)(HORIZON_US / FS_STEP_US))

static const char fixed_file[] = "name: fixed\nnodes: 4\non_demand_floor: 1\nresources:\n"
				 "  accelerators: {V100: 1}\n";
static const char range_file[] = "name: range\nnodes: {min: 0, max: 6, target: 2}\nresources:\n"
				 "  accelerators: {V100: 1}\n";

static const struct held_conf whole, neither = { .no_return = true, .no_rebalance = true },
				     no_size = { .no_size = true };
static const struct held_base_conf on_demand = { .base = { .kind = BASE_ON_DEMAND } },
				   eager_any = { .base = { .kind = BASE_EAGER,
						     .or_on_demand = true } },
				   failover = { .base = { .kind = BASE_FAILOVER } },
				   cluster = { .base = { .kind = BASE_EAGER, .or_on_demand = true },
					   .whole = true };

enum { OURS, NEITHER, NO_SIZE, EAGER_ANY, FAILOVER, CLUSTER, ON_DEMAND, BRAINS };
enum { FIXED, RANGE, FILES };

struct run {
	struct held_world *w;
	struct held h;
	struct fs_result r;
};

static struct fs_brain brains[BRAINS];
static struct run runs[FILES][BRAINS][SEEDS];
static struct arena *room;

static void brains_make(void)
{
	held_ours("ours", &whole, &brains[OURS]);
	held_ours("neither", &neither, &brains[NEITHER]);
	held_ours("no size", &no_size, &brains[NO_SIZE]);
	held_base("eager, any", &eager_any, &brains[EAGER_ANY]);
	held_base("failover", &failover, &brains[FAILOVER]);
	held_base("cluster", &cluster, &brains[CLUSTER]);
	held_base("on demand", &on_demand, &brains[ON_DEMAND]);
}

static void run_make(const char *file, const struct fs_brain *b, uint64_t seed, struct run *ret)
{
	struct fs_world *w = arena_alloc(room, sizeof(*w));
	struct fleet_spec *spec;

	world_make(room, seed, w);
	ret->w = arena_alloc(room, sizeof(*ret->w));
	assert_true(held_spec_read(room, str_from(file), &spec));
	assert_true(held_world_make(room, w, spec, ret->w));
	held_run(room, ret->w, b, HORIZON_US, &ret->h);
	held_result(room, &ret->h, &ret->r);
}

static int runs_make(void **state)
{
	const char *files[FILES] = { fixed_file, range_file };

	(void)state;
	room = arena_new((size_t)1 << 30);
	brains_make();
	for (size_t f = 0; f < FILES; f++) {
		for (size_t b = 0; b < BRAINS; b++) {
			for (size_t k = 0; k < SEEDS; k++) {
				run_make(files[f], &brains[b], k + 1, &runs[f][b][k]);
			}
		}
	}
	return 0;
}

static int runs_free(void **state)
{
	(void)state;
	arena_free(room);
	return 0;
}

static void every_run(void (*f)(const struct run *r))
{
	for (size_t i = 0; i < (size_t)FILES * BRAINS * SEEDS; i++) {
		f(&runs[i / SEEDS / BRAINS][i / SEEDS % BRAINS][i % SEEDS]);
	}
}

/* ---- invariants ------------------------------------------------------------------------------ */

static void check_dollars(const struct run *r)
{
	assert_int_equal(r->r.node_micros, dollars_check(&r->h.s));
	assert_int_equal(r->r.dollars_micros, r->r.node_micros + r->r.egress_micros);
}

static void each_hour_of_a_node_is_billed_once(void **state)
{
	(void)state;
	every_run(check_dollars);
}

/* Its room is given back, and its move is over, when a node's last save begins. */
static bool node_there(const struct fs_node *n, int64_t t)
{
	return n->launched_us <= t && n->ended_us > t + WORLD_SAVE_US;
}

/* Counts the nodes of a minute: all, and those whose predecessor is still there. */
static void count_minute(const struct held *h, int64_t t, int32_t *ret_all, int32_t *ret_moves)
{
	*ret_all = *ret_moves = 0;
	for (size_t i = 0; i < h->s.nodes_n; i++) {
		int64_t old = h->nodes[i].replaces;

		if (node_there(&h->s.nodes[i], t)) {
			++*ret_all;
			*ret_moves += old >= 0 && node_there(&h->s.nodes[old], t);
		}
	}
}

static void check_size(const struct run *r)
{
	int32_t all, moves;

	for (size_t i = 0; i < STEPS; i++) {
		int32_t wanted = r->h.wanted_at[i];

		count_minute(&r->h, (int64_t)i * FS_STEP_US, &all, &moves);
		assert_true(wanted >= 0 && wanted <= held_most(r->w->spec));
		assert_true(all - moves <= wanted);
		assert_true(moves <= 1); /* rebalance.at_once */
	}
}

static void no_fleet_exceeds_its_size_by_more_than_its_moves(void **state)
{
	(void)state;
	every_run(check_size);
}

static void check_room(const struct run *r)
{
	const struct fs_sim *s = &r->h.s;

	for (size_t p = 0; p < 3; p++) {
		for (int64_t t = 0; t < HORIZON_US; t += FS_STEP_US) {
			int32_t live = 0;

			for (size_t i = 0; i < s->nodes_n; i++) {
				live +=
				    s->nodes[i].pool == (int32_t)p && node_there(&s->nodes[i], t);
			}
			assert_true(live <= fs_room(&s->w->pools[p], t));
		}
	}
}

static void no_fleet_holds_more_nodes_of_a_pool_than_it_had(void **state)
{
	(void)state;
	every_run(check_room);
}

/* Pieces of a job follow one another, and so do those of a node. */
static void check_work(const struct run *r)
{
	const struct fs_sim *s = &r->h.s;
	int64_t *job_free = arena_array(room, s->w->jobs_n + 1, sizeof(*job_free)),
		*node_free = arena_array(room, s->nodes_n + 1, sizeof(*node_free)),
		*kept = arena_array(room, s->w->jobs_n + 1, sizeof(*kept));

	for (size_t i = 0; i < s->pieces_n; i++) {
		const struct fs_piece *p = &s->pieces[i];
		const struct fs_node *n = &s->nodes[p->node];

		assert_true(p->kept_us >= 0 && p->lost_us >= 0);
		assert_true(p->kept_us + p->lost_us <= p->to_us - p->from_us);
		assert_true(p->from_us >= job_free[p->task] && p->from_us >= node_free[p->node]);
		assert_true(p->to_us <= n->ended_us);
		assert_true(p->from_us == p->to_us || p->from_us >= n->ready_us);
		job_free[p->task] = node_free[p->node] = p->to_us;
		kept[p->task] += p->kept_us;
	}
	for (size_t i = 0; i < s->w->jobs_n; i++) {
		assert_int_equal(kept[i], s->tasks[i].durable_us);
		assert_true(kept[i] <= s->w->jobs[i].work_us);
	}
}

static void a_node_does_one_job_and_a_job_has_one_node(void **state)
{
	(void)state;
	every_run(check_work);
}

static void check_moves(const struct run *r)
{
	const struct fs_sim *s = &r->h.s;

	for (size_t i = 0; i < s->pieces_n; i++) {
		const struct fs_piece *p = &s->pieces[i];

		assert_true(s->nodes[p->node].reclaimed || p->lost_us == 0);
	}
}

static void only_reclaims_lose_work_of_ours(void **state)
{
	int64_t moves = 0;

	(void)state;
	for (size_t f = 0; f < FILES; f++) {
		for (size_t k = 0; k < SEEDS; k++) {
			check_moves(&runs[f][OURS][k]);
			check_moves(&runs[f][NO_SIZE][k]);
			moves += runs[f][OURS][k].r.moves;
			assert_int_equal(runs[f][NEITHER][k].r.moves, 0);
		}
	}
	assert_true(moves > 0);
}

static void the_same_seed_gives_the_same_run(void **state)
{
	struct run again;

	(void)state;
	for (size_t b = 0; b < BRAINS; b += CLUSTER) {
		const struct run *one = &runs[RANGE][b][1];

		run_make(range_file, &brains[b], 2, &again);
		assert_memory_equal(&one->r, &again.r, sizeof(again.r));
		assert_memory_equal(one->h.wanted_at, again.h.wanted_at, STEPS * sizeof(int32_t));
	}
}

/* ---- policies -------------------------------------------------------------------------------- */

/* USD per GPU-hour of work, in the mean. */
static double work_price(size_t file, size_t brain)
{
	double sum = 0;

	for (size_t k = 0; k < SEEDS; k++) {
		const struct fs_result *r = &runs[file][brain][k].r;

		assert_true(r->work_h > 0);
		sum += (double)r->dollars_micros / 1e6 / r->work_h / SEEDS;
	}
	return sum;
}

static void ours_costs_no_more_than_on_demand(void **state)
{
	(void)state;
	for (size_t f = 0; f < FILES; f++) {
		assert_true(work_price(f, OURS) <= work_price(f, ON_DEMAND));
	}
	assert_true(work_price(FIXED, OURS) < work_price(FIXED, NEITHER));
}

static void on_demand_is_short_only_while_it_boots(void **state)
{
	(void)state;
	for (size_t k = 0; k < SEEDS; k++) {
		const struct run *r = &runs[FIXED][ON_DEMAND][k];

		assert_int_equal(r->h.short_us, 4 * r->w->w.boot_us);
		assert_int_equal(r->r.reclaims, 0);
		assert_int_equal(r->r.refused, 0);
		assert_int_equal(r->r.spot_micros, 0);
	}
}

static void a_range_follows_the_queue_down_to_zero(void **state)
{
	(void)state;
	for (size_t k = 0; k < SEEDS; k++) {
		const struct run *r = &runs[RANGE][OURS][k], *most = &runs[RANGE][NO_SIZE][k];
		int32_t peak = 0;

		for (size_t i = 0; i < STEPS; i++) {
			peak = MAX(peak, r->h.wanted_at[i]);
		}
		assert_true(peak > 2);
		assert_int_equal(r->h.wanted_at[STEPS - 1], 0);
		assert_int_equal(r->r.unfinished, 0);
		assert_true(r->r.node_h < most->r.node_h);
	}
}

/* A cluster has all its nodes, in one pool, or none. */
static void a_cluster_is_whole_or_not_there(void **state)
{
	static const struct held_base_conf spot = { .base = { .kind = BASE_EAGER }, .whole = true };
	struct fs_brain b;
	struct run r;
	int32_t all, moves;

	(void)state;
	held_base("cluster", &spot, &b);
	run_make("name: pair\nnodes: 2\nresources: {accelerators: {V100: 1}}\n", &b, 1, &r);
	for (size_t i = 0; i < STEPS; i++) {
		count_minute(&r.h, (int64_t)i * FS_STEP_US, &all, &moves);
		assert_true(all == 0 || all == 2);
	}
	for (size_t i = 0; i < r.h.s.nodes_n; i++) {
		assert_int_equal(r.h.s.nodes[i].pool, r.h.s.nodes[i / 2 * 2].pool);
	}
	assert_true(r.h.s.nodes_n > 2);
}

static void a_fleet_that_cannot_be_held_is_refused(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct fleet_spec *spec;
	static const char *const bad[] = { "name: a\nnodes: 4\n",
		"name: a\ngpus: 4\nresources: {accelerators: {V100: 1}}\n",
		"name: a\nnodes: 4\nresources: {accelerators: {V100: 1, H100: 1}}\n",
		"name: a\nnodes: 0\nresources: {accelerators: {V100: 1}}\n" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_false(held_spec_read(a, str_from(bad[i]), &spec));
	}
}

int fleets_run(void)
{
	const struct CMUnitTest fleets[] = {
		cmocka_unit_test(each_hour_of_a_node_is_billed_once),
		cmocka_unit_test(no_fleet_exceeds_its_size_by_more_than_its_moves),
		cmocka_unit_test(no_fleet_holds_more_nodes_of_a_pool_than_it_had),
		cmocka_unit_test(a_node_does_one_job_and_a_job_has_one_node),
		cmocka_unit_test(only_reclaims_lose_work_of_ours),
		cmocka_unit_test(the_same_seed_gives_the_same_run),
		cmocka_unit_test(ours_costs_no_more_than_on_demand),
		cmocka_unit_test(on_demand_is_short_only_while_it_boots),
		cmocka_unit_test(a_range_follows_the_queue_down_to_zero),
		cmocka_unit_test(a_cluster_is_whole_or_not_there),
		cmocka_unit_test(a_fleet_that_cannot_be_held_is_refused),
	};

	return cmocka_run_group_tests(fleets, runs_make, runs_free);
}
