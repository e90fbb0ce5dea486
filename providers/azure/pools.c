#include "base/base.h"
#include "azure_priv.h"

/*
 * Pools of one region from Microsoft.Compute/skus
 * (learn.microsoft.com/rest/api/compute/resource-skus/list). A pool per zone where the size is in
 * zones, because supply, refusals and placement scores are zonal; the price is the region's. Zones
 * are the subscription's own numbers, and stay the same in it.
 */

#include <strings.h>

#define REPLY_MAX (48 << 20)
#define ZONES_MAX 16
#define TIMEOUT_US (60 * SPOT_US_PER_S)

enum { SIZES = 0, RESERVATIONS, OVER };

struct pooling {
	struct spot_pool_info *pools;
	size_t n, cap;
	const char *group;
	struct azure_reservations reservations;
};
struct size {
	const char *name, *family, *arch;
	struct azure_gpu gpu;
	int64_t vcpus, mem_mib;
	bool spot;
	const char *zones[ZONES_MAX];
	size_t zones_n;
};

const char *azure_zone(struct arena *a, const char *region, const char *number)
{
	return str_empty(number) ? "" : arena_printf(a, "%s-%s", region, number);
}

size_t azure_pool_next(const struct spot_pool_info *pools, size_t n, size_t from, const char *size,
    enum spot_market market)
{
	while (from < n &&
	    (pools[from].key.market != market ||
		strcasecmp(pools[from].key.instance_type, size) != 0)) {
		from++;
	}
	return from;
}

/* ---- one size -------------------------------------------------------------------------------- */

static const char *sku_capability(const json_t *sku, const char *name)
{
	const json_t *all = json_object_get(sku, "capabilities");

	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *x = json_array_get(all, i);

		if (strcasecmp(azure_text(x, "name"), name) == 0) {
			return azure_text(x, "value");
		}
	}
	return "";
}

static bool has_text(const json_t *list, const char *text)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *v = json_string_value(json_array_get(list, i));

		if (v != NULL && strcasecmp(v, text) == 0) {
			return true;
		}
	}
	return false;
}

static bool is_region(struct arena *a, const json_t *name, const char *region)
{
	return json_is_string(name) &&
	    strcmp(azure_region(a, json_string_value(name)), region) == 0;
}

static bool lists_region(struct arena *a, const json_t *list, const char *region)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		if (is_region(a, json_array_get(list, i), region)) {
			return true;
		}
	}
	return false;
}

/* A restriction without places is one of the place that was asked for. */
static bool sku_restricted(struct arena *a, const json_t *sku, const char *region, const char *zone)
{
	const json_t *all = json_object_get(sku, "restrictions");

	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *r = json_array_get(all, i),
			     *info = json_object_get(r, "restrictionInfo"),
			     *where = json_object_get(info, "locations");
		const char *type = azure_text(r, "type");

		if (json_array_size(where) > 0 && !lists_region(a, where, region)) {
			continue;
		}
		if (strcasecmp(type, "Location") == 0) {
			return true;
		}
		if (strcasecmp(type, "Zone") == 0 && zone != NULL &&
		    has_text(json_object_get(info, "zones"), zone)) {
			return true;
		}
	}
	return false;
}

/* False: not in the region at all, or in none of its zones. */
static bool zones_read(struct arena *a, const json_t *sku, const char *region, struct size *s)
{
	const json_t *places = json_object_get(sku, "locationInfo");
	bool zonal = false;

	if (sku_restricted(a, sku, region, NULL) ||
	    !lists_region(a, json_object_get(sku, "locations"), region)) {
		return false;
	}
	for (size_t i = 0; i < json_array_size(places); i++) {
		const json_t *place = json_array_get(places, i),
			     *zones = json_object_get(place, "zones");

		if (!is_region(a, json_object_get(place, "location"), region)) {
			continue;
		}
		for (size_t k = 0; k < json_array_size(zones); k++) {
			const char *z = json_string_value(json_array_get(zones, k));

			zonal = true;
			if (z != NULL && *z != '\0' && strlen(z) <= 4 &&
			    strspn(z, "0123456789") == strlen(z) && s->zones_n < ZONES_MAX &&
			    !sku_restricted(a, sku, region, z)) {
				s->zones[s->zones_n++] = arena_strdup(a, z);
			}
		}
	}
	return !zonal || s->zones_n > 0;
}

/* All values are texts; memory may have a fraction. */
static bool size_read(struct arena *a, const json_t *sku, const char *region, struct size *s)
{
	const char *name = azure_text(sku, "name"),
		   *arch = sku_capability(sku, "CpuArchitectureType");
	double gib;
	int64_t gpus = 0;

	memset(s, 0, sizeof(*s));
	if (strcasecmp(azure_text(sku, "resourceType"), "virtualMachines") != 0 ||
	    !str_prefix(name, "Standard_")) {
		return false;
	}
	if (!parse_i64(sku_capability(sku, "GPUs"), 0, 64, &gpus)) {
		gpus = 0;
	}
	if (!azure_gpu_find(name, gpus, &s->gpu) ||
	    !parse_i64(sku_capability(sku, "vCPUs"), 1, 4096, &s->vcpus) ||
	    !parse_f64(sku_capability(sku, "MemoryGB"), 0.1, 100000, &gib)) {
		return false;
	}
	s->mem_mib = (int64_t)(gib * 1024);
	s->spot = strcasecmp(sku_capability(sku, "LowPriorityCapable"), "True") == 0;
	s->name = arena_strdup(a, name);
	s->family = azure_quota_class(a, azure_text(sku, "family"));
	s->arch = strcasecmp(arch, "Arm64") == 0 ? "arm64" : "x86_64";
	return zones_read(a, sku, region, s);
}

