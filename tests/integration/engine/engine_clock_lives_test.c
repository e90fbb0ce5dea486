/* Lives of machines that a wrong clock wrote down, and their bills. */
#include "engine_world.h"
#include "store/q.h"
#include <libpq-fe.h>

#define LIFE(token, state, launched, ended, billed) \
	"INSERT INTO node (pool_id, state, state_us, token, name, price_micros, created_us, " \
	"launched_us, ended_us, billed_to_us, why) SELECT id, '" state "', 0, '" token \
	"', '" token "', 1000000, 0, " launched ", " ended ", " billed ", '' FROM pool; "

static int64_t seconds_from_now(struct world *w, const char *column, const char *token)
{
	char sql[200];

	snprintf(sql, sizeof(sql),
	    "SELECT coalesce((%s - now_us()) / 1000000, -1) FROM node n LEFT JOIN attempt a ON "
	    "a.node_id = n.id WHERE token = '%s'",
	    column, token);
	return world_int(w, sql);
}

static void lives_settle(struct world *w, const char *fence)
{
	const struct pg_stmt *s = &q_stmt_engine_clock_lives;
	const char *values[] = { "10000000000", "9700000000", "0", fence };
	PGresult *r =
	    PQexecParams(w->conn, s->sql, s->params_n, s->param_types, values, NULL, NULL, 0);

	assert_int_equal(PQresultStatus(r), PGRES_COMMAND_OK);
	PQclear(r);
}

/* Now is 10,000 s. Ahead are two hours and a half more, behind is the time before the doubt. */
static void lives_wrong_make(struct world *w)
{
	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	(void)world_job(w, "{}");
	world_sql(w,
	    "CREATE FUNCTION now_us() RETURNS int8 LANGUAGE sql AS 'SELECT 10000000000'; INSERT "
	    "INTO leader (name, epoch, holder, until_us) "
	    "VALUES ('engine', 7, '', 0) ON CONFLICT (name) DO UPDATE SET epoch = 7; " LIFE("ended",
		"GONE", "9900000000", "19000000000",
		"9960000000") LIFE("both", "GONE", "18700000000", "19000000000",
		"NULL") LIFE("lives", "READY", "18700000000", "NULL", "NULL") LIFE("billed", "GONE",
		"9900000000", "19000000000", "19000000000") LIFE("soon", "GONE", "9900000000",
		"10030000000", "9960000000") LIFE("past", "READY", "9000000000", "NULL",
		"9100000000") LIFE("short", "GONE", "9500000000", "9550000000",
		"9550000000") LIFE("early", "READY", "2000000000", "NULL", "NULL") LIFE("whole",
		"GONE", "2000000000", "2100000000",
		"NULL") LIFE("unheard", "UNKNOWN", "18700000000", "NULL",
		"NULL") "UPDATE node SET launch_sent_us = launched_us; UPDATE node SET launched_us "
			"= NULL WHERE token = 'unheard'; "
			"INSERT INTO event (at_us, entity, entity_id, node_id, event, was, now, "
			"why, actor) SELECT launched_us, 'node', 'n' || id, id, 'LAUNCH', "
			"'WANTED', "
			"'LAUNCHING', '', 'engine' FROM node WHERE token IN ('early', 'whole') "
			"UNION ALL SELECT 2100000000, 'node', 'n' || id, id, 'GONE', "
			"'TERMINATING', "
			"'GONE', '', 'engine' FROM node WHERE token IN ('short', 'whole'); "
			"INSERT INTO attempt (job_id, epoch, node_id, pool_id, market, desired, "
			"phase, created_us) SELECT 1, 2, id, pool_id, 'spot', 'run', 'SETUP', "
			"2010000000 FROM node WHERE token = 'early'; "
			"INSERT INTO attempt (job_id, epoch, node_id, pool_id, market, desired, "
			"phase, created_us, started_us, ended_us) SELECT 1, 1, id, pool_id, "
			"'spot', 'run', 'EXITED', 18800000000, 18900000000, 19000000000 FROM node "
			"WHERE token = 'both'");
}

static void test_lives_written_by_a_wrong_clock_are_corrected_except_the_bill(void **state)
{
	struct world *w = *state;

	lives_wrong_make(w);
	lives_settle(w, "6");
	assert_int_equal(seconds_from_now(w, "n.ended_us", "ended"), 9000);
	assert_int_equal(seconds_from_now(w, "a.ended_us", "both"), 9000);
	lives_settle(w, "7");
	assert_int_equal(seconds_from_now(w, "n.ended_us", "ended"), 0);
	assert_int_equal(seconds_from_now(w, "launched_us", "ended"), -100);
	assert_int_equal(seconds_from_now(w, "n.ended_us", "both"), 0);
	assert_int_equal(seconds_from_now(w, "launched_us", "both"), -300);
	assert_int_equal(seconds_from_now(w, "a.created_us", "both"), -200);
	assert_int_equal(seconds_from_now(w, "a.started_us", "both"), -100);
	assert_int_equal(seconds_from_now(w, "a.ended_us", "both"), 0);
	assert_int_equal(seconds_from_now(w, "launched_us", "lives"), 0);
	assert_int_equal(seconds_from_now(w, "n.ended_us", "lives"), -1);
	assert_int_equal(seconds_from_now(w, "launch_sent_us", "lives"), 0);
	/* Should it be found it lives since it was sent. */
	assert_int_equal(seconds_from_now(w, "launch_sent_us", "unheard"), 0);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node WHERE token = 'unheard' AND launched_us IS "
			     "NULL AND ended_us IS NULL"),
	    1);
	assert_int_equal(seconds_from_now(w, "n.ended_us", "billed"), 9000);
	assert_int_equal(seconds_from_now(w, "n.ended_us", "soon"), 30);
	assert_int_equal(seconds_from_now(w, "launched_us", "past"), -1000);
	/* The doubt began 300 s ago. */
	assert_int_equal(seconds_from_now(w, "n.ended_us", "short"), -300);
	assert_int_equal(seconds_from_now(w, "launched_us", "short"), -500);
	assert_int_equal(seconds_from_now(w, "launched_us", "early"), -300);
	assert_int_equal(seconds_from_now(w, "launch_sent_us", "early"), -300);
	assert_int_equal(seconds_from_now(w, "a.created_us", "early"), -290);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt WHERE epoch = 2 AND started_us IS NULL "
			     "AND ended_us IS NULL"),
	    1);
	assert_int_equal(seconds_from_now(w, "launched_us", "whole"), -300);
	assert_int_equal(seconds_from_now(w, "n.ended_us", "whole"), -200);
	world_sql(w, "DROP FUNCTION now_us()");
}

