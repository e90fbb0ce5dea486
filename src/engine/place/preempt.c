/*
 * Preempts for a job of high priority: the cheapest victims stop (core/queue/queue.h). The job gets
 * a suitable machine as it is. If a quota is exhausted, the engine releases as many of its machines
 * as needed. A gang needs capacity for all of its nodes, in one zone if possible. A gang is
 * preempted as a whole. A victim saves first, waits again in the queue and continues from its
 * checkpoint. The decisions are rows of both jobs.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/place/place_priv.h"

#define SHOWN 20

struct preempting {
	const struct job_facts *facts;
	const struct job_spec *spec;
	struct victim *list; /* jobs that may be preempted */
	const struct q_engine_running_row **rows; /* of them */
	size_t n;
	json_t *seen; /* with those that may not be preempted, and why */
};

static bool offer_suits(struct recon *r, const struct offer *o, const struct job_spec *spec)
{
	if (o == NULL || (spot_market_reclaims(o->market) && !spec->interruptible)) {
		return false;
	}
	for (size_t i = 0; i < spec->asks_n; i++) {
		const struct resource_ask *k = &spec->asks[i];

		if (offer_refusal(r->arena, o, k) == NULL &&
		    (k->use_spot != 0 || !spot_market_reclaims(o->market))) {
			return true;
		}
	}
	return false;
}

static struct victim victim_make(struct recon *r, const struct q_engine_running_row *w)
{
	const struct engine *e = r->e;
	int64_t now = engine_now(e), from = w->has_started_us ? w->started_us : w->created_us;
	struct victim v = { .job_id = w->job_id,
		.priority = w->priority,
		.interruptible = w->interruptible,
		.preemptible = w->preemptible,
		.has_path = w->has_path,
		.moving = w->moving || w->state != JOB_RUNNING,
		.price_micros = w->price_micros * w->num_nodes,
		.ran_us = MAX(now - from, 0),
		.save_us = w->save_us > 0 ? w->save_us : e->conf.rank.save_s * SPOT_US_PER_S,
		.restart_us = e->conf.rank.restart_s * SPOT_US_PER_S,
		.last_us = w->has_last_us ? w->last_us : 0,
		.deadline_us = w->has_deadline_us ? w->deadline_us : 0,
		.left_us = w->work_s > 0 || w->steps_total > 0 ? running_end_us(e, w) - now : 0 };

	v.saved_us = w->has_saved_us ? MIN(MAX(now - w->saved_us, 0), v.ran_us) : v.ran_us;
	v.cost_micros = victim_cost(&v, e->conf.rank.notice_saves);
	return v;
}

/* The ranks of a gang are adjacent rows: all are preempted, or none. */
static bool ranks_add(struct preempting *x, const struct q_engine_running_row *w, int64_t units)
{
	if (w->num_nodes == 1 || x->n == 0 || x->rows[x->n - 1]->job_id != w->job_id) {
		return false;
	}
	x->list[x->n - 1].units += units;
	return true;
}

static void victim_consider(struct recon *r, struct preempting *x,
    const struct q_engine_running_row *w, int64_t units)
{
	struct victim v;
	const char *no;

	if (ranks_add(x, w, units)) {
		return;
	}
	v = victim_make(r, w);
	no =
	    victim_refusal(r->arena, &r->e->conf.schedule, &v, x->spec->priority, engine_now(r->e));
	v.units = units;
	if (json_array_size(x->seen) < SHOWN) {
		json_array_append_new(x->seen,
		    json_pack("{s:I, s:I, s:i, s:I, s:I, s:I, s:s?}", "job", (json_int_t)v.job_id,
			"node", (json_int_t)w->node_id, "priority", (int)v.priority, "cost_micros",
			(json_int_t)v.cost_micros, "not_saved_us", (json_int_t)v.saved_us, "units",
			(json_int_t)units, "refused", no));
	}
	if (no == NULL) {
		x->rows[x->n] = w;
		x->list[x->n++] = v;
	}
}

