/*
 * Solves the deadline problem of several pools on a grid by backward induction, as policy_dp.c
 * does, but with each pool's own price and state. A state says of each pool whether it is up or
 * down and for how long, in a few phases. The job holds nothing, on demand or one of the pools. The
 * worth of taking an expensive pool, waiting for a cheap one, or leaving a running pool follows.
 * There are at most POLICY_SLOTS pools.
 *
 * Pools move independently. A pool's rates depend on its recent availability, which is not part of
 * the state. It returns to the pool's usual availability with its half-life.
 */
#include "base/base.h"
#include "core/policy/policy_priv.h"

#include <math.h>

enum {
	WINDOW_STEPS = 24,
	RATES_STEPS = 4,
	PHASES = 2,
	SIDES = 2 * PHASES,
	NONE = 0,
	DEMAND,
	SPOT,
	HELD_MAX = SPOT + POLICY_SLOTS
};
/* price of missing slack, in on-demand prices: high enough never to pay */
#define PENALTY 8.0

static const double phase_edge_h[PHASES + 1] = { 0, 1, 6 };

struct policy_joint {
	double step_us, step_h;
	double changeover; /* steps */
	int slots, states, held; /* kinds of what is held */
	int slack_n, pad, row; /* as in policy_dp.c */
	int keep, top;
	float *value[HELD_MAX]; /* of the previous layer */
	/* partial expectations: some pools have made their step */
	float *half[2];
	float *expect; /* [keep][held][states][row] */
	double spot[POLICY_SLOTS], demand; /* dollars per step */
	/* of leaving the state, per hour: down young, down old, up young, up old */
	double rate[POLICY_SLOTS][SIDES];
	float stay[POLICY_SLOTS][SIDES], advance[PHASES];
	/* that the rise of the hazard takes no machine in the step */
	float calm[POLICY_SLOTS];
	int stride[POLICY_SLOTS]; /* of the slot's side in the number of a state */
};

static float *row_of(const struct policy_joint *d, float *rows, int x)
{
	return rows + (size_t)x * (size_t)d->row;
}

static float *layer_of(const struct policy_joint *d, int t, int held)
{
	return d->expect +
	    (size_t)((t % d->keep) * d->held + held) * (size_t)d->states * (size_t)d->row;
}

struct policy_joint *policy_joint_new(struct arena *a, const struct policy_setup *s)
{
	struct policy_joint *d = arena_alloc(a, sizeof(*d));
	double slack = (double)MAX(s->deadline_us - s->work_us, 0);

	*d = (struct policy_joint){ 0 };
	d->step_us = policy_dp_step_us(s); /* as fine as that of one pool */
	d->step_h = d->step_us / 3.6e9;
	d->changeover = (double)s->changeover_us / d->step_us;
	d->slots = (int)MIN(s->pools_n, (size_t)POLICY_SLOTS);
	d->states = 1;
	for (int i = 0; i < d->slots; i++) {
		d->stride[i] = d->states;
		d->states *= SIDES;
	}
	d->held = SPOT + d->slots;
	d->slack_n = (int)ceil(slack / d->step_us) + 1;
	d->pad = ((int)ceil(d->changeover) + 2 + 3) & ~3;
	d->row = (d->pad + d->slack_n + 1 + 3) & ~3;
	d->keep = WINDOW_STEPS;
	d->top = -1;
	for (int i = 0; i < d->held; i++) {
		d->value[i] = arena_array(a, (size_t)d->states * (size_t)d->row, sizeof(float));
	}
	for (int i = 0; i < 2; i++) {
		d->half[i] = arena_array(a, (size_t)d->states * (size_t)d->row, sizeof(float));
	}
	d->expect =
	    arena_array(a, (size_t)(d->keep * d->held * d->states) * (size_t)d->row, sizeof(float));
	return d;
}

/* Mean rate from age lo to hi. */
static double mean_rate(const struct policy_model *m, const struct policy_pool *p, bool up,
    double lo, double hi, double fade)
{
	double gone = 0, at = lo;

	for (int b = policy_age_bin(lo); b < POLICY_AGES && at < hi; b++) {
		double to = b + 1 < POLICY_AGES ? MIN(policy_age_edge_h[b + 1], hi) : hi;

		gone += (to - at) * policy_hazard(m, p, up, b, fade);
		at = to;
	}
	return gone / (hi - lo);
}

/* Returns a pool's rate in a phase. A pool long in the old phase continues from its age. */
static double phase_rate(const struct policy_model *m, const struct policy_pool *p, bool up,
    int phase, double fade)
{
	double lo = phase_edge_h[phase], hi = phase_edge_h[phase + 1], more = p->age_h - lo;

	if (phase + 1 == PHASES && p->up == up && more > 0) {
		lo += more;
		hi += more;
	}
	return mean_rate(m, p, up, lo, hi, fade);
}

