/* Spot placement scores and the caller's permissions. */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "base/text/text.h"

/* More stock, better score; sizes that are not sold there have no data. */
static const char *score_of(struct az_call *c, const struct pool *p, const char *region,
    const char *type, const char *zone, int64_t count)
{
	int64_t left;

	if (!p || !p->price[SIDE_SPOT].sold) {
		return "DataNotFoundOrStale";
	}
	if (az_restricted(c->rq->sim, region, type, zone)) {
		return "RestrictedSkuNotAvailable";
	}
	left = pool_free(p, SIDE_SPOT);
	return left >= 2 * count ? "High" : left >= count ? "Medium" : "Low";
}

static void score_add(struct az_call *c, json_t *list, const char *size, const char *region,
    const struct zone *z, int64_t count)
{
	const struct market *m = c->rq->sim->market;
	const struct pool *p = NULL;
	int64_t used = az_used(c->rq->sim, region, "lowPriorityCores"),
		limit = az_quota(c->rq->sim, region, "lowPriorityCores");
	json_t *o;

	for (size_t k = 0; k < m->pools_n && !p; k++) {
		if (m->pools[k].cloud == CLOUD_AZURE && m->pools[k].zone == z &&
		    str_same(m->pools[k].region->name, region) &&
		    az_same(m->pools[k].type->name, size)) {
			p = &m->pools[k];
		}
	}
	o = json_pack("{s:s, s:s, s:s, s:b}", "sku", size, "region", region, "score",
	    score_of(c, p, region, p ? p->type->name : size, z ? z->name : NULL, count),
	    "isQuotaAvailable", used + count * (p ? p->type->vcpus : 0) <= limit);
	if (z) {
		json_object_set_new(o, "availabilityZone", json_string(z->name));
	}
	json_array_append_new(list, o);
}

static bool limits_good(struct az_call *c, const json_t *sizes, const json_t *regions,
    int64_t count)
{
	if (json_array_size(sizes) < 1 || json_array_size(sizes) > 5 ||
	    json_array_size(regions) < 1 || json_array_size(regions) > 8 || count < 1 ||
	    count > 1000) {
		az_fail(c, 400, "BadRequest",
		    "The request has to name 1 to 8 desiredLocations, 1 to 5 desiredSizes and a "
		    "desiredCount.");
		return false;
	}
	return true;
}

static void region_scores(struct az_call *c, json_t *list, const char *size, const char *region,
    int64_t count, bool zones)
{
	const struct market *m = c->rq->sim->market;

	if (!zones) {
		score_add(c, list, size, region, NULL, count);
		return;
	}
	for (size_t k = 0; k < m->zones_n; k++) {
		if (m->zones[k].region->cloud == CLOUD_AZURE &&
		    str_same(m->zones[k].region->name, region)) {
			score_add(c, list, size, region, &m->zones[k], count);
		}
	}
}

void az_scores(struct az_call *c)
{
	static const char *const known[] = { "desiredLocations", "desiredSizes", "desiredCount",
		"availabilityZones", NULL };
	const json_t *sizes, *regions;
	json_t *list, *size, *region;
	int64_t count;
	size_t i, k;

	if (az_same(c->name, "spot") && !c->child && str_same(c->rq->http->method, "GET")) {
		az_send(c, 200,
		    json_pack("{s:o, s:s, s:s, s:{s:[s]}}", "id",
			json_sprintf("%s", c->rq->http->path), "name", "spot", "type",
			"Microsoft.Compute/locations/placementScores", "properties",
			"supportedResourceTypes", "Microsoft.Compute/virtualMachines"));
		return;
	}
	if (!az_same(c->name, "spot") || !az_same(c->child, "generate") ||
	    !str_same(c->rq->http->method, "POST")) {
		az_fail(c, 404, "NotFound", "The requested resource does not exist.");
		return;
	}
	if (!az_need_doc(c)) {
		return;
	}
	sizes = json_object_get(c->doc, "desiredSizes");
	regions = json_object_get(c->doc, "desiredLocations");
	count = json_integer_value(json_object_get(c->doc, "desiredCount"));
	if (json_unknown_key(c->doc, known)) {
		az_fail(c, 400, "BadRequest", "Could not find member '%s'.",
		    json_unknown_key(c->doc, known));
		return;
	}
	if (!limits_good(c, sizes, regions, count)) {
		return;
	}
	list = json_array();
	json_array_foreach (regions, i, region) {
		json_array_foreach (sizes, k, size) {
			const char *name = json_string_value(json_object_get(size, "sku"));

			region_scores(c, list, name ? name : "",
			    az_location(c->rq->arena,
				json_string_value(region) ? json_string_value(region) : ""),
			    count, json_is_true(json_object_get(c->doc, "availabilityZones")));
		}
	}
	json_object_set_new(c->doc, "placementScores", list);
	az_send(c, 200, json_incref(c->doc));
}

void az_permissions(struct az_call *c)
{
	az_send(c, 200,
	    json_pack("{s:[{s:[s], s:[s, s, s], s:[s], s:[]}]}", "value", "actions", "*",
		"notActions", "Microsoft.Authorization/*/Delete", "Microsoft.Authorization/*/Write",
		"Microsoft.Authorization/elevateAccess/Action", "dataActions",
		"Microsoft.Storage/storageAccounts/blobServices/containers/blobs/*",
		"notDataActions"));
}
