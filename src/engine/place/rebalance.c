/*
 * Rebalancing. Ranks every running job as if it were placed now. Moves those that pay by the rule
 * of the return to spot, in waves under limits (core/policy/rebalance.h). Requests are decision
 * rows, by people, timers, or ourselves every rebalance_every. A provider's recommendation to leave
 * a machine is judged once, by the worth of earlier ones. A dry run only writes down its moves.
 * move_back.c carries the moves out. Nodes of fleets move by rules of their own (fleet_move.c).
 *
 * The jobs are read and judged in pages, since their files may be large. Some files of jobs that
 * are started or judged again are kept (SPEC_BYTES); the others are read once more, in pages too.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "core/policy/policy.h"
#include "engine/place/place_priv.h"

#define PAGE 16
#define RECORD_US (60 * 24 * SPOT_US_PER_HOUR)

struct judged {
	struct q_engine_move_jobs_row row; /* without its spec if that was not kept */
	struct rebalance_move move;
	const char *from, *to; /* places, in words of JSON */
	bool begun;
};

struct rebalance {
	struct q_engine_rebalance_due_row *reqs;
	size_t reqs_n;
	struct fleet_moving *fleets; /* of each request */
	size_t fleets_at;
	struct judged *jobs;
	size_t n, cap;
	int64_t moving; /* with a replacement under way */
	struct q_engine_recommended_row *hints; /* instead of requests: recommendations to judge */
	size_t hints_n;
	struct rebalance_choice *choices; /* of the jobs: the wave */
	size_t kept; /* bytes of specs */
	void (*page)(struct step *s); /* each page read */
	int64_t *only, after_id;
	size_t only_n;
};

static bool request_dry(const struct q_engine_rebalance_due_row *q)
{
	struct spot_err err = { 0 };
	AUTO(json) json_t *in = NULL;
	AUTO(json) json_t *out = NULL;
	bool dry = true;

	/* In doubt nothing moves. */
	if (json_parse(str_from(q->inputs), "inputs", &in, &err) == SPOT_OK &&
	    json_parse(str_from(q->outcome), "outcome", &out, &err) == SPOT_OK) {
		dry = json_bool(in, "dry_run", json_bool(out, "dry_run", true, &err), &err);
	}
	return err.rc != SPOT_OK || dry;
}

/* The fleet that the request is about; 0 = the running jobs and all fleets. */
static int64_t request_fleet(const struct q_engine_rebalance_due_row *q)
{
	struct spot_err err = { 0 };
	AUTO(json) json_t *in = NULL;

	return json_parse(str_from(q->inputs), "inputs", &in, &err) == SPOT_OK
	    ? json_i64(in, "fleet", 0, &err)
	    : 0;
}

static json_t *pool_json(const struct score *s)
{
	const struct offer *o = s->offer;

	return json_pack("{s:o, s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "id",
	    json_sprintf("p%d", (int)o->pool_id), "provider", o->provider, "region", o->region,
	    "zone", o->zone, "instance_type", o->instance_type, "market",
	    spot_market_name(o->market), "price_micros", (json_int_t)o->price_micros,
	    "total_micros", (json_int_t)s->total_micros);
}

/* ---- judging --------------------------------------------------------------------------------- */

/* Keeps the judgement of one job; its ranking, as large as the market, goes. */
static void judge_one(struct recon *r, struct rebalance *b, struct judged *x)
{
	struct move m;

	if (x->row.has_replacement_id) {
		x->move.why_not = "a move is under way";
		b->moving++;
		return;
	}
	part_begin(r);
	x->move.why_not = "cannot be judged now";
	if (move_judge(r, &x->row, false, &m)) {
		x->move.why_not =
		    m.out.why != NULL ? arena_strdup(r->pass_arena, m.out.why) : "it does not pay";
		x->move.pays = m.out.move && m.there != NULL;
	}
	if (x->move.pays) {
		AUTO(json) json_t *from = pool_json(m.here);
		AUTO(json) json_t *to = pool_json(m.there);

		x->move.saving_micros = m.out.saving_micros;
		x->move.cost_micros = m.out.cost_micros;
		x->move.to_pool = m.there->offer->pool_id;
		x->from = json_text(r->pass_arena, from);
		x->to = json_text(r->pass_arena, to);
	}
	part_end(r);
}

