/*
 * Places jobs, gangs too (gang_place.c). A waiting job gets a ready node that suits it (bind.c).
 * Without one, and with none on its way, the engine wants a node in the pool with the lowest
 * expected cost of the work (want.c). For a job that drains it wants the replacement at once, while
 * the old node still saves. A failed launch is no special case: the refused pool cools, and the
 * next pass finds the job here again.
 *
 * A pass reads a window of the queue: its first 300 jobs (HEAD_MOST), and a slice of the others.
 * The slice moves on from pass to pass and begins again after the last job. So jobs that cannot be
 * placed keep nobody behind them from being read. Scarce resources (nodes of fleets, quotas) go to
 * the first job in the window. A blocked job with held room stays in the window wherever it stands,
 * so later slices only fill in. So does a job whose machine is ready, since that costs money.
 *
 * Past the first 300 jobs the order is approximate. A resource freed during a walk goes to the next
 * slice, even if a higher-priority job was in a slice already read. That is the price of not
 * ranking the whole queue in each pass. Among equals the nearest deadlines come first, so most last
 * safe moments fall within the head; the others are seen within a walk.
 */
#include "base/base.h"
#include "base/log.h"
#include "base/text/str.h"
#include "core/money/budget.h"
#include "engine/place/place_priv.h"

#define HEAD_MOST 300
#define SLICE_MOST 200
#define FREE_MOST 2000
#define RUN_MOST 2000
/* Offers scored in one pass: placing many jobs on a large market must not hold up the loop. The
 * next pass goes on where this one stopped. */
#define SCORE_BUDGET 400000

/* The reconciler's. Only pacing: another daemon begins at the first job. */
struct assign_state {
	int64_t
	    next; /* the next pass begins at this job, after a used-up budget; 0 = at the first */
	int64_t after, after_n; /* the job that ended the last slice of the queue, and its place */
	struct held_jobs held;
};

static bool spec_read(struct recon *r, const struct q_engine_assign_jobs_row *j,
    struct job_spec **ret)
{
	struct spot_err err = { 0 };
	AUTO(json) json_t *doc = NULL;

	if (json_parse(str_from(j->spec), "job.spec", &doc, &err) != SPOT_OK ||
	    jobspec_from_json(r->arena, doc, ret, &err) != SPOT_OK) {
		log_error("job.spec", I64("job", j->id), STR("error", err.text));
		return false;
	}
	return true;
}

/* ---- one job, stage by stage ----------------------------------------------------------------- */

struct waiting {
	const struct q_engine_assign_jobs_row *row;
	struct job_spec *spec;
	bool queued; /* else it runs or drains */
};

static bool spec_unread(struct recon *r, struct assign_pass *t, struct waiting *w)
{
	(void)t;
	return (w->queued && w->row->live) || !spec_read(r, w->row, &w->spec);
}

/* An agent ends its attempt by a monotonic clock. A step of our wall clock must not end a job for
 * good: a job whose time may be over waits until that is sure. */
static bool time_over(struct recon *r, struct assign_pass *t, struct waiting *w)
{
	const struct q_engine_assign_jobs_row *j = w->row;
	int64_t most_us = w->spec->max_duration_s * SPOT_US_PER_S;

	(void)t;
	if (most_us <= 0 || j->ran_us < most_us) {
		return false;
	}
	if (w->queued && clock_ran_out(r->e, j->ran_us, most_us)) {
		job_event(r, j->id, j->state, j->epoch, JOB_EV_OVERTIME, "overtime",
		    "max_duration is over");
	}
	return true;
}

static bool budget_used_up(struct recon *r, struct assign_pass *t, struct waiting *w)
{
	(void)t;
	if (!w->row->has_budget_micros || w->row->budget_left > 0) {
		return false;
	}
	if (w->queued) {
		struct job_facts f = facts_make(w->row);

		budget_over(r, &f, w->spec);
	}
	return true;
}

static bool fleet_closed(struct recon *r, struct assign_pass *t, struct waiting *w)
{
	const struct q_engine_assign_jobs_row *j = w->row;

	(void)t;
	if (!w->queued || !j->fleet_closed) {
		return false;
	}
	job_event(r, j->id, j->state, j->epoch, JOB_EV_INFEASIBLE, "fleet_closed",
	    arena_printf(r->arena,
		"its fleet f%" PRId64 " is closed: submit it again, without a fleet or for another",
		j->fleet_id));
	return true;
}

