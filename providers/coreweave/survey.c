/*
 * Surveys clusters: NodePools, then Pods, then nodes and events if something depends on them.
 * NodePools are read before the Pods, so that the same survey can correct a target that is not the
 * number of live Pods (see order.c). A describe does that for the pools of its Pods. So it lowers
 * the order for a reclaimed machine as soon as it sees the reclaim.
 */
#include "base/base.h"
#include "coreweave_priv.h"

#include <ctype.h>

enum { S_POOLS = 0, S_PODS, S_NODES, S_EVENTS, S_FIX, S_NEXT };
enum survey_for { FOR_LIST = 1, FOR_DESCRIBE, FOR_NOTICES };

struct pod_at {
	const char *ref;
	size_t at;
};

struct survey {
	enum survey_for for_what;
	const char *what, *region, *install;
	const char *const *refs;
	const struct spot_pool_key *keys; /* of each ref; may be NULL */
	size_t refs_n;
	int at;
	size_t next; /* of cw_cluster_next */
	struct cw_cluster *cl;
	struct cw_view view;
	struct pod_at *pods; /* of the view, by ref; not of a list, which wants all */
	bool *wanted; /* of each Pod of the view: it is one of refs; NULL = all are */
	const char *cont;
	size_t pages, fix;
	/* results over all clusters */
	struct spot_instance *found;
	size_t n, cap;
	struct spot_notice *notices;
	size_t notices_n, notices_cap;
	struct spot_err bad; /* the first cluster that could not be asked */
};

/* ---- requests -------------------------------------------------------------------------------- */

static const char *pods_path(const struct cw *self, struct arena *a, const struct survey *s)
{
	const char *label = s->install != NULL ? arena_printf(a, CW_LABEL_INSTALL "=%s", s->install)
					       : CW_LABEL_INSTALL;

	return arena_printf(a, "/api/v1/namespaces/%s/pods?labelSelector=%s&limit=500", self->space,
	    url_encode(a, label, false));
}

static const char *events_path(const struct cw *self, struct arena *a)
{
	/* Events about cluster-wide objects are in namespace default (client-go
	 * tools/record/event.go). */
	return self->cks
	    ? "/api/v1/namespaces/default/"
	      "events?fieldSelector=involvedObject.kind%3DNodePool&limit=500"
	    : arena_printf(a,
		  "/api/v1/namespaces/%s/events?fieldSelector=involvedObject.kind%%3DPod&limit=500",
		  self->space);
}

static void send_fix(const struct cw *self, struct spot_call *c, const struct survey *s)
{
	const struct cw_pool *p = &s->view.pools[s->fix];
	AUTO(json)
	json_t *body = json_pack("{s:{s:s}, s:{s:I}}", "metadata", "resourceVersion", p->rv, "spec",
	    "targetNodes", (json_int_t)p->live);

	cw_request(self, c, s->cl, "PATCH",
	    cw_nodepool_path(c->arena, p->name, "?fieldManager=spotbroker"));
	cw_request_json(c, "application/merge-patch+json", body);
}

