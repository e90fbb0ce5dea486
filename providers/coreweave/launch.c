/*
 * Launch and terminate. A launch is the Pod first, so that a new node is busy at once, then the
 * order for its node. A launch that fails undoes everything in the same call: a forgotten order
 * fills days later, and is billed. The Pod's name derives from the launch, and its annotation is a
 * hash of the whole request. So a repeat finds its own Pod, and a name with another hash is
 * refused.
 */
#include "base/base.h"
#include "coreweave_priv.h"

enum { L_POD = 0, L_GET, L_LOOK, L_ORDER, L_UNDO, L_UNDO_ORDER };
#define TRIES_MAX 5
#define USER_DATA_MAX (256 << 10)

struct launching {
	int at;
	struct cw_cluster *cl;
	int tries; /* POST says it is there, GET says it is not */
	/* of what we ask for: compared with a Pod that was there already */
	const char *name, *hash;
	struct cw_order order;
	struct spot_err why; /* why it is undone */
};

static const char *pod_path(const struct cw *self, struct arena *a, const char *name)
{
	return arena_printf(a, "/api/v1/namespaces/%s/pods/%s", self->space, name);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static enum spot_step check_type(const struct cw *self, struct spot_call *c,
    const struct spot_launch *a)
{
	const struct cw_type *t = self->cks ? cw_type_find(self, a->key.instance_type) : NULL;

	if (t != NULL && t->rack) {
		return call_fail(c, SPOT_NOT_OFFERED, "rack",
		    "coreweave launch: %s is sold in racks of 18 nodes only", a->key.instance_type);
	}
	if (t != NULL && !t->spot && a->key.market == SPOT_MARKET_SPOT) {
		return call_fail(c, SPOT_NOT_OFFERED, "superchip",
		    "coreweave launch: there is no spot for %s", a->key.instance_type);
	}
	if (a->key.market != SPOT_MARKET_SPOT && a->key.market != SPOT_MARKET_ON_DEMAND) {
		return call_fail(c, SPOT_NOT_OFFERED, "market", "%s launch: no market of that kind",
		    self->name);
	}
	return SPOT_STEP_NONE;
}

static enum spot_step launch_begin(const struct cw *self, struct spot_call *c,
    const struct spot_launch *a, struct launching *l)
{
	enum spot_step s = check_type(self, c, a);
	size_t i = 0;

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (str_empty(a->name) || str_empty(a->token) || !cw_label_ok(a->install) ||
	    str_empty(a->key.instance_type)) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "%s launch: name, token, instance type and an installation that may be a label "
		    "are required",
		    self->name);
	}
	if (a->shape.gpu_milli < 1000 || a->shape.gpu_milli % 1000 != 0) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "%s launch: whole GPUs are needed, not %d/1000", self->name,
		    (int)a->shape.gpu_milli);
	}
	if (a->user_data.n > USER_DATA_MAX) {
		return call_fail(c, SPOT_TOO_LARGE, NULL,
		    "%s launch: user data has %zu bytes, at most %d are taken", self->name,
		    a->user_data.n, USER_DATA_MAX);
	}
	if (self->image == NULL) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "%s launch: set image in [provider %s]: the container image of a node (with "
		    "/bin/sh, curl and sha256sum)",
		    self->name, self->name);
	}
	l->cl = cw_cluster_next(self, a->key.region, a->key.zone, &i);
	if (l->cl == NULL) {
		return call_fail(c, SPOT_NOT_OFFERED, "cluster", "%s launch: no cluster in %s %s",
		    self->name, a->key.region, a->key.zone);
	}
	if (l->cl->bad_rc != SPOT_OK) {
		return cw_cluster_bad(c, l->cl, "launch");
	}
	l->name = cw_pod_name(c->arena, a->name);
	l->order = (struct cw_order){ .cl = l->cl,
		.what = "launch",
		.install = a->install,
		.type = a->key.instance_type,
		.market = a->key.market,
		.create = true,
		.open = true,
		.pool = cw_pool_name(c->arena, a->install, a->key.instance_type, a->key.market) };
	return SPOT_STEP_NONE;
}

/* ---- requests -------------------------------------------------------------------------------- */

static enum spot_step send_pod(const struct cw *self, struct spot_call *c,
    const struct spot_launch *a, struct launching *l)
{
	AUTO(json) json_t *body = cw_pod_body(self, c, a, &l->hash);

	if (body == NULL) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "%s launch: user data or a name is not UTF-8 text", self->name);
	}
	cw_request(self, c, l->cl, "POST",
	    arena_printf(c->arena, "/api/v1/namespaces/%s/pods?fieldManager=spotbroker",
		self->space));
	cw_request_json(c, "application/json", body);
	c->mutating = true;
	c->out.fresh_connection = true;
	return SPOT_SEND;
}

