/*
 * Moves of fleets' nodes: launch before drain. core/fleet/fleet_move.h decides, fleet_move_judge.c
 * reads the rows for it and wants the replacements. This file carries the moves out. An idle node
 * goes as soon as its replacement is ready. A node with a job drains when the replacement was ready
 * for return_hold, as if a person had asked for it. The job goes on there (bind.c).
 *
 * By itself the reconciler only moves nodes from on demand to spot, and nodes whose capacity ends.
 * All other moves are asked for (rebalance.c). Twice a minute it stores with each fleet why its
 * nodes are where they are.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/place/place_priv.h"

#define PAGE 64
#define DUE_MOST 8 /* fleets judged in a pass of its own */
#define SHOWN_US (30 * SPOT_US_PER_S)
#define MOVE_TICKS 5
/* time that a drain leaves for saving, as for a person's */
#define DRAIN_US (15 * 60 * SPOT_US_PER_S)

/* ---- fleets, one after the other ------------------------------------------------------------- */

struct fleet_turn {
	struct fleet_moving *m;
	struct q_engine_fleet_move_facts_row *facts;
};

static void fleet_next(struct recon *r, struct fleet_moving *m);

static void nodes_read(struct step *s)
{
	struct fleet_turn *t = s->ctx;
	struct q_engine_fleet_move_nodes_row *rows;
	size_t n;

	part_begin(s->r); /* a judgement scores the whole market */
	n = q_engine_fleet_move_nodes_rows(&s->req, s->r->arena, &rows);
	fleet_moves_judge(s->r, t->m, t->facts, rows, n);
	part_end(s->r);
	fleet_next(s->r, t->m);
}

static void facts_read(struct step *s)
{
	struct fleet_moving *m = s->ctx;
	struct fleet_turn *t = arena_alloc(s->r->pass_arena, sizeof(*t));
	struct step *next;

	t->m = m;
	if (q_engine_fleet_move_facts_rows(&s->req, s->r->pass_arena, &t->facts) == 0) {
		fleet_next(s->r, m);
		return;
	}
	next = step_new(s->r, nodes_read, t);
	STEP(next, engine_fleet_move_nodes,
	    (&(struct q_engine_fleet_move_nodes){ .id = t->facts->id }));
}

static void fleets_read(struct step *s)
{
	struct fleet_moving *m = s->ctx;
	struct q_engine_fleet_movers_row *rows;

	m->list_n = q_engine_fleet_movers_rows(&s->req, s->r->pass_arena, &rows);
	m->list = arena_array(s->r->pass_arena, m->list_n + 1, sizeof(*m->list));
	for (size_t i = 0; i < m->list_n; i++) {
		m->after_id = m->list[i] = rows[i].id;
	}
	m->at = 0;
	if (m->list_n == 0) {
		m->then(s->r, m->ctx);
	} else {
		fleet_next(s->r, m);
	}
}

static void fleet_next(struct recon *r, struct fleet_moving *m)
{
	struct step *s;

	if (m->at < m->list_n) {
		s = step_new(r, facts_read, m);
		STEP(s, engine_fleet_move_facts,
		    (&(struct q_engine_fleet_move_facts){ .id = m->list[m->at++],
			.at_us = engine_now(r->e) }));
	} else if (m->ids_n > 0 || m->only != 0) {
		m->then(r, m->ctx);
	} else {
		s = step_new(r, fleets_read, m);
		STEP(s, engine_fleet_movers,
		    (&(struct q_engine_fleet_movers){ .after_id = m->after_id, .most = PAGE }));
	}
}

static void answer_free(struct recon *r, void *ctx)
{
	struct fleet_moving *m = ctx;

	(void)r;
	json_decref(m->moves);
	json_decref(m->kept);
}

void fleet_moves_run(struct recon *r, struct fleet_moving *m)
{
	m->moves = json_array();
	m->kept = json_array();
	recon_at_end(r, answer_free, m);
	m->list_n = m->only != 0 ? 1 : m->ids_n;
	m->list = arena_array(r->pass_arena, m->list_n + 1, sizeof(*m->list));
	for (size_t i = 0; i < m->list_n; i++) {
		m->list[i] = m->only != 0 ? m->only : m->ids[i];
	}
	fleet_next(r, m);
}

