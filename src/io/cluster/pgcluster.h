/*
 * Starts and stops a private Postgres cluster (spotd --local, demo, tests). It has data checksums
 * and listens only on a Unix socket, in a folder of mode 0700. If the caller is root, the server
 * runs as `postgres` or `nobody`.
 *
 * We are the server's parent and wait() for it. PR_SET_PDEATHSIG (SIGINT, set after setresuid) ends
 * it cleanly if we die. The binaries come from /usr/lib/postgresql/NN/bin, in the version of an
 * existing cluster, else the newest. The fallback is the folder of initdb in PATH.
 *
 * One process at a time uses dir, which holds data, sock, log and lock. A second process gets
 * CONFLICT with the pid of the first. If the owner of a running server was killed, we wait for the
 * end of that server and start it again. SPOT_CONFIG tells the operator the necessary change.
 *
 * A template is a packed data folder: copying it costs a fraction of initdb and migrations. Each
 * copy gets a system identifier of its own. If the template is missing or damaged, or its id or
 * server version differs, initdb makes the cluster.
 */
#ifndef IO_PGCLUSTER_H
#define IO_PGCLUSTER_H

#include "base/base.h"

struct pgcluster;
/* Creates the cluster in dir if absent (initdb), starts it, and waits until it accepts connections.
 * Blocks for at most 60 s. fast_and_unsafe: no fsync, so a power cut may destroy the data. */
NODISCARD enum spot_rc pgcluster_start(const char *dir, const char *database, bool fast_and_unsafe,
    struct pgcluster **ret, struct spot_err *err);
struct pgcluster_template {
	const char *path;
	const char *id; /* of its content; letters and digits; the file must have the same */
};
/* The same. A cluster that is absent comes from the template (NULL = none), which has database. */
NODISCARD enum spot_rc pgcluster_start_from(const struct pgcluster_template *t, const char *dir,
    const char *database, bool fast_and_unsafe, struct pgcluster **ret, struct spot_err *err);
#define PGCLUSTER_TEMPLATE "template.tar.gz"
/* Packs the stopped cluster in dir as dir/template.tar.gz. For the build. */
NODISCARD enum spot_rc pgcluster_template_make(const char *dir, const char *id,
    struct spot_err *err);
const char *pgcluster_dsn(const struct pgcluster *c);
int pgcluster_pid(const struct pgcluster *c);
void pgcluster_stop(struct pgcluster *c); /* fast shutdown; waits for the end; NULL accepted */

#endif
