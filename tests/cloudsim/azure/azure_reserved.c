/* Capacity reservations: made through the control API (nobody pays here), listed, used up by VMs
 * that name their group. A VM beyond what is reserved takes the pool's stock, as Azure allows. */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "base/text/text.h"

struct az_reserved {
	struct az_reserved *next;
	char *group, *name; /* group: id of the capacity reservation group */
	struct pool *pool;
	int64_t count;
};

static const char *group_asked(const json_t *vm)
{
	const json_t *p = json_object_get(json_object_get(vm, "properties"), "capacityReservation");

	return json_string_value(
	    json_object_get(json_object_get(p, "capacityReservationGroup"), "id"));
}

static bool takes(const struct az_reserved *r, const struct az_res *vm)
{
	return vm->kind == AZ_VM && vm->inst && vm->inst->pool == r->pool &&
	    az_same(group_asked(vm->asked), r->group);
}

static json_t *taken_json(const struct azure *az, const struct az_reserved *r)
{
	json_t *list = json_array();

	for (const struct az_res *vm = az->res; vm; vm = vm->next) {
		if (takes(r, vm)) {
			json_array_append_new(list, json_pack("{s:s}", "id", vm->id));
		}
	}
	return list;
}

/* ---- VMs ------------------------------------------------------------------------------------- */

bool az_reserved_take(struct az_call *c, struct az_want *w)
{
	const char *group = group_asked(c->doc);
	bool known = false;

	w->reserved = false;
	if (!group) {
		return true;
	}
	if (w->side == SIDE_SPOT) {
		az_fail(c, 400, "InvalidParameter",
		    "An Azure Spot virtual machine cannot use a capacity reservation.");
		return false;
	}
	for (const struct az_reserved *r = c->az->reserved; r; r = r->next) {
		known |= az_same(r->group, group);
		if (az_same(r->group, group) && r->pool == w->pool) {
			json_t *taken = taken_json(c->az, r);

			w->reserved = (int64_t)json_array_size(taken) < r->count;
			json_decref(taken);
			return true;
		}
	}
	az_fail(c, known ? 400 : 404, known ? "InvalidParameter" : "ResourceNotFound",
	    known ? "The capacity reservation group '%s' has no reservation of this size and zone."
		  : "The Resource '%s' was not found.",
	    group);
	return false;
}

/* ---- GET .../capacityReservationGroups/{group}/capacityReservations ------------------------- */

static json_t *reserved_json(struct az_call *c, const struct az_reserved *r)
{
	const struct pool *p = r->pool;
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:{s:s, s:I}, s:{s:s, s:o}}", "name", r->name,
	    "id", arena_printf(c->rq->arena, "%s/capacityReservations/%s", r->group, r->name),
	    "type", "Microsoft.Compute/capacityReservationGroups/capacityReservations", "location",
	    p->region->name, "sku", "name", p->type->name, "capacity", (json_int_t)r->count,
	    "properties", "provisioningState", "Succeeded", "virtualMachinesAssociated",
	    taken_json(c->az, r));

	if (p->zone) {
		json_object_set_new(o, "zones", json_pack("[s]", p->zone->name));
	}
	return o;
}

void az_reserved_get(struct az_call *c)
{
	const char *group = arena_printf(c->rq->arena, AZ_RESERVATION_GROUP, c->group, c->name);
	json_t *list = json_array();

	for (const struct az_reserved *r = c->az->reserved; r; r = r->next) {
		if (az_same(r->group, group)) {
			json_array_append_new(list, reserved_json(c, r));
		}
	}
	if (!az_same(c->child, "capacityReservations") || c->child_name ||
	    json_array_size(list) == 0) {
		json_decref(list);
		az_fail(c, 404, "ResourceNotFound", "The Resource '%s' was not found.", group);
		return;
	}
	az_list(c, list);
}

/* ---- the control API ------------------------------------------------------------------------- */

json_t *az_reserved_post(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err)
{
	struct azure *az = s->azure;
	const char *group = json_need_str(doc, "group", err),
		   *region = json_str(doc, "region", "", err),
		   *zone = json_str(doc, "zone", "", err), *type = json_str(doc, "type", "", err);
	int64_t count = json_i64(doc, "count", 1, err);
	const char *id = arena_printf(a, AZ_RESERVATION_GROUP, "reserved", group ? group : "");
	struct pool *p = market_pool(s->market, CLOUD_AZURE, region,
	    *zone ? market_zone(s->market, region, zone) : NULL, type);
	struct az_reserved *r = az->reserved;

	if (err->rc != SPOT_OK || !p) {
		err_set(err, SPOT_INVALID, "reservation: group, region, zone and type are needed");
		return NULL;
	}
	while (r && !(r->pool == p && az_same(r->group, id))) {
		r = r->next;
	}
	if (!r) {
		r = calloc(1, sizeof(*r));
		if (!r) {
			abort();
		}
		*r = (struct az_reserved){ az->reserved, dup_text(id),
			dup_text(sim_id(s, a, "reservation-", 4)), p, 0 };
		az->reserved = r;
	}
	r->count = count;
	return json_pack("{s:s}", "group", id);
}

void az_reserved_free(struct azure *az)
{
	while (az->reserved) {
		struct az_reserved *r = az->reserved;

		az->reserved = r->next;
		free(r->group);
		free(r->name);
		free(r);
	}
}
