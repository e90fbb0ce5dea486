/*
 * HTTP client of the agent: curl multi, which also waits for the agent's other descriptors. A call
 * completes exactly once by its callback, never inside http_start; http_stop ends it without one.
 * Three kinds of far side: the daemon (bearer, its CA), object stores (the machine's CAs, presigned
 * URLs, no header of ours) and the metadata service (never through a proxy).
 *
 * Connections are kept and reused: the daemon's are warm because samples travel on them, so a
 * notice needs neither a name lookup nor a handshake.
 */
#ifndef AGENT_HTTP_H
#define AGENT_HTTP_H

#include "base/base.h"

#include <curl/curl.h>
#include <jansson.h>

enum http_far { HTTP_DAEMON = 1, HTTP_OBJECT, HTTP_METADATA };

/* The bytes of a file that travel: PUT sends them, GET writes them. sha256 is checked over them
 * before the last byte is sent (so a file that changed meanwhile never becomes an object), or after
 * the last was received. A GET without one ("": nobody knows it) may bring any number of bytes up
 * to `bytes`; the reply has their MD5. */
struct http_piece {
	int fd; /* the caller's; open until done */
	int64_t at, bytes;
	char sha256[65];
};

struct http_reply {
	int status; /* 0 = no whole reply: error says why */
	struct str body; /* NUL terminated */
	const char *error; /* "" when there is a status */
	bool wrong_bytes; /* the piece is not what its sha256 says */
	/* MD5_BYTES: of the piece that was sent, or came without a sha256; NULL: none, or not to
	 * be had */
	const uint8_t *md5;
	int64_t retry_after_us;
	const struct http_call *call; /* for http_reply_header; only while done runs */
};

struct http_want {
	enum http_far far;
	const char *method; /* GET, POST, PUT */
	const char *url;
	const char *type; /* Content-Type, NULL = none */
	const char *header; /* one more header line, NULL = none */
	const char *const *headers; /* and more of them, NULL at the end; NULL = none */
	struct str body; /* copied, unless lent */
	/* the body is the caller's; it stays as it is until done or http_stop */
	bool lent;
	const struct http_piece *piece; /* copied; NULL = body and reply in memory */
	int64_t timeout_us; /* whole call; 0 = only a stalled transfer ends it (objects) */
	void (*done)(void *ctx, const struct http_reply *r);
	void *ctx;
};

struct http;
struct http_call;

struct http *http_new(const char *ca_pem); /* ca_pem NULL: the machine's CAs */
void http_free(struct http *h);
void http_bearer(struct http *h, const char *session); /* for HTTP_DAEMON; copied */
struct http_call *http_start(struct http *h, const struct http_want *w);
void http_stop(struct http *h, struct http_call *c); /* NULL accepted */
/* {"Name": "value"} into header lines, NULL after the last; NULL object gives none. The caller
 * frees each line, also on false: one that cannot be a header, or more than max. */
NODISCARD bool http_headers_read(const json_t *o, char **ret, size_t max);
/* Value of a header of the final reply, "" if it has none. Valid until done returns. */
const char *http_reply_header(const struct http_reply *r, const char *name);
/* The same, all lines of that name joined by ", "; "" where they do not fit. */
void http_reply_headers(const struct http_reply *r, const char *name, char *ret, size_t ret_size);
/* Waits for traffic, for one of the descriptors (revents are set) or for the time, then runs what
 * is due, completions included. */
void http_wait(struct http *h, struct curl_waitfd *fds, unsigned fds_n, int64_t us);

#endif
