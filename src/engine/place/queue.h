/* Private to src/engine: the queue, who may go ahead in it, and who makes room (schedule.c,
 * preempt.c). */
#ifndef ENGINE_SCHEDULE_H
#define ENGINE_SCHEDULE_H

#include "core/queue/queue.h"
#include "engine/kernel/kernel.h"

/* schedule.c: the reconciler of job_queue and team_share. */
void schedule_run(struct recon *r);

/* What a turn of placing knows about room: what runs, and for whom room is held. In the turn's
 * arena. */
struct room_hold {
	const struct offer *offer; /* one of those that share the quota */
	int64_t job_id;
	struct backfill b;
};
struct room {
	struct q_engine_running_row *rows;
	size_t n;
	int64_t read_us; /* mono: when the rows came */
	const struct q_engine_free_nodes_row *free; /* ready, with nothing on them */
	size_t free_n;
	struct room_hold *holds;
	size_t holds_n, holds_cap;
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

#endif
