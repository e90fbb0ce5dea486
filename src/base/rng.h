/* Injected randomness. rng_real: getrandom(2). rng_seeded: PCG64, for tests and simulation. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include "base/base.h"

struct rng {
	void (*fill)(struct rng *r, void *p, size_t n);
	uint64_t state[4];
};
void rng_real_init(struct rng *r);
void rng_seeded_init(struct rng *r, uint64_t seed);
uint64_t rng_u64(struct rng *r);
uint64_t rng_below(struct rng *r, uint64_t n); /* uniform in [0, n), n > 0 */
double rng_unit(struct rng *r); /* [0, 1) */
/* Lower-case hex of n random bytes; buf holds 2n+1. */
void rng_hex(struct rng *r, char *buf, size_t n);
/* base jitter: uniform in [us*(1-f), us*(1+f)]. */
int64_t rng_jitter(struct rng *r, int64_t us, double f);

#endif
