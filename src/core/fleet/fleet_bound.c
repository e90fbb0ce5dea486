/*
 * A lower bound on the cost of any plan of this coverage, floor and number of pools. The risk is
 * convex, so its tangent at the plan lies below it. The square of a pool's own nodes stays exact.
 * The Lagrangian dual bounds the linear rest, for any prices of the constraints:
 *
 *     mu W + sigma F + tau K - sum_g pi_g C_g + sum_i min_y sum_u c_u
 *
 * Here u runs over the units of y. Its cost c_u = marginal - mu w - sigma f - tau of a pool's first
 * + sum of the pi of its groups.
 *
 * The prices start from the plan. A full group costs the least profit of the nodes it let in, the
 * widest group first. That is the dual optimum for nested limits, where greedy is exact. Coordinate
 * search finds mu, sigma and tau. Crossing limits need more: subgradient steps on all prices (B. T.
 * Polyak, "Minimization of unsmooth functionals", 1969), their length set by the plan's own cost.
 *
 * For few wanted nodes a tangent says little about other plans. A bound without any risk, from the
 * cheapest pool without limits, may then be higher.
 */
#include "base/base.h"
#include "core/fleet/fleet_priv.h"

#include <math.h>

/* Pools times steps. Larger fleets get no polishing; their gap is small anyway. */
#define POLISH_WORK 400000

struct unit_cost {
	/* cost of the first node beyond the held ones, and the increase per further one */
	double first, step;
	double last; /* of the last picked */
	double w, fw; /* copies of the item's, for locality */
	int32_t most; /* that the limits alone would allow */
	int32_t picked;
	bool fresh; /* none held, and its first node counts for pools_min */
};

struct bound {
	struct fleet_model *m;
	struct unit_cost *u;
	double base; /* dollars that held nodes cost, tangent included */
	double mu, sigma, tau;
	int64_t cover, floor, pools; /* to be added */
	/* Pools in demand at prices up to these. The dual is evaluated many times, and most pools
	 * are too expensive for any of it. */
	int32_t *near;
	size_t near_n;
	double near_mu, near_sigma, near_tau;
	double best, best_mu;
	double *best_pi;
	int32_t *tight;
	size_t tight_n; /* groups, the widest first */
	double *slope; /* of the dual in each group's price: units beyond its limit */
};

static double item_shared_loss(const struct fleet_model *m, const struct fleet_item *i)
{
	double sum = 0;

	for (int l = 0; l < FLEET_LEVELS; l++) {
		sum += m->delta[l] * m->groups[i->g[l]].s;
	}
	return sum;
}

static int32_t most_of(const struct bound *b, const struct fleet_item *i, const struct unit_cost *u)
{
	const struct fleet_model *m = b->m;
	int64_t most = i->cap - i->held, calls = (b->cover + i->w - 1) / i->w;

	if (i->fw > 0) {
		calls = MAX(calls, (b->floor + i->fw - 1) / i->fw);
	}
	for (int k = 0; k < FLEET_KINDS; k++) {
		const struct fleet_group *g = i->g[k] >= 0 ? &m->groups[i->g[k]] : NULL;

		if (g != NULL && g->cap < FLEET_NONE) {
			int64_t all = k == FG_QUOTA ? g->cap / i->need : g->cap;

			most = MIN(most, all);
		}
	}
	return (int32_t)MAX(MIN(most, MAX(calls, 1)), u->picked);
}