/* The row outlives its page. */
static void row_keep(struct recon *r, struct rebalance *b, struct q_engine_move_jobs_row *row,
    bool again)
{
	size_t n = strlen(row->spec);
	bool fits = again && b->kept + n <= SPEC_BYTES;

	b->kept += fits ? n : 0;
	row->spec = fits ? arena_strndup(r->arena, row->spec, n) : NULL;
	row->name = arena_strdup(r->arena, row->name);
	row->rates = arena_strdup(r->arena, row->rates);
	row->refused = arena_strdup(r->arena, row->refused);
}

static json_t *text_json(const char *text)
{
	struct spot_err err = { 0 };
	json_t *j = NULL;

	return json_parse(str_from(text), "pool", &j, &err) == SPOT_OK ? j : json_null();
}

/* Judges the job once more, for the decision's inputs, and starts the move. */
static bool rebalance_start(struct recon *r, const struct q_engine_move_jobs_row *row)
{
	struct move m;
	bool goes;

	if (row->spec == NULL) {
		return false; /* the job no longer ran at the second read */
	}
	part_begin(r);
	goes = move_judge(r, row, false, &m) && m.out.move && m.there != NULL;
	if (goes) {
		AUTO(json) json_t *move = move_json(m.here, m.there, &m.out, row->node_id);

		m.placing.move = move;
		place_want(r, &m.facts, &m.placing, m.there, row->node_id, "rebalance", m.out.why);
	}
	part_end(r);
	return goes;
}

static void moves_choose(struct recon *r, struct rebalance *b)
{
	struct rebalance_move *list = arena_array(r->arena, b->n + 1, sizeof(*list));

	for (size_t i = 0; i < b->n; i++) {
		list[i] = b->jobs[i].move;
	}
	b->choices = arena_array(r->arena, b->n + 1, sizeof(*b->choices));
	rebalance_wave(r->arena, list, b->n, (int64_t)b->n, b->moving, engine_now(r->e),
	    &r->e->conf.rebalance, b->choices);
}

static void move_write(json_t *moves, const struct judged *x, bool done)
{
	json_array_append_new(moves,
	    json_pack("{s:o, s:o, s:o, s:I, s:I, s:s, s:b}", "job",
		json_sprintf("j%" PRId64, x->row.id), "from", text_json(x->from), "to",
		text_json(x->to), "saving_micros", (json_int_t)x->move.saving_micros, "cost_micros",
		(json_int_t)x->move.cost_micros, "why", x->move.why_not, "done", done));
}

static const char *answer_why(struct recon *r, const struct fleet_moving *f, size_t jobs,
    size_t moves, bool dry, int64_t saves)
{
	const char *what = f->only != 0
	    ? arena_printf(r->arena, "%zu of %zu nodes", moves, f->nodes)
	    : f->nodes == 0
	    ? arena_printf(r->arena, "%zu of %zu running jobs", moves, jobs)
	    : arena_printf(r->arena, "%zu of %zu running jobs and %zu nodes of fleets", moves, jobs,
		  f->nodes);

	return arena_printf(r->arena, "%s %s, for %.4f USD less", what, dry ? "would move" : "move",
	    (double)saves / 1e6);
}

