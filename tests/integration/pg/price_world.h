/* Pools, partitions and prices for the tests of store/store.h. */
#ifndef PRICE_WORLD_H
#define PRICE_WORLD_H

#include "base/base.h"
#include "store/store.h"
#include "store_world.h"

struct point {
	int32_t pool;
	int64_t micros, effective_us, observed_us;
};

/* n pools with the ids 1 to n. */
void prices_pools_make(int n);
/* Makes the partitions of these days; returns how many were new. */
int64_t prices_partitions(int64_t from_us, int64_t to_us);
/* Stores prices, by f or as a poll of current prices. */
struct price_ingested prices_ingest_by(const struct point *in, size_t n,
    void (*f)(struct pg *, struct price_ingest *, const struct spot_price_point *, const int32_t *,
	size_t, void (*)(struct op *)));
struct price_ingested prices_ingest(const struct point *in, size_t n);
extern bool prices_still; /* the next polls say that no price moved */
/* The same as a whole poll of the feed p/r/prices_spot, with the fence 1. */
struct price_ingested prices_poll(const struct point *in, size_t n);

#endif
