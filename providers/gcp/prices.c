#include "base/base.h"
#include "gcp_priv.h"

/*
 * Prices. The list: machine types (what they are made of) and the Billing Catalog (what the parts
 * cost), composed (skus.c). The past, on request and if the project has it: advice.capacityHistory.
 * Its price of a whole machine type is also a second opinion on the sum. It goes back a year, one
 * request per type and region. All of them are read, because the past is only read after long gaps,
 * or by itself. The catalog's price is in force: history that begins after it (rounded prices,
 * another day) is left out. A type whose parts the catalog does not name has the price of its
 * history's last interval.
 */

/* A machine in a reservation adds nothing to the bill. Zero is no price anywhere, so it is the
 * least there is. */
#define PAID_MICROS 1
#define CATALOG_WHAT "services.skus.list"
#define CATALOG "CloudBillingCatalog"
#define HISTORY "capacityHistory"
#define COMPUTE_ENGINE "6F81-5844-456A"
#define SKUS_BYTES_MAX ((size_t)64 << 20)
/* Changes are polled hourly and come at most daily: the history is for gaps longer than that. */
#define BACKFILL_US (INT64_C(36) * SPOT_US_PER_HOUR)

enum { TYPES = 0, SKUS, PAST, END };

struct pricing {
	struct gcp_types types;
	struct gcp_skus *skus;
	struct gcp_pair *pairs;
	size_t pairs_n, pair;
	/* of each pool: since when the catalog's price is in force; 0 = it has none */
	int64_t *listed_us;
	const char *version; /* of advice; NULL = not there */
	struct price_points points;
};

/* ---- the catalog ----------------------------------------------------------------------------- */

static enum spot_step skus_send(struct gcp *self, struct spot_call *c)
{
	struct gcp_request r = { .service = GCP_BILLING,
		.method = "GET",
		.what = CATALOG_WHAT,
		.path = arena_printf(c->arena,
		    "/v1/services/" COMPUTE_ENGINE "/skus?pageSize=5000&currencyCode=USD%s",
		    gcp_page(c)),
		.limit = GCP_LIMIT_BILLING,
		.reply_bytes_max = SKUS_BYTES_MAX };

	return gcp_send(self, c, &r);
}

