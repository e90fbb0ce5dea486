/* Attempts against their nodes and jobs. Notices become drains; drains and cancellations reach the
 * agent as the attempt's `desired`; ended or lost attempts become the job's next state. */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/job/job.h"
#include "engine/kernel/kernel.h"
#include "engine/place/place.h"

/* ---- notices ------------------------------------------------------------------------------------
 */

/* The pool cools from now on; a read of the market that was sent before does not show it. */
static void notice_handled(struct step *s)
{
	offers_invalidate(s->r->e);
}

static void notice_one(struct recon *r, const struct q_engine_notices_due_row *o)
{
	struct engine *e = r->e;
	bool takes = spot_notice_parse(o->kind) != SPOT_NOTICE_REBALANCE;
	bool moves = takes &&
	    (o->state == NODE_BOOTING || o->state == NODE_READY || o->state == NODE_DRAINING);
	bool first = moves && o->state != NODE_DRAINING;
	enum node_state next = moves ? node_next(o->node_id, o->state, NODE_EV_NOTICE) : NODE_NONE;
	/* 0: the source gave no time. */
	int64_t deadline =
	    o->deadline_us > 0 ? o->deadline_us : o->heard_us + e->conf.notice_default_us;
	char left[32];
	struct step *s;

	/* A launch whose reply is still out: the row must become BOOTING first. */
	if (takes && (o->state == NODE_LAUNCHING || o->state == NODE_UNKNOWN)) {
		return;
	}
	format_duration(MAX(deadline - engine_now(e), 0), left);
	if (first) {
		offers_invalidate(e);
	}
	log_info("node.notice", I64("node", o->node_id), STR("kind", o->kind),
	    STR("source", o->source), DUR("left", deadline - engine_now(e)));
	s = step_new(r, first ? notice_handled : NULL, NULL);
	STEP(s, engine_notice_handle,
	    (&(struct q_engine_notice_handle){ .node_id = o->node_id,
		.kind = o->kind,
		.was = o->state,
		.now = next,
		.event = NODE_EV_NOTICE,
		.why = arena_printf(r->arena, "%s notice (%s), %s left", o->kind, o->source, left),
		.deadline_us = deadline,
		.cool_until_us =
		    first && strcmp(o->kind, "interruption") == 0 && spot_market_reclaims(o->market)
		    ? engine_now(e) + e->conf.reclaim_cool_us
		    : 0,
		.at_us = engine_now(e),
		.day = engine_day(e),
		.fence = r->epoch }));
}

static void notices_due(struct step *s)
{
	struct q_engine_notices_due_row *rows;
	size_t n = q_engine_notices_due_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		notice_one(s->r, &rows[i]);
	}
}

/* ---- telling the agent
 * ----------------------------------------------------------------------------- */

static void attempt_tell(struct recon *r, const struct q_engine_attempts_odd_row *w,
    enum job_event ev, const char *desired, const char *why, bool deadline)
{
	enum job_state next = job_next(w->job_id, w->job_state, ev);
	struct step *s;

