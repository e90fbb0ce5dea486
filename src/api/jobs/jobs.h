/* Jobs: submit, plan, backtest, list, show, queue, shares, logs, checkpoints, workload classes. */
#ifndef API_JOBS_JOBS_H
#define API_JOBS_JOBS_H

#include "api/server/server.h"
#include "core/hazard/hazard.h"
#include "core/place/place.h"
#include "core/spec/spec.h"

extern const struct route_table job_routes;

/* Answers where the job of a file would run, for POST /v1/plan, submit and the backtest. It reads
 * the rows; core/place/placement.h decides. */

struct answer;
struct planned {
	struct job_spec *spec;
	const char **warnings;
	size_t warnings_n;
	struct place_market market;
	struct place_policy policy;
	struct place_in in; /* as of begin_us */
	struct job_facts facts; /* of the job, were it submitted now */
	/* every offer, whatever the budget; its ranking is of one node */
	struct placing all;
	struct placing placing; /* the engine would decide from this */
	const struct hazard_model *hazards;
	const struct answer *answer; /* the ranking's; NULL: of several nodes */
	int64_t seed; /* of the distribution */
	int64_t begin_us; /* now, or start_after */
	/* from then to the deadline, less a start in reserve; HUGE_VAL: none */
	double within_h;
	bool market_known; /* every feed of pools and prices was read once */
	/* the engine's choice; PLACE_NONE: not asked (plan_decide) */
	struct place_choice choice;
	struct place_question question;
	json_t *policy_said; /* of the deadline policy; the request's. NULL = not asked */
	void (*next)(struct areq *q, struct planned *p);
};
/* Parses the body as a job file and ranks the market, then next. Answers bad files itself. */
void plan_begin(struct areq *q, void (*next)(struct areq *q, struct planned *p));
/* Reads what the decision needs besides and makes it, then next. */
void plan_decide(struct areq *q, struct planned *p,
    void (*next)(struct areq *q, struct planned *p));

/* The score of one node of an offer that is usable. */
const struct score *plan_score_of(const struct planned *p, const struct offer *o);
/* That as the score of the whole job. */
struct score plan_whole(const struct planned *p, const struct score *s);
/* The best of one market, SPOT_MARKET_NONE: of any; NULL = none is usable. With a deadline the best
 * that a job with that deadline would be placed on; where all would be late, the fastest. */
const struct score *plan_best(const struct planned *p, enum spot_market m);
/* The offer that the engine would take; the best if it would wait. NULL = none is usable. */
const struct score *plan_chosen(const struct planned *p);
/* By list price for an hour, as others choose; NULL = none is usable. */
const struct score *plan_cheapest_listed(const struct planned *p);

/* plan_check.c: one sentence if nothing suits now or the deadline would be missed, else "". */
const char *plan_note(struct areq *q, struct planned *p);
/* Would the file be refused at submit? Then what for, and the field. */
bool plan_refused(struct areq *q, const struct planned *p, struct spot_err *err,
    const char **ret_field);
/* A token of a team works for that team; leads and admins for any. */
bool plan_team_refused(struct areq *q, const char *team, struct spot_err *err);
void plan_warnings(struct areq *q, struct planned *p);
/* Stored with the job: the cheapest pool of all and the cheapest on demand, at submit. */
json_t *plan_baseline(const struct planned *p);
/* plan_json.c: replies to POST /v1/plan. */
void plan_reply(struct areq *q, struct planned *p);
/* plan_offers.c: its lists, as members. */
void plan_offers_add(struct areq *q, const struct planned *p, struct sbuf *b,
    const struct score *chosen);
void plan_refused_add(struct areq *q, const struct planned *p, struct sbuf *b);
/* The job played through from one of the offers on; NULL: null. The expected cost is the mean of
 * the runs, so it includes fail-over as the quantiles do. An offer's own total is of a job that
 * stays there. */
void plan_spread_add(struct areq *q, const struct planned *p, struct sbuf *b, const char *name,
    const struct score *s);

/* For what ranks something else than a job, too (fleet_plan.c). */
size_t plan_gpus_asked(struct arena *a, const struct job_spec *s, const char ***ret);
/* Fills ret with the snapshot's sellers and its pools of these GPUs (plan_gpus_asked; none =
 * all). */
void plan_market(struct arena *a, const struct market_snap *m, const char *const *gpus, size_t n,
    struct place_market *ret);

#endif
