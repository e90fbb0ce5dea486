/*
 * The scheduler binds a Pending Pod without a node to a Ready node. Its selector, affinity and
 * tolerations must allow the node, and the node must have the resources left. Otherwise the Pod's
 * condition says why not, in the words of kube-scheduler ("0/3 nodes are available: ...").
 */
#include "base/base.h"
#include "cloudsim/k8s/k8s.h"
#include "base/text/text.h"

/* ---- one node -------------------------------------------------------------------------------- */

static bool expression_matches(const json_t *e, const json_t *labels)
{
	const char *op = k_str(e, "operator"), *key = k_str(e, "key"),
		   *v = json_string_value(json_object_get(labels, key ? key : ""));
	int64_t have, bound;
	bool in = false;
	size_t k;
	json_t *x;

	json_array_foreach (k_at(e, "values"), k, x) {
		in = in || (v && str_same(json_string_value(x), v));
	}
	if (str_same(op, "In")) {
		return in;
	}
	if (str_same(op, "NotIn")) {
		return !in;
	}
	if (str_same(op, "Exists")) {
		return v != NULL;
	}
	if (str_same(op, "DoesNotExist")) {
		return v == NULL;
	}
	if (!v || !parse_i64(v, INT64_MIN, INT64_MAX, &have) ||
	    !parse_i64(json_string_value(json_array_get(k_at(e, "values"), 0)), INT64_MIN,
		INT64_MAX, &bound)) {
		return false;
	}
	return str_same(op, "Gt") ? have > bound : have < bound;
}

static bool term_matches(const json_t *term, const struct k8s_obj *node)
{
	json_t *names = json_pack("{s:s}", "metadata.name", node->name), *e;
	bool ok = json_array_size(k_at(term, "matchExpressions")) +
		json_array_size(k_at(term, "matchFields")) >
	    0;
	size_t k;

	json_array_foreach (k_at(term, "matchExpressions"), k, e) {
		ok = ok && expression_matches(e, k_at(node->doc, "metadata.labels"));
	}
	json_array_foreach (k_at(term, "matchFields"), k, e) {
		ok = ok && expression_matches(e, names);
	}
	json_decref(names);
	return ok;
}

static bool node_selected(const json_t *spec, const struct k8s_obj *node)
{
	const json_t *labels = k_at(node->doc, "metadata.labels"),
		     *terms = k_at(spec,
			 "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
			 "nodeSelectorTerms");
	bool any = json_array_size(terms) == 0;
	const char *key;
	size_t k;
	json_t *v;

	json_object_foreach (k_at(spec, "nodeSelector"), key, v) {
		if (!str_same(json_string_value(json_object_get(labels, key)),
			json_string_value(v))) {
			return false;
		}
	}
	json_array_foreach (terms, k, v) {
		any = any || term_matches(v, node);
	}
	return any;
}

static bool taint_tolerated(const json_t *spec, const json_t *taint)
{
	size_t k;
	json_t *t;

	json_array_foreach (k_at(spec, "tolerations"), k, t) {
		const char *key = k_str(t, "key"), *effect = k_str(t, "effect"),
			   *value = k_str(t, "value"), *had = k_str(taint, "value");

		if (effect && *effect && !str_same(effect, k_str(taint, "effect"))) {
			continue;
		}
		if (key && *key && !str_same(key, k_str(taint, "key"))) {
			continue;
		}
		if (str_same(k_str(t, "operator"), "Exists") ||
		    str_same(value ? value : "", had ? had : "")) {
			return true;
		}
	}
	return false;
}

static const json_t *taint_untolerated(const json_t *spec, const json_t *node)
{
	size_t k;
	json_t *t;

	json_array_foreach (k_at(node, "spec.taints"), k, t) {
		if (!str_same(k_str(t, "effect"), "PreferNoSchedule") &&
		    !taint_tolerated(spec, t)) {
			return t;
		}
	}
	return NULL;
}

static int64_t resource_asked(const json_t *spec, const char *resource)
{
	int64_t sum = 0, v;
	size_t k;
	json_t *c;

	if (str_same(resource, "pods")) {
		return 1000;
	}
	json_array_foreach (k_at(spec, "containers"), k, c) {
		if (k_quantity(json_object_get(k_at(c, "resources.requests"), resource), &v)) {
			sum += v;
		}
	}
	return sum;
}

/* The rest of a node's resources during one pass: resource -> thousandths. */
struct slot {
	struct k8s_obj *node;
	json_t *free;
};

static int64_t resource_left(const struct slot *s, const char *resource)
{
	return json_integer_value(json_object_get(s->free, resource));
}

static void resources_take(struct slot *s, const json_t *spec)
{
	const char *key;
	json_t *v;
	void *tmp;

	json_object_foreach_safe (s->free, tmp, key, v) {
		json_integer_set(v, json_integer_value(v) - resource_asked(spec, key));
	}
}

static void slot_fill(struct slot *s, struct k8s_obj *node)
{
	const char *key;
	int64_t milli;
	json_t *v;

	*s = (struct slot){ node, json_object() };
	json_object_foreach (k_at(node->doc, "status.allocatable"), key, v) {
		if (k_quantity(v, &milli)) {
			json_object_set_new(s->free, key, json_integer(milli));
		}
	}
}

/* The first resource of which too little is left. */
static const char *resource_lacking(const json_t *spec, const struct slot *s)
{
	const char *key;
	size_t k;
	json_t *c, *v;

	if (resource_left(s, "pods") < 1000) {
		return "pods";
	}
	json_array_foreach (k_at(spec, "containers"), k, c) {
		json_object_foreach (k_at(c, "resources.requests"), key, v) {
			if (resource_asked(spec, key) > MAX(resource_left(s, key), 0)) {
				return key;
			}
		}
	}
	return NULL;
}

