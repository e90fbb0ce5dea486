/*
 * HTTP client on curl multi: HTTP/1.1 and 2, keep-alive, TLS verified (system CAs plus ca_file), no
 * redirects, no proxy for link-local addresses, size caps. One op per exchange. A transport failure
 * before anything was sent gives UNAVAILABLE; after the request was (or may have been) sent gives
 * UNKNOWN when req->mutating, else UNAVAILABLE; our deadline gives UNKNOWN or TIMEOUT alike. Any
 * HTTP status is SPOT_OK here. A reply over its cap gives BAD_REPLY (UNKNOWN when mutating). A
 * mutating request always gets a connection of its own: curl repeats requests by itself on reused
 * ones that died. Traffic is logged at debug, redacted.
 */
#ifndef IO_HTTP_H
#define IO_HTTP_H

#include "io/loop/op.h"
#include "spot/http.h"

struct arena;
struct http_client;
struct http_client_conf {
	const char *ca_file; /* NULL = system only */
	const char *user_agent;
	int connections_max, per_host_max; /* 0 = 128, 16 */
};
struct http_client *http_client_new(struct loop *l, const struct http_client_conf *conf);
void http_client_free(struct http_client *c);

struct http_req {
	struct op op;
	const struct spot_http_request *out;
	struct arena *arena; /* response memory */
	bool mutating;
	struct spot_http_response in;
	void *priv;
	/* Set before http_send, for out->stream: in holds new whole lines (partial true), at the
	 * end of the reply done is called with the rest. Nothing more comes before
	 * http_stream_resume. */
	void (*streamed)(struct http_req *req);
};
/* done gets &req->op. req->out and arena must stay valid until then. */
void http_send(struct http_client *c, struct http_req *req, const struct spot_http_request *out,
    struct arena *arena, bool mutating, void (*done)(struct op *));
/* The lines in req->in are read; not inside of http_send. */
void http_stream_resume(struct http_req *req);

#endif
