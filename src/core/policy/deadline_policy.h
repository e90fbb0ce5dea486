/*
 * Deadline policies: in each tick run on spot (and in which pool), on demand, or wait. Pure. A
 * policy gets the past and this tick, and returns a choice with its reason. The trace simulator
 * (core/trace/trace.h), the engine and backtests drive the same tables of functions.
 *
 * The model of a run is "Can't Be Late" (Wu et al., NSDI'24): work_us of work by deadline_us, both
 * from the start of the run. A start on another kind of instance, or in another pool, costs
 * changeover_us that is paid and makes no progress. Progress is durable. A choice holds for one
 * tick. A spot instance is lost at the start of the first tick in which its pool is down.
 *
 * A policy never misses a deadline that is feasible on demand (work + changeover <= deadline). Each
 * one ends in policy_must_run().
 */
#ifndef CORE_DEADLINE_POLICY_H
#define CORE_DEADLINE_POLICY_H

#include "base/base.h"

struct arena;
struct rise;

enum policy_act { POLICY_WAIT = 1, POLICY_SPOT, POLICY_ON_DEMAND };

/* fixed for a run; owned by the caller, outlives the policy's state */
struct policy_setup {
	int64_t work_us;
	int64_t deadline_us;
	int64_t changeover_us;
	int64_t tick_us;
	int64_t on_demand_micros; /* per hour */
	size_t pools_n; /* spot pools that the job may use, one at a time */
	const int32_t *regions; /* per pool, equal = same region; NULL: all in one */
	/* a move between two regions costs this besides the changeover */
	int64_t transfer_micros;
};

/* The record of a pool before the run, oldest first, one sample per tick_us of its own. */
struct policy_track {
	/* index into the run's pools; -1: another pool, only evidence of the usual */
	int32_t pool;
	int64_t tick_us;
	size_t n;
	const uint8_t *up; /* 1 = available in that tick */
	const int64_t *price_micros; /* NULL: not known */
};

struct policy_view {
	int64_t elapsed_us; /* start of this tick, from the start of the run */
	int64_t done_us; /* progress */
	/* POLICY_WAIT: nothing. A spot instance whose pool is down is already lost */
	enum policy_act held;
	size_t held_pool; /* when held is POLICY_SPOT */
	int64_t changeover_left_us; /* of what is held */
	/* a pool in the checkpoint's region; SIZE_MAX: no checkpoint yet */
	size_t last_pool;
	const uint8_t *up; /* per pool, in this tick */
	const int64_t *price_micros; /* per pool, per hour, in this tick */
	/* per pool: the rise of its hazard after reclaims of siblings (core/hazard), of all the
	 * job's machines there; NULL: none */
	const struct rise *rise;
};

struct policy_choice {
	enum policy_act act;
	size_t pool; /* when act is POLICY_SPOT; it is up */
	const char *why; /* one line, static or in the state's arena */
};

struct policy {
	const char *name; /* "auto", "uniform-progress", "greedy", "on-demand" */
	/* Returns the state of one run, in the arena. Keeps no reference to tracks. Same arguments,
	 * same state. */
	void *(*begin)(struct arena *a, const struct policy_setup *s,
	    const struct policy_track *tracks, size_t n);
	void (*decide)(void *state, const struct policy_view *v, struct policy_choice *ret);
};

extern const struct policy policy_auto, policy_uniform_progress, policy_greedy, policy_on_demand;
const struct policy *policy_find(const char *name); /* NULL if there is none */
const struct policy *policy_at(size_t i); /* iterates; NULL after the last */

/* Returns whether this tick must make progress: on demand, or on held spot with its changeover
 * done. This is the last safe moment, aligned to ticks: after one more idle tick the rest no longer
 * fits. */
bool policy_must_run(const struct policy_setup *s, const struct policy_view *v);
/* Returns whether a tick on spot in this pool is safe: on demand still fits if spot is lost right
 * after it. Finer than policy_must_run(): a fresh start makes less progress, and running spot is
 * always safe. Waiting is safe when !policy_must_run(). */
bool policy_spot_safe(const struct policy_setup *s, const struct policy_view *v, size_t pool);

#endif
