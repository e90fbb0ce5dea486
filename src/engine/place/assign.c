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
	int64_t budgets_us; /* mono: when budgets of machines on their way were last looked at */
	bool own; /* some of them waited for their jobs */
	bool placing; /* the last pass found places */
	bool offering; /* free nodes are being offered to all groups */
	bool offer_again; /* and others came free since: one more round follows */
	bool room_first; /* the room must be older than the market (preempt.c) */
	bool numbered; /* every waiting job has the number of its ask */
};

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
 * slice is followed by the next at once; behind the last one a pass waits for a change. A round
 * that offers free nodes ends before the next begins, or late groups would wait for ever. */
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
	if (t->offered && st->after < 0) {
		st->offering = st->offer_again;
		st->offer_again = false;
	}
	r->changed |= st->after >= 0 || st->offering;
}

static void pass_end(struct recon *r, struct assign_pass *t, int64_t version)
{
	struct assign_state *st = r->state;

	asks_count(&st->asks, version, r->e->offers.version);
	asks_tell(t->asks, r);
	st->placing = t->wanted > 0;
	st->room_first = t->room.stale;
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

static void jobs_decide(struct recon *r, struct assign_pass *t)
{
	struct assign_state *st = r->state;

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

/* An answer that came from an older market is no answer: those groups are read in the next pass. */
static void market_read(struct recon *r, void *ctx)
{
	struct assign_pass *t = ctx;

	r->changed |= t->asks->n > 0 && t->version != r->e->offers.version;
	jobs_decide(r, t);
}

/* The market may be another than before the room was read. Its offers stay until the pass ends. */
static void market_read_again(struct recon *r, void *ctx)
{
	jobs_go_on(r, ctx);
}

static void jobs_go(struct recon *r, struct assign_pass *t);

static void running_read(struct step *s)
{
	const struct assign_state *st = s->r->state;
	struct assign_pass *t = s->ctx;

	t->room.n = q_engine_running_rows(&s->req, s->r->arena, &t->room.rows);
	t->room.read_us = loop_mono_us(s->r->e->loop);
	t->room_read = true;
	if (st->room_first) {
		offers_invalidate(s->r->e);
	}
	if (t->done == NULL) {
		jobs_go(s->r, t);
	} else {
		offers_need(s->r, market_read_again, t);
	}
}

static void jobs_read(struct step *s);

/* A job whose machine is on its way is read for its budget this often. */
static bool budgets_due(const struct recon *r)
{
	struct assign_state *st = r->state;
	int64_t now = loop_mono_us(r->e->loop);

	if (st->budgets_us != 0 && now - st->budgets_us < r->e->conf.budget_look_us) {
		return false;
	}
	st->budgets_us = now;
	return true;
}

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
	t->offered = st->offering;
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
		.budgets = budgets_due(r),
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
		st->offer_again = st->offering;
		st->after = st->offering ? st->after : -1;
		st->offering = true;
	}
	st->free_hash = h;
	st->free_us = loop_mono_us(r->e->loop);
}

static void nodes_then_jobs(struct step *s)
{
	nodes_keep(s->r, s->ctx, s);
	jobs_ask(s->r, s->ctx);
}

static bool job_read(const struct assign_pass *t, int64_t job_id)
{
	for (size_t i = 0; i < t->jobs_n; i++) {
		if (t->jobs[i].id == job_id) {
			return true;
		}
	}
	return false;
}

/* The jobs were read before the nodes. A fleet's node may wait for a job that is not among them,
 * such as one that made another job leave. The next pass reads that job. */
static void nodes_leave(struct recon *r, struct assign_pass *t)
{
	struct assign_state *st = r->state;

	for (size_t i = 0; i < t->nodes_n; i++) {
		const struct q_engine_free_nodes_row *n = &t->nodes[i];

		if (n->has_fleet_id && n->has_job_id && n->job_state == JOB_QUEUED &&
		    !job_read(t, n->job_id)) {
			t->taken[i] = st->own = r->changed = true;
		}
	}
}

