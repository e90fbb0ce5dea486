/* A synthetic world of three spot pools and on demand, and checks that single jobs and fleets
 * share. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "sim.h"

#define WORLD_SAMPLES 2000 /* of each pool's capacity, ten minutes each */
#define WORLD_SAVE_US (11 * SPOT_US_PER_S) /* of each job */

void world_make(struct arena *a, uint64_t seed, struct fs_world *w);
/* Returns the nodes' dollars, and asserts that they are their time by the price of the minute. */
int64_t dollars_check(const struct fs_sim *s);

int fleets_run(void); /* the tests of test_fleets.c; returns the number that failed */

#endif
