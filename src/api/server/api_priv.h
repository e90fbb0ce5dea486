/*
 * Inside of the API. One struct areq per request, in the request's arena: it carries who asks, the
 * route, one database statement at a time and what comes after it. A handler starts a statement
 * (SQL) or replies; a continuation does the same; a reply ends the request. While a statement is
 * under way the request cannot vanish: a client that left is noticed at the reply.
 */
#ifndef API_PRIV_H
#define API_PRIV_H

#include "base/base.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/text/json.h"
#include "base/text/sbuf.h"
#include "base/text/str.h"
#include "api/server/api.h"
#include "io/httpd/httpd.h"
#include "store/q.h"

struct areq;

/* ---- routes ---------------------------------------------------------------------------------- */

/* Least that may use a route. service = engineer. */
enum scope {
	SCOPE_NONE = 0, /* never valid in a route */
	SCOPE_PUBLIC,
	SCOPE_METRICS, /* viewer, or anybody on the loopback */
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
	size_t body_max; /* 0 = no body */
	const char *query; /* names of the query parameters it takes, separated by blanks */
	int status; /* of success */
	/* schemas of body and reply (src/api/server/schemas.json); NULL = none or not JSON */
	const char *in, *out;
	const char *doc;
};
extern const struct route api_routes[];
extern const size_t api_routes_n;

/* ---- requests -------------------------------------------------------------------------------- */

struct who {
	enum scope scope; /* what the token may do; SCOPE_NONE = nobody */
	int64_t token_id, node_id;
	const char *name, *role, *team, *node_state;
};

struct wait { /* parked until a key is woken, or for a while */
	struct wait *next, **at; /* in its bucket; at == NULL: not registered */
	char key[24];
	bool parked, woken;
	int64_t until_us; /* mono: answer by then with what there is */
	int64_t again_us; /* look again at least this often, for lost notifications */
	struct loop_timer timer;
	void (*look)(struct areq *q);
};

struct areq {
	struct api *api;
	struct areq *prev, *next;
	struct httpd_req *http;
	struct arena *arena;
	const struct route *route;
	int64_t now_us;
	const char *arg[ROUTE_ARGS];
	int64_t id; /* of the first {noun} in the path */
	struct who who;
	struct pg_req pg;
	void (*then)(struct areq *q);
	/* optional: true = it dealt with the failure of the statement */
	bool (*failed)(struct areq *q);
	struct wait wait;
	const char *idem_key; /* set while an Idempotency-Key is open */
	/* the key that gets its reply or is let go, how often that was tried, what comes then */
	const char *settling;
	int settle_tries;
	void (*settled)(struct areq *q);
	int reply_status; /* the reply that waits for the key to be settled */
	const char *reply_type;
	struct str reply_body;
	json_t *doc; /* freed with the request */
	void *own; /* the handler's, in the arena */
};

/* Starts a statement; `next` runs when it succeeded, a failure is answered. Parameters are
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
bool areq_loopback(const struct areq *q);
/* Keys and their timers; see src/api/server/wait.c. */
void areq_watch(struct areq *q, char kind, int64_t id, int64_t hold_us, int64_t again_us,
    void (*look)(struct areq *));
bool areq_park(struct areq *q); /* false: the time is over, answer now */
void areq_unwatch(struct areq *q);
/* One thing is shown with this status, which look finds at *q->own (int). areq_hold: with 200, and
 * look may park for as long as the client's timeout_s says (at most hold_max_s; none: it answers at
 * once). */
void areq_show(struct areq *q, int status, void (*look)(struct areq *));
void areq_hold(struct areq *q, char kind, int64_t hold_max_s, void (*look)(struct areq *));

/* ---- replies (reply.c) ----------------------------------------------------------------------- */