static void preempt_one(struct recon *r, const struct preempting *x, size_t i, bool hand, size_t of)
{
	struct engine *e = r->e;
	struct q_engine_running_row *w = NULL;
	const struct victim *v = &x->list[i];
	enum job_state next = job_next(v->job_id, JOB_RUNNING, JOB_EV_MOVE);
	AUTO(json)
	json_t *in = json_pack("{s:I, s:i, s:O}", "for_job", (json_int_t)x->facts->id, "priority",
	    (int)x->spec->priority, "running", x->seen);
	AUTO(json)
	json_t *out = json_pack("{s:s, s:I, s:I, s:I, s:I, s:b}", "choice", "preempt", "victim",
	    (json_int_t)v->job_id, "for_job", (json_int_t)x->facts->id, "cost_micros",
	    (json_int_t)v->cost_micros, "victims", (json_int_t)of, "handed_over", hand);
	const char *why = arena_printf(r->arena,
	    "makes room for j%" PRId64 " (priority %d over %d): saves, then waits in the queue",
	    x->facts->id, (int)x->spec->priority, (int)v->priority);
	const char *for_why = arena_printf(r->arena,
	    "j%" PRId64 " (priority %d) makes room on n%" PRId64 ": of %zu that may, the "
	    "cheapest at %.4f USD of work and time",
	    v->job_id, (int)v->priority, x->rows[i]->node_id, x->n, (double)v->cost_micros / 1e6);
	struct step *s;

	if (next == JOB_NONE) {
		return;
	}
	w = arena_alloc(r->arena, sizeof(*w));
	*w = *x->rows[i];
	log_info("job.preempted", I64("job", v->job_id), I64("by", x->facts->id),
	    I64("node", w->node_id));
	s = step_new(r, NULL, NULL);
	STEP(s, engine_preempt,
	    (&(struct q_engine_preempt){ .victim = v->job_id,
		.epoch = w->epoch,
		.node_id = w->node_id,
		.for_job = x->facts->id,
		.for_epoch = x->facts->epoch,
		.now = next,
		.event = JOB_EV_MOVE,
		.hand = hand,
		.why = why,
		.for_why = for_why,
		.inputs = json_text(r->arena, in),
		.outcome = json_text(r->arena, out),
		.deadline_us =
		    engine_now(e) + MAX(e->conf.notice_default_us, w->budget_s * SPOT_US_PER_S),
		.at_us = engine_now(e),
		.fence = r->epoch }));
}

/* Preempts the chosen victims, once in a pass. For the rest of the pass they count as leaving. */
static void preempt_all(struct recon *r, struct room *m, const struct preempting *x,
    const size_t *chosen, size_t n, bool hand)
{
	for (size_t i = 0; i < n; i++) {
		preempt_one(r, x, chosen[i], hand, n);
		for (size_t k = 0; k < m->n; k++) {
			if (m->rows[k].job_id == x->rows[chosen[i]]->job_id) {
				m->rows[k].moving = true;
			}
		}
	}
}

/* A part has its own memory: a pass asks for hundreds of jobs, of dozens of quotas each, among
 * thousands that run. */
static struct preempting preempt_begin(struct recon *r, const struct room *m,
    const struct job_facts *f, const struct job_spec *spec)
{
	part_begin(r);
	return (struct preempting){ .facts = f,
		.spec = spec,
		.list = arena_array(r->arena, m->n + 1, sizeof(struct victim)),
		.rows = arena_array(r->arena, m->n + 1, sizeof(struct q_engine_running_row *)),
		.seen = json_array() };
}

static void preempt_end(struct recon *r, struct preempting *x)
{
	json_decref(x->seen);
	part_end(r);
}