static void units_make(struct bound *b)
{
	struct fleet_model *m = b->m;
	double own = m->delta[FLEET_LEVELS];

	for (size_t k = 0; k < m->n; k++) {
		struct fleet_item *i = &m->items[k];
		struct unit_cost *u = &b->u[k];
		double qq = m->kappa * i->q * i->q,
		       flat = i->c + 2 * m->kappa * i->q * item_shared_loss(m, i) - qq;
		int32_t held = MIN(i->held, i->x);

		b->base += flat * held + own * qq * held * held;
		u->picked = i->x - held;
		u->fresh = i->spread && held == 0;
		u->w = (double)i->w;
		u->fw = (double)i->fw;
		u->first = flat + own * qq * (2 * held + 1);
		u->step = 2 * own * qq;
		u->last = u->first + u->step * (u->picked - 1);
		u->most = i->score != NULL ? most_of(b, i, u) : 0;
	}
	for (size_t g = 0; g < m->groups_n; g++) {
		const struct fleet_group *x = &m->groups[g];

		b->base -= x->kind <= FG_FAMILY ? m->kappa * m->delta[x->kind] * x->s * x->s : 0;
	}
}

/* Fills what any equally good plan must add: the plan's totals less those of held nodes. */
static void needs_make(struct bound *b)
{
	struct fleet_model *m = b->m;
	int64_t held = 0, floor_held = 0, pools_held = 0, unit = 0;

	for (size_t k = 0; k < m->n; k++) {
		const struct fleet_item *i = &m->items[k];
		int32_t n = MIN(i->held, i->x);

		held += i->w * n;
		floor_held += i->fw * n;
		pools_held += i->spread && n > 0;
		unit = i->score != NULL ? i64_gcd(unit, i->w) : unit;
	}
	b->cover = MAX(MIN(m->want, m->total) - held, 0);
	b->cover = unit > 0 ? (b->cover + unit - 1) / unit * unit : b->cover;
	b->floor = MAX(MIN(m->floor, m->floor_have) - floor_held, 0);
	b->pools = MAX(MIN(m->pools_want, m->pools) - pools_held, 0);
}

static double group_prices(const struct bound *b, const struct fleet_item *i)
{
	double sum = 0;

	for (int k = 0; k < FLEET_KINDS; k++) {
		if (i->g[k] >= 0) {
			sum += b->m->groups[i->g[k]].dual * (double)(k == FG_QUOTA ? i->need : 1);
		}
	}
	return sum;
}

static double worth_one(const struct bound *b, const struct fleet_item *i)
{
	return b->mu * (double)i->w + b->sigma * (double)i->fw;
}

/* Returns the saving of the pool's last picked node beyond the prices set so far. */
static double unit_profit(const struct bound *b, size_t k)
{
	const struct fleet_item *i = &b->m->items[k];
	const struct unit_cost *u = &b->u[k];

	return worth_one(b, i) + (u->fresh && u->picked == 1 ? b->tau : 0) - u->last -
	    group_prices(b, i);
}

static void prices_set(struct bound *b)
{
	struct fleet_model *m = b->m;

	for (size_t t = 0; t < b->tight_n; t++) {
		m->groups[b->tight[t]].dual = 0;
	}
	for (size_t t = 0; t < b->tight_n; t++) {
		struct fleet_group *g = &m->groups[b->tight[t]];
		double least = INFINITY;

		for (int32_t k = 0; k < g->n; k++) {
			size_t at = (size_t)m->members[g->first + k];

			if (b->u[at].picked > 0) {
				double per = g->kind == FG_QUOTA ? (double)m->items[at].need : 1;

				least = fmin(least, unit_profit(b, at) / per);
			}
		}
		g->dual = isfinite(least) ? fmax(least, 0) : 0;
	}
}

/* Not even the first node of the pool is worth its cost at these prices. */
static bool too_dear(const struct unit_cost *u, double mu, double sigma, double tau)
{
	return u->most <= 0 || u->first - (mu * u->w + sigma * u->fw) >= (u->fresh ? tau : 0);
}

/* Rounding keeps the order of sums, so a pool too expensive at the highest prices is too expensive
 * at lower ones, to the bit. */
