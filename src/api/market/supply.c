/* GET /v1/supply: how tight the supply of each pool group is that we tried lately. */
#include "base/base.h"
#include "api/market/market_priv.h"

#include "core/policy/policy.h"

static void supply_done(struct areq *q)
{
	struct q_api_supply_row *row;

	if (q_api_supply_rows(&q->pg, q->arena, &row) == 1) {
		areq_items(q, row->doc);
	}
}

void get_supply(struct areq *q)
{
	const char *state = areq_query(q, "state");

	if (state && supply_state_parse(state) == SUPPLY_STATE_NONE) {
		areq_fail_field(q, "state", "no supply state '%s'; valid are easy, tight", state);
		return;
	}
	SQL(q, api_supply, supply_done, .provider = areq_query(q, "provider"),
	    .region = areq_query(q, "region"), .gpu = areq_query(q, "gpu"), .state = state,
	    .most = 5000);
}
