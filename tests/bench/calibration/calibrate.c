/*
 * Is the hazard model right? Walks forward through recorded traces. At each cut the model knows a
 * broker's experience so far, and predicts the hours that follow. Prints reliability (reclaims
 * predicted and met, by predicted rate) and how often the 90 % intervals hold. Also prints log
 * scores against a constant rate, the prior alone and the pool's own record alone.
 *
 *   calibrate [--half-life H] [--odds-half-life H] [--recent-half-life H] DIR...
 */
#include "base/base.h"

#include "traces.h"

#include "base/text/text.h"
#include "core/hazard/hazard.h"
#include "core/hazard/hazard_priv.h"

#include <math.h>

#define SETS_MAX 64
#define STEP_H 6.0
#define BINS 8
#define BIN_FIRST 0.004 /* reclaims per node-hour; each bin is three times the last */
#define BIN_WIDTH 3.0

enum rival { MODEL = 0, NO_DAY, CONSTANT, PRIOR, OWN, NEW_POOL, RIVALS };
static const char *const rival_names[RIVALS] = { "the model", "without time of day",
	"constant rate of the folder so far", "prior alone", "own record and prior, no neighbours",
	"neighbours and prior, no own record" };

struct bin {
	double predicted, met, hours;
};

struct tally {
	double score[RIVALS], reclaims, hours;
	struct bin bins[BINS];
	double windows, inside, below, above;
	double asked, odds_score, odds_constant, odds_signal;
	struct bin odds_bins[10];
};

struct walk {
	const struct trace_set *set;
	struct rank_policy policy;
	struct offer offers[32];
	struct offer_record records[32];
	struct tally *tally;
	struct arena *arena;
};

static double rate_score(double rate, double reclaims, double hours)
{
	return reclaims * log(rate) - rate * hours;
}

static size_t bin_of(double rate)
{
	double i = floor(log(rate / BIN_FIRST) / log(BIN_WIDTH)) + 1;

	return (size_t)fmin(fmax(i, 0), BINS - 1);
}

static void offers_fill(struct walk *w, double cut_h)
{
	for (size_t i = 0; i < w->set->pools_n; i++) {
		const struct trace_pool *p = &w->set->pools[i];

		trace_record(w->set, i, cut_h, &w->policy, &w->records[i]);
		w->offers[i] = (struct offer){ .pool_id = (int32_t)i + 1,
			.provider = p->provider,
			.region = p->region,
			.zone = p->zone,
			.instance_type = arena_printf(w->arena, "%s-%d", p->gpu, p->size),
			.gpu_name = p->gpu,
			.gpu_milli = p->size * 1000,
			.market = SPOT_MARKET_SPOT,
			.advisor_lo = -1,
			.placement_score = -1,
			.capacity = -1,
			.record = &w->records[i] };
	}
}

/* The rates that each rival predicts for the pool in the hour that begins at hour. */
static void rates_predict(struct walk *w, size_t pool, double constant, int64_t now_us, double *ret,
    struct hazard *ret_model)
{
	const struct hazard_model *m =
	    hazard_model_build(w->arena, w->offers, w->set->pools_n, &w->policy, now_us);
	const struct hazard_model *alone =
	    hazard_model_build(w->arena, &w->offers[pool], 1, &w->policy, now_us);
	struct offer unused = w->offers[pool];
	struct offer_record none = { 0 };
	struct hazard h;

	hazard_of(m, &w->offers[pool], ret_model);
	ret[MODEL] = ret_model->per_hour;
	ret[NO_DAY] = ret_model->per_hour / ret_model->day_factor;
	ret[CONSTANT] = constant;
	ret[PRIOR] = ret_model->prior_per_hour;
	hazard_of(alone, &w->offers[pool], &h);
	ret[OWN] = h.per_hour / h.day_factor;
	unused.record = &none;
	hazard_of(m, &unused, &h);
	ret[NEW_POOL] = h.per_hour;
}

/* Finds by bisection the shape of a gamma with its 95 % quantile at so many means. */
static double shape_of(double hi_by_mean)
{
	double lo = 0.05, hi = 1e5, a, b;

	for (int i = 0; i < 60; i++) {
		double mid = sqrt(lo * hi);

		gamma_interval(mid, &a, &b);
		if (b / mid > hi_by_mean) {
			lo = mid;
		} else {
			hi = mid;
		}
	}
	return lo;
}

/* Probability of at most n reclaims in t hours when the rate is Gamma(shape, shape / mean):
 * negative binomial. */
static double at_most(double shape, double mean, double t, double n)
{
	double q = mean * t / (mean * t + shape), term = pow(1 - q, shape), sum = 0;

	for (double k = 0; k <= n; k++) {
		sum += term;
		term *= q * (shape + k) / (k + 1);
	}
	return fmin(sum, 1);
}

/* Whether the count lies within the 90 % that the interval of the rate predicts. Ties at the edges
 * count by their share. */
