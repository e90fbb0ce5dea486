/* Orphans: machines and their remains, with our tag and without a row. */
#include "engine_world.h"

/* Its machine ended while the list that still has it was under way. */
static void test_a_list_from_before_the_end_of_a_machine_raises_no_alarm(void **state)
{
	struct world *w = *state;
	int lists;

	world_reset(w, true);
	w->cloud.list_after_us = 600000;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	lists = w->cloud.lists;
	while (w->cloud.lists == lists) {
		world_for(w, 5);
	}
	world_finish(w, 1);
	lists = w->cloud.lists;
	while (w->cloud.lists < lists + 2) {
		world_for(w, 5);
	}
	assert_string_equal(world_text(w,
				"SELECT coalesce(string_agg(why, '; '), '') FROM event WHERE event "
				"= 'ORPHAN'"),
	    "");
}

/* This database led until now, so that it launched the machines there. A machine from a time
 * without a leader would be another history's. */
static void led_until_now(struct world *w)
{
	int64_t now = world_us();

	world_sql(w,
	    "INSERT INTO led (epoch, from_us, to_us) VALUES (0, %" PRId64 ", %" PRId64 ")"
	    " ON CONFLICT (epoch) DO UPDATE SET from_us = excluded.from_us, to_us = excluded.to_us",
	    now - SPOT_US_PER_HOUR, now + SPOT_US_PER_S);
}

static void test_orphans_are_ended_and_foreign_instances_are_not(void **state)
{
	struct world *w = *state;
	struct machine *m;

	world_reset(w, true);
	led_until_now(w);
	world_pool(w, "z1", "a1", "spot", 1000000);
	for (int i = 0; i < 3; i++) {
		m = &w->cloud.list[w->cloud.n++];
		snprintf(m->ref, sizeof(m->ref), "x-%d", i);
		snprintf(m->token, sizeof(m->token), "t%d", i);
		snprintf(m->install, sizeof(m->install), "%s",
		    i == 0       ? "cafe0001"
			: i == 1 ? "cafe0002"
				 : "");
		snprintf(m->region, sizeof(m->region), "r1");
		m->state = SPOT_INSTANCE_RUNNING;
		m->created_us = world_us();
	}
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM event WHERE event = 'ORPHAN'");
	assert_int_equal(w->cloud.list[0].terminates, 0);
	world_until(w, LIMIT, "SELECT count(*) FROM orphan WHERE gone_us IS NOT NULL");
	world_for(w, 300);
	assert_true(w->cloud.list[0].terminates >= 1);
	assert_int_equal(w->cloud.list[1].terminates + w->cloud.list[2].terminates, 0);
	assert_int_equal(world_int(w, "SELECT count(*) FROM event WHERE event = 'ORPHAN'"), 1);
}

static struct machine *unknown_machine(struct world *w, const char *ref, int64_t created_us)
{
	struct machine *m = &w->cloud.list[w->cloud.n++];

	snprintf(m->ref, sizeof(m->ref), "%s", ref);
	snprintf(m->token, sizeof(m->token), "t-%s", ref);
	snprintf(m->install, sizeof(m->install), "cafe0001");
	snprintf(m->region, sizeof(m->region), "r1");
	m->state = SPOT_INSTANCE_RUNNING;
	m->created_us = created_us;
	return m;
}

/* The rows are those of a backup of an hour ago: later machines are another history's, and may be
 * at work. */
