#include "base/base.h"
#include "aws_priv.h"

/*
 * The vendor's shared files: INI with [name] in the credentials file and [profile name] in the
 * config file (docs.aws.amazon.com/sdkref/latest/guide/file-format.html). Indented lines are
 * sub-settings of the key above and are skipped.
 */

struct line {
	const char *p;
	size_t n;
};

/* Next line without its end and trailing blanks; false at the end of the text. */
static bool line_next(struct str text, size_t *at, struct line *ret)
{
	const char *end;

	if (*at >= text.n) {
		return false;
	}
	ret->p = text.p + *at;
	end = memchr(ret->p, '\n', text.n - *at);
	ret->n = end != NULL ? (size_t)(end - ret->p) : text.n - *at;
	*at += ret->n + 1;
	while (ret->n > 0 &&
	    (ret->p[ret->n - 1] == ' ' || ret->p[ret->n - 1] == '\t' ||
		ret->p[ret->n - 1] == '\r')) {
		ret->n--;
	}
	return true;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* "[profile  x]" and "[profile \"x\"]" are both "profile x". */
static bool section_is(struct line l, const char *section)
{
	if (l.n < 2 || l.p[0] != '[' || memchr(l.p, ']', l.n) == NULL) {
		return false;
	}
	l.n = (size_t)((const char *)memchr(l.p, ']', l.n) - l.p) - 1;
	l.p++;
	while (l.n > 0 && is_blank(l.p[0])) {
		l.p++;
		l.n--;
	}
	while (l.n > 0 && is_blank(l.p[l.n - 1])) {
		l.n--;
	}
	while (l.n > 0 && *section != '\0') {
		if (is_blank(*l.p) && *section == ' ') {
			while (l.n > 0 && is_blank(*l.p)) {
				l.p++;
				l.n--;
			}
			section++;
		} else if (*l.p == '"' && *section != '"') {
			l.p++;
			l.n--;
		} else if (*l.p == *section) {
			l.p++;
			l.n--;
			section++;
		} else {
			return false;
		}
	}
	return *section == '\0' && (l.n == 0 || (l.n == 1 && *l.p == '"'));
}

bool aws_ini_has(struct str text, const char *section)
{
	struct line l;

	for (size_t at = 0; line_next(text, &at, &l);) {
		if (section_is(l, section)) {
			return true;
		}
	}
	return false;
}

/* The value of "key = value" if the line is that. */
static const char *line_value(struct arena *a, struct line l, const char *key)
{
	size_t n = strlen(key), at = n;

	if (l.n <= n || strncmp(l.p, key, n) != 0) {
		return NULL;
	}
	while (at < l.n && is_blank(l.p[at])) {
		at++;
	}
	if (at == l.n || l.p[at] != '=') {
		return NULL;
	}
	at++;
	while (at < l.n && is_blank(l.p[at])) {
		at++;
	}
	return arena_strndup(a, l.p + at, l.n - at);
}

const char *aws_ini_get(struct arena *a, struct str text, const char *section, const char *key)
{
	bool inside = false;
	const char *found = NULL;
	struct line l;

	for (size_t at = 0; line_next(text, &at, &l);) {
		const char *v;

		if (l.n == 0 || l.p[0] == '#' || l.p[0] == ';' || is_blank(l.p[0])) {
			continue;
		}
		if (l.p[0] == '[') {
			inside = section_is(l, section);
			continue;
		}
		v = inside ? line_value(a, l, key) : NULL;
		if (v != NULL) {
			found = v;
		}
	}
	return str_empty(found) ? NULL : found;
}
