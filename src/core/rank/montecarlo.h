/*
 * Simulates a job's cost and end as a distribution. It plays the chosen offer and its fall-backs
 * many times over the current estimates. Pure and deterministic: the same inputs and seed give the
 * same figures. Each run draws the error of the hazards (gamma by their intervals) and the times of
 * the reclaims. It draws the other pools lost at the same moment (hazard_correlation), refused
 * launches, and notices that come too late. Each price moves towards its faded mean and wanders as
 * an Ornstein-Uhlenbeck process.
 *
 * A run fails over in the order of the ranking, with a deadline only to offers that meet it. It
 * goes to on-demand when no spot pool is left, and at the last moment at which on-demand still
 * meets the deadline. It then stays there.
 */
#ifndef CORE_MONTECARLO_H
#define CORE_MONTECARLO_H

#include "core/rank/ranking.h"

#define MONTECARLO_RUNS 2000
#define MONTECARLO_LEAST 200
/* in all runs together, as expected: a long job in a bad pool gets fewer runs */
#define MONTECARLO_STARTS 100000
#define MONTECARLO_PLACES 12

struct montecarlo_in {
	const struct ranking *ranking; /* at least one usable */
	size_t chosen; /* index into its scores */
	const struct hazard_model *hazards; /* NULL: pools fail independently */
	int64_t now_us, deadline_us; /* 0 = none */
	size_t runs; /* 0 = MONTECARLO_RUNS, or fewer by MONTECARLO_STARTS */
	uint64_t seed;
	/* 0 and 1 = one; else a gang in each place: any reclaim stops all, all are paid */
	int32_t nodes;
};
struct montecarlo_out {
	size_t runs;
	uint64_t seed;
	int64_t cost_mean_micros, cost_p5_micros, cost_p50_micros, cost_p95_micros;
	double hours_mean, hours_p5, hours_p50, hours_p95;
	/* means; moves = starts in another pool */
	double interruptions, lost_h, moves, on_demand_h;
	double deadline_odds; /* of meeting it; 1 without one */
	/* runs given up after MONTECARLO_STARTS_MAX starts; counted as missing it */
	size_t unfinished;
};
#define MONTECARLO_STARTS_MAX 20000
void montecarlo_run(struct arena *a, const struct montecarlo_in *in, struct montecarlo_out *ret);

#endif
