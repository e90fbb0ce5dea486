/*
 * A wall clock that was wrong and was set right. Times in rows are of the wall clock, since rows
 * outlive processes; a daemon whose clock was ahead leaves times that have not come yet: an agent
 * that died counts as heard, a machine waits to be idle, a pool rests, the next look is hours away.
 * Once a minute, with each lease and when our clock went back such times become now, which only
 * makes things young that may be older. A clock that was behind and is set right makes everything
 * look older than it is: spans that prove something (a machine that no list shows, one that does
 * not boot) are longer by the leap until they have passed by the clock that never leaps. A lease
 * that is taken from one whose clock is behind ours is such a leap, too. The row of who leads (led)
 * keeps both for an hour, for who leads next.
 *
 * What is billed cannot become younger: the biller waits until a cloud's own time says that ours is
 * right (core/life/doubt.h). Then lives of machines that were written down meanwhile by a clock ahead or
 * behind are put right, before they are billed.
 *
 * A daemon that begins to lead knows no leap of its clock before: its host may have started again
 * with a wrong one. Until a cloud tells its time the spans above are not over; when that says that
 * ours is ahead, this was such a leap.
 */
#include "base/base.h"
#include "base/log.h"
#include "core/life/doubt.h"
#include "engine/kernel/kernel.h"

#define AGAIN_US (60 * SPOT_US_PER_S)
#define UNTOLD_US (24 * SPOT_US_PER_HOUR) /* no clock is ahead by more */

static int64_t offset_us(const struct engine *e)
{
	return engine_now(e) - loop_mono_us(e->loop);
}

/* Since it was looked at last. */
static int64_t fresh_leap(const struct engine *e)
{
	return e->clock_seen_us == 0 ? 0 : offset_us(e) - e->clock_offset_us;
}

/* By the newest word of any cloud; false: none has told its time. */
static bool told_time(const struct engine *e, int64_t *off_us, int64_t *at_us)
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

/* By how much our clock may be ahead of the one by which rows were written, as far as clouds
 * say. */
static int64_t ahead_us(const struct engine *e)
{
	int64_t off, told;

	if (!clock_doubted(e)) {
		return 0;
	}
	if (!told_time(e, &off, &told) || told <= e->doubt_us || e->doubt_epoch != e->epoch) {
		return UNTOLD_US;
	}
	return MAX(-off, 0);
}

int64_t clock_span_us(const struct engine *e, int64_t span_us)
{
	int64_t now = loop_mono_us(e->loop), fresh = fresh_leap(e), leapt = 0;

	if (now - e->leapt_at_us < span_us) {
		leapt = e->leapt_us;
	}
	if (fresh > CLOCK_LEAP_US) {
		leapt += fresh;
	}
	return span_us + MAX(leapt, ahead_us(e));
}

bool clock_ran_out(const struct engine *e, int64_t ran_us, int64_t most_us)
{
	/* The longest time that may be said leaves no room to be lengthened. */
	return most_us > 0 && ran_us >= most_us && ran_us >= clock_span_us(e, most_us);
}

/* Ours is ahead of the clock that the holder before us had: for rows that is a leap. */
void clock_taken_over(struct engine *e)
{
	if (e->behind_us == 0 || loop_mono_us(e->loop) - e->behind_at_us >= SPOT_US_PER_HOUR) {
		return;
	}
	log_warn("engine.clock_behind", I64("seconds", e->behind_us / SPOT_US_PER_S));
	if (e->leapt_us < e->behind_us || e->leapt_at_us < e->behind_at_us) {
		e->leapt_us = MAX(e->leapt_us, e->behind_us);
		e->leapt_at_us = MAX(e->leapt_at_us, e->behind_at_us);
	}
	e->behind_us = 0;
}

/* ---- doubt ----------------------------------------------------------------------------------- */

bool clock_doubted(const struct engine *e)
{
	int64_t fresh = fresh_leap(e);

	return e->conf.clock_doubt_us > 0 &&
	    (e->doubt_us != 0 || e->doubt_epoch != e->epoch || fresh > CLOCK_LEAP_US ||
		fresh < -CLOCK_LEAP_US);
}

static void lives_settled(struct step *s)
{
	s->r->e->doubt_us = 0;
}

static void marked(struct step *s)
{
	s->r->e->doubt_mark = pg_int(s->req.result, 0, 0);
}

/* It began with the first leap of several; what was written down since then tells the events after
 * the mark. */
