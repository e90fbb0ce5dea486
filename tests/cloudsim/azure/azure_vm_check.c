/*
 * Refusals of a VM's body: members that the vendor's models do not have (data/azure_vm_schema.csv),
 * wrong types, and the rules of the service.
 */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#define CUSTOM_DATA_MAX 65535

/* ---- the schema ------------------------------------------------------------------------------ */

struct rule {
	const char *path, *type, *since;
	bool readonly, required;
};
static struct rule *rules;
static size_t rules_n;

static void load_rules(struct sim *s)
{
	struct spot_err err = { 0 };
	struct table t;

	if (rules || !table_open(s, &t, "azure_vm_schema.csv", &err)) {
		return;
	}
	rules = arena_array(s->market->arena, 500, sizeof(*rules));
	while (table_next(&t) && rules_n < 500) {
		rules[rules_n++] = (struct rule){ market_keep(s->market, col(&t, "path")),
			market_keep(s->market, col(&t, "type")),
			market_keep(s->market, col(&t, "since")),
			str_same(col(&t, "readonly"), "true"),
			str_same(col(&t, "required"), "true") };
	}
}

static const struct rule *rule_of(const char *path)
{
	for (size_t k = 0; k < rules_n; k++) {
		if (str_same(rules[k].path, path)) {
			return &rules[k];
		}
	}
	return NULL;
}

static bool has_type(const json_t *v, const char *type)
{
	if (type[0] == '[') {
		return json_is_array(v);
	}
	if (type[0] == '{' || str_same(type, "obj")) {
		return json_is_object(v);
	}
	if (str_same(type, "int")) {
		return json_is_integer(v);
	}
	if (str_same(type, "float")) {
		return json_is_number(v);
	}
	if (str_same(type, "bool")) {
		return json_is_boolean(v);
	}
	return json_is_string(v);
}

static bool keys_walk(struct az_call *c, const json_t *o, const char *path);

static bool member_good(struct az_call *c, const char *path, const char *name, const json_t *v)
{
	const struct rule *r = rule_of(path);
	size_t k;
	json_t *item;

	if (!r || (*r->since && strcmp(c->version, r->since) < 0)) {
		az_fail(c, 400, "BadRequest",
		    "Could not find member '%s' on object of type 'VirtualMachine'. Path '%s', "
		    "line 1, position "
		    "1.",
		    name, path);
		return false;
	}
	if (r->readonly || json_is_null(v)) {
		return true;
	}
	if (!has_type(v, r->type)) {
		az_fail(c, 400, "BadRequest",
		    "Error converting value to type '%s'. Path '%s', line 1, position 1.", r->type,
		    path);
		return false;
	}
	if (str_same(r->type, "obj")) {
		return keys_walk(c, v, path);
	}
	if (str_same(r->type, "[obj]")) {
		json_array_foreach ((json_t *)(uintptr_t)v, k, item) {
			if (!json_is_object(item)) {
				az_fail(c, 400, "BadRequest", "Path '%s' holds no object.", path);
				return false;
			}
			if (!keys_walk(c, item, path)) {
				return false;
			}
		}
	}
	return true;
}

static bool keys_walk(struct az_call *c, const json_t *o, const char *path)
{
	const char *key;
	json_t *v;
	size_t n = strlen(path);

	json_object_foreach ((json_t *)(uintptr_t)o, key, v) {
		if (!member_good(c, *path ? arena_printf(c->rq->arena, "%s.%s", path, key) : key,
			key, v)) {
			return false;
		}
	}
	for (size_t k = 0; k < rules_n; k++) {
		const char *rest = rules[k].path + n + (n > 0);

		if (!rules[k].required ||
		    (n > 0 && (!str_prefix(rules[k].path, path) || rules[k].path[n] != '.')) ||
		    strchr(rest, '.') || json_object_get(o, rest)) {
			continue;
		}
		if (str_same(rest, "location")) {
			az_fail(c, 400, "LocationRequired",
			    "The location property is required for this definition.");
		} else {
			az_fail(c, 400, "InvalidParameter",
			    "Required parameter '%s' is missing (null).", rules[k].path);
		}
		return false;
	}
	return true;
}

bool az_schema_check(struct az_call *c)
{
	load_rules(c->rq->sim);
	return keys_walk(c, c->doc, "") && az_tags_valid(c, json_object_get(c->doc, "tags"));
}

/* ---- rules ----------------------------------------------------------------------------------- */

