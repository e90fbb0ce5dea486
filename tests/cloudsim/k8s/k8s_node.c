/*
 * Nodes: whole servers. A node of a NodePool stands for an instance of the market. It is Ready when
 * the instance runs, cordoned and tainted when it is reclaimed, deleted when it is gone. Labels
 * follow docs.coreweave.com/products/cks/nodes (node labels) and SkyPilot's selectors.
 */
#include "base/base.h"
#include "cloudsim/k8s/k8s.h"
#include "cloudsim/coreweave/coreweave.h"
#include "base/text/text.h"

struct k8s_obj *node_of(const struct inst *i)
{
	return i->own;
}

const char *node_pool_of(const struct k8s_obj *node)
{
	return json_string_value(json_object_get(k_at(node->doc, "metadata.labels"), POOL_LABEL));
}

bool node_busy(const struct k8s_obj *node)
{
	for (const struct k8s_obj *p = node->c->objs[K8S_POD]; p; p = p->next) {
		if (str_same(k_str(p->doc, "spec.nodeName"), node->name) && !pod_over(p)) {
			return true;
		}
	}
	return false;
}

/* ---- a node's document ----------------------------------------------------------------------- */

static json_t *resources_json(const struct itype *t, const struct cw_type *more, bool allocatable)
{
	int64_t ki = more ? more->mem_ki : (int64_t)t->mem_mib * 1024;
	json_t *r = json_pack("{s:o, s:o, s:s, s:s, s:s, s:s}", "cpu", json_sprintf("%d", t->vcpus),
	    "memory", json_sprintf("%" PRId64 "Ki", ki), "ephemeral-storage", "7500000000Ki",
	    "pods", "110", "hugepages-1Gi", "0", "hugepages-2Mi", "0");

	if (t->gpus) {
		json_object_set_new(r, "nvidia.com/gpu", json_sprintf("%d", t->gpus));
	}
	if (more && more->rdma) {
		json_object_set_new(r, "rdma/ib", json_sprintf("%d", more->rdma));
	}
	if (allocatable) { /* the kubelet and the system keep a little */
		json_object_set_new(r, "cpu", json_sprintf("%dm", t->vcpus * 1000 - 500));
		json_object_set_new(r, "memory",
		    json_sprintf("%" PRId64 "Ki", ki - INT64_C(2) * 1024 * 1024));
	}
	return r;
}

static json_t *labels_json(struct k8s_cluster *c, const char *name, const struct itype *t,
    const struct cw_type *more, const json_t *pool)
{
	json_t *l = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "kubernetes.io/hostname", name,
	    "kubernetes.io/os", "linux", "kubernetes.io/arch",
	    more && more->arm ? "arm64" : "amd64", "beta.kubernetes.io/os", "linux",
	    "node.kubernetes.io/instance-type", t->name, "beta.kubernetes.io/instance-type",
	    t->name, "topology.kubernetes.io/region", c->region ? c->region : "region-1");

	if (c->zone) {
		k_set(l, "topology.kubernetes.io/zone", c->zone);
		k_set(l, "node.coreweave.cloud/state", "production");
		k_set(l, "node.coreweave.cloud/type", t->name);
		k_set(l, "node.coreweave.cloud/class", t->gpus ? "gpu" : "cpu");
		k_set(l, "node.coreweave.cloud/cluster", c->id);
		k_set(l, POOL_LABEL, k_str(pool, "metadata.name"));
		k_set(l, "compute.coreweave.com/node-pool-uid", k_str(pool, "metadata.uid"));
		if (t->gpus) {
			k_set(l, "gpu.nvidia.com/class", more ? more->class : NULL);
			k_set(l, "gpu.nvidia.com/model", more && *more->model ? more->model : NULL);
		}
	} else {
		k_set(l, "topology.kubernetes.io/zone", "zone-a");
	}
	if (t->gpus) {
		/* Written by NVIDIA's GPU feature discovery. */
		k_set(l, "nvidia.com/gpu.product", t->description ? t->description : t->gpu);
		json_object_set_new(l, "nvidia.com/gpu.count", json_sprintf("%d", t->gpus));
		json_object_set_new(l, "nvidia.com/gpu.memory", json_sprintf("%d", t->gpu_mem_mib));
		k_set(l, "nvidia.com/gpu.present", "true");
	}
	json_object_update(l, k_at(pool, "spec.nodeLabels"));
	return l;
}

