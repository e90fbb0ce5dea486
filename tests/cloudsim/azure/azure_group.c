/* Microsoft.Resources: resource groups and the list of all resources. */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "base/text/text.h"

static bool name_valid(const char *name)
{
	static const char set[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_().";
	size_t n = strlen(name);

	return n > 0 && n <= 90 && !name[strspn(name, set)] && name[n - 1] != '.';
}

struct az_res *az_group_for_write(struct az_call *c)
{
	struct az_res *g = az_find(c->az, AZ_GROUP, NULL, c->group);

	if (!g) {
		az_fail(c, 404, "ResourceGroupNotFound", "Resource group '%s' could not be found.",
		    c->group ? c->group : "");
		return NULL;
	}
	if (g->scheduled_us) {
		az_fail(c, 409, "ResourceGroupBeingDeleted",
		    "The resource group '%s' is in deprovisioning state and cannot perform this "
		    "operation.",
		    g->name);
		return NULL;
	}
	return g;
}

/* False: refused. g is the group that has this name, NULL = none. */
static bool group_put_check(struct az_call *c, const struct az_res *g, const char **ret_location)
{
	static const char *const known[] = { "location", "tags", "managedBy", "properties", "id",
		"name", "type", NULL };
	const char *location = json_string_value(json_object_get(c->doc, "location"));

	if (json_unknown_key(c->doc, known)) {
		az_fail(c, 400, "InvalidRequestContent",
		    "The request content was invalid and could not be deserialized: 'Could not "
		    "find member "
		    "'%s' on object of type 'ResourceGroupDefinition'. Path '%s', line 1, position "
		    "1.'.",
		    json_unknown_key(c->doc, known), json_unknown_key(c->doc, known));
		return false;
	}
	if (!name_valid(c->name)) {
		az_fail(c, 400, "InvalidResourceGroup",
		    "The provided resource group name '%s' has these invalid characters.", c->name);
		return false;
	}
	if (!location) {
		az_fail(c, 400, "LocationRequired",
		    "The location property is required for this definition.");
		return false;
	}
	location = az_location(c->rq->arena, location);
	c->rq->region = location;
	if (!market_region(c->rq->sim->market, CLOUD_AZURE, location)) {
		az_fail(c, 400, "LocationNotAvailableForResourceGroup",
		    "The provided location '%s' is not available for resource group.", location);
		return false;
	}
	if (!az_tags_valid(c, json_object_get(c->doc, "tags"))) {
		return false;
	}
	if (g && g->scheduled_us) {
		az_fail(c, 409, "ResourceGroupBeingDeleted",
		    "The resource group '%s' is in deprovisioning state and cannot perform this "
		    "operation.",
		    g->name);
		return false;
	}
	if (g && !str_same(g->location, location)) {
		az_fail(c, 409, "InvalidResourceGroupLocation",
		    "Invalid resource group location '%s'. The Resource group already exists in "
		    "location "
		    "'%s'.",
		    location, g->location);
		return false;
	}
	*ret_location = location;
	return true;
}

static void group_put(struct az_call *c)
{
	struct az_res *g = az_find(c->az, AZ_GROUP, NULL, c->name);
	const char *location;
	int status = 200;

	if (!az_need_doc(c) || !group_put_check(c, g, &location)) {
		return;
	}
	if (!g) {
		g = az_new(c->rq->sim, AZ_GROUP, NULL, c->name, location, json_object());
		status = 201;
	}
	json_object_clear(g->doc);
	if (json_object_get(c->doc, "tags")) {
		json_object_set(g->doc, "tags", json_object_get(c->doc, "tags"));
	}
	az_send(c, status, az_view(c->rq->sim, g));
}

static void operation_result(struct az_call *c)
{
	const struct az_op *op = c->az->ops;

	while (op && !az_same(op->id, c->name)) {
		op = op->next;
	}
	if (!op) {
		az_fail(c, 404, "NotFound", "The operation '%s' was not found.", c->name);
		return;
	}
	reply_set(c->rep, op->ended_us ? 200 : 202, NULL, NULL, 0);
	if (op->ended_us) {
		return;
	}
	reply_header(c->rep, "Location",
	    arena_printf(c->rq->arena, "%s%s", c->base, c->rq->http->target));
	reply_header(c->rep, "Retry-After",
	    arena_printf(c->rq->arena, "%d", (int)az_retry_after(c->rq->sim)));
}

static void group_drop(struct az_call *c)
{
	struct az_res *g = az_find(c->az, AZ_GROUP, NULL, c->name);
	const char *force = az_query(c, "forceDeletionTypes");
	struct sim *s = c->rq->sim;
	struct az_op *before = g ? g->op : NULL;

	if (!g) {
		az_fail(c, 404, "ResourceGroupNotFound", "Resource group '%s' could not be found.",
		    c->name);
		return;
	}
	if (force && !az_same(force, "Microsoft.Compute/virtualMachines") &&
	    !az_same(force,
		"Microsoft.Compute/virtualMachines,Microsoft.Compute/virtualMachineScaleSets")) {
		az_fail(c, 400, "InvalidForceDeletionResourceTypes",
		    "The forced deletion of resource types '%s' is not supported.", force);
		return;
	}
	for (const struct az_res *r = c->az->res; r; r = r->next) {
		if (r->kind == AZ_NEAR && az_same(r->group, g->name) && az_near_user(c->az, r)) {
			az_fail(c, 409, "OperationNotAllowed",
			    "Resource group '%s' has a proximity placement group in use by %s.",
			    g->name, az_near_user(c->az, r)->id);
			return;
		}
	}
	if (s->pretend) {
		az_op_end(s, az_op_new(c, g, true), "Succeeded", NULL, NULL);
	} else if (!g->scheduled_us) {
		az_op_new(c, g, true);
		g->scheduled_us = sim_wall(s) + s->conf.terminate_us;
		g->state = "Deleting";
		az_tick(s);
		g = az_find(c->az, AZ_GROUP, NULL, c->name);
	}
	reply_set(c->rep, 202, NULL, NULL, 0);
	reply_header(c->rep, "Location",
	    arena_printf(c->rq->arena,
		"%s/subscriptions/" AZ_SUBSCRIPTION "/operationresults/%s?api-version=%s", c->base,
		g && g->op ? g->op->id : c->az->ops->id, c->version));
	reply_header(c->rep, "Retry-After",
	    arena_printf(c->rq->arena, "%d", (int)az_retry_after(s)));
	if (s->pretend) {
		g->op = before;
	}
}

static void group_get(struct az_call *c)
{
	struct az_res *g = az_find(c->az, AZ_GROUP, NULL, c->name);

	if (!g || !az_visible(c->rq->sim, g)) {
		az_fail(c, 404, "ResourceGroupNotFound", "Resource group '%s' could not be found.",
		    c->name);
		return;
	}
	if (str_same(c->rq->http->method, "HEAD")) {
		reply_set(c->rep, 204, NULL, NULL, 0);
	} else {
		az_send(c, 200, az_view(c->rq->sim, g));
	}
}

static void group_patch(struct az_call *c)
{
	struct az_res *g = az_find(c->az, AZ_GROUP, NULL, c->name);

	if (!g) {
		az_fail(c, 404, "ResourceGroupNotFound", "Resource group '%s' could not be found.",
		    c->name);
	} else if (az_need_doc(c) && az_tags_patch(c, g->doc)) {
		az_send(c, 200, az_view(c->rq->sim, g));
	}
}

void az_group_one(struct az_call *c)
{
	const char *m = c->rq->http->method;

	if (az_same(c->type, "operationresults")) {
		operation_result(c);
	} else if (str_same(m, "PUT")) {
		group_put(c);
	} else if (str_same(m, "PATCH")) {
		group_patch(c);
	} else if (str_same(m, "DELETE")) {
		group_drop(c);
	} else if (str_same(m, "GET") || str_same(m, "HEAD")) {
		group_get(c);
	} else {
		az_fail(c, 405, "MethodNotAllowed", "The method is not allowed here.");
	}
}

/* ---- lists ----------------------------------------------------------------------------------- */

struct tag_filter {
	const char *name, *value, *type;
	bool by_tag;
};

/* "'text'" at *p, quotes doubled inside. */
static const char *quoted_read(struct arena *a, const char **p)
{
	const char *q = *p;
	char *out, *w;

	while (*q == ' ') {
		q++;
	}
	if (*q++ != '\'') {
		return NULL;
	}
	out = w = arena_alloc(a, strlen(q) + 1);
	while (*q && !(*q == '\'' && q[1] != '\'')) {
		if (*q == '\'') {
			q++;
		}
		*w++ = *q++;
	}
	if (*q != '\'') {
		return NULL;
	}
	*p = q + 1;
	return out;
}

static bool comparison_read(struct az_call *c, const char **p, const char *field, const char **ret)
{
	while (**p == ' ') {
		(*p)++;
	}
	if (!str_prefix(*p, field) || !str_prefix(*p + strlen(field), " eq ")) {
		return false;
	}
	*p += strlen(field) + 4;
	*ret = quoted_read(c->rq->arena, p);
	return *ret != NULL;
}

/* "tagName eq 'a' and tagValue eq 'b'", "tagName eq 'a'" or "resourceType eq 't'"; a tag filter
 * goes with no other (REST reference, Resources - List). */
static bool read_filter(struct az_call *c, struct tag_filter *f)
{
	const char *p = az_query(c, "$filter");

	*f = (struct tag_filter){ 0 };
	if (!p || !*p) {
		return true;
	}
	if (comparison_read(c, &p, "tagName", &f->name) ||
	    comparison_read(c, &p, "tagname", &f->name)) {
		f->by_tag = true;
		while (*p == ' ') {
			p++;
		}
		if (!*p) {
			return true;
		}
		if (str_prefix(p, "and ") &&
		    (p += 4,
			comparison_read(c, &p, "tagValue", &f->value) ||
			    comparison_read(c, &p, "tagvalue", &f->value)) &&
		    !p[strspn(p, " ")]) {
			return true;
		}
	} else if (comparison_read(c, &p, "resourceType", &f->type) && !p[strspn(p, " ")]) {
		return true;
	}
	az_fail(c, 400, "InvalidFilterInQueryString",
	    "Invalid $filter '%s' specified in the query string.", az_query(c, "$filter"));
	return false;
}

static const json_t *tags_of(const struct az_res *r)
{
	return json_object_get(r->kind == AZ_VM ? r->asked : r->doc, "tags");
}

/* Tag names are case-insensitive, values are not. */
static bool tag_matches(const struct az_res *r, const struct tag_filter *f)
{
	const char *key;
	json_t *v;

	json_object_foreach ((json_t *)(uintptr_t)tags_of(r), key, v) {
		if (az_same(key, f->name)) {
			return !f->value || str_same(json_string_value(v), f->value);
		}
	}
	return false;
}

void az_groups(struct az_call *c)
{
	struct tag_filter f;
	json_t *list;

	if (!read_filter(c, &f)) {
		return;
	}
	list = json_array();
	for (const struct az_res *r = c->az->res; r; r = r->next) {
		if (r->kind == AZ_GROUP && az_visible(c->rq->sim, r) &&
		    (!f.by_tag || tag_matches(r, &f))) {
			json_array_append_new(list, az_view(c->rq->sim, r));
		}
	}
	az_list(c, list);
}

static json_t *generic_row(struct az_call *c, const struct az_res *r, bool tags, const char *expand)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:s}", "id", r->id, "name", r->name, "type",
	    az_kind_type(r->kind), "location", r->location);

	if (tags && tags_of(r)) {
		json_object_set(o, "tags", (json_t *)(uintptr_t)tags_of(r));
	}
	if (expand && strstr(expand, "createdTime")) {
		json_object_set_new(o, "createdTime",
		    json_string(az_time(c->rq->arena, r->made_us)));
	}
	if (expand && strstr(expand, "changedTime")) {
		json_object_set_new(o, "changedTime",
		    json_string(az_time(c->rq->arena, r->made_us)));
	}
	if (expand && strstr(expand, "provisioningState")) {
		json_object_set_new(o, "provisioningState", json_string(r->state));
	}
	return o;
}

/* Rows found by a tag carry no tags (REST reference, Resources - List). */
void az_resources(struct az_call *c)
{
	struct tag_filter f;
	json_t *list;

	if (!read_filter(c, &f)) {
		return;
	}
	list = json_array();
	for (const struct az_res *r = c->az->res; r; r = r->next) {
		if (r->kind == AZ_GROUP || !az_visible(c->rq->sim, r) ||
		    (c->group && !az_same(c->group, r->group)) ||
		    (f.by_tag && !tag_matches(r, &f)) ||
		    (f.type && !az_same(f.type, az_kind_type(r->kind)))) {
			continue;
		}
		json_array_append_new(list, generic_row(c, r, !f.by_tag, az_query(c, "$expand")));
	}
	az_list(c, list);
}
