/*
 * Kubernetes API servers: two of CoreWeave's CKS clusters, each in its own zone with NodePools, and
 * one plain cluster with fixed GPU nodes. After the Kubernetes API concepts page and the API
 * reference (kubernetes.io/docs/reference/using-api), the field table of the official client
 * (data/kubernetes_schema.json), and docs.coreweave.com for NodePools.
 *
 * An object's document is never changed in place. A change is a copy that k8s_commit puts in its
 * place, so that the event log and the watches share the old ones.
 */
#ifndef CLOUDSIM_K8S_H
#define CLOUDSIM_K8S_H

#include "cloudsim/sim/cloud.h"

enum k8s_kind_id {
	K8S_POD = 0,
	K8S_NODE,
	K8S_NAMESPACE,
	K8S_SERVICE_ACCOUNT,
	K8S_EVENT,
	K8S_QUOTA,
	K8S_NODE_POOL,
	K8S_TOKEN_REVIEW,
	K8S_ACCESS_REVIEW,
	K8S_SELF_REVIEW,
	K8S_KINDS
};
struct k8s_kind {
	enum k8s_kind_id id;
	const char *plural, *singular, *kind, *group, *version, *schema;
	bool namespaced, custom;
	const char *verbs; /* as discovery lists them, space-separated */
};
extern const struct k8s_kind k8s_kinds[K8S_KINDS];

struct k8s_cluster;
struct k8s_obj {
	struct k8s_obj *next; /* by namespace and name, ascending */
	struct k8s_cluster *c;
	const struct k8s_kind *kind;
	char *ns, *name, *uid;
	json_t *doc;
	uint64_t rv;
	struct kubelet_pod *run; /* pods: the kubelet's state of it */
	struct inst *inst; /* nodes: the server that is paid for; NULL = nobody pays */
	uint64_t tried; /* pods: the scheduler's epoch at which it found no place */
};
/* One change, kept for watches that resume. */
struct k8s_change {
	uint64_t rv;
	const struct k8s_kind *kind;
	const char *type; /* "ADDED" "MODIFIED" "DELETED" */
	json_t *doc, *prev;
};
struct k8s_port {
	struct front_port front; /* first: a request's port is cast back */
	struct k8s_cluster *c;
	bool managed; /* takes API access tokens, whatever the Host header says */
};
enum { K8S_PORT_API = 0, K8S_PORT_MANAGED, K8S_PORT_TLS, K8S_PORTS };

struct k8s_cluster {
	struct k8s_cluster *next;
	struct sim *sim;
	char *id, *name, *zone, *region, *host, *issuer; /* zone NULL: not CoreWeave's */
	struct k8s_port ports[K8S_PORTS];
	struct k8s_obj *objs[K8S_KINDS];
	uint64_t rv, compacted; /* changes up to compacted are forgotten */
	struct k8s_change *changes;
	size_t changes_n, changes_cap;
	struct k8s_watch *watches;
	bool dirty; /* controllers have something to look at */
	bool queued; /* a NodePool waits for stock */
	uint64_t epoch; /* moves when a pod may fit that did not before */
	int programs; /* containers that run */
	struct loop_hook hook;
	struct loop_timer timer;
	/* knobs, by the control API */
	/* a watch that is too old: HTTP 410 instead of an ERROR event */
	bool expired_by_http;
	bool watch_list; /* sendInitialEvents works */
	bool quota_by_admission; /* NodePools over quota are refused at once */
	bool deliver; /* NodePools get nodes */
	bool finalizer_stuck; /* deleted NodePools stay */
	/* An object was removed: frees its running parts. */
	void (*removed)(struct k8s_obj *o);
	/* Told of each change as watches are; NULL = nobody. */
	void (*seen)(const struct k8s_obj *o, const char *type);
	int64_t bookmark_us, token_s_max, pull_us, watch_us_max;
	json_t *denied; /* "verb resource" that RBAC refuses to the broker's account */
	json_t *bad_images; /* pattern -> reason */
	json_t *node_quota; /* instance type pattern -> nodes */
};

