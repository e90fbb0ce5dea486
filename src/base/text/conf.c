/*
 * Reads INI text against a table of items. Values go into a list first and reach the target only if
 * all are good, so a bad reload changes nothing. A comment (# or ;) takes a line of its own, since
 * values may contain both characters.
 */
#include "base/base.h"
#include "base/text/conf.h"
#include "base/text/near.h"
#include "base/text/sbuf.h"
#include "base/text/str.h"

#include <float.h>

#define COMMENT_COLUMNS 100

union value {
	const char *s;
	int64_t i;
	double f;
	bool b;
};
struct parse {
	struct arena *arena;
	const struct conf_item *items;
	size_t n;
	const char *path;
	int line;
	union value *values;
	int *lines; /* line number of each item, 0 = default */
	char *section; /* NULL before the first */
	struct conf_section *named; /* the open [kind name], else NULL */
	struct conf_file file;
	size_t sections_cap, keys_cap, values_cap, lines_cap, asked_cap, near_cap;
	bool names_allowed;
	bool skips; /* inside a refused section: ignore its keys */
	struct spot_err *err;
};

static bool parse_bool(const char *s, bool *ret)
{
	static const char *const yes[] = { "true", "yes", "on", "1" };
	static const char *const no[] = { "false", "no", "off", "0" };

	for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
		if (strcmp(s, yes[i]) == 0 || strcmp(s, no[i]) == 0) {
			*ret = strcmp(s, yes[i]) == 0;
			return true;
		}
	}
	return false;
}

static const char *type_words(enum conf_type type)
{
	switch (type) {
	case CONF_STR:
		return "text";
	case CONF_PATH:
		return "a path";
	case CONF_I64:
		return "a whole number";
	case CONF_F64:
		return "a number";
	case CONF_BOOL:
		return "true or false";
	case CONF_DURATION:
		return "a duration such as 30s, 5m, 2h or 250ms";
	case CONF_USD:
		return "an amount in dollars such as 1.25";
	}
	return "a value";
}

static bool value_read(const struct conf_item *it, const char *text, union value *v)
{
	switch (it->type) {
	case CONF_STR:
	case CONF_PATH:
		v->s = text;
		return true;
	case CONF_I64:
		return parse_i64(text, INT64_MIN, INT64_MAX, &v->i);
	case CONF_F64:
		return parse_f64(text, -DBL_MAX, DBL_MAX, &v->f);
	case CONF_BOOL:
		return parse_bool(text, &v->b);
	case CONF_DURATION:
		return parse_duration_us(text, &v->i);
	case CONF_USD:
		return parse_usd_micros(text, &v->i);
	}
	return false;
}

/* Returns -1 below, 1 above, 0 equal. A text counts by its length. */
static int value_compare(const struct conf_item *it, const union value *v, const char *bound)
{
	union value b;
	int64_t len;

	if (it->type == CONF_STR || it->type == CONF_PATH) {
		int64_t n = (int64_t)strlen(v->s);

		if (!parse_i64(bound, 0, INT64_MAX, &len)) {
			abort();
		}
		return (n > len) - (n < len);
	}
	if (!value_read(it, bound, &b)) { /* the table itself is wrong */
		abort();
	}
	if (it->type == CONF_F64) {
		return (v->f > b.f) - (v->f < b.f);
	}
	return (v->i > b.i) - (v->i < b.i);
}

static enum spot_rc item_check(struct parse *p, const struct conf_item *it, const char *text,
    union value *v)
{
	const char *shown = (it->flags & CONF_SECRET) != 0 ? "(hidden)" : text;
	bool is_text = it->type == CONF_STR || it->type == CONF_PATH;

