/*
 * Signals to the job's processes, and their end by force. The agent records a request before its
 * effect, so that a restarted agent goes on with it.
 */
#include "base/base.h"
#include "agent/agent.h"

#include <signal.h>

#define KILL_AGAIN_US (2 * SPOT_US_PER_S)

bool job_signal(struct agent *a, int signo, struct job_signalled *done)
{
	pid_t *pids = malloc(PROCS_MAX * sizeof(*pids));
	size_t n;
	bool any = false;

	if (pids == NULL) {
		abort();
	}
	n = a->job.shim > 0 ? proc_tree(a->job.shim, pids) : 0;
	for (size_t i = 0; i < n; i++) {
		bool had = false;

		for (size_t k = 0; k < done->n; k++) {
			had = had || done->pids[k] == pids[i];
		}
		/* Without a handler most signals kill. They must not kill a shell or a launcher
		 * above the program. */
		if (had || done->n == ARRAY_LEN(done->pids) || !proc_catches(pids[i], signo)) {
			continue;
		}
		if (kill(pids[i], signo) == 0) {
			done->pids[done->n++] = pids[i];
			any = true;
		}
	}
	free(pids);
	return any;
}

static void signal_every(struct job *j, int signo)
{
	pid_t *pids = malloc(PROCS_MAX * sizeof(*pids));
	size_t n;

	if (pids == NULL) {
		abort();
	}
	n = j->shim > 0 ? proc_tree(j->shim, pids) : 0;
	for (size_t i = 0; i < n; i++) {
		(void)kill(pids[i], signo);
	}
	free(pids);
}

void job_stop_ask(struct agent *a, enum stop_kind stop, int64_t grace_us, const char *why)
{
	struct job *j = &a->job;
	int signo;

	if (stop > j->stop) {
		j->stop = stop;
		job_why_set(j, why);
		/* Record it before the effect: the end must not look like the job's own. */
		state_write(a);
		log_info("job.stop", STR("job", j->id), I64("epoch", j->epoch), STR("why", j->why));
	}
	if (grace_us > 0) {
		signo = signal_parse(j->then);
		signal_every(j, signo != 0 ? signo : SIGTERM);
	}
	if (j->kill_us == 0 || a->now_us + grace_us < j->kill_us) {
		j->kill_us = a->now_us + grace_us;
	}
}

void job_kill(struct agent *a)
{
	struct job *j = &a->job;

	if (a->now_us < j->kill_us) {
		agent_wake(a, j->kill_us);
		return;
	}
	if (j->kills++ == 0) {
		state_write(a); /* before the effect, which may leave a file half written */
	}
	cgroup_kill(j->cgroup);
	if (j->shim > 0 && (j->shim_start == 0 || proc_start_time(j->shim) == j->shim_start)) {
		(void)kill(j->shim, j->kills <= 3 ? SIGTERM : SIGKILL);
	}
	j->kill_us = a->now_us + KILL_AGAIN_US;
	agent_wake(a, j->kill_us);
}

/* Kills processes in sessions of their own, too, which would write beside the next attempt. Finds
 * them by their progress file, which no other job has. */
void job_kill_remains(struct agent *a)
{
	struct job *j = &a->job;

	if (j->leader > 0 && j->shim_start != 0 && j->spawned_us != 0) {
		(void)kill(j->leader, SIGKILL);
		(void)kill(-j->leader, SIGKILL);
		proc_kill_env("SPOT_PROGRESS_FILE", j->progress);
	}
}
