/* Reservations: made through the control API (nobody pays here), listed, used up by inserts. A VM
 * outlives its reservation. */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

#define NAME_KEY "compute.googleapis.com/reservation-name"

struct gcp_reserved {
	struct gcp_reserved *next;
	uint64_t id;
	char *name;
	struct pool *pool;
	int64_t count, made_us, ends_us; /* ends_us 0 = it is not deleted by itself */
	bool specific; /* taken by name only */
};

static bool reserved_gone(const struct sim *s, const struct gcp_reserved *r)
{
	return r->ends_us != 0 && sim_wall(s) >= r->ends_us;
}

static int64_t reserved_used(const struct sim *s, const struct gcp_reserved *r)
{
	int64_t n = 0;

	for (const struct inst *i = s->insts; i; i = i->next) {
		n += i->cloud == CLOUD_GCP && i->own && i->state != INST_GONE &&
		    i->state != INST_SHUTTING && str_same(gcp_vm(i)->reservation, r->name) &&
		    i->pool == r->pool;
	}
	return n;
}

int64_t gcp_reserved_room(const struct sim *s, const struct gcp_want *w)
{
	return MAX(w->reserved->count - reserved_used(s, w->reserved), 0);
}

const char *gcp_reserved_name(const struct gcp_reserved *r)
{
	return r->name;
}

/* ---- inserts --------------------------------------------------------------------------------- */

static struct gcp_reserved *reserved_named(const struct sim *s, const struct zone *z,
    const char *name)
{
	for (struct gcp_reserved *r = s->gcp->reserved; r; r = r->next) {
		if (r->pool->zone == z && str_same(r->name, name) && !reserved_gone(s, r)) {
			return r;
		}
	}
	return NULL;
}

static bool affinity_fail(struct gcp_call *c, const char *field, const char *value,
    const char *words)
{
	gcp_fail(c, 400, "invalid",
	    "Invalid value for field 'resource.reservationAffinity.%s': '%s'. %s", field, value,
	    words);
	return false;
}

static bool specific_take(struct gcp_call *c, struct gcp_want *w, const json_t *affinity)
{
	const json_t *values = json_object_get(affinity, "values");
	const char *key = gcp_text(affinity, "key"),
		   *name = json_string_value(json_array_get(values, 0));

	if (!str_same(key, NAME_KEY)) {
		return affinity_fail(c, "key", key ? key : "", "");
	}
	if (json_array_size(values) != 1 || !name) {
		return affinity_fail(c, "values", "", "One reservation must be named.");
	}
	if (w->spot) {
		return affinity_fail(c, "values", name, "Spot VMs cannot consume reservations.");
	}
	w->reserved = reserved_named(c->sim, w->zone, name);
	if (!w->reserved) {
		return affinity_fail(c, "values", name, "The reservation does not exist.");
	}
	return w->reserved->pool == w->pool ||
	    affinity_fail(c, "values", name, "The VM does not match the reservation.");
}

bool gcp_reserved_take(struct gcp_call *c, struct gcp_want *w)
{
	const json_t *affinity = json_object_get(w->props, "reservationAffinity");
	const char *type = gcp_text(affinity, "consumeReservationType");

	w->reserved = NULL;
	if (str_same(type, "SPECIFIC_RESERVATION")) {
		return specific_take(c, w, affinity);
	}
	if (type && !str_same(type, "ANY_RESERVATION") && !str_same(type, "NO_RESERVATION") &&
	    !str_same(type, "UNSPECIFIED")) {
		return affinity_fail(c, "consumeReservationType", type, "");
	}
	if (w->spot || str_same(type, "NO_RESERVATION")) {
		return true;
	}
	/* By default whatever matches is used up, without being asked. */
	for (struct gcp_reserved *r = c->g->reserved; r; r = r->next) {
		if (!r->specific && r->pool == w->pool && !reserved_gone(c->sim, r) &&
		    r->count > reserved_used(c->sim, r)) {
			w->reserved = r;
		}
	}
	return true;
}

