/*
 * The job's own supervisor: a process between agent and job, so that the job outlives the agent.
 * The agent starts it as `spot-agent --shim` with its instructions in a memory file on descriptor 3
 * (they hold the secrets: never a path, an argument or the shim's own environment).
 *
 * It runs setup, then run, each in a session of its own (and in a cgroup where that is allowed),
 * with both outputs appended to one log file; writes job.json (who it is, what runs) at the start
 * of each and exit.json once, at the end, as whole files, and then that the disk has all that the
 * program wrote. SIGTERM: kill everything now. SIGUSR1: run the checkpoint command; the file
 * `saved` appears when it succeeded.
 */
#ifndef AGENT_SHIM_H
#define AGENT_SHIM_H

#include "base/base.h"

#include <jansson.h>
#include <sys/types.h>

#define SHIM_FD 3
/* Files in the job's directory. */
#define SHIM_JOB_FILE "job.json" /* {"shim_pid","shim_start","phase","leader"} */
#define SHIM_EXIT_FILE "exit.json" /* {"phase","code","signal"} */
#define SHIM_SAFE_FILE "safe" /* not empty: what the program wrote is on the disk */
#define SHIM_LOG_FILE "log"

/* What the agent hands over:
 * {"dir","cwd","setup","run","command","shell","cgroup","saved","ckpt","env":{}} */
NODISCARD enum spot_rc shim_spawn(json_t *instructions, pid_t *ret, struct spot_err *err);
int shim_main(void);

#endif
