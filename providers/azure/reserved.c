#include "base/base.h"
#include "azure_priv.h"

/*
 * Capacity that is paid for already: the capacity reservations of one group for each region
 * (learn.microsoft.com/rest/api/compute/capacity-reservations/list-by-capacity-reservation-group).
 * They are used, never made. A launch names the group, and Azure takes the reservation of its size
 * and zone. It takes more machines than were reserved, at the usual price, so the launch looks for
 * room first. Block reservations (with a scheduleProfile) are left alone.
 */

#include <strings.h>

static const char what[] = "GET capacityReservations";

enum spot_step azure_reservation_group(const struct azure *self, struct spot_call *c,
    const char *region, const char **ret)
{
	const char *key = arena_printf(c->arena, "reservation_group.%s", region);

	*ret = azure_setting(self, key);
	if (*ret != NULL && !azure_id_ok(*ret, "capacityReservationGroups")) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "azure: %s: '%.60s' is not the id of one of capacityReservationGroups", key,
		    *ret);
	}
	return SPOT_STEP_NONE;
}

enum spot_step azure_reservations_send(struct azure *self, struct spot_call *c, const char *group)
{
	const struct call_state *st = c->state;
	struct azure_request r = { .what = what, .method = "GET", .limit = AZURE_LIMIT_READ };

	r.url = st->next;
	r.path =
	    arena_printf(c->arena, "%s/capacityReservations?api-version=" API_RESERVATIONS, group);
	return azure_send(self, c, &r);
}

/* False: not one that our machines can run in. */
static bool reservation_read(struct spot_call *c, const json_t *item, struct azure_reservation *ret)
{
	const json_t *sku = json_object_get(item, "sku"),
		     *properties = json_object_get(item, "properties");
	const json_t *used = json_object_get(properties, "virtualMachinesAssociated");
	const char *zone = json_string_value(json_array_get(json_object_get(item, "zones"), 0));
	const char *size = azure_text(sku, "name");
	int64_t total = json_integer_value(json_object_get(sku, "capacity"));

	if (*size == '\0' || total < 1 || json_object_get(properties, "scheduleProfile") != NULL ||
	    strcasecmp(azure_text(properties, "provisioningState"), "Succeeded") != 0) {
		return false;
	}
	*ret = (struct azure_reservation){ .size = arena_strdup(c->arena, size),
		.zone = arena_strdup(c->arena, zone != NULL ? zone : ""),
		.free = total - (int64_t)json_array_size(used) };
	return true;
}

enum spot_step azure_reservations_reply(struct azure *self, struct spot_call *c,
    struct azure_reservations *x)
{
	json_t *doc AUTO(json) = NULL;
	const json_t *rows;
	enum spot_step s = azure_reply(c, what, &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	rows = json_object_get(doc, "value");
	if (!json_is_array(rows)) {
		return azure_bad_reply(c, what, "no list of values in it");
	}
	for (size_t i = 0; i < json_array_size(rows); i++) {
		x->list = arena_grow(c->arena, x->list, x->n, &x->cap, sizeof(*x->list));
		x->n += reservation_read(c, json_array_get(rows, i), &x->list[x->n]);
	}
	return azure_next_page(c->state, c, what, self->endpoint, azure_text(doc, "nextLink"));
}

bool azure_reserved(const struct azure_reservations *x, const char *size, const char *zone,
    int64_t count)
{
	for (size_t i = 0; i < x->n; i++) {
		if (x->list[i].free >= count && strcasecmp(x->list[i].size, size) == 0 &&
		    strcmp(x->list[i].zone, zone) == 0) {
			return true;
		}
	}
	return false;
}
