/*
 * Requests of Compute and Network clients beside machines. Images and sizes of a region, machines
 * by region, run command and redeploy. Availability and scale sets: there are none, and a policy
 * forbids making them. Subnets and security rules by their own addresses, the list of resource
 * providers, Resource Graph as a table.
 */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "base/text/text.h"

/* ---- images ---------------------------------------------------------------------------------- */

const struct az_image az_images[] = { { "microsoft-dsvm", "ubuntu-hpc", "2204", "V2" },
	{ "microsoft-dsvm", "ubuntu-hpc", "2404", "V2" },
	{ "microsoft-dsvm", "ubuntu-hpc", "2204-rocm", "V2" },
	{ "microsoft-dsvm", "ubuntu-hpc", "2404-arm", "V2" },
	{ "canonical", "ubuntu-24_04-lts", "server", "V2" },
	{ "canonical", "ubuntu-24_04-lts", "server-gen1", "V1" },
	{ "canonical", "0001-com-ubuntu-server-jammy", "22_04-lts-gen2", "V2" },
	{ "canonical", "0001-com-ubuntu-server-jammy", "22_04-lts", "V1" },
	{ "debian", "debian-12", "12-gen2", "V2" }, { "debian", "debian-12", "12", "V1" } };
const size_t az_images_n = ARRAY_LEN(az_images);

#define IMAGE_VERSION "22.04.2026100101"

static const char *image_field(const struct az_image *i, int level)
{
	const char *const f[] = { i->publisher, i->offer, i->sku, IMAGE_VERSION };

	return f[level];
}

/* The segment after a word of the path; NULL: the path ends before it. */
static const char *segment_after(const struct az_call *c, const char *word)
{
	for (size_t k = 0; k + 1 < c->n; k++) {
		if (az_same(c->seg[k], word)) {
			return c->seg[k + 1];
		}
	}
	return NULL;
}

static bool region_known(struct az_call *c)
{
	if (c->rq->region && market_region(c->rq->sim->market, CLOUD_AZURE, c->rq->region)) {
		return true;
	}
	az_fail(c, 400, "NoRegisteredProviderFound",
	    "No registered resource provider found for location '%s' and API version '%s' for type "
	    "'%s'.",
	    c->rq->region ? c->rq->region : "", c->version, c->type);
	return false;
}

static const char *image_path(struct az_call *c, int level, const struct az_image *i)
{
	static const char *const words[] = { "publishers", "artifacttypes/vmimage/offers", "skus",
		"versions" };
	const char *path = arena_printf(c->rq->arena,
	    "/Subscriptions/" AZ_SUBSCRIPTION "/Providers/Microsoft.Compute/Locations/%s",
	    c->rq->region);

	for (int k = 0; k <= level; k++) {
		path = arena_printf(c->rq->arena, "%s/%s/%s", path, words[k], image_field(i, k));
	}
	return path;
}

static void one_version(struct az_call *c, const struct az_image *i)
{
	az_send(c, 200,
	    json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:{s:s}, s:{s:b}, s:[]}}", "id",
		image_path(c, 3, i), "name", IMAGE_VERSION, "location", c->rq->region, "properties",
		"hyperVGeneration", i->generation, "architecture",
		strstr(i->sku, "arm") ? "Arm64" : "x64", "osDiskImage", "operatingSystem", "Linux",
		"automaticOSUpgradeProperties", "automaticOSUpgradeSupported", 0,
		"dataDiskImages"));
}

/* publishers[/{p}/artifacttypes/vmimage/offers[/{o}/skus[/{s}/versions[/{v}]]]] */
void az_image_catalog(struct az_call *c)
{
	const char *const want[] = { segment_after(c, "publishers"), segment_after(c, "offers"),
		segment_after(c, "skus"), segment_after(c, "versions") };
	int level = 0;
	json_t *list, *seen AUTO(json) = json_object();

	if (!region_known(c)) {
		return;
	}
	while (level < 3 && want[level]) {
		level++;
	}
	list = json_array();
	for (size_t k = 0; k < az_images_n; k++) {
		const struct az_image *i = &az_images[k];
		bool hit = true;

		for (int w = 0; w < level; w++) {
			hit = hit && az_same(image_field(i, w), want[w]);
		}
		if (!hit || json_object_get(seen, image_field(i, level))) {
			continue;
		}
		if (want[3] && (az_same(want[3], IMAGE_VERSION) || az_same(want[3], "latest"))) {
			json_decref(list);
			one_version(c, i);
			return;
		}
		json_object_set_new(seen, image_field(i, level), json_true());
		json_array_append_new(list,
		    json_pack("{s:s, s:s, s:s}", "location", c->rq->region, "name",
			image_field(i, level), "id", image_path(c, level, i)));
	}
	if (want[3] || (level > 0 && json_array_size(list) == 0)) {
		json_decref(list);
		az_fail(c, 404, "NotFound", "Artifact: %s was not found.",
		    want[3]          ? "VMImage"
			: level == 1 ? "Publisher"
			: level == 2 ? "Offer"
				     : "SKU");
		return;
	}
	az_send_value(c, list);
}

