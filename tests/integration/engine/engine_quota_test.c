/* Capacity at the providers: late refusals, quotas and our own nodes in them, fleets that take the
 * rest. */
#include <libpq-fe.h>

#include "engine_world.h"

static void refusal_late(struct world *w, const char *reason, const char *rc, int cooled)
{
	char sql[160];

	world_reset(w, true);
	w->conf.cool_min_us = w->conf.cool_max_us = 600 * SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z2", "a1", "spot", 1100000);
	world_pool(w, "z3", "a1", "on_demand", 1200000);
	w->cloud.late_reason = reason;
	w->agents = false; /* a machine that never ran has none */
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE end_cause = 'refused'");
	w->cloud.late_reason = NULL;
	w->agents = true;
	world_until_job(w, "RUNNING");
	snprintf(sql, sizeof(sql),
	    "SELECT count(*) FROM pool_cool WHERE rc = '%s' AND why LIKE '%%%s%%'", rc, reason);
	assert_true(world_int(w, sql) >= cooled);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node n JOIN pool p ON p.id = n.pool_id"
			     " WHERE n.end_cause = 'refused' AND n.state = 'READY'"),
	    0);
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE id = 1 AND state = 'GONE'");
	assert_true(world_int(w, "SELECT pool_id FROM attempt WHERE epoch = 1") > 1);
}

static void test_an_unschedulable_pod_cools_its_pool_and_the_job_goes_elsewhere(void **state)
{
	refusal_late(*state, "NO_CAPACITY: 0/3 nodes are available", "late_no_capacity", 1);
}

static void test_a_late_quota_refusal_cools_every_pool_of_the_class(void **state)
{
	struct world *w = *state;

	refusal_late(w, "QUOTA: over quota", "late_quota", 2);
	assert_string_equal(world_text(w, "SELECT market FROM attempt WHERE epoch = 1"),
	    "on_demand");
}

static void test_a_quota_refusal_cools_every_pool_of_the_class(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z2", "a1", "spot", 1100000);
	world_pool(w, "z3", "a1", "on_demand", 9000000);
	cloud_sell_out(&w->cloud, "z1/a1/spot");
	w->cloud.sold_out_rc = SPOT_QUOTA;
	w->conf.cool_min_us = w->conf.cool_max_us = 60 * SPOT_US_PER_S; /* z2 would sell */
	world_run_job(w, "{}");
	assert_string_equal(world_text(w,
				"SELECT market FROM node n JOIN pool p ON p.id = n.pool_id WHERE "
				"state = 'READY'"),
	    "on_demand");
	assert_int_equal(world_int(w, "SELECT count(*) FROM pool_cool WHERE rc = 'quota'"), 2);
	world_finish(w, 1);
}

static void quota_add(struct world *w, const char *cls, const char *market, const char *unit,
    int limit)
{
	world_sql(w, "INSERT INTO quota VALUES ('fake', 'r1', '%s', '%s', '%s', %d, 1)", cls,
	    market, unit, limit);
}

static void test_a_pool_whose_quota_has_no_room_is_not_chosen(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000); /* class P/spot, 12 vCPUs, one GPU */
	world_pool(w, "z3", "a1", "on_demand", 1200000);
	quota_add(w, "P/spot", "spot", "vcpu", 12);
	w->conf.supply.patience_us = 0;
	world_run_job(w, "{}");
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM job WHERE state = 'RUNNING'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node n JOIN pool p ON p.id = n.pool_id WHERE "
			     "p.market = 'spot'"),
	    1);
	assert_int_equal(w->cloud.launches, 2);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision WHERE job_id = 2 AND inputs::text LIKE "
			     "'%no room in quota P/spot of r1: 12 of 12 vcpu taken by our nodes, "
			     "this one needs 12%'"),
	    1);
}

static void test_an_unknown_limit_allows_and_two_jobs_of_one_turn_share_the_room(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z3", "a1", "on_demand", 1200000);
	quota_add(w, "P/spot", "spot", "gpus", 1);
	quota_add(w, "P/on_demand", "on_demand", "instances", -1);
	w->conf.supply.patience_us = 0;
	w->conf.offers_age_us = 2 * SPOT_US_PER_S;
	world_job(w, "{}");
	world_job(w, "{}");
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM job WHERE state = 'RUNNING'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node n JOIN pool p ON p.id = n.pool_id WHERE "
			     "p.market = 'spot'"),
	    1);
}

/* Others read the market while a node is being written down; their read lacks it, and says nothing
 * of the free quota. */
