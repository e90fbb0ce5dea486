/*
 * Reclaims come together: after one, its siblings are in danger for minutes. A self-exciting
 * process (Hawkes 1971, "Spectra of some self-exciting and mutually exciting point processes"):
 *
 *     hazard now = usual hazard + sum over parts of left / tau
 *
 * Each pool that lost a machine counts by its newest reclaim. It strikes one machine of a sibling
 * with the probability `share`. That depends on what the two share: the pool itself (type and
 * zone), the family in the zone, or the family in the region. An exponential of mean tau says when.
 * `left` is the probability that is still to come, from all strikes together: 1 - product of
 * (1 - share * exp(-age / tau)). It is bounded by 1 and falls with age. The order of rows does not
 * matter.
 *
 * Two parts: the quick one has the pace of public data. 92 % of co-interruptions of one type and
 * zone fall within three minutes (Spot-and-Scoot, arXiv:2604.16457). The slow one and all shares
 * are fitted on recorded traces (tests/bench/calibration/SIBLINGS.md).
 *
 * The amplitudes are constants, so a reclaim moves a pool without a record as much as any other.
 */
#ifndef CORE_HAZARD_SIBLINGS_H
#define CORE_HAZARD_SIBLINGS_H

#include "core/rank/offer.h"

/* The closest thing that the pool of a reclaim and another pool share. */
enum sibling { SIBLING_POOL = 0, SIBLING_ZONE, SIBLING_REGION, SIBLING_NONE };
#define SIBLING_LEVELS SIBLING_NONE

struct sibling_fit {
	/* probability that a strike takes one machine of the sibling */
	double share[SIBLING_LEVELS][RISE_PARTS];
	double tau_h[RISE_PARTS];
};
extern const struct sibling_fit sibling_fitted;
/* A strike this old has less than a thousandth left. */
#define SIBLING_WINDOW_US (6 * SPOT_US_PER_HOUR)

/* Adds a strike of this age to the rise. A negative age counts as 0. */
void rise_add(const struct sibling_fit *f, enum sibling level, double age_h, struct rise *r);
bool rise_any(const struct rise *r);
/* Returns the added reclaims per node-hour at the moment of the rise. */
double rise_now(const struct sibling_fit *f, const struct rise *r);
/* Returns the added reclaims of one machine within the next hours. */
double rise_within(const struct sibling_fit *f, const struct rise *r, double hours);
/* Returns how long the rise stands within a half of itself: a reader may keep it that long.
 * HUGE_VAL when less than a hundredth is left, which nobody needs to tell from none. */
double rise_keep_h(const struct sibling_fit *f, const struct rise *r);

#endif
