#include "base/base.h"
#include "gcp_priv.h"

/* advice.capacity and advice.capacityHistory: one machine type per request
 * (docs.cloud.google.com/compute/docs/instances/view-spot-preemption-price,
 * .../view-vm-availability). Requests name a machine type only: of GPUs attached to N1 there is no
 * advice. */

enum spot_step gcp_advice_send(struct gcp *self, struct spot_call *c, const char *version,
    const char *region, const char *method, json_t *body)
{
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "POST",
		.what = arena_printf(c->arena, "advice.%s", method),
		.path = arena_printf(c->arena, "/compute/%s/projects/%s/regions/%s/advice/%s",
		    version, self->project, region, method),
		.body = json_text(c->arena, body),
		.limit = GCP_LIMIT_ADVICE };

	return gcp_send(self, c, &r);
}

static int pair_compare(const void *x, const void *y)
{
	const struct gcp_pair *a = x, *b = y;
	int by_region = strcmp(a->region, b->region);

	return by_region != 0 ? by_region : strcmp(a->type, b->type);
}

size_t gcp_pairs(struct arena *a, const struct spot_pool_info *pools, size_t n, const char *region,
    struct gcp_pair **ret)
{
	struct gcp_pair *all = arena_array(a, n + 1, sizeof(*all));
	size_t count = 0, kept = 0;

	for (size_t i = 0; i < n; i++) {
		const struct spot_pool_key *k = &pools[i].key;

		if (k->market == SPOT_MARKET_SPOT && strchr(k->instance_type, '+') == NULL &&
		    (str_empty(region) || strcmp(region, k->region) == 0)) {
			all[count++] = (struct gcp_pair){ k->region, k->instance_type };
		}
	}
	qsort(all, count, sizeof(*all), pair_compare);
	for (size_t i = 0; i < count; i++) {
		if (kept == 0 || pair_compare(&all[kept - 1], &all[i]) != 0) {
			all[kept++] = all[i];
		}
	}
	*ret = all;
	return kept;
}
