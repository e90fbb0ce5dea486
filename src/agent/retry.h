/*
 * The times of the next retry and the next turn, in CLOCK_BOOTTIME microseconds. Waits double from
 * 0.5 s to 30 s, with jitter.
 */
#ifndef AGENT_RETRY_H
#define AGENT_RETRY_H

#include "base/base.h"

struct agent;

struct retry {
	int failures;
	int64_t next_us;
};

/* Counts a failure and schedules the retry. retry_after_us: the wait that the server asked for, 0 =
 * none; it counts up to two minutes. */
void retry_fail(struct agent *a, struct retry *r, int64_t retry_after_us);
void retry_clear(struct retry *r);
bool retry_due(struct agent *a, const struct retry *r); /* if false, wakes at the retry */
void agent_wake(struct agent *a, int64_t at_us); /* takes a turn then, at the latest */
int64_t agent_wall_us(struct agent *a);

#endif
