/*
 * Wall clocks that were wrong and were set right. Rows outlive processes, so their times are wall
 * times. A daemon whose clock was ahead leaves times in the future. An agent that died then counts
 * as heard, a machine waits to be idle, a pool cools, and the next check is hours away. Once a
 * minute, with each lease and after a step back such times become now; that only makes things young
 * that may be older.
 *
 * After a step ahead everything looks older than it is. Some spans prove something: an instance
 * that no list shows, a machine that does not boot. They are longer by the step until they have
 * passed by the monotonic clock. A lease taken from a holder whose clock was behind ours is such a
 * step too. The row `led` keeps both for an hour, for the next leader.
 *
 * A bill cannot become younger. After a start, a fail-over or a clock step the biller waits until a
 * provider's time confirms ours (core/life/life.h). Then this file corrects the lifetimes of
 * machines that were written by a wrong clock, before they are billed.
 *
 * A daemon that begins to lead knows no step of its clock before: its host may have started with a
 * wrong one. Until a provider tells its time the spans above are not over. If that time shows that
 * our clock is ahead, it counts as a step.
 */
#include "base/base.h"
#include "core/life/life.h"
#include "engine/kernel/kernel_priv.h"

#define AGAIN_US (60 * SPOT_US_PER_S)
#define UNTOLD_US (24 * SPOT_US_PER_HOUR) /* no clock is ahead by more */

struct wall_clock {
	int64_t offset_us, seen_us; /* wall less mono, when last read (mono; 0: not yet) */
	int64_t step_us, step_at_us; /* how far our clock was set ahead, and when last (mono) */
	int64_t set_us; /* mono: our clock was set, ahead or back; 0: never */
	/* in doubt since (mono; 0: it is not), and under which lease */
	int64_t doubt_us, doubt_epoch;
	/* the first step of this doubt (mono), and the newest event then (-1: not known) */
	int64_t doubt_first_us, doubt_mark;
	int64_t settled_epoch, settled_at_us; /* rows have no future times: lease, when (mono) */
};

static struct wall_clock *clock_state(const struct engine *e)
{
	return recon_state(e, &clock_kind);
}

int64_t clock_set_us(const struct engine *e)
{
	return clock_state(e)->set_us;
}

static int64_t clock_offset(const struct engine *e)
{
	return engine_now(e) - loop_mono_us(e->loop);
}

/* The step since the clock was last read. */
static int64_t fresh_step(const struct engine *e)
{
	const struct wall_clock *c = clock_state(e);

	return c->seen_us == 0 ? 0 : clock_offset(e) - c->offset_us;
}

/* The newest time that any provider told; false: none did. off_us: its time less ours. */
static bool provider_time(const struct engine *e, int64_t *off_us, int64_t *at_us)
{
	*off_us = *at_us = 0;
	for (size_t i = 0; i < e->providers_n; i++) {
		int64_t off, at;

		if (call_provider_told(e->providers[i], &off, &at) && at > *at_us) {
			*off_us = off;
			*at_us = at;
		}
	}
	return *at_us > 0;
}

/* By how much our clock may be ahead of the one by which rows were written, as far as providers
 * tell. */
static int64_t ahead_us(const struct engine *e)
{
	const struct wall_clock *c = clock_state(e);
	int64_t off, told;

	if (!clock_doubted(e)) {
		return 0;
	}
	if (!provider_time(e, &off, &told) || told <= c->doubt_us || c->doubt_epoch != e->epoch) {
		return UNTOLD_US;
	}
	return MAX(-off, 0);
}

int64_t clock_span_us(const struct engine *e, int64_t span_us)
{
	const struct wall_clock *c = clock_state(e);
	int64_t now = loop_mono_us(e->loop), fresh = fresh_step(e), step = 0;

	if (now - c->step_at_us < span_us) {
		step = c->step_us;
	}
	if (fresh > CLOCK_STEP_US) {
		step += fresh;
	}
	return span_us + MAX(step, ahead_us(e));
}

bool clock_ran_out(const struct engine *e, int64_t ran_us, int64_t most_us)
{
	/* The longest time that may be said leaves no room to be lengthened. */
	return most_us > 0 && ran_us >= most_us && ran_us >= clock_span_us(e, most_us);
}

void clock_taken_over(struct engine *e, int64_t behind_us, int64_t behind_at_us)
{
	struct wall_clock *c = clock_state(e);

	if (behind_us == 0 || loop_mono_us(e->loop) - behind_at_us >= SPOT_US_PER_HOUR) {
		return;
	}
	log_warn("engine.clock_behind", I64("seconds", behind_us / SPOT_US_PER_S));
	if (c->step_us < behind_us || c->step_at_us < behind_at_us) {
		c->step_us = MAX(c->step_us, behind_us);
		c->step_at_us = MAX(c->step_at_us, behind_at_us);
	}
}

/* ---- doubt ----------------------------------------------------------------------------------- */

