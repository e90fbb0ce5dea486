/* Computes the expected cost of one offer. The arithmetic is in rank.h and README.md. */
#include "base/base.h"
#include "core/hazard/hazard.h"
#include "core/rank/rank_priv.h"

#include <math.h>

#define BYTES_PER_GB 1e9
/* Below this share of useful time an offer would hardly ever finish the work. */
#define USEFUL_MIN 0.05
/* e^10 times the work is never. */
#define RESTARTS_MAX_EXP 10.0
/* Worse odds count as this: such pools are refused or cooling. */
#define ODDS_FLOOR 0.05
#define Z95 1.645
/* A shorter run feels the rise of so many hours. */
#define RISE_HOURS_MIN 0.02
#define INTERVAL_MIN_S 30.0
#define INTERVAL_MAX_S 3600.0
/* A reclaim costs at most 1 / SLACK_PARTS of the slack before a deadline. Saving for that takes at
 * most 1 / SAVE_PARTS of the time. */
#define SLACK_PARTS 4.0
#define SAVE_PARTS 10.0
/* A ranking scores each suitable offer and keeps few of the terms. Inlined into one body, the
 * compiler drops the terms that are not kept. */
#define INLINE static inline __attribute__((always_inline))

/* fmax, fmin and llround for finite numbers in range. The library calls cost more than the
 * operations. */
INLINE double most(double a, double b)
{
	return a > b ? a : b;
}
INLINE double least(double a, double b)
{
	return a < b ? a : b;
}
INLINE int64_t whole(double x)
{
	int64_t near = (int64_t)x;
	double rest = x - (double)near;

	return near + (rest >= 0.5) - (rest <= -0.5);
}

double gamma_at(double mean, double var, double z)
{
	double k, c, t;

	if (mean <= 0 || var <= 0) {
		return fmax(mean, 0);
	}
	k = mean * mean / var;
	c = 1.0 / (9.0 * k);
	t = 1.0 - c + z * sqrt(c);
	return t <= 0 ? 0 : mean * t * t * t;
}

INLINE double interval_best(double hazard_per_hour, double notice_saves, double save_s, bool known,
    const char **ret_source)
{
	double d = most(save_s, 0.1);
	double mtbf = 3600.0 / most(hazard_per_hour * (1.0 - notice_saves), 1e-9);
	double i = sqrt(2.0 * d * mtbf);

	*ret_source = "Young";
	if (known) {
		double x = d / (2.0 * mtbf);

		i = d < 2.0 * mtbf ? i * (1.0 + sqrt(x) / 3.0 + x / 9.0) - d : mtbf;
		*ret_source = "Daly, from the measured save time";
	}
	return least(most(i, INTERVAL_MIN_S), INTERVAL_MAX_S);
}

double save_interval_s(double hazard_per_hour, double notice_saves, double save_s, bool known,
    const char **ret_source)
{
	return interval_best(hazard_per_hour, notice_saves, save_s, known, ret_source);
}

double save_interval_slack_s(double interval_s, double slack_s, double save_s)
{
	return least(interval_s,
	    most(slack_s / SLACK_PARTS, most(save_s * SAVE_PARTS, INTERVAL_MIN_S)));
}

/* ---- hours ----------------------------------------------------------------------------------- */

/* A notice that is shorter than a save saves nothing. */
INLINE double notice_share(const struct rank_ctx *c, const struct offer *o, struct score_terms *t)
{
	t->notice_s = notice_s(o->provider);
	return c->save_s > t->notice_s ? 0 : c->policy.notice_saves;
}

INLINE void slack_terms(const struct rank_ctx *c, const struct offer *o, struct score_terms *t)
{
	double i;

	if (c->job.deadline_us <= c->now_us || !spot_market_reclaims(o->market)) {
		return;
	}
	t->slack_h = (double)(c->job.deadline_us - c->now_us) / (double)SPOT_US_PER_HOUR -
	    t->start_h - t->work_h - t->restart_per_h;
	i = save_interval_slack_s(t->interval_s, t->slack_h * 3600.0, t->save_s);
	if (i < t->interval_s) {
		t->interval_s = i;
		t->interval_source = "the slack before the deadline";
	}
}

INLINE void interval_terms(const struct rank_ctx *c, const struct offer *o, double hazard,
    struct score_terms *t)
{
	const struct checkpoint_spec *k = &c->job.spec->checkpoint;