static void near_make(struct bound *b)
{
	if (b->near != NULL && b->mu <= b->near_mu && b->sigma <= b->near_sigma &&
	    b->tau <= b->near_tau) {
		return;
	}
	b->near =
	    b->near != NULL ? b->near : arena_array_raw(b->m->arena, b->m->n + 1, sizeof(*b->near));
	b->near_mu = fmax(b->near_mu, b->mu * 1.2);
	b->near_sigma = fmax(b->near_sigma, b->sigma * 1.2);
	b->near_tau = fmax(b->near_tau, b->tau * 1.2);
	b->near_n = 0;
	for (size_t k = 0; k < b->m->n; k++) {
		if (!too_dear(&b->u[k], b->near_mu, b->near_sigma, b->near_tau)) {
			b->near[b->near_n++] = (int32_t)k;
		}
	}
}

/* Returns how many nodes of a pool these prices call for. *ret_worth: their reduced cost, at most
 * 0. */
static double units_at(const struct bound *b, size_t k, double *ret_worth)
{
	const struct unit_cost *u = &b->u[k];
	double tau = u->fresh ? b->tau : 0, at, n;

	*ret_worth = 0;
	if (too_dear(u, b->mu, b->sigma, b->tau)) {
		return 0;
	}
	at = u->first - (b->mu * u->w + b->sigma * u->fw);
	at += b->tight_n > 0 ? group_prices(b, &b->m->items[k]) : 0;
	n = u->step > 0 ? fmin(fmax(ceil(-at / u->step), 0), u->most) : at < 0 ? u->most : 0;
	n = n < 1 && at < tau ? 1 : n;
	*ret_worth = n > 0 ? fmin(n * at + u->step * n * (n - 1) / 2 - tau, 0) : 0;
	return n;
}

static double cap_left(const struct bound *b, const struct fleet_group *g)
{
	int64_t held = 0;

	for (int32_t k = 0; g->kind != FG_QUOTA && k < g->n; k++) {
		const struct fleet_item *i = &b->m->items[b->m->members[g->first + k]];

		held += MIN(i->held, i->x);
	}
	return (double)MAX(g->cap - held, 0);
}

static void best_keep(struct bound *b, double sum)
{
	if (sum > b->best) {
		b->best = sum;
		for (size_t t = 0; t < b->tight_n; t++) {
			b->best_pi[t] = b->m->groups[b->tight[t]].dual;
		}
	}
}

static double dual_at(struct bound *b)
{
	struct fleet_model *m = b->m;
	double sum = b->base + b->mu * (double)b->cover + b->sigma * (double)b->floor +
	    b->tau * (double)b->pools,
	       worth;

	prices_set(b);
	for (size_t t = 0; t < b->tight_n; t++) {
		const struct fleet_group *g = &m->groups[b->tight[t]];

		sum -= g->dual > 0 ? g->dual * cap_left(b, g) : 0;
	}
	near_make(b);
	for (size_t k = 0; k < b->near_n; k++) {
		units_at(b, (size_t)b->near[k], &worth);
		sum += worth;
	}
	best_keep(b, sum);
	return sum;
}

/* Slopes of the dual at the current prices: demand less supply. */
struct slopes {
	double mu, sigma, tau;
};

static double slopes_at(struct bound *b, const double *left, struct slopes *ret)
{
	struct fleet_model *m = b->m;
	double sum = b->base + b->mu * (double)b->cover + b->sigma * (double)b->floor +
	    b->tau * (double)b->pools;

	*ret = (struct slopes){ (double)b->cover, (double)b->floor, (double)b->pools };
	for (size_t t = 0; t < b->tight_n; t++) {
		b->slope[b->tight[t]] = -left[t];
		sum -= m->groups[b->tight[t]].dual * left[t];
	}
	near_make(b);
	for (size_t at = 0; at < b->near_n; at++) {
		size_t k = (size_t)b->near[at];
		const struct fleet_item *i = &m->items[k];
		double worth, n = units_at(b, k, &worth);

		if (n <= 0) {
			continue;
		}
		sum += worth;
		ret->mu -= n * (double)i->w;
		ret->sigma -= n * (double)i->fw;
		ret->tau -= b->u[k].fresh ? 1 : 0;
		for (int g = 0; g < FLEET_KINDS; g++) {
			if (i->g[g] >= 0) {
				b->slope[i->g[g]] += n * (double)(g == FG_QUOTA ? i->need : 1);
			}
		}
	}
	best_keep(b, sum);
	return sum;
}

