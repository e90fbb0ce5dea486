/* Private to src/engine/place: how its files work together. */
#ifndef ENGINE_PLACE_PRIV_H
#define ENGINE_PLACE_PRIV_H

#include "core/place/place.h"
#include "core/queue/queue.h"
#include "engine/kernel/kernel.h"
#include "engine/place/place.h"

/* ---- one job against the market (choose.c, gang_place.c) ------------------------------------- */

struct place_policy place_policy_of(const struct engine *e);
/* The last market read, the configuration and the time; in the pass's arena. */
struct place_in place_in(struct recon *r);
/* Returns false when the stored spec does not parse (logged). */
bool place_rank(struct recon *r, struct job_facts *f, struct placing *ret);
/* Wants a node for the job in the pool of s, or a gang. Its kind is place, failover, return or
 * rebalance. replaces_id is the node that it replaces, of a gang rank 0's; 0 = none. */
void place_want(struct recon *r, const struct job_facts *f, const struct placing *p,
    const struct score *s, int64_t replaces_id, const char *kind, const char *why);

/* Wants a gang at score s of p->scores. replaces: each rank replaces the machine of its rank. */
void gang_want(struct recon *r, const struct job_facts *f, const struct placing *p,
    const struct score *s, bool replaces, const char *kind, const char *why);
/* Returns why, or the reason that no place can give all nodes together. */
const char *gang_why_wait(struct recon *r, const struct job_facts *f, const struct placing *p,
    const char *why);

/* ---- decisions (decision.c) ------------------------------------------------------------------ */

/* Records why the job waits, with the options weighed. A wait is a decision too. */
void wait_write(struct recon *r, const struct job_facts *f, const struct placing *p,
    const char *why, int64_t until_us);
/* The counterfactual: the expected cost of staying. The caller owns it. */
json_t *move_json(const struct score *here, const struct score *there, const struct return_out *out,
    int64_t node_id);

/* ---- budgets (budget.c) ---------------------------------------------------------------------- */

/* The budget that must be left to start on machines with this price an hour, all of them together.
 * */
int64_t budget_need_of(const struct recon *r, const struct job_facts *f,
    const struct job_spec *spec, int64_t price_micros);
/* For a job whose budget pays no start: waits for a cheaper pool that suits it, or parks it if none
 * does. */
void budget_short(struct recon *r, const struct job_facts *f, const struct placing *p);
/* Parks a waiting job until its budget has this much left. */
void budget_park(struct recon *r, const struct job_facts *f, int64_t need_micros);
/* Parks a waiting job whose budget is used up, whatever machines it has. */
void budget_over(struct recon *r, const struct job_facts *f, const struct job_spec *spec);

/* ---- deadlines and deferred starts (deadline.c, defer.c) ------------------------------------- */

/* Asks the deadline policy about a job that waits or runs. Reads the record of the best spot pools,
 * then wants a node, records the wait, or parks the job (running on demand). Returns false when no
 * policy can plan for the job (no deadline, or no on-demand offer). The caller then decides
 * alone. */
bool deadline_ask(struct recon *r, const struct job_facts *f, const struct placing *p,
    const struct deadline_held *held);

/* When the policy is asked again about a job that it let wait (mono); 0 = at once. */
int64_t deadline_paced_us(const struct recon *r, const struct job_facts *f);

/* Returns the recent delay until acceptance of on-demand launches that would be in time
 * (core/policy/deadline_room.h). */
int64_t launch_reserve(const struct recon *r, const struct job_facts *f, const struct placing *p);

/* To call when a pass begins that may ask: a pass may ask a few questions. */
void deadline_pass_begins(struct engine *e);

/* Asks the hours of the day whether the job should begin later; a later pass reads it again. */
void defer_ask(struct recon *r, const struct job_facts *f, const struct placing *p);

/* ---- planned moves (move_back.c) ------------------------------------------------------------- */

struct move {
	struct job_facts facts;
	struct placing placing;
	const struct score *here, *there; /* NULL = none */
	int64_t unsaved_us; /* of the work left on demand, or there: done but not saved */
	struct return_out out;
};
/* Returns how many of the first rows have their specs; the next read begins with the first without.
 * */
size_t move_jobs_whole(const struct q_engine_move_jobs_row *rows, size_t n);
/* The reason against the move however much it saves: nothing is saved, the job is late, or its
 * deadline could be missed. NULL: the job may move. */
