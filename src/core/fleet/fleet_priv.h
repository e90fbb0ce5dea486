/* Private to core/fleet: the model of the allocation and its steps. */
#ifndef CORE_FLEET_FLEET_PRIV_H
#define CORE_FLEET_FLEET_PRIV_H

#include "core/fleet/fleet_plan.h"
#include "core/fleet/fleet_move.h"

/* The four levels at which pools fail together, the widest first, then the other limited groups. */
enum fleet_kind { FG_PROVIDER = 0, FG_REGION, FG_ZONE, FG_FAMILY, FG_GPU, FG_QUOTA, FLEET_KINDS };
#define FLEET_LEVELS 4
#define FLEET_NONE INT64_MAX

struct fleet_group {
	enum fleet_kind kind;
	int32_t parent;
	const char *name, *name2; /* name2: the quota's market */
	int64_t cap, used; /* nodes; a quota's units */
	double s; /* sum of u sqrt(h) over its nodes */
	double dual; /* dollars per unit of cap: of the bound */
	int32_t first, n; /* its items, in fleet_model.members */
};

struct fleet_item {
	const struct score *score; /* NULL: held, and not usable now */
	const struct offer *offer; /* may be NULL when held */
	const struct fleet_have *have; /* NULL: none held */
	int32_t pool_id;
	double c, q, u; /* dollars per hour; u sqrt(hazard) */
	int64_t w, fw; /* weight in thousandths; towards the floor (0: spot) */
	int64_t need; /* of its quota */
	int64_t cap; /* nodes */
	int32_t g[FLEET_KINDS]; /* groups; -1 = none */
	int32_t held, idle, x; /* x: held and picked, less what is given back */
	int32_t coming;
	int64_t price_micros;
	bool spread; /* counts for pools_min */
};

/* How good a plan is: compared in this order. */
struct fleet_value {
	int64_t missing, floor_short, pools_short;
	double cost;
};

/* The least dollars per hour of a reference machine: of any market, and of two of them. Infinite if
 * no usable pool has a cost. any is the price unit of the risk. */
struct fleet_least {
	double any, spot, on_demand;
};

/* A cache of groups by the addresses of their names. */
#define FLEET_NEAR_BITS 12
struct fleet_near {
	const char *name, *name2;
	enum fleet_kind kind;
	int32_t parent, group;
};

struct fleet_model {
	struct arena *arena;
	const struct fleet_ask *ask;
	struct fleet_least least;
	struct fleet_item *items;
	size_t n; /* by pool id */
	struct fleet_group *groups;
	size_t groups_n, groups_cap;
	int32_t *slots;
	size_t slots_n;
	struct fleet_near *near;
	int32_t *members;
	double delta[FLEET_LEVELS + 1]; /* risk of a level, of a pool last */
	double kappa; /* risk price / U, dollars */
	int64_t want, w_min, w_max, w_ref, fw_max; /* thousandths */
	int64_t floor, pools_want;
	/* of the plan as it stands */
	int64_t total, held, floor_have, pools;
	/* added nodes; of them, those that do not count towards the floor */
	int64_t added, added_other;
	int64_t steps, steps_max;
};

/* Returns whether the wanted amount is the work of f->gpus_of. */
bool fleet_by_work(const struct fleet_spec *f);
/* Returns the work of this GPU in units of f->gpus_of. */
double fleet_gpu_worth(const struct fleet_spec *f, const char *gpu);
void fleet_least_find(const struct fleet_ask *ask, struct fleet_least *ret);
/* Builds the model in a. only_held leaves out pools without nodes of the fleet, which is enough to
 * see whether it is at its size. */
void fleet_model_build(struct fleet_model *m, struct arena *a, const struct fleet_ask *ask,
    bool only_held, const struct fleet_least *least);
/* fleet_marginal() returns the cost of one more node, fleet_gain() the saving of one less. Both are
 * dollars per hour, risk included. */
double fleet_marginal(const struct fleet_model *m, const struct fleet_item *i);
double fleet_gain(const struct fleet_model *m, const struct fleet_item *i);
void fleet_put(struct fleet_model *m, struct fleet_item *i, int32_t nodes);
/* Returns whether limits allow one more node. Never true for an unusable pool or one with fewer
 * nodes than it holds. */
