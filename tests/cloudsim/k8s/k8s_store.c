/* The objects of one cluster, their versions, and the log of changes that watches resume from. */
#include "base/base.h"
#include "cloudsim/k8s/k8s.h"
#include "base/text/text.h"

#include <stdarg.h>

#define CHANGES_MAX 20000
#define EVENTS_KEPT 1000

const struct k8s_kind k8s_kinds[K8S_KINDS] = {
	[K8S_POD] = { K8S_POD, "pods", "pod", "Pod", "", "v1", "V1Pod", true, false,
	    "create delete deletecollection get list patch update watch" },
	[K8S_NODE] = { K8S_NODE, "nodes", "node", "Node", "", "v1", "V1Node", false, false,
	    "create delete deletecollection get list patch update watch" },
	[K8S_NAMESPACE] = { K8S_NAMESPACE, "namespaces", "namespace", "Namespace", "", "v1",
	    "V1Namespace", false, false, "create delete get list patch update watch" },
	[K8S_SERVICE_ACCOUNT] = { K8S_SERVICE_ACCOUNT, "serviceaccounts", "serviceaccount",
	    "ServiceAccount", "", "v1", "V1ServiceAccount", true, false,
	    "create delete deletecollection get list patch update watch" },
	[K8S_EVENT] = { K8S_EVENT, "events", "event", "Event", "", "v1", "CoreV1Event", true, false,
	    "create delete deletecollection get list patch update watch" },
	[K8S_QUOTA] = { K8S_QUOTA, "resourcequotas", "resourcequota", "ResourceQuota", "", "v1",
	    "V1ResourceQuota", true, false,
	    "create delete deletecollection get list patch update watch" },
	[K8S_NODE_POOL] = { K8S_NODE_POOL, "nodepools", "nodepool", "NodePool", POOL_API,
	    "v1alpha1", "NodePool", false, true,
	    "delete deletecollection get list patch create update watch" },
	[K8S_TOKEN_REVIEW] = { K8S_TOKEN_REVIEW, "tokenreviews", "tokenreview", "TokenReview",
	    "authentication.k8s.io", "v1", "V1TokenReview", false, false, "create" },
	[K8S_ACCESS_REVIEW] = { K8S_ACCESS_REVIEW, "selfsubjectaccessreviews",
	    "selfsubjectaccessreview", "SelfSubjectAccessReview", "authorization.k8s.io", "v1",
	    "V1SelfSubjectAccessReview", false, false, "create" },
	[K8S_SELF_REVIEW] = { K8S_SELF_REVIEW, "selfsubjectreviews", "selfsubjectreview",
	    "SelfSubjectReview", "authentication.k8s.io", "v1", "V1SelfSubjectReview", false, false,
	    "create" },
};

static int objects_order(const struct k8s_obj *o, const char *ns, const char *name)
{
	int c = strcmp(o->ns ? o->ns : "", ns ? ns : "");

	return c ? c : strcmp(o->name, name);
}

struct k8s_obj *k8s_find(const struct k8s_cluster *c, enum k8s_kind_id kind, const char *ns,
    const char *name)
{
	if (!name) {
		return NULL;
	}
	for (struct k8s_obj *o = c->objs[kind]; o; o = o->next) {
		if (objects_order(o, ns, name) == 0) {
			return o;
		}
	}
	return NULL;
}

bool pod_over(const struct k8s_obj *pod)
{
	const char *phase = k_str(pod->doc, "status.phase");

	return str_same(phase, "Succeeded") || str_same(phase, "Failed");
}

/* ---- the log --------------------------------------------------------------------------------- */

static void changes_drop(struct k8s_cluster *c, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		json_decref(c->changes[k].doc);
		json_decref(c->changes[k].prev);
		c->compacted = c->changes[k].rv;
	}
	memmove(c->changes, c->changes + n, (c->changes_n - n) * sizeof(*c->changes));
	c->changes_n -= n;
}

void k8s_compact(struct k8s_cluster *c)
{
	if (c->changes_n > 0) {
		changes_drop(c, c->changes_n);
	}
	c->compacted = c->rv;
}

