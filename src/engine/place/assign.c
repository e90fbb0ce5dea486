/*
 * Places jobs, those of several nodes too (gang_place.c). A waiting job gets a ready node that
 * suits it; without one, and with none on its way, a node is wanted for it in the pool where the
 * work is expected to cost least. A job that drains gets its replacement wanted at once, while the
 * old node still saves. No special case for failed launches: the refused pool cools, and the job is
 * found here again.
 *
 * A turn looks at a window of what waits, in the order of the queue: at the first of it, always,
 * and at a slice of the others that goes on from turn to turn and begins again after the last. So
 * those who cannot be placed keep nobody behind them from being looked at. What is scarce (nodes of
 * fleets, quotas) goes to the first in the window: in a turn nobody behind gets what one of the
 * first could have, or has held. Who is blocked and has room held stays in the window wherever it
 * stands, so that slices after its own only fill in; so does a job whose machine is ready, since
 * that costs money. Behind the first, what comes free in the midst of a walk and none of the first
 * can use may go to the slice that is next, before a higher job whose slice is over: that is the
 * price of not ranking the whole queue in each turn. Among equals the nearest deadlines stand
 * first, so that the last safe moments are mostly seen among the first; the others are looked at
 * within a walk.
 */
#include "base/base.h"
#include "base/log.h"
#include "base/text/str.h"
#include "core/money/budget.h"
#include "engine/job/gang.h"
#include "engine/place/queue.h"
#include "engine/place/supply.h"

#define HEAD_MOST 300
#define SLICE_MOST 200
#define FREE_MOST 2000
#define RUN_MOST 2000
/* Offers scored in one turn: placing many jobs on a large market must not hold up the loop. The
 * rest goes on in the next turn, where this one stopped. */
#define SCORE_BUDGET 400000

struct sched_turn {
	struct q_engine_sched_jobs_row *jobs;
	size_t jobs_n;
	struct q_engine_free_nodes_row *nodes;
	bool *taken;
	size_t nodes_n;
	size_t scored;
	struct room room;
	bool *done; /* a job was looked at in this turn */
};

struct assign {
	const struct q_engine_sched_jobs_row *job;
	const struct q_engine_free_nodes_row *node;
	int64_t restore_id; /* 0 = none */
};

/* Steps that count for what is left: of a job that has stopped only those that are saved, since
 * that is where it goes on. */
static int64_t steps_kept(const struct q_engine_sched_jobs_row *j)
{
	if (strcmp(j->state, "QUEUED") != 0) {
		return j->steps_done;
	}
	if (!j->has_checkpoint_id) {
		return 0;
	}
	return j->checkpoint_steps > 0 ? MIN(j->steps_done, j->checkpoint_steps) : j->steps_done;
}

