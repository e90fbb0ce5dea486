/*
 * The one answer to "where would this job run, and what would it cost?". Pure: takes the market,
 * the facts of the job, the policy and the time. Returns the ranking, the best of each market, the
 * refused offers and the decision. The engine places jobs by it. POST /v1/plan, submit, the fleet
 * plan and the backtest tell the same answer. Results live in the arena.
 *
 * - placement_rank() ranks the suitable offers by the cost of the whole job
 * - placement_begin() takes the first step of the decision, and names the missing rows
 * - placement_defer() decides by the hours of the day whether the job begins later
 * - placement_deadline() runs the deadline policy with the past of the best spot pools
 * - placement_never() returns the reason why no pool can ever take the job
 */
#ifndef CORE_PLACEMENT_H
#define CORE_PLACEMENT_H

#include "core/life/life.h"
#include "core/place/gang.h"
#include "core/policy/policy.h"
#include "core/rank/rank.h"

/* ---- in -------------------------------------------------------------------------------------- */

/* Pools of one provider, region and GPU whose supply is tight (core/policy/tightness.h). */
struct tight_group {
	const char *provider, *region, *gpu;
};
struct place_market {
	const struct offer *offers; /* after offers_believe(), by pool id */
	size_t offers_n;
	const struct gang_rest *rests; /* pools that cool down for gangs */
	size_t rests_n;
	const char *const *busy; /* places where another gang is being acquired */
	size_t busy_n;
	const struct tight_group *tight;
	size_t tight_n;
	/* configured providers that sell spot; any does where sellers_known is false */
	const char *const *sellers;
	size_t sellers_n;
	bool sellers_known;
};
struct place_policy {
	struct rank_policy rank;
	struct supply_policy supply;
	struct defer_policy defer;
	int64_t gang_hold_us, deadline_tick_us;
	int64_t cool_min_us, cool_max_us; /* cooldown of a pool that refused */
	int64_t budget_end_us; /* from the end of a save until a machine is over */
	const char *store_provider, *store_region; /* of checkpoints; NULL = there is no store */
};
void place_policy_default(struct place_policy *p);

/* The facts of one job. */
struct job_facts {
	int64_t id;
	int32_t epoch;
	enum job_state state; /* JOB_NONE = not submitted yet */
	const char *name, *spec_json;
	int64_t deadline_us, created_us, queued_us, steps_done, steps_total, checkpoint_bytes,
	    save_us;
	bool has_checkpoint;
	int64_t not_before_us; /* 0 = nobody thought about deferral yet */
	/* step rates, as gpu_rates_parse() reads them: its own, before its first start those of
	 * earlier jobs of its name; NULL = none */
	const char *rates;
	int64_t restart_us; /* measured; 0 = unknown */
	int32_t nodes; /* more than 1: a gang; 0 = 1 */
	bool has_budget;
	/* when its machines are given back now; below 0: it must stop (core/money/money.h) */
	int64_t budget_micros, budget_left;
};
struct place_in {
	struct arena *arena;
	const struct place_market *market;
	const struct place_policy *policy;
	int64_t now_us;
};

/* ---- the ranking ----------------------------------------------------------------------------- */

struct placing {
	struct job_spec *spec;
	struct rank_job job;
	struct ranking ranking;
	/* of the ranking: the usable ones; of a gang what the whole would be */
	struct score *scores;
	/* of a gang: each score of the ranking, those that cannot give so many behind the usable
	 * ones */
	struct gang_score *gang;
	size_t gang_n;
	size_t usable;
	const struct score *spot, *on_demand; /* best usable of each market, NULL = none */
	const struct score *reserved; /* the same: capacity that is paid for already */
	const struct score *queued; /* the same: a machine that waits in the provider's queue */
	size_t spot_n, on_demand_n, spot_cooling;
	size_t dear; /* taken out since its budget does not pay for a start there */
	bool late; /* the deadline has passed, and the job is to be done as soon as may be */
	/* the deadline policy's view and answer; stored with the decision. NULL = not asked */
	json_t *plan;
	json_t *move; /* of a planned move: what staying was expected to cost. NULL = none */
};
/* Ranks the market for the job. A deadline that has passed is taken out of the facts of a job that
 * says so (late: cheapest). */
