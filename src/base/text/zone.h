/*
 * Time zones by their IANA name. The rules come from the system's zone database, which the
 * distribution keeps up to date (package tzdata, /usr/share/zoneinfo, or $TZDIR). Its files are
 * TZif (RFC 9636). Times after the last transition of a file follow the POSIX rule at its end.
 * "UTC" needs no file. libc's localtime() is not used: its zone belongs to the whole process.
 */
#ifndef BASE_ZONE_H
#define BASE_ZONE_H

#include "base/base.h"

struct arena;
struct zone;
/* Reads the zone of that name into a. SPOT_INVALID: no such zone, or no zone database. */
NODISCARD enum spot_rc zone_load(struct arena *a, const char *name, const struct zone **ret,
    struct spot_err *err);
/* The same from the bytes of a TZif file. */
NODISCARD enum spot_rc zone_parse(struct arena *a, struct str bytes, const struct zone **ret,
    struct spot_err *err);
/* Returns local time less UTC, in seconds, at that moment of UTC. */
int64_t zone_offset_s(const struct zone *z, int64_t utc_s);
/* Returns the moment at which local clocks show that time, given in seconds as if it were UTC. A
 * time that clocks skip becomes the moment of the jump. A time shown twice is the first. */
int64_t zone_utc_s(const struct zone *z, int64_t local_s);
/* Returns the day since 1970-01-01 of a date of the Gregorian calendar; month 1 to 12. */
int64_t civil_day(int64_t year, int64_t month, int64_t day);

#endif
