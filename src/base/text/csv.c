/* RFC 4180 reader: quoted fields may hold commas, doubled quotes and line ends. Rows live in the
 * arena. An error names the first line of its row. */
#include "base/base.h"
#include "base/text/csv.h"
#include "base/text/str.h"

#define COLUMNS_MAX 1000

struct fields {
	const char **items;
	size_t n, cap;
};

static bool at_end(const struct csv *c)
{
	return c->pos >= c->text.n;
}

/* Reads after the opening quote. False: no closing quote, or more text directly after it. */
static bool read_quoted(struct csv *c, const char **ret)
{
	size_t from = c->pos, n = 0;
	size_t end = from;

	for (;; end++) {
		if (end >= c->text.n) {
			return false;
		}
		if (c->text.p[end] != '"') {
			continue;
		}
		if (end + 1 < c->text.n && c->text.p[end + 1] == '"') {
			end++;
		} else {
			break;
		}
	}
	char *out = arena_alloc(c->arena, end - from + 1);
	for (size_t i = from; i < end; i++) {
		out[n++] = c->text.p[i];
		i += c->text.p[i] == '"';
		c->line += out[n - 1] == '\n';
	}
	out[n] = '\0';
	c->pos = end + 1;
	*ret = out;
	if (at_end(c)) {
		return true;
	}
	char next = c->text.p[c->pos];
	return next == ',' || next == '\n' || next == '\r';
}

static void read_plain(struct csv *c, const char **ret)
{
	size_t from = c->pos;

	while (!at_end(c) && c->text.p[c->pos] != ',' && c->text.p[c->pos] != '\n' &&
	    c->text.p[c->pos] != '\r') {
		c->pos++;
	}
	*ret = arena_strndup(c->arena, c->text.p + from, c->pos - from);
}

/* Skips "\n", "\r\n" or a lone "\r". */
static void skip_line_end(struct csv *c)
{
	if (!at_end(c) && c->text.p[c->pos] == '\r') {
		c->pos++;
	}
	if (!at_end(c) && c->text.p[c->pos] == '\n') {
		c->pos++;
	}
	c->line++;
}

static bool read_row(struct csv *c, struct fields *f, struct spot_err *err)
{
	int line = c->line;

	for (;;) {
		const char *field;

		if (f->n == COLUMNS_MAX) {
			err_set(err, SPOT_INVALID, "CSV: line %d: more than %d fields", line,
			    COLUMNS_MAX);
			return false;
		}
		if (!at_end(c) && c->text.p[c->pos] == '"') {
			c->pos++;
			if (!read_quoted(c, &field)) {
				err_set(err, SPOT_INVALID, "CSV: line %d, field %zu: bad quoting",
				    line, f->n + 1);
				return false;
			}
		} else {
			read_plain(c, &field);
		}
		f->items = arena_grow(c->arena, f->items, f->n, &f->cap, sizeof(*f->items));
		f->items[f->n++] = field;
		if (at_end(c) || c->text.p[c->pos] != ',') {
			break;
		}
		c->pos++;
	}
	skip_line_end(c);
	return true;
}

enum spot_rc csv_open(struct csv *c, struct arena *a, struct str text, struct spot_err *err)
{
	struct fields f = { 0 };

	*c = (struct csv){ .text = text, .line = 1, .arena = a };
	if (text.n >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0) {
		c->pos = 3;
	}
	if (at_end(c)) {
		return err_set(err, SPOT_INVALID, "CSV: empty, expected a header row");
	}
	if (memchr(text.p, '\0', text.n) != NULL) {
		return err_set(err, SPOT_INVALID, "CSV: contains NUL bytes");
	}
	if (!read_row(c, &f, err)) {
		return SPOT_INVALID;
	}
	for (size_t i = 0; i < f.n; i++) {
		for (size_t j = 0; j < i; j++) {
			if (strcmp(f.items[i], f.items[j]) == 0) {
				return err_set(err, SPOT_INVALID,
				    "CSV: line 1: column '%s' appears twice", f.items[i]);
			}
		}
	}
	c->header = f.items;
	c->columns = f.n;
	return SPOT_OK;
}

int csv_next(struct csv *c, struct spot_err *err)
{
	struct fields f = { 0 };

	while (!at_end(c) && (c->text.p[c->pos] == '\n' || c->text.p[c->pos] == '\r')) {
		skip_line_end(c);
	}
	if (at_end(c)) {
		return 0;
	}
	int line = c->line;
	if (!read_row(c, &f, err)) {
		return -1;
	}
	if (f.n != c->columns) {
		err_set(err, SPOT_INVALID, "CSV: line %d: %zu fields, the header has %zu", line,
		    f.n, c->columns);
		return -1;
	}
	c->row = f.items;
	return 1;
}

const char *csv_get(const struct csv *c, const char *column)
{
	for (size_t i = 0; i < c->columns; i++) {
		if (strcmp(c->header[i], column) == 0) {
			return c->row[i];
		}
	}
	return "";
}
