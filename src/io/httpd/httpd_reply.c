/*
 * Replies and the request's accessors. A reply goes into the connection's out buffer, which the
 * socket drains. The request ends with its reply.
 */
#include "base/base.h"
#include "io/httpd/httpd_priv.h"
#include "base/text/text.h"

#include <strings.h>

/* ---- accessors ------------------------------------------------------------------------------- */

const char *httpd_header(const struct httpd_req *r, const char *name)
{
	return spot_header_value(r->headers, r->headers_n, name);
}

const char *httpd_query(struct httpd_req *r, const char *name)
{
	size_t name_n = strlen(name);
	const char *p = r->query;

	while (p && *p) {
		const char *end = strchrnul(p, '&');
		const char *eq = memchr(p, '=', (size_t)(end - p));
		const char *key_end = eq ? eq : end;
		char *value = NULL;

		if ((size_t)(key_end - p) == name_n && memcmp(p, name, name_n) == 0) {
			struct str raw = { eq ? eq + 1 : "", eq ? (size_t)(end - eq - 1) : 0 };

			return url_decode(r->arena, raw, true, &value) ? value : NULL;
		}
		p = *end ? end + 1 : end;
	}
	return NULL;
}

void httpd_set(struct httpd_req *r, const char *name, const char *value)
{
	struct hreq *q = r->priv;
	char *clean = arena_strdup(r->arena, value);

	/* Replace control characters: a value from outside must not end its line. */
	for (char *p = clean; *p; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7f) {
			*p = ' ';
		}
	}
	q->extra = arena_grow(r->arena, q->extra, q->extra_n, &q->extra_cap, sizeof(*q->extra));
	q->extra[q->extra_n].name = arena_strdup(r->arena, name);
	q->extra[q->extra_n].value = clean;
	q->extra_n++;
}

/* ---- heads ----------------------------------------------------------------------------------- */

/* Returns the wall clock as an IMF-fixdate (RFC 9110, 5.6.7); formats it at most once a second. */
const char *httpd_date(struct httpd *h)
{
	static const char *const week[] = { "Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed" };
	static const char *const month[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug",
		"Sep", "Oct", "Nov", "Dec" };
	int64_t s = loop_wall_us(h->loop) / SPOT_US_PER_S, days, z, era, doe, yoe, doy, mp, y, m, d;

	if (s == h->date_s && h->date[0]) {
		return h->date;
	}
	h->date_s = s;
	days = s / 86400;
	s %= 86400;
	z = days + 719468;
	era = z / 146097;
	doe = z - era * 146097;
	yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	mp = (5 * doy + 2) / 153;
	d = doy - (153 * mp + 2) / 5 + 1;
	m = mp < 10 ? mp + 3 : mp - 9;
	y = yoe + era * 400 + (m <= 2);
	snprintf(h->date, sizeof(h->date), "%s, %02d %s %04d %02d:%02d:%02d GMT", week[days % 7],
	    (int)d, month[m - 1], (int)y % 10000, (int)(s / 3600), (int)(s / 60 % 60),
	    (int)(s % 60));
	return h->date;
}

static const char *status_reason(int status)
{
	static const struct {
		int status;
		const char *text;
	} reasons[] = { { 200, "OK" }, { 201, "Created" }, { 202, "Accepted" },
		{ 204, "No Content" }, { 206, "Partial Content" }, { 301, "Moved Permanently" },
		{ 302, "Found" }, { 304, "Not Modified" }, { 307, "Temporary Redirect" },
		{ 400, "Bad Request" }, { 401, "Unauthorized" }, { 403, "Forbidden" },
		{ 404, "Not Found" }, { 405, "Method Not Allowed" }, { 406, "Not Acceptable" },
		{ 408, "Request Timeout" }, { 409, "Conflict" }, { 410, "Gone" },
		{ 411, "Length Required" }, { 412, "Precondition Failed" },
		{ 413, "Content Too Large" }, { 414, "URI Too Long" },
		{ 415, "Unsupported Media Type" }, { 417, "Expectation Failed" },
		{ 422, "Unprocessable Content" }, { 428, "Precondition Required" },
		{ 429, "Too Many Requests" }, { 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" }, { 501, "Not Implemented" },
		{ 502, "Bad Gateway" }, { 503, "Service Unavailable" }, { 504, "Gateway Timeout" },
		{ 505, "HTTP Version Not Supported" } };

	for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
		if (reasons[i].status == status) {
			return reasons[i].text;
		}
	}
	return "Status";
}

static bool status_has_no_body(int status)
{
	return status == 204 || status == 304 || (status >= 100 && status < 200);
}

/* Reports whether the handler set a Date: the emulator simulates clock skew with it. */
static bool has_date(const struct hreq *r)
{
	for (size_t i = 0; r && i < r->extra_n; i++) {
		if (strcasecmp(r->extra[i].name, "Date") == 0) {
			return true;
		}
	}
	return false;
}

