/*
 * The market poller: reads pools, prices, interruption signals and quotas of every provider and
 * region into rows, within the providers' published rate limits (the call runner's buckets),
 * jittered, incremental where the feed allows. One row of table `feed` per (provider, region, feed)
 * says when it is due; nothing in memory is needed to go on after a restart. A failing feed backs
 * off and its error is shown; prices that fail the plausibility checks are kept aside with their
 * reason; silent feeds make prices stale, they do not vanish.
 *
 * Owns nothing it is given. Works only while epoch() names a lease (leadership).
 */
#ifndef ENGINE_POLLER_H
#define ENGINE_POLLER_H

#include "io/call/call.h"
#include "io/pg/pg.h"

struct poller_conf {
	int64_t pools_us, spot_us, on_demand_us, signals_us, quotas_us, regions_us; /* intervals */
	/* a spot price unmoved this long is marked frozen; 0 = never */
	int64_t frozen_us;
	int64_t retention_us; /* of price history */
	int parallel_max; /* calls under way at once */
	int64_t look_us; /* between looks for feeds that are due; 0 = 1 s */
};
struct poller_deps {
	struct loop *loop;
	struct pg *pg;
	struct call_provider *const *providers;
	size_t providers_n;
	const struct poller_conf *conf; /* read at each use: a reload is seen */
	/* of our lease: fences what is written; 0 = we do not lead, nothing is done */
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

#endif
