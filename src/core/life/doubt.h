/*
 * Whether our wall clock is to be believed where money hangs on it. It is not after it leapt, nor
 * when a daemon begins to lead, until a cloud's own time (the Date of a reply, RFC 9110 6.6.1) says
 * the same. Who hears no cloud, or one that differs for as long as limit_us, goes on by the clock
 * that there is: that is a host whose clock is simply wrong, and lengths of time are right by it.
 */
#ifndef CORE_DOUBT_H
#define CORE_DOUBT_H

#include "base/base.h"

/* A reply tells its time to the second and is on its way for as long as a call may be; steered
 * clocks differ by less. */
#define DOUBT_AGREE_US (30 * SPOT_US_PER_S)

enum doubt {
	DOUBT_NONE, /* believed, or nobody can say better */
	DOUBT_WAITS, /* what is written now may be hours off */
	DOUBT_PROVEN, /* a cloud's time agrees, newer than what raised the doubt */
};

/* All by the clock that never leaps: since_us when the doubt arose (0: there is none), told_us when
 * a cloud told its time last (0: never), now_us. off_us: by how much that was ahead of our wall
 * clock. limit_us: how long doubt lasts at most; 0: nobody doubts. */
enum doubt doubt_judge(int64_t since_us, int64_t told_us, int64_t off_us, int64_t now_us,
    int64_t limit_us);

#endif
