/*
 * The machines of the simulation. Each runs the real agent (src/agent, all but its processes and
 * its curl). Below the agent a program computes steps, saves when it is asked to, and ends. The
 * agent's files are real ones in a folder of the seed's own.
 */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include "base/base.h"

struct host_spec {
	const char *id; /* the cloud's */
	struct str user_data; /* holds the agent's boot.json */
	int gpus;
	const char *gpu;
	int imds_port; /* 0 = none */
	/* A container: its environment (NULL at the end), and the callback at its program's end, in
	 * a turn of its own. */
	const char *const *env;
	void (*over)(const char *id, int code);
};
void host_boot(const struct host_spec *s);
void host_end(const char *id); /* power off: everything on it is gone at once */
void host_cut(const char *id, bool cut);
void host_cut_for(const char *id, int64_t us);
/* For --prove: each agent looks as if nobody had answered it for long. */
void host_unanswered(void);
/* It is switched off and stays with its cloud. */
void host_halt(const char *id);
void host_end_now(const char *id); /* no longer, whatever the dice say */
void host_term(const char *id); /* SIGTERM to a container's program */
bool host_runs(const char *id);
bool host_was_cut(const char *id);
void host_agent_crash(const char *id); /* the agent alone; it starts again */
void host_reboot(const char *id); /* its programs end, its disk stays */
void host_clock(const char *id, int64_t skew_us);

/* So many files a program of this seed keeps in its checkpoint directory: by the seed, so that all
 * others stay as they are. */
size_t host_files(void);
/* Its program, if it has one that keeps checkpoints and ran a while before the notice; NULL = none.
 * Before its end. */
const char *host_unheeding(const char *id, int64_t notice_us);

/* Progress of a program, for the checks. */
struct host_progress {
	char job[64];
	/* begun_at: the step it went on from */
	int64_t epoch, rank, ranks, begun_at, steps, begun_us, ended_us;
	bool alive;
	bool alien; /* its checkpoint is another job's, or none */
	const char *host;
};
size_t host_programs(const struct host_progress **ret);

#endif
