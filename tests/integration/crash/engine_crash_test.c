/*
 * The engine is killed at random turns during the whole story: sold-out pools, lost replies, a
 * notice, a lost node, on-demand and back. Whatever the moment: no launch twice, nothing left over,
 * the job finishes, and every microsecond of every node is billed once. Seeds are fixed so that a
 * failure can be repeated; an argument runs one seed.
 */
#include "engine_killer.h"

static void run_story(struct world *w, uint64_t seed, bool tokens)
{
	struct killer k = { .w = w, .life_us = 200000 };

	world_reset(w, tokens);
	rng_seeded_init(&k.rng, seed);
	/* a launch that was not sent in time made a machine all the same */
	w->conf.launch_timeout_us = tokens ? 400000 : 2 * SPOT_US_PER_S;
	/* Rests that end before the next launch of a busy machine would have it try spot for
	 * ever. */
	w->conf.cool_max_us = 20 * SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z2", "a1", "spot", 1200000);
	world_pool(w, "z3", "a1", "on_demand", 4000000);
	killer_trouble(&k);
	world_start(w);
	(void)world_job(w, "{}");
	killer_until(&k, "runs", "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	killer_trouble(&k);
	world_sql(w,
	    "INSERT INTO notice SELECT node_id, 'interruption', %" PRId64
	    ", 'imds', '', 1 FROM attempt WHERE ended_us IS NULL"
	    " ON CONFLICT DO NOTHING",
	    world_us() + 300000);
	killer_until(&k, "resumes",
	    "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch >= 2");
	killer_trouble(&k);
	cloud_sell_out(&w->cloud, "z1/a1/spot");
	cloud_sell_out(&w->cloud, "z2/a1/spot");
	for (size_t i = 0; i < w->cloud.n; i++) {
		if (w->cloud.list[i].market == SPOT_MARKET_SPOT &&
		    w->cloud.list[i].state == SPOT_INSTANCE_RUNNING) {
			w->cloud.list[i].state = SPOT_INSTANCE_GONE;
			w->cloud.list[i].cause = SPOT_END_RECLAIM;
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
	world_sql(w,
	    "UPDATE attempt SET phase = 'EXITED', exit_reason = 'ok', exit_code = 0, "
	    "ended_us = %" PRId64 " WHERE ended_us IS NULL AND phase = 'RUNNING'",
	    world_us());
	killer_until(&k, "finishes", "SELECT count(*) FROM job WHERE state = 'SUCCEEDED'");
	killer_until(&k, "nothing left",
	    "SELECT count(*) = 0 FROM node WHERE state NOT IN ('GONE', 'FAILED')");
	killer_until(&k, "all billed",
	    "SELECT count(*) = 0 FROM node WHERE launched_us IS NOT NULL AND billed_to_us IS "
	    "DISTINCT FROM ended_us");
	assert_int_equal(cloud_live(&w->cloud), 0);
	assert_int_equal(cloud_doubled(&w->cloud), 0);
	assert_true(w->kills > 2);
}

static void check_story(struct world *w)
{
	/* One machine per row that ever had one, and no row without. */
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE ref IS NOT NULL"),
	    w->cloud.n);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt WHERE ended_us IS NULL OR NOT settled"),
	    0);
	assert_int_equal(world_int(w, "SELECT count(*) FROM event WHERE event = 'ORPHAN'"), 0);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM (SELECT node_id, sum(CASE WHEN "
			     "reverses IS NULL THEN to_us - from_us"
			     " ELSE from_us - to_us END) AS s FROM ledger GROUP BY 1) l "
			     "JOIN node n ON n.id = l.node_id"
			     " WHERE s <> n.ended_us - n.launched_us"),
	    0);
	/* The events that move a node form a chain (doubts and notices move nothing): each begins
	 * where the one before ended. */
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM (SELECT was, lag(now) OVER (PARTITION BY "
			     "node_id ORDER BY "
			     "id) AS before"
			     " FROM event WHERE entity = 'node' AND now <> '') e WHERE before IS "
			     "NOT NULL AND was <> before"),
	    0);
	assert_int_equal(
	    world_int(w,
		"SELECT count(*) FROM (SELECT was, lag(now) OVER (PARTITION BY job_id ORDER BY id) "
		"AS before"
		" FROM event WHERE entity = 'job') e WHERE before IS NOT NULL AND was <> before"),
	    0);
}

static uint64_t seed_only;

static void tell_story(struct world *w, uint64_t seed, const void *how)
{
	run_story(w, seed, *(const bool *)how);
	check_story(w);
}

static void test_killed_anywhere_nothing_is_lost_or_doubled(void **state)
{
	static const bool tokens = true;

	killer_sweep(*state, &(struct killer_sweep){ 1, 6, tell_story, &tokens }, seed_only);
}

static void test_killed_anywhere_also_without_launch_tokens(void **state)
{
	static const bool tokens = false;

	killer_sweep(*state, &(struct killer_sweep){ 101, 3, tell_story, &tokens }, seed_only);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed_anywhere_nothing_is_lost_or_doubled),
		cmocka_unit_test(test_killed_anywhere_also_without_launch_tokens),
	};
	int64_t seed;

	if (argc > 1 && parse_i64(argv[1], 1, INT64_MAX, &seed)) {
		seed_only = (uint64_t)seed;
	}
	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
