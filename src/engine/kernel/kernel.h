/*
 * The kernel: the base of every reconciler. A reconciler is a `struct recon_kind`: its pass
 * reads rows that need work and writes what it decides, one statement a step. Calls to providers
 * outlive a pass: each is a `struct act`. Both are fenced by the epoch of the lease under which
 * they began.
 *
 * Below: reconcilers, steps and acts; the shared state; time, providers and the lease. Then state
 * transitions, the market read, the object store and the files of attempts.
 */
#ifndef ENGINE_KERNEL_H
#define ENGINE_KERNEL_H

#include <sys/queue.h>

#include "base/base.h"
#include "base/text/text.h"
#include "core/life/life.h"
#include "core/place/place.h"
#include "core/hazard/hazard.h"
#include "engine/engine.h"
#include "store/market/market.h"
#include "store/q.h"

struct recon;

/* ---- reconcilers and their steps (recon.c) --------------------------------------------------- */

/* A part of the engine with state of its own, zeroed at the start. All functions but the name are
 * optional; a kind without a pass only keeps state that others reach through functions of its file.
 * State is memory of one process: it may pace work, never decide it. */
struct recon_kind {
	const char *name;
	size_t state_size;
	unsigned wakes; /* TOUCH_*: the rows whose change makes it due; 0 = all */
	/* Without a change it runs each tick (0) or every so many ticks. It runs once a minute at
	 * least, or each tick where a tick is longer. After a pass in which no statement returned
	 * a row, idle_ticks counts instead. */
	int ticks, idle_ticks;
	void (*init)(struct engine *e, void *state);
	void (*pass)(struct recon *r, void *state);
	void (*lease_lost)(void *state);
	void (*fini)(void *state); /* nothing of the engine runs any more */
};

/* Runs after a pass, before its memory goes. */
struct recon_end {
	void (*run)(struct recon *r, void *ctx);
	void *ctx;
	struct recon_end *next;
};

/* A reconciler and its pass. The pass begins with kind->pass, issues statements as steps, and ends
 * when no step is under way. One pass of a reconciler at a time. */
struct recon {
	struct engine *e;
	const struct recon_kind *kind;
	void *state;
	int64_t began_us; /* mono: the last pass */
	int64_t due_us; /* mono: the next pass begins by then */
	int64_t later_us; /* mono: asked for by recon_later; 0 = not */
	int64_t epoch; /* of our lease when the pass began; fences what it writes */
	bool running;
	unsigned dirty; /* TOUCH_*: the changes since the pass began; it runs again soon */
	unsigned seen; /* the changes that made this pass due; 0 = only time passed */
	unsigned touched; /* the kinds of rows that this pass wrote */
	bool found; /* a statement of this pass returned a row */
	bool changed; /* this pass is not through: another one follows soon */
	int steps;
	struct arena *arena; /* to allocate from now: the pass's, or that of a part of it */
	struct arena *pass_arena;
	struct recon_end *ends; /* in the pass's arena */
	struct files_queue *files; /* asked for in this pass (files.c) */
	TAILQ_ENTRY(recon) link;
};

/* The state of a kind that is in the engine's list. */
void *recon_state(const struct engine *e, const struct recon_kind *kind);
/* Calls run(r, ctx) when the pass ends. */
void recon_at_end(struct recon *r, void (*run)(struct recon *r, void *ctx), void *ctx);
/* Keeps the pass from ending while it waits for something else than a step. */
void recon_hold(struct recon *r);
void recon_release(struct recon *r);

