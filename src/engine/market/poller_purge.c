/* Deletes rows past their retention, one table after the other: retention.sql. */
#include "base/base.h"
#include "engine/market/market_priv.h"

#define MOST 20000
#define MOST_LOGS 2000 /* up to 64 KiB each */
#define AGENTS_DAYS 30

#define PURGE(name, most_) \
	static void purge_##name(struct poller *p, int64_t before_us) \
	{ \
		q_retention_##name(p->deps.pg, &p->upkeep, \
		    &(struct q_retention_##name){ .before_us = before_us, .most = (most_) }, \
		    poller_upkept); \
	}
PURGE(samples, MOST)
PURGE(logs, MOST_LOGS)
PURGE(refused, MOST)
PURGE(misdated, MOST)
PURGE(gaps, MOST)
PURGE(proofs, MOST)
PURGE(keys, MOST)
PURGE(agents, MOST)

static int64_t kept_us(const struct poller *p)
{
	return loop_wall_us(p->deps.loop) - p->deps.conf->retention_us;
}

static void purge_leaks(struct poller *p, int64_t before_us)
{
	q_retention_leaks(p->deps.pg, &p->upkeep,
	    &(struct q_retention_leaks){ .before_us = before_us,
		.keep_before_us = kept_us(p),
		.most = MOST },
	    poller_upkept);
}

static const struct {
	void (*run)(struct poller *p, int64_t before_us);
	int days; /* at most; 0: as long as prices */
	int64_t most;
} purges[POLLER_PURGES] = {
	{ purge_samples, 7, MOST },
	{ purge_logs, 0, MOST_LOGS },
	{ purge_refused, 7, MOST },
	{ purge_misdated, 0, MOST },
	{ purge_gaps, 0, MOST },
	{ purge_leaks, 7, MOST },
	{ purge_proofs, 7, MOST },
	{ purge_keys, 7, MOST },
	{ purge_agents, AGENTS_DAYS, MOST },
};

void poller_purge(struct poller *p, int i)
{
	int64_t keep = p->deps.conf->retention_us;

	p->purging = i;
	purges[i].run(p,
	    loop_wall_us(p->deps.loop) -
		(purges[i].days == 0 ? keep : MIN(keep, purges[i].days * PRICE_DAY_US)));
}

void poller_purged(struct poller *p)
{
	int i = p->purging;

	p->purging = -1;
	if (i < 0 || p->upkeep.op.rc != SPOT_OK) {
		return;
	}
	if (pg_int(p->upkeep.result, 0, 0) >= purges[i].most) {
		p->purge_more |= 1u << i;
	} else {
		p->purge_more &= ~(1u << i);
	}
}
