#include "base/base.h"
#include "base/text/text.h"
#include "replies.h"

#define MARK 0x1e

static void read_one(struct arena *a, struct str part, struct drive_try *t)
{
	const char *end = memchr(part.p, '\n', part.n);
	size_t line_n = end != NULL ? (size_t)(end - part.p) : part.n;
	char *line = arena_strndup(a, part.p, strnlen(part.p, line_n)), *rest = NULL;
	long status = strtol(line, &rest, 10);

	*t = (struct drive_try){ .status = status >= 100 && status < 600 ? (int)status
		    : status == 0                                        ? 0
									 : 200 };
	rest += *rest == ' ';
	if (strchr(rest, ':') != NULL && rest[0] != ':') {
		t->reply_headers[0] = rest;
	}
	t->reply = end != NULL ? end + 1 : "";
	t->reply_n = end != NULL ? part.n - line_n - 1 : 0;
	if (t->reply_n == 0) {
		t->reply = ""; /* drive takes 0 for "as long as the string" */
	}
}

void replies_read(struct arena *a, const uint8_t *p, size_t n, struct replies *ret)
{
	struct str all = arena_bytes(a, p, n);
	const char *at = memchr(all.p, MARK, n), *end = all.p + n;

	/* a failed assertion of drive.c must end the process */
	setenv("CMOCKA_TEST_ABORT", "1", 1);
	memset(ret, 0, sizeof(*ret));
	ret->name = arena_strndup(a, all.p, strcspn(all.p, "\n\x1e"));
	while (at != NULL && ret->n < REPLIES_MAX) {
		const char *next = memchr(at + 1, MARK, (size_t)(end - at - 1));

		read_one(a, (struct str){ at + 1, (size_t)((next != NULL ? next : end) - at - 1) },
		    &ret->tries[ret->n++]);
		at = next;
	}
}

void replies_run(struct drive *d, const struct replies *r, enum drive_verb verb, void *args)
{
	drive_script(d, r->tries, r->n);
	d->lenient = true;
	(void)drive_run(d, verb, args);
}
