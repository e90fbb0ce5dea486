/*
 * Supply tightness of a pool group (provider, region, GPU): a measured state with hysteresis. Pure.
 *
 * index = refusals + reclaims + scores + price. Each part is 0..1 times its weight:
 *
 * - refusals: share of our launches refused in the window, shrunk to 0 by two calm launches
 * - reclaims: 1 - 2^-(reclaims / expected), with expected = node-hours x the pools' hazard + 1/2
 * - scores: share of the group's pools that are cooling, or without capacity by the provider's word
 * - price: (price over its mean of the last week - 1) / 0.5, within 0..1
 *
 * EASY becomes TIGHT at once when the index reaches tight_at; TIGHT becomes EASY only when the
 * index stayed under easy_at for hold_us. A group that flickers is thus TIGHT, and its state
 * changes at most twice per hold_us.
 */
#ifndef CORE_TIGHTNESS_H
#define CORE_TIGHTNESS_H

#include "base/base.h"

struct arena;

#define SUPPLY_STATE_LIST(X) X(EASY, "easy") X(TIGHT, "tight")
enum supply_state {
	SUPPLY_STATE_NONE = 0,
#define X(n, wire) SUPPLY_##n,
	SUPPLY_STATE_LIST(X)
#undef X
};
const char *supply_state_name(enum supply_state s);
enum supply_state supply_state_parse(const char *s); /* NONE when unknown */

struct tightness_policy {
	double w_refusals, w_reclaims, w_scores, w_price; /* 0.5, 0.3, 0.3, 0.2 */
	double tight_at, easy_at; /* 0.35, 0.15 */
	int64_t window_us; /* 1 h */
	int64_t hold_us; /* 15 min */
};
void tightness_policy_default(struct tightness_policy *p);

struct tightness_seen { /* of one group, in the window */
	int32_t launches, refusals, reclaims;
	double node_hours, hazard_per_hour;
	int32_t pools, pools_out; /* all; cooling or without capacity by the provider's word */
	double price, price_mean; /* 0 = not known */
};
struct tightness {
	enum supply_state state;
	int64_t since_us; /* of the state */
	int64_t calm_us; /* since when the index is under easy_at; 0 = it is not */
	/* the weighted parts, which sum to index */
	double index, refusals, reclaims, scores, price;
	const char *why;
};
/* Computes the next state from the previous one and the observations. was->state NONE: a new
 * group. */
void tightness_step(struct arena *a, const struct tightness *was, const struct tightness_seen *seen,
    const struct tightness_policy *p, int64_t now_us, struct tightness *ret);

#endif