static void put_head(struct hconn *c, const struct hreq *r, int status, const char *type)
{
	struct sbuf *o = &c->out;

	sbuf_printf(o, "HTTP/1.1 %d %s\r\n", status, status_reason(status));
	if (!has_date(r)) {
		sbuf_printf(o, "Date: %s\r\n", httpd_date(c->h));
	}
	if (type) {
		sbuf_printf(o, "Content-Type: %s\r\n", type);
	}
	for (size_t i = 0; r && i < r->extra_n; i++) {
		sbuf_printf(o, "%s: %s\r\n", r->extra[i].name, r->extra[i].value);
	}
	if (!r || !r->keep || c->h->draining) {
		sbuf_puts(o, "Connection: close\r\n");
	}
}

/* ---- replies --------------------------------------------------------------------------------- */

/* Ends a request whose client has left, if it has no gone() callback. */
static bool reply_nowhere(struct hreq *r)
{
	struct loop *l;

	if (r->conn) {
		return false;
	}
	l = r->loop;
	loop_bury(l, r, hreq_free);
	return true;
}

void httpd_reply(struct httpd_req *pub, int status, const char *type, const char *body, size_t n)
{
	struct hreq *r = pub->priv;
	struct hconn *c = r->conn;

	if (reply_nowhere(r)) {
		return;
	}
	assert(c->state == HCONN_BUSY);
	put_head(c, r, status, type);
	if (!status_has_no_body(status)) {
		sbuf_printf(&c->out, "Content-Length: %zu\r\n", n);
	}
	sbuf_puts(&c->out, "\r\n");
	if (n > 0 && !r->head && !status_has_no_body(status)) {
		sbuf_add(&c->out, body, n);
	}
	hconn_request_done(c);
}

bool httpd_alive(const struct httpd_req *pub)
{
	const struct hreq *r = pub->priv;

	return r->conn && !r->conn->doomed;
}

void httpd_abort(struct httpd_req *pub)
{
	struct hreq *r = pub->priv;
	struct hconn *c = r->conn;

	if (reply_nowhere(r)) {
		return;
	}
	c->req = NULL;
	r->conn = NULL;
	loop_bury(c->h->loop, r, hreq_free);
	hconn_doom(c);
}

void httpd_stream_begin(struct httpd_req *pub, int status, const char *type)
{
	struct hreq *r = pub->priv;
	struct hconn *c = r->conn;

	if (!c) {
		return;
	}
	assert(c->state == HCONN_BUSY);
	r->chunk_reply = r->parser.http_minor == 1;
	if (!r->chunk_reply) {
		r->keep = false; /* HTTP/1.0: the close of the connection ends the body */
	}
	put_head(c, r, status, type);
	sbuf_puts(&c->out, r->chunk_reply ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
	c->state = HCONN_STREAM;
	if (!c->processing) {
		hconn_flush(c);
	}
}

bool httpd_stream_write(struct httpd_req *pub, const char *p, size_t n)
{
	struct hreq *r = pub->priv;
	struct hconn *c = r->conn;

	if (!c || c->doomed) {
		return false;
	}
	if (n == 0 || r->head) {
		return true;
	}
	assert(c->state == HCONN_STREAM);
	if (r->chunk_reply) {
		sbuf_printf(&c->out, "%zx\r\n", n);
	}
	sbuf_add(&c->out, p, n);
	if (r->chunk_reply) {
		sbuf_puts(&c->out, "\r\n");
	}
	if (!c->processing) {
		hconn_flush(c);
	}
	if (hconn_queued(c) > c->h->conf.queued_max) {
		hconn_doom(c);
	}
	return !c->doomed;
}

size_t httpd_stream_queued(const struct httpd_req *pub)
{
	const struct hreq *r = pub->priv;

	return r->conn ? hconn_queued(r->conn) : 0;
}

void httpd_stream_end(struct httpd_req *pub)
{
	struct hreq *r = pub->priv;
	struct hconn *c = r->conn;

	if (reply_nowhere(r)) {
		return;
	}
	assert(c->state == HCONN_STREAM);
	if (r->chunk_reply && !r->head) {
		sbuf_puts(&c->out, "0\r\n\r\n");
	}
	hconn_request_done(c);
}

void httpd_refuse(struct hconn *c, int status, const char *why)
{
	struct hreq *r = STEAL(c->req);
	struct sbuf body;

	c->h->stats.bad_requests++;
	if (r) {
		r->conn = NULL;
		loop_bury(c->h->loop, r, hreq_free);
	}
	sbuf_init(&body, 4096);
	sbuf_printf(&body,
	    "{\"type\":\"about:blank\",\"status\":%d,\"code\":\"%s\",\"title\":\"%s\",\"detail\":",
	    status, status == 413 || status == 414 || status == 431 ? "too_large" : "invalid",
	    status_reason(status));
	sbuf_json_str(&body, why ? why : "malformed request");
	sbuf_puts(&body, "}\n");
	put_head(c, NULL, status, "application/problem+json");
	sbuf_printf(&c->out, "Content-Length: %zu\r\n\r\n", body.n);
	sbuf_add(&c->out, body.p, body.n);
	sbuf_fini(&body);
	sbuf_reset(&c->in);
	c->state = HCONN_FLUSH;
	if (!c->processing) {
		hconn_flush(c);
	}
}
