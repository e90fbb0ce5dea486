/*
 * A fleet that is held over the simulated days by one policy, a brain of sim.h. The policy
 * launches, moves and releases nodes and decides the wanted size. Jobs wait in one queue, ordered
 * by submission. Each starts on the first ready node without work, under every policy alike. Work,
 * saves, notices and money are those of sim.h.
 *
 * A replacement takes no job and does not count while the node that it replaces is there.
 */
#ifndef FLEETSIM_HELD_H
#define FLEETSIM_HELD_H

#include "sim.h"

#include "core/fleet/fleet.h"

struct held_node { /* beside the fs_node of the same index */
	int64_t idle_us; /* ready without work since */
	int64_t replaces, next; /* node that it replaces; its newest replacement. -1 = none */
};

struct held {
	struct fs_sim s; /* first: a brain gets the fleet by held_of() */
	const struct fleet_spec *spec;
	const struct fs_job *unit; /* a pool suits the fleet if it suits this */
	struct held_node *nodes;
	size_t nodes_cap;
	int64_t *alive; /* nodes that are there or were when the step began */
	size_t alive_n, alive_cap;
	int32_t wanted; /* nodes; the brain's decision */
	int32_t *wanted_at; /* of each step */
	int64_t refused, moves, reclaims, short_us;
};

struct held_world {
	struct fs_world w; /* its jobs are the fleet's */
	const struct fleet_spec *spec;
	struct fs_job unit;
};

/* Reads a fleet file as the API does. Returns false, with the error on stderr, for one that the
 * simulation cannot hold. */
bool held_spec_read(struct arena *a, struct str text, struct fleet_spec **ret);
/* Makes the fleet's world: the jobs that ask for its GPU. A fleet of fixed size has instead one job
 * without end for each node. Returns false if no job suits. */
bool held_world_make(struct arena *a, const struct fs_world *w, const struct fleet_spec *spec,
    struct held_world *ret);
/* Returns the most nodes that the fleet may want. */
int32_t held_most(const struct fleet_spec *spec);

/* Runs to the horizon. Then the jobs save and the nodes end. Arena: everything of the run. */
void held_run(struct arena *a, const struct held_world *w, const struct fs_brain *b,
    int64_t horizon_us, struct held *ret);
void held_result(struct arena *a, const struct held *h, struct fs_result *ret);

/* ---- for brains ---- */

struct held *held_of(struct fs_sim *s);
bool held_there(const struct held *h, int64_t node);
bool held_idle(const struct held *h, int64_t node); /* has no work */
/* Returns whether the node that it replaces still counts. */
bool held_stands_in(const struct held *h, int64_t node);
/* Returns the replacement that was launched for a node; -1 = none. */
int64_t held_next(const struct held *h, int64_t node);
/* Launches a node. replaces: a node, or -1. Returns false if the pool refuses. */
bool held_launch(struct held *h, int32_t pool, int64_t replaces);
/* Ends a node for its replacement, which is ready. A job saves first and goes on there. */
void held_move(struct held *h, int64_t node);
void held_release(struct held *h, int64_t node); /* ends a node without work */
/* Ends a node at once: its job goes back to the queue, and its unsaved work is lost. */
void held_drop(struct held *h, int64_t node);

#endif