static void node_conditions(struct sim *s, json_t *status)
{
	static const char *const fine[][3] = { { "MemoryPressure", "KubeletHasSufficientMemory",
						   "kubelet has sufficient memory available" },
		{ "DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure" },
		{ "PIDPressure", "KubeletHasSufficientPID",
		    "kubelet has sufficient PID available" } };

	for (size_t k = 0; k < ARRAY_LEN(fine); k++) {
		k_condition(status, s, fine[k][0], "False", fine[k][1], fine[k][2]);
	}
	k_condition(status, s, "Ready", "True", "KubeletReady", "kubelet is posting ready status");
	for (size_t k = 0; k < json_array_size(k_at(status, "conditions")); k++) {
		json_object_set_new(json_array_get(k_at(status, "conditions"), k),
		    "lastHeartbeatTime", k_now(s));
	}
}

static json_t *node_info(struct sim *s, bool arm)
{
	char *machine = sim_id(s, NULL, "", 16), *boot = sim_id(s, NULL, "", 16);
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "architecture",
	    arm ? "arm64" : "amd64", "bootID", boot, "containerRuntimeVersion",
	    "containerd://2.1.4", "kernelVersion", "6.8.0-79-generic", "kubeProxyVersion", "",
	    "kubeletVersion", "v1.36.1", "machineID", machine, "operatingSystem", "linux",
	    "osImage", "Ubuntu 24.04.3 LTS", "systemUUID", machine);

	free(machine);
	free(boot);
	return o;
}

static json_t *taints_json(const struct itype *t, const json_t *pool, bool coreweave)
{
	json_t *all = json_array();

	json_array_extend(all, k_at(pool, "spec.nodeTaints"));
	if (t->gpus && coreweave) {
		json_array_append_new(all,
		    json_pack("{s:s, s:s, s:s}", "key", "is_gpu", "value", "true", "effect",
			"PreferNoSchedule"));
	}
	return all;
}

struct k8s_obj *node_new(struct k8s_cluster *c, const char *name, const struct itype *t,
    const json_t *pool, struct inst *i)
{
	const struct cw_type *more = cw_type_of(c->sim, t);
	json_t *status = json_pack("{s:o, s:o, s:[{s:s, s:s}, {s:s, s:s}], s:o, s:{s:{s:i}}}",
	    "capacity", resources_json(t, more, false), "allocatable",
	    resources_json(t, more, true), "addresses", "type", "InternalIP", "address",
	    i ? i->private_ip : "10.200.0.2", "type", "Hostname", "address", name, "nodeInfo",
	    node_info(c->sim, more && more->arm), "daemonEndpoints", "kubeletEndpoint", "Port",
	    10250);
	json_t *doc =
	    json_pack("{s:{s:s, s:o, s:{s:s}}, s:{s:s}, s:o}", "metadata", "name", name, "labels",
		labels_json(c, name, t, more, pool), "annotations", "node.alpha.kubernetes.io/ttl",
		"0", "spec", "podCIDR", "10.244.0.0/24", "status", status);
	json_t *taints = taints_json(t, pool, c->zone != NULL);
	struct k8s_obj *o;

	json_object_update(k_obj(k_obj(doc, "metadata"), "annotations"),
	    k_at(pool, "spec.nodeAnnotations"));
	if (json_array_size(taints) > 0) {
		json_object_set(k_obj(doc, "spec"), "taints", taints);
	}
	json_decref(taints);
	node_conditions(c->sim, status);
	o = k8s_insert(c, &k8s_kinds[K8S_NODE], doc);
	o->inst = i;
	if (i) {
		i->own = o;
	}
	return o;
}

