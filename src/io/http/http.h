/*
 * HTTP client on curl multi: HTTP/1.1 and 2, keep-alive, verified TLS (system CAs plus ca_file),
 * size caps. It follows no redirects and uses no proxy for link-local addresses. Each exchange is
 * one op. Every HTTP status is SPOT_OK here. Debug log lines are redacted.
 *
 * The results of failures are:
 *
 * - failed before any byte was sent: UNAVAILABLE
 * - failed later: UNKNOWN if the request is mutating, else UNAVAILABLE
 * - passed the deadline: UNKNOWN if mutating, else TIMEOUT
 * - reply over its cap: UNKNOWN if mutating, else BAD_REPLY
 *
 * A mutating request always gets a new connection, because curl repeats a request by itself when a
 * reused connection has died.
 */
#ifndef IO_HTTP_H
#define IO_HTTP_H

#include "io/loop/loop.h"
#include "spot/http.h"

struct arena;
struct http_client;
struct http_client_conf {
	const char *ca_file; /* NULL = system only */
	const char *user_agent;
	int connections_max, per_host_max; /* 0 = 128, 16 */
};
/* One thread makes and frees the clients of all threads, since curl's global state has no lock. */
struct http_client *http_client_new(struct loop *l, const struct http_client_conf *conf);
void http_client_free(struct http_client *c);

struct http_req {
	struct op op;
	const struct spot_http_request *out;
	struct arena *arena; /* memory for the response */
	bool mutating;
	struct spot_http_response in;
	void *priv;
	/* For out->stream; set before http_send. Called with new whole lines in `in` (partial is
	 * true), then not before http_stream_resume. At the end done() gets the rest. */
	void (*streamed)(struct http_req *req);
};
/* Starts an exchange; done gets &req->op. out and arena must stay valid until then. */
void http_send(struct http_client *c, struct http_req *req, const struct spot_http_request *out,
    struct arena *arena, bool mutating, void (*done)(struct op *));
/* The lines in req->in are read; not inside of http_send. */
void http_stream_resume(struct http_req *req);

#endif
