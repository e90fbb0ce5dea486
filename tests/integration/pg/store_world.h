/* A client of a real server with the migrated schema: for the tests of the statements. */
#ifndef STORE_WORLD_H
#define STORE_WORLD_H

#include "base/base.h"
#include "harness.h"
#include "io/pg/pg.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define NOW_US (INT64_C(1793000000) * SPOT_US_PER_S)

/* Fresh for each test. */
extern struct loop *loop;
extern struct pg *pg;
extern const char *dsn;
extern struct arena *arena;

void no_done(struct op *op);
int set_up(void **state);
int tear_down(void **state);
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* Returns how many rows of a table the statement reads, which must return `rows` rows. Its
 * writes are undone. */
int64_t rows_read(const char *table, const char *name, const char *const *values, int rows);

/* Starts the server, runs the tests, stops it; returns how many failed. */
int store_tests_run(const struct CMUnitTest *tests, size_t n);
#define STORE_TESTS(tests) store_tests_run((tests), ARRAY_LEN(tests))

#endif
