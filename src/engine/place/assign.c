/*
 * Places jobs, gangs too (gang_place.c). A waiting job gets a ready node that suits it (bind.c).
 * Without one, and with none on its way, the engine wants a node in the pool with the lowest
 * expected cost of the work (want.c). For a job that drains it wants the replacement at once, while
 * the old node still saves. A failed launch is no special case: the refused pool cools, and the
 * next pass finds the job here again.
 *
 * Jobs that ask for the same are one group, and a pass answers a group once (asks.c). While the
 * answer is "blocked", the statement leaves the group out, so a queue of a million blocked jobs
 * costs a pass nothing. A group is read again when the market, the running jobs or the clock may
 * have changed its answer. A node that comes free is offered to all groups.
 *
 * A pass reads a window of the other groups: the first 300 jobs (HEAD_MOST), and a slice that moves
 * on from pass to pass. So jobs that cannot be placed keep nobody behind them from being read.
 * Scarce resources (nodes of fleets, quotas) go to the first job in the window. A blocked job with
 * held room stays in the window, so later slices only fill in. So does a job whose machine is
 * ready, since that costs money.
 *
 * Past the first 300 jobs that are not blocked the order is approximate. A resource freed during a
 * walk goes to the next slice, even if a higher-priority job was in a slice already read.
 */
#include "base/base.h"
#include "base/hash.h"
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

/* Jobs of one group in a pass: many while they find places, few where the first is to tell. */
#define GROUP_MOST 100
#define GROUP_LEAST 4
/* Free nodes and the market are looked at this often, whatever was heard of them. */
#define LOOK_US (10 * SPOT_US_PER_S)
#define LOOK_TICKS 10
/* Rows whose change may free a machine or a quota. */
#define TOUCH_MOVES (TOUCH_NODE | TOUCH_ATTEMPT | TOUCH_GANG | TOUCH_FLEET | TOUCH_NOTICE)
/* Files that cannot be signed: the object store is asked again. */
#define MOUNTS_US (5 * SPOT_US_PER_S)

/* The reconciler's. Only pacing: another daemon begins at the first job. */
struct assign_state {
	int64_t
	    next; /* the next pass begins at this job, after a used-up budget; 0 = at the first */
	int64_t after; /* the ask that ended the last slice of the queue; -1 = none */
	struct held_jobs held, was; /* was: before this pass */
	struct asks asks;
	int64_t moves; /* counts changes of machines and running jobs */
	uint64_t free_hash; /* of the free nodes when they were last read */
	int64_t free_us; /* mono: when; 0 = never */
	bool own; /* some of them waited for their jobs */
	bool placing; /* the last pass found places */
	bool offering; /* free nodes are being offered to all groups */
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
		ask_block(r, t, j, err.text, loop_mono_us(r->e->loop) + MOUNTS_US, false, false);
	}
	return true;
}

