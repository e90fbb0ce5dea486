/* The client of the daemon: io/http/http.h over the simulated network. */
#include "base/base.h"
#include "sim/world/world.h"
#include "sim/net/net.h"
#include "base/text/text.h"
#include "io/http/http.h"
#include "io/httpd/httpd.h"
#include "io/loop/loop.h"
#include "sim/broker/fence.h"

#include <strings.h>

#define TIMEOUT_DEFAULT_US (30 * SPOT_US_PER_S)
#define REPLY_MAX_DEFAULT ((size_t)8 << 20)

struct xfer {
	struct flight_to to;
	struct http_client *client;
	struct http_req *req;
	struct xfer *next, **at;
	/* of a streamed reply */
	struct sbuf lines; /* arrived, not handed on */
	struct loop_task task;
	bool handed, ended, reset, sent; /* handed: nothing more before http_stream_resume */
	int status;
};
struct http_client {
	struct loop *loop;
	char *from;
	struct xfer *xfers;
};

struct http_client *http_client_new(struct loop *l, const struct http_client_conf *conf)
{
	struct http_client *c = calloc(1, sizeof(*c));

	assert(c != NULL);
	c->loop = l;
	c->from = strdup(conf->user_agent != NULL ? conf->user_agent : "?");
	assert(c->from != NULL);
	return c;
}

static void xfer_bury(void *p)
{
	struct xfer *x = p;

	sbuf_fini(&x->lines);
	free(x);
}

static void xfer_free(struct xfer *x)
{
	flight_forget(&x->to);
	loop_defer_cancel(x->client->loop, &x->task);
	*x->at = x->next;
	if (x->next != NULL) {
		x->next->at = x->at;
	}
	loop_bury(x->client->loop, x, xfer_bury);
}

static void http_abort(struct op *op)
{
	struct http_req *req = container_of(op, struct http_req, op);
	struct xfer *x = STEAL(req->priv);

	if (x != NULL) {
		xfer_free(x);
	}
}

void http_client_free(struct http_client *c)
{
	if (c == NULL) {
		return;
	}
	while (c->xfers != NULL) {
		op_stop(&c->xfers->req->op);
	}
	free(c->from);
	free(c);
}

static struct spot_header *headers_copy(struct arena *a, const struct spot_header *from, size_t n)
{
	struct spot_header *to = arena_array(a, n + 1, sizeof(*to));

	for (size_t i = 0; i < n; i++) {
		to[i] = (struct spot_header){ arena_strdup(a, from[i].name),
			arena_strdup(a, from[i].value) };
	}
	return to;
}

static void xfer_over(struct flight_to *t)
{
	struct xfer *x = container_of(t, struct xfer, to);
	struct http_req *req = x->req;
	struct spot_err err = { 0 };
	enum spot_rc rc = SPOT_OK;
	size_t max = req->out->reply_bytes_max != 0 ? req->out->reply_bytes_max : REPLY_MAX_DEFAULT;

	if (t->reset) {
		rc = t->sent && req->mutating ? SPOT_UNKNOWN : SPOT_UNAVAILABLE;
		err_set(&err, rc, "%s: the connection broke", req->op.what);
	} else if (t->reply.n > max) {
		rc = req->mutating ? SPOT_UNKNOWN : SPOT_BAD_REPLY;
		err_set(&err, rc, "%s: reply too large", req->op.what);
	} else {
		req->in = (struct spot_http_response){ .status = t->status,
			.headers = headers_copy(req->arena, t->reply_headers, t->reply_headers_n),
			.headers_n = t->reply_headers_n,
			.body = arena_bytes(req->arena, t->reply.p, t->reply.n) };
	}
	req->priv = NULL;
	xfer_free(x);
	op_finish(&req->op, rc, &err);
}

/* ---- streams of lines, handed on as io/http/http.c does -------------------------------------- */

static void stream_finish(struct xfer *x)
{
	x->to.reset = x->reset;
	x->to.sent = x->sent;
	x->to.status = x->status;
	x->to.reply = (struct str){ x->lines.p != NULL ? x->lines.p : "", x->lines.n };
	x->to.reply_headers_n = 0;
	xfer_over(&x->to);
}

static size_t whole_lines(const struct xfer *x)
{
	const char *end = x->lines.n > 0 ? memrchr(x->lines.p, '\n', x->lines.n) : NULL;

	return end != NULL ? (size_t)(end - x->lines.p) + 1 : 0;
}

