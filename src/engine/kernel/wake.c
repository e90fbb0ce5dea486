/* The engine's time, and when it passes next. */
#include "base/base.h"
#include "engine/kernel/kernel_priv.h"

int64_t engine_now(const struct engine *e)
{
	return loop_wall_us(e->loop);
}

int32_t engine_day(const struct engine *e)
{
	return (int32_t)(engine_now(e) / (INT64_C(86400) * SPOT_US_PER_S));
}

void engine_wake(struct engine *e)
{
	struct recon *r;

	TAILQ_FOREACH (r, &e->recons, link) {
		r->dirty = true;
	}
	loop_wake(e->loop);
}

static void timer_set(struct engine *e, int64_t after_us)
{
	e->timer_due = loop_mono_us(e->loop) + after_us;
	loop_timer_set(&e->timer, after_us);
}

static void timer_fired(struct loop_timer *t)
{
	struct engine *e = container_of(t, struct engine, timer);

	timer_set(e, e->conf.tick_us);
	engine_wake(e);
}

/* Only moves the timer earlier; the tick puts it back. */
void engine_later(struct engine *e, int64_t after_us)
{
	after_us = MAX(after_us, INT64_C(1000));
	if (loop_mono_us(e->loop) + after_us < e->timer_due) {
		timer_set(e, after_us);
	}
}

void wake_start(struct engine *e)
{
	loop_timer_init(&e->timer, e->loop, timer_fired);
	timer_set(e, e->conf.tick_us);
}

void wake_stop(struct engine *e)
{
	loop_timer_stop(&e->timer);
}
