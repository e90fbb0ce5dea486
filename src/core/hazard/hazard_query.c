/* Queries the hazard model about one pool. */
#include "base/base.h"
#include "core/hazard/hazard_priv.h"
#include "core/hazard/hazard.h"

#include <math.h>

/* 1 / relative variance of a pool's current rate about its long-run rate. */
#define NOW_NU 2.0
/* The same of the coming hours about the current rate. It widens the interval and leaves the
 * mean. */
#define NEXT_NU 2.0
/* The probability that signal and neighbours are nearly worthless for a pool. Its own record then
 * counts from policy.prior_hours of exposure (a mixture prior; Schmidli et al. 2014). */
#define WORTHLESS 0.1
#define RATIO_SAME 1e-6
#define SOURCE_NEIGHBOURS "neighbours and prior"

/* The pool as the model sees it. The model's own offers have stored results, others need a
 * search. */
struct seen {
	const struct group *g; /* NULL: unknown provider */
	const struct leaf *leaf; /* NULL: not an offer of the model */
	struct prior prior;
	struct own own;
	double told_o, told_e; /* evidence that the model's offer of this id gave its group */
};

static struct seen pool_evidence(const struct hazard_model *m, const struct offer *o)
{
	const struct offer *base = model_find(m, o);
	struct seen s = { .own = own_of(o) };
	int32_t at;

	if (base == o) {
		s.leaf = &m->leaves[o - m->offers];
		s.g = &m->groups[s.leaf->group];
		s.prior = (struct prior){ (double)s.leaf->rate, (double)s.leaf->lo,
			(double)s.leaf->hi, s.leaf->signal };
	} else {
		s.prior = hazard_prior(o, m->policy);
		at = model_group(m, o);
		s.g = at < 0 ? NULL : &m->groups[at];
	}
	if (base != NULL && own_any(base)) {
		struct own own = own_of(base);

		leaf_up(m, &own, &m->leaves[base - m->offers], &s.told_o, &s.told_e);
	}
	return s;
}

/* Fills the gamma of the pool's ratio from signal and neighbours. */
static void pool_prior(const struct hazard_model *m, const struct seen *s, double *ret_a,
    double *ret_b)
{
	int level = LEVEL_FAMILY;

	if (s->g != NULL && s->g->level == LEVEL_ZONE) {
		leaf_prior(m, s->g, s->told_o, s->told_e, ret_a, ret_b);
		return;
	}
	*ret_a = *ret_b = signal_shape(s->prior.signal);
	if (s->g != NULL) {
		*ret_a = s->g->a + s->g->o;
		*ret_b = s->g->b + s->g->e;
		level = (int)s->g->level + 1;
	}
	for (; level <= LEVEL_POOL; level++) {
		diffuse(m->nu[level], ret_a, ret_b);
	}
}

/* ln of the probability of o reclaims in t hours under Gamma(shape, shape / mean), without the
 * common terms. */
static double evidence_ln(double shape, double mean, double o, double t)
{
	double b = shape / mean;
	int sign;

	return shape * log(b / (b + t)) - o * log(b + t) +
	    (o > 0 ? lgamma_r(shape + o, &sign) - lgamma_r(shape, &sign) : 0);
}

/* Fills mean and variance after o reclaims in t hours. The prior is Gamma(shape, .) of this mean.
 * With probability WORTHLESS it is one of the same mean that weighs only hours. */
static void mixture_update(double shape, double mean, double hours, double o, double t,
    double *ret_mean, double *ret_var)
{
	double strong = shape / mean, m1 = (shape + o) / (strong + t), v1 = m1 / (strong + t);
	double p, m2, v2;

	*ret_mean = m1;
	*ret_var = v1;
	if (strong <= hours || (o <= 0 && t <= 0)) {
		return;
	}
	p = log(WORTHLESS / (1 - WORTHLESS)) + evidence_ln(mean * hours, mean, o, t) -
	    evidence_ln(shape, mean, o, t);
	p = 1 / (1 + exp(-p));
	m2 = (mean * hours + o) / (hours + t);
	v2 = m2 / (hours + t);
	*ret_mean = p * m2 + (1 - p) * m1;
	*ret_var = p * v2 + (1 - p) * v1 + p * (1 - p) * (m2 - m1) * (m2 - m1);
}

/* Returns the prior weight in hours that explains this mean with this record. */
static double weight_of(double prior_mean, double mean, double o, double t, double strong)
{
	double w = (o - mean * t) / (mean - prior_mean);

	return isfinite(w) && w >= 0 ? fmin(w, strong) : strong;
}

/* Updates the long-run rate to the current one by the record of the last hours. */
static void now_update(const struct own *own, double *mean, double *var, struct hazard *h)
{
	double shape = *mean * *mean / *var, b = 1, t = own->recent_hours / own->cluster;

	diffuse(NOW_NU, &shape, &b);
	h->usual_per_hour = *mean;
	h->usual_weight_hours = own->cluster * shape / *mean;
	h->recent_hours = own->recent_hours;
	h->recent_reclaims = own->recent_reclaims;
	b = shape / *mean + t;
	*mean = (shape + own->recent_reclaims / own->cluster) / b;
	*var = *mean / b;
}

/* Fills the 5 and 95 % quantiles of the coming hours' rate, as multiples of its mean. */
static void interval_of(double shape, double *ret_lo, double *ret_hi)
{
	double b = 1;

	diffuse(NEXT_NU, &shape, &b);
	gamma_interval(shape, ret_lo, ret_hi);
	*ret_lo /= shape;
	*ret_hi /= shape;
}

