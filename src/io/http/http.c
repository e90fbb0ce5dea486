/*
 * HTTP client on curl's multi interface, driven by our loop. Two rules keep it simple:
 *
 * - no user code runs inside a curl callback: the loop delivers the results of op_finish later
 * - we remove handles only outside of curl: after curl_multi_socket_action, or in an abort
 *
 * We bury watched sockets instead of freeing them, because curl drops a socket while its own event
 * runs.
 *
 * The deadline of the op comes before curl's timeouts, except the connect timeout. That one ends an
 * attempt before anything was sent, so the result is UNAVAILABLE instead of UNKNOWN.
 */
#include "base/base.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"
#include "io/http/http_priv.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#define TIMEOUT_DEFAULT_US (30 * SPOT_US_PER_S)
#define REPLY_MAX_DEFAULT ((size_t)8 << 20)
#define HEADERS_MAX 200
#define HEADER_BYTES_MAX ((size_t)256 << 10)

static int clients_n;

static void curl_act(struct http_client *c, curl_socket_t fd, int events);

/* ---- curl's sockets and timer on the loop ---------------------------------------------------- */

static void sock_ready(struct loop_fd *f, int events)
{
	struct sock *s = container_of(f, struct sock, fd);

	curl_act(s->client, f->fd,
	    ((events & LOOP_READ) != 0 ? CURL_CSELECT_IN : 0) |
		((events & LOOP_WRITE) != 0 ? CURL_CSELECT_OUT : 0));
}

static void sock_drop(struct sock *s)
{
	loop_fd_stop(&s->fd);
	*s->at = s->next;
	if (s->next != NULL) {
		s->next->at = s->at;
	}
	loop_bury(s->client->loop, s, free);
}

static int on_socket(CURL *easy UNUSED, curl_socket_t fd, int what, void *user, void *per_socket)
{
	struct http_client *c = user;
	struct sock *s = per_socket;

	if (what == CURL_POLL_REMOVE) {
		if (s != NULL) {
			sock_drop(s);
		}
		return 0;
	}
	if (s == NULL) {
		s = calloc(1, sizeof(*s));
		if (s == NULL) {
			abort();
		}
		s->client = c;
		s->at = &c->socks;
		s->next = c->socks;
		if (s->next != NULL) {
			s->next->at = &s->next;
		}
		c->socks = s;
		loop_fd_init(&s->fd, c->loop, sock_ready);
		curl_multi_assign(c->multi, fd, s);
	}
	loop_fd_set(&s->fd, fd,
	    ((what & CURL_POLL_IN) != 0 ? LOOP_READ : 0) |
		((what & CURL_POLL_OUT) != 0 ? LOOP_WRITE : 0));
	return 0;
}

static int on_timer(CURLM *multi UNUSED, long timeout_ms, void *user)
{
	struct http_client *c = user;

	/* Only arm the timer: a callback of curl must not call curl. */
	if (timeout_ms < 0) {
		loop_timer_stop(&c->timer);
	} else {
		loop_timer_set(&c->timer, (int64_t)timeout_ms * 1000);
	}
	return 0;
}

static void timer_fire(struct loop_timer *t)
{
	curl_act(container_of(t, struct http_client, timer), CURL_SOCKET_TIMEOUT, 0);
}

/* ---- the reply ------------------------------------------------------------------------------- */

size_t http_on_body(char *p, size_t size, size_t n, void *user)
{
	struct xfer *x = user;

	sbuf_add(&x->body, p, size * n);
	if (x->body.overflow) {
		x->broken = "reply too large";
		return 0;
	}
	return size * n;
}

