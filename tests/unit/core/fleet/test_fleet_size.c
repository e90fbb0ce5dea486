/* The size of a fleet: its rules one by one, and traces that try to make it oscillate. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/fleet/fleet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define MIN_US (60 * SPOT_US_PER_S)
#define T0 (INT64_C(1790000000) * SPOT_US_PER_S)
#define NODES 64

/* A fleet that is driven by hand: nodes boot at once unless told. */
struct driven {
	struct arena *a;
	struct fleet_scaling s;
	struct fleet_size_in in;
	struct fleet_size out;
	struct fleet_size_node nodes[NODES];
	struct fleet_demand demand;
	int64_t launches, node_minutes;
};

static void driven_init(struct driven *d, struct arena *a)
{
	*d = (struct driven){ .a = a };
	d->s = (struct fleet_scaling){ .max = 20,
		.idle_us = 10 * MIN_US,
		.wait_us = 2 * MIN_US,
		.cooldown_us = 5 * MIN_US,
		.per = 1 };
	d->in = (struct fleet_size_in){ .scaling = &d->s,
		.now_us = T0,
		.created_us = T0,
		.nodes = d->nodes,
		.demands = &d->demand,
		.demands_n = 1 };
}

/* Decides, stores what the row would have, and keeps it. */
static int32_t decide(struct driven *d)
{
	fleet_size_decide(d->a, &d->in, &d->out);
	if (!d->in.sized || d->out.size != d->in.size) {
		d->in.size_us = d->in.now_us;
	}
	d->in.sized = true;
	d->in.size = d->out.size;
	d->in.open = d->out.open;
	d->in.slack_us = d->out.slack_us;
	return d->out.size;
}

static void after(struct driven *d, int64_t us)
{
	d->in.now_us += us;
}

/* Brings the nodes to the size as the engine would: new ones are ready and idle at once, and those
 * longest idle go back. */
static void nodes_follow(struct driven *d)
{
	while (d->in.nodes_n < (size_t)d->in.size) {
		d->nodes[d->in.nodes_n++] = (struct fleet_size_node){ .ready = true,
			.idle_since_us = d->in.now_us,
			.milli = 1000 };
		d->launches++;
	}
	while (d->in.nodes_n > (size_t)d->in.size) {
		size_t *order, n = fleet_give_order(d->a, d->nodes, d->in.nodes_n, &order);

		if (n == 0) {
			return;
		}
		assert_false(d->nodes[order[0]].used);
		d->nodes[order[0]] = d->nodes[--d->in.nodes_n];
	}
}

static void queue(struct driven *d, int64_t jobs, int64_t waits_us)
{
	d->in.queue_jobs = jobs;
	d->in.queue_milli = jobs * 1000;
	d->in.queue_oldest_us = d->in.now_us - waits_us;
}

static void demand(struct driven *d, int32_t units)
{
	d->demand = (struct fleet_demand){ .there = units > 0, .units = units, .words = "demand" };
}

/* So many nodes work; the others idle from now on if they worked before. */
static void work(struct driven *d, size_t n)
{
	for (size_t i = 0; i < d->in.nodes_n; i++) {
		if (d->nodes[i].used && i >= n) {
			d->nodes[i].idle_since_us = d->in.now_us;
		}
		d->nodes[i].used = i < n;
	}
}

