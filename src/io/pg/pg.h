/*
 * Async libpq: a pool of connections, statements prepared once per connection by name, pipeline
 * mode, COPY in, LISTEN, deadlines, reconnect with capped exponential backoff and jitter. Only
 * io/pg*.c sees PGconn. A statement whose connection broke after it was sent ends with SPOT_UNKNOWN
 * when it writes, UNAVAILABLE when it only reads. No transaction is held across a loop turn: one
 * statement is one transaction.
 *
 * SQLSTATE mapping: 23505 (unique) and 23514/23503 -> CONFLICT with the constraint's name in
 * err.code; 40001/40P01 -> UNAVAILABLE (retry); 57014 (our statement_timeout) -> TIMEOUT; 53xxx ->
 * UNAVAILABLE; others INTERNAL with the server's words.
 */
#ifndef IO_PG_H
#define IO_PG_H

#include "io/loop/op.h"

struct arena;
struct pg;
struct pg_conf {
	const char *dsn; /* libpq conninfo or URL */
	int connections; /* 0 = 8 */
	int64_t statement_timeout_us; /* 0 = 30 s */
	const char *application; /* application_name */
};
struct pg *pg_new(struct loop *l, const struct pg_conf *conf);
void pg_free(struct pg *p);
bool pg_ready(const struct pg *p); /* at least one connection is up */
struct pg_stats {
	int64_t statements, failed, reconnects;
	int up, busy, queued;
};
struct pg_stats pg_stats(const struct pg *p);

/* A statement: text from a .sql file, prepared lazily per connection under its name. */
struct pg_stmt {
	const char *name, *sql;
	int params_n;
	const unsigned *param_types; /* Oids */
	bool writes;
	int cols_n; /* what the .sql header promises; checked by tests */
	const unsigned *col_types;
	const char *const *col_names;
	const char *setup, *copy; /* of a COPY whose merge this is, else NULL */
};
struct pg_param { /* text or binary format chosen by the binding code */
	const char *p; /* NULL = SQL NULL */
	int n;
	int binary;
};
struct pg_result; /* rows, owned by the request */
struct pg_item;
struct pg_req { /* zeroed before its first use; may be used again after done */
	struct op op;
	const struct pg_stmt *stmt;
	struct pg_result *result; /* valid in done() and until pg_req_fini or the next pg_exec */
	void *priv;
	struct pg_item *item; /* private to io/pg, as pg */
	struct pg *pg;
};
/*
 * Copies parameters (they may point into req, at what it said last), initialises req->op. done gets
 * &req->op. queue_max: requests beyond 10,000 waiting fail UNAVAILABLE. The deadline of a request
 * is the statement timeout plus one second, counted from here: one that never left the queue ends
 * TIMEOUT (UNAVAILABLE while no connection is up), one that was sent ends UNKNOWN when it writes
 * and TIMEOUT when it reads. A connection that makes no progress for that long is closed and opened
 * again. Stopping a request that was sent does not stop the statement: its result is dropped.
 */
void pg_exec(struct pg *p, struct pg_req *req, const struct pg_stmt *stmt,
    const struct pg_param *params, void (*done)(struct op *));
void pg_req_fini(struct pg_req *req); /* stops without done, frees the result; idempotent */
size_t pg_rows(const struct pg_result *r);
int pg_columns(const struct pg_result *r);
int64_t pg_affected(const struct pg_result *r);
/* Field access, binary result format; views live as long as the result. */
bool pg_null(const struct pg_result *r, size_t row, int col);
struct str pg_bytes(const struct pg_result *r, size_t row, int col);
int64_t pg_int(const struct pg_result *r, size_t row, int col); /* int2/4/8 by width */
double pg_float(const struct pg_result *r, size_t row, int col);
bool pg_bool(const struct pg_result *r, size_t row, int col);

/* COPY table(cols) FROM STDIN BINARY, then `merge` (a statement without parameters, may be NULL) in
 * the same transaction. Rows are built by the pg_copy_* functions into a buffer owned by the
 * request. */
struct pg_copy { /* zeroed before its first use */
	struct op op;
	struct pg_result *result; /* of merge */
	void *priv;
	struct pg_item *item; /* private to io/pg, as all below */
	struct pg *pg;
	char *buf;
	size_t n, cap, max;
	bool overflow;
};
/* Passing bytes_max makes pg_copy_send end with TOO_LARGE. */
void pg_copy_begin(struct pg_copy *c, size_t bytes_max);
void pg_copy_row(struct pg_copy *c, int columns);
void pg_copy_i64(struct pg_copy *c, int64_t v);
void pg_copy_i32(struct pg_copy *c, int32_t v);
void pg_copy_f64(struct pg_copy *c, double v);
void pg_copy_bool(struct pg_copy *c, bool v);
void pg_copy_text(struct pg_copy *c, const char *s); /* NULL = SQL NULL */
void pg_copy_null(struct pg_copy *c);
/* setup runs first (such as CREATE TEMP TABLE ... ON COMMIT DROP); setup and merge may be NULL. All
 * of it is one transaction on a connection that does nothing else meanwhile. UNKNOWN only once
 * COMMIT was sent; anything lost before that ends UNAVAILABLE or TIMEOUT and had no effect. */
void pg_copy_send(struct pg *p, struct pg_copy *c, const char *setup_sql, const char *copy_sql,
    const struct pg_stmt *merge, void (*done)(struct op *));
void pg_copy_fini(struct pg_copy *c);

/* LISTEN on a connection of its own. Wake-up only, never data to rely on; also called after each
 * (re)connect, since notifications may have been missed. */
struct pg_listen {
	void (*woken)(struct pg_listen *l, const char *channel, const char *payload);
	struct pg_listen *next;
	const char *channel;
};
void pg_listen(struct pg *p, struct pg_listen *l, const char *channel,
    void (*woken)(struct pg_listen *, const char *, const char *));
void pg_listen_stop(struct pg *p,
    struct pg_listen *l); /* no more calls; the connection keeps listening */

/* Blocking, for start-up and tools only: run a script of statements. */
NODISCARD enum spot_rc pg_script(const char *dsn, const char *sql, struct spot_err *err);

/* The same on a connection that is kept, with values in and out as text. A DSN that does not parse
 * is CONFIG, a server that is not there UNAVAILABLE, a refused statement as the mapping above says.
 */
struct pg_sync;
struct pg_text; /* rows; freed with pg_text_free */
NODISCARD enum spot_rc pg_sync_open(const char *dsn, struct pg_sync **ret, struct spot_err *err);
void pg_sync_close(struct pg_sync *s); /* NULL accepted */
bool pg_sync_in_transaction(const struct pg_sync *s);
/* Without params sql may hold several statements (the rows are the last one's). what is for
 * messages; ret may be NULL. */
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
