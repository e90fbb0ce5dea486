/* Sets: equal nodes that one call launches. */
#include "engine_world.h"

/* One pool, and a fleet of so many nodes. Calls launch sets of up to most machines. */
static struct world *set_world(void **state, int most)
{
	struct world *w = *state;

	world_reset(w, true);
	w->cloud.sets = most;
	w->cloud.verifies = true;
	w->conf.lookup_again_us = 200000;
	w->conf.list_lag_us = 600000;
	world_pool(w, "z1", "a1", "on_demand", 1000000);
	return w;
}

static void all_ready(struct world *w, int nodes)
{
	char sql[128];

	snprintf(sql, sizeof(sql), "SELECT count(*) = %d FROM node WHERE state = 'READY'", nodes);
	world_until(w, LIMIT, sql);
	assert_int_equal(cloud_live(&w->cloud), nodes);
	assert_int_equal(cloud_doubled(&w->cloud), 0);
	assert_int_equal(world_int(w,
			     "SELECT count(DISTINCT ref) FROM node WHERE state = 'READY' AND "
			     "launched_us IS NOT NULL"),
	    nodes);
}

static void test_a_fleet_comes_in_sets(void **state)
{
	struct world *w = set_world(state, 4);

	world_fleet(w, 10);
	world_start(w);
	all_ready(w, 10);
	assert_int_equal(w->cloud.gang_launches, 3);
	assert_int_equal(w->cloud.launches, 0);
	assert_int_equal(world_int(w, "SELECT count(DISTINCT set_id) FROM node"), 3);
	/* Every machine has the token and the name of its set's first node. */
	for (size_t i = 0; i < w->cloud.n; i++) {
		world_sql(w,
		    "SELECT 1 / count(*) FROM node n JOIN node h ON h.id = n.set_id WHERE n.ref = "
		    "'%s' AND h.token = '%s'",
		    w->cloud.list[i].ref, w->cloud.list[i].token);
	}
}

/* A fleet of so many nodes takes so many sets and launches of one. */
static void fleet_launches(struct world *w, int nodes, int sets, int single)
{
	world_fleet(w, nodes);
	world_start(w);
	all_ready(w, nodes);
	assert_int_equal(w->cloud.gang_launches, sets);
	assert_int_equal(w->cloud.launches, single);
}

/* Sets have a bucket of their own, with one token: the others do not wait for it. */
static void test_a_few_nodes_come_one_by_one_where_sets_must_wait(void **state)
{
	struct world *w = set_world(state, 2);

	w->cloud.sets_limited = true;
	fleet_launches(w, 5, 1, 3);
}

/* All machines of a set have one token, and nothing else says whose token a caller has. */
static void test_a_cloud_that_vouches_for_nothing_takes_no_sets(void **state)
{
	struct world *w = set_world(state, 4);

	w->cloud.verifies = false;
	fleet_launches(w, 3, 0, 3);
}

static void test_a_set_whose_reply_was_lost_makes_no_machine_twice(void **state)
{
	struct world *w = set_world(state, 8);

	w->cloud.lose_replies = 1;
	world_fleet(w, 5);
	world_start(w);
	all_ready(w, 5);
	assert_int_equal(w->cloud.n, 5);
	assert_int_equal(w->cloud.gang_launches, 1);
	assert_int_equal(world_int(w, "SELECT count(*) FROM event WHERE event = 'FOUND'"), 5);
}

static void test_a_set_that_never_arrived_is_repeated_under_its_token(void **state)
{
	struct world *w = set_world(state, 8);

	w->cloud.lose_launches = 1;
	world_fleet(w, 5);
	world_start(w);
	all_ready(w, 5);
	assert_int_equal(w->cloud.gang_launches, 2);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 5);
	assert_int_equal(world_int(w, "SELECT count(DISTINCT set_id) FROM node"), 1);
}

static void test_a_throttled_set_is_made_anew(void **state)
{
	struct world *w = set_world(state, 8);

	w->cloud.throttle = 2;
	w->conf.launch_retry_us = 50000;
	world_fleet(w, 5);
	world_start(w);
	all_ready(w, 5);
	assert_int_equal(w->cloud.gang_launches, 3);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 5);
}

/* The cloud has room for three of five: the others are refused for their own reason, and go where
 * there is room. */
static void test_part_of_a_set_is_launched_and_the_rest_goes_elsewhere(void **state)
{
	struct world *w = set_world(state, 8);

	world_pool(w, "z2", "a1", "on_demand", 3000000);
	cloud_room(&w->cloud, "z1/a1/on_demand", 3);
	cloud_room(&w->cloud, "z2/a1/on_demand", 3);
	world_fleet(w, 6);
	world_start(w);
	all_ready(w, 6);
	assert_int_equal(w->cloud.n, 6);
	assert_in_range(world_int(w,
			    "SELECT count(*) FROM event WHERE event = 'RESEND' AND was = "
			    "'LAUNCHING'"),
	    1, 6);
	assert_true(world_int(w, "SELECT count(*) FROM node WHERE end_cause = 'refused'") > 0);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE end_cause = 'void'"), 0);
}

