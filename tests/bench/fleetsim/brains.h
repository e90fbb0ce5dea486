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
/* By list price; arg: struct base_conf. */
void base_brain(const char *name, const struct base_conf *conf, struct fs_brain *ret);

#endif
