/*
 * A cluster: its ports, its objects at the start, its controllers' turn, its kubeconfig files.
 */
#include "base/base.h"
#include "cloudsim/coreweave/coreweave.h"
#include "base/text/text.h"

#define SYSTEM_POOL "system-cpu"
#define WORD(text) ((char *)(uintptr_t)(text)) /* never written to */

static size_t body_max(void *ctx, const char *method, const char *path)
{
	(void)ctx;
	(void)method;
	(void)path;
	return (size_t)3 << 20;
}

/* Level-triggered: each turn of the loop in which something changed, or a pool waits for stock. */
static void cluster_decide(struct loop_hook *h)
{
	struct k8s_cluster *c = container_of(h, struct k8s_cluster, hook);
	bool was = c->dirty;

	c->dirty = false;
	if (c->zone && (was || c->queued)) {
		pool_decide(c);
	}
	if (was) {
		sched_decide(c);
	}
}

/* ---- the objects at the start ---------------------------------------------------------------- */

static void namespace_add(struct k8s_cluster *c, const char *name)
{
	k8s_insert(c, &k8s_kinds[K8S_NAMESPACE],
	    json_pack("{s:{s:s, s:{s:s}}, s:{s:[s]}, s:{s:s}}", "metadata", "name", name, "labels",
		"kubernetes.io/metadata.name", name, "spec", "finalizers", "kubernetes", "status",
		"phase", "Active"));
	k8s_insert(c, &k8s_kinds[K8S_SERVICE_ACCOUNT],
	    json_pack("{s:{s:s, s:s}}", "metadata", "name", "default", "namespace", name));
}

static void account_add(struct k8s_cluster *c, const char *name)
{
	k8s_insert(c, &k8s_kinds[K8S_SERVICE_ACCOUNT],
	    json_pack("{s:{s:s, s:s}}", "metadata", "name", name, "namespace", K8S_NAMESPACE_OURS));
}

/* The smallest CPU type; not in the catalog, since it has no GPU. */
static const struct itype system_type = { .cloud = CLOUD_COREWEAVE,
	.name = WORD("cd-gp-i64-erapids"),
	.vcpus = 64,
	.mem_mib = 262144 };

static void system_add(struct k8s_cluster *c)
{
	struct k8s_obj *pool = k8s_insert(c, &k8s_kinds[K8S_NODE_POOL],
	    json_pack("{s:{s:s, s:{s:s}, s:[s]}, s:{s:s, s:s, s:i, s:b, s:{s:s}}, s:{s:i, s:i, "
		      "s:i}}",
		"metadata", "name", SYSTEM_POOL, "labels", "cks.coreweave.cloud/system-critical",
		"true", "finalizers", POOL_FINALIZER, "spec", "computeClass", "default",
		"instanceType", system_type.name, "targetNodes", 1, "autoscaling", 0, "lifecycle",
		"scaleDownStrategy", "IdleOnly", "status", "currentNodes", 1, "queuedNodes", 0,
		"inProgress", 0));

	node_new(c, "gcpu001", &system_type, pool->doc, NULL);
}

/* The plain cluster's nodes are somebody's own: nobody bills them here. */
static const struct itype plain_types[] = {
	{ .name = WORD("dgx-h100"),
	    .gpu = WORD("H100"),
	    .gpus = 8,
	    .gpu_mem_mib = 81559,
	    .vcpus = 224,
	    .mem_mib = 2097152,
	    .description = WORD("NVIDIA-H100-80GB-HBM3") },
	{ .name = WORD("l40s-4"),
	    .gpu = WORD("L40S"),
	    .gpus = 4,
	    .gpu_mem_mib = 46068,
	    .vcpus = 64,
	    .mem_mib = 524288,
	    .description = WORD("NVIDIA-L40S") },
	{ .name = WORD("cpu-16"), .vcpus = 16, .mem_mib = 65536 },
};