static void lines_hand(struct loop_task *t)
{
	struct xfer *x = container_of(t, struct xfer, task);
	struct http_req *req = x->req;
	size_t n = whole_lines(x);

	req->in = (struct spot_http_response){ .status = x->to.status,
		.body = arena_bytes(req->arena, x->lines.p, n),
		.partial = true };
	sbuf_consume(&x->lines, n);
	x->handed = true;
	req->streamed(req);
}

static void lines_look(struct xfer *x)
{
	if (!x->handed && whole_lines(x) > 0) {
		loop_defer(x->client->loop, &x->task, lines_hand);
	}
}

static void stream_arrived(struct flight_to *t)
{
	struct xfer *x = container_of(t, struct xfer, to);

	sbuf_add(&x->lines, t->reply.p, t->reply.n);
	lines_look(x);
}

/* A reply that did not come as a stream is told whole; else the rest waits until the lines before
 * it were read. */
static void stream_over(struct flight_to *t)
{
	struct xfer *x = container_of(t, struct xfer, to);

	if (!x->handed && x->lines.n == 0) {
		xfer_over(t);
		return;
	}
	x->ended = true;
	x->reset = t->reset;
	x->sent = t->sent;
	x->status = t->status;
	sbuf_add(&x->lines, t->reply.p, t->reply.n);
	if (!x->handed) {
		loop_defer_cancel(x->client->loop, &x->task);
		stream_finish(x);
	}
}

void http_stream_resume(struct http_req *req)
{
	struct xfer *x = req->priv;

	assert(x != NULL && x->handed);
	x->handed = false;
	if (x->ended) {
		stream_finish(x);
	} else {
		lines_look(x);
	}
}

static const char *what_text(struct arena *a, const struct spot_http_request *out)
{
	const char *scheme = strstr(out->url, "://"),
		   *host = scheme != NULL ? scheme + 3 : out->url;

	return arena_printf(a, "http %s %.*s", out->method, (int)strcspn(host, "/?#"), host);
}

void http_send(struct http_client *c, struct http_req *req, const struct spot_http_request *out,
    struct arena *arena, bool mutating, void (*done)(struct op *))
{
	int64_t timeout_us = out->timeout_us > 0 ? out->timeout_us : TIMEOUT_DEFAULT_US;
	struct xfer *x = calloc(1, sizeof(*x));

	assert(x != NULL);
	op_init(&req->op, c->loop, done);
	req->out = out;
	req->arena = arena;
	req->mutating = mutating;
	req->in = (struct spot_http_response){ 0 };
	op_begin(&req->op, what_text(arena, out), timeout_us,
	    mutating ? SPOT_UNKNOWN : SPOT_TIMEOUT, http_abort);
	x->client = c;
	x->req = req;
	x->at = &c->xfers;
	x->next = c->xfers;
	if (x->next != NULL) {
		x->next->at = &x->next;
	}
	c->xfers = x;
	req->priv = x;
	x->to = (struct flight_to){ .over = xfer_over,
		.loop = c->loop,
		.from = c->from,
		.method = out->method,
		.url = out->url,
		.headers = out->headers,
		.headers_n = out->headers_n,
		.body = out->body };
	sbuf_init(&x->lines, REPLY_MAX_DEFAULT);
	if (req->streamed != NULL) {
		x->to.over = stream_over;
		x->to.streamed = stream_arrived;
	}
	fence_send(c->from, out->url, out->body);
	flight_start(&x->to);
}

/* ---- a server's reading of a request (io/httpd/httpd.h) -------------------------------------- */

const char *httpd_header(const struct httpd_req *r, const char *name)
{
	for (size_t i = 0; i < r->headers_n; i++) {
		if (strcasecmp(r->headers[i].name, name) == 0) {
			return r->headers[i].value;
		}
	}
	return NULL;
}

const char *httpd_query(struct httpd_req *r, const char *name)
{
	size_t name_n = strlen(name);
	const char *p = r->query;

	while (*p != '\0') {
		const char *end = strchrnul(p, '&'), *eq = memchr(p, '=', (size_t)(end - p));
		const char *key_end = eq != NULL ? eq : end;
		char *value = NULL;

		if ((size_t)(key_end - p) == name_n && memcmp(p, name, name_n) == 0) {
			struct str raw = { eq ? eq + 1 : "", eq ? (size_t)(end - eq - 1) : 0 };

			return url_decode(r->arena, raw, true, &value) ? value : NULL;
		}
		p = *end != '\0' ? end + 1 : end;
	}
	return NULL;
}
