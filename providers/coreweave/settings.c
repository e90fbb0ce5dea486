/*
 * Settings, read and checked once, at open. Only keys with a dot (price.TYPE.MARKET,
 * kubeconfig.CLUSTER, zone.CLUSTER) are looked up by name.
 */
#include "base/base.h"
#include "coreweave_priv.h"

#define API_ENDPOINT "https://api.coreweave.com"
#define OBJECT_ENDPOINT "https://cwobject.com"
#define LIST_MAX 32

const char *cw_setting(const struct cw *self, const char *key)
{
	const char *v = self->conf.setting != NULL ? self->conf.setting(self->conf.ctx, key) : NULL;

	return str_empty(v) ? NULL : v;
}

const char *cw_env(const struct cw *self, const char *name)
{
	const char *v = self->conf.env != NULL ? self->conf.env(self->conf.ctx, name) : NULL;

	return str_empty(v) ? NULL : v;
}

static enum spot_rc setting_fail(const struct cw *self, struct spot_err *err, const char *key,
    const char *words)
{
	return err_set(err, SPOT_CONFIG, "provider %s: %s %s", self->name, key, words);
}

static bool http_is_local(const char *url)
{
	static const char *const hosts[] = { "http://127.0.0.1", "http://localhost",
		"http://[::1]" };

	for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
		if (str_prefix(url, hosts[i]) && strchr(":/", url[strlen(hosts[i])]) != NULL) {
			return true; /* strchr finds the end of the text as well */
		}
	}
	return false;
}

static enum spot_rc url_get(const struct cw *self, const char *key, const char *var,
    const char *dflt, const char **ret, struct spot_err *err)
{
	const char *v = cw_setting(self, key);
	size_t n;

	v = v != NULL ? v : var != NULL ? cw_env(self, var) : NULL;
	v = v != NULL ? v : dflt;
	n = strlen(v);
	while (n > 0 && v[n - 1] == '/') {
		n--;
	}
	*ret = arena_strndup(self->arena, v, n);
	/* Plain HTTP would send the token in the clear: only to this machine. */
	if (!cw_server_ok(*ret) && (!http_is_local(*ret) || strpbrk(*ret, " ?#@") != NULL)) {
		return setting_fail(self, err, key, "must be a plain https:// address");
	}
	return SPOT_OK;
}

static enum spot_rc name_get(const struct cw *self, const char *key, const char *dflt,
    const char **ret, struct spot_err *err)
{
	const char *v = cw_setting(self, key);

	*ret = v != NULL ? arena_strdup(self->arena, v) : dflt;
	if (*ret != NULL &&
	    (strlen(*ret) > 63 ||
		strspn(*ret, "abcdefghijklmnopqrstuvwxyz0123456789-.") != strlen(*ret))) {
		return setting_fail(self, err, key,
		    "must be a Kubernetes name: lower case letters, digits and '-'");
	}
	return SPOT_OK;
}

static enum spot_rc bool_get(const struct cw *self, const char *key, bool *ret,
    struct spot_err *err)
{
	const char *v = cw_setting(self, key);

	*ret = v != NULL && strcmp(v, "true") == 0;
	return v == NULL || *ret || strcmp(v, "false") == 0
	    ? SPOT_OK
	    : setting_fail(self, err, key, "must be true or false");
}

static enum spot_rc wait_get(const struct cw *self, const char *key, int64_t dflt, int64_t *ret,
    struct spot_err *err)
{
	const char *v = cw_setting(self, key);

	*ret = dflt;
	if (v != NULL && (!parse_duration_us(v, ret) || *ret < 0 || *ret > 24 * SPOT_US_PER_HOUR)) {
		return setting_fail(self, err, key, "must be a duration such as 20m, at most 24h");
	}
	return SPOT_OK;
}

/* "a, b" into words. */
static size_t words_get(const struct cw *self, const char *key, const char **ret, size_t most)
{
	const char *v = cw_setting(self, key);
	size_t n = 0;

	while (v != NULL && *v != '\0' && n < most) {
		size_t skip = strspn(v, ", \t"), len = strcspn(v + skip, ", \t");

		if (len > 0) {
			ret[n++] = arena_strndup(self->arena, v + skip, len);
		}
		v += skip + len;
	}
	return n;
}

