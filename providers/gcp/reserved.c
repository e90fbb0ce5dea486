#include "base/base.h"
#include "gcp_priv.h"

/*
 * Capacity that is paid for already: the project's own reservations of machines of one type
 * (docs.cloud.google.com/compute/docs/instances/reservations-consume; Reservation of the discovery
 * document). They are used, never made. A launch names its reservation. Only with reservations =
 * on. Reservations that are shared between projects, or of aggregated resources, are left alone.
 */

#define WHAT "reservations.aggregatedList"

/* 1: taken; 0: not one that our machines can run in; -1: malformed. */
static int reservation_read(struct spot_call *c, const json_t *item, struct gcp_reservation *ret)
{
	bool bad = false;
	const json_t *specific = json_object_get(item, "specificReservation");
	const json_t *shape = json_object_get(specific, "instanceProperties");
	const json_t *gpu = json_array_get(json_object_get(shape, "guestAccelerators"), 0);
	const char *share =
	    gcp_str(c->arena, json_object_get(item, "shareSettings"), "shareType", &bad);
	const char *machine = gcp_last(gcp_str(c->arena, shape, "machineType", &bad));
	const char *card = gcp_last(gcp_str(c->arena, gpu, "acceleratorType", &bad));
	int64_t cards = gcp_int(gpu, "acceleratorCount", 0, &bad);
	struct gcp_reservation r = { .name = gcp_str(c->arena, item, "name", &bad),
		.zone = gcp_last(gcp_str(c->arena, item, "zone", &bad)),
		.type = machine,
		.ends_us = gcp_time(gcp_str(c->arena, item, "deleteAtTime", &bad)),
		.total = gcp_int(specific, "count", 0, &bad),
		.used = gcp_int(specific, "inUseCount", 0, &bad) };

	if (!json_is_object(item) || !gcp_name_ok(r.name) || !gcp_zone_ok(r.zone) || bad ||
	    r.total < 0 || r.used < 0) {
		return -1;
	}
	if (strcmp(gcp_str(c->arena, item, "status", &bad), "READY") != 0 ||
	    (*share != '\0' && strcmp(share, "LOCAL") != 0) || !gcp_name_ok(machine) ||
	    *gcp_str(c->arena, shape, "minCpuPlatform", &bad) != '\0') {
		return 0;
	}
	/* Of the machines that reservations are usable for, some may not be usable now. */
	r.free = MIN(r.total, gcp_int(specific, "assuredCount", r.total, &bad)) - r.used;
	if (gcp_host(machine) && cards > 0) {
		r.type = gcp_attached_name(c->arena, machine, card, cards);
	}
	*ret = r;
	return bad ? -1 : 1;
}

enum spot_step gcp_reservations_send(struct gcp *self, struct spot_call *c)
{
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "GET",
		.what = WHAT,
		.limit = GCP_LIMIT_LIST };

	r.path =
	    arena_printf(c->arena, "/compute/v1/projects/%s/aggregated/reservations?" GCP_PAGE "%s",
		self->project, gcp_page(c));
	return gcp_send(self, c, &r);
}

enum spot_step gcp_reservations_reply(struct gcp *self, struct spot_call *c,
    struct gcp_reservations *x, bool *ret_more)
{
	json_t *doc AUTO(json) = NULL, *scopes, *list;
	const char *scope;
	enum spot_step s = gcp_reply(self, c, WHAT, "compute#reservationAggregatedList", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	scopes = json_object_get(doc, "items");
	if (scopes != NULL && !json_is_object(scopes)) {
		return gcp_bad_reply(c, WHAT, "items is not an object of scopes");
	}
	json_object_foreach (scopes, scope, list) {
		const json_t *items = json_object_get(list, "reservations"), *item;
		size_t i;

		if (!json_is_object(list) || (items != NULL && !json_is_array(items))) {
			return gcp_bad_reply(c, WHAT, "%.60s: reservations is not a list", scope);
		}
		json_array_foreach (items, i, item) {
			int took;

			x->list = arena_grow(c->arena, x->list, x->n, &x->cap, sizeof(*x->list));
			took = reservation_read(c, item, &x->list[x->n]);
			if (took < 0) {
				return gcp_bad_reply(c, WHAT, "%.60s: entry %zu is no reservation",
				    scope, i);
			}
			x->n += took > 0;
		}
	}
	*ret_more = gcp_next_page(c, WHAT, doc, &s);
	return s;
}

static bool reservation_better(const struct gcp_reservation *x, const struct gcp_reservation *than)
{
	int64_t a = x->ends_us != 0 ? x->ends_us : INT64_MAX,
		b = than->ends_us != 0 ? than->ends_us : INT64_MAX;

	return a != b ? a > b : strcmp(x->name, than->name) < 0;
}

const struct gcp_reservation *gcp_reservation_for(const struct gcp_reservations *x,
    const struct spot_pool_key *k, int64_t count, int64_t now_us)
{
	const struct gcp_reservation *best = NULL;

	for (size_t i = 0; i < x->n; i++) {
		const struct gcp_reservation *r = &x->list[i];

		if (r->free >= count && (r->ends_us == 0 || r->ends_us > now_us) &&
		    strcmp(r->type, k->instance_type) == 0 && strcmp(r->zone, k->zone) == 0 &&
		    (best == NULL || reservation_better(r, best))) {
			best = r;
		}
	}
	return best;
}

enum spot_step gcp_reservation_reply(struct gcp *self, struct spot_call *c,
    const struct spot_launch *l, size_t count, struct gcp_reservations *x, const char **ret)
{
	const struct gcp_reservation *r;
	bool more;
	enum spot_step s = gcp_reservations_reply(self, c, x, &more);

	if (s != SPOT_STEP_NONE || more) {
		return s;
	}
	r = gcp_reservation_for(x, &l->key, (int64_t)count, c->now_us);
	if (r == NULL) {
		return call_fail(c, SPOT_NO_CAPACITY, NULL,
		    "gcp launch: no reservation of %s in %s has room for %zu", l->key.instance_type,
		    l->key.zone, count);
	}
	*ret = r->name;
	return SPOT_STEP_NONE;
}
