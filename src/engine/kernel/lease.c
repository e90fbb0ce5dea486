/*
 * The lease: the row `leader`, which its holder renews at a third of its life. The holder counts
 * its life from before it sends the statement, so it stops before others may start. They take the
 * lease when they have watched the same row for a whole lease by their own monotonic clock
 * (engine_lease_take). Nobody compares wall clocks of machines. A process or its machine may pause;
 * the epoch is for that. Later statements of the old holder carry an old epoch and change
 * nothing.
 *
 * A statement may wait behind a slow one on its connection while the database answers others. So a
 * second renewal goes out beside one without an answer, and a poll without an answer is given up.
 * Each compares the row with what it expects before it sets it: in whatever order they arrive, none
 * undoes a later one.
 */
#include "base/base.h"
#include "engine/kernel/kernel_priv.h"

#define POLLS 12 /* of another holder's lease, within its life */
#define GAP_US (600 * SPOT_US_PER_S)

/* One statement under way. */
struct lease_ask {
	struct pg_req req;
	struct engine *e;
	bool busy;
	int64_t sent_us; /* mono */
	int64_t lease_us; /* the setting may change while it is under way */
	int64_t until_us; /* wall; the new value of the row */
};

struct lease {
	/* the first takes or releases; a renewal is either, so that a second one may go out beside
	 * one without an answer */
	struct lease_ask asks[2];
	int64_t until_us; /* mono: we lead until then */
	/* until_us of our row is one of these: the last confirmed, and those sent since */
	int64_t said[16];
	size_t said_n;
	int64_t sent_us, again_us; /* mono; 0: ask at once */
	int64_t led_epoch; /* of our newest lease that was lost; 0: none */
	int64_t known_epoch; /* the highest that we led or watched: a new one is above it */
	int64_t seen_epoch, seen_until_us; /* another daemon's lease, as we saw it last */
	int64_t seen_us; /* mono: since when it has stood like that */
	/* how far the holders' clocks were behind ours, when last compared (mono) */
	int64_t behind_us, behind_at_us;
	void (*released)(void *ctx);
	void *released_ctx;
};

struct lease *lease_new(struct engine *e)
{
	struct lease *l = calloc(1, sizeof(*l));

	if (l == NULL) {
		abort();
	}
	for (size_t i = 0; i < ARRAY_LEN(l->asks); i++) {
		l->asks[i].e = e;
	}
	return l;
}

void lease_free(struct lease *l)
{
	free(l);
}

void lease_given_back(struct engine *e)
{
	e->lease->sent_us = 0;
}

bool lease_held(const struct engine *e)
{
	return e->epoch > 0 && loop_mono_us(e->loop) < e->lease->until_us;
}

bool engine_leads(const struct engine *e)
{
	return lease_held(e);
}

int64_t engine_epoch(const struct engine *e)
{
	return lease_held(e) ? e->epoch : 0;
}

/* Between two polls of a lease that another daemon holds. */
static int64_t poll_us(const struct engine *e)
{
	return e->conf.lease_us / POLLS;
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
	for (size_t i = 0; i < ARRAY_LEN(e->lease->asks); i++) {
		ask_drop(&e->lease->asks[i]);
	}
}

static void ask_begin(struct lease_ask *a, struct engine *e, int64_t now, int64_t wall)
{
	a->busy = true;
	a->sent_us = e->lease->sent_us = now;
	a->lease_us = e->conf.lease_us;
	a->until_us = wall + a->lease_us;
}

static struct lease_ask *op_ask(struct op *op)
{
	return container_of(container_of(op, struct pg_req, op), struct lease_ask, req);
}

static void lease_lost(struct engine *e, const char *why)
{
	if (e->epoch > 0) {
		log_warn("engine.follows", I64("epoch", e->epoch), STR("why", why));
		e->lease->led_epoch = e->epoch;
	}
	e->epoch = 0;
	lease_drop(e);
	recon_lease_lost(e);
}

/* The row says until_us, or a value that was sent later. */
static void lease_confirm(struct engine *e, int64_t until_us)
{
	size_t i = 0;

	while (i + 1 < e->lease->said_n && e->lease->said[i] != until_us) {
		i++;
	}
	e->lease->said_n -= i;
	memmove(e->lease->said, e->lease->said + i, e->lease->said_n * sizeof(*e->lease->said));
}