void placement_rank(const struct place_in *in, struct job_facts *f, struct job_spec *spec,
    struct placing *ret);
/* Average size and duration of the saves of a fleet's jobs; 0 = unknown. */
struct fleet_saves {
	int64_t bytes, save_us;
};
/* The same for the machines of a fleet: any market, and no work that ends. The scores contain the
 * egress of the checkpoints that the jobs save and restore. */
void placement_fleet(const struct place_in *in, const struct job_spec *spec,
    const struct fleet_saves *saves, struct score **ret, size_t *ret_n);
/* Counts the usable scores anew, after some were taken out. */
void placement_count(const struct place_in *in, const struct job_facts *f, struct placing *p);
/* How long the job waits for spot before on-demand is taken: its file's, its class's, or the
 * daemon's. */
int64_t placement_patience_us(const struct place_policy *k, const struct job_spec *s);
/* How long a start takes: of a gang its machines may be held for so long before all are there, or
 * none. */
int64_t placement_changeover_us(const struct place_policy *k, const struct job_facts *f);
/* One score as that of the whole job. */
struct score placement_whole(const struct job_facts *f, const struct score *one);
/* The budget that must be left to begin on machines with this price an hour, all together. */
int64_t placement_budget_need(const struct place_policy *k, const struct job_facts *f,
    const struct job_spec *spec, int64_t price_micros);
/* The least that a start of the job costs anywhere, even where there is no capacity now. 0: no pool
 * suits. */
int64_t placement_need_least(const struct place_in *in, const struct job_facts *f,
    const struct job_spec *spec);
/* Hours until the deadline, less a start and a save in reserve; HUGE_VAL without a deadline. */
double placement_within_h(const struct place_in *in, const struct job_facts *f);
/* The best of one market, SPOT_MARKET_NONE: of any; with a deadline the best that finishes in time,
 * where all would be late the fastest. NULL = none is usable. */
const struct score *placement_best(const struct place_in *in, const struct job_facts *f,
    const struct placing *p, enum spot_market m);
/* Is the supply of the offer's group tight? */
bool placement_tight(const struct tight_group *groups, size_t n, const struct offer *o);
/* The best spot pool whose group is not tight; NULL = there is none. */
const struct score *placement_easy(const struct place_market *m, const struct placing *p);

/* ---- the decision ---------------------------------------------------------------------------- */

enum place_act {
	PLACE_NONE, /* nothing was decided yet */
	PLACE_TAKE, /* a machine of `score` is wanted */
	PLACE_WAIT, /* looked at again at until_us */
	PLACE_DEFER, /* begun at until_us */
	PLACE_SHORT, /* its budget pays for no start that can be had now */
	PLACE_PARK /* nor for any other: it is parked until its budget is raised */
};
const char *place_act_name(enum place_act a);
struct place_choice {
	enum place_act act;
	const struct score *score; /* of p->scores; PLACE_TAKE */
	const char *kind; /* of the decision: "place", "failover", "wait", "defer", "park" */
	const char *why;
	int64_t until_us;
	bool patient; /* no deadline policy was asked */
};
/* The rows that the next step of the decision needs; PLACE_DECIDED: none, it is made. */
enum place_next { PLACE_DECIDED = 1, PLACE_HOURS, PLACE_WORDS };
/* Asked again after PLACE_HOURS, once f->not_before_us says that the job begins now. */
enum place_next placement_begin(const struct place_in *in, const struct job_facts *f,
    const struct placing *p, struct place_choice *ret);
/* By patience: what placement_begin() does where no deadline policy is asked. */
void placement_patiently(const struct place_in *in, const struct job_facts *f,
    const struct placing *p, struct place_choice *ret);

