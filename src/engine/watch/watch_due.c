/* Turns the providers' reports, silent agents and passed deadlines into state transitions. */
#include "base/base.h"
#include "engine/kernel/kernel.h"
#include "engine/watch/watch.h"
#include "store/store.h"

static void pool_cooled(struct step *s)
{
	offers_write_end(s->r->e);
}

static void pool_cool(struct recon *r, const struct q_engine_watch_due_row *w, const char *rc,
    int64_t us, int32_t reclaims)
{
	struct step *s = step_new(r, pool_cooled, NULL);

	/* The node's job is placed again at once, and must not go there. A read of the market that
	 * may lack the cooldown is repeated. */
	s->always = true;
	offers_invalidate(r->e);
	offers_write_begin(r->e);
	STEP(s, engine_pool_rest,
	    (&(struct q_engine_pool_rest){ .pool_id = w->pool_id,
		.until_us = engine_now(r->e) + us,
		.rc = rc,
		.why = w->why,
		.at_us = engine_now(r->e),
		.day = engine_day(r->e),
		.reclaims = reclaims,
		.fence = r->epoch }));
}

static void refused_end(struct step *s)
{
	const struct q_engine_watch_due_row *w = s->ctx;

	offers_invalidate(s->r->e);
	node_event(s->r, w->id, w->state, NODE_EV_BROKEN, w->cause, w->why);
}

/* A launch that was refused late: the pool, or its quota class, cools as after any refusal. The
 * node ends only then, or its job would be placed there once more. */
static void refused_late(struct recon *r, struct q_engine_watch_due_row *w)
{
	const struct engine_conf *c = &r->e->conf;
	bool quota = strcmp(w->ended_by, "failed_quota") == 0;
	struct step *s = step_new(r, refused_end, w);

	STEP(s, engine_pool_refused_late,
	    (&(struct q_engine_pool_refused_late){ .pool_id = w->pool_id,
		.rc = quota ? "late_quota" : "late_no_capacity",
		.scope = quota ? "class" : "pool",
		.why = w->why,
		.cool_min_us = c->cool_min_us,
		.cool_max_us = c->cool_max_us,
		.at_us = engine_now(r->e),
		.day = engine_day(r->e),
		.fence = r->epoch }));
}

/* Cools the pool of a node by the cause of its end. */
static void pool_cool_after(struct recon *r, const struct q_engine_watch_due_row *w)
{
	const struct engine_conf *c = &r->e->conf;
	bool booting = w->state == NODE_BOOTING;
	bool spot = spot_market_reclaims(w->market);
	enum node_event ev = w->event;

	if (ev == NODE_EV_ENROLLED) {
		struct step *s = step_new(r, NULL, NULL);

		STEP(s, engine_pool_serves,
		    (&(struct q_engine_pool_serves){ .pool_id = w->pool_id, .fence = r->epoch }));
	} else if (ev == NODE_EV_BOOT_TIMEOUT || ev == NODE_EV_BROKEN) {
		pool_cool(r, w, ev == NODE_EV_BROKEN ? "broken" : "boot_timeout", c->cool_max_us,
		    0);
	} else if (ev == NODE_EV_VANISHED && strcmp(w->ended_by, "gone_user") != 0 &&
	    w->state != NODE_DRAINING) {
		/* Without a notice before it, which would have counted. Ended while it booted: a
		 * launch that failed late, such as Server.InsufficientInstanceCapacity. */
		pool_cool(r, w, booting ? "no_capacity" : "reclaimed",
		    booting ? c->cool_min_us : c->reclaim_cool_us, spot && !booting ? 1 : 0);
	}
}

static void watch_due(struct step *s)
{
	struct q_engine_watch_due_row *rows;
	size_t n = q_engine_watch_due_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		if (rows[i].event == NODE_EV_BROKEN && strcmp(rows[i].cause, "refused") == 0) {
			refused_late(s->r, &rows[i]);
			continue;
		}
		node_event(s->r, rows[i].id, rows[i].state, rows[i].event, rows[i].cause,
		    rows[i].why);
		pool_cool_after(s->r, &rows[i]);
	}
}

/* Providers whose machines take longer to boot than the setting allows. */
static size_t slow_providers(struct recon *r, struct q_engine_watch_due_slow *slow)
{
	size_t n = 0;

	for (size_t i = 0; i < engine_providers(r->e); i++) {
		struct call_provider *p = engine_provider_at(r->e, i);

		if (call_provider_ops(p)->boot_timeout_us > r->e->conf.boot_timeout_us) {
			slow[n++] = (struct q_engine_watch_due_slow){
				.provider = call_provider_name(p),
				.boot_us =
				    clock_span_us(r->e, call_provider_ops(p)->boot_timeout_us),
			};
		}
	}
	return n;
}

void watch_due_ask(struct recon *r)
{
	struct engine *e = r->e;
	int64_t now = engine_now(e);
	struct step *s = step_new(r, watch_due, NULL);
	struct q_engine_watch_due_slow *slow =
	    arena_array(r->arena, engine_providers(e) + 1, sizeof(*slow));
	size_t slow_n = slow_providers(r, slow);

	STEP(s, engine_watch_due,
	    (&(struct q_engine_watch_due){ .at_us = now,
		.boot_us = clock_span_us(e, e->conf.boot_timeout_us),
		.silent_us = e->conf.agent_lost_us,
		.up_us = e->led_since_us,
		.speaks_us = e->conf.agent_silent_us,
		.slow = slow,
		.slow_n = slow_n,
		.beat_us = LISTEN_BEAT_US }));
}
