/* What must not happen when somebody else was first: no launch without the claim, none by a daemon that lost the lease,
 * none repeated where a repeat is not harmless. */
#include "engine_world.h"

#define LIMIT 8000

static void finish(struct world *w)
{
	world_sql(w, "UPDATE attempt SET phase = 'EXITED', exit_reason = 'ok', exit_code = 0, ended_us = %" PRId64
	    " WHERE ended_us IS NULL; NOTIFY spot_engine", clock_real.wall_us(&clock_real));
	world_until(w, LIMIT, "SELECT bool_and(state = 'SUCCEEDED')::int FROM job");
	world_until(w, LIMIT, "SELECT count(*) = 0 FROM node WHERE state NOT IN ('GONE', 'FAILED')");
	assert_int_equal(cloud_live(&w->cloud), 0);
}

static void test_a_claim_that_does_not_succeed_sends_no_launch(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	/* Every claim finds that somebody moved the row first. */
	world_sql(w, "CREATE FUNCTION not_now() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;"
	    "CREATE TRIGGER not_now BEFORE UPDATE ON node FOR EACH ROW WHEN (new.state = 'LAUNCHING')"
	    " EXECUTE FUNCTION not_now()");
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE state = 'WANTED'");
	world_for(w, 500);
	assert_int_equal(w->cloud.launches, 0);
	world_sql(w, "DROP TRIGGER not_now ON node; NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	assert_int_equal(w->cloud.launches, 1);
	finish(w);
}

static void test_a_daemon_that_lost_the_lease_launches_nothing(void **state)
{
	struct world *w = *state;
	int pool;

	world_reset(w, true);
	pool = world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM leader WHERE name = 'engine' AND until_us > 0");
	/* Another daemon takes over at the same moment as there is something to launch; ours does not know yet. */
	world_sql(w, "BEGIN; UPDATE leader SET epoch = epoch + 1, holder = 'another', until_us = until_us + 60000000;"
	    "INSERT INTO node (pool_id, state, state_us, token, name, price_micros, created_us, why)"
	    " VALUES (%d, 'WANTED', 1, 'spt-lease-test', 'brk.lease.test', 1000000, 1, ''); NOTIFY spot_engine; COMMIT", pool);
	world_for(w, 700);
	assert_int_equal(w->cloud.launches, 0);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE state = 'WANTED'"), 1);
}

static void test_without_tokens_not_even_a_refused_launch_is_sent_again(void **state)
{
	struct world *w = *state;

	world_reset(w, false);
	world_pool(w, "z1", "a1", "on_demand", 1000000);
	w->cloud.throttle = 1;
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	/* The row that was refused is over, and what was launched has a row and a token of its own. */
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE state = 'FAILED' AND end_cause = 'refused'"), 1);
	assert_int_equal(world_int(w, "SELECT count(DISTINCT token) FROM node"), 2);
	assert_int_equal(w->cloud.n, 1);
	finish(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_claim_that_does_not_succeed_sends_no_launch),
		cmocka_unit_test(test_a_daemon_that_lost_the_lease_launches_nothing),
		cmocka_unit_test(test_without_tokens_not_even_a_refused_launch_is_sent_again),
	};

	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
