/* Operations: the answer to a change, its end, and the requests that wait for it. */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <ctype.h>

/* ---- making and ending ----------------------------------------------------------------------- */

static void op_due(struct loop_timer *t)
{
	struct gcp_op *op = container_of(t, struct gcp_op, timer);

	if (op->finish) {
		op->finish(op);
	}
	gcp_op_done(op);
}

struct gcp_op *gcp_op_new(struct sim *s, const char *type, const char *scope, const char *user,
    const char *target, const char *target_id)
{
	struct gcp_op *op = calloc(1, sizeof(*op));
	bool event = str_same(user, "system");
	char hex[33], name[128];

	if (!op) {
		abort();
	}
	rng_hex(&s->rng, hex, 16);
	snprintf(name, sizeof(name), "%s-%" PRId64 "-%.13s-%.8s-%.8s",
	    event ? "systemevent" : "operation", sim_wall(s) / 1000, hex, hex + 13, hex + 21);
	op->sim = s;
	op->id = gcp_new_id(s);
	op->name = dup_text(name);
	op->type = dup_text(type);
	op->scope = dup_text(scope);
	op->user = dup_text(user);
	op->target = dup_text(target);
	op->target_id = dup_text(target_id);
	op->insert_us = sim_wall(s);
	loop_timer_init(&op->timer, s->loop, op_due);
	if (s->gcp->ops_last) {
		s->gcp->ops_last->next = op;
	} else {
		s->gcp->ops = op;
	}
	s->gcp->ops_last = op;
	return op;
}

static void waits_answer(struct sim *s);

static void waits_answer(struct sim *s);

void gcp_op_done(struct gcp_op *op)
{
	if (op->done) {
		return;
	}
	loop_timer_stop(&op->timer);
	op->done = true;
	op->end_us = sim_wall(op->sim);
	waits_answer(op->sim);
}

void gcp_op_after(struct gcp_op *op, int64_t us, void (*finish)(struct gcp_op *op))
{
	op->finish = finish;
	loop_timer_set(&op->timer, MAX(us, 1));
}

void gcp_op_error(struct gcp_op *op, int http, const char *http_message, json_t *error)
{
	if (!op->errors) {
		op->errors = json_array();
	}
	json_array_append_new(op->errors, error);
	op->http = http;
	free(op->http_message);
	op->http_message = dup_text(http_message);
}

struct gcp_op *gcp_op_by_request(const struct gcp *g, const char *scope, const char *request_id)
{
	for (struct gcp_op *op = g->ops; op; op = op->next) {
		if (op->request_id && str_same(op->request_id, request_id) &&
		    str_same(op->scope, scope)) {
			return op;
		}
	}
	return NULL;
}

/* ---- as JSON --------------------------------------------------------------------------------- */

json_t *gcp_op_json(const struct gcp_op *op, struct arena *a)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:s}", "kind",
	    "compute#operation", "id", gcp_u64(a, op->id), "name", op->name, "operationType",
	    op->type, "status", op->done ? "DONE" : "RUNNING", "user", op->user, "progress",
	    op->done ? 100 : 0, "insertTime", gcp_time(a, op->insert_us), "startTime",
	    gcp_time(a, op->insert_us), "selfLink",
	    gcp_link(a, "%s/operations/%s", op->scope, op->name));

	if (op->target) {
		json_object_set_new(o, "targetLink", json_string(op->target));
	}
	if (op->target_id) {
		json_object_set_new(o, "targetId", json_string(op->target_id));
	}
	if (str_prefix(op->scope, "zones/")) {
		json_object_set_new(o, "zone", json_string(gcp_link(a, "%s", op->scope)));
	}
	if (str_prefix(op->scope, "regions/")) {
		json_object_set_new(o, "region", json_string(gcp_link(a, "%s", op->scope)));
	}
	if (op->done) {
		json_object_set_new(o, "endTime", json_string(gcp_time(a, op->end_us)));
	}
	if (op->request_id) {
		json_object_set_new(o, "clientOperationId", json_string(op->request_id));
	}
	if (op->group) {
		json_object_set_new(o, "operationGroupId", json_string(op->group));
	}
	if (op->status_message) {
		json_object_set_new(o, "statusMessage", json_string(op->status_message));
	}
	if (op->metadata) {
		json_object_set(o, "instancesBulkInsertOperationMetadata", op->metadata);
	}
	if (op->done && op->errors) {
		json_object_set_new(o, "error", json_pack("{s:O}", "errors", op->errors));
		json_object_set_new(o, "httpErrorStatusCode", json_integer(op->http));
		json_object_set_new(o, "httpErrorMessage", json_string(op->http_message));
	}
	return o;
}

/* ---- waiting --------------------------------------------------------------------------------- */

struct gcp_hang {
	struct gcp_hang *next;
	struct sim *sim;
	struct httpd_req *r;
	const struct gcp_op *op;
	struct loop_timer timer;
};

static void hang_unlink(struct gcp_hang *h)
{
	for (struct gcp_hang **at = &h->sim->gcp->waits; *at; at = &(*at)->next) {
		if (*at == h) {
			*at = h->next;
			break;
		}
	}
	loop_timer_stop(&h->timer);
}

static void hang_answer(struct gcp_hang *h)
{
	json_t *doc = gcp_op_json(h->op, h->r->arena);
	char *text = json_text(h->r->arena, doc);

	json_decref(doc);
	hang_unlink(h);
	h->r->gone = NULL;
	httpd_reply(h->r, 200, "application/json; charset=UTF-8", text, strlen(text));
	loop_bury(h->sim->loop, h, free);
}

static void hang_late(struct loop_timer *t)
{
	hang_answer(container_of(t, struct gcp_hang, timer));
}