	if (!value_read(it, text, v)) {
		return err_set(p->err, SPOT_CONFIG, "%s:%d: [%s] %s = %.80s: expected %s", p->path,
		    p->line, it->section, it->key, shown, type_words(it->type));
	}
	if (it->type == CONF_BOOL) {
		return SPOT_OK;
	}
	if (it->min != NULL && value_compare(it, v, it->min) < 0) {
		return err_set(p->err, SPOT_CONFIG, "%s:%d: [%s] %s = %.80s: %s %s%s", p->path,
		    p->line, it->section, it->key, shown,
		    is_text ? "shorter than" : "below the minimum", it->min,
		    is_text ? " characters" : "");
	}
	if (it->max != NULL && value_compare(it, v, it->max) > 0) {
		return err_set(p->err, SPOT_CONFIG, "%s:%d: [%s] %s = %.80s: %s %s%s", p->path,
		    p->line, it->section, it->key, shown,
		    is_text ? "longer than" : "above the maximum", it->max,
		    is_text ? " characters" : "");
	}
	return SPOT_OK;
}

static enum spot_rc defaults_set(struct parse *p)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct conf_item *it = &p->items[i];

		/* min and max do not apply to a default: "" may mean "not set". */
		if (it->dflt != NULL && !value_read(it, it->dflt, &p->values[i])) {
			return err_set(p->err, SPOT_INTERNAL, "[%s] %s: bad built-in default '%s'",
			    it->section, it->key, it->dflt);
		}
	}
	return SPOT_OK;
}

static char *text_trim(char *s)
{
	while (*s == ' ' || *s == '\t') {
		s++;
	}
	size_t n = strlen(s);
	while (n > 0 && (s[n - 1] == ' ' || s[n - 1] == '\t' || s[n - 1] == '\r')) {
		n--;
	}
	s[n] = '\0';
	return s;
}

static enum spot_rc named_open(struct parse *p, char *kind, char *name)
{
	struct conf_file *f = &p->file;

	p->skips = true;
	if (!p->names_allowed) {
		return err_set(p->err, SPOT_CONFIG, "%s:%d: [%s %s]: sections have no names here",
		    p->path, p->line, kind, name);
	}
	for (size_t i = 0; i < f->n; i++) {
		if (strcmp(f->sections[i].kind, kind) == 0 &&
		    strcmp(f->sections[i].name, name) == 0) {
			return err_set(p->err, SPOT_CONFIG,
			    "%s:%d: [%s %s] is already given on line %d", p->path, p->line, kind,
			    name, f->sections[i].line);
		}
	}
	p->skips = false;
	f->sections =
	    arena_grow(p->arena, f->sections, f->n, &p->sections_cap, sizeof(*f->sections));
	p->named = &f->sections[f->n++];
	*p->named = (struct conf_section){ .kind = kind, .name = name, .line = p->line };
	p->keys_cap = p->values_cap = p->lines_cap = p->asked_cap = p->near_cap = 0;
	return SPOT_OK;
}

static enum spot_rc section_unknown(struct parse *p)
{
	const char *near = NULL;
	char hint[NEAR_HINT_MAX];
	int least = NEAR_LEAST;

	for (size_t i = 0; i < p->n; i++) {
		near = near_better(p->section, p->items[i].section, near, &least);
	}
	return err_set(p->err, SPOT_CONFIG, "%s:%d: unknown section [%.60s]%s", p->path, p->line,
	    p->section, near_hint(near, hint));
}

static enum spot_rc section_open(struct parse *p, char *line)
{
	size_t n = strlen(line);

	p->skips = true;
	p->named = NULL;
	if (n < 3 || line[n - 1] != ']') {
		return err_set(p->err, SPOT_CONFIG, "%s:%d: section is not closed by ]", p->path,
		    p->line);
	}
	line[n - 1] = '\0';
	p->section = text_trim(line + 1);
	p->skips = false;
	char *blank = strpbrk(p->section, " \t");
	if (blank != NULL) {
		*blank = '\0';
		return named_open(p, p->section, text_trim(blank + 1));
	}
	for (size_t i = 0; i < p->n; i++) {
		if (strcmp(p->items[i].section, p->section) == 0) {
			return SPOT_OK;
		}
	}
	p->skips = true;
	return section_unknown(p);
}

