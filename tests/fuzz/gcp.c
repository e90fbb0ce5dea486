/* Replies of Google Cloud to every verb, through the step functions. */
#include "base/base.h"
#include "replies.h"
#include "gcp/gcp.h"
#include "../unit/providers/gcp/golden.h"

int fuzz_one(const uint8_t *p, size_t n)
{
	AUTO(arena) struct arena *a = arena_new(0);
	const struct golden_case *k = &golden_cases[0];
	struct replies r;
	struct drive d;

	replies_read(a, p, n, &r);
	for (size_t i = 0; i < golden_cases_n; i++) {
		if (strcmp(golden_cases[i].name, r.name) == 0) {
			k = &golden_cases[i];
		}
	}
	drive_init(&d, &gcp_ops, k->env != NULL ? k->env : golden_env,
	    k->settings != NULL ? k->settings : golden_settings);
	d.now_us = GOLDEN_NOW_US;
	d.lenient = true;
	if (!k->no_token) {
		drive_script(&d, golden_auth, golden_auth_n);
		FUZZ_CHECK(drive_run(&d, DRIVE_AUTH, NULL) == SPOT_DONE);
	}
	replies_run(&d, &r, k->verb, k->args(d.arena));
	drive_fini(&d);
	return 0;
}
