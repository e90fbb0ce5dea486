/*
 * The job on this node: fetch, setup, run, end, report. What is asked of it (drain, kill, drop) is
 * recorded by job_stop (job_stop.c) and carried out by job_step. The processes belong to the shim;
 * how they are found again after a restart of the agent: pid and start time in job.json, the end in
 * exit.json.
 */
#include "base/base.h"
#include "agent/agent.h"

#include "base/err.h"
#include "base/log.h"
#include "base/text/str.h"
#include "agent/job/procs.h"
#include "agent/job/shim.h"

#include <errno.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_EVERY_US SPOT_US_PER_S /* with inotify */
#define LOOK_OFTEN_US (SPOT_US_PER_S / 10) /* without */
#define SHIM_START_US (10 * SPOT_US_PER_S)
#define EXIT_READ_US (60 * SPOT_US_PER_S)

bool job_alive(const struct job *j)
{
	return j->phase >= JOB_FETCH && j->phase <= JOB_RUNNING;
}

/* What goes into JSON and logs: printable ASCII, whatever a path or a program put there. */
void job_why(struct job *j, const char *why)
{
	(void)snprintf(j->why, sizeof(j->why), "%s", why);
	for (char *p = j->why; *p != '\0'; p++) {
		if ((unsigned char)*p >= 0x7f || (unsigned char)*p < 0x20) {
			*p = '?';
		}
	}
}

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
		job_why(j, why);
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

/* The part of run that may be on disk. */
static json_t *spec_of(const json_t *run)
{
	static const char *const secret[] = { "envs", "secrets", "setup", "run", "files" };
	json_t *spec = json_deep_copy(run);

	for (size_t i = 0; i < ARRAY_LEN(secret); i++) {
		(void)json_object_del(spec, secret[i]);
	}
	return spec;
}

