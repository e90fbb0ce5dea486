/*
 * Private to policy_auto: the model of the pools (policy_model.c) and the deadline problem solved
 * under it (policy_dp.c). The fitting tool and the unit tests include it too. All memory is the
 * run's arena.
 */
#ifndef CORE_POLICY_PRIV_H
#define CORE_POLICY_PRIV_H

#include "core/hazard/hazard.h"
#include "core/policy/deadline_policy.h"

struct arena;

enum { POLICY_AGES = 8, POLICY_FADES = 5, POLICY_FEATS = 2 * POLICY_AGES * POLICY_FADES };
#define POLICY_FADE_HALF_H 8.0 /* half-life of the faded availability */
#define POLICY_USUAL_HALF_H 200.0 /* half-life of the availability that it returns to */
#define POLICY_FEAT(up, age, fade) (((up)*POLICY_AGES + (age)) * POLICY_FADES + (fade))

/* Changes of state per hour of a usual pool: [is it up][age of that state][faded availability 0,
 * 1/4 .. 1]. */
struct policy_prior {
	double per_hour[2][POLICY_AGES][POLICY_FADES];
};
/* fitted on public traces, tests/bench/policy/policy_fit.c */
extern const struct policy_prior policy_prior_public;
extern const double policy_age_edge_h[POLICY_AGES];

/* changes, and those that the prior predicted */
struct policy_counts {
	double seen[2][POLICY_AGES], due[2][POLICY_AGES];
};
struct policy_pool { /* observations of one pool */
	bool known, up;
	/* of its state; availability faded with POLICY_FADE_HALF_H */
	double age_h, fade;
	double usual; /* availability faded with POLICY_USUAL_HALF_H */
	struct policy_counts own;
	struct rise rise; /* as of the last tick seen; raises the rate at which it is lost */
};
struct policy_model {
	const struct policy_prior *prior;
	struct policy_counts usual; /* of other pools' tracks */
	size_t pools_n;
	/* the run's pools; one more when there are several: "any of them is up" */
	struct policy_pool *pools;
};

void policy_model_init(struct policy_model *m, struct arena *a, const struct policy_prior *prior,
    size_t pools_n);
void policy_model_learn(struct policy_model *m, const struct policy_track *tracks, size_t n);
void policy_model_see(struct policy_model *m, const uint8_t *up, double dt_h);
void policy_pool_see(struct policy_pool *p, const struct policy_prior *prior, bool up, double dt_h);
int policy_age_bin(double age_h);
/* Returns the rate per hour at which p leaves its state at this age and fade. */
double policy_hazard(const struct policy_model *m, const struct policy_pool *p, bool up, int age,
    double fade);
/* Returns the losses that the rise of p adds between these hours from now, by the function that the
 * ranking uses. */
double policy_raised(const struct policy_pool *p, double from_h, double to_h);
/* Returns the hours that p, which is up, is expected to stay up, counted to limit_h. */
double policy_life(const struct policy_model *m, const struct policy_pool *p, double limit_h);

struct policy_dp;
struct policy_problem { /* the input of a table */
	const struct policy_model *model;
	const struct policy_pool *pool;
	int64_t work_us, slack_us; /* left */
	double spot, on_demand; /* dollars per hour */
	double moves_per_hour; /* changeovers from spot to spot */
};
/* expected dollars to the end; slack: per hour of it */
struct policy_worth {
	double wait, spot, on_demand, slack;
};

/* width of the grid's steps, in time and in slack */
double policy_dp_step_us(const struct policy_setup *s);
struct policy_dp *policy_dp_new(struct arena *a, const struct policy_setup *s);
void policy_dp_solve(struct policy_dp *dp, const struct policy_problem *p);
/* Returns whether the solved layers reach this point of the run. */
bool policy_dp_covers(const struct policy_dp *dp, int64_t work_us, int64_t slack_us);
/* Fills the worth of the three choices for a job that holds this. Impossible ones are worth
 * POLICY_NEVER. */
void policy_dp_worth(const struct policy_dp *dp, const struct policy_pool *p, enum policy_act held,
    int64_t work_us, int64_t slack_us, struct policy_worth *ret);
#define POLICY_NEVER 1e9

/* At most this many pools of different prices are solved jointly (policy_joint.c). */
enum { POLICY_SLOTS = 3 };
struct policy_joint;
struct policy_slot {
	const struct policy_pool *pool;
	double price; /* dollars per hour */
};
struct policy_joint_problem {
	const struct policy_model *model;
	struct policy_slot slot[POLICY_SLOTS];
	int64_t work_us, slack_us; /* left */
	double on_demand;
};
struct policy_joint_view { /* a point of the run */
	const struct policy_pool *pools[POLICY_SLOTS]; /* the pool of each slot */
	enum policy_act held;
	int held_slot;
	int64_t work_us, slack_us;
};
struct policy_joint_worth {
	double wait, on_demand, spot[POLICY_SLOTS];
};

struct policy_joint *policy_joint_new(struct arena *a, const struct policy_setup *s);
void policy_joint_solve(struct policy_joint *dp, const struct policy_joint_problem *p);
bool policy_joint_covers(const struct policy_joint *dp, int64_t work_us, int64_t slack_us);
void policy_joint_worth(const struct policy_joint *dp, const struct policy_model *m,
    const struct policy_joint_view *v, struct policy_joint_worth *ret);

void *policy_auto_begin(struct arena *a, const struct policy_setup *s,
    const struct policy_track *tracks, size_t n, const struct policy_prior *prior);

#endif
