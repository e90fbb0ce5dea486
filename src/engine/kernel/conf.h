/* Every timing and limit of the engine. Filled from the configuration table of src/spotd/conf.c,
 * where each has its default, range and help. Times in microseconds. */
#ifndef ENGINE_CONF_H
#define ENGINE_CONF_H

#include "base/base.h"
#include "core/policy/defer.h"
#include "core/rank/rank.h"
#include "core/policy/rebalance.h"
#include "core/queue/queue.h"
#include "core/policy/supply.h"
#include "core/policy/tightness.h"

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

#endif
