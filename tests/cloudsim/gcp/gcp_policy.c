/* Resource policies of group placement (page "Reduce latency by using compact placement policies").
 * Schedules of snapshots and instances, and workload policies, are not emulated. */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

struct gcp_policy {
	struct gcp_policy *next;
	uint64_t id;
	char *name, *region, *about;
	json_t *placement;
	int64_t made_us;
};

static void policy_free(struct gcp_policy *p)
{
	json_decref(p->placement);
	free(p->name);
	free(p->region);
	free(p->about);
	free(p);
}

void gcp_policies_free(struct sim *s)
{
	while (s->gcp->policies) {
		struct gcp_policy *p = s->gcp->policies;

		s->gcp->policies = p->next;
		policy_free(p);
	}
}

static struct gcp_policy **at_name(const struct gcp *g, const char *region, const char *name)
{
	struct gcp_policy **at = (struct gcp_policy **)(uintptr_t)&g->policies;

	while (*at && (!str_same((*at)->region, region) || !str_same((*at)->name, name))) {
		at = &(*at)->next;
	}
	return at;
}

static const char *policy_path(struct arena *a, const struct gcp_policy *p)
{
	return arena_printf(a, "regions/%s/resourcePolicies/%s", p->region, p->name);
}

static json_t *policy_json(const struct gcp_policy *p, struct arena *a)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:O}", "kind",
	    "compute#resourcePolicy", "id", gcp_u64(a, p->id), "creationTimestamp",
	    gcp_time(a, p->made_us), "name", p->name, "region",
	    gcp_link(a, "regions/%s", p->region), "selfLink", gcp_link(a, "%s", policy_path(a, p)),
	    "status", "READY", "groupPlacementPolicy", p->placement);

	if (p->about) {
		json_object_set_new(o, "description", json_string(p->about));
	}
	return o;
}

static bool invalid_fail(struct gcp_call *c, const char *field, const char *value, const char *why)
{
	gcp_fail(c, 400, "invalid", "Invalid value for field 'resource.%s': '%s'. %s", field,
	    value ? value : "", why);
	return false;
}

/* ---- methods --------------------------------------------------------------------------------- */

static bool region_known(struct gcp_call *c)
{
	if (market_region(c->sim->market, CLOUD_GCP, c->arg[1])) {
		return true;
	}
	gcp_fail(c, 400, "invalid", "Invalid value for field 'region': '%s'. Unknown region.",
	    c->arg[1]);
	return false;
}

static bool insert_valid(struct gcp_call *c, const char *name)
{
	const json_t *placement = json_object_get(c->body, "groupPlacementPolicy");
	const char *how = gcp_text(placement, "collocation");

	if (!gcp_name_valid(name)) {
		return invalid_fail(c, "name", name,
		    "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'");
	}
	if (!placement) {
		return invalid_fail(c, "groupPlacementPolicy", "",
		    "A resource policy must have one policy.");
	}
	if (how && !str_same(how, "COLLOCATED") && !str_same(how, "UNSPECIFIED_COLLOCATION")) {
		return invalid_fail(c, "groupPlacementPolicy.collocation", how, "");
	}
	if (str_same(how, "COLLOCATED") && json_object_get(placement, "availabilityDomainCount")) {
		return invalid_fail(c, "groupPlacementPolicy.availabilityDomainCount", "",
		    "A compact policy has no availability domains.");
	}
	if (*at_name(c->g, c->arg[1], name)) {
		gcp_fail(c, 409, "alreadyExists",
		    "The resource '" GCP_P "regions/%s/resourcePolicies/%s' already exists",
		    c->arg[1], name);
		return false;
	}
	return true;
}

static void op_reply(struct gcp_call *c, const char *type, const struct gcp_policy *p,
    const char *request)
{
	struct gcp_op *op = gcp_op_new(c->sim, type, arena_printf(c->a, "regions/%s", p->region),
	    c->email, gcp_link(c->a, "%s", policy_path(c->a, p)), gcp_u64(c->a, p->id));

	op->request_id = dup_text(request);
	gcp_op_after(op, 1, NULL);
	gcp_reply(c, gcp_op_json(op, c->a));
}

