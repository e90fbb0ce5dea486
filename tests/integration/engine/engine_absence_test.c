/* Machines that lists lack, agents that are silent: neither alone is a loss. */
#include "engine_world.h"
#include "store/q.h"

/* A job that runs, with an agent that speaks; lost_us: one that falls silent for so long is given
 * up. */
static void running_until(struct world *w, int64_t lost_us)
{
	world_reset(w, true);
	w->conf.agent_lost_us = lost_us;
	world_running(w);
}

static void job_run(struct world *w)
{
	running_until(w, 60 * SPOT_US_PER_S);
}

static void still_running(struct world *w)
{
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 1"),
	    1);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE state = 'READY'"), 1);
	assert_int_equal(w->cloud.launches, 1);
	assert_int_equal(w->cloud.list[0].terminates, 0);
}

static void test_a_node_absent_from_every_list_is_not_lost_while_its_agent_speaks(void **state)
{
	struct world *w = *state;

	job_run(w);
	w->conf.agent_silent_us = 10 * SPOT_US_PER_S; /* on a busy machine, too, it speaks */
	engine_reload(w->engine, &w->conf);
	w->cloud.hide = true;
	world_until(w, LIMIT, "SELECT (gone_seen >= 3)::int FROM node");
	world_for(w, 300);
	still_running(w);
	w->cloud.hide = false;
	world_succeed(w);
}

/* The answers that a former leader hears may be minutes old. */
static void test_an_answer_after_the_lease_was_lost_is_no_evidence(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->conf.lease_us = 3 * SPOT_US_PER_S;
	world_running(w);
	world_sql(w, "UPDATE leader SET epoch = epoch + 1, until_us = until_us + 60000000");
	w->cloud.hide = true;
	world_for(w, 700);
	assert_int_equal(world_int(w, "SELECT gone_seen FROM node"), 0);
	w->cloud.hide = false;
	world_sql(w, "UPDATE leader SET until_us = 0");
	world_succeed(w);
}

/* The provider's servers learn of a launch one after the other; one that has not says "no such
 * instance". */
static void young_machine(struct world *w, int64_t sent_before_us)
{
	world_reset(w, true);
	w->conf.list_lag_us = 60 * SPOT_US_PER_S; /* it is young until all terminates were sent */
	w->conf.idle_keep_us = 10000;
	world_running(w);
	world_sql(w, "UPDATE node SET launched_us = launched_us - %" PRId64, sent_before_us);
	w->cloud.blind_terminates = 2;
	world_cancel(w);
	world_until_node(w, "GONE");
	assert_int_equal(w->cloud.blind_terminates, 0);
	assert_int_equal(cloud_live(&w->cloud), 0);
	assert_int_equal(world_int(w, "SELECT count(*) FROM orphan"), 0);
}

static void test_a_young_machine_that_the_terminate_does_not_find_is_not_gone(void **state)
{
	young_machine(*state, 0);
}

/* A provider without an answer of its own looks into a list; one that lacks the machine is no
 * proof, however old it is. */
static void test_a_machine_that_the_list_of_one_terminate_lacks_is_not_gone(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->conf.list_lag_us = 1;
	w->conf.idle_keep_us = 10000;
	world_running(w);
	w->cloud.blind_by_list = true;
	w->cloud.blind_terminates = 8;
	world_cancel(w);
	world_until_node(w, "GONE");
	assert_int_equal(w->cloud.blind_terminates, 0);
	assert_int_equal(cloud_live(&w->cloud), 0);
	assert_int_equal(world_int(w, "SELECT count(*) FROM orphan"), 0);
}

/* A launch that is repeated keeps the time of its first call, since from then on it may cost
 * money. */
static void test_the_machine_of_a_launch_that_was_repeated_is_young(void **state)
{
	young_machine(*state, 600 * SPOT_US_PER_S);
}

static void test_lists_that_lack_the_machine_of_a_repeated_launch_say_nothing_yet(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->conf.list_lag_us = 60 * SPOT_US_PER_S;
	world_running(w);
	world_sql(w, "UPDATE node SET launched_us = launched_us - 600000000");
	w->cloud.hide = true;
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE provider_state = 'absent'");
	world_for(w, 300);
	assert_int_equal(world_int(w, "SELECT gone_seen FROM node"), 0);
	w->cloud.hide = false;
	world_succeed(w);
}

/* A launch without token: its reply was lost, and no list shows its machine. The engine looked for
 * it once. again_us 0: soon again. */
static void launched_unlisted(struct world *w, int64_t lag_us, int64_t again_us)
{
	world_reset(w, false);
	w->conf.list_lag_us = lag_us;
	if (again_us > 0) {
		w->conf.lookup_again_us = again_us;
	}
	world_pool(w, "z1", "a1", "spot", 1000000);
	w->cloud.hide = true;
	w->cloud.lose_replies = 1;
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE last_error LIKE 'not found%'");
}

static void found_when_listed(struct world *w)
{
	w->cloud.hide = false;
	world_sql(w, "UPDATE node SET next_act_us = 0; NOTIFY spot_engine");
	world_until_job(w, "RUNNING");
	assert_int_equal(w->cloud.launches, 1);
	world_succeed(w);
}