static void test_a_restored_backup_ends_nothing_that_was_launched_after_it(void **state)
{
	struct world *w = *state;
	int64_t now = world_us();
	struct machine *before, *after;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_sql(w,
	    "DELETE FROM led; INSERT INTO led (epoch, from_us, to_us) VALUES (0, %" PRId64
	    ", %" PRId64 ")",
	    now - 3 * SPOT_US_PER_HOUR, now - SPOT_US_PER_HOUR);
	before = unknown_machine(w, "x-before", now - 2 * SPOT_US_PER_HOUR);
	after = unknown_machine(w, "x-after", now - SPOT_US_PER_HOUR / 2);
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) = 1 FROM orphan WHERE gone_us IS NOT NULL");
	assert_true(before->terminates >= 1);
	assert_int_equal(after->terminates, 0);
	assert_string_equal(world_text(w,
				"SELECT state || ' ' || ref FROM leak WHERE state = 'kept'"),
	    "kept x-after");
	assert_string_equal(world_text(w,
				"SELECT entity_id || ' ' || split_part(why, ':', 1) FROM event "
				"WHERE event = 'ORPHAN_KEPT'"),
	    "fake/x-after no row knows it, and nobody led this database when it was launched");
	/* The operator knows better. */
	world_sql(w, "UPDATE orphan SET word = 'end' WHERE ref = 'x-after'");
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM orphan WHERE gone_us IS NOT NULL");
	assert_true(after->terminates >= 1);
}

static void test_a_dry_run_of_the_sweeper_shows_and_ends_nothing(void **state)
{
	struct world *w = *state;
	struct machine *m, *kept, *told;

	world_reset(w, true);
	led_until_now(w);
	world_pool(w, "z1", "a1", "spot", 1000000);
	m = unknown_machine(w, "x-1", world_us());
	kept = unknown_machine(w, "x-2", world_us());
	told = unknown_machine(w, "x-3", world_us());
	w->conf.orphan_end = false;
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) = 3 FROM leak WHERE state = 'found'");
	world_for(w, 600);
	assert_int_equal(m->terminates + told->terminates, 0);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM leak WHERE why LIKE 'no row knows it; the "
			     "sweeper''s dry run ([engine] orphan_end = false)%'"),
	    3);
	world_sql(w, "UPDATE orphan SET word = 'keep' WHERE ref = 'x-2'");
	world_sql(w, "UPDATE orphan SET word = 'end', word_by = 'ann' WHERE ref = 'x-3'");
	world_until(w, LIMIT, "SELECT count(*) = 1 FROM leak WHERE state = 'gone'");
	assert_true(told->terminates >= 1);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM event WHERE event = 'ORPHAN_ENDED' AND why LIKE "
			     "'%: it is ended, as ann said'"),
	    1);
	w->conf.orphan_end = true;
	engine_reload(w->engine, &w->conf);
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM leak WHERE state = 'gone'");
	assert_int_equal(kept->terminates, 0);
	assert_string_equal(world_text(w, "SELECT why FROM leak WHERE state = 'kept'"),
	    "no row knows it");
}

/* A kept machine is at work. One list without it must not make it an orphan about which nobody
 * decided. */
