/*
 * Resources with plain bodies: networks, security groups, NICs, addresses, disks, identities. NICs,
 * addresses and disks are mostly made by a VM's PUT; a client may also make and delete them itself.
 */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "base/text/text.h"

#include <strings.h>

static json_t *properties_of(json_t *doc)
{
	json_t *p = json_object_get(doc, "properties");

	if (!json_is_object(p)) {
		p = json_object();
		json_object_set_new(doc, "properties", p);
	}
	return p;
}

static void set_guid(struct sim *s, json_t *o, const char *key)
{
	char id[AZ_ID_MAX];

	json_object_set_new(o, key, json_string(az_guid(s, id)));
}

/* ---- addresses and NICs ---------------------------------------------------------------------- */

static void public_ip(struct sim *s, struct az_res *r)
{
	snprintf(r->ip, sizeof(r->ip), "203.0.113.%d", (int)rng_below(&s->rng, 254) + 1);
	json_object_set_new(properties_of(r->doc), "ipAddress", json_string(r->ip));
}

static struct az_res *ip_make(struct az_call *c, struct az_res *nic, const json_t *conf)
{
	const char *name = json_string_value(json_object_get(conf, "name"));
	const json_t *p = json_object_get(conf, "properties"), *sku = json_object_get(conf, "sku");
	const char *option = json_string_value(json_object_get(p, "deleteOption"));
	char hex[9];
	struct az_res *r;

	rng_hex(&c->rq->sim->rng, hex, 4);
	r = az_new(c->rq->sim, AZ_IP, nic->group, arena_printf(c->rq->arena, "%s-%s", name, hex),
	    nic->location,
	    json_pack("{s:o, s:{s:s, s:s, s:i}}", "sku",
		sku ? json_deep_copy(sku)
		    : json_pack("{s:s, s:s}", "name", "Standard", "tier", "Regional"),
		"properties", "publicIPAddressVersion", "IPv4", "publicIPAllocationMethod",
		"Static", "idleTimeoutInMinutes", 4));
	if (json_object_get(conf, "tags")) {
		json_object_set(r->doc, "tags", json_object_get(conf, "tags"));
	}
	if (!json_object_get(json_object_get(r->doc, "sku"), "tier")) {
		json_object_set_new(json_object_get(r->doc, "sku"), "tier",
		    json_string("Regional"));
	}
	set_guid(c->rq->sim, properties_of(r->doc), "resourceGuid");
	public_ip(c->rq->sim, r);
	r->owner = nic;
	r->delete_with = az_same(option, "Delete");
	if (option) {
		json_object_set_new(properties_of(r->doc), "deleteOption", json_string(option));
	}
	return r;
}

static json_t *ip_configuration(struct az_call *c, struct az_res *nic, const json_t *conf)
{
	const json_t *p = json_object_get(conf, "properties"),
		     *pip = json_object_get(p, "publicIPAddressConfiguration");
	const char *name = json_string_value(json_object_get(conf, "name"));
	json_t *out = json_pack("{s:s, s:o, s:s, s:{s:s, s:s, s:s, s:b, s:s}}", "name", name, "id",
	    json_sprintf("%s/ipConfigurations/%s", nic->id, name), "type",
	    "Microsoft.Network/networkInterfaces/ipConfigurations", "properties",
	    "provisioningState", "Succeeded", "privateIPAddress", nic->ip,
	    "privateIPAllocationMethod", "Dynamic", "primary",
	    !json_is_false(json_object_get(p, "primary")), "privateIPAddressVersion", "IPv4");

	if (json_object_get(p, "subnet")) {
		json_object_set_new(properties_of(out), "subnet",
		    json_deep_copy(json_object_get(p, "subnet")));
	}
	if (pip) {
		json_object_set_new(properties_of(out), "publicIPAddress",
		    json_pack("{s:s}", "id", ip_make(c, nic, pip)->id));
	}
	return out;
}

/* The name gets a suffix: a client must read the id from the VM. */
struct az_res *az_nic_make(struct az_call *c, struct az_res *vm, const json_t *conf)
{
	const json_t *p = json_object_get(conf, "properties");
	const char *name = json_string_value(json_object_get(conf, "name"));
	json_t *ips = json_array(), *ip;
	char hex[9];
	struct az_res *r;
	size_t k;

