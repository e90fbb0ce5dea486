#include "sim/world/world.h"
#include "sim/broker/broker.h"
#include "sim/check/check.h"
#include "sim/net/net.h"
#include "sim/store/rows.h"
#include "sim/broker/leaders.h"
#include "sim/world/profiles.h"
#include "sim/store/sim_store.h"

#include "api/api.h"
#include "base/base.h"
#include "base/text/text.h"
#include "engine/engine.h"
#include "engine/market/market.h"
#include "io/http/http.h"
#include "io/pg/pg.h"
#include "spotd/daemon.h"

#define BROKERS 2
static struct broker {
	const char *name;
	struct skewed_clock clock; /* its machine's: outlives it */
	/* world time; 0 = it runs, its clock is right */
	int64_t down_until, paused_until, wrong_until;
	bool wanted, up;
	struct loop *loop;
	struct pg *pg;
	struct api *api;
	struct http_client *http;
	struct call_shared *shared;
	struct providers providers;
	struct engine *engine;
	struct poller *poller;
	struct poller_conf poller_conf;
	struct spotd_conf conf;
	struct engine_conf engine_conf;
} brokers[BROKERS] = { { .name = "daemon-a" }, { .name = "daemon-b" } };
static const char *providers_conf;

static const char base_conf[] =
    "[database]\nconnections = 3\n"
    "[api]\nlisten = 127.0.0.1:8080\npublic_url = http://127.0.0.1:8080\n"
    "[checkpoint]\nstore = s3://spot-sim/p\nprovider = aws\nregion = us-east-1\nendpoint = "
    "http://127.0.0.1:9000\n"
    /* NOTIFY wakes urgent work; the ticks only catch missed notifications. */
    "[engine]\ntick = 1m\nlease = 45s\noffers_age = 30s\nwatch = 1m\nsweep = 2m\nbill = "
    "5m\npatience = 2m\n"
    "boot_timeout = 10m\nlookup_again = 10s\nagent_lost = 3m\ninfeasible = 12h\n"
    "[market]\non_demand = 6h\nsignals = 2h\npools = 6h\nquotas = 6h\nregions = "
    "1d\nlook = 1m\n";

static const char steady_conf[] = "[market]\nspot = 10m\n";
/* Time enough for several moves in a seed. */
static const char moving_conf[] = "[market]\nspot = 1m\n[engine]\nreturn_hold = 1m\nreturn_probe = "
				  "20s\nchangeover = 1m\nsupply_window = 4m\n"
				  "supply_hold = 1m\nrebalance_every = 5m\ncool_max = 2m\n"
				  /* a save before the notice is worth its time */
				  "[rank]\nnotice_saves = 0.2\nsave_s = 2\n";

void broker_install(void)
{
	PGconn *c = store_conn();
	char sql[1024];
	uint8_t hash[32];
	int n;
	PGresult *r;

	api_token_hash(SIM_TOKEN, strlen(SIM_TOKEN), hash);
	n = snprintf(sql, sizeof(sql),
	    "INSERT INTO install VALUES (true, '" SIM_INSTALL "', '\\x0102030405060708', %" PRId64
	    ");"
	    "INSERT INTO api_token (name, role, hash, created_us) VALUES ('sim', 'admin', '\\x",
	    world_now());
	for (size_t i = 0; i < sizeof(hash); i++) {
		n += snprintf(sql + n, sizeof(sql) - (size_t)n, "%02x", hash[i]);
	}
	snprintf(sql + n, sizeof(sql) - (size_t)n, "', %" PRId64 ")", world_now());
	r = PQexec(c, sql);
	if (PQresultStatus(r) != PGRES_COMMAND_OK) {
		fprintf(stderr, "sim: install: %s", PQresultErrorMessage(r));
		abort();
	}
	PQclear(r);
}

bool broker_up(void)
{
	for (size_t k = 0; k < BROKERS; k++) {
		if (brokers[k].wanted && (!brokers[k].up || brokers[k].paused_until != 0)) {
			return false;
		}
	}
	return true;
}

static int64_t poller_epoch(void *ctx)
{
	const struct broker *b = ctx;

	return b->engine == NULL ? 0 : engine_epoch(b->engine);
}

static void conf_read(struct broker *b)
{
	char path[512], *text;
	struct spot_err err = { 0 };

	snprintf(path, sizeof(path), "%s/spotd.conf", world.conf.dir);
	if (asprintf(&text, "%s%s%s", base_conf,
		profile_is(PROFILE_MOVING_FLEETS) ? moving_conf : steady_conf,
		providers_conf) < 0) {
		abort();
	}
	if (file_write(path, text, 0600, &err) != SPOT_OK ||
	    spotd_conf_read(path, &b->conf, NULL, &err) != SPOT_OK) {
		fprintf(stderr, "sim: %s\n", err.text);
		abort();
	}
	free(text);
}