static void the_queue_waits_then_grows_and_idle_nodes_go_to_zero(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct driven d;

	(void)state;
	driven_init(&d, a);
	assert_int_equal(decide(&d), 0);
	assert_string_equal(d.out.rule, "first");
	queue(&d, 3, MIN_US);
	assert_int_equal(decide(&d), 0);
	assert_int_equal(d.out.next_us, d.in.now_us + MIN_US);
	after(&d, MIN_US);
	assert_int_equal(decide(&d), 3);
	assert_string_equal(d.out.rule, "queue");
	assert_non_null(strstr(d.out.why, "3 jobs in the queue since 120 s want 3"));
	nodes_follow(&d);
	queue(&d, 0, 0);
	work(&d, 3);
	after(&d, MIN_US);
	assert_int_equal(decide(&d), 3);
	/* Two jobs end at different times. */
	work(&d, 2);
	after(&d, 2 * MIN_US);
	work(&d, 1);
	assert_int_equal(decide(&d), 3);
	after(&d, 8 * MIN_US - 1);
	assert_int_equal(decide(&d), 3);
	assert_int_equal(d.out.next_us, d.in.now_us + 1);
	after(&d, 1);
	assert_int_equal(decide(&d), 2);
	assert_string_equal(d.out.rule, "idle");
	nodes_follow(&d);
	assert_int_equal(decide(&d), 2);
	after(&d, 2 * MIN_US);
	assert_int_equal(decide(&d), 1);
	nodes_follow(&d);
	assert_true(d.nodes[0].used);
	after(&d, 600 * MIN_US);
	assert_int_equal(decide(&d), 1);
	work(&d, 0);
	assert_int_equal(decide(&d), 1);
	after(&d, 10 * MIN_US);
	assert_int_equal(decide(&d), 0);
	nodes_follow(&d);
	assert_int_equal(d.in.nodes_n, 0);
}

static void an_idle_node_lowers_the_size_once(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct driven d;

	(void)state;
	driven_init(&d, a);
	d.in.size = 3, d.in.sized = d.in.open = true;
	nodes_follow(&d);
	(void)decide(&d);
	after(&d, 11 * MIN_US);
	d.nodes[1].idle_since_us = d.nodes[2].idle_since_us = d.in.now_us;
	assert_int_equal(decide(&d), 2);
	assert_int_equal(decide(&d), 2); /* the node is still there */
}

static void min_max_and_headroom_bound_the_size(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct driven d;

	(void)state;
	driven_init(&d, a);
	d.s.min = 2;
	d.s.target = 5;
	assert_int_equal(decide(&d), 5);
	queue(&d, 500, 3 * MIN_US);
	assert_int_equal(decide(&d), 20);
	assert_non_null(strstr(d.out.why, "at most max 20"));
	nodes_follow(&d);
	queue(&d, 0, 0);
	for (int i = 0; i < 40; i++) {
		after(&d, MIN_US);
		decide(&d);
		nodes_follow(&d);
	}
	assert_int_equal(d.in.size, 2);
	d.s.headroom = 3;
	work(&d, 1);
	assert_int_equal(decide(&d), 4);
	assert_string_equal(d.out.rule, "headroom");
	d.s.headroom = 30;
	assert_int_equal(decide(&d), 20);
}

static void nodes_that_nobody_could_launch_are_given_up_after_the_cooldown(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct driven d;

	(void)state;
	driven_init(&d, a);
	queue(&d, 10, 3 * MIN_US);
	assert_int_equal(decide(&d), 10);
	/* One boots, one was not launched yet, eight have no pool. */
	d.nodes[0] = (struct fleet_size_node){ .milli = 1000 };
	d.nodes[1] = (struct fleet_size_node){ .milli = 1000, .unsent = true };
	d.in.nodes_n = 2;
	queue(&d, 0, 0);
	assert_int_equal(decide(&d), 10);
	assert_int_equal(d.out.next_us, d.in.now_us + 5 * MIN_US);
	after(&d, 5 * MIN_US);
	/* The booting one stays. */
	assert_int_equal(decide(&d), 1);
}

static void steps_limit_how_fast_it_grows(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct driven d;

	(void)state;
	driven_init(&d, a);
	d.s.step = 4;
	decide(&d);
	after(&d, 10 * MIN_US);
	demand(&d, 10);
	assert_int_equal(decide(&d), 4);
	assert_int_equal(decide(&d), 4);
	after(&d, 2 * MIN_US);
	assert_int_equal(decide(&d), 8);
	after(&d, 2 * MIN_US);
	assert_int_equal(decide(&d), 10);
}