static void test_an_order_about_an_orphan_outlasts_lists_that_lack_it(void **state)
{
	struct world *w = *state;
	struct machine *m;
	int64_t first_us;
	char text[96];

	world_reset(w, true);
	led_until_now(w);
	world_pool(w, "z1", "a1", "spot", 1000000);
	m = unknown_machine(w, "x-1", world_us());
	w->conf.orphan_end = false;
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM leak WHERE state = 'found'");
	world_sql(w, "UPDATE orphan SET word = 'keep', word_by = 'ann'");
	first_us = world_int(w, "SELECT first_us FROM orphan");
	w->conf.orphan_end = true;
	engine_reload(w->engine, &w->conf);
	/* Not all is listed. */
	w->cloud.hide = w->cloud.partial = true;
	world_for(w, 600);
	assert_int_equal(world_int(w, "SELECT count(*) FROM leak WHERE state = 'kept'"), 1);
	/* It reboots, and is seen to. */
	w->cloud.hide = w->cloud.partial = false;
	m->state = SPOT_INSTANCE_STOPPING;
	snprintf(text, sizeof(text), "SELECT last_us - %" PRId64 " > 500000 FROM orphan",
	    world_us());
	world_until(w, LIMIT, text);
	assert_int_equal(world_int(w, "SELECT count(*) FROM leak WHERE state = 'kept'"), 1);
	/* The list lags: it was there just now. */
	w->conf.list_lag_us = 60 * SPOT_US_PER_S;
	engine_reload(w->engine, &w->conf);
	w->cloud.hide = true;
	world_for(w, 300);
	assert_int_equal(world_int(w, "SELECT count(*) FROM leak WHERE state = 'kept'"), 1);
	/* It is gone for longer than any list lags, and then it is there. */
	w->conf.list_lag_us = 200000;
	engine_reload(w->engine, &w->conf);
	world_until(w, LIMIT, "SELECT count(*) FROM leak WHERE state = 'gone'");
	assert_true(world_metric(w, "spot_orphans", "instance") < 0.5);
	w->cloud.hide = false;
	m->state = SPOT_INSTANCE_RUNNING;
	world_until(w, LIMIT, "SELECT count(*) FROM leak WHERE state = 'kept'");
	world_for(w, 600);
	assert_int_equal(m->terminates, 0);
	assert_int_equal(world_int(w, "SELECT first_us FROM orphan"), first_us);
	assert_string_equal(world_text(w,
				"SELECT string_agg(event || ' ' || why, ', ' ORDER BY id) FROM "
				"event WHERE entity = 'instance' AND event <> 'ORPHAN'"),
	    "ORPHAN_GONE not listed any more; what ann said holds if it is listed again");
	/* A row has it now: an order about an orphan says nothing about a node. It is ended only
	 * once it was listed with that row. */
	world_sql(w,
	    "INSERT INTO node (pool_id, state, state_us, token, name, price_micros, created_us, "
	    "next_act_us, why, ref) SELECT id, 'TERMINATING', 1, 't-x', "
	    "'brk.x', 1, 1, %" PRId64 ", '', 'x-1' FROM pool",
	    world_us() + SPOT_US_PER_HOUR);
	world_until(w, LIMIT, "SELECT count(*) = 0 FROM orphan");
}

/* Its provider does not know it each time that it is asked to end it, and lists it all the same. */
static void test_the_end_of_a_leak_is_asked_for_until_it_is_gone(void **state)
{
	struct world *w = *state;
	struct machine *m;

	world_reset(w, true);
	led_until_now(w);
	w->cloud.blind_terminates = 2;
	world_pool(w, "z1", "a1", "spot", 1000000);
	m = unknown_machine(w, "x-1", world_us());
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM leak WHERE state = 'gone'");
	assert_int_equal(w->cloud.blind_terminates, 0);
	assert_true(m->terminates >= 1);
	/* Since when it ends is told once. */
	assert_int_equal(world_int(w, "SELECT count(*) FROM event WHERE event = 'ORPHAN_ENDED'"),
	    1);
}

/* Its reply was lost, no list had it for longer than lists lag, and its launch was given up: then
 * it is there, and costs. */
static void test_a_machine_whose_launch_was_given_up_is_ended(void **state)
{
	struct world *w = *state;

	world_reset(w, false);
	w->cloud.lose_replies = 1;
	w->cloud.hide = true;
	world_pool(w, "z1", "a1", "on_demand", 1000000);
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE state = 'UNKNOWN'");
	/* or another is launched */
	world_sql(w, "UPDATE job SET cancel_us = 1; NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE state = 'FAILED' AND ref IS NULL");
	assert_int_equal(w->cloud.list[0].terminates, 0);
	w->cloud.hide = false;
	world_until(w, LIMIT, "SELECT count(*) FROM leak WHERE ref = 'i-1' AND state = 'gone'");
	assert_true(w->cloud.list[0].terminates >= 1);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM event WHERE event = 'ORPHAN_ENDED' AND why LIKE "
			     "'%n1;%'"),
	    1);
	world_check_end(w);
}

