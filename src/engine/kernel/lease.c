/*
 * Who acts: the lease row, renewed at a third of its life. Our own clock of it starts before the
 * statement is sent, so we stop before others may start: they take it when they have watched the
 * same row for a whole lease by their own clock (engine_lease_take), as wall clocks of machines
 * differ. That clocks stop, with a process or its machine, is what the epoch is for: whatever is
 * sent later carries an epoch that is over, and changes nothing.
 *
 * A statement may be long under way though the database answers others: it waits behind a slow one
 * on its connection. So a renewal that is not answered has another one beside it, and a look that
 * is not is given up. All of them compare what the row says before they set it: in whatever order
 * they come, none undoes a later one.
 */
#include "base/base.h"
#include "base/log.h"
#include "engine/kernel/kernel.h"

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

static void ask_drop(struct lease_ask *a)
{
	if (a->busy) {
		a->busy = false;
		pg_req_fini(&a->req);
	}
}

void lease_drop(struct engine *e)
{
	for (size_t i = 0; i < ARRAY_LEN(e->lease_asks); i++) {
		ask_drop(&e->lease_asks[i]);
	}
}

static void ask_begin(struct lease_ask *a, struct engine *e, int64_t now, int64_t wall)
{
	a->e = e;
	a->busy = true;
	a->sent_us = e->lease_sent = now;
	a->until_us = wall + e->conf.lease_us;
}

static struct lease_ask *ask_of(struct op *op)
{
	return container_of(container_of(op, struct pg_req, op), struct lease_ask, req);
}

static void lease_lost(struct engine *e, const char *why)
{
	if (e->epoch > 0) {
		log_warn("engine.follows", I64("epoch", e->epoch), STR("why", why));
		e->led_epoch = e->epoch;
	}
	e->epoch = 0;
	lease_drop(e);
	streams_stop(e);
}

/* The row says until_us, or what was sent later. */
static void lease_said(struct engine *e, int64_t until_us)
{
	size_t i = 0;

	while (i + 1 < e->lease_said_n && e->lease_said[i] != until_us) {
		i++;
	}
	e->lease_said_n -= i;
	memmove(e->lease_said, e->lease_said + i, e->lease_said_n * sizeof(*e->lease_said));
}

static void lease_renewed(struct op *op)
{
	struct lease_ask *a = ask_of(op);
	struct engine *e = a->e;
	struct lease_ask *other = &e->lease_asks[a == e->lease_asks];
	/* it knew all that the row may say */
	bool newest = e->lease_said[e->lease_said_n - 1] == a->until_us;

	a->busy = false;
	if (op->rc == SPOT_OK && pg_rows(a->req.result) == 1) {
		e->lease_until = MAX(e->lease_until, a->sent_us + e->conf.lease_us);
		lease_said(e, a->until_us);
		if (other->sent_us < a->sent_us) {
			ask_drop(other); /* it would find another value by now */
		}
	} else if (op->rc == SPOT_OK && newest) {
		lease_lost(e, "another engine holds the lease, or its row is an older one");
	} else if (op->rc != SPOT_OK && !lease_held(e)) {
		lease_lost(e, op->err.text);
	} else if (op->rc != SPOT_OK) {
		log_warn("engine.lease", STR("rc", spot_rc_name(op->rc)),
		    STR("error", op->err.text));
		e->lease_again = a->sent_us + look_us(e);
	} /* else a later one was first, whether or not we heard of it */
	pg_req_fini(&a->req);
	engine_later(e, e->conf.lease_us / 3);
	loop_wake(e->loop);
}

static void lease_ours(struct engine *e, int64_t epoch)
{
	e->epoch = epoch;
	e->known_epoch = MAX(e->known_epoch, epoch);
	e->lease_until = e->lease_asks[0].sent_us + e->conf.lease_us;
	e->led_since_us = engine_now(e);
	clock_taken_over(e);
	snprintf(e->me, sizeof(e->me), "e%" PRId64, e->epoch);
	log_info("engine.leads", I64("epoch", e->epoch), STR("holder", e->holder));
	engine_wake(e);
}

/* A lease that was renewed between two looks tells its holder's clock. Where that is behind ours,
 * all that the holder launched since looks older to us than it is: clock.c makes up for it when we
 * take the lease. until_us 0: given back. */
static void holder_clock(struct engine *e, int64_t now, int64_t until_us)
{
	int64_t behind = engine_now(e) - (until_us - e->conf.lease_us);

	if (until_us > 0 && behind > look_us(e) + CLOCK_LEAP_US) {
		e->behind_us = behind;
		e->behind_at_us = now;
	}
}

/* It is ours, and for gap_us nobody had renewed it by our clock. Nobody knows whether the
 * holder's clock was behind or nobody led for so long: what it launched is given that time once
 * more, which costs little in the one case and is right in the other. So is what leaders within
 * the last hour had found (most_us, last at gap_at_us by the wall clock), who may have died
 * since. Not of less than a machine's time to boot: a daemon that dies every few seconds would
 * never see a span end. */
static void holder_last(struct engine *e, int64_t gap_us, int64_t most_us, int64_t gap_at_us)
{
	int64_t now = loop_mono_us(e->loop),
		known = now - e->behind_at_us < SPOT_US_PER_HOUR ? e->behind_us : 0;

	if (gap_us == 0 && known == 0) {
		e->behind_at_us = now - MAX(engine_now(e) - gap_at_us, 0);
	} else if (gap_us > 0) {
		e->behind_at_us = now;
	}
	e->behind_us = MAX(MAX(gap_us, known), most_us);
}

