/*
 * Makes the readable copy of a job file: byte for byte, without the secrets. It hides each value
 * under `secrets` by position, however the value is written. It hides comments there too, since an
 * old key is easily left in one. Then it hides each value, and each longer line of one, everywhere
 * else in the file.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "core/spec/spec.h"

/* shorter lines of a value would match too much else */
#define LINE_MIN 9
#define LOOK_MAX ((size_t)256 << 20) /* bytes compared at most, about a quarter of a second */

struct hidden {
	struct str text;
	/* per byte: SHOWN, HIDDEN, or FIRST of a value under `secrets` */
	char *how;
	size_t looked;
};
enum { SHOWN, HIDDEN, FIRST };

static void bytes_hide(struct hidden *h, size_t begin, size_t end)
{
	memset(h->how + begin, HIDDEN, end - begin);
}

static bool char_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Between values each '#' begins a comment. Comments left of the edge do not belong to
 * `secrets`. */
static void hide_comments(struct hidden *h, size_t begin, size_t end, int edge)
{
	for (size_t i = begin; i < end; i++) {
		size_t line = i, to = i;

		if (h->text.p[i] != '#') {
			continue;
		}
		while (line > 0 && h->text.p[line - 1] != '\n') {
			line--;
		}
		while (to < end && h->text.p[to] != '\n') {
			to++;
		}
		if (line < begin || (int)(i - line) >= edge) {
			bytes_hide(h, i, to);
		}
		i = to;
	}
}

/* Returns the end of blanks, brackets and comments after the last value. */
static size_t gap_end(struct str t, size_t at)
{
	bool comment = false;

	for (; at < t.n && (comment || char_is_blank(t.p[at]) || strchr("#},", t.p[at]) != NULL);
	     at++) {
		comment = t.p[at] == '#' || (comment && t.p[at] != '\n');
	}
	return at;
}

static void hide_values(struct hidden *h, const struct yaml *secrets)
{
	size_t at = secrets->key_end;

	for (const struct yaml *i = secrets->child; i != NULL; i = i->next) {
		hide_comments(h, at, i->key_begin, 0);
		bytes_hide(h, i->begin, i->end);
		h->how[i->begin] = FIRST;
		at = i->end;
	}
	hide_comments(h, at, gap_end(h->text, at), secrets->key_column);
}

/* Returns false when the limit of compared bytes is reached. */
static bool hide_text(struct hidden *h, const char *p, size_t n)
{
	const char *text = h->text.p, *end = text + h->text.n, *at;

	h->looked += h->text.n;
	for (; (at = memmem(text, (size_t)(end - text), p, n)) != NULL; text = at + n) {
		for (size_t i = (size_t)(at - h->text.p), k = 0; k < n; k++) {
			h->how[i + k] = h->how[i + k] == FIRST ? FIRST : HIDDEN;
		}
	}
	return h->looked <= LOOK_MAX;
}

static bool hide_elsewhere(struct hidden *h, const char *value)
{
	bool ok = value[strspn(value, " \t\r\n")] == '\0' || hide_text(h, value, strlen(value));

	while (ok && *value != '\0') {
		size_t n = strcspn(value, "\n"), from = strspn(value, " \t\r"), to = n;

		while (to > from && char_is_blank(value[to - 1])) {
			to--;
		}
		ok = to < from + LINE_MIN || hide_text(h, value + from, to - from);
		value += n + (value[n] == '\n');
	}
	return ok;
}

/* Line breaks stay, so line numbers stay right. */
static char *text_shown(struct arena *a, const struct hidden *h)
{
	struct sbuf out;
	char *ret;

	sbuf_init(&out, 8 * h->text.n + 16);
	for (size_t i = 0; i < h->text.n; i++) {
		char c = h->text.p[i];

		if (h->how[i] == FIRST) {
			sbuf_puts(&out, "\"" JOB_SECRET_SHOWN "\"");
		} else if (h->how[i] == SHOWN || c == '\n' || c == '\r') {
			sbuf_putc(&out, c);
		} else if (i == 0 || h->how[i - 1] == SHOWN) {
			sbuf_puts(&out, JOB_SECRET_SHOWN);
		}
	}
	ret = arena_strndup(a, out.p, out.n);
	sbuf_fini(&out);
	return ret;
}

char *jobspec_source(struct arena *a, struct str text, const struct job_spec *s)
{
	struct hidden h = { .text = text, .how = arena_alloc(a, text.n + 1) };
	const struct yaml *secrets;
	struct spot_err err = { 0 };
	struct yaml **docs;
	size_t n;
	bool ok = true;

	if (s->secrets_n == 0) {
		return arena_strndup(a, text.p, text.n);
	}
	if (yaml_parse(a, text, &docs, &n, &err) != SPOT_OK || n == 0 ||
	    (secrets = yaml_get(docs[0], "secrets")) == NULL) {
		return arena_strdup(a, "");
	}
	hide_values(&h, secrets);
	for (size_t i = 0; ok && i < s->secrets_n; i++) {
		ok = hide_elsewhere(&h, s->secrets[i].value);
	}
	return ok ? text_shown(a, &h)
		  : arena_strdup(a,
			"# not kept: the secrets have too many lines to look for elsewhere in the "
			"file\n");
}
