/* Private to src/engine: the engine's insides and the two frames everything runs in. */
#ifndef ENGINE_ENGINE_INT_H
#define ENGINE_ENGINE_INT_H

#include <sys/queue.h>

#include "base/arena.h"
#include "base/text/json.h"
#include "core/life/fsm.h"
#include "core/place/gang.h"
#include "core/hazard/hazard.h"
#include "engine/engine.h"
#include "store/q.h"

/* ---- a reconciler and its steps (recon.c) ---------------------------------------------------- */

/* One turn of a reconciler: run() issues statements as steps; the turn ends when no step is under
 * way, and its arena with it. Never two turns of one reconciler at a time. */
struct recon {
	struct engine *e;
	const char *name;
	void (*run)(struct recon *r);
	int64_t every_us; /* run at least this often */
	int64_t due_us; /* mono */
	int64_t epoch; /* what the turn writes is fenced with: our lease when it began */
	bool dirty, running;
	bool changed; /* this turn wrote something: another pass soon */
	int steps;
	struct arena *arena; /* what is allocated now: the turn's, or that of a part of it */
	struct arena *turn;
	struct market_hold *markets; /* in the arena */
	struct files *files; /* asked for, in the arena; the first is in hand */
	int64_t files_from_us; /* mono: when the first of them was */
	TAILQ_ENTRY(recon) link;
};

struct step {
	struct pg_req req;
	struct recon *r;
	void (*then)(struct step *s); /* after success; may be NULL */
	void *ctx;
	bool always; /* then() runs after a failure too, with no rows */
	TAILQ_ENTRY(step) link;
};
struct step *step_new(struct recon *r, void (*then)(struct step *), void *ctx);
size_t step_rows(const struct step *s);
void step_done(struct op *op); /* the done of every step's statement */
#define STEP(s, stmt, params) q_##stmt((s)->r->e->pg, &(s)->req, (params), step_done)
/* A part of a turn whose memory ends with it, so that a turn may have many: until part_end r->arena
 * is its own. Statements keep their parameters; what a step's ctx is, or the turn goes on with, is
 * r->turn's. */
void part_begin(struct recon *r);
void part_end(struct recon *r);

/* ---- a provider call with its one statement afterwards (act.c) ------------------------------- */

struct act {
	struct engine *e;
	struct call call;
	struct pg_req req;
	struct arena *arena;
	bool calling, writing;
	struct http_req http; /* for what goes past the providers: presigned requests */
	struct spot_http_request http_out;
	bool sending;
	void (*called)(struct act *a); /* the call is over: writes (ACT_WRITE) or act_end */
	/* may be NULL; a->req.op.rc says whether it worked; act_end follows */
	void (*wrote)(struct act *a);
	int64_t id; /* row it is for, 0 = none */
	/* our lease when it began: what it learned counts only under that one */
	int64_t epoch;
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

/* ---- the engine ------------------------------------------------------------------------------ */

/* Memory of one read of the market; turns that were given it hold it until they end, whoever reads
 * it again meanwhile. */
struct market {
	struct arena *arena;
	int holds;
};
struct market_hold {
	struct market *market;
	struct market_hold *next;
};
struct offers { /* one read of the market, shared by the turns that need it */
	struct market *market;
	struct offer *list;
	size_t n;
	int64_t read_us; /* mono; 0 = never */
	int64_t stale_us; /* mono: a read sent before this is not good enough */
	/* statements under way that write nodes or refusals down: no read is good enough */
	int wanting;
	struct hazard_model *hazards; /* of the list, in the arena */
	/* pools that rest for gangs, and places where one is being acquired */
	struct gang_rest *rests;
	const char **busy;
	size_t rests_n, busy_n, busy_cap;
};

/* One statement of lease.c that is under way. */
struct lease_ask {
	struct pg_req req;
	struct engine *e;
	bool busy;
	int64_t sent_us, until_us; /* mono; what the row is to say */
};

struct fleet_seen;
struct release_told;
struct sched;
struct watch;
struct exam;
struct tight_group;
struct minting { /* a checkpoint whose upload URLs are being signed, in parts */
	int64_t checkpoint_id, since_us; /* mono */
};
/* a waiting job is not asked about in every pass; only pacing, see deadline.c */
struct deadline_pace {
	int64_t job_id, until_us; /* mono */
	int32_t epoch;
	char state[16];
};
struct engine {
	struct loop *loop;
	struct pg *pg;
	struct call_provider *const *providers;
	size_t providers_n;
	const char *const *identity_off; /* providers whose nodes need not prove what they are */
	size_t identity_off_n;
	/* NULL = there is none: nothing is deleted from the object store */
	struct http_client *http;
	struct engine_conf conf;
	char install[9];
	uint8_t enrol_key[64];
	size_t enrol_key_n;
	char holder[96];
	char me[32]; /* claimed_by: "e<epoch>" */