static void demand_has_a_time_to_live(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct driven d;

	(void)state;
	driven_init(&d, a);
	demand(&d, 6);
	d.demand.until_us = d.in.now_us + 2 * MIN_US;
	assert_int_equal(decide(&d), 6);
	assert_string_equal(d.out.rule, "demand");
	assert_int_equal(d.out.next_us, d.demand.until_us);
	nodes_follow(&d);
	after(&d, 2 * MIN_US);
	assert_int_equal(decide(&d), 6);
	assert_int_equal(d.out.need, 0);
	assert_int_equal(d.out.next_us, d.in.now_us + 5 * MIN_US);
}

/* ---- the clock ------------------------------------------------------------------------------- */

static int64_t local_us(const struct zone *z, int m, int day, int h, int min)
{
	return zone_utc_s(z, civil_day(2026, m, day) * 86400 + h * 3600 + min * 60) * SPOT_US_PER_S;
}

static void windows_follow_the_clock_over_its_jumps(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct spot_err err = { 0 };
	const struct zone *z = NULL;
	struct fleet_window w[2];
	struct fleet_scaling s = { .windows = w, .windows_n = 1 };

	(void)state;
	assert_int_equal(zone_load(a, "Europe/Berlin", &z, &err), SPOT_OK);
	const struct zone *zones[] = { z, z };

	assert_true(fleet_window_read("Mon-Fri 08:00", "20:00", &w[0]));
	/* Friday 2026-03-27; the clocks jump on Sunday 29. */
	assert_false(fleet_hours_at(&s, zones, local_us(z, 3, 27, 7, 59)).open);
	assert_true(fleet_hours_at(&s, zones, local_us(z, 3, 27, 8, 0)).open);
	assert_int_equal(fleet_hours_at(&s, zones, local_us(z, 3, 27, 8, 0)).edge_us,
	    local_us(z, 3, 27, 20, 0));
	assert_false(fleet_hours_at(&s, zones, local_us(z, 3, 27, 20, 0)).open);
	assert_false(fleet_hours_at(&s, zones, local_us(z, 3, 28, 12, 0)).open);
	/* 60 hours less one: Monday's opening is earlier by UTC. */
	assert_int_equal(fleet_hours_at(&s, zones, local_us(z, 3, 27, 20, 0)).edge_us,
	    local_us(z, 3, 27, 20, 0) + 59 * SPOT_US_PER_HOUR);
	/* A window within the skipped hour is none; one that begins in it begins at the jump. */
	assert_true(fleet_window_read("Sun 02:10", "02:50", &w[0]));
	assert_false(fleet_hours_at(&s, zones, local_us(z, 3, 29, 3, 0)).open);
	assert_true(fleet_hours_at(&s, zones, local_us(z, 3, 22, 2, 30)).open);
	assert_true(fleet_window_read("Sun 02:30", "04:00", &w[0]));
	assert_true(fleet_hours_at(&s, zones, local_us(z, 3, 29, 3, 0)).open);
	assert_false(fleet_hours_at(&s, zones, local_us(z, 3, 29, 3, 0) - 1).open);
	/* The doubled hour of 2026-10-25 belongs to the window once: from the first 02:30. */
	assert_int_equal(fleet_hours_at(&s, zones, local_us(z, 10, 25, 2, 0)).edge_us,
	    local_us(z, 10, 25, 2, 30));
	assert_true(
	    fleet_hours_at(&s, zones, local_us(z, 10, 25, 2, 30) + 30 * 60 * SPOT_US_PER_S).open);
	assert_int_equal(local_us(z, 10, 25, 4, 0) - local_us(z, 10, 25, 2, 30), 150 * MIN_US);
	/* Over midnight, and two windows that touch. */
	assert_true(fleet_window_read("Fri 22:00", "06:00", &w[0]));
	assert_true(fleet_hours_at(&s, zones, local_us(z, 5, 2, 5, 59)).open);
	assert_false(fleet_hours_at(&s, zones, local_us(z, 5, 2, 6, 0)).open);
	assert_false(fleet_hours_at(&s, zones, local_us(z, 5, 1, 5, 0)).open);
	s.windows_n = 2;
	assert_true(fleet_window_read("Sat 06:00", "24:00", &w[1]));
	assert_true(fleet_hours_at(&s, zones, local_us(z, 5, 2, 6, 0)).open);
	assert_true(fleet_hours_at(&s, zones, local_us(z, 5, 2, 23, 59)).open);
	assert_false(fleet_hours_at(&s, zones, local_us(z, 5, 3, 0, 0)).open);
}

