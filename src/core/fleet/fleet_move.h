/*
 * Decides which nodes of a fleet move to other pools now. Pure and deterministic.
 *
 * A move replaces one node by one in another pool. The new node is launched first, and the old one
 * drains when the new one is ready. The move must lower the objective of fleet.h. Let s be the drop
 * in dollars per hour of work, and t the new node's throughput per unit of weight:
 *
 *     saving = s * t * rest
 *     cost   = old price * (changeover + hold + save)
 *            + new price * (save + restart) + egress of the checkpoint
 *
 * - rest: until the fleet expires, or policy.rest_us; at most 1 / hazard of either place
 * - hold, save, restart and egress count for a node with a job
 *
 * The saving must exceed the cost by supply.return_margin_pm. Each refused probe of the pool
 * halves the saving first (return_share). The moves come one after the other, the largest gain
 * first. After each of them the limits, the wanted size, the floor and pools_min hold as well as
 * before. The file's disruption budget says how many begin now; the others wait.
 *
 * A node whose capacity ends moves before all others, to the cheapest place, whatever that saves.
 * The move begins changeover + return_hold before the node must save and leave (rank_leave_us). So
 * its replacement is ready before it drains. The budget does not bind, nor does rebalance.enabled.
 */
#ifndef CORE_FLEET_MOVE_H
#define CORE_FLEET_MOVE_H

#include "core/fleet/fleet_plan.h"
#include "core/policy/policy.h"

/* The budget with its defaults filled in. */
struct fleet_rebalance fleet_rebalance_of(const struct fleet_spec *f);

struct fleet_move_policy {
	const struct supply_policy *supply;
	int64_t rest_us; /* expected rest of a node's use */
	const struct rank_policy *rank; /* NULL: no pool ends */
};

/* A node that the fleet counts, as fleet_ask.have does. */
struct fleet_move_node {
	int64_t node_id, job_id; /* job_id 0 = idle */
	int32_t pool_id;
	const char *fixed; /* the reason why it may not move; NULL = none */
	int64_t ready_us; /* ready since */
	int64_t price_micros; /* per hour, what it costs */
	int64_t ends_us; /* its capacity ends, such as a capacity block; 0 = it does not */
	/* with a job: its save, and its restart on a ready node */
	int64_t save_us, restart_us, checkpoint_bytes;
	const struct resource_ask *asks; /* of the job; none = any pool of the fleet suits */
	size_t asks_n;
};
/* A move that is under way leaves this zone. */
struct fleet_leaving {
	const char *provider, *region, *zone;
};
struct fleet_move_in {
	const struct fleet_ask *ask;
	const struct fleet_move_node *nodes;
	size_t n;
	const struct fleet_move_policy *policy;
	bool return_only; /* only from on demand to spot */
	/* true while no launch should be tried there; NULL = none */
	bool (*tight)(const void *ctx, const struct offer *o);
	const void *tight_ctx;
	const struct fleet_leaving *leaving;
	size_t leaving_n;
	const struct offer *const *refused; /* pools of refused probes, one entry each */
	size_t refused_n;
	int32_t began_hour; /* moves begun in the last hour */
	int32_t probes_refused; /* in a row */
	int64_t last_probe_us; /* 0 = never */
	const char *store_provider, *store_region; /* of checkpoints; NULL = at the node */
	int64_t expires_us; /* of the fleet; 0 = never */
	int64_t now_us;
};

struct fleet_move {
	size_t node; /* in fleet_move_in.nodes */
	const struct score *here, *to; /* here NULL: the pool cannot be scored */
	bool now; /* begins now; else why says what it waits for */
	bool ends; /* its pool ends: it begins whatever it saves and the budget says */
	int64_t hourly_micros, risk_micros; /* saved per hour; of that, by less risk */
	int64_t rest_us;
	int64_t both_micros, restart_micros, egress_micros;
	int64_t saving_micros, cost_micros; /* over the rest */
	double share; /* of the saving that counts after refused probes */
	const char *why;
};
struct fleet_stay {
	size_t node;
	const char *why;
};
struct fleet_moves {
	struct fleet_move *moves; /* those that begin now, then those that wait */
	size_t n, now;
	struct fleet_stay *stays;
	size_t stays_n;
	int64_t before_micros, after_micros; /* the objective, and with all moves done */
	size_t weighed; /* pairs of node and pool */
};
void fleet_moves_choose(struct arena *a, const struct fleet_move_in *in, struct fleet_moves *ret);

/* Returns whether a node there must be replaced now, because its capacity ends. */
bool fleet_move_ends(const struct fleet_move_policy *p, int64_t ends_us, int64_t save_us,
    int64_t now_us);

/* The move as a decision stores it: the keys of a job's move, and every term. */
json_t *fleet_move_json(const struct fleet_move_in *in, const struct fleet_move *m);

#endif
