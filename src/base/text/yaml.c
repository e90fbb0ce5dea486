/*
 * YAML as a tree with positions, built from libyaml's events. The parser refuses aliases, anchors
 * and tags, so a small text cannot become a large tree. All memory comes from the caller's arena.
 */
#include "base/base.h"
#include "base/text/yaml.h"

#include <stdarg.h>
#include <yaml.h>

#define TEXT_MAX ((size_t)1 << 20)
#define DEPTH_MAX 32
#define NODES_MAX 20000

struct parse {
	yaml_parser_t parser;
	struct arena *arena;
	struct spot_err *err;
	size_t nodes;
	struct str text;
	size_t chars, bytes; /* one position in the text: libyaml's count and ours */
};

static enum spot_rc fail_at(struct parse *p, const yaml_mark_t *at, const char *what)
{
	return err_set(p->err, SPOT_INVALID, "line %zu, column %zu: %s", at->line + 1,
	    at->column + 1, what);
}

static enum spot_rc event_next(struct parse *p, yaml_event_t *e)
{
	if (yaml_parser_parse(&p->parser, e)) {
		return SPOT_OK;
	}
	const yaml_parser_t *y = &p->parser;
	if (y->error == YAML_READER_ERROR) {
		return err_set(p->err, SPOT_INVALID, "byte %zu: %s", y->problem_offset,
		    y->problem != NULL ? y->problem : "not valid UTF-8");
	}
	return fail_at(p, &y->problem_mark, y->problem != NULL ? y->problem : "not valid YAML");
}

/* Converts a mark, which counts characters, to bytes. Calls come in the order of the text, so one
 * pass over it is enough. */
static size_t byte_of(struct parse *p, const yaml_mark_t *at)
{
	if (at->index < p->chars) {
		p->chars = p->bytes = 0;
	}
	for (; p->chars < at->index && p->bytes < p->text.n; p->chars++) {
		p->bytes++;
		while (
		    p->bytes < p->text.n && ((unsigned char)p->text.p[p->bytes] & 0xc0) == 0x80) {
			p->bytes++;
		}
	}
	return p->bytes;
}

static enum spot_rc node_parse(struct parse *p, const yaml_event_t *e, int depth, struct yaml *ret);

/* Sets the position of a new node. Refuses an anchor, a tag, and more than NODES_MAX nodes. */
static enum spot_rc node_begin(struct parse *p, const yaml_event_t *e, const yaml_char_t *anchor,
    const yaml_char_t *tag, struct yaml *y)
{
	y->line = (int)e->start_mark.line + 1;
	y->column = (int)e->start_mark.column + 1;
	if (anchor != NULL) {
		return fail_at(p, &e->start_mark, "anchors are not supported: write the value out");
	}
	if (tag != NULL) {
		return fail_at(p, &e->start_mark, "tags are not supported");
	}
	if (++p->nodes > NODES_MAX) {
		return fail_at(p, &e->start_mark, "more than 20,000 values");
	}
	return SPOT_OK;
}

static enum spot_rc scalar_text(struct parse *p, const yaml_event_t *e, const char **ret)
{
	const char *value = (const char *)e->data.scalar.value;

	if (strlen(value) != e->data.scalar.length) {
		return fail_at(p, &e->start_mark, "NUL bytes are not allowed");
	}
	*ret = arena_strndup(p->arena, value, e->data.scalar.length);
	return SPOT_OK;
}

static enum spot_rc scalar_parse(struct parse *p, const yaml_event_t *e, struct yaml *y)
{
	enum spot_rc rc = node_begin(p, e, e->data.scalar.anchor, e->data.scalar.tag, y);

	if (rc != SPOT_OK) {
		return rc;
	}
	y->kind = YAML_SCALAR;
	y->begin = byte_of(p, &e->start_mark);
	y->end = byte_of(p, &e->end_mark);
	y->plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	return scalar_text(p, e, &y->text);
}

