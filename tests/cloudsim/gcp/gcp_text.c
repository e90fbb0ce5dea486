/* Ids, times and links as Google writes them. */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <stdarg.h>

const char *gcp_link(struct arena *a, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return arena_printf(a, GCP_LINKS GCP_P "%s", text);
}

static int64_t days_from_civil(int64_t y, int64_t m, int64_t d)
{
	y -= m <= 2;
	int64_t era = y / 400, yoe = y - era * 400;
	int64_t doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;

	return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

/* The n-th Sunday of a month, as days since 1970-01-01 (a Thursday). */
static int64_t sunday_find(int64_t year, int64_t month, int64_t nth)
{
	int64_t first = days_from_civil(year, month, 1);

	return first + (10 - first % 7) % 7 + (nth - 1) * 7;
}

/* Pacific time: daylight saving from the second Sunday of March, 2 o'clock, to the first of
 * November. */
int64_t gcp_pacific_offset(int64_t us)
{
	char text[TIME_TEXT_MAX];
	int64_t year, s = us / SPOT_US_PER_S;

	format_time_s(us, text);
	text[4] = '\0';
	if (!parse_i64(text, 1970, 9999, &year)) {
		return -8 * 3600;
	}
	return s >= sunday_find(year, 3, 2) * 86400 + 10 * 3600 &&
		s < sunday_find(year, 11, 1) * 86400 + 9 * 3600
	    ? -7 * 3600
	    : -8 * 3600;
}

const char *gcp_time(struct arena *a, int64_t us)
{
	char text[TIME_TEXT_MAX];
	int64_t offset = gcp_pacific_offset(us);

	format_time_s(us + offset * SPOT_US_PER_S, text);
	return arena_printf(a, "%.19s.%03d-%02d:00", text, (int)(us / 1000 % 1000),
	    (int)(-offset / 3600));
}

const char *gcp_u64(struct arena *a, uint64_t v)
{
	return arena_printf(a, "%" PRIu64, v);
}

/* Nineteen digits, as the vendor's ids are. */
uint64_t gcp_new_id(struct sim *s)
{
	return UINT64_C(1000000000000000000) + rng_below(&s->rng, UINT64_C(8000000000000000000));
}

uint64_t gcp_hash_id(const char *text)
{
	return UINT64_C(1000000000000000000) +
	    hash_str(HASH_START, text) % UINT64_C(8000000000000000000);
}

const char *gcp_fingerprint(struct arena *a, uint64_t seed)
{
	uint8_t raw[8];

	seed = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
	for (size_t k = 0; k < 8; k++) {
		raw[k] = (uint8_t)(seed >> (8 * k));
	}
	return base64_encode(a, raw, sizeof(raw));
}

const char *gcp_last(const char *url)
{
	const char *p = strrchr(url, '/');

	return p ? p + 1 : url;
}
