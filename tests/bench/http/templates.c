/* Parses request templates, and makes requests of them. */
#include "templates.h"

#include "base/base.h"
#include "base/text/text.h"

#define MARK "###"
#define COUNTER "{counter}"
#define RANDOM "{random:"
#define WEIGHT_MAX 1000000

struct parser {
	struct arena *arena;
	const char *host;
	struct str rest;
	int64_t line;
	struct templates *ret;
	struct spot_err *err;
};

static bool parser_fail(struct parser *p, const char *problem)
{
	(void)err_set(p->err, SPOT_INVALID, "templates line %" PRId64 ": %s", p->line, problem);
	return false;
}

/* Takes the next line, without its end. False: the text is over. */
static bool line_take(struct parser *p, struct str *ret)
{
	const char *end;

	if (p->rest.n == 0) {
		return false;
	}
	end = memchr(p->rest.p, '\n', p->rest.n);
	*ret = (struct str){ p->rest.p, end ? (size_t)(end - p->rest.p) : p->rest.n };
	p->rest.p += ret->n + (end != NULL);
	p->rest.n -= ret->n + (end != NULL);
	p->line++;
	return true;
}

static bool line_is_mark(struct str s)
{
	return s.n >= strlen(MARK) && memcmp(s.p, MARK, strlen(MARK)) == 0;
}

static struct template_piece *piece_add(struct arena *a, struct template_text *t)
{
	t->pieces = arena_grow(a, t->pieces, t->n, &t->cap, sizeof(*t->pieces));
	t->pieces[t->n] = (struct template_piece){ 0 };
	return &t->pieces[t->n++];
}

static void literal_add(struct arena *a, struct template_text *t, const char *from, const char *to)
{
	if (to > from) {
		piece_add(a, t)->text = (struct str){ from, (size_t)(to - from) };
	}
}

/* Reads a placeholder at s into ret. Returns its length; 0: there is none; -1: a wrong one. */
static int64_t placeholder_read(struct arena *a, const char *s, struct template_piece *ret)
{
	const char *end;

	if (str_prefix(s, COUNTER)) {
		*ret = (struct template_piece){ .kind = TEMPLATE_COUNTER };
		return (int64_t)strlen(COUNTER);
	}
	if (!str_prefix(s, RANDOM)) {
		return 0;
	}
	*ret = (struct template_piece){ .kind = TEMPLATE_RANDOM };
	end = strchr(s, '}');
	s += strlen(RANDOM);
	if (end == NULL ||
	    !parse_i64(arena_strndup(a, s, (size_t)(end - s)), 1, INT64_MAX, &ret->most)) {
		return -1;
	}
	return end + 1 - s + (int64_t)strlen(RANDOM);
}

static bool text_add(struct parser *p, struct template_text *t, const char *s)
{
	const char *from = s;

	while ((s = strchr(s, '{')) != NULL) {
		struct template_piece piece = { 0 };
		int64_t n = placeholder_read(p->arena, s, &piece);

		if (n < 0) {
			return parser_fail(p, "{random:N} needs a whole number of at least 1");
		}
		if (n > 0) {
			literal_add(p->arena, t, from, s);
			*piece_add(p->arena, t) = piece;
			from = s + n;
		}
		s += MAX(n, 1);
	}
	literal_add(p->arena, t, from, from + strlen(from));
	return true;
}

/* The words of a line such as `### GET /v1/jobs 3`. */
static bool request_line_read(struct parser *p, struct str line, struct template *t)
{
	char *words[4] = { NULL }, *save = NULL;
	char *text = arena_strndup(p->arena, line.p + strlen(MARK), line.n - strlen(MARK));
	size_t n = 0;

	for (char *w = strtok_r(text, " \t\r", &save); w; w = strtok_r(NULL, " \t\r", &save)) {
		if (n == 3) {
			return parser_fail(p, "too many words after '###'");
		}
		words[n++] = w;
	}
	if (n < 2 || words[1][0] != '/') {
		return parser_fail(p, "'###' needs a method and a path that begins with '/'");
	}
	t->method = words[0];
	t->weight = 1;
	if (n == 3 && !parse_i64(words[2], 1, WEIGHT_MAX, &t->weight)) {
		return parser_fail(p, "the weight must be a whole number from 1 to 1000000");
	}
	return text_add(p, &t->head,
	    arena_printf(p->arena, "%s %s HTTP/1.1\r\nHost: %s\r\n", t->method, words[1], p->host));
}

