/*
 * The agent as a whole: one struct with the state of its parts, and one turn. Each part owns its
 * state and declares it, with what it offers, in its folder's header. Calls go downward only:
 *
 *     main, turn > link > notice > job > ckpt > proc, gpu > net > sys
 *
 * One thread, one loop (main.c). In each turn every part's _step looks at the facts and does what
 * is due (level-triggered, so a lost event costs time, not correctness). Then http_wait waits for
 * traffic, signals, file changes or the earliest time that a part asked for. Callbacks of calls
 * record facts; the steps act on them.
 *
 * Times are CLOCK_BOOTTIME microseconds unless the name says wall: a step of the wall clock must
 * not move a deadline, and suspended time counts.
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include "base/base.h"

#include "agent/ckpt/ckpt.h"
#include "agent/gpu/gpu.h"
#include "agent/job/job.h"
#include "agent/link/link.h"
#include "agent/net/net.h"
#include "agent/notice/notice.h"
#include "agent/proc/proc.h"
#include "agent/retry.h"
#include "agent/sys/sys.h"
#include "base/clock.h"
#include "base/crypto/secret.h"
#include "base/rng.h"
#include "base/text/json.h"
#include "base/text/sbuf.h"

#define AGENT_VERSION SPOT_VERSION /* meson.build */
#define AGENT_EXIT_REFUSED 3 /* the daemon will never take us: do not start again */

struct agent {
	const char *dir;
	const struct clock *clock;
	struct rng rng;
	struct boot boot;
	struct http *http;
	int signal_fd, inotify_fd; /* inotify_fd -1: none to be had, we look more often */
	int64_t now_us, wake_us; /* this turn; when the next is due at the latest */
	bool quit;
	int exit_code;
	char node[AGENT_ID_MAX];
	int64_t hold_ms, sample_us;
	int64_t contact_us; /* when the daemon was last heard */
	/* silent for so long it will not come back; 0 = it always may */
	int64_t orphan_us;
	/* it has been: the job saves and stops until then; 0 = it has not */
	int64_t orphan_until_us;
	bool lost; /* the last call to it found nobody */
	/* told to shut down, or orphaned: ends when the job has */
	bool leaving;
	/* the first answer after it was lost: all that waits for it goes out now */
	bool came_back;
	const struct job_hooks *job_hooks;
	struct enrol enrol;
	struct imds imds;
	struct notice notice;
	struct poll poll;
	struct job job;
	struct report report;
	struct fetch fetch;
	struct ckpt ckpt;
	struct session_asked *sessions_asked;
	/* the store tells another hash than MD5 (upload.c) */
	bool store_counts;
	struct logs logs;
	struct gpu gpu;
	struct sample sample;
};

void agent_init(struct agent *a, const char *dir, const struct clock *clock);
/* boot was read, rng and descriptors are set: goes on where it was. */
void agent_begin(struct agent *a);
void agent_steps(struct agent *a); /* does what is due now; wake_us says when to come again */
void agent_end(struct agent *a); /* the job goes on */

#endif
