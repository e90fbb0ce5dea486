/*
 * Inside of io/pg, file by file:
 *
 * - pg.c keeps the queue and hands items to connections
 * - pg_conn.c moves one connection through its life and reads results
 * - pg_copy.c drives a COPY on a connection that the pool lends it
 * - pg_listen.c watches notifications
 * - pg_resolve.c resolves host names on a thread
 * - pg_opts.c turns a DSN into options of libpq
 * - pg_scout.c finds the server that takes writes if ours is silent
 *
 * An item is one statement or COPY under way. Its op may go away at any time; item->op is then
 * NULL. The item stays until its results have come, because results arrive in the order of sending
 * and the connection counts them.
 */
#ifndef IO_PG_PRIV_H
#define IO_PG_PRIV_H

#include "io/pg/pg.h"

#include "base/base.h"
#include <libpq-fe.h>

#define PG_QUEUE_MAX 10000
#define PG_PIPELINE_MAX 32 /* statements in flight on one connection */
/* This much silence counts like one more statement in flight. */
#define PG_SLOW_US (SPOT_US_PER_S / 100)
#define PG_GRACE_US SPOT_US_PER_S /* our deadline minus the server's */
#define PG_CONNECT_US (10 * SPOT_US_PER_S) /* to resolve, connect and set up */
/* The server ends a COPY after this silence of the sender, to free its locks. */
#define PG_IDLE_TX_US (5 * SPOT_US_PER_S)
#define PG_BACKOFF_MIN_US (SPOT_US_PER_S / 10)
/* Short, to notice the end of a fail-over within a second. */
#define PG_BACKOFF_MAX_US SPOT_US_PER_S

struct pg_result {
	PGresult *res;
};

#define PG_OPTS_MAX 80
struct pg_opts { /* for PQconnectStartParams */
	const char *keys[PG_OPTS_MAX], *values[PG_OPTS_MAX];
	int n;
	PQconninfoOption *info;
	char *made[3];
};

struct pg_place { /* one server, by its name in the DSN or from the resolver */
	char host[256], addr[64], port[16];
};

struct pg_item {
	struct pg_item *next, *prev;
	struct pg_conn *conn; /* NULL = waiting in a queue */
	struct op *op; /* NULL = no user waits for it any more */
	struct pg_req *req; /* one of these two is set; NULL once its user has gone */
	struct pg_copy *copy;
	const struct pg_stmt *stmt; /* copy: the merge, may be NULL */
	enum pg_lane lane; /* the one that has its connection */
	char *mem; /* one block for the four below */
	const char **values;
	int *lengths, *formats;
	bool preparing, prepared; /* a Prepare precedes it; the result of the Prepare has come */
	bool commit_sent; /* copy: from now on a loss is UNKNOWN */
	PGresult *res;
	struct spot_err err;
	char sqlstate[6];
};

struct pg_list {
	struct pg_item *head, *tail;
	int n;
};

enum pg_conn_state {
	PG_CONN_DOWN = 1, /* waits for its next attempt */
	PG_CONN_RESOLVING,
	PG_CONN_CONNECTING,
	PG_CONN_SETUP, /* has sent the session settings */
	PG_CONN_READY, /* pipeline mode */
	PG_CONN_COPY, /* lent to pg_copy.c */
	PG_CONN_LISTEN,
};

enum pg_copy_step {
	PG_COPY_BEGIN = 1,
	PG_COPY_DATA,
	PG_COPY_END,
	PG_COPY_MERGE,
	PG_COPY_COMMIT,
	PG_COPY_ROLLBACK
};

struct pg_conn {
	struct pg *pg;
	int no;
	enum pg_lane lane;
	enum pg_conn_state state;
	PGconn *c;
	struct loop_fd fd;
	struct loop_timer timer; /* next attempt, connect deadline, watchdog: by state */
	struct pg_resolve *resolve;
	struct pg_list inflight; /* in order of sending; a copy is alone here */
	bool reserved; /* takes no new items: a copy waits until inflight is empty */
	bool retiring; /* takes no new items, and closes when inflight is empty */
	bool dirty; /* has output to flush in this turn */
	bool listener;
	bool listen_busy; /* a LISTEN is under way */
	int fails, nulls;
	int64_t busy_us; /* mono: start of the wait for the oldest item; 0 = none */
	int64_t awaited_us; /* mono: start of the wait for an answer; 0 = none (pg_scout.c) */
	bool out; /* scout: under way */
	bool ask_shunned; /* scout: asks the silent server now, else the others */
	int listened; /* number of channels in the last LISTEN */
	enum pg_copy_step copy_step;
	size_t copy_sent;
	struct map names; /* statements that it has prepared */
};

