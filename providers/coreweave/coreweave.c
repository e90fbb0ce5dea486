/* The provider tables of CoreWeave and Kubernetes, and how one instance opens and closes. */
#include "base/base.h"
#include "coreweave.h"
#include "coreweave_priv.h"

/* CoreWeave publishes no limits; the cluster's are those that every client keeps to (client-go
 * rest/config.go: 5 per second, bursts of 10), one bucket per cluster. */
static const struct spot_limit cw_limits[CW_LIMIT_COUNT] = {
	[CW_LIMIT_API] = { .name = "api", .per_second = 1, .burst = 5 },
	[CW_LIMIT_CLUSTER] = { .name = "cluster", .per_second = 5, .burst = 10 },
};

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

static enum spot_rc provider_open(const struct spot_provider_conf *conf, bool cks, void **ret,
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
	rc = cw_catalog_read(self, err);
	rc = rc != SPOT_OK ? rc : cw_settings_read(self, err);
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
	return provider_open(conf, true, ret, err);
}

static enum spot_rc kubernetes_open(const struct spot_provider_conf *conf, void **ret,
    struct spot_err *err)
{
	return provider_open(conf, false, ret, err);
}

static size_t cw_secrets(const void *p, const char **ret, size_t n)
{
	const struct cw *self = p;
	const struct secret *all[2 + 3 * CW_CLUSTERS_MAX];
	size_t count = 0, used = 0;

	all[count++] = &self->api_token;
	all[count++] = &self->object_secret;
	for (size_t i = 0; i < self->clusters_n; i++) {
		all[count++] = &self->clusters[i]->token;
		all[count++] = &self->clusters[i]->bootstrap;
		all[count++] = &self->clusters[i]->key_pem;
	}
	for (size_t i = 0; i < count && used < n; i++) {
		if (secret_set(all[i])) {
			ret[used++] = secret_reveal(all[i]);
		}
	}
	return used;
}

/* ---- the tables ------------------------------------------------------------------------------ */

/* A Pod's name is taken as long as the Pod exists, ended or not. We remove no ended Pod before the
 * lease is over. Lists are read from the API server's store: consistent. */
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
