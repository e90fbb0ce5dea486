/*
 * Solves the deadline problem of one pool exactly, on a grid by backward induction. The axes are
 * the time left, the slack (time left that the work does not need), the pool's feature and what is
 * held. A feature is up or down, the age of that state, and the faded availability. The pool moves
 * between features as policy_model.c predicts.
 *
 * In (time, slack) a step with progress stays on its grid line, and a step of waiting goes down by
 * one. Only a changeover falls between two lines. It is taken off the slack at its start and paid
 * step by step like work, which is equivalent.
 *
 * Layers run from t = 0 (nothing left) to n. The newest `keep` of them stay, with the expectations
 * over the next step. The worth of each choice is read from those. The policy is Wu et al.'s
 * feature-free problem ("Can't Be Late", NSDI'24) with the semi-Markov supply that their traces
 * show.
 */
#include "base/base.h"
#include "core/policy/policy_priv.h"

#include <math.h>

enum { WORK_STEPS = 192, SLACK_STEPS = 128, WINDOW_STEPS = 12, NONE = 0, SPOT, DEMAND, HELD };
/* price of missing slack, in on-demand prices: high enough never to pay */
#define PENALTY 8.0

struct policy_dp {
	double step_us, step_h;
	double spot, demand; /* dollars per step */
	double changeover; /* steps */
	float moves; /* changeovers from spot to spot per step */
	int slack_n, now_n; /* slack 0..slack_n; in the solved table 0..now_n */
	/* floats before slack 0 (continued below zero), in all, and of the solved table */
	int pad, row, used;
	int keep, top; /* layers kept; newest one solved, -1: none */
	float *value[HELD]; /* of the previous layer */
	float *drift[HELD], *turn[HELD];
	float *expect; /* [keep][HELD][POLICY_FEATS][row] */
	float stay[POLICY_FEATS]; /* probability that the state lasts the step */
	float calm; /* that the rise of the hazard takes no machine in it */
	int next[POLICY_AGES]; /* age bin to advance to, with this probability */
	float advance[POLICY_AGES];
};

static float *row_of(const struct policy_dp *d, float *rows, int feat)
{
	return rows + (size_t)feat * (size_t)d->row;
}

static float *layer_of(const struct policy_dp *d, int t, int held)
{
	return d->expect + (size_t)((t % d->keep) * HELD + held) * POLICY_FEATS * (size_t)d->row;
}

/* Chooses steps so that a changeover ends on a grid line. The cost is convex in the slack, so
 * reading between two lines would overstate it. */
double policy_dp_step_us(const struct policy_setup *s)
{
	double slack = (double)MAX(s->deadline_us - s->work_us, 0);
	double step =
	    MAX(MAX((double)s->work_us / WORK_STEPS, slack / SLACK_STEPS), (double)s->tick_us);
	double whole = (double)s->changeover_us / MAX(round((double)s->changeover_us / step), 1);

	return fabs(whole - step) <= step / 4 && whole >= (double)s->tick_us ? whole : step;
}

struct policy_dp *policy_dp_new(struct arena *a, const struct policy_setup *s)
{
	struct policy_dp *d = arena_alloc(a, sizeof(*d));
	double slack = (double)MAX(s->deadline_us - s->work_us, 0);

	d->step_us = policy_dp_step_us(s);
	d->step_h = d->step_us / 3.6e9;
	d->changeover = (double)s->changeover_us / d->step_us;
	d->slack_n = (int)ceil(slack / d->step_us) + 1;
	d->pad = ((int)ceil(d->changeover) + 2 + 3) & ~3;
	d->row = (d->pad + d->slack_n + 1 + 7) & ~7;
	d->keep = WINDOW_STEPS;
	d->top = -1;
	for (int i = 0; i < HELD; i++) {
		d->value[i] = arena_array(a, POLICY_FEATS * (size_t)d->row, sizeof(float));
		d->drift[i] = arena_array(a, POLICY_FEATS * (size_t)d->row, sizeof(float));
		d->turn[i] =
		    arena_array(a, (size_t)2 * POLICY_FADES * (size_t)d->row, sizeof(float));
	}
	d->expect =
	    arena_array(a, (size_t)(d->keep * HELD * POLICY_FEATS) * (size_t)d->row, sizeof(float));
	return d;
}

