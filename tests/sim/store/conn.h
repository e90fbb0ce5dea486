/* The part of the one real connection that store.c alone uses; the others use store.h. */
#ifndef SIM_CONN_H
#define SIM_CONN_H

#include "io/pg/pg_priv.h"

void store_must(const char *sql); /* ends the seed if it fails */
/* A statement of the product, once; false: i has the error. */
bool store_prepare_product(const struct pg_stmt *s, struct pg_item *i);

#endif
