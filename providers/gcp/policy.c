#include "base/base.h"
#include "gcp_priv.h"

/*
 * Compact placement policies (docs.cloud.google.com/compute/docs/instances/
 * use-compact-placement-policies): machines of a zone as close to each other as Google can place
 * them. A policy is a regional resource. A launch makes it first, by an operation that it waits
 * for. The name is the caller's, so a repeat finds the policy there and reads whether it is ours.
 * Policies have no labels: the description names the installation. One ends by
 * resourcePolicies.delete, which Google refuses while a machine has it.
 */

#define WAITS_MAX 20
#define WAIT_FLOOR_US SPOT_US_PER_S
#define COLLOCATED "COLLOCATED"
#define REF_PART "/resourcePolicies/"

enum { CREATE = 0, WAIT, READ, READY };

/* N1 has no compact placement (placement-policies-overview). A reservation has its own place. */
const char *gcp_policy_of(struct arena *a, const struct spot_launch *l)
{
	struct gcp_attached t;

	return l->key.market == SPOT_MARKET_RESERVED || l->key.market == SPOT_MARKET_FLEX_START ||
		str_empty(l->together) || gcp_attached(a, l->key.instance_type, &t)
	    ? NULL
	    : l->together;
}

const char *gcp_policy_about(struct arena *a, const char *install)
{
	return arena_printf(a, "spotbroker installation %s", install);
}

/* ---- for a launch ---------------------------------------------------------------------------- */

/* Not mutating: a repeat after a lost reply finds the policy there, and no machine is made. */
static enum spot_step create_send(struct gcp *self, struct spot_call *c,
    const struct spot_launch *l)
{
	json_t *doc AUTO(json) = json_pack("{s:s, s:s, s:{s:s}}", "name",
	    gcp_policy_of(c->arena, l), "description", gcp_policy_about(c->arena, l->install),
	    "groupPlacementPolicy", "collocation", COLLOCATED);
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "POST",
		.what = "resourcePolicies.insert",
		.limit = GCP_LIMIT_MUTATE };

	r.path = arena_printf(c->arena, "/compute/v1/projects/%s/regions/%s/resourcePolicies",
	    self->project, l->key.region);
	r.body = json_text(c->arena, doc);
	return gcp_send(self, c, &r);
}

static enum spot_step wait_send(struct gcp *self, struct spot_call *c, const struct spot_launch *l,
    const struct gcp_policy *p)
{
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "POST",
		.what = "regionOperations.wait",
		.limit = GCP_LIMIT_OPERATION };

	r.path = arena_printf(c->arena, "/compute/v1/projects/%s/regions/%s/operations/%s/wait",
	    self->project, l->key.region, p->operation);
	return gcp_send(self, c, &r);
}

static enum spot_step read_send(struct gcp *self, struct spot_call *c, const struct spot_launch *l)
{
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "GET",
		.what = "resourcePolicies.get",
		.limit = GCP_LIMIT_READ };

	r.path = arena_printf(c->arena, "/compute/v1/projects/%s/regions/%s/resourcePolicies/%s",
	    self->project, l->key.region, gcp_policy_of(c->arena, l));
	return gcp_send(self, c, &r);
}

static bool error_is_taken(const json_t *error)
{
	const struct gcp_code *k;
	const json_t *e = gcp_error_worst(json_object_get(error, "errors"), &k);
	const char *code = json_string_value(json_object_get(e, "code"));

	return code != NULL && gcp_code_is(code, "RESOURCE_ALREADY_EXISTS");
}

/* Of insert and of wait alike. */
static enum spot_step operation_reply(struct gcp *self, struct spot_call *c, struct gcp_policy *p)
{
	const char *what = p->at == WAIT ? "regionOperations.wait" : "resourcePolicies.insert";
	json_t *doc AUTO(json) = NULL;
	const char *name, *status;
	bool bad = false;
	enum spot_step s;

	if (p->at == CREATE && gcp_taken(c)) {
		p->at = READ;
		return SPOT_STEP_NONE;
	}
	s = gcp_reply(self, c, what, "compute#operation", &doc);
	if (s != SPOT_STEP_NONE) {
		return gcp_not_there(c, s);
	}
	name = gcp_str(c->arena, doc, "name", &bad);
	status = gcp_str(c->arena, doc, "status", &bad);
	if (bad || !gcp_name_ok(name) || *status == '\0') {
		return gcp_bad_reply(c, what, "an operation without name or status");
	}
	p->operation = name;
	p->at = WAIT;
	if (strcmp(status, "DONE") != 0) {
		if (++p->waits >= WAITS_MAX) {
			return call_fail(c, SPOT_UNAVAILABLE, NULL,
			    "gcp resourcePolicies.insert: the operation does not end");
		}
		return SPOT_STEP_NONE;
	}
	if (error_is_taken(json_object_get(doc, "error"))) {
		p->at = READ;
		return SPOT_STEP_NONE;
	}
	if (gcp_operation_failed(doc)) {
		return gcp_operation_error(c, "resourcePolicies.insert", doc);
	}
	p->at = READY;
	return SPOT_STEP_NONE;
}

static bool policy_is_ours(struct spot_call *c, const json_t *policy, const char *install)
{
	const json_t *group = json_object_get(policy, "groupPlacementPolicy");

	return str_same(json_string_value(json_object_get(group, "collocation")), COLLOCATED) &&
	    str_same(json_string_value(json_object_get(policy, "description")),
		gcp_policy_about(c->arena, install));
}