/* Prices are per reference node here, so one step length fits all. */
static void step_take(struct bound *b, const struct slopes *s, double above)
{
	struct fleet_model *m = b->m;
	double w = (double)m->w_ref, fw = m->ask->spec->floor_pm > 0 ? w : 1, square = 0;

	square += s->mu / w * (s->mu / w) + s->sigma / fw * (s->sigma / fw) + s->tau * s->tau;
	for (size_t t = 0; t < b->tight_n; t++) {
		const struct fleet_group *g = &m->groups[b->tight[t]];
		double need =
		    g->kind == FG_QUOTA ? (double)MAX(m->items[m->members[g->first]].need, 1) : 1;

		square += b->slope[b->tight[t]] / need * (b->slope[b->tight[t]] / need);
	}
	if (square < 1e-12) {
		return;
	}
	above /= square;
	b->mu = fmax(b->mu + above * s->mu / w / w, 0);
	b->sigma = b->floor > 0 ? fmax(b->sigma + above * s->sigma / fw / fw, 0) : 0;
	b->tau = b->pools > 0 ? fmax(b->tau + above * s->tau, 0) : 0;
	for (size_t t = 0; t < b->tight_n; t++) {
		struct fleet_group *g = &m->groups[b->tight[t]];
		double need =
		    g->kind == FG_QUOTA ? (double)MAX(m->items[m->members[g->first]].need, 1) : 1;

		g->dual = fmax(g->dual + above * b->slope[b->tight[t]] / need / need, 0);
	}
}

static void prices_polish(struct bound *b, double cost, int steps)
{
	struct fleet_model *m = b->m;
	double *left = arena_array(m->arena, b->tight_n + 1, sizeof(*left)), share = 1;
	int still = 0;

	b->slope = arena_array(m->arena, m->groups_n + 1, sizeof(*b->slope));
	for (size_t t = 0; t < b->tight_n; t++) {
		left[t] = cap_left(b, &m->groups[b->tight[t]]);
		m->groups[b->tight[t]].dual = b->best_pi[t];
	}
	for (int k = 0; k < steps && b->best < cost - 1e-6 * fabs(cost); k++) {
		double was = b->best, sum;
		struct slopes s;

		sum = slopes_at(b, left, &s);
		still = b->best > was ? 0 : still + 1;
		if (still >= 10) {
			share *= 0.6;
			still = 0;
		}
		step_take(b, &s, share * (cost - sum));
	}
}

/* Climbs by doubling and shrinking steps. The function has kinks at whole units, so it needs no
 * finer search. */
static void price_climb(struct bound *b, double *v, double step, int rounds)
{
	double at = dual_at(b);

	for (int k = 0; k < rounds && step > 0; k++) {
		double was = *v, up, down;

		*v = was + step;
		up = dual_at(b);
		*v = fmax(was - step, 0);
		down = up > at ? -INFINITY : dual_at(b);
		if (up > at) {
			at = up;
			*v = was + step;
			step *= 1.5;
		} else if (down > at) {
			at = down;
			*v = fmax(was - step, 0);
			step *= 1.5;
		} else {
			*v = was;
			step *= 0.35;
		}
	}
}

