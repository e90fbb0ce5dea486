#include "base/base.h"
#include "gcp_priv.h"

/*
 * Several machines at once: instances.bulkInsert of one zone. With fewer than minCount, Google
 * deletes what it made (docs.cloud.google.com/compute/docs/instances/multiple/about-bulk-creation):
 * minCount is count for a gang, and 1 for a set. Names are given one by one
 * (perInstanceProperties), because a pattern would number on at a repeat. The operation's error is
 * only a summary; the causes are in its children, found by operationGroupId. The operation of a set
 * that came in part is a success. Its metadata count the machines.
 */

#define WHAT "instances.bulkInsert"
#define WAITS_MAX 60
#define WAIT_FLOOR_US (2 * SPOT_US_PER_S)
#define GANG_MAX 1000

enum { INSERT = 0, WAIT, CHILDREN, LIST, RESERVATION, POLICY };

struct ganging {
	const char *operation, *group;
	int64_t expires_us, asked_us;
	bool notice;
	int waits;
	int64_t made; /* machines that the operation made and left; -1 = it does not say */
	const char *code, *words;
	enum spot_rc rc;
	int rank;
	enum spot_scope scope;
	struct spot_instance *items;
	size_t n, cap;
	struct gcp_reservations reservations;
	const char *reservation;
	struct gcp_policy policy;
};

static size_t gang_least(const struct spot_launch_gang *g)
{
	return g->least == 0 ? g->want : MIN(g->least, g->want);
}

static const char *member_name(struct arena *a, const struct spot_launch_gang *g, size_t i)
{
	return gcp_vm_name(a, arena_printf(a, "%s-%zu", g->common.name, i));
}

/* ---- requests -------------------------------------------------------------------------------- */

static enum spot_step insert_send(struct gcp *self, struct spot_call *c,
    const struct spot_launch_gang *g, const struct ganging *x)
{
	const struct spot_launch *l = &g->common;
	json_t *names AUTO(json) = json_object(), *doc AUTO(json) = NULL;
	json_t *properties =
	    gcp_properties(self, c, l, x->expires_us, x->notice, true, x->reservation);
	const char *count = arena_printf(c->arena, "%zu", g->want);
	const char *least = arena_printf(c->arena, "%zu", gang_least(g));
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "POST",
		.what = WHAT,
		.limit = GCP_LIMIT_BULK,
		.mutating = true };

	for (size_t i = 0; i < g->want; i++) {
		json_object_set_new(names, member_name(c->arena, g, i), json_object());
	}
	doc = json_pack("{s:s, s:s, s:O, s:o}", "count", count, "minCount", least,
	    "perInstanceProperties", names, "instanceProperties", properties);
	r.path = arena_printf(c->arena,
	    "/compute/v1/projects/%s/zones/%s/instances/bulkInsert?requestId=%s", self->project,
	    l->key.zone, gcp_uuid(c->arena, l->token));
	r.body = json_text(c->arena, doc);
	return gcp_send(self, c, &r);
}

static enum spot_step children_send(struct gcp *self, struct spot_call *c, const char *zone,
    const struct ganging *x)
{
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "GET",
		.what = "zoneOperations.list",
		.limit = GCP_LIMIT_LIST };
	const char *filter = arena_printf(c->arena, "operationGroupId=\"%s\"", x->group);

	r.path = arena_printf(c->arena,
	    "/compute/v1/projects/%s/zones/%s/operations?filter=%s&maxResults=500%s", self->project,
	    zone, url_encode(c->arena, filter, false), gcp_page(c));
	return gcp_send(self, c, &r);
}