static void interval_check(struct tally *t, const struct hazard *h, const struct offer_record *r,
    double hours, double reclaims)
{
	/* Those that come together are met together too. */
	double cluster = r->reclaim_hours > 0 ? fmax(r->reclaims / r->reclaim_hours, 1) : 1;

	hours /= cluster;
	reclaims = floor(reclaims / cluster + 0.5);
	double shape = shape_of(h->hi / h->per_hour),
	       upto = at_most(shape, h->per_hour, hours, reclaims);
	double below = reclaims > 0 ? at_most(shape, h->per_hour, hours, reclaims - 1) : 0,
	       mass = fmax(upto - below, 1e-12);
	double in = fmax(fmin(upto, 0.95) - fmax(below, 0.05), 0) / mass;

	t->windows += 1;
	t->inside += in;
	t->below += fmax(fmin(upto, 0.05) - below, 0) / mass;
	t->above += fmax(upto - fmax(below, 0.95), 0) / mass;
}

static void odds_check(struct walk *w, size_t pool, const struct hazard_model *m, double constant,
    double hour)
{
	const struct trace_pool *p = &w->set->pools[pool];
	size_t i = (size_t)(hour * 3600 / (double)p->gap_s);
	struct tally *t = w->tally;
	struct odds o;
	bool got;

	if (i >= p->n) {
		return;
	}
	hazard_odds(m, &w->offers[pool], &o);
	got = p->alive[i] > 0;
	t->asked += 1;
	t->odds_score += log(got ? o.odds : 1 - o.odds);
	t->odds_constant += log(got ? constant : 1 - constant);
	t->odds_signal += log(0.5);
	size_t b = (size_t)fmin(o.odds * 10, 9);

	t->odds_bins[b].predicted += o.odds;
	t->odds_bins[b].met += got;
	t->odds_bins[b].hours += 1;
}

static double constant_of(const struct walk *w, double cut_h, double *ret_odds)
{
	struct rank_policy ageless = { .age_half_life_h = 1e9,
		.odds_half_life_h = 1e9,
		.recent_half_life_h = 1e9 };
	double hours = 0, reclaims = 0, got = 0, asked = 0;

	for (size_t i = 0; i < w->set->pools_n; i++) {
		struct offer_record r;
		double h, o;

		trace_count(&w->set->pools[i], 0, cut_h, &h, &o);
		hours += h;
		reclaims += o;
		trace_record(w->set, i, cut_h, &ageless, &r);
		got += r.launches;
		asked += r.launches + r.refusals;
	}
	*ret_odds = (got + 0.5) / (asked + 1);
	return (reclaims + 0.5) / (hours + 1);
}

static void cut_score(struct walk *w, double cut_h)
{
	double odds, constant = constant_of(w, cut_h, &odds);
	const struct hazard_model *m;

	offers_fill(w, cut_h);
	m = hazard_model_build(w->arena, w->offers, w->set->pools_n, &w->policy,
	    (int64_t)(cut_h * 3.6e9));
	for (size_t i = 0; i < w->set->pools_n; i++) {
		const struct trace_pool *p = &w->set->pools[i];
		double hours, reclaims, all_hours = 0, all = 0, rates[RIVALS];
		struct hazard h, first = { 0 };

		odds_check(w, i, m, odds, cut_h);
		for (double at = cut_h; at < cut_h + STEP_H; at++) {
			trace_count(p, at, at + 1, &hours, &reclaims);
			if (hours <= 0) {
				continue;
			}
			rates_predict(w, i, constant,
			    (int64_t)((at + 0.5) * 3.6e9) + p->start_s * SPOT_US_PER_S, rates, &h);
			for (int k = 0; k < RIVALS; k++) {
				w->tally->score[k] += rate_score(rates[k], reclaims, hours);
			}
			struct bin *b = &w->tally->bins[bin_of(rates[MODEL])];

			b->predicted += rates[MODEL] * hours;
			b->met += reclaims;
			b->hours += hours;
			first = all_hours > 0 ? first : h;
			all_hours += hours;
			all += reclaims;
		}
		w->tally->hours += all_hours;
		w->tally->reclaims += all;
		if (all_hours > 0) {
			interval_check(w->tally, &first, &w->records[i], all_hours, all);
		}
	}
}

static void set_walk(const struct trace_set *set, const struct rank_policy *policy, struct tally *t)
{
	struct walk w = { .set = set, .policy = *policy, .tally = t, .arena = arena_new(0) };

	for (double at = fmax(floor(set->hours * 0.3), 6); at < set->hours; at += STEP_H) {
		cut_score(&w, at);
		arena_reset(w.arena);
	}
	arena_free(w.arena);
}

static void tally_add(struct tally *all, const struct tally *t)
{
	double *a = (double *)all;
	const double *b = (const double *)t;

	for (size_t i = 0; i < sizeof(*all) / sizeof(double); i++) {
		a[i] += b[i];
	}
}

