/* The policies that the simulation compares. */
#ifndef FLEETSIM_BRAINS_H
#define FLEETSIM_BRAINS_H

#include "sim.h"

/* Parts that ours leaves out, to measure their worth. All false: as it runs live. */
struct ours_conf {
	bool no_hazards; /* every spot pool is taken to be safe */
	bool no_odds; /* every launch is expected to succeed */
	bool no_return; /* on demand once, on demand for good */
	bool no_deadline; /* patience instead of the deadline policy */
	bool no_rebalance; /* nothing moves that is not made to */
	bool no_defer; /* nothing waits for cheaper hours */
	/* a job without a deadline waits for spot so long; 0: as [engine] patience */
	int64_t patience_us;
	bool fixed_interval; /* saved every half hour, as users do */
};

/* As the engine decides, by the code of src/core. arg: struct ours_conf. */
void ours_brain(const char *name, const struct ours_conf *conf, struct fs_brain *ret);

enum base_kind {
	BASE_ON_DEMAND = 1,
	/* SkyPilot's EAGER_NEXT_REGION: the region that was lost is skipped once */
	BASE_EAGER,
	/* SkyPilot's FAILOVER: the region that was lost comes first, three tries */
	BASE_FAILOVER
};
struct base_conf {
	enum base_kind kind;
	/* any_of: on demand where no spot was to be had; it stays there */
	bool or_on_demand;
};
#define BASE_INTERVAL_US (1800 * SPOT_US_PER_S) /* of saves, as users set it */
/* The tries of one seeker since it last had a place. */
struct base_round {
	uint64_t asked[FS_POOLS_MAX / 64 + 1];
	int32_t starts; /* of the task when the round began */
	int32_t same; /* tries left in the old region */
	bool skip;
	bool begun;
};
/* Makes the next try of a seeker. k: what it seeks, its last pool and its starts. launch returns
 * false if the pool refuses. */
void base_seek(struct fs_sim *s, const struct base_conf *c, const struct fs_task *k,
    struct base_round *r, bool (*launch)(void *ctx, int32_t pool), void *ctx);
/* By list price; arg: struct base_conf. */
void base_brain(const char *name, const struct base_conf *conf, struct fs_brain *ret);

#endif
