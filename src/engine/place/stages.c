/* One waiting job, stage by stage: may it run at all, is a ready machine its own, and else which
 * pool gets one for it. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/money/money.h"
#include "engine/place/place_priv.h"

/* Files that cannot be signed: the object store is asked again. */
#define MOUNTS_US (5 * SPOT_US_PER_S)

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
		ask_block(r, t, j, err.text, loop_mono_us(r->e->loop) + MOUNTS_US, 0);
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
	ask_block(r, t, w->row, "it begins later", loop_mono_us(r->e->loop) + left, 0);
	return true;
}

/* The engine chooses a fleet of its team first (launch/fleet_any.c). */
static bool fleet_unchosen(struct recon *r, struct assign_pass *t, struct waiting *w)
{
	if (!w->row->fleet_open) {
		return false;
	}
	if (w->queued) {
		ask_block(r, t, w->row, "no fleet of its team has room", INT64_MAX, 0);
	}
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

static bool held_before(const struct assign_pass *t, int64_t job_id)
{
	for (size_t i = 0; i < t->was->n; i++) {
		if (t->was->ids[i] == job_id) {
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

	return a != NULL && ask_holds(a, r->e, t->moves) && !held_before(t, w->row->id);
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
			ask_block(r, t, j, "no machine of its fleet is free", INT64_MAX,
			    BLOCK_MOVES);
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
	fleet_unchosen,
	node_bound,
	ask_answered,
	node_sought,
};

void job_decide(struct recon *r, struct assign_pass *t, const struct q_engine_assign_jobs_row *j)
{
	struct waiting w = { .row = j, .queued = j->state == JOB_QUEUED };

	for (size_t i = 0; i < ARRAY_LEN(stages) && !stages[i](r, t, &w); i++) {
	}
}

void ask_block(struct recon *r, struct assign_pass *t, const struct q_engine_assign_jobs_row *j,
    const char *why, int64_t until_us, unsigned by)
{
	const struct engine *e = r->e;
	bool moves = (by & BLOCK_MOVES) != 0;
	int64_t most = asks_last_us(t->asks, e, (by & BLOCK_STILL) != 0);

	if (moves) { /* a victim may be preempted again by then */
		most = MIN(most, MAX(e->conf.schedule.preempt_hold_us / 8, e->conf.tick_us));
	}
	if (j->has_budget_micros) {
		most = MIN(most, e->conf.budget_look_us);
	}
	asks_block(t->asks, j->ask,
	    &(struct ask_answer){ .version = (by & BLOCK_MARKET) != 0 ? e->offers.version : 0,
		.moves = moves ? t->moves : 0,
		.until_us = MIN(until_us, loop_mono_us(e->loop) + most) },
	    why);
}
