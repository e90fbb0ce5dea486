/* The project's default network, its subnetworks and firewall rules, disk types: there from the
 * start, and unchangeable here. */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

#define BORN "2018-05-02T11:26:45.000-07:00"

/* The one of a list that the last segment names. Takes items. */
static void reply_one(struct gcp_call *c, json_t *items, const char *name, const char *path)
{
	json_t *one, *hit = NULL;
	size_t k;

	json_array_foreach (items, k, one) {
		if (str_same(gcp_text(one, "name"), name) || str_same(gcp_text(one, "id"), name)) {
			hit = one;
		}
	}
	if (hit) {
		gcp_reply(c, json_incref(hit));
	} else {
		gcp_not_found(c, arena_printf(c->a, GCP_P "%s/%s", path, name));
	}
	json_decref(items);
}

/* ---- networks -------------------------------------------------------------------------------- */

static json_t *networks_json(struct gcp_call *c)
{
	const struct market *m = c->sim->market;
	json_t *subs = json_array();

	for (size_t k = 0; k < m->regions_n; k++) {
		if (m->regions[k].cloud == CLOUD_GCP) {
			json_array_append_new(subs,
			    json_string(gcp_link(c->a, "regions/%s/subnetworks/default",
				m->regions[k].name)));
		}
	}
	return json_pack("[{s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:o, s:{s:s}, s:i}]", "kind",
	    "compute#network", "id", gcp_u64(c->a, gcp_hash_id("network/default")),
	    "creationTimestamp", BORN, "name", "default", "description",
	    "Default network for the project", "selfLink",
	    gcp_link(c->a, "global/networks/default"), "autoCreateSubnetworks", 1, "subnetworks",
	    subs, "routingConfig", "routingMode", "REGIONAL", "mtu", 1460);
}

void gcp_networks_list(struct gcp_call *c)
{
	gcp_list(c, "compute#networkList", "global/networks", networks_json(c));
}

void gcp_network_get(struct gcp_call *c)
{
	reply_one(c, networks_json(c), c->arg[1], "global/networks");
}

/* Auto mode gives each region a /20 of 10.128.0.0/9. */
static json_t *subnetwork_json(struct gcp_call *c, const struct region *r)
{
	size_t n = (size_t)(r - c->sim->market->regions) * 16;
	const char *base = arena_printf(c->a, "10.%zu.%zu", 128 + n / 256 % 128, n % 256);

	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:s, s:s, s:s}",
	    "kind", "compute#subnetwork", "id",
	    gcp_u64(c->a, gcp_hash_id(arena_printf(c->a, "subnetwork/%s", r->name))),
	    "creationTimestamp", BORN, "name", "default", "network",
	    gcp_link(c->a, "global/networks/default"), "ipCidrRange",
	    arena_printf(c->a, "%s.0/20", base), "gatewayAddress", arena_printf(c->a, "%s.1", base),
	    "region", gcp_link(c->a, "regions/%s", r->name), "selfLink",
	    gcp_link(c->a, "regions/%s/subnetworks/default", r->name), "fingerprint",
	    gcp_fingerprint(c->a, n), "privateIpGoogleAccess", 0, "privateIpv6GoogleAccess",
	    "DISABLE_GOOGLE_ACCESS", "purpose", "PRIVATE", "stackType", "IPV4_ONLY");
}

/* Of the path's region; NULL: answered. */
static json_t *subnetworks_json(struct gcp_call *c)
{
	const struct region *r = market_region(c->sim->market, CLOUD_GCP, c->arg[1]);

	if (r) {
		return json_pack("[o]", subnetwork_json(c, r));
	}
	gcp_fail(c, 400, "invalid", "Invalid value for field 'region': '%s'. Unknown region.",
	    c->arg[1]);
	return NULL;
}

void gcp_subnetworks_list(struct gcp_call *c)
{
	json_t *items = subnetworks_json(c);

	if (items) {
		gcp_list(c, "compute#subnetworkList",
		    arena_printf(c->a, "regions/%s/subnetworks", c->arg[1]), items);
	}
}

void gcp_subnetwork_get(struct gcp_call *c)
{
	json_t *items = subnetworks_json(c);

	if (items) {
		reply_one(c, items, c->arg[2],
		    arena_printf(c->a, "regions/%s/subnetworks", c->arg[1]));
	}
}

void gcp_subnetworks_aggregated(struct gcp_call *c)
{
	const struct market *m = c->sim->market;
	json_t *items = json_array();

	for (size_t k = 0; k < m->regions_n; k++) {
		if (m->regions[k].cloud == CLOUD_GCP) {
			json_array_append_new(items,
			    json_pack("[o, o]", json_sprintf("regions/%s", m->regions[k].name),
				subnetwork_json(c, &m->regions[k])));
		}
	}
	gcp_aggregate(c, "compute#subnetworkAggregatedList", "aggregated/subnetworks",
	    "subnetworks", items, true);
}

