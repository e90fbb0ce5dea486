/* Every key of the configuration file. */
#include "base/base.h"
#include "base/err.h"
#include "base/text/sbuf.h"
#include "base/text/str.h"
#include "spotd/conf.h"
#include "spotd/file.h"

#define ORPHAN_TIMEOUT_MIN_US (60 * SPOT_US_PER_S)
#define AT(m) offsetof(struct spotd_conf, m)
#define ENGINE(k, d, lo, hi, m, h) \
	{ \
		"engine", k, d, lo, hi, h, CONF_DURATION, CONF_RELOAD, AT(engine.m) \
	}
#define ENGINE_N(k, d, lo, hi, m, h) \
	{ \
		"engine", k, d, lo, hi, h, CONF_I64, CONF_RELOAD, AT(engine.m) \
	}
#define MARKET(k, d, lo, hi, m, h) \
	{ \
		"market", k, d, lo, hi, h, CONF_DURATION, CONF_RELOAD, AT(poller.m) \
	}
#define RANK(k, d, lo, hi, m, t, h) \
	{ \
		"rank", k, d, lo, hi, h, t, CONF_RELOAD, AT(engine.rank.m) \
	}

#define SCHEDULE(k, d, lo, hi, m, t, h) \
	{ \
		"schedule", k, d, lo, hi, h, t, CONF_RELOAD, AT(engine.schedule.m) \
	}

