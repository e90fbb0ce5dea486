/* Which offers suit a job and in which order; see placement.h. */
#include "base/base.h"
#include "core/money/money.h"
#include "core/place/placement.h"

#include <math.h>

void place_policy_default(struct place_policy *p)
{
	*p = (struct place_policy){ .gang_hold_us = 600 * SPOT_US_PER_S,
		.deadline_tick_us = 600 * SPOT_US_PER_S,
		.cool_min_us = 60 * SPOT_US_PER_S,
		.cool_max_us = 900 * SPOT_US_PER_S,
		.budget_end_us = BUDGET_END_US + 10 * SPOT_US_PER_S };
	rank_policy_default(&p->rank);
	supply_policy_default(&p->supply);
	defer_policy_default(&p->defer);
}

/* ---- facts of the job ------------------------------------------------------------------------ */

/* The file's declared work, less the share that is done, and by the job's own step rates once there
 * are some. */
static int64_t work_left_s(const struct rank_job *job, const struct job_facts *f)
{
	int64_t left = job->spec->work_s,
		steps = f->steps_total - MIN(f->steps_done, f->steps_total);

	if (left > 0 && f->steps_total > 0 && f->steps_done > 0) {
		double share = (double)steps / (double)f->steps_total;

		left = MAX((int64_t)((double)left * share), 1);
	}
	return rank_work_left_s(job, steps, left);
}

static bool market_asked(const struct job_spec *s, bool spot)
{
	if (spot && !s->interruptible) {
		return false;
	}
	for (size_t i = 0; i < s->asks_n; i++) {
		/* use_spot: true prefers spot; on-demand stays the fail-over that supply_choose()
		 * decides on. */
		if (!spot || s->asks[i].use_spot != 0) {
			return true;
		}
	}
	return false;
}

/* Does any provider that the job may use sell spot? If none does, the job does not wait for one. */
static bool spot_sold(const struct place_market *m, const struct job_spec *s)
{
	if (!m->sellers_known) {
		return true;
	}
	for (size_t i = 0; i < s->asks_n; i++) {
		for (size_t k = 0; k < m->sellers_n; k++) {
			if (s->asks[i].provider == NULL ||
			    strcmp(s->asks[i].provider, m->sellers[k]) == 0) {
				return true;
			}
		}
	}
	return false;
}

/* A deadline may not allow the wait in a queue. A gang would pay for the machines that came first.
 * A job that runs has a machine already. */
static bool queue_suits(const struct job_facts *f)
{
	return f->nodes < 2 && f->deadline_us == 0 &&
	    (f->state == JOB_NONE || f->state == JOB_QUEUED);
}

static void job_fill(const struct place_in *in, const struct job_facts *f, struct job_spec *spec,
    struct rank_job *ret)
{
	const struct place_policy *k = in->policy;

	*ret = (struct rank_job){
		.spec = spec,
		.save_us = f->save_us,
		.checkpoint_bytes = f->checkpoint_bytes,
		.spot_allowed = market_asked(spec, true) && spot_sold(in->market, spec),
		.on_demand_allowed = market_asked(spec, false),
		.queue_allowed = queue_suits(f),
		.restart_us = f->restart_us,
		.nodes = f->nodes,
		.deadline_us = f->deadline_us,
		.store_provider = k->store_provider,
		.store_region = k->store_provider != NULL ? k->store_region : NULL,
	};
	ret->rates_n = gpu_rates_parse(in->arena, f->rates, &ret->rates);
	ret->work_left_s = work_left_s(ret, f);
	if (f->has_checkpoint && k->store_provider != NULL) {
		ret->at_provider = k->store_provider;
		ret->at_region = k->store_region;
	}
}

int64_t placement_changeover_us(const struct place_policy *k, const struct job_facts *f)
{
	return k->supply.changeover_us + (f->nodes > 1 ? k->gang_hold_us : 0);
}

int64_t placement_patience_us(const struct place_policy *k, const struct job_spec *s)
{
	return s->patience_s >= 0 ? s->patience_s * SPOT_US_PER_S : k->supply.patience_us;
}

int64_t placement_budget_need(const struct place_policy *k, const struct job_facts *f,
    const struct job_spec *spec, int64_t price_micros)
{
	int64_t start = f->restart_us > 0 ? f->restart_us : k->rank.restart_s * SPOT_US_PER_S;

	return budget_need(MAX(price_micros, 0), start, k->budget_end_us, spec);
}

