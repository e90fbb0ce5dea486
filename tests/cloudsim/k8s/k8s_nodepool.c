/*
 * NodePools: validation and the controller, after
 * docs.coreweave.com/products/cks/reference/node-pool. targetNodes is the only lever; the request
 * does not expire. IdleOnly removes only nodes without a busy Pod, PreferIdle those first.
 * Conditions were renamed in January 2026 and their list is not public. Current clients read Ready;
 * the others are the names of older public text.
 */
#include "base/base.h"
#include "cloudsim/coreweave/coreweave.h"
#include "base/text/text.h"

#define RACK_NODES 18

/* ---- validation ------------------------------------------------------------------------------ */

void pool_defaults(json_t *doc)
{
	json_t *spec = k_obj(doc, "spec"), *meta = k_obj(doc, "metadata");
	json_t *finalizers;

	k_default(spec, "computeClass", json_string("default"));
	k_default(spec, "autoscaling", json_false());
	k_default(k_obj(spec, "lifecycle"), "scaleDownStrategy", json_string("IdleOnly"));
	if (k_at(meta, "deletionTimestamp")) {
		return;
	}
	finalizers = k_arr(meta, "finalizers");
	for (size_t k = 0; k < json_array_size(finalizers); k++) {
		if (str_same(json_string_value(json_array_get(finalizers, k)), POOL_FINALIZER)) {
			return;
		}
	}
	json_array_append_new(finalizers, json_string(POOL_FINALIZER));
}

static void enum_is(const json_t *spec, const char *path, const char *a, const char *b,
    json_t *causes)
{
	const char *v = k_str(spec, path);
	char field[80];

	if (!v || str_same(v, a) || str_same(v, b)) {
		return;
	}
	snprintf(field, sizeof(field), "spec.%s", path);
	cause_add(causes, "FieldValueNotSupported", field,
	    "Unsupported value: \"%s\": supported values: \"%s\", \"%s\"", v, a, b);
}

static void vendor_keys(const json_t *keys, const char *field, json_t *causes)
{
	const char *key;
	json_t *v;

	json_object_foreach ((json_t *)(uintptr_t)keys, key, v) {
		size_t n = strcspn(key, "/");
		char host[256];

		if (!k_label_name(key) ||
		    (json_is_string(v) && !k_label_value(json_string_value(v)) &&
			str_suffix(field, "nodeLabels"))) {
			cause_add(causes, "FieldValueInvalid", field,
			    "Invalid value: \"%s\": not a valid label", key);
		}
		if (!key[n] || n >= sizeof(host)) {
			continue;
		}
		memcpy(host, key, n);
		host[n] = '\0';
		if (str_suffix(host, "coreweave.com") || str_suffix(host, "coreweave.cloud")) {
			cause_add(causes, "FieldValueInvalid", field,
			    "Invalid value: \"%s\": keys of CoreWeave's domains are reserved", key);
		}
	}
}

static void numbers_check(const json_t *spec, json_t *causes)
{
	int64_t target = k_int(spec, "targetNodes", -1), least = k_int(spec, "minNodes", -1),
		most = k_int(spec, "maxNodes", -1);
	bool nodes = k_at(spec, "targetNodes"), racks = k_at(spec, "targetRacks");

	if (nodes == racks) {
		cause_add(causes, "FieldValueInvalid", "spec",
		    "Invalid value: \"object\": exactly one of targetNodes and targetRacks must be "
		    "provided");
	}
	if ((nodes && target < 0) || (racks && k_int(spec, "targetRacks", -1) < 0)) {
		cause_add(causes, "FieldValueInvalid",
		    nodes ? "spec.targetNodes" : "spec.targetRacks",
		    "Invalid value: %" PRId64 ": should be greater than or equal to 0",
		    nodes ? target : k_int(spec, "targetRacks", -1));
	}
	if ((least >= 0 && nodes && target < least) || (most >= 0 && nodes && target > most) ||
	    (least >= 0 && most >= 0 && least > most)) {
		cause_add(causes, "FieldValueInvalid", "spec.targetNodes",
		    "Invalid value: %" PRId64 ": must be between minNodes and maxNodes", target);
	}
}