/* Another holds it: the next look is when it will have stood unchanged for long enough, or soon.
 * Whoever takes it raises the epoch: one that was ours is nobody else's, and need not be watched
 * (the database was away for longer than a lease). */
static void lease_watch(struct engine *e, int64_t epoch, int64_t until_us)
{
	int64_t now = loop_mono_us(e->loop);

	e->known_epoch = MAX(e->known_epoch, epoch);
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
	struct lease_ask *a = ask_of(op);
	struct engine *e = a->e;

	a->busy = false;
	if (op->rc == SPOT_OK && pg_rows(a->req.result) == 1 && pg_bool(a->req.result, 0, 1)) {
		holder_last(e, pg_int(a->req.result, 0, 3), pg_int(a->req.result, 0, 4),
		    pg_int(a->req.result, 0, 5));
		e->lease_said[0] = a->until_us;
		e->lease_said_n = 1;
		lease_ours(e, pg_int(a->req.result, 0, 0));
	} else if (op->rc == SPOT_OK && pg_rows(a->req.result) == 1) {
		lease_watch(e, pg_int(a->req.result, 0, 0), pg_int(a->req.result, 0, 2));
	} else {
		if (op->rc != SPOT_OK && op->rc != SPOT_CANCELLED) {
			log_warn("engine.lease", STR("rc", spot_rc_name(op->rc)),
			    STR("error", op->err.text));
		}
		e->lease_again = loop_mono_us(e->loop) + look_us(e);
		engine_later(e, look_us(e));
	}
	pg_req_fini(&a->req);
}

static void lease_take(struct engine *e, int64_t now, int64_t wall)
{
	bool stood = e->seen_us > 0 && now - e->seen_us >= e->conf.lease_us;
	struct lease_ask *a = &e->lease_asks[0];

	ask_begin(a, e, now, wall);
	q_engine_lease_take(e->pg, &a->req,
	    &(struct q_engine_lease_take){ .holder = e->holder,
		.at_us = wall,
		.until_us = a->until_us,
		.seen_epoch = stood ? e->seen_epoch : -1,
		.seen_until_us = stood ? e->seen_until_us : -1,
		.known_epoch = e->known_epoch,
		.little_us = GAP_US,
		.since_us = wall - SPOT_US_PER_HOUR },
	    lease_taken);
	engine_later(e, e->conf.lease_us);
}

/* At a third of its life; and beside one that is not answered, after another third. A database that
 * refuses it does so at once. */
static void lease_renew(struct engine *e, int64_t now, int64_t wall)
{
	int64_t third = e->conf.lease_us / 3,
		at = MAX(e->lease_until - e->conf.lease_us * 2 / 3, e->lease_again);
	struct lease_ask *a = NULL;

	for (size_t i = 0; i < ARRAY_LEN(e->lease_asks); i++) {
		if (e->lease_asks[i].busy) {
			at = MAX(at, e->lease_asks[i].sent_us + third);
		} else {
			a = &e->lease_asks[i];
		}
	}
	if (a == NULL || e->lease_said_n == ARRAY_LEN(e->lease_said)) {
		at = e->lease_until;
	}
	if (at > now) {
		/* nothing else may happen until then */
		engine_later(e, MIN(at, e->lease_until) - now);
		return;
	}
	ask_begin(a, e, now, wall);
	q_engine_lease_renew(e->pg, &a->req,
	    &(struct q_engine_lease_renew){ .holder = e->holder,
		.epoch = e->epoch,
		.until_us = a->until_us,
		.at_us = wall,
		.was_us = e->lease_said,
		.was_us_n = e->lease_said_n },
	    lease_renewed);
	e->lease_said[e->lease_said_n++] = a->until_us;
	engine_later(e, third);
}

/* Called in every pass. */
void lease_turn(struct engine *e)
{
	int64_t now = loop_mono_us(e->loop), wall = engine_now(e);

	if (e->closing) {
		return;
	}
	if (e->epoch > 0 && now >= e->lease_until) {
		lease_lost(e, "it could not be renewed in time");
	}
	if (e->epoch == 0 && e->lease_asks[0].busy) {
		int64_t left = e->lease_asks[0].sent_us + e->conf.lease_us - now;

		if (left > 0) {
			engine_later(e, left);
			return;
		}
		ask_drop(&e->lease_asks[0]); /* what it might take would be over */
	}
	/* what waits for a connection says a time that is over when it gets one */
	if (!pg_ready(e->pg)) {
		engine_later(e, look_us(e));
		return;
	}
	if (e->epoch > 0) {
		lease_renew(e, now, wall);
		return;
	}
	if (now >= e->lease_again &&
	    (e->lease_sent == 0 || now - e->lease_sent >= look_us(e) ||
		(e->seen_us > 0 && now - e->seen_us >= e->conf.lease_us))) {
		lease_take(e, now, wall);
	}
}

static void lease_released(struct op *op)
{
	struct lease_ask *a = ask_of(op);
	struct engine *e = a->e;

	a->busy = false;
	pg_req_fini(&a->req);
	e->released(e->released_ctx);
}

void engine_release(struct engine *e, void (*done)(void *ctx), void *ctx)
{
	struct lease_ask *a = &e->lease_asks[0];
	int64_t epoch = e->epoch;

	lease_drop(e);
	e->closing = true;
	e->epoch = 0;
	streams_stop(e);
	if (epoch == 0) {
		done(ctx);
		return;
	}
	e->released = done;
	e->released_ctx = ctx;
	ask_begin(a, e, loop_mono_us(e->loop), engine_now(e));
	q_engine_lease_release(e->pg, &a->req,
	    &(struct q_engine_lease_release){ .holder = e->holder, .epoch = epoch },
	    lease_released);
}
