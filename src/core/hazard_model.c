/*
 * The hazard model: gamma-Poisson shrinkage up and down a tree of groups (README.md "The hazard" has the maths).
 * A pool's rate is what its signal says times a ratio; ratios of the members of a group vary about the group's by
 * Gamma(nu, nu / ratio). What a member says upwards and what it hears downwards are counts of reclaims seen and
 * expected, each discounted by what the variation in between lets through, and a pool never hears its own record back.
 */
#include "base/base.h"
#include "base/arena.h"
#include "core/hazard_priv.h"

#include <math.h>

#define SLOTS_MIN 64
/* Kinds of ratio that a signal has for a pool whose group is known, by level: one of variation about the group's. */
static const double nu_default[LEVEL_POOL + 1] = {1, 2, 3, 3, 4};
/* How many members' worth of evidence the defaults weigh against the variation observed. */
#define NU_WEIGHT 8.0
/* What a pool is just now, about what it is in the long run. */
#define NOW_NU 2.0
/* What it will be in the next hours, about what it is just now: in the interval, not in the mean. */
#define NEXT_NU 2.0
/* With this probability what signal and neighbours say of one pool is nearly worthless: its own record then counts from
 * policy.prior_hours of exposure on (a mixture prior; Schmidli et al. 2014). */
#define WORTHLESS 0.1

/* ---- names to ids ------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ (h >> 29);
}

static uint64_t text_hash(uint64_t h, const char *s, size_t n)
{
	uint64_t v;

	for (; n >= sizeof(v); s += sizeof(v), n -= sizeof(v)) {
		memcpy(&v, s, sizeof(v));
		h = mix(h, v);
	}
	v = 0;
	memcpy(&v, s, n);
	return mix(h, v ^ ((uint64_t)n << 56));
}

static uint64_t name_hash(uint64_t h, const char *s)
{
	return s == NULL ? mix(h, 0) : text_hash(h, s, strlen(s));
}

/* What shares hardware: the GPU; without one the type's name up to its size: "m5" of m5.large, "n2" of n2-standard-4,
 * "Standard_D" of Standard_D4s_v5. */
static uint64_t family_hash(const struct offer *o)
{
	const char *t = o->instance_type;

	if (o->gpu_name != NULL && o->gpu_name[0] != '\0') {
		return text_hash(1, o->gpu_name, strlen(o->gpu_name));
	}
	if (t == NULL) {
		return 1;
	}
	return strncmp(t, "Standard_", 9) == 0 ? text_hash(2, t, 9 + strcspn(t + 9, "0123456789"))
	                                       : text_hash(2, t, strcspn(t, ".-"));
}

struct place {
	uint64_t provider, region, zone, family;
	enum signal signal;
};

static void place_hash(const struct offer *o, enum signal signal, struct place *ret)
{
	ret->signal = signal;
	ret->provider = name_hash(mix(mix(3, (uint64_t)o->market), (uint64_t)signal), o->provider);
	ret->region = name_hash(ret->provider, o->region);
	ret->zone = name_hash(ret->region, o->zone);
	ret->family = family_hash(o);
}

static uint64_t group_key(const struct place *place, enum level level)
{
	uint64_t h = mix(place->provider, level);

	switch (level) {
	case LEVEL_PROVIDER:
		break;
	case LEVEL_FAMILY:
		h = mix(h, place->family);
		break;
	case LEVEL_REGION:
		h = mix(mix(h, place->family), place->region);
		break;
	case LEVEL_ZONE:
	case LEVEL_POOL:
		h = mix(mix(h, place->family), place->zone);
		break;
	}
	return h | 1;                  /* 0 is an empty slot */
}

static size_t slot_of(const struct hazard_model *m, uint64_t key)
{
	size_t i = (size_t)(key >> 7) & (m->slots_n - 1);

	while (m->keys[i] != 0 && m->keys[i] != key) {
		i = (i + 1) & (m->slots_n - 1);
	}
	return i;
}

