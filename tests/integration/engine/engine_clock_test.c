/*
 * Rows that a daemon wrote by a wrong wall clock, once the clock is corrected. Effects on verdicts
 * are in engine_verdict_test, on prices in pg_price_test.
 */
#include "engine_world.h"

#include "store/q.h"

#include <libpq-fe.h>

#define AHEAD "(SELECT %" PRId64 "::int8 + 9000000000)"

/* The simulation found it (seed 100019): a pool that was refused while the clock was ahead rested
 * until that time had come. */
static void test_acts_put_off_by_a_clock_ahead_are_done_in_time(void **state)
{
	struct world *w = *state;
	int64_t now = world_us(), job;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	job = world_job(w, "{}");
	world_sql(w,
	    "INSERT INTO pool_cool (pool_id, until_us, refusals, rc, why, at_us) SELECT id, " AHEAD
	    " + 1000, 1, 'no_capacity', '', " AHEAD " FROM pool",
	    now, now);
	world_start(w);
	world_until_job(w, "RUNNING");
	world_finish(w, job);
}

static void test_nor_is_a_gang(void **state)
{
	struct world *w = *state;
	int64_t now = world_us();

	world_reset(w, true);
	w->cloud.gangs = true;
	world_pool(w, "z1", "a1", "spot", 1000000);
	(void)world_job(w, "{\"num_nodes\": 3}");
	world_sql(w,
	    "INSERT INTO gang_cool (pool_id, want, until_us, refusals, why) SELECT id, 2, " AHEAD
	    ", 1, '' FROM pool",
	    now);
	world_start(w);
	world_until_job(w, "RUNNING");
	world_exit_all(w);
	world_check_gangs(w);
}

/* Correcting the clock must keep unknown times unknown: least() passes over NULL. A leak had been
 * asked to end, a machine that never spoke was heard and under suspicion, a gang that still waits
 * had served. */
static void test_a_clock_that_is_set_right_dates_nothing_that_has_not_happened(void **state)
{
	struct world *w = *state;
	int64_t now = world_us();

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	(void)world_job(w, "{\"num_nodes\": 3}");
	world_sql(w,
	    "INSERT INTO node (pool_id, state, state_us, token, name, price_micros, created_us, "
	    "launch_sent_us, why) SELECT id, 'UNKNOWN', " AHEAD
	    ", 'spt-ahead', 'brk.ahead', 1000000, %" PRId64 ", %" PRId64 ", '' FROM pool; "
	    "INSERT INTO gang (job_id, pool_id, place, want, state, created_us) SELECT 1, id, "
	    "'elsewhere', 3, 'ACQUIRING', " AHEAD " FROM pool; "
	    "INSERT INTO orphan (provider, region, ref, kind, first_us, last_us, why) SELECT 'x', "
	    "'x', 'i-x', 'instance', " AHEAD ", " AHEAD ", ''; "
	    "INSERT INTO feed (provider, region, feed, next_us, since_us) SELECT 'x', 'x', "
	    "'pools', 9000000000000000, 9000000000000000",
	    now, now, now, now, now, now);
	world_start(w);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM feed f, orphan o, gang g, node n WHERE f.provider = 'x' AND "
	    "o.ref = 'i-x' AND g.place = 'elsewhere' "
	    "AND n.token = 'spt-ahead' AND greatest(f.since_us, o.first_us, g.created_us, "
	    "n.state_us) < 1000000000 + (SELECT max(at_us) FROM event)");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node WHERE token = 'spt-ahead' AND "
			     "num_nonnulls(ready_us, idle_since_us, last_seen_us, "
			     "provider_seen_us, provider_since_us, suspect_us) <> 0"),
	    0);
	assert_int_equal(world_int(w, "SELECT count(*) FROM orphan WHERE terminate_us IS NOT NULL"),
	    0);
	assert_int_equal(world_int(w, "SELECT count(*) FROM gang WHERE served_us IS NOT NULL"), 0);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM feed WHERE provider = 'x' AND last_ok_us IS NOT "
			     "NULL"),
	    0);
}

/* The engine would retry in a minute by the right clock, and does so in hours. It retries a
 * termination, and the lookup of a launch that made nothing. */
