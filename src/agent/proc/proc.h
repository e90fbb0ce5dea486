/*
 * The job's processes: specification, start, the supervisor (shim), signals, and the facts that
 * the processes write. By state.json a restarted agent finds them again. The job's life (fetch,
 * end, report) is agent/job/.
 *
 * The shim is a process between agent and job, so that the job outlives the agent. The agent starts
 * it as `spot-agent --shim` with its instructions in a memory file on descriptor 3. They hold
 * secrets, so they are in no path, argument or environment of the shim. The shim runs setup, then
 * run, each in its own session, and in a cgroup if that is allowed. Both append their output to one
 * log file. It writes job.json at the start of each, exit.json once at the end, and then that the
 * disk has all that the program wrote. SIGTERM: kill everything now. SIGUSR1: run the checkpoint
 * command; the file `saved` appears when it succeeded.
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
	STOP_DROPPED = 4, /* fenced: nobody wants to hear of it */
};
struct job {
	enum job_phase phase;
	char id[AGENT_ID_MAX];
	int64_t epoch;
	/* whole, with secrets and URLs; only until it was started */
	json_t *run;
	json_t *spec; /* run without those; kept in state.json */
	/* from spec; the strings belong to it */
	const char *name, *signal, *then, *command;
	bool has_checkpoint, restored;
	int64_t interval_us, budget_us, kill_after_us, max_us, steps_start, log_base, num_gpus,
	    num_nodes;
	/* places */
	char dir[AGENT_PATH_MAX], cwd[AGENT_PATH_MAX], ckpt_dir[AGENT_PATH_MAX],
	    log[AGENT_PATH_MAX], progress[AGENT_PATH_MAX], saved[AGENT_PATH_MAX],
	    notice[AGENT_PATH_MAX];
	char cgroup[AGENT_PATH_MAX]; /* "" = none */
	/* processes */
	pid_t shim;
	uint64_t shim_start; /* 0: not yet known */
	pid_t leader;
	int64_t spawned_us, running_us;
	/* stopping */
	enum stop_kind stop;
	bool fenced; /* another attempt is the current one: job_step drops this */
	/* since when exit.json is there and cannot be read; 0 = never */
	int64_t exit_unread_us;
	int64_t kill_us; /* when to stop asking; 0 = not asked yet */
	int kills; /* so often it was ended by force */
	char why[400];
	/* the end */
	char exit_phase[16];
	int exit_code, exit_signal;
	bool finished; /* ended by itself, before anything was asked of it */
	const char *reason; /* set when JOB_ENDED */
	int64_t told_again_us; /* 0 = never */
	/* progress */
	int64_t steps_done, steps_total;
	int watch; /* inotify of dir */
};

bool job_alive(const struct job *j); /* has processes or is about to */
bool job_is_over_time(const struct agent *a); /* has run for as long as its attempt may */
void job_why_set(struct job *j, const char *why); /* made printable ASCII */

/* ---- start (start.c) ------------------------------------------------------------------------- */

/* Fills j from j->spec and j->run. */
NODISCARD enum spot_rc job_spec_read(struct agent *a, struct job *j, struct spot_err *err);
/* SPOT_INTERNAL: the machine has no room for a process now. */
NODISCARD enum spot_rc job_start(struct agent *a, struct spot_err *err);

/* ---- watching (watch.c) ---------------------------------------------------------------------- */

void job_watch(struct agent *a); /* changes of its directory wake us */
void job_look(struct agent *a); /* reads what the shim wrote since */
void job_progress_read(struct job *j);
/* The end of its processes, as the shim wrote it; the caller drops *ret. SPOT_NOT_FOUND: it has
 * not; any other error may pass. */
NODISCARD enum spot_rc job_exit_read(const struct job *j, json_t **ret, struct spot_err *err);
void job_exit_set(struct job *j, const json_t *o);
bool job_shim_is_alive(struct agent *a);
/* False: it ended in another boot, and the disk may lack what it wrote last. */
bool job_end_is_safe(const struct job *j);
/* The agent before us ended just before it started the shim, which begins with the log. */
bool job_never_begun(const struct job *j);

/* ---- signals (signal.c) ---------------------------------------------------------------------- */

struct job_signalled {
	pid_t pids[256];
	size_t n;
};
/* Signals every process of the job that handles it and is not in the list; true if any did. */
bool job_signal(struct agent *a, int signo, struct job_signalled *done);
/* Of a job that is alive: records what is asked, sends its `then` signal if there is a grace. */
void job_stop_ask(struct agent *a, enum stop_kind stop, int64_t grace_us, const char *why);
void job_kill(struct agent *a); /* by force, once its time to stop is over */
void job_kill_remains(struct agent *a); /* processes that a killed shim left behind */

/* ---- state.json (state.c) -------------------------------------------------------------------- */

void state_write(struct agent *a); /* at once and durable; failure is logged */
/* True: it names a job that is ours, and a->job is filled (job_adopt goes on with it). */
NODISCARD bool state_read(struct agent *a);
/* 0 = never; less than 0 or more than a year: as it was. True: another than before. */
bool orphan_timeout_set(struct agent *a, int64_t seconds);
#define STATE_SECONDS_MAX INT64_C(31622400)

/* ---- the shim (shim.c) ----------------------------------------------------------------------- */

#define SHIM_FD 3
/* Files in the job's directory. */
#define SHIM_JOB_FILE "job.json" /* {"shim_pid","shim_start","phase","leader"} */
#define SHIM_EXIT_FILE "exit.json" /* {"phase","code","signal"} */
#define SHIM_SAFE_FILE "safe" /* not empty: all that the program wrote is on the disk */
#define SHIM_LOG_FILE "log"

/* The instructions:
 * {"dir","cwd","setup","run","command","shell","cgroup","saved","ckpt","env":{}} */
NODISCARD enum spot_rc shim_spawn(json_t *instructions, pid_t *ret, struct spot_err *err);
int shim_main(void);

#endif
