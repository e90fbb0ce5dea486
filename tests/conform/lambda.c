/* How Lambda Cloud expresses the cases of the suite (OpenAPI 1.10.0; see
 * providers/lambda/README.md). */
#include "base/base.h"
#include "conform.h"

#include "base/text/text.h"
#include "lambda/lambda.h"

#define KEY "lambda-conform-key-0123456789"
#define JUP "jupyter-5ecre7-0123456789"
#define ERROR(code) "{\"error\":{\"code\":\"" code "\",\"message\":\"words\"}}"
#define INSTANCE(status) \
	"{\"id\":\"0f1e2d3c4b5a69788796a5b4c3d2e1f0\",\"name\":\"brk.7f3a.n1.1767323045\"," \
	"\"status\":\"" status "\",\"region\":{\"name\":\"us-east-1\",\"description\":\"Virginia," \
	" USA\"},\"instance_type\":{\"name\":" \
	"\"gpu_1x_a10\",\"price_cents_per_hour\":129,\"specs\":{\"gpus\":1}},\"ssh_key_names\":[" \
	"\"k\"]," \
	"\"tags\":[{\"key\":\"brk-install\",\"value\":\"7f3a\"},{\"key\":\"brk-attempt\"," \
	"\"value\":\"tok\"}]," \
	"\"ip\":\"198.51.100.7\",\"jupyter_token\":\"" JUP \
	"\",\"actions\":{\"terminate\":{\"available\":true}}}"

static const char *const settings[] = { "ssh_key_name", "k", "api_key_file", "/run/lambda.key",
	NULL };
static const char *const secrets[] = { KEY, JUP, NULL };
static const struct drive_try auth[] = {
	{ .read = "/run/lambda.key", .status = 200, .reply = "api_key = " KEY "\n" },
};
static const char *const wrong[] = {
	"{\"data\":{}}",
	"{\"data\":[null]}",
	"{\"data\":[{}]}",
	"{\"instances\":[]}",
	"[]",
	"{\"data\":[{\"id\":1,\"status\":\"active\",\"region\":{\"name\":\"r\"},\"instance_type\":{"
	"\"name\":\"t\"}}]}",
	"{\"data\":[{\"id\":\"a\",\"status\":{},\"region\":{\"name\":\"r\"},\"instance_type\":{"
	"\"name\":\"t\"}}]}",
	"{\"data\":[{\"id\":\"a\",\"status\":\"active\",\"region\":[],\"instance_type\":{\"name\":"
	"\"t\"}}]}",
	NULL,
};

const struct conform_provider conform_lambda = {
    .name = "lambda",
    .ops = &lambda_ops,
    .settings = settings,
    .auth = auth,
    .auth_n = ARRAY_LEN(auth),
    .secrets = secrets,
    .launch =
	{
	    .key = {"lambda", "us-east-1", "", "gpu_1x_a10", SPOT_MARKET_ON_DEMAND},
	    .zone_name = "",
	    .shape = {.arch = "x86_64"},
	    .token = "tok",
	    .name = "brk.7f3a.n1.1767323045",
	    .install = "7f3a",
	    .user_data = {"#!/bin/sh\n", 10},
	},
    .install = "7f3a",
    .region = "",
    .ref = "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
    .list_good = "{\"data\":[" INSTANCE("active") "]}",
    .list_empty = "{\"data\":[]}",
    .list_odd = "{\"data\":[" INSTANCE("dreaming") "]}",
    .launch_good = "{\"data\":{\"instance_ids\":[\"0f1e2d3c4b5a69788796a5b4c3d2e1f0\"]}}",
    .list_wrong = wrong,
    .throttled = {429, "<html>Too Many Requests</html>"},
    .broken = {503, "<html>Bad Gateway</html>"},
    .expired = {401, ERROR("global/invalid-api-key")},
    .denied = {403, ERROR("global/account-inactive")},
    .capacity = {400, ERROR("instance-operations/launch/insufficient-capacity")},
    .quota = {400, ERROR("global/quota-exceeded")},
    .unknown_instance = {404, ERROR("global/object-does-not-exist")},
    .wrong_place = {404, ERROR("global/not-found")},
};