/* ---- the list -------------------------------------------------------------------------------- */

static json_t *reserved_json(struct gcp_call *c, const struct gcp_reserved *r)
{
	const struct gcp_type *t = gcp_type_of(c->g, r->pool->type);
	const char *zone = r->pool->zone->name;
	json_t *shape = json_pack("{s:s}", "machineType", t->machine);
	json_t *o;

	if (t->attached) {
		json_object_set_new(shape, "guestAccelerators",
		    json_pack("[{s:s, s:i}]", "acceleratorType", t->accelerator, "acceleratorCount",
			t->gpus));
	}
	o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:s, s:{s:s, s:s, s:s, s:o}, s:{s:s}}",
	    "kind", "compute#reservation", "id", gcp_u64(c->a, r->id), "creationTimestamp",
	    gcp_time(c->a, r->made_us), "name", r->name, "zone", gcp_link(c->a, "zones/%s", zone),
	    "selfLink", gcp_link(c->a, "zones/%s/reservations/%s", zone, r->name),
	    "specificReservationRequired", r->specific, "status", "READY", "specificReservation",
	    "count", arena_printf(c->a, "%" PRId64, r->count), "inUseCount",
	    arena_printf(c->a, "%" PRId64, reserved_used(c->sim, r)), "assuredCount",
	    arena_printf(c->a, "%" PRId64, r->count), "instanceProperties", shape, "shareSettings",
	    "shareType", "LOCAL");
	if (r->ends_us) {
		json_object_set_new(o, "deleteAtTime", json_string(gcp_time(c->a, r->ends_us)));
	}
	return o;
}

void gcp_reserved_aggregated(struct gcp_call *c)
{
	json_t *items = json_array();

	for (const struct gcp_reserved *r = c->g->reserved; r; r = r->next) {
		if (!reserved_gone(c->sim, r)) {
			json_array_append_new(items,
			    json_pack("[s, o]", arena_printf(c->a, "zones/%s", r->pool->zone->name),
				reserved_json(c, r)));
		}
	}
	gcp_aggregate(c, "compute#reservationAggregatedList", "aggregated/reservations",
	    "reservations", items, false);
}

/* ---- the control API ------------------------------------------------------------------------- */

json_t *gcp_reserved_post(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err)
{
	const char *name = json_need_str(doc, "name", err), *zone = json_str(doc, "zone", "", err);
	const char *type = json_str(doc, "type", "", err);
	int64_t count = json_i64(doc, "count", 1, err);
	double ends_in_s = json_f64(doc, "ends_in_s", 0, err);
	struct zone *z = gcp_zone(s, zone);
	struct pool *p = z ? market_pool(s->market, CLOUD_GCP, z->region->name, z, type) : NULL;
	struct gcp_reserved *r;

	if (err->rc != SPOT_OK || !p || !gcp_name_valid(name)) {
		err_set(err, SPOT_INVALID, "reservation: name, zone and type are needed");
		return NULL;
	}
	r = reserved_named(s, z, name);
	if (!r) {
		r = calloc(1, sizeof(*r));
		if (!r) {
			abort();
		}
		r->id = gcp_new_id(s);
		r->name = dup_text(name);
		r->pool = p;
		r->made_us = sim_wall(s);
		r->next = s->gcp->reserved;
		s->gcp->reserved = r;
	}
	r->count = count;
	r->specific = json_bool(doc, "specific", true, err);
	r->ends_us = ends_in_s > 0 ? sim_wall(s) + (int64_t)(ends_in_s * 1e6) : 0;
	return json_object();
}

void gcp_reserved_free(struct sim *s)
{
	while (s->gcp->reserved) {
		struct gcp_reserved *r = s->gcp->reserved;

		s->gcp->reserved = r->next;
		free(r->name);
		free(r);
	}
}
