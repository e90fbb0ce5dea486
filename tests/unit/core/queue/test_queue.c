/* Order, backfill and victims: examples in words, and properties over seeded random cases. */
#include "base/base.h"
#include "core/queue/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define H SPOT_US_PER_HOUR
#define DOLLAR INT64_C(1000000)
#define NOW (1000 * H)

static struct arena *arena;
static struct schedule_policy policy;

static int setup(void **state)
{
	(void)state;
	arena = arena_new(0);
	schedule_policy_default(&policy);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	arena_free(arena);
	return 0;
}

static const int64_t *order_ids(const struct schedule_team *teams, size_t teams_n,
    const struct schedule_job *jobs, size_t n, struct schedule_place **ret)
{
	struct schedule_place *p = arena_array(arena, n + 1, sizeof(*p));
	int64_t *ids = arena_array(arena, n + 1, sizeof(*ids));

	schedule_order(arena, &policy, NOW, teams, teams_n, jobs, n, p);
	for (size_t i = 0; i < n; i++) {
		ids[i] = jobs[p[i].job].id;
	}
	if (ret != NULL) {
		*ret = p;
	}
	return ids;
}

/* ---- order ----------------------------------------------------------------------------------- */

static void priority_goes_before_everything_else(void **state)
{
	const struct schedule_job jobs[] = {
		{ .id = 1,
		    .team = "a",
		    .priority = 0,
		    .queued_us = NOW - 2 * H,
		    .deadline_us = NOW + H,
		    .left_us = H },
		{ .id = 2, .team = "b", .priority = 5, .queued_us = NOW },
	};
	struct schedule_place *p;

	(void)state;
	assert_int_equal(order_ids(NULL, 0, jobs, 2, &p)[0], 2);
	assert_string_equal(p[0].why, "first in the queue");
	assert_string_equal(p[1].why, "behind j2: its priority is 5, this one's 0");
}

static void the_nearest_deadline_goes_first_among_equals(void **state)
{
	const struct schedule_job jobs[] = {
		{ .id = 1, .team = "a", .queued_us = NOW - 2 * H },
		{ .id = 2,
		    .team = "a",
		    .queued_us = NOW,
		    .deadline_us = NOW + 10 * H,
		    .left_us = 5 * H },
		{ .id = 3,
		    .team = "a",
		    .queued_us = NOW,
		    .deadline_us = NOW + 10 * H,
		    .left_us = 10 * H },
	};
	const int64_t *ids;
	struct schedule_place *p;

	(void)state;
	ids = order_ids(NULL, 0, jobs, 3, &p);
	assert_int_equal(ids[0], 3);
	assert_int_equal(ids[1], 2);
	assert_int_equal(ids[2], 1);
	assert_string_equal(p[2].why,
	    "behind j2: its deadline leaves less than 6h, this one's is not given");
}

static void a_team_that_spent_more_than_its_share_waits(void **state)
{
	const struct schedule_team teams[] = { { "nlp", 1000, 90 * DOLLAR },
		{ "vision", 1000, 10 * DOLLAR } };
	const struct schedule_job jobs[] = {
		{ .id = 1, .team = "nlp", .queued_us = NOW - H, .cost_micros = DOLLAR },
		{ .id = 2, .team = "vision", .queued_us = NOW, .cost_micros = DOLLAR },
	};
	struct schedule_place *p;

	(void)state;
	assert_int_equal(order_ids(teams, 2, jobs, 2, &p)[0], 2);
	assert_string_equal(p[1].why,
	    "behind j2: team nlp used 1.8 times its share, team vision 0.2 times");
	assert_true(p[1].ratio > 1.7 && p[1].ratio < 1.9);
}

static void a_bigger_share_is_a_bigger_claim(void **state)
{
	const struct schedule_team teams[] = { { "nlp", 9000, 80 * DOLLAR },
		{ "vision", 1000, 20 * DOLLAR } };
	const struct schedule_job jobs[] = { { .id = 1, .team = "vision", .queued_us = NOW - H },
		{ .id = 2, .team = "nlp", .queued_us = NOW } };

	(void)state;
	assert_int_equal(order_ids(teams, 2, jobs, 2, NULL)[0], 2);
}

static void teams_with_equal_shares_take_turns(void **state)
{
	struct schedule_job jobs[20];
	const int64_t *ids;

	(void)state;
	for (int i = 0; i < 20; i++) {
		jobs[i] = (struct schedule_job){ .id = i + 1,
			.team = i < 10 ? "a" : "b",
			.queued_us = NOW - H + i,
			.cost_micros = DOLLAR };
	}
	ids = order_ids(NULL, 0, jobs, 20, NULL);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(ids[i] > 10, i % 2);
	}
}

