/* Forbidden acts. The engine launches nothing without the claim, nothing after it lost the lease,
 * and repeats nothing that is not harmless. It takes no healthy job for lost on one witness
 * alone. */
#include "engine_world.h"
#include "store/q.h"

static void test_a_claim_that_does_not_succeed_sends_no_launch(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	/* Every claim finds that somebody moved the row first. */
	world_sql(w,
	    "CREATE FUNCTION not_now() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; "
	    "END $$;"
	    "CREATE TRIGGER not_now BEFORE UPDATE ON node FOR EACH ROW WHEN (new.state = "
	    "'LAUNCHING')"
	    " EXECUTE FUNCTION not_now()");
	world_start(w);
	world_job(w, "{}");
	world_until_node(w, "WANTED");
	world_for(w, 500);
	assert_int_equal(w->cloud.launches, 0);
	world_sql(w, "DROP TRIGGER not_now ON node; NOTIFY spot_engine");
	world_until_job(w, "RUNNING");
	assert_int_equal(w->cloud.launches, 1);
	world_succeed(w);
}

static void not_asked(struct op *op)
{
	(void)op;
}

/* As move_back.c and rebalance.c may in one turn: both have seen no replacement before either waits
 * for the job's row. */
static void test_two_who_want_a_replacement_at_once_get_one(void **state)
{
	struct world *w = *state;
	struct pg_req reqs[2] = { 0 };
	const char *names[] = { "t1", "t2" };
	struct pg *pg;
	int ok = 0;

	world_reset(w, true);
	world_running(w);
	/* Each has a connection of its own: statements of the engine that wait for the row, too,
	 * would take all of its. */
	pg = pg_new(w->loop, &(struct pg_conf){ .dsn = w->dsn, .connections = 2 });
	while (pg_stats(pg).up < 2) {
		world_for(w, 5);
	}
	world_sql(w, "BEGIN; SELECT FROM job FOR UPDATE");
	for (int i = 0; i < 2; i++) {
		q_engine_want_for_job(pg, &reqs[i],
		    &(struct q_engine_want_for_job){ .job_id = 1,
			.was = JOB_RUNNING,
			.epoch = 1,
			.pool_id = 1,
			.has_replaces_id = true,
			.replaces_id = 1,
			.token = names[i],
			.name = names[i],
			.price_micros = 1,
			.kind = "return",
			.inputs = "{}",
			.outcome = "{}",
			.why = "test",
			.at_us = world_us(),
			.fence = world_int(w, "SELECT epoch FROM leader") },
		    not_asked);
	}
	world_until(w, LIMIT,
	    "SELECT (count(*) >= 2)::int FROM pg_locks WHERE relation = 'job'::regclass AND "
	    "locktype = 'tuple' AND mode = 'ExclusiveLock'");
	world_sql(w, "COMMIT");
	for (int i = 0; i < 2; i++) {
		while (op_busy(&reqs[i].op)) {
			world_for(w, 5);
		}
		ok += reqs[i].op.rc == SPOT_OK && pg_rows(reqs[i].result) == 1;
		pg_req_fini(&reqs[i]);
	}
	pg_free(pg);
	assert_int_equal(ok, 1);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE replaces_id = 1"), 1);
	assert_int_equal(world_int(w, "SELECT count(*) FROM decision WHERE kind = 'return'"), 1);
	world_succeed(w);
}

static void test_a_daemon_that_lost_the_lease_launches_nothing(void **state)
{
	struct world *w = *state;
	int pool;

	world_reset(w, true);
	pool = world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM leader WHERE name = 'engine' AND until_us > 0");
	/* Another daemon takes over at the same moment as there is something to launch; ours does
	 * not know yet. */
	world_sql(w,
	    "BEGIN; UPDATE leader SET epoch = epoch + 1, holder = 'another', until_us = until_us + "
	    "60000000;"
	    "INSERT INTO node (pool_id, state, state_us, token, name, price_micros, created_us, "
	    "why)"
	    " VALUES (%d, 'WANTED', 1, 'spt-lease-test', 'brk.lease.test', 1000000, 1, ''); NOTIFY "
	    "spot_engine; COMMIT",
	    pool);
	world_for(w, 700);
	assert_int_equal(w->cloud.launches, 0);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE state = 'WANTED'"), 1);
}

/* The simulation found it: a wall clock that was set right let the claim run out while its launch
 * waited to be sent. The row was given up, and then the launch left. */
static void claim_outlasts_its_call(struct world *w, const char *spec, int64_t machines)
{
	w->conf.launch_timeout_us = LIMIT * 1000;
	w->conf.lease_us = LIMIT * 1000; /* the claim of a lease that was lost is nobody's */
	world_pool(w, "z1", "a1", "spot", 1000000);
	w->cloud.reply_after_us = SPOT_US_PER_S;
	world_start(w);
	world_job(w, spec);
	world_until_node(w, "LAUNCHING");
	for (int i = 0; i < LIMIT / 10 && w->cloud.launches + w->cloud.gang_launches == 0; i++) {
		world_for(w, 10);
	}
	world_sql(w, "UPDATE node SET claim_until_us = 1; NOTIFY spot_engine");
	world_until_job(w, "RUNNING");
	assert_int_equal(world_int(w, "SELECT count(*) FROM event WHERE event = 'AMBIGUOUS'"), 0);
	assert_int_equal(w->cloud.launches + w->cloud.gang_launches, 1);
	assert_int_equal((int64_t)w->cloud.n, machines);
	assert_int_equal(w->cloud.finds, 0);
}

