/* The fleet simulation keeps its own books right, whatever the policy: its report rests on that. */
#include "unit.h"

#include "brains.h"
#include "sim_world.h"

#include "base/base.h"

#define HORIZON_US (20 * 24 * SPOT_US_PER_HOUR)

static const struct ours_conf ours_whole;
static const struct base_conf on_demand = { .kind = BASE_ON_DEMAND },
			      eager = { .kind = BASE_EAGER },
			      eager_any = { .kind = BASE_EAGER, .or_on_demand = true },
			      failover = { .kind = BASE_FAILOVER };

enum { OURS, EAGER, EAGER_ANY, FAILOVER, ON_DEMAND, BRAINS };

static void brains_make(struct fs_brain b[BRAINS])
{
	ours_brain("ours", &ours_whole, &b[OURS]);
	base_brain("eager", &eager, &b[EAGER]);
	base_brain("eager, any", &eager_any, &b[EAGER_ANY]);
	base_brain("failover", &failover, &b[FAILOVER]);
	base_brain("on demand", &on_demand, &b[ON_DEMAND]);
}

/* Calls f for every policy in worlds of several seeds. */
static void every_run(void (
    *f)(const struct fs_world *, const struct fs_brain *, const struct fs_sim *, struct arena *))
{
	struct fs_brain b[BRAINS];

	brains_make(b);
	for (uint64_t seed = 1; seed <= 2; seed++) {
		for (size_t i = 0; i < BRAINS; i++) {
			AUTO(arena) struct arena *a = arena_new(0);
			struct fs_world w;
			struct fs_sim s;

			world_make(a, seed, &w);
			fs_run(a, &w, &b[i], HORIZON_US, &s);
			f(&w, &b[i], &s, a);
		}
	}
}

/* ---- invariants ------------------------------------------------------------------------------ */

static void check_dollars(const struct fs_world *w, const struct fs_brain *b,
    const struct fs_sim *s, struct arena *a)
{
	struct fs_result r;

	(void)b;
	(void)w;
	fs_result(a, s, &r);
	assert_int_equal(r.node_micros, dollars_check(s));
	assert_int_equal(r.dollars_micros, r.node_micros + r.egress_micros);
}

static void dollars_are_the_sum_of_node_intervals_times_prices(void **state)
{
	(void)state;
	every_run(check_dollars);
}

static void check_work(const struct fs_world *w, const struct fs_brain *b, const struct fs_sim *s,
    struct arena *a)
{
	(void)b;
	int64_t *kept = arena_array(a, w->jobs_n, sizeof(*kept)),
		*lost = arena_array(a, w->jobs_n, sizeof(*lost));

	for (size_t i = 0; i < s->pieces_n; i++) {
		const struct fs_piece *p = &s->pieces[i];

		kept[p->task] += p->kept_us;
		lost[p->task] += p->lost_us;
		assert_true(p->kept_us >= 0 && p->lost_us >= 0);
		assert_true(p->kept_us + p->lost_us <= p->to_us - p->from_us);
	}
	for (size_t i = 0; i < w->jobs_n; i++) {
		assert_int_equal(s->tasks[i].state, FS_DONE);
		assert_int_equal(kept[i], w->jobs[i].work_us);
		assert_int_equal(lost[i], s->tasks[i].lost_us);
		assert_true(s->tasks[i].finish_us >=
		    w->jobs[i].submit_us + w->boot_us + w->restore_us + w->jobs[i].work_us);
	}
}

static void work_done_is_work_asked_for_and_no_more(void **state)
{
	(void)state;
	every_run(check_work);
}

static void check_places(const struct fs_world *w, const struct fs_brain *b, const struct fs_sim *s,
    struct arena *a)
{
	int64_t *free_at = arena_array(a, w->jobs_n, sizeof(*free_at));

	/* Pieces of a job are in order of time. */
	for (size_t i = 0; i < s->pieces_n; i++) {
		const struct fs_piece *p = &s->pieces[i];
		const struct fs_node *n = &s->nodes[p->node];

		assert_int_equal(n->task, p->task);
		assert_true(p->to_us <= n->ended_us);
		assert_true(p->from_us == p->to_us ||
		    p->from_us >= MAX(n->ready_us, free_at[p->task]) + w->restore_us);
		free_at[p->task] = n->ended_us;
	}
	for (size_t i = 0; i < s->nodes_n; i++) {
		size_t beside = 0;

		for (size_t k = 0; k < i; k++) {
			beside += s->nodes[k].task == s->nodes[i].task &&
			    s->nodes[k].ended_us > s->nodes[i].launched_us;
		}
		/* Only a replacement is launched before the old node is left, and only by us. */
		assert_true(beside <= (b->interval != NULL ? 1 : 0));
	}
}

static void no_job_runs_in_two_places_at_once(void **state)
{
	(void)state;
	every_run(check_places);
}

