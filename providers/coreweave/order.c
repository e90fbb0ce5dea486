/*
 * The order for machines of a NodePool follows the live Pods: targetNodes = Pods of ours that wait
 * for a node of it or hold one. The NodePool is read before the Pods are listed, and its
 * resourceVersion is a precondition of the change. A change in between makes us count again, so
 * that two counters cannot overwrite each other with an old count. For the same reason a correct
 * target is written too, with a note that makes it a change. A write that changes nothing keeps the
 * resourceVersion, and another counter could still write an older count. The target is always a
 * level, never "one more", so a repeat is harmless. With scaleDownStrategy IdleOnly and one Pod as
 * large as its node, CoreWeave takes back the node without a Pod (docs: cks/reference/node-pool).
 */
#include "base/base.h"
#include "coreweave_priv.h"

enum { O_GET = 0, O_CREATE, O_PODS, O_PATCH };
#define TRIES_MAX 12

const char *cw_nodepool_path(struct arena *a, const char *name, const char *query)
{
	return arena_printf(a, CW_NODEPOOLS "/%s%s", url_encode(a, name, false), query);
}

static void send_create(struct spot_call *c, const struct cw_order *o)
{
	AUTO(json)
	json_t *body = cw_nodepool_body(c->arena, o->pool, o->install, o->type, o->market);

	cw_request_json(c, "application/json", body);
}

/* An RFC 7396 patch; a resourceVersion in it is compared with the object's (kubernetes.io
 * api-concepts, "patch"). */
static void send_patch(struct spot_call *c, const struct cw_order *o)
{
	AUTO(json)
	json_t *body = json_pack("{s:{s:s}, s:{s:I}}", "metadata", "resourceVersion", o->was.rv,
	    "spec", "targetNodes", (json_int_t)o->live);

	if (o->live == o->was.target) {
		json_object_set_new(json_object_get(body, "metadata"), "annotations",
		    json_pack("{s:s}", CW_NOTE_COUNTED, o->was.rv));
	}
	cw_request_json(c, "application/merge-patch+json", body);
}

enum spot_step cw_order_send(const struct cw *self, struct spot_call *c, struct cw_order *o)
{
	struct arena *a = c->arena;
	const char *pods = arena_printf(a, "/api/v1/namespaces/%s/pods?labelSelector=%s&limit=500",
	    self->space, url_encode(a, arena_printf(a, CW_LABEL_POOL "=%s", o->pool), false));

	switch (o->at) {
	case O_GET:
		cw_request(self, c, o->cl, "GET", cw_nodepool_path(a, o->pool, ""));
		break;
	case O_CREATE:
		cw_request(self, c, o->cl, "POST", CW_NODEPOOLS "?fieldManager=spotbroker");
		send_create(c, o);
		c->mutating = true;
		break;
	case O_PODS:
		cw_request(self, c, o->cl, "GET", cw_page_path(a, pods, o->cont));
		break;
	default:
		cw_request(self, c, o->cl, "PATCH",
		    cw_nodepool_path(a, o->pool, "?fieldManager=spotbroker"));
		send_patch(c, o);
		c->mutating = true;
		break;
	}
	/* While a launch is open, a lost reply ends it as UNKNOWN: the look-up brings the order up
	 * to date. */
	c->mutating = c->mutating || o->open;
	c->out.fresh_connection = c->mutating;
	return SPOT_SEND;
}

static enum spot_step order_go(const struct cw *self, struct spot_call *c, struct cw_order *o,
    int at)
{
	o->at = at;
	o->cont = NULL;
	o->pages = 0;
	return cw_order_send(self, c, o);
}

static enum spot_step order_recount(const struct cw *self, struct spot_call *c, struct cw_order *o)
{
	if (++o->tries > TRIES_MAX) {
		return call_fail(c, o->open ? SPOT_UNKNOWN : SPOT_UNAVAILABLE, "Conflict",
		    "%s: NodePool %s of cluster %s is changed by others all the time", o->what,
		    o->pool, o->cl->name);
	}
	return order_go(self, c, o, O_GET);
}

