/* Fleets that follow the market: launch before drain, back to spot, rebalanced within the
 * disruption budget. */
#include "engine_world.h"

/* A fleet of so many nodes with more of a spec, as JSON. */
static void fleet_of(struct world *w, int nodes, const char *extra)
{
	world_fleet(w, nodes);
	world_sql(w, "UPDATE fleet SET spec = spec || '%s'; NOTIFY spot_engine", extra);
}

#define BUDGET "{\"pools_min\":1,\"rebalance\":{\"at_once\":%d,\"per_zone\":100,\"per_hour\":1000}}"

static void fleet_job(struct world *w, const char *extra)
{
	world_sql(w, "BEGIN");
	world_job(w, extra);
	world_sql(w, "UPDATE job SET fleet_id = 1; COMMIT; NOTIFY spot_engine");
}

/* The market of one zone: spot is sold out, and the fleet is on demand. */
static void on_demand_fleet(struct world *w, int nodes, const char *extra)
{
	char ready[96];

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z1", "a1", "on_demand", 3000000);
	cloud_sell_out(&w->cloud, "z1/a1/spot");
	world_start(w);
	fleet_of(w, nodes, extra);
	(void)snprintf(ready, sizeof(ready), "SELECT count(*) = %d FROM node WHERE state = 'READY'",
	    nodes);
	world_until(w, LIMIT, ready);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node n JOIN pool p ON p.id = n.pool_id WHERE "
			     "n.state = 'READY' AND p.market = 'on_demand'"),
	    nodes);
}

#define LIVE(market) \
	"(SELECT count(*) FROM node n JOIN pool p ON p.id = n.pool_id WHERE p.market = '" market \
	"' AND n.state NOT IN ('GONE', 'FAILED'))"

/* At the end of each node that moved, its replacement was ready already. */
static void launched_before_drained(struct world *w)
{
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node o JOIN node n ON n.replaces_id = o.id AND "
			     "n.ready_us IS NOT NULL WHERE (SELECT min(e.at_us) FROM event e "
			     "WHERE e.node_id = o.id AND e.now IN ('DRAINING', 'TERMINATING')) < "
			     "n.ready_us"),
	    0);
}

static void test_a_fleet_on_demand_goes_back_to_its_floor_and_its_job_goes_on(void **state)
{
	struct world *w = *state;
	int64_t saved;

	on_demand_fleet(w, 3, "{\"on_demand_floor\":1,\"rebalance\":{\"per_hour\":1000}}");
	fleet_job(w, "{}");
	world_until_job(w, "RUNNING");
	cloud_sell_again(&w->cloud);
	world_until(w, LIMIT, "SELECT (" LIVE("on_demand") " = 1 AND " LIVE("spot") " = 2)::int");
	world_until_job(w, "RUNNING");
	/* Only the floor stays, and nothing moves any more. */
	world_for(w, 500);
	assert_int_equal(world_int(w, "SELECT " LIVE("on_demand") " + " LIVE("spot")), 3);
	assert_int_equal(world_int(w, "SELECT count(*) FROM decision WHERE kind = 'return'"), 2);
	launched_before_drained(w);
	saved = world_int(w, "SELECT count(*) FROM checkpoint WHERE state = 'COMMITTED'");
	assert_true(world_int(w, "SELECT max(epoch) FROM attempt") == 1 || saved > 0);
	world_sql(w, "UPDATE fleet SET state = 'CLOSING'; NOTIFY spot_engine");
	world_exit_all(w);
	world_check_end(w);
}

/* The size decides for a fleet that follows demand. A replacement is no node of it while the old
 * one is. A move pays itself back before the fleet expires. */