static void test_a_market_read_beside_a_write_places_none_over_the_quota(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z3", "a1", "on_demand", 1200000);
	quota_add(w, "P/spot", "spot", "instances", 2);
	w->conf.supply.patience_us = 0;
	w->conf.offers_age_us = 300000;
	world_start(w);
	/* It looks at the market in every turn. */
	world_fleet(w, 1);
	world_until_node(w, "READY");
	w->cloud.reply_after_us = 500000;
	world_sql(w,
	    "CREATE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM "
	    "pg_advisory_xact_lock(7); RETURN NEW; END $$;"
	    "CREATE TRIGGER held BEFORE INSERT ON node FOR EACH ROW EXECUTE FUNCTION held(); "
	    "SELECT pg_advisory_lock(7)");
	world_job(w, "{}");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted");
	world_job(w, "{}");
	world_for(w, 800);
	world_sql(w, "SELECT pg_advisory_unlock(7)");
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM job WHERE state = 'RUNNING'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node n JOIN pool p ON p.id = n.pool_id WHERE "
			     "p.market = 'spot'"),
	    2);
	assert_int_equal(w->cloud.launches, 3);
}

/* Two read the market at once: neither sees the machine that the other then takes. */
static void test_two_that_read_the_market_at_once_share_its_room(void **state)
{
	struct world *w = *state;
	void *mine, *locks;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	quota_add(w, "P/spot", "spot", "instances", 1);
	/* Enough that the job's pass does not queue behind the read that waits. */
	w->connections = 16;
	world_start(w);
	w->connections = 0;
	world_until(w, LIMIT, "SELECT count(*) FROM leader");
	world_until(w, LIMIT,
	    "SELECT count(*) >= 16 FROM pg_stat_activity WHERE application_name = 'engine test' "
	    "AND datname = current_database()");
	world_sql(w,
	    "CREATE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM "
	    "pg_advisory_xact_lock(7); RETURN NEW; END $$;"
	    "CREATE TRIGGER held BEFORE INSERT ON node FOR EACH ROW EXECUTE FUNCTION held(); "
	    "SELECT pg_advisory_lock(7)");
	mine = w->conn;
	w->conn = NULL; /* another connection holds the readers up */
	world_sql(w, "BEGIN; LOCK TABLE quota");
	locks = w->conn;
	w->conn = mine;
	world_fleet(w, 1);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM pg_locks WHERE relation = 'quota'::regclass AND NOT granted");
	world_job(w, "{}");
	world_for(w, 500); /* the job's pass waits for the same read */
	PQfinish(locks);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted");
	world_for(w, 800);
	world_sql(w, "SELECT pg_advisory_unlock(7)");
	world_until_node(w, "READY");
	world_for(w, 300);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 1);
}

static void test_a_fleet_takes_what_the_quota_has_room_for_and_goes_on_elsewhere(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	/* Dear enough that spreading against joint loss does not pay. */
	world_pool(w, "z3", "a1", "on_demand", 4000000);
	quota_add(w, "P/spot", "spot", "instances", 2);
	world_start(w);
	world_fleet(w, 4);
	world_until(w, LIMIT, "SELECT count(*) = 4 FROM node WHERE state = 'READY'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node n JOIN pool p ON p.id = n.pool_id WHERE "
			     "p.market = 'spot'"),
	    2);
	assert_int_equal(w->cloud.launches, 4);
}

static void test_a_fleet_that_lacks_nodes_is_planned_again_when_something_changed(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	quota_add(w, "P/spot", "spot", "instances", 2);
	world_start(w);
	world_fleet(w, 4);
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM node WHERE state = 'READY'");
	world_until(w, LIMIT, "SELECT count(*) FROM fleet WHERE (plan->>'missing')::int = 2");
	/* A new plan would write plan_us. The engine may still look at earlier changes for a while;
	 * then it makes no plan. */
	for (int i = 0; i == 0 || (world_int(w, "SELECT plan_us FROM fleet") != 1 && i < 20); i++) {
		world_sql(w, "UPDATE fleet SET plan_us = 1; NOTIFY spot_engine");
		world_for(w, 1000);
	}
	assert_int_equal(world_int(w, "SELECT plan_us FROM fleet"), 1);
	world_sql(w, "UPDATE quota SET quota_limit = 3; NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) = 3 FROM node WHERE state = 'READY'");
	world_until(w, LIMIT, "SELECT count(*) FROM fleet WHERE (plan->>'missing')::int = 1");
	world_pool(w, "z3", "a1", "on_demand", 4000000);
	world_sql(w, "NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) = 4 FROM node WHERE state = 'READY'");
	world_until(w, LIMIT, "SELECT count(*) FROM fleet WHERE (plan->>'missing')::int = 0");
}

/* Others read the market while a refusal is being written down; by their read the pool does not
 * cool. */
