/*
 * Async libpq: a pool of connections in pipeline mode, with COPY in, LISTEN and deadlines. Each
 * connection prepares a statement once, by name. A lost connection comes back with capped
 * exponential back-off and jitter. Only src/io/pg uses PGconn.
 *
 * Each statement is one transaction; none stays open across a turn of the loop. If the connection
 * breaks after a statement was sent, a write ends with SPOT_UNKNOWN, a read with UNAVAILABLE.
 *
 * SQLSTATE mapping:
 *
 * - 23505, 23514, 23503: CONFLICT, with the constraint's name in err.code
 * - 40001, 40P01, 53xxx: UNAVAILABLE (retry)
 * - 57014, our statement_timeout: TIMEOUT
 * - others: see pg_err.c; INTERNAL with the server's words if it does not list them
 */
#ifndef IO_PG_H
#define IO_PG_H

#include "io/loop/loop.h"

struct arena;
struct pg;
/* A lane has connections and a queue of its own, so that its statements never wait behind those of
 * another lane. Each statement names its lane; COPY uses PG_LONG. */
enum pg_lane {
	PG_QUICK, /* some rows by their keys: milliseconds */
	PG_LONG, /* reads or writes many rows */
	PG_AGENT, /* quick ones of agents, which may come by the ten thousand */
	PG_LANES
};
struct pg_conf {
	const char *dsn; /* libpq conninfo or URL */
	int connections; /* 0 = 8 */
	/* that many of them; 0 = the statements of this lane use those of PG_QUICK */
	int long_connections, agent_connections;
	int64_t statement_timeout_us; /* 0 = 30 s */
	const char *application; /* application_name */
};
struct pg *pg_new(struct loop *l, const struct pg_conf *conf);
void pg_free(struct pg *p);
bool pg_ready(const struct pg *p); /* true if a connection is up */
struct pg_stats {
	int64_t statements, failed, reconnects;
	int up, busy, queued;
};
struct pg_stats pg_stats(const struct pg *p);

/* A statement from a .sql file. Each connection prepares it at its first use, under its name. */
struct pg_stmt {
	const char *name, *sql;
	int params_n;
	const unsigned *param_types; /* Oids */
	bool writes;
	enum pg_lane lane;
	unsigned touches; /* the kinds of rows that it writes, as bits of the caller's */
	int cols_n; /* the columns as the .sql header declares them; tests check them */
	const unsigned *col_types;
	const char *const *col_names;
	const char *setup, *copy; /* if this is the merge of a COPY, else NULL */
};
struct pg_param { /* the code that binds it chooses the format */
	const char *p; /* NULL = SQL NULL */
	int n;
	int binary;
};
struct pg_result; /* rows, owned by the request */
struct pg_item;
struct pg_req { /* zero it before the first use; reusable after done */
	struct op op;
	const struct pg_stmt *stmt;
	struct pg_result *result; /* valid in done() and until pg_req_fini or the next pg_exec */
	void *priv;
	struct pg_item *item; /* private to io/pg, as pg */
	struct pg *pg;
};
/*
 * Runs a statement; done gets &req->op. Copies the parameters, which may point into the last result
 * of req. If 10,000 requests wait in its lane, it fails with UNAVAILABLE.
 *
 * The deadline is the statement timeout plus one second, from this call. At the deadline:
 *
 * - a request still in the queue ends with TIMEOUT, or UNAVAILABLE if no connection is up
 * - a request that was sent ends with UNKNOWN if it writes, else TIMEOUT
 *
 * A connection without progress for that long is closed and opened again. To stop a request that
 * was sent does not stop the statement, but drops its result.
 */
void pg_exec(struct pg *p, struct pg_req *req, const struct pg_stmt *stmt,
    const struct pg_param *params, void (*done)(struct op *));