/* The NodePool as it stands, from GET, POST or PATCH. */
static enum spot_step pool_in(struct spot_call *c, struct cw_order *o)
{
	json_t *doc = NULL;
	enum spot_step s = cw_reply_get(c, o->cl, o->what, o->open, "NodePool", &doc);
	bool ok;

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	ok = cw_pool_read(c->arena, doc, &o->was);
	json_decref(doc);
	if (!ok) {
		return cw_bad_reply(c, o->what, o->open,
		    "a NodePool without name or resourceVersion");
	}
	if (o->was.install[0] != '\0' && o->install != NULL &&
	    strcmp(o->was.install, o->install) != 0) {
		return call_fail(c, SPOT_CONFIG, "owner",
		    "%s: NodePool %s of cluster %s belongs to installation %s", o->what, o->pool,
		    o->cl->name, o->was.install);
	}
	return SPOT_STEP_NONE;
}

static enum spot_step read_get(const struct cw *self, struct spot_call *c, struct cw_order *o)
{
	struct cw_reply r;
	enum spot_step s;

	if (c->in->status == 404) {
		cw_reply_read(c, o->cl->managed, &r);
		if (r.rc == SPOT_NOT_FOUND) {
			return o->create ? order_go(self, c, o, O_CREATE) : SPOT_STEP_NONE;
		}
	}
	s = pool_in(c, o);
	o->before = o->was;
	return s == SPOT_STEP_NONE ? order_go(self, c, o, O_PODS) : s;
}

static enum spot_step read_change(const struct cw *self, struct spot_call *c, struct cw_order *o)
{
	bool created = o->at == O_CREATE;
	enum spot_step s;

	if (c->in->status == 409 || (c->in->status == 404 && !created)) {
		/* older counts cannot be written any more, and younger ones have our Pod in them */
		o->moved = true;
		/* made, changed or deleted by somebody else meanwhile */
		return order_recount(self, c, o);
	}
	s = pool_in(c, o);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	return created ? order_go(self, c, o, O_PODS) : SPOT_STEP_NONE;
}

static enum spot_step read_pods(const struct cw *self, struct spot_call *c, struct cw_order *o)
{
	json_t *doc = NULL, *items;
	enum spot_step s = cw_reply_get(c, o->cl, o->what, o->open, "PodList", &doc);
	const char *bad = NULL;
	bool repeats, more;

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (o->cont == NULL) {
		o->live = 0;
	}
	items = json_object_get(doc, "items");
	for (size_t i = 0; i < json_array_size(items) && bad == NULL; i++) {
		struct cw_pod p;

		o->live +=
		    cw_pod_read(c->arena, json_array_get(items, i), &p, &bad) && cw_pod_live(&p);
	}
	bad = bad == NULL && !(json_is_array(items) || json_is_null(items))
	    ? "a PodList without items"
	    : bad;
	more = cw_page_next(c->arena, doc, &o->cont, &o->pages, &repeats);
	json_decref(doc);
	if (bad != NULL || repeats) {
		return cw_bad_reply(c, o->what, o->open,
		    bad != NULL ? bad : "the pages do not end");
	}
	if (more) {
		return cw_order_send(self, c, o);
	}
	return o->moved && o->live == o->was.target ? SPOT_STEP_NONE
						    : order_go(self, c, o, O_PATCH);
}

static enum spot_step order_read(const struct cw *self, struct spot_call *c, struct cw_order *o)
{
	if (o->at == O_PODS && c->in->status == 410) {
		return order_recount(self, c, o); /* the page token is too old */
	}
	switch (o->at) {
	case O_GET:
		return read_get(self, c, o);
	case O_PODS:
		return read_pods(self, c, o);
	default:
		return read_change(self, c, o);
	}
}

enum spot_step cw_order_read(const struct cw *self, struct spot_call *c, struct cw_order *o)
{
	enum spot_step s = order_read(self, c, o);
	enum spot_rc rc = c->err.rc;

	/* A refusal that will not change by itself: the caller undoes what it began. */
	o->refused = o->refused ||
	    (s == SPOT_FAIL &&
		(rc == SPOT_DENIED || rc == SPOT_INVALID || rc == SPOT_QUOTA ||
		    rc == SPOT_NO_CAPACITY || rc == SPOT_CONFIG || rc == SPOT_TOO_LARGE));
	return s;
}
