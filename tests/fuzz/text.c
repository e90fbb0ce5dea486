/* The small parsers: numbers, money, durations, times, URLs. The first byte picks one. Each agrees
 * with its printer. */
#include "base/base.h"
#include "fuzz.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <math.h>

static void one_url(struct arena *a, const char *s, size_t n)
{
	char *encoded = url_encode(a, s, false), *back = NULL, *odd = NULL;
	char hidden[256];

	FUZZ_CHECK(url_decode(a, str_from(encoded), false, &back) && strcmp(back, s) == 0);
	if (url_decode(a, (struct str){ s, n }, true, &odd)) {
		FUZZ_CHECK(odd != NULL && strlen(odd) <= n);
	}
	redact_url(s, hidden, sizeof(hidden));
	FUZZ_CHECK(memchr(hidden, '\0', sizeof(hidden)) != NULL);
}

static void one_time(const char *s)
{
	char text[TIME_TEXT_MAX];
	int64_t us = 0, back = 0;

	if (!parse_time_us(s, &us)) {
		return;
	}
	format_time(us, text);
	FUZZ_CHECK(parse_time_us(text, &back) && back == us);
	format_time_s(us, text);
	FUZZ_CHECK(parse_time_us(text, &back) && back <= us && us - back < SPOT_US_PER_S);
}

static void one_duration(const char *s)
{
	char text[32];
	int64_t us = 0, back = 0;

	if (parse_duration_us(s, &us)) {
		FUZZ_CHECK(us >= 0);
		format_duration(us, text);
		FUZZ_CHECK(text[0] != '\0' && parse_duration_us(text, &back) && back <= us);
	}
}

static void one_usd(const char *s)
{
	char text[USD_TEXT_MAX];
	int64_t micros = 0, back = 0;

	if (parse_usd_micros(s, &micros)) {
		FUZZ_CHECK(micros >= 0);
		format_usd(micros, text);
		FUZZ_CHECK(parse_usd_micros(text, &back) && back == micros);
	}
}

static void one_number(const char *s)
{
	char text[32];
	int64_t i = 0, again = 0;
	double d = 0;

	if (parse_i64(s, INT64_MIN, INT64_MAX, &i)) {
		snprintf(text, sizeof(text), "%" PRId64, i);
		FUZZ_CHECK(parse_i64(text, i, i, &again) && again == i);
	}
	if (parse_i64(s, -5, 5, &i)) {
		FUZZ_CHECK(i >= -5 && i <= 5);
	}
	if (parse_f64(s, -1e300, 1e300, &d)) {
		FUZZ_CHECK(isfinite(d));
	}
}

int fuzz_one(const uint8_t *p, size_t n)
{
	AUTO(arena) struct arena *a = arena_new(0);
	char *s, small[16];

	if (n == 0) {
		return 0;
	}
	s = fuzz_string(a, p + 1, n - 1);
	switch (p[0] % 5) {
	case 0:
		one_url(a, s, strlen(s));
		break;
	case 1:
		one_time(s);
		break;
	case 2:
		one_duration(s);
		break;
	case 3:
		one_usd(s);
		break;
	default:
		one_number(s);
		break;
	}
	if (str_copy(small, sizeof(small), s)) {
		FUZZ_CHECK(strcmp(small, s) == 0);
	} else {
		FUZZ_CHECK(small[0] == '\0');
	}
	return 0;
}