/* Fills the rates this many hours ahead. */
static void fill_chances(struct policy_joint *d, const struct policy_joint_problem *p,
    double ahead_h)
{
	double keep = exp2(-ahead_h / POLICY_FADE_HALF_H);

	for (int x = 0; x < d->slots * SIDES; x++) {
		const struct policy_slot *slot = &p->slot[x / SIDES];
		bool up = x % SIDES >= PHASES;
		const struct policy_pool *q = slot->pool;
		double rate =
		    phase_rate(p->model, q, up, x % PHASES, q->usual + (q->fade - q->usual) * keep);

		d->rate[x / SIDES][x % SIDES] = rate;
		d->stay[x / SIDES][x % SIDES] = (float)exp(-rate * d->step_h);
	}
}

/* The rise falls within minutes to hours, so each layer has its own. */
static void fill_calm(struct policy_joint *d, const struct policy_joint_problem *p, double ahead_h)
{
	for (int i = 0; i < d->slots; i++) {
		d->calm[i] =
		    (float)exp(-policy_raised(p->slot[i].pool, ahead_h, ahead_h + d->step_h));
	}
}

/* Computes the values before one slot's step from those after it. */
static void step_slot(const struct policy_joint *d, int i, const float *from, float *to)
{
	int st = d->stride[i], n = d->row;

	for (int x = 0; x < d->states; x++) {
		int side = x / st % SIDES, up = side >= PHASES, ph = side % PHASES;
		const float *same = from + (size_t)x * (size_t)n;
		const float *next = from + (size_t)(ph + 1 < PHASES ? x + st : x) * (size_t)n;
		const float *turn =
		    from + (size_t)(x + ((up ? 0 : PHASES) - side) * st) * (size_t)n;
		float s = up ? d->stay[i][side] * d->calm[i] : d->stay[i][side],
		      a = s * (1 - d->advance[ph]), b = s * d->advance[ph], c = 1 - s,
		      *o = to + (size_t)x * (size_t)n;

		if (ph + 1 == PHASES) {
			for (int k = 0; k < n; k++) {
				o[k] = same[k] * s + turn[k] * c;
			}
		} else {
			for (int k = 0; k < n; k++) {
				o[k] = same[k] * a + next[k] * b + turn[k] * c;
			}
		}
	}
}

static void expect_layer(struct policy_joint *d, int t)
{
	for (int h = 0; h < d->held; h++) {
		const float *from = d->value[h];

		for (int i = 0; i < d->slots; i++) {
			float *to = i + 1 == d->slots ? layer_of(d, t, h) : d->half[i & 1];

			step_slot(d, i, from, to);
			from = to;
		}
	}
}

static bool is_up(const struct policy_joint *d, int x, int i)
{
	return x / d->stride[i] % SIDES >= PHASES;
}

/* Chooses the best start in state x: on demand, waiting, or any pool that is up. */
static void choose_fresh(struct policy_joint *d, int t, int x, int n)
{
	int whole = (int)floor(d->changeover);
	int wait_from = (int)ceil(1 + d->changeover), spot_from = (int)ceil(2 * d->changeover);
	float part = (float)(d->changeover - whole), pd = (float)d->demand;
	const float *en = row_of(d, layer_of(d, t, NONE), x) + d->pad,
		    *ed = row_of(d, layer_of(d, t, DEMAND), x) + d->pad;
	float *vn = row_of(d, d->value[NONE], x) + d->pad;

	for (int k = 0; k <= n; k++) {
		vn[k] = pd + ed[k - whole] * (1 - part) + ed[k - whole - 1] * part;
	}
	for (int k = wait_from; k <= n; k++) {
		vn[k] = MIN(vn[k], en[k - 1]);
	}
	for (int i = 0; i < d->slots; i++) {
		const float *es = row_of(d, layer_of(d, t, SPOT + i), x) + d->pad;
		float ps = (float)d->spot[i];

		for (int k = spot_from; is_up(d, x, i) && k <= n; k++) {
			float to = ps + es[k - whole] * (1 - part) + es[k - whole - 1] * part;

			vn[k] = to < vn[k] ? to : vn[k];
		}
	}
}

/* Chooses the best in each cell of layer t in state x: start something, or keep what is held. */
static void choose_row(struct policy_joint *d, int t, int x)
{
	int n = MIN(d->slack_n, t - 1);
	const float *ed = row_of(d, layer_of(d, t, DEMAND), x) + d->pad;
	float *vn = row_of(d, d->value[NONE], x) + d->pad,
	      *vd = row_of(d, d->value[DEMAND], x) + d->pad, pd = (float)d->demand;

	choose_fresh(d, t, x, n);
	for (int k = 0; k <= n; k++) {
		float on = pd + ed[k];

		vd[k] = on < vn[k] ? on : vn[k];
	}
	for (int i = 0; i < d->slots; i++) {
		const float *es = row_of(d, layer_of(d, t, SPOT + i), x) + d->pad;
		float *vs = row_of(d, d->value[SPOT + i], x) + d->pad,
		      ps = is_up(d, x, i) ? (float)d->spot[i] : (float)POLICY_NEVER;

		for (int k = 0; k <= n; k++) {
			float on = ps + es[k];

			vs[k] = on < vn[k] ? on : vn[k];
		}
	}
	for (int h = 0; h < d->held; h++) {
		float *v = row_of(d, d->value[h], x) + d->pad;

		for (int k = n + 1; k <= d->slack_n; k++) {
			v[k] = 0;
		}
		for (int k = 1; k <= d->pad; k++) {
			v[-k] = v[0] + (float)(PENALTY * d->demand * k);
		}
	}
}