/* Reads headers up to the empty line, the next template or the end. */
static bool headers_read(struct parser *p, struct template *t)
{
	while (p->rest.n > 0 && !line_is_mark(p->rest)) {
		struct str line = { 0 };

		(void)line_take(p, &line);
		if (line.n > 0 && line.p[line.n - 1] == '\r') {
			line.n--;
		}
		if (line.n == 0) {
			break;
		}
		if (memchr(line.p, ':', line.n) == NULL) {
			return parser_fail(p, "a header needs a ':'");
		}
		if (!text_add(p, &t->head,
			arena_printf(p->arena, "%.*s\r\n", (int)line.n, line.p))) {
			return false;
		}
	}
	return true;
}

/* The body ends before the next line that begins with `###`, and keeps its line ends. */
static bool body_read(struct parser *p, struct template *t)
{
	const char *from = p->rest.p;
	struct str line;

	while (!line_is_mark(p->rest) && line_take(p, &line)) {
	}
	t->has_body = p->rest.p > from;
	return text_add(p, &t->body,
	    t->has_body ? arena_strndup(p->arena, from, (size_t)(p->rest.p - from)) : "");
}

static bool template_read(struct parser *p)
{
	struct templates *all = p->ret;
	struct template *t;
	struct str line = { 0 };

	if (!line_is_mark(p->rest)) {
		p->line++;
		return parser_fail(p, "a template begins with '###'");
	}
	(void)line_take(p, &line);
	all->all = arena_grow(p->arena, all->all, all->n, &all->cap, sizeof(*all->all));
	t = &all->all[all->n++];
	*t = (struct template){ 0 };
	if (!request_line_read(p, line, t) || !headers_read(p, t) || !body_read(p, t)) {
		return false;
	}
	all->weight += t->weight;
	return true;
}

enum spot_rc templates_parse(struct arena *a, struct str text, const char *host,
    struct templates *ret, struct spot_err *err)
{
	struct parser p = { .arena = a, .host = host, .rest = text, .ret = ret, .err = err };

	*ret = (struct templates){ 0 };
	while (p.rest.n > 0) {
		if (!template_read(&p)) {
			return SPOT_INVALID;
		}
	}
	if (ret->n == 0) {
		(void)parser_fail(&p, "there is no template");
		return SPOT_INVALID;
	}
	return SPOT_OK;
}

const struct template *templates_pick(const struct templates *t, struct rng *rng)
{
	int64_t at = t->n > 1 ? (int64_t)rng_below(rng, (uint64_t)t->weight) : 0;
	size_t i = 0;

	while (at >= t->all[i].weight) {
		at -= t->all[i++].weight;
	}
	return &t->all[i];
}

static void text_render(const struct template_text *t, int64_t counter, struct rng *rng,
    struct sbuf *out)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct template_piece *p = &t->pieces[i];

		switch (p->kind) {
		case TEMPLATE_TEXT:
			sbuf_add(out, p->text.p, p->text.n);
			break;
		case TEMPLATE_COUNTER:
			sbuf_printf(out, "%" PRId64, counter);
			break;
		case TEMPLATE_RANDOM:
			sbuf_printf(out, "%" PRIu64, 1 + rng_below(rng, (uint64_t)p->most));
			break;
		}
	}
}

void template_render(const struct template *t, int64_t counter, struct rng *rng, struct sbuf *out)
{
	AUTO(sbuf) struct sbuf body;

	sbuf_init(&body, 0);
	text_render(&t->head, counter, rng, out);
	if (t->has_body) {
		text_render(&t->body, counter, rng, &body);
		sbuf_printf(out, "Content-Length: %zu\r\n", body.n);
	}
	sbuf_puts(out, "\r\n");
	sbuf_add(out, body.p, body.n);
}
