/* A placement as JSON: what decisions keep, and what plans tell of the same; see placement.h. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/place/placement.h"

#define SCORES_KEPT 12

static void offer_fields(json_t *j, const struct offer *o)
{
	json_object_set_new(j, "provider", json_string(o->provider));
	json_object_set_new(j, "region", json_string(o->region));
	json_object_set_new(j, "zone", json_string(o->zone));
	json_object_set_new(j, "instance_type", json_string(o->instance_type));
	json_object_set_new(j, "market", json_string(spot_market_name(o->market)));
	json_object_set_new(j, "price_state", json_string(price_state_name(o->price_state)));
}

static void score_fields(json_t *j, const struct score *s)
{
	char why[SCORE_WHY_MAX];

	score_why(s, why);
	json_object_set_new(j, "hazard_per_hour", json_real(s->hazard));
	json_object_set_new(j, "hazard_lo", json_real(s->hazard_lo));
	json_object_set_new(j, "hazard_hi", json_real(s->hazard_hi));
	json_object_set_new(j, "hazard_source",
	    json_string(s->hazard_source != NULL ? s->hazard_source : ""));
	json_object_set_new(j, "hours_to_finish", json_real(s->hours));
	json_object_set_new(j, "why", json_string(why));
	if (s->by != NULL) {
		struct score_terms t;

		score_explain(s, &t);
		json_object_set_new(j, "terms", score_terms_json(&t));
	}
}

void offer_fields_put(struct sbuf *b, const struct offer *o)
{
	json_add_text(b, "provider", o->provider);
	json_add_text(b, "region", o->region);
	json_add_text(b, "zone", o->zone);
	json_add_text(b, "instance_type", o->instance_type);
	json_add_text(b, "market", spot_market_name(o->market));
	json_add_text(b, "price_state", price_state_name(o->price_state));
}

void score_fields_put(struct sbuf *b, const struct score *s, const struct score_terms *t)
{
	char why[SCORE_WHY_MAX];

	score_why(s, why);
	json_add_f64(b, "hazard_per_hour", s->hazard);
	json_add_f64(b, "hazard_lo", s->hazard_lo);
	json_add_f64(b, "hazard_hi", s->hazard_hi);
	json_add_text(b, "hazard_source", s->hazard_source != NULL ? s->hazard_source : "");
	json_add_f64(b, "hours_to_finish", s->hours);
	json_add_text(b, "why", why);
	json_add_name(b, "terms");
	score_terms_put(b, t);
}

json_t *offer_json(const struct offer *o)
{
	json_t *j = json_pack("{s:i, s:I, s:I}", "pool", o->pool_id, "price_micros",
	    (json_int_t)o->price_micros, "price_observed_us", (json_int_t)o->price_observed_us);

	offer_fields(j, o);
	if (o->ends_us > 0) {
		json_object_set_new(j, "ends_us", json_integer(o->ends_us));
	}
	if (o->has_quota) {
		json_object_set_new(j, "quota",
		    json_pack("{s:s, s:s, s:I, s:I}", "class", o->quota_class, "unit",
			o->quota_unit, "limit", (json_int_t)o->quota_limit, "used",
			(json_int_t)o->quota_used));
	}
	return j;
}

json_t *score_json(const struct score *s)
{
	json_t *j = offer_json(s->offer);

	score_fields(j, s);
	json_object_set_new(j, "total_micros", json_integer(s->total_micros));
	return j;
}

json_t *scores_json(const struct score *s, size_t n, size_t most)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n && i < most; i++) {
		json_array_append_new(list, score_json(&s[i]));
	}
	return list;
}

static json_t *refusals_json(struct arena *a, const struct placing *p)
{
	json_t *list = json_array();

	/* Those that suit but cannot be had now explain a choice; the thousands that do not suit do
	 * not. */
	for (size_t i = 0; i < p->ranking.refused_n && json_array_size(list) < SCORES_KEPT; i++) {
		const struct refused *x = &p->ranking.refused[i];
		const struct offer *o = x->offer;

		if (o->cool_until_us > 0 || o->capacity >= 0 || o->has_odds ||
		    x->why == REFUSED_QUOTA) {
			json_t *j = offer_json(o);

			json_object_set_new(j, "refused",
			    json_string(refusal_words(a, &p->ranking, x)));
			json_array_append_new(list, j);
		}
	}
	return list;
}

/* Of a gang the offers are of one node; what they come to for the whole of it is beside them. */
static void offers_add(const struct job_facts *f, const struct placing *p, json_t *j)
{
	json_t *list;

	if (f->nodes < 2) {
		json_object_set_new(j, "offers", scores_json(p->scores, p->usable, SCORES_KEPT));
		return;
	}
	list = json_array();
	for (size_t i = 0; i < p->gang_n && i < SCORES_KEPT; i++) {
		json_array_append_new(list, gang_score_json(&p->gang[i]));
	}
	json_object_set_new(j, "offers",
	    scores_json(p->ranking.scores, p->ranking.usable, SCORES_KEPT));
	json_object_set_new(j, "nodes", json_integer(f->nodes));
	json_object_set_new(j, "gang", list);
}

static json_t *job_json(const struct job_facts *f, const struct placing *p)
{
	json_t *j = json_pack("{s:I, s:I, s:I, s:I, s:b, s:b, s:I, s:I, s:I, s:I, s:s}", "id",
	    (json_int_t)f->id, "work_left_s", (json_int_t)p->job.work_left_s, "save_us",
	    (json_int_t)f->save_us, "checkpoint_bytes", (json_int_t)f->checkpoint_bytes,
	    "spot_allowed", p->job.spot_allowed, "on_demand_allowed", p->job.on_demand_allowed,
	    "deadline_us", (json_int_t)f->deadline_us, "queued_us", (json_int_t)f->queued_us,
	    "steps_done", (json_int_t)f->steps_done, "restart_us", (json_int_t)f->restart_us,
	    "step_rates", f->rates != NULL ? f->rates : "");

	if (f->has_budget) {
		json_object_set_new(j, "budget_micros", json_integer(f->budget_micros));
		json_object_set_new(j, "budget_left_micros", json_integer(f->budget_left));
	}
	return j;
}

json_t *placement_inputs(const struct place_in *in, const struct job_facts *f,
    const struct placing *p)
{
	json_t *policy = rank_policy_json(&in->policy->rank);
	json_t *j = json_pack("{s:I, s:o, s:o, s:I, s:I, s:I}", "now_us", (json_int_t)in->now_us,
	    "job", job_json(f, p), "policy", policy, "offers_n", (json_int_t)in->market->offers_n,
	    "usable", (json_int_t)p->usable, "spot_usable", (json_int_t)p->spot_n);

	json_object_set_new(policy, "patience_us",
	    json_integer(placement_patience_us(in->policy, p->spec)));
	if (f->has_budget) {
		json_object_set_new(j, "too_dear", json_integer((json_int_t)p->dear));
	}
	offers_add(f, p, j);
	json_object_set_new(j, "not_now", refusals_json(in->arena, p));
	if (p->plan != NULL) {
		json_object_set(j, "deadline", p->plan);
	}
	if (p->move != NULL) {
		json_object_set(j, "move", p->move);
	}
	return j;
}
