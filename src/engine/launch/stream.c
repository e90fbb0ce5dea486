/*
 * Long polls for provider events (verb watch): one for each place with live nodes, always out while
 * we lead. Its results become the same rows as replies to our calls (notices, provider_state). The
 * same statement stores the cursor, so a crash loses and skips nothing, and a duplicate changes
 * nothing. After a gap the place is described and listed at once. Streams only make us faster:
 * watch.c goes on at its pace.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/kernel/kernel.h"
#include "engine/launch/launch.h"
#include "engine/watch/watch.h"

#define HOLD_US (25 * SPOT_US_PER_S)
/* between polls that return at once and empty */
#define PAUSE_US SPOT_US_PER_S
#define FAIL_US (2 * SPOT_US_PER_S) /* doubled per failure in a row */
#define FAIL_MAX_US (300 * SPOT_US_PER_S)
#define ABSENT_US SPOT_US_PER_HOUR /* before the next poll of a place without a stream */
#define STREAMS_MOST 8 /* per provider: they hold connections that other calls need too */

struct stream {
	struct engine *e;
};

struct streaming {
	struct watch_place *place;
	struct call_provider *provider;
	struct spot_watch args;
	int64_t began_us; /* mono */
};

static void stream_over(struct act *a, const struct streaming *w, int64_t pause_us)
{
	w->place->stream = NULL;
	w->place->stream_next_us = loop_mono_us(a->e->loop) + pause_us;
	if (pause_us > 0) {
		recon_later_of(a->e, &stream_kind, pause_us);
	}
}

static void stream_init(struct engine *e, void *state)
{
	struct stream *st = state;

	st->e = e;
}

static void stream_lease_lost(void *state)
{
	const struct stream *st = state;
	struct watch_place *p;

	LIST_FOREACH (p, watch_places(st->e), link) {
		if (p->stream != NULL && p->stream->calling) {
			act_drop(p->stream);
			act_end(p->stream);
			p->stream = NULL;
		}
	}
}

/* ---- events ------------------------------------------------------------------------- */

static void stream_wrote(struct act *a)
{
	const struct streaming *w = a->ctx;
	bool news = w->args.notices_n > 0 || w->args.seen_n > 0;
	bool quick = loop_mono_us(a->e->loop) - w->began_us < PAUSE_US;

	if (w->args.gap && a->req.op.rc == SPOT_OK) {
		log_info("stream.gap", STR("provider", w->place->provider),
		    STR("region", w->place->region));
		w->place->asked_us = 0;
		w->place->swept_us = 0;
	}
	/* On failure the cursor stays, and the same events come again. */
	stream_over(a, w, a->req.op.rc != SPOT_OK || (quick && !news) ? PAUSE_US : 0);
}

static void put_notices(struct act *a, const struct spot_watch *w, struct q_engine_stream_put *q)
{
	struct q_engine_stream_put_notice *rows =
	    arena_array(a->arena, w->notices_n + 1, sizeof(*rows));

	for (size_t i = 0; i < w->notices_n; i++) {
		const struct spot_notice *o = &w->notices[i];

		rows[i] = (struct q_engine_stream_put_notice){
			.ref = o->ref,
			.kind = spot_notice_name(o->kind),
			.deadline_us = o->deadline_us > 0 ? o->deadline_us
							  : q->at_us + a->e->conf.notice_default_us,
			.source = o->source == NULL ? "provider" : o->source,
			.raw = o->raw == NULL ? "" : o->raw,
		};
	}
	q->notice = rows;
	q->notice_n = w->notices_n;
}

static void put_seen(struct act *a, const struct spot_watch *w, struct q_engine_stream_put *q)
{
	struct q_engine_stream_put_seen *rows = arena_array(a->arena, w->seen_n + 1, sizeof(*rows));
	size_t n = 0;

	for (size_t i = 0; i < w->seen_n; i++) {
		const struct spot_instance *x = &w->seen[i];

		if (x->ref == NULL || x->leftover) {
			continue;
		}
		rows[n++] = (struct q_engine_stream_put_seen){
			.ref = x->ref,
			.state = instance_state(x),
			.ip = x->ip == NULL ? "" : x->ip,
			.reason = instance_reason(a->arena, x),
		};
	}
	q->seen = rows;
	q->seen_n = n;
}

static void stream_failed(struct act *a, const struct streaming *w)
{
	const struct spot_err *err = &a->call.op.err;
	static const struct backoff waits = { .first_us = FAIL_US, .cap_us = FAIL_MAX_US };
	int64_t pause = backoff_wait_us(&waits, w->place->stream_fails, NULL);

	log_warn("stream.failed", STR("provider", w->place->provider),
	    STR("region", w->place->region), STR("rc", spot_rc_name(a->call.op.rc)),
	    STR("error", err->text), DUR("again_in", pause));
	w->place->stream_fails++;
	pause = MAX(rng_jitter(loop_rng(a->e->loop), pause, 0.25), err->retry_after_us);
	stream_over(a, w, pause);
	act_end(a);
}

