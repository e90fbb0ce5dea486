/*
 * The model of a pool for policy_auto: the rates at which it is lost and comes back. Rates depend
 * on the age of its state and on its recent availability. Those of a usual pool come from a table
 * fitted on public traces.
 *
 * A pool's own record corrects them by factors with gamma priors (the "frailty" of survival
 * analysis). The levels go from coarse to fine: other pools' tracks, this pool, this pool in this
 * age bin. A level with little evidence adopts the coarser one. Old evidence fades.
 *
 * After reclaims of its siblings a pool is lost sooner: the rise of core/hazard comes on top.
 */
#include "base/base.h"
#include "core/policy/policy_priv.h"

#include <math.h>

#define FADE_AT_FIRST 0.65 /* mean availability of the public traces */
#define AGE_AT_FIRST_H 1.0 /* assumed age of the first state seen */
#define MEMORY_H 200.0 /* half-life of a pool's own evidence */
/* Strength of a level's prior, in predicted changes. */
#define USUAL_WEIGHT 40.0
#define POOL_WEIGHT 10.0
#define BIN_WEIGHT 8.0

const double policy_age_edge_h[POLICY_AGES] = { 0, 10.0 / 60, 0.5, 1, 2, 4, 8, 16 };

int policy_age_bin(double age_h)
{
	int i = POLICY_AGES - 1;

	while (i > 0 && age_h < policy_age_edge_h[i] - 1e-6) {
		i--;
	}
	return i;
}

static double prior_rate(const struct policy_prior *p, bool up, int age, double fade)
{
	double x = fade * (POLICY_FADES - 1);
	int j = MIN((int)x, POLICY_FADES - 2);

	x -= j;
	return p->per_hour[up][age][j] * (1 - x) + p->per_hour[up][age][j + 1] * x;
}

void policy_model_init(struct policy_model *m, struct arena *a, const struct policy_prior *prior,
    size_t pools_n)
{
	size_t n = pools_n > 1 ? pools_n + 1 : 1;

	*m = (struct policy_model){ .prior = prior,
		.pools_n = pools_n,
		.pools = arena_array(a, n, sizeof(*m->pools)) };
	for (size_t i = 0; i < n; i++) {
		m->pools[i].fade = m->pools[i].usual = FADE_AT_FIRST;
	}
}

static void counts_fade(struct policy_counts *c, double keep)
{
	for (int up = 0; up < 2; up++) {
		for (int a = 0; a < POLICY_AGES; a++) {
			c->seen[up][a] *= keep;
			c->due[up][a] *= keep;
		}
	}
}

void policy_pool_see(struct policy_pool *p, const struct policy_prior *prior, bool up, double dt_h)
{
	double keep = exp2(-dt_h / POLICY_FADE_HALF_H);

	if (p->known) {
		int age = policy_age_bin(p->age_h);

		p->own.due[p->up][age] += -expm1(-dt_h * prior_rate(prior, p->up, age, p->fade));
		p->own.seen[p->up][age] += up != p->up;
	}
	if (p->known && up != p->up) {
		counts_fade(&p->own, exp2(-p->age_h / MEMORY_H));
	}
	p->age_h = !p->known ? AGE_AT_FIRST_H : up == p->up ? p->age_h + dt_h : 0;
	p->fade = p->fade * keep + (1 - keep) * up;
	keep = exp2(-dt_h / POLICY_USUAL_HALF_H);
	p->usual = p->usual * keep + (1 - keep) * up;
	p->known = true;
	p->up = up;
}

void policy_model_see(struct policy_model *m, const uint8_t *up, double dt_h)
{
	bool any = false;

	for (size_t i = 0; i < m->pools_n; i++) {
		policy_pool_see(&m->pools[i], m->prior, up[i], dt_h);
		any = any || up[i];
	}
	if (m->pools_n > 1) {
		policy_pool_see(&m->pools[m->pools_n], m->prior, any, dt_h);
	}
}