static const struct conf_item items[] = {
	{ "database", "dsn", "", NULL, "4096",
	    "Postgres, as a libpq connection string or URL; DATABASE_URL is taken when it is "
	    "empty. "
	    "Passwords belong into "
	    "~/.pgpass or PGPASSFILE.",
	    CONF_STR, 0, AT(dsn) },
	{ "database", "connections", "8", "2", "64", "Connections of this process.", CONF_I64, 0,
	    AT(db_connections) },
	{ "database", "statement_timeout", "30s", "1s", "10m",
	    "After this a statement is given up.", CONF_DURATION, 0, AT(db_timeout_us) },
	{ "database", "migrate", "true", NULL, NULL,
	    "Bring the schema up to date at start; false: refuse an old one.", CONF_BOOL, 0,
	    AT(migrate) },

	{ "api", "listen", "127.0.0.1:8642", NULL, "255",
	    "Address and port of the REST interface; port 0 picks one.", CONF_STR, 0, AT(listen) },
	{ "api", "public_url", "", NULL, "1024",
	    "How nodes reach the REST interface, such as https://broker.example.com; empty: "
	    "http(s) and "
	    "the listen address.",
	    CONF_STR, 0, AT(public_url) },
	{ "api", "public_ca", "", NULL, "4096",
	    "PEM file with the certificate authority that nodes shall trust for public_url; empty: "
	    "those "
	    "of their system.",
	    CONF_PATH, CONF_RELOAD, AT(public_ca) },
	{ "api", "tls_cert", "", NULL, "4096", "PEM certificate chain; empty: plain HTTP.",
	    CONF_PATH, 0, AT(tls_cert) },
	{ "api", "tls_key", "", NULL, "4096", "PEM private key of tls_cert.", CONF_PATH, 0,
	    AT(tls_key) },
	{ "api", "orphan_timeout", "15m", "0s", "30d",
	    "An agent that has heard no daemon for so long has its job save and stop, and shuts "
	    "the machine "
	    "down, so that nobody pays for what nobody will fetch; 1m at least, or 0s: never. "
	    "Running agents hear "
	    "of a change with their next poll.",
	    CONF_DURATION, CONF_RELOAD, AT(orphan_timeout_us) },
	{ "api", "connections", "0", "0", "1000000",
	    "Open connections at most; 0: what the descriptor limit allows.", CONF_I64, 0,
	    AT(api_connections) },
	{ "api", "agent_dir", "", NULL, "4096",
	    "Folder with spot-agent and spot-nvml for nodes, for arm64 with -aarch64; empty: "
	    "beside this "
	    "program.",
	    CONF_PATH, 0, AT(agent_dir) },

	{ "checkpoint", "store", "", NULL, "1024",
	    "Where checkpoints go: s3://bucket/prefix, gs://bucket/prefix or "
	    "az://container/prefix; empty: nothing is "
	    "stored, and a job that is moved begins anew. Both roles read it.",
	    CONF_STR, CONF_RELOAD, AT(store) },
	{ "checkpoint", "provider", "aws", NULL, "64",
	    "Name of the [provider] whose credentials sign the store's URLs: of kind aws or "
	    "coreweave for s3://, gcp "
	    "for gs://, azure for az://.",
	    CONF_STR, CONF_RELOAD, AT(store_provider) },
	{ "checkpoint", "region", "us-east-1", NULL, "64", "Region of the bucket.", CONF_STR,
	    CONF_RELOAD, AT(store_region) },
	{ "checkpoint", "endpoint", "", NULL, "1024",
	    "Other S3-compatible store; empty: the vendor's.", CONF_STR, CONF_RELOAD,
	    AT(store_endpoint) },
	{ "checkpoint", "url_life", "1h", "1m", "12h",
	    "Life of the URLs that nodes use without keys.", CONF_DURATION, CONF_RELOAD,
	    AT(engine.url_life_us) },

	ENGINE("tick", "1s", "50ms", "1m", tick_us,
	    "Everything is looked at again at least this often."),
	ENGINE("lease", "1200ms", "500ms", "5m", lease_us,
	    "Leadership without renewal: so long after a crash another daemon goes on; the same "
	    "for all daemons of one database."),
	ENGINE("offers_age", "2s", "0s", "5m", offers_age_us,
	    "How old a read of the market may be at a placement."),
	ENGINE("launch_timeout", "2m", "1s", "10m", launch_timeout_us,
	    "A whole launch call; then it is looked up."),
	ENGINE("call_timeout", "30s", "1s", "10m", call_timeout_us,
	    "Any other call to a provider."),
	ENGINE_N("launches", "16", "1", "1000", launches_max,
	    "Launch calls under way per provider."),
	ENGINE("launch_retry", "2s", "10ms", "1m", launch_retry_us,
	    "First repeat of a launch that was throttled; doubled up to 16 times as long."),
	ENGINE("lookup_again", "5s", "10ms", "5m", lookup_again_us,
	    "Between look-ups of a launch with unknown outcome."),
	ENGINE("boot_timeout", "15m", "1s", "2h", boot_timeout_us,
	    "From launch to the agent's enrolment."),
	ENGINE("watch", "10s", "100ms", "10m", watch_us,
	    "How often providers are asked about our nodes."),
	ENGINE("agent_silent", "40s", "1s", "10m", agent_silent_us,
	    "A silent agent makes us ask its provider at once. Agents speak at least every 25 s."),
	ENGINE("agent_lost", "1h", "5s", "1d", agent_lost_us,
	    "Silent this long on an instance that its provider calls running: broken, and "
	    "replaced."),
	ENGINE("loss_bound", "5m", "1s", "1d", loss_bound_us,
	    "A machine that is over is to be found within this (beyond agent_lost where only "
	    "silence "
	    "tells); later counts in spot_missed_losses_total."),
	ENGINE("list_lag", "0s", "0s", "1h", list_lag_us,
	    "Absence from a provider's list proves nothing before this; 0s: what is known of the "
	    "provider (2m)."),
	ENGINE("cool_min", "1m", "100ms", "1h", cool_min_us,
	    "Rest of a pool that refused a launch; doubled each time."),
	ENGINE("cool_max", "15m", "100ms", "1d", cool_max_us, "Longest rest of a refused pool."),
	ENGINE("reclaim_cool", "10m", "0s", "1d", reclaim_cool_us,
	    "Rest of a pool that took a node back."),
	ENGINE("idle_keep", "1m", "0s", "1d", idle_keep_us,
	    "A node that no job needs is kept this long while jobs wait."),
	ENGINE("gang_hold", "10m", "100ms", "1d", gang_hold_us,
	    "Machines of a job of several nodes are held this long while one is missing; then all "
	    "are given back."),
	ENGINE("terminate_retry", "5s", "100ms", "10m", terminate_retry_us,
	    "First repeat of a terminate; doubled to 1m."),
	ENGINE("terminate_alarm", "5m", "1s", "1d", terminate_alarm_us,
	    "Not gone by then: an alarm in the log."),
	ENGINE("sweep", "1m", "100ms", "1h", sweep_us,
	    "How often everything with our tag is listed."),
	ENGINE("orphan_grace", "2m", "0s", "1d", orphan_grace_us,
	    "From the alarm about an unknown instance to its end."),
	{ "engine", "orphan_end", "true", NULL, NULL,
	    "false: what no row accounts for is shown (spotctl leaks), and ended only where "
	    "somebody says so.",
	    CONF_BOOL, CONF_RELOAD, AT(engine.orphan_end) },
	ENGINE("bill", "1m", "100ms", "1h", bill_us, "How often running nodes get ledger lines."),
	ENGINE("bill_lag", "2s", "0s", "5m", bill_lag_us,
	    "Time is billed when it is so old: by then all that happened in it is written down."),
	ENGINE("clock_doubt", "15m", "0s", "1d", clock_doubt_us,
	    "Nothing is billed after a start, a take-over or a leap of the wall clock until a "
	    "cloud's time agrees with it, or for so long, and by a clock that is ahead of it no "
	    "machine is over its time; 0s: it is believed."),
	ENGINE("infeasible", "1h", "1s", "30d", infeasible_us,
	    "A job that no pool suits fails after this."),
	ENGINE("notice_default", "2m", "1s", "1h", notice_default_us,
	    "Time left by a notice that does not say."),
	ENGINE("drain_grace", "30s", "0s", "1h", drain_grace_us,
	    "After its deadline a drained node is ended by us."),
	ENGINE("budget_look", "10s", "1s", "10m", budget_look_us,
	    "How often budgets of jobs are looked at; that much of the price is kept back."),
	ENGINE("patience", "10m", "0s", "7d", supply.patience_us,
	    "How long a job without a deadline waits for spot before on-demand is taken, where "
	    "neither its file nor its class says."),
	ENGINE_N("patience_share", "250", "0", "1000", supply.patience_max_share_pm,
	    "With a deadline: at most this share of the slack, per mille."),
	ENGINE("return_hold", "5m", "0s", "1d", supply.return_hold_us,
	    "A spot replacement must have been ready so long before a job returns to spot."),
	ENGINE("return_probe", "5m", "100ms", "1d", supply.return_probe_us,
	    "Between probes for spot while on demand; doubled per refusal, up to 1h."),
	ENGINE_N("return_margin", "200", "0", "10000", supply.return_margin_pm,
	    "The saving of a move must beat its cost by this, per mille."),
	{ "engine", "moves_per_hour", "4", "0", "1000",
	    "Planned moves of one job per hour at most.", CONF_I64, CONF_RELOAD,
	    AT(moves_per_hour) },
	ENGINE("changeover", "4m", "0s", "1d", supply.changeover_us,
	    "Restart and restore, as the planner assumes them."),
	ENGINE_N("tight_patience", "250", "0", "1000", supply.tight_patience_pm,
	    "Of the patience for spot, what is left while its supply is tight, per mille."),
	ENGINE("supply_window", "1h", "1s", "1d", tightness.window_us,
	    "Our launches, refusals and reclaims of so long say how tight supply is."),
	ENGINE("supply_hold", "15m", "0s", "1d", tightness.hold_us,
	    "Supply must have been easy so long before tight is over."),
	ENGINE_N("defer_saving", "50", "0", "1000", defer.min_saving_pm,
	    "A job with room before its deadline waits for cheaper hours when they save this, per "
	    "mille."),
	ENGINE("defer_longest", "1d", "0s", "7d", defer.longest_us,
	    "No job is deferred for longer."),
	ENGINE("rebalance_every", "0s", "0s", "7d", rebalance_every_us,
	    "Running jobs are looked at for moves that pay so often, without being asked; 0s: "
	    "never."),
	{ "engine", "rebalance_wave", "10", "1", "10000",
	    "Moves that one rebalancing begins at most.", CONF_I64, CONF_RELOAD,
	    AT(rebalance_wave) },
	ENGINE_N("rebalance_budget", "100", "0", "1000", rebalance.budget_pm,
	    "Of the running jobs so many may be on the move at once, per mille; at least one, 0: "
	    "none."),
	{ "engine", "rebalance_pool", "3", "1", "10000",
	    "Moves into one pool in one rebalancing at most.", CONF_I64, CONF_RELOAD,
	    AT(rebalance_pool) },
	{ "engine", "rebalance_hours", "", NULL, "200",
	    "Hours of the day (UTC) in which moves may begin, such as 22-5,12; empty: always.",
	    CONF_STR, CONF_RELOAD, AT(rebalance_hours) },
	ENGINE("recommendation_window", "2h", "1m", "7d", rebalance.notice_window_us,
	    "A recommendation to leave a machine was right when the machine is reclaimed within."),
	ENGINE("deadline_tick", "10m", "100ms", "1h", deadline_tick_us,
	    "The unit of time in which the way to a deadline is planned."),

	RANK("prior_hours", "24", "0.01", "100000", prior_hours, CONF_F64,
	    "What the published interruption rate and a pool's neighbours say weighs so many "
	    "node-hours of the pool's own record, once that "
	    "contradicts them."),
	RANK("unknown_spot_per_hour", "0.10", "0", "10", unknown_spot_per_hour, CONF_F64,
	    "Reclaims per node-hour of a spot pool nobody knows anything about."),
	RANK("on_demand_per_hour", "0.0005", "0", "10", on_demand_per_hour, CONF_F64,
	    "The same for on-demand."),
	RANK("price_stale_penalty", "250", "0", "10000", price_stale_penalty_pm, CONF_I64,
	    "Added to a price whose feed is silent, per mille."),
	RANK("price_frozen_penalty", "20", "0", "10000", price_frozen_penalty_pm, CONF_I64,
	    "Added to a spot price that has not moved for [market] frozen, per mille."),
	RANK("restart_s", "240", "0", "86400", restart_s, CONF_I64,
	    "Boot, enrolment and restore, seconds."),
	RANK("save_s", "20", "0", "86400", save_s, CONF_I64,
	    "A save, until the job's own is measured, seconds."),
	RANK("default_work_s", "3600", "1", "31536000", default_work_s, CONF_I64,
	    "Work of a job that does not say."),
	RANK("notice_saves", "0.9", "0", "1", notice_saves, CONF_F64,
	    "Share of notices that leave time enough for a save that is shorter than the notice; a "
	    "longer one saves nothing."),
	RANK("age_half_life_h", "336", "1", "100000", age_half_life_h, CONF_F64,
	    "Our record of reclaims counts half after so many hours."),
	RANK("odds_half_life_h", "8", "0.1", "100000", odds_half_life_h, CONF_F64,
	    "The same for our record of launches and refusals."),
	RANK("recent_half_life_h", "8", "0.1", "100000", recent_half_life_h, CONF_F64,
	    "The same for what a pool's own record says of how it is just now."),
	RANK("refused_s", "60", "0", "86400", refused_s, CONF_I64,
	    "What a refused launch costs in time, seconds."),
	RANK("price_reversion_s", "7776000", "0", "31536000", price_reversion_s, CONF_I64,
	    "In this time a spot price goes 63 % of the way back to its faded mean, seconds; 0: it "
	    "stays."),

	SCHEDULE("age_every", "12h", "1m", "365d", age_every_us, CONF_DURATION,
	    "A job that waits gains priority so often."),
	SCHEDULE("age_points", "25", "0", "1000", age_points, CONF_I64, "So much each time."),
	SCHEDULE("age_max", "100", "0", "2000", age_max, CONF_I64, "And so much at most."),
	SCHEDULE("preempt_gap", "100", "0", "2000", preempt_gap, CONF_I64,
	    "A job whose priority is so much higher makes another leave, with a checkpoint, where "
	    "a fleet or a "
	    "quota has no room; 0: never."),
	SCHEDULE("preempt_hold", "1h", "0s", "365d", preempt_hold_us, CONF_DURATION,
	    "A job that had to leave is left alone for so long."),
	SCHEDULE("share_half_life", "7d", "1m", "365d", share_half_life_us, CONF_DURATION,
	    "Dollars that a team spent count half after so long (spotctl shares)."),

	MARKET("pools", "1h", "1s", "7d", pools_us, "How often pools are listed."),
	MARKET("regions", "6h", "1s", "7d", regions_us, "How often regions are listed."),
	MARKET("spot", "1m", "500ms", "1d", spot_us, "How often spot prices are read."),
	MARKET("on_demand", "1h", "1s", "7d", on_demand_us, "How often on-demand prices are read."),
	MARKET("signals", "10m", "1s", "7d", signals_us,
	    "How often interruption and capacity signals are read."),
	MARKET("quotas", "1h", "1s", "7d", quotas_us, "How often account quotas are read."),
	MARKET("look", "1s", "100ms", "1m", look_us,
	    "How often is looked for what of these is due."),
	MARKET("frozen", "30d", "0s", "365d", frozen_us,
	    "A spot price unmoved this long is marked frozen; 0s: never."),
	MARKET("retention", "90d", "1d", "3650d", retention_us, "Price history kept."),
	{ "market", "parallel", "8", "1", "64", "Polls under way at once.", CONF_I64, CONF_RELOAD,
	    AT(poller_parallel) },

	{ "http", "ca_file", "", NULL, "4096",
	    "PEM file with further certificate authorities for calls to providers; AWS_CA_BUNDLE "
	    "is taken "
	    "when it is empty.",
	    CONF_PATH, 0, AT(ca_file) },
	{ "log", "json", "false", NULL, NULL, "JSON lines instead of key=value.", CONF_BOOL,
	    CONF_RELOAD, AT(log_json) },
	{ "log", "level", "info", NULL, "8", "debug, info, warn or error.", CONF_STR, CONF_RELOAD,
	    AT(log_level) },
};

