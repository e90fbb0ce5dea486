/* Fleets whose size follows the queue, demand from outside, the schedule and idle time. */
#include "engine_world.h"

/* A scaled fleet "f" whose spans are short enough for a test. */
static struct world *scaled_world(void **state, const char *more)
{
	struct world *w = *state;

	world_reset(w, true);
	w->agents = true;
	for (int i = 0; i < 6; i++) {
		char zone[8];

		snprintf(zone, sizeof(zone), "z%d", i);
		world_pool(w, zone, "a1", "spot", 1000000 + i * 10000);
	}
	world_sql(w,
	    "INSERT INTO fleet (name, owner, team, project, spec, state, created_us, updated_us)"
	    " VALUES ('f', 'me', 'ml', 'p', jsonb_build_object('nodes', 0, 'asks', "
	    "'[{\"gpus\":[{\"gpu\":\"A100\",\"milli\":1000}]}]'::jsonb, 'scaling', "
	    "'{\"unit\":\"nodes\",\"min\":0,\"max\":4,\"target\":0,\"idle_us\":300000,"
	    "\"wait_us\":200000,\"cooldown_us\":200000}'::jsonb || '%s'::jsonb), 'ACTIVE', 1, 1)",
	    more);
	world_start(w);
	return w;
}

static void jobs_submit(struct world *w, int n)
{
	for (int i = 0; i < n; i++) {
		world_sql(w, "BEGIN");
		(void)world_job(w, "{}");
		world_sql(w,
		    "UPDATE job SET fleet_id = 1 WHERE state = 'QUEUED'; COMMIT; NOTIFY "
		    "spot_engine");
	}
}

static void test_the_queue_makes_it_grow_and_idle_nodes_go_to_zero(void **state)
{
	struct world *w = scaled_world(state, "{}");

	world_until(w, LIMIT, "SELECT count(*) FROM fleet WHERE size = 0 AND size_rule = 'first'");
	jobs_submit(w, 3);
	world_until(w, LIMIT, "SELECT count(*) FROM fleet WHERE size = 3 AND size_rule = 'queue'");
	world_until(w, LIMIT, "SELECT count(*) = 3 FROM job WHERE state = 'RUNNING'");
	world_for(w, 1000);
	/* While all work it neither grows nor shrinks. */
	assert_int_equal(world_int(w, "SELECT size FROM fleet"), 3);
	assert_int_equal(w->cloud.launches, 3);
	world_job_exits(w, 2);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM fleet WHERE size = 2 AND size_why LIKE '2 nodes with work%'");
	world_until(w, LIMIT,
	    "SELECT count(*) = 2 FROM node WHERE state NOT IN ('GONE', 'FAILED')");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 1"),
	    2);
	world_exit_all(w);
	world_until(w, LIMIT, "SELECT count(*) FROM fleet WHERE size = 0 AND size_slack_us > 0");
	world_until(w, LIMIT,
	    "SELECT count(*) = 0 FROM node WHERE state NOT IN ('GONE', 'FAILED')");
	assert_int_equal(w->cloud.launches, 3);
	/* A job that gets a node is counted once: never more than there are jobs. */
	assert_int_equal(world_int(w, "SELECT max(now::int) FROM event WHERE event = 'SIZE'"), 3);
	/* Each change is an event and a decision with its figures. */
	assert_true(
	    world_int(w, "SELECT count(*) FROM event WHERE entity = 'fleet' AND event = 'SIZE'") >=
	    4);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision WHERE kind = 'fleet_size' AND "
			     "inputs->>'queue_jobs' = '3' AND outcome->>'size' = '3'"),
	    1);
	world_check_end(w);
}

static void test_the_floor_on_demand_goes_when_the_size_is_zero(void **state)
{
	struct world *w = scaled_world(state, "{}");

	world_pool(w, "z6", "a1", "on_demand", 2000000);
	world_sql(w,
	    "UPDATE fleet SET spec = jsonb_set(spec, '{on_demand_floor}', '1'); NOTIFY "
	    "spot_engine");
	jobs_submit(w, 2);
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM job WHERE state = 'RUNNING'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt WHERE market = 'on_demand' AND ended_us "
			     "IS NULL"),
	    1);
	world_exit_all(w);
	world_until(w, LIMIT,
	    "SELECT count(*) = 0 FROM node WHERE state NOT IN ('GONE', 'FAILED')");
	world_check_end(w);
}

