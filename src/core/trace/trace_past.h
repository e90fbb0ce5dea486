/*
 * A backtest over our own past that does not look ahead. It selects the pools of each round by the
 * prices of that time, and assumes the supply of pools that were never tried. Pure; memory is the
 * caller's arena.
 */
#ifndef CORE_TRACE_PAST_H
#define CORE_TRACE_PAST_H

#include "base/base.h"

struct arena;
struct rng;

struct past_price {
	int64_t at_us, micros;
}; /* from then on, per hour */
struct past_pool {
	double speed; /* against the reference machine: a price is divided by it */
	const struct past_price *prices;
	size_t n; /* ascending */
};
/* The price in force at that time; before the first one known that one; 0 = none is known. */
int64_t past_price_at(const struct past_pool *p, int64_t at_us);

/* in round r, that is from from_us + r * every_us on */
struct past_pick {
	size_t round, pool;
};
/* Returns the cheapest `most` pools of each round, ordered by round, then price, then index. Prices
 * are those at the round's begin. A pool without a price that old uses its first one. */
size_t past_picks(struct arena *a, const struct past_pool *pools, size_t n, int64_t from_us,
    int64_t to_us, int64_t every_us, size_t most, struct past_pick **ret);

/* Supply as text: '1' could be had, '0' could not, '?' not known. Unknown samples as a chain of two
 * states that is up for the share `odds` of the time and left at `hazard` an hour, begun by its
 * odds or at the sample before. */
void past_fill(char *up, size_t n, int64_t tick_us, double odds, double hazard, struct rng *r);
/* All of them alike. */
void past_fill_with(char *up, size_t n, char with);

#endif