static enum spot_rc named_put(struct parse *p, const char *key, const char *value)
{
	struct conf_section *s = p->named;

	if (conf_section_get(s, key) != NULL) {
		return err_set(p->err, SPOT_CONFIG, "%s:%d: [%s %s] %s is given twice", p->path,
		    p->line, s->kind, s->name, key);
	}
	s->keys = arena_grow(p->arena, s->keys, s->n, &p->keys_cap, sizeof(*s->keys));
	s->values = arena_grow(p->arena, s->values, s->n, &p->values_cap, sizeof(*s->values));
	s->lines = arena_grow(p->arena, s->lines, s->n, &p->lines_cap, sizeof(*s->lines));
	s->asked = arena_grow(p->arena, s->asked, s->n, &p->asked_cap, sizeof(*s->asked));
	s->near = arena_grow(p->arena, s->near, s->n, &p->near_cap, sizeof(*s->near));
	s->lines[s->n] = p->line;
	s->asked[s->n] = false;
	s->near[s->n] = (struct conf_near){ .least = NEAR_LEAST };
	s->keys[s->n] = key;
	s->values[s->n++] = value;
	return SPOT_OK;
}

/* Names the section that has the key, or the nearest key of this section. */
static enum spot_rc key_unknown(struct parse *p, const char *key)
{
	const char *near = NULL;
	char hint[NEAR_HINT_MAX];
	int least = NEAR_LEAST;

	for (size_t i = 0; i < p->n; i++) {
		const struct conf_item *it = &p->items[i];

		if (strcmp(it->key, key) == 0) {
			return err_set(p->err, SPOT_CONFIG,
			    "%s:%d: [%s] has no key '%s'; it belongs to [%s]", p->path, p->line,
			    p->section, key, it->section);
		}
		if (strcmp(it->section, p->section) == 0) {
			near = near_better(key, it->key, near, &least);
		}
	}
	return err_set(p->err, SPOT_CONFIG, "%s:%d: [%s] has no key '%.60s'%s", p->path, p->line,
	    p->section, key, near_hint(near, hint));
}

static enum spot_rc key_put(struct parse *p, const char *key, const char *value)
{
	if (p->section == NULL) {
		return err_set(p->err, SPOT_CONFIG, "%s:%d: '%.60s' stands before any [section]",
		    p->path, p->line, key);
	}
	if (p->named != NULL) {
		return named_put(p, key, value);
	}
	for (size_t i = 0; i < p->n; i++) {
		const struct conf_item *it = &p->items[i];

		if (strcmp(it->section, p->section) != 0 || strcmp(it->key, key) != 0) {
			continue;
		}
		if (p->lines[i] != 0) {
			return err_set(p->err, SPOT_CONFIG,
			    "%s:%d: [%s] %s is already given on line %d", p->path, p->line,
			    p->section, key, p->lines[i]);
		}
		p->lines[i] = p->line;
		union value v;
		enum spot_rc rc = item_check(p, it, value, &v);
		if (rc == SPOT_OK) {
			p->values[i] = v;
		}
		return rc;
	}
	return key_unknown(p, key);
}

static enum spot_rc line_parse(struct parse *p, char *line)
{
	line = text_trim(line);
	if (*line == '\0' || *line == '#' || *line == ';') {
		return SPOT_OK;
	}
	if (*line == '[') {
		return section_open(p, line);
	}
	if (p->skips) {
		return SPOT_OK;
	}
	char *eq = strchr(line, '=');
	if (eq == NULL || eq == line) {
		return err_set(p->err, SPOT_CONFIG, "%s:%d: expected 'key = value' or '[section]'",
		    p->path, p->line);
	}
	*eq = '\0';
	return key_put(p, text_trim(line), text_trim(eq + 1));
}

