/* Wants a node for a job that has none: in which pool, or why it waits. */
#include "base/base.h"
#include "engine/market/market.h"
#include "engine/place/place_int.h"

/* The best spot pool of a ranking whose group is not tight; NULL: there is none. */
static const struct score *supply_easy(const struct engine *e, const struct placing *p)
{
	for (size_t i = 0; i < p->usable; i++) {
		const struct offer *o = p->scores[i].offer;

		if (o->market == SPOT_MARKET_SPOT && !supply_tight(e, o)) {
			return &p->scores[i];
		}
	}
	return NULL;
}

static bool market_suits(struct recon *r, const struct job_spec *spec)
{
	struct engine *e = r->e;

	for (size_t i = 0; i < e->offers.n; i++) {
		for (size_t k = 0; k < spec->asks_n; k++) {
			if (offer_refusal(r->arena, &e->offers.list[i], &spec->asks[k]) == NULL) {
				return true;
			}
		}
	}
	return false;
}

/* A job that is blocked by quotas makes others leave, and has the room held that is expected next:
 * what the first of those left too, until all have. What is held for another is not for it. false:
 * it waits. */
static bool room_make(struct recon *r, struct assign_pass *t, const struct job_facts *f,
    struct placing *p)
{
	const char *held;

	if (p->usable == 0 && strcmp(f->state, "QUEUED") == 0) {
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

/* Without a deadline that a policy plans for: spot, on demand or wait by patience. */
static void place_patiently(struct recon *r, struct assign_pass *t, const struct job_facts *f,
    const struct placing *p)
{
	struct engine *e = r->e;
	struct supply_policy policy = e->conf.supply;
	int64_t now = engine_now(e), until = 0;
	const char *why = "";
	enum supply_choice c;

	policy.changeover_us = place_changeover_us(e, f);
	policy.patience_us = place_patience_us(e, p->spec);
	c = supply_choose(r->arena,
	    &(struct supply_in){ .now_us = now,
		.queued_us = f->queued_us,
		.deadline_us = f->deadline_us,
		.work_left_us = p->on_demand != NULL
		    ? (int64_t)(p->on_demand->hours * (double)SPOT_US_PER_HOUR)
		    : 0,
		.spot_usable = p->spot_n,
		.on_demand_usable = p->on_demand_n,
		.spot_refused = p->spot_cooling,
		.spot_allowed = p->job.spot_allowed,
		.on_demand_allowed = p->job.on_demand_allowed,
		.spot_tight = p->spot != NULL && supply_easy(e, p) == NULL,
		.spot_best_micros = p->spot != NULL ? p->spot->total_micros : 0,
		.on_demand_best_micros = p->on_demand != NULL ? p->on_demand->total_micros : 0 },
	    &policy, &why, &until);
	switch (c) {
	case SUPPLY_SPOT:
		place_want(r, f, p, p->spot, 0,
		    room_take(r, &t->room, f, p->spot) ? "backfill" : "place", why);
		break;
	case SUPPLY_ON_DEMAND:
		place_want(r, f, p, p->on_demand, 0,
		    room_take(r, &t->room, f, p->on_demand) ? "backfill"
			: p->job.spot_allowed && (p->spot_n == 0 || p->spot_cooling > 0)
			? "failover"
			: "place",
		    why);
		break;
	case SUPPLY_WAIT:
		wait_write(r, f, p, why, until);
		engine_later(e, MAX(until - now, SPOT_US_PER_S / 4));
		break;
	}
}

void job_want(struct recon *r, struct assign_pass *t, const struct q_engine_sched_jobs_row *j)
{
	struct engine *e = r->e;
	struct job_facts f = facts_make(j);
	int64_t now = engine_now(e);
	const struct score *quickest;
	struct placing p;

	if (!place_rank(r, &f, &p)) {
		return;
	}
	if (p.ranking.usable == 0 && e->offers.n > 0 && strcmp(j->state, "QUEUED") == 0 &&
	    now - f.queued_us > clock_span_us(e, e->conf.infeasible_us) &&
	    !market_suits(r, p.spec)) {
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
	quickest = p.late ? rank_quickest(p.scores, p.usable) : NULL;
	if (quickest != NULL) {
		place_want(r, &f, &p, quickest, 0, "place",
		    "its deadline has passed: where it is done first");
		return;
	}
	if (p.reserved != NULL &&
	    (f.deadline_us == 0 || p.on_demand == NULL ||
		now + (int64_t)(p.reserved->hours * (double)SPOT_US_PER_HOUR) <= f.deadline_us)) {
		place_want(r, &f, &p, p.reserved, 0, "place",
		    "a reservation has room: it is paid for already");
		return;
	}
	if (defer_ask(r, &f, &p) ||
	    deadline_ask(r, &f, &p, &(struct deadline_held){ .act = POLICY_WAIT })) {
		return;
	}
	place_patiently(r, t, &f, &p);
}