/* The machines, by their token: the operation does not name them. */
static enum spot_step list_send(struct gcp *self, struct spot_call *c, const struct spot_launch *l)
{
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "GET",
		.what = "instances.list",
		.limit = GCP_LIMIT_LIST };
	const char *filter =
	    arena_printf(c->arena, "labels." GCP_LABEL_TOKEN "=%s", gcp_label(c->arena, l->token));

	r.path = arena_printf(c->arena,
	    "/compute/v1/projects/%s/zones/%s/instances?filter=%s&maxResults=500%s", self->project,
	    l->key.zone, url_encode(c->arena, filter, false), gcp_page(c));
	return gcp_send(self, c, &r);
}

/* ---- replies --------------------------------------------------------------------------------- */

static void cause_keep(struct spot_call *c, struct ganging *x, const json_t *error)
{
	const struct gcp_code *k;
	const json_t *e = gcp_error_worst(json_object_get(error, "errors"), &k);
	const char *code = json_string_value(json_object_get(e, "code"));
	const char *words = json_string_value(json_object_get(e, "message"));

	if (k == NULL || code == NULL || (x->code != NULL && k->rank <= x->rank)) {
		return;
	}
	x->code = arena_strdup(c->arena, code);
	x->words = redact_words(c->arena, words != NULL ? words : "", SIZE_MAX);
	x->rc = k->rc;
	x->scope = k->rests;
	x->rank = k->rank;
}

/* Counts the machines that the operation made and did not delete; -1 = it does not say. */
static int64_t made_count(const json_t *operation)
{
	json_t *places =
	    json_object_get(json_object_get(operation, "instancesBulkInsertOperationMetadata"),
		"perLocationStatus");
	int64_t made = 0;
	bool bad = json_object_size(places) == 0;
	const char *place;
	json_t *status;

	json_object_foreach (places, place, status) {
		made += gcp_int(status, "createdVmCount", 0, &bad) -
		    gcp_int(status, "deletedVmCount", 0, &bad);
	}
	return bad ? -1 : made;
}

/* The operation is over. A gang that failed has no machine. Of a set some may be there. */
static enum spot_step operation_end(struct spot_call *c, const struct spot_launch_gang *g,
    struct ganging *x, const json_t *doc)
{
	struct call_state *st = c->state;
	bool set = gang_least(g) < g->want;

	x->made = made_count(doc);
	if (x->made != 0 && (!gcp_operation_failed(doc) || (set && x->made > 0))) {
		st->at = LIST;
		return SPOT_STEP_NONE;
	}
	if (!gcp_operation_failed(doc)) {
		st->at = set ? CHILDREN : LIST;
		return SPOT_STEP_NONE;
	}
	cause_keep(c, x, json_object_get(doc, "error"));
	if (set && x->made < 0 && (x->code == NULL || x->rank >= 0)) {
		return call_fail(c, SPOT_UNKNOWN, x->code,
		    "gcp " WHAT ": it failed, and does not say what it made");
	}
	/* The summary is no cause: quota and an empty zone look alike in it. */
	if (*x->group != '\0' && (x->code == NULL || x->rank < 0)) {
		st->at = CHILDREN;
		return SPOT_STEP_NONE;
	}
	return gcp_operation_error(c, WHAT, doc);
}

