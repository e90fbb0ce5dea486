/*
 * List filters as compute takes them (AIP-160 and the older "field eq regex"). Comparisons are
 * joined by AND, OR, NOT and brackets; two in a row mean AND. A field is a path of names; a missing
 * one is empty.
 */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

#include <ctype.h>
#include <regex.h>
#include <strings.h>

struct parser {
	const char *p;
	const json_t *item; /* NULL: only the syntax is looked at */
	struct arena *a;
	bool broken;
	int depth;
};

static void skip_space(struct parser *f)
{
	while (isspace((unsigned char)*f->p)) {
		f->p++;
	}
}

/* A word of letters; true and behind it when it is the next thing. */
static bool word_read(struct parser *f, const char *w)
{
	size_t n = strlen(w);

	skip_space(f);
	if (strncmp(f->p, w, n) != 0 || isalnum((unsigned char)f->p[n]) || f->p[n] == '_') {
		return false;
	}
	f->p += n;
	return true;
}

static const char *field_name(struct parser *f)
{
	const char *start;

	skip_space(f);
	start = f->p;
	while (isalnum((unsigned char)*f->p) || (*f->p && strchr("_-.", *f->p))) {
		f->p++;
	}
	if (f->p == start) {
		f->broken = true;
	}
	return arena_strndup(f->a, start, (size_t)(f->p - start));
}

static const char *value_text(struct parser *f)
{
	const char *start;
	char *out;

	skip_space(f);
	if (*f->p != '"' && *f->p != '\'') {
		start = f->p;
		while (*f->p && !isspace((unsigned char)*f->p) && *f->p != ')' && *f->p != '(') {
			f->p++;
		}
		if (f->p == start) {
			f->broken = true;
		}
		return arena_strndup(f->a, start, (size_t)(f->p - start));
	}
	char quote = *f->p++;

	out = arena_strdup(f->a, f->p);
	start = out;
	for (; *f->p && *f->p != quote; f->p++) {
		if (*f->p == '\\' && f->p[1]) {
			f->p++;
		}
		*out++ = *f->p;
	}
	*out = '\0';
	if (*f->p) {
		f->p++;
	} else {
		f->broken = true;
	}
	return start;
}

#define TEXTS_MAX 64

static const char *item_text(struct parser *f, const json_t *at, bool *ret_has)
{
	*ret_has = false;
	if (!at || json_is_null(at)) {
		return "";
	}
	*ret_has = true;
	if (json_is_string(at)) {
		return json_string_value(at);
	}
	if (json_is_boolean(at)) {
		return json_is_true(at) ? "true" : "false";
	}
	if (json_is_integer(at)) {
		return arena_printf(f->a, "%" PRId64, (int64_t)json_integer_value(at));
	}
	return "";
}

/* Finds the values at a path: of a repeated field, every element. */
static size_t item_find(const json_t *at, const char *path, const json_t **out, size_t n)
{
	char name[128];
	size_t len = strcspn(path, "."), k;
	const json_t *one;

	if (json_is_array(at)) {
		json_array_foreach (at, k, one) {
			n = item_find(one, path, out, n);
		}
		return n;
	}
	if (!at || json_is_null(at) || n == TEXTS_MAX || len >= sizeof(name)) {
		return n;
	}
	if (!*path) {
		out[n] = at;
		return n + 1;
	}
	memcpy(name, path, len);
	name[len] = '\0';
	return item_find(json_object_get(at, name), path + len + (path[len] == '.'), out, n);
}

static bool regex_matches(struct parser *f, const char *pattern, const char *text)
{
	regex_t re;
	bool ok;

	if (regcomp(&re, arena_printf(f->a, "^(%s)$", pattern), REG_EXTENDED | REG_NOSUB) != 0) {
		f->broken = true;
		return false;
	}
	ok = regexec(&re, text, 0, NULL, 0) == 0;
	regfree(&re);
	return ok;
}

