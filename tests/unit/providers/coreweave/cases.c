#include "base/base.h"
#include "cases.h"

#include "base/text/text.h"

const char *const case_env[] = { "COREWEAVE_API_TOKEN", CW_TOKEN, "COREWEAVE_S3_ACCESS_KEY_ID",
	"CWKEY", "COREWEAVE_S3_SECRET_ACCESS_KEY", "cwsecret-0123456789", NULL };
const char *const case_settings[] = { "image", "registry.example/node@sha256:00", "service_account",
	"spotbroker", "tolerations", "team=vision:NoSchedule, spot", NULL };
const char *const case_kube_settings[] = { "clusters", "lab", "kubeconfig", "/run/kube.conf",
	"image", "registry.example/node:1", "runtime_class", "nvidia", "host_network", "true",
	"price.p5.48xlarge.spot", "31.50", "audience", "https://me.example", NULL };

#define GRANTED \
	"{\"kind\":\"TokenRequest\",\"apiVersion\":\"authentication.k8s.io/" \
	"v1\",\"metadata\":{\"name\":\"spotbroker\"}," \
	"\"spec\":{\"audiences\":[\"x\"],\"expirationSeconds\":3600},\"status\":{\"token\":" \
	"\"" SA_TOKEN "\",\"expirationTimestamp\":\"2015-08-30T13:36:00Z\"}}"

const struct drive_try case_auth[2] = {
	{ .method = "GET",
	    .url = "https://api.coreweave.com/v1beta1/cks/clusters",
	    .headers = { "authorization: Bearer " CW_TOKEN },
	    .limit = "api",
	    .status = 200,
	    .reply = CW_CLUSTERS },
	{ .method = "POST",
	    .url = "https://org-1a2b.k8s.us-east-04a.coreweave.com/api/v1/namespaces/spotbroker/"
		   "serviceaccounts/spotbroker/token",
	    .headers = { "authorization: Bearer " CW_TOKEN },
	    .limit = "cluster",
	    .limit_scope = "main",
	    .status = 201,
	    .reply = GRANTED },
};
const struct drive_try case_kube_auth[1] = {
	{ .read = "/run/kube.conf",
	    .status = 200,
	    .reply = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- name: lab\n  "
		     "context: {cluster: c, user: u}\n"
		     "- name: a\n  context: {cluster: c, user: u}\nclusters:\n- name: c\n  "
		     "cluster: {server: 'https://10.0.0.1:6443/'}\n"
		     "users:\n- name: u\n  user: {token: " SA_TOKEN "}\n" },
};

void cw_open(struct drive *d, const struct spot_provider_ops *ops, FILE *dump)
{
	bool cks = ops == &coreweave_ops;

	drive_init(d, ops, cks ? case_env : NULL, cks ? case_settings : case_kube_settings);
	d->dump = dump;
	drive_script(d, cks ? case_auth : case_kube_auth, cks ? 2 : 1);
	assert_int_equal(drive_run(d, DRIVE_AUTH, NULL), SPOT_DONE);
	drive_used(d);
}

int cw_setup(void **state)
{
	struct drive *d = calloc(1, sizeof(*d));

	assert_non_null(d);
	cw_open(d, &coreweave_ops, NULL);
	*state = d;
	return 0;
}

