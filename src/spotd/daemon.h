/* The daemon: small files, options and wiring, programs for nodes, the engine's half. */
#ifndef SPOTD_DAEMON_H
#define SPOTD_DAEMON_H

#include "base/base.h"
#include "engine/engine.h"
#include "io/loop/loop.h"
#include "io/pg/pg.h"
#include "spotd/conf.h"
#include "api/agent/agent.h"

/* Small files and folders of the daemon. */

struct arena;
NODISCARD enum spot_rc file_read(const char *path, struct arena *a, size_t bytes_max,
    struct str *ret, struct spot_err *err);
/* Whole or not at all: written beside and renamed. */
NODISCARD enum spot_rc file_write(const char *path, const char *text, unsigned mode,
    struct spot_err *err);
bool file_exists(const char *path);
/* Folder and its parents, 0700. */
NODISCARD enum spot_rc folder_make(const char *path, struct spot_err *err);

/* The running daemon: what main.c decided, and what roles.c wires together. */

struct options {
	const char *config; /* NULL = none */
	bool local;
	bool role_api, role_engine;
	const char *state_file; /* NULL = none */
};

/* Runs until SIGTERM or SIGINT; the exit status. conf is replaced on reload. */
int daemon_run(const struct options *o, struct spotd_conf *conf, const char *dsn,
    const char *admin_token_file);

/* once.c: one statement, waited for; for start-up and tools. */
struct once {
	struct rng rng;
	struct loop *loop;
	struct pg *pg;
};
void once_init(struct once *o, const char *dsn);
void once_fini(struct once *o);
/* Turns the loop until op is over (deadlines are the op's own). */
enum spot_rc once_wait(struct loop *l, struct op *op, struct spot_err *err);
void once_done(struct op *op); /* the done of a statement that is waited for */
/* A new API token, printed or stored by the caller. */
NODISCARD enum spot_rc token_create(const char *dsn, const char *name, const char *role,
    char token[], struct spot_err *err);
NODISCARD enum spot_rc schema_up_to_date(const char *dsn, bool migrate, struct spot_err *err);

/* local.c: the private Postgres of --local. */
struct pgcluster;
struct local {
	struct pgcluster *cluster;
	char dir[4096], token_file[4200];
};
NODISCARD enum spot_rc local_start(struct local *l, struct spot_err *err);
/* Writes an admin token for the person who started us, once per cluster. */
NODISCARD enum spot_rc local_token(const struct local *l, const char *dsn, struct spot_err *err);
const char *local_dsn(const struct local *l);
void local_stop(struct local *l);

/* notify.c: systemd's notification socket; nothing without it. */
void notify_systemd(const char *text);

/* providers.c: the provider instances of the configuration. */
struct call_provider;
struct call_shared;
struct http_client;
struct sbuf;
struct providers {
	struct call_provider **list;
	size_t n;
	/* Those with identity = off: their nodes enrol by the one-time token alone. */
	const char **identity_off;
	size_t identity_off_n;
	/* Those of --local that have no credentials, and why. */
	struct engine_unopened *unopened;
	size_t unopened_n;
};
NODISCARD enum spot_rc providers_open(struct providers *p, struct loop *loop,
    struct http_client *http, const struct spotd_conf *conf, bool local, struct call_shared *shared,
    struct spot_err *err);
void providers_close(struct providers *p);
/* [checkpoint] and the [provider NAME] sections fit together. */
NODISCARD enum spot_rc store_check(const struct spotd_conf *c, struct spot_err *err);
/* Opens and closes each of them, for --check-config. Adds a line for each to ret, with the proof
 * that its nodes give, and the mistakes of each to all. */
void providers_check(const struct spotd_conf *conf, struct sbuf *ret, struct conf_mistakes *all);

/*
 * This daemon's programs for nodes: its API hands them out, its engine pins them in user data. A
 * node downloads while it boots, from any daemon that is there by then, perhaps a newer one. So an
 * engine first puts each pinned program into the database (agent_binary), where every daemon finds
 * it.
 */

struct agents {
	struct loop *loop;
	struct pg *pg; /* NULL: nothing is pinned here, so nothing is kept */
	struct handout *now; /* handed out and pinned */
	struct handout *next; /* read on a reload: taken once the database has it; NULL: none */
	bool kept; /* the database has what is pinned */
	void (*changed)(void *ctx);
	void *ctx;
	struct pg_req req;
	struct loop_timer again;
	bool there[HANDOUT_FILES];
};
/* Call before the loop runs. Reads and keeps them, or logs the reason and tries again later. Calls
 * changed whenever now or kept changes. */
void agents_init(struct agents *g, struct loop *l, struct pg *pg, const char *dir,
    void (*changed)(void *), void *ctx);
/* Reads them again. One that is not there any more is an error, which is logged: nothing
 * changes. */
void agents_reload(struct agents *g, const char *dir);
void agents_fini(struct agents *g);
/* SHA-256 of what is handed out; "": there is none. Valid until changed. */
const char *agents_sha256(const struct agents *g, const char *name);

/*
 * The engine's half of the daemon: engine, price poller and providers. It has its own thread, loop,
 * database connections and HTTP client, so that a long pass delays no reply of the API. The two
 * halves share no structure; they send each other messages (loop_post).
 *
 * All functions are for the thread of the main loop.
 */

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
