/* Replies of Kubernetes API servers and of CoreWeave's control plane to every verb, through the
 * step functions. The input's name is a case of tests/unit/providers/coreweave/cases.c. */
#include "base/base.h"
#include "replies.h"
#include "cases.h"

static const struct cw_case *case_of(const char *name)
{
	for (size_t i = 0; i < cw_cases_n; i++) {
		if (strcmp(cw_cases[i].name, name) == 0) {
			return &cw_cases[i];
		}
	}
	return NULL;
}

/* Of a watch the whole reply comes as one piece of a stream. */
static void as_stream(struct replies *r)
{
	for (size_t i = 0; i < r->n; i++) {
		if (r->tries[i].reply_n > 0) {
			r->tries[i].lines[0] = r->tries[i].reply;
		}
	}
}

int fuzz_one(const uint8_t *p, size_t n)
{
	AUTO(arena) struct arena *a = arena_new(0);
	const struct cw_case *k;
	struct replies r;
	struct drive d;
	bool cks;

	replies_read(a, p, n, &r);
	k = case_of(r.name);
	cks = k == NULL || k->ops == &coreweave_ops;
	if (k == NULL) {
		/* Anything else is a reply to auth: clusters and tokens, or a kubeconfig. */
		cks = strcmp(r.name, "kubeconfig") != 0;
		drive_init(&d, cks ? &coreweave_ops : &kubernetes_ops, cks ? case_env : NULL,
		    cks ? case_settings : case_kube_settings);
		replies_run(&d, &r, DRIVE_AUTH, NULL);
		drive_fini(&d);
		return 0;
	}
	if (k->verb == DRIVE_WATCH) {
		as_stream(&r);
	}
	cw_open(&d, k->ops, NULL);
	replies_run(&d, &r, k->verb, cw_args(d.arena, k->verb, cks));
	drive_fini(&d);
	return 0;
}