int cw_teardown(void **state)
{
	drive_fini(*state);
	free(*state);
	return 0;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static struct spot_launch launch_args(bool cks)
{
	static const struct spot_tag tags[] = { { "brk-node", "n1" }, { "brk-job", "j7" },
		{ "Note", "no label: a blank" } };

	return (
	    struct spot_launch){ .key = { cks ? "coreweave" : "kubernetes", cks ? "US-EAST" : "lab",
				     cks ? "US-EAST-04A" : "",
				     cks ? "gd-8xh100ib-i128" : "p5.48xlarge", SPOT_MARKET_SPOT },
		.zone_name = "",
		.shape = { .gpu_name = "H100-80GB-SXM",
		    .gpu_milli = 8000,
		    .vcpus = 128,
		    .mem_mib = 2062607,
		    .arch = "x86_64" },
		.token = "tok",
		.name = CW_NAME,
		.install = CW_INSTALL,
		.tags = tags,
		.tags_n = ARRAY_LEN(tags),
		.user_data = { "#!/bin/sh\necho hi\n", 18 },
		.audience = "https://broker.example" };
}

union args {
	struct spot_pools pools;
	struct spot_prices prices;
	struct spot_signals signals;
	struct spot_quotas quotas;
	struct spot_launch launch;
	struct spot_find find;
	struct spot_list list;
	struct spot_describe describe;
	struct spot_terminate terminate;
	struct spot_notices notices;
	struct spot_verify verify;
	struct spot_watch watch;
	struct spot_check check;
	const char *account;
};

static const char *const refs[] = { CW_REF, "lab/" CW_NAME "/" CW_UID };

static void args_more(union args *u, enum drive_verb verb, bool cks)
{
	static const struct spot_instance instances[] = { { .ref = CW_REF },
		{ .ref = "lab/" CW_NAME "/" CW_UID } };
	const char *region = cks ? "US-EAST" : "lab";

	switch ((int)verb) {
	case DRIVE_TERMINATE:
		u->terminate = (struct spot_terminate){ .region = region,
			.zone = "",
			.ref = refs[cks ? 0 : 1],
			.spot_request = "" };
		break;
	case DRIVE_NOTICES:
		u->notices = (struct spot_notices){ region, instances, 2, NULL, 0 };
		break;
	case DRIVE_VERIFY:
		u->verify = (struct spot_verify){ .region = region,
			.zone = "",
			.ref = refs[cks ? 0 : 1],
			.name = CW_NAME,
			.proof = str_from(
			    "{\"kind\":\"kubernetes\",\"token\":\"node-token-0123456789\"}"),
			.audience = "https://broker.example",
			.nonce = "" };
		break;
	case DRIVE_WATCH:
		u->watch = (struct spot_watch){ .region = region,
			.install = CW_INSTALL,
			.cursor = cks ? "/turn=0 main=7" : "",
			.hold_us = 20 * SPOT_US_PER_S };
		break;
	case DRIVE_CHECK:
		u->check.region = region;
		break;
	default:
		break;
	}
}

void *cw_args(struct arena *a, enum drive_verb verb, bool cks)
{
	const char *region = cks ? "US-EAST" : "lab";
	union args *u = arena_alloc(a, sizeof(*u));

	switch (verb) {
	case DRIVE_POOLS:
		u->pools.region = region;
		break;
	case DRIVE_SIGNALS:
		u->signals.region = region;
		break;
	case DRIVE_QUOTAS:
		u->quotas.region = region;
		break;
	case DRIVE_PRICES:
		u->prices.region = region;
		break;
	case DRIVE_LAUNCH:
		u->launch = launch_args(cks);
		break;
	case DRIVE_FIND:
		u->find = (struct spot_find){ region, "", "tok", CW_NAME, CW_INSTALL, NULL, 0 };
		break;
	case DRIVE_LIST:
		u->list = (struct spot_list){ region, CW_INSTALL, NULL, 0 };
		break;
	case DRIVE_DESCRIBE:
		u->describe = (struct spot_describe){ .region = region, .refs = refs, .refs_n = 2 };
		break;
	case DRIVE_TERMINATE:
	case DRIVE_NOTICES:
	case DRIVE_VERIFY:
	case DRIVE_WATCH:
	case DRIVE_CHECK:
		args_more(u, verb, cks);
		break;
	case DRIVE_AUTH:
	case DRIVE_REGIONS:
	case DRIVE_WHOAMI:
	case DRIVE_LAUNCH_GANG:
		break;
	}
	return u;
}

/* ---- replies --------------------------------------------------------------------------------- */

#define UNSCHEDULED \
	"\"phase\":\"Pending\",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\"," \
	"\"reason\":" \
	"\"Unschedulable\",\"message\":\"0/2 nodes are available\"}]"
#define PENDING CW_POD("", "", "\"phase\":\"Pending\"")
#define RUNNING CW_POD("", ",\"nodeName\":\"g1\"", "\"phase\":\"Running\",\"podIP\":\"10.1.2.3\"")
#define NODE \
	"{\"metadata\":{\"name\":\"g1\",\"labels\":{\"node.kubernetes.io/" \
	"instance-type\":\"p5.48xlarge\"," \
	"\"nvidia.com/gpu.product\":\"NVIDIA-H100-80GB-HBM3\",\"kubernetes.io/" \
	"arch\":\"amd64\"}},\"spec\":{}," \
	"\"status\":{\"allocatable\":{\"cpu\":\"127500m\",\"memory\":\"2112109804Ki\",\"nvidia." \
	"com/gpu\":\"8\"}}}"
#define ALLOWED \
	"{\"kind\":\"SelfSubjectAccessReview\",\"apiVersion\":\"authorization.k8s.io/" \
	"v1\",\"status\":{\"allowed\":true}}"
#define REVIEWED \
	"{\"kind\":\"TokenReview\",\"apiVersion\":\"authentication.k8s.io/" \
	"v1\",\"status\":{\"authenticated\":true," \
	"\"audiences\":[\"https://broker.example\",\"https://" \
	"me.example\"],\"user\":{\"username\":" \
	"\"system:serviceaccount:spotbroker:spotbroker-node\",\"extra\":{\"authentication." \
	"kubernetes.io/pod-name\":" \
	"[\"" CW_NAME "\"],\"authentication.kubernetes.io/pod-uid\":[\"" CW_UID "\"]}}}}"
#define ABSENT(kind) \
	CW_STATUS(404, "NotFound", "not found", "{\"name\":\"x\",\"kind\":\"" kind "\"}")

static const struct drive_try launch_tries[] = { R(201, PENDING), R(404, ABSENT("nodepools")),
	R(201, CW_NODEPOOL(0, 0, "")), R(200, CW_LIST("PodList", PENDING)),
	R(200, CW_NODEPOOL(1, 0, "")) };
static const struct drive_try find_tries[] = { R(200, PENDING), R(200, CW_NODEPOOL(1, 0, "")),
	R(200, CW_LIST("PodList", PENDING)), R(200, CW_NODEPOOL(1, 0, "")) };
static const struct drive_try list_tries[] = {
	R(200, CW_LIST("NodePoolList", CW_NODEPOOL(3, 1, ""))), R(200, CW_LIST("PodList", RUNNING))
};
static const struct drive_try describe_tries[] = {
	R(200, CW_LIST("NodePoolList", CW_NODEPOOL(2, 0, ""))),
	R(200, CW_LIST("PodList", CW_POD("", "", UNSCHEDULED))),
	R(200,
	    CW_LIST("EventList",
		"{\"involvedObject\":{\"kind\":\"NodePool\",\"name\":\"" CW_POOL
		"\"},\"reason\":\"CWInsufficientCapacity\",\"message\":\"m\",\"lastTimestamp\":"
		"null,\"eventTime\":"
		"\"2015-08-30T12:31:00.000000Z\"}")),
	R(200, CW_NODEPOOL(1, 0, ""))
};
static const struct drive_try terminate_tries[] = { R(200, RUNNING), R(200, CW_NODEPOOL(1, 1, "")),
	R(200, CW_LIST("PodList", "")), R(200, CW_NODEPOOL(0, 1, "")) };
static const struct drive_try notices_tries[] = { R(200, CW_LIST("NodePoolList", "")),
	R(200, CW_LIST("PodList", RUNNING)),
	R(200,
	    CW_LIST("NodeList",
		"{\"metadata\":{\"name\":\"g1\"},\"spec\":{\"unschedulable\":true}}")) };
static const struct drive_try signals_tries[] = { R(200,
    CW_LIST("NodePoolList",
	CW_NODEPOOL(2, 0,
	    "{\"type\":\"Capacity\",\"status\":\"False\",\"reason\":\"r\",\"message\":\"m\"}"))) };
static const struct drive_try quotas_tries[] = { R(200,
    CW_LIST("ResourceQuotaList",
	"{\"spec\":{\"hard\":{\"requests.nvidia.com/gpu\":\"16\",\"pods\":\"4\"}}}")) };
static const struct drive_try whoami_tries[] = { R(201,
    "{\"kind\":\"SelfSubjectReview\",\"status\":{\"userInfo\":{\"username\":\"system:"
    "serviceaccount:spotbroker:spotbroker\"}}}") };
static const struct drive_try verify_tries[] = { R(201, REVIEWED) };
static const struct drive_try check_tries[] = { R(201, ALLOWED), R(201, ALLOWED), R(201, ALLOWED),
	R(201, ALLOWED), R(201, ALLOWED), R(201, ALLOWED), R(201, ALLOWED), R(201, ALLOWED),
	R(201, ALLOWED), R(201, ALLOWED), R(201, ALLOWED), R(201, ALLOWED), R(201, ALLOWED),
	R(201, ALLOWED), R(201, ALLOWED), R(200, CW_LIST("NodePoolList", "")) };
static const struct drive_try watch_tries[] = { { .status = 200,
    .lines = { "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"metadata\":{"
	       "\"resourceVersion\":\"11\"}}}\n",
	"{\"type\":\"MODIFIED\",\"object\":" CW_POD(",\"deletionTimestamp\":\"2015-08-30T12:42:"
						    "40Z\",\"deletionGracePeriodSeconds\":400",
	    "", "\"phase\":\"Running\"") "}\n" } } };
static const struct drive_try kube_watch_tries[] = { R(200, CW_LIST("PodList", RUNNING)) };
static const struct drive_try kube_launch_tries[] = { R(201, PENDING), R(200, PENDING) };
static const struct drive_try kube_pools_tries[] = { R(200, CW_LIST("NodeList", NODE)) };
static const struct drive_try kube_describe_tries[] = { R(200, CW_LIST("PodList", RUNNING)),
	R(200, CW_LIST("NodeList", NODE)) };
static const struct drive_try kube_list_tries[] = { R(200, CW_LIST("PodList", RUNNING)) };

#define CASE_CW(v, name_, tries_) \
	{ \
		"coreweave_" name_, &coreweave_ops, v, tries_, ARRAY_LEN(tries_) \
	}
#define CASE_KUBE(v, name_, tries_) \
	{ \
		"kubernetes_" name_, &kubernetes_ops, v, tries_, ARRAY_LEN(tries_) \
	}
const struct cw_case cw_cases[] = {
	CASE_CW(DRIVE_LAUNCH, "launch", launch_tries),
	CASE_CW(DRIVE_FIND, "find", find_tries),
	CASE_CW(DRIVE_LIST, "list", list_tries),
	CASE_CW(DRIVE_DESCRIBE, "describe", describe_tries),
	CASE_CW(DRIVE_TERMINATE, "terminate", terminate_tries),
	CASE_CW(DRIVE_NOTICES, "notices", notices_tries),
	CASE_CW(DRIVE_SIGNALS, "signals", signals_tries),
	CASE_CW(DRIVE_QUOTAS, "quotas", quotas_tries),
	CASE_CW(DRIVE_WHOAMI, "whoami", whoami_tries),
	CASE_CW(DRIVE_VERIFY, "verify", verify_tries),
	CASE_CW(DRIVE_CHECK, "check", check_tries),
	CASE_CW(DRIVE_WATCH, "watch", watch_tries),
	CASE_KUBE(DRIVE_LAUNCH, "launch", kube_launch_tries),
	CASE_KUBE(DRIVE_POOLS, "pools", kube_pools_tries),
	CASE_KUBE(DRIVE_DESCRIBE, "describe", kube_describe_tries),
	CASE_KUBE(DRIVE_LIST, "list", kube_list_tries),
	CASE_KUBE(DRIVE_WATCH, "watch", kube_watch_tries),
};
const size_t cw_cases_n = ARRAY_LEN(cw_cases);
