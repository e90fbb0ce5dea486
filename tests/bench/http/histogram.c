/* Buckets of latencies, and percentiles of them. */
#include "histogram.h"

/* Values below 64 have a bucket each. From there on the top seven bits of a value choose it. */
static size_t bucket_of_value(int64_t us)
{
	int power = 63 - __builtin_clzll((uint64_t)us | 1);
	int shift = MAX(power - 6, 0);

	return (size_t)(shift * HISTOGRAM_PER_POWER + (us >> shift));
}

static int64_t bucket_upper_end(size_t bucket)
{
	size_t shift = bucket < 2 * HISTOGRAM_PER_POWER ? 0 : bucket / HISTOGRAM_PER_POWER - 1;
	int64_t top = (int64_t)(bucket - shift * HISTOGRAM_PER_POWER);

	return ((top + 1) << shift) - 1;
}

void histogram_reset(struct histogram *h)
{
	memset(h, 0, sizeof(*h));
}

void histogram_add(struct histogram *h, int64_t us)
{
	us = MAX(0, MIN(us, HISTOGRAM_US_MAX));
	h->counts[bucket_of_value(us)]++;
	h->n++;
	h->sum_us += us;
	h->max_us = MAX(h->max_us, us);
}

int64_t histogram_percentile(const struct histogram *h, double share)
{
	double exact = share * (double)h->n;
	int64_t rank = (int64_t)exact, seen = 0;

	rank = MAX(1, MIN(h->n, rank + ((double)rank < exact)));
	for (size_t i = 0; i < HISTOGRAM_BUCKETS && h->n > 0; i++) {
		seen += h->counts[i];
		if (seen >= rank) {
			return MIN(bucket_upper_end(i), h->max_us);
		}
	}
	return 0;
}

double histogram_mean(const struct histogram *h)
{
	return h->n == 0 ? 0 : (double)h->sum_us / (double)h->n;
}
