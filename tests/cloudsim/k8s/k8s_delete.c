/* Deleting objects and evicting Pods: preconditions, finalizers and grace periods. After the
 * Kubernetes API concepts ("Resource deletion") and the page about API-initiated eviction. */
#include "base/base.h"
#include "cloudsim/k8s/k8s.h"
#include "base/text/text.h"

/* A Pod that never ran, or has ended, needs no grace. */
static int64_t grace_of(const struct k8s_obj *o, int64_t grace_s)
{
	if (!k_str(o->doc, "spec.nodeName") || pod_over(o)) {
		return 0;
	}
	return grace_s < 0 ? k_int(o->doc, "spec.terminationGracePeriodSeconds", 30) : grace_s;
}

static bool delete_pod(struct k8s_obj *o, int64_t grace_s)
{
	char at[TIME_TEXT_MAX];
	json_t *doc;

	grace_s = grace_of(o, grace_s);
	if (grace_s == 0) {
		k8s_remove(o);
		return true;
	}
	if (k_at(o->doc, "metadata.deletionTimestamp") &&
	    k_int(o->doc, "metadata.deletionGracePeriodSeconds", 0) <= grace_s) {
		return false;
	}
	doc = k8s_edit(o);
	k_set(k_obj(doc, "metadata"), "deletionTimestamp",
	    format_time_s(sim_wall(o->c->sim) + grace_s * SPOT_US_PER_S, at));
	json_object_set_new(k_obj(doc, "metadata"), "deletionGracePeriodSeconds",
	    json_integer(grace_s));
	k8s_commit(o, doc);
	kubelet_delete(o, grace_s);
	return false;
}

bool k8s_delete_object(struct k8s_obj *o, int64_t grace_s)
{
	json_t *doc;

	if (o->kind->id == K8S_POD) {
		return delete_pod(o, grace_s);
	}
	if (json_array_size(k_at(o->doc, "metadata.finalizers")) > 0) {
		if (k_at(o->doc, "metadata.deletionTimestamp")) {
			return false;
		}
		doc = k8s_edit(o);
		json_object_set_new(k_obj(doc, "metadata"), "deletionTimestamp", k_now(o->c->sim));
		json_object_set_new(k_obj(doc, "metadata"), "deletionGracePeriodSeconds",
		    json_integer(0));
		k8s_commit(o, doc);
		return false;
	}
	if (o->kind->id == K8S_NODE) {
		node_drop(o);
	} else {
		k8s_remove(o);
	}
	return true;
}

static bool precondition_check(struct k8s_call *q, const struct k8s_obj *o)
{
	/* Here the API names the kind, not the resource. */
	const char *what = *q->kind->group
	    ? arena_printf(q->arena, "%s.%s", q->kind->kind, q->kind->group)
	    : q->kind->kind;
	const char *uid = k_str(q->body, "preconditions.uid"),
		   *rv = k_str(q->body, "preconditions.resourceVersion");

	if (uid && !str_same(uid, o->uid)) {
		k8s_fail(q, 409, "Conflict",
		    "Operation cannot be fulfilled on %s \"%s\": the UID in the precondition (%s) "
		    "does not match the UID in record (%s). The object might have been deleted and "
		    "then recreated",
		    what, q->name, uid, o->uid);
		return false;
	}
	if (rv && !str_same(rv, k_str(o->doc, "metadata.resourceVersion"))) {
		k8s_fail(q, 409, "Conflict",
		    "Operation cannot be fulfilled on %s \"%s\": the ResourceVersion in the "
		    "precondition (%s) does not match the ResourceVersion in record (%s). The "
		    "object "
		    "might have been modified",
		    what, q->name, rv, k_str(o->doc, "metadata.resourceVersion"));
		return false;
	}
	return true;
}

static bool grace_read(struct k8s_call *q, int64_t *ret)
{
	const char *text = k8s_query(q, "gracePeriodSeconds");

	*ret = k_int(q->body, "gracePeriodSeconds", -1);
	if (text && !parse_i64(text, 0, INT32_MAX, ret)) {
		k8s_fail(q, 400, "BadRequest", "gracePeriodSeconds: \"%s\" is not a number", text);
		return false;
	}
	return true;
}

/* kubectl says it in the body. */
static void dry_run_read(struct k8s_call *q)
{
	q->dry_run = q->dry_run ||
	    str_same(json_string_value(json_array_get(json_object_get(q->body, "dryRun"), 0)),
		"All");
}

