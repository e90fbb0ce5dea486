#include "base/base.h"
#include "gcp_priv.h"

/*
 * instances.insert for one pool. requestId and the name are made from the token. Google answers a
 * repeat with the first operation. If it has forgotten that one, the name is taken (409), and we
 * look at the machine. Only the operation tells the outcome: DONE is not success.
 */

#define USER_DATA_MAX 262144 /* a metadata value: 256 KiB */
#define WAIT_US (130 * SPOT_US_PER_S) /* operations.wait holds up to two minutes */
#define WAIT_FLOOR_US (2 * SPOT_US_PER_S)
#define WAITS_MAX 60

enum { INSERT = 0, WAIT, ADOPT, RESERVATION, POLICY };

struct launching {
	const char *vm_name, *operation, *id;
	int64_t expires_us, asked_us;
	bool notice;
	int waits;
	struct gcp_reservations reservations;
	const char *reservation;
	struct gcp_policy policy;
};

/* ---- checks ---------------------------------------------------------------------------------- */

enum spot_step gcp_launch_check(const struct gcp *self, struct spot_call *c,
    const struct spot_launch *l)
{
	struct gcp_attached attached;

	if (l->key.market != SPOT_MARKET_SPOT && l->key.market != SPOT_MARKET_ON_DEMAND &&
	    (l->key.market != SPOT_MARKET_RESERVED || !self->reservations) &&
	    (l->key.market != SPOT_MARKET_FLEX_START || !self->flex_start)) {
		return call_fail(c, SPOT_INVALID, NULL, "gcp launch: market %s is not supported",
		    spot_market_name(l->key.market));
	}
	if (!gcp_zone_ok(l->key.zone) ||
	    (!gcp_attached(c->arena, l->key.instance_type, &attached) &&
		!gcp_name_ok(l->key.instance_type))) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "gcp launch: machine type and zone are needed");
	}
	if (l->key.market == SPOT_MARKET_ON_DEMAND && !gcp_sold_on_demand(l->key.instance_type)) {
		return call_fail(c, SPOT_NOT_OFFERED, NULL, "gcp launch: %s is not sold on demand",
		    l->key.instance_type);
	}
	if (l->key.market == SPOT_MARKET_FLEX_START && !gcp_sold_queued(l->key.instance_type)) {
		return call_fail(c, SPOT_NOT_OFFERED, NULL,
		    "gcp launch: %s is not sold with flex-start", l->key.instance_type);
	}
	/* The token is the only thing that keeps a repeat from launching twice. */
	if (str_empty(l->token) || strlen(l->token) > 64) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "gcp launch: token of 1 to 64 characters needed");
	}
	if (str_empty(l->install) || strlen(l->install) > 255 || str_empty(l->name)) {
		return call_fail(c, SPOT_INVALID, NULL, "gcp launch: installation and name needed");
	}
	if (l->user_data.n > USER_DATA_MAX) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "gcp launch: user data is %zu bytes, Google takes %d", l->user_data.n,
		    USER_DATA_MAX);
	}
	for (size_t i = 0; i < l->tags_n; i++) {
		if (str_empty(l->tags[i].key) || l->tags[i].value == NULL ||
		    strlen(l->tags[i].value) > 1000) {
			return call_fail(c, SPOT_INVALID, NULL,
			    "gcp launch: a tag without key, or too long");
		}
	}
	return SPOT_STEP_NONE;
}

/* ---- the request ----------------------------------------------------------------------------- */

static enum spot_step insert_send(struct gcp *self, struct spot_call *c,
    const struct spot_launch *l, const struct launching *x)
{
	json_t *doc AUTO(json) =
	    gcp_properties(self, c, l, x->expires_us, x->notice, false, x->reservation);
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "POST",
		.what = "instances.insert",
		.limit = GCP_LIMIT_MUTATE,
		.mutating = true };

	json_object_set_new(doc, "name", json_string(x->vm_name));
	if (l->key.market == SPOT_MARKET_FLEX_START) {
		gcp_flex_body(self, c->arena, doc);
	}
	r.path = arena_printf(c->arena, "/compute/v1/projects/%s/zones/%s/instances?requestId=%s",
	    self->project, l->key.zone, gcp_uuid(c->arena, l->token));
	r.body = json_text(c->arena, doc);
	return gcp_send(self, c, &r);
}

enum spot_step gcp_wait_send(struct gcp *self, struct spot_call *c, const char *zone,
    const char *operation)
{
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "POST",
		.what = "zoneOperations.wait",
		.path =
		    arena_printf(c->arena, "/compute/v1/projects/%s/zones/%s/operations/%s/wait",
			self->project, zone, operation),
		.limit = GCP_LIMIT_OPERATION,
		/* Not by itself, but if its reply is lost nobody knows what became of the
		 * launch. */
		.mutating = true,
		.timeout_us = WAIT_US };

	return gcp_send(self, c, &r);
}

