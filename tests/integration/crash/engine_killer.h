/* Kills the engine of a world at random turns while a story is told, and makes trouble at its
 * cloud; all by one seed. */
#ifndef ENGINE_KILLER_H
#define ENGINE_KILLER_H

#include "engine_world.h"
#include "base/text/str.h"

struct killer {
	struct world *w;
	struct rng rng;
	int64_t life_us; /* a life ends within this, counted from when it leads */
	/* looked at each time that it waits; NULL: nothing */
	void (*always)(struct world *w, const char *what);
	int64_t next_us;
	int64_t step_us; /* since when the story waits for the same thing */
};
/* Turns, with lives that end, until the query's first column is not 0. Fails the test after a
 * minute and a half, with the rows' events. */
void killer_until(struct killer *k, const char *what, const char *sql);
/* Faults as the seed says. */
void killer_trouble(struct killer *k);

/* Tells stories by seed. */
struct killer_sweep {
	uint64_t first;
	size_t n;
	void (*tell)(struct world *w, uint64_t seed, const void *how);
	const void *how;
};
/*
 * Runs the stories of a sweep: every third one, from an offset that changes from day to day and is
 * printed. SPOT_KILL_ALL=1 runs all (tests/run nightly). seed_only, unless 0, is the one seed to
 * run.
 */
void killer_sweep(struct world *w, const struct killer_sweep *s, uint64_t seed_only);

#endif
