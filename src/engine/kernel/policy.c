/* Builds the policy of core/place/placement.h from the configuration. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/money/money.h"
#include "engine/kernel/kernel.h"

struct place_policy engine_place_policy(const struct engine_conf *c)
{
	bool store = !str_empty(c->store_bucket);

	return (struct place_policy){
		.rank = c->rank,
		.supply = c->supply,
		.defer = c->defer,
		.gang_hold_us = c->gang_hold_us,
		.deadline_tick_us = c->deadline_tick_us,
		.cool_min_us = c->cool_min_us,
		.cool_max_us = c->cool_max_us,
		.budget_end_us = BUDGET_END_US + c->budget_look_us,
		.store_provider = store ? c->store_provider : NULL,
		.store_region = store ? c->store_region : NULL,
	};
}
