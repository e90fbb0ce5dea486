/*
 * The engine's half of the daemon: engine, price poller and providers. It has its own thread, loop,
 * database connections and HTTP client, so that a long pass delays no reply of the API. The two
 * halves share no structure; they send each other messages (loop_post).
 *
 * All functions are for the thread of the main loop.
 */
#ifndef SPOTD_ENGINE_ROLE_H
#define SPOTD_ENGINE_ROLE_H

#include "spotd/daemon.h"

struct engine_role;
struct engine_role_deps {
	struct loop *main; /* answers of this half arrive there */
	const char *dsn;
	const struct spotd_conf *conf; /* read here only; its arena outlives the role */
	const struct engine_conf *engine; /* copied; its strings stay valid */
	bool local;
	const char *install; /* stays valid */
	struct str enrol_key;
};
/* Opens the providers and makes the engine; nothing runs before engine_role_start. */
NODISCARD enum spot_rc engine_role_new(const struct engine_role_deps *deps,
    struct engine_role **ret, struct spot_err *err);
/* Starts the thread. */
NODISCARD enum spot_rc engine_role_start(struct engine_role *r, struct spot_err *err);
/* Gives both a new configuration. It is copied; its strings stay valid. */
void engine_role_reload(struct engine_role *r, const struct engine_conf *engine,
    const struct poller_conf *poller);
/* Stops the poller and gives the lease back, so that another daemon goes on at once. Then done(ctx)
 * runs in the main loop. Call it once. */
void engine_role_release(struct engine_role *r, void (*done)(void *ctx), void *ctx);
/* Ends the thread after the messages so far, and frees everything. NULL accepted. */
void engine_role_free(struct engine_role *r);
size_t engine_role_providers(const struct engine_role *r);

#endif
