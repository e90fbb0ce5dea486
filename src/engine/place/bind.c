/* Binds a job that waits to a node that is ready. */
#include "base/base.h"
#include "core/money/money.h"
#include "engine/place/place_priv.h"

struct binding {
	const struct q_engine_assign_jobs_row *job;
	const struct q_engine_free_nodes_row *node;
	int64_t restore_id; /* 0 = none */
};

static void job_assigned(struct step *s)
{
	const struct binding *a = s->ctx;

	if (pg_rows(s->req.result) == 1) {
		log_info("job.placed", I64("job", a->job->id), I64("epoch", a->job->epoch + 1),
		    I64("node", a->node->id));
	}
}

static void bind_write(struct recon *r, struct binding *a, const char *files, int64_t until_us)
{
	const struct q_engine_assign_jobs_row *j = a->job;
	enum job_state next = job_next(j->id, j->state, JOB_EV_PLACED);
	struct step *s;

	if (next == JOB_NONE) {
		return;
	}
	s = step_new(r, job_assigned, a);
	STEP(s, engine_assign,
	    (&(struct q_engine_assign){ .job_id = j->id,
		.was = j->state,
		.epoch = j->epoch,
		.node_id = a->node->id,
		.now = next,
		.event = JOB_EV_PLACED,
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

static void bind_files(struct files *f)
{
	struct binding *a = f->ctx;

	if (f->rc == SPOT_OK) {
		bind_write(f->r, a, f->text[0], f->until_us);
	} else {
		files_missing(f, a->job->state, a->job->epoch);
	}
}

void bind_start(struct recon *r, const struct q_engine_assign_jobs_row *j,
    const struct job_spec *spec, const struct q_engine_free_nodes_row *node)
{
	struct binding *a = arena_alloc(r->arena, sizeof(*a));

	*a = (struct binding){ .job = j,
		.node = node,
		.restore_id = j->has_checkpoint_id ? j->checkpoint_id : 0 };
	if (!j->has_checkpoint_id && spec->mounts_n == 0) {
		bind_write(r, a, "[]", engine_now(r->e) + r->e->conf.url_life_us);
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
		.then = bind_files,
		.ctx = a });
}

static bool node_suits(struct recon *r, const struct q_engine_free_nodes_row *n,
    const struct job_spec *spec)
{
	const struct offer *o = offer_find(r->e, n->pool_id);

	if (o == NULL || (spot_market_reclaims(o->market) && !spec->interruptible)) {
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
    const struct q_engine_assign_jobs_row *j)
{
	if (n->kept && n->job_id != j->id) {
		return false;
	}
	if (j->has_fleet_id || n->has_fleet_id) {
		return j->has_fleet_id && n->has_fleet_id && j->fleet_id == n->fleet_id;
	}
	return !n->has_job_id || job_state_final(n->job_state);
}

size_t node_choose(struct recon *r, const struct assign_pass *t,
    const struct q_engine_assign_jobs_row *j, const struct job_spec *spec)
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
			!room_held(&t->room, offer_find(r->e, t->nodes[i].pool_id))) &&
		    node_suits(r, &t->nodes[i], spec)) {
			best = i;
		}
	}
	return best;
}

bool node_dear(const struct engine *e, const struct q_engine_assign_jobs_row *j,
    const struct job_spec *spec, const struct q_engine_free_nodes_row *n)
{
	bool own = n->has_job_id && n->job_id == j->id && !n->has_fleet_id;

	return j->has_budget_micros && !own &&
	    j->budget_left < budget_need(n->price_micros, 0, budget_end_us(e), spec);
}