static enum spot_step adopt_send(struct gcp *self, struct spot_call *c, const struct spot_launch *l,
    const struct launching *x)
{
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "GET",
		.what = "instances.get",
		.path = arena_printf(c->arena, "/compute/v1/projects/%s/zones/%s/instances/%s",
		    self->project, l->key.zone, x->vm_name),
		.limit = GCP_LIMIT_READ };

	return gcp_send(self, c, &r);
}

/* ---- the replies ----------------------------------------------------------------------------- */

/* The field is newer than some projects: without it the notice is the usual half minute. */
bool gcp_notice_refused(struct spot_call *c)
{
	const char *code, *message;

	if (c->in->status != 400) {
		return false;
	}
	gcp_error_read(c, &code, &message);
	return strstr(message, "preemptionNoticeDuration") != NULL ||
	    strstr(message, "preemption_notice") != NULL;
}

bool gcp_taken(struct spot_call *c)
{
	const char *code, *message;

	if (c->in->status != 409) {
		return false;
	}
	gcp_error_read(c, &code, &message);
	return gcp_code_is(code, "alreadyExists");
}

static enum spot_step launch_succeed(const struct gcp *self, struct spot_call *c,
    struct spot_launch *l, const struct launching *x)
{
	if (x->id == NULL) {
		return call_fail(c, SPOT_UNKNOWN, NULL,
		    "gcp instances.insert: the operation names no instance");
	}
	l->instance = (struct spot_instance){ .ref = arena_printf(c->arena, "%s/%s", l->key.zone,
						  x->id),
		.token = l->token,
		.install = l->install,
		.key = l->key,
		.state = l->key.market == SPOT_MARKET_FLEX_START ? SPOT_INSTANCE_QUEUED
								 : SPOT_INSTANCE_PENDING,
		.raw_state = l->key.market == SPOT_MARKET_FLEX_START ? "PENDING" : "PROVISIONING",
		.raw_reason = "",
		.ip = "",
		.spot_request = "",
		.created_us = c->now_us };
	l->instance.key.provider = self->name;
	return SPOT_DONE;
}

/* A name that was taken while the operation ran. */
static bool error_is_taken(const json_t *error)
{
	const struct gcp_code *k;
	const json_t *e = gcp_error_worst(json_object_get(error, "errors"), &k);
	const char *code = json_string_value(json_object_get(e, "code"));

	return code != NULL && gcp_code_is(code, "RESOURCE_ALREADY_EXISTS");
}

/* Of insert and of wait alike. */
static enum spot_step operation_read(struct gcp *self, struct spot_call *c, struct spot_launch *l,
    struct launching *x)
{
	struct call_state *st = c->state;
	json_t *doc AUTO(json) = NULL;
	const char *what = st->at == WAIT ? "zoneOperations.wait" : "instances.insert", *name,
		   *status, *id;
	const json_t *error;
	bool bad = false;
	enum spot_step s = gcp_reply(self, c, what, "compute#operation", &doc);

	/* A part of the machine does not exist: the same as RESOURCE_NOT_FOUND of an operation. */
	if (s == SPOT_FAIL && c->err.rc == SPOT_NOT_FOUND) {
		c->err.rc = SPOT_CONFIG;
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	name = gcp_str(c->arena, doc, "name", &bad);
	status = gcp_str(c->arena, doc, "status", &bad);
	id = gcp_id(c->arena, doc, "targetId", &bad);
	if (bad || !gcp_name_ok(name) || *status == '\0' || (*id != '\0' && !gcp_id_ok(id))) {
		return gcp_bad_reply(c, what, "an operation without name or status");
	}
	x->operation = name;
	x->id = *id != '\0' ? id : x->id;
	st->at = WAIT;
	if (strcmp(status, "DONE") != 0) {
		/* Its operation may run as long as the order waits: describe tells the rest. */
		return l->key.market == SPOT_MARKET_FLEX_START && x->id != NULL
		    ? launch_succeed(self, c, l, x)
		    : SPOT_STEP_NONE;
	}
	error = json_object_get(doc, "error");
	if (json_array_size(json_object_get(error, "errors")) > 0 && error_is_taken(error)) {
		st->at = ADOPT;
		return SPOT_STEP_NONE;
	}
	if (gcp_operation_failed(doc)) {
		return gcp_operation_error(c, "instances.insert", doc);
	}
	return launch_succeed(self, c, l, x);
}

/* Google accepted the request. A failure while we wait proves nothing: only the operation itself
 * may say that no machine came of it. */
static enum spot_step wait_reply(struct gcp *self, struct spot_call *c, struct spot_launch *l,
    struct launching *x)
{
	struct call_state *st = c->state;
	enum spot_step s;

