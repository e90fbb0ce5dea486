/*
 * Reads the files of the job's processes: the shim's files and the progress file. A restarted agent
 * finds the shim by its pid and start time in job.json, and its end in exit.json.
 */
#include "base/base.h"
#include "agent/agent.h"

#include "base/text/text.h"

#include <sys/inotify.h>
#include <sys/stat.h>

#define SHIM_START_US (10 * SPOT_US_PER_S)

bool job_alive(const struct job *j)
{
	return j->phase >= JOB_FETCH && j->phase <= JOB_RUNNING;
}

bool job_is_over_time(const struct agent *a)
{
	const struct job *j = &a->job;

	return j->max_us > 0 && j->running_us > 0 && a->now_us >= j->running_us + j->max_us;
}

/* Keeps printable ASCII only: the text goes into JSON and logs, and may come from a program. */
void job_why_set(struct job *j, const char *why)
{
	(void)snprintf(j->why, sizeof(j->why), "%s", why);
	for (char *p = j->why; *p != '\0'; p++) {
		if ((unsigned char)*p >= 0x7f || (unsigned char)*p < 0x20) {
			*p = '?';
		}
	}
}

/* SPOT_NOT_FOUND: the shim has not written the file. Other errors may pass. */
static enum spot_rc shim_file_read(const struct job *j, const char *name, json_t **ret,
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

enum spot_rc job_exit_read(const struct job *j, json_t **ret, struct spot_err *err)
{
	return shim_file_read(j, SHIM_EXIT_FILE, ret, err);
}

void job_exit_set(struct job *j, const json_t *o)
{
	(void)!str_copy(j->exit_phase, sizeof(j->exit_phase), json_str(o, "phase", "", NULL));
	j->exit_code = (int)json_i64(o, "code", -1, NULL);
	j->exit_signal = (int)json_i64(o, "signal", 0, NULL);
}

void job_watch(struct agent *a)
{
	if (a->inotify_fd >= 0) {
		a->job.watch = inotify_add_watch(a->inotify_fd, a->job.dir,
		    IN_MOVED_TO | IN_CLOSE_WRITE | IN_ONLYDIR);
	}
}

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
	if (shim_file_read(j, SHIM_JOB_FILE, &o, NULL) != SPOT_OK) {
		return;
	}
	j->shim = (pid_t)json_i64(o, "shim_pid", 0, NULL);
	j->shim_start = (uint64_t)json_i64(o, "shim_start", 0, NULL);
	j->leader = (pid_t)json_i64(o, "leader", 0, NULL);
	if (j->phase == JOB_SETUP && strcmp(json_str(o, "phase", "", NULL), "run") == 0) {
		j->phase = JOB_RUNNING;
		j->running_us = a->now_us;
		state_write(a);
		log_info("job.running", STR("job", j->id), I64("epoch", j->epoch));
	}
}

bool job_shim_is_alive(struct agent *a)
{
	struct job *j = &a->job;

	if (j->spawned_us == 0) {
		return false; /* it ran before a reboot */
	}
	/* The shim has not written job.json yet; a restarted agent waits for it, too. */
	if (j->shim_start == 0) {
		return !proc_is_gone(j->shim, 0) || a->now_us < j->spawned_us + SHIM_START_US;
	}
	return !proc_is_gone(j->shim, j->shim_start);
}

/* After a reboot the end counts only with the shim's file `safe`. Without it the last output may be
 * lost by a power cut. */
bool job_end_is_safe(const struct job *j)
{
	char path[AGENT_PATH_MAX];
	struct stat st;

	return j->spawned_us != 0 ||
	    (path_join(path, j->dir, SHIM_SAFE_FILE) && stat(path, &st) == 0 && st.st_size > 0);
}

/* Reports that an earlier agent ended before it started the shim, whose first act is to open the
 * log. */
bool job_never_begun(const struct job *j)
{
	return j->phase == JOB_SETUP && j->stop == STOP_NONE && j->spawned_us != 0 &&
	    j->shim == 0 && !file_exists(j->log);
}
