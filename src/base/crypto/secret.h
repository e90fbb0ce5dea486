/*
 * A value that must not leak. Its comparison takes constant time. The functions secret_init and
 * secret_fini register it with crypto/redact.h, so that no log line or error text can carry it, and
 * unregister and wipe it.
 */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include "base/base.h"

struct secret {
	char *p_private;
	size_t n;
};
void secret_init(struct secret *s, const char *value, size_t n); /* copies */
void secret_fini(struct secret *s);
bool secret_set(const struct secret *s); /* has a value */
bool secret_equal(const struct secret *s, const char *value, size_t n);
/* Returns the value. Only code that signs or sends may call it. */
const char *secret_reveal(const struct secret *s);
/* Reads a file of mode 0600 or 0400 and strips one trailing newline. Refuses other modes and files
 * over 64 KiB. */
NODISCARD enum spot_rc secret_read_file(struct secret *s, const char *path, struct spot_err *err);
bool mem_equal_const(const void *a, const void *b, size_t n); /* in constant time */
void mem_wipe(void *p, size_t n); /* the compiler cannot drop it */

#endif