/* A job that has run before waits for nothing but a place. */
static bool start_deferred(struct recon *r, struct assign_pass *t, struct waiting *w)
{
	int64_t left = w->row->not_before_us - engine_now(r->e);

	if (!w->queued || w->row->epoch != 0 || left <= 0) {
		return false;
	}
	ask_block(r, t, w->row, "it begins later", loop_mono_us(r->e->loop) + left, false, false);
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

static bool held_before(const struct assign_state *st, int64_t job_id)
{
	for (size_t i = 0; i < st->was.n; i++) {
		if (st->was.ids[i] == job_id) {
			return true;
		}
	}
	return false;
}

/* The first of its group was answered already. A job that room is held for is asked all the same:
 * its hold is made anew in each pass. */
static bool ask_answered(struct recon *r, struct assign_pass *t, struct waiting *w)
{
	const struct ask_answer *a = asks_find(t->asks, w->row->ask);

	return a != NULL && ask_holds(a, r->e, t->moves) && !held_before(r->state, w->row->id);
}

static bool node_sought(struct recon *r, struct assign_pass *t, struct waiting *w)
{
	const struct q_engine_assign_jobs_row *j = w->row;
	struct job_facts f;

	if (j->inflight) {
		return true;
	}
	if (!j->has_fleet_id) {
		job_want(r, t, j);
	} else if (w->queued && !t->room_read) {
		t->room_wanted = true;
	} else if (w->queued) {
		f = facts_make(j);
		if (!preempt_for_fleet(r, &t->room, &f, w->spec, j->fleet_id)) {
			ask_block(r, t, j, "no machine of its fleet is free", INT64_MAX, false,
			    true);
		}
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
	ask_answered,
	node_sought,
};

static void job_decide(struct recon *r, struct assign_pass *t,
    const struct q_engine_assign_jobs_row *j)
{
	struct waiting w = { .row = j, .queued = j->state == JOB_QUEUED };

	for (size_t i = 0; i < ARRAY_LEN(stages) && !stages[i](r, t, &w); i++) {
	}
}

void ask_block(struct recon *r, struct assign_pass *t, const struct q_engine_assign_jobs_row *j,
    const char *why, int64_t until_us, bool market, bool moving)
{
	const struct engine *e = r->e;
	int64_t most = asks_last_us(t->asks, e);

	if (moving) { /* a victim may be preempted again by then */
		most = MIN(most, MAX(e->conf.schedule.preempt_hold_us / 8, e->conf.tick_us));
	}
	if (j->has_budget_micros) {
		most = MIN(most, e->conf.budget_look_us);
	}
	asks_block(t->asks, j->ask,
	    &(struct ask_answer){ .version = market ? e->offers.version : 0,
		.moves = moving ? t->moves : 0,
		.until_us = MIN(until_us, loop_mono_us(e->loop) + most) },
	    why);
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* Goes on where the last pass stopped: holds room again for the jobs that were blocked before. */
static void pass_resume(struct recon *r, struct assign_pass *t)
{
	struct assign_state *st = r->state;

	st->was = st->held;
	st->held.n = 0;
	for (size_t k = 0; k < st->was.n && st->next != 0; k++) {
		for (size_t i = 0; i < t->jobs_n; i++) {
			if (t->jobs[i].id == st->was.ids[k]) {
				t->done[i] = true;
				job_decide(r, t, &t->jobs[i]);
			}
		}
	}
	t->scored = 0; /* blocked jobs are few, and each pass must make progress */
}

/* The next slice goes on behind this one. Only a hint: the next leader begins at the first. A full
 * slice is followed by the next at once; behind the last one a pass waits for a change. */
static void slice_end(struct recon *r, const struct assign_pass *t)
{
	struct assign_state *st = r->state;
	int64_t last = -1;
	size_t n = 0;

	for (size_t i = 0; i < t->jobs_n; i++) {
		last = MAX(last, t->jobs[i].slice_ask);
		n += t->jobs[i].slice_ask >= 0;
	}
	st->after = n < SLICE_MOST || t->jobs_n < HEAD_MOST ? -1 : last;
	st->offering = st->offering && st->after >= 0;
	r->changed |= st->after >= 0;
}

static void pass_end(struct recon *r, struct assign_pass *t, int64_t version)
{
	struct assign_state *st = r->state;

	asks_count(&st->asks, version, r->e->offers.version);
	asks_tell(t->asks, r);
	st->placing = t->wanted > 0;
}

static void running_read(struct step *s);

static void running_ask(struct recon *r, struct assign_pass *t)
{
	struct step *s = step_new(r, running_read, t);

	STEP(s, engine_running,
	    (&(struct q_engine_running){ .most = RUN_MOST, .at_us = engine_now(r->e) }));
}

/* Decides the jobs from the one at t->at on. A job that needs the room has it read first, and is
 * decided again. */
static void jobs_go_on(struct recon *r, struct assign_pass *t)
{
	struct assign_state *st = r->state;
	int64_t version = r->e->offers.version;

	for (; t->at < t->jobs_n; t->at++) {
		size_t at = (t->first + t->at) % t->jobs_n;
		bool unread = !t->done[at] && t->jobs[at].spec == NULL;

		if (t->scored >= SCORE_BUDGET || unread) {
			st->next = t->jobs[at].id;
			/* after a full round, the others come with the next pass */
			r->changed |= !unread || at >= t->first;
			if (at < t->first) {
				/* wrapped around: the rest belongs to the first slice */
				slice_end(r, t);
			}
			pass_end(r, t, version);
			return;
		}
		if (!t->done[at]) {
			job_decide(r, t, &t->jobs[at]);
		}
		if (t->room_wanted && !t->room_read) {
			asks_count(&st->asks, version, r->e->offers.version);
			running_ask(r, t);
			return;
		}
	}
	slice_end(r, t);
	pass_end(r, t, version);
}

static void jobs_decide(struct recon *r, void *ctx)
{
	struct assign_state *st = r->state;
	struct assign_pass *t = ctx;

	if (st->held.n > 0 && !t->room_read) {
		running_ask(r, t); /* the holds are made anew from it */
		return;
	}
	t->done = arena_array(r->arena, t->jobs_n + 1, sizeof(*t->done));
	pass_resume(r, t);
	for (size_t i = 0; i < t->jobs_n; i++) {
		if (t->jobs[i].id == st->next) {
			t->first = i;
		}
	}
	st->next = 0;
	jobs_go_on(r, t);
}

static void running_read(struct step *s)
{
	struct assign_pass *t = s->ctx;

	t->room.n = q_engine_running_rows(&s->req, s->r->arena, &t->room.rows);
	t->room.read_us = loop_mono_us(s->r->e->loop);
	t->room_read = true;
	if (t->done == NULL) {
		jobs_decide(s->r, t);
	} else {
		jobs_go_on(s->r, t);
	}
}

/* An answer that came from an older market is no answer: those groups are read in the next pass. */
static void market_read(struct recon *r, void *ctx)
{
	struct assign_pass *t = ctx;

	r->changed |= t->asks->n > 0 && t->version != r->e->offers.version;
	jobs_decide(r, t);
}

static void jobs_read(struct step *s);

static void jobs_ask(struct recon *r, struct assign_pass *t)
{
	struct assign_state *st = r->state;
	int64_t *blocked = NULL, *own = arena_array(r->arena, t->nodes_n + 1, sizeof(*own));
	size_t blocked_n = asks_blocked(&st->asks, r, st->moves, &blocked), own_n = 0, spare = 0;
	struct step *s = step_new(r, jobs_read, t);

	for (size_t i = 0; i < t->nodes_n; i++) {
		const struct q_engine_free_nodes_row *n = &t->nodes[i];

		if (n->has_job_id && !job_state_final(n->job_state)) {
			own[own_n++] = n->job_id;
		} else {
			spare++;
		}
	}
	st->own = own_n > 0;
	t->version = r->e->offers.version;
	STEP(s, engine_assign_jobs,
	    (&(struct q_engine_assign_jobs){ .head = HEAD_MOST,
		.slice = SLICE_MOST,
		.each = st->offering ? (int64_t)MIN(MAX(spare, 1), GROUP_MOST)
		    : st->placing    ? GROUP_MOST
				     : GROUP_LEAST,
		.after = st->after,
		.blocked = blocked,
		.blocked_n = st->offering ? 0 : blocked_n,
		.held = st->held.ids,
		.held_n = st->held.n,
		.own = own,
		.own_n = own_n,
		.spare = spare > 0,
		.at_us = engine_now(r->e),
		.end_us = budget_end_us(r->e),
		.next = st->next,
		.spec_bytes = SPEC_BYTES }));
}

/* A node that is free since the last look is offered to all groups, also blocked ones. */
static void nodes_keep(struct recon *r, struct assign_pass *t, struct step *s)
{
	struct assign_state *st = r->state;
	uint64_t h = HASH_START;

	t->nodes_n = q_engine_free_nodes_rows(&s->req, r->arena, &t->nodes);
	t->taken = arena_array(r->arena, t->nodes_n + 1, sizeof(*t->taken));
	t->room.free = t->nodes;
	t->room.free_n = t->nodes_n;
	t->nodes_read = true;
	for (size_t i = 0; i < t->nodes_n; i++) {
		const struct q_engine_free_nodes_row *n = &t->nodes[i];

		if (!n->has_job_id || job_state_final(n->job_state)) {
			h = hash_u64(h, (uint64_t)n->id);
		}
	}
	if (h != st->free_hash && h != HASH_START) {
		st->offering = true;
		st->after = -1;
	}
	st->free_hash = h;
	st->free_us = loop_mono_us(r->e->loop);
}

static void nodes_then_jobs(struct step *s)
{
	nodes_keep(s->r, s->ctx, s);
	jobs_ask(s->r, s->ctx);
}

static void nodes_then_market(struct step *s)
{
	nodes_keep(s->r, s->ctx, s);
	offers_need(s->r, market_read, s->ctx);
}

static void nodes_ask(struct recon *r, struct assign_pass *t, void (*then)(struct step *))
{
	struct step *s = step_new(r, then, t);

	STEP(s, engine_free_nodes, (&(struct q_engine_free_nodes){ .most = FREE_MOST }));
}

static void jobs_read(struct step *s)
{
	struct assign_pass *t = s->ctx;
	bool any = false;

	t->jobs_n = q_engine_assign_jobs_rows(&s->req, s->r->arena, &t->jobs);
	for (size_t i = 0; i < t->jobs_n; i++) {
		any |= t->jobs[i].state == JOB_QUEUED || !t->jobs[i].inflight;
	}
	if (!any) {
		slice_end(s->r, t);
		asks_tell(t->asks, s->r);
	} else if (!t->nodes_read) {
		nodes_ask(s->r, t, nodes_then_market);
	} else {
		offers_need(s->r, market_read, t);
	}
}

static bool look_due(const struct recon *r, int64_t last_us)
{
	int64_t pause = MIN(LOOK_US, LOOK_TICKS * r->e->conf.tick_us);

	return last_us == 0 || loop_mono_us(r->e->loop) - last_us >= pause;
}

static void market_looked_at(struct recon *r, void *ctx)
{
	const struct assign_state *st = r->state;
	struct assign_pass *t = ctx;

	if (st->own || (r->seen & TOUCH_MOVES) != 0 || look_due(r, st->free_us)) {
		nodes_ask(r, t, nodes_then_jobs);
	} else {
		jobs_ask(r, t);
	}
}

static void assign_pass(struct recon *r, void *state)
{
	struct assign_state *st = state;
	struct assign_pass *t = arena_alloc(r->arena, sizeof(*t));
	const struct offers *o = &r->e->offers;

	deadline_pass_begins(r->e);
	if (st->moves == 0) {
		st->after = -1;
		st->moves = 1;
	}
	st->moves += (r->seen & TOUCH_MOVES) != 0;
	t->room.held = &st->held;
	t->asks = &st->asks;
	t->moves = st->moves;
	t->ranked_ask = -1;
	/* Blocked groups wait for the market among others, and read none themselves. */
	if (st->asks.n > 0 && ((r->seen & TOUCH_MARKET) != 0 || look_due(r, o->read_us))) {
		offers_need(r, market_looked_at, t);
	} else {
		market_looked_at(r, t);
	}
}

static void assign_forget(void *state)
{
	struct assign_state *st = state;

	asks_drop(&st->asks);
}

const struct recon_kind assign_kind = { .name = "assign",
	.state_size = sizeof(struct assign_state),
	.wakes = TOUCH_JOB | TOUCH_MOVES | TOUCH_MARKET | TOUCH_CHECKPOINT,
	.pass = assign_pass,
	.lease_lost = assign_forget,
	.fini = assign_forget };
