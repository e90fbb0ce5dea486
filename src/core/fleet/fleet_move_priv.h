/* Private to the files of fleet_move.h. */
#ifndef CORE_FLEET_MOVE_PRIV_H
#define CORE_FLEET_MOVE_PRIV_H

#include "core/fleet/fleet_move.h"
#include "core/fleet/fleet_priv.h"

/* A move must not lower these below the wanted amounts. */
struct fleet_kept {
	int64_t total, floor, pools;
};
struct fleet_movement {
	struct arena *arena;
	const struct fleet_move_in *in;
	struct fleet_model m; /* with the moves chosen so far */
	struct fleet_kept was;
	struct fleet_item **dests; /* by cost */
	size_t dests_n, weighed;
	/* of each node: its pool, and the best destination */
	struct fleet_item **at, **to;
	const char **why; /* never moves; NULL = may */
	struct fleet_move *best;
	bool *moved, *better;
	const char **bound; /* the rule that keeps it where a better place would be; NULL = none */
	const char *binds; /* of the node at hand */
};

/* The saving beyond the cost and the margin. */
double fleet_move_net(const struct fleet_move_in *in, const struct fleet_move *m);
/* Returns why the node may not move at all; NULL = it may. */
const char *fleet_move_never(const struct fleet_movement *x, size_t node);
/* Returns why the move does not begin now, beside those of so_far; NULL = it begins. */
const char *fleet_move_waits(const struct fleet_movement *x, const struct fleet_moves *so_far,
    size_t node);
const char *fleet_move_words(const struct fleet_movement *x, const struct fleet_move *m,
    const char *wait);
void fleet_stays_fill(const struct fleet_movement *x, struct fleet_moves *ret);

#endif