static enum spot_rc listen_split(struct spotd_conf *c, struct spot_err *err)
{
	const char *colon = strrchr(c->listen, ':');
	int64_t port;

	if (colon == NULL || colon == c->listen || !parse_i64(colon + 1, 0, 65535, &port)) {
		return err_set(err, SPOT_CONFIG, "[api] listen = %.80s: expected ADDRESS:PORT",
		    c->listen);
	}
	c->port = (int)port;
	c->address = arena_strndup(c->arena, c->listen, (size_t)(colon - c->listen));
	if (c->address[0] == '[' && c->address[strlen(c->address) - 1] == ']') {
		c->address = arena_strndup(c->arena, c->address + 1, strlen(c->address) - 2);
	}
	return SPOT_OK;
}

static enum spot_rc store_split(struct spotd_conf *c, struct spot_err *err)
{
	const char *slash;

	c->engine.store_provider = c->store_provider;
	c->engine.store_region = c->store_region;
	c->engine.store_endpoint = c->store_endpoint;
	c->engine.store_bucket = c->engine.store_prefix = "";
	if (str_empty(c->store)) {
		return SPOT_OK;
	}
	if ((!str_prefix(c->store, "s3://") && !str_prefix(c->store, "gs://") &&
		!str_prefix(c->store, "az://")) ||
	    c->store[5] == '\0' || c->store[5] == '/') {
		return err_set(err, SPOT_CONFIG,
		    "[checkpoint] store = %.80s: expected s3://bucket/prefix, "
		    "gs://bucket/prefix or az://container/prefix",
		    c->store);
	}
	slash = strchr(c->store + 5, '/');
	c->engine.store_bucket = slash == NULL
	    ? c->store + 5
	    : arena_strndup(c->arena, c->store + 5, (size_t)(slash - c->store - 5));
	if (slash != NULL) {
		size_t n = strlen(slash + 1);

		while (n > 0 && slash[n] == '/') {
			n--;
		}
		c->engine.store_prefix = arena_strndup(c->arena, slash + 1, n);
	}
	return SPOT_OK;
}