/* "key", "key=value", "key:Effect", "key=value:Effect" */
static enum spot_rc tolerations_read(struct cw *self, struct spot_err *err)
{
	static const char *const effects[] = { "NoSchedule", "PreferNoSchedule", "NoExecute" };
	const char *words[LIST_MAX];
	size_t n = words_get(self, "tolerations", words, LIST_MAX);

	self->tolerations = arena_array(self->arena, n + 1, sizeof(*self->tolerations));
	for (size_t i = 0; i < n; i++) {
		struct cw_toleration *t = &self->tolerations[self->tolerations_n++];
		const char *colon = strchr(words[i], ':'), *equal = strchr(words[i], '=');
		bool known = colon == NULL;

		t->key = arena_strndup(self->arena, words[i], strcspn(words[i], "=:"));
		t->effect = colon != NULL ? colon + 1 : NULL;
		t->value = equal != NULL
		    ? arena_strndup(self->arena, equal + 1, strcspn(equal + 1, ":"))
		    : NULL;
		for (size_t k = 0; k < ARRAY_LEN(effects); k++) {
			known = known || strcmp(effects[k], t->effect) == 0;
		}
		if (t->key[0] == '\0' || !known) {
			return setting_fail(self, err, "tolerations",
			    "must be a list of "
			    "key[=value][:NoSchedule|PreferNoSchedule|NoExecute]");
		}
	}
	return SPOT_OK;
}

static enum spot_rc secret_get(const struct cw *self, struct secret *s, const char *v,
    const char *what, struct spot_err *err)
{
	size_t n = strlen(v);

	if (n < 8 || n > 8192 || strpbrk(v, " \t\r\n") != NULL) {
		return setting_fail(self, err, what,
		    "is not a token: at least 8 characters without blanks");
	}
	secret_init(s, v, n);
	return SPOT_OK;
}

static enum spot_rc tokens_read(struct cw *self, struct spot_err *err)
{
	const char *file = cw_setting(self, "api_token_file"),
		   *env = cw_env(self, "COREWEAVE_API_TOKEN");
	const char *object = cw_env(self, "COREWEAVE_S3_SECRET_ACCESS_KEY"),
		   *key = cw_setting(self, "object_access_key");
	enum spot_rc rc = SPOT_OK;

	self->api_token_file = file != NULL ? arena_strdup(self->arena, file) : NULL;
	if (file == NULL && env != NULL) {
		rc = secret_get(self, &self->api_token, env, "COREWEAVE_API_TOKEN", err);
	}
	key = key != NULL ? key : cw_env(self, "COREWEAVE_S3_ACCESS_KEY_ID");
	self->object_key = arena_strdup(self->arena, key);
	file = cw_setting(self, "object_secret_file");
	self->object_secret_file = arena_strdup(self->arena, file);
	if (rc == SPOT_OK && file == NULL && object != NULL) {
		rc = secret_get(self, &self->object_secret, object,
		    "COREWEAVE_S3_SECRET_ACCESS_KEY", err);
	}
	rc =
	    rc != SPOT_OK ? rc : bool_get(self, "object_path_style", &self->object_path_style, err);
	self->object_host_style =
	    cw_setting(self, "object_path_style") != NULL && !self->object_path_style;
	return rc != SPOT_OK ? rc
			     : url_get(self, "object_endpoint", "COREWEAVE_S3_ENDPOINT",
				   OBJECT_ENDPOINT, &self->object_endpoint, err);
}

static enum spot_rc pod_read(struct cw *self, struct spot_err *err)
{
	int64_t spot_wait = self->cks ? 20 * 60 * SPOT_US_PER_S : 0,
		wait = self->cks ? 40 * 60 * SPOT_US_PER_S : 0;
	const char *image = cw_setting(self, "image"), *audience = cw_setting(self, "audience");
	enum spot_rc rc = name_get(self, "namespace", "spotbroker", &self->space, err);