void areq_reply(struct areq *q, int status, const char *type, const char *body, size_t n);
/* takes doc; marks are resolved */
void areq_json(struct areq *q, int status, json_t *doc);
/* a document of the store, likewise */
void areq_text(struct areq *q, int status, const char *json_text);
void areq_done(struct areq *q); /* the route's status and "{}" */
void areq_fail(struct areq *q, enum spot_rc rc, const char *fmt, ...) PRINTF(3, 4);
/* INVALID */
void areq_fail_field(struct areq *q, const char *field, const char *fmt, ...) PRINTF(3, 4);
void areq_error(struct areq *q, const struct spot_err *err);
void areq_problem(struct areq *q, int status, const struct spot_err *err, const char *field);
/* The request is over without a reply of ours (streams): forget it. */
void areq_end(struct areq *q);
void areq_free_parts(struct areq *q);

/* Marks of the store's documents: "x@" "x@age" "x$"; see migrations/0003_api_views.sql. */
void view_resolve(json_t *doc, int64_t now_us);
/* Parses a document of the store; never fails, the server made it. */
json_t *view_parse(const char *text);
/* {"items":[...],"next":cursor|null} out of documents. cursor NULL = end. */
void areq_list(struct areq *q, const char *const *docs, size_t n, const char *cursor);
/* The same of a page: *q->own is its limit (int32_t), and there is one row more if there is another
 * page. */
void areq_list_page(struct areq *q, const struct q_listed_row *rows, size_t n);

/* ---- parameters (params.c) ------------------------------------------------------------------- */

/* Each answers the request itself and returns false when the value is no good. */
bool areq_body(struct areq *q, json_t **ret); /* a JSON object; borrowed */
bool areq_body_keys(struct areq *q, const json_t *o, const char *const *known);
const char *areq_query(struct areq *q, const char *name); /* NULL if absent or empty */
bool areq_query_i64(struct areq *q, const char *name, int64_t min, int64_t max, int64_t dflt,
    int64_t *ret);
bool areq_query_id(struct areq *q, const char *name, char letter, bool *ret_has, int64_t *ret);
bool areq_query_time(struct areq *q, const char *name, int64_t dflt, int64_t *ret);
bool areq_page(struct areq *q, int64_t dflt_after, int64_t *ret_after, int32_t *ret_limit);
bool areq_query_list(struct areq *q, const char *name, const char ***ret, size_t *ret_n);
bool text_clean(const char *s);
bool parse_id(const char *s, char letter, int64_t *ret);
int32_t day_of(int64_t us);

/* ---- the rest -------------------------------------------------------------------------------- */

#define WAIT_BUCKETS 4096
#define API_LATENCY_BUCKETS 12

struct seen { /* heartbeats and progress until they are written */
	int64_t *nodes, *ats, *jobs, *steps;
	int32_t *epochs;
	size_t n, cap;
	struct pg_req req;
	struct loop_timer timer;
	bool busy;
	struct pg_req beat; /* that we listen */
	struct loop_timer beat_timer;
};

struct stream_hub;
struct api;
/* There is no store: agents save nothing. */
bool api_storeless(const struct api *api);

struct api {
	struct loop *loop;
	struct pg *pg;
	struct arena *arena;
	struct api_conf conf;
	struct httpd *httpd;
	struct pg_listen listen;
	struct areq *reqs;
	struct wait *waits[WAIT_BUCKETS];
	/* requests that may be held; of these, those that wait and do not read just now */
	size_t waiting, parked;
	struct seen seen;
	struct stream_hub *hub;
	struct str openapi;
	struct pg_req purge;
	struct loop_timer purge_timer;
	int64_t started_us;
	int64_t *served; /* per route x status class */
	int64_t unrouted[6]; /* per status class */
	int64_t checkpoints_refused;
	int64_t latency[API_LATENCY_BUCKETS + 1], latency_us;
	bool draining;
};

