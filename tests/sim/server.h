/* The Postgres server of a batch and its databases; tests/sim/server.c. */
#ifndef SIM_SERVER_H
#define SIM_SERVER_H

#include <stddef.h>

void server_start(void);
void server_stop(void);
/* A database of that name, from the migrated template; its DSN goes to buf. */
void server_database(const char *name, char *buf, size_t n);
void server_database_drop(const char *name);
/* This process, and with it the server's side of its connection (store_open), takes the slot's core. */
void core_take(int slot);

#endif
