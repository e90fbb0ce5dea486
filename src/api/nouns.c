/*
 * The list of nouns. Each noun is a folder with its handlers and one table of routes. A new noun is
 * a folder and a row here; a new route is a row in its noun's table.
 */
#include "base/base.h"
#include "api/nouns.h"

#include "api/agent/agent.h"
#include "api/fleet/fleet.h"
#include "api/jobs/jobs.h"
#include "api/market/market.h"
#include "api/money/money.h"
#include "api/ops/ops.h"

static const struct route_table *const nouns[] = { &ops_routes, &market_routes, &job_routes,
	&money_routes, &fleet_routes, &agent_routes };

struct routes api_routes(struct arena *a)
{
	struct routes all = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(nouns); i++) {
		n += nouns[i]->n;
	}
	all.rows = arena_array(a, n, sizeof(*all.rows));
	for (size_t i = 0; i < ARRAY_LEN(nouns); i++) {
		for (size_t k = 0; k < nouns[i]->n; k++) {
			all.rows[all.n++] = &nouns[i]->rows[k];
		}
	}
	return all;
}

enum spot_rc api_new(struct loop *l, struct pg *pg, const struct api_conf *conf, struct api **ret,
    struct spot_err *err)
{
	struct arena *a = arena_new(0);
	struct routes all = api_routes(a);
	enum spot_rc rc = server_new(l, pg, conf, &all, ret, err);

	arena_free(a);
	return rc;
}
