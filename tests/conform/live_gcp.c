/* Google Cloud at the emulator. */
#include "live.h"

#include "base/str.h"
#include "gcp/gcp.h"

static const char *setting(struct live *v, const char *key)
{
	if (strcmp(key, "endpoint") == 0) {
		return live_text(v, "urls/gcp");
	}
	if (strcmp(key, "project") == 0) {
		return live_text(v, "credentials/gcp/project");
	}
	if (strcmp(key, "credentials") == 0) {
		return live_text(v, "credentials/gcp/key_file");
	}
	return strcmp(key, "regions") == 0 ? "us-central1,us-east4" : NULL;
}

/* The bucket of the presigned requests. */
static void prepare(struct live *v)
{
	json_t *token = live_control(v, "/gcp/credentials", "{\"action\":\"token\"}");
	char *url = arena_printf(v->arena, "%s/storage/v1/b?project=%s", live_text(v, "urls/gcp"),
	    live_text(v, "credentials/gcp/project"));

	int status = live_plain(v, "POST", url, json_string_value(json_object_get(token, "access_token")),
	    "{\"name\":\"conform\"}");

	json_decref(token);
	if (status != 200) {
		fail_msg("the bucket is not made: %d", status);
	}
}

#define COMPUTE(action)	   "\"service\":\"compute\",\"action\":\"" action "\""
#define REFUSED(n, code)   "\"kind\":\"status\",\"status\":" #n ",\"code\":\"" code "\",\"message\":\"words\""

const struct live_cloud live_gcp = {
    .name = "gcp",
    .ops = &gcp_ops,
    .setting = setting,
    .prepare = prepare,
    .region = "us-central1",
    .type = "g2-standard-4",
    .create = COMPUTE("instances.insert"),
    .list = COMPUTE("instances.aggregatedList"),
    .end = COMPUTE("instances.delete"),
    .service = "\"service\":\"compute\"",
    .throttled = REFUSED(403, "rateLimitExceeded"),
    .throttled_for_s = 60, /* to the next minute: mostly longer than the call may take */
    .expired = REFUSED(401, "authError"),
    .quota = REFUSED(403, "quotaExceeded"),
    .bucket = "conform",
    .objects = "urls/gcp",
};
