#include "base/base.h"
#include "gcp_priv.h"

/*
 * Compute Engine's instances: find by token, list by installation label (all zones in one call),
 * terminate. Also the disks that machines left behind. By their refs: describe.c.
 */

/* ---- one instance ---------------------------------------------------------------------------- */

/* docs.cloud.google.com/compute/docs/instances/instance-lifecycle. Our machines are deleted, never
 * stopped: one that is stopped only costs money for its disk. */
static enum spot_instance_state state_read(const char *status)
{
	static const struct {
		const char *status;
		enum spot_instance_state state;
	} states[] = {
		{ "PENDING", SPOT_INSTANCE_QUEUED }, /* flex-start: no capacity yet */
		{ "PROVISIONING", SPOT_INSTANCE_PENDING },
		{ "STAGING", SPOT_INSTANCE_PENDING },
		{ "RUNNING", SPOT_INSTANCE_RUNNING },
		{ "PENDING_STOP", SPOT_INSTANCE_STOPPING },
		{ "STOPPING", SPOT_INSTANCE_STOPPING },
		{ "DEPROVISIONING", SPOT_INSTANCE_STOPPING },
		{ "STOPPED", SPOT_INSTANCE_FAILED },
		{ "TERMINATED", SPOT_INSTANCE_FAILED },
		{ "SUSPENDING", SPOT_INSTANCE_FAILED },
		{ "SUSPENDED", SPOT_INSTANCE_FAILED },
	};

	for (size_t i = 0; i < ARRAY_LEN(states); i++) {
		if (strcmp(states[i].status, status) == 0) {
			return states[i].state;
		}
	}
	return SPOT_INSTANCE_ODD;
}

static const char *label_read(struct arena *a, const json_t *item, const char *key)
{
	const char *v = json_string_value(json_object_get(json_object_get(item, "labels"), key));

	return v != NULL ? gcp_unlabel(a, arena_strdup(a, v)) : "";
}

static enum spot_market market_read(const json_t *item)
{
	const json_t *s = json_object_get(item, "scheduling");
	const char *model = json_string_value(json_object_get(s, "provisioningModel"));

	if (str_same(model, "SPOT") || json_is_true(json_object_get(s, "preemptible"))) {
		return SPOT_MARKET_SPOT;
	}
	if (str_same(json_string_value(json_object_get(json_object_get(item, "reservationAffinity"),
			 "consumeReservationType")),
		"SPECIFIC_RESERVATION")) {
		return SPOT_MARKET_RESERVED;
	}
	return str_same(model, "FLEX_START")                  ? SPOT_MARKET_FLEX_START
	    : model == NULL || strcmp(model, "STANDARD") == 0 ? SPOT_MARKET_ON_DEMAND
							      : SPOT_MARKET_RESERVED;
}

static const char *ip_read(struct arena *a, const json_t *item)
{
	const json_t *nic = json_array_get(json_object_get(item, "networkInterfaces"), 0);
	const json_t *nat = json_array_get(json_object_get(nic, "accessConfigs"), 0);
	const char *ip = json_string_value(json_object_get(nat, "natIP"));

	if (str_empty(ip)) {
		ip = json_string_value(json_object_get(nic, "networkIP"));
	}
	return str_empty(ip) ? "" : arena_strdup(a, ip);
}

/* Machine type and, of a host, what is attached to it: the name of the pool. */
static const char *type_name(struct arena *a, const json_t *item, bool *bad)
{
	const char *machine = gcp_last(gcp_str(a, item, "machineType", bad));
	const json_t *e = json_array_get(json_object_get(item, "guestAccelerators"), 0);
	int64_t count = gcp_int(e, "acceleratorCount", 0, bad);
	const char *type = gcp_last(gcp_str(a, e, "acceleratorType", bad));

	if (count < 1 || *type == '\0' || !str_prefix(machine, "n1-")) {
		return machine;
	}
	return gcp_attached_name(a, machine, type, count);
}

bool gcp_instance_read(const struct gcp *self, struct spot_call *c, const json_t *item,
    struct spot_instance *ret)
{
	bool bad = false;
	const char *id = gcp_id(c->arena, item, "id", &bad);
	const char *zone = gcp_last(gcp_str(c->arena, item, "zone", &bad));
	struct spot_instance i = { .raw_state = gcp_str(c->arena, item, "status", &bad),
		.raw_reason = gcp_str(c->arena, item, "statusMessage", &bad) };
	const json_t *labels = json_object_get(item, "labels");

