/*
 * The hazard model: gamma-Poisson shrinkage up and down a tree of groups (README.md has the maths).
 * A pool's rate is its signal's rate times a ratio. The ratios of a group's members vary about the
 * group's by Gamma(nu, nu / ratio). Messages in both directions are counts of reclaims, seen and
 * expected. Each is discounted by the variation in between. A pool never hears its own record back.
 */
#include "base/base.h"
#include "core/hazard/hazard_priv.h"

#include <math.h>

/* Prior 1 / relative variance of a member's ratio about its group's, by level. */
static const double nu_default[LEVEL_POOL + 1] = { 1, 2, 3, 3, 4 };
/* Weight of the defaults against the observed variation, in members. */
#define NU_WEIGHT 8.0
#define PRIORS_KEPT 16

/* ---- evidence up, belief down ---------------------------------------------------------------- */

struct own own_of(const struct offer *o)
{
	const struct offer_record *r = o->record;

	if (r == NULL) {
		return (struct own){ .hours = (double)o->own_node_us / (double)SPOT_US_PER_HOUR,
			.reclaims = o->own_reclaims,
			.launches = o->own_launches,
			.refusals = o->own_refusals,
			.cluster = 1 };
	}
	return (struct own){ r->node_hours, r->reclaims, r->launches, r->refusals,
		fmin(r->recent_hours, r->node_hours), fmin(r->recent_reclaims, r->reclaims),
		r->reclaim_hours > 0 ? fmax(r->reclaims / r->reclaim_hours, 1) : 1 };
}

bool own_any(const struct offer *o)
{
	return o->record != NULL || o->reclaimed_us > 0 || o->own_node_us > 0 ||
	    o->own_reclaims > 0 || o->own_launches > 0 || o->own_refusals > 0;
}

/* Discounts o reclaims seen and e expected of a member for its group, whose members vary by nu. The
 * credibility depends only on the expected reclaims, so the group hears the mean of its members on
 * average. */
static void message_up(double nu, double about, double o, double e, double *ret_o, double *ret_e)
{
	double through = nu / (nu + e * about);

	*ret_o = o * through;
	*ret_e = e * through;
}

/* Reclaims that come together count as one piece of evidence. */
void leaf_up(const struct hazard_model *m, const struct own *own, const struct leaf *leaf,
    double *ret_o, double *ret_e)
{
	message_up(m->nu[LEVEL_POOL], m->groups[leaf->group].about, own->reclaims / own->cluster,
	    own->hours / own->cluster * (double)leaf->rate, ret_o, ret_e);
}

void diffuse(double nu, double *a, double *b)
{
	double shape = *a * nu / (*a + nu + 1);

	*b *= shape / *a;
	*a = shape;
}

void leaf_prior(const struct hazard_model *m, const struct group *g, double up_o, double up_e,
    double *ret_a, double *ret_b)
{
	*ret_a = g->a + fmax(g->o - up_o, 0);
	*ret_b = g->b + fmax(g->e - up_e, 0);
	diffuse(m->nu[LEVEL_POOL], ret_a, ret_b);
}

static void evidence_up(struct hazard_model *m)
{
	for (size_t i = 0; i < m->groups_n; i++) {
		m->groups[i].o = m->groups[i].e = 0;
	}
	for (size_t i = 0; i < m->used_n; i++) {
		const struct leaf *leaf = &m->leaves[m->used[i]];
		struct own own = own_of(&m->offers[m->used[i]]);
		double o, e;

		leaf_up(m, &own, leaf, &o, &e);
		m->groups[leaf->group].o += o;
		m->groups[leaf->group].e += e;
	}
	for (size_t i = m->groups_n; i-- > 0;) {
		struct group *g = &m->groups[i];

		if (g->parent >= 0) {
			message_up(m->nu[g->level], m->groups[g->parent].about, g->o, g->e,
			    &g->up_o, &g->up_e);
			m->groups[g->parent].o += g->up_o;
			m->groups[g->parent].e += g->up_e;
		}
	}
}

