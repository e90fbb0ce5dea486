/* Recorded prices and supply: the format of a trace, the engine's own past as one, and a job played
 * through it. */
#ifndef CORE_TRACE_TRACE_H
#define CORE_TRACE_TRACE_H

#include "base/base.h"
#include "core/policy/policy.h"

/*
 * Recorded supply of a spot pool over time. A file is {"metadata": {"gap_seconds": g, ...}, "data":
 * [v0, v1, ...]}. Sample i holds for [i*g, (i+1)*g) seconds from the file's start. A value is 0 or
 * 1 (available or not), a count (how many of n nodes were available), or a price in USD per hour.
 * The format is that of the data published with "Can't Be Late" (NSDI'24) and SkyServe
 * (EuroSys'25).
 *
 * Pure: text in, struct in the arena out. Strict: a refusal names file and sample.
 */

struct arena;
#define TRACE_SAMPLES_MAX 1000000
#define TRACE_GAP_S_MAX 86400
#define TRACE_COUNT_MAX 100000
#define TRACE_PRICE_MICROS_MAX 1000000000 /* 1000 USD per hour */

struct trace {
	const char *name; /* file name without its folder */
	/* "us-east-1a", "us-east-1"; both the whole name if it names neither */
	const char *zone, *region;
	int64_t gap_us;
	size_t n;
	const int32_t *counts; /* NULL in a price trace */
	const int64_t *price_micros; /* NULL in an availability trace; per hour */
};

/* Parses a trace into ret, in the arena. path is the source of the text; its last part names zone
 * and region, <zone>_<gpu>_<gpus>.json. */
NODISCARD enum spot_rc trace_parse_supply(struct arena *a, struct str text, const char *path,
    struct trace *ret, struct spot_err *err);
NODISCARD enum spot_rc trace_parse_prices(struct arena *a, struct str text, const char *path,
    struct trace *ret, struct spot_err *err);
/* Returns n samples, in the arena: 1 if at least this many nodes were available. */
const uint8_t *trace_up(struct arena *a, const struct trace *t, int64_t nodes);

/*
 * A backtest over our own past that does not look ahead. It selects the pools of each round by the
 * prices of that time, and assumes the supply of pools that were never tried. Pure; memory is the
 * caller's arena.
 */

struct rng;

struct past_price {
	int64_t at_us, micros;
}; /* per hour, in force from this time on */
struct past_pool {
	double speed; /* relative to the reference machine; divides the price */
	const struct past_price *prices;
	size_t n; /* ascending */
};
/* Returns the price in force at that time; 0 = none is known. Times before the first known price
 * have that price. */
int64_t past_price_at(const struct past_pool *p, int64_t at_us);

/* in round r, which begins at from_us + r * every_us */
struct past_pick {
	size_t round, pool;
};
/* Returns the cheapest `most` pools of each round, ordered by round, then price, then index. Prices
 * are those at the round's begin. A pool without a price that old uses its first one. */
size_t past_picks(struct arena *a, const struct past_pool *pools, size_t n, int64_t from_us,
    int64_t to_us, int64_t every_us, size_t most, struct past_pick **ret);

/* Fills the unknown samples of a supply text: '1' available, '0' not, '?' unknown. They follow a
 * chain of two states that is up for the share `odds` of the time and leaves at `hazard` per hour.
 * It starts by its odds or at the sample before. */
void past_fill(char *up, size_t n, int64_t tick_us, double odds, double hazard, struct rng *r);
/* Fills all unknown samples with the same character. */
void past_fill_with(char *up, size_t n, char with);

