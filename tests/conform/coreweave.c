/* How a Kubernetes API server expresses the cases of the suite: for CoreWeave (NodePools behind it)
 * and for any other cluster (kubernetes/apimachinery meta/v1 types.go;
 * providers/coreweave/README.md). */
#include "base/base.h"
#include "conform.h"

#include "base/text/text.h"
#include "coreweave/coreweave.h"

#define API_TOKEN "CW-SECRET-conform-0123456789"
#define SA_TOKEN "eyJhbGciOiJSUzI1NiJ9.conform.0123456789"
#define NAME "brk.7f3a.n1.1767323045"
#define UID "5f0c6d2e-0001-4000-8000-000000000001"
#define STATUS(code, reason, message, details) \
	"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\"," \
	"\"message\":\"" message "\",\"reason\":\"" reason "\",\"details\":" details \
	",\"code\":" #code "}"
#define POD(pool, phase, more) \
	"{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"" NAME \
	"\",\"uid\":\"" UID "\",\"creationTimestamp\":\"2015-08-30T12:30:00Z\",\"labels\":{" \
	"\"spotbroker.io/install\":\"7f3a\"," \
	"\"spotbroker.io/market\":\"spot\"" pool \
	"},\"annotations\":{\"spotbroker.io/token\":\"tok\"," \
	"\"spotbroker.io/instance-type\":\"gd-8xh100ib-i128\",\"spotbroker.io/" \
	"spec-sha256\":\"00\"}}," \
	"\"spec\":{\"containers\":[{\"name\":\"node\"}]},\"status\":{\"phase\":\"" phase "\"" more \
	"}}"
#define LIST(kind, items) \
	"{\"kind\":\"" kind \
	"\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"9\"},\"items\":[" items "]}"
#define PAGE(item) \
	"{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"9\"," \
	"\"continue\":\"@@\"}," \
	"\"items\":[" item "]}"
#define CW_POOL ",\"spotbroker.io/pool\":\"sb-7f3a-gd-8xh100ib-i128-spot\""
#define NODEPOOL(target, current, conditions) \
	"{\"kind\":\"NodePool\",\"apiVersion\":\"compute.coreweave.com/" \
	"v1alpha1\",\"metadata\":{\"name\":" \
	"\"sb-7f3a-gd-8xh100ib-i128-spot\",\"uid\":\"u\",\"resourceVersion\":\"5\",\"labels\":{" \
	"\"spotbroker.io/" \
	"install\":\"7f3a\"}},\"spec\":{\"computeClass\":\"spot\",\"instanceType\":" \
	"\"gd-8xh100ib-i128\",\"targetNodes\":" #target "},\"status\":{\"currentNodes\":" #current \
	",\"conditions\":[" conditions "]}}"
#define SOLD_OUT \
	"{\"type\":\"Capacity\",\"status\":\"False\",\"reason\":\"CWInsufficientCapacity\"," \
	"\"message\":\"not enough nodes\"}"

static const char *const secrets[] = { API_TOKEN, SA_TOKEN, NULL };
/* Wrong types and missing parts of a list of Pods. */
static const char *const wrong[] = {
	"{}",
	"[]",
	"{\"kind\":\"PodList\"}",
	"{\"kind\":\"PodList\",\"items\":{}}",
	"{\"kind\":\"NodeList\",\"items\":[]}",
	"{\"kind\":\"PodList\",\"items\":[null]}",
	"{\"kind\":\"PodList\",\"items\":[{}]}",
	"{\"kind\":\"PodList\",\"items\":[{\"metadata\":{\"name\":1,\"uid\":\"u\"},\"spec\":{}}]}",
	"{\"kind\":\"PodList\",\"items\":[{\"metadata\":{\"name\":\"a/"
	"b\",\"uid\":\"u\"},\"spec\":{}}]}",
	"{\"kind\":\"PodList\",\"items\":[{\"metadata\":{\"name\":\"a\",\"uid\":\"u\"},\"spec\":[]}"
	"]}",
	"{\"kind\":\"PodList\",\"items\":[{\"metadata\":{\"name\":\"a\",\"uid\":\"u\"},\"spec\":{},"
	"\"status\":7}]}",
	"{\"kind\":\"PodList\",\"items\":[{\"metadata\":{\"name\":\"a\",\"uid\":\"u\"},\"spec\":{},"
	"\"status\":{\"phase\":{}}}]}",
	NULL,
};

