/*
 * Provider instances: those of [provider NAME] sections; with --local and none configured, every
 * built-in one. Keys come from the vendors' own places (environment, files, metadata), through the
 * provider.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "core/spec/spec.h"
#include "io/call/call.h"
#include "registry.h"
#include "spotd/daemon.h"

static const char *env_get(void *ctx, const char *name)
{
	(void)ctx;
	return getenv(name);
}

static const char *setting_get(void *ctx, const char *key)
{
	return ctx == NULL ? NULL : conf_section_get(ctx, key);
}

static int line_of(const struct conf_section *s, const char *key)
{
	for (size_t i = 0; i < s->n; i++) {
		if (strcmp(s->keys[i], key) == 0) {
			return s->lines[i];
		}
	}
	return s->line;
}

/* The key is ours, not the provider's: must its nodes prove what they are when they enrol? */
static enum spot_rc identity_read(const struct spotd_conf *c, const struct conf_section *s,
    bool *ret_off, struct spot_err *err)
{
	const char *v = conf_section_get(s, "identity");

	if (v != NULL && strcmp(v, "required") != 0 && strcmp(v, "off") != 0) {
		return err_set(err, SPOT_CONFIG,
		    "%s:%d: [provider %s] identity = '%.40s': must be required (a node proves its "
		    "identity by its cloud) or off (its one-time token suffices)",
		    c->path, line_of(s, "identity"), s->name, v);
	}
	*ret_off = v != NULL && strcmp(v, "off") == 0;
	return SPOT_OK;
}

/* Ours as well: the vendor's published limits times this; 0 = none. */
#define RATE_MOST 1000
static enum spot_rc rate_read(const struct spotd_conf *c, const struct conf_section *s, double *ret,
    struct spot_err *err)
{
	const char *v = conf_section_get(s, "rate_factor");

	*ret = 1;
	if (v != NULL && !parse_f64(v, 0, RATE_MOST, ret)) {
		return err_set(err, SPOT_CONFIG,
		    "%s:%d: [provider %s] rate_factor = '%.40s': must be a number from 0 (no rate "
		    "limits) to %d",
		    c->path, line_of(s, "rate_factor"), s->name, v, RATE_MOST);
	}
	return SPOT_OK;
}

/* A key that the provider did not ask for is a mistake of spelling, or a secret where none belongs.
 */
static enum spot_rc self_open(const struct spotd_conf *c, const char *name, struct conf_section *s,
    const struct spot_provider_ops *ops, void **ret_self, struct spot_err *err)
{
	struct spot_provider_conf conf = { .name = name,
		.env = env_get,
		.setting = setting_get,
		.ctx = s };
	enum spot_rc rc = ops->open(&conf, ret_self, err);
	const char *key, *near;
	char hint[NEAR_HINT_MAX];
	int line;

	if (rc != SPOT_OK && s != NULL) {
		return err_prefix(err, "%s:%d: [provider %s]", c->path, s->line, name);
	}
	if (rc != SPOT_OK) {
		return err_prefix(err, "[provider %s]", name);
	}
	key = s == NULL ? NULL : conf_section_unasked(s, &line, &near);
	if (key != NULL) {
		ops->close(*ret_self);
		return err_set(err, SPOT_CONFIG,
		    "%s:%d: [provider %s]: no key '%s'; the keys of kind %s are listed in "
		    "providers/%s/README.md%s",
		    c->path, line, name, key, ops->kind, ops->kind, near_hint(near, hint));
	}
	return SPOT_OK;
}

static enum spot_rc open_one(struct providers *p, const struct spotd_conf *c, struct loop *loop,
    struct http_client *http, const char *name, struct conf_section *s,
    const struct spot_provider_ops *ops, struct call_shared *shared, struct spot_err *err)
{
	void *self;
	double rate = 1;
	enum spot_rc rc = s == NULL ? SPOT_OK : rate_read(c, s, &rate, err);

	if (rc == SPOT_OK) {
		rc = self_open(c, name, s, ops, &self, err);
	}
	if (rc != SPOT_OK) {
		return rc;
	}
	p->list = realloc(p->list, (p->n + 1) * sizeof(*p->list));
	if (p->list == NULL) {
		abort();
	}
	p->list[p->n] = call_provider_new(loop, http, ops, self, name, shared);
	call_provider_rate(p->list[p->n++], rate);
	log_info("provider.open", STR("provider", name), STR("kind", ops->kind));
	return SPOT_OK;
}

static enum spot_rc ops_of(const struct spotd_conf *c, const struct conf_section *s,
    const struct spot_provider_ops **ret, struct spot_err *err)
{
	const char *kind = conf_section_get(s, "kind"), *plugin = conf_section_get(s, "plugin");

	if (plugin != NULL) {
		enum spot_rc rc = call_plugin_load(plugin, ret, err);

		return rc == SPOT_OK ? rc
				     : err_prefix(err, "%s:%d: [provider %s]", c->path,
					   line_of(s, "plugin"), s->name);
	}
	*ret = provider_by_kind(kind == NULL ? s->name : kind);
	if (*ret == NULL) {
		return err_set(err, SPOT_CONFIG,
		    "%s:%d: [provider %s]: no built-in provider kind '%s'; set kind, or set plugin "
		    "to a shared object",
		    c->path, line_of(s, "kind"), s->name, kind == NULL ? s->name : kind);
	}
	return SPOT_OK;
}

/* The signer of the store's URLs is one of ours and can. Without sections there is nothing to hold
 * it against. */
enum spot_rc store_check(const struct spotd_conf *c, struct spot_err *err)
{
	const struct spot_provider_ops *ops = NULL;
	enum spot_rc rc;

