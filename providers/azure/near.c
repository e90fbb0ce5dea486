#include "base/base.h"
#include "azure_priv.h"

/*
 * Proximity placement groups (virtual-machines/co-location): machines in one data centre. A launch
 * makes the group first, in a resource group of its own, since each machine's resource group goes
 * with the machine. Both PUTs may be repeated: they change nothing that is there. The list reports
 * the resource group as a leftover once no machine refers to it (lists.c).
 */

/* Capacity reservations do not take one (virtual-machines/capacity-reservation-overview). The name
 * holds the region, because a resource group cannot change its own. */
const char *azure_near_lease(const struct azure *self, struct arena *a, const struct spot_launch *l)
{
	return l->key.market == SPOT_MARKET_RESERVED || str_empty(l->together)
	    ? NULL
	    : azure_lease(self, a, arena_printf(a, "%s-%s", l->together, l->key.region));
}

const char *azure_near_path(const struct azure *self, struct arena *a, const char *lease)
{
	return arena_printf(a,
	    "/subscriptions/%s/resourceGroups/%s/providers/Microsoft.Compute/"
	    "proximityPlacementGroups/%s",
	    self->subscription, lease, lease);
}

/* Not mutating: no machine is made. */
enum spot_step azure_near_group_send(struct azure *self, struct spot_call *c,
    const struct spot_launch *l)
{
	json_t *doc AUTO(json) = json_pack("{s:s, s:{s:s, s:s}}", "location", l->key.region, "tags",
	    AZURE_TAG_INSTALL, l->install, AZURE_TAG_CREATED,
	    arena_printf(c->arena, "%" PRId64, c->now_us / SPOT_US_PER_S));
	struct azure_request r = { .what = "PUT resourceGroups",
		.method = "PUT",
		.limit = AZURE_LIMIT_WRITE };

	r.path = arena_printf(c->arena, "%s?api-version=" API_GROUPS,
	    azure_group_path(self, c->arena, azure_near_lease(self, c->arena, l)));
	r.body = json_text(c->arena, doc);
	return azure_send(self, c, &r);
}

enum spot_step azure_near_send(struct azure *self, struct spot_call *c, const struct spot_launch *l)
{
	json_t *doc AUTO(json) = json_pack("{s:s, s:{s:s}}", "location", l->key.region,
	    "properties", "proximityPlacementGroupType", "Standard");
	struct azure_request r = { .what = "PUT proximityPlacementGroups",
		.method = "PUT",
		.limit = AZURE_LIMIT_WRITE };

	r.path = arena_printf(c->arena, "%s?api-version=" API_COMPUTE,
	    azure_near_path(self, c->arena, azure_near_lease(self, c->arena, l)));
	r.body = json_text(c->arena, doc);
	return azure_send(self, c, &r);
}

/* The reply to either. One that is being deleted is free again soon. */
enum spot_step azure_near_reply(struct spot_call *c, const char *what)
{
	json_t *doc AUTO(json) = NULL;
	enum spot_step s = azure_reply(c, what, &doc);

	if (s == SPOT_FAIL && c->err.rc == SPOT_GONE) {
		c->err.rc = SPOT_UNAVAILABLE;
	}
	if (s == SPOT_STEP_NONE && *azure_text(doc, "id") == '\0') {
		return azure_bad_reply(c, what, "no id in it");
	}
	return s;
}