void k8s_changes_free(struct k8s_cluster *c)
{
	k8s_compact(c);
	free(c->changes);
	c->changes = NULL;
}

static void change_add(struct k8s_cluster *c, const struct k8s_obj *o, const char *type,
    json_t *prev)
{
	struct k8s_change *e;

	if (c->changes_n == CHANGES_MAX) {
		changes_drop(c, CHANGES_MAX / 2);
	}
	if (c->changes_n == c->changes_cap) {
		c->changes_cap = MAX((size_t)256, c->changes_cap * 2);
		c->changes = realloc(c->changes, c->changes_cap * sizeof(*c->changes));
		if (!c->changes) {
			abort();
		}
	}
	e = &c->changes[c->changes_n++];
	*e = (struct k8s_change){ c->rv, o->kind, type, json_incref(o->doc), json_incref(prev) };
	if (o->kind->id == K8S_NODE ||
	    (o->kind->id == K8S_POD && (str_same(type, "DELETED") || pod_over(o)))) {
		c->epoch++;
	}
	k8s_watch_feed(c, e);
	if (c->seen) {
		c->seen(o, type);
	}
	k8s_wake(c);
}

/* ---- changes --------------------------------------------------------------------------------- */

static void version_set(struct k8s_cluster *c, json_t *doc, uint64_t *ret)
{
	char text[24];

	*ret = ++c->rv;
	snprintf(text, sizeof(text), "%" PRIu64, c->rv);
	k_set(k_obj(doc, "metadata"), "resourceVersion", text);
}

void k8s_complete(struct k8s_cluster *c, const struct k8s_kind *kind, json_t *doc)
{
	json_t *meta = k_obj(doc, "metadata");
	char hex[33], uid[40];

	rng_hex(&c->sim->rng, hex, 16);
	snprintf(uid, sizeof(uid), "%.8s-%.4s-4%.3s-a%.3s-%.12s", hex, hex + 8, hex + 13, hex + 17,
	    hex + 20);
	k_set(meta, "uid", uid);
	json_object_set_new(meta, "creationTimestamp", k_now(c->sim));
	json_object_del(meta, "deletionTimestamp");
	json_object_del(meta, "deletionGracePeriodSeconds");
	json_object_del(meta, "selfLink");
	if (kind->id == K8S_POD || kind->id == K8S_NODE_POOL) {
		json_object_set_new(meta, "generation", json_integer(1));
	}
	k_set(doc, "kind", kind->kind);
	if (*kind->group) {
		json_object_set_new(doc, "apiVersion",
		    json_sprintf("%s/%s", kind->group, kind->version));
	} else {
		k_set(doc, "apiVersion", kind->version);
	}
}

struct k8s_obj *k8s_insert(struct k8s_cluster *c, const struct k8s_kind *kind, json_t *doc)
{
	struct k8s_obj *o = calloc(1, sizeof(*o)), **at = &c->objs[kind->id];

	if (!o) {
		abort();
	}
	k8s_complete(c, kind, doc);
	o->c = c;
	o->kind = kind;
	o->ns = dup_text(k_str(doc, "metadata.namespace"));
	o->name = dup_text(k_str(doc, "metadata.name"));
	o->uid = dup_text(k_str(doc, "metadata.uid"));
	o->doc = doc;
	version_set(c, doc, &o->rv);
	while (*at && objects_order(*at, o->ns, o->name) < 0) {
		at = &(*at)->next;
	}
	o->next = *at;
	*at = o;
	change_add(c, o, "ADDED", NULL);
	return o;
}

json_t *k8s_edit(const struct k8s_obj *o)
{
	return json_deep_copy(o->doc);
}

void k8s_commit(struct k8s_obj *o, json_t *doc)
{
	json_t *was = o->doc;
	const json_t *spec = json_object_get(was, "spec");

	if (json_equal(was, doc)) {
		json_decref(doc);
		return;
	}
	if (spec && !json_equal(spec, json_object_get(doc, "spec")) &&
	    k_at(was, "metadata.generation")) {
		json_object_set_new(k_obj(doc, "metadata"), "generation",
		    json_integer(k_int(was, "metadata.generation", 1) + 1));
	}
	version_set(o->c, doc, &o->rv);
	o->doc = doc;
	change_add(o->c, o, "MODIFIED", was);
	json_decref(was);
}

