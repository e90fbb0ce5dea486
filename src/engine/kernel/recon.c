/* Turns of reconcilers and their statements. */
#include "base/base.h"
#include "base/log.h"
#include "engine/kernel/kernel.h"

struct recon *recon_add(struct engine *e, const char *name, int64_t every_us,
    void (*run)(struct recon *))
{
	struct recon *r = calloc(1, sizeof(*r));

	if (r == NULL) {
		abort();
	}
	r->e = e;
	r->name = name;
	r->run = run;
	r->every_us = every_us;
	r->dirty = true;
	r->arena = r->turn = arena_new(0);
	TAILQ_INSERT_TAIL(&e->recons, r, link);
	return r;
}

static void recon_end(struct recon *r)
{
	r->running = false;
	offers_let_go(r);
	files_let_go(r);
	arena_reset(r->arena);
	if (r->changed) {
		engine_wake(r->e);
	} else if (r->dirty) {
		loop_wake(r->e->loop);
	}
}

void part_begin(struct recon *r)
{
	assert(r->arena == r->turn);
	r->arena = arena_new(0);
}

void part_end(struct recon *r)
{
	assert(r->arena != r->turn);
	arena_free(r->arena);
	r->arena = r->turn;
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
		if (s->req.stmt->writes && pg_rows(s->req.result) > 0) {
			r->changed = true;
		}
	} else if (op->rc != SPOT_CANCELLED) {
		/* Nothing is lost: the next turn reads the rows again. */
		log_warn("engine.statement", STR("turn", r->name),
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
	if (--r->steps == 0) {
		recon_end(r);
	}
}