/* A job of another GPU, or of more GPUs than a node of the fleet has, is no demand. */
static void test_a_job_whose_gpu_does_not_suit_makes_no_fleet_grow(void **state)
{
	static const char other[] = "{\"asks\":[{\"gpus\":[{\"gpu\":\"%s\",\"milli\":%d}]}]}";
	struct world *w = scaled_world(state, "{}");
	char extra[96];

	(void)snprintf(extra, sizeof(extra), other, "H100", 1000);
	world_sql(w, "BEGIN");
	(void)world_job(w, extra);
	(void)snprintf(extra, sizeof(extra), other, "A100", 8000);
	(void)world_job(w, extra);
	world_sql(w, "UPDATE job SET fleet_id = 1; COMMIT; NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) FROM fleet WHERE size = 0 AND size_rule = 'first'");
	world_for(w, 1000);
	assert_int_equal(world_int(w, "SELECT size FROM fleet"), 0);
	(void)snprintf(extra, sizeof(extra), other, "A100-80GB", 1000);
	world_sql(w, "BEGIN");
	(void)world_job(w, extra);
	world_sql(w, "UPDATE job SET fleet_id = 1; COMMIT; NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) FROM fleet WHERE size = 1 AND size_rule = 'queue'");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE id = 3 AND state = 'RUNNING'");
	world_cancel(w);
	world_check_end(w);
}

/* A fleet of two GPUs in all takes one job of two, or two of one. */
static void test_a_fleet_that_counts_gpus_has_room_by_gpus(void **state)
{
	struct world *w = scaled_world(state, "{\"unit\":\"gpus\",\"max\":2}");

	world_sql(w,
	    "UPDATE pool SET gpu_milli = 2000; UPDATE fleet SET spec = jsonb_set(spec, "
	    "'{asks,0,gpus,0,milli}', '2000'); BEGIN");
	for (int i = 0; i < 2; i++) {
		(void)world_job(w,
		    "{\"fleet\":\"any\",\"asks\":[{\"gpus\":[{\"gpu\":\"A100\",\"milli\":2000}]}]"
		    "}");
	}
	world_sql(w, "UPDATE job SET fleet_any = true; COMMIT; NOTIFY spot_engine");
	world_until(w, LIMIT,
	    "SELECT count(*) = 1 FROM job WHERE state = 'RUNNING' AND fleet_id = 1");
	world_for(w, 600);
	assert_int_equal(world_int(w, "SELECT count(*) FROM job WHERE fleet_id = 1"), 1);
	assert_int_equal(world_int(w, "SELECT size FROM fleet"), 2);
	world_cancel(w);
	world_check_end(w);
}

/* A fleet of the work of ten T4 in all: an A100 does that of nearly five. Two jobs fill it, and a
 * third takes the node that rounds the size up. */
static void test_a_fleet_that_counts_the_work_of_a_gpu_has_room_by_work(void **state)
{
	struct world *w = scaled_world(state, "{\"unit\":\"gpus\",\"max\":10}");

	world_sql(w,
	    "UPDATE fleet SET spec = jsonb_set(spec, '{gpus_of}', '\"T4\"'), version = version + "
	    "1; "
	    "BEGIN");
	for (int i = 0; i < 8; i++) {
		(void)world_job(w,
		    "{\"fleet\":\"any\",\"asks\":[{\"gpus\":[{\"gpu\":\"A100\",\"milli\":1000}]}]"
		    "}");
	}
	world_sql(w, "UPDATE job SET fleet_any = true; COMMIT; NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) >= 2 FROM job WHERE state = 'RUNNING'");
	world_until(w, LIMIT,
	    "SELECT count(*) = 0 FROM node WHERE state NOT IN ('READY', 'GONE', 'FAILED')");
	world_for(w, 600);
	assert_in_range(world_int(w, "SELECT count(*) FROM job WHERE fleet_id = 1"), 2, 3);
	/* The queue is work, too: two jobs of the first pass want all of it at once. */
	assert_int_equal(world_int(w, "SELECT size FROM fleet"), 10);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM event WHERE event = 'SIZE' AND now::int BETWEEN "
			     "1 AND 9"),
	    0);
	/* Its nodes are shown in that unit: each is about 4.8 T4. */
	world_until(w, LIMIT,
	    "SELECT ((fleet_size_doc(f)->>'have')::float8 BETWEEN 4.0 * n AND 5.0 * n)::int FROM "
	    "fleet f, (SELECT count(*) AS n FROM node WHERE state = 'READY') x WHERE n > 0");
	world_cancel(w);
	world_check_end(w);
}