/* ---- one pod --------------------------------------------------------------------------------- */

struct tally {
	char text[96];
	int n;
};

static void tally_add(struct tally *all, size_t max, const char *text)
{
	for (size_t k = 0; k < max; k++) {
		if (all[k].n && !str_same(all[k].text, text)) {
			continue;
		}
		snprintf(all[k].text, sizeof(all[k].text), "%s", text);
		all[k].n++;
		return;
	}
}

/* NULL: it fits. */
static const char *refusal_text(const json_t *spec, const struct slot *s, char *buf, size_t n)
{
	const struct k8s_obj *node = s->node;
	const json_t *taint;
	const char *missing;

	if (k_true(node->doc, "spec.unschedulable")) {
		return "node(s) were unschedulable";
	}
	taint = taint_untolerated(spec, node->doc);
	if (taint) {
		const char *v = k_str(taint, "value");

		snprintf(buf, n, "node(s) had untolerated taint {%s: %s}", k_str(taint, "key"),
		    v ? v : "");
		return buf;
	}
	if (!node_selected(spec, node)) {
		return "node(s) didn't match Pod's node affinity/selector";
	}
	missing = resource_lacking(spec, s);
	if (missing) {
		snprintf(buf, n, str_same(missing, "pods") ? "Too many %s" : "Insufficient %s",
		    missing);
		return buf;
	}
	return NULL;
}

static void pod_unschedulable(struct k8s_obj *pod, const struct tally *all, size_t max, int nodes)
{
	char text[1024] = "no nodes available to schedule pods";
	size_t n = 0;
	json_t *doc = k8s_edit(pod);

	if (nodes > 0) {
		n = (size_t)snprintf(text, sizeof(text), "0/%d nodes are available: ", nodes);
	}
	for (size_t k = 0; k < max && all[k].n; k++) {
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%d %s", k ? ", " : "",
		    all[k].n, all[k].text);
	}
	if (nodes > 0) {
		snprintf(text + n, sizeof(text) - n,
		    ". preemption: 0/%d nodes are available: %d Preemption is not helpful for "
		    "scheduling.",
		    nodes, nodes);
	}
	if (k_condition(k_obj(doc, "status"), pod->c->sim, "PodScheduled", "False", "Unschedulable",
		text)) {
		k8s_commit(pod, doc);
		k8s_tell(pod, "Warning", "FailedScheduling", "default-scheduler", "%s", text);
	} else {
		json_decref(doc);
	}
}

static void pod_bind(struct k8s_obj *pod, const struct k8s_obj *node)
{
	json_t *doc = k8s_edit(pod);

	k_set(k_obj(doc, "spec"), "nodeName", node->name);
	k_condition(k_obj(doc, "status"), pod->c->sim, "PodScheduled", "True", NULL, NULL);
	k8s_commit(pod, doc);
	k8s_tell(pod, "Normal", "Scheduled", "default-scheduler",
	    "Successfully assigned %s/%s to %s", pod->ns, pod->name, node->name);
	kubelet_bound(pod);
}

static void pod_schedule(struct k8s_obj *pod, struct slot *slots, size_t n)
{
	const json_t *spec = k_at(pod->doc, "spec");
	struct tally all[8] = { { { 0 }, 0 } };
	char buf[96];

	for (size_t k = 0; k < n; k++) {
		const char *why = refusal_text(spec, &slots[k], buf, sizeof(buf));

		if (!why) {
			resources_take(&slots[k], spec);
			pod_bind(pod, slots[k].node);
			return;
		}
		tally_add(all, ARRAY_LEN(all), why);
	}
	pod->tried = pod->c->epoch;
	pod_unschedulable(pod, all, ARRAY_LEN(all), (int)n);
}

static bool pod_waits(const struct k8s_obj *o)
{
	return o->tried != o->c->epoch && !k_str(o->doc, "spec.nodeName") &&
	    !k_at(o->doc, "metadata.deletionTimestamp") &&
	    json_array_size(k_at(o->doc, "spec.schedulingGates")) == 0;
}

static struct slot *slots_make(struct k8s_cluster *c, size_t *ret_n)
{
	struct slot *slots;
	size_t n = 0;

	for (const struct k8s_obj *o = c->objs[K8S_NODE]; o; o = o->next) {
		n++;
	}
	slots = calloc(n + 1, sizeof(*slots));
	if (!slots) {
		abort();
	}
	*ret_n = n;
	n = 0;
	for (struct k8s_obj *o = c->objs[K8S_NODE]; o; o = o->next) {
		slot_fill(&slots[n++], o);
	}
	for (const struct k8s_obj *o = c->objs[K8S_POD]; o; o = o->next) {
		const char *node = k_str(o->doc, "spec.nodeName");

		for (size_t k = 0; node && k < n && !pod_over(o); k++) {
			if (str_same(slots[k].node->name, node)) {
				resources_take(&slots[k], k_at(o->doc, "spec"));
			}
		}
	}
	return slots;
}

void sched_decide(struct k8s_cluster *c)
{
	struct slot *slots = NULL;
	size_t n = 0;

	for (struct k8s_obj *o = c->objs[K8S_POD]; o; o = o->next) {
		if (!pod_waits(o)) {
			continue;
		}
		if (!slots) {
			slots = slots_make(c, &n);
		}
		pod_schedule(o, slots, n);
	}
	for (size_t k = 0; k < n; k++) {
		json_decref(slots[k].free);
	}
	free(slots);
}