/* Widens the interval by the doubt in a converted signal, as long as other evidence is weak. */
static void doubt_add(const struct hazard_model *m, const struct prior *prior, double shape,
    struct hazard *h)
{
	double ratio = h->group_per_hour / prior->rate, none = signal_shape(prior->signal), b = 1,
	       share;

	if (prior->signal != SIGNAL_SHARE && prior->signal != SIGNAL_BAND) {
		return;
	}
	for (int level = LEVEL_FAMILY; level <= LEVEL_POOL; level++) {
		diffuse(m->nu[level], &none, &b);
	}
	share = fmin(none / shape, 1) * h->weight_hours /
	    (h->weight_hours + h->own_hours + h->recent_hours);
	share *= share;
	h->hi += share * fmax(prior->hi * ratio - h->hi, 0);
	h->lo -= share * fmax(h->lo - prior->lo * ratio, 0);
}

static const char *source_of(const struct seen *s, double ratio)
{
	if (s->own.reclaims > 0 || s->own.hours >= 1) {
		return "own record and prior";
	}
	return fabs(ratio - 1) > RATIO_SAME ? SOURCE_NEIGHBOURS : signal_words(s->prior.signal);
}

void unused_estimate(struct arena *a, struct hazard_model *m)
{
	double last_shape = -1, lo = 0, hi = 0;

	m->unused = arena_array(a, m->groups_n + 1, sizeof(*m->unused));
	for (size_t i = 0; i < m->groups_n; i++) {
		const struct group *g = &m->groups[i];
		struct unused *u = &m->unused[i];
		double shape, b, now, unit = 1;

		if (g->level != LEVEL_ZONE) {
			continue;
		}
		leaf_prior(m, g, 0, 0, &shape, &b);
		now = shape;
		diffuse(NOW_NU, &now, &unit);
		if (fabs(shape - last_shape) > 1e-12) {
			interval_of(now, &lo, &hi);
			last_shape = shape;
		}
		*u = (struct unused){ .ratio = (float)(shape / b),
			.shape = (float)shape,
			.shape_now = (float)now,
			.lo = (float)lo,
			.hi = (float)hi,
			.day_factor = (float)g->day_factor,
			.odds_n = (float)g->odds_n,
			.odds_p = (float)g->odds_p };
		odds_unused(g, u);
	}
}

/* The estimate of a pool never used: its signal's rate times its group's ratio. */
static void unused_of(const struct hazard_model *m, const struct leaf *leaf, struct hazard *ret)
{
	const struct unused *u = &m->unused[leaf->group];
	double rate = (double)leaf->rate, mean = rate * (double)u->ratio;

	*ret = (struct hazard){ .per_hour = mean * (double)u->day_factor,
		.lo = mean * (double)u->lo,
		.hi = mean * (double)u->hi,
		.prior_per_hour = rate,
		.group_per_hour = mean,
		.weight_hours = (double)u->shape / mean,
		.day_factor = (double)u->day_factor,
		.usual_per_hour = mean,
		.usual_weight_hours = (double)u->shape_now / mean,
		.source = fabs((double)u->ratio - 1) > RATIO_SAME ? SOURCE_NEIGHBOURS
								  : signal_words(leaf->signal) };
	if (leaf->signal == SIGNAL_SHARE || leaf->signal == SIGNAL_BAND) {
		struct prior prior = { rate, (double)leaf->lo, (double)leaf->hi, leaf->signal };

		doubt_add(m, &prior, (double)u->shape, ret);
	}
}

static void used_of(const struct hazard_model *m, const struct seen *s, struct hazard *ret)
{
	double hours = s->own.hours - s->own.recent_hours,
	       reclaims = s->own.reclaims - s->own.recent_reclaims;
	double a, b, mean, var;

	pool_prior(m, s, &a, &b);
	*ret = (struct hazard){ .prior_per_hour = s->prior.rate,
		.group_per_hour = s->prior.rate * a / b,
		.own_hours = hours,
		.own_reclaims = reclaims,
		.day_factor = s->g == NULL ? 1 : s->g->day_factor,
		.source = source_of(s, a / b) };
	mixture_update(a, ret->group_per_hour,
	    m->policy->prior_hours * signal_weight(s->prior.signal), reclaims / s->own.cluster,
	    hours / s->own.cluster, &mean, &var);
	ret->weight_hours = weight_of(ret->group_per_hour, mean, reclaims, hours,
	    s->own.cluster * a / ret->group_per_hour);
	now_update(&s->own, &mean, &var, ret);
	interval_of(mean * mean / var, &ret->lo, &ret->hi);
	ret->lo *= mean;
	ret->hi *= mean;
	doubt_add(m, &s->prior, a, ret);
	ret->per_hour = mean * ret->day_factor;
}

void hazard_of(const struct hazard_model *m, const struct offer *o, struct hazard *ret)
{
	if (m->n > 0 && o >= m->offers && o < m->offers + m->n && !own_any(o)) {
		unused_of(m, &m->leaves[o - m->offers], ret);
	} else {
		struct seen s = pool_evidence(m, o);

		used_of(m, &s, ret);
	}
	ret->lo = fmin(ret->lo * ret->day_factor, ret->per_hour);
	ret->hi = fmax(ret->hi * ret->day_factor, ret->per_hour);
	if (m->struck_n > 0) {
		siblings_rise(m, o, &ret->rise);
		ret->raised_per_hour = rise_now(&sibling_fitted, &ret->rise);
		ret->per_hour += ret->raised_per_hour;
		ret->lo += ret->raised_per_hour;
		ret->hi += ret->raised_per_hour;
	}
}