const char *move_never(struct recon *r, const struct move *m);
/* spot_only: only spot pools that are not tight count as destinations. Returns false when the job
 * cannot be judged now. */
bool move_judge(struct recon *r, const struct q_engine_move_jobs_row *j, bool spot_only,
    struct move *ret);

/* ---- moves of fleets' nodes (fleet_move.c, fleet_move_judge.c) ------------------------------- */

/* Judges the nodes of fleets and begins moves. The caller keeps it for the pass. */
struct fleet_moving {
	int64_t only; /* a fleet; 0 = all that are active, but only those of ids where ids_n > 0 */
	const int64_t *ids;
	size_t ids_n;
	bool dry; /* begins nothing */
	bool return_only; /* only from on demand to spot */
	bool shown; /* stores the reasons with the fleet */
	void (*then)(struct recon *r, void *ctx);
	void *ctx;
	/* the answer; references of the pass */
	json_t *moves, *kept;
	int64_t saves_micros;
	size_t nodes; /* judged */
	/* private to fleet_move.c */
	int64_t after_id, *list;
	size_t list_n, at;
};
/* Needs the offers of the pass (offers_need). */
void fleet_moves_run(struct recon *r, struct fleet_moving *m);
/* Judges one fleet by its rows, adds to the answer, and begins its moves. */
void fleet_moves_judge(struct recon *r, struct fleet_moving *m,
    const struct q_engine_fleet_move_facts_row *f, const struct q_engine_fleet_move_nodes_row *rows,
    size_t n);

/* ---- the queue and its room (queue.c, preempt.c) --------------------------------------------- */

/* A pass's knowledge of room: the jobs that run, and the blocked jobs with held room. In the pass's
 * arena. */
struct room_hold {
	const struct offer *offer; /* one of the offers that share the quota */
	int64_t job_id;
	struct backfill b;
};
/* Jobs with held capacity in the last complete pass; only pacing. */
struct held_jobs {
	int64_t ids[8];
	size_t n;
};
struct room {
	struct q_engine_running_row *rows;
	size_t n;
	int64_t read_us; /* mono: when the rows came */
	bool stale; /* the market is older: the next pass reads the room first */
	const struct q_engine_free_nodes_row *free; /* ready, with nothing on them */
	size_t free_n;
	struct room_hold *holds;
	size_t holds_n, holds_cap;
	struct held_jobs *held; /* kept from pass to pass */
};
/* True when both offers count against the same quota. */
bool quota_same(const struct offer *a, const struct offer *b);
/* The job's need of the offer's quota, all nodes of a gang together. */
int64_t room_need(const struct job_facts *f, const struct offer *o);

/* Quotas already tried for one job, each by the offer with the least need. */
struct quotas_tried {
	const struct offer **list;
	size_t n, cap;
};
/* True when the offer's quota (zone: its part in the zone) was already tried for no more than the
 * job needs there: that answer holds. Else counts it as tried. */
bool quota_tried(struct recon *r, struct quotas_tried *t, const struct job_facts *f,
    const struct offer *o, bool zone);

/* The expected end of a running job: by its own steps, without them by the work that its file
 * declares. Never in the past. */
int64_t running_end_us(const struct engine *e, const struct q_engine_running_row *w);

/* Preempts lower jobs for a blocked job of high priority. Returns true when it preempted some. */
bool preempt_for_fleet(struct recon *r, struct room *m, const struct job_facts *f,
    const struct job_spec *spec, int64_t fleet_id);
bool preempt_for_quota(struct recon *r, struct room *m, const struct job_facts *f,
    const struct placing *p);
/* Holds the room that a blocked job waits for, for the rest of the pass. */
void room_hold(struct recon *r, struct room *m, const struct job_facts *f, const struct placing *p);
/* True when room is held there for a blocked job. A free machine there goes back to make the room;
 * no other job gets it. */
bool room_held(const struct room *m, const struct offer *o);
/* Takes out of p the offers with held room that the job would not leave in time. Returns the reason
 * when that leaves it nothing, else NULL. */
const char *room_filter(struct recon *r, struct room *m, const struct job_facts *f,
    struct placing *p);
/* Counts what the job takes on s. Returns true when room there is held for another job, so that
 * this is backfill. */
bool room_take(struct recon *r, struct room *m, const struct job_facts *f, const struct score *s);