size_t http_on_header(char *p, size_t size, size_t n, void *user)
{
	struct xfer *x = user;
	size_t len = size * n, end = len;
	struct arena *a = x->req->arena;

	/* A status line starts a new reply, after an interim one (1xx). Trailers stay, too. */
	if (len >= 5 && memcmp(p, "HTTP/", 5) == 0) {
		x->headers_n = 0;
		return len;
	}
	x->header_bytes += len;
	if (x->header_bytes > HEADER_BYTES_MAX || x->headers_n == HEADERS_MAX) {
		x->broken = "reply headers too large";
		return 0;
	}
	const char *colon = memchr(p, ':', len);
	if (colon == NULL) {
		return len;
	}
	size_t from = (size_t)(colon - p) + 1;
	while (end > from && (p[end - 1] == '\r' || p[end - 1] == '\n' || p[end - 1] == ' ')) {
		end--;
	}
	while (from < end && (p[from] == ' ' || p[from] == '\t')) {
		from++;
	}
	if (x->headers == NULL) {
		x->headers = arena_array(a, HEADERS_MAX, sizeof(*x->headers));
	}
	x->headers[x->headers_n++] = (struct spot_header){
		.name = arena_strndup(a, p, (size_t)(colon - p)),
		.value = arena_strndup(a, p + from, end - from),
	};
	return len;
}

/* Reports that no byte of the request can have reached the server's application. */
static bool nothing_sent(const struct xfer *x, CURLcode code)
{
	long request_bytes = 0;

	switch ((int)code) {
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_URL_MALFORMAT:
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_CONNECT:
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
		return true;
	default:
		break;
	}
	return curl_easy_getinfo(x->easy, CURLINFO_REQUEST_SIZE, &request_bytes) == CURLE_OK &&
	    request_bytes == 0;
}

static enum spot_rc xfer_verdict(struct xfer *x, CURLcode code, int status, struct spot_err *err)
{
	const struct http_req *req = x->req;
	enum spot_rc rc = SPOT_UNAVAILABLE;

	if (code == CURLE_OK && status != 0) {
		return SPOT_OK;
	}
	if (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_URL_MALFORMAT) {
		rc = SPOT_INVALID;
	} else if (req->mutating && !nothing_sent(x, code)) {
		rc = SPOT_UNKNOWN;
	} else if (x->broken != NULL) {
		rc = SPOT_BAD_REPLY;
	}
	if (x->broken != NULL) {
		return err_set(err, rc, "%s: %s (over %zu bytes)", req->op.what, x->broken,
		    x->body.overflow ? x->reply_max : HEADER_BYTES_MAX);
	}
	return err_set(err, rc, "%s: %s", req->op.what,
	    x->words[0] != '\0' ? x->words : curl_easy_strerror(code));
}

static void xfer_free(struct xfer *x)
{
	assert(!x->client->in_curl);
	loop_defer_cancel(x->client->loop, &x->lines);
	curl_multi_remove_handle(x->client->multi, x->easy);
	curl_easy_cleanup(x->easy);
	curl_slist_free_all(x->headers_out);
	sbuf_fini(&x->body);
	*x->at = x->next;
	if (x->next != NULL) {
		x->next->at = x->at;
	}
	free(x);
}

static void xfer_log(const struct xfer *x, enum spot_rc rc, int status)
{
	char url[1024];

	redact_url(x->req->out->url, url, sizeof(url));
	log_debug("http.done", I64("op", x->req->op.id), STR("method", x->req->out->method),
	    STR("url", url), I64("status", status), STR("rc", spot_rc_name(rc)),
	    I64("bytes", x->body.n), DUR("took", loop_mono_us(x->client->loop) - x->begun_us));
}

static void xfer_done(struct xfer *x, CURLcode code)
{
	struct http_req *req = x->req;
	struct spot_err err = { 0 };
	long status = 0;

	curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
	enum spot_rc rc = xfer_verdict(x, code, (int)status, &err);
	if (rc == SPOT_OK) {
		req->in = (struct spot_http_response){
			.status = (int)status,
			.headers = x->headers,
			.headers_n = x->headers_n,
			.body = arena_bytes(req->arena, x->body.p, x->body.n),
		};
	}
	xfer_log(x, rc, (int)status);
	req->priv = NULL;
	xfer_free(x);
	op_finish(&req->op, rc, &err);
}

/* ---- streams --------------------------------------------------------------------------------- */

