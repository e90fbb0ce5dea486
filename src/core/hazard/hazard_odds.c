/* Odds that a launch now succeeds: from the provider's signal, the account's other requests, the
 * neighbours' launches and the pool's own. Counts travel up and down the tree of hazard_model.c. A
 * message across a level weighs at most ODDS_NU launches. */
#include "base/base.h"
#include "core/hazard/hazard_priv.h"

#include <math.h>

/* 1 + a + b of the beta distribution of members' odds about their group's. */
#define ODDS_NU 4.0
#define WISE_BELOW 4.0
/* The same of our launches about the account's other requests, which may be larger than ours. */
#define ACCOUNT_NU 10.0
#define SIGNAL_NOTHING 0.5
#define SIGNAL_NOTHING_WEIGHT 1.0

/* Returns the weight of n launches across one level's variation. */
static double level_weight(double n)
{
	return ODDS_NU / (ODDS_NU + n);
}

void odds_leaf_up(const struct own *own, double *ret_l, double *ret_r)
{
	double t = level_weight(own->launches + own->refusals);

	*ret_l = own->launches * t;
	*ret_r = own->refusals * t;
}

void odds_up(struct hazard_model *m)
{
	for (size_t i = m->groups_n; i-- > 0;) {
		struct group *g = &m->groups[i];
		double t = level_weight(g->l + g->r);

		g->up_l = g->l * t;
		g->up_r = g->r * t;
		if (g->parent >= 0) {
			m->groups[g->parent].l += g->up_l;
			m->groups[g->parent].r += g->up_r;
		}
	}
}

/* Fills the weight and mean that a member hears: (n at p) with l launches and r refusals more. */
static void member_prior(double n, double p, double l, double r, double *ret_n, double *ret_p)
{
	double all = n + l + r;

	*ret_p = all > 0 ? (n * p + l) / all : 0.5;
	*ret_n = all * level_weight(all);
}

void odds_down(struct hazard_model *m)
{
	for (size_t i = 0; i < m->groups_n; i++) {
		struct group *g = &m->groups[i];

		if (g->parent >= 0) {
			const struct group *p = &m->groups[g->parent];

			member_prior(p->own_n, p->own_p, fmax(p->l - g->up_l, 0),
			    fmax(p->r - g->up_r, 0), &g->own_n, &g->own_p);
		}
		member_prior(g->own_n, g->own_p, g->l, g->r, &g->odds_n, &g->odds_p);
	}
}

/* Reads the provider's signal. A score from 1 to 10 is ordinal (AWS: "likelihood of success",
 * without published frequencies), so it weighs one launch. The highest score of Azure and AWS means
 * "likely", not "certain". Odds that the provider states weigh ten. */
static void signal_odds(const struct offer *o, struct odds *ret)
{
	ret->signal = SIGNAL_NOTHING;
	ret->signal_weight = SIGNAL_NOTHING_WEIGHT;
	ret->source = "nothing known";
	if (o->has_odds) {
		ret->signal = fmin(fmax(o->odds, 0), 1);
		ret->signal_weight = 10;
		ret->source = "obtainability";
	} else if (o->placement_score > 0) {
		ret->signal = fmin(fmax(o->placement_score / 10.0, 0.05), 0.95);
		ret->source = "placement score";
	} else if (o->capacity >= 0) {
		ret->signal = o->capacity >= 0.5 ? 0.8 : 0.05;
		ret->source = "capacity";
	}
}

/* Fills the evidence from the account's requests. Ours among them are in the own record, so only
 * the rest counts. The provider counts with a delay of hours, so our own refusals weaken it. */
static void account_odds(const struct hazard_model *m, const struct offer *o, struct odds *ret)
{
	double age_h = (double)(m->now_us - o->account_us) / (double)SPOT_US_PER_HOUR, faded, asked,
	       delivered;

	if (!(o->account_asked > 0)) {
		return;
	}
	faded = pow(0.5, fmax(age_h, 0) / m->policy->odds_half_life_h);
	asked = o->account_asked * faded - ret->own_launches - ret->own_refusals;
	delivered = o->account_delivered * faded - ret->own_launches;
	if (asked <= 0) {
		return;
	}
	ret->account = fmin(fmax(delivered / asked, 0), 1);
	ret->account_weight = asked * ACCOUNT_NU / (ACCOUNT_NU + asked) / (1 + ret->own_refusals);
}

