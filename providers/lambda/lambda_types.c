/*
 * GET /instance-types is the whole market: types, one price for every region, and the regions that
 * say they have some now. GET /regions (since 1.10) names the regions, also those without capacity
 * at the moment. If the route does not exist, the regions seen in the list stand in.
 */
#include "base/base.h"
#include "lambda_priv.h"

#define SOURCE "GET /instance-types"
#define CENTS_MAX 100000000

enum { AT_FIRST = 0, AT_TYPES };

struct type_item {
	const char *name;
	struct spot_shape shape;
	int64_t price_micros;
	const char **capacity;
	size_t capacity_n; /* regions */
};
struct types {
	struct type_item *items;
	size_t n;
	const char **regions;
	size_t regions_n; /* of the state and those seen, without doubles */
};

/* ---- reading --------------------------------------------------------------------------------- */

static bool has_name(const char *const *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(list[i], name) == 0) {
			return true;
		}
	}
	return false;
}

/* [{"name": ...}, ...]: the names, copied. NULL with err on a wrong form. */
static const char **region_names(struct arena *a, const json_t *list, size_t *ret_n,
    struct spot_err *err)
{
	size_t n = json_array_size(list), used = 0;
	const char **names = arena_array(a, n + 1, sizeof(*names));

	for (size_t i = 0; i < n && err->rc == SPOT_OK; i++) {
		const char *name = json_need_str(json_array_get(list, i), "name", err);

		if (err->rc == SPOT_OK && !has_name(names, used, name)) {
			names[used++] = arena_strdup(a, name);
		}
	}
	*ret_n = used;
	return names;
}

static bool type_read(struct arena *a, const json_t *o, struct type_item *ret, struct spot_err *err)
{
	const json_t *type = json_object_get(o, "instance_type");
	const json_t *specs = json_object_get(type, "specs");
	const json_t *regions = json_object_get(o, "regions_with_capacity_available");
	const char *name = json_need_str(type, "name", err);
	const char *gpu = json_str(type, "gpu_description", "", err);
	int64_t cents = json_need_i64(type, "price_cents_per_hour", err);
	int64_t gpus = json_need_i64(specs, "gpus", err);
	int64_t vcpus = json_need_i64(specs, "vcpus", err);
	int64_t memory = json_need_i64(specs, "memory_gib", err);

	if (err->rc != SPOT_OK) {
		return false;
	}
	if (cents < 0 || cents > CENTS_MAX || gpus < 0 || gpus > 1024 || vcpus < 0 ||
	    vcpus > 65536 || memory < 0 || memory > 1048576 || !json_is_array(regions)) {
		err->rc = SPOT_BAD_REPLY;
		snprintf(err->text, sizeof(err->text),
		    "a figure is out of range or the regions are no list");
		return false;
	}
	ret->name = arena_strdup(a, name);
	ret->price_micros = cents * (SPOT_MICROS_PER_USD / 100);
	ret->shape = (struct spot_shape){
		.gpu_name = "",
		.gpu_milli = (int32_t)gpus * 1000,
		.vcpus = (int32_t)vcpus,
		.mem_mib = (int32_t)MIN(memory * 1024, (int64_t)INT32_MAX),
	};
	lambda_gpu_shape(a, name, gpu, &ret->shape);
	ret->capacity = region_names(a, regions, &ret->capacity_n, err);
	return err->rc == SPOT_OK;
}

static enum spot_step types_bad(struct spot_call *c, const char *what, const char *type,
    const struct spot_err *err)
{
	return call_fail(c, SPOT_BAD_REPLY, NULL, "lambda %s: instance type '%s': %s", what,
	    lambda_words(c->arena, type), err->text);
}

static void regions_join(struct types *t, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!has_name(t->regions, t->regions_n, names[i])) {
			t->regions[t->regions_n++] = names[i];
		}
	}
}

/* data: {"gpu_1x_a10": {"instance_type": {...}, "regions_with_capacity_available": [...]}, ...} */
static enum spot_step types_parse(struct spot_call *c, const char *what, json_t *data,
    const struct lambda_state *st, struct types *ret)
{
	size_t regions_max = st->regions_n;
	const char *key;
	json_t *value;

	if (!json_is_object(data)) {
		return call_fail(c, SPOT_BAD_REPLY, NULL, "lambda %s: 'data' is not an object",
		    what);
	}
	*ret = (struct types){ .items = arena_array(c->arena, json_object_size(data) + 1,
				   sizeof(*ret->items)) };
	json_object_foreach (data, key, value) {
		struct type_item *t = &ret->items[ret->n];
		struct spot_err err = { 0 };

		if (!type_read(c->arena, value, t, &err)) {
			return types_bad(c, what, key, &err);
		}
		regions_max += t->capacity_n;
		ret->n += t->shape.gpu_milli > 0; /* machines without GPUs are not ours to sell */
	}
	ret->regions = arena_array(c->arena, regions_max + 1, sizeof(*ret->regions));
	regions_join(ret, st->regions, st->regions_n);
	for (size_t i = 0; i < ret->n; i++) {
		regions_join(ret, ret->items[i].capacity, ret->items[i].capacity_n);
	}
	return SPOT_STEP_NONE;
}

