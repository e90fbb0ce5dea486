/*
 * The job on this node: fetch, setup, run, end, report. In stop.c job_stop() records a request
 * (drain, kill, drop), and job_step() carries it out.
 */
#include "base/base.h"
#include "agent/agent.h"

#include "base/text/text.h"

#include <errno.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_EVERY_US SPOT_US_PER_S /* with inotify */
#define LOOK_OFTEN_US (SPOT_US_PER_S / 10) /* without */
#define EXIT_READ_US (60 * SPOT_US_PER_S)

/* ---- begin ----------------------------------------------------------------------------------- */

static bool id_is_good(const char *id)
{
	size_t n = strlen(id);

	return n > 0 && n < AGENT_ID_MAX &&
	    strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == n;
}

void job_end(struct agent *a, const char *reason, const char *why)
{
	struct job *j = &a->job;

	j->phase = JOB_ENDED;
	j->reason = reason;
	if (why != NULL) {
		job_why_set(j, why);
	}
	job_progress_read(j);
	json_decref(STEAL(j->run));
	state_write(a);
	log_info("job.ended", STR("job", j->id), I64("epoch", j->epoch), STR("reason", reason),
	    STR("why", j->why), I64("code", j->exit_code), I64("signal", j->exit_signal));
}

static void remove_other_job(void *ctx, const char *name)
{
	struct agent *a = ctx;
	char path[AGENT_PATH_MAX], jobs[AGENT_PATH_MAX];

	if (path_join(jobs, a->dir, "jobs") && path_join(path, jobs, name) &&
	    strcmp(path, a->job.dir) != 0) {
		dir_remove(path);
	}
}

static void remove_other_jobs(struct agent *a)
{
	char jobs[AGENT_PATH_MAX];

	if (path_join(jobs, a->dir, "jobs")) {
		dir_each(jobs, remove_other_job, a);
	}
}

/* Returns the part of run that may be on disk: no environment, secrets, scripts or URLs. */
static json_t *spec_of(const json_t *run)
{
	static const char *const secret[] = { "envs", "secrets", "setup", "run", "files" };
	json_t *spec = json_deep_copy(run);

	for (size_t i = 0; i < ARRAY_LEN(secret); i++) {
		(void)json_object_del(spec, secret[i]);
	}
	return spec;
}

/* Takes ownership of spec. False: the id is no safe name for a folder. */
static bool job_take(struct agent *a, const char *id, int64_t epoch, json_t *spec)
{
	struct job *j = &a->job;

	assert(j->phase == JOB_NONE);
	if (!id_is_good(id)) {
		log_error("job.bad_id", STR("job", id));
		json_decref(spec);
		return false;
	}
	*j = (struct job){ .phase = JOB_FETCH, .epoch = epoch, .watch = -1, .spec = spec };
	memcpy(j->id, id, strlen(id) + 1);
	ckpt_reset(a);
	a->job_hooks->taken(a);
	return true;
}

void job_begin(struct agent *a, const char *id, int64_t epoch, json_t *run)
{
	struct job *j = &a->job;
	struct spot_err err = { 0 };

	if (!job_take(a, id, epoch, spec_of(run))) {
		return;
	}
	j->run = json_incref(run);
	if (job_spec_read(a, j, &err) != SPOT_OK) {
		job_end(a, "error", err.text);
		return;
	}
	j->steps_done = j->steps_start;
	log_info("job.begin", STR("job", id), I64("epoch", epoch), STR("name", j->name));
	if (strcmp(j->dir, a->fetch.kept_dir) != 0) {
		fetch_forget(a);
		dir_remove(j->dir); /* left by an attempt that never ran */
	}
	remove_other_jobs(a);
	if (a->notice.interrupted) {
		job_end(a, "drained", "this node is being reclaimed");
		return;
	}
	errno = 0;
	if (dir_make(j->ckpt_dir, &err) != SPOT_OK || dir_make(j->cwd, &err) != SPOT_OK ||
	    dir_make_above(j->progress, &err) != SPOT_OK) {
		int rounds = fetch_rounds(errno); /* a full disk may have room soon */

		fetch_stop(a);
		fetch_fail(a, rounds, err.text);
		return;
	}
	fetch_begin(a, json_object_get(run, "files"));
	state_write(a);
}

void job_refuse(struct agent *a, const char *id, int64_t epoch, const char *reason, const char *why)
{
	fetch_forget(a);
	if (job_take(a, id, epoch, json_object())) {
		job_end(a, reason, why);
	}
}

/* ---- adopt ----------------------------------------------------------------------------------- */