/* ---- pairs: the replacement is ready --------------------------------------------------------- */

static void old_drain(struct recon *r, const struct q_engine_fleet_pairs_row *p)
{
	struct step *s = step_new(r, NULL, NULL);

	log_info("fleet.moves", STR("fleet", p->fleet), I64("from", p->old_id), I64("to", p->id));
	STEP(s, engine_fleet_drain,
	    (&(struct q_engine_fleet_drain){ .node_id = p->old_id,
		.replacement_id = p->id,
		.why = arena_printf(r->arena, "moves to n%" PRId64 ", which is ready", p->id),
		.deadline_us = engine_now(r->e) + DRAIN_US,
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
}

static void pair_go_on(struct recon *r, const struct q_engine_fleet_pairs_row *p)
{
	int64_t wait = p->ready_us + r->e->conf.supply.return_hold_us - engine_now(r->e);

	if (p->leaves) {
		return; /* the notice is about to be handled */
	}
	if (!p->used) {
		node_event(r, p->old_id, p->old_state, NODE_EV_RELEASE, "released",
		    arena_printf(r->arena, "n%" PRId64 " replaces it", p->id));
	} else if (wait <= 0) {
		old_drain(r, p);
	} else {
		recon_later(r, wait);
	}
}

static void pairs_read(struct step *s)
{
	struct q_engine_fleet_pairs_row *rows;
	size_t n = q_engine_fleet_pairs_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		pair_go_on(s->r, &rows[i]);
	}
}

/* ---- by itself: back to spot, and the reasons ------------------------------------------------ */

struct fleet_due {
	struct fleet_moving returns, shows;
	int64_t *return_ids, *show_ids;
};

static void returned(struct recon *r, void *ctx)
{
	struct fleet_due *d = ctx;

	if (d->shows.ids_n > 0) {
		fleet_moves_run(r, &d->shows);
	}
}

static void shown(struct recon *r, void *ctx)
{
	(void)r;
	(void)ctx;
}

static void due_go(struct recon *r, void *ctx)
{
	struct fleet_due *d = ctx;

	if (d->returns.ids_n > 0) {
		fleet_moves_run(r, &d->returns);
	} else {
		returned(r, d);
	}
}

static void due_read(struct step *s)
{
	struct recon *r = s->r;
	struct q_engine_fleet_moves_due_row *rows;
	size_t n = q_engine_fleet_moves_due_rows(&s->req, r->arena, &rows);
	struct fleet_due *d = arena_alloc(r->arena, sizeof(*d));

	d->return_ids = arena_array(r->arena, n + 1, sizeof(*d->return_ids));
	d->show_ids = arena_array(r->arena, n + 1, sizeof(*d->show_ids));
	d->returns = (struct fleet_moving){ .return_only = true, .then = returned, .ctx = d };
	d->shows = (struct fleet_moving){ .dry = true, .shown = true, .then = shown, .ctx = d };
	d->returns.ids = d->return_ids;
	d->shows.ids = d->show_ids;
	for (size_t i = 0; i < n; i++) {
		if (rows[i].returns) {
			d->return_ids[d->returns.ids_n++] = rows[i].id;
		}
		if (rows[i].shows) {
			d->show_ids[d->shows.ids_n++] = rows[i].id;
		}
	}
	if (n > 0) {
		offers_need(r, due_go, d);
	}
}

static void fleet_move_pass(struct recon *r, void *state)
{
	const struct engine_conf *c = &r->e->conf;
	struct step *s = step_new(r, pairs_read, NULL);

	(void)state;
	STEP(s, engine_fleet_pairs, (&(struct q_engine_fleet_pairs){ .most = 1000 }));
	s = step_new(r, due_read, NULL);
	STEP(s, engine_fleet_moves_due,
	    (&(struct q_engine_fleet_moves_due){ .shown_us = engine_now(r->e) - SHOWN_US,
		.most = DUE_MOST,
		.ends_us = engine_now(r->e) + rank_leave_us(&c->rank, 0) + c->supply.changeover_us +
		    c->supply.return_hold_us }));
}

const struct recon_kind fleet_move_kind = { .name = "fleet_move",
	.wakes = TOUCH_DECISION,
	.ticks = MOVE_TICKS,
	.pass = fleet_move_pass };
