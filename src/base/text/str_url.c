/* Percent encoding after RFC 3986. Decoding refuses NUL, since the result is a C string. */
#include "base/base.h"
#include "base/text/str.h"

static bool is_unreserved(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	    c == '-' || c == '_' || c == '.' || c == '~';
}

char *url_encode(struct arena *a, const char *s, bool keep_slash)
{
	static const char hex[] = "0123456789ABCDEF";
	char *out = arena_alloc(a, strlen(s) * 3 + 1);
	char *at = out;

	for (; *s != '\0'; s++) {
		unsigned char c = (unsigned char)*s;

		if (is_unreserved(c) || (keep_slash && c == '/')) {
			*at++ = (char)c;
		} else {
			*at++ = '%';
			*at++ = hex[c >> 4];
			*at++ = hex[c & 15];
		}
	}
	*at = '\0';
	return out;
}

int hex_value(char c)
{
	if (c >= '0' && c <= '9') {
		return c - '0';
	}
	if (c >= 'a' && c <= 'f') {
		return c - 'a' + 10;
	}
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool url_decode(struct arena *a, struct str s, bool plus_is_space, char **ret)
{
	char *out = arena_alloc(a, s.n + 1);
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (c == '%') {
			int hi = i + 1 < s.n ? hex_value(s.p[i + 1]) : -1;
			int lo = i + 2 < s.n ? hex_value(s.p[i + 2]) : -1;

			if (hi < 0 || lo < 0) {
				return false;
			}
			c = (char)(hi * 16 + lo);
			i += 2;
		} else if (c == '+' && plus_is_space) {
			c = ' ';
		}
		if (c == '\0') {
			return false;
		}
		out[n++] = c;
	}
	out[n] = '\0';
	*ret = out;
	return true;
}
