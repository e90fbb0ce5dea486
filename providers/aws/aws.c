#include "base/base.h"
#include "aws.h"
#include "aws_priv.h"

/* The provider table of AWS, and how one instance of the provider opens and closes. */

/* EC2 buckets per account and region:
 * docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html. RunInstances draws from two: a
 * token for each request (5, 2/s) and one for each instance (1000, 2/s). A full bucket lets one
 * request launch 1000 instances, or four requests 250 each. The others are not published: these are
 * our own, cautious. */
static const struct spot_limit aws_limits[AWS_LIMIT_COUNT] = {
	[AWS_LIMIT_DESCRIBE] = { .name = "Describe", .per_second = 20, .burst = 100 },
	[AWS_LIMIT_RUN] = { .name = "RunInstances", .per_second = 2, .burst = 5, .shared = true },
	[AWS_LIMIT_RUN_MACHINES] = { .name = "RunInstances-instances",
	    .per_second = 2,
	    .burst = 1000,
	    .shared = true },
	[AWS_LIMIT_TERMINATE] = { .name = "TerminateInstances", .per_second = 5, .burst = 100 },
	[AWS_LIMIT_PRICING] = { .name = "pricing", .per_second = 2, .burst = 10 },
	[AWS_LIMIT_QUOTAS] = { .name = "servicequotas", .per_second = 2, .burst = 10 },
	[AWS_LIMIT_SSM] = { .name = "ssm", .per_second = 10, .burst = 20 },
	[AWS_LIMIT_STS] = { .name = "sts", .per_second = 5, .burst = 10 },
	[AWS_LIMIT_METADATA] = { .name = "metadata", .per_second = 10, .burst = 20 },
	[AWS_LIMIT_ADVISOR] = { .name = "advisor", .per_second = 1, .burst = 5 },
	[AWS_LIMIT_SQS] = { .name = "sqs", .per_second = 20, .burst = 50 },
};

static void aws_close(void *p)
{
	struct aws *self = p;

	if (self == NULL) {
		return;
	}
	aws_keys_fini(&self->keys);
	aws_keys_fini(&self->next);
	secret_fini(&self->hop);
	arena_free(self->arena);
	free(self);
}

static enum spot_rc aws_open(const struct spot_provider_conf *conf, void **ret_self,
    struct spot_err *err)
{
	struct aws *self = calloc(1, sizeof(*self));
	enum spot_rc rc;

	assert(self != NULL);
	self->arena = arena_new(1 << 20);
	self->conf = *conf;
	self->name = arena_strdup(self->arena, conf->name);
	rc = aws_settings_read(self, err);
	if (rc != SPOT_OK) {
		aws_close(self);
		return rc;
	}
	*ret_self = self;
	return SPOT_OK;
}

static size_t aws_secrets(const void *p, const char **ret, size_t n)
{
	const struct aws *self = p;
	const struct secret *all[] = { &self->keys.secret_key, &self->keys.session_token,
		&self->next.secret_key, &self->next.session_token, &self->hop };
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_LEN(all) && count < n; i++) {
		if (secret_set(all[i])) {
			ret[count++] = secret_reveal(all[i]);
		}
	}
	return count;
}

const struct spot_provider_ops aws_ops = {
	.abi = SPOT_PROVIDER_ABI,
	.size = sizeof(struct spot_provider_ops),
	.kind = "aws",
	.caps = SPOT_CAP_SPOT | SPOT_CAP_ZONES | SPOT_CAP_TOKEN | SPOT_CAP_NOTICE_NODE |
	    SPOT_CAP_NOTICE_API | SPOT_CAP_PRICE_HISTORY | SPOT_CAP_TAGS | SPOT_CAP_OBJECTS |
	    SPOT_CAP_SHUTDOWN_ENDS | SPOT_CAP_TOGETHER,
	/* RunInstances with a zone or subnet; a token lives 24 h after its instance ended
     * (ec2-api-idempotency.html). */
	.token_scope = SPOT_TOKEN_ZONE,
	.token_life_us = 24 * SPOT_US_PER_HOUR,
	/* Lists are eventually consistent; the vendor gives no bound, this is ours. */
	.list_lag_us = 120 * SPOT_US_PER_S,
	.launch_timeout_us = 90 * SPOT_US_PER_S,
	.limits = aws_limits,
	.limits_n = AWS_LIMIT_COUNT,
	.open = aws_open,
	.close = aws_close,
	.auth_fresh = aws_auth_fresh,
	.auth = aws_auth,
	.secrets = aws_secrets,
	.regions = aws_regions,
	.pools = aws_pools,
	.prices = aws_prices,
	.launch = aws_launch,
	.find = aws_find,
	.list = aws_list,
	.describe = aws_describe,
	.terminate = aws_terminate,
	.whoami = aws_whoami,
	.signals = aws_signals,
	.quotas = aws_quotas,
	.notices = aws_notices,
	.presign = aws_presign,
	.verify = aws_verify,
	.launch_gang = aws_launch_gang,
	.watch = aws_watch,
	.check = aws_check,
	/* Linux; what the user ends is billed (billing-for-interrupted-spot-instances.html). */
	.reclaim_free_us = SPOT_US_PER_HOUR,
	/* A quarter of the bucket: four sets empty it within the burst of five requests. */
	.set_most = 250,
	.set_limit = AWS_LIMIT_RUN_MACHINES + 1,
};
