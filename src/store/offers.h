/* Offers as rows give them: what may be asked, and what is read. Filled with nothing that is judged
 * (core/hazard/hazard.h does). */
#ifndef STORE_OFFERS_H
#define STORE_OFFERS_H

#include "core/hazard/hazard.h"
#include "core/rank/rank.h"
#include "store/q.h"

/* Every offer; set gpus (name prefixes in upper case) to have fewer read. */
void offers_ask(const struct rank_policy *p, int64_t now_us, struct q_offers *ret);
/* Of q_offers(): in the order of pool ids; a list of none is not NULL. */
size_t offers_rows(const struct pg_req *r, struct arena *a, struct offer **ret);

#endif