	if (next == JOB_NONE) {
		return;
	}
	log_info("attempt.told", I64("job", w->job_id), I64("epoch", w->epoch),
	    STR("desired", desired), STR("why", why));
	s = step_new(r, NULL, NULL);
	STEP(s, engine_attempt_tell,
	    (&(struct q_engine_attempt_tell){ .job_id = w->job_id,
		.epoch = w->epoch,
		.was = w->job_state,
		.now = next,
		.event = ev,
		.desired = desired,
		.why = why,
		.has_deadline_us = deadline && w->has_node_deadline_us,
		.deadline_us = w->node_deadline_us,
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
}

static void job_settle(struct recon *r, int64_t job_id, int32_t epoch, enum job_state state,
    enum job_event ev, const char *why, const char *reason, bool lost)
{
	enum job_state next = job_next(job_id, state, ev);
	struct step *s;

	if (next == JOB_NONE) {
		return;
	}
	log_info("attempt.settled", I64("job", job_id), I64("epoch", epoch),
	    STR("event", job_event_name(ev)), STR("now", job_state_name(next)), STR("why", why));
	s = step_new(r, NULL, NULL);
	STEP(s, engine_attempt_settle,
	    (&(struct q_engine_attempt_settle){ .job_id = job_id,
		.epoch = epoch,
		.was = state,
		.now = next,
		.event = ev,
		.why = why,
		.reason = reason,
		.retry = ev == JOB_EV_RETRY,
		.lost = lost,
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
}

static void attempt_close(struct recon *r, int64_t job_id, int32_t epoch, bool lost)
{
	struct step *s = step_new(r, NULL, NULL);

	STEP(s, engine_attempt_shut,
	    (&(struct q_engine_attempt_shut){ .job_id = job_id,
		.epoch = epoch,
		.lost = lost,
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
}

static void attempt_adjust(struct recon *r, const struct q_engine_attempts_odd_row *w)
{
	enum job_state job = w->job_state;
	enum node_state node = w->node_state;
	bool ended = node == NODE_TERMINATING || node == NODE_GONE || node == NODE_FAILED;

	if (w->epoch != w->job_epoch || job_state_final(job)) {
		if (ended) {
			attempt_close(r, w->job_id, w->epoch, true);
		}
	} else if (ended) {
		job_settle(r, w->job_id, w->epoch, w->job_state, JOB_EV_NODE_LOST,
		    arena_printf(r->arena, "n%" PRId64 " is lost: %s", w->node_id, w->node_why), "",
		    true);
	} else if (w->cancel && strcmp(w->desired, "kill") != 0 && job != JOB_CANCELLING) {
		attempt_tell(r, w, JOB_EV_CANCEL, "kill", "cancelled", false);
	} else if (node == NODE_DRAINING && job != JOB_CANCELLING) {
		attempt_tell(r, w, w->noticed || job == JOB_DRAINING ? JOB_EV_NOTICE : JOB_EV_MOVE,
		    "drain", w->node_why, true);
	} else if (clock_ran_out(r->e, w->ran_us, w->most_us) && strcmp(w->desired, "run") == 0 &&
	    job != JOB_CANCELLING) {
		attempt_tell(r, w, JOB_EV_OVERTIME, "drain", "max_duration is over", false);
	} else if (w->over_budget && job != JOB_CANCELLING && job != JOB_DRAINING) {
		attempt_tell(r, w, JOB_EV_BUDGET, "drain",
		    budget_why(r->arena, w->spent_micros, w->budget_micros), false);
	} else if (job == JOB_STARTING &&
	    (w->phase == ATTEMPT_RUNNING || w->phase == ATTEMPT_SAVING)) {
		job_event(r, w->job_id, w->job_state, w->epoch, JOB_EV_STARTED, "",
		    arena_printf(r->arena, "runs on n%" PRId64, w->node_id));
	}
}

static void attempts_adjust(struct step *s)
{
	struct q_engine_attempts_odd_row *rows;
	size_t n = q_engine_attempts_odd_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		attempt_adjust(s->r, &rows[i]);
	}
}

/* ---- ends
 * -----------------------------------------------------------------------------------------------
 */

static const char *exit_reason(struct recon *r, const struct q_engine_attempts_ended_row *w)
{
	if (w->has_exit_signal && w->exit_signal != 0) {
		return arena_printf(r->arena, "%s: killed by signal %d", w->exit_reason,
		    (int)w->exit_signal);
	}
	if (!w->has_exit_code) {
		return w->said[0] != '\0' ? arena_strdup(r->arena, w->said)
					  : arena_strdup(r->arena, w->exit_reason);
	}
	return arena_printf(r->arena, "%s: exit code %d", w->exit_reason, (int)w->exit_code);
}

static void attempt_settle(struct recon *r, const struct q_engine_attempts_ended_row *w)
{
	enum job_state job = w->job_state;
	enum job_event ev;
	const char *why, *reason = "";

	if (w->epoch != w->job_epoch || job_state_final(job) || job == JOB_QUEUED ||
	    job == JOB_PARKED) {
		attempt_close(r, w->job_id, w->epoch, false);
		return;
	}
	if (strcmp(w->exit_reason, "ok") == 0) {
		ev = JOB_EV_EXITED_OK;
		why = "finished";
	} else if (strcmp(w->exit_reason, "lost") == 0) {
		ev = JOB_EV_NODE_LOST;
		why = "its node was lost";
	} else if (job == JOB_CANCELLING) {
		ev = JOB_EV_KILLED;
		why = "stopped by request";
	} else if (strcmp(w->exit_reason, "drained") == 0 || strcmp(w->desired, "run") != 0) {
		/* It was told to stop, and it stopped, however gracefully: the newest committed
		 * checkpoint counts. */
		ev = JOB_EV_STOPPED;
		why = w->drain_why[0] != '\0' ? arena_printf(r->arena, "stopped (%s)", w->drain_why)
					      : "stopped";
	} else if (w->restarts < w->max_restarts) {
		ev = JOB_EV_RETRY;
		why = arena_printf(r->arena, "%s; restart %d of %" PRId64, exit_reason(r, w),
		    (int)w->restarts + 1, w->max_restarts);
	} else {
		ev = JOB_EV_EXITED_BAD;
		why = exit_reason(r, w);
		reason = w->exit_reason;
	}
	job_settle(r, w->job_id, w->epoch, w->job_state, ev, why, reason, false);
}

static void attempts_ended(struct step *s)
{
	struct q_engine_attempts_ended_row *rows;
	size_t n = q_engine_attempts_ended_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		attempt_settle(s->r, &rows[i]);
	}
}

static void jobs_idle(struct step *s)
{
	struct q_engine_jobs_idle_row *rows;
	size_t n = q_engine_jobs_idle_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		enum job_event ev = rows[i].state == JOB_CANCELLING ? JOB_EV_KILLED : JOB_EV_CANCEL;

		if (!rows[i].cancel) {
			job_event(s->r, rows[i].id, rows[i].state, rows[i].epoch, JOB_EV_FUNDED, "",
			    rows[i].has_left_micros
				? arena_printf(s->r->arena,
				      "%.4f USD of its budget are left: it is placed again",
				      (double)rows[i].left_micros / 1e6)
				: "its budget was lifted: it is placed again");
			continue;
		}
		job_event(s->r, rows[i].id, rows[i].state, rows[i].epoch, ev, "cancelled",
		    "cancelled");
	}
}

struct drain {
	int64_t jobs_next_us, parked_next_us; /* mono: budgets are checked again then */
};

static void drain_pass(struct recon *r, void *state)
{
	struct drain *d = state;
	struct step *s = step_new(r, notices_due, NULL);

	recon_later(r, r->e->conf.budget_look_us); /* a promise of budget_end_us() */
	STEP(s, engine_notices_due, NULL);
	s = step_new(r, attempts_ended, NULL);
	STEP(s, engine_attempts_ended, NULL);
	s = step_new(r, attempts_adjust, NULL);
	STEP(s, engine_attempts_odd,
	    (&(struct q_engine_attempts_odd){ .at_us = engine_now(r->e),
		.look = budget_due(r->e, &d->jobs_next_us),
		.end_us = budget_end_us(r->e) }));
	s = step_new(r, jobs_idle, NULL);
	STEP(s, engine_jobs_idle,
	    (&(struct q_engine_jobs_idle){ .look = budget_due(r->e, &d->parked_next_us),
		.now_us = engine_now(r->e),
		.end_us = budget_end_us(r->e) }));
}

const struct recon_kind drain_kind = { .name = "drain",
	.idle_ticks = 10,
	.state_size = sizeof(struct drain),
	.pass = drain_pass };
