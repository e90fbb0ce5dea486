/*
 * XML as a read-only tree, by expat. The parser refuses a document type declaration at its first
 * byte, so no text can define entities or expand. Limits: depth 64, 2 million elements. All memory
 * comes from the caller's arena.
 */
#include "base/base.h"
#include "base/text/sbuf.h"
#include "base/text/xml.h"

#include <expat.h>

#define DEPTH_MAX 64
#define NODES_MAX 2000000
#define NAME_SLOTS 256

struct frame {
	struct xml *x, *last;
	size_t text_at; /* start of this element's text in the shared buffer */
};
struct parse {
	XML_Parser parser;
	struct arena *arena;
	struct xml *root;
	struct frame stack[DEPTH_MAX];
	size_t depth, nodes;
	struct sbuf text;
	const char *names[NAME_SLOTS]; /* cache: replies repeat few names, so store them once */
	const char *why;
};

static void parse_stop(struct parse *p, const char *why)
{
	if (p->why == NULL) {
		p->why = why;
	}
	XML_StopParser(p->parser, XML_FALSE);
}

static const char *name_intern(struct parse *p, const char *name)
{
	const char **slot = &p->names[hash_str(HASH_START, name) % NAME_SLOTS];

	if (*slot == NULL || strcmp(*slot, name) != 0) {
		*slot = arena_strdup(p->arena, name);
	}
	return *slot;
}

static void on_start(void *user, const XML_Char *name, const XML_Char **attributes UNUSED)
{
	struct parse *p = user;
	const char *colon = strrchr(name, ':');

	if (p->depth == DEPTH_MAX) {
		parse_stop(p, "nested deeper than 64");
		return;
	}
	if (++p->nodes > NODES_MAX) {
		parse_stop(p, "more than 2,000,000 elements");
		return;
	}
	struct xml *x = arena_alloc(p->arena, sizeof(*x));
	x->name = name_intern(p, colon != NULL ? colon + 1 : name);
	x->text = "";
	if (p->depth > 0) {
		struct frame *up = &p->stack[p->depth - 1];

		if (up->last != NULL) {
			up->last->next = x;
		} else {
			up->x->child = x;
		}
		up->last = x;
	} else {
		p->root = x;
	}
	p->stack[p->depth++] = (struct frame){ .x = x, .text_at = p->text.n };
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void on_end(void *user, const XML_Char *name UNUSED)
{
	struct parse *p = user;

	if (p->depth == 0) {
		return;
	}
	struct frame *f = &p->stack[--p->depth];
	size_t from = f->text_at, to = p->text.n;
	while (from < to && is_blank(p->text.p[from])) {
		from++;
	}
	while (to > from && is_blank(p->text.p[to - 1])) {
		to--;
	}
	if (to > from) {
		f->x->text = arena_strndup(p->arena, p->text.p + from, to - from);
	}
	p->text.n = f->text_at;
}

static void on_text(void *user, const XML_Char *s, int n)
{
	struct parse *p = user;

	sbuf_add(&p->text, s, (size_t)n);
	if (p->text.overflow) {
		parse_stop(p, "text too long");
	}
}

static void on_doctype(void *user, const XML_Char *name UNUSED, const XML_Char *sysid UNUSED,
    const XML_Char *pubid UNUSED, int internal UNUSED)
{
	parse_stop(user, "document type declarations are refused");
}

enum spot_rc xml_parse(struct arena *a, struct str text, struct xml **ret, struct spot_err *err)
{
	struct parse *p = arena_alloc(a, sizeof(*p));
	enum spot_rc rc = SPOT_OK;

	if (text.n > INT32_MAX) {
		return err_set(err, SPOT_TOO_LARGE, "XML: larger than 2 GiB");
	}
	p->arena = a;
	p->parser = XML_ParserCreate(NULL);
	if (p->parser == NULL) {
		abort();
	}
	sbuf_init(&p->text, text.n + 1);
	XML_SetUserData(p->parser, p);
	XML_SetElementHandler(p->parser, on_start, on_end);
	XML_SetCharacterDataHandler(p->parser, on_text);
	XML_SetStartDoctypeDeclHandler(p->parser, on_doctype);
	if (XML_Parse(p->parser, text.p, (int)text.n, XML_TRUE) != XML_STATUS_OK ||
	    p->why != NULL) {
		rc = err_set(err, SPOT_INVALID, "XML: line %lu, column %lu: %s",
		    (unsigned long)XML_GetCurrentLineNumber(p->parser),
		    (unsigned long)XML_GetCurrentColumnNumber(p->parser) + 1,
		    p->why != NULL ? p->why : XML_ErrorString(XML_GetErrorCode(p->parser)));
	}
	XML_ParserFree(p->parser);
	sbuf_fini(&p->text);
	if (rc == SPOT_OK) {
		*ret = p->root;
	}
	return rc;
}

static const struct xml *sibling_find(const struct xml *x, const char *name, size_t n)
{
	for (; x != NULL; x = x->next) {
		if (strlen(x->name) == n && memcmp(x->name, name, n) == 0) {
			return x;
		}
	}
	return NULL;
}

const struct xml *xml_at(const struct xml *x, const char *path)
{
	while (x != NULL && *path != '\0') {
		size_t n = strcspn(path, "/");

		x = sibling_find(x->child, path, n);
		path += n;
		path += *path == '/';
	}
	return x;
}

const char *xml_text(const struct xml *x, const char *path, const char *dflt)
{
	const struct xml *at = xml_at(x, path);

	return at != NULL ? at->text : dflt;
}

const struct xml *xml_first(const struct xml *x, const char *name)
{
	return x != NULL ? sibling_find(x->child, name, strlen(name)) : NULL;
}

const struct xml *xml_next(const struct xml *x, const char *name)
{
	return sibling_find(x->next, name, strlen(name));
}
