/*
 * Inside of the CoreWeave and Kubernetes providers. One struct cw per open provider instance:
 * settings (read once at open) and clusters with their credentials (changed by auth only). Steps
 * keep their place in the verb's own state (arena memory of the call), not in c->at: the number of
 * the request that is out. So a step entered with c->in == NULL builds that request again, which is
 * what AGAIN and REAUTH want.
 *
 * No step keeps JSON of a reply for the next. It copies the needed parts into the arena, so that a
 * stopped call leaks nothing.
 */
#ifndef PROVIDERS_COREWEAVE_PRIV_H
#define PROVIDERS_COREWEAVE_PRIV_H

#include "base/base.h"
#include "base/text/text.h"
#include "base/crypto/crypto.h"

#define CW_LABEL_INSTALL "spotbroker.io/install"
#define CW_LABEL_POOL "spotbroker.io/pool"
#define CW_LABEL_TYPE "spotbroker.io/instance-type"
#define CW_LABEL_MARKET "spotbroker.io/market"
#define CW_NOTE_TOKEN "spotbroker.io/token"
#define CW_NOTE_SPEC "spotbroker.io/spec-sha256"
/* the resourceVersion that the last count began with */
#define CW_NOTE_COUNTED "spotbroker.io/counted"
#define CW_TAINT "spotbroker.io/dedicated"
#define CW_CONTAINER "node"
#define CW_NODEPOOLS "/apis/compute.coreweave.com/v1alpha1/nodepools"

#define CW_CLUSTERS_MAX 64
#define CW_PAGES_MAX 1000
#define CW_LABEL_MAX 63
/* The grace of a Pod: inside of the seven minutes of a spot reclaim (docs:
 * platform/capacity-plans/spot-node-pools). */
#define CW_POD_GRACE_S 400
/* Ours when we end a Pod ourselves. No other value: a Pod that is ending with it is known to end by
 * our hand. */
#define CW_OUR_GRACE_S 31

enum cw_limit { CW_LIMIT_API = 0, CW_LIMIT_CLUSTER, CW_LIMIT_COUNT };

/* A cluster and the way to its API server. Strings live in cw.arena. */
struct cw_cluster {
	const char *name, *id; /* id "" where nobody gave one */
	const char *region, *zone; /* zone "" for kind kubernetes */
	const char *kubeconfig; /* file, NULL = reached with the API token */
	const char *context; /* of the kubeconfig, NULL = its current one */
	/* filled by auth */
	const char *server, *bootstrap_server;
	const char *ca_pem, *cert_pem;
	struct secret key_pem, bootstrap, token;
	/* the bootstrap credential is the API token at the managed endpoint */
	bool managed;
	bool ready;
	int64_t renew_us; /* 0 = never */
	enum spot_rc bad_rc; /* why it cannot be used now, SPOT_OK = it can */
	char bad[300];
};

struct cw {
	bool cks; /* CoreWeave: API, NodePools, price list */
	const char *name;
	struct spot_provider_conf conf; /* for keys with a dot: price.*, kubeconfig.*, zone.* */
	struct arena *arena;
	const char *api_endpoint;
	const char *api_token_file;
	struct secret api_token;
	const char **wanted; /* clusters by name or id; none = all that are found */
	size_t wanted_n;
	const char *space, *account, *node_account, *image, *runtime_class;
	/* of nodes' identity tokens; NULL = our public URL, as the caller gives it */
	const char *audience;
	struct cw_toleration {
		const char *key, *value, *effect;
	} *tolerations;
	size_t tolerations_n;
	bool host_network;
	/* an order that is older is given up; 0 = at the first refusal */
	int64_t pending_spot_us, pending_us;
	struct cw_price *prices;
	size_t prices_n;
	struct cw_type *types;
	size_t types_n;
	const char *object_endpoint, *object_key, *object_secret_file;
	struct secret object_secret;
	/* set true; set false; neither: by the endpoint */
	bool object_path_style, object_host_style;
	/* auth only */
	struct cw_cluster *clusters[CW_CLUSTERS_MAX];
	size_t clusters_n;
	int64_t discover_us; /* clusters are looked for again at this time */
};