/* These lists are bare arrays, not "value" with a nextLink. */
void az_send_value(struct az_call *c, json_t *list)
{
	char *text = json_text(c->rq->arena, list);

	json_decref(list);
	reply_set(c->rep, 200, "application/json; charset=utf-8", text, strlen(text));
}

/* ---- sizes, machines of a region ------------------------------------------------------------- */

static json_t *size_row(const struct itype *t)
{
	return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i}", "name", t->name, "numberOfCores",
	    t->vcpus, "osDiskSizeInMB", 1047552, "resourceDiskSizeInMB", 65536, "memoryInMB",
	    t->mem_mib, "maxDataDiskCount", 8);
}

void az_sizes_of(struct az_call *c, const char *region)
{
	const struct market *m = c->rq->sim->market;
	json_t *list = json_array();

	for (size_t k = 0; k < m->pools_n; k++) {
		const struct pool *p = &m->pools[k];

		if (p->cloud == CLOUD_AZURE && !p->zone && az_same(p->region->name, region)) {
			json_array_append_new(list, size_row(p->type));
		}
	}
	az_send(c, 200, json_pack("{s:o}", "value", list));
}

void az_sizes(struct az_call *c)
{
	if (region_known(c)) {
		az_sizes_of(c, c->rq->region);
	}
}

void az_vms_at(struct az_call *c)
{
	json_t *list;

	if (!region_known(c)) {
		return;
	}
	list = json_array();
	for (const struct az_res *r = c->az->res; r; r = r->next) {
		if (r->kind == AZ_VM && az_visible(c->rq->sim, r) &&
		    az_same(r->location, c->rq->region)) {
			json_array_append_new(list, az_vm_view(c->rq->sim, r, false));
		}
	}
	az_list(c, list);
}

/* ---- actions on a machine -------------------------------------------------------------------- */

/* No script is run: the answer is that of one that printed nothing. */
static void run_command(struct az_call *c, struct az_res *r)
{
	static const char *const known[] = { "RunShellScript", "ifconfig" };
	const char *id;
	bool hit = false;

	if (!az_need_doc(c)) {
		return;
	}
	id = json_string_value(json_object_get(c->doc, "commandId"));
	for (size_t k = 0; k < ARRAY_LEN(known); k++) {
		hit = hit || az_same(known[k], id);
	}
	if (!id) {
		az_fail(c, 400, "InvalidParameter",
		    "Required parameter 'commandId' is missing (null).");
		return;
	}
	if (!hit) {
		az_fail(c, 404, "RunCommandDocumentNotFound",
		    "Run Command document with id '%s' was not found.", id);
		return;
	}
	if (!r->inst || r->inst->state != INST_RUNNING || r->stopped) {
		az_fail(c, 409, "OperationNotAllowed",
		    "Cannot modify extensions in the VM when the VM is not running.");
		return;
	}
	az_op_new(c, r, true);
	az_op_headers(c, r->op);
	r->op->output = json_pack("{s:[{s:s, s:s, s:s, s:s}]}", "value", "code",
	    "ProvisioningState/succeeded", "level", "Info", "displayStatus",
	    "Provisioning succeeded", "message", "Enable succeeded: \n[stdout]\n\n[stderr]\n");
	az_op_end(c->rq->sim, r->op, "Succeeded", NULL, NULL);
	reply_set(c->rep, 202, NULL, NULL, 0);
}

/* To another host: the machine goes on, and so does the bill. */
static void vm_redeploy(struct az_call *c, struct az_res *r)
{
	if (!r->inst || r->deallocated) {
		az_fail(c, 409, "OperationNotAllowed", "The VM '%s' is not in a state for that.",
		    r->name);
		return;
	}
	az_op_new(c, r, true);
	az_op_headers(c, r->op);
	az_op_end(c->rq->sim, r->op, "Succeeded", NULL, NULL);
	reply_set(c->rep, 202, NULL, NULL, 0);
}

