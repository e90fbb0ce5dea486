#include "base/base.h"
#include "gcp_priv.h"

/*
 * Polls the control plane about preemptions. With DELETE a preempted machine just disappears, and
 * its trace is a system operation compute.instances.preempted
 * (docs.cloud.google.com/compute/docs/instances/create-use-spot, "Detect preemption"). One list for
 * all zones, newest first. Matched by targetId: names are used again, ids never.
 *
 * Of machines in reservations that end, the list of our machines tells which is in which. It tells
 * the ends of flex-start machines, too.
 */

#define WHAT "globalOperations.aggregatedList"
#define MACHINES_WHAT "instances.aggregatedList"
#define PREEMPTED "compute.instances.preempted"
#define HARD_OFF_US (30 * SPOT_US_PER_S)
#define LOOK_BACK_US (INT64_C(24) * SPOT_US_PER_HOUR)

enum { OPERATIONS = 0, RESERVATIONS, MACHINES, OVER };

struct noticed {
	struct gcp_reservations reservations;
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

/* ---- the ends of reservations ---------------------------------------------------------------- */

static bool any_of(const struct spot_notices *a, enum spot_market market)
{
	for (size_t i = 0; i < a->instances_n; i++) {
		if (a->instances[i].key.market == market) {
			return true;
		}
	}
	return false;
}

static bool any_ending(const struct gcp_reservations *x)
{
	for (size_t i = 0; i < x->n; i++) {
		if (x->list[i].ends_us != 0 && x->list[i].used > 0) {
			return true;
		}
	}
	return false;
}

static enum spot_step machines_send(struct gcp *self, struct spot_call *c,
    const struct spot_notices *a)
{
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "GET",
		.what = MACHINES_WHAT,
		.limit = GCP_LIMIT_LIST,
		.reply_bytes_max = GCP_LIST_BYTES_MAX };

	r.path = arena_printf(c->arena,
	    "/compute/v1/projects/%s/aggregated/instances?filter=%s&" GCP_PAGE "%s", self->project,
	    url_encode(c->arena, gcp_filter_mine(c->arena, a->instances[0].install), false),
	    gcp_page(c));
	return gcp_send(self, c, &r);
}

static void end_add(struct spot_call *c, struct noticed *x, const char *ref, int64_t ends_us,
    const char *source, const char *raw)
{
	x->items = arena_grow(c->arena, x->items, x->n, &x->cap, sizeof(*x->items));
	x->items[x->n++] = (struct spot_notice){ .ref = ref,
		.kind = SPOT_NOTICE_EXPIRY,
		.deadline_us = ends_us,
		.source = source,
		.raw = raw };
}

static void end_take(struct spot_call *c, const struct spot_notices *a, struct noticed *x,
    const json_t *item)
{
	bool bad = false;
	const json_t *affinity = json_object_get(item, "reservationAffinity");
	const char *in = json_string_value(json_array_get(json_object_get(affinity, "values"), 0));
	const char *zone = gcp_last(gcp_str(c->arena, item, "zone", &bad));
	const char *ref = ref_of(c, a, zone, gcp_id(c->arena, item, "id", &bad));
	int64_t ends = gcp_flex_ends_us(c, item);

	if (ref != NULL && ends > 0) {
		end_add(c, x, ref, ends, "flex-start", "its limited run time ends");
	}
	for (size_t i = 0; i < x->reservations.n && ref != NULL && in != NULL; i++) {
		const struct gcp_reservation *r = &x->reservations.list[i];

		if (r->ends_us == 0 || strcmp(r->name, in) != 0 || strcmp(r->zone, zone) != 0) {
			continue;
		}
		end_add(c, x, ref, r->ends_us, "reservation",
		    arena_printf(c->arena, "reservation %s ends", r->name));
	}
}

static enum spot_step machines_reply(struct gcp *self, struct spot_call *c,
    const struct spot_notices *a, struct noticed *x, bool *ret_more)
{
	json_t *doc AUTO(json) = NULL, *scopes, *list;
	const char *scope;
	enum spot_step s =
	    gcp_reply(self, c, MACHINES_WHAT, "compute#instanceAggregatedList", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	scopes = json_object_get(doc, "items");
	json_object_foreach (scopes, scope, list) {
		const json_t *items = json_object_get(list, "instances"), *item;
		size_t i;

		json_array_foreach (items, i, item) {
			end_take(c, a, x, item);
		}
	}
	*ret_more = gcp_next_page(c, MACHINES_WHAT, doc, &s);
	return s;
}

/* ---- the verb -------------------------------------------------------------------------------- */

static enum spot_step any_reply(struct gcp *self, struct spot_call *c, const struct spot_notices *a,
    struct noticed *x)
{
	struct call_state *st = c->state;
	bool more = false;
	enum spot_step s = st->at == OPERATIONS ? notices_reply(self, c, a, x, &more)
	    : st->at == RESERVATIONS ? gcp_reservations_reply(self, c, &x->reservations, &more)
				     : machines_reply(self, c, a, x, &more);

	if (s != SPOT_STEP_NONE || (more && !(st->at == OPERATIONS && x->old))) {
		return s;
	}
	st->next = NULL;
	if (st->at == OPERATIONS && self->reservations && any_of(a, SPOT_MARKET_RESERVED)) {
		st->at = RESERVATIONS;
	} else if (st->at != MACHINES &&
	    (any_ending(&x->reservations) || any_of(a, SPOT_MARKET_FLEX_START))) {
		st->at = MACHINES;
	} else {
		st->at = OVER;
	}
	return SPOT_STEP_NONE;
}

enum spot_step gcp_notices(void *p, struct spot_call *c, struct spot_notices *a)
{
	struct gcp *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct noticed));
	struct noticed *x = st->own;

	if (c->in != NULL) {
		enum spot_step s = any_reply(self, c, a, x);

		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	if (st->at != OVER && a->instances_n > 0) {
		return st->at == OPERATIONS  ? notices_send(self, c)
		    : st->at == RESERVATIONS ? gcp_reservations_send(self, c)
					     : machines_send(self, c, a);
	}
	a->notices = x->items;
	a->n = x->n;
	return SPOT_DONE;
}