static void check_room(const struct fs_world *w, const struct fs_brain *b, const struct fs_sim *s,
    struct arena *a)
{
	(void)a;
	(void)b;
	for (size_t p = 0; p < 3; p++) {
		for (int64_t t = 0; t < s->t; t += FS_STEP_US) {
			int32_t live = 0;

			for (size_t i = 0; i < s->nodes_n; i++) {
				const struct fs_node *n = &s->nodes[i];

				/* Its room is given back when a node's last save begins. */
				live += n->pool == (int32_t)p && n->launched_us <= t &&
				    n->ended_us > t + WORLD_SAVE_US;
			}
			assert_true(live <= fs_room(&w->pools[p], t));
		}
	}
}

static void no_pool_holds_more_nodes_than_it_had_room_for(void **state)
{
	(void)state;
	every_run(check_room);
}

static void the_same_seed_gives_the_same_run(void **state)
{
	struct fs_brain b[BRAINS];

	(void)state;
	brains_make(b);
	for (size_t i = 0; i < BRAINS; i++) {
		AUTO(arena) struct arena *a = arena_new(0);
		struct fs_world w;
		struct fs_sim one, two;
		struct fs_result r1, r2;

		world_make(a, 9, &w);
		fs_run(a, &w, &b[i], HORIZON_US, &one);
		fs_run(a, &w, &b[i], HORIZON_US, &two);
		fs_result(a, &one, &r1);
		fs_result(a, &two, &r2);
		assert_memory_equal(&r1, &r2, sizeof(r1));
		assert_int_equal(one.nodes_n, two.nodes_n);
		for (size_t k = 0; k < one.nodes_n; k++) {
			const struct fs_node *x = &one.nodes[k], *y = &two.nodes[k];

			assert_true(x->task == y->task && x->pool == y->pool &&
			    x->launched_us == y->launched_us && x->ready_us == y->ready_us &&
			    x->ended_us == y->ended_us && x->reclaimed == y->reclaimed);
		}
	}
}

static void later_data_changes_nothing_before(void **state)
{
	struct fs_brain b[BRAINS];
	size_t turn = 60; /* sample from which the future is another */

	(void)state;
	brains_make(b);
	for (size_t i = 0; i < BRAINS; i++) {
		AUTO(arena) struct arena *a = arena_new(0);
		struct fs_world w, other;
		struct fs_sim one, two;
		size_t before = 0;

		world_make(a, 5, &w);
		world_make(a, 5, &other);
		for (size_t p = 0; p < 3; p++) {
			int32_t *room = arena_array(a, WORLD_SAMPLES, sizeof(*room));

			for (size_t k = 0; k < WORLD_SAMPLES; k++) {
				room[k] =
				    k < turn ? other.pools[p].room[k] : 4 - other.pools[p].room[k];
			}
			other.pools[p].room = room;
		}
		fs_run(a, &w, &b[i], HORIZON_US, &one);
		fs_run(a, &other, &b[i], HORIZON_US, &two);
		while (before < one.nodes_n &&
		    one.nodes[before].launched_us < (int64_t)turn * 600 * SPOT_US_PER_S) {
			assert_true(before < two.nodes_n);
			assert_int_equal(one.nodes[before].pool, two.nodes[before].pool);
			assert_int_equal(one.nodes[before].launched_us,
			    two.nodes[before].launched_us);
			before++;
		}
		assert_true(before > 10);
	}
}

static void on_demand_meets_every_deadline_and_loses_nothing(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct fs_brain b[BRAINS];
	struct fs_world w;
	struct fs_result r;
	struct fs_sim s;

	(void)state;
	brains_make(b);
	world_make(a, 3, &w);
	fs_run(a, &w, &b[ON_DEMAND], HORIZON_US, &s);
	fs_result(a, &s, &r);
	assert_int_equal(r.misses, 0);
	assert_int_equal(r.reclaims, 0);
	assert_int_equal(r.spot_micros, 0);
	assert_float_equal(r.lost_h, 0, 0);
}

static void a_notice_that_is_heard_saves_work(void **state)
{
	struct fs_brain b[BRAINS];
	double heard = 0, deaf = 0;

	(void)state;
	brains_make(b);
	for (uint64_t seed = 1; seed <= 3; seed++) {
		AUTO(arena) struct arena *a = arena_new(0);
		struct fs_world w;
		struct fs_result r;
		struct fs_sim s;

		world_make(a, seed, &w);
		b[OURS].hears_notice = true;
		fs_run(a, &w, &b[OURS], HORIZON_US, &s);
		fs_result(a, &s, &r);
		heard += r.lost_h;
		assert_true(r.reclaims > 0);
		b[OURS].hears_notice = false;
		fs_run(a, &w, &b[OURS], HORIZON_US, &s);
		fs_result(a, &s, &r);
		deaf += r.lost_h;
	}
	assert_true(heard < deaf / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dollars_are_the_sum_of_node_intervals_times_prices),
		cmocka_unit_test(work_done_is_work_asked_for_and_no_more),
		cmocka_unit_test(no_job_runs_in_two_places_at_once),
		cmocka_unit_test(no_pool_holds_more_nodes_than_it_had_room_for),
		cmocka_unit_test(the_same_seed_gives_the_same_run),
		cmocka_unit_test(later_data_changes_nothing_before),
		cmocka_unit_test(on_demand_meets_every_deadline_and_loses_nothing),
		cmocka_unit_test(a_notice_that_is_heard_saves_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) + fleets_run();
}
