/*
 * The HTTP side of the API, below the nouns. One struct areq lives in each request's arena. It
 * carries the caller, the route, one database statement at a time and the function that continues
 * after it. A handler starts a statement (SQL) or replies; a continuation does the same; a reply
 * ends the request. The request stays alive while a statement runs: the reply notices a client that
 * left. The nouns (jobs/, fleet/, ...) call this folder; this folder calls no noun.
 */
#ifndef API_SERVER_H
#define API_SERVER_H

#include "base/base.h"
#include "base/text/text.h"
#include "api/api.h"
#include "io/httpd/httpd.h"
#include "store/market/market.h"
#include "store/q.h"

struct areq;

/* ---- routes ---------------------------------------------------------------------------------- */

/* The least role that may use a route. service = engineer. */
enum scope {
	SCOPE_NONE = 0, /* never valid in a route */
	SCOPE_PUBLIC,
	SCOPE_METRICS, /* viewer, or anybody on the loopback interface */
	SCOPE_VIEWER,
	SCOPE_ENGINEER,
	SCOPE_LEAD,
	SCOPE_ADMIN,
	SCOPE_NODE, /* an agent's session */
};

#define ROUTE_ARGS 2
struct route {
	/* path with {job} {node} {fleet} {pool} {token} {decision} {run} {file} */
	const char *method, *path;
	enum scope scope;
	void (*run)(struct areq *q);
	/* For a POST that creates a row: replies with the row q->id. Replays an Idempotency-Key. */
	void (*show)(struct areq *q, int status);
	size_t body_max; /* 0 = no body */
	const char *query; /* names of the accepted query parameters, separated by blanks */
	int status; /* of success */
	/* The handler's own statement claims the Idempotency-Key (idem_answer). */
	bool claims;
	/* schemas of body and reply (src/api/server/schemas.json); NULL = none or not JSON */
	const char *in, *out;
	/* SCOPE_NODE: the handler checks the session (areq_session) by its own statement. */
	bool own_session;
	const char *doc; /* published in the OpenAPI document */
	/* A GET whose reply is the same for every caller: equal requests share one (share.c). It
	 * has an ETag and may be compressed (form.c). So it shows no secret and sets no header. */
	bool shared;
};

/* A noun's rows. Each noun has one table, beside its handlers; src/api/nouns.c lists the tables. */
struct route_table {
	const struct route *rows;
	size_t n;
};

/* The scope is a positional argument, so no route can lack one. */
#define ROUTE(m, p, s, r, b, q, st, i, o, d) \
	{ \
		.method = (m), .path = (p), .scope = SCOPE_##s, .run = (r), .body_max = (b), \
		.query = (q), .status = (st), .in = (i), .out = (o), .doc = (d) \
	}
/* A shared GET of viewers. */
#define ROUTE_READ(p, r, q, o, d) \
	{ \
		.method = "GET", .path = (p), .scope = SCOPE_VIEWER, .run = (r), .query = (q), \
		.status = 200, .out = (o), .doc = (d), .shared = true \
	}
/* A POST whose statement stores the new row's id with the Idempotency-Key. */
#define ROUTE_CREATE(p, s, r, sh, b, st, i, o, d) \
	{ \
		.method = "POST", .path = (p), .scope = SCOPE_##s, .run = (r), .show = (sh), \
		.body_max = (b), .query = "", .status = (st), .in = (i), .out = (o), .doc = (d) \
	}
/* The same, and that statement claims the key as well. The handler has no effect before it. */
#define ROUTE_CLAIM(p, s, r, sh, b, st, i, o, d) \
	{ \
		.method = "POST", .path = (p), .scope = SCOPE_##s, .run = (r), .show = (sh), \
		.body_max = (b), .query = "", .status = (st), .claims = true, .in = (i), \
		.out = (o), .doc = (d) \
	}
#define ROUTE_PAGE "limit cursor "
#define ROUTE_BODY_FILE (1024 * 1024) /* a job file or fleet file */
#define ROUTE_BODY_SMALL (64 * 1024)

/* All routes, in the order in which a path is looked up. */
struct routes {
	const struct route **rows;
	size_t n;
};

/* ---- requests -------------------------------------------------------------------------------- */

struct who {
	enum scope scope; /* of the token; SCOPE_NONE = not authenticated */
	int64_t token_id, node_id;
	const char *name, *role, *team;
};

struct waiter { /* registered under its key KIND ID */
	struct waiter *next, **at; /* in its bucket; at == NULL: not registered */
	int64_t id;
	char kind;
	bool parked, woken;
	/* The key was notified, or all are: look again, in a later turn if after_us is not 0. */
	void (*wake)(struct waiter *w, int64_t after_us);
};