static void test_a_claim_does_not_run_out_while_its_call_is_under_way(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	claim_outlasts_its_call(w, "{}", 1);
	world_succeed(w);
}

/* The call is the first rank's, whichever id that has (seed 107501). */
static void test_the_claim_of_a_gang_does_not_run_out_either(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->cloud.gangs = true;
	world_sql(w,
	    "CREATE FUNCTION last_first() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
	    "NEW.gang_rank := 2 - NEW.gang_rank; RETURN NEW; END $$;"
	    "CREATE TRIGGER last_first BEFORE INSERT ON node FOR EACH ROW EXECUTE FUNCTION "
	    "last_first()");
	claim_outlasts_its_call(w, "{\"num_nodes\": 3}", 3);
	assert_int_equal(world_int(w, "SELECT gang_rank FROM node ORDER BY id LIMIT 1"), 2);
	world_sql(w, "DROP TRIGGER last_first ON node; DROP FUNCTION last_first");
	world_exit_all(w);
	world_check_gangs(w);
}

static void test_without_tokens_not_even_a_refused_launch_is_sent_again(void **state)
{
	struct world *w = *state;

	world_reset(w, false);
	world_pool(w, "z1", "a1", "on_demand", 1000000);
	w->cloud.throttle = 1;
	world_run_job(w, "{}");
	/* The row that was refused is over, and the launched machine has a row and a token of its
	 * own. */
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node WHERE state = 'FAILED' AND end_cause = "
			     "'refused'"),
	    1);
	assert_int_equal(world_int(w, "SELECT count(DISTINCT token) FROM node"), 2);
	assert_int_equal(w->cloud.n, 1);
	world_succeed(w);
}

/* A person with the stored inputs comes to the same decision, with pencil and paper. */
static void test_a_decision_follows_from_the_inputs_stored_with_it(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1500000);
	world_pool(w, "z2", "a1", "spot", 1000000);
	world_pool(w, "z3", "a1", "on_demand", 4000000);
	world_run_job(w, "{}");
	/* The choice is the first of its market, and nothing in that market is cheaper. */
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision d WHERE kind = 'place' AND "
			     "outcome->'pool'->'pool' = "
			     "(SELECT o->'pool' FROM jsonb_array_elements(inputs->'offers') o "
			     "WHERE o->>'market' = outcome->>'choice'"
			     " ORDER BY (o->>'total_micros')::int8 LIMIT 1)"),
	    1);
	/* Every offer's terms give its total: work, saving, losses and restarts make hours, hours
	 * times price dollars. */
	assert_int_equal(
	    world_int(w,
		"SELECT count(*) FROM decision, jsonb_array_elements(inputs->'offers') o,"
		" jsonb_to_record(o->'terms') AS t (work_h float8, throughput float8, start_h "
		"float8, overhead_h float8, lost_h float8,"
		" restart_h float8, paid_hours float8, wait_h float8, hours float8, "
		"price_now_micros int8, price_move_micros int8,"
		" penalty_micros int8, price_micros int8, restore_micros int8, upload_micros int8, "
		"data_micros int8, egress_micros int8,"
		" total_micros int8) WHERE kind = 'place'"
		" AND abs(work_h - (inputs->'job'->>'work_left_s')::float8 / 3600 / throughput) < "
		"1e-9"
		" AND abs(paid_hours - start_h - work_h - overhead_h - lost_h - restart_h) < 1e-9 "
		"AND abs(hours - paid_hours - wait_h) < 1e-9"
		" AND price_micros = price_now_micros + price_move_micros + penalty_micros"
		" AND egress_micros = restore_micros + upload_micros + data_micros"
		" AND abs(total_micros - price_micros * paid_hours - egress_micros) <= 0.5 AND "
		"total_micros = (o->>'total_micros')::int8"
		" AND hours = (o->>'hours_to_finish')::float8"),
	    3);
	world_succeed(w);
}

static void test_waiting_is_a_decision_with_its_inputs(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	cloud_sell_out(&w->cloud, "z1/a1/spot");
	w->conf.cool_min_us = w->conf.cool_max_us = 60 * SPOT_US_PER_S;
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM decision WHERE kind = 'wait'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision WHERE kind = 'wait' AND why <> '' AND "
			     "outcome->>'choice' = 'wait'"
			     " AND (inputs->>'now_us')::int8 > 0 AND inputs->'job'->>'id' = '1' "
			     "AND jsonb_array_length(inputs->'not_now') = 1"
			     " AND inputs->'not_now'->0->>'refused' LIKE 'cooling%'"),
	    1);
	cloud_sell_again(&w->cloud);
	world_sql(w, "DELETE FROM pool_cool; NOTIFY spot_engine");
	world_until_job(w, "RUNNING");
	world_succeed(w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_claim_that_does_not_succeed_sends_no_launch),
		cmocka_unit_test(test_two_who_want_a_replacement_at_once_get_one),
		cmocka_unit_test(test_a_daemon_that_lost_the_lease_launches_nothing),
		cmocka_unit_test(test_a_claim_does_not_run_out_while_its_call_is_under_way),
		cmocka_unit_test(test_the_claim_of_a_gang_does_not_run_out_either),
		cmocka_unit_test(test_without_tokens_not_even_a_refused_launch_is_sent_again),
		cmocka_unit_test(test_a_decision_follows_from_the_inputs_stored_with_it),
		cmocka_unit_test(test_waiting_is_a_decision_with_its_inputs),
	};

	return WORLD_TESTS(argc, argv, tests);
}
