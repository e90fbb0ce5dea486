/*
 * FNV-1a, 64 bits: the hash of tables, fingerprints and seeds. An attacker can find collisions;
 * content sums are SHA-256 (crypto/crypto.h).
 *
 * libxxhash gains nothing on our keys, names of 5 to 40 bytes. Folder names and seeds follow from
 * this hash, so it must not change with a library's version.
 *
 * hash_mix() and hash_words() take 8 bytes at a time, for hot tables and digests that never leave
 * the process: hash_words() depends on the byte order.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/macros.h"

#define HASH_START UINT64_C(0xcbf29ce484222325) /* the h of the first call */
#define HASH_PRIME UINT64_C(0x100000001b3)

/* Mixes one byte, or any number, into the hash. */
static inline uint64_t hash_u64(uint64_t h, uint64_t v)
{
	return (h ^ v) * HASH_PRIME;
}

static inline uint64_t hash_bytes(uint64_t h, const void *p, size_t n)
{
	const unsigned char *at = p;

	for (size_t i = 0; i < n; i++) {
		h = hash_u64(h, at[i]);
	}
	return h;
}

/* Leaves out the NUL: "ab" then "c" gives the hash of "a" then "bc". Separate parts by
 * hash_u64(h, 0xff), a byte that no UTF-8 text contains. */
static inline uint64_t hash_str(uint64_t h, const char *s)
{
	for (; *s != '\0'; s++) {
		h = hash_u64(h, (unsigned char)*s);
	}
	return h;
}

#define HASH_MIXER UINT64_C(0x9e3779b97f4a7c15) /* 2^64 / the golden ratio: spreads low bits up */

/* Mixes a number of 64 bits into the hash. The start may be any number. */
static inline uint64_t hash_mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * HASH_MIXER;
	return h ^ h >> 29;
}

static inline uint64_t hash_words(uint64_t h, const char *s, size_t n)
{
	uint64_t v;

	for (; n >= sizeof(v); s += sizeof(v), n -= sizeof(v)) {
		memcpy(&v, s, sizeof(v));
		h = hash_mix(h, v);
	}
	v = 0;
	memcpy(&v, s, n);
	return hash_mix(h, v ^ ((uint64_t)n << 56));
}

#endif
