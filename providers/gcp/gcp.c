#include "base/base.h"
#include "gcp.h"
#include "gcp_priv.h"

/* The table and the life of a provider instance. */

/* Compute's buckets are per project and minute, 1500 of each kind
 * (docs.cloud.google.com/compute/api-quota); lists and other services publish less or nothing:
 * these are our own, cautious. */
static const struct spot_limit gcp_limits[GCP_LIMIT_COUNT] = {
	[GCP_LIMIT_READ] = { .name = "read", .per_second = 20, .burst = 100 },
	[GCP_LIMIT_LIST] = { .name = "list", .per_second = 5, .burst = 50 },
	[GCP_LIMIT_MUTATE] = { .name = "mutate", .per_second = 10, .burst = 20, .shared = true },
	/* The vendor's: 20 a second, and ten operations at a time
	 * (docs.cloud.google.com/compute/docs/troubleshooting/troubleshooting-bulk-vm-creation).
	 * One takes about half a minute. It counts as one request of the project's bucket too. */
	[GCP_LIMIT_BULK] = { .name = "bulk",
	    .per_second = 1.0 / 3,
	    .burst = 10,
	    .shared = true,
	    .within = GCP_LIMIT_MUTATE + 1 },
	[GCP_LIMIT_OPERATION] = { .name = "operation", .per_second = 20, .burst = 100 },
	[GCP_LIMIT_ADVICE] = { .name = "advice", .per_second = 8, .burst = 10 },
	[GCP_LIMIT_BILLING] = { .name = "billing", .per_second = 2, .burst = 20 },
	[GCP_LIMIT_QUOTAS] = { .name = "cloudquotas", .per_second = 1, .burst = 20 },
	[GCP_LIMIT_AUTH] = { .name = "auth", .per_second = 5, .burst = 10 },
	[GCP_LIMIT_METADATA] = { .name = "metadata", .per_second = 10, .burst = 20 },
};

static void gcp_close(void *p)
{
	struct gcp *self = p;

	if (self == NULL) {
		return;
	}
	secret_fini(&self->token);
	secret_fini(&self->next);
	secret_fini(&self->subject);
	rsa_key_free(self->key);
	free(self->email);
	arena_free(self->arena);
	free(self);
}

static enum spot_rc gcp_open(const struct spot_provider_conf *conf, void **ret_self,
    struct spot_err *err)
{
	struct gcp *self = calloc(1, sizeof(*self));
	enum spot_rc rc;

	assert(self != NULL);
	self->arena = arena_new(1 << 20);
	self->conf = *conf;
	self->name = arena_strdup(self->arena, conf->name);
	rc = gcp_settings_read(self, err);
	if (rc != SPOT_OK) {
		gcp_close(self);
		return rc;
	}
	*ret_self = self;
	return SPOT_OK;
}

static size_t gcp_secrets(const void *p, const char **ret, size_t n)
{
	const struct gcp *self = p;
	const struct secret *all[] = { &self->token, &self->next, &self->subject };
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_LEN(all) && count < n; i++) {
		if (secret_set(all[i])) {
			ret[count++] = secret_reveal(all[i]);
		}
	}
	return count;
}

const struct spot_provider_ops gcp_ops = {
	.abi = SPOT_PROVIDER_ABI,
	.size = sizeof(struct spot_provider_ops),
	.kind = "gcp",
	.caps = SPOT_CAP_SPOT | SPOT_CAP_ZONES | SPOT_CAP_TOKEN | SPOT_CAP_NOTICE_NODE |
	    SPOT_CAP_NOTICE_API | SPOT_CAP_PRICE_HISTORY | SPOT_CAP_TAGS | SPOT_CAP_OBJECTS |
	    SPOT_CAP_ALL_REGIONS | SPOT_CAP_PRICE_STEADY | SPOT_CAP_PAST_APART | SPOT_CAP_TOGETHER,
	/* requestId and a name made from the token, both per zone. How long a requestId is
	 * remembered is not published; the name holds as long as the instance. */
	.token_scope = SPOT_TOKEN_ZONE,
	.token_life_us = SPOT_US_PER_HOUR,
	.list_lag_us = 120 * SPOT_US_PER_S,
	.launch_timeout_us = 300 * SPOT_US_PER_S,
	.limits = gcp_limits,
	.limits_n = GCP_LIMIT_COUNT,
	.open = gcp_open,
	.close = gcp_close,
	.auth_fresh = gcp_auth_fresh,
	.auth = gcp_auth,
	.secrets = gcp_secrets,
	.regions = gcp_list_regions,
	.pools = gcp_pools,
	.prices = gcp_prices,
	.launch = gcp_launch,
	.find = gcp_find,
	.list = gcp_list,
	.describe = gcp_describe,
	.terminate = gcp_terminate,
	.whoami = gcp_whoami,
	.signals = gcp_signals,
	.quotas = gcp_quotas,
	.notices = gcp_notices,
	.presign = gcp_presign,
	.launch_gang = gcp_launch_gang,
	.verify = gcp_verify,
	.check = gcp_check,
	/* bulkInsert takes more, but a page of a list has 500. */
	.set_most = 500,
	.set_calls = GCP_LIMIT_BULK + 1,
};
