/* The real connection behind the simulated ones; tests/sim/store/conn.c. */
#ifndef SIM_STORE_H
#define SIM_STORE_H

#include <libpq-fe.h>

void store_open(const char *dsn);
/* Before seeds run: makes the server's process parse and plan all statements of the product, so
 * that its copies know them. Leaves the connection open. store_cold: there will be no copies. */
void store_warm(const char *dsn);
void store_cold(void);
/* of ours, without parameters; false after telling why */
bool store_prepare(const char *name, const char *sql);
/* returns when the server's side is gone: dropping its database would wait for it in steps of
 * 100 ms */
void store_close(void);
PGconn *store_conn(void); /* for the checks, between turns */
bool store_took(const PGresult *r, const char *name); /* the rule that statements do not fail */
int64_t store_server_ms(void); /* processor time that the server's side has used */
/* The process behind these connections dies: its sent statements run or do not. */
struct pg;
void store_crash(struct pg *p);
/* It is paused: its sent statement runs now, and its result waits, or it runs when the process goes
 * on. */
void store_pause(struct pg *p);

#endif
