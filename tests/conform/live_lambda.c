/* Lambda Cloud at the emulator. */
#include "live.h"

#include "base/text/text.h"
#include "lambda/lambda.h"

static const char *env_value(struct live *v, const char *name)
{
	return strcmp(name, "LAMBDA_API_KEY") == 0 ? live_text(v, "credentials/lambda/api_key")
						   : NULL;
}

static const char *setting_value(struct live *v, const char *key)
{
	if (strcmp(key, "endpoint") == 0) {
		return live_text(v, "urls/lambda");
	}
	if (strcmp(key, "file_system.us-east-1") == 0) {
		return "shared";
	}
	return strcmp(key, "ssh_key_name") == 0 ? "brk" : NULL;
}

/* The rate limit sees this request and the provider does not, so it gets its second. */
static void thing_make(struct live *v, const char *path, const char *body)
{
	assert_int_equal(live_plain(v, "POST",
			     arena_printf(v->arena, "%s%s", live_text(v, "urls/lambda"), path),
			     live_text(v, "credentials/lambda/api_key"), body),
	    200);
	live_pause(v, SPOT_US_PER_S);
}

/* A launch names a registered key, and a file system that is there. */
static void account_prepare(struct live *v)
{
	thing_make(v, "/ssh-keys",
	    "{\"name\":\"brk\",\"public_key\":\"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 x\"}");
	thing_make(v, "/filesystems", "{\"name\":\"shared\",\"region\":\"us-east-1\"}");
}

#define ACTION(s) "\"service\":\"lambda\",\"action\":\"" s "\""
#define REFUSED(n, code, words) \
	"\"kind\":\"status\",\"status\":" #n ",\"code\":\"" code "\",\"message\":\"" words "\""

const struct live_cloud live_lambda = {
	.name = "lambda",
	.ops = &lambda_ops,
	.env = env_value,
	.setting = setting_value,
	.prepare = account_prepare,
	.region = "us-east-1",
	.type = "gpu_1x_a10",
	.create = ACTION("POST /instance-operations/launch"),
	.list = ACTION("GET /instances"),
	.end = ACTION("POST /instance-operations/terminate"),
	.service = "\"service\":\"lambda\"",
	.throttled = REFUSED(429, "global/too-many-requests", "slow down"),
	.quota = REFUSED(400, "global/quota-exceeded", "Quota exceeded."),
};
