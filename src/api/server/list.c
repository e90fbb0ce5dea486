/*
 * Replies written from the rows of a statement, without a tree in between. The body is built in one
 * buffer of the server, which the reply copies.
 */
#include "base/base.h"
#include "api/server/server_priv.h"

#include "base/text/text.h"

#define BODY_KEPT ((size_t)4 << 20)

struct sbuf *areq_body_begin(struct areq *q)
{
	struct sbuf *b = &q->api->body;

	if (b->cap > BODY_KEPT || b->max == 0) {
		sbuf_fini(b);
		sbuf_init(b, 0);
	}
	sbuf_reset(b);
	return b;
}

void areq_body_reply(struct areq *q, int status)
{
	const struct sbuf *b = &q->api->body;

	if (b->overflow) {
		areq_fail(q, SPOT_TOO_LARGE, "the reply is too long; ask for fewer rows");
		return;
	}
	areq_reply(q, status, "application/json", b->p, b->n);
}

void areq_text(struct areq *q, int status, const char *text)
{
	json_marks_put(areq_body_begin(q), text, strlen(text), q->now_us);
	areq_body_reply(q, status);
}

void areq_list_end(struct areq *q, const char *cursor)
{
	struct sbuf *b = &q->api->body;

	sbuf_puts(b, "],\"next\":");
	if (cursor != NULL) {
		json_put_str(b, cursor, strlen(cursor));
	} else {
		json_put_null(b);
	}
	sbuf_putc(b, '}');
	areq_body_reply(q, 200);
}

void areq_items(struct areq *q, const char *items)
{
	struct sbuf *b = areq_body_begin(q);

	sbuf_puts(b, "{\"items\":");
	json_marks_put(b, items, strlen(items), q->now_us);
	sbuf_puts(b, ",\"next\":null}");
	areq_body_reply(q, 200);
}

void areq_list(struct areq *q, const char *const *docs, size_t n, const char *cursor)
{
	struct sbuf *b = areq_body_begin(q);

	sbuf_puts(b, "{\"items\":[");
	for (size_t i = 0; i < n; i++) {
		if (i > 0) {
			sbuf_putc(b, ',');
		}
		json_marks_put(b, docs[i], strlen(docs[i]), q->now_us);
	}
	areq_list_end(q, cursor);
}

void areq_list_docs(struct areq *q, const struct q_listed_row *rows, size_t n)
{
	size_t limit = (size_t) * (const int32_t *)q->own;
	const char **docs = arena_array(q->arena, n + 1, sizeof(*docs)), *cursor = NULL;

	for (size_t i = 0; i < n; i++) {
		docs[i] = rows[i].doc;
	}
	if (n > limit) {
		n = limit;
		cursor = arena_printf(q->arena, "%" PRId64, rows[n - 1].id);
	}
	areq_list(q, docs, n, cursor);
}

void areq_list_rows(struct areq *q, const struct shape *shape, size_t n, const char *cursor,
    void (*more)(struct areq *q, struct sbuf *b, size_t row))
{
	struct sbuf *b = areq_body_begin(q);

	sbuf_puts(b, "{\"items\":[");
	for (size_t i = 0; i < n; i++) {
		sbuf_puts(b, i > 0 ? ",{" : "{");
		shape_put(b, shape, q->pg.result, i, q->now_us);
		if (more != NULL) {
			more(q, b, i);
		}
		sbuf_putc(b, '}');
	}
	areq_list_end(q, cursor);
}

void areq_list_page(struct areq *q, const struct shape *shape,
    void (*more)(struct areq *q, struct sbuf *b, size_t row))
{
	size_t limit = (size_t) * (const int32_t *)q->own, n = pg_rows(q->pg.result);
	const char *cursor = NULL;

	if (n > limit) {
		n = limit;
		cursor = arena_printf(q->arena, "%" PRId64, pg_int(q->pg.result, n - 1, 0));
	}
	areq_list_rows(q, shape, n, cursor, more);
}
