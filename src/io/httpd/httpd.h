/*
 * HTTP/1.1 server: llhttp, libev, OpenSSL. It is strict by design: it refuses HTTP before 1.0,
 * missing or duplicate Host, obs-fold, empty header names, and NUL. It also refuses any
 * Transfer-Encoding but "chunked", and Content-Length with Transfer-Encoding.
 *
 * Limits:
 *
 * - URL 2 KiB, header block 16 KiB, 100 headers, body by route (default 1 MiB)
 * - 10 s for headers, 30 s for the body, 600 s idle
 * - connections below RLIMIT_NOFILE
 *
 * TLS is 1.2 or later, with certificate reload on demand. A handler may keep the request and call
 * httpd_reply in a later turn (long poll).
 */
#ifndef IO_HTTPD_H
#define IO_HTTPD_H

#include "io/loop/loop.h"
#include "spot/http.h"

struct arena;
struct httpd;
struct httpd_req {
	const char *method, *path; /* path: raw, not decoded, without query */
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
	/* The handler may set this. Called if the client leaves before the reply or in a stream;
	 * the request is invalid afterwards. If NULL, the request stays valid until the reply,
	 * which the server then drops. */
	void (*gone)(struct httpd_req *r);
	void *priv;
};
struct httpd_conf {
	const char *address; /* "127.0.0.1" */
	int port; /* 0 = pick one */
	const char *tls_cert, *tls_key; /* paths; NULL = plain */
	int connections_max; /* 0 = from RLIMIT_NOFILE */
	size_t url_max; /* 0 = 2 KiB */
	size_t queued_max; /* stream: unsent bytes before the server gives up; 0 = 1 MiB */
	int64_t header_us, body_us, idle_us; /* 0 = 10 s, 30 s, 600 s */
	int64_t write_us; /* limit for a client that reads nothing; 0 = 30 s */
	void *ctx;
	/* Returns the cap of the body after the headers are in; 0 = no body allowed. NULL = 1 MiB
	 * for all. */
	size_t (*body_max)(void *ctx, const char *method, const char *path);
	void (*handle)(void *ctx, struct httpd_req *r);
};
NODISCARD enum spot_rc httpd_new(struct loop *l, const struct httpd_conf *conf, struct httpd **ret,
    struct spot_err *err);
void httpd_free(struct httpd *h); /* closes everything; pending requests get gone() */
int httpd_port(const struct httpd *h);
/* Stops accepting, and closes each connection when it becomes idle. */
void httpd_drain(struct httpd *h);
/* Loads certificate and key again, for new connections. On failure the old ones stay in use. */
NODISCARD enum spot_rc httpd_reload_tls(struct httpd *h, struct spot_err *err);
struct httpd_stats {
	int64_t accepted, refused, requests, bad_requests;
	int open;
};
struct httpd_stats httpd_stats(const struct httpd *h);

const char *httpd_header(const struct httpd_req *r, const char *name); /* NULL if absent */
/* Decodes the value of a query parameter into the request's arena; NULL if absent. */
const char *httpd_query(struct httpd_req *r, const char *name);
/* Adds a response header; call it before the reply. */
void httpd_set(struct httpd_req *r, const char *name, const char *value);
/* Copies the body into the reply and ends the request. type NULL: no body. */
void httpd_reply(struct httpd_req *r, int status, const char *type, const char *body, size_t n);
/* False once the client has left: the server would drop the reply. */
bool httpd_alive(const struct httpd_req *r);
/* Closes the connection without a reply (faults of the emulator). */
void httpd_abort(struct httpd_req *r);

/* A request whose reply comes much later. While it is parked, the server keeps the connection
 * alone: no head, no body, no arena. The owner keeps this member in a record of its own. */
struct httpd_parked {
	const struct httpd_parked_ops *ops;
	struct hconn *conn; /* private to io/httpd, as below */
	int64_t until_us;
};
struct httpd_parked_ops {
	void (*due)(struct httpd_parked *p); /* the time is over: the owner unparks it */
	/* The client has left, or the server ends. The owner may free p. */
	void (*gone)(struct httpd_parked *p);
};
/* Frees r at the end of the turn, and parks it for after_us. Not for a HEAD or a streamed reply,
 * and not once the client has left (httpd_alive). p->ops is set, and p stays where it is. */
void httpd_park(struct httpd_req *r, struct httpd_parked *p, int64_t after_us);
/* Moves the end of the time: due() comes after_us from now, in a later turn. */
void httpd_parked_set(struct httpd_parked *p, int64_t after_us);
/* Makes a request of it that has an empty head and body and wants a reply. p is then unused. */
struct httpd_req *httpd_unpark(struct httpd_parked *p);

/* Streamed reply (chunked): begin, write any number of times, end. If a write makes the queue pass
 * queued_max, it returns false, closes the connection and calls gone(). */
void httpd_stream_begin(struct httpd_req *r, int status, const char *type);
bool httpd_stream_write(struct httpd_req *r, const char *p, size_t n);
/* Returns the bytes that the kernel has not yet taken. */
size_t httpd_stream_queued(const struct httpd_req *r);
void httpd_stream_end(struct httpd_req *r);

#endif
