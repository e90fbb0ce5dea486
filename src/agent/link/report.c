/*
 * Reports: the agent compares its last report with the facts and sends the difference. It reports
 * the end of a job after its last checkpoint and its log; the log gets three seconds.
 */
#include "base/base.h"
#include "agent/agent.h"

#define AGAIN_US (30 * SPOT_US_PER_S)

void report_reset(struct agent *a)
{
	http_stop(a->http, a->report.call);
	a->report = (struct report){ 0 };
}

void report_again(struct agent *a)
{
	struct job *j = &a->job;
	bool left = j->reason != NULL && strcmp(j->reason, "drained") == 0;

	if (j->told_again_us != 0 && a->now_us < j->told_again_us + AGAIN_US) {
		return;
	}
	j->told_again_us = a->now_us;
	log_warn("report.forgotten", STR("job", j->id), I64("epoch", j->epoch));
	report_reset(a);
	ckpt_reset(a);
	if (j->reason == NULL) {
		j->reason = "error"; /* an earlier agent did not record it */
	}
	j->phase = JOB_ENDED;
	if (j->has_checkpoint && j->exit_phase[0] != '\0' &&
	    (left || strcmp(j->reason, "ok") == 0)) {
		ckpt_begin(a, left ? "drain" : "final", left, 0);
	}
	agent_wake(a, a->now_us);
}

static bool report_is_saving(const struct agent *a)
{
	return a->ckpt.at != CKPT_IDLE;
}

static bool stop_retrying(int status)
{
	return status >= 400 && status < 500 && status != 401 && status != 408 && status != 429;
}

static void report_done(void *agent, const struct http_reply *reply)
{
	struct agent *a = agent;
	struct report *p = &a->report;
	AUTO(daemon_reply) struct daemon_reply r;

	daemon_read(a, reply, &r);
	p->call = NULL;
	if (r.stale) {
		if (a->job.phase == JOB_ENDED || a->job.phase == JOB_REPORTED) {
			job_drop(a);
		} else {
			job_fenced(a);
		}
		return;
	}
	if (r.status != 200 && !stop_retrying(r.status)) {
		retry_fail(a, &p->backoff, r.retry_after_us);
		return;
	}
	if (r.status != 200) {
		log_error("report.refused", I64("status", r.status), STR("code", r.code),
		    STR("error", r.error));
	}
	retry_clear(&p->backoff);
	p->sent_phase = p->flying_phase;
	p->sent_saving = p->flying_saving;
	p->sent_steps = p->flying_steps;
	p->sent_signalled_us = p->flying_signalled_us;
	p->sent_marks = p->flying_marks;
	p->sent_us = a->now_us;
	if (p->flying_phase == JOB_ENDED && a->job.phase == JOB_ENDED) {
		a->job.phase = JOB_REPORTED;
		state_write(a);
		log_info("job.reported", STR("job", a->job.id), STR("reason", a->job.reason));
	}
}

static const char *phase_name(const struct report *p, enum job_phase phase)
{
	if (phase == JOB_ENDED) {
		return "EXITED";
	}
	if (p->flying_saving) {
		return "SAVING";
	}
	return phase == JOB_RUNNING ? "RUNNING" : "SETUP";
}

/* The moments that the daemon measures recoveries by. */
struct mark {
	const char *name;
	int64_t at_us; /* 0 = not yet */
};

static int marks_get(const struct agent *a, struct mark ret[3])
{
	int n = 0;

	ret[0] = (struct mark){ "left_signal_ago_us", a->ckpt.left_signal_us };
	ret[1] = (struct mark){ "left_saved_ago_us", a->ckpt.left_saved_us };
	ret[2] = (struct mark){ "first_step_ago_us", a->job.first_step_us };
	for (int i = 0; i < 3; i++) {
		n += ret[i].at_us != 0;
	}
	return n;
}

/* Durations, since the two clocks may differ. */
static void marks_put(struct agent *a, json_t *o)
{
	struct mark marks[3];

	a->report.flying_marks = marks_get(a, marks);
	for (int i = 0; i < 3; i++) {
		if (marks[i].at_us != 0) {
			(void)json_object_set_new(o, marks[i].name,
			    json_integer(MAX(a->now_us - marks[i].at_us, INT64_C(0))));
		}
	}
}

static void report_send(struct agent *a, enum job_phase phase)
{
	struct report *p = &a->report;
	const struct job *j = &a->job;
	json_t *o;

	p->flying_phase = phase;
	p->flying_saving = report_is_saving(a);
	p->flying_steps = j->steps_done;
	p->flying_signalled_us = a->ckpt.signalled_wall_us;
	o = json_pack("{s:s, s:I, s:s, s:I, s:I, s:s}", "job", j->id, "epoch", (json_int_t)j->epoch,
	    "phase", phase_name(p, phase), "steps_done", (json_int_t)j->steps_done, "steps_total",
	    (json_int_t)j->steps_total, "why", j->why);
	if (a->ckpt.signalled_wall_us != 0) {
		(void)json_object_set_new(o, "signalled_us",
		    json_integer(a->ckpt.signalled_wall_us));
	}
	marks_put(a, o);
	if (phase == JOB_ENDED) {
		(void)json_object_set_new(o, "reason", json_string(j->reason));
		if (j->exit_signal != 0) {
			(void)json_object_set_new(o, "exit_signal", json_integer(j->exit_signal));
		} else if (j->exit_phase[0] != '\0') {
			(void)json_object_set_new(o, "exit_code", json_integer(j->exit_code));
		}
	}
	p->call = daemon_post(a, "report", o, 15 * SPOT_US_PER_S, report_done);
}

static void first_step_look(struct agent *a)
{
	struct job *j = &a->job;

	if (j->phase == JOB_RUNNING && j->first_step_us == 0) {
		job_progress_read(j);
		j->first_step_us = j->steps_done > j->steps_start ? a->now_us : 0;
	}
}

void report_step(struct agent *a)
{
	struct report *p = &a->report;
	struct job *j = &a->job;
	struct mark marks[3];
	bool due;

	first_step_look(a);
	if (a->enrol.at != ENROL_DONE || p->call != NULL || j->phase == JOB_NONE ||
	    j->phase == JOB_REPORTED || j->stop == STOP_DROPPED || !retry_due(a, &p->backoff)) {
		return;
	}
	if (j->phase == JOB_ENDED) {
		if (a->ckpt.at == CKPT_IDLE && logs_flushed(a)) {
			report_send(a, JOB_ENDED);
		} else if (report_is_saving(a) != p->sent_saving) {
			report_send(a, JOB_RUNNING);
		}
		return;
	}
	due = j->phase != p->sent_phase || report_is_saving(a) != p->sent_saving ||
	    a->ckpt.signalled_wall_us != p->sent_signalled_us ||
	    marks_get(a, marks) != p->sent_marks;
	if (!due && a->now_us >= p->sent_us + a->sample_us) {
		job_progress_read(j);
		due = j->steps_done != p->sent_steps;
		p->sent_us = a->now_us;
	}
	if (due) {
		job_progress_read(j);
		report_send(a, j->phase);
	}
	if (j->phase == JOB_RUNNING) {
		agent_wake(a, MAX(p->sent_us + a->sample_us, a->now_us + 1000));
	}
}