static enum spot_rc level_check(struct spotd_conf *c, struct spot_err *err)
{
	static const char *const known[] = { "debug", "info", "warn", "error" };

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (strcmp(c->log_level, known[i]) == 0) {
			return SPOT_OK;
		}
	}
	return err_set(err, SPOT_CONFIG, "[log] level = %.40s: expected debug, info, warn or error",
	    c->log_level);
}

/* What has no setting of its own keeps its default. */
static void supply_derive(struct engine_conf *e)
{
	struct tightness_policy t;
	struct defer_policy d;

	tightness_policy_default(&t);
	t.window_us = e->tightness.window_us;
	t.hold_us = e->tightness.hold_us;
	e->tightness = t;
	defer_policy_default(&d);
	d.min_saving_pm = e->defer.min_saving_pm;
	d.longest_us = e->defer.longest_us;
	e->defer = d;
}

static enum spot_rc tls_check(struct spotd_conf *c, struct spot_err *err)
{
	if (str_empty(c->tls_cert) != str_empty(c->tls_key)) {
		return err_set(err, SPOT_CONFIG, "[api] tls_cert and tls_key: give both or none");
	}
	return SPOT_OK;
}

static enum spot_rc cool_check(struct spotd_conf *c, struct spot_err *err)
{
	if (c->engine.cool_min_us > c->engine.cool_max_us) {
		return err_set(err, SPOT_CONFIG, "[engine] cool_min is above cool_max");
	}
	return SPOT_OK;
}

