/* Deadlines of running jobs. When does a job leave on demand to wait for spot? Also jobs that are
 * not moved for money, and late ones. */
#include "engine_world.h"

static int64_t decisions_sql(struct world *w, const char *kind)
{
	static char sql[120];

	(void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM decision WHERE kind = '%s'", kind);
	return world_int(w, sql);
}

/* There is no spot yet: it begins on demand. */
static void on_demand(struct world *w, const char *extra)
{
	world_reset(w, true);
	world_pool(w, "z1", "a1", "on_demand", 3000000);
	world_start(w);
	world_job(w, extra);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	assert_string_equal(world_text(w, "SELECT market FROM attempt"), "on_demand");
}

static void ask_rebalance(struct world *w)
{
	world_sql(w,
	    "INSERT INTO decision (at_us, kind, inputs, outcome, why) VALUES (1, "
	    "'rebalance_request',"
	    " '{\"dry_run\":false}', '{\"state\":\"pending\"}', ''); NOTIFY spot_engine");
	world_until(w, LIMIT,
	    "SELECT bool_and(outcome->>'state' = 'done')::int FROM decision WHERE kind = "
	    "'rebalance_request'");
}

/* Spot is a tenth of the price, there are hundreds of hours, and the pool is known to come back: on
 * demand is left. */
static void test_on_demand_is_left_to_wait_for_spot_while_there_is_time(void **state)
{
	struct world *w = *state;
	int64_t now = world_us();
	int spot;

	on_demand(w, "{}");
	cloud_sell_out(&w->cloud, "z2/a1/spot");
	world_sql(w, "BEGIN");
	spot = world_pool(w, "z2", "a1", "spot", 300000);
	/* Up for days, and down since a moment. */
	world_sql(w,
	    "INSERT INTO node (pool_id, state, state_us, token, name, price_micros, created_us, "
	    "launched_us, ready_us, ended_us,"
	    " end_cause, why) VALUES (%d, 'GONE', %" PRId64
	    ", 'spt-old', 'brk.old', 300000, %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
	    ", 'reclaimed', '');"
	    "INSERT INTO pool_cool (pool_id, until_us, refusals, rc, why, at_us) VALUES (%d, "
	    "%" PRId64 ", 1, 'NO_CAPACITY', 'sold out', 1)",
	    spot, now - 1000000, now - 200 * SPOT_US_PER_HOUR, now - 200 * SPOT_US_PER_HOUR,
	    now - 200 * SPOT_US_PER_HOUR, now - 1000000, spot, world_us() + 6000000);
	world_sql(w,
	    "UPDATE job SET deadline_us = created_us + 300 * 3600000000; NOTIFY spot_engine; "
	    "COMMIT");
	world_until(w, LIMIT, "SELECT count(*) FROM decision WHERE kind = 'park'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision WHERE kind = 'park' AND job_id = 1 AND "
			     "why LIKE 'deadline: waiting%'"
			     " AND inputs->'deadline'->>'choice' = 'wait' AND "
			     "inputs->'deadline'->>'held' = 'on_demand'"),
	    1);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'QUEUED'");
	assert_int_equal(world_int(w, "SELECT count(*) FROM event WHERE event = 'PARKED'"), 1);
	/* Its machine goes back, nothing is bought while it waits; spot takes it when it is
	 * back. */
	world_until(w, LIMIT,
	    "SELECT count(*) = 0 FROM node n JOIN pool p ON p.id = n.pool_id WHERE n.ended_us IS "
	    "NULL"
	    " AND p.market = 'on_demand'");
	world_for(w, 300);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node n JOIN pool p ON p.id = n.pool_id WHERE "
			     "p.market = 'on_demand'"),
	    1);
	cloud_sell_again(&w->cloud);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job j JOIN attempt a ON a.job_id = j.id AND a.epoch = j.epoch"
	    " WHERE j.state = 'RUNNING' AND a.market = 'spot'");
	assert_int_equal(world_int(w, "SELECT count(*) FROM attempt"), 2);
	assert_int_equal(decisions_sql(w, "park"), 1);
	world_finish(w, 1);
}

/* Spot comes while it runs on demand, and its policy takes it: a move like any other, with the cost
 * of staying. */
