/* Inside of tests/sim/host*.c, which see the agent's own headers. */
#ifndef SIM_HOST_PRIV_H
#define SIM_HOST_PRIV_H

#include "base/base.h"
#include "agent/agent.h"
#include "sim/host/host.h"
#include "io/loop/loop.h"
#include "sim/world/world.h"

struct program;
struct host {
	char id[64], dir[256];
	struct agent agent;
	bool running, was_cut, stays; /* stays: longer than its instance */
	bool orphan; /* its agent has heard no daemon for too long */
	/* by its clock: when a daemon, or its stand-in, answered its agent last */
	int64_t answered_us;
	struct loop_timer timer, end, heal;
	struct loop_task task;
	int gpus, imds_port;
	char gpu[64];
	char **env; /* a container's; NULL = a machine */
	void (*over)(const char *id, int code);
	bool stopping;
	int code;
	struct loop_timer gone, leaves;
	int64_t scan_ready_us;
	struct program *program;
	struct skewed_clock clock;
	int boots;
	struct host *next;
};
extern struct host *host_now; /* the host of the agent in its turn */

void host_wake(struct host *h); /* a turn of its agent soon */
void host_answered(struct host *h);
void host_enter(struct host *h); /* before a callback of its agent */
/* host_job.c */
void program_end_all(struct host *h); /* power off */
int host_kill(pid_t pid, int signo);

#endif