bool az_vm_action(struct az_call *c, struct az_res *r)
{
	if (az_same(c->child, "runCommand")) {
		run_command(c, r);
	} else if (az_same(c->child, "redeploy") || az_same(c->child, "reapply")) {
		vm_redeploy(c, r);
	} else {
		return false;
	}
	return true;
}

/* ---- sets ------------------------------------------------------------------------------------ */

/* There are none: a policy of the subscription allows only the types that are emulated. */
void az_set(struct az_call *c)
{
	const char *m = c->rq->http->method;

	if (str_same(m, "PUT")) {
		if (az_group_for_write(c)) {
			az_fail(c, 403, "RequestDisallowedByPolicy",
			    "Resource '%s' was disallowed by policy. Policy identifiers: "
			    "'[{\"policyAssignment\":{\"name\":\"Allowed resource "
			    "types\",\"id\":\"/subscriptions/" AZ_SUBSCRIPTION
			    "/providers/Microsoft.Authorization/policyAssignments/"
			    "allowed-types\"}}]'.",
			    c->name);
		}
	} else if (str_same(m, "DELETE")) {
		reply_set(c->rep, 204, NULL, NULL, 0);
	} else {
		az_fail(c, 404, "ResourceNotFound",
		    "The Resource '%s/%s/%s' under resource group '%s' was not found. For more "
		    "details please "
		    "go to https://aka.ms/ARMResourceNotFoundFix",
		    c->ns, c->type, c->name, c->group ? c->group : "");
	}
}

void az_set_list(struct az_call *c)
{
	if (c->group && !az_find(c->az, AZ_GROUP, NULL, c->group)) {
		az_fail(c, 404, "ResourceGroupNotFound", "Resource group '%s' could not be found.",
		    c->group);
	} else {
		az_send(c, 200, json_pack("{s:[]}", "value"));
	}
}

/* ---- subnets and rules ----------------------------------------------------------------------- */

static json_t *properties_of(json_t *doc)
{
	json_t *p = json_object_get(doc, "properties");

	if (!p) {
		p = json_object();
		json_object_set_new(doc, "properties", p);
	}
	return p;
}

static size_t child_at(const json_t *list, const char *name)
{
	size_t k;
	json_t *one;

	json_array_foreach (list, k, one) {
		if (az_same(json_string_value(json_object_get(one, "name")), name)) {
			break;
		}
	}
	return k;
}

/* A subnet that a NIC's address stands in. */
static bool subnet_used(struct azure *az, const char *id)
{
	for (const struct az_res *r = az->res; r; r = r->next) {
		size_t k;
		json_t *ip;

		if (r->kind != AZ_NIC) {
			continue;
		}
		json_array_foreach (json_object_get(json_object_get(r->doc, "properties"),
					"ipConfigurations"),
		    k, ip) {
			const json_t *sub =
			    json_object_get(json_object_get(ip, "properties"), "subnet");

			if (az_same(json_string_value(json_object_get(sub, "id")), id)) {
				return true;
			}
		}
	}
	return false;
}

const char *az_subnet_used(struct azure *az, const struct az_res *r)
{
	json_t *sub;
	size_t k;

	json_array_foreach (json_object_get(json_object_get(r->doc, "properties"), "subnets"), k,
	    sub) {
		const char *id = json_string_value(json_object_get(sub, "id"));

		if (id && subnet_used(az, id)) {
			return json_string_value(json_object_get(sub, "name"));
		}
	}
	return NULL;
}

static bool child_good(struct az_call *c, const char *list)
{
	const json_t *p;

	if (!az_group_for_write(c) || !az_need_doc(c)) {
		return false;
	}
	p = json_object_get(c->doc, "properties");
	if (str_same(list, "subnets") && !json_object_get(p, "addressPrefix") &&
	    !json_object_get(p, "addressPrefixes")) {
		az_fail(c, 400, "NoAddressPrefixOrPoolProvided",
		    "No address prefix or address pool was provided for subnet '%s'.",
		    c->child_name);
		return false;
	}
	if (str_same(list, "securityRules") &&
	    (json_integer_value(json_object_get(p, "priority")) < 100 ||
		json_integer_value(json_object_get(p, "priority")) > 4096)) {
		az_fail(c, 400, "SecurityRuleInvalidPriority",
		    "Security rule %s has invalid priority. Value provided: %d Allowed range "
		    "100-4096.",
		    c->child_name, (int)json_integer_value(json_object_get(p, "priority")));
		return false;
	}
	return true;
}