void pg_req_fini(struct pg_req *req); /* stops without done, frees the result; idempotent */
size_t pg_rows(const struct pg_result *r);
int pg_columns(const struct pg_result *r);
int64_t pg_affected(const struct pg_result *r); /* rows, by the server's command tag */
/* Fields of a binary result. Views live as long as the result. */
bool pg_null(const struct pg_result *r, size_t row, int col);
struct str pg_bytes(const struct pg_result *r, size_t row, int col);
int64_t pg_int(const struct pg_result *r, size_t row, int col); /* int2/4/8 by width */
double pg_float(const struct pg_result *r, size_t row, int col);
bool pg_bool(const struct pg_result *r, size_t row, int col);

/* COPY table(cols) FROM STDIN BINARY, then in the same transaction `merge`, a statement without
 * parameters. The pg_copy_* functions write rows into a buffer that the request owns. */
struct pg_copy { /* zero it before the first use */
	struct op op;
	struct pg_result *result; /* of merge */
	void *priv;
	struct pg_item *item; /* private to io/pg, as all below */
	struct pg *pg;
	char *buf;
	size_t n, cap, max;
	bool overflow;
};
/* Starts a new set of rows. If the rows pass bytes_max, pg_copy_send ends with TOO_LARGE. */
void pg_copy_begin(struct pg_copy *c, size_t bytes_max);
void pg_copy_row(struct pg_copy *c, int columns);
void pg_copy_i64(struct pg_copy *c, int64_t v);
void pg_copy_i32(struct pg_copy *c, int32_t v);
void pg_copy_f64(struct pg_copy *c, double v);
void pg_copy_bool(struct pg_copy *c, bool v);
void pg_copy_text(struct pg_copy *c, const char *s); /* NULL = SQL NULL */
void pg_copy_null(struct pg_copy *c);
/*
 * Runs setup (such as CREATE TEMP TABLE), the COPY and merge in one transaction, on a connection of
 * its own. Both setup and merge may be NULL. A loss after COMMIT was sent is UNKNOWN. An earlier
 * loss is UNAVAILABLE or TIMEOUT and has no effect.
 */
void pg_copy_send(struct pg *p, struct pg_copy *c, const char *setup_sql, const char *copy_sql,
    const struct pg_stmt *merge, void (*done)(struct op *));
void pg_copy_fini(struct pg_copy *c);

/* LISTEN on a connection of its own. woken() is only a hint, not data. It also runs after each
 * connect, since notifications may be lost while the connection is down. */
struct pg_listen {
	void (*woken)(struct pg_listen *l, const char *channel, const char *payload);
	struct pg_listen *next;
	const char *channel;
};
void pg_listen(struct pg *p, struct pg_listen *l, const char *channel,
    void (*woken)(struct pg_listen *, const char *, const char *));
/* Ends the calls of woken(). The connection keeps listening. */
void pg_listen_stop(struct pg *p, struct pg_listen *l);

/* Runs a script of statements. Blocks: for start-up and tools only. */
NODISCARD enum spot_rc pg_script(const char *dsn, const char *sql, struct spot_err *err);

/* A blocking connection for start-up and tools; values in and out are texts. Errors: CONFIG for a
 * DSN that does not parse, UNAVAILABLE without a server, else by the SQLSTATE mapping above. */
struct pg_sync;
struct pg_text; /* rows; the caller frees them with pg_text_free */
NODISCARD enum spot_rc pg_sync_open(const char *dsn, struct pg_sync **ret, struct spot_err *err);
void pg_sync_close(struct pg_sync *s); /* NULL accepted */
bool pg_sync_in_transaction(const struct pg_sync *s);
/* Runs sql, which errors name by `what`. Without params it may hold several statements; *ret gets
 * the rows of the last one. ret may be NULL. */
NODISCARD enum spot_rc pg_sync_exec(struct pg_sync *s, const char *what, const char *sql,
    const char *const *params, int params_n, struct pg_text **ret, struct spot_err *err);
int pg_text_rows(const struct pg_text *t);
const char *pg_text_at(const struct pg_text *t, int row, int col); /* "" for NULL */
void pg_text_free(struct pg_text *t); /* NULL accepted */
static inline void auto_pg_sync(struct pg_sync **s)
{
	pg_sync_close(*s);
}
static inline void auto_pg_text(struct pg_text **t)
{
	pg_text_free(*t);
}

#endif