/* ---- CoreWeave ------------------------------------------------------------------------------- */

static const char *const cw_env[] = { "COREWEAVE_API_TOKEN", API_TOKEN, NULL };
static const char *const cw_settings[] = { "image", "registry.example/node@sha256:00", NULL };
static const struct drive_try cw_auth[] = {
	{ .method = "GET",
	    .url = "https://api.coreweave.com/v1beta1/cks/clusters",
	    .status = 200,
	    .reply =
		"{\"items\":[{\"id\":\"c-1\",\"name\":\"main\",\"zone\":\"US-EAST-04A\",\"status\":"
		"\"STATUS_RUNNING\","
		"\"apiServerEndpoint\":\"https://org-1a2b.k8s.us-east-04a.coreweave.com\"}]}" },
};
static const struct drive_try no_pools[] = { { .status = 200, .reply = LIST("NodePoolList", "") } };
static const struct drive_try ordered[] = {
	{ .status = 200, .reply = NODEPOOL(0, 0, "") },
	{ .method = "GET", .status = 200, .reply = LIST("PodList", POD(CW_POOL, "Pending", "")) },
	{ .method = "PATCH",
	    .has = { "\"resourceVersion\":\"5\"", "\"targetNodes\":1" },
	    .status = 200,
	    .reply = NODEPOOL(1, 0, "") },
};
static const struct drive_try sold_out[] = {
	{ .method = "POST", .status = 201, .reply = POD(CW_POOL, "Pending", "") },
	{ .method = "GET", .status = 200, .reply = NODEPOOL(1, 0, SOLD_OUT) },
	{ .method = "GET", .status = 200, .reply = LIST("PodList", POD(CW_POOL, "Pending", "")) },
	{ .method = "PATCH",
	    .has = { "\"targetNodes\":1" },
	    .status = 200,
	    .reply = NODEPOOL(1, 0, SOLD_OUT) },
	{ .method = "DELETE", .has = { UID }, .status = 200, .reply = POD(CW_POOL, "Pending", "") },
	{ .method = "GET", .status = 200, .reply = NODEPOOL(1, 0, SOLD_OUT) },
	{ .method = "GET", .status = 200, .reply = LIST("PodList", "") },
	{ .method = "PATCH",
	    .has = { "\"targetNodes\":0" },
	    .status = 200,
	    .reply = NODEPOOL(0, 0, "") },
};
static const struct drive_try over_quota[] = {
	{ .method = "POST", .status = 201, .reply = POD(CW_POOL, "Pending", "") },
	{ .method = "GET", .status = 200, .reply = NODEPOOL(0, 0, "") },
	{ .method = "GET", .status = 200, .reply = LIST("PodList", POD(CW_POOL, "Pending", "")) },
	{ .method = "PATCH",
	    .status = 403,
	    .reply = STATUS(403, "Forbidden",
		"admission webhook denied the request: quota exceeded", "{}") },
	{ .method = "DELETE", .status = 200, .reply = POD(CW_POOL, "Pending", "") },
	{ .method = "GET", .status = 200, .reply = NODEPOOL(0, 0, "") },
	{ .method = "GET", .status = 200, .reply = LIST("PodList", "") },
	{ .method = "PATCH",
	    .has = { "\"targetNodes\":0" },
	    .status = 200,
	    .reply = NODEPOOL(0, 0, "") },
};
static const struct drive_try used_before[] = {
	{ .method = "POST",
	    .status = 409,
	    .reply = STATUS(409, "AlreadyExists", "pods already exists",
		"{\"name\":\"" NAME "\",\"kind\":\"pods\"}") },
	{ .method = "GET", .status = 200, .reply = POD(CW_POOL, "Pending", "") },
};

#define REFUSALS \
	.throttled = { 429, STATUS(429, "TooManyRequests", "slow down", "{}") }, \
	.broken = { 503, "upstream connect error" }, \
	.expired = { 401, STATUS(401, "Unauthorized", "Unauthorized", "{}") }, \
	.denied = { 403, \
		STATUS(403, "Forbidden", "pods is forbidden: User x cannot create resource pods", \
		    "{}") }, \
	.unknown_instance = { 404, \
		STATUS(404, "NotFound", "pods not found", \
		    "{\"name\":\"" NAME "\",\"kind\":\"pods\"}") }, \
	.wrong_place = { 404, "404 page not found\n" }, \
	.mismatch_later = { used_before, ARRAY_LEN(used_before) }

