/*
 * Databases for tests. Each test binary has one private cluster with fsync off. Fresh databases are
 * copies of a template with all migrations applied, some 30 ms each. The server ends with the test,
 * however that ends. testdb_stop removes its folder; after a crash the next test does. A failure
 * prints words and exits with 1.
 */
#ifndef HARNESS_H
#define HARNESS_H

#include "base/base.h"
#include "io/loop/loop.h"

struct testdb;
struct testdb *testdb_start(void);
/* DSN of a new migrated database of its own; valid until testdb_stop. */
const char *testdb_new(struct testdb *t);
/* The same without any schema. */
const char *testdb_new_empty(struct testdb *t);
int testdb_pid(const struct testdb *t);
const char *testdb_dir(const struct testdb *t); /* for files of the test; testdb_stop removes it */
void testdb_kill(struct testdb *t); /* kill -9 of the postmaster */
void testdb_restart(struct testdb *t); /* after testdb_kill; DSNs stay valid */
void testdb_stop(struct testdb *t); /* NULL accepted */

/* Blocking, on a connection of their own. */
void testdb_exec(const char *dsn, const char *sql); /* a script; exits when it fails */
/* First column of the first row as text; "" if there is none or it is NULL. Static buffer. */
const char *testdb_text(const char *dsn, const char *sql);
int64_t testdb_int(const char *dsn, const char *sql);

/* A clock that does not pass while the test is stopped (steady.h), and seeded randomness. */
struct loop *test_loop_new(void);
/* Turns the loop until cond(arg); false when it did not come true within the limit. */
bool test_until(struct loop *l, int64_t limit_us, bool (*cond)(void *arg), void *arg);
/* Until op completed and was delivered. False after 60 s. */
bool test_op_wait(struct op *op);

#endif