static bool victims_preempt(struct recon *r, struct room *m, const struct preempting *x,
    int64_t need, bool hand)
{
	size_t *chosen, n;
	bool found = x->n > 0 && victims_choose(r->arena, x->list, x->n, need, &chosen, &n);

	if (found && !hand && r->e->offers.read_us < m->read_us) {
		/* The quota was read before the running jobs, so it would still count jobs that
		 * have left since. */
		m->stale = true;
		r->changed = true;
	} else if (found) {
		preempt_all(r, m, x, chosen, n, hand);
	}
	return found;
}

bool preempt_for_fleet(struct recon *r, struct room *m, const struct job_facts *f,
    const struct job_spec *spec, int64_t fleet_id)
{
	struct preempting x = preempt_begin(r, m, f, spec);
	bool found;

	for (size_t i = 0; i < m->n; i++) {
		if (m->rows[i].has_fleet_id && m->rows[i].fleet_id == fleet_id &&
		    offer_suits(r, offer_find(r->e, m->rows[i].pool_id), spec)) {
			victim_consider(r, &x, &m->rows[i], 1);
		}
	}
	found = victims_preempt(r, m, &x, 1, true);
	preempt_end(r, &x);
	return found;
}

/* Preempts as many jobs of one quota as free the capacity for the job in o, only in its zone if
 * that is enough. Machines already on their way out count. */
static bool quota_free(struct recon *r, struct room *m, const struct job_facts *f,
    const struct placing *p, const struct offer *o, bool here)
{
	struct preempting x = preempt_begin(r, m, f, p->spec);
	int64_t need = room_need(f, o) - MAX(o->quota_limit - o->quota_used, 0);
	bool found;

	for (size_t i = 0; i < m->n; i++) {
		const struct offer *y = offer_find(r->e, m->rows[i].pool_id);

		if (y == NULL || m->rows[i].has_fleet_id || !quota_same(y, o)) {
			continue;
		}
		if (m->rows[i].moving) {
			need -= offer_quota_need(y);
		} else if (!here || strcmp(y->zone, o->zone) == 0) {
			victim_consider(r, &x, &m->rows[i], offer_quota_need(y));
		}
	}
	found = need <= 0 || victims_preempt(r, m, &x, need, false);
	preempt_end(r, &x);
	return found;
}

bool preempt_for_quota(struct recon *r, struct room *m, const struct job_facts *f,
    const struct placing *p)
{
	struct quotas_tried zones = { 0 }, quotas = { 0 };
	struct preempting x;
	bool found, any = false;

	for (size_t i = 0; i < p->ranking.refused_n; i++) {
		any |= p->ranking.refused[i].why == REFUSED_QUOTA;
	}
	if (!any) {
		return false;
	}
	x = preempt_begin(r, m, f, p->spec);
	/* Only a single node can be handed over. A gang is launched and preempted as a whole. */
	for (size_t i = 0; f->nodes < 2 && i < m->n; i++) {
		if (!m->rows[i].has_fleet_id && m->rows[i].num_nodes == 1 &&
		    offer_suits(r, offer_find(r->e, m->rows[i].pool_id), p->spec)) {
			victim_consider(r, &x, &m->rows[i], 1);
		}
	}
	found = f->nodes < 2 && victims_preempt(r, m, &x, 1, true);
	preempt_end(r, &x);
	/* A gang needs its machines in one zone: capacity freed there is more likely to come back
	 * there. */
	for (size_t i = 0; !found && f->nodes > 1 && i < p->ranking.refused_n; i++) {
		const struct refused *y = &p->ranking.refused[i];

		found = y->why == REFUSED_QUOTA && !quota_tried(r, &zones, f, y->offer, true) &&
		    quota_free(r, m, f, p, y->offer, true);
	}
	for (size_t i = 0; !found && i < p->ranking.refused_n; i++) {
		const struct refused *y = &p->ranking.refused[i];

		found = y->why == REFUSED_QUOTA && !quota_tried(r, &quotas, f, y->offer, false) &&
		    quota_free(r, m, f, p, y->offer, false);
	}
	return found;
}
