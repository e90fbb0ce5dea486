/*
 * Prices on their way into the store: one batch = one COPY and one merge in one transaction.
 *
 * Of a batch only what changed is appended to price_point (a point equal to the one before it, by
 * effective time, is no news); pool_latest is brought up to the newest point of every pool and
 * remembers when it was last confirmed. A batch may hold several points of a pool (history) and
 * points that are stored already (an overlapping poll): storing it twice changes nothing. A pool
 * marked frozen stays frozen until its price moves. Plausibility is judged before, in core.
 *
 * Fails as a whole: CONFLICT when a pool id does not exist or the day has no partition (make them
 * ahead with price_partitions_ensure).
 */
#ifndef STORE_PRICE_H
#define STORE_PRICE_H

#include "io/pg/pg.h"

#define PRICE_BATCH_MAX 200000 /* points; larger polls go in several batches */
#define PRICE_DAY_US (INT64_C(86400) * SPOT_US_PER_S)

struct price_ingest { /* zeroed before its first use; may be used again after done */
	struct pg_copy copy; /* done gets &ingest->copy.op */
};
struct price_ingested {
	int64_t received, changed, pools;
};
/* points[i] belongs to pool pool_ids[i]; both are copied. n <= PRICE_BATCH_MAX. */
void price_ingest(struct pg *pg, struct price_ingest *p, const struct spot_price_point *points,
    const int32_t *pool_ids, size_t n, void (*done)(struct op *));
/* The same for the past: points of pools that have a price already. What is before a pool's first
 * point is put before it, the rest is left out; pool_latest keeps its price. Storing it twice
 * changes nothing. */
void price_ingest_past(struct pg *pg, struct price_ingest *p, const struct spot_price_point *points,
    const int32_t *pool_ids, size_t n, void (*done)(struct op *));
/* In done, after SPOT_OK. */
struct price_ingested price_ingest_result(const struct price_ingest *p);
void price_ingest_fini(struct price_ingest *p);

#endif
