/*
 * Who acts: the lease row, renewed at a third of its life. Our own clock of it starts before the
 * statement is sent, so we stop before others may start: they take it when they have watched the
 * same row for a whole lease by their own clock (engine_lease_take), as wall clocks of machines
 * differ. That clocks stop, with a process or its machine, is what the epoch is for: whatever is
 * sent later carries an epoch that is over, and changes nothing.
 */
#include "base/base.h"
#include "base/log.h"
#include "engine/engine_int.h"

#define LOOKS 12
#define GAP_US (600 * SPOT_US_PER_S)

bool lease_held(const struct engine *e)
{
	return e->epoch > 0 && loop_mono_us(e->loop) < e->lease_until;
}

bool engine_leads(const struct engine *e)
{
	return lease_held(e);
}

int64_t engine_epoch(const struct engine *e)
{
	return lease_held(e) ? e->epoch : 0;
}

/* Between two looks at a lease that another holds. */
static int64_t look_us(const struct engine *e)
{
	return e->conf.lease_us / LOOKS;
}

static void lease_lost(struct engine *e, const char *why)
{
	if (e->epoch > 0) {
		log_warn("engine.follows", I64("epoch", e->epoch), STR("why", why));
		e->led_epoch = e->epoch;
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
	} else {
		log_warn("engine.lease", STR("rc", spot_rc_name(op->rc)), STR("error", op->err.text));
		e->lease_again = e->lease_sent + look_us(e);
	}
	pg_req_fini(req);
	engine_later(e, e->conf.lease_us / 3);
	loop_wake(e->loop);
}

static void lease_ours(struct engine *e, int64_t epoch)
{
	e->epoch = epoch;
	e->lease_until = e->lease_sent + e->conf.lease_us;
	e->led_since_us = engine_now(e);
	clock_taken_over(e);
	snprintf(e->me, sizeof(e->me), "e%" PRId64, e->epoch);
	log_info("engine.leads", I64("epoch", e->epoch), STR("holder", e->holder));
	engine_wake(e);
}

/* A lease that was renewed between two looks tells its holder's clock. Where that is behind ours, all that the holder launched since looks older to us
 * than it is: clock.c makes up for it when we take the lease. until_us 0: given back. */
static void holder_clock(struct engine *e, int64_t now, int64_t until_us)
{
	int64_t behind = engine_now(e) - (until_us - e->conf.lease_us);

	if (until_us > 0 && behind > look_us(e) + CLOCK_LEAP_US) {
		e->behind_us = behind;
		e->behind_at_us = now;
	}
}

/* It is ours. The holder before us renewed it last at led_us by its clock (0: there was none). Nobody knows whether that clock was behind or nobody led
 * for so long: what it launched is given that time once more, which costs little in the one case and is right in the other. Not of less than a
 * machine's time to boot: a daemon that dies every few seconds would never see a span end. */
static void holder_last(struct engine *e, int64_t led_us)
{
	int64_t gap = led_us > 0 ? engine_now(e) - led_us : 0;

	if (gap > GAP_US) {
		e->behind_us = gap;
		e->behind_at_us = loop_mono_us(e->loop);
	}
}

/* Another holds it: the next look is when it will have stood unchanged for long enough, or soon. Whoever takes it raises the
 * epoch: one that was ours is nobody else's, and need not be watched (the database was away for longer than a lease). */
static void lease_watch(struct engine *e, int64_t epoch, int64_t until_us)
{
	int64_t now = loop_mono_us(e->loop);

	if (epoch == e->led_epoch) {
		e->seen_epoch = epoch;
		e->seen_until_us = until_us;
		e->seen_us = MAX(now - e->conf.lease_us, 1);
		engine_later(e, 1);
		return;
	}
	if (epoch != e->seen_epoch || until_us != e->seen_until_us || e->seen_us == 0) {
		if (e->seen_us != 0) {
			holder_clock(e, now, until_us);
		}
		e->seen_epoch = epoch;
		e->seen_until_us = until_us;
		e->seen_us = now;
	}
	engine_later(e, MIN(look_us(e), e->seen_us + e->conf.lease_us - now));
}

static void lease_taken(struct op *op)
{
	struct pg_req *req = container_of(op, struct pg_req, op);
	struct engine *e = container_of(req, struct engine, lease_req);

	e->lease_busy = false;
	if (op->rc == SPOT_OK && pg_rows(req->result) == 1 && pg_bool(req->result, 0, 1)) {
		holder_last(e, pg_int(req->result, 0, 2));
		lease_ours(e, pg_int(req->result, 0, 0));
	} else if (op->rc == SPOT_OK && pg_rows(req->result) == 1) {
		lease_watch(e, pg_int(req->result, 0, 0), pg_int(req->result, 0, 2));
	} else {
		if (op->rc != SPOT_OK && op->rc != SPOT_CANCELLED) {
			log_warn("engine.lease", STR("rc", spot_rc_name(op->rc)),
				 STR("error", op->err.text));
		}
		e->lease_again = loop_mono_us(e->loop) + look_us(e);
		engine_later(e, look_us(e));
	}
	pg_req_fini(req);
}

static void lease_take(struct engine *e, int64_t now, int64_t wall)
{
	bool stood = e->seen_us > 0 && now - e->seen_us >= e->conf.lease_us;

	e->lease_busy = true;
	e->lease_sent = now;
	q_engine_lease_take(
	    e->pg, &e->lease_req,
	    &(struct q_engine_lease_take){.holder = e->holder,
					  .at_us = wall,
					  .until_us = wall + e->conf.lease_us,
					  .seen_epoch = stood ? e->seen_epoch : -1,
					  .seen_until_us = stood ? e->seen_until_us : -1},
	    lease_taken);
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
	if (!pg_ready(e->pg)) { /* what waits for a connection says a time that is over when it gets one */
		engine_later(e, look_us(e));
		return;
	}
	if (e->epoch > 0) {
		/* A database that refuses it does so at once. */
		int64_t early = MAX(e->lease_until - e->conf.lease_us * 2 / 3, e->lease_again) - now;

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
	if (now >= e->lease_again &&
	    (e->lease_sent == 0 || now - e->lease_sent >= look_us(e) || (e->seen_us > 0 && now - e->seen_us >= e->conf.lease_us))) {
		lease_take(e, now, wall);
	}
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