static void window_texts_are_strict(void **state)
{
	static const char *const bad[][2] = { { "Mon-Fri", "20:00" }, { "Mo 08:00", "20:00" },
		{ "Mon-Fri 8:00", "20:00" }, { "Mon-Fri 08:00", "Fri 20:00" }, { "08:00", "24:01" },
		{ "24:00", "20:00" }, { "Mon- 08:00", "20:00" }, { "Mon, 08:00", "20:00" },
		{ "", "20:00" }, { "08:60", "20:00" }, { "Mondays 08:00", "20:00" } };
	struct fleet_window w;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (fleet_window_read(bad[i][0], bad[i][1], &w)) {
			fail_msg("'%s' '%s' is accepted", bad[i][0], bad[i][1]);
		}
	}
	assert_true(fleet_window_read("fri-MON,wednesday 00:00", "24:00", &w));
	assert_int_equal(w.days, 1 | 4 | 16 | 32 | 64);
	assert_true(fleet_window_read("07:30", "07:30", &w));
	assert_int_equal(w.days, 127);
}

static void a_schedule_opens_at_target_and_ends_at_zero_whatever_min_is(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct spot_err err = { 0 };
	const struct zone *z = NULL;
	struct fleet_window w;
	struct driven d;

	(void)state;
	assert_int_equal(zone_load(a, "UTC", &z, &err), SPOT_OK);
	driven_init(&d, a);
	d.in.zones = &z;
	d.s.windows = &w;
	d.s.windows_n = 1;
	d.s.min = 1;
	d.s.target = 6;
	assert_true(fleet_window_read("08:00", "20:00", &w));
	d.in.now_us = local_us(z, 6, 1, 7, 0);
	queue(&d, 5, 30 * MIN_US);
	assert_int_equal(decide(&d), 0);
	assert_string_equal(d.out.why, "0 outside of the schedule");
	assert_int_equal(d.out.next_us, local_us(z, 6, 1, 8, 0));
	queue(&d, 0, 0);
	d.in.now_us = d.out.next_us;
	assert_int_equal(decide(&d), 6);
	assert_string_equal(d.out.rule, "schedule");
	nodes_follow(&d);
	work(&d, 2);
	for (int i = 0; i < 60; i++) {
		after(&d, MIN_US);
		decide(&d);
		nodes_follow(&d);
	}
	assert_int_equal(d.in.size, 2);
	d.in.now_us = local_us(z, 6, 1, 20, 0);
	assert_int_equal(decide(&d), 0);
	assert_non_null(strstr(d.out.why, "2 nodes with work until the jobs end"));
	nodes_follow(&d);
	assert_int_equal(d.in.nodes_n, 2);
	/* Expiry comes first, and closes. */
	d.in.created_us = 0;
	d.s.expires_after_us = 1;
	assert_int_equal(decide(&d), 0);
	assert_true(d.out.close);
}

/* ---- no oscillation -------------------------------------------------------------------------- */

/* Demand of hi and lo units in turn, each for so many minutes, over a day. The bounds are those of
 * fleet_size.h. */