static void test_a_retry_scheduled_by_a_clock_ahead_is_done_in_time(void **state)
{
	struct world *w = *state;
	int64_t now = world_us();

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	cloud_add(&w->cloud, "i-0", "spt-ends", false);
	world_sql(w,
	    "INSERT INTO node (pool_id, state, state_us, token, name, ref, price_micros, "
	    "created_us, launched_us, next_act_us, why) SELECT id, 'TERMINATING', "
	    "%" PRId64 ", 'spt-ends', 'brk.ends', 'i-0', 1000000, 1, 1, " AHEAD ", '' FROM pool; "
	    "INSERT INTO node (pool_id, state, state_us, token, name, price_micros, created_us, "
	    "launch_sent_us, next_act_us, why) SELECT id, 'UNKNOWN', "
	    "1, 'spt-void', 'brk.void', 1000000, 1, 1, " AHEAD ", '' FROM pool",
	    now, now, now);
	world_start(w);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE token = 'spt-ends' AND state = 'GONE'");
	assert_true(cloud_by_ref(&w->cloud, "i-0")->terminates >= 1);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE token = 'spt-void' AND state = 'FAILED' AND end_cause "
	    "= 'void'");
}

/* Its end was told by a clock ahead (seed 130705); by the same clock it is billed, and not hours
 * later. */
static void test_a_life_ended_by_a_clock_ahead_is_billed(void **state)
{
	struct world *w = *state;
	int64_t now = world_us();

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_sql(w,
	    "INSERT INTO node (pool_id, state, state_us, token, name, ref, price_micros, "
	    "created_us, launched_us, ended_us, why) SELECT id, 'GONE', " AHEAD
	    ", 'spt-ahead', 'brk.ahead', 'i-0', 1000000, %" PRId64 ", %" PRId64 ", " AHEAD
	    ", '' FROM pool",
	    now, now, now, now);
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE billed_to_us = ended_us");
	assert_int_equal(world_int(w, "SELECT sum(to_us - from_us)::int8 - 9000000000 FROM ledger"),
	    0);
}

/* A launch of unknown outcome that made nothing; when it was sent a clock told that was ahead. */
static void test_a_launch_that_a_clock_ahead_dated_is_given_up_in_time(void **state)
{
	struct world *w = *state;
	int64_t now = world_us();

	world_reset(w, true);
	w->conf.list_lag_us = SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_sql(w,
	    "INSERT INTO node (pool_id, state, state_us, token, name, price_micros, created_us, "
	    "launch_sent_us, why) SELECT id, 'UNKNOWN', "
	    "%" PRId64 ", 'spt-ahead', 'brk.ahead', 1000000, %" PRId64 ", " AHEAD ", '' FROM pool; "
	    "INSERT INTO event (at_us, entity, entity_id, node_id, event, was, now, why, actor) "
	    "SELECT launch_sent_us, 'node', 'n' || id, id, 'LAUNCH', 'WANTED', 'LAUNCHING', '', "
	    "'engine' FROM node",
	    now, now, now);
	world_start(w);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE state = 'FAILED' AND end_cause = 'void'");
}

/* The simulation found it (seed 150699): nobody answered for two minutes, and the request had
 * waited on its way for one of them. The machine was not a minute old, and in no list yet, when the
 * launch was given up. */
static void test_a_launched_machine_may_be_as_young_as_the_end_of_its_call(void **state)
{
	struct world *w = *state;
	int64_t now = world_us();

	world_reset(w, true);
	w->conf.list_lag_us = 4 * SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_sql(w,
	    "INSERT INTO node (pool_id, state, state_us, token, name, price_micros, created_us, "
	    "launch_sent_us, why) SELECT id, 'UNKNOWN', "
	    "%" PRId64 ", 'spt-slow', 'brk.slow', 1000000, %" PRId64 ", %" PRId64 ", '' FROM pool",
	    now, now - 120 * SPOT_US_PER_S, now - 120 * SPOT_US_PER_S);
	world_start(w);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE state = 'FAILED' AND end_cause = 'void'");
	assert_true(world_int(w, "SELECT ended_us FROM node WHERE token = 'spt-slow'") >=
	    now + 4 * SPOT_US_PER_S);
}

