/*
 * Times and durations as text, in UTC. This file computes the calendar itself (proleptic
 * Gregorian), so that the machine's zone and locale do not matter. Pure.
 */
#include "base/base.h"
#include "base/text/str.h"

#define US_PER_DAY (INT64_C(24) * SPOT_US_PER_HOUR)

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Returns days since 1970-01-01. Counts years from March, so that the leap day is the last day. */
static int64_t days_from_date(int64_t y, int64_t m, int64_t d)
{
	y -= m <= 2;
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	int64_t yoe = y - era * 400;
	int64_t doy = (153 * (m > 2 ? m - 3 : m + 9) + 2) / 5 + d - 1;
	int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;

	return era * 146097 + doe - 719468;
}

static void date_from_days(int64_t days, int64_t *y, int *m, int *d)
{
	days += 719468;
	int64_t era = (days >= 0 ? days : days - 146096) / 146097;
	int64_t doe = days - era * 146097;
	int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	int64_t mp = (5 * doy + 2) / 153;

	*d = (int)(doy - (153 * mp + 2) / 5 + 1);
	*m = (int)(mp < 10 ? mp + 3 : mp - 9);
	*y = yoe + era * 400 + (*m <= 2);
}

static bool digits_read(const char **s, int n, int64_t *ret)
{
	int64_t v = 0;

	for (int i = 0; i < n; i++, (*s)++) {
		if (!is_digit(**s)) {
			return false;
		}
		v = v * 10 + (**s - '0');
	}
	*ret = v;
	return true;
}

static bool char_expect(const char **s, char c)
{
	if (**s != c) {
		return false;
	}
	(*s)++;
	return true;
}

static bool parse_date(const char **s, int64_t *ret_days)
{
	static const int8_t month_days[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	int64_t y, m, d;

	if (!digits_read(s, 4, &y) || !char_expect(s, '-') || !digits_read(s, 2, &m) ||
	    !char_expect(s, '-') || !digits_read(s, 2, &d)) {
		return false;
	}
	bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
	if (y < 1 || m < 1 || m > 12 || d < 1 || d > month_days[m - 1] ||
	    (m == 2 && d == 29 && !leap)) {
		return false;
	}
	*ret_days = days_from_date(y, m, d);
	return true;
}

/* Reads hh:mm:ss[.fraction]. A leap second (60) counts as the next second. */
static bool parse_clock(const char **s, int64_t *ret_us)
{
	int64_t h, m, sec, frac = 0, unit = SPOT_US_PER_S / 10;

	if (!digits_read(s, 2, &h) || !char_expect(s, ':') || !digits_read(s, 2, &m) ||
	    !char_expect(s, ':') || !digits_read(s, 2, &sec) || h > 23 || m > 59 || sec > 60) {
		return false;
	}
	if (**s == '.' || **s == ',') {
		(*s)++;
		if (!is_digit(**s)) {
			return false;
		}
		for (; is_digit(**s); (*s)++, unit /= 10) {
			frac += (**s - '0') * unit;
		}
	}
	*ret_us = ((h * 60 + m) * 60 + sec) * SPOT_US_PER_S + frac;
	return true;
}

/* Reads Z, +hh:mm, +hhmm or +hh. */
static bool parse_zone(const char **s, int64_t *ret_us)
{
	int64_t h, m = 0;
	char sign = **s;

	if (sign == 'Z' || sign == 'z') {
		(*s)++;
		*ret_us = 0;
		return true;
	}
	if (sign != '+' && sign != '-') {
		return false;
	}
	(*s)++;
	if (!digits_read(s, 2, &h)) {
		return false;
	}
	if (**s == ':' || is_digit(**s)) {
		*s += **s == ':';
		if (!digits_read(s, 2, &m)) {
			return false;
		}
	}
	if (h > 23 || m > 59) {
		return false;
	}
	*ret_us = (h * 60 + m) * 60 * SPOT_US_PER_S * (sign == '-' ? -1 : 1);
	return true;
}

bool parse_time_us(const char *s, int64_t *ret)
{
	int64_t days, us, zone;

	if (s == NULL || !parse_date(&s, &days)) {
		return false;
	}
	if (*s != 'T' && *s != 't' && *s != ' ') {
		return false;
	}
	s++;
	if (!parse_clock(&s, &us) || !parse_zone(&s, &zone) || *s != '\0') {
		return false;
	}
	us += days * US_PER_DAY - zone;
	/* A leap second or a zone may lead out of the years 1 to 9999. */
	if (us < days_from_date(1, 1, 1) * US_PER_DAY ||
	    us >= days_from_date(10000, 1, 1) * US_PER_DAY) {
		return false;
	}
	*ret = us;
	return true;
}

bool parse_http_date_us(const char *s, int64_t *ret)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	char iso[TIME_TEXT_MAX];

	if (s == NULL || strlen(s) != 29 || s[3] != ',' || s[4] != ' ' || s[7] != ' ' ||
	    s[11] != ' ' || s[16] != ' ' || strcmp(s + 25, " GMT") != 0) {
		return false;
	}
	char name[4] = { s[8], s[9], s[10], '\0' };
	const char *hit = strstr(months, name);
	if (hit == NULL || (hit - months) % 3 != 0) {
		return false;
	}
	snprintf(iso, sizeof(iso), "%.4s-%02d-%.2sT%.8sZ", s + 12, (int)((hit - months) / 3 + 1),
	    s + 5, s + 17);
	return parse_time_us(iso, ret) && *ret >= 0;
}

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

