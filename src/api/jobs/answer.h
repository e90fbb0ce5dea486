/*
 * Remembers the ranking of each distinct ask until the market moves. Jobs whose files differ only
 * in names, commands and variables share one. An answer keeps its snapshot of the market, and lives
 * while a request holds it.
 */
#ifndef API_ANSWER_H
#define API_ANSWER_H

#include "api/jobs/plan.h"
#include "core/rank/montecarlo.h"

struct answer {
	struct place_market market; /* the pools of the GPUs asked for */
	struct job_facts facts; /* as the ranking left them */
	struct placing all, placing; /* as in struct planned */
	const struct score *cheapest; /* plan_cheapest_listed */
	const char *never; /* placement_never */
};

/* Fills the market, facts and rankings of p from q->snap, at once if they are remembered. The
 * request holds them until its end. */
const struct answer *answer_take(struct areq *q, struct planned *p, const char *const *gpus,
    size_t gpus_n);
/* Plays the job through (montecarlo_run). Remembers the result with the ranking. */
void answer_play(struct areq *q, const struct planned *p, const struct montecarlo_in *in,
    struct montecarlo_out *ret);
/* The configuration changed. */
void answers_forget(struct api *api);

#endif