/* Its cloud tells no time: then it is billed when the doubt is over. */
static void test_nothing_is_billed_while_nobody_says_that_the_clock_is_right(void **state)
{
	struct world *w = *state;
	int64_t began;

	world_reset(w, true);
	w->conf.clock_doubt_us = 3 * SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "spot", 1000000);
	(void)world_job(w, "{}");
	began = world_us();
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM ledger");
	assert_true(world_int(w, "SELECT min(at_us) FROM ledger") >= began + 3 * SPOT_US_PER_S);
	assert_true(world_int(w, "SELECT min(from_us) FROM ledger") < began + 3 * SPOT_US_PER_S);
	world_finish(w, 1);
}

/* A machine boots, and its daemon is dead. By the next daemon's clock all rows are an hour older
 * than they are. */
static void boots_an_hour_ago(struct world *w)
{
	w->agents = false;
	world_pool(w, "z1", "a1", "spot", 1000000);
	(void)world_job(w, "{}");
	world_start(w);
	world_until_node(w, "BOOTING");
	world_kill(w);
	world_sql(w,
	    "UPDATE node SET created_us = created_us - 3600000000, launch_sent_us = launch_sent_us "
	    "- 3600000000, launched_us = launched_us - 3600000000, "
	    "state_us = state_us - 3600000000; UPDATE event SET at_us = at_us - 3600000000");
}

/* Its host started again with a clock an hour ahead, and no provider has confirmed the time yet. */
static void test_a_daemon_that_starts_with_a_clock_ahead_lets_machines_boot(void **state)
{
	struct world *w = *state;
	int64_t began;

	world_reset(w, true);
	w->conf.clock_doubt_us = 3 * SPOT_US_PER_S;
	boots_an_hour_ago(w);
	began = world_us();
	world_start(w);
	/* This cloud tells no time: in the end the clock is believed. */
	world_until(w, LIMIT, "SELECT count(*) FROM event WHERE event = 'BOOT_TIMEOUT'");
	assert_true(world_int(w, "SELECT min(at_us) FROM event WHERE event = 'BOOT_TIMEOUT'") >=
	    began + 3 * SPOT_US_PER_S);
}

/* The leader's clock was an hour behind; the leader died, and the clock was corrected while nobody
 * led. The next more leaders died as well. */
static void boots_in_time(struct world *w, int more)
{
	world_reset(w, true);
	w->conf.clock_doubt_us = 0; /* a clock in doubt ends no span either */
	boots_an_hour_ago(w);
	world_sql(w, "UPDATE led SET from_us = from_us - 3600000000, to_us = to_us - 3600000000");
	for (; more > 0; more--) {
		world_start(w);
		world_until(w, LIMIT,
		    "SELECT count(*) FROM led, leader l WHERE led.epoch = l.epoch AND led.to_us > "
		    "led.from_us");
		world_kill(w);
	}
	world_start(w);
	/* It has checked the booting machine by then. */
	world_until(w, LIMIT,
	    "SELECT count(*) FROM led, leader l WHERE led.epoch = l.epoch AND led.to_us > "
	    "led.from_us + 4000000");
	w->agents = true;
	world_until_job(w, "RUNNING");
	assert_int_equal(world_int(w, "SELECT count(*) FROM event WHERE event = 'BOOT_TIMEOUT'"),
	    0);
	world_finish(w, 1);
}

/* The simulation found it (seed 577). */
static void test_a_machine_of_a_dead_leader_behind_has_time_to_boot(void **state)
{
	boots_in_time(*state, 0);
}

/* The simulation found it (seed 311): a third leader knew nothing of it. */
static void test_nor_does_it_lose_that_time_when_the_next_leader_dies(void **state)
{
	boots_in_time(*state, 2);
}

/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lives_written_by_a_wrong_clock_are_corrected_except_the_bill),
		cmocka_unit_test(test_a_daemon_that_starts_with_a_clock_ahead_lets_machines_boot),
		cmocka_unit_test(test_a_machine_of_a_dead_leader_behind_has_time_to_boot),
		cmocka_unit_test(test_nor_does_it_lose_that_time_when_the_next_leader_dies),
		cmocka_unit_test(test_nothing_is_billed_while_nobody_says_that_the_clock_is_right),
	};

	return WORLD_TESTS(argc, argv, tests);
}
