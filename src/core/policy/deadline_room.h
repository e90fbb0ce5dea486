/*
 * The slack of a deadline. Pure. Slack is the time until the deadline, less the unsaved work, less
 * the way to on-demand: a changeover, the work that spot may still lose, and the time that
 * on-demand launches lately took. While slack is not negative the deadline holds whatever spot
 * does. No choice may make it negative (placing: engine/place/deadline.c; moves:
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
	/* of the on-demand pools that would be in time, aged (odds_half_life_h) */
	double launches, refusals;
	double refused; /* odds that all of them refuse at once */
};
/*
 * The time in which 19 of 20 searches for an on-demand machine are over, by our own record of the
 * on-demand pools that finish within_h (all, if none does). A pool accepts with (launches + 0.98 x
 * 3) / (launches + refusals + 3): on-demand that nobody refused is taken to be there. Pools of a
 * region refuse together, regions on their own. When all have refused they rest for retry_us, twice
 * that after the next round, up to retry_max_us. 0 where nothing was refused.
 */
void launch_reserve_find(const struct ranking *r, double within_h, int64_t retry_us,
    int64_t retry_max_us, struct launch_reserve *ret);

/* Returns the work that a reclaim may take, at most left_us: the work between two saves and the
 * save that fails with it. It is all work if the job does not save by itself. */
int64_t spot_loss_us(const struct score *spot, const struct checkpoint_spec *k, int64_t left_us);

struct move_in {
	int64_t now_us, deadline_us; /* 0 = none */
	const struct score *here, *there;
	const struct score *on_demand; /* to fall back on; NULL: none can be had now */
	int64_t save_us, changeover_us, launch_us;
	/* done, and not saved: to be done again should the save before the move fail */
	int64_t unsaved_us;
	const struct checkpoint_spec *checkpoint;
};
/* May a running job move there? A move that pays is not made when the deadline could be missed for
 * it. NULL: it may; else why not, in the arena. */
const char *move_refused(struct arena *a, const struct move_in *in);

struct stay_in { /* of a job that runs on spot */
	int64_t now_us, deadline_us;
	const struct score *here;
	int64_t left_us; /* on demand with its start, of what is not done */
	int64_t unsaved_us; /* done, and not saved */
	/* in left_us, and done by the clock: of a job that reports no steps what is not saved;
	 * else 0 */
	int64_t clock_us;
	int64_t save_us, changeover_us, launch_us;
};
enum stay { STAY = 1, STAY_TOO_SLOW, STAY_UNSAFE };
/* Must spot be left? Too slow: it would be late here even if nothing were taken back, and on demand
 * is done sooner. Unsafe: a reclaim at this moment would leave too little, and leaving with a save
 * does not. That reclaims are to be expected is no reason by itself: after one there is still on
 * demand. */
enum stay stay_judge(const struct stay_in *in);

#endif
