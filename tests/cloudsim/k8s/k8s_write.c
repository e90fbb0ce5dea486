/*
 * Creating and changing objects: validation and optimistic concurrency (Kubernetes API concepts,
 * "Resource operations", "Updates to existing resources").
 */
#include "base/base.h"
#include "cloudsim/k8s/k8s.h"
#include "base/text/text.h"

/* ---- create ---------------------------------------------------------------------------------- */

static void managed_by(struct k8s_call *q, json_t *doc, const char *operation)
{
	const char *manager = k8s_query(q, "fieldManager"),
		   *agent = req_header(q->rq, "user-agent");
	json_t *meta = k_obj(doc, "metadata"), *all = k_arr(meta, "managedFields");
	json_t *entry;
	size_t k;

	if (!manager || !*manager) {
		manager = agent ? arena_strndup(q->arena, agent, strcspn(agent, "/ ")) : "unknown";
	}
	for (k = 0; k < json_array_size(all); k++) {
		if (str_same(k_str(json_array_get(all, k), "manager"), manager)) {
			json_array_remove(all, k--);
		}
	}
	entry = json_pack("{s:s, s:s, s:s, s:o, s:s, s:{s:{}, s:{}}}", "manager", manager,
	    "operation", operation, "apiVersion", k8s_version_text(q, q->kind), "time",
	    k_now(q->c->sim), "fieldsType", "FieldsV1", "fieldsV1", "f:metadata", "f:spec");
	json_array_append_new(all, entry);
}

static bool name_choose(struct k8s_call *q, json_t *doc)
{
	json_t *meta = k_obj(doc, "metadata");
	const char *ns = k_str(meta, "namespace"), *prefix = k_str(meta, "generateName");
	char hex[9];

	if (q->kind->namespaced && ns && !str_same(ns, q->ns)) {
		k8s_fail(q, 400, "BadRequest",
		    "the namespace of the provided object does not match the namespace sent on the "
		    "request");
		return false;
	}
	k_set(meta, "namespace", q->kind->namespaced ? q->ns : NULL);
	if (k_str(meta, "resourceVersion") && *k_str(meta, "resourceVersion")) {
		k8s_fail(q, 500, "", "resourceVersion should not be set on objects to be created");
		return false;
	}
	if (!k_str(meta, "name") && prefix) {
		rng_hex(&q->c->sim->rng, hex, 4);
		json_object_set_new(meta, "name", json_sprintf("%s%.5s", prefix, hex));
	}
	q->name = arena_strdup(q->arena, k_str(meta, "name"));
	return true;
}

static bool create_check(struct k8s_call *q, json_t *doc)
{
	json_t *causes = json_array();

	meta_check(q->kind, doc, causes);
	if (q->kind->id == K8S_POD) {
		pod_defaults(q->c, doc);
		pod_check(doc, causes);
	} else if (q->kind->id == K8S_NODE_POOL) {
		pool_defaults(doc);
		pool_check(q->c, NULL, doc, causes);
	}
	if (json_array_size(causes) > 0) {
		k8s_fail_with(q, 422, "Invalid", causes, NULL);
		return false;
	}
	json_decref(causes);
	if (q->kind->namespaced && !k8s_find(q->c, K8S_NAMESPACE, NULL, q->ns)) {
		q->name = q->ns;
		q->kind = &k8s_kinds[K8S_NAMESPACE];
		k8s_fail(q, 404, "NotFound", "namespaces \"%s\" not found", q->ns);
		return false;
	}
	if (q->kind->id == K8S_POD && !pod_admit(q, doc)) {
		return false;
	}
	return q->kind->id != K8S_NODE_POOL || pool_admit(q, doc);
}

static void create_extras(struct k8s_call *q, json_t *doc)
{
	if (q->kind->id == K8S_NAMESPACE) {
		json_t *spec = k_obj(doc, "spec");

		json_object_set_new(spec, "finalizers", json_pack("[s]", "kubernetes"));
		json_object_set_new(doc, "status", json_pack("{s:s}", "phase", "Active"));
	} else if (q->kind->id == K8S_QUOTA) {
		k_obj(doc, "status");
	}
	managed_by(q, doc, "Update");
}

void k8s_create(struct k8s_call *q)
{
	const struct k8s_obj *had;
	json_t *doc;

	if (q->kind->id == K8S_TOKEN_REVIEW) {
		token_review(q);
		return;
	}
	if (q->kind->id == K8S_ACCESS_REVIEW) {
		access_review(q);
		return;
	}
	if (q->kind->id == K8S_SELF_REVIEW) {
		self_review(q);
		return;
	}
	if (!k8s_body(q, q->kind->schema, q->kind->kind, false) || !name_choose(q, q->body) ||
	    !create_check(q, q->body)) {
		return;
	}
	had = k8s_find(q->c, q->kind->id, q->ns, q->name);
	if (had) {
		k8s_fail(q, 409, "AlreadyExists", "%s%s \"%s\" already exists",
		    k_at(had->doc, "metadata.deletionTimestamp") ? "object is being deleted: " : "",
		    k8s_resource_text(q), q->name);
		return;
	}
	doc = json_incref(q->body);
	create_extras(q, doc);
	if (q->dry_run) {
		k8s_complete(q->c, q->kind, doc);
		if (q->c->sim->pretend) {
			k_set(k_obj(doc, "metadata"), "resourceVersion",
			    arena_printf(q->arena, "%" PRIu64, q->c->rv));
		}
		k8s_reply(q, 201, doc);
		return;
	}
	k8s_reply(q, 201, json_incref(k8s_insert(q->c, q->kind, doc)->doc));
}