	rng_hex(&c->rq->sim->rng, hex, 4);
	r = az_new(c->rq->sim, AZ_NIC, vm->group, arena_printf(c->rq->arena, "%s-%s", name, hex),
	    vm->location,
	    json_pack("{s:{s:b, s:b, s:b, s:s, s:b}}", "properties", "primary", 1,
		"enableAcceleratedNetworking",
		json_is_true(json_object_get(p, "enableAcceleratedNetworking")),
		"enableIPForwarding", 0, "macAddress", "00-0D-3A-00-00-01",
		"vnetEncryptionSupported", 0));
	r->owner = vm;
	r->delete_with = az_same(json_string_value(json_object_get(p, "deleteOption")), "Delete");
	if (vm->inst) {
		snprintf(r->ip, sizeof(r->ip), "%s", vm->inst->private_ip);
	} else {
		snprintf(r->ip, sizeof(r->ip), "10.255.0.%d",
		    (int)rng_below(&c->rq->sim->rng, 250) + 4);
	}
	if (json_object_get(conf, "tags")) {
		json_object_set(r->doc, "tags", json_object_get(conf, "tags"));
	}
	if (json_object_get(p, "networkSecurityGroup")) {
		json_object_set(properties_of(r->doc), "networkSecurityGroup",
		    json_object_get(p, "networkSecurityGroup"));
	}
	set_guid(c->rq->sim, properties_of(r->doc), "resourceGuid");
	json_array_foreach (json_object_get(p, "ipConfigurations"), k, ip) {
		json_array_append_new(ips, ip_configuration(c, r, ip));
	}
	json_object_set_new(properties_of(r->doc), "ipConfigurations", ips);
	return r;
}

/* Subnets live in their network's document. */
bool az_subnet_known(struct azure *az, const char *id, const char *location)
{
	const char *cut = id ? strstr(id, "/subnets/") : NULL;
	const struct az_res *net;
	json_t *sub;
	size_t k;

	if (!cut) {
		return false;
	}
	for (net = az->res; net; net = net->next) {
		if (net->kind == AZ_VNET && strlen(net->id) == (size_t)(cut - id) &&
		    strncasecmp(net->id, id, (size_t)(cut - id)) == 0) {
			break;
		}
	}
	if (!net || !az_same(net->location, location)) {
		return false;
	}
	json_array_foreach (json_object_get(json_object_get(net->doc, "properties"), "subnets"), k,
	    sub) {
		if (az_same(json_string_value(json_object_get(sub, "name")),
			cut + strlen("/subnets/"))) {
			return true;
		}
	}
	return false;
}

/* ---- disks ----------------------------------------------------------------------------------- */

struct az_res *az_disk_make(struct az_call *c, struct az_res *vm, const json_t *disk, bool os,
    int lun)
{
	const json_t *managed = json_object_get(disk, "managedDisk");
	const char *name = json_string_value(json_object_get(disk, "name")),
		   *sku = json_string_value(json_object_get(managed, "storageAccountType"));
	json_int_t size = json_integer_value(json_object_get(disk, "diskSizeGB"));
	char hex[33];
	struct az_res *r;

	rng_hex(&c->rq->sim->rng, hex, 16);
	if (!name) {
		name = os ? arena_printf(c->rq->arena, "%s_OsDisk_1_%s", vm->name, hex)
			  : arena_printf(c->rq->arena, "%s_DataDisk_%d_%s", vm->name, lun, hex);
	}
	size = size ? size : 30;
	r = az_new(c->rq->sim, AZ_DISK, vm->group, name, vm->location,
	    json_pack("{s:{s:s, s:s}, s:{s:{s:s}, s:I, s:I, s:s}}", "sku", "name",
		sku ? sku : "Standard_LRS", "tier",
		sku && str_prefix(sku, "Premium") ? "Premium" : "Standard", "properties",
		"creationData", "createOption", os ? "FromImage" : "Empty", "diskSizeGB", size,
		"diskSizeBytes", size << 30, "timeCreated",
		az_time(c->rq->arena, sim_wall(c->rq->sim))));
	if (os) {
		json_object_set_new(properties_of(r->doc), "osType", json_string("Linux"));
	}
	set_guid(c->rq->sim, properties_of(r->doc), "uniqueId");
	if (json_object_get(vm->asked, "zones")) {
		json_object_set(r->doc, "zones", json_object_get(vm->asked, "zones"));
	}
	if (json_object_get(vm->asked, "tags")) {
		json_object_set(r->doc, "tags", json_object_get(vm->asked, "tags"));
	}
	r->owner = vm;
	r->delete_with =
	    az_same(json_string_value(json_object_get(disk, "deleteOption")), "Delete");
	return r;
}

/* ---- by hand --------------------------------------------------------------------------------- */

