/*
 * Doubts about machines, and what became of verdicts. A verdict is a row with what was seen by whom
 * at that moment (table verdict, function node_seen): those that give a machine up are written by
 * the move itself (engine_node_move), those about a job by its settling. Here are the rest: a
 * machine comes under suspicion or is cleared, and a machine that was given up turns out to have
 * been alive. The latter, and losses that took too long to be found, are counted in /metrics and
 * told by doctor. Nothing here ends or moves anything.
 */
#include "base/base.h"
#include "base/log.h"
#include "engine/doctor/doctor.h"
#include "engine/kernel/kernel.h"
#include "engine/watch/watch.h"

#define PAUSE_US (2 * SPOT_US_PER_S)
#define HISTORY_US (INT64_C(30) * 86400 * SPOT_US_PER_S)

static void doubted(struct step *s)
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

static void alive(struct step *s)
{
	struct q_engine_watch_alive_row *rows;
	size_t n = q_engine_watch_alive_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		log_warn("node.was_alive", I64("node", rows[i].node_id),
		    STR("verdict", rows[i].kind), STR("why", rows[i].why));
	}
}

void verdict_run(struct recon *r)
{
	struct engine *e = r->e;
	int64_t mono = loop_mono_us(e->loop), now = engine_now(e);
	struct step *s;

	if (e->watch->doubted_us != 0 &&
	    mono - e->watch->doubted_us < MIN(e->conf.watch_us, PAUSE_US)) {
		return;
	}
	e->watch->doubted_us = mono;
	s = step_new(r, doubted, NULL);
	STEP(s, engine_watch_doubt,
	    (&(struct q_engine_watch_doubt){ .at_us = now,
		.silent_us = e->conf.agent_silent_us,
		.up_us = e->led_since_us,
		.fence = r->epoch }));
	s = step_new(r, alive, NULL);
	STEP(s, engine_watch_alive,
	    (&(struct q_engine_watch_alive){ .at_us = now,
		.grace_us = e->conf.agent_silent_us,
		.fence = r->epoch }));
}

/* ---- what doctor tells ----------------------------------------------------------------------- */

static void verdicts_items(struct act *a, const struct q_engine_doctor_verdicts_row *w)
{
	if (w->alive == 0) {
		look_item(a, "false recoveries", SPOT_CHECK_OK, "",
		    "of %" PRId64 " machines given up in 30 days none is known to have been alive",
		    w->total);
	} else {
		look_item(a, "false recoveries", SPOT_CHECK_WARN,
		    "spotctl node show NODE tells what was seen by whom; raise [engine] agent_lost "
		    "(boot_timeout where "
		    "machines come late)",
		    "%" PRId64 " of %" PRId64 " machines given up in 30 days were alive: %s",
		    w->alive, w->total, w->alive_words);
	}
	look_amount(a, w->alive);
	if (w->missed == 0) {
		look_item(a, "missed losses", SPOT_CHECK_OK, "",
		    "of %" PRId64 " machines given up in 30 days none was over for long before",
		    w->total);
	} else {
		look_item(a, "missed losses", SPOT_CHECK_WARN,
		    "spotctl node show NODE tells what was seen by whom; see whether the provider "
		    "answered (spotctl doctor "
		    "PROVIDER), and [engine] watch, agent_lost, loss_bound",
		    "%" PRId64 " of %" PRId64
		    " machines given up in 30 days were over for too long before: %s",
		    w->missed, w->total, w->missed_words);
	}
	look_amount(a, w->missed);
	look_item(a, "suspected machines", SPOT_CHECK_OK, "", "%" PRId64 " now", w->suspects);
	look_amount(a, w->suspects);
}

static void verdicts_read(struct op *op)
{
	struct pg_req *req = container_of(op, struct pg_req, op);
	struct act *a = container_of(req, struct act, req);
	struct q_engine_doctor_verdicts_row *row;

	a->writing = false;
	if (op->rc == SPOT_OK && q_engine_doctor_verdicts_rows(req, a->arena, &row) == 1) {
		verdicts_items(a, row);
	} else {
		look_item(a, "false recoveries", SPOT_CHECK_UNTESTED,
		    "ask again when the database has less to do", "%s", op->err.text);
	}
	pg_req_fini(req);
	look_write(a);
}

void self_verdicts(struct exam *x)
{
	struct act *a = look_new(x, DOCTOR_SELF, "", "verdicts", NULL);

	a->writing = true;
	q_engine_doctor_verdicts(a->e->pg, &a->req,
	    &(struct q_engine_doctor_verdicts){ .since_us = engine_now(a->e) - HISTORY_US },
	    verdicts_read);
}
