/*
 * The job's life on this node: fetch, setup, run, end, report. The function job_stop() records a
 * request (drain, kill, drop), and job_step() carries it out. The job's processes are agent/proc/.
 */
#ifndef AGENT_JOB_H
#define AGENT_JOB_H

#include "base/base.h"

#include "agent/ckpt/ckpt.h"
#include "agent/proc/proc.h"

/* Callbacks into the parts above the job. turn.c sets them. */
struct job_hooks {
	void (*taken)(struct agent *a); /* the agent has taken a new job, or adopted one */
	/* the job's processes run; log_sent: bytes of its log that the daemon has */
	void (*started)(struct agent *a, int64_t log_sent);
	void (*dropped)(struct agent *a); /* called before the removal of its files */
};

/* Takes a job and starts to fetch its files. The agent must have no job. */
void job_begin(struct agent *a, const char *id, int64_t epoch, json_t *run);
/* Reports the end of a job that never began here, since the daemon waits for it. */
void job_refuse(struct agent *a, const char *id, int64_t epoch, const char *reason,
    const char *why);
void job_adopt(struct agent *a); /* goes on with the job of state.json, after a restart */
void job_step(struct agent *a);
void job_stop(struct agent *a, enum stop_kind stop, int64_t grace_us, const char *why);
void job_end(struct agent *a, const char *reason, const char *why); /* why NULL: unchanged */
/* Forgets the job and removes its files. It must have no processes. */
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
	int rounds_max; /* rounds after this fault (bad URL, disk trouble); 0 = none */
	/* These outlive fetch_stop(): */
	int rounds; /* rounds with fresh URLs, in a row */
	struct retry again; /* wait between rounds */
	struct fetch_kept *kept; /* complete chunks that an earlier round left in kept_dir */
	size_t kept_n;
	char kept_dir[AGENT_PATH_MAX]; /* directory of that job; "" = none */
	char why[400];
};
void fetch_begin(struct agent *a, const json_t *files);
void fetch_step(struct agent *a);
#define FETCH_ROUNDS 5 /* about 15 seconds: a wrong file name must show soon */
/* Ten minutes, for faults that are not the user's: clock skew of the daemon, the store, or a full
 * disk. */
#define FETCH_ROUNDS_OURS 26
/* Ends the fetch; rounds_max: number of new rounds that are worth trying. */
void fetch_fail(struct agent *a, int rounds_max, const char *why);
/* Returns the number of new rounds after a failure with this errno. */
int fetch_rounds(int error);
void fetch_stop(struct agent *a);
/* Remembers the complete chunks and their directory for the next round, which has fresh URLs. After
 * progress the rounds count from 0. */
void fetch_keep(struct agent *a);
/* Forgets the kept chunks and removes their directory, unless the current job uses it. */
void fetch_forget(struct agent *a);

#endif
