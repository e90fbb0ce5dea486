/* Gangs that a notice, a loss, an error or their user ends: all ranks together. */
#include "engine_world.h"
#include "base/text/text.h"

#define THREE "{\"num_nodes\": 3}"
#define RUNS "SELECT count(*) = 1 FROM job WHERE state = 'RUNNING' AND epoch >= 1"

static void notice_on(struct world *w, int rank)
{
	world_sql(w,
	    "INSERT INTO notice SELECT node_id, 'interruption', %" PRId64
	    ", 'imds', '', 1 FROM attempt WHERE ended_us IS NULL AND rank = %d; NOTIFY spot_engine",
	    world_us() + 4000000, rank);
}

static void test_a_notice_on_one_rank_moves_the_whole_gang(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->cloud.gangs = true;
	w->conf.reclaim_cool_us = 60 * SPOT_US_PER_S; /* z1 is the cheapest once it does not rest */
	world_pool(w, "z1", "a1", "spot", 900000);
	world_pool(w, "z2", "a1", "spot", 1000000);
	world_running_gang(w);
	notice_on(w, 1);
	world_until_epoch(w, 2);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt WHERE epoch = 1 AND exit_reason = "
			     "'drained'"),
	    3);
	/* Each rank got its own part of the one whole checkpoint. */
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt a JOIN checkpoint c ON c.id = "
			     "a.restore_id AND c.rank = a.rank"
			     " WHERE a.epoch = 2 AND a.steps_start = 100 AND c.set_us IS NOT NULL"),
	    3);
	assert_string_equal(world_text(w,
				"SELECT DISTINCT p.zone FROM attempt a JOIN pool p ON p.id = "
				"a.pool_id WHERE epoch = 2"),
	    "z2");
	world_until(w, LIMIT, "SELECT count(*) = 3 FROM node WHERE state = 'READY'");
	world_exit_all(w);
	world_check_gangs(w);
}

/* Lost without a word: no whole checkpoint of that epoch, so the others are stopped and all begin
 * again. */
static void test_a_lost_node_stops_all_and_all_begin_again(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 900000);
	world_pool(w, "z2", "a1", "spot", 1000000);
	world_running_gang(w);
	cloud_reclaim(&w->cloud, 1);
	world_until_epoch(w, 2);
	assert_string_equal(world_text(w,
				"SELECT string_agg(exit_reason, ',' ORDER BY exit_reason) FROM "
				"attempt WHERE epoch = 1"),
	    "killed,killed,lost");
	assert_int_equal(
	    world_int(w, "SELECT count(*) FROM event WHERE entity = 'job' AND event = 'NODE_LOST'"),
	    1);
	assert_int_equal(world_int(w, "SELECT restarts FROM job"), 0);
	world_exit_all(w);
	world_check_gangs(w);
	world_until(w, LIMIT,
	    "SELECT count(DISTINCT node_id) = 3 FROM ledger WHERE kind = 'lost_work'");
}

static void end_rank(struct world *w, int rank, const char *reason, int code)
{
	world_sql(w,
	    "UPDATE attempt SET phase = 'EXITED', exit_reason = '%s', exit_code = %d, ended_us = "
	    "%" PRId64 " WHERE ended_us IS NULL AND rank = %d; NOTIFY spot_engine",
	    reason, code, world_us(), rank);
}

static void test_a_rank_that_fails_stops_the_others_and_the_job_fails(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 900000);
	world_running_gang(w);
	end_rank(w, 0, "ok", 0);
	world_for(w, 200);
	assert_int_equal(world_int(w, "SELECT count(*) FROM job WHERE state = 'RUNNING'"), 1);
	end_rank(w, 2, "error", 7);
	world_until_job(w, "FAILED");
	assert_string_equal(world_text(w, "SELECT why FROM job"), "rank 2: error: exit code 7");
	assert_string_equal(world_text(w, "SELECT reason FROM job"), "error");
	world_check_gangs(w);
}

#define TIMED "{\"num_nodes\": 3, \"max_duration_s\": %d}"