/* ---- the two requests, in order -------------------------------------------------------------- */

static enum spot_step send_at(const struct lambda *self, struct spot_call *c, int at)
{
	lambda_state_get(c)->at = at;
	lambda_request(self, c, "GET", at == AT_FIRST ? "/regions" : "/instance-types",
	    LAMBDA_LIMIT_GENERAL);
	return SPOT_SEND;
}

/* GET /regions answered: its names into the state. An older API has no such route: none. */
static enum spot_step regions_take(const struct lambda *self, struct spot_call *c, const char *what)
{
	struct lambda_state *st = lambda_state_get(c);
	struct lambda_reply r;
	struct spot_err err = { 0 };
	enum spot_step s = lambda_reply_get(self, c, what, &r);

	if (s != SPOT_STEP_NONE) {
		return s == SPOT_FAIL && c->in->status == 404 ? SPOT_STEP_NONE : s;
	}
	if (!json_is_array(json_object_get(r.doc, "data"))) {
		json_decref(r.doc);
		return call_fail(c, SPOT_BAD_REPLY, NULL,
		    "lambda %s: regions: 'data' is not a list", what);
	}
	st->regions = region_names(c->arena, json_object_get(r.doc, "data"), &st->regions_n, &err);
	json_decref(r.doc);
	return err.rc == SPOT_OK
	    ? SPOT_STEP_NONE
	    : call_fail(c, SPOT_BAD_REPLY, NULL, "lambda %s: regions: %s", what, err.text);
}

static enum spot_step types_take(const struct lambda *self, struct spot_call *c, const char *what,
    struct types *ret)
{
	struct lambda_reply r;
	enum spot_step s = lambda_reply_get(self, c, what, &r);

	if (s == SPOT_STEP_NONE) {
		s = types_parse(c, what, json_object_get(r.doc, "data"), lambda_state_get(c), ret);
		json_decref(r.doc);
	}
	return s;
}

/* Plays both requests, or only the second if the caller knows the regions. NONE: ret is filled. */
static enum spot_step types_ask(const struct lambda *self, struct spot_call *c, const char *what,
    bool with_regions, struct types *ret)
{
	struct lambda_state *st = lambda_state_get(c);
	enum spot_step s;

	if (c->in == NULL) {
		return send_at(self, c, with_regions ? st->at : AT_TYPES);
	}
	if (st->at == AT_FIRST) {
		s = regions_take(self, c, what);
		return s != SPOT_STEP_NONE ? s : send_at(self, c, AT_TYPES);
	}
	return types_take(self, c, what, ret);
}

/* ---- verbs ----------------------------------------------------------------------------------- */

enum spot_step lambda_regions(void *p, struct spot_call *c, struct spot_regions *a)
{
	struct lambda_state *st = lambda_state_get(c);
	struct types t;
	enum spot_step s;

	if (c->in != NULL && st->at == AT_FIRST) {
		s = regions_take(p, c, "regions");
		if (s != SPOT_STEP_NONE) {
			return s;
		}
		if (st->regions_n > 0) {
			a->names = st->regions;
			a->n = st->regions_n;
			return SPOT_DONE;
		}
		return send_at(p, c, AT_TYPES);
	}
	s = types_ask(p, c, "regions", true, &t);
	if (s == SPOT_STEP_NONE) {
		a->names = t.regions;
		a->n = t.regions_n;
		return SPOT_DONE;
	}
	return s;
}

static bool region_wanted(const char *wanted, const char *region)
{
	return str_empty(wanted) || strcmp(wanted, region) == 0;
}

static struct spot_pool_key key_of(const struct lambda *self, struct spot_call *c,
    const char *region, const char *type)
{
	return (struct spot_pool_key){
		.provider = arena_strdup(c->arena, self->name),
		.region = region,
		.zone = "",
		.instance_type = type,
		.market = SPOT_MARKET_ON_DEMAND,
	};
}