	i.key.instance_type = type_name(c->arena, item, &bad);
	i.created_us = gcp_time(gcp_str(c->arena, item, "creationTimestamp", &bad));
	if (bad || !gcp_id_ok(id) || !gcp_zone_ok(zone) || *i.raw_state == '\0' ||
	    (labels != NULL && !json_is_null(labels) && !json_is_object(labels))) {
		return false;
	}
	i.ref = arena_printf(c->arena, "%s/%s", zone, id);
	i.token = label_read(c->arena, item, GCP_LABEL_TOKEN);
	i.install = label_read(c->arena, item, GCP_LABEL_INSTALL);
	i.key.provider = self->name;
	i.key.zone = zone;
	i.key.region = gcp_zone_region(c->arena, zone);
	i.key.market = market_read(item);
	i.state = state_read(i.raw_state);
	i.ip = ip_read(c->arena, item);
	i.spot_request = "";
	gcp_flex_overdue(self, c, &i);
	*ret = i;
	return true;
}

/* A disk that has our label and no machine. */
static bool disk_read(const struct gcp *self, struct spot_call *c, const json_t *item,
    struct spot_instance *ret)
{
	bool bad = false;
	const char *id = gcp_id(c->arena, item, "id", &bad);
	const char *zone = gcp_last(gcp_str(c->arena, item, "zone", &bad));
	const char *name = gcp_str(c->arena, item, "name", &bad);

	if (bad || !gcp_id_ok(id) || !gcp_zone_ok(zone)) {
		return false;
	}
	*ret = (struct spot_instance){ .ref = arena_printf(c->arena, "%s/disks/%s", zone, id),
		.token = label_read(c->arena, item, GCP_LABEL_TOKEN),
		.install = label_read(c->arena, item, GCP_LABEL_INSTALL),
		.key = { .provider = self->name,
		    .region = gcp_zone_region(c->arena, zone),
		    .zone = zone,
		    .instance_type = "",
		    .market = SPOT_MARKET_ON_DEMAND },
		.state = SPOT_INSTANCE_FAILED,
		.raw_state = gcp_str(c->arena, item, "status", &bad),
		.raw_reason = arena_printf(c->arena, "disk %s without a machine", name),
		.ip = "",
		.spot_request = "",
		.created_us = gcp_time(gcp_str(c->arena, item, "creationTimestamp", &bad)),
		.leftover = true };
	return !bad;
}

/* ---- aggregated lists ------------------------------------------------------------------------ */

static bool place_matters(const char *scope, const char *region, const char *zone)
{
	const char *name = gcp_last(scope);

	if (!str_empty(zone)) {
		return strcmp(name, zone) == 0;
	}
	return str_empty(region) || (str_prefix(name, region) && name[strlen(region)] == '-') ||
	    strcmp(name, region) == 0;
}

/* Warnings that mean that something is left out (the discovery document's enum of warning.code). */
static bool list_incomplete(const json_t *o)
{
	const char *code =
	    json_string_value(json_object_get(json_object_get(o, "warning"), "code"));

	return str_same(code, "UNREACHABLE") || str_same(code, "PARTIAL_SUCCESS") ||
	    str_same(code, "LIST_OVERHEAD_QUOTA_EXCEED");
}

bool gcp_unreached(const json_t *doc, const char *region, const char *zone)
{
	json_t *items = json_object_get(doc, "items"), *list;
	const json_t *v, *places = json_object_get(doc, "unreachables");
	const char *scope;
	size_t i;

	if (list_incomplete(doc)) {
		return true;
	}
	json_array_foreach (places, i, v) {
		if (json_string_value(v) == NULL ||
		    place_matters(json_string_value(v), region, zone)) {
			return true;
		}
	}
	json_object_foreach (items, scope, list) {
		if (list_incomplete(list) && place_matters(scope, region, zone)) {
			return true;
		}
	}
	return false;
}

enum { INSTANCES = 0, DISKS, POLICIES, END };

/* The lists of a sweep, in this order. */
static const struct {
	const char *what, *path, *kind;
} lists[] = {
	[INSTANCES] = { "instances.aggregatedList", "instances", "compute#instanceAggregatedList" },
	[DISKS] = { "disks.aggregatedList", "disks", "compute#diskAggregatedList" },
	[POLICIES] = { "resourcePolicies.aggregatedList", "resourcePolicies",
	    "compute#resourcePolicyAggregatedList" },
};

