/* Private to src/engine/place: how its files work together. */
#ifndef ENGINE_PLACE_INT_H
#define ENGINE_PLACE_INT_H

#include "core/place/placement.h"
#include "core/queue/queue.h"
#include "engine/kernel/kernel.h"
#include "engine/place/place.h"

/* ---- one job against the market (choose.c, gang_place.c) -------------------------------------- */

struct place_policy place_policy_of(const struct engine *e);
/* The market as read last, the configuration and the time; in the pass's arena. */
struct place_in place_in(struct recon *r);
/* false: the stored spec does not read (logged). */
bool place_rank(struct recon *r, struct job_facts *f, struct placing *ret);
/* Wants a node of pool for the job, or a gang; kind: place, failover, return, rebalance.
 * replaces_id: of a gang's rank 0. */
void place_want(struct recon *r, const struct job_facts *f, const struct placing *p,
    const struct score *s, int64_t replaces_id, const char *kind, const char *why);

/* Wants a gang where score s of p->scores is; replaces: each rank for the machine
 * that its rank has. */
void gang_want(struct recon *r, const struct job_facts *f, const struct placing *p,
    const struct score *s, bool replaces, const char *kind, const char *why);
/* why, or why no place can give all nodes together. */
const char *gang_why_wait(struct recon *r, const struct job_facts *f, const struct placing *p,
    const char *why);

/* ---- decisions (decision.c) ------------------------------------------------------------------- */

/* Writes down why the job waits, with what was weighed: a wait is a decision too. */
void wait_write(struct recon *r, const struct job_facts *f, const struct placing *p,
    const char *why, int64_t until_us);
/* The counterfactual: what staying was expected to cost. The caller's. */
json_t *move_json(const struct score *here, const struct score *there, const struct return_out *out,
    int64_t node_id);

/* ---- budgets (budget.c) ----------------------------------------------------------------------- */

/* What must be left to begin on machines that cost this an hour, all of them together. */
int64_t budget_need_of(const struct recon *r, const struct job_facts *f,
    const struct job_spec *spec, int64_t price_micros);
/* A job for which no start is paid: it waits for what is cheaper and suits it, and is parked where
 * nothing does. */
void budget_short(struct recon *r, const struct job_facts *f, const struct placing *p);
/* A job that waits is parked, until its budget has so much left. */
void budget_park(struct recon *r, const struct job_facts *f, int64_t need_micros);
/* The same of one whose budget is used up, whatever machines it has. */
void budget_over(struct recon *r, const struct job_facts *f, const struct job_spec *spec);

/* ---- deadlines and deferred starts (deadline.c, defer.c) -------------------------------------- */

/*
 * deadline.c. What the deadline policy says about a job that waits or runs. Asks rows for what was
 * seen of the best spot pools, then acts: a node is wanted, the wait is written down, or (running
 * on demand) the job is parked. false: the job has no deadline that a policy could plan for (none,
 * or on-demand not to be had): the caller decides without.
 */
bool deadline_ask(struct recon *r, const struct job_facts *f, const struct placing *p,
    const struct deadline_held *held);

/* move_back.c: how long launches on demand that would be in time lately took to be accepted
 * (core/policy/deadline_room.h). */
int64_t launch_reserve(const struct recon *r, const struct job_facts *f, const struct placing *p);

/* A pass that asks begins: it may put a few questions to the policy. */
void deadline_pass_begins(struct engine *e);

/* defer.c: asks the hours of the day whether the job should begin later; a later pass reads it
 * again. */
void defer_ask(struct recon *r, const struct job_facts *f, const struct placing *p);

/* ---- planned moves (move_back.c) -------------------------------------------------------------- */

struct move {
	struct job_facts facts;
	struct placing placing;
	const struct score *here, *there; /* NULL = none */
	int64_t unsaved_us; /* of the work left on demand, or there: done and not saved */
	struct return_out out;
};
/* Of so many rows, the first whose specs were read; the others are read next, from the first of
 * them on. */
size_t move_jobs_whole(const struct q_engine_move_jobs_row *rows, size_t n);
/* Why the job is not moved there however much it would save: it saves nothing, it is late, or its
 * deadline could be missed. NULL: it may be. */