/* One statement of a pass. */
struct step {
	struct pg_req req;
	struct recon *r;
	void (*then)(struct step *s); /* after success; may be NULL */
	void *ctx;
	bool always; /* then() runs after a failure too, with no rows */
	TAILQ_ENTRY(step) link;
};
struct step *step_new(struct recon *r, void (*then)(struct step *), void *ctx);
size_t step_rows(const struct step *s); /* 0 after a failure */
void step_done(struct op *op); /* the done of every step's statement */
#define STEP(s, stmt, params) q_##stmt((s)->r->e->pg, &(s)->req, (params), step_done)
/* A part of a pass whose memory ends with it, so that a pass may have many: until part_end r->arena
 * is the part's. Statements keep their parameters. A step's ctx, and all that the pass still needs
 * afterwards, belongs into the arena of the pass. */
void part_begin(struct recon *r);
void part_end(struct recon *r);

/* ---- acts: a provider call, and the one statement that records it (act.c) ------------------- */

struct act {
	struct engine *e;
	struct call call;
	struct pg_req req;
	struct arena *arena;
	bool calling, writing;
	unsigned touched; /* TOUCH_*: by what it wrote */
	struct http_req http; /* for presigned requests, which pass the providers by */
	struct spot_http_request http_out;
	bool sending;
	void (*called)(struct act *a); /* the call is over: writes (ACT_WRITE) or act_end */
	/* may be NULL; a->req.op.rc says whether the statement worked; act_end follows */
	void (*wrote)(struct act *a);
	int64_t id; /* of the row it is for, 0 = none */
	int64_t epoch; /* of our lease when it began: its result counts only under that one */
	void *ctx; /* in arena, or owned elsewhere */
	TAILQ_ENTRY(act) link;
};
struct act *act_new(struct engine *e, int64_t id, void (*called)(struct act *));
void act_call(struct act *a, struct call_provider *p, enum call_verb verb, void *args,
    int64_t timeout_us, bool urgent);
