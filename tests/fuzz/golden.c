/* Replies of a cloud to every verb, through the step functions. The input's name is a golden case
 * of the provider that this is linked with (tests/unit/providers/golden.h); any other name is its
 * first case. */
#include "base/base.h"
#include "replies.h"
#include "golden.h"

int fuzz_one(const uint8_t *p, size_t n)
{
	AUTO(arena) struct arena *a = arena_new(0);
	const struct golden_suite *g = &golden_suite;
	const struct golden_case *k = &g->cases[0];
	struct replies r;
	struct drive d;

	replies_read(a, p, n, &r);
	for (size_t i = 0; i < g->cases_n; i++) {
		if (strcmp(g->cases[i].name, r.name) == 0) {
			k = &g->cases[i];
		}
	}
	FUZZ_CHECK(golden_auth_run(g, k, &d) == SPOT_DONE);
	d.lenient = true;
	replies_run(&d, &r, k->verb, golden_args(d.arena, k));
	drive_fini(&d);
	return 0;
}