static const json_t *member_at(const json_t *o, const char *path)
{
	char name[64];

	while (o && *path) {
		size_t n = strcspn(path, ".");

		snprintf(name, sizeof(name), "%.*s", (int)MIN(n, (size_t)63), path);
		o = json_object_get(o, name);
		path += n + (path[n] == '.');
	}
	return o;
}

static const char *text_at(const json_t *o, const char *path)
{
	return json_string_value(member_at(o, path));
}

static bool missing_fail(struct az_call *c, const char *what)
{
	az_fail(c, 400, "InvalidParameter", "Required parameter '%s' is missing (null).", what);
	return false;
}

static bool size_good(struct az_call *c, struct az_want *w)
{
	const struct market *m = c->rq->sim->market;
	const json_t *zones = json_object_get(c->doc, "zones");

	w->size = text_at(c->doc, "properties.hardwareProfile.vmSize");
	if (!w->size) {
		return missing_fail(c, "vmSize");
	}
	if (json_array_size(zones) > 1 || (zones && json_array_size(zones) == 0)) {
		az_fail(c, 400, "InvalidParameter",
		    "The value of parameter zones is invalid: a virtual machine has one "
		    "availability zone.");
		return false;
	}
	w->zone = json_string_value(json_array_get(zones, 0));
	for (size_t k = 0; k < m->types_n; k++) {
		if (m->types[k].cloud == CLOUD_AZURE && az_same(m->types[k].name, w->size)) {
			w->type = &m->types[k];
		}
	}
	if (!w->type) {
		az_fail(c, 400, "InvalidParameter",
		    "The value %s provided for the VM size is not valid. The valid sizes in the "
		    "current region "
		    "are: Standard_NC4as_T4_v3, Standard_NC24ads_A100_v4, ... Find out more on the "
		    "valid VM "
		    "sizes in each region at https://aka.ms/azure-regionservices.",
		    w->size);
		return false;
	}
	if (w->zone && !market_zone(m, w->location, w->zone)) {
		az_fail(c, 400, "AvailabilityZoneNotSupported",
		    "The zone(s) '%s' for resource 'Microsoft.Compute/virtualMachines/%s' is not "
		    "supported. "
		    "The supported zones for location '%s' are '1,2,3'",
		    w->zone, c->name, w->location);
		return false;
	}
	return true;
}

static bool decimals_good(double price)
{
	int64_t hundred_thousandths = (int64_t)(price * 1e5 + 0.5);
	double off = price * 1e5 - (double)hundred_thousandths;

	return off < 1e-4 && off > -1e-4;
}

/* -1, or above zero with at most five decimals. */
static bool max_price_good(struct az_call *c, const json_t *max, struct az_want *w)
{
	double v = json_number_value(max);

	if (v < 0 ? v > -1.000001 && v < -0.999999 : v > 0 && decimals_good(v)) {
		w->max_price = v < 0 ? -1 : (int64_t)(v * 1e6 + 0.5);
		return true;
	}
	az_fail(c, 400, "MaxPriceValueInvalid",
	    "Invalid max price value. The only supported values for max price are -1 or a decimal "
	    "greater than "
	    "zero. Max price value of zero indicates the Azure Spot virtual machine is not "
	    "evictable.");
	return false;
}

