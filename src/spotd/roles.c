/*
 * Wires the roles together. api: public port, no cloud keys (no provider is opened). engine: cloud
 * keys, no port. all: both. They meet in the database only. The main loop has the signals, the
 * agent's programs and the API; the engine has a thread of its own (daemon.h).
 */
#include "base/base.h"
#include "api/api.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"
#include "engine/engine.h"
#include "spotd/daemon.h"
#include "spotd/version.h"
#include "store/q.h"

#include <jansson.h>
#include <signal.h>
#include <unistd.h>

#define STOP_US (10 * SPOT_US_PER_S)

/* Configurations before a reload: the listen address and providers' settings still point there. */
struct old_conf {
	struct arena *arena;
	struct old_conf *next;
};

struct daemon {
	const struct options *options;
	struct spotd_conf *conf;
	struct rng rng;
	struct loop *loop;
	struct pg *pg;
	struct api *api;
	struct engine_role *engine;
	struct arena *arena; /* strings of the engine's configuration */
	struct agents agents;
	char install[9], agent_dir[4096];
	struct str enrol_key;
	struct loop_signal term, intr, hup;
	struct loop_timer stop_timer, drain_timer;
	struct old_conf *old;
	bool stopping;
};

/* ---- start -------------------------------------------------------------------------------------
 */

/* The installation's identity: made by whoever comes first, for ever. */
static enum spot_rc install_read(struct daemon *d, struct spot_err *err)
{
	struct pg_req req = { 0 };
	struct q_install_ensure_row *row;
	char id[9];
	uint8_t key[32];
	enum spot_rc rc;

	rng_hex(&d->rng, id, 4);
	d->rng.fill(&d->rng, key, sizeof(key));
	q_install_ensure(d->pg, &req,
	    &(struct q_install_ensure){ .id = id,
		.enrol_key = { (const char *)key, sizeof(key) },
		.now_us = loop_wall_us(d->loop) },
	    once_done);
	rc = once_wait(d->loop, &req.op, err);
	if (rc == SPOT_OK && q_install_ensure_rows(&req, d->arena, &row) == 1) {
		snprintf(d->install, sizeof(d->install), "%s", row->id);
		d->enrol_key = row->enrol_key;
	}
	pg_req_fini(&req);
	return rc;
}

static void agent_dir_find(struct daemon *d)
{
	char path[sizeof(d->agent_dir) + 16];
	char *slash;
	ssize_t n;

	if (!str_empty(d->conf->agent_dir)) {
		snprintf(d->agent_dir, sizeof(d->agent_dir), "%s", d->conf->agent_dir);
		return;
	}
	n = readlink("/proc/self/exe", d->agent_dir, sizeof(d->agent_dir) - 1);
	d->agent_dir[n > 0 ? n : 0] = '\0';
	slash = strrchr(d->agent_dir, '/');
	if (slash != NULL) {
		*slash = '\0';
	}
	/* Not installed yet: in a build folder the programs stand in a folder each. */
	snprintf(path, sizeof(path), "%s/spot-agent", d->agent_dir);
	slash = strrchr(d->agent_dir, '/');
	if (!file_exists(path) && slash != NULL) {
		snprintf(path, sizeof(path), "%.*s/agent", (int)(slash - d->agent_dir),
		    d->agent_dir);
		if (file_exists(path)) {
			snprintf(slash, sizeof(d->agent_dir) - (size_t)(slash - d->agent_dir),
			    "/agent");
		}
	}
}

/* NULL: nobody knows. An API alone, whose own file may have no [checkpoint], does not tell agents
 * not to save. */
static const char *store_known(const struct daemon *d)
{
	return d->options->role_engine || !str_empty(d->conf->store) ? d->conf->store : NULL;
}

/* NULL: there is no store. */
static const char *store_provider(const struct spotd_conf *c)
{
	return str_empty(c->store) ? NULL : c->store_provider;
}

