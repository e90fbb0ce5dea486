/* Plays a job through, many times; see montecarlo.h. */
#include "base/base.h"
#include "core/hazard/hazard.h"
#include "core/rank/montecarlo.h"
#include "core/rank/rank_priv.h"

#include <math.h>

#define REST_H 0.5 /* mean cooldown of a pool that refused or was lost */
#define PRICE_FLOOR 0.2 /* share of today's price below which a drawn path does not fall */
#define ODDS_LEAST 0.05
#define PI 3.14159265358979323846

/* A pool as a run sees it: terms that stay the same within the run, and the run's own state. */
struct place {
	const struct score *score;
	struct score_terms t;
	bool spot;
	double h_mean, h_sd, reversion_h, mean, sd, corr[MONTECARLO_PLACES];
	double hazard, rests_until_h, noise, price_at_h;
};

struct play {
	const struct montecarlo_in *in;
	double nodes;
	struct rng rng;
	struct place places[MONTECARLO_PLACES];
	size_t n, on_demand; /* on_demand == n: there is none */
	double deadline_h; /* HUGE_VAL: none */
	bool checkpoints;
};

struct run {
	double now_h, done, cost, lost_h, on_demand_h; /* done: share of the work */
	int interruptions, starts, moves;
	size_t at; /* place of the last start; n = none yet */
};

/* ---- drawing --------------------------------------------------------------------------------- */

static double draw_exp(struct rng *r)
{
	return -log1p(-rng_unit(r));
}

static double draw_normal(struct rng *r)
{
	double u = 1.0 - rng_unit(r), v = rng_unit(r);

	return sqrt(-2.0 * log(u)) * cos(2.0 * PI * v);
}

/* By mean and standard deviation; Wilson and Hilferty's approximation turned round. */
static double draw_gamma(struct rng *r, double mean, double sd)
{
	return gamma_at(mean, sd * sd, draw_normal(r));
}

/* ---- setting up ------------------------------------------------------------------------------ */

static bool spot_offer(const struct score *s)
{
	return spot_market_reclaims(s->offer->market);
}

static void place_add(struct play *p, const struct score *s)
{
	struct place *x = &p->places[p->n++];
	double reversion_s = (double)s->by->policy.price_reversion_s;

	*x = (struct place){ .score = s,
		.spot = spot_offer(s),
		.reversion_h = reversion_s / 3600.0,
		.h_mean = s->hazard,
		.h_sd = (s->hazard_hi - s->hazard_lo) / 3.29 };
	score_explain(s, &x->t);
	if (x->spot && x->t.price_cover > 0) {
		x->mean = (double)s->offer->price_micros +
		    (s->offer->price_mean * 1e6 - (double)s->offer->price_micros) *
			x->t.price_cover;
		x->sd = 1e6 * sqrt(fmax(s->offer->price_var, 0));
	}
	/* The runs play what is left after a reclaim: the price has nothing of it. */
	if (s->offer->market == SPOT_MARKET_INTERRUPTIBLE) {
		x->mean = (double)s->offer->price_micros;
	}
}

/* Returns the fall-back when no spot is left: the best that meets the deadline, else the
 * fastest. */
static const struct score *way_out(const struct ranking *k, double within_h)
{
	const struct score *fastest = NULL;

	for (size_t i = 0; i < k->usable; i++) {
		const struct score *s = &k->scores[i];

		if (!spot_offer(s) && s->hours <= within_h) {
			return s;
		}
		if (!spot_offer(s) && (fastest == NULL || s->hours < fastest->hours)) {
			fastest = s;
		}
	}
	return fastest;
}

static void places_add(struct play *p, const struct montecarlo_in *in)
{
	const struct ranking *k = in->ranking;
	double within_h = p->deadline_h - k->ctx->restart_h;
	const struct score *out = way_out(k, within_h);

	place_add(p, &k->scores[in->chosen]);
	for (size_t i = 0; i < k->usable && p->n < MONTECARLO_PLACES - 1; i++) {
		const struct score *s = &k->scores[i];

		/* A run on on-demand stays there, and no run falls back on an offer that would be
		 * late. */
		if (i != in->chosen && spot_offer(s) == p->places[0].spot &&
		    rank_suits_deadline(s, in->deadline_us > 0 ? out : NULL, within_h)) {
			place_add(p, s);
		}
	}
	p->on_demand = p->places[0].spot ? p->n : 0;
	if (p->on_demand == p->n && out != NULL) {
		place_add(p, out);
	}
}

