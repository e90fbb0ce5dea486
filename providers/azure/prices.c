#include "base/base.h"
#include "azure_priv.h"

/*
 * Prices of one region: Retail Prices for what is charged now
 * (learn.microsoft.com/rest/api/cost-management/retail-prices/ azure-retail-prices), Resource Graph
 * for what spot cost before. A price is the region's; each pool of a size gets it, whatever its
 * zone. One region at a time: pages are not stable while prices change, so the fewer pages the
 * better. A row that comes twice is taken once.
 */

#include <strings.h>

#define SOURCE "RetailPrices"

enum { RETAIL = 0, HISTORY };

/* The best row so far for a size and market. */
struct offer {
	const char *size; /* the pools' spelling */
	enum spot_market market;
	int64_t micros, since_us;
	bool primary;
};
struct pricing {
	struct offer *offers;
	size_t n, cap;
	struct price_points points;
};

/* ---- rows ------------------------------------------------------------------------------------ */

static bool text_contains(const char *text, const char *part)
{
	return strcasestr(text, part) != NULL;
}

/* Rows of other products under the same service: Windows (one series writes " Win"), classic cloud
 * services, dedicated hosts, low-priority machines of Batch. */
static bool row_counts(const json_t *row, const char *region)
{
	const char *product = azure_text(row, "productName"), *meter = azure_text(row, "meterName"),
		   *sku = azure_text(row, "skuName");
	const json_t *from = json_object_get(row, "tierMinimumUnits");

	return strcmp(azure_text(row, "type"), "Consumption") == 0 &&
	    strcmp(azure_text(row, "unitOfMeasure"), "1 Hour") == 0 &&
	    *azure_text(row, "armSkuName") != '\0' &&
	    strcasecmp(azure_text(row, "armRegionName"), region) == 0 &&
	    (*azure_text(row, "currencyCode") == '\0' ||
		strcmp(azure_text(row, "currencyCode"), "USD") == 0) &&
	    (from == NULL || json_number_value(from) == 0) && !text_contains(product, "Windows") &&
	    !str_suffix(product, " Win") && !text_contains(product, "Cloud Services") &&
	    !text_contains(product, "CloudServices") && !text_contains(product, "Dedicated Host") &&
	    !text_contains(meter, "Low Priority") && !text_contains(sku, "Low Priority");
}

/* The primary meter before others, then the newest. */
static bool offer_better(const struct offer *was, const struct offer *is)
{
	if (was->micros == 0 || was->primary != is->primary) {
		return was->micros == 0 || is->primary;
	}
	return is->since_us > was->since_us;
}

static struct offer *offer_of(struct spot_call *c, struct pricing *x, const char *size,
    enum spot_market market)
{
	for (size_t i = 0; i < x->n; i++) {
		if (x->offers[i].market == market && strcmp(x->offers[i].size, size) == 0) {
			return &x->offers[i];
		}
	}
	x->offers = arena_grow(c->arena, x->offers, x->n, &x->cap, sizeof(*x->offers));
	x->offers[x->n] = (struct offer){ .size = size, .market = market };
	return &x->offers[x->n++];
}

static void row_read(struct spot_call *c, const struct spot_prices *a, const json_t *row,
    struct pricing *x)
{
	bool spot = str_suffix(azure_text(row, "meterName"), " Spot") ||
	    str_suffix(azure_text(row, "skuName"), " Spot");
	struct offer is = { .market = spot ? SPOT_MARKET_SPOT : SPOT_MARKET_ON_DEMAND,
		.since_us = azure_time(azure_text(row, "effectiveStartDate")) },
		     *was;
	const json_t *primary = json_object_get(row, "isPrimaryMeterRegion");
	int64_t ended_us;
	size_t k;

	if (!row_counts(row, a->region) ||
	    (a->market != SPOT_MARKET_NONE && a->market != is.market)) {
		return;
	}
	k = azure_pool_next(a->pools, a->pools_n, 0, azure_text(row, "armSkuName"), is.market);
	ended_us = azure_time(azure_text(row, "effectiveEndDate"));
	/* Announced prices are not in force, nor are those that have ended. */
	if (k == a->pools_n || is.since_us > c->now_us || (ended_us > 0 && ended_us < c->now_us) ||
	    !azure_usd(json_object_get(row, "retailPrice"), &is.micros)) {
		return;
	}
	is.primary = primary == NULL || json_is_true(primary);
	is.size = a->pools[k].key.instance_type;
	was = offer_of(c, x, is.size, is.market);
	if (offer_better(was, &is)) {
		*was = is;
	}
}

/* The last point of a pool's history; NULL = none. */
static struct spot_price_point *history_last(const struct pricing *x, size_t n,
    const struct spot_pool_key *key)
{
	struct spot_price_point *last = NULL;

	for (size_t i = 0; i < n; i++) {
		struct spot_price_point *p = &x->points.items[i];

		if (p->key.market == key->market &&
		    strcmp(p->key.instance_type, key->instance_type) == 0 &&
		    strcmp(p->key.zone, key->zone) == 0 &&
		    (last == NULL || p->effective_us > last->effective_us)) {
			last = p;
		}
	}
	return last;
}

/* The list has the price that is charged, but may date it before changes that the history knows.
 * Then the history's date counts. If the history ends with another price, the change came since. */