bool clock_doubted(const struct engine *e)
{
	const struct wall_clock *c = clock_state(e);
	int64_t fresh = fresh_step(e);

	return e->conf.clock_doubt_us > 0 &&
	    (c->doubt_us != 0 || c->doubt_epoch != e->epoch || fresh > CLOCK_STEP_US ||
		fresh < -CLOCK_STEP_US);
}

static void lives_corrected(struct step *s)
{
	struct wall_clock *c = s->r->state;

	c->doubt_us = 0;
}

static void doubt_marked(struct step *s)
{
	struct wall_clock *c = s->r->state;

	c->doubt_mark = pg_int(s->req.result, 0, 0);
}

/* A doubt begins with the first of several steps. Events after the mark show the rows that were
 * written since. */
static void doubt_begin(struct recon *r, struct wall_clock *c, int64_t now)
{
	struct step *s;

	if (c->doubt_us == 0 || c->doubt_epoch != r->epoch) {
		c->doubt_first_us = now;
		c->doubt_mark = -1;
		s = step_new(r, doubt_marked, NULL);
		STEP(s, engine_clock_mark, (&(struct q_engine_clock_mark){ .none = 0 }));
	}
	c->doubt_us = now;
	c->doubt_epoch = r->epoch;
}

static void doubt_run(struct recon *r, struct wall_clock *c, int64_t now, int64_t step)
{
	struct engine *e = r->e;
	int64_t off, told;
	struct step *s;
	bool known;

	if (e->conf.clock_doubt_us == 0) {
		return;
	}
	if (step > CLOCK_STEP_US || step < -CLOCK_STEP_US || c->doubt_epoch != r->epoch) {
		doubt_begin(r, c, now);
	}
	if (!provider_time(e, &off, &told)) {
		told = 0;
	}
	/* A step of our own that caused this doubt is known already. */
	known = c->step_at_us >= c->doubt_first_us && -off <= c->step_us + DOUBT_AGREE_US;
	if (c->doubt_us != 0 && told > c->doubt_us && -off > DOUBT_AGREE_US && !known) {
		log_warn("engine.clock_ahead", I64("seconds", -off / SPOT_US_PER_S));
		c->step_us = -off;
		c->step_at_us = c->doubt_first_us;
	}
	switch (doubt_judge(c->doubt_us, told, off, now, e->conf.clock_doubt_us)) {
	case DOUBT_WAITS:
		return;
	case DOUBT_NONE:
		if (c->doubt_us != 0) {
			log_warn("engine.clock_unproven",
			    I64("cloud_ahead_seconds", told == 0 ? 0 : off / SPOT_US_PER_S));
		}
		c->doubt_us = 0;
		return;
	case DOUBT_PROVEN:
		break;
	}
	s = step_new(r, lives_corrected, NULL);
	STEP(s, engine_clock_lives,
	    (&(struct q_engine_clock_lives){ .at_us = engine_now(e),
		.doubt_us = engine_now(e) - (now - c->doubt_first_us),
		/* Without a mark, what a slow clock wrote stays as it is. */
		.mark = c->doubt_mark < 0 ? INT64_MAX : c->doubt_mark,
		.fence = r->epoch }));
}

/* ---- future times --------------------------------------------------------------------------- */

static void times_settled(struct step *s)
{
	struct wall_clock *c = s->r->state;

	c->settled_epoch = s->r->epoch;
	c->settled_at_us = loop_mono_us(s->r->e->loop);
}

static void clock_pass(struct recon *r, void *state)
{
	struct wall_clock *c = state;
	struct engine *e = r->e;
	int64_t now = loop_mono_us(e->loop), step = fresh_step(e);
	struct step *s;

	c->offset_us = clock_offset(e);
	c->seen_us = now;
	e->led_since_us = MIN(e->led_since_us, engine_now(e));
	if (step > CLOCK_STEP_US || step < -CLOCK_STEP_US) {
		log_warn("engine.clock_leapt", I64("seconds", step / SPOT_US_PER_S));
		c->set_us = now;
	}
	if (step > CLOCK_STEP_US) {
		c->step_us = step + (now - c->step_at_us < SPOT_US_PER_HOUR ? c->step_us : 0);
		c->step_at_us = now;
		s = step_new(r, NULL, NULL);
		STEP(s, engine_led_gap,
		    (&(struct q_engine_led_gap){ .us = step,
			.at_us = engine_now(e),
			.fence = r->epoch }));
	}
	doubt_run(r, c, now, step);
	if (step < -CLOCK_STEP_US || c->settled_epoch != r->epoch ||
	    now - c->settled_at_us >= AGAIN_US) {
		s = step_new(r, times_settled, NULL);
		STEP(s, engine_clock_settle,
		    (&(struct q_engine_clock_settle){ .at_us = engine_now(e),
			.fence = r->epoch,
			.rest_us = e->conf.cool_max_us }));
		/* A statement of its own: without a partition for today it fails alone. */
		s = step_new(r, NULL, NULL);
		STEP(s, engine_clock_prices,
		    (&(struct q_engine_clock_prices){ .at_us = engine_now(e), .fence = r->epoch }));
	}
}

const struct recon_kind clock_kind = { .name = "clock",
	.state_size = sizeof(struct wall_clock),
	.pass = clock_pass };