/* A job that waits for spot since a time in the future loses its patience in the end all the
 * same. */
static void test_a_job_that_was_queued_ahead_of_time_goes_on_demand(void **state)
{
	struct world *w = *state;
	int64_t now = world_us(), job;

	world_reset(w, true);
	w->conf.supply.patience_us = SPOT_US_PER_S / 10;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z1", "a1", "on_demand", 3000000);
	cloud_room(&w->cloud, "z1/a1/spot", 0);
	job = world_job(w, "{}");
	world_sql(w, "UPDATE job SET queued_us = " AHEAD ", state_us = " AHEAD, now, now);
	world_start(w);
	world_until_job(w, "RUNNING");
	assert_string_equal(world_text(w, "SELECT market FROM attempt"), "on_demand");
	world_finish(w, job);
}

/* "Begin now" by a clock that is ahead is a time in the future. A start that a right clock or the
 * user put off stays put off. */
static void test_a_job_that_was_to_begin_by_a_clock_ahead_begins(void **state)
{
	struct world *w = *state;
	int64_t now = world_us();

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_job(w, "{}");
	world_job(w, "{}");
	world_job(w, "{\"start_after_us\":1}");
	world_sql(w,
	    "UPDATE job SET not_before_us = " AHEAD
	    "; INSERT INTO decision (at_us, kind, job_id, inputs, outcome, why)"
	    " VALUES (%" PRId64 ", 'defer', 2, '{}', '{}', ''), (" AHEAD
	    ", 'defer', 1, '{}', '{}', '')",
	    now, now, now);
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE id = 1 AND state = 'RUNNING'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM job WHERE id > 1 AND state = 'QUEUED' AND "
			     "not_before_us IS NOT NULL AND epoch = 0"),
	    2);
}

/* The end of a drain is as long after its beginning as it was to be. */
static void test_a_drain_that_began_by_a_clock_ahead_ends_in_time(void **state)
{
	struct world *w = *state;
	int64_t now;

	world_reset(w, true);
	world_running(w);
	w->agents = false; /* it does not stop */
	world_kill(w);
	now = world_us();
	world_sql(w,
	    "UPDATE node SET state = 'DRAINING', state_us = " AHEAD ", drain_deadline_us = " AHEAD
	    " + 120000000",
	    now, now);
	world_start(w);
	for (int i = 0;
	     i < LIMIT / 20 && world_int(w, "SELECT max(state_us) FROM node") > world_us(); i++) {
		world_for(w, 20);
	}
	assert_in_range(world_int(w, "SELECT max(drain_deadline_us - state_us) FROM node"),
	    115 * SPOT_US_PER_S, 121 * SPOT_US_PER_S);
	assert_true(world_int(w, "SELECT max(drain_deadline_us) FROM node") <=
	    world_us() + 121 * SPOT_US_PER_S);
}

/* A machine that ended before it began, by a corrected clock, must have its cost written. */
static void test_a_machine_launched_by_a_clock_ahead_is_billed_to_its_end(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_job(w, "{}");
	/* A bill under way is not the first: it changes nothing then. */
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE billed_to_us IS NOT NULL");
	world_kill(w); /* nobody bills between */
	world_sql(w, "UPDATE node SET billed_to_us = NULL, launched_us = %" PRId64,
	    world_us() + SPOT_US_PER_HOUR);
	world_start(w);
	world_until_job(w, "RUNNING");
	world_finish(w, 1);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE ended_us >= launched_us"),
	    1);
	world_sql(w,
	    "UPDATE node SET launched_us = launched_us - 3600000000, ended_us = ended_us - "
	    "3600000000,"
	    " billed_to_us = billed_to_us - 3600000000"); /* an hour later */
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE billed_to_us = ended_us");
}

/* One job runs on demand, as no spot was there yet. While the engine is away spot comes, and rows
 * that a clock ahead left (a new engine reads them first). */
static int on_demand_and_then_spot(struct world *w)
{
	world_reset(w, true);
	world_pool(w, "z1", "a1", "on_demand", 4000000);
	world_run_job(w, "{}");
	world_kill(w);
	return world_pool(w, "z2", "a1", "spot", 1000000);
}