static void test_a_return_that_the_policy_decides_is_in_the_report_of_moves(void **state)
{
	struct world *w = *state;

	on_demand(w, "{}");
	assert_true(world_metric(w, "spot_moves_usd", "predicted") >= 0 &&
	    world_metric(w, "spot_moves_usd", "predicted") < 1e-9);
	world_kill(w); /* so that the next engine reads pool and deadline together */
	world_sql(w, "UPDATE job SET deadline_us = created_us + 300 * 3600000000");
	world_pool(w, "z2", "a1", "spot", 300000);
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM decision WHERE kind = 'return'");
	/* Ten hours that are left at 3 dollars against 0.3: both machines' totals and the cost of
	 * the move are kept. */
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision d, node n WHERE d.kind = 'return' AND "
			     "d.why LIKE '%deadline: %' AND n.id = 1"
			     " AND (inputs->'move'->>'from_node')::int8 = 1 AND "
			     "(inputs->'move'->>'from_pool')::int4 = n.pool_id"
			     " AND (inputs->'move'->>'here_price_micros')::int8 = 3000000 AND "
			     "(inputs->'move'->>'cost_micros')::int8 >= 0"
			     " AND (inputs->'move'->>'saving_micros')::int8 = "
			     "(inputs->'move'->'here'->>'total_micros')::int8"
			     " - (outcome->'pool'->>'total_micros')::int8 AND "
			     "(inputs->'move'->>'saving_micros')::int8 > 20000000"),
	    1);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job j JOIN attempt a ON a.job_id = j.id AND a.epoch = j.epoch"
	    " WHERE j.state = 'RUNNING' AND a.market = 'spot'");
	assert_true(world_metric(w, "spot_moves_usd", "predicted") > 20);
	world_finish(w, 1);
}

/* A move that would pay, with time for the work and not for a reclaim as well. */
static void test_no_move_makes_a_deadline_infeasible(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 3000000);
	world_start(w);
	world_job(w, "{\"checkpoint\":{\"path\":\"c\",\"interval_s\":3600}}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	world_pool(w, "z2", "a1", "spot", 300000);
	world_pool(w, "z1", "a1", "on_demand", 9000000);
	/* Ten hours of work, and less than a reclaim may take besides. */
	world_sql(w, "UPDATE job SET deadline_us = created_us + 38000000000; NOTIFY spot_engine");
	world_for(w, 300);
	ask_rebalance(w);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision WHERE outcome->'kept'->0->>'why' LIKE "
			     "'its deadline: %are left%'"),
	    1);
	assert_int_equal(decisions_sql(w, "rebalance"), 0);
	world_sql(w, "UPDATE job SET deadline_us = created_us + 50000000000");
	ask_rebalance(w);
	world_until(w, LIMIT, "SELECT count(*) FROM decision WHERE kind = 'rebalance'");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 2");
	world_finish(w, 1);
}

static void test_work_that_is_not_saved_counts_as_undone(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	w->agents_save = true;
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	world_pool(w, "z1", "a1", "on_demand", 3000000);
	/* Four fifths are done, nothing of it saved: two hours of work, and eight that a reclaim
	 * would take, before a deadline in four. */
	world_sql(w,
	    "UPDATE job SET steps_total = 1000, steps_done = 800, deadline_us = created_us + 4 * "
	    "3600000000; NOTIFY spot_engine");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM decision WHERE kind = 'failover' AND why LIKE '%a reclaim now "
	    "would take%'");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job j JOIN attempt a ON a.job_id = j.id AND a.epoch = j.epoch"
	    " WHERE j.state = 'RUNNING' AND a.market = 'on_demand'");
	world_finish(w, 1);
}

/* A job that reports no steps has run for three hours since its last save. A reclaim would take
 * them, a save keeps them. */
static void test_unsaved_work_of_a_job_without_steps_counts_by_the_clock(void **state)
{
	struct world *w = *state;
	int64_t now = world_us();
	int pool;

	world_reset(w, true);
	w->conf.cool_min_us = 600 * SPOT_US_PER_S;
	w->conf.cool_max_us = 1800 * SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	pool = world_pool(w, "z1", "a1", "on_demand", 3000000);
	/* On demand is refused for up to an hour: there is that much beside the ten of its work,
	 * and then half of it. */
	world_sql(w,
	    "INSERT INTO pool_hour (pool_id, at_hour, refusals) VALUES (%d, %" PRId64 ", 20);"
	    "INSERT INTO pool_day (pool_id, day, refusals) VALUES (%d, %" PRId64 ", 20);"
	    "UPDATE job SET deadline_us = created_us + 42000000000;"
	    "UPDATE attempt SET started_us = started_us - 3 * 3600000000",
	    pool, now / SPOT_US_PER_HOUR, pool, now / SPOT_US_PER_HOUR / 24);
	world_sql(w, "NOTIFY spot_engine");
	world_for(w, 500);
	assert_int_equal(decisions_sql(w, "failover"), 0);
	world_sql(w, "UPDATE job SET deadline_us = created_us + 38400000000; NOTIFY spot_engine");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM decision WHERE kind = 'failover' AND why LIKE '%a reclaim now "
	    "would take 3h00m more%'");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job j JOIN attempt a ON a.job_id = j.id AND a.epoch = j.epoch"
	    " WHERE j.state = 'RUNNING' AND a.market = 'on_demand'");
	world_finish(w, 1);
}

/* A late job stays on demand whatever spot costs. With late: cheapest it is moved for money as if
 * it had no deadline. */
