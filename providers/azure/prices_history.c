#include "base/base.h"
#include "azure_priv.h"

/*
 * Spot prices of the last 90 days, from Resource Graph's table SpotResources
 * (learn.microsoft.com/azure/virtual-machines/ spot-vms, "Pricing history"). Sizes are in lower
 * case there; the name of the date is not documented: two working clients use one each.
 */

#include <strings.h>

#define SOURCE "SpotResources"

bool azure_usd(const json_t *number, int64_t *ret_micros)
{
	char text[40];

	if (!json_is_number(number)) {
		return false;
	}
	/* Decimal text: no arithmetic on the double that JSON gives. */
	snprintf(text, sizeof(text), "%.9f", json_number_value(number));
	return parse_usd_micros(text, ret_micros) && *ret_micros > 0;
}

/* The sizes that we have pools of, as a list for a query; "" if there is none. */
static const char *sizes_list(struct spot_call *c, const struct spot_prices *a)
{
	struct sbuf b AUTO(sbuf);

	sbuf_init(&b, 1 << 20);
	for (size_t i = 0; i < a->pools_n; i++) {
		const struct spot_pool_info *p = &a->pools[i];

		if (p->key.market != SPOT_MARKET_SPOT ||
		    azure_pool_next(a->pools, i, 0, p->key.instance_type, SPOT_MARKET_SPOT) < i) {
			continue;
		}
		sbuf_printf(&b, "%s%s", b.n > 0 ? "," : "",
		    azure_graph_quote(c->arena, p->key.instance_type));
	}
	return b.n > 0 ? arena_strndup(c->arena, b.p, b.n) : "";
}

/* Paging needs an order and an id. Step NONE: there is nothing to ask for. */
enum spot_step azure_history_send(struct azure *self, struct spot_call *c,
    const struct spot_prices *a)
{
	const char *sizes = sizes_list(c, a);

	if (*sizes == '\0') {
		return SPOT_STEP_NONE;
	}
	return azure_graph_send(self, c,
	    arena_printf(c->arena,
		"SpotResources | where type =~ "
		"'microsoft.compute/skuspotpricehistory/ostype/location' "
		"| where location =~ %s and sku.name in~ (%s) and properties.osType =~ 'linux' "
		"| project id, sku=tostring(sku.name), location, prices=properties.spotPrices | "
		"order by id asc",
		azure_graph_quote(c->arena, a->region), sizes));
}

static void row_read(struct spot_call *c, const struct spot_prices *a, const json_t *row,
    struct price_points *x)
{
	const json_t *prices = json_object_get(row, "prices");
	const char *sku = azure_text(row, "sku");

	if (strcmp(azure_region(c->arena, azure_text(row, "location")), a->region) != 0) {
		return;
	}
	for (size_t i = 0; i < json_array_size(prices); i++) {
		const json_t *p = json_array_get(prices, i);
		const char *date = azure_text(p, "effectiveDate");
		int64_t at = azure_time(*date != '\0' ? date : azure_text(p, "dateTime")), micros;

		if (at == 0 || at < a->since_us || at > c->now_us ||
		    !azure_usd(json_object_get(p, "priceUSD"), &micros)) {
			continue;
		}
		for (size_t k = azure_pool_next(a->pools, a->pools_n, 0, sku, SPOT_MARKET_SPOT);
		     k < a->pools_n;
		     k = azure_pool_next(a->pools, a->pools_n, k + 1, sku, SPOT_MARKET_SPOT)) {
			price_point_add(c, x, &a->pools[k], micros, at, SOURCE);
		}
	}
}

enum spot_step azure_history_reply(struct spot_call *c, const struct spot_prices *a,
    struct price_points *x)
{
	json_t *doc AUTO(json) = NULL;
	const json_t *rows;
	enum spot_step s = azure_graph_reply(c, &doc, &rows);

	for (size_t i = 0; s == SPOT_STEP_NONE && i < json_array_size(rows); i++) {
		row_read(c, a, json_array_get(rows, i), x);
	}
	return s;
}
