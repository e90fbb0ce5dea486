/*
 * Decides how the nodes of a fleet spread over pools. Pure and deterministic: the same rows in any
 * order give the same plan.
 *
 * The wanted amount is a weight: nodes, GPUs, or work (GPUs in units of a named one). With x_i
 * nodes in pool i the plan minimises, in dollars per hour of work at the reference's speed,
 *
 *     sum_i c_i x_i  +  risk(x)
 *
 * - c_i = score.total_micros / hours of work it was scored for * u_i; 0 for market reserved
 * - u_i = weight of the node / weight of the reference machine
 * - risk(x) = price / U * (sum over pairs of nodes a, b of rho(a, b) sqrt(h_a h_b) u_a u_b)
 *
 * Here h is the hazard, rho is hazard_correlation() and U the wanted amount. The sum counts the
 * nodes lost in an hour, each with the share of the fleet lost at the same moment. The price of
 * risk is spec.risk times the cheapest usable c. The costs c already contain the loss of single
 * nodes, and the egress of the checkpoints that the fleet's jobs save and restore.
 *
 * rho depends only on what two pools share (provider > region > zone > family > pool). The sum over
 * pairs is therefore one square per group, and the problem is convex. The plan starts greedy by
 * marginal cost (Minoux' lazy form). Exchanges of one node for one or two improve it. Small fleets
 * end with branch and bound. `bound` is a lower bound from the Lagrangian dual, linearised at the
 * plan, so `gap` holds whatever the search missed.
 *
 * Priorities, in this order: limits and quotas for added nodes, few missing nodes, the floor
 * (reserved capacity counts), pools_min, cost. Existing nodes stay at any price; fleet_move.h moves
 * them. Only surplus idle nodes go back, the most expensive and riskiest first. Nothing fails;
 * memory is the arena's.
 */
#ifndef CORE_FLEET_PLAN_H
#define CORE_FLEET_PLAN_H

#include "base/base.h"
#include "core/rank/rank.h"

struct hazard_model;
struct fleet_scaling;

/* The disruption budget of a fleet's moves; 0 = the default. */
struct fleet_rebalance {
	bool off; /* nodes stay at any price */
	int32_t at_once, per_zone, per_hour; /* nodes that move; 1, 1, 4 */
	uint32_t hours; /* bit h: moves may begin in hour h of the day (UTC); all */
	const char *hours_text; /* as in the file */
};

struct fleet_spec {
	int32_t nodes; /* wanted nodes, or */
	int32_t gpus; /* wanted GPUs (any node size that suits); one of the two */
	struct resource_ask *asks;
	size_t asks_n;
	int32_t per_pool_max, per_zone_max, per_provider_max; /* nodes; 0 = no limit */
	int32_t on_demand_floor; /* at least this many nodes on demand */
	/* default 5. The floor counts as one pool. Other on-demand pools do not count, nor spot
	 * pools that cost more than those. */
	int32_t pools_min;
	const char *team, *project;
	int32_t per_region_max, per_gpu_max; /* nodes; 0 = no limit */
	/* the floor as a share of the wanted amount, per mille; 0 = on_demand_floor */
	int32_t floor_pm;
	/* gpus counts in units of this one; "" = GPUs are counted */
	const char *gpus_of;
	/* default FLEET_RISK: hours of the cheapest node; 0 = none */
	double risk;
	/* NULL = the size is fixed (fleet_size.h); else nodes or gpus is the target */
	struct fleet_scaling *scaling;
	struct fleet_rebalance rebalance;
};
#define FLEET_RISK 4.0
/* Reads a fleet file, JSON or YAML:
 *
 *     {"name", "nodes" | "gpus": N or {"H100": N}, "resources": {as in a job file}, "limits",
 *      "on_demand_floor": N or "20%", "pools_min", "risk", "rebalance", "team", "project"}
 *
 * Further keys are those of fleet_scaling_parse (fleet_size.h). The limits are "per_pool",
 * "per_zone", "per_region", "per_provider" and "per_gpu". The keys of rebalance are "enabled",
 * "at_once", "per_zone", "per_hour" and "hours" ("0-6,22").
 */
NODISCARD enum spot_rc fleet_spec_parse(struct arena *a, struct str text, struct fleet_spec **ret,
    const char **ret_name, struct spot_err *err);
/* Makes the spec want this size, which the engine decided. */
void fleet_spec_resize(struct fleet_spec *s, int32_t size);
json_t *fleet_spec_to_json(const struct fleet_spec *s);
NODISCARD enum spot_rc fleet_spec_from_json(struct arena *a, const json_t *j,
    struct fleet_spec **ret, struct spot_err *err);

