/*
 * The job's side of a checkpoint: ask the job to save, wait for its confirmation, stop it if it
 * leaves, and scan its directory. Then upload.c stores the files.
 *
 * If the node goes away, the agent stops the job after the save and before the upload. Work after
 * the save would be lost anyway, and the files do not change during the upload.
 *
 * The agent stores only a complete save. It needs one of these:
 *
 * - the job said "saved"
 * - the job exited with 0
 * - the directory did not change for QUIET_US, for jobs that save on their own
 *
 * The last is not enough for a job of several nodes that saves at steps. The step is then unknown,
 * and all ranks must be at one step.
 */
#include "base/base.h"
#include "agent/ckpt/upload.h"

#include "base/text/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define ASK_AGAIN_US (SPOT_US_PER_S / 5)
#define NO_HANDLER_US (5 * SPOT_US_PER_S)
#define QUIET_US (10 * SPOT_US_PER_S)
#define LEAVE_MARGIN_US (10 * SPOT_US_PER_S)
#define SAVE_MIN_US (5 * SPOT_US_PER_S)
#define SCAN_TEXT_MAX ((size_t)64 << 20)

void ckpt_set(struct agent *a, enum ckpt_at at)
{
	a->ckpt.at = at;
	agent_wake(a, a->now_us);
}

static void scan_stop(struct agent *a)
{
	struct ckpt *c = &a->ckpt;

	if (c->scan_pid > 0) {
		(void)kill(c->scan_pid, SIGKILL);
		close(c->scan_fd);
	}
	c->scan_pid = 0;
	sbuf_fini(&c->scan_text);
}

void ckpt_stop(struct agent *a)
{
	scan_stop(a);
	upload_stop(a);
	scan_list_fini(&a->ckpt.found);
	a->ckpt.at = CKPT_IDLE;
	a->ckpt.leave = false;
}

void ckpt_reset(struct agent *a)
{
	ckpt_stop(a);
	scan_list_fini(&a->ckpt.known);
	scan_list_fini(&a->ckpt.committed);
	free(a->ckpt.stored);
	a->ckpt = (struct ckpt){ .last_us = a->now_us };
}

void ckpt_end(struct agent *a, bool ok, const char *why)
{
	struct ckpt *c = &a->ckpt;

	if (ok) {
		log_info("checkpoint.done", STR("job", a->job.id), STR("reason", c->reason),
		    STR("checkpoint", c->id), I64("steps", c->steps), STR("why", why),
		    DUR("took", a->now_us - c->begun_us));
	} else {
		log_error("checkpoint.failed", STR("job", a->job.id), STR("reason", c->reason),
		    STR("why", why));
	}
	ckpt_stop(a);
	c->ok = ok;
	c->last_us = a->now_us;
	(void)snprintf(c->why, sizeof(c->why), "%s", why);
	for (char *p = c->why; *p != '\0'; p++) {
		if ((unsigned char)*p >= 0x7f || (unsigned char)*p < 0x20) {
			*p = '?';
		}
	}
	agent_wake(a, a->now_us);
}

/* ---- the job's confirmation ------------------------------------------------------------------ */

/* The content of the file `saved`: the step of all files that are not newer than it. */
struct word {
	int64_t steps, at_ns;
};

/* Reads the file `saved`. False: it is absent or not complete. A file without a number counts for
 * the job's step when the agent asked. */
static bool word_read(const struct agent *a, struct word *ret)
{
	const struct job *j = &a->job;
	long long steps = 0;
	char text[257];
	struct stat st;
	ssize_t n = -1;
	int fd = open(j->saved, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0) {
		return false;
	}
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		n = read(fd, text, sizeof(text) - 1);
	}
	close(fd);
	if (n <= 0 || memchr(text, '\n', (size_t)n) == NULL) {
		return false;
	}
	text[n] = '\0';
	ret->steps = sscanf(text, "%lld", &steps) == 1 && steps >= 0
	    ? steps
	    : MAX(a->ckpt.asked_steps, j->steps_start);
	ret->at_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	return true;
}

/* Returns the path of the last confirmation. It is on disk for a restarted agent, and for
 * report_again(). */
static bool word_path(char path[AGENT_PATH_MAX], const struct job *j)
{
	return path_join(path, j->dir, "saved.before");
}