static void send_delete(const struct cw *self, struct spot_call *c, const struct cw_cluster *cl,
    const char *name, const char *uid)
{
	AUTO(json)
	json_t *body = json_pack("{s:s, s:s, s:i, s:{s:s}}", "apiVersion", "v1", "kind",
	    "DeleteOptions", "gracePeriodSeconds", CW_OUR_GRACE_S, "preconditions", "uid", uid);

	cw_request(self, c, cl, "DELETE", pod_path(self, c->arena, name));
	cw_request_json(c, "application/json", body);
	c->mutating = true;
	c->out.fresh_connection = true;
}

static enum spot_step launch_send(const struct cw *self, struct spot_call *c,
    const struct spot_launch *a, struct launching *l)
{
	struct cw_ref ref;

	switch (l->at) {
	case L_POD:
		return send_pod(self, c, a, l);
	case L_GET:
	case L_LOOK:
		cw_request(self, c, l->cl, "GET", pod_path(self, c->arena, l->name));
		c->mutating = true; /* the Pod is there or may be: see order.c */
		return SPOT_SEND;
	case L_UNDO:
		if (!cw_ref_parse(self, c->arena, a->instance.ref, &ref)) {
			return call_fail(c, SPOT_UNKNOWN, NULL,
			    "launch: the Pod has no usable name");
		}
		send_delete(self, c, l->cl, ref.pod, ref.uid);
		return SPOT_SEND;
	default:
		return cw_order_send(self, c, &l->order);
	}
}

static enum spot_step launch_go(const struct cw *self, struct spot_call *c,
    const struct spot_launch *a, struct launching *l, int at)
{
	l->at = at;
	return launch_send(self, c, a, l);
}

/* ---- replies --------------------------------------------------------------------------------- */

/* It cannot be had: take everything back, then say why. */
static enum spot_step launch_undo(const struct cw *self, struct spot_call *c,
    const struct spot_launch *a, struct launching *l)
{
	l->why = c->err;
	c->err = (struct spot_err){ 0 };
	return launch_go(self, c, a, l, L_UNDO);
}

static enum spot_step launch_refuse(struct spot_call *c, const struct launching *l)
{
	return call_fail(c, l->why.rc, l->why.code, "%s", l->why.text);
}

static enum spot_step read_pod(const struct cw *self, struct spot_call *c, struct spot_launch *a,
    struct launching *l, struct cw_pod *p)
{
	json_t *doc = NULL;
	enum spot_step s = cw_reply_get(c, l->cl, "launch", true, "Pod", &doc);
	const char *bad;
	bool ok;

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	ok = cw_pod_read(c->arena, doc, p, &bad);
	json_decref(doc);
	if (!ok) {
		return cw_bad_reply(c, "launch", true, bad);
	}
	if (strcmp(p->name, l->name) != 0) {
		return cw_bad_reply(c, "launch", true, "another Pod than the one that was made");
	}
	if (l->at == L_GET && strcmp(p->hash, l->hash) != 0) {
		return call_fail(c, SPOT_MISMATCH, "AlreadyExists",
		    "launch: Pod %s exists in cluster %s and was made with other parameters",
		    l->name, l->cl->name);
	}
	cw_instance(self, c, l->cl, p, NULL, &a->instance);
	return SPOT_STEP_NONE;
}

static enum spot_step pod_there(const struct cw *self, struct spot_call *c, struct spot_launch *a,
    struct launching *l, const struct cw_pod *p)
{
	if (!cw_pod_live(p)) {
		return SPOT_DONE; /* a repeat finds that it has ended already: no order for it */
	}
	return launch_go(self, c, a, l, self->cks ? L_ORDER : L_LOOK);
}

static enum spot_step read_create(const struct cw *self, struct spot_call *c, struct spot_launch *a,
    struct launching *l)
{
	struct cw_reply r;
	struct cw_pod p;
	enum spot_step s;

	if (c->in->status == 0) {
		return call_fail(c, SPOT_UNKNOWN, NULL,
		    "launch: no reply: Pod %s of cluster %s may exist", l->name, l->cl->name);
	}
	if (c->in->status == 409) {
		return launch_go(self, c, a, l, L_GET);
	}
	if (c->in->status >= 400 && c->in->status < 500) {
		/* Refused: there is no Pod. */
		cw_reply_read(c, l->cl->managed, &r);
		r.rc = r.rc == SPOT_NOT_FOUND ? SPOT_CONFIG : r.rc; /* the namespace */
		return cw_reply_verdict(c, l->cl, "launch", false, &r);
	}
	s = read_pod(self, c, a, l, &p);
	return s == SPOT_STEP_NONE ? pod_there(self, c, a, l, &p) : s;
}

