/* Cloud Billing Catalog: services and SKUs (cloudbilling.googleapis.com v1). */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

#define COMPUTE_SERVICE "6F81-5844-456A"
#define STORAGE_SERVICE "95FF-2EF5-5EA1"

static json_t *service_json(const char *id, const char *name)
{
	return json_pack("{s:o, s:s, s:s, s:s}", "name", json_sprintf("services/%s", id),
	    "serviceId", id, "displayName", name, "businessEntityName", "businessEntities/GCP");
}

void billing_services(struct gcp_call *c)
{
	json_t *list = json_array();

	json_array_append_new(list, service_json(COMPUTE_SERVICE, "Compute Engine"));
	json_array_append_new(list, service_json(STORAGE_SERVICE, "Cloud Storage"));
	gcp_page_generic(c, "services", list, 5000, true);
}

/* ---- SKUs ------------------------------------------------------------------------------------ */

/* units (text, left out at 0) and nanos (left out at 0) of a price in nano-dollars. */
static json_t *money_json(int64_t nanos)
{
	json_t *o = json_pack("{s:s}", "currencyCode", "USD");

	if (nanos / 1000000000) {
		json_object_set_new(o, "units", json_sprintf("%" PRId64, nanos / 1000000000));
	}
	if (nanos % 1000000000) {
		json_object_set_new(o, "nanos", json_integer(nanos % 1000000000));
	}
	return o;
}

static json_t *rates_json(const char *tiers, int64_t replace)
{
	json_t *list = json_array();

	for (const char *p = tiers; *p; p += strspn(p, " ")) {
		char *end;
		long long from = strtoll(p, &end, 10), nanos = strtoll(end + 1, &end, 10);
		json_t *o = json_object();

		/* A double: whole numbers come without a fraction, 0 is left out. */
		if (from) {
			json_object_set_new(o, "startUsageAmount", json_integer(from));
		}
		json_object_set_new(o, "unitPrice",
		    money_json(replace >= 0 ? replace : (int64_t)nanos));
		json_array_append_new(list, o);
		p = end;
	}
	return list;
}

static json_t *expression_json(const struct gcp_sku *k, int64_t replace)
{
	static const struct {
		const char *unit, *words, *base, *base_words;
		int64_t factor;
	} units[] = { { "h", "hour", "s", "second", 3600 },
		{ "GiBy.h", "gibibyte hour", "By.s", "byte second", INT64_C(3865470566400) },
		{ "GiBy.mo", "gibibyte month", "By.s", "byte second", INT64_C(2821793513472000) },
		{ "GiBy", "gibibyte", "By", "byte", 1073741824 } };
	size_t n = 0;

	while (n + 1 < ARRAY_LEN(units) && !str_same(units[n].unit, k->unit)) {
		n++;
	}
	return json_pack("{s:s, s:i, s:o, s:s, s:s, s:s, s:I}", "usageUnit", k->unit,
	    "displayQuantity", 1, "tieredRates", rates_json(k->tiers, replace),
	    "usageUnitDescription", units[n].words, "baseUnit", units[n].base,
	    "baseUnitDescription", units[n].base_words, "baseUnitConversionFactor",
	    (json_int_t)units[n].factor);
}

static json_t *regions_json(const char *regions)
{
	json_t *list = json_array();

	for (const char *p = regions; *p; p += strspn(p, " ")) {
		size_t n = strcspn(p, " ");

		json_array_append_new(list, json_stringn(p, n));
		p += n;
	}
	return list;
}

static json_t *sku_json(struct gcp_call *c, const struct gcp_sku *k, const char *id,
    const char *regions, int64_t replace)
{
	json_t *where = regions_json(regions);
	bool many = json_array_size(where) > 1;
	char at[TIME_TEXT_MAX];

	/* Prices take effect at Pacific midnight; the catalog is up to 12 hours behind. */
	format_time_s((c->sim->start_us / 86400 / SPOT_US_PER_S - 1) * 86400 * SPOT_US_PER_S +
		8 * SPOT_US_PER_HOUR,
	    at);
	return json_pack("{s:o, s:s, s:s, s:{s:s, s:s, s:s, s:s}, s:o, s:[{s:s, s:o, s:i}], s:s, "
			 "s:{s:s, s:o}}",
	    "name", json_sprintf("services/%s/skus/%s", COMPUTE_SERVICE, id), "skuId", id,
	    "description", k->description, "category", "serviceDisplayName", "Compute Engine",
	    "resourceFamily", k->family, "resourceGroup", k->group, "usageType", k->usage,
	    "serviceRegions", where, "pricingInfo", "effectiveTime", at, "pricingExpression",
	    expression_json(k, replace), "currencyConversionRate", 1, "serviceProviderName",
	    "Google", "geoTaxonomy", "type", many ? "MULTI_REGIONAL" : "REGIONAL", "regions",
	    json_deep_copy(where));
}

/* A region with a price set by hand leaves its group and gets a SKU of its own. */
static void append_sku(struct gcp_call *c, json_t *list, const struct gcp_sku *k)
{
	const char *rest = "";

	if (!*k->part) {
		json_array_append_new(list, sku_json(c, k, k->id, k->regions, -1));
		return;
	}
	for (const char *p = k->regions; *p; p += strspn(p, " ")) {
		size_t n = strcspn(p, " ");
		const char *region = arena_strndup(c->a, p, n);
		const struct gcp_part *part = gcp_part_find(c->g, k->part, region);

		p += n;
		if (part && part->told[k->side]) {
			json_array_append_new(list,
			    sku_json(c, k,
				arena_printf(c->a, "%.9s-%.4s", k->id,
				    arena_printf(c->a, "%04X",
					(unsigned)(gcp_hash_id(region) & 0xffff))),
				region, part->nanos[k->side] + part->told[k->side] * 1000));
		} else {
			rest = arena_printf(c->a, "%s%s%s", rest, *rest ? " " : "", region);
		}
	}
	if (*rest) {
		json_array_append_new(list, sku_json(c, k, k->id, rest, -1));
	}
}

void billing_skus(struct gcp_call *c)
{
	const char *currency = gcp_param(c, "currencyCode");
	json_t *list;

	if (!str_same(c->arg[0], COMPUTE_SERVICE) && !str_same(c->arg[0], STORAGE_SERVICE)) {
		gcp_fail(c, 404, "notFound", "Service services/%s not found.", c->arg[0]);
		return;
	}
	if (currency && !str_same(currency, "USD")) {
		gcp_fail(c, 400, "badRequest", "Unsupported currency code: %s.", currency);
		return;
	}
	list = json_array();
	for (size_t k = 0; str_same(c->arg[0], COMPUTE_SERVICE) && k < c->g->skus_n; k++) {
		append_sku(c, list, &c->g->skus[k]);
	}
	gcp_page_generic(c, "skus", list, 5000, true);
}
