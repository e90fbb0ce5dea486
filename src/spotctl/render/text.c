/* Text for a terminal: widths of UTF-8, and nothing in it that could steer the terminal. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/ctl.h"

#include <stdarg.h>

/* One code point; malformed bytes count as one each and give U+FFFD. */
static size_t utf8_decode(const unsigned char *s, uint32_t *ret)
{
	size_t n = s[0] < 0x80            ? 1
	    : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
	    : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
	    : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
					  : 0;
	uint32_t v;

	*ret = 0xfffd;
	if (n < 2) {
		*ret = n == 1 ? s[0] : 0xfffd;
		return 1;
	}
	v = s[0] & (0xffu >> (n + 1));
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80) {
			return 1;
		}
		v = v << 6 | (s[i] & 0x3fu);
	}
	*ret = v;
	return n;
}

/* Combining marks take no column, East Asian wide forms and emoji two (unicode.org, UAX 11, in
 * blocks). */
static size_t point_width(uint32_t v)
{
	if ((v >= 0x300 && v <= 0x36f) || (v >= 0x200b && v <= 0x200f) ||
	    (v >= 0xfe00 && v <= 0xfe0f)) {
		return 0;
	}
	if ((v >= 0x1100 && v <= 0x115f) || (v >= 0x2e80 && v <= 0xa4cf) ||
	    (v >= 0xac00 && v <= 0xd7a3) || (v >= 0xf900 && v <= 0xfaff) ||
	    (v >= 0xfe30 && v <= 0xfe4f) || (v >= 0xff00 && v <= 0xff60) ||
	    (v >= 0x1f300 && v <= 0x1faff) || (v >= 0x20000 && v <= 0x3fffd)) {
		return 2;
	}
	return 1;
}

size_t text_width(const char *s)
{
	size_t width = 0;
	uint32_t v;

	while (*s != '\0') {
		s += utf8_decode((const unsigned char *)s, &v);
		width += point_width(v);
	}
	return width;
}

size_t text_prefix(const char *s, size_t width)
{
	size_t fits = 0;
	uint32_t v;

	while (s[fits] != '\0') {
		size_t n = utf8_decode((const unsigned char *)s + fits, &v), w = point_width(v);

		if (w > width) {
			break;
		}
		width -= w;
		fits += n;
	}
	return fits;
}

size_t text_break(const char *s, size_t width)
{
	size_t fits = 0, word = 0, used = 0;
	uint32_t v;

	while (s[fits] != '\0') {
		size_t n = utf8_decode((const unsigned char *)s + fits, &v);

		used += point_width(v);
		if (used > width && fits > 0) {
			return s[fits] == ' ' || word == 0 ? fits : word;
		}
		fits += n;
		word = s[fits] == ' ' ? fits : word;
	}
	return fits;
}

static bool control_char(uint32_t v)
{
	/* C0, DEL, C1, and the marks that reorder text */
	return v < 0x20 || (v >= 0x7f && v < 0xa0) || (v >= 0x202a && v <= 0x202e) ||
	    (v >= 0x2066 && v <= 0x2069);
}

static void clean_into(char *to, const char *s)
{
	uint32_t v;

	while (*s != '\0') {
		size_t n = utf8_decode((const unsigned char *)s, &v);

		if (*s == '\t' || *s == '\n' || *s == '\r') {
			*to++ = ' ';
		} else if (control_char(v) || (v == 0xfffd && n == 1)) {
			*to++ = '?';
		} else {
			memcpy(to, s, n);
			to += n;
		}
		s += n;
	}
	*to = '\0';
}

char *text_clean(struct arena *a, const char *s)
{
	char *to = arena_alloc(a, strlen(s) + 1); /* never grows */

	clean_into(to, s);
	return to;
}

void say(const char *fmt, ...)
{
	char line[4096], clean[4096];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	clean_into(clean, line);
	fflush(stdout); /* keeps the order if both streams go to one place */
	fprintf(stderr, "%s\n", clean);
}
