#include "base/base.h"
#include "aws_priv.h"

/*
 * Prices of one region. Spot: DescribeSpotPriceHistory, which with StartTime = now gives the price
 * in force of every pool. On-demand: Price List GetProducts, one price per type and region, given
 * to each of the type's zones.
 */

#define HISTORY_US (INT64_C(90) * 24 * SPOT_US_PER_HOUR)
#define SPOT_SOURCE "DescribeSpotPriceHistory"
#define LIST_SOURCE "GetProducts"
#define PAID_SOURCE "DescribeCapacityReservations"
/* A machine in a reservation adds nothing to the bill: the reservation costs the same without it.
 * Zero is no price anywhere in this program, so it is the least there is. In an interruptible one
 * that another account shares we pay the on-demand price, and its owner what is unused
 * (pcs/latest/userguide/capacity-reservations-iodcr.html). */
#define PAID_MICROS 1
#define LIST_REPLY_MAX (32u << 20)

enum { SPOT_FEED = 0, LIST_MACHINES, LIST_METAL, RESERVATIONS, OWNER, END };

struct pricing {
	struct pool_index spot, on_demand;
	const char *start; /* StartTime, the same on all pages */
	struct price_points points;
	bool lent; /* prices of interruptible reservations are asked for */
	struct aws_reservation *paid;
	size_t paid_n, paid_cap;
	const char *account; /* ours */
};

/* ---- spot ------------------------------------------------------------------------------------ */

static enum spot_step spot_send(struct aws *self, struct spot_call *c, const struct spot_prices *a,
    struct pricing *x)
{
	const struct call_state *st = c->state;
	const char *last = "";
	struct query q;
	size_t n = 0;

	if (x->start == NULL) {
		char text[TIME_TEXT_MAX];
		int64_t from =
		    a->since_us > 0 ? MAX(a->since_us, c->now_us - HISTORY_US) : c->now_us;

		x->start = arena_strdup(c->arena, format_time_s(from, text));
	}
	query_begin(&q, c->arena, SPOT_SOURCE, EC2_VERSION);
	query_add(&q, "StartTime", x->start);
	/* Accounts see one or the other, by age; Karpenter asks for both. */
	query_add(&q, "ProductDescription.1", "Linux/UNIX");
	query_add(&q, "ProductDescription.2", "Linux/UNIX (Amazon VPC)");
	for (size_t i = 0; i < x->spot.n; i++) {
		const char *type = x->spot.items[i]->key.instance_type;

		if (strcmp(type, last) != 0) {
			query_addf(&q, type, "InstanceType.%zu", ++n);
		}
		last = type;
	}
	query_add(&q, "MaxResults", "1000");
	if (st->next != NULL) {
		query_add(&q, "NextToken", st->next);
	}
	return query_send_ec2(&q, self, c, a->region, SPOT_SOURCE, AWS_LIMIT_DESCRIBE, false);
}

static enum spot_step spot_row(struct spot_call *c, struct pricing *x, const struct xml *row)
{
	const char *type = xml_text(row, "instanceType", ""),
		   *price = xml_text(row, "spotPrice", "");
	const char *when = xml_text(row, "timestamp", ""),
		   *product = xml_text(row, "productDescription", "");
	const struct spot_pool_info *pool;
	int64_t micros, at;

	if (strcmp(product, "Linux/UNIX") != 0 && strcmp(product, "Linux/UNIX (Amazon VPC)") != 0) {
		return SPOT_STEP_NONE;
	}
	pool = pool_index_find(&x->spot, type, xml_text(row, "availabilityZoneId", ""),
	    xml_text(row, "availabilityZone", ""));
	if (pool == NULL) {
		return SPOT_STEP_NONE;
	}
	if (!parse_usd_micros(price, &micros) || !parse_time_us(when, &at)) {
		return aws_bad_reply(c, SPOT_SOURCE, "%.40s: spotPrice '%.30s', timestamp '%.40s'",
		    type, price, when);
	}
	price_point_add(c, &x->points, pool, micros, at, SPOT_SOURCE);
	return SPOT_STEP_NONE;
}

