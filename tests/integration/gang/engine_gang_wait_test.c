/* Gangs with elastic: replace that lose one machine. The others keep theirs and wait for another in
 * the same place, while that is cheaper than a new gang. */
#include "engine_world.h"
#include "base/text/text.h"

#define ELASTIC "{\"num_nodes\": 3, \"elastic\": \"replace\"}"
#define RUNS "SELECT count(*) = 1 FROM job WHERE state = 'RUNNING' AND epoch >= 1"
#define WAITS "SELECT count(*) FROM gang WHERE wait_us IS NOT NULL AND NOT wait_over"

/* Zone z2 is cheaper from now on: a new gang would go there. The start seems to have taken two
 * minutes, so a busy test machine is no reason to give up a wait. */
static void gang_runs(struct world *w, bool one_call)
{
	world_reset(w, true);
	w->cloud.gangs = one_call;
	world_pool(w, "z1", "a1", "spot", 900000);
	world_start(w);
	(void)world_job(w, ELASTIC);
	world_until(w, LIMIT, RUNS);
	world_sql(w, "UPDATE attempt SET created_us = created_us - 120000000");
	world_pool(w, "z2", "a1", "spot", 800000);
}

/* Single launches come in any order, and so do the ranks of the cloud's machines. */
static int lost_rank(struct world *w)
{
	return (
	    int)world_int(w, "SELECT rank FROM attempt WHERE epoch = 1 AND exit_reason = 'lost'");
}

static void check_replaced(struct world *w, int rank)
{
	assert_int_equal(world_int(w, "SELECT count(*) FROM gang"), 1);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 4);
	world_sql(w,
	    "CREATE TEMP TABLE IF NOT EXISTS moved AS SELECT 0 AS rank; DELETE FROM moved; INSERT "
	    "INTO moved SELECT b.rank FROM attempt a JOIN attempt b USING (job_id, rank) WHERE "
	    "a.epoch = 1 AND b.epoch = 2 AND a.node_id <> b.node_id");
	assert_int_equal(world_int(w, "SELECT count(*) FROM moved"), 1);
	assert_int_equal(world_int(w, "SELECT rank FROM moved"), rank);
	assert_int_equal(world_int(w, "SELECT waits_won FROM gang"), 1);
	assert_int_equal(world_int(w, WAITS), 0);
	assert_string_equal(world_text(w,
				"SELECT string_agg(outcome->>'choice', ',') FROM decision WHERE "
				"kind = 'gang_wait'"),
	    "wait");
	assert_true(world_int(w,
	    "SELECT (abs((outcome->>'bound_us')::int8 * 2 - (outcome->>'anew_us')::int8 * 3) < "
	    "2)::int FROM decision WHERE kind = 'gang_wait'"));
}

static void lost_rank_is_replaced(struct world *w, bool one_call)
{
	gang_runs(w, one_call);
	cloud_reclaim(&w->cloud, 1);
	world_until_epoch(w, 2);
	check_replaced(w, lost_rank(w));
	assert_string_equal(world_text(w,
				"SELECT string_agg(exit_reason, ',' ORDER BY exit_reason) FROM "
				"attempt "
				"WHERE epoch = 1"),
	    "killed,killed,lost");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision d, attempt a WHERE a.epoch = 1 AND "
			     "a.exit_reason = 'lost' AND kind = 'gang_wait' AND why ~ ('^rank ' || "
			     "a.rank || ' lost its machine; the others wait until [0-9:]{5} UTC "
			     "for "
			     "another in z1$')"),
	    1);
	world_exit_all(w);
	world_until_job(w, "SUCCEEDED");
	world_check_gangs(w);
}

static void test_a_lost_rank_gets_another_machine(void **state)
{
	lost_rank_is_replaced(*state, false);
}

/* Another machine comes by a launch of its own. */
static void test_a_lost_rank_of_one_launch_gets_another_machine(void **state)
{
	lost_rank_is_replaced(*state, true);
}

/* All save, so the set is whole; the other machine is sought while they do. */
static void test_a_notice_saves_all_and_replaces_one(void **state)
{
	struct world *w = *state;

	gang_runs(w, true);
	world_sql(w,
	    "INSERT INTO notice SELECT node_id, 'interruption', %" PRId64
	    ", 'imds', '', 1 FROM attempt WHERE ended_us IS NULL AND rank = 0; NOTIFY spot_engine",
	    world_us() + 4000000);
	world_until_epoch(w, 2);
	check_replaced(w, 0);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt a JOIN checkpoint c ON c.id = "
			     "a.restore_id AND c.rank = a.rank WHERE a.epoch = 2 AND a.steps_start "
			     "= 100 AND c.set_us IS NOT NULL"),
	    3);
	assert_true(world_int(w,
	    "SELECT (n.created_us <= (SELECT min(at_us) FROM event WHERE entity = 'job' AND event "
	    "= 'STOPPED'))::int FROM node n WHERE n.id = 4"));
	world_until(w, LIMIT,
	    "SELECT count(*) FROM recovery WHERE rank = 0 AND outcome = "
	    "'recovered' AND wanted_us IS NOT NULL");
	world_exit_all(w);
	world_check_gangs(w);
}