void gcp_policy_insert(struct gcp_call *c)
{
	const char *scope = arena_printf(c->a, "regions/%s", c->arg[1]), *request;
	const char *name = gcp_text(c->body, "name");
	struct gcp_policy *p;

	if (!region_known(c) || !gcp_request_id(c, scope, &request) || !insert_valid(c, name)) {
		return;
	}
	p = calloc(1, sizeof(*p));
	if (!p) {
		abort();
	}
	p->id = gcp_new_id(c->sim);
	p->name = dup_text(name);
	p->region = dup_text(c->arg[1]);
	p->about = dup_text(gcp_text(c->body, "description"));
	p->placement = json_deep_copy(json_object_get(c->body, "groupPlacementPolicy"));
	p->made_us = sim_wall(c->sim);
	*at_name(c->g, p->region, p->name) = p;
	op_reply(c, "insert", p, request);
}

static struct gcp_policy **policy_find(struct gcp_call *c, const char *region, const char *name)
{
	struct gcp_policy **at = at_name(c->g, region, name);

	if (*at) {
		return at;
	}
	gcp_not_found(c, arena_printf(c->a, GCP_P "regions/%s/resourcePolicies/%s", region, name));
	return NULL;
}

void gcp_policy_get(struct gcp_call *c)
{
	struct gcp_policy **at = policy_find(c, c->arg[1], c->arg[2]);

	if (at) {
		gcp_reply(c, policy_json(*at, c->a));
	}
}

void gcp_policies_aggregated(struct gcp_call *c)
{
	json_t *items = json_array();

	for (const struct gcp_policy *p = c->g->policies; p; p = p->next) {
		json_array_append_new(items,
		    json_pack("[o, o]", json_sprintf("regions/%s", p->region),
			policy_json(p, c->a)));
	}
	gcp_aggregate(c, "compute#resourcePolicyAggregatedList", "aggregated/resourcePolicies",
	    "resourcePolicies", items, true);
}

static bool policy_has(const struct gcp_policy *p, const struct inst *i)
{
	return i->cloud == CLOUD_GCP && gcp_vm(i) && gcp_vm(i)->exists &&
	    str_same(i->pool->region->name, p->region) && str_same(gcp_vm(i)->policy, p->name);
}

void gcp_policy_delete(struct gcp_call *c)
{
	const char *scope = arena_printf(c->a, "regions/%s", c->arg[1]), *request;
	struct gcp_policy **at, *p;

	if (!gcp_request_id(c, scope, &request) || !(at = policy_find(c, c->arg[1], c->arg[2]))) {
		return;
	}
	p = *at;
	for (const struct inst *i = c->sim->insts; i; i = i->next) {
		if (policy_has(p, i)) {
			gcp_fail(c, 400, "resourceInUseByAnotherResource",
			    "The resource_policy resource '" GCP_P
			    "%s' is already being used by '" GCP_P "zones/%s/instances/%s'",
			    policy_path(c->a, p), i->pool->zone->name, i->name);
			return;
		}
	}
	*at = p->next;
	op_reply(c, "delete", p, request);
	policy_free(p);
}

/* ---- used ------------------------------------------------------------------------------------ */

/* instances.insert names a policy by its path, bulkInsert by its bare name. */
static const char *name_read(struct gcp_call *c, const struct gcp_want *w, const char *text)
{
	const char *want =
	    arena_printf(c->a, "regions/%s/resourcePolicies/", w->zone->region->name);
	const char *at = strstr(text, want);

	if (w->bulk) {
		return strchr(text, '/') ? NULL : text;
	}
	return at ? at + strlen(want) : NULL;
}

bool gcp_policy_take(struct gcp_call *c, struct gcp_want *w)
{
	const json_t *list = json_object_get(w->props, "resourcePolicies");
	const char *text = json_string_value(json_array_get(list, 0)), *name;
	struct gcp_policy **at;

	if (json_array_size(list) == 0) {
		return true;
	}
	name = json_array_size(list) == 1 && text ? name_read(c, w, text) : NULL;
	if (!name) {
		return invalid_fail(c, "resourcePolicies[0]", text,
		    "The URL is malformed, or there is more than one policy.");
	}
	at = policy_find(c, w->zone->region->name, name);
	if (!at) {
		return false;
	}
	if (str_prefix(w->machine, "n1-") &&
	    str_same(gcp_text((*at)->placement, "collocation"), "COLLOCATED")) {
		return invalid_fail(c, "machineType", w->machine,
		    "The machine type does not support compact placement.");
	}
	if (w->reserved) {
		return invalid_fail(c, "resourcePolicies[0]", text,
		    "The VM does not match the reservation.");
	}
	w->policy = (*at)->name;
	return true;
}
