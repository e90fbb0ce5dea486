/* A provider's event stream, and orphans in lists. */
#include "engine_world.h"

/* ---- streams --------------------------------------------------------------------------------- */

static void job_run(struct world *w)
{
	world_reset(w, true);
	w->cloud.watches = true;
	w->cloud.watch_delay_us = 100000;
	/* the watch is slow, so the stream alone can be in time */
	w->conf.watch_us = 60 * SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z2", "a1", "spot", 1100000);
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	world_until(w, LIMIT, "SELECT count(*) FROM watch_cursor");
}

static void test_a_notice_from_the_stream_drains_the_job(void **state)
{
	struct world *w = *state;

	job_run(w);
	snprintf(w->cloud.watch_notice, sizeof(w->cloud.watch_notice), "i-1");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM notice WHERE source = 'fake-stream' AND raw = 'said'");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 2");
}

static void test_an_end_from_the_stream_is_a_reclaim(void **state)
{
	struct world *w = *state;

	job_run(w);
	w->cloud.list[0].state = SPOT_INSTANCE_GONE;
	snprintf(w->cloud.watch_gone, sizeof(w->cloud.watch_gone), "i-1");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE end_cause = 'reclaimed' AND provider_state = "
	    "'gone_reclaimed'");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 2");
}

static void test_the_stream_goes_on_where_it_was_after_a_restart(void **state)
{
	struct world *w = *state;
	char cursor[32];
	int calls;

	job_run(w);
	world_kill(w);
	snprintf(cursor, sizeof(cursor), "%s", world_text(w, "SELECT cursor FROM watch_cursor"));
	calls = w->cloud.watch_calls;
	w->cloud.watch_delay_us = 10 * SPOT_US_PER_S;
	world_start(w);
	while (w->cloud.watch_calls == calls) {
		world_for(w, 10);
	}
	assert_string_equal(w->cloud.watch_cursor, cursor);
	/* The poll is out and held: killing the engine now must not wait for it. */
	world_kill(w);
}

static void test_a_gap_makes_everything_be_asked_at_once(void **state)
{
	struct world *w = *state;
	int describes, lists;

	job_run(w);
	w->conf.sweep_us = 60 * SPOT_US_PER_S;
	engine_reload(w->engine, &w->conf);
	world_for(w, 100);
	describes = w->cloud.describes;
	lists = w->cloud.lists;
	world_for(w, 200);
	assert_int_equal(w->cloud.describes, describes);
	w->cloud.watch_gap = true;
	for (int i = 0;
	     i < LIMIT / 10 && (w->cloud.describes == describes || w->cloud.lists == lists); i++) {
		world_for(w, 10);
	}
	assert_true(w->cloud.describes > describes);
	assert_true(w->cloud.lists > lists);
}

static void test_a_stream_that_fails_is_tried_less_and_less_often(void **state)
{
	struct world *w = *state;
	int calls;

	job_run(w);
	w->cloud.watch_faults = 1000;
	while (w->cloud.watch_faults == 1000) {
		world_for(w, 10);
	}
	calls = w->cloud.watch_calls;
	world_for(w, 800);
	assert_true(w->cloud.watch_calls - calls <= 1);
}

/* Another engine leads: the old one writes no result of its poll, and lets go of the poll. */
static void test_a_stream_of_an_engine_that_lost_the_lease_writes_nothing(void **state)
{
	struct world *w = *state;

	job_run(w);
	world_sql(w,
	    "UPDATE leader SET epoch = epoch + 1, holder = 'other', until_us = "
	    "9000000000000000000");
	snprintf(w->cloud.watch_notice, sizeof(w->cloud.watch_notice), "i-1");
	world_deposed(w);
	world_for(w, 500);
	assert_int_equal(world_int(w, "SELECT count(*) FROM notice"), 0);
}

/* ---- leftovers ------------------------------------------------------------------------------- */

static void test_a_leftover_nobody_owns_is_ended_after_lag_and_launch_timeout(void **state)
{
	struct world *w = *state;
	struct machine *m;

	world_reset(w, true);
	w->conf.launch_timeout_us = 2500000;
	world_pool(w, "z1", "a1", "spot", 1000000);
	m = cloud_add(&w->cloud, "disk-7", "", true);
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM orphan WHERE kind = 'leftover'");
	world_until(w, LIMIT, "SELECT count(*) FROM orphan WHERE terminate_us IS NOT NULL");
	/* The provider's own launch timeout is 2 s, ours is longer. */
	assert_true(world_int(w, "SELECT terminate_us - first_us FROM orphan") >= 2500000);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM event WHERE event = 'LEFTOVER_GONE' AND entity_id = "
	    "'fake/disk-7'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM event WHERE event = 'LEFTOVER' AND why LIKE 'no "
			     "node knows it;%'"),
	    1);
	assert_int_equal(world_int(w, "SELECT count(*) FROM orphan WHERE gone_us IS NULL"), 0);
	assert_int_equal(m->terminates >= 1, 1);
	assert_true(m->terminated_us - world_int(w, "SELECT first_us FROM orphan") >= 2500000);
	assert_int_equal(cloud_live(&w->cloud), 0);
}

/* A zone does not answer: listed orphans are ended, unlisted ones are not gone. */
static void test_a_list_that_is_not_complete_makes_nothing_gone(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->conf.launch_timeout_us = 500000;
	world_pool(w, "z1", "a1", "spot", 1000000);
	cloud_add(&w->cloud, "disk-7", "", true);
	w->cloud.partial = true;
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM orphan WHERE terminate_us IS NOT NULL");
	w->cloud.hide = true;
	world_for(w, 1500);
	assert_int_equal(world_int(w, "SELECT count(*) FROM orphan WHERE gone_us IS NULL"), 1);
	w->cloud.partial = false;
	world_until(w, LIMIT,
	    "SELECT count(*) FROM event WHERE event = 'LEFTOVER_GONE' AND entity_id = "
	    "'fake/disk-7'");
}

