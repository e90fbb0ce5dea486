/* Judging a planned move of a running job: shared by the return to spot and by rebalancing. */
#ifndef ENGINE_MOVE_H
#define ENGINE_MOVE_H

#include "core/policy/supply.h"
#include "engine/kernel/kernel.h"

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
/* The counterfactual: what staying was expected to cost. The caller's. */
json_t *move_json(const struct score *here, const struct score *there, const struct return_out *out,
    int64_t node_id);
/* Why the job is not moved there however much it would save: it saves nothing, it is late, or its
 * deadline could be missed. NULL: it may be. */
const char *move_never(struct recon *r, const struct move *m);
/* spot_only: only spot pools whose supply is not tight count as destinations. false: cannot be
 * judged now. */
bool move_judge(struct recon *r, const struct q_engine_move_jobs_row *j, bool spot_only,
    struct move *ret);

#endif
