/*
 * Checkpoints: ask the job to save, wait until it says so, scan its directory, store what changed
 * and have the daemon commit it.
 *
 * A scan lists every regular file with mode, size and the sha256 of each 64 MiB chunk. Hashing
 * takes long and must not hold up the agent, so a child process does it (`spot-agent --scan`). The
 * child gets on descriptor 3 what the last scan found (same size, time and inode: not read again)
 * and writes one line of JSON per file.
 */
#ifndef AGENT_CKPT_H
#define AGENT_CKPT_H

#include "base/base.h"

#include "agent/net/net.h"
#include "agent/proc/proc.h"
#include "base/text/sbuf.h"

#include <sys/types.h>

#define AGENT_TRANSFERS_MAX 4 /* chunks under way at a time, in either direction */

/* ---- what is in a directory (scan.c) --------------------------------------------------------- */

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

/* ---- checkpoints (checkpoint.c) -------------------------------------------------------------- */

enum ckpt_at {
	CKPT_IDLE = 0,
	CKPT_SAVE,
	CKPT_STOP,
	CKPT_SCAN,
	CKPT_POST,
	CKPT_UPLOAD,
	CKPT_COMMIT
};
struct upload;
struct ckpt {
	enum ckpt_at at;
	const char *reason; /* "periodic" "notice" "drain" "final" */
	bool leave; /* the job is to end after it */
	bool rebalance;
	bool saved; /* the job said so */
	bool by_end; /* ... by its end alone, whatever it had still to do */
	int64_t begun_us, begun_wall_us, save_until_us, kill_after_us, deadline_us;
	int64_t asked_steps; /* its progress when it was asked to save */
	struct job_signalled signalled;
	/* wall clock, when a signal last asked the job to save; 0 = never */
	int64_t signalled_wall_us;
	int64_t steps;
	/* scan */
	pid_t scan_pid;
	int scan_fd;
	struct sbuf scan_text;
	struct scan_list found; /* the files of this checkpoint */
	struct scan_list known; /* the files of the last scan or restore */
	struct scan_list committed;
	int64_t committed_steps;
	/* upload */
	struct http_call *call;
	struct retry backoff;
	char id[AGENT_ID_MAX];
	struct upload *uploads;
	size_t uploads_n, uploads_done;
	int flying, rounds;
	/* sha256 of chunks of this checkpoint that the store has taken */
	char (*stored)[65];
	size_t stored_n, stored_room;
	size_t stored_before; /* when its list was sent last */
	/* of the daemon that serves all else, since the store took a chunk */
	int refusals;
	int64_t refused_us, refusal_us; /* the first and the newest of them */
	int64_t asked_us; /* the daemon, last */
	/* outcome of the last one */
	bool ok;
	char why[400];
	int64_t last_us; /* when the last one ended */
};
void ckpt_begin(struct agent *a, const char *reason, bool leave, int64_t deadline_us);
void ckpt_step(struct agent *a);
void ckpt_stop(struct agent *a); /* gives up what is under way */
void ckpt_reset(struct agent *a); /* for a new job */
void ckpt_scan_ready(struct agent *a); /* the scan's output can be read */
/* Ends the requests for upload sessions that nobody waits for (upload_resumable.c). */
void upload_sessions_end(struct agent *a);

#endif