static void flips_check(struct arena *a, int64_t up_min, int64_t down_min, bool by_work)
{
	int64_t total = 24 * 60, bound, cooldown = 5;
	struct driven d;

	driven_init(&d, a);
	d.s.wait_us = 0;
	for (int64_t t = 0; t < total; t++) {
		int32_t wanted = t % (up_min + down_min) < up_min ? 20 : 0;

		if (by_work) {
			queue(&d, MAX(wanted - (int64_t)d.in.nodes_n, 0), MIN_US);
			work(&d, (size_t)wanted);
		} else {
			demand(&d, wanted);
		}
		/* The engine looks again at once after a change. */
		for (int32_t before = -1; before != d.in.size;) {
			before = d.in.size;
			decide(&d);
			nodes_follow(&d);
		}
		d.node_minutes += (int64_t)d.in.nodes_n;
		/* All demand is served at once: nothing boots here. */
		assert_true(by_work || (int32_t)d.in.nodes_n >= wanted);
		after(&d, MIN_US);
	}
	bound = 20 * (1 + total / cooldown);
	if (d.launches > bound) {
		fail_msg("%" PRId64 " launches, at most %" PRId64 " (%" PRId64 " up, %" PRId64
			 " down)",
		    d.launches, bound, up_min, down_min);
	}
	/* Never dearer than the best fixed size that serves the demand. */
	assert_true(d.node_minutes <= 20 * total);
	/* A demand that flips faster than the cooldown moves nothing at all. */
	if (down_min <= cooldown) {
		assert_int_equal(d.launches, 20);
	}
	/* Long pauses are not paid: each is at most idle_timeout, cooldown and the way down. */
	if (down_min >= 120) {
		assert_true(
		    d.node_minutes <= 20 * (up_min + 40) * (total / (up_min + down_min) + 1));
	}
}

static void demand_that_flips_does_not_make_it_oscillate(void **state)
{
	(void)state;
	for (int64_t up = 1; up <= 31; up += 6) {
		for (int64_t down = 1; down <= 241; down += down < 31 ? 2 : 30) {
			AUTO(arena) struct arena *a = arena_new(0);

			flips_check(a, up, down, false);
			flips_check(a, up, down, true);
		}
	}
}

/* Between a rise and the next fall lies a cooldown, whatever the demand does. */
static void no_fall_follows_a_rise_within_the_cooldown(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		AUTO(arena) struct arena *a = arena_new(0);
		int64_t rose_us = 0, rises_after_fall = 0, began;
		struct rng r;
		struct driven d;
		bool fell = false;

		rng_seeded_init(&r, seed);
		driven_init(&d, a);
		d.s.headroom = (int32_t)rng_below(&r, 3);
		d.s.idle_us = (int64_t)rng_below(&r, 4) * MIN_US;
		began = d.in.now_us;
		for (int t = 0; t < 4000; t++) {
			int32_t was = d.in.size;

			if (rng_below(&r, 3) == 0) {
				demand(&d, (int32_t)rng_below(&r, 21));
			}
			work(&d, rng_below(&r, d.in.nodes_n + 1));
			queue(&d, (int64_t)rng_below(&r, 6), (int64_t)rng_below(&r, 4) * MIN_US);
			decide(&d);
			if (d.in.size < was) {
				assert_true(d.in.now_us - rose_us >= d.s.cooldown_us);
				fell = true;
			} else if (d.in.size > was) {
				rises_after_fall += fell;
				fell = false;
				rose_us = d.in.now_us;
			}
			assert_in_range(d.in.size, 0, 20);
			nodes_follow(&d);
			assert_true(d.out.next_us == 0 || d.out.next_us > d.in.now_us);
			after(&d, 1 + (int64_t)rng_below(&r, 40) * SPOT_US_PER_S);
		}
		assert_true(rises_after_fall <= 1 + (d.in.now_us - began) / d.s.cooldown_us);
	}
}

static void a_job_of_any_fleet_takes_one_that_suits_and_has_room(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	/* Fleet 7 has a free node, fleet 8 may grow by one, fleet 9 is full. */
	struct fleet_any list[] = { { 1, 7, 1, 0, 1000 }, { 1, 8, 0, 1000, 1000 },
		{ 1, 9, -3, 0, 1000 }, { 2, 7, 1, 0, 1000 }, { 2, 8, 0, 1000, 1000 },
		{ 3, 7, 1, 0, 1000 }, { 3, 8, 0, 1000, 1000 } };
	/* A fleet that counts GPUs may add 9: one job of eight, and one of one. */
	struct fleet_any gpus[] = { { 1, 7, 0, 9000, 8000 }, { 2, 7, 0, 9000, 8000 },
		{ 3, 7, 0, 9000, 1000 }, { 4, 7, 0, 9000, 1000 } };

	(void)state;
	assert_int_equal(fleet_any_choose(a, list, ARRAY_LEN(list)), 2);
	assert_int_equal(list[0].job_id, 1);
	assert_int_equal(list[0].fleet_id, 7);
	assert_int_equal(list[1].job_id, 2);
	assert_int_equal(list[1].fleet_id, 8);
	assert_int_equal(fleet_any_choose(a, gpus, ARRAY_LEN(gpus)), 2);
	assert_int_equal(gpus[0].job_id, 1);
	assert_int_equal(gpus[1].job_id, 3);
}