static void plain_add(struct k8s_cluster *c)
{
	node_new(c, "gpu-h100-1", &plain_types[0], NULL, NULL);
	node_new(c, "gpu-h100-2", &plain_types[0], NULL, NULL);
	node_new(c, "gpu-l40s-1", &plain_types[1], NULL, NULL);
	node_new(c, "cpu-1", &plain_types[2], NULL, NULL);
}

static void cluster_furnish(struct k8s_cluster *c)
{
	static const char *const namespaces[] = { "default", "kube-system", "kube-public",
		"kube-node-lease", K8S_NAMESPACE_OURS };

	for (size_t k = 0; k < ARRAY_LEN(namespaces); k++) {
		namespace_add(c, namespaces[k]);
	}
	account_add(c, K8S_ACCOUNT_BROKER);
	account_add(c, K8S_ACCOUNT_NODE);
	if (c->zone) {
		namespace_add(c, "cw-exporters");
		namespace_add(c, "cw-hpc-verification");
		system_add(c);
	} else {
		plain_add(c);
	}
	/* The log before the start is forgotten, as in a cluster that has run for long. */
	c->rv += 1000;
	k8s_compact(c);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct k8s_cluster *k8s_cluster_new(struct sim *s, const char *name, const char *zone)
{
	struct k8s_cluster *c = calloc(1, sizeof(*c));

	if (!c) {
		abort();
	}
	c->sim = s;
	c->name = dup_text(name);
	c->zone = dup_text(zone);
	c->id = sim_id(s, NULL, "", 8);
	c->watch_list = c->deliver = true;
	c->epoch = 1;
	c->bookmark_us = 60 * SPOT_US_PER_S;
	c->pull_us = MIN(s->conf.boot_us, 20000);
	c->denied = json_array();
	c->bad_images = json_object();
	c->node_quota = json_object();
	c->hook.decide = cluster_decide;
	c->removed = kubelet_free;
	return c;
}

static bool port_open(struct k8s_cluster *c, int which, struct spot_err *err)
{
	struct k8s_port *p = &c->ports[which];
	struct arena *a AUTO(arena) = arena_new(0);
	struct httpd_conf conf = { .address = "127.0.0.1",
		.ctx = &p->front,
		.url_max = 50000,
		.handle = front_handle,
		.body_max = body_max,
		.queued_max = (size_t)64 << 20 };

	p->front.sim = c->sim;
	p->front.cloud = CLOUD_COREWEAVE;
	p->front.own = c;
	p->c = c;
	p->managed = which == K8S_PORT_MANAGED;
	if (which == K8S_PORT_TLS) {
		conf.tls_cert = arena_printf(a, "%s/kube-tls.pem", c->sim->conf.dir);
		conf.tls_key = arena_printf(a, "%s/kube-tls-key.pem", c->sim->conf.dir);
	}
	return httpd_new(c->sim->loop, &conf, &p->front.http, err) == SPOT_OK;
}

bool k8s_cluster_open(struct k8s_cluster *c, struct spot_err *err)
{
	char text[200];

	for (int k = 0; k < K8S_PORTS; k++) {
		if (!(k == K8S_PORT_MANAGED && !c->zone) && !port_open(c, k, err)) {
			return false;
		}
	}
	snprintf(text, sizeof(text), "http://127.0.0.1:%d", k8s_cluster_port(c, K8S_PORT_API));
	c->issuer = dup_text(text);
	cluster_furnish(c);
	loop_hook_add(c->sim->loop, &c->hook);
	return true;
}

void k8s_cluster_stop(struct k8s_cluster *c)
{
	struct k8s_obj *next;

	for (struct k8s_obj *o = c->objs[K8S_POD]; o; o = next) {
		next = o->next;
		k8s_remove(o);
	}
}

void k8s_cluster_close(struct k8s_cluster *c)
{
	loop_hook_remove(c->sim->loop, &c->hook);
	for (int k = 0; k < K8S_PORTS; k++) {
		httpd_free(c->ports[k].front.http);
		c->ports[k].front.http = NULL;
	}
}

void k8s_cluster_free(struct k8s_cluster *c)
{
	for (size_t k = 0; k < K8S_KINDS; k++) {
		while (c->objs[k]) {
			k8s_remove(c->objs[k]);
		}
	}
	loop_turn(c->sim->loop, 0); /* frees the objects that wait for a turn */
	k8s_changes_free(c);
	json_decref(c->denied);
	json_decref(c->bad_images);
	json_decref(c->node_quota);
	free(c->id);
	free(c->name);
	free(c->zone);
	free(c->region);
	free(c->host);
	free(c->issuer);
	free(c);
}

/* ---- kubeconfig ------------------------------------------------------------------------------ */

static bool kubeconfig_put(struct k8s_cluster *c, struct arena *a, const char *path,
    const char *server, const char *token)
{
	char *ca = arena_printf(a, "%s/kube-ca.pem", c->sim->conf.dir);
	const char *trust = str_prefix(server, "https:")
	    ? arena_printf(a, "    certificate-authority: %s\n", ca)
	    : "";
	char *text = arena_printf(a,
	    "apiVersion: v1\nkind: Config\nclusters:\n- name: %s\n  cluster:\n    server: %s\n%s"
	    "users:\n- name: %s\n  user:\n    token: %s\ncontexts:\n- name: %s\n  context:\n"
	    "    cluster: %s\n    user: %s\n    namespace: %s\ncurrent-context: %s\n",
	    c->name, server, trust, c->name, token, c->name, c->name, c->name, K8S_NAMESPACE_OURS,
	    c->name);

	return file_put(path, text, strlen(text), 0600);
}

static char *account_token(struct k8s_cluster *c, struct arena *a)
{
	json_t *audiences = json_pack("[s]", c->issuer);
	char *token = token_sign(c, a,
	    k8s_find(c, K8S_SERVICE_ACCOUNT, K8S_NAMESPACE_OURS, K8S_ACCOUNT_BROKER), NULL,
	    audiences, 86400);

	json_decref(audiences);
	return token;
}

json_t *k8s_cluster_json(struct k8s_cluster *c)
{
	struct arena *a AUTO(arena) = arena_new(0);
	const char *dir = c->sim->conf.dir, *server = c->issuer;
	char *tls = arena_printf(a, "https://127.0.0.1:%d", k8s_cluster_port(c, K8S_PORT_TLS));
	char *config = arena_printf(a, "%s/kubeconfig-%s.yaml", dir, c->name),
	     *plain = arena_printf(a, "%s/kubeconfig-%s-http.yaml", dir, c->name),
	     *admin = arena_printf(a, "%s/kubeconfig-%s-admin.yaml", dir, c->name),
	     *token = account_token(c, a);
	json_t *o = json_pack("{s:s, s:s, s:s?, s:s, s:s, s:o, s:s, s:s, s:s, s:s, s:s, s:s}",
	    "name", c->name, "id", c->id, "zone", c->zone, "server", server, "server_tls", tls,
	    "ca", json_sprintf("%s/kube-ca.pem", dir), "kubeconfig", config, "kubeconfig_http",
	    plain, "token", token, "namespace", K8S_NAMESPACE_OURS, "service_account",
	    K8S_ACCOUNT_BROKER, "node_service_account", K8S_ACCOUNT_NODE);

	kubeconfig_put(c, a, config, tls, token);
	kubeconfig_put(c, a, plain, server, token);
	if (c->zone) {
		char *managed =
		    arena_printf(a, "http://127.0.0.1:%d", k8s_cluster_port(c, K8S_PORT_MANAGED));

		kubeconfig_put(c, a, admin, managed, c->sim->coreweave->api_token);
		k_set(o, "managed_server", managed);
		k_set(o, "kubeconfig_admin", admin);
		json_object_set_new(o, "endpoint",
		    json_sprintf("https://%s:%d", c->host, k8s_cluster_port(c, K8S_PORT_TLS)));
	}
	return o;
}