static struct job_facts facts_of(const struct q_engine_sched_jobs_row *j)
{
	return (struct job_facts){
		.id = j->id,
		.epoch = j->epoch,
		.state = j->state,
		.name = j->name,
		.spec_json = j->spec,
		.deadline_us = j->has_deadline_us ? j->deadline_us : 0,
		.created_us = j->created_us,
		/* A job that drains waits for its next place since then. */
		.queued_us = strcmp(j->state, "QUEUED") == 0 ? j->queued_us : j->state_us,
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

/* ---- binding to a ready node ----------------------------------------------------------------- */

static void assigned(struct step *s)
{
	const struct assign *a = s->ctx;

	if (pg_rows(s->req.result) == 1) {
		log_info("job.placed", I64("job", a->job->id), I64("epoch", a->job->epoch + 1),
		    I64("node", a->node->id));
	}
}

static void assign_write(struct recon *r, struct assign *a, const char *files, int64_t until_us)
{
	const struct q_engine_sched_jobs_row *j = a->job;
	const char *next = job_next(j->id, j->state, JOB_EV_PLACED);
	struct step *s;

	if (next[0] == '\0') {
		return;
	}
	s = step_new(r, assigned, a);
	STEP(s, engine_assign,
	    (&(struct q_engine_assign){ .job_id = j->id,
		.was = j->state,
		.epoch = j->epoch,
		.node_id = a->node->id,
		.now = next,
		.event = job_event_name(JOB_EV_PLACED),
		.why = arena_printf(r->arena, "placed on n%" PRId64 "%s", a->node->id,
		    j->has_checkpoint_id ? ", from its newest checkpoint" : ""),
		.files = files,
		.urls_until_us = until_us,
		.has_restore_id = j->has_checkpoint_id,
		.restore_id = j->checkpoint_id,
		.steps_start = j->checkpoint_steps,
		.at_us = engine_now(r->e),
		.fence = r->epoch,
		.end_us = budget_end_us(r->e) }));
}

static void assign_files(struct files *f)
{
	struct assign *a = f->ctx;

	if (f->rc == SPOT_OK) {
		assign_write(f->r, a, f->text[0], f->until_us);
	} else {
		files_missing(f, a->job->state, a->job->epoch);
	}
}

static bool spec_of(struct recon *r, const struct q_engine_sched_jobs_row *j, struct job_spec **ret)
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

static void assign_start(struct recon *r, const struct q_engine_sched_jobs_row *j,
    const struct job_spec *spec, const struct q_engine_free_nodes_row *node)
{
	struct assign *a = arena_alloc(r->arena, sizeof(*a));

	*a = (struct assign){ .job = j,
		.node = node,
		.restore_id = j->has_checkpoint_id ? j->checkpoint_id : 0 };
	if (!j->has_checkpoint_id && spec->mounts_n == 0) {
		assign_write(r, a, "[]", engine_now(r->e) + r->e->conf.url_life_us);
		return;
	}
	if (!objects_ready(r->e)) {
		return; /* credentials are being renewed; a pass follows */
	}
	files_ask(r,
	    &(struct files){ .job_id = j->id,
		.mounts = spec->mounts_n > 0,
		.checkpoints = &a->restore_id,
		.n = 1,
		.then = assign_files,
		.ctx = a });
}

/* Files that nobody can sign URLs for end a job before a machine is bought that it never begins on:
 * at once where their names are wrong; where it is the configuration that may be mended as late as
 * one that no pool suits. false: it does not begin. */
static bool mounts_signable(struct recon *r, const struct q_engine_sched_jobs_row *j,
    const struct job_spec *spec)
{
	struct spot_err err = { 0 };
	enum spot_rc rc = SPOT_OK;

	for (size_t i = 0; i < spec->mounts_n && rc == SPOT_OK; i++) {
		rc = objects_uri_check(r->e, r->arena, spec->mounts[i].uri, &err);
	}
	if (rc == SPOT_OK) {
		return true;
	}
	if (strcmp(j->state, "QUEUED") == 0 &&
	    (rc == SPOT_INVALID ||
		(rc == SPOT_CONFIG &&
		    engine_now(r->e) - j->queued_us >
			clock_span_us(r->e, r->e->conf.infeasible_us)))) {
		job_event(r, j->id, j->state, j->epoch, JOB_EV_INFEASIBLE, "infeasible", err.text);
	} else {
		job_words(r, j->id, j->state, j->epoch, err.text);
	}
	return false;
}

static bool suits(struct recon *r, const struct q_engine_free_nodes_row *n,
    const struct job_spec *spec)
{
	const struct offer *o = offer_of(r->e, n->pool_id);

	if (o == NULL || (o->market == SPOT_MARKET_SPOT && !spec->interruptible)) {
		return false;
	}
	for (size_t i = 0; i < spec->asks_n; i++) {
		if (offer_refusal(r->arena, o, &spec->asks[i]) == NULL) {
			return true;
		}
	}
	return false;
}

static bool node_free_for(const struct q_engine_free_nodes_row *n,
    const struct q_engine_sched_jobs_row *j)
{
	if (j->has_fleet_id || n->has_fleet_id) {
		return j->has_fleet_id && n->has_fleet_id && j->fleet_id == n->fleet_id;
	}
	return !n->has_job_id ||
	    (n->job_state != NULL && job_state_final(job_state_parse(n->job_state)));
}

/* The job's own node first, and of those the one launched as its replacement. */
static size_t node_choose(struct recon *r, const struct sched_turn *t,
    const struct q_engine_sched_jobs_row *j, const struct job_spec *spec)
{
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < t->nodes_n; i++) {
		const struct q_engine_free_nodes_row *n = &t->nodes[i];

		if (!t->taken[i] && n->has_job_id && n->job_id == j->id) {
			if (n->has_replaces_id) {
				return i;
			}
			best = i;
		}
	}
	for (size_t i = 0; i < t->nodes_n && best == SIZE_MAX; i++) {
		if (!t->taken[i] && node_free_for(&t->nodes[i], j) &&
		    (j->has_fleet_id ||
			!room_held(&t->room, offer_of(r->e, t->nodes[i].pool_id))) &&
		    suits(r, &t->nodes[i], spec)) {
			best = i;
		}
	}
	return best;
}

/* Does its budget not pay for a start there? What is its own is in what is left already. */
static bool node_dear(const struct engine *e, const struct q_engine_sched_jobs_row *j,
    const struct job_spec *spec, const struct q_engine_free_nodes_row *n)
{
	bool own = n->has_job_id && n->job_id == j->id && !n->has_fleet_id;

	return j->has_budget_micros && !own &&
	    j->budget_left < budget_need(n->price_micros, 0, budget_end_us(e), spec);
}

/* ---- wanting a node -------------------------------------------------------------------------- */

static bool ever_suits(struct recon *r, const struct job_spec *spec)
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

void wait_write(struct recon *r, const struct job_facts *f, const struct placing *p,
    const char *why, int64_t until_us)
{
	AUTO(json) json_t *in = place_inputs(r, f, p);
	AUTO(json)
	json_t *out = json_pack("{s:s, s:I}", "choice", "wait", "until_us", (json_int_t)until_us);
	struct step *s = step_new(r, NULL, NULL);

	STEP(s, engine_wait_for_job,
	    (&(struct q_engine_wait_for_job){ .job_id = f->id,
		.was = f->state,
		.epoch = f->epoch,
		.inputs = json_text(r->arena, in),
		.outcome = json_text(r->arena, out),
		.why = gang_why_wait(r, f, p, why),
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
}

/* A job that is blocked by quotas makes others leave, and has the room held that is expected next:
 * what the first of those left too, until all have. What is held for another is not for it. false:
 * it waits. */
static bool room_for(struct recon *r, struct sched_turn *t, const struct job_facts *f,
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
static void place_patiently(struct recon *r, struct sched_turn *t, const struct job_facts *f,
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

static void place(struct recon *r, struct sched_turn *t, const struct q_engine_sched_jobs_row *j)
{
	struct engine *e = r->e;
	struct job_facts f = facts_of(j);
	int64_t now = engine_now(e);
	const struct score *quickest;
	struct placing p;

	if (!place_rank(r, &f, &p)) {
		return;
	}
	if (p.ranking.usable == 0 && e->offers.n > 0 && strcmp(j->state, "QUEUED") == 0 &&
	    now - f.queued_us > clock_span_us(e, e->conf.infeasible_us) && !ever_suits(r, p.spec)) {
		job_event(r, f.id, f.state, f.epoch, JOB_EV_INFEASIBLE, "infeasible",
		    "no pool of any provider suits what the job asks for");
		return;
	}
	if (p.dear > 0 && p.usable == 0) {
		budget_short(r, &f, &p);
		return;
	}
	if (!room_for(r, t, &f, &p)) {
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

/* ---- the turn -------------------------------------------------------------------------------- */

/* An agent ends its attempt by a clock that never leaps; here a leap of ours must not end a job for
 * good: whose time may be over waits until that is sure. */
static bool overtime(const struct q_engine_sched_jobs_row *j, const struct job_spec *spec)
{
	return spec->max_duration_s > 0 && j->ran_us >= spec->max_duration_s * SPOT_US_PER_S;
}

static void fleet_closed(struct recon *r, const struct q_engine_sched_jobs_row *j)
{
	job_event(r, j->id, j->state, j->epoch, JOB_EV_INFEASIBLE, "fleet_closed",
	    arena_printf(r->arena,
		"its fleet f%" PRId64 " is closed: submit it again, without a fleet or for another",
		j->fleet_id));
}

static void sched_job(struct recon *r, struct sched_turn *t,
    const struct q_engine_sched_jobs_row *j)
{
	bool queued = strcmp(j->state, "QUEUED") == 0;
	struct job_spec *spec;
	size_t i;

	if ((queued && j->live) || !spec_of(r, j, &spec)) {
		return;
	}
	if (overtime(j, spec)) {
		if (queued &&
		    clock_ran_out(r->e, j->ran_us, spec->max_duration_s * SPOT_US_PER_S)) {
			job_event(r, j->id, j->state, j->epoch, JOB_EV_OVERTIME, "overtime",
			    "max_duration is over");
		}
		return;
	}
	if (j->has_budget_micros && j->budget_left <= 0) {
		struct job_facts f = facts_of(j);

		if (queued) {
			budget_over(r, &f, spec);
		}
		return;
	}
	if (queued && j->fleet_closed) {
		fleet_closed(r, j);
		return;
	}
	if (!mounts_signable(r, j, spec)) {
		return;
	}
	/* What has run before waits for nothing but a place. */
	if (queued && j->epoch == 0 && j->not_before_us > engine_now(r->e)) {
		engine_later(r->e, j->not_before_us - engine_now(r->e));
		return;
	}
	if (queued && j->num_nodes == 1 && (i = node_choose(r, t, j, spec)) != SIZE_MAX) {
		if (!node_dear(r->e, j, spec, &t->nodes[i])) {
			t->taken[i] = true;
			assign_start(r, j, spec, &t->nodes[i]);
			return;
		}
		if (j->has_fleet_id) {
			struct job_facts f = facts_of(j);

			budget_park(r, &f,
			    budget_need(t->nodes[i].price_micros, 0, budget_end_us(r->e), spec));
			return;
		}
	}
	if (!j->inflight && !j->has_fleet_id) {
		t->scored += r->e->offers.n;
		place(r, t, j);
	} else if (queued && !j->inflight) {
		struct job_facts f = facts_of(j);

		preempt_for_fleet(r, &t->room, &f, spec, j->fleet_id);
	}
}

/* Placing goes on where the last turn stopped: room is held anew for those that were blocked before
 * that. */
static void sched_resume(struct recon *r, struct sched_turn *t)
{
	struct engine *e = r->e;
	size_t n = e->held_n;

	e->held_n = 0;
	for (size_t k = 0; k < n && e->sched_next != 0; k++) {
		for (size_t i = 0; i < t->jobs_n; i++) {
			if (t->jobs[i].id == e->held[k]) {
				t->done[i] = true;
				sched_job(r, t, &t->jobs[i]);
			}
		}
	}
	t->scored = 0; /* they are few, and each turn must come further */
}

/* The next slice goes on behind this one. A hint: who takes over begins at the first. */
static void slice_over(struct engine *e, const struct sched_turn *t)
{
	int64_t far = 0;

	for (size_t i = 0; i < t->jobs_n; i++) {
		if (t->jobs[i].slice_at > far) {
			far = t->jobs[i].slice_at;
			e->sched_after = t->jobs[i].id;
			e->sched_after_n = t->jobs[i].place_n;
		}
	}
}

static void sched_decide(struct recon *r, void *ctx)
{
	struct sched_turn *t = ctx;
	size_t first = 0;

	t->done = arena_array(r->arena, t->jobs_n + 1, sizeof(*t->done));
	sched_resume(r, t);
	for (size_t i = 0; i < t->jobs_n; i++) {
		if (t->jobs[i].id == r->e->sched_next) {
			first = i;
		}
	}
	r->e->sched_next = 0;
	for (size_t i = 0; i < t->jobs_n; i++) {
		size_t at = (first + i) % t->jobs_n;
		bool unread = !t->done[at] && t->jobs[at].spec == NULL;

		if (t->scored >= SCORE_BUDGET || unread) {
			r->e->sched_next = t->jobs[at].id;
			/* once round, the others' turn comes with the next pass */
			r->changed |= !unread || at >= first;
			if (at < first) {
				/* round the end: the rest of it is of the first */
				slice_over(r->e, t);
			}
			return;
		}
		if (!t->done[at]) {
			sched_job(r, t, &t->jobs[at]);
		}
	}
	slice_over(r->e, t);
}

static void sched_running(struct step *s)
{
	struct sched_turn *t = s->ctx;

	t->room.n = q_engine_running_rows(&s->req, s->r->arena, &t->room.rows);
	t->room.read_us = loop_mono_us(s->r->e->loop);
	offers_need(s->r, sched_decide, t);
}

static void sched_nodes(struct step *s)
{
	struct sched_turn *t = s->ctx;
	struct step *next;

	t->nodes_n = q_engine_free_nodes_rows(&s->req, s->r->arena, &t->nodes);
	t->taken = arena_array(s->r->arena, t->nodes_n + 1, sizeof(*t->taken));
	t->room.free = t->nodes;
	t->room.free_n = t->nodes_n;
	next = step_new(s->r, sched_running, t);
	STEP(next, engine_running,
	    (&(struct q_engine_running){ .most = RUN_MOST, .at_us = engine_now(s->r->e) }));
}

static void sched_jobs(struct step *s)
{
	struct sched_turn *t = arena_alloc(s->r->arena, sizeof(*t));
	struct step *next;
	bool any = false;

	t->jobs_n = q_engine_sched_jobs_rows(&s->req, s->r->arena, &t->jobs);
	for (size_t i = 0; i < t->jobs_n; i++) {
		any |= strcmp(t->jobs[i].state, "QUEUED") == 0 || !t->jobs[i].inflight;
	}
	if (!any) {
		slice_over(s->r->e, t);
		return;
	}
	next = step_new(s->r, sched_nodes, t);
	STEP(next, engine_free_nodes, (&(struct q_engine_free_nodes){ .most = FREE_MOST }));
}

void sched_run(struct recon *r)
{
	struct step *s = step_new(r, sched_jobs, NULL);

	r->e->asks = 0;
	STEP(s, engine_sched_jobs,
	    (&(struct q_engine_sched_jobs){ .head = HEAD_MOST,
		.slice = SLICE_MOST,
		.after = r->e->sched_after,
		.after_n = r->e->sched_after_n,
		.held = r->e->held,
		.held_n = r->e->held_n,
		.at_us = engine_now(r->e),
		.end_us = budget_end_us(r->e),
		.next = r->e->sched_next,
		.spec_bytes = SPEC_BYTES }));
}
