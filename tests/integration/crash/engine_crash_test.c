/*
 * The engine is killed at random turns during the whole story: sold-out pools, lost replies, a
 * notice, a lost node, on-demand and back. At every moment: no launch twice, nothing left over,
 * the job finishes, and every microsecond of every node is billed once. Seeds are fixed so that a
 * failure can be repeated; an argument runs one seed.
 */
#include "engine_killer.h"

static void tell_story(struct world *w, uint64_t seed, const void *how)
{
	const bool *tokens = how;
	struct killer k;

	killer_begin(&k, w, seed, *tokens, 200000);
	killer_trouble(&k);
	world_start(w);
	(void)world_job(w, "{}");
	killer_notice(&k, 0);
	cloud_sell_out(&w->cloud, "z1/a1/spot");
	cloud_sell_out(&w->cloud, "z2/a1/spot");
	for (size_t i = 0; i < w->cloud.n; i++) {
		if (w->cloud.list[i].market == SPOT_MARKET_SPOT &&
		    w->cloud.list[i].state == SPOT_INSTANCE_RUNNING) {
			cloud_reclaim(&w->cloud, i);
		}
	}
	killer_until(&k, "on demand",
	    "SELECT count(*) FROM job j JOIN attempt a ON a.job_id = j.id AND a.epoch = j.epoch"
	    " WHERE j.state = 'RUNNING' AND a.market = 'on_demand' AND a.ended_us IS NULL");
	cloud_sell_again(&w->cloud);
	world_sql(w, "DELETE FROM pool_cool");
	killer_trouble(&k);
	killer_until(&k, "back on spot",
	    "SELECT count(*) FROM job j JOIN attempt a ON a.job_id = j.id AND a.epoch = j.epoch"
	    " WHERE j.state = 'RUNNING' AND a.market = 'spot' AND a.ended_us IS NULL");
	killer_end(&k);
}

static void test_killed_anywhere_nothing_is_lost_or_doubled(void **state)
{
	static const bool tokens = true;

	killer_sweep(*state, &(struct killer_sweep){ 1, 6, tell_story, &tokens });
}

static void test_killed_anywhere_also_without_launch_tokens(void **state)
{
	static const bool tokens = false;

	killer_sweep(*state, &(struct killer_sweep){ 101, 3, tell_story, &tokens });
}

/* A fleet that comes in sets, part of one and again: each machine has one row. */
static void tell_sets(struct world *w, uint64_t seed, const void *how)
{
	struct killer k;

	(void)how;
	killer_begin(&k, w, seed, true, 150000);
	w->cloud.sets = 2 + (int)rng_below(&k.rng, 4);
	w->cloud.verifies = true;
	w->conf.list_lag_us = 500000;
	cloud_room(&w->cloud, "z1/a1/spot", 1 + rng_below(&k.rng, 4));
	killer_trouble(&k);
	world_fleet(w, 7);
	world_start(w);
	(void)world_job(w, "{}");
	killer_until(&k, "the fleet is ready",
	    "SELECT count(*) = 7 FROM node WHERE state = 'READY' AND fleet_id IS NOT NULL");
	killer_trouble(&k);
	killer_until(&k, "the job runs", "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	world_sql(w, "UPDATE fleet SET state = 'CLOSING', version = version + 1");
	killer_end(&k);
	assert_true(w->cloud.gang_launches > 1);
}

static void test_killed_anywhere_no_set_is_launched_twice(void **state)
{
	killer_sweep(*state, &(struct killer_sweep){ 201, 3, tell_sets, NULL });
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed_anywhere_nothing_is_lost_or_doubled),
		cmocka_unit_test(test_killed_anywhere_also_without_launch_tokens),
		cmocka_unit_test(test_killed_anywhere_no_set_is_launched_twice),
	};

	killer_seed(argc, argv);
	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