static void resource_complete(struct az_call *c, struct az_res *r)
{
	json_t *p = properties_of(r->doc), *sub;
	size_t k;

	if (r->kind == AZ_NEAR) {
		return;
	}
	if (r->kind == AZ_IDENTITY) {
		set_guid(c->rq->sim, p, "principalId");
		set_guid(c->rq->sim, p, "clientId");
		json_object_set_new(p, "tenantId", json_string(AZ_TENANT));
		return;
	}
	if (!json_object_get(p, "resourceGuid") && r->kind != AZ_DISK) {
		set_guid(c->rq->sim, p, "resourceGuid");
	}
	if (r->kind == AZ_IP) {
		public_ip(c->rq->sim, r);
	}
	if (r->kind == AZ_DISK) {
		json_object_set_new(p, "timeCreated",
		    json_string(az_time(c->rq->arena, sim_wall(c->rq->sim))));
	}
	json_array_foreach (json_object_get(p, "subnets"), k, sub) {
		const char *name = json_string_value(json_object_get(sub, "name"));

		json_object_set_new(sub, "id",
		    json_sprintf("%s/subnets/%s", r->id, name ? name : "default"));
		json_object_set_new(properties_of(sub), "provisioningState",
		    json_string("Succeeded"));
	}
	json_array_foreach (json_object_get(p, "securityRules"), k, sub) {
		const char *name = json_string_value(json_object_get(sub, "name"));

		json_object_set_new(sub, "id",
		    json_sprintf("%s/securityRules/%s", r->id, name ? name : "rule"));
		json_object_set_new(properties_of(sub), "provisioningState",
		    json_string("Succeeded"));
	}
}

static bool body_good(struct az_call *c, enum az_kind kind)
{
	static const char *const known[] = { "location", "tags", "properties", "zones", "sku", "id",
		"name", "type", "etag", "extendedLocation", "managedBy", NULL };
	const char *location;

	if (!az_need_doc(c)) {
		return false;
	}
	location = json_string_value(json_object_get(c->doc, "location"));
	if (json_unknown_key(c->doc, known)) {
		az_fail(c, 400, "InvalidRequestFormat",
		    "Cannot parse the request. Could not find member '%s' on object of type '%s'.",
		    json_unknown_key(c->doc, known), az_kind_type(kind));
		return false;
	}
	if (!location) {
		az_fail(c, 400, "LocationRequired",
		    "The location property is required for this definition.");
		return false;
	}
	c->rq->region = az_location(c->rq->arena, location);
	if (!market_region(c->rq->sim->market, CLOUD_AZURE, c->rq->region)) {
		az_fail(c, 400, "LocationNotAvailableForResourceType",
		    "The provided location '%s' is not available for resource type '%s'.", location,
		    az_kind_type(kind));
		return false;
	}
	return az_tags_valid(c, json_object_get(c->doc, "tags"));
}

static void resource_put(struct az_call *c, enum az_kind kind, struct az_res *r)
{
	const json_t *p;
	bool made = !r;

	if (!az_group_for_write(c) || !body_good(c, kind) ||
	    (kind == AZ_NEAR && !az_near_good(c))) {
		return;
	}
	p = json_object_get(c->doc, "properties");
	if (made && kind == AZ_IP &&
	    az_used(c->rq->sim, c->rq->region, "PublicIPAddresses") >=
		az_quota(c->rq->sim, c->rq->region, "PublicIPAddresses")) {
		az_fail(c, 400, "PublicIPCountLimitReached",
		    "Cannot create more than %lld public IP addresses for this subscription in "
		    "this region.",
		    (long long)az_quota(c->rq->sim, c->rq->region, "PublicIPAddresses"));
		return;
	}
	if (kind == AZ_NIC && !json_is_array(json_object_get(p, "ipConfigurations"))) {
		az_fail(c, 400, "NetworkInterfaceMustHaveOneIpConfiguration",
		    "Network interface %s must have one or more IP configurations.", c->name);
		return;
	}
	if (made) {
		r = az_new(c->rq->sim, kind, c->group, c->name, c->rq->region,
		    json_deep_copy(c->doc));
	} else {
		json_decref(r->doc);
		r->doc = json_deep_copy(c->doc);
	}
	json_object_del(r->doc, "etag");
	resource_complete(c, r);
	/* Disks_CreateOrUpdate has no 201. */
	az_send(c, made && kind != AZ_DISK ? 201 : 200, az_view(c->rq->sim, r));
}

static bool group_used(struct azure *az, const char *id)
{
	for (const struct az_res *r = az->res; r; r = r->next) {
		const json_t *g =
		    json_object_get(json_object_get(r->doc, "properties"), "networkSecurityGroup");

		if (r->kind == AZ_NIC && az_same(json_string_value(json_object_get(g, "id")), id)) {
			return true;
		}
	}
	return false;
}

