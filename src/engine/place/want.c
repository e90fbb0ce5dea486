/* Wants a node for a job that has none: chooses the pool, or records why the job waits. */
#include "base/base.h"
#include "engine/place/place_priv.h"

/* Steps that count as done. A job that has stopped goes on from its checkpoint, so only saved steps
 * count. */
static int64_t steps_kept(const struct q_engine_assign_jobs_row *j)
{
	if (j->state != JOB_QUEUED) {
		return j->steps_done;
	}
	if (!j->has_checkpoint_id) {
		return 0;
	}
	return j->checkpoint_steps > 0 ? MIN(j->steps_done, j->checkpoint_steps) : j->steps_done;
}

struct job_facts facts_make(const struct q_engine_assign_jobs_row *j)
{
	return (struct job_facts){
		.id = j->id,
		.epoch = j->epoch,
		.state = j->state,
		.name = j->name,
		.spec_json = j->spec,
		.deadline_us = j->has_deadline_us ? j->deadline_us : 0,
		.created_us = j->created_us,
		/* A draining job waits for its next place since then. */
		.queued_us = j->state == JOB_QUEUED ? j->queued_us : j->state_us,
		.steps_done = steps_kept(j),
		.steps_total = j->steps_total,
		.checkpoint_bytes = j->checkpoint_bytes,
		.save_us = j->save_us,
		.has_checkpoint = j->has_checkpoint_id,
		.not_before_us = j->not_before_us,
		.rates = j->rates,
		.restart_us = j->has_restart_us ? j->restart_us : 0,
		.nodes = j->num_nodes,
		.has_budget = j->has_budget_micros,
		.budget_micros = j->budget_micros,
		.budget_left = j->budget_left,
	};
}

/* For a job that quotas block: preempts others, and holds the room that is expected next, with the
 * room of victims until all have left. Takes out offers with room held for another job. Returns
 * false when the job waits. */
static bool room_make(struct recon *r, struct assign_pass *t, const struct job_facts *f,
    struct placing *p)
{
	const char *held;

	if (p->usable == 0 && f->state == JOB_QUEUED) {
		bool made = preempt_for_quota(r, &t->room, f, p);

		room_hold(r, &t->room, f, p);
		return !made;
	}
	held = room_filter(r, &t->room, f, p);
	if (held != NULL) {
		wait_write(r, f, p, held, 0);
	}
	return held == NULL;
}

/* Carries a choice out. A job that takes room held for another is backfill. */
static void choice_act(struct recon *r, struct assign_pass *t, const struct job_facts *f,
    const struct placing *p, const struct place_choice *c)
{
	if (c->act == PLACE_SHORT) {
		budget_short(r, f, p);
	} else if (c->act == PLACE_TAKE) {
		bool backfill = c->patient && room_take(r, &t->room, f, c->score);

		place_want(r, f, p, c->score, 0, backfill ? "backfill" : c->kind, c->why);
	} else {
		wait_write(r, f, p, c->why, c->until_us);
		engine_later(r->e, MAX(c->until_us - engine_now(r->e), SPOT_US_PER_S / 4));
	}
}

/* True when no pool has suited the job for long enough, and none could. */
static bool job_infeasible(struct recon *r, const struct q_engine_assign_jobs_row *j,
    const struct job_facts *f, const struct placing *p)
{
	struct engine *e = r->e;
	struct place_in in = place_in(r);

	return p->ranking.usable == 0 && e->offers.n > 0 && j->state == JOB_QUEUED &&
	    engine_now(e) - f->queued_us > clock_span_us(e, e->conf.infeasible_us) &&
	    !placement_suits(&in, p->spec);
}

void job_want(struct recon *r, struct assign_pass *t, const struct q_engine_assign_jobs_row *j)
{
	struct job_facts f = facts_make(j);
	struct place_choice c;
	struct place_in in;
	struct placing p;

	if (!place_rank(r, &f, &p)) {
		return;
	}
	if (job_infeasible(r, j, &f, &p)) {
		job_event(r, f.id, f.state, f.epoch, JOB_EV_INFEASIBLE, "infeasible",
		    "no pool of any provider suits what the job asks for");
		return;
	}
	if (p.dear > 0 && p.usable == 0) {
		budget_short(r, &f, &p);
		return;
	}
	if (!room_make(r, t, &f, &p)) {
		return;
	}
	in = place_in(r);
	switch (placement_begin(&in, &f, &p, &c)) {
	case PLACE_HOURS:
		defer_ask(r, &f, &p);
		return;
	case PLACE_WORDS:
		deadline_ask(r, &f, &p, &(struct deadline_held){ .act = POLICY_WAIT });
		return;
	case PLACE_DECIDED:
		choice_act(r, t, &f, &p, &c);
		return;
	}
}
