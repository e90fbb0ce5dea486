/*
 * HTTP/1.1 server: llhttp, libev, OpenSSL. Strict by design: refuses HTTP < 1.0, missing or
 * duplicate Host, obs-fold, empty header names, NUL, any Transfer-Encoding but "chunked", CL+TE.
 * Static limits: URL 2 KiB, header block 16 KiB, 100 headers, body by route (1 MiB default), 10 s
 * for headers, 30 s for the body, 600 s idle, connections capped under RLIMIT_NOFILE. TLS 1.2+
 * (certificate reload on demand). Replies may come later (long poll): keep the request, call
 * httpd_reply in any later turn.
 */
#ifndef IO_HTTPD_H
#define IO_HTTPD_H

#include "io/loop/loop.h"
#include "spot/http.h"

struct arena;
struct httpd;
struct httpd_req {
	const char *method, *path; /* path decoded? no: raw, without query */
	const char *query; /* raw, "" if none */
	const char *target; /* raw request target as sent */
	const struct spot_header *headers;
	size_t headers_n;
	struct str body;
	const char *peer; /* "127.0.0.1:4711" */
	bool tls;
	struct arena *arena; /* lives until the reply is written */
	int64_t received_us; /* wall */
	void *user; /* the handler's */
	/* set by the handler: the client went away before the reply (or in a stream); after it
	 * the request must not be touched. While it is NULL the request stays valid until the
	 * reply, which then goes nowhere */
	void (*gone)(struct httpd_req *r);
	void *priv;
};
struct httpd_conf {
	const char *address; /* "127.0.0.1" */
	int port; /* 0 = pick one */
	const char *tls_cert, *tls_key; /* paths; NULL = plain */
	int connections_max; /* 0 = from RLIMIT_NOFILE */
	size_t url_max; /* 0 = 2 KiB */
	size_t queued_max; /* stream: bytes a reader may lag behind; 0 = 1 MiB */
	int64_t header_us, body_us, idle_us; /* 0 = 10 s, 30 s, 600 s */
	int64_t write_us; /* reader that takes nothing; 0 = 30 s */
	void *ctx;
	/* Headers are in: the body cap for this request; 0 = no body allowed. NULL = 1 MiB for
	 * all. */
	size_t (*body_max)(void *ctx, const char *method, const char *path);
	void (*handle)(void *ctx, struct httpd_req *r);
};
NODISCARD enum spot_rc httpd_new(struct loop *l, const struct httpd_conf *conf, struct httpd **ret,
    struct spot_err *err);
void httpd_free(struct httpd *h); /* closes everything; parked requests get gone() */
int httpd_port(const struct httpd *h);
/* stop accepting; close connections as they become idle */
void httpd_drain(struct httpd *h);
NODISCARD enum spot_rc httpd_reload_tls(struct httpd *h, struct spot_err *err);
struct httpd_stats {
	int64_t accepted, refused, requests, bad_requests;
	int open;
};
struct httpd_stats httpd_stats(const struct httpd *h);

const char *httpd_header(const struct httpd_req *r, const char *name); /* NULL if absent */
/* Value of a query parameter, decoded into the request's arena; NULL if absent. */
const char *httpd_query(struct httpd_req *r, const char *name);
/* Extra response header; before reply. */
void httpd_set(struct httpd_req *r, const char *name, const char *value);
/* Ends the request. body is copied. type NULL: no body. */
void httpd_reply(struct httpd_req *r, int status, const char *type, const char *body, size_t n);
/* False once the client is gone: the reply will go nowhere. */
bool httpd_alive(const struct httpd_req *r);
/* close the connection without a reply (emulator's faults) */
void httpd_abort(struct httpd_req *r);
/* Streaming reply (chunked): begin, write any number, end. write returns false when the reader is
 * slower than 1 MiB of queued data: the connection is then closed and gone() called. */
void httpd_stream_begin(struct httpd_req *r, int status, const char *type);
bool httpd_stream_write(struct httpd_req *r, const char *p, size_t n);
/* Bytes accepted by httpd_stream_write and not yet by the kernel. */
size_t httpd_stream_queued(const struct httpd_req *r);
void httpd_stream_end(struct httpd_req *r);

#endif