const char *move_never(struct recon *r, const struct move *m);
/* spot_only: only spot pools whose supply is not tight count as destinations. false: cannot be
 * judged now. */
bool move_judge(struct recon *r, const struct q_engine_move_jobs_row *j, bool spot_only,
    struct move *ret);

/* ---- the queue and its room (queue.c, preempt.c) ---------------------------------------------- */

/* What a turn of placing knows about room: what runs, and for whom room is held. In the turn's
 * arena. */
struct room_hold {
	const struct offer *offer; /* one of those that share the quota */
	int64_t job_id;
	struct backfill b;
};
/* Jobs that room was held for when placing last went through; only pacing. */
struct held_jobs {
	int64_t ids[8];
	size_t n;
};
struct room {
	struct q_engine_running_row *rows;
	size_t n;
	int64_t read_us; /* mono: when the rows came */
	const struct q_engine_free_nodes_row *free; /* ready, with nothing on them */
	size_t free_n;
	struct room_hold *holds;
	size_t holds_n, holds_cap;
	struct held_jobs *held; /* kept from pass to pass */
};
/* Does the offer count against the same quota? */
bool quota_same(const struct offer *a, const struct offer *b);
/* What the job takes of the offer's quota, all nodes of a gang together. */
int64_t room_need(const struct job_facts *f, const struct offer *o);

/* Quotas that were asked about for one job, each by the offer of the least need. */
struct quotas_tried {
	const struct offer **list;
	size_t n, cap;
};
/* Was the offer's quota (zone: what of it is in its zone) asked about for no more than the job
 * needs there? Then the answer is that one; else it counts as asked. */
bool quota_tried(struct recon *r, struct quotas_tried *t, const struct job_facts *f,
    const struct offer *o, bool zone);

/* When what runs may end: by its own steps; without them by the work that its file declares. Never
 * in the past. */
int64_t running_end_us(const struct engine *e, const struct q_engine_running_row *w);

/* A blocked job of high priority: others are told to make room for it. true: some were. */
bool preempt_for_fleet(struct recon *r, struct room *m, const struct job_facts *f,
    const struct job_spec *spec, int64_t fleet_id);
bool preempt_for_quota(struct recon *r, struct room *m, const struct job_facts *f,
    const struct placing *p);
/* The room that a blocked job is waiting for is held for it: for the rest of the turn. */
void room_hold(struct recon *r, struct room *m, const struct job_facts *f, const struct placing *p);
/* Is room held there for a blocked job? A machine there that is free is not for others, it goes
 * back for its room. */
bool room_held(const struct room *m, const struct offer *o);
/* Takes out of p what room is held for and the job would not be gone in time; words when that
 * leaves it nothing, else NULL. */
const char *room_filter(struct recon *r, struct room *m, const struct job_facts *f,
    struct placing *p);
/* It goes ahead on s: what it takes is taken. true when room there is held for another, so that
 * this is backfill. */
bool room_take(struct recon *r, struct room *m, const struct job_facts *f, const struct score *s);

/* ---- one pass of placing (assign.c, bind.c, want.c) ------------------------------------------- */

struct assign_pass {
	struct q_engine_sched_jobs_row *jobs;
	size_t jobs_n;
	struct q_engine_free_nodes_row *nodes;
	bool *taken; /* of each node */
	size_t nodes_n;
	size_t scored; /* offers so far */
	struct room room;
	bool *done; /* of each job: decided in this pass */
};
struct job_facts facts_make(const struct q_engine_sched_jobs_row *j);
/* The ready node for the job, SIZE_MAX = none: its own first, and of these the one launched as its
 * replacement. */
size_t node_choose(struct recon *r, const struct assign_pass *t,
    const struct q_engine_sched_jobs_row *j, const struct job_spec *spec);
/* True when its budget does not pay a start there. What is its own is in what is left already. */
bool node_dear(const struct engine *e, const struct q_engine_sched_jobs_row *j,
    const struct job_spec *spec, const struct q_engine_free_nodes_row *n);
void bind_start(struct recon *r, const struct q_engine_sched_jobs_row *j,
    const struct job_spec *spec, const struct q_engine_free_nodes_row *node);
void job_want(struct recon *r, struct assign_pass *t, const struct q_engine_sched_jobs_row *j);

#endif
