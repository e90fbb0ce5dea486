/*
 * Resource Manager: paths, api-versions, authentication, throttling, and which handler a request
 * goes to.
 */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

/* Which api-versions a type takes (those of the vendor's SDKs and references since 2021). */
static const char compute[] = "2021-03-01 2021-04-01 2021-07-01 2021-11-01 2022-03-01 2022-08-01 "
			      "2022-11-01 2023-03-01 2023-07-01 2023-09-01 2024-03-01 2024-07-01 "
			      "2024-11-01 2025-04-01 2026-03-01 2026-04-01";
static const char disks[] = "2021-04-01 2021-08-01 2021-12-01 2022-03-02 2022-07-02 2023-01-02 "
			    "2023-04-02 2023-10-02 2024-03-02 2025-01-02 2026-03-02";
static const char skus[] = "2017-03-30 2017-09-01 2019-04-01 2021-07-01";
static const char network[] = "2020-11-01 2021-05-01 2021-08-01 2022-05-01 2022-07-01 2022-09-01 "
			      "2022-11-01 2023-02-01 2023-04-01 2023-05-01 2023-06-01 2023-09-01 "
			      "2023-11-01 2024-01-01 2024-03-01 2024-05-01 2024-07-01 2024-10-01 "
			      "2025-01-01";
static const char resources[] = "2019-10-01 2020-06-01 2020-10-01 2021-01-01 2021-04-01 2022-09-01 "
				"2024-03-01 2024-07-01 2024-11-01 2025-03-01 2025-04-01";

static const struct {
	const char *ns, *type, *versions;
} types[] = {
	{ "Microsoft.Compute", "virtualMachines", compute },
	{ "Microsoft.Compute", "locations/operations", compute },
	{ "Microsoft.Compute", "locations/usages", compute },
	{ "Microsoft.Compute", "locations/placementScores", "2025-02-01-preview 2025-06-05" },
	{ "Microsoft.Compute", "locations/publishers", compute },
	{ "Microsoft.Compute", "locations/vmSizes", compute },
	{ "Microsoft.Compute", "locations/virtualMachines", compute },
	{ "Microsoft.Compute", "availabilitySets", compute },
	{ "Microsoft.Compute", "proximityPlacementGroups", compute },
	{ "Microsoft.Compute", "capacityReservationGroups", compute },
	{ "Microsoft.Compute", "virtualMachineScaleSets", compute },
	{ "Microsoft.Compute", "disks", disks },
	{ "Microsoft.Compute", "locations/DiskOperations", disks },
	{ "Microsoft.Compute", "skus", skus },
	{ "Microsoft.Network", "networkInterfaces", network },
	{ "Microsoft.Network", "publicIPAddresses", network },
	{ "Microsoft.Network", "virtualNetworks", network },
	{ "Microsoft.Network", "networkSecurityGroups", network },
	{ "Microsoft.Network", "locations/usages", network },
	{ "Microsoft.Network", "locations/operations", network },
	{ "Microsoft.ManagedIdentity", "userAssignedIdentities",
	    "2018-11-30 2023-01-31 2024-11-30" },
	{ "Microsoft.Authorization", "permissions",
	    "2015-07-01 2018-01-01-preview 2018-07-01 2022-04-01" },
	{ "Microsoft.ResourceGraph", "resources", "2021-03-01 2022-10-01 2024-04-01" },
	{ "Microsoft.Resources", "resourceGroups", resources },
	{ "Microsoft.Resources", "resources", resources },
	{ "Microsoft.Resources", "operationresults", resources },
	{ "Microsoft.Resources", "subscriptions",
	    "2016-06-01 2019-11-01 2020-01-01 2021-01-01 2022-12-01" },
	{ "Microsoft.Resources", "locations",
	    "2016-06-01 2019-11-01 2020-01-01 2021-01-01 2022-12-01" },
	{ "Microsoft.Resources", "providers", resources },
};

/* ---- paths ----------------------------------------------------------------------------------- */

static void provider_part(struct az_call *c, size_t at)
{
	struct arena *a = c->rq->arena;

	c->ns = c->n > at ? c->seg[at] : NULL;
	c->type = c->n > at + 1 ? c->seg[at + 1] : NULL;
	if (az_same(c->type, "locations")) {
		c->rq->region = c->n > at + 2 ? az_location(a, c->seg[at + 2]) : NULL;
		c->type = arena_printf(a, "locations/%s", c->n > at + 3 ? c->seg[at + 3] : "");
		c->name = c->n > at + 4 ? c->seg[at + 4] : NULL;
		c->child = c->n > at + 5 ? c->seg[at + 5] : NULL;
		return;
	}
	c->name = c->n > at + 2 ? c->seg[at + 2] : NULL;
	c->child = c->n > at + 3 ? c->seg[at + 3] : NULL;
	c->child_name = c->n > at + 4 ? c->seg[at + 4] : NULL;
}

