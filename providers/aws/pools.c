#include "base/base.h"
#include "aws_priv.h"

/*
 * Pools of one region: zones, GPU types as the vendor describes them, and the types that each zone
 * offers. Zones go by zone id, because zone names are aliases that differ between accounts. Offered
 * is not capacity.
 */

#include <strings.h>

enum { ZONES = 0, TYPES, OFFERINGS, RESERVATIONS };

struct zone {
	const char *id, *name;
};

struct gpu_type {
	const char *name;
	struct spot_shape shape;
	bool spot, on_demand;
};

struct pooling {
	struct zone *zones;
	size_t zones_n, zones_cap;
	struct gpu_type *types;
	size_t types_n, types_cap;
	struct spot_pool_info *pools;
	size_t pools_n, pools_cap;
};

/* ---- names ----------------------------------------------------------------------------------- */

/* The vendor's marketing names to the names of our catalogue. The first line that fits wins; memory
 * tells cards of one name apart (usable MiB, a little under the data sheet). */
static const struct {
	const char *name;
	int64_t mib_min;
	const char *ours;
} gpu_names[] = {
	{ "V100", 30000, "V100-32GB" },
	{ "V100", 0, "V100-16GB" },
	{ "A100", 70000, "A100-80GB" },
	{ "A100", 0, "A100-40GB" },
	{ "H100", 0, "H100-80GB-SXM" },
	{ "T4g", 0, "T4G" },
	{ "RTX PRO 4500", 0, "RTXPRO4500-32GB" },
	{ "RTX PRO Server 4500", 0, "RTXPRO4500-32GB" },
	{ "RTX PRO 6000", 0, "RTXPRO6000-96GB" },
	{ "RTX PRO Server 6000", 0, "RTXPRO6000-96GB" },
	{ "GRID K520", 0, "K520" },
};

/* A name that is new to us is kept without blanks: H200, B200, B300, T4, A10G, L4, L40S are such.
 */
static const char *gpu_name(struct arena *a, const char *name, int64_t mib)
{
	size_t n = 0;
	char *out;

	if (strncasecmp(name, "NVIDIA ", 7) == 0) {
		name += 7;
	}
	if (strncasecmp(name, "Tesla ", 6) == 0) {
		name += 6;
	}
	for (size_t i = 0; i < ARRAY_LEN(gpu_names); i++) {
		if (strcasecmp(gpu_names[i].name, name) == 0 && mib >= gpu_names[i].mib_min) {
			return gpu_names[i].ours;
		}
	}
	out = arena_strdup(a, name);
	for (const char *p = name; *p != '\0'; p++) {
		if (*p != ' ') {
			out[n++] = *p;
		}
	}
	out[n] = '\0';
	return out;
}

/* "g6e.xlarge" belongs to G, "p5en.48xlarge" to P5. Spot has classes of their own for P5 and P6,
 * on-demand has one for all P (ec2-instance-quotas.html). The quota rows get the same names in
 * account.c. */
const char *aws_quota_class(struct arena *a, const char *type, enum spot_market market)
{
	const char *family = type[0] == 'p' ? "P" : "G", *market_name = "OnDemand";

	if (market == SPOT_MARKET_SPOT) {
		market_name = "Spot";
		if (str_prefix(type, "p5")) {
			family = "P5";
		} else if (str_prefix(type, "p6")) {
			family = "P6";
		}
	}
	return arena_printf(a, "%s/%s", family, market_name);
}

/* ---- requests -------------------------------------------------------------------------------- */

static enum spot_step pools_send(struct aws *self, struct spot_call *c, const char *region)
{
	static const char *const actions[] = { "DescribeAvailabilityZones", "DescribeInstanceTypes",
		"DescribeInstanceTypeOfferings" };
	const struct call_state *st = c->state;
	const char *action;
	struct query q;

	if (st->at == RESERVATIONS) {
		return aws_reservations_send(self, c, region, NULL);
	}
	action = actions[st->at];
	query_begin(&q, c->arena, action, EC2_VERSION);
	if (st->at == TYPES) {
		/* There is no GPU filter; P and G are the accelerated families. */
		query_add(&q, "Filter.1.Name", "instance-type");
		query_add(&q, "Filter.1.Value.1", "p*");
		query_add(&q, "Filter.1.Value.2", "g*");
		query_add(&q, "Filter.2.Name", "supported-usage-class");
		query_add(&q, "Filter.2.Value.1", "spot");
		query_add(&q, "Filter.2.Value.2", "on-demand");
		if (self->reservations) {
			query_add(&q, "Filter.2.Value.3", "capacity-block");
		}
		query_add(&q, "MaxResults", "100");
	} else if (st->at == OFFERINGS) {
		query_add(&q, "LocationType", "availability-zone-id");
		query_add(&q, "Filter.1.Name", "instance-type");
		query_add(&q, "Filter.1.Value.1", "p*");
		query_add(&q, "Filter.1.Value.2", "g*");
		query_add(&q, "MaxResults", "1000");
	}
	if (st->next != NULL) {
		query_add(&q, "NextToken", st->next);
	}
	return query_send_ec2(&q, self, c, region, action, AWS_LIMIT_DESCRIBE, false);
}