/* Rows of the embedded files. */
struct cw_price {
	const char *region, *zone, *type;
	int64_t on_demand, spot, as_of_us;
};
struct cw_type {
	const char *name;
	struct spot_shape shape;
	bool rack; /* sold in whole racks only: not by the node */
	bool spot; /* "every type except superchips" */
	const char *rdma; /* "" = none */
};

/* ---- settings.c ------------------------------------------------------------------------------ */
NODISCARD enum spot_rc cw_settings_read(struct cw *self, struct spot_err *err);
const char *cw_setting(const struct cw *self, const char *key); /* NULL if unset or "" */
const char *cw_env(const struct cw *self, const char *name);

/* ---- catalog.c: prices.csv and types.csv ----------------------------------------------------- */
NODISCARD enum spot_rc cw_catalog_read(struct cw *self, struct spot_err *err);
const struct cw_type *cw_type_find(const struct cw *self, const char *name);
const char *cw_zone_region(const struct cw *self, struct arena *a, const char *zone);

/* ---- cluster.c ------------------------------------------------------------------------------- */
/* Adds a cluster; NULL if there are CW_CLUSTERS_MAX already. */
struct cw_cluster *cw_cluster_add(struct cw *self, const char *name);
void cw_cluster_free(struct cw_cluster *cl);
/* True for https://HOST[:PORT][/PATH] without a query or a user. */
bool cw_server_ok(const char *url);
/* Clusters of a region ("" = all); zone "" = any. Walks: start with i = 0. NULL: no more. */
struct cw_cluster *cw_cluster_next(const struct cw *self, const char *region, const char *zone,
    size_t *i);
struct cw_cluster *cw_cluster_named(const struct cw *self, const char *name, size_t n);

/* ---- kubeconfig.c ---------------------------------------------------------------------------- */
struct cw_kubeconfig {
	/* given in the file */
	const char *server, *ca_pem, *cert_pem, *key_pem, *token;
	/* or in files of their own; "" = not */
	const char *ca_file, *cert_file, *key_file, *token_file;
};
NODISCARD enum spot_rc cw_kubeconfig_read(struct arena *a, struct str text, const char *path,
    const char *context, struct cw_kubeconfig *ret, struct spot_err *err);

/* ---- auth.c ---------------------------------------------------------------------------------- */
enum spot_step cw_auth(void *self, struct spot_call *c);
bool cw_auth_fresh(const void *self, int64_t now_us);

/* ---- http.c ---------------------------------------------------------------------------------- */
struct cw_reply {
	enum spot_rc rc; /* SPOT_OK: doc is there */
	const char *reason; /* of the Status, "" if it has none */
	const char *kind; /* details.kind of the Status */
	const char *words;
	int64_t retry_after_us;
	json_t *doc; /* OK only; owned by the caller */
};
void cw_api_request(const struct cw *self, struct spot_call *c, const char *method,
    const char *path);
void cw_request(const struct cw *self, struct spot_call *c, const struct cw_cluster *cl,
    const char *method, const char *path);
/* With another address and credential than those in use: how auth gets them. */
void cw_request_as(const struct cw *self, struct spot_call *c, const struct cw_cluster *cl,
    const char *server, const struct secret *bearer, const char *method, const char *path);
void cw_request_json(struct spot_call *c, const char *content_type, const json_t *body);
void cw_reply_read(const struct spot_call *c, bool managed, struct cw_reply *ret);
/* Returns the verdict for a bad reply, SPOT_STEP_NONE for a good one. A NULL cl stands for the
 * control plane. Set open if the call began something: then every indefinite end is UNKNOWN, so
 * that the caller looks it up. */
enum spot_step cw_reply_verdict(struct spot_call *c, const struct cw_cluster *cl, const char *what,
    bool open, const struct cw_reply *r);