static void child_append(struct yaml *parent, struct yaml **last, struct yaml *child)
{
	if (*last != NULL) {
		(*last)->next = child;
	} else {
		parent->child = child;
	}
	*last = child;
	parent->children++;
}

static enum spot_rc seq_parse(struct parse *p, const yaml_event_t *e, int depth, struct yaml *y)
{
	struct yaml *last = NULL;
	enum spot_rc rc =
	    node_begin(p, e, e->data.sequence_start.anchor, e->data.sequence_start.tag, y);

	y->kind = YAML_SEQ;
	while (rc == SPOT_OK) {
		yaml_event_t item;

		rc = event_next(p, &item);
		if (rc != SPOT_OK) {
			break;
		}
		if (item.type == YAML_SEQUENCE_END_EVENT) {
			yaml_event_delete(&item);
			break;
		}
		struct yaml *child = arena_alloc(p->arena, sizeof(*child));
		rc = node_parse(p, &item, depth + 1, child);
		yaml_event_delete(&item);
		child_append(y, &last, child);
	}
	return rc;
}

/* Makes the entry for the key in e; refuses a duplicate key. */
static enum spot_rc key_parse(struct parse *p, const yaml_event_t *e, const struct yaml *map,
    struct yaml **ret)
{
	struct yaml *child = arena_alloc(p->arena, sizeof(*child));

	if (e->type == YAML_ALIAS_EVENT) {
		return fail_at(p, &e->start_mark, "aliases are not supported: write the value out");
	}
	if (e->type != YAML_SCALAR_EVENT) {
		return fail_at(p, &e->start_mark, "keys must be plain text");
	}
	enum spot_rc rc = node_begin(p, e, e->data.scalar.anchor, e->data.scalar.tag, child);
	if (rc == SPOT_OK) {
		rc = scalar_text(p, e, &child->key);
	}
	if (rc != SPOT_OK) {
		return rc;
	}
	child->key_line = child->line;
	child->key_column = child->column;
	child->key_begin = byte_of(p, &e->start_mark);
	child->key_end = byte_of(p, &e->end_mark);
	const struct yaml *twin = yaml_get(map, child->key);
	if (twin != NULL) {
		return err_set(p->err, SPOT_INVALID,
		    "line %d, column %d: key '%.60s' is already given on line %d", child->key_line,
		    child->key_column, child->key, twin->key_line);
	}
	*ret = child;
	return SPOT_OK;
}

static enum spot_rc map_parse(struct parse *p, const yaml_event_t *e, int depth, struct yaml *y)
{
	struct yaml *last = NULL;
	enum spot_rc rc =
	    node_begin(p, e, e->data.mapping_start.anchor, e->data.mapping_start.tag, y);

	y->kind = YAML_MAP;
	while (rc == SPOT_OK) {
		yaml_event_t item;
		struct yaml *child = NULL;

		rc = event_next(p, &item);
		if (rc != SPOT_OK) {
			break;
		}
		if (item.type == YAML_MAPPING_END_EVENT) {
			yaml_event_delete(&item);
			break;
		}
		rc = key_parse(p, &item, y, &child);
		yaml_event_delete(&item);
		if (rc == SPOT_OK) {
			rc = event_next(p, &item);
		}
		if (rc != SPOT_OK) {
			break;
		}
		rc = node_parse(p, &item, depth + 1, child);
		yaml_event_delete(&item);
		child_append(y, &last, child);
	}
	return rc;
}

static enum spot_rc node_parse(struct parse *p, const yaml_event_t *e, int depth, struct yaml *ret)
{
	if (depth > DEPTH_MAX) {
		return fail_at(p, &e->start_mark, "nested deeper than 32");
	}
	if (e->type == YAML_SCALAR_EVENT) {
		return scalar_parse(p, e, ret);
	}
	if (e->type == YAML_SEQUENCE_START_EVENT) {
		return seq_parse(p, e, depth, ret);
	}
	if (e->type == YAML_MAPPING_START_EVENT) {
		return map_parse(p, e, depth, ret);
	}
	if (e->type == YAML_ALIAS_EVENT) {
		return fail_at(p, &e->start_mark, "aliases are not supported: write the value out");
	}
	return fail_at(p, &e->start_mark, "unexpected content");
}