/* auth.c */
void auth_begin(struct areq *q, void (*next)(struct areq *q));
enum scope role_scope(const char *role);
/* idem.c */
void idem_begin(struct areq *q); /* then the route's handler */
/* Of a create that returned no id (0) since its key is not open any more: answered, true. */
bool idem_overtaken(struct areq *q, int64_t id);
bool idem_settle(struct areq *q, int status, const char *type, const char *body, size_t n);
/* What a repeat gets is not what the request gets: only the former is kept, then `then` replies. */
void idem_store(struct areq *q, const char *key, int status, const char *body, size_t n,
    void (*then)(struct areq *q));
/* dispatch.c */
void api_handle(void *ctx, struct httpd_req *r);
size_t api_body_max(void *ctx, const char *method, const char *path);
struct areq *areq_new(struct api *api, struct httpd_req *r);
/* wait.c */
void api_woken(struct pg_listen *l, const char *channel, const char *payload);
void wait_wake_all(struct api *api);
/* stream.c */
struct stream_hub *hub_new(struct api *api);
void hub_free(struct stream_hub *h);
void hub_poke(struct stream_hub *h);
void hub_drain(struct stream_hub *h);
size_t hub_readers(const struct stream_hub *h);
/* seen.c */
void seen_init(struct api *api);
void seen_add(struct api *api, int64_t node, int64_t job, int32_t epoch, int64_t steps);
void seen_fini(struct api *api);
/* metrics.c */
void metrics_count(struct areq *q, int status);
/* openapi.c */
char *openapi_text(struct arena *a, const char *version, size_t *ret_n);
extern const char api_schemas_json[];

/* handlers, by file */
void get_healthz(struct areq *q);
void get_readyz(struct areq *q);
void get_metrics(struct areq *q);
void get_openapi(struct areq *q);
void get_version(struct areq *q);
void get_whoami(struct areq *q);
void get_prices(struct areq *q);
void get_prices_gpus(struct areq *q);
void get_prices_refused(struct areq *q);
void get_pools(struct areq *q);
void get_pool(struct areq *q);
void get_providers(struct areq *q);
void get_quotas(struct areq *q);
void get_supply(struct areq *q);
void get_queue(struct areq *q);
void get_classes(struct areq *q);
void get_gpus(struct areq *q);
void get_shares(struct areq *q);
void put_share(struct areq *q);
void get_leaks(struct areq *q);
void post_leak(struct areq *q);
void post_backtest(struct areq *q);
void post_plan(struct areq *q);
void post_job(struct areq *q);
void get_jobs(struct areq *q);
void get_job(struct areq *q);
void get_job_why(struct areq *q);
void get_job_logs(struct areq *q);
void get_job_cost(struct areq *q);
void get_checkpoint(struct areq *q);
void post_job_cancel(struct areq *q);
void patch_job(struct areq *q);
void post_fleet(struct areq *q);
void post_fleet_plan(struct areq *q);
void get_fleets(struct areq *q);
void get_fleet(struct areq *q);
void patch_fleet(struct areq *q);
void delete_fleet(struct areq *q);
void get_nodes(struct areq *q);
void get_node(struct areq *q);
void post_node_drain(struct areq *q);
void delete_node(struct areq *q);
void post_rebalance(struct areq *q);
void get_rebalance(struct areq *q);
void get_moves(struct areq *q);
void post_doctor(struct areq *q);
void get_doctor(struct areq *q);
void get_cost(struct areq *q);
void get_events(struct areq *q);
void get_tokens(struct areq *q);
void post_token(struct areq *q);
void delete_token(struct areq *q);
void get_download(struct areq *q);
void post_enrol(struct areq *q);
void post_poll(struct areq *q);
void post_notice(struct areq *q);
void post_report(struct areq *q);
void post_checkpoint(struct areq *q);
void post_commit(struct areq *q);
void post_log(struct areq *q);
void post_sample(struct areq *q);
/* Answers with the entity as it is now; q->id names it. Also used to replay a create. */
void show_job(struct areq *q, int status);
void show_fleet(struct areq *q, int status);
void show_rebalance(struct areq *q, int status);
void show_doctor(struct areq *q, int status);

#endif