/* Learns "any of them is up" over the time that all tracks cover, aligned at their ends. */
static void learn_any(struct policy_model *m, const struct policy_track *tracks, size_t n)
{
	const struct policy_track *of[64];
	size_t found = 0, len = SIZE_MAX;

	for (size_t i = 0; i < n; i++) {
		if (tracks[i].pool >= 0 && found < ARRAY_LEN(of) &&
		    (found == 0 || tracks[i].tick_us == of[0]->tick_us)) {
			of[found++] = &tracks[i];
			len = MIN(len, tracks[i].n);
		}
	}
	if (m->pools_n < 2 || found < m->pools_n) {
		return;
	}
	for (size_t k = 0; k < len; k++) {
		bool any = false;

		for (size_t i = 0; i < found; i++) {
			any = any || of[i]->up[of[i]->n - len + k];
		}
		policy_pool_see(&m->pools[m->pools_n], m->prior, any,
		    (double)of[0]->tick_us / 3.6e9);
	}
}

void policy_model_learn(struct policy_model *m, const struct policy_track *tracks, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct policy_track *t = &tracks[i];
		struct policy_pool other = { .fade = FADE_AT_FIRST, .usual = FADE_AT_FIRST };
		bool own = t->pool >= 0 && (size_t)t->pool < m->pools_n;
		struct policy_pool *p = own ? &m->pools[t->pool] : &other;

		for (size_t k = 0; k < t->n; k++) {
			policy_pool_see(p, m->prior, t->up[k], (double)t->tick_us / 3.6e9);
		}
		for (int b = 0; b < 2 * POLICY_AGES && !own; b++) {
			m->usual.seen[b / POLICY_AGES][b % POLICY_AGES] +=
			    p->own.seen[b / POLICY_AGES][b % POLICY_AGES];
			m->usual.due[b / POLICY_AGES][b % POLICY_AGES] +=
			    p->own.due[b / POLICY_AGES][b % POLICY_AGES];
		}
	}
	learn_any(m, tracks, n);
}

static double rate_factor(const struct policy_counts *c, bool up, double prior, double weight)
{
	double seen = weight * prior, due = weight;

	for (int a = 0; a < POLICY_AGES; a++) {
		seen += c->seen[up][a];
		due += c->due[up][a];
	}
	return seen / due;
}

double policy_hazard(const struct policy_model *m, const struct policy_pool *p, bool up, int age,
    double fade)
{
	double f =
	    rate_factor(&p->own, up, rate_factor(&m->usual, up, 1, USUAL_WEIGHT), POOL_WEIGHT);

	f = (BIN_WEIGHT * f + p->own.seen[up][age]) / (BIN_WEIGHT + p->own.due[up][age]);
	return prior_rate(m->prior, up, age, fade) * f;
}

double policy_raised(const struct policy_pool *p, double from_h, double to_h)
{
	return rise_within(&sibling_fitted, &p->rise, to_h) -
	    rise_within(&sibling_fitted, &p->rise, from_h);
}

/* Returns the next edge of ages after this one. */
static double edge_after(double age_h)
{
	int next = policy_age_bin(age_h) + 1;

	return next < POLICY_AGES ? policy_age_edge_h[next] : HUGE_VAL;
}

/* Returns the hours up to limit_h that p stays up. The rise falls meanwhile, so the time is cut
 * finely soon and coarsely later, at the edges of ages. */
static double life_within(const struct policy_model *m, const struct policy_pool *p, double limit_h,
    bool raised)
{
	double at = 0, hours = 0, alive = 1;

	while (at < limit_h) {
		double age = p->age_h + at;
		double h = MIN(MIN(edge_after(age) - age, edge_after(at) - at), limit_h - at);
		double rate = MAX(policy_hazard(m, p, true, policy_age_bin(age), p->fade), 1e-4);

		rate += raised ? policy_raised(p, at, at + h) / h : 0;
		hours += alive * -expm1(-rate * h) / rate;
		alive *= exp(-rate * h);
		at += h;
	}
	return hours;
}

double policy_life(const struct policy_model *m, const struct policy_pool *p, double limit_h)
{
	double age = p->age_h, hours = 0, alive = 1;

	for (int b = policy_age_bin(age); b < POLICY_AGES && hours < limit_h; b++) {
		double rate = MAX(policy_hazard(m, p, true, b, p->fade), 1e-4);
		double span = b + 1 < POLICY_AGES
		    ? policy_age_edge_h[b + 1] - MIN(age, policy_age_edge_h[b + 1])
		    : limit_h;
		double live = alive * -expm1(-rate * MIN(span, limit_h)) / rate;

		hours += live;
		alive *= exp(-rate * span);
		age += span;
	}
	hours = MIN(hours, limit_h);
	return rise_any(&p->rise) && limit_h > 0
	    ? hours * life_within(m, p, limit_h, true) / life_within(m, p, limit_h, false)
	    : hours;
}
