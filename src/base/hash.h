/*
 * FNV-1a, 64 bits: the hash of tables, fingerprints and seeds. Not for anything that an attacker
 * may choose; sums of content are SHA-256 (crypto/sign.h).
 *
 * Not libxxhash: our keys are names of 5 to 40 bytes, and there it gains nothing. Values that
 * follow from a hash (names of folders, seeds) must not change with a library's version.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/base.h"

#define HASH_START UINT64_C(0xcbf29ce484222325) /* the h of the first call */
#define HASH_PRIME UINT64_C(0x100000001b3)

/* One step: a byte, or any number, joins the hash. */
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

/* Without the NUL: "ab" and "c" give what "a" and "bc" give. Separate parts by hash_u64(h, 0xff),
 * which no UTF-8 text contains. */
static inline uint64_t hash_str(uint64_t h, const char *s)
{
	for (; *s != '\0'; s++) {
		h = hash_u64(h, (unsigned char)*s);
	}
	return h;
}

#endif
