/* The engine: start, wake, pass, stop. */
#include "base/base.h"
#include "base/log.h"
#include "base/crypto/secret.h"
#include "base/text/str.h"
#include "engine/place/queue.h"
#include "engine/kernel/kernel.h"
#include "engine/place/supply.h"
#include "engine/watch/watch.h"

int64_t engine_now(const struct engine *e)
{
	return loop_wall_us(e->loop);
}

int32_t engine_day(const struct engine *e)
{
	return (int32_t)(engine_now(e) / (INT64_C(86400) * SPOT_US_PER_S));
}

struct loop *engine_loop(const struct engine *e)
{
	return e->loop;
}

struct pg *engine_pg(const struct engine *e)
{
	return e->pg;
}

const struct engine_conf *engine_conf(const struct engine *e)
{
	return &e->conf;
}

size_t engine_providers(const struct engine *e)
{
	return e->providers_n;
}

struct call_provider *engine_provider_at(const struct engine *e, size_t i)
{
	assert(i < e->providers_n);
	return e->providers[i];
}

struct call_provider *engine_provider(const struct engine *e, const char *name)
{
	for (size_t i = 0; i < e->providers_n; i++) {
		if (strcmp(call_provider_name(e->providers[i]), name) == 0) {
			return e->providers[i];
		}
	}
	return NULL;
}

