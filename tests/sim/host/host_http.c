/* The agent's HTTP client (agent/net/net.h) over the simulated network. */
#include "sim/world/world.h"
#include "sim/net/net.h"
#include "sim/host/host_priv.h"

#include "base/base.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <unistd.h>

struct http_call {
	struct flight_to to;
	struct http *http;
	struct loop_timer deadline;
	struct http_call *next, **at;
	struct arena *arena;
	enum http_far far;
	struct http_piece piece;
	bool has_piece, writes;
	int refused; /* with this status, by a fault */
	uint8_t md5[MD5_BYTES]; /* of the piece that was sent */
	void (*done)(void *ctx, const struct http_reply *r);
	void *ctx;
};
struct http {
	struct host *host;
	char *bearer;
	struct http_call *calls;
};

struct http *http_new(const char *ca_pem UNUSED)
{
	struct http *h = calloc(1, sizeof(*h));

	assert(h != NULL && host_now != NULL);
	h->host = host_now;
	return h;
}

static void call_bury(void *p)
{
	struct http_call *c = p;

	arena_free(c->arena);
	free(c);
}

static void call_free(struct http_call *c)
{
	loop_timer_stop(&c->deadline);
	flight_forget(&c->to);
	*c->at = c->next;
	if (c->next != NULL) {
		c->next->at = c->at;
	}
	loop_bury(world.loop, c, call_bury);
}

void http_free(struct http *h)
{
	while (h->calls != NULL) {
		call_free(h->calls);
	}
	free(h->bearer);
	free(h);
}

void http_bearer(struct http *h, const char *session)
{
	free(h->bearer);
	h->bearer = strdup(session);
	assert(h->bearer != NULL);
}

void http_stop(struct http *h UNUSED, struct http_call *c)
{
	if (c != NULL) {
		call_free(c);
	}
}

const char *http_reply_header(const struct http_reply *r, const char *name)
{
	for (size_t i = 0; r->call != NULL && i < r->call->to.reply_headers_n; i++) {
		if (strcasecmp(r->call->to.reply_headers[i].name, name) == 0) {
			return r->call->to.reply_headers[i].value;
		}
	}
	return "";
}

void http_reply_headers(const struct http_reply *r, const char *name, char *ret, size_t ret_size)
{
	/* the emulated stores write one line */
	(void)snprintf(ret, ret_size, "%s", http_reply_header(r, name));
}

void http_wait(struct http *h UNUSED, struct curl_waitfd *fds UNUSED, unsigned fds_n UNUSED,
    int64_t us UNUSED)
{
	assert(false && "the simulation waits itself");
}

/* ---- the end of a call ----------------------------------------------------------------------- */

static void call_tell(struct http_call *c, const struct http_reply *r)
{
	struct host *h = c->http->host;
	void (*done)(void *, const struct http_reply *) = c->done;
	void *ctx = c->ctx;

	if (c->far == HTTP_DAEMON && r->status != 0) {
		host_answered(h);
	}
	host_enter(h);
	done(ctx, r);
	host_now = NULL;
	host_wake(h);
}

/* Bytes of the reply go to the file; a reply of another status is not the object. */
static bool piece_take(struct http_call *c, struct str body)
{
	char hex[SHA256_HEX];

	sha256_hex(body.p, body.n, hex);
	if ((c->piece.sha256[0] != '\0' && strcmp(hex, c->piece.sha256) != 0) ||
	    pwrite(c->piece.fd, body.p, body.n, (off_t)c->piece.at) != (ssize_t)body.n) {
		return false;
	}
	return true;
}

static void md5_of(struct str bytes, uint8_t ret[MD5_BYTES])
{
	struct md5_stream *s = md5_stream_new();

	assert(s != NULL);
	md5_stream_add(s, bytes.p, bytes.n);
	md5_stream_end(s, ret);
}

