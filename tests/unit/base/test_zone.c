/* Time zones: against libc's own reading of the same database, at the edges, and damaged files. */
#include "base/base.h"
#include "base/text/text.h"
#include "unit.h"

#include <stdlib.h>

static const char *const names[] = { "Europe/Berlin", "America/New_York", "Australia/Lord_Howe",
	"America/Sao_Paulo", "Asia/Kolkata", "Africa/Casablanca", "Pacific/Apia",
	"Antarctica/Troll", "America/Nuuk", "Asia/Kathmandu" };

static const struct zone *zone_of(struct arena *a, const char *name)
{
	const struct zone *z = NULL;
	struct spot_err err = { 0 };

	assert_int_equal(zone_load(a, name, &z, &err), SPOT_OK);
	return z;
}

static void offsets_are_those_of_libc(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const struct zone *z = zone_of(a, names[i]);

		assert_int_equal(setenv("TZ", names[i], 1), 0);
		tzset();
		/* Every 5 hours and a bit, from 1975 to 2100: past the end of the transitions. */
		for (int64_t t = 157766400; t < INT64_C(4102444800); t += 18061) {
			time_t at = (time_t)t;
			struct tm tm;

			assert_non_null(localtime_r(&at, &tm));
			if (zone_offset_s(z, t) != tm.tm_gmtoff) {
				fail_msg("%s at %" PRId64 ": %" PRId64 ", libc says %ld", names[i],
				    t, zone_offset_s(z, t), tm.tm_gmtoff);
			}
		}
	}
	unsetenv("TZ");
	tzset();
}

static int64_t local(int64_t y, int64_t m, int64_t d, int64_t h, int64_t min)
{
	return civil_day(y, m, d) * 86400 + h * 3600 + min * 60;
}

static void a_skipped_time_is_the_jump_and_a_doubled_one_the_first(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	const struct zone *z = zone_of(a, "Europe/Berlin"), *apia = zone_of(a, "Pacific/Apia");

	(void)state;
	assert_int_equal(civil_day(1970, 1, 1), 0);
	assert_int_equal(civil_day(2026, 3, 29), 20541);
	assert_int_equal(zone_utc_s(z, local(2026, 1, 15, 8, 0)), local(2026, 1, 15, 7, 0));
	assert_int_equal(zone_utc_s(z, local(2026, 7, 15, 8, 0)), local(2026, 7, 15, 6, 0));
	/* 2026-03-29: from 02:00 to 03:00 at 01:00 UTC. */
	assert_int_equal(zone_utc_s(z, local(2026, 3, 29, 1, 59)), local(2026, 3, 29, 0, 59));
	assert_int_equal(zone_utc_s(z, local(2026, 3, 29, 2, 0)), local(2026, 3, 29, 1, 0));
	assert_int_equal(zone_utc_s(z, local(2026, 3, 29, 2, 30)), local(2026, 3, 29, 1, 0));
	assert_int_equal(zone_utc_s(z, local(2026, 3, 29, 3, 0)), local(2026, 3, 29, 1, 0));
	/* 2026-10-25: from 03:00 to 02:00 at 01:00 UTC. */
	assert_int_equal(zone_utc_s(z, local(2026, 10, 25, 2, 30)), local(2026, 10, 25, 0, 30));
	assert_int_equal(zone_utc_s(z, local(2026, 10, 25, 3, 0)), local(2026, 10, 25, 2, 0));
	/* Beyond the transitions of the file, by its rule. */
	assert_int_equal(zone_utc_s(z, local(2090, 7, 1, 12, 0)), local(2090, 7, 1, 10, 0));
	/* Samoa skipped the whole of 2011-12-30. */
	assert_int_equal(zone_utc_s(apia, local(2011, 12, 30, 12, 0)), local(2011, 12, 30, 10, 0));
}

static void names_and_damaged_files_are_refused(void **state)
{
	static const char *const bad[] = { "", "Europe/Atlantis", "../../etc/passwd", "/etc/passwd",
		"Europe/Berlin\n", "Europe", "zone.tab" };
	AUTO(arena) struct arena *a = arena_new(0);
	const struct zone *z = NULL;
	struct spot_err err = { 0 };
	uint8_t file[200] = "TZif2";

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(zone_load(a, bad[i], &z, &err), SPOT_INVALID);
	}
	assert_int_equal(zone_offset_s(zone_of(a, "UTC"), 1), 0);
	for (size_t n = 0; n < sizeof(file); n++) {
		for (size_t at = 20; at < 44; at++) {
			file[at] = 0xff;
			assert_int_equal(zone_parse(a, (struct str){ (char *)file, n }, &z, &err),
			    SPOT_INVALID);
			file[at] = 0;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(offsets_are_those_of_libc),
		cmocka_unit_test(a_skipped_time_is_the_jump_and_a_doubled_one_the_first),
		cmocka_unit_test(names_and_damaged_files_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
