/*
 * Checkpoints: ask the job to save, wait for its confirmation, scan its directory, store the
 * changes, and have the daemon commit them.
 *
 * A scan lists every regular file with mode, size and the sha256 of each 64 MiB chunk. Hashing
 * takes long and must not hold up the agent, so a child process does it (`spot-agent --scan`). The
 * child reads the last scan from descriptor 3, and does not hash a file again if size, time and
 * inode are the same. It writes one line of JSON per file.
 */
#ifndef AGENT_CKPT_H
#define AGENT_CKPT_H

#include "base/base.h"

#include "agent/net/net.h"
#include "agent/proc/proc.h"
#include "base/text/text.h"

#include <sys/types.h>

#define AGENT_TRANSFERS_MAX 4 /* chunks under way at a time, in either direction */

/* ---- the files of a directory (scan.c) ------------------------------------------------------- */

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
void scan_list_add(struct scan_list *l, struct scan_file f); /* takes ownership of f's memory */
void scan_list_sort(struct scan_list *l); /* by path; scan_list_same and _find need it */
void scan_list_copy(struct scan_list *to, const struct scan_list *from);
/* Compares paths, modes and contents of two sorted lists. */
bool scan_list_same(const struct scan_list *a, const struct scan_list *b);
const struct scan_file *scan_list_find(const struct scan_list *l, const char *path);
/* Returns the newest time of change of a file, ns since the epoch; 0 if there are none. */
int64_t scan_list_newest(const struct scan_list *l);

/* Starts the child; *ret_fd is the read end of its output, non-blocking. The caller closes it. */
NODISCARD enum spot_rc scan_spawn(const char *dir, const struct scan_list *known, pid_t *ret_pid,
    int *ret_fd, struct spot_err *err);
/* Adds one line of the output to the list. *ret_done: it was the last line. */
NODISCARD enum spot_rc scan_line(struct scan_list *l, struct str line, bool *ret_done,
    struct spot_err *err);
int scan_main(void); /* the child; returns its exit status */

/* Scans dir in this process; for the child and for tests. */
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
	bool leave; /* the job ends after the save */
	bool rebalance;
	bool saved; /* the job has confirmed the save */
	bool by_end; /* the confirmation is only the job's exit with 0 */
	int64_t begun_us, begun_wall_us, save_until_us, kill_after_us, deadline_us;
	int64_t asked_steps; /* the job's progress when the agent asked it to save */
	struct job_signalled signalled;
	int64_t signalled_wall_us; /* wall clock of the last signal to save; 0 = never */
	/* the job was first asked to save and leave, and confirmed that save; 0 = never */
	int64_t left_signal_us, left_saved_us;
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
	int flying, rounds; /* transfers under way; repeats so far */
	char (*stored)[65]; /* sha256 of the chunks that the store has taken */
	size_t stored_n, stored_room;
	size_t stored_before; /* stored_n when the list was sent last */
	/* answers 5xx in a row to the last checkpoint, while the daemon serves other calls */
	int refusals;
	int64_t refused_us, refusal_us; /* time of the first and of the newest refusal */
	int64_t asked_us; /* time of the last request to the daemon */
	/* outcome of the last checkpoint */
	bool ok;
	char why[400];
	int64_t last_us; /* its end */
};
/* Starts a checkpoint. reason: a string constant. leave: the job ends after it, and deadline_us
 * (0 = none) is the end of the node. A checkpoint under way goes on, unless only the new one
 * leaves. */
void ckpt_begin(struct agent *a, const char *reason, bool leave, int64_t deadline_us);
void ckpt_step(struct agent *a);
void ckpt_stop(struct agent *a); /* gives up the checkpoint under way */
void ckpt_reset(struct agent *a); /* for a new job */
void ckpt_scan_ready(struct agent *a); /* reads the scan's output */
/* Frees the records of session requests that have no upload any more (upload_resumable.c). */
void upload_sessions_end(struct agent *a);

#endif
