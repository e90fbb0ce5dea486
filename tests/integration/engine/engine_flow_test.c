/* The life of jobs and nodes through the engine, against a real database and a cloud in C. */
#include "engine_world.h"

static void test_a_job_is_placed_on_the_cheapest_spot_pool_and_finishes(void **state)
{
	struct world *w = *state;
	int cheap;
	int64_t job;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "on_demand", 4000000);
	cheap = world_pool(w, "z2", "a1", "spot", 1000000);
	world_pool(w, "z3", "a1", "spot", 1500000);
	job = world_run_job(w, "{}");
	assert_int_equal(world_int(w, "SELECT pool_id FROM node"), cheap);
	assert_int_equal(w->cloud.launches, 1);
	assert_string_equal(world_text(w,
				"SELECT string_agg(event, ' ' ORDER BY id) FROM event WHERE entity "
				"= 'node' AND event NOT IN ('SUSPECTED', 'HEALTHY')"),
	    "PLACE CLAIMED LAUNCHED ENROLLED");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision WHERE kind = 'place' AND "
			     "jsonb_array_length(inputs->'offers') = 3"),
	    1);
	world_finish(w, job);
	assert_int_equal(world_int(w, "SELECT (idle_since_us IS NOT NULL)::int FROM node"), 1);
}

static void test_capacity_that_is_paid_for_is_used_before_any_is_bought(void **state)
{
	struct world *w = *state;
	int paid;
	int64_t job;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "on_demand", 4000000);
	world_pool(w, "z2", "a1", "spot", 1000000);
	paid = world_pool(w, "z3", "a1", "reserved", 1);
	job = world_run_job(w, "{\"interruptible\": false}");
	assert_int_equal(world_int(w, "SELECT pool_id FROM node"), paid);
	assert_int_equal(w->cloud.launches, 1);
	world_finish(w, job);
}

static void test_a_refused_pool_cools_and_the_next_one_is_tried(void **state)
{
	struct world *w = *state;
	int next;
	int64_t job;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	next = world_pool(w, "z2", "a1", "spot", 2000000);
	cloud_sell_out(&w->cloud, "z1/a1/spot");
	/* not over before the next pool was tried */
	w->conf.cool_min_us = w->conf.cool_max_us = 60 * SPOT_US_PER_S;
	job = world_run_job(w, "{}");
	assert_int_equal(world_int(w, "SELECT pool_id FROM node WHERE state = 'READY'"), next);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node WHERE state = 'FAILED' AND end_cause = "
			     "'refused'"),
	    1);
	assert_int_equal(world_int(w, "SELECT refusals FROM pool_cool"), 1);
	assert_int_equal(world_int(w, "SELECT sum(refusals) FROM pool_day"), 1);
	assert_int_equal(world_int(w, "SELECT sum(refusals) FROM pool_hour"), 1);
	assert_int_equal(world_int(w, "SELECT sum(launches) FROM pool_hour"),
	    world_int(w, "SELECT sum(launches) FROM pool_day"));
	world_finish(w, job);
}

/* Refuses z1/a1/spot of region r1 with this scope. Returns the cooling pools as "zone/type/market"
 * in order. */
static const char *cooling_pools(struct world *w, enum spot_rc rc, enum spot_scope scope)
{
	static const char *const pools[] = { "r1 z1 a1 spot", "r1 z2 a1 spot", "r1 z1 a8 spot",
		"r1 z1 a1 on_demand", "r2 z9 a1 spot" };

	world_reset(w, true);
	for (size_t i = 0; i < ARRAY_LEN(pools); i++) {
		char region[8], zone[8], type[8], market[16];
		int id;

		assert_int_equal(sscanf(pools[i], "%7s %7s %7s %15s", region, zone, type, market),
		    4);
		id = world_pool(w, zone, type, market, 1000000 + (int)i * 100000);
		world_sql(w, "UPDATE pool SET region = '%s', quota_class = '%s' WHERE id = %d",
		    region, market, id);
	}
	world_sql(w, "UPDATE pool SET gpu_milli = 500 WHERE zone = 'z2'");
	cloud_sell_out(&w->cloud, "z1/a1/spot");
	w->cloud.sold_out_rc = rc;
	w->cloud.sold_out_scope = scope;
	w->conf.cool_min_us = w->conf.cool_max_us = 60 * SPOT_US_PER_S;
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) > 0 FROM pool_cool");
	return world_text(w,
	    "SELECT string_agg(concat_ws('/', zone, instance_type, market), ' ' ORDER BY pool_id)"
	    " FROM pool_cool JOIN pool p ON p.id = pool_id");
}

