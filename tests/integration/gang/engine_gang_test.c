/*
 * Jobs of several nodes: all machines in one zone at once or none, held for a bounded time. One
 * epoch for all ranks, whole checkpoints only. One launch if the cloud has it, else single
 * launches. Moves are in engine_gang_move_test.c.
 */
#include "engine_world.h"
#include "base/text/text.h"

#define THREE "{\"num_nodes\": 3}"
#define RUNS "SELECT count(*) = 1 FROM job WHERE state = 'RUNNING' AND epoch >= 1"

static void test_runs_to_the_end(struct world *w, bool one_call)
{
	world_reset(w, true);
	w->cloud.gangs = one_call;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z2", "a1", "spot", 900000);
	world_running_gang(w);
	assert_int_equal(
	    world_int(w, "SELECT count(*) FROM attempt WHERE ended_us IS NULL AND desired = 'run'"),
	    3);
	assert_int_equal(world_int(w,
			     "SELECT count(DISTINCT p.zone) FROM attempt a JOIN pool p ON p.id = "
			     "a.pool_id"),
	    1);
	assert_string_equal(world_text(w,
				"SELECT string_agg(rank::text, ',' ORDER BY rank) FROM attempt"),
	    "0,1,2");
	assert_int_equal(w->cloud.gang_launches, one_call ? 1 : 0);
	assert_int_equal(w->cloud.launches, one_call ? 0 : 3);
	world_exit_all(w);
	world_until_job(w, "SUCCEEDED");
	world_check_gangs(w);
	assert_int_equal(world_int(w,
			     "SELECT count(DISTINCT node_id) FROM ledger WHERE kind = 'compute' "
			     "AND job_id = 1"),
	    3);
}

static void test_three_nodes_by_one_launch(void **state)
{
	test_runs_to_the_end(*state, true);
}

static void test_three_nodes_by_single_launches(void **state)
{
	test_runs_to_the_end(*state, false);
}

/* Three hours of slack, and two in which it may be that not all machines come: spot that is lost
 * would be too late. */
static void test_a_deadline_counts_the_time_that_gathering_takes(void **state)
{
	static const char *const markets[] = { "on_demand", "spot" };
	struct world *w = *state;

	for (int i = 0; i < 2; i++) {
		world_reset(w, true);
		w->cloud.gangs = true;
		w->conf.gang_hold_us = i == 0 ? 2 * SPOT_US_PER_HOUR : w->conf.gang_hold_us;
		world_pool(w, "z1", "a1", "spot", 1000000);
		world_pool(w, "z1", "a1", "on_demand", 3000000);
		(void)world_job(w, THREE);
		world_sql(w, "UPDATE job SET deadline_us = created_us + 13 * 3600000000");
		world_start(w);
		world_until(w, LIMIT, RUNS);
		assert_string_equal(world_text(w, "SELECT DISTINCT market FROM attempt"),
		    markets[i]);
		world_exit_all(w);
		world_check_gangs(w);
	}
}

/* No spot for three: it waits as long as the deadline allows, by the policy's last safe moment and
 * not by patience. */
