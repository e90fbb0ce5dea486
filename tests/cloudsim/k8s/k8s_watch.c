/*
 * Watches: one chunked reply per watch, one JSON object per line. A watch starts at a version of
 * the log, or with the existing objects. It ends at its timeout without an error. A version that
 * the log has forgotten is 410, as an HTTP status or as an ERROR event. After "Efficient detection
 * of changes", "Watch bookmarks" and "Streaming lists" of the Kubernetes API concepts.
 */
#include "base/base.h"
#include "cloudsim/k8s/k8s.h"
#include "base/text/text.h"

struct k8s_watch {
	struct k8s_watch *next;
	struct k8s_cluster *c;
	struct httpd_req *http;
	const struct k8s_kind *kind;
	struct k8s_selector sel;
	json_t *owner;
	bool bookmarks;
	struct loop_timer end, bookmark;
};

static void watch_unlink(struct k8s_watch *w)
{
	for (struct k8s_watch **at = &w->c->watches; *at; at = &(*at)->next) {
		if (*at == w) {
			*at = w->next;
			break;
		}
	}
	loop_timer_stop(&w->end);
	loop_timer_stop(&w->bookmark);
}

static void watch_free(void *p)
{
	struct k8s_watch *w = p;

	json_decref(w->owner);
	free(w);
}

static void watch_gone(struct httpd_req *r)
{
	struct k8s_watch *w = r->user;

	watch_unlink(w);
	loop_bury(w->c->sim->loop, w, watch_free);
}

static bool watch_send(struct k8s_watch *w, const char *type, json_t *object)
{
	json_t *line = json_pack("{s:s, s:o}", "type", type, "object", object);
	char *text = json_dumps(line, JSON_COMPACT);
	size_t n = strlen(text);
	bool ok;

	text[n] = '\n'; /* in the place of the NUL: the length goes with it */
	ok = httpd_stream_write(w->http, text, n + 1);
	free(text);
	json_decref(line);
	return ok;
}

static json_t *bookmark_json(const struct k8s_watch *w, bool initial_end)
{
	json_t *meta = json_pack("{s:o, s:n}", "resourceVersion",
	    json_sprintf("%" PRIu64, w->c->rv), "creationTimestamp");
	json_t *o = json_pack("{s:s, s:o, s:o}", "kind", w->kind->kind, "apiVersion",
	    *w->kind->group ? json_sprintf("%s/%s", w->kind->group, w->kind->version)
			    : json_string(w->kind->version),
	    "metadata", meta);

	if (initial_end) {
		json_object_set_new(meta, "annotations",
		    json_pack("{s:s}", "k8s.io/initial-events-end", "true"));
	}
	/* A typed empty object is encoded with its required members. */
	if (w->kind->id == K8S_POD) {
		json_object_set_new(o, "spec", json_pack("{s:n}", "containers"));
	}
	if (w->kind->id == K8S_POD || w->kind->id == K8S_NODE) {
		k_obj(o, "status");
	}
	if (w->kind->id == K8S_NODE) {
		k_obj(o, "spec");
	}
	return o;
}

static void watch_end(struct loop_timer *t)
{
	struct k8s_watch *w = container_of(t, struct k8s_watch, end);

	if (w->bookmarks && !watch_send(w, "BOOKMARK", bookmark_json(w, false))) {
		return;
	}
	w->http->gone = NULL;
	httpd_stream_end(w->http);
	watch_unlink(w);
	loop_bury(w->c->sim->loop, w, watch_free);
}

static void watch_bookmark(struct loop_timer *t)
{
	struct k8s_watch *w = container_of(t, struct k8s_watch, bookmark);

	loop_timer_set(t, w->c->bookmark_us);
	watch_send(w, "BOOKMARK", bookmark_json(w, false));
}

void k8s_watches_end(struct k8s_cluster *c)
{
	while (c->watches) {
		c->watches->bookmarks = false;
		watch_end(&c->watches->end);
	}
}

