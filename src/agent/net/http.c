#include "base/base.h"
#include "agent/net/net.h"

#include "base/text/text.h"
#include "base/crypto/crypto.h"
#include "agent/sys/sys.h"
#include "net/curl_policy.h"

#include <errno.h>
#include <unistd.h>

/* A transfer without a total limit ends if it is slower than this. */
#define STALL_S 20
#define STALL_BYTES 1024
#define REPLY_BYTES_MAX ((size_t)64 << 20) /* a run with 20,000 files and their URLs */
#define CA_BYTES_MAX ((size_t)4 << 20)

struct http_call {
	struct http_call *next;
	struct http *http;
	CURL *easy;
	struct curl_slist *headers;
	char *body;
	size_t body_n;
	struct sbuf reply;
	struct http_piece piece;
	bool has_piece, wrong_bytes, lent;
	int64_t moved; /* bytes of the piece so far */
	struct sha256_stream *sha;
	struct md5_stream *md5; /* of a piece to send, or of one without a sha256 */
	char error[CURL_ERROR_SIZE];
	void (*done)(void *ctx, const struct http_reply *r);
	void *ctx;
};

struct http {
	CURLM *multi;
	struct http_call *calls;
	struct secret bearer;
	char *ca_daemon, *ca_object; /* PEM text; NULL: ca_file */
	const char *ca_file; /* the machine's bundle; NULL: the library's default */
};

/* Finds the machine's CA bundle: no path compiled into a static program fits every distribution. */
static const char *ca_file_find(void)
{
	static const char *const places[] = { "/etc/ssl/certs/ca-certificates.crt",
		"/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem" };
	const char *env = getenv("SSL_CERT_FILE");

	if (env != NULL && env[0] != '\0') {
		return env;
	}
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		if (access(places[i], R_OK) == 0) {
			return places[i];
		}
	}
	return NULL;
}

struct http *http_new(const char *ca_pem)
{
	struct http *h = calloc(1, sizeof(*h));

	if (h == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != 0) {
		abort();
	}
	h->multi = curl_multi_init();
	if (h->multi == NULL) {
		abort();
	}
	(void)curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, 16L);
	h->ca_file = ca_file_find();
	if (ca_pem != NULL && ca_pem[0] != '\0') {
		struct str bundle = { NULL, 0 };
		size_t n = strlen(ca_pem);

		h->ca_daemon = strdup(ca_pem);
		/* A private object store may use the daemon's private CA. */
		if (h->ca_file != NULL &&
		    file_read(h->ca_file, CA_BYTES_MAX, &bundle, NULL) != SPOT_OK) {
			bundle = (struct str){ NULL, 0 };
		}
		h->ca_object = malloc(n + bundle.n + 2);
		if (h->ca_daemon == NULL || h->ca_object == NULL) {
			abort();
		}
		(void)snprintf(h->ca_object, n + bundle.n + 2, "%s\n%s", ca_pem,
		    bundle.p != NULL ? bundle.p : "");
		free((char *)(uintptr_t)bundle.p);
	}
	return h;
}

static void call_free(struct http_call *c)
{
	struct http_call **at = &c->http->calls;

	while (*at != NULL && *at != c) {
		at = &(*at)->next;
	}
	if (*at == c) {
		*at = c->next;
	}
	(void)curl_multi_remove_handle(c->http->multi, c->easy);
	curl_easy_cleanup(c->easy);
	curl_slist_free_all(c->headers);
	if (c->body != NULL && !c->lent) {
		mem_wipe(c->body, c->body_n); /* it may hold the one-time token */
		free(c->body);
	}
	if (c->sha != NULL) {
		char unused[SHA256_HEX];

		sha256_stream_end(c->sha, unused);
	}
	if (c->md5 != NULL) {
		uint8_t unused[MD5_BYTES];

		md5_stream_end(c->md5, unused);
	}
	sbuf_fini(&c->reply);
	free(c);
}

