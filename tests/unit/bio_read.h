/* Bytes that a test made with OpenSSL. */
#ifndef UNIT_BIO_READ_H
#define UNIT_BIO_READ_H

#include "base/base.h"

#include <openssl/bio.h>

/* Returns a copy of the bytes that a memory BIO holds, with a NUL behind them. Frees the BIO. */
static inline struct str bio_read_all(struct arena *a, BIO *b)
{
	char *p;
	long n = BIO_get_mem_data(b, &p);
	struct str s = arena_bytes(a, p, (size_t)n);

	BIO_free(b);
	return s;
}

#endif
