/*
 * One turn of the agent: every part compares the facts and acts. The caller (main.c) waits between
 * turns and handles signals and descriptors. The time comes from the injected clock.
 */
#include "base/base.h"
#include "agent/agent.h"

#define IDLE_US (60 * SPOT_US_PER_S)
#define ORPHAN_STORE_US (60 * SPOT_US_PER_S)

/* Makes the job save and stop. It may keep files elsewhere by itself, and a daemon that comes back
 * in time gets its checkpoint. */
static void orphan_save(struct agent *a)
{
	const struct job *j = &a->job;

	log_error("agent.orphaned", DUR("silent", a->now_us - a->contact_us));
	a->orphan_until_us = a->now_us;
	if (!job_alive(j)) {
		return;
	}
	a->orphan_until_us += j->budget_us + j->kill_after_us + ORPHAN_STORE_US;
	ckpt_begin(a, "drain", true, a->orphan_until_us);
}

/* Ends the node after the orphan timeout: without the daemon its result has no taker, and the
 * machine costs money. */
static void orphan_step(struct agent *a)
{
	int64_t limit = a->contact_us + a->orphan_us;

	if (a->leaving || a->orphan_us == 0) {
		return;
	}
	if (a->now_us < limit) {
		a->orphan_until_us = 0;
		agent_wake(a, limit);
		return;
	}
	if (a->orphan_until_us == 0) {
		orphan_save(a);
	}
	if (a->now_us < a->orphan_until_us && (job_alive(&a->job) || a->ckpt.at != CKPT_IDLE)) {
		agent_wake(a, a->orphan_until_us);
		return;
	}
	a->leaving = true;
	job_stop(a, STOP_DROPPED, a->job.kill_after_us, "the daemon has been away for too long");
}

static void leave_step(struct agent *a)
{
	if (a->leaving && !job_alive(&a->job)) {
		a->quit = true;
	}
}

/* The first answer after the daemon was unreachable ends all back-off. */
static void came_back_step(struct agent *a)
{
	if (!a->came_back || a->lost) {
		return;
	}
	a->came_back = false;
	a->poll.backoff.next_us = a->report.backoff.next_us = a->logs.backoff.next_us = a->now_us;
	if (a->ckpt.at != CKPT_UPLOAD) {
		a->ckpt.backoff.next_us = a->now_us;
	}
}

void agent_steps(struct agent *a)
{
	a->now_us = a->clock->mono_us(a->clock);
	a->wake_us = a->now_us + IDLE_US;
	came_back_step(a);
	gpu_step(a);
	enrol_step(a);
	notice_source_step(a);
	notice_step(a);
	job_step(a);
	ckpt_step(a);
	job_step(a); /* again: the checkpoint may have ended the job */
	logs_step(a);
	report_step(a);
	sample_step(a);
	poll_step(a);
	orphan_step(a);
	leave_step(a);
	notice_stop_step(a);
}

/* ---- the job and the parts that follow it ---------------------------------------------------- */

static void job_was_taken(struct agent *a)
{
	report_reset(a);
}

static void job_was_started(struct agent *a, int64_t log_sent)
{
	notice_file_write(a);
	logs_open(a, log_sent);
}

static void job_was_dropped(struct agent *a)
{
	logs_close(a);
	report_reset(a);
	poll_now(a);
}

/* ---- start and end --------------------------------------------------------------------------- */

void agent_init(struct agent *a, const char *dir, const struct clock *clock)
{
	static const struct job_hooks hooks = { .taken = job_was_taken,
		.started = job_was_started,
		.dropped = job_was_dropped };

	*a = (struct agent){ .dir = dir,
		.job_hooks = &hooks,
		.clock = clock,
		.hold_ms = 25000,
		.sample_us = 15 * SPOT_US_PER_S,
		.job.watch = -1,
		.logs.fd = -1,
		.logs.watch = -1,
		.gpu.fd = -1,
		.gpu.now.util = -1 };
}

void agent_begin(struct agent *a)
{
	struct spot_err err = { 0 };

	a->http = http_new(a->boot.ca_pem);
	a->now_us = a->contact_us = a->clock->mono_us(a->clock);
	a->orphan_us = a->boot.orphan_us;
	log_info("agent.start", STR("version", AGENT_VERSION), STR("provider", a->boot.provider),
	    STR("url", a->boot.url));
	if (session_read(a, &err) == SPOT_OK) {
		a->enrol.at = ENROL_DONE;
	} else if (err.rc != SPOT_NOT_FOUND) {
		log_warn("session.unreadable", STR("error", err.text));
	}
	if (state_read(a)) {
		job_adopt(a);
	}
}

void agent_end(struct agent *a)
{
	gpu_stop(a);
	fetch_stop(a);
	ckpt_reset(a);
	identity_fini(a);
	http_free(a->http);
	upload_sessions_end(a);
	boot_fini(&a->boot);
}
