/* Money: sums over the ledger and the cost of one job. */
#ifndef API_MONEY_H
#define API_MONEY_H

#include "api/server/server.h"

extern const struct route_table money_routes;

#endif