static void slots_grow(struct arena *a, struct hazard_model *m)
{
	const uint64_t *keys = m->keys;
	const int32_t *slots = m->slots;
	size_t n = m->slots_n;

	m->slots_n = n == 0 ? SLOTS_MIN : n * 4;
	m->keys = arena_array(a, m->slots_n, sizeof(*m->keys));
	m->slots = arena_array(a, m->slots_n, sizeof(*m->slots));
	for (size_t i = 0; i < n; i++) {
		if (keys[i] != 0) {
			size_t to = slot_of(m, keys[i]);

			m->keys[to] = keys[i];
			m->slots[to] = slots[i];
		}
	}
}

/* The group of this level, made with all above it if it is not there. */
static int32_t group_get(struct arena *a, struct hazard_model *m, const struct place *place, enum level level)
{
	uint64_t key = group_key(place, level);
	size_t slot = slot_of(m, key);
	int32_t parent = -1;
	struct group *g;

	if (m->keys[slot] != 0) {
		return m->slots[slot];
	}
	if (level != LEVEL_PROVIDER) {
		parent = group_get(a, m, place, level - 1);
	}
	if ((m->groups_n + 1) * 2 > m->slots_n) {
		slots_grow(a, m);
	}
	slot = slot_of(m, key);
	m->groups = arena_grow(a, m->groups, m->groups_n, &m->groups_cap, sizeof(*m->groups));
	g = &m->groups[m->groups_n];
	*g = (struct group){.parent = parent, .level = level, .signal = place->signal};
	g->a = g->b = signal_shape(place->signal);
	m->keys[slot] = key;
	m->slots[slot] = (int32_t)m->groups_n;
	return (int32_t)m->groups_n++;
}

int32_t model_group(const struct hazard_model *m, const struct offer *o)
{
	struct place place;

	place_hash(o, hazard_prior(o, m->policy).signal, &place);
	for (int level = LEVEL_ZONE; level >= LEVEL_PROVIDER; level--) {
		size_t slot = slot_of(m, group_key(&place, (enum level)level));

		if (m->keys[slot] != 0) {
			return m->slots[slot];
		}
	}
	return -1;
}

/* ---- pool ids ---------------------------------------------------------------------------------- */

static size_t id_slot(const struct hazard_model *m, int32_t id)
{
	size_t i = (size_t)(mix(5, (uint32_t)id) >> 7) & (m->ids_n - 1);

	while (m->ids[i] >= 0 && m->offers[m->ids[i]].pool_id != id) {
		i = (i + 1) & (m->ids_n - 1);
	}
	return i;
}

/* Offers come ordered by id from the database; only others need a table. */
static void ids_index(struct arena *a, struct hazard_model *m)
{
	size_t i = 1;

	while (i < m->n && m->offers[i - 1].pool_id < m->offers[i].pool_id) {
		i++;
	}
	if (i >= m->n) {
		return;
	}
	for (m->ids_n = SLOTS_MIN; m->ids_n < m->n * 2; m->ids_n *= 2) {
	}
	m->ids = arena_array(a, m->ids_n, sizeof(*m->ids));
	memset(m->ids, 0xff, m->ids_n * sizeof(*m->ids));
	for (i = 0; i < m->n; i++) {
		m->ids[id_slot(m, m->offers[i].pool_id)] = (int32_t)i;
	}
}

const struct offer *model_find(const struct hazard_model *m, const struct offer *o)
{
	size_t lo = 0, hi = m->n;

	if (o >= m->offers && o < m->offers + m->n) {
		return o;
	}
	if (m->ids != NULL) {
		int32_t i = m->ids[id_slot(m, o->pool_id)];

		return i < 0 ? NULL : &m->offers[i];
	}
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (m->offers[mid].pool_id < o->pool_id) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo < m->n && m->offers[lo].pool_id == o->pool_id ? &m->offers[lo] : NULL;
}

/* ---- evidence up, belief down ------------------------------------------------------------------ */

struct own own_of(const struct offer *o)
{
	const struct offer_record *r = o->record;