static void type_check(struct k8s_cluster *c, const json_t *spec, json_t *causes)
{
	const char *name = k_str(spec, "instanceType");
	const struct itype *t = name ? market_type(c->sim->market, CLOUD_COREWEAVE, name) : NULL;
	const struct cw_type *more = t ? cw_type_of(c->sim, t) : NULL;

	if (!name) {
		return; /* the schema has said so */
	}
	if (!t) {
		cause_add(causes, "FieldValueInvalid", "spec.instanceType",
		    "Invalid value: \"%s\": unknown instance type", name);
		return;
	}
	if (!more) {
		return;
	}
	if (k_at(spec, "targetRacks") && !more->rack) {
		cause_add(causes, "FieldValueInvalid", "spec.targetRacks",
		    "Invalid value: targetRacks is only available for NVL72-powered instance "
		    "types");
	}
	if (more->rack && k_true(spec, "autoscaling")) {
		cause_add(causes, "FieldValueInvalid", "spec.autoscaling",
		    "Invalid value: true: not available for rack instance types");
	}
	if (more->superchip && str_same(k_str(spec, "computeClass"), "spot")) {
		cause_add(causes, "FieldValueInvalid", "spec.computeClass",
		    "Invalid value: \"spot\": not available for %s", name);
	}
}

void pool_check(struct k8s_cluster *c, const json_t *was, const json_t *doc, json_t *causes)
{
	const json_t *spec = k_at(doc, "spec");
	char field[80];
	size_t k;
	json_t *t;

	enum_is(spec, "computeClass", "default", "spot", causes);
	enum_is(spec, "lifecycle.scaleDownStrategy", "IdleOnly", "PreferIdle", causes);
	numbers_check(spec, causes);
	type_check(c, spec, causes);
	vendor_keys(k_at(spec, "nodeLabels"), "spec.nodeLabels", causes);
	vendor_keys(k_at(spec, "nodeAnnotations"), "spec.nodeAnnotations", causes);
	json_array_foreach (k_at(spec, "nodeTaints"), k, t) {
		const char *effect = k_str(t, "effect");

		if (str_same(effect, "NoSchedule") || str_same(effect, "NoExecute") ||
		    str_same(effect, "PreferNoSchedule")) {
			continue;
		}
		snprintf(field, sizeof(field), "spec.nodeTaints[%zu].effect", k);
		cause_add(causes, "FieldValueNotSupported", field,
		    "Unsupported value: \"%s\": supported values: \"NoSchedule\", "
		    "\"PreferNoSchedule\", \"NoExecute\"",
		    effect ? effect : "");
	}
	if (was && !json_equal(k_at(was, "spec.instanceType"), k_at(doc, "spec.instanceType"))) {
		cause_add(causes, "FieldValueInvalid", "spec.instanceType",
		    "Invalid value: \"string\": instanceType is immutable");
	}
	if (was && !json_equal(k_at(was, "spec.computeClass"), k_at(doc, "spec.computeClass"))) {
		cause_add(causes, "FieldValueInvalid", "spec.computeClass",
		    "Invalid value: \"string\": computeClass is immutable");
	}
}

static int64_t target_of(const json_t *doc)
{
	if (k_at(doc, "metadata.deletionTimestamp")) {
		return 0;
	}
	return k_int(doc, "spec.targetNodes", k_int(doc, "spec.targetRacks", 0) * RACK_NODES);
}

int64_t pool_quota(const struct k8s_cluster *c, const char *type)
{
	const char *pattern;
	json_t *v;

	json_object_foreach (c->node_quota, pattern, v) {
		if (type && glob_match(pattern, type)) {
			return json_integer_value(v);
		}
	}
	return -1;
}

/* All pools of one type count against its quota (seen by peers), this one with the wanted
 * target. */
static bool over_quota(struct k8s_cluster *c, const json_t *doc)
{
	const char *type = k_str(doc, "spec.instanceType");
	int64_t quota = pool_quota(c, type), sum = target_of(doc);

	for (const struct k8s_obj *o = c->objs[K8S_NODE_POOL]; o; o = o->next) {
		if (!str_same(o->name, k_str(doc, "metadata.name")) &&
		    str_same(k_str(o->doc, "spec.instanceType"), type)) {
			sum += target_of(o->doc);
		}
	}
	return quota >= 0 && sum > quota;
}