/* /subscriptions/{s}[/resourceGroups/{g}][/providers/{ns}/{type}...] and /providers/{ns}/{type} */
static void path_parse(struct az_call *c)
{
	size_t at = 2;

	if (az_same(c->seg[0], "providers")) {
		provider_part(c, 1);
		return;
	}
	c->sub = c->n > 1 ? c->seg[1] : NULL;
	c->ns = "Microsoft.Resources";
	if (c->n > 2 && az_same(c->seg[2], "resourcegroups")) {
		c->group = c->n > 3 ? c->seg[3] : NULL;
		c->type = "resourceGroups";
		c->name = c->group;
		at = 4;
	}
	if (c->n > at + 1 && az_same(c->seg[at], "providers")) {
		if (c->n > at + 2 && !az_same(c->seg[at + 2], "register")) {
			c->name = NULL;
			provider_part(c, at + 1);
			return;
		}
		c->type = "providers";
		c->name = c->seg[at + 1];
		c->child = c->n > at + 2 ? c->seg[at + 2] : NULL;
	} else if (c->n > at) {
		c->type = c->seg[at];
		c->name = c->n > at + 1 ? c->seg[at + 1] : NULL;
	} else if (at == 2) { /* one, or without an id all of them */
		c->type = "subscriptions";
		c->name = c->sub;
	}
}

void az_arm_name(struct az_call *c)
{
	const char *method = c->rq->http->method, *type;

	path_parse(c);
	type = c->type ? c->type : "?";
	if (str_prefix(type, "locations/")) {
		type += strlen("locations/");
	}
	if (str_same(method, "GET") && !c->name) {
		method = "LIST";
	}
	if (az_same(type, "virtualMachines") && c->child) {
		c->rq->action = arena_printf(c->rq->arena, "%s %s/%s", method, type, c->child);
	} else {
		c->rq->action = arena_printf(c->rq->arena, "%s %s", method, type);
	}
}

/* ---- checks before a handler ----------------------------------------------------------------- */

static bool word_in(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; (p = strstr(p, word)) != NULL; p++) {
		if ((p == list || p[-1] == ' ') && (p[n] == ' ' || !p[n])) {
			return true;
		}
	}
	return false;
}

static char *with_commas(struct arena *a, const char *words)
{
	char *out = arena_alloc(a, strlen(words) + 1), *w = out;

	for (const char *p = words; *p; p++) {
		*w++ = (char)(*p == ' ' ? ',' : *p);
	}
	return out;
}

static bool version_good(struct az_call *c)
{
	bool known_ns = false;

	c->version = az_query(c, "api-version");
	if (!c->version || !*c->version) {
		az_fail(c, 400, "MissingApiVersionParameter",
		    "The api-version query parameter (?api-version=) is required for all "
		    "requests.");
		return false;
	}
	for (size_t k = 0; k < ARRAY_LEN(types); k++) {
		if (!az_same(types[k].ns, c->ns)) {
			continue;
		}
		known_ns = true;
		if (!az_same(types[k].type, c->type)) {
			continue;
		}
		if (word_in(types[k].versions, c->version)) {
			return true;
		}
		if (str_same(types[k].ns, "Microsoft.Resources")) {
			az_fail(c, 400, "InvalidApiVersionParameter",
			    "The api-version '%s' is invalid. The supported versions are '%s'.",
			    c->version, with_commas(c->rq->arena, types[k].versions));
		} else {
			az_fail(c, 400, "NoRegisteredProviderFound",
			    "No registered resource provider found for location '%s' and API "
			    "version '%s' "
			    "for type '%s'. The supported api-versions are '%s'. The supported "
			    "locations "
			    "are 'eastus, eastus2, westus, ...'.",
			    c->rq->region ? c->rq->region : "", c->version, c->type,
			    with_commas(c->rq->arena, types[k].versions));
		}
		return false;
	}
	if (known_ns) {
		az_fail(c, 404, "InvalidResourceType",
		    "The resource type '%s' could not be found in the namespace '%s' for api "
		    "version '%s'. "
		    "The supported api-versions are ''.",
		    c->type ? c->type : "", c->ns, c->version);
	} else {
		az_fail(c, 404, "InvalidResourceNamespace",
		    "The resource namespace '%s' is invalid.", c->ns ? c->ns : "");
	}
	return false;
}