static void test_a_fleet_that_follows_demand_moves_and_knows_its_end(void **state)
{
	struct world *w = *state;
	char extra[400];

	(void)snprintf(extra, sizeof(extra),
	    "{\"nodes\":1,\"pools_min\":1,\"rebalance\":{\"per_hour\":1000},\"scaling\":{\"unit\":"
	    "\"nodes\","
	    "\"min\":2,\"max\":2,\"target\":2,\"idle_us\":3600000000,\"wait_us\":0,"
	    "\"cooldown_us\":3600000000,\"step\":0,\"headroom\":0,\"per\":1,\"expires_us\":%" PRId64
	    ",\"expires_after_us\":0,\"windows\":[]}}",
	    world_us() + 2 * SPOT_US_PER_HOUR);
	on_demand_fleet(w, 2, extra);
	cloud_sell_again(&w->cloud);
	world_until(w, LIMIT, "SELECT (" LIVE("on_demand") " = 0 AND " LIVE("spot") " = 2)::int");
	world_for(w, 500);
	assert_int_equal(world_int(w, "SELECT " LIVE("on_demand") " + " LIVE("spot")), 2);
	assert_int_equal(world_int(w, "SELECT size FROM fleet"), 2);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision WHERE kind = 'return' AND "
			     "(inputs->'move'->>'rest_us')::int8 BETWEEN 1 AND 7200000000"),
	    2);
	launched_before_drained(w);
	world_sql(w, "UPDATE fleet SET state = 'CLOSING'; NOTIFY spot_engine");
	world_check_end(w);
}

static void test_the_job_on_a_node_that_moves_goes_on_on_its_replacement(void **state)
{
	struct world *w = *state;

	on_demand_fleet(w, 1, "{\"rebalance\":{\"per_hour\":1000}}");
	fleet_job(w, "{}");
	world_until_job(w, "RUNNING");
	/* A job that waits for the fleet does not get the replacement. */
	fleet_job(w, "{}");
	cloud_sell_again(&w->cloud);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM attempt a JOIN node n ON n.id = a.node_id JOIN pool p ON p.id = "
	    "n.pool_id WHERE a.job_id = 1 AND a.epoch = 2 AND p.market = 'spot' AND "
	    "n.replaces_id = (SELECT node_id FROM attempt WHERE job_id = 1 AND epoch = 1)");
	assert_int_equal(world_int(w, "SELECT count(*) FROM attempt WHERE job_id = 2"), 0);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM notice o JOIN node r ON r.replaces_id = "
			     "o.node_id WHERE o.source = 'fleet' AND o.kind = 'maintenance' AND "
			     "o.raw = 'moves to n' || r.id || ', which is ready'"),
	    1);
	assert_true(world_int(w,
	    "SELECT restore_id IS NOT NULL FROM attempt WHERE job_id = 1 AND "
	    "epoch = 2"));
	launched_before_drained(w);
	world_sql(w, "UPDATE fleet SET state = 'CLOSING'; NOTIFY spot_engine");
	world_cancel(w);
	world_check_end(w);
}

static void test_a_replacement_that_fails_leaves_the_node_and_backs_off(void **state)
{
	struct world *w = *state;

	on_demand_fleet(w, 1, "{\"rebalance\":{\"per_hour\":1000}}");
	world_until(w, LIMIT,
	    "SELECT count(*) >= 2 FROM node WHERE replaces_id IS NOT NULL AND state = 'FAILED'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node WHERE state = 'READY' AND replaces_id IS "
			     "NULL"),
	    1);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node WHERE replaces_id IS NULL AND "
			     "state <> 'FAILED'"),
	    1);
	/* The pauses grow: the last is longer than the first. */
	world_until(w, LIMIT, "SELECT count(*) >= 4 FROM node WHERE replaces_id IS NOT NULL");
	assert_true(world_int(w,
	    "SELECT max(d) FILTER (WHERE i = 3) >= 390000 FROM (SELECT created_us - "
	    "lag(created_us) OVER (ORDER BY id) AS d, row_number() OVER (ORDER BY id) "
	    "- 1 AS i FROM node WHERE replaces_id IS NOT NULL) x"));
	world_sql(w, "UPDATE fleet SET state = 'CLOSING'; NOTIFY spot_engine");
	world_check_end(w);
}