/* ---- its end --------------------------------------------------------------------------------- */

void node_cordon(struct k8s_obj *node, const char *taint)
{
	json_t *doc = k8s_edit(node), *spec = k_obj(doc, "spec");

	json_object_set_new(spec, "unschedulable", json_true());
	json_array_append_new(k_arr(spec, "taints"),
	    json_pack("{s:s, s:s, s:o}", "key", "node.kubernetes.io/unschedulable", "effect",
		"NoSchedule", "timeAdded", k_now(node->c->sim)));
	if (taint) {
		json_array_append_new(k_arr(spec, "taints"),
		    json_pack("{s:s, s:s, s:s, s:o}", "key", taint, "value", "true", "effect",
			"NoSchedule", "timeAdded", k_now(node->c->sim)));
	}
	k8s_commit(node, doc);
	k8s_tell(node, "Normal", "CWNodeCordoned", "nodepool-controller", "Node %s was cordoned",
	    node->name);
}

/* The pods of a reclaimed node end by eviction: a condition says so, and the grace is the rest of
 * the notice. */
void pod_evict(struct k8s_obj *pod, int64_t grace_s)
{
	int64_t own = k_int(pod->doc, "spec.terminationGracePeriodSeconds", 30);
	json_t *doc;

	if (k_at(pod->doc, "metadata.deletionTimestamp")) {
		return;
	}
	doc = k8s_edit(pod);
	k_condition(k_obj(doc, "status"), pod->c->sim, "DisruptionTarget", "True",
	    "EvictionByEvictionAPI", "Eviction API: evicting");
	k8s_commit(pod, doc);
	k8s_delete_object(pod, MAX(MIN(own, grace_s), 1));
}

static void node_notice(struct inst *i)
{
	struct k8s_obj *node = node_of(i), *next;
	int64_t left_us = i->action_us - sim_wall(i->sim);

	if (!node) {
		return;
	}
	node_cordon(node, "node.coreweave.cloud/reclaim");
	for (struct k8s_obj *p = node->c->objs[K8S_POD]; p; p = next) {
		next = p->next;
		if (str_same(k_str(p->doc, "spec.nodeName"), node->name)) {
			pod_evict(p, (left_us + SPOT_US_PER_S - 1) / SPOT_US_PER_S);
		}
	}
}

/* ---- a node that says nothing ---------------------------------------------------------------- */

#define NOT_READY "node.kubernetes.io/not-ready"

static const struct k8s_obj *node_under(const struct k8s_obj *pod)
{
	return k8s_find(pod->c, K8S_NODE, NULL, k_str(pod->doc, "spec.nodeName"));
}

bool node_reachable(const struct k8s_obj *pod)
{
	const struct k8s_obj *node = node_under(pod);

	return node && str_same(k_condition_value(node->doc, "Ready"), "True");
}

/* The Pod stays, Terminating, until its node is heard again or deleted: nobody can say that its
 * containers have ended. */
void pod_evict_due(struct loop_timer *t)
{
	struct k8s_obj *pod = container_of(t, struct kubelet_pod, evict_timer)->pod;
	json_t *doc;

	if (!pod || node_reachable(pod) || k_at(pod->doc, "metadata.deletionTimestamp")) {
		return;
	}
	doc = k8s_edit(pod);
	k_condition(k_obj(doc, "status"), pod->c->sim, "DisruptionTarget", "True",
	    "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");
	k8s_commit(pod, doc);
	k8s_tell(pod, "Normal", "TaintManagerEviction", "taint-eviction-controller",
	    "Marking for deletion Pod %s/%s", pod->ns, pod->name);
	k8s_delete_object(pod, -1);
}

/* How long the pod tolerates the taint; < 0: for ever. */
static int64_t toleration_s(const struct k8s_obj *pod)
{
	int64_t found = 0;
	size_t k;
	json_t *t;

	json_array_foreach (k_at(pod->doc, "spec.tolerations"), k, t) {
		const char *key = k_str(t, "key"), *effect = k_str(t, "effect");

		if ((key && *key && !str_same(key, NOT_READY)) ||
		    (effect && *effect && !str_same(effect, "NoExecute"))) {
			continue;
		}
		if (!k_at(t, "tolerationSeconds")) {
			return -1;
		}
		found = MAX(found, k_int(t, "tolerationSeconds", 0));
	}
	return found;
}

