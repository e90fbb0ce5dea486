/* Objects of the API, as far as they are needed, copied out of the JSON. Unknown members and values
 * do no harm. */
#include "base/base.h"
#include "coreweave_priv.h"

/* ---- Pods ------------------------------------------------------------------------------------ */

static const char *label_of(struct arena *a, const json_t *meta, const char *key)
{
	return cw_str(a, json_object_get(meta, "labels"), key);
}

static const char *annotation_of(struct arena *a, const json_t *meta, const char *key)
{
	return cw_str(a, json_object_get(meta, "annotations"), key);
}

static bool field_is(const json_t *o, const char *key, const char *value)
{
	return str_same(json_string_value(json_object_get(o, key)), value);
}

static const char *reason_words(struct arena *a, const json_t *o)
{
	return cw_words(a,
	    arena_printf(a, "%s: %s", cw_str(a, o, "reason"), cw_str(a, o, "message")));
}

static void pod_conditions(struct arena *a, const json_t *list, struct cw_pod *p)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *o = json_array_get(list, i);

		if (field_is(o, "type", "PodScheduled") && field_is(o, "status", "False")) {
			p->unscheduled = reason_words(a, o);
		} else if (field_is(o, "type", "DisruptionTarget") &&
		    field_is(o, "status", "True")) {
			p->disruption = reason_words(a, o);
		}
	}
}

/* Ours is called node; others are what an admission webhook of the cluster puts beside it. */
static void pod_container(struct arena *a, const json_t *o, struct cw_pod *p)
{
	const json_t *state = json_object_get(o, "state"),
		     *waiting = json_object_get(state, "waiting"),
		     *ended = json_object_get(state, "terminated");

	p->restarts = json_integer_value(json_object_get(o, "restartCount"));
	if (json_is_object(waiting)) {
		p->waiting = cw_words(a, cw_str(a, waiting, "reason"));
		p->waiting_words = cw_words(a, cw_str(a, waiting, "message"));
	}
	if (json_is_object(ended)) {
		p->ended = arena_printf(a, "exit %lld (%s)",
		    (long long)json_integer_value(json_object_get(ended, "exitCode")),
		    cw_words(a, cw_str(a, ended, "reason")));
	}
	p->started = p->started || json_is_object(json_object_get(state, "running"));
}

static void pod_status(struct arena *a, const json_t *status, struct cw_pod *p)
{
	const json_t *boxes = json_object_get(status, "containerStatuses");

	p->phase = cw_words(a, cw_str(a, status, "phase"));
	p->reason = cw_words(a, cw_str(a, status, "reason"));
	p->message = cw_words(a, cw_str(a, status, "message"));
	p->ip = cw_str(a, status, "podIP");
	pod_conditions(a, json_object_get(status, "conditions"), p);
	for (size_t i = 0; i < json_array_size(boxes); i++) {
		const json_t *box = json_array_get(boxes, i);

		if (json_array_size(boxes) == 1 || field_is(box, "name", CW_CONTAINER)) {
			pod_container(a, box, p);
		}
	}
}

bool cw_pod_read(struct arena *a, const json_t *o, struct cw_pod *p, const char **ret_bad)
{
	const json_t *meta = json_object_get(o, "metadata"), *spec = json_object_get(o, "spec"),
		     *status = json_object_get(o, "status");

	*p = (struct cw_pod){ .name = cw_str(a, meta, "name"),
		.uid = cw_str(a, meta, "uid"),
		.waiting = "",
		.waiting_words = "" };
	*ret_bad = NULL;
	if (!json_is_object(meta) || p->name[0] == '\0' || p->uid[0] == '\0') {
		*ret_bad = "a Pod without name or uid";
	} else if (!json_is_object(spec) || (status != NULL && !json_is_object(status))) {
		*ret_bad = "a Pod without spec or status";
	} else if (status != NULL && json_object_get(status, "phase") != NULL &&
	    !json_is_string(json_object_get(status, "phase"))) {
		*ret_bad = "a Pod with a phase that is not a string";
	} else if (strpbrk(p->name, "/ ") != NULL || strpbrk(p->uid, "/ ") != NULL ||
	    strlen(p->name) > 253 || strlen(p->uid) > 64) {
		*ret_bad = "a Pod with an invalid name or uid";
	}
	if (*ret_bad != NULL) {
		return false;
	}
	p->install = label_of(a, meta, CW_LABEL_INSTALL);
	p->pool = label_of(a, meta, CW_LABEL_POOL);
	p->market = label_of(a, meta, CW_LABEL_MARKET);
	p->type = annotation_of(a, meta, CW_LABEL_TYPE);
	p->token = annotation_of(a, meta, CW_NOTE_TOKEN);
	p->hash = annotation_of(a, meta, CW_NOTE_SPEC);
	p->created_us = cw_time(meta, "creationTimestamp");
	p->deleting_us = cw_time(meta, "deletionTimestamp");
	p->grace_s = json_integer_value(json_object_get(meta, "deletionGracePeriodSeconds"));
	p->node = cw_str(a, spec, "nodeName");
	pod_status(a, status, p);
	return true;
}