static bool values_ordered(const char *had, const char *want, const char *op)
{
	int64_t x, y;
	int cmp =
	    parse_i64(had, INT64_MIN, INT64_MAX, &x) && parse_i64(want, INT64_MIN, INT64_MAX, &y)
	    ? (x > y) - (x < y)
	    : strcmp(had, want);

	return op[0] == '<' ? cmp < 0 || (op[1] && cmp == 0) : cmp > 0 || (op[1] && cmp == 0);
}

/* One value against an operator; the negative ones (ne, !=) are made of the positive. */
static bool value_holds(struct parser *f, const char *op, const char *value, const json_t *at)
{
	bool has;
	const char *had = item_text(f, at, &has);

	if (str_same(op, "eq")) {
		return regex_matches(f, value, had);
	}
	if (str_same(op, "==")) {
		return str_same(had, value);
	}
	if (str_same(op, "=")) {
		return glob_match(value, had) && (has || !*value);
	}
	if (str_same(op, ":")) {
		return str_same(value, "*") ? at != NULL
		    : strchr(value, '*')    ? glob_match(arena_printf(f->a, "*%s*", value), had)
					    : strcasestr(had, value) != NULL;
	}
	return has && values_ordered(had, value, op);
}

static bool comparison_read(struct parser *f)
{
	/* as written, as looked at, turned round */
	static const struct {
		const char *text, *op;
		bool negative;
	} ops[] = { { "!=", "==", true }, { "<=", "<=", false }, { ">=", ">=", false },
		{ "=", "=", false }, { ":", ":", false }, { "<", "<", false },
		{ ">", ">", false } };
	const char *field = field_name(f), *op = NULL, *value;
	const json_t *found[TEXTS_MAX] = { NULL };
	bool negative = false, any = false;
	size_t n;

	if (f->broken) {
		return false;
	}
	if (word_read(f, "eq") || (negative = word_read(f, "ne"))) {
		op = "eq";
	}
	skip_space(f);
	for (size_t k = 0; !op && k < ARRAY_LEN(ops); k++) {
		if (strncmp(f->p, ops[k].text, strlen(ops[k].text)) != 0) {
			continue;
		}
		f->p += strlen(ops[k].text);
		op = ops[k].op;
		negative = ops[k].negative;
	}
	if (!op) {
		f->broken = true;
		return false;
	}
	value = value_text(f);
	n = item_find(f->item, field, found, 0);
	for (size_t k = 0; k < MAX(n, (size_t)1) && !any; k++) {
		any = value_holds(f, op, value, found[k]);
	}
	return any != negative;
}

static bool expression_read(struct parser *f);

static bool factor_read(struct parser *f)
{
	bool v;

	if (word_read(f, "NOT")) {
		return !factor_read(f);
	}
	skip_space(f);
	if (*f->p == '-' && f->p[1] && f->p[1] != '-') {
		f->p++;
		return !factor_read(f);
	}
	if (*f->p != '(') {
		return comparison_read(f);
	}
	if (++f->depth > 32) {
		f->broken = true;
		return false;
	}
	f->p++;
	v = expression_read(f);
	skip_space(f);
	if (*f->p == ')') {
		f->p++;
	} else {
		f->broken = true;
	}
	f->depth--;
	return v;
}

/* OR binds closer than AND (AIP-160). */
static bool term_read(struct parser *f)
{
	bool v = factor_read(f);

	while (!f->broken && word_read(f, "OR")) {
		bool w = factor_read(f);

		v = v || w;
	}
	return v;
}

static bool expression_read(struct parser *f)
{
	bool v = term_read(f);

	for (;;) {
		bool w;

		skip_space(f);
		if (f->broken || !*f->p || *f->p == ')') {
			return v;
		}
		word_read(f, "AND");
		w = term_read(f);
		v = v && w;
	}
}

bool gcp_filter_valid(const char *filter, struct arena *a)
{
	struct parser f = { .p = filter, .a = a };

	expression_read(&f);
	skip_space(&f);
	return !f.broken && !*f.p;
}

bool gcp_filter_match(const char *filter, const json_t *item, struct arena *a)
{
	struct parser f = { .p = filter, .a = a, .item = item };

	return expression_read(&f) && !f.broken;
}