/* One request to an API server. */
struct k8s_call {
	struct sim_req *rq;
	struct sim_reply *rep;
	struct arena *arena;
	struct k8s_cluster *c;
	const struct k8s_kind *kind; /* NULL: not about a resource */
	const char *ns, *name, *sub, *verb;
	bool managed, admin, watch, dry_run;
	const char *user, *user_ns, *user_name; /* a service account has all three */
	json_t *body; /* freed after serving */
};

/* ---- documents (k8s_doc.c) ------------------------------------------------------------------- */
/* Member by a path of plain keys, "spec.nodeName"; NULL when absent. */
json_t *k_at(const json_t *o, const char *path);
const char *k_str(const json_t *o, const char *path); /* NULL when absent or no text */
int64_t k_int(const json_t *o, const char *path, int64_t dflt);
bool k_true(const json_t *o, const char *path);
/* Object below o at key, made when absent. */
json_t *k_obj(json_t *o, const char *key);
json_t *k_arr(json_t *o, const char *key);
void k_set(json_t *o, const char *key, const char *text);
void k_default(json_t *o, const char *key, json_t *value); /* stolen; kept only when absent */
json_t *k_now(const struct sim *s);
/* true: something changed. message NULL is left out. */
bool k_condition(json_t *status, const struct sim *s, const char *type, const char *value,
    const char *reason, const char *message);
const char *k_condition_value(const json_t *doc, const char *type); /* "" when absent */
/* Quantity in thousandths; false: not a quantity. */
bool k_quantity(const json_t *v, int64_t *ret_milli);
bool k_label_name(const char *key); /* qualified name */
bool k_label_value(const char *value);
bool k_dns_label(const char *s);
bool k_dns_subdomain(const char *s);

/* ---- objects (k8s_store.c) ------------------------------------------------------------------- */
struct k8s_obj *k8s_find(const struct k8s_cluster *c, enum k8s_kind_id kind, const char *ns,
    const char *name);
/* doc is stolen; name and namespace are in it; uid, times and version are filled here. */
struct k8s_obj *k8s_insert(struct k8s_cluster *c, const struct k8s_kind *kind, json_t *doc);
void k8s_complete(struct k8s_cluster *c, const struct k8s_kind *kind, json_t *doc);
json_t *k8s_edit(const struct k8s_obj *o); /* a copy to change */
void k8s_commit(struct k8s_obj *o, json_t *doc); /* stolen; nothing happens when nothing changed */
void k8s_remove(struct k8s_obj *o);
bool pod_over(const struct k8s_obj *pod); /* Succeeded or Failed */
void k8s_tell(struct k8s_obj *o, const char *type, const char *reason, const char *component,
    const char *fmt, ...) PRINTF(5, 6); /* an Event object */
void k8s_compact(struct k8s_cluster *c); /* forgets all changes up to now */
void k8s_changes_free(struct k8s_cluster *c);

/* ---- selectors and lists (k8s_list.c) -------------------------------------------------------- */
struct k8s_selector {
	const char *ns, *name;
	const json_t *labels; /* requirements */
	const json_t *fields;
};
/* Reads labelSelector and fieldSelector; false: the call was refused. */
bool k8s_selector_read(struct k8s_call *q, struct k8s_selector *ret, json_t **ret_owner);
bool k8s_selects(const struct k8s_selector *s, const struct k8s_kind *kind, const json_t *doc);
void k8s_list(struct k8s_call *q);
json_t *k8s_shown(const struct k8s_kind *kind, const json_t *doc, bool in_list);

/* ---- watches (k8s_watch.c) ------------------------------------------------------------------- */
void k8s_watch_start(struct k8s_call *q);
void k8s_watch_feed(struct k8s_cluster *c, const struct k8s_change *e);
void k8s_watches_end(struct k8s_cluster *c); /* all streams end, as when a server restarts */

/* ---- replies (k8s_http.c) -------------------------------------------------------------------- */
void k8s_classify(struct sim_req *rq);
void k8s_serve(struct sim_req *rq, struct sim_reply *rep);
void k8s_error(struct sim_req *rq, struct sim_reply *rep, int status, const char *reason,
    const char *message);
void k8s_reply(struct k8s_call *q, int status, json_t *doc); /* stolen */
void k8s_fail(struct k8s_call *q, int status, const char *reason, const char *fmt, ...)
    PRINTF(4, 5);