/* An agent without us ends its job before we give it up, as by default, or long after. */
static int64_t orphan_timeout_us(void)
{
	return (profile_is(PROFILE_SHORT_ORPHANS) ? 70 : 900) * SPOT_US_PER_S;
}

static void api_up(struct broker *b)
{
	struct spot_err err = { 0 };
	struct api_conf conf = { .address = "127.0.0.1",
		.port = SIM_PORT,
		.install = SIM_INSTALL,
		.version = "sim",
		.place = engine_place_policy(&b->conf.engine),
		.store_provider = b->conf.store_provider,
		.store_region = b->conf.store_region,
		.classes = b->conf.classes,
		.orphan_timeout_us = orphan_timeout_us(),
		.market_age_us = 1 };

	if (api_new(b->loop, b->pg, &conf, &b->api, &err) != SPOT_OK) {
		fprintf(stderr, "sim: %s\n", err.text);
		abort();
	}
}

static void engine_up(struct broker *b)
{
	static const char key[] = "\1\2\3\4\5\6\7\10";
	struct spot_err err = { 0 };
	char holder[64];

	b->http = http_client_new(b->loop, &(struct http_client_conf){ .user_agent = b->name });
	b->shared = engine_shared_new(b->loop, b->pg);
	if (providers_open(&b->providers, b->loop, b->http, &b->conf, false, b->shared, &err) !=
	    SPOT_OK) {
		fprintf(stderr, "sim: %s\n", err.text);
		abort();
	}
	b->engine_conf = b->conf.engine;
	b->engine_conf.public_url = "http://127.0.0.1:8080";
	b->engine_conf.agent_sha256 =
	    "0000000000000000000000000000000000000000000000000000000000000000";
	b->engine_conf.nvml_sha256 = b->engine_conf.agent_arm64_sha256 =
	    b->engine_conf.nvml_arm64_sha256 = "";
	snprintf(holder, sizeof(holder), "%s/%" PRId64, b->name, world.restarts);
	b->engine = engine_new(&(struct engine_deps){ .loop = b->loop,
	    .pg = b->pg,
	    .providers = b->providers.list,
	    .providers_n = b->providers.n,
	    .conf = &b->engine_conf,
	    .install = SIM_INSTALL,
	    .enrol_key = { key, 8 },
	    .holder = holder,
	    .identity_off = b->providers.identity_off,
	    .identity_off_n = b->providers.identity_off_n,
	    .http = b->http });
	b->poller_conf = b->conf.poller;
	b->poller = poller_new(&(struct poller_deps){ .loop = b->loop,
	    .pg = b->pg,
	    .providers = b->providers.list,
	    .providers_n = b->providers.n,
	    .conf = &b->poller_conf,
	    .epoch = poller_epoch,
	    .ctx = b });
}

static void broker_start(struct broker *b)
{
	conf_read(b);
	b->loop = world_loop_new(&b->clock.clock);
	b->pg = pg_new(b->loop,
	    &(struct pg_conf){ .dsn = world.conf.dsn,
		.connections = 3,
		.application = b->name + 7 });
	leaders_born(b->pg);
	api_up(b);
	engine_up(b);
	b->up = true;
	b->down_until = 0;
	trace("%s starts", b->name);
}

/* kill -9: its sent requests may still take effect, the replies are lost. */
static void broker_crash(struct broker *b)
{
	b->up = false;
	b->paused_until = 0;
	b->down_until = world_now() + dice_us(SPOT_US_PER_S / 10, 60 * SPOT_US_PER_S);
	world.restarts++;
	trace("%s dies", b->name);
	sometimes("the daemon died");
	net_crash(b->name);
	leaders_stop(b->pg, true);
	store_crash(b->pg);
	poller_free(b->poller);
	engine_free(b->engine);
	b->engine = NULL;
	providers_close(&b->providers);
	engine_shared_free(b->shared);
	http_client_free(b->http);
	api_free(b->api);
	pg_free(b->pg);
	world_loop_free(STEAL(b->loop));
	spotd_conf_free(&b->conf);
}

/* ---- stopped and continued ------------------------------------------------------------------- */

static void broker_pause(struct broker *b)
{
	world.stood = true;
	b->paused_until = world_now() + dice_us(SPOT_US_PER_S, 300 * SPOT_US_PER_S);
	trace("%s stops for %" PRId64 " s", b->name,
	    (b->paused_until - world_now()) / SPOT_US_PER_S);
	sometimes(engine_leads(b->engine) ? "a leader was stopped" : "a follower was stopped");
	world_loop_pause(b->loop, true);
	leaders_stop(b->pg, true);
	store_pause(b->pg);
}