static void test_a_refusal_cools_as_much_as_the_provider_says(void **state)
{
	struct world *w = *state;
	static const struct {
		enum spot_rc rc;
		enum spot_scope scope;
		const char *rest;
	} cases[] = {
		{ SPOT_NO_CAPACITY, SPOT_SCOPE_NONE, "z1/a1/spot" },
		{ SPOT_NO_CAPACITY, SPOT_SCOPE_TYPE, "z1/a1/spot z2/a1/spot" },
		{ SPOT_NO_CAPACITY, SPOT_SCOPE_ZONE, "z1/a1/spot z1/a8/spot z1/a1/on_demand" },
		{ SPOT_QUOTA, SPOT_SCOPE_CLASS, "z1/a1/spot z2/a1/spot z1/a8/spot" },
		{ SPOT_QUOTA, SPOT_SCOPE_REGION,
		    "z1/a1/spot z2/a1/spot z1/a8/spot z1/a1/on_demand" },
		{ SPOT_DENIED, SPOT_SCOPE_MARKET, "z1/a1/spot z2/a1/spot z1/a8/spot z9/a1/spot" },
		{ SPOT_DENIED, SPOT_SCOPE_PROVIDER,
		    "z1/a1/spot z2/a1/spot z1/a8/spot z1/a1/on_demand z9/a1/spot" },
		/* A smaller machine may fit under the limit of the whole project. */
		{ SPOT_QUOTA, SPOT_SCOPE_PROVIDER,
		    "z1/a1/spot z1/a8/spot z1/a1/on_demand z9/a1/spot" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_string_equal(cooling_pools(w, cases[i].rc, cases[i].scope), cases[i].rest);
	}
}

static void test_a_machine_with_unusable_gpus_is_replaced_before_it_gets_a_job(void **state)
{
	struct world *w = *state;
	int64_t job;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z2", "a1", "spot", 1100000);
	w->agents = false;
	w->conf.cool_min_us = w->conf.cool_max_us = 60 * SPOT_US_PER_S;
	/* The cooldown is written long after the job waits again. */
	world_sql(w,
	    "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS "
	    "'BEGIN PERFORM pg_sleep(3); RETURN NEW; END';"
	    "CREATE TRIGGER slow BEFORE INSERT ON pool_cool FOR EACH ROW EXECUTE FUNCTION slow()");
	world_start(w);
	job = world_job(w, "{}");
	world_until_node(w, "BOOTING");
	world_sql(w,
	    "UPDATE node SET enrol_used_us = 1, hw = '{\"gpu_fault\": \"GPU 3 has not joined\"}'");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE id = 1 AND end_cause = 'broken' AND ready_us IS NULL");
	w->agents = true;
	world_until_job(w, "RUNNING");
	assert_string_equal(world_text(w,
				"SELECT zone FROM node n JOIN pool p ON p.id = n.pool_id WHERE "
				"n.state = 'READY'"),
	    "z2");
	assert_string_equal(world_text(w,
				"SELECT why FROM event WHERE node_id = 1 AND now = 'TERMINATING'"),
	    "its GPUs cannot be used: GPU 3 has not joined");
	assert_string_equal(world_text(w, "SELECT rc FROM pool_cool"), "broken");
	assert_int_equal(world_int(w, "SELECT count(*) FROM attempt WHERE node_id = 1"), 0);
	world_finish(w, job);
}

static void test_a_notice_drains_the_job_and_it_resumes_elsewhere(void **state)
{
	struct world *w = *state;
	int first, second;

	world_reset(w, true);
	first = world_pool(w, "z1", "a1", "spot", 1000000);
	second = world_pool(w, "z2", "a1", "spot", 1200000);
	w->agents_save = false;
	/* the first is the cheapest once it does not rest */
	w->conf.reclaim_cool_us = 60 * SPOT_US_PER_S;
	world_run_job(w, "{}");
	assert_int_equal(world_int(w, "SELECT pool_id FROM node"), first);
	world_sql(w,
	    "INSERT INTO notice SELECT id, 'interruption', %" PRId64
	    ", 'imds', '', 1 FROM node; NOTIFY spot_engine",
	    world_us() + LIMIT * 2000);
	/* The replacement is wanted while the old node still saves. */
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE id = 2");
	w->agents_save = true;
	world_until_epoch(w, 2);
	assert_int_equal(world_int(w, "SELECT pool_id FROM attempt WHERE epoch = 2"), second);
	assert_int_equal(world_int(w, "SELECT steps_start FROM attempt WHERE epoch = 2"), 100);
	assert_string_equal(world_text(w,
				"SELECT files->0->>'root' || ' ' || "
				"(files->0->'chunks'->0->>'url') FROM "
				"attempt WHERE epoch = 2"),
	    "checkpoint https://bucket.fake/key-1?GET");
	assert_string_equal(world_text(w,
				"SELECT string_agg(event, ' ' ORDER BY id) FROM event WHERE entity "
				"= 'job'"),
	    "PLACED STARTED NOTICE STOPPED PLACED STARTED");
	assert_int_equal(world_int(w, "SELECT sum(reclaims) FROM pool_day"), 1);
	assert_int_equal(world_int(w, "SELECT sum(reclaims) FROM pool_hour"), 1);
	/* The provider takes it within its time; we do not end it before. */
	assert_int_equal(cloud_by_ref(&w->cloud, "i-1")->terminates, 0);
	cloud_by_ref(&w->cloud, "i-1")->cause = SPOT_END_RECLAIM;
	cloud_by_ref(&w->cloud, "i-1")->state = SPOT_INSTANCE_GONE;
	world_finish(w, 1);
	assert_string_equal(world_text(w, "SELECT end_cause FROM node WHERE id = 1"), "reclaimed");
}

static void test_a_node_that_the_provider_took_counts_as_lost_work(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 3600000000);
	world_pool(w, "z2", "a1", "spot", 3700000000);
	world_run_job(w, "{}");
	world_for(w, 200);
	cloud_reclaim(&w->cloud, 0);
	world_until_epoch(w, 2);
	assert_string_equal(world_text(w, "SELECT end_cause FROM node WHERE id = 1"), "reclaimed");
	assert_string_equal(world_text(w, "SELECT exit_reason FROM attempt WHERE epoch = 1"),
	    "lost");
	world_until(w, LIMIT, "SELECT count(*) FROM ledger WHERE kind = 'lost_work'");
	world_finish(w, 1);
	/* All of the first attempt since it started is lost, at most up to the node's end; lines
	 * that were charged stay. */
	assert_int_equal(world_int(w,
			     "SELECT sum(l.to_us - l.from_us) BETWEEN min(least(a.ended_us, "
			     "n.ended_us) - greatest(a.started_us, a.created_us))"
			     " AND min(n.ended_us - a.started_us) FROM ledger l JOIN attempt "
			     "a ON a.epoch = 1 JOIN node n ON n.id = a.node_id"
			     " WHERE l.kind = 'lost_work'"),
	    1);
	assert_int_equal(world_int(w,
			     "SELECT bool_and(amount_micros = -(SELECT amount_micros FROM "
			     "ledger o WHERE o.id = l.reverses))::int"
			     " FROM ledger l WHERE reverses IS NOT NULL"),
	    1);
}

