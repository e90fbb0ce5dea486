/*
 * The engine: reconcilers over rows. Each is level-triggered and single-flight: one statement reads
 * what is actionable, core decides on values, one compare-and-set statement per entity writes, and
 * providers are called only for rows claimed before. What a reply says is only recorded; the next
 * pass acts upon it. Nothing in memory is needed to know what we own or owe, so the process may be
 * killed at any instruction. One engine acts at a time: it holds the lease row `leader` and every
 * write carries its epoch.
 *
 * Owned by src/spotd; the engine owns neither loop, pool nor provider instances.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "core/place/placement.h"
#include "engine/kernel/conf.h"
#include "io/call/call.h"
#include "io/http/http.h"
#include "io/loop/loop.h"
#include "io/pg/pg.h"

struct engine;
/* A provider that there is, but which could not be opened, and why: spotctl doctor tells. */
struct engine_unopened {
	const char *name;
	char *why;
};
struct engine_deps {
	struct loop *loop;
	struct pg *pg;
	struct call_provider *const *providers; /* stays valid; may be replaced by engine_reload */
	size_t providers_n;
	const struct engine_conf *conf; /* copied; its strings stay valid */
	const char *install; /* 8 hex digits */
	struct str enrol_key; /* copied */
	const char *holder; /* names this process in the lease */
	const char *listen_dsn; /* unused unless the pool cannot LISTEN */
	/* Names of providers whose nodes enrol by their one-time token alone ([provider X] identity
	 * = off); stays valid. */
	const char *const *identity_off;
	size_t identity_off_n;
	struct http_client *http; /* for the object store; NULL = nothing is deleted there */
	const struct engine_unopened *unopened; /* stays valid */
	size_t unopened_n;
};
struct engine *engine_new(const struct engine_deps *d);
/* Stops everything; calls under way are forgotten (their rows are claimed, so the next engine
 * asks). */
void engine_free(struct engine *e);
/* Gives the lease back so that another daemon goes on at once; done is called when the statement is
 * over or was not needed. */
void engine_release(struct engine *e, void (*done)(void *ctx), void *ctx);
void engine_reload(struct engine *e, const struct engine_conf *conf);
/* Something may have changed: pass soon. */
void engine_wake(struct engine *e);
bool engine_leads(const struct engine *e);
int64_t engine_epoch(const struct engine *e); /* of the lease that we hold, 0 = none */

/* For the pollers beside us (src/engine/market/poller.h). */
struct loop *engine_loop(const struct engine *e);
struct pg *engine_pg(const struct engine *e);
const struct engine_conf *engine_conf(const struct engine *e);
/* What the engine places jobs by under such a configuration: for the API, whose plans say what it
 * would do. The store's strings are those of the configuration. */
struct place_policy engine_place_policy(const struct engine_conf *c);
size_t engine_providers(const struct engine *e);
struct call_provider *engine_provider_at(const struct engine *e, size_t i);
struct call_provider *engine_provider(const struct engine *e,
    const char *name); /* NULL if unknown */

/* Account-wide rate limits in Postgres, for call_provider_new. */
struct call_shared *engine_shared_new(struct loop *loop, struct pg *pg);
void engine_shared_free(struct call_shared *s);

#endif
