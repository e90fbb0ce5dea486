/*
 * Running gangs that move: back to spot, by rebalancing, on a recommendation, parked for a
 * deadline. Always as a whole, from one whole checkpoint; and the saving of a move is the sum over
 * all of their machines.
 */
#include "engine_world.h"
#include "store/q.h"

#define THREE "{\"num_nodes\": 3}"
#define RUNS "SELECT count(*) = 1 FROM job WHERE state = 'RUNNING' AND epoch >= 1"

/* Checks that all of epoch 2 went to the pool from the one whole checkpoint, and that the first
 * gang is over. */
static void check_moved(struct world *w, int pool, const char *kind)
{
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt WHERE epoch = 1 AND exit_reason = "
			     "'drained'"),
	    3);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt a JOIN checkpoint c ON c.id = "
			     "a.restore_id AND c.rank = a.rank"
			     " WHERE a.epoch = 2 AND a.steps_start = 100 AND c.set_us IS NOT NULL"),
	    3);
	assert_int_equal(world_int(w, "SELECT min(pool_id) FROM attempt WHERE epoch = 2"), pool);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM event WHERE entity = 'job' AND event = 'MOVE'"),
	    1);
	world_sql(w,
	    "CREATE TEMP TABLE IF NOT EXISTS kind AS SELECT ''::text AS k; UPDATE kind SET k = "
	    "'%s'",
	    kind);
	assert_int_equal(
	    world_int(w, "SELECT count(*) FROM decision, kind WHERE kind = k AND inputs ? 'move'"),
	    1);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM gang WHERE state = 'RELEASED' AND served_us IS NOT NULL AND why "
	    "LIKE 'its job moves%'");
}

/* The spot pool has room for two of three at first: the probe is refused, and nothing of the
 * running gang is touched. */
static void return_to_spot(struct world *w, bool one_call)
{
	int spot;

	world_reset(w, true);
	w->cloud.gangs = one_call;
	w->conf.cool_max_us = 400000;
	w->conf.gang_hold_us = 2 * SPOT_US_PER_S;
	spot = world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z2", "a1", "on_demand", 4000000);
	cloud_room(&w->cloud, "z1/a1/spot", 2);
	world_start(w);
	(void)world_job(w, THREE);
	world_until(w, LIMIT, RUNS);
	assert_string_equal(world_text(w, "SELECT DISTINCT market FROM attempt"), "on_demand");
	world_until(w, LIMIT, "SELECT count(*) FROM decision WHERE kind = 'return'");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM gang g JOIN node n ON n.gang_id = g.id AND n.gang_rank = 0 AND "
	    "n.replaces_id IS NOT NULL"
	    " WHERE g.state = 'RELEASED'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 1"),
	    1);
	world_sql(w, "DELETE FROM decision WHERE kind = 'return'");
	cloud_room(&w->cloud, "z1/a1/spot", 3);
	world_until(w, 2 * LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 2");
	world_sql(w,
	    "DELETE FROM decision WHERE kind = 'return' AND id <> (SELECT max(id) FROM decision "
	    "WHERE kind = 'return')");
	check_moved(w, spot, "return");
	world_exit_all(w);
	world_check_gangs(w);
}

static void test_a_gang_on_demand_returns_to_spot_as_a_whole(void **state)
{
	return_to_spot(*state, true);
}

static void test_a_gang_of_single_launches_returns_to_spot_as_a_whole(void **state)
{
	return_to_spot(*state, false);
}

static void test_rebalancing_moves_a_gang_as_a_whole(void **state)
{
	struct world *w = *state;
	int cheap;

	world_reset(w, true);
	w->cloud.gangs = true;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	(void)world_job(w, THREE);
	world_until(w, LIMIT, RUNS);
	cheap = world_pool(w, "z2", "a1", "spot", 200000);
	world_ask_rebalance(w, false);
	world_until_epoch(w, 2);
	check_moved(w, cheap, "rebalance");
	/* The saving is that of all three. */
	assert_true(world_int(w,
	    "SELECT (inputs->'move'->>'saving_micros')::int8 > 20000000 FROM decision WHERE kind = "
	    "'rebalance'"));
	world_exit_all(w);
	world_check_gangs(w);
}

/* Recommendations in that zone were followed by reclaims; the one for a machine of the gang moves
 * all of it elsewhere. */
