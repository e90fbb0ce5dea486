/* The routes of fleets, nodes and moves. */
#include "base/base.h"
#include "api/fleet/fleet_priv.h"

static const struct route rows[] = {
	ROUTE_CREATE("/v1/fleets", ENGINEER, post_fleet, show_fleet, ROUTE_BODY_FILE, 201,
	    "FleetSpec", "Fleet", "Creates a fleet."),
	ROUTE("POST", "/v1/fleets/plan", ENGINEER, post_fleet_plan, ROUTE_BODY_FILE, "", 200,
	    "FleetSpec", "FleetDraft",
	    "Plans a fleet: pools, cost, the limits that bind, and the gap to the lowest possible "
	    "cost. Starts nothing."),
	ROUTE_READ("/v1/fleets", get_fleets, ROUTE_PAGE "state team", "FleetList",
	    "Lists fleets, newest first."),
	ROUTE("GET", "/v1/fleets/{fleet}", VIEWER, get_fleet, 0, "", 200, NULL, "Fleet",
	    "Shows one fleet with its nodes. The ETag is its version."),
	ROUTE("PATCH", "/v1/fleets/{fleet}", ENGINEER, patch_fleet, ROUTE_BODY_SMALL, "", 200,
	    "FleetPatch", "Fleet",
	    "Changes the wanted size, or the range and the headroom of a fleet that follows "
	    "demand. Send the fleet's ETag as If-Match to detect a concurrent change."),
	ROUTE("GET", "/v1/fleets/{fleet}/demand", VIEWER, get_fleet_demand, 0, "", 200, NULL,
	    "FleetDemand", "Shows the demand from outside. The ETag is its version."),
	ROUTE("PUT", "/v1/fleets/{fleet}/demand", ENGINEER, put_fleet_demand, ROUTE_BODY_SMALL, "",
	    200, "FleetDemandAsk", "FleetDemand",
	    "Asks for capacity from outside for a limited time. Repeat it before the time is over. "
	    "Send the ETag of the demand as If-Match to detect a concurrent change."),
	ROUTE("DELETE", "/v1/fleets/{fleet}", ENGINEER, delete_fleet, 0, "", 202, NULL, "Fleet",
	    "Closes a fleet. The engine releases its nodes."),
	ROUTE_READ("/v1/nodes", get_nodes, ROUTE_PAGE "state provider job fleet", "NodeList",
	    "Lists nodes, newest first. `state` takes states separated by commas, or `live`. "
	    "`fleet` is a fleet's id or name."),
	ROUTE_READ("/v1/nodes/{node}", get_node, "", "NodeDetail",
	    "Shows one node with notices, samples, events and the verdicts about it."),
	ROUTE("POST", "/v1/nodes/{node}/drain", ENGINEER, post_node_drain, ROUTE_BODY_SMALL, "",
	    202, NULL, "NodeDetail", "Checkpoints the running job and releases the node."),
	ROUTE("DELETE", "/v1/nodes/{node}", LEAD, delete_node, 0, "force", 202, NULL, "NodeDetail",
	    "Terminates a node. A running job is checkpointed first; `force=1` skips that."),
	ROUTE_CREATE("/v1/rebalance", ENGINEER, post_rebalance, show_rebalance, ROUTE_BODY_SMALL,
	    202, "RebalanceAsk", "Rebalance",
	    "Requests a rebalancing pass over the running jobs and the fleets, or over one "
	    "fleet."),
	ROUTE("GET", "/v1/rebalance/{decision}", VIEWER, get_rebalance, 0, "timeout_s", 200, NULL,
	    "Rebalance",
	    "Shows the outcome of a rebalancing pass. `timeout_s` holds the reply until it is "
	    "done."),
	ROUTE_READ("/v1/moves", get_moves, "since fleet", "Moves",
	    "Lists planned moves since `since` (default: 30 days ago), each with the cost of "
	    "staying and the amount earned. `fleet` is a fleet's id or name."),
};

const struct route_table fleet_routes = { rows, ARRAY_LEN(rows) };
