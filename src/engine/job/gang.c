/*
 * Gangs: jobs of several nodes, all of them in one pool or none (core/place/gang.h). A gang has a
 * row before anything is sent. Its machines are nodes like others: launched (by one call where the
 * provider has one), enrolled, watched, billed and ended by the same reconcilers. Its states:
 *
 *   ACQUIRING  its nodes come. When all are ready, one statement assigns them: one attempt row per
 *              rank under one epoch. The gang is given up when it is incomplete after the hold, was
 *              refused as a whole, or is not needed any more. Then release.c ends its machines.
 *   SERVING    its job runs on it (gang_ranks.c). When the job waits again and all nodes are well,
 *              it begins again on them. An elastic gang may wait for a missing one (gang_wait.c).
 *              Otherwise the gang is given up and another is sought.
 *              For a planned move the other is sought while the job runs (move_back.c), and takes
 *              over when all of its machines are ready.
 *   RELEASED   over. Its nodes go.
 *
 * At most one gang acquires at a place (index gang_one_per_place), and holds are bounded in time,
 * so gangs cannot hold each other's halves for ever.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "core/money/money.h"
#include "engine/job/job_priv.h"
#include "engine/kernel/kernel.h"
#include "engine/place/place.h"

/* ---- giving up ------------------------------------------------------------------------------- */

static void gang_released(struct step *s)
{
	struct q_engine_gang_release_row *rows;

	if (q_engine_gang_release_rows(&s->req, s->r->arena, &rows) == 1) {
		offers_invalidate(s->r->e);
		log_info("gang.released", I64("gang", rows[0].id), STR("why", s->ctx));
	}
}

static void gang_release(struct recon *r, const struct q_engine_gangs_row *g, bool cool,
    const char *why)
{
	struct engine *e = r->e;
	struct step *s = step_new(r, gang_released, arena_strdup(r->arena, why));

	STEP(s, engine_gang_release,
	    (&(struct q_engine_gang_release){ .id = g->id,
		.was = g->state,
		.cool = cool,
		.why = why,
		.cool_min_us = e->conf.cool_min_us,
		.cool_max_us = e->conf.cool_max_us,
		.at_us = engine_now(e),
		.fence = r->epoch }));
}

/* ---- assigning ------------------------------------------------------------------------------- */

struct assign {
	const struct q_engine_gangs_row *g; /* want rows, one per rank */
	size_t n;
	const char **files;
	int64_t *restores; /* checkpoints; 0 = none */
	int64_t until_us; /* of the URLs */
};

static void gang_assigned(struct step *s)
{
	const struct assign *a = s->ctx;

	if (step_rows(s) > 0) {
		offers_invalidate(s->r->e);
		log_info("gang.placed", I64("job", a->g->job_id), I64("gang", a->g->id),
		    I64("epoch", a->g->job_epoch + 1), I64("nodes", (int64_t)a->n));
	}
}

static void assign_write(struct recon *r, struct assign *a)
{
	const struct q_engine_gangs_row *g = a->g;
	enum job_state next = job_next(g->job_id, g->job_state, JOB_EV_PLACED);
	struct q_engine_gang_assign_rank *ranks = arena_array(r->arena, a->n, sizeof(*ranks));
	struct step *s;

	if (next == JOB_NONE) {
		return;
	}
	for (size_t i = 0; i < a->n; i++) {
		ranks[i] = (struct q_engine_gang_assign_rank){ .node_id = g[i].node_id,
			.files = a->files[i],
			.has_restore_id = a->restores[i] != 0,
			.restore_id = a->restores[i] };
	}
	s = step_new(r, gang_assigned, a);
	STEP(s, engine_gang_assign,
	    (&(struct q_engine_gang_assign){ .job_id = g->job_id,
		.was = g->job_state,
		.epoch = g->job_epoch,
		.gang_id = g->id,
		.gang_was = g->state,
		.rank = ranks,
		.rank_n = a->n,
		.now = next,
		.event = JOB_EV_PLACED,
		.why = arena_printf(r->arena, "placed on %zu nodes, rank 0 on n%" PRId64 "%s", a->n,
		    g->node_id, g->has_checkpoint_id ? ", from its newest checkpoint" : ""),
		.has_checkpoint_id = g->has_checkpoint_id,
		.checkpoint_id = g->checkpoint_id,
		.steps_start = g->checkpoint_steps,
		.urls_until_us = a->until_us,
		.at_us = engine_now(r->e),
		.fence = r->epoch,
		.end_us = budget_end_us(r->e) }));
}