static bool is_authenticated(struct az_call *c)
{
	const char *const audiences[] = { "https://management.azure.com",
		"https://management.core.windows.net", c->base, NULL };
	const char *wrong = az_token_check(c, audiences), *code = "InvalidAuthenticationToken",
		   *text = "The access token is invalid.";

	if (!wrong && c->oid[0] && !str_same(c->oid, AZ_CLIENT_OID)) {
		az_fail(c, 403, "AuthorizationFailed",
		    "The client '%s' with object id '%s' does not have authorization to perform "
		    "action '%s' "
		    "over scope '%s' or the scope is invalid. If access was recently granted, "
		    "please refresh "
		    "your credentials.",
		    c->oid, c->oid, c->rq->action, c->rq->http->path);
		return false;
	}
	if (!wrong) {
		return true;
	}
	if (str_same(wrong, "missing")) {
		code = "AuthenticationFailed";
		text = "Authentication failed. The 'Authorization' header is missing.";
	} else if (str_same(wrong, "expired")) {
		code = "ExpiredAuthenticationToken";
		text = "The access token expiry UTC time is earlier than current UTC time.";
	} else if (str_same(wrong, "audience")) {
		code = "InvalidAuthenticationTokenAudience";
		text =
		    "The access token has been obtained for wrong audience or resource. It should "
		    "exactly match with one of the allowed audiences "
		    "'https://management.core.windows.net/','https://management.azure.com/'.";
	}
	az_fail(c, 401, code, "%s", text);
	reply_header(c->rep, "WWW-Authenticate",
	    arena_printf(c->rq->arena,
		"Bearer authorization_uri=\"%s/%s\", error=\"invalid_token\", "
		"error_description=\"%s\"",
		c->base, AZ_TENANT, text));
	return false;
}

/* Token buckets of the front door (Azure docs, "Understand how Azure Resource Manager throttles
 * requests"). Reads have 250 and 25 a second, writes and deletes 200 and 10 a second. */
static bool is_throttled(struct az_call *c)
{
	const char *m = c->rq->http->method;
	bool read = str_same(m, "GET") || str_same(m, "HEAD"), del = str_same(m, "DELETE");
	const char *kind = read ? "reads" : del ? "deletes" : "writes";
	double burst = read ? 250 : 200, rate = read ? 25 : 10;
	const char *text, *key = arena_printf(c->rq->arena, "azure|%s", kind);

	if (throttle_take(c->rq->sim, key, burst, rate, 1)) {
		reply_header(c->rep,
		    arena_printf(c->rq->arena, "x-ms-ratelimit-remaining-subscription-%s", kind),
		    arena_printf(c->rq->arena, "%d", (int)throttle_left(c->rq->sim, key, burst)));
		return false;
	}
	/* Both bodies are seen in the field. */
	if (c->az->turn++ % 2) {
		text = "The request is being throttled.";
		c->rep->headers_n = 0;
		c->rep->code = "429";
		reply_set(c->rep, 429, "text/plain", text, strlen(text));
		reply_header(c->rep, "Retry-After", "1");
		return true;
	}
	az_fail(c, 429, "SubscriptionRequestsThrottled",
	    "Number of requests for subscription '" AZ_SUBSCRIPTION
	    "' and operation '%s' exceeded the backend storage limit. Please try again after '1' "
	    "seconds.",
	    c->rq->action);
	return true;
}

static void trace_headers(struct az_call *c)
{
	const char *id = req_header(c->rq, "x-ms-client-request-id"),
		   *echo = req_header(c->rq, "x-ms-return-client-request-id");

	reply_header(c->rep, "x-ms-request-id", c->rq->request_id);
	reply_header(c->rep, "x-ms-correlation-request-id", c->rq->request_id);
	reply_header(c->rep, "x-ms-routing-request-id",
	    arena_printf(c->rq->arena, "EASTUS:20260101T000000Z:%s", c->rq->request_id));
	if (id && az_same(echo, "true")) {
		reply_header(c->rep, "x-ms-client-request-id", id);
	}
}

/* ---- operations ------------------------------------------------------------------------------ */