static void offer_add(struct spot_call *c, struct pricing *x, size_t past_n, const struct offer *o,
    const struct spot_pool_info *pool)
{
	struct spot_price_point *last = history_last(x, past_n, &pool->key);
	bool later = last != NULL && last->effective_us >= o->since_us;

	if (later && last->price_micros == o->micros) {
		last->source = SOURCE;
	} else {
		price_point_add(c, &x->points, pool, o->micros, later ? c->now_us : o->since_us,
		    SOURCE);
	}
}

/* A machine in a reservation adds nothing to the bill. Zero is no price anywhere, so it is the
 * least there is. */
#define PAID_MICROS 1

static void reserved_spread(struct spot_call *c, const struct spot_prices *a, struct pricing *x)
{
	for (size_t i = 0; i < a->pools_n && a->market != SPOT_MARKET_SPOT; i++) {
		if (a->pools[i].key.market == SPOT_MARKET_RESERVED) {
			price_point_add(c, &x->points, &a->pools[i], PAID_MICROS, 0,
			    AZURE_RESERVATIONS);
		}
	}
}

static void offers_spread(struct spot_call *c, const struct spot_prices *a, struct pricing *x)
{
	size_t past_n = x->points.n;

	reserved_spread(c, a, x);

	for (size_t i = 0; i < x->n; i++) {
		const struct offer *o = &x->offers[i];

		if (o->micros == 0) {
			continue;
		}
		for (size_t k = azure_pool_next(a->pools, a->pools_n, 0, o->size, o->market);
		     k < a->pools_n;
		     k = azure_pool_next(a->pools, a->pools_n, k + 1, o->size, o->market)) {
			offer_add(c, x, past_n, o, &a->pools[k]);
		}
	}
}

/* ---- requests -------------------------------------------------------------------------------- */

static enum spot_step retail_send(struct azure *self, struct spot_call *c,
    const struct spot_prices *a)
{
	const struct call_state *st = c->state;
	const char *filter = arena_printf(c->arena,
	    "serviceName eq 'Virtual Machines' and armRegionName eq "
	    "'%s' and priceType eq 'Consumption' "
	    "and contains(armSkuName,'_N')",
	    a->region);

	/* Public: no token goes there. Literals are case-sensitive. */
	call_request(c, "GET",
	    st->next != NULL ? st->next
			     : arena_printf(c->arena,
				   "%s/api/retail/prices?api-version=" API_PRICES
				   "&currencyCode=%%27USD%%27&$filter=%s",
				   self->prices_endpoint, url_encode(c->arena, filter, false)));
	call_header(c, "accept", "application/json");
	c->limit = AZURE_LIMIT_PRICES;
	c->limit_cost = 1;
	c->limit_scope = "";
	c->mutating = false;
	c->out.reply_bytes_max = 16 << 20;
	return SPOT_SEND;
}

/* The end is a null link or an empty page, whichever comes first. */
static enum spot_step retail_reply(struct azure *self, struct spot_call *c,
    const struct spot_prices *a, struct pricing *x)
{
	static const char what[] = "GET retail prices";
	json_t *doc AUTO(json) = NULL;
	const json_t *rows;
	enum spot_step s = azure_reply(c, what, &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	rows = json_object_get(doc, "Items");
	if (!json_is_array(rows)) {
		return azure_bad_reply(c, what, "no Items in it");
	}
	for (size_t i = 0; i < json_array_size(rows); i++) {
		row_read(c, a, json_array_get(rows, i), x);
	}
	return azure_next_page(c->state, c, what, self->prices_endpoint,
	    json_array_size(rows) > 0 ? azure_text(doc, "NextPageLink") : "");
}

static enum spot_step prices_reply(struct azure *self, struct spot_call *c,
    const struct spot_prices *a, struct pricing *x)
{
	struct call_state *st = c->state;
	enum spot_step s;

	if (st->at == HISTORY) {
		s = azure_history_reply(c, a, &x->points);
		/* Without a right to read the table, or where the table is not to be had, the
		 * current prices still are worth having. */
		if (s == SPOT_FAIL &&
		    (c->err.rc == SPOT_DENIED || c->err.rc == SPOT_INVALID ||
			c->err.rc == SPOT_CONFIG || c->err.rc == SPOT_NOT_FOUND)) {
			c->err = (struct spot_err){ 0 };
			st->next = NULL;
			s = SPOT_STEP_NONE;
		}
	} else {
		s = retail_reply(self, c, a, x);
	}
	if (s == SPOT_STEP_NONE && st->next == NULL) {
		st->at++;
	}
	return s;
}

enum spot_step azure_prices(void *p, struct spot_call *c, struct spot_prices *a)
{
	struct azure *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct pricing));
	struct pricing *x = st->own;
	enum spot_step s;

	if (!azure_region_ok(a->region)) {
		return call_fail(c, SPOT_INVALID, NULL, "azure prices: a region is needed");
	}
	if (c->in != NULL) {
		s = prices_reply(self, c, a, x);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	if (st->at == RETAIL) {
		return retail_send(self, c, a);
	}
	if (st->at == HISTORY && a->since_us > 0 && a->market != SPOT_MARKET_ON_DEMAND) {
		s = azure_history_send(self, c, a);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	offers_spread(c, a, x);
	a->points = x->points.items;
	a->n = x->points.n;
	return SPOT_DONE;
}