	int64_t epoch; /* of our lease, 0 = we do not lead */
	int64_t lease_until; /* mono */
	int64_t led_since_us; /* wall */
	int64_t led_epoch; /* of the newest lease of ours that was lost; 0: none */
	int64_t known_epoch; /* the highest that we led or watched: none up to it is given again */
	/* wall less mono, when it was looked at (mono; 0: not yet) */
	int64_t clock_offset_us, clock_seen_us;
	/* so far ahead our clock was set, when last (mono) */
	int64_t leapt_us, leapt_at_us;
	/* our clock was set, ahead or back; download URLs were signed anew for that (mono; 0:
	 * never) */
	int64_t set_at_us, resigned_at_us;
	/* our clock is doubted since (mono; 0: it is not), and under which lease */
	int64_t doubt_us, doubt_epoch;
	/* before it leapt again, since (mono); the newest event then (-1: not known) */
	int64_t doubt_first_us, doubt_mark;
	/* rows have no times to come: under this lease, when (mono) */
	int64_t settled_epoch, settled_at_us;
	bool closing;
	/* a look is the first; a renewal is either, with another one beside it that is not
	 * answered */
	struct lease_ask lease_asks[2];
	/* what until_us of our row may be: what was confirmed last, and what was sent since */
	int64_t lease_said[16];
	size_t lease_said_n;
	int64_t lease_sent, lease_again; /* mono; 0: ask at once */
	bool refused; /* what runs now runs since a statement failed */
	int64_t seen_epoch, seen_until_us; /* another's lease, as we saw it last */
	/* how far behind ours holders' clocks were, when last (mono); for clock_taken_over */
	int64_t behind_us, behind_at_us;
	int64_t seen_us; /* mono: since when it has stood like that */
	void (*released)(void *ctx);
	void *released_ctx;