static void test_max_bounds_what_the_queue_asks_for(void **state)
{
	struct world *w = scaled_world(state, "{}");

	jobs_submit(w, 9);
	world_until(w, LIMIT, "SELECT count(*) = 4 FROM job WHERE state = 'RUNNING'");
	world_for(w, 600);
	assert_int_equal(world_int(w, "SELECT size FROM fleet"), 4);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 4);
	world_until(w, LIMIT, "SELECT count(*) FROM fleet WHERE size_why LIKE '%at most max 4'");
	world_cancel(w);
	world_until(w, LIMIT,
	    "SELECT count(*) = 0 FROM node WHERE state NOT IN ('GONE', 'FAILED')");
}

/* min nodes stay, and what is above goes in the order of its idle time. */
static void test_the_node_that_idles_longest_goes_first(void **state)
{
	struct world *w = scaled_world(state,
	    "{\"min\":1,\"target\":3,\"idle_us\":1500000,\"cooldown_us\":60000000}");

	world_until(w, LIMIT, "SELECT count(*) = 3 FROM node WHERE state = 'READY'");
	/* The dearest has idled for the shortest: by price it would go first. */
	world_sql(w,
	    "UPDATE node SET idle_since_us = x.at, ready_us = 1 FROM (SELECT id, %" PRId64
	    " - rank() OVER (ORDER BY price_micros DESC) * 60000000 AS at FROM node) x WHERE "
	    "x.id = node.id; UPDATE fleet SET size_slack_us = 1; NOTIFY spot_engine",
	    world_us() + INT64_C(60000000));
	world_until(w, LIMIT, "SELECT count(*) = 1 FROM node WHERE state = 'READY'");
	assert_int_equal(world_int(w,
			     "SELECT (price_micros = (SELECT max(price_micros) FROM node))::int "
			     "FROM node WHERE state = 'READY'"),
	    1);
	world_for(w, 700);
	assert_int_equal(world_int(w, "SELECT size FROM fleet"), 1);
	world_sql(w, "UPDATE fleet SET state = 'CLOSING'; NOTIFY spot_engine");
	world_check_end(w);
}

static void test_demand_from_outside_holds_for_its_time(void **state)
{
	struct world *w = scaled_world(state, "{\"per\":2}");

	world_sql(w,
	    "UPDATE fleet SET demand = 1, demand_unit = 'replicas', demand_by = 'vllm', "
	    "demand_until_us = %" PRId64 ", demand_version = 1; NOTIFY spot_engine",
	    world_us() + INT64_C(4000000));
	world_until(w, LIMIT, "SELECT count(*) FROM fleet WHERE size = 2 AND size_rule = 'demand'");
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM node WHERE state = 'READY'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM fleet WHERE size_why LIKE '%demand of 1 "
			     "replicas by vllm%'"),
	    1);
	world_until(w, LIMIT,
	    "SELECT count(*) = 0 FROM node WHERE state NOT IN ('GONE', 'FAILED')");
	assert_true(world_us() >= world_int(w, "SELECT demand_until_us FROM fleet"));
	assert_int_equal(w->cloud.launches, 2);
}