static void rebalance_answer(struct recon *r, const struct q_engine_rebalance_due_row *q,
    const struct rebalance *b)
{
	const struct fleet_moving *f = &b->fleets[q - b->reqs];
	json_t *moves = json_copy(f->moves), *kept = json_copy(f->kept);
	bool dry = request_dry(q);
	size_t jobs = f->only == 0 ? b->n : 0;
	AUTO(json)
	json_t *out = json_pack("{s:s, s:b, s:o, s:o}", "state", "done", "dry_run", dry, "moves",
	    moves, "kept", kept);
	const struct rebalance_choice *c = b->choices;
	int64_t saves = f->saves_micros;
	struct step *s;

	for (size_t i = 0; i < jobs; i++) {
		const struct judged *x = &b->jobs[i];

		if (c[i].go && (dry || x->begun || rebalance_start(r, &x->row))) {
			move_write(moves, x, !dry);
			saves += x->move.saving_micros - x->move.cost_micros;
		} else {
			json_array_append_new(kept,
			    json_pack("{s:o, s:s}", "job", json_sprintf("j%" PRId64, x->row.id),
				"why", c[i].why != NULL ? c[i].why : "the market moved meanwhile"));
		}
	}
	json_object_set_new(out, "saves_micros", json_integer(saves));
	s = step_new(r, NULL, NULL);
	STEP(s, engine_rebalance_done,
	    (&(struct q_engine_rebalance_done){ .id = q->id,
		.outcome = json_text(r->arena, out),
		.why = answer_why(r, f, jobs, json_array_size(moves), dry, saves),
		.fence = r->epoch }));
}

/* ---- recommendations ------------------------------------------------------------------------- */

static const struct score *elsewhere_find(const struct move *m, int32_t pool_id)
{
	for (size_t i = 0; i < m->placing.usable; i++) {
		if (m->placing.scores[i].offer->pool_id != pool_id) {
			return &m->placing.scores[i];
		}
	}
	return NULL;
}

