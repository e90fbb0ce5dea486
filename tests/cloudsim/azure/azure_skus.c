/* Microsoft.Compute/skus, usages of Compute and Network, quotas. */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "base/text/text.h"

/* ---- restrictions ---------------------------------------------------------------------------- */

/* Regions that need to be asked for (reserved access); here the account did not ask. */
static bool region_restricted(const char *region)
{
	static const char *const list[] = { "australiacentral2", "francesouth", "germanynorth",
		"norwaywest", "southafricawest", "switzerlandwest", "uaecentral", "jioindiacentral",
		"southcentralus2" };

	for (size_t k = 0; k < ARRAY_LEN(list); k++) {
		if (str_same(list[k], region)) {
			return true;
		}
	}
	return false;
}

const char *az_restricted(const struct sim *s, const char *region, const char *type,
    const char *zone)
{
	for (const struct az_sku_rule *r = azure_of(s)->rules; r; r = r->next) {
		if (glob_match(r->region, region) && glob_match(r->type, type) &&
		    (!r->zone || (zone && glob_match(r->zone, zone)))) {
			return str_same(r->reason, "none") ? NULL : r->reason;
		}
	}
	if (region_restricted(region)) {
		return "NotAvailableForSubscription";
	}
	return strstr(type, "MI300X") && str_same(region, "westus") ? "QuotaId" : NULL;
}

void az_rule_drop(struct az_sku_rule *r)
{
	free(r->region);
	free(r->type);
	free(r->zone);
	free(r->reason);
	free(r);
}

/* "West US 3" without its blanks, as this API spells locations. */
static const char *mixed_case(struct arena *a, const struct region *r)
{
	char *out = arena_strdup(a, r->description), *w = out;

	for (const char *p = r->description; *p; p++) {
		if (*p != ' ') {
			*w++ = *p;
		}
	}
	*w = '\0';
	return out;
}

static void capability_add(json_t *list, const char *name, json_t *value)
{
	json_array_append_new(list, json_pack("{s:s, s:o}", "name", name, "value", value));
}

static json_t *capabilities_json(const struct itype *t)
{
	json_t *c = json_array();
	bool premium = !strstr(t->name, "_v2");

	capability_add(c, "MaxResourceVolumeMB", json_string("65536"));
	capability_add(c, "OSVhdSizeMB", json_string("1047552"));
	capability_add(c, "vCPUs", json_sprintf("%d", t->vcpus));
	capability_add(c, "MemoryPreservingMaintenanceSupported", json_string("False"));
	capability_add(c, "HyperVGenerations", json_string(t->maker));
	capability_add(c, "MemoryGB", json_sprintf("%d", t->mem_mib / 1024));
	capability_add(c, "MaxDataDiskCount", json_string("8"));
	capability_add(c, "CpuArchitectureType", json_string(t->arch));
	capability_add(c, "LowPriorityCapable", json_string(t->cents ? "True" : "False"));
	capability_add(c, "PremiumIO", json_string(premium ? "True" : "False"));
	capability_add(c, "VMDeploymentTypes", json_string("IaaS"));
	capability_add(c, "vCPUsAvailable", json_sprintf("%d", t->vcpus));
	if (t->cards > 0) {
		capability_add(c, "GPUs", json_sprintf("%d", t->cards));
	}
	capability_add(c, "vCPUsPerCore", json_string("1"));
	capability_add(c, "EphemeralOSDiskSupported", json_string(premium ? "True" : "False"));
	capability_add(c, "AcceleratedNetworkingEnabled", json_string("True"));
	capability_add(c, "RdmaEnabled", json_string(t->efa ? "True" : "False"));
	capability_add(c, "MaxNetworkInterfaces", json_string("8"));
	return c;
}

static json_t *restriction_json(const char *type, const char *location, json_t *zones,
    const char *reason)
{
	json_t *info = json_pack("{s:[s]}", "locations", location);

	if (zones) {
		json_object_set_new(info, "zones", zones);
	}
	return json_pack("{s:s, s:[s], s:o, s:s}", "type", type, "values", location,
	    "restrictionInfo", info, "reasonCode", reason);
}

