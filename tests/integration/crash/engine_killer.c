#include "engine_killer.h"

#include <time.h>

#define STORY_MS 90000
#define SAMPLE 3 /* every third story is told by default */

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
			fprintf(stderr, "%s: %s\n", what,
			    world_text(k->w,
				"SELECT coalesce(string_agg(entity_id || ' ' || was || '->' || now "
				"|| ' ' || event || ': ' || why,"
				" chr(10) ORDER BY id), '') FROM event"));
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

void killer_sweep(struct world *w, const struct killer_sweep *s, uint64_t seed_only)
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