/* A rebalancing of a fleet whose pool has become dear. */
static void dear_fleet(struct world *w, int nodes, int at_once, int64_t *ret_dear)
{
	char ready[96], extra[128];

	world_reset(w, true);
	*ret_dear = world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	(void)snprintf(extra, sizeof(extra), BUDGET, at_once);
	fleet_of(w, nodes, extra);
	(void)snprintf(ready, sizeof(ready), "SELECT count(*) = %d FROM node WHERE state = 'READY'",
	    nodes);
	world_until(w, LIMIT, ready);
	world_sql(w, "UPDATE pool_latest SET price_micros = 9000000");
	world_pool(w, "z2", "a1", "spot", 1100000);
	world_for(w, 200); /* ready for return_hold */
}

static void test_a_dry_run_shows_the_moves_and_a_real_one_begins_as_many_as_may(void **state)
{
	struct world *w = *state;
	int64_t dear;

	dear_fleet(w, 4, 2, &dear);
	world_rebalance(w, true);
	assert_int_equal(world_int(w,
			     "SELECT jsonb_array_length(outcome->'moves') FROM decision WHERE kind "
			     "= 'rebalance_request'"),
	    2);
	assert_string_equal(world_text(w,
				"SELECT min(k->>'node') || ' ' || count(*) FROM decision, "
				"jsonb_array_elements(outcome->'kept') k WHERE kind = "
				"'rebalance_request' AND k->>'why' LIKE "
				"'waits: rebalance.at_once 2 is reached; saves %'"),
	    "n3 2");
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 4);
	w->agents = false; /* nothing becomes ready */
	world_rebalance(w, false);
	world_rebalance(w, false);
	world_until(w, LIMIT, "SELECT count(*) = 6 FROM node");
	world_for(w, 300);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 6);
	assert_int_equal(world_int(w, "SELECT count(DISTINCT replaces_id) FROM node"), 2);
	w->agents = true;
	world_until(w, LIMIT,
	    "SELECT count(*) = 2 FROM node WHERE state = 'GONE' AND replaces_id IS NULL");
	world_rebalance(w, false);
	world_until(w, LIMIT,
	    "SELECT count(*) = 4 FROM node WHERE state = 'GONE' AND replaces_id IS NULL");
	world_until(w, LIMIT,
	    "SELECT count(*) = 4 FROM node n WHERE state = 'READY' AND replaces_id IS NOT NULL");
	launched_before_drained(w);
	world_rebalance(w, false);
	world_for(w, 200);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 8);
	world_sql(w, "UPDATE fleet SET state = 'CLOSING'; NOTIFY spot_engine");
	world_check_end(w);
}

static void test_a_reclaimed_node_that_moves_has_its_replacement_already(void **state)
{
	struct world *w = *state;
	int64_t dear;

	dear_fleet(w, 1, 1, &dear);
	fleet_job(w, "{}");
	world_until_job(w, "RUNNING");
	w->agents = false;
	world_rebalance(w, false);
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE state = 'BOOTING'");
	cloud_reclaim(&w->cloud, 0);
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE id = 1 AND state = 'GONE'");
	world_for(w, 300);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 2);
	w->agents = true;
	world_until(w, LIMIT,
	    "SELECT count(*) FROM attempt WHERE job_id = 1 AND epoch = 2 AND node_id = 2");
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 2);
	world_sql(w, "UPDATE fleet SET state = 'CLOSING'; NOTIFY spot_engine");
	world_exit_all(w);
	world_check_end(w);
}

