/*
 * The two tables, the settings and the embedded price list. Settings are read and checked once, at
 * open; only keys with a dot (price.TYPE.MARKET, kubeconfig.CLUSTER, zone.CLUSTER) are looked up by
 * name.
 */
#include "base/base.h"
#include "coreweave.h"
#include "coreweave_int.h"

#include "base/text/csv.h"

#define API_ENDPOINT "https://api.coreweave.com"
#define OBJECT_ENDPOINT "https://cwobject.com"
#define LIST_MAX 32

extern const char cw_prices_csv[]; /* made from prices.csv */
extern const char cw_types_csv[]; /* made from types.csv */

/* CoreWeave publishes no limits; the cluster's are those that every client keeps to (client-go
 * rest/config.go: 5 per second, bursts of 10), one bucket per cluster. */
static const struct spot_limit cw_limits[CW_LIMIT_COUNT] = {
	[CW_LIMIT_API] = { .name = "api", .per_second = 1, .burst = 5 },
	[CW_LIMIT_CLUSTER] = { .name = "cluster", .per_second = 5, .burst = 10 },
};

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

/* ---- the embedded files ---------------------------------------------------------------------- */

static int64_t usd(const char *s)
{
	int64_t micros = 0;

	return s[0] != '\0' && parse_usd_micros(s, &micros) ? micros : 0;
}

static enum spot_rc open_prices(struct cw *self, struct spot_err *err)
{
	struct csv csv;
	size_t cap = 0;
	int got;
	enum spot_rc rc = csv_open(&csv, self->arena, str_from(cw_prices_csv), err);

	while (rc == SPOT_OK && (got = csv_next(&csv, err)) != 0) {
		struct cw_price *p;
		char day[40];

		if (got < 0) {
			return err->rc;
		}
		self->prices =
		    arena_grow(self->arena, self->prices, self->prices_n, &cap, sizeof(*p));
		p = &self->prices[self->prices_n++];
		*p = (struct cw_price){
			.region = arena_strdup(self->arena, csv_get(&csv, "region")),
			.zone = arena_strdup(self->arena, csv_get(&csv, "zone")),
			.type = arena_strdup(self->arena, csv_get(&csv, "instance_type")),
			.on_demand = usd(csv_get(&csv, "on_demand_usd_hour")),
			.spot = usd(csv_get(&csv, "spot_usd_hour")),
		};
		snprintf(day, sizeof(day), "%.10sT00:00:00Z", csv_get(&csv, "as_of"));
		if (!parse_time_us(day, &p->as_of_us)) {
			return err_set(err, SPOT_INTERNAL,
			    "prices.csv, line %d: as_of is not a day", csv.line);
		}
	}
	return rc;
}

static int32_t number(const struct csv *csv, const char *column)
{
	int64_t v = 0;

	return parse_i64(csv_get(csv, column), 0, INT32_MAX, &v) ? (int32_t)v : 0;
}

static enum spot_rc open_types(struct cw *self, struct spot_err *err)
{
	struct csv csv;
	size_t cap = 0;
	int got;
	enum spot_rc rc = csv_open(&csv, self->arena, str_from(cw_types_csv), err);

	while (rc == SPOT_OK && (got = csv_next(&csv, err)) != 0) {
		struct cw_type *t;

		if (got < 0) {
			return err->rc;
		}
		self->types = arena_grow(self->arena, self->types, self->types_n, &cap, sizeof(*t));
		t = &self->types[self->types_n++];
		*t = (struct cw_type){
			.name = arena_strdup(self->arena, csv_get(&csv, "instance_type")),
			.shape = { .gpu_name = arena_strdup(self->arena, csv_get(&csv, "gpu_name")),
			    .gpu_milli = number(&csv, "gpus") * 1000,
			    .gpu_mem_mib = number(&csv, "gpu_mem_mib"),
			    .vcpus = number(&csv, "vcpus"),
			    .mem_mib = number(&csv, "mem_mib"),
			    .arch = arena_strdup(self->arena, csv_get(&csv, "arch")) },
			.rack = strcmp(csv_get(&csv, "rack"), "yes") == 0,
			.spot = strcmp(csv_get(&csv, "spot"), "yes") == 0,
			.rdma = arena_strdup(self->arena, csv_get(&csv, "rdma")),
		};
	}
	return rc;
}

const struct cw_type *cw_type_find(const struct cw *self, const char *name)
{
	for (size_t i = 0; i < self->types_n; i++) {
		if (strcmp(self->types[i].name, name) == 0) {
			return &self->types[i];
		}
	}
	return NULL;
}

/* By the price list; a zone that is not in it gives its region by name: "US-EAST-04A" is in
 * US-EAST. */