/* As k8s_fail; causes is stolen and may be NULL. */
void k8s_fail_with(struct k8s_call *q, int status, const char *reason, json_t *causes,
    const char *message);
json_t *k8s_status_json(struct k8s_call *q, int status, const char *reason, const char *message,
    json_t *causes);
const char *k8s_resource_text(struct k8s_call *q); /* nodepools.compute.coreweave.com */
const char *k8s_query(struct k8s_call *q, const char *name);
bool k8s_query_true(struct k8s_call *q, const char *name);
bool k8s_discovery(struct k8s_call *q); /* k8s_discovery.c; false: not such a path */

/* ---- writes (k8s_write.c, k8s_delete.c, k8s_patch.c, k8s_schema.c) --------------------------- */
void k8s_create(struct k8s_call *q);
void k8s_update(struct k8s_call *q); /* PUT and PATCH */
void k8s_delete(struct k8s_call *q);
void k8s_delete_all(struct k8s_call *q);
void k8s_evict(struct k8s_call *q);
/* Deletes an object; grace < 0: the object's own. false: it stays (finalizer, grace period). */
bool k8s_delete_object(struct k8s_obj *o, int64_t grace_s);
/* "v1", "GROUP/v1"; the arena's */
char *k8s_version_text(struct k8s_call *q, const struct k8s_kind *kind);
/* Checks doc against the schema; unknown members go, with a warning. False: refused. */
bool k8s_shape_check(struct k8s_call *q, const char *schema, const char *kind, json_t *doc);
bool k8s_body(struct k8s_call *q, const char *schema, const char *kind, bool optional);
json_t *k8s_patched(struct k8s_call *q, const json_t *doc); /* NULL: refused */
bool schema_load(struct sim *s, struct spot_err *err);
void schema_free(void);
/* Unknown, missing and mistyped members, as texts into lists. */
struct schema_report {
	json_t *unknown, *types, *missing;
};
/* Removes the members that schema_check calls unknown. */
void schema_prune(const char *type, json_t *doc);
void schema_check(const char *type, const json_t *doc, struct schema_report *ret);
void cause_add(json_t *causes, const char *reason, const char *field, const char *fmt, ...)
    PRINTF(4, 5);

/* ---- rules of one kind ----------------------------------------------------------------------- */
void pod_tolerates(json_t *doc);
void pod_defaults(struct k8s_cluster *c, json_t *doc);
void pod_check(const json_t *doc, json_t *causes);
void meta_check(const struct k8s_kind *kind, const json_t *doc, json_t *causes);
bool pod_admit(struct k8s_call *q, json_t *doc); /* namespace, account, quota */
void pod_check_change(const json_t *was, const json_t *now, json_t *causes);
void pool_defaults(json_t *doc);
void pool_check(struct k8s_cluster *c, const json_t *was, const json_t *doc, json_t *causes);
bool pool_admit(struct k8s_call *q, const json_t *doc);
void pool_decide(struct k8s_cluster *c);
int64_t pool_quota(const struct k8s_cluster *c, const char *type); /* < 0: none */
const char *node_pool_of(const struct k8s_obj *node);
bool node_busy(const struct k8s_obj *node); /* a pod of ours is on it */
struct pool *pool_market(const struct k8s_cluster *c, const json_t *pool, enum side *ret_side);
struct k8s_obj *node_new(struct k8s_cluster *c, const char *name, const struct itype *t,
    const json_t *pool, struct inst *i);
void node_event(struct inst *i, const char *type); /* the server's life (cloud.h: event) */
void node_cordon(struct k8s_obj *node, const char *taint);
void node_gone(struct k8s_obj *node);
void node_drop(struct k8s_obj *node); /* the server behind it ends too */
void node_lost(struct k8s_obj *node); /* it says nothing any more: pods go by their tolerations */
void node_back(struct k8s_obj *node);
bool node_reachable(const struct k8s_obj *pod); /* the kubelet of its node hears */
struct k8s_obj *node_of(const struct inst *i);
void sched_decide(struct k8s_cluster *c);

