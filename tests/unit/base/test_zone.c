/* Time zones: against libc's own reading of the same database and of the same rules, at the edges,
 * and damaged files. */
#include "base/base.h"
#include "base/text/text.h"
#include "unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCKS 168 /* bytes of a built file up to its rule */
#define FIRST 1000000000 /* its transitions, to +2 and back to +1 */
#define SECOND 1100000000
#define LARGE (256 * 1024 + 1) /* one byte more than is read of a file */

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

static void big_endian_put(uint8_t *p, size_t n, uint64_t v)
{
	for (size_t i = n; i > 0; i--, v >>= 8) {
		p[i - 1] = (uint8_t)v;
	}
}

/* The counts of a header: times, types, bytes of abbreviations. */
static uint8_t *header_put(uint8_t *p, uint32_t times, uint32_t types, uint32_t chars)
{
	memcpy(p, "TZif2", 5);
	big_endian_put(p + 32, 4, times);
	big_endian_put(p + 36, 4, types);
	big_endian_put(p + 40, 4, chars);
	return p + 44;
}

/* A TZif file of +1 that has these transitions, in turn to +2 and back, and this rule. */
static struct str file_of(struct arena *a, const int64_t *at, size_t n, const char *rule)
{
	uint8_t *from = arena_alloc(a, 300 + 9 * n + strlen(rule)), *p = from;

	p = header_put(p, 0, 1, 4) + 6 + 4;
	p = header_put(p, (uint32_t)n, 2, 40);
	for (size_t i = 0; i < n; i++) {
		big_endian_put(p + 8 * i, 8, (uint64_t)at[i]);
		p[8 * n + i] = (uint8_t)((i + 1) % 2);
	}
	p += 9 * n;
	big_endian_put(p, 4, 3600);
	big_endian_put(p + 6, 4, 7200);
	p += 2 * 6 + 40;
	*p++ = '\n';
	memcpy(p, rule, strlen(rule));
	p += strlen(rule);
	*p++ = '\n';
	return (struct str){ (char *)from, (size_t)(p - from) };
}

/* A copy in which one byte differs. */
static struct str byte_changed(struct arena *a, struct str file, size_t at, char byte)
{
	char *copy = arena_strndup(a, file.p, file.n);

	copy[at] = byte;
	return (struct str){ copy, file.n };
}

static struct str two_transitions(struct arena *a, const char *rule)
{
	static const int64_t at[] = { FIRST, SECOND };

	return file_of(a, at, 2, rule);
}

static const struct zone *zone_read(struct arena *a, struct str file)
{
	const struct zone *z = NULL;
	struct spot_err err = { 0 };

	if (zone_parse(a, file, &z, &err) != SPOT_OK) {
		fail_msg("%s", err.text);
	}
	return z;
}

/* Each way to write a rule: libc reads the same one from TZ. */
static void rules_are_read_as_libc_reads_them(void **state)
{
	static const char *const rules[] = { "AAA3BBB,M4.1.0,M10.5.6",
		"AAA-5:30BBB-6:45:15,J60/2,J300/3:30", "AAA-1BBB,59,300", "AAA-1BBB,J59/0,J60/1",
		"AAA-10BBB,M12.5.0,M1.5.0", "<+0330>-3:30",
		"AAA+3:00:30BBB+2,M3.2.0/-1:30,M11.1.0/26", "AAA0<B-1>1,M9.5.4/+2:00:01,M2.5.1" };
	AUTO(arena) struct arena *a = arena_new(0);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		const struct zone *z = zone_read(a, file_of(a, NULL, 0, rules[i]));

		assert_int_equal(setenv("TZ", rules[i], 1), 0);
		tzset();
		/* From 1995 to 2062: leap years, and each weekday as the first of a month. */
		for (int64_t t = 788918400; t < INT64_C(2903299200); t += 10007) {
			time_t at = (time_t)t;
			struct tm tm;

			assert_non_null(localtime_r(&at, &tm));
			if (zone_offset_s(z, t) != tm.tm_gmtoff) {
				fail_msg("%s at %" PRId64 ": %" PRId64 ", libc says %ld", rules[i],
				    t, zone_offset_s(z, t), tm.tm_gmtoff);
			}
		}
	}
	unsetenv("TZ");
	tzset();
}

