/*
 * Who acts: the lease row. Taken when free or run out, renewed at a third of its life. Our own
 * clock of it starts before the statement is sent, so we stop before others may start.
 */
#include "base/base.h"
#include "base/log.h"
#include "engine/engine_int.h"

bool lease_held(const struct engine *e)
{
	return e->epoch > 0 && loop_mono_us(e->loop) < e->lease_until;
}

bool engine_leads(const struct engine *e)
{
	return lease_held(e);
}

static void lease_lost(struct engine *e, const char *why)
{
	if (e->epoch > 0) {
		log_warn("engine.follows", I64("epoch", e->epoch), STR("why", why));
	}
	e->epoch = 0;
	streams_stop(e);
}

static void lease_renewed(struct op *op)
{
	struct pg_req *req = container_of(op, struct pg_req, op);
	struct engine *e = container_of(req, struct engine, lease_req);

	e->lease_busy = false;
	if (op->rc == SPOT_OK && pg_rows(req->result) == 1) {
		e->lease_until = e->lease_sent + e->conf.lease_us;
	} else if (op->rc == SPOT_OK) {
		lease_lost(e, "another engine holds the lease");
	} else if (!lease_held(e)) {
		lease_lost(e, op->err.text);
	}
	pg_req_fini(req);
	engine_later(e, e->conf.lease_us / 3);
	loop_wake(e->loop);
}

static void lease_taken(struct op *op)
{
	struct pg_req *req = container_of(op, struct pg_req, op);
	struct engine *e = container_of(req, struct engine, lease_req);

	e->lease_busy = false;
	if (op->rc == SPOT_OK && pg_rows(req->result) == 1) {
		e->epoch = pg_int(req->result, 0, 0);
		e->lease_until = e->lease_sent + e->conf.lease_us;
		e->led_since_us = engine_now(e);
		snprintf(e->me, sizeof(e->me), "e%" PRId64, e->epoch);
		log_info("engine.leads", I64("epoch", e->epoch), STR("holder", e->holder));
		engine_wake(e);
	} else if (op->rc != SPOT_OK && op->rc != SPOT_CANCELLED) {
		log_warn("engine.lease", STR("rc", spot_rc_name(op->rc)),
			 STR("error", op->err.text));
	}
	pg_req_fini(req);
	engine_later(e, MIN(e->conf.lease_us / 3, INT64_C(250000)));
}

/* Called in every pass. */
void lease_turn(struct engine *e)
{
	int64_t now = loop_mono_us(e->loop), wall = engine_now(e);

	if (e->lease_busy || e->closing) {
		return;
	}
	if (e->epoch > 0 && now >= e->lease_until) {
		lease_lost(e, "it could not be renewed in time");
	}
	if (e->epoch > 0) {
		int64_t early = e->lease_until - e->conf.lease_us * 2 / 3 - now;

		if (early > 0) {
			engine_later(e, early); /* nothing else may happen until then */
			return;
		}
		e->lease_busy = true;
		e->lease_sent = now;
		q_engine_lease_renew(
		    e->pg, &e->lease_req,
		    &(struct q_engine_lease_renew){.holder = e->holder,
						   .epoch = e->epoch,
						   .until_us = wall + e->conf.lease_us,
						   .at_us = wall},
		    lease_renewed);
		return;
	}
	if (now - e->lease_sent < MIN(e->conf.lease_us / 3, INT64_C(250000)) && e->lease_sent > 0) {
		return;
	}
	e->lease_busy = true;
	e->lease_sent = now;
	q_engine_lease_take(e->pg, &e->lease_req,
			    &(struct q_engine_lease_take){.holder = e->holder,
							  .at_us = wall,
							  .until_us = wall + e->conf.lease_us},
			    lease_taken);
}

static void lease_released(struct op *op)
{
	struct pg_req *req = container_of(op, struct pg_req, op);
	struct engine *e = container_of(req, struct engine, lease_req);

	e->lease_busy = false;
	pg_req_fini(req);
	e->released(e->released_ctx);
}

void engine_release(struct engine *e, void (*done)(void *ctx), void *ctx)
{
	int64_t epoch = e->epoch;

	if (e->lease_busy) {
		op_fini(&e->lease_req.op);
		pg_req_fini(&e->lease_req);
		e->lease_busy = false;
	}
	e->closing = true;
	e->epoch = 0;
	streams_stop(e);
	if (epoch == 0) {
		done(ctx);
		return;
	}
	e->released = done;
	e->released_ctx = ctx;
	e->lease_busy = true;
	q_engine_lease_release(
	    e->pg, &e->lease_req,
	    &(struct q_engine_lease_release){.holder = e->holder, .epoch = epoch}, lease_released);
}
