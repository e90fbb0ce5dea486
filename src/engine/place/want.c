/* Wants a node for a job that has none: chooses the pool, or records why the job waits. */
#include "base/base.h"
#include "engine/place/place_priv.h"

/* Room that is held for another job moves with the running jobs' expected ends. */
#define HELD_US (2 * SPOT_US_PER_S)

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
static bool quota_blocks(const struct placing *p)
{
	for (size_t i = 0; i < p->ranking.refused_n; i++) {
		if (p->ranking.refused[i].why == REFUSED_QUOTA) {
			return true;
		}
	}
	return false;
}

static bool room_make(struct recon *r, struct assign_pass *t,
    const struct q_engine_assign_jobs_row *j, const struct job_facts *f, struct placing *p)
{
	const char *held;
	bool made;

	if (p->usable == 0 && f->state == JOB_QUEUED && quota_blocks(p)) {
		if (!t->room_read) {
			t->room_wanted = true;
			return false;
		}
		made = preempt_for_quota(r, &t->room, f, p);

		room_hold(r, &t->room, f, p);
		return !made;
	}
	held = room_filter(r, &t->room, f, p);
	if (held != NULL) {
		wait_write(r, f, p, held, 0);
		ask_block(r, t, j, held, loop_mono_us(r->e->loop) + HELD_US,
		    BLOCK_MARKET | BLOCK_MOVES);
	}
	return held == NULL;
}

/* When a wait is over by the clock alone (mono): patience or a cooldown ends, or the job becomes
 * infeasible. */
static int64_t wait_ends_us(struct recon *r, const struct job_facts *f, const struct placing *p,
    const struct place_choice *c)
{
	const struct engine *e = r->e;
	int64_t now = engine_now(e), end = INT64_MAX,
		fails = f->queued_us + clock_span_us(e, e->conf.infeasible_us);

	if (p->usable > 0 || c->until_us < now + SPOT_US_PER_S) {
		end = MAX(c->until_us, now + SPOT_US_PER_S / 4);
	}
	if (p->ranking.usable == 0 && fails > now) {
		end = MIN(end, fails + 1);
	}
	for (size_t i = 0; i < p->ranking.refused_n; i++) {
		const struct refused *x = &p->ranking.refused[i];

		if (x->why == REFUSED_COOLING && x->offer->cool_until_us > now) {
			end = MIN(end, x->offer->cool_until_us + 1);
		}
	}
	for (size_t i = 0; i < e->offers.rests_n && f->nodes > 1; i++) {
		end = MIN(end, MAX(e->offers.rests[i].until_us, now + SPOT_US_PER_S / 4));
	}
	return end == INT64_MAX ? end : loop_mono_us(e->loop) + MAX(end - now, 0);
}

/* True when only a change of the market can make a pool suit, and the job waits for no clock. No
 * cooldown ends, no odds or capacity grow old, no quota comes free. Jobs that ran (max_duration) or
 * have a budget, a deadline or mounts are read again sooner. Function wait_ends_us() knows the
 * time when the job becomes infeasible. */
static bool wait_still(const struct q_engine_assign_jobs_row *j, const struct job_facts *f,
    const struct placing *p)
{
	if (p->usable > 0 || p->ranking.usable > 0 || f->state != JOB_QUEUED || j->epoch != 0 ||
	    j->has_budget_micros || j->has_deadline_us || p->spec->mounts_n > 0) {
		return false;
	}
	for (size_t i = 0; i < p->ranking.refused_n; i++) {
		enum refusal why = p->ranking.refused[i].why;

		if (why != REFUSED_SPOT && why != REFUSED_ON_DEMAND && why != REFUSED_IMPLAUSIBLE &&
		    why != REFUSED_ASK) {
			return false;
		}
	}
	return true;
}

/* Carries a choice out. A job that takes room held for another is backfill. */
static void choice_act(struct recon *r, struct assign_pass *t,
    const struct q_engine_assign_jobs_row *j, const struct job_facts *f, const struct placing *p,
    const struct place_choice *c)
{
	if (c->act == PLACE_SHORT || c->act == PLACE_PARK) {
		budget_short(r, f, p);
	} else if (c->act == PLACE_TAKE) {
		bool backfill = c->patient && room_take(r, &t->room, f, c->score);

		place_want(r, f, p, c->score, 0, backfill ? "backfill" : c->kind, c->why);
		t->wanted++;
	} else {
		wait_write(r, f, p, c->why, c->until_us);
		ask_block(r, t, j, gang_why_wait(r, f, p, c->why), wait_ends_us(r, f, p, c),
		    BLOCK_MARKET | (p->usable == 0 && quota_blocks(p) ? BLOCK_MOVES : 0) |
			(wait_still(j, f, p) ? BLOCK_STILL : 0));
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

/* Jobs of one ask are ranked once, as long as the market stays and nobody's room is held. */
static bool ask_rank(struct recon *r, struct assign_pass *t,
    const struct q_engine_assign_jobs_row *j, struct job_facts *f, struct placing *ret)
{
	int64_t version = r->e->offers.version;

	if (t->ranked_ask == j->ask && t->ranked_version == version && t->room.holds_n == 0) {
		f->deadline_us = t->ranked_facts.deadline_us;
		*ret = t->ranked;
		return true;
	}
	t->scored += r->e->offers.n;
	t->ranked_ask = -1;
	if (!place_rank(r, f, ret)) {
		return false;
	}
	t->ranked_ask = j->ask;
	t->ranked_version = version;
	t->ranked_facts = *f;
	t->ranked = *ret;
	return true;
}

void job_want(struct recon *r, struct assign_pass *t, const struct q_engine_assign_jobs_row *j)
{
	struct job_facts f = facts_make(j);
	int64_t paced;
	struct place_choice c;
	struct place_in in;
	struct placing p;

	if (!ask_rank(r, t, j, &f, &p)) {
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
	if (!room_make(r, t, j, &f, &p)) {
		return;
	}
	in = place_in(r);
	switch (placement_begin(&in, &f, &p, &c)) {
	case PLACE_HOURS:
		defer_ask(r, &f, &p);
		return;
	case PLACE_WORDS:
		paced = deadline_paced_us(r, &f);
		deadline_ask(r, &f, &p, &(struct deadline_held){ .act = POLICY_WAIT });
		if (paced > loop_mono_us(r->e->loop)) {
			ask_block(r, t, j, "the deadline leaves time to wait for spot", paced,
			    BLOCK_MARKET);
		}
		return;
	case PLACE_DECIDED:
		choice_act(r, t, j, &f, &p, &c);
		return;
	}
}
