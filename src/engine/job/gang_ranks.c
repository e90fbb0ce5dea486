/* The ranks of running gangs. A set of checkpoints becomes whole when all ranks have it; a rank
 * whose node is over is lost. Then the state of all ranks together (core/place/gang.h) becomes an
 * order to the agents or the job's next state. One statement per job. */
#include "base/base.h"
#include "engine/job/job.h"
#include "engine/kernel/kernel.h"
#include "engine/place/place.h"

static void rank_mark_lost(struct recon *r, const struct q_engine_gang_ranks_row *w,
    const int32_t *ranks, size_t n)
{
	struct step *s = step_new(r, NULL, NULL);

	log_info("gang.ranks_lost", I64("job", w->job_id), I64("epoch", w->epoch),
	    I64("ranks", (int64_t)n));
	STEP(s, engine_gang_lost,
	    (&(struct q_engine_gang_lost){ .job_id = w->job_id,
		.epoch = w->epoch,
		.ranks = ranks,
		.ranks_n = n,
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
}

static void ranks_tell(struct recon *r, const struct q_engine_gang_ranks_row *w,
    const struct gang_verdict *v)
{
	enum job_state next = job_next(w->job_id, w->job_state, v->event);
	struct step *s;

	if (next == JOB_NONE) {
		return;
	}
	log_info("gang.told", I64("job", w->job_id), I64("epoch", w->epoch),
	    STR("desired", v->desired), STR("why", v->why));
	s = step_new(r, NULL, NULL);
	STEP(s, engine_gang_tell,
	    (&(struct q_engine_gang_tell){ .job_id = w->job_id,
		.epoch = w->epoch,
		.was = w->job_state,
		.now = next,
		.event = v->event,
		.desired = v->desired,
		.why = v->why,
		.has_deadline_us = v->deadline_us > 0,
		.deadline_us = v->deadline_us,
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
}

static void epoch_settle(struct recon *r, const struct q_engine_gang_ranks_row *w,
    const struct gang_verdict *v)
{
	enum job_state next = job_next(w->job_id, w->job_state, v->event);
	struct step *s;

	if (next == JOB_NONE) {
		return;
	}
	log_info("gang.settled", I64("job", w->job_id), I64("epoch", w->epoch),
	    STR("event", job_event_name(v->event)), STR("now", job_state_name(next)),
	    STR("why", v->why));
	s = step_new(r, NULL, NULL);
	STEP(s, engine_gang_settle,
	    (&(struct q_engine_gang_settle){ .job_id = w->job_id,
		.epoch = w->epoch,
		.was = w->job_state,
		.now = next,
		.event = v->event,
		.why = v->why,
		.reason = v->reason,
		.retry = v->retry,
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
}

static void epoch_act(struct recon *r, const struct q_engine_gang_ranks_row *w,
    const struct gang_verdict *v)
{
	struct step *s;

	switch (v->act) {
	case GANG_TELL:
		ranks_tell(r, w, v);
		break;
	case GANG_BEGUN:
		job_event(r, w->job_id, w->job_state, w->epoch, v->event, "", v->why);
		break;
	case GANG_SETTLE:
		epoch_settle(r, w, v);
		break;
	case GANG_SHUT:
		s = step_new(r, NULL, NULL);
		STEP(s, engine_gang_shut,
		    (&(struct q_engine_gang_shut){ .job_id = w->job_id,
			.epoch = w->epoch,
			.at_us = engine_now(r->e),
			.fence = r->epoch }));
		break;
	case GANG_LEAVE:
		break;
	}
}

static struct gang_rank rank_make(const struct q_engine_gang_ranks_row *w)
{
	return (struct gang_rank){ .rank = w->rank,
		.node = w->node_state,
		.node_id = w->node_id,
		.node_deadline_us = w->has_node_deadline_us ? w->node_deadline_us : 0,
		.noticed = w->noticed,
		.node_why = w->node_why,
		.desired = w->desired,
		.phase = w->phase,
		.ended = w->ended,
		.exit_reason = w->exit_reason,
		.exit_said = w->said,
		.exit_code = w->has_exit_code ? w->exit_code : 0,
		.exit_signal = w->has_exit_signal ? w->exit_signal : 0,
		.deadline_us = w->has_deadline_us ? w->deadline_us : 0 };
}

static bool node_over(enum node_state s)
{
	return s == NODE_TERMINATING || s == NODE_GONE || s == NODE_FAILED;
}

/* The rows of one epoch of one job. */
static void epoch_judge(struct recon *r, const struct q_engine_gang_ranks_row *w, size_t n)
{
	struct gang_rank *ranks = arena_array(r->arena, n, sizeof(*ranks));
	int32_t *lost = arena_array(r->arena, n, sizeof(*lost));
	size_t lost_n = 0;
	struct gang_verdict v;

	for (size_t i = 0; i < n; i++) {
		ranks[i] = rank_make(&w[i]);
		if (!ranks[i].ended && node_over(ranks[i].node)) {
			lost[lost_n++] = ranks[i].rank;
		}
	}
	if (lost_n > 0) {
		rank_mark_lost(r, w, lost, lost_n);
		return; /* the next pass sees them as ended */
	}
	gang_judge(r->arena,
	    &(struct gang_run){ .job = w->job_state,
		.current = w->epoch == w->job_epoch,
		.cancel = w->cancel,
		.overtime = clock_ran_out(r->e, w->ran_us, w->most_us),
		.over_budget = w->over_budget,
		.budget_why = budget_why(r->arena, w->spent_micros, w->budget_micros),
		.restarts = w->restarts,
		.max_restarts = w->max_restarts,
		.ranks = ranks,
		.n = n },
	    &v);
	epoch_act(r, w, &v);
}

static void ranks_in(struct step *s)
{
	struct q_engine_gang_ranks_row *rows;
	size_t n = q_engine_gang_ranks_rows(&s->req, s->r->arena, &rows), from = 0;

	for (size_t i = 1; i <= n; i++) {
		if (i == n || rows[i].job_id != rows[from].job_id ||
		    rows[i].epoch != rows[from].epoch) {
			epoch_judge(s->r, &rows[from], i - from);
			from = i;
		}
	}
}

struct gang_ranks {
	int64_t budget_next_us; /* mono: budgets are checked again then */
};

/* After the sets: an epoch that ends must find its last set marked. */
static void sets_marked(struct step *s)
{
	struct gang_ranks *g = s->r->state;
	struct step *next = step_new(s->r, ranks_in, NULL);

	STEP(next, engine_gang_ranks,
	    (&(struct q_engine_gang_ranks){ .at_us = engine_now(s->r->e),
		.look = budget_due(s->r->e, &g->budget_next_us),
		.end_us = budget_end_us(s->r->e) }));
}

static void gang_ranks_pass(struct recon *r, void *state)
{
	struct step *s = step_new(r, sets_marked, NULL);

	(void)state;
	STEP(s, engine_gang_sets,
	    (&(struct q_engine_gang_sets){ .at_us = engine_now(r->e), .fence = r->epoch }));
}

const struct recon_kind gang_ranks_kind = { .name = "gang_ranks",
	.idle_ticks = 10,
	.state_size = sizeof(struct gang_ranks),
	.pass = gang_ranks_pass };
