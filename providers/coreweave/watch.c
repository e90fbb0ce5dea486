/*
 * The Pods watch (kubernetes.io/docs/reference/using-api/api-concepts, "efficient detection of
 * changes"): a list gives the place to begin, a stream the changes from there. A bookmark moves the
 * place on without news. History is short (about five minutes). A place that is too old gets a 410,
 * as HTTP status or as an ERROR event in a good stream. Then everything is listed once, and the
 * caller learns of the gap. A call ends with the first news or after its hold.
 *
 * The cursor keeps the place of every cluster of the region: "name=resourceVersion name=...". A
 * region with several clusters is listened to in turns; nothing is lost, for each stream goes on
 * where it was.
 */
#include "base/base.h"
#include "coreweave_priv.h"

#define SLICE_US (3 * SPOT_US_PER_S) /* of one cluster, where there are several */

struct watching {
	struct cw_cluster *cl;
	size_t clusters, turn; /* in the region; which one it is */
	bool streaming;
	const char *rv; /* place of the stream of cl; NULL = to be listed */
	const char *cont;
	size_t pages;
	int64_t until_us;
	size_t seen_cap, notices_cap;
};

/* ---- the cursor ------------------------------------------------------------------------------ */

/* Place of a cluster; NULL = none. "turn" is kept like a cluster whose name no cluster has. */
static const char *cursor_get(struct arena *a, const char *cursor, const char *name)
{
	size_t n = strlen(name);

	while (cursor != NULL && *cursor != '\0') {
		size_t len = strcspn(cursor, " ");

		if (len > n + 1 && strncmp(cursor, name, n) == 0 && cursor[n] == '=') {
			return arena_strndup(a, cursor + n + 1, len - n - 1);
		}
		cursor += len + strspn(cursor + len, " ");
	}
	return NULL;
}

