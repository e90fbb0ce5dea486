/* Expected dollars per finished work: the arithmetic is in rank.h and in README.md. */
#include "base/base.h"
#include "base/arena.h"
#include "base/str.h"
#include "core/rank.h"

#include <math.h>

#define BYTES_PER_GB 1e9
/* Below this share of useful time an offer would hardly ever finish the work. */
#define USEFUL_MIN 0.05
/* Asking for what is refused 19 times out of 20 only makes the pool rest. */
#define ODDS_MIN 0.05

void rank_policy_default(struct rank_policy *p)
{
	*p = (struct rank_policy){
		.prior_hours = 24,
		.unknown_spot_per_hour = 0.10,
		.on_demand_per_hour = 0.0005,
		.price_stale_penalty_pm = 250,
		.price_frozen_penalty_pm = 20,
		.restart_s = 240,
		.save_s = 20,
		.default_work_s = 3600,
		.notice_saves = 0.9,
	};
}

static const char *refusal(struct arena *a, const struct offer *o, const struct rank_job *job, int64_t now_us,
    bool *ret_cooling)
{
	const char *why = "nothing was asked for";

	if (o->market == SPOT_MARKET_SPOT && !job->spot_allowed) {
		return "spot is not allowed for this job";
	}
	if (o->market == SPOT_MARKET_ON_DEMAND && !job->on_demand_allowed) {
		return "on-demand is not allowed for this job";
	}
	if (o->price_state == PRICE_IMPLAUSIBLE) {
		return "its price is implausible";
	}
	for (size_t i = 0; i < job->spec->asks_n; i++) {
		why = offer_refusal(a, o, &job->spec->asks[i]);
		if (why == NULL) {
			break;
		}
	}
	if (why != NULL) {
		return why;
	}
	if (o->cool_until_us > now_us) {
		char left[32];

		*ret_cooling = true;
		return arena_printf(a, "cooling for %s: %s", format_duration(o->cool_until_us - now_us, left),
		    o->cool_why != NULL ? o->cool_why : "refused lately");
	}
	if (o->capacity >= 0 && o->capacity < 0.5) {
		return "the provider says it has none now";
	}
	if (o->has_odds && o->odds < ODDS_MIN) {
		return arena_printf(a, "the provider gives a launch now odds of %.1f %%", o->odds * 100);
	}
	return offer_quota_refusal(a, o);
}

/* Hours to finish W hours of work when every interruption costs what rank.h says; < 0: never. */
static double finish_hours(struct score *s, const struct rank_job *job, const struct rank_policy *p, double save_s)
{
	double restart_h = (double)p->restart_s / 3600.0;
	double lost_per, useful;

	if (job->spec->checkpoint.path == NULL) {
		/* Everything is lost: the expected time of a run that must survive W hours uninterrupted. */
		double x = s->hazard * s->work_h;

		if (x > 20) {
			return -1;
		}
		s->interruptions = expm1(x);
		s->restart_h = s->interruptions * restart_h;
		s->lost_h = s->hazard > 0 ? expm1(x) / s->hazard - s->work_h : 0;
		return s->work_h + s->lost_h + s->restart_h;
	}
	s->interval_s = job->spec->checkpoint.interval_s > 0 ? (double)job->spec->checkpoint.interval_s
	                                                      : checkpoint_interval_s(s->hazard, save_s);
	s->overhead = save_s / s->interval_s;
	lost_per = (1.0 - p->notice_saves) * s->interval_s / 2.0 / 3600.0;
	useful = 1.0 - s->hazard * (lost_per + restart_h);
	if (useful <= USEFUL_MIN) {
		return -1;
	}
	double hours = s->work_h * (1.0 + s->overhead) / useful;

	s->interruptions = s->hazard * hours;
	s->lost_h = s->interruptions * lost_per;
	s->restart_h = s->interruptions * restart_h;
	return hours;
}

