/*
 * Turns our own rows into the availability samples that a deadline policy learns from. Pure. A node
 * means "up" for its life. A refusal or a reclaim means "down" until the pool serves again or
 * down_us have passed. In between the last state holds. Before the first row nothing is claimed.
 */
#ifndef CORE_SUPPLY_TRACK_H
#define CORE_SUPPLY_TRACK_H

#include "base/base.h"
#include "core/policy/deadline_policy.h"

struct arena;

struct supply_word {
	int32_t pool_id;
	int64_t from_us, to_us; /* up: to_us 0 = still alive. down: to_us is not used */
	bool up;
};

/* Fills the samples of one pool up to now_us, from the words of many pools, ascending by from_us. A
 * sample is up unless more than half of its tick was down. n is 0 without a word. The caller adds
 * prices. */
void supply_track_make(struct arena *a, const struct supply_word *words, size_t n, int32_t pool_id,
    int64_t tick_us, int64_t down_us, int64_t now_us, struct policy_track *ret);

#endif
