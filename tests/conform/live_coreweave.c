/* CoreWeave and a plain Kubernetes cluster at the emulator. The node pools and Pods are the same
 * code; the plain one has machines that are there already. */
#include "live.h"

#include "base/crypto/crypto.h"
#include "base/text/text.h"
#include "coreweave/coreweave.h"

/* A member of urls.kubernetes[i]. */
static const char *of_cluster(struct live *v, size_t i, const char *member)
{
	const json_t *all = json_object_get(json_object_get(v->doc, "urls"), "kubernetes");

	return json_string_value(json_object_get(json_array_get(all, i), member));
}

static const char *common_value(struct live *v, size_t cluster, const char *key)
{
	static const char *const same[][2] = { { "namespace", "namespace" },
		{ "service_account", "service_account" },
		{ "node_service_account", "node_service_account" } };

	for (size_t i = 0; i < ARRAY_LEN(same); i++) {
		if (strcmp(same[i][0], key) == 0) {
			return of_cluster(v, cluster, same[i][1]);
		}
	}
	if (strcmp(key, "image") == 0) {
		return "registry.example/cuda:12";
	}
	return strcmp(key, "audience") == 0 ? "http://broker.example" : NULL;
}

static const char *env_value(struct live *v, const char *name)
{
	return strcmp(name, "COREWEAVE_API_TOKEN") == 0
	    ? live_text(v, "credentials/coreweave/api_token")
	    : NULL;
}

static const char *setting_value(struct live *v, const char *key)
{
	if (strcmp(key, "api_endpoint") == 0) {
		return live_text(v, "urls/coreweave");
	}
	if (strcmp(key, "object_access_key") == 0) {
		return live_text(v, "credentials/aws/access_key_id");
	}
	if (strcmp(key, "object_path_style") == 0) {
		return "false"; /* though it is at localhost here */
	}
	if (strcmp(key, "object_secret_file") == 0) {
		return arena_printf(v->arena, "%s/object-secret", v->dir);
	}
	if (strcmp(key, "clusters") == 0) {
		return "gpu-east";
	}
	return strcmp(key, "kubeconfig.gpu-east") == 0 ? of_cluster(v, 0, "kubeconfig")
						       : common_value(v, 0, key);
}

static const char *plain_setting(struct live *v, const char *key)
{
	if (str_prefix(key, "price.")) {
		return str_suffix(key, ".on_demand") ? "2.50" : NULL;
	}
	return strcmp(key, "kubeconfig") == 0 ? of_cluster(v, 2, "kubeconfig")
					      : common_value(v, 2, key);
}

/* The object store's secret in its file, and the bucket of the presigned requests: in the host
 * name, the only style that the store knows. */
static void bucket_prepare(struct live *v)
{
	struct sigv4 k = { .access_key = live_text(v, "credentials/aws/access_key_id"),
		.secret_key = live_text(v, "credentials/aws/secret_access_key"),
		.region = "default",
		.service = "s3",
		.now_us = loop_wall_us(v->loop) };
	const char *base = live_text(v, "urls/cwobject");
	FILE *f = fopen(arena_printf(v->arena, "%s/object-secret", v->dir), "we");

	assert_non_null(f);
	assert_true(fputs(k.secret_key, f) >= 0 && fclose(f) == 0);
	assert_true(str_prefix(base, "http://"));
	assert_int_equal(live_plain(v, "PUT",
			     sigv4_presign(v->arena, &k, "PUT",
				 arena_printf(v->arena, "http://conform.%s/",
				     base + strlen("http://")),
				 60),
			     NULL, ""),
	    200);
}

#define K8S(action) "\"service\":\"k8s\",\"action\":\"" action "\""
#define REFUSED(n, code) \
	"\"kind\":\"status\",\"status\":" #n ",\"code\":\"" code "\",\"message\":\"words\""

/* Only the words tell a quota from a missing right. */
#define OVER_QUOTA \
	"\"kind\":\"status\",\"status\":403,\"code\":\"Forbidden\",\"message\":\"exceeded quota: " \
	"gpus\""

const struct live_cloud live_coreweave = {
	.name = "coreweave",
	.ops = &coreweave_ops,
	.env = env_value,
	.setting = setting_value,
	.prepare = bucket_prepare,
	.region = "US-EAST",
	.type = "gd-8xh100ib-i128",
	.create = K8S("POST pods"),
	.list = K8S("GET pods"),
	.end = K8S("DELETE pods"),
	.service = "\"service\":\"k8s\"",
	.throttled = REFUSED(429, "TooManyRequests"),
	.expired = REFUSED(401, "Unauthorized"),
	.quota = OVER_QUOTA,
	.late = true,
	.bucket = "conform",
	.objects = "urls/cwobject",
};

const struct live_cloud live_kubernetes = {
	.name = "kubernetes",
	.ops = &kubernetes_ops,
	.setting = plain_setting,
	.sim_name = "coreweave",
	.region = "kubernetes",
	.type = "dgx-h100",
	.create = K8S("POST pods"),
	.list = K8S("GET pods"),
	.end = K8S("DELETE pods"),
	.service = "\"service\":\"k8s\"",
	.throttled = REFUSED(429, "TooManyRequests"),
	.expired = REFUSED(401, "Unauthorized"),
	.quota = OVER_QUOTA,
	.late = true,
	.fixed = true,
};
