/* How pools fail together, by what they share, and at which time of day: estimated over all pools, since no pair of pools
 * alone ever has the record for it. */
#include "base/base.h"
#include "core/hazard_priv.h"

#include <math.h>

/* Share of the reclaims of one pool that strike the other too, before evidence: provider, region, zone, zone and family. */
static const double joint_prior[GROUP_LEVELS] = {0.02, 0.08, 0.2, 0.5};
/* Weight of that, in reclaims that the other pool could have met. */
#define JOINT_WEIGHT 20.0
#define JOINT_WINDOW_H 2.0     /* a reclaim's own hour and its neighbours count as at once */

void joint_estimate(struct hazard_model *m)
{
	double hits[GROUP_LEVELS] = {0}, chances[GROUP_LEVELS] = {0}, hours = 0, reclaims = 0, alone;

	for (size_t i = 0; i < m->used_n; i++) {
		const struct offer_record *r = m->offers[m->used[i]].record;

		for (int level = 0; r != NULL && level < GROUP_LEVELS; level++) {
			hits[level] += r->joint_hits[level];
			chances[level] += r->joint_chances[level];
		}
		hours += r != NULL ? r->node_hours : 0;
		reclaims += r != NULL ? r->reclaims : 0;
	}
	/* As often two pools that know nothing of each other meet within the window. */
	alone = hours > 0 ? -expm1(-reclaims / hours * JOINT_WINDOW_H) : 0;
	for (int level = 0; level < GROUP_LEVELS; level++) {
		double both = fmax(hits[level] - alone * chances[level], 0);
		double of = chances[level] * (1 - alone);

		m->joint[level] = fmin((joint_prior[level] * JOINT_WEIGHT + both) / (JOINT_WEIGHT + of), 1);
		/* Who shares more is struck together at least as often. */
		if (level > 0) {
			m->joint[level] = fmax(m->joint[level], m->joint[level - 1]);
		}
	}
}

static bool same(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool same_family(const struct offer *a, const struct offer *b)
{
	return same(a->gpu_name, b->gpu_name) && (a->gpu_name != NULL && a->gpu_name[0] != '\0'
	    ? true : same(a->instance_type, b->instance_type));
}

double hazard_correlation(const struct hazard_model *m, const struct offer *a, const struct offer *b)
{
	if (a->pool_id == b->pool_id) {
		return 1;
	}
	if (!same(a->provider, b->provider)) {
		return 0;
	}
	if (!same(a->region, b->region)) {
		return m->joint[0];
	}
	if (!same(a->zone, b->zone)) {
		return m->joint[1];
	}
	return m->joint[same_family(a, b) ? 3 : 2];
}