	/* A gang returns to its last save whichever of its machines is reclaimed. */
	hazard *= c->job.nodes > 1 ? c->job.nodes : 1;
	t->save_s = c->save_s;
	if (k->interval_off) {
		/* Saved only on a notice: work since the last sufficient notice is lost. */
		double between_h = 1.0 / most(hazard * t->notice_saves, 1e-9);

		t->interval_source = "never, by the job file";
		t->lost_per_h = (1.0 - t->notice_saves) * least(between_h, t->work_h / 2.0);
		return;
	}
	if (k->interval_s > 0) {
		t->interval_s = (double)k->interval_s;
		t->interval_source = "job file";
	} else {
		t->interval_s = interval_best(hazard, t->notice_saves, c->save_s,
		    c->job.save_us > 0, &t->interval_source);
		slack_terms(c, o, t);
	}
	t->overhead = t->save_s / t->interval_s;
	t->lost_per_h = (1.0 - t->notice_saves) * t->interval_s / 2.0 / 3600.0;
}

/* Everything is lost each time: the expected time of a run that must survive W hours
 * uninterrupted. */
INLINE bool hours_from_scratch(double hazard, struct score_terms *t)
{
	double x = hazard * t->work_h;

	if (x > RESTARTS_MAX_EXP) {
		return false;
	}
	t->interval_source = "no checkpoint";
	t->notice_saves = 0;
	t->interruptions = expm1(x);
	t->lost_h = hazard > 0 ? expm1(x) / hazard - t->work_h : 0;
	t->lost_per_h = t->interruptions > 0 ? t->lost_h / t->interruptions : 0;
	t->restart_h = t->interruptions * t->restart_per_h;
	t->paid_hours = t->start_h + t->work_h + t->lost_h + t->restart_h;
	return true;
}

/* Work that goes on elsewhere after the end of the pool begins once more. */
INLINE bool ends_first(const struct score_terms *t)
{
	return t->ends_h > 0 && t->start_h + t->work_h > t->ends_h;
}

INLINE bool hours_terms(const struct rank_ctx *c, const struct offer *o, double hazard,
    struct score_terms *t)
{
	double useful;

	t->notice_saves = notice_share(c, o, t);
	t->restart_per_h = c->restart_h;
	t->starts = c->job.runs_there ? 0 : 1;
	t->start_h = t->starts * t->restart_per_h;
	t->ends_h = o->ends_us > 0 ? rank_ends_h(c, o) : 0;
	if (ends_first(t)) {
		t->starts++;
		t->start_h = t->starts * t->restart_per_h;
	}
	t->restart_source = c->job.restart_us > 0 ? "measured" : "assumed";
	if (c->job.spec->checkpoint.path == NULL) {
		return hours_from_scratch(hazard, t);
	}
	interval_terms(c, o, hazard, t);
	useful = 1.0 - hazard * (t->lost_per_h + t->restart_per_h);
	if (useful <= USEFUL_MIN) {
		return false;
	}
	t->overhead_h = t->work_h * t->overhead;
	t->paid_hours = (t->start_h + t->work_h + t->overhead_h) / useful;
	t->interruptions = hazard * t->paid_hours;
	t->lost_h = t->interruptions * t->lost_per_h;
	t->restart_h = t->interruptions * t->restart_per_h;
	return true;
}

/* ---- dollars --------------------------------------------------------------------------------- */

/* Returns the penalty for a price that may be outdated. The price of a silent feed may be anything
 * by now. A price that stands still while polls succeed is mostly right. It loses only ties and
 * near ties against one that moves. */
INLINE int64_t age_penalty(const struct offer *o, const struct rank_policy *p)
{
	switch (o->price_state) {
	case PRICE_STALE:
	case PRICE_NONE:
		return o->price_micros * p->price_stale_penalty_pm / 1000;
	case PRICE_FROZEN:
		return o->price_micros * p->price_frozen_penalty_pm / 1000;
	case PRICE_FRESH:
	case PRICE_IMPLAUSIBLE:
		break;
	}
	return 0;
}

/* (1 - e^-x) / x. For small x its series is exact to the last bit or two. */
INLINE double average_stay(double x)
{
	if (x > 0.03) {
		return -expm1(-x) / x;
	}
	return 1 -
	    x *
	    (1.0 / 2 -
		x *
		    (1.0 / 6 -
			x *
			    (1.0 / 24 -
				x * (1.0 / 120 - x * (1.0 / 720 - x * (1.0 / 5040 - x / 40320))))));
}

/* The hours after the end cost so much elsewhere, above this offer's own price. A run that is cut
 * at its end has done a share of the work by then. */