/* Kind kubernetes: the scheduler is fast. If nothing delivers nodes, its refusal is the answer. */
static enum spot_step read_look(const struct cw *self, struct spot_call *c, struct spot_launch *a,
    struct launching *l)
{
	struct cw_view none = { 0 };
	struct cw_pod p;
	enum spot_step s = read_pod(self, c, a, l, &p);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	cw_instance(self, c, l->cl, &p, &none, &a->instance);
	if (a->instance.state != SPOT_INSTANCE_FAILED || p.unscheduled == NULL) {
		return SPOT_DONE;
	}
	call_fail(c, SPOT_NO_CAPACITY, "Unschedulable", "launch: cluster %s: %s", l->cl->name,
	    a->instance.raw_reason);
	return launch_undo(self, c, a, l);
}

static enum spot_step read_order(const struct cw *self, struct spot_call *c, struct spot_launch *a,
    struct launching *l)
{
	struct cw_order *o = &l->order;
	enum spot_step s;
	const struct cw_pool *was = &o->before;

	s = cw_order_read(self, c, o);
	if (s == SPOT_FAIL && o->refused) {
		return launch_undo(self, c, a, l);
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	/* Said of an order that stood open before ours. Of a pool without one it may be an old
	 * story. */
	if (was->verdict != SPOT_OK && was->in_progress == 0 && was->current < was->target) {
		call_fail(c, was->verdict, was->verdict == SPOT_QUOTA ? "quota" : "capacity",
		    "launch: NodePool %s of cluster %s: %s", o->pool, l->cl->name, was->words);
		return launch_undo(self, c, a, l);
	}
	return SPOT_DONE;
}

static enum spot_step read_undo(const struct cw *self, struct spot_call *c, struct spot_launch *a,
    struct launching *l)
{
	struct cw_reply r;
	struct cw_pod p;
	const char *bad;
	enum spot_step s;
	bool placed;

	cw_reply_read(c, l->cl->managed, &r);
	/* It got a node after all, and is there until its grace is over: no refusal, but a machine
	 * that ends. Its end takes the order back. */
	placed = r.rc == SPOT_OK &&
	    str_same(json_string_value(json_object_get(r.doc, "kind")), "Pod") &&
	    cw_pod_read(c->arena, r.doc, &p, &bad) && p.node[0] != '\0';
	if (placed) {
		cw_instance(self, c, l->cl, &p, NULL, &a->instance);
	}
	json_decref(r.doc);
	if (placed) {
		return SPOT_DONE;
	}
	if (r.rc != SPOT_OK && r.rc != SPOT_NOT_FOUND && r.rc != SPOT_CONFLICT) {
		s = cw_reply_verdict(c, l->cl, "launch (undo)", true, &r);
		c->err.rc = s == SPOT_FAIL ? SPOT_UNKNOWN : c->err.rc;
		return s;
	}
	if (!self->cks) {
		return launch_refuse(c, l);
	}
	l->order = (struct cw_order){ .cl = l->cl,
		.what = "launch (undo)",
		.install = a->install,
		.pool = l->order.pool,
		.open = true };
	return launch_go(self, c, a, l, L_UNDO_ORDER);
}

static enum spot_step launch_read(const struct cw *self, struct spot_call *c, struct spot_launch *a,
    struct launching *l)
{
	struct cw_pod p;
	enum spot_step s;

	switch (l->at) {
	case L_POD:
		return read_create(self, c, a, l);
	case L_GET:
		if (c->in->status == 404) { /* gone between the two */
			return ++l->tries < TRIES_MAX
			    ? launch_go(self, c, a, l, L_POD)
			    : call_fail(c, SPOT_UNKNOWN, "Conflict",
				  "launch: Pod %s of cluster %s: refused as there, and not there",
				  l->name, l->cl->name);
		}
		s = read_pod(self, c, a, l, &p);
		return s == SPOT_STEP_NONE ? pod_there(self, c, a, l, &p) : s;
	case L_LOOK:
		return read_look(self, c, a, l);
	case L_ORDER:
		return read_order(self, c, a, l);
	case L_UNDO:
		return read_undo(self, c, a, l);
	default:
		s = cw_order_read(self, c, &l->order);
		/* The Pod is gone: what is left is an order that list finds. */
		return s == SPOT_STEP_NONE || (s == SPOT_FAIL && l->order.refused)
		    ? launch_refuse(c, l)
		    : s;
	}
}

enum spot_step cw_launch(void *p, struct spot_call *c, struct spot_launch *a)
{
	const struct cw *self = p;
	struct launching *l = c->state;
	enum spot_step s;

