/*
 * Who is next, who may go ahead meanwhile, and who has to make room. Pure: values in, order and
 * reasons out; the same values give the same order on every run.
 *
 *   order     effective priority, then nearness of the deadline, then the teams' dollars over their
 *             shares, then age. Dollars fade with share_half_life_us, and what stands ahead in the
 *             queue counts as spent, so that two teams with equal shares take turns (weighted fair
 *             queueing by dollars: Demers, Keshav and Shenker 1989).
 *   ageing    a job that waits gains age_points per age_every_us, at most age_max: whoever is
 *             within age_max of what keeps arriving has its turn.
 *   backfill  EASY (Lifka 1995, "The ANL/IBM SP scheduling system"): the first blocked job has the
 *             capacity reserved from the moment at which, by the predicted ends, there will be
 *             enough; another may take what is free only if it is expected to be gone by then, or
 *             leaves enough.
 *   victims   the set of least cost that frees enough: exactly, as a knapsack cover over units.
 */
#ifndef CORE_SCHEDULE_H
#define CORE_SCHEDULE_H

#include "base/base.h"

struct arena;

struct schedule_policy {
	int64_t age_every_us; /* 12 h */
	int64_t age_points, age_max; /* 25 for each, 100 at most */
	/* so much higher must a priority be to make another job leave: 100; 0 = never */
	int64_t preempt_gap;
	int64_t preempt_hold_us; /* a job that had to leave is left alone for so long: 1 h */
	int64_t share_half_life_us; /* 7 d */
};
void schedule_policy_default(struct schedule_policy *p);

/* ---- order ----------------------------------------------------------------------------------- */

struct schedule_team {
	const char *team;
	/* its share against the others', per mille of an ordinary one; at least 1 */
	int64_t weight_pm;
	int64_t spent_micros; /* faded */
};
struct schedule_job {
	int64_t id;
	const char *team; /* "" = none, which is a team as well */
	int32_t priority;
	int64_t queued_us; /* waits since */
	int64_t deadline_us, left_us; /* 0 = none; expected time to finish */
	/* expected; what it counts for while it stands ahead of others */
	int64_t cost_micros;
};
struct schedule_place {
	size_t job; /* index */
	int32_t effective; /* priority with its ageing */
	/* 0 = under an hour of slack, 1 = under 6 h, 2 = under a day, 3 = more, or no deadline */
	int32_t urgency;
	/* dollars of its team over its share, with what stands ahead; 1 = exactly its share */
	double ratio;
	const char *why; /* "behind j12: ..." */
};
int32_t schedule_effective(const struct schedule_policy *p, int32_t priority, int64_t queued_us,
    int64_t now_us);
/* Dollars of one team over its share among teams: 1 = exactly, 0 where nobody spent anything. */
double schedule_ratio(const struct schedule_team *teams, size_t n, size_t i);
/* ret: n places in order. Teams that are not among teams have the ordinary share and spent
 * nothing. */
void schedule_order(struct arena *a, const struct schedule_policy *p, int64_t now_us,
    const struct schedule_team *teams, size_t teams_n, const struct schedule_job *jobs, size_t n,
    struct schedule_place *ret);

/* ---- backfill -------------------------------------------------------------------------------- */

struct backfill_run {
	int64_t end_us, units;
};
struct backfill {
	/* the blocked job is expected to begin then; INT64_MAX = cannot be said, nobody is held */
	int64_t shadow_us;
	int64_t spare; /* units that it leaves then */
};
/* limit and used units of the quota, need of the blocked job; an end that is past counts as now.
 * What runs hold is not free though used lacks it: they were read before it, and some have gone
 * since. */
void backfill_reserve(struct arena *a, int64_t now_us, int64_t limit, int64_t used, int64_t need,
    const struct backfill_run *runs, size_t n, struct backfill *ret);
/* May a job of so many units that ends at end_us begin? If so, what it takes of the spare ones is
 * taken. */
bool backfill_take(struct backfill *b, int64_t units, int64_t end_us);
/* The same without taking. */
bool backfill_fits(const struct backfill *b, int64_t units, int64_t end_us);

/* ---- preemption ------------------------------------------------------------------------------ */

struct victim {
	int64_t job_id;
	int32_t priority;
	bool interruptible, preemptible, has_path; /* has_path: it keeps checkpoints */
	bool moving; /* told to stop already, or its node goes */
	int64_t price_micros; /* per hour, of its machines */
	int64_t ran_us; /* of this attempt */
	int64_t saved_us; /* since its newest checkpoint; ran_us where there is none */
	int64_t save_us, restart_us; /* expected */
	int64_t last_us; /* it had to leave then; 0 = never */
	int64_t deadline_us; /* 0 = none */
	int64_t left_us; /* of its work, expected; 0 = cannot be said */
	int64_t units; /* what it frees */
	int64_t cost_micros; /* by victim_cost() */
};
/*
 * May it leave and still meet its deadline? It saves, waits for a place as long as it is then left
 * alone (preempt_hold_us), starts again, does again what no checkpoint has, as if the save failed,
 * and does what is left in half as much time again. A job without a deadline may; one whose work is
 * not known may not.
 */
bool victim_deadline_holds(const struct schedule_policy *p, const struct victim *v, int64_t now_us);
/* Why a job may not be made to leave for one of this priority; NULL = it may. */
const char *victim_refusal(struct arena *a, const struct schedule_policy *p, const struct victim *v,
    int32_t priority, int64_t now_us);
/* Dollars that leaving costs: the save and the restart, and the work that is done again: with
 * checkpoints what was not saved, for the share of saves that fail; without, everything. */
int64_t victim_cost(const struct victim *v, double notice_saves);
/* Least cost, then fewest jobs, then the first in the list. ret: indices, rising. false: all of
 * them do not free need. */
NODISCARD bool victims_choose(struct arena *a, const struct victim *list, size_t n, int64_t need,
    size_t **ret, size_t *ret_n);

#endif