static int minute_now(void)
{
	return (int)(world_us() / INT64_C(60000000) % 1440);
}

static void test_a_schedule_opens_closes_and_an_expiry_ends_it(void **state)
{
	int minute = minute_now();
	char more[256];
	struct world *w;

	/* Open for the next twelve hours. */
	snprintf(more, sizeof(more),
	    "{\"min\":1,\"target\":2,\"cooldown_us\":60000000,\"windows\":[{\"days\":127,\"up_"
	    "min\":%d,\"down_min\":%d,"
	    "\"tz\":"
	    "\"UTC\"}]}",
	    (minute + 1439) % 1440, (minute + 720) % 1440 + 1);
	w = scaled_world(state, more);
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM node WHERE state = 'READY'");
	jobs_submit(w, 1);
	world_until(w, LIMIT, "SELECT count(*) = 1 FROM job WHERE state = 'RUNNING'");
	/* The window moves to the other half of the day: idle nodes go at once, below min. */
	world_sql(w,
	    "UPDATE fleet SET spec = jsonb_set(jsonb_set(spec, '{scaling,windows,0,up_min}', "
	    "'%d'), "
	    "'{scaling,windows,0,down_min}', '%d'), version = version + 1; NOTIFY spot_engine",
	    (minute + 600) % 1440, (minute + 1200) % 1440 + 1);
	world_until(w, LIMIT, "SELECT count(*) FROM fleet WHERE size = 0 AND NOT size_open");
	world_until(w, LIMIT,
	    "SELECT count(*) = 1 FROM node WHERE state NOT IN ('GONE', 'FAILED')");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 1"),
	    1);
	assert_int_equal(world_int(w, "SELECT count(*) FROM fleet WHERE size_next_us > 0"), 1);
	world_exit_all(w);
	world_until(w, LIMIT,
	    "SELECT count(*) = 0 FROM node WHERE state NOT IN ('GONE', 'FAILED')");
	assert_int_equal(world_int(w, "SELECT count(*) FROM fleet WHERE state = 'ACTIVE'"), 1);
	world_sql(w,
	    "UPDATE fleet SET spec = jsonb_set(spec, '{scaling,expires_us}', '5'); NOTIFY "
	    "spot_engine");
	world_until(w, LIMIT, "SELECT count(*) FROM fleet WHERE state = 'CLOSED'");
	assert_int_equal(world_int(w, "SELECT count(*) FROM event WHERE event = 'EXPIRED'"), 1);
	world_check_end(w);
}

/* A replacement is no node of the fleet while the node that moves counts. One that is not launched
 * yet would go back at once, and the size would fall with it while the node idles for an hour. */
static void test_a_replacement_counts_only_once_the_other_node_leaves(void **state)
{
	struct world *w =
	    scaled_world(state, "{\"target\":1,\"idle_us\":3600000000,\"cooldown_us\":3600000000}");

	world_until(w, LIMIT,
	    "SELECT count(*) FROM fleet WHERE size_slack_us > 0 AND EXISTS (SELECT FROM node "
	    "WHERE state = 'READY')");
	world_kill(w);
	/* The intent of a move, held back until the size was decided with it. */
	world_sql(w,
	    "INSERT INTO node (pool_id, fleet_id, replaces_id, state, state_us, token, name, "
	    "price_micros, created_us, why, next_act_us) SELECT 2, fleet_id, id, 'WANTED', "
	    "state_us, 'held', 'held', 1010000, created_us, 'moves', %" PRId64 " FROM node",
	    world_us() + INT64_C(3600000000));
	/* Without its words the size is noted at the next read. */
	world_sql(w,
	    "UPDATE fleet SET size_why = '', size_look_us = 1, spec = jsonb_set(spec, "
	    "'{scaling,cooldown_us}', '0')");
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM fleet WHERE size_look_us > 1");
	assert_int_equal(world_int(w, "SELECT size FROM fleet"), 1);
	world_sql(w, "UPDATE node SET next_act_us = 0; NOTIFY spot_engine");
	world_until(w, LIMIT,
	    "SELECT (count(*) = 1 AND min(replaces_id) = 1 AND min(state::text) = 'READY')::int "
	    "FROM node WHERE state NOT IN ('GONE', 'FAILED')");
	assert_int_equal(world_int(w, "SELECT count(*) FROM event WHERE event = 'SIZE'"), 1);
	world_sql(w, "UPDATE fleet SET state = 'CLOSING'; NOTIFY spot_engine");
	world_check_end(w);
}