/* A Pod as it is answered by its deletion: with the time of its end. */
static json_t *leaving_json(const struct k8s_obj *o, int64_t grace_s)
{
	json_t *doc = json_deep_copy(o->doc), *meta = k_obj(doc, "metadata");
	char at[TIME_TEXT_MAX];

	if (!k_str(o->doc, "spec.nodeName") || grace_s < 0) {
		grace_s = k_str(o->doc, "spec.nodeName")
		    ? k_int(o->doc, "spec.terminationGracePeriodSeconds", 30)
		    : 0;
	}
	k_set(meta, "deletionTimestamp",
	    format_time_s(sim_wall(o->c->sim) + grace_s * SPOT_US_PER_S, at));
	json_object_set_new(meta, "deletionGracePeriodSeconds", json_integer(grace_s));
	return doc;
}

static json_t *success_json(const struct k8s_obj *o)
{
	return json_pack("{s:s, s:s, s:{}, s:s, s:{s:s, s:s*, s:s, s:s}}", "kind", "Status",
	    "apiVersion", "v1", "metadata", "status", "Success", "details", "name", o->name,
	    "group", *o->kind->group ? o->kind->group : NULL, "kind", o->kind->plural, "uid",
	    o->uid);
}

void k8s_delete(struct k8s_call *q)
{
	struct k8s_obj *o = k8s_find(q->c, q->kind->id, q->ns, q->name);
	int64_t grace;
	json_t *reply;

	if (!k8s_body(q, "V1DeleteOptions", "DeleteOptions", true) || !grace_read(q, &grace)) {
		return;
	}
	if (!o) {
		k8s_fail(q, 404, "NotFound", "%s \"%s\" not found", k8s_resource_text(q), q->name);
		return;
	}
	if (!precondition_check(q, o)) {
		return;
	}
	dry_run_read(q);
	/* Without a grace it is gone before the answer is written: that one is no word that could
	 * be broken later. */
	if (q->c->sim->pretend && o->kind->id == K8S_POD && grace_of(o, grace) == 0) {
		q->dry_run = false;
	}
	/* Pods answer with the object; others with a Status once they are gone. */
	reply = o->kind->id == K8S_POD ? leaving_json(o, grace) : success_json(o);
	if (!q->dry_run && !k8s_delete_object(o, grace)) {
		json_decref(reply);
		reply = json_incref(o->doc);
	}
	k8s_reply(q, 200, reply);
}

/* POST pods/NAME/eviction (policy/v1): there are no disruption budgets here, so it is always
 * allowed. */
void k8s_evict(struct k8s_call *q)
{
	struct k8s_obj *o = k8s_find(q->c, q->kind->id, q->ns, q->name);
	const char *named;
	json_t *options;

	if (!k8s_body(q, "V1Eviction", "Eviction", false)) {
		return;
	}
	named = k_str(q->body, "metadata.name");
	if (named && !str_same(named, q->name)) {
		k8s_fail(q, 400, "BadRequest",
		    "name in URL does not match name in Eviction object");
		return;
	}
	if (!o) {
		k8s_fail(q, 404, "NotFound", "%s \"%s\" not found", k8s_resource_text(q), q->name);
		return;
	}
	options = json_incref(json_object_get(q->body, "deleteOptions"));
	json_decref(q->body);
	q->body = options ? options : json_object();
	if (!precondition_check(q, o)) {
		return;
	}
	dry_run_read(q);
	if (!q->dry_run) {
		pod_evict(o, k_int(q->body, "gracePeriodSeconds", INT32_MAX));
	}
	k8s_reply(q, 201,
	    json_pack("{s:s, s:s, s:{}, s:s, s:i}", "kind", "Status", "apiVersion", "v1",
		"metadata", "status", "Success", "code", 201));
}

void k8s_delete_all(struct k8s_call *q)
{
	struct k8s_selector sel;
	struct k8s_obj *next;
	int64_t grace;
	json_t *owner, *items;

	if (!k8s_body(q, "V1DeleteOptions", "DeleteOptions", true) || !grace_read(q, &grace) ||
	    !k8s_selector_read(q, &sel, &owner)) {
		return;
	}
	dry_run_read(q);
	items = json_array();
	for (struct k8s_obj *o = q->c->objs[q->kind->id]; o; o = next) {
		next = o->next;
		if (!k8s_selects(&sel, q->kind, o->doc)) {
			continue;
		}
		if (!q->dry_run) {
			k8s_delete_object(o, grace);
		}
		json_array_append_new(items, k8s_shown(q->kind, o->doc, true));
	}
	k8s_reply(q, 200,
	    json_pack("{s:o, s:s, s:{s:o}, s:o}", "kind", json_sprintf("%sList", q->kind->kind),
		"apiVersion", k8s_version_text(q, q->kind), "metadata", "resourceVersion",
		json_sprintf("%" PRIu64, q->c->rv), "items", items));
	json_decref(owner);
}