struct found {
	struct spot_instance *items;
	size_t n, cap;
	const char *filter, *region, *zone, *install;
	const char **policies; /* placement policies of the machines */
	size_t policies_n, policies_cap;
	bool *partial; /* set if the list is incomplete; NULL = an incomplete list fails */
};

static enum spot_step aggregated_send(struct gcp *self, struct spot_call *c, const struct found *f)
{
	const struct call_state *st = c->state;
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "GET",
		.limit = GCP_LIMIT_LIST,
		.reply_bytes_max = GCP_LIST_BYTES_MAX };

	const char *filter = st->at == POLICIES
	    ? arena_printf(c->arena, "description=\"%s\"", gcp_policy_about(c->arena, f->install))
	    : f->filter;

	r.what = lists[st->at].what;
	r.path = arena_printf(c->arena,
	    "/compute/v1/projects/%s/aggregated/%s?filter=%s&" GCP_PAGE "%s", self->project,
	    lists[st->at].path, url_encode(c->arena, filter, false), gcp_page(c));
	return gcp_send(self, c, &r);
}

/* A machine keeps its policy until it is deleted. */
static void policies_keep(struct spot_call *c, struct found *f, const json_t *machine)
{
	const json_t *v;
	size_t i;

	json_array_foreach (json_object_get(machine, "resourcePolicies"), i, v) {
		f->policies = arena_grow(c->arena, f->policies, f->policies_n, &f->policies_cap,
		    sizeof(*f->policies));
		f->policies[f->policies_n++] =
		    arena_strdup(c->arena, gcp_last(json_is_string(v) ? json_string_value(v) : ""));
	}
}

static bool policy_in_use(const struct found *f, const char *ref)
{
	for (size_t i = 0; i < f->policies_n; i++) {
		if (strcmp(f->policies[i], gcp_last(ref)) == 0) {
			return true;
		}
	}
	return false;
}

/* Takes one region's list of policies: those without a machine. */
static void policies_take(struct gcp *self, struct spot_call *c, struct found *f,
    const json_t *list)
{
	const json_t *item;
	struct spot_instance one;
	size_t i;

	json_array_foreach (json_object_get(list, "resourcePolicies"), i, item) {
		if (!gcp_policy_read(self, c, item, f->install, &one) ||
		    policy_in_use(f, one.ref) ||
		    (!str_empty(f->region) && strcmp(f->region, one.key.region) != 0)) {
			continue;
		}
		f->items = arena_grow(c->arena, f->items, f->n, &f->cap, sizeof(*f->items));
		f->items[f->n++] = one;
	}
}

/* Takes one scope's list. False: malformed. */
static bool scope_take(struct gcp *self, struct spot_call *c, struct found *f, const json_t *list,
    bool disks)
{
	const json_t *items = json_object_get(list, disks ? "disks" : "instances"), *item;
	size_t i;

	if (items != NULL && !json_is_array(items)) {
		return false;
	}
	json_array_foreach (items, i, item) {
		struct spot_instance one;

		if (disks && json_array_size(json_object_get(item, "users")) > 0) {
			continue;
		}
		if (disks ? !disk_read(self, c, item, &one)
			  : !gcp_instance_read(self, c, item, &one)) {
			return false;
		}
		if (!disks) {
			policies_keep(c, f, item);
		}
		if (!str_empty(f->region) && strcmp(f->region, one.key.region) != 0) {
			continue;
		}
		f->items = arena_grow(c->arena, f->items, f->n, &f->cap, sizeof(*f->items));
		f->items[f->n++] = one;
	}
	return true;
}

