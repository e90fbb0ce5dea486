/*
 * Faults of Kubernetes clusters, drawn in seeds with CoreWeave only. API servers refuse, answer
 * wrongly or never, forget the history from which a watch resumes, or end all streams. NodePools
 * deliver nothing and say nothing. Quotas are used up, images are missing, tokens expire. Pods are
 * evicted, deleted or crash. Nodes are cordoned, silent or gone.
 *
 * Lists of Kubernetes are consistent as the provider asks for them (no resourceVersion=0): they
 * lack nothing.
 */
#include "sim/world/world.h"
#include "sim/cloud/cloud.h"
#include "sim/cloud/cloud_priv.h"
#include "sim/faults/faults_coreweave.h"
#include "sim/host/host.h"

#include "cloudsim/coreweave/coreweave.h"

/* ---- replies --------------------------------------------------------------------------------- */

static const struct api_fault cluster_faults[] = {
	{ "coreweave", "a Pod was made and 500 answered", "k8s", "POST pods", "status", true, 500,
	    "InternalError", NULL },
	{ "coreweave", "a Pod was made and the line broke", "k8s", "POST pods", "reset_after",
	    false, 0, NULL, NULL },
	{ "coreweave", "a Pod was posted twice", "k8s", "POST pods", "duplicate", false, 0, NULL,
	    NULL },
	{ "coreweave", "a Pod was never answered for", "k8s", "POST pods", "hang", true, 0, NULL,
	    NULL },
	{ "coreweave", "a Pod was refused for too many requests", "k8s", "POST pods", "status",
	    false, 429, "TooManyRequests", NULL },
	{ "coreweave", "a Pod was refused as if it were there", "k8s", "POST pods", "status", false,
	    409, "AlreadyExists", NULL },
	{ "coreweave", "a Pod was deleted and 500 answered", "k8s", "DELETE pods", "status", true,
	    500, "InternalError", NULL },
	{ "coreweave", "a Pod was deleted and the line broke", "k8s", "DELETE pods", "reset_after",
	    false, 0, NULL, NULL },
	{ "coreweave", "a delete of a Pod was refused", "k8s", "DELETE pods", "status", false, 429,
	    "TooManyRequests", NULL },
	{ "coreweave", "a gateway had no page for a Pod's delete", "k8s", "DELETE pods", "status",
	    false, 404, NULL, "<html>404 page not found</html>" },
	{ "coreweave", "Pods were not told", "k8s", "GET pods", "status", false, 500,
	    "InternalError", NULL },
	{ "coreweave", "a list of Pods was cut short", "k8s", "GET pods", "truncate", false, 0,
	    NULL, NULL },
	{ "coreweave", "Pods were garbage", "k8s", "GET pods", "malform", false, 0, NULL, NULL },
	{ "coreweave", "a gateway had no page for Pods", "k8s", "GET pods", "status", false, 404,
	    NULL, "<html>404 page not found</html>" },
	{ "coreweave", "a watch was refused", "k8s", "WATCH pods", "status", false, 429,
	    "TooManyRequests", NULL },
	{ "coreweave", "a watch was too old", "k8s", "WATCH pods", "status", false, 410, "Expired",
	    NULL },
	{ "coreweave", "a watch never began", "k8s", "WATCH pods", "hang", false, 0, NULL, NULL },
	{ "coreweave", "a NodePool was made and the line broke", "k8s", "POST nodepools",
	    "reset_after", false, 0, NULL, NULL },
	{ "coreweave", "a NodePool was made and 500 answered", "k8s", "POST nodepools", "status",
	    true, 500, "InternalError", NULL },
	{ "coreweave", "a target was written and the line broke", "k8s", "PATCH nodepools",
	    "reset_after", false, 0, NULL, NULL },
	{ "coreweave", "a target was written and 500 answered", "k8s", "PATCH nodepools", "status",
	    true, 500, "InternalError", NULL },
	{ "coreweave", "a target was never answered for", "k8s", "PATCH nodepools", "hang", true, 0,
	    NULL, NULL },
	{ "coreweave", "a target was overtaken", "k8s", "PATCH nodepools", "status", false, 409,
	    "Conflict", NULL },
	{ "coreweave", "NodePools were not told", "k8s", "GET nodepools", "status", false, 503,
	    "ServiceUnavailable", NULL },
	{ "coreweave", "nodes were not told", "k8s", "GET nodes", "status", false, 500,
	    "InternalError", NULL },
	{ "coreweave", "a token was not reviewed", "k8s", "POST tokenreviews", "status", false, 500,
	    "InternalError", NULL },
	{ "coreweave", "no token was given", "k8s", "POST serviceaccounts/token", "status", false,
	    500, "InternalError", NULL },
	{ "coreweave", "a credential was not known", "k8s", "*", "expired_credentials", false, 0,
	    NULL, NULL },
	{ "coreweave", "clusters were not told", "coreweave", "*", "status", false, 503,
	    "UNAVAILABLE", NULL },
};