struct pg_resolve;
struct pg {
	struct loop *loop;
	char *dsn, *application;
	int64_t statement_timeout_us;
	int conns_n;
	struct pg_conn *conns;
	struct pg_conn *listener; /* NULL until the first LISTEN */
	struct pg_listen *listens;
	int hosts_n; /* of the newest attempt */
	struct pg_conn *scout; /* NULL until its first watch */
	struct loop_timer scouting;
	struct pg_place shunned; /* the silent server: tried last */
	int lane_n[PG_LANES]; /* connections; 0 = none of its own */
	struct pg_list queues[PG_LANES], copies; /* waiting */
	struct loop_task dispatch;
	struct pg_stats stats;
	bool was_up;
	bool freeing;
};

/* pg.c */
void pg_list_push(struct pg_list *l, struct pg_item *i);
void pg_list_remove(struct pg_list *l, struct pg_item *i);
void pg_item_free(struct pg_item *i);
/* Completes the op with rc and the item's result or error, and frees the item. */
void pg_item_finish(struct pg *p, struct pg_item *i, enum spot_rc rc);
void pg_dispatch_soon(struct pg *p);
bool pg_waiting(const struct pg *p); /* true if items wait for a connection */
int64_t pg_deadline_us(const struct pg *p);

/* pg_conn.c */
void pg_conn_init(struct pg_conn *c, struct pg *p, int no, bool listener);
void pg_conn_fini(struct pg_conn *c); /* must have no items */
void pg_conn_lost(struct pg_conn *c, const char *why);
bool pg_conn_takes(const struct pg_conn *c);
void pg_conn_send(struct pg_conn *c, struct pg_item *i);
void pg_conn_flush(struct pg_conn *c);
void pg_conn_watchdog(struct pg_conn *c, bool on);
void pg_conn_ready(struct pg_conn *c); /* (back) to pipeline mode, empty */
const char *pg_conn_words(const struct pg_conn *c, char *buf, size_t n);

/* pg_err.c */
enum spot_rc pg_err_from(const PGresult *r, const char *what, struct spot_err *err,
    char sqlstate[6]);
/* The connection broke with the item under way; maybe: it may have had an effect. */
enum spot_rc pg_err_lost(const char *what, bool maybe, const char *why, struct spot_err *err);
void pg_words_trim(const char *s, char *buf, size_t n);

/* pg_copy.c */
void pg_copy_start(struct pg_conn *c, struct pg_item *i);
void pg_copy_event(struct pg_conn *c);

/* pg_listen.c */
void pg_listen_up(struct pg_conn *c); /* after a connect: listens to all channels, wakes all */
void pg_listen_event(struct pg_conn *c);

/* pg_resolve.c: runs getaddrinfo() on a thread, since it may block the loop for long. */
struct pg_resolve_result {
	/* comma lists of equal length, one entry per address */
	const char *hosts, *addrs, *ports;
	const char *why; /* if not NULL: the reason why no host has an address */
};
struct pg_resolve *pg_resolve_start(struct loop *l, const char *hosts, const char *ports,
    void (*done)(void *arg, const struct pg_resolve_result *res), void *arg);
void pg_resolve_cancel(struct pg_resolve *r); /* NULL accepted; done is not called */
bool pg_resolve_needed(const char *hosts); /* true if a host is no address and no socket path */

/* pg_opts.c */
/* False: the DSN does not parse. Call pg_opts_fini in any case. */
bool pg_opts_parse(const char *dsn, struct pg_opts *o);
void pg_opts_fini(struct pg_opts *o);
/* Keeps the pointers key and value; override: also replaces an earlier value. */
void pg_opts_set(struct pg_opts *o, const char *key, const char *value, bool override);
const char *pg_opts_get(const struct pg_opts *o, const char *key, const char *env);
/* Adds our defaults for options that the DSN leaves open, and the addresses in res (NULL: none). */
void pg_opts_complete(struct pg_opts *o, const char *application,
    const struct pg_resolve_result *res);
enum pg_order { PG_ORDER_LAST = 1, PG_ORDER_OTHERS, PG_ORDER_ONLY };
/*
 * Rotates the list of hosts to begin at index first. how puts place last, leaves it out, or keeps
 * it alone. Returns the number of hosts; 0 leaves the options unchanged, and so does one host.
 */
int pg_opts_order(struct pg_opts *o, int first, const struct pg_place *place, enum pg_order how);
/* Fills *ret with the server of c, connected or connecting; with "" if c is NULL. */
void pg_place_of(PGconn *c, struct pg_place *ret);
bool pg_place_same(const struct pg_place *a, const struct pg_place *b);

/* pg_scout.c */
/* on: the wait for an answer of c starts now; off: c owes none. */
void pg_scout_watch(struct pg_conn *c, bool on);
void pg_scout_asks(struct pg_conn *c); /* the scout's attempt goes on */
void pg_scout_lost(struct pg_conn *c); /* the scout's attempt failed */
void pg_scout_found(struct pg_conn *c); /* the scout found a server that takes writes */
void pg_scout_fini(struct pg *p);

#endif