/* ---- zones ----------------------------------------------------------------------------------- */

static enum spot_step zones_reply(struct aws *self, struct spot_call *c, struct pooling *x)
{
	const char *action = "DescribeAvailabilityZones";
	const struct xml *doc, *set;
	enum spot_step s =
	    aws_reply_xml(self, c, action, "DescribeAvailabilityZonesResponse", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	set = xml_at(doc, "availabilityZoneInfo");
	if (set == NULL) {
		return aws_bad_reply(c, action, "no availabilityZoneInfo");
	}
	for (const struct xml *z = xml_first(set, "item"); z != NULL; z = xml_next(z, "item")) {
		const char *id = xml_text(z, "zoneId", ""),
			   *type = xml_text(z, "zoneType", "availability-zone");

		/* Local and wavelength zones have other prices and hardly any GPUs. */
		if (*id == '\0' || strcmp(type, "availability-zone") != 0) {
			continue;
		}
		if (strcmp(xml_text(z, "optInStatus", "opt-in-not-required"), "not-opted-in") ==
		    0) {
			continue;
		}
		x->zones =
		    arena_grow(c->arena, x->zones, x->zones_n, &x->zones_cap, sizeof(*x->zones));
		x->zones[x->zones_n++] =
		    (struct zone){ .id = id, .name = xml_text(z, "zoneName", "") };
	}
	return SPOT_STEP_NONE;
}

/* ---- types ----------------------------------------------------------------------------------- */

static int64_t number_of(const struct xml *x, const char *path, int64_t max)
{
	int64_t v;

	return parse_i64(xml_text(x, path, ""), 0, max, &v) ? v : 0;
}

/* count is 0 for fractional types: they say how many slices of which size (g6f, gr6f). */
static void gpu_read(struct arena *a, const struct xml *info, const struct xml *gpu,
    struct spot_shape *s)
{
	int64_t count = number_of(gpu, "count", 1000),
		slices = number_of(gpu, "logicalGpuCount", 1000);
	int64_t mib = number_of(gpu, "memoryInfo/sizeInMiB", INT32_MAX);
	int64_t total = number_of(info, "totalGpuMemoryInMiB", INT32_MAX);
	double part = 1, milli = (double)count * 1000;