#define LAUNCH(provider_, region_, zone_) \
	{ \
		.key = { provider_, region_, zone_, "gd-8xh100ib-i128", SPOT_MARKET_SPOT }, \
		.zone_name = "main", \
		.shape = { .gpu_name = "H100-80GB-SXM", \
			.gpu_milli = 8000, \
			.vcpus = 128, \
			.mem_mib = 2062607, \
			.arch = "x86_64" }, \
		.token = "tok", .name = NAME, .install = "7f3a", \
		.user_data = { "#!/bin/sh\n", 10 }, \
	}

const struct conform_provider conform_coreweave = {
	.name = "coreweave",
	.ops = &coreweave_ops,
	.env = cw_env,
	.settings = cw_settings,
	.auth = cw_auth,
	.auth_n = ARRAY_LEN(cw_auth),
	.secrets = secrets,
	.launch = LAUNCH("coreweave", "US-EAST", "US-EAST-04A"),
	.install = "7f3a",
	.region = "US-EAST",
	.ref = "main/" NAME "/" UID,
	.list_before = { no_pools, ARRAY_LEN(no_pools) },
	.launch_after = { ordered, ARRAY_LEN(ordered) },
	.list_good = LIST("PodList", POD(CW_POOL, "Running", "")),
	.list_empty = LIST("PodList", ""),
	.list_odd = LIST("PodList", POD(CW_POOL, "dreaming", "")),
	.list_page = PAGE(POD(CW_POOL, "Running", "")),
	.launch_good = POD(CW_POOL, "Pending", ""),
	.list_wrong = wrong,
	.capacity_later = { sold_out, ARRAY_LEN(sold_out) },
	.quota_later = { over_quota, ARRAY_LEN(over_quota) },
	REFUSALS,
};

/* ---- any cluster ----------------------------------------------------------------------------- */

static const char *const kube_settings[] = { "clusters", "lab", "kubeconfig", "/run/kube.conf",
	"image", "registry.example/node@sha256:00", NULL };
static const struct drive_try kube_auth[] = {
	{ .read = "/run/kube.conf",
	    .status = 200,
	    .reply =
		"apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- name: a\n  "
		"context: {cluster: c, user: u}\n"
		"clusters:\n- name: c\n  cluster: {server: 'https://10.0.0.1:6443'}\nusers:\n- "
		"name: u\n  user: {token: " SA_TOKEN "}\n" },
};
static const struct drive_try looked[] = { { .status = 200, .reply = POD("", "Pending", "") } };
static const struct drive_try full[] = {
	{ .method = "POST", .status = 201, .reply = POD("", "Pending", "") },
	{ .method = "GET",
	    .status = 200,
	    .reply = POD("", "Pending",
		",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":"
		"\"Unschedulable\",\"message\":"
		"\"0/3 nodes are available: 3 Insufficient nvidia.com/gpu.\"}]") },
	{ .method = "DELETE", .has = { UID }, .status = 200, .reply = POD("", "Pending", "") },
};

const struct conform_provider conform_kubernetes = {
	.name = "kubernetes",
	.ops = &kubernetes_ops,
	.settings = kube_settings,
	.auth = kube_auth,
	.auth_n = ARRAY_LEN(kube_auth),
	.secrets = secrets,
	.launch = LAUNCH("kubernetes", "lab", ""),
	.install = "7f3a",
	.region = "lab",
	.ref = "lab/" NAME "/" UID,
	.launch_after = { looked, ARRAY_LEN(looked) },
	.list_good = LIST("PodList", POD("", "Running", "")),
	.list_empty = LIST("PodList", ""),
	.list_odd = LIST("PodList", POD("", "dreaming", "")),
	.list_page = PAGE(POD("", "Running", "")),
	.launch_good = POD("", "Pending", ""),
	.list_wrong = wrong,
	.quota = { 403,
	    STATUS(403, "Forbidden",
		"pods is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=8",
		"{}") },
	.capacity_later = { full, ARRAY_LEN(full) },
	REFUSALS,
};