static void test_a_silent_agent_on_a_running_instance_is_not_lost_at_once(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	w->conf.agent_lost_us = 3 * SPOT_US_PER_S;
	world_run_job(w, "{}");
	w->agents = false;
	world_for(w, 700);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 1"),
	    1);
	assert_string_equal(world_text(w, "SELECT provider_state FROM node"), "running");
	/* Much longer, and the provider still says running: broken, replaced. */
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE id = 1 AND state IN ('TERMINATING', 'GONE')");
	w->agents = true;
	world_until_epoch(w, 2);
	world_finish(w, 1);
}

static void test_a_node_that_does_not_boot_is_replaced(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z2", "a1", "spot", 1100000);
	w->conf.boot_timeout_us = 600000;
	w->agents = false;
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE id = 1 AND state = 'GONE' AND end_cause = "
	    "'boot_timeout'");
	w->agents = true;
	w->conf.boot_timeout_us = 15 * SPOT_US_PER_S;
	engine_reload(w->engine, &w->conf);
	world_until_job(w, "RUNNING");
	world_finish(w, 1);
}

static void test_a_provider_that_boots_slowly_is_given_its_time(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	w->conf.boot_timeout_us = 100000;
	w->cloud.boots_us = 2200000;
	w->agents = false;
	world_start(w);
	world_job(w, "{}");
	world_until_node(w, "BOOTING");
	world_for(w, 500);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE state = 'BOOTING'"), 1);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE id = 1 AND end_cause = 'boot_timeout' AND why LIKE "
	    "'%did not enrol within 2 s%'");
	w->agents = true;
	world_until_job(w, "RUNNING");
	world_finish(w, 1);
}

