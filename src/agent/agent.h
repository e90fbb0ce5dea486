/*
 * The agent's state and its parts. One thread, one loop (main.c): each turn every part's _step
 * looks at the facts and does what is due (level-triggered, so a lost event costs time, not
 * correctness), then http_wait waits for traffic, signals, file changes or the earliest time that a
 * part asked for. Callbacks of calls record facts; the steps act on them.
 *
 * Times are CLOCK_BOOTTIME microseconds unless the name says wall: a step of the wall clock must
 * not move a deadline, and suspended time counts.
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include "base/base.h"

#include "agent/fsutil.h"
#include "agent/link/http.h"
#include "agent/ckpt/scan.h"
#include "base/clock.h"
#include "base/text/json.h"
#include "base/rng.h"
#include "base/text/sbuf.h"
#include "base/crypto/secret.h"

#include <netinet/in.h>
#include <sys/types.h>

#define AGENT_VERSION SPOT_VERSION /* meson.build */
#define AGENT_ID_MAX 64
#define AGENT_EXIT_REFUSED 3 /* the daemon will never take us: do not start again */
#define AGENT_TRANSFERS_MAX 4

struct agent;

/* Repeats with growing waits: 0.5 s doubling to 30 s, jittered by half. */
struct backoff {
	int failures;
	int64_t next_us;
};
void backoff_fail(struct agent *a, struct backoff *b, int64_t retry_after_us);
void backoff_clear(struct backoff *b);
bool backoff_due(struct agent *a, const struct backoff *b); /* false also asks to be woken */

/* ---- boot.json and state (state.c) ----------------------------------------------------------- */

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
/* NOT_FOUND: none yet */
NODISCARD enum spot_rc session_read(struct agent *a, struct spot_err *err);
NODISCARD enum spot_rc session_write(struct agent *a, const char *session, struct spot_err *err);
void session_remove(struct agent *a);
void state_write(struct agent *a); /* at once and durable; failure is logged */
void state_read(struct agent *a); /* adopts what it finds */
/* 0 = never; < 0 or more than a year: as it was. True: another than before */
bool orphan_timeout_set(struct agent *a, int64_t seconds);

/* ---- calls to the daemon (daemon.c) ---------------------------------------------------------- */

struct daemon_reply {
	int status; /* 0 = no reply */
	json_t *body; /* object or NULL; AUTO(daemon_reply) drops it */
	const char *code, *error; /* for people and for the 409s; "" if none */
	bool stale; /* 409 stale_epoch */
	int64_t retry_after_us;
};
static inline void auto_daemon_reply(struct daemon_reply *r)
{
	json_decref(r->body);
}
/* body is taken over. */
struct http_call *daemon_post(struct agent *a, const char *path, json_t *body, int64_t timeout_us,
    void (*done)(void *agent, const struct http_reply *r));
struct http_call *daemon_post_bytes(struct agent *a, const char *path, struct str bytes,
    int64_t timeout_us, void (*done)(void *agent, const struct http_reply *r));
/* First line of every callback: also notes that the daemon is alive and whether it still knows
 * us. */
void daemon_read(struct agent *a, const struct http_reply *r, struct daemon_reply *ret);

/* ---- enrolment (enrol.c) --------------------------------------------------------------------- */

/* Who vouches for this node (identity.c): what its cloud says of it, and the proof of that. */
struct identity {
	struct http_call *call;
	struct backoff backoff;
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
	struct backoff backoff;
	char boot_id[64];
	struct identity identity;
	bool hw_ready;
};
void enrol_step(struct agent *a);
void enrol_again(struct agent *a); /* the session was refused */

/* ---- metadata services and notices (imds.c, notice*.c) --------------------------------------- */

struct imds {
	struct secret token;
	int64_t token_until_us;
	struct http_call *token_call;
	struct backoff backoff;
};
/* base: where the service is, with or without http://; NULL or "" = its usual address. False: too
 * long for n. */
bool metadata_url(const char *base, const char *root, const char *path, char *ret, size_t n);
bool imds_ready(struct agent *a); /* has a fresh token; else fetches one */
struct http_call *imds_get(struct agent *a, const char *path,
    void (*done)(void *agent, const struct http_reply *r));
