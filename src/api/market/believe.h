/* What is believed of pools' supply, for lists of pools: the hazard model over every pool that we
 * used. */
#ifndef API_BELIEVE_H
#define API_BELIEVE_H

#include "api/server/api_priv.h"

struct offer;
struct believed;

/* Reads the records and goes on with what it made of them, in the request's arena. */
void believe_begin(struct areq *q, void (*next)(struct areq *q, struct believed *b));
/* {per_hour, lo, hi, source, ...} of the pool, and its odds of a launch; o needs its id, place,
 * type, market and signals. */
json_t *believe_hazard(const struct believed *b, struct offer *o);
json_t *believe_odds(const struct believed *b, struct offer *o);

#endif