static json_t *sku_json(struct az_call *c, const struct pool *p)
{
	const struct market *m = c->rq->sim->market;
	const char *location = mixed_case(c->rq->arena, p->region), *all;
	json_t *zones = json_array(), *closed = json_array(), *limits = json_array();
	const char *why = NULL, *reason;

	for (size_t k = 0; k < m->pools_n; k++) {
		const struct pool *z = &m->pools[k];

		if (!z->zone || z->region != p->region || z->type != p->type) {
			continue;
		}
		json_array_append_new(zones, json_string(z->zone->name));
		reason = az_restricted(c->rq->sim, p->region->name, p->type->name, z->zone->name);
		if (reason) {
			why = reason;
			json_array_append_new(closed, json_string(z->zone->name));
		}
	}
	all = az_restricted(c->rq->sim, p->region->name, p->type->name, NULL);
	if (all) {
		json_array_append_new(limits, restriction_json("Location", location, NULL, all));
	}
	if (why) {
		json_array_append_new(limits,
		    restriction_json("Zone", location, json_incref(closed), why));
	}
	json_decref(closed);
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:[s], s:[{s:s, s:o, s:[]}], s:o, s:o}",
	    "resourceType", "virtualMachines", "name", p->type->name, "tier", "Standard", "size",
	    p->type->name + strlen("Standard_"), "family", az_family(p->type), "locations",
	    location, "locationInfo", "location", location, "zones", zones, "zoneDetails",
	    "capabilities", capabilities_json(p->type), "restrictions", limits);
}

/* Rows that are no virtual machines, as every reply has. */
static void other_rows(struct az_call *c, json_t *list, const struct region *r)
{
	const char *location = mixed_case(c->rq->arena, r);

	json_array_append_new(list,
	    json_pack("{s:s, s:s, s:[s], s:[{s:s, s:[]}], s:[{s:s, s:s}], s:[]}", "resourceType",
		"availabilitySets", "name", "Aligned", "locations", location, "locationInfo",
		"location", location, "zones", "capabilities", "name",
		"MaximumPlatformFaultDomainCount", "value", "3", "restrictions"));
	json_array_append_new(list,
	    json_pack("{s:s, s:s, s:s, s:s, s:[s], s:[{s:s, s:[]}], s:[], s:[]}", "resourceType",
		"disks", "name", "Premium_LRS", "tier", "Premium", "size", "P10", "locations",
		location, "locationInfo", "location", location, "zones", "capabilities",
		"restrictions"));
}

/* "location eq 'eastus'" is the only filter (Resource Skus - List). */
void az_skus(struct az_call *c)
{
	const char *f = az_query(c, "$filter"), *want = NULL;
	const struct market *m = c->rq->sim->market;
	json_t *list;

	if (f && *f) {
		const char *q = strchr(f, '\''), *end = q ? strchr(q + 1, '\'') : NULL;

		if (!str_prefix(f, "location eq '") || !end || end[1]) {
			az_fail(c, 400, "BadRequest",
			    "The filter '%s' is not supported. The only supported filter is "
			    "location.",
			    f);
			return;
		}
		want = az_location(c->rq->arena,
		    arena_strndup(c->rq->arena, q + 1, (size_t)(end - q - 1)));
		c->rq->region = want;
	}
	list = json_array();
	for (size_t k = 0; k < m->regions_n; k++) {
		if (m->regions[k].cloud == CLOUD_AZURE &&
		    (!want || str_same(want, m->regions[k].name))) {
			other_rows(c, list, &m->regions[k]);
		}
	}
	for (size_t k = 0; k < m->pools_n; k++) {
		const struct pool *p = &m->pools[k];

		if (p->cloud == CLOUD_AZURE && !p->zone &&
		    (!want || str_same(want, p->region->name))) {
			json_array_append_new(list, sku_json(c, p));
		}
	}
	az_list(c, list);
}

/* ---- quotas ---------------------------------------------------------------------------------- */