static enum spot_step read_reply(struct gcp *self, struct spot_call *c, const struct spot_launch *l,
    struct gcp_policy *p)
{
	json_t *doc AUTO(json) = NULL;
	const char *status;
	bool bad = false;
	enum spot_step s =
	    gcp_reply(self, c, "resourcePolicies.get", "compute#resourcePolicy", &doc);

	if (s == SPOT_FAIL && c->err.rc == SPOT_NOT_FOUND) {
		c->err.rc = SPOT_UNAVAILABLE; /* deleted since: the next launch makes it anew */
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (!policy_is_ours(c, doc, l->install)) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "gcp launch: resource policy %s is there, and not ours: delete it",
		    gcp_policy_of(c->arena, l));
	}
	status = gcp_str(c->arena, doc, "status", &bad);
	if (strcmp(status, "CREATING") == 0) {
		return call_again(c, SPOT_UNAVAILABLE, WAIT_FLOOR_US, NULL,
		    "gcp launch: resource policy %s is not ready", gcp_policy_of(c->arena, l));
	}
	if (strcmp(status, "READY") != 0) {
		return call_fail(c, SPOT_UNAVAILABLE, NULL, "gcp launch: resource policy %s is %s",
		    gcp_policy_of(c->arena, l), status);
	}
	p->at = READY;
	return SPOT_STEP_NONE;
}

enum spot_step gcp_policy_make(struct gcp *self, struct spot_call *c, const struct spot_launch *l,
    struct gcp_policy *p)
{
	enum spot_step s = SPOT_STEP_NONE;

	if (c->in != NULL) {
		s = p->at == READ ? read_reply(self, c, l, p) : operation_reply(self, c, p);
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	switch (p->at) {
	case CREATE:
		return create_send(self, c, l);
	case WAIT:
		return wait_send(self, c, l, p);
	case READ:
		return read_send(self, c, l);
	default:
		return SPOT_STEP_NONE;
	}
}

/* ---- left behind ----------------------------------------------------------------------------- */

/* "region/resourcePolicies/name". False: not a ref of a policy. */
static bool ref_read(struct arena *a, const char *ref, const char **ret_region,
    const char **ret_name)
{
	const char *at = ref != NULL ? strstr(ref, REF_PART) : NULL;

	if (at == NULL) {
		return false;
	}
	*ret_region = arena_strndup(a, ref, (size_t)(at - ref));
	*ret_name = at + strlen(REF_PART);
	return gcp_name_ok(*ret_region) && gcp_name_ok(*ret_name);
}

bool gcp_policy_ref(const char *ref)
{
	return ref != NULL && strstr(ref, REF_PART) != NULL;
}

bool gcp_policy_read(const struct gcp *self, struct spot_call *c, const json_t *item,
    const char *install, struct spot_instance *ret)
{
	bool bad = false;
	const char *name = gcp_str(c->arena, item, "name", &bad);
	const char *region = gcp_last(gcp_str(c->arena, item, "region", &bad));

	if (!gcp_name_ok(name) || !gcp_name_ok(region) || !policy_is_ours(c, item, install)) {
		return false;
	}
	*ret =
	    (struct spot_instance){ .ref = arena_printf(c->arena, "%s" REF_PART "%s", region, name),
		    .token = "",
		    .install = install,
		    .key = { .provider = self->name,
			.region = region,
			.zone = "",
			.instance_type = "" },
		    .state = SPOT_INSTANCE_FAILED,
		    .raw_state = gcp_str(c->arena, item, "status", &bad),
		    .raw_reason = "placement policy without a machine",
		    .ip = "",
		    .spot_request = "",
		    .created_us = gcp_time(gcp_str(c->arena, item, "creationTimestamp", &bad)),
		    .leftover = true };
	return strcmp(ret->raw_state, "READY") == 0;
}

static void delete_done(const struct gcp *self, struct spot_terminate *a, const char *region,
    const char *raw)
{
	gcp_terminate_after(self, a, region, "", SPOT_INSTANCE_GONE, raw);
	a->after.leftover = true;
}

enum spot_step gcp_policy_delete(struct gcp *self, struct spot_call *c, struct spot_terminate *a)
{
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "DELETE",
		.what = "resourcePolicies.delete",
		.limit = GCP_LIMIT_MUTATE,
		.mutating = true };
	json_t *doc AUTO(json) = NULL;
	const char *region, *name;
	enum spot_step s;

	if (!ref_read(c->arena, a->ref, &region, &name)) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "gcp terminate: '%.60s' is not region/resourcePolicies/name", a->ref);
	}
	if (c->in == NULL) {
		r.path =
		    arena_printf(c->arena, "/compute/v1/projects/%s/regions/%s/resourcePolicies/%s",
			self->project, region, name);
		return gcp_send(self, c, &r);
	}
	if (gcp_ref_gone(c)) {
		delete_done(self, a, region, SPOT_NOT_FOUND_STATE);
		return SPOT_DONE;
	}
	s = gcp_reply(self, c, r.what, "compute#operation", &doc);
	if (s != SPOT_STEP_NONE) {
		return gcp_not_there(c, s);
	}
	if (gcp_operation_failed(doc)) {
		return gcp_operation_error(c, r.what, doc);
	}
	delete_done(self, a, region, "deleted");
	return SPOT_DONE;
}