void job_adopt(struct agent *a)
{
	struct job *j = &a->job;
	enum job_phase was = j->phase;
	AUTO(json) json_t *o = NULL;

	j->watch = -1;
	ckpt_reset(a);
	a->job_hooks->taken(a);
	job_progress_read(j);
	log_info("job.adopt", STR("job", j->id), I64("epoch", j->epoch), I64("phase", (int)was));
	/* Its environment is never on disk: the daemon must give the job again. */
	if (was == JOB_FETCH) {
		*j = (struct job){ 0 };
		state_write(a);
		return;
	}
	job_watch(a);
	a->job_hooks->started(a, a->logs.sent);
	if (was == JOB_REPORTED) {
		if (job_exit_read(j, &o, NULL) == SPOT_OK) {
			job_exit_set(j, o);
		}
		return;
	}
	/* It left because it was asked to save, which exit.json does not record. */
	if (was == JOB_ENDED && j->stop == STOP_NONE && j->reason != NULL &&
	    strcmp(j->reason, "drained") == 0) {
		j->stop = STOP_DRAINED;
	}
	/* exit.json shows whether it has ended. The next step then takes the usual path. */
	j->phase = j->running_us != 0 || was == JOB_ENDED ? JOB_RUNNING : JOB_SETUP;
	if (j->stop != STOP_NONE) {
		j->kill_us = a->now_us + j->kill_after_us;
	}
	a->ckpt.last_us = a->now_us;
}

/* ---- watching -------------------------------------------------------------------------------- */

/* An exit with 0 of a job that was asked to leave is success only if its own step count is full. */
static bool came_to_its_end(const struct job *j)
{
	return j->exit_code == 0 && j->steps_total > 0 && j->steps_done >= j->steps_total;
}

/* Handles the end of a job that nobody stopped; it may have been asked to save. */
static void job_over_by_itself(struct agent *a, bool known)
{
	struct job *j = &a->job;
	char why[64];

	/* A program may exit to save, even if the agent asked only for a save. */
	if (a->ckpt.at == CKPT_SAVE && a->ckpt.signalled.n > 0 && j->exit_code == 0 &&
	    j->steps_done < j->steps_total) {
		a->ckpt.leave = true;
	}
	if (a->ckpt.at != CKPT_IDLE && a->ckpt.leave) {
		j->finished = came_to_its_end(j); /* else it left on the signal, as it may */
		job_end(a, j->finished ? "ok" : "drained", NULL);
		return;
	}
	ckpt_stop(a);
	if (j->spawned_us == 0 && j->exit_code != 0) { /* the shutdown of the machine ended it */
		job_end(a, "drained", "the node was restarted");
	} else if (!known) {
		job_end(a, "error", "the job's supervisor was killed");
	} else if (strcmp(j->exit_phase, "setup") == 0) {
		job_end(a, "setup_failed", "setup ended with an error");
	} else if (j->exit_code == 0) {
		j->finished = true;
		job_end(a, "ok", NULL);
		if (j->has_checkpoint) {
			ckpt_begin(a, "final", false, 0);
		}
	} else {
		(void)snprintf(why, sizeof(why),
		    j->exit_signal != 0 ? "ended by signal %d" : "exited with %d",
		    j->exit_signal != 0 ? j->exit_signal : j->exit_code);
		job_end(a, "error", why);
	}
}

/* Handles the end of the processes. known: exit.json holds it. */
static void job_over(struct agent *a, bool known)
{
	struct job *j = &a->job;

	job_progress_read(j);
	cgroup_kill(j->cgroup);
	cgroup_remove(j->cgroup);
	switch (j->stop) {
	case STOP_NONE:
		job_over_by_itself(a, known);
		break;
	case STOP_DROPPED:
		job_drop(a);
		break;
	case STOP_KILLED:
		ckpt_stop(a);
		job_end(a, "killed", NULL);
		break;
	case STOP_DRAINED:
		j->finished = came_to_its_end(j);
		job_end(a, j->finished ? "ok" : "drained", NULL);
		if (a->ckpt.at == CKPT_IDLE) { /* the agent restarted in between */
			ckpt_begin(a, "drain", true, 0);
		}
		break;
	}
}

/* exit.json exists but a disk fault or a lack of descriptors prevents the read. True: wait, since
 * that is no fault of the job. */
static bool exit_unread(struct agent *a, const struct spot_err *err)
{
	struct job *j = &a->job;

	if (j->exit_unread_us == 0) {
		j->exit_unread_us = a->now_us;
		log_warn("job.exit_unread", STR("job", j->id), I64("epoch", j->epoch),
		    STR("error", err->text));
	}
	if (a->now_us >= j->exit_unread_us + EXIT_READ_US) {
		return false;
	}
	agent_wake(a, a->now_us + LOOK_OFTEN_US);
	return true;
}

static void exit_look(struct agent *a)
{
	struct job *j = &a->job;
	bool alive = job_shim_is_alive(a); /* first: the shim writes the file before it ends */
	AUTO(json) json_t *o = NULL;
	struct spot_err err = { 0 };
	enum spot_rc rc = job_exit_read(j, &o, &err);

	if (!alive && o == NULL && rc != SPOT_NOT_FOUND && exit_unread(a, &err)) {
		return;
	}
	if (o != NULL && !job_end_is_safe(j)) {
		log_warn("job.end_unsafe", STR("job", j->id), I64("epoch", j->epoch));
		json_decref(STEAL(o));
	}
	if (o != NULL) {
		job_exit_set(j, o);
		job_over(a, true);
	} else if (!alive && job_never_begun(j)) {
		log_warn("job.never_begun", STR("job", j->id), I64("epoch", j->epoch));
		job_drop(a); /* at the next poll the daemon gives it again */
	} else if (!alive) {
		job_kill_remains(a);
		j->exit_code = -1;
		job_over(a, false);
	}
}