void imds_token_refused(struct agent *a); /* 401 */

struct notice_key { /* one watched metadata path */
	struct http_call *call;
	int64_t next_us;
	char seen[65]; /* sha256 of the last content */
};
struct gcp_key { /* one hanging GET */
	struct http_call *call;
	int64_t next_us, started_us;
	int faults;
	bool waited; /* the question was one that waits */
	char etag[128], value[64]; /* etag "" = ask without waiting */
};
struct azure_event { /* a scheduled event of this machine */
	char id[128];
	int kind; /* NOTICE_...; -1 = nothing to do about it */
	int64_t deadline_wall_us;
	bool alone; /* it names no other machine */
	bool acking; /* approved, or about to be */
};
#define AZURE_EVENTS_MAX 16
struct azure {
	struct http_call *call, *name_call, *ack_call;
	int64_t next_us, name_next_us;
	int faults;
	bool awake; /* the service has answered once */
	char name[256]; /* of this machine; "" = not known yet */
	struct azure_event events[AZURE_EVENTS_MAX];
	size_t events_n;
	struct backoff ack_backoff;
};
struct notice_post { /* one notice on its way to the daemon */
	bool wanted;
	struct http_call *call;
	struct backoff backoff;
	const char *kind;
	int64_t deadline_wall_us;
	int64_t deadline_us; /* the source told a span, not a time; 0 = a time */
	const char *source;
	char raw[1024];
};
struct notice {
	struct notice_key action, rebalance, maintenance; /* AWS */
	struct gcp_key preempted, host_event;
	struct azure azure;
	int stop_signal; /* we were asked to stop; 0 = no */
	int64_t stop_us; /* when that was */
	bool stop_final; /* the machine goes with us: there is no successor */
	struct notice_post post[3]; /* interruption, rebalance, maintenance */
	bool interrupted;
	int64_t seen_us, deadline_us, deadline_wall_us;
	/* when a rebalance last caused a checkpoint; 0 = never */
	int64_t rebalance_saved_us;
};
void notice_source_step(struct agent *a); /* the one of this cloud */
void notice_stop(struct agent *a, int signo); /* we are asked to stop (notice_stop.c) */
void notice_stop_step(struct agent *a);
void notice_aws_step(struct agent *a);
void notice_gcp_step(struct agent *a);
void notice_gcp_ask(struct agent *a); /* now, without waiting */
void notice_azure_step(struct agent *a);
/* notice_gcp.c: an answer or a fault into what is asked next; true: the value is another. */
bool notice_gcp_answer(struct gcp_key *k, int64_t now_us, const char *etag, struct str body);
void notice_gcp_fault(struct gcp_key *k, int64_t now_us);
NODISCARD bool gcp_url(const char *path, char *ret, size_t n);
struct http_call *gcp_get(struct agent *a, const char *path, int64_t timeout_us,
    void (*done)(void *agent, const struct http_reply *r));
bool gcp_is_google(const struct http_reply *r);
/* notice_azure.c: the events that name this machine; false: not the document that is expected. */
NODISCARD bool notice_azure_events(struct str body, const char *name, int64_t now_wall_us,
    struct azure_event ret[AZURE_EVENTS_MAX], size_t *ret_n);
struct http_call *azure_get(struct agent *a, const char *path, int64_t timeout_us,
    void (*done)(void *agent, const struct http_reply *r));
/* Content of the metadata keys; deadline 0 = none said. */
NODISCARD bool notice_aws_action(struct str body, int64_t now_wall_us,
    int64_t *ret_deadline_wall_us);
/* false: none active */
NODISCARD bool notice_aws_maintenance(struct str body, int64_t *ret_deadline_wall_us);
enum { NOTICE_INTERRUPTION = 0, NOTICE_REBALANCE, NOTICE_MAINTENANCE };
void notice_seen(struct agent *a, int kind, int64_t deadline_wall_us, const char *source,
    struct str raw);
/* Of a source that says how long and not until when: no wall clock has a part in it, here or at the
 * daemon. */
void notice_seen_for(struct agent *a, int kind, int64_t left_us, const char *source,
    struct str raw);