static void waiting_raises_a_priority_slowly_and_not_for_ever(void **state)
{
	struct schedule_place *p;
	const struct schedule_job jobs[] = {
		{ .id = 1, .team = "", .priority = 20, .queued_us = NOW },
		{ .id = 2, .team = "", .priority = 0, .queued_us = NOW - 12 * H }
	};

	(void)state;
	assert_int_equal(schedule_effective(&policy, 7, NOW - 11 * H, NOW), 7);
	assert_int_equal(schedule_effective(&policy, 7, NOW - 13 * H, NOW), 32);
	assert_int_equal(schedule_effective(&policy, 7, 0, NOW * 1000), 107);
	assert_int_equal(schedule_effective(&policy, 7, NOW + H, NOW), 7);
	assert_int_equal(order_ids(NULL, 0, jobs, 2, &p)[0], 2);
	assert_string_equal(p[0].why, "first in the queue (0, and 25 for waiting 12h)");
}

static const char *const team_names[] = { "", "nlp", "vision", "speech", "robots" };

static size_t random_queue(struct rng *r, struct schedule_team *teams, struct schedule_job *jobs)
{
	size_t n = rng_below(r, 30);

	for (size_t i = 0; i < 5; i++) {
		teams[i] = (struct schedule_team){ team_names[i], 1 + (int64_t)rng_below(r, 3000),
			(int64_t)rng_below(r, 100) * DOLLAR };
	}
	for (size_t i = 0; i < n; i++) {
		jobs[i] = (struct schedule_job){ .id = (int64_t)i + 1,
			.team = team_names[rng_below(r, 5)],
			.priority = (int32_t)rng_below(r, 3) * 10,
			.queued_us = NOW - (int64_t)rng_below(r, 30) * H,
			.deadline_us =
			    rng_below(r, 3) == 0 ? NOW + (int64_t)rng_below(r, 40) * H : 0,
			.left_us = (int64_t)rng_below(r, 9) * H,
			.cost_micros = (int64_t)rng_below(r, 9) * DOLLAR };
	}
	return n;
}

static void the_order_is_a_permutation_sorted_by_its_rules_whatever_the_input_order(void **state)
{
	struct rng r;

	(void)state;
	rng_seeded_init(&r, 11);
	for (int k = 0; k < 3000; k++) {
		struct schedule_team teams[5];
		struct schedule_job jobs[30], mixed[30];
		size_t n = random_queue(&r, teams, jobs);
		const int64_t *ids, *again;
		struct schedule_place *p;
		uint64_t seen = 0;

		ids = order_ids(teams, 5, jobs, n, &p);
		for (size_t i = 0; i < n; i++) {
			seen |= UINT64_C(1) << ids[i];
			assert_non_null(p[i].why);
			if (i > 0) {
				assert_true(p[i - 1].effective > p[i].effective ||
				    (p[i - 1].effective == p[i].effective &&
					p[i - 1].urgency <= p[i].urgency));
			}
			mixed[i] = jobs[n - 1 - i];
		}
		assert_int_equal(seen, ((UINT64_C(1) << n) - 1) << 1);
		again = order_ids(teams, 5, mixed, n, NULL);
		assert_memory_equal(ids, again, n * sizeof(*ids));
		arena_reset(arena);
	}
}

/* One machine, served in order, and an endless stream of jobs of higher priority, within the reach
 * of ageing. The waiting job gets its turn. */
static void nobody_starves_behind_a_stream_within_reach_of_ageing(void **state)
{
	struct rng r;

	(void)state;
	rng_seeded_init(&r, 12);
	for (int k = 0; k < 200; k++) {
		int32_t above = (int32_t)rng_below(&r, (uint64_t)policy.age_max);
		int64_t now = NOW, mine = NOW;
		bool served = false;

		for (int t = 0; t < 100 && !served; t++, now += H) {
			struct schedule_job jobs[] = {
				{ .id = 1,
				    .team = "a",
				    .priority = 0,
				    .queued_us = mine,
				    .cost_micros = DOLLAR },
				{ .id = 2 + t,
				    .team = "b",
				    .priority = above,
				    .queued_us = now,
				    .cost_micros = DOLLAR },
			};
			struct schedule_place p[2];

			schedule_order(arena, &policy, now, NULL, 0, jobs, 2, p);
			served = p[0].job == 0;
		}
		assert_true(served);
		arena_reset(arena);
	}
}

