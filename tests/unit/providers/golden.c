#include "base/base.h"
#include "golden.h"

#include "base/text/text.h"

struct str golden_data(struct arena *a, const char *name)
{
	const char *dir = getenv("GOLDEN_DIR");

	if (dir == NULL) {
		fail_msg("GOLDEN_DIR is not set: run by meson test");
	}
	return drive_file(a, arena_printf(a, "%s/%s", dir, name));
}

/* "Name: value" lines up to an empty one; returns the rest. */
static const char *reply_headers(struct arena *a, struct drive_try *t, const char *p)
{
	for (size_t i = 0; *p != '\0' && *p != '\n'; i++) {
		size_t n = strcspn(p, "\n");

		assert_true(i < DRIVE_WORDS);
		t->reply_headers[i] = arena_strndup(a, p, n);
		p += n + (p[n] == '\n');
	}
	return *p == '\n' ? p + 1 : p;
}

static void section_add(const struct golden_suite *g, struct golden_file *f, const char *head,
    const char *text)
{
	struct drive_try *t = &f->tries[f->n];
	int64_t status;

	assert_true(f->n < GOLDEN_EXCHANGES);
	if (str_prefix(head, "request")) {
		f->requests[f->n] = text;
	} else if (str_prefix(head, "read ")) {
		t->read = head + 5;
	} else if (str_prefix(head, "reply ")) {
		assert_true(parse_i64(head + 6, 100, 599, &status));
		t->status = (int)status;
		f->raw[f->n] = t->reply = reply_headers(f->arena, t, text);
		if (g->reply_fill != NULL) {
			t->reply = g->reply_fill(f->arena, t->reply);
		}
		t->reply_n = strlen(t->reply);
		f->n++;
	} else if (str_prefix(head, "result")) {
		f->result = text;
	} else {
		fail_msg("golden file: unknown section '%s'", head);
	}
}

void golden_load(const struct golden_suite *g, const char *name, struct golden_file *f)
{
	const char *p;

	memset(f, 0, sizeof(*f));
	f->arena = arena_new(0);
	p = golden_data(f->arena, arena_printf(f->arena, "%s.txt", name)).p;
	p = strstr(p, "--- ");
	while (p != NULL) {
		const char *head_end = strchr(p, '\n'), *next;

		assert_non_null(head_end);
		next = strstr(head_end, "\n--- ");
		section_add(g, f, arena_strndup(f->arena, p + 4, (size_t)(head_end - p - 4)),
		    next != NULL && next > head_end
			? arena_strndup(f->arena, head_end + 1, (size_t)(next - head_end - 1))
			: next == head_end ? ""
					   : arena_strdup(f->arena, head_end + 1));
		p = next != NULL ? next + 1 : NULL;
	}
}

void golden_free(struct golden_file *f)
{
	arena_free(f->arena);
}

enum spot_step golden_auth_run(const struct golden_suite *g, const struct golden_case *k,
    struct drive *d)
{
	drive_init(d, g->ops, k->env != NULL ? k->env : g->env,
	    k->settings != NULL ? k->settings : g->settings);
	d->now_us = GOLDEN_NOW_US;
	if (k->no_keys) {
		return SPOT_DONE;
	}
	drive_script(d, g->auth, g->auth_n);
	return drive_run(d, DRIVE_AUTH, NULL);
}

void golden_open(const struct golden_suite *g, const struct golden_case *k,
    const struct golden_file *f, struct drive *d)
{
	assert_int_equal(golden_auth_run(g, k, d), SPOT_DONE);
	drive_script(d, f->tries, f->n);
}

void *golden_args(struct arena *a, const struct golden_case *k)
{
	void *args = arena_alloc(a, MAX(k->args_n, (size_t)256));

	if (k->args_n > 0) {
		memcpy(args, k->args, k->args_n);
	}
	return args;
}