/* ---- firewall rules -------------------------------------------------------------------------- */

static json_t *firewalls_json(struct gcp_call *c)
{
	/* The rules that come with a default network. */
	static const struct {
		const char *name, *about, *protocol, *ports, *range;
	} rules[] = {
		{ "default-allow-icmp", "Allow ICMP from anywhere", "icmp", NULL, "0.0.0.0/0" },
		{ "default-allow-internal", "Allow internal traffic on the default network", "tcp",
		    "0-65535", "10.128.0.0/9" },
		{ "default-allow-rdp", "Allow RDP from anywhere", "tcp", "3389", "0.0.0.0/0" },
		{ "default-allow-ssh", "Allow SSH from anywhere", "tcp", "22", "0.0.0.0/0" },
	};
	json_t *items = json_array();

	for (size_t k = 0; k < ARRAY_LEN(rules); k++) {
		json_t *allowed = json_pack("{s:s}", "IPProtocol", rules[k].protocol);

		if (rules[k].ports) {
			json_object_set_new(allowed, "ports", json_pack("[s]", rules[k].ports));
		}
		json_array_append_new(items,
		    json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:[s], s:[o], s:s, s:s, "
			      "s:{s:b}, s:b}",
			"kind", "compute#firewall", "id", gcp_u64(c->a, gcp_hash_id(rules[k].name)),
			"creationTimestamp", BORN, "name", rules[k].name, "description",
			rules[k].about, "network", gcp_link(c->a, "global/networks/default"),
			"priority", 65534, "sourceRanges", rules[k].range, "allowed", allowed,
			"direction", "INGRESS", "selfLink",
			gcp_link(c->a, "global/firewalls/%s", rules[k].name), "logConfig", "enable",
			0, "disabled", 0));
	}
	return items;
}

void gcp_firewalls_list(struct gcp_call *c)
{
	gcp_list(c, "compute#firewallList", "global/firewalls", firewalls_json(c));
}

void gcp_firewall_get(struct gcp_call *c)
{
	reply_one(c, firewalls_json(c), c->arg[1], "global/firewalls");
}

/* ---- disk types ------------------------------------------------------------------------------ */

static const struct {
	const char *name, *about, *sizes;
	int gb;
} disk_types[] = {
	{ "hyperdisk-balanced", "Hyperdisk Balanced Persistent Disk", "4GB-65536GB", 100 },
	{ "local-ssd", "Local SSD", "375GB-375GB", 375 },
	{ "pd-balanced", "Balanced Persistent Disk", "10GB-65536GB", 100 },
	{ "pd-ssd", "SSD Persistent Disk", "10GB-65536GB", 100 },
	{ "pd-standard", "Standard Persistent Disk", "10GB-65536GB", 500 },
};

bool gcp_disk_type_known(const char *name)
{
	for (size_t k = 0; k < ARRAY_LEN(disk_types); k++) {
		if (str_same(disk_types[k].name, name)) {
			return true;
		}
	}
	return false;
}

/* Of the path's zone; NULL: answered. */
static json_t *types_of(struct gcp_call *c)
{
	const struct zone *z = gcp_zone(c->sim, c->arg[1]);
	json_t *items;

	if (!z) {
		gcp_fail(c, 400, "invalid", "Invalid value for field 'zone': '%s'. Unknown zone.",
		    c->arg[1]);
		return NULL;
	}
	items = json_array();
	for (size_t k = 0; k < ARRAY_LEN(disk_types); k++) {
		json_array_append_new(items,
		    json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "kind",
			"compute#diskType", "id", gcp_u64(c->a, gcp_hash_id(disk_types[k].name)),
			"creationTimestamp", BORN, "name", disk_types[k].name, "description",
			disk_types[k].about, "validDiskSize", disk_types[k].sizes,
			"defaultDiskSizeGb", gcp_u64(c->a, (uint64_t)disk_types[k].gb), "zone",
			gcp_link(c->a, "zones/%s", z->name), "selfLink",
			gcp_link(c->a, "zones/%s/diskTypes/%s", z->name, disk_types[k].name)));
	}
	return items;
}

void gcp_disk_types_list(struct gcp_call *c)
{
	json_t *items = types_of(c);

	if (items) {
		gcp_list(c, "compute#diskTypeList",
		    arena_printf(c->a, "zones/%s/diskTypes", c->arg[1]), items);
	}
}

void gcp_disk_type_get(struct gcp_call *c)
{
	json_t *items = types_of(c);

	if (items) {
		reply_one(c, items, c->arg[2], arena_printf(c->a, "zones/%s/diskTypes", c->arg[1]));
	}
}
