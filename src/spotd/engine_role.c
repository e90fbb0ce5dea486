#include "base/base.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"
#include "engine/engine.h"
#include "engine/market/market.h"
#include "io/http/http.h"
#include "spotd/daemon.h"
#include "spotd/version.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

struct engine_role {
	struct loop *main;
	struct rng rng;
	struct loop *loop;
	struct pg *pg;
	struct http_client *http;
	struct call_shared *shared;
	struct providers providers;
	struct engine *engine;
	struct poller *poller;
	struct poller_conf poller_conf;
	char holder[96];
	pthread_t thread;
	bool runs;
	void (*released)(void *ctx);
	void *released_ctx;
};

/* A configuration on its way to the engine's thread. */
struct reload {
	struct engine_role *role;
	struct engine_conf engine;
	struct poller_conf poller;
};

static int64_t poller_epoch(void *ctx)
{
	const struct engine_role *r = ctx;

	return engine_epoch(r->engine);
}

static void engine_make(struct engine_role *r, const struct engine_role_deps *deps)
{
	char host[64] = "";

	(void)gethostname(host, sizeof(host) - 1);
	snprintf(r->holder, sizeof(r->holder), "%s/%d", host, (int)getpid());
	r->engine = engine_new(&(struct engine_deps){ .loop = r->loop,
	    .pg = r->pg,
	    .providers = r->providers.list,
	    .providers_n = r->providers.n,
	    .conf = deps->engine,
	    .install = deps->install,
	    .enrol_key = deps->enrol_key,
	    .holder = r->holder,
	    .identity_off = r->providers.identity_off,
	    .identity_off_n = r->providers.identity_off_n,
	    .http = r->http,
	    .unopened = r->providers.unopened,
	    .unopened_n = r->providers.unopened_n });
	r->poller_conf = deps->conf->poller;
	r->poller = poller_new(&(struct poller_deps){ .loop = r->loop,
	    .pg = r->pg,
	    .providers = r->providers.list,
	    .providers_n = r->providers.n,
	    .conf = &r->poller_conf,
	    .epoch = poller_epoch,
	    .ctx = r });
}

enum spot_rc engine_role_new(const struct engine_role_deps *deps, struct engine_role **ret,
    struct spot_err *err)
{
	const struct spotd_conf *c = deps->conf;
	const char *ca = str_empty(c->ca_file) ? getenv("AWS_CA_BUNDLE") : c->ca_file;
	struct engine_role *r = calloc(1, sizeof(*r));
	enum spot_rc rc;

	if (r == NULL) {
		abort();
	}
	r->main = deps->main;
	rng_real_init(&r->rng);
	r->loop = loop_new(&clock_real, &r->rng);
	r->pg = pg_new(r->loop,
	    &(struct pg_conf){ .dsn = deps->dsn,
		.connections = (int)c->db_connections,
		/* a copy takes one of them, and must leave another */
		.long_connections = c->db_connections >= 4 ? (int)c->db_connections / 2 : 0,
		.statement_timeout_us = c->db_timeout_us,
		.application = "spotd" });
	r->http = http_client_new(r->loop,
	    &(struct http_client_conf){ .ca_file = str_empty(ca) ? NULL : ca,
		.user_agent = "spotbroker/" SPOTD_VERSION });
	r->shared = engine_shared_new(r->loop, r->pg);
	rc = providers_open(&r->providers, r->loop, r->http, c, deps->local, r->shared, err);
	if (rc != SPOT_OK) {
		engine_role_free(r);
		return rc;
	}
	engine_make(r, deps);
	*ret = r;
	return SPOT_OK;
}

static void *thread_run(void *arg)
{
	struct engine_role *r = arg;

	loop_run(r->loop);
	return NULL;
}

enum spot_rc engine_role_start(struct engine_role *r, struct spot_err *err)
{
	sigset_t all, old;
	int rc;

	/* Signals belong to the main loop. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&r->thread, NULL, thread_run, r);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc != 0) {
		return err_set(err, SPOT_UNAVAILABLE, "cannot start the engine's thread: %s",
		    strerror(rc));
	}
	(void)pthread_setname_np(r->thread, "engine");
	r->runs = true;
	return SPOT_OK;
}

static void reload_take(void *ctx)
{
	struct reload *m = ctx;

	m->role->poller_conf = m->poller;
	engine_reload(m->role->engine, &m->engine);
	free(m);
}

void engine_role_reload(struct engine_role *r, const struct engine_conf *engine,
    const struct poller_conf *poller)
{
	struct reload *m = malloc(sizeof(*m));

	if (m == NULL) {
		abort();
	}
	*m = (struct reload){ .role = r, .engine = *engine, .poller = *poller };
	loop_post(r->loop, reload_take, m);
}

static void lease_given(void *ctx)
{
	struct engine_role *r = ctx;

	loop_post(r->main, r->released, r->released_ctx);
}

static void release_take(void *ctx)
{
	struct engine_role *r = ctx;

	poller_free(r->poller);
	r->poller = NULL;
	engine_release(r->engine, lease_given, r);
}

void engine_role_release(struct engine_role *r, void (*done)(void *ctx), void *ctx)
{
	r->released = done;
	r->released_ctx = ctx;
	loop_post(r->loop, release_take, r);
}

static void quit_take(void *ctx)
{
	loop_quit(ctx);
}

void engine_role_free(struct engine_role *r)
{
	if (r == NULL) {
		return;
	}
	if (r->runs) {
		loop_post(r->loop, quit_take, r->loop);
		pthread_join(r->thread, NULL);
	}
	poller_free(r->poller);
	engine_free(r->engine);
	providers_close(&r->providers);
	engine_shared_free(r->shared);
	http_client_free(r->http);
	pg_free(r->pg);
	loop_free(r->loop);
	mem_wipe(&r->rng, sizeof(r->rng));
	free(r);
}

size_t engine_role_providers(const struct engine_role *r)
{
	return r == NULL ? 0 : r->providers.n;
}
