/* Statements of the checks: reads of rows between two turns. */
#ifndef SIM_ROWS_H
#define SIM_ROWS_H

#include "base/base.h"

#include <libpq-fe.h>

PGresult *check_rows(const char *sql); /* sql: a literal, prepared once */
PGresult *check_rows_of(const char *sql, int n, const char *const *params);
/* Those that were prepared on this connection (seed.c, main.c). */
size_t check_prepared(const char *const **ret);
void check_prepare(const char *sql);

/* The statement returns the error as one text; NULL = the rule is kept. */
void check_none_now(const char *name, const char *sql); /* a text made for this once */
char *check_text(const char *sql); /* the caller frees it */
int64_t check_value(const char *sql);
int64_t check_value_now(const char *sql);
bool check_no_faults(void);

#endif