	if (str_empty(c->store) || c->file.n == 0) {
		return SPOT_OK;
	}
	for (size_t i = 0; i < c->file.n; i++) {
		if (strcmp(c->file.sections[i].name, c->store_provider) == 0 &&
		    (rc = ops_of(c, &c->file.sections[i], &ops, err)) != SPOT_OK) {
			return rc;
		}
	}
	if (ops == NULL) {
		return err_set(err, SPOT_CONFIG,
		    "[checkpoint] provider = '%.40s': no section [provider %.40s]; name the "
		    "provider with credentials for %.80s",
		    c->store_provider, c->store_provider, c->store);
	}
	if (ops->presign == NULL) {
		return err_set(err, SPOT_CONFIG,
		    "[checkpoint] provider = '%.40s': kind %s has no object store; name a provider "
		    "of kind aws, gcp, azure or coreweave",
		    c->store_provider, ops->kind);
	}
	if (!store_uri_signed_by(c->store, ops->kind)) {
		return err_set(err, SPOT_CONFIG,
		    "[checkpoint] store = '%.80s' does not fit provider = '%.40s' of kind %s; "
		    "s3:// needs aws or coreweave, gs:// gcp, az:// azure",
		    c->store, c->store_provider, ops->kind);
	}
	return SPOT_OK;
}

/* Into p->identity_off, which grows as the list does. */
static enum spot_rc identity_add(struct providers *p, const struct spotd_conf *c,
    const struct conf_section *s, struct spot_err *err)
{
	bool off = false;
	enum spot_rc rc = identity_read(c, s, &off, err);

	if (rc == SPOT_OK && off) {
		p->identity_off =
		    realloc(p->identity_off, (p->identity_off_n + 1) * sizeof(*p->identity_off));
		if (p->identity_off == NULL) {
			abort();
		}
		p->identity_off[p->identity_off_n++] = s->name;
		log_warn("provider.identity_off", STR("provider", s->name),
		    STR("hint",
			"a copy of a node's one-time token suffices to impersonate the node"));
	}
	return rc;
}

static void unopened_add(struct providers *p, const char *kind, const char *why)
{
	struct engine_unopened *u =
	    realloc(p->unopened, (p->unopened_n + 1) * sizeof(*p->unopened));
	char *words = strdup(why);

	if (u == NULL || words == NULL) {
		abort();
	}
	p->unopened = u;
	p->unopened[p->unopened_n++] = (struct engine_unopened){ .name = kind, .why = words };
}

enum spot_rc providers_open(struct providers *p, struct loop *loop, struct http_client *http,
    const struct spotd_conf *conf, bool local, struct call_shared *shared, struct spot_err *err)
{
	size_t n;
	const struct spot_provider_ops *const *all = provider_registry(&n);
	enum spot_rc rc = store_check(conf, err);

	for (size_t i = 0; i < conf->file.n && rc == SPOT_OK; i++) {
		struct conf_section *s = &conf->file.sections[i];
		const struct spot_provider_ops *ops;

		rc = ops_of(conf, s, &ops, err);
		if (rc == SPOT_OK) {
			rc = identity_add(p, conf, s, err);
		}
		if (rc == SPOT_OK) {
			rc = open_one(p, conf, loop, http, s->name, s, ops, shared, err);
		}
	}
	for (size_t i = 0; i < n && rc == SPOT_OK && local && conf->file.n == 0; i++) {
		struct spot_err skip;

		/* Without keys it cannot be used; that is no reason not to start. */
		if (open_one(p, conf, loop, http, all[i]->kind, NULL, all[i], shared, &skip) !=
		    SPOT_OK) {
			log_info("provider.skipped", STR("kind", all[i]->kind),
			    STR("why", skip.text));
			unopened_add(p, all[i]->kind, skip.text);
		}
	}
	return rc;
}

/* Each of its mistakes that can be seen without the others. */
static void check_one(const struct spotd_conf *c, struct conf_section *s, struct sbuf *ret,
    struct conf_mistakes *all)
{
	const struct spot_provider_ops *ops;
	struct spot_err err = { 0 };
	bool off = false, good = true;
	double rate;
	void *self;

	if (ops_of(c, s, &ops, &err) != SPOT_OK) {
		conf_mistake(all, &err);
		return;
	}
	if (identity_read(c, s, &off, &err) != SPOT_OK) {
		conf_mistake(all, &err);
		good = false;
	}
	if (rate_read(c, s, &rate, &err) != SPOT_OK) {
		conf_mistake(all, &err);
	}
	if (self_open(c, s->name, s, ops, &self, &err) != SPOT_OK) {
		conf_mistake(all, &err);
		return;
	}
	ops->close(self);
	if (good) {
		sbuf_printf(ret, "[provider %s] identity = %s: %s\n", s->name,
		    off ? "off" : "required",
		    off ? "a node enrols with its one-time token alone"
			: ops->verify != NULL
			? "a node proves by its cloud that it is the launched machine"
			: "this cloud has no proof of identity; a node enrols with its one-time "
			  "token alone");
	}
}

void providers_check(const struct spotd_conf *conf, struct sbuf *ret, struct conf_mistakes *all)
{
	struct spot_err err = { 0 };

	if (store_check(conf, &err) != SPOT_OK) {
		conf_mistake(all, &err);
	}
	for (size_t i = 0; i < conf->file.n; i++) {
		check_one(conf, &conf->file.sections[i], ret, all);
	}
}

void providers_close(struct providers *p)
{
	for (size_t i = 0; i < p->n; i++) {
		call_provider_free(p->list[i]);
	}
	free(p->list);
	free(p->identity_off);
	for (size_t i = 0; i < p->unopened_n; i++) {
		free(p->unopened[i].why);
	}
	free(p->unopened);
	*p = (struct providers){ 0 };
}