static enum spot_rc api_start(struct daemon *d, struct spot_err *err)
{
	const struct spotd_conf *c = d->conf;
	struct api_conf conf = {
		.address = c->address,
		.port = c->port,
		.tls_cert = str_empty(c->tls_cert) ? NULL : c->tls_cert,
		.tls_key = str_empty(c->tls_key) ? NULL : c->tls_key,
		.connections_max = (int)c->api_connections,
		.install = d->install,
		.version = SPOTD_VERSION,
		.handout = d->agents.now,
		.place = engine_place_policy(&c->engine),
		.orphan_timeout_us = c->orphan_timeout_us,
		.store_provider = store_provider(c),
		.store_region = c->store_region,
		.store = store_known(d),
		.classes = c->classes,
	};

	if (conf.store != NULL && str_empty(conf.store)) {
		log_warn("store.none", STR("hint", "no job is saved; set [checkpoint] store"));
	}
	return api_new(d->loop, d->pg, &conf, &d->api, err);
}

static const char *public_url(struct daemon *d)
{
	const struct spotd_conf *c = d->conf;
	const char *host = c->address;

	if (!str_empty(c->public_url)) {
		return arena_strdup(d->arena, c->public_url);
	}
	if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0) {
		host = "127.0.0.1";
	}
	return arena_printf(d->arena, strchr(host, ':') != NULL ? "%s://[%s]:%d" : "%s://%s:%d",
	    str_empty(c->tls_cert) ? "http" : "https", host,
	    d->api != NULL ? api_port(d->api) : c->port);
}

/* The engine's strings must outlive a reload: they are copied to our arena. */
static void engine_conf_fill(struct daemon *d, struct engine_conf *ret)
{
	*ret = d->conf->engine;
	ret->public_url = public_url(d);
	ret->ca_pem =
	    d->conf->public_ca_pem == NULL ? NULL : arena_strdup(d->arena, d->conf->public_ca_pem);
	ret->agent_sha256 = arena_strdup(d->arena, agents_sha256(&d->agents, "spot-agent"));
	ret->nvml_sha256 = arena_strdup(d->arena, agents_sha256(&d->agents, "spot-nvml"));
	ret->agent_arm64_sha256 =
	    arena_strdup(d->arena, agents_sha256(&d->agents, "spot-agent-aarch64"));
	ret->nvml_arm64_sha256 =
	    arena_strdup(d->arena, agents_sha256(&d->agents, "spot-nvml-aarch64"));
	ret->agent_not_kept = !d->agents.kept;
	ret->store_bucket = arena_strdup(d->arena, ret->store_bucket);
	ret->store_prefix = arena_strdup(d->arena, ret->store_prefix);
	ret->store_provider = arena_strdup(d->arena, ret->store_provider);
	ret->store_region = arena_strdup(d->arena, ret->store_region);
	ret->store_endpoint = arena_strdup(d->arena, ret->store_endpoint);
}

/* The handed-out and the pinned programs change together. */
static void agents_changed(void *ctx)
{
	struct daemon *d = ctx;
	struct engine_conf conf;

	if (d->api != NULL) {
		api_set_handout(d->api, d->agents.now);
	}
	if (d->engine != NULL) {
		engine_conf_fill(d, &conf);
		engine_role_reload(d->engine, &conf, &d->conf->poller);
	}
}

/* The engine pins what was read here, and the API hands it out. */
static void agents_read(struct daemon *d)
{
	agent_dir_find(d);
	agents_init(&d->agents, d->loop, d->options->role_engine ? d->pg : NULL, d->agent_dir,
	    agents_changed, d);
	for (size_t i = 0; i < 2; i++) {
		const struct handout_file *f = &d->agents.now->files[i];

		if (f->bytes.n == 0) {
			log_warn("agent.missing", STR("file", f->name), STR("folder", d->agent_dir),
			    STR("hint", "nodes cannot download it; set [api] agent_dir"));
		}
	}
}

static enum spot_rc engine_start(struct daemon *d, const char *dsn, struct spot_err *err)
{
	struct engine_conf conf;

	engine_conf_fill(d, &conf);
	return engine_role_new(&(struct engine_role_deps){ .main = d->loop,
				   .dsn = dsn,
				   .conf = d->conf,
				   .engine = &conf,
				   .local = d->options->local,
				   .install = d->install,
				   .enrol_key = d->enrol_key },
	    &d->engine, err);
}

static enum spot_rc state_write(const struct daemon *d, struct spot_err *err)
{
	char text[128];