static void target_write(const struct parse *p, void *target)
{
	for (size_t i = 0; i < p->n; i++) {
		char *at = (char *)target + p->items[i].at;

		switch (p->items[i].type) {
		case CONF_STR:
		case CONF_PATH:
			memcpy(at, &p->values[i].s, sizeof(p->values[i].s));
			break;
		case CONF_I64:
		case CONF_DURATION:
		case CONF_USD:
			memcpy(at, &p->values[i].i, sizeof(p->values[i].i));
			break;
		case CONF_F64:
			memcpy(at, &p->values[i].f, sizeof(p->values[i].f));
			break;
		case CONF_BOOL:
			memcpy(at, &p->values[i].b, sizeof(p->values[i].b));
			break;
		}
	}
}

void conf_mistake(struct conf_mistakes *m, const struct spot_err *err)
{
	m->list = arena_grow(m->arena, m->list, m->n, &m->cap, sizeof(*m->list));
	m->list[m->n++] = arena_strdup(m->arena, err->text);
}

static enum spot_rc lines_parse(struct parse *p, char *rest, struct conf_mistakes *all)
{
	struct spot_err *first = p->err, later = { 0 };
	enum spot_rc rc = SPOT_OK;

	while (rest != NULL && (rc == SPOT_OK || all != NULL)) {
		char *line = strsep(&rest, "\n");

		p->line++;
		if (line_parse(p, line) == SPOT_OK) {
			continue;
		}
		if (all != NULL) {
			conf_mistake(all, p->err);
		}
		rc = SPOT_CONFIG;
		p->err = &later;
	}
	p->err = first;
	return rc;
}

enum spot_rc conf_parse_all(struct arena *a, const struct conf_item *items, size_t n,
    const char *path, struct str text, void *target, struct conf_file *ret_named,
    struct conf_mistakes *all, struct spot_err *err)
{
	struct spot_err mine = { 0 };
	struct parse p = { .arena = a, .items = items, .n = n, .path = path };

	p.err = err != NULL ? err : &mine;
	p.names_allowed = ret_named != NULL;
	p.values = arena_array(a, n, sizeof(*p.values));
	p.lines = arena_array(a, n, sizeof(*p.lines));
	enum spot_rc rc = defaults_set(&p);
	if (rc != SPOT_OK) {
		return rc;
	}
	if (text.n > 0 && memchr(text.p, '\0', text.n) != NULL) {
		rc = err_set(p.err, SPOT_CONFIG, "%s: contains NUL bytes", path);
		if (all != NULL) {
			conf_mistake(all, p.err);
		}
	} else {
		char *rest = arena_strndup(a, text.p, text.n);

		rc = lines_parse(&p, str_prefix(rest, "\xef\xbb\xbf") ? rest + 3 : rest, all);
	}
	if (rc != SPOT_OK && all == NULL) {
		return rc;
	}
	target_write(&p, target);
	p.file.item_lines = p.lines;
	if (ret_named != NULL) {
		*ret_named = p.file;
	}
	return rc;
}

enum spot_rc conf_parse(struct arena *a, const struct conf_item *items, size_t n, const char *path,
    struct str text, void *target, struct conf_file *ret_named, struct spot_err *err)
{
	return conf_parse_all(a, items, n, path, text, target, ret_named, NULL, err);
}

/* Uses the largest unit that divides the value, so that a printed file reads back the same. */
static void print_duration(int64_t us, struct sbuf *out)
{
	static const struct {
		int64_t us;
		const char *unit;
	} units[] = { { INT64_C(86400000000), "d" }, { SPOT_US_PER_HOUR, "h" },
		{ INT64_C(60000000), "m" }, { SPOT_US_PER_S, "s" }, { 1000, "ms" }, { 1, "us" } };
	size_t i = 0;

	if (us == 0) {
		sbuf_puts(out, "0s");
		return;
	}
	while (us % units[i].us != 0) {
		i++;
	}
	sbuf_printf(out, "%" PRId64 "%s", us / units[i].us, units[i].unit);
}

