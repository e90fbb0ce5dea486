/* Scores of the rise on the parts that the fit did not see. */
#include "base/base.h"

#include "siblings.h"

#include <math.h>

enum ask { ASK_3 = 0, ASK_60, ASK_BURST, ASKS };
static const char *const ask_names[ASKS] = { "within 3 min (slots of at most 195 s)",
	"within 60 min", "another of its pool was just taken: this one in the same slot?" };

struct guess {
	double p, yes; /* probability; share of the nodes that were taken */
	enum part part;
};

static struct rise rise_of(const struct looks *all, const struct sibling_fit *fit, size_t i)
{
	struct rise r = { 0 };

	for (size_t k = 0; k < all->list[i].strikes_n; k++) {
		rise_add(fit, all->list[i].strikes[k].level, all->list[i].strikes[k].age_h, &r);
	}
	return r;
}

/* The expected reclaims of a node within the hours. */
static double expected(const struct look *l, const struct sibling_fit *fit, const struct rise *r,
    enum model m, double hours)
{
	double rate = m == MODEL_CONSTANT ? l->constant : l->usual;

	return rate * hours + (m == MODEL_SIBLINGS ? rise_within(fit, r, hours) : 0);
}

static bool guess_make(const struct looks *all, const struct sibling_fit *fit, size_t i,
    enum ask ask, enum model m, struct guess *ret)
{
	const struct look *l = &all->list[i];
	double hours = ask == ASK_3 ? 0.05 : ask == ASK_60 ? 1 : l->hours;
	struct rise r = rise_of(all, fit, i);

	ret->part = l->part;
	ret->yes = ask == ASK_3 ? l->taken_3 : l->taken_60;
	if (ask == ASK_BURST) {
		if (l->nodes < 2 || l->lost < 1) {
			return false;
		}
		/* the first of the slot came at its middle */
		rise_add(fit, SIBLING_POOL, 0, &r);
		hours /= 2;
		ret->yes = (l->lost - 1) / (l->nodes - 1);
	}
	ret->p = -expm1(-expected(l, fit, &r, m, hours));
	return ret->yes >= 0;
}

/* ---- log scores ------------------------------------------------------------------------------ */

static void scores_print(const struct looks *all, const struct sibling_fit *fit)
{
	printf("\nlog score of the siblings' model less that of each rival, nats per reclaim (more "
	       "than 0: better)\n%-22s %10s %9s %10s %10s\n",
	    "part", "node-hours", "reclaims", "constant", "today");
	for (int part = 0; part < PARTS; part++) {
		double score[MODELS] = { 0 }, taken = 0, hours = 0;

		for (size_t i = 0; i < all->n; i++) {
			const struct look *l = &all->list[i];
			struct rise r = rise_of(all, fit, i);

			if ((int)l->part != part) {
				continue;
			}
			for (int m = 0; m < MODELS; m++) {
				double e = expected(l, fit, &r, (enum model)m, l->hours);

				score[m] += l->lost / l->nodes * log(e) - e;
			}
			taken += l->lost / l->nodes;
			hours += l->hours;
		}
		taken = fmax(taken, 1e-9);
		printf("%-22s %10.0f %9.0f %10.4f %10.4f\n", part_names[part], hours, taken,
		    (score[MODEL_SIBLINGS] - score[MODEL_CONSTANT]) / taken,
		    (score[MODEL_SIBLINGS] - score[MODEL_TODAY]) / taken);
	}
}

/* ---- yes or no ------------------------------------------------------------------------------- */

struct counts {
	double hit, said, was;
};

static double f1(const struct counts *c)
{
	return c->said + c->was > 0 ? 2 * c->hit / (c->said + c->was) : 0;
}

static int by_p(const void *pa, const void *pb)
{
	const struct guess *a = pa, *b = pb;

	return (a->p < b->p) - (a->p > b->p);
}

/* The probability from which on saying yes has the best F1 on the fitted part. */
static double threshold(struct guess *list, size_t n)
{
	struct counts c = { 0 };
	double best = -1, at = 0;

	qsort(list, n, sizeof(*list), by_p);
	for (size_t i = 0; i < n; i++) {
		c.was += list[i].part == PART_FIT ? list[i].yes : 0;
	}
	for (size_t i = 0; i < n; i++) {
		if (list[i].part == PART_FIT) {
			c.hit += list[i].yes;
			c.said += 1;
		}
		if ((i + 1 == n || list[i + 1].p < list[i].p) && f1(&c) > best) {
			best = f1(&c);
			at = list[i].p;
		}
	}
	return at;
}

static void ask_print(const struct looks *all, const struct sibling_fit *fit, enum ask ask)
{
	struct guess *list = calloc(all->n + 1, sizeof(*list));

	if (list == NULL) {
		abort();
	}
	printf("\nis this node taken %s: precision, recall, F1; log score a node\n",
	    ask_names[ask]);
	for (int m = 0; m < MODELS; m++) {
		size_t n = 0;

		for (size_t i = 0; i < all->n; i++) {
			n += guess_make(all, fit, i, ask, (enum model)m, &list[n]);
		}
		double from = threshold(list, n);

		for (int part = 0; part < PARTS; part++) {
			struct counts c = { 0 };
			double nodes = 0, score = 0;

			for (size_t i = 0; i < n; i++) {
				double p = fmin(fmax(list[i].p, 1e-9), 1 - 1e-9), y = list[i].yes;
				bool said = list[i].p >= from;

				if ((int)list[i].part != part) {
					continue;
				}
				c.hit += said ? y : 0;
				c.said += said;
				c.was += y;
				nodes++;
				score += y * log(p) + (1 - y) * log(1 - p);
			}
			printf("%-10s %-20s from %.4f: %.3f %.3f %.3f  %8.4f  (%.0f slots, "
			       "%.1f %% taken)\n",
			    model_names[m], part_names[part], from, c.hit / fmax(c.said, 1e-9),
			    c.hit / fmax(c.was, 1e-9), f1(&c), score / fmax(nodes, 1), nodes,
			    100 * c.was / fmax(nodes, 1));
		}
	}
	free(list);
}

void looks_report(const struct looks *all, const struct sibling_fit *fit)
{
	static const char *const levels[] = { "own pool", "family in the zone",
		"family in the region" };

	printf("\nshares:            quick (%.0f s)   slow (%.0f min)\n",
	    fit->tau_h[RISE_QUICK] * 3600, fit->tau_h[RISE_SLOW] * 60);
	for (int level = 0; level < SIBLING_LEVELS; level++) {
		printf("%-22s %.3f          %.3f\n", levels[level], fit->share[level][RISE_QUICK],
		    fit->share[level][RISE_SLOW]);
	}
	scores_print(all, fit);
	for (int ask = 0; ask < ASKS; ask++) {
		ask_print(all, fit, (enum ask)ask);
	}
}