static void recommendation_write(struct recon *r, const struct q_engine_recommended_row *h,
    const struct recommend_in *in, const struct recommend_out *out)
{
	AUTO(json)
	json_t *inputs = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "provider", h->provider,
	    "heard", (json_int_t)in->heard, "followed", (json_int_t)in->followed,
	    "base_followed_pm", (json_int_t)in->base_followed_pm, "move_micros",
	    (json_int_t)in->move_micros, "lost_micros", (json_int_t)in->lost_micros);
	AUTO(json)
	json_t *outcome = json_pack("{s:b, s:f, s:I}", "move", out->move, "odds", out->odds,
	    "worth_micros", (json_int_t)out->worth_micros);
	struct step *s = step_new(r, NULL, NULL);

	log_info("recommendation.judged", I64("node", h->node_id), I64("job", h->job_id),
	    STR("why", out->why));
	STEP(s, engine_recommendation,
	    (&(struct q_engine_recommendation){ .job_id = h->job_id,
		.node_id = h->node_id,
		.inputs = json_text(r->arena, inputs),
		.outcome = json_text(r->arena, outcome),
		.why = out->why,
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
}

/* The cost of a reclaim without the early move: the lost work, the restart and the wait for
 * capacity, at today's price. */
static int64_t reclaim_cost(const struct score *here)
{
	struct score_terms t;

	score_explain(here, &t);
	return (
	    int64_t)((t.lost_per_h + t.restart_per_h + t.wait_per_h) * (double)here->price_micros);
}

static bool hint_matches(const struct q_engine_recommended_row *h,
    const struct q_engine_move_jobs_row *row)
{
	return row->id == h->job_id && (row->num_nodes > 1 || row->node_id == h->node_id);
}

static void recommendation_weigh(struct recon *r, const struct q_engine_move_jobs_row *row,
    const struct q_engine_recommended_row *h)
{
	const struct rebalance_policy *p = &r->e->conf.rebalance;
	struct recommend_in in = { .heard = h->heard, .followed = h->followed };
	struct recommend_out out;
	struct return_in pair;
	struct move m;

	if (!move_judge(r, row, false, &m)) {
		return;
	}
	m.there = elsewhere_find(&m, row->pool_id);
	if (m.there == NULL || move_never(r, &m) != NULL) {
		return;
	}
	pair = return_pair(engine_now(r->e), m.here, m.there);
	return_decide(r->arena, &pair, &r->e->conf.supply, &m.out);
	in.move_micros = MAX(m.out.cost_micros - m.out.saving_micros, 0);
	in.lost_micros = reclaim_cost(m.here);
	in.base_followed_pm = (int64_t)(1000 * m.here->hazard * (double)p->notice_window_us /
	    (double)SPOT_US_PER_HOUR);
	recommend_judge(r->arena, &in, r->e->conf.supply.return_margin_pm, &out);
	recommendation_write(r, h, &in, &out);
	if (out.move && row->moves_hour < r->e->conf.supply.moves_per_hour_max) {
		AUTO(json) json_t *move = move_json(m.here, m.there, &m.out, row->node_id);

		m.placing.move = move;
		place_want(r, &m.facts, &m.placing, m.there, row->node_id, "rebalance", out.why);
	}
}

static void recommendation_judge(struct recon *r, const struct q_engine_move_jobs_row *row,
    const struct q_engine_recommended_row *h)
{
	if (hint_matches(h, row) && row->spec != NULL && !row->has_replacement_id) {
		part_begin(r);
		recommendation_weigh(r, row, h);
		part_end(r);
	}
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void page_next(struct recon *r, struct rebalance *b)
{
	struct step *s = step_new(r, b->page, b);

	STEP(s, engine_move_jobs,
	    (&(struct q_engine_move_jobs){ .at_us = engine_now(r->e),
		.any_market = true,
		.after_id = b->after_id,
		.most = PAGE,
		.only = b->only,
		.only_n = b->only_n,
		.end_us = budget_end_us(r->e),
		.spec_bytes = SPEC_BYTES }));
}

/* The rows of a page with their specs. ret_last: no other page follows. */
static size_t page_rows(struct step *s, struct arena *page, struct q_engine_move_jobs_row **ret,
    bool *ret_last)
{
	struct rebalance *b = s->ctx;
	size_t n = q_engine_move_jobs_rows(&s->req, page, ret), whole = move_jobs_whole(*ret, n);

	b->after_id = whole > 0 ? (*ret)[whole - 1].id : b->after_id;
	*ret_last = whole == n && n < PAGE;
	return whole;
}

static void answer_all(struct recon *r, struct rebalance *b)
{
	for (size_t i = 0; i < b->reqs_n; i++) {
		rebalance_answer(r, &b->reqs[i], b);
	}
	for (size_t i = 0; i < b->hints_n; i++) {
		for (size_t k = 0; k < b->n; k++) {
			recommendation_judge(r, &b->jobs[k].row, &b->hints[i]);
		}
	}
}

static void again_read(struct step *s)
{
	AUTO(arena) struct arena *page = arena_new(0);
	struct rebalance *b = s->ctx;
	struct q_engine_move_jobs_row *rows;
	bool last;
	size_t n = page_rows(s, page, &rows, &last);

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < b->n && b->reqs_n > 0; k++) {
			b->jobs[k].begun |=
			    b->jobs[k].row.id == rows[i].id && rebalance_start(s->r, &rows[i]);
		}
		for (size_t k = 0; k < b->hints_n; k++) {
			recommendation_judge(s->r, &rows[i], &b->hints[k]);
		}
	}
	if (last) {
		answer_all(s->r, b);
	} else {
		page_next(s->r, b);
	}
}

static void jobs_read(struct recon *r, void *ctx)
{
	struct rebalance *b = ctx;
	bool moves = false;

	for (size_t i = 0; i < b->reqs_n; i++) {
		moves |= !request_dry(&b->reqs[i]);
	}
	moves_choose(r, b);
	b->only = arena_array(r->arena, b->n + 1, sizeof(*b->only));
	b->only_n = 0;
	for (size_t i = 0; i < b->n; i++) {
		if (b->jobs[i].row.spec == NULL &&
		    (b->hints_n > 0 || (moves && b->choices[i].go))) {
			b->only[b->only_n++] = b->jobs[i].row.id;
		}
	}
	if (b->only_n == 0) {
		answer_all(r, b);
		return;
	}
	b->page = again_read;
	b->after_id = 0;
	page_next(r, b);
}

static void page_read(struct step *s)
{
	AUTO(arena) struct arena *page = arena_new(0);
	struct rebalance *b = s->ctx;
	struct q_engine_move_jobs_row *rows;
	bool last;
	size_t n = page_rows(s, page, &rows, &last);

	for (size_t i = 0; i < n; i++) {
		struct judged *x;

		b->jobs = arena_grow(s->r->arena, b->jobs, b->n, &b->cap, sizeof(*b->jobs));
		x = &b->jobs[b->n++];
		*x = (struct judged){ .row = rows[i], .move = { .job_id = rows[i].id } };
		if (b->hints_n == 0) {
			judge_one(s->r, b, x);
		}
		row_keep(s->r, b, &x->row, b->hints_n > 0 || x->move.pays);
	}
	if (last) {
		offers_need(s->r, jobs_read, b);
	} else {
		page_next(s->r, b);
	}
}

/* The fleets of each request first, one request after the other. A request about one fleet needs
 * no jobs. */
static void rebalance_begin(struct recon *r, void *ctx)
{
	struct rebalance *b = ctx;
	bool jobs = b->hints_n > 0;

	if (b->fleets_at < b->reqs_n) {
		struct fleet_moving *f = &b->fleets[b->fleets_at];

		*f = (struct fleet_moving){ .only = request_fleet(&b->reqs[b->fleets_at]),
			.dry = request_dry(&b->reqs[b->fleets_at]),
			.then = rebalance_begin,
			.ctx = b };
		b->fleets_at++;
		fleet_moves_run(r, f);
		return;
	}
	for (size_t i = 0; i < b->reqs_n; i++) {
		jobs |= b->fleets[i].only == 0;
	}
	if (!jobs) {
		answer_all(r, b);
		return;
	}
	b->only = arena_array(r->arena, b->hints_n + 1, sizeof(*b->only));
	b->only_n = b->hints_n;
	for (size_t i = 0; i < b->hints_n; i++) {
		b->only[i] = b->hints[i].job_id;
	}
	b->page = page_read;
	page_next(r, b);
}

static void rebalance_due(struct step *s)
{
	struct rebalance *b = arena_alloc(s->r->arena, sizeof(*b));

	b->reqs_n = q_engine_rebalance_due_rows(&s->req, s->r->arena, &b->reqs);
	b->fleets = arena_array(s->r->arena, b->reqs_n + 1, sizeof(*b->fleets));
	if (b->reqs_n > 0) {
		/* The request may know newer prices than the market read of this pass. */
		offers_invalidate(s->r->e);
		offers_need(s->r, rebalance_begin, b);
	}
}

static void hints_read(struct step *s)
{
	struct rebalance *b = arena_alloc(s->r->arena, sizeof(*b));

	b->hints_n = q_engine_recommended_rows(&s->req, s->r->arena, &b->hints);
	if (b->hints_n > 0) {
		offers_need(s->r, rebalance_begin, b);
	}
}

static void rebalance_pass(struct recon *r, void *state)
{
	struct engine *e = r->e;
	int64_t now = engine_now(e);
	struct step *s = step_new(r, rebalance_due, NULL);

	(void)state;
	STEP(s, engine_rebalance_due, NULL);
	s = step_new(r, hints_read, NULL);
	STEP(s, engine_recommended,
	    (&(struct q_engine_recommended){ .since_us = now - RECORD_US,
		.window_us = e->conf.rebalance.notice_window_us,
		.at_us = now }));
	if (e->conf.rebalance_every_us > 0) {
		s = step_new(r, NULL, NULL);
		STEP(s, engine_rebalance_self,
		    (&(struct q_engine_rebalance_self){ .every_us = e->conf.rebalance_every_us,
			.at_us = now,
			.fence = r->epoch }));
	}
}

const struct recon_kind rebalance_kind = { .name = "rebalance",
	.wakes = TOUCH_DECISION | TOUCH_NOTICE | TOUCH_NODE | TOUCH_ATTEMPT,
	.idle_ticks = 10,
	.pass = rebalance_pass };
