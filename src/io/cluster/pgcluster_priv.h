/* Inside of io/pgcluster: pgcluster.c runs the server, pgcluster_dir.c prepares its folders. */
#ifndef IO_PGCLUSTER_PRIV_H
#define IO_PGCLUSTER_PRIV_H

#include "io/cluster/pgcluster.h"

#define PGCLUSTER_PATH 512
struct pgcluster_dir {
	char dir[PGCLUSTER_PATH]; /* absolute; data, sock, log and lock lie in it */
	char data[PGCLUSTER_PATH];
	char sock[PGCLUSTER_PATH]; /* elsewhere if the path would be too long for a socket */
	char log[PGCLUSTER_PATH];
	char bin[PGCLUSTER_PATH]; /* where initdb and postgres are */
	bool sock_outside;
	int uid, gid; /* the server's; -1 = as we are */
	int lock_fd; /* held as long as we use dir */
};
NODISCARD enum spot_rc pgcluster_dir_open(struct pgcluster_dir *d, const char *dir,
    struct spot_err *err);
void pgcluster_dir_close(struct pgcluster_dir *d);
bool pgcluster_dir_has_data(const struct pgcluster_dir *d);
/* pid of a postmaster that lives in d->data; 0 = none. A pid file left by a dead one is removed. */
int pgcluster_dir_postmaster(const struct pgcluster_dir *d);
/* The last line with ERROR, FATAL or "error:" of the log's part behind offset, for messages. */
void pgcluster_dir_log_tail(const struct pgcluster_dir *d, int64_t offset, char *buf, size_t n);

#endif