static void test_a_pool_that_refused_is_not_asked_by_an_older_read(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->conf.cool_min_us = w->conf.cool_max_us = 600 * SPOT_US_PER_S;
	w->conf.offers_age_us = 60 * SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z2", "a1", "spot", 1100000);
	world_start(w);
	/* It looks at the market in every turn. */
	world_fleet(w, 1);
	world_until_node(w, "READY");
	cloud_sell_out(&w->cloud, "z1/a1/spot");
	w->agents = false; /* by the connection that holds the lock, and on rows that wait for it */
	world_sql(w,
	    "CREATE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM "
	    "pg_advisory_xact_lock(7); RETURN NEW; END $$;"
	    "CREATE TRIGGER held BEFORE INSERT ON pool_cool FOR EACH ROW EXECUTE FUNCTION held(); "
	    "SELECT pg_advisory_lock(7)");
	world_job(w, "{}");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted");
	world_for(w, 800);
	world_sql(w, "SELECT pg_advisory_unlock(7)");
	w->agents = true;
	world_until_job(w, "RUNNING");
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE end_cause = 'refused'"), 1);
	assert_int_equal(w->cloud.launches, 3);
}

/* The cheapest pool rests for less than the next probe waits, and never sells; the other, which
 * pays, too, does. */
static void test_a_return_that_one_pool_refuses_is_tried_in_another(void **state)
{
	struct world *w = *state;
	int other;

	world_reset(w, true);
	w->conf.cool_min_us = w->conf.cool_max_us = 50000;
	w->conf.tightness.tight_at = 1000; /* never */
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z3", "a1", "on_demand", 10000000);
	cloud_sell_out(&w->cloud, "z1/a1/spot");
	world_run_job(w, "{}");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE replaces_id IS NOT NULL AND end_cause = 'refused'");
	other = world_pool(w, "z2", "a1", "spot", 1500000);
	world_until_epoch(w, 2);
	assert_int_equal(world_int(w, "SELECT pool_id FROM attempt WHERE epoch = 2"), other);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node n JOIN decision d ON d.node_id = n.id "
			     "WHERE n.state = 'READY' AND n.job_id = 1"
			     " AND d.kind = 'return' AND d.why LIKE '%refused before, since it "
			     "runs here: %'"),
	    1);
	world_finish(w, 1);
}

/* Its answer is kept while the market stays, and for a minute at most. */
static void test_a_job_that_stays_on_demand_is_judged_again_when_prices_move(void **state)
{
	struct world *w = *state;
	int64_t judged;

	world_reset(w, true);
	w->conf.bill_us = 600 * SPOT_US_PER_S; /* each bill changes the pool's record */
	world_pool(w, "z1", "a1", "spot", 2000000);
	world_pool(w, "z3", "a1", "on_demand", 1000000);
	world_run_job(w, "{}");
	for (int i = 0; engine_returns_judged(w->engine) == 0 && i < 100; i++) {
		world_for(w, 100);
	}
	assert_int_not_equal(engine_returns_judged(w->engine), 0);
	world_for(w, 500);
	judged = engine_returns_judged(w->engine);
	for (int i = 0; i < 20; i++) {
		world_sql(w, "NOTIFY spot_engine");
		world_for(w, 100);
	}
	assert_int_equal(engine_returns_judged(w->engine), judged);
	world_sql(w,
	    "UPDATE pool_latest SET price_micros = 1900000 WHERE price_micros = 2000000; "
	    "NOTIFY spot_engine");
	for (int i = 0; engine_returns_judged(w->engine) == judged && i < 100; i++) {
		world_for(w, 100);
	}
	assert_int_not_equal(engine_returns_judged(w->engine), judged);
	assert_int_equal(w->cloud.launches, 1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
		    test_an_unschedulable_pod_cools_its_pool_and_the_job_goes_elsewhere),
		cmocka_unit_test(test_a_late_quota_refusal_cools_every_pool_of_the_class),
		cmocka_unit_test(test_a_quota_refusal_cools_every_pool_of_the_class),
		cmocka_unit_test(test_a_pool_whose_quota_has_no_room_is_not_chosen),
		cmocka_unit_test(
		    test_an_unknown_limit_allows_and_two_jobs_of_one_turn_share_the_room),
		cmocka_unit_test(test_a_market_read_beside_a_write_places_none_over_the_quota),
		cmocka_unit_test(test_two_that_read_the_market_at_once_share_its_room),
		cmocka_unit_test(test_a_pool_that_refused_is_not_asked_by_an_older_read),
		cmocka_unit_test(test_a_return_that_one_pool_refuses_is_tried_in_another),
		cmocka_unit_test(test_a_job_that_stays_on_demand_is_judged_again_when_prices_move),
		cmocka_unit_test(
		    test_a_fleet_takes_what_the_quota_has_room_for_and_goes_on_elsewhere),
		cmocka_unit_test(
		    test_a_fleet_that_lacks_nodes_is_planned_again_when_something_changed),
	};

	return WORLD_TESTS(argc, argv, tests);
}
