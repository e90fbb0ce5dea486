/*
 * Decides the order of waiting jobs, backfill and preemption. Pure: the same values give the same
 * order and reasons on every run.
 *
 * - Order: effective priority, then nearness of the deadline, then the teams' dollars over their
 *   shares, then age. Dollars fade with share_half_life_us. Jobs ahead in the queue count as spent,
 *   so two teams with equal shares alternate (weighted fair queueing by dollars: Demers, Keshav and
 *   Shenker 1989).
 * - Ageing: a waiting job gains age_points per age_every_us, at most age_max. A job within age_max
 *   of all new arrivals is therefore never starved.
 * - Backfill: EASY (Lifka 1995, "The ANL/IBM SP scheduling system"). The first blocked job reserves
 *   capacity from the moment at which the predicted ends free enough. Another job may use free
 *   capacity only if it is expected to end by then, or leaves enough.
 * - Victims: the cheapest set that frees enough, exactly, as a knapsack cover over units.
 */
#ifndef CORE_SCHEDULE_H
#define CORE_SCHEDULE_H

#include "base/base.h"

struct arena;

struct schedule_policy {
	int64_t age_every_us; /* 12 h */
	int64_t age_points, age_max; /* 25 for each, 100 at most */
	/* a priority must be this much higher to preempt: 100; 0 = never */
	int64_t preempt_gap;
	int64_t preempt_hold_us; /* a preempted job is not preempted again for this long: 1 h */
	int64_t share_half_life_us; /* 7 d */
};
void schedule_policy_default(struct schedule_policy *p);

/* ---- order ----------------------------------------------------------------------------------- */

struct schedule_team {
	const char *team;
	/* its share relative to the others', per mille of an ordinary one; at least 1 */
	int64_t weight_pm;
	int64_t spent_micros; /* faded */
};
struct schedule_job {
	int64_t id;
	const char *team; /* "" = none, which counts as a team */
	int32_t priority;
	int64_t queued_us; /* waits since */
	int64_t deadline_us, left_us; /* 0 = none; expected time to finish */
	/* expected; counts as spent while it is ahead of others */
	int64_t cost_micros;
};
struct schedule_place {
	size_t job; /* index */
	int32_t effective; /* priority with its ageing */
	/* 0 = under an hour of slack, 1 = under 6 h, 2 = under a day, 3 = more, or no deadline */
	int32_t urgency;
	/* dollars of its team over its share, with the jobs ahead; 1 = exactly its share */
	double ratio;
	const char *why; /* "behind j12: ..." */
};
int32_t schedule_effective(const struct schedule_policy *p, int32_t priority, int64_t queued_us,
    int64_t now_us);
/* Returns one team's dollars over its share: 1 = exactly its share, 0 if nobody spent anything. */
double schedule_ratio(const struct schedule_team *teams, size_t n, size_t i);
/* Fills ret with n places in order. A team missing from teams has the ordinary share and spent
 * nothing. */
void schedule_order(struct arena *a, const struct schedule_policy *p, int64_t now_us,
    const struct schedule_team *teams, size_t teams_n, const struct schedule_job *jobs, size_t n,
    struct schedule_place *ret);

/* ---- backfill -------------------------------------------------------------------------------- */

struct backfill_run {
	int64_t end_us, units;
};
struct backfill {
	/* expected start of the blocked job; INT64_MAX = unknown, nobody is held back */
	int64_t shadow_us;
	int64_t spare; /* units left over then */
};
/* Reserves for a blocked job that needs `need` units of a quota, by its limit and used units. A
 * past end counts as now. Units that runs hold are not free even if used lacks them, since the runs
 * were read earlier and some have ended since. */
void backfill_reserve(struct arena *a, int64_t now_us, int64_t limit, int64_t used, int64_t need,
    const struct backfill_run *runs, size_t n, struct backfill *ret);
/* Returns whether a job of these units that ends at end_us may begin. If so, takes its part of the
 * spare units. */
bool backfill_take(struct backfill *b, int64_t units, int64_t end_us);
/* The same without taking. */
bool backfill_fits(const struct backfill *b, int64_t units, int64_t end_us);

/* ---- preemption ------------------------------------------------------------------------------ */

struct victim {
	int64_t job_id;
	int32_t priority;
	bool interruptible, preemptible, has_path; /* has_path: it keeps checkpoints */
	bool moving; /* stopping already, or on a node that ends */
	int64_t price_micros; /* of all its machines, per hour */
	int64_t ran_us; /* of this attempt */
	int64_t saved_us; /* time since its newest checkpoint; ran_us without one */
	int64_t save_us, restart_us; /* expected */
	int64_t last_us; /* its last preemption; 0 = never */
	int64_t deadline_us; /* 0 = none */
	int64_t left_us; /* of its work, expected; 0 = unknown */
	int64_t units; /* units that it frees */
	int64_t cost_micros; /* by victim_cost() */
};
/*
 * Returns whether a preempted job would still meet its deadline. It saves, waits for
 * preempt_hold_us and restarts. It repeats the work since the checkpoint, as if the save failed.
 * The rest takes half as long again as expected. True without a deadline, false if the work left is
 * unknown.
 */
bool victim_deadline_holds(const struct schedule_policy *p, const struct victim *v, int64_t now_us);
/* Returns why a job of this priority may not preempt v; NULL = it may. */
const char *victim_refusal(struct arena *a, const struct schedule_policy *p, const struct victim *v,
    int32_t priority, int64_t now_us);
/* Returns the cost of a preemption: the save, the restart and the repeated work. With checkpoints
 * that is the unsaved work times the share of saves that fail, without them all work. */
int64_t victim_cost(const struct victim *v, double notice_saves);
/* Chooses the set of least cost, then of fewest jobs, then the first in the list. ret: ascending
 * indices. Returns false if all of them together do not free need. */
NODISCARD bool victims_choose(struct arena *a, const struct victim *list, size_t n, int64_t need,
    size_t **ret, size_t *ret_n);

#endif