void notice_step(struct agent *a);
void notice_file_write(struct agent *a); /* for a job that starts after the notice */

/* ---- polling (poll.c) ------------------------------------------------------------------------ */

enum job_phase { JOB_NONE = 0, JOB_FETCH, JOB_SETUP, JOB_RUNNING, JOB_ENDED, JOB_REPORTED };
struct poll {
	struct http_call *call;
	struct backoff backoff;
	int64_t started_us;
	int64_t version;
	enum job_phase asked_as; /* what the last question said of our job */
	/* ask as if we had no job: to be given its run again */
	bool claim_nothing;
	/* answers in a row that came at once and changed nothing */
	int quick;
};
void poll_step(struct agent *a);
void poll_now(struct agent *a); /* what we have changed: the held poll is outdated */

/* ---- job (job.c, job_stop.c, job_start.c) ---------------------------------------------------- */

enum job_stop {
	STOP_NONE = 0,
	STOP_DRAINED, /* asked to leave: ends as "drained" */
	STOP_KILLED, /* ends as "killed" */
	STOP_DROPPED = 4, /* fenced: nobody wants to hear of it */
};
struct job {
	enum job_phase phase;
	char id[AGENT_ID_MAX];
	int64_t epoch;
	/* whole, with secrets and URLs; only until it was started */
	json_t *run;
	json_t *spec; /* run without those; kept in state.json */
	/* from spec; the strings belong to it */
	const char *name, *signal, *then, *command;
	bool has_checkpoint, restored;
	int64_t interval_us, budget_us, kill_after_us, max_us, steps_start, log_base, num_gpus,
	    num_nodes;
	/* places */
	char dir[AGENT_PATH_MAX], cwd[AGENT_PATH_MAX], ckpt_dir[AGENT_PATH_MAX],
	    log[AGENT_PATH_MAX], progress[AGENT_PATH_MAX], saved[AGENT_PATH_MAX],
	    notice[AGENT_PATH_MAX];
	char cgroup[AGENT_PATH_MAX]; /* "" = none */
	/* processes */
	pid_t shim;
	uint64_t shim_start; /* 0: not yet known */
	pid_t leader;
	int64_t spawned_us, running_us;
	/* stopping */
	enum job_stop stop;
	/* since when exit.json is there and cannot be read; 0 = never */
	int64_t exit_unread_us;
	int64_t kill_us; /* when to stop asking; 0 = not asked yet */
	int kills; /* so often it was ended by force */
	char why[400];
	/* the end */
	char exit_phase[16];
	int exit_code, exit_signal;
	bool finished; /* ended by itself, before anything was asked of it */
	const char *reason; /* set when JOB_ENDED */
	int64_t told_again_us; /* 0 = never */
	/* progress */
	int64_t steps_done, steps_total;
	int watch; /* inotify of dir */
};
void job_begin(struct agent *a, const char *id, int64_t epoch, json_t *run);
/* It was never begun here and is not wanted any more: its end is reported, or the daemon would wait
 * for it. */
void job_refuse(struct agent *a, const char *id, int64_t epoch, const char *reason,
    const char *why);
void job_step(struct agent *a);
void job_stop(struct agent *a, enum job_stop stop, int64_t grace_us, const char *why);
void job_kill(struct agent *a); /* by force, once its time to stop is over */
void job_why(struct job *j, const char *why);
void job_end(struct agent *a, const char *reason, const char *why); /* why NULL: as it was */
/* forgets it and removes its files; must not be running */
void job_drop(struct agent *a);
void job_fenced(struct agent *a); /* 409 stale_epoch */
bool job_alive(const struct job *j); /* has processes or is about to */
bool job_is_over_time(const struct agent *a); /* it has run for as long as its attempt may */
void job_adopt(struct agent *a); /* after a restart: state.json named it */
void job_child_ended(struct agent *a, pid_t pid);
void job_look(struct agent *a); /* what the shim has said since */
void job_progress_read(struct job *j);
/* Signals every process of the job that handles it and is not in the list; true if any did. */
struct job_signalled {
	pid_t pids[256];
	size_t n;
};
bool job_signal(struct agent *a, int signo, struct job_signalled *done);
/* job_start.c */
/* By which the other machines of its network reach this one: its first that is not the
 * loopback's. */
