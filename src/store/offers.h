/* Reads offers from rows. It fills no estimate; core/hazard/hazard.h does that. */
#ifndef STORE_OFFERS_H
#define STORE_OFFERS_H

#include "core/hazard/hazard.h"
#include "core/rank/rank.h"
#include "store/q.h"

/* Fills a request for every offer. Set gpus (name prefixes in upper case) to read fewer. */
void offers_ask(const struct rank_policy *p, int64_t now_us, struct q_offers *ret);
/* Reads the rows of q_offers(), in the order of pool ids. An empty list is not NULL. */
size_t offers_rows(const struct pg_req *r, struct arena *a, struct offer **ret);

#endif
