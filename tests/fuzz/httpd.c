/*
 * The HTTP server's parser, driven as httpd_conn.c drives it: bytes arrive in pieces, requests are
 * taken off the front. The first byte is the size of the pieces: the outcome must be the same as
 * with all bytes at once.
 */
#include "base/base.h"
#include "fuzz.h"
#include "base/text/text.h"
#include "io/httpd/httpd_priv.h"
#include "io/loop/loop.h"

#include <strings.h>

#define BODY_MAX 4096

static size_t body_cap(void *ctx, const char *method, const char *path)
{
	(void)ctx;
	FUZZ_CHECK(method != NULL && path != NULL && path[0] == '/');
	return str_prefix(path, "/none") ? 0 : BODY_MAX;
}

static struct httpd *server_get(void)
{
	static struct httpd h;
	static struct rng rng;

	if (h.loop == NULL) {
		rng_seeded_init(&rng, 1);
		h.loop = loop_new(&clock_real, &rng);
		h.conf.url_max = HTTPD_URL_MAX;
		h.conf.body_max = body_cap;
	}
	return &h;
}

/* The result of a stream of bytes, as text: requests served, and how it ended. */
struct seen {
	struct sbuf text;
	bool over;
};

static void see_request(struct seen *s, const struct hreq *r)
{
	const struct httpd_req *q = &r->pub;

	FUZZ_CHECK(q->method[0] != '\0' && q->path[0] == '/' && q->query != NULL);
	FUZZ_CHECK(httpd_header(q, "host") != NULL);
	FUZZ_CHECK(q->headers_n <= HTTPD_HEADERS_MAX && q->body.n <= BODY_MAX);
	FUZZ_CHECK(strpbrk(q->target, "\r\n \t") == NULL);
	sbuf_printf(&s->text, "%s %s %zu %d", q->method, q->target, q->headers_n, r->keep);
	for (size_t i = 0; i < q->headers_n; i++) {
		FUZZ_CHECK(q->headers[i].name[0] != '\0' &&
		    strpbrk(q->headers[i].name, "\r\n \t:") == NULL);
		FUZZ_CHECK(strpbrk(q->headers[i].value, "\r\n") == NULL);
		sbuf_printf(&s->text, "|%s=%s", q->headers[i].name, q->headers[i].value);
	}
	sbuf_add(&s->text, q->body.p, q->body.n);
	sbuf_putc(&s->text, '\n');
}

static void refusal_seen(struct seen *s, int status, const char *why)
{
	FUZZ_CHECK(status >= 400 && status < 600 && !str_empty(why));
	sbuf_printf(&s->text, "refused %d\n", status);
	s->over = true;
}

static void end_request(struct hconn *c)
{
	hreq_free(c->req);
	c->req = NULL;
	c->state = HCONN_HEAD;
}

/* One step over c->in; false: more bytes are needed. */
static bool conn_step(struct hconn *c, struct seen *s)
{
	const char *why = NULL;
	int status = 400;
	size_t n = 0, start;

	if (c->in.n == 0 || s->over) {
		return false;
	}
	if (c->state == HCONN_BODY) {
		n = httpd_parse_body(c, c->in.p, c->in.n);
		FUZZ_CHECK(n <= c->in.n && (n > 0 || c->req->refuse || c->req->complete));
		sbuf_consume(&c->in, n);
	} else {
		switch (httpd_scan_head(c, &n, &status, &why)) {
		case HPARSE_MORE:
			return false;
		case HPARSE_REFUSED:
			refusal_seen(s, status, why);
			return false;
		case HPARSE_OK:
			break;
		}
		start = c->scan.start;
		FUZZ_CHECK(start <= n && n <= c->in.n && n <= HTTPD_HEAD_MAX + HTTPD_URL_MAX + 64);
		httpd_parse_head(c, c->in.p + start, n - start);
		sbuf_consume(&c->in, n);
		c->scan = (struct hscan){ 0 };
		c->state = HCONN_BODY;
	}
	if (c->req->refuse) {
		refusal_seen(s, c->req->refuse, c->req->why);
		end_request(c);
	} else if (c->req->complete) {
		see_request(s, c->req);
		end_request(c);
	}
	return true;
}

static void conn_feed(const uint8_t *p, size_t n, size_t piece, struct seen *s)
{
	struct hconn c = { .h = server_get(), .state = HCONN_HEAD, .peer = "fuzz" };

	sbuf_init(&s->text, 1 << 24);
	sbuf_puts(&s->text, "");
	sbuf_init(&c.in, 1 << 24);
	for (size_t at = 0; at < n && !s->over; at += piece) {
		sbuf_add(&c.in, (const char *)p + at, MIN(piece, n - at));
		while (conn_step(&c, s)) {
		}
	}
	if (c.req != NULL) {
		end_request(&c);
	}
	sbuf_fini(&c.in);
}

int fuzz_one(const uint8_t *p, size_t n)
{
	struct seen whole = { 0 }, pieces = { 0 };

	if (n == 0 || n > 60000) {
		return 0;
	}
	conn_feed(p + 1, n - 1, n, &whole);
	conn_feed(p + 1, n - 1, 1 + (p[0] & 0x3fu), &pieces);
	FUZZ_CHECK(whole.text.n == pieces.text.n &&
	    (whole.text.n == 0 || memcmp(whole.text.p, pieces.text.p, whole.text.n) == 0));
	sbuf_fini(&whole.text);
	sbuf_fini(&pieces.text);
	return 0;
}
