/*
 * Named profiles: habits of some seeds only. A seed has a profile by its number; `sim SEED
 * --profile NAME` adds one, `sim --profiles` lists them.
 */
#ifndef SIM_PROFILES_H
#define SIM_PROFILES_H

#include <stdbool.h>
#include <stdint.h>

enum profile {
	/* which faults there are: the first of these four that a seed has */
	PROFILE_CALM,
	PROFILE_CLOCKS,
	PROFILE_LIGHT,
	PROFILE_HEAVY,
	/* faults that only some seeds have */
	PROFILE_HALTED,
	PROFILE_FRONTED,
	PROFILE_PRETENDED,
	PROFILE_REFUSED_STORE,
	PROFILE_CLOCK_BOOT,
	PROFILE_PLANNED,
	PROFILE_DEAR_GANGS,
	PROFILE_LATE_CLOCK,
	/* habits of users, programs and the world */
	PROFILE_ASKING,
	PROFILE_SMALL_BUDGETS,
	PROFILE_TIMED,
	PROFILE_LONG_JOBS,
	PROFILE_TWO_FILES,
	PROFILE_ONE_RANK_SAVES,
	PROFILE_DISPOSED,
	PROFILE_SHORT_ORPHANS,
	PROFILE_STICKY,
	PROFILE_RESTORED,
	PROFILE_GHOST_AT_AWS,
	PROFILE_ELASTIC,
	/* attempts made beside the workload */
	PROFILE_PROBED,
	PROFILE_LARGE_CREWS, /* fleets of many nodes: launches in sets */
	/* the market swings, and fleets follow it and their demand */
	PROFILE_MOVING_FLEETS,
	/* machines that are launched while a gang waits for one never boot */
	PROFILE_DEAD_BOOTS,
};

/* Adds profiles to those of every seed. Returns false when the text names an unknown one. */
bool profiles_choose(const char *names);
bool profile_of_seed(enum profile p, uint64_t seed, bool small);
bool profile_is(enum profile p); /* of the seed that runs */
void profiles_print(void);

#endif