/* Writes v in n digits. */
static char *digits_write(char *p, int64_t v, int n)
{
	for (int i = n - 1; i >= 0; i--, v /= 10) {
		p[i] = (char)('0' + v % 10);
	}
	return p + n;
}

/* Writes the text without its zone and returns its end. A list has thousands of times, so this
 * avoids snprintf() for the years 0 to 9999. */
static char *format_seconds(int64_t us, char buf[TIME_TEXT_MAX], int *ret_frac)
{
	int64_t days = floor_div(us, US_PER_DAY);
	int64_t rest = us % US_PER_DAY + (us % US_PER_DAY < 0 ? US_PER_DAY : 0);
	int64_t s = rest / SPOT_US_PER_S;
	char *p = buf;
	int64_t y;
	int m, d;

	date_from_days(days, &y, &m, &d);
	*ret_frac = (int)(rest % SPOT_US_PER_S);
	if (y < 0 || y > 9999) {
		return buf +
		    snprintf(buf, TIME_TEXT_MAX, "%04" PRId64 "-%02d-%02dT%02d:%02d:%02d", y, m, d,
			(int)(s / 3600), (int)(s / 60 % 60), (int)(s % 60));
	}
	p = digits_write(p, y, 4);
	*p++ = '-';
	p = digits_write(p, m, 2);
	*p++ = '-';
	p = digits_write(p, d, 2);
	*p++ = 'T';
	p = digits_write(p, s / 3600, 2);
	*p++ = ':';
	p = digits_write(p, s / 60 % 60, 2);
	*p++ = ':';
	return digits_write(p, s % 60, 2);
}

const char *format_time(int64_t us, char buf[TIME_TEXT_MAX])
{
	int frac;
	char *p = format_seconds(us, buf, &frac);

	*p++ = '.';
	p = digits_write(p, frac, 6);
	memcpy(p, "Z", 2);
	return buf;
}

const char *format_time_s(int64_t us, char buf[TIME_TEXT_MAX])
{
	int frac;
	char *p = format_seconds(us, buf, &frac);

	memcpy(p, "Z", 2);
	return buf;
}

static const struct duration_unit {
	const char *name;
	int64_t us;
} duration_units[] = {
	{ "d", INT64_C(86400000000) },
	{ "h", SPOT_US_PER_HOUR },
	{ "m", INT64_C(60000000) },
	{ "s", SPOT_US_PER_S },
	{ "ms", 1000 },
	{ "us", 1 },
};

/* Returns the unit at s, which ends at a digit or at the end of the text; NULL if unknown. */
static const struct duration_unit *unit_at(const char *s, size_t *ret_n)
{
	size_t n = 0;

	while (s[n] != '\0' && !is_digit(s[n])) {
		n++;
	}
	*ret_n = n;
	for (size_t i = 0; i < ARRAY_LEN(duration_units); i++) {
		if (strlen(duration_units[i].name) == n &&
		    memcmp(duration_units[i].name, s, n) == 0) {
			return &duration_units[i];
		}
	}
	return NULL;
}

bool parse_duration_us(const char *s, int64_t *ret)
{
	const struct duration_unit *last = NULL;
	int64_t total = 0;

	if (s == NULL || *s == '\0') {
		return false;
	}
	while (*s != '\0') {
		int64_t v = 0;
		size_t n;

		if (!is_digit(*s)) {
			return false;
		}
		for (; is_digit(*s); s++) {
			if (__builtin_mul_overflow(v, 10, &v) ||
			    __builtin_add_overflow(v, *s - '0', &v)) {
				return false;
			}
		}
		const struct duration_unit *u = unit_at(s, &n);
		if (n == 0 && last == NULL) {
			u = &duration_units[3]; /* a bare number is seconds */
		}
		/* format_duration() writes "2h05m": units must get smaller. */
		if (u == NULL || (last != NULL && u <= last)) {
			return false;
		}
		if (__builtin_mul_overflow(v, u->us, &v) ||
		    __builtin_add_overflow(total, v, &total)) {
			return false;
		}
		last = u;
		s += n;
	}
	*ret = total;
	return true;
}

const char *format_duration(int64_t us, char buf[32])
{
	const char *sign = us < 0 ? "-" : "";
	uint64_t v = us < 0 ? 0 - (uint64_t)us : (uint64_t)us;
	uint64_t s = v / 1000000;

	if (v == 0) {
		snprintf(buf, 32, "0s");
	} else if (v < 1000) {
		snprintf(buf, 32, "%s%" PRIu64 "us", sign, v);
	} else if (s == 0) {
		snprintf(buf, 32, "%s%" PRIu64 "ms", sign, v / 1000);
	} else if (s < 60) {
		snprintf(buf, 32, "%s%" PRIu64 "s", sign, s);
	} else if (s < 3600) {
		snprintf(buf, 32, "%s%" PRIu64 "m%02" PRIu64 "s", sign, s / 60, s % 60);
	} else if (s < 86400) {
		snprintf(buf, 32, "%s%" PRIu64 "h%02" PRIu64 "m", sign, s / 3600, s / 60 % 60);
	} else {
		snprintf(buf, 32, "%s%" PRIu64 "d%02" PRIu64 "h", sign, s / 86400, s / 3600 % 24);
	}
	return buf;
}