	if (d->options->state_file == NULL) {
		return SPOT_OK;
	}
	snprintf(text, sizeof(text), "{\"port\":%d,\"pid\":%d,\"install\":\"%s\"}\n",
	    d->api != NULL ? api_port(d->api) : 0, (int)getpid(), d->install);
	return file_write(d->options->state_file, text, 0644, err);
}

/* ---- signals ------------------------------------------------------------------------------------
 */

static void stop_over(struct daemon *d)
{
	loop_quit(d->loop);
}

static void stop_forced(struct loop_timer *t)
{
	stop_over(container_of(t, struct daemon, stop_timer));
}

static void stop_poll(struct loop_timer *t)
{
	struct daemon *d = container_of(t, struct daemon, drain_timer);

	if (d->api == NULL || api_open_connections(d->api) == 0) {
		stop_over(d);
		return;
	}
	loop_timer_set(t, 50000);
}

static void lease_given(void *ctx)
{
	struct daemon *d = ctx;

	loop_timer_set(&d->drain_timer, 1000);
}

static void roles_stop(struct daemon *d, const char *signal_name)
{
	if (d->stopping) {
		stop_over(d); /* asked twice: at once */
		return;
	}
	d->stopping = true;
	log_info("spotd.stopping", STR("signal", signal_name));
	notify_systemd("STOPPING=1");
	if (d->api != NULL) {
		api_drain(d->api);
	}
	loop_timer_set(&d->stop_timer, STOP_US);
	if (d->engine != NULL) {
		engine_role_release(d->engine, lease_given, d);
	} else {
		lease_given(d);
	}
}

static void got_term(struct loop_signal *s)
{
	roles_stop(container_of(s, struct daemon, term), "SIGTERM");
}

static void got_intr(struct loop_signal *s)
{
	roles_stop(container_of(s, struct daemon, intr), "SIGINT");
}

static enum log_level level_of(const char *s)
{
	return strcmp(s, "debug") == 0 ? LOG_DEBUG
	    : strcmp(s, "warn") == 0   ? LOG_WARN
	    : strcmp(s, "error") == 0  ? LOG_ERROR
				       : LOG_INFO;
}

static void log_start(const struct spotd_conf *c)
{
	log_init(&(struct log_conf){ .fd = STDERR_FILENO,
	    .level = level_of(c->log_level),
	    .json = c->log_json,
	    .program = "spotd",
	    .clock = &clock_real });
}

/* The store's signer is one of the providers of the file, and one of those that run: a new section
 * waits for the next start. */
static enum spot_rc reload_check(const struct daemon *d, const struct spotd_conf *fresh,
    struct spot_err *err)
{
	struct spotd_conf running = *fresh;
	enum spot_rc rc;

	if (!d->options->role_engine) {
		return SPOT_OK;
	}
	rc = store_check(fresh, err);
	running.file = d->conf->file;
	if (rc == SPOT_OK && store_check(&running, err) != SPOT_OK) {
		rc = err_set(err, SPOT_CONFIG,
		    "[checkpoint] provider = '%.40s': the [provider NAME] sections of the start "
		    "cannot presign for %.80s; restart the daemon",
		    fresh->store_provider, fresh->store);
	}
	return rc;
}

/* A bad file changes nothing. Settings that cannot change while we run (addresses, database,
 * providers) wait for the next start. */
static void got_hup(struct loop_signal *s)
{
	struct daemon *d = container_of(s, struct daemon, hup);
	struct spotd_conf fresh = { 0 };
	struct old_conf *old;
	struct engine_conf conf;
	struct spot_err err;

	if (d->options->config == NULL || d->stopping) {
		return;
	}
	if (spotd_conf_read(d->options->config, &fresh, NULL, &err) != SPOT_OK ||
	    reload_check(d, &fresh, &err) != SPOT_OK) {
		log_error("config.refused", STR("error", err.text));
		spotd_conf_free(&fresh);
		return;
	}
	old = arena_alloc(d->arena, sizeof(*old));
	*old = (struct old_conf){ .arena = d->conf->arena, .next = d->old };
	d->old = old;
	fresh.listen = d->conf->listen;
	fresh.address = d->conf->address;
	fresh.port = d->conf->port;
	fresh.file = d->conf->file;
	*d->conf = fresh;
	log_start(d->conf);
	if (d->engine != NULL) {
		engine_conf_fill(d, &conf);
		engine_role_reload(d->engine, &conf, &d->conf->poller);
	}
	if (d->api != NULL) {
		struct place_policy place = engine_place_policy(&d->conf->engine);

		api_set_place(d->api, &place);
		api_set_classes(d->api, &d->conf->classes);
		api_set_orphan_timeout(d->api, d->conf->orphan_timeout_us);
		api_set_store(d->api, store_known(d), store_provider(d->conf),
		    d->conf->store_region);
	}
	agents_reload(&d->agents, d->agent_dir);
	if (d->api != NULL && !str_empty(d->conf->tls_cert) &&
	    api_reload_tls(d->api, &err) != SPOT_OK) {
		log_error("tls.refused", STR("error", err.text));
	}
	log_info("config.reloaded", STR("file", d->options->config));
}