	if (r == NULL) {
		return (struct own){.hours = (double)o->own_node_us / (double)SPOT_US_PER_HOUR, .reclaims = o->own_reclaims,
			.launches = o->own_launches, .refusals = o->own_refusals, .cluster = 1};
	}
	return (struct own){r->node_hours, r->reclaims, r->launches, r->refusals, fmin(r->recent_hours, r->node_hours),
		fmin(r->recent_reclaims, r->reclaims),
		r->reclaim_hours > 0 ? fmax(r->reclaims / r->reclaim_hours, 1) : 1};
}

static bool own_any(const struct own *own)
{
	return own->hours > 0 || own->reclaims > 0 || own->launches > 0 || own->refusals > 0;
}

/* What o reclaims seen and e expected say of the group's ratio, when members vary about it by nu. */
static void message(double nu, double o, double e, double *ret_o, double *ret_e)
{
	double through = nu / (nu + fmax(o, e * (nu + o) / (nu + e)));

	*ret_o = o * through;
	*ret_e = e * through;
}

/* Gamma(a, b) of a group's ratio as that of a member's. */
static void diffuse(double nu, double *a, double *b)
{
	double shape = *a * nu / (*a + nu + 1);

	*b *= shape / *a;
	*a = shape;
}

static void evidence_up(struct hazard_model *m)
{
	for (size_t i = m->groups_n; i-- > 0;) {
		struct group *g = &m->groups[i];

		if (g->parent >= 0) {
			message(m->nu[g->level], g->o, g->e, &g->up_o, &g->up_e);
			m->groups[g->parent].o += g->up_o;
			m->groups[g->parent].e += g->up_e;
		}
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

/* The ratio of a pool of this group, before its own record: up_* is what the pool told the group. */
static void leaf_prior(const struct hazard_model *m, const struct group *g, double up_o, double up_e, double *ret_a,
    double *ret_b)
{
	*ret_a = g->a + fmax(g->o - up_o, 0);
	*ret_b = g->b + fmax(g->e - up_e, 0);
	diffuse(m->nu[LEVEL_POOL], ret_a, ret_b);
}

/* What a pool's record says to its group. Reclaims that come together are one piece of evidence. */
static void leaf_up(const struct hazard_model *m, const struct own *own, double rate, double *ret_o, double *ret_e)
{
	message(m->nu[LEVEL_POOL], own->reclaims / own->cluster, own->hours / own->cluster * rate, ret_o, ret_e);
}

static void leaves_up(struct hazard_model *m)
{
	for (size_t i = 0; i < m->groups_n; i++) {
		m->groups[i].o = m->groups[i].e = 0;
	}
	for (size_t i = 0; i < m->n; i++) {
		struct own own = own_of(&m->offers[i]);
		double o, e;

		if (own.hours > 0 || own.reclaims > 0) {
			struct group *g = &m->groups[m->leaves[i].group];

			leaf_up(m, &own, (double)m->leaves[i].rate, &o, &e);
			g->o += o;
			g->e += e;
		}
	}
}

/* ---- how much members vary about their group, from the members themselves ----------------------- */

struct moments {
	double seen[LEVEL_POOL + 1], of[LEVEL_POOL + 1];
};

/* (o - mu)^2 - o estimates mu^2 / nu; a member counts by what it can say, at most 1. */
static void moments_add(struct moments *s, enum level level, double o, double mu)
{
	double w = 1 / ((1 + mu) * (1 + mu));

	s->seen[level] += w * ((o - mu) * (o - mu) - mu);
	s->of[level] += w * mu * mu;
}

static void variation_estimate(struct hazard_model *m)
{
	struct moments s = {0};

	for (size_t i = 0; i < m->groups_n; i++) {
		const struct group *g = &m->groups[i];

		moments_add(&s, g->level, g->o, g->e * g->a / g->b);
	}
	for (size_t i = 0; i < m->n; i++) {
		struct own own = own_of(&m->offers[i]);

		if (own.hours > 0 || own.reclaims > 0) {
			double rate = (double)m->leaves[i].rate, o, e, a, b;

			leaf_up(m, &own, rate, &o, &e);
			leaf_prior(m, &m->groups[m->leaves[i].group], o, e, &a, &b);
			moments_add(&s, LEVEL_POOL, own.reclaims / own.cluster, own.hours / own.cluster * rate * a / b);
		}
	}
	for (int level = LEVEL_FAMILY; level <= LEVEL_POOL; level++) {
		double d = nu_default[level], v = (NU_WEIGHT / d + fmax(s.seen[level], 0)) / (NU_WEIGHT + s.of[level]);

		m->nu[level] = fmin(fmax(1 / v, d / 8), d * 8);
	}
}

/* ---- the model ---------------------------------------------------------------------------------- */

static void offers_group(struct arena *a, struct hazard_model *m)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct offer *o = &m->offers[i];
		struct prior prior = hazard_prior(o, m->policy);
		struct own own = own_of(o);
		struct group place = {0};
		double l, r;

		place_hash(o, prior.signal, &place);
		m->leaves[i].group = group_get(a, m, &place, LEVEL_ZONE, prior.shape);
		m->leaves[i].rate = (float)prior.rate;
		if (own_any(&own)) {
			odds_leaf_up(&own, &l, &r);
			m->groups[m->leaves[i].group].l += l;
			m->groups[m->leaves[i].group].r += r;
		}
		if (o->record != NULL) {
			day_add(&m->groups[m->leaves[i].group], o->record);
		}
	}
}

