/*
 * Inside of the HTTP server. Each connection is a struct hconn; each request is a struct hreq in
 * its own arena. A connection has at most one request in work, and later pipelined bytes wait in
 * hconn.in. The end of a turn frees the connections that it closed. A request without a gone()
 * callback may outlive its connection; conn is then NULL.
 */
#ifndef IO_HTTPD_PRIV_H
#define IO_HTTPD_PRIV_H

#include "base/base.h"
#include "base/text/text.h"
#include "io/httpd/httpd.h"

#if __has_include(<llhttp/llhttp.h>)
#include <llhttp/llhttp.h>
#else
#include <llhttp.h>
#endif

/* SSL and SSL_CTX; only httpd_tls.c includes OpenSSL. */
struct ssl_st;
struct ssl_ctx_st;

#define HTTPD_URL_MAX 2048
#define HTTPD_HEAD_MAX (16 * 1024)
#define HTTPD_HEADERS_MAX 100
#define HTTPD_BODY_MAX (1024 * 1024)
#define HTTPD_QUEUED_MAX (1024 * 1024)
#define HTTPD_HEADER_US (10 * SPOT_US_PER_S)
#define HTTPD_BODY_US (30 * SPOT_US_PER_S)
#define HTTPD_IDLE_US (600 * SPOT_US_PER_S)
#define HTTPD_WRITE_US (30 * SPOT_US_PER_S)
#define HTTPD_LINGER_US (2 * SPOT_US_PER_S)
#define HTTPD_PIPELINE_MAX (64 * 1024) /* bytes read ahead while a request is in work */
#define HTTPD_BACKLOG_OUT (256 * 1024) /* unsent bytes above which the next request waits */
#define HTTPD_READ_BYTES (64 * 1024)

enum hconn_state {
	HCONN_HANDSHAKE = 1,
	HCONN_HEAD, /* between requests, or inside a header block */
	HCONN_BODY,
	HCONN_BUSY, /* the handler has the request */
	HCONN_PARKED, /* the handler keeps a record of the request (httpd_park.c) */
	HCONN_STREAM, /* the handler is writing a streamed reply */
	HCONN_FLUSH, /* writing the last reply */
	HCONN_LINGER, /* shut our side; reads until the client closes, so that it gets the reply */
};

/* The position of the header scanner in c->in. */
struct hscan {
	size_t at; /* next byte */
	size_t line; /* start of the current line */
	size_t start; /* start of the request line (an empty line may come before) */
	size_t request_end; /* end of the request line, 0 = not seen */
	int lines; /* header lines seen */
	bool cr; /* last byte was CR */
};

struct hconn;
struct hreq {
	struct httpd_req pub;
	struct hconn *conn; /* NULL: the client has left */
	struct loop *loop;
	llhttp_t parser;
	struct sbuf body;
	size_t body_max, body_raw;
	struct spot_header *headers;
	size_t headers_n;
	char *field; /* header name being read */
	char *target;
	struct spot_header *extra; /* reply headers set by the handler */
	size_t extra_n, extra_cap;
	bool complete, keep, head, chunked, trailer, chunk_reply;
	int refuse; /* status of the refusal, 0 = accepted */
	const char *why;
};

struct hconn {
	struct httpd *h;
	struct hconn *prev, *next;
	struct loop_fd fd;
	struct loop_timer timer;
	struct loop_task task;
	struct ssl_st *ssl;
	enum hconn_state state;
	int64_t deadline; /* mono; 0 = none */
	int64_t armed_until; /* time when the timer fires next; 0 = not armed */
	int64_t head_began;
	int64_t wrote_at; /* last progress of writing; 0 = the queue is empty */
	struct sbuf in, out;
	size_t out_at, lingered;
	struct hscan scan;
	struct hreq *req;
	struct httpd_parked *parked; /* HCONN_PARKED */
	bool parked_keep; /* its request's keep */
	bool fresh; /* no request served yet */
	bool processing; /* hconn_process is on the stack */
	bool dead; /* closed, freed at the end of the turn */
	bool doomed; /* the deliver phase will close it */
	bool eof; /* the client sent its last byte */
	bool ssl_write_wants_read, ssl_read_wants_write;
	char peer[64];
};

