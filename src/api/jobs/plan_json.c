/* The answer of POST /v1/plan. The large lists are written straight into the reply
 * (plan_offers.c), the small documents are made as trees first. */
#include "base/base.h"
#include "api/jobs/jobs_priv.h"
#include "api/jobs/jobs.h"
#include "base/text/text.h"
#include "core/spec/spec.h"

#define GANG_SHOWN 50

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
	    "costs are of all nodes together, as in chosen and baselines; the plan's offers are "
	    "of one node");
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
	case PLACE_PARK:
		return "park";
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

/* ---- the document ---------------------------------------------------------------------------- */

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

/* Takes doc. */
static void document_add(struct areq *q, struct sbuf *b, const char *name, json_t *doc)
{
	const char *text = json_text(q->arena, doc);

	json_add_name(b, name);
	json_marks_put(b, text, strlen(text), q->now_us);
	json_decref(doc);
}

static void warnings_add(struct sbuf *b, const struct planned *p)
{
	json_add_name(b, "warnings");
	sbuf_putc(b, '[');
	for (size_t i = 0; i < p->warnings_n; i++) {
		sbuf_puts(b, i > 0 ? "," : "");
		json_put_str(b, p->warnings[i], strlen(p->warnings[i]));
	}
	sbuf_putc(b, ']');
}

void plan_reply(struct areq *q, struct planned *p)
{
	int64_t work_s = p->all.job.work_left_s;
	struct sbuf *b = areq_body_begin(q);
	const struct score *chosen = plan_chosen(p);

	sbuf_putc(b, '{');
	document_add(q, b, "job", job_json(q, p));
	json_add_f64(b, "work_hours",
	    (double)(work_s > 0 ? work_s : p->policy.rank.default_work_s) / 3600.0);
	json_add_i64(b, "offers_usable", (int64_t)p->all.ranking.usable);
	json_add_i64(b, "offers_known", (int64_t)p->market.offers_n);
	json_add_text(b, "note", plan_note(q, p));
	document_add(q, b, "policy", rank_policy_json(&p->policy.rank));
	plan_spread_add(q, p, b, "chosen", chosen);
	json_add_name(b, "baselines");
	sbuf_putc(b, '{');
	plan_spread_add(q, p, b, "on_demand", plan_best(p, SPOT_MARKET_ON_DEMAND));
	plan_spread_add(q, p, b, "cheapest_listed", plan_cheapest_listed(p));
	sbuf_putc(b, '}');
	document_add(q, b, "gang", gang_json(p));
	document_add(q, b, "decision", decision_json(p));
	document_add(q, b, "submit_refusal", refusal_json(q, p));
	plan_offers_add(q, p, b, chosen);
	plan_refused_add(q, p, b);
	warnings_add(b, p);
	sbuf_putc(b, '}');
	json_decref(p->policy_said);
	p->policy_said = NULL;
	areq_body_reply(q, 200);
}
