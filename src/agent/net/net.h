/*
 * The agent's network: the HTTP client, calls to the daemon, the clouds' metadata services, and the
 * hashes in the replies of object stores.
 *
 * A call completes exactly once, by its callback, and never inside http_start. After http_stop no
 * callback comes. There are three kinds of servers:
 *
 * - the daemon gets a bearer token, and its CA identifies it
 * - object stores get presigned URLs and no header of ours
 * - metadata services never have a proxy
 *
 * The client reuses connections. Samples keep those to the daemon open, so a notice needs no name
 * lookup and no handshake.
 */
#ifndef AGENT_NET_NET_H
#define AGENT_NET_NET_H

#include <curl/curl.h>
#include <jansson.h>

#include "base/base.h"
#include "base/crypto/crypto.h"

struct agent;

/* ---- retries -------------------------------------------------------------------------------- */

/*
 * The times of the next retry and the next turn, in CLOCK_BOOTTIME microseconds. Waits double from
 * 0.5 s to 30 s, with jitter.
 */

struct retry {
	int failures;
	int64_t next_us;
};

/* Counts a failure and schedules the retry. retry_after_us: the wait that the server asked for, 0 =
 * none; it counts up to two minutes. */
void retry_fail(struct agent *a, struct retry *r, int64_t retry_after_us);
void retry_clear(struct retry *r);
bool retry_due(struct agent *a, const struct retry *r); /* if false, wakes at the retry */
void agent_wake(struct agent *a, int64_t at_us); /* takes a turn then, at the latest */
int64_t agent_wall_us(struct agent *a);

/* ---- HTTP (http.c) --------------------------------------------------------------------------- */

enum http_far { HTTP_DAEMON = 1, HTTP_OBJECT, HTTP_METADATA };

/*
 * A range of a file: PUT sends it, GET writes it. The client checks its sha256 before it sends the
 * last bytes, or after it has received them. So a file that changes meanwhile never becomes an
 * object. A GET with an unknown sha256 ("") may get any number of bytes up to `bytes`, and the
 * reply has their MD5.
 */
struct http_piece {
	int fd; /* the caller's, open until done */
	int64_t at, bytes;
	char sha256[65];
};

struct http_reply {
	int status; /* 0 = no complete reply; error has the reason */
	struct str body; /* NUL terminated */
	const char *error; /* "" if there is a status */
	bool wrong_bytes; /* the piece does not match its sha256 */
	/* MD5_BYTES of a piece that was sent, or that came without a sha256; NULL = none */
	const uint8_t *md5;
	int64_t retry_after_us;
	const struct http_call *call; /* for http_reply_header, inside done only */
};

struct http_want {
	enum http_far far;
	const char *method; /* GET, POST, PUT */
	const char *url;
	const char *type; /* Content-Type, NULL = none */
	const char *header; /* one more header line, NULL = none */
	const char *const *headers; /* more header lines, NULL at the end; NULL = none */
	struct str body; /* copied, unless lent */
	bool lent; /* the caller keeps the body, unchanged, until done or http_stop */
	const struct http_piece *piece; /* copied; NULL = body and reply in memory */
	int64_t timeout_us; /* of the whole call; 0 = ends only a stalled transfer (objects) */
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
/* Makes header lines of {"Name": "value"}, NULL after the last; a NULL object gives none. False: a
 * line is no valid header, or there are more than max. The caller frees the lines, also then. */
NODISCARD bool http_headers_read(const json_t *o, char **ret, size_t max);
/* Returns the value of a header of the final reply, "" if absent. Valid until done returns. */
const char *http_reply_header(const struct http_reply *r, const char *name);
/* Joins all lines of that name by ", "; "" if they do not fit. */
void http_reply_headers(const struct http_reply *r, const char *name, char *ret, size_t ret_size);
/* Waits up to us for traffic or for one of the descriptors, and sets their revents. Then runs the
 * callbacks of completed calls. */
void http_wait(struct http *h, struct curl_waitfd *fds, unsigned fds_n, int64_t us);

/* ---- the daemon (daemon.c) ------------------------------------------------------------------- */

struct daemon_reply {
	int status; /* 0 = no reply */
	json_t *body; /* object or NULL; AUTO(daemon_reply) drops it */
	const char *code, *error; /* of an error reply; "" if none */
	bool stale; /* 409 stale_epoch */
	int64_t retry_after_us;
};
static inline void auto_daemon_reply(struct daemon_reply *r)
{
	json_decref(r->body);
}
/* Posts body, and takes ownership of it. */
struct http_call *daemon_post(struct agent *a, const char *path, json_t *body, int64_t timeout_us,
    void (*done)(void *agent, const struct http_reply *r));
struct http_call *daemon_post_bytes(struct agent *a, const char *path, struct str bytes,
    int64_t timeout_us, void (*done)(void *agent, const struct http_reply *r));
/* Parses a reply; the first line of every callback. Notes that the daemon is alive, and whether it
 * refuses our session (enrol_step then enrols again). */
void daemon_read(struct agent *a, const struct http_reply *r, struct daemon_reply *ret);

/* ---- metadata services (metadata.c) ---------------------------------------------------------- */

struct imds {
	struct secret token;
	int64_t token_until_us;
	struct http_call *token_call;
	struct retry backoff;
};
/* Writes http://BASE/ROOT+PATH. base: the service, with or without a scheme; NULL or "" = the usual
 * address. False: the URL is longer than n. */
bool metadata_url(const char *base, const char *root, const char *path, char *ret, size_t n);
bool imds_ready(struct agent *a); /* true with a fresh token; else requests one */
struct http_call *imds_get(struct agent *a, const char *path,
    void (*done)(void *agent, const struct http_reply *r));
void imds_token_refused(struct agent *a); /* drops the token, after a 401 */
NODISCARD bool gcp_url(const char *path, char *ret, size_t n);
struct http_call *gcp_get(struct agent *a, const char *path, int64_t timeout_us,
    void (*done)(void *agent, const struct http_reply *r));
bool gcp_is_google(const struct http_reply *r); /* the metadata server sent it, no proxy */
struct http_call *azure_get(struct agent *a, const char *path, int64_t timeout_us,
    void (*done)(void *agent, const struct http_reply *r));
/* body "" sends none. */
struct http_call *azure_metadata_send(struct agent *a, const char *method, const char *path,
    struct str body, int64_t timeout_us, void (*done)(void *agent, const struct http_reply *r));

/* ---- hashes in the replies of object stores (store_hash.c) ----------------------------------- */

#define TOLD_WORDS_MAX 256

struct told_headers { /* each "" if absent */
	const char *goog_hash; /* x-goog-hash, its lines joined by commas */
	const char *goog_encoding; /* x-goog-stored-content-encoding */
	const char *content_md5, *etag;
	const char *encryption; /* x-amz-server-side-encryption */
	const char *customer_key; /* x-amz-server-side-encryption-customer-algorithm */
	const char *storage_class; /* x-amz-storage-class */
};

enum told { TOLD_NOTHING, TOLD_SAME, TOLD_OTHER };

/* Compares the MD5 of bytes with the store's hash. TOLD_NOTHING: the reply has no usable hash.
 * TOLD_OTHER does not prove that the bytes are wrong: any writer may set a blob's Content-MD5. */
enum told told_check(const struct told_headers *h, const uint8_t md5[MD5_BYTES]);
/* Checks a reply, and writes its hashes to words, for a log or a comparison with the next reply. */
enum told told_reply(const struct http_reply *r, const uint8_t md5[MD5_BYTES],
    char words[TOLD_WORDS_MAX]);

#endif
