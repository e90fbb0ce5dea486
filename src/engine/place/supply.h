/* Private to src/engine: how tight supply is, jobs that begin later, and deadlines. */
#ifndef ENGINE_SUPPLY_H
#define ENGINE_SUPPLY_H

#include "core/hazard/hazard.h"
#include "core/policy/policy.h"
#include "core/policy/tightness.h"
#include "engine/kernel/kernel.h"

/* tighten.c: the state of the offer's group as last read from its row. */
bool supply_tight(const struct engine *e, const struct offer *o);
/* The best spot pool of a ranking whose group is not tight; NULL: there is none. */
const struct score *supply_easy(const struct engine *e, const struct placing *p);
void tighten_run(struct recon *r);
void tighten_drop(struct engine *e);

/*
 * deadline.c. What the deadline policy says about a job that waits or runs. Asks rows for what was
 * seen of the best spot pools, then acts: a node is wanted, the wait is written down, or (running
 * on demand) the job is parked. false: the job has no deadline that a policy could plan for (none,
 * or on-demand not to be had): the caller decides without.
 */
struct deadline_held {
	enum policy_act act; /* POLICY_WAIT: the job waits for a place */
	int32_t pool_id;
	int64_t node_id; /* that would be replaced */
	const struct score *here; /* of that machine; NULL while it waits */
};
bool deadline_ask(struct recon *r, const struct job_facts *f, const struct placing *p,
    const struct deadline_held *held);

/* return.c: how long launches on demand that would be in time lately took to be accepted
 * (core/policy/deadline_room.h). */
int64_t launch_reserve(const struct recon *r, const struct job_facts *f, const struct placing *p);

/* defer.c: true when the job's start is being thought about in this turn; it is read again
 * afterwards. */
bool defer_ask(struct recon *r, const struct job_facts *f, const struct placing *p);

/* sched.c: a wait is a decision too. */
void wait_write(struct recon *r, const struct job_facts *f, const struct placing *p,
    const char *why, int64_t until_us);

#endif