/* Sets the starting ratios: the provider's reclaims over the expected ones. o and e are plain sums
 * here. */
static void ratios_begin(struct hazard_model *m)
{
	for (size_t i = 0; i < m->used_n; i++) {
		const struct leaf *leaf = &m->leaves[m->used[i]];
		struct own own = own_of(&m->offers[m->used[i]]);
		struct group *g = &m->groups[leaf->group];

		while (g->parent >= 0) {
			g = &m->groups[g->parent];
		}
		g->o += own.reclaims / own.cluster;
		g->e += own.hours / own.cluster * (double)leaf->rate;
	}
	for (size_t i = 0; i < m->groups_n; i++) {
		struct group *g = &m->groups[i];

		g->about =
		    g->parent >= 0 ? m->groups[g->parent].about : (g->a + g->o) / (g->b + g->e);
	}
}

static void ratios_again(struct hazard_model *m)
{
	for (size_t i = 0; i < m->groups_n; i++) {
		struct group *g = &m->groups[i];

		g->about = (g->a + g->o) / (g->b + g->e);
	}
}

static void belief_down(struct hazard_model *m)
{
	for (size_t i = 0; i < m->groups_n; i++) {
		struct group *g = &m->groups[i];

		if (g->parent >= 0) {
			const struct group *p = &m->groups[g->parent];

			g->a = p->a + fmax(p->o - g->up_o, 0);
			g->b = p->b + fmax(p->e - g->up_e, 0);
			diffuse(m->nu[g->level], &g->a, &g->b);
		}
	}
}

/* ---- how much members vary about their group, from the members themselves -------------------- */

struct moments {
	double seen[LEVEL_POOL + 1], of[LEVEL_POOL + 1];
};

/* (o - mu)^2 - mu estimates mu^2 / nu. A member counts by its evidence, at most 1. */
static void moments_add(struct moments *s, enum level level, double o, double mu)
{
	double w = 1 / ((1 + mu) * (1 + mu));

	s->seen[level] += w * ((o - mu) * (o - mu) - mu);
	s->of[level] += w * mu * mu;
}

static void variation_estimate(struct hazard_model *m)
{
	struct moments s = { 0 };

	for (size_t i = 0; i < m->groups_n; i++) {
		const struct group *g = &m->groups[i];

		moments_add(&s, g->level, g->o, g->e * g->a / g->b);
	}
	for (size_t i = 0; i < m->used_n; i++) {
		const struct leaf *leaf = &m->leaves[m->used[i]];
		struct own own = own_of(&m->offers[m->used[i]]);
		double o, e, a, b;

		leaf_up(m, &own, leaf, &o, &e);
		leaf_prior(m, &m->groups[leaf->group], o, e, &a, &b);
		moments_add(&s, LEVEL_POOL, own.reclaims / own.cluster,
		    own.hours / own.cluster * (double)leaf->rate * a / b);
	}
	for (int level = LEVEL_FAMILY; level <= LEVEL_POOL; level++) {
		double d = nu_default[level],
		       v = (NU_WEIGHT / d + fmax(s.seen[level], 0)) / (NU_WEIGHT + s.of[level]);

		m->nu[level] = fmin(fmax(1 / v, d / 8), d * 8);
	}
}

/* ---- the model ------------------------------------------------------------------------------- */

/* A cache: signals have few distinct values, so most pools need no logarithm. */
struct priors {
	struct {
		double lo, hi;
		struct prior prior;
		bool set;
	} kept[PRIORS_KEPT];
};