/* Counts as a holder of a node: not ended, and not on its way out. */
bool cw_pod_live(const struct cw_pod *p)
{
	return p->deleting_us == 0 && strcmp(p->phase, "Succeeded") != 0 &&
	    strcmp(p->phase, "Failed") != 0;
}

bool cw_pod_ours(const struct cw_pod *p)
{
	return p->deleting_us != 0 && p->grace_s == CW_OUR_GRACE_S;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

/* Standard taints (kubernetes/api well_known_taints.go); "ToBeDeletedByClusterAutoscaler" is the
 * autoscaler's. */
static const struct {
	const char *key;
	bool lost;
} node_taints[] = {
	{ "node.kubernetes.io/unreachable", true },
	{ "node.kubernetes.io/not-ready", true },
	{ "node.kubernetes.io/out-of-service", true },
	{ "node.kubernetes.io/unschedulable", false },
	{ "ToBeDeletedByClusterAutoscaler", false },
	{ "node.cloudprovider.kubernetes.io/shutdown", true },
	{ "cloud.google.com/impending-node-termination", false },
	{ "aws-node-termination-handler/spot-itn", false },
	{ "karpenter.sh/disrupted", false },
};

static void node_taint(struct arena *a, const json_t *o, struct cw_node *n)
{
	const char *key = cw_str(a, o, "key");
	bool evicts = field_is(o, "effect", "NoExecute");

	for (size_t i = 0; i < ARRAY_LEN(node_taints); i++) {
		if (strcmp(node_taints[i].key, key) == 0) {
			const char *words =
			    arena_printf(a, "taint %s since %s", key, cw_str(a, o, "timeAdded"));

			/* A node that is new or away for a moment is only not scheduled to. */
			if (evicts || !node_taints[i].lost) {
				*(node_taints[i].lost ? &n->lost : &n->cordon) = words;
			}
		}
	}
}

bool cw_node_read(struct arena *a, const json_t *o, struct cw_node *n)
{
	const json_t *meta = json_object_get(o, "metadata"), *spec = json_object_get(o, "spec");
	const json_t *taints = json_object_get(spec, "taints");
	const json_t *conditions = json_object_get(json_object_get(o, "status"), "conditions");

	*n = (struct cw_node){ .name = cw_str(a, meta, "name"),
		.deleting = cw_time(meta, "deletionTimestamp") != 0 };
	if (json_is_true(json_object_get(spec, "unschedulable"))) {
		n->cordon = "cordoned (spec.unschedulable)";
	}
	for (size_t i = 0; i < json_array_size(taints); i++) {
		node_taint(a, json_array_get(taints, i), n);
	}
	for (size_t i = 0; i < json_array_size(conditions); i++) {
		const json_t *k = json_array_get(conditions, i);

		/* The kubelet has stopped posting; the taint that says the same follows. */
		if (field_is(k, "type", "Ready") && field_is(k, "status", "Unknown") &&
		    n->lost == NULL) {
			n->lost = reason_words(a, k);
		}
	}
	return n->name[0] != '\0';
}

/* ---- NodePools ------------------------------------------------------------------------------- */

static int64_t field_count(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_integer(v) ? (int64_t)json_integer_value(v) : 0;
}

/* "Capacity" False, "InsufficientCapacity" True, or anything not True whose reason says it. Unknown
 * says nothing of its type. */
static enum spot_rc condition_verdict(const char *type, const char *status, const char *why)
{
	bool yes = strcmp(status, "True") == 0;
	enum spot_rc of_type = cw_words_verdict(type), of_why = cw_words_verdict(why);

	if (of_type != SPOT_OK && (yes || strcmp(status, "False") == 0)) {
		return cw_words_negative(type) == yes ? of_type : SPOT_OK;
	}
	return !yes && of_why != SPOT_OK && cw_words_negative(why) ? of_why : SPOT_OK;
}

static void pool_conditions(struct arena *a, const json_t *list, struct cw_pool *p)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *o = json_array_get(list, i);
		const char *type = cw_str(a, o, "type"), *status = cw_str(a, o, "status"),
			   *why = reason_words(a, o);
		enum spot_rc rc = condition_verdict(type, status, why);

		if (rc != SPOT_OK && p->verdict != SPOT_QUOTA) {
			p->verdict = rc;
			p->verdict_us = cw_time(o, "lastTransitionTime");
			p->words =
			    cw_words(a, arena_printf(a, "condition %s=%s %s", type, status, why));
		}
	}
}