void own_address(char ret[INET_ADDRSTRLEN]);
NODISCARD enum spot_rc job_spec_read(struct agent *a, struct job *j, struct spot_err *err);
NODISCARD enum spot_rc job_start(struct agent *a, struct spot_err *err);

/* ---- reports (report.c) ---------------------------------------------------------------------- */

struct report {
	struct http_call *call;
	struct backoff backoff;
	enum job_phase sent_phase;
	bool sent_saving, saving; /* the job is saving now */
	int64_t sent_steps, sent_us;
	int64_t signalled_wall_us; /* 0 = nothing to tell */
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

/* ---- files in (fetch.c) ---------------------------------------------------------------------- */

struct fetch_file;
struct fetch_chunk;
struct fetch_kept;
struct fetch {
	enum { FETCH_NONE = 0, FETCH_RUNNING, FETCH_DONE, FETCH_FAILED } at;
	struct fetch_file *files;
	struct fetch_chunk *chunks;
	size_t files_n, chunks_n, done_n;
	int flying;
	/* an URL is not honoured (any more), the disk is in trouble: begun anew so often; 0 =
	 * never */
	int rounds_max;
	int rounds; /* with fresh URLs, in a row; outlives fetch_stop */
	struct backoff again; /* between them; outlives it, too */
	/* what an earlier round left in kept_dir, whole; outlives it */
	struct fetch_kept *kept;
	size_t kept_n;
	char kept_dir[AGENT_PATH_MAX]; /* the job's; "" = nothing is kept */
	char why[400];
};
void fetch_begin(struct agent *a, const json_t *files);
void fetch_step(struct agent *a);
#define FETCH_ROUNDS 5 /* a quarter of a minute: who named a file wrongly hears of it soon */
/* ten minutes: a checkpoint's URLs are our business, and the daemon's clock or the store may be
 * off; a full disk may have room again */
#define FETCH_ROUNDS_OURS 26
void fetch_fail(struct agent *a, int rounds_max, const char *why);
/* how often what failed with this errno is begun anew */
int fetch_rounds(int error);
void fetch_stop(struct agent *a);
/* URLs have run out under way: the job is dropped and begun anew with fresh ones, and its directory
 * with what is there stays. With progress the rounds count from 0. */
void fetch_keep(struct agent *a);
/* and removes that directory, unless it is the job's */
void fetch_forget(struct agent *a);

/* ---- checkpoints (checkpoint.c, upload.c) ---------------------------------------------------- */

enum ckpt_at {
	CKPT_IDLE = 0,
	CKPT_SAVE,
	CKPT_STOP,
	CKPT_SCAN,
	CKPT_POST,
	CKPT_UPLOAD,
	CKPT_COMMIT
};
struct upload;
struct ckpt {
	enum ckpt_at at;
	const char *reason; /* "periodic" "notice" "drain" "final" */
	bool leave; /* the job is to end after it */
	bool rebalance;
	bool saved; /* the job said so */
	bool by_end; /* ... by its end alone, whatever it had still to do */
	int64_t begun_us, begun_wall_us, save_until_us, kill_after_us, deadline_us;
	int64_t asked_steps; /* its progress when it was asked to save */
	struct job_signalled signalled;
	int64_t steps;
	/* scan */
	pid_t scan_pid;
	int scan_fd;
	struct sbuf scan_text;
	struct scan_list found; /* what this checkpoint consists of */
	struct scan_list known; /* what the last scan or restore found */
	struct scan_list committed;
	int64_t committed_steps;
	/* upload */
	struct http_call *call;
	struct backoff backoff;
	char id[AGENT_ID_MAX];
	struct upload *uploads;
	size_t uploads_n, uploads_done;
	int flying, rounds;
	/* sha256 of chunks of this checkpoint that the store has taken */
	char (*stored)[65];
	size_t stored_n, stored_room;
	size_t stored_before; /* when its list was sent last */
	/* of the daemon that serves all else, since the store took a chunk */
	int refusals;
	int64_t refused_us, refusal_us; /* the first and the newest of them */
	int64_t asked_us; /* the daemon, last */
	/* outcome of the last one */
	bool ok;
	char why[400];
	int64_t last_us; /* when the last one ended or the job began to run */
};
void ckpt_begin(struct agent *a, const char *reason, bool leave, int64_t deadline_us);
void ckpt_step(struct agent *a);
void ckpt_stop(struct agent *a); /* gives up what is under way */
void ckpt_reset(struct agent *a); /* for a new job */
void ckpt_scan_ready(struct agent *a); /* the scan's output can be read */
void ckpt_end(struct agent *a, bool ok, const char *why);
/* Once more from the list of chunks (CKPT_POST), or from the scan (CKPT_STOP: files have changed,
 * or it could not be made). */
void ckpt_again(struct agent *a, enum ckpt_at at, const char *why);
void ckpt_set(struct agent *a, enum ckpt_at at);
void upload_step(struct agent *a); /* CKPT_POST .. CKPT_COMMIT */
void upload_stop(struct agent *a);
/* what was asked for is not waited for (upload_resumable.c) */
void upload_sessions_end(struct agent *a);

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
	struct backoff backoff;
};
void logs_step(struct agent *a);
void logs_open(struct agent *a, int64_t sent);
void logs_close(struct agent *a);
bool logs_flushed(struct agent *a);