INLINE double rest_micros(const struct rank_ctx *c, const struct offer *o,
    const struct score_terms *t)
{
	double first_h = (t->starts - 1) * t->restart_per_h;
	double done = least((t->ends_h - first_h) / (t->work_h + t->overhead_h), 1);

	return (double)c->elsewhere_micros * (1 - most(done, 0)) -
	    (double)o->price_micros * most(t->paid_hours - t->ends_h, 0);
}

/* An owner who reclaims a reservation keeps it. The work that is left then costs so much elsewhere,
 * above this offer's own price; without a checkpoint that is all of it. On average the share
 * (1 - e^-n) / n of a run is done before the first of n expected reclaims. */
INLINE double reclaimed_micros(const struct rank_ctx *c, const struct offer *o,
    const struct score_terms *t)
{
	double n = t->interruptions;
	double left = c->job.spec->checkpoint.path != NULL ? 1 - average_stay(n) : -expm1(-n);

	return ((double)c->elsewhere_micros - (double)o->price_micros * t->paid_hours) * left;
}

/* A spot price returns slowly to its faded mean. Over a run of F hours the average share (1 - e^-x)
 * / x of today's distance lasts, with x = F / reversion. The price wanders about that as an
 * Ornstein-Uhlenbeck process with the time constant of its fading past. README.md names the
 * default. */
INLINE void price_terms(const struct rank_ctx *c, const struct offer *o, struct score_terms *t)
{
	double mean = o->price_mean * 1e6, x = 0;

	t->price_now_micros = o->price_micros;
	t->price_mean_micros = o->price_micros;
	t->price_stay = 1;
	if (o->market == SPOT_MARKET_SPOT && o->price_cover > 0) {
		t->price_mean_micros = whole(mean);
		t->price_cover = o->price_cover;
		x = c->policy.price_reversion_s > 0
		    ? t->hours * 3600.0 / (double)c->policy.price_reversion_s
		    : 0;
	}
	if (x > 1e-9) {
		t->price_stay = average_stay(x);
		t->price_move_micros = whole(
		    (mean - (double)o->price_micros) * (1.0 - t->price_stay) * t->price_cover);
	}
	if (ends_first(t) && c->elsewhere_micros > 0) {
		t->price_move_micros = whole(rest_micros(c, o, t) / t->paid_hours);
	} else if (o->market == SPOT_MARKET_INTERRUPTIBLE && c->elsewhere_micros > 0) {
		t->price_move_micros = whole(reclaimed_micros(c, o, t) / t->paid_hours);
	}
	t->penalty_micros = age_penalty(o, &c->policy);
	t->price_micros = t->price_now_micros + t->price_move_micros + t->penalty_micros;
}

INLINE int64_t per_bytes(int64_t bytes, int64_t micros_per_gb)
{
	return whole((double)bytes / BYTES_PER_GB * (double)micros_per_gb);
}

INLINE void egress_terms(struct rank_ctx *c, const struct offer *o, struct score_terms *t)
{
	const struct place_memo *m;

	if (c->checkpoint_bytes <= 0 && c->data_bytes <= 0) {
		return;
	}
	m = rank_place_near(c, o);
	if (c->job.spec->checkpoint.path != NULL) {
		t->restore_per_micros = per_bytes(c->checkpoint_bytes, m->restore_per_gb);
		t->upload_per_micros = per_bytes(c->checkpoint_bytes, m->upload_per_gb);
		t->restores = (c->job.at_provider != NULL ? t->starts : 0) + t->interruptions;
		t->saves = t->interruptions * t->notice_saves +
		    (t->interval_s > 0 ? t->work_h * 3600.0 / t->interval_s : 0);
	}
	t->data_per_micros = per_bytes(c->data_bytes, m->data_per_gb);
	t->data_reads = t->starts + t->interruptions;
	t->restore_micros = whole((double)t->restore_per_micros * t->restores);
	t->upload_micros = whole((double)t->upload_per_micros * t->saves);
	t->data_micros = whole((double)t->data_per_micros * t->data_reads);
}

/* ---- together -------------------------------------------------------------------------------- */

void offers_believe(const struct hazard_model *m, struct offer *offers, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct offer *o = &offers[i];
		struct hazard h;
		struct odds q;

		hazard_of(m, o, &h);
		hazard_odds(m, o, &q);
		o->has_hazard = true;
		o->hazard = h.per_hour - h.raised_per_hour;
		o->hazard_lo = h.lo - h.raised_per_hour;
		o->hazard_hi = h.hi - h.raised_per_hour;
		o->rise = h.rise;
		o->hazard_source = h.source;
		o->launch = q.odds;
		o->launch_lo = q.lo;
		o->launch_hi = q.hi;
		o->launch_source = q.source;
	}
}