/* PLACE_HOURS: whose prices count (at most PLACE_HOURS_POOLS ids), since when. */
#define PLACE_HOURS_POOLS 8
#define PLACE_HOURS_PAST_US (14 * 24 * SPOT_US_PER_HOUR)
size_t placement_defer_pools(const struct placing *p, int32_t ids[PLACE_HOURS_POOLS]);
/* in: now_us, deadline_us and the times are filled in here; its hours are the caller's. */
void placement_defer(const struct place_in *in, const struct job_facts *f, const struct placing *p,
    struct defer_in *hours, struct defer_out *ret);

/* PLACE_WORDS: the question to the deadline policy. */
#define PLACE_POOLS 5
#define PLACE_WORDS_MOST 5000
#define PLACE_WORDS_PAST_US (14 * 24 * SPOT_US_PER_HOUR)
/* After a refusal a pool counts as down for so long. */
#define PLACE_DOWN_US (1800 * SPOT_US_PER_S)
struct place_candidate {
	const struct offer *offer;
	const struct score *score; /* NULL: it cools down after a refusal */
	int64_t price_micros; /* per hour of the on-demand machine's work */
};
struct deadline_held {
	enum policy_act act; /* POLICY_WAIT: the job waits for a place */
	int32_t pool_id;
	int64_t node_id; /* that would be replaced */
	const struct score *here; /* of that machine; NULL while it waits */
};
struct place_question {
	struct job_facts facts;
	struct placing placing;
	struct deadline_held held;
	struct place_candidate pools[PLACE_POOLS];
	size_t n;
	struct launch_reserve launch;
	int64_t loss_us; /* held back: what a reclaim may take */
	int64_t tick_us; /* of the answer */
};
/* Can a deadline policy plan for the job? Not without a deadline to come, on-demand to fall back on
 * and spot, nor where on-demand costs no more than spot. */
bool placement_plans(const struct place_in *in, const struct job_facts *f, const struct placing *p);
void placement_ask(const struct place_in *in, const struct job_facts *f, const struct placing *p,
    const struct deadline_held *held, struct place_question *ret);
/* Asks the policy; *ret_plan (the caller's) is what it saw and said. why is in the arena. */
void placement_deadline(const struct place_in *in, struct place_question *q,
    const struct supply_word *words, size_t n, struct policy_choice *ret, json_t **ret_plan);
/* Of a job that waits: that answer as a choice. */
void placement_answer(const struct place_in *in, const struct place_question *q,
    const struct policy_choice *c, struct place_choice *ret);
/* Why an offer that stands before the chosen one in the ranking was passed over, in words; NULL:
 * none does. */
const char *placement_passed(const struct place_in *in, const struct job_facts *f,
    const struct placing *p, const struct score *chosen, const struct score **ret_first);

/* ---- can it ever run? ------------------------------------------------------------------------ */

/* NULL: some offer suits what the job asks for, now or later. Else why none ever can, and what
 * would make it possible. Prices, cooldowns and quotas change, so they are no reason. */
const char *placement_never(const struct place_in *in, const struct job_spec *s);
/* Does any offer suit what the job asks for, at today's price? */
bool placement_suits(const struct place_in *in, const struct job_spec *s);
/* The score by which the job is soonest done, as that of the whole job. Machines that nobody takes
 * back come first. false: none is usable. */
bool placement_soonest(const struct job_facts *f, const struct placing *p, struct score *ret);

/* ---- as JSON --------------------------------------------------------------------------------- */

/* Place and price of an offer, as decisions keep it. */
json_t *offer_json(const struct offer *o);
json_t *score_json(const struct score *s);
json_t *scores_json(const struct score *s, size_t n, size_t most);
/* Write the members that a decision and a plan both tell: of an offer, of a score. t: of
 * score_explain(). */
void offer_fields_put(struct sbuf *b, const struct offer *o);
void score_fields_put(struct sbuf *b, const struct score *s, const struct score_terms *t);
/* From what was decided, for decision.inputs. */
json_t *placement_inputs(const struct place_in *in, const struct job_facts *f,
    const struct placing *p);

#endif