static void test_a_late_job_stays_on_demand_unless_its_file_says_otherwise(void **state)
{
	struct world *w = *state;

	on_demand(w, "{}");
	world_kill(w); /* so that the next engine reads pool and deadline together */
	world_sql(w, "UPDATE job SET deadline_us = created_us - 1");
	world_pool(w, "z2", "a1", "spot", 100000);
	world_start(w);
	world_for(w, 600);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 1);
	ask_rebalance(w);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision WHERE outcome->'kept'->0->>'why' LIKE "
			     "'it is late%'"),
	    1);
	world_sql(w,
	    "UPDATE job SET spec = spec || '{\"late_cheapest\":true}'; NOTIFY spot_engine");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job j JOIN attempt a ON a.job_id = j.id AND a.epoch = j.epoch"
	    " WHERE j.state = 'RUNNING' AND a.market = 'spot'");
	world_finish(w, 1);
}

/* Of on-demand machines the fast one, though the slow one costs less for the work; whom the price
 * matters more gets spot. */
static void test_a_late_job_is_placed_where_it_is_done_first(void **state)
{
	static const char *const extras[] = { "", ",\"late_cheapest\":true" };
	static const char *const places[] = { "on_demand H100-80GB", "spot A100-80GB" };
	struct world *w = *state;
	char extra[160];

	for (size_t i = 0; i < ARRAY_LEN(extras); i++) {
		world_reset(w, true);
		world_pool(w, "z1", "a1", "spot", 100000);
		world_pool(w, "z1", "a1", "on_demand", 3000000);
		world_sql(w, "UPDATE pool SET gpu_name = 'H100-80GB' WHERE id = %d",
		    world_pool(w, "z1", "h1", "on_demand", 30000000));
		snprintf(extra, sizeof(extra),
		    "{\"asks\":[{\"gpus\":[{\"gpu\":\"A100\",\"milli\":1000},{\"gpu\":\"H100\","
		    "\"milli\":1000}],"
		    "\"use_spot\":-1}]%s}",
		    extras[i]);
		world_job(w, extra);
		world_sql(w, "UPDATE job SET deadline_us = created_us - 1");
		world_start(w);
		world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
		assert_string_equal(world_text(w,
					"SELECT p.market || ' ' || p.gpu_name FROM attempt a JOIN "
					"pool p ON p.id = a.pool_id"),
		    places[i]);
		world_finish(w, 1);
	}
}

/* The same job with the same time in hand. After recent refusals of on demand it begins while there
 * is time for another refusal. */
static void test_refused_on_demand_launches_bring_the_last_safe_moment_forward(void **state)
{
	struct world *w = *state;
	int64_t now = world_us();

	for (int refused = 0; refused < 2; refused++) {
		int pool;

		world_reset(w, true);
		world_pool(w, "z1", "a1", "spot", 1000000);
		pool = world_pool(w, "z1", "a1", "on_demand", 3000000);
		w->conf.cool_min_us = 600 * SPOT_US_PER_S;
		w->conf.cool_max_us = 1800 * SPOT_US_PER_S;
		if (refused) {
			world_sql(w,
			    "INSERT INTO pool_hour (pool_id, at_hour, refusals) VALUES (%d, "
			    "%" PRId64 ", 20);"
			    "INSERT INTO pool_day (pool_id, day, refusals) VALUES (%d, %" PRId64
			    ", 20)",
			    pool, now / SPOT_US_PER_HOUR, pool, now / SPOT_US_PER_HOUR / 24);
		}
		world_job(w, "{}");
		world_sql(w, "UPDATE job SET deadline_us = created_us + 39400000000");
		world_start(w);
		world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
		assert_string_equal(world_text(w, "SELECT market FROM attempt"),
		    refused ? "on_demand" : "spot");
		if (refused) {
			assert_int_equal(world_int(w,
					     "SELECT count(*) FROM decision WHERE why LIKE "
					     "'%on-demand launches were refused lately%'"
					     " AND "
					     "(inputs->'deadline'->'launch_reserve'->>'us')::int8 "
					     "= 3600000000"),
			    1);
		}
		world_finish(w, 1);
	}
}

#define T(f) cmocka_unit_test(f)
/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(test_on_demand_is_left_to_wait_for_spot_while_there_is_time),
		T(test_a_return_that_the_policy_decides_is_in_the_report_of_moves),
		T(test_no_move_makes_a_deadline_infeasible),
		T(test_work_that_is_not_saved_counts_as_undone),
		T(test_unsaved_work_of_a_job_without_steps_counts_by_the_clock),
		T(test_a_late_job_stays_on_demand_unless_its_file_says_otherwise),
		T(test_a_late_job_is_placed_where_it_is_done_first),
		T(test_refused_on_demand_launches_bring_the_last_safe_moment_forward),
	};

	if (argc > 1) {
		cmocka_set_test_filter(argv[1]);
	}
	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