/* All went back, and another gang runs in z2. */
static void check_given_back(struct world *w, const char *why)
{
	world_until_epoch(w, 2);
	assert_string_equal(world_text(w,
				"SELECT DISTINCT p.zone FROM attempt a JOIN pool p ON p.id = "
				"a.pool_id WHERE epoch = 2"),
	    "z2");
	assert_string_equal(world_text(w, "SELECT why FROM gang WHERE state = 'RELEASED'"), why);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision WHERE kind = 'gang_wait' AND "
			     "outcome->>'choice' = 'give back'"),
	    1);
	world_exit_all(w);
	world_check_gangs(w);
}

static void test_a_place_that_refuses_ends_the_wait(void **state)
{
	struct world *w = *state;

	gang_runs(w, true);
	cloud_room(&w->cloud, "z1/a1/spot", 2);
	cloud_reclaim(&w->cloud, 2);
	check_given_back(w, "all 3 machines are given back: the place gave no other machine");
	assert_int_equal(world_int(w, "SELECT waits_lost FROM gang ORDER BY id LIMIT 1"), 1);
}

/* The launch hangs: its outcome is not known for longer than the bound. */
static void test_the_wait_ends_when_it_costs_more_than_a_new_gang(void **state)
{
	struct world *w = *state;

	gang_runs(w, false);
	world_kill(w);
	w->conf.list_lag_us = SPOT_US_PER_HOUR;
	w->conf.rank.restart_s = 2;
	w->conf.rank.refused_s = 0;
	world_sql(w, "UPDATE attempt SET started_us = NULL"); /* no measured restart */
	world_start(w);
	w->cloud.lose_launches = 1;
	cloud_reclaim(&w->cloud, 2);
	world_until(w, LIMIT, WAITS);
	assert_int_equal(world_int(w, "SELECT wait_until_us - wait_us FROM gang"), 3000000);
	world_until(w, LIMIT, "SELECT count(*) FROM gang WHERE wait_over");
	assert_true(world_int(w,
	    "SELECT (min(d.at_us) FILTER (WHERE outcome->>'choice' = 'give back') - min(d.at_us) "
	    "BETWEEN 3000000 AND 20000000)::int FROM decision d WHERE kind = 'gang_wait'"));
	world_kill(w);
	w->conf.list_lag_us = 0;
	world_start(w);
	check_given_back(w,
	    "all 3 machines are given back: no other machine came while the wait was cheaper than "
	    "a new gang");
}

static void test_two_lost_machines_are_not_waited_for(void **state)
{
	struct world *w = *state;

	gang_runs(w, true);
	cloud_reclaim(&w->cloud, 0);
	cloud_reclaim(&w->cloud, 1);
	world_until_epoch(w, 2);
	assert_int_equal(world_int(w, "SELECT count(*) FROM gang"), 2);
	world_exit_all(w);
	world_check_gangs(w);
}

/* A daemon that dies in the wait goes on with it. */
static void test_a_wait_survives_the_daemon(void **state)
{
	struct world *w = *state;

	gang_runs(w, false);
	cloud_reclaim(&w->cloud, 1);
	world_until(w, LIMIT, WAITS);
	world_kill(w);
	world_start(w);
	world_until_epoch(w, 2);
	check_replaced(w, lost_rank(w));
	world_exit_all(w);
	world_check_gangs(w);
}

static void test_a_cancellation_ends_the_wait(void **state)
{
	struct world *w = *state;

	gang_runs(w, false);
	w->cloud.lose_launches = 1;
	cloud_reclaim(&w->cloud, 1);
	world_until(w, LIMIT, WAITS);
	world_cancel(w);
	world_until_job(w, "CANCELLED");
	world_check_gangs(w);
}

/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_lost_rank_gets_another_machine),
		cmocka_unit_test(test_a_lost_rank_of_one_launch_gets_another_machine),
		cmocka_unit_test(test_a_notice_saves_all_and_replaces_one),
		cmocka_unit_test(test_a_place_that_refuses_ends_the_wait),
		cmocka_unit_test(test_the_wait_ends_when_it_costs_more_than_a_new_gang),
		cmocka_unit_test(test_two_lost_machines_are_not_waited_for),
		cmocka_unit_test(test_a_wait_survives_the_daemon),
		cmocka_unit_test(test_a_cancellation_ends_the_wait),
	};

	return WORLD_TESTS(argc, argv, tests);
}