static enum spot_step spot_reply(struct aws *self, struct spot_call *c, struct pricing *x,
    bool *ret_more)
{
	const struct xml *doc, *set;
	bool bad;
	enum spot_step s = aws_reply_xml(self, c, SPOT_SOURCE, SPOT_SOURCE "Response", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	set = xml_at(doc, "spotPriceHistorySet");
	if (set == NULL) {
		return aws_bad_reply(c, SPOT_SOURCE, "no spotPriceHistorySet");
	}
	for (const struct xml *r = xml_first(set, "item"); r != NULL; r = xml_next(r, "item")) {
		s = spot_row(c, x, r);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	*ret_more = aws_next_page(c->state, c->arena, xml_text(doc, "nextToken", ""), &bad);
	return bad ? aws_bad_reply(c, SPOT_SOURCE, "the page token repeats") : SPOT_STEP_NONE;
}

static int by_pool_then_time(const void *pa, const void *pb)
{
	const struct spot_price_point *a = pa, *b = pb;
	int d = strcmp(a->key.instance_type, b->key.instance_type);

	if (d == 0) {
		d = strcmp(a->key.zone, b->key.zone);
	}
	if (d == 0) {
		d = (int)a->key.market - (int)b->key.market;
	}
	if (d == 0) {
		d = (a->effective_us > b->effective_us) - (a->effective_us < b->effective_us);
	}
	if (d == 0) {
		d = (a->price_micros > b->price_micros) - (a->price_micros < b->price_micros);
	}
	return d;
}

/* Newest of each pool last; the two product descriptions and overlapping pages give the same change
 * twice. */
static void points_tidy(struct price_points *x)
{
	size_t kept = 0;

	if (x->n > 0) {
		qsort(x->items, x->n, sizeof(*x->items), by_pool_then_time);
	}
	for (size_t i = 0; i < x->n; i++) {
		if (kept > 0 && by_pool_then_time(&x->items[kept - 1], &x->items[i]) == 0) {
			continue;
		}
		x->items[kept++] = x->items[i];
	}
	x->n = kept;
}

/* ---- on-demand ------------------------------------------------------------------------------- */

/* The Price List lives in three regions and tells of all (Karpenter pkg/providers/pricing). NULL:
 * the partition has none. */
const char *aws_list_region(const char *region)
{
	if (str_prefix(region, "cn-")) {
		return "cn-northwest-1";
	}
	if (str_prefix(region, "us-gov-") || str_prefix(region, "eusc-") ||
	    str_prefix(region, "us-iso")) {
		return NULL;
	}
	if (str_prefix(region, "ap-")) {
		return "ap-south-1";
	}
	if (str_prefix(region, "eu-")) {
		return "eu-central-1";
	}
	return "us-east-1";
}

/* Without marketoption a $0 Capacity Block product shadows the real one; without capacitystatus
 * come rows of reservations. */
enum spot_step aws_list_prices_send(struct aws *self, struct spot_call *c, const char *region,
    const char *family, int max, const char *next)
{
	const char *const filters[][2] = { { "regionCode", region }, { "operatingSystem", "Linux" },
		{ "tenancy", "Shared" }, { "preInstalledSw", "NA" }, { "capacitystatus", "Used" },
		{ "marketoption", "OnDemand" }, { "productFamily", family } };
	json_t *doc AUTO(json) = json_pack("{s:s, s:s, s:i, s:[]}", "ServiceCode", "AmazonEC2",
	    "FormatVersion", "aws_v1", "MaxResults", max, "Filters");
	struct aws_request r = { .service = AWS_PRICING,
		.region = aws_list_region(region),
		.action = LIST_SOURCE,
		.target = "AWSPriceListService.GetProducts",
		.content_type = "application/x-amz-json-1.1",
		.limit = AWS_LIMIT_PRICING };
	enum spot_step s;

	for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
		json_array_append_new(json_object_get(doc, "Filters"),
		    json_pack("{s:s, s:s, s:s}", "Type", "TERM_MATCH", "Field", filters[i][0],
			"Value", filters[i][1]));
	}
	if (next != NULL) {
		json_object_set_new(doc, "NextToken", json_string(next));
	}
	r.body = json_text(c->arena, doc);
	r.body_n = strlen(r.body);
	s = aws_send(self, c, &r);
	c->out.reply_bytes_max = LIST_REPLY_MAX;
	return s;
}

static enum spot_step list_send(struct aws *self, struct spot_call *c, const char *region)
{
	const struct call_state *st = c->state;

	return aws_list_prices_send(self, c, region,
	    st->at == LIST_METAL ? "Compute Instance (bare metal)" : "Compute Instance", 100,
	    st->next);
}

static const json_t *first_value(const json_t *object)
{
	void *it = json_object_iter((json_t *)(uintptr_t)object);

	return it != NULL ? json_object_iter_value(it) : NULL;
}

/* Per hour and above zero; 0 is no price (free tier, capacity blocks, reservations). */
static bool product_price(const json_t *product, int64_t *ret_micros, int64_t *ret_since)
{
	const json_t *term =
	    first_value(json_object_get(json_object_get(product, "terms"), "OnDemand"));
	const json_t *dim = first_value(json_object_get(term, "priceDimensions"));
	const char *unit = json_string_value(json_object_get(dim, "unit"));
	const char *usd =
	    json_string_value(json_object_get(json_object_get(dim, "pricePerUnit"), "USD"));

	*ret_since = aws_time(json_string_value(json_object_get(term, "effectiveDate")));
	return unit != NULL && strcmp(unit, "Hrs") == 0 && usd != NULL &&
	    parse_usd_micros(usd, ret_micros) && *ret_micros > 0;
}

static void product_read(struct spot_call *c, struct pricing *x, const char *region,
    const json_t *product)
{
	const json_t *attrs = json_object_get(json_object_get(product, "product"), "attributes");
	const char *type = json_string_value(json_object_get(attrs, "instanceType"));
	const char *where = json_string_value(json_object_get(attrs, "regionCode"));
	const struct spot_pool_info **at, **end = x->on_demand.items + x->on_demand.n;
	int64_t micros, since;

	/* The free-tier product has no type. */
	if (type == NULL || (where != NULL && strcmp(where, region) != 0)) {
		return;
	}
	if (!product_price(product, &micros, &since)) {
		return;
	}
	at = pool_index_type(&x->on_demand, type);
	for (; at != NULL && at < end && strcmp((*at)->key.instance_type, type) == 0; at++) {
		price_point_add(c, &x->points, *at, micros, since, LIST_SOURCE);
	}
}

static enum spot_step list_reply(struct aws *self, struct spot_call *c, struct pricing *x,
    const char *region, bool *ret_more)
{
	json_t *doc AUTO(json) = NULL;
	const json_t *list, *item;
	const char *token;
	size_t i;
	bool bad;
	enum spot_step s = aws_reply_json(self, c, LIST_SOURCE, &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	list = json_object_get(doc, "PriceList");
	if (!json_is_array(list)) {
		return aws_bad_reply(c, LIST_SOURCE, "PriceList is not an array");
	}
	json_array_foreach (list, i, item) {
		json_t *product AUTO(json) = NULL;
		struct spot_err err = { 0 };

		/* Each product is a JSON text inside a JSON string. */
		if (!json_is_string(item)) {
			return aws_bad_reply(c, LIST_SOURCE, "PriceList[%zu] is not a string", i);
		}
		if (json_parse((struct str){ json_string_value(item), json_string_length(item) },
			"product", &product, &err) != SPOT_OK) {
			return aws_bad_reply(c, LIST_SOURCE, "PriceList[%zu]: %.150s", i, err.text);
		}
		product_read(c, x, region, product);
	}
	token = json_string_value(json_object_get(doc, "NextToken"));
	*ret_more = aws_next_page(c->state, c->arena, token, &bad);
	return bad ? aws_bad_reply(c, LIST_SOURCE, "the page token repeats") : SPOT_STEP_NONE;
}

/* ---- paid for already ------------------------------------------------------------------------ */

static enum spot_step paid_reply(struct aws *self, struct spot_call *c, struct pricing *x,
    bool *ret_more)
{
	const struct xml *set;
	enum spot_step s = aws_reservations_reply(self, c, &set, ret_more);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	for (const struct xml *i = xml_first(set, "item"); i != NULL; i = xml_next(i, "item")) {
		x->paid = arena_grow(c->arena, x->paid, x->paid_n, &x->paid_cap, sizeof(*x->paid));
		if (aws_reservation_read(i, &x->paid[x->paid_n])) {
			x->paid_n++;
		}
	}
	return SPOT_STEP_NONE;
}

static enum spot_step owner_reply(struct aws *self, struct spot_call *c, struct pricing *x)
{
	enum spot_step s = aws_whoami(self, c, &x->account);

	return s == SPOT_DONE ? SPOT_STEP_NONE : s;
}

/* Does another account own a reservation of the pool? Which one a launch takes is not known before,
 * so the dearer price counts. */
static bool pool_shared(const struct pricing *x, const struct spot_pool_info *pool)
{
	for (size_t i = 0; i < x->paid_n; i++) {
		const struct aws_reservation *r = &x->paid[i];

		if (*r->owner != '\0' && strcmp(r->owner, x->account) != 0 &&
		    aws_reservation_at(r, &pool->key, pool->zone_name)) {
			return true;
		}
	}
	return false;
}

/* The newest on-demand price of a type in this reply; 0 = none. */
static int64_t listed_micros(const struct pricing *x, const char *type)
{
	const struct spot_price_point *newest = NULL;

	for (size_t i = 0; i < x->points.n; i++) {
		const struct spot_price_point *p = &x->points.items[i];

		if (p->key.market == SPOT_MARKET_ON_DEMAND &&
		    strcmp(p->key.instance_type, type) == 0 &&
		    (newest == NULL || p->effective_us > newest->effective_us)) {
			newest = p;
		}
	}
	return newest != NULL ? newest->price_micros : 0;
}

static void paid_points(struct spot_call *c, struct pricing *x, const struct spot_prices *a)
{
	/* They come with the on-demand prices: neither moves. */
	for (size_t i = 0; a->market != SPOT_MARKET_SPOT && i < a->pools_n; i++) {
		const struct spot_pool_info *pool = &a->pools[i];
		int64_t micros = PAID_MICROS;

		if (!spot_market_reserves(pool->key.market)) {
			continue;
		}
		if (pool->key.market == SPOT_MARKET_INTERRUPTIBLE && pool_shared(x, pool)) {
			micros = listed_micros(x, pool->key.instance_type);
		}
		if (micros > 0) {
			price_point_add(c, &x->points, pool, micros, 0, PAID_SOURCE);
		}
	}
}

/* ---- the verb -------------------------------------------------------------------------------- */

static bool has_metal(const struct pool_index *x)
{
	for (size_t i = 0; i < x->n; i++) {
		if (strstr(x->items[i]->key.instance_type, ".metal") != NULL) {
			return true;
		}
	}
	return false;
}

/* The first request from `at` on that is wanted. */
static int wanted_from(int at, const struct spot_prices *a, const struct pricing *x)
{
	bool list = (a->market == SPOT_MARKET_NONE || a->market == SPOT_MARKET_ON_DEMAND) &&
	    x->on_demand.n > 0 && aws_list_region(a->region) != NULL;

	if (at == SPOT_FEED &&
	    ((a->market != SPOT_MARKET_NONE && a->market != SPOT_MARKET_SPOT) || x->spot.n == 0)) {
		at = LIST_MACHINES;
	}
	if (at == LIST_MACHINES && !list) {
		at = RESERVATIONS;
	}
	if (at == LIST_METAL && (!list || !has_metal(&x->on_demand))) {
		at = RESERVATIONS;
	}
	if ((at == RESERVATIONS && !x->lent) || (at == OWNER && x->paid_n == 0)) {
		at = END;
	}
	return at;
}

static bool lent_asked(const struct spot_prices *a)
{
	for (size_t i = 0; a->market != SPOT_MARKET_SPOT && i < a->pools_n; i++) {
		if (a->pools[i].key.market == SPOT_MARKET_INTERRUPTIBLE) {
			return true;
		}
	}
	return false;
}

static enum spot_step prices_reply(struct aws *self, struct spot_call *c, struct pricing *x,
    const char *region, bool *ret_more)
{
	const struct call_state *st = c->state;

	switch (st->at) {
	case SPOT_FEED:
		return spot_reply(self, c, x, ret_more);
	case RESERVATIONS:
		return paid_reply(self, c, x, ret_more);
	case OWNER:
		return owner_reply(self, c, x);
	default:
		return list_reply(self, c, x, region, ret_more);
	}
}

static enum spot_step prices_send(struct aws *self, struct spot_call *c,
    const struct spot_prices *a, struct pricing *x)
{
	const struct call_state *st = c->state;

	switch (st->at) {
	case SPOT_FEED:
		return spot_send(self, c, a, x);
	case RESERVATIONS:
		return aws_reservations_send(self, c, a->region, NULL);
	case OWNER:
		c->in = NULL; /* the reply before it is read */
		return aws_whoami(self, c, &x->account);
	default:
		return list_send(self, c, a->region);
	}
}

enum spot_step aws_prices(void *p, struct spot_call *c, struct spot_prices *a)
{
	struct aws *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct pricing));
	struct pricing *x = st->own;
	bool more = false;

	if (x->spot.items == NULL) {
		if (str_empty(a->region)) {
			return call_fail(c, SPOT_INVALID, NULL, "aws prices: a region is needed");
		}
		/* Spot history there has no currency in it and tells yuan. */
		if (str_prefix(a->region, "cn-")) {
			return call_fail(c, SPOT_CONFIG, NULL,
			    "aws prices: %s: prices of China's regions are in CNY, and prices here "
			    "are dollars: leave it out of 'regions'",
			    a->region);
		}
		pool_index_init(&x->spot, c->arena, a->pools, a->pools_n, SPOT_MARKET_SPOT);
		pool_index_init(&x->on_demand, c->arena, a->pools, a->pools_n,
		    SPOT_MARKET_ON_DEMAND);
		x->lent = lent_asked(a);
	}
	if (c->in != NULL) {
		enum spot_step s = prices_reply(self, c, x, a->region, &more);

		if (s != SPOT_STEP_NONE) {
			return s;
		}
		if (!more) {
			st->at++;
		}
	}
	st->at = wanted_from(st->at, a, x);
	if (st->at != END) {
		return prices_send(self, c, a, x);
	}
	paid_points(c, x, a);
	points_tidy(&x->points);
	a->points = x->points.items;
	a->n = x->points.n;
	return SPOT_DONE;
}