static void obj_free(void *p)
{
	struct k8s_obj *o = p;

	json_decref(o->doc);
	free(o->ns);
	free(o->name);
	free(o->uid);
	free(o);
}

void k8s_remove(struct k8s_obj *o)
{
	struct k8s_cluster *c = o->c;
	json_t *was = o->doc;

	for (struct k8s_obj **at = &c->objs[o->kind->id]; *at; at = &(*at)->next) {
		if (*at == o) {
			*at = o->next;
			break;
		}
	}
	c->removed(o);
	/* The last state carries the version of the deletion (API concepts, "Watch bookmarks"). */
	o->doc = json_deep_copy(was);
	version_set(c, o->doc, &o->rv);
	change_add(c, o, "DELETED", was);
	json_decref(was);
	loop_bury(c->sim->loop, o, obj_free);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static struct k8s_obj *same_event(const struct k8s_obj *o, const char *reason, const char *message)
{
	for (struct k8s_obj *e = o->c->objs[K8S_EVENT]; e; e = e->next) {
		if (str_same(k_str(e->doc, "reason"), reason) &&
		    str_same(k_str(e->doc, "message"), message) &&
		    str_same(k_str(e->doc, "involvedObject.uid"), o->uid)) {
			return e;
		}
	}
	return NULL;
}

/* Events are few and expire after an hour; here the oldest goes when there are too many. */
static void events_bound(struct k8s_cluster *c)
{
	struct k8s_obj *oldest = NULL;
	size_t n = 0;

	for (struct k8s_obj *e = c->objs[K8S_EVENT]; e; e = e->next) {
		n++;
		if (!oldest || e->rv < oldest->rv) {
			oldest = e;
		}
	}
	if (n > EVENTS_KEPT) {
		k8s_remove(oldest);
	}
}

static json_t *event_json(const struct k8s_obj *o, const char *type, const char *reason,
    const char *component, const char *message)
{
	struct sim *s = o->c->sim;
	char hex[17];
	json_t *ref = json_pack("{s:s*, s:s*, s:s, s:s, s:s*, s:s*}", "apiVersion",
	    k_str(o->doc, "apiVersion"), "kind", k_str(o->doc, "kind"), "name", o->name, "uid",
	    o->uid, "namespace", o->ns, "resourceVersion",
	    k_str(o->doc, "metadata.resourceVersion"));

	rng_hex(&s->rng, hex, 8);
	/* Events about objects of the whole cluster lie in "default" (client-go, tools/record). */
	return json_pack("{s:{s:o, s:s}, s:o, s:s, s:s, s:s, s:{s:s}, s:i, s:o, s:o, s:n, s:s, "
			 "s:s}",
	    "metadata", "name", json_sprintf("%s.%s", o->name, hex), "namespace",
	    o->ns ? o->ns : "default", "involvedObject", ref, "type", type, "reason", reason,
	    "message", message, "source", "component", component, "count", 1, "firstTimestamp",
	    k_now(s), "lastTimestamp", k_now(s), "eventTime", "reportingComponent", component,
	    "reportingInstance", "");
}

void k8s_tell(struct k8s_obj *o, const char *type, const char *reason, const char *component,
    const char *fmt, ...)
{
	char message[1024];
	struct k8s_obj *e;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	e = same_event(o, reason, message);
	if (e) {
		json_t *doc = k8s_edit(e);

		json_object_set_new(doc, "count", json_integer(k_int(doc, "count", 1) + 1));
		json_object_set_new(doc, "lastTimestamp", k_now(o->c->sim));
		k8s_commit(e, doc);
		return;
	}
	k8s_insert(o->c, &k8s_kinds[K8S_EVENT], event_json(o, type, reason, component, message));
	events_bound(o->c);
}

int k8s_cluster_port(const struct k8s_cluster *c, int which)
{
	return c->ports[which].front.http ? httpd_port(c->ports[which].front.http) : 0;
}

void k8s_wake(struct k8s_cluster *c)
{
	c->dirty = true;
	loop_wake(c->sim->loop);
}
