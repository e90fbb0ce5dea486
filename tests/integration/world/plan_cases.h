/* Random markets and job files for engine_plan_test.c. The same generator gives the same case. */
#ifndef PLAN_CASES_H
#define PLAN_CASES_H

#include "engine_world.h"
#include "base/base.h"
#include "base/text/text.h"

/* Inserts the pools of all cases, two kinds of market and four kinds of GPU. */
void pools_make(struct world *w);
/* Appends SQL: prices, cooldowns, busy places, capacity, quotas and the past of each pool. It
 * deletes the rows of earlier cases. */
void market_make(struct rng *rng, struct sbuf *s);
/* Appends SQL: an earlier job with the name of case n, and its step rates on two kinds of GPU. The
 * rates of one kind alone say nothing about its speed against others. */
void earlier_make(struct rng *rng, struct sbuf *s, int n);
/* Appends the job file of case n. */
void file_make(struct rng *rng, struct sbuf *s, int n);
/* Runs SQL that is longer than world_sql() takes. */
void market_write(struct world *w, const char *sql);

#endif
