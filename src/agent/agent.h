/*
 * The agent as a whole: one struct with the state of its parts, and one turn. Each part owns its
 * state and declares it in its folder's header, with its functions. Calls go downward only:
 *
 *     main, turn > link > notice > job > ckpt > proc, gpu > net > sys
 *
 * One thread, one loop (main.c). In each turn the _step function of every part compares the facts
 * and acts. It is level-triggered: a lost event costs time, not correctness. Then http_wait waits
 * for traffic, signals, file changes or the earliest time that a part asked for. Callbacks record
 * facts; the steps act on them.
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
#include "agent/sys/sys.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#define AGENT_VERSION SPOT_VERSION /* meson.build */
#define AGENT_EXIT_REFUSED 3 /* the daemon will never take us: do not start again */

struct agent {
	const char *dir;
	const struct clock *clock;
	struct rng rng;
	struct boot boot;
	struct http *http;
	int signal_fd, inotify_fd; /* inotify_fd -1: no inotify, so we poll more often */
	int64_t now_us, wake_us; /* time of this turn; latest time of the next */
	bool quit;
	int exit_code;
	char node[AGENT_ID_MAX];
	int64_t hold_ms, sample_us;
	int64_t contact_us; /* time of the daemon's last answer */
	int64_t orphan_us; /* orphan timeout; 0 = never */
	int64_t orphan_until_us; /* orphaned: limit for save and stop; 0 = not orphaned */
	bool lost; /* the last call did not reach the daemon */
	bool leaving; /* told to shut down, or orphaned: the agent ends after its job */
	bool came_back; /* the daemon answers again: send all waiting calls now */
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
	bool store_counts; /* the store's hashes are not MD5: ignore them (upload.c) */
	struct logs logs;
	struct gpu gpu;
	struct sample sample;
};

void agent_init(struct agent *a, const char *dir, const struct clock *clock);
/* Reads session and state, and adopts a running job. The caller has set boot, rng and the
 * descriptors. */
void agent_begin(struct agent *a);
void agent_steps(struct agent *a); /* runs one turn and sets wake_us */
void agent_end(struct agent *a); /* frees everything; the job goes on */

#endif
