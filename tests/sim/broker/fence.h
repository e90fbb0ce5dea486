/* Checks of a daemon that leads no longer, and acts on. */
#ifndef SIM_FENCE_H
#define SIM_FENCE_H

#include "base/base.h"
#include "base/text/text.h"

#include <libpq-fe.h>

struct pg;
struct pg_stmt;
/* Before the statement runs: its sender is not the leader, so it must change nothing. It runs in a
 * transaction then. */
bool fence_late(const struct pg *p, const struct pg_stmt *s);
/* Before it runs: would it change anything if its sender led no longer? */
struct pg_item;
void fence_try(const struct pg *p, const struct pg_stmt *s, const struct pg_item *i);
/* After it ran, the transaction still open. */
void fence_ran(const struct pg *p, const struct pg_stmt *s, const PGresult *r, bool late);
/* A request of a daemon leaves it. */
void fence_send(const char *from, const char *url, struct str body);
/* Breaks the first or the second rule of the two, for breaks.c; within its transaction. */
void fence_break(bool late_write);

#endif