struct hazard_model *hazard_model_build(struct arena *a, const struct offer *offers, size_t n, const struct rank_policy *p,
    int64_t now_us)
{
	struct hazard_model *m = arena_alloc(a, sizeof(*m));

	m->offers = offers;
	m->n = n;
	m->policy = p;
	m->now_us = now_us;
	m->leaves = arena_array(a, n + 1, sizeof(*m->leaves));
	memcpy(m->nu, nu_default, sizeof(m->nu));
	slots_grow(a, m);
	ids_index(a, m);
	offers_group(a, m);
	leaves_up(m);
	evidence_up(m);
	belief_down(m);
	variation_estimate(m);
	leaves_up(m);
	evidence_up(m);
	belief_down(m);
	odds_up(m);
	odds_down(m);
	day_estimate(m);
	joint_estimate(m);
	return m;
}

/* ---- queries ------------------------------------------------------------------------------------ */

/* ln of the probability of o reclaims in t hours under Gamma(shape, shape / mean), but for what is the same for all. */
static double evidence_ln(double shape, double mean, double o, double t)
{
	double b = shape / mean;
	int sign;

	return shape * log(b / (b + t)) - o * log(b + t) + (o > 0 ? lgamma_r(shape + o, &sign) - lgamma_r(shape, &sign) : 0);
}

/* Mean and variance after o reclaims in t hours; the prior is Gamma(shape, .) of this mean, or with probability WORTHLESS
 * one of the same mean that weighs only hours. */
static void update(double shape, double mean, double hours, double o, double t, double *ret_mean, double *ret_var)
{
	double strong = shape / mean, m1 = (shape + o) / (strong + t), v1 = m1 / (strong + t);
	double p, m2, v2;

	*ret_mean = m1;
	*ret_var = v1;
	if (strong <= hours || (o <= 0 && t <= 0)) {
		return;
	}
	p = log(WORTHLESS / (1 - WORTHLESS)) + evidence_ln(mean * hours, mean, o, t) - evidence_ln(shape, mean, o, t);
	p = 1 / (1 + exp(-p));
	m2 = (mean * hours + o) / (hours + t);
	v2 = m2 / (hours + t);
	*ret_mean = p * m2 + (1 - p) * m1;
	*ret_var = p * v2 + (1 - p) * v1 + p * (1 - p) * (m2 - m1) * (m2 - m1);
}

/* The weight in hours with which the prior mean and the record make that mean. */
static double weight_of(double prior_mean, double mean, double o, double t, double strong)
{
	double w = (o - mean * t) / (mean - prior_mean);

	return isfinite(w) && w >= 0 ? fmin(w, strong) : strong;
}