static void test_a_kill_at_any_time_of_a_move_leaves_the_fleet_whole(void **state)
{
	struct world *w = *state;
	int64_t dear;

	dear_fleet(w, 2, 2, &dear);
	world_ask_rebalance(w, false);
	for (int i = 0; i < 25; i++) {
		world_for(w, 15 + 4 * i);
		world_kill(w);
		assert_true(
		    world_int(w,
			"SELECT count(*) FROM node n WHERE state IN ('WANTED', 'LAUNCHING', "
			"'UNKNOWN', 'BOOTING', 'READY') AND NOT node_stands_in(n)") == 2);
		world_start(w);
	}
	world_until(w, LIMIT,
	    "SELECT (count(*) = 2 AND count(*) FILTER (WHERE state = 'READY' AND replaces_id IS "
	    "NOT NULL) = 2)::int FROM node WHERE state NOT IN ('GONE', 'FAILED')");
	assert_int_equal(cloud_live(&w->cloud), 2);
	world_sql(w, "UPDATE fleet SET state = 'CLOSING'; NOTIFY spot_engine");
	world_check_end(w);
}

static void test_a_job_that_saves_nothing_keeps_its_node(void **state)
{
	struct world *w = *state;
	int64_t dear;

	dear_fleet(w, 1, 1, &dear);
	fleet_job(w, "{\"checkpoint\":{}}");
	world_until_job(w, "RUNNING");
	world_rebalance(w, false);
	assert_string_equal(world_text(w,
				"SELECT k->>'why' FROM decision, "
				"jsonb_array_elements(outcome->'kept') k WHERE kind = "
				"'rebalance_request' AND k ? 'node'"),
	    "its job j1 saves nothing: a move would throw away its work");
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 1);
	world_sql(w, "UPDATE fleet SET state = 'CLOSING'; NOTIFY spot_engine");
	world_exit_all(w);
	world_check_end(w);
}

static void test_a_fleet_that_shrinks_gives_back_a_node_and_its_replacement(void **state)
{
	struct world *w = *state;
	int64_t dear;

	dear_fleet(w, 2, 1, &dear);
	w->agents = false;
	world_rebalance(w, false);
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE state = 'BOOTING'");
	world_sql(w,
	    "UPDATE fleet SET spec = jsonb_set(spec, '{nodes}', '1'), version = version + 1; "
	    "NOTIFY spot_engine");
	world_until(w, LIMIT,
	    "SELECT count(*) = 1 FROM node WHERE state NOT IN ('GONE', 'FAILED')");
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE state = 'READY'"), 1);
	world_sql(w, "UPDATE fleet SET state = 'CLOSING'; NOTIFY spot_engine");
	world_check_end(w);
}

static void test_a_node_of_a_block_that_ends_drains_once_another_is_ready(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "reserved", 1000000);
	w->cloud.block_ends_us = world_us() + 24 * SPOT_US_PER_HOUR;
	w->conf.supply.changeover_us = 20 * SPOT_US_PER_S;
	world_start(w);
	fleet_of(w, 2, "{\"pools_min\":1,\"rebalance\":{\"at_once\":1}}");
	fleet_job(w, "{}");
	world_until_job(w, "RUNNING");
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM node WHERE state = 'READY'");
	world_pool(w, "z2", "a1", "spot", 2000000);
	world_for(w, 500);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 2);
	/* The end comes near: two replacements at once, and then the drain. */
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM node WHERE ends_us > 0");
	w->cloud.block_ends_us = world_us() + rank_leave_us(&w->conf.rank, 0) + 20 * SPOT_US_PER_S;
	world_until(w, LIMIT,
	    "SELECT (count(*) = 2 AND count(*) FILTER (WHERE state = 'READY' AND replaces_id IS "
	    "NOT NULL) = 2)::int FROM node WHERE state NOT IN ('GONE', 'FAILED')");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node n JOIN pool p ON p.id = n.pool_id WHERE "
			     "n.state = 'READY' AND p.market = 'spot'"),
	    2);
	launched_before_drained(w);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision WHERE kind = 'rebalance' AND why LIKE "
			     "'its pool ends in %'"),
	    2);
	world_until(w, LIMIT, "SELECT count(*) FROM attempt WHERE job_id = 1 AND epoch = 2");
	assert_true(world_int(w,
	    "SELECT restore_id IS NOT NULL FROM attempt WHERE job_id = 1 AND epoch = 2"));
	world_sql(w, "UPDATE fleet SET state = 'CLOSING'; NOTIFY spot_engine");
	world_exit_all(w);
	world_check_end(w);
}