	if (!parse_f64(xml_text(gpu, "gpuPartitionSize", "1"), 0.001, 1, &part)) {
		part = 1;
	}
	if (count == 0 || part < 1) {
		milli = (double)MAX(slices, 1) * part * 1000;
		/* The slice's memory, where it is all that the type has; else the whole card's. */
		if (total > 0 && mib * MAX(slices, 1) <= total) {
			mib = (int64_t)((double)mib / part + 0.5);
		}
	}
	s->gpu_milli = (int32_t)(milli + 0.5);
	s->gpu_mem_mib = (int32_t)MIN(mib, INT32_MAX);
	s->gpu_name = gpu_name(a, xml_text(gpu, "name", ""), mib);
}

static bool set_has(const struct xml *set, const char *word)
{
	for (const struct xml *i = xml_first(set, "item"); i != NULL; i = xml_next(i, "item")) {
		if (strcmp(i->text, word) == 0) {
			return true;
		}
	}
	return false;
}

/* False: no CUDA (AMD, Neuron, no accelerator at all) or not named. */
static bool type_read(struct arena *a, const struct xml *item, struct gpu_type *ret)
{
	const struct xml *info = xml_at(item, "gpuInfo"),
			 *archs = xml_at(item, "processorInfo/supportedArchitectures");
	const struct xml *gpu, *classes = xml_at(item, "supportedUsageClasses");
	struct gpu_type t = { .name = xml_text(item, "instanceType", "") };

	gpu = xml_first(xml_at(info, "gpus"), "item");
	while (gpu != NULL && strcasecmp(xml_text(gpu, "manufacturer", ""), "NVIDIA") != 0) {
		gpu = xml_next(gpu, "item");
	}
	if (gpu == NULL || *t.name == '\0') {
		return false;
	}
	gpu_read(a, info, gpu, &t.shape);
	t.shape.vcpus = (int32_t)number_of(item, "vCpuInfo/defaultVCpus", 100000);
	t.shape.mem_mib = (int32_t)number_of(item, "memoryInfo/sizeInMiB", INT32_MAX);
	t.shape.arch = set_has(archs, "x86_64") ? "x86_64" : set_has(archs, "arm64") ? "arm64" : "";
	t.spot = set_has(classes, "spot");
	t.on_demand = set_has(classes, "on-demand");
	*ret = t;
	return *t.shape.gpu_name != '\0' && t.shape.gpu_milli > 0;
}

static enum spot_step types_reply(struct aws *self, struct spot_call *c, struct pooling *x,
    bool *ret_more)
{
	const char *action = "DescribeInstanceTypes";
	const struct xml *doc, *set;
	bool bad;
	enum spot_step s = aws_reply_xml(self, c, action, "DescribeInstanceTypesResponse", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	set = xml_at(doc, "instanceTypeSet");
	if (set == NULL) {
		return aws_bad_reply(c, action, "no instanceTypeSet");
	}
	for (const struct xml *i = xml_first(set, "item"); i != NULL; i = xml_next(i, "item")) {
		x->types =
		    arena_grow(c->arena, x->types, x->types_n, &x->types_cap, sizeof(*x->types));
		if (type_read(c->arena, i, &x->types[x->types_n])) {
			x->types_n++;
		}
	}
	*ret_more = aws_next_page(c->state, c->arena, xml_text(doc, "nextToken", ""), &bad);
	return bad ? aws_bad_reply(c, action, "the page token repeats") : SPOT_STEP_NONE;
}

/* ---- offerings ------------------------------------------------------------------------------- */

static void pool_add(struct aws *self, struct spot_call *c, struct pooling *x, const char *region,
    const struct gpu_type *t, const struct zone *z, enum spot_market market)
{
	x->pools = arena_grow(c->arena, x->pools, x->pools_n, &x->pools_cap, sizeof(*x->pools));
	x->pools[x->pools_n++] = (struct spot_pool_info){ .key = { .provider = self->name,
							      .region = region,
							      .zone = z->id,
							      .instance_type = t->name,
							      .market = market },
		.zone_name = z->name,
		.shape = t->shape,
		/* A reservation was counted against the quota when it was made. */
		.quota_class = spot_market_reserves(market)
		    ? ""
		    : aws_quota_class(c->arena, t->name, market) };
}

static const struct gpu_type *type_find(const struct pooling *x, const char *name)
{
	for (size_t i = 0; i < x->types_n; i++) {
		if (strcmp(x->types[i].name, name) == 0) {
			return &x->types[i];
		}
	}
	return NULL;
}

static void offering_read(struct aws *self, struct spot_call *c, struct pooling *x,
    const char *region, const struct xml *item)
{
	const char *type = xml_text(item, "instanceType", ""),
		   *place = xml_text(item, "location", "");
	const struct gpu_type *t = type_find(x, type);
	const struct zone *z = NULL;

	for (size_t i = 0; i < x->zones_n && z == NULL; i++) {
		if (strcmp(x->zones[i].id, place) == 0) {
			z = &x->zones[i];
		}
	}
	if (t == NULL || z == NULL) {
		return;
	}
	if (t->spot) {
		pool_add(self, c, x, region, t, z, SPOT_MARKET_SPOT);
	}
	if (t->on_demand) {
		pool_add(self, c, x, region, t, z, SPOT_MARKET_ON_DEMAND);
	}
}

static enum spot_step offerings_reply(struct aws *self, struct spot_call *c, struct pooling *x,
    const char *region, bool *ret_more)
{
	const char *action = "DescribeInstanceTypeOfferings";
	const struct xml *doc, *set;
	bool bad;
	enum spot_step s =
	    aws_reply_xml(self, c, action, "DescribeInstanceTypeOfferingsResponse", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	set = xml_at(doc, "instanceTypeOfferingSet");
	if (set == NULL) {
		return aws_bad_reply(c, action, "no instanceTypeOfferingSet");
	}
	for (const struct xml *i = xml_first(set, "item"); i != NULL; i = xml_next(i, "item")) {
		offering_read(self, c, x, region, i);
	}
	*ret_more = aws_next_page(c->state, c->arena, xml_text(doc, "nextToken", ""), &bad);
	return bad ? aws_bad_reply(c, action, "the page token repeats") : SPOT_STEP_NONE;
}

/* ---- reservations ---------------------------------------------------------------------------- */

static bool pool_known(const struct pooling *x, const struct spot_pool_key *key)
{
	for (size_t i = 0; i < x->pools_n; i++) {
		const struct spot_pool_key *k = &x->pools[i].key;

		if (k->market == key->market && strcmp(k->instance_type, key->instance_type) == 0 &&
		    strcmp(k->zone, key->zone) == 0) {
			return true;
		}
	}
	return false;
}

/* A pool per type and zone with a reservation, also while it is full: ours may be what fills it.
 * Only the region's queue hears of a reclaim, so without it interruptible ones are left alone. */
static enum spot_step reservations_reply(struct aws *self, struct spot_call *c, struct pooling *x,
    const char *region, bool *ret_more)
{
	const struct xml *set;
	struct spot_pool_key key = { .region = region };
	enum spot_step s = aws_reservations_reply(self, c, &set, ret_more);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	for (const struct xml *i = xml_first(set, "item"); i != NULL; i = xml_next(i, "item")) {
		const struct gpu_type *t;
		struct aws_reservation r;

		if (!aws_reservation_read(i, &r) || r.total == 0 ||
		    (r.interruptible && (!self->lent || aws_queue(self, region) == NULL))) {
			continue;
		}
		key.market = r.interruptible ? SPOT_MARKET_INTERRUPTIBLE : SPOT_MARKET_RESERVED;
		t = type_find(x, r.type);
		for (size_t k = 0; k < x->zones_n && t != NULL; k++) {
			const struct zone *z = &x->zones[k];

			key.instance_type = t->name;
			key.zone = z->id;
			if (aws_reservation_at(&r, &key, z->name) && !pool_known(x, &key)) {
				pool_add(self, c, x, region, t, z, key.market);
			}
		}
	}
	return SPOT_STEP_NONE;
}

enum spot_step aws_pools(void *p, struct spot_call *c, struct spot_pools *a)
{
	struct aws *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct pooling));
	struct pooling *x = st->own;
	bool more = false;
	enum spot_step s = SPOT_STEP_NONE;

	if (str_empty(a->region)) {
		return call_fail(c, SPOT_INVALID, NULL, "aws pools: a region is needed");
	}
	if (c->in != NULL) {
		if (st->at == ZONES) {
			s = zones_reply(self, c, x);
		} else if (st->at == TYPES) {
			s = types_reply(self, c, x, &more);
		} else if (st->at == OFFERINGS) {
			s = offerings_reply(self, c, x, arena_strdup(c->arena, a->region), &more);
		} else {
			s = reservations_reply(self, c, x, arena_strdup(c->arena, a->region),
			    &more);
		}
		if (s != SPOT_STEP_NONE) {
			return s;
		}
		if (!more) {
			st->at++;
		}
	}
	if (st->at <= (self->reservations ? RESERVATIONS : OFFERINGS)) {
		return pools_send(self, c, a->region);
	}
	a->pools = x->pools;
	a->n = x->pools_n;
	return SPOT_DONE;
}

/* ---- index for the feeds --------------------------------------------------------------------- */

static int by_type(const void *a, const void *b)
{
	const struct spot_pool_info *x = *(const struct spot_pool_info *const *)a;
	const struct spot_pool_info *y = *(const struct spot_pool_info *const *)b;

	return strcmp(x->key.instance_type, y->key.instance_type);
}

void pool_index_init(struct pool_index *x, struct arena *a, const struct spot_pool_info *pools,
    size_t n, enum spot_market market)
{
	x->n = 0;
	x->items = arena_array(a, n + 1, sizeof(*x->items));
	for (size_t i = 0; i < n; i++) {
		if (pools[i].key.market == market) {
			x->items[x->n++] = &pools[i];
		}
	}
	qsort(x->items, x->n, sizeof(*x->items), by_type);
}

const struct spot_pool_info **pool_index_type(const struct pool_index *x, const char *type)
{
	size_t lo = 0, hi = x->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(x->items[mid]->key.instance_type, type) < 0) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo < x->n && strcmp(x->items[lo]->key.instance_type, type) == 0 ? &x->items[lo]
									       : NULL;
}

const struct spot_pool_info *pool_index_find(const struct pool_index *x, const char *type,
    const char *zone_id, const char *zone_name)
{
	const struct spot_pool_info **at = pool_index_type(x, type), **end = x->items + x->n;

	for (; at != NULL && at < end && strcmp((*at)->key.instance_type, type) == 0; at++) {
		if (*zone_id != '\0'
			? str_same((*at)->key.zone, zone_id)
			: *zone_name != '\0' && str_same((*at)->zone_name, zone_name)) {
			return *at;
		}
	}
	return NULL;
}
