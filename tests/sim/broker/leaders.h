/* Who leads, by the leases that were given: what a daemon does that leads no longer. */
#ifndef SIM_LEADERS_H
#define SIM_LEADERS_H

#include "base/base.h"
#include "spot/http.h"

#include <libpq-fe.h>

struct pg;
struct pg_stmt;
void leaders_born(const struct pg *p); /* a daemon starts; this is its pool */
/* Before the statement runs: its sender is not the leader, so it must change nothing. It runs in a
 * transaction then. */
bool leaders_late(const struct pg *p, const struct pg_stmt *s);
/* Before it runs: would it change anything if its sender led no longer? */
struct pg_item;
void leaders_try(const struct pg *p, const struct pg_stmt *s, const struct pg_item *i);
/* After it ran, the transaction still open. */
void leaders_ran(const struct pg *p, const struct pg_stmt *s, const PGresult *r, bool late);
/* A request of a daemon leaves it. */
void leaders_send(const char *from, const char *url, struct str body);
/* That daemon stops, or goes on. */
void leaders_stop(const struct pg *p, bool stop);
/* Since when one daemon leads that never stood still; 0 = none does. What is to be done is done
 * within a few of its passes. */
int64_t leaders_steady_since(void);
void leaders_unsteady(void); /* it cannot do its work just now */
/* Breaks the first or the second rule of the two, for breaks.c; within its transaction. */
void leaders_break(bool late_write);
/* Those of how the lease is taken. */
void leaders_break_lease(void);

#endif