const char *cw_zone_region(const struct cw *self, struct arena *a, const char *zone)
{
	const char *dash = strrchr(zone, '-');

	for (size_t i = 0; i < self->prices_n; i++) {
		if (strcmp(self->prices[i].zone, zone) == 0) {
			return self->prices[i].region;
		}
	}
	return dash != NULL ? arena_strndup(a, zone, (size_t)(dash - zone)) : zone;
}

/* ---- clusters -------------------------------------------------------------------------------- */

struct cw_cluster *cw_cluster_next(const struct cw *self, const char *region, const char *zone,
    size_t *i)
{
	while (*i < self->clusters_n) {
		struct cw_cluster *cl = self->clusters[(*i)++];

		if ((str_empty(region) || strcmp(region, cl->region) == 0) &&
		    (str_empty(zone) || strcmp(zone, cl->zone) == 0) &&
		    (cl->ready || cl->bad_rc != SPOT_OK)) {
			return cl;
		}
	}
	return NULL;
}

struct cw_cluster *cw_cluster_named(const struct cw *self, const char *name, size_t n)
{
	for (size_t i = 0; i < self->clusters_n; i++) {
		if (strlen(self->clusters[i]->name) == n &&
		    memcmp(self->clusters[i]->name, name, n) == 0) {
			return self->clusters[i];
		}
	}
	return NULL;
}

/* ---- settings -------------------------------------------------------------------------------- */

static enum spot_rc fail(const struct cw *self, struct spot_err *err, const char *key,
    const char *words)
{
	return err_set(err, SPOT_CONFIG, "provider %s: %s %s", self->name, key, words);
}

static bool local_http(const char *url)
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
	if (!cw_server_ok(*ret) && (!local_http(*ret) || strpbrk(*ret, " ?#@") != NULL)) {
		return fail(self, err, key, "must be a plain https:// address");
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
		return fail(self, err, key,
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
	    : fail(self, err, key, "must be true or false");
}

static enum spot_rc wait_get(const struct cw *self, const char *key, int64_t dflt, int64_t *ret,
    struct spot_err *err)
{
	const char *v = cw_setting(self, key);

	*ret = dflt;
	if (v != NULL && (!parse_duration_us(v, ret) || *ret < 0 || *ret > 24 * SPOT_US_PER_HOUR)) {
		return fail(self, err, key, "must be a duration such as 20m, at most 24h");
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
static enum spot_rc open_tolerations(struct cw *self, struct spot_err *err)
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
			return fail(self, err, "tolerations",
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
		return fail(self, err, what,
		    "is not a token: at least 8 characters without blanks");
	}
	secret_init(s, v, n);
	return SPOT_OK;
}

static enum spot_rc open_tokens(struct cw *self, struct spot_err *err)
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

static enum spot_rc open_pod(struct cw *self, struct spot_err *err)
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
	rc = rc != SPOT_OK ? rc : open_tolerations(self, err);
	self->image = arena_strdup(self->arena, image);
	self->audience = arena_strdup(self->arena, audience);
	if (rc == SPOT_OK && image != NULL &&
	    (strlen(image) > 500 || strpbrk(image, " \t\"'\\") != NULL)) {
		rc = fail(self, err, "image", "is not the name of a container image");
	}
	return rc;
}

static enum spot_rc cluster_open(struct cw *self, const char *name, const char *dflt,
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
		    : fail(self, err, "kubeconfig",
			  "is not set: the file that leads to the cluster (or kubeconfig.CLUSTER)");
	}
	if (!cw_label_ok(name) || strcmp(name, "nodepool") == 0) {
		return fail(self, err, "clusters",
		    "has a name that is none: letters, digits, '-', '_' and '.'");
	}
	cl = cw_cluster_add(self, name);
	if (cl == NULL) {
		return fail(self, err, "clusters", "has more than 64 names");
	}
	cl->kubeconfig = arena_strdup(self->arena, file);
	cl->context = arena_strdup(self->arena, context);
	cl->region = self->cks ? "" : cl->name;
	if (self->cks && zone != NULL) {
		cl->zone = arena_strdup(self->arena, zone);
		cl->region = cw_zone_region(self, self->arena, cl->zone);
	} else if (self->cks && !secret_set(&self->api_token) && self->api_token_file == NULL) {
		return fail(self, err, arena_printf(self->arena, "zone.%s", name),
		    "is not set: without an API token nothing tells the cluster's zone, such as "
		    "US-EAST-04A");
	}
	return SPOT_OK;
}

static enum spot_rc open_clusters(struct cw *self, struct spot_err *err)
{
	const char *file = cw_setting(self, "kubeconfig"), *context = cw_setting(self, "context");
	enum spot_rc rc = SPOT_OK;

