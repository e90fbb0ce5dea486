/* The fixed inventory: project, regions, zones, machine and accelerator types, images. */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

#define BORN "2018-05-02T11:26:45.000-07:00"

/* ---- project, regions, zones ----------------------------------------------------------------- */

void gcp_project_get(struct gcp_call *c)
{
	gcp_reply(c,
	    json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:s, s:s, s:s}", "kind", "compute#project",
		"id", gcp_u64(c->a, gcp_hash_id(GCP_PROJECT)), "creationTimestamp", BORN, "name",
		GCP_PROJECT, "selfLink", GCP_LINKS "projects/" GCP_PROJECT, "quotas",
		gcp_quotas_json(c->sim, NULL), "defaultServiceAccount", GCP_NODE_SA,
		"defaultNetworkTier", "PREMIUM", "xpnProjectStatus",
		"UNSPECIFIED_XPN_PROJECT_STATUS"));
}

static json_t *zone_json(struct gcp_call *c, const struct zone *z)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:[s]}", "kind", "compute#zone",
	    "id", gcp_u64(c->a, gcp_hash_id(z->name)), "creationTimestamp", BORN, "name", z->name,
	    "description", z->name, "status", "UP", "region",
	    gcp_link(c->a, "regions/%s", z->region->name), "selfLink",
	    gcp_link(c->a, "zones/%s", z->name), "availableCpuPlatforms", "Intel Sapphire Rapids");
}

static json_t *region_json(struct gcp_call *c, const struct region *r)
{
	json_t *zones = json_array();

	for (size_t k = 0; k < c->g->zones_n; k++) {
		if (c->g->zones[k].zone->region == r) {
			json_array_append_new(zones,
			    json_string(gcp_link(c->a, "zones/%s", c->g->zones[k].zone->name)));
		}
	}
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "kind", "compute#region",
	    "id", gcp_u64(c->a, gcp_hash_id(r->name)), "creationTimestamp", BORN, "name", r->name,
	    "description", r->name, "status", "UP", "selfLink",
	    gcp_link(c->a, "regions/%s", r->name), "zones", zones, "quotas",
	    gcp_quotas_json(c->sim, r->name));
}

void gcp_zones_list(struct gcp_call *c)
{
	json_t *list = json_array();

	for (size_t k = 0; k < c->g->zones_n; k++) {
		json_array_append_new(list, zone_json(c, c->g->zones[k].zone));
	}
	gcp_list(c, "compute#zoneList", "zones", list);
}

/* The zone of the path; NULL: answered. */
static struct zone *zone_of(struct gcp_call *c)
{
	struct zone *z = gcp_zone(c->sim, c->arg[1]);

	if (!z) {
		gcp_fail(c, 400, "invalid", "Invalid value for field 'zone': '%s'. Unknown zone.",
		    c->arg[1]);
	}
	return z;
}

void gcp_zone_get(struct gcp_call *c)
{
	struct zone *z = gcp_zone(c->sim, c->arg[1]);

	if (z) {
		gcp_reply(c, zone_json(c, z));
	} else {
		gcp_not_found(c, arena_printf(c->a, GCP_P "zones/%s", c->arg[1]));
	}
}

void gcp_regions_list(struct gcp_call *c)
{
	json_t *list = json_array();

	for (size_t k = 0; k < c->sim->market->regions_n; k++) {
		if (c->sim->market->regions[k].cloud == CLOUD_GCP) {
			json_array_append_new(list, region_json(c, &c->sim->market->regions[k]));
		}
	}
	gcp_list(c, "compute#regionList", "regions", list);
}

void gcp_region_get(struct gcp_call *c)
{
	const struct region *r = market_region(c->sim->market, CLOUD_GCP, c->arg[1]);

	if (r) {
		gcp_reply(c, region_json(c, r));
	} else {
		gcp_not_found(c, arena_printf(c->a, GCP_P "regions/%s", c->arg[1]));
	}
}

