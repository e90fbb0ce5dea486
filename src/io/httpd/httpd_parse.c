/*
 * Parses bytes into requests, in three steps. First httpd_scan_head refuses faults of the raw
 * header block that llhttp 8.1 accepts (HTTP/0.9, obs-fold, empty names) or refuses late (bare CR
 * or LF, NUL). Then llhttp parses the complete block. Then come the rules about single headers:
 * RFC 9112 (message syntax), RFC 9110 section 5 (fields).
 */
#include "base/base.h"
#include "io/httpd/httpd_priv.h"

#include <strings.h>

/* ---- raw scan -------------------------------------------------------------------------------- */

static bool request_line_ok(const char *p, size_t n, int *ret_status, const char **ret_why)
{
	size_t spaces = 0;
	const char *v;

	for (size_t i = 0; i < n; i++) {
		if ((unsigned char)p[i] >= 0x7f || (unsigned char)p[i] < 0x20) {
			*ret_why = "the request line holds a byte that is not printable ASCII";
			return false;
		}
		spaces += p[i] == ' ';
	}
	if (spaces != 2) {
		*ret_why = "the request line is not: method, target, HTTP/1.1, with single spaces";
		return false;
	}
	v = (const char *)memrchr(p, ' ', n) + 1;
	if (p + n - v == 8 && memcmp(v, "HTTP/1.", 7) == 0 && (v[7] == '0' || v[7] == '1')) {
		return true;
	}
	if (p + n - v >= 5 && memcmp(v, "HTTP/", 5) == 0) {
		*ret_status = 505;
	}
	*ret_why = "this server speaks HTTP/1.1 and HTTP/1.0";
	return false;
}

/* Checks that the name is a token (RFC 9110, 5.6.2) with the colon directly after it (RFC 9112,
 * 5.1). A name with blanks passes llhttp, but a proxy before us may read it differently. */
static const char *name_refused(const char *line, size_t n)
{
	static const char token[] =
	    "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	size_t i = 0;

	while (i < n && line[i] != '\0' && strchr(token, line[i]) != NULL) {
		i++;
	}
	if (i == n || line[i] != ':') {
		return "a header name holds a character that it may not";
	}
	return i == 0 ? "a header has no name" : NULL;
}

/* Checks the line that ends at `end` (its CR). Returns NULL or the reason of a refusal. */
static const char *line_ended(struct hscan *s, const char *in, size_t end, size_t url_max,
    int *ret_status)
{
	const char *why = NULL;

	if (!s->request_end) {
		if (end - s->start > url_max + 32) {
			*ret_status = 414;
			return "the request line is too long";
		}
		if (!request_line_ok(in + s->start, end - s->start, ret_status, &why)) {
			return why;
		}
		s->request_end = end;
		return NULL;
	}
	if (++s->lines > HTTPD_HEADERS_MAX) {
		*ret_status = 431;
		return "too many header lines";
	}
	if (in[s->line] == ' ' || in[s->line] == '\t') {
		return "folded header lines are not accepted (RFC 9112, 5.2)";
	}
	return name_refused(in + s->line, end - s->line);
}

static bool byte_ok(unsigned char b)
{
	return (b >= 0x20 && b != 0x7f) || b == '\t';
}

static enum hparse scan_refuse(const char *why, const char **ret_why)
{
	*ret_why = why;
	return HPARSE_REFUSED;
}

enum hparse httpd_scan_head(struct hconn *c, size_t *ret_n, int *ret_status, const char **ret_why)
{
	struct hscan *s = &c->scan;
	const char *in = c->in.p, *why;

	*ret_status = 400;
	for (; s->at < c->in.n; s->at++) {
		unsigned char b = (unsigned char)in[s->at];

		if (s->cr) {
			size_t end = s->at - 1;

			if (b != '\n') {
				return scan_refuse("a CR without LF", ret_why);
			}
			s->cr = false;
			if (end == s->line && s->request_end) {
				*ret_n = s->at + 1;
				return HPARSE_OK;
			}
			if (end == s->line && s->start == 0 && end == 0) {
				/* RFC 9112, 2.2 allows an empty line before a request. */
				s->start = s->line = s->at + 1;
				continue;
			}
			why = line_ended(s, in, end, c->h->conf.url_max, ret_status);
			if (why) {
				return scan_refuse(why, ret_why);
			}
			s->line = s->at + 1;
		} else if (b == '\r') {
			s->cr = true;
		} else if (b == '\n') {
			return scan_refuse("an LF without CR", ret_why);
		} else if (!byte_ok(b)) {
			return scan_refuse("a control character in the header block", ret_why);
		}
	}
	if (!s->request_end && s->at - s->start > c->h->conf.url_max + 32) {
		*ret_status = 414;
		return scan_refuse("the request line is too long", ret_why);
	}
	if (s->at - s->start > HTTPD_HEAD_MAX + c->h->conf.url_max) {
		*ret_status = 431;
		return scan_refuse("the header block is too long", ret_why);
	}
	return HPARSE_MORE;
}