bool pool_admit(struct k8s_call *q, const json_t *doc)
{
	if (!q->c->quota_by_admission || target_of(doc) == 0 || !over_quota(q->c, doc)) {
		return true;
	}
	k8s_fail(q, 403, "Forbidden",
	    "admission webhook \"nodepools.compute.coreweave.com\" denied the request: quota "
	    "exceeded "
	    "for instance type %s: limit %" PRId64,
	    k_str(doc, "spec.instanceType"), pool_quota(q->c, k_str(doc, "spec.instanceType")));
	return false;
}

/* ---- the controller -------------------------------------------------------------------------- */

struct counted {
	int64_t alive, booting, ready;
};

static bool of_pool(const struct k8s_obj *pool, const struct inst *i)
{
	return i->cloud == CLOUD_COREWEAVE && i->state != INST_SHUTTING && i->state != INST_GONE &&
	    str_same(i->name, pool->name) && str_same(i->pool->zone->name, pool->c->zone) &&
	    str_same(i->token, pool->uid);
}

static struct counted nodes_count(const struct k8s_obj *pool)
{
	struct counted n = { 0 };

	for (const struct inst *i = pool->c->sim->insts; i; i = i->next) {
		if (!of_pool(pool, i)) {
			continue;
		}
		n.alive++;
		n.booting += i->state == INST_PENDING;
		n.ready += i->state == INST_RUNNING;
	}
	return n;
}

struct pool *pool_market(const struct k8s_cluster *c, const json_t *pool, enum side *ret_side)
{
	const struct market *m = c->sim->market;
	struct zone *z = market_zone(m, c->region, c->zone);
	struct pool *p = z
	    ? market_pool(m, CLOUD_COREWEAVE, c->region, z, k_str(pool, "spec.instanceType"))
	    : NULL;

	*ret_side = str_same(k_str(pool, "spec.computeClass"), "spot") ? SIDE_SPOT : SIDE_ON_DEMAND;
	return p && p->price[*ret_side].sold ? p : NULL;
}

static void deliver_one(struct k8s_obj *pool, struct pool *p, enum side side)
{
	struct sim *s = pool->c->sim;
	char *id = sim_id(s, NULL, "cw-", 8), *node = sim_id(s, NULL, "g", 3);
	struct inst *i = inst_new(s, p, side, id);
	const char *key;
	json_t *v;

	i->name = dup_text(pool->name);
	i->hostname = node;
	i->token = dup_text(pool->uid);
	/* Nodes of one pool are of one order: not double launches of one token. */
	i->reservation = dup_text(pool->uid);
	json_object_foreach (k_at(pool->doc, "metadata.labels"), key, v) {
		inst_tag_set(&i->tags, &i->tags_n, key, json_string_value(v));
	}
	books_launch(s, CLOUD_COREWEAVE, pool->name, pool->c->name, NULL, p, side, NULL, &i, 1,
	    false);
	inst_start(i);
	k8s_tell(pool, "Normal", "CWNodeAssigned", "nodepool-controller",
	    "Node %s assigned to node pool %s", node, pool->name);
	free(id);
}

/* Orders nodes from the market, and returns how many are still missing. */
static int64_t scale_up(struct k8s_obj *pool, int64_t want)
{
	enum side side;
	struct pool *p = pool_market(pool->c, pool->doc, &side);
	int64_t n = p && pool->c->deliver ? MIN(want, MAX(pool_free(p, side), 0)) : 0;

	for (int64_t k = 0; k < n; k++) {
		deliver_one(pool, p, side);
	}
	if (n > 0) {
		k8s_tell(pool, "Normal", "CWNodePoolScaledUp", "nodepool-controller",
		    "Scaling up node pool %s by %" PRId64 " nodes", pool->name, n);
	}
	return want - n;
}

/* The next node to go: one that never came, then an idle one, then (PreferIdle) any. */
static struct inst *victim_find(const struct k8s_obj *pool)
{
	bool any = str_same(k_str(pool->doc, "spec.lifecycle.scaleDownStrategy"), "PreferIdle");
	struct inst *idle = NULL, *busy = NULL;

	for (struct inst *i = pool->c->sim->insts; i; i = i->next) {
		if (!of_pool(pool, i)) {
			continue;
		}
		if (i->state == INST_PENDING) {
			return i;
		}
		if (!node_of(i) || !node_busy(node_of(i))) {
			idle = i;
		} else {
			busy = i;
		}
	}
	return idle ? idle : any ? busy : NULL;
}

