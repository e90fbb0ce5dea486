/*
 * The engine: reconcilers over rows. Each is level-triggered and single-flight: one statement reads
 * the rows that need work, core decides on values, and one compare-and-set statement per entity
 * writes. It calls providers only for rows claimed before. A reply is only recorded; the next pass
 * acts on it. No state in memory is needed to know what we own or owe, so the process may be killed
 * at any instruction. One engine acts at a time: it holds the lease row `leader`, and every write
 * carries its epoch.
 *
 * Owned by src/spotd; the engine owns neither loop, pool nor provider instances.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "base/base.h"
#include "core/place/place.h"
#include "core/policy/policy.h"
#include "core/queue/queue.h"
#include "core/rank/rank.h"
#include "io/call/call.h"
#include "io/http/http.h"
#include "io/loop/loop.h"
#include "io/pg/pg.h"

/* Every timing and limit of the engine, in microseconds where it is a time. Filled from the
 * configuration table of src/spotd/conf.c, which has each default, range and help. */
struct engine_conf {
	int64_t tick_us; /* a full pass at least this often */
	int64_t lease_us; /* leadership lasts this long without renewal */
	int64_t offers_age_us; /* how old a read of the market may be when a job is placed */
	int64_t launch_timeout_us; /* whole launch call */
	int64_t call_timeout_us; /* every other provider call */
	int64_t launches_max; /* in flight per provider */
	/* first repeat of a launch that had no effect; doubled up to 16 times */
	int64_t launch_retry_us;
	int64_t lookup_again_us; /* between look-ups of a launch with unknown outcome */
	int64_t boot_timeout_us; /* from launch to enrolment */
	int64_t watch_us; /* providers are asked about our nodes */
	int64_t agent_silent_us; /* a silent agent makes us ask its provider now */
	int64_t agent_lost_us; /* silent this long on a running instance: broken */
	int64_t loss_bound_us; /* a loss found later than this is counted as missed */
	/* absence from a list proves nothing before this; 0 = as the provider says */
	int64_t list_lag_us;
	int64_t cool_min_us,
	    cool_max_us; /* cooldown of a refused pool, doubled per refusal in a row */
	int64_t reclaim_cool_us; /* cooldown of a pool that reclaimed a node */
	int64_t idle_keep_us; /* a node nobody needs is kept this long while jobs wait */
	int64_t terminate_retry_us; /* first repeat of a terminate; doubled up to a minute */
	int64_t terminate_alarm_us; /* not confirmed gone by then: raise an alarm */
	int64_t sweep_us; /* between lists of everything with our tag */
	/* "HOST[:PORT] ...": fleet files may ask these for a demand; "" = none */
	const char *demand_hosts;
	int64_t orphan_grace_us; /* between the alarm about an unknown instance and its end */
	bool orphan_end; /* false: only show it (a dry run of the sweeper) */
	int64_t bill_us; /* ledger lines of a running node */
	int64_t bill_lag_us; /* time is billed at this age: facts about it are written by then */
	/* After a start, a fail-over or a clock step, billing and time-outs wait until a provider's
	 * clock confirms ours, at most this long. 0: trust the clock. */
	int64_t clock_doubt_us;
	int64_t url_life_us; /* of presigned URLs */
	int64_t infeasible_us; /* a job that no pool suits for this long fails */
	int64_t notice_default_us; /* a notice without a deadline leaves this long */
	int64_t
	    drain_grace_us; /* a drained or overdue node is ended this long after its deadline */
	int64_t budget_look_us; /* between checks of jobs' budgets */
	struct supply_policy supply;
	struct tightness_policy tightness;
	struct defer_policy defer;
	struct rebalance_policy rebalance;
	int64_t rebalance_every_us; /* between rebalances of the daemon's own; 0 = never */
	int64_t fleet_rest_us; /* expected rest of the use of a fleet's node */
	int64_t deadline_tick_us; /* the deadline policy's unit of time */
	struct rank_policy rank;
	/* for nodes */
	const char *public_url; /* of the API, as a node reaches it */
	const char *ca_pem; /* certificate the agent must trust, NULL = system's */
	const char *agent_sha256; /* of the agent that the API hands out */
	/* the database lacks it: only this process hands it out, if it has an API */
	bool agent_not_kept;
	const char *nvml_sha256; /* of its GPU helper; "" = none is handed out */
	/* the same for arm64; NULL or "" = none */
	const char *agent_arm64_sha256, *nvml_arm64_sha256;
	/* object store of checkpoints */
	const char *store_bucket; /* NULL or "": none */
	const char *store_prefix; /* "" or "a/b" */
	const char *store_provider, *store_region, *store_endpoint;
	struct schedule_policy schedule;
	const struct schedule_team *shares; /* of the configuration file, each team once */
	size_t shares_n;
	int64_t gang_hold_us; /* machines of an incomplete gang are held this long */
};

struct engine;
/* Pools of the kept market that differed from the rows (store/market/market.h); must stay 0. */
int64_t engine_market_mended(const struct engine *e);
/* Running jobs that were judged for a return to spot. One that stays is judged again only when the
 * market changes. */
int64_t engine_returns_judged(const struct engine *e);
/* A provider that exists but could not be opened, and why, for spotctl doctor. */
struct engine_unopened {
	const char *name;
	char *why;
};
struct engine_deps {
	struct loop *loop;
	struct pg *pg;
	struct call_provider *const *providers; /* stays valid; may be replaced by engine_reload */
	size_t providers_n;
	const struct engine_conf *conf; /* copied; its strings stay valid */
	const char *install; /* 8 hex digits */
	struct str enrol_key; /* copied */
	const char *holder; /* names this process in the lease */
	const char *listen_dsn; /* unused unless the pool cannot LISTEN */
	/* Names of providers whose nodes enrol by their one-time token alone ([provider X] identity
	 * = off); stays valid. */
	const char *const *identity_off;
	size_t identity_off_n;
	struct http_client *http; /* for the object store; NULL = nothing is deleted there */
	const struct engine_unopened *unopened; /* stays valid */
	size_t unopened_n;
};
struct engine *engine_new(const struct engine_deps *d);
/* Stops everything and forgets calls under way: their rows are claimed, so the next engine asks. */
void engine_free(struct engine *e);
/* Gives the lease back, so that another daemon goes on at once. Calls done when the statement is
 * over or was not needed. */
void engine_release(struct engine *e, void (*done)(void *ctx), void *ctx);
void engine_reload(struct engine *e, const struct engine_conf *conf);
/* Something may have changed: pass soon. */
void engine_wake(struct engine *e);
bool engine_leads(const struct engine *e);
int64_t engine_epoch(const struct engine *e); /* of the lease that we hold, 0 = none */

/* For the poller beside the engine (src/engine/market/market.h). */
struct loop *engine_loop(const struct engine *e);
struct pg *engine_pg(const struct engine *e);
const struct engine_conf *engine_conf(const struct engine *e);
/* Returns the policy by which the engine places jobs under this configuration, for the plans of the
 * API. The store's strings are those of the configuration. */
struct place_policy engine_place_policy(const struct engine_conf *c);
size_t engine_providers(const struct engine *e);
struct call_provider *engine_provider_at(const struct engine *e, size_t i);
struct call_provider *engine_provider(const struct engine *e,
    const char *name); /* NULL if unknown */

/* Account-wide rate limits in Postgres, for call_provider_new. */
struct call_shared *engine_shared_new(struct loop *loop, struct pg *pg);
void engine_shared_free(struct call_shared *s);

#endif