/* ---- changes --------------------------------------------------------------------------------- */

/* Turns a change into the event of a watch with a selector: an object that begins to match is
 * new. */
static bool watch_change(struct k8s_watch *w, const struct k8s_change *e)
{
	bool now = k8s_selects(&w->sel, e->kind, e->doc),
	     was = e->prev && k8s_selects(&w->sel, e->kind, e->prev);
	const char *type = NULL;

	if (e->kind != w->kind) {
		return true;
	}
	if (str_same(e->type, "DELETED")) {
		type = was ? "DELETED" : NULL;
	} else if (now) {
		type = was ? "MODIFIED" : "ADDED";
	} else if (was) {
		type = "DELETED";
	}
	return !type || watch_send(w, type, json_incref(e->doc));
}

void k8s_watch_feed(struct k8s_cluster *c, const struct k8s_change *e)
{
	struct k8s_watch *next;

	for (struct k8s_watch *w = c->watches; w; w = next) {
		next = w->next;
		watch_change(w, e);
	}
}

/* ---- start ----------------------------------------------------------------------------------- */

enum from { FROM_VERSION, FROM_NOW, FROM_ALL };

static bool version_read(struct k8s_call *q, uint64_t *ret, enum from *ret_from)
{
	const char *rv = k8s_query(q, "resourceVersion");
	int64_t v = 0;

	if (rv && *rv && !parse_i64(rv, 0, INT64_MAX, &v)) {
		k8s_fail(q, 400, "BadRequest", "resourceVersion: Invalid value: \"%s\"", rv);
		return false;
	}
	*ret = (uint64_t)v;
	*ret_from = v == 0 ? FROM_ALL : FROM_VERSION;
	if (*ret > q->c->rv) {
		json_t *causes = json_pack("[{s:s, s:s}]", "reason", "ResourceVersionTooLarge",
		    "message", "Too large resource version");

		k8s_fail_with(q, 504, "Timeout", causes,
		    arena_printf(q->arena,
			"Too large resource version: %" PRIu64 ", current: %" PRIu64, *ret,
			q->c->rv));
		return false;
	}
	return true;
}

