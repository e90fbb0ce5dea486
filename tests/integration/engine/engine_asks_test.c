/* Answers to asks: equal asks are answered once, a blocked one again when its cause moves, and no
 * ask waits for ever behind others. */
#include "engine_world.h"

#include "io/pg/pg.h"

static void await_state(struct world *w, int64_t job, const char *state)
{
	char sql[100];

	(void)snprintf(sql, sizeof(sql),
	    "SELECT count(*) FROM job WHERE id = %" PRId64 " AND state = '%s' AND why <> ''", job,
	    state);
	world_until(w, LIMIT, sql);
}

/* Thousands of one ask that nobody can fulfil, and asks that are blocked until a limit rises, a
 * machine comes free or a pool appears. */
static void test_a_blocked_ask_is_answered_again_when_its_cause_moves(void **state)
{
	struct world *w = *state;
	int64_t first, second, third, other;

	world_reset(w, true);
	w->conf.infeasible_us = SPOT_US_PER_HOUR;
	w->conf.idle_keep_us = 15 * SPOT_US_PER_S;
	schedule_policy_default(&w->conf.schedule);
	world_pool(w, "z1", "a1", "spot", 1000000); /* class P/spot, 12 vCPUs */
	world_quota(w, 12);
	world_job_of(w, 0, "none", 3600);
	world_sql(w,
	    "INSERT INTO job (name, owner, team, project, class, spec, source, state, state_us, "
	    "created_us, queued_us) SELECT name || i, owner, team, project, class, spec, source, "
	    "state, state_us, created_us, queued_us FROM job, generate_series(1, 5000) i");
	world_start(w);
	/* The first says why with its options, those behind it only why. */
	world_until(w, LIMIT, "SELECT count(*) > 10 FROM job WHERE why LIKE 'no %pool suits%'");
	assert_in_range(world_int(w, "SELECT count(*) FROM decision"), 1, 10);
	first = world_job_of(w, 0, "a1", 36000);
	await_state(w, first, "RUNNING");
	second = world_job_of(w, 0, "a1", 36000);
	other = world_job_of(w, 0, "b1", 36000);
	await_state(w, second, "QUEUED");
	await_state(w, other, "QUEUED");
	world_sql(w, "UPDATE quota SET quota_limit = 24");
	await_state(w, second, "RUNNING");
	third = world_job_of(w, 0, "a1", 36000);
	await_state(w, third, "QUEUED");
	world_job_exits(w, (int)first);
	await_state(w, third, "RUNNING");
	assert_int_equal(w->cloud.launches, 2);
	world_sql(w, "UPDATE quota SET quota_limit = 36");
	world_pool(w, "z2", "b1", "spot", 1000000);
	await_state(w, other, "RUNNING");
	world_sql(w, "UPDATE job SET state = 'CANCELLED' WHERE state = 'QUEUED'");
	world_exit_all(w);
	world_empty(w);
}

/* A quota blocks the second job, which is of high priority: the first is preempted, after a few
 * passes. Nothing else reads the market meanwhile. */
static void test_a_preemption_for_a_quota_takes_a_few_statements(void **state)
{
	struct world *w = *state;
	int64_t before;

	world_reset(w, true);
	schedule_policy_default(&w->conf.schedule);
	w->conf.tightness.hold_us = w->conf.offers_age_us = SPOT_US_PER_HOUR / 4;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z2", "b1", "spot", 1000000);
	world_quota(w, 12);
	world_start(w);
	world_job_of(w, 0, "a1", 36000);
	world_until_job(w, "RUNNING");
	before = pg_stats(w->pg).statements;
	world_job_of(w, 200, "b1", 3600);
	world_until(w, LIMIT, "SELECT count(*) FROM decision WHERE kind = 'preempted'");
	assert_in_range(pg_stats(w->pg).statements - before, 1, 500);
	world_kill(w);
}

/* So many jobs, each of another ask that no pool suits. */
static void asks_add(struct world *w, int priority, int n)
{
	world_job_of(w, priority, "none", 3600);
	world_sql(w,
	    "INSERT INTO job (name, owner, team, project, class, priority, spec, source, state, "
	    "state_us, created_us, queued_us) SELECT name, owner, team, project, class, priority, "
	    "jsonb_set(spec, '{work_s}', to_jsonb(4000 + i)), source, state, state_us, created_us, "
	    "queued_us FROM job, generate_series(2, %d) i WHERE id = (SELECT max(id) FROM job)",
	    n);
}

