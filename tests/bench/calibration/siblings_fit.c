/* The fit of the rise. The quick shares come from reclaims in one slot, since most slots are longer
 * than a burst. The slow shares and their pace come from the slots that follow, by likelihood. */
#include "base/base.h"

#include "siblings.h"

#include <math.h>

#define SHARE_MAX 0.9
#define ROUNDS 3
#define GOLDEN 0.6180339887498949

struct look *looks_add(struct looks *all)
{
	if (all->n == all->cap) {
		all->cap = all->cap == 0 ? 4096 : all->cap * 2;
		all->list = realloc(all->list, all->cap * sizeof(*all->list));
		if (all->list == NULL) {
			abort();
		}
	}
	all->list[all->n] = (struct look){ 0 };
	return &all->list[all->n++];
}

/* ---- the quick part -------------------------------------------------------------------------- */

/* The share of its probability that a strike at a random moment of a slot spends within it. */
static double covered(double tau_h, double hours)
{
	return 1 - tau_h / hours * -expm1(-hours / tau_h);
}

/* The share of the nodes of a struck pool, beyond the first, that go in the same slot, beyond
 * chance. */
static double quick_own(const struct looks *all, double tau_h)
{
	double seen = 0, of = 0;

	for (size_t i = 0; i < all->n; i++) {
		const struct look *l = &all->list[i];

		if (l->part == PART_FIT && l->nodes >= 2 && l->lost >= 1) {
			seen += (l->lost - 1) / (l->nodes - 1) - -expm1(-l->usual * l->hours);
			of += covered(tau_h, l->hours);
		}
	}
	return of > 0 ? fmin(fmax(seen / of, 0), SHARE_MAX) : 0;
}

/* The same of a pool while one that shares so much is struck. Either may have been the first, so
 * that half of it is a strike's share. */
static double quick_other(const struct looks *all, enum sibling level, double tau_h)
{
	double seen = 0, of = 0;

	for (size_t i = 0; i < all->n; i++) {
		const struct look *l = &all->list[i];

		if (l->part == PART_FIT && l->with[level] > 0) {
			seen += l->lost / l->nodes - -expm1(-l->usual * l->hours);
			of += l->with[level] * covered(tau_h, l->hours);
		}
	}
	return of > 0 ? fmin(fmax(seen / of / 2, 0), SHARE_MAX) : 0;
}

/* ---- the slow part --------------------------------------------------------------------------- */

static double likelihood(const struct looks *all, const struct sibling_fit *fit)
{
	double sum = 0;

	for (size_t i = 0; i < all->n; i++) {
		const struct look *l = &all->list[i];
		struct rise r = { 0 };
		double rate;

		if (l->part != PART_FIT) {
			continue;
		}
		for (size_t k = 0; k < l->strikes_n; k++) {
			rise_add(fit, l->strikes[k].level, l->strikes[k].age_h, &r);
		}
		rate = l->usual + rise_within(fit, &r, l->hours) / l->hours;
		sum += l->lost / l->nodes * log(rate) - rate * l->hours;
	}
	return sum;
}

static double likelihood_at(const struct looks *all, struct sibling_fit *fit, double *at, double v)
{
	*at = v;
	return likelihood(all, fit);
}

/* Golden section; the likelihood has one maximum along a share. */
static void share_climb(const struct looks *all, struct sibling_fit *fit, double *share)
{
	double lo = 0, hi = SHARE_MAX, a = hi - GOLDEN * (hi - lo), b = lo + GOLDEN * (hi - lo);
	double at_a = likelihood_at(all, fit, share, a), at_b = likelihood_at(all, fit, share, b);

	while (hi - lo > 1e-3) {
		if (at_a > at_b) {
			hi = b;
			b = a;
			at_b = at_a;
			a = hi - GOLDEN * (hi - lo);
			at_a = likelihood_at(all, fit, share, a);
		} else {
			lo = a;
			a = b;
			at_a = at_b;
			b = lo + GOLDEN * (hi - lo);
			at_b = likelihood_at(all, fit, share, b);
		}
	}
	*share = (lo + hi) / 2;
	if (likelihood_at(all, fit, share, (lo + hi) / 2) < likelihood_at(all, fit, share, 0)) {
		return; /* 0 is set */
	}
	*share = (lo + hi) / 2;
}

void looks_fit(const struct looks *all, struct sibling_fit *fit)
{
	static const double paces_h[] = { 5 / 60.0, 10 / 60.0, 20 / 60.0, 30 / 60.0, 45 / 60.0, 1,
		1.5 };
	struct sibling_fit best = *fit;
	double most = -HUGE_VAL;

	fit->share[SIBLING_POOL][RISE_QUICK] = quick_own(all, fit->tau_h[RISE_QUICK]);
	for (int level = SIBLING_ZONE; level < SIBLING_LEVELS; level++) {
		fit->share[level][RISE_QUICK] =
		    quick_other(all, (enum sibling)level, fit->tau_h[RISE_QUICK]);
	}
	for (size_t p = 0; p < ARRAY_LEN(paces_h); p++) {
		fit->tau_h[RISE_SLOW] = paces_h[p];
		for (int round = 0; round < ROUNDS; round++) {
			for (int level = 0; level < SIBLING_LEVELS; level++) {
				share_climb(all, fit, &fit->share[level][RISE_SLOW]);
			}
		}
		double now = likelihood(all, fit);

		printf("slow pace %2.0f min: shares %.3f %.3f %.3f, log likelihood %.2f\n",
		    paces_h[p] * 60, fit->share[0][RISE_SLOW], fit->share[1][RISE_SLOW],
		    fit->share[2][RISE_SLOW], now);
		if (now > most) {
			most = now;
			best = *fit;
		}
	}
	*fit = best;
}

bool fit_write(const char *file, const struct sibling_fit *fit, const struct looks *all)
{
	FILE *f = fopen(file, "w");
	size_t used = 0;

	for (size_t i = 0; i < all->n; i++) {
		used += all->list[i].part == PART_FIT;
	}
	if (f == NULL) {
		perror(file);
		return false;
	}
	fprintf(f,
	    "/* Made by tests/bench/calibration/siblings --write FILE DIR; do not edit. Fitted on "
	    "%zu slots of\n * recorded pools: two zones of three, the first 60 %% of each folder. "
	    "SIBLINGS.md\n * beside that program has the sources and the scores. */\n"
	    "#include \"base/base.h\"\n#include \"core/hazard/hazard.h\"\n\n"
	    "const struct sibling_fit sibling_fitted = {\n\t/* quick, slow */\n"
	    "\t.share = { [SIBLING_POOL] = { %.3f, %.3f },\n"
	    "\t\t[SIBLING_ZONE] = { %.3f, %.3f },\n\t\t[SIBLING_REGION] = { %.3f, %.3f } },\n"
	    "\t.tau_h = { %.4f, %.4f },\n};\n",
	    used, fit->share[0][0], fit->share[0][1], fit->share[1][0], fit->share[1][1],
	    fit->share[2][0], fit->share[2][1], fit->tau_h[0], fit->tau_h[1]);
	return fclose(f) == 0;
}
