#include "base/base.h"
#include "cases.h"

#include "base/text/text.h"

/* Every verb sends exactly the requests of tests/golden/coreweave/<case>.txt. GOLDEN_UPDATE=1
 * rewrites the files. */

static const char *golden_path(struct arena *a, const char *name)
{
	const char *dir = getenv("GOLDEN_DIR");

	if (dir == NULL) {
		fail_msg("GOLDEN_DIR is not set: run by meson test");
	}
	return arena_printf(a, "%s/%s.txt", dir, name);
}

static const char *dump_text(struct arena *a, FILE *dump)
{
	struct sbuf all AUTO(sbuf);
	char chunk[4096];
	size_t n;

	sbuf_init(&all, 16 << 20);
	rewind(dump);
	while ((n = fread(chunk, 1, sizeof(chunk), dump)) > 0) {
		sbuf_add(&all, chunk, n);
	}
	return arena_strndup(a, all.p, all.n);
}

static void case_runs(const struct cw_case *k)
{
	bool cks = k->ops == &coreweave_ops;
	FILE *dump = tmpfile(), *out;
	struct drive d;
	const char *text, *path, *want;

	assert_non_null(dump);
	cw_open(&d, k->ops, k->verb == DRIVE_LAUNCH ? dump : NULL);
	d.dump = dump;
	drive_script(&d, k->tries, k->n);
	if (drive_run(&d, k->verb, cw_args(d.arena, k->verb, cks)) != SPOT_DONE) {
		fail_msg("%s: %s", k->name, d.call.err.text);
	}
	drive_used(&d);
	text = dump_text(d.arena, dump);
	fclose(dump);
	path = golden_path(d.arena, k->name);
	if (getenv("GOLDEN_UPDATE") != NULL) {
		out = fopen(path, "wb");
		assert_non_null(out);
		fputs(text, out);
		assert_int_equal(fclose(out), 0);
	} else {
		want = drive_file(d.arena, path).p;
		if (strcmp(want, text) != 0) {
			fail_msg("%s:\n--- expected\n%s\n--- sent\n%s", k->name, want, text);
		}
	}
	drive_fini(&d);
}

/* SEEDS_DIR=tests/fuzz/corpus/coreweave writes the replies of each case as seeds of the fuzzer. */
static void seeds_write(const char *dir)
{
	for (size_t i = 0; i < cw_cases_n; i++) {
		char path[512];
		FILE *out;

		snprintf(path, sizeof(path), "%s/seed-%s", dir, cw_cases[i].name);
		out = fopen(path, "wb");
		assert_non_null(out);
		fprintf(out, "%s\n", cw_cases[i].name);
		for (size_t k = 0; k < cw_cases[i].n; k++) {
			const struct drive_try *t = &cw_cases[i].tries[k];

			fprintf(out, "\x1e%d\n", t->status);
			for (size_t l = 0; t->lines[l] != NULL; l++) {
				fputs(t->lines[l], out);
			}
			fputs(t->reply != NULL ? t->reply : "", out);
		}
		assert_int_equal(fclose(out), 0);
	}
}

static void each_verb_sends_what_the_golden_file_says(void **state)
{
	(void)state;
	if (getenv("SEEDS_DIR") != NULL) {
		seeds_write(getenv("SEEDS_DIR"));
	}
	for (size_t i = 0; i < cw_cases_n; i++) {
		case_runs(&cw_cases[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_verb_sends_what_the_golden_file_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
