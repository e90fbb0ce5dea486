/* Views of bytes, and strict parsing of numbers: the whole text must be the number. */
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
/* Length of the valid UTF-8 sequence at s, which ends with NUL (1..4); 0 if it is not one. RFC 3629
 * table. */
size_t str_utf8_len(const char *s);
/* Each byte that is of no UTF-8 sequence becomes '?'. False where there was one. */
bool str_utf8_mend(char *s, size_t n);
/* false: does not fit (dst becomes ""). */
NODISCARD bool str_copy(char *dst, size_t dst_size, const char *src);
NODISCARD bool parse_i64(const char *s, int64_t min, int64_t max, int64_t *ret);
NODISCARD bool parse_f64(const char *s, double min, double max, double *ret); /* no nan, no inf */
/* "0.412300" or "12" dollars to micro-dollars, exact decimal, rounds half up past 6 digits; refuses
 * signs, exponents and more than 9 integer digits. */
NODISCARD bool parse_usd_micros(const char *s, int64_t *ret);
/* "90s" "5m" "2h" "3d" "250ms" "15us", falling units together ("2h05m"), or plain seconds. */
NODISCARD bool parse_duration_us(const char *s, int64_t *ret);
/* RFC 3339 / ISO 8601 UTC ("2026-01-02T03:04:05Z", fraction and +hh:mm accepted). */
NODISCARD bool parse_time_us(const char *s, int64_t *ret);
/* "Sun, 06 Nov 1994 08:49:37 GMT", the one form of HTTP that may be generated today (RFC 9110,
 * 5.6.7). NULL and dates before 1970 are refused. */
NODISCARD bool parse_http_date_us(const char *s, int64_t *ret);
#define TIME_TEXT_MAX 40
const char *format_time(int64_t us, char buf[TIME_TEXT_MAX]); /* "2026-01-02T03:04:05.000006Z" */
const char *format_time_s(int64_t us, char buf[TIME_TEXT_MAX]); /* "2026-01-02T03:04:05Z" */
#define USD_TEXT_MAX 32
const char *format_usd(int64_t micros, char buf[USD_TEXT_MAX]); /* "1.234567", sign kept */
const char *format_duration(int64_t us, char buf[32]); /* "2h05m", "41s", "350ms" */
/* application/x-www-form-urlencoded pieces. encode: RFC 3986 unreserved kept (-_.~). */
char *url_encode(struct arena *a, const char *s, bool keep_slash);
NODISCARD bool url_decode(struct arena *a, struct str s, bool plus_is_space, char **ret);

#endif
