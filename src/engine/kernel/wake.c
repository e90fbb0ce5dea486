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

static void touch_all_but(struct engine *e, const struct recon *but, unsigned touched)
{
	struct recon *r;

	TAILQ_FOREACH (r, &e->recons, link) {
		if (r != but) {
			r->dirty |= r->kind->wakes == 0 ? touched : touched & r->kind->wakes;
		}
	}
	loop_wake(e->loop);
}

void engine_touch(struct engine *e, unsigned touched)
{
	touch_all_but(e, NULL, touched);
}

void engine_touch_others(struct recon *r, unsigned touched)
{
	touch_all_but(r->e, r, touched);
}

void engine_wake(struct engine *e)
{
	struct recon *r;

	TAILQ_FOREACH (r, &e->recons, link) {
		r->dirty = TOUCH_ALL;
	}
	loop_wake(e->loop);
}

static void timer_set(struct engine *e, int64_t at_us)
{
	e->timer_due = at_us;
	loop_timer_set(&e->timer, MAX(at_us - loop_mono_us(e->loop), INT64_C(1000)));
}

static void timer_fired(struct loop_timer *t)
{
	struct engine *e = container_of(t, struct engine, timer);

	timer_set(e, loop_mono_us(e->loop) + e->conf.tick_us);
	loop_wake(e->loop);
}

void engine_later(struct engine *e, int64_t after_us)
{
	int64_t at = loop_mono_us(e->loop) + MAX(after_us, INT64_C(1000));

	if (at < e->timer_due) {
		timer_set(e, at);
	}
}

void wake_next(struct engine *e)
{
	int64_t now = loop_mono_us(e->loop);
	const struct recon *r;

	TAILQ_FOREACH (r, &e->recons, link) {
		if (r->kind->pass != NULL && !r->running) {
			int64_t at = r->later_us != 0 ? MIN(r->due_us, r->later_us) : r->due_us;

			if (at > now) {
				engine_later(e, at - now);
			}
		}
	}
}

void wake_start(struct engine *e)
{
	loop_timer_init(&e->timer, e->loop, timer_fired);
	timer_set(e, loop_mono_us(e->loop) + e->conf.tick_us);
}

void wake_stop(struct engine *e)
{
	loop_timer_stop(&e->timer);
}
