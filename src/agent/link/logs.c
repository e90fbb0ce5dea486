/*
 * Sends the job's log to the daemon, in pieces of at most 256 KiB, one at a time. The daemon
 * answers with its next offset, so that nothing is lost or stored twice, even if either side
 * restarts. Offsets on the wire are log_base + offset in the file.
 *
 * The agent punches a hole over the bytes that the daemon has. So a long log does not fill the
 * disk, and the offsets stay.
 */
#include "base/base.h"
#include "agent/agent.h"

#include "spot/agent.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define GATHER_US (SPOT_US_PER_S / 5)
#define LOOK_US SPOT_US_PER_S
#define FLUSH_US (3 * SPOT_US_PER_S)
#define PUNCH_BYTES (8ll << 20)

void logs_close(struct agent *a)
{
	struct logs *l = &a->logs;

	http_stop(a->http, l->call);
	if (l->watch >= 0) {
		(void)inotify_rm_watch(a->inotify_fd, l->watch);
	}
	if (l->fd >= 0) {
		close(l->fd);
	}
	*l = (struct logs){ .fd = -1, .watch = -1 };
}

void logs_open(struct agent *a, int64_t sent)
{
	logs_close(a);
	a->logs.sent = sent;
}

static void log_watch(struct agent *a)
{
	/* One event, then none until we have read: a busy log must not wake us at each write. */
	if (a->inotify_fd >= 0) {
		a->logs.watch =
		    inotify_add_watch(a->inotify_fd, a->job.log, IN_MODIFY | IN_ONESHOT);
	}
}

static void log_punch(struct logs *l)
{
	if (l->sent - l->punched < PUNCH_BYTES) {
		return;
	}
	(void)fallocate(l->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)l->punched,
	    (off_t)(l->sent - l->punched));
	l->punched = l->sent;
}

static void log_done(void *agent, const struct http_reply *reply)
{
	struct agent *a = agent;
	struct logs *l = &a->logs;
	AUTO(daemon_reply) struct daemon_reply r;
	struct spot_err bad = { 0 };
	int64_t next;

	daemon_read(a, reply, &r);
	l->call = NULL;
	if (r.status != 200) {
		retry_fail(a, &l->backoff, r.retry_after_us);
		if (r.stale && job_alive(&a->job)) {
			job_fenced(a);
		}
		return;
	}
	next = json_need_i64(r.body, "next_offset", &bad) - a->job.log_base;
	if (bad.rc != SPOT_OK || next < 0) {
		log_error("log.bad_offset", I64("next", next));
		retry_fail(a, &l->backoff, 0);
		return;
	}
	if (next <= l->sent) { /* no progress: back off before we send the same piece again */
		retry_fail(a, &l->backoff, 0);
	} else {
		retry_clear(&l->backoff);
	}
	if (next > l->sent && l->flush_us != 0 && !a->notice.interrupted) {
		/* With progress the wait starts again, unless the node is being reclaimed. */
		l->flush_us = a->now_us;
	}
	l->sent = next;
	log_punch(l);
}

static void log_send_piece(struct agent *a)
{
	struct logs *l = &a->logs;
	char path[3 * AGENT_ID_MAX + 64];
	char *buf = malloc(SPOT_AGENT_LOG_BYTES);
	ssize_t got;

	if (buf == NULL) {
		abort();
	}
	got = pread(l->fd, buf, (size_t)MIN(l->size - l->sent, (int64_t)SPOT_AGENT_LOG_BYTES),
	    (off_t)l->sent);
	if (got > 0) {
		(void)snprintf(path, sizeof(path), "log?job=%s&epoch=%" PRId64 "&offset=%" PRId64,
		    a->job.id, a->job.epoch, a->job.log_base + l->sent);
		l->flying = got;
		l->call = daemon_post_bytes(a, path, (struct str){ buf, (size_t)got },
		    20 * SPOT_US_PER_S, log_done);
	}
	free(buf);
}

void logs_step(struct agent *a)
{
	struct logs *l = &a->logs;
	struct job *j = &a->job;
	struct stat st;

	if (j->phase < JOB_SETUP || j->stop == STOP_DROPPED) {
		return;
	}
	if (l->fd < 0) {
		l->fd = open(j->log, O_RDWR | O_CLOEXEC);
		if (l->fd < 0) {
			agent_wake(a, a->now_us + LOOK_US);
			return;
		}
		log_watch(a);
	}
	if (fstat(l->fd, &st) == 0) {
		l->size = st.st_size;
	}
	if (l->call != NULL || a->enrol.at != ENROL_DONE || l->sent >= l->size) {
		if (j->phase != JOB_REPORTED && l->call == NULL) {
			agent_wake(a, a->now_us + LOOK_US);
		}
		return;
	}
	if (!retry_due(a, &l->backoff)) {
		return;
	}
	/* Gather small writes, unless a full piece is there or the job is over. */
	if (j->phase <= JOB_RUNNING && l->size - l->sent < SPOT_AGENT_LOG_BYTES &&
	    a->now_us < l->next_us) {
		agent_wake(a, l->next_us);
		return;
	}
	l->next_us = a->now_us + GATHER_US;
	log_watch(a);
	log_send_piece(a);
}

bool logs_flushed(struct agent *a)
{
	struct logs *l = &a->logs;
	struct stat st;

	if (l->fd >= 0 && fstat(l->fd, &st) == 0) {
		l->size = st.st_size;
	}
	if (l->sent >= l->size && l->call == NULL) {
		return true;
	}
	if (a->lost || l->flush_us == 0) { /* the daemon could not get the report either */
		l->flush_us = a->now_us;
	}
	agent_wake(a, l->flush_us + FLUSH_US);
	return a->now_us >= l->flush_us + FLUSH_US;
}
