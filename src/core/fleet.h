/*
 * Which pools the missing nodes of a fleet go to. Pure. Spread over at least pools_min pools where they
 * exist, limits per pool, zone and provider, an on-demand floor; cheapest expected dollars per unit of
 * work first. Deterministic.
 */
#ifndef CORE_FLEET_H
#define CORE_FLEET_H

#include "base/base.h"
#include "core/rank.h"

struct fleet_spec {
	int32_t nodes;                 /* wanted nodes, or */
	int32_t gpus;                  /* wanted GPUs (any node size that suits); one of the two */
	struct resource_ask *asks; size_t asks_n;
	int32_t per_pool_max, per_zone_max, per_provider_max;  /* nodes; 0 = no limit */
	int32_t on_demand_floor;       /* at least this many nodes on demand */
	int32_t pools_min;             /* default 5 */
	const char *team, *project;
};
/* From JSON: {"name","nodes"|"gpus","resources":{as in a job file},"limits":{"per_pool","per_zone","per_provider"},
 * "on_demand_floor","pools_min","team","project"} */
NODISCARD enum spot_rc fleet_spec_parse(struct arena *a, struct str text, struct fleet_spec **ret, const char **ret_name,
    struct spot_err *err);
json_t *fleet_spec_to_json(const struct fleet_spec *s);
NODISCARD enum spot_rc fleet_spec_from_json(struct arena *a, const json_t *j, struct fleet_spec **ret, struct spot_err *err);

struct fleet_have { int32_t pool_id; const char *zone, *region, *provider; enum spot_market market; int32_t gpu_milli; int32_t nodes; };
struct fleet_pick { const struct score *score; int32_t nodes; };
struct fleet_plan {
	struct fleet_pick *picks; size_t n;
	int32_t missing;               /* nodes that no pool can take now */
	int32_t surplus;               /* nodes too many: give back the dearest */
	const char *why;
};
void fleet_allocate(struct arena *a, const struct fleet_spec *f, const struct fleet_have *have, size_t have_n,
    const struct score *scores, size_t usable, struct fleet_plan *ret);

#endif
