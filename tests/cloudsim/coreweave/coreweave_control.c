/*
 * Control calls for the clusters: POST /coreweave/<word>. "cluster" is a pattern of names (all when
 * absent).
 */
#include "base/base.h"
#include "cloudsim/coreweave/coreweave.h"
#include "base/text/text.h"

static bool cluster_matches(const struct k8s_cluster *c, const json_t *doc)
{
	const char *pattern = k_str(doc, "cluster");

	return !pattern || glob_match(pattern, c->name);
}

static bool known_check(const json_t *doc, const char *const *known, struct spot_err *err)
{
	const char *bad = json_unknown_key(doc, known);

	if (bad) {
		err_set(err, SPOT_INVALID, "unknown setting %s", bad);
	}
	return !bad;
}

/* ---- settings -------------------------------------------------------------------------------- */

static void config_set(struct k8s_cluster *c, const json_t *doc, struct spot_err *err)
{
	c->bookmark_us = MAX(json_i64(doc, "bookmark_ms", c->bookmark_us / 1000, err), 1) * 1000;
	c->watch_us_max = json_i64(doc, "watch_ms_max", c->watch_us_max / 1000, err) * 1000;
	c->pull_us = json_i64(doc, "pull_ms", c->pull_us / 1000, err) * 1000;
	c->token_s_max = json_i64(doc, "token_s_max", c->token_s_max, err);
	c->expired_by_http = json_bool(doc, "expired_by_http", c->expired_by_http, err);
	c->watch_list = json_bool(doc, "watch_list", c->watch_list, err);
	c->quota_by_admission = json_bool(doc, "quota_by_admission", c->quota_by_admission, err);
	c->deliver = json_bool(doc, "deliver", c->deliver, err);
	c->finalizer_stuck = json_bool(doc, "finalizer_stuck", c->finalizer_stuck, err);
	k8s_wake(c);
}

static json_t *post_config(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err)
{
	static const char *const known[] = { "cluster", "bookmark_ms", "watch_ms_max", "pull_ms",
		"token_s_max", "expired_by_http", "watch_list", "quota_by_admission", "deliver",
		"finalizer_stuck", NULL };

	if (!known_check(doc, known, err)) {
		return NULL;
	}
	for (struct k8s_cluster *c = s->coreweave->clusters; c; c = c->next) {
		if (cluster_matches(c, doc)) {
			config_set(c, doc, err);
		}
	}
	return err->rc == SPOT_OK ? json_object() : NULL;
}

/* nodes null: no quota. */
static json_t *post_quota(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err)
{
	const char *type = json_str(doc, "type", "*", err);
	const json_t *nodes = json_object_get(doc, "nodes");

	if (err->rc != SPOT_OK || !nodes) {
		err_set(err, SPOT_INVALID, "nodes (a number, or null for no quota) is needed");
		return NULL;
	}
	for (struct k8s_cluster *c = s->coreweave->clusters; c; c = c->next) {
		if (!cluster_matches(c, doc)) {
			continue;
		}
		if (json_is_integer(nodes)) {
			json_object_set_new(c->node_quota, type,
			    json_integer(json_integer_value(nodes)));
		} else {
			json_object_del(c->node_quota, type);
		}
		k8s_wake(c);
	}
	return json_object();
}

/* The history of changes is forgotten: watches and continued lists are too old. */
static json_t *post_compact(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err UNUSED)
{
	for (struct k8s_cluster *c = s->coreweave->clusters; c; c = c->next) {
		if (cluster_matches(c, doc)) {
			c->rv += 100;
			k8s_compact(c);
		}
	}
	return json_object();
}

/* All open watches end now, as when an API server restarts. */
static json_t *post_watches(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err UNUSED)
{
	for (struct k8s_cluster *c = s->coreweave->clusters; c; c = c->next) {
		if (cluster_matches(c, doc)) {
			k8s_watches_end(c);
		}
	}
	return json_object();
}

static json_t *post_token(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err)
{
	s->coreweave->token_expired = json_bool(doc, "expired", true, err);
	return json_object();
}

/* deny: patterns of "verb resource" that the broker's account loses. */
static json_t *post_rbac(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err)
{
	const json_t *deny = json_object_get(doc, "deny");

	if (!json_is_array(deny)) {
		err_set(err, SPOT_INVALID, "deny is an array of patterns of \"verb resource\"");
		return NULL;
	}
	for (struct k8s_cluster *c = s->coreweave->clusters; c; c = c->next) {
		if (!cluster_matches(c, doc)) {
			continue;
		}
		json_decref(c->denied);
		c->denied = json_deep_copy(deny);
	}
	return json_object();
}

/* fail null: images of the pattern can be had again. */
static json_t *post_image(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err)
{
	const char *image = json_need_str(doc, "image", err),
		   *fail = json_str(doc, "fail", NULL, err);

	if (err->rc != SPOT_OK) {
		return NULL;
	}
	for (struct k8s_cluster *c = s->coreweave->clusters; c; c = c->next) {
		if (cluster_matches(c, doc)) {
			k_set(c->bad_images, image, fail);
		}
	}
	return json_object();
}

/* ---- events of the machines ------------------------------------------------------------------ */

static json_t *done_json(json_t *names)
{
	return json_pack("{s:o}", "names", names);
}

/* The container of a pod dies as by the kernel's hand; kill of the whole node is POST /kill. */
static json_t *post_crash(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err)
{
	const char *pod = json_need_str(doc, "pod", err);
	json_t *names;

	if (err->rc != SPOT_OK) {
		return NULL;
	}
	names = json_array();
	for (struct k8s_cluster *c = s->coreweave->clusters; c; c = c->next) {
		for (struct k8s_obj *o = c->objs[K8S_POD]; cluster_matches(c, doc) && o;
		     o = o->next) {
			if (glob_match(pod, o->name)) {
				kubelet_kill(o);
				json_array_append_new(names, json_string(o->name));
			}
		}
	}
	return done_json(names);
}

