/*
 * The policy that plans; README.md has an overview. In each tick it learns the state of the pools
 * (policy_model.c). It reads the worth of waiting, spot and on demand from the solved deadline
 * problem (policy_dp.c). It solves again when the kept layers are used up, so the table follows the
 * model.
 *
 * For a few pools of different prices, policy_joint.c solves the problem with each pool's own price
 * and state. Waiting for a cheap pool, taking an expensive one meanwhile and moving are then
 * weighed by their cost to the end. Other sets count as "any of them is up". The policy takes the
 * pool whose price and expected life save most. The last safe moment (policy_must_run,
 * policy_spot_safe) overrides.
 *
 * Literature: Wu et al., "Can't Be Late: Optimizing Spot Instance Savings under Deadlines", NSDI'24
 * (the problem, Uniform Progress). Gamma frailty: Vaupel, Manton, Stallard 1979. Expected life
 * against price per pool: SkyNomad (arXiv 2601.06520).
 */
#include "base/base.h"
#include "core/policy/policy_priv.h"

#include <math.h>

#define LIFE_MAX_H 24.0
#define STAY_CHANGEOVERS 1.0
/* most expensive over cheapest, from which pools are planned jointly */
#define PRICES_DIFFER 1.1
/* A job that could begin on spot waits only for a saving by this factor. Otherwise a pool that
 * looks a little longer-lived in each next tick would use up the slack. */
#define WAIT_WORTH 1.01

struct auto_run {
	const struct policy_setup *s;
	struct policy_model model;
	int64_t seen_us; /* elapsed_us of the last tick seen; -1: none */
	struct policy_dp *dp; /* of the one pool, or of "any of them is up" */
	struct policy_joint *joint; /* NULL: one pool, or too many */
};
/* whole ticks; todo includes the changeover under way */
struct rest {
	int64_t left_us, work_us, todo_us;
};

void *policy_auto_begin(struct arena *a, const struct policy_setup *s,
    const struct policy_track *tracks, size_t n, const struct policy_prior *prior)
{
	struct auto_run *r = arena_alloc(a, sizeof(*r));

	r->s = s;
	r->seen_us = -1;
	policy_model_init(&r->model, a, prior, s->pools_n);
	policy_model_learn(&r->model, tracks, n);
	r->dp = policy_dp_new(a, s);
	r->joint = s->pools_n > 1 && s->pools_n <= POLICY_SLOTS ? policy_joint_new(a, s) : NULL;
	return r;
}

static void *auto_begin(struct arena *a, const struct policy_setup *s,
    const struct policy_track *tracks, size_t n)
{
	return policy_auto_begin(a, s, tracks, n, &policy_prior_public);
}

static void model_update(struct auto_run *r, const struct policy_view *v)
{
	if (v->elapsed_us > r->seen_us) {
		int64_t dt = r->seen_us < 0 ? r->s->tick_us : v->elapsed_us - r->seen_us;

		policy_model_see(&r->model, v->up, (double)dt / 3.6e9);
		r->seen_us = v->elapsed_us;
	}
}

/* The rises of the pools now. "Any of them is up" feels that of the calmest one that is up. */
static void rises_set(struct auto_run *r, const struct policy_view *v)
{
	struct policy_pool *pools = r->model.pools;
	size_t n = r->s->pools_n;
	double least = INFINITY;

	if (n > 1) {
		pools[n].rise = (struct rise){ 0 };
	}
	for (size_t i = 0; i < n; i++) {
		struct rise rise = v->rise != NULL ? v->rise[i] : (struct rise){ 0 };
		double all = rise_within(&sibling_fitted, &rise, LIFE_MAX_H);

		pools[i].rise = rise;
		if (n > 1 && v->up[i] && all < least) {
			least = all;
			pools[n].rise = rise;
		}
	}
}

static double micros_dollars(int64_t micros)
{
	return (double)micros / 1e6;
}

static void choice_set(struct policy_choice *ret, enum policy_act act, size_t pool, const char *why)
{
	*ret =
	    (struct policy_choice){ .act = act, .pool = act == POLICY_SPOT ? pool : 0, .why = why };
}

static bool may_take(const struct auto_run *r, const struct policy_view *v, size_t i)
{
	return v->up[i] && v->price_micros[i] < r->s->on_demand_micros &&
	    policy_spot_safe(r->s, v, i);
}