/* ---- the daemon
 * ------------------------------------------------------------------------------------ */

static enum spot_rc daemon_start(struct daemon *d, const char *dsn, struct spot_err *err)
{
	enum spot_rc rc = install_read(d, err);

	if (rc == SPOT_OK) {
		agents_read(d);
	}
	if (rc == SPOT_OK && d->options->role_api) {
		rc = api_start(d, err);
	}
	if (rc == SPOT_OK && d->options->role_engine) {
		rc = engine_start(d, dsn, err);
	}
	if (rc == SPOT_OK && d->engine != NULL) {
		rc = engine_role_start(d->engine, err);
	}
	if (rc == SPOT_OK) {
		rc = state_write(d, err);
	}
	return rc;
}

static void daemon_stop(struct daemon *d)
{
	engine_role_free(d->engine);
	api_free(d->api);
	agents_fini(&d->agents);
	pg_free(d->pg);
	loop_free(d->loop);
	mem_wipe(&d->rng, sizeof(d->rng));
	for (struct old_conf *o = d->old; o != NULL; o = o->next) {
		arena_free(o->arena);
	}
	arena_free(d->arena);
}

int daemon_run(const struct options *o, struct spotd_conf *conf, const char *dsn,
    const char *admin_token_file)
{
	struct daemon d = { .options = o, .conf = conf, .arena = arena_new(0) };
	struct spot_err err;
	enum spot_rc rc;

	log_start(conf);
	json_object_seed(0); /* before there are threads: jansson has no lock for it */
	rng_real_init(&d.rng);
	d.loop = loop_new(&clock_real, &d.rng);
	d.pg = pg_new(d.loop,
	    &(struct pg_conf){ .dsn = dsn,
		.connections = o->role_api ? (int)conf->db_connections : 1,
		.long_connections = (int)conf->db_connections / 4,
		.agent_connections = (int)conf->db_connections / 4,
		.statement_timeout_us = conf->db_timeout_us,
		.application = "spotd" });
	rc = daemon_start(&d, dsn, &err);
	if (rc != SPOT_OK) {
		log_error("spotd.start", STR("rc", spot_rc_name(rc)), STR("error", err.text));
		daemon_stop(&d);
		return 1;
	}
	loop_timer_init(&d.stop_timer, d.loop, stop_forced);
	loop_timer_init(&d.drain_timer, d.loop, stop_poll);
	loop_signal_start(&d.term, d.loop, SIGTERM, got_term);
	loop_signal_start(&d.intr, d.loop, SIGINT, got_intr);
	loop_signal_start(&d.hup, d.loop, SIGHUP, got_hup);
	log_info("spotd.ready", STR("version", SPOTD_VERSION), STR("install", d.install),
	    STR("listen", d.api != NULL ? conf->address : ""),
	    I64("port", d.api != NULL ? api_port(d.api) : 0),
	    STR("admin_token_file", admin_token_file),
	    I64("providers", engine_role_providers(d.engine)));
	notify_systemd("READY=1");
	loop_run(d.loop);
	loop_signal_stop(&d.term);
	loop_signal_stop(&d.intr);
	loop_signal_stop(&d.hup);
	loop_timer_stop(&d.stop_timer);
	loop_timer_stop(&d.drain_timer);
	daemon_stop(&d);
	return 0;
}
