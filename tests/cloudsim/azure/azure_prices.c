/*
 * Retail Prices API
 * (https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices). The
 * market's prices lie among rows that a reader must leave out. The link to the next page has an
 * explicit port and an unencoded query.
 */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

/* ---- the filter ------------------------------------------------------------------------------ */

/* OData, of which the API takes: field eq 'x', contains(field,'x'), startswith(field,'x'), joined
 * by and / or (and first), with parentheses. Fields' names are exact, values are case-sensitive. */
struct filter {
	struct arena *a;
	const char *p;
	const json_t *row;
	const char *wrong;
};

static bool either_read(struct filter *f);

static void blanks_skip(struct filter *f)
{
	while (*f->p == ' ') {
		f->p++;
	}
}

static bool word_read(struct filter *f, const char *w)
{
	size_t n = strlen(w);

	blanks_skip(f);
	if (strncmp(f->p, w, n) != 0) {
		return false;
	}
	f->p += n;
	return true;
}

static const char *literal_read(struct filter *f)
{
	char *out, *w;

	blanks_skip(f);
	if (*f->p++ != '\'') {
		f->wrong = "a text in quotes is expected";
		return "";
	}
	out = w = arena_alloc(f->a, strlen(f->p) + 1);
	while (*f->p && (*f->p != '\'' || f->p[1] == '\'')) {
		if (*f->p == '\'') {
			f->p++;
		}
		*w++ = *f->p++;
	}
	if (*f->p++ != '\'') {
		f->wrong = "a quote is missing";
		f->p--;
	}
	return out;
}

static const char *field_read(struct filter *f)
{
	static const char *const known[] = { "armRegionName", "location", "meterId", "meterName",
		"productName", "productId", "skuId", "skuName", "serviceName", "serviceId",
		"serviceFamily", "priceType", "armSkuName", "isPrimaryMeterRegion" };

	blanks_skip(f);
	for (size_t k = 0; k < ARRAY_LEN(known); k++) {
		size_t n = strlen(known[k]);

		if (strncmp(f->p, known[k], n) == 0 && strchr(" ,", f->p[n])) {
			const char *key = str_same(known[k], "priceType") ? "type" : known[k];
			const json_t *v = json_object_get(f->row, key);

			f->p += n;
			return json_is_boolean(v)  ? (json_is_true(v) ? "true" : "false")
			    : json_string_value(v) ? json_string_value(v)
						   : "";
		}
	}
	f->wrong = "the field cannot be filtered by";
	return "";
}

static bool single_read(struct filter *f)
{
	bool contains = false, starts = false, ok;
	const char *v, *want;

	if (word_read(f, "(")) {
		ok = either_read(f);
		if (!word_read(f, ")")) {
			f->wrong = "a parenthesis is missing";
		}
		return ok;
	}
	contains = word_read(f, "contains(");
	starts = !contains && word_read(f, "startswith(");
	v = field_read(f);
	if (contains || starts) {
		if (!word_read(f, ",")) {
			f->wrong = "a comma is missing";
		}
		want = literal_read(f);
		if (!word_read(f, ")")) {
			f->wrong = "a parenthesis is missing";
		}
		return contains ? strstr(v, want) != NULL : str_prefix(v, want);
	}
	ok = word_read(f, "eq ");
	if (!ok && !word_read(f, "ne ")) {
		f->wrong = "an operator is missing";
	}
	blanks_skip(f);
	if (strncmp(f->p, "true", 4) == 0 || strncmp(f->p, "false", 5) == 0) {
		want = *f->p == 't' ? "true" : "false";
		f->p += strlen(want);
	} else {
		want = literal_read(f);
	}
	return str_same(v, want) == ok;
}

static bool both_read(struct filter *f)
{
	bool ok = single_read(f);

	while (!f->wrong && word_read(f, "and ")) {
		ok = single_read(f) && ok;
	}
	return ok;
}

static bool either_read(struct filter *f)
{
	bool ok = both_read(f);

	while (!f->wrong && word_read(f, "or ")) {
		ok = both_read(f) || ok;
	}
	return ok;
}

