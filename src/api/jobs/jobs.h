/* Jobs: submit, plan, backtest, list, show, queue, shares, logs, checkpoints, workload classes. */
#ifndef API_JOBS_H
#define API_JOBS_H

#include "api/server/server.h"

extern const struct route_table job_routes;

#endif
