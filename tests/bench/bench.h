/* Time, and percentiles of runs, for every benchmark. Pure code is timed by the CPU that its thread
 * used, which others on the machine hardly change. On an idle machine that is the time that
 * passes. */
#ifndef BENCH_H
#define BENCH_H

#include "base/base.h"

#include <time.h>

static inline int64_t bench_us(void)
{
	struct timespec t;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0) {
		abort();
	}
	return (int64_t)t.tv_sec * SPOT_US_PER_S + t.tv_nsec / 1000;
}

static inline int bench_by_value(const void *pa, const void *pb)
{
	const int64_t *a = pa, *b = pb;

	return (*a > *b) - (*a < *b);
}

/* Sorts us[0..n) and gives the p-th percentile (nearest rank), in ms. */
static inline double bench_ms(int64_t *us, size_t n, int p)
{
	qsort(us, n, sizeof(*us), bench_by_value);
	return (double)us[MIN(n - 1, (n * (size_t)p + 99) / 100 - 1)] / 1e3;
}

#endif
