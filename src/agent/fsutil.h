/*
 * Files as the agent needs them: whole reads with a cap, whole writes by rename, directories made
 * and removed recursively. Paths are at most AGENT_PATH_MAX bytes; what does not fit is refused.
 */
#ifndef AGENT_FSUTIL_H
#define AGENT_FSUTIL_H

#include "base/base.h"

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

#endif
