#include "base/base.h"
#include "gcp_priv.h"

/*
 * Pools of all zones in one list: the vendor's accelerator-optimized machine types
 * (docs.cloud.google.com/compute/docs/accelerator-optimized-machines), and N1 hosts with attachable
 * GPUs (attached.c). Listed is not capacity.
 */

/* The accelerated families, those to come too: A and G with a number; and the hosts of attached
 * GPUs. A regular expression must match the whole value (reference of machineTypes.aggregatedList,
 * "filter"). */
#define TYPES_FILTER "name eq \"[ag][0-9]+[a-z]*-.*|n1-standard-(8|16|32|64)\""
#define TYPES_WHAT "machineTypes.aggregatedList"

/* The same page, "Consumption option availability": spot, flex-start and reservations only. */
bool gcp_sold_on_demand(const char *type)
{
	static const char *const not [] = { "a4-", "a4x-", "a3-ultragpu-", "a3-highgpu-1g",
		"a3-highgpu-2g", "a3-highgpu-4g" };

	for (size_t i = 0; i < ARRAY_LEN(not ); i++) {
		if (str_prefix(type, not [i])) {
			return false;
		}
	}
	return true;
}

/* docs.cloud.google.com/compute/docs/instances/about-flex-start-vms: the accelerator-optimized
 * families without A4X; G4 by the release note of 2025-12-19. So not N1. */
bool gcp_sold_queued(const char *type)
{
	return !str_prefix(type, "a4x-") && !str_prefix(type, "n1-");
}

/* Quotas count GPUs of one kind in a region; account.c gives the rows the same names. */
const char *gcp_quota_class(struct arena *a, const char *accelerator, enum spot_market market)
{
	const struct gcp_gpu *g = gcp_gpu_find(accelerator);

	return arena_printf(a, "%s/%s", g != NULL ? g->metric : accelerator,
	    market == SPOT_MARKET_SPOT || market == SPOT_MARKET_FLEX_START ? "Spot" : "OnDemand");
}

enum spot_step gcp_types_send(struct gcp *self, struct spot_call *c)
{
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "GET",
		.what = TYPES_WHAT,
		.limit = GCP_LIMIT_LIST };

	r.path = arena_printf(c->arena,
	    "/compute/v1/projects/%s/aggregated/machineTypes?filter=%s&maxResults=500%s",
	    self->project, url_encode(c->arena, TYPES_FILTER, false), gcp_page(c));
	r.reply_bytes_max = (size_t)32 << 20;
	return gcp_send(self, c, &r);
}

/* A new accelerator is called by the vendor's name without "nvidia-", in capitals. */
static const char *gpu_name(struct arena *a, const char *accelerator)
{
	char *name =
	    arena_strdup(a, str_prefix(accelerator, "nvidia-") ? accelerator + 7 : accelerator);

	for (char *p = name; *p != '\0'; p++) {
		*p = *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
	}
	return name;
}

bool gcp_deprecated(const json_t *item)
{
	const char *state =
	    json_string_value(json_object_get(json_object_get(item, "deprecated"), "state"));

	return str_same(state, "DEPRECATED") || str_same(state, "OBSOLETE") ||
	    str_same(state, "DELETED");
}

/* 1: taken; 0: not one of ours; -1: malformed. */
static int type_read(struct spot_call *c, const char *scope, const json_t *item,
    struct gcp_type *ret)
{
	bool bad = false;
	const json_t *list = json_object_get(item, "accelerators"), *acc = json_array_get(list, 0);
	struct gcp_type t = { .name = gcp_str(c->arena, item, "name", &bad),
		.zone = gcp_last(scope) };
	const struct gcp_gpu *gpu;
	const char *arch;
	int64_t vcpus, mem, count;