/* The simulation found it (seed 1779): one answer lacked the machine. */
static void test_one_list_that_lacks_a_machine_makes_no_launch_void(void **state)
{
	struct world *w = *state;

	launched_unlisted(w, 200000, 60 * SPOT_US_PER_S);
	world_for(w, 300);
	world_sql(w,
	    "UPDATE node SET next_act_us = 0 WHERE last_error LIKE 'not found yet%%'; NOTIFY "
	    "spot_engine");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE last_error LIKE '%asked once more' OR state = "
	    "'FAILED'");
	found_when_listed(w);
}

/* Its first call is long ago, its last is not: the machine of that may still come to the lists. */
static void test_a_repeated_launch_is_not_given_up_within_the_lag_of_its_last_call(void **state)
{
	struct world *w = *state;

	launched_unlisted(w, 60 * SPOT_US_PER_S, 0);
	world_sql(w,
	    "UPDATE node SET launch_sent_us = launch_sent_us - 600000000, next_act_us = 0, "
	    "last_error = ''; NOTIFY spot_engine");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE last_error LIKE 'not found yet%%' OR state = "
	    "'FAILED'");
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE state = 'UNKNOWN'"), 1);
	found_when_listed(w);
}

/* Nothing exists of a launch that was put off: neither a bill nor the time to boot begins with
 * it. */
static void test_a_launch_that_was_put_off_was_not_sent(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->conf.bill_us = 60 * SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "on_demand", 1000000);
	w->cloud.throttle = 1000000;
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) >= 2 FROM event WHERE event = 'CLAIMED'");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE state = 'WANTED' AND launch_sent_us IS NULL");
	w->cloud.throttle = 0;
	world_sql(w, "UPDATE node SET next_act_us = 0; NOTIFY spot_engine");
	world_until_job(w, "RUNNING");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node WHERE launched_us >= (SELECT max(at_us) "
			     "FROM event WHERE event = 'CLAIMED')"),
	    1);
	world_succeed(w);
}

/* Its first call made a machine, which no list shows yet; its repeat waits, and then nobody needs
 * it any more. */
static void test_a_launch_to_be_repeated_is_looked_up_before_its_row_ends(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->agents = false;
	w->conf.list_lag_us = 60 * SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "on_demand", 1000000);
	w->cloud.hide = true;
	w->cloud.lose_replies = 1;
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE state = 'UNKNOWN' OR state = 'WANTED' AND "
	    "launch_sent_us IS NOT NULL");
	w->cloud.throttle = 1000000;
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE state = 'WANTED' AND launch_sent_us IS NOT NULL");
	assert_int_equal(cloud_live(&w->cloud), 1);
	world_sql(w,
	    "UPDATE node SET next_act_us = %" PRId64
	    " WHERE state = 'WANTED'; UPDATE job SET cancel_us = 1; NOTIFY spot_engine",
	    world_us() + 600 * SPOT_US_PER_S);
	world_until_job(w, "CANCELLED");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE state NOT IN ('WANTED', 'LAUNCHING')");
	assert_string_equal(
	    world_text(w, "SELECT state || ' ' || (launch_sent_us IS NOT NULL)::text FROM node"),
	    "UNKNOWN true");
	w->cloud.hide = false;
	world_sql(w, "UPDATE node SET next_act_us = 0; NOTIFY spot_engine");
	world_empty(w);
	/* It was the row's to the end: billed, and nobody's leak. */
	assert_string_equal(world_text(w, "SELECT state || ' ' || end_cause FROM node"),
	    "GONE released");
	assert_int_equal(world_int(w, "SELECT count(*) FROM event WHERE event LIKE 'ORPHAN%%'"), 0);
	world_until(w, LIMIT, "SELECT count(*) FROM ledger");
}

static void test_one_absence_and_a_silent_agent_are_not_yet_a_loss(void **state)
{
	struct world *w = *state;

	job_run(w);
	w->agents = false;
	/* Longer than is usual for an agent, shorter than makes it broken; then one list lacks the
	 * instance. */
	world_sql(w,
	    "UPDATE node SET gone_seen = 1, provider_state = 'absent', last_seen_us = %" PRId64
	    "; NOTIFY spot_engine",
	    world_us() - w->conf.agent_silent_us - 100000);
	world_for(w, 200);
	still_running(w);
	w->agents = true;
	world_for(w, 200);
	still_running(w);
	world_succeed(w);
}

/* A machine that is only hidden would live on unwatched. */
static void test_a_machine_that_lists_lack_with_a_silent_agent_is_ended(void **state)
{
	struct world *w = *state;

	job_run(w);
	w->agents = false;
	w->cloud.hide = true;
	world_until(w, LIMIT, "SELECT (gone_seen >= 2)::int FROM node WHERE id = 1");
	world_sql(w, "UPDATE node SET last_seen_us = %" PRId64 "; NOTIFY spot_engine",
	    world_us() - w->conf.agent_silent_us - 100000);
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE id = 1 AND state = 'GONE'");
	assert_true(w->cloud.list[0].terminates > 0);
	w->cloud.hide = false;
	w->agents = true;
	world_succeed(w);
}

