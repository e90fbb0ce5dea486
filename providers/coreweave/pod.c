/*
 * The bodies of what we create: one Pod per lease, as large as its node, and one NodePool per
 * cluster, instance type and class. All names derive from the launch, so a lost reply is looked up
 * by name.
 */
#include "base/base.h"
#include "coreweave_priv.h"

#include "base/crypto/crypto.h"

#include <ctype.h>

/* How the managed Kubernetes services mark their spot nodes. */
const struct cw_spot_label cw_spot_labels[] = {
	{ "cloud.google.com/gke-spot", "true" },
	{ "eks.amazonaws.com/capacityType", "SPOT" },
	{ "karpenter.sh/capacity-type", "spot" },
	{ "kubernetes.azure.com/scalesetpriority", "spot" },
	{ "node.coreweave.cloud/reserved-desired", "spot" },
	{ "spotbroker.io/market", "spot" },
};
const size_t cw_spot_labels_n = ARRAY_LEN(cw_spot_labels);

/* ---- names ----------------------------------------------------------------------------------- */

/* A name out of lower case letters, digits, '-' and maybe '.', at most max long; changed or cut
 * ones end with a hash. */
static const char *dns_name(struct arena *a, const char *from, size_t max, bool dots)
{
	char hex[SHA256_HEX], *s = arena_strdup(a, from);
	size_t n = strlen(s);
	bool same = n > 0 && n <= max;

	for (size_t i = 0; i < n; i++) {
		char was = s[i];
		bool ok = islower((unsigned char)was) || isdigit((unsigned char)was) ||
		    was == '-' || (dots && was == '.');

		if (!ok) {
			s[i] =
			    isupper((unsigned char)was) ? (char)tolower((unsigned char)was) : '-';
			same = false;
		}
		if ((i == 0 || i == n - 1 || s[i - 1] == '.') && !isalnum((unsigned char)s[i])) {
			s[i] = 'x';
			same = false;
		}
	}
	if (same) {
		return s;
	}
	sha256_hex(from, strlen(from), hex);
	return arena_printf(a, "%.*s-%.8s", (int)MIN(n, max - 9), s, hex);
}

const char *cw_pod_name(struct arena *a, const char *name)
{
	return dns_name(a, name, CW_LABEL_MAX, true);
}

const char *cw_pool_name(struct arena *a, const char *install, const char *type,
    enum spot_market market)
{
	return dns_name(a,
	    arena_printf(a, "sb-%s-%s-%s", install, type,
		market == SPOT_MARKET_SPOT ? "spot" : "ondemand"),
	    CW_LABEL_MAX, false);
}

/* A label's value: at most 63 of [A-Za-z0-9-_.], letters or digits at both ends (apimachinery
 * validation.go). */
