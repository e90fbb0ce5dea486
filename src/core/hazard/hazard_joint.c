/* Estimates how pools fail together, by what they share and by time of day. It uses all pools,
 * since no single pair has enough record. */
#include "base/base.h"
#include "core/hazard/hazard_priv.h"

#include <math.h>

/* Prior share of one pool's reclaims that strike the other too, beyond chance: provider, region,
 * zone, zone and family. It is above the recorded traces (tests/bench/calibration), since a priced
 * risk should err on that side. */
static const double joint_prior[GROUP_LEVELS] = { 0.01, 0.05, 0.1, 0.3 };
/* Weight of the prior, in reclaims that could have struck the other pool. */
#define JOINT_WEIGHT 20.0

void joint_estimate(struct hazard_model *m)
{
	double hits[GROUP_LEVELS] = { 0 }, chances[GROUP_LEVELS] = { 0 },
	       alone[GROUP_LEVELS] = { 0 };

	for (size_t i = 0; i < m->used_n; i++) {
		const struct offer_record *r = m->offers[m->used[i]].record;

		for (int level = 0; r != NULL && level < GROUP_LEVELS; level++) {
			hits[level] += r->joint_hits[level];
			chances[level] += r->joint_chances[level];
			alone[level] += r->joint_alone[level];
		}
	}
	for (int level = 0; level < GROUP_LEVELS; level++) {
		/* Chances less those in which independent pools would coincide anyway. */
		double of = fmax(chances[level] - alone[level], 0),
		       both = fmin(fmax(hits[level] - alone[level], 0), of);

		m->joint[level] = (joint_prior[level] * JOINT_WEIGHT + both) / (JOINT_WEIGHT + of);
		/* Pools that share more are struck together at least as often. */
		if (level > 0) {
			m->joint[level] = fmax(m->joint[level], m->joint[level - 1]);
		}
	}
}

static bool text_same(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool same_family(const struct offer *a, const struct offer *b)
{
	return text_same(a->gpu_name, b->gpu_name) &&
	    (a->gpu_name != NULL && a->gpu_name[0] != '\0'
		    ? true
		    : text_same(a->instance_type, b->instance_type));
}

double hazard_correlation(const struct hazard_model *m, const struct offer *a,
    const struct offer *b)
{
	if (a->pool_id == b->pool_id) {
		return 1;
	}
	if (!text_same(a->provider, b->provider)) {
		return 0;
	}
	if (!text_same(a->region, b->region)) {
		return m->joint[0];
	}
	if (!text_same(a->zone, b->zone)) {
		return m->joint[1];
	}
	return m->joint[same_family(a, b) ? 3 : 2];
}