/* The look-up finds fewer than the set asked for: the others are void, and replaced after that. */
static void test_part_of_a_set_that_is_found_is_kept(void **state)
{
	struct world *w = set_world(state, 8);

	cloud_room(&w->cloud, "z1/a1/on_demand", 2);
	w->cloud.lose_replies = 1;
	world_fleet(w, 4);
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM node WHERE end_cause = 'void'");
	cloud_room(&w->cloud, "z1/a1/on_demand", 9);
	world_sql(w, "DELETE FROM pool_cool; NOTIFY spot_engine");
	all_ready(w, 4);
	assert_int_equal(w->cloud.n, 4);
}

/* Two of four are given up while the outcome is unknown. A repeat would ask for four. */
static void test_a_set_is_not_repeated_for_nodes_that_nobody_wants(void **state)
{
	struct world *w = set_world(state, 8);

	w->cloud.lose_launches = 3;
	w->conf.lookup_again_us = 1000000;
	w->conf.list_lag_us = 1500000;
	world_fleet(w, 4);
	world_start(w);
	world_until(w, LIMIT,
	    "SELECT count(*) = 4 FROM node WHERE state = 'WANTED' AND tries > 3 AND "
	    "next_act_us > 0");
	w->cloud.lose_launches = 0;
	world_sql(w,
	    "UPDATE fleet SET spec = jsonb_set(spec, '{nodes}', '2'), version = version + 1; "
	    "NOTIFY spot_engine");
	world_until(w, LIMIT,
	    "SELECT count(*) = 4 FROM node WHERE end_cause IN ('void', "
	    "'unwanted') AND state = 'FAILED'");
	all_ready(w, 2);
	assert_int_equal(w->cloud.n, 2);
}

/* A job is cancelled while the set's call is out: its machine comes, and is given back. */
static void test_a_node_given_up_in_flight_is_ended(void **state)
{
	struct world *w = set_world(state, 8);

	w->cloud.reply_after_us = 400000;
	for (int i = 0; i < 3; i++) {
		(void)world_job(w, "{}");
	}
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) = 3 FROM node WHERE state = 'LAUNCHING'");
	w->cloud.reply_after_us = 0;
	world_sql(w, "UPDATE job SET cancel_us = 1 WHERE id = 2; NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM job WHERE state = 'RUNNING'");
	assert_int_equal(w->cloud.n, 3);
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE state = 'GONE'");
	assert_int_equal(cloud_live(&w->cloud), 2);
	world_exit_all(w);
	world_empty(w);
}

/* A daemon that knows no sets led after the one that launched the set. It took the first row for a
 * launch of its own, and the machines of the others for orphans. */
static void test_rows_whose_set_has_lost_its_first_are_settled_alone(void **state)
{
	struct world *w = set_world(state, 8);

	world_fleet(w, 4);
	world_start(w);
	all_ready(w, 4);
	world_kill(w);
	for (size_t i = 1; i < 4; i++) {
		w->cloud.list[i].state = SPOT_INSTANCE_GONE;
		world_sql(w,
		    "UPDATE node SET ref = NULL, launched_us = NULL, boot_id = '', ready_us = "
		    "NULL, "
		    "enrol_used_us = NULL, next_act_us = 0, claim_until_us = 0, state = '%s' WHERE "
		    "ref = '%s'",
		    i == 3 ? "WANTED" : "UNKNOWN", w->cloud.list[i].ref);
	}
	/* One of them was launched by that daemon under its own token. */
	(void)snprintf(w->cloud.list[1].token, sizeof(w->cloud.list[1].token), "%s",
	    world_text(w, "SELECT token FROM node WHERE state = 'UNKNOWN' ORDER BY id LIMIT 1"));
	w->cloud.list[1].state = SPOT_INSTANCE_RUNNING;
	world_start(w);
	all_ready(w, 4);
	assert_int_equal(w->cloud.launches, 2);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 4);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE set_id IS NOT NULL"), 1);
}

#define T(f) cmocka_unit_test(f)
/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(test_a_fleet_comes_in_sets),
		T(test_a_few_nodes_come_one_by_one_where_sets_must_wait),
		T(test_a_cloud_that_vouches_for_nothing_takes_no_sets),
		T(test_a_set_whose_reply_was_lost_makes_no_machine_twice),
		T(test_a_set_that_never_arrived_is_repeated_under_its_token),
		T(test_a_throttled_set_is_made_anew),
		T(test_part_of_a_set_is_launched_and_the_rest_goes_elsewhere),
		T(test_part_of_a_set_that_is_found_is_kept),
		T(test_a_set_is_not_repeated_for_nodes_that_nobody_wants),
		T(test_a_node_given_up_in_flight_is_ended),
		T(test_rows_whose_set_has_lost_its_first_are_settled_alone),
	};

	return WORLD_TESTS(argc, argv, tests);
}