/* ---- answers to asks (asks.c) ---------------------------------------------------------------- */

/* An ask (job.ask) that is blocked: its jobs are not read until the answer holds no longer. */
struct ask_answer {
	int64_t ask;
	int64_t version; /* of the market that it was given by; 0 = any */
	int64_t moves; /* of running jobs and machines; 0 = it does not depend on them */
	int64_t until_us; /* mono */
	char *why;
};
struct asks {
	struct ask_answer *list; /* by ask */
	size_t n, cap;
	bool fresh; /* jobs may wait that do not say why yet */
	size_t told_at;
	int64_t told_us; /* mono: the next page of reasons is not written before that */
};
/* Remembers that an ask is blocked; the answer's ask and why are not read. */
void asks_block(struct asks *m, int64_t ask, const struct ask_answer *answer, const char *why);
const struct ask_answer *asks_find(const struct asks *m, int64_t ask); /* NULL = none */
bool ask_holds(const struct ask_answer *a, const struct engine *e, int64_t moves);
/* How long an answer holds at most; still: time alone does not change it. */
int64_t asks_last_us(const struct asks *m, const struct engine *e, bool still);
/* Our own machines took quota, which unblocks nobody: answers of version was hold for now. */
void asks_count(struct asks *m, int64_t was, int64_t now);
/* Returns the asks that are blocked now, sorted, and forgets the other answers. Sees to it that a
 * pass follows when the first ends. */
size_t asks_blocked(struct asks *m, struct recon *r, int64_t moves, int64_t **ret);
/* Writes the reason of blocked asks to their jobs that have none yet, a page at a time. */
void asks_tell(struct asks *m, struct recon *r);
void asks_drop(struct asks *m);
/* True when an answer depends on running jobs and machines. */
bool asks_move(const struct asks *m);

/* ---- one pass of placing (assign.c, stages.c, bind.c, want.c) ------------------------------- */

struct assign_pass {
	struct q_engine_assign_jobs_row *jobs;
	size_t jobs_n;
	struct q_engine_free_nodes_row *nodes;
	bool *taken; /* of each node */
	size_t nodes_n;
	size_t scored; /* offers so far */
	struct room room;
	bool room_read, room_wanted; /* a job needs the room, which is read only then */
	bool *done; /* of each job: decided in this pass */
	size_t wanted; /* nodes and gangs */
	bool nodes_read;
	bool offered; /* free nodes were offered to all groups that the slice has */
	int64_t version; /* of the market when the jobs were asked for */
	size_t first, at; /* the job with which the pass began; how many it decided since */
	struct asks *asks;
	const struct held_jobs *was; /* before this pass */
	int64_t moves; /* for the answers of this pass */
	/* the ranking of the last ask: holds while the market is of this version */
	int64_t ranked_ask, ranked_version;
	struct job_facts ranked_facts;
	struct placing ranked;
};
/* Decides one of the jobs (stages.c). */
void job_decide(struct recon *r, struct assign_pass *t, const struct q_engine_assign_jobs_row *j);
/* On whose change besides the clock's an answer depends. */
enum {
	BLOCK_MARKET = 1,
	BLOCK_MOVES = 2, /* a job or machine that moves may free it */
	BLOCK_STILL = 4, /* the clock changes it at until_us only */
};
/* The job's ask is blocked until then (mono). */
void ask_block(struct recon *r, struct assign_pass *t, const struct q_engine_assign_jobs_row *j,
    const char *why, int64_t until_us, unsigned by);
struct job_facts facts_make(const struct q_engine_assign_jobs_row *j);
/* Chooses a ready node for the job, SIZE_MAX = none: its own first, and of these its replacement.
 * */
size_t node_choose(struct recon *r, const struct assign_pass *t,
    const struct q_engine_assign_jobs_row *j, const struct job_spec *spec);
/* True when the budget does not pay a start there. The job's own nodes are in its remaining budget
 * already. */
bool node_dear(const struct engine *e, const struct q_engine_assign_jobs_row *j,
    const struct job_spec *spec, const struct q_engine_free_nodes_row *n);
void bind_start(struct recon *r, const struct q_engine_assign_jobs_row *j,
    const struct job_spec *spec, const struct q_engine_free_nodes_row *node);
void job_want(struct recon *r, struct assign_pass *t, const struct q_engine_assign_jobs_row *j);

#endif