/* An agent hears from here when its poll is answered, which is held for 25 s where nothing is new;
 * and a take-over takes its time. */
static enum spot_rc orphan_check(struct spotd_conf *c, struct spot_err *err)
{
	if (c->orphan_timeout_us > 0 && c->orphan_timeout_us < ORPHAN_TIMEOUT_MIN_US) {
		return err_set(err, SPOT_CONFIG,
		    "[api] orphan_timeout: 1m at least (agents of healthy jobs hear from here "
		    "every 25 s), or 0s: never");
	}
	return SPOT_OK;
}

static enum spot_rc ca_read(struct spotd_conf *c, struct spot_err *err)
{
	struct str pem = { 0 };
	enum spot_rc rc = SPOT_OK;

	if (!str_empty(c->public_ca)) {
		rc = file_read(c->public_ca, c->arena, 8 << 10, &pem, err);
	}
	c->public_ca_pem = pem.p;
	return rc == SPOT_OK ? rc : err_prefix(err, "[api] public_ca");
}

static enum spot_rc hours_parse(struct spotd_conf *c, struct spot_err *err)
{
	if (!rebalance_hours_parse(c->rebalance_hours, &c->engine.rebalance.hours)) {
		return err_set(err, SPOT_CONFIG,
		    "[engine] rebalance_hours = %.60s: hours of the day from 0 to 23 and "
		    "ranges of them, such as 22-5,12",
		    c->rebalance_hours);
	}
	return SPOT_OK;
}

