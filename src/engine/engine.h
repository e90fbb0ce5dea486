/*
 * The engine: reconcilers over rows. Each is level-triggered and single-flight: one statement reads
 * what is actionable, core decides on values, one compare-and-set statement per entity writes, and
 * providers are called only for rows claimed before. What a reply says is only recorded; the next
 * pass acts upon it. Nothing in memory is needed to know what we own or owe, so the process may be
 * killed at any instruction. One engine acts at a time: it holds the lease row `leader` and every
 * write carries its epoch.
 *
 * Owned by src/spotd; the engine owns neither loop, pool nor provider instances.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "base/base.h"
#include "core/policy/defer.h"
#include "core/policy/rebalance.h"
#include "core/policy/supply.h"
#include "core/policy/tightness.h"
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
	int64_t cool_min_us, cool_max_us; /* rest of a refused pool, doubled per refusal in a row */
	int64_t reclaim_cool_us; /* rest of a pool that took a node back */
	int64_t idle_keep_us; /* a node nobody needs is kept this long while jobs wait */
	int64_t terminate_retry_us; /* first repeat of a terminate; doubled up to a minute */
	int64_t terminate_alarm_us; /* not confirmed gone by then: an alarm */
	int64_t sweep_us; /* list of everything with our tag */
	int64_t orphan_grace_us; /* between the alarm about an unknown instance and its end */
	bool orphan_end; /* false: it is only shown (a dry run of the sweeper) */
	int64_t bill_us; /* ledger lines of a running node */
	int64_t
	    bill_lag_us; /* time is billed when it is so old: facts about it are written by then */
	/* how long nothing is billed at most, and no span is over, by a clock of which nobody
	 * says that it is right; 0: it is believed */
	int64_t clock_doubt_us;
	int64_t url_life_us; /* of presigned URLs */
	int64_t infeasible_us; /* no pool suits for this long: the job fails */
	int64_t notice_default_us; /* a notice without a deadline leaves this long */
	int64_t
	    drain_grace_us; /* a drained or overdue node is ended this long after its deadline */
	int64_t budget_look_us; /* how often budgets of jobs are looked at */
	struct supply_policy supply;
	struct tightness_policy tightness;
	struct defer_policy defer;
	struct rebalance_policy rebalance;
	int64_t rebalance_every_us; /* the daemon asks itself so often; 0 = never */
	int64_t deadline_tick_us; /* the deadline policy's unit of time */
	struct rank_policy rank;
	/* what nodes are told */
	const char *public_url; /* of the API, as a node reaches it */
	const char *ca_pem; /* certificate the agent must trust, NULL = system's */
	const char *agent_sha256; /* of the agent that the API hands out */
	/* the database has not got it: only this process hands it out, if it has an API */
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
	int64_t gang_hold_us; /* machines of a gang that is not whole are held this long */
};

struct engine;
/* A provider that there is, but which could not be opened, and why: spotctl doctor tells. */
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
/* Stops everything; calls under way are forgotten (their rows are claimed, so the next engine
 * asks). */
void engine_free(struct engine *e);
/* Gives the lease back so that another daemon goes on at once; done is called when the statement is
 * over or was not needed. */
void engine_release(struct engine *e, void (*done)(void *ctx), void *ctx);
void engine_reload(struct engine *e, const struct engine_conf *conf);
/* Something may have changed: pass soon. */
void engine_wake(struct engine *e);
bool engine_leads(const struct engine *e);
int64_t engine_epoch(const struct engine *e); /* of the lease that we hold, 0 = none */

/* For the pollers beside us (src/engine/market/poller.h). */
struct loop *engine_loop(const struct engine *e);
struct pg *engine_pg(const struct engine *e);
const struct engine_conf *engine_conf(const struct engine *e);
size_t engine_providers(const struct engine *e);
struct call_provider *engine_provider_at(const struct engine *e, size_t i);
struct call_provider *engine_provider(const struct engine *e,
    const char *name); /* NULL if unknown */

/* Account-wide rate limits in Postgres, for call_provider_new. */
struct call_shared *engine_shared_new(struct loop *loop, struct pg *pg);
void engine_shared_free(struct call_shared *s);

#endif
