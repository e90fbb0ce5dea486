/*
 * Private to our policy for a fleet. These files play the part of fleet.c and fleet_size.c in
 * src/engine/launch, and of fleet_move.c and fleet_move_judge.c in src/engine/place. They turn the
 * simulated nodes into src/core's inputs and carry out the answers. Every decision is src/core's:
 * the size, the plan, the patience for spot, and the moves.
 */
#ifndef FLEETSIM_HELD_OURS_H
#define FLEETSIM_HELD_OURS_H

#include "fleets/held_brains.h"

#include "core/place/place.h"
#include "ours.h"

#define PAST_US (24 * SPOT_US_PER_HOUR) /* older launches are forgotten */

struct sent { /* a launch that the fleet tried */
	int64_t at_us;
	int64_t node; /* -1 = refused */
	size_t before; /* nodes that existed by then */
	int32_t pool;
	bool probe; /* for a move */
};

struct mind {
	struct ours o; /* first: ours_interval() takes it */
	const struct held_conf *conf;
	struct fleet_spec spec; /* with today's size */
	struct job_spec job;
	struct place_policy place;
	bool sized, open;
	int64_t size_us, slack_us, rebalanced_us;
	struct sent *sent;
	size_t sent_n, sent_cap;
};

/* held_ours.c */
bool mind_launch(struct held *h, struct mind *m, int32_t pool, int64_t replaces);
bool node_counts(const struct held *h, int64_t node); /* it is there, and no stand-in */
bool node_was_ready(const struct held *h, int64_t node);
/* Fills the ask without its nodes. Returns its scores. */
struct score *ask_begin(struct held *h, struct mind *m, struct fleet_ask *ret);
/* Returns the entry of a pool in the list, a new one if there is none. */
struct fleet_have *have_find(const struct held *h, struct mind *m, struct fleet_ask *ask,
    struct fleet_have *list, int32_t pool);
/* Ends the list: its scores are those of pools that need not be asked now. */
void have_end(const struct held *h, struct mind *m, struct fleet_ask *ask, struct fleet_have *list);

/* held_size.c */
void size_step(struct held *h, struct mind *m);
/* Gives back the nodes that idle for the longest, as a fleet with a range of sizes does. */
void idle_drop(struct held *h, struct mind *m, int32_t floor_want);
/* The surplus goes with the node that was to replace it. */
void surplus_drop(struct held *h, int64_t node);

/* held_moves.c */
/* Carries out the moves whose replacement is ready. A node with a job waits for return_hold. */
void pairs_step(struct held *h, struct mind *m);
/* return_only: from on demand to spot. */
void moves_step(struct held *h, struct mind *m, bool return_only);
/* Returns whether ready nodes are on demand beyond the floor and none replaces them. */
bool return_due(const struct held *h, const struct mind *m);

#endif