/* ---- machine types --------------------------------------------------------------------------- */

static json_t *type_json(struct gcp_call *c, const struct gcp_type *t, const struct zone *z)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:s, s:s, s:s, s:b, s:s}",
	    "kind", "compute#machineType", "id", gcp_u64(c->a, gcp_hash_id(t->machine)),
	    "creationTimestamp", BORN, "name", t->machine, "description",
	    arena_printf(c->a, "%d vCPUs, %d GB RAM", t->type->vcpus, t->type->mem_mib / 1024),
	    "guestCpus", t->type->vcpus, "memoryMb", t->type->mem_mib, "maximumPersistentDisks",
	    128, "maximumPersistentDisksSizeGb", "263168", "zone", z->name, "selfLink",
	    gcp_link(c->a, "zones/%s/machineTypes/%s", z->name, t->machine), "isSharedCpu", 0,
	    "architecture", "X86_64");

	if (t->attached) {
		return o;
	}
	json_object_set_new(o, "accelerators",
	    json_pack("[{s:s, s:i}]", "guestAcceleratorType", t->accelerator,
		"guestAcceleratorCount", t->gpus));
	if (t->ssds) {
		json_object_set_new(o, "bundledLocalSsds",
		    json_pack("{s:s, s:i}", "defaultInterface", "NVME", "partitionCount", t->ssds));
	}
	return o;
}

/* A plain type that is being withdrawn, so that a reader has one to skip. */
static json_t *deprecated_json(struct gcp_call *c, const struct zone *z)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:s, s:s, s:b, s:{s:s, s:s}}", "kind",
	    "compute#machineType", "id", "3002", "creationTimestamp", BORN, "name",
	    "n1-highcpu-2-d", "description", "2 vCPUs, 2 GB RAM", "guestCpus", 2, "memoryMb", 1843,
	    "zone", z->name, "selfLink",
	    gcp_link(c->a, "zones/%s/machineTypes/n1-highcpu-2-d", z->name), "isSharedCpu", 0,
	    "deprecated", "state", "DEPRECATED", "replacement",
	    gcp_link(c->a, "zones/%s/machineTypes/n1-standard-8", z->name));
}

/* Each machine once: N1 sizes stand in several pools. */
static void append_types(struct gcp_call *c, json_t *list, const struct zone *z, bool paired)
{
	const struct market *m = c->sim->market;
	json_t *seen = json_object();

	for (size_t k = 0; k < m->pools_n; k++) {
		const struct gcp_type *t;
		json_t *o;

		if (m->pools[k].zone != z) {
			continue;
		}
		t = gcp_type_of(c->g, m->pools[k].type);
		if (json_object_get(seen, t->machine)) {
			continue;
		}
		json_object_set_new(seen, t->machine, json_true());
		o = type_json(c, t, z);
		json_array_append_new(list,
		    paired ? json_pack("[o, o]", json_sprintf("zones/%s", z->name), o) : o);
	}
	json_decref(seen);
	if (str_same(z->name, "us-central1-a")) {
		json_array_append_new(list,
		    paired ? json_pack("[o, o]", json_sprintf("zones/%s", z->name),
				 deprecated_json(c, z))
			   : deprecated_json(c, z));
	}
}

/* Zonal resources: of all zones together, of one zone, one of a zone. */
struct zonal {
	const char *plural, *list, *aggregated_list, *aggregated;
	void (*append)(struct gcp_call *c, json_t *list, const struct zone *z, bool paired);
};

static void zonal_aggregated(struct gcp_call *c, const struct zonal *k)
{
	json_t *items = json_array();

	for (size_t i = 0; i < c->g->zones_n; i++) {
		k->append(c, items, c->g->zones[i].zone, true);
	}
	gcp_aggregate(c, k->aggregated_list, k->aggregated, k->plural, items, false);
}