static void test_silence_while_no_daemon_listened_does_not_count(void **state)
{
	struct world *w = *state;

	job_run(w);
	w->agents = false;
	world_kill(w);
	/* We were away for ten times as long as makes an agent lost. */
	world_sql(w,
	    "UPDATE node SET last_seen_us = last_seen_us - %" PRId64
	    ", ready_us = ready_us - %" PRId64,
	    10 * w->conf.agent_lost_us, 10 * w->conf.agent_lost_us);
	world_start(w);
	world_until(w, LIMIT, "SELECT (epoch >= 2)::int FROM leader WHERE name = 'engine'");
	world_for(w, 400);
	assert_string_equal(world_text(w, "SELECT provider_state FROM node"), "running");
	still_running(w);
	w->agents = true;
	world_for(w, 200);
	still_running(w);
	world_succeed(w);
}

/* With no API to speak to every agent is silent, and that says nothing about machines. */
static void test_silence_while_no_api_listened_does_not_count(void **state)
{
	struct world *w = *state;

	running_until(w, 3 * SPOT_US_PER_S);
	world_sql(w, "INSERT INTO listener VALUES ('api', 10)");
	w->agents = false;
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE suspect_us IS NOT NULL AND suspect_beats = 10");
	world_sql(w, "UPDATE listener SET beats = 9"); /* fewer since than there should have been */
	world_for(w, w->conf.agent_lost_us / 1000);
	still_running(w);
	world_sql(w, "UPDATE listener SET beats = 11");
	world_until(w, LIMIT, "SELECT count(*) FROM verdict WHERE kind = 'silent'");
	w->agents = true;
	world_until_epoch(w, 2);
	world_succeed(w);
}

/* Agents are heard by the API's clock and judged by the leader's: one of them may be wrong, or
 * jump. */
static void test_an_agent_heard_by_a_clock_that_differs_is_not_silent(void **state)
{
	struct world *w = *state;
	int64_t end;

	running_until(w, 3 * SPOT_US_PER_S);
	end = world_us() + 2 * w->conf.agent_lost_us;
	w->agents = false;
	while (world_us() < end) {
		world_sql(w, "UPDATE node SET last_seen_us = %" PRId64,
		    world_us() - 10 * w->conf.agent_lost_us);
		world_for(w, 100);
		still_running(w);
	}
	/* A machine that falls silent is found all the same. */
	world_until(w, LIMIT, "SELECT count(*) FROM verdict WHERE kind = 'silent'");
	w->agents = true;
	world_until_epoch(w, 2);
	world_succeed(w);
}

static void test_a_terminate_is_over_when_the_provider_says_so(void **state)
{
	struct world *w = *state;

	job_run(w);
	w->cloud.ends_slowly = true;
	world_exit_all(w);
	world_until(w, LIMIT,
	    "SELECT (provider_state = 'stopping')::int FROM node WHERE state = 'TERMINATING'");
	world_for(w, 400);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node WHERE state = 'TERMINATING' AND ended_us "
			     "IS NULL"),
	    1);
	assert_true(w->cloud.list[0].terminates > 0);
	w->cloud.list[0].state = SPOT_INSTANCE_GONE;
	world_until_node(w, "GONE");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_answer_after_the_lease_was_lost_is_no_evidence),
		cmocka_unit_test(
		    test_a_node_absent_from_every_list_is_not_lost_while_its_agent_speaks),
		cmocka_unit_test(test_a_young_machine_that_the_terminate_does_not_find_is_not_gone),
		cmocka_unit_test(test_a_machine_that_the_list_of_one_terminate_lacks_is_not_gone),
		cmocka_unit_test(test_the_machine_of_a_launch_that_was_repeated_is_young),
		cmocka_unit_test(
		    test_lists_that_lack_the_machine_of_a_repeated_launch_say_nothing_yet),
		cmocka_unit_test(test_one_list_that_lacks_a_machine_makes_no_launch_void),
		cmocka_unit_test(
		    test_a_repeated_launch_is_not_given_up_within_the_lag_of_its_last_call),
		cmocka_unit_test(test_a_launch_that_was_put_off_was_not_sent),
		cmocka_unit_test(test_a_launch_to_be_repeated_is_looked_up_before_its_row_ends),
		cmocka_unit_test(test_one_absence_and_a_silent_agent_are_not_yet_a_loss),
		cmocka_unit_test(test_a_machine_that_lists_lack_with_a_silent_agent_is_ended),
		cmocka_unit_test(test_silence_while_no_daemon_listened_does_not_count),
		cmocka_unit_test(test_silence_while_no_api_listened_does_not_count),
		cmocka_unit_test(test_an_agent_heard_by_a_clock_that_differs_is_not_silent),
		cmocka_unit_test(test_a_terminate_is_over_when_the_provider_says_so),
	};

	return WORLD_TESTS(argc, argv, tests);
}
