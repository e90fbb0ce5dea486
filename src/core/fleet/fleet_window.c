/* Weekly hours of a fleet, in the local time of a zone. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/fleet/fleet_size.h"

#include <ctype.h>

#define DAY_MIN 1440
#define DAY_S INT64_C(86400)
#define WEEK 7

static const char *const day_names[WEEK] = { "monday", "tuesday", "wednesday", "thursday", "friday",
	"saturday", "sunday" };

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads "Mon" or "Monday" in any case; -1: none. */
static int day_read(const char **p)
{
	for (int d = 0; d < WEEK; d++) {
		size_t n = 0;

		while (isalpha((unsigned char)(*p)[n]) &&
		    tolower((unsigned char)(*p)[n]) == day_names[d][n]) {
			n++;
		}
		if (!isalpha((unsigned char)(*p)[n]) &&
		    (n == 3 || (n > 3 && day_names[d][n] == '\0'))) {
			*p += n;
			return d;
		}
	}
	return -1;
}

/* Reads "Mon-Fri", "Sat,Sun", "Fri-Mon,Wed". */
static bool days_read(const char **p, uint8_t *ret)
{
	do {
		int from = day_read(p), to = from;

		if (**p == '-') {
			++*p;
			to = day_read(p);
		}
		if (from < 0 || to < 0) {
			return false;
		}
		for (int d = from;; d = (d + 1) % WEEK) {
			*ret |= (uint8_t)(1u << d);
			if (d == to) {
				break;
			}
		}
	} while (**p == ',' && *++*p != '\0');
	return true;
}

/* Reads "08:00" to the end of the text. */
static bool minute_read(const char *p, int32_t *ret)
{
	int h, m;

	if (!isdigit((unsigned char)p[0]) || !isdigit((unsigned char)p[1]) || p[2] != ':' ||
	    !isdigit((unsigned char)p[3]) || !isdigit((unsigned char)p[4]) || p[5] != '\0') {
		return false;
	}
	h = (p[0] - '0') * 10 + p[1] - '0';
	m = (p[3] - '0') * 10 + p[4] - '0';
	*ret = h * 60 + m;
	return m < 60 && *ret <= DAY_MIN;
}

bool fleet_window_read(const char *up, const char *down, struct fleet_window *w)
{
	w->days = 0;
	if (isalpha((unsigned char)*up)) {
		if (!days_read(&up, &w->days) || *up != ' ') {
			return false;
		}
		up += strspn(up, " ");
	} else {
		w->days = (1u << WEEK) - 1;
	}
	return minute_read(up, &w->up_min) && w->up_min < DAY_MIN &&
	    minute_read(down, &w->down_min) && w->down_min > 0;
}

/* ---- the clock ------------------------------------------------------------------------------- */

static int64_t floor_day(int64_t s)
{
	return s / DAY_S - (s % DAY_S < 0);
}

static void edge_take(int64_t at_us, int64_t now_us, int64_t *edge)
{
	if (at_us > now_us && (*edge == 0 || at_us < *edge)) {
		*edge = at_us;
	}
}

struct fleet_hours fleet_hours_at(const struct fleet_scaling *s, const struct zone *const *zones,
    int64_t now_us)
{
	struct fleet_hours ret = { .open = s->windows_n == 0 };
	int64_t now_s = now_us / SPOT_US_PER_S;

	for (size_t i = 0; i < s->windows_n; i++) {
		const struct fleet_window *w = &s->windows[i];
		int64_t today = floor_day(now_s + zone_offset_s(zones[i], now_s));
		bool next_day = w->down_min <= w->up_min;

		/* Yesterday's may last until now; the next opening lies within eight days. */
		for (int64_t d = today - 2; d <= today + WEEK + 1; d++) {
			int64_t from, to, weekday = (d + 3) % WEEK; /* day 0 was a Thursday */

			if ((w->days >> weekday & 1) == 0) {
				continue;
			}
			from = zone_utc_s(zones[i], d * DAY_S + INT64_C(60) * w->up_min) *
			    SPOT_US_PER_S;
			to = zone_utc_s(zones[i],
				 (d + next_day) * DAY_S + INT64_C(60) * w->down_min) *
			    SPOT_US_PER_S;
			ret.open |= now_us >= from && now_us < to;
			if (to > from) {
				edge_take(from, now_us, &ret.edge_us);
				edge_take(to, now_us, &ret.edge_us);
			}
		}
	}
	return ret;
}