void job_drop(struct agent *a)
{
	struct job *j = &a->job;

	log_info("job.dropped", STR("job", j->id), I64("epoch", j->epoch));
	fetch_stop(a);
	ckpt_reset(a);
	a->job_hooks->dropped(a);
	if (j->watch >= 0) {
		(void)inotify_rm_watch(a->inotify_fd, j->watch);
	}
	if (j->dir[0] != '\0' && strcmp(j->dir, a->fetch.kept_dir) != 0) {
		dir_remove(j->dir);
	}
	json_decref(j->run);
	json_decref(j->spec);
	*j = (struct job){ .watch = -1 };
	state_write(a);
}

void job_child_ended(struct agent *a, pid_t pid)
{
	/* The next turn reads exit.json. */
	if (pid == a->job.shim) {
		agent_wake(a, a->now_us);
	}
}

/* ---- the step -------------------------------------------------------------------------------- */

static void fetch_rounds_clear(struct agent *a)
{
	fetch_forget(a);
	a->fetch.rounds = 0;
	retry_clear(&a->fetch.again);
}

static void step_fetch(struct agent *a)
{
	struct job *j = &a->job;
	struct spot_err err = { 0 };
	enum spot_rc rc;

	if (j->stop == STOP_DROPPED) {
		fetch_rounds_clear(a);
		job_drop(a);
	} else if (j->stop != STOP_NONE) {
		fetch_rounds_clear(a);
		fetch_stop(a);
		job_end(a, j->stop == STOP_DRAINED ? "drained" : "killed", NULL);
	} else if (a->fetch.at == FETCH_FAILED && a->fetch.rounds < a->fetch.rounds_max) {
		log_warn("job.fetch_refused", STR("job", j->id), STR("why", a->fetch.why));
		a->fetch.rounds++;
		fetch_keep(a);
		retry_fail(a, &a->fetch.again, 0);
		job_drop(a); /* at the next poll the daemon gives it with fresh URLs */
		a->poll.backoff.next_us = a->fetch.again.next_us;
	} else if (a->fetch.at == FETCH_FAILED) {
		fetch_rounds_clear(a);
		job_end(a, "error", a->fetch.why);
	} else if (a->fetch.at == FETCH_DONE) {
		j->spawned_us = a->now_us;
		j->phase = JOB_SETUP;
		state_write(a); /* before the start: a successor must know that it runs */
		rc = job_start(a, &err);
		/* The machine lacks memory or processes, which is no fault of the job. */
		if (rc == SPOT_INTERNAL) {
			cgroup_remove(j->cgroup);
			j->phase = JOB_FETCH;
			j->spawned_us = 0;
			state_write(a);
			fetch_fail(a, FETCH_ROUNDS_OURS, err.text);
			agent_wake(a, a->now_us);
			return;
		}
		fetch_rounds_clear(a);
		if (rc != SPOT_OK) {
			job_end(a, "error", err.text);
			return;
		}
		job_watch(a);
		a->job_hooks->started(a, 0);
		state_write(a);
	}
}

static void step_running(struct agent *a)
{
	struct job *j = &a->job;

	job_look(a);
	exit_look(a);
	if (j->phase != JOB_SETUP && j->phase != JOB_RUNNING) {
		return;
	}
	if (j->stop != STOP_NONE) {
		job_kill(a);
	}
	if (j->max_us > 0 && j->running_us > 0 && j->stop == STOP_NONE) {
		if (job_is_over_time(a)) {
			ckpt_begin(a, "drain", true, 0);
		} else {
			agent_wake(a, j->running_us + j->max_us);
		}
	}
	agent_wake(a, a->now_us + (j->watch >= 0 ? LOOK_EVERY_US : LOOK_OFTEN_US));
}

void job_step(struct agent *a)
{
	struct job *j = &a->job;

	if (j->fenced) {
		j->fenced = false;
		job_fenced(a);
	}
	switch (j->phase) {
	case JOB_NONE:
	case JOB_REPORTED:
		break;
	case JOB_FETCH:
		fetch_step(a);
		step_fetch(a);
		break;
	case JOB_SETUP:
	case JOB_RUNNING:
		step_running(a);
		break;
	case JOB_ENDED:
		if (a->ckpt.at != CKPT_IDLE) {
			break;
		}
		/* The checkpoint directory holds the result. If the store does not have it, the job
		 * has failed. */
		if (j->finished && strcmp(j->reason, "ok") == 0 && j->has_checkpoint &&
		    !a->ckpt.ok) {
			job_end(a, "error", a->ckpt.why);
		}
		break;
	}
}