static void nodes_then_market(struct step *s)
{
	nodes_keep(s->r, s->ctx, s);
	nodes_leave(s->r, s->ctx);
	offers_need(s->r, market_read, s->ctx);
}

static void nodes_ask(struct recon *r, struct assign_pass *t, void (*then)(struct step *))
{
	struct step *s = step_new(r, then, t);

	STEP(s, engine_free_nodes,
	    (&(struct q_engine_free_nodes){ .most = FREE_MOST, .at_us = engine_now(r->e) }));
}

/* Reads what the jobs are decided by: the room first if one needs it, then free nodes, then the
 * market. */
static void jobs_go(struct recon *r, struct assign_pass *t)
{
	const struct assign_state *st = r->state;

	if ((st->held.n > 0 || st->room_first) && !t->room_read) {
		running_ask(r, t);
	} else if (!t->nodes_read) {
		nodes_ask(r, t, nodes_then_market);
	} else {
		offers_need(r, market_read, t);
	}
}

static void jobs_read(struct step *s)
{
	struct assign_state *st = s->r->state;
	struct assign_pass *t = s->ctx;
	bool any = false;

	t->jobs_n = q_engine_assign_jobs_rows(&s->req, s->r->arena, &t->jobs);
	for (size_t i = 0; i < t->jobs_n; i++) {
		any |= t->jobs[i].state == JOB_QUEUED || !t->jobs[i].inflight;
	}
	if (any) {
		jobs_go(s->r, t);
	} else {
		st->room_first = false;
		slice_end(s->r, t);
		asks_tell(t->asks, s->r);
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

/* A daemon of before 0039 has numbered no asks. They are numbered in pages, before any job is
 * placed: jobs without a number would count as one group. */
#define NUMBER_MOST 5000

static void asks_numbered(struct step *s)
{
	struct assign_state *st = s->r->state;

	st->numbered = pg_rows(s->req.result) < NUMBER_MOST;
	s->r->changed = true;
}

static void asks_number(struct recon *r)
{
	struct step *s = step_new(r, asks_numbered, NULL);

	STEP(s, engine_ask_number,
	    (&(struct q_engine_ask_number){ .most = NUMBER_MOST, .fence = r->epoch }));
}

static void assign_pass(struct recon *r, void *state)
{
	struct assign_state *st = state;
	struct assign_pass *t = arena_alloc(r->arena, sizeof(*t));
	bool moved = (r->seen & TOUCH_MOVES) != 0;

	if (!st->numbered) {
		asks_number(r);
		return;
	}
	deadline_pass_begins(r->e);
	if (st->moves == 0) {
		st->after = -1;
		st->moves = 1;
	}
	if (moved && asks_move(&st->asks)) {
		offers_invalidate(r->e); /* the move may have freed a quota */
	}
	st->moves += moved;
	t->room.held = &st->held;
	t->asks = &st->asks;
	t->was = &st->was;
	t->moves = st->moves;
	t->ranked_ask = -1;
	/* Blocked groups wait for the market among others, and read none themselves. */
	if (st->asks.n > 0 &&
	    ((r->seen & TOUCH_MARKET) != 0 || look_due(r, r->e->offers.read_us))) {
		offers_need(r, market_looked_at, t);
	} else {
		market_looked_at(r, t);
	}
}

static void assign_forget(void *state)
{
	struct assign_state *st = state;

	asks_drop(&st->asks);
	st->numbered = false;
}

const struct recon_kind assign_kind = { .name = "assign",
	.state_size = sizeof(struct assign_state),
	.idle_ticks = 10,
	.wakes = TOUCH_JOB | TOUCH_MOVES | TOUCH_MARKET | TOUCH_CHECKPOINT,
	.pass = assign_pass,
	.lease_lost = assign_forget,
	.fini = assign_forget };
