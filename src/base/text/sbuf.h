/* Growing text with a cap given at init; going over the cap sets .overflow and drops the rest. */
#ifndef BASE_SBUF_H
#define BASE_SBUF_H

#include "base/base.h"

struct sbuf {
	char *p; /* always NUL terminated once something was written; may be NULL before */
	size_t n, cap, max;
	bool overflow;
};
#define SBUF_MAX_DEFAULT ((size_t)64 << 20)
void sbuf_init(struct sbuf *b, size_t bytes_max); /* 0 = SBUF_MAX_DEFAULT */
void sbuf_fini(struct sbuf *b);
void sbuf_reset(struct sbuf *b); /* keeps the memory */
void sbuf_add(struct sbuf *b, const void *p, size_t n);
void sbuf_puts(struct sbuf *b, const char *s);
void sbuf_putc(struct sbuf *b, char c);
void sbuf_printf(struct sbuf *b, const char *fmt, ...) PRINTF(2, 3);
void sbuf_json_str(struct sbuf *b, const char *s); /* quoted and escaped */
void sbuf_consume(struct sbuf *b, size_t n); /* drop the first n bytes */
static inline void auto_sbuf(struct sbuf *b)
{
	sbuf_fini(b);
}

#endif