/* Returns the chance that a state in a wide bin lasts one step. The bin is left with a chance per
 * step, so the time in it is random. The result makes the chance to last through the bin match its
 * rate and width. Using the rate directly would make states that outlive several bins far too
 * frequent. Losses would look rarer, and waits longer, than they are. */
static double stay_through(double rate_h, double wide_h, double advance)
{
	double through = exp(-rate_h * wide_h);

	return through / (advance + through * (1 - advance));
}

/* Fills a state's chances in one step: survival from the bin's lower edge, or from anywhere in a
 * wide bin. */
static void fill_chances(struct policy_dp *d, const struct policy_problem *p)
{
	for (int a = 0; a < POLICY_AGES; a++) {
		double lo = policy_age_edge_h[a],
		       wide = a + 1 < POLICY_AGES ? policy_age_edge_h[a + 1] - lo : 1e9;

		d->next[a] = wide <= d->step_h ? policy_age_bin(lo + d->step_h)
					       : MIN(a + 1, POLICY_AGES - 1);
		d->advance[a] = (float)(wide <= d->step_h ? 1 : d->step_h / wide);
		for (int k = 0; k < 2 * POLICY_FADES; k++) {
			bool up = k >= POLICY_FADES;
			double fade = (double)(k % POLICY_FADES) / (POLICY_FADES - 1), gone = 0,
			       at = lo;

			for (int b = a; b < POLICY_AGES && at < lo + d->step_h; b++) {
				double to = b + 1 < POLICY_AGES && wide <= d->step_h
				    ? policy_age_edge_h[b + 1]
				    : 1e9;

				to = MIN(to, lo + d->step_h);
				gone += (to - at) * policy_hazard(p->model, p->pool, up, b, fade);
				at = to;
			}
			d->stay[POLICY_FEAT(up, a, k % POLICY_FADES)] =
			    (float)(wide > d->step_h && a + 1 < POLICY_AGES
				    ? stay_through(gone / d->step_h, wide, d->advance[a])
				    : exp(-gone));
		}
	}
}

static void rows_mix2(float *restrict o, const float *restrict a, float x, const float *restrict b,
    float y, int n)
{
	for (int i = 0; i < n; i++) {
		o[i] = a[i] * x + b[i] * y;
	}
}

static void rows_mix3(float *restrict o, const float *restrict a, float x, const float *restrict b,
    float y, const float *restrict c, float z, int n)
{
	for (int i = 0; i < n; i++) {
		o[i] = a[i] * x + b[i] * y + c[i] * z;
	}
}

/* Fills the previous layer's values after one step of fading: in the same state (drift), and just
 * turned to the other. */
static void drift_values(struct policy_dp *d, int held)
{
	double keep = exp2(-d->step_h / POLICY_FADE_HALF_H);
	float *v = d->value[held];

	for (int k = 0; k < 2 * POLICY_FADES; k++) {
		int up = k / POLICY_FADES, f = k % POLICY_FADES;
		double x = f * keep + (1 - keep) * up * (POLICY_FADES - 1);
		int j = MIN((int)x, POLICY_FADES - 2);
		float w = (float)(x - j);

		for (int a = 0; a < POLICY_AGES; a++) {
			rows_mix2(row_of(d, d->drift[held], POLICY_FEAT(up, a, f)),
			    row_of(d, v, POLICY_FEAT(up, a, j)), 1 - w,
			    row_of(d, v, POLICY_FEAT(up, a, j + 1)), w, d->used);
		}
		rows_mix2(row_of(d, d->turn[held], k), row_of(d, v, POLICY_FEAT(!up, 0, j)), 1 - w,
		    row_of(d, v, POLICY_FEAT(!up, 0, j + 1)), w, d->used);
	}
}

