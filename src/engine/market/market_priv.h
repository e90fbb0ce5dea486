/* Private to src/engine/market: shared by the poller's sources. */
#ifndef ENGINE_MARKET_PRIV_H
#define ENGINE_MARKET_PRIV_H

#include "base/base.h"
#include "engine/market/market.h"
#include "store/store.h"
#include "store/q.h"

/* The past that a poll asks for: more than any vendor keeps (Google a year, the others 90 days). */
#define POLL_PAST_US (400 * 24 * SPOT_US_PER_HOUR)

enum feed_kind {
	FEED_NONE = 0,
	FEED_REGIONS,
	FEED_POOLS,
	FEED_PRICES_SPOT,
	FEED_PRICES_ON_DEMAND,
	FEED_SIGNALS,
	FEED_QUOTAS,
	FEED_PRICES_PAST,
	FEED_COUNT
};

/* One poll of one feed, from claim to stored. At most one per feed at a time. */
struct poll {
	struct poller *poller;
	struct poll *next;
	struct arena *arena;
	struct call_provider *provider;
	enum feed_kind kind;
	const char *region;
	int64_t since_us, started_us;
	int64_t epoch; /* our lease when it began */
	bool first; /* no poll of this feed was stored yet */
	int32_t fails;
	struct call call;
	struct pg_req req;
	struct loop_timer unrecorded; /* its end could not be stored: tries again */
	struct price_ingest ingest;
	bool ingest_used;
	/* known pools of the region, as rows and as the provider sees them */
	struct q_market_pools_of_row *rows;
	struct spot_pool_info *pools;
	size_t pools_n;
	struct map index; /* key -> its entry of pools */
	union {
		struct spot_regions regions;
		struct spot_pools pools;
		struct spot_prices prices;
		struct spot_signals signals;
		struct spot_quotas quotas;
	} args;
	size_t seen; /* rows that the feed returned */
	struct q_market_refused_put_point *refused;
	size_t refused_n;
	/* FEED_PRICES_PAST: points before the prices that we have */
	struct spot_price_point *points;
	int32_t *ids;
	size_t points_n;
};

struct provider_health {
	struct poller *poller;
	struct arena *arena;
	struct call whoami;
	const char *account_arg;
	char account[128];
	int64_t ok_us, err_us;
	struct spot_err err;
	/* as its row has it: state, that it ever answered, that the account is known */
	const char *stored;
	bool stored_ok, stored_account;
};

struct poller {
	struct poller_deps deps;
	struct provider_health *health; /* one per provider */
	struct loop_timer tick, housekeeping;
	struct pg_req due, upkeep;
	struct arena *arena; /* of the due statement */
	const char **names;
	const char **steady;
	size_t steady_n; /* of names, with prices that stand for weeks */
	struct poll *polls;
	int running;
	int upkeep_step, upkeep_fails;
	int64_t ages_us; /* mono: no price can become stale before that */
	int purging; /* the purge that is under way, -1: none */
	unsigned purge_more; /* purges that left rows, as bits */
	/* a poll ended while the due ones were read: read again */
	bool due_old;
	struct poller_stats stats;
};

const char *feed_name(enum feed_kind k);
enum feed_kind feed_parse(const char *s);
int64_t feed_interval_us(const struct poller *p, enum feed_kind k);
/* poller_store.c: stores the finished call's results, then ends with poll_done or poll_failed. */
void poll_store(struct poll *p);
/* Keeps a rejected point of a known pool aside. */
void poll_refuse(struct poll *p, int32_t row, const struct spot_price_point *point,
    const char *why);
void poll_refused_room(struct poll *p, size_t n); /* for the points of one call */
/* Stores the rejected points; done gets &p->req.op. */
void poll_refused_put(struct poll *p, void (*done)(struct op *));
void poll_failed(struct poll *p, const struct spot_err *err);
void poll_recorded(struct op *op);
int64_t poller_check_us(const struct poller *p); /* between checks for due feeds */
/* poller_upkeep.c */
void poller_upkeep_init(struct poller *p);
void poller_upkept(struct op *op); /* a step of the upkeep ended */
/* poller_purge.c */
#define POLLER_PURGES 9
void poller_purge(struct poller *p, int i);
void poller_purged(struct poller *p); /* to call before the statement's rows go */
/* poller_past.c: the pools whose past is due next, and its points. */
void past_pools(struct poll *p, void (*done)(struct op *));
void past_args(struct poll *p);
void past_none(struct poll *p);
void past_store(struct poll *p);

/* poller_index.c */
void poll_index_pools(struct poll *p);
int32_t poll_find(const struct poll *p, const struct spot_pool_key *key); /* row, -1 if not known */
void poll_done(struct poll *p);

/* poller_provider.c */
void health_init(struct poller *p);
void health_fini(struct poller *p);
void health_ok(struct poller *p, const struct call_provider *provider);
void health_failed(struct poller *p, const struct call_provider *provider,
    const struct spot_err *err);
size_t health_next(const struct poller *p, size_t turn);
void health_store(struct poller *p, size_t i, void (*done)(struct op *));

#endif
