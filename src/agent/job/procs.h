/*
 * Processes seen through /proc and cgroup v2: identity that survives a restart of the agent (pid
 * and start time), the tree below a process, who handles a signal.
 */
#ifndef AGENT_PROCS_H
#define AGENT_PROCS_H

#include "base/base.h"

#include "agent/fsutil.h"

#include <sys/types.h>

#define PROCS_MAX 4096

/* Field 22 of /proc/PID/stat, clock ticks since boot; 0 = no such process, a zombie, or it cannot
 * be read. */
uint64_t proc_start_time(pid_t pid);
/* Only what the kernel says is gone: no such process, a zombie, or another one has its number by
 * now. What cannot be read for another reason (no descriptor or memory left) may be alive. start 0:
 * any. */
bool proc_is_gone(pid_t pid, uint64_t start);
/* Fills ret with every live descendant of root (not root itself); returns the count. */
size_t proc_tree(pid_t root, pid_t ret[PROCS_MAX]);
/* Has a handler installed for the signal. */
bool proc_catches(pid_t pid, int signo);
/* Kills every descendant of root and waits for none; processes that fork meanwhile are stopped
 * first. */
void proc_kill_tree(pid_t root);
/* Likewise, every process but ours that was started with this in its environment, wherever it now
 * stands: what is left of a tree whose root is gone. One that has cleared its environment, or that
 * we may not look into, is not found. */
void proc_kill_env(const char *name, const char *value);

/* The directory of a new cgroup for a job under our own, made; false: not allowed here. */
NODISCARD bool cgroup_make(const char *name, char ret[AGENT_PATH_MAX]);
NODISCARD bool cgroup_join(const char *cgroup); /* the calling process; async-signal-safe */
void cgroup_kill(const char *cgroup); /* everything in it, fork-safe, kernel 5.14+ */
void cgroup_remove(const char *cgroup); /* "" accepted */

/* 0 = not a signal name. "USR1", "SIGUSR1" */
int signal_parse(const char *name);

#endif
