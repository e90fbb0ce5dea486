/* Small markets for tests: written by hand as text, or drawn from a seed. */
#ifndef TRACE_CASE_H
#define TRACE_CASE_H

#include "unit.h"
#include "base/base.h"
#include "core/trace/trace.h"

#define CASE_POOLS_MAX 4
struct trace_case {
	struct trace supply[CASE_POOLS_MAX], prices[CASE_POOLS_MAX];
	const struct trace *price_list[CASE_POOLS_MAX];
	size_t pools;
	struct trace_market market;
	struct trace_job job;
};

static inline void case_build(struct arena *a, struct trace_case *c)
{
	struct spot_err err = { 0 };

	for (size_t i = 0; i < c->pools; i++) {
		c->price_list[i] = &c->prices[i];
	}
	if (trace_market_build(a, c->supply, c->price_list, c->pools, 1, 0, &c->market, &err) !=
	    SPOT_OK) {
		fail_msg("%s", err.text);
	}
}

/* "1101" per pool; a constant price; ticks of 600 s. */
static inline void case_text(struct arena *a, struct trace_case *c, const char *const *ups,
    size_t pools, int64_t price)
{
	static const char *const regions[] = { "r1", "r2", "r3", "r4" };

	*c = (struct trace_case){ .pools = pools };
	for (size_t k = 0; k < pools; k++) {
		size_t n = strlen(ups[k]);
		int32_t *counts = arena_array(a, n, sizeof(*counts));
		int64_t *prices = arena_array(a, n, sizeof(*prices));

		for (size_t i = 0; i < n; i++) {
			counts[i] = ups[k][i] - '0';
			prices[i] = price;
		}
		c->supply[k] = (struct trace){ regions[k], regions[k], regions[k],
			600 * SPOT_US_PER_S, n, counts, NULL };
		c->prices[k] = (struct trace){ regions[k], regions[k], regions[k],
			600 * SPOT_US_PER_S, n, NULL, prices };
	}
	case_build(a, c);
}

static inline int64_t case_between(struct rng *r, int64_t lo, int64_t hi)
{
	return lo + (int64_t)rng_below(r, (uint64_t)(hi - lo + 1));
}

/* Supply that comes and goes in stretches, prices that step. */
static inline void case_fill(struct rng *r, int32_t *counts, int64_t *prices, size_t n)
{
	int64_t up = case_between(r, 0, 1), price = case_between(r, 200000, 1500000),
		turn = case_between(r, 1, 9);
	bool steps = rng_below(r, 2) == 0;

	for (size_t i = 0; i < n; i++) {
		up = case_between(r, 0, 9) < turn ? !up : up;
		price = steps && rng_below(r, 5) == 0 ? case_between(r, 200000, 1500000) : price;
		counts[i] = (int32_t)up;
		prices[i] = price;
	}
}

/* spare: ticks that the trace has beyond the run. The job is feasible, with anything from no slack
 * to much. */
static inline void case_draw(struct arena *a, struct rng *r, size_t ticks, size_t pools,
    size_t spare, struct trace_case *c)
{
	static const int64_t gaps[] = { 60, 195, 600 };
	static const char *const names[] = { "r1", "r2" };
	int64_t gap = gaps[rng_below(r, 3)] * SPOT_US_PER_S, slack;

	*c = (struct trace_case){ .pools = pools };
	for (size_t k = 0; k < pools; k++) {
		int32_t *counts = arena_array(a, ticks + spare, sizeof(*counts));
		int64_t *prices = arena_array(a, ticks + spare, sizeof(*prices));
		const char *name = names[rng_below(r, 2)];

		case_fill(r, counts, prices, ticks + spare);
		c->supply[k] = (struct trace){ name, name, name, gap, ticks + spare, counts, NULL };
		c->prices[k] = (struct trace){ name, name, name, gap, ticks + spare, NULL, prices };
	}
	case_build(a, c);
	c->job.deadline_us =
	    gap * (int64_t)ticks - (rng_below(r, 2) == 0 ? 0 : case_between(r, 1, gap - 1));
	c->job.changeover_us = rng_below(r, 6) == 0
	    ? 0
	    : case_between(r, 1, MIN(gap * 5 / 2, c->job.deadline_us * 2 / 3));
	slack = case_between(r, 0, (c->job.deadline_us - c->job.changeover_us) * 3 / 4);
	c->job.work_us = MAX(c->job.deadline_us - c->job.changeover_us - slack, 1);
	c->job.on_demand_micros = case_between(r, 900000, 4000000);
	c->job.transfer_micros = rng_below(r, 3) == 0 ? case_between(r, 1, 200000) : 0;
}

#endif
