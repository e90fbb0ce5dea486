/*
 * The policy that plans: see core/README.md ("Deadlines"). Each tick the state of the pools is learned (policy_model.c), and
 * the worth of waiting, spot and on demand is read from the deadline problem solved under what is believed (policy_dp.c);
 * it is solved anew when its kept layers are used up, so that it follows the model. Several pools: the problem is
 * solved for "any of them is up", with the moves between them priced in, and the pool is the one whose price and expected life
 * save most, less the changeover if the job is not there. The last safe moment (policy_must_run, policy_spot_safe) overrides.
 *
 * Literature: Wu et al., "Can't Be Late: Optimizing Spot Instance Savings under Deadlines", NSDI'24 (the problem, Uniform
 * Progress); Vaupel, Manton, Stallard 1979 (gamma frailty); expected life against price per pool follows the idea of
 * SkyNomad (arXiv 2601.06520).
 */
#include "base/base.h"
#include "base/arena.h"
#include "core/policy_priv.h"

#define LIFE_MAX_H 24.0
#define STAY_CHANGEOVERS 1.0

struct auto_run {
	const struct policy_setup *s;
	struct policy_model model;
	struct policy_dp *dp;
	int64_t seen_us;               /* elapsed_us of the last look; -1: none */
};

void *policy_auto_begin(struct arena *a, const struct policy_setup *s, const struct policy_track *tracks, size_t n,
    const struct policy_prior *prior)
{
	struct auto_run *r = arena_alloc(a, sizeof(*r));

	r->s = s;
	r->seen_us = -1;
	policy_model_init(&r->model, a, prior, s->pools_n);
	policy_model_learn(&r->model, tracks, n);
	r->dp = policy_dp_new(a, s);
	return r;
}

static void *auto_begin(struct arena *a, const struct policy_setup *s, const struct policy_track *tracks, size_t n)
{
	return policy_auto_begin(a, s, tracks, n, &policy_prior_public);
}

static void see(struct auto_run *r, const struct policy_view *v)
{
	if (v->elapsed_us > r->seen_us) {
		int64_t dt = r->seen_us < 0 ? r->s->tick_us : v->elapsed_us - r->seen_us;

		policy_model_see(&r->model, v->up, (double)dt / 3.6e9);
		r->seen_us = v->elapsed_us;
	}
}

static double dollars(int64_t micros)
{
	return (double)micros / 1e6;
}

static const struct policy_pool *planned_pool(const struct auto_run *r)
{
	return &r->model.pools[r->model.pools_n > 1 ? r->model.pools_n : 0];
}

/* Price to plan with: of the cheapest pool that is up, else of the cheapest. */
static double plan_price(const struct auto_run *r, const struct policy_view *v)
{
	int64_t up = INT64_MAX, all = INT64_MAX;

	for (size_t i = 0; i < r->s->pools_n; i++) {
		all = MIN(all, v->price_micros[i]);
		up = v->up[i] ? MIN(up, v->price_micros[i]) : up;
	}
	return dollars(up < INT64_MAX ? up : all);
}

static void plan(struct auto_run *r, const struct policy_view *v, int64_t work_us, int64_t slack_us)
{
	struct policy_problem p = {.model = &r->model, .pool = planned_pool(r), .work_us = work_us, .slack_us = slack_us,
	    .spot = plan_price(r, v), .on_demand = dollars(r->s->on_demand_micros)};
	double lost = 0, alive = 0;

	for (size_t i = 0; r->s->pools_n > 1 && i < r->s->pools_n; i++) {
		lost += v->up[i] ? 1 / MAX(policy_life(&r->model, &r->model.pools[i], LIFE_MAX_H), 0.1) : 0;
		alive += v->up[i];
	}
	p.moves_per_hour = alive > 0 ? lost / alive : 0;
	policy_dp_solve(r->dp, &p);
}

/* What taking or keeping the pool saves against the usual cost of an hour's work, over its expected life. */
static double pool_gain(const struct auto_run *r, const struct policy_view *v, size_t i, double usual, double slack_price,
    double limit_h)
{
	const struct policy_setup *s = r->s;
	bool there = v->held == POLICY_SPOT && v->held_pool == i;
	double d = (double)(there ? v->changeover_left_us : s->changeover_us) / 3.6e9, price = dollars(v->price_micros[i]);
	double life = policy_life(&r->model, &r->model.pools[i], limit_h + d);
	bool away = v->last_pool != SIZE_MAX && s->regions != NULL && s->regions[v->last_pool] != s->regions[i];

	/* Lives are guesses: a running instance is not left for a gain that they alone could explain. */
	double stay = there ? STAY_CHANGEOVERS * (double)s->changeover_us / 3.6e9 * (price + slack_price) : 0;

	return usual * MAX(life - d, 0) - price * life - d * slack_price + stay - (away ? dollars(s->transfer_micros) : 0);
}

static size_t choose_pool(const struct auto_run *r, const struct policy_view *v, const struct policy_worth *w, int64_t work_us)
{
	double hours = MAX((double)work_us / 3.6e9, 0.1), usual = MIN(w->spot, MIN(w->wait, w->on_demand)) / hours, best_gain = 0;
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < r->s->pools_n; i++) {
		if (v->up[i] && v->price_micros[i] < r->s->on_demand_micros && policy_spot_safe(r->s, v, i)) {
			double gain = pool_gain(r, v, i, usual, w->slack, MIN(hours, LIFE_MAX_H));

			if (best == SIZE_MAX || gain > best_gain) {
				best = i;
				best_gain = gain;
			}
		}
	}
	return best;
}

static void answer(struct policy_choice *ret, enum policy_act act, size_t pool, const char *why)
{
	*ret = (struct policy_choice){.act = act, .pool = act == POLICY_SPOT ? pool : 0, .why = why};
}

static void auto_decide(void *state, const struct policy_view *v, struct policy_choice *ret)
{
	struct auto_run *r = state;
	const struct policy_setup *s = r->s;
	/* Whole ticks only; the changeover that is under way counts as work. */
	int64_t left = (s->deadline_us - v->elapsed_us) / s->tick_us * s->tick_us, work = s->work_us - v->done_us;
	int64_t todo = work + v->changeover_left_us;
	bool must = policy_must_run(s, v);
	struct policy_worth w;
	size_t pool;

	see(r, v);
	if (!policy_dp_covers(r->dp, todo, left - todo)) {
		plan(r, v, todo, left - todo);
	}
	policy_dp_worth(r->dp, planned_pool(r), v->held, todo, left - todo, &w);
	pool = choose_pool(r, v, &w, work);
	if (pool != SIZE_MAX && w.spot <= w.on_demand && (must || w.spot <= w.wait)) {
		answer(ret, POLICY_SPOT, pool, must ? "last safe moment to wait, and spot costs least to the end" :
		                                  "spot costs least to the end");
	} else if (must) {
		answer(ret, POLICY_ON_DEMAND, 0, "last safe moment");
	} else if (w.on_demand < w.wait) {
		answer(ret, POLICY_ON_DEMAND, 0, "on demand costs least to the end: slack is dear, spot far or short-lived");
	} else {
		answer(ret, POLICY_WAIT, 0, "waiting for spot costs least to the end");
	}
}

const struct policy policy_auto = {"auto", auto_begin, auto_decide};
