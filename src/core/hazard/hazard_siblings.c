/* The reclaims of siblings in the hazard model, and the rise of each pool after them. */
#include "base/base.h"
#include "core/hazard/hazard.h"
#include "core/hazard/hazard_priv.h"

#include <math.h>

/* A strike in the future stems from a clock step and counts as of now. */
static double age_h(const struct hazard_model *m, const struct offer *o)
{
	return (double)MAX(m->now_us - o->reclaimed_us, 0) / (double)SPOT_US_PER_HOUR;
}

void siblings_collect(struct arena *a, struct hazard_model *m)
{
	size_t cap = 0;

	for (size_t i = 0; i < m->used_n; i++) { /* a reclaim is a record */
		const struct offer *o = &m->offers[m->used[i]];

		if (o->reclaimed_us > 0 && o->market == SPOT_MARKET_SPOT &&
		    m->now_us - o->reclaimed_us < SIBLING_WINDOW_US) {
			m->struck = arena_grow(a, m->struck, m->struck_n, &cap, sizeof(*m->struck));
			m->struck[m->struck_n++] = (struct struck){ model_kin(o), o, age_h(m, o) };
		}
	}
}

static bool zone_same(const struct offer *a, const struct offer *b)
{
	return a->zone == b->zone ||
	    (a->zone != NULL && b->zone != NULL && strcmp(a->zone, b->zone) == 0);
}

void siblings_rise(const struct hazard_model *m, const struct offer *o, struct rise *ret)
{
	uint64_t kin = o->market == SPOT_MARKET_SPOT ? model_kin(o) : 0;

	*ret = (struct rise){ 0 };
	for (size_t i = 0; i < m->struck_n && kin != 0; i++) {
		const struct struck *s = &m->struck[i];

		if (s->kin == kin) {
			rise_add(&sibling_fitted,
			    s->offer->pool_id == o->pool_id ? SIBLING_POOL
				: zone_same(s->offer, o)    ? SIBLING_ZONE
							    : SIBLING_REGION,
			    s->age_h, ret);
		}
	}
}

int64_t hazard_until_us(const struct hazard_model *m)
{
	double keep = HUGE_VAL;

	for (size_t i = 0; i < m->struck_n; i++) {
		struct rise own = { 0 };

		rise_add(&sibling_fitted, SIBLING_POOL, m->struck[i].age_h, &own);
		keep = fmin(keep, rise_keep_h(&sibling_fitted, &own));
	}
	return isfinite(keep) ? m->now_us + (int64_t)(keep * (double)SPOT_US_PER_HOUR) : INT64_MAX;
}
