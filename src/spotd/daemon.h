/* The running daemon: what main.c decided, and what roles.c wires together. */
#ifndef SPOTD_DAEMON_H
#define SPOTD_DAEMON_H

#include "engine/engine.h"
#include "io/loop/loop.h"
#include "io/pg/pg.h"
#include "spotd/conf.h"

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

#endif
