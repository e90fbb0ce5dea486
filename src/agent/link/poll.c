/*
 * The long poll: reports the node's state and gets the desired state. It is level-triggered: the
 * agent compares an answer with the facts, so an answer that comes twice or late changes nothing.
 */
#include "base/base.h"
#include "agent/agent.h"

#include "base/text/text.h"

#define QUICK_US (100 * 1000)

struct desired {
	const char *what, *job, *why;
	int64_t epoch, deadline_wall_us, left_us;
	int64_t save; /* 0 = none asked for */
	json_t *run;
};

static const char *phase_name(enum job_phase p)
{
	switch (p) {
	case JOB_NONE:
		return "IDLE";
	case JOB_FETCH:
	case JOB_SETUP:
		return "SETUP";
	case JOB_RUNNING:
		return "RUNNING";
	case JOB_ENDED: /* its last checkpoint is under way */
		return "SAVING";
	case JOB_REPORTED:
		return "EXITED";
	}
	return "IDLE";
}

/* Returns the deadline, 0 = no hurry. Prefers left_us, which counts from the answer, since the two
 * clocks may differ. Earlier daemons do not send it. */
static int64_t deadline_of(struct agent *a, const struct desired *d)
{
	int64_t left = d->left_us >= 0 ? d->left_us : d->deadline_wall_us - agent_wall_us(a);

	return d->deadline_wall_us == 0 ? 0 : a->now_us + MAX(left, INT64_C(0));
}

static bool is_ours(const struct agent *a, const struct desired *d)
{
	return a->job.phase != JOB_NONE && strcmp(a->job.id, d->job) == 0 &&
	    a->job.epoch == d->epoch;
}

/* Saves once for each number. One that is under way counts for it. */
static void save_asked(struct agent *a, const struct desired *d)
{
	struct job *j = &a->job;

	if (d->save <= j->save_asked || j->phase != JOB_RUNNING) {
		return;
	}
	j->save_asked = d->save;
	if (j->has_checkpoint && a->ckpt.at == CKPT_IDLE) {
		log_info("job.save", STR("job", j->id), STR("why", "asked by the daemon"));
		ckpt_begin(a, "burst", false, 0);
	}
}

static void want_run(struct agent *a, const struct desired *d)
{
	struct job *j = &a->job;

	if (is_ours(a, d)) {
		save_asked(a, d);
		return;
	}
	if (j->phase == JOB_REPORTED) {
		job_drop(a);
	}
	if (j->phase != JOB_NONE) {
		/* Our job is outdated, and the daemon would refuse its reports. Drop it first. */
		job_stop(a, STOP_DROPPED, 0, "the node was given another job");
		a->poll.claim_nothing = true;
		return;
	}
	if (d->run == NULL) {
		/* The answer contains run if we claim to have no job. */
		a->poll.claim_nothing = true;
		return;
	}
	a->poll.claim_nothing = false;
	job_begin(a, d->job, d->epoch, d->run);
}

/* Reports whether the daemon waits for the end of a job that never reached us. An answer about
 * another job proves that it has our last report, so the agent drops that job. */
static bool never_begun(struct agent *a, const struct desired *d)
{
	if (d->job[0] == '\0') {
		return false;
	}
	if (a->job.phase == JOB_REPORTED && !is_ours(a, d)) {
		job_drop(a);
	}
	return a->job.phase == JOB_NONE;
}

static void want_drain(struct agent *a, const struct desired *d)
{
	if (never_begun(a, d)) {
		job_refuse(a, d->job, d->epoch, "drained", d->why);
	}
	if (!is_ours(a, d) || !job_alive(&a->job)) {
		return;
	}
	log_info("job.drain", STR("job", a->job.id), STR("why", d->why));
	ckpt_begin(a, "drain", true, deadline_of(a, d));
}

static void want_shutdown(struct agent *a, const struct desired *d)
{
	log_info("agent.shutdown", STR("why", d->why));
	a->leaving = true;
	job_stop(a, STOP_DROPPED, 0, "the node is shut down");
}