static bool in_use(struct az_call *c, const struct az_res *r)
{
	if (r->kind == AZ_NIC && r->owner) {
		az_fail(c, 400, "NicInUse",
		    "Network Interface %s is used by existing resource %s. In order to delete the "
		    "network "
		    "interface, it must be dissociated from the resource.",
		    r->id, r->owner->id);
		return true;
	}
	if (r->kind == AZ_NIC && r->reserved_us > sim_wall(c->rq->sim)) {
		az_fail(c, 400, "NicReservedForAnotherVm",
		    "Nic(s) in request is reserved for another Virtual Machine for 180 seconds. "
		    "Please "
		    "provide another nic(s) or retry after 180 seconds.");
		return true;
	}
	if (r->kind == AZ_IP && r->owner) {
		az_fail(c, 400, "PublicIPAddressCannotBeDeleted",
		    "Public IP address %s can not be deleted since it is still allocated to "
		    "resource "
		    "%s/ipConfigurations/ip.",
		    r->id, r->owner->id);
		return true;
	}
	if (r->kind == AZ_DISK && r->owner) {
		az_fail(c, 409, "OperationNotAllowed", "Disk %s is attached to VM %s.", r->name,
		    r->owner->id);
		return true;
	}
	if (r->kind == AZ_VNET && az_subnet_used(c->az, r)) {
		az_fail(c, 400, "InUseSubnetCannotBeDeleted",
		    "Subnet %s is in use and cannot be deleted. In order to delete the subnet, "
		    "delete all the "
		    "resources within the subnet.",
		    az_subnet_used(c->az, r));
		return true;
	}
	if (r->kind == AZ_NEAR && az_near_user(c->az, r)) {
		az_fail(c, 409, "OperationNotAllowed",
		    "Proximity placement group %s cannot be deleted because it is in use by %s.",
		    r->name, az_near_user(c->az, r)->id);
		return true;
	}
	if (r->kind == AZ_NSG && group_used(c->az, r->id)) {
		az_fail(c, 400, "InUseNetworkSecurityGroupCannotBeDeleted",
		    "Network security group %s cannot be deleted because it is in use by network "
		    "interfaces.",
		    r->id);
		return true;
	}
	return false;
}

static void resource_drop(struct az_call *c, struct az_res *r)
{
	if (!az_group_for_write(c)) {
		return;
	}
	if (!r) {
		reply_set(c->rep, 204, NULL, NULL, 0);
		return;
	}
	if (in_use(c, r)) {
		return;
	}
	az_op_new(c, r, true);
	az_op_headers(c, r->op);
	az_op_end(c->rq->sim, r->op, "Succeeded", NULL, NULL);
	az_drop(c->az, r);
	reply_set(c->rep, 202, NULL, NULL, 0);
}

void az_plain_resource(struct az_call *c, enum az_kind kind)
{
	struct az_res *r = az_find(c->az, kind, c->group, c->name);
	const char *m = c->rq->http->method;

	if (r) {
		c->rq->region = r->location;
	}
	if (c->child && r && az_visible(c->rq->sim, r) && az_children(c, r)) {
		return;
	}
	if (c->child && (r || (kind != AZ_VNET && kind != AZ_NSG))) {
		az_fail(c, 404, "NotFound", "The resource has no '%s'.", c->child);
	} else if (str_same(m, "PUT") && !c->child) {
		resource_put(c, kind, r);
	} else if (str_same(m, "DELETE") && !c->child) {
		resource_drop(c, r);
	} else if (str_same(m, "PATCH") && r) {
		if (az_group_for_write(c) && az_need_doc(c) && az_tags_patch(c, r->doc)) {
			az_send(c, 200, az_view(c->rq->sim, r));
		}
	} else if (!c->child && !str_same(m, "GET") && !str_same(m, "PATCH")) {
		az_fail(c, 405, "MethodNotAllowed", "The method is not allowed here.");
	} else if (r && az_visible(c->rq->sim, r)) {
		az_send(c, 200, az_view(c->rq->sim, r));
	} else if (!az_find(c->az, AZ_GROUP, NULL, c->group)) {
		az_fail(c, 404, "ResourceGroupNotFound", "Resource group '%s' could not be found.",
		    c->group);
	} else {
		az_fail(c, 404, "ResourceNotFound",
		    "The Resource '%s/%s' under resource group '%s' was not found. For more "
		    "details please go "
		    "to https://aka.ms/ARMResourceNotFoundFix",
		    az_kind_type(kind), c->name, c->group);
	}
}

void az_plain_list(struct az_call *c, enum az_kind kind)
{
	json_t *list = json_array();

	for (const struct az_res *r = c->az->res; r; r = r->next) {
		if (r->kind == kind && az_visible(c->rq->sim, r) &&
		    (!c->group || az_same(c->group, r->group))) {
			json_array_append_new(list, az_view(c->rq->sim, r));
		}
	}
	az_list(c, list);
}
