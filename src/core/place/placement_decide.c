/* The decision, step by step; see placement.h. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/place/placement.h"

const char *place_act_name(enum place_act a)
{
	static const char *const names[] = { "none", "take", "wait", "defer", "short", "park" };

	return names[a];
}

static void choice_take(struct place_choice *c, const struct score *s, const char *kind,
    const char *why)
{
	*c = (struct place_choice){ .act = PLACE_TAKE, .score = s, .kind = kind, .why = why };
}

static bool job_is_queued(const struct job_facts *f)
{
	return f->state == JOB_NONE || f->state == JOB_QUEUED;
}

/* Only a job that has not begun is deferred, once, where its deadline leaves room or its file says
 * so. */
static bool may_defer(const struct job_facts *f, const struct placing *p)
{
	int off_peak = p->spec->off_peak;

	return f->not_before_us == 0 && f->epoch == 0 && job_is_queued(f) && p->usable > 0 &&
	    off_peak != 0 && (off_peak > 0 || f->deadline_us != 0);
}

/* Nothing that can be had now is paid for: it waits for a cheaper pool, or is parked if there is
 * none. */
static void choice_short(const struct place_in *in, const struct job_facts *f,
    const struct placing *p, struct place_choice *ret)
{
	int64_t need = placement_need_least(in, f, p->spec);

	ret->act = PLACE_SHORT;
	ret->kind = "wait";
	ret->why = "its budget pays for no pool with capacity now";
	if (need > f->budget_left && job_is_queued(f)) {
		ret->act = PLACE_PARK;
		ret->kind = "park";
		ret->why = arena_printf(in->arena,
		    "%.4f USD of its budget are left, and a start needs %.4f USD at least (with "
		    "five minutes of work and a save)",
		    (double)f->budget_left / 1e6, (double)need / 1e6);
	}
}

/* One that ends is passed over where the move at its end costs more than what it saves. */
static bool reserved_pays(const struct place_in *in, const struct job_facts *f,
    const struct placing *p)
{
	const struct score *s = p->reserved;

	return s != NULL && (s->offer->ends_us == 0 || s == &p->scores[0]) &&
	    (f->deadline_us == 0 || p->on_demand == NULL ||
		in->now_us + (int64_t)(s->hours * (double)SPOT_US_PER_HOUR) <= f->deadline_us);
}

static const char *reserved_words(const struct place_in *in, const struct offer *o)
{
	char left[32];

	return o->ends_us == 0
	    ? "a reservation has room: it is paid for already"
	    : arena_printf(in->arena,
		  "a reservation has room: it is paid for already, and ends in %s",
		  format_duration(o->ends_us - in->now_us, left));
}

/* The words for a spot choice; they say it when that is a reservation. */
static const char *lent_words(const struct place_in *in, const struct offer *o, const char *why)
{
	return o->market != SPOT_MARKET_INTERRUPTIBLE
	    ? why
	    : arena_printf(in->arena,
		  "a reservation has room, and its owner may reclaim it at any time; %s", why);
}

enum place_next placement_begin(const struct place_in *in, const struct job_facts *f,
    const struct placing *p, struct place_choice *ret)
{
	const struct score *quickest = p->late ? rank_quickest(p->scores, p->usable) : NULL;

	*ret = (struct place_choice){ .act = PLACE_NONE, .why = "" };
	if (p->dear > 0 && p->usable == 0) {
		choice_short(in, f, p, ret);
		return PLACE_DECIDED;
	}
	if (quickest != NULL) {
		choice_take(ret, quickest, "place",
		    "its deadline has passed: where it is done first");
		return PLACE_DECIDED;
	}
	if (reserved_pays(in, f, p)) {
		choice_take(ret, p->reserved, "place", reserved_words(in, p->reserved->offer));
		return PLACE_DECIDED;
	}
	if (may_defer(f, p)) {
		return PLACE_HOURS;
	}
	if (placement_plans(in, f, p)) {
		return PLACE_WORDS;
	}
	placement_patiently(in, f, p, ret);
	return PLACE_DECIDED;
}

/* ---- by patience ----------------------------------------------------------------------------- */

/*
 * A queued machine comes within the wait that its provider was given, or not at all. Its launch is
 * an attempt like any other. A wait that runs out is a refusal: the pool cools, and the job goes
 * elsewhere. So the wait costs time only. A job begins one within its patience; later it takes what
 * is there, if anything is.
 */
static const struct score *queued_best(const struct place_in *in, const struct job_facts *f,
    const struct placing *p)
{
	int64_t most =
	    placement_patience_us(in->policy, p->spec) + placement_changeover_us(in->policy, f);
	bool patient = f->queued_us == 0 || in->now_us - f->queued_us <= most;

	return patient || (p->on_demand == NULL && p->spot == NULL) ? p->queued : NULL;
}

/* The cheaper of on demand and a queued machine: neither is taken back. */
static const struct score *steady_best(const struct place_in *in, const struct job_facts *f,
    const struct placing *p)
{
	const struct score *q = queued_best(in, f, p), *d = p->on_demand;

	return q != NULL && (d == NULL || q->total_micros < d->total_micros) ? q : d;
}

