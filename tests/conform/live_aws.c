/* AWS at the emulator. */
#include "live.h"

#include "aws/aws.h"
#include "base/sign.h"
#include "base/str.h"

static const char *env(struct live *v, const char *name)
{
	if (strcmp(name, "AWS_ACCESS_KEY_ID") == 0) {
		return live_text(v, "credentials/aws/access_key_id");
	}
	if (strcmp(name, "AWS_SECRET_ACCESS_KEY") == 0) {
		return live_text(v, "credentials/aws/secret_access_key");
	}
	if (strcmp(name, "AWS_ENDPOINT_URL") == 0) {
		return live_text(v, "urls/aws");
	}
	return strcmp(name, "AWS_REGION") == 0 ? "us-east-1" : NULL;
}

static const char *setting(struct live *v, const char *key)
{
	if (strcmp(key, "interruption_queue.us-east-1") == 0) {
		return arena_printf(v->arena, "%s/123456789012/spotbroker-interruptions", live_text(v, "urls/aws"));
	}
	return strcmp(key, "advisor_url") == 0 ? live_text(v, "urls/advisor") : NULL;
}

/* The bucket of the presigned requests. */
static void prepare(struct live *v)
{
	struct sigv4 k = {.access_key = env(v, "AWS_ACCESS_KEY_ID"),
	    .secret_key = env(v, "AWS_SECRET_ACCESS_KEY"), .region = "us-east-1", .service = "s3",
	    .now_us = loop_wall_us(v->loop)};
	char *url = arena_printf(v->arena, "%s/conform", live_text(v, "urls/s3"));

	assert_int_equal(live_plain(v, "PUT", sigv4_presign(v->arena, &k, "PUT", url, 60), NULL, ""), 200);
}

const struct live_cloud live_aws = {
    .name = "aws",
    .ops = &aws_ops,
    .env = env,
    .setting = setting,
    .prepare = prepare,
    .region = "us-east-1",
    .type = "g5.xlarge",
    .create = "\"service\":\"ec2\",\"action\":\"RunInstances\"",
    .list = "\"service\":\"ec2\",\"action\":\"DescribeInstances\"",
    .end = "\"service\":\"ec2\",\"action\":\"TerminateInstances\"",
    .service = "\"service\":\"ec2\"",
    .throttled = "\"kind\":\"status\",\"status\":503,\"code\":\"RequestLimitExceeded\"",
    .expired = NULL, /* static keys do not run out */
    .quota = "\"kind\":\"status\",\"status\":400,\"code\":\"MaxSpotInstanceCountExceeded\"",
    .bucket = "conform",
    .objects = "urls/s3",
    .skew = true,
};
