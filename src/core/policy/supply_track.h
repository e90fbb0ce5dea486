/*
 * What our own rows say about when a spot pool could be had, as the samples a deadline policy
 * learns from. Pure. A node that lives says "up" for its life; a refusal or a reclaim says "down"
 * from then until the pool serves again or down_us have passed; in between the last word holds.
 * Before the first word nothing is claimed.
 */
#ifndef CORE_SUPPLY_TRACK_H
#define CORE_SUPPLY_TRACK_H

#include "base/base.h"
#include "core/policy/policy.h"

struct arena;

struct supply_word {
	int32_t pool_id;
	int64_t from_us, to_us; /* up: to_us 0 = still alive. down: to_us is not used */
	bool up;
};

/* Samples of one pool out of words of many, ascending by from_us, up to now_us; a sample is up
 * unless more than half of its tick was down. n is 0 when there is no word. Price is left to the
 * caller. */
void supply_track_make(struct arena *a, const struct supply_word *words, size_t n, int32_t pool_id,
    int64_t tick_us, int64_t down_us, int64_t now_us, struct policy_track *ret);

#endif
