/* Injected randomness: getrandom(2) after rng_real_init, PCG64 after rng_seeded_init (tests and
 * simulation). */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include "base/macros.h"

struct rng {
	void (*fill)(struct rng *r, void *p, size_t n);
	uint64_t state[4];
};
void rng_real_init(struct rng *r);
void rng_seeded_init(struct rng *r, uint64_t seed);
uint64_t rng_u64(struct rng *r);
uint64_t rng_below(struct rng *r, uint64_t n); /* uniform in [0, n), n > 0 */
double rng_unit(struct rng *r); /* [0, 1) */
/* Writes n random bytes as lower-case hex; buf holds 2n + 1. */
void rng_hex(struct rng *r, char *buf, size_t n);
/* Returns a duration, uniform in [us * (1 - f), us * (1 + f)]. */
int64_t rng_jitter(struct rng *r, int64_t us, double f);

#endif