	if (l == NULL) {
		c->state = l = arena_alloc(c->arena, sizeof(*l));
		s = launch_begin(self, c, a, l);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	return c->in == NULL ? launch_send(self, c, a, l) : launch_read(self, c, a, l);
}

/* ---- terminate ------------------------------------------------------------------------------- */

struct ending {
	bool ordering;
	struct cw_ref ref;
	struct cw_order order;
};

static enum spot_step end_order(const struct cw *self, struct spot_call *c, struct ending *e,
    const char *pool)
{
	if (!self->cks || str_empty(pool)) {
		return SPOT_DONE;
	}
	e->ordering = true;
	e->order = (struct cw_order){ .cl = e->ref.cl,
		.what = "terminate",
		.pool = arena_strdup(c->arena, pool) };
	return cw_order_send(self, c, &e->order);
}

static enum spot_step end_begin(const struct cw *self, struct spot_call *c,
    struct spot_terminate *a, struct ending *e)
{
	if (!cw_ref_parse(self, c->arena, a->ref, &e->ref)) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "%s terminate: '%.100s' is not a reference of ours", self->name, a->ref);
	}
	if (e->ref.cl == NULL) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "%s terminate: the cluster of %.100s is not configured any more", self->name,
		    a->ref);
	}
	if (e->ref.cl->bad_rc != SPOT_OK) {
		return cw_cluster_bad(c, e->ref.cl, "terminate");
	}
	if (e->ref.pod == NULL && !cw_label_ok(e->ref.pool)) {
		return call_fail(c, SPOT_INVALID, NULL, "%s terminate: '%.100s' names no NodePool",
		    self->name, a->ref);
	}
	return SPOT_STEP_NONE;
}

/* DELETE answers with the Pod while its grace runs, with a Status or the Pod when it is gone at
 * once. */
static enum spot_step end_read(const struct cw *self, struct spot_call *c, struct spot_terminate *a,
    struct ending *e)
{
	struct cw_reply r;
	struct cw_pod pod;
	const char *bad, *pool = a->spot_request;

	cw_reply_read(c, e->ref.cl->managed, &r);
	/* A Pod with another uid holds the name: ours is gone. */
	if (r.rc == SPOT_NOT_FOUND || (r.rc == SPOT_CONFLICT && c->in->status == 409)) {
		a->after.state = SPOT_INSTANCE_GONE;
		a->after.raw_state = r.reason;
		return end_order(self, c, e, pool);
	}
	if (r.rc != SPOT_OK) {
		return cw_reply_verdict(c, e->ref.cl, "terminate", false, &r);
	}
	if (str_same(json_string_value(json_object_get(r.doc, "kind")), "Pod") &&
	    cw_pod_read(c->arena, r.doc, &pod, &bad)) {
		cw_instance(self, c, e->ref.cl, &pod, NULL, &a->after);
		pool = pod.pool[0] != '\0' ? pod.pool : pool;
		/* Not on any node yet: removed at once, the reply is its last state. */
		if (pod.node[0] == '\0') {
			a->after.state = SPOT_INSTANCE_GONE;
		}
	} else {
		a->after.state = SPOT_INSTANCE_STOPPING;
	}
	json_decref(r.doc);
	a->after.ref = a->ref;
	return end_order(self, c, e, pool);
}

enum spot_step cw_terminate(void *p, struct spot_call *c, struct spot_terminate *a)
{
	const struct cw *self = p;
	struct ending *e = c->state;
	enum spot_step s;

	if (e == NULL) {
		c->state = e = arena_alloc(c->arena, sizeof(*e));
		a->after = (struct spot_instance){ .ref = a->ref,
			.token = "",
			.install = "",
			.raw_state = "",
			.raw_reason = "",
			.ip = "",
			.spot_request = "" };
		s = end_begin(self, c, a, e);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
		if (e->ref.pod == NULL) {
			a->after.state = SPOT_INSTANCE_GONE;
			s = end_order(self, c, e, e->ref.pool);
			return s;
		}
	}
	if (e->ordering) {
		s = c->in == NULL ? cw_order_send(self, c, &e->order)
				  : cw_order_read(self, c, &e->order);
		return s == SPOT_STEP_NONE ? SPOT_DONE : s;
	}
	if (c->in != NULL) {
		return end_read(self, c, a, e);
	}
	send_delete(self, c, e->ref.cl, e->ref.pod, e->ref.uid);
	return SPOT_SEND;
}
