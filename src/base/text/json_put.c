#include "base/base.h"
#include "base/text/json_put.h"

#include "base/text/str.h"

#include <math.h>

#define DIGITS_MAX 24
#define REAL_DIGITS 15
#define REAL_LIMIT 1000000000000000 /* 10^REAL_DIGITS */

__extension__ typedef unsigned __int128 u128;

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
		*--at = '0';
		*--at = '.';
	}
	at = digits_before(at, left);
	if (v < 0) {
		*--at = '-';
	}
	sbuf_add(b, at, (size_t)(end - at));
}

/* ---- reals ----------------------------------------------------------------------------------- */

/* Returns the first 15 digits of v, and the decimal exponent of the first one. v is from 1e-4 to
 * below 1e15. The result is exact, with ties to even as printf() rounds. Any v is an integer of 53
 * bits over a power of two, and 10^18 times that integer fits into 128 bits. */
static uint64_t real_digits(double v, int *ret_exponent)
{
	static const double powers[] = { 1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6,
		1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14 };
	static const uint64_t scales[] = { 1, 10, 100, 1000, 10000, 100000, 1000000, 10000000,
		100000000, 1000000000, 10000000000, 100000000000, 1000000000000, 10000000000000,
		100000000000000, REAL_LIMIT, 10000000000000000, 100000000000000000,
		1000000000000000000 };
	int binary, at;
	uint64_t whole = (uint64_t)ldexp(frexp(v, &binary), 53), digits;
	int shift = 53 - binary; /* v = whole / 2^shift */
	u128 scaled, half = (u128)1 << (shift - 1), rest;

	/* 1233 / 4096 is the logarithm of 2: one too many at most. */
	at = MIN(MAX((binary * 1233 >> 12) + 4, 0), (int)ARRAY_LEN(powers) - 1);
	at -= at > 0 && v < powers[at];
	scaled = (u128)whole * scales[ARRAY_LEN(scales) - 1 - (size_t)at];
	digits = (uint64_t)(scaled >> shift);
	rest = scaled & ((half << 1) - 1);
	digits += rest > half || (rest == half && (digits & 1) != 0);
	*ret_exponent = at - 4;
	return digits;
}

/* digits[0] is the first of 15 digits, which counts 10^exponent. Drops zeros at the end. */
static void real_put(struct sbuf *b, bool minus, const char *digits, int exponent)
{
	char text[2 * DIGITS_MAX], *at = text;
	size_t n = REAL_DIGITS, whole = exponent < 0 ? 0 : (size_t)exponent + 1;

	while (n > whole && digits[n - 1] == '0') {
		n--;
	}
	*at = '-';
	at += minus;
	if (exponent < 0) {
		memcpy(at, "0.0000", 6);
		at += 1 - exponent;
	}
	memcpy(at, digits, whole);
	at += whole;
	if (exponent >= 0) {
		*at++ = '.';
	}
	memcpy(at, digits + whole, n - whole);
	at += n - whole;
	if (n == whole) {
		*at++ = '0';
	}
	sbuf_add(b, text, (size_t)(at - text));
}

/* As snprintf() with %.15g writes it, several times faster. False: it has to. */
static bool real_put_fast(struct sbuf *b, double v)
{
	char text[DIGITS_MAX], *end = text + sizeof(text);
	double size = fabs(v);
	uint64_t digits;
	int exponent;

	if (!(size >= 1e-4 && size < 1e15)) {
		return false;
	}
	digits = real_digits(size, &exponent);
	if (digits >= REAL_LIMIT) { /* rounded up to the next power of ten */
		digits /= 10;
		exponent++;
	}
	if (exponent >= REAL_DIGITS) {
		return false;
	}
	real_put(b, v < 0, digits_before(end, digits), exponent);
	return true;
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
		json_put_fixed(b, (int64_t)v, 0, true);
		return;
	}
	if (real_put_fast(b, v)) {
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

/* ---- members --------------------------------------------------------------------------------- */

static void name_put(struct sbuf *b, const char *name, size_t n, const char *ending)
{
	bool first = b->n > 0 && b->p[b->n - 1] == '{';

	sbuf_add(b, &",\""[first ? 1 : 0], first ? 1 : 2);
	sbuf_add(b, name, n);
	sbuf_puts(b, ending);
}

void json_add_name(struct sbuf *b, const char *name)
{
	name_put(b, name, strlen(name), "\":");
}

void json_add_i64(struct sbuf *b, const char *name, int64_t v)
{
	json_add_name(b, name);
	json_put_i64(b, v);
}

void json_add_f64(struct sbuf *b, const char *name, double v)
{
	json_add_name(b, name);
	json_put_f64(b, v);
}

void json_add_bool(struct sbuf *b, const char *name, bool v)
{
	json_add_name(b, name);
	json_put_bool(b, v);
}

void json_add_null(struct sbuf *b, const char *name)
{
	json_add_name(b, name);
	json_put_null(b);
}

void json_add_text(struct sbuf *b, const char *name, const char *text)
{
	json_add_name(b, name);
	if (text == NULL) {
		json_put_null(b);
	} else {
		json_put_str(b, text, strlen(text));
	}
}

void json_add_id(struct sbuf *b, const char *name, char letter, int64_t id)
{
	char head[2] = { '"', letter };

	json_add_name(b, name);
	sbuf_add(b, head, 2);
	json_put_i64(b, id);
	sbuf_putc(b, '"');
}

void json_add_money(struct sbuf *b, const char *name, int64_t micros)
{
	size_t n = strlen(name);

	name_put(b, name, n, "_micros\":");
	json_put_i64(b, micros);
	name_put(b, name, n, "_usd\":");
	json_put_usd(b, micros);
}
