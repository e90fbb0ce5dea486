/* State transitions by the tables of core/life/life.h, and names for launches. */
#include "base/base.h"
#include "engine/kernel/kernel.h"

enum node_state node_next(int64_t id, enum node_state state, enum node_event ev)
{
	struct fsm_edge edge = node_edge(state, ev);

	if (edge.to == 0) {
		log_error("node.refused", I64("node", id), STR("state", node_state_name(state)),
		    STR("event", node_event_name(ev)));
	}
	return (enum node_state)edge.to;
}

enum job_state job_next(int64_t id, enum job_state state, enum job_event ev)
{
	struct fsm_edge edge = job_edge(state, ev);

	if (edge.to == 0) {
		log_error("job.refused", I64("job", id), STR("state", job_state_name(state)),
		    STR("event", job_event_name(ev)));
	}
	return (enum job_state)edge.to;
}

struct moved {
	int64_t id;
	const char *was, *now, *event, *why;
};

static struct moved *moved_new(struct recon *r, int64_t id, const char *was, const char *now,
    const char *event, const char *why)
{
	struct moved *m = arena_alloc(r->pass_arena, sizeof(*m)); /* also for a part of the pass */

	*m = (struct moved){ .id = id,
		.was = was,
		.now = now,
		.event = event,
		.why = arena_strdup(r->pass_arena, why) };
	return m;
}

static void node_moved(struct step *s)
{
	const struct moved *m = s->ctx;

	if (pg_rows(s->req.result) == 1) {
		log_info("node.moved", I64("node", m->id), STR("was", m->was), STR("now", m->now),
		    STR("event", m->event), STR("why", m->why));
	}
}

static void job_moved(struct step *s)
{
	const struct moved *m = s->ctx;

	if (pg_rows(s->req.result) == 1) {
		log_info("job.moved", I64("job", m->id), STR("was", m->was), STR("now", m->now),
		    STR("event", m->event), STR("why", m->why));
	}
}

void node_event(struct recon *r, int64_t id, enum node_state state, enum node_event ev,
    const char *cause, const char *why)
{
	enum node_state next = node_next(id, state, ev);
	struct step *s;

	if (next == NODE_NONE) {
		return;
	}
	s = step_new(r, node_moved,
	    moved_new(r, id, node_state_name(state), node_state_name(next), node_event_name(ev),
		why));
	STEP(s, engine_node_move,
	    (&(struct q_engine_node_move){ .id = id,
		.was = state,
		.now = next,
		.event = ev,
		.why = why,
		.cause = cause,
		.at_us = engine_now(r->e),
		.next_us = 0,
		.fence = r->epoch,
		.bound_us = r->e->conf.loss_bound_us,
		.lost_us = r->e->conf.agent_lost_us }));
}

void node_unwanted(struct recon *r, int64_t id, bool unsure, const char *why)
{
	node_event(r, id, NODE_WANTED, unsure ? NODE_EV_AMBIGUOUS : NODE_EV_UNWANTED, "unwanted",
	    why);
}

void job_event(struct recon *r, int64_t id, enum job_state state, int32_t epoch, enum job_event ev,
    const char *reason, const char *why)
{
	enum job_state next = job_next(id, state, ev);
	struct step *s;

	if (next == JOB_NONE) {
		return;
	}
	s = step_new(r, job_moved,
	    moved_new(r, id, job_state_name(state), job_state_name(next), job_event_name(ev), why));
	STEP(s, engine_job_move,
	    (&(struct q_engine_job_move){ .id = id,
		.was = state,
		.epoch = epoch,
		.now = next,
		.event = ev,
		.why = why,
		.reason = reason,
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
}

void job_explain(struct recon *r, int64_t id, enum job_state state, int32_t epoch, const char *why)
{
	struct step *s = step_new(r, NULL, NULL);

	STEP(s, engine_wait_for_job,
	    (&(struct q_engine_wait_for_job){ .job_id = id,
		.was = state,
		.epoch = epoch,
		.inputs = "{}",
		.outcome = "{\"choice\":\"wait\",\"until_us\":0}",
		.why = why,
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
}

/* Token and name hold the installation and 64 random bits. The name also holds the second of its
 * making. Lambda reports no creation time (its API docs list none), and the age must be readable
 * from somewhere. */
void token_make(struct engine *e, char token[65], char name[65])
{
	char part[17];

	rng_hex(loop_rng(e->loop), part, 8);
	snprintf(token, 65, "spt-%s-n%s", e->install, part);
	snprintf(name, 65, "brk.%s.n%s.%" PRId64, e->install, part, engine_now(e) / SPOT_US_PER_S);
}

struct q_node_label *node_labels_make(struct recon *r, size_t n)
{
	struct q_node_label *labels = arena_array(r->arena, n, sizeof(*labels));

	for (size_t i = 0; i < n; i++) {
		char token[65], name[65];

		token_make(r->e, token, name);
		labels[i] = (struct q_node_label){ .token = arena_strdup(r->arena, token),
			.name = arena_strdup(r->arena, name) };
	}
	return labels;
}