static void expect_layer(struct policy_dp *d, int t)
{
	for (int held = 0; held < HELD; held++) {
		float *e = layer_of(d, t, held), *from = d->drift[held];

		drift_values(d, held);
		for (int x = 0; x < POLICY_FEATS; x++) {
			int f = x % POLICY_FADES, a = x / POLICY_FADES % POLICY_AGES,
			    up = x / (POLICY_FADES * POLICY_AGES);
			float stay = up ? d->stay[x] * d->calm : d->stay[x], w = d->advance[a];

			rows_mix3(row_of(d, e, x), row_of(d, from, x), stay * (1 - w),
			    row_of(d, from, POLICY_FEAT(up, d->next[a], f)), stay * w,
			    row_of(d, d->turn[held], up * POLICY_FADES + f), 1 - stay, d->used);
		}
	}
}

/* Adds the cost of changeovers from spot to spot: of several pools the held one may be lost while
 * another is up. */
static void expect_moves(struct policy_dp *d, int t)
{
	int whole = (int)floor(d->changeover);
	float part = (float)(d->changeover - whole), m = d->moves;

	for (int x = POLICY_FEATS / 2; m > 0 && x < POLICY_FEATS; x++) {
		float *e = row_of(d, layer_of(d, t, SPOT), x) + d->pad;

		for (int k = d->now_n; k >= 0; k--) {
			e[k] += m * (e[k - whole] * (1 - part) + e[k - whole - 1] * part - e[k]);
		}
	}
}

/* Chooses the best in each cell of layer t, given the previous layer's expectations. */
static void choose_row(struct policy_dp *d, int t, int x)
{
	int whole = (int)floor(d->changeover), n = MIN(d->now_n, t - 1);
	int wait_from = (int)ceil(1 + d->changeover), spot_from = (int)ceil(2 * d->changeover);
	float part = (float)(d->changeover - whole), ps = (float)d->spot, pd = (float)d->demand;
	bool up = x >= POLICY_FEATS / 2;
	const float *en = row_of(d, layer_of(d, t, NONE), x) + d->pad,
		    *es = row_of(d, layer_of(d, t, SPOT), x) + d->pad,
		    *ed = row_of(d, layer_of(d, t, DEMAND), x) + d->pad;
	float *vn = row_of(d, d->value[NONE], x) + d->pad,
	      *vs = row_of(d, d->value[SPOT], x) + d->pad,
	      *vd = row_of(d, d->value[DEMAND], x) + d->pad;
	const float never = (float)POLICY_NEVER;

	for (int k = 0; k <= n; k++) {
		float to_d = pd + ed[k - whole] * (1 - part) + ed[k - whole - 1] * part,
		      on_d = pd + ed[k];
		float to_s = ps + es[k - whole] * (1 - part) + es[k - whole - 1] * part,
		      on_s = ps + es[k];
		float wait = k >= wait_from ? en[k - 1] : never, rest;

		to_s = up && k >= spot_from ? to_s : never;
		on_s = up ? on_s : never;
		rest = wait < to_d ? wait : to_d;
		vn[k] = rest < to_s ? rest : to_s;
		vs[k] = rest < on_s ? rest : on_s;
		rest = wait < on_d ? wait : on_d;
		vd[k] = rest < to_s ? rest : to_s;
	}
	for (int k = n + 1; k <= d->now_n; k++) {
		vn[k] = vs[k] = vd[k] = 0;
	}
	for (int k = 1; k <= d->pad; k++) {
		float more = (float)(PENALTY * d->demand * k);

		vn[-k] = vn[0] + more;
		vs[-k] = vs[0] + more;
		vd[-k] = vd[0] + more;
	}
}