	(void)context;
	self->wanted = arena_array(self->arena, LIST_MAX, sizeof(*self->wanted));
	self->wanted_n = words_get(self, "clusters", self->wanted, LIST_MAX);
	for (size_t i = 0; i < self->wanted_n && rc == SPOT_OK; i++) {
		rc = cluster_open(self, self->wanted[i], file, err);
	}
	if (rc == SPOT_OK && self->wanted_n == 0 && !self->cks) {
		rc = cluster_open(self, self->name, file, err);
	} else if (rc == SPOT_OK && self->wanted_n == 0 && file != NULL) {
		rc = fail(self, err, "clusters",
		    "is not set: the name of the cluster that kubeconfig leads to");
	}
	if (rc == SPOT_OK && self->cks && self->clusters_n == 0 && !secret_set(&self->api_token) &&
	    self->api_token_file == NULL) {
		rc = fail(self, err, "api_token_file",
		    "is not set, and neither is COREWEAVE_API_TOKEN or kubeconfig.CLUSTER");
	}
	return rc;
}

static void cw_close(void *p)
{
	struct cw *self = p;

	if (self == NULL) {
		return;
	}
	for (size_t i = 0; i < self->clusters_n; i++) {
		cw_cluster_free(self->clusters[i]);
	}
	secret_fini(&self->api_token);
	secret_fini(&self->object_secret);
	arena_free(self->arena);
	free(self);
}

static enum spot_rc open_any(const struct spot_provider_conf *conf, bool cks, void **ret,
    struct spot_err *err)
{
	struct cw *self = calloc(1, sizeof(*self));
	enum spot_rc rc;

	if (self == NULL) {
		abort();
	}
	self->cks = cks;
	self->conf = *conf;
	self->arena = arena_new(0);
	self->name = arena_strdup(self->arena, conf->name);
	rc = url_get(self, "api_endpoint", "COREWEAVE_API_ENDPOINT", API_ENDPOINT,
	    &self->api_endpoint, err);
	rc = rc != SPOT_OK ? rc : open_prices(self, err);
	rc = rc != SPOT_OK ? rc : open_types(self, err);
	rc = rc != SPOT_OK ? rc : open_tokens(self, err);
	rc = rc != SPOT_OK ? rc : open_pod(self, err);
	rc = rc != SPOT_OK ? rc : open_clusters(self, err);
	if (rc != SPOT_OK) {
		cw_close(self);
		return rc;
	}
	*ret = self;
	return SPOT_OK;
}

static enum spot_rc coreweave_open(const struct spot_provider_conf *conf, void **ret,
    struct spot_err *err)
{
	return open_any(conf, true, ret, err);
}

static enum spot_rc kubernetes_open(const struct spot_provider_conf *conf, void **ret,
    struct spot_err *err)
{
	return open_any(conf, false, ret, err);
}

/* ---- the tables ------------------------------------------------------------------------------ */

/* A Pod's name is taken as long as the Pod exists, ended or not; nothing of ours removes an ended
 * one before the lease is over. Lists are read from the API server's store: consistent. */
#define TABLE(name, more_caps, sign) \
	.abi = SPOT_PROVIDER_ABI, .size = sizeof(struct spot_provider_ops), .kind = name, \
	.caps = SPOT_CAP_SPOT | SPOT_CAP_TOKEN | SPOT_CAP_NOTICE_NODE | SPOT_CAP_NOTICE_API | \
	    SPOT_CAP_TAGS | SPOT_CAP_SHUTDOWN_ENDS | SPOT_CAP_PRICE_STEADY | (more_caps), \
	.token_scope = SPOT_TOKEN_ZONE, .token_life_us = 24 * SPOT_US_PER_HOUR, \
	.list_lag_us = 10 * SPOT_US_PER_S, .launch_timeout_us = 30 * SPOT_US_PER_S, \
	.limits = cw_limits, .limits_n = CW_LIMIT_COUNT, \
	.close = /* delivery of a node takes up to half an hour, and its image must be pulled */ \
	    cw_close, \
	.boot_timeout_us = 45 * 60 * SPOT_US_PER_S, .auth_fresh = cw_auth_fresh, .auth = cw_auth, \
	.secrets = cw_secrets, .regions = cw_regions, .pools = cw_pools, .prices = cw_prices, \
	.launch = cw_launch, .find = cw_find, .list = cw_list, .describe = cw_describe, \
	.terminate = cw_terminate, .whoami = cw_whoami, .quotas = cw_quotas, \
	.notices = cw_notices, .verify = cw_verify, .watch = cw_watch, .check = cw_check, \
	.presign = (sign)

const struct spot_provider_ops coreweave_ops = {
	TABLE("coreweave", SPOT_CAP_ZONES | SPOT_CAP_OBJECTS | SPOT_CAP_LEAVES, cw_presign),
	.open = coreweave_open,
	.signals = cw_signals,
};

const struct spot_provider_ops kubernetes_ops = {
	TABLE("kubernetes", 0, NULL),
	.open = kubernetes_open,
};