static enum spot_step operation_read(struct gcp *self, struct spot_call *c,
    const struct spot_launch_gang *g, struct ganging *x)
{
	struct call_state *st = c->state;
	json_t *doc AUTO(json) = NULL;
	const char *name, *status;
	bool bad = false;
	enum spot_step s = gcp_reply(self, c, WHAT, "compute#operation", &doc);

	if (s == SPOT_FAIL && c->err.rc == SPOT_NOT_FOUND) {
		c->err.rc = SPOT_CONFIG;
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	name = gcp_str(c->arena, doc, "name", &bad);
	status = gcp_str(c->arena, doc, "status", &bad);
	x->group = gcp_id(c->arena, doc, "operationGroupId", &bad);
	if (bad || !gcp_name_ok(name) || *status == '\0') {
		return gcp_bad_reply(c, WHAT, "an operation without name or status");
	}
	x->operation = name;
	st->at = WAIT;
	if (strcmp(status, "DONE") != 0) {
		return SPOT_STEP_NONE;
	}
	return operation_end(c, g, x, doc);
}

static enum spot_step wait_reply(struct gcp *self, struct spot_call *c,
    const struct spot_launch_gang *g, struct ganging *x)
{
	struct call_state *st = c->state;
	enum spot_step s;

	if (c->in->status != 200) {
		s = gcp_error(self, c, "zoneOperations.wait");
		c->err.rc = SPOT_UNKNOWN;
		return s;
	}
	s = operation_read(self, c, g, x);
	if (s != SPOT_STEP_NONE || st->at != WAIT) {
		return s;
	}
	if (++x->waits >= WAITS_MAX) {
		return call_fail(c, SPOT_UNKNOWN, NULL, "gcp " WHAT ": the operation does not end");
	}
	if (c->now_us - x->asked_us < WAIT_FLOOR_US) {
		return call_again(c, SPOT_UNKNOWN, WAIT_FLOOR_US, NULL,
		    "gcp " WHAT ": still running");
	}
	return SPOT_STEP_NONE;
}

static enum spot_step children_reply(struct gcp *self, struct spot_call *c, struct ganging *x)
{
	const char *what = "zoneOperations.list";
	json_t *doc AUTO(json) = NULL;
	const json_t *op;
	size_t i;
	enum spot_step s = gcp_reply(self, c, what, "compute#operationList", &doc);

	/* All were deleted again, whatever the reason is that we cannot read. */
	if (s == SPOT_FAIL) {
		return call_fail(c, x->code != NULL ? SPOT_NO_CAPACITY : SPOT_UNKNOWN, x->code,
		    "gcp " WHAT ": the operation failed, and its errors cannot be read");
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	json_array_foreach (json_object_get(doc, "items"), i, op) {
		if (json_is_object(json_object_get(op, "error"))) {
			cause_keep(c, x, json_object_get(op, "error"));
		}
	}
	if (gcp_next_page(c, what, doc, &s) || s != SPOT_STEP_NONE) {
		return s;
	}
	if (x->code == NULL) {
		return call_fail(c, SPOT_UNKNOWN, NULL,
		    "gcp " WHAT ": the operation failed for a reason that is new to us");
	}
	if (x->rank < 0) {
		return call_fail(c, SPOT_NO_CAPACITY, x->code,
		    "gcp " WHAT ": fewer than wanted could be had");
	}
	call_fail(c, x->rc, x->code, "gcp " WHAT ": %s: %s", x->code, x->words);
	c->err.scope = x->scope;
	return SPOT_FAIL;
}

static enum spot_step list_reply(struct gcp *self, struct spot_call *c, struct spot_launch_gang *g,
    struct ganging *x)
{
	const char *what = "instances.list";
	json_t *doc AUTO(json) = NULL;
	const json_t *items, *item;
	size_t i;
	enum spot_step s = gcp_reply(self, c, what, "compute#instanceList", &doc);

	if (s == SPOT_FAIL) {
		c->err.rc = SPOT_UNKNOWN; /* they are there */
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	items = json_object_get(doc, "items");
	json_array_foreach (items, i, item) {
		x->items = arena_grow(c->arena, x->items, x->n, &x->cap, sizeof(*x->items));
		if (!gcp_instance_read(self, c, item, &x->items[x->n])) {
			return call_fail(c, SPOT_UNKNOWN, NULL,
			    "gcp %s: bad reply: no id, zone or status", what);
		}
		x->items[x->n].token = g->common.token;
		x->items[x->n++].install = g->common.install;
	}
	if (gcp_next_page(c, what, doc, &s) || s != SPOT_STEP_NONE) {
		return s;
	}
	/* Made, and ended since, or the list lags: the same request gives no others, unlike a name
	 * that was taken and is free again. */
	if (x->n == 0 && x->operation != NULL) {
		return call_fail(c, SPOT_GONE, NULL,
		    "gcp " WHAT ": none of %zu machines is in the list", g->want);
	}
	/* A repeat under a name that is taken does not know how many there were. */
	if (x->n != g->want && (gang_least(g) == g->want || (int64_t)x->n != x->made)) {
		return call_fail(c, SPOT_UNKNOWN, NULL,
		    "gcp " WHAT ": %zu of %zu machines are in the list", x->n, g->want);
	}
	g->instances = x->items;
	g->instances_n = x->n;
	return SPOT_DONE;
}

/* One reservation must have room for all of a gang, for one of a set at least. */
static enum spot_step reservation_reply(struct gcp *self, struct spot_call *c,
    const struct spot_launch_gang *g, struct ganging *x)
{
	struct call_state *st = c->state;
	enum spot_step s = gcp_reservation_reply(self, c, &g->common, gang_least(g),
	    &x->reservations, &x->reservation);

	st->at = x->reservation != NULL ? INSERT : RESERVATION;
	return s;
}

static enum spot_step gang_reply(struct gcp *self, struct spot_call *c, struct spot_launch_gang *g,
    struct ganging *x)
{
	struct call_state *st = c->state;

	switch (st->at) {
	case WAIT:
		return wait_reply(self, c, g, x);
	case CHILDREN:
		return children_reply(self, c, x);
	case LIST:
		return list_reply(self, c, g, x);
	case RESERVATION:
		return reservation_reply(self, c, g, x);
	default:
		if (x->notice && gcp_notice_refused(c)) {
			x->notice = false;
			return SPOT_STEP_NONE;
		}
		/* A repeat that Google has forgotten: whether they are ours is told by the list. */
		if (gcp_taken(c)) {
			st->at = LIST;
			return SPOT_STEP_NONE;
		}
		return operation_read(self, c, g, x);
	}
}

enum spot_step gcp_launch_gang(void *p, struct spot_call *c, struct spot_launch_gang *a)
{
	struct gcp *self = p;
	struct call_state *st = c->state;
	struct ganging *x;
	enum spot_step s;

	if (st == NULL) {
		s = gcp_launch_check(self, c, &a->common);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
		if (a->common.key.market == SPOT_MARKET_FLEX_START) {
			return call_fail(c, SPOT_INVALID, NULL,
			    "gcp launch: flex-start machines are ordered one by one");
		}
		if (a->want < 1 || a->want > GANG_MAX) {
			return call_fail(c, SPOT_INVALID, NULL,
			    "gcp launch: a gang of 1 to %d machines", GANG_MAX);
		}
		st = call_state_get(c, sizeof(*x));
		x = st->own;
		x->made = -1;
		st->at = a->common.key.market == SPOT_MARKET_RESERVED ? RESERVATION
		    : gcp_policy_of(c->arena, &a->common) != NULL     ? POLICY
								      : INSERT;
		x->notice = self->notice;
		x->expires_us =
		    self->run_hours > 0 ? c->now_us + self->run_hours * SPOT_US_PER_HOUR : 0;
	}
	x = st->own;
	if (st->at == POLICY) {
		s = gcp_policy_make(self, c, &a->common, &x->policy);
		st->at = s == SPOT_STEP_NONE ? INSERT : POLICY;
	} else {
		s = c->in != NULL ? gang_reply(self, c, a, x) : SPOT_STEP_NONE;
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	switch (st->at) {
	case RESERVATION:
		return gcp_reservations_send(self, c);
	case INSERT:
		return insert_send(self, c, a, x);
	case WAIT:
		x->asked_us = c->now_us;
		return gcp_wait_send(self, c, a->common.key.zone, x->operation);
	case CHILDREN:
		return children_send(self, c, a->common.key.zone, x);
	default:
		return list_send(self, c, &a->common);
	}
}