static enum spot_step aggregated_reply(struct gcp *self, struct spot_call *c, struct found *f)
{
	struct call_state *st = c->state;
	bool disks = st->at == DISKS;
	const char *what = lists[st->at].what, *scope;
	json_t *doc AUTO(json) = NULL;
	json_t *items, *list;
	enum spot_step s = gcp_reply(self, c, what, lists[st->at].kind, &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	items = json_object_get(doc, "items");
	if (items != NULL && !json_is_object(items)) {
		return gcp_bad_reply(c, what, "items is not an object of scopes");
	}
	/* A zone that could not be read may still have machines. */
	if (f->partial != NULL) {
		*f->partial = *f->partial || gcp_unreached(doc, f->region, f->zone);
	} else if (gcp_unreached(doc, f->region, f->zone)) {
		return call_again(c, SPOT_UNAVAILABLE, 0, "UNREACHABLE",
		    "gcp %s: some zones cannot be reached: the list is not complete", what);
	}
	json_object_foreach (items, scope, list) {
		if (!json_is_object(list) || !scope_take(self, c, f, list, disks)) {
			return gcp_bad_reply(c, what, "%.60s: an entry without id, zone or status",
			    scope);
		}
	}
	if (!gcp_next_page(c, what, doc, &s) && s == SPOT_STEP_NONE) {
		st->at++;
	}
	return s;
}

const char *gcp_filter_mine(struct arena *a, const char *install)
{
	return arena_printf(a, "labels." GCP_LABEL_INSTALL "=%s", gcp_label(a, install));
}

static const char *filter_of(struct arena *a, const char *install, const char *token)
{
	const char *mine = gcp_filter_mine(a, install);

	if (str_empty(token)) {
		return mine;
	}
	if (str_empty(install)) {
		return arena_printf(a, "labels." GCP_LABEL_TOKEN "=%s", gcp_label(a, token));
	}
	return arena_printf(a, "(%s) (labels." GCP_LABEL_TOKEN "=%s)", mine, gcp_label(a, token));
}

/* A label too long to be read back is compared in its own form. */
static void token_restore(struct arena *a, struct spot_instance *i, const char *token,
    const char *install)
{
	if (!str_empty(token) && strcmp(i->token, gcp_label(a, token)) == 0) {
		i->token = token;
	}
	if (!str_empty(install) && strcmp(i->install, gcp_label(a, install)) == 0) {
		i->install = install;
	}
}

/* A refusal is no fault of the list: without the permission there are no policies of ours. A page
 * that does not come ends it, and the next sweep reads it again. */
static void policies_reply(struct gcp *self, struct spot_call *c, struct found *f)
{
	struct call_state *st = c->state;
	json_t *doc AUTO(json) = NULL;
	json_t *items, *list;
	const char *scope;
	enum spot_step s = gcp_reply(self, c, lists[POLICIES].what, lists[POLICIES].kind, &doc);

	if (s == SPOT_STEP_NONE) {
		items = json_object_get(doc, "items");
		json_object_foreach (items, scope, list) {
			policies_take(self, c, f, list);
		}
	}
	if (s != SPOT_STEP_NONE || !gcp_next_page(c, lists[POLICIES].what, doc, &s) ||
	    s != SPOT_STEP_NONE) {
		st->at = END;
		c->err = (struct spot_err){ 0 };
	}
}

enum spot_step gcp_list(void *p, struct spot_call *c, struct spot_list *a)
{
	struct gcp *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct found));
	struct found *f = st->own;

	if (str_empty(a->install)) {
		return call_fail(c, SPOT_INVALID, NULL, "gcp list: no installation given");
	}
	/* One dead zone must not keep the others from being swept. */
	f->partial = &a->partial;
	f->install = a->install;
	if (c->in != NULL && st->at == POLICIES) {
		policies_reply(self, c, f);
	} else if (c->in != NULL) {
		enum spot_step s = aggregated_reply(self, c, f);

		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	f->filter = filter_of(c->arena, a->install, NULL);
	f->region = a->region;
	if (st->at < END) {
		return aggregated_send(self, c, f);
	}
	for (size_t i = 0; i < f->n; i++) {
		token_restore(c->arena, &f->items[i], NULL, a->install);
	}
	a->found = f->items;
	a->n = f->n;
	return SPOT_DONE;
}

/* ---- find ------------------------------------------------------------------------------------ */

static void find_result(struct spot_call *c, struct found *f, struct spot_find *a)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++) {
		struct spot_instance *one = &f->items[i];

		token_restore(c->arena, one, a->token, a->install);
		if (!str_empty(a->token) && strcmp(one->token, a->token) != 0) {
			continue;
		}
		f->items[n++] = *one;
	}
	a->found = f->items;
	a->n = n;
}

enum spot_step gcp_find(void *p, struct spot_call *c, struct spot_find *a)
{
	struct gcp *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct found));
	struct found *f = st->own;

	if (str_empty(a->token) && (str_empty(a->name) || str_empty(a->install))) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "gcp find: neither token nor name with installation given");
	}
	f->filter = str_empty(a->token)
	    ? arena_printf(c->arena, "(%s) (name=%s)", filter_of(c->arena, a->install, NULL),
		  gcp_vm_name(c->arena, a->name))
	    : filter_of(c->arena, a->install, a->token);
	f->region = a->region;
	f->zone = a->zone;
	if (c->in != NULL) {
		enum spot_step s = aggregated_reply(self, c, f);

		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	if (st->at == INSTANCES) {
		return aggregated_send(self, c, f);
	}
	find_result(c, f, a);
	return SPOT_DONE;
}

