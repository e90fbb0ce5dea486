/* The answer of POST /v1/plan: every offer with its terms, the decision, and the choice played
 * through. */
#include "base/base.h"
#include "api/jobs/plan.h"
#include "core/rank/montecarlo.h"
#include "core/spec/class_policy.h"

#define OFFERS_SHOWN 200
#define REFUSED_SHOWN 500
#define GANG_SHOWN 50

/* ---- offers ---------------------------------------------------------------------------------- */

static json_t *pool_json(const struct offer *o)
{
	json_t *j = json_pack("{s:o, s:s, s:s, s:f, s:i, s:i, s:i, s:I, s:I}", "id",
	    json_sprintf("p%d", o->pool_id), "zone_name", o->zone_name, "gpu", o->gpu_name, "gpus",
	    o->gpu_milli / 1000.0, "gpu_mem_mib", o->gpu_mem_mib, "vcpus", o->vcpus, "mem_mib",
	    o->mem_mib, "price$", (json_int_t)o->price_micros, "observed@age",
	    (json_int_t)o->price_observed_us);

	offer_fields(j, o);
	return j;
}

static json_t *late_json(const struct planned *p, const struct score_terms *t)
{
	if (p->spec->deadline_us == 0) {
		return json_null();
	}
	return json_real(score_late_odds(t,
	    (double)(p->spec->deadline_us - p->begin_us) / (double)SPOT_US_PER_HOUR));
}

static json_t *plan_offer_json(const struct planned *p, const struct score *s, bool chosen,
    int64_t now_us)
{
	struct score_terms t;
	json_t *j;

	score_explain(s, &t);
	j = json_pack("{s:i, s:b, s:o, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, "
		      "s:I, s:f, s:f, s:f, s:o, s:I, s:I}",
	    "rank", (int)(s - p->all.ranking.scores) + 1, "chosen", chosen, "pool",
	    pool_json(s->offer), "price$", (json_int_t)s->price_micros, "price_age_s",
	    (double)MAX(now_us - s->offer->price_observed_us, 0) / 1e6, "throughput", s->throughput,
	    "work_hours", s->work_h, "checkpoint_interval_s", t.interval_s, "checkpoint_overhead",
	    t.overhead, "expected_interruptions", s->interruptions, "lost_work_hours", t.lost_h,
	    "restart_hours", t.restart_h, "compute$", (json_int_t)s->compute_micros, "egress$",
	    (json_int_t)s->egress_micros, "total$", (json_int_t)s->total_micros,
	    "price_penalty_micros", (json_int_t)s->penalty_micros, "launch_odds", s->odds,
	    "hours_p50", t.hours_p50, "hours_p95", t.hours_p95, "deadline_risk", late_json(p, &t),
	    "cost_p50$", (json_int_t)t.cost_p50_micros, "cost_p95$", (json_int_t)t.cost_p95_micros);
	score_fields(j, s);
	return j;
}

/* Those that suit and cannot be had now come first: they are what a person can do something
 * about. */
static void refused_add(struct areq *q, const struct planned *p, json_t *list, bool unsuited)
{
	const struct ranking *r = &p->all.ranking;

	for (size_t i = 0; i < r->refused_n && json_array_size(list) < REFUSED_SHOWN; i++) {
		const struct refused *x = &r->refused[i];

		if ((x->why == REFUSED_ASK) == unsuited) {
			json_array_append_new(list,
			    json_pack("{s:o, s:s}", "pool", pool_json(x->offer), "why",
				refusal_words(q->arena, r, x)));
		}
	}
}

