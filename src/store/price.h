/*
 * Stores prices. One batch is one COPY and one merge in one transaction.
 *
 * The merge appends only changes to price_point: a point equal to the one before it, by effective
 * time, is left out. It advances pool_latest to the newest point of every pool. A batch may hold
 * several points of a pool (history) and known points (an overlapping poll). Storing it twice
 * changes nothing. A pool marked frozen stays frozen until its price moves. Core judges
 * plausibility before.
 *
 * A batch that is a whole poll of a feed confirms its pools by one row of price_round. It writes
 * rows of pool_latest only for prices that changed, and for pools that came into the feed's list or
 * left it. View pool_price has the time of each pool's last confirmation. Without a feed, each
 * pool's row takes the time.
 *
 * Fails as a whole with CONFLICT if a pool id does not exist or the day has no partition.
 * price_partitions_ensure creates them in advance.
 */
#ifndef STORE_PRICE_H
#define STORE_PRICE_H

#include "io/pg/pg.h"

#define PRICE_BATCH_MAX 200000 /* points; larger polls go in several batches */
#define PRICE_DAY_US (INT64_C(86400) * SPOT_US_PER_S)

struct price_ingest { /* zeroed before its first use; may be used again after done */
	struct pg_copy copy; /* done gets &ingest->copy.op */
	size_t n; /* points of the batch */
};
/* The poll that the batch is: all of its points and no others. */
struct price_feed {
	const char *provider, *region, *feed;
	int64_t polled_us;
	int64_t fence; /* of our lease; if it is lost, the batch is stored as one without a feed */
	bool still; /* no price seems to have moved: saves time, the result does not depend on it */
};
struct price_ingested {
	int64_t received, changed, pools;
};
/* points[i] belongs to pool pool_ids[i]; both are copied. n <= PRICE_BATCH_MAX. NULL: no feed. */
void price_ingest(struct pg *pg, struct price_ingest *p, const struct price_feed *feed,
    const struct spot_price_point *points, const int32_t *pool_ids, size_t n,
    void (*done)(struct op *));
/* Stores the past of pools that have a price already. Points before a pool's first one are put
 * before it, the others are left out. pool_latest keeps its price. Storing it twice changes
 * nothing. */
void price_ingest_past(struct pg *pg, struct price_ingest *p, const struct spot_price_point *points,
    const int32_t *pool_ids, size_t n, void (*done)(struct op *));
/* Returns the result. Call it in done, after SPOT_OK. */
struct price_ingested price_ingest_result(const struct price_ingest *p);
void price_ingest_fini(struct price_ingest *p);

#endif
