/* Kills the engine of a world at random turns while a story is told, and makes trouble at its
 * cloud; all by one seed. */
#ifndef ENGINE_KILLER_H
#define ENGINE_KILLER_H

#include "engine_world.h"
#include "base/text/text.h"

struct killer {
	struct world *w;
	struct rng rng;
	int64_t life_us; /* a life ends within this, counted from when it leads */
	/* looked at each time that it waits; NULL: nothing */
	void (*always)(struct world *w, const char *what);
	int64_t next_us;
	int64_t step_us; /* since when the story waits for the same thing */
};
/*
 * Makes a fresh database and a cloud with two spot pools and one on demand. The seed decides the
 * faults; lives end within life_us. tokens: the cloud's launches are idempotent.
 */
void killer_begin(struct killer *k, struct world *w, uint64_t seed, bool tokens, int64_t life_us);
/* The job runs; this rank's machine has a notice; the job runs again. */
void killer_notice(struct killer *k, int rank);
/*
 * The job's work ends well and nothing is left. Each machine has one row and was launched once.
 * Every microsecond of it is billed once. The events of each job and node form a chain.
 */
void killer_end(struct killer *k);
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
 * printed. SPOT_KILL_ALL=1 runs all (tests/run nightly).
 */
void killer_sweep(struct world *w, const struct killer_sweep *s);
/* The binary's argument, if there is one, is the one seed that sweeps tell. */
void killer_seed(int argc, char **argv);

#endif