static void call_over(struct flight_to *t)
{
	struct http_call *c = container_of(t, struct http_call, to);
	struct http_reply r = { .status = t->status, .body = t->reply, .error = "", .call = c };
	uint8_t md5[MD5_BYTES];
	const char *wait;

	if (t->reset) {
		r = (struct http_reply){ .error = "the connection broke", .body = { "", 0 } };
	} else if (c->has_piece && !c->writes && t->status / 100 == 2 && !piece_take(c, t->reply)) {
		r = (struct http_reply){ .error = "wrong bytes",
			.wrong_bytes = true,
			.body = { "", 0 } };
	} else {
		wait = http_reply_header(&r, "Retry-After");
		r.retry_after_us = strtoll(wait, NULL, 10) * SPOT_US_PER_S;
		if (c->has_piece && c->writes) {
			r.md5 = c->md5;
		} else if (c->has_piece && c->piece.sha256[0] == '\0') {
			md5_of(t->reply, md5);
			r.md5 = md5;
		}
	}
	/* The caller forgets the call inside of done; the reply must live that long. */
	loop_timer_stop(&c->deadline);
	*c->at = c->next;
	if (c->next != NULL) {
		c->next->at = c->at;
	}
	call_tell(c, &r);
	loop_bury(world.loop, c, call_bury);
}

static void call_ends(struct http_call *c, struct http_reply r)
{
	flight_forget(&c->to);
	*c->at = c->next;
	if (c->next != NULL) {
		c->next->at = c->at;
	}
	call_tell(c, &r);
	loop_bury(world.loop, c, call_bury);
}

static void call_late(struct loop_timer *timer)
{
	call_ends(container_of(timer, struct http_call, deadline),
	    (struct http_reply){ .error = "timed out", .body = { "", 0 } });
}

/* The file changed since it was hashed: the product's client notices at the last byte, and the
 * object does not come to be. */
static void call_changed(struct loop_timer *timer)
{
	call_ends(container_of(timer, struct http_call, deadline),
	    (struct http_reply){ .error = "wrong bytes", .wrong_bytes = true, .body = { "", 0 } });
}

static void call_refused(struct loop_timer *timer)
{
	struct http_call *c = container_of(timer, struct http_call, deadline);

	call_ends(c, (struct http_reply){ .status = c->refused, .error = "", .body = { "", 0 } });
}

/* The store denies the keys, a request took too long, or the store is overloaded. It stored nothing
 * and gave nothing. */
static bool store_refuses(struct http_call *c)
{
	static const int words[] = { 403, 400, 503, 500, 429 };

	if (c->far != HTTP_OBJECT || !DICE(store_refuse)) {
		return false;
	}
	c->refused = words[dice_us(0, ARRAY_LEN(words) - 1)];
	fault_seen("store_refuse");
	trace("a store answers host %s with %d", c->http->host->id, c->refused);
	return true;
}

static void call_ends_soon(struct http_call *c, void (*how)(struct loop_timer *), int64_t us)
{
	loop_timer_stop(&c->deadline);
	loop_timer_init(&c->deadline, world.loop, how);
	loop_timer_set(&c->deadline, us);
}

static bool piece_changed(const struct http_call *c)
{
	char hex[SHA256_HEX];

	if (!c->writes || !c->has_piece || c->piece.sha256[0] == '\0') {
		return false;
	}
	sha256_hex(c->to.body.p, c->to.body.n, hex);
	return strcmp(hex, c->piece.sha256) != 0;
}

/* ---- the start ------------------------------------------------------------------------------- */

static void header_add(struct http_call *c, struct spot_header *list, size_t *n, const char *line)
{
	size_t name = strcspn(line, ":;");
	const char *value = line + name + (line[name] != '\0');

	while (*value == ' ') {
		value++;
	}
	list[*n] = (struct spot_header){ arena_strndup(c->arena, line, name),
		arena_strdup(c->arena, value) };
	(*n)++;
}

