/* The rise of the hazard after reclaims of siblings; the header has the model. */
#include "base/base.h"
#include "core/hazard/hazard.h"
#include "core/hazard/hazard_priv.h"

#include <math.h>

/* Less than this is left of a strike that nobody needs to tell from none. */
#define LEFT_LEAST 0.01

void rise_add(const struct sibling_fit *f, enum sibling level, double age_h, struct rise *r)
{
	if (level >= SIBLING_NONE) {
		return;
	}
	for (int part = 0; part < RISE_PARTS; part++) {
		double share = f->share[level][part] * exp(-fmax(age_h, 0) / f->tau_h[part]);

		r->left[part] = 1 - (1 - r->left[part]) * (1 - share);
	}
}

bool rise_any(const struct rise *r)
{
	return r->left[RISE_QUICK] > 0 || r->left[RISE_SLOW] > 0;
}

double rise_now(const struct sibling_fit *f, const struct rise *r)
{
	return r->left[RISE_QUICK] / f->tau_h[RISE_QUICK] +
	    r->left[RISE_SLOW] / f->tau_h[RISE_SLOW];
}

double rise_within(const struct sibling_fit *f, const struct rise *r, double hours)
{
	double sum = 0;

	for (int part = 0; part < RISE_PARTS; part++) {
		sum += r->left[part] * -expm1(-fmax(hours, 0) / f->tau_h[part]);
	}
	return sum;
}

double rise_keep_h(const struct sibling_fit *f, const struct rise *r)
{
	double keep = HUGE_VAL;

	for (int part = 0; part < RISE_PARTS; part++) {
		if (r->left[part] >= LEFT_LEAST) {
			keep = fmin(keep, f->tau_h[part] * M_LN2);
		}
	}
	return keep;
}

/* ---- in the model ---------------------------------------------------------------------------- */

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
