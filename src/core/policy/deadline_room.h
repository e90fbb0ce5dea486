/*
 * The slack of a deadline. Pure. Slack is the time until the deadline minus the time that the job
 * needs to finish on demand. That time covers the unsaved work, a changeover, the work that a
 * reclaim may still take, and the recent delay of on-demand launches. If slack is not negative,
 * the job meets its deadline even if spot ends now. No choice may make slack negative
 * (placements: engine/place/deadline.c; moves:
 * engine/place/rebalance.c, engine/place/move_back.c).
 */
#ifndef CORE_DEADLINE_ROOM_H
#define CORE_DEADLINE_ROOM_H

#include "base/base.h"
#include "core/rank/rank.h"

/* The largest reserve for launches. An earlier start does not help against a longer refusal. */
#define LAUNCH_RESERVE_MOST_US SPOT_US_PER_HOUR

struct launch_reserve {
	int64_t us;
	/* of the on-demand pools that would meet the deadline, aged (odds_half_life_h) */
	double launches, refusals;
	double refused; /* odds that all of them refuse at once */
};
/*
 * Fills the time in which 19 of 20 searches for an on-demand machine end. It uses our own record of
 * the on-demand pools that finish within_h, or of all if none does. A pool accepts with odds
 * (launches + 0.98 x 3) / (launches + refusals + 3), so a pool without refusals counts as
 * available. Pools of a region refuse together, regions independently. After a refusal by all they
 * cool down for retry_us, doubled each round up to retry_max_us. 0 if nothing was refused.
 */
void launch_reserve_find(const struct ranking *r, double within_h, int64_t retry_us,
    int64_t retry_max_us, struct launch_reserve *ret);

/* Returns the work that a reclaim may take, at most left_us: the work between two saves and the
 * save that fails with it. It is all work if the job does not save by itself. */
int64_t spot_loss_us(const struct score *spot, const struct checkpoint_spec *k, int64_t left_us);

struct move_in {
	int64_t now_us, deadline_us; /* 0 = none */
	const struct score *here, *there;
	const struct score *on_demand; /* fall-back; NULL: none is usable now */
	int64_t save_us, changeover_us, launch_us;
	/* done but not saved: lost if the save before the move fails */
	int64_t unsaved_us;
	const struct checkpoint_spec *checkpoint;
};
/* Returns NULL if a running job may move there, else the reason, in the arena. A move that pays is
 * refused if it could miss the deadline. */
const char *move_refused(struct arena *a, const struct move_in *in);

struct stay_in { /* of a job that runs on spot */
	int64_t now_us, deadline_us;
	const struct score *here;
	int64_t left_us; /* time on demand for the work left, its start included */
	int64_t unsaved_us; /* done but not saved */
	/* part of left_us that is done by the clock: the unsaved work of a job that reports no
	 * steps, else 0 */
	int64_t clock_us;
	int64_t save_us, changeover_us, launch_us;
};
enum stay { STAY = 1, STAY_TOO_SLOW, STAY_UNSAFE };
/* Returns whether a job must leave spot. Too slow: it would be late here even without reclaims, and
 * on demand finishes sooner. Unsafe: a reclaim now would leave too little time, but leaving with a
 * save would not. Expected reclaims alone are no reason, since on demand remains after one. */
enum stay stay_judge(const struct stay_in *in);

#endif
