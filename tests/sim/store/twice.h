/* Statements that come a second time. */
#ifndef SIM_TWICE_H
#define SIM_TWICE_H

#include <libpq-fe.h>

struct pg_stmt;
struct pg_item;
/* It ran, with this result. */
void twice_try(const struct pg_stmt *s, const struct pg_item *i, const PGresult *first);
void twice_break(void); /* for breaks.c */

/* Statements for which faults seldom make the rows, asked with such rows at the end; all is as
 * it was then. */
void statements_try(void);
void lag_break(void); /* for breaks.c */

#endif