struct wait { /* parked until a key is woken or the time is over */
	struct waiter waiter;
	int64_t until_us; /* mono: reply by then with the current state */
	int64_t again_us; /* look again at least this often, in case a notification is lost */
	struct loop_timer timer;
	void (*look)(struct areq *q);
};

struct areq {
	struct api *api;
	struct areq *prev, *next;
	struct httpd_req *http;
	struct arena *arena;
	const struct route *route;
	size_t route_at; /* its index in api->routes */
	int64_t now_us;
	const char *arg[ROUTE_ARGS];
	int64_t id; /* of the first {noun} in the path */
	struct who who;
	struct pg_req pg;
	struct market_want want; /* areq_market */
	struct market_snap *snap; /* the request's */
	void *kept; /* areq_keep */
	void (*let_go)(void *kept);
	void (*then)(struct areq *q);
	/* optional: handles the failure of the statement and returns true */
	bool (*failed)(struct areq *q);
	struct wait wait;
	/* set while an Idempotency-Key is open, with the route and the body that it stands for */
	const char *idem_key, *idem_route, *idem_sha256;
	/* stores the reply under idem_key, then sends it; false: there is no key, send it now */
	bool (*settle)(struct areq *q, int status, const char *type, const char *body, size_t n);
	/* the key being settled, the tries so far, and the continuation */
	const char *settling;
	int settle_tries;
	void (*settled)(struct areq *q);
	int reply_status; /* the reply that waits for the key to be settled */
	const char *reply_type;
	struct str reply_body;
	struct share *share; /* set while this request's reply is that of others, too */
	struct areq *mate; /* the next of them */
	struct areq *batched; /* the next of a batch */
	void (*batch_then)(struct areq *q, const struct pg_result *r, size_t row);
	json_t *doc; /* freed with the request */
	void *own; /* the handler's, in the arena */
};

/* Ends a request that got no reply from here (streams, a client that left). */
void areq_end(struct areq *q);
/* True if the client is on this machine. */
bool areq_loopback(const struct areq *q);

/* Starts a statement. `next` runs after success; a failure is replied to. Parameters are
 * designated:
 *   SQL(q, api_job_why, why_done, .id = q->id); */