/* Rounds up, so that the last piece of work does not count as done. */
static int layer_at(const struct policy_dp *d, int64_t work_us, int64_t slack_us)
{
	double slack = MIN((double)slack_us / d->step_us, (double)d->slack_n);

	return MAX((int)ceil((double)work_us / d->step_us + slack - 1e-6), 1);
}

void policy_dp_solve(struct policy_dp *d, const struct policy_problem *p)
{
	d->spot = p->spot * d->step_h;
	d->demand = p->on_demand * d->step_h;
	d->moves = (float)MIN(p->moves_per_hour * d->step_h, 1);
	/* Slack only shrinks, except when a changeover under way is given up. */
	d->now_n = MIN((int)ceil((double)MAX(p->slack_us, 0) / d->step_us + d->changeover) + 1,
	    d->slack_n);
	d->used = (d->pad + d->now_n + 1 + 7) & ~7;
	d->top = layer_at(d, p->work_us, p->slack_us);
	fill_chances(d, p);
	for (int held = 0; held < HELD; held++) {
		for (int x = 0; x < POLICY_FEATS; x++) {
			float *v = row_of(d, d->value[held], x);

			for (int k = 0; k < d->row; k++) {
				v[k] = k < d->pad ? (float)(PENALTY * d->demand * (d->pad - k)) : 0;
			}
		}
	}
	for (int t = 1; t <= d->top; t++) {
		double ahead_h = (d->top - t) * d->step_h;

		d->calm = (float)exp(-policy_raised(p->pool, ahead_h, ahead_h + d->step_h));
		expect_layer(d, t);
		expect_moves(d, t);
		for (int x = 0; x < POLICY_FEATS; x++) {
			choose_row(d, t, x);
		}
	}
}

bool policy_dp_covers(const struct policy_dp *d, int64_t work_us, int64_t slack_us)
{
	int t = layer_at(d, work_us, slack_us);

	return t <= d->top && t > d->top - d->keep && (double)slack_us <= d->now_n * d->step_us;
}

static double read_at(const float *e, double k)
{
	int i = (int)floor(k);
	double w = k - i;

	return e[i] * (1 - w) + (w > 0 ? e[i + 1] * w : 0);
}

void policy_dp_worth(const struct policy_dp *d, const struct policy_pool *p, enum policy_act held,
    int64_t work_us, int64_t slack_us, struct policy_worth *ret)
{
	int t = layer_at(d, work_us, slack_us), age = policy_age_bin(p->age_h), j;
	double k = MAX(MIN((double)slack_us / d->step_us, (double)d->now_n), 0), c = d->changeover,
	       x = p->fade * (POLICY_FADES - 1);
	/* the last piece of a step costs its share, run now or later */
	double share = MIN((double)work_us / d->step_us, 1);

	j = MIN((int)x, POLICY_FADES - 2);
	x -= j;
	*ret = (struct policy_worth){ 0 };
	for (int i = 0; i < 2; i++) {
		int feat = POLICY_FEAT(p->up, age, j + i);
		double w = i == 0 ? 1 - x : x;
		const float *en = row_of(d, layer_of(d, t, NONE), feat) + d->pad,
			    *es = row_of(d, layer_of(d, t, SPOT), feat) + d->pad,
			    *ed = row_of(d, layer_of(d, t, DEMAND), feat) + d->pad;
		double spot_k = held == POLICY_SPOT ? k : k - c;

		ret->wait += w * (k >= 1 + c ? read_at(en, k - 1) : POLICY_NEVER);
		ret->spot += w *
		    (p->up && (held == POLICY_SPOT || k >= 2 * c)
			    ? d->spot * share + read_at(es, spot_k)
			    : POLICY_NEVER);
		ret->on_demand +=
		    w * (d->demand * share + read_at(ed, held == POLICY_ON_DEMAND ? k : k - c));
		ret->slack += w * MAX(read_at(es, MAX(k - 2, 0)) - read_at(es, k), 0) /
		    (MAX(k - MAX(k - 2, 0), 1e-3) * d->step_h);
	}
}