struct docs {
	struct yaml **items;
	size_t n, cap;
};

static enum spot_rc stream_parse(struct parse *p, struct docs *d)
{
	enum spot_rc rc = SPOT_OK;
	bool more = true;

	while (rc == SPOT_OK && more) {
		yaml_event_t e;

		rc = event_next(p, &e);
		if (rc != SPOT_OK) {
			break;
		}
		if (e.type == YAML_STREAM_END_EVENT) {
			more = false;
		} else if (e.type != YAML_STREAM_START_EVENT &&
		    e.type != YAML_DOCUMENT_START_EVENT && e.type != YAML_DOCUMENT_END_EVENT) {
			struct yaml *root = arena_alloc(p->arena, sizeof(*root));

			rc = node_parse(p, &e, 1, root);
			/* An array of pointers. NOLINTNEXTLINE(bugprone-sizeof-expression) */
			d->items = arena_grow(p->arena, d->items, d->n, &d->cap, sizeof(*d->items));
			d->items[d->n++] = root;
		}
		yaml_event_delete(&e);
	}
	return rc;
}

enum spot_rc yaml_parse(struct arena *a, struct str text, struct yaml ***ret_docs, size_t *ret_n,
    struct spot_err *err)
{
	struct parse p = { .arena = a, .err = err, .text = text };
	struct docs d = { 0 };

	if (text.n > TEXT_MAX) {
		return err_set(err, SPOT_TOO_LARGE, "YAML larger than 1 MiB");
	}
	if (!yaml_parser_initialize(&p.parser)) {
		abort();
	}
	yaml_parser_set_encoding(&p.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&p.parser, (const unsigned char *)(text.n > 0 ? text.p : ""),
	    text.n);
	enum spot_rc rc = stream_parse(&p, &d);
	yaml_parser_delete(&p.parser);
	if (rc == SPOT_OK) {
		*ret_docs = d.items;
		*ret_n = d.n;
	}
	return rc;
}

const struct yaml *yaml_get(const struct yaml *map, const char *key)
{
	if (map == NULL || map->kind != YAML_MAP) {
		return NULL;
	}
	for (const struct yaml *y = map->child; y != NULL; y = y->next) {
		if (strcmp(y->key, key) == 0) {
			return y;
		}
	}
	return NULL;
}

bool yaml_is_null(const struct yaml *y)
{
	static const char *const nulls[] = { "", "~", "null", "Null", "NULL" };

	if (y == NULL || y->kind == YAML_NONE) {
		return true;
	}
	if (y->kind != YAML_SCALAR || !y->plain) {
		return false;
	}
	for (size_t i = 0; i < ARRAY_LEN(nulls); i++) {
		if (strcmp(y->text, nulls[i]) == 0) {
			return true;
		}
	}
	return false;
}

enum spot_rc yaml_fail(const struct yaml *at, struct spot_err *err, const char *fmt, ...)
{
	va_list ap;
	char *text = NULL;
	enum spot_rc rc;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0) {
		abort();
	}
	va_end(ap);
	/* The message begins with the key, unless its text names the key already. */
	bool named = at == NULL || at->key == NULL || strstr(text, at->key) != NULL;
	if (at == NULL) {
		rc = err_set(err, SPOT_INVALID, "%s", text);
	} else {
		rc = err_set(err, SPOT_INVALID, "line %d, column %d: %s%s%s", at->line, at->column,
		    named ? "" : at->key, named ? "" : ": ", text);
	}
	free(text);
	return rc;
}
