/* Every job file and fleet file that we ship as an example parses without a warning. Argument:
 * their folder. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/fleet/fleet.h"
#include "core/spec/spec.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define NOW (INT64_C(1767225600) * SPOT_US_PER_S)

static const char *folder;

static struct str read_whole(struct arena *a, const char *path)
{
	char buf[65536];
	FILE *f = fopen(path, "re");
	size_t n;

	if (f == NULL) {
		fail_msg("%s: cannot be opened", path);
	}
	n = fread(buf, 1, sizeof(buf), f);
	fclose(f);
	assert_in_range(n, 1, sizeof(buf) - 1);
	return arena_bytes(a, buf, n);
}

static bool is_fleet(const char *path)
{
	const char *name = strrchr(path, '/');

	return str_prefix(name != NULL ? name + 1 : path, "fleet");
}

static void check_job(struct arena *a, const char *path, struct str text)
{
	struct job_spec *s = NULL;
	const char **warnings = NULL;
	size_t warnings_n = 0;
	struct spot_err err = { 0 };

	if (jobspec_parse(a, text, NOW, &s, &warnings, &warnings_n, &err) != SPOT_OK) {
		fail_msg("%s: %s", path, err.text);
	}
	if (warnings_n > 0) {
		fail_msg("%s: %s", path, warnings[0]);
	}
	assert_false(str_empty(s->name));
	assert_false(str_empty(s->run));
}

static void check_fleet(struct arena *a, const char *path, struct str text)
{
	struct fleet_spec *spec = NULL;
	const char *name = NULL;
	struct spot_err err = { 0 };

	if (fleet_spec_parse(a, text, &spec, &name, &err) != SPOT_OK) {
		fail_msg("%s: %s", path, err.text);
	}
	assert_false(str_empty(name));
}

static void every_example_file_parses_without_a_warning(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	int jobs = 0, fleets = 0;
	glob_t found;

	(void)state;
	assert_int_equal(glob(arena_printf(a, "%s/*.yaml", folder), 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		const char *path = found.gl_pathv[i];
		struct str text = read_whole(a, path);

		if (is_fleet(path)) {
			check_fleet(a, path, text);
			fleets++;
		} else {
			check_job(a, path, text);
			jobs++;
		}
	}
	globfree(&found);
	assert_true(jobs >= 2);
	assert_true(fleets >= 1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(
	    every_example_file_parses_without_a_warning) };

	assert(argc == 2);
	folder = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