static void test_a_recommendation_for_one_machine_moves_the_gang_as_a_whole(void **state)
{
	struct world *w = *state;
	int64_t now = world_us();
	int here, there;

	world_reset(w, true);
	w->cloud.gangs = true;
	here = world_pool(w, "z1", "a1", "spot", 1000000);
	there = world_pool(w, "z2", "a1", "spot", 1000100);
	world_sql(w,
	    "WITH n AS (INSERT INTO node (pool_id, state, state_us, token, name, price_micros, "
	    "created_us, launched_us, ready_us,"
	    " ended_us, billed_to_us, end_cause, why) SELECT %d, 'GONE', t, 'spt-old' || i, "
	    "'brk.old' || i, 1000000, t - 60000000,"
	    " t - 60000000, t - 60000000, t, t, 'reclaimed', '' FROM generate_series(1, 40) i, "
	    "(VALUES (%" PRId64 "::int8)) x (t)"
	    " RETURNING id, ended_us)"
	    " INSERT INTO notice (node_id, kind, deadline_us, source, raw, heard_us, handled_us)"
	    " SELECT id, 'rebalance', 0, 'test', '', ended_us - 30000000, ended_us - 30000000 FROM "
	    "n",
	    here, now - 24 * SPOT_US_PER_HOUR);
	world_start(w);
	(void)world_job(w, THREE);
	world_until(w, LIMIT, RUNS);
	assert_int_equal(world_int(w, "SELECT min(pool_id) FROM attempt"), here);
	world_sql(w,
	    "INSERT INTO notice (node_id, kind, deadline_us, source, raw, heard_us) SELECT "
	    "node_id, 'rebalance', 0, 'imds', '', %" PRId64
	    " FROM attempt WHERE rank = 2; NOTIFY spot_engine",
	    world_us());
	world_until(w, LIMIT, "SELECT count(*) FROM decision WHERE kind = 'recommendation'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision WHERE kind = 'recommendation' AND "
			     "(outcome->>'move')::bool"
			     " AND (inputs->>'heard')::int4 = 40 AND (inputs->>'followed')::int4 = "
			     "40"),
	    1);
	world_until_epoch(w, 2);
	check_moved(w, there, "rebalance");
	world_exit_all(w);
	world_check_gangs(w);
}

/* As for a single machine (engine_deadline_test), with a pool that was had for gangs of three: all
 * of it saves, stops and goes back. */
static void test_a_gang_is_parked_as_a_whole_to_wait_for_spot(void **state)
{
	struct world *w = *state;
	int64_t now = world_us();
	int spot;

	world_reset(w, true);
	w->cloud.gangs = true;
	world_pool(w, "z1", "a1", "on_demand", 3000000);
	world_start(w);
	(void)world_job(w, THREE);
	world_until(w, LIMIT, RUNS);
	cloud_room(&w->cloud, "z2/a1/spot", 0);
	world_sql(w, "BEGIN");
	spot = world_pool(w, "z2", "a1", "spot", 300000);
	world_sql(w,
	    "WITH g AS (INSERT INTO gang (job_id, pool_id, place, want, token, state, created_us, "
	    "served_us, why)"
	    " VALUES (1, %d, 'old', 3, 'spt-old', 'RELEASED', %" PRId64 ", %" PRId64
	    ", '') RETURNING id)"
	    " INSERT INTO node (pool_id, gang_id, gang_rank, state, state_us, token, name, "
	    "price_micros, created_us, launched_us, ready_us,"
	    " ended_us, billed_to_us, end_cause, why) SELECT %d, id, 0, 'GONE', %" PRId64
	    ", 'spt-old', 'brk.old', 300000, %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
	    ", %" PRId64 ", 'reclaimed', '' FROM g",
	    spot, now - 200 * SPOT_US_PER_HOUR, now - 200 * SPOT_US_PER_HOUR, spot, now - 1000000,
	    now - 200 * SPOT_US_PER_HOUR, now - 200 * SPOT_US_PER_HOUR,
	    now - 200 * SPOT_US_PER_HOUR, now - 1000000, now - 1000000);
	world_sql(w,
	    "INSERT INTO pool_cool (pool_id, until_us, refusals, rc, why, at_us) VALUES (%d, "
	    "%" PRId64 ", 1, 'NO_CAPACITY', 'sold out', 1);"
	    "UPDATE job SET deadline_us = created_us + 300 * 3600000000; NOTIFY spot_engine; "
	    "COMMIT",
	    spot, world_us() + 6000000);
	world_until(w, LIMIT, "SELECT count(*) FROM decision WHERE kind = 'park'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM notice o JOIN attempt a ON a.node_id = "
			     "o.node_id AND a.epoch = 1"
			     " WHERE o.kind = 'maintenance' AND o.source = 'deadline policy'"),
	    3);
	world_until_job(w, "QUEUED");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt WHERE epoch = 1 AND exit_reason = "
			     "'drained'"),
	    3);
	world_until(w, LIMIT, "SELECT count(*) = 0 FROM node WHERE ended_us IS NULL");
	assert_int_equal(world_int(w, "SELECT count(*) FROM job WHERE state = 'QUEUED'"), 1);
	cloud_room(&w->cloud, "z2/a1/spot", 3);
	world_until(w, 2 * LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 2");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt a JOIN checkpoint c ON c.id = "
			     "a.restore_id AND c.rank = a.rank"
			     " WHERE a.epoch = 2 AND a.market = 'spot' AND a.steps_start = 100"),
	    3);
	assert_int_equal(world_int(w, "SELECT count(*) FROM decision WHERE kind = 'park'"), 1);
	world_exit_all(w);
	world_check_gangs(w);
}