static void print_value(const struct conf_item *it, const void *target, struct sbuf *out)
{
	const char *at = (const char *)target + it->at;
	char usd[USD_TEXT_MAX];
	union value v;

	switch (it->type) {
	case CONF_STR:
	case CONF_PATH:
		memcpy(&v.s, at, sizeof(v.s));
		sbuf_puts(out, v.s != NULL ? v.s : "");
		break;
	case CONF_I64:
		memcpy(&v.i, at, sizeof(v.i));
		sbuf_printf(out, "%" PRId64, v.i);
		break;
	case CONF_F64:
		memcpy(&v.f, at, sizeof(v.f));
		sbuf_printf(out, "%.15g", v.f);
		break;
	case CONF_BOOL:
		memcpy(&v.b, at, sizeof(v.b));
		sbuf_puts(out, v.b ? "true" : "false");
		break;
	case CONF_DURATION:
		memcpy(&v.i, at, sizeof(v.i));
		print_duration(v.i, out);
		break;
	case CONF_USD:
		memcpy(&v.i, at, sizeof(v.i));
		sbuf_puts(out, format_usd(v.i, usd));
		break;
	}
}

/* Writes a text as comment lines of at most COMMENT_COLUMNS, broken at blanks. */
static void print_comment(const char *text, struct sbuf *out)
{
	size_t column = 1;

	sbuf_putc(out, '#');
	for (const char *word = text + strspn(text, " "); *word != '\0';
	     word += strspn(word, " ")) {
		size_t n = strcspn(word, " ");

		if (column > 1 && column + 1 + n > COMMENT_COLUMNS) {
			sbuf_puts(out, "\n#");
			column = 1;
		}
		sbuf_putc(out, ' ');
		sbuf_add(out, word, n);
		column += 1 + n;
		word += n;
	}
	sbuf_putc(out, '\n');
}

static void print_help(const struct conf_item *it, struct sbuf *out)
{
	AUTO(sbuf) struct sbuf rules;

	sbuf_init(&rules, 0);
	sbuf_puts(&rules, type_words(it->type));
	if (it->min != NULL) {
		sbuf_printf(&rules, ", at least %s", it->min);
	}
	if (it->max != NULL) {
		sbuf_printf(&rules, ", at most %s", it->max);
	}
	sbuf_printf(&rules, "; default: %s", str_empty(it->dflt) ? "(none)" : it->dflt);
	if ((it->flags & CONF_RELOAD) != 0) {
		sbuf_puts(&rules, "; reloadable");
	}
	sbuf_putc(out, '\n');
	print_comment(it->help != NULL ? it->help : "", out);
	print_comment(rules.p, out);
}

void conf_print(const struct conf_item *items, size_t n, const void *target, bool with_help,
    struct sbuf *out)
{
	for (size_t i = 0; i < n; i++) {
		if (i == 0 || strcmp(items[i].section, items[i - 1].section) != 0) {
			sbuf_printf(out, "%s[%s]\n", i > 0 ? "\n" : "", items[i].section);
		}
		if (with_help) {
			print_help(&items[i], out);
		}
		if ((items[i].flags & CONF_SECRET) != 0) {
			sbuf_printf(out, "# %s is not shown\n", items[i].key);
			continue;
		}
		sbuf_printf(out, "%s = ", items[i].key);
		print_value(&items[i], target, out);
		sbuf_putc(out, '\n');
	}
}

const char *conf_section_get(const struct conf_section *s, const char *key)
{
	for (size_t i = 0; i < s->n; i++) {
		if (strcmp(s->keys[i], key) == 0) {
			s->asked[i] = true;
			return s->values[i];
		}
	}
	for (size_t i = 0; i < s->n; i++) {
		struct conf_near *near = &s->near[i];

		near->word = near_better(s->keys[i], key, near->word, &near->least);
	}
	return NULL;
}

const char *conf_section_unasked(const struct conf_section *s, int *ret_line, const char **ret_near)
{
	for (size_t i = 0; i < s->n; i++) {
		if (!s->asked[i] && strchr(s->keys[i], '.') == NULL) {
			*ret_line = s->lines[i];
			*ret_near = s->near[i].word;
			return s->keys[i];
		}
	}
	return NULL;
}
