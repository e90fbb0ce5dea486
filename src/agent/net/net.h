/*
 * How the agent talks to others: the HTTP client, calls to the daemon, the clouds' metadata
 * services, and the hashes that object stores tell.
 *
 * A call completes exactly once by its callback, never inside http_start; http_stop ends it without
 * one. There are three kinds of far side. The daemon gets a bearer token and is known by its CA.
 * Object stores get presigned URLs and no header of ours. Metadata services are never reached
 * through a proxy.
 * Connections are kept and reused. The daemon's are warm because samples travel on them, so a
 * notice needs neither a name lookup nor a handshake.
 */
#ifndef AGENT_NET_H
#define AGENT_NET_H

#include "base/base.h"

#include "agent/retry.h"
#include "base/crypto/secret.h"
#include "base/crypto/sign.h"

#include <curl/curl.h>
#include <jansson.h>

struct agent;

/* ---- HTTP (http.c) --------------------------------------------------------------------------- */

enum http_far { HTTP_DAEMON = 1, HTTP_OBJECT, HTTP_METADATA };

/* The bytes of a file that travel: PUT sends them, GET writes them. Their sha256 is checked before
 * the last byte is sent, or after the last was received. So a file that changed meanwhile never
 * becomes an object. A GET without a sha256 ("": nobody knows it) may bring any number of bytes up
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

/* ---- the daemon (daemon.c) ------------------------------------------------------------------- */

struct daemon_reply {
	int status; /* 0 = no reply */
	json_t *body; /* object or NULL; AUTO(daemon_reply) drops it */
	const char *code, *error; /* for people and for the 409s; "" if none */
	bool stale; /* 409 stale_epoch */
	int64_t retry_after_us;
};
static inline void auto_daemon_reply(struct daemon_reply *r)
{
	json_decref(r->body);
}
/* body is taken over. */
struct http_call *daemon_post(struct agent *a, const char *path, json_t *body, int64_t timeout_us,
    void (*done)(void *agent, const struct http_reply *r));
struct http_call *daemon_post_bytes(struct agent *a, const char *path, struct str bytes,
    int64_t timeout_us, void (*done)(void *agent, const struct http_reply *r));
/* First line of every callback. Also notes that the daemon is alive, and whether it refuses our
 * session (enrol_step then enrols again). */
void daemon_read(struct agent *a, const struct http_reply *r, struct daemon_reply *ret);

/* ---- metadata services (metadata.c) ---------------------------------------------------------- */

struct imds {
	struct secret token;
	int64_t token_until_us;
	struct http_call *token_call;
	struct retry backoff;
};
/* Writes http://BASE/ROOT+PATH. base: the service, with or without a scheme; NULL or "" = its usual
 * address. False: longer than n. */
bool metadata_url(const char *base, const char *root, const char *path, char *ret, size_t n);
bool imds_ready(struct agent *a); /* has a fresh token; else requests one */
struct http_call *imds_get(struct agent *a, const char *path,
    void (*done)(void *agent, const struct http_reply *r));
void imds_token_refused(struct agent *a); /* 401 */
NODISCARD bool gcp_url(const char *path, char *ret, size_t n);
struct http_call *gcp_get(struct agent *a, const char *path, int64_t timeout_us,
    void (*done)(void *agent, const struct http_reply *r));
bool gcp_is_google(const struct http_reply *r);
struct http_call *azure_get(struct agent *a, const char *path, int64_t timeout_us,
    void (*done)(void *agent, const struct http_reply *r));
/* body "" sends none. */
struct http_call *azure_metadata_send(struct agent *a, const char *method, const char *path,
    struct str body, int64_t timeout_us, void (*done)(void *agent, const struct http_reply *r));

/* ---- hashes that object stores tell (told.c) ------------------------------------------------- */

#define TOLD_WORDS_MAX 256

struct told_headers { /* each "" when the reply has none */
	const char *goog_hash; /* several lines of it joined by commas */
	const char *goog_encoding; /* x-goog-stored-content-encoding */
	const char *content_md5, *etag;
	const char *encryption; /* x-amz-server-side-encryption */
	const char *customer_key; /* x-amz-server-side-encryption-customer-algorithm */
	const char *storage_class; /* x-amz-storage-class */
};

enum told { TOLD_NOTHING, TOLD_SAME, TOLD_OTHER };

/* Are bytes with that MD5 the object's, by what was told? TOLD_NOTHING: nothing that can be used.
 * TOLD_OTHER may still be the store's error and not the bytes': a blob's Content-MD5 is whatever
 * somebody put there. */
enum told told_check(const struct told_headers *h, const uint8_t md5[MD5_BYTES]);
/* The same of a reply, with what it says in words (for a log, or to see whether it says the same
 * again). */
enum told told_reply(const struct http_reply *r, const uint8_t md5[MD5_BYTES],
    char words[TOLD_WORDS_MAX]);

#endif
