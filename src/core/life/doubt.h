/*
 * Judges whether our wall clock can be trusted for money. After a clock step, and when a daemon
 * begins to lead, it cannot. Trust returns when a cloud's own time agrees (the Date of a reply, RFC
 * 9110 6.6.1). If no cloud answers, or one disagrees for limit_us, the daemon continues with its
 * own clock. That host's clock is simply wrong, but its durations are right.
 */
#ifndef CORE_DOUBT_H
#define CORE_DOUBT_H

#include "base/base.h"

/* Clocks that differ by less agree. A reply's time has a resolution of one second, and the reply
 * itself takes up to a call's timeout. */
#define DOUBT_AGREE_US (30 * SPOT_US_PER_S)

enum doubt {
	DOUBT_NONE, /* trusted, or no cloud can say better */
	DOUBT_WAITS, /* a timestamp written now may be hours off */
	DOUBT_PROVEN, /* a cloud's time, newer than the doubt, agrees */
};

/* Judges the wall clock. Times are by the monotonic clock. The doubt arose at since_us (0 = none).
 * A cloud last sent its time at told_us (0 = never). Parameter off_us says how far that time was
 * ahead of our wall clock. Doubt lasts at most limit_us; 0 = never doubt. */
enum doubt doubt_judge(int64_t since_us, int64_t told_us, int64_t off_us, int64_t now_us,
    int64_t limit_us);

#endif
