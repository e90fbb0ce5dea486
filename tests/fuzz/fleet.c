/* Fleet files. */
#include "base/base.h"
#include "fuzz.h"
#include "base/text/text.h"
#include "core/fleet/fleet.h"
#include "core/spec/spec.h"

int fuzz_one(const uint8_t *p, size_t n)
{
	AUTO(arena) struct arena *a = arena_new(0);
	AUTO(json) json_t *j = NULL, *again = NULL;
	struct fleet_spec *f = NULL, *back = NULL;
	const char *name = NULL;
	struct spot_err err = { 0 };
	enum spot_rc rc = fleet_spec_parse(a, fuzz_view(a, p, n), &f, &name, &err);

	fuzz_check_err(rc, &err);
	if (rc != SPOT_OK) {
		return 0;
	}
	FUZZ_CHECK(!str_empty(name));
	FUZZ_CHECK((f->nodes >= 0 && f->gpus >= 0) && (f->nodes == 0 || f->gpus == 0));
	FUZZ_CHECK(f->on_demand_floor >= 0 && f->pools_min >= 0);
	FUZZ_CHECK(f->per_pool_max >= 0 && f->per_zone_max >= 0 && f->per_provider_max >= 0);
	j = fleet_spec_to_json(f);
	FUZZ_CHECK(j != NULL && fleet_spec_from_json(a, j, &back, &err) == SPOT_OK);
	again = fleet_spec_to_json(back);
	FUZZ_CHECK(json_equal(j, again));
	return 0;
}