/* ---- kubelet (k8s_kubelet.c, k8s_volumes.c) -------------------------------------------------- */
void kubelet_bound(struct k8s_obj *pod);
void kubelet_delete(struct k8s_obj *pod, int64_t grace_s); /* TERM, KILL after the grace */
void kubelet_lose(struct k8s_obj *pod); /* the node is gone: KILL and remove */
void kubelet_log(struct k8s_call *q, struct k8s_obj *pod);
void kubelet_kill(struct k8s_obj *pod); /* the container crashes */
void pod_evict(struct k8s_obj *pod, int64_t grace_s);
void pod_evict_due(struct loop_timer *t); /* k8s_node.c: a NoExecute taint is no longer tolerated */
void kubelet_free(struct k8s_obj *pod);
struct kubelet_pod {
	struct k8s_obj *pod;
	struct sim *sim;
	char *home;
	int pid;
	bool started, removing;
	struct loop_child child;
	struct loop_timer timer, token_timer, evict_timer;
	int stage;
};
/* The container's program (k8s_program.c): env and argv end with NULL, k->pid is set when it
 * runs. */
bool pod_program_start(struct kubelet_pod *k, const char **argv, const char **env);
/* TERM: to end; USR2: at once, all of it */
void pod_program_signal(struct kubelet_pod *k, int signo);
void kubelet_program_ended(struct kubelet_pod *k, int status);
/* Makes the folders of the volumes and fills them. Returns why they cannot be mounted (arena), NULL
 * = done. ret_renew_us: when the first token must be renewed, 0 = never. */
const char *volumes_fill(struct kubelet_pod *k, struct arena *a, int64_t *ret_renew_us);
/* Paths below a mount point become paths in the pod's folder. */
char *volumes_map(struct kubelet_pod *k, struct arena *a, const char *text);

/* ---- identity (k8s_auth.c, k8s_token.c, k8s_tls.c) ------------------------------------------- */
bool k8s_authenticate(struct k8s_call *q);
bool k8s_authorize(struct k8s_call *q);
/* A request to be authorized; ns and name NULL: at the cluster scope, to no one object. */
struct k8s_ask {
	const char *verb, *group, *resource, *ns, *name;
};
bool k8s_may(struct k8s_cluster *c, bool admin, const char *ns, const char *account,
    const struct k8s_ask *ask);
void token_request(struct k8s_call *q);
void token_review(struct k8s_call *q);
void access_review(struct k8s_call *q);
void self_review(struct k8s_call *q);
/* A signed token of a service account; pod may be NULL. Refers to both by uid. */
char *token_sign(struct k8s_cluster *c, struct arena *a, const struct k8s_obj *account,
    const struct k8s_obj *pod, const json_t *audiences, int64_t seconds);
/* Returns the claims of a token that is ours, unexpired, and of an existing account (and pod); else
 * NULL and why. */
json_t *token_verify(struct k8s_cluster *c, struct arena *a, const char *token,
    const char **ret_why);
json_t *token_jwks(struct sim *s, struct arena *a);
/* DIR/kube-ca.pem, kube-tls.pem, kube-tls-key.pem */
bool tls_make(struct sim *s, struct spot_err *err);
void k8s_keys_free(void);

/* ---- clusters (k8s_cluster.c) ---------------------------------------------------------------- */
struct k8s_cluster *k8s_cluster_new(struct sim *s, const char *name, const char *zone);
bool k8s_cluster_open(struct k8s_cluster *c, struct spot_err *err);
void k8s_cluster_stop(struct k8s_cluster *c); /* programs end */
void k8s_cluster_close(struct k8s_cluster *c);
void k8s_cluster_free(struct k8s_cluster *c);
json_t *k8s_cluster_json(struct k8s_cluster *c); /* for cloudsim.json */
int k8s_cluster_port(const struct k8s_cluster *c, int which);
void k8s_wake(struct k8s_cluster *c); /* the controllers look again */

#define K8S_NAMESPACE_OURS "spotbroker"
#define K8S_ACCOUNT_BROKER "spotbroker"
#define K8S_ACCOUNT_NODE "spotbroker-node"
#define POOL_API "compute.coreweave.com"
#define POOL_FINALIZER "compute.coreweave.com/nodepool"
#define POOL_LABEL "compute.coreweave.com/node-pool"

#endif