struct report {
	struct pg_req req;
	struct arena *arena;
	const char *doc;
};

static void report_done(struct op *op)
{
	struct report *k = container_of(container_of(op, struct pg_req, op), struct report, req);
	struct q_api_rebalance_report_row *row;

	assert_int_equal(op->rc, SPOT_OK);
	assert_int_equal(q_api_rebalance_report_rows(&k->req, k->arena, &row), 1);
	k->doc = arena_strdup(k->arena, row->doc);
}

/* The paid amount is the ledger of all three, and so is the cost of staying. */
static void test_the_report_of_moves_counts_all_machines_of_a_gang(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct report k = { .arena = a };
	struct world *w = *state;

	world_reset(w, true);
	w->cloud.gangs = true;
	world_pool(w, "z1", "a1", "spot", 1000000000);
	world_start(w);
	(void)world_job(w, THREE);
	world_until(w, LIMIT, RUNS);
	world_pool(w, "z2", "a1", "spot", 200000000);
	world_ask_rebalance(w, false);
	world_until_epoch(w, 2);
	world_for(w, 400);
	world_exit_all(w);
	world_check_gangs(w);
	q_api_rebalance_report(w->pg, &k.req,
	    &(struct q_api_rebalance_report){ .since_us = 0,
		.at_us = world_us(),
		.most = 10,
		.fleet = "" },
	    report_done);
	while (k.doc == NULL) {
		(void)loop_turn(w->loop, 5000);
	}
	pg_req_fini(&k.req);
	world_sql(w, "CREATE TABLE report AS SELECT '%s'::jsonb AS doc", k.doc);
	assert_int_equal(world_int(w,
			     "SELECT (doc->>'moves')::int4 = 1 AND (doc->>'done')::int4 = 1 FROM "
			     "report"),
	    1);
	assert_int_equal(world_int(w,
			     "SELECT (doc->>'paid$')::int8 = (SELECT sum(amount_micros) FROM "
			     "ledger l JOIN node n ON n.id = l.node_id"
			     " WHERE n.gang_id = 2) FROM report"),
	    1);
	assert_int_equal(world_int(w,
			     "SELECT count(DISTINCT l.node_id) FROM ledger l JOIN node n ON n.id = "
			     "l.node_id WHERE n.gang_id = 2"),
	    3);
	/* The price of one there, three times, for as long as the job ran where it went. */
	assert_int_equal(world_int(w,
			     "SELECT abs((doc->>'stay$')::int8 - (SELECT (ended_us - started_us) / "
			     "3.6e9 * 3 * 1000000000 FROM attempt"
			     " WHERE epoch = 2 AND rank = 0)) <= 1 FROM report"),
	    1);
	assert_int_equal(world_int(w,
			     "SELECT (doc->>'earned$')::int8 = (doc->>'stay$')::int8 - "
			     "(doc->>'paid$')::int8 FROM report"),
	    1);
}

/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_gang_on_demand_returns_to_spot_as_a_whole),
		cmocka_unit_test(test_a_gang_of_single_launches_returns_to_spot_as_a_whole),
		cmocka_unit_test(test_rebalancing_moves_a_gang_as_a_whole),
		cmocka_unit_test(test_a_recommendation_for_one_machine_moves_the_gang_as_a_whole),
		cmocka_unit_test(test_a_gang_is_parked_as_a_whole_to_wait_for_spot),
		cmocka_unit_test(test_the_report_of_moves_counts_all_machines_of_a_gang),
	};

	return WORLD_TESTS(argc, argv, tests);
}