/* Lambda never says whether a region has a type, only whether there is some now. So every pair is a
 * pool, and the capacity signal tells them apart. */
enum spot_step lambda_pools(void *p, struct spot_call *c, struct spot_pools *a)
{
	struct types t;
	enum spot_step s = types_ask(p, c, "pools", true, &t);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	a->n = 0;
	a->pools = arena_array(c->arena, t.n * t.regions_n + 1, sizeof(*a->pools));
	for (size_t i = 0; i < t.n; i++) {
		for (size_t k = 0; k < t.regions_n; k++) {
			if (region_wanted(a->region, t.regions[k])) {
				a->pools[a->n++] = (struct spot_pool_info){
					.key = key_of(p, c, t.regions[k], t.items[i].name),
					.zone_name = "",
					.shape = t.items[i].shape,
					.quota_class = "",
				};
			}
		}
	}
	return SPOT_DONE;
}

static const struct type_item *type_find(const struct types *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++) {
		if (strcmp(t->items[i].name, name) == 0) {
			return &t->items[i];
		}
	}
	return NULL;
}

/* Prices and signals both have one value per pool. The caller's pools are in known; without them
 * every pair of type and region gets one. The callback add returns false to skip. */
struct each {
	const struct lambda *self;
	struct spot_call *c;
	const struct types *t;
	void *result;
	void (*add)(struct each *e, const struct spot_pool_key *key, const struct type_item *type);
};

static void each_known(struct each *e, const char *region, const struct spot_pool_info *pools,
    size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct type_item *type = type_find(e->t, pools[i].key.instance_type);

		if (type != NULL && pools[i].key.market == SPOT_MARKET_ON_DEMAND &&
		    region_wanted(region, pools[i].key.region)) {
			e->add(e, &pools[i].key, type);
		}
	}
}

static void each_pair(struct each *e, const char *region)
{
	for (size_t i = 0; i < e->t->n; i++) {
		for (size_t k = 0; k < e->t->regions_n; k++) {
			struct spot_pool_key key =
			    key_of(e->self, e->c, e->t->regions[k], e->t->items[i].name);

			if (region_wanted(region, key.region)) {
				e->add(e, &key, &e->t->items[i]);
			}
		}
	}
}

static void price_add(struct each *e, const struct spot_pool_key *key, const struct type_item *type)
{
	struct spot_prices *a = e->result;

	a->points[a->n++] = (struct spot_price_point){
		.key = *key,
		.price_micros = type->price_micros,
		.effective_us = 0,
		.observed_us = e->c->now_us,
		.source = SOURCE,
	};
}

enum spot_step lambda_prices(void *p, struct spot_call *c, struct spot_prices *a)
{
	struct types t;
	struct each e = { .self = p, .c = c, .t = &t, .result = a, .add = price_add };
	enum spot_step s;

	a->n = 0;
	if (a->market != SPOT_MARKET_NONE && a->market != SPOT_MARKET_ON_DEMAND) {
		return SPOT_DONE; /* there is no other market */
	}
	s = types_ask(p, c, "prices", a->pools_n == 0, &t);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	a->points =
	    arena_array(c->arena, MAX(a->pools_n, t.n * t.regions_n) + 1, sizeof(*a->points));
	if (a->pools_n > 0) {
		each_known(&e, a->region, a->pools, a->pools_n);
	} else {
		each_pair(&e, a->region);
	}
	return SPOT_DONE;
}

static void signal_add(struct each *e, const struct spot_pool_key *key,
    const struct type_item *type)
{
	struct spot_signals *a = e->result;
	bool some = has_name(type->capacity, type->capacity_n, key->region);

	a->signals[a->n++] = (struct spot_signal){
		.kind = SPOT_SIGNAL_CAPACITY,
		.key = *key,
		.value = some ? 1 : 0,
		.lo = 0,
		.hi = 0,
		.observed_us = e->c->now_us,
		.source = SOURCE,
	};
}

enum spot_step lambda_signals(void *p, struct spot_call *c, struct spot_signals *a)
{
	struct types t;
	struct each e = { .self = p, .c = c, .t = &t, .result = a, .add = signal_add };
	enum spot_step s;

	a->n = 0;
	s = types_ask(p, c, "signals", a->pools_n == 0, &t);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	a->signals =
	    arena_array(c->arena, MAX(a->pools_n, t.n * t.regions_n) + 1, sizeof(*a->signals));
	if (a->pools_n > 0) {
		each_known(&e, a->region, a->pools, a->pools_n);
	} else {
		each_pair(&e, a->region);
	}
	return SPOT_DONE;
}
