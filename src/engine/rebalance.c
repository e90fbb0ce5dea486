/*
 * Answers rebalance requests, which are decision rows: every running job is ranked as if it were to
 * be placed now, and moved when that pays by the same rule as the return to spot. A dry run only
 * writes down what it would do. The moves themselves are carried out by return.c.
 */
#include "base/base.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/move.h"

struct rebalance {
	struct q_engine_rebalance_due_row *reqs;
	size_t reqs_n;
	struct q_engine_move_jobs_row *jobs;
	size_t jobs_n;
};

static bool wants_dry_run(const struct q_engine_rebalance_due_row *q)
{
	struct spot_err err = {0};
	AUTO(json) json_t *in = NULL;
	AUTO(json) json_t *out = NULL;
	bool dry = true;

	/* When in doubt nothing is moved. */
	if (json_parse(str_from(q->inputs), "inputs", &in, &err) == SPOT_OK &&
	    json_parse(str_from(q->outcome), "outcome", &out, &err) == SPOT_OK) {
		dry = json_bool(in, "dry_run", json_bool(out, "dry_run", true, &err), &err);
	}
	return err.rc != SPOT_OK || dry;
}

static json_t *pool_json(const struct score *s)
{
	const struct offer *o = s->offer;

	return json_pack("{s:o, s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "id",
			 json_sprintf("p%d", (int)o->pool_id), "provider", o->provider, "region",
			 o->region, "zone", o->zone, "instance_type", o->instance_type, "market",
			 spot_market_name(o->market), "price_micros", (json_int_t)o->price_micros,
			 "total_micros", (json_int_t)s->total_micros);
}

static void judge_one(struct recon *r, const struct q_engine_move_jobs_row *j, bool dry,
		      json_t *moves, json_t *kept)
{
	json_t *name = json_sprintf("j%" PRId64, j->id);
	struct move m;

	if (j->has_replacement_id || !move_judge(r, j, false, &m) || !m.out.move ||
	    m.there == NULL) {
		json_array_append_new(kept,
				      json_pack("{s:o, s:s}", "job", name, "why",
						j->has_replacement_id ? "a move is under way"
						: m.out.why != NULL   ? m.out.why
								      : "cannot be judged now"));
		return;
	}
	json_array_append_new(moves, json_pack("{s:o, s:o, s:o, s:I, s:I, s:s, s:b}", "job", name,
					       "from", pool_json(m.here), "to", pool_json(m.there),
					       "saving_micros", (json_int_t)m.out.saving_micros,
					       "cost_micros", (json_int_t)m.out.cost_micros, "why",
					       m.out.why, "done", !dry));
	if (!dry) {
		place_want(r, &m.facts, &m.placing, m.there, j->node_id, "rebalance", m.out.why);
	}
}

static void answer(struct recon *r, const struct q_engine_rebalance_due_row *q,
		   const struct rebalance *b, bool dry)
{
	json_t *moves = json_array(), *kept = json_array();
	AUTO(json)
	json_t *out = json_pack("{s:s, s:b, s:o, s:o}", "state", "done", "dry_run", dry, "moves",
				moves, "kept", kept);
	struct step *s;

	for (size_t i = 0; i < b->jobs_n; i++) {
		judge_one(r, &b->jobs[i], dry, moves, kept);
	}
	s = step_new(r, NULL, NULL);
	STEP(s, engine_rebalance_done,
	     (&(struct q_engine_rebalance_done){
		 .id = q->id,
		 .outcome = json_text(r->arena, out),
		 .why = arena_printf(r->arena, "%zu of %zu running jobs %s", json_array_size(moves),
				     b->jobs_n, dry ? "would move" : "move"),
		 .fence = r->e->epoch}));
}

static void rebalance_decide(struct recon *r, void *ctx)
{
	struct rebalance *b = ctx;

	for (size_t i = 0; i < b->reqs_n; i++) {
		answer(r, &b->reqs[i], b, wants_dry_run(&b->reqs[i]));
	}
}

static void rebalance_jobs(struct step *s)
{
	struct rebalance *b = s->ctx;

	b->jobs_n = q_engine_move_jobs_rows(&s->req, s->r->arena, &b->jobs);
	offers_need(s->r, rebalance_decide, b);
}

static void rebalance_due(struct step *s)
{
	struct rebalance *b = arena_alloc(s->r->arena, sizeof(*b));
	struct step *next;

	b->reqs_n = q_engine_rebalance_due_rows(&s->req, s->r->arena, &b->reqs);
	if (b->reqs_n == 0) {
		return;
	}
	next = step_new(s->r, rebalance_jobs, b);
	STEP(next, engine_move_jobs,
	     (&(struct q_engine_move_jobs){.at_us = engine_now(s->r->e), .any_market = true}));
}

void rebalance_run(struct recon *r)
{
	struct step *s = step_new(r, rebalance_due, NULL);

	STEP(s, engine_rebalance_due, NULL);
}
