#include "base/base.h"
#include "base/text/json_marks.h"

#include "base/text/json_put.h"

#define REAL_DIGITS 15 /* of json_text() */

struct scan {
	const char *p, *end;
	struct sbuf *out;
	int64_t now_us;
};

static bool char_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static void blanks_skip(struct scan *s)
{
	while (s->p < s->end && char_blank(*s->p)) {
		s->p++;
	}
}

/* Steps over the string at p and returns its inside. */
static struct str string_take(struct scan *s)
{
	const char *from = ++s->p;

	for (;;) {
		const char *quote = memchr(s->p, '"', (size_t)(s->end - s->p)), *back = quote;

		if (quote == NULL) {
			s->p = s->end;
			return (struct str){ from, (size_t)(s->end - from) };
		}
		while (back > from && back[-1] == '\\') {
			back--;
		}
		s->p = quote + 1;
		if ((quote - back) % 2 == 0) {
			return (struct str){ from, (size_t)(quote - from) };
		}
	}
}

/* Steps over a number, true, false or null. */
static struct str word_take(struct scan *s)
{
	const char *from = s->p;

	while (s->p < s->end && !char_blank(*s->p) && strchr(",:{}[]\"", *s->p) == NULL) {
		s->p++;
	}
	return (struct str){ from, (size_t)(s->p - from) };
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool word_integer(struct str w, int64_t *ret)
{
	bool minus = w.n > 0 && w.p[0] == '-';
	uint64_t v = 0;

	if (w.n == (size_t)minus || w.n > 19) {
		return false;
	}
	for (size_t i = minus; i < w.n; i++) {
		if (w.p[i] < '0' || w.p[i] > '9') {
			return false;
		}
		v = v * 10 + (uint64_t)(w.p[i] - '0');
	}
	if (v > INT64_MAX) {
		return false;
	}
	*ret = minus ? -(int64_t)v : (int64_t)v;
	return true;
}

/* A real with more digits than json_text() would write is rounded as it would. */
static void word_put(struct sbuf *out, struct str w)
{
	char text[64];

	if (w.n > REAL_DIGITS && w.n < sizeof(text) && (w.p[0] == '-' || w.p[0] <= '9') &&
	    (memchr(w.p, '.', w.n) != NULL || memchr(w.p, 'e', w.n) != NULL)) {
		memcpy(text, w.p, w.n);
		text[w.n] = '\0';
		json_put_f64(out, strtod(text, NULL));
		return;
	}
	sbuf_add(out, w.p, w.n);
}

/* Steps over any value; for one that a mark cannot have. */
static void value_skip(struct scan *s)
{
	int depth = 0;

	do {
		blanks_skip(s);
		if (s->p >= s->end) {
			return;
		}
		if (*s->p == '"') {
			string_take(s);
		} else if (strchr("{}[],:", *s->p) != NULL) {
			depth += *s->p == '{' || *s->p == '[';
			depth -= *s->p == '}' || *s->p == ']';
			s->p++;
		} else {
			word_take(s);
		}
	} while (depth > 0);
}

/* ---- marks ----------------------------------------------------------------------------------- */

enum mark { MARK_NONE = 0, MARK_TIME, MARK_AGE, MARK_MONEY };

/* Returns the key's mark, and in *ret_n the length of its name. */
static enum mark key_mark(struct str key, size_t *ret_n)
{
	const char *at = memchr(key.p, '@', key.n);
	size_t left = at != NULL ? key.n - (size_t)(at - key.p) : 0;

	*ret_n = key.n - left;
	if (left == 1) {
		return MARK_TIME;
	}
	if (left == 4 && memcmp(at, "@age", 4) == 0) {
		return MARK_AGE;
	}
	if (key.n > 1 && key.p[key.n - 1] == '$') {
		*ret_n = key.n - 1;
		return MARK_MONEY;
	}
	return MARK_NONE;
}

static void name_put(struct sbuf *out, struct str name, const char *ending)
{
	sbuf_putc(out, '"');
	sbuf_add(out, name.p, name.n);
	sbuf_puts(out, ending);
	sbuf_add(out, "\":", 2);
}

static void marked_put(struct scan *s, struct str name, enum mark mark)
{
	struct sbuf *out = s->out;
	const char *from;
	bool has;
	int64_t v = 0;

	blanks_skip(s);
	from = s->p;
	value_skip(s);
	has = word_integer((struct str){ from, (size_t)(s->p - from) }, &v);
	if (mark == MARK_MONEY) {
		name_put(out, name, "_micros");
		sbuf_add(out, from, (size_t)(s->p - from));
		sbuf_putc(out, ',');
		name_put(out, name, "_usd");
		(has ? json_put_usd(out, v) : json_put_null(out));
		return;
	}
	name_put(out, name, name.n > 0 ? "_at" : "at");
	(has ? json_put_time(out, v) : json_put_null(out));
	if (mark == MARK_AGE) {
		sbuf_puts(out, ",\"age_s\":");
		(has ? json_put_i64(out, MAX((s->now_us - v) / SPOT_US_PER_S, 0))
		     : json_put_null(out));
	}
}

static void string_put(struct scan *s)
{
	const char *from = s->p;
	struct str inside = string_take(s), whole = { from, (size_t)(s->p - from) };
	enum mark mark;
	size_t n;

	blanks_skip(s);
	mark = s->p < s->end && *s->p == ':' ? key_mark(inside, &n) : MARK_NONE;
	if (mark == MARK_NONE) {
		sbuf_add(s->out, whole.p, whole.n);
		return;
	}
	s->p++; /* the colon */
	inside.n = n;
	marked_put(s, inside, mark);
}

void json_marks_put(struct sbuf *b, const char *text, size_t n, int64_t now_us)
{
	struct scan s = { .p = text, .end = text + n, .out = b, .now_us = now_us };

	for (blanks_skip(&s); s.p < s.end; blanks_skip(&s)) {
		if (*s.p == '"') {
			string_put(&s);
		} else if (strchr("{}[],:", *s.p) != NULL) {
			sbuf_putc(b, *s.p++);
		} else {
			word_put(b, word_take(&s));
		}
	}
}