static size_t whole_lines(const struct xfer *x)
{
	const char *end = x->body.n > 0 ? memrchr(x->body.p, '\n', x->body.n) : NULL;

	return end != NULL ? (size_t)(end - x->body.p) + 1 : 0;
}

static void lines_hand(struct loop_task *t)
{
	struct xfer *x = container_of(t, struct xfer, lines);
	struct http_req *req = x->req;
	size_t n = whole_lines(x);
	long status = 0;

	x->lines_due = false;
	curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
	req->in = (struct spot_http_response){
		.status = (int)status,
		.headers = x->headers,
		.headers_n = x->headers_n,
		.body = arena_bytes(req->arena, x->body.p, n),
		.partial = true,
	};
	sbuf_consume(&x->body, n);
	x->handed = true;
	req->streamed(req);
}

static void lines_look(struct xfer *x)
{
	if (x->req->streamed == NULL || x->handed || x->lines_due || whole_lines(x) == 0) {
		return;
	}
	x->lines_due = true;
	loop_defer(x->client->loop, &x->lines, lines_hand);
}

void http_stream_resume(struct http_req *req)
{
	struct xfer *x = req->priv;

	assert(x != NULL && x->handed);
	x->handed = false;
	if (x->over) {
		xfer_done(x, x->code);
	} else {
		lines_look(x);
	}
}

static void xfer_ended(struct xfer *x, CURLcode code)
{
	if (x->handed) {
		x->over = true;
		x->code = code;
		return;
	}
	xfer_done(x, code);
}

static void curl_act(struct http_client *c, curl_socket_t fd, int events)
{
	int running, left;

	assert(!c->in_curl);
	c->in_curl = true;
	curl_multi_socket_action(c->multi, fd, events, &running);
	c->in_curl = false;
	for (CURLMsg *m; (m = curl_multi_info_read(c->multi, &left)) != NULL;) {
		struct xfer *x;

		if (m->msg != CURLMSG_DONE) {
			continue;
		}
		/* The removal of the handle frees the message: read it first. */
		CURLcode code = m->data.result;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&x);
		xfer_ended(x, code);
	}
	for (struct xfer *x = c->xfers; x != NULL; x = x->next) {
		lines_look(x);
	}
}

static void http_abort(struct op *op)
{
	struct http_req *req = container_of(op, struct http_req, op);
	struct xfer *x = req->priv;

	if (x == NULL) {
		return;
	}
	req->priv = NULL;
	xfer_free(x);
}

static void request_refuse(struct http_req *req, enum spot_rc rc, const char *why)
{
	struct spot_err err = { 0 };

	err_set(&err, rc, "%s: %s", req->op.what, why);
	op_finish(&req->op, rc, &err);
}

/* Makes "http POST ec2.us-east-1.amazonaws.com"; path and query may hold secrets. */
static char *what_text(struct arena *a, const struct spot_http_request *out)
{
	const char *scheme = strstr(out->url, "://");
	const char *host = scheme != NULL ? scheme + 3 : out->url;
	size_t n = strcspn(host, "/?#");
	const char *user_end = memrchr(host, '@', n);

	if (user_end != NULL) {
		n -= (size_t)(user_end + 1 - host);
		host = user_end + 1;
	}
	return arena_printf(a, "http %s %.*s", out->method, (int)n, host);
}

void http_send(struct http_client *c, struct http_req *req, const struct spot_http_request *out,
    struct arena *arena, bool mutating, void (*done)(struct op *))
{
	int64_t timeout_us = out->timeout_us > 0 ? out->timeout_us : TIMEOUT_DEFAULT_US;