/* Dollars to the end of each choice. pool: the best for spot; SIZE_MAX: none. */
struct costs {
	double wait, on_demand, spot;
	size_t pool;
};

static void choice_make(const struct auto_run *r, const struct policy_view *v,
    const struct costs *c, struct policy_choice *ret)
{
	bool must = policy_must_run(r->s, v);

	double wait = v->held == POLICY_WAIT ? c->wait * WAIT_WORTH : c->wait;

	if (c->pool != SIZE_MAX && c->spot <= c->on_demand && (must || c->spot <= wait)) {
		choice_set(ret, POLICY_SPOT, c->pool,
		    must ? "last safe moment to wait, and spot costs least to the end"
			 : "spot costs least to the end");
	} else if (must) {
		choice_set(ret, POLICY_ON_DEMAND, 0, "last safe moment");
	} else if (c->on_demand < c->wait) {
		choice_set(ret, POLICY_ON_DEMAND, 0,
		    "on demand costs least to the end: slack is dear, spot far or short-lived");
	} else {
		choice_set(ret, POLICY_WAIT, 0, "waiting for spot costs least to the end");
	}
}

/* ---- one pool, or several that cost about the same ------------------------------------------- */

static const struct policy_pool *planned_pool(const struct auto_run *r)
{
	return &r->model.pools[r->model.pools_n > 1 ? r->model.pools_n : 0];
}

/* Returns the price to plan with: that of the cheapest pool that is up, else of the cheapest. */
static double plan_price(const struct auto_run *r, const struct policy_view *v)
{
	int64_t up = INT64_MAX, all = INT64_MAX;

	for (size_t i = 0; i < r->s->pools_n; i++) {
		all = MIN(all, v->price_micros[i]);
		up = v->up[i] ? MIN(up, v->price_micros[i]) : up;
	}
	return micros_dollars(up < INT64_MAX ? up : all);
}

static void problem_solve(struct auto_run *r, const struct policy_view *v, int64_t work_us,
    int64_t slack_us)
{
	struct policy_problem p = { .model = &r->model,
		.pool = planned_pool(r),
		.work_us = work_us,
		.slack_us = slack_us,
		.spot = plan_price(r, v),
		.on_demand = micros_dollars(r->s->on_demand_micros) };
	double lost = 0, alive = 0;

	for (size_t i = 0; r->s->pools_n > 1 && i < r->s->pools_n; i++) {
		lost += v->up[i]
		    ? 1 / MAX(policy_life(&r->model, &r->model.pools[i], LIFE_MAX_H), 0.1)
		    : 0;
		alive += v->up[i];
	}
	p.moves_per_hour = alive > 0 ? lost / alive : 0;
	policy_dp_solve(r->dp, &p);
}

/* Returns the saving of the pool over its expected life, against the usual cost of an hour's
 * work. */
static double pool_gain(const struct auto_run *r, const struct policy_view *v, size_t i,
    double usual, double slack_price, double limit_h)
{
	const struct policy_setup *s = r->s;
	bool there = v->held == POLICY_SPOT && v->held_pool == i;
	double d = (double)(there ? v->changeover_left_us : s->changeover_us) / 3.6e9,
	       price = micros_dollars(v->price_micros[i]);
	double life = policy_life(&r->model, &r->model.pools[i], limit_h + d);
	bool away = v->last_pool != SIZE_MAX && s->regions != NULL &&
	    s->regions[v->last_pool] != s->regions[i];

	/* Expected lives are guesses. They alone do not justify leaving a running instance. */
	double stay =
	    there ? STAY_CHANGEOVERS * (double)s->changeover_us / 3.6e9 * (price + slack_price) : 0;

	return usual * MAX(life - d, 0) - price * life - d * slack_price + stay -
	    (away ? micros_dollars(s->transfer_micros) : 0);
}

static size_t choose_pool(const struct auto_run *r, const struct policy_view *v,
    const struct policy_worth *w, int64_t work_us)
{
	double hours = MAX((double)work_us / 3.6e9, 0.1),
	       usual = MIN(w->spot, MIN(w->wait, w->on_demand)) / hours, best_gain = 0;
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < r->s->pools_n; i++) {
		if (v->up[i] && v->price_micros[i] < r->s->on_demand_micros &&
		    policy_spot_safe(r->s, v, i)) {
			double gain = pool_gain(r, v, i, usual, w->slack, MIN(hours, LIFE_MAX_H));

			if (best == SIZE_MAX || gain > best_gain) {
				best = i;
				best_gain = gain;
			}
		}
	}
	return best;
}