/* ---- change ---------------------------------------------------------------------------------- */

static bool conflict_fail(struct k8s_call *q)
{
	k8s_fail(q, 409, "Conflict",
	    "Operation cannot be fulfilled on %s \"%s\": the object has been modified; please "
	    "apply "
	    "your changes to the latest version and try again",
	    k8s_resource_text(q), q->name);
	return false;
}

/* Restores the fields that a client cannot change; a stale version is a conflict. */
static bool object_restore(struct k8s_call *q, const struct k8s_obj *o, json_t *doc)
{
	static const char *const kept[] = { "uid", "creationTimestamp", "generation",
		"deletionTimestamp", "deletionGracePeriodSeconds", "namespace" };
	json_t *meta = k_obj(doc, "metadata");
	const char *rv = k_str(meta, "resourceVersion"), *uid = k_str(meta, "uid");
	const json_t *was = json_object_get(o->doc, "metadata");
	const char *part = str_same(q->sub, "status") ? "spec" : "status";

	if (!str_same(k_str(meta, "name"), o->name)) {
		k8s_fail(q, 400, "BadRequest",
		    "the name of the object (%s) does not match the name on the URL (%s)",
		    k_str(meta, "name") ? k_str(meta, "name") : "", o->name);
		return false;
	}
	if (rv && *rv && !str_same(rv, k_str(was, "resourceVersion"))) {
		return conflict_fail(q);
	}
	if (uid && *uid && !str_same(uid, o->uid)) {
		json_t *causes = json_array();

		cause_add(causes, "FieldValueInvalid", "metadata.uid",
		    "Invalid value: \"%s\": field is immutable", uid);
		k8s_fail_with(q, 422, "Invalid", causes, NULL);
		return false;
	}
	k_set(meta, "resourceVersion", k_str(was, "resourceVersion"));
	for (size_t k = 0; k < ARRAY_LEN(kept); k++) {
		json_t *v = json_object_get(was, kept[k]);

		if (v) {
			json_object_set(meta, kept[k], v);
		} else {
			json_object_del(meta, kept[k]);
		}
	}
	if (json_object_get(o->doc, part)) {
		json_object_set(doc, part, json_object_get(o->doc, part));
	} else {
		json_object_del(doc, part);
	}
	return true;
}

static bool change_check(struct k8s_call *q, const struct k8s_obj *o, json_t *doc)
{
	json_t *causes = json_array();

	meta_check(q->kind, doc, causes);
	if (q->kind->custom && str_same(q->verb, "update") &&
	    !k_at(q->body, "metadata.resourceVersion")) {
		cause_add(causes, "FieldValueInvalid", "metadata.resourceVersion",
		    "Invalid value: 0: must be specified for an update");
	}
	if (q->kind->id == K8S_POD) {
		pod_tolerates(doc);
		pod_check_change(o->doc, doc, causes);
	} else if (q->kind->id == K8S_NODE_POOL) {
		pool_defaults(doc);
		pool_check(q->c, o->doc, doc, causes);
	}
	if (json_array_size(causes) > 0) {
		k8s_fail_with(q, 422, "Invalid", causes, NULL);
		return false;
	}
	json_decref(causes);
	return q->kind->id != K8S_NODE_POOL || pool_admit(q, doc);
}

void k8s_update(struct k8s_call *q)
{
	struct k8s_obj *o = k8s_find(q->c, q->kind->id, q->ns, q->name);
	bool patch = str_same(q->rq->http->method, "PATCH");
	json_t *doc AUTO(json) = NULL;

	if (!patch && !k8s_body(q, q->kind->schema, q->kind->kind, false)) {
		return;
	}
	if (!o) {
		k8s_fail(q, 404, "NotFound", "%s \"%s\" not found", k8s_resource_text(q), q->name);
		return;
	}
	doc = patch ? k8s_patched(q, o->doc) : json_deep_copy(q->body);
	if (!doc || !k8s_shape_check(q, q->kind->schema, q->kind->kind, doc) ||
	    !object_restore(q, o, doc) || !change_check(q, o, doc)) {
		return;
	}
	k_set(doc, "kind", q->kind->kind);
	k_set(doc, "apiVersion", k8s_version_text(q, q->kind));
	if (q->dry_run) {
		k8s_reply(q, 200, STEAL(doc));
		return;
	}
	if (!json_equal(doc, o->doc)) {
		managed_by(q, doc, "Update");
	}
	k8s_commit(o, STEAL(doc));
	k8s_reply(q, 200, json_incref(o->doc));
	if (k_at(o->doc, "metadata.deletionTimestamp") && o->kind->id != K8S_POD &&
	    json_array_size(k_at(o->doc, "metadata.finalizers")) == 0) {
		k8s_remove(o);
	}
}