	op_init(&req->op, c->loop, done);
	req->out = out;
	req->arena = arena;
	req->mutating = mutating;
	req->in = (struct spot_http_response){ 0 };
	req->priv = NULL;
	op_begin(&req->op, what_text(arena, out), timeout_us,
	    mutating ? SPOT_UNKNOWN : SPOT_TIMEOUT, http_abort);
	if (c->ca_bad) {
		request_refuse(req, SPOT_CONFIG, "the file of CA certificates cannot be used");
		return;
	}
	struct xfer *x = calloc(1, sizeof(*x));
	if (x == NULL || (x->easy = curl_easy_init()) == NULL) {
		abort();
	}
	x->client = c;
	x->req = req;
	x->begun_us = loop_mono_us(c->loop);
	x->reply_max = out->reply_bytes_max != 0 ? out->reply_bytes_max : REPLY_MAX_DEFAULT;
	sbuf_init(&x->body, x->reply_max);
	x->at = &c->xfers;
	x->next = c->xfers;
	if (x->next != NULL) {
		x->next->at = &x->next;
	}
	c->xfers = x;
	if (!http_headers_build(x, out)) {
		xfer_free(x);
		request_refuse(req, SPOT_INVALID, "a header has a line end in it");
		return;
	}
	http_easy_set(x, out, timeout_us);
	req->priv = x;
	if (curl_multi_add_handle(c->multi, x->easy) != CURLM_OK) {
		abort();
	}
}

/* ---- the client ------------------------------------------------------------------------------ */

static void roots_load(struct http_client *c)
{
	c->roots = X509_STORE_new();
	if (c->roots == NULL || X509_STORE_set_default_paths(c->roots) != 1) {
		abort();
	}
	if (c->ca_file != NULL && X509_STORE_load_locations(c->roots, c->ca_file, NULL) != 1) {
		c->ca_bad = true;
		log_error("http.ca_unusable", STR("path", c->ca_file));
	}
	ERR_clear_error();
}

/* Adds the hosts that never have a proxy: the metadata services (AWS IMDS and ECS, also by IPv6)
 * and this machine. */
static char *no_proxy_list(void)
{
	static const char own[] =
	    "169.254.169.254,169.254.170.2,fd00:ec2::254,localhost,127.0.0.1,::1";
	const char *env = getenv("no_proxy");
	char *list = NULL;

	if (env == NULL) {
		env = getenv("NO_PROXY");
	}
	if (asprintf(&list, "%s%s%s", own, str_empty(env) ? "" : ",", env != NULL ? env : "") < 0) {
		abort();
	}
	return list;
}

static char *copy_or_null(const char *s)
{
	char *copy = s != NULL ? strdup(s) : NULL;

	if (s != NULL && copy == NULL) {
		abort();
	}
	return copy;
}

struct http_client *http_client_new(struct loop *l, const struct http_client_conf *conf)
{
	struct http_client *c = calloc(1, sizeof(*c));
	int total = conf->connections_max > 0 ? conf->connections_max : 128;
	int host = conf->per_host_max > 0 ? conf->per_host_max : 16;

	if (c == NULL || (clients_n++ == 0 && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)) {
		abort();
	}
	c->loop = l;
	c->ca_file = copy_or_null(conf->ca_file);
	c->user_agent = copy_or_null(conf->user_agent);
	c->no_proxy = no_proxy_list();
	roots_load(c);
	loop_timer_init(&c->timer, l, timer_fire);
	c->multi = curl_multi_init();
	if (c->multi == NULL) {
		abort();
	}
	curl_multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
	curl_multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
	curl_multi_setopt(c->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)total);
	curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)total);
	curl_multi_setopt(c->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)host);
	return c;
}

void http_client_free(struct http_client *c)
{
	if (c == NULL) {
		return;
	}
	/* Stop the requests under way; their owners get CANCELLED in the next turn. */
	while (c->xfers != NULL) {
		op_stop(&c->xfers->req->op);
	}
	/* curl closes its connections now, and no longer needs our callbacks. */
	curl_multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, NULL);
	curl_multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, NULL);
	while (c->socks != NULL) {
		sock_drop(c->socks);
	}
	loop_timer_stop(&c->timer);
	curl_multi_cleanup(c->multi);
	X509_STORE_free(c->roots);
	free(c->user_agent);
	free(c->no_proxy);
	free(c->ca_file);
	free(c);
	if (--clients_n == 0) {
		curl_global_cleanup();
	}
}