static void test_a_gang_with_a_deadline_waits_until_the_last_safe_moment(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->cloud.gangs = true;
	w->conf.gang_hold_us = 2 * SPOT_US_PER_S;
	w->conf.supply.patience_us = 1000;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z1", "a1", "on_demand", 3000000);
	cloud_room(&w->cloud, "z1/a1/spot", 2);
	(void)world_job(w, THREE);
	world_sql(w, "UPDATE job SET deadline_us = created_us + 12 * 3600000000");
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE why LIKE 'deadline: %'");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM decision WHERE kind = 'wait' AND inputs->'deadline'->>'choice' = "
	    "'wait'");
	/* An hour of all three costs 9 dollars; hours include unpaid waits for refused launches. */
	assert_true(world_int(w,
	    "SELECT min((inputs->'deadline'->>'on_demand_micros')::int8) > 8500000 FROM decision"
	    " WHERE inputs ? 'deadline'"));
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM gang g JOIN pool p ON p.id = g.pool_id WHERE "
			     "p.market = 'on_demand'"),
	    0);
	world_kill(w); /* a waiting job is not asked again at once */
	world_sql(w,
	    "UPDATE job SET deadline_us = %" PRId64
	    " + (SELECT max((inputs->'deadline'->>'work_us')::int8) FROM decision)",
	    world_us() + 15000000);
	world_start(w);
	world_until(w, LIMIT, RUNS);
	assert_string_equal(world_text(w, "SELECT DISTINCT market FROM attempt"), "on_demand");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision WHERE kind = 'failover' AND why LIKE "
			     "'%deadline: %'"),
	    1);
	/* With time to gather them. */
	assert_true(world_int(w,
	    "SELECT g.created_us + 2000000 < j.deadline_us - (SELECT "
	    "max((inputs->'deadline'->>'work_us')::int8)"
	    " FROM decision) FROM gang g JOIN job j ON j.id = g.job_id JOIN pool p ON p.id = "
	    "g.pool_id"
	    " WHERE p.market = 'on_demand'"));
	world_exit_all(w);
	world_check_gangs(w);
}

/* One ended before the reply to a repeat came: its life is billed, like the lives of the others. */
static void test_a_repeat_that_finds_one_ended_bills_all(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < 2; i++) {
		world_reset(w, true);
		w->cloud.gangs = w->cloud.dies_unheard = true;
		w->cloud.tells_ended = i == 0;
		w->cloud.lose_replies = 1;
		w->cloud.hide = true; /* no look-up is before the repeat */
		world_pool(w, "z1", "a1", "spot", 1000000);
		world_start(w);
		(void)world_job(w, THREE);
		for (int t = 0; t < LIMIT / 10 && w->cloud.gang_launches < 2; t++) {
			world_for(w, 10);
		}
		w->cloud.hide = false;
		world_until(w, LIMIT,
		    "SELECT count(*) FROM node WHERE ref = 'i-6' AND state = 'READY'");
		world_until(w, LIMIT, RUNS);
		world_exit_all(w);
		world_check_gangs(w);
		assert_int_equal(world_int(w,
				     "SELECT count(*) FROM node WHERE ref IS NOT NULL AND "
				     "billed_to_us > launched_us"),
		    6);
	}
}

/* The zone has two of three: they are held no longer than the hold, then another zone is used. */
static void test_two_of_three_are_given_back_and_another_zone_serves(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 900000);
	world_pool(w, "z2", "a1", "spot", 1000000);
	cloud_room(&w->cloud, "z1/a1/spot", 2);
	w->conf.gang_hold_us = 4 * SPOT_US_PER_S; /* all three of z2 come within it */
	w->conf.cool_min_us = w->conf.cool_max_us = 60 * SPOT_US_PER_S;
	world_start(w);
	(void)world_job(w, THREE);
	world_until(w, LIMIT,
	    "SELECT count(n.ref) = 2 FROM node n JOIN pool p ON p.id = n.pool_id WHERE p.zone = "
	    "'z1'");
	world_until(w, LIMIT, RUNS);
	assert_string_equal(
	    world_text(w, "SELECT DISTINCT p.zone FROM attempt a JOIN pool p ON p.id = a.pool_id"),
	    "z2");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM gang_cool c JOIN pool p ON p.id = c.pool_id "
			     "WHERE p.zone = 'z1' AND want = 3"),
	    1);
	/* The hold, and the time of an end on a busy machine. */
	assert_true(world_int(w,
	    "SELECT max(n.terminate_us - n.launched_us) < 20000000 FROM node n JOIN pool p ON p.id "
	    "= n.pool_id"
	    " WHERE p.zone = 'z1' AND n.launched_us IS NOT NULL"));
	world_exit_all(w);
	world_until_job(w, "SUCCEEDED");
	world_check_gangs(w);
}

