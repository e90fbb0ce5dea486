/*
 * Doubts about machines, and verdicts that proved wrong. A verdict is a row with the evidence at
 * that moment (table verdict, function node_seen). The move that gives a machine up writes it
 * (engine_node_move), and the settling of a job writes those about jobs. This file does the rest.
 * It suspects or clears machines, and finds machines that were alive after they were given up. The
 * API counts these in its metrics, and losses found too late; doctor reports both. Nothing here
 * ends or moves anything.
 */
#include "base/base.h"
#include "engine/kernel/kernel.h"
#include "engine/watch/watch.h"

#define PAUSE_US (2 * SPOT_US_PER_S)

static void doubts_read(struct step *s)
{
	struct q_engine_watch_doubt_row *rows;
	size_t n = q_engine_watch_doubt_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		if (rows[i].begins) {
			log_warn("node.suspected", I64("node", rows[i].id),
			    STR("why", rows[i].why));
		} else {
			log_info("node.healthy", I64("node", rows[i].id), STR("why", rows[i].why));
		}
	}
}

static void alive_read(struct step *s)
{
	struct q_engine_watch_alive_row *rows;
	size_t n = q_engine_watch_alive_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		log_warn("node.was_alive", I64("node", rows[i].node_id),
		    STR("verdict", rows[i].kind), STR("why", rows[i].why));
	}
}

struct verdicts {
	int64_t doubted_us; /* mono: nodes were last checked for doubts; 0 = never */
};

static void verdict_pass(struct recon *r, void *state)
{
	struct verdicts *v = state;
	struct engine *e = r->e;
	int64_t mono = loop_mono_us(e->loop), now = engine_now(e);
	struct step *s;

	if (v->doubted_us != 0 && mono - v->doubted_us < MIN(e->conf.watch_us, PAUSE_US)) {
		return;
	}
	v->doubted_us = mono;
	s = step_new(r, doubts_read, NULL);
	STEP(s, engine_watch_doubt,
	    (&(struct q_engine_watch_doubt){ .at_us = now,
		.silent_us = e->conf.agent_silent_us,
		.up_us = e->led_since_us,
		.fence = r->epoch }));
	s = step_new(r, alive_read, NULL);
	STEP(s, engine_watch_alive,
	    (&(struct q_engine_watch_alive){ .at_us = now,
		.grace_us = e->conf.agent_silent_us,
		.fence = r->epoch }));
}

const struct recon_kind verdict_kind = { .name = "verdict",
	.idle_ticks = 5,
	.state_size = sizeof(struct verdicts),
	.pass = verdict_pass };
