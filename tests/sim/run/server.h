/* The Postgres server of a batch and its databases; tests/sim/run/server.c. */
#ifndef SIM_SERVER_H
#define SIM_SERVER_H

#include <stdbool.h>
#include <stddef.h>

void server_start(void);
void server_stop(void);
/* server_copies: may seeds begin as copies of one process of the server? If so, server_warm teaches
 * that process the product's statements. The caller asks it anything else that it should know, then
 * calls server_universes. */
bool server_copies(void);
void server_warm(void);
void server_universes(void);
/* A database of a seed's own, from the migrated template. One is made ahead and those that were
 * given back are dropped by databases_tidy: while seeds run. */
struct database {
	char name[32], dsn[1500];
};
void database_take(struct database *ret);
void database_give(const struct database *d);
void databases_tidy(void);
/* This process, and with it the server's side of its connection (store_open), takes the slot's
 * core. */
void core_take(int slot);

#endif
