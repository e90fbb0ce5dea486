#include "base/base.h"
#include "azure_priv.h"

/*
 * The bodies of what we create: a resource group per lease, and in it a machine of the same name.
 * The machine's body holds its disk, network card and public address. All go with it: deleteOption
 * is Delete everywhere, because the default is Detach.
 * learn.microsoft.com/rest/api/compute/virtual-machines/create-or-update.
 */

#include "base/crypto/crypto.h"

#include <ctype.h>

/* ---- names ----------------------------------------------------------------------------------- */

/* Names of machines take letters, digits and hyphens for sure; a launch name may have dots
 * (azure-resource-manager/ management/resource-name-rules). A name that would be too long ends in
 * its hash. */
const char *azure_lease(const struct azure *self, struct arena *a, const char *launch_name)
{
	char *name = arena_printf(a, "%s-%s", self->group_prefix, launch_name);
	size_t n = strlen(name);
	char hex[SHA256_HEX];

	sha256_hex(name, n, hex);
	for (size_t i = 0; i < n; i++) {
		name[i] =
		    isalnum((unsigned char)name[i]) ? (char)tolower((unsigned char)name[i]) : '-';
	}
	while (n > 0 && name[n - 1] == '-') {
		name[--n] = '\0';
	}
	return n <= AZURE_NAME_MAX ? name : arena_printf(a, "%.47s-%.16s", name, hex);
}

