/* Lambda Cloud at the emulator. */
#include "live.h"

#include "base/str.h"
#include "lambda/lambda.h"

static const char *env(struct live *v, const char *name)
{
	return strcmp(name, "LAMBDA_API_KEY") == 0 ? live_text(v, "credentials/lambda/api_key") : NULL;
}

static const char *setting(struct live *v, const char *key)
{
	if (strcmp(key, "endpoint") == 0) {
		return live_text(v, "urls/lambda");
	}
	return strcmp(key, "ssh_key_name") == 0 ? "brk" : NULL;
}

/* A launch names a registered key. The rate limit saw this request and the provider did not, so it gets its
 * second. */
static void prepare(struct live *v)
{
	assert_int_equal(live_plain(v, "POST", arena_printf(v->arena, "%s/ssh-keys", live_text(v, "urls/lambda")),
	    live_text(v, "credentials/lambda/api_key"),
	    "{\"name\":\"brk\",\"public_key\":\"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 x\"}"), 200);
	live_pause(v, SPOT_US_PER_S);
}

#define ACTION(s) "\"service\":\"lambda\",\"action\":\"" s "\""
#define REFUSED(n, code, words)                                                                    \
	"\"kind\":\"status\",\"status\":" #n ",\"code\":\"" code "\",\"message\":\"" words "\""

const struct live_cloud live_lambda = {
    .name = "lambda",
    .ops = &lambda_ops,
    .env = env,
    .setting = setting,
    .prepare = prepare,
    .region = "us-east-1",
    .type = "gpu_1x_a10",
    .create = ACTION("POST /instance-operations/launch"),
    .list = ACTION("GET /instances"),
    .end = ACTION("POST /instance-operations/terminate"),
    .service = "\"service\":\"lambda\"",
    .throttled = REFUSED(429, "global/too-many-requests", "slow down"),
    .quota = REFUSED(400, "global/quota-exceeded", "Quota exceeded."),
};
