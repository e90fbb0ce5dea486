/*
 * Fail-over and return. Pure. A job tries spot first. It fails over to on-demand when no spot pool
 * accepts it within the patience that its deadline allows. It returns to spot when spot has been
 * available long enough. The saving over the remaining work must also beat the cost of the move by
 * a margin. Moves per hour are bounded.
 */
#ifndef CORE_SUPPLY_H
#define CORE_SUPPLY_H

#include "base/base.h"
#include "core/rank/rank.h"

struct supply_policy {
	int64_t patience_us; /* without a deadline: wait this long for spot, 10 min */
	/* with a deadline: at most this share of the slack, 250 per mille */
	int64_t patience_max_share_pm;
	/* a spot replacement must have been READY this long, 5 min */
	int64_t return_hold_us;
	/* between probes for spot while on on-demand, 5 min, doubled per refusal <= 1 h */
	int64_t return_probe_us;
	int64_t return_margin_pm; /* the saving must beat the cost by this, 200 per mille */
	int32_t moves_per_hour_max; /* 4 */
	int64_t changeover_us; /* restart + restore, 4 min */
	/* of the patience that is left when supply is tight, 250 per mille */
	int64_t tight_patience_pm;
};
void supply_policy_default(struct supply_policy *p);

enum supply_choice { SUPPLY_SPOT = 1, SUPPLY_ON_DEMAND, SUPPLY_WAIT };
struct supply_in {
	int64_t now_us, queued_us; /* waiting since */
	int64_t deadline_us; /* 0 = none */
	int64_t work_left_us; /* on the best usable on-demand offer; 0 = unknown */
	/* usable scores in each market (not cooling, suiting) */
	size_t spot_usable, on_demand_usable;
	size_t spot_refused; /* spot pools that suit but cool down after a refusal */
	bool spot_allowed, on_demand_allowed;
	int64_t spot_best_micros, on_demand_best_micros; /* expected totals; 0 = none */
	/* supply is tight in every group that has a usable spot pool (core/policy/tightness.h) */
	bool spot_tight;
};
/* Chooses a market. ret_why: the reason with the numbers. ret_until_us: when to decide again. */
enum supply_choice supply_choose(struct arena *a, const struct supply_in *in,
    const struct supply_policy *p, const char **ret_why, int64_t *ret_until_us);

struct return_in {
	int64_t now_us;
	int64_t work_left_us;
	int64_t here_total_micros; /* expected cost to finish at the current place */
	int64_t there_total_micros; /* expected cost to finish on the best spot offer */
	int64_t there_price_micros; /* per hour */
	int64_t here_price_micros;
	int64_t last_move_us; /* 0 = never */
	int32_t moves_last_hour;
	int32_t probes_refused; /* in a row */
	int64_t last_probe_us; /* 0 = never */
	bool there_tight; /* supply there is tight: no return before it eases */
	double speed; /* there relative to here; 0 = the same */
};
/* Fills what the two places determine. The caller adds the job's moves and probes. there NULL = no
 * place suits. */
struct return_in return_pair(int64_t now_us, const struct score *here, const struct score *there);
/* Returns the candidate of n with the largest saving beyond its cost and the margin. Each probe
 * that its pool refused since the job's last move halves the saving. So do each two refusals by
 * neighbours (same provider, region and GPU). refused has one entry per refusal. A pool that keeps
 * refusing thus yields to others that pay, and none is forgotten. Ties: the first. NULL: no move
 * pays. */
const struct score *return_probe(const struct score *const *there, size_t n,
    const struct score *here, const struct offer *const *refused, size_t refused_n,
    const struct supply_policy *p);
/* Returns the share of a saving that is left in this pool after those refusals. */
double return_share(const struct offer *o, const struct offer *const *refused, size_t n);
/* Returns the pause after that many refused probes in a row. */
int64_t return_pause_us(const struct supply_policy *p, int32_t refused);
struct return_out {
	bool move;
	int64_t saving_micros, cost_micros, again_us;
	const char *why;
};
/* Decides whether to launch a replacement now. The job leaves only after that launch: the probe is
 * the replacement itself. */
void return_decide(struct arena *a, const struct return_in *in, const struct supply_policy *p,
    struct return_out *ret);

#endif