static void zonal_list(struct gcp_call *c, const struct zonal *k)
{
	const struct zone *z = zone_of(c);
	json_t *items;

	if (!z) {
		return;
	}
	items = json_array();
	k->append(c, items, z, false);
	gcp_list(c, k->list, arena_printf(c->a, "zones/%s/%s", z->name, k->plural), items);
}

static void zonal_get(struct gcp_call *c, const struct zonal *k)
{
	const struct zone *z = zone_of(c);
	json_t *items, *one;
	size_t i;

	if (!z) {
		return;
	}
	items = json_array();
	k->append(c, items, z, false);
	json_array_foreach (items, i, one) {
		if (str_same(gcp_text(one, "name"), c->arg[2])) {
			gcp_reply(c, json_incref(one));
			json_decref(items);
			return;
		}
	}
	json_decref(items);
	gcp_not_found(c, arena_printf(c->a, GCP_P "zones/%s/%s/%s", z->name, k->plural, c->arg[2]));
}

static const struct zonal types = { "machineTypes", "compute#machineTypeList",
	"compute#machineTypeAggregatedList", "aggregated/machineTypes", append_types };

void gcp_types_aggregated(struct gcp_call *c)
{
	zonal_aggregated(c, &types);
}

void gcp_types_list(struct gcp_call *c)
{
	zonal_list(c, &types);
}

void gcp_type_get(struct gcp_call *c)
{
	zonal_get(c, &types);
}

/* ---- accelerator types ----------------------------------------------------------------------- */

static json_t *accelerator_json(struct gcp_call *c, const char *name, int most,
    const struct zone *z)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i}", "kind",
	    "compute#acceleratorType", "id", gcp_u64(c->a, gcp_hash_id(name)), "creationTimestamp",
	    BORN, "name", name, "description", name, "zone", gcp_link(c->a, "zones/%s", z->name),
	    "selfLink", gcp_link(c->a, "zones/%s/acceleratorTypes/%s", z->name, name),
	    "maximumCardsPerInstance", most);
}

static void append_accelerators(struct gcp_call *c, json_t *list, const struct zone *z, bool paired)
{
	const struct market *m = c->sim->market;
	json_t *most = json_object(), *count;
	const char *name;

	for (size_t k = 0; k < m->pools_n; k++) {
		const struct gcp_type *t;

		if (m->pools[k].zone != z) {
			continue;
		}
		t = gcp_type_of(c->g, m->pools[k].type);
		if (json_integer_value(json_object_get(most, t->accelerator)) < t->gpus) {
			json_object_set_new(most, t->accelerator, json_integer(t->gpus));
		}
		/* Workstation variants and TPUs stand in the same list. */
		if (str_same(t->accelerator, "nvidia-tesla-t4")) {
			json_object_set_new(most, "nvidia-tesla-t4-vws", json_integer(4));
		}
		if (str_same(t->accelerator, "nvidia-l4")) {
			json_object_set_new(most, "nvidia-l4-vws", json_integer(8));
		}
	}
	if (str_same(z->name, "us-central1-a")) {
		json_object_set_new(most, "ct5lp", json_integer(8));
	}
	json_object_foreach (most, name, count) {
		json_t *o = accelerator_json(c, name, (int)json_integer_value(count), z);

		json_array_append_new(list,
		    paired ? json_pack("[o, o]", json_sprintf("zones/%s", z->name), o) : o);
	}
	json_decref(most);
}

static const struct zonal accelerators = { "acceleratorTypes", "compute#acceleratorTypeList",
	"compute#acceleratorTypeAggregatedList", "aggregated/acceleratorTypes",
	append_accelerators };

void gcp_accelerators_aggregated(struct gcp_call *c)
{
	zonal_aggregated(c, &accelerators);
}

void gcp_accelerators_list(struct gcp_call *c)
{
	zonal_list(c, &accelerators);
}

void gcp_accelerator_get(struct gcp_call *c)
{
	zonal_get(c, &accelerators);
}

/* ---- images ---------------------------------------------------------------------------------- */