void act_wrote(struct op *op);
/* Sends a->http_out; a->called runs when it is over (a->http.op.rc, a->http.in). */
void act_http(struct act *a, bool mutating);
/* Forgets whatever is under way; nothing of it runs afterwards. */
void act_drop(struct act *a);
void act_end(struct act *a);
#define ACT_WRITE(a, stmt, params) \
	((a)->writing = true, q_##stmt((a)->e->pg, &(a)->req, (params), act_wrote))

/* ---- the engine's shared state (kernel.c) ---------------------------------------------------- */

/* One snapshot of the market, shared by the passes that need it (offers.c). */
struct offers_held;
struct offers {
	struct market *market;
	struct offers_held *held;
	const struct offer *list;
	size_t n;
	int64_t
	    version; /* another number whenever the list, a quota or a hazard may have changed */
	int64_t read_us; /* mono; 0 = never */
	int64_t taken_us; /* wall: when the snapshot was last found to stand */
	int64_t stale_us; /* mono: a read sent before this is not good enough */
	/* statements under way that write nodes or refusals: no read is good enough */
	int wanting;
	const struct hazard_model *hazards; /* of the list */
	/* pools that cool down for gangs, and places where a gang is being acquired */
	struct gang_rest *rests;
	const char **busy;
	size_t rests_n, busy_n, busy_cap;
	uint64_t gangs_hash; /* of the rows that they came from */
	int64_t returns_judged; /* running jobs, by move_back.c */
};

struct lease;
struct engine {
	struct loop *loop;
	struct pg *pg;
	struct call_provider *const *providers;
	size_t providers_n;
	const char *const *identity_off; /* providers whose nodes need not prove what they are */
	size_t identity_off_n;
	const struct engine_unopened *unopened;
	size_t unopened_n;
	struct http_client *http; /* NULL: nothing is deleted from the object store */
	struct engine_conf conf;
	char install[9];
	uint8_t enrol_key[64];
	size_t enrol_key_n;
	char holder[96];

	int64_t epoch; /* of our lease, 0 = another daemon leads */
	char me[32]; /* claimed_by: "e<epoch>" */
	int64_t led_since_us; /* wall */
	struct lease *lease;
	bool closing;
	bool refused; /* the code that runs now runs because a statement failed */

	struct loop_hook hook;
	struct loop_timer timer;
	int64_t timer_due; /* mono */
	struct pg_listen listen;
	TAILQ_HEAD(, recon) recons;
	TAILQ_HEAD(, step) steps;
	TAILQ_HEAD(, act) acts;
	struct offers offers;
};

/* Starts an engine with these reconcilers; each pass runs them in this order. */
struct engine *kernel_start(const struct engine_deps *d, const struct recon_kind *const *kinds,
    size_t kinds_n);

/* ---- time and providers (wake.c, providers.c) ------------------------------------------------ */

int64_t engine_now(const struct engine *e); /* wall */
int32_t engine_day(const struct engine *e);
/* A turn of the loop no later than that: for the lease. */
void engine_later(struct engine *e, int64_t after_us);
/* The reconciler's next pass begins no later than that. */
void recon_later(struct recon *r, int64_t after_us);
/* Begins a pass that may come at most once in pause_us. Returns false before the time of next_us
 * (mono), and has the pass begin then; else sets it. */
bool recon_paced(struct recon *r, int64_t *next_us, int64_t pause_us);
void recon_later_of(const struct engine *e, const struct recon_kind *kind, int64_t after_us);
/* Rows of these kinds changed. */
void engine_touch(struct engine *e, unsigned touched);
/* The names of those providers (NULL: of all that are configured), in the pass's arena. Rows of a
 * provider that cannot be called stay due for ever. A statement that reads only these providers'
 * rows does not fill its limit with them. */
size_t engine_provider_names(struct recon *r,
    bool (*of)(const struct engine *e, struct call_provider *p), const char ***ret);

/* ---- the lease and the wall clock (lease.c, clock.c) ----------------------------------------- */

bool lease_held(const struct engine *e);
#define CLOCK_STEP_US (2 * SPOT_US_PER_S) /* a smaller step is the work of time synchronisation */
/* A wall-clock span that proves something, made longer by a clock step within it. */
int64_t clock_span_us(const struct engine *e, int64_t span_us);
/* By the rows something ran for ran_us, and may run for most_us (0 = without limit). Returns true
 * when that is over for sure. */
bool clock_ran_out(const struct engine *e, int64_t ran_us, int64_t most_us);
/* True until a provider's clock confirms our wall clock (core/life/life.h): times written by it
 * may be hours off. */
bool clock_doubted(const struct engine *e);
int64_t clock_set_us(const struct engine *e); /* mono: the last clock step; 0 = none */

/* ---- state transitions (transition.c) -------------------------------------------------------- */

/* Each moves one node or job along the table of core/life/life.h. An event that the table refuses
 * is logged and nothing is sent. */
void node_event(struct recon *r, int64_t id, enum node_state state, enum node_event ev,
    const char *cause, const char *why);
void job_event(struct recon *r, int64_t id, enum job_state state, int32_t epoch, enum job_event ev,
    const char *reason, const char *why);
/* Ends a WANTED node that nobody needs. If unsure, the outcome of its launch is unknown, and its
 * row ends only after a look-up. The cause 'unwanted' keeps the launch from being repeated
 * (engine_lookup_due). */
void node_unwanted(struct recon *r, int64_t id, bool unsure, const char *why);
/* Writes down why the job waits, where no decision was made. */
void job_explain(struct recon *r, int64_t id, enum job_state state, int32_t epoch, const char *why);
/* The state after the event; NONE and a log line when the table refuses it. */
enum node_state node_next(int64_t id, enum node_state state, enum node_event ev);
enum job_state job_next(int64_t id, enum job_state state, enum job_event ev);
/* Fresh unique launch token and name. */
void token_make(struct engine *e, char token[65], char name[65]);
/* Makes n pairs of them, in r->arena. */
struct q_node_label *node_labels_make(struct recon *r, size_t n);

/* Bytes of job and fleet files that a pass reads at once. Each may have a MiB, and a pass holds
 * them in memory three times. */
#define SPEC_BYTES (8 << 20)

/* ---- the market read (offers.c) -------------------------------------------------------------- */

/* Calls then(r, ctx) once e->offers is young enough, within the pass of r. The offers stay as they
 * are until that pass ends. */
void offers_need(struct recon *r, void (*then)(struct recon *r, void *ctx), void *ctx);
void offers_invalidate(struct engine *e); /* the next need reads again: a pool just began to cool */
const struct offer *offer_find(const struct engine *e, int32_t pool_id);
/* Counts nodes just wanted of o against its quota before the market is read again. */
void offers_count(struct engine *e, const struct offer *o, int64_t nodes);
/* Around a statement that writes nodes or a cooldown, whatever becomes of it (step.always). */
void offers_write_begin(struct engine *e);
void offers_write_end(struct engine *e);
/* A gang just wanted of o is being acquired there. */
void offers_mark_busy(struct engine *e, const struct offer *o);

/* ---- the object store (objects.c) ------------------------------------------------------------ */

bool objects_configured(const struct engine *e);
/* True when URLs can be signed now; otherwise credentials are being renewed and a pass follows. */
bool objects_ready(struct engine *e);
/* Fills ret's url, headers to send along, upload. */
enum spot_rc objects_presign(struct engine *e, struct arena *a, const char *method, const char *key,
    struct spot_presign *ret, struct spot_err *err);
/* Signs any "s3://bucket/key" (gs://, az:// of such a store) by the store's provider. */
enum spot_rc objects_presign_uri(struct engine *e, struct arena *a, const char *uri,
    struct spot_presign *ret, struct spot_err *err);
/* SPOT_INVALID, SPOT_CONFIG: no provider here can ever sign it. SPOT_UNAVAILABLE: not while
 * the store's provider is missing. */
enum spot_rc objects_uri_check(const struct engine *e, struct arena *a, const char *uri,
    struct spot_err *err);
/* {"name": "value"} of its headers; NULL = there are none. */
char *presign_headers(struct arena *a, const struct spot_presign *p);
json_t *presign_headers_json(const struct spot_presign *p);
const char *presign_how(const struct spot_presign *p); /* "put", "resumable", "blocks" */
/* prefix/install/job/epoch/rank/sha256. Each rank writes to keys of its own: a bad upload of one
 * rank cannot replace an object that another rank has committed. */
char *objects_key(struct engine *e, struct arena *a, const struct q_engine_presign_due_row *w);
/* At most this many URLs are signed by one reconciler before the loop goes on: by RSA a tenth of a
 * second. */
#define SIGN_MOST 128

/* ---- the files of attempts (files.c) --------------------------------------------------------- */

/* The "files" of an attempt, for each rank of a gang: the mounts of the job's spec and the chunks
 * of a checkpoint, with URLs. Read within the pass, page by page. Requests that this pass has no
 * second left for are dropped, and the next pass follows at once. */
struct files {
	int64_t job_id;
	bool mounts; /* its spec has some */
	const int64_t *checkpoints; /* of each rank, 0 = none; in the pass's arena */
	size_t n;
	void (*then)(struct files *f); /* all is there, or rc is not SPOT_OK (logged) */
	void *ctx;
	/* for then(): */
	enum spot_rc rc;
	struct spot_err err;
	bool refused; /* a mount cannot be signed, whatever the store */
	const char **text; /* of each rank; gone after then() */
	int64_t until_us; /* when the first of the URLs ends */
	/* private to files.c */
	struct recon *r;
	struct files_work *work;
	struct files *next;
};
void files_ask(struct recon *r, const struct files *ask);
/* For a job whose machines are ready: ends it if its files can never be listed, else writes down
 * why it waits. */
void files_missing(const struct files *f, enum job_state state, int32_t epoch);

extern const struct recon_kind clock_kind, files_kind;

#endif