static void scale_down(struct k8s_obj *pool, int64_t over)
{
	struct inst *i;
	int64_t n = 0;

	for (; over > 0 && (i = victim_find(pool)) != NULL; over--, n++) {
		inst_end(i, "scale_down", "scaled_down", "targetNodes was lowered");
	}
	if (n > 0) {
		k8s_tell(pool, "Normal", "CWNodePoolScaledDown", "nodepool-controller",
		    "Scaling down node pool %s by %" PRId64 " nodes", pool->name, n);
	}
}

static void capacity_told(struct k8s_obj *pool, json_t *status, int64_t queued, bool quota)
{
	const char *type = k_str(pool->doc, "spec.instanceType");
	struct sim *s = pool->c->sim;
	char text[300];

	snprintf(text, sizeof(text),
	    "%" PRId64 " nodes of instance type %s are queued: insufficient capacity in zone %s",
	    queued, type, pool->c->zone);
	if (queued > 0 && !quota) {
		if (k_condition(status, s, "Capacity", "False", "InsufficientCapacity", text)) {
			k8s_tell(pool, "Warning", "CWInsufficientCapacity", "nodepool-controller",
			    "%s", text);
		}
	} else {
		k_condition(status, s, "Capacity", "True", "Sufficient",
		    "Capacity is sufficient for the target");
	}
	if (quota) {
		snprintf(text, sizeof(text),
		    "target exceeds the quota of %" PRId64 " nodes of instance type %s",
		    pool_quota(pool->c, type), type);
		if (k_condition(status, s, "Quota", "False", "OverQuota", text)) {
			k8s_tell(pool, "Warning", "CWOverQuota", "nodepool-controller", "%s", text);
		}
	} else {
		k_condition(status, s, "Quota", "True", "UnderQuota", "Target is within the quota");
	}
}

static void status_write(struct k8s_obj *pool, int64_t queued, bool quota)
{
	struct counted n = nodes_count(pool);
	int64_t target = target_of(pool->doc);
	json_t *doc = k8s_edit(pool), *status = k_obj(doc, "status");
	struct sim *s = pool->c->sim;

	json_object_set_new(status, "currentNodes", json_integer(n.ready));
	json_object_set_new(status, "queuedNodes", json_integer(queued));
	json_object_set_new(status, "inProgress", json_integer(n.booting));
	k_set(status, "nodeProfile", "default");
	k_condition(status, s, "Validated", "True", "Valid", "Node pool configuration is valid");
	capacity_told(pool, status, queued, quota);
	k_condition(status, s, "AtTarget", n.ready == target ? "True" : "False",
	    n.ready == target      ? "TargetMet"
		: n.ready < target ? "UnderTarget"
				   : "OverTarget",
	    "");
	k_condition(status, s, "Ready", n.ready == target ? "True" : "False",
	    n.ready == target ? "Ready" : "Scaling", "");
	k8s_commit(pool, doc);
}

static void pool_finalize(struct k8s_obj *pool)
{
	if (pool->c->finalizer_stuck || nodes_count(pool).alive > 0) {
		return;
	}
	k8s_remove(pool);
}

static void pool_reconcile(struct k8s_obj *pool)
{
	int64_t target = target_of(pool->doc), alive = nodes_count(pool).alive, queued = 0;
	bool quota = over_quota(pool->c, pool->doc);

	if (alive < target) {
		queued = quota ? target - alive : scale_up(pool, target - alive);
	} else if (alive > target) {
		scale_down(pool, alive - target);
	}
	pool->c->queued = pool->c->queued || queued > 0 || quota;
	status_write(pool, queued, quota);
	if (k_at(pool->doc, "metadata.deletionTimestamp")) {
		pool_finalize(pool);
	}
}

/* The operator's own pool of one small node, on which the system's pods run, is always there. */
static bool is_system(const struct k8s_obj *pool)
{
	return json_object_get(k_at(pool->doc, "metadata.labels"),
		   "cks.coreweave.cloud/system-critical") != NULL;
}

void pool_decide(struct k8s_cluster *c)
{
	if (c->sim->quitting) {
		return;
	}
	c->queued = false;
	for (struct k8s_obj *o = c->objs[K8S_NODE_POOL]; o; o = o->next) {
		if (!is_system(o)) {
			pool_reconcile(o);
		}
	}
}
