/*
 * Attributes, small macros, and the calls that we ban. Nothing here
 * needs linking.
 */
#ifndef BASE_MACROS_H
#define BASE_MACROS_H

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "spot/err.h"
#include "spot/types.h"

#define NODISCARD __attribute__((warn_unused_result))
#define PRINTF(f, a) __attribute__((format(printf, f, a)))
#define UNUSED __attribute__((unused))
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* Greatest common divisor of two numbers of at least 0; gcd(a, 0) is a. */
static inline int64_t i64_gcd(int64_t a, int64_t b)
{
	while (b != 0) {
		int64_t r = a % b;

		a = b;
		b = r;
	}
	return a;
}

/* A local that frees itself: AUTO(json) json_t *doc = ...; runs auto_json(&doc) at scope end.
 * STEAL(doc) hands the value to another owner. */
#define AUTO(kind) __attribute__((cleanup(auto_##kind)))
#define STEAL(p) \
	(__extension__({ \
		__typeof__(p) steal_tmp = (p); \
		(p) = NULL; \
		steal_tmp; \
	}))
static inline void auto_free(void *p)
{
	free(*(void **)p);
}

/* Define BASE_ALLOW_BANNED only in a file that wraps one of these and says why. */
#ifndef BASE_ALLOW_BANNED
#pragma GCC poison sprintf vsprintf strcpy strcat strncpy strncat strtok gmtime localtime ctime \
    asctime
/* tests/lint/bans.py bans rand(): here it would break OpenSSL's headers, which have parameters of
 * that name. */
#pragma GCC poison srand random atoi atol atoll atof system popen tmpnam mktemp gets
#endif

#endif