static void test_cancel_before_and_while_it_runs(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_running(w);
	world_cancel(w);
	world_until_job(w, "CANCELLED");
	assert_string_equal(world_text(w, "SELECT exit_reason FROM attempt"), "killed");
	world_check_end(w);
	cloud_sell_out(&w->cloud, "z1/a1/spot");
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE id = 2 AND why <> ''");
	world_cancel(w);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE id = 2 AND state = 'CANCELLED'");
	world_check_end(w);
}

static void test_a_bad_exit_restarts_as_often_as_the_job_says(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_job(w, "{\"max_restarts\":1}");
	for (int i = 1; i <= 2; i++) {
		world_until_epoch(w, i);
		world_sql(w,
		    "UPDATE attempt SET phase = 'EXITED', exit_reason = 'error', exit_code = "
		    "3, ended_us = %" PRId64 " WHERE ended_us IS NULL; NOTIFY spot_engine",
		    world_us());
	}
	world_until_job(w, "FAILED");
	assert_string_equal(world_text(w, "SELECT why FROM job"), "error: exit code 3");
	assert_int_equal(world_int(w, "SELECT restarts FROM job"), 1);
	assert_int_equal(world_int(w, "SELECT count(*) FROM attempt"), 2);
	/* Without a code the agent's words tell. */
	(void)world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE id = 2 AND state = 'RUNNING'");
	world_sql(w,
	    "INSERT INTO event (at_us, entity, entity_id, job_id, node_id, epoch, now, event, why) "
	    "SELECT 1, 'attempt', 'j2/1', 2, node_id, 1,"
	    " 'EXITED', 'PHASE', 'error: the job''s supervisor was killed' FROM attempt WHERE "
	    "job_id = 2;"
	    " UPDATE attempt SET phase = 'EXITED', exit_reason = 'error', ended_us = %" PRId64
	    " WHERE job_id = 2; NOTIFY spot_engine",
	    world_us());
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job WHERE id = 2 AND state = 'FAILED' AND why = 'error: the "
	    "job''s supervisor was killed'");
	world_check_end(w);
}

static void test_max_duration_saves_and_stops_the_job(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_job(w, "{\"max_duration_s\":1}");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job WHERE state = 'FAILED' AND reason = 'overtime'");
	assert_int_equal(world_int(w, "SELECT count(*) FROM checkpoint WHERE state = 'COMMITTED'"),
	    1);
	assert_int_equal(world_int(w, "SELECT count(*) FROM attempt"), 1);
	world_check_end(w);
}

