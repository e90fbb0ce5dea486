/* Inside of io/cluster: pgcluster.c runs the server, pgcluster_dir.c prepares its folders,
 * pgcluster_template.c packs and copies a prepared data folder. */
#ifndef IO_PGCLUSTER_PRIV_H
#define IO_PGCLUSTER_PRIV_H

#include "io/cluster/pgcluster.h"

#define PGCLUSTER_PATH 512
struct pgcluster_dir {
	char dir[PGCLUSTER_PATH]; /* absolute; holds data, sock, log and lock */
	char data[PGCLUSTER_PATH];
	char sock[PGCLUSTER_PATH]; /* outside dir if the path is too long for a socket */
	char log[PGCLUSTER_PATH];
	char bin[PGCLUSTER_PATH]; /* folder of initdb and postgres */
	bool sock_outside;
	int uid, gid; /* the server's; -1 = ours */
	int lock_fd; /* held as long as we use dir */
};
NODISCARD enum spot_rc pgcluster_dir_open(struct pgcluster_dir *d, const char *dir,
    struct spot_err *err);
void pgcluster_dir_close(struct pgcluster_dir *d);
bool pgcluster_dir_has_data(const struct pgcluster_dir *d);
/* Returns the pid of the postmaster of d->data; 0 = none. Removes the pid file of a dead one. */
int pgcluster_dir_postmaster(const struct pgcluster_dir *d);
/* Copies the last line with FATAL, PANIC or "error:" in the log after offset, for messages. */
void pgcluster_dir_log_tail(const struct pgcluster_dir *d, int64_t offset, char *buf, size_t n);
/* Starts a program as the server's user in d->dir, with its words in the log. in = -1: no input. */
NODISCARD enum spot_rc pgcluster_spawn(const struct pgcluster_dir *d, const char *const *argv,
    int in, int *ret_pid, struct spot_err *err);
/* The same, and later waits for its end. A status other than 0 is CONFIG, with the log's words.
 * argv[0] lives until the end. */
struct pgcluster_run {
	const char *program;
	int64_t offset; /* of its words in the log */
	int pid;
};
NODISCARD enum spot_rc pgcluster_run_start(const struct pgcluster_dir *d, const char *const *argv,
    int in, struct pgcluster_run *ret, struct spot_err *err);
NODISCARD enum spot_rc pgcluster_run_end(const struct pgcluster_dir *d,
    const struct pgcluster_run *run, struct spot_err *err);
/* Both in one call. */
NODISCARD enum spot_rc pgcluster_run(const struct pgcluster_dir *d, const char *const *argv, int in,
    struct spot_err *err);
void pgcluster_tree_remove(const char *path);
/* Makes d->data from the template. Nothing of a failed copy remains. */
NODISCARD enum spot_rc pgcluster_template_copy(const struct pgcluster_dir *d,
    const struct pgcluster_template *t, struct spot_err *err);

#endif