bool azure_lease_ok(const struct azure *self, const char *ref)
{
	size_t n = ref != NULL ? strlen(ref) : 0, prefix = strlen(self->group_prefix);

	return n > prefix + 1 && n <= AZURE_NAME_MAX &&
	    strncmp(ref, self->group_prefix, prefix) == 0 && ref[prefix] == '-' &&
	    strspn(ref, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

const char *azure_group_path(const struct azure *self, struct arena *a, const char *lease)
{
	return arena_printf(a, "/subscriptions/%s/resourcegroups/%s", self->subscription, lease);
}

const char *azure_vm_path(const struct azure *self, struct arena *a, const char *lease)
{
	return arena_printf(a,
	    "/subscriptions/%s/resourceGroups/%s/providers/Microsoft.Compute/virtualMachines/%s",
	    self->subscription, lease, lease);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static json_t *tags_of(const struct spot_launch *l)
{
	json_t *tags =
	    json_pack("{s:s, s:s}", AZURE_TAG_INSTALL, l->install, AZURE_TAG_TOKEN, l->token);

	if (!str_empty(l->name)) {
		json_object_set_new(tags, AZURE_TAG_NAME, json_string(l->name));
	}
	for (size_t i = 0; i < l->tags_n; i++) {
		json_object_set_new(tags, l->tags[i].key, json_string(l->tags[i].value));
	}
	return tags;
}

/* The group's list has no creation time: it is a tag. */
const char *azure_group_body(struct spot_call *c, const struct spot_launch *l)
{
	json_t *doc AUTO(json) =
	    json_pack("{s:s, s:o}", "location", l->key.region, "tags", tags_of(l));

	json_object_set_new(json_object_get(doc, "tags"), AZURE_TAG_CREATED,
	    json_string(arena_printf(c->arena, "%" PRId64, c->now_us / SPOT_US_PER_S)));
	return json_text(c->arena, doc);
}

/* publisher:offer:sku:version, or the id of an image of one's own. */
static json_t *image_of(const struct azure *self, struct arena *a, const struct spot_launch *l)
{
	bool arm = l->shape.arch != NULL && strcmp(l->shape.arch, "arm64") == 0;
	const char *image = arm ? self->image_arm64 : self->image, *part[4];
	char *text;

	if (image[0] == '/') {
		return json_pack("{s:s}", "id", image);
	}
	text = arena_strdup(a, image);
	for (size_t i = 0; i < ARRAY_LEN(part); i++) {
		char *colon = strchr(text, ':');

		part[i] = text;
		if (colon != NULL) {
			*colon = '\0';
			text = colon + 1;
		}
	}
	return json_pack("{s:s, s:s, s:s, s:s}", "publisher", part[0], "offer", part[1], "sku",
	    part[2], "version", part[3]);
}

static json_t *storage_of(const struct azure *self, struct arena *a, const struct spot_launch *l,
    const char *lease)
{
	/* The name holds the lease, should the disk ever stay behind on its own. */
	json_t *disk = json_pack("{s:s, s:s, s:s, s:s, s:{s:s}}", "name",
	    arena_printf(a, "%s-os", lease), "createOption", "FromImage", "deleteOption", "Delete",
	    "caching", "ReadWrite", "managedDisk", "storageAccountType", self->disk_type);

	if (self->disk_gib > 0) {
		json_object_set_new(disk, "diskSizeGB", json_integer(self->disk_gib));
	}
	return json_pack("{s:o, s:o}", "imageReference", image_of(self, a, l), "osDisk", disk);
}

static json_t *os_of(const struct azure *self, struct arena *a, const struct spot_launch *l,
    const char *lease)
{
	json_t *os = json_pack("{s:s, s:s, s:{s:b, s:{s:[{s:s, s:s}]}}}", "computerName",
	    arena_printf(a, "%.63s", lease), "adminUsername", self->admin_user,
	    "linuxConfiguration", "disablePasswordAuthentication", 1, "ssh", "publicKeys", "path",
	    arena_printf(a, "/home/%s/.ssh/authorized_keys", self->admin_user), "keyData",
	    self->ssh_public_key);

	if (l->user_data.n > 0) {
		json_object_set_new(os, "customData",
		    json_string(base64_encode(a, l->user_data.p, l->user_data.n)));
	}
	return os;
}

static json_t *network_of(const struct azure *self, struct arena *a, const char *lease,
    const char *subnet, const char *nsg)
{
	json_t *ip = json_pack("{s:b, s:{s:s}}", "primary", 1, "subnet", "id", subnet), *card;

	if (self->public_ip) {
		json_object_set_new(ip, "publicIPAddressConfiguration",
		    json_pack("{s:s, s:{s:s}, s:{s:s, s:s}}", "name",
			arena_printf(a, "%.60s-ip", lease), "sku", "name", "Standard", "properties",
			"deleteOption", "Delete", "publicIPAllocationMethod", "Static"));
	}
	card = json_pack("{s:b, s:s, s:[{s:s, s:o}]}", "primary", 1, "deleteOption", "Delete",
	    "ipConfigurations", "name", "ip", "properties", ip);
	if (nsg != NULL) {
		json_object_set_new(card, "networkSecurityGroup", json_pack("{s:s}", "id", nsg));
	}
	/* Without tags: versions of the API before 2025 have none for a card (azure-mgmt-compute
	 * v2024_11_01), and it goes with its group. */
	return json_pack("{s:s, s:[{s:s, s:o}]}", "networkApiVersion", API_NETWORK,
	    "networkInterfaceConfigurations", "name", arena_printf(a, "%.60s-nic", lease),
	    "properties", card);
}

/* Dollars an hour with at most five decimals; a sixth is cut, never rounded up over the cap. */
static void market_add(json_t *to, const struct spot_launch *l)
{
	json_t *price = l->price_cap_micros > 0
	    ? json_real((double)(l->price_cap_micros / 10) / 1e5)
	    : json_integer(-1); /* capped at the on-demand price; never evicted for the price */

	if (l->key.market != SPOT_MARKET_SPOT) {
		json_object_set_new(to, "priority", json_string("Regular"));
		json_decref(price);
		return;
	}
	json_object_set_new(to, "priority", json_string("Spot"));
	/* The default, Deallocate, leaves a disk that bills and a quota that is used. */
	json_object_set_new(to, "evictionPolicy", json_string("Delete"));
	json_object_set_new(to, "billingProfile", json_pack("{s:o}", "maxPrice", price));
}

/* ---- the whole ------------------------------------------------------------------------------- */

static enum spot_step place_read(const struct azure *self, struct spot_call *c, const char *key,
    const char *type, const char *region, const char **ret)
{
	key = arena_printf(c->arena, "%s.%s", key, region);
	*ret = azure_setting(self, key);
	if (*ret != NULL && !azure_id_ok(*ret, type)) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "azure: %s: '%.60s' is not the id of one of %s", key, *ret, type);
	}
	return SPOT_STEP_NONE;
}

enum spot_step azure_vm_body(struct azure *self, struct spot_call *c, const struct spot_launch *l,
    const char *lease, const char **ret)
{
	json_t *doc AUTO(json) = NULL, *properties;
	const char *subnet, *nsg, *group = NULL;
	enum spot_step s = place_read(self, c, "subnet", "subnets", l->key.region, &subnet);

	if (s == SPOT_STEP_NONE) {
		s = place_read(self, c, "nsg", "networkSecurityGroups", l->key.region, &nsg);
	}
	if (s == SPOT_STEP_NONE && l->key.market == SPOT_MARKET_RESERVED) {
		s = azure_reservation_group(self, c, l->key.region, &group);
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (l->key.market == SPOT_MARKET_RESERVED && group == NULL) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "azure launch: reservation_group.%s is not set", l->key.region);
	}
	if (subnet == NULL) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "azure launch: subnet.%s is not set: give the id of a subnet of that region",
		    l->key.region);
	}
	if (self->ssh_public_key == NULL) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "azure launch: ssh_public_key is not set: a Linux machine without "
		    "a password needs one");
	}
	properties = json_pack("{s:{s:s}, s:o, s:o, s:o}", "hardwareProfile", "vmSize",
	    l->key.instance_type, "storageProfile", storage_of(self, c->arena, l, lease),
	    "osProfile", os_of(self, c->arena, l, lease), "networkProfile",
	    network_of(self, c->arena, lease, subnet, nsg));
	market_add(properties, l);
	doc = json_pack("{s:s, s:o, s:o}", "location", l->key.region, "tags", tags_of(l),
	    "properties", properties);
	if (!str_empty(l->zone_name)) {
		json_object_set_new(doc, "zones", json_pack("[s]", l->zone_name));
	}
	if (l->key.market == SPOT_MARKET_RESERVED) {
		json_object_set_new(properties, "capacityReservation",
		    json_pack("{s:{s:s}}", "capacityReservationGroup", "id", group));
	}
	if (azure_near_lease(self, c->arena, l) != NULL) {
		json_object_set_new(properties, "proximityPlacementGroup",
		    json_pack("{s:s}", "id",
			azure_near_path(self, c->arena, azure_near_lease(self, c->arena, l))));
	}
	if (self->identity != NULL) {
		json_object_set_new(doc, "identity",
		    json_pack("{s:s, s:{s:{}}}", "type", "UserAssigned", "userAssignedIdentities",
			self->identity));
	}
	*ret = json_text(c->arena, doc);
	return SPOT_STEP_NONE;
}