static bool streaming_list(struct k8s_call *q, bool *ret)
{
	const char *match = k8s_query(q, "resourceVersionMatch");
	json_t *causes;

	*ret = false;
	if (k8s_query(q, "sendInitialEvents") && !q->c->watch_list) {
		causes = json_array();
		cause_add(causes, "FieldValueForbidden", "sendInitialEvents",
		    "sendInitialEvents is forbidden for watch unless the WatchList feature gate "
		    "is enabled");
		k8s_fail_with(q, 422, "Invalid", causes, NULL);
		return false;
	}
	if (k8s_query(q, "sendInitialEvents") && !str_same(match, "NotOlderThan")) {
		causes = json_array();
		cause_add(causes, "FieldValueForbidden", "resourceVersionMatch",
		    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
		k8s_fail_with(q, 422, "Invalid", causes, NULL);
		return false;
	}
	if (match && !k8s_query(q, "sendInitialEvents")) {
		causes = json_array();
		cause_add(causes, "FieldValueForbidden", "resourceVersionMatch",
		    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is "
		    "provided");
		k8s_fail_with(q, 422, "Invalid", causes, NULL);
		return false;
	}
	*ret = k8s_query_true(q, "sendInitialEvents");
	return true;
}

static bool send_all(struct k8s_watch *w)
{
	for (struct k8s_obj *o = w->c->objs[w->kind->id]; o; o = o->next) {
		if (k8s_selects(&w->sel, o->kind, o->doc) &&
		    !watch_send(w, "ADDED", json_incref(o->doc))) {
			return false;
		}
	}
	return true;
}

static bool send_since(struct k8s_watch *w, uint64_t rv)
{
	for (size_t k = 0; k < w->c->changes_n; k++) {
		if (w->c->changes[k].rv > rv && !watch_change(w, &w->c->changes[k])) {
			return false;
		}
	}
	return true;
}

static int64_t timeout_of(struct k8s_call *q)
{
	const char *text = k8s_query(q, "timeoutSeconds");
	int64_t s = 0, us;

	/* Without one the server ends a watch after 30 to 60 minutes, at random. */
	if (!text || !parse_i64(text, 0, 86400, &s) || s == 0) {
		s = 1800 + (int64_t)rng_below(&q->c->sim->rng, 1800);
	}
	us = s * SPOT_US_PER_S;
	return q->c->watch_us_max > 0 ? MIN(us, q->c->watch_us_max) : us;
}

static struct k8s_watch *watch_new(struct k8s_call *q, const struct k8s_selector *sel,
    json_t *owner)
{
	struct k8s_watch *w = calloc(1, sizeof(*w));

	if (!w) {
		abort();
	}
	w->c = q->c;
	w->http = q->rq->http;
	w->kind = q->kind;
	w->sel = *sel;
	w->owner = owner;
	w->bookmarks = k8s_query_true(q, "allowWatchBookmarks");
	loop_timer_init(&w->end, q->c->sim->loop, watch_end);
	loop_timer_init(&w->bookmark, q->c->sim->loop, watch_bookmark);
	w->http->user = w;
	w->http->gone = watch_gone;
	q->rep->parked = true;
	q->rep->status = 200;
	httpd_stream_begin(w->http, 200, "application/json");
	return w;
}

static bool too_old(struct k8s_call *q, uint64_t rv)
{
	const char *message = arena_printf(q->arena,
	    "too old resource version: %" PRIu64 " (%" PRIu64 ")", rv, q->c->compacted);
	json_t *status, *line;
	char *text;

	if (rv >= q->c->compacted) {
		return false;
	}
	if (q->c->expired_by_http) {
		k8s_fail(q, 410, "Expired", "%s", message);
		return true;
	}
	status = k8s_status_json(q, 410, "Expired", message, NULL);
	line = json_pack("{s:s, s:o}", "type", "ERROR", "object", status);
	text = arena_printf(q->arena, "%s\n", json_text(q->arena, line));
	json_decref(line);
	q->rep->parked = true;
	q->rep->status = 200;
	httpd_stream_begin(q->rq->http, 200, "application/json");
	if (httpd_stream_write(q->rq->http, text, strlen(text))) {
		httpd_stream_end(q->rq->http);
	}
	return true;
}

void k8s_watch_start(struct k8s_call *q)
{
	bool initial, ok = true;
	struct k8s_selector sel;
	struct k8s_watch *w;
	enum from from;
	json_t *owner;
	uint64_t rv;

	if (!streaming_list(q, &initial) || !version_read(q, &rv, &from)) {
		return;
	}
	if (initial) {
		from = FROM_ALL;
	} else if (k8s_query(q, "sendInitialEvents") && from == FROM_ALL) {
		from = FROM_NOW;
	}
	if (from == FROM_VERSION && too_old(q, rv)) {
		return;
	}
	if (!k8s_selector_read(q, &sel, &owner)) {
		return;
	}
	/* The selector's texts are in the request's arena, which lives as long as the stream. */
	w = watch_new(q, &sel, owner);
	if (from == FROM_ALL) {
		ok = send_all(w);
	} else if (from == FROM_VERSION) {
		ok = send_since(w, rv);
	}
	if (ok && initial && w->bookmarks) {
		ok = watch_send(w, "BOOKMARK", bookmark_json(w, true));
	}
	if (!ok) {
		return; /* the reader is gone; watch_gone was told */
	}
	w->next = q->c->watches;
	q->c->watches = w;
	loop_timer_set(&w->end, timeout_of(q));
	if (w->bookmarks) {
		loop_timer_set(&w->bookmark, q->c->bookmark_us);
	}
}
