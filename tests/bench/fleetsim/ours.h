/*
 * Our policy in the simulation. These files play the engine's part: they turn rows into src/core's
 * inputs, as src/engine does. Every decision is src/core's. ours_market.c keeps our experience and
 * makes offers of it, ours.c places and moves, ours_deadline.c asks the deadline policy.
 */
#ifndef FLEETSIM_OURS_H
#define FLEETSIM_OURS_H

#include "brains.h"

#include "core/policy/policy.h"
#include "core/hazard/hazard.h"

/* As src/spotd/conf.c has them by default; rebalance_every is "1h" where rebalancing is
 * configured. */
#define COOL_MIN_US (60 * SPOT_US_PER_S)
#define COOL_MAX_US (900 * SPOT_US_PER_S)
#define RECLAIM_COOL_US (600 * SPOT_US_PER_S)
#define DEADLINE_TICK_US (600 * SPOT_US_PER_S)
#define REBALANCE_EVERY_US SPOT_US_PER_HOUR
#define WINDOW_MIN 60

struct
try {
	int64_t at_us;
	int kind;
}; /* 0 launch, 1 refusal, 2 reclaim */

struct seen { /* of one pool */
	struct offer_record record;
	int64_t cool_until_us;
	int32_t cool_n;
	bool cool_reclaimed;
	int64_t lost_hour;
	int64_t reclaimed_us; /* newest reclaim; 0 = none */
	double fade_w, fade_1, fade_2;
	int32_t minutes[WINDOW_MIN]; /* live nodes in each of the last minutes */
	struct try *tries;
	size_t tries_n, tries_cap;
	struct supply_word *words;
	size_t words_n, words_cap;
	struct {
		double sum, n, launches, refusals;
	} hours[DEFER_HOURS]; /* price; our tries */
};

struct group {
	const char *provider, *region, *gpu;
	struct tightness now;
};

struct job_mind {
	struct job_spec spec;
	struct resource_ask ask;
	struct gpu_ask gpu;
	bool deferred_asked;
	int64_t not_before_us, ask_after_us, judge_after_us;
	int64_t moves[8]; /* when it moved last */
	int32_t refused[64]; /* pools of the probes refused where it runs */
	size_t refused_n;
	int32_t deadline_starts; /* starts when the policy was asked last */
};

struct ours {
	const struct ours_conf *conf;
	struct seen seen[FS_POOLS_MAX];
	struct group groups[FS_POOLS_MAX];
	size_t groups_n;
	struct job_mind *minds;
	struct rank_policy rank;
	struct supply_policy supply;
	struct tightness_policy tightness;
	struct defer_policy defer;
	struct rebalance_policy rebalance;
	int64_t rebalanced_us;
	/* of this step */
	struct arena *step;
	struct offer *offers;
	const struct hazard_model *model;
};

struct place { /* a ranking of one job, as struct placing of src/engine */
	struct rank_job job;
	struct ranking ranking;
	const struct score *spot, *on_demand;
	size_t spot_n, on_demand_n;
};

/* ours_market.c */
void market_init(struct fs_sim *s, struct ours *o);
/* the minute's record; tightness */
void market_step(struct fs_sim *s, struct ours *o, int64_t t);
/* Offers and their estimates, once a step and only on request. */
void market_need(struct fs_sim *s, struct ours *o);
void market_tried(struct fs_sim *s, struct ours *o, int32_t pool, bool got, int64_t t);
void market_reclaimed(struct fs_sim *s, struct ours *o, int32_t pool, int64_t t);
/* As destination() of src/engine/place/move_back.c. NULL: none that is not tight. */
const struct score *market_probe(const struct ours *o, const struct ranking *r,
    const struct score *here, const struct job_mind *m, bool spot_only);
bool market_tight(const struct ours *o, const struct offer *x); /* of the offer's group */
/* The best spot offer of a group that is not tight; NULL: all are. */
const struct score *market_easy(const struct ours *o, const struct ranking *r);

/* ours.c */
/* Sets up our experience and what the policy knows of each job. The caller frees o->step. */
void ours_begin(struct fs_sim *s, struct ours *o, const struct ours_conf *conf);
/* As the agent is told it: that of the score of its machine. self: struct ours. */
int64_t ours_interval(struct fs_sim *s, void *self, const struct fs_task *k, int32_t pool);
int64_t sim_now(const struct fs_sim *s, int64_t t); /* as core reads the clock */
bool ours_launch(struct fs_sim *s, struct ours *o, size_t task, int32_t pool, bool replaces);
bool ours_late(const struct fs_sim *s, const struct fs_job *j);
int64_t ours_launch_reserve(const struct fs_sim *s, const struct ranking *r, int64_t deadline_us);

/* ours_deadline.c. True: it was decided (or waits for its turn); false: there is no deadline to
 * plan for. */
bool deadline_decide(struct fs_sim *s, struct ours *o, size_t task, const struct place *p,
    enum policy_act held);

#endif