static void lease_renewed(struct op *op)
{
	struct lease_ask *a = op_ask(op);
	struct engine *e = a->e;
	struct lease_ask *other = &e->lease->asks[a == e->lease->asks];
	/* it compared with every value that the row may have */
	bool newest = e->lease->said[e->lease->said_n - 1] == a->until_us;

	a->busy = false;
	if (op->rc == SPOT_OK && pg_rows(a->req.result) == 1) {
		e->lease->until_us = MAX(e->lease->until_us, a->sent_us + a->lease_us);
		lease_confirm(e, a->until_us);
		if (other->sent_us < a->sent_us) {
			ask_drop(other); /* it would find a newer value */
		}
	} else if (op->rc == SPOT_OK && newest) {
		lease_lost(e, "another engine holds the lease, or its row is an older one");
	} else if (op->rc != SPOT_OK && !lease_held(e)) {
		lease_lost(e, op->err.text);
	} else if (op->rc != SPOT_OK) {
		log_warn("engine.lease", STR("rc", spot_rc_name(op->rc)),
		    STR("error", op->err.text));
		e->lease->again_us = a->sent_us + poll_us(e);
	} /* else a later one came first, whether or not its answer reached us */
	pg_req_fini(&a->req);
	engine_later(e, e->conf.lease_us / 3);
	loop_wake(e->loop);
}

static void lease_ours(struct engine *e, int64_t epoch)
{
	e->epoch = epoch;
	e->lease->known_epoch = MAX(e->lease->known_epoch, epoch);
	e->lease->until_us = e->lease->asks[0].sent_us + e->lease->asks[0].lease_us;
	e->led_since_us = engine_now(e);
	clock_taken_over(e, e->lease->behind_us, e->lease->behind_at_us);
	e->lease->behind_us = 0;
	snprintf(e->me, sizeof(e->me), "e%" PRId64, e->epoch);
	log_info("engine.leads", I64("epoch", e->epoch), STR("holder", e->holder));
	engine_wake(e);
}

/* A lease that was renewed between two polls shows its holder's clock. If that clock is behind
 * ours, the holder's launches look older to us than they are. This file keeps the
 * difference, which counts when we take the lease. until_us is 0 after a lease was given back. */
static void holder_compare(struct engine *e, int64_t now, int64_t until_us)
{
	int64_t behind = engine_now(e) - (until_us - e->conf.lease_us);

	if (until_us > 0 && behind > poll_us(e) + CLOCK_STEP_US) {
		e->lease->behind_us = behind;
		e->lease->behind_at_us = now;
	}
}

/* We took the lease, and by our clock nobody had renewed it for gap_us. Either the holder's clock
 * was behind, or nobody led for so long. Its launches get that time once more: this costs little in
 * the second case and is right in the first. The same holds for the skew that leaders within the
 * last hour found (most_us, last at gap_at_us by the wall clock). They may have died since. A gap
 * below a machine's time to boot does not count: with a daemon that dies every few seconds, no span
 * would ever end. */
static void holder_gap(struct engine *e, int64_t gap_us, int64_t most_us, int64_t gap_at_us)
{
	int64_t now = loop_mono_us(e->loop),
		known = now - e->lease->behind_at_us < SPOT_US_PER_HOUR ? e->lease->behind_us : 0;

	if (gap_us == 0 && known == 0) {
		e->lease->behind_at_us = now - MAX(engine_now(e) - gap_at_us, 0);
	} else if (gap_us > 0) {
		e->lease->behind_at_us = now;
	}
	e->lease->behind_us = MAX(MAX(gap_us, known), most_us);
}

/* Another daemon holds it: polls again soon, or when the row will have stood for a whole lease.
 * Every holder raises the epoch, so an epoch that was ours is nobody else's. It need not be
 * watched: the database was away for longer than a lease. */
static void lease_watch(struct engine *e, int64_t epoch, int64_t until_us)
{
	int64_t now = loop_mono_us(e->loop);

	e->lease->known_epoch = MAX(e->lease->known_epoch, epoch);
	if (epoch == e->lease->led_epoch) {
		e->lease->seen_epoch = epoch;
		e->lease->seen_until_us = until_us;
		e->lease->seen_us = MAX(now - e->conf.lease_us, 1);
		engine_later(e, 1);
		return;
	}
	if (epoch != e->lease->seen_epoch || until_us != e->lease->seen_until_us ||
	    e->lease->seen_us == 0) {
		if (e->lease->seen_us != 0) {
			holder_compare(e, now, until_us);
		}
		e->lease->seen_epoch = epoch;
		e->lease->seen_until_us = until_us;
		e->lease->seen_us = now;
	}
	engine_later(e, MIN(poll_us(e), e->lease->seen_us + e->conf.lease_us - now));
}

static void lease_taken(struct op *op)
{
	struct lease_ask *a = op_ask(op);
	struct engine *e = a->e;

	a->busy = false;
	if (op->rc == SPOT_OK && pg_rows(a->req.result) == 1 && pg_bool(a->req.result, 0, 1)) {
		holder_gap(e, pg_int(a->req.result, 0, 3), pg_int(a->req.result, 0, 4),
		    pg_int(a->req.result, 0, 5));
		e->lease->said[0] = a->until_us;
		e->lease->said_n = 1;
		lease_ours(e, pg_int(a->req.result, 0, 0));
	} else if (op->rc == SPOT_OK && pg_rows(a->req.result) == 1) {
		lease_watch(e, pg_int(a->req.result, 0, 0), pg_int(a->req.result, 0, 2));
	} else {
		if (op->rc != SPOT_OK && op->rc != SPOT_CANCELLED) {
			log_warn("engine.lease", STR("rc", spot_rc_name(op->rc)),
			    STR("error", op->err.text));
		}
		e->lease->again_us = loop_mono_us(e->loop) + poll_us(e);
		engine_later(e, poll_us(e));
	}
	pg_req_fini(&a->req);
}