static bool row_passes(struct arena *a, const char *filter, const json_t *row, const char **wrong)
{
	struct filter f = { .a = a, .p = filter, .row = row };
	bool ok;

	if (!filter || !*filter) {
		return true;
	}
	ok = either_read(&f);
	blanks_skip(&f);
	if (!f.wrong && *f.p) {
		f.wrong = "text is left over";
	}
	*wrong = f.wrong;
	return ok;
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct maker {
	struct az_call *c;
	json_t *list;
	const char *filter, *wrong, *since;
};

static const char *meter_id(struct arena *a, const char *seed)
{
	uint8_t h[SHA256_BYTES];
	char x[33];

	sha256(seed, strlen(seed), h);
	hex_encode(h, 16, x);
	return arena_printf(a, "%.8s-%.4s-%.4s-%.4s-%.12s", x, x + 8, x + 12, x + 16, x + 20);
}

static void row_add(struct maker *m, const struct pool *p, int64_t micros, const char *product,
    const char *suffix, const char *kind, const char *since, bool primary)
{
	struct arena *a = m->c->rq->arena;
	const char *size = p->type->name + strlen("Standard_");
	const char *meter = arena_printf(a, "%s%s", size, suffix);
	const char *id = meter_id(a,
	    arena_printf(a, "%s|%s|%s|%s|%d", p->region->name, product, meter, kind, primary));
	json_t *price = json_usd(micros), *o;
	char *w = arena_strdup(a, meter);

	for (char *q = w; *q; q++) {
		*q = (char)(*q == '_' ? ' ' : *q);
	}
	o = json_pack("{s:s, s:f, s:O, s:o, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:s, s:o, s:s, s:s, "
		      "s:s, s:s, s:s, s:b, s:s}",
	    "currencyCode", "USD", "tierMinimumUnits", 0.0, "retailPrice", price, "unitPrice",
	    price, "armRegionName", p->region->name, "location", p->region->description,
	    "effectiveStartDate", since, "meterId", id, "meterName", w, "productId", "DZH318Z08M4K",
	    "skuId", json_sprintf("DZH318Z08M4K/%.4s", id), "productName", product, "skuName",
	    json_sprintf("%s%s", str_same(kind, "Reservation") ? size : p->type->name, suffix),
	    "serviceName", strstr(suffix, "CloudServices") ? "Cloud Services" : "Virtual Machines",
	    "serviceId", "DZH313Z7MMC8", "serviceFamily", "Compute", "unitOfMeasure", "1 Hour",
	    "type", kind, "isPrimaryMeterRegion", primary, "armSkuName", p->type->name);
	if (str_same(kind, "Reservation")) {
		json_object_set_new(o, "reservationTerm", json_string("1 Year"));
	}
	if (row_passes(a, m->filter, o, &m->wrong)) {
		json_array_append(m->list, o);
	}
	json_decref(o);
}

static const char *day_text(struct arena *a, int64_t us)
{
	char t[TIME_TEXT_MAX];

	return arena_printf(a, "%.10sT00:00:00Z", format_time_s(us, t));
}

/* Writes the true rows among others that a reader must leave out. Those are Windows under both
 * names, Batch's low priority, cloud services, dedicated hosts, dev/test and reservations. Others
 * lack a price, lie in the future, or have another region's meter. */
static void size_rows(struct maker *m, const struct pool *p)
{
	struct arena *a = m->c->rq->arena;
	int64_t now = sim_feed_us(m->c->rq->sim, CLOUD_AZURE),
		full = price_at(&p->price[SIDE_ON_DEMAND], now),
		spot = price_at(&p->price[SIDE_SPOT], now), month = 30LL * 24 * SPOT_US_PER_HOUR;
	const struct price_log *l = &p->price[SIDE_SPOT];
	const char *product = arena_printf(a, "Virtual Machines %s Series", p->type->description);
	const char *old = day_text(a, now - 6 * month), *next = day_text(a, now + month);
	const char *win = strstr(p->type->name, "H100") ? arena_printf(a, "%s Win", product)
							: arena_printf(a, "%s Windows", product);
	int64_t since = l->n > 0 ? l->at[l->n - 1].us : now;

	row_add(m, p, full * 2, win, "", "Consumption", old, true);
	if (spot > 0) {
		row_add(m, p, spot * 2, win, " Spot", "Consumption", old, true);
		row_add(m, p, spot + spot / 3, product, " Spot", "Consumption", next, true);
		row_add(m, p, spot, product, " Spot", "Consumption", day_text(a, MIN(since, now)),
		    true);
		row_add(m, p, full / 5, product, " Low Priority", "Consumption", old, true);
		row_add(m, p, 0, product, " Spot", "Consumption", old, true);
	}
	if (full > 0) {
		row_add(m, p, full + full / 10, product, "", "Consumption",
		    day_text(a, now - 12 * month), true);
		row_add(m, p, full, product, "", "Consumption", old, true);
		row_add(m, p, full / 2, product, "", "Consumption", day_text(a, now - month),
		    false);
		row_add(m, p, full - full / 10, product, "", "DevTestConsumption", old, true);
		row_add(m, p, full * 8760 / 2, product, "", "Reservation", old, true);
		row_add(m, p, full * 8, arena_printf(a, "%s Dedicated Host", p->type->description),
		    "", "Consumption", old, true);
		row_add(m, p, full, arena_printf(a, "%s CloudServices", product), "", "Consumption",
		    old, true);
	}
}

/* Data transfer out, first tier free (all prices as the price page shows them for zone 1). */
static void bandwidth_add(struct maker *m)
{
	static const struct {
		double from;
		int64_t micros;
	} tiers[] = { { 0, 0 }, { 100, 87000 }, { 10340, 83000 }, { 51300, 70000 },
		{ 153700, 50000 } };
	const struct market *mk = m->c->rq->sim->market;

	for (size_t r = 0; r < mk->regions_n; r++) {
		for (size_t k = 0; mk->regions[r].cloud == CLOUD_AZURE && k < ARRAY_LEN(tiers);
		     k++) {
			json_t *o = json_pack("{s:s, s:f, s:o, s:o, s:s, s:s, s:s, s:s, s:s, s:s, "
					      "s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:s}",
			    "currencyCode", "USD", "tierMinimumUnits", tiers[k].from, "retailPrice",
			    json_usd(tiers[k].micros), "unitPrice", json_usd(tiers[k].micros),
			    "armRegionName", mk->regions[r].name, "location",
			    mk->regions[r].description, "effectiveStartDate",
			    "2025-01-01T00:00:00Z", "meterId",
			    meter_id(m->c->rq->arena, mk->regions[r].name), "meterName",
			    "Standard Data Transfer Out", "productId", "DZH318Z0BP8B", "skuId",
			    "DZH318Z0BP8B/0001", "productName", "Rtn Preference: MGN", "skuName",
			    "Standard", "serviceName", "Bandwidth", "serviceId", "DZH317HX59SF",
			    "serviceFamily", "Networking", "unitOfMeasure", "1 GB", "type",
			    "Consumption", "isPrimaryMeterRegion", 1, "armSkuName", "");

			if (row_passes(m->c->rq->arena, m->filter, o, &m->wrong)) {
				json_array_append(m->list, o);
			}
			json_decref(o);
		}
	}
}

/* ---- pages ----------------------------------------------------------------------------------- */

static void rows_send(struct az_call *c, const json_t *rows)
{
	const char *skip = az_query(c, "$skip"), *filter = az_query(c, "$filter"),
		   *top = az_query(c, "$top");
	int64_t at = 0, size = c->az->price_page;
	size_t n = json_array_size(rows);
	json_t *page = json_array(), *link = json_null();
	char base[300];

	if (skip && !parse_i64(skip, 0, 100000000, &at)) {
		at = 0;
	}
	if (top && !parse_i64(top, 1, 1000, &size)) {
		size = c->az->price_page;
	}
	for (int64_t k = at; k < (int64_t)n && k < at + size; k++) {
		json_array_append(page, json_array_get(rows, (size_t)k));
	}
	/* The vendor's link names port 443 although https has it by itself; here the port is our
	 * own, and the query is left as text. */
	snprintf(base, sizeof(base), "%s", c->base);
	if (at + size < (int64_t)n) {
		link = json_sprintf("%s%s?api-version=2023-01-01-preview&currencyCode='USD'&$"
				    "filter=%s&$skip=%lld",
		    base, "/api/retail/prices", filter ? filter : "", (long long)(at + size));
	}
	az_send(c, 200,
	    json_pack("{s:s, s:s, s:s, s:o, s:o, s:I}", "BillingCurrency", "USD",
		"CustomerEntityId", "Default", "CustomerEntityType", "Retail", "Items", page,
		"NextPageLink", link, "Count", (json_int_t)json_array_size(page)));
}

/* The usual filter names one region: rows of the others need not be made. */
static bool other_region(const char *filter, const char *region)
{
	const char *at = filter ? strstr(filter, "armRegionName eq '") : NULL;

	if (!at || strstr(filter, " or ")) {
		return false;
	}
	at += strlen("armRegionName eq '");
	return strncmp(at, region, strlen(region)) != 0 || at[strlen(region)] != '\'';
}

void az_prices(struct az_call *c)
{
	struct maker m = { .c = c, .filter = az_query(c, "$filter") };
	const struct market *mk = c->rq->sim->market;
	const char *currency = az_query(c, "currencyCode");

	if (!str_same(c->rq->http->method, "GET")) {
		az_fail(c, 405, "MethodNotAllowed", "The method is not allowed here.");
		return;
	}
	if (currency && !str_same(currency, "'USD'") && !str_same(currency, "USD")) {
		az_fail(c, 400, "BadRequest", "The currency %s is not valid.", currency);
		return;
	}
	if (!throttle_take(c->rq->sim, "azure|prices", 60, 10, 1)) {
		reply_set(c->rep, 429, "text/plain", "Too many requests.", 18);
		c->rep->code = "429";
		return;
	}
	m.list = json_array();
	for (size_t k = 0; k < mk->pools_n && !m.wrong; k++) {
		if (mk->pools[k].cloud == CLOUD_AZURE && !mk->pools[k].zone &&
		    !other_region(m.filter, mk->pools[k].region->name)) {
			size_rows(&m, &mk->pools[k]);
		}
	}
	if (!m.wrong) {
		bandwidth_add(&m);
	}
	if (m.wrong) {
		az_fail(c, 400, "BadRequest", "Invalid OData parameters supplied: %s.", m.wrong);
	} else {
		rows_send(c, m.list);
	}
	json_decref(m.list);
}