/* Takes spec. False: not an id that we would make a folder of. */
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
	report_reset(a);
	ckpt_reset(a);
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
		dir_remove(j->dir); /* of an attempt that never got as far as running */
	}
	remove_other_jobs(a);
	if (a->notice.interrupted) {
		job_end(a, "drained", "this node is being reclaimed");
		return;
	}
	errno = 0;
	if (dir_make(j->ckpt_dir, &err) != SPOT_OK || dir_make(j->cwd, &err) != SPOT_OK ||
	    dir_make_above(j->progress, &err) != SPOT_OK) {
		int rounds = fetch_rounds(errno); /* a disk that is full now may have room soon */

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

/* ---- the shim's files ------------------------------------------------------------------------ */

/* SPOT_NOT_FOUND: the shim has not written it. Anything else may be better the next time. */
static enum spot_rc shim_file(const struct job *j, const char *name, json_t **ret,
    struct spot_err *err)
{
	char path[AGENT_PATH_MAX];
	struct str text;
	enum spot_rc rc;

	if (!path_join(path, j->dir, name)) {
		return err_set(err, SPOT_INVALID, "path too long: %.80s...", j->dir);
	}
	rc = file_read(path, 65536, &text, err);
	if (rc != SPOT_OK) {
		return rc;
	}
	rc = json_parse(text, name, ret, err);
	free((char *)(uintptr_t)text.p);
	return rc;
}

static void exit_read(struct job *j, const json_t *o)
{
	(void)!str_copy(j->exit_phase, sizeof(j->exit_phase), json_str(o, "phase", "", NULL));
	j->exit_code = (int)json_i64(o, "code", -1, NULL);
	j->exit_signal = (int)json_i64(o, "signal", 0, NULL);
}

/* ---- adopt ----------------------------------------------------------------------------------- */

static void watch_set(struct agent *a)
{
	if (a->inotify_fd >= 0) {
		a->job.watch = inotify_add_watch(a->inotify_fd, a->job.dir,
		    IN_MOVED_TO | IN_CLOSE_WRITE | IN_ONLYDIR);
	}
}

void job_adopt(struct agent *a)
{
	struct job *j = &a->job;
	enum job_phase was = j->phase;
	AUTO(json) json_t *o = NULL;

	j->watch = -1;
	report_reset(a);
	ckpt_reset(a);
	job_progress_read(j);
	log_info("job.adopt", STR("job", j->id), I64("epoch", j->epoch), I64("phase", (int)was));
	/* its environment was never on disk: it must be given to us again */
	if (was == JOB_FETCH) {
		*j = (struct job){ 0 };
		state_write(a);
		return;
	}
	watch_set(a);
	logs_open(a, a->logs.sent);
	if (was == JOB_REPORTED) {
		if (shim_file(j, SHIM_EXIT_FILE, &o, NULL) == SPOT_OK) {
			exit_read(j, o);
		}
		return;
	}
	/* It left since it was asked to save: exit.json does not tell that. */
	if (was == JOB_ENDED && j->stop == STOP_NONE && j->reason != NULL &&
	    strcmp(j->reason, "drained") == 0) {
		j->stop = STOP_DRAINED;
	}
	/* Ended or not, exit.json tells, and the same path is taken as if we had seen it happen. */
	j->phase = j->running_us != 0 || was == JOB_ENDED ? JOB_RUNNING : JOB_SETUP;
	if (j->stop != STOP_NONE) {
		j->kill_us = a->now_us + j->kill_after_us;
	}
	a->ckpt.last_us = a->now_us;
}

/* ---- watching -------------------------------------------------------------------------------- */

void job_progress_read(struct job *j)
{
	struct str text;
	long long done, total;

	if (j->progress[0] == '\0' || file_read(j->progress, 256, &text, NULL) != SPOT_OK) {
		return;
	}
	if (sscanf(text.p, "%lld %lld", &done, &total) == 2 && done >= 0 && total >= 0) {
		j->steps_done = done;
		j->steps_total = total;
	}
	free((char *)(uintptr_t)text.p);
}

void job_look(struct agent *a)
{
	struct job *j = &a->job;
	AUTO(json) json_t *o = NULL;

	if ((j->phase != JOB_SETUP && j->phase != JOB_RUNNING) ||
	    (j->shim_start != 0 && j->leader != 0 && j->phase == JOB_RUNNING)) {
		return;
	}
	if (shim_file(j, SHIM_JOB_FILE, &o, NULL) != SPOT_OK) {
		return;
	}
	j->shim = (pid_t)json_i64(o, "shim_pid", 0, NULL);
	j->shim_start = (uint64_t)json_i64(o, "shim_start", 0, NULL);
	j->leader = (pid_t)json_i64(o, "leader", 0, NULL);
	if (j->phase == JOB_SETUP && strcmp(json_str(o, "phase", "", NULL), "run") == 0) {
		j->phase = JOB_RUNNING;
		j->running_us = a->now_us;
		a->ckpt.last_us = a->now_us;
		state_write(a);
		log_info("job.running", STR("job", j->id), I64("epoch", j->epoch));
	}
}

static bool shim_is_alive(struct agent *a)
{
	struct job *j = &a->job;

	if (j->spawned_us == 0) {
		return false; /* of another boot */
	}
	/* has not said who it is yet; a restarted agent waits for it, too */
	if (j->shim_start == 0) {
		return !proc_is_gone(j->shim, 0) || a->now_us < j->spawned_us + SHIM_START_US;
	}
	return !proc_is_gone(j->shim, j->shim_start);
}

/* An exit with 0 while it was asked to leave is not yet success: only its own count can say so. */
static bool came_to_its_end(const struct job *j)
{
	return j->exit_code == 0 && j->steps_total > 0 && j->steps_done >= j->steps_total;
}

/* Nothing was asked of it, or only to save: what its end means. */
static void job_over_by_itself(struct agent *a, bool known)
{
	struct job *j = &a->job;
	char why[64];

	/* A program may save by leaving, also when it was only meant to save. */
	if (a->ckpt.at == CKPT_SAVE && a->ckpt.signalled.n > 0 && j->exit_code == 0 &&
	    j->steps_done < j->steps_total) {
		a->ckpt.leave = true;
	}
	if (a->ckpt.at != CKPT_IDLE && a->ckpt.leave) {
		j->finished = came_to_its_end(j); /* or it left upon the signal, as it may */
		job_end(a, j->finished ? "ok" : "drained", NULL);
		return;
	}
	ckpt_stop(a);
	if (j->spawned_us == 0 && j->exit_code != 0) { /* the shutdown ended it, in whichever way */
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

/* The end of the processes, whoever caused it. */
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
		if (a->ckpt.at == CKPT_IDLE) { /* we were restarted in between */
			ckpt_begin(a, "drain", true, 0);
		}
		break;
	}
}

/* It is there and cannot be read: a disk in trouble, a descriptor too few. That is no verdict on
 * the job, for a while. */
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

/* Of another boot: without the shim's word that all was on the disk what the program wrote last may
 * have gone with the power. */
static bool end_is_safe(const struct job *j)
{
	char path[AGENT_PATH_MAX];
	struct stat st;

	return j->spawned_us != 0 ||
	    (path_join(path, j->dir, SHIM_SAFE_FILE) && stat(path, &st) == 0 && st.st_size > 0);
}

/* The agent before us was ended just before it started the supervisor: the first that one does is
 * to begin the log. */
static bool never_begun(const struct job *j)
{
	return j->phase == JOB_SETUP && j->stop == STOP_NONE && j->spawned_us != 0 &&
	    j->shim == 0 && !file_exists(j->log);
}

static void exit_look(struct agent *a)
{
	struct job *j = &a->job;
	bool alive = shim_is_alive(a); /* before the file: it is written before the shim ends */
	AUTO(json) json_t *o = NULL;
	struct spot_err err = { 0 };
	enum spot_rc rc = shim_file(j, SHIM_EXIT_FILE, &o, &err);

	if (!alive && o == NULL && rc != SPOT_NOT_FOUND && exit_unread(a, &err)) {
		return;
	}
	if (o != NULL && !end_is_safe(j)) {
		log_warn("job.end_unsafe", STR("job", j->id), I64("epoch", j->epoch));
		json_decref(STEAL(o));
	}
	if (o != NULL) {
		exit_read(j, o);
		job_over(a, true);
	} else if (!alive && never_begun(j)) {
		log_warn("job.never_begun", STR("job", j->id), I64("epoch", j->epoch));
		job_drop(a); /* asked again, the daemon gives it anew */
	} else if (!alive) {
		if (j->leader > 0 && j->shim_start != 0 && j->spawned_us != 0) {
			(void)kill(j->leader, SIGKILL);
			(void)kill(-j->leader, SIGKILL);
			/* Nobody else ends what stands in sessions of its own, and would write
			 * beside the next attempt; no other job has that file. */
			proc_kill_env("SPOT_PROGRESS_FILE", j->progress);
		}
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
	logs_close(a);
	report_reset(a);
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
	poll_now(a);
}

void job_child_ended(struct agent *a, pid_t pid)
{
	/* exit.json tells the rest; the next turn looks. */
	if (pid == a->job.shim) {
		agent_wake(a, a->now_us);
	}
}

/* ---- the step -------------------------------------------------------------------------------- */

static void fetch_rounds_clear(struct agent *a)
{
	fetch_forget(a);
	a->fetch.rounds = 0;
	backoff_clear(&a->fetch.again);
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
		backoff_fail(a, &a->fetch.again, 0);
		job_drop(a); /* asked again, the daemon gives fresh URLs */
		a->poll.backoff.next_us = a->fetch.again.next_us;
	} else if (a->fetch.at == FETCH_FAILED) {
		fetch_rounds_clear(a);
		job_end(a, "error", a->fetch.why);
	} else if (a->fetch.at == FETCH_DONE) {
		j->spawned_us = a->now_us;
		j->phase = JOB_SETUP;
		state_write(a); /* first: what runs must be known to a successor */
		rc = job_start(a, &err);
		/* no room for a process, say: nothing that the job has to answer for */
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
		notice_file_write(a);
		watch_set(a);
		logs_open(a, 0);
		state_write(a);
	}
}

bool job_is_over_time(const struct agent *a)
{
	const struct job *j = &a->job;

	return j->max_us > 0 && j->running_us > 0 && a->now_us >= j->running_us + j->max_us;
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
		/* Its result is in the checkpoint directory: without that stored, it has not
		 * succeeded. */
		if (j->finished && strcmp(j->reason, "ok") == 0 && j->has_checkpoint &&
		    !a->ckpt.ok) {
			job_end(a, "error", a->ckpt.why);
		}
		break;
	}
}
