/*
 * A world for tests of the engine. It has a real Postgres, a cloud in C whose instances outlive the
 * engine, and agents played by SQL as the API would write it. The engine can be killed at any turn
 * and started again. All pauses of the configuration are short, by a clock that stands still while
 * the test does not run.
 */
#ifndef ENGINE_WORLD_H
#define ENGINE_WORLD_H

#include "base/base.h"
#include "engine/engine.h"
#include "harness.h"
#include "steady.h"
#include "io/call/call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#pragma GCC poison clock_real /* two clocks in one world: world_us */

#define CLOUD_MAX 256
struct machine {
	char ref[32], token[72], install[16], region[32], zone[32], type[32];
	enum spot_market market;
	enum spot_instance_state state;
	enum spot_end_cause cause;
	int64_t created_us;
	int terminates;
	int64_t terminated_us; /* the first of them */
	bool leftover;
	int lacks; /* so many descriptions lack it, and tell an end of this cause */
	const char *reason; /* raw_reason, NULL = "" */
	size_t gang; /* so many were launched with its token; 0 = it alone */
};
struct cloud {
	struct machine list[CLOUD_MAX];
	size_t n;
	int launches, finds, lists, describes;
	bool tokens; /* launches are idempotent */
	int64_t reply_after_us; /* a launch takes effect at once and answers later */
	int lose_replies; /* so many launches take effect and answer UNKNOWN */
	/* after a lost reply the launched machine is over at once; of a gang the first */
	bool dies_unheard;
	/* a gang's repeat tells the machines as they are; else that the token is spent where one
	 * is over */
	bool tells_ended;
	int lose_launches; /* so many launches have no effect and answer UNKNOWN */
	int throttle; /* so many launches are THROTTLED */
	/* URL that each launch goes to first; one that is answered 500 takes effect, and is sent
	 * again */
	const char *wire;
	int denies; /* so many are refused, once no reply is to be lost any more */
	enum spot_rc denies_rc; /* like this; 0 = DENIED */
	char sold_out[8][64]; /* "zone/type/market" */
	enum spot_rc sold_out_rc;
	enum spot_scope sold_out_scope;
	int64_t list_after_us; /* a list is answered so much later than it was made */
	int describe_faults; /* so many descriptions answer DENIED */
	int64_t describe_after_us; /* a description is answered so much later than it was made */
	bool partial; /* lists say that they are not complete */
	bool hide; /* nothing shows up in find, list, describe */
	bool untold; /* a description is cut short: missing machines may exist */
	char notice_ref[32]; /* ->notices says interruption */
	int64_t notice_at_us[2]; /* until when; with a second there are two notices of it */
	int64_t boots_us; /* boot_timeout_us of the provider */
	int64_t reclaim_free_us; /* the same name */
	int blind_terminates; /* so many terminates do not find their machine, which lives on */
	bool blind_by_list; /* and say so since a list lacked it */
	/* a terminated instance goes on stopping until the test says it is gone */
	int64_t block_ends_us; /* told of all reserved machines; 0 = never */
	bool ends_slowly;
	/* identity: a proof {"kind":"fake","ref":REF,"audience":...,"nonce":...} is good for REF */
	bool verifies;
	int verify_calls, verify_faults; /* so many answer UNAVAILABLE */
	enum spot_rc verify_rc; /* this instead of a look, 0 = look */
	bool leaves; /* SPOT_CAP_LEAVES */
	bool exact; /* descriptions are, and lack what is gone */
	/* its event stream: one batch, handed over once */
	bool watches;
	int watch_calls, watch_faults;
	int64_t watch_delay_us; /* before an empty answer */
	char watch_notice[32], watch_gone[32]; /* refs, "" = none */
	bool watch_gap;
	char watch_cursor[32]; /* the last one it was given */
	/* launched machines are PENDING and then FAILED with these words; NULL = not */
	const char *late_reason;
	char uploads_how; /* 'r' resumable, 'b' blocks, else put; with a header */
	bool uploads_header;
	int64_t urls_until_us; /* the signing credentials end then; 0 = never */
	/* so many URLs; in this turn of the loop; in one at most */
	int signed_n, signed_now, signed_most;
	int64_t signed_at_us;
	size_t sign_leaves; /* so many bytes are left behind by each */
	enum spot_rc sign_rc; /* SPOT_OK, or the error of each signing */
	const char *sign_refuses; /* a bucket that is no name, NULL = none */
	bool gangs; /* several machines by one launch, all or none */
	int gang_launches;
	bool sets_limited; /* calls for sets have a bucket with one token */
	int sets; /* launches of up to so many machines, as many as there is room for; 0 = none */
	struct {
		char key[64]; /* "zone/type/market" */
		size_t n; /* so many machines live there at most */
	} room[4];
};

struct world {
	struct testdb *db;
	const char *dsn;
	void *conn; /* PGconn of the test's own statements */
	struct cloud cloud;
	struct rng rng;
	struct loop *loop;
	struct pg *pg;
	int connections; /* of the engine; 0 = 4 */
	struct http_client *http;
	struct call_provider *provider;
	struct engine *engine;
	struct engine_conf conf;
	bool agents; /* agents enrol and work */
	bool agents_save; /* they save when told to drain */
	int64_t agent_next_us;
	int kills;
	const char *identity_off; /* name of a provider, NULL = none */
};