void http_free(struct http *h)
{
	if (h == NULL) {
		return;
	}
	while (h->calls != NULL) {
		call_free(h->calls);
	}
	(void)curl_multi_cleanup(h->multi);
	secret_fini(&h->bearer);
	free(h->ca_daemon);
	free(h->ca_object);
	free(h);
}

void http_bearer(struct http *h, const char *session)
{
	secret_fini(&h->bearer);
	secret_init(&h->bearer, session, strlen(session));
}

static bool piece_is_right(struct http_call *c)
{
	char hex[SHA256_HEX];

	sha256_stream_end(STEAL(c->sha), hex);
	c->wrong_bytes = strcmp(hex, c->piece.sha256) != 0;
	return !c->wrong_bytes;
}

/* CURLOPT_READFUNCTION: hands over the last bytes only if the hash of all bytes is right. */
static size_t piece_send(char *buf, size_t size, size_t n, void *ctx)
{
	struct http_call *c = ctx;
	int64_t left = c->piece.bytes - c->moved;
	size_t take = left < (int64_t)(size * n) ? (size_t)left : size * n;
	ssize_t got;

	if (take == 0) {
		return 0;
	}
	got = pread(c->piece.fd, buf, take, (off_t)(c->piece.at + c->moved));
	if (got <= 0 || c->sha == NULL) {
		c->wrong_bytes = got == 0; /* the file became shorter */
		return CURL_READFUNC_ABORT;
	}
	sha256_stream_add(c->sha, buf, (size_t)got);
	if (c->md5 != NULL) {
		md5_stream_add(c->md5, buf, (size_t)got);
	}
	c->moved += got;
	if (c->moved == c->piece.bytes && !piece_is_right(c)) {
		return CURL_READFUNC_ABORT;
	}
	return (size_t)got;
}

/* Rewinds for a second send on a new connection, after a reused one was closed. */
static int piece_seek(void *ctx, curl_off_t offset, int origin)
{
	struct http_call *c = ctx;
	char unused[SHA256_HEX];
	uint8_t unused_md5[MD5_BYTES];

	if (offset != 0 || origin != SEEK_SET) {
		return CURL_SEEKFUNC_CANTSEEK;
	}
	if (c->sha != NULL) {
		sha256_stream_end(c->sha, unused);
	}
	if (c->md5 != NULL) {
		md5_stream_end(c->md5, unused_md5);
	}
	c->sha = sha256_stream_new();
	c->md5 = md5_stream_new();
	c->moved = 0;
	return CURL_SEEKFUNC_OK;
}

/* Sends a lent body, a part of a chunk whose progress the caller tracks. */
static size_t lent_send(char *buf, size_t size, size_t n, void *ctx)
{
	struct http_call *c = ctx;
	size_t take = MIN(c->body_n - (size_t)c->moved, size * n);

	memcpy(buf, c->body + c->moved, take);
	c->moved += (int64_t)take;
	return take;
}

/* If a reused connection dies, curl repeats the request on a new one. This allows it only before
 * the first byte; afterwards the caller must ask the store for its progress. */
static int lent_seek(void *ctx, curl_off_t offset, int origin)
{
	struct http_call *c = ctx;

	return c->moved == 0 && offset == 0 && origin == SEEK_SET ? CURL_SEEKFUNC_OK
								  : CURL_SEEKFUNC_FAIL;
}

