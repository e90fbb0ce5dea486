#include "base/base.h"
#include "base/text/json_put.h"

#include "base/text/str.h"

#include <math.h>

#define DIGITS_MAX 24

/* Bytes that a JSON string cannot hold as they are. */
static bool byte_escapes(unsigned char c)
{
	return c < 0x20 || c == '"' || c == '\\';
}

static void escape_put(struct sbuf *b, unsigned char c)
{
	static const char letters[] = "btnvfr"; /* 0x08 to 0x0d; JSON has no \v */

	if (c == '"' || c == '\\') {
		char pair[2] = { '\\', (char)c };

		sbuf_add(b, pair, 2);
	} else if (c >= 0x08 && c <= 0x0d && c != 0x0b) {
		char pair[2] = { '\\', letters[c - 0x08] };

		sbuf_add(b, pair, 2);
	} else {
		sbuf_printf(b, "\\u%04x", c);
	}
}

void json_put_str(struct sbuf *b, const char *p, size_t n)
{
	size_t from = 0, i = 0;

	sbuf_putc(b, '"');
	for (; i < n; i++) {
		if (byte_escapes((unsigned char)p[i])) {
			sbuf_add(b, p + from, i - from);
			escape_put(b, (unsigned char)p[i]);
			from = i + 1;
		}
	}
	sbuf_add(b, p + from, i - from);
	sbuf_putc(b, '"');
}

/* Writes the digits before `end` and returns the first one. */
static char *digits_before(char *end, uint64_t v)
{
	do {
		*--end = (char)('0' + v % 10);
		v /= 10;
	} while (v > 0);
	return end;
}

void json_put_i64(struct sbuf *b, int64_t v)
{
	char text[DIGITS_MAX], *end = text + sizeof(text);
	char *at = digits_before(end, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);

	if (v < 0) {
		*--at = '-';
	}
	sbuf_add(b, at, (size_t)(end - at));
}

void json_put_fixed(struct sbuf *b, int64_t v, int places, bool point)
{
	char text[2 * DIGITS_MAX], *end = text + sizeof(text), *at = end;
	uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

	for (; places > 0; places--, left /= 10) {
		if (at == end && left % 10 == 0) {
			continue; /* a zero at the end of the fraction */
		}
		*--at = (char)('0' + left % 10);
	}
	if (at != end) {
		*--at = '.';
	} else if (point) {
		at -= 2;
		memcpy(at, ".0", 2);
	}
	at = digits_before(at, left);
	if (v < 0) {
		*--at = '-';
	}
	sbuf_add(b, at, (size_t)(end - at));
}

void json_put_f64(struct sbuf *b, double v)
{
	char text[40];
	int n;

	if (!isfinite(v)) {
		json_put_null(b);
		return;
	}
	if (v == trunc(v) && fabs(v) < 1e15 && !(v == 0 && signbit(v))) {
		json_put_fixed(b, (int64_t)v, 0, true); /* many are, and printf() is slow */
		return;
	}
	n = snprintf(text, sizeof(text), "%.15g", v);
	sbuf_add(b, text, (size_t)n);
	if (strspn(text, "-0123456789") == (size_t)n) {
		sbuf_add(b, ".0", 2);
	}
}

void json_put_usd(struct sbuf *b, int64_t micros)
{
	json_put_fixed(b, micros, 6, true);
}

void json_put_time(struct sbuf *b, int64_t us)
{
	char text[TIME_TEXT_MAX + 2] = "\"";
	size_t n;

	if (us == 0) {
		json_put_null(b);
		return;
	}
	n = 1 + strlen(format_time(us, text + 1));
	text[n++] = '"';
	sbuf_add(b, text, n);
}

void json_put_bool(struct sbuf *b, bool v)
{
	if (v) {
		sbuf_add(b, "true", 4);
	} else {
		sbuf_add(b, "false", 5);
	}
}

void json_put_null(struct sbuf *b)
{
	sbuf_add(b, "null", 4);
}