	struct loop_hook hook;
	struct loop_timer timer;
	int64_t timer_due; /* mono */
	struct pg_listen listen;
	struct loop_task wake_task;
	TAILQ_HEAD(, recon) recons;
	TAILQ_HEAD(, step) steps;
	TAILQ_HEAD(, act) acts;
	struct offers offers;
	struct watch *watch;
	/* job where placing goes on after its budget was used up, 0 = from the top */
	int64_t sched_next;
	/* the job that the last slice of the queue ended with, and its place; only pacing */
	int64_t sched_after, sched_after_n;
	bool auth_busy; /* a call only meant to renew the store's credentials is out */
	int disposing; /* deletions of objects under way */
	int64_t dispose_next_us; /* mono: none before this */
	struct exam *exam; /* under way (doctor.c); NULL = none */
	const struct engine_unopened *unopened;
	size_t unopened_n;
	/* when supply_state was last worked out, by the clock that never leaps; 0 = never */
	int64_t tightened_us;
	struct arena *tight_arena; /* the tight groups as last read from their rows (tighten.c) */
	struct tight_group *tight;
	size_t tight_n;
	/* begun under minting_epoch; only so that what others signed, or was signed long ago, is
	 * signed again */
	struct minting minting[128];
	size_t minting_n;
	int64_t minting_epoch;
	struct deadline_pace paces[512];
	int asks; /* deadline questions in this turn */
	/* jobs that room was held for when placing last went through; only pacing */
	int64_t held[8];
	size_t held_n;
	size_t queued_n; /* places in the queue when they were last written */
	int64_t spent_us; /* mono: when the teams' dollars were last brought up */
	/* fleets whose last plan called for nothing (fleet.c); only pacing */
	struct fleet_seen *fleets_seen;
	size_t fleets_seen_n, fleets_seen_cap;
	int64_t fleet_after; /* fleet behind which the next turn goes on; 0 = from the first */
	/* by enum budget_whose: when they are looked at next, mono (budget.c) */
	int64_t budget_looks[3];
	/* nodes whose agents were told to stop (release.c); under told_epoch */
	struct release_told *told;
	size_t told_n;
	int64_t told_epoch;
	int64_t return_after; /* job where the next turn of the return goes on; 0 = from the top */
};

int64_t engine_now(const struct engine *e); /* wall */
int32_t engine_day(const struct engine *e);
/* The names of those providers (NULL: of all that are configured), in the turn's arena. What is
 * read of them only does not fill its limit with rows of a provider that cannot be asked, which are
 * due for ever. */
size_t engine_provider_names(struct recon *r,
    bool (*of)(const struct engine *e, struct call_provider *p), const char ***ret);
/* Registers a reconciler; lives as long as the engine. */
struct recon *recon_add(struct engine *e, const char *name, int64_t every_us,
    void (*run)(struct recon *));
void engine_later(struct engine *e, int64_t after_us); /* a pass no later than that */
/* lease.c */
void lease_turn(struct engine *e);
void lease_drop(struct engine *e); /* what is asked is not waited for any more */
bool lease_held(const struct engine *e);

/* One node or job transition through the table; refused edges are logged and nothing is sent. */
void node_event(struct recon *r, int64_t id, const char *state, enum node_event ev,
    const char *cause, const char *why);
/* A WANTED node that nobody needs. unsure: it waits for the repeat of a launch whose outcome is not
 * known, so that it is looked up before its row ends; end_cause 'unwanted' keeps that from being
 * repeated (engine_lookup_due). */
void node_unwanted(struct recon *r, int64_t id, bool unsure, const char *why);
void job_event(struct recon *r, int64_t id, const char *state, int32_t epoch, enum job_event ev,
    const char *reason, const char *why);
/* Why it waits, where nothing was decided. */
void job_words(struct recon *r, int64_t id, const char *state, int32_t epoch, const char *why);
/* "" and a log line when the table refuses. */
const char *node_next(int64_t id, const char *state, enum node_event ev);
const char *job_next(int64_t id, const char *state, enum job_event ev);

/* How last_error begins when a launch token is bound to other parameters, or to an instance that is
 * over: a repeat can never succeed, the look-up tells what there was. */
#define LAUNCH_SPENT "its token is spent: "
/* The same of one whose outcome was not known, and whose repeat was refused before its token was
 * looked at. */
#define LAUNCH_UNHEARD "its repeat was refused: "
/* Fresh unique launch token and name. */
void token_make(struct engine *e, char token[65], char name[65]);

/* market read (offers.c): then(r, ctx) runs once e->offers is young enough, within a turn of r. */
void offers_stale(struct engine *e); /* the next need reads again: a pool was just cooled */
/* Nodes just wanted of o count against its quota before the market is read again. */
void offers_took(struct engine *e, const struct offer *o, int64_t nodes);
/* Around a statement that writes nodes down, whatever becomes of it (step.always). */
void offers_wanting(struct engine *e);
void offers_wanted(struct engine *e);
/* A gang just wanted of o is being acquired there. */
void offers_busy(struct engine *e, const struct offer *o);
const struct offer *offer_of(const struct engine *e, int32_t pool_id);
void offers_need(struct recon *r, void (*then)(struct recon *r, void *ctx), void *ctx);
void offers_let_go(struct recon *r); /* at the end of a turn */
void offers_drop(struct engine *e);
json_t *score_json(const struct score *s);
json_t *offer_json(const struct offer *o);
json_t *scores_json(const struct score *s, size_t n, size_t most);

/* Specs read at once, of jobs and fleets, which may have a MiB each: a turn has them in its memory
 * three times. */
#define SPEC_BYTES (8 << 20)

/* What rank and supply need to know about one job (place.c). */
struct job_facts {
	int64_t id;
	int32_t epoch;
	const char *state, *name, *spec_json;
	int64_t deadline_us, created_us, queued_us, steps_done, steps_total, checkpoint_bytes,
	    save_us;
	bool has_checkpoint;
	int64_t not_before_us; /* 0 = nobody thought about deferral yet */
	/* its own step rates, as gpu_rates_parse() reads them; NULL = none */
	const char *rates;
	int64_t restart_us; /* measured; 0 = unknown */
	int32_t nodes; /* more than 1: a gang; 0 = 1 */
	bool has_budget;
	/* when its machines are given back now; below 0: it must stop (core/money/budget.h) */
	int64_t budget_micros, budget_left;
};
struct placing {
	struct job_spec *spec;
	struct rank_job job;
	struct ranking ranking;
	/* of the ranking: the usable ones; of a gang what the whole would be */
	struct score *scores;
	/* of a gang: each score of the ranking, those that cannot give so many behind the usable
	 * ones */
	struct gang_score *gang;
	size_t gang_n;
	size_t usable;
	const struct score *spot, *on_demand; /* best usable of each market, NULL = none */
	const struct score *reserved; /* the same: capacity that is paid for already */
	size_t spot_n, on_demand_n, spot_cooling;
	size_t dear; /* taken out since its budget does not pay for a start there */
	bool late; /* the deadline has passed, and the job is to be done as soon as may be */
	/* what the deadline policy saw and said; stored with the decision. NULL = not asked */
	json_t *plan;
	json_t *move; /* of a planned move: what staying was expected to cost. NULL = none */
};
/* false: the stored spec does not read (logged). A deadline that has passed is taken out of the
 * facts of a job that has said so (late: cheapest). */
bool place_rank(struct recon *r, struct job_facts *f, struct placing *ret);
/* How long the job waits for spot before on-demand is taken: its file's, its class's, or the
 * daemon's. */
int64_t place_patience_us(const struct engine *e, const struct job_spec *s);
/* Counts the usable scores anew, after some were taken out. */
void placing_count(struct recon *r, const struct job_facts *f, struct placing *p);
json_t *place_inputs(struct recon *r, const struct job_facts *f, const struct placing *p);
/* What a start takes: of a gang its machines may be held for so long before all are there, or
 * none. */
int64_t place_changeover_us(const struct engine *e, const struct job_facts *f);
/* One score as that of the whole job. */
struct score place_whole(const struct job_facts *f, const struct score *one);
/* Wants a node of pool for the job, or a gang; kind: place, failover, return, rebalance.
 * replaces_id: of a gang's rank 0. */
void place_want(struct recon *r, const struct job_facts *f, const struct placing *p,
    const struct score *s, int64_t replaces_id, const char *kind, const char *why);

/* budget.c: core/money/budget.h has the rules */
enum budget_whose { BUDGET_JOBS, BUDGET_GANGS, BUDGET_PARKED };
/* Is it time to look? Then not again for budget_look_us. */
bool budget_look(struct engine *e, enum budget_whose whose);
/* from the end of its save until a machine is over */
int64_t budget_end_us(const struct engine *e);
/* What must be left to begin on machines that cost this an hour, all of them together. */
int64_t budget_need_of(const struct recon *r, const struct job_facts *f,
    const struct job_spec *spec, int64_t price_micros);
/* Takes out the scores that the job's budget does not pay a start for (dear). */
void budget_filter(struct recon *r, const struct job_facts *f, struct placing *p);
/* A job for which no start is paid: it waits for what is cheaper and suits it, and is parked where
 * nothing does. */
void budget_short(struct recon *r, const struct job_facts *f, const struct placing *p);
/* A job that waits is parked, until its budget has so much left. */
void budget_park(struct recon *r, const struct job_facts *f, int64_t need_micros);
/* The same of one whose budget is used up, whatever machines it has. */
void budget_over(struct recon *r, const struct job_facts *f, const struct job_spec *spec);
const char *budget_why(struct arena *a, int64_t spent_micros, int64_t budget_micros);

/* object store (objects.c) */
bool objects_configured(const struct engine *e);
/* True when URLs can be signed now; otherwise credentials are being renewed and a pass follows. */
bool objects_ready(struct engine *e);
/* ret: url, headers to send along, upload. */
enum spot_rc objects_presign(struct engine *e, struct arena *a, const char *method, const char *key,
    struct spot_presign *ret, struct spot_err *err);
/* Any "s3://bucket/key" (gs://, az:// of such a store) by the store's provider. */
enum spot_rc objects_presign_uri(struct engine *e, struct arena *a, const char *uri,
    struct spot_presign *ret, struct spot_err *err);
/* Can nobody ever sign it here (SPOT_INVALID, SPOT_CONFIG)? SPOT_UNAVAILABLE: not while the store's
 * provider is not there. */
enum spot_rc objects_uri_check(const struct engine *e, struct arena *a, const char *uri,
    struct spot_err *err);
/* {"name": "value"} of its headers; NULL = there are none. */
char *presign_headers(struct arena *a, const struct spot_presign *p);
json_t *presign_headers_json(const struct spot_presign *p);
const char *presign_how(const struct spot_presign *p); /* "put", "resumable", "blocks" */
/* prefix/install/job/epoch/rank/sha256. Each rank writes to keys of its own: a bad upload of one,
 * which it repeats or does not live to repeat, must not take the place of what another one has
 * committed. */
char *objects_key(struct engine *e, struct arena *a, const struct q_engine_mint_due_row *w);
/* So many URLs are signed at most between two turns of the loop by one reconciler: by RSA a tenth
 * of a second. */
#define SIGN_MOST 128

/* files.c: the "files" of an attempt, of each rank of a gang: the mounts of the job's spec and the
 * chunks of a checkpoint, with URLs. Within the turn, page by page; what no second is left for in
 * this turn is dropped, and the next follows at once. */
struct files {
	int64_t job_id;
	bool mounts; /* its spec has some */
	const int64_t *checkpoints; /* of each rank, 0 = none; in the turn's arena */
	size_t n;
	void (*then)(struct files *f); /* all is there, or rc is not SPOT_OK (logged) */
	void *ctx;
	/* for then(): */
	enum spot_rc rc;
	struct spot_err err;
	bool refused; /* a mount is not to be signed, whatever the store */
	const char **text; /* of each rank; gone after then() */
	int64_t until_us; /* the first of the URLs ends */
	/* files.c's */
	struct recon *r;
	struct files_work *work;
	struct files *next;
};
void files_ask(struct recon *r, const struct files *ask);
/* The job that they are for, whose machines are ready, ends if that will never be otherwise; else
 * it says why it waits. */
void files_missing(const struct files *f, const char *state, int32_t epoch);
void files_let_go(struct recon *r); /* at the end of a turn */

/* userdata.c */
struct str userdata_make(struct engine *e, struct arena *a, int64_t node_id, const char *token,
    const char *provider_kind);

/* the reconcilers' turns */
void sched_run(struct recon *r);
void launcher_run(struct recon *r);
void lookup_run(struct recon *r);
void clock_run(struct recon *r);
/* clock.c: a span by the wall clock that proves something, as long as it is after a leap of our
 * clock within it. */
int64_t clock_span_us(const struct engine *e, int64_t span_us);
/* What ran for ran_us by the rows may run for most_us (0 = as long as it wants): is that over for
 * sure? */
bool clock_ran_out(const struct engine *e, int64_t ran_us, int64_t most_us);
/* Nobody has said yet that our wall clock is right (core/life/doubt.h): what is written by it may be
 * hours off. */
bool clock_doubted(const struct engine *e);
#define CLOCK_LEAP_US (2 * SPOT_US_PER_S) /* less is the work of a clock that is being steered */
/* The lease was taken: what its holder's clock was behind ours (e->behind_us) counts as a leap. */
void clock_taken_over(struct engine *e);
void watch_run(struct recon *r);
void verdict_run(struct recon *r);
void drain_run(struct recon *r);
void mint_run(struct recon *r);
void files_run(struct recon *r);
void return_run(struct recon *r);
void release_run(struct recon *r);
void reaper_run(struct recon *r);
void sweep_run(struct recon *r);
void biller_run(struct recon *r);
void fleet_run(struct recon *r);
void rebalance_run(struct recon *r);
void enrol_run(struct recon *r);
void stream_run(struct recon *r);
void dispose_run(struct recon *r);
void doctor_run(struct recon *r);
void gang_run(struct recon *r);
void gang_ranks_run(struct recon *r);

/* doctor.c: the examination under way is forgotten; its looks are dropped with the acts. */
void exam_drop(struct engine *e);

/* stream.c: the long polls end when we do not lead any more. */
void streams_stop(struct engine *e);

/* watch.c: an instance's state as rows have it ("gone_reclaimed", "failed_no_capacity"), and the
 * words of an end. */
const char *instance_state(const struct spot_instance *i);
const char *instance_reason(struct arena *a, const struct spot_instance *i);

#endif