INLINE void belief(const struct rank_ctx *c, const struct offer *o, struct score *s,
    struct score_terms *t)
{
	struct hazard h;
	struct odds q;

	if (o->has_hazard) {
		s->hazard = o->hazard;
		s->hazard_lo = o->hazard_lo;
		s->hazard_hi = o->hazard_hi;
		s->hazard_source = o->hazard_source;
		t->odds = o->launch;
		t->odds_lo = o->launch_lo;
		t->odds_hi = o->launch_hi;
		t->odds_source = o->launch_source;
		return;
	}
	hazard_alone(&c->policy, o, &h, &q);
	s->hazard = h.per_hour;
	s->hazard_lo = h.lo;
	s->hazard_hi = h.hi;
	s->hazard_source = h.source;
	t->odds = q.odds;
	t->odds_lo = q.lo;
	t->odds_hi = q.hi;
	t->odds_source = q.source;
}

/* The rise falls within minutes to hours: a run feels its mean over the hours of the work. */
INLINE void hazard_raise(const struct offer *o, struct score *s, struct score_terms *t)
{
	double hours = most(t->work_h, RISE_HOURS_MIN);

	if (o->has_hazard && rise_any(&o->rise)) {
		t->hazard_raised = rise_within(&sibling_fitted, &o->rise, hours) / hours;
		s->hazard += t->hazard_raised;
		s->hazard_lo += t->hazard_raised;
		s->hazard_hi += t->hazard_raised;
	}
}

INLINE void score_copy(struct score *s, const struct score_terms *t)
{
	s->total_micros = t->total_micros;
	s->compute_micros = t->compute_micros;
	s->egress_micros = t->egress_micros;
	s->price_micros = t->price_micros;
	s->penalty_micros = t->penalty_micros;
	s->hours = t->hours;
	s->paid_hours = t->paid_hours;
	s->work_h = t->work_h;
	s->throughput = t->throughput;
	s->interruptions = t->interruptions;
	s->odds = t->odds;
}

INLINE bool score_fill(struct rank_ctx *c, const struct offer *o, struct score *s,
    struct score_terms *t)
{
	const struct gpu_memo *g = rank_gpu_near(c, o->gpu_name);
	double count =
	    c->ref_milli > 0 && o->gpu_milli > 0 ? (double)o->gpu_milli / c->ref_milli : 0;

	*t = (struct score_terms){ .work_ref_h = c->work_ref_h };
	s->offer = o;
	s->by = c;
	belief(c, o, s, t);
	t->throughput_table = count > 0 ? g->table * count : 1;
	t->throughput = count > 0 ? g->speed * count : 1;
	t->measured_h = g->measured_h;
	t->throughput_source = g->measured_h > 0 ? "table and own step rates" : "table";
	t->work_h = t->work_ref_h / t->throughput;
	hazard_raise(o, s, t);
	if (!hours_terms(c, o, s->hazard, t)) {
		return false;
	}
	t->wait_per_h = c->refused_h * (1.0 - t->odds) / most(t->odds, ODDS_FLOOR);
	t->wait_h = (t->starts + t->interruptions) * t->wait_per_h;
	t->hours = t->paid_hours + t->wait_h;
	price_terms(c, o, t);
	egress_terms(c, o, t);
	t->compute_micros = whole((double)t->price_micros * t->paid_hours);
	t->egress_micros = t->restore_micros + t->upload_micros + t->data_micros;
	t->total_micros = t->compute_micros + t->egress_micros;
	score_copy(s, t);
	return true;
}

bool score_make(struct rank_ctx *c, const struct offer *o, struct score *s)
{
	struct score_terms t;

	return score_fill(c, o, s, &t);
}

/* ---- the spread ------------------------------------------------------------------------------ */

/* Variance of the path's average over x reversion times, given its start, in units of the path's
 * own variance. For small x the closed form cancels out, so a series replaces it. */
static double average_variance(double x)
{
	double gone = -expm1(-x);

	if (x < 0.02) {
		return x *
		    (2.0 / 3.0 -
			x * (1.0 / 2.0 - x * (7.0 / 30.0 - x * (1.0 / 12.0 - x * 31.0 / 1260.0))));
	}
	return (2.0 * x - 2.0 * gone - gone * gone) / (x * x);
}

static double price_sd(const struct offer *o, const struct score_terms *t)
{
	return t->price_cover > 0
	    ? 1e6 * sqrt(fmax(o->price_var, 0) * average_variance(t->hours / PRICE_FADE_H))
	    : 0;
}