static void assign_files(struct files *f)
{
	struct assign *a = f->ctx;

	if (f->rc != SPOT_OK) {
		files_missing(f, a->g->job_state, a->g->job_epoch);
		return;
	}
	a->files = f->text;
	a->until_us = f->until_us;
	assign_write(f->r, a);
}

/* Each rank gets its own files back. */
static void assign_start(struct recon *r, struct assign *a)
{
	files_ask(r,
	    &(struct files){ .job_id = a->g->job_id,
		.mounts = a->g->mounts,
		.checkpoints = a->restores,
		.n = a->n,
		.then = assign_files,
		.ctx = a });
}

static void assign_parts(struct step *s)
{
	struct assign *a = s->ctx;
	struct q_engine_gang_parts_row *rows;
	size_t n = q_engine_gang_parts_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		if (rows[i].rank >= 0 && (size_t)rows[i].rank < a->n) {
			a->restores[rows[i].rank] = rows[i].checkpoint_id;
		}
	}
	for (size_t rank = 0; rank < a->n; rank++) {
		if (a->restores[rank] == 0) {
			log_error("gang.checkpoint", I64("job", a->g->job_id),
			    I64("rank", (int64_t)rank),
			    STR("error", "its part of the checkpoint is not there"));
			return;
		}
	}
	assign_start(s->r, a);
}

static void gang_assign(struct recon *r, const struct q_engine_gangs_row *g, size_t n)
{
	struct assign *a = arena_alloc(r->arena, sizeof(*a));
	struct step *s;

	*a = (struct assign){ .g = g, .n = n };
	a->restores = arena_array(r->arena, n, sizeof(*a->restores));
	if ((g->has_checkpoint_id || g->mounts) && !objects_ready(r->e)) {
		return; /* credentials are being renewed; a pass follows */
	}
	if (!g->has_checkpoint_id) {
		assign_start(r, a);
		return;
	}
	s = step_new(r, assign_parts, a);
	STEP(s, engine_gang_parts,
	    (&(struct q_engine_gang_parts){ .checkpoint_id = g->checkpoint_id }));
}

/* ---- acquiring ------------------------------------------------------------------------------- */

static void rank_refill(struct recon *r, const struct q_engine_gangs_row *g, int32_t rank,
    int64_t need_micros)
{
	char token[65], name[65];
	struct step *s = step_new(r, NULL, NULL);

	token_make(r->e, token, name);
	STEP(s, engine_gang_refill,
	    (&(struct q_engine_gang_refill){ .gang_id = g->id,
		.rank = rank,
		.token = token,
		.name = name,
		.why = arena_printf(r->arena,
		    "rank %d of gang g%" PRId64 " again: the others are held", (int)rank, g->id),
		.at_us = engine_now(r->e),
		.fence = r->epoch,
		.need_micros = need_micros,
		.end_us = budget_end_us(r->e) }));
}

/* The budget that more machines need. budget_left already excludes the reserve for the others. */
static int64_t need_again(const struct recon *r, const struct q_engine_gangs_row *g, size_t missing)
{
	const struct job_spec spec = { .checkpoint = { .budget_s = g->save_s } };

	return !g->has_budget_left || missing == 0
	    ? 0
	    : budget_need_again(MAX(g->price_micros, 0), g->want, missing, budget_end_us(r->e),
		  &spec);
}

