/*
 * The link of agent and daemon: identity and enrolment, the long poll, reports, the job's log. The
 * HTTP calls are in agent/net/.
 */
#ifndef AGENT_LINK_H
#define AGENT_LINK_H

#include "base/base.h"

#include "agent/net/net.h"
#include "agent/proc/proc.h"

/* ---- boot.json, home, session (session.c) ---------------------------------------------------- */

struct boot {
	char *url, *ca_pem, *provider, *install, *node;
	char *audience; /* url, unchanged, from the file */
	struct secret token;
	int64_t orphan_us;
};
NODISCARD enum spot_rc boot_read(const char *dir, struct boot *ret, struct spot_err *err);
void boot_fini(struct boot *b);
#define HOME_ID_MAX 17
/* Reads the id of the directory, or makes one in a new directory. Never fails: returns "" if a used
 * directory has none. Needs a->dir and a->rng. */
void home_id(struct agent *a, char ret[HOME_ID_MAX]);
/* Sets node, hold_ms, sample_us and the bearer token. SPOT_NOT_FOUND: there is no session yet. */
NODISCARD enum spot_rc session_read(struct agent *a, struct spot_err *err);
NODISCARD enum spot_rc session_write(struct agent *a, const char *session, struct spot_err *err);
void session_remove(struct agent *a);

/* ---- enrolment (enrol.c, identity.c) --------------------------------------------------------- */

/* The node's identity in its cloud, and the proof of it (identity.c). */
struct identity {
	struct http_call *call;
	struct retry backoff;
	int at, tries; /* index of the current key; faults so far */
	bool done; /* the list of keys is through */
	int64_t got_us; /* time when the proof was complete */
	json_t *proof; /* {"kind", ...}; NULL = none */
	char zone[64];
	char ref[201]; /* the provider's ref of the instance; "" = not known */
};
bool identity_ready(struct agent *a); /* true with a fresh proof, or none to get; else fetches it */
void identity_fini(struct agent *a);
void identity_nonce(const char *token, char ret[11]); /* NONCE of include/spot/agent.h */
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
	bool claim_nothing; /* poll as if we had no job, to get its run again */
	int quick; /* number of immediate answers in a row without a change */
};
void poll_step(struct agent *a);
void poll_now(struct agent *a); /* ends the held poll, after our state has changed */

/* ---- reports (report.c) ---------------------------------------------------------------------- */

struct report {
	struct http_call *call;
	struct retry backoff;
	enum job_phase sent_phase;
	bool sent_saving;
	int64_t sent_steps, sent_us;
	int64_t sent_signalled_us;
	int sent_marks, flying_marks;
	enum job_phase flying_phase;
	bool flying_saving;
	int64_t flying_steps, flying_signalled_us;
};
void report_step(struct agent *a);
void report_reset(struct agent *a);
/* Stores the last checkpoint and reports the end of the job once more. After a fail-over to a
 * database that lost some seconds, the daemon may not know them. */
void report_again(struct agent *a);

/* ---- logs (logs.c) --------------------------------------------------------------------------- */

struct logs {
	int fd; /* the job's log; -1 = none */
	int watch;
	int64_t sent, size; /* file offsets */
	int64_t next_us; /* no send before this time, to gather small writes */
	int64_t punched; /* file offset; the bytes before it are freed */
	int64_t flush_us; /* start of the wait for the rest at the end of the job; 0 = not yet */
	struct http_call *call;
	int64_t flying;
	struct retry backoff;
};
void logs_step(struct agent *a);
void logs_open(struct agent *a, int64_t sent);
void logs_close(struct agent *a);
bool logs_flushed(struct agent *a);

#endif