/* A machine that is ready and has no job; nobody is told. */
static void machine_add(struct world *w, int pool, int n)
{
	world_sql(w,
	    "INSERT INTO node (pool_id, state, state_us, token, name, price_micros, created_us, "
	    "ready_us, idle_since_us, why) SELECT %d, 'READY', %" PRId64 ", 't%d', 'n%d', 1000000, "
	    "%" PRId64 ", %" PRId64 ", %" PRId64 ", ''",
	    pool, world_us(), n, n, world_us(), world_us(), world_us());
}

/* The last of 700 asks, by the queue and by the walk, waits for a machine that is free already.
 * Others come free again and again. */
static void test_a_free_machine_is_offered_to_the_last_ask(void **state)
{
	struct world *w = *state;
	int64_t last;
	int other, n = 0;

	world_reset(w, true);
	schedule_policy_default(&w->conf.schedule);
	w->agents = false;
	w->conf.infeasible_us = w->conf.idle_keep_us = SPOT_US_PER_HOUR;
	w->conf.agent_silent_us = w->conf.agent_lost_us = SPOT_US_PER_HOUR;
	machine_add(w, world_pool(w, "z1", "a1", "spot", 1000000), n++);
	other = world_pool(w, "z2", "b1", "spot", 1000000);
	world_quota(w, 12);
	world_sql(w, "UPDATE quota SET quota_limit = 0");
	asks_add(w, 100, 700);
	last = world_job_of(w, 0, "a1", 36000);
	world_start(w);
	while (world_int(w, "SELECT count(*) FROM attempt") == 0 && n < 400) {
		machine_add(w, other, n++);
		world_sql(w, "NOTIFY spot_engine, 'w2'");
		world_for(w, 10);
	}
	assert_int_equal(world_int(w, "SELECT job_id FROM attempt"), last);
	world_kill(w);
}

/* Nobody hears of the machine; a pass that another job makes due finds it. */
static void test_a_machine_that_a_pass_finds_free_is_offered_to_blocked_asks(void **state)
{
	struct world *w = *state;
	int64_t blocked;
	int pool;

	world_reset(w, true);
	schedule_policy_default(&w->conf.schedule);
	w->agents = false;
	w->conf.tick_us = SPOT_US_PER_S; /* free machines are looked for every ten ticks */
	w->conf.infeasible_us = w->conf.idle_keep_us = SPOT_US_PER_HOUR;
	pool = world_pool(w, "z1", "a1", "spot", 1000000);
	world_sql(w, "INSERT INTO pool_cool VALUES (%d, %" PRId64 ", 1, 'x', 'sold out', 1)", pool,
	    world_us() + SPOT_US_PER_HOUR);
	world_start(w);
	blocked = world_job_of(w, 0, "a1", 36000);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE why <> ''");
	world_sql(w, "BEGIN");
	machine_add(w, pool, 0);
	world_sql(w,
	    "INSERT INTO job (name, owner, team, project, class, spec, source, state, state_us, "
	    "created_us, queued_us) SELECT name, owner, team, project, class, jsonb_set(spec, "
	    "'{asks,0,instance_type}', '\"none\"'), source, state, state_us, created_us, "
	    "queued_us FROM job; NOTIFY spot_engine, 'w1'; COMMIT");
	world_until(w, LIMIT / 3, "SELECT count(*) FROM attempt"); /* an answer holds for 60 s */
	assert_int_equal(world_int(w, "SELECT job_id FROM attempt"), blocked);
	world_kill(w);
}

/* A daemon of before the asks left two jobs without a number: they are not one group. */
static void test_jobs_of_an_earlier_daemon_are_numbered_first(void **state)
{
	struct world *w = *state;
	int64_t can;

	world_reset(w, true);
	w->conf.infeasible_us = SPOT_US_PER_HOUR;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_job_of(w, 0, "none", 3600);
	can = world_job_of(w, 0, "a1", 36000);
	world_sql(w, "UPDATE job SET ask = 0");
	world_start(w);
	world_until_job(w, "RUNNING");
	assert_int_equal(world_int(w, "SELECT id FROM job WHERE state = 'RUNNING'"), can);
	assert_int_equal(world_int(w, "SELECT count(*) FROM job WHERE ask = 0"), 0);
	world_kill(w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_blocked_ask_is_answered_again_when_its_cause_moves),
		cmocka_unit_test(test_a_preemption_for_a_quota_takes_a_few_statements),
		cmocka_unit_test(test_a_free_machine_is_offered_to_the_last_ask),
		cmocka_unit_test(test_a_machine_that_a_pass_finds_free_is_offered_to_blocked_asks),
		cmocka_unit_test(test_jobs_of_an_earlier_daemon_are_numbered_first),
	};

	return WORLD_TESTS(argc, argv, tests);
}