/* Nodes of a pool that the fleet has. offer and score may be NULL: then they are those of the
 * scores given, if there. */
struct fleet_have {
	int32_t pool_id;
	const char *zone, *region, *provider;
	enum spot_market market;
	int32_t gpu_milli, nodes;
	int32_t idle; /* of them: may be given back */
	/* others on their way that replace nodes elsewhere: count against the limits alone */
	int32_t coming;
	int64_t price_micros; /* per node-hour */
	const struct offer *offer;
	const struct score *score;
};
struct fleet_pick {
	const struct score *score;
	int32_t nodes; /* to add */
	int64_t marginal_micros; /* per hour: what the last of them costs, risk included */
};
struct fleet_give {
	int32_t pool_id, nodes;
	int64_t saves_micros;
}; /* per hour, risk included */

enum fleet_limit {
	FLEET_PER_POOL = 1,
	FLEET_PER_ZONE,
	FLEET_PER_REGION,
	FLEET_PER_PROVIDER,
	FLEET_PER_GPU,
	FLEET_QUOTA
};
/* A limit that is reached and keeps pools out that would be used otherwise. */
struct fleet_binding {
	enum fleet_limit limit;
	/* "aws us-east-1 use1-az4", "A100-80GB", "aws us-east-1 spot P" */
	const char *where;
	int64_t max, used; /* nodes; for a quota its unit's */
	const char *unit;
	int32_t pools; /* kept out */
	int64_t worth_micros; /* per hour that one more node would save; 0 = not known */
};

struct fleet_plan {
	struct fleet_pick *picks;
	size_t n;
	int32_t missing; /* nodes (GPUs) that no pool can take now */
	int32_t surplus; /* excess nodes: those in gives */
	const char *why;
	struct fleet_give *gives;
	size_t gives_n;
	int32_t floor_want, floor_have; /* nodes, or thousandths where the floor is a share */
	/* pools in use with the picks that count for pools_min, and how many should be */
	int32_t pools, pools_want;
	struct fleet_binding *bindings;
	size_t bindings_n;
	/* dollars per hour of work at the reference's speed, of all that is held and picked */
	int64_t cost_micros, risk_micros, bound_micros;
	/* (cost + risk - bound) / (cost + risk); 0 = it is the least */
	double gap;
	bool proved; /* every alternative was searched */
	int64_t hourly_micros; /* list prices, per hour */
	/* expected per hour: nodes lost x share of the fleet lost with them */
	double lost_together;
	int64_t risk_price_micros; /* of one of those */
	/* in nodes, GPUs or GPUs of gpus_of; have without the picks */
	double want, have;
	size_t usable, steps; /* pools looked at; alternatives weighed */
};
/* The inputs of a plan that changed nothing. While they stay the same, a new plan changes nothing
 * either. */
struct fleet_seen {
	int64_t fleet_id, version;
	uint64_t offers; /* offers_digest() */
	uint64_t nodes; /* of its nodes, their states and use */
	/* plan again from this time in any case: cooldowns end, hazards drift */
	int64_t until_us;
};
/* Returns whether the fleet must be planned again. True if was is NULL or of another fleet. */
bool fleet_again(const struct fleet_seen *was, const struct fleet_seen *is, int64_t now_us);
struct fleet_ask {
	const struct fleet_spec *spec;
	const struct fleet_have *have;
	size_t have_n;
	const struct score *scores;
	size_t scores_n;
	const struct hazard_model *hazards; /* NULL: only nodes of one pool are lost together */
	int64_t search_max; /* alternatives of branch and bound; 0 = default, < 0 none */
};
/* Fills ret with the job that a fleet's offers are scored for: one that checkpoints. Its jobs tell
 * only how much they save (struct fleet_saves). */
void fleet_job(const struct fleet_spec *f, struct job_spec *ret);
void fleet_plan_make(struct arena *a, const struct fleet_ask *ask, struct fleet_plan *ret);
/* A fleet waits for spot as a job does (supply_choose). Once its spot launches were refused for
 * longer than the patience, takes the spot pools out of the scores and returns the reason. Else
 * returns NULL. in: now_us, and queued_us of the first refusal; 0 = none. */
struct supply_in;
struct supply_policy;
const char *fleet_spot_given_up(struct arena *a, struct score *scores, size_t *n,
    const struct supply_in *in, const struct supply_policy *p);
/* Returns the plan as it is shown and stored: the nodes of each pool with the reason, the sums and
 * the bound. It lists the missing nodes and the limits that bind. */
json_t *fleet_plan_json(const struct fleet_ask *ask, const struct fleet_plan *p);
const char *fleet_limit_name(enum fleet_limit l);

#endif