/* What the table cannot say about a value, and what is made of it. */
static const struct {
	enum spot_rc (*run)(struct spotd_conf *c, struct spot_err *err);
	size_t at; /* whose line the mistake is on */
} checks[] = {
	{ listen_split, AT(listen) },
	{ tls_check, AT(tls_cert) },
	{ store_split, AT(store) },
	{ level_check, AT(log_level) },
	{ cool_check, AT(engine.cool_min_us) },
	{ ca_read, AT(public_ca) },
	{ hours_parse, AT(rebalance_hours) },
	{ orphan_check, AT(orphan_timeout_us) },
};

/* Mistakes as they are found: the first in err; every one in all, where that is asked for. */
struct finder {
	struct conf_mistakes *all;
	struct spot_err *err;
	enum spot_rc rc;
};

static void found(struct finder *f, const struct spot_err *e)
{
	if (f->all != NULL) {
		conf_mistake(f->all, e);
	}
	if (f->rc == SPOT_OK) {
		f->rc = e->rc;
		*f->err = *e;
	}
}

/* After the first mistake there is nothing to do unless all are asked for. */
static bool goes_on(const struct finder *f)
{
	return f->rc == SPOT_OK || f->all != NULL;
}

static void derive(struct spotd_conf *c, struct finder *f)
{
	for (size_t i = 0; i < ARRAY_LEN(checks) && goes_on(f); i++) {
		struct spot_err e = { 0 };

		if (checks[i].run(c, &e) == SPOT_OK) {
			continue;
		}
		for (size_t k = 0; k < ARRAY_LEN(items); k++) {
			if (items[k].at == checks[i].at && c->file.item_lines[k] != 0) {
				(void)err_prefix(&e, "%s:%d", c->path, c->file.item_lines[k]);
			}
		}
		found(f, &e);
	}
	c->poller.parallel_max = (int)c->poller_parallel;
	c->engine.supply.moves_per_hour_max = (int32_t)c->moves_per_hour;
	supply_derive(&c->engine);
	c->engine.rebalance.wave_max = (int32_t)c->rebalance_wave;
	c->engine.rebalance.pool_max = (int32_t)c->rebalance_pool;
}

static void class_take(struct spotd_conf *c, const struct conf_section *s, struct finder *f)
{
	struct class_policy *p = class_find(&c->classes, s->name);
	struct spot_err e = { 0 };

	if (p == NULL) {
		(void)err_set(&e, SPOT_CONFIG,
		    "%s:%d: [class %s]: no such class; these are: training, batch_inference, "
		    "fine_tune, eval, sweep, dev, serving",
		    c->path, s->line, s->name);
		found(f, &e);
		return;
	}
	for (size_t i = 0; i < s->n && goes_on(f); i++) {
		if (class_set(p, s->keys[i], s->values[i], &e) != SPOT_OK) {
			(void)err_prefix(&e, "%s:%d: [class %s]", c->path, s->lines[i], s->name);
			found(f, &e);
		}
	}
}

#define TEAM_MAX 60 /* as the API has it */