static void play_setup(struct play *p, const struct montecarlo_in *in)
{
	const struct ranking *k = in->ranking;

	p->nodes = MAX(in->nodes, 1);
	p->deadline_h = in->deadline_us > 0
	    ? (double)(in->deadline_us - in->now_us) / (double)SPOT_US_PER_HOUR
	    : HUGE_VAL;
	places_add(p, in);
	for (size_t i = 0; i < p->n; i++) {
		for (size_t j = 0; j < p->n; j++) {
			p->places[i].corr[j] = in->hazards != NULL && i != j
			    ? hazard_correlation(in->hazards, p->places[i].score->offer,
				  p->places[j].score->offer)
			    : 0;
		}
	}
	p->checkpoints = k->ctx->job.spec->checkpoint.path != NULL;
}

/* ---- one run --------------------------------------------------------------------------------- */

/* Returns the expected price at an hour. The price wanders about it (an Ornstein-Uhlenbeck step of
 * this many hours). */
static double price_drift(const struct place *x, double at_h)
{
	double now = (double)x->t.price_now_micros;

	return x->reversion_h > 0 ? x->mean + (now - x->mean) * exp(-at_h / x->reversion_h) : now;
}

static void price_wander(struct play *p, struct place *x, double hours)
{
	double k = exp(-fmax(hours, 0) / PRICE_FADE_H);

	x->noise = x->noise * k + x->sd * sqrt(1.0 - k * k) * draw_normal(&p->rng);
}

/* The average price over [now, now + hours] on the path that is being drawn; moves the path on. */
static double price_over(struct play *p, struct place *x, double now_h, double hours)
{
	double from, to;

	if (x->sd <= 0 && x->mean <= 0) {
		return (double)x->t.price_micros;
	}
	price_wander(p, x, now_h - x->price_at_h);
	from = price_drift(x, now_h) + x->noise;
	price_wander(p, x, hours);
	to = price_drift(x, now_h + hours) + x->noise;
	x->price_at_h = now_h + hours;
	return fmax((from + to) / 2, PRICE_FLOOR * (double)x->t.price_now_micros) +
	    (double)x->t.penalty_micros;
}

/* Paid hours that the rest of the work takes here without a reclaim. */
static double need_h(const struct place *x, const struct run *r)
{
	return x->t.start_h + (1.0 - r->done) * (x->t.work_h + x->t.overhead_h);
}

/* Waits for a launch at the first place that is not cooling and accepts it. Returns n for none. */
static size_t place_find(struct play *p, struct run *r)
{
	double refused_h = p->in->ranking->ctx->refused_h;
	bool must = p->on_demand < p->n &&
	    r->now_h + 2.0 * refused_h + need_h(&p->places[p->on_demand], r) >= p->deadline_h;

	for (size_t i = must ? p->on_demand : 0; i < p->n; i++) {
		struct place *x = &p->places[i];

		if (x->rests_until_h > r->now_h) {
			continue;
		}
		if (rng_unit(&p->rng) < fmax(x->t.odds, ODDS_LEAST)) {
			return i;
		}
		r->now_h += refused_h;
		x->rests_until_h = r->now_h + REST_H * draw_exp(&p->rng);
	}
	return p->n;
}

/* No place accepts: waits until the first cooldown ends. */
static void wait_for_any(struct play *p, struct run *r)
{
	double until = HUGE_VAL;

	for (size_t i = 0; i < p->n; i++) {
		until = fmin(until, p->places[i].rests_until_h);
	}
	r->now_h = fmax(until, r->now_h + 1e-3);
}

static double egress_cost(const struct place *x, bool first, double saves)
{
	bool restores = !first || x->t.restores > x->t.interruptions;

	return (restores ? (double)x->t.restore_per_micros : 0) + (double)x->t.data_per_micros +
	    saves * (double)x->t.upload_per_micros;
}

/* The machine is reclaimed after `ran` hours. Work since the last save is lost, or none after a
 * notice in time. */
static void run_reclaimed(struct play *p, struct run *r, struct place *x, double ran)
{
	double worked = fmax(ran - x->t.start_h, 0), whole = x->t.work_h + x->t.overhead_h;

	r->interruptions++;
	if (!p->checkpoints) {
		r->lost_h += worked;
		r->done = 0;
	} else {
		double lost = 0;

		if (rng_unit(&p->rng) >= x->t.notice_saves) {
			double most = x->t.interval_s > 0
			    ? x->t.interval_s / 3600.0
			    : 2.0 * x->t.lost_per_h / (1.0 - x->t.notice_saves);

			lost = fmin(rng_unit(&p->rng) * most, worked);
		}
		r->lost_h += lost;
		r->done = fmin(r->done + (worked - lost) / whole, 1);
	}
	for (size_t i = 0; i < p->n; i++) {
		struct place *o = &p->places[i];

		if (o == x || rng_unit(&p->rng) < x->corr[i]) {
			o->rests_until_h = r->now_h + REST_H * draw_exp(&p->rng);
		}
	}
}

