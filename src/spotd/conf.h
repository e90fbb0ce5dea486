/* The daemon's configuration: one table (conf.c) gives the parser, the range checks, --print-config
 * and the sample file. Strings live in the arena of the file they were read from. */
#ifndef SPOTD_CONF_H
#define SPOTD_CONF_H

#include "base/base.h"
#include "base/text/text.h"
#include "core/spec/spec.h"
#include "engine/engine.h"
#include "engine/market/market.h"

struct spotd_conf {
	struct arena *arena;
	const char *path; /* of the file, for messages */
	struct conf_file file; /* [provider NAME] */
	struct engine_conf engine;
	struct poller_conf poller;
	struct class_table classes; /* [class NAME] over the built-in ones */
	struct schedule_team *shares; /* [share NAME]; engine.shares */
	size_t shares_cap;
	int64_t poller_parallel, moves_per_hour, rebalance_wave, rebalance_pool;
	const char *rebalance_hours;
	const char *dsn;
	int64_t db_connections, db_timeout_us;
	bool migrate;
	const char *listen, *tls_cert, *tls_key, *public_url, *public_ca, *agent_dir;
	int64_t api_connections, orphan_timeout_us;
	const char *store, *store_provider, *store_region, *store_endpoint;
	const char *ca_file;
	bool log_json;
	const char *log_level;
	/* out of [api] listen */
	const char *address;
	int port;
	/* read from files */
	const char *public_ca_pem;
};
/* A NULL path means defaults only. The caller zeroes ret or passes that of an earlier call; it is
 * replaced only if the whole file is good. With all: it gets every mistake, and ret the good parts,
 * so that the providers can be checked as well. Nobody may run with it. */
NODISCARD enum spot_rc spotd_conf_read(const char *path, struct spotd_conf *ret,
    struct conf_mistakes *all, struct spot_err *err);
void spotd_conf_free(struct spotd_conf *c);
struct sbuf;
void spotd_conf_print(const struct spotd_conf *c, bool with_help, struct sbuf *out);

/* Between conf_items.c and conf.c. */

#define CONF_AT(m) offsetof(struct spotd_conf, m)
extern const struct conf_item spotd_conf_items[];
extern const size_t spotd_conf_items_n;

#endif