static bool spot_good(struct az_call *c, struct az_want *w)
{
	const char *priority = text_at(c->doc, "properties.priority"),
		   *policy = text_at(c->doc, "properties.evictionPolicy");
	const json_t *max = member_at(c->doc, "properties.billingProfile.maxPrice");

	w->side =
	    az_same(priority, "Spot") || az_same(priority, "Low") ? SIDE_SPOT : SIDE_ON_DEMAND;
	w->max_price = -1;
	if (priority && w->side == SIDE_ON_DEMAND && !az_same(priority, "Regular")) {
		az_fail(c, 400, "InvalidParameter",
		    "The value '%s' of parameter 'priority' is not allowed.", priority);
		return false;
	}
	if (w->side == SIDE_ON_DEMAND && policy) {
		az_fail(c, 400, "EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines",
		    "Eviction policy can be set only on Azure Spot Virtual Machines.");
		return false;
	}
	if (w->side == SIDE_ON_DEMAND && member_at(c->doc, "properties.billingProfile")) {
		az_fail(c, 400, "MaxPriceIsSupportedOnlyForAzureSpotVirtualMachines",
		    "Max price is supported only for Azure Spot Virtual Machines.");
		return false;
	}
	if (policy && !az_same(policy, "Deallocate") && !az_same(policy, "Delete")) {
		az_fail(c, 400, "InvalidParameter",
		    "The value '%s' of parameter 'evictionPolicy' is not allowed. Allowed values "
		    "are "
		    "'Deallocate','Delete'.",
		    policy);
		return false;
	}
	if (w->side == SIDE_ON_DEMAND) {
		return true;
	}
	if (!c->az->spot_allowed) {
		az_fail(c, 409, "AzureSpotFeatureNotEnabledForSubscription",
		    "Azure Spot is not supported for this subscription.");
		return false;
	}
	if (strcmp(c->version, "2019-03-01") < 0 || w->type->cents == 0 ||
	    strstr(w->size, "_Promo")) {
		az_fail(c, 409, "AzureSpotIsNotSupportedForThisVMSize",
		    "Azure Spot is not supported for this VM size %s.", w->size);
		return false;
	}
	if (member_at(c->doc, "properties.availabilitySet")) {
		az_fail(c, 409, "AzureSpotVMNotSupportedInAvailabilitySet",
		    "Azure Spot Virtual Machine is not supported in Availability Set.");
		return false;
	}
	return !max || max_price_good(c, max, w);
}

static bool image_good(struct az_call *c, struct az_want *w)
{
	const struct az_image *known = az_images;
	const json_t *i = member_at(c->doc, "properties.storageProfile.imageReference");
	const char *p = text_at(i, "publisher"), *o = text_at(i, "offer"), *s = text_at(i, "sku"),
		   *v = text_at(i, "version");

	if (text_at(i, "id") || text_at(i, "sharedGalleryImageId") ||
	    text_at(i, "communityGalleryImageId")) {
		return true;
	}
	if (!i) {
		return missing_fail(c, "imageReference");
	}
	if (!p || !o || !s || !v) {
		return missing_fail(c, "imageReference.version");
	}
	for (size_t k = 0; k < az_images_n; k++) {
		if (!az_same(known[k].publisher, p) || !az_same(known[k].offer, o) ||
		    !az_same(known[k].sku, s)) {
			continue;
		}
		if (strstr(w->type->maker, known[k].generation)) {
			return true;
		}
		az_fail(c, 400, "BadRequest",
		    "The selected VM size '%s' cannot boot Hypervisor Generation '1'. If this was "
		    "a Create "
		    "operation please check that the Hypervisor Generation of the Image matches "
		    "the Hypervisor "
		    "Generation of the selected VM Size.",
		    w->size);
		return false;
	}
	az_fail(c, 404, "PlatformImageNotFound",
	    "The platform image '%s:%s:%s:%s' is not available. Verify that all fields in the "
	    "storage profile "
	    "are correct. For more details about storage profile information, please refer to "
	    "https://aka.ms/storageprofile",
	    p, o, s, v);
	return false;
}

static bool disks_good(struct az_call *c, struct az_want *w)
{
	const json_t *os = member_at(c->doc, "properties.storageProfile.osDisk"),
		     *size = member_at(os, "diskSizeGB");
	const char *create = text_at(os, "createOption"), *caching = text_at(os, "caching"),
		   *option = text_at(os, "deleteOption");

	if (!member_at(c->doc, "properties.storageProfile")) {
		return missing_fail(c, "storageProfile");
	}
	/* A machine of an image may leave its disk to the service. */
	if (os && !az_same(create, "FromImage")) {
		az_fail(c, 400, "InvalidParameter",
		    "The value '%s' of parameter 'osDisk.createOption' is not allowed here.",
		    create);
		return false;
	}
	if (option && !az_same(option, "Delete") && !az_same(option, "Detach")) {
		az_fail(c, 400, "InvalidParameter",
		    "The value '%s' of parameter 'osDisk.deleteOption' is not allowed.", option);
		return false;
	}
	if (size && json_integer_value(size) < 30) {
		az_fail(c, 409, "OperationNotAllowed",
		    "The specified disk size %lld GB is smaller than the size of the corresponding "
		    "disk in the VM "
		    "image: 30 GB. This is not allowed. Please choose equal or greater size or do "
		    "not specify an "
		    "explicit size.",
		    (long long)json_integer_value(size));
		return false;
	}
	w->ephemeral = az_same(text_at(os, "diffDiskSettings.option"), "Local");
	if (w->ephemeral && !az_same(caching, "ReadOnly")) {
		az_fail(c, 400, "InvalidParameter",
		    "Caching type must be ReadOnly for an OS disk with diffDiskSettings.");
		return false;
	}
	if (w->ephemeral && w->side == SIDE_SPOT &&
	    !az_same(text_at(c->doc, "properties.evictionPolicy"), "Delete")) {
		az_fail(c, 409, "OperationNotAllowed",
		    "Eviction policy Deallocate is not supported for a virtual machine with an "
		    "ephemeral OS disk.");
		return false;
	}
	return image_good(c, w);
}

