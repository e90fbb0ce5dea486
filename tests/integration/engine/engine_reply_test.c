/* Launches with a lost, late or ambiguous reply: one machine, never two. */
#include "engine_world.h"

static void test_a_lost_reply_is_found_by_its_token_and_not_launched_twice(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	w->cloud.lose_replies = 1;
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	assert_int_equal(w->cloud.launches, 1);
	assert_int_equal(w->cloud.n, 1);
	assert_string_equal(world_text(w,
				"SELECT string_agg(event, ' ' ORDER BY id) FROM event WHERE entity "
				"= 'node' AND event NOT IN ('SUSPECTED', 'HEALTHY')"),
	    "PLACE CLAIMED AMBIGUOUS FOUND ENROLLED");
	world_finish(w, 1);
}

static void test_a_launch_that_never_arrived_is_repeated_with_its_token(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	w->conf.launch_timeout_us = 10 * SPOT_US_PER_S; /* no other repeat than that */
	w->cloud.lose_launches = 1;
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	assert_int_equal(w->cloud.launches, 2);
	assert_int_equal(w->cloud.n, 1);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 1);
	world_finish(w, 1);
}

/* A launch with a lost reply, and no list shows its machine. */
static void hidden_launch(struct world *w, bool dies)
{
	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	w->cloud.lose_replies = 1;
	w->cloud.dies_unheard = dies;
	w->cloud.hide = true;
	world_start(w);
	world_job(w, "{}");
}

static void test_a_repeat_of_a_hidden_launch_gives_the_same_instance(void **state)
{
	struct world *w = *state;

	hidden_launch(w, false);
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE state IN ('BOOTING', 'READY')");
	w->cloud.hide = false;
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	assert_int_equal(w->cloud.n, 1);
	assert_true(w->cloud.launches >= 2);
	world_finish(w, 1);
}

/* An ended instance of the token is no refusal; its life is billed. */
static void test_a_repeat_that_meets_the_end_of_its_instance_is_looked_up(void **state)
{
	struct world *w = *state;

	hidden_launch(w, true);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE id = 1 AND state = 'UNKNOWN' AND last_error LIKE 'its "
	    "token is spent: %gone'");
	w->cloud.hide = false;
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE id = 1 AND state = 'GONE' AND ref = 'i-1'");
	assert_string_equal(world_text(w,
				"SELECT string_agg(event, ' ' ORDER BY id) FROM event WHERE entity "
				"= 'node' AND node_id = 1"
				" AND event IN ('RESEND', 'REFUSED', 'FOUND', 'VOID')"),
	    "RESEND FOUND");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node n WHERE id = 1 AND ended_us - launched_us ="
	    " (SELECT sum(to_us - from_us) FROM ledger l WHERE l.node_id = 1 AND kind IN ('boot', "
	    "'idle'))");
	assert_int_equal(w->cloud.n, 2);
	world_finish(w, 1);
}

/* The simulation found it (seed 158973): a repeat that was refused for the credentials tells
 * nothing of the first call. */
static void test_a_repeat_that_is_denied_is_looked_up(void **state)
{
	struct world *w = *state;

	hidden_launch(w, false);
	w->cloud.denies = 1;
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE id = 1 AND state = 'UNKNOWN' AND last_error LIKE 'its "
	    "repeat was refused: %d?nied'");
	w->cloud.hide = false;
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	assert_string_equal(world_text(w,
				"SELECT string_agg(event, ' ' ORDER BY id) FROM event WHERE entity "
				"= 'node' AND node_id = 1"
				" AND event IN ('RESEND', 'REFUSED', 'FOUND', 'VOID')"),
	    "RESEND FOUND");
	assert_true(w->cloud.n == 1 && w->cloud.launches == 2);
	world_finish(w, 1);
}

static void test_without_tokens_an_ambiguous_launch_is_never_sent_again(void **state)
{
	struct world *w = *state;

	world_reset(w, false);
	world_pool(w, "z1", "a1", "on_demand", 1000000);
	w->conf.launch_timeout_us = 10 * SPOT_US_PER_S;
	w->cloud.lose_launches = 1;
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	assert_int_equal(
	    world_int(w, "SELECT count(*) FROM node WHERE state = 'FAILED' AND end_cause = 'void'"),
	    1);
	assert_int_equal(world_int(w, "SELECT count(DISTINCT token) FROM node"), 2);
	assert_int_equal(w->cloud.launches, 2);
	/* Void only after the list lag. */
	assert_true(
	    world_int(w, "SELECT ended_us - launch_sent_us FROM node WHERE end_cause = 'void'") >=
	    200000);
	world_finish(w, 1);
}

static void test_a_throttled_launch_waits_and_keeps_its_row(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	w->cloud.throttle = 1;
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 1);
	assert_int_equal(w->cloud.n, 1);
	world_finish(w, 1);
}

#define T(f) cmocka_unit_test(f)
/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(test_a_lost_reply_is_found_by_its_token_and_not_launched_twice),
		T(test_a_launch_that_never_arrived_is_repeated_with_its_token),
		T(test_a_repeat_of_a_hidden_launch_gives_the_same_instance),
		T(test_a_repeat_that_meets_the_end_of_its_instance_is_looked_up),
		T(test_a_repeat_that_is_denied_is_looked_up),
		T(test_without_tokens_an_ambiguous_launch_is_never_sent_again),
		T(test_a_throttled_launch_waits_and_keeps_its_row),
	};

	if (argc > 1) {
		cmocka_set_test_filter(argv[1]);
	}
	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
