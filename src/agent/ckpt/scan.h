/*
 * What is in a checkpoint directory: every regular file with mode, size and the sha256 of each 64
 * MiB chunk. Hashing takes long and must not hold up the agent, so it is done by a child process
 * (`spot-agent --scan`), which gets what is known from last time (same size, time and inode: not
 * read again) on descriptor 3 and writes one line of JSON per file.
 */
#ifndef AGENT_SCAN_H
#define AGENT_SCAN_H

#include "base/base.h"

#include <sys/types.h>

struct scan_file {
	char *path; /* relative to the directory */
	int mode;
	int64_t bytes, mtime_ns;
	uint64_t inode;
	size_t chunks_n; /* at least one: an empty file has one empty chunk */
	char (*sha256)[65];
};

struct scan_list {
	struct scan_file *files;
	size_t n, cap;
};

void scan_list_fini(struct scan_list *l);
void scan_list_add(struct scan_list *l, struct scan_file f); /* takes f's memory */
/* by path; find and same want it */
void scan_list_sort(struct scan_list *l);
void scan_list_copy(struct scan_list *to, const struct scan_list *from);
/* Same paths, modes and contents. */
bool scan_list_same(const struct scan_list *a, const struct scan_list *b);
const struct scan_file *scan_list_find(const struct scan_list *l, const char *path);
/* Newest change of any file, ns since the epoch; 0 if there are none. */
int64_t scan_list_newest(const struct scan_list *l);

/* Starts the child; *ret_fd is the read end of its output, non-blocking. */
NODISCARD enum spot_rc scan_spawn(const char *dir, const struct scan_list *known, pid_t *ret_pid,
    int *ret_fd, struct spot_err *err);
/* One line of the output into the list. *ret_done: it was the last one. */
NODISCARD enum spot_rc scan_line(struct scan_list *l, struct str line, bool *ret_done,
    struct spot_err *err);
int scan_main(void);

/* The work itself, in this process; for the child and for tests. */
NODISCARD enum spot_rc scan_dir(const char *dir, const struct scan_list *known,
    struct scan_list *ret, struct spot_err *err);

#endif