static enum spot_step survey_send(const struct cw *self, struct spot_call *c,
    const struct survey *s)
{
	struct arena *a = c->arena;
	const char *path;

	switch (s->at) {
	case S_POOLS:
		path = CW_NODEPOOLS "?limit=500";
		break;
	case S_PODS:
		path = pods_path(self, a, s);
		break;
	case S_NODES:
		path = self->cks ? "/api/v1/nodes?labelSelector=spotbroker.io%2Finstall&limit=250"
				 : "/api/v1/nodes?limit=250";
		break;
	case S_EVENTS:
		path = events_path(self, a);
		break;
	default:
		send_fix(self, c, s);
		return SPOT_SEND;
	}
	cw_request(self, c, s->cl, "GET", cw_page_path(a, path, s->cont));
	return SPOT_SEND;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static const char *const list_kinds[] = { [S_POOLS] = "NodePoolList",
	[S_PODS] = "PodList",
	[S_NODES] = "NodeList",
	[S_EVENTS] = "EventList" };

#define ROOM(v, items) \
	((v)->items = \
		arena_grow(a, (v)->items, (v)->items##_n, &(v)->items##_cap, sizeof(*(v)->items)))

static const char *item_read(struct arena *a, struct survey *s, const json_t *o)
{
	struct cw_view *v = &s->view;
	const char *bad = NULL;

	switch (s->at) {
	case S_POOLS:
		ROOM(v, pools);
		v->pools_n += cw_pool_read(a, o, &v->pools[v->pools_n]);
		break;
	case S_PODS:
		ROOM(v, pods);
		if (cw_pod_read(a, o, &v->pods[v->pods_n], &bad)) {
			v->pods_n++;
		}
		break;
	case S_NODES:
		ROOM(v, nodes);
		v->nodes_n += cw_node_read(a, o, &v->nodes[v->nodes_n]);
		break;
	default:
		ROOM(v, events);
		v->events_n += cw_event_read(a, o, &v->events[v->events_n]);
		break;
	}
	return bad;
}

static void list_drop(struct survey *s)
{
	struct cw_view *v = &s->view;

	v->pools_n = s->at == S_POOLS ? 0 : v->pools_n;
	v->pods_n = s->at == S_PODS ? 0 : v->pods_n;
	v->nodes_n = s->at == S_NODES ? 0 : v->nodes_n;
	v->events_n = s->at == S_EVENTS ? 0 : v->events_n;
	s->cont = NULL;
	s->pages = 0;
}

/* One page into the view. *ret_more: there is another to ask for. */
static enum spot_step list_read(struct spot_call *c, struct survey *s, bool *ret_more)
{
	json_t *doc = NULL, *items;
	enum spot_step v = cw_reply_get(c, s->cl, s->what, false, list_kinds[s->at], &doc);
	const char *bad = NULL;
	bool repeats;

	if (v != SPOT_STEP_NONE) {
		return v;
	}
	items = json_object_get(doc, "items");
	bad = (json_is_array(items) || json_is_null(items)) ? NULL : "a list without items";
	for (size_t i = 0; i < json_array_size(items) && bad == NULL; i++) {
		bad = item_read(c->arena, s, json_array_get(items, i));
	}
	*ret_more = cw_page_next(c->arena, doc, &s->cont, &s->pages, &repeats);
	json_decref(doc);
	if (bad != NULL || repeats) {
		return cw_bad_reply(c, s->what, false, bad != NULL ? bad : "the pages do not end");
	}
	return SPOT_STEP_NONE;
}

/* ---- results --------------------------------------------------------------------------------- */

static int by_ref(const void *a, const void *b)
{
	return strcmp(((const struct pod_at *)a)->ref, ((const struct pod_at *)b)->ref);
}

/* The Pod of the view that a ref names; NULL: none. */
static const struct pod_at *pod_find(const struct survey *s, const char *ref)
{
	struct pod_at key = { .ref = ref };

	return s->view.pods_n > 0 ? bsearch(&key, s->pods, s->view.pods_n, sizeof(key), by_ref)
				  : NULL;
}

/* Which Pods were asked for. Sorted: of thousands asked for among thousands, each against each
 * would take longer and more memory than a call has. */
static void pods_match(struct arena *a, struct survey *s)
{
	size_t n = s->view.pods_n;

	s->pods = arena_array(a, n, sizeof(*s->pods));
	s->wanted = arena_array(a, n, sizeof(*s->wanted));
	for (size_t i = 0; i < n; i++) {
		s->pods[i] = (struct pod_at){ cw_pod_ref(a, s->cl, &s->view.pods[i]), i };
	}
	qsort(s->pods, n, sizeof(*s->pods), by_ref);
	for (size_t i = 0; i < s->refs_n; i++) {
		const struct pod_at *p = pod_find(s, s->refs[i]);

		if (p != NULL) {
			s->wanted[p->at] = true;
		}
	}
}

static bool pool_of(const struct cw_pool *p, const char *install)
{
	/* Whether labels of a NodePool are kept is not confirmed; its name says whose it is as
	 * well. */
	return strcmp(p->install, install) == 0 ||
	    (p->install[0] == '\0' && str_prefix(p->name, "sb-") &&
		strncmp(p->name + 3, install, strlen(install)) == 0 &&
		p->name[3 + strlen(install)] == '-');
}

static void count_live(struct survey *s)
{
	struct cw_view *v = &s->view;

	for (size_t i = 0; i < v->pods_n; i++) {
		struct cw_pool *p = cw_view_pool(v, v->pods[i].pool);

		if (p != NULL) {
			p->live += cw_pod_live(&v->pods[i]);
		}
	}
}

static void mark_touched(struct survey *s)
{
	for (size_t i = 0; i < s->view.pods_n; i++) {
		struct cw_pool *pool = cw_view_pool(&s->view, s->view.pods[i].pool);

		if (pool != NULL && s->for_what == FOR_DESCRIBE && s->wanted[i]) {
			pool->touched = true;
		}
	}
}

/* A launch's name holds its installation, between dots or what stands for them. */
static bool launched_by(const char *pod, const char *install)
{
	size_t n = strlen(install);
	const char *at = n > 0 ? strstr(pod, install) : NULL;

	while (at != NULL &&
	    ((at > pod && isalnum((unsigned char)at[-1])) || isalnum((unsigned char)at[n]))) {
		at = strstr(at + 1, install);
	}
	return at != NULL;
}

/* Finds the NodePool that still has the order for a missing Pod. When we end a Pod we lower the
 * target with it, so somebody else ended this one. Another order is none of its business. */
static struct cw_pool *order_left(const struct cw *self, struct spot_call *c, struct survey *s,
    size_t at)
{
	const struct spot_pool_key *k = s->keys != NULL ? &s->keys[at] : NULL;
	const char *ref = s->refs[at];
	struct cw_ref r;

	if (pod_find(s, ref) != NULL || !cw_ref_parse(self, c->arena, ref, &r) || r.cl != s->cl ||
	    r.pod == NULL) {
		return NULL;
	}
	for (size_t i = 0; i < s->view.pools_n; i++) {
		struct cw_pool *p = &s->view.pools[i];

		if (launched_by(r.pod, p->install) && p->target > p->live &&
		    (k == NULL ||
			(strcmp(k->instance_type, p->type) == 0 &&
			    k->market == spot_market_parse(p->market)))) {
			return p;
		}
	}
	return NULL;
}

static void pods_vanished(const struct cw *self, struct spot_call *c, struct survey *s)
{
	for (size_t i = 0; s->for_what == FOR_DESCRIBE && i < s->refs_n; i++) {
		struct cw_pool *p = order_left(self, c, s, i);

		if (p == NULL) {
			continue;
		}
		p->touched = true;
		s->found = arena_grow(c->arena, s->found, s->n, &s->cap, sizeof(*s->found));
		s->found[s->n++] = (struct spot_instance){
			.ref = s->refs[i],
			.token = "",
			.install = p->install,
			.key = { self->name, s->cl->region, s->cl->zone, p->type,
			    spot_market_parse(p->market) },
			.state = SPOT_INSTANCE_GONE,
			.end_cause =
			    strcmp(p->market, "spot") == 0 ? SPOT_END_RECLAIM : SPOT_END_PROVIDER,
			.raw_state = "",
			.raw_reason = "the Pod does not exist any more, its order does",
			.ip = "",
			.spot_request = p->name,
		};
	}
}

/* An order for more machines than there are Pods. */
static void orders_leftover(const struct cw *self, struct arena *a, struct survey *s)
{
	for (size_t i = 0; i < s->view.pools_n; i++) {
		const struct cw_pool *p = &s->view.pools[i];

		if (!pool_of(p, s->install) || p->target <= p->live) {
			continue;
		}
		s->found = arena_grow(a, s->found, s->n, &s->cap, sizeof(*s->found));
		s->found[s->n++] = (struct spot_instance){
			.ref = arena_printf(a, "nodepool/%s/%s", s->cl->name, p->name),
			.token = "",
			.install = s->install,
			.key = { self->name, s->cl->region, s->cl->zone, p->type,
			    spot_market_parse(p->market) },
			.state = SPOT_INSTANCE_RUNNING,
			.raw_state = "NodePool",
			.raw_reason = arena_printf(a, "targetNodes %" PRId64 ", live Pods %" PRId64,
			    p->target, p->live),
			.ip = "",
			.spot_request = p->name,
			.leftover = true,
		};
	}
}

static void results_add(const struct cw *self, struct spot_call *c, struct survey *s)
{
	struct arena *a = c->arena;

	for (size_t i = 0; i < s->view.pods_n; i++) {
		const struct cw_pod *p = &s->view.pods[i];

		if (s->wanted != NULL && !s->wanted[i]) {
			continue;
		}
		if (s->for_what == FOR_NOTICES) {
			s->notices = arena_grow(a, s->notices, s->notices_n, &s->notices_cap,
			    sizeof(*s->notices));
			s->notices_n += cw_notice(c, s->cl, p, cw_view_node(&s->view, p->node),
			    &s->notices[s->notices_n]);
			continue;
		}
		s->found = arena_grow(a, s->found, s->n, &s->cap, sizeof(*s->found));
		cw_instance(self, c, s->cl, p, s->for_what == FOR_LIST ? NULL : &s->view,
		    &s->found[s->n++]);
	}
	if (s->for_what == FOR_LIST && self->cks) {
		orders_leftover(self, a, s);
	}
}

/* ---- the walk -------------------------------------------------------------------------------- */

static bool any_bound(const struct survey *s)
{
	for (size_t i = 0; i < s->view.pods_n; i++) {
		if (s->view.pods[i].node[0] != '\0' && cw_pod_live(&s->view.pods[i])) {
			return true;
		}
	}
	return false;
}

static bool any_waiting(const struct survey *s)
{
	for (size_t i = 0; i < s->view.pods_n; i++) {
		if (s->view.pods[i].unscheduled != NULL && s->view.pods[i].node[0] == '\0') {
			return true;
		}
	}
	return false;
}

static bool fix_next(struct survey *s)
{
	for (; s->fix < s->view.pools_n; s->fix++) {
		const struct cw_pool *p = &s->view.pools[s->fix];

		if (p->touched && p->target != p->live) {
			return true;
		}
	}
	return false;
}

static bool cluster_next(const struct cw *self, struct spot_call *c, struct survey *s)
{
	do {
		s->cl = cw_cluster_next(self, s->region, "", &s->next);
		if (s->cl != NULL && s->cl->bad_rc != SPOT_OK && s->bad.rc == SPOT_OK) {
			cw_cluster_bad(c, s->cl, s->what);
			s->bad = c->err;
		}
	} while (s->cl != NULL && s->cl->bad_rc != SPOT_OK);
	s->view = (struct cw_view){ 0 };
	s->at = self->cks ? S_POOLS : S_PODS;
	s->cont = NULL;
	s->pages = 0;
	s->fix = 0;
	return s->cl != NULL;
}

/* Past what is not needed. False: the cluster is done. */
static bool stage_settle(struct survey *s)
{
	bool more = s->for_what != FOR_LIST;

	for (;;) {
		switch (s->at) {
		case S_NODES:
			if (more && any_bound(s)) {
				return true;
			}
			break;
		case S_EVENTS:
			if (more && s->for_what == FOR_DESCRIBE && any_waiting(s)) {
				return true;
			}
			break;
		case S_FIX:
			mark_touched(s);
			if (fix_next(s)) {
				return true;
			}
			break;
		case S_NEXT:
			return false;
		default:
			return true;
		}
		s->at++;
	}
}

static enum spot_step survey_advance(const struct cw *self, struct spot_call *c, struct survey *s)
{
	if (stage_settle(s)) {
		return survey_send(self, c, s);
	}
	results_add(self, c, s);
	if (cluster_next(self, c, s)) {
		return survey_send(self, c, s);
	}
	/* A cluster that was not asked: a list that lacks it would make its machines look gone. */
	return s->bad.rc != SPOT_OK ? call_fail(c, s->bad.rc, s->bad.code, "%s", s->bad.text)
				    : SPOT_DONE;
}

static enum spot_step survey_read(const struct cw *self, struct spot_call *c, struct survey *s)
{
	struct cw_reply r;
	bool more = false;
	enum spot_step v;

	if (s->at == S_FIX) {
		/* Refused or overtaken: the next look tries again. */
		cw_reply_read(c, s->cl->managed, &r);
		json_decref(r.doc);
		s->fix++;
		return survey_advance(self, c, s);
	}
	if (c->in->status == 410 && s->cont != NULL) {
		list_drop(s); /* the page token is too old: from the beginning */
		return survey_send(self, c, s);
	}
	v = list_read(c, s, &more);
	if (v != SPOT_STEP_NONE) {
		return v;
	}
	if (more) {
		return survey_send(self, c, s);
	}
	if (s->at == S_PODS) {
		count_live(s);
		if (s->for_what != FOR_LIST) {
			pods_match(c->arena, s);
		}
		pods_vanished(self, c, s);
	}
	if (s->at == S_NODES) {
		cw_view_nodes(&s->view);
	}
	s->at++;
	s->cont = NULL;
	s->pages = 0;
	return survey_advance(self, c, s);
}

static struct survey *survey_new(const struct cw *self, struct spot_call *c, enum survey_for f,
    const char *what, const char *region)
{
	struct survey *s = arena_alloc(c->arena, sizeof(*s));

	(void)self;
	c->state = s;
	*s = (struct survey){ .for_what = f, .what = what, .region = region };
	return s;
}

static enum spot_step survey_step(const struct cw *self, struct spot_call *c, struct survey *s)
{
	if (c->in != NULL) {
		return survey_read(self, c, s);
	}
	if (s->cl == NULL && !cluster_next(self, c, s)) {
		return s->bad.rc != SPOT_OK
		    ? call_fail(c, s->bad.rc, s->bad.code, "%s", s->bad.text)
		    : SPOT_DONE;
	}
	return survey_send(self, c, s);
}

enum spot_step cw_list(void *p, struct spot_call *c, struct spot_list *a)
{
	struct survey *s = c->state;
	enum spot_step v;

	if (!cw_label_ok(a->install)) {
		return call_fail(c, SPOT_INVALID, NULL, "list: no installation given");
	}
	if (s == NULL) {
		s = survey_new(p, c, FOR_LIST, "list", a->region);
		s->install = a->install;
	}
	v = survey_step(p, c, s);
	a->found = s->found;
	a->n = v == SPOT_DONE ? s->n : 0;
	return v;
}

enum spot_step cw_describe(void *p, struct spot_call *c, struct spot_describe *a)
{
	struct survey *s = c->state;
	enum spot_step v;

	if (a->refs_n == 0) {
		a->n = 0;
		return SPOT_DONE;
	}
	if (s == NULL) {
		s = survey_new(p, c, FOR_DESCRIBE, "describe", a->region);
		s->refs = a->refs;
		s->refs_n = a->refs_n;
		s->keys = a->keys;
	}
	v = survey_step(p, c, s);
	a->found = s->found;
	a->n = v == SPOT_DONE ? s->n : 0;
	return v;
}

enum spot_step cw_notices(void *p, struct spot_call *c, struct spot_notices *a)
{
	struct survey *s = c->state;
	const char **refs;
	enum spot_step v;

	if (a->instances_n == 0) {
		a->n = 0;
		return SPOT_DONE;
	}
	if (s == NULL) {
		s = survey_new(p, c, FOR_NOTICES, "notices", a->region);
		refs = arena_array(c->arena, a->instances_n, sizeof(*refs));
		for (size_t i = 0; i < a->instances_n; i++) {
			refs[i] = a->instances[i].ref;
		}
		s->refs = refs;
		s->refs_n = a->instances_n;
	}
	v = survey_step(p, c, s);
	a->notices = s->notices;
	a->n = v == SPOT_DONE ? s->notices_n : 0;
	return v;
}
