/* A fleet's patience for spot that is refused again and again. */
#include "base/base.h"
#include "core/fleet/fleet_priv.h"

const char *fleet_spot_given_up(struct arena *a, struct score *scores, size_t *n,
    const struct supply_in *in, const struct supply_policy *p)
{
	struct supply_in x = *in;
	const char *why = NULL;
	size_t kept = 0;
	int64_t until;

	for (size_t i = 0; i < *n; i++) {
		x.spot_usable += spot_market_reclaims(scores[i].offer->market);
		x.on_demand_usable += scores[i].offer->market == SPOT_MARKET_ON_DEMAND;
	}
	x.spot_allowed = x.on_demand_allowed = true;
	x.spot_refused = 1;
	if (x.queued_us == 0 || x.spot_usable == 0 ||
	    supply_choose(a, &x, p, &why, &until) != SUPPLY_ON_DEMAND) {
		return NULL;
	}
	for (size_t i = 0; i < *n; i++) {
		if (!spot_market_reclaims(scores[i].offer->market)) {
			scores[kept++] = scores[i];
		}
	}
	*n = kept;
	return why;
}