	if (c->in->status != 200) {
		s = gcp_error(self, c, "zoneOperations.wait");
		c->err.rc = SPOT_UNKNOWN;
		return s;
	}
	s = operation_read(self, c, l, x);
	if (s != SPOT_STEP_NONE || st->at != WAIT) {
		return s;
	}
	if (++x->waits >= WAITS_MAX) {
		return call_fail(c, SPOT_UNKNOWN, NULL,
		    "gcp instances.insert: the operation does not end");
	}
	/* A busy server answers at once (reference of operations.wait). */
	if (c->now_us - x->asked_us < WAIT_FLOOR_US) {
		return call_again(c, SPOT_UNKNOWN, WAIT_FLOOR_US, NULL,
		    "gcp instances.insert: still running");
	}
	return SPOT_STEP_NONE;
}

static const char *label_value(const json_t *instance, const char *key)
{
	const char *v =
	    json_string_value(json_object_get(json_object_get(instance, "labels"), key));

	return v != NULL ? v : "";
}

static enum spot_step adopt_reply(struct gcp *self, struct spot_call *c, struct spot_launch *l)
{
	json_t *doc AUTO(json) = NULL;
	enum spot_step s;

	if (c->in->status == 0 || c->in->status >= 500 || c->in->status == 429 ||
	    c->in->status == 401) {
		return gcp_reply(self, c, "instances.get", NULL, &doc);
	}
	s = gcp_reply(self, c, "instances.get", "compute#instance", &doc);
	if (s == SPOT_STEP_NONE && gcp_instance_read(self, c, doc, &l->instance) &&
	    strcmp(label_value(doc, GCP_LABEL_TOKEN), gcp_label(c->arena, l->token)) == 0 &&
	    strcmp(label_value(doc, GCP_LABEL_INSTALL), gcp_label(c->arena, l->install)) == 0) {
		l->instance.token = l->token;
		l->instance.install = l->install;
		return SPOT_DONE;
	}
	/* It was there a moment ago: preempted since, or being deleted. */
	if (s == SPOT_FAIL && c->in->status == 404) {
		return call_fail(c, SPOT_UNKNOWN, "alreadyExists",
		    "gcp instances.insert: the name was taken, and now there is no machine of it");
	}
	return call_fail(c, SPOT_MISMATCH, "alreadyExists",
	    "gcp instances.insert: a machine of this name is there and is not of this launch");
}

static enum spot_step launch_reply(struct gcp *self, struct spot_call *c, struct spot_launch *a,
    struct launching *x)
{
	struct call_state *st = c->state;

	if (st->at == WAIT) {
		return wait_reply(self, c, a, x);
	}
	if (st->at == ADOPT) {
		return adopt_reply(self, c, a);
	}
	if (st->at == RESERVATION) {
		enum spot_step s =
		    gcp_reservation_reply(self, c, a, 1, &x->reservations, &x->reservation);

		st->at = x->reservation != NULL ? INSERT : RESERVATION;
		return s;
	}
	if (x->notice && gcp_notice_refused(c)) {
		x->notice = false;
		return SPOT_STEP_NONE;
	}
	if (gcp_taken(c)) {
		st->at = ADOPT;
		return SPOT_STEP_NONE;
	}
	return operation_read(self, c, a, x);
}

enum spot_step gcp_launch(void *p, struct spot_call *c, struct spot_launch *a)
{
	struct gcp *self = p;
	struct call_state *st = c->state;
	struct launching *x;
	enum spot_step s;

	if (st == NULL) {
		s = gcp_launch_check(self, c, a);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
		st = call_state_get(c, sizeof(*x));
		x = st->own;
		st->at = a->key.market == SPOT_MARKET_RESERVED ? RESERVATION
		    : gcp_policy_of(c->arena, a) != NULL       ? POLICY
							       : INSERT;
		x->vm_name = gcp_vm_name(c->arena, a->name);
		x->notice = self->notice;
		x->expires_us =
		    self->run_hours > 0 ? c->now_us + self->run_hours * SPOT_US_PER_HOUR : 0;
		if (a->key.market == SPOT_MARKET_FLEX_START) {
			x->expires_us =
			    c->now_us + (self->flex_wait_s + gcp_flex_run_s(self)) * SPOT_US_PER_S;
		}
	}
	x = st->own;
	if (st->at == POLICY) {
		s = gcp_policy_make(self, c, a, &x->policy);
		st->at = s == SPOT_STEP_NONE ? INSERT : POLICY;
	} else {
		s = c->in != NULL ? launch_reply(self, c, a, x) : SPOT_STEP_NONE;
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (st->at == RESERVATION) {
		return gcp_reservations_send(self, c);
	}
	if (st->at == INSERT) {
		return insert_send(self, c, a, x);
	}
	if (st->at == ADOPT) {
		return adopt_send(self, c, a, x);
	}
	x->asked_us = c->now_us;
	return gcp_wait_send(self, c, a->key.zone, x->operation);
}
