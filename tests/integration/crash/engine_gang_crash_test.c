/*
 * Kills the engine at random turns while gangs are acquired, run, lose a machine and end. Each gang
 * is launched once, whole or not at all. Nothing is left over, and every microsecond of every
 * machine is billed once. Seeds are fixed; an argument runs one seed.
 */
#include "engine_killer.h"

/* At no moment two epochs live, or an epoch without all of its ranks. */
static void check_always(struct world *w, const char *what)
{
	if (world_int(w,
		"SELECT count(*) FROM (SELECT job_id FROM attempt WHERE ended_us IS NULL GROUP BY "
		"job_id"
		" HAVING count(DISTINCT epoch) > 1) x") != 0 ||
	    world_int(w,
		"SELECT count(*) FROM (SELECT a.job_id, a.epoch FROM attempt a JOIN job j ON j.id "
		"= a.job_id"
		" GROUP BY a.job_id, a.epoch, j.num_nodes HAVING count(*) <> j.num_nodes) x") !=
		0) {
		fail_msg("%s: two epochs live, or one is not whole", what);
	}
}

static void lose_one(struct killer *k)
{
	struct machine *m = cloud_by_ref(&k->w->cloud,
	    world_text(k->w,
		"SELECT n.ref FROM attempt a JOIN node n ON n.id = a.node_id"
		" WHERE a.ended_us IS NULL ORDER BY a.rank LIMIT 1"));

	if (m != NULL) { /* else the epoch is over already */
		m->state = SPOT_INSTANCE_GONE;
		m->cause = SPOT_END_RECLAIM;
	}
}

struct gang_cloud {
	bool tokens; /* launches are idempotent */
	bool one_call; /* one launch makes a whole gang */
};

static void run_story(struct world *w, uint64_t seed, const struct gang_cloud *how)
{
	bool tokens = how->tokens;
	struct killer k = { .w = w, .life_us = 150000, .always = check_always };

	world_reset(w, tokens);
	rng_seeded_init(&k.rng, seed);
	/* a launch that was not sent in time made a machine all the same */
	w->conf.launch_timeout_us = tokens ? 400000 : 2 * SPOT_US_PER_S;
	/* Rests that end before the next launch of a busy machine would have it try the same place
	 * for ever. */
	w->conf.cool_max_us = 20 * SPOT_US_PER_S;
	w->conf.gang_hold_us = 2000000;
	w->cloud.gangs = how->one_call;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z2", "a1", "spot", 1200000);
	world_pool(w, "z3", "a1", "on_demand", 4000000);
	cloud_room(&w->cloud, "z1/a1/spot", 2 + rng_below(&k.rng, 2));
	killer_trouble(&k);
	world_start(w);
	(void)world_job(w, "{\"num_nodes\": 3}");
	killer_until(&k, "runs", "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	killer_trouble(&k);
	world_sql(w,
	    "INSERT INTO notice SELECT node_id, 'interruption', %" PRId64
	    ", 'imds', '', 1 FROM attempt WHERE ended_us IS NULL AND rank = 1 ON CONFLICT DO "
	    "NOTHING",
	    world_us() + 300000);
	killer_until(&k, "resumes",
	    "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch >= 2");
	killer_trouble(&k);
	lose_one(&k);
	killer_until(&k, "resumes again",
	    "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch >= 3");
	world_sql(w,
	    "UPDATE attempt SET phase = 'EXITED', exit_reason = 'ok', exit_code = 0, ended_us = "
	    "%" PRId64 " WHERE ended_us IS NULL AND phase = 'RUNNING'",
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
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE ref IS NOT NULL"),
	    w->cloud.n);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt WHERE ended_us IS NULL OR NOT settled"),
	    0);
	assert_int_equal(world_int(w, "SELECT count(*) FROM gang WHERE state <> 'RELEASED'"), 0);
	assert_string_equal(world_text(w,
				"SELECT coalesce(string_agg(entity_id || ': ' || why, '; '), '') "
				"FROM event"
				" WHERE event = 'ORPHAN'"),
	    "");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM (SELECT node_id, sum(CASE WHEN reverses IS NULL "
			     "THEN to_us - from_us"
			     " ELSE from_us - to_us END) AS s FROM ledger GROUP BY 1) l JOIN node "
			     "n ON n.id = l.node_id"
			     " WHERE s <> n.ended_us - n.launched_us"),
	    0);
	/* Doubts and notices are events, too, and move nothing. */
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM (SELECT was, lag(now) OVER (PARTITION BY "
			     "node_id ORDER BY id) AS before"
			     " FROM event WHERE entity = 'node' AND now <> '') e WHERE before IS "
			     "NOT NULL AND was <> before"),
	    0);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM (SELECT was, lag(now) OVER (PARTITION BY job_id "
			     "ORDER BY id) AS before"
			     " FROM event WHERE entity = 'job') e WHERE before IS NOT NULL AND was "
			     "<> before"),
	    0);
}

static uint64_t seed_only;

static void tell_story(struct world *w, uint64_t seed, const void *how)
{
	run_story(w, seed, how);
	check_story(w);
}

static void stories_tell(struct world *w, uint64_t first, const struct gang_cloud *how)
{
	killer_sweep(w, &(struct killer_sweep){ first, 3, tell_story, how }, seed_only);
}

static void test_killed_anywhere_gangs_of_one_launch(void **state)
{
	stories_tell(*state, 1, &(struct gang_cloud){ .tokens = true, .one_call = true });
}

static void test_killed_anywhere_gangs_of_single_launches(void **state)
{
	stories_tell(*state, 11, &(struct gang_cloud){ .tokens = true });
}

static void test_killed_anywhere_gangs_without_launch_tokens(void **state)
{
	stories_tell(*state, 21, &(struct gang_cloud){ 0 });
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed_anywhere_gangs_of_one_launch),
		cmocka_unit_test(test_killed_anywhere_gangs_of_single_launches),
		cmocka_unit_test(test_killed_anywhere_gangs_without_launch_tokens),
	};
	int64_t seed;

	if (argc > 1 && parse_i64(argv[1], 1, INT64_MAX, &seed)) {
		seed_only = (uint64_t)seed;
	}
	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
