/* Every key of the configuration file: section, key, default, range, help, type and place. */
#include "base/base.h"
#include "spotd/conf.h"

#define ENGINE(k, d, lo, hi, m, h) \
	{ \
		"engine", k, d, lo, hi, h, CONF_DURATION, CONF_RELOAD, CONF_AT(engine.m) \
	}
#define ENGINE_N(k, d, lo, hi, m, h) \
	{ \
		"engine", k, d, lo, hi, h, CONF_I64, CONF_RELOAD, CONF_AT(engine.m) \
	}
#define MARKET(k, d, lo, hi, m, h) \
	{ \
		"market", k, d, lo, hi, h, CONF_DURATION, CONF_RELOAD, CONF_AT(poller.m) \
	}
#define RANK(k, d, lo, hi, m, t, h) \
	{ \
		"rank", k, d, lo, hi, h, t, CONF_RELOAD, CONF_AT(engine.rank.m) \
	}

#define SCHEDULE(k, d, lo, hi, m, t, h) \
	{ \
		"schedule", k, d, lo, hi, h, t, CONF_RELOAD, CONF_AT(engine.schedule.m) \
	}

const struct conf_item spotd_conf_items[] = {
	{ "database", "dsn", "", NULL, "4096",
	    "Postgres, as a libpq connection string or URL. Empty: DATABASE_URL. Put passwords "
	    "into ~/.pgpass or PGPASSFILE.",
	    CONF_STR, 0, CONF_AT(dsn) },
	{ "database", "connections", "8", "2", "64",
	    "Connections of each role (API, engine) of this process.", CONF_I64, 0,
	    CONF_AT(db_connections) },
	{ "database", "statement_timeout", "30s", "1s", "10m",
	    "A statement is cancelled after this time.", CONF_DURATION, 0, CONF_AT(db_timeout_us) },
	{ "database", "migrate", "true", NULL, NULL,
	    "Bring the schema up to date at start; false: refuse an old schema.", CONF_BOOL, 0,
	    CONF_AT(migrate) },

	{ "api", "listen", "127.0.0.1:8642", NULL, "255",
	    "Address and port of the REST interface; port 0 picks one.", CONF_STR, 0,
	    CONF_AT(listen) },
	{ "api", "public_url", "", NULL, "1024",
	    "Address at which nodes reach the REST interface, such as https://broker.example.com. "
	    "Empty: http(s) and the listen address.",
	    CONF_STR, 0, CONF_AT(public_url) },
	{ "api", "public_ca", "", NULL, "4096",
	    "PEM file with the certificate authority that nodes trust for public_url. Empty: the "
	    "authorities of their system.",
	    CONF_PATH, CONF_RELOAD, CONF_AT(public_ca) },
	{ "api", "tls_cert", "", NULL, "4096", "PEM certificate chain; empty: plain HTTP.",
	    CONF_PATH, 0, CONF_AT(tls_cert) },
	{ "api", "tls_key", "", NULL, "4096", "PEM private key of tls_cert.", CONF_PATH, 0,
	    CONF_AT(tls_key) },
	{ "api", "orphan_timeout", "15m", "0s", "30d",
	    "After this time without contact to a daemon, an agent saves and stops its job and "
	    "shuts the machine down. So an abandoned machine costs nothing. At least 1m; 0s: "
	    "never. A change reaches running agents with their next poll.",
	    CONF_DURATION, CONF_RELOAD, CONF_AT(orphan_timeout_us) },
	{ "api", "connections", "0", "0", "1000000",
	    "Maximum number of open connections; 0: as many as the descriptor limit allows.",
	    CONF_I64, 0, CONF_AT(api_connections) },
	{ "api", "agent_dir", "", NULL, "4096",
	    "Folder with spot-agent and spot-nvml for nodes, and their -aarch64 variants for "
	    "arm64. Empty: the folder of this program.",
	    CONF_PATH, 0, CONF_AT(agent_dir) },

	{ "checkpoint", "store", "", NULL, "1024",
	    "Checkpoint store: s3://bucket/prefix, gs://bucket/prefix or az://container/prefix. "
	    "Empty: nothing is stored, and a moved job starts over. Both roles read it.",
	    CONF_STR, CONF_RELOAD, CONF_AT(store) },
	{ "checkpoint", "provider", "aws", NULL, "64",
	    "Name of the [provider] with the credentials that presign the store's URLs: kind aws "
	    "or coreweave for s3://, gcp for gs://, azure for az://.",
	    CONF_STR, CONF_RELOAD, CONF_AT(store_provider) },
	{ "checkpoint", "region", "us-east-1", NULL, "64", "Region of the bucket.", CONF_STR,
	    CONF_RELOAD, CONF_AT(store_region) },
	{ "checkpoint", "endpoint", "", NULL, "1024",
	    "Endpoint of another S3-compatible store. Empty: the vendor's.", CONF_STR, CONF_RELOAD,
	    CONF_AT(store_endpoint) },
	{ "checkpoint", "url_life", "1h", "1m", "12h",
	    "Lifetime of the presigned URLs that nodes use.", CONF_DURATION, CONF_RELOAD,
	    CONF_AT(engine.url_life_us) },

	ENGINE("tick", "1s", "50ms", "1m", tick_us, "Every reconciler runs at least this often."),
	ENGINE("lease", "1200ms", "500ms", "5m", lease_us,
	    "Lease of the leader. After a crash another daemon leads after this time. Use the "
	    "same value in all daemons of one database."),
	ENGINE("offers_age", "2s", "0s", "5m", offers_age_us,
	    "Maximum age of the offers that a placement uses."),
	ENGINE("launch_timeout", "2m", "1s", "10m", launch_timeout_us,
	    "Time limit of a launch call; after it the engine looks up the outcome."),
	ENGINE("call_timeout", "30s", "1s", "10m", call_timeout_us,
	    "Time limit of any other call to a provider."),
	ENGINE_N("launches", "16", "1", "1000", launches_max,
	    "Concurrent launch calls per provider."),
	ENGINE("launch_retry", "2s", "10ms", "1m", launch_retry_us,
	    "Delay before the first retry of a throttled launch; doubles up to 16 times this."),
	ENGINE("lookup_again", "5s", "10ms", "5m", lookup_again_us,
	    "Interval between look-ups of a launch with unknown outcome."),
	ENGINE("boot_timeout", "15m", "1s", "2h", boot_timeout_us,
	    "Time limit from the launch to the agent's enrolment."),
	ENGINE("watch", "10s", "100ms", "10m", watch_us,
	    "Interval at which providers are queried about the nodes."),
	ENGINE("agent_silent", "40s", "1s", "10m", agent_silent_us,
	    "An agent silent for this long makes the engine query its provider at once. Agents "
	    "poll at least every 25 s."),
	ENGINE("agent_lost", "1h", "5s", "1d", agent_lost_us,
	    "A node whose agent is silent for this long is broken and replaced, although its "
	    "provider reports it as running."),
	ENGINE("loss_bound", "5m", "1s", "1d", loss_bound_us,
	    "Target for detecting a lost machine (beyond agent_lost if silence is the only "
	    "evidence). Slower detections count in spot_missed_losses_total."),
	ENGINE("list_lag", "0s", "0s", "1h", list_lag_us,
	    "Absence from a provider's list proves nothing before this age of the machine. 0s: the "
	    "provider's own value (2m)."),
	ENGINE("cool_min", "1m", "100ms", "1h", cool_min_us,
	    "First cooldown of a pool that refused a launch; doubles each time."),
	ENGINE("cool_max", "15m", "100ms", "1d", cool_max_us,
	    "Longest cooldown of a pool that refused launches."),
	ENGINE("reclaim_cool", "10m", "0s", "1d", reclaim_cool_us,
	    "Cooldown of a pool that reclaimed a node."),
	ENGINE("idle_keep", "1m", "0s", "1d", idle_keep_us,
	    "A node without a job is kept for this long while jobs wait."),
	ENGINE("gang_hold", "10m", "100ms", "1d", gang_hold_us,
	    "The machines of a job of several nodes are held for this long while one is missing; "
	    "then all are released."),
	ENGINE("terminate_retry", "5s", "100ms", "10m", terminate_retry_us,
	    "Delay before the first retry of a terminate; doubles up to 1m."),
	ENGINE("terminate_alarm", "5m", "1s", "1d", terminate_alarm_us,
	    "A machine not gone by then raises an alarm in the log."),
	ENGINE("sweep", "1m", "100ms", "1h", sweep_us,
	    "Interval at which all tagged resources are listed."),
	ENGINE("orphan_grace", "2m", "0s", "1d", orphan_grace_us,
	    "Time from the alarm about an orphan to its termination."),
	{ "engine", "demand_hosts", "", NULL, "1000",
	    "Prometheus servers that fleet files may ask for a demand, as HOST or HOST:PORT "
	    "separated by blanks; empty: none.",
	    CONF_STR, 0, CONF_AT(engine.demand_hosts) },
	{ "engine", "orphan_end", "true", NULL, NULL,
	    "true: end orphans. false: only list them (spotctl leaks); an admin ends them.",
	    CONF_BOOL, CONF_RELOAD, CONF_AT(engine.orphan_end) },
	ENGINE("bill", "1m", "100ms", "1h", bill_us,
	    "Interval at which running nodes get ledger lines."),
	ENGINE("bill_lag", "2s", "0s", "5m", bill_lag_us,
	    "Time is billed at this age, when all its events are recorded."),
	ENGINE("clock_doubt", "15m", "0s", "1d", clock_doubt_us,
	    "After a start, a fail-over or a clock step, billing waits until a provider's clock "
	    "confirms ours, at most this long. Meanwhile no timeout ends a machine by a clock that "
	    "is ahead. 0s: trust the clock at once."),
	ENGINE("infeasible", "1h", "1s", "30d", infeasible_us,
	    "A job that suits no pool fails after this time."),
	ENGINE("notice_default", "2m", "1s", "1h", notice_default_us,
	    "Time left after an eviction notice without a deadline."),
	ENGINE("drain_grace", "30s", "0s", "1h", drain_grace_us,
	    "A drained node is terminated this long after its deadline."),
	ENGINE("budget_look", "10s", "1s", "10m", budget_look_us,
	    "Interval at which job budgets are checked; the cost of one interval is kept in "
	    "reserve."),
	ENGINE("patience", "10m", "0s", "7d", supply.patience_us,
	    "Time that a job without a deadline waits for spot before it falls back to on-demand, "
	    "unless its file or class says otherwise."),
	ENGINE_N("patience_share", "250", "0", "1000", supply.patience_max_share_pm,
	    "With a deadline: at most this share of the slack, per mille."),
	ENGINE("return_hold", "5m", "0s", "1d", supply.return_hold_us,
	    "A job returns to spot when the spot replacement has been ready for this long."),
	ENGINE("return_probe", "5m", "100ms", "1d", supply.return_probe_us,
	    "Interval between probes for spot while a job runs on-demand; doubles per refusal up "
	    "to 1h."),
	ENGINE_N("return_margin", "200", "0", "10000", supply.return_margin_pm,
	    "A move must save more than its cost by this margin, per mille."),
	{ "engine", "moves_per_hour", "4", "0", "1000",
	    "Maximum planned moves of one job per hour.", CONF_I64, CONF_RELOAD,
	    CONF_AT(moves_per_hour) },
	ENGINE("changeover", "4m", "0s", "1d", supply.changeover_us,
	    "Duration of a restart with restore, as the planner assumes it."),
	ENGINE_N("tight_patience", "250", "0", "1000", supply.tight_patience_pm,
	    "Share of the patience for spot that remains while its supply is tight, per mille."),
	ENGINE("supply_window", "1h", "1s", "1d", tightness.window_us,
	    "Window of launches, refusals and reclaims that decide how tight supply is."),
	ENGINE("supply_hold", "15m", "0s", "1d", tightness.hold_us,
	    "Supply counts as easy again after it was easy for this long."),
	ENGINE_N("defer_saving", "50", "0", "1000", defer.min_saving_pm,
	    "A job with slack before its deadline waits for cheaper hours if they save this much, "
	    "per mille."),
	ENGINE("defer_longest", "1d", "0s", "7d", defer.longest_us, "Longest deferral of a job."),
	ENGINE("rebalance_every", "0s", "0s", "7d", rebalance_every_us,
	    "Interval of automatic rebalancing; 0s: never."),
	ENGINE("fleet_rest", "8h", "1m", "30d", fleet_rest_us,
	    "A fleet's move must pay within this time, or earlier if its node would be reclaimed."),
	{ "engine", "rebalance_wave", "10", "1", "10000", "Maximum moves of one rebalancing.",
	    CONF_I64, CONF_RELOAD, CONF_AT(rebalance_wave) },
	ENGINE_N("rebalance_budget", "100", "0", "1000", rebalance.budget_pm,
	    "Share of the running jobs that may move at once, per mille; at least one job; 0: "
	    "none."),
	{ "engine", "rebalance_pool", "3", "1", "10000",
	    "Maximum moves into one pool per rebalancing.", CONF_I64, CONF_RELOAD,
	    CONF_AT(rebalance_pool) },
	{ "engine", "rebalance_hours", "", NULL, "200",
	    "Hours of the day (UTC) in which moves may begin, such as 22-5,12. Empty: always.",
	    CONF_STR, CONF_RELOAD, CONF_AT(rebalance_hours) },
	ENGINE("recommendation_window", "2h", "1m", "7d", rebalance.notice_window_us,
	    "A provider's rebalance recommendation counts as correct if the reclaim follows within "
	    "this time."),
	ENGINE("deadline_tick", "10m", "100ms", "1h", deadline_tick_us,
	    "Time step of the deadline planner."),

	RANK("prior_hours", "24", "0.01", "100000", prior_hours, CONF_F64,
	    "Weight of the published interruption rate and of the neighbouring pools, in "
	    "node-hours of the pool's own record."),
	RANK("unknown_spot_per_hour", "0.10", "0", "10", unknown_spot_per_hour, CONF_F64,
	    "Reclaims per node-hour of a spot pool without any data."),
	RANK("on_demand_per_hour", "0.0005", "0", "10", on_demand_per_hour, CONF_F64,
	    "The same for on-demand."),
	RANK("price_stale_penalty", "250", "0", "10000", price_stale_penalty_pm, CONF_I64,
	    "Added to a price whose feed is silent, per mille."),
	RANK("price_frozen_penalty", "20", "0", "10000", price_frozen_penalty_pm, CONF_I64,
	    "Added to a spot price that has not moved for [market] frozen, per mille."),
	RANK("restart_s", "240", "0", "86400", restart_s, CONF_I64,
	    "Boot, enrolment and restore, seconds."),
	RANK("save_s", "20", "0", "86400", save_s, CONF_I64,
	    "Duration of a save until the job's own is measured, seconds."),
	RANK("default_work_s", "3600", "1", "31536000", default_work_s, CONF_I64,
	    "Work of a job that does not declare it, seconds."),
	RANK("notice_saves", "0.9", "0", "1", notice_saves, CONF_F64,
	    "Share of eviction notices that leave enough time for a save shorter than the notice. "
	    "A longer save never succeeds."),
	RANK("age_half_life_h", "336", "1", "100000", age_half_life_h, CONF_F64,
	    "Half-life of the reclaim record, hours."),
	RANK("odds_half_life_h", "8", "0.1", "100000", odds_half_life_h, CONF_F64,
	    "Half-life of the record of launches and refusals, hours."),
	RANK("recent_half_life_h", "8", "0.1", "100000", recent_half_life_h, CONF_F64,
	    "Half-life of the recent record of a pool, hours."),
	RANK("ends_margin_s", "300", "0", "86400", ends_margin_s, CONF_I64,
	    "A machine whose reservation ends is left this long before, and twice the duration of "
	    "a save, seconds."),
	RANK("refused_s", "60", "0", "86400", refused_s, CONF_I64,
	    "Time that a refused launch costs, seconds."),
	RANK("price_reversion_s", "7776000", "0", "31536000", price_reversion_s, CONF_I64,
	    "Time in which a spot price returns 63 % of the way to its decayed mean, seconds; 0: "
	    "it does not return."),

	SCHEDULE("age_every", "12h", "1m", "365d", age_every_us, CONF_DURATION,
	    "Interval at which a waiting job gains priority."),
	SCHEDULE("age_points", "25", "0", "1000", age_points, CONF_I64,
	    "Priority gained per interval."),
	SCHEDULE("age_max", "100", "0", "2000", age_max, CONF_I64,
	    "Maximum priority gained by waiting."),
	SCHEDULE("preempt_gap", "100", "0", "2000", preempt_gap, CONF_I64,
	    "A job with a priority higher by this much preempts another one, with a checkpoint, if "
	    "a fleet or quota is full; 0: never."),
	SCHEDULE("preempt_hold", "1h", "0s", "365d", preempt_hold_us, CONF_DURATION,
	    "A preempted job is not preempted again for this long."),
	SCHEDULE("share_half_life", "7d", "1m", "365d", share_half_life_us, CONF_DURATION,
	    "Half-life of a team's spending (spotctl shares)."),

	MARKET("pools", "1h", "1s", "7d", pools_us, "Interval at which pools are listed."),
	MARKET("regions", "6h", "1s", "7d", regions_us, "Interval at which regions are listed."),
	MARKET("spot", "1m", "500ms", "1d", spot_us, "Interval at which spot prices are read."),
	MARKET("on_demand", "1h", "1s", "7d", on_demand_us,
	    "Interval at which on-demand prices are read."),
	MARKET("signals", "10m", "1s", "7d", signals_us,
	    "Interval at which interruption and capacity signals are read."),
	MARKET("quotas", "1h", "1s", "7d", quotas_us, "Interval at which account quotas are read."),
	MARKET("look", "1s", "100ms", "1m", look_us,
	    "Interval at which the engine checks which feeds are due."),
	MARKET("frozen", "30d", "0s", "365d", frozen_us,
	    "A spot price that did not change for this long is marked frozen; 0s: never."),
	MARKET("retention", "90d", "1d", "3650d", retention_us,
	    "Time that the price history is kept."),
	{ "market", "parallel", "8", "1", "64", "Concurrent polls.", CONF_I64, CONF_RELOAD,
	    CONF_AT(poller_parallel) },

	{ "http", "ca_file", "", NULL, "4096",
	    "PEM file with additional certificate authorities for calls to providers. Empty: "
	    "AWS_CA_BUNDLE.",
	    CONF_PATH, 0, CONF_AT(ca_file) },
	{ "log", "json", "false", NULL, NULL, "JSON lines instead of key=value.", CONF_BOOL,
	    CONF_RELOAD, CONF_AT(log_json) },
	{ "log", "level", "info", NULL, "8", "debug, info, warn or error.", CONF_STR, CONF_RELOAD,
	    CONF_AT(log_level) },
};
const size_t spotd_conf_items_n = ARRAY_LEN(spotd_conf_items);
