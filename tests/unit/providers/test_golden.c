#include "base/base.h"
#include "golden.h"

#include "base/text/text.h"

/* Every verb sends exactly the requests of the golden file, and understands the replies. */

static const char *result_text(const struct golden_case *k, enum spot_step s, const struct drive *d,
    const void *args, struct arena *a)
{
	struct sbuf b AUTO(sbuf);

	sbuf_init(&b, 1 << 20);
	sbuf_puts(&b, s == SPOT_DONE ? "done\n" : "fail\n");
	if (s == SPOT_DONE) {
		golden_print(k->verb, args, &b);
	} else {
		sbuf_printf(&b, "%s %s %s\n", spot_rc_name(d->call.err.rc), d->call.err.code,
		    d->call.err.text);
	}
	return arena_strndup(a, b.p, b.n);
}

/* The dump of a run, cut into its requests. */
static size_t dump_split(struct arena *a, FILE *dump, const char **ret)
{
	struct sbuf all AUTO(sbuf);
	char chunk[4096];
	size_t n, count = 0;

	sbuf_init(&all, 16 << 20);
	rewind(dump);
	while ((n = fread(chunk, 1, sizeof(chunk), dump)) > 0) {
		sbuf_add(&all, chunk, n);
	}
	for (char *p = all.p; p != NULL && (p = strstr(p, "### ")) != NULL;) {
		char *from = strchr(p, '\n') + 1, *to = strstr(from, "\n### ");

		assert_true(count < GOLDEN_EXCHANGES);
		ret[count] =
		    arena_strndup(a, from, to != NULL ? (size_t)(to - from) : strlen(from) - 1);
		if (golden_suite.request_hide != NULL) {
			ret[count] = golden_suite.request_hide(a, ret[count]);
		}
		count++;
		p = to != NULL ? to + 1 : NULL;
	}
	return count;
}

static void file_write(const struct golden_case *k, const struct golden_file *f,
    const char **requests, const char *result)
{
	char path[512];
	FILE *out;
	size_t sent = 0;

	snprintf(path, sizeof(path), "%s/%s.txt", getenv("GOLDEN_DIR"), k->name);
	out = fopen(path, "wb");
	assert_non_null(out);
	for (size_t i = 0; i < f->n; i++) {
		if (f->tries[i].read != NULL) {
			fprintf(out, "--- read %s\n", f->tries[i].read);
		} else {
			fprintf(out, "--- request\n%s\n", requests[sent++]);
		}
		fprintf(out, "--- reply %d\n", f->tries[i].status);
		for (size_t h = 0; f->tries[i].reply_headers[h] != NULL; h++) {
			fprintf(out, "%s\n", f->tries[i].reply_headers[h]);
		}
		fprintf(out, "\n%s\n", f->raw[i]);
	}
	fprintf(out, "--- result\n%s", result);
	assert_int_equal(fclose(out), 0);
}

static void case_compare(const struct golden_case *k, const struct golden_file *f,
    const char **requests, size_t n, const char *result)
{
	size_t sent = 0;

	for (size_t i = 0; i < f->n; i++) {
		if (f->tries[i].read != NULL) {
			continue;
		}
		assert_true(sent < n);
		if (f->requests[i] == NULL || strcmp(f->requests[i], requests[sent]) != 0) {
			fail_msg("%s, exchange %zu:\n--- expected\n%s\n--- sent\n%s", k->name,
			    i + 1, f->requests[i] ? f->requests[i] : "(none)", requests[sent]);
		}
		sent++;
	}
	if (f->result == NULL || strcmp(f->result, result) != 0) {
		fail_msg("%s:\n--- expected\n%s\n--- result\n%s", k->name,
		    f->result ? f->result : "(none)", result);
	}
}

static void case_runs(const struct golden_case *k)
{
	const char *requests[GOLDEN_EXCHANGES] = { 0 }, *result;
	struct golden_file f;
	struct drive d;
	void *args;
	enum spot_step s;
	size_t n;

	golden_load(&golden_suite, k->name, &f);
	golden_open(&golden_suite, k, &f, &d);
	d.dump = tmpfile();
	assert_non_null(d.dump);
	args = golden_args(d.arena, k);
	s = drive_run(&d, k->verb, args);
	drive_used(&d);
	n = dump_split(d.arena, d.dump, requests);
	fclose(d.dump);
	result = result_text(k, s, &d, args, d.arena);
	if (getenv("GOLDEN_UPDATE") != NULL) {
		file_write(k, &f, requests, result);
	} else {
		case_compare(k, &f, requests, n, result);
	}
	drive_fini(&d);
	golden_free(&f);
}

static void each_verb_sends_and_reads_what_the_golden_file_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < golden_suite.cases_n; i++) {
		case_runs(&golden_suite.cases[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_verb_sends_and_reads_what_the_golden_file_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
