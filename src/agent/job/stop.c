/* Ends a job on request: drained, killed or dropped, in any state. */
#include "base/base.h"
#include "agent/agent.h"

/* Gives up the last checkpoint of a killed job, so that a failing store does not delay the report
 * of its end. */
static void save_give_up(struct agent *a, const char *why)
{
	a->job.stop = STOP_KILLED; /* so that a successor of the agent does the same */
	a->job.finished = false;
	ckpt_stop(a);
	job_end(a, "killed", why);
}

void job_stop(struct agent *a, enum stop_kind stop, int64_t grace_us, const char *why)
{
	struct job *j = &a->job;

	if (j->phase == JOB_NONE) {
		return;
	}
	if (!job_alive(j)) {
		if (stop == STOP_DROPPED) {
			job_drop(a);
		} else if (stop == STOP_KILLED && j->phase == JOB_ENDED &&
		    a->ckpt.at != CKPT_IDLE) {
			save_give_up(a, why);
		}
		return;
	}
	job_stop_ask(a, stop, grace_us, why);
}

void job_fenced(struct agent *a)
{
	log_warn("job.fenced", STR("job", a->job.id), I64("epoch", a->job.epoch));
	ckpt_stop(a);
	job_stop(a, STOP_DROPPED, 0, "another attempt of the job is the current one");
}
