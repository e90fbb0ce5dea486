/* Starts child processes with explicit arguments, environment and descriptors 0 to 2. The child
 * inherits no other descriptor, and no shell runs. */
#ifndef IO_PROC_H
#define IO_PROC_H

#include "base/base.h"

struct proc_spec {
	const char *const *argv; /* argv[0] is the path */
	const char *const *env; /* NULL = inherit */
	const char *dir; /* NULL = inherit */
	int in, out, err; /* descriptors; -1 = /dev/null */
	bool new_session; /* setsid */
	int uid, gid; /* -1 = unchanged */
	int death_signal; /* PR_SET_PDEATHSIG, 0 = none */
};
/* Sets *ret_pid; the caller reaps the child. Errors of the child before exec are errors here. */
NODISCARD enum spot_rc proc_spawn(const struct proc_spec *s, int *ret_pid, struct spot_err *err);

#endif