int64_t az_quota(const struct sim *s, const char *region, const char *code)
{
	const struct azure *az = azure_of(s);

	for (size_t k = az->quotas_n; k-- > 0;) {
		if (glob_match(az->quotas[k].region, region) &&
		    glob_match(az->quotas[k].code, code)) {
			return az->quotas[k].limit;
		}
	}
	return s->conf.quota_vcpus;
}

static const struct itype *type_of(const struct sim *s, const struct az_res *vm)
{
	const json_t *p = json_object_get(vm->asked, "properties");
	const char *size =
	    json_string_value(json_object_get(json_object_get(p, "hardwareProfile"), "vmSize"));

	for (size_t k = 0; k < s->market->types_n; k++) {
		if (s->market->types[k].cloud == CLOUD_AZURE &&
		    az_same(s->market->types[k].name, size)) {
			return &s->market->types[k];
		}
	}
	return NULL;
}

/* Failed VMs hold no cores; deallocated Spot VMs still do. */
int64_t az_used(const struct sim *s, const char *region, const char *code)
{
	int64_t sum = 0;

	for (const struct az_res *r = azure_of(s)->res; r; r = r->next) {
		const struct itype *t;
		bool spot;

		if (!az_same(r->location, region)) {
			continue;
		}
		if (r->kind == AZ_IP && str_same(code, "PublicIPAddresses")) {
			sum++;
		}
		if (r->kind != AZ_VM || str_same(r->state, "Failed") || r->fail_code) {
			continue;
		}
		t = type_of(s, r);
		spot = az_same(json_string_value(
				   json_object_get(json_object_get(r->asked, "properties"),
				       "priority")),
		    "Spot");
		if (str_same(code, "virtualMachines")) {
			sum++;
		} else if (t && str_same(code, "lowPriorityCores") && spot) {
			sum += t->vcpus;
		} else if (t && !spot && (str_same(code, "cores") || az_same(code, az_family(t)))) {
			sum += t->vcpus;
		}
	}
	return sum;
}

static void usage_add(struct az_call *c, json_t *list, const char *code, const char *words)
{
	json_array_append_new(list,
	    json_pack("{s:s, s:I, s:I, s:{s:s, s:s}}", "unit", "Count", "currentValue",
		(json_int_t)az_used(c->rq->sim, c->rq->region, code), "limit",
		(json_int_t)az_quota(c->rq->sim, c->rq->region, code), "name", "value", code,
		"localizedValue", words));
}

static void family_usages(struct az_call *c, json_t *list)
{
	const struct market *m = c->rq->sim->market;

	for (size_t k = 0; k < m->types_n; k++) {
		bool before = false;

		if (m->types[k].cloud != CLOUD_AZURE) {
			continue;
		}
		for (size_t i = 0; i < k && !before; i++) {
			before = m->types[i].cloud == CLOUD_AZURE &&
			    str_same(az_family(&m->types[i]), az_family(&m->types[k]));
		}
		if (!before) {
			usage_add(c, list, az_family(&m->types[k]),
			    arena_printf(c->rq->arena, "%s vCPUs", az_family(&m->types[k])));
		}
	}
}

void az_usages(struct az_call *c)
{
	json_t *list;

	if (!c->rq->region || !market_region(c->rq->sim->market, CLOUD_AZURE, c->rq->region)) {
		az_fail(c, 400, "NoRegisteredProviderFound",
		    "No registered resource provider found for location '%s'.",
		    c->rq->region ? c->rq->region : "");
		return;
	}
	list = json_array();
	if (az_same(c->ns, "Microsoft.Network")) {
		usage_add(c, list, "PublicIPAddresses", "Public IP Addresses");
		usage_add(c, list, "VirtualNetworks", "Virtual Networks");
	} else {
		usage_add(c, list, "availabilitySets", "Availability Sets");
		usage_add(c, list, "cores", "Total Regional vCPUs");
		usage_add(c, list, "virtualMachines", "Virtual Machines");
		usage_add(c, list, "lowPriorityCores", "Total Regional Low-priority vCPUs");
		family_usages(c, list);
	}
	az_list(c, list);
}
