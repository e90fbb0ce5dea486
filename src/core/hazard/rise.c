/* The rise of the hazard after reclaims of siblings, as pools and policies carry it. The header has
 * the model. The deadline policies are linked with it and without the rest of the hazard model. */
#include "base/base.h"
#include "core/hazard/hazard.h"

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
