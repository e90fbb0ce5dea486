/* Reconcilers: their state, their passes and the statements of these. */
#include "base/base.h"
#include "engine/kernel/kernel_priv.h"

/* Whatever its ticks are, a reconciler without changes runs this often. */
#define PAUSE_MOST_US (60 * SPOT_US_PER_S)

void recon_add(struct engine *e, const struct recon_kind *kind)
{
	struct recon *r = calloc(1, sizeof(*r));
	void *state = calloc(1, MAX(kind->state_size, (size_t)1));

	if (r == NULL || state == NULL) {
		abort();
	}
	r->e = e;
	r->kind = kind;
	r->state = state;
	r->dirty = TOUCH_ALL;
	r->arena = r->pass_arena = arena_new(0);
	TAILQ_INSERT_TAIL(&e->recons, r, link);
	if (kind->init != NULL) {
		kind->init(e, r->state);
	}
}

void *recon_state(const struct engine *e, const struct recon_kind *kind)
{
	struct recon *r;

	TAILQ_FOREACH (r, &e->recons, link) {
		if (r->kind == kind) {
			return r->state;
		}
	}
	abort(); /* it is missing in engine.c */
}

void recon_at_end(struct recon *r, void (*run)(struct recon *, void *), void *ctx)
{
	struct recon_end *end = arena_alloc(r->pass_arena, sizeof(*end));

	*end = (struct recon_end){ .run = run, .ctx = ctx, .next = r->ends };
	r->ends = end;
}

/* When the next pass is due if nothing changes. */
static int64_t recon_pause_us(const struct recon *r)
{
	int64_t tick = r->e->conf.tick_us;
	int ticks = r->found || r->kind->idle_ticks == 0 ? r->kind->ticks : r->kind->idle_ticks;

	return MAX(tick, MIN(ticks * tick, PAUSE_MOST_US));
}

static void recon_finish(struct recon *r)
{
	struct recon_end *end = r->ends;

	r->running = false;
	r->due_us = r->began_us + recon_pause_us(r);
	for (r->ends = NULL; end != NULL; end = end->next) {
		end->run(r, end->ctx);
	}
	arena_reset(r->arena);
}

void recon_run(struct recon *r)
{
	r->running = true;
	r->epoch = r->e->epoch;
	r->seen = r->dirty;
	if (loop_mono_us(r->e->loop) >= r->later_us) {
		r->later_us = 0;
	}
	r->dirty = r->touched = 0;
	r->changed = false;
	r->found = false;
	r->began_us = loop_mono_us(r->e->loop);
	r->steps = 1; /* the pass itself, so that it cannot end before kind->pass returns */
	r->kind->pass(r, r->state);
	if (--r->steps == 0) {
		recon_finish(r);
	}
}

static void recon_end_pass(struct recon *r)
{
	recon_finish(r);
	if (r->changed || r->touched != 0) {
		/* It may have more of the same to do. Its own rows are no news to it. */
		r->due_us = 0;
		engine_touch_others(r, r->touched);
	}
	if (r->dirty != 0 || r->due_us == 0) {
		loop_wake(r->e->loop);
	}
}

void recon_later(struct recon *r, int64_t after_us)
{
	int64_t at = loop_mono_us(r->e->loop) + MAX(after_us, INT64_C(1000));

	if (r->later_us == 0 || at < r->later_us) {
		r->later_us = at;
		engine_later(r->e, after_us);
	}
}

bool recon_paced(struct recon *r, int64_t *next_us, int64_t pause_us)
{
	int64_t now = loop_mono_us(r->e->loop);

	if (now < *next_us) {
		recon_later(r, *next_us - now);
		return false;
	}
	*next_us = now + pause_us;
	return true;
}

void recon_later_of(const struct engine *e, const struct recon_kind *kind, int64_t after_us)
{
	struct recon *r;

	TAILQ_FOREACH (r, &e->recons, link) {
		if (r->kind == kind) {
			recon_later(r, after_us);
		}
	}
}

bool recon_due(const struct recon *r, int64_t now)
{
	return r->dirty != 0 || now >= r->due_us || (r->later_us != 0 && now >= r->later_us);
}

void recon_lease_lost(struct engine *e)
{
	struct recon *r;

	TAILQ_FOREACH (r, &e->recons, link) {
		if (r->kind->lease_lost != NULL) {
			r->kind->lease_lost(r->state);
		}
	}
}

void part_begin(struct recon *r)
{
	assert(r->arena == r->pass_arena);
	r->arena = arena_new(0);
}

void part_end(struct recon *r)
{
	assert(r->arena != r->pass_arena);
	arena_free(r->arena);
	r->arena = r->pass_arena;
}

void recon_hold(struct recon *r)
{
	r->steps++;
}

void recon_release(struct recon *r)
{
	if (--r->steps == 0) {
		recon_end_pass(r);
	}
}

struct step *step_new(struct recon *r, void (*then)(struct step *), void *ctx)
{
	struct step *s = calloc(1, sizeof(*s));

	if (s == NULL) {
		abort();
	}
	s->r = r;
	s->then = then;
	s->ctx = ctx;
	r->steps++;
	TAILQ_INSERT_TAIL(&r->e->steps, s, link);
	return s;
}

size_t step_rows(const struct step *s)
{
	return s->req.op.rc == SPOT_OK ? pg_rows(s->req.result) : 0;
}

static void step_free(void *p)
{
	struct step *s = p;

	pg_req_fini(&s->req);
	free(s);
}

void step_done(struct op *op)
{
	struct step *s = container_of(container_of(op, struct pg_req, op), struct step, req);
	struct recon *r = s->r;

	if (op->rc == SPOT_OK) {
		r->found |= pg_rows(s->req.result) > 0;
		if (s->req.stmt->writes && pg_rows(s->req.result) > 0) {
			r->touched |= s->req.stmt->touches;
		}
	} else if (op->rc != SPOT_CANCELLED) {
		/* Nothing is lost: the next pass reads the rows again. */
		r->found = true;
		log_warn("engine.statement", STR("turn", r->kind->name),
		    STR("statement", s->req.stmt->name), STR("rc", spot_rc_name(op->rc)),
		    STR("error", op->err.text));
	}
	if (s->then != NULL && (op->rc == SPOT_OK || s->always)) {
		r->e->refused = op->rc != SPOT_OK;
		s->then(s);
		r->e->refused = false;
	}
	TAILQ_REMOVE(&r->e->steps, s, link);
	loop_bury(r->e->loop, s, step_free);
	recon_release(r);
}

void recon_drop_steps(struct engine *e)
{
	struct step *s;

	while ((s = TAILQ_FIRST(&e->steps)) != NULL) {
		TAILQ_REMOVE(&e->steps, s, link);
		op_fini(&s->req.op);
		step_free(s);
	}
}

void recon_drop(struct engine *e)
{
	struct recon *r;

	while ((r = TAILQ_FIRST(&e->recons)) != NULL) {
		TAILQ_REMOVE(&e->recons, r, link);
		recon_finish(r);
		if (r->kind->fini != NULL) {
			r->kind->fini(r->state);
		}
		arena_free(r->arena);
		free(r->state);
		free(r);
	}
}
