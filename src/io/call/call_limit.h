/*
 * Token buckets of one provider instance, one per (limit, scope), in process. A request that finds
 * its bucket empty queues; urgent ones (terminate) are served before the others, each class in
 * order of arrival. Private to src/io/call*.c. Nothing here fails.
 */
#ifndef IO_CALL_LIMIT_H
#define IO_CALL_LIMIT_H

#include <sys/queue.h>
#include "io/loop/loop.h"
#include "spot/provider.h"

struct limiter;
struct limit_bucket;
struct limit_wait { /* embedded in the waiting request */
	TAILQ_ENTRY(limit_wait) link;
	struct limit_bucket *bucket; /* NULL = not queued */
	double cost;
	bool urgent;
	void (*go)(struct limit_wait *w); /* the tokens are taken; called from the loop */
};

struct limiter *limiter_new(struct loop *l);
void limiter_free(struct limiter *l); /* NULL accepted; nobody may be queued any more */
/* True: taken now. False: queued, w->go will be called. The bucket's figures come from limit at its
 * first use; scope NULL is "". cost <= 0 is 1; a cost above the burst is served from a full bucket.
 */
bool limiter_take(struct limiter *l, const struct spot_limit *limit, const char *scope, int cost,
    bool urgent, struct limit_wait *w);
/* The tokens that w was given are of no use for wait_us, since a wider bucket has none: they go
 * back, w is the first of its class again, and nobody else is let through before that. */
void limiter_put_back(struct limiter *l, const struct spot_limit *limit, const char *scope,
    int cost, bool urgent, int64_t wait_us, struct limit_wait *w);
void limiter_cancel(struct limit_wait *w); /* idempotent */
/* The vendor said "too fast": the bucket is emptied, and shut for the time it asked for. */
void limiter_throttled(struct limiter *l, const struct spot_limit *limit, const char *scope,
    int64_t retry_after_us);

#endif