/* ---- llhttp callbacks ------------------------------------------------------------------------ */

static int on_url(llhttp_t *p, const char *at, size_t n)
{
	struct hconn *c = p->data;

	c->req->target = arena_strndup(c->req->pub.arena, at, n);
	return 0;
}

static int on_field(llhttp_t *p, const char *at, size_t n)
{
	struct hconn *c = p->data;
	struct hreq *r = c->req;

	if (!r->headers || r->trailer) {
		r->trailer = true;
		return 0;
	}
	r->field = arena_strndup(r->pub.arena, at, n);
	return 0;
}

static int on_value(llhttp_t *p, const char *at, size_t n)
{
	struct hconn *c = p->data;
	struct hreq *r = c->req;

	/* llhttp gets the block in one piece, so it reports each name and value in one piece. An
	 * empty value is an empty span. */
	if (r->trailer || !r->field || r->headers_n >= HTTPD_HEADERS_MAX) {
		return 0;
	}
	while (n > 0 && (at[n - 1] == ' ' || at[n - 1] == '\t')) {
		n--;
	}
	r->headers[r->headers_n].name = r->field;
	r->headers[r->headers_n].value = arena_strndup(r->pub.arena, at, n);
	r->headers_n++;
	r->field = NULL;
	return 0;
}

static int on_headers_complete(llhttp_t *p)
{
	struct hconn *c = p->data;

	/* Ignore Upgrade and serve the request as plain HTTP/1.1 (RFC 9110, 7.8). */
	p->upgrade = 0;
	c->req->keep = llhttp_should_keep_alive(p) != 0;
	c->req->trailer = true; /* any later field is a trailer */
	return 0;
}

static int on_body(llhttp_t *p, const char *at, size_t n)
{
	struct hconn *c = p->data;
	struct hreq *r = c->req;

	if (r->body.n + n > r->body_max) {
		r->refuse = 413;
		r->why = "the body is larger than this route accepts";
		return -1;
	}
	sbuf_add(&r->body, at, n);
	return 0;
}

static int on_message_complete(llhttp_t *p)
{
	struct hconn *c = p->data;

	c->req->complete = true;
	return HPE_PAUSED;
}

static const llhttp_settings_t parser_settings = {
	.on_url = on_url,
	.on_header_field = on_field,
	.on_header_value = on_value,
	.on_headers_complete = on_headers_complete,
	.on_body = on_body,
	.on_message_complete = on_message_complete,
};

/* ---- rules about headers --------------------------------------------------------------------- */

static void request_refuse(struct hreq *r, int status, const char *why)
{
	if (r->refuse) {
		return;
	}
	r->refuse = status;
	r->why = why;
}

static bool host_ok(const char *v)
{
	if (!*v) {
		return false;
	}
	for (; *v; v++) {
		bool alnum = (*v >= '0' && *v <= '9') || (*v >= 'a' && *v <= 'z') ||
		    (*v >= 'A' && *v <= 'Z');

		if (!alnum && !strchr("-._~:[]%!$&'()*+;=", *v)) {
			return false;
		}
	}
	return true;
}

static bool digits_only(const char *v)
{
	size_t n = strspn(v, "0123456789");

	return n > 0 && n <= 15 && v[n] == '\0';
}

static void check_headers(struct hreq *r)
{
	static const char *const single[] = { "host", "content-length", "transfer-encoding",
		"authorization", "content-type", "expect", "idempotency-key", "if-match" };
	int count[ARRAY_LEN(single)] = { 0 };

	for (size_t i = 0; i < r->headers_n; i++) {
		const char *name = r->headers[i].name, *value = r->headers[i].value;

		for (size_t k = 0; k < ARRAY_LEN(single); k++) {
			if (strcasecmp(name, single[k]) == 0 && ++count[k] > 1) {
				request_refuse(r, 400, "a header that may come once came twice");
			}
		}
		if (strcasecmp(name, "host") == 0 && !host_ok(value)) {
			request_refuse(r, 400, "the Host header is not a host name");
		}
		if (strcasecmp(name, "content-length") == 0 && !digits_only(value)) {
			request_refuse(r, 400, "Content-Length is not a number");
		}
		if (strcasecmp(name, "transfer-encoding") == 0) {
			if (strcasecmp(value, "chunked") != 0) {
				request_refuse(r, 501,
				    "the only Transfer-Encoding served is chunked");
			}
			r->chunked = true;
		}
		if (strcasecmp(name, "expect") == 0 && strcasecmp(value, "100-continue") != 0) {
			request_refuse(r, 417, "the only Expect served is 100-continue");
		}
	}
	if (count[0] == 0) {
		request_refuse(r, 400, "the Host header is missing");
	}
	if (count[1] && count[2]) {
		request_refuse(r, 400, "Content-Length and Transfer-Encoding together");
	}
}

