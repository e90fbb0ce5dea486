/* Time zones: TZif files of the system's zone database, and the POSIX rule at their end. */
#include "base/base.h"
#include "base/text/str.h"
#include "base/text/zone.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX 262144 /* bytes */
#define NAME_MAX_BYTES 64
#define HEADER 44
#define DAY_S INT64_C(86400)

/* Mm.w.d/time of a POSIX rule; a day of the year where month is 0. */
struct rule {
	int month, week, day;
	bool leap_counts; /* month 0: day n counts 29 February */
	int64_t at_s; /* of the local day */
};
struct zone {
	const int64_t *at; /* transitions, rising */
	const int32_t *offset; /* since each of them */
	size_t n;
	int64_t first; /* offset before the first */
	bool ruled; /* after the last: */
	int64_t std, dst; /* offsets */
	bool has_dst;
	struct rule begin, end; /* of dst */
};

static const struct zone utc = { .ruled = true };

int64_t civil_day(int64_t y, int64_t m, int64_t d)
{
	/* Days from civil, by eras of 400 years that begin in March. */
	int64_t era, yoe, doy;

	y -= m <= 2;
	era = (y >= 0 ? y : y - 399) / 400;
	yoe = y - era * 400;
	doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
	return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

static int64_t year_of(int64_t utc_s)
{
	int64_t days = utc_s / DAY_S - (utc_s % DAY_S < 0), y = 1970 + days / 366;

	while (civil_day(y + 1, 1, 1) <= days) {
		y++;
	}
	return y;
}

static bool is_leap(int64_t y)
{
	return (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
}

/* The local time of a rule in a year, in seconds as if it were UTC. */
static int64_t rule_local_s(const struct rule *r, int64_t year)
{
	int64_t first, weekday, day;

	if (r->month == 0) {
		day = civil_day(year, 1, 1) + r->day;
		day -= !r->leap_counts ? 1 : 0;
		day += !r->leap_counts && is_leap(year) && r->day >= 60;
		return day * DAY_S + r->at_s;
	}
	first = civil_day(year, r->month, 1);
	weekday = (first + 4) % 7; /* 1970-01-01 was a Thursday */
	day = first + (r->day - weekday + 7) % 7 + 7 * (int64_t)(r->week - 1);
	if (day >=
	    (r->month == 12 ? civil_day(year + 1, 1, 1) : civil_day(year, r->month + 1, 1))) {
		day -= 7;
	}
	return day * DAY_S + r->at_s;
}

static int64_t rule_offset_s(const struct zone *z, int64_t utc_s)
{
	int64_t year = year_of(utc_s + z->std), begin, end;
	bool inside;

	if (!z->has_dst) {
		return z->std;
	}
	begin = rule_local_s(&z->begin, year) - z->std;
	end = rule_local_s(&z->end, year) - z->dst;
	inside = begin < end ? utc_s >= begin && utc_s < end : utc_s >= begin || utc_s < end;
	return inside ? z->dst : z->std;
}

int64_t zone_offset_s(const struct zone *z, int64_t utc_s)
{
	size_t from = 0, to = z->n;

	if (z->n == 0 || utc_s < z->at[0]) {
		return z->n == 0 && z->ruled ? rule_offset_s(z, utc_s) : z->first;
	}
	if (z->ruled && utc_s >= z->at[z->n - 1]) {
		return rule_offset_s(z, utc_s);
	}
	while (to - from > 1) {
		size_t mid = from + (to - from) / 2;

		if (z->at[mid] <= utc_s) {
			from = mid;
		} else {
			to = mid;
		}
	}
	return z->offset[from];
}

int64_t zone_utc_s(const struct zone *z, int64_t local_s)
{
	int64_t before = zone_offset_s(z, local_s - DAY_S),
		after = zone_offset_s(z, local_s + DAY_S);
	int64_t early = local_s - MAX(before, after), late = local_s - MIN(before, after);

	if (zone_offset_s(z, early) == local_s - early) {
		return early;
	}
	if (zone_offset_s(z, late) == local_s - late) {
		return late;
	}
	/* Skipped: the clocks jump between the two. */
	while (late - early > 1) {
		int64_t mid = early + (late - early) / 2;

		if (zone_offset_s(z, mid) == before) {
			early = mid;
		} else {
			late = mid;
		}
	}
	return late;
}

/* ---- the POSIX rule -------------------------------------------------------------------------- */

static bool digits_read(const char **p, int64_t max, int64_t *ret)
{
	int64_t v = 0;

	if (!isdigit((unsigned char)**p)) {
		return false;
	}
	for (; isdigit((unsigned char)**p) && v <= max; ++*p) {
		v = v * 10 + (**p - '0');
	}
	*ret = v;
	return v <= max;
}

/* [+-]hh[:mm[:ss]] in seconds. */
static bool clock_read(const char **p, int64_t *ret)
{
	int64_t sign = **p == '-' ? -1 : 1, h, m = 0, s = 0;

	*p += **p == '-' || **p == '+';
	if (!digits_read(p, 167, &h)) {
		return false;
	}
	if (**p == ':') {
		++*p;
		if (!digits_read(p, 59, &m)) {
			return false;
		}
	}
	if (**p == ':') {
		++*p;
		if (!digits_read(p, 59, &s)) {
			return false;
		}
	}
	*ret = sign * (h * 3600 + m * 60 + s);
	return true;
}

static bool abbreviation_skip(const char **p)
{
	const char *from = *p;

	if (**p == '<') {
		*p += strcspn(*p, ">");
		return *(*p)++ == '>';
	}
	while (isalpha((unsigned char)**p)) {
		++*p;
	}
	return *p - from >= 3;
}

static bool rule_read(const char **p, struct rule *r)
{
	int64_t m = 0, w = 0, d;

	*r = (struct rule){ .at_s = 7200, .leap_counts = true };
	if (*(*p)++ != ',') {
		return false;
	}
	if (**p == 'M') {
		++*p;
		if (!digits_read(p, 12, &m) || m == 0 || *(*p)++ != '.' || !digits_read(p, 5, &w) ||
		    w == 0 || *(*p)++ != '.' || !digits_read(p, 6, &d)) {
			return false;
		}
	} else {
		if (**p == 'J') {
			r->leap_counts = false;
			++*p;
		}
		if (!digits_read(p, 365, &d)) {
			return false;
		}
	}
	r->month = (int)m;
	r->week = (int)w;
	r->day = (int)d;
	if (**p == '/') {
		++*p;
		return clock_read(p, &r->at_s);
	}
	return true;
}

/* "CET-1CEST,M3.5.0,M10.5.0/3" */
static bool footer_read(const char *p, struct zone *z)
{
	int64_t v;

	if (!abbreviation_skip(&p) || !clock_read(&p, &v)) {
		return false;
	}
	z->std = -v;
	if (*p == '\0') {
		return true;
	}
	if (!abbreviation_skip(&p)) {
		return false;
	}
	z->dst = z->std + 3600;
	if (*p != ',') {
		if (!clock_read(&p, &v)) {
			return false;
		}
		z->dst = -v;
	}
	z->has_dst = true;
	return rule_read(&p, &z->begin) && rule_read(&p, &z->end) && *p == '\0';
}

/* ---- the file -------------------------------------------------------------------------------- */

static int64_t big_endian(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++) {
		v = v << 8 | p[i];
	}
	return n == 4 ? (int32_t)(uint32_t)v : (int64_t)v;
}

/* The counts of a header: isut, isstd, leap, time, type, char. */
struct counts {
	size_t isut, isstd, leap, time, type, chars;
};

static bool header_read(const uint8_t *p, size_t n, struct counts *c)
{
	size_t *const into[] = { &c->isut, &c->isstd, &c->leap, &c->time, &c->type, &c->chars };

	if (n < HEADER || memcmp(p, "TZif", 4) != 0) {
		return false;
	}
	for (size_t i = 0; i < ARRAY_LEN(into); i++) {
		*into[i] = (size_t)(uint32_t)big_endian(p + 20 + 4 * i, 4);
		if (*into[i] > FILE_MAX) {
			return false;
		}
	}
	return c->type > 0;
}

static size_t block_bytes(const struct counts *c, size_t time)
{
	return c->time * (time + 1) + c->type * 6 + c->chars + c->leap * (time + 4) + c->isstd +
	    c->isut;
}

static bool block_read(struct arena *a, const uint8_t *p, const struct counts *c, struct zone *z)
{
	const uint8_t *types = p + c->time * 9;
	int64_t *at = arena_array(a, c->time + 1, sizeof(*at));
	int32_t *offset = arena_array(a, c->time + 1, sizeof(*offset));

	for (size_t i = 0; i < c->time; i++) {
		size_t type = p[c->time * 8 + i];

		at[i] = big_endian(p + 8 * i, 8);
		if (type >= c->type || (i > 0 && at[i] <= at[i - 1])) {
			return false;
		}
		offset[i] = (int32_t)big_endian(types + 6 * type, 4);
	}
	*z = (struct zone){ .at = at,
		.offset = offset,
		.n = c->time,
		.first = big_endian(types, 4) };
	return true;
}

enum spot_rc zone_parse(struct arena *a, struct str bytes, const struct zone **ret,
    struct spot_err *err)
{
	const uint8_t *p = (const uint8_t *)bytes.p, *end = p + bytes.n;
	struct zone *z = arena_alloc(a, sizeof(*z));
	struct counts c;
	const uint8_t *line;

	/* The first block has 32-bit times and is skipped; version 1 has no other. */
	if (!header_read(p, bytes.n, &c) || p[4] < '2' || block_bytes(&c, 4) > bytes.n - HEADER) {
		return err_set(err, SPOT_INVALID, "no zone file of version 2 or later");
	}
	p += HEADER + block_bytes(&c, 4);
	if (!header_read(p, (size_t)(end - p), &c) ||
	    block_bytes(&c, 8) > (size_t)(end - p) - HEADER || !block_read(a, p + HEADER, &c, z)) {
		return err_set(err, SPOT_INVALID, "the zone file is damaged");
	}
	line = p + HEADER + block_bytes(&c, 8);
	if (line < end && *line == '\n') {
		const uint8_t *stop = memchr(line + 1, '\n', (size_t)(end - line - 1));

		z->ruled = stop != NULL && stop > line + 1;
		if (z->ruled &&
		    !footer_read(arena_strndup(a, (const char *)line + 1,
				     (size_t)(stop - line - 1)),
			z)) {
			return err_set(err, SPOT_INVALID, "the rule of the zone file is damaged");
		}
	}
	*ret = z;
	return SPOT_OK;
}

/* "Europe/Berlin", "Etc/GMT+5": no way out of the database's folder. */
static bool name_valid(const char *s)
{
	if (*s == '\0' || *s == '/' || strlen(s) > NAME_MAX_BYTES || strstr(s, "..") != NULL) {
		return false;
	}
	for (; *s != '\0'; s++) {
		if (!isalnum((unsigned char)*s) && strchr("/_+-", *s) == NULL) {
			return false;
		}
	}
	return true;
}

static struct str file_read(struct arena *a, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	struct str ret = { NULL, 0 };
	char *into;
	ssize_t n = 1;

	if (fd < 0) {
		return ret;
	}
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= FILE_MAX) {
		size_t size = (size_t)st.st_size;

		ret.p = into = arena_alloc(a, size + 1);
		while (ret.n < size && (n > 0 || errno == EINTR)) {
			n = read(fd, into + ret.n, size - ret.n);
			ret.n += n > 0 ? (size_t)n : 0;
			if (n == 0) {
				break;
			}
		}
	}
	close(fd);
	return ret;
}

enum spot_rc zone_load(struct arena *a, const char *name, const struct zone **ret,
    struct spot_err *err)
{
	const char *dir = getenv("TZDIR");
	struct str bytes;

	if (strcmp(name, "UTC") == 0) {
		*ret = &utc;
		return SPOT_OK;
	}
	if (!name_valid(name)) {
		return err_set(err, SPOT_INVALID,
		    "'%.64s' is not the name of a time zone, such as Europe/Berlin", name);
	}
	bytes =
	    file_read(a, arena_printf(a, "%s/%s", dir != NULL ? dir : "/usr/share/zoneinfo", name));
	if (bytes.n == 0) {
		return err_set(err, SPOT_INVALID,
		    "no time zone '%s' in the system's zone database (package tzdata)", name);
	}
	return zone_parse(a, bytes, ret, err);
}
