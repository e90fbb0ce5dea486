/* The handlers of fleets, nodes and moves, by file. */
#ifndef API_FLEET_PRIV_H
#define API_FLEET_PRIV_H

#include "api/fleet/fleet.h"

/* fleets.c */
void post_fleet(struct areq *q);
void get_fleets(struct areq *q);
void get_fleet(struct areq *q);
void show_fleet(struct areq *q, int status); /* replies with the fleet q->id */
bool fleet_team_allowed(struct areq *q, const char *team); /* replies if false */
/* fleet_change.c */
void patch_fleet(struct areq *q);
void delete_fleet(struct areq *q);
/* Reads If-Match into *version, 0 = any. Replies if false. */
bool fleet_if_match(struct areq *q, int64_t *version);
/* fleet_demand.c */
void put_fleet_demand(struct areq *q);
void get_fleet_demand(struct areq *q);
/* fleet_plan.c */
void post_fleet_plan(struct areq *q);
/* nodes.c */
void get_nodes(struct areq *q);
void get_node(struct areq *q);
void post_node_drain(struct areq *q);
void delete_node(struct areq *q);
/* rebalance.c */
void post_rebalance(struct areq *q);
void get_rebalance(struct areq *q);
void get_moves(struct areq *q);
void show_rebalance(struct areq *q, int status); /* replies with the decision q->id */

#endif