static void operation_get(struct az_call *c)
{
	const struct az_op *op = c->az->ops;
	json_t *doc;

	while (op && !az_same(op->id, c->name)) {
		op = op->next;
	}
	if (!op || (op->ended_us && op->ended_us + c->az->forget_us < sim_wall(c->rq->sim))) {
		az_fail(c, 404, "NotFound", "The operation '%s' was not found.",
		    c->name ? c->name : "");
		return;
	}
	if (!op->ended_us) {
		reply_header(c->rep, "Retry-After",
		    arena_printf(c->rq->arena, "%d", (int)az_retry_after(c->rq->sim)));
	}
	if (az_query(c, "monitor") && op->ended_us && op->output) {
		az_send(c, 200, json_incref(op->output));
		return;
	}
	if (az_query(c, "monitor")) { /* the Location form */
		reply_set(c->rep, op->ended_us ? 200 : 202, NULL, NULL, 0);
		if (!op->ended_us) {
			reply_header(c->rep, "Location",
			    arena_printf(c->rq->arena, "%s%s", c->base, c->rq->http->target));
		}
		return;
	}
	doc = json_pack("{s:s, s:s, s:s}", "startTime", az_time(c->rq->arena, op->started_us),
	    "status", op->status, "name", op->id);
	if (op->ended_us) {
		json_object_set_new(doc, "endTime",
		    json_string(az_time(c->rq->arena, op->ended_us)));
	}
	if (op->code) {
		json_object_set_new(doc, "error",
		    json_pack("{s:s, s:s}", "code", op->code, "message", op->message));
	}
	az_send(c, 200, doc);
}

/* ---- dispatch -------------------------------------------------------------------------------- */

static json_t *subscription_view(void)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:{s:s, s:s, s:s}}", "id",
	    "/subscriptions/" AZ_SUBSCRIPTION, "subscriptionId", AZ_SUBSCRIPTION, "tenantId",
	    AZ_TENANT, "displayName", "cloudsim", "state", "Enabled", "subscriptionPolicies",
	    "locationPlacementId", "Public_2014-09-01", "quotaId", "PayAsYouGo_2014-09-01",
	    "spendingLimit", "Off");
}

static void subscription_get(struct az_call *c)
{
	az_send(c, 200, subscription_view());
}

static void subscriptions_list(struct az_call *c)
{
	az_send(c, 200, json_pack("{s:[o]}", "value", subscription_view()));
}

static void locations_list(struct az_call *c)
{
	const struct market *m = c->rq->sim->market;
	json_t *list = json_array();

	for (size_t k = 0; k < m->regions_n; k++) {
		const struct region *r = &m->regions[k];
		json_t *zones, *o;

		if (r->cloud != CLOUD_AZURE) {
			continue;
		}
		zones = json_array();
		for (size_t i = 0; i < m->zones_n; i++) {
			if (m->zones[i].region == r) {
				json_array_append_new(zones,
				    json_pack("{s:s, s:o}", "logicalZone", m->zones[i].name,
					"physicalZone",
					json_sprintf("%s-az%s", r->name, m->zones[i].name)));
			}
		}
		o = json_pack("{s:o, s:s, s:s, s:s, s:s, s:{s:s, s:s}}", "id",
		    json_sprintf("/subscriptions/" AZ_SUBSCRIPTION "/locations/%s", r->name),
		    "name", r->name, "type", "Region", "displayName", r->description,
		    "regionalDisplayName", r->description, "metadata", "regionType", "Physical",
		    "regionCategory", "Recommended");
		if (json_array_size(zones) > 0) {
			json_object_set(o, "availabilityZoneMappings", zones);
		}
		json_decref(zones);
		json_array_append_new(list, o);
	}
	az_send(c, 200, json_pack("{s:o}", "value", list));
}

static json_t *provider_view(const char *ns)
{
	json_t *list = json_array();

	for (size_t k = 0; k < ARRAY_LEN(types); k++) {
		json_t *versions;

		if (!az_same(types[k].ns, ns)) {
			continue;
		}
		versions = json_array();
		for (const char *p = types[k].versions; *p; p += strspn(p, " ")) {
			json_array_append_new(versions, json_stringn(p, strcspn(p, " ")));
			p += strcspn(p, " ");
		}
		json_array_append_new(list,
		    json_pack("{s:s, s:[s, s], s:o}", "resourceType", types[k].type, "locations",
			"East US", "East US 2", "apiVersions", versions));
	}
	return json_pack("{s:o, s:s, s:s, s:s, s:o}", "id",
	    json_sprintf("/subscriptions/" AZ_SUBSCRIPTION "/providers/%s", ns), "namespace", ns,
	    "registrationPolicy", "RegistrationRequired", "registrationState", "Registered",
	    "resourceTypes", list);
}

static void provider_get(struct az_call *c)
{
	az_send(c, 200, provider_view(c->name));
}

