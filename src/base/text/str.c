/*
 * Views of bytes and strict number parsing: the whole text must be the number, in range. Pure. A
 * parser that returns false leaves *ret unchanged.
 */
#include "base/base.h"
#include "base/text/str.h"

#include <errno.h>
#include <math.h>

struct str str_from(const char *s)
{
	return (struct str){ s, s != NULL ? strlen(s) : 0 };
}

bool str_eq(struct str a, const char *b)
{
	size_t n = b != NULL ? strlen(b) : 0;

	if (a.p == NULL || b == NULL) {
		return a.p == NULL && b == NULL;
	}
	return a.n == n && (n == 0 || memcmp(a.p, b, n) == 0);
}

bool str_empty(const char *s)
{
	return s == NULL || s[0] == '\0';
}

bool str_same(const char *a, const char *b)
{
	if (a == NULL || b == NULL) {
		return a == b;
	}
	return strcmp(a, b) == 0;
}

bool str_prefix(const char *s, const char *prefix)
{
	return s != NULL && strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_suffix(const char *s, const char *suffix)
{
	size_t n = strlen(suffix);
	size_t len = s != NULL ? strlen(s) : 0;

	return s != NULL && len >= n && memcmp(s + len - n, suffix, n) == 0;
}

bool str_copy(char *dst, size_t dst_size, const char *src)
{
	size_t n = src != NULL ? strlen(src) : 0;

	if (dst_size == 0) {
		return false;
	}
	if (n >= dst_size) {
		dst[0] = '\0';
		return false;
	}
	if (n > 0) {
		memcpy(dst, src, n);
	}
	dst[n] = '\0';
	return true;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

bool parse_i64(const char *s, int64_t min, int64_t max, int64_t *ret)
{
	/* strtoll() accepts leading space and a plus sign; we refuse both. */
	if (s == NULL || !(is_digit(s[0]) || (s[0] == '-' && is_digit(s[1])))) {
		return false;
	}
	char *end;
	errno = 0;
	long long v = strtoll(s, &end, 10);
	if (errno != 0 || *end != '\0' || v < min || v > max) {
		return false;
	}
	*ret = v;
	return true;
}

/* Accepts only [-]digits[.digits][e[+-]digits]; unlike strtod() no hex, nan or inf. */
static bool f64_shape(const char *s)
{
	s += *s == '-';
	if (!is_digit(*s)) {
		return false;
	}
	while (is_digit(*s)) {
		s++;
	}
	if (*s == '.') {
		s++;
		if (!is_digit(*s)) {
			return false;
		}
		while (is_digit(*s)) {
			s++;
		}
	}
	if (*s == 'e' || *s == 'E') {
		s++;
		s += *s == '-' || *s == '+';
		if (!is_digit(*s)) {
			return false;
		}
		while (is_digit(*s)) {
			s++;
		}
	}
	return *s == '\0';
}

bool parse_f64(const char *s, double min, double max, double *ret)
{
	if (s == NULL || !f64_shape(s)) {
		return false;
	}
	char *end;
	double v = strtod(s, &end);
	if (*end != '\0' || !isfinite(v) || v < min || v > max) {
		return false;
	}
	*ret = v;
	return true;
}

bool parse_usd_micros(const char *s, int64_t *ret)
{
	int64_t v = 0;
	int digits = 0;

	if (s == NULL || !is_digit(*s)) {
		return false;
	}
	for (; is_digit(*s); s++, digits++) {
		if (digits == 9) {
			return false;
		}
		v = v * 10 + (*s - '0');
	}
	v *= SPOT_MICROS_PER_USD;
	if (*s == '.') {
		int64_t unit = SPOT_MICROS_PER_USD / 10;

		s++;
		if (!is_digit(*s)) {
			return false;
		}
		for (; unit > 0 && is_digit(*s); s++, unit /= 10) {
			v += (*s - '0') * unit;
		}
		if (*s >= '5' && *s <= '9') {
			v++;
		}
		while (is_digit(*s)) {
			s++;
		}
	}
	if (*s != '\0' || v >= 1000000000 * SPOT_MICROS_PER_USD) { /* rounded up to ten digits */
		return false;
	}
	*ret = v;
	return true;
}

const char *format_usd(int64_t micros, char buf[USD_TEXT_MAX])
{
	uint64_t v = micros < 0 ? 0 - (uint64_t)micros : (uint64_t)micros;

	snprintf(buf, USD_TEXT_MAX, "%s%" PRIu64 ".%06" PRIu64, micros < 0 ? "-" : "", v / 1000000,
	    v % 1000000);
	return buf;
}

size_t str_utf8_len(const char *p)
{
	const unsigned char *s = (const unsigned char *)p;

	if (s[0] < 0x80) {
		return 1;
	}
	if (s[0] >= 0xc2 && s[0] <= 0xdf) {
		return (s[1] & 0xc0) == 0x80 ? 2 : 0;
	}
	if (s[0] >= 0xe0 && s[0] <= 0xef) {
		if ((s[1] & 0xc0) != 0x80 || (s[2] & 0xc0) != 0x80) {
			return 0;
		}
		bool overlong = s[0] == 0xe0 && s[1] < 0xa0;
		bool surrogate = s[0] == 0xed && s[1] >= 0xa0;
		return overlong || surrogate ? 0 : 3;
	}
	if (s[0] >= 0xf0 && s[0] <= 0xf4) {
		if ((s[1] & 0xc0) != 0x80 || (s[2] & 0xc0) != 0x80 || (s[3] & 0xc0) != 0x80) {
			return 0;
		}
		bool outside = (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90);
		return outside ? 0 : 4;
	}
	return 0;
}

bool str_utf8_mend(char *s, size_t n)
{
	bool good = true;

	for (size_t at = 0, len; at < n; at += len) {
		char four[5] = { 0 };

		if ((unsigned char)s[at] < 0x80) {
			len = 1;
			continue;
		}
		memcpy(four, s + at, MIN(n - at, (size_t)4));
		len = str_utf8_len(four);
		if (len == 0) {
			s[at] = '?';
			len = 1;
			good = false;
		}
	}
	return good;
}