bool cw_label_ok(const char *v)
{
	size_t n = v != NULL ? strlen(v) : 0;

	return n > 0 && n <= CW_LABEL_MAX && isalnum((unsigned char)v[0]) &&
	    isalnum((unsigned char)v[n - 1]) &&
	    strspn(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == n;
}

const char *cw_audience(const struct cw *self, const char *given)
{
	return self->audience != NULL ? self->audience : str_empty(given) ? "spotbroker" : given;
}

/* ---- the NodePool ---------------------------------------------------------------------------- */

json_t *cw_nodepool_body(struct arena *a, const char *name, const char *install, const char *type,
    enum spot_market market)
{
	const char *class = market == SPOT_MARKET_SPOT ? "spot" : "default";

	(void)a;
	/* It begins with nothing: the target is set by the one who counts the Pods. */
	return json_pack("{s:s, s:s, s:{s:s, s:{s:s, s:s, s:s}},"
			 " s:{s:s, s:s, s:i, s:b, s:{s:s, s:s}, s:[{s:s, s:s, s:s}], s:{s:s}}}",
	    "apiVersion", "compute.coreweave.com/v1alpha1", "kind", "NodePool", "metadata", "name",
	    name, "labels", CW_LABEL_INSTALL, install, CW_LABEL_TYPE, type, CW_LABEL_MARKET,
	    spot_market_name(market), "spec", "computeClass", class, "instanceType", type,
	    "targetNodes", 0, "autoscaling", 0, "nodeLabels", CW_LABEL_POOL, name, CW_LABEL_INSTALL,
	    install, "nodeTaints", "key", CW_TAINT, "value", install, "effect", "NoSchedule",
	    "lifecycle", "scaleDownStrategy", "IdleOnly");
}

/* ---- the Pod --------------------------------------------------------------------------------- */

static json_t *toleration_json(const char *key, const char *value, const char *effect, int seconds)
{
	json_t *t =
	    json_pack("{s:s, s:s}", "key", key, "operator", value != NULL ? "Equal" : "Exists");

	if (value != NULL) {
		json_object_set_new(t, "value", json_string(value));
	}
	if (effect != NULL) {
		json_object_set_new(t, "effect", json_string(effect));
	}
	if (seconds > 0) {
		json_object_set_new(t, "tolerationSeconds", json_integer(seconds));
	}
	return t;
}

static json_t *tolerations_json(const struct cw *self, enum spot_market market)
{
	json_t *all = json_array();

	json_array_append_new(all, toleration_json(CW_TAINT, NULL, NULL, 0));
	json_array_append_new(all, toleration_json("nvidia.com/gpu", NULL, NULL, 0));
	json_array_append_new(all, toleration_json("is_gpu", NULL, NULL, 0));
	if (!self->cks && market == SPOT_MARKET_SPOT) {
		json_array_append_new(all,
		    toleration_json("cloud.google.com/gke-spot", NULL, NULL, 0));
		json_array_append_new(all,
		    toleration_json("kubernetes.azure.com/scalesetpriority", NULL, NULL, 0));
	}
	/* Admission's default is 300 s: five minutes of a dead node. */
	json_array_append_new(all,
	    toleration_json("node.kubernetes.io/not-ready", NULL, "NoExecute", 60));
	json_array_append_new(all,
	    toleration_json("node.kubernetes.io/unreachable", NULL, "NoExecute", 60));
	for (size_t i = 0; i < self->tolerations_n; i++) {
		const struct cw_toleration *t = &self->tolerations[i];

		json_array_append_new(all, toleration_json(t->key, t->value, t->effect, 0));
	}
	return all;
}

/* Spot: one of the services' labels. On demand: none of them. */
static json_t *market_affinity(enum spot_market market)
{
	json_t *terms = json_array(), *all = json_array();

	for (size_t i = 0; i < cw_spot_labels_n; i++) {
		const struct cw_spot_label *l = &cw_spot_labels[i];

		if (market == SPOT_MARKET_SPOT) {
			json_array_append_new(terms,
			    json_pack("{s:[{s:s, s:s, s:[s]}]}", "matchExpressions", "key", l->key,
				"operator", "In", "values", l->value));
		} else {
			json_array_append_new(all,
			    json_pack("{s:s, s:s, s:[s]}", "key", l->key, "operator", "NotIn",
				"values", l->value));
		}
	}
	if (market == SPOT_MARKET_SPOT) {
		json_decref(all);
	} else {
		json_array_append_new(terms, json_pack("{s:o}", "matchExpressions", all));
	}
	return json_pack("{s:{s:{s:o}}}", "nodeAffinity",
	    "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", terms);
}

static void spec_place(const struct cw *self, struct arena *a, const struct spot_launch *l,
    json_t *spec)
{
	const char *type = l->key.instance_type;
	json_t *selector;

	if (self->cks) {
		selector = json_pack("{s:s}", CW_LABEL_POOL,
		    cw_pool_name(a, l->install, type, l->key.market));
	} else if (str_prefix(type, CW_PRODUCT_PREFIX)) {
		selector =
		    json_pack("{s:s}", "nvidia.com/gpu.product", type + strlen(CW_PRODUCT_PREFIX));
	} else {
		selector = json_pack("{s:s}", "node.kubernetes.io/instance-type", type);
	}
	json_object_set_new(spec, "nodeSelector", selector);
	if (!self->cks) {
		json_object_set_new(spec, "affinity", market_affinity(l->key.market));
	}
	json_object_set_new(spec, "tolerations", tolerations_json(self, l->key.market));
}

/* All GPUs of the node make it ours alone; of the rest we ask for enough not to be the first to be
 * evicted. */
static json_t *resources_json(const struct cw *self, struct arena *a, const struct spot_launch *l)
{
	const struct cw_type *t = self->cks ? cw_type_find(self, l->key.instance_type) : NULL;
	int parts = self->cks ? 3 : 2;
	json_t *want = json_object(), *most = json_object(), *gpus;

	gpus = json_string(arena_printf(a, "%d", l->shape.gpu_milli / 1000));
	json_object_set(want, "nvidia.com/gpu", gpus);
	json_object_set_new(most, "nvidia.com/gpu", gpus);
	if (t != NULL && t->rdma[0] != '\0') {
		json_object_set_new(want, t->rdma, json_string("1"));
		json_object_set_new(most, t->rdma, json_string("1"));
	}
	if (l->shape.vcpus > 1) {
		json_object_set_new(want, "cpu",
		    json_string(arena_printf(a, "%d", l->shape.vcpus * parts / 4)));
	}
	if (l->shape.mem_mib > 1024) {
		json_object_set_new(want, "memory",
		    json_string(
			arena_printf(a, "%" PRId64 "Mi", (int64_t)l->shape.mem_mib * parts / 4)));
	}
	return json_pack("{s:o, s:o}", "requests", want, "limits", most);
}

static json_t *container_json(const struct cw *self, struct arena *a, const struct spot_launch *l)
{
	json_t *script = json_stringn(l->user_data.n > 0 ? l->user_data.p : "", l->user_data.n);

	if (script == NULL) {
		return NULL; /* not UTF-8 */
	}
	return json_pack("{s:s, s:s, s:[s, s, o], s:[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}],"
			 " s:o, s:[{s:s, s:s, s:b}, {s:s, s:s}, {s:s, s:s}]}",
	    "name", CW_CONTAINER, "image", self->image, "command", "/bin/sh", "-c", script, "env",
	    "name", "SPOT_TERMINATION_GRACE_S", "value", arena_printf(a, "%d", CW_POD_GRACE_S),
	    "name", "SPOT_IDENTITY_TOKEN_FILE", "value", "/var/run/secrets/spotbroker/token",
	    "name", "SPOT_AGENT_DIR", "value", "/var/lib/spot-agent", "resources",
	    resources_json(self, a, l), "volumeMounts", "name", "identity", "mountPath",
	    "/var/run/secrets/spotbroker", "readOnly", 1, "name", "shm", "mountPath", "/dev/shm",
	    "name", "work", "mountPath", "/var/lib/spot-agent");
}

static json_t *pod_spec(const struct cw *self, struct arena *a, const struct spot_launch *l)
{
	json_t *box = container_json(self, a, l), *spec;

	if (box == NULL) {
		return NULL;
	}
	spec = json_pack("{s:s, s:i, s:s, s:b, s:[o], s:[{s:s, s:{s:s}}, {s:s, s:{}},"
			 " {s:s, s:{s:[{s:{s:s, s:i, s:s}}]}}]}",
	    "restartPolicy", "Never", "terminationGracePeriodSeconds", CW_POD_GRACE_S,
	    "serviceAccountName", self->node_account, "automountServiceAccountToken", 0,
	    "containers", box, "volumes", "name", "shm", "emptyDir", "medium", "Memory", "name",
	    "work", "emptyDir", "name", "identity", "projected", "sources", "serviceAccountToken",
	    "audience", cw_audience(self, l->audience), "expirationSeconds", 3600, "path", "token");
	if (self->host_network) {
		json_object_set_new(spec, "hostNetwork", json_true());
		json_object_set_new(spec, "dnsPolicy", json_string("ClusterFirstWithHostNet"));
	}
	if (self->runtime_class != NULL) {
		json_object_set_new(spec, "runtimeClassName", json_string(self->runtime_class));
	}
	spec_place(self, a, l, spec);
	return spec;
}

static json_t *pod_labels(const struct cw *self, struct arena *a, const struct spot_launch *l)
{
	json_t *labels = json_pack("{s:s, s:s}", CW_LABEL_INSTALL, l->install, CW_LABEL_MARKET,
	    spot_market_name(l->key.market));

	if (cw_label_ok(l->key.instance_type)) {
		json_object_set_new(labels, CW_LABEL_TYPE, json_string(l->key.instance_type));
	}
	if (self->cks) {
		json_object_set_new(labels, CW_LABEL_POOL,
		    json_string(cw_pool_name(a, l->install, l->key.instance_type, l->key.market)));
		/* Waits for the Pod's end or its grace at maintenance (workload scheduling page:
		 * eviction labels). The look-alike qos.coreweave.cloud/interruptable kills without
		 * grace. */
		json_object_set_new(labels, "qos.coreweave.com/graceful-interruptible",
		    json_string("true"));
	}
	for (size_t i = 0; i < l->tags_n; i++) {
		const char *key = dns_name(a, l->tags[i].key, CW_LABEL_MAX, false);

		if (cw_label_ok(l->tags[i].value)) {
			json_object_set_new(labels, arena_printf(a, "spotbroker.io/tag-%.58s", key),
			    json_string(l->tags[i].value));
		}
	}
	return labels;
}

json_t *cw_pod_body(const struct cw *self, struct spot_call *c, const struct spot_launch *l,
    const char **ret_hash)
{
	json_t *spec = pod_spec(self, c->arena, l), *labels, *body, *notes;
	char hex[SHA256_HEX], *text;

	if (spec == NULL) {
		return NULL;
	}
	labels = pod_labels(self, c->arena, l);
	notes =
	    json_pack("{s:s, s:s}", CW_NOTE_TOKEN, l->token, CW_LABEL_TYPE, l->key.instance_type);
	body = json_pack("{s:s, s:s, s:{s:s, s:s, s:o, s:o}, s:o}", "apiVersion", "v1", "kind",
	    "Pod", "metadata", "name", cw_pod_name(c->arena, l->name), "namespace", self->space,
	    "labels", labels, "annotations", notes, "spec", spec);
	if (body == NULL) {
		return NULL;
	}
	text = json_dumps(body, JSON_COMPACT | JSON_SORT_KEYS);
	if (text == NULL) {
		abort();
	}
	sha256_hex(text, strlen(text), hex);
	free(text);
	json_object_set_new(notes, CW_NOTE_SPEC, json_string(hex));
	*ret_hash = arena_strdup(c->arena, hex);
	return body;
}