static void headers_set(struct http_call *c, const struct http_want *w)
{
	struct spot_header *list = arena_array(c->arena, 24, sizeof(*list));
	size_t n = 0;

	if (w->type != NULL) {
		list[n++] = (struct spot_header){ "Content-Type", arena_strdup(c->arena, w->type) };
	}
	if (w->far == HTTP_DAEMON && c->http->bearer != NULL) {
		list[n++] = (struct spot_header){ "Authorization",
			arena_printf(c->arena, "Bearer %s", c->http->bearer) };
	}
	if (w->header != NULL) {
		header_add(c, list, &n, w->header);
	}
	for (size_t i = 0; w->headers != NULL && w->headers[i] != NULL && n < 24; i++) {
		header_add(c, list, &n, w->headers[i]);
	}
	c->to.headers = list;
	c->to.headers_n = n;
}

/* A machine's metadata service answers at one address; which machine asks is known here. */
static const char *url_of(struct http_call *c, const struct http_want *w)
{
	const char *host = strstr(w->url, "://"), *path;

	if (w->far != HTTP_METADATA || host == NULL) {
		return arena_strdup(c->arena, w->url);
	}
	path = host + 3 + strcspn(host + 3, "/");
	return arena_printf(c->arena, "http://127.0.0.1:%d%s", c->http->host->imds_port, path);
}

static struct str body_of(struct http_call *c, const struct http_want *w)
{
	char *bytes;
	ssize_t got;

	if (w->piece == NULL || !c->writes) {
		return arena_bytes(c->arena, w->body.p, w->body.n);
	}
	bytes = arena_alloc(c->arena, (size_t)w->piece->bytes + 1);
	got = pread(w->piece->fd, bytes, (size_t)w->piece->bytes, (off_t)w->piece->at);
	return (struct str){ bytes, got > 0 ? (size_t)got : 0 };
}

/* The store receives other bytes than the agent hashed. */
static void piece_flip(struct http_call *c)
{
	char *bytes = (char *)(uintptr_t)c->to.body.p; /* body_of's copy */
	size_t at;

	md5_of(c->to.body, c->md5);
	if (c->to.body.n == 0 || !DICE(flip)) {
		return;
	}
	at = (size_t)dice_us(0, (int64_t)c->to.body.n - 1);
	bytes[at] = (char)(bytes[at] ^ 1 << dice_us(0, 7));
	trace("host %s sends an object of which byte %zu changes", c->http->host->id, at);
	sometimes("an object changed on its way to the store");
}

struct http_call *http_start(struct http *h, const struct http_want *w)
{
	struct http_call *c = calloc(1, sizeof(*c));

	assert(c != NULL);
	c->http = h;
	c->arena = arena_new(0);
	c->far = w->far;
	c->done = w->done;
	c->ctx = w->ctx;
	c->writes = strcmp(w->method, "GET") != 0;
	c->has_piece = w->piece != NULL;
	if (c->has_piece) {
		c->piece = *w->piece;
	}
	c->at = &h->calls;
	c->next = h->calls;
	if (c->next != NULL) {
		c->next->at = &c->next;
	}
	h->calls = c;
	loop_timer_init(&c->deadline, world.loop, call_late);
	loop_timer_set(&c->deadline, w->timeout_us > 0 ? w->timeout_us : 60 * SPOT_US_PER_S);
	headers_set(c, w);
	c->to.over = call_over;
	c->to.loop = world.loop;
	c->to.from = h->host->id;
	c->to.method = w->method;
	c->to.url = url_of(c, w);
	c->to.body = body_of(c, w);
	if (piece_changed(c)) {
		call_ends_soon(c, call_changed, SPOT_US_PER_S / 1000);
		sometimes("a file changed under its upload");
	} else if (store_refuses(c)) {
		call_ends_soon(c, call_refused, dice_us(1000, SPOT_US_PER_S));
	} else {
		if (c->has_piece && c->writes) {
			piece_flip(c);
		}
		flight_start(&c->to);
	}
	return c;
}