/* The node's launch is not answered: its disk is there already, and stays. */
static void test_a_leftover_of_a_node_still_launching_is_left_alone(void **state)
{
	struct world *w = *state;
	struct machine *m, *by_name;
	char text[80];

	world_reset(w, true);
	w->conf.launch_timeout_us = 1000000;
	w->cloud.lose_replies = 1000;
	w->cloud.hide = false;
	w->agents = false;
	w->conf.boot_timeout_us = 20 * SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_job(w, "{}");
	while (w->cloud.n == 0) { /* its launch has its machine, and the disk is another thing */
		world_for(w, 1);
	}
	snprintf(text, sizeof(text), "%s", world_text(w, "SELECT token FROM node WHERE id = 1"));
	m = cloud_add(&w->cloud, "disk-1", text, true);
	snprintf(text, sizeof(text), "d-%s",
	    world_text(w, "SELECT right(token, 16) FROM node WHERE id = 1"));
	by_name = cloud_add(&w->cloud, text, "", true);
	m->created_us = by_name->created_us = 1;
	world_for(w, 3000);
	assert_int_equal(world_int(w, "SELECT count(*) FROM orphan"), 0);
	assert_int_equal(m->terminates + by_name->terminates, 0);
	/* Their node is over: now they are nobody's. */
	world_sql(w, "UPDATE job SET cancel_us = 1; NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM event WHERE event = 'LEFTOVER_GONE'");
	world_empty(w);
}

/* An order for machines says nothing of its owner: it may be that of the launch with the unknown
 * outcome. */
static void test_an_order_is_left_alone_while_a_launch_is_under_way(void **state)
{
	struct world *w = *state;
	struct machine *m;

	world_reset(w, true);
	w->conf.launch_timeout_us = 60 * SPOT_US_PER_S;
	w->conf.lookup_again_us = 60 * SPOT_US_PER_S;
	w->conf.list_lag_us = 60 * SPOT_US_PER_S;
	w->cloud.tokens = false;
	w->cloud.lose_launches = 1000;
	world_pool(w, "z1", "a1", "spot", 1000000);
	m = cloud_add(&w->cloud, "nodepool/one", "", true);
	m->created_us = 1;
	world_sql(w,
	    "INSERT INTO led (epoch, from_us, to_us) VALUES (0, 0, 2) ON CONFLICT (epoch) DO "
	    "UPDATE SET to_us = 2");
	world_start(w);
	world_job(w, "{}");
	/* With the short lag a first look would make it void. */
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE state = 'UNKNOWN' AND last_error LIKE 'not found "
	    "yet%'");
	w->conf.list_lag_us = 200000;
	engine_reload(w->engine, &w->conf);
	world_for(w, 1500);
	assert_int_equal(world_int(w, "SELECT count(*) FROM orphan WHERE terminate_us IS NULL"), 1);
	assert_int_equal(m->terminates, 0);
	w->conf.launch_timeout_us = 1;
	w->conf.lookup_again_us = 200000;
	engine_reload(w->engine, &w->conf);
	world_sql(w,
	    "UPDATE job SET cancel_us = 1; UPDATE node SET next_act_us = 0, claim_until_us = 0; "
	    "NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) FROM orphan WHERE gone_us IS NOT NULL");
	assert_true(m->terminates > 0);
	world_empty(w);
}

static void test_a_leftover_that_shows_up_once_is_not_touched(void **state)
{
	struct world *w = *state;
	struct machine *m;

	world_reset(w, true);
	w->conf.launch_timeout_us = 100000;
	w->conf.list_lag_us = 3 * SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "spot", 1000000);
	m = cloud_add(&w->cloud, "nic-1", "", true);
	m->created_us = 1;
	world_sql(w,
	    "INSERT INTO led (epoch, from_us, to_us) VALUES (0, 0, 2) ON CONFLICT (epoch) DO "
	    "UPDATE SET to_us = 2");
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM orphan");
	m->state = SPOT_INSTANCE_GONE;
	world_until(w, LIMIT, "SELECT count(*) = 0 FROM orphan");
	assert_int_equal(m->terminates, 0);
	assert_int_equal(world_int(w, "SELECT count(*) FROM event WHERE entity = 'leftover'"), 0);
}

#define T(f) cmocka_unit_test(f)
/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(test_a_notice_from_the_stream_drains_the_job),
		T(test_an_end_from_the_stream_is_a_reclaim),
		T(test_the_stream_goes_on_where_it_was_after_a_restart),
		T(test_a_gap_makes_everything_be_asked_at_once),
		T(test_a_stream_that_fails_is_tried_less_and_less_often),
		T(test_a_stream_of_an_engine_that_lost_the_lease_writes_nothing),
		T(test_a_leftover_nobody_owns_is_ended_after_lag_and_launch_timeout),
		T(test_a_list_that_is_not_complete_makes_nothing_gone),
		T(test_a_leftover_of_a_node_still_launching_is_left_alone),
		T(test_an_order_is_left_alone_while_a_launch_is_under_way),
		T(test_a_leftover_that_shows_up_once_is_not_touched),
	};

	if (argc > 1) {
		cmocka_set_test_filter(argv[1]);
	}
	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