static bool node_state(struct k8s_obj *o, const char *state)
{
	if (str_same(state, "gone")) {
		node_drop(o);
	} else if (str_same(state, "not_ready")) {
		node_lost(o);
	} else if (str_same(state, "ready")) {
		node_back(o);
	} else if (str_same(state, "cordon")) {
		node_cordon(o, NULL);
	} else {
		return false;
	}
	return true;
}

/* state: cordon, not_ready, ready, gone. */
static json_t *post_node(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err)
{
	const char *node = json_need_str(doc, "node", err),
		   *state = json_need_str(doc, "state", err);
	struct k8s_obj *next;
	json_t *names;

	if (err->rc != SPOT_OK) {
		return NULL;
	}
	names = json_array();
	for (struct k8s_cluster *c = s->coreweave->clusters; c; c = c->next) {
		for (struct k8s_obj *o = c->objs[K8S_NODE]; cluster_matches(c, doc) && o;
		     o = next) {
			next = o->next;
			if (!glob_match(node, o->name)) {
				continue;
			}
			json_array_append_new(names, json_string(o->name));
			if (!node_state(o, state)) {
				err_set(err, SPOT_INVALID, "unknown state %s", state);
			}
		}
	}
	if (err->rc == SPOT_OK) {
		return done_json(names);
	}
	json_decref(names);
	return NULL;
}

/* The whole of a Namespace's quota: hard limits by resource; null drops it. */
static json_t *post_pod_quota(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err UNUSED)
{
	json_t *hard = json_object_get(doc, "hard");

	for (struct k8s_cluster *c = s->coreweave->clusters; c; c = c->next) {
		struct k8s_obj *o = k8s_find(c, K8S_QUOTA, K8S_NAMESPACE_OURS, "quota");

		if (!cluster_matches(c, doc)) {
			continue;
		}
		if (o) {
			k8s_remove(o);
		}
		if (json_is_object(hard)) {
			k8s_insert(c, &k8s_kinds[K8S_QUOTA],
			    json_pack("{s:{s:s, s:s}, s:{s:O}, s:{s:O}}", "metadata", "name",
				"quota", "namespace", K8S_NAMESPACE_OURS, "spec", "hard", hard,
				"status", "hard", hard));
		}
	}
	return json_object();
}

static json_t *objects_get(struct sim *s, struct httpd_req *r UNUSED)
{
	json_t *all = json_object();

	for (struct k8s_cluster *c = s->coreweave->clusters; c; c = c->next) {
		json_t *list = json_array();

		for (size_t k = 0; k < K8S_KINDS; k++) {
			for (const struct k8s_obj *o = c->objs[k]; o; o = o->next) {
				json_array_append(list, o->doc);
			}
		}
		json_object_set_new(all, c->name, list);
	}
	return all;
}

const struct control_call cw_calls[] = {
	{ "POST", "/coreweave/compact", "{\"cluster\": PATTERN}", "{}",
	    "Forget the history: old watches and continue tokens get 410.", post_compact, NULL },
	{ "POST", "/coreweave/config",
	    "{\"cluster\": PATTERN, \"bookmark_ms\": MS, \"watch_ms_max\": MS, \"pull_ms\": MS, "
	    "\"token_s_max\": S, \"expired_by_http\": false, \"watch_list\": true, "
	    "\"quota_by_admission\": false, \"deliver\": true, \"finalizer_stuck\": false}",
	    "{}", "Change how the API servers behave.", post_config, NULL },
	{ "POST", "/coreweave/crash", "{\"cluster\": PATTERN, \"pod\": PATTERN}",
	    "{\"names\": [NAME]}", "Kill the program of a Pod.", post_crash, NULL },
	{ "POST", "/coreweave/image",
	    "{\"cluster\": PATTERN, \"image\": PATTERN, \"fail\": \"ErrImagePull\" | null}", "{}",
	    "Make pulls of an image fail; null ends it.", post_image, NULL },
	{ "POST", "/coreweave/node",
	    "{\"cluster\": PATTERN, \"node\": PATTERN, \"state\": \"cordon\" | \"not_ready\" | "
	    "\"ready\" | \"gone\"}",
	    "{\"names\": [NAME]}", "Change the state of nodes.", post_node, NULL },
	{ "GET", "/coreweave/objects", "", "{CLUSTER: [OBJECT]}",
	    "List every object of every cluster, as stored.", NULL, objects_get },
	{ "POST", "/coreweave/pod-quota",
	    "{\"cluster\": PATTERN, \"hard\": {RESOURCE: QUANTITY} | null}", "{}",
	    "Set the ResourceQuota of the namespace; null drops it.", post_pod_quota, NULL },
	{ "POST", "/coreweave/quota",
	    "{\"cluster\": PATTERN, \"type\": PATTERN, \"nodes\": N | null}", "{}",
	    "Limit the nodes of a type over all NodePools; null drops the limit.", post_quota,
	    NULL },
	{ "POST", "/coreweave/rbac", "{\"cluster\": PATTERN, \"deny\": [\"VERB RESOURCE\"]}", "{}",
	    "Take rights from the broker's account.", post_rbac, NULL },
	{ "POST", "/coreweave/token", "{\"expired\": true}", "{}",
	    "Expire the API token, or make it good again.", post_token, NULL },
	{ "POST", "/coreweave/watches", "{\"cluster\": PATTERN}", "{}", "End all open watches.",
	    post_watches, NULL },
	{ .path = NULL },
};