static size_t reply_take(char *p, size_t size, size_t n, void *ctx)
{
	struct http_call *c = ctx;
	size_t bytes = size * n;
	long status = 0;

	(void)curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	if (!c->has_piece || status < 200 || status > 299) {
		sbuf_add(&c->reply, p, bytes);
		return c->reply.overflow ? 0 : bytes;
	}
	if (c->moved + (int64_t)bytes > c->piece.bytes) {
		c->wrong_bytes = true;
		return 0;
	}
	for (size_t put = 0; put < bytes;) {
		ssize_t k =
		    pwrite(c->piece.fd, p + put, bytes - put, (off_t)(c->piece.at + c->moved));

		if (k <= 0) {
			(void)snprintf(c->error, sizeof(c->error), "cannot store: %s",
			    strerror(errno));
			return 0;
		}
		if (c->sha != NULL) {
			sha256_stream_add(c->sha, p + put, (size_t)k);
		}
		if (c->md5 != NULL) {
			md5_stream_add(c->md5, p + put, (size_t)k);
		}
		put += (size_t)k;
		c->moved += k;
	}
	return bytes;
}

static void call_set_policy(struct http *h, struct http_call *c, const struct http_want *w)
{
	struct curl_policy policy = {
		.total_ms = w->timeout_us > 0 ? w->timeout_us / 1000 + 1 : 0,
		.stall_s = w->timeout_us > 0 ? 0 : STALL_S,
		.stall_bytes = STALL_BYTES,
		.ca_pem = w->far == HTTP_OBJECT ? h->ca_object : h->ca_daemon,
		.ca_file = h->ca_file,
		/* A proxy variable would send metadata requests and their tokens elsewhere. */
		.no_proxy = w->far == HTTP_METADATA ? "*" : NULL,
	};

	curl_policy_set(c->easy, &policy);
	(void)curl_easy_setopt(c->easy, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(c->easy, CURLOPT_TCP_KEEPALIVE, 1L);
	(void)curl_easy_setopt(c->easy, CURLOPT_TCP_KEEPIDLE, 30L);
	(void)curl_easy_setopt(c->easy, CURLOPT_TCP_KEEPINTVL, 10L);
	(void)curl_easy_setopt(c->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
}

static void call_header_add(struct http_call *c, const char *line)
{
	struct curl_slist *more = curl_slist_append(c->headers, line);

	if (more == NULL) {
		abort();
	}
	c->headers = more;
}

static bool has_type(const struct http_want *w)
{
	for (size_t i = 0; w->headers != NULL && w->headers[i] != NULL; i++) {
		if (strncasecmp(w->headers[i], "Content-Type:", 13) == 0) {
			return true;
		}
	}
	return false;
}

static void call_set_headers(struct http *h, struct http_call *c, const struct http_want *w)
{
	char line[4096];

	for (size_t i = 0; w->headers != NULL && w->headers[i] != NULL; i++) {
		call_header_add(c, w->headers[i]);
	}
	if (w->type != NULL && snprintf(line, sizeof(line), "Content-Type: %s", w->type) > 0) {
		call_header_add(c, line);
	} else if (!has_type(w)) {
		call_header_add(c, "Content-Type:"); /* presigned PUT: no unsigned header */
	}
	call_header_add(c, "Expect:");
	if (w->header != NULL) {
		call_header_add(c, w->header);
	}
	if (w->far == HTTP_DAEMON && secret_set(&h->bearer)) {
		int n = snprintf(line, sizeof(line), "Authorization: Bearer %s",
		    secret_reveal(&h->bearer));

		if (n > 0 && n < (int)sizeof(line)) {
			call_header_add(c, line);
		}
		mem_wipe(line, sizeof(line));
	}
	(void)curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->headers);
}

static void call_upload(struct http_call *c, curl_read_callback read, curl_seek_callback seek,
    int64_t bytes)
{
	(void)curl_easy_setopt(c->easy, CURLOPT_UPLOAD, 1L);
	(void)curl_easy_setopt(c->easy, CURLOPT_READFUNCTION, read);
	(void)curl_easy_setopt(c->easy, CURLOPT_READDATA, c);
	(void)curl_easy_setopt(c->easy, CURLOPT_SEEKFUNCTION, seek);
	(void)curl_easy_setopt(c->easy, CURLOPT_SEEKDATA, c);
	(void)curl_easy_setopt(c->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)bytes);
	(void)curl_easy_setopt(c->easy, CURLOPT_UPLOAD_BUFFERSIZE, 262144L);
}