static void cluster_fault_inject(void)
{
	const struct api_fault *l =
	    &cluster_faults[rng_below(&world.dice, ARRAY_LEN(cluster_faults))];

	fault_inject(l, dice_us(1, 3));
}

void faults_coreweave_once(const char *action)
{
	const struct api_fault *l = fault_find(cluster_faults, ARRAY_LEN(cluster_faults), action);

	if (l != NULL) {
		fault_inject(l, 1);
	}
}

/* ---- lasting faults -------------------------------------------------------------------------- */

static int64_t states_until; /* 0 = all is as it should be */

static void state_deliver(bool on)
{
	cloud_post("/coreweave/config", json_pack("{s:b}", "deliver", !on));
}

static void quota_set(bool on, bool admission)
{
	cloud_post("/coreweave/config", json_pack("{s:b}", "quota_by_admission", admission));
	cloud_post("/coreweave/quota",
	    on ? json_pack("{s:i}", "nodes", 1) : json_pack("{s:n}", "nodes"));
}

static void state_quota_told(bool on)
{
	quota_set(on, false);
}

static void state_quota_refused(bool on)
{
	quota_set(on, on);
}

static void state_image(bool on)
{
	cloud_post("/coreweave/image",
	    on ? json_pack("{s:s, s:s}", "image", "*", "fail", "ErrImagePull")
	       : json_pack("{s:s, s:n}", "image", "*", "fail"));
}

static void state_slow_image(bool on)
{
	cloud_post("/coreweave/config",
	    json_pack("{s:I}", "pull_ms", (json_int_t)(on ? 240000 : PULL_US / 1000)));
}

static void state_token(bool on)
{
	cloud_post("/coreweave/token", json_pack("{s:b}", "expired", on));
}

static void state_short_streams(bool on)
{
	cloud_post("/coreweave/config", json_pack("{s:i}", "watch_ms_max", on ? 1500 : 0));
}

static void state_short_tokens(bool on)
{
	cloud_post("/coreweave/config", json_pack("{s:i}", "token_s_max", on ? 600 : 0));
}

static const struct state {
	const char *name;
	void (*set)(bool on);
} states[] = {
	{ "a NodePool delivered nothing and did not say why", state_deliver },
	{ "a NodePool was over its quota", state_quota_told },
	{ "a NodePool over its quota was refused", state_quota_refused },
	{ "an image could not be pulled", state_image },
	{ "an image took minutes", state_slow_image },
	{ "an API token was over", state_token },
	{ "streams ended after a second", state_short_streams },
	{ "tokens were good for ten minutes", state_short_tokens },
};
static const struct state *state;

static void state_minute(void)
{
	if (states_until != 0) {
		if (world_now() >= states_until) {
			trace("cloud no longer: %s", state->name);
			state->set(false);
			states_until = 0;
		}
		return;
	}
	state = &states[rng_below(&world.dice, ARRAY_LEN(states))];
	states_until = world_now() + dice_us(60 * SPOT_US_PER_S, 900 * SPOT_US_PER_S);
	trace("cloud from now on: %s", state->name);
	fault_seen(state->name);
	state->set(true);
}

static void history_forgotten(void)
{
	bool by_http = rng_below(&world.dice, 2) == 0;

	trace("cloud the history of changes is forgotten");
	fault_seen("the history of a watch was forgotten");
	cloud_post("/coreweave/config", json_pack("{s:b}", "expired_by_http", by_http));
	cloud_post("/coreweave/compact", json_object());
	cloud_post("/coreweave/watches", json_object());
}

