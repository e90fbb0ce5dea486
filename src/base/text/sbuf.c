/*
 * Growing text with a cap. After an overflow nothing more is added, so that the text stays a prefix
 * of the whole. Running out of memory aborts.
 */
#include "base/base.h"
#include "base/text/sbuf.h"

#include "base/text/str.h"

#include <stdarg.h>

void sbuf_init(struct sbuf *b, size_t bytes_max)
{
	*b = (struct sbuf){ .max = bytes_max != 0 ? bytes_max : SBUF_MAX_DEFAULT };
}

void sbuf_fini(struct sbuf *b)
{
	free(b->p);
	b->p = NULL;
	b->n = b->cap = 0;
	b->overflow = false;
}

void sbuf_reset(struct sbuf *b)
{
	b->n = 0;
	b->overflow = false;
	if (b->p != NULL) {
		b->p[0] = '\0';
	}
}

/* Makes room for n more bytes and the NUL. Returns the number of bytes that fit under the cap. */
static size_t sbuf_room(struct sbuf *b, size_t n)
{
	if (b->overflow) {
		return 0;
	}
	if (n > b->max - b->n) {
		b->overflow = true;
		n = b->max - b->n;
	}
	if (b->n + n + 1 > b->cap) {
		size_t cap = MAX(b->cap * 2, b->n + n + 1);

		cap = MIN(MAX(cap, (size_t)64), b->max + 1);
		char *p = realloc(b->p, cap);
		if (p == NULL) {
			abort();
		}
		b->p = p;
		b->cap = cap;
	}
	return n;
}

void sbuf_add(struct sbuf *b, const void *p, size_t n)
{
	n = sbuf_room(b, n);
	if (b->p == NULL || b->n + n + 1 > b->cap) {
		return;
	}
	if (n > 0) {
		memcpy(b->p + b->n, p, n);
	}
	b->n += n;
	b->p[b->n] = '\0';
}

void sbuf_puts(struct sbuf *b, const char *s)
{
	sbuf_add(b, s, strlen(s));
}

void sbuf_putc(struct sbuf *b, char c)
{
	sbuf_add(b, &c, 1);
}

void sbuf_printf(struct sbuf *b, const char *fmt, ...)
{
	char small[256];
	va_list ap, again;

	va_start(ap, fmt);
	va_copy(again, ap);
	int n = vsnprintf(small, sizeof(small), fmt, ap);
	va_end(ap);
	if (n < 0) {
		abort();
	}
	if ((size_t)n < sizeof(small)) {
		sbuf_add(b, small, (size_t)n);
	} else {
		char *big = malloc((size_t)n + 1);

		if (big == NULL) {
			abort();
		}
		vsnprintf(big, (size_t)n + 1, fmt, again);
		sbuf_add(b, big, (size_t)n);
		free(big);
	}
	va_end(again);
}

static void json_char(struct sbuf *b, unsigned char c)
{
	switch (c) {
	case '"':
		sbuf_puts(b, "\\\"");
		break;
	case '\\':
		sbuf_puts(b, "\\\\");
		break;
	case '\n':
		sbuf_puts(b, "\\n");
		break;
	case '\r':
		sbuf_puts(b, "\\r");
		break;
	case '\t':
		sbuf_puts(b, "\\t");
		break;
	default:
		if (c < 0x20 || c == 0x7f) {
			sbuf_printf(b, "\\u%04x", c);
		} else {
			sbuf_putc(b, (char)c);
		}
	}
}

void sbuf_json_str(struct sbuf *b, const char *s)
{
	sbuf_putc(b, '"');
	while (*s != '\0') {
		size_t n = str_utf8_len(s);

		if (n == 0) {
			sbuf_puts(b, "\\ufffd");
			n = 1;
		} else if (n == 1) {
			json_char(b, (unsigned char)*s);
		} else {
			sbuf_add(b, s, n);
		}
		s += n;
	}
	sbuf_putc(b, '"');
}

void sbuf_consume(struct sbuf *b, size_t n)
{
	assert(n <= b->n);
	if (n == 0) {
		return;
	}
	memmove(b->p, b->p + n, b->n - n);
	b->n -= n;
	b->p[b->n] = '\0';
}