static void a_damaged_rule_is_refused(void **state)
{
	static const char *const bad[] = { "CET", "CE-1", "<CET-1", "CET-168",
		"CET-18446744073709551617", "CET-1:", "CET-1:60", "CET-1:00:", "CET-1:00:60",
		"CET-1CE", "CET-1CEST", "CET-1CEST-x", "CET-1CEST;M3.5.0,M10.5.0",
		"CET-1CEST,M0.5.0,M10.5.0", "CET-1CEST,M13.5.0,M10.5.0", "CET-1CEST,M3,5.0,M10.5.0",
		"CET-1CEST,M3.0.0,M10.5.0", "CET-1CEST,M3.6.0,M10.5.0", "CET-1CEST,M3.5,0,M10.5.0",
		"CET-1CEST,M3.5.7,M10.5.0", "CET-1CEST,366,300", "CET-1CEST,Jx,J300",
		"CET-1CEST,M3.5.0/x,M10.5.0", "CET-1CEST,M3.5.0", "CET-1CEST,M3.5.0,M10.5.0x" };
	AUTO(arena) struct arena *a = arena_new(0);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		const struct zone *z = NULL;
		struct spot_err err = { 0 };

		if (zone_parse(a, two_transitions(a, bad[i]), &z, &err) != SPOT_INVALID) {
			fail_msg("'%s' was taken", bad[i]);
		}
		assert_string_equal(err.text, "the rule of the zone file is damaged");
		assert_null(z);
	}
}

static void the_rule_begins_at_the_last_transition(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct str file = two_transitions(a, "AAA-5");
	const struct zone *ruled = zone_read(a, file), *bare = zone_read(a, two_transitions(a, ""));
	const struct zone *never = zone_read(a, file_of(a, NULL, 0, ""));

	(void)state;
	assert_int_equal(zone_offset_s(ruled, FIRST - 1), 3600);
	assert_int_equal(zone_offset_s(ruled, FIRST), 7200);
	assert_int_equal(zone_offset_s(ruled, SECOND - 1), 7200);
	assert_int_equal(zone_offset_s(ruled, SECOND), 5 * 3600);
	/* Without a rule the last offset stays. */
	assert_int_equal(zone_offset_s(bare, SECOND - 1), 7200);
	assert_int_equal(zone_offset_s(bare, SECOND), 3600);
	assert_int_equal(zone_offset_s(never, SECOND), 3600);
	/* A rule that is cut off is none, and so is other text in its place. */
	assert_int_equal(file.n, BLOCKS + strlen("\nAAA-5\n"));
	for (size_t n = BLOCKS; n < file.n; n++) {
		const struct zone *z = zone_read(a, (struct str){ file.p, n });

		assert_int_equal(zone_offset_s(z, SECOND), 3600);
	}
	assert_int_equal(zone_offset_s(zone_read(a, byte_changed(a, file, BLOCKS, '#')), SECOND),
	    3600);
}

static void assert_refused(struct arena *a, struct str file, const char *words)
{
	const struct zone *z = NULL;
	struct spot_err err = { 0 };

	assert_int_equal(zone_parse(a, file, &z, &err), SPOT_INVALID);
	assert_string_equal(err.text, words);
	assert_null(z);
}

