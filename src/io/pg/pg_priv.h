/*
 * Inside of io/pg, file by file. pg.c keeps the queue and hands items to connections; pg_conn.c
 * moves one connection through its life and reads results; pg_copy.c drives a COPY on a connection
 * lent to it; pg_listen.c watches notifications; pg_resolve.c looks names up off the loop;
 * pg_opts.c makes a DSN into what libpq takes; pg_scout.c finds the server that takes writes when
 * ours is silent.
 *
 * An item is one statement or COPY on its way. Its op may go away at any time (item->op becomes
 * NULL); the item itself lives until its connection is done with it, because results arrive in the
 * order of sending and must be counted.
 */
#ifndef IO_PG_PRIV_H
#define IO_PG_PRIV_H

#include "io/pg/pg.h"

#include "base/map.h"
#include <libpq-fe.h>

#define PG_QUEUE_MAX 10000
#define PG_PIPELINE_MAX 32 /* statements in flight on one connection */
/* to be waited for so long is as bad as one more in flight */
#define PG_SLOW_US (SPOT_US_PER_S / 100)
#define PG_GRACE_US SPOT_US_PER_S /* our deadline behind the server's own */
#define PG_CONNECT_US (10 * SPOT_US_PER_S) /* resolving, connecting and setting up */
/* a COPY whose sender stopped holds its locks no longer */
#define PG_IDLE_TX_US (5 * SPOT_US_PER_S)
#define PG_BACKOFF_MIN_US (SPOT_US_PER_S / 10)
/* a fail-over is over when it is over: we look every second */
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

struct pg_place { /* one server, as the DSN or the resolver names it */
	char host[256], addr[64], port[16];
};

struct pg_item {
	struct pg_item *next, *prev;
	struct pg_conn *conn; /* NULL = waiting in a queue */
	struct op *op; /* NULL = nobody waits for it any more */
	struct pg_req *req; /* one of these two, NULL when forgotten */
	struct pg_copy *copy;
	const struct pg_stmt *stmt; /* copy: the merge, may be NULL */
	char *mem; /* one block for the four below */
	const char **values;
	int *lengths, *formats;
	bool preparing, prepared; /* a Prepare goes ahead of it; its result is in */
	bool commit_sent; /* copy: from here on a loss is UNKNOWN */
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
	PG_CONN_SETUP, /* session settings sent */
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
	enum pg_conn_state state;
	PGconn *c;
	struct loop_fd fd;
	struct loop_timer timer; /* next attempt, connect deadline, watchdog: by state */
	struct pg_resolve *resolve;
	struct pg_list inflight; /* in order of sending; a copy has exactly itself here */
	bool reserved; /* gets nothing new: a copy waits for it to run dry */
	bool retiring; /* gets nothing new and is closed when dry */
	bool dirty; /* output not flushed in this turn */
	bool listener;
	bool listen_busy; /* a LISTEN is on its way */
	int fails, nulls;
	int64_t busy_us; /* mono: the oldest in flight is waited for since; 0: none is */
	int64_t awaited_us; /* mono: it owes an answer since; 0: none (pg_scout.c) */
	bool out, ask_shunned; /* the scout's: it is under way, and whom it asks */
	int listened; /* channels in the last LISTEN round */
	enum pg_copy_step copy_step;
	size_t copy_sent;
	struct map names; /* statements prepared here */
};

struct pg_resolve;
struct pg {
	struct loop *loop;
	char *dsn, *application;
	int64_t statement_timeout_us;
	int conns_n;
	struct pg_conn *conns;
	struct pg_conn *listener; /* NULL until somebody listens */
	struct pg_listen *listens;
	int hosts_n; /* of the newest attempt */
	struct pg_conn *scout; /* NULL until one might be needed */
	struct loop_timer scouting;
	struct pg_place shunned; /* a server that was silent: asked last */
	struct pg_list queue, copies; /* waiting */
	struct loop_task dispatch;
	struct pg_stats stats;
	bool was_up;
	bool freeing;
};

/* pg.c */
void pg_list_push(struct pg_list *l, struct pg_item *i);
void pg_list_remove(struct pg_list *l, struct pg_item *i);
void pg_item_free(struct pg_item *i);
/* Completes the op with what the item holds (or with rc and words) and frees the item. */
void pg_item_finish(struct pg *p, struct pg_item *i, enum spot_rc rc);
void pg_dispatch_soon(struct pg *p);
int64_t pg_deadline_us(const struct pg *p);

/* pg_conn.c */
void pg_conn_init(struct pg_conn *c, struct pg *p, int no, bool listener);
void pg_conn_fini(struct pg_conn *c); /* its items must be gone */
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
/* The connection broke while the item was on it. */
enum spot_rc pg_err_lost(const char *what, bool maybe, const char *why, struct spot_err *err);
void pg_words_trim(const char *s, char *buf, size_t n);

/* pg_copy.c */
void pg_copy_start(struct pg_conn *c, struct pg_item *i);
void pg_copy_event(struct pg_conn *c);

/* pg_listen.c */
void pg_listen_up(struct pg_conn *c); /* just connected: LISTEN to all, wake all */
void pg_listen_event(struct pg_conn *c);

/* pg_resolve.c: getaddrinfo() on a thread of its own, since neither libpq nor the resolver has a
 * deadline that a loop could live with. */
struct pg_resolve_result {
	const char *hosts, *addrs,
	    *ports; /* comma lists of the same length, one entry per address */
	const char *why; /* not NULL: no host could be resolved */
};
struct pg_resolve *pg_resolve_start(struct loop *l, const char *hosts, const char *ports,
    void (*done)(void *arg, const struct pg_resolve_result *res), void *arg);
void pg_resolve_cancel(struct pg_resolve *r); /* NULL accepted; done is not called */
bool pg_resolve_needed(const char *hosts); /* some host is a name: no address, no socket path */

/* pg_opts.c */
/* false: it does not parse; pg_opts_fini in any case */
bool pg_opts_parse(const char *dsn, struct pg_opts *o);
void pg_opts_fini(struct pg_opts *o);
/* both are kept, not copied */
void pg_opts_set(struct pg_opts *o, const char *key, const char *value, bool override);
const char *pg_opts_get(const struct pg_opts *o, const char *key, const char *env);
/* Fills the options that the DSN leaves open; resolved: the addresses of its names (NULL:
 * nothing to resolve). */
void pg_opts_complete(struct pg_opts *o, const char *application,
    const struct pg_resolve_result *res);
enum pg_order { PG_ORDER_LAST = 1, PG_ORDER_OTHERS, PG_ORDER_ONLY };
/* The hosts begun at number first and gone round, place's last, without it, or it alone. Returns
 * how many there are to be asked; 0: none, and the options are as they were. Of one host nothing
 * changes. */
int pg_opts_order(struct pg_opts *o, int first, const struct pg_place *place, enum pg_order how);
/* c: connected or connecting; NULL: a place that is none */
void pg_place_of(PGconn *c, struct pg_place *ret);
bool pg_place_same(const struct pg_place *a, const struct pg_place *b);

/* pg_scout.c */
/* from now on c owes an answer, anew; it owes none */
void pg_scout_watch(struct pg_conn *c, bool on);
void pg_scout_asks(struct pg_conn *c); /* the scout: an attempt goes on */
void pg_scout_lost(struct pg_conn *c); /* the scout: an attempt failed */
void pg_scout_found(struct pg_conn *c); /* the scout: somebody takes writes */
void pg_scout_fini(struct pg *p);

#endif
