/*
 * A fuzz target is one function that takes any bytes, does the product's work on them, and checks
 * invariants. It must not depend on earlier runs. FUZZ_CHECK aborts: both drivers keep the input
 * then.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include "base/base.h"

int fuzz_one(const uint8_t *p, size_t n);

#define FUZZ_CHECK(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #cond); \
			abort(); \
		} \
	} while (0)

/* The bytes as a C string in the arena (up to the first NUL), or as a view with a NUL behind it. */
static inline char *fuzz_string(struct arena *a, const uint8_t *p, size_t n)
{
	return arena_strndup(a, (const char *)p, strnlen((const char *)p, n));
}

static inline struct str fuzz_view(struct arena *a, const uint8_t *p, size_t n)
{
	return arena_bytes(a, p, n);
}

/* A failure has a code and words; a success has none. */
static inline void fuzz_check_err(enum spot_rc rc, const struct spot_err *err)
{
	FUZZ_CHECK(rc < SPOT_RC_COUNT);
	if (rc != SPOT_OK) {
		FUZZ_CHECK(err->rc == rc);
		FUZZ_CHECK(err->text[0] != '\0');
		FUZZ_CHECK(memchr(err->text, '\0', sizeof(err->text)) != NULL);
	}
}

#endif
