/* Fleets, nodes and planned moves. */
#ifndef API_FLEET_H
#define API_FLEET_H

#include "api/server/server.h"

extern const struct route_table fleet_routes;

#endif