static int64_t egress_cost(const struct offer *o, const struct rank_job *job)
{
	int64_t bytes = job->checkpoint_bytes > 0 ? job->checkpoint_bytes : job->spec->checkpoint.size_bytes;

	if (job->at_provider == NULL || bytes <= 0) {
		return 0;
	}
	return (int64_t)llround((double)bytes / BYTES_PER_GB *
	    (double)egress_micros_per_gb(job->at_provider, job->at_region, o->provider, o->region));
}

/* What a price may be off by because it is not known to be today's. A silent feed's may be anything by now; one that
 * stands still while polls succeed is mostly right, so that it only loses ties and near ties against one that moves. */
static int64_t age_penalty(const struct offer *o, const struct rank_policy *p)
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

static const char *penalty_words(struct arena *a, const struct score *s)
{
	return s->penalty_micros == 0 ? "" : arena_printf(a, "; %.4f USD/h of it because the price is %s",
	    (double)s->penalty_micros / 1e6, s->offer->price_state == PRICE_FROZEN ? "frozen" : "stale");
}

static void score_offer(struct arena *a, struct score *s, const struct rank_job *job, const struct rank_policy *p,
    int64_t now_us)
{
	const struct offer *o = s->offer;
	int64_t work_s = job->work_left_s > 0 ? job->work_left_s : p->default_work_s;
	double save_s = job->save_us > 0 ? (double)job->save_us / 1e6 : (double)p->save_s;

	s->refused = refusal(a, o, job, now_us, &s->cooling);
	hazard_estimate(o, p, &s->hazard, &s->hazard_lo, &s->hazard_hi, &s->hazard_source);
	launch_odds(o, &s->odds, &s->odds_lo, &s->odds_hi, &s->odds_source);
	s->penalty_micros = age_penalty(o, p);
	s->price_micros = o->price_micros + s->penalty_micros;
	if (s->refused != NULL) {
		return;
	}
	s->throughput = rank_throughput(job->spec, o);
	s->work_h = (double)work_s / 3600.0 / s->throughput;
	s->hours = finish_hours(s, job, p, save_s);
	if (s->hours < 0) {
		s->refused = "interruptions would eat the progress";
		return;
	}
	s->compute_micros = llround((double)s->price_micros * s->hours);
	s->egress_micros = egress_cost(o, job);
	s->total_micros = s->compute_micros + s->egress_micros;
	s->why = arena_printf(a, "%.3f h x %.4f USD/h + %.4f egress; %.2f interruptions expected%s", s->hours,
	    (double)s->price_micros / 1e6, (double)s->egress_micros / 1e6, s->interruptions, penalty_words(a, s));
}

static int score_compare(const void *pa, const void *pb)
{
	const struct score *a = pa, *b = pb;

	if ((a->refused == NULL) != (b->refused == NULL)) {
		return a->refused == NULL ? -1 : 1;
	}
	if (a->refused == NULL && a->total_micros != b->total_micros) {
		return a->total_micros < b->total_micros ? -1 : 1;
	}
	if (a->price_micros != b->price_micros) {
		return a->price_micros < b->price_micros ? -1 : 1;
	}
	return a->offer->pool_id < b->offer->pool_id ? -1 : a->offer->pool_id > b->offer->pool_id;
}

void rank_offers(struct arena *a, const struct offer *offers, size_t n, const struct rank_job *job,
    const struct rank_policy *p, int64_t now_us, struct score **ret_scores, size_t *ret_usable)
{
	struct score *scores = arena_array(a, n > 0 ? n : 1, sizeof(*scores));
	size_t usable = 0;

	for (size_t i = 0; i < n; i++) {
		scores[i].offer = &offers[i];
		score_offer(a, &scores[i], job, p, now_us);
		usable += scores[i].refused == NULL;
	}
	if (n > 1) {
		qsort(scores, n, sizeof(*scores), score_compare);
	}
	*ret_scores = scores;
	*ret_usable = usable;
}