struct httpd {
	struct loop *loop;
	struct httpd_conf conf;
	char *tls_cert, *tls_key;
	struct ssl_ctx_st *tls;
	struct loop_fd listener;
	struct loop_timer accept_again;
	int port, spare_fd;
	bool draining;
	struct hconn *conns;
	struct httpd_stats stats;
	int64_t date_s; /* second that `date` was made for */
	char date[80];
	char *rbuf;
};

/* httpd_tls.c */
NODISCARD enum spot_rc httpd_tls_load(const char *cert, const char *key, struct ssl_ctx_st **ret,
    struct spot_err *err);
void httpd_tls_unload(struct ssl_ctx_st *ctx); /* NULL accepted */
struct ssl_st *httpd_tls_new(struct ssl_ctx_st *ctx, int fd); /* NULL: no memory */
void httpd_tls_free(struct ssl_st *ssl);
enum htls { HTLS_DONE = 1, HTLS_WANT_READ, HTLS_WANT_WRITE, HTLS_FAILED };
enum htls httpd_tls_handshake(struct ssl_st *ssl);
/* Return the number of bytes; 0 = end of stream; -1 = wait for *ret_want (HTLS_FAILED: broken). */
int httpd_tls_read(struct ssl_st *ssl, char *p, size_t n, enum htls *ret_want);
int httpd_tls_write(struct ssl_st *ssl, const char *p, size_t n, enum htls *ret_want);
/* Reports bytes inside OpenSSL, for which no event will come. */
bool httpd_tls_pending(const struct ssl_st *ssl);
void httpd_tls_shutdown(struct ssl_st *ssl);

/* httpd_conn.c */
void hconn_new(struct httpd *h, int fd, const char *peer);
void hconn_close(struct hconn *c); /* idempotent; calls gone() of a pending request */
void hconn_doom(struct hconn *c); /* closes it in the deliver phase */
void hconn_process(struct hconn *c); /* serves the bytes in c->in */
void hconn_flush(struct hconn *c); /* writes as much as the socket takes; may close */
void hconn_settle(struct hconn *c); /* sets deadline and wanted events, after any change */
/* Ends the request: goes back to HEAD, or on to the close. */
void hconn_request_done(struct hconn *c);
static inline size_t hconn_queued(const struct hconn *c)
{
	return c->out.n - c->out_at;
}

/* httpd_parse.c */
enum hparse { HPARSE_MORE = 1, HPARSE_OK, HPARSE_REFUSED };
/* Searches c->in for the end of the header block, and refuses faults that llhttp accepts. On
 * HPARSE_OK *ret_n is its length; on HPARSE_REFUSED *ret_status and *ret_why are set. */
enum hparse httpd_scan_head(struct hconn *c, size_t *ret_n, int *ret_status, const char **ret_why);
/* Parses a complete head into a new c->req. Sets req->refuse if the request is not acceptable. */
void httpd_parse_head(struct hconn *c, const char *head, size_t n);
/* Parses bytes of the body and returns the number taken. May set req->complete or req->refuse. */
size_t httpd_parse_body(struct hconn *c, const char *p, size_t n);
struct hreq *hreq_new(struct hconn *c);
void hreq_free(void *r);

/* httpd_park.c */
void hconn_parked_due(struct hconn *c); /* the time of a parked request is over */
void hconn_parked_gone(struct hconn *c); /* the connection ends; nothing to do if none is parked */

/* httpd_reply.c */
/* Replies to a protocol error and closes the connection. */
void httpd_refuse(struct hconn *c, int status, const char *why);
const char *httpd_date(struct httpd *h);

#endif