/* Files whose URLs nobody can sign end a job before a machine is bought for it. Wrong names end it
 * at once; a configuration that may be mended ends it as late as a job that no pool suits. */
static bool mounts_unsignable(struct recon *r, struct assign_pass *t, struct waiting *w)
{
	const struct q_engine_assign_jobs_row *j = w->row;
	struct spot_err err = { 0 };
	enum spot_rc rc = SPOT_OK;

	(void)t;
	for (size_t i = 0; i < w->spec->mounts_n && rc == SPOT_OK; i++) {
		rc = objects_uri_check(r->e, r->arena, w->spec->mounts[i].uri, &err);
	}
	if (rc == SPOT_OK) {
		return false;
	}
	if (w->queued &&
	    (rc == SPOT_INVALID ||
		(rc == SPOT_CONFIG &&
		    engine_now(r->e) - j->queued_us >
			clock_span_us(r->e, r->e->conf.infeasible_us)))) {
		job_event(r, j->id, j->state, j->epoch, JOB_EV_INFEASIBLE, "infeasible", err.text);
	} else {
		job_explain(r, j->id, j->state, j->epoch, err.text);
	}
	return true;
}

/* A job that has run before waits for nothing but a place. */
static bool start_deferred(struct recon *r, struct assign_pass *t, struct waiting *w)
{
	int64_t left = w->row->not_before_us - engine_now(r->e);

	(void)t;
	if (!w->queued || w->row->epoch != 0 || left <= 0) {
		return false;
	}
	engine_later(r->e, left);
	return true;
}

static bool node_bound(struct recon *r, struct assign_pass *t, struct waiting *w)
{
	const struct q_engine_assign_jobs_row *j = w->row;
	size_t i = w->queued && j->num_nodes == 1 ? node_choose(r, t, j, w->spec) : SIZE_MAX;

	if (i == SIZE_MAX) {
		return false;
	}
	if (!node_dear(r->e, j, w->spec, &t->nodes[i])) {
		t->taken[i] = true;
		bind_start(r, j, w->spec, &t->nodes[i]);
		return true;
	}
	if (j->has_fleet_id) {
		struct job_facts f = facts_make(j);

		budget_park(r, &f,
		    budget_need(t->nodes[i].price_micros, 0, budget_end_us(r->e), w->spec));
		return true;
	}
	return false;
}

static bool node_sought(struct recon *r, struct assign_pass *t, struct waiting *w)
{
	const struct q_engine_assign_jobs_row *j = w->row;

	if (!j->inflight && !j->has_fleet_id) {
		t->scored += r->e->offers.n;
		job_want(r, t, j);
	} else if (w->queued && !j->inflight) {
		struct job_facts f = facts_make(j);

		preempt_for_fleet(r, &t->room, &f, w->spec, j->fleet_id);
	}
	return true;
}

/* Run in this order. The first that returns true is the last for the job in this pass. */
static bool (*const stages[])(struct recon *r, struct assign_pass *t, struct waiting *w) = {
	spec_unread,
	time_over,
	budget_used_up,
	fleet_closed,
	mounts_unsignable,
	start_deferred,
	node_bound,
	node_sought,
};