enum spot_step cw_reply_get(struct spot_call *c, const struct cw_cluster *cl, const char *what,
    bool open, const char *kind, json_t **ret);
enum spot_step cw_bad_reply(struct spot_call *c, const char *what, bool open, const char *words);
const char *cw_words(struct arena *a, const char *text);
/* NULL doc members give ""; strings in the arena, control characters gone. */
const char *cw_str(struct arena *a, const json_t *o, const char *key);
int64_t cw_time(const json_t *o, const char *key); /* 0 = absent or not a time */
/* The next page of a list: false = the end. ret_bad: it repeats or never ends. */
bool cw_page_next(struct arena *a, const json_t *doc, const char **cont, size_t *pages,
    bool *ret_bad);
const char *cw_page_path(struct arena *a, const char *path, const char *cont);
/* "capacity", "quota": what words of the vendor come to; SPOT_OK = nothing of the kind. */
enum spot_rc cw_words_verdict(const char *text);
bool cw_words_negative(const char *text);
enum spot_step cw_cluster_bad(struct spot_call *c, const struct cw_cluster *cl, const char *what);

/* ---- pod.c ----------------------------------------------------------------------------------- */
const char *cw_pod_name(struct arena *a, const char *name);
const char *cw_pool_name(struct arena *a, const char *install, const char *type,
    enum spot_market market);
bool cw_label_ok(const char *v);
const char *cw_audience(const struct cw *self, const char *given);
json_t *cw_pod_body(const struct cw *self, struct spot_call *c, const struct spot_launch *l,
    const char **ret_hash);
/* The path of a node pool. A cluster's reply may have named it, so the name is percent-encoded. */
const char *cw_nodepool_path(struct arena *a, const char *name, const char *query);
json_t *cw_nodepool_body(struct arena *a, const char *name, const char *install, const char *type,
    enum spot_market market);
/* Type and market as node selectors of kind kubernetes: "gpu-product/NAME" stands for nodes without
 * a type label. */
#define CW_PRODUCT_PREFIX "gpu-product/"
struct cw_spot_label {
	const char *key, *value;
};
extern const struct cw_spot_label cw_spot_labels[];
extern const size_t cw_spot_labels_n;

/* ---- read.c: objects of the API, as far as they are needed ----------------------------------- */
struct cw_pod {
	const char *name, *uid, *install, *token, *pool, *type, *market, *hash;
	const char *phase, *reason, *message, *node, *ip;
	int64_t created_us, deleting_us; /* deletionTimestamp: when its grace is over */
	int64_t grace_s;
	/* message of PodScheduled=False, NULL = scheduled or not said */
	const char *unscheduled;
	const char *disruption; /* reason and message of DisruptionTarget, NULL = none */
	const char *waiting, *waiting_words;
	int64_t restarts;
	const char *ended; /* "exit 137 (OOMKilled)", NULL = not ended */
	bool started;
};
struct cw_node {
	const char *name, *cordon; /* cordon: words, NULL = none */
	const char *lost; /* not ready, unreachable: words */
	bool deleting;
};
struct cw_pool {
	const char *name, *uid, *rv, *install, *type, *market;
	int64_t target, current, in_progress, live;
	enum spot_rc verdict; /* of its conditions */
	int64_t verdict_us; /* since when; 0 = not said */
	const char *words;
	bool touched;
};
struct cw_event {
	const char *kind, *name, *reason, *message;
	int64_t at_us;
};
struct cw_view {
	struct cw_pod *pods;
	size_t pods_n, pods_cap;
	struct cw_node *nodes;
	size_t nodes_n, nodes_cap;
	struct cw_pool *pools;
	size_t pools_n, pools_cap;
	struct cw_event *events;
	size_t events_n, events_cap;
	bool have_nodes;
};
/* False: err says which field. */
bool cw_pod_read(struct arena *a, const json_t *o, struct cw_pod *ret, const char **ret_bad);
bool cw_node_read(struct arena *a, const json_t *o, struct cw_node *ret);
bool cw_pool_read(struct arena *a, const json_t *o, struct cw_pool *ret);
bool cw_event_read(struct arena *a, const json_t *o, struct cw_event *ret);
bool cw_pod_live(const struct cw_pod *p);
bool cw_pod_ours(const struct cw_pod *p); /* ends by our own hand */
struct cw_pool *cw_view_pool(const struct cw_view *v, const char *name);
void cw_view_nodes(struct cw_view *v); /* all nodes are in it: they can be looked up */
const struct cw_node *cw_view_node(const struct cw_view *v, const char *name);
/* ---- instance.c ------------------------------------------------------------------------------ */
/* view: what is known around it; NULL = nothing. */
void cw_instance(const struct cw *self, struct spot_call *c, const struct cw_cluster *cl,
    const struct cw_pod *p, const struct cw_view *view, struct spot_instance *ret);