static void cluster_minute(void)
{
	switch (rng_below(&world.dice, 6)) {
	case 0:
	case 1:
		state_minute();
		break;
	case 2:
		history_forgotten();
		break;
	default:
		cluster_fault_inject();
		break;
	}
}

/* ---- Pods and nodes -------------------------------------------------------------------------- */

static struct k8s_obj *pod_any(bool bound)
{
	struct k8s_obj *found = NULL;
	uint64_t n = 0;

	for (struct k8s_cluster *c = sim.coreweave->clusters; c != NULL; c = c->next) {
		for (struct k8s_obj *o = c->objs[K8S_POD]; o != NULL; o = o->next) {
			if (!pod_over(o) && (!bound || k_str(o->doc, "spec.nodeName") != NULL) &&
			    rng_below(&world.dice, ++n) == 0) {
				found = o;
			}
		}
	}
	return found;
}

/* At most one node at a time is cordoned or says nothing; cordons come and go by the vendor's
 * automation. */
static struct silence {
	char node[64];
	int64_t until;
} silent;

static void node_set(const char *node, const char *to)
{
	cloud_post("/coreweave/node", json_pack("{s:s, s:s}", "node", node, "state", to));
}

static void silence_over(void)
{
	if (silent.until == 0) {
		return;
	}
	trace("cloud node %s is as it was", silent.node);
	node_set(silent.node, "ready");
	silent.until = 0;
}

static void node_happens(const struct k8s_obj *pod, uint64_t what)
{
	const char *node = k_str(pod->doc, "spec.nodeName");

	if (what == 0) {
		trace("cloud node %s is gone", node);
		sometimes("a node left its cluster");
		node_set(node, "gone");
		return;
	}
	if (silent.until != 0) {
		return;
	}
	snprintf(silent.node, sizeof(silent.node), "%s", node);
	silent.until = world_now() + dice_us(20 * SPOT_US_PER_S, 900 * SPOT_US_PER_S);
	if (what == 1) {
		trace("cloud node %s is cordoned", node);
		fault_seen("a node was cordoned");
		node_set(node, "cordon");
		return;
	}
	trace("cloud node %s says nothing", node);
	sometimes("a node of a cluster was silent");
	if (rng_below(&world.dice, 2) == 0) { /* the node's network, not its kubelet */
		host_cut_for(pod->uid, silent.until - world_now());
	}
	node_set(silent.node, "not_ready");
}

static void pod_minute(void)
{
	struct k8s_obj *pod = pod_any(false);
	uint64_t what = rng_below(&world.dice, 8);

	if (pod == NULL) {
		return;
	}
	if (what >= 5) {
		pod = pod_any(true);
		if (pod != NULL) {
			node_happens(pod, what - 5);
		}
		return;
	}
	trace("cloud Pod %s: %s", pod->uid,
	    what == 0       ? "crashes"
		: what <= 2 ? "is evicted"
		: what == 3 ? "is deleted"
			    : "is deleted by force");
	switch (what) {
	case 0:
		fault_seen("a container crashed");
		kubelet_kill(pod);
		break;
	case 1:
	case 2:
		sometimes("a Pod was evicted");
		pod_evict(pod, dice_us(1, 420));
		break;
	case 3:
		sometimes("a Pod was deleted by somebody else");
		(void)k8s_delete_object(pod, rng_below(&world.dice, 2) == 0 ? -1 : dice_us(1, 60));
		break;
	default:
		fault_seen("a Pod was deleted by force");
		(void)k8s_delete_object(pod, 0);
		break;
	}
}

/* ---- each minute ----------------------------------------------------------------------------- */

void coreweave_minute(void)
{
	if (silent.until != 0 && world_now() >= silent.until) {
		silence_over();
	}
	if (DICE(cluster)) {
		cluster_minute();
	}
	if (DICE(pod)) {
		pod_minute();
	}
}

void coreweave_calm(void)
{
	silence_over();
	if (states_until != 0) {
		state->set(false);
	}
	states_until = 0;
}