/*
 * Runs a job with a deadline over recorded supply: the model of "Can't Be Late" (Wu et al.,
 * NSDI'24).
 *
 * Time is cut into ticks of tick_us. In each tick the policy waits, takes spot in a pool that is
 * up, or takes on demand:
 *
 * 1. It sees the tick's availability and prices, and the past. Spot is lost at the start of the
 *    first tick that is down.
 * 2. The choice holds for the whole tick.
 * 3. An instance of another kind or in another pool costs changeover_us, also after a loss or a
 *    wait. The changeover is paid, makes no progress, and takes as many ticks as it needs. Progress
 *    is durable.
 * 4. Each tick on an instance is paid in full at its price in that tick, the last one too.
 * 5. The run ends when the work is done, and misses if that is after the deadline. It uses only
 *    whole ticks before the deadline. The exception is a job that needs the last piece of a tick
 *    even on demand from the first moment.
 *
 * A run holds one instance at a time. Spot in another region than the last spot instance's costs
 * transfer_micros, since the checkpoint is there. On demand runs where the checkpoint is. A run not
 * done at the deadline finishes on demand.
 *
 * Costs are summed in whole units that divide a micro-dollar (struct trace_unit) and rounded once.
 * Pure; memory is the caller's arena, which may be reset after each run.
 */

struct trace;

#define TRACE_POOLS_MAX 64
struct trace_market { /* pools side by side; made by trace_market_build */
	int64_t tick_us;
	size_t ticks, pools_n;
	const uint8_t *up; /* [tick * pools_n + pool] */
	const int64_t *price_micros; /* same; per hour */
	const uint8_t **pool_up; /* [pool][tick] */
	const int64_t **pool_price;
	const int32_t *regions; /* per pool */
	const char *ends_first; /* name of the shortest trace, which sets the length */
};
struct trace_job {
	int64_t work_us, deadline_us, changeover_us;
	int64_t on_demand_micros, transfer_micros;
};
struct trace_step { /* one tick of the decision log */
	enum policy_act act;
	int32_t pool; /* -1 unless spot */
	int64_t done_us; /* at its start */
	const char *why; /* in the run's arena */
};
struct trace_run {
	size_t start; /* tick of the market at which it began */
	int64_t cost_micros, finish_us;
	/* parts of the cost (trace_run_optimal() leaves them 0) */
	int64_t spot_micros, on_demand_micros, transfer_micros;
	bool missed;
	int32_t changeovers; /* starts of an instance, including the first */
	int32_t spot_ticks, on_demand_ticks, wait_ticks;
	/* on request: spot_ticks + on_demand_ticks + wait_ticks of them */
	struct trace_step *steps;
};

/* Puts traces side by side, as long as the shortest. Parameter prices has one element per supply
 * trace, read at the start of each tick whatever its gap. NULL, or a NULL element, means
 * spot_micros all the time. Refuses supply traces with different gaps. */
NODISCARD enum spot_rc trace_market_build(struct arena *a, const struct trace *supply,
    const struct trace *const *prices, size_t n, int64_t nodes, int64_t spot_micros,
    struct trace_market *ret, struct spot_err *err);
/* Checks that a run fits: feasible on demand, numbers in range, trace long enough. */
NODISCARD enum spot_rc trace_job_check(const struct trace_market *m, const struct trace_job *j,
    struct spot_err *err);
/* ticks that a run may use */
size_t trace_job_ticks(const struct trace_market *m, const struct trace_job *j);
/* Returns the number of possible starts, 0 .. result - 1. 0: the trace is too short. */
size_t trace_starts(const struct trace_market *m, const struct trace_job *j);
int64_t trace_on_demand_cost(const struct trace_market *m, const struct trace_job *j);

/* Runs a policy. history holds other pools' tracks (pool -1), from which the policy may learn. It
 * also gets the pools' own tracks before the start. Fails if the policy chooses something
 * unavailable. */
NODISCARD enum spot_rc trace_run_policy(struct arena *a, const struct trace_market *m,
    const struct trace_job *j, size_t start, const struct policy *p,
    const struct policy_track *history, size_t history_n, bool want_steps, struct trace_run *ret,
    struct spot_err *err);
/* Fills the exact minimum over all sequences of choices, knowing the whole trace. */
void trace_run_optimal(struct arena *a, const struct trace_market *m, const struct trace_job *j,
    size_t start, struct trace_run *ret);

/* Units for exact costs, micro-dollars x den: a tick costs price per hour x num, a move fee x
 * den. */
struct trace_unit {
	int64_t num, den;
};
struct trace_unit trace_unit_of(int64_t tick_us);
int64_t trace_unit_micros(const struct trace_unit *u, int64_t units);

#endif
