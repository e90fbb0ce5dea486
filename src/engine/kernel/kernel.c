/* The engine's life: start, passes, stop. */
#include "base/base.h"
#include "base/crypto/crypto.h"
#include "engine/kernel/kernel_priv.h"

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

/* An older daemon sends no kinds: all may have changed. */
static unsigned touched_of(const char *payload)
{
	char *end = NULL;
	unsigned long bits = payload[0] == 'w' ? strtoul(payload + 1, &end, 16) : 0;

	return bits == 0 || *end != '\0' || bits > TOUCH_ALL ? TOUCH_ALL : (unsigned)bits;
}

static void engine_heard(struct pg_listen *l, const char *channel, const char *payload)
{
	struct engine *e = container_of(l, struct engine, listen);

	(void)channel;
	if (strcmp(payload, "lease") == 0) {
		lease_given_back(e);
	}
	engine_touch(e, touched_of(payload));
}

/* Once per turn of the loop, after its events: starts the passes that are due. */
static void engine_pass(struct loop_hook *h)
{
	struct engine *e = container_of(h, struct engine, hook);
	int64_t now = loop_mono_us(e->loop);
	struct recon *r;

	lease_tick(e);
	if (!lease_held(e) || e->closing) {
		return;
	}
	TAILQ_FOREACH (r, &e->recons, link) {
		if (r->kind->pass != NULL && !r->running && recon_due(r, now)) {
			recon_run(r);
		}
	}
	wake_next(e);
}

static struct engine *engine_make(const struct engine_deps *d)
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
	return e;
}

struct engine *kernel_start(const struct engine_deps *d, const struct recon_kind *const *kinds,
    size_t kinds_n)
{
	struct engine *e = engine_make(d);

	e->lease = lease_new(e);
	offers_start(e);
	for (size_t i = 0; i < kinds_n; i++) {
		recon_add(e, kinds[i]);
	}
	e->hook.decide = engine_pass;
	loop_hook_add(e->loop, &e->hook);
	wake_start(e);
	pg_listen(e->pg, &e->listen, "spot_engine", engine_heard);
	loop_wake(e->loop);
	return e;
}

void engine_reload(struct engine *e, const struct engine_conf *conf)
{
	e->conf = *conf;
	offers_reload(e);
	engine_wake(e);
}

void engine_free(struct engine *e)
{
	if (e == NULL) {
		return;
	}
	e->closing = true;
	loop_hook_remove(e->loop, &e->hook);
	pg_listen_stop(e->pg, &e->listen);
	wake_stop(e);
	lease_drop(e);
	recon_drop_steps(e);
	act_drop_all(e);
	offers_stop(e);
	recon_drop(e);
	offers_drop(e);
	lease_free(e->lease);
	mem_wipe(e->enrol_key, sizeof(e->enrol_key));
	free(e);
}