static bool rv_ok(const char *rv)
{
	return rv != NULL && rv[0] != '\0' && strlen(rv) <= 100 &&
	    strspn(rv, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.") ==
	    strlen(rv);
}

static const char *cursor_make(const struct cw *self, struct arena *a, const struct spot_watch *w,
    const struct watching *x)
{
	const char *out = arena_printf(a, "/turn=%zu", x->turn + 1);
	struct cw_cluster *cl;
	size_t i = 0;

	while ((cl = cw_cluster_next(self, w->region, "", &i)) != NULL) {
		const char *rv = cl == x->cl ? x->rv : cursor_get(a, w->cursor, cl->name);

		if (rv_ok(rv)) {
			out = arena_printf(a, "%s %s=%s", out, cl->name, rv);
		}
	}
	return out;
}

/* ---- requests -------------------------------------------------------------------------------- */

static enum spot_step watch_send(const struct cw *self, struct spot_call *c,
    const struct spot_watch *w, const struct watching *x)
{
	int64_t left_s = MAX((x->until_us - c->now_us) / SPOT_US_PER_S, 1);
	const char *path =
	    arena_printf(c->arena, "/api/v1/namespaces/%s/pods?labelSelector=%s", self->space,
		url_encode(c->arena, arena_printf(c->arena, CW_LABEL_INSTALL "=%s", w->install),
		    false));

	if (x->rv == NULL) {
		cw_request(self, c, x->cl, "GET",
		    cw_page_path(c->arena, arena_printf(c->arena, "%s&limit=500", path), x->cont));
		return SPOT_SEND;
	}
	cw_request(self, c, x->cl, "GET",
	    arena_printf(c->arena,
		"%s&watch=1&allowWatchBookmarks=true&timeoutSeconds=%" PRId64 "&resourceVersion=%s",
		path, left_s, url_encode(c->arena, x->rv, false)));
	c->out.stream = true;
	c->out.timeout_us = (left_s + 5) * SPOT_US_PER_S;
	return SPOT_SEND;
}

static enum spot_step watch_end(const struct cw *self, struct spot_call *c, struct spot_watch *w,
    const struct watching *x)
{
	w->next_cursor = cursor_make(self, c->arena, w, x);
	return SPOT_DONE;
}

/* From the beginning: what happened meanwhile is not known. */
static enum spot_step watch_relist(const struct cw *self, struct spot_call *c, struct spot_watch *w,
    struct watching *x)
{
	w->gap = true;
	w->seen_n = w->notices_n = 0;
	x->rv = x->cont = NULL;
	x->pages = 0;
	return watch_send(self, c, w, x);
}

/* ---- news ------------------------------------------------------------------------------------ */

static void seen_add(const struct cw *self, struct spot_call *c, struct spot_watch *w,
    struct watching *x, const struct cw_pod *p, bool deleted)
{
	struct spot_notice n;

	w->seen = arena_grow(c->arena, w->seen, w->seen_n, &x->seen_cap, sizeof(*w->seen));
	cw_instance(self, c, x->cl, p, NULL, &w->seen[w->seen_n]);
	if (deleted) {
		struct spot_instance *i = &w->seen[w->seen_n];

		/* Not there any more: a spot Pod that we did not end and that did not end by itself
		 * was taken. */
		if (i->state != SPOT_INSTANCE_INTERRUPTED) {
			bool over =
			    strcmp(p->phase, "Succeeded") == 0 || strcmp(p->phase, "Failed") == 0;
			bool taken = !cw_pod_ours(p) && !over &&
			    (p->disruption != NULL || strcmp(p->market, "spot") == 0);

			i->state = SPOT_INSTANCE_GONE;
			i->end_cause = taken ? SPOT_END_RECLAIM : i->end_cause;
		}
	}
	w->seen_n++;
	if (!deleted && cw_notice(c, x->cl, p, NULL, &n)) {
		w->notices = arena_grow(c->arena, w->notices, w->notices_n, &x->notices_cap,
		    sizeof(*w->notices));
		w->notices[w->notices_n++] = n;
	}
}

static enum spot_step list_read(const struct cw *self, struct spot_call *c, struct spot_watch *w,
    struct watching *x)
{
	json_t *doc = NULL, *items;
	enum spot_step s = cw_reply_get(c, x->cl, "watch", false, "PodList", &doc);
	const char *bad = NULL, *rv;
	bool more, repeats;

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	items = json_object_get(doc, "items");
	bad = (json_is_array(items) || json_is_null(items)) ? NULL : "a list without items";
	for (size_t i = 0; i < json_array_size(items) && bad == NULL; i++) {
		struct cw_pod p;

		if (cw_pod_read(c->arena, json_array_get(items, i), &p, &bad)) {
			seen_add(self, c, w, x, &p, false);
		}
	}
	rv = cw_str(c->arena, json_object_get(doc, "metadata"), "resourceVersion");
	more = cw_page_next(c->arena, doc, &x->cont, &x->pages, &repeats);
	json_decref(doc);
	if (bad != NULL || repeats || (!more && !rv_ok(rv))) {
		return cw_bad_reply(c, "watch", false,
		    bad != NULL ? bad : "pages without end or no resourceVersion");
	}
	if (more) {
		return watch_send(self, c, w, x);
	}
	x->rv = rv;
	return watch_end(self, c, w, x);
}

/* One event. NONE = go on; a verdict otherwise. */
static enum spot_step event_read(const struct cw *self, struct spot_call *c, struct spot_watch *w,
    struct watching *x, const json_t *o, bool *ret_gone)
{
	const char *type = cw_str(c->arena, o, "type"), *bad, *rv;
	const json_t *object = json_object_get(o, "object");
	struct cw_pod p;

	if (strcmp(type, "ERROR") == 0) {
		int64_t code = json_integer_value(json_object_get(object, "code"));

		*ret_gone = code == 410;
		return code == 410 ? SPOT_STEP_NONE
				   : call_fail(c, SPOT_UNAVAILABLE,
					 cw_words(c->arena, cw_str(c->arena, object, "reason")),
					 "cluster %s: watch: %s", x->cl->name,
					 cw_words(c->arena, cw_str(c->arena, object, "message")));
	}
	rv = cw_str(c->arena, json_object_get(object, "metadata"), "resourceVersion");
	if (strcmp(type, "BOOKMARK") != 0) {
		if (!cw_pod_read(c->arena, object, &p, &bad)) {
			return cw_bad_reply(c, "watch", false, bad);
		}
		seen_add(self, c, w, x, &p, strcmp(type, "DELETED") == 0);
	}
	x->rv = rv_ok(rv) ? rv : x->rv;
	return SPOT_STEP_NONE;
}

static enum spot_step lines_read(const struct cw *self, struct spot_call *c, struct spot_watch *w,
    struct watching *x, bool *ret_gone)
{
	struct str rest = c->in->body;
	enum spot_step s = SPOT_STEP_NONE;

	while (rest.n > 0 && s == SPOT_STEP_NONE && !*ret_gone) {
		const char *nl = memchr(rest.p, '\n', rest.n);
		struct str line = { rest.p, nl != NULL ? (size_t)(nl - rest.p) : rest.n };
		struct spot_err ignored = { 0 };
		AUTO(json) json_t *o = NULL;

		rest.p += MIN(line.n + 1, rest.n);
		rest.n -= MIN(line.n + 1, rest.n);
		if (line.n == 0 || (line.n == 1 && line.p[0] == '\r')) {
			continue;
		}
		if (json_parse(line, "event", &o, &ignored) != SPOT_OK || !json_is_object(o)) {
			/* A stream that was cut ends in the middle of a line: what came before
			 * counts. */
			return c->in->partial
			    ? cw_bad_reply(c, "watch", false, "a line is not a JSON object")
			    : SPOT_STEP_NONE;
		}
		s = event_read(self, c, w, x, o, ret_gone);
	}
	return s;
}

static enum spot_step stream_read(const struct cw *self, struct spot_call *c, struct spot_watch *w,
    struct watching *x)
{
	bool gone = c->in->status == 410;
	enum spot_step s;
	struct cw_reply r;

	if (c->in->status != 200 && !gone) {
		cw_reply_read(c, x->cl->managed, &r);
		json_decref(r.doc);
		return r.rc == SPOT_OK ? cw_bad_reply(c, "watch", false, "no stream")
				       : cw_reply_verdict(c, x->cl, "watch", false, &r);
	}
	s = gone ? SPOT_STEP_NONE : lines_read(self, c, w, x, &gone);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (gone) {
		return watch_relist(self, c, w, x);
	}
	if (w->seen_n > 0 || !c->in->partial) {
		/* news, or the server's own end: from x->rv on next time */
		return watch_end(self, c, w, x);
	}
	return SPOT_MORE;
}

/* ---- the verb -------------------------------------------------------------------------------- */

static enum spot_step watch_begin(const struct cw *self, struct spot_call *c, struct spot_watch *w,
    struct watching *x)
{
	const char *turn = cursor_get(c->arena, w->cursor, "/turn");
	struct cw_cluster *cl;
	size_t i = 0, k = 0;
	int64_t t = 0;

	while (cw_cluster_next(self, w->region, "", &i) != NULL) {
		x->clusters++;
	}
	if (x->clusters == 0) {
		return call_fail(c, SPOT_NOT_FOUND, NULL, "watch: no cluster in region '%.60s'",
		    w->region);
	}
	x->turn = turn != NULL && parse_i64(turn, 0, INT32_MAX, &t) ? (size_t)t % x->clusters : 0;
	i = 0;
	while ((cl = cw_cluster_next(self, w->region, "", &i)) != NULL && k++ < x->turn) {
	}
	assert(cl != NULL); /* turn is below the number of clusters */
	x->cl = cl;
	x->rv = cursor_get(c->arena, w->cursor, cl->name);
	x->rv = rv_ok(x->rv) ? x->rv : NULL;
	/* The first list of a cluster is where its story begins, not a gap in it. */
	x->until_us = c->now_us + (x->clusters > 1 ? MIN(SLICE_US, w->hold_us) : w->hold_us);
	if (cl->bad_rc != SPOT_OK) {
		return cw_cluster_bad(c, cl, "watch");
	}
	return SPOT_STEP_NONE;
}

enum spot_step cw_watch(void *p, struct spot_call *c, struct spot_watch *w)
{
	const struct cw *self = p;
	struct watching *x = c->state;
	enum spot_step s;

	if (x == NULL) {
		if (!cw_label_ok(w->install)) {
			return call_fail(c, SPOT_INVALID, NULL, "watch: no installation given");
		}
		c->state = x = arena_alloc(c->arena, sizeof(*x));
		w->seen_n = w->notices_n = 0;
		w->gap = false;
		s = watch_begin(self, c, w, x);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	if (c->in == NULL) {
		return watch_send(self, c, w, x);
	}
	if (x->rv != NULL) {
		return stream_read(self, c, w, x);
	}
	return c->in->status == 410 && x->cont != NULL ? watch_relist(self, c, w, x)
						       : list_read(self, c, w, x);
}
