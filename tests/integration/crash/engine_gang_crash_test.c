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

static void tell_story(struct world *w, uint64_t seed, const void *cloud)
{
	const struct gang_cloud *how = cloud;
	struct killer k;

	killer_begin(&k, w, seed, how->tokens, 150000);
	k.always = check_always;
	w->conf.gang_hold_us = 2000000;
	w->cloud.gangs = how->one_call;
	cloud_room(&w->cloud, "z1/a1/spot", 2 + rng_below(&k.rng, 2));
	killer_trouble(&k);
	world_start(w);
	(void)world_job(w, "{\"num_nodes\": 3}");
	killer_notice(&k, 1);
	lose_one(&k);
	killer_until(&k, "resumes again",
	    "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch >= 3");
	killer_end(&k);
	assert_int_equal(world_int(w, "SELECT count(*) FROM gang WHERE state <> 'RELEASED'"), 0);
}

static void stories_tell(struct world *w, uint64_t first, const struct gang_cloud *how)
{
	killer_sweep(w, &(struct killer_sweep){ first, 3, tell_story, how });
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

	killer_seed(argc, argv);
	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