/* Rounds up, so that the last piece of work does not count as done. */
static int layer_at(const struct policy_joint *d, int64_t work_us, int64_t slack_us)
{
	double slack = MIN((double)slack_us / d->step_us, (double)d->slack_n);

	return MAX((int)ceil((double)work_us / d->step_us + slack - 1e-6), 1);
}

void policy_joint_solve(struct policy_joint *d, const struct policy_joint_problem *p)
{
	d->demand = p->on_demand * d->step_h;
	for (int i = 0; i < d->slots; i++) {
		d->spot[i] = p->slot[i].price * d->step_h;
	}
	for (int a = 0; a < PHASES; a++) {
		d->advance[a] = (float)(a + 1 < PHASES
			? MIN(d->step_h / (phase_edge_h[a + 1] - phase_edge_h[a]), 1)
			: 0);
	}
	d->top = layer_at(d, p->work_us, p->slack_us);
	for (int h = 0; h < d->held; h++) {
		for (int x = 0; x < d->states; x++) {
			float *v = row_of(d, d->value[h], x);

			for (int k = 0; k < d->row; k++) {
				v[k] = k < d->pad ? (float)(PENALTY * d->demand * (d->pad - k)) : 0;
			}
		}
	}
	for (int t = 1; t <= d->top; t++) {
		if (t == 1 || (d->top - t) % RATES_STEPS == 0) {
			fill_chances(d, p, (d->top - t) * d->step_h);
		}
		fill_calm(d, p, (d->top - t) * d->step_h);
		expect_layer(d, t);
		for (int x = 0; x < d->states; x++) {
			choose_row(d, t, x);
		}
	}
	fill_chances(d, p, 0);
}

bool policy_joint_covers(const struct policy_joint *d, int64_t work_us, int64_t slack_us)
{
	int t = layer_at(d, work_us, slack_us);

	return t <= d->top && t > d->top - d->keep;
}

static double read_at(const float *e, double k)
{
	int i = (int)floor(k);
	double w = k - i;

	return e[i] * (1 - w) + (w > 0 ? e[i + 1] * w : 0);
}

/* Returns the pool's place between the young and the old phase of its side, by its current rate. */
static double phase_place(const struct policy_joint *d, const struct policy_model *m,
    const struct policy_pool *p, int i, int *side)
{
	double rate = policy_hazard(m, p, p->up, policy_age_bin(p->age_h), p->fade);
	const double *r = &d->rate[i][p->up ? PHASES : 0];

	*side = p->up ? PHASES : 0;
	return r[0] <= r[1] ? p->age_h >= phase_edge_h[1]
			    : MAX(MIN((r[0] - rate) / (r[0] - r[1]), 1), 0);
}

/* Adds the worth in state x, which has the weight p. */
static void add_state(const struct policy_joint *d, int t, int x, double p,
    const struct policy_joint_view *v, struct policy_joint_worth *ret)
{
	double k = MAX(MIN((double)v->slack_us / d->step_us, (double)d->slack_n), 0),
	       c = d->changeover;
	/* the last piece of a step costs its share */
	double share = MIN((double)v->work_us / d->step_us, 1);
	const float *en = row_of(d, layer_of(d, t, NONE), x) + d->pad,
		    *ed = row_of(d, layer_of(d, t, DEMAND), x) + d->pad;

	ret->wait += p * (k >= 1 + c ? read_at(en, k - 1) : POLICY_NEVER);
	ret->on_demand +=
	    p * (d->demand * share + read_at(ed, v->held == POLICY_ON_DEMAND ? k : k - c));
	for (int i = 0; i < d->slots; i++) {
		const float *es = row_of(d, layer_of(d, t, SPOT + i), x) + d->pad;
		bool there = v->held == POLICY_SPOT && v->held_slot == i;

		ret->spot[i] += p *
		    (v->pools[i]->up && (there || k >= 2 * c)
			    ? d->spot[i] * share + read_at(es, there ? k : k - c)
			    : POLICY_NEVER);
	}
}

void policy_joint_worth(const struct policy_joint *d, const struct policy_model *m,
    const struct policy_joint_view *v, struct policy_joint_worth *ret)
{
	int t = layer_at(d, v->work_us, v->slack_us), side[POLICY_SLOTS] = { 0 };
	double w[POLICY_SLOTS] = { 0 };

	*ret = (struct policy_joint_worth){ 0 };
	for (int i = 0; i < d->slots; i++) {
		w[i] = phase_place(d, m, v->pools[i], i, &side[i]);
	}
	for (int corner = 0; corner < 1 << d->slots; corner++) {
		double p = 1;
		int x = 0;

		for (int i = 0; i < d->slots; i++) {
			int old = corner >> i & 1;

			p *= old ? w[i] : 1 - w[i];
			x += (side[i] + old) * d->stride[i];
		}
		if (p > 0) {
			add_state(d, t, x, p, v, ret);
		}
	}
}