static bool gang_queued(const struct q_engine_gangs_row *g)
{
	return g->job_state == JOB_QUEUED;
}

static void gang_acquire(struct recon *r, const struct q_engine_gangs_row *g, size_t n)
{
	struct gang_member *m = arena_array(r->arena, n, sizeof(*m));
	int64_t now = engine_now(r->e);
	struct gang_hold_out out;
	size_t gaps;
	bool paid;

	for (size_t i = 0; i < n; i++) {
		m[i] = (struct gang_member){ .rank = g[i].rank,
			.state = g[i].node_state,
			.launched_us = g[i].launched_us,
			.noticed = g[i].noticed };
	}
	gaps = gang_gaps(m, n);
	paid = !g->has_budget_left || g->budget_left >= need_again(r, g, gaps);
	gang_hold(r->arena,
	    &(struct gang_hold_in){ .want = g->want,
		.members = m,
		.members_n = n,
		.one_call = g->one_call,
		.wanted = !g->cancel &&
		    (gang_queued(g) || g->job_state == JOB_DRAINING ||
			(g->moves && g->job_state == JOB_RUNNING)),
		.queued = gang_queued(g) && !g->live,
		.now_us = now,
		.hold_us = clock_span_us(r->e, r->e->conf.gang_hold_us),
		.last_lost_us = g->last_lost_us > now ? 0 : g->last_lost_us,
		.unpaid = paid ? NULL
			       : arena_printf(r->arena,
				     "its job's budget, of which %s are left, does not pay for "
				     "another machine",
				     budget_words(r->arena, g->budget_left, g->budget_micros)) },
	    &out);
	switch (out.what) {
	case GANG_START:
		gang_assign(r, g, n);
		break;
	case GANG_REFILL:
		for (size_t i = 0; i < out.missing_n; i++) {
			rank_refill(r, g, out.missing[i], need_again(r, g, 1));
		}
		break;
	case GANG_GIVE_UP:
		gang_release(r, g, out.cool, out.why);
		break;
	case GANG_WAIT:
		break;
	}
	if (out.again_us > 0) {
		recon_later(r, MAX(out.again_us - now, INT64_C(1000)));
	}
}

static void gang_serve(struct recon *r, const struct q_engine_gangs_row *g, size_t n)
{
	bool well = true;

	if (gang_stands_by(r, g, n) || g->live) {
		return;
	}
	for (size_t i = 0; i < n; i++) {
		well &= g[i].node_state == NODE_READY && !g[i].noticed;
	}
	if (!gang_queued(g) || g->cancel) {
		if (job_state_final(g->job_state) || g->cancel) {
			gang_release(r, g, false, "its job is over");
		} else if (g->job_state == JOB_PARKED) {
			gang_release(r, g, false, "its job's budget is used up");
		}
	} else if (g->better) {
		gang_release(r, g, false, "its job moves to other machines, which are ready");
	} else if (well) {
		gang_assign(r, g, n);
	} else {
		gang_release(r, g, false,
		    g->wait_over ? g->wait_why : "not all of its machines are there any more");
	}
}

static void gangs_in(struct step *s)
{
	struct q_engine_gangs_row *rows;
	size_t n = q_engine_gangs_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n;) {
		size_t want = (size_t)rows[i].want;

		if (i + want > n) {
			break; /* beyond one read: the next pass's */
		}
		if (rows[i].state == GANG_ACQUIRING) {
			gang_acquire(s->r, &rows[i], want);
		} else {
			gang_serve(s->r, &rows[i], want);
		}
		i += want;
	}
}

static void gang_pass(struct recon *r, void *state)
{
	struct step *s = step_new(r, gangs_in, NULL);

	(void)state;
	STEP(s, engine_gangs,
	    (&(struct q_engine_gangs){ .at_us = engine_now(r->e), .end_us = budget_end_us(r->e) }));
}

const struct recon_kind gang_kind = { .name = "gang", .idle_ticks = 10, .pass = gang_pass };
