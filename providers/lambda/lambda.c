/* The provider table of Lambda Cloud, and how one instance of the provider opens and closes. */
#include "base/base.h"
#include "lambda.h"
#include "lambda_priv.h"

static void lambda_close(void *p)
{
	struct lambda *self = p;

	if (self == NULL) {
		return;
	}
	secret_fini(&self->key);
	free(self->name);
	free(self->endpoint);
	free(self->ssh_key_name);
	free(self->image_family);
	free(self->image_family_arm64);
	free(self->key_file);
	free(self);
}

static enum spot_rc lambda_open(const struct spot_provider_conf *conf, void **ret_self,
    struct spot_err *err)
{
	struct lambda *self = calloc(1, sizeof(*self));
	enum spot_rc rc;

	if (self == NULL) {
		abort();
	}
	rc = lambda_settings_read(self, conf, err);
	if (rc != SPOT_OK) {
		lambda_close(self);
		return rc;
	}
	*ret_self = self;
	return SPOT_OK;
}

static size_t lambda_secrets(const void *p, const char **ret, size_t n)
{
	const struct lambda *self = p;

	if (n == 0 || !secret_set(&self->key)) {
		return 0;
	}
	ret[0] = secret_reveal(&self->key);
	return 1;
}

/* No call names the account. The list of types is the cheapest one that tells a good key from a
 * bad. */
static enum spot_step lambda_whoami(void *p, struct spot_call *c, const char **ret_account)
{
	struct lambda *self = p;
	struct lambda_reply r;
	enum spot_step s;

	if (c->in == NULL) {
		lambda_request(self, c, "GET", "/instance-types", LAMBDA_LIMIT_GENERAL);
		return SPOT_SEND;
	}
	s = lambda_reply_get(self, c, "whoami", &r);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	json_decref(r.doc);
	*ret_account = arena_strdup(c->arena, self->name);
	return SPOT_DONE;
}

/* "1 request per second; launch 1 per 12 seconds" (OpenAPI 1.10.0, info.description). Kept a little
 * under it, for the jitter on the way. Per key or per account is not said: held account-wide. A
 * launch is a request too. */
static const struct spot_limit lambda_limits[LAMBDA_LIMIT_COUNT] = {
	[LAMBDA_LIMIT_GENERAL] = { .name = "general",
	    .per_second = 0.95,
	    .burst = 1.0,
	    .shared = true },
	[LAMBDA_LIMIT_LAUNCH] = { .name = "launch",
	    .per_second = 0.95 / 12.0,
	    .burst = 1.0,
	    .shared = true,
	    .within = LAMBDA_LIMIT_GENERAL + 1 },
};

const struct spot_provider_ops lambda_ops = {
	.abi = SPOT_PROVIDER_ABI,
	.size = sizeof(lambda_ops),
	.kind = "lambda",
	/* No spot market, zones, launch token or notices. Tags are sent, but nothing relies on
	 * them: it is not confirmed that every listing returns them. Power-off in the guest does
	 * not end billing. */
	.caps = SPOT_CAP_ALL_REGIONS,
	.token_scope = SPOT_TOKEN_NONE,
	.token_life_us = 0,
	.list_lag_us = 120 * SPOT_US_PER_S,
	.launch_timeout_us = 120 * SPOT_US_PER_S,
	.limits = lambda_limits,
	.limits_n = LAMBDA_LIMIT_COUNT,
	.open = lambda_open,
	.close = lambda_close,
	.auth_fresh = lambda_auth_fresh,
	.auth = lambda_auth,
	.secrets = lambda_secrets,
	.regions = lambda_regions,
	.pools = lambda_pools,
	.prices = lambda_prices,
	.launch = lambda_launch,
	.find = lambda_find,
	.list = lambda_list,
	.describe = lambda_describe,
	.terminate = lambda_terminate,
	.whoami = lambda_whoami,
	.signals = lambda_signals,
	.check = lambda_check,
};