static void hang_gone(struct httpd_req *r)
{
	struct gcp_hang *h = r->user;

	hang_unlink(h);
	loop_bury(h->sim->loop, h, free);
}

static void waits_answer(struct sim *s)
{
	struct gcp_hang *next;

	for (struct gcp_hang *h = s->gcp->waits; h; h = next) {
		next = h->next;
		if (h->op->done) {
			hang_answer(h);
		}
	}
}

void gcp_ops_free(struct sim *s)
{
	struct gcp_op *next;
	struct gcp_hang *after;

	for (struct gcp_hang *h = s->gcp->waits; h; h = after) {
		after = h->next;
		loop_timer_stop(&h->timer);
		free(h);
	}
	for (struct gcp_op *op = s->gcp->ops; op; op = next) {
		char *texts[] = { op->name, op->type, op->scope, op->user, op->target,
			op->target_id, op->request_id, op->group, op->body_hash, op->status_message,
			op->http_message };

		next = op->next;
		loop_timer_stop(&op->timer);
		for (size_t k = 0; k < ARRAY_LEN(texts); k++) {
			free(texts[k]);
		}
		json_decref(op->errors);
		json_decref(op->metadata);
		free(op);
	}
}

/* ---- methods --------------------------------------------------------------------------------- */

static bool is_global(struct gcp_call *c)
{
	return str_prefix(c->rq->action, "global");
}

static const char *scope_of(struct gcp_call *c)
{
	if (is_global(c)) {
		return "global";
	}
	return arena_printf(c->a, "%s/%s", str_prefix(c->rq->action, "zone") ? "zones" : "regions",
	    c->arg[1]);
}

static struct gcp_op *op_find(struct gcp_call *c)
{
	const char *scope = scope_of(c), *name = c->arg[is_global(c) ? 1 : 2];

	for (struct gcp_op *op = c->g->ops; op; op = op->next) {
		if (str_same(op->scope, scope) &&
		    (str_same(op->name, name) || str_same(gcp_u64(c->a, op->id), name))) {
			return op;
		}
	}
	gcp_not_found(c, arena_printf(c->a, GCP_P "%s/operations/%s", scope, name));
	return NULL;
}

void gcp_op_get(struct gcp_call *c)
{
	const struct gcp_op *op = op_find(c);

	if (op) {
		gcp_reply(c, gcp_op_json(op, c->a));
	}
}

void gcp_op_wait(struct gcp_call *c)
{
	const struct gcp_op *op = op_find(c);
	struct gcp_hang *h;

	if (!op) {
		return;
	}
	if (op->done) {
		gcp_reply(c, gcp_op_json(op, c->a));
		return;
	}
	h = calloc(1, sizeof(*h));
	if (!h) {
		abort();
	}
	*h = (struct gcp_hang){ .next = c->g->waits, .sim = c->sim, .r = c->rq->http, .op = op };
	c->g->waits = h;
	loop_timer_init(&h->timer, c->sim->loop, hang_late);
	loop_timer_set(&h->timer, MAX(c->g->wait_us, 1));
	c->rq->http->user = h;
	c->rq->http->gone = hang_gone;
	c->rep->parked = true;
}

static void list_scope(struct gcp_call *c)
{
	const char *scope = scope_of(c);
	json_t *items = json_array();

	for (const struct gcp_op *op = c->g->ops; op; op = op->next) {
		if (str_same(op->scope, scope)) {
			json_array_append_new(items, gcp_op_json(op, c->a));
		}
	}
	gcp_list(c, "compute#operationList", arena_printf(c->a, "%s/operations", scope), items);
}

void gcp_ops_zone(struct gcp_call *c)
{
	if (!gcp_zone(c->sim, c->arg[1])) {
		gcp_fail(c, 400, "invalid", "Invalid value for field 'zone': '%s'. Unknown zone.",
		    c->arg[1]);
	} else {
		list_scope(c);
	}
}

void gcp_ops_global(struct gcp_call *c)
{
	list_scope(c);
}

void gcp_ops_region(struct gcp_call *c)
{
	list_scope(c);
}

void gcp_ops_aggregated(struct gcp_call *c)
{
	json_t *items = json_array();

	for (const struct gcp_op *op = c->g->ops; op; op = op->next) {
		json_array_append_new(items, json_pack("[s, o]", op->scope, gcp_op_json(op, c->a)));
	}
	gcp_aggregate(c, "compute#operationAggregatedList", "aggregated/operations", "operations",
	    items, true);
}

/* ---- request ids ----------------------------------------------------------------------------- */

static bool uuid_valid(const char *t)
{
	bool zero = true;

	for (size_t k = 0; k < 36; k++) {
		bool dash = k == 8 || k == 13 || k == 18 || k == 23;

		if (dash ? t[k] != '-' : !isxdigit((unsigned char)t[k])) {
			return false;
		}
		zero = zero && (dash || t[k] == '0');
	}
	return !t[36] && !zero;
}

bool gcp_request_id(struct gcp_call *c, const char *scope, const char **ret)
{
	const char *id = gcp_param(c, "requestId");
	const struct gcp_op *op;

	*ret = id;
	if (!id) {
		return true;
	}
	if (strlen(id) != 36 || !uuid_valid(id)) {
		gcp_fail(c, 400, "invalid",
		    "Invalid value for field 'requestId': '%s'. Must be a valid UUID and not "
		    "all zeros.",
		    id);
		return false;
	}
	op = gcp_op_by_request(c->g, scope, id);
	if (!op) {
		return true;
	}
	/* The original operation, whatever the request says now. */
	gcp_reply(c, gcp_op_json(op, c->a));
	return false;
}