static void returns_to(struct world *w, int spot)
{
	world_start(w);
	world_until_epoch(w, 2);
	assert_int_equal(world_int(w, "SELECT pool_id FROM attempt WHERE epoch = 2"), spot);
	world_finish(w, 1);
}

static void move_ahead(struct world *w)
{
	world_sql(w,
	    "INSERT INTO event (at_us, entity, entity_id, job_id, event, why, actor) SELECT " AHEAD
	    ", 'job', 'j1', 1, 'MOVE', '', 'engine'",
	    world_us());
}

static void test_a_move_by_a_clock_ahead_is_not_just_now(void **state)
{
	struct world *w = *state;
	int spot = on_demand_and_then_spot(w);

	move_ahead(w);
	returns_to(w, spot);
}

static void test_a_move_by_a_clock_ahead_is_none_of_the_last_hour(void **state)
{
	struct world *w = *state;
	int spot = on_demand_and_then_spot(w);

	w->conf.supply.moves_per_hour_max = 1;
	move_ahead(w);
	returns_to(w, spot);
}

static void test_a_probe_by_a_clock_ahead_is_not_the_last(void **state)
{
	struct world *w = *state;
	int spot = on_demand_and_then_spot(w);
	int64_t now = world_us();

	world_sql(w,
	    "INSERT INTO node (pool_id, job_id, replaces_id, state, state_us, token, name, "
	    "price_micros, created_us, ended_us, end_cause, why) "
	    "SELECT %d, 1, 1, 'FAILED', " AHEAD ", 'spt-probe', 'brk.probe', 1000000, " AHEAD
	    ", " AHEAD ", 'refused', ''",
	    spot, now, now, now);
	returns_to(w, spot);
}

static void test_a_rebalancing_by_a_clock_ahead_puts_none_off(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->conf.rebalance_every_us = SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_sql(w,
	    "INSERT INTO decision (at_us, kind, inputs, outcome, why) SELECT " AHEAD
	    ", 'rebalance_request', '{}', '{\"state\":\"done\"}', ''",
	    world_us());
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM decision WHERE kind = 'rebalance_request' AND inputs->>'by' = "
	    "'engine' AND outcome->>'state' = 'done'");
	world_finish(w, 1);
}

static void test_a_job_preempted_by_a_clock_ahead_may_be_preempted_again(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	/* one machine */
	world_sql(w, "INSERT INTO quota VALUES ('fake', 'r1', 'P/spot', 'spot', 'vcpu', 12, 1)");
	schedule_policy_default(&w->conf.schedule);
	world_run_job(w, "{}");
	world_sql(w,
	    "INSERT INTO decision (at_us, kind, job_id, inputs, outcome, why) SELECT " AHEAD
	    ", 'preempted', 1, '{}', '{}', ''",
	    world_us());
	world_sql(w, "BEGIN");
	world_job(w, "{\"priority\": 200}");
	world_sql(w, "UPDATE job SET priority = 200 WHERE id = 2; COMMIT");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE id = 2 AND state = 'RUNNING'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision WHERE kind = 'preempt' AND job_id = 2"),
	    1);
}

/* A job that runs with hours to go; its time limit passes while the engine is away. */
static void runs_out(struct world *w, const char *extra)
{
	world_reset(w, true);
	w->cloud.gangs = true;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_run_job(w, extra);
	world_kill(w);
	world_sql(w, "UPDATE job SET spec = jsonb_set(spec, '{max_duration_s}', '1')");
}

#define OVERTIME "SELECT count(*) FROM job WHERE state = 'FAILED' AND reason = 'overtime'"
#define ENDED_BEFORE_IT_BEGAN \
	"INSERT INTO attempt (job_id, epoch, node_id, pool_id, market, desired, phase, " \
	"created_us, started_us, ended_us, settled) " \
	"SELECT job_id, 0, node_id, pool_id, market, 'drain', 'EXITED', %" PRId64 ", " AHEAD \
	", %" PRId64 ", true FROM attempt WHERE rank = 0"