static void call_set_body(struct http_call *c, const struct http_want *w)
{
	bool put = strcmp(w->method, "PUT") == 0;

	if (c->has_piece && put) {
		call_upload(c, piece_send, piece_seek, c->piece.bytes);
		return;
	}
	if (strcmp(w->method, "GET") == 0) {
		(void)curl_easy_setopt(c->easy, CURLOPT_HTTPGET, 1L);
		return;
	}
	c->body_n = w->body.n;
	c->lent = w->lent;
	c->body = w->lent ? (char *)(uintptr_t)w->body.p : malloc(w->body.n + 1);
	if (c->body == NULL) {
		abort();
	}
	if (w->lent && put) {
		call_upload(c, lent_send, lent_seek, (int64_t)w->body.n);
		return;
	}
	if (w->body.n > 0 && !w->lent) {
		memcpy(c->body, w->body.p, w->body.n);
	}
	(void)curl_easy_setopt(c->easy, CURLOPT_POST, 1L);
	(void)curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, c->body);
	(void)curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)w->body.n);
	if (strcmp(w->method, "POST") != 0) {
		(void)curl_easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, w->method);
	}
}

struct http_call *http_start(struct http *h, const struct http_want *w)
{
	struct http_call *c = calloc(1, sizeof(*c));

	if (c == NULL || (c->easy = curl_easy_init()) == NULL) {
		abort();
	}
	c->http = h;
	c->done = w->done;
	c->ctx = w->ctx;
	sbuf_init(&c->reply, REPLY_BYTES_MAX);
	if (w->piece != NULL) {
		c->has_piece = true;
		c->piece = *w->piece;
		if (c->piece.sha256[0] != '\0') {
			c->sha = sha256_stream_new();
		}
		if (c->piece.sha256[0] == '\0' || strcmp(w->method, "PUT") == 0) {
			c->md5 = md5_stream_new();
		}
	}
	(void)curl_easy_setopt(c->easy, CURLOPT_URL, w->url);
	(void)curl_easy_setopt(c->easy, CURLOPT_PRIVATE, c);
	(void)curl_easy_setopt(c->easy, CURLOPT_ERRORBUFFER, c->error);
	(void)curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, reply_take);
	(void)curl_easy_setopt(c->easy, CURLOPT_WRITEDATA, c);
	call_set_policy(h, c, w);
	call_set_body(c, w);
	call_set_headers(h, c, w);
	c->next = h->calls;
	h->calls = c;
	if (curl_multi_add_handle(h->multi, c->easy) != CURLM_OK) {
		abort();
	}
	return c;
}

void http_stop(struct http *h, struct http_call *c)
{
	assert(c == NULL || c->http == h);
	if (c != NULL) {
		call_free(c);
	}
}

bool http_headers_read(const json_t *o, char **ret, size_t max)
{
	size_t n = 0;
	void *at;

	ret[0] = NULL;
	if (o != NULL && !json_is_object(o)) {
		return json_is_null(o);
	}
	for (at = json_object_iter((json_t *)(uintptr_t)o); at != NULL;
	     at = json_object_iter_next((json_t *)(uintptr_t)o, at)) {
		const char *name = json_object_iter_key(at);
		const char *value = json_string_value(json_object_iter_value(at));
		size_t size;

		if (n == max || value == NULL || *name == '\0' ||
		    strpbrk(name, ":;\r\n \t") != NULL || strpbrk(value, "\r\n") != NULL) {
			return false;
		}
		size = strlen(name) + strlen(value) + 4;
		ret[n] = malloc(size);
		if (ret[n] == NULL) {
			abort();
		}
		/* curl sends an empty value for "Name;" and drops the header for "Name:". */
		(void)snprintf(ret[n], size, *value != '\0' ? "%s: %s" : "%s;%s", name, value);
		ret[++n] = NULL;
	}
	return true;
}

