/*
 * The hazard model: a pool's reclaims per node-hour and its odds of a launch, with intervals, and
 * how pools fail together. Pure. The provider's signal is the prior. Our own record (node-hours,
 * reclaims, launches, refusals, weighted by age) is the evidence. Pools share strength up the tree
 *
 *     pool < family in a zone < family in a region < family < provider
 *
 * They share how wrong the provider's signal is, not the rate itself. README.md has the maths and
 * the papers. hazard_model_build() is linear in the offers and runs once per market snapshot. A
 * query takes tens of nanoseconds for an offer of the model, and a search for one like it. Nothing
 * fails; memory is the arena's.
 */
#ifndef CORE_HAZARD_HAZARD_H
#define CORE_HAZARD_HAZARD_H

#include "base/base.h"
#include "core/rank/rank.h"

struct arena;
struct rank_policy;
/* in the arena it was built in; refers to the offers given */
struct hazard_model;

/* usual    = (group_per_hour * weight_hours + own_reclaims) / (weight_hours + own_hours)
 * per_hour = (usual * usual_weight_hours + recent_reclaims) / (usual_weight_hours + recent_hours)
 *            * day_factor + raised_per_hour */
struct hazard {
	double per_hour, lo, hi; /* reclaims per node-hour now; 90 % interval */
	double prior_per_hour; /* from the provider's signal alone */
	/* prior_per_hour, corrected by the record of the pool's neighbours */
	double group_per_hour;
	double weight_hours; /* weight of prior and neighbours, node-hours of exposure */
	double own_hours, own_reclaims; /* weighted by age, recent ones excluded */
	double day_factor; /* time of day: per_hour contains it; 1 = no pattern seen */
	const char *source; /* static words */
	double usual_per_hour; /* in the long run */
	double usual_weight_hours; /* its weight against the last hours' record */
	double recent_hours, recent_reclaims;
	/* by recent reclaims of siblings (below); per_hour, lo and hi contain it */
	double raised_per_hour;
	struct rise rise;
};

/* odds = (signal * signal_weight + account * account_weight + group * group_weight + own_launches)
 * / (the weights + own launches and refusals) */
struct odds {
	double odds, lo, hi; /* that a launch now succeeds; 90 % interval */
	double signal, signal_weight; /* the provider's signal; weight in launches */
	/* the account's other requests in the pool: share delivered, weight in launches */
	double account, account_weight;
	double group, group_weight; /* launches of the pool's neighbours */
	double own_launches, own_refusals; /* aged */
	const char *source; /* static words */
};

/* Reads a pool's record as the database writes it (pool_record of migrations/0009). Returns NULL
 * for NULL and for a malformed record. */
const struct offer_record *offer_record_parse(struct arena *a, const char *text);
struct hazard_model *hazard_model_build(struct arena *a, const struct offer *offers, size_t n,
    const struct rank_policy *p, int64_t now_us);
/* Fills ret for o, an offer of the model or a copy with changed fields. */
void hazard_of(const struct hazard_model *m, const struct offer *o, struct hazard *ret);
/* Like hazard_of(), from the pool's signals and own record only. ret_odds may be NULL. */
void hazard_alone(const struct rank_policy *p, const struct offer *o, struct hazard *ret,
    struct odds *ret_odds);
/* Fills ret with the odds that a launch now succeeds. They come from the provider's signal, the
 * account's other requests, our own launches and those of the neighbours. */
void hazard_odds(const struct hazard_model *m, const struct offer *o, struct odds *ret);
/* Returns the share (0..1) of reclaims that strike both pools at once; 1 for a pool and itself. */
double hazard_correlation(const struct hazard_model *m, const struct offer *a,
    const struct offer *b);

/* Returns the time until which the rises of the model are near enough; INT64_MAX = for ever. */
int64_t hazard_until_us(const struct hazard_model *m);

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