bool cw_pool_read(struct arena *a, const json_t *o, struct cw_pool *p)
{
	const json_t *meta = json_object_get(o, "metadata"), *spec = json_object_get(o, "spec"),
		     *status = json_object_get(o, "status");
	const char *class = cw_str(a, spec, "computeClass");

	*p = (struct cw_pool){ .name = cw_str(a, meta, "name"), .words = "" };
	p->uid = cw_str(a, meta, "uid");
	p->rv = cw_str(a, meta, "resourceVersion");
	p->install = label_of(a, meta, CW_LABEL_INSTALL);
	p->type = cw_str(a, spec, "instanceType");
	p->market = strcmp(class, "spot") == 0 ? "spot" : "on_demand";
	p->target = field_count(spec, "targetNodes");
	p->current = field_count(status, "currentNodes");
	p->in_progress = field_count(status, "inProgress");
	pool_conditions(a, json_object_get(status, "conditions"), p);
	return p->name[0] != '\0' && p->rv[0] != '\0';
}

/* ---- Events ---------------------------------------------------------------------------------- */

bool cw_event_read(struct arena *a, const json_t *o, struct cw_event *e)
{
	const json_t *about = json_object_get(o, "involvedObject"),
		     *series = json_object_get(o, "series");

	*e = (struct cw_event){
		.kind = cw_str(a, about, "kind"),
		.name = cw_str(a, about, "name"),
		.reason = cw_words(a, cw_str(a, o, "reason")),
		.message = cw_words(a, cw_str(a, o, "message")),
		.at_us = cw_time(o, "lastTimestamp"),
	};
	/* lastTimestamp may be null where eventTime is used (kubernetes/api core/v1 Event); all of
	 * them may be. */
	e->at_us = MAX(e->at_us, MAX(cw_time(o, "eventTime"), cw_time(series, "lastObservedTime")));
	if (e->at_us == 0) {
		e->at_us = MAX(cw_time(o, "firstTimestamp"),
		    cw_time(json_object_get(o, "metadata"), "creationTimestamp"));
	}
	return e->name[0] != '\0';
}

/* ---- lookups --------------------------------------------------------------------------------- */

struct cw_pool *cw_view_pool(const struct cw_view *v, const char *name)
{
	for (size_t i = 0; i < v->pools_n; i++) {
		if (strcmp(v->pools[i].name, name) == 0) {
			return &v->pools[i];
		}
	}
	return NULL;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct cw_node *)a)->name, ((const struct cw_node *)b)->name);
}

void cw_view_nodes(struct cw_view *v)
{
	if (v->nodes_n > 0) {
		qsort(v->nodes, v->nodes_n, sizeof(*v->nodes), by_name);
	}
	v->have_nodes = true;
}

const struct cw_node *cw_view_node(const struct cw_view *v, const char *name)
{
	struct cw_node key = { .name = name };

	return v->have_nodes && v->nodes_n > 0
	    ? bsearch(&key, v->nodes, v->nodes_n, sizeof(key), by_name)
	    : NULL;
}