static void providers_list(struct az_call *c)
{
	json_t *list = json_array();

	for (size_t k = 0; k < ARRAY_LEN(types); k++) {
		if (k == 0 || !str_same(types[k].ns, types[k - 1].ns)) {
			json_array_append_new(list, provider_view(types[k].ns));
		}
	}
	az_list(c, list);
}

static void call_route(struct az_call *c)
{
	static const struct {
		const char *ns, *type;
		void (*one)(struct az_call *), (*all)(struct az_call *);
		enum az_kind kind;
	} table[] = {
		{ "Microsoft.Compute", "virtualMachines", az_vm, az_vm_list, AZ_NONE },
		{ "Microsoft.Compute", "locations/operations", operation_get, NULL, AZ_NONE },
		{ "Microsoft.Compute", "locations/DiskOperations", operation_get, NULL, AZ_NONE },
		{ "Microsoft.Compute", "locations/usages", NULL, az_usages, AZ_NONE },
		{ "Microsoft.Compute", "locations/placementScores", az_scores, NULL, AZ_NONE },
		{ "Microsoft.Compute", "locations/publishers", az_image_catalog, az_image_catalog,
		    AZ_NONE },
		{ "Microsoft.Compute", "locations/vmSizes", NULL, az_sizes, AZ_NONE },
		{ "Microsoft.Compute", "locations/virtualMachines", NULL, az_vms_at, AZ_NONE },
		{ "Microsoft.Compute", "capacityReservationGroups", az_reserved_get, NULL,
		    AZ_NONE },
		{ "Microsoft.Compute", "availabilitySets", az_set, az_set_list, AZ_NONE },
		{ "Microsoft.Compute", "virtualMachineScaleSets", az_set, az_set_list, AZ_NONE },
		{ "Microsoft.Compute", "skus", NULL, az_skus, AZ_NONE },
		{ "Microsoft.Compute", "disks", NULL, NULL, AZ_DISK },
		{ "Microsoft.Compute", "proximityPlacementGroups", NULL, NULL, AZ_NEAR },
		{ "Microsoft.Network", "networkInterfaces", NULL, NULL, AZ_NIC },
		{ "Microsoft.Network", "publicIPAddresses", NULL, NULL, AZ_IP },
		{ "Microsoft.Network", "virtualNetworks", NULL, NULL, AZ_VNET },
		{ "Microsoft.Network", "networkSecurityGroups", NULL, NULL, AZ_NSG },
		{ "Microsoft.Network", "locations/usages", NULL, az_usages, AZ_NONE },
		{ "Microsoft.Network", "locations/operations", operation_get, NULL, AZ_NONE },
		{ "Microsoft.ManagedIdentity", "userAssignedIdentities", NULL, NULL, AZ_IDENTITY },
		{ "Microsoft.Authorization", "permissions", NULL, az_permissions, AZ_NONE },
		{ "Microsoft.ResourceGraph", "resources", NULL, az_graph, AZ_NONE },
		{ "Microsoft.Resources", "resourceGroups", az_group_one, az_groups, AZ_NONE },
		{ "Microsoft.Resources", "resources", NULL, az_resources, AZ_NONE },
		{ "Microsoft.Resources", "operationresults", az_group_one, NULL, AZ_NONE },
		{ "Microsoft.Resources", "subscriptions", subscription_get, subscriptions_list,
		    AZ_NONE },
		{ "Microsoft.Resources", "locations", NULL, locations_list, AZ_NONE },
		{ "Microsoft.Resources", "providers", provider_get, providers_list, AZ_NONE },
	};

	for (size_t k = 0; k < ARRAY_LEN(table); k++) {
		if (!az_same(table[k].ns, c->ns) || !az_same(table[k].type, c->type)) {
			continue;
		}
		if (table[k].kind != AZ_NONE && c->name) {
			az_plain_resource(c, table[k].kind);
		} else if (table[k].kind != AZ_NONE) {
			az_plain_list(c, table[k].kind);
		} else if (c->name && table[k].one) {
			table[k].one(c);
		} else if (!c->name && table[k].all) {
			table[k].all(c);
		} else {
			break;
		}
		return;
	}
	az_fail(c, 404, "NotFound", "The requested resource does not exist.");
}

void az_arm(struct az_call *c)
{
	if (!is_throttled(c) && is_authenticated(c) && version_good(c)) {
		if (c->sub && !az_same(c->sub, AZ_SUBSCRIPTION)) {
			az_fail(c, 404, "SubscriptionNotFound",
			    "The subscription '%s' could not be found.", c->sub);
		} else {
			call_route(c);
		}
	}
	trace_headers(c);
}