static void stream_called(struct act *a)
{
	struct streaming *w = a->ctx;
	struct q_engine_stream_put q = {
		.provider = w->place->provider,
		.region = w->place->region,
		.was = w->args.cursor,
		.at_us = engine_now(a->e),
		.fence = a->epoch,
	};

	if (a->call.op.rc == SPOT_GONE && w->args.cursor[0] != '\0') {
		/* The provider no longer knows this cursor. */
		w->args.next_cursor = "";
		w->args.notices_n = w->args.seen_n = 0;
		w->args.gap = true;
	} else if (a->call.op.rc == SPOT_NOT_OFFERED) {
		/* This place has no stream: polling alone goes on. */
		stream_over(a, w, ABSENT_US);
		act_end(a);
		return;
	} else if (a->call.op.rc != SPOT_OK) {
		stream_failed(a, w);
		return;
	}
	w->place->stream_fails = 0;
	q.cursor = w->args.next_cursor == NULL ? "" : w->args.next_cursor;
	put_notices(a, &w->args, &q);
	put_seen(a, &w->args, &q);
	a->wrote = stream_wrote;
	ACT_WRITE(a, engine_stream_put, &q);
}

/* ---- keeping one out for each place ---------------------------------------------------------- */

static void stream_begin(struct step *s)
{
	struct act *a = s->ctx;
	struct streaming *w = a->ctx;
	struct q_engine_stream_cursor_row *rows;

	if (s->req.op.rc != SPOT_OK || !lease_held(a->e)) {
		stream_over(a, w, PAUSE_US);
		act_end(a);
		return;
	}
	w->args.cursor =
	    q_engine_stream_cursor_rows(&s->req, a->arena, &rows) == 1 ? rows[0].cursor : "";
	w->began_us = loop_mono_us(a->e->loop);
	act_call(a, w->provider, CALL_WATCH, &w->args, HOLD_US + a->e->conf.call_timeout_us, false);
}

static void stream_one(struct recon *r, struct watch_place *place, struct call_provider *p)
{
	struct act *a = act_new(r->e, 0, stream_called);
	struct streaming *w = arena_alloc(a->arena, sizeof(*w));
	struct step *s = step_new(r, stream_begin, a);

	w->place = place;
	w->provider = p;
	w->args = (struct spot_watch){ .region = place->region,
		.install = r->e->install,
		.hold_us = HOLD_US };
	a->ctx = w;
	s->always = true;
	place->stream = a;
	STEP(s, engine_stream_cursor,
	    (&(struct q_engine_stream_cursor){ .provider = place->provider,
		.region = place->region }));
}

static size_t streams_count(const struct engine *e, const char *provider)
{
	const struct watch_place *p;
	size_t n = 0;

	LIST_FOREACH (p, watch_places(e), link) {
		n += p->stream != NULL && strcmp(p->provider, provider) == 0;
	}
	return n;
}

static void stream_places(struct step *s)
{
	struct q_engine_stream_places_row *rows;
	size_t n = q_engine_stream_places_rows(&s->req, s->r->arena, &rows);
	struct engine *e = s->r->e;
	int64_t now = loop_mono_us(e->loop);

	for (size_t i = 0; i < n; i++) {
		struct call_provider *p = engine_provider(e, rows[i].provider);
		const struct spot_provider_ops *ops = p == NULL ? NULL : call_provider_ops(p);
		struct watch_place *place;

		if (ops == NULL || ops->watch == NULL) {
			continue;
		}
		place = watch_place_of(e, rows[i].provider, rows[i].region);
		if (place->stream == NULL && now >= place->stream_next_us &&
		    streams_count(e, rows[i].provider) < STREAMS_MOST) {
			stream_one(s->r, place, p);
		}
	}
}

static void stream_pass(struct recon *r, void *state)
{
	struct step *s;
	bool any = false;

	(void)state;
	for (size_t i = 0; i < r->e->providers_n; i++) {
		any |= call_provider_ops(r->e->providers[i])->watch != NULL;
	}
	if (!any) {
		return;
	}
	s = step_new(r, stream_places, NULL);
	STEP(s, engine_stream_places, NULL);
}

const struct recon_kind stream_kind = { .name = "stream",
	.wakes = TOUCH_NODE,
	.idle_ticks = 5,
	.state_size = sizeof(struct stream),
	.init = stream_init,
	.lease_lost = stream_lease_lost,
	.pass = stream_pass };