static void test_a_job_that_runs_since_a_future_time_is_over_in_time(void **state)
{
	struct world *w = *state;

	runs_out(w, "{}");
	world_sql(w, "UPDATE attempt SET started_us = " AHEAD, world_us());
	world_start(w);
	world_until(w, LIMIT, OVERTIME);
}

static void ends_in_spite_of_it(struct world *w, const char *extra)
{
	int64_t now = world_us();

	runs_out(w, extra);
	world_sql(w, ENDED_BEFORE_IT_BEGAN, now, now, now);
	world_start(w);
	world_until(w, LIMIT, OVERTIME);
}

static void test_an_attempt_that_ended_before_it_began_adds_no_time(void **state)
{
	ends_in_spite_of_it(*state, "{}");
}

static void test_nor_a_gang(void **state)
{
	ends_in_spite_of_it(*state, "{\"num_nodes\": 2}");
}

/* It ran for longer than it may, and waits again. */
static void test_nor_a_job_that_waits(void **state)
{
	struct world *w = *state;
	int64_t now = world_us();

	runs_out(w, "{}");
	world_sql(w, ENDED_BEFORE_IT_BEGAN, now, now, now);
	world_sql(w,
	    "UPDATE attempt SET started_us = %" PRId64 ", ended_us = %" PRId64
	    ", phase = 'EXITED', settled = true WHERE epoch = 1; "
	    "UPDATE job SET state = 'QUEUED'",
	    now - 2 * SPOT_US_PER_S, now);
	world_start(w);
	world_until(w, LIMIT, OVERTIME);
}

/* It does not boot, and costs until somebody says so. */
static void test_a_machine_that_a_clock_ahead_launched_is_given_up_in_time(void **state)
{
	struct world *w = *state;
	int64_t now;

	world_reset(w, true);
	w->agents = false;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_job(w, "{}");
	world_until_node(w, "BOOTING");
	world_kill(w);
	now = world_us();
	world_sql(w, "UPDATE node SET launched_us = " AHEAD ", state_us = " AHEAD, now, now);
	w->conf.boot_timeout_us = SPOT_US_PER_S;
	world_start(w);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE id = 1 AND end_cause = 'boot_timeout'");
}

/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_acts_put_off_by_a_clock_ahead_are_done_in_time),
		cmocka_unit_test(test_nor_is_a_gang),
		cmocka_unit_test(
		    test_a_clock_that_is_set_right_dates_nothing_that_has_not_happened),
		cmocka_unit_test(test_a_retry_scheduled_by_a_clock_ahead_is_done_in_time),
		cmocka_unit_test(test_a_life_ended_by_a_clock_ahead_is_billed),
		cmocka_unit_test(test_a_job_that_was_to_begin_by_a_clock_ahead_begins),
		cmocka_unit_test(test_a_drain_that_began_by_a_clock_ahead_ends_in_time),
		cmocka_unit_test(test_a_launch_that_a_clock_ahead_dated_is_given_up_in_time),
		cmocka_unit_test(test_a_launched_machine_may_be_as_young_as_the_end_of_its_call),
		cmocka_unit_test(test_a_job_that_was_queued_ahead_of_time_goes_on_demand),
		cmocka_unit_test(test_a_machine_launched_by_a_clock_ahead_is_billed_to_its_end),
		cmocka_unit_test(test_a_move_by_a_clock_ahead_is_not_just_now),
		cmocka_unit_test(test_a_move_by_a_clock_ahead_is_none_of_the_last_hour),
		cmocka_unit_test(test_a_probe_by_a_clock_ahead_is_not_the_last),
		cmocka_unit_test(test_a_rebalancing_by_a_clock_ahead_puts_none_off),
		cmocka_unit_test(test_a_job_preempted_by_a_clock_ahead_may_be_preempted_again),
		cmocka_unit_test(test_a_job_that_runs_since_a_future_time_is_over_in_time),
		cmocka_unit_test(test_an_attempt_that_ended_before_it_began_adds_no_time),
		cmocka_unit_test(test_nor_a_gang),
		cmocka_unit_test(test_nor_a_job_that_waits),
		cmocka_unit_test(test_a_machine_that_a_clock_ahead_launched_is_given_up_in_time),
	};

	return WORLD_TESTS(argc, argv, tests);
}
