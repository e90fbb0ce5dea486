/* Time comes from an injected clock, in microseconds. wall counts since the epoch. mono
 * (CLOCK_BOOTTIME) never goes back; deadlines use it. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include "base/macros.h"

struct clock {
	int64_t (*wall_us)(const struct clock *c);
	int64_t (*mono_us)(const struct clock *c);
};
extern const struct clock clock_real;
struct clock_manual { /* for tests */
	struct clock clock;
	int64_t wall, mono;
};
void clock_manual_init(struct clock_manual *m, int64_t wall_us);
void clock_manual_advance(struct clock_manual *m, int64_t us);

#endif