#define SQL(q, name, next, ...) \
	(areq_sql_begin((q), (next)), \
	    q_##name(areq_pg(q), &(q)->pg, &(struct q_##name){ __VA_ARGS__ }, areq_sql_done))
/* The same for statements without parameters. */
#define SQL0(q, name, next) \
	(areq_sql_begin((q), (next)), q_##name(areq_pg(q), &(q)->pg, NULL, areq_sql_done))
void areq_sql_begin(struct areq *q, void (*next)(struct areq *));
void areq_sql_done(struct op *op);
struct pg *areq_pg(struct areq *q);
/* Calls next with the market in q->snap, which the request keeps until its end. It is at most
 * conf.market_age_us old, so next may run at once. A failed read is replied to. */
void areq_market(struct areq *q, void (*next)(struct areq *q));
/* Calls let_go(kept) when the request ends, or when it keeps something else instead. */
void areq_keep(struct areq *q, void *kept, void (*let_go)(void *kept));

/* ---- rows by id (batch.c) -------------------------------------------------------------------- */

struct batch_kind {
	/* Starts the statement that reads the rows of these ids, whose first column is the id. */
	void (*start)(struct pg *pg, struct pg_req *req, const int64_t *ids, size_t n,
	    int64_t at_us, void (*done)(struct op *));
};
#define BATCH_NONE SIZE_MAX
/* Reads the row of q->id, together with those that other requests ask for. Calls `then` with its
 * place in the result; BATCH_NONE: there is no such row. A failure is replied to. The kind is
 * static. */
void areq_batch(struct areq *q, const struct batch_kind *kind,
    void (*then)(struct areq *q, const struct pg_result *r, size_t row));

/* ---- held requests (wait.c, hold.c) ---------------------------------------------------------- */

/* Registers the request under the key KIND ID ("j12") for at most hold_us. Call it before the
 * statement that reads, so that no notification is missed. */
void areq_watch(struct areq *q, char kind, int64_t id, int64_t hold_us, int64_t again_us,
    void (*look)(struct areq *));
/* Parks the request until its key is notified. Returns false if the time is over: reply now. */
bool areq_park(struct areq *q);
/* The record of a request that is parked without its memory; the head of a larger one from
 * malloc(), at most 200 bytes. */
struct areq_parked {
	struct waiter waiter;
	struct httpd_parked http;
	struct api *api;
	int64_t until_us; /* mono: the time of areq_watch */
	uint32_t route_at;
	/* Goes on with a new request on the same connection, which is nobody's yet; frees p. */
	void (*again)(struct areq *q, struct areq_parked *p);
};
/* As areq_park, but frees the request; then p->again comes in place of its look. Frees p if the
 * client leaves. If it returns false, p is still the caller's. */
bool areq_park_record(struct areq *q, struct areq_parked *p);
/* For a handler that learns its key from the statement that reads: registers the request after
 * that, as areq_watch, if it took `since` before. */
uint64_t areq_notes(const struct areq *q);
void areq_watch_since(struct areq *q, uint64_t since, char kind, int64_t id, int64_t hold_us,
    int64_t again_us, void (*look)(struct areq *q));
/* Shows one row with this status. `look` reads the status from *q->own (int). */
void areq_show(struct areq *q, int status, void (*look)(struct areq *));
/* Shows one row with 200. `look` may park for the client's timeout_s, at most hold_max_s; without
 * timeout_s it replies at once. */
void areq_hold(struct areq *q, char kind, int64_t hold_max_s, void (*look)(struct areq *));

/* ---- sessions (auth.c) ----------------------------------------------------------------------- */

/* The hash that a node's session is looked up by, for a route with own_session. */
struct str areq_session(const struct areq *q);
/* Makes the node of the row that was found by it the caller. Replies 401 and returns false if the
 * row's hash differs; an empty one is that of no row. */
bool areq_session_found(struct areq *q, int64_t node_id, struct str hash);
/* For a request that goes on after it was parked: the node that was checked before. */
void areq_node(struct areq *q, int64_t node_id);

/* ---- replies (reply.c) ----------------------------------------------------------------------- */

void areq_reply(struct areq *q, int status, const char *type, const char *body, size_t n);
/* Takes doc and resolves its marks (view_resolve). */
void areq_json(struct areq *q, int status, json_t *doc);
void areq_done(struct areq *q); /* the route's status and "{}" */
void areq_fail(struct areq *q, enum spot_rc rc, const char *fmt, ...) PRINTF(3, 4);
/* 400 INVALID, with the member or parameter that is wrong. */
void areq_fail_field(struct areq *q, const char *field, const char *fmt, ...) PRINTF(3, 4);
void areq_error(struct areq *q, const struct spot_err *err);
/* field: NULL = none */
void areq_problem(struct areq *q, int status, const struct spot_err *err, const char *field);

/* Resolves the marks of a document made of the store's (base/text/json_marks.h). */
void view_resolve(json_t *doc, int64_t now_us);
/* Parses a document of the store; returns null on an error, which the server never makes. */
json_t *view_parse(const char *text);

/* ---- replies written from rows (list.c) ------------------------------------------------------ */

/* Replies with a document's text, as the store returns it. Resolves its marks. */
void areq_text(struct areq *q, int status, const char *json_text);
/* Replies {"items":ITEMS,"next":null}; items is the text of an array, as the store returns it. */
void areq_items(struct areq *q, const char *items);
/* {"items":[...],"next":cursor|null} out of documents. cursor NULL = the last page. */
void areq_list(struct areq *q, const char *const *docs, size_t n, const char *cursor);
/* A page of documents (see areq_list_page). */
void areq_list_docs(struct areq *q, const struct q_listed_row *rows, size_t n);
/* The same out of the first n rows of the statement's result. `more`, which may be NULL, adds
 * members to a row's object; each begins with a comma. */
void areq_list_rows(struct areq *q, const struct shape *shape, size_t n, const char *cursor,
    void (*more)(struct areq *q, struct sbuf *b, size_t row));
/* The same for one page, whose cursor is the first column. *q->own begins with its limit (int32_t).
 * The statement reads one row more, which tells that another page follows. */
void areq_list_page(struct areq *q, const struct shape *shape,
    void (*more)(struct areq *q, struct sbuf *b, size_t row));
/* Ends a list that the handler wrote into the buffer, from "{\"items\":[" on, and replies. cursor
 * NULL = the last page. */
void areq_list_end(struct areq *q, const char *cursor);
/* The buffer of a reply, empty. The handler fills it and calls areq_body_reply in the same turn. */
struct sbuf *areq_body_begin(struct areq *q);
void areq_body_reply(struct areq *q, int status);

/* ---- parameters (params.c) ------------------------------------------------------------------- */

/* Each replies with a problem and returns false if the value is not valid. */
bool areq_body(struct areq *q, json_t **ret); /* a JSON object; borrowed */
bool areq_body_keys(struct areq *q, const json_t *o, const char *const *known);
const char *areq_query(struct areq *q, const char *name); /* NULL if absent or empty */
bool areq_query_i64(struct areq *q, const char *name, int64_t min, int64_t max, int64_t dflt,
    int64_t *ret);
bool areq_query_id(struct areq *q, const char *name, char letter, bool *ret_has, int64_t *ret);
bool areq_query_time(struct areq *q, const char *name, int64_t dflt, int64_t *ret);
bool areq_page(struct areq *q, int64_t dflt_after, int64_t *ret_after, int32_t *ret_limit);
bool areq_query_list(struct areq *q, const char *name, const char ***ret, size_t *ret_n);
bool text_clean(const char *s); /* UTF-8 without control characters */
bool parse_id(const char *s, char letter, int64_t *ret); /* "j12" or "12" */
int32_t day_of(int64_t us); /* days since 1970 */

/* ---- roles and keys -------------------------------------------------------------------------- */

enum scope role_scope(const char *role); /* SCOPE_NONE: no such role */
/* Call it after a create that returned an id. If id is 0, a repeat of this request took the key
 * over: replies 409 and returns true. */
bool idem_overtaken(struct areq *q, int64_t id);
/* Stores a reply under the key that differs from the one the client gets, then calls `then`, which
 * replies. */
void idem_store(struct areq *q, const char *key, int status, const char *body, size_t n,
    void (*then)(struct areq *q));
/* Replies as an earlier use of the key demands: outcome 'replay' with the stored reply, 'busy' or
 * 'mismatch'. */
void idem_answer(struct areq *q, const char *outcome, int status, const char *response);
#define IDEM_STORED_MAX ((size_t)256 * 1024) /* bytes of a reply; a longer one is not stored */
/* Replies 401. The token was revoked or has expired since the request was let in. */
void auth_refuse_ended(struct areq *q);

/* ---- the server's state ---------------------------------------------------------------------- */

#define WAIT_BUCKETS 4096
#define SHARE_BUCKETS 256
#define WAIT_NOTES 1024 /* notifications that are remembered */
#define API_LATENCY_BUCKETS 12
extern const int64_t api_latency_bounds_us[API_LATENCY_BUCKETS];

struct seen { /* heartbeats and progress that are not written yet */
	struct q_api_agents_seen_agent *agents;
	size_t n, cap;
	struct pg_req req;
	struct loop_timer timer;
	bool busy;
	struct pg_req beat; /* this daemon's own heartbeat */
	struct loop_timer beat_timer;
};

struct stream_hub;
struct answers;
struct token_cache;
struct job_groups;
struct job_rates;

/* State of a noun. The server ends it before its requests. */
struct api_part {
	struct api_part *next;
	void (*fini)(struct api_part *part);
};
struct share;
struct batch;
struct gzip;

struct api {
	struct loop *loop;
	struct pg *pg;
	struct arena *arena;
	struct api_conf conf;
	struct routes routes;
	struct market *market;
	struct httpd *httpd;
	struct pg_listen listen;
	struct areq *reqs;
	struct waiter *waits[WAIT_BUCKETS];
	uint64_t notes[WAIT_NOTES], notes_n; /* hashes of the newest keys; how many there were */
	/* requests registered under a key; those of them that are parked now */
	size_t waiting, parked;
	struct seen seen;
	struct stream_hub *hub;
	struct token_cache *tokens;
	struct api_part *parts;
	struct answers *answers; /* jobs/answer.c makes it at the first plan */
	/* jobs/ makes them at the first submit */
	struct job_groups *job_groups;
	struct job_rates *job_rates;
	struct str openapi; /* made at the first request */
	struct sbuf body; /* of the reply being written */
	struct share *shares[SHARE_BUCKETS], *shares_start;
	struct loop_task shares_task;
	int64_t shared; /* requests that joined another one's share */
	struct batch *batches; /* one for each kind */
	struct gzip *gzip; /* made at the first use */
	struct pg_req purge;
	struct loop_timer purge_timer;
	int64_t started_us;
	int64_t *served; /* per route x status class */
	int64_t unrouted[6]; /* per status class */
	int64_t checkpoints_refused;
	int64_t latency[API_LATENCY_BUCKETS + 1], latency_us;
	bool draining;
};

/* As api_new (api/api.h), with the routes to serve. The rows must outlive the server; the array is
 * copied. */
NODISCARD enum spot_rc server_new(struct loop *l, struct pg *pg, const struct api_conf *conf,
    const struct routes *routes, struct api **ret, struct spot_err *err);
/* Ends the part with the server. */
void api_own(struct api *api, struct api_part *part, void (*fini)(struct api_part *));
/* A token was changed or revoked: the next request with any token asks the database. */
void api_forget_tokens(struct api *api);
/* True if no checkpoint store is configured: agents save nothing. */
bool api_storeless(const struct api *api);
/* Notes a heartbeat, and steps of the job's attempt unless below 0; written within a second. */
void seen_add(struct api *api, int64_t node, int64_t job, int32_t epoch, int64_t steps);
size_t hub_readers(const struct stream_hub *h); /* open event streams */

/* The OpenAPI document of the routes, in the arena. */
char *openapi_text(struct arena *a, const struct routes *routes, const char *version,
    size_t *ret_n);
void get_openapi(struct areq *q); /* openapi.c */
void get_events(struct areq *q); /* stream.c */

#endif