static const struct {
	const char *project, *family, *name;
	int gb;
} images[] = {
	{ "ubuntu-os-accelerator-images", "ubuntu-accelerator-2404-amd64-with-nvidia-570",
	    "ubuntu-accelerator-2404-amd64-with-nvidia-570-v20261020", 20 },
	{ "ubuntu-os-accelerator-images", "ubuntu-accelerator-2404-amd64-with-nvidia-580",
	    "ubuntu-accelerator-2404-amd64-with-nvidia-580-v20261020", 20 },
	{ "ubuntu-os-cloud", "ubuntu-2404-lts-amd64", "ubuntu-2404-noble-amd64-v20261028", 10 },
	{ "ubuntu-os-cloud", "ubuntu-2204-lts", "ubuntu-2204-jammy-v20261028", 10 },
	{ "debian-cloud", "debian-12", "debian-12-bookworm-v20261014", 10 },
	{ "rocky-linux-accelerator-cloud", "rocky-linux-9-optimized-gcp-nvidia-570",
	    "rocky-linux-9-optimized-gcp-nvidia-570-v20261015", 20 },
	{ "cos-cloud", "cos-stable", "cos-stable-121-18867-199-88", 10 },
	{ "deeplearning-platform-release", "common-cu128-ubuntu-2204-nvidia-570",
	    "common-cu128-ubuntu-2204-nvidia-570-v20261012", 50 },
};

static json_t *image_json(struct gcp_call *c, size_t k)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:s, s:s, s:s}", "kind",
	    "compute#image", "id", gcp_u64(c->a, gcp_hash_id(images[k].name)), "creationTimestamp",
	    "2026-10-20T08:12:31.221-07:00", "name", images[k].name, "family", images[k].family,
	    "status", "READY", "sourceType", "RAW", "diskSizeGb", json_sprintf("%d", images[k].gb),
	    "architecture", "X86_64", "archiveSizeBytes", "4831838208", "selfLink",
	    arena_printf(c->a, GCP_LINKS "projects/%s/global/images/%s", images[k].project,
		images[k].name));
}

void gcp_images_list(struct gcp_call *c)
{
	json_t *items = json_array();

	for (size_t k = 0; k < ARRAY_LEN(images); k++) {
		if (str_same(images[k].project, c->arg[0])) {
			json_array_append_new(items, image_json(c, k));
		}
	}
	gcp_list(c, "compute#imageList", arena_printf(c->a, "projects/%s/global/images", c->arg[0]),
	    items);
}

void gcp_image_family(struct gcp_call *c)
{
	for (size_t k = 0; k < ARRAY_LEN(images); k++) {
		if (str_same(images[k].project, c->arg[0]) &&
		    str_same(images[k].family, c->arg[1])) {
			gcp_reply(c, image_json(c, k));
			return;
		}
	}
	gcp_not_found(c,
	    arena_printf(c->a, "projects/%s/global/images/family/%s", c->arg[0], c->arg[1]));
}

void gcp_image_get(struct gcp_call *c)
{
	for (size_t k = 0; k < ARRAY_LEN(images); k++) {
		if (str_same(images[k].project, c->arg[0]) && str_same(images[k].name, c->arg[1])) {
			gcp_reply(c, image_json(c, k));
			return;
		}
	}
	gcp_not_found(c, arena_printf(c->a, "projects/%s/global/images/%s", c->arg[0], c->arg[1]));
}

const char *gcp_image_resolve(struct arena *a, const char *url)
{
	const char *p = strstr(url, "projects/");

	for (size_t k = 0; p && k < ARRAY_LEN(images); k++) {
		const char *family = arena_printf(a, "projects/%s/global/images/family/%s",
		    images[k].project, images[k].family);
		const char *name = arena_printf(a, "projects/%s/global/images/%s",
		    images[k].project, images[k].name);

		if (str_same(p, family) || str_same(p, name)) {
			return arena_printf(a, GCP_LINKS "%s", name);
		}
	}
	return NULL;
}
