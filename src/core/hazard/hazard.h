/*
 * What is believed of a pool's supply: reclaims per node-hour, odds of a launch, with intervals,
 * and how pools fail together. Pure. The provider's signal is the prior, our own record
 * (node-hours, reclaims, launches, refusals, weighted by age) the evidence, and pools lend each
 * other strength up the hierarchy
 *
 *     pool < family in a zone < family in a region < family < provider
 *
 * where what is shared is by how much the provider's signal is wrong, not the rate itself. The
 * maths and the papers are in README.md. hazard_model_build() is linear in the offers and done once
 * per market snapshot; a query takes some tens of nanoseconds for an offer of the model and a
 * search for one like them. Nothing fails; memory is the arena's.
 */
#ifndef CORE_HAZARD_H
#define CORE_HAZARD_H

#include "base/base.h"
#include "core/rank/offer.h"

struct arena;
struct rank_policy;
/* in the arena it was built in; refers to the offers given */
struct hazard_model;

/* usual    = (group_per_hour * weight_hours + own_reclaims) / (weight_hours + own_hours)
 * per_hour = (usual * usual_weight_hours + recent_reclaims) / (usual_weight_hours + recent_hours) *
 * day_factor */
struct hazard {
	double per_hour, lo, hi; /* reclaims per node-hour now; 90 % interval */
	double prior_per_hour; /* what the provider's signal alone says */
	/* that, corrected by what the pool's neighbours lived through */
	double group_per_hour;
	double weight_hours; /* weight of prior and neighbours, node-hours of exposure */
	double own_hours, own_reclaims; /* aged, without what is recent */
	double day_factor; /* time of day: per_hour contains it; 1 = no pattern seen */
	const char *source; /* static words */
	double usual_per_hour; /* in the long run */
	double usual_weight_hours; /* its weight against the last hours' record */
	double recent_hours, recent_reclaims;
};

/* odds = (signal * signal_weight + group * group_weight + own_launches) / (the weights + own
 * launches and refusals) */
struct odds {
	double odds, lo, hi; /* that a launch now succeeds; 90 % interval */
	double signal, signal_weight; /* what the provider says, in launches */
	double group, group_weight; /* launches of the pool's neighbours */
	double own_launches, own_refusals; /* aged */
	const char *source; /* static words */
};

/* What the database knows of a pool (pool_record of migrations/0009); NULL for NULL or what cannot
 * be read. */
const struct offer_record *offer_record_parse(struct arena *a, const char *text);
struct hazard_model *hazard_model_build(struct arena *a, const struct offer *offers, size_t n,
    const struct rank_policy *p, int64_t now_us);
/* o is one of the offers of the model, or one like them (a copy with changed fields). */
void hazard_of(const struct hazard_model *m, const struct offer *o, struct hazard *ret);
/* The same of a pool without neighbours: its signals and its own record. ret_odds may be NULL. */
void hazard_alone(const struct rank_policy *p, const struct offer *o, struct hazard *ret,
    struct odds *ret_odds);
/* Odds that a launch now succeeds, from what the provider says, our own launches and those of the
 * neighbours. */
void hazard_odds(const struct hazard_model *m, const struct offer *o, struct odds *ret);
/* 0..1: share of the reclaims of two pools that strike both at once. 1 for a pool and itself. */
double hazard_correlation(const struct hazard_model *m, const struct offer *a,
    const struct offer *b);

#endif