/* What the conversion of the signal leaves in doubt, as long as little is known otherwise. */
static void doubt_add(const struct hazard_model *m, const struct offer *o, double shape, double known, struct hazard *h)
{
	struct prior prior = hazard_prior(o, m->policy);
	double ratio = h->group_per_hour / prior.rate, none = prior.shape, b = 1, share;

	for (int level = LEVEL_FAMILY; level <= LEVEL_POOL; level++) {
		diffuse(m->nu[level], &none, &b);
	}
	share = fmin(none / shape, 1) * known;
	share *= share;
	h->hi += share * fmax(prior.hi * ratio - h->hi, 0);
	h->lo -= share * fmax(h->lo - prior.lo * ratio, 0);
}

static const char *source_of(const struct own *own, const struct group *g, const struct prior *prior)
{
	if (own->reclaims > 0 || own->hours >= 1) {
		return "own record and prior";
	}
	return g != NULL && g->a + g->o > prior->shape ? "neighbours and prior" : prior->source;
}

static void up_of(const struct hazard_model *m, const struct offer *base, double *ret_o, double *ret_e)
{
	*ret_o = *ret_e = 0;
	if (base != NULL) {
		struct own own = own_of(base);

		leaf_up(m, &own, (double)m->leaves[base - m->offers].rate, ret_o, ret_e);
	}
}

/* Gamma of the pool's ratio by signal and neighbours. */
static void pool_prior(const struct hazard_model *m, const struct offer *base, const struct group *g, double shape,
    double *ret_a, double *ret_b)
{
	double up_o, up_e;
	int level = LEVEL_FAMILY;

	*ret_a = *ret_b = shape;
	if (g != NULL && g->level == LEVEL_ZONE) {
		up_of(m, base, &up_o, &up_e);
		leaf_prior(m, g, up_o, up_e, ret_a, ret_b);
		return;
	}
	if (g != NULL) {
		*ret_a = g->a + g->o;
		*ret_b = g->b + g->e;
		level = (int)g->level + 1;
	}
	for (; level <= LEVEL_POOL; level++) {
		diffuse(m->nu[level], ret_a, ret_b);
	}
}

/* How the pool is just now: what it is in the long run, by the last hours. */
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

void hazard_of(const struct hazard_model *m, const struct offer *o, struct hazard *ret)
{
	const struct offer *base = model_find(m, o);
	struct prior prior = hazard_prior(o, m->policy);
	int32_t at = base == o ? m->leaves[o - m->offers].group : model_group(m, o);
	const struct group *g = at < 0 ? NULL : &m->groups[at];
	struct own own = own_of(o);
	double hours = own.hours - own.recent_hours, reclaims = own.reclaims - own.recent_reclaims;
	double a, b, mean, var, shape;

	pool_prior(m, base, g, prior.shape, &a, &b);
	*ret = (struct hazard){.prior_per_hour = prior.rate, .group_per_hour = prior.rate * a / b, .own_hours = hours,
		.own_reclaims = reclaims, .day_factor = g == NULL ? 1 : g->day_factor, .source = source_of(&own, g, &prior)};
	update(a, ret->group_per_hour, m->policy->prior_hours * prior.weight, reclaims / own.cluster, hours / own.cluster,
	    &mean, &var);
	ret->weight_hours = weight_of(ret->group_per_hour, mean, reclaims, hours, own.cluster * a / ret->group_per_hour);
	now_update(&own, &mean, &var, ret);
	shape = mean * mean / var;
	diffuse(NEXT_NU, &shape, &b);
	gamma_interval(shape, &ret->lo, &ret->hi);
	ret->lo *= mean / shape;
	ret->hi *= mean / shape;
	if (prior.hi > prior.lo) {
		doubt_add(m, o, a, ret->weight_hours / (ret->weight_hours + own.hours), ret);
	}
	ret->per_hour = mean * ret->day_factor;
	ret->lo = fmin(ret->lo * ret->day_factor, ret->per_hour);
	ret->hi = fmax(ret->hi * ret->day_factor, ret->per_hour);
}