	rc = rc != SPOT_OK ? rc : name_get(self, "service_account", NULL, &self->account, err);
	rc = rc != SPOT_OK
	    ? rc
	    : name_get(self, "node_service_account", "spotbroker-node", &self->node_account, err);
	rc = rc != SPOT_OK ? rc : name_get(self, "runtime_class", NULL, &self->runtime_class, err);
	rc = rc != SPOT_OK ? rc : bool_get(self, "host_network", &self->host_network, err);
	rc = rc != SPOT_OK
	    ? rc
	    : wait_get(self, "pending_timeout_spot", spot_wait, &self->pending_spot_us, err);
	rc = rc != SPOT_OK ? rc : wait_get(self, "pending_timeout", wait, &self->pending_us, err);
	rc = rc != SPOT_OK ? rc : tolerations_read(self, err);
	self->image = arena_strdup(self->arena, image);
	self->audience = arena_strdup(self->arena, audience);
	if (rc == SPOT_OK && image != NULL &&
	    (strlen(image) > 500 || strpbrk(image, " \t\"'\\") != NULL)) {
		rc = setting_fail(self, err, "image", "is not the name of a container image");
	}
	return rc;
}

static enum spot_rc cluster_read(struct cw *self, const char *name, const char *dflt,
    struct spot_err *err)
{
	const char *file = cw_setting(self, arena_printf(self->arena, "kubeconfig.%s", name));
	const char *zone = cw_setting(self, arena_printf(self->arena, "zone.%s", name));
	const char *context = cw_setting(self, arena_printf(self->arena, "context.%s", name));
	struct cw_cluster *cl;

	if (file == NULL && dflt != NULL) {
		file = dflt; /* one file for all: each cluster has a context of its name */
		context = context != NULL ? context
		    : self->wanted_n > 1  ? name
					  : cw_setting(self, "context");
	}
	if (file == NULL) {
		return self->cks
		    ? SPOT_OK
		    : setting_fail(self, err, "kubeconfig",
			  "is not set: the file that leads to the cluster (or kubeconfig.CLUSTER)");
	}
	if (!cw_label_ok(name) || strcmp(name, "nodepool") == 0) {
		return setting_fail(self, err, "clusters",
		    "has a name that is none: letters, digits, '-', '_' and '.'");
	}
	cl = cw_cluster_add(self, name);
	if (cl == NULL) {
		return setting_fail(self, err, "clusters", "has more than 64 names");
	}
	cl->kubeconfig = arena_strdup(self->arena, file);
	cl->context = arena_strdup(self->arena, context);
	cl->region = self->cks ? "" : cl->name;
	if (self->cks && zone != NULL) {
		cl->zone = arena_strdup(self->arena, zone);
		cl->region = cw_zone_region(self, self->arena, cl->zone);
	} else if (self->cks && !secret_set(&self->api_token) && self->api_token_file == NULL) {
		return setting_fail(self, err, arena_printf(self->arena, "zone.%s", name),
		    "is not set: without an API token nothing tells the cluster's zone, such as "
		    "US-EAST-04A");
	}
	return SPOT_OK;
}

static enum spot_rc clusters_read(struct cw *self, struct spot_err *err)
{
	const char *file = cw_setting(self, "kubeconfig");
	enum spot_rc rc = SPOT_OK;

	self->wanted = arena_array(self->arena, LIST_MAX, sizeof(*self->wanted));
	self->wanted_n = words_get(self, "clusters", self->wanted, LIST_MAX);
	for (size_t i = 0; i < self->wanted_n && rc == SPOT_OK; i++) {
		rc = cluster_read(self, self->wanted[i], file, err);
	}
	if (rc == SPOT_OK && self->wanted_n == 0 && !self->cks) {
		rc = cluster_read(self, self->name, file, err);
	} else if (rc == SPOT_OK && self->wanted_n == 0 && file != NULL) {
		rc = setting_fail(self, err, "clusters",
		    "is not set: the name of the cluster that kubeconfig leads to");
	}
	if (rc == SPOT_OK && self->cks && self->clusters_n == 0 && !secret_set(&self->api_token) &&
	    self->api_token_file == NULL) {
		rc = setting_fail(self, err, "api_token_file",
		    "is not set, and neither is COREWEAVE_API_TOKEN or kubeconfig.CLUSTER");
	}
	return rc;
}

enum spot_rc cw_settings_read(struct cw *self, struct spot_err *err)
{
	enum spot_rc rc = url_get(self, "api_endpoint", "COREWEAVE_API_ENDPOINT", API_ENDPOINT,
	    &self->api_endpoint, err);

	rc = rc != SPOT_OK ? rc : tokens_read(self, err);
	rc = rc != SPOT_OK ? rc : pod_read(self, err);
	return rc != SPOT_OK ? rc : clusters_read(self, err);
}