/* A notice that the Pod or its node gives; false: none. */
bool cw_notice(struct spot_call *c, const struct cw_cluster *cl, const struct cw_pod *p,
    const struct cw_node *n, struct spot_notice *ret);
/* "cluster/pod/uid" or "nodepool/cluster/name" */
struct cw_ref {
	struct cw_cluster *cl;
	const char *pod, *uid, *pool;
};
bool cw_ref_parse(const struct cw *self, struct arena *a, const char *ref, struct cw_ref *ret);
const char *cw_pod_ref(struct arena *a, const struct cw_cluster *cl, const struct cw_pod *p);

/* ---- order.c: targetNodes follows the live Pods ---------------------------------------------- */
struct cw_order {
	int at;
	struct cw_cluster *cl;
	const char *what, *pool, *install, *type;
	enum spot_market market;
	bool create; /* the NodePool is made where it is not there */
	bool open; /* a launch is under way: see cw_reply_verdict */
	/* results */
	struct cw_pool before, was; /* as read before the Pods were listed; as last seen */
	int64_t live;
	bool refused; /* the NodePool or its target was refused for good (c->err says why) */
	/* inside */
	int tries;
	bool moved; /* the NodePool was written by somebody since we began */
	const char *cont;
	size_t pages;
};
enum spot_step cw_order_send(const struct cw *self, struct spot_call *c, struct cw_order *o);
/* Reads c->in and goes on: SPOT_STEP_NONE = the target is right. */
enum spot_step cw_order_read(const struct cw *self, struct spot_call *c, struct cw_order *o);

/* ---- the verbs ------------------------------------------------------------------------------- */
enum spot_step cw_whoami(void *self, struct spot_call *c, const char **ret_account);
enum spot_step cw_regions(void *self, struct spot_call *c, struct spot_regions *a);
enum spot_step cw_pools(void *self, struct spot_call *c, struct spot_pools *a);
enum spot_step cw_prices(void *self, struct spot_call *c, struct spot_prices *a);
enum spot_step cw_signals(void *self, struct spot_call *c, struct spot_signals *a);
enum spot_step cw_quotas(void *self, struct spot_call *c, struct spot_quotas *a);
enum spot_step cw_launch(void *self, struct spot_call *c, struct spot_launch *a);
enum spot_step cw_find(void *self, struct spot_call *c, struct spot_find *a);
enum spot_step cw_list(void *self, struct spot_call *c, struct spot_list *a);
enum spot_step cw_describe(void *self, struct spot_call *c, struct spot_describe *a);
enum spot_step cw_terminate(void *self, struct spot_call *c, struct spot_terminate *a);
enum spot_step cw_notices(void *self, struct spot_call *c, struct spot_notices *a);
enum spot_step cw_verify(void *self, struct spot_call *c, struct spot_verify *a);
enum spot_step cw_watch(void *self, struct spot_call *c, struct spot_watch *a);
enum spot_step cw_check(void *self, struct spot_call *c, struct spot_check *a);
enum spot_rc cw_presign(void *self, struct arena *arena, int64_t now_us, struct spot_presign *a,
    struct spot_err *err);

#endif
