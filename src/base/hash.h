/*
 * FNV-1a, 64 bits: the hash of tables, fingerprints and seeds. An attacker can find collisions;
 * content sums are SHA-256 (crypto/sign.h).
 *
 * libxxhash gains nothing on our keys, names of 5 to 40 bytes. Folder names and seeds follow from
 * this hash, so it must not change with a library's version.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/base.h"

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

#endif
