/*
 * Heartbeats and progress of agents. They are collected for a second and written in one statement.
 * With 100,000 agents every 15 s, an update per poll would be most of the database's work. A crash
 * loses the last second, and the next polls repeat it. The daemon's own heartbeat is here too: an
 * agent counts as silent only while an API listens (engine_watch_due).
 */
#include "base/base.h"
#include "api/server/server_priv.h"
#include "store/store.h"

#define FLUSH_US SPOT_US_PER_S
#define BATCH_MAX 20000

static void beat_sent(struct op *op)
{
	struct api *api = container_of(op, struct api, seen.beat.op);

	pg_req_fini(&api->seen.beat);
	loop_timer_set(&api->seen.beat_timer, LISTEN_BEAT_US);
}

static void beat_send(struct loop_timer *t)
{
	struct api *api = container_of(t, struct api, seen.beat_timer);

	q_api_listens(api->pg, &api->seen.beat, NULL, beat_sent);
}

static void seen_flush(struct seen *s, struct api *api);

static void seen_flushed(struct op *op)
{
	struct api *api = container_of(op, struct api, seen.req.op);

	api->seen.busy = false;
	pg_req_fini(&api->seen.req);
	if (api->seen.n > 0) {
		loop_timer_set(&api->seen.timer, FLUSH_US);
	}
}

static void seen_flush(struct seen *s, struct api *api)
{
	if (s->busy || s->n == 0) {
		return;
	}
	s->busy = true;
	q_api_agents_seen(api->pg, &s->req,
	    &(struct q_api_agents_seen){ .agent = s->agents, .agent_n = s->n }, seen_flushed);
	s->n = 0;
}

static void timer_fire(struct loop_timer *t)
{
	struct api *api = container_of(t, struct api, seen.timer);

	seen_flush(&api->seen, api);
}

void seen_init(struct api *api)
{
	loop_timer_init(&api->seen.timer, api->loop, timer_fire);
	loop_timer_init(&api->seen.beat_timer, api->loop, beat_send);
	loop_timer_set(&api->seen.beat_timer, 0);
}

void seen_add(struct api *api, int64_t node, int64_t job, int32_t epoch, int64_t steps)
{
	struct seen *s = &api->seen;

	if (s->n == BATCH_MAX) {
		/* A database that is away: the newest words are the ones that count. */
		if (s->busy) {
			s->n = 0;
		} else {
			seen_flush(s, api);
		}
	}
	if (s->n == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 64;
		s->agents = reallocarray(s->agents, s->cap, sizeof(*s->agents));
		if (!s->agents) {
			abort();
		}
	}
	s->agents[s->n++] = (struct q_api_agents_seen_agent){ .node_id = node,
		.at_us = loop_wall_us(api->loop),
		.job_id = job,
		.epoch = epoch,
		.steps = steps };
	if (!s->timer.armed && !s->busy) {
		loop_timer_set(&s->timer, FLUSH_US);
	}
}

void seen_fini(struct api *api)
{
	struct seen *s = &api->seen;

	loop_timer_stop(&s->timer);
	loop_timer_stop(&s->beat_timer);
	pg_req_fini(&s->req);
	pg_req_fini(&s->beat);
	free(s->agents);
}