/* Two teams with unequal shares, always both waiting: their machines come to their shares. */
static void served_in_order_dollars_come_to_the_shares(void **state)
{
	struct schedule_team teams[] = { { "a", 3000, 50 * DOLLAR }, { "b", 1000, 0 } };
	struct rng r;

	(void)state;
	rng_seeded_init(&r, 13);
	for (int t = 0; t < 4000; t++) {
		struct schedule_job jobs[2];
		struct schedule_place p[2];

		for (int i = 0; i < 2; i++) {
			jobs[i] = (struct schedule_job){ .id = 2 * t + i,
				.team = teams[i].team,
				.queued_us = NOW,
				.cost_micros = (1 + (int64_t)rng_below(&r, 5)) * DOLLAR };
		}
		schedule_order(arena, &policy, NOW, teams, 2, jobs, 2, p);
		teams[p[0].job].spent_micros += jobs[p[0].job].cost_micros;
		arena_reset(arena);
	}
	assert_true(schedule_ratio(teams, 2, 0) > 0.99 && schedule_ratio(teams, 2, 0) < 1.01);
	assert_true(schedule_ratio(teams, 2, 1) > 0.99 && schedule_ratio(teams, 2, 1) < 1.01);
}

/* ---- backfill -------------------------------------------------------------------------------- */

static void a_job_that_ends_before_the_blocked_one_begins_may_go_ahead(void **state)
{
	const struct backfill_run runs[] = { { NOW + 5 * H, 4 }, { NOW + 2 * H, 2 } };
	struct backfill b;

	(void)state;
	backfill_reserve(arena, NOW, 8, 6, 8, runs, 2, &b);
	assert_int_equal(b.shadow_us, NOW + 5 * H);
	assert_int_equal(b.spare, 0);
	assert_true(backfill_take(&b, 2, NOW + 5 * H));
	assert_false(backfill_take(&b, 1, NOW + 5 * H + 1));
	/* A job may take the surplus over the blocked job's need for long, once. */
	backfill_reserve(arena, NOW, 8, 6, 7, runs, 2, &b);
	assert_true(backfill_take(&b, 1, NOW + 50 * H));
	assert_false(backfill_take(&b, 1, NOW + 50 * H));
}

static void a_job_that_can_never_begin_holds_nobody_up(void **state)
{
	const struct backfill_run run = { NOW + H, 1 };
	struct backfill b;

	(void)state;
	backfill_reserve(arena, NOW, 2, 1, 9, &run, 1, &b);
	assert_int_equal(b.shadow_us, INT64_MAX);
	assert_true(backfill_take(&b, 1, NOW + 50 * H));
}

static void an_end_that_is_past_counts_as_any_moment(void **state)
{
	const struct backfill_run run = { NOW - H, 4 };
	struct backfill b;

	(void)state;
	backfill_reserve(arena, NOW, 4, 4, 4, &run, 1, &b);
	assert_int_equal(b.shadow_us, NOW);
}

/* Two machines that go back were read before the quota's use, which lacks one of them already: it
 * is not room twice. */
static void a_machine_that_went_between_two_reads_is_not_counted_as_room_twice(void **state)
{
	const struct backfill_run idle[] = { { 0, 12 }, { 0, 12 } };
	struct backfill b;

	(void)state;
	backfill_reserve(arena, NOW, 36, 12, 36, idle, 2, &b);
	assert_int_equal(b.shadow_us, NOW);
	assert_int_equal(b.spare, 0);
	assert_false(backfill_fits(&b, 12, NOW + 100 * H));
}

/* The earliest moment at which need units are free, by stepping through all ends. */
static int64_t earliest_start(int64_t free, int64_t need, const struct backfill_run *runs, size_t n)
{
	int64_t best = free >= need ? NOW : INT64_MAX;

	for (size_t i = 0; i < n; i++) {
		int64_t at = MAX(runs[i].end_us, NOW), there = free;

		for (size_t k = 0; k < n; k++) {
			there += runs[k].end_us <= at ? runs[k].units : 0;
		}
		best = there >= need ? MIN(best, at) : best;
	}
	return best;
}

