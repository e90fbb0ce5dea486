/*
 * Time of day: one daily wave exp(c cos + s sin) in the reclaims of a family in a region. A score
 * test compares it with a constant rate, and a ridge pulls it towards none. This is Poisson
 * regression with a Gaussian prior on the wave (McCullagh and Nelder 1989, ch. 6). A wave counts
 * from a significance of 5 %, and in full from 0.1 %.
 */
#include "base/base.h"
#include "core/hazard/hazard_priv.h"

#include <math.h>

/* 1 / prior variance of each of the wave's two numbers. Waves of more than a factor of two are
 * rare. */
#define WAVE_PRECISION 8.0
#define WAVE_MAX 1.2
/* Quantiles of chi-square with two degrees of freedom: 5 % to count at all, 0.1 % to count in
 * full. */
#define TEST_FROM 5.99
#define TEST_FULL 13.8
/* Pools of one group lose nodes together. Each pool beyond the first adds this share to the
 * variance that chance explains. */
#define TOGETHER 0.5

void day_add(struct group *g, const struct offer_record *r)
{
	double rate;

	if (r->hour_reclaims <= 0 || r->hour_nodes <= 0) {
		return;
	}
	rate = r->hour_reclaims / r->hour_nodes;
	g->score_c += r->reclaim_cos - rate * r->node_cos;
	g->score_s += r->reclaim_sin - rate * r->node_sin;
	/* The rate itself comes from the same record. */
	g->info_cc +=
	    rate * ((r->hour_nodes + r->node_cos2) / 2 - r->node_cos * r->node_cos / r->hour_nodes);
	g->info_ss +=
	    rate * ((r->hour_nodes - r->node_cos2) / 2 - r->node_sin * r->node_sin / r->hour_nodes);
	g->info_cs += rate * (r->node_sin2 / 2 - r->node_cos * r->node_sin / r->hour_nodes);
	g->day_pools += 1;
}

/* Solves [cc cs; cs ss] (c, s) = score; false if there is no information. */
static bool wave_solve(double cc, double ss, double cs, const struct group *g, double *ret_c,
    double *ret_s)
{
	double det = cc * ss - cs * cs;

	if (!(det > 1e-12 * (cc + ss) * (cc + ss))) {
		return false;
	}
	*ret_c = (g->score_c * ss - g->score_s * cs) / det;
	*ret_s = (g->score_s * cc - g->score_c * cs) / det;
	return true;
}

static double factor_of(const struct group *g, double cos_now, double sin_now)
{
	double many = 1 + TOGETHER * (g->day_pools - 1), ridge = WAVE_PRECISION * many, c, s, test,
	       height, counts;

	if (g->day_pools < 1 || !wave_solve(g->info_cc, g->info_ss, g->info_cs, g, &c, &s)) {
		return 1;
	}
	test = (c * g->score_c + s * g->score_s) / many;
	counts = fmin(fmax((test - TEST_FROM) / (TEST_FULL - TEST_FROM), 0), 1);
	if (counts <= 0 ||
	    !wave_solve(g->info_cc + ridge, g->info_ss + ridge, g->info_cs, g, &c, &s)) {
		return 1;
	}
	height = hypot(c, s);
	counts *= height > WAVE_MAX ? WAVE_MAX / height : 1;
	c *= counts;
	s *= counts;
	/* The mean of exp(c cos + s sin) over a day is the Bessel function I0 of the wave's
	 * height. */
	height = (c * c + s * s) / 4;
	return exp(c * cos_now + s * sin_now) / (1 + height + height * height / 4);
}

/* Estimates the waves. A group below the region has its region's wave. One above has none, since
 * its members live in different time zones. */
void day_estimate(struct hazard_model *m)
{
	double at = (double)(m->now_us / SPOT_US_PER_S % 86400) / 86400 * 2 * M_PI,
	       cos_now = cos(at), sin_now = sin(at);

	for (size_t i = m->groups_n; i-- > 0;) {
		const struct group *g = &m->groups[i];
		struct group *p = g->level == LEVEL_ZONE ? &m->groups[g->parent] : NULL;

		if (p != NULL) {
			p->score_c += g->score_c;
			p->score_s += g->score_s;
			p->info_cc += g->info_cc;
			p->info_ss += g->info_ss;
			p->info_cs += g->info_cs;
			p->day_pools += g->day_pools;
		}
	}
	for (size_t i = 0; i < m->groups_n; i++) {
		struct group *g = &m->groups[i];

		g->day_factor = g->level == LEVEL_REGION ? factor_of(g, cos_now, sin_now)
		    : g->level == LEVEL_ZONE             ? m->groups[g->parent].day_factor
							 : 1;
	}
}