static bool run_stretch(struct play *p, struct run *r, size_t at)
{
	struct place *x = &p->places[at];
	double need = need_h(x, r),
	       until = x->hazard > 0 ? draw_exp(&p->rng) / x->hazard : HUGE_VAL;
	double ran = fmin(need, until);
	double saves = x->t.interval_s > 0
	    ? fmax(ran - x->t.start_h, 0) * 3600.0 / x->t.interval_s / (1.0 + x->t.overhead)
	    : 0;

	r->moves += r->at < p->n && r->at != at;
	r->cost += p->nodes * price_over(p, x, r->now_h, ran) * ran;
	r->cost += p->nodes *
	    egress_cost(x, r->starts == 1, saves + (until < need ? x->t.notice_saves : 0));
	r->at = at;
	r->now_h += ran;
	r->on_demand_h += x->spot ? 0 : ran;
	if (until >= need) {
		return true;
	}
	run_reclaimed(p, r, x, ran);
	return false;
}

static bool run_once(struct play *p, struct run *r)
{
	*r = (struct run){ .at = p->n };
	for (size_t i = 0; i < p->n; i++) {
		struct place *x = &p->places[i];

		x->hazard = p->nodes * draw_gamma(&p->rng, x->h_mean, x->h_sd);
		x->rests_until_h = 0;
		x->noise = 0;
		x->price_at_h = 0;
	}
	while (r->starts < MONTECARLO_STARTS_MAX) {
		size_t at = place_find(p, r);

		if (at == p->n) {
			wait_for_any(p, r);
			r->starts++;
			continue;
		}
		r->starts++;
		if (run_stretch(p, r, at)) {
			return true;
		}
	}
	return false;
}

/* ---- many runs ------------------------------------------------------------------------------- */

static int by_value(const void *pa, const void *pb)
{
	const double *a = pa, *b = pb;

	return (*a > *b) - (*a < *b);
}

static double quantile_of(const double *sorted, size_t n, double q)
{
	double at = q * (double)(n - 1);
	size_t i = (size_t)at;

	return i + 1 < n ? sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i])
			 : sorted[n - 1];
}

static size_t runs_within(const struct score_terms *t, double nodes)
{
	double runs = MONTECARLO_STARTS / (1.0 + nodes * t->interruptions);

	return (size_t)fmin(fmax(runs, MONTECARLO_LEAST), MONTECARLO_RUNS);
}

void montecarlo_run(struct arena *a, const struct montecarlo_in *in, struct montecarlo_out *ret)
{
	struct play *p = arena_alloc(a, sizeof(*p));
	size_t runs, met = 0;
	double *cost, *hours, n, cost_sum = 0, hours_sum = 0;
	struct run r;

	p->in = in;
	rng_seeded_init(&p->rng, in->seed);
	play_setup(p, in);
	runs = in->runs > 0 ? in->runs : runs_within(&p->places[0].t, p->nodes);
	n = (double)runs;
	cost = arena_array(a, runs, sizeof(*cost));
	hours = arena_array(a, runs, sizeof(*hours));
	*ret = (struct montecarlo_out){ .runs = runs, .seed = in->seed };
	for (size_t i = 0; i < runs; i++) {
		bool ended = run_once(p, &r);

		ret->unfinished += !ended;
		met += ended && r.now_h <= p->deadline_h;
		cost[i] = r.cost;
		hours[i] = r.now_h;
		cost_sum += r.cost;
		hours_sum += r.now_h;
		ret->interruptions += r.interruptions / n;
		ret->lost_h += r.lost_h / n;
		ret->moves += r.moves / n;
		ret->on_demand_h += r.on_demand_h / n;
	}
	qsort(cost, runs, sizeof(*cost), by_value);
	qsort(hours, runs, sizeof(*hours), by_value);
	ret->cost_mean_micros = llround(cost_sum / n);
	ret->cost_p5_micros = llround(quantile_of(cost, runs, 0.05));
	ret->cost_p50_micros = llround(quantile_of(cost, runs, 0.50));
	ret->cost_p95_micros = llround(quantile_of(cost, runs, 0.95));
	ret->hours_mean = hours_sum / n;
	ret->hours_p5 = quantile_of(hours, runs, 0.05);
	ret->hours_p50 = quantile_of(hours, runs, 0.50);
	ret->hours_p95 = quantile_of(hours, runs, 0.95);
	ret->deadline_odds = (double)met / n;
}