static void going_ahead_never_delays_the_blocked_job_by_prediction(void **state)
{
	struct rng r;
	int64_t ahead = 0, held = 0;

	(void)state;
	rng_seeded_init(&r, 14);
	for (int k = 0; k < 20000; k++) {
		struct backfill_run runs[40];
		size_t n = rng_below(&r, 12);
		int64_t free = (int64_t)rng_below(&r, 8),
			need = free + 1 + (int64_t)rng_below(&r, 20), used = 0, first;
		struct backfill b;

		for (size_t i = 0; i < n; i++) {
			runs[i] = (struct backfill_run){ NOW + (int64_t)rng_below(&r, 10) * H - H,
				(int64_t)rng_below(&r, 6) };
			used += runs[i].units;
		}
		first = earliest_start(free, need, runs, n);
		backfill_reserve(arena, NOW, free + used, used, need, runs, n, &b);
		assert_int_equal(b.shadow_us, first);
		for (int t = 0; t < 20; t++) {
			struct backfill_run x = { NOW + (int64_t)rng_below(&r, 14) * H,
				1 + (int64_t)rng_below(&r, 4) };

			if (x.units > free || !backfill_take(&b, x.units, x.end_us)) {
				held += x.units <= free;
				continue;
			}
			ahead++;
			free -= x.units;
			runs[n++] = x;
		}
		if (first != INT64_MAX) {
			assert_int_equal(earliest_start(free, need, runs, n), first);
		}
		arena_reset(arena);
	}
	/* Both happened, or nothing was tested. */
	assert_true(ahead > 1000 && held > 1000);
}

/* ---- victims --------------------------------------------------------------------------------- */

static struct victim training_victim(void)
{
	return (struct victim){ .job_id = 1,
		.interruptible = true,
		.preemptible = true,
		.has_path = true,
		.price_micros = 10 * DOLLAR,
		.ran_us = 5 * H,
		.saved_us = H,
		.save_us = H / 60,
		.restart_us = H / 15,
		.units = 1 };
}

static void the_words_name_jobs_that_cannot_be_preempted(void **state)
{
	struct victim v = training_victim();

	(void)state;
	assert_null(victim_refusal(arena, &policy, &v, 100, NOW));
	assert_string_equal(victim_refusal(arena, &policy, &v, 99, NOW),
	    "its priority is 0: not 100 below 99");
	v.last_us = NOW - H / 2;
	assert_string_equal(victim_refusal(arena, &policy, &v, 100, NOW),
	    "it had to leave 30m00s ago");
	v.last_us = NOW - 2 * H;
	assert_null(victim_refusal(arena, &policy, &v, 100, NOW));
	v.preemptible = false;
	assert_non_null(victim_refusal(arena, &policy, &v, 1000, NOW));
	v = training_victim();
	v.interruptible = false;
	assert_non_null(victim_refusal(arena, &policy, &v, 1000, NOW));
	v = training_victim();
	v.moving = true;
	assert_non_null(victim_refusal(arena, &policy, &v, 1000, NOW));
	v = training_victim();
	policy.preempt_gap = 0;
	assert_string_equal(victim_refusal(arena, &policy, &v, 1000, NOW), "preemption is off");
}

static void leaving_costs_the_save_the_restart_and_what_is_done_again(void **state)
{
	struct victim v = training_victim();

	(void)state;
	/* 10 DOLLAR/h: 1 min save, 4 min restart, and a tenth of the hour that is not saved. */
	assert_int_equal(victim_cost(&v, 0.9),
	    (int64_t)(10.0 * DOLLAR * (1.0 / 60 + 1.0 / 15 + 0.1) + 0.5));
	v.has_path = false;
	assert_int_equal(victim_cost(&v, 0.9), (int64_t)(10.0 * DOLLAR * (1.0 / 15 + 5) + 0.5));
}

static void the_one_that_saved_last_leaves(void **state)
{
	struct victim v[3] = { training_victim(), training_victim(), training_victim() };
	size_t *chosen, n;

	(void)state;
	v[1].saved_us = H / 10;
	for (int i = 0; i < 3; i++) {
		v[i].cost_micros = victim_cost(&v[i], 0.9);
	}
	assert_true(victims_choose(arena, v, 3, 1, &chosen, &n));
	assert_int_equal(n, 1);
	assert_int_equal(chosen[0], 1);
	assert_false(victims_choose(arena, v, 3, 4, &chosen, &n));
}

static void a_job_with_a_deadline_leaves_only_where_it_still_meets_it(void **state)
{
	struct victim v = training_victim();
	int64_t needed;

	(void)state;
	v.left_us = 4 * H;
	/* Saved, left alone, started again, the hours since the checkpoint repeated, and the rest
	 * with half as much on top. */
	needed = v.save_us + policy.preempt_hold_us + v.restart_us + v.saved_us + 6 * H;
	v.deadline_us = NOW + needed;
	assert_null(victim_refusal(arena, &policy, &v, 100, NOW));
	assert_string_equal(victim_refusal(arena, &policy, &v, 100, NOW + 1),
	    "it might miss its deadline");
	/* Without checkpoints everything is done again. */
	v.has_path = false;
	v.deadline_us = NOW + needed - v.saved_us + v.ran_us;
	assert_true(victim_deadline_holds(&policy, &v, NOW));
	assert_false(victim_deadline_holds(&policy, &v, NOW + 1));
	v.left_us = 0;
	v.deadline_us = NOW + 1000 * H;
	assert_false(victim_deadline_holds(&policy, &v, NOW));
	v.deadline_us = NOW - 1;
	v.left_us = 1;
	assert_false(victim_deadline_holds(&policy, &v, NOW));
	v.deadline_us = 0;
	assert_true(victim_deadline_holds(&policy, &v, NOW));
}

