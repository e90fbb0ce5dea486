/* Two clocks: the machine's, and one that only its owner moves (tests, simulation). */
#include "base/base.h"
#include "base/clock.h"

static int64_t clock_read(clockid_t id)
{
	struct timespec ts;

	if (clock_gettime(id, &ts) != 0) {
		abort();
	}
	return (int64_t)ts.tv_sec * SPOT_US_PER_S + ts.tv_nsec / 1000;
}

static int64_t real_wall(const struct clock *c UNUSED)
{
	return clock_read(CLOCK_REALTIME);
}

static int64_t real_mono(const struct clock *c UNUSED)
{
	return clock_read(CLOCK_BOOTTIME);
}

const struct clock clock_real = { .wall_us = real_wall, .mono_us = real_mono };

/* The clock is the first member of the manual clock, so both have one address. */
static int64_t manual_wall(const struct clock *c)
{
	return ((const struct clock_manual *)(const void *)c)->wall;
}

static int64_t manual_mono(const struct clock *c)
{
	return ((const struct clock_manual *)(const void *)c)->mono;
}

void clock_manual_init(struct clock_manual *m, int64_t wall_us)
{
	*m = (struct clock_manual){
		.clock = { .wall_us = manual_wall, .mono_us = manual_mono },
		.wall = wall_us,
		.mono = SPOT_US_PER_S,
	};
}

void clock_manual_advance(struct clock_manual *m, int64_t us)
{
	assert(us >= 0);
	m->wall += us;
	m->mono += us;
}