/* Each does the work of 4.8 units, so that three are 4.4 more than ten. */
static void nodes_that_are_no_whole_number_of_units_go_to_zero(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct driven d;

	(void)state;
	driven_init(&d, a);
	demand(&d, 10);
	assert_int_equal(decide(&d), 10);
	for (d.in.nodes_n = 0; d.in.nodes_n < 3; d.in.nodes_n++) {
		d.nodes[d.in.nodes_n] = (struct fleet_size_node){ .ready = true,
			.idle_since_us = d.in.now_us,
			.milli = 4800 };
	}
	after(&d, 20 * MIN_US);
	assert_int_equal(decide(&d), 10);
	demand(&d, 0);
	assert_int_equal(decide(&d), 10);
	for (int left = 2; left >= 0; left--) {
		size_t *order;

		after(&d, 20 * MIN_US);
		assert_int_equal(decide(&d), 48 * left / 10);
		assert_int_equal(fleet_give_idle(a, d.nodes, d.in.nodes_n, d.out.size, 0, &order),
		    1);
		d.nodes[order[0]] = d.nodes[--d.in.nodes_n];
	}
	assert_int_equal(d.in.nodes_n, 0);
}

static void a_fleet_that_counts_work_has_room_by_work(void **state)
{
	/* An A100 does the work of 4.8 T4, as the table of GPUs has it. */
	const struct fleet_gpus nodes[] = { { "A100-80GB", 2000, 1000 }, { "T4", 3000, 0 } };
	const struct fleet_gpus queue[] = { { "A100-80GB", 1000, 0 }, { "T4", 500, 0 } };

	(void)state;
	assert_int_equal(fleet_gpus_work("T4", "A100-80GB", 1000), 4800);
	assert_int_equal(fleet_gpus_work("T4", "T4", 500), 500);
	assert_int_equal(fleet_gpus_grow("T4", 20, NULL, 0, NULL, 0), 20000);
	assert_int_equal(fleet_gpus_grow("T4", 20, nodes, 2, NULL, 0), 20000 - 9600 - 3000);
	/* One of the two jobs takes the idle node. */
	assert_int_equal(fleet_gpus_grow("T4", 20, nodes, 2, queue, 2), 20000 - 12600 - 500);
	assert_int_equal(fleet_gpus_grow("T4", 5, nodes, 2, queue, 2), 5000 - 12600 - 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_queue_waits_then_grows_and_idle_nodes_go_to_zero),
		cmocka_unit_test(an_idle_node_lowers_the_size_once),
		cmocka_unit_test(min_max_and_headroom_bound_the_size),
		cmocka_unit_test(nodes_that_nobody_could_launch_are_given_up_after_the_cooldown),
		cmocka_unit_test(steps_limit_how_fast_it_grows),
		cmocka_unit_test(demand_has_a_time_to_live),
		cmocka_unit_test(windows_follow_the_clock_over_its_jumps),
		cmocka_unit_test(window_texts_are_strict),
		cmocka_unit_test(a_schedule_opens_at_target_and_ends_at_zero_whatever_min_is),
		cmocka_unit_test(demand_that_flips_does_not_make_it_oscillate),
		cmocka_unit_test(nodes_that_are_no_whole_number_of_units_go_to_zero),
		cmocka_unit_test(a_fleet_that_counts_work_has_room_by_work),
		cmocka_unit_test(a_job_of_any_fleet_takes_one_that_suits_and_has_room),
		cmocka_unit_test(no_fall_follows_a_rise_within_the_cooldown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