/* The wall clock of engine, cloud and agents: tests write and measure times by it. */
int64_t world_us(void);
int world_setup(void **state); /* one server for all tests of a binary */
int world_teardown(void **state);
/* A fresh database and cloud; the engine is not started. */
void world_reset(struct world *w, bool tokens);
/* The lease of one that was killed would run out by itself; here it has. */
void world_start(struct world *w);
void world_kill(struct world *w);
/* Turns until the engine knows that another leads. */
void world_deposed(struct world *w);
/* Turns until the query's first column is not 0. Fails the test after limit_ms. */
void world_until(struct world *w, int64_t limit_ms, const char *sql);
/* Long enough for anything that the engine does in a test, on a busy machine. */
#define LIMIT 60000
/* The same for a job in this state, a job that runs in this epoch, a node in this state. */
void world_until_job(struct world *w, const char *state);
void world_until_epoch(struct world *w, int epoch);
void world_until_node(struct world *w, const char *state);
/* Prints the events, jobs, nodes, ledger and times: what a failed wait needs. */
void world_print(struct world *w);
/* Starts the engine; a job runs (extra as in world_job). Returns the job. */
int64_t world_run_job(struct world *w, const char *extra);
/* One spot pool, and a job that runs there. Returns the job. */
int64_t world_running(struct world *w);
/* A job of three nodes that runs. */
void world_running_gang(struct world *w);
/* Both counters of wrong verdicts, as /metrics has them: these for the kind, 0 for all others. */
void world_check_counters(struct world *w, int64_t alive, int64_t missed, const char *kind);
/* Waits until no machine is left, neither in the rows nor at the cloud. */
void world_empty(struct world *w);
/* The same, and every attempt is settled. */
void world_check_end(struct world *w);
/* The job's attempt, once it has one, leaves with 0: its work ends well, all jobs are SUCCEEDED,
 * and world_check_end. */
void world_finish(struct world *w, int64_t job);
/* Once all jobs run, all attempts leave with 0; all jobs are SUCCEEDED and no machine is left. */
void world_succeed(struct world *w);
/* All that runs ends well. */
void world_exit_all(struct world *w);
/* Nothing is left of gangs: no machine, no row, no rank that nobody settled; and every epoch had
 * all ranks. */
void world_check_gangs(struct world *w);
void world_for(struct world *w, int64_t ms);
/* Lets so much time pass, in which the engine wakes only by itself. */
void world_idle(struct world *w, int64_t us);
int64_t world_int(struct world *w, const char *sql);
/* A line of /metrics that is made of rows; -1e18: there is none. */
double world_metric(struct world *w, const char *name, const char *label);
const char *world_text(struct world *w, const char *sql);
void world_sql(struct world *w, const char *fmt, ...) PRINTF(2, 3);
/* Returns the pool's id. */
int world_pool(struct world *w, const char *zone, const char *type, const char *market,
    int64_t price_micros);
/* Queues a job that wants one A100; extra is merged into its spec. Returns its id. */
int64_t world_job(struct world *w, const char *extra);
/* The quota of spot machines of the pools of world_pool. */
void world_quota(struct world *w, int vcpus);
/* Queues a gang, or a job, of that instance type and so much declared work. Returns its id. */
int64_t world_gang_of(struct world *w, int priority, const char *type, int nodes, int work_s);
int64_t world_job_of(struct world *w, int priority, const char *type, int work_s);
/* The job's attempts leave with 0. */
void world_job_exits(struct world *w, int job);
/* The users cancel all jobs. */
void world_cancel(struct world *w);
/* A user wants a fleet "f" of so many nodes with one A100 each. */
void world_fleet(struct world *w, int nodes);
/* A user asks for a rebalancing; world_rebalance also waits until it is done. */
void world_ask_rebalance(struct world *w, bool dry);
void world_rebalance(struct world *w, bool dry);
void cloud_sell_out(struct cloud *c, const char *zone_type_market);
void cloud_sell_again(struct cloud *c);
/* So many machines live there at most. */
void cloud_room(struct cloud *c, const char *zone_type_market, size_t n);
/* The provider reclaims the machine of that index. */
void cloud_reclaim(struct cloud *c, size_t i);
size_t cloud_live(const struct cloud *c);
/* Tokens with more than one machine. */
size_t cloud_doubled(const struct cloud *c);
struct machine *cloud_by_ref(struct cloud *c, const char *ref);
/* Adds a thing with our tag that nobody launched: an instance, or an instance's remains. */
struct machine *cloud_add(struct cloud *c, const char *ref, const char *token, bool leftover);

/* Runs a binary's array of tests; an argument runs only those whose names contain it. */
#define WORLD_TESTS(argc, argv, tests) \
	(cmocka_set_test_filter((argc) > 1 ? (argv)[1] : NULL), \
	    cmocka_run_group_tests(tests, world_setup, world_teardown))

#endif