static void lease_take(struct engine *e, int64_t now, int64_t wall)
{
	bool stood = e->lease->seen_us > 0 && now - e->lease->seen_us >= e->conf.lease_us;
	struct lease_ask *a = &e->lease->asks[0];

	ask_begin(a, e, now, wall);
	q_engine_lease_take(e->pg, &a->req,
	    &(struct q_engine_lease_take){ .holder = e->holder,
		.at_us = wall,
		.until_us = a->until_us,
		.seen_epoch = stood ? e->lease->seen_epoch : -1,
		.seen_until_us = stood ? e->lease->seen_until_us : -1,
		.known_epoch = e->lease->known_epoch,
		.little_us = GAP_US,
		.since_us = wall - SPOT_US_PER_HOUR },
	    lease_taken);
	engine_later(e, e->conf.lease_us);
}

/* At a third of its life; after another third, a second one beside one without an answer. A
 * database that refuses it does so at once. */
static void lease_renew(struct engine *e, int64_t now, int64_t wall)
{
	int64_t third = e->conf.lease_us / 3,
		at = MAX(e->lease->until_us - e->conf.lease_us * 2 / 3, e->lease->again_us);
	struct lease_ask *a = NULL;

	for (size_t i = 0; i < ARRAY_LEN(e->lease->asks); i++) {
		if (e->lease->asks[i].busy) {
			at = MAX(at, e->lease->asks[i].sent_us + third);
		} else {
			a = &e->lease->asks[i];
		}
	}
	if (a == NULL || e->lease->said_n == ARRAY_LEN(e->lease->said)) {
		at = e->lease->until_us;
	}
	if (at > now) {
		/* no other event may come before that */
		engine_later(e, MIN(at, e->lease->until_us) - now);
		return;
	}
	ask_begin(a, e, now, wall);
	q_engine_lease_renew(e->pg, &a->req,
	    &(struct q_engine_lease_renew){ .holder = e->holder,
		.epoch = e->epoch,
		.until_us = a->until_us,
		.at_us = wall,
		.was_us = e->lease->said,
		.was_us_n = e->lease->said_n },
	    lease_renewed);
	e->lease->said[e->lease->said_n++] = a->until_us;
	engine_later(e, third);
}

void lease_tick(struct engine *e)
{
	int64_t now = loop_mono_us(e->loop), wall = engine_now(e);

	if (e->closing) {
		return;
	}
	if (e->epoch > 0 && now >= e->lease->until_us) {
		lease_lost(e, "it could not be renewed in time");
	}
	if (e->epoch == 0 && e->lease->asks[0].busy) {
		int64_t left = e->lease->asks[0].sent_us + e->lease->asks[0].lease_us - now;

		if (left > 0) {
			engine_later(e, left);
			return;
		}
		ask_drop(&e->lease->asks[0]); /* a lease that it took would be over */
	}
	/* a statement that waits for a connection would carry an old time when it gets one */
	if (!pg_ready(e->pg)) {
		engine_later(e, poll_us(e));
		return;
	}
	if (e->epoch > 0) {
		lease_renew(e, now, wall);
		return;
	}
	if (now >= e->lease->again_us &&
	    (e->lease->sent_us == 0 || now - e->lease->sent_us >= poll_us(e) ||
		(e->lease->seen_us > 0 && now - e->lease->seen_us >= e->conf.lease_us))) {
		lease_take(e, now, wall);
	}
}

static void lease_released(struct op *op)
{
	struct lease_ask *a = op_ask(op);
	struct engine *e = a->e;

	a->busy = false;
	pg_req_fini(&a->req);
	e->lease->released(e->lease->released_ctx);
}

void engine_release(struct engine *e, void (*done)(void *ctx), void *ctx)
{
	struct lease_ask *a = &e->lease->asks[0];
	int64_t epoch = e->epoch;

	lease_drop(e);
	e->closing = true;
	e->epoch = 0;
	recon_lease_lost(e);
	if (epoch == 0) {
		done(ctx);
		return;
	}
	e->lease->released = done;
	e->lease->released_ctx = ctx;
	ask_begin(a, e, loop_mono_us(e->loop), engine_now(e));
	q_engine_lease_release(e->pg, &a->req,
	    &(struct q_engine_lease_release){ .holder = e->holder, .epoch = epoch },
	    lease_released);
}