static void tight_find(struct bound *b)
{
	static const enum fleet_kind order[] = { FG_PROVIDER, FG_REGION, FG_ZONE, FG_GPU,
		FG_QUOTA };
	struct fleet_model *m = b->m;

	b->tight = arena_array(m->arena, m->groups_n + 1, sizeof(*b->tight));
	b->best_pi = arena_array(m->arena, m->groups_n + 1, sizeof(*b->best_pi));
	for (size_t o = 0; o < ARRAY_LEN(order); o++) {
		for (size_t g = 0; g < m->groups_n; g++) {
			const struct fleet_group *x = &m->groups[g];
			int64_t need = INT64_MAX;

			if (x->kind != order[o] || x->cap == FLEET_NONE) {
				continue;
			}
			for (int32_t k = 0; x->kind == FG_QUOTA && k < x->n; k++) {
				const struct fleet_item *i = &m->items[m->members[x->first + k]];

				need = i->score != NULL ? MIN(need, i->need) : need;
			}
			need = x->kind == FG_QUOTA ? need : 1;
			if (x->used > x->cap - need) {
				b->tight[b->tight_n++] = (int32_t)g;
			}
		}
	}
}

/* Starting prices: the cost of the most expensive picked node of each kind. */
static void start_prices(struct bound *b)
{
	struct fleet_model *m = b->m;
	double rest = 0, floor = 0, all = 0, pools = 0;

	for (size_t k = 0; k < m->n; k++) {
		const struct fleet_item *i = &m->items[k];
		const struct unit_cost *u = &b->u[k];
		bool for_pools = b->pools > 0 && u->fresh && u->picked == 1;

		if (u->picked > 0) {
			all = fmax(all, u->last / (double)i->w);
			if (i->fw == 0 && !for_pools) {
				rest = fmax(rest, u->last / (double)i->w);
			}
		}
	}
	b->mu = rest > 0 ? rest : all;
	for (size_t k = 0; k < m->n; k++) {
		const struct fleet_item *i = &m->items[k];
		const struct unit_cost *u = &b->u[k];

		if (u->picked > 0 && i->fw > 0 && b->floor > 0) {
			floor = fmax(floor, (u->last - b->mu * (double)i->w) / (double)i->fw);
		}
	}
	b->sigma = floor;
	for (size_t k = 0; k < m->n && b->pools > 0; k++) {
		const struct unit_cost *u = &b->u[k];

		if (u->picked == 1 && u->fresh) {
			pools = fmax(pools, u->last - worth_one(b, &m->items[k]));
		}
	}
	b->tau = pools;
}

static double bound_riskless(const struct bound *b)
{
	double held = 0, least = INFINITY, floor = INFINITY;

	for (size_t k = 0; k < b->m->n; k++) {
		const struct fleet_item *i = &b->m->items[k];

		held += i->c * MIN(i->held, i->x);
		if (b->u[k].most > 0) {
			least = fmin(least, i->c / (double)i->w);
			floor = i->fw > 0 ? fmin(floor, i->c / (double)i->fw) : floor;
		}
	}
	return held +
	    fmax(b->cover > 0 && isfinite(least) ? least * (double)b->cover : 0,
		b->floor > 0 && isfinite(floor) ? floor * (double)b->floor : 0);
}

double fleet_bound(struct fleet_model *m)
{
	struct bound b = { .m = m,
		.best = -INFINITY,
		.u = arena_array(m->arena, m->n + 1, sizeof(*b.u)) };
	bool big = m->n > 5000;
	int sweeps = big ? 1 : 4, rounds = big ? 10 : 24;

	needs_make(&b);
	units_make(&b);
	tight_find(&b);
	start_prices(&b);
	dual_at(&b);
	for (int s = 0; s < sweeps; s++) {
		double scale = fmax(b.mu, 1e-9);

		price_climb(&b, &b.mu, scale * 0.05, rounds);
		if (b.floor > 0) {
			price_climb(&b, &b.sigma, fmax(b.sigma * 0.1, scale), rounds);
		}
		if (b.pools > 0) {
			price_climb(&b, &b.tau, fmax(b.tau * 0.1, scale * 10), rounds);
		}
	}
	prices_polish(&b, fleet_cost(m, NULL), (int)MIN(300, POLISH_WORK / (m->n + 1)));
	for (size_t t = 0; t < b.tight_n; t++) {
		m->groups[b.tight[t]].dual = b.best_pi[t];
	}
	return fmax(b.best, bound_riskless(&b));
}