static enum spot_step skus_reply(struct gcp *self, struct spot_call *c, struct pricing *x,
    bool *ret_more)
{
	const struct call_state *st = c->state;
	json_t *doc AUTO(json) = NULL;
	const json_t *skus, *sku;
	size_t i;
	enum spot_step s = gcp_reply(self, c, CATALOG_WHAT, NULL, &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	skus = json_object_get(doc, "skus");
	/* An empty list is left out; on the first page that is no catalog. */
	if (!json_is_array(skus) && ((skus != NULL && !json_is_null(skus)) || st->pages == 0)) {
		return gcp_bad_reply(c, CATALOG_WHAT, "no skus");
	}
	json_array_foreach (skus, i, sku) {
		if (!gcp_sku_take(x->skus, c->arena, sku, c->now_us)) {
			return gcp_bad_reply(c, CATALOG_WHAT,
			    "skus[%zu] has no description or regions", i);
		}
	}
	*ret_more = gcp_next_page(c, CATALOG_WHAT, doc, &s);
	return s;
}

static int type_compare(const void *x, const void *y)
{
	const struct gcp_type *a = x, *b = y;
	int by_zone = strcmp(a->zone, b->zone);

	return by_zone != 0 ? by_zone : strcmp(a->name, b->name);
}

static bool asked_for(const struct spot_prices *a, const struct spot_pool_info *pool)
{
	/* Reserved and queued ones come with those on demand. */
	return (a->market == SPOT_MARKET_NONE || a->market == pool->key.market ||
		   (a->market == SPOT_MARKET_ON_DEMAND &&
		       (pool->key.market == SPOT_MARKET_RESERVED ||
			   pool->key.market == SPOT_MARKET_FLEX_START))) &&
	    (str_empty(a->region) || strcmp(a->region, pool->key.region) == 0);
}

/* The machine type, or the host with what is attached to it. NULL: the zone has none. */
static const struct gcp_type *type_of(struct arena *a, const struct gcp_types *types,
    const struct spot_pool_key *k)
{
	struct gcp_attached what;
	bool attached = gcp_attached(a, k->instance_type, &what);
	const struct gcp_type key = { .name = what.machine, .zone = k->zone };
	const struct gcp_type *t = bsearch(&key, types->list, types->n, sizeof(key), type_compare);
	struct gcp_type *made;

	if (t == NULL || !attached) {
		return t;
	}
	made = arena_alloc(a, sizeof(*made));
	return t->accelerator == NULL && gcp_attached_type(a, t, &what, made) ? made : NULL;
}

/* A type is the same in all zones of a region; the zone's own entry says what it is made of. */
static void prices_compose(struct spot_call *c, const struct spot_prices *a, struct pricing *x)
{
	if (x->types.n > 0) {
		qsort(x->types.list, x->types.n, sizeof(*x->types.list), type_compare);
	}
	for (size_t i = 0; i < a->pools_n; i++) {
		const struct spot_pool_info *pool = &a->pools[i];
		const struct gcp_type *t;
		int64_t micros, effective;

		if (asked_for(a, pool) && pool->key.market == SPOT_MARKET_RESERVED) {
			price_point_add(c, &x->points, pool, PAID_MICROS, 0, GCP_RESERVATIONS);
			continue;
		}
		if (!asked_for(a, pool) || x->types.n == 0) {
			continue;
		}
		t = type_of(c->arena, &x->types, &pool->key);
		if (t != NULL &&
		    gcp_price_compose(x->skus, t, pool->key.region,
			pool->key.market == SPOT_MARKET_SPOT             ? GCP_SPOT
			    : pool->key.market == SPOT_MARKET_FLEX_START ? GCP_FLEX
									 : GCP_STANDARD,
			&micros, &effective)) {
			price_point_add(c, &x->points, pool, micros, effective, CATALOG);
			x->listed_us[i] = effective;
		}
	}
}

/* ---- the past -------------------------------------------------------------------------------- */

static enum spot_step past_send(struct gcp *self, struct spot_call *c, const struct pricing *x)
{
	const struct gcp_pair *p = &x->pairs[x->pair];
	json_t *doc AUTO(json) = json_pack("{s:{s:s, s:{s:s}}, s:[s]}", "instanceProperties",
	    "machineType", p->type, "scheduling", "provisioningModel", "SPOT", "types", "PRICE");

	return gcp_advice_send(self, c, x->version, p->region, "capacityHistory", doc);
}

static void past_take(struct spot_call *c, const struct spot_prices *a, struct pricing *x,
    int64_t micros, int64_t from)
{
	const struct gcp_pair *p = &x->pairs[x->pair];

	for (size_t i = 0; i < a->pools_n; i++) {
		const struct spot_pool_info *pool = &a->pools[i];

		if (pool->key.market == SPOT_MARKET_SPOT &&
		    strcmp(pool->key.region, p->region) == 0 &&
		    strcmp(pool->key.instance_type, p->type) == 0 &&
		    (x->listed_us[i] == 0 || from < x->listed_us[i])) {
			price_point_add(c, &x->points, pool, micros, from, HISTORY);
		}
	}
}

static enum spot_step past_read(struct spot_call *c, const struct spot_prices *a, struct pricing *x,
    const json_t *doc)
{
	const json_t *list = json_object_get(doc, "priceHistory"), *e;
	size_t i;

	if (list != NULL && !json_is_array(list)) {
		return gcp_bad_reply(c, "advice.capacityHistory", "priceHistory is not a list");
	}
	json_array_foreach (list, i, e) {
		const json_t *interval = json_object_get(e, "interval");
		int64_t from = gcp_time(json_string_value(json_object_get(interval, "startTime")));
		int64_t to = gcp_time(json_string_value(json_object_get(interval, "endTime"))),
			nanos;

		/* A gap in the history is no price. */
		if (json_object_get(e, "listPrice") == NULL) {
			continue;
		}
		if (from == 0 || !gcp_money(json_object_get(e, "listPrice"), &nanos)) {
			return gcp_bad_reply(c, "advice.capacityHistory",
			    "priceHistory[%zu] has no interval or price", i);
		}
		if (nanos > 0 && (to == 0 || to > a->since_us)) {
			past_take(c, a, x, gcp_micros(nanos), from);
		}
	}
	return SPOT_STEP_NONE;
}

/* Not there, not permitted, not for this type: do without. */
static enum spot_step past_reply(struct gcp *self, struct spot_call *c, const struct spot_prices *a,
    struct pricing *x)
{
	json_t *doc AUTO(json) = NULL;
	enum spot_step s;

	if (c->in->status == 404) {
		x->version = strcmp(x->version, "v1") == 0 ? "beta" : NULL;
		return SPOT_STEP_NONE;
	}
	s = gcp_reply(self, c, "advice.capacityHistory", NULL, &doc);
	if (s == SPOT_FAIL &&
	    (c->err.rc == SPOT_DENIED || c->err.rc == SPOT_CONFIG || c->err.rc == SPOT_QUOTA)) {
		x->version = NULL;
		return SPOT_STEP_NONE;
	}
	if (s == SPOT_STEP_NONE) {
		s = past_read(c, a, x, doc);
	} else if (s == SPOT_FAIL && (c->err.rc == SPOT_INVALID || c->err.rc == SPOT_NOT_OFFERED)) {
		s = SPOT_STEP_NONE;
	}
	if (s == SPOT_STEP_NONE) {
		x->pair++;
	}
	return s;
}

/* ---- the verb -------------------------------------------------------------------------------- */

static bool past_wanted(const struct gcp *self, const struct spot_call *c,
    const struct spot_prices *a)
{
	return a->since_us > 0 && c->now_us - a->since_us > BACKFILL_US &&
	    a->market != SPOT_MARKET_ON_DEMAND && *self->advice_version != '\0' &&
	    self->advice_calls > 0;
}

static void past_begin(struct gcp *self, struct spot_call *c, const struct spot_prices *a,
    struct pricing *x)
{
	x->listed_us = arena_array(c->arena, a->pools_n + 1, sizeof(*x->listed_us));
	x->version = past_wanted(self, c, a) ? self->advice_version : NULL;
	if (x->version != NULL) {
		x->pairs_n = gcp_pairs(c->arena, a->pools, a->pools_n, a->region, &x->pairs);
	}
}

enum spot_step gcp_prices(void *p, struct spot_call *c, struct spot_prices *a)
{
	struct gcp *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct pricing));
	struct pricing *x = st->own;
	enum spot_step s = SPOT_STEP_NONE;
	bool more = false;

	if (x->skus == NULL) {
		x->skus = gcp_skus_new(c->arena);
		st->at = a->pools_n == 0 ? END : a->past ? PAST : TYPES;
		if (a->past) {
			past_begin(self, c, a, x);
		}
	}
	if (c->in != NULL) {
		if (st->at == TYPES) {
			s = gcp_types_reply(self, c, &x->types, &more);
		} else if (st->at == SKUS) {
			s = skus_reply(self, c, x, &more);
		} else {
			s = past_reply(self, c, a, x);
		}
		if (s != SPOT_STEP_NONE) {
			return s;
		}
		if (st->at == SKUS && !more) {
			past_begin(self, c, a, x);
			prices_compose(c, a, x);
		}
		if (st->at < PAST && !more) {
			st->at++;
		}
	}
	if (st->at == TYPES) {
		return gcp_types_send(self, c);
	}
	if (st->at == SKUS) {
		return skus_send(self, c);
	}
	if (st->at == PAST && x->version != NULL && x->pair < x->pairs_n) {
		return past_send(self, c, x);
	}
	a->points = x->points.items;
	a->n = x->points.n;
	return SPOT_DONE;
}
