/*
 * A private Postgres cluster started and stopped by us (spotd --local, demo, tests): Unix socket
 * only (0700), data checksums, also when the caller is root (the server then runs as `postgres` or
 * `nobody`). We are its parent and wait() for it; PR_SET_PDEATHSIG (SIGINT, set after setresuid)
 * ends it cleanly if we die. Binaries from /usr/lib/postgresql/NN/bin (the version of an existing
 * cluster, else the newest), or from where initdb stands in PATH.
 *
 * dir holds data, sock, log and lock. One process at a time uses it: a second one is refused with
 * the first one's number (CONFLICT). A server whose owner was killed is waited for and started
 * again; a pid file of a dead server is removed. SPOT_CONFIG names what the operator must change.
 */
#ifndef IO_PGCLUSTER_H
#define IO_PGCLUSTER_H

#include "base/base.h"

struct pgcluster;
/* Creates the cluster in dir if absent (initdb), starts it, waits until it accepts; blocking, <= 60
 * s. */
NODISCARD enum spot_rc pgcluster_start(const char *dir, const char *database, bool fast_and_unsafe,
    struct pgcluster **ret, struct spot_err *err);
const char *pgcluster_dsn(const struct pgcluster *c);
int pgcluster_pid(const struct pgcluster *c);
void pgcluster_stop(struct pgcluster *c); /* fast shutdown, waits; NULL accepted */

#endif
