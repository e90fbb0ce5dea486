/* Operations: health, version, metrics, leaks, doctor, events, tokens. */
#ifndef API_OPS_H
#define API_OPS_H

#include "api/server/server.h"

extern const struct route_table ops_routes;

#endif
