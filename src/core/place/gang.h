/*
 * Gangs: a job of N nodes runs on N machines of one pool (one provider, region, zone and type) at
 * once or not at all. This file has three pure decisions:
 *
 * - gang_scores() ranks the pools that may take a gang
 * - gang_hold() decides the next step for a gang that is acquiring machines
 * - gang_judge() decides the job's state from that of its ranks
 *
 * Results live in the arena.
 *
 * Hold and release: the engine holds the first machines for at most hold_us. Then it releases all,
 * and the pool cools down for gangs of that size. Only one gang acquires at a place (gang_place
 * names it), so that no two gangs hold half of their machines. Priority decides the order, then the
 * job's id.
 */
#ifndef CORE_GANG_H
#define CORE_GANG_H

#include "base/base.h"
#include "core/life/life.h"
#include "core/rank/rank.h"

#define GANG_NODES_MAX 256

/* ---- where ----------------------------------------------------------------------------------- */

/* Cooldown of a pool: no gang of want nodes or more before until_us. */
struct gang_rest {
	int32_t pool_id, want;
	int64_t until_us;
};
struct gang_ask {
	int32_t want;
	int64_t now_us;
	const struct gang_rest *rests;
	size_t rests_n;
	const char *const *busy;
	size_t busy_n; /* places at which another gang is acquiring */
};
/* The key of jobs that compete for the same machines: "provider/region/zone/type", both markets. */
const char *gang_place(struct arena *a, const struct offer *o);
/*
 * The expected cost of a pool for the whole gang: N nodes, and each one stops all. From the score
 * of one node:
 *
 * - interruptions = N * its interruptions
 * - lost_h = interruptions of the N-1 others * (lost_per_h + restart_per_h)
 * - hours, paid_hours = its + lost_h
 * - compute = N * price_micros * paid_hours
 * - egress = N * its
 */
struct gang_score {
	const struct score *one;
	const char *refused; /* NULL = the pool may take the whole gang */
	bool cooling; /* refused for a while only */
	double interruptions, lost_h, hours, paid_hours;
	int64_t compute_micros, egress_micros, total_micros;
};
/* Returns one per score: first the *ret_usable usable ones, by total_micros, then pool id; then the
 * refused ones by pool id. */
void gang_scores(struct arena *a, const struct score *scores, size_t n, const struct gang_ask *ask,
    struct gang_score **ret, size_t *ret_usable);
/* Computes the gang's score from that of one node, even if the pool is not usable. */
void gang_whole(const struct score *one, int32_t want, struct gang_score *ret);
/* Turns it into a score of the whole gang: money for all machines, but hazard and by of one. */
struct score gang_as_score(const struct gang_score *g, int32_t want);
json_t *gang_score_json(const struct gang_score *g);

/* ---- acquiring ------------------------------------------------------------------------------- */

struct gang_member {
	int32_t rank;
	enum node_state state; /* of its newest node; NODE_NONE = there never was one */
	int64_t launched_us; /* of that node; 0 = the provider gave none yet */
	bool noticed; /* the provider takes it */
};
struct gang_hold_in {
	int32_t want;
	const struct gang_member *members;
	size_t members_n; /* one per rank */
	bool one_call; /* came by one launch: what is lost of it is not refilled */
	bool wanted; /* the job waits for it */
	bool queued; /* ... and could begin now */
	int64_t now_us, hold_us;
	int64_t last_lost_us; /* when the newest of those that are over ended; 0 = none */
	/* why the job's budget does not pay for those that are missing; NULL = it does */
	const char *unpaid;
};
enum gang_do { GANG_WAIT = 1, GANG_START, GANG_REFILL, GANG_GIVE_UP };
struct gang_hold_out {
	enum gang_do what;
	bool cool; /* GIVE_UP for lack of capacity: the pool rests */
	/* ranks to be wanted again (REFILL) */
	const int32_t *missing;
	size_t missing_n;
	int64_t again_us; /* look again then; 0 = with the next event */
	const char *why;
};
/* How many of them are to be sought (again). */
size_t gang_gaps(const struct gang_member *members, size_t n);
void gang_hold(struct arena *a, const struct gang_hold_in *in, struct gang_hold_out *ret);

/* ---- running --------------------------------------------------------------------------------- */

struct gang_rank {
	int32_t rank;
	enum node_state node;
	int64_t node_id, node_deadline_us; /* 0 = none */
	bool noticed;
	const char *node_why;
	const char *desired; /* of the attempt row */
	enum attempt_phase phase;
	bool ended; /* phase EXITED */
	const char *exit_reason;
	int32_t exit_code, exit_signal;
	/* by the agent, of an end without either; NULL or "" = nothing */
	const char *exit_said;
	int64_t deadline_us; /* it was told; 0 = none */
};
struct gang_run {
	enum job_state job;
	bool current; /* of the job's epoch */
	bool cancel, overtime, over_budget;
	const char *budget_why; /* of over_budget */
	int32_t restarts;
	int64_t max_restarts;
	const struct gang_rank *ranks;
	size_t n;
};
enum gang_act { GANG_LEAVE = 1, GANG_TELL, GANG_BEGUN, GANG_SETTLE, GANG_SHUT };
struct gang_verdict {
	enum gang_act act;
	enum job_event event;
	const char *desired, *why, *reason;
	/* TELL drain: the earliest of its nodes; 0 = no hurry */
	int64_t deadline_us;
	bool retry;
};
/* Ranks whose node is over and that said nothing must have been marked as ended ("lost") before. */
void gang_judge(struct arena *a, const struct gang_run *in, struct gang_verdict *ret);

#endif
