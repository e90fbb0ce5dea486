/* Views of bytes, and strict parsers: the whole text must be the value. A parser that returns false
 * leaves *ret unchanged. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include "base/base.h"

struct arena;
#define STR_LIT(s) ((struct str){ (s), sizeof(s) - 1 })
struct str str_from(const char *s); /* NULL gives {NULL,0} */
bool str_eq(struct str a, const char *b);
bool str_empty(const char *s); /* NULL or "" */
bool str_same(const char *a, const char *b); /* NULL equals only NULL */
bool str_prefix(const char *s, const char *prefix);
bool str_suffix(const char *s, const char *suffix);
/* Returns the length, 1 to 4, of the UTF-8 sequence at s (RFC 3629); 0 if it is invalid. s ends
 * with NUL. */
size_t str_utf8_len(const char *s);
/* Replaces each byte outside a UTF-8 sequence by '?'. Returns false if there was one. */
bool str_utf8_mend(char *s, size_t n);
/* Copies src with its NUL. False: it does not fit, and dst is "". */
NODISCARD bool str_copy(char *dst, size_t dst_size, const char *src);
NODISCARD bool parse_i64(const char *s, int64_t min, int64_t max, int64_t *ret);
NODISCARD bool parse_f64(const char *s, double min, double max, double *ret); /* no nan, no inf */
/* Converts dollars ("0.412300", "12") to micro-dollars, exactly. Rounds half up after 6 decimals.
 * Refuses signs, exponents and more than 9 digits before the point. */
NODISCARD bool parse_usd_micros(const char *s, int64_t *ret);
/* Takes "90s" "5m" "2h" "3d" "250ms" "15us", units in falling order ("2h05m"), or bare seconds. */
NODISCARD bool parse_duration_us(const char *s, int64_t *ret);
/* Takes RFC 3339 / ISO 8601: "2026-01-02T03:04:05Z", also with a fraction or a zone (+hh:mm). */
NODISCARD bool parse_time_us(const char *s, int64_t *ret);
/* Takes "Sun, 06 Nov 1994 08:49:37 GMT", the one form that servers may send today (RFC 9110,
 * 5.6.7). Refuses NULL and dates before 1970. */
NODISCARD bool parse_http_date_us(const char *s, int64_t *ret);
#define TIME_TEXT_MAX 40
const char *format_time(int64_t us, char buf[TIME_TEXT_MAX]); /* "2026-01-02T03:04:05.000006Z" */
const char *format_time_s(int64_t us, char buf[TIME_TEXT_MAX]); /* "2026-01-02T03:04:05Z" */
#define USD_TEXT_MAX 32
const char *format_usd(int64_t micros, char buf[USD_TEXT_MAX]); /* "1.234567", sign kept */
const char *format_duration(int64_t us, char buf[32]); /* "2h05m", "41s", "350ms" */
int hex_value(char c); /* 0 to 15; -1: no hexadecimal digit */
/* Percent-encodes all but the unreserved characters of RFC 3986 (letters, digits, -_.~). */
char *url_encode(struct arena *a, const char *s, bool keep_slash);
/* Decodes into a. False: a broken escape or a NUL. */
NODISCARD bool url_decode(struct arena *a, struct str s, bool plus_is_space, char **ret);

#endif