/* ---- terminate ------------------------------------------------------------------------------- */

/* "The resource 'projects/p/zones/z/instances/i' was not found"; of the project or the zone it says
 * nothing. */
static bool words_of_it(const char *message)
{
	return strstr(message, "'projects/") == NULL || strstr(message, "/instances/") != NULL ||
	    strstr(message, "/disks/") != NULL || strstr(message, "/resourcePolicies/") != NULL;
}

bool gcp_ref_gone(struct spot_call *c)
{
	const char *code, *message;

	if (c->in->status != 404) {
		return false;
	}
	gcp_error_read(c, &code, &message);
	return gcp_code_is(code, "notFound") && words_of_it(message);
}

enum spot_step gcp_not_there(struct spot_call *c, enum spot_step s)
{
	if (s == SPOT_FAIL && c->err.rc == SPOT_NOT_FOUND) {
		c->err.rc = SPOT_CONFIG;
	}
	return s;
}

void gcp_terminate_after(const struct gcp *self, struct spot_terminate *a, const char *region,
    const char *zone, enum spot_instance_state state, const char *raw)
{
	a->after = (struct spot_instance){ .ref = a->ref,
		.token = "",
		.install = "",
		.state = state,
		.raw_state = raw,
		.raw_reason = "",
		.ip = "",
		.spot_request = "",
		.key = { .provider = self->name,
		    .region = region,
		    .zone = zone,
		    .instance_type = "" } };
}

/* It went away between the request and the operation. */
static bool operation_not_found(const json_t *error)
{
	const struct gcp_code *k;
	const json_t *e = gcp_error_worst(json_object_get(error, "errors"), &k);
	const char *code = json_string_value(json_object_get(e, "code"));
	const char *words = json_string_value(json_object_get(e, "message"));

	return code != NULL && gcp_code_is(code, "RESOURCE_NOT_FOUND") && words != NULL &&
	    words_of_it(words);
}

enum spot_step gcp_terminate(void *p, struct spot_call *c, struct spot_terminate *a)
{
	struct gcp *self = p;
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "DELETE",
		.limit = GCP_LIMIT_MUTATE,
		.mutating = true };
	json_t *doc AUTO(json) = NULL;
	const char *zone, *id, *status;
	bool disk, bad = false;
	enum spot_step s;

	call_state_get(c, 0);
	if (gcp_policy_ref(a->ref)) {
		return gcp_policy_delete(self, c, a);
	}
	if (!gcp_ref_read(c->arena, a->ref, &zone, &id, &disk)) {
		return call_fail(c, SPOT_INVALID, NULL, "gcp terminate: '%.60s' is not zone/id",
		    a->ref != NULL ? a->ref : "");
	}
	r.what = disk ? "disks.delete" : "instances.delete";
	if (c->in == NULL) {
		r.path = arena_printf(c->arena, "/compute/v1/projects/%s/zones/%s/%s/%s",
		    self->project, zone, disk ? "disks" : "instances", id);
		return gcp_send(self, c, &r);
	}
	if (gcp_ref_gone(c)) {
		gcp_terminate_after(self, a, gcp_zone_region(c->arena, zone), zone,
		    SPOT_INSTANCE_GONE, "not-found");
		return SPOT_DONE;
	}
	s = gcp_reply(self, c, r.what, "compute#operation", &doc);
	if (s != SPOT_STEP_NONE) {
		return gcp_not_there(c, s);
	}
	status = gcp_str(c->arena, doc, "status", &bad);
	if (bad || *status == '\0') {
		return gcp_bad_reply(c, r.what, "an operation without status");
	}
	if (operation_not_found(json_object_get(doc, "error"))) {
		gcp_terminate_after(self, a, gcp_zone_region(c->arena, zone), zone,
		    SPOT_INSTANCE_GONE, "not-found");
		return SPOT_DONE;
	}
	if (gcp_operation_failed(doc)) {
		return gcp_operation_error(c, r.what, doc);
	}
	/* The operation runs on; that it is gone is told by describe. */
	gcp_terminate_after(self, a, gcp_zone_region(c->arena, zone), zone,
	    strcmp(status, "DONE") == 0 ? SPOT_INSTANCE_GONE : SPOT_INSTANCE_STOPPING, status);
	return SPOT_DONE;
}
