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
}; /* per hour, in force from this time on */
struct past_pool {
	double speed; /* relative to the reference machine; divides the price */
	const struct past_price *prices;
	size_t n; /* ascending */
};
/* Returns the price in force at that time; 0 = none is known. Times before the first known price
 * have that price. */
int64_t past_price_at(const struct past_pool *p, int64_t at_us);

/* in round r, which begins at from_us + r * every_us */
struct past_pick {
	size_t round, pool;
};
/* Returns the cheapest `most` pools of each round, ordered by round, then price, then index. Prices
 * are those at the round's begin. A pool without a price that old uses its first one. */
size_t past_picks(struct arena *a, const struct past_pool *pools, size_t n, int64_t from_us,
    int64_t to_us, int64_t every_us, size_t most, struct past_pick **ret);

/* Fills the unknown samples of a supply text: '1' available, '0' not, '?' unknown. They follow a
 * chain of two states that is up for the share `odds` of the time and leaves at `hazard` per hour.
 * It starts by its odds or at the sample before. */
void past_fill(char *up, size_t n, int64_t tick_us, double odds, double hazard, struct rng *r);
/* Fills all unknown samples with the same character. */
void past_fill_with(char *up, size_t n, char with);

#endif
