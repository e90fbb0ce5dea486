/*
 * Selects the moves to make now. Pure. A move that pays may still come at the wrong hour (window).
 * It may be one too many at once (disruption budget), or one of a herd into one pool. The next wave
 * finds a postponed move again.
 *
 * This file also judges a provider's early warning by our own record. AWS's rebalance
 * recommendation says "elevated risk", but not how often a reclaim follows.
 */
#ifndef CORE_REBALANCE_H
#define CORE_REBALANCE_H

#include "base/base.h"

struct arena;

struct rebalance_policy {
	int32_t wave_max; /* moves begun by one request, 10 */
	/* share of the running jobs that may move at once, per mille, 100; at least one */
	int64_t budget_pm;
	int32_t pool_max; /* moves into one pool per wave, 3 */
	/* bit h: moves may begin in hour h of the day (UTC); 0xffffff */
	uint32_t hours;
	/* a recommendation was right if the node was reclaimed within this time, 2 h */
	int64_t notice_window_us;
};
void rebalance_policy_default(struct rebalance_policy *p);
/* Parses "0-6,22,23" or "" (always). Returns false if text is no list of hours. */
bool rebalance_hours_parse(const char *text, uint32_t *ret);

struct rebalance_move { /* one running job */
	int64_t job_id;
	/* the saving beats the cost by the margin; why_not says otherwise */
	bool pays;
	const char *why_not;
	int64_t saving_micros, cost_micros;
	int32_t to_pool;
	/* the provider recommends to leave its node, and that pays: ignores the window */
	bool urgent;
};
struct rebalance_choice {
	bool go;
	const char *why; /* the reason not to move, static or in the arena */
};
/* Chooses the moves of a wave, the largest gain first, ties by job id. Parameter moving counts the
 * jobs that move already, running all running jobs. ret has one choice per move, in the same
 * order. */
void rebalance_wave(struct arena *a, const struct rebalance_move *moves, size_t n, int64_t running,
    int64_t moving, int64_t now_us, const struct rebalance_policy *p, struct rebalance_choice *ret);

struct recommend_in {
	/* recommendations of this provider; of them, those reclaimed within the window */
	int64_t heard, followed;
	/* odds that a node without one is reclaimed in such a window: hazard x window, per mille */
	int64_t base_followed_pm;
	int64_t move_micros; /* cost of a move now: both nodes paid, changeover */
	/* cost of a reclaim without it: expected lost work, restart, idle wait */
	int64_t lost_micros;
};
struct recommend_out {
	bool move;
	double odds; /* odds that a reclaim follows: Beta(1, 3) updated by our record */
	int64_t worth_micros; /* odds x lost; above what the base rate alone would bring */
	const char *why;
};
void recommend_judge(struct arena *a, const struct recommend_in *in, int64_t margin_pm,
    struct recommend_out *ret);

#endif