static void ready_set(struct k8s_obj *node, bool ready)
{
	json_t *doc = k8s_edit(node), *taints = k_arr(k_obj(doc, "spec"), "taints");

	for (size_t k = json_array_size(taints); k > 0; k--) {
		if (str_prefix(k_str(json_array_get(taints, k - 1), "key"),
			"node.kubernetes.io/")) {
			json_array_remove(taints, k - 1);
		}
	}
	if (ready) {
		json_object_del(json_object_get(doc, "spec"), "unschedulable");
	} else {
		json_array_append_new(taints,
		    json_pack("{s:s, s:s, s:o}", "key", NOT_READY, "effect", "NoExecute",
			"timeAdded", k_now(node->c->sim)));
	}
	k_condition(k_obj(doc, "status"), node->c->sim, "Ready", ready ? "True" : "Unknown",
	    ready ? "KubeletReady" : "NodeStatusUnknown",
	    ready ? "kubelet is posting ready status" : "Kubelet stopped posting node status.");
	k8s_commit(node, doc);
}

void node_lost(struct k8s_obj *node)
{
	ready_set(node, false);
	k8s_tell(node, "Normal", "NodeNotReady", "node-controller",
	    "Node %s status is now: "
	    "NodeNotReady",
	    node->name);
	for (struct k8s_obj *p = node->c->objs[K8S_POD]; p; p = p->next) {
		int64_t s = toleration_s(p);

		if (p->run && s >= 0 && str_same(k_str(p->doc, "spec.nodeName"), node->name)) {
			loop_timer_set(&p->run->evict_timer, MAX(s * SPOT_US_PER_S, 1));
		}
	}
}

void node_back(struct k8s_obj *node)
{
	ready_set(node, true);
	for (struct k8s_obj *p = node->c->objs[K8S_POD]; p; p = p->next) {
		if (k_at(p->doc, "metadata.deletionTimestamp") &&
		    str_same(k_str(p->doc, "spec.nodeName"), node->name)) {
			kubelet_delete(p, k_int(p->doc, "metadata.deletionGracePeriodSeconds", 30));
		}
	}
}

/* ---- gone ------------------------------------------------------------------------------------ */

void node_gone(struct k8s_obj *node)
{
	struct k8s_obj *next;

	for (struct k8s_obj *p = node->c->objs[K8S_POD]; p; p = next) {
		next = p->next;
		if (str_same(k_str(p->doc, "spec.nodeName"), node->name)) {
			kubelet_lose(p);
		}
	}
	if (node->inst) {
		node->inst->own = NULL;
	}
	k8s_remove(node);
}

void node_drop(struct k8s_obj *node)
{
	if (node->inst) {
		inst_end(node->inst, "node_gone", "node_gone", "the node left the cluster");
	} else {
		node_gone(node);
	}
}

static void node_ready(struct inst *i)
{
	struct k8s_cluster *c = cw_cluster_of(i);
	struct k8s_obj *pool = c ? k8s_find(c, K8S_NODE_POOL, NULL, i->name) : NULL, *node;

	if (!pool) {
		return;
	}
	node = node_new(c, i->hostname, i->pool->type, pool->doc, i);
	k8s_tell(node, "Normal", "CWNodeRegistered", "nodepool-controller",
	    "Node %s registered with node pool %s", node->name, pool->name);
}

void node_event(struct inst *i, const char *type)
{
	struct k8s_cluster *c = cw_cluster_of(i);

	if (str_same(type, "running")) {
		node_ready(i);
	} else if (str_same(type, "notice")) {
		node_notice(i);
	} else if (str_same(type, "shutting_down") && node_of(i)) {
		node_gone(node_of(i));
	}
	if (c) {
		k8s_wake(c);
	}
}
