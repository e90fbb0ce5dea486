/* Ranking for the API: a job file in, scores out. Shared by POST /v1/plan and POST /v1/jobs. */
#ifndef API_PLAN_H
#define API_PLAN_H

#include "api/server/server.h"
#include "core/spec/jobspec.h"
#include "core/hazard/hazard.h"
#include "core/rank/rank.h"

struct gang_score;
struct planned {
	struct job_spec *spec;
	const char **warnings;
	size_t warnings_n;
	struct ranking ranking;
	struct hazard_model *hazards;
	struct score *scores; /* of the ranking */
	size_t n, usable;
	struct rank_policy policy;
	struct rank_job job;
	int64_t seed; /* of the distribution */
	int64_t begin_us; /* now, or start_after */
	/* from then to the deadline, less a start in reserve; HUGE_VAL: none */
	double within_h;
	void (*next)(struct areq *q, struct planned *p);
	struct gang_score *gang; /* of several nodes (plan_gang.c); NULL = of one */
	size_t gang_usable;
};
/* Parses the body as a job file, reads the offers and ranks them, then next. Answers bad files
 * itself. */
void plan_begin(struct areq *q, void (*next)(struct areq *q, struct planned *p));
/* One sentence if nothing suits now or the deadline would be missed, else "". */
const char *plan_note(struct areq *q, struct planned *p);
/* plan_gang.c: whole gangs, worked out once the offers are ranked; a score as that of the whole
 * job; the best of one market. */
void plan_gang_rank(struct areq *q, struct planned *p);
struct score plan_whole(const struct planned *p, const struct score *s);
const struct score *plan_gang_best(const struct planned *p, enum spot_market m);
/* The same of a job of several nodes, where a single would do; what all cost together, null for one
 * node. */
const char *plan_gang_note(struct areq *q, struct planned *p);
json_t *plan_gang_json(struct planned *p);
/* The best of one market, SPOT_MARKET_NONE: of any; NULL = none is usable. With a deadline the best
 * that a job with that deadline would be placed on; where all would be late, the fastest. */
const struct score *plan_best(const struct planned *p, enum spot_market m);
/* Stored with the job: the cheapest pool of all and the cheapest on demand, at submit. */
json_t *plan_baseline(const struct planned *p);
/* For those who rank something else than a job, too (fleet_plan.c): reads the offers of these GPUs
 * (plan_gpus_asked; none = all); next reads the rows (store/offers.h). */
void plan_offers(struct areq *q, const char **gpus, size_t n, void (*next)(struct areq *q));
size_t plan_gpus_asked(struct arena *a, const struct job_spec *s, const char ***ret);

#endif
