/* Calendar, durations and the two clocks. */
#include "base/base.h"
#include "unit.h"

#include "base/text/text.h"

static void times_are_read_from_rfc_3339(void **state)
{
	static const struct {
		const char *text;
		int64_t us;
	} good[] = {
		{ "1970-01-01T00:00:00Z", 0 },
		{ "1970-01-01T00:00:00.000001Z", 1 },
		{ "2026-01-02T03:04:05Z", INT64_C(1767323045000000) },
		{ "2026-01-02t03:04:05z", INT64_C(1767323045000000) },
		{ "2026-01-02 03:04:05.5Z", INT64_C(1767323045500000) },
		{ "2026-01-02T03:04:05.123456789Z", INT64_C(1767323045123456) },
		{ "2026-01-02T05:34:05+02:30", INT64_C(1767323045000000) },
		{ "2026-01-01T22:04:05-0500", INT64_C(1767323045000000) },
		{ "2026-01-02T04:04:05+01", INT64_C(1767323045000000) },
		{ "2000-02-29T00:00:00Z", INT64_C(951782400000000) },
		{ "2016-12-31T23:59:60Z", INT64_C(1483228800000000) }, /* leap second */
		{ "1969-12-31T23:59:59.999999Z", -1 },
		{ "0001-01-01T00:00:00Z", INT64_C(-62135596800000000) },
		{ "9999-12-31T23:59:59Z", INT64_C(253402300799000000) },
	};
	static const char *const bad[] = { "", "2026", "2026-01-02", "2026-01-02T03:04:05",
		"2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-02-29T00:00:00Z",
		"2100-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2026-01-00T00:00:00Z",
		"2026-01-02T24:00:00Z", "2026-01-02T00:60:00Z", "2026-01-02T00:00:61Z",
		"2026-01-02T03:04:05Zx", "2026-01-02T03:04:05.Z", "2026-01-02T03:04Z",
		"26-01-02T03:04:05Z", "0000-01-01T00:00:00Z", "2026-01-02T03:04:05+24:00",
		"2026-01-02T03:04:05+01:60", "2026-01-02T03:04:05+1", "2026-01-02T03:04:05 Z",
		"2026/01/02T03:04:05Z", "2026-01-02X03:04:05Z" };
	int64_t v;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		v = 12345;
		if (!parse_time_us(good[i].text, &v) || v != good[i].us) {
			fail_msg("%s gave %" PRId64, good[i].text, v);
		}
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		v = 12345;
		if (parse_time_us(bad[i], &v) || v != 12345) {
			fail_msg("%s was taken", bad[i]);
		}
	}
	assert_false(parse_time_us(NULL, &v));
}

static void every_day_of_two_centuries_reads_back_as_written(void **state)
{
	char text[TIME_TEXT_MAX];
	int64_t v;

	(void)state;
	for (int64_t day = -36525; day < 73050; day++) {
		int64_t us = day * 24 * SPOT_US_PER_HOUR + 123456;

		format_time(us, text);
		if (!parse_time_us(text, &v) || v != us) {
			fail_msg("%s", text);
		}
	}
}

static void times_are_written_in_utc(void **state)
{
	char text[TIME_TEXT_MAX];

	(void)state;
	assert_string_equal(format_time(INT64_C(1767323045000006), text),
	    "2026-01-02T03:04:05.000006Z");
	assert_string_equal(format_time_s(INT64_C(1767323045999999), text), "2026-01-02T03:04:05Z");
	assert_string_equal(format_time(-1, text), "1969-12-31T23:59:59.999999Z");
	format_time(INT64_MAX, text);
	assert_true(strlen(text) < TIME_TEXT_MAX);
	format_time(INT64_MIN, text);
	assert_true(strlen(text) < TIME_TEXT_MAX);
}