static void doubt_begin(struct recon *r, int64_t now)
{
	struct engine *e = r->e;
	struct step *s;

	if (e->doubt_us == 0 || e->doubt_epoch != r->epoch) {
		e->doubt_first_us = now;
		e->doubt_mark = -1;
		s = step_new(r, marked, NULL);
		STEP(s, engine_clock_mark, (&(struct q_engine_clock_mark){ .none = 0 }));
	}
	e->doubt_us = now;
	e->doubt_epoch = r->epoch;
}

static void doubt_run(struct recon *r, int64_t now, int64_t leap)
{
	struct engine *e = r->e;
	int64_t off, told;
	struct step *s;
	bool known;

	if (e->conf.clock_doubt_us == 0) {
		return;
	}
	if (leap > CLOCK_LEAP_US || leap < -CLOCK_LEAP_US || e->doubt_epoch != r->epoch) {
		doubt_begin(r, now);
	}
	if (!told_time(e, &off, &told)) {
		told = 0;
	}
	/* A leap of our own that this doubt is of is known by itself. */
	known = e->leapt_at_us >= e->doubt_first_us && -off <= e->leapt_us + DOUBT_AGREE_US;
	if (e->doubt_us != 0 && told > e->doubt_us && -off > DOUBT_AGREE_US && !known) {
		log_warn("engine.clock_ahead", I64("seconds", -off / SPOT_US_PER_S));
		e->leapt_us = -off;
		e->leapt_at_us = e->doubt_first_us;
	}
	switch (doubt_judge(e->doubt_us, told, off, now, e->conf.clock_doubt_us)) {
	case DOUBT_WAITS:
		return;
	case DOUBT_NONE:
		if (e->doubt_us != 0) {
			log_warn("engine.clock_unproven",
			    I64("cloud_ahead_seconds", told == 0 ? 0 : off / SPOT_US_PER_S));
		}
		e->doubt_us = 0;
		return;
	case DOUBT_PROVEN:
		break;
	}
	s = step_new(r, lives_settled, NULL);
	STEP(s, engine_clock_lives,
	    (&(struct q_engine_clock_lives){ .at_us = engine_now(e),
		.doubt_us = engine_now(e) - (now - e->doubt_first_us),
		/* Without one nothing is known of what a clock behind
					      * wrote. */
		.mark = e->doubt_mark < 0 ? INT64_MAX : e->doubt_mark,
		.fence = r->epoch }));
}

/* ---- times to come --------------------------------------------------------------------------- */

static void settled(struct step *s)
{
	s->r->e->settled_epoch = s->r->epoch;
	s->r->e->settled_at_us = loop_mono_us(s->r->e->loop);
}

void clock_run(struct recon *r)
{
	struct engine *e = r->e;
	int64_t now = loop_mono_us(e->loop), leap = fresh_leap(e);
	struct step *s;

	e->clock_offset_us = offset_us(e);
	e->clock_seen_us = now;
	e->led_since_us = MIN(e->led_since_us, engine_now(e));
	if (leap > CLOCK_LEAP_US || leap < -CLOCK_LEAP_US) {
		log_warn("engine.clock_leapt", I64("seconds", leap / SPOT_US_PER_S));
		e->set_at_us = now;
	}
	if (leap > CLOCK_LEAP_US) {
		e->leapt_us = leap + (now - e->leapt_at_us < SPOT_US_PER_HOUR ? e->leapt_us : 0);
		e->leapt_at_us = now;
		s = step_new(r, NULL, NULL);
		STEP(s, engine_led_gap,
		    (&(struct q_engine_led_gap){ .us = leap,
			.at_us = engine_now(e),
			.fence = r->epoch }));
	}
	doubt_run(r, now, leap);
	if (leap < -CLOCK_LEAP_US || e->settled_epoch != r->epoch ||
	    now - e->settled_at_us >= AGAIN_US) {
		s = step_new(r, settled, NULL);
		STEP(s, engine_clock_settle,
		    (&(struct q_engine_clock_settle){ .at_us = engine_now(e),
			.fence = r->epoch,
			.rest_us = e->conf.cool_max_us }));
		/* By itself: without a partition for today it fails, and the rest must not. */
		s = step_new(r, NULL, NULL);
		STEP(s, engine_clock_prices,
		    (&(struct q_engine_clock_prices){ .at_us = engine_now(e), .fence = r->epoch }));
	}
}