static bool os_good(struct az_call *c, struct az_want *w)
{
	const json_t *os = member_at(c->doc, "properties.osProfile"),
		     *linux_conf = member_at(os, "linuxConfiguration");
	const char *computer = text_at(os, "computerName"), *data = text_at(os, "customData"),
		   *user = text_at(os, "adminUsername");
	bool no_password = json_is_true(member_at(linux_conf, "disablePasswordAuthentication"));
	const json_t *keys = member_at(linux_conf, "ssh.publicKeys");
	struct str raw;

	if (!os) {
		return missing_fail(c, "osProfile");
	}
	if (!computer) {
		computer = c->name;
	}
	if (strlen(computer) > 64 ||
	    computer[strspn(computer,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.")] ||
	    computer[0] == '-') {
		az_fail(c, 400, "InvalidParameter",
		    "Linux host name cannot exceed 64 characters in length or contain the "
		    "following characters: "
		    "` ~ ! @ # $ %% ^ & * ( ) = + _ [ ] { } \\ | ; : ' \" , < > / ?.");
		return false;
	}
	if (!user) {
		return missing_fail(c, "osProfile.adminUsername");
	}
	if (az_same(user, "admin") || az_same(user, "root") || az_same(user, "administrator")) {
		az_fail(c, 400, "InvalidParameter", "The Admin Username specified is not allowed.");
		return false;
	}
	if (!text_at(os, "adminPassword") && !(no_password && json_array_size(keys) > 0)) {
		az_fail(c, 400, "InvalidParameter",
		    "Authentication using either SSH or by user name and password must be enabled "
		    "in Linux "
		    "profile.");
		return false;
	}
	if (data) {
		if (!base64_decode(c->rq->arena, data, strlen(data), &raw) ||
		    raw.n > CUSTOM_DATA_MAX) {
			az_fail(c, 400, "InvalidParameter",
			    "Custom data in OSProfile must be in Base64 encoding and with a "
			    "maximum length of "
			    "87380 characters.");
			return false;
		}
		w->user_data = raw.p;
		w->user_data_n = raw.n;
	}
	return true;
}

static bool nic_conf_good(struct az_call *c, const json_t *conf, const struct az_want *w)
{
	const json_t *p = member_at(conf, "properties"), *ips = member_at(p, "ipConfigurations"),
		     *ip;
	const char *nsg = text_at(p, "networkSecurityGroup.id"), *subnet;
	const struct az_res *r = nsg ? az_by_id(c->az, nsg) : NULL;

	if (json_array_size(ips) == 0) {
		return missing_fail(c,
		    "networkInterfaceConfigurations.properties.ipConfigurations");
	}
	ip = json_array_get(ips, 0);
	subnet = text_at(ip, "properties.subnet.id");
	if (!subnet) {
		return missing_fail(c, "ipConfigurations.properties.subnet");
	}
	if (nsg && (!r || r->kind != AZ_NSG || !az_same(r->location, w->location))) {
		az_fail(c, 400, "InvalidResourceReference",
		    "Resource %s referenced by resource %s was not found. Please make sure that "
		    "the referenced "
		    "resource exists, and that both resources are in the same region.",
		    nsg, c->name);
		return false;
	}
	if (!az_subnet_known(c->az, subnet, w->location)) {
		az_fail(c, 400, "InvalidResourceReference",
		    "Resource %s referenced by resource %s was not found. Please make sure that "
		    "the referenced "
		    "resource exists, and that both resources are in the same region.",
		    subnet, c->name);
		return false;
	}
	if (member_at(ip, "properties.publicIPAddressConfiguration") &&
	    az_used(c->rq->sim, w->location, "PublicIPAddresses") >=
		az_quota(c->rq->sim, w->location, "PublicIPAddresses")) {
		az_fail(c, 400, "PublicIPCountLimitReached",
		    "Cannot create more than %lld public IP addresses for this subscription in "
		    "this region.",
		    (long long)az_quota(c->rq->sim, w->location, "PublicIPAddresses"));
		return false;
	}
	return true;
}

static bool network_good(struct az_call *c, const struct az_want *w)
{
	const json_t *n = member_at(c->doc, "properties.networkProfile"),
		     *confs = member_at(n, "networkInterfaceConfigurations"),
		     *nics = member_at(n, "networkInterfaces");
	const char *version = text_at(n, "networkApiVersion");
	size_t k;
	json_t *item;

	if (json_array_size(confs) + json_array_size(nics) == 0) {
		return missing_fail(c, "networkProfile");
	}
	if (json_array_size(confs) > 0 && !version) {
		return missing_fail(c, "networkProfile.networkApiVersion");
	}
	if (version && !str_same(version, "2020-11-01") && !str_same(version, "2022-11-01")) {
		az_fail(c, 400, "InvalidParameter",
		    "The value '%s' of parameter 'networkProfile.networkApiVersion' is not "
		    "allowed. Allowed values "
		    "are '2020-11-01','2022-11-01'.",
		    version);
		return false;
	}
	json_array_foreach (confs, k, item) {
		if (!nic_conf_good(c, item, w)) {
			return false;
		}
	}
	json_array_foreach (nics, k, item) {
		const char *id = text_at(item, "id");
		const struct az_res *nic = az_by_id(c->az, id),
				    *vm = az_find(c->az, AZ_VM, c->group, c->name);

		if (!nic || nic->kind != AZ_NIC) {
			az_fail(c, 400, "InvalidResourceReference",
			    "Resource %s referenced by resource %s was not found.", id ? id : "",
			    c->name);
			return false;
		}
		if (nic->owner && nic->owner != vm) {
			az_fail(c, 400, "NicInUse",
			    "Network Interface %s is used by existing resource %s.", nic->id,
			    nic->owner->id);
			return false;
		}
		if (!nic->owner && nic->reserved_us > sim_wall(c->rq->sim)) {
			az_fail(c, 400, "NicReservedForAnotherVm",
			    "Nic(s) in request is reserved for another Virtual Machine for 180 "
			    "seconds. Please "
			    "provide another nic(s) or retry after 180 seconds.");
			return false;
		}
	}
	return true;
}

bool az_vm_check(struct az_call *c, struct az_want *w)
{
	static const char set[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	size_t n = strlen(c->name);

	w->location = az_location(c->rq->arena, text_at(c->doc, "location"));
	c->rq->region = w->location;
	if (n > 64 || c->name[strspn(c->name, set)] || c->name[n - 1] == '.' ||
	    c->name[n - 1] == '-') {
		az_fail(c, 400, "InvalidParameter",
		    "The entity name 'vmName' is invalid according to its validation rule: "
		    "^[^_\\W][\\w-._]{0,79}(?<![-.])$.");
		return false;
	}
	if (!market_region(c->rq->sim->market, CLOUD_AZURE, w->location)) {
		az_fail(c, 400, "LocationNotAvailableForResourceType",
		    "The provided location '%s' is not available for resource type "
		    "'Microsoft.Compute/virtualMachines'.",
		    w->location);
		return false;
	}
	if (!member_at(c->doc, "properties")) {
		return missing_fail(c, "properties");
	}
	return size_good(c, w) && spot_good(c, w) && disks_good(c, w) && os_good(c, w) &&
	    network_good(c, w) && az_near_take(c, w->location);
}

/* ---- fields that may not change -------------------------------------------------------------- */

const char *az_changed(const json_t *before, const json_t *now, struct arena *a)
{
	static const char *const fixed[] = { "zones", "location", "properties.priority",
		"properties.hardwareProfile.vmSize", "properties.osProfile",
		"properties.storageProfile.imageReference",
		"properties.storageProfile.osDisk.createOption",
		"properties.storageProfile.osDisk.name", "properties.evictionPolicy",
		"properties.networkProfile.networkInterfaceConfigurations",
		"properties.billingProfile", "properties.proximityPlacementGroup" };

	for (size_t k = 0; k < ARRAY_LEN(fixed); k++) {
		const json_t *x = member_at(before, fixed[k]), *y = member_at(now, fixed[k]);

		if (str_same(fixed[k], "location") ? !str_same(az_location(a, json_string_value(x)),
							 az_location(a, json_string_value(y)))
						   : (x || y) && !(x && y && json_equal(x, y))) {
			return fixed[k];
		}
	}
	return NULL;
}