/* ---- pools ----------------------------------------------------------------------------------- */

static void pool_add(struct azure *self, struct spot_call *c, const char *region,
    const struct size *s, const char *zone, enum spot_market market, struct pooling *x)
{
	struct spot_pool_info p = { .zone_name = zone,
		.quota_class = market == SPOT_MARKET_SPOT ? AZURE_CLASS_SPOT : s->family };

	p.key = (struct spot_pool_key){ .provider = self->name,
		.region = region,
		.zone = azure_zone(c->arena, region, zone),
		.instance_type = s->name,
		.market = market };
	p.shape = (struct spot_shape){ .gpu_name = s->gpu.name,
		.gpu_milli = s->gpu.milli,
		.gpu_mem_mib = s->gpu.mem_mib,
		.vcpus = (int32_t)s->vcpus,
		.mem_mib = (int32_t)s->mem_mib,
		.arch = s->arch };
	x->pools = arena_grow(c->arena, x->pools, x->n, &x->cap, sizeof(*x->pools));
	x->pools[x->n++] = p;
}

static void size_add(struct azure *self, struct spot_call *c, const char *region,
    const struct size *s, struct pooling *x)
{
	for (size_t i = 0; i < MAX(s->zones_n, 1); i++) {
		const char *zone = s->zones_n > 0 ? s->zones[i] : "";

		if (s->spot) {
			pool_add(self, c, region, s, zone, SPOT_MARKET_SPOT, x);
		}
		pool_add(self, c, region, s, zone, SPOT_MARKET_ON_DEMAND, x);
	}
}

static enum spot_step pools_reply(struct azure *self, struct spot_call *c, const char *region,
    struct pooling *x)
{
	static const char what[] = "GET skus";
	json_t *doc AUTO(json) = NULL;
	const json_t *rows;
	enum spot_step s = azure_reply(c, what, &doc);
	struct size size;

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	rows = json_object_get(doc, "value");
	if (!json_is_array(rows)) {
		return azure_bad_reply(c, what, "no list of values in it");
	}
	for (size_t i = 0; i < json_array_size(rows); i++) {
		if (size_read(c->arena, json_array_get(rows, i), region, &size)) {
			size_add(self, c, region, &size, x);
		}
	}
	return azure_next_page(c->state, c, what, self->endpoint, azure_text(doc, "nextLink"));
}

/* A pool per size and zone with a reservation, also while it is full: ours may be what fills it. */
static void reserved_add(struct spot_call *c, struct pooling *x)
{
	size_t n = x->n;

	for (size_t i = 0; i < n; i++) {
		struct spot_pool_info p = x->pools[i];

		if (p.key.market == SPOT_MARKET_ON_DEMAND &&
		    azure_reserved(&x->reservations, p.key.instance_type, p.zone_name, INT32_MIN)) {
			/* A reservation was counted against the quota when it was made. */
			p.key.market = SPOT_MARKET_RESERVED;
			p.quota_class = "";
			x->pools = arena_grow(c->arena, x->pools, x->n, &x->cap, sizeof(*x->pools));
			x->pools[x->n++] = p;
		}
	}
}

static enum spot_step any_reply(struct azure *self, struct spot_call *c, const char *region,
    struct pooling *x)
{
	struct call_state *st = c->state;
	enum spot_step s = st->at == SIZES ? pools_reply(self, c, region, x)
					   : azure_reservations_reply(self, c, &x->reservations);

	/* A group that is not there, or that the role does not see, costs only its own pools. */
	if (st->at == RESERVATIONS && s == SPOT_FAIL &&
	    (c->err.rc == SPOT_DENIED || c->err.rc == SPOT_CONFIG || c->err.rc == SPOT_NOT_FOUND)) {
		c->err = (struct spot_err){ 0 };
		st->at = OVER;
		return SPOT_STEP_NONE;
	}
	if (s != SPOT_STEP_NONE || st->next != NULL) {
		return s;
	}
	if (st->at == SIZES) {
		s = azure_reservation_group(self, c, region, &x->group);
	} else {
		reserved_add(c, x);
	}
	st->at = st->at == SIZES && x->group != NULL ? RESERVATIONS : OVER;
	return s;
}

enum spot_step azure_pools(void *p, struct spot_call *c, struct spot_pools *a)
{
	struct azure *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct pooling));
	struct pooling *x = st->own;
	struct azure_request r = { .what = "GET skus",
		.method = "GET",
		.limit = AZURE_LIMIT_READ,
		.reply_bytes_max = REPLY_MAX,
		.timeout_us = TIMEOUT_US };
	enum spot_step s;

	if (!azure_region_ok(a->region)) {
		return call_fail(c, SPOT_INVALID, NULL, "azure pools: a region is needed");
	}
	if (c->in != NULL) {
		s = any_reply(self, c, arena_strdup(c->arena, a->region), x);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
		if (st->at == OVER) {
			a->pools = x->pools;
			a->n = x->n;
			return SPOT_DONE;
		}
	}
	if (st->at == RESERVATIONS) {
		return azure_reservations_send(self, c, x->group);
	}
	/* location is the only filter there is; without it the reply is tens of megabytes. */
	r.url = st->next;
	r.path = arena_printf(c->arena,
	    "/subscriptions/%s/providers/Microsoft.Compute/skus?api-version=" API_SKUS
	    "&$filter=%s",
	    self->subscription,
	    url_encode(c->arena, arena_printf(c->arena, "location eq '%s'", a->region), false));
	return azure_send(self, c, &r);
}