static void check_target(struct hconn *c, struct hreq *r)
{
	char *query;

	if (!r->target || r->target[0] != '/') {
		request_refuse(r, 400, "the request target must be a path");
		return;
	}
	if (strlen(r->target) > c->h->conf.url_max) {
		request_refuse(r, 414, "the request target is too long");
		return;
	}
	if (strchr(r->target, '#')) {
		request_refuse(r, 400, "a fragment in the request target");
		return;
	}
	query = strchr(r->target, '?');
	r->pub.target = r->target;
	r->pub.query = query ? query + 1 : "";
	r->pub.path =
	    query ? arena_strndup(r->pub.arena, r->target, (size_t)(query - r->target)) : r->target;
}

static bool method_served(const char *m)
{
	static const char *const served[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE",
		"OPTIONS" };

	for (size_t i = 0; i < ARRAY_LEN(served); i++) {
		if (strcmp(m, served[i]) == 0) {
			return true;
		}
	}
	return false;
}

static void check_body_cap(struct hconn *c, struct hreq *r)
{
	const struct httpd_conf *conf = &c->h->conf;
	const char *cl = httpd_header(&r->pub, "content-length");
	size_t cap = HTTPD_BODY_MAX;
	bool has = r->chunked || (cl && strtoull(cl, NULL, 10) > 0);

	if (!has) {
		return;
	}
	if (conf->body_max) {
		cap = conf->body_max(conf->ctx, r->pub.method, r->pub.path);
	}
	r->body_max = cap;
	if (cap == 0) {
		request_refuse(r, 413, "this route takes no body");
	} else if (cl && strtoull(cl, NULL, 10) > cap) {
		request_refuse(r, 413, "the body is larger than this route accepts");
	}
	sbuf_init(&r->body, cap + 1);
}

/* ---- entry points ---------------------------------------------------------------------------- */

struct hreq *hreq_new(struct hconn *c)
{
	struct arena *a = arena_new(0);
	struct hreq *r = arena_alloc(a, sizeof(*r));

	r->conn = c;
	r->loop = c->h->loop;
	r->pub.arena = a;
	r->pub.priv = r;
	r->pub.peer = arena_strdup(a, c->peer);
	r->pub.tls = c->ssl != NULL;
	r->pub.received_us = loop_wall_us(c->h->loop);
	r->pub.method = r->pub.path = r->pub.query = r->pub.target = "";
	r->pub.body.p = "";
	sbuf_init(&r->body, 1);
	return r;
}

void hreq_free(void *p)
{
	struct hreq *r = p;

	sbuf_fini(&r->body);
	arena_free(r->pub.arena);
}

void httpd_parse_head(struct hconn *c, const char *head, size_t n)
{
	struct hreq *r = c->req = hreq_new(c);
	llhttp_errno_t e;

	r->headers = arena_array(r->pub.arena, HTTPD_HEADERS_MAX, sizeof(*r->headers));
	llhttp_init(&r->parser, HTTP_REQUEST, &parser_settings);
	r->parser.data = c;
	e = llhttp_execute(&r->parser, head, n);
	if (e != HPE_OK && e != HPE_PAUSED) {
		request_refuse(r, 400, llhttp_get_error_reason(&r->parser));
		return;
	}
	r->pub.method = llhttp_method_name((llhttp_method_t)r->parser.method);
	r->pub.headers = r->headers;
	r->pub.headers_n = r->headers_n;
	r->head = r->parser.method == HTTP_HEAD;
	if (r->parser.http_minor == 0) {
		r->keep = false;
	}
	if (!method_served(r->pub.method)) {
		request_refuse(r, 501, "this method is not served");
	}
	check_headers(r);
	check_target(c, r);
	if (!r->refuse) {
		check_body_cap(c, r);
	}
}

size_t httpd_parse_body(struct hconn *c, const char *p, size_t n)
{
	struct hreq *r = c->req;
	llhttp_errno_t e = llhttp_execute(&r->parser, p, n);
	size_t used = n;

	if (e == HPE_PAUSED) {
		used = (size_t)(llhttp_get_error_pos(&r->parser) - p);
	} else if (e != HPE_OK) {
		request_refuse(r, 400, llhttp_get_error_reason(&r->parser));
	}
	r->body_raw += used;
	/* Limit chunk framing and extensions in relation to the body (CVE-2024-22019). */
	if (r->body_raw > 8 * r->body_max + 4096) {
		request_refuse(r, 413, "too much chunk framing for the body");
	}
	if (r->complete && r->body.n) {
		r->pub.body.p = r->body.p;
		r->pub.body.n = r->body.n;
	}
	return used;
}