/* Fills the evidence from the neighbours' launches. */
static void pool_prior(const struct hazard_model *m, const struct offer *o, struct odds *ret)
{
	const struct offer *base = model_find(m, o);
	int32_t at = base == o ? m->leaves[o - m->offers].group : model_group(m, o);
	const struct group *g = at < 0 ? NULL : &m->groups[at];
	double l = 0, r = 0;

	if (g == NULL) {
		ret->group = ret->signal;
		return;
	}
	if (g->level == LEVEL_ZONE && base != NULL && own_any(base)) {
		struct own told = own_of(base);

		odds_leaf_up(&told, &l, &r);
		member_prior(g->own_n, g->own_p, fmax(g->l - l, 0), fmax(g->r - r, 0),
		    &ret->group_weight, &ret->group);
		return;
	}
	ret->group_weight = g->odds_n;
	ret->group = g->odds_p;
}

/* The 90 % interval of Beta(a, b). Two large parameters use Abramowitz and Stegun 26.5.22. With a
 * small one, -ln(1 - x) (b + (a - 1) / 2) is nearly Gamma(a) (Wise 1950), exactly for a = 1. */
static void beta_interval(double a, double b, double *ret_lo, double *ret_hi)
{
	double small = fmin(a, b), large = fmax(a, b), lo, hi;

	if (small >= WISE_BELOW) {
		double z = 1.6448536269514722, k = (z * z - 3) / 6,
		       h = 2 / (1 / (2 * a - 1) + 1 / (2 * b - 1));
		double d = (1 / (2 * b - 1) - 1 / (2 * a - 1)) * (k + 5.0 / 6.0 - 2 / (3 * h)),
		       w = z * sqrt(h + k) / h;

		*ret_lo = a / (a + b * exp(2 * (w - d)));
		*ret_hi = a / (a + b * exp(2 * (-w - d)));
		return;
	}
	gamma_interval(small, &lo, &hi);
	lo = -expm1(-lo / (large + (small - 1) / 2));
	hi = -expm1(-hi / (large + (small - 1) / 2));
	*ret_lo = a <= b ? lo : 1 - hi;
	*ret_hi = a <= b ? hi : 1 - lo;
}

/* Completes odds, interval and source from the terms in ret. */
static void odds_finish(struct odds *ret)
{
	double good = ret->signal * ret->signal_weight + ret->account * ret->account_weight +
	    ret->group * ret->group_weight + ret->own_launches;
	double n = ret->signal_weight + ret->account_weight + ret->group_weight +
	    ret->own_launches + ret->own_refusals;

	ret->odds = good / n;
	beta_interval(good, n - good, &ret->lo, &ret->hi);
	ret->lo = fmin(ret->lo, ret->odds);
	ret->hi = fmax(ret->hi, ret->odds);
}

void odds_unused(const struct group *g, struct unused *ret)
{
	struct odds o = { .signal = SIGNAL_NOTHING,
		.signal_weight = SIGNAL_NOTHING_WEIGHT,
		.group = g->odds_p,
		.group_weight = g->odds_n };

	odds_finish(&o);
	ret->odds_lo = (float)o.lo;
	ret->odds_hi = (float)o.hi;
}

static bool signal_none(const struct offer *o)
{
	return !o->has_odds && !(o->placement_score > 0) && !(o->capacity >= 0) &&
	    !(o->account_asked > 0);
}

void hazard_odds(const struct hazard_model *m, const struct offer *o, struct odds *ret)
{
	*ret = (struct odds){ 0 };
	signal_odds(o, ret);
	if (m->n > 0 && o >= m->offers && o < m->offers + m->n && !own_any(o)) {
		const struct unused *u = &m->unused[m->leaves[o - m->offers].group];

		ret->group = (double)u->odds_p;
		ret->group_weight = (double)u->odds_n;
		if (signal_none(o)) {
			ret->odds =
			    (ret->signal * ret->signal_weight + ret->group * ret->group_weight) /
			    (ret->signal_weight + ret->group_weight);
			ret->lo = fmin((double)u->odds_lo, ret->odds);
			ret->hi = fmax((double)u->odds_hi, ret->odds);
		} else {
			account_odds(m, o, ret);
			odds_finish(ret);
		}
	} else {
		struct own own = own_of(o);

		ret->own_launches = own.launches;
		ret->own_refusals = own.refusals;
		account_odds(m, o, ret);
		pool_prior(m, o, ret);
		odds_finish(ret);
	}
	if (ret->own_launches + ret->own_refusals > 0) {
		ret->source = "own launches";
	} else if (ret->account_weight > fmax(ret->signal_weight, ret->group_weight)) {
		ret->source = "fulfilment rate";
	} else if (ret->group_weight > ret->signal_weight) {
		ret->source = "launches of neighbours";
	}
}
