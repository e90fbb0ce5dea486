/* Proximity placement groups (REST reference, Proximity Placement Groups - Create Or Update). One
 * is in use while a machine refers to it. */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "base/text/text.h"

static const char *near_of(const json_t *vm)
{
	const json_t *p =
	    json_object_get(json_object_get(vm, "properties"), "proximityPlacementGroup");

	return json_string_value(json_object_get(p, "id"));
}

bool az_near_good(struct az_call *c)
{
	static const char *const known[] = { "proximityPlacementGroupType", "colocationStatus",
		"intent", NULL };
	const json_t *p = json_object_get(c->doc, "properties");
	const char *type = json_string_value(json_object_get(p, "proximityPlacementGroupType"));

	if (json_unknown_key(p, known)) {
		az_fail(c, 400, "InvalidRequestContent",
		    "Could not find member '%s' on object of type 'ProximityPlacementGroup'.",
		    json_unknown_key(p, known));
		return false;
	}
	if (type && !az_same(type, "Standard") && !az_same(type, "Ultra")) {
		az_fail(c, 400, "InvalidParameter",
		    "The value '%s' of parameter 'proximityPlacementGroupType' is not allowed.",
		    type);
		return false;
	}
	return true;
}

bool az_near_take(struct az_call *c, const char *location)
{
	const char *id = near_of(c->doc);
	const struct az_res *r = az_by_id(c->az, id);

	if (!id) {
		return true;
	}
	if (!r || r->kind != AZ_NEAR || !az_same(r->location, location)) {
		az_fail(c, 400, "InvalidResourceReference",
		    "Resource %s referenced by resource %s was not found. Please make sure that "
		    "the referenced resource exists, and that both resources are in the same "
		    "region.",
		    id, c->name);
		return false;
	}
	if (json_object_get(json_object_get(c->doc, "properties"), "capacityReservation")) {
		az_fail(c, 400, "OperationNotAllowed",
		    "A capacity reservation does not support proximity placement groups.");
		return false;
	}
	return true;
}

const struct az_res *az_near_user(const struct azure *az, const struct az_res *near)
{
	for (const struct az_res *r = az->res; r; r = r->next) {
		if (r->kind == AZ_VM && !az_same(r->group, near->group) &&
		    az_same(near_of(r->asked), near->id)) {
			return r;
		}
	}
	return NULL;
}

void az_near_view(const struct azure *az, const struct az_res *near, json_t *properties)
{
	json_t *list = json_array();

	for (const struct az_res *r = az->res; r; r = r->next) {
		if (r->kind == AZ_VM && az_same(near_of(r->asked), near->id)) {
			json_array_append_new(list, json_pack("{s:s}", "id", r->id));
		}
	}
	json_object_set_new(properties, "virtualMachines", list);
	json_object_del(properties, "provisioningState");
}