int64_t placement_need_least(const struct place_in *in, const struct job_facts *f,
    const struct job_spec *spec)
{
	int64_t price = INT64_MAX;

	for (size_t i = 0; i < in->market->offers_n; i++) {
		const struct offer *o = &in->market->offers[i];

		for (size_t k = 0; k < spec->asks_n && o->price_micros < price; k++) {
			if ((!spot_market_reclaims(o->market) || spec->interruptible) &&
			    offer_refusal(in->arena, o, &spec->asks[k]) == NULL) {
				price = o->price_micros;
			}
		}
	}
	return price == INT64_MAX
	    ? 0
	    : placement_budget_need(in->policy, f, spec, price * MAX(f->nodes, 1));
}

/* ---- the best of each market ----------------------------------------------------------------- */

double placement_within_h(const struct place_in *in, const struct job_facts *f)
{
	int64_t left = f->deadline_us - in->now_us - placement_changeover_us(in->policy, f) -
	    MAX(f->save_us, 0);

	return f->deadline_us == 0 ? HUGE_VAL : (double)left / (double)SPOT_US_PER_HOUR;
}

static const struct score *in_time(const struct place_in *in, const struct job_facts *f,
    const struct placing *p, enum spot_market m)
{
	struct ranking whole = { .scores = p->scores, .usable = p->usable };

	return rank_in_time(&whole, m, placement_within_h(in, f));
}

void placement_count(const struct place_in *in, const struct job_facts *f, struct placing *p)
{
	p->spot = p->on_demand = p->reserved = p->queued = NULL;
	p->spot_n = p->on_demand_n = 0;
	for (size_t i = 0; i < p->usable; i++) {
		if (spot_market_reclaims(p->scores[i].offer->market)) {
			p->spot = p->spot_n++ == 0 ? &p->scores[i] : p->spot;
		} else if (p->scores[i].offer->market == SPOT_MARKET_ON_DEMAND) {
			p->on_demand = p->on_demand_n++ == 0 ? &p->scores[i] : p->on_demand;
		} else if (p->scores[i].offer->market == SPOT_MARKET_FLEX_START) {
			p->queued = p->queued == NULL ? &p->scores[i] : p->queued;
		} else if (p->reserved == NULL) {
			p->reserved = &p->scores[i];
		}
	}
	if (f->deadline_us <= in->now_us) {
		return;
	}
	/* The on-demand offer to fall back on is the cheapest that meets the deadline. One that
	 * costs less but is late is no way out at the last safe moment. Without any on-demand
	 * offer, spot itself must be in time. */
	p->on_demand = in_time(in, f, p, SPOT_MARKET_ON_DEMAND);
	if (p->on_demand == NULL) {
		p->spot = in_time(in, f, p, SPOT_MARKET_SPOT);
	}
}

struct score placement_whole(const struct job_facts *f, const struct score *one)
{
	struct gang_score g;

	if (f->nodes < 2) {
		return *one;
	}
	gang_whole(one, f->nodes, &g);
	return gang_as_score(&g, f->nodes);
}

const struct score *placement_best(const struct place_in *in, const struct job_facts *f,
    const struct placing *p, enum spot_market m)
{
	double within = placement_within_h(in, f);
	const struct score *out = f->deadline_us != 0 ? p->on_demand : NULL, *fastest = NULL;

	for (size_t i = 0; i < p->usable; i++) {
		const struct score *s = &p->scores[i];

		if (!offer_in_market(s->offer, m)) {
			continue;
		}
		if (rank_suits_deadline(s, out, within)) {
			return s;
		}
		fastest = fastest == NULL || s->hours < fastest->hours ? s : fastest;
	}
	return fastest;
}

bool placement_soonest(const struct job_facts *f, const struct placing *p, struct score *ret)
{
	const struct score *best = NULL;

	for (size_t pass = 0; pass < 2 && best == NULL; pass++) {
		for (size_t i = 0; i < p->ranking.usable; i++) {
			const struct score *s = &p->ranking.scores[i];

			if ((pass == 1 || !spot_market_reclaims(s->offer->market)) &&
			    (best == NULL || s->hours < best->hours)) {
				best = s;
			}
		}
	}
	if (best != NULL) {
		*ret = placement_whole(f, best);
	}
	return best != NULL;
}

