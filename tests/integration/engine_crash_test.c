/*
 * The engine is killed at random turns during the whole story: sold-out pools, lost replies, a
 * notice, a lost node, on-demand and back. Whatever the moment: no launch twice, nothing left over,
 * the job finishes, and every microsecond of every node is billed once. Seeds are fixed so that a
 * failure can be repeated; an argument runs one seed.
 */
#include "engine_world.h"
#include "base/str.h"

#define CRASH_LIMIT 90000

struct killer {
	struct world *w;
	struct rng rng;
	int64_t next_us;
	int64_t step_us; /* since when the story waits for the same thing */
};

/* Lives that end before the slowest call of a busy machine would go on for ever: those of a step that takes long grow. */
static int64_t life_us(const struct killer *k, int64_t now)
{
	return 200000 + MAX(now - k->step_us - 8 * SPOT_US_PER_S, 0) / 10;
}

static void killer_tick(struct killer *k)
{
	int64_t now = world_us();

	/* Its time is counted from when it leads: connecting takes as long as the machine is busy.
	 */
	if (!engine_leads(k->w->engine)) {
		k->next_us = 0;
		return;
	}
	if (k->next_us == 0) {
		k->next_us = now + (int64_t)rng_below(&k->rng, (uint64_t)life_us(k, now));
	}
	if (now < k->next_us) {
		return;
	}
	world_kill(k->w);
	world_start(k->w);
	k->next_us = 0;
}

static void until(struct killer *k, const char *what, const char *sql)
{
	int64_t end;

	k->step_us = world_us();
	end = k->step_us + CRASH_LIMIT * 1000;
	while (world_int(k->w, sql) == 0) {
		if (world_us() > end) {
			fprintf(
			    stderr, "%s: %s\n", what,
			    world_text(
				k->w,
				"SELECT coalesce(string_agg(entity_id || ' ' || was || '->' || now"
				" || ' ' || event || ': ' || why, chr(10) ORDER BY id), '') FROM "
				"event"));
			fail_msg("%s: not within %d ms: %s", what, CRASH_LIMIT, sql);
		}
		world_for(k->w, 1 + (int64_t)rng_below(&k->rng, 12));
		killer_tick(k);
	}
}

/* Faults come as the seed says, all through the story. */
static void trouble(struct killer *k)
{
	struct cloud *c = &k->w->cloud;

	c->lose_replies += (int)rng_below(&k->rng, 2);
	c->lose_launches += (int)rng_below(&k->rng, 2);
	c->throttle += (int)rng_below(&k->rng, 2);
	c->reply_after_us = (int64_t)rng_below(&k->rng, 3) * 40000;
}

static void run_story(struct world *w, uint64_t seed, bool tokens)
{
	struct killer k = {.w = w};

	world_reset(w, tokens);
	rng_seeded_init(&k.rng, seed);
	w->conf.launch_timeout_us = tokens ? 400000 : 2 * SPOT_US_PER_S; /* what was not sent in time made a machine all the same */
	/* Rests that end before the next launch of a busy machine would have it try spot for ever. */
	w->conf.cool_max_us = 20 * SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z2", "a1", "spot", 1200000);
	world_pool(w, "z3", "a1", "on_demand", 4000000);
	trouble(&k);
	world_start(w);
	(void)world_job(w, "{}");
	until(&k, "runs", "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	trouble(&k);
	world_sql(w,
		  "INSERT INTO notice SELECT node_id, 'interruption', %" PRId64
		  ", 'imds', '', 1 FROM attempt WHERE ended_us IS NULL"
		  " ON CONFLICT DO NOTHING",
		  world_us() + 300000);
	until(&k, "resumes", "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch >= 2");
	trouble(&k);
	cloud_sell_out(&w->cloud, "z1/a1/spot");
	cloud_sell_out(&w->cloud, "z2/a1/spot");
	for (size_t i = 0; i < w->cloud.n; i++) {
		if (w->cloud.list[i].market == SPOT_MARKET_SPOT &&
		    w->cloud.list[i].state == SPOT_INSTANCE_RUNNING) {
			w->cloud.list[i].state = SPOT_INSTANCE_GONE;
			w->cloud.list[i].cause = SPOT_END_RECLAIM;
		}
	}
	until(&k, "on demand",
	      "SELECT count(*) FROM job j JOIN attempt a ON a.job_id = j.id AND a.epoch = j.epoch"
	      " WHERE j.state = 'RUNNING' AND a.market = 'on_demand' AND a.ended_us IS NULL");
	cloud_sell_again(&w->cloud);
	world_sql(w, "DELETE FROM pool_cool");
	trouble(&k);
	until(&k, "back on spot",
	      "SELECT count(*) FROM job j JOIN attempt a ON a.job_id = j.id AND a.epoch = j.epoch"
	      " WHERE j.state = 'RUNNING' AND a.market = 'spot' AND a.ended_us IS NULL");
	world_sql(w,
		  "UPDATE attempt SET phase = 'EXITED', exit_reason = 'ok', exit_code = 0, "
		  "ended_us = %" PRId64 " WHERE ended_us IS NULL AND phase = 'RUNNING'",
		  world_us());
	until(&k, "finishes", "SELECT count(*) FROM job WHERE state = 'SUCCEEDED'");
	until(&k, "nothing left",
	      "SELECT count(*) = 0 FROM node WHERE state NOT IN ('GONE', 'FAILED')");
	until(&k, "all billed",
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
	assert_int_equal(
	    world_int(w, "SELECT count(*) FROM attempt WHERE ended_us IS NULL OR NOT settled"), 0);
	assert_int_equal(world_int(w, "SELECT count(*) FROM event WHERE event = 'ORPHAN'"), 0);
	assert_int_equal(world_int(w, "SELECT count(*) FROM (SELECT node_id, sum(CASE WHEN "
				      "reverses IS NULL THEN to_us - from_us"
				      " ELSE from_us - to_us END) AS s FROM ledger GROUP BY 1) l "
				      "JOIN node n ON n.id = l.node_id"
				      " WHERE s <> n.ended_us - n.launched_us"),
			 0);
	/* The events that move a node form a chain (doubts and notices move nothing): each begins where the one before ended. */
	assert_int_equal(
	    world_int(
		w,
		"SELECT count(*) FROM (SELECT was, lag(now) OVER (PARTITION BY node_id ORDER BY "
		"id) AS before"
		" FROM event WHERE entity = 'node' AND now <> '') e WHERE before IS NOT NULL AND was <> before"),
	    0);
	assert_int_equal(
	    world_int(
		w,
		"SELECT count(*) FROM (SELECT was, lag(now) OVER (PARTITION BY job_id ORDER BY id) "
		"AS before"
		" FROM event WHERE entity = 'job') e WHERE before IS NOT NULL AND was <> before"),
	    0);
}

static uint64_t seed_only;

static void test_killed_anywhere_nothing_is_lost_or_doubled(void **state)
{
	for (uint64_t seed = 1; seed <= 6; seed++) {
		if (seed_only == 0 || seed == seed_only) {
			run_story(*state, seed, true);
			check_story(*state);
		}
	}
}

static void test_killed_anywhere_also_without_launch_tokens(void **state)
{
	for (uint64_t seed = 101; seed <= 103; seed++) {
		if (seed_only == 0 || seed == seed_only) {
			run_story(*state, seed, false);
			check_story(*state);
		}
	}
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
