/*
 * The job's life on this node: fetch, setup, run, end, report. job_stop records a request (drain,
 * kill, drop); job_step carries it out. Its processes are agent/proc/.
 */
#ifndef AGENT_JOB_H
#define AGENT_JOB_H

#include "base/base.h"

#include "agent/ckpt/ckpt.h"
#include "agent/proc/proc.h"

/* Parts above that follow the job. turn.c connects them. */
struct job_hooks {
	void (*taken)(struct agent *a); /* another job than before, or one that was adopted */
	/* its processes run; log_sent: bytes of its log that the daemon has */
	void (*started)(struct agent *a, int64_t log_sent);
	void (*dropped)(struct agent *a); /* before its files are removed */
};

void job_begin(struct agent *a, const char *id, int64_t epoch, json_t *run);
/* The daemon waits for the end of a job that was never begun here: reports that end. */
void job_refuse(struct agent *a, const char *id, int64_t epoch, const char *reason,
    const char *why);
void job_adopt(struct agent *a); /* after a restart: state.json named it */
void job_step(struct agent *a);
void job_stop(struct agent *a, enum stop_kind stop, int64_t grace_us, const char *why);
void job_end(struct agent *a, const char *reason, const char *why); /* why NULL: as it was */
/* Forgets it and removes its files; it must not be running. */
void job_drop(struct agent *a);
void job_fenced(struct agent *a); /* 409 stale_epoch */
void job_child_ended(struct agent *a, pid_t pid);

/* ---- files in (fetch.c) ---------------------------------------------------------------------- */

struct fetch_file;
struct fetch_chunk;
struct fetch_kept;
struct fetch {
	enum { FETCH_NONE = 0, FETCH_RUNNING, FETCH_DONE, FETCH_FAILED } at;
	struct fetch_file *files;
	struct fetch_chunk *chunks;
	size_t files_n, chunks_n, done_n;
	int flying;
	/* an URL is not honoured (any more), the disk is in trouble: begun anew so often; 0 =
	 * never */
	int rounds_max;
	int rounds; /* with fresh URLs, in a row; outlives fetch_stop */
	struct retry again; /* between them; outlives it, too */
	/* chunks that an earlier round left in kept_dir, whole; outlives it */
	struct fetch_kept *kept;
	size_t kept_n;
	char kept_dir[AGENT_PATH_MAX]; /* the job's; "" = nothing is kept */
	char why[400];
};
void fetch_begin(struct agent *a, const json_t *files);
void fetch_step(struct agent *a);
#define FETCH_ROUNDS 5 /* a quarter of a minute: a wrong file name must show soon */
/* ten minutes: a checkpoint's URLs are our business, and the daemon's clock or the store may be
 * off; a full disk may have room again */
#define FETCH_ROUNDS_OURS 26
void fetch_fail(struct agent *a, int rounds_max, const char *why);
/* how often what failed with this errno is begun anew */
int fetch_rounds(int error);
void fetch_stop(struct agent *a);
/* URLs have run out under way: the job is dropped and begun anew with fresh ones, and its directory
 * with what is there stays. With progress the rounds count from 0. */
void fetch_keep(struct agent *a);
/* and removes that directory, unless it is the job's */
void fetch_forget(struct agent *a);

#endif
