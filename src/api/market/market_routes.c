/* The routes of the market. */
#include "base/base.h"
#include "api/market/market_priv.h"

#define POOL_FILTERS "gpu provider region zone instance_type market state max_usd"

static const struct route rows[] = {
	ROUTE_READ("/v1/prices", get_prices, ROUTE_PAGE POOL_FILTERS " sort", "PoolDetailList",
	    "Lists current prices with hazard and signals, cheapest first. `sort=gpu_price` orders "
	    "them by the price of a GPU-hour, the default `price` by that of the machine."),
	ROUTE_READ("/v1/prices/gpus", get_prices_gpus, "gpu provider region", "GpuPriceList",
	    "Lists the cheapest plausible price per GPU-hour of each GPU, provider and market, "
	    "with hazard and signals."),
	ROUTE_READ("/v1/prices/refused", get_prices_refused,
	    "limit gpu provider region instance_type market", "RefusedPriceList",
	    "Lists rejected prices with the reason, newest first."),
	ROUTE_READ("/v1/pools", get_pools, ROUTE_PAGE POOL_FILTERS, "PoolDetailList",
	    "Lists pools with their shape, price, signals, hazard and the broker's own record."),
	ROUTE_READ("/v1/pools/{pool}", get_pool, "history", "PoolDetail",
	    "Shows one pool. `history=7d` adds its price points of that time."),
	ROUTE_READ("/v1/providers", get_providers, "", "ProviderList",
	    "Lists the providers with the age of their feeds."),
	ROUTE_READ("/v1/quotas", get_quotas, "provider region", "QuotaList",
	    "Lists the limits of the provider accounts."),
	ROUTE_READ("/v1/supply", get_supply, "provider region gpu state", "SupplyList",
	    "Shows how tight the spot supply is per provider, region and GPU, for those tried "
	    "recently."),
};

const struct route_table market_routes = { rows, ARRAY_LEN(rows) };