static enum supply_choice patience_ask(const struct place_in *in, const struct job_facts *f,
    const struct placing *p, struct place_choice *ret)
{
	struct supply_policy policy = in->policy->supply;
	const struct score *steady = steady_best(in, f, p);

	policy.changeover_us = placement_changeover_us(in->policy, f);
	policy.patience_us = placement_patience_us(in->policy, p->spec);
	return supply_choose(in->arena,
	    &(struct supply_in){ .now_us = in->now_us,
		.queued_us = f->queued_us,
		.deadline_us = f->deadline_us,
		.work_left_us =
		    steady != NULL ? (int64_t)(steady->hours * (double)SPOT_US_PER_HOUR) : 0,
		.spot_usable = p->spot_n,
		.on_demand_usable =
		    p->on_demand_n + (steady != NULL && steady == p->queued ? 1 : 0),
		.spot_refused = p->spot_cooling,
		.spot_allowed = p->job.spot_allowed,
		.on_demand_allowed = p->job.on_demand_allowed,
		.spot_tight = p->spot != NULL && placement_easy(in->market, p) == NULL,
		.spot_best_micros = p->spot != NULL ? p->spot->total_micros : 0,
		.on_demand_best_micros = steady != NULL ? steady->total_micros : 0 },
	    &policy, &ret->why, &ret->until_us);
}

void placement_patiently(const struct place_in *in, const struct job_facts *f,
    const struct placing *p, struct place_choice *ret)
{
	bool fails_over = p->job.spot_allowed && (p->spot_n == 0 || p->spot_cooling > 0);

	*ret = (struct place_choice){ .act = PLACE_WAIT, .kind = "wait", .why = "" };
	switch (patience_ask(in, f, p, ret)) {
	case SUPPLY_SPOT:
		choice_take(ret, p->spot, "place", lent_words(in, p->spot->offer, ret->why));
		break;
	case SUPPLY_ON_DEMAND:
		choice_take(ret, steady_best(in, f, p), fails_over ? "failover" : "place",
		    ret->why);
		if (ret->score == p->queued) {
			ret->why = arena_printf(in->arena,
			    "%s; a queued machine costs less than one on demand", ret->why);
		}
		break;
	case SUPPLY_WAIT:
		break;
	}
	ret->patient = true;
}

/* ---- later? ---------------------------------------------------------------------------------- */

size_t placement_defer_pools(const struct placing *p, int32_t ids[PLACE_HOURS_POOLS])
{
	size_t n = 0;

	for (size_t i = 0; i < p->usable && n < PLACE_HOURS_POOLS; i++) {
		if (p->scores[i].offer->market == p->scores[0].offer->market) {
			ids[n++] = p->scores[i].offer->pool_id;
		}
	}
	return n;
}

void placement_defer(const struct place_in *in, const struct job_facts *f, const struct placing *p,
    struct defer_in *hours, struct defer_out *ret)
{
	double changeover = (double)in->policy->supply.changeover_us,
	       best = p->scores[0].hours * (double)SPOT_US_PER_HOUR;

	hours->now_us = in->now_us;
	hours->deadline_us = f->deadline_us;
	/* Twice the spot time: what a spot run may take when it is interrupted more than
	 * expected. */
	hours->run_us = (int64_t)(2 * best + changeover);
	hours->safe_us = hours->run_us;
	if (p->on_demand != NULL) {
		hours->run_us = (int64_t)(best + changeover);
		hours->safe_us =
		    (int64_t)(p->on_demand->hours * (double)SPOT_US_PER_HOUR + 3 * changeover);
	}
	defer_decide(in->arena, hours, &in->policy->defer, ret);
}

/* ---- why not the first? ---------------------------------------------------------------------- */

static const char *slow_words(const struct place_in *in, const struct score *s,
    const struct score *out)
{
	return arena_printf(in->arena,
	    "it does %.2f times the work per hour of the on-demand machine: after a failed run, "
	    "the deadline leaves that machine no time",
	    s->throughput / out->throughput);
}

const char *placement_passed(const struct place_in *in, const struct job_facts *f,
    const struct placing *p, const struct score *chosen, const struct score **ret_first)
{
	const struct score *first = p->usable > 0 ? &p->scores[0] : NULL;
	double within = placement_within_h(in, f);

	*ret_first = first;
	if (first == NULL || chosen == NULL || first->offer == chosen->offer) {
		return NULL;
	}
	if (p->late) {
		return "the deadline has passed: the job goes where it is done first";
	}
	if (chosen->offer->market == SPOT_MARKET_RESERVED) {
		return "a reservation is paid for already";
	}
	if (f->deadline_us != 0 && first->hours > within) {
		return arena_printf(in->arena, "it needs %.1f hours and would miss the deadline",
		    first->hours);
	}
	if (f->deadline_us != 0 && p->on_demand != NULL &&
	    !rank_suits_deadline(first, p->on_demand, within)) {
		return slow_words(in, first, p->on_demand);
	}
	if (!spot_market_reclaims(chosen->offer->market) &&
	    spot_market_reclaims(first->offer->market)) {
		return f->deadline_us != 0
		    ? "spot is no longer safe for the deadline"
		    : "spot was refused for longer than the job waits for it";
	}
	return f->deadline_us != 0
	    ? arena_printf(in->arena,
		  "by the history of the pools, the deadline policy expects the chosen one to "
		  "cost less (odds of a launch: %.0f %% against %.0f %%)",
		  first->odds * 100, chosen->odds * 100)
	    : "";
}