static void lists_add(struct areq *q, struct planned *p, json_t *doc)
{
	json_t *offers = json_array(), *refused = json_array(), *warnings = json_array();
	const struct score *best = plan_chosen(p);

	for (size_t i = 0; i < p->all.ranking.usable; i++) {
		const struct score *s = &p->all.ranking.scores[i];

		if (i < OFFERS_SHOWN || s == best) {
			json_array_append_new(offers, plan_offer_json(p, s, s == best, q->now_us));
		}
	}
	refused_add(q, p, refused, false);
	refused_add(q, p, refused, true);
	for (size_t i = 0; i < p->warnings_n; i++) {
		json_array_append_new(warnings, json_string(p->warnings[i]));
	}
	json_object_set_new(doc, "offers", offers);
	json_object_set_new(doc, "refused", refused);
	json_object_set_new(doc, "warnings", warnings);
}

static json_t *gang_json(const struct planned *p)
{
	json_t *list;

	if (p->all.gang == NULL) {
		return json_null();
	}
	list = json_array();
	for (size_t i = 0; i < p->all.gang_n && i < GANG_SHOWN; i++) {
		json_t *o = gang_score_json(&p->all.gang[i]);
		const struct offer *at = p->all.gang[i].one->offer;

		json_object_set_new(o, "pool", json_sprintf("p%d", at->pool_id));
		json_object_set_new(o, "place",
		    json_sprintf("%s/%s/%s", at->provider, at->zone[0] ? at->zone : at->region,
			at->instance_type));
		json_object_set_new(o, "market", json_string(spot_market_name(at->market)));
		json_array_append_new(list, o);
	}
	return json_pack("{s:i, s:i, s:o, s:s}", "nodes", (int)p->spec->num_nodes, "usable",
	    (int)p->all.usable, "offers", list, "note",
	    "what all nodes cost together, as do chosen and baselines; the plan's offers are of "
	    "one node");
}

/* ---- the decision ---------------------------------------------------------------------------- */

static const char *choice_name(const struct planned *p)
{
	switch (p->choice.act) {
	case PLACE_TAKE:
		return spot_market_name(p->choice.score->offer->market);
	case PLACE_SHORT:
	case PLACE_WAIT:
		return "wait";
	case PLACE_DEFER:
		return "defer";
	case PLACE_NONE:
		break;
	}
	return p->spec->fleet != NULL ? "fleet" : "wait";
}

static const char *choice_why(const struct planned *p)
{
	if (p->choice.act != PLACE_NONE) {
		return p->choice.why;
	}
	return p->spec->fleet != NULL
	    ? "it runs on a machine of its fleet, whose pools the fleet's "
	      "plan chooses"
	    : "no pool suits now, neither spot nor on-demand";
}

/* The row before the chosen one that was passed over, and why. */
static json_t *passed_json(const struct planned *p)
{
	const struct score *first;
	const char *why = p->choice.act == PLACE_TAKE
	    ? placement_passed(&p->in, &p->facts, &p->placing, p->choice.score, &first)
	    : NULL;

	if (why == NULL) {
		return json_null();
	}
	return json_pack("{s:o, s:I, s:s}", "pool", json_sprintf("p%d", first->offer->pool_id),
	    "total$", (json_int_t)first->total_micros, "why", why);
}

static json_t *decision_json(const struct planned *p)
{
	const struct place_choice *c = &p->choice;
	bool later = c->until_us > p->begin_us && c->act != PLACE_TAKE;

	return json_pack("{s:s, s:s, s:o, s:s, s:o, s:o, s:o}", "choice", choice_name(p), "kind",
	    c->kind != NULL ? c->kind : "wait", "pool",
	    c->act == PLACE_TAKE ? json_sprintf("p%d", c->score->offer->pool_id) : json_null(),
	    "why", choice_why(p), "until@", later ? json_integer(c->until_us) : json_null(),
	    "passed_over", passed_json(p), "deadline",
	    p->policy_said != NULL ? json_incref(p->policy_said) : json_null());
}

/* The answer of submitting the same file; null: the job would be taken. */
static json_t *refusal_json(struct areq *q, const struct planned *p)
{
	struct spot_err err = { 0 };
	const char *field;

	if (!plan_refused(q, p, &err, &field)) {
		return json_null();
	}
	return json_pack("{s:s, s:s?, s:s}", "code", spot_rc_name(err.rc), "field", field, "detail",
	    err.text);
}