/* The outcome of one launch is unknown: the others are not held for it longer than the hold. */
static void test_a_launch_that_hangs_is_not_waited_for_beyond_the_hold(void **state)
{
	struct world *w = *state;
	int64_t lag;

	world_reset(w, false);
	world_pool(w, "z1", "a1", "spot", 900000);
	world_pool(w, "z2", "a1", "spot", 1000000);
	lag = w->conf.list_lag_us;
	w->conf.list_lag_us = SPOT_US_PER_HOUR;
	w->conf.gang_hold_us = 4 * SPOT_US_PER_S;
	w->conf.cool_min_us = w->conf.cool_max_us = 60 * SPOT_US_PER_S;
	w->cloud.lose_launches = 1;
	world_start(w);
	(void)world_job(w, THREE);
	world_until(w, LIMIT,
	    "SELECT (count(*) FILTER (WHERE state = 'READY') = 2 AND count(*) FILTER (WHERE state "
	    "= 'UNKNOWN') = 1)::int FROM node");
	world_until(w, LIMIT, RUNS);
	assert_string_equal(world_text(w, "SELECT why FROM gang WHERE state = 'RELEASED'"),
	    "2 of 3 machines came within the hold: all are given back");
	world_kill(w);
	w->conf.list_lag_us = lag;
	world_start(w);
	world_exit_all(w);
	world_check_gangs(w);
}

/* Capacity that comes back within the hold is used. */
static void test_a_missing_machine_that_comes_within_the_hold_is_taken(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->conf.gang_hold_us = 10 * SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "spot", 900000);
	cloud_room(&w->cloud, "z1/a1/spot", 2);
	world_start(w);
	(void)world_job(w, THREE);
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM node WHERE state = 'READY'");
	cloud_room(&w->cloud, "z1/a1/spot", 3);
	world_until(w, LIMIT, RUNS);
	assert_int_equal(world_int(w, "SELECT count(*) FROM gang"), 1);
	world_exit_all(w);
	world_check_gangs(w);
}

static void test_a_refused_gang_launch_holds_nothing(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->cloud.gangs = true;
	world_pool(w, "z1", "a1", "spot", 900000);
	world_pool(w, "z2", "a1", "spot", 1000000);
	cloud_room(&w->cloud, "z1/a1/spot", 2);
	w->conf.cool_min_us = w->conf.cool_max_us = 60 * SPOT_US_PER_S; /* asked once */
	world_running_gang(w);
	assert_int_equal(w->cloud.n, 3);
	assert_int_equal(w->cloud.gang_launches, 2);
	/* Refused for three: single nodes may still go there. */
	assert_int_equal(world_int(w, "SELECT count(*) FROM pool_cool"), 0);
	world_exit_all(w);
	world_check_gangs(w);
}

/* Two gangs of three, four machines in the only zone: one after the other, never two halves. */
static void test_two_gangs_never_hold_each_others_halves(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 900000);
	cloud_room(&w->cloud, "z1/a1/spot", 4);
	world_start(w);
	(void)world_job(w, THREE);
	(void)world_job(w, THREE);
	world_until(w, LIMIT, RUNS);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM job WHERE state = 'RUNNING' AND id = 1"),
	    1);
	world_for(w, 1500);
	assert_int_equal(world_int(w, "SELECT count(*) FROM job WHERE state = 'QUEUED' AND id = 2"),
	    1);
	assert_int_equal(world_int(w, "SELECT count(*) FROM attempt WHERE job_id = 2"), 0);
	world_exit_all(w);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING' AND id = 2");
	world_exit_all(w);
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM job WHERE state = 'SUCCEEDED'");
	world_check_gangs(w);
}

/* The quota has room for two: nothing is sent, and the job says why it waits. */
static void test_a_quota_without_room_for_all_is_not_tried(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 900000);
	world_sql(w,
	    "INSERT INTO quota VALUES ('fake', 'r1', 'P/spot', 'spot', 'instances', 2, 1)");
	world_start(w);
	(void)world_job(w, THREE);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job WHERE why LIKE '%the quota has room for 2 of 3 machines%'");
	world_for(w, 600);
	assert_int_equal(w->cloud.n, 0);
	world_sql(w, "UPDATE quota SET quota_limit = 3");
	world_until(w, LIMIT, RUNS);
	world_exit_all(w);
	world_check_gangs(w);
}

