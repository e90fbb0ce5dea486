/*
 * The market: a poller that reads it into rows, and a reconciler that judges how tight supply is.
 *
 * The poller reads pools, prices, interruption signals and quotas of every provider and region,
 * within the providers' published rate limits (the call runner's buckets). Polls are jittered, and
 * incremental where the feed allows. One row of table `feed` per (provider, region, feed) says when
 * it is due; no state in memory is needed after a restart. A failing feed backs off and shows its
 * error. Prices that fail the plausibility checks are kept aside with their reason. Prices of a
 * silent feed become stale; they do not vanish.
 *
 * The poller owns nothing it is given, and works only while epoch() names a lease.
 */
#ifndef ENGINE_MARKET_H
#define ENGINE_MARKET_H

#include "io/call/call.h"
#include "io/pg/pg.h"

struct poller_conf {
	int64_t pools_us, spot_us, on_demand_us, signals_us, quotas_us, regions_us; /* intervals */
	/* a spot price unmoved this long is marked frozen; 0 = never */
	int64_t frozen_us;
	int64_t retention_us; /* of price history */
	int parallel_max; /* calls under way at once */
	int64_t look_us; /* between checks for feeds that are due; 0 = 1 s */
};
struct poller_deps {
	struct loop *loop;
	struct pg *pg;
	struct call_provider *const *providers;
	size_t providers_n;
	const struct poller_conf *conf; /* read at each use, so that a reload takes effect */
	/* of our lease: fences all writes; 0 = we do not lead, and nothing is done */
	int64_t (*epoch)(void *ctx);
	void *ctx;
};
struct poller;
struct poller *poller_new(const struct poller_deps *deps);
void poller_free(struct poller *p); /* NULL accepted */
struct poller_stats {
	int64_t polls, failed, points, changed, refused;
};
struct poller_stats poller_stats(const struct poller *p);

struct engine;
struct offer;
struct recon_kind;
struct tight_group;
extern const struct recon_kind tighten_kind; /* supply_state per provider, region and GPU */
/* True when the rows call the supply of the offer's group tight. */
bool supply_tight(const struct engine *e, const struct offer *o);
/* All tight groups, as last read from their rows. */
size_t supply_tight_groups(const struct engine *e, const struct tight_group **ret);

#endif
