/* The policies that hold a fleet. */
#ifndef FLEETSIM_HELD_BRAINS_H
#define FLEETSIM_HELD_BRAINS_H

#include "fleets/held.h"

#include "brains.h"

/* Parts that ours leaves out, to measure their worth. All false: as it runs live. */
struct held_conf {
	bool no_return; /* nodes do not go back to spot by themselves */
	bool no_rebalance; /* no hourly rebalancing */
	bool no_size; /* always as many nodes as the file allows */
	bool no_floor; /* no node has to be on demand */
	bool no_pools_min; /* nor has the fleet to be in several pools */
	bool on_demand; /* no spot */
};
/* As the engine decides, by the code of src/core/fleet. */
void held_ours(const char *name, const struct held_conf *conf, struct fs_brain *ret);

struct held_base_conf {
	struct base_conf base;
	/* one cluster: all nodes in one pool or none, and the loss of one loses all */
	bool whole;
};
/* Nodes that a strategy of brain_base.c seeks, always as many as the file allows. */
void held_base(const char *name, const struct held_base_conf *conf, struct fs_brain *ret);

#endif
