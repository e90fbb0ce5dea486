/* A secret has no %s: it is wiped on fini, compares in constant time and logs as
 * secret(12 bytes). secret_init registers the value with base/redact so that no log line or error
 * text can carry it; secret_fini unregisters. */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include "base/base.h"

struct secret {
	char *p_private;
	size_t n;
};
void secret_init(struct secret *s, const char *value, size_t n); /* copies */
void secret_fini(struct secret *s);
bool secret_set(const struct secret *s);
bool secret_equal(const struct secret *s, const char *value, size_t n);
/* the one way out; only signing and sending use it */
const char *secret_reveal(const struct secret *s);
/* Reads a file of mode 0600/0400 (refuses others and > 64 KiB), strips one trailing newline. */
NODISCARD enum spot_rc secret_read_file(struct secret *s, const char *path, struct spot_err *err);
bool mem_equal_const(const void *a, const void *b, size_t n);
void mem_wipe(void *p, size_t n);

#endif