static void share_take(struct spotd_conf *c, const struct conf_section *s, struct finder *f)
{
	struct spot_err e = { 0 };
	double weight = 0;

	if (strlen(s->name) > TEAM_MAX) {
		(void)err_set(&e, SPOT_CONFIG,
		    "%s:%d: [share %.70s]: the name of a team has at most %d bytes", c->path,
		    s->line, s->name, TEAM_MAX);
		found(f, &e);
	}
	for (size_t i = 0; i < s->n && goes_on(f); i++) {
		if (strcmp(s->keys[i], "weight") != 0) {
			(void)err_set(&e, SPOT_CONFIG,
			    "%s:%d: [share %s] %.40s is not a key; there is one: weight", c->path,
			    s->lines[i], s->name, s->keys[i]);
			found(f, &e);
		} else if (!parse_f64(s->values[i], 0.001, 1000, &weight)) {
			(void)err_set(&e, SPOT_CONFIG,
			    "%s:%d: [share %s] weight = %.40s: expected a number from 0.001 to "
			    "1000; 1 is "
			    "ordinary",
			    c->path, s->lines[i], s->name, s->values[i]);
			found(f, &e);
		}
	}
	if (s->n == 0) {
		(void)err_set(&e, SPOT_CONFIG, "%s:%d: [share %s] has no weight", c->path, s->line,
		    s->name);
		found(f, &e);
	}
	c->shares =
	    arena_grow(c->arena, c->shares, c->engine.shares_n, &c->shares_cap, sizeof(*c->shares));
	c->shares[c->engine.shares_n++] =
	    (struct schedule_team){ .team = s->name, .weight_pm = (int64_t)(weight * 1000 + 0.5) };
	c->engine.shares = c->shares;
}

/* [class NAME] and [share NAME] are for us; what is left in c->file are the providers. */
static void sections_take(struct spotd_conf *c, struct finder *f)
{
	struct spot_err e = { 0 };
	size_t kept = 0;

	for (size_t i = 0; i < c->file.n && goes_on(f); i++) {
		struct conf_section *s = &c->file.sections[i];

		if (strcmp(s->kind, "class") == 0) {
			class_take(c, s, f);
		} else if (strcmp(s->kind, "share") == 0) {
			share_take(c, s, f);
		} else if (strcmp(s->kind, "provider") == 0) {
			c->file.sections[kept++] = *s;
		} else {
			(void)err_set(&e, SPOT_CONFIG,
			    "%s:%d: [%s %s]: only [provider NAME], [class NAME] and [share NAME] "
			    "sections "
			    "have names",
			    c->path, s->line, s->kind, s->name);
			found(f, &e);
		}
	}
	c->file.n = kept;
}

static enum spot_rc conf_take(struct spotd_conf *c, struct str text, struct conf_mistakes *all,
    struct spot_err *err)
{
	struct finder f = { .all = all, .err = err };

	f.rc =
	    conf_parse_all(c->arena, items, ARRAY_LEN(items), c->path, text, c, &c->file, all, err);
	class_table_default(&c->classes);
	if (goes_on(&f)) {
		sections_take(c, &f);
	}
	if (goes_on(&f)) {
		derive(c, &f);
	}
	return f.rc;
}

enum spot_rc spotd_conf_read(const char *path, struct spotd_conf *ret, struct conf_mistakes *all,
    struct spot_err *err)
{
	struct spotd_conf c = { .arena = arena_new(8 << 20) };
	struct str text = { "", 0 };
	enum spot_rc rc = SPOT_OK;
	bool readable;

	c.path = path == NULL ? "defaults" : arena_strdup(c.arena, path);
	if (path != NULL) {
		rc = file_read(path, c.arena, 1 << 20, &text, err);
	}
	readable = rc == SPOT_OK;
	if (readable) {
		rc = conf_take(&c, text, all, err);
	} else if (all != NULL) {
		conf_mistake(all, err);
	}
	if (rc != SPOT_OK && (all == NULL || !readable)) {
		arena_free(c.arena);
		return rc;
	}
	spotd_conf_free(ret);
	*ret = c;
	return rc;
}

void spotd_conf_free(struct spotd_conf *c)
{
	arena_free(c->arena);
	*c = (struct spotd_conf){ 0 };
}

void spotd_conf_print(const struct spotd_conf *c, bool with_help, struct sbuf *out)
{
	conf_print(items, ARRAY_LEN(items), c, with_help, out);
}