	if (!json_is_object(item) || bad || !gcp_name_ok(t.name)) {
		return -1;
	}
	if ((acc == NULL && !gcp_host(t.name)) || gcp_deprecated(item)) {
		return 0;
	}
	t.accelerator =
	    acc != NULL ? gcp_last(gcp_str(c->arena, acc, "guestAcceleratorType", &bad)) : NULL;
	count = gcp_int(acc, "guestAcceleratorCount", 0, &bad);
	vcpus = gcp_int(item, "guestCpus", 0, &bad);
	mem = gcp_int(item, "memoryMb", 0, &bad);
	t.ssds =
	    (int32_t)gcp_int(json_object_get(item, "bundledLocalSsds"), "partitionCount", 0, &bad);
	arch = gcp_str(c->arena, item, "architecture", &bad);
	if (bad || count < 0 || count > 64 || vcpus < 1 || vcpus > 100000 || mem < 1 ||
	    mem > INT32_MAX || t.ssds < 0 || t.ssds > 1000) {
		return -1;
	}
	if (acc == NULL) {
		t.shape = (struct spot_shape){ .gpu_name = "",
			.vcpus = (int32_t)vcpus,
			.mem_mib = (int32_t)mem,
			.arch = "x86_64" };
		*ret = t;
		return 1;
	}
	/* TPUs are accelerators too; slices for workstations carry a suffix. */
	if (count == 0 || !str_prefix(t.accelerator, "nvidia-") ||
	    str_suffix(t.accelerator, "-vws")) {
		return 0;
	}
	gpu = gcp_gpu_find(t.accelerator);
	t.shape = (struct spot_shape){ .gpu_name = gpu != NULL ? gpu->ours
							       : gpu_name(c->arena, t.accelerator),
		.gpu_milli = (int32_t)count * 1000,
		.gpu_mem_mib = gpu != NULL ? gpu->mem_mib : 0,
		.vcpus = (int32_t)vcpus,
		.mem_mib = (int32_t)mem,
		.arch = strcmp(arch, "ARM64") == 0 ? "arm64"
		    : strcmp(arch, "X86_64") == 0  ? "x86_64"
						   : "" };
	/* Of the families that we know the machines before GB200 are x86; the field is younger than
	 * they are. */
	if (*t.shape.arch == '\0') {
		t.shape.arch = str_prefix(t.name, "a4x-") ? "arm64" : "x86_64";
	}
	*ret = t;
	return 1;
}