/* Moves the last confirmation aside before the agent asks again. */
static void word_keep(const struct agent *a)
{
	char path[AGENT_PATH_MAX], text[64];
	struct spot_err err = { 0 };
	struct word w;

	if (word_read(a, &w) && word_path(path, &a->job)) {
		(void)snprintf(text, sizeof(text), "%" PRId64 " %" PRId64 "\n", w.steps, w.at_ns);
		if (file_write(path, str_from(text), 0600, false, &err) != SPOT_OK) {
			log_warn("checkpoint.word", STR("job", a->job.id), STR("error", err.text));
		}
	}
	(void)unlink(a->job.saved);
}

static bool word_kept(const struct job *j, struct word *ret)
{
	char path[AGENT_PATH_MAX];
	struct str text;
	bool is;

	if (!word_path(path, j) || file_read(path, 64, &text, NULL) != SPOT_OK) {
		return false;
	}
	is = sscanf(text.p, "%" SCNd64 " %" SCNd64, &ret->steps, &ret->at_ns) == 2;
	free((char *)(uintptr_t)text.p);
	return is;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void save_ask(struct agent *a)
{
	struct ckpt *c = &a->ckpt;
	struct job *j = &a->job;
	bool asked;

	if (j->command[0] != '\0') {
		asked = j->shim > 0 && j->shim_start != 0 && kill(j->shim, SIGUSR1) == 0;
		if (asked) {
			c->signalled.pids[c->signalled.n++] = j->shim;
		}
	} else {
		asked = job_signal(a, signal_parse(j->signal), &c->signalled);
	}
	if (asked) {
		c->signalled_wall_us = agent_wall_us(a);
		if (c->leave && c->left_signal_us == 0) {
			c->left_signal_us = a->now_us;
		}
		log_info("job.signalled", STR("job", j->id), STR("signal", j->signal),
		    STR("reason", c->reason),
		    DUR("after",
			c->leave && a->notice.interrupted ? a->now_us - a->notice.seen_us : 0));
	}
}

/* Returns the end of the time for the save: its budget, but early enough before the deadline for
 * the stop and the upload. The save always gets SAVE_MIN_US, even if hibernation begins at once. */
static int64_t save_until(struct agent *a, const struct job *j, int64_t deadline_us)
{
	int64_t until = a->now_us + j->budget_us, left;

	if (deadline_us == 0) {
		return until;
	}
	left = MAX(deadline_us - a->now_us, INT64_C(0));
	left = MAX(left / 2, left - j->kill_after_us - LEAVE_MARGIN_US);
	return MIN(until, a->now_us + MAX(left, SAVE_MIN_US));
}

static void deadline_set(struct agent *a, int64_t deadline_us)
{
	struct ckpt *c = &a->ckpt;
	struct job *j = &a->job;

	c->deadline_us = deadline_us;
	c->save_until_us = save_until(a, j, deadline_us);
	c->kill_after_us = j->kill_after_us;
	if (deadline_us != 0) {
		c->kill_after_us =
		    MIN(c->kill_after_us, MAX((deadline_us - a->now_us) / 6, SPOT_US_PER_S));
	}
}

static void stop_job(struct agent *a)
{
	struct ckpt *c = &a->ckpt;
	const char *why = strcmp(c->reason, "notice") == 0 ? "the provider reclaims the node"
	    : a->orphan_until_us != 0 ? "the agent had no contact with the daemon for too long"
	    : job_is_over_time(a)     ? "max_duration is over by the agent's clock"
				      : "drained";

	if (job_alive(&a->job)) {
		job_stop_ask(a, STOP_DRAINED, MAX(c->kill_after_us, INT64_C(1)), why);
	}
	ckpt_set(a, CKPT_STOP);
}

void ckpt_begin(struct agent *a, const char *reason, bool leave, int64_t deadline_us)
{
	struct ckpt *c = &a->ckpt;
	struct job *j = &a->job;

	if (c->at != CKPT_IDLE && (c->leave || !leave)) {
		if (leave && deadline_us != 0 &&
		    (c->deadline_us == 0 || deadline_us < c->deadline_us)) {
			deadline_set(a, deadline_us);
		}
		return;
	}
	job_look(a);
	ckpt_stop(a); /* this one leaves, and replaces one that does not */
	c->reason = reason;
	c->leave = leave;
	c->saved = c->by_end = false;
	c->signalled.n = 0;
	c->steps = 0;
	c->id[0] = '\0';
	c->rounds = 0;
	c->stored_n = c->stored_before = 0;
	c->refusals = 0;
	retry_clear(&c->backoff); /* of the last checkpoint */
	c->begun_us = a->now_us;
	c->begun_wall_us = agent_wall_us(a);
	deadline_set(a, deadline_us);
	if (!job_alive(j)) {
		ckpt_set(a, CKPT_STOP); /* the job has ended: scan its directory */
	} else if (j->phase != JOB_RUNNING || !j->has_checkpoint) {
		if (leave) {
			stop_job(a);
		} else {
			ckpt_stop(a);
		}
	} else {
		word_keep(a);
		job_progress_read(j);
		c->asked_steps = j->steps_done;
		ckpt_set(a, CKPT_SAVE);
		save_ask(a);
	}
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void saved_mark(struct agent *a)
{
	struct ckpt *c = &a->ckpt;

	c->saved = true;
	if (c->leave && c->left_signal_us != 0 && c->left_saved_us == 0) {
		c->left_saved_us = a->now_us;
	}
}

static bool saved_look(struct agent *a)
{
	struct ckpt *c = &a->ckpt;
	struct word w;

	job_progress_read(&a->job);
	if (word_read(a, &w)) {
		saved_mark(a);
		c->steps = w.steps;
	}
	return c->saved;
}

static void scan_start(struct agent *a)
{
	struct ckpt *c = &a->ckpt;
	struct spot_err err = { 0 };

	scan_list_fini(&c->found);
	sbuf_init(&c->scan_text, SCAN_TEXT_MAX);
	if (scan_spawn(a->job.ckpt_dir, &c->known, &c->scan_pid, &c->scan_fd, &err) != SPOT_OK) {
		ckpt_again(a, CKPT_STOP, err.text);
		return;
	}
	ckpt_set(a, CKPT_SCAN);
}

static void step_save(struct agent *a)
{
	struct ckpt *c = &a->ckpt;
	bool saved = saved_look(a), nobody;

	if (c->signalled.n == 0 && !saved && job_alive(&a->job)) {
		save_ask(a); /* again: the job may have set its handler since */
		agent_wake(a, a->now_us + ASK_AGAIN_US);
	}
	nobody = c->signalled.n == 0 && a->now_us >= c->begun_us + NO_HANDLER_US;
	if (!saved && !nobody && job_alive(&a->job) && a->now_us < c->save_until_us) {
		agent_wake(a, c->save_until_us);
		return;
	}
	if (!saved) {
		log_warn("job.not_saved", STR("job", a->job.id), STR("signal", a->job.signal),
		    STR("why", nobody ? "no process of the job handles the signal" : "budget"));
	}
	if (c->leave) {
		stop_job(a);
	} else {
		scan_start(a);
	}
}

static void step_stop(struct agent *a)
{
	struct ckpt *c = &a->ckpt;
	struct job *j = &a->job;
	struct word w;

	if (job_alive(j) || !retry_due(a, &c->backoff)) {
		return;
	}
	/* spawned_us is also 0 after a reboot. */
	if (!j->has_checkpoint || (j->spawned_us == 0 && j->exit_phase[0] == '\0')) {
		ckpt_end(a, true, "there is nothing to store");
		return;
	}
	/* The job may have saved once more at its end. An exit with 0 counts as saved, too. */
	if (!saved_look(a) && j->exit_code == 0 && j->exit_phase[0] != '\0') {
		saved_mark(a);
		c->by_end = true;
	}
	if (j->exit_code == 0 && (j->finished || !word_read(a, &w))) {
		c->steps = j->steps_done;
	}
	scan_start(a);
}

/* ---- the files ------------------------------------------------------------------------------- */

/* Reports that the job was killed with files newer than its confirmation: they belong to another
 * save, which may be incomplete. Both times come from the clock of one disk. */
static bool save_overwritten(const struct agent *a)
{
	const struct job *j = &a->job;
	struct word w;

	return j->kills > 0 && j->exit_code != 0 && word_read(a, &w) &&
	    scan_list_newest(&a->ckpt.found) > w.at_ns;
}

static void scan_done(struct agent *a)
{
	struct ckpt *c = &a->ckpt;
	/* Each rank stores its part of a set, even if it is empty or has not changed. */
	bool gang = a->job.num_nodes > 1;
	bool by_end_alone = c->by_end && !a->job.finished && !(gang && c->found.n == 0), same, told;
	struct word before;
	int64_t quiet_until_ns = (c->begun_wall_us - QUIET_US) * 1000;

	scan_stop(a);
	scan_list_sort(&c->found);
	scan_list_copy(&c->known, &c->found);
	if (c->found.n == 0 && !gang) {
		ckpt_end(a, true, "the checkpoint directory is empty");
		return;
	}
	/* A program that exits with 0 without a new save is at the step of its files. With a later
	 * step a rank would count for a later set. */
	same = scan_list_same(&c->found, &c->committed);
	told = by_end_alone && word_kept(&a->job, &before) &&
	    scan_list_newest(&c->found) <= before.at_ns;
	if (told) {
		c->steps = before.steps;
	} else if (by_end_alone && gang && same) {
		c->steps = c->committed_steps;
	}
	if (same && !gang && (c->steps <= c->committed_steps || (by_end_alone && !told))) {
		ckpt_end(a, true, "nothing has changed since the last one");
		return;
	}
	if (c->saved && save_overwritten(a)) {
		ckpt_end(a, false,
		    "the job was killed while it wrote over the save that it had confirmed");
		return;
	}
	if (!c->saved && scan_list_newest(&c->found) > quiet_until_ns) {
		ckpt_end(a, false,
		    "the job did not save in time, and its files may be half written");
		return;
	}
	if (!c->saved) { /* unknown step: use the last certain one */
		c->steps = MAX(c->committed_steps, a->job.steps_start);
	}
	/* It would count as the rank's part of the set of that step. */
	if (!c->saved && c->steps > 0 && gang) {
		ckpt_end(a, false,
		    "the job did not confirm its save, and the ranks of a job must be at one step");
		return;
	}
	ckpt_set(a, CKPT_POST);
}

void ckpt_scan_ready(struct agent *a)
{
	struct ckpt *c = &a->ckpt;
	struct spot_err err = { 0 };
	char buf[65536], *end;
	ssize_t got;
	bool done = false;

	while ((got = read(c->scan_fd, buf, sizeof(buf))) > 0) {
		sbuf_add(&c->scan_text, buf, (size_t)got);
	}
	if (got < 0 && errno == EAGAIN) {
		return;
	}
	for (char *p = c->scan_text.p;
	     p != NULL && !done && err.rc == SPOT_OK && (end = strchr(p, '\n')) != NULL;
	     p = end + 1) {
		(void)!scan_line(&c->found, (struct str){ p, (size_t)(end - p) }, &done, &err);
	}
	if (done) {
		scan_done(a);
		return;
	}
	scan_stop(a);
	/* The machine lacked a resource, or a signal killed the scan: repeat it, since the job must
	 * not lose its result. */
	if (err.rc == SPOT_OK || err.rc == SPOT_INTERNAL || err.rc == SPOT_CONFLICT) {
		ckpt_again(a, CKPT_STOP,
		    err.rc != SPOT_OK ? err.text : "the scan of the directory was cut short");
	} else {
		ckpt_end(a, false, err.text);
	}
}

void ckpt_step(struct agent *a)
{
	struct ckpt *c = &a->ckpt;
	struct job *j = &a->job;
	int64_t due_us;

	switch (c->at) {
	case CKPT_IDLE:
		if (j->phase != JOB_RUNNING || !j->has_checkpoint || j->interval_us == 0 ||
		    j->stop != STOP_NONE) {
			break;
		}
		due_us = MAX(c->last_us, j->running_us) + j->interval_us;
		if (a->now_us >= due_us) {
			ckpt_begin(a, "periodic", false, 0);
		} else {
			agent_wake(a, due_us);
		}
		break;
	case CKPT_SAVE:
		step_save(a);
		break;
	case CKPT_STOP:
		step_stop(a);
		break;
	case CKPT_SCAN:
		break; /* its output wakes us */
	case CKPT_POST:
	case CKPT_UPLOAD:
	case CKPT_COMMIT:
		upload_step(a);
		break;
	}
}