static void test_all_attempts_together_are_a_jobs_time(void **state)
{
	struct world *w = *state;
	int64_t now;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_run_job(w, "{\"max_duration_s\":3600}");
	now = world_us();
	world_sql(w,
	    "INSERT INTO attempt (job_id, epoch, node_id, pool_id, market, desired, phase, "
	    "created_us, started_us, ended_us, settled) "
	    "SELECT job_id, 0, node_id, pool_id, market, 'drain', 'EXITED', 1, %" PRId64
	    ", %" PRId64 ", true FROM attempt; NOTIFY spot_engine",
	    now - SPOT_US_PER_HOUR - 60 * SPOT_US_PER_S, now - 60 * SPOT_US_PER_S);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job WHERE state = 'FAILED' AND reason = 'overtime'");
	assert_int_equal(world_int(w, "SELECT max(epoch) FROM attempt"), 1);
	world_check_end(w);
}

static void test_a_job_that_nothing_suits_fails(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_job(w, "{\"asks\":[{\"gpus\":[{\"gpu\":\"H100\",\"milli\":8000}]}]}");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job WHERE state = 'FAILED' AND reason = 'infeasible'");
	assert_int_equal(w->cloud.launches, 0);
}

static void test_spot_gone_on_demand_takes_over_and_spot_comes_back(void **state)
{
	struct world *w = *state;
	int spot, on_demand;

	world_reset(w, true);
	spot = world_pool(w, "z1", "a1", "spot", 1000000);
	on_demand = world_pool(w, "z2", "a1", "on_demand", 4000000);
	w->conf.cool_min_us = w->conf.cool_max_us = 600 * SPOT_US_PER_S;
	w->conf.supply.patience_us = 600 * SPOT_US_PER_S;
	cloud_sell_out(&w->cloud, "z1/a1/spot");
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM decision WHERE kind = 'wait'");
	w->conf.supply.patience_us = 100000;
	engine_reload(w->engine, &w->conf);
	world_until_job(w, "RUNNING");
	assert_int_equal(world_int(w, "SELECT pool_id FROM attempt WHERE epoch = 1"), on_demand);
	assert_int_equal(world_int(w, "SELECT count(*) FROM decision WHERE kind = 'failover'"), 1);
	cloud_sell_again(&w->cloud);
	world_sql(w, "DELETE FROM pool_cool; NOTIFY spot_engine");
	world_until_epoch(w, 2);
	assert_int_equal(world_int(w, "SELECT pool_id FROM attempt WHERE epoch = 2"), spot);
	assert_string_equal(world_text(w,
				"SELECT string_agg(event, ' ' ORDER BY id) FROM event WHERE entity "
				"= 'job'"),
	    "PLACED STARTED MOVE STOPPED PLACED STARTED");
	/* Launched before left: ready before the move. */
	assert_int_equal(world_int(w,
			     "SELECT ((SELECT ready_us FROM node WHERE id = (SELECT "
			     "node_id FROM attempt WHERE epoch = 2))"
			     " < (SELECT at_us FROM event WHERE event = 'MOVE'))::int"),
	    1);
	world_finish(w, 1);
}

#define T(f) cmocka_unit_test(f)
/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(test_a_job_is_placed_on_the_cheapest_spot_pool_and_finishes),
		T(test_capacity_that_is_paid_for_is_used_before_any_is_bought),
		T(test_a_refused_pool_cools_and_the_next_one_is_tried),
		T(test_a_refusal_cools_as_much_as_the_provider_says),
		T(test_a_machine_with_unusable_gpus_is_replaced_before_it_gets_a_job),
		T(test_a_notice_drains_the_job_and_it_resumes_elsewhere),
		T(test_a_node_that_the_provider_took_counts_as_lost_work),
		T(test_a_silent_agent_on_a_running_instance_is_not_lost_at_once),
		T(test_a_node_that_does_not_boot_is_replaced),
		T(test_a_provider_that_boots_slowly_is_given_its_time),
		T(test_cancel_before_and_while_it_runs),
		T(test_a_bad_exit_restarts_as_often_as_the_job_says),
		T(test_max_duration_saves_and_stops_the_job),
		T(test_all_attempts_together_are_a_jobs_time),
		T(test_a_job_that_nothing_suits_fails),
		T(test_spot_gone_on_demand_takes_over_and_spot_comes_back),
	};

	return WORLD_TESTS(argc, argv, tests);
}
