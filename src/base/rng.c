/*
 * Injected randomness. getrandom(2) serves tokens and jitter. PCG64 (XSL-RR 128/64,
 * pcg-random.org) is repeatable and never serves secrets.
 */
#include "base/base.h"
#include "base/rng.h"

#include <errno.h>
#include <sys/random.h>

__extension__ typedef unsigned __int128 u128;
#define U128(hi, lo) (((u128)(hi) << 64) | (lo))

static void real_fill(struct rng *r UNUSED, void *p, size_t n)
{
	char *at = p;

	while (n > 0) {
		ssize_t got = getrandom(at, n, 0);

		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got <= 0) {
			abort();
		}
		at += got;
		n -= (size_t)got;
	}
}

void rng_real_init(struct rng *r)
{
	*r = (struct rng){ .fill = real_fill };
}

static uint64_t pcg_next(struct rng *r)
{
	const u128 mult = U128(UINT64_C(0x2360ed051fc65da4), UINT64_C(0x4385df649fccf645));
	u128 s = U128(r->state[0], r->state[1]);
	u128 inc = U128(r->state[2], r->state[3]);

	s = s * mult + inc;
	r->state[0] = (uint64_t)(s >> 64);
	r->state[1] = (uint64_t)s;
	uint64_t x = r->state[0] ^ r->state[1];
	unsigned rot = (unsigned)(s >> 122);
	return (x >> rot) | (x << ((64 - rot) & 63));
}

static void seeded_fill(struct rng *r, void *p, size_t n)
{
	char *at = p;

	while (n > 0) {
		uint64_t v = pcg_next(r);
		size_t part = MIN(n, sizeof(v));

		memcpy(at, &v, part);
		at += part;
		n -= part;
	}
}

void rng_seeded_init(struct rng *r, uint64_t seed)
{
	*r = (struct rng){ .fill = seeded_fill };
	r->state[2] = UINT64_C(0x5851f42d4c957f2d);
	r->state[3] = (seed << 1) | 1; /* the increment must be odd */
	pcg_next(r);
	u128 s = U128(r->state[0], r->state[1]) + seed;
	r->state[0] = (uint64_t)(s >> 64);
	r->state[1] = (uint64_t)s;
	pcg_next(r);
}

uint64_t rng_u64(struct rng *r)
{
	uint64_t v;

	r->fill(r, &v, sizeof(v));
	return v;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
	assert(n > 0);
	/* Reject values below 2^64 mod n: they would make the low results more likely. */
	uint64_t floor = (0 - n) % n;
	uint64_t v;

	do {
		v = rng_u64(r);
	} while (v < floor);
	return v % n;
}

double rng_unit(struct rng *r)
{
	return (double)(rng_u64(r) >> 11) * 0x1.0p-53;
}

void rng_hex(struct rng *r, char *buf, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		uint8_t byte;

		r->fill(r, &byte, 1);
		buf[2 * i] = digits[byte >> 4];
		buf[2 * i + 1] = digits[byte & 15];
	}
	buf[2 * n] = '\0';
}

int64_t rng_jitter(struct rng *r, int64_t us, double f)
{
	assert(us >= 0 && f >= 0 && f <= 1);
	int64_t span = (int64_t)((double)us * f);

	return us - span + (int64_t)rng_below(r, 2 * (uint64_t)span + 1);
}