const char *http_reply_header(const struct http_reply *r, const char *name)
{
	struct curl_header *h;

	/* Of the last reply only, not of informational ones or a proxy's CONNECT. */
	if (r->call == NULL ||
	    curl_easy_header(r->call->easy, name, 0, CURLH_HEADER, -1, &h) != CURLHE_OK) {
		return "";
	}
	return h->value;
}

void http_reply_headers(const struct http_reply *r, const char *name, char *ret, size_t ret_size)
{
	struct curl_header *h;
	size_t n = 0;

	ret[0] = '\0';
	for (size_t i = 0; r->call != NULL &&
	     curl_easy_header(r->call->easy, name, i, CURLH_HEADER, -1, &h) == CURLHE_OK;
	     i++) {
		int put = snprintf(ret + n, ret_size - n, "%s%s", i > 0 ? ", " : "", h->value);

		if (put < 0 || (size_t)put >= ret_size - n) {
			ret[0] = '\0';
			return;
		}
		n += (size_t)put;
	}
}

static void call_finish(struct http_call *c, CURLcode code)
{
	struct http_reply r = { .call = c };
	uint8_t md5[MD5_BYTES];
	curl_off_t wait_s = 0;
	long status = 0;

	(void)curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	if (curl_easy_getinfo(c->easy, CURLINFO_RETRY_AFTER, &wait_s) == CURLE_OK && wait_s > 0) {
		r.retry_after_us = (int64_t)wait_s * SPOT_US_PER_S;
	}
	if (code == CURLE_OK) {
		r.status = (int)status;
	}
	if (c->has_piece && c->sha != NULL && r.status >= 200 && r.status <= 299 &&
	    (c->moved != c->piece.bytes || !piece_is_right(c))) {
		c->wrong_bytes = true;
	}
	r.wrong_bytes = c->wrong_bytes;
	if (c->md5 != NULL) {
		md5_stream_end(STEAL(c->md5), md5);
		r.md5 = md5;
	}
	if (c->wrong_bytes) {
		r.status = 0;
	}
	r.error = r.status != 0   ? ""
	    : c->wrong_bytes      ? "the bytes do not match their sha256"
	    : c->error[0] != '\0' ? c->error
				  : curl_easy_strerror(code);
	sbuf_putc(&c->reply, '\0');
	r.body = (struct str){ c->reply.p != NULL ? c->reply.p : "",
		c->reply.n > 0 ? c->reply.n - 1 : 0 };
	c->done(c->ctx, &r);
}

/* Completes the calls that have ended; true if there was one. */
static bool http_finish(struct http *h)
{
	int left = 0;
	bool any = false;
	CURLMsg *m;

	while ((m = curl_multi_info_read(h->multi, &left)) != NULL) {
		struct http_call *c = NULL;
		CURLcode code = m->data.result;

		if (m->msg != CURLMSG_DONE) {
			continue;
		}
		(void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&c);
		/* The callback may stop other calls, even ones with a queued end: curl drops the
		 * messages of removed handles. */
		(void)curl_multi_remove_handle(h->multi, c->easy);
		call_finish(c, code);
		call_free(c);
		any = true;
	}
	return any;
}

void http_wait(struct http *h, struct curl_waitfd *fds, unsigned fds_n, int64_t us)
{
	int running = 0;

	(void)curl_multi_perform(h->multi, &running); /* new calls start before we wait */
	if (http_finish(h)) {
		us = 0; /* let the steps act on the new facts first */
	}
	(void)curl_multi_poll(h->multi, fds, fds_n, us <= 0 ? 0 : (int)((us + 999) / 1000), NULL);
	(void)curl_multi_perform(h->multi, &running);
	(void)http_finish(h);
}
