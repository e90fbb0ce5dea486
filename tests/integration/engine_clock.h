/* A clock that stands still while the test does not run. */
#ifndef ENGINE_CLOCK_H
#define ENGINE_CLOCK_H

#include "base/base.h"
#include "base/clock.h"

extern const struct clock world_clock;
/* The wall clock of engine, cloud and agents: what a test writes into rows and measures is told by it. */
int64_t world_us(void);
/* So much passes at most between two looks; 0 = as usual. */
void world_moment(int64_t us);

#endif