enum spot_step gcp_types_reply(struct gcp *self, struct spot_call *c, struct gcp_types *t,
    bool *ret_more)
{
	json_t *doc AUTO(json) = NULL, *scopes, *list;
	const char *scope;
	enum spot_step s =
	    gcp_reply(self, c, TYPES_WHAT, "compute#machineTypeAggregatedList", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	scopes = json_object_get(doc, "items");
	if (scopes != NULL && !json_is_object(scopes)) {
		return gcp_bad_reply(c, TYPES_WHAT, "items is not an object of scopes");
	}
	json_object_foreach (scopes, scope, list) {
		const json_t *items = json_object_get(list, "machineTypes"), *item;
		size_t i;

		if (!json_is_object(list) || (items != NULL && !json_is_array(items))) {
			return gcp_bad_reply(c, TYPES_WHAT, "%.60s: machineTypes is not a list",
			    scope);
		}
		if (items != NULL && !gcp_zone_ok(gcp_last(scope))) {
			return gcp_bad_reply(c, TYPES_WHAT, "'%.60s' is not a zone", scope);
		}
		json_array_foreach (items, i, item) {
			int took;

			t->list = arena_grow(c->arena, t->list, t->n, &t->cap, sizeof(*t->list));
			took = type_read(c, arena_strdup(c->arena, scope), item, &t->list[t->n]);
			if (took < 0) {
				return gcp_bad_reply(c, TYPES_WHAT,
				    "%.60s: entry %zu is no machine type", scope, i);
			}
			t->n += took > 0;
		}
	}
	*ret_more = gcp_next_page(c, TYPES_WHAT, doc, &s);
	return s;
}

/* ---- the verb -------------------------------------------------------------------------------- */

enum { TYPES = 0, ATTACHED, RESERVATIONS, OVER };

struct pooling {
	struct gcp_types types;
	struct gcp_reservations reservations;
};

static void pool_add(struct gcp *self, struct spot_call *c, struct spot_pools *a,
    const struct gcp_type *t, enum spot_market market)
{
	a->pools[a->n++] =
	    (struct spot_pool_info){ .key = { .provider = self->name,
					 .region = gcp_zone_region(c->arena, t->zone),
					 .zone = t->zone,
					 .instance_type = t->name,
					 .market = market },
		    .zone_name = "",
		    .shape = t->shape,
		    /* A reservation was counted against the quota when it was made. */
		    .quota_class = market == SPOT_MARKET_RESERVED
			? ""
			: gcp_quota_class(c->arena, t->accelerator, market) };
}

/* A pool per type and zone with a reservation, also while it is full: ours may be what fills it. */
static bool reserved_in(const struct gcp_reservations *x, const struct gcp_type *t)
{
	for (size_t i = 0; i < x->n; i++) {
		if (x->list[i].total > 0 && strcmp(x->list[i].type, t->name) == 0 &&
		    strcmp(x->list[i].zone, t->zone) == 0) {
			return true;
		}
	}
	return false;
}

static void pools_make(struct gcp *self, struct spot_call *c, struct spot_pools *a,
    const struct gcp_types *t, const struct gcp_reservations *reserved)
{
	a->pools = arena_array(c->arena, 4 * t->n + 1, sizeof(*a->pools));
	a->n = 0;
	for (size_t i = 0; i < t->n; i++) {
		const char *region = gcp_zone_region(c->arena, t->list[i].zone);

		if (t->list[i].accelerator == NULL || !gcp_region_wanted(self, region) ||
		    (!str_empty(a->region) && strcmp(a->region, region) != 0)) {
			continue;
		}
		pool_add(self, c, a, &t->list[i], SPOT_MARKET_SPOT);
		if (gcp_sold_on_demand(t->list[i].name)) {
			pool_add(self, c, a, &t->list[i], SPOT_MARKET_ON_DEMAND);
		}
		if (reserved_in(reserved, &t->list[i])) {
			pool_add(self, c, a, &t->list[i], SPOT_MARKET_RESERVED);
		}
		if (self->flex_start && gcp_sold_queued(t->list[i].name)) {
			pool_add(self, c, a, &t->list[i], SPOT_MARKET_FLEX_START);
		}
	}
}

/* A role without compute.acceleratorTypes.list still has all other machines. */
static enum spot_step attached_reply(struct gcp *self, struct spot_call *c, struct pooling *x,
    bool *ret_more)
{
	enum spot_step s = gcp_accelerators_reply(self, c, &x->types, ret_more);

	*ret_more &= s == SPOT_STEP_NONE;
	return s == SPOT_FAIL && c->err.rc == SPOT_DENIED ? SPOT_STEP_NONE : s;
}

static bool any_host(const struct gcp_types *t)
{
	for (size_t i = 0; i < t->n; i++) {
		if (t->list[i].accelerator == NULL) {
			return true;
		}
	}
	return false;
}

enum spot_step gcp_pools(void *p, struct spot_call *c, struct spot_pools *a)
{
	struct gcp *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct pooling));
	struct pooling *x = st->own;
	bool more = false;

	if (c->in != NULL) {
		enum spot_step s = st->at == TYPES ? gcp_types_reply(self, c, &x->types, &more)
		    : st->at == ATTACHED           ? attached_reply(self, c, x, &more)
					 : gcp_reservations_reply(self, c, &x->reservations, &more);

		if (s != SPOT_STEP_NONE) {
			return s;
		}
		if (!more && st->at++ == TYPES) {
			x->types.hosts_n = x->types.n;
			if (!any_host(&x->types)) {
				st->at = RESERVATIONS;
			}
		}
	}
	if (st->at == TYPES) {
		return gcp_types_send(self, c);
	}
	if (st->at == ATTACHED) {
		return gcp_accelerators_send(self, c);
	}
	if (st->at == RESERVATIONS && self->reservations) {
		return gcp_reservations_send(self, c);
	}
	pools_make(self, c, a, &x->types, &x->reservations);
	return SPOT_DONE;
}
