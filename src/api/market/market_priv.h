/* The handlers of the market, and the estimates they add to a list of pools. */
#ifndef API_MARKET_PRIV_H
#define API_MARKET_PRIV_H

#include "api/market/market.h"

struct offer;
struct estimates;

/* Builds the hazard model from the records of every pool that was used, then calls next. The
 * estimates live in the request's arena. */
void estimates_begin(struct areq *q, void (*next)(struct areq *q, struct estimates *e));
/* Writes the members `hazard` and `launch_odds` of a pool, each with a comma before it. o needs id,
 * place, type, market and signals. */
void estimates_put(const struct estimates *e, struct offer *o, struct sbuf *b);

/* market.c */
void get_prices(struct areq *q);
void get_prices_gpus(struct areq *q);
void get_prices_refused(struct areq *q);
void get_pools(struct areq *q);
void get_pool(struct areq *q);
void get_providers(struct areq *q);
void get_quotas(struct areq *q);
/* supply.c */
void get_supply(struct areq *q);

#endif
