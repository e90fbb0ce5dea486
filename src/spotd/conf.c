/* Reads the configuration file: the table of keys (conf_items.c), the checks that the table cannot
 * express, and the sections with names. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotd/conf.h"
#include "spotd/daemon.h"

#define ORPHAN_TIMEOUT_MIN_US (60 * SPOT_US_PER_S)
static enum spot_rc listen_split(struct spotd_conf *c, struct spot_err *err)
{
	const char *colon = strrchr(c->listen, ':');
	int64_t port;

	if (colon == NULL || colon == c->listen || !parse_i64(colon + 1, 0, 65535, &port)) {
		return err_set(err, SPOT_CONFIG, "[api] listen = '%.80s': must be ADDRESS:PORT",
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
		    "[checkpoint] store = '%.80s': must be s3://bucket/prefix, gs://bucket/prefix "
		    "or az://container/prefix",
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
	return err_set(err, SPOT_CONFIG,
	    "[log] level = '%.40s': must be debug, info, warn or error", c->log_level);
}

/* Members without a setting keep their defaults. */
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
		return err_set(err, SPOT_CONFIG, "[api] tls_cert and tls_key: set both or neither");
	}
	return SPOT_OK;
}

static enum spot_rc cool_check(struct spotd_conf *c, struct spot_err *err)
{
	if (c->engine.cool_min_us > c->engine.cool_max_us) {
		return err_set(err, SPOT_CONFIG, "[engine] cool_min must not exceed cool_max");
	}
	return SPOT_OK;
}

/* An agent hears from us when its poll is answered, which is held for 25 s without news. A
 * fail-over of the daemon takes time, too. */
static enum spot_rc orphan_check(struct spotd_conf *c, struct spot_err *err)
{
	if (c->orphan_timeout_us > 0 && c->orphan_timeout_us < ORPHAN_TIMEOUT_MIN_US) {
		return err_set(err, SPOT_CONFIG,
		    "[api] orphan_timeout must be at least 1m (agents poll every 25 s), or 0s for "
		    "never");
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
		    "[engine] rebalance_hours = '%.60s': must be hours from 0 to 23 or ranges, "
		    "such as 22-5,12",
		    c->rebalance_hours);
	}
	return SPOT_OK;
}

/* Checks beyond the table, and values derived from settings. */
static const struct {
	enum spot_rc (*run)(struct spotd_conf *c, struct spot_err *err);
	size_t at; /* the setting whose line has the mistake */
} checks[] = {
	{ listen_split, CONF_AT(listen) },
	{ tls_check, CONF_AT(tls_cert) },
	{ store_split, CONF_AT(store) },
	{ level_check, CONF_AT(log_level) },
	{ cool_check, CONF_AT(engine.cool_min_us) },
	{ ca_read, CONF_AT(public_ca) },
	{ hours_parse, CONF_AT(rebalance_hours) },
	{ orphan_check, CONF_AT(orphan_timeout_us) },
};

/* Mistakes as they are found: the first in err; every one in all, where that is asked for. */
struct finder {
	struct conf_mistakes *all;
	struct spot_err *err;
	enum spot_rc rc;
};

static void finder_add(struct finder *f, const struct spot_err *e)
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

static void conf_derive(struct spotd_conf *c, struct finder *f)
{
	for (size_t i = 0; i < ARRAY_LEN(checks) && goes_on(f); i++) {
		struct spot_err e = { 0 };

		if (checks[i].run(c, &e) == SPOT_OK) {
			continue;
		}
		for (size_t k = 0; k < spotd_conf_items_n; k++) {
			if (spotd_conf_items[k].at == checks[i].at && c->file.item_lines[k] != 0) {
				(void)err_prefix(&e, "%s:%d", c->path, c->file.item_lines[k]);
			}
		}
		finder_add(f, &e);
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
		    "%s:%d: [class %s]: no such class; valid are training, batch_inference, "
		    "fine_tune, eval, sweep, dev, serving",
		    c->path, s->line, s->name);
		finder_add(f, &e);
		return;
	}
	for (size_t i = 0; i < s->n && goes_on(f); i++) {
		if (class_set(p, s->keys[i], s->values[i], &e) != SPOT_OK) {
			(void)err_prefix(&e, "%s:%d: [class %s]", c->path, s->lines[i], s->name);
			finder_add(f, &e);
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
		    "%s:%d: [share %.70s]: a team name must have at most %d bytes", c->path,
		    s->line, s->name, TEAM_MAX);
		finder_add(f, &e);
	}
	for (size_t i = 0; i < s->n && goes_on(f); i++) {
		if (strcmp(s->keys[i], "weight") != 0) {
			(void)err_set(&e, SPOT_CONFIG,
			    "%s:%d: [share %s]: no key '%.40s'; valid is weight", c->path,
			    s->lines[i], s->name, s->keys[i]);
			finder_add(f, &e);
		} else if (!parse_f64(s->values[i], 0.001, 1000, &weight)) {
			(void)err_set(&e, SPOT_CONFIG,
			    "%s:%d: [share %s] weight = '%.40s': must be a number from 0.001 to "
			    "1000; 1 is normal",
			    c->path, s->lines[i], s->name, s->values[i]);
			finder_add(f, &e);
		}
	}
	if (s->n == 0) {
		(void)err_set(&e, SPOT_CONFIG, "%s:%d: [share %s]: weight is missing", c->path,
		    s->line, s->name);
		finder_add(f, &e);
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
			    "%s:%d: [%s %s]: no such section; only [provider NAME], [class NAME] "
			    "and [share NAME] have names",
			    c->path, s->line, s->kind, s->name);
			finder_add(f, &e);
		}
	}
	c->file.n = kept;
}

static enum spot_rc conf_take(struct spotd_conf *c, struct str text, struct conf_mistakes *all,
    struct spot_err *err)
{
	struct finder f = { .all = all, .err = err };

	f.rc = conf_parse_all(c->arena, spotd_conf_items, spotd_conf_items_n, c->path, text, c,
	    &c->file, all, err);
	class_table_default(&c->classes);
	if (goes_on(&f)) {
		sections_take(c, &f);
	}
	if (goes_on(&f)) {
		conf_derive(c, &f);
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
	conf_print(spotd_conf_items, spotd_conf_items_n, c, with_help, out);
}
