/* The database: sessions, migrations, notifications, the rules of the rows, and stored prices. The
 * statements are generated (store/q.h). */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/base.h"
#include "base/crypto/crypto.h"
#include "io/pg/pg.h"
#include "base/text/text.h"

/*
 * Checks that the database gives us sessions of our own, since daemons LISTEN, prepare by name and
 * lock by session. A pooler that shares them by transaction or statement does not (PgBouncer,
 * https://www.pgbouncer.org/features.html).
 */

/* Blocking, for start-up; opens two connections. Returns SPOT_CONFIG with advice if sessions are
 * shared. */
NODISCARD enum spot_rc session_check(const char *dsn, struct spot_err *err);

/*
 * The schema's migrations: numbered, forward only, one transaction each. Table schema_version has a
 * checksum of every applied text. An advisory lock keeps two starting daemons from racing. Blocking
 * libpq: it runs before the loop, and in tools and tests.
 *
 * Refuses a text changed after it was applied, a gap in the numbering, and a schema newer than this
 * program. The error says what to do. An old binary must not write to a newer schema.
 */

struct migration {
	int version; /* 1, 2, 3, ... without holes */
	const char *name; /* "base" of 0001_base.sql */
	const char *sql;
	const char *sha256; /* lower-case hex of sql */
};

/*
 * Brings the database up to date. list has n migrations (migrations_all of store/q.h). If dir is
 * not NULL, its *.sql files replace list. The time now_us becomes applied_us. Sets ret_applied (may
 * be NULL) to the number applied now. Nothing of a failed migration remains; earlier ones stay. A
 * migration that must wait for a lock (a backup reads the table) retries until it succeeds. Other
 * users of the table wait only for moments, and the log names the holder.
 */
NODISCARD enum spot_rc migrate_run(const char *dsn, const char *dir, const struct migration *list,
    size_t n, int64_t now_us, int *ret_applied, struct spot_err *err);
/* Checks the schema and changes nothing. SPOT_OK if it is exactly at the end of list, else CONFIG
 * with the difference. */
NODISCARD enum spot_rc migrate_check(const char *dsn, const struct migration *list, size_t n,
    struct spot_err *err);
/* A name for a schema that has exactly these migrations: a hash of their texts, in hex. */
void migrations_id(const struct migration *list, size_t n, char ret[SHA256_HEX]);

/* The interval at which an API reports that agents can reach it (table listener). Minutes of
 * silence have many beats. */

#define LISTEN_BEAT_US (5 * SPOT_US_PER_S)

/*
 * Rules about rows: queries that find the rows which break them. src/store/rules holds those of the
 * doctor. The tests add theirs in the same form, which gen_rules.py defines.
 */

struct arena;
#define RULE_PARAMS_MAX 4
struct rule {
	const char *key; /* the rule, or "RULE / CASE" where it has several queries */
	const char *rule; /* one plain sentence */
	const char *name, *fix; /* the doctor's; NULL if the doctor does not ask it */
	const char *params[RULE_PARAMS_MAX + 1]; /* names of int8 parameters, in order; then NULL */
	const struct pg_stmt *stmt; /* one row: checked, broken, words of up to five */
};
extern const struct rule rules_all[]; /* those of src/store/rules; a NULL key ends the list */

struct rule_found {
	int64_t checked, broken;
	const char *words;
};
/* Asks a rule. value returns a parameter by its name. done gets &req->op, as of pg_exec. */
void rule_ask(struct pg *pg, struct pg_req *req, const struct rule *r,
    int64_t (*value)(void *ctx, const char *name), void *ctx, void (*done)(struct op *));
/* Reads the answer of a request that succeeded. The words live in the arena. */
struct rule_found rule_read(const struct pg_req *req, const struct rule *r, struct arena *a);

/*
 * Stores prices. One batch is one COPY and one merge in one transaction.
 *
 * The merge appends only changes to price_point: a point equal to the one before it, by effective
 * time, is left out. It advances pool_latest to the newest point of every pool. A batch may hold
 * several points of a pool (history) and known points (an overlapping poll). Storing it twice
 * changes nothing. A pool marked frozen stays frozen until its price moves. Core judges
 * plausibility before.
 *
 * A batch that is a whole poll of a feed confirms its pools by one row of price_round. It writes
 * rows of pool_latest only for prices that changed, and for pools that came into the feed's list or
 * left it. View pool_price has the time of each pool's last confirmation. Without a feed, each
 * pool's row takes the time.
 *
 * Fails as a whole with CONFLICT if a pool id does not exist or the day has no partition.
 * price_partitions_ensure creates them in advance.
 */

#define PRICE_BATCH_MAX 200000 /* points; larger polls go in several batches */
#define PRICE_DAY_US (INT64_C(86400) * SPOT_US_PER_S)

struct price_ingest { /* zeroed before its first use; may be used again after done */
	struct pg_copy copy; /* done gets &ingest->copy.op */
	size_t n; /* points of the batch */
};
/* The poll that the batch is: all of its points and no others. */
struct price_feed {
	const char *provider, *region, *feed;
	int64_t polled_us;
	int64_t fence; /* of our lease; if it is lost, the batch is stored as one without a feed */
	bool still; /* no price seems to have moved: saves time, the result does not depend on it */
};
struct price_ingested {
	int64_t received, changed, pools;
};
/* points[i] belongs to pool pool_ids[i]; both are copied. n <= PRICE_BATCH_MAX. NULL: no feed. */
void price_ingest(struct pg *pg, struct price_ingest *p, const struct price_feed *feed,
    const struct spot_price_point *points, const int32_t *pool_ids, size_t n,
    void (*done)(struct op *));
/* Stores the past of pools that have a price already. Points before a pool's first one are put
 * before it, the others are left out. pool_latest keeps its price. Storing it twice changes
 * nothing. */
void price_ingest_past(struct pg *pg, struct price_ingest *p, const struct spot_price_point *points,
    const int32_t *pool_ids, size_t n, void (*done)(struct op *));
/* Returns the result. Call it in done, after SPOT_OK. */
struct price_ingested price_ingest_result(const struct price_ingest *p);
void price_ingest_fini(struct price_ingest *p);

/*
 * Rows of a statement as JSON objects, written straight from the binary columns of its result. The
 * `-- json:` line of the statement's header is the shape, and gen_sql.py turns it into these steps.
 * Marks are those of base/text/json_marks.h.
 */

struct pg_result;

enum shape_kind {
	SHAPE_I64 = 1,
	SHAPE_F64,
	SHAPE_BOOL,
	SHAPE_TEXT,
	SHAPE_JSONB,
	SHAPE_JSON, /* text that is JSON */
	SHAPE_ID, /* "j12" */
	SHAPE_MILLI, /* thousandths, as a decimal */
	SHAPE_TIME,
	SHAPE_AGE,
	SHAPE_MONEY,
	SHAPE_OPEN, /* an object; null if column `col` is NULL: then `skip` steps are left out */
	SHAPE_CLOSE,
};
struct shape_step {
	enum shape_kind kind;
	int col, skip;
	char letter; /* of an id */
	struct str key; /* with quotes and colon: "\"price_micros\":" */
	struct str second; /* of money and ages: the other member */
};
struct shape {
	const char *stmt;
	const struct shape_step *steps;
	size_t n;
};
/* Writes the members of a row's object, without its braces, so that a caller may add more. */
void shape_put(struct sbuf *b, const struct shape *s, const struct pg_result *r, size_t row,
    int64_t now_us);

#endif