/* The reply of the one launch is lost: looked up by the token, adopted, never launched twice. */
static void test_a_lost_reply_of_a_gang_launch_is_looked_up(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->cloud.gangs = true;
	w->cloud.lose_replies = 1;
	world_pool(w, "z1", "a1", "spot", 900000);
	world_running_gang(w);
	assert_int_equal(w->cloud.n, 3);
	world_exit_all(w);
	world_check_gangs(w);
	/* Without effect: sent again under the same token. */
	world_reset(w, true);
	w->cloud.gangs = true;
	w->cloud.lose_launches = 1;
	world_pool(w, "z1", "a1", "spot", 900000);
	world_running_gang(w);
	assert_int_equal(w->cloud.n, 3);
	assert_int_equal(w->cloud.gang_launches, 2);
	world_exit_all(w);
	world_check_gangs(w);
}

/* Of steps 50 and 60 ranks have saved those where the condition holds, of so many bytes; the set of
 * 50 counts. */
static void goes_on_from_50(struct world *w, const char *bytes, const char *where)
{
	world_reset(w, true);
	w->agents_save = false;
	world_pool(w, "z1", "a1", "spot", 900000);
	world_running_gang(w);
	world_sql(w,
	    "INSERT INTO checkpoint (job_id, epoch, rank, state, reason, steps, bytes, set_key, "
	    "created_us, urls_us, committed_us)"
	    " SELECT 1, 1, r, 'COMMITTED', 'periodic', s, %s, s, 1, 1, 1 FROM unnest(ARRAY[50, "
	    "60]) s, generate_series(0, 2) r"
	    " WHERE %s; NOTIFY spot_engine",
	    bytes, where);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job j JOIN checkpoint c ON c.id = j.checkpoint_id WHERE c.steps "
	    "= 50 AND c.rank = 0");
	cloud_reclaim(&w->cloud, 0);
	world_until_epoch(w, 2);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt a JOIN checkpoint c ON c.id = "
			     "a.restore_id WHERE a.epoch = 2"
			     " AND a.steps_start = 50 AND c.steps = 50 AND c.rank = a.rank"),
	    3);
}

/* A set that one rank did not save does not count: restored is the one before. */
static void test_only_whole_checkpoints_count(void **state)
{
	struct world *w = *state;

	goes_on_from_50(w, "10", "NOT (r = 2 AND s = 60)");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM checkpoint WHERE steps = 60 AND state = "
			     "'ABANDONED'"),
	    2);
	world_exit_all(w);
	world_check_gangs(w);
}

/* Only rank 0 writes files, as in most training with the same model everywhere; a set without any
 * file is no checkpoint. */
static void test_ranks_may_have_nothing_to_save_but_not_all(void **state)
{
	struct world *w = *state;

	goes_on_from_50(w, "CASE WHEN s = 50 AND r = 0 THEN 10 ELSE 0 END", "true");
	world_exit_all(w);
	world_check_gangs(w);
}

/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_three_nodes_by_one_launch),
		cmocka_unit_test(test_three_nodes_by_single_launches),
		cmocka_unit_test(test_a_repeat_that_finds_one_ended_bills_all),
		cmocka_unit_test(test_two_of_three_are_given_back_and_another_zone_serves),
		cmocka_unit_test(test_a_deadline_counts_the_time_that_gathering_takes),
		cmocka_unit_test(test_a_gang_with_a_deadline_waits_until_the_last_safe_moment),
		cmocka_unit_test(test_a_launch_that_hangs_is_not_waited_for_beyond_the_hold),
		cmocka_unit_test(test_a_missing_machine_that_comes_within_the_hold_is_taken),
		cmocka_unit_test(test_a_refused_gang_launch_holds_nothing),
		cmocka_unit_test(test_two_gangs_never_hold_each_others_halves),
		cmocka_unit_test(test_a_quota_without_room_for_all_is_not_tried),
		cmocka_unit_test(test_a_lost_reply_of_a_gang_launch_is_looked_up),
		cmocka_unit_test(test_only_whole_checkpoints_count),
		cmocka_unit_test(test_ranks_may_have_nothing_to_save_but_not_all),
	};

	return WORLD_TESTS(argc, argv, tests);
}