static struct prior prior_cached(struct priors *c, const struct offer *o,
    const struct rank_policy *p)
{
	size_t i;

	if (o->market != SPOT_MARKET_SPOT || !(o->advisor_lo >= 0)) {
		return hazard_prior(o, p);
	}
	i = (size_t)(fmin(o->advisor_lo + o->advisor_hi, 2) * 20) % PRIORS_KEPT;
	/* Equal in every bit, or computed again. */
	/* NOLINTBEGIN(bugprone-suspicious-memory-comparison,cert-exp42-c,cert-flp37-c) */
	if (!c->kept[i].set || memcmp(&c->kept[i].lo, &o->advisor_lo, sizeof(double)) != 0 ||
	    memcmp(&c->kept[i].hi, &o->advisor_hi, sizeof(double)) != 0) {
		/* NOLINTEND(bugprone-suspicious-memory-comparison,cert-exp42-c,cert-flp37-c) */
		c->kept[i].lo = o->advisor_lo;
		c->kept[i].hi = o->advisor_hi;
		c->kept[i].prior = hazard_prior(o, p);
		c->kept[i].set = true;
	}
	return c->kept[i].prior;
}

static void used_add(struct arena *a, struct hazard_model *m, size_t i, size_t *cap)
{
	const struct offer *o = &m->offers[i];
	struct group *g = &m->groups[m->leaves[i].group];
	struct own own = own_of(o);
	double l, r;

	m->used = arena_grow(a, m->used, m->used_n, cap, sizeof(*m->used));
	m->used[m->used_n++] = (uint32_t)i;
	odds_leaf_up(&own, &l, &r);
	g->l += l;
	g->r += r;
	if (o->record != NULL) {
		day_add(g, o->record);
	}
}

/* Prefetches the fields of a later offer that this file reads. They lie scattered in memory. */
static void offer_fetch(const struct hazard_model *m, size_t i)
{
	const char *o = (const char *)&m->offers[MIN(i, m->n - 1)];

	for (size_t at = 0; at < sizeof(struct offer); at += 64) {
		__builtin_prefetch(o + at);
	}
}

static void offers_group(struct arena *a, struct hazard_model *m)
{
	struct priors *priors = arena_alloc(a, sizeof(*priors));
	struct name_near *near = arena_array(a, NAMES_NEAR, sizeof(*near));
	size_t cap = 0;

	for (size_t from = 0; from < m->n; from += JOIN_MAX) {
		size_t n = MIN(m->n - from, JOIN_MAX);

		for (size_t i = from; i < from + n; i++) {
			struct prior prior = prior_cached(priors, &m->offers[i], m->policy);

			offer_fetch(m, i + 8);
			m->leaves[i] = (struct leaf){ .signal = prior.signal,
				.rate = (float)prior.rate,
				.lo = (float)prior.lo,
				.hi = (float)prior.hi };
		}
		model_join(a, m, near, from, n);
		for (size_t i = from; i < from + n; i++) {
			if (own_any(&m->offers[i])) {
				used_add(a, m, i, &cap);
			}
		}
	}
}

struct hazard_model *hazard_model_build(struct arena *a, const struct offer *offers, size_t n,
    const struct rank_policy *p, int64_t now_us)
{
	struct hazard_model *m = arena_alloc(a, sizeof(*m));

	m->offers = offers;
	m->n = n;
	m->policy = p;
	m->now_us = now_us;
	m->leaves = arena_array(a, n + 1, sizeof(*m->leaves));
	memcpy(m->nu, nu_default, sizeof(m->nu));
	model_ids(a, m);
	offers_group(a, m);
	ratios_begin(m);
	evidence_up(m);
	belief_down(m);
	variation_estimate(m);
	ratios_again(m);
	evidence_up(m);
	belief_down(m);
	odds_up(m);
	odds_down(m);
	day_estimate(m);
	joint_estimate(m);
	siblings_collect(a, m);
	unused_estimate(a, m);
	return m;
}

void hazard_alone(const struct rank_policy *p, const struct offer *o, struct hazard *ret,
    struct odds *ret_odds)
{
	struct hazard_model m = { .policy = p };

	memcpy(m.nu, nu_default, sizeof(m.nu));
	hazard_of(&m, o, ret);
	if (ret_odds != NULL) {
		hazard_odds(&m, o, ret_odds);
	}
}
