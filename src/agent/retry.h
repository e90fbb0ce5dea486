/*
 * When to try again, and when to wake. Waits grow from 0.5 s by doubling to 30 s, with jitter.
 * Times are CLOCK_BOOTTIME microseconds.
 */
#ifndef AGENT_RETRY_H
#define AGENT_RETRY_H

#include "base/base.h"

struct agent;

struct retry {
	int failures;
	int64_t next_us;
};

/* retry_after_us: the wait that the far side asked for, 0 = none; at most two minutes of it
 * count. */
void retry_fail(struct agent *a, struct retry *r, int64_t retry_after_us);
void retry_clear(struct retry *r);
bool retry_due(struct agent *a, const struct retry *r); /* false also asks to be woken */
void agent_wake(struct agent *a, int64_t at_us); /* take a turn then, at the latest */
int64_t agent_wall_us(struct agent *a);

#endif
