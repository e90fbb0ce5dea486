/* Wants a gang: one statement writes its row, its nodes' rows and the decision before anything is
 * sent. The time and place come from the scores of the whole gang, as for every job
 * (core/place/placement.h). */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/place/place_priv.h"

static void gang_wanted(struct step *s)
{
	struct q_engine_gang_want_row *rows;

	offers_write_end(s->r->e);
	if (step_rows(s) == 1 && q_engine_gang_want_rows(&s->req, s->r->arena, &rows) == 1) {
		log_info("gang.wanted", I64("gang", rows[0].id), STR("why", s->ctx));
	}
}

static bool one_call(struct engine *e, const char *provider)
{
	struct call_provider *p = engine_provider(e, provider);

	return p != NULL && call_provider_ops(p)->launch_gang != NULL;
}

static const struct gang_score *gang_find(const struct placing *p, const struct offer *o)
{
	for (size_t i = 0; i < p->gang_n; i++) {
		if (p->gang[i].one->offer == o) {
			return &p->gang[i];
		}
	}
	return NULL;
}

void gang_want(struct recon *r, const struct job_facts *f, const struct placing *p,
    const struct score *s, bool replaces, const char *kind, const char *why)
{
	struct engine *e = r->e;
	const struct offer *o = s->offer;
	const struct gang_score *g = gang_find(p, o);
	size_t n = (size_t)f->nodes;
	bool call = one_call(e, o->provider);
	/* All machines of one launch carry rank 0's token and name. The other rows have their own,
	 * which are never sent. */
	struct q_node_label *nodes = node_labels_make(r, n);
	const char *text;
	struct step *st;

	if (g == NULL) {
		return;
	}
	struct place_in at = place_in(r);
	AUTO(json) json_t *in = placement_inputs(&at, f, p);
	AUTO(json)
	json_t *out = json_pack("{s:s, s:i, s:b, s:o, s:o}", "choice", spot_market_name(o->market),
	    "nodes", (int)f->nodes, "one_call", call, "pool", score_json(g->one), "gang",
	    gang_score_json(g));

	text = arena_printf(r->arena, "%d nodes on %s %s %s %s at %.4f USD/h each: %s",
	    (int)f->nodes, o->provider, o->zone[0] != '\0' ? o->zone : o->region, o->instance_type,
	    o->market == SPOT_MARKET_ON_DEMAND ? "on demand" : spot_market_name(o->market),
	    (double)o->price_micros / 1e6, why);
	st = step_new(r, gang_wanted, arena_strdup(r->pass_arena, text));
	st->always = true;
	offers_count(e, o, (int64_t)n);
	offers_mark_busy(e, o);
	offers_write_begin(e);
	STEP(st, engine_gang_want,
	    (&(struct q_engine_gang_want){ .job_id = f->id,
		.was = f->state,
		.epoch = f->epoch,
		.pool_id = o->pool_id,
		.place = gang_place(r->arena, o),
		.token = call ? nodes[0].token : "",
		.node = nodes,
		.node_n = n,
		.price_micros = o->price_micros,
		.kind = kind,
		.inputs = json_text(r->arena, in),
		.outcome = json_text(r->arena, out),
		.why = text,
		.at_us = engine_now(e),
		.fence = r->epoch,
		.replaces = replaces,
		.need_micros = budget_need_of(r, f, p->spec, s->price_micros),
		.end_us = budget_end_us(e) }));
}

const char *gang_why_wait(struct recon *r, const struct job_facts *f, const struct placing *p,
    const char *why)
{
	const char *no = p->gang_n > 0 ? p->gang[0].refused : NULL;

	if (f->nodes < 2 || p->usable > 0) {
		return why;
	}
	for (size_t i = 0; i < p->ranking.refused_n && no == NULL; i++) {
		if (p->ranking.refused[i].why == REFUSED_QUOTA) {
			no = refusal_words(r->arena, &p->ranking, &p->ranking.refused[i]);
		}
	}
	return no == NULL ? why
			  : arena_printf(r->arena, "no zone can give %d nodes together now: %s",
				(int)f->nodes, no);
}
