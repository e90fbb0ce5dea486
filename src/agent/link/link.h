/*
 * The conversation of agent and daemon: identity and enrolment, the long poll, reports, the job's
 * log. The calls themselves are agent/net/.
 */
#ifndef AGENT_LINK_H
#define AGENT_LINK_H

#include "base/base.h"

#include "agent/net/net.h"
#include "agent/proc/proc.h"

/* ---- boot.json, home, session (session.c) ---------------------------------------------------- */

struct boot {
	char *url, *ca_pem, *provider, *install, *node;
	char *audience; /* url as it stands in the file */
	struct secret token;
	int64_t orphan_us;
};
NODISCARD enum spot_rc boot_read(const char *dir, struct boot *ret, struct spot_err *err);
void boot_fini(struct boot *b);
#define HOME_ID_MAX 17
/* Never fails: "" where a directory in use has none. Of the agent, dir and rng are set. */
void home_id(struct agent *a, char ret[HOME_ID_MAX]);
/* Sets node, hold_ms, sample_us and the bearer token. SPOT_NOT_FOUND: there is none yet. */
NODISCARD enum spot_rc session_read(struct agent *a, struct spot_err *err);
NODISCARD enum spot_rc session_write(struct agent *a, const char *session, struct spot_err *err);
void session_remove(struct agent *a);

/* ---- enrolment (enrol.c, identity.c) --------------------------------------------------------- */

/* The node as its cloud calls it, and the proof of that (identity.c). */
struct identity {
	struct http_call *call;
	struct retry backoff;
	int at, tries; /* the key that is asked for; faults so far */
	bool done; /* there is no more to be had */
	int64_t got_us; /* when it was complete */
	json_t *proof; /* {"kind", ...}; NULL = none */
	char zone[64];
	char ref[201]; /* the instance as the daemon calls it; "" = not known */
};
bool identity_ready(struct agent *a); /* has one that is fresh enough; else fetches it */
void identity_fini(struct agent *a);
void identity_nonce(const char *token, char ret[11]);
struct enrol {
	enum { ENROL_IDENTITY = 0, ENROL_POST, ENROL_DONE } at;
	struct http_call *call;
	struct retry backoff;
	char boot_id[64];
	struct identity identity;
	bool hw_ready;
	bool refused; /* the daemon refused our session (daemon_read): enrol again */
};
void enrol_step(struct agent *a);

/* ---- polling (poll.c) ------------------------------------------------------------------------ */

struct poll {
	struct http_call *call;
	struct retry backoff;
	int64_t started_us;
	int64_t version;
	enum job_phase asked_as; /* the phase of our job that the last poll named */
	/* ask as if we had no job: to be given its run again */
	bool claim_nothing;
	/* answers in a row that came at once and changed nothing */
	int quick;
};
void poll_step(struct agent *a);
void poll_now(struct agent *a); /* our state changed: the held poll is outdated */

/* ---- reports (report.c) ---------------------------------------------------------------------- */

struct report {
	struct http_call *call;
	struct retry backoff;
	enum job_phase sent_phase;
	bool sent_saving;
	int64_t sent_steps, sent_us;
	int64_t sent_signalled_us;
	enum job_phase flying_phase;
	bool flying_saving;
	int64_t flying_steps, flying_signalled_us;
};
void report_step(struct agent *a);
void report_reset(struct agent *a);
/* The daemon does not know the end that it was told: its database is an older one, after a
 * fail-over that lost some seconds. The last checkpoint and the end are told once more. */
void report_again(struct agent *a);

/* ---- logs (logs.c) --------------------------------------------------------------------------- */

struct logs {
	int fd; /* the job's log; -1 = none */
	int watch;
	int64_t sent, size; /* file offsets */
	int64_t next_us; /* not before: small writes are gathered */
	int64_t punched;
	int64_t flush_us; /* waiting for its end since then; 0 = not yet */
	struct http_call *call;
	int64_t flying;
	struct retry backoff;
};
void logs_step(struct agent *a);
void logs_open(struct agent *a, int64_t sent);
void logs_close(struct agent *a);
bool logs_flushed(struct agent *a);

#endif
