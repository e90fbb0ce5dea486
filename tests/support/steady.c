#include "base/base.h"
#include "steady.h"

#define MOMENT_US 200000
static int64_t moment_us = MOMENT_US, set_us;

void steady_moment(int64_t us)
{
	moment_us = us > 0 ? us : MOMENT_US;
}

void steady_set(int64_t ahead_us)
{
	set_us += ahead_us;
}

static int64_t steady_us(const struct clock *c UNUSED)
{
	static int64_t seen, passed = SPOT_US_PER_S;
	int64_t now = clock_real.mono_us(&clock_real);

	passed += seen == 0 ? 0 : MIN(now - seen, moment_us);
	seen = now;
	return passed;
}

static int64_t steady_wall_us(const struct clock *c)
{
	static int64_t began;

	if (began == 0) {
		began = clock_real.wall_us(&clock_real);
	}
	return began + set_us + steady_us(c);
}

const struct clock steady_clock = { .wall_us = steady_wall_us, .mono_us = steady_us };