static void a_truncated_or_damaged_file_is_refused(void **state)
{
	static const int64_t falling[] = { SECOND, FIRST }, equal[] = { FIRST, FIRST };
	static const char *const old = "no zone file of version 2 or later";
	static const char *const damaged = "the zone file is damaged";
	AUTO(arena) struct arena *a = arena_new(0);
	struct str file = two_transitions(a, "AAA-1");

	(void)state;
	for (size_t n = 0; n < BLOCKS; n++) {
		/* A copy of just these bytes, so that a sanitizer sees a read past them. */
		char *cut = malloc(n + 1);

		assert_non_null(cut);
		memcpy(cut, file.p, n);
		assert_refused(a, (struct str){ cut, n }, n < 44 + 10 ? old : damaged);
		free(cut);
	}
	assert_refused(a, file_of(a, falling, 2, "AAA-1"), damaged);
	assert_refused(a, file_of(a, equal, 2, "AAA-1"), damaged);
	/* The type of the first transition, of two types; the second header; version 1. */
	assert_refused(a, byte_changed(a, file, 98 + 16, 2), damaged);
	assert_refused(a, byte_changed(a, file, 54, 't'), damaged);
	assert_refused(a, byte_changed(a, file, 4, '\0'), old);
	assert_non_null(zone_read(a, file));
}

static void file_put(const char *dir, const char *name, struct str bytes)
{
	char path[200];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes.p, bytes.n), (ssize_t)bytes.n);
	close(fd);
}

static void the_database_may_be_elsewhere(void **state)
{
	static const char *const bad[] = { "Large", "Empty", "Folder", "Text", "Absent" };
	char dir[] = "/tmp/zone-XXXXXX", path[200], name[66] = "";
	AUTO(arena) struct arena *a = arena_new(0);
	struct str file = two_transitions(a, "AAA-5");
	char *large = memcpy(arena_alloc(a, LARGE), file.p, file.n);
	const struct zone *z = NULL;
	struct spot_err err = { 0 };

	(void)state;
	assert_non_null(mkdtemp(dir));
	memset(name, 'a', 64);
	file_put(dir, "Own", file);
	file_put(dir, name, file);
	file_put(dir, "Large", (struct str){ large, LARGE });
	file_put(dir, "Empty", (struct str){ "", 0 });
	file_put(dir, "Text", STR_LIT("Europe/Berlin"));
	snprintf(path, sizeof(path), "%s/Folder", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(setenv("TZDIR", dir, 1), 0);
	assert_int_equal(zone_offset_s(zone_of(a, "Own"), SECOND), 5 * 3600);
	assert_int_equal(zone_offset_s(zone_of(a, name), SECOND), 5 * 3600);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(zone_load(a, bad[i], &z, &err), SPOT_INVALID);
	}
	name[64] = 'a';
	assert_int_equal(zone_load(a, name, &z, &err), SPOT_INVALID);
	assert_non_null(strstr(err.text, "is not the name of a time zone"));
	assert_null(z);
	unsetenv("TZDIR");
	name[64] = '\0';
	for (size_t i = 0; i < 5; i++) {
		const char *const made[] = { "Own", name, "Large", "Empty", "Text" };

		snprintf(path, sizeof(path), "%s/%s", dir, made[i]);
		assert_int_equal(unlink(path), 0);
	}
	snprintf(path, sizeof(path), "%s/Folder", dir);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

static void days_are_counted_before_the_common_era(void **state)
{
	(void)state;
	assert_int_equal(civil_day(1969, 12, 31), -1);
	assert_int_equal(civil_day(0, 3, 1), -719468);
	assert_int_equal(civil_day(0, 2, 29), -719469);
	assert_int_equal(civil_day(-1, 12, 31), -719529);
	assert_int_equal(civil_day(-400, 3, 1), -719468 - 146097);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(offsets_are_those_of_libc),
		cmocka_unit_test(a_skipped_time_is_the_jump_and_a_doubled_one_the_first),
		cmocka_unit_test(names_and_damaged_files_are_refused),
		cmocka_unit_test(rules_are_read_as_libc_reads_them),
		cmocka_unit_test(a_damaged_rule_is_refused),
		cmocka_unit_test(the_rule_begins_at_the_last_transition),
		cmocka_unit_test(a_truncated_or_damaged_file_is_refused),
		cmocka_unit_test(the_database_may_be_elsewhere),
		cmocka_unit_test(days_are_counted_before_the_common_era),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