size_t engine_provider_names(struct recon *r,
    bool (*of)(const struct engine *, struct call_provider *), const char ***ret)
{
	struct engine *e = r->e;
	size_t n = 0;

	*ret = arena_array(r->arena, e->providers_n + 1, sizeof(**ret));
	for (size_t i = 0; i < e->providers_n; i++) {
		if (of == NULL || of(e, e->providers[i])) {
			(*ret)[n++] = call_provider_name(e->providers[i]);
		}
	}
	return n;
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

static void engine_timer(struct loop_timer *t)
{
	struct engine *e = container_of(t, struct engine, timer);

	timer_set(e, e->conf.tick_us);
	engine_wake(e);
}

/* The timer only ever moves earlier; the tick puts it back. */
void engine_later(struct engine *e, int64_t after_us)
{
	after_us = MAX(after_us, INT64_C(1000));
	if (loop_mono_us(e->loop) + after_us < e->timer_due) {
		timer_set(e, after_us);
	}
}

static void engine_heard(struct pg_listen *l, const char *channel, const char *payload)
{
	struct engine *e = container_of(l, struct engine, listen);

	(void)channel;
	if (strcmp(payload, "lease") == 0) {
		e->lease_sent = 0; /* it was given back */
	}
	engine_wake(e);
}

/* Once per loop turn, after its events: starts the turns that are due. */
static void engine_pass(struct loop_hook *h)
{
	struct engine *e = container_of(h, struct engine, hook);
	int64_t now = loop_mono_us(e->loop);
	struct recon *r;

	lease_turn(e);
	if (!lease_held(e) || e->closing) {
		return;
	}
	TAILQ_FOREACH (r, &e->recons, link) {
		if (r->running || (!r->dirty && now < r->due_us)) {
			continue;
		}
		r->running = true;
		r->epoch = e->epoch;
		r->dirty = false;
		r->changed = false;
		r->due_us = now + r->every_us;
		r->steps = 1; /* the turn itself, so that it cannot end inside run() */
		r->run(r);
		if (--r->steps == 0) {
			r->running = false;
			arena_reset(r->arena);
		}
	}
}

static void engine_register(struct engine *e)
{
	int64_t t = e->conf.tick_us;

	recon_add(e, "clock", t, clock_run);
	recon_add(e, "drain", t, drain_run);
	recon_add(e, "fleet", t, fleet_run);
	recon_add(e, "tighten", t, tighten_run);
	recon_add(e, "schedule", t, schedule_run);
	recon_add(e, "sched", t, sched_run);
	recon_add(e, "launcher", t, launcher_run);
	recon_add(e, "lookup", t, lookup_run);
	recon_add(e, "watch", t, watch_run);
	recon_add(e, "verdict", t, verdict_run);
	recon_add(e, "mint", t, mint_run);
	recon_add(e, "files", t, files_run);
	recon_add(e, "return", t, return_run);
	recon_add(e, "release", t, release_run);
	recon_add(e, "reaper", t, reaper_run);
	recon_add(e, "sweep", t, sweep_run);
	recon_add(e, "biller", t, biller_run);
	recon_add(e, "rebalance", t, rebalance_run);
	recon_add(e, "enrol", t, enrol_run);
	recon_add(e, "stream", t, stream_run);
	recon_add(e, "dispose", t, dispose_run);
	recon_add(e, "doctor", t, doctor_run);
	recon_add(e, "gang", t, gang_run);
	recon_add(e, "gang_ranks", t, gang_ranks_run);
}

struct engine *engine_new(const struct engine_deps *d)
{
	struct engine *e = calloc(1, sizeof(*e));

	if (e == NULL) {
		abort();
	}
	e->loop = d->loop;
	e->pg = d->pg;
	e->providers = d->providers;
	e->providers_n = d->providers_n;
	e->identity_off = d->identity_off;
	e->identity_off_n = d->identity_off_n;
	e->http = d->http;
	e->unopened = d->unopened;
	e->unopened_n = d->unopened_n;
	e->conf = *d->conf;
	assert(strlen(d->install) == 8 && d->enrol_key.n <= sizeof(e->enrol_key));
	memcpy(e->install, d->install, 9);
	memcpy(e->enrol_key, d->enrol_key.p, d->enrol_key.n);
	e->enrol_key_n = d->enrol_key.n;
	snprintf(e->holder, sizeof(e->holder), "%s", d->holder);
	TAILQ_INIT(&e->recons);
	TAILQ_INIT(&e->steps);
	TAILQ_INIT(&e->acts);
	e->watch = watch_new();
	engine_register(e);
	e->hook.decide = engine_pass;
	loop_hook_add(e->loop, &e->hook);
	loop_timer_init(&e->timer, e->loop, engine_timer);
	timer_set(e, e->conf.tick_us);
	pg_listen(e->pg, &e->listen, "spot_engine", engine_heard);
	loop_wake(e->loop);
	return e;
}

void engine_reload(struct engine *e, const struct engine_conf *conf)
{
	e->conf = *conf;
	engine_wake(e);
}

static void engine_drop_work(struct engine *e)
{
	struct step *s;
	struct act *a;

	while ((s = TAILQ_FIRST(&e->steps)) != NULL) {
		TAILQ_REMOVE(&e->steps, s, link);
		op_fini(&s->req.op);
		pg_req_fini(&s->req);
		free(s);
	}
	while ((a = TAILQ_FIRST(&e->acts)) != NULL) {
		TAILQ_REMOVE(&e->acts, a, link);
		act_drop(a);
		pg_req_fini(&a->req);
		arena_free(a->arena);
		free(a);
	}
}

void engine_free(struct engine *e)
{
	struct recon *r;

	if (e == NULL) {
		return;
	}
	e->closing = true;
	loop_hook_remove(e->loop, &e->hook);
	pg_listen_stop(e->pg, &e->listen);
	loop_timer_stop(&e->timer);
	lease_drop(e);
	engine_drop_work(e);
	exam_drop(e);
	while ((r = TAILQ_FIRST(&e->recons)) != NULL) {
		TAILQ_REMOVE(&e->recons, r, link);
		offers_let_go(r);
		files_let_go(r);
		arena_free(r->arena);
		free(r);
	}
	watch_free(e->watch);
	offers_drop(e);
	tighten_drop(e);
	mem_wipe(e->enrol_key, sizeof(e->enrol_key));
	free(e->fleets_seen);
	free(e->told);
	free(e);
}
