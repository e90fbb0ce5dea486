/* Statements with a result that must be empty are not sent (gates.c). */
#ifndef SIM_GATES_H
#define SIM_GATES_H

#include "io/pg/pg_priv.h"

#define GATE_WRONG 3 /* the exit code of a seed that saw that */

void gates_prepare(void);
/* True: it would return no rows. audit: false was said to see whether that is so. */
bool gate_closed(PGconn *c, const struct pg_stmt *s, const struct pg_item *i, bool *audit);
/* Returns the last result of s if nothing that it reads has changed since; NULL = run it. */
PGresult *gate_steady(const struct pg_stmt *s);
void gate_keep(const struct pg_stmt *s, const PGresult *r);
/* Tells the gates that s ran and may have changed their facts. rows: how many it returned. s NULL:
 * a COPY. */
void gate_ran(const struct pg_stmt *s, int rows);

#endif