static void victims_search(const struct victim *v, size_t n, int64_t need, int64_t *cost,
    int *count)
{
	*cost = INT64_MAX;
	*count = INT32_MAX;
	for (uint32_t set = 0; set < UINT32_C(1) << n; set++) {
		int64_t c = 0, units = 0;
		int m = 0;

		for (size_t i = 0; i < n; i++) {
			if ((set >> i & 1) != 0) {
				c += v[i].cost_micros;
				units += v[i].units;
				m++;
			}
		}
		if (units >= need && (c < *cost || (c == *cost && m < *count))) {
			*cost = c;
			*count = m;
		}
	}
}

static void the_set_is_the_cheapest_of_all_sets(void **state)
{
	struct rng r;
	int found = 0, none = 0;

	(void)state;
	rng_seeded_init(&r, 15);
	for (int k = 0; k < 20000; k++) {
		struct victim v[10];
		size_t n = rng_below(&r, 11), *chosen, chosen_n;
		int64_t scale = 1 + (int64_t)rng_below(&r, 3) * 7,
			need = (1 + (int64_t)rng_below(&r, 12)) * scale - (int64_t)rng_below(&r, 2);
		int64_t cost, got = 0, units = 0;
		int count;

		for (size_t i = 0; i < n; i++) {
			v[i] = (struct victim){ .job_id = (int64_t)i,
				.units = (int64_t)rng_below(&r, 6) * scale,
				.cost_micros = (int64_t)rng_below(&r, 20) * DOLLAR };
		}
		victims_search(v, n, need, &cost, &count);
		if (!victims_choose(arena, v, n, need, &chosen, &chosen_n)) {
			assert_int_equal(cost, INT64_MAX);
			none++;
			continue;
		}
		for (size_t i = 0; i < chosen_n; i++) {
			got += v[chosen[i]].cost_micros;
			units += v[chosen[i]].units;
			assert_true(i == 0 || chosen[i - 1] < chosen[i]);
		}
		assert_true(units >= need);
		assert_int_equal(got, cost);
		assert_int_equal(chosen_n, MAX(count, 0));
		found++;
		arena_reset(arena);
	}
	assert_true(found > 5000 && none > 1000);
}

static void a_need_beyond_the_table_is_still_covered(void **state)
{
	struct victim v[3] = { { .job_id = 1, .units = 99991, .cost_micros = 5 },
		{ .job_id = 2, .units = 10007, .cost_micros = 1 },
		{ .job_id = 3, .units = 7, .cost_micros = 0 } };
	size_t *chosen, n;

	(void)state;
	assert_true(victims_choose(arena, v, 3, 90000, &chosen, &n));
	assert_int_equal(chosen[0], 0);
	assert_int_equal(n, 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(priority_goes_before_everything_else),
		T(the_nearest_deadline_goes_first_among_equals),
		T(a_team_that_spent_more_than_its_share_waits),
		T(a_bigger_share_is_a_bigger_claim),
		T(teams_with_equal_shares_take_turns),
		T(waiting_raises_a_priority_slowly_and_not_for_ever),
		T(the_order_is_a_permutation_sorted_by_its_rules_whatever_the_input_order),
		T(nobody_starves_behind_a_stream_within_reach_of_ageing),
		T(served_in_order_dollars_come_to_the_shares),
		T(a_job_that_ends_before_the_blocked_one_begins_may_go_ahead),
		T(a_job_that_can_never_begin_holds_nobody_up),
		T(an_end_that_is_past_counts_as_any_moment),
		T(a_machine_that_went_between_two_reads_is_not_counted_as_room_twice),
		T(going_ahead_never_delays_the_blocked_job_by_prediction),
		T(the_words_name_jobs_that_cannot_be_preempted),
		T(a_job_with_a_deadline_leaves_only_where_it_still_meets_it),
		T(leaving_costs_the_save_the_restart_and_what_is_done_again),
		T(the_one_that_saved_last_leaves),
		T(the_set_is_the_cheapest_of_all_sets),
		T(a_need_beyond_the_table_is_still_covered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
