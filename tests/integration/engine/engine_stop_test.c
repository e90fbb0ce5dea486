/* The time that an agent has to save and to stop: by which clock, and with which daemon present. */
#include "engine_world.h"

static void job_run(struct world *w)
{
	world_reset(w, true);
	w->conf.agent_lost_us = 60 * SPOT_US_PER_S;
	world_running(w);
}

/* A job that was cancelled, and an agent that does not say that it has stopped. */
static void told_to_stop(struct world *w)
{
	w->agents = false;
	world_cancel(w);
	world_until_job(w, "CANCELLING");
}

static void assert_stopped(struct world *w)
{
	w->agents = true;
	world_until_job(w, "CANCELLED");
	world_empty(w);
	assert_int_equal(world_int(w, "SELECT count(*) FROM event WHERE event = 'TERMINATE'"), 0);
}

/* The simulation found it: nobody heard that it had stopped. */
static void test_the_time_to_stop_does_not_pass_while_no_daemon_listens(void **state)
{
	struct world *w = *state;

	job_run(w);
	told_to_stop(w);
	world_kill(w);
	world_sql(w, "UPDATE job SET state_us = state_us - 600000000");
	world_start(w);
	world_until(w, LIMIT, "SELECT (epoch >= 2)::int FROM leader WHERE name = 'engine'");
	world_for(w, 400);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE state = 'READY'"), 1);
	assert_stopped(w);
}

static void test_an_agent_that_does_not_stop_is_given_up_beside_an_api(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->conf.agent_silent_us = 60 * SPOT_US_PER_S; /* silent it is not */
	w->conf.agent_lost_us = 1500000;
	world_running(w);
	world_sql(w, "INSERT INTO listener VALUES ('api', 10)");
	told_to_stop(w);
	/* Fewer with each look than there should have been, whenever it was first seen. */
	for (int64_t end = world_us() + 2 * w->conf.agent_lost_us; world_us() < end;) {
		world_sql(w, "UPDATE listener SET beats = beats - 1");
		world_for(w, 100);
	}
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE state = 'READY'"), 1);
	world_sql(w, "UPDATE listener SET beats = 11");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM event WHERE event = 'TERMINATE' AND why = 'its agent does not "
	    "stop the cancelled job'");
	world_until_job(w, "CANCELLED");
	world_empty(w);
}

/* It drains and is not given up; then its agent, which was busy, saves and stops. */
static void drains_in_its_time(struct world *w)
{
	world_for(w, 600);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node WHERE id = 1 AND state = 'DRAINING'"),
	    1);
	w->agents = true;
	world_until(w, LIMIT, "SELECT count(*) FROM attempt WHERE exit_reason = 'drained'");
	world_until_epoch(w, 2);
	world_succeed(w);
}

/* By a clock that jumped ahead every deadline has passed when its notice comes. */
static void test_a_drain_with_a_deadline_in_the_past_has_time(void **state)
{
	struct world *w = *state;

	job_run(w);
	w->conf.notice_default_us = 15 * SPOT_US_PER_S;
	world_kill(w);
	world_start(w);
	w->agents = false;
	world_sql(w,
	    "INSERT INTO notice (node_id, kind, deadline_us, source, raw, heard_us) SELECT id, "
	    "'interruption', %" PRId64 ", 'imds', '', %" PRId64 " FROM node; NOTIFY spot_engine",
	    world_us() - 3 * SPOT_US_PER_HOUR, world_us());
	world_until_node(w, "DRAINING");
	drains_in_its_time(w);
}

/* Minutes of notice, here of maintenance, are minutes to save: patience is for jobs that were told
 * that their time is over. */
static void test_a_drain_with_much_time_has_all_of_it(void **state)
{
	struct world *w = *state;

	job_run(w);
	w->conf.agent_silent_us = 60 * SPOT_US_PER_S;
	w->conf.agent_lost_us = 500000;
	engine_reload(w->engine, &w->conf);
	w->agents = false;
	world_sql(w,
	    "INSERT INTO notice (node_id, kind, deadline_us, source, raw, heard_us) SELECT id, "
	    "'maintenance', %" PRId64 ", 'imds', '', %" PRId64 " FROM node; NOTIFY spot_engine",
	    world_us() + 600 * SPOT_US_PER_S, world_us());
	world_until(w, LIMIT, "SELECT count(*) FROM attempt WHERE desired = 'drain'");
	world_for(w, 4 * w->conf.agent_lost_us / 1000);
	drains_in_its_time(w);
}

/* Our clock is set an hour ahead in the midst of a drain: by the wall its time is over, and its
 * agent still saves. */
static void test_the_time_to_stop_does_not_pass_as_the_clock_is_set(void **state)
{
	struct world *w = *state;

	job_run(w);
	w->conf.notice_default_us = 15 * SPOT_US_PER_S;
	engine_reload(w->engine, &w->conf);
	w->agents = false;
	world_sql(w,
	    "INSERT INTO notice (node_id, kind, deadline_us, source, raw, heard_us) SELECT id, "
	    "'interruption', %" PRId64 ", 'imds', '', %" PRId64 " FROM node; NOTIFY spot_engine",
	    world_us() + 15 * SPOT_US_PER_S, world_us());
	world_until(w, LIMIT, "SELECT count(*) FROM attempt WHERE desired = 'drain'");
	world_for(w, 200); /* it is seen that it was told */
	steady_set(SPOT_US_PER_HOUR);
	drains_in_its_time(w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_time_to_stop_does_not_pass_while_no_daemon_listens),
		cmocka_unit_test(test_an_agent_that_does_not_stop_is_given_up_beside_an_api),
		cmocka_unit_test(test_a_drain_with_a_deadline_in_the_past_has_time),
		cmocka_unit_test(test_a_drain_with_much_time_has_all_of_it),
		cmocka_unit_test(test_the_time_to_stop_does_not_pass_as_the_clock_is_set),
	};

	return WORLD_TESTS(argc, argv, tests);
}