/* ---- the distribution ------------------------------------------------------------------------ */

/* Plays the job through from one of the offers on. The expected cost is the mean of the runs, so it
 * includes fail-over as the quantiles do. An offer's own total is of a job that stays there. */
static json_t *spread_json(struct areq *q, const struct planned *p, const struct score *s)
{
	struct montecarlo_out m;
	struct score whole;

	if (!s) {
		return json_null();
	}
	whole = plan_whole(p, s);
	montecarlo_run(q->arena,
	    &(struct montecarlo_in){ .ranking = &p->all.ranking,
		.chosen = (size_t)(s - p->all.ranking.scores),
		.hazards = p->hazards,
		.now_us = p->begin_us,
		.deadline_us = p->spec->deadline_us,
		.seed = (uint64_t)p->seed,
		.nodes = p->spec->num_nodes },
	    &m);
	return json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, "
			 "s:f, s:f, s:o, s:o, s:I, s:I}",
	    "pool", json_sprintf("p%d", s->offer->pool_id), "market",
	    spot_market_name(s->offer->market), "expected$", (json_int_t)m.cost_mean_micros,
	    "stays$", (json_int_t)whole.total_micros, "cost_mean$", (json_int_t)m.cost_mean_micros,
	    "cost_p5$", (json_int_t)m.cost_p5_micros, "cost_p50$", (json_int_t)m.cost_p50_micros,
	    "cost_p95$", (json_int_t)m.cost_p95_micros, "hours_mean", m.hours_mean, "hours_p5",
	    m.hours_p5, "hours_p50", m.hours_p50, "hours_p95", m.hours_p95, "interruptions",
	    m.interruptions, "lost_work_hours", m.lost_h, "moves", m.moves, "on_demand_hours",
	    m.on_demand_h, "deadline_odds",
	    p->spec->deadline_us ? json_real(m.deadline_odds) : json_null(), "deadline_risk",
	    p->spec->deadline_us ? json_real(1.0 - m.deadline_odds) : json_null(), "runs",
	    (json_int_t)m.runs, "seed", (json_int_t)m.seed);
}

static json_t *job_json(struct areq *q, const struct planned *p)
{
	const struct resource_ask *ask = p->spec->asks_n ? &p->spec->asks[0] : NULL;
	json_t *gpu = ask && ask->gpus_n
	    ? json_sprintf("%s:%g", ask->gpus[0].gpu, ask->gpus[0].milli / 1000.0)
	    : json_null();

	return json_pack("{s:s?, s:o, s:s, s:s}", "name", p->spec->name, "gpu", gpu, "class",
	    p->spec->class, "class_why",
	    class_words(q->arena, class_get(&q->api->conf.classes, p->spec->class), p->spec));
}

json_t *plan_json(struct areq *q, struct planned *p)
{
	int64_t work_s = p->all.job.work_left_s;
	json_t *doc;

	doc = json_pack("{s:o, s:f, s:I, s:I, s:s, s:o, s:o, s:{s:o, s:o}, s:o, s:o, s:o}", "job",
	    job_json(q, p), "work_hours",
	    (double)(work_s > 0 ? work_s : p->policy.rank.default_work_s) / 3600.0, "offers_usable",
	    (json_int_t)p->all.ranking.usable, "offers_known", (json_int_t)p->market.offers_n,
	    "note", plan_note(q, p), "policy", rank_policy_json(&p->policy.rank), "chosen",
	    spread_json(q, p, plan_chosen(p)), "baselines", "on_demand",
	    spread_json(q, p, plan_best(p, SPOT_MARKET_ON_DEMAND)), "cheapest_listed",
	    spread_json(q, p, plan_cheapest_listed(p)), "gang", gang_json(p), "decision",
	    decision_json(p), "submit_refusal", refusal_json(q, p));
	lists_add(q, p, doc);
	json_decref(p->policy_said);
	p->policy_said = NULL;
	return doc;
}
