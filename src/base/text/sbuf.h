/* Growing text with a cap, set at init. Text beyond the cap is dropped and sets .overflow. Running
 * out of memory aborts. */
#ifndef BASE_SBUF_H
#define BASE_SBUF_H

#include "base/base.h"

struct sbuf {
	char *p; /* NUL terminated; NULL before the first write */
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
void sbuf_json_str(struct sbuf *b, const char *s); /* adds quotes and escapes */
void sbuf_consume(struct sbuf *b, size_t n); /* drops the first n bytes */
static inline void auto_sbuf(struct sbuf *b)
{
	sbuf_fini(b);
}

#endif