static void test_of_two_instances_with_one_token_one_is_adopted_and_the_other_ended(void **state)
{
	struct world *w = *state;

	world_reset(w, false); /* a cloud that does not honour tokens */
	world_pool(w, "z1", "a1", "on_demand", 1000000);
	w->cloud.lose_replies = 1;
	w->cloud.hide = true;
	w->conf.launch_timeout_us = 2000000;
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE state = 'UNKNOWN'");
	w->cloud.list[w->cloud.n] = w->cloud.list[0];
	w->cloud.list[w->cloud.n].created_us += 5;
	snprintf(w->cloud.list[w->cloud.n].ref, sizeof(w->cloud.list[0].ref), "i-twin");
	w->cloud.n++;
	world_sql(w, "UPDATE node SET next_act_us = 0");
	w->cloud.hide = false;
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	assert_string_equal(world_text(w, "SELECT ref FROM node"), "i-1");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM orphan WHERE ref = 'i-twin' AND gone_us IS NOT NULL");
	assert_true(cloud_by_ref(&w->cloud, "i-twin")->terminates >= 1);
	assert_int_equal(cloud_by_ref(&w->cloud, "i-1")->terminates, 0);
	world_finish(w, 1);
}

/* A machine that its cloud took is told to end all the same where something of it stays; nowhere
 * else. */
static void machine_vanish(struct world *w, bool leaves)
{
	world_reset(w, true);
	w->cloud.watches = true;
	w->cloud.leaves = leaves;
	w->cloud.watch_delay_us = 100000;
	w->conf.watch_us = 60 * SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	w->cloud.list[0].state = SPOT_INSTANCE_GONE;
	snprintf(w->cloud.watch_gone, sizeof(w->cloud.watch_gone), "i-1");
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE ref = 'i-1' AND state = 'GONE'");
	assert_int_equal(w->cloud.list[0].terminates, leaves ? 1 : 0);
}

static void test_remains_of_a_vanished_machine_are_ended(void **state)
{
	machine_vanish(*state, true);
	machine_vanish(*state, false);
}

static void test_a_leftover_that_becomes_a_machine_is_one_from_then_on(void **state)
{
	struct world *w = *state;
	struct machine *m;
	int64_t began;

	world_reset(w, true);
	led_until_now(w);
	world_pool(w, "z1", "a1", "spot", 1000000);
	m = unknown_machine(w, "x-1", world_us());
	m->leftover = true; /* a group, as a launch makes it first */
	w->conf.launch_timeout_us = SPOT_US_PER_HOUR;
	w->conf.orphan_grace_us = SPOT_US_PER_S;
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM leak WHERE kind = 'leftover'");
	world_for(w, 1200);
	m->leftover = false;
	began = world_us();
	world_until(w, LIMIT, "SELECT count(*) FROM leak WHERE state = 'gone'");
	assert_true(m->terminated_us - began >= SPOT_US_PER_S);
	assert_string_equal(world_text(w,
				"SELECT kind || ', ' || string_agg(event, ' ' ORDER BY id) FROM "
				"leak, event GROUP BY kind"),
	    "instance, ORPHAN ORPHAN_ENDED ORPHAN_GONE");
}

#define T(f) cmocka_unit_test(f)
/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(test_a_list_from_before_the_end_of_a_machine_raises_no_alarm),
		T(test_orphans_are_ended_and_foreign_instances_are_not),
		T(test_a_restored_backup_ends_nothing_that_was_launched_after_it),
		T(test_a_dry_run_of_the_sweeper_shows_and_ends_nothing),
		T(test_an_order_about_an_orphan_outlasts_lists_that_lack_it),
		T(test_the_end_of_a_leak_is_asked_for_until_it_is_gone),
		T(test_a_machine_whose_launch_was_given_up_is_ended),
		T(test_of_two_instances_with_one_token_one_is_adopted_and_the_other_ended),
		T(test_remains_of_a_vanished_machine_are_ended),
		T(test_a_leftover_that_becomes_a_machine_is_one_from_then_on),
	};

	if (argc > 1) {
		cmocka_set_test_filter(argv[1]);
	}
	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
