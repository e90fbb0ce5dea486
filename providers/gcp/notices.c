#include "base/base.h"
#include "gcp_priv.h"

/*
 * Polls the control plane about preemptions. With DELETE a preempted machine just disappears, and
 * its trace is a system operation compute.instances.preempted
 * (docs.cloud.google.com/compute/docs/instances/create-use-spot, "Detect preemption"). One list for
 * all zones, newest first. Matched by targetId: names are used again, ids never.
 */

#define WHAT "globalOperations.aggregatedList"
#define PREEMPTED "compute.instances.preempted"
#define HARD_OFF_US (30 * SPOT_US_PER_S)
#define LOOK_BACK_US (INT64_C(24) * SPOT_US_PER_HOUR)

struct noticed {
	struct spot_notice *items;
	size_t n, cap;
	bool old; /* a page reached what is older than we look back */
};

static enum spot_step notices_send(struct gcp *self, struct spot_call *c)
{
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "GET",
		.what = WHAT,
		.limit = GCP_LIMIT_LIST };

	r.path = arena_printf(c->arena,
	    "/compute/v1/projects/%s/aggregated/operations?filter=%s&orderBy=%s&maxResults=500%s",
	    self->project, url_encode(c->arena, "operationType=\"" PREEMPTED "\"", false),
	    url_encode(c->arena, "creationTimestamp desc", false), gcp_page(c));
	return gcp_send(self, c, &r);
}

/* Of the instances that were asked about. */
static const char *ref_of(struct spot_call *c, const struct spot_notices *a, const char *zone,
    const char *id)
{
	const char *ref = arena_printf(c->arena, "%s/%s", zone, id);

	for (size_t i = 0; i < a->instances_n; i++) {
		if (str_same(a->instances[i].ref, ref)) {
			return a->instances[i].ref;
		}
	}
	return NULL;
}

/* False: malformed. */
static bool operation_take(struct spot_call *c, const struct spot_notices *a, struct noticed *x,
    const json_t *op)
{
	bool bad = false;
	const char *type = gcp_str(c->arena, op, "operationType", &bad);
	const char *id = gcp_id(c->arena, op, "targetId", &bad);
	const char *zone = gcp_last(gcp_str(c->arena, op, "zone", &bad));
	const char *when = gcp_str(c->arena, op, "insertTime", &bad);
	const char *words = gcp_str(c->arena, op, "statusMessage", &bad), *ref;
	int64_t at = gcp_time(when);

	if (bad || *type == '\0') {
		return false;
	}
	if (at != 0 && at < c->now_us - LOOK_BACK_US) {
		x->old = true;
		return true;
	}
	ref = ref_of(c, a, zone, id);
	if (strcmp(type, PREEMPTED) != 0 || ref == NULL) {
		return true;
	}
	x->items = arena_grow(c->arena, x->items, x->n, &x->cap, sizeof(*x->items));
	/* The soft off comes with it and the hard one half a minute later
	 * (skip_guest_os_shutdown). */
	x->items[x->n++] = (struct spot_notice){ .ref = ref,
		.kind = SPOT_NOTICE_INTERRUPTION,
		.deadline_us = at != 0 ? at + HARD_OFF_US : 0,
		.source = "preempted-operation",
		.raw = arena_printf(c->arena, "%s at %s: %.200s", type, when, words) };
	return true;
}

static enum spot_step notices_reply(struct gcp *self, struct spot_call *c,
    const struct spot_notices *a, struct noticed *x, bool *ret_more)
{
	json_t *doc AUTO(json) = NULL, *items, *list;
	const char *scope;
	enum spot_step s = gcp_reply(self, c, WHAT, "compute#operationAggregatedList", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	items = json_object_get(doc, "items");
	if (items != NULL && !json_is_object(items)) {
		return gcp_bad_reply(c, WHAT, "items is not an object of scopes");
	}
	json_object_foreach (items, scope, list) {
		const json_t *ops = json_object_get(list, "operations"), *op;
		size_t i;

		if (!json_is_object(list) || (ops != NULL && !json_is_array(ops))) {
			return gcp_bad_reply(c, WHAT, "%.60s: operations is not a list", scope);
		}
		json_array_foreach (ops, i, op) {
			if (!operation_take(c, a, x, op)) {
				return gcp_bad_reply(c, WHAT,
				    "%.60s: entry %zu has no operationType", scope, i);
			}
		}
	}
	*ret_more = gcp_next_page(c, WHAT, doc, &s);
	return s;
}

enum spot_step gcp_notices(void *p, struct spot_call *c, struct spot_notices *a)
{
	struct gcp *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct noticed));
	struct noticed *x = st->own;
	bool more = false;

	if (c->in != NULL) {
		enum spot_step s = notices_reply(self, c, a, x, &more);

		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	if ((c->in == NULL && a->instances_n > 0) || (more && !x->old)) {
		return notices_send(self, c);
	}
	a->notices = x->items;
	a->n = x->n;
	return SPOT_DONE;
}
