/*
 * The market in memory: read once, then by change. Triggers of migration 0035 write which pools
 * changed. A refresh asks for the changes since the last one, reads those pools again, and makes a
 * new snapshot if there were any. One statement without rows is the cost of an unchanged market.
 *
 * - A snapshot never changes. It lives while somebody holds it.
 * - market_now() hands out the last snapshot if it is young enough, else the caller waits for a
 *   refresh with market_need(). Its age counts from the moment at which its refresh began.
 * - A confirmation of unchanged prices reaches a snapshot with the next change, within a minute.
 * - Values that change by time alone (faded records, signals that expire) are read again when due.
 * - Every ten minutes everything is read and compared with what was kept. A difference is logged,
 *   counted and mended.
 */
#ifndef STORE_MARKET_H
#define STORE_MARKET_H

#include <sys/queue.h>

#include "core/hazard/hazard.h"
#include "core/rank/rank.h"
#include "io/pg/pg.h"

struct market;

/* Members of a pool that only lists show. */
struct market_told {
	const char *price_why, *source; /* "" = none */
	const char *signals; /* a JSON array, whose keys carry marks (base/text/json_marks.h) */
	int64_t effective_us;
};

/* One state of the market. */
struct market_snap {
	int64_t version; /* another number for each */
	int64_t at_us; /* wall: the time that hazards and records are of */
	struct offer *offers; /* by pool id, after offers_believe() */
	size_t n;
	struct hazard_model *hazards;
	int64_t hazards_until_us; /* wall: by then they have fallen too far */
	const int64_t
	    *cool_ends; /* of pools that cooled down, or whose capacity had an end, at at_us */
	size_t cool_ends_n;
	/* providers that sell spot; known: an engine has said so */
	const char *const *sellers;
	size_t sellers_n;
	bool sellers_known;
	bool known; /* every feed of pools and prices was read once */
	struct rank_policy policy; /* of hazards */
	/* Only if market_tell() was called: what is told of each offer, and the offered pools
	 * without a price, by id, without estimates. */
	const struct market_told *told, *bare_told;
	const struct offer *bare;
	size_t bare_n;
	/* private to the market */
	bool counted;
	int holds;
	struct arena *arena;
	struct market_names *names;
	uint32_t *by_price, *by_gpu_price;
};
/* The first end of a cooldown after now_us; INT64_MAX: none. A ranking may change then. */
int64_t market_cool_end(const struct market_snap *s, int64_t now_us);
/* NULL: the pool is not offered. One without a price is found after market_tell() alone. */
const struct offer *market_offer(const struct market_snap *s, int32_t pool_id);
/* Returns the indexes of the offers by price, then by pool id. Sorted at the first call. */
const uint32_t *market_by_price(struct market_snap *s);
/* The same by the price of a GPU-hour. Offers without a GPU come last. */
const uint32_t *market_by_gpu_price(struct market_snap *s);
/* Micro-dollars per hour of one GPU; INT64_MAX without a GPU. */
int64_t market_gpu_price(const struct offer *o);
/* Every caller of hold() calls drop() once. NULL accepted. */
struct market_snap *market_hold(struct market_snap *s);
void market_drop(struct market_snap *s);

/* A request that waits for a refresh; zero it before the first use. */
struct market_want {
	/* snap is the want's to hold. NULL: the refresh failed (err) */
	void (*then)(struct market_want *w, struct market_snap *snap, const struct spot_err *err);
	int64_t since_us; /* private: mono */
	bool waits;
	TAILQ_ENTRY(market_want) link;
};

struct market *market_new(struct loop *l, struct pg *pg, const struct rank_policy *p);
void market_free(struct market *m); /* NULL accepted; forgets the wants, keeps held snapshots */
/* Snapshots get the members for lists, too. Call it before the first refresh. */
void market_tell(struct market *m);
/* After a reload of the configuration. */
void market_policy_set(struct market *m, const struct rank_policy *p);
/* Returns the last snapshot, held for the caller, if its refresh began at most age_us ago; else
 * NULL. Begins a refresh in the background once half of that age is over. */
struct market_snap *market_now(struct market *m, int64_t age_us);
/* Calls w->then with a snapshot whose refresh began at since_us (mono) or later; never inside. */
void market_need(struct market *m, struct market_want *w, int64_t since_us);
void market_unwant(struct market_want *w, struct market *m); /* w->then does not run; idempotent */
/* Counts machines just wanted of o against its quota in this snapshot, the one exception to its
 * rest. The next refresh makes a new snapshot from the rows. */
void market_count(struct market_snap *s, const struct offer *o, int64_t machines);
/* The next refresh reads everything and compares. */
void market_compare(struct market *m);
int64_t market_read_us(const struct market *m); /* mono: when the last snapshot's refresh began */
struct market_stats {
	int64_t refreshes, reads, pools_read, compares, mended;
};
struct market_stats market_stats(const struct market *m);

#endif
