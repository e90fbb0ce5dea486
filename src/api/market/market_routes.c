/* The routes of the market. */
#include "base/base.h"
#include "api/market/market_priv.h"

#define POOL_FILTERS "gpu provider region zone instance_type market state max_usd"

static const struct route rows[] = {
	ROUTE("GET", "/v1/prices", VIEWER, get_prices, 0, ROUTE_PAGE POOL_FILTERS, 200, NULL,
	    "PoolDetailList", "Lists current prices with hazard and signals, cheapest first."),
	ROUTE("GET", "/v1/prices/gpus", VIEWER, get_prices_gpus, 0, "gpu provider region", 200,
	    NULL, "GpuPriceList",
	    "Lists the cheapest plausible price per GPU-hour of each GPU, provider and market, "
	    "with hazard and signals."),
	ROUTE("GET", "/v1/prices/refused", VIEWER, get_prices_refused, 0,
	    "limit gpu provider region instance_type market", 200, NULL, "RefusedPriceList",
	    "Lists rejected prices with the reason, newest first."),
	ROUTE("GET", "/v1/pools", VIEWER, get_pools, 0, ROUTE_PAGE POOL_FILTERS, 200, NULL,
	    "PoolDetailList",
	    "Lists pools with their shape, price, signals, hazard and the broker's own record."),
	ROUTE("GET", "/v1/pools/{pool}", VIEWER, get_pool, 0, "history", 200, NULL, "PoolDetail",
	    "Shows one pool. `history=7d` adds its price points of that time."),
	ROUTE("GET", "/v1/providers", VIEWER, get_providers, 0, "", 200, NULL, "ProviderList",
	    "Lists the providers with the age of their feeds."),
	ROUTE("GET", "/v1/quotas", VIEWER, get_quotas, 0, "provider region", 200, NULL, "QuotaList",
	    "Lists the limits of the provider accounts."),
	ROUTE("GET", "/v1/supply", VIEWER, get_supply, 0, "provider region gpu state", 200, NULL,
	    "SupplyList",
	    "Shows how tight the spot supply is per provider, region and GPU, for those tried "
	    "recently."),
};

const struct route_table market_routes = { rows, ARRAY_LEN(rows) };
