/* The handlers of the market, and the estimates they add to a list of pools. */
#ifndef API_MARKET_PRIV_H
#define API_MARKET_PRIV_H

#include "api/market/market.h"

struct offer;
struct hazard_model;

struct market_filter {
	const char *gpu, *provider, *region, *zone, *instance_type, *state; /* NULL: any */
	enum spot_market market; /* NONE: any */
	bool has_max;
	int64_t max_micros;
};
/* Replies and returns false if a parameter is not valid. */
bool market_filter_read(struct areq *q, struct market_filter *f);

/* Writes the members `hazard` and `launch_odds` of a pool, each with a comma before it. o needs id,
 * place, type, market, signals and record. */
void estimates_add(const struct hazard_model *m, const struct offer *o, struct sbuf *b);

/* prices.c */
void get_prices(struct areq *q);
void get_prices_gpus(struct areq *q);
void get_pools(struct areq *q);
/* market.c */
void get_prices_refused(struct areq *q);
void get_pool(struct areq *q);
void get_providers(struct areq *q);
void get_quotas(struct areq *q);
/* supply.c */
void get_supply(struct areq *q);

#endif
