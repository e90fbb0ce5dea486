/* The market: prices, pools, providers, quotas and supply. Read-only. */
#ifndef API_MARKET_H
#define API_MARKET_H

#include "api/server/server.h"

extern const struct route_table market_routes;

#endif