/* ---- samples (sample.c, gpu.c) --------------------------------------------------------------- */

struct gpu_now {
	bool known; /* at least one answer came */
	char error[160]; /* "no GPU"; "" if there are some */
	char driver[80];
	json_t *gpus; /* [{"uuid","name","mem_mib"}] */
	int64_t count, mem_used_mib, mem_total_mib, power_mw;
	double util; /* mean, 0..1; < 0: not known */
	/* why programs cannot use them although the driver answers; "" = they can */
	char not_ready[160];
	bool failed; /* that, or the error, will not pass */
};
struct gpu {
	struct gpu_now now;
	enum { GPU_HELPER = 0, GPU_SMI, GPU_NONE } by;
	pid_t pid;
	int fd;
	struct sbuf text;
	int64_t heard_us, next_us;
	int64_t every_us; /* the helper's interval */
	int hangs; /* or ends by a signal, without a line in between */
};
void gpu_step(struct agent *a);
void gpu_ready(struct agent *a);
void gpu_child_ended(struct agent *a, pid_t pid, int status);
void gpu_stop(struct agent *a);
/* Until when enrolment waits for the GPUs, since since_us; 0 = not, or no longer. */
int64_t gpu_settles_us(const struct gpu_now *now, int64_t since_us, int64_t now_us);
/* What keeps programs from using them, "" = nothing. */
const char *gpu_fault(const struct gpu_now *now);
/* Text of the two sources into now. */
NODISCARD enum spot_rc gpu_helper_line(struct str line, struct gpu_now *now, struct spot_err *err);
NODISCARD enum spot_rc gpu_smi_text(const char *text, struct gpu_now *now, struct spot_err *err);

struct sample {
	struct http_call *call;
	int64_t next_us;
	uint64_t cpu_busy, cpu_all;
};
void sample_step(struct agent *a);
json_t *sample_hw(struct agent *a); /* the "hw" of enrolment */

/* ---- all of it ------------------------------------------------------------------------------- */

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
	struct enrol enrol;
	struct imds imds;
	struct notice notice;
	struct poll poll;
	struct job job;
	struct report report;
	struct fetch fetch;
	struct ckpt ckpt;
	struct session_asked *sessions_asked;
	/* what the store says of what it has got is no MD5 of it (upload.c) */
	bool store_counts;
	struct logs logs;
	struct gpu gpu;
	struct sample sample;
};

/* turn.c */
void agent_init(struct agent *a, const char *dir, const struct clock *clock);
/* boot was read, rng and descriptors are set: goes on where it was */
void agent_begin(struct agent *a);
void agent_steps(struct agent *a); /* what is due now; wake_us says when to come again */
void agent_end(struct agent *a); /* the job goes on */

void agent_wake(struct agent *a, int64_t at_us);
int64_t agent_wall_us(struct agent *a);

#endif