/* The cooldowns are so short that spot is always worth a try. */
static void test_a_fleet_gives_up_spot_that_is_refused_for_longer_than_its_patience(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->conf.cool_min_us = w->conf.cool_max_us = 1;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z1", "a1", "on_demand", 3000000);
	cloud_sell_out(&w->cloud, "z1/a1/spot");
	world_start(w);
	fleet_of(w, 2, "{\"pools_min\":1,\"rebalance\":{\"enabled\":false}}");
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM node WHERE state = 'READY'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) > 0 FROM node n JOIN decision d ON d.node_id = n.id "
			     "WHERE n.state = 'READY' AND d.why LIKE 'no spot for %fail over to "
			     "on-demand; %' AND n.created_us - 200000 >= (SELECT min(created_us) "
			     "FROM node WHERE state = 'FAILED')"),
	    1);
	world_sql(w, "UPDATE fleet SET state = 'CLOSING'; NOTIFY spot_engine");
	world_check_end(w);
}

/* The bucket is in another region than the pool. */
static void test_the_plan_counts_the_egress_of_what_its_jobs_save(void **state)
{
	struct world *w = *state;
	const char *egress = "SELECT (plan->'pool_list'->0->>'egress_micros')::int8 FROM fleet";

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	w->conf.store_region = "r9";
	world_start(w);
	fleet_of(w, 1, "{\"pools_min\":1,\"rebalance\":{\"enabled\":false}}");
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE state = 'READY'");
	assert_int_equal(world_int(w, egress), 0);
	fleet_job(w, "{\"checkpoint\":{\"path\":\"c\",\"size_bytes\":50000000000}}");
	world_until_job(w, "RUNNING");
	world_sql(w,
	    "UPDATE fleet SET spec = jsonb_set(spec, '{nodes}', '2'), version = version + 1; "
	    "NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM node WHERE state = 'READY'");
	world_until(w, LIMIT,
	    "SELECT ((plan->'pool_list'->0->>'egress_micros')::int8 > 0 AND "
	    "plan->'pool_list'->0->'work_micros' > plan->'pool_list'->0->'egress_micros')::int "
	    "FROM fleet");
	world_sql(w, "UPDATE fleet SET state = 'CLOSING'; NOTIFY spot_engine");
	world_exit_all(w);
	world_check_end(w);
}

#define T(f) cmocka_unit_test(f)
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(test_a_fleet_on_demand_goes_back_to_its_floor_and_its_job_goes_on),
		T(test_a_fleet_that_follows_demand_moves_and_knows_its_end),
		T(test_the_job_on_a_node_that_moves_goes_on_on_its_replacement),
		T(test_a_replacement_that_fails_leaves_the_node_and_backs_off),
		T(test_a_dry_run_shows_the_moves_and_a_real_one_begins_as_many_as_may),
		T(test_a_reclaimed_node_that_moves_has_its_replacement_already),
		T(test_a_kill_at_any_time_of_a_move_leaves_the_fleet_whole),
		T(test_a_job_that_saves_nothing_keeps_its_node),
		T(test_a_fleet_that_shrinks_gives_back_a_node_and_its_replacement),
		T(test_a_node_of_a_block_that_ends_drains_once_another_is_ready),
		T(test_a_fleet_gives_up_spot_that_is_refused_for_longer_than_its_patience),
		T(test_the_plan_counts_the_egress_of_what_its_jobs_save),
	};

	return WORLD_TESTS(argc, argv, tests);
}