static void durations_take_units_in_falling_order(void **state)
{
	static const struct {
		const char *text;
		int64_t us;
	} good[] = {
		{ "90s", 90000000 },
		{ "5m", 300000000 },
		{ "2h", INT64_C(7200000000) },
		{ "3d", INT64_C(259200000000) },
		{ "250ms", 250000 },
		{ "7", 7000000 },
		{ "0", 0 },
		{ "2h05m", INT64_C(7500000000) },
		{ "1d1us", INT64_C(86400000001) },
		{ "15us", 15 },
	};
	static const char *const bad[] = { "", "s", "-1s", "1.5h", "1 s", "5m2h", "1s1s", "1x",
		"1h30", "99999999999999999999s", "9223372036854775807d", "1m 5s", "+1s",
		"106751991d106751991h9999999999999999us9" };
	int64_t v;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		v = -5;
		assert_true(parse_duration_us(good[i].text, &v));
		assert_int_equal(v, good[i].us);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		v = -5;
		if (parse_duration_us(bad[i], &v) || v != -5) {
			fail_msg("'%s' was taken", bad[i]);
		}
	}
	assert_false(parse_duration_us(NULL, &v));
}

static void durations_are_written_in_two_units_at_most(void **state)
{
	static const struct {
		int64_t us;
		const char *text;
	} cases[] = {
		{ 0, "0s" },
		{ 350, "350us" },
		{ 350000, "350ms" },
		{ 41000000, "41s" },
		{ 125000000, "2m05s" },
		{ INT64_C(7500000000), "2h05m" },
		{ INT64_C(273600000000), "3d04h" },
		{ -41000000, "-41s" },
		{ INT64_MIN, "-106751991d04h" },
	};
	char text[32];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_string_equal(format_duration(cases[i].us, text), cases[i].text);
	}
}

static void the_manual_clock_moves_only_by_hand(void **state)
{
	struct clock_manual m;

	(void)state;
	clock_manual_init(&m, 1000);
	int64_t mono = m.clock.mono_us(&m.clock);
	assert_int_equal(m.clock.wall_us(&m.clock), 1000);
	clock_manual_advance(&m, 5);
	assert_int_equal(m.clock.wall_us(&m.clock), 1005);
	assert_int_equal(m.clock.mono_us(&m.clock), mono + 5);
}

static void the_real_clock_is_past_2020_and_does_not_go_back(void **state)
{
	(void)state;
	assert_true(clock_real.wall_us(&clock_real) > INT64_C(1577836800000000));
	int64_t before = clock_real.mono_us(&clock_real);
	assert_true(clock_real.mono_us(&clock_real) >= before);
}

static void http_dates_are_strict(void **state)
{
	static const char *const bad[] = { "", "Sun, 30 Aug 2015 12:36:00",
		"Sun, 30 Foo 2015 12:36:00 GMT", "Sun, 30 ugS 2015 12:36:00 GMT",
		"Sun, 32 Aug 2015 12:36:00 GMT", "Sun, 30 Aug 1215 12:36:00 GMT",
		"Sun, 30 Aug 2015 25:36:00 GMT", "Sun, 30 Aug 2015 12:36:00 GMT ",
		"Sun,  3 Aug 2015 12:36:00 GMT" };
	int64_t us;

	(void)state;
	assert_true(parse_http_date_us("Sun, 30 Aug 2015 12:36:00 GMT", &us));
	assert_int_equal(us, INT64_C(1440938160000000));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_false(parse_http_date_us(bad[i], &us));
	}
	assert_false(parse_http_date_us(NULL, &us));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_are_read_from_rfc_3339),
		cmocka_unit_test(every_day_of_two_centuries_reads_back_as_written),
		cmocka_unit_test(times_are_written_in_utc),
		cmocka_unit_test(durations_take_units_in_falling_order),
		cmocka_unit_test(durations_are_written_in_two_units_at_most),
		cmocka_unit_test(the_manual_clock_moves_only_by_hand),
		cmocka_unit_test(the_real_clock_is_past_2020_and_does_not_go_back),
		cmocka_unit_test(http_dates_are_strict),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