bool placement_tight(const struct tight_group *groups, size_t n, const struct offer *o)
{
	for (size_t i = 0; i < n; i++) {
		const struct tight_group *g = &groups[i];

		if (o->market == SPOT_MARKET_SPOT && strcmp(g->gpu, o->gpu_name) == 0 &&
		    strcmp(g->region, o->region) == 0 && strcmp(g->provider, o->provider) == 0) {
			return true;
		}
	}
	return false;
}

const struct score *placement_easy(const struct place_market *m, const struct placing *p)
{
	for (size_t i = 0; i < p->usable; i++) {
		const struct offer *o = p->scores[i].offer;

		if (spot_market_reclaims(o->market) && !placement_tight(m->tight, m->tight_n, o)) {
			return &p->scores[i];
		}
	}
	return NULL;
}

/* ---- the ranking ----------------------------------------------------------------------------- */

/* The scores of one node become those of the whole gang, where all of it can be sought. */
static void gang_rank(const struct place_in *in, const struct job_facts *f, struct placing *p)
{
	const struct place_market *m = in->market;
	struct gang_ask ask = { .want = f->nodes,
		.now_us = in->now_us,
		.rests = m->rests,
		.rests_n = m->rests_n,
		.busy = m->busy,
		.busy_n = m->busy_n };

	p->gang_n = p->ranking.usable;
	gang_scores(in->arena, p->ranking.scores, p->gang_n, &ask, &p->gang, &p->usable);
	p->scores = arena_array(in->arena, p->usable + 1, sizeof(*p->scores));
	for (size_t i = 0; i < p->gang_n; i++) {
		if (i < p->usable) {
			p->scores[i] = gang_as_score(&p->gang[i], f->nodes);
		} else {
			p->spot_cooling += p->gang[i].cooling &&
			    spot_market_reclaims(p->gang[i].one->offer->market);
		}
	}
}

/* Takes out the scores that the job's budget does not pay a start for. */
static void budget_filter(const struct place_in *in, const struct job_facts *f, struct placing *p)
{
	struct score *kept = arena_array(in->arena, p->usable + 1, sizeof(*kept));
	size_t n = 0;

	for (size_t i = 0; i < p->usable; i++) {
		if (placement_budget_need(in->policy, f, p->spec, p->scores[i].price_micros) <=
		    f->budget_left) {
			kept[n++] = p->scores[i];
		}
	}
	p->dear = p->usable - n;
	if (p->dear == 0) {
		return;
	}
	p->scores = kept;
	p->usable = n;
	if (p->gang == NULL) {
		p->ranking.scores = kept;
		p->ranking.usable = n;
	}
	placement_count(in, f, p);
}

void placement_rank(const struct place_in *in, struct job_facts *f, struct job_spec *spec,
    struct placing *ret)
{
	*ret = (struct placing){ .spec = spec };
	if (f->deadline_us <= in->now_us && spec->late_cheapest) {
		f->deadline_us = 0;
	}
	job_fill(in, f, spec, &ret->job);
	rank_run(in->arena, in->market->offers, in->market->offers_n, &ret->job, &in->policy->rank,
	    in->now_us, &ret->ranking);
	ret->scores = ret->ranking.scores;
	ret->usable = ret->ranking.usable;
	ret->spot_cooling = ret->ranking.spot_cooling;
	if (f->nodes > 1) {
		gang_rank(in, f, ret);
	}
	placement_count(in, f, ret);
	if (f->has_budget) {
		budget_filter(in, f, ret);
	}
	ret->late = f->deadline_us != 0 && f->deadline_us <= in->now_us;
}

void placement_fleet(const struct place_in *in, const struct job_spec *spec,
    const struct fleet_saves *saves, struct score **ret, size_t *ret_n)
{
	const struct place_policy *k = in->policy;
	struct rank_job job = { .spec = spec,
		.save_us = saves->save_us,
		.checkpoint_bytes = saves->bytes,
		.spot_allowed = true,
		.on_demand_allowed = true,
		.store_provider = k->store_provider,
		.store_region = k->store_provider != NULL ? k->store_region : NULL };

	rank_offers(in->arena, in->market->offers, in->market->offers_n, &job, &in->policy->rank,
	    in->now_us, ret, ret_n);
}
