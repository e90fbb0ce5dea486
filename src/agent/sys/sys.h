/*
 * The machine as the agent needs it: files, processes, its network address. Nothing here knows the
 * agent. Functions that can fail say why in err; paths are at most AGENT_PATH_MAX bytes, and a
 * longer one is refused.
 */
#ifndef AGENT_SYS_H
#define AGENT_SYS_H

#include "base/base.h"

#include <jansson.h>
#include <netinet/in.h>
#include <sys/types.h>

/* ---- files (files.c) ------------------------------------------------------------------------- */

#define AGENT_PATH_MAX 4096

NODISCARD bool path_join(char dst[AGENT_PATH_MAX], const char *dir, const char *name);
/* A relative path that stays below its root: not empty, no "..", no leading "/", no NUL or
 * newline. */
NODISCARD bool path_is_inside(const char *path);
/* At most bytes_max (larger files are refused); the caller frees *ret (NUL terminated). */
NODISCARD enum spot_rc file_read(const char *path, size_t bytes_max, struct str *ret,
    struct spot_err *err);
/* Replaces path as a whole or not at all. durable: also after a power cut. */
NODISCARD enum spot_rc file_write(const char *path, struct str bytes, int mode, bool durable,
    struct spot_err *err);
bool file_exists(const char *path);
/* may be over soon, and nobody named anything wrongly: no room, no descriptor, a device's fault */
bool disk_trouble(int error);
/* mkdir -p; errno tells why, too */
NODISCARD enum spot_rc dir_make(const char *path, struct spot_err *err);
NODISCARD enum spot_rc dir_make_above(const char *path, struct spot_err *err); /* for the parent */
void dir_remove(const char *path); /* rm -rf */
/* Of the user that we are: systemd gives a service of root no HOME. "/" where nobody knows it. */
const char *home_dir(void);
/* Calls each(ctx, name) for the entries of a directory; absent directories have none. */
void dir_each(const char *path, void (*each)(void *ctx, const char *name), void *ctx);
/* One JSON object. json_file_read: SPOT_NOT_FOUND if there is no such file. */
NODISCARD enum spot_rc json_file_read(const char *dir, const char *name, json_t **ret,
    struct spot_err *err);
/* 0600, whole and durable. */
NODISCARD enum spot_rc json_file_write(const char *dir, const char *name, const json_t *o,
    struct spot_err *err);

/* ---- processes and cgroups (procs.c) --------------------------------------------------------- */

#define PROCS_MAX 4096

/* Field 22 of /proc/PID/stat, clock ticks since boot; 0 = no such process, a zombie, or it cannot
 * be read. */
uint64_t proc_start_time(pid_t pid);
/* Only what the kernel says is gone: no such process, a zombie, or another one has its number by
 * now. A process that cannot be read for another reason (no descriptor or memory left) may be
 * alive. start 0: any. */
bool proc_is_gone(pid_t pid, uint64_t start);
/* Fills ret with every live descendant of root (not root itself); returns the count. */
size_t proc_tree(pid_t root, pid_t ret[PROCS_MAX]);
/* Has a handler installed for the signal. */
bool proc_catches(pid_t pid, int signo);
/* Kills every descendant of root and waits for none; processes that fork meanwhile are stopped
 * first. */
void proc_kill_tree(pid_t root);
/* Likewise, every process but ours that was started with this in its environment, wherever it now
 * stands. So the rest of a tree ends whose root is gone. One that has cleared its environment, or
 * that we may not look into, is not found. */
void proc_kill_env(const char *name, const char *value);

/* The directory of a new cgroup for a job under our own, made; false: not allowed here. */
NODISCARD bool cgroup_make(const char *name, char ret[AGENT_PATH_MAX]);
NODISCARD bool cgroup_join(const char *cgroup); /* the calling process; async-signal-safe */
void cgroup_kill(const char *cgroup); /* everything in it, fork-safe, kernel 5.14+ */
void cgroup_remove(const char *cgroup); /* "" accepted */

/* 0 = not a signal name. "USR1", "SIGUSR1" */
int signal_parse(const char *name);

/* ---- fork (spawn.c) -------------------------------------------------------------------------- */

/*
 * fork() for a child that becomes another program at once. It returns 0 in the child, which must
 * exec or _exit soon, the child's pid in the parent, or -1 with errno. The parent waits until the
 * child has executed its program or ended. Until then the child holds copies of our open files. A
 * program that we just wrote could not be executed (ETXTBSY).
 */
pid_t spawn_fork(void);

/* ---- network (address.c) --------------------------------------------------------------------- */

/* The first IPv4 address that is not the loopback's: other machines of the network reach us by it.
 * "127.0.0.1" if there is none. */
void own_address(char ret[INET_ADDRSTRLEN]);

#endif
