#include "base/base.h"
#include "base/backoff.h"

int64_t backoff_wait_us(const struct backoff *b, int failures, struct rng *rng)
{
	int64_t wait = MIN(b->first_us, b->cap_us);

	for (int i = 0; i < failures && wait < b->cap_us; i++) {
		wait = wait > b->cap_us / 2 ? b->cap_us : wait * 2;
	}
	return rng != NULL && b->jitter > 0 ? rng_jitter(rng, wait, b->jitter) : wait;
}
