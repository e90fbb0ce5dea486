/*
 * Latencies in a histogram of fixed size, after HdrHistogram. Each power of two has 64 buckets, so
 * a percentile is at most 1/64 above the exact one. Values are whole microseconds, 0 to an hour.
 */
#ifndef BENCH_HTTP_HISTOGRAM_H
#define BENCH_HTTP_HISTOGRAM_H

#include "base/base.h"

#define HISTOGRAM_PER_POWER 64
#define HISTOGRAM_US_MAX INT64_C(3600000000)
#define HISTOGRAM_BUCKETS (28 * HISTOGRAM_PER_POWER)

struct histogram {
	int64_t counts[HISTOGRAM_BUCKETS];
	int64_t n, sum_us, max_us;
};

void histogram_reset(struct histogram *h);
/* Values below 0 count as 0, and values above the largest as the largest. */
void histogram_add(struct histogram *h, int64_t us);
/* Returns the nearest-rank percentile, in microseconds: the upper end of its bucket, or the maximum
 * if that is smaller. share is 0 to 1. An empty histogram gives 0. */
int64_t histogram_percentile(const struct histogram *h, double share);
double histogram_mean(const struct histogram *h);

#endif
