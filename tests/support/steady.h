/*
 * A clock that stands still while the test does not run. A busy machine may stop us for some
 * seconds at any point, and short limits of a test would pass. Two looks are a moment apart at
 * most.
 */
#ifndef STEADY_H
#define STEADY_H

#include "base/base.h"

extern const struct clock steady_clock;
/* The wall clock is set: ahead, or back, by so much. */
void steady_set(int64_t ahead_us);
/* So much passes at most between two looks; 0 = as usual. */
void steady_moment(int64_t us);

#endif