/* A leader that dies leaves the row. The next goes on from it and launches nothing twice. */
static void test_the_next_leader_goes_on_with_the_size(void **state)
{
	struct world *w = scaled_world(state, "{\"idle_us\":2000000}");

	jobs_submit(w, 2);
	world_until(w, LIMIT, "SELECT count(*) FROM fleet WHERE size = 2");
	world_kill(w);
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM job WHERE state = 'RUNNING'");
	world_kill(w);
	world_start(w);
	world_for(w, 500);
	assert_int_equal(world_int(w, "SELECT size FROM fleet"), 2);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 2);
	world_exit_all(w);
	world_until(w, LIMIT, "SELECT count(*) FROM fleet WHERE size = 0");
	world_check_end(w);
}

/* A job of any fleet waits until one of its team has room, and leaves one that closes. */
static void test_a_job_takes_any_fleet_of_its_team_with_room(void **state)
{
	struct world *w = scaled_world(state, "{\"max\":1}");

	world_sql(w, "UPDATE fleet SET team = 'other'; BEGIN");
	(void)world_job(w, "{\"fleet\":\"any\"}");
	(void)world_job(w, "{\"fleet\":\"any\"}");
	world_sql(w, "UPDATE job SET fleet_any = true; COMMIT; NOTIFY spot_engine");
	world_until(w, LIMIT,
	    "SELECT count(*) = 2 FROM job WHERE why = 'no fleet of its team has room'");
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 0);
	world_sql(w, "UPDATE fleet SET team = (SELECT min(team) FROM job); NOTIFY spot_engine");
	world_until(w, LIMIT,
	    "SELECT count(*) = 1 FROM job WHERE state = 'RUNNING' AND fleet_id = 1");
	assert_int_equal(world_int(w, "SELECT count(*) FROM event WHERE event = 'FLEET'"), 1);
	world_for(w, 600);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 1);
	/* Once that fleet has room the second one goes there, and leaves it when it closes. */
	world_sql(w,
	    "UPDATE fleet SET spec = jsonb_set(spec, '{scaling,max}', '2'), state = 'CLOSING', "
	    "version = version + 1; UPDATE job SET fleet_id = 1 WHERE state = 'QUEUED'; NOTIFY "
	    "spot_engine");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job WHERE state = 'QUEUED' AND fleet_id IS NULL");
	world_exit_all(w);
	world_until(w, LIMIT, "SELECT count(*) FROM fleet WHERE state = 'CLOSED'");
	assert_int_equal(world_int(w, "SELECT count(*) FROM job WHERE state = 'QUEUED'"), 1);
	world_cancel(w);
	world_check_end(w);
}

#define T(f) cmocka_unit_test(f)
/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(test_the_queue_makes_it_grow_and_idle_nodes_go_to_zero),
		T(test_the_floor_on_demand_goes_when_the_size_is_zero),
		T(test_max_bounds_what_the_queue_asks_for),
		T(test_a_job_whose_gpu_does_not_suit_makes_no_fleet_grow),
		T(test_a_fleet_that_counts_gpus_has_room_by_gpus),
		T(test_a_fleet_that_counts_the_work_of_a_gpu_has_room_by_work),
		T(test_the_node_that_idles_longest_goes_first),
		T(test_demand_from_outside_holds_for_its_time),
		T(test_a_schedule_opens_closes_and_an_expiry_ends_it),
		T(test_a_replacement_counts_only_once_the_other_node_leaves),
		T(test_the_next_leader_goes_on_with_the_size),
		T(test_a_job_takes_any_fleet_of_its_team_with_room),
	};

	return WORLD_TESTS(argc, argv, tests);
}
