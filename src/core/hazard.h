/*
 * What is believed of a pool's supply: reclaims per node-hour and launch refusals, with intervals, and how
 * pools fail together. Pure. The provider's signal is the prior, our own record (node-hours, reclaims, launches,
 * refusals, weighted by age) the evidence, and pools lend each other strength up the hierarchy
 * pool < zone/family < region < provider. hazard_model_build() is linear in the offers and done once per market snapshot.
 */
#ifndef CORE_HAZARD_H
#define CORE_HAZARD_H

#include "base/base.h"
#include "core/offer.h"

struct arena;
struct rank_policy;
struct hazard_model;                   /* in the arena it was built in; refers to the offers given */

struct hazard {
	double per_hour, lo, hi;       /* reclaims per node-hour now; 90 % interval */
	double prior_per_hour;         /* what the provider's signal alone says */
	double group_per_hour;         /* what the pool's neighbours add to it */
	double weight_hours;           /* weight of prior and neighbours, node-hours of exposure */
	double own_hours, own_reclaims;/* aged */
	double day_factor;             /* time of day: per_hour contains it; 1 = no pattern seen */
	const char *source;            /* static words */
};

struct hazard_model *hazard_model_build(struct arena *a, const struct offer *offers, size_t n, const struct rank_policy *p,
    int64_t now_us);
/* o is one of the offers of the model, or one like them (a copy with changed fields). */
void hazard_of(const struct hazard_model *m, const struct offer *o, struct hazard *ret);
/* 0..1: share of the reclaims of two pools that strike both at once. 1 for a pool and itself. */
double hazard_correlation(const struct hazard_model *m, const struct offer *a, const struct offer *b);

#endif
