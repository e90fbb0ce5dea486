#include "engine_killer.h"

#include <time.h>

#define STORY_MS 90000
#define SAMPLE 6 /* every sixth story is told by default: all of them within six days */

/* Lives that end before the slowest call of a busy machine would go on for ever: those of a step
 * that takes long grow. */
static int64_t life_us(const struct killer *k, int64_t now)
{
	return k->life_us + MAX(now - k->step_us - 8 * SPOT_US_PER_S, 0) / 10;
}

static void killer_tick(struct killer *k)
{
	int64_t now = world_us();

	/* Its time is counted from when it leads: connecting takes as long as the machine is
	 * busy. */
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

void killer_until(struct killer *k, const char *what, const char *sql)
{
	int64_t end;

	k->step_us = world_us();
	end = k->step_us + STORY_MS * 1000;
	while (world_int(k->w, sql) == 0) {
		if (world_us() > end) {
			world_print(k->w);
			fail_msg("%s: not within %d ms: %s", what, STORY_MS, sql);
		}
		world_for(k->w, 1 + (int64_t)rng_below(&k->rng, 12));
		if (k->always != NULL) {
			k->always(k->w, what);
		}
		killer_tick(k);
	}
}

void killer_trouble(struct killer *k)
{
	struct cloud *c = &k->w->cloud;

	c->lose_replies += (int)rng_below(&k->rng, 2);
	c->lose_launches += (int)rng_below(&k->rng, 2);
	c->throttle += (int)rng_below(&k->rng, 2);
	c->reply_after_us = (int64_t)rng_below(&k->rng, 3) * 40000;
}

void killer_begin(struct killer *k, struct world *w, uint64_t seed, bool tokens, int64_t life_us)
{
	*k = (struct killer){ .w = w, .life_us = life_us };
	world_reset(w, tokens);
	rng_seeded_init(&k->rng, seed);
	/* a launch that was not answered in time made a machine all the same */
	w->conf.launch_timeout_us = tokens ? 400000 : 2 * SPOT_US_PER_S;
	/* Cooldowns that end before the next launch of a busy machine would have it try the same
	 * place for ever. */
	w->conf.cool_max_us = 20 * SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z2", "a1", "spot", 1200000);
	world_pool(w, "z3", "a1", "on_demand", 4000000);
}

void killer_notice(struct killer *k, int rank)
{
	killer_until(k, "runs", "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	killer_trouble(k);
	world_sql(k->w,
	    "INSERT INTO notice SELECT node_id, 'interruption', %" PRId64
	    ", 'imds', '', 1 FROM attempt WHERE ended_us IS NULL AND rank = %d"
	    " ON CONFLICT DO NOTHING",
	    world_us() + 300000, rank);
	killer_until(k, "resumes",
	    "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch >= 2");
	killer_trouble(k);
}

/* Counts the events, of those that move something, that do not begin where the one before ended. */
#define BROKEN_CHAIN(entity, moves) \
	"SELECT count(*) FROM (SELECT was, lag(now) OVER (PARTITION BY " entity "_id ORDER BY id)" \
	" AS before FROM event WHERE entity = '" entity "'" moves ") e" \
	" WHERE before IS NOT NULL AND was <> before"

static void check_rows(struct world *w)
{
	/* One machine per row that ever had one, and no row without. */
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE ref IS NOT NULL"),
	    w->cloud.n);
	assert_string_equal(world_text(w,
				"SELECT coalesce(string_agg(entity_id || ': ' || why, '; '), '')"
				" FROM event WHERE event = 'ORPHAN'"),
	    "");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM (SELECT node_id, sum(CASE WHEN reverses IS NULL"
			     " THEN to_us - from_us ELSE from_us - to_us END) AS s FROM ledger"
			     " GROUP BY 1) l JOIN node n ON n.id = l.node_id"
			     " WHERE s <> n.ended_us - n.launched_us"),
	    0);
	/* Doubts and notices are events of nodes, too, and move nothing. */
	assert_int_equal(world_int(w, BROKEN_CHAIN("node", " AND now <> ''")), 0);
	assert_int_equal(world_int(w, BROKEN_CHAIN("job", "")), 0);
}

void killer_end(struct killer *k)
{
	struct world *w = k->w;

	world_sql(w,
	    "UPDATE attempt SET phase = 'EXITED', exit_reason = 'ok', exit_code = 0,"
	    " ended_us = %" PRId64 " WHERE ended_us IS NULL AND phase = 'RUNNING'",
	    world_us());
	killer_until(k, "finishes", "SELECT count(*) FROM job WHERE state = 'SUCCEEDED'");
	killer_until(k, "nothing left",
	    "SELECT count(*) = 0 FROM node WHERE state NOT IN ('GONE', 'FAILED')");
	killer_until(k, "all billed",
	    "SELECT count(*) = 0 FROM node WHERE launched_us IS NOT NULL AND billed_to_us IS "
	    "DISTINCT FROM ended_us");
	world_check_end(w);
	assert_int_equal(cloud_doubled(&w->cloud), 0);
	assert_true(w->kills > 2);
	check_rows(w);
}

static uint64_t seed_only; /* 0: all */

void killer_seed(int argc, char **argv)
{
	int64_t seed;

	if (argc > 1 && parse_i64(argv[1], 1, INT64_MAX, &seed)) {
		seed_only = (uint64_t)seed;
	}
}

void killer_sweep(struct world *w, const struct killer_sweep *s)
{
	const char *all = getenv("SPOT_KILL_ALL");
	size_t step = all != NULL && strcmp(all, "1") == 0 ? 1 : SAMPLE;
	size_t offset = seed_only == 0 ? (size_t)(time(NULL) / 86400) % step : 0;

	if (seed_only != 0) {
		step = 1;
	}
	for (size_t i = offset; i < s->n; i += step) {
		uint64_t seed = s->first + i;

		if (seed_only == 0 || seed == seed_only) {
			fprintf(stderr, "seed %" PRIu64 " (%zu of %zu, every %zu)\n", seed, i + 1,
			    s->n, step);
			s->tell(w, seed, s->how);
		}
	}
}
