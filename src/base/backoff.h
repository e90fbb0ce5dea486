/*
 * Exponential back-off: waits that double from first_us to cap_us, with jitter from the caller's
 * generator. The caller keeps the count of failures, since it often means more than a wait (a
 * limit, a log line).
 */
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

#include "base/rng.h"

struct backoff {
	int64_t first_us; /* the first wait */
	int64_t cap_us; /* no wait is longer, before jitter */
	double jitter; /* the result lies within wait * (1 - jitter) .. wait * (1 + jitter) */
};

/*
 * Returns the wait in microseconds: min(first_us * 2^failures, cap_us), without overflow. A
 * negative count is 0. If rng is NULL or jitter is 0, the wait is exact and rng is not used.
 */
int64_t backoff_wait_us(const struct backoff *b, int failures, struct rng *rng);

#endif