static void weigh_any(struct auto_run *r, const struct policy_view *v, const struct rest *x,
    struct costs *ret)
{
	struct policy_worth w;

	if (!policy_dp_covers(r->dp, x->todo_us, x->left_us - x->todo_us)) {
		problem_solve(r, v, x->todo_us, x->left_us - x->todo_us);
	}
	policy_dp_worth(r->dp, planned_pool(r), v->held, x->todo_us, x->left_us - x->todo_us, &w);
	*ret = (struct costs){ w.wait, w.on_demand, w.spot, choose_pool(r, v, &w, x->work_us) };
}

/* ---- a few pools of different prices --------------------------------------------------------- */

static bool prices_differ(const struct auto_run *r, const struct policy_view *v)
{
	int64_t least = INT64_MAX, most = 0;

	for (size_t i = 0; i < r->s->pools_n; i++) {
		least = MIN(least, v->price_micros[i]);
		most = MAX(most, v->price_micros[i]);
	}
	return (double)most >= PRICES_DIFFER * (double)least;
}

static void weigh_several(struct auto_run *r, const struct policy_view *v, const struct rest *x,
    struct costs *ret)
{
	struct policy_joint_view keep = { .held = v->held,
		.held_slot = -1,
		.work_us = x->todo_us,
		.slack_us = x->left_us - x->todo_us };
	struct policy_joint_view begin;
	struct policy_joint_worth kept, begun;

	if (!policy_joint_covers(r->joint, keep.work_us, keep.slack_us)) {
		struct policy_joint_problem p = { .model = &r->model,
			.work_us = keep.work_us,
			.slack_us = keep.slack_us,
			.on_demand = micros_dollars(r->s->on_demand_micros) };

		for (size_t i = 0; i < r->s->pools_n; i++) {
			p.slot[i] = (struct policy_slot){ &r->model.pools[i],
				micros_dollars(v->price_micros[i]) };
		}
		policy_joint_solve(r->joint, &p);
	}
	for (size_t i = 0; i < r->s->pools_n; i++) {
		keep.pools[i] = &r->model.pools[i];
	}
	keep.held_slot = v->held == POLICY_SPOT ? (int)v->held_pool : -1;
	/* gives up the held instance, with the changeover under way */
	begin = keep;
	begin.held = POLICY_WAIT;
	begin.work_us = x->work_us;
	begin.slack_us = x->left_us - x->work_us;
	policy_joint_worth(r->joint, &r->model, &keep, &kept);
	policy_joint_worth(r->joint, &r->model, &begin, &begun);
	*ret = (struct costs){ begun.wait,
		v->held == POLICY_ON_DEMAND ? kept.on_demand : begun.on_demand, POLICY_NEVER,
		SIZE_MAX };
	for (size_t i = 0; i < r->s->pools_n; i++) {
		bool there = v->held == POLICY_SPOT && v->held_pool == i;
		bool away = v->last_pool != SIZE_MAX && r->s->regions != NULL &&
		    r->s->regions[v->last_pool] != r->s->regions[i];
		double cost = (there ? kept.spot[i] : begun.spot[i]) +
		    (away ? micros_dollars(r->s->transfer_micros) : 0);

		if (may_take(r, v, i) && cost < ret->spot) {
			ret->spot = cost;
			ret->pool = i;
		}
	}
}

static void auto_decide(void *state, const struct policy_view *v, struct policy_choice *ret)
{
	struct auto_run *r = state;
	const struct policy_setup *s = r->s;
	struct rest x = { .left_us = (s->deadline_us - v->elapsed_us) / s->tick_us * s->tick_us,
		.work_us = s->work_us - v->done_us };
	struct costs c;

	x.todo_us = x.work_us + v->changeover_left_us;
	model_update(r, v);
	rises_set(r, v);
	if (r->joint != NULL && prices_differ(r, v)) {
		weigh_several(r, v, &x, &c);
	} else {
		weigh_any(r, v, &x, &c);
	}
	choice_make(r, v, &c, ret);
}

const struct policy policy_auto = { "auto", auto_begin, auto_decide };