bool fleet_room(const struct fleet_model *m, const struct fleet_item *i);
/* Returns whether one more node helps: weight is missing, or the floor is and the node counts
 * towards it. */
bool fleet_wanted(const struct fleet_model *m, const struct fleet_item *i);
void fleet_value(const struct fleet_model *m, struct fleet_value *ret);
int fleet_value_compare(const struct fleet_value *a, const struct fleet_value *b);
double fleet_cost(const struct fleet_model *m, double *ret_risk);
/* Returns whether one node less of i would do. */
bool fleet_needless(const struct fleet_model *m, const struct fleet_item *i);
/* Returns whether every added node is needed. */
bool fleet_sane(const struct fleet_model *m);

void fleet_fill(struct fleet_model *m); /* greedy */
void fleet_drop(struct fleet_model *m); /* gives back the surplus */
void fleet_improve(struct fleet_model *m); /* exchanges */
/* branch and bound; true = every alternative was weighed */
bool fleet_search(struct fleet_model *m, int64_t most);
/* Returns a lower bound in dollars for plans of this coverage, floor and number of pools. Leaves
 * the duals in the groups. */
double fleet_bound(struct fleet_model *m);
/* The disruption budget in the fleet file and in the stored spec (fleet_rebalance.c). */
struct yaml;
NODISCARD enum spot_rc fleet_rebalance_parse(const struct yaml *y, struct fleet_rebalance *ret,
    struct spot_err *err);
json_t *fleet_rebalance_json(const struct fleet_rebalance *b);
void fleet_rebalance_read(struct arena *a, const json_t *j, struct fleet_rebalance *ret,
    struct spot_err *err);
/* Returns the limit that keeps a node out; 0 = none. *ret_group is -1 for the pool's own limit. */
enum fleet_limit fleet_blocked(const struct fleet_model *m, const struct fleet_item *i,
    int32_t *ret_group);

/* Private to the files of fleet_move.h. */

/* A move must not lower these below the wanted amounts. */
struct fleet_kept {
	int64_t total, floor, pools;
};
struct fleet_movement {
	struct arena *arena;
	const struct fleet_move_in *in;
	struct fleet_model m; /* with the moves chosen so far */
	struct fleet_kept was;
	struct fleet_item **dests; /* by cost */
	size_t dests_n, weighed;
	/* of each node: its pool, and the best destination */
	struct fleet_item **at, **to;
	const char **why; /* never moves; NULL = may */
	struct fleet_move *best;
	bool *moved, *better;
	const char **bound; /* the rule that keeps it where a better place would be; NULL = none */
	const char *binds; /* of the node at hand */
};

/* The saving beyond the cost and the margin. */
double fleet_move_net(const struct fleet_move_in *in, const struct fleet_move *m);
/* Fills the terms of a move from one pool to another, one node of `from` being out of the model. */
void fleet_pair_fill(const struct fleet_movement *x, size_t node, const struct fleet_item *from,
    const struct fleet_item *to, struct fleet_move *ret);
/* Returns whether the model allows a node more of `to` and keeps x->was. One of `from` is out. */
bool fleet_pair_keeps(struct fleet_movement *x, const struct fleet_item *to);
bool fleet_job_suits(const struct fleet_movement *x, const struct fleet_move_node *n,
    const struct offer *o);
void fleet_kept_read(struct fleet_movement *x);
/* fleet_ends.c */
bool fleet_node_ends(const struct fleet_movement *x, size_t node);
/* Moves the nodes whose capacity ends. */
void fleet_endings_choose(struct fleet_movement *x, struct fleet_moves *ret);
/* Returns why the node may not move at all; NULL = it may. */
const char *fleet_move_never(const struct fleet_movement *x, size_t node);
/* Returns why the move does not begin now, beside those of so_far; NULL = it begins. */
const char *fleet_move_waits(const struct fleet_movement *x, const struct fleet_moves *so_far,
    size_t node);
const char *fleet_move_words(const struct fleet_movement *x, const struct fleet_move *m,
    const char *wait);
void fleet_stays_fill(const struct fleet_movement *x, struct fleet_moves *ret);

#endif
