#include "base/base.h"
#include "azure.h"
#include "azure_priv.h"

/* The table, its rate limits, opening and closing. */

/*
 * Buckets of the Resource Manager, per subscription, principal and kind of request:
 * learn.microsoft.com/azure/azure-resource-manager/management/request-limits-and-throttling.
 * Resource Graph: 15 queries in 5 s
 * (azure/governance/resource-graph/concepts/guidance-for-throttled-requests). The others are not
 * published: these are our own, cautious; the metadata service is said to take 5 a second.
 */
static const struct spot_limit azure_limits[AZURE_LIMIT_COUNT] = {
	[AZURE_LIMIT_READ] = { .name = "reads", .per_second = 25, .burst = 250 },
	[AZURE_LIMIT_WRITE] = { .name = "writes", .per_second = 10, .burst = 200, .shared = true },
	[AZURE_LIMIT_DELETE] = { .name = "deletes", .per_second = 10, .burst = 200 },
	[AZURE_LIMIT_GRAPH] = { .name = "resource-graph", .per_second = 3, .burst = 12 },
	[AZURE_LIMIT_PLACEMENT] = { .name = "placement-scores", .per_second = 1, .burst = 5 },
	[AZURE_LIMIT_PRICES] = { .name = "retail-prices", .per_second = 2, .burst = 10 },
	[AZURE_LIMIT_LOGIN] = { .name = "login", .per_second = 5, .burst = 10 },
	[AZURE_LIMIT_METADATA] = { .name = "metadata", .per_second = 5, .burst = 5 },
	[AZURE_LIMIT_BLOB] = { .name = "blob", .per_second = 20, .burst = 50 },
	[AZURE_LIMIT_CERTIFICATES] = { .name = "certificates", .per_second = 1, .burst = 5 },
};

static void azure_close(void *p)
{
	struct azure *self = p;

	if (self == NULL) {
		return;
	}
	azure_token_fini(&self->arm);
	azure_token_fini(&self->blob);
	azure_delegation_fini(&self->delegation);
	secret_fini(&self->credential);
	secret_fini(&self->env_secret);
	secret_fini(&self->storage_key);
	arena_free(self->arena);
	free(self);
}

static enum spot_rc azure_open(const struct spot_provider_conf *conf, void **ret_self,
    struct spot_err *err)
{
	struct azure *self = calloc(1, sizeof(*self));
	enum spot_rc rc;

	assert(self != NULL);
	self->arena = arena_new(1 << 20);
	self->conf = *conf;
	self->name = arena_strdup(self->arena, conf->name);
	rc = azure_settings_read(self, err);
	if (rc != SPOT_OK) {
		azure_close(self);
		return rc;
	}
	*ret_self = self;
	return SPOT_OK;
}

static size_t azure_secrets(const void *p, const char **ret, size_t n)
{
	const struct azure *self = p;
	const struct secret *all[] = { &self->arm.value, &self->blob.value, &self->delegation.value,
		&self->credential, &self->env_secret, &self->storage_key };
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_LEN(all) && count < n; i++) {
		if (secret_set(all[i])) {
			ret[count++] = secret_reveal(all[i]);
		}
	}
	return count;
}

const struct spot_provider_ops azure_ops = {
	.abi = SPOT_PROVIDER_ABI,
	.size = sizeof(struct spot_provider_ops),
	.kind = "azure",
	.caps = SPOT_CAP_SPOT | SPOT_CAP_ZONES | SPOT_CAP_TOKEN | SPOT_CAP_NOTICE_NODE |
	    SPOT_CAP_NOTICE_API | SPOT_CAP_PRICE_HISTORY | SPOT_CAP_TAGS | SPOT_CAP_OBJECTS |
	    SPOT_CAP_PRICE_STEADY | SPOT_CAP_LEAVES | SPOT_CAP_TOGETHER,
	/* A PUT of the same name with the same body changes nothing. Names of resource groups are
	 * unique in a subscription, and a group's region cannot change. */
	.token_scope = SPOT_TOKEN_GLOBAL,
	.token_life_us = 24 * SPOT_US_PER_HOUR,
	/* Lists lag by seconds to minutes; the vendor gives no bound, this is ours. */
	.list_lag_us = 180 * SPOT_US_PER_S,
	.launch_timeout_us = 110 * SPOT_US_PER_S,
	.limits = azure_limits,
	.limits_n = AZURE_LIMIT_COUNT,
	.open = azure_open,
	.close = azure_close,
	.auth_fresh = azure_auth_fresh,
	.auth = azure_auth,
	.secrets = azure_secrets,
	.regions = azure_regions,
	.pools = azure_pools,
	.prices = azure_prices,
	.launch = azure_launch,
	.find = azure_find,
	.list = azure_list,
	.describe = azure_describe,
	.terminate = azure_terminate,
	.whoami = azure_whoami,
	.signals = azure_signals,
	.quotas = azure_quotas,
	.notices = azure_notices,
	.presign = azure_presign,
	.verify = azure_verify,
	.check = azure_check,
};