static void test_a_gang_whose_time_is_over_saves_stops_and_fails(void **state)
{
	struct world *w = *state;
	char extra[64];

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 900000);
	world_start(w);
	snprintf(extra, sizeof(extra), TIMED, 1);
	(void)world_job(w, extra);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job WHERE state = 'FAILED' AND reason = 'overtime'");
	assert_int_equal(world_int(w, "SELECT count(*) FROM checkpoint WHERE state = 'COMMITTED'"),
	    3);
	assert_int_equal(world_int(w, "SELECT max(epoch) FROM attempt"), 1);
	world_check_gangs(w);
}

/* A gang of which nothing has run has used none of its time. */
static void test_a_gang_with_a_longest_time_may_fail_before_it_runs(void **state)
{
	struct world *w = *state;
	char extra[64];

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 900000);
	world_start(w);
	snprintf(extra, sizeof(extra), TIMED, 3600);
	(void)world_job(w, extra);
	world_until(w, LIMIT, RUNS);
	world_sql(w,
	    "UPDATE attempt SET phase = 'EXITED', exit_reason = 'setup_failed', exit_code = 3, "
	    "started_us = NULL, ended_us = %" PRId64,
	    world_us());
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job WHERE state = 'FAILED' AND reason = 'setup_failed'");
	world_check_gangs(w);
}

/* With restarts left it begins again on the machines that it has. */
static void test_a_restart_after_an_error_keeps_the_machines(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 900000);
	world_start(w);
	(void)world_job(w, "{\"num_nodes\": 3, \"max_restarts\": 1}");
	world_until(w, LIMIT, RUNS);
	end_rank(w, 1, "error", 7);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 2 AND restarts = 1");
	assert_int_equal(w->cloud.n, 3);
	assert_int_equal(world_int(w, "SELECT count(*) FROM gang"), 1);
	world_exit_all(w);
	world_check_gangs(w);
}

static void test_a_cancelled_gang_ends_wherever_it_is(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < 2; i++) {
		world_reset(w, true);
		w->cloud.gangs = i == 1;
		world_pool(w, "z1", "a1", "spot", 900000);
		cloud_room(&w->cloud, "z1/a1/spot", i == 0 ? 2 : 9);
		w->conf.gang_hold_us = 60000000;
		world_start(w);
		(void)world_job(w, THREE);
		world_until(w, LIMIT,
		    i == 0 ? "SELECT count(*) = 2 FROM node WHERE state = 'READY'" : RUNS);
		world_cancel(w);
		world_until_job(w, "CANCELLED");
		world_check_gangs(w);
	}
}

/* A rank is lost, and the agents of the others cannot be reached. A cancel then shows the job as
 * being cancelled, and it is not placed again. */
static void test_a_gang_whose_ranks_were_told_to_stop_is_cancelled(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 900000);
	world_running_gang(w);
	w->agents = false;
	cloud_reclaim(&w->cloud, 1);
	world_until_job(w, "DRAINING");
	world_cancel(w);
	world_until_job(w, "CANCELLING");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt WHERE ended_us IS NULL AND desired = "
			     "'kill' AND drain_why LIKE 'rank % is lost%'"),
	    2);
	w->agents = true;
	world_until_job(w, "CANCELLED");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM event WHERE entity = 'job' AND now = 'QUEUED'"),
	    0);
	world_check_gangs(w);
}

/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_notice_on_one_rank_moves_the_whole_gang),
		cmocka_unit_test(test_a_lost_node_stops_all_and_all_begin_again),
		cmocka_unit_test(test_a_rank_that_fails_stops_the_others_and_the_job_fails),
		cmocka_unit_test(test_a_gang_whose_time_is_over_saves_stops_and_fails),
		cmocka_unit_test(test_a_gang_with_a_longest_time_may_fail_before_it_runs),
		cmocka_unit_test(test_a_restart_after_an_error_keeps_the_machines),
		cmocka_unit_test(test_a_cancelled_gang_ends_wherever_it_is),
		cmocka_unit_test(test_a_gang_whose_ranks_were_told_to_stop_is_cancelled),
	};

	return WORLD_TESTS(argc, argv, tests);
}