static void job_decide(struct recon *r, struct assign_pass *t,
    const struct q_engine_assign_jobs_row *j)
{
	struct waiting w = { .row = j, .queued = j->state == JOB_QUEUED };

	for (size_t i = 0; i < ARRAY_LEN(stages) && !stages[i](r, t, &w); i++) {
	}
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* Goes on where the last pass stopped: holds room again for the jobs that were blocked before. */
static void pass_resume(struct recon *r, struct assign_pass *t)
{
	struct assign_state *st = r->state;
	size_t n = st->held.n;

	st->held.n = 0;
	for (size_t k = 0; k < n && st->next != 0; k++) {
		for (size_t i = 0; i < t->jobs_n; i++) {
			if (t->jobs[i].id == st->held.ids[k]) {
				t->done[i] = true;
				job_decide(r, t, &t->jobs[i]);
			}
		}
	}
	t->scored = 0; /* blocked jobs are few, and each pass must make progress */
}

/* The next slice goes on behind this one. Only a hint: the next leader begins at the first. */
static void slice_end(struct assign_state *st, const struct assign_pass *t)
{
	int64_t far = 0;

	for (size_t i = 0; i < t->jobs_n; i++) {
		if (t->jobs[i].slice_at > far) {
			far = t->jobs[i].slice_at;
			st->after = t->jobs[i].id;
			st->after_n = t->jobs[i].place_n;
		}
	}
}

static void jobs_decide(struct recon *r, void *ctx)
{
	struct assign_state *st = r->state;
	struct assign_pass *t = ctx;
	size_t first = 0;

	t->done = arena_array(r->arena, t->jobs_n + 1, sizeof(*t->done));
	pass_resume(r, t);
	for (size_t i = 0; i < t->jobs_n; i++) {
		if (t->jobs[i].id == st->next) {
			first = i;
		}
	}
	st->next = 0;
	for (size_t i = 0; i < t->jobs_n; i++) {
		size_t at = (first + i) % t->jobs_n;
		bool unread = !t->done[at] && t->jobs[at].spec == NULL;

		if (t->scored >= SCORE_BUDGET || unread) {
			st->next = t->jobs[at].id;
			/* after a full round, the others come with the next pass */
			r->changed |= !unread || at >= first;
			if (at < first) {
				/* wrapped around: the rest belongs to the first slice */
				slice_end(st, t);
			}
			return;
		}
		if (!t->done[at]) {
			job_decide(r, t, &t->jobs[at]);
		}
	}
	slice_end(st, t);
}

static void running_read(struct step *s)
{
	struct assign_pass *t = s->ctx;

	t->room.n = q_engine_running_rows(&s->req, s->r->arena, &t->room.rows);
	t->room.read_us = loop_mono_us(s->r->e->loop);
	offers_need(s->r, jobs_decide, t);
}

static void nodes_read(struct step *s)
{
	struct assign_pass *t = s->ctx;
	struct step *next;

	t->nodes_n = q_engine_free_nodes_rows(&s->req, s->r->arena, &t->nodes);
	t->taken = arena_array(s->r->arena, t->nodes_n + 1, sizeof(*t->taken));
	t->room.free = t->nodes;
	t->room.free_n = t->nodes_n;
	next = step_new(s->r, running_read, t);
	STEP(next, engine_running,
	    (&(struct q_engine_running){ .most = RUN_MOST, .at_us = engine_now(s->r->e) }));
}

static void jobs_read(struct step *s)
{
	struct assign_state *st = s->r->state;
	struct assign_pass *t = arena_alloc(s->r->arena, sizeof(*t));
	struct step *next;
	bool any = false;

	t->room.held = &st->held;
	t->jobs_n = q_engine_assign_jobs_rows(&s->req, s->r->arena, &t->jobs);
	for (size_t i = 0; i < t->jobs_n; i++) {
		any |= t->jobs[i].state == JOB_QUEUED || !t->jobs[i].inflight;
	}
	if (!any) {
		slice_end(st, t);
		return;
	}
	next = step_new(s->r, nodes_read, t);
	STEP(next, engine_free_nodes, (&(struct q_engine_free_nodes){ .most = FREE_MOST }));
}

static void assign_pass(struct recon *r, void *state)
{
	const struct assign_state *st = state;
	struct step *s = step_new(r, jobs_read, NULL);

	deadline_pass_begins(r->e);
	STEP(s, engine_assign_jobs,
	    (&(struct q_engine_assign_jobs){ .head = HEAD_MOST,
		.slice = SLICE_MOST,
		.after = st->after,
		.after_n = st->after_n,
		.held = st->held.ids,
		.held_n = st->held.n,
		.at_us = engine_now(r->e),
		.end_us = budget_end_us(r->e),
		.next = st->next,
		.spec_bytes = SPEC_BYTES }));
}

const struct recon_kind assign_kind = { .name = "assign",
	.state_size = sizeof(struct assign_state),
	.pass = assign_pass };
