/*
 * The job's processes: specification, start, the supervisor (shim), signals, and the files that
 * they write. A restarted agent finds them by state.json. The job's life (fetch, end, report) is
 * agent/job/.
 *
 * The shim is a process between agent and job, so that the job outlives the agent. The agent starts
 * it as `spot-agent --shim` with its instructions in a memory file on descriptor 3. They hold
 * secrets, so they are in no path, argument or environment of the shim.
 *
 * The shim runs setup, then run, each in its own session, and in a cgroup if that is allowed. Both
 * append their output to one log file. The shim writes job.json at the start of each, and exit.json
 * once at the end. Then it syncs the job's output to disk and marks the file `safe`.
 *
 * SIGTERM makes it kill everything now. SIGUSR1 makes it run the checkpoint command; after a
 * success the file `saved` exists.
 */
#ifndef AGENT_PROC_H
#define AGENT_PROC_H

#include "base/base.h"

#include "agent/sys/sys.h"

#include <jansson.h>
#include <sys/types.h>

#define AGENT_ID_MAX 64

struct agent;

/* ---- the job --------------------------------------------------------------------------------- */

enum job_phase { JOB_NONE = 0, JOB_FETCH, JOB_SETUP, JOB_RUNNING, JOB_ENDED, JOB_REPORTED };
enum stop_kind {
	STOP_NONE = 0,
	STOP_DRAINED, /* asked to leave: ends as "drained" */
	STOP_KILLED, /* ends as "killed" */
	STOP_DROPPED = 4, /* fenced: ends without a report */
};
struct job {
	enum job_phase phase;
	char id[AGENT_ID_MAX];
	int64_t epoch;
	json_t *run; /* complete, with secrets and URLs; NULL after the start */
	json_t *spec; /* run without those; kept in state.json */
	/* from spec, which owns the strings */
	const char *name, *signal, *then, *command;
	bool has_checkpoint, restored;
	int64_t interval_us, budget_us, kill_after_us, max_us, steps_start, log_base, num_gpus,
	    num_nodes;
	int64_t save_asked; /* the daemon's newest request to save and go on; 0 = none */
	/* places */
	char dir[AGENT_PATH_MAX], cwd[AGENT_PATH_MAX], ckpt_dir[AGENT_PATH_MAX],
	    log[AGENT_PATH_MAX], progress[AGENT_PATH_MAX], saved[AGENT_PATH_MAX],
	    notice[AGENT_PATH_MAX];
	char cgroup[AGENT_PATH_MAX]; /* "" = none */
	/* processes */
	pid_t shim;
	uint64_t shim_start; /* 0 = not yet known */
	pid_t leader;
	int64_t spawned_us, running_us;
	/* stopping */
	enum stop_kind stop;
	bool fenced; /* another attempt is the current one: job_step drops this one */
	int64_t exit_unread_us; /* first failed read of exit.json; 0 = none */
	int64_t kill_us; /* time of the kill by force; 0 = no stop requested */
	int kills; /* number of kills by force */
	char why[400];
	/* the end */
	char exit_phase[16];
	int exit_code, exit_signal;
	bool finished; /* it came to its own end, and the store must have its result */
	const char *reason; /* set in JOB_ENDED */
	int64_t told_again_us; /* time of the last report_again; 0 = never */
	/* progress */
	int64_t steps_done, steps_total;
	int64_t first_step_us; /* the first progress beyond steps_start was read; 0 = not yet */
	int watch; /* inotify of dir */
};

bool job_alive(const struct job *j); /* it has processes, or will have them soon */
bool job_is_over_time(const struct agent *a); /* it has used up its max_duration */
void job_why_set(struct job *j, const char *why); /* replaces all but printable ASCII */

/* ---- start (start.c) ------------------------------------------------------------------------- */

/* Fills j from j->spec and j->run. */
NODISCARD enum spot_rc job_spec_read(struct agent *a, struct job *j, struct spot_err *err);
/* Starts the shim. SPOT_INTERNAL: the machine lacks memory or processes now. */
NODISCARD enum spot_rc job_start(struct agent *a, struct spot_err *err);

/* ---- network libraries (nccl.c) -------------------------------------------------------------- */

/* Adds the variables that NCCL needs on this cloud to the environment of a job of several nodes.
 * Leaves alone the variables that env has. provider: as in boot.json. interface: the one that has
 * the node's address, "" = not known. */
void nccl_env_set(const char *provider, const char *interface, const char *devices_dir,
    json_t *env);

/* ---- watching (watch.c) ---------------------------------------------------------------------- */

void job_watch(struct agent *a); /* wakes the agent at changes of the job's directory */
void job_look(struct agent *a); /* reads job.json of the shim */
void job_progress_read(struct job *j);
/* Reads exit.json of the shim; the caller drops *ret. SPOT_NOT_FOUND: the processes have not ended.
 * Other errors may pass. */
NODISCARD enum spot_rc job_exit_read(const struct job *j, json_t **ret, struct spot_err *err);
void job_exit_set(struct job *j, const json_t *o);
bool job_shim_is_alive(struct agent *a);
/* False: the job ended before a reboot, and the disk may lack its last output. */
bool job_end_is_safe(const struct job *j);
/* True: an earlier agent ended before it started the shim, whose first act is to open the log. */
bool job_never_begun(const struct job *j);

/* ---- signals (signal.c) ---------------------------------------------------------------------- */

struct job_signalled {
	pid_t pids[256];
	size_t n;
};
/* Signals every process of the job that has a handler and is not in the list. Adds them to the
 * list; true if there was one. */
bool job_signal(struct agent *a, int signo, struct job_signalled *done);
/* Records a request to stop a living job. Sends its `then` signal if there is a grace period. */
void job_stop_ask(struct agent *a, enum stop_kind stop, int64_t grace_us, const char *why);
void job_kill(struct agent *a); /* kills it by force, once its grace period is over */
void job_kill_remains(struct agent *a); /* kills processes that a killed shim left behind */

/* ---- state.json (state.c) -------------------------------------------------------------------- */

void state_write(struct agent *a); /* durable on return; logs a failure */
/* True: the file names a job of this node, and a->job is filled. job_adopt goes on with it. */
NODISCARD bool state_read(struct agent *a);
/* Sets the orphan timeout; 0 = never. Ignores values below 0 and over a year. True: it changed. */
bool orphan_timeout_set(struct agent *a, int64_t seconds);
#define STATE_SECONDS_MAX INT64_C(31622400)

/* ---- the shim (shim.c) ----------------------------------------------------------------------- */

#define SHIM_FD 3
/* Files in the job's directory. */
#define SHIM_JOB_FILE "job.json" /* {"shim_pid","shim_start","phase","leader"} */
#define SHIM_EXIT_FILE "exit.json" /* {"phase","code","signal"} */
#define SHIM_SAFE_FILE "safe" /* not empty: the program's output is on the disk */
#define SHIM_LOG_FILE "log"

/* The instructions:
 * {"dir","cwd","setup","run","command","shell","cgroup","saved","ckpt","env":{}} */
NODISCARD enum spot_rc shim_spawn(json_t *instructions, pid_t *ret, struct spot_err *err);
int shim_main(void);

#endif