/* Variance of paid hours: the number of reclaims, what each costs, and the doubt in the hazard. */
static double paid_variance(const struct score *s, const struct score_terms *t, double extra_h)
{
	double r = t->restart_per_h + extra_h, c = t->lost_per_h + r, h = s->hazard;

	if (t->interval_s > 0 || t->notice_saves > 0) {
		/* A reclaim costs r, and with chance 1 - notice_saves up to one interval more
		 * (twice lost_per_h where there is none). */
		double u = 1.0 - h * c,
		       most = t->interval_s > 0 ? t->interval_s / 3600.0 : 2.0 * t->lost_per_h;
		double second = (1.0 - t->notice_saves) * (most * most / 3.0 + most * r) + r * r;
		double doubt = t->hazard_sd * t->paid_hours * c / fmax(u, USEFUL_MIN);

		return t->interruptions * second / (u * u) + doubt * doubt;
	}
	/* Starting over means a geometric number of tries, each ending at a truncated exponential
	 * time. */
	double x = h * t->work_h, n = t->interruptions;
	double tail = n > 0 ? t->work_h * t->work_h * exp(x) / (n * n) : 0;
	double each = h > 0 ? fmax(1.0 / (h * h) - tail, 0) : 0;
	double slope = h > 0 ? t->work_h * exp(x) * (1.0 / h + r) - n / (h * h) : 0;

	return n * each + n * (n + 1.0) * c * c + t->hazard_sd * t->hazard_sd * slope * slope;
}

void score_explain(const struct score *s, struct score_terms *t)
{
	struct rank_ctx *c = (struct rank_ctx *)(uintptr_t)s->by;
	struct score copy = *s;
	double base, more, q, wait_var, cost_sd;

	score_fill(c, s->offer, &copy, t);
	t->price_sd_micros = price_sd(s->offer, t);
	t->hazard_sd = (s->hazard_hi - s->hazard_lo) / (2.0 * Z95);
	base = t->start_h + t->work_h + t->overhead_h;
	more = paid_variance(s, t, 0);
	t->paid_sd_h = sqrt(more);
	/* No reclaim at all has odds of its own. */
	t->paid_p50_h =
	    base + (exp(-s->hazard * base) >= 0.50 ? 0 : gamma_at(t->paid_hours - base, more, 0));
	t->paid_p95_h =
	    base + (exp(-s->hazard * base) >= 0.95 ? 0 : gamma_at(t->paid_hours - base, more, Z95));
	q = fmax(t->odds, ODDS_FLOOR);
	wait_var =
	    (t->starts + t->interruptions) * (1.0 - q) / (q * q) * c->refused_h * c->refused_h;
	more = paid_variance(s, t, t->wait_per_h) + wait_var;
	t->hours_sd_h = sqrt(more);
	t->hours_p50 = base + gamma_at(t->hours - base, more, 0);
	t->hours_p95 = base + gamma_at(t->hours - base, more, Z95);
	t->cost_p50_micros = llround((double)t->price_micros * t->paid_p50_h) + t->egress_micros;
	cost_sd = hypot((double)t->price_micros * (t->paid_p95_h - t->paid_hours),
	    Z95 * t->price_sd_micros * t->paid_hours);
	t->cost_p95_micros = t->total_micros + llround(cost_sd);
}

double score_late_odds(const struct score_terms *t, double within_h)
{
	double base = t->start_h + t->work_h + t->overhead_h, more = t->hours - base, c;

	if (within_h < base || more <= 0 || t->hours_sd_h <= 0) {
		return within_h < t->hours ? 1 : 0;
	}
	c = t->hours_sd_h * t->hours_sd_h / (9.0 * more * more);
	return 0.5 * erfc((cbrt((within_h - base) / more) - 1.0 + c) / sqrt(2.0 * c));
}

void score_why(const struct score *s, char buf[SCORE_WHY_MAX])
{
	char penalty[96] = "";

	if (s->penalty_micros != 0) {
		snprintf(penalty, sizeof(penalty), "; %.4f USD/h of it because the price is %s",
		    (double)s->penalty_micros / 1e6,
		    s->offer->price_state == PRICE_FROZEN ? "frozen" : "stale");
	}
	snprintf(buf, SCORE_WHY_MAX,
	    "%.3f h x %.4f USD/h + %.4f egress; %.2f interruptions expected%s", s->paid_hours,
	    (double)s->price_micros / 1e6, (double)s->egress_micros / 1e6, s->interruptions,
	    penalty);
}