static void desire_apply(struct agent *a, const struct desired *d)
{
	if (a->leaving) {
		return;
	}
	/* Only a poll after the report counts: an earlier poll may get this answer, too. */
	if (is_ours(a, d) && a->job.phase == JOB_REPORTED && a->poll.asked_as == JOB_REPORTED &&
	    strcmp(d->what, "idle") != 0 && strcmp(d->what, "shutdown") != 0) {
		report_again(a);
	} else if (strcmp(d->what, "run") == 0) {
		want_run(a, d);
	} else if (strcmp(d->what, "drain") == 0) {
		want_drain(a, d);
	} else if (strcmp(d->what, "kill") == 0) {
		/* Even if it names another job: the daemon does not want ours. */
		if (never_begun(a, d)) {
			job_refuse(a, d->job, d->epoch, "killed", d->why);
		} else {
			job_stop(a, STOP_KILLED, 0, d->why);
		}
	} else if (strcmp(d->what, "shutdown") == 0) {
		want_shutdown(a, d);
	} else if (strcmp(d->what, "idle") == 0) {
		a->poll.claim_nothing = false;
		if (a->job.phase == JOB_REPORTED) {
			job_drop(a);
		} else if (job_alive(&a->job)) {
			job_stop(a, STOP_KILLED, 0, "the node is to be idle");
		} else if (a->job.phase == JOB_NONE) {
			fetch_forget(a);
		}
	} else {
		log_error("poll.unknown_desire", STR("desired", d->what));
	}
}

/* Slows down the polls of a server that answers at once without a change. */
static void slow_down(struct agent *a, bool changed)
{
	struct poll *p = &a->poll;

	if (changed || a->now_us - p->started_us > QUICK_US) {
		p->quick = 0;
		return;
	}
	if (p->quick < 20) {
		p->quick++;
	}
	if (p->quick > 2) {
		p->backoff.next_us = a->now_us + p->quick * QUICK_US;
	}
}

static void poll_answer(struct agent *a, const struct daemon_reply *r)
{
	struct spot_err bad = { 0 };
	struct desired d = { .what = json_need_str(r->body, "desired", &bad),
		.job = json_str(r->body, "job", "", &bad),
		.why = json_str(r->body, "why", "", &bad),
		.epoch = json_i64(r->body, "epoch", 0, &bad),
		.deadline_wall_us = json_i64(r->body, "deadline_us", 0, &bad),
		.left_us = json_i64(r->body, "left_us", -1, &bad),
		.save = json_i64(r->body, "save", 0, &bad) };
	int64_t version = json_i64(r->body, "version", 0, &bad);
	enum job_phase before = a->job.phase;
	bool claimed = a->poll.claim_nothing;

	if (bad.rc != SPOT_OK) {
		log_error("poll.bad_reply", STR("error", bad.text));
		retry_fail(a, &a->poll.backoff, 0);
		return;
	}
	retry_clear(&a->poll.backoff);
	if (orphan_timeout_set(a, json_i64(r->body, "orphan_timeout_s", -1, NULL))) {
		state_write(a);
	}
	d.run = json_object_get(r->body, "run");
	if (!json_is_object(d.run)) {
		d.run = NULL;
	}
	desire_apply(a, &d);
	slow_down(a,
	    version != a->poll.version || before != a->job.phase ||
		claimed != a->poll.claim_nothing);
	a->poll.version = version;
}

static void poll_done(void *agent, const struct http_reply *reply)
{
	struct agent *a = agent;
	AUTO(daemon_reply) struct daemon_reply r;

	daemon_read(a, reply, &r);
	a->poll.call = NULL;
	if (r.status == 200) {
		poll_answer(a, &r);
	} else if (r.status == 404 || r.status == 410) {
		log_warn("poll.node_gone", I64("status", r.status), STR("error", r.error));
		a->leaving = true;
		job_stop(a, STOP_DROPPED, 0, "the daemon has closed this node");
	} else {
		log_warn("poll.failed", I64("status", r.status), STR("error", r.error));
		retry_fail(a, &a->poll.backoff, r.retry_after_us);
	}
}

void poll_now(struct agent *a)
{
	http_stop(a->http, STEAL(a->poll.call));
}

void poll_step(struct agent *a)
{
	struct poll *p = &a->poll;
	const struct job *j = &a->job;
	bool nothing = j->phase == JOB_NONE || (p->claim_nothing && !job_alive(j));
	int64_t hold_ms = p->claim_nothing ? 0 : a->hold_ms;
	json_t *have;

	if (a->enrol.at != ENROL_DONE || p->call != NULL || a->leaving ||
	    !retry_due(a, &p->backoff)) {
		return;
	}
	have = json_pack("{s:o, s:I, s:s, s:I}", "job", nothing ? json_null() : json_string(j->id),
	    "epoch", (json_int_t)(nothing ? 0 : j->epoch), "phase",
	    nothing ? "IDLE" : phase_name(j->phase), "version", (json_int_t)p->version);
	p->started_us = a->now_us;
	p->asked_as = nothing ? JOB_NONE : j->phase;
	p->call = daemon_post(a, "poll",
	    json_pack("{s:o, s:I, s:I}", "have", have, "steps_done", (json_int_t)j->steps_done,
		"hold_ms", (json_int_t)hold_ms),
	    (hold_ms + 15000) * 1000, poll_done);
}
