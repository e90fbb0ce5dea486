/* The least that a fleet without risk could cost if nodes could be divided: a linear programme of
 * its own. */
#ifndef FLEET_LP_H
#define FLEET_LP_H

#include "fleet_cases.h"

#define ROWS_MAX 200

struct lp {
	size_t rows, cols;
	double t[ROWS_MAX + 1][POOLS_MAX + ROWS_MAX + 1];
	size_t basis[ROWS_MAX];
};

static void lp_row(struct lp *l, const double *coefficients, double most)
{
	for (size_t k = 0; k < l->cols; k++) {
		l->t[l->rows][k] = coefficients[k];
	}
	l->t[l->rows][POOLS_MAX + l->rows] = 1;
	l->t[l->rows][POOLS_MAX + ROWS_MAX] = most;
	l->basis[l->rows] = POOLS_MAX + l->rows;
	l->rows++;
}

static void lp_pivot(struct lp *l, size_t row, size_t col)
{
	double by = l->t[row][col];

	for (size_t k = 0; k <= POOLS_MAX + ROWS_MAX; k++) {
		l->t[row][k] /= by;
	}
	for (size_t i = 0; i <= ROWS_MAX; i++) {
		double f = l->t[i][col];

		for (size_t k = 0; i != row && fabs(f) > 0 && k <= POOLS_MAX + ROWS_MAX; k++) {
			l->t[i][k] -= f * l->t[row][k];
		}
	}
	l->basis[row] = col;
}

/* Dual simplex (C. E. Lemke, 1954): costs are not negative, so that nothing bought is where it
 * starts; row ROWS_MAX is the cost. The least cost, or -1 when there is no solution. */
static double lp_solve(struct lp *l)
{
	for (int step = 0; step < 5000; step++) {
		size_t row = l->rows, col = POOLS_MAX + ROWS_MAX;
		double worst = -1e-9, least = INFINITY;

		for (size_t i = 0; i < l->rows; i++) {
			if (l->t[i][POOLS_MAX + ROWS_MAX] < worst) {
				worst = l->t[i][POOLS_MAX + ROWS_MAX];
				row = i;
			}
		}
		if (row == l->rows) {
			return -l->t[ROWS_MAX][POOLS_MAX + ROWS_MAX];
		}
		for (size_t k = 0; k < POOLS_MAX + ROWS_MAX; k++) {
			if (l->t[row][k] < -1e-9 && l->t[ROWS_MAX][k] / -l->t[row][k] < least) {
				least = l->t[ROWS_MAX][k] / -l->t[row][k];
				col = k;
			}
		}
		if (col == POOLS_MAX + ROWS_MAX) {
			return -1;
		}
		lp_pivot(l, row, col);
	}
	return -1;
}

static void lp_limits(struct lp *l, const struct made *x)
{
	const int32_t caps[] = { x->f.per_provider_max, x->f.per_region_max, x->f.per_zone_max,
		x->f.per_pool_max, x->f.per_gpu_max, 1 };

	for (size_t k = 0; k < x->n; k++) {
		for (int level = 0; level < 6; level++) {
			double in[POOLS_MAX] = { 0 };
			bool first = true;

			for (size_t i = 0; i < x->n; i++) {
				const struct offer *o = &x->o[k], *p = &x->o[i];
				bool region =
				    same(p->provider, o->provider) && same(p->region, o->region);
				const bool with[] = { same(p->provider, o->provider), region,
					region && same(p->zone, o->zone), i == k,
					same(p->gpu_name, o->gpu_name),
					region && p->market == o->market &&
					    same(p->quota_class, o->quota_class) };

				in[i] = with[level] ? level == 5 ? 4 : 1 : 0;
				first = first && (!with[level] || i >= k);
			}
			if (first && level < 5 && caps[level] > 0) {
				lp_row(l, in, caps[level]);
			}
			if (first && level == 5 && x->o[k].has_quota) {
				/* Whole machines of four each, as the bound has it too. */
				lp_row(l, in,
				    (double)((x->o[k].quota_limit - x->o[k].quota_used) / 4 * 4));
			}
		}
	}
}

static double lp_bound(struct arena *a, const struct made *x, const struct fleet_plan *p)
{
	struct lp *l = arena_alloc(a, sizeof(*l));
	double cover[POOLS_MAX] = { 0 }, floor[POOLS_MAX] = { 0 }, ref = reference_weight(x);

	l->cols = x->n;
	for (size_t k = 0; k < x->n; k++) {
		double w = (double)weight(x, k);

		cover[k] = -w;
		floor[k] = x->o[k].market == SPOT_MARKET_SPOT ? 0 : x->f.floor_pm > 0 ? -w : -1;
		l->t[ROWS_MAX][k] = x->o[k].market == SPOT_MARKET_RESERVED
		    ? 0
		    : (double)x->s[k].total_micros / 1e6 * w / ref;
	}
	lp_row(l, cover, -(p->want - p->missing) * 1000);
	lp_row(l, floor, -MIN(p->floor_want, p->floor_have));
	lp_limits(l, x);
	return lp_solve(l);
}

static int verdict_compare(const struct verdict *a, const struct verdict *b)
{
	double d = a->cost + a->risk - b->cost - b->risk;

	if (a->missing != b->missing) {
		return a->missing < b->missing ? -1 : 1;
	}
	if (a->floor_short != b->floor_short) {
		return a->floor_short < b->floor_short ? -1 : 1;
	}
	if (a->pools_short != b->pools_short) {
		return a->pools_short < b->pools_short ? -1 : 1;
	}
	return fabs(d) < 1e-7 ? 0 : d < 0 ? -1 : 1;
}

static void all_plans(const struct made *x, int32_t *add, size_t at, int64_t left,
    struct verdict *best)
{
	struct verdict v;
	int64_t w;

	if (at == x->n) {
		v = judge(x, add);
		if (v.allowed && verdict_compare(&v, best) < 0) {
			*best = v;
		}
		return;
	}
	w = weight(x, at);
	for (add[at] = 0; add[at] * w <= left && (add[at] == 0 || limits_allow(x, add));
	     add[at]++) {
		all_plans(x, add, at + 1, left - add[at] * w, best);
	}
	add[at] = 0;
}

static void adds_of(const struct made *x, const struct fleet_plan *p, int32_t *add)
{
	memset(add, 0, POOLS_MAX * sizeof(*add));
	for (size_t i = 0; i < p->n; i++) {
		add[p->picks[i].score - x->s] = p->picks[i].nodes;
	}
}

#endif
