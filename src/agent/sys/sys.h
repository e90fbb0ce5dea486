/*
 * The agent's view of the machine: files, processes, its network address. Nothing here knows the
 * agent. Functions that can fail put the reason into err. They refuse paths over AGENT_PATH_MAX
 * bytes.
 */
#ifndef AGENT_SYS_H
#define AGENT_SYS_H

#include "base/base.h"

#include <jansson.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/types.h>

/* ---- files (files.c) ------------------------------------------------------------------------- */

#define AGENT_PATH_MAX 4096

NODISCARD bool path_join(char dst[AGENT_PATH_MAX], const char *dir, const char *name);
/* Reports whether a path stays below its root: relative, not empty, no "..", no newline. */
NODISCARD bool path_is_inside(const char *path);
/* Reads a file of at most bytes_max. The caller frees *ret, which is NUL terminated. */
NODISCARD enum spot_rc file_read(const char *path, size_t bytes_max, struct str *ret,
    struct spot_err *err);
/* Replaces the file as a whole or not at all. durable: the new file survives a power cut. */
NODISCARD enum spot_rc file_write(const char *path, struct str bytes, int mode, bool durable,
    struct spot_err *err);
bool file_exists(const char *path);
/* Reports errors of the machine that may pass: no space, no descriptor, a device fault. */
bool disk_trouble(int error);
/* Makes the directory and its parents. On failure errno is set, too. */
NODISCARD enum spot_rc dir_make(const char *path, struct spot_err *err);
NODISCARD enum spot_rc dir_make_above(const char *path, struct spot_err *err); /* the parent */
void dir_remove(const char *path); /* rm -rf */
/* Returns our user's home, even without HOME, which systemd does not set for root's services;
 * "/" if unknown. */
const char *home_dir(void);
/* Calls each(ctx, name) for the entries of a directory. An absent directory has none. */
void dir_each(const char *path, void (*each)(void *ctx, const char *name), void *ctx);
/* Reads a JSON object, which the caller drops. SPOT_NOT_FOUND if there is no such file. */
NODISCARD enum spot_rc json_file_read(const char *dir, const char *name, json_t **ret,
    struct spot_err *err);
/* Writes a JSON object, mode 0600, as a whole and durable. */
NODISCARD enum spot_rc json_file_write(const char *dir, const char *name, const json_t *o,
    struct spot_err *err);

/* ---- processes and cgroups (procs.c) --------------------------------------------------------- */

#define PROCS_MAX 4096

/* Returns field 22 of /proc/PID/stat, clock ticks since boot; 0 = no such process, a zombie, or no
 * access. */
uint64_t proc_start_time(pid_t pid);
/* Reports that the process is gone: no such pid, a zombie, or the pid has another start time. If
 * the read fails for another reason (no descriptor or memory), it may be alive. start 0 = any. */
bool proc_is_gone(pid_t pid, uint64_t start);
/* Fills ret with every live descendant of root (not root itself); returns the count. */
size_t proc_tree(pid_t root, pid_t ret[PROCS_MAX]);
/* Reports whether the process has a handler for the signal. */
bool proc_catches(pid_t pid, int signo);
/* Kills every descendant of root, without a wait. Stops them first, so that none can fork. */
void proc_kill_tree(pid_t root);
/* Kills every process but ours that started with name=value in its environment. So it finds the
 * rest of a tree without its root. Misses processes that cleared their environment, or that we may
 * not read. */
void proc_kill_env(const char *name, const char *value);

/* Makes a cgroup for a job below our own and returns its directory. False: not allowed here. */
NODISCARD bool cgroup_make(const char *name, char ret[AGENT_PATH_MAX]);
NODISCARD bool cgroup_join(const char *cgroup); /* the calling process; async-signal-safe */
void cgroup_kill(const char *cgroup); /* all its processes, also forking ones; kernel 5.14+ */
void cgroup_remove(const char *cgroup); /* "" accepted */

/* Parses "USR1" or "SIGUSR1"; 0 = not a signal name. */
int signal_parse(const char *name);

/* ---- fork (spawn.c) -------------------------------------------------------------------------- */

/*
 * Forks a child that becomes another program at once. Returns 0 in the child, which must exec or
 * _exit soon, the child's pid in the parent, or -1 with errno.
 *
 * The parent waits until the child has executed its program or ended. Until then the child has
 * copies of our open files, and we could not execute a program that we just wrote (ETXTBSY).
 */
pid_t spawn_fork(void);

/* ---- network (address.c) --------------------------------------------------------------------- */

/* Returns the first IPv4 address that is no loopback address, for other machines of the network.
 * "127.0.0.1" if there is none. */
void own_address(char ret[INET_ADDRSTRLEN]);
/* Returns the interface that has this IPv4 address, "" if none has. */
void interface_of(const char *address, char ret[IFNAMSIZ]);
/* Returns the directory of the RDMA devices. */
const char *fabric_devices(void);

#endif
