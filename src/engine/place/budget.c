/*
 * Budgets of jobs (core/money/money.h). A running job whose budget is used up is told to save and
 * stop (drain.c, gang_ranks.c). A waiting one is parked here, and its machines go since no job
 * needs them (release.c). A parked job whose start is paid again returns to the queue (drain.c). A
 * statement that wants or begins something checks the budget once more. Memory holds only the time
 * of the last check.
 */
#include "base/base.h"
#include "core/money/money.h"
#include "engine/place/place_priv.h"

bool budget_due(const struct engine *e, int64_t *next_us)
{
	int64_t now = loop_mono_us(e->loop);

	if (now < *next_us) {
		return false;
	}
	*next_us = now + e->conf.budget_look_us;
	return true;
}

int64_t budget_end_us(const struct engine *e)
{
	return BUDGET_END_US + e->conf.budget_look_us;
}

int64_t budget_need_of(const struct recon *r, const struct job_facts *f,
    const struct job_spec *spec, int64_t price_micros)
{
	struct place_policy k = place_policy_of(r->e);

	return placement_budget_need(&k, f, spec, price_micros);
}

static void job_park(struct recon *r, const struct job_facts *f, int64_t need, const char *why)
{
	enum job_state next = job_next(f->id, f->state, JOB_EV_BUDGET);
	struct step *s;

	if (next == JOB_NONE) {
		return;
	}
	AUTO(json)
	json_t *in = json_pack("{s:I, s:{s:I, s:I, s:I, s:i, s:I}, s:{s:I, s:I, s:I}}", "now_us",
	    (json_int_t)engine_now(r->e), "job", "id", (json_int_t)f->id, "budget_micros",
	    (json_int_t)f->budget_micros, "left_micros", (json_int_t)f->budget_left, "nodes",
	    (int)MAX(f->nodes, 1), "restart_us", (json_int_t)f->restart_us, "policy", "end_us",
	    (json_int_t)budget_end_us(r->e), "work_us", (json_int_t)BUDGET_WORK_US, "restart_s",
	    (json_int_t)r->e->conf.rank.restart_s);

	log_info("job.parked", I64("job", f->id), I64("left_micros", f->budget_left),
	    I64("need_micros", need));
	s = step_new(r, NULL, NULL);
	STEP(s, engine_job_park,
	    (&(struct q_engine_job_park){ .id = f->id,
		.epoch = f->epoch,
		.now = next,
		.event = JOB_EV_BUDGET,
		.need_micros = need,
		.why = why,
		.at_us = engine_now(r->e),
		.fence = r->epoch,
		.inputs = json_text(r->arena, in) }));
}

void budget_park(struct recon *r, const struct job_facts *f, int64_t need_micros)
{
	job_park(r, f, need_micros,
	    arena_printf(r->arena,
		"%s of its budget are left; a start needs %.4f USD at least (with five minutes of "
		"work and "
		"a save): 'spotctl job budget j%" PRId64 " AMOUNT' raises it",
		budget_words(r->arena, f->budget_left, f->budget_micros), (double)need_micros / 1e6,
		f->id));
}

void budget_short(struct recon *r, const struct job_facts *f, const struct placing *p)
{
	struct place_in in = place_in(r);
	int64_t need = placement_need_least(&in, f, p->spec);
	const char *left = budget_words(r->arena, f->budget_left, f->budget_micros);

	if (f->state != JOB_QUEUED) {
		return; /* it still saves; no other machine is wanted meanwhile */
	}
	if (need <= f->budget_left) {
		wait_write(r, f, p,
		    arena_printf(r->arena,
			"its budget (%s left) pays for no pool with capacity now; it waits for a "
			"cheaper one",
			left),
		    0);
		return;
	}
	budget_park(r, f, need);
}

void budget_over(struct recon *r, const struct job_facts *f, const struct job_spec *spec)
{
	struct place_in in = place_in(r);
	int64_t need = MAX(placement_need_least(&in, f, spec), 1);

	job_park(r, f, need,
	    arena_printf(r->arena,
		"its budget of %.4f USD is used up; to go on it needs %.4f USD more than it has "
		"cost: "
		"'spotctl job budget j%" PRId64 " AMOUNT' raises it",
		(double)f->budget_micros / 1e6, (double)need / 1e6, f->id));
}

const char *budget_why(struct arena *a, int64_t spent_micros, int64_t budget_micros)
{
	return arena_printf(a,
	    "its budget is used up: %.4f of %.4f USD are spent, saving and giving its machines "
	    "back takes the rest",
	    (double)spent_micros / 1e6, (double)budget_micros / 1e6);
}
