/* A client of a real server with an empty table t, and statements to try on it: for the tests of
 * io/pg. */
#ifndef PG_WORLD_H
#define PG_WORLD_H

#include "base/base.h"
#include "harness.h"
#include "io/pg/pg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define OID_BOOL 16
#define OID_INT8 20
#define OID_TEXT 25
#define OID_FLOAT8 701

struct world {
	struct loop *loop;
	struct pg *pg;
	const char *dsn;
	int connections;
};

extern struct testdb *db; /* the test program starts it and stops it */
extern int done_count; /* requests that completed since the world was set up */
/* $1 + 1; an INSERT of $1; a read and a write that take $1 seconds. */
extern const struct pg_stmt stmt_echo, stmt_insert, stmt_sleep, stmt_insert_slow;

/* Two connections; two, one of them for PG_LONG; one; one with a statement timeout of half a
 * second. *state: the world. */
int set_up(void **state);
int set_up_lanes(void **state);
int set_up_one(void **state);
int set_up_hasty(void **state);
int tear_down(void **state);
#define T(name, up) cmocka_unit_test_setup_teardown(name, up, tear_down)

void count_done(struct op *op);
void exec_int(struct world *w, struct pg_req *req, const struct pg_stmt *stmt, int64_t v);
void exec_float(struct world *w, struct pg_req *req, const struct pg_stmt *stmt, double v);

#endif