static void set_print(const char *name, const struct tally *t)
{
	printf("%-34s %8.0f %6.0f", name, t->hours, t->reclaims);
	for (int k = NO_DAY; k < RIVALS; k++) {
		printf(" %9.4f", (t->score[MODEL] - t->score[k]) / fmax(t->reclaims, 1));
	}
	printf(" %7.1f %%", 100 * t->inside / fmax(t->windows, 1));
	printf("  %8.4f %8.4f\n", (t->odds_score - t->odds_constant) / fmax(t->asked, 1),
	    (t->odds_score - t->odds_signal) / fmax(t->asked, 1));
}

static void reliability_print(const struct tally *t)
{
	double from = 0, to = BIN_FIRST;

	printf("\nreliability: predicted rate, node-hours, reclaims predicted, met, met rate\n");
	for (size_t i = 0; i < BINS; i++, from = to, to *= BIN_WIDTH) {
		const struct bin *b = &t->bins[i];

		if (b->hours > 0) {
			printf("%7.4f .. %-8.4f %9.0f %9.1f %7.0f   %.4f (predicted %.4f)\n", from,
			    i == BINS - 1 ? INFINITY : to, b->hours, b->predicted, b->met,
			    b->met / b->hours, b->predicted / b->hours);
		}
	}
	printf("intervals: %.1f %% of %.0f windows within the 90 %%, %.1f %% below, %.1f %% "
	       "above\n",
	    100 * t->inside / t->windows, t->windows, 100 * t->below / t->windows,
	    100 * t->above / t->windows);
	printf("\nodds of a launch: predicted, tries, predicted mean, met\n");
	for (size_t i = 0; i < 10; i++) {
		const struct bin *b = &t->odds_bins[i];

		if (b->hours > 0) {
			printf("%.1f .. %.1f %7.0f   %.3f   %.3f\n", (double)i / 10,
			    (double)(i + 1) / 10, b->hours, b->predicted / b->hours,
			    b->met / b->hours);
		}
	}
}

/* Reclaims of a pool while another had nodes, and how many of those hours struck the other too. */
static void together_print(const struct trace_set *sets, size_t n)
{
	static const char *const shared[] = { "provider", "region", "zone", "zone and GPU" };
	struct rank_policy ageless = { .age_half_life_h = 1e9,
		.odds_half_life_h = 1e9,
		.recent_half_life_h = 1e9 };
	double hits[4] = { 0 }, chances[4] = { 0 }, alone[4] = { 0 };

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < sets[i].pools_n; k++) {
			struct offer_record r;

			trace_record(&sets[i], k, sets[i].hours + 1, &ageless, &r);
			for (int level = 0; level < 4; level++) {
				alone[level] += r.joint_alone[level];
				hits[level] += r.joint_hits[level];
				chances[level] += r.joint_chances[level];
			}
		}
	}
	printf("\nreclaims together, by what two pools share: hours with a reclaim in one, in the "
	       "other too, by chance, beyond\n");
	for (int level = 0; level < 4; level++) {
		double by_chance = alone[level] / fmax(chances[level], 1),
		       share = hits[level] / fmax(chances[level], 1);

		printf("%-14s %7.0f %7.0f   %.3f   %.3f   %.3f\n", shared[level], chances[level],
		    hits[level], share, by_chance, (share - by_chance) / (1 - by_chance));
	}
}

int main(int argc, char **argv)
{
	AUTO(arena) struct arena *a = arena_new((size_t)1 << 30);
	struct trace_set *sets = calloc(SETS_MAX, sizeof(*sets));
	struct rank_policy policy;
	struct tally all = { 0 };
	int at = 1;
	size_t n;

	rank_policy_default(&policy);
	for (; at + 1 < argc && str_prefix(argv[at], "--"); at += 2) {
		double v = strtod(argv[at + 1], NULL);

		if (strcmp(argv[at], "--half-life") == 0 && v > 0) {
			policy.age_half_life_h = v;
		} else if (strcmp(argv[at], "--odds-half-life") == 0 && v > 0) {
			policy.odds_half_life_h = v;
		} else if (strcmp(argv[at], "--recent-half-life") == 0 && v > 0) {
			policy.recent_half_life_h = v;
		} else {
			break;
		}
	}
	if (at >= argc || sets == NULL) {
		fprintf(stderr,
		    "usage: calibrate [--half-life H] [--odds-half-life H] [--recent-half-life H] "
		    "DIR...\n");
		return 2;
	}
	n = traces_load(a, argv + at, argc - at, sets, SETS_MAX);
	printf("log score of the model minus that of each rival, nats per reclaim (more than 0: "
	       "the model is better)\n");
	for (int k = NO_DAY; k < RIVALS; k++) {
		printf("  %d: %s\n", k, rival_names[k]);
	}
	printf("%-34s %8s %6s %9d %9d %9d %9d %9d  in 90 %%  odds: constant, signal (nats per "
	       "try)\n",
	    "folder", "hours", "taken", 1, 2, 3, 4, 5);
	for (size_t i = 0; i < n; i++) {
		struct tally t = { 0 };

		set_walk(&sets[i], &policy, &t);
		set_print(sets[i].name, &t);
		tally_add(&all, &t);
	}
	set_print("all", &all);
	reliability_print(&all);
	together_print(sets, n);
	free(sets);
	return n > 0 ? 0 : 1;
}