static void broker_continue(struct broker *b)
{
	b->paused_until = 0;
	trace("%s goes on", b->name);
	world_loop_pause(b->loop, false);
	leaders_stop(b->pg, false);
}

void brokers_begin(const char *providers)
{
	providers_conf = providers;
	brokers[0].wanted = true;
	brokers[1].wanted = DICE(rival);
	for (size_t k = 0; k < BROKERS; k++) {
		skewed_clock_init(&brokers[k].clock, 0);
		if (brokers[k].wanted) {
			broker_start(&brokers[k]);
		}
	}
}

void brokers_turn(const struct loop *turned)
{
	for (size_t k = 0; k < BROKERS; k++) {
		struct broker *b = &brokers[k];

		if (b->up && b->paused_until != 0 && world_now() >= b->paused_until) {
			broker_continue(b);
		}
		if (b->wanted && !b->up && world_now() >= b->down_until) {
			broker_start(b);
		}
		if (!b->up || b->loop != turned) {
			continue;
		}
		/* Between any two turns: a turn ends after each statement, reply and timer. */
		if (DICE(crash)) {
			broker_crash(b);
		} else if (DICE(pause) || world.pause_asked) {
			broker_pause(b);
		}
		world.pause_asked = false;
	}
}

static void clock_set(struct broker *b, int64_t skew_us)
{
	b->clock.skew_us = skew_us;
	world.skew_ahead = MAX(world.skew_ahead, skew_us);
	world.skew_behind = MAX(world.skew_behind, -skew_us);
	world.skew_max = world.skew_ahead + world.skew_behind;
	trace("%s's clock is off by %" PRId64 " s", b->name, skew_us / SPOT_US_PER_S);
}

/* A daemon that starts with such a clock has not seen it jump. */
static bool dies_too(const struct broker *b)
{
	return profile_is(PROFILE_LATE_CLOCK) && b->up && b->paused_until == 0 &&
	    b->wrong_until % 2 == 0;
}

static bool market_raised;

void brokers_market_check(void)
{
	int64_t differed = market_raised;

	for (size_t k = 0; k < BROKERS; k++) {
		if (brokers[k].engine != NULL) {
			differed += engine_market_mended(brokers[k].engine);
		}
	}
	always(differed == 0, "the kept market equals the rows", "%" PRId64 " pools differed",
	    differed);
}

void brokers_market_break(void)
{
	market_raised = true;
	check_rules_end();
	market_raised = false;
}

void brokers_minute(void)
{
	struct broker *b = &brokers[brokers[1].wanted && rng_below(&world.dice, 2) == 0];
	bool near = DICE(clock), far = DICE(clock_far);
	bool boot = DICE(clock_boot) &&
	    check_value("SELECT count(*) FROM node WHERE state = 'BOOTING'") > 0;

	for (size_t k = 0; k < BROKERS; k++) {
		if (brokers[k].wrong_until != 0 && world_now() >= brokers[k].wrong_until) {
			brokers[k].wrong_until = 0;
			clock_set(&brokers[k], 0);
		}
	}
	if (near || far || boot) {
		b->wrong_until = world_now() + dice_us(SPOT_US_PER_S, 600 * SPOT_US_PER_S);
		clock_set(b,
		    boot      ? 900 * SPOT_US_PER_S + llabs(clock_jump_draw())
			: far ? clock_jump_draw()
			      : dice_us(-40 * SPOT_US_PER_S, 40 * SPOT_US_PER_S));
		sometimes(b->clock.skew_us > 0 ? "a daemon's clock jumped forward"
					       : "a daemon's clock jumped back");
		if (boot && dies_too(b)) {
			sometimes("a daemon began with a clock ahead while a machine booted");
			broker_crash(b);
		}
	}
}

bool brokers_on_time(void)
{
	for (size_t k = 0; k < BROKERS; k++) {
		if (llabs(brokers[k].clock.skew_us) >= 60 * SPOT_US_PER_S) {
			return false;
		}
	}
	return true;
}

void brokers_calm(void)
{
	for (size_t k = 0; k < BROKERS; k++) {
		if (brokers[k].clock.skew_us != 0) {
			clock_set(&brokers[k], 0);
		}
		if (brokers[k].paused_until != 0) {
			brokers[k].paused_until = world_now();
		}
	}
}

void brokers_end(void)
{
	for (size_t k = 0; k < BROKERS; k++) {
		if (brokers[k].up) {
			broker_crash(&brokers[k]);
		}
	}
}