static void child_put(struct az_call *c, struct az_res *r, json_t *all, const char *list)
{
	size_t k = child_at(all, c->child_name);
	bool made = k == json_array_size(all);
	json_t *one;

	if (!child_good(c, list)) {
		return;
	}
	one = json_deep_copy(c->doc);
	json_object_set_new(one, "name", json_string(c->child_name));
	json_object_set_new(one, "id", json_sprintf("%s/%s/%s", r->id, list, c->child_name));
	json_object_set_new(one, "etag", json_string("W/\"1\""));
	json_object_set_new(properties_of(one), "provisioningState", json_string("Succeeded"));
	if (made) {
		json_array_append_new(all, one);
	} else {
		json_array_set_new(all, k, one);
	}
	az_send(c, made ? 201 : 200, json_incref(one));
}

static void child_drop(struct az_call *c, struct az_res *r, json_t *all, size_t k)
{
	const char *id = json_string_value(json_object_get(json_array_get(all, k), "id"));

	if (!az_group_for_write(c)) {
		return;
	}
	if (k == json_array_size(all)) {
		reply_set(c->rep, 204, NULL, NULL, 0);
		return;
	}
	if (subnet_used(c->az, id)) {
		az_fail(c, 400, "InUseSubnetCannotBeDeleted",
		    "Subnet %s is in use and cannot be deleted. In order to delete the subnet, "
		    "delete all the "
		    "resources within the subnet.",
		    c->child_name);
		return;
	}
	az_op_new(c, r, true);
	az_op_headers(c, r->op);
	az_op_end(c->rq->sim, r->op, "Succeeded", NULL, NULL);
	json_array_remove(all, k);
	reply_set(c->rep, 202, NULL, NULL, 0);
}

bool az_children(struct az_call *c, struct az_res *r)
{
	const char *m = c->rq->http->method;
	const char *list = r->kind == AZ_VNET && az_same(c->child, "subnets") ? "subnets"
	    : r->kind == AZ_NSG && az_same(c->child, "securityRules")         ? "securityRules"
									      : NULL;
	json_t *p = properties_of(r->doc), *all = list ? json_object_get(p, list) : NULL;
	size_t k;

	if (!list) {
		return false;
	}
	if (!json_is_array(all)) {
		all = json_array();
		json_object_set_new(p, list, all);
	}
	k = child_at(all, c->child_name);
	if (!c->child_name) {
		az_list(c, json_incref(all));
	} else if (str_same(m, "PUT")) {
		child_put(c, r, all, list);
	} else if (str_same(m, "DELETE")) {
		child_drop(c, r, all, k);
	} else if (!str_same(m, "GET")) {
		az_fail(c, 405, "MethodNotAllowed", "The method is not allowed here.");
	} else if (k < json_array_size(all)) {
		az_send(c, 200, json_incref(json_array_get(all, k)));
	} else {
		az_fail(c, 404, "NotFound", "Resource %s/%s/%s not found.", r->id, list,
		    c->child_name);
	}
	return true;
}

/* ---- Resource Graph as a table --------------------------------------------------------------- */

static const char *column_type(const json_t *v)
{
	return json_is_string(v) ? "string"
	    : json_is_integer(v) ? "integer"
	    : json_is_real(v)    ? "number"
	    : json_is_boolean(v) ? "boolean"
				 : "object";
}

json_t *az_graph_columns(const json_t *rows)
{
	json_t *columns = json_array(), *out = json_array(), *row, *v, *column;
	const char *key;
	size_t k, i;

	json_object_foreach (json_array_get(rows, 0), key, v) {
		json_array_append_new(columns,
		    json_pack("{s:s, s:s}", "name", key, "type", column_type(v)));
	}
	json_array_foreach (rows, k, row) {
		json_t *cells = json_array();

		json_array_foreach (columns, i, column) {
			v = json_object_get(row,
			    json_string_value(json_object_get(column, "name")));
			json_array_append_new(cells, v ? json_incref(v) : json_null());
		}
		json_array_append_new(out, cells);
	}
	return json_pack("{s:o, s:o}", "columns", columns, "rows", out);
}
