/* DescribeRegions, zones, instance types, offerings, images, network. */
#include "base/base.h"
#include "cloudsim/ec2/ec2.h"
#include "base/text/text.h"

void ec2_describe_regions(struct ec2 *e)
{
	static const char *const known[] = { "endpoint", "opt-in-status", "region-name", NULL };
	bool all = ec2_bool(e, "AllRegions", false);
	const char **names;
	size_t names_n = form_list(&e->form, e->rq->arena, "RegionName", &names), n;
	struct ec2_filter *f;

	if (!ec2_filters(e, known, &f, &n) || !ec2_ready(e)) {
		return;
	}
	for (size_t k = 0; k < names_n; k++) {
		if (!market_region(e->sim->market, CLOUD_AWS, names[k])) {
			ec2_fail(e, 400, "InvalidParameterValue", "Invalid region '%s'.", names[k]);
			return;
		}
	}
	ec2_begin(e);
	x_open(&e->out, "regionInfo");
	for (size_t k = 0; k < e->sim->market->regions_n; k++) {
		const struct region *r = &e->sim->market->regions[k];
		const char *endpoint = arena_printf(e->rq->arena, "ec2.%s.amazonaws.com", r->name);
		const char *opt = !r->opt_in ? "opt-in-not-required"
		    : r->enabled             ? "opted-in"
					     : "not-opted-in";
		bool show = r->cloud == CLOUD_AWS && (all || r->enabled) &&
		    ec2_match_any(names, names_n, r->name);

		for (size_t i = 0; i < n && show; i++) {
			show = ec2_filter_hits(&f[i],
			    str_same(f[i].name, "endpoint")          ? endpoint
				: str_same(f[i].name, "region-name") ? r->name
								     : opt);
		}
		if (!show) {
			continue;
		}
		x_open(&e->out, "item");
		x_text(&e->out, "optInStatus", opt);
		x_text(&e->out, "regionName", r->name);
		x_text(&e->out, "regionEndpoint", endpoint);
		x_close(&e->out, "item");
	}
	x_close(&e->out, "regionInfo");
}

static const char *zone_field(struct ec2 *e, const struct zone *z, const char *name)
{
	bool local = str_same(z->kind, "local-zone");

	if (str_same(name, "zone-name")) {
		return z->name;
	}
	if (str_same(name, "zone-id")) {
		return z->id;
	}
	if (str_same(name, "zone-type")) {
		return z->kind;
	}
	if (str_same(name, "region-name")) {
		return z->region->name;
	}
	if (str_same(name, "state")) {
		return "available";
	}
	if (str_same(name, "group-name")) {
		return local ? arena_strndup(e->rq->arena, z->name, strlen(z->name) - 1)
			     : arena_printf(e->rq->arena, "%s-zg-1", z->region->name);
	}
	return local ? "not-opted-in" : "opt-in-not-required";
}

void ec2_describe_zones(struct ec2 *e)
{
	static const char *const known[] = { "zone-name", "zone-id", "zone-type", "region-name",
		"state", "group-name", "opt-in-status", NULL };
	bool all = ec2_bool(e, "AllAvailabilityZones", false);
	const char **names, **ids;
	size_t names_n = form_list(&e->form, e->rq->arena, "ZoneName", &names), n;
	size_t ids_n = form_list(&e->form, e->rq->arena, "ZoneId", &ids);
	struct ec2_filter *f;

	if (!ec2_filters(e, known, &f, &n) || !ec2_ready(e)) {
		return;
	}
	for (size_t k = 0; k < names_n + ids_n; k++) {
		const char *want = k < names_n ? names[k] : ids[k - names_n];

		if (!market_zone(e->sim->market, e->rq->region, want)) {
			ec2_fail(e, 400, "InvalidParameterValue", "Invalid availability zone: [%s]",
			    want);
			return;
		}
	}
	ec2_begin(e);
	x_open(&e->out, "availabilityZoneInfo");
	for (size_t k = 0; k < e->sim->market->zones_n; k++) {
		const struct zone *z = &e->sim->market->zones[k];
		bool show = str_same(z->region->name, e->rq->region) &&
		    ec2_match_any(names, names_n, z->name) && ec2_match_any(ids, ids_n, z->id) &&
		    (all || str_same(z->kind, "availability-zone"));

		for (size_t i = 0; i < n && show; i++) {
			show = ec2_filter_hits(&f[i], zone_field(e, z, f[i].name));
		}
		if (!show) {
			continue;
		}
		x_open(&e->out, "item");
		x_text(&e->out, "optInStatus", zone_field(e, z, "opt-in-status"));
		x_open(&e->out, "messageSet");
		x_close(&e->out, "messageSet");
		x_text(&e->out, "regionName", z->region->name);
		x_text(&e->out, "zoneName", z->name);
		x_text(&e->out, "zoneId", z->id);
		x_text(&e->out, "groupName", zone_field(e, z, "group-name"));
		x_text(&e->out, "networkBorderGroup", z->region->name);
		x_text(&e->out, "zoneType", z->kind);
		x_text(&e->out, "zoneState",
		    str_same(aws_controls(e->sim)->impaired, z->id) ? "impaired" : "available");
		x_close(&e->out, "item");
	}
	x_close(&e->out, "availabilityZoneInfo");
}

/* ---- instance types -------------------------------------------------------------------------- */

static bool type_spot(const struct market *m, const struct itype *t, const char *region,
    enum side side)
{
	for (size_t k = 0; k < m->pools_n; k++) {
		if (m->pools[k].type == t && m->pools[k].price[side].sold &&
		    str_same(m->pools[k].region->name, region)) {
			return true;
		}
	}
	return false;
}

static bool type_offered(const struct market *m, const struct itype *t, const char *region)
{
	return t->cloud == CLOUD_AWS &&
	    (type_spot(m, t, region, SIDE_SPOT) || type_spot(m, t, region, SIDE_ON_DEMAND));
}

static bool type_filter(struct ec2 *e, const struct itype *t, const struct ec2_filter *f)
{
	const struct market *m = e->sim->market;

	if (str_same(f->name, "instance-type")) {
		return ec2_filter_hits(f, t->name);
	}
	if (str_same(f->name, "current-generation")) {
		return ec2_filter_hits(f, t->current ? "true" : "false");
	}
	if (str_same(f->name, "processor-info.supported-architecture")) {
		return ec2_filter_hits(f, t->arch);
	}
	if (str_same(f->name, "supported-usage-class")) {
		return (type_spot(m, t, e->rq->region, SIDE_SPOT) && ec2_filter_hits(f, "spot")) ||
		    (type_spot(m, t, e->rq->region, SIDE_ON_DEMAND) &&
			ec2_filter_hits(f, "on-demand"));
	}
	if (str_same(f->name, "bare-metal")) {
		return ec2_filter_hits(f, str_suffix(t->name, ".metal") ? "true" : "false");
	}
	if (str_same(f->name, "network-info.efa-supported")) {
		return ec2_filter_hits(f, t->efa ? "true" : "false");
	}
	if (str_same(f->name, "vcpu-info.default-vcpus")) {
		return ec2_filter_hits(f, arena_printf(e->rq->arena, "%d", t->vcpus));
	}
	return ec2_filter_hits(f, arena_printf(e->rq->arena, "%d", t->mem_mib));
}

static void type_gpu_xml(struct sbuf *b, const struct itype *t)
{
	x_open(b, "gpuInfo");
	x_open(b, "gpus");
	x_open(b, "item");
	x_text(b, "name", t->gpu);
	x_text(b, "manufacturer", t->maker);
	/* Fractional types report no whole GPU (g6f, gr6f). */
	x_int(b, "count", t->gpus);
	x_int(b, "logicalGpuCount", t->gpus ? t->gpus : 1);
	sbuf_printf(b, "<gpuPartitionSize>%g</gpuPartitionSize>",
	    t->partition > 0 ? t->partition : 1.0);
	x_open(b, "memoryInfo");
	x_int(b, "sizeInMiB", t->gpu_mem_mib);
	x_close(b, "memoryInfo");
	x_close(b, "item");
	x_close(b, "gpus");
	x_int(b, "totalGpuMemoryInMiB", (int64_t)t->gpu_mem_mib * (t->gpus ? t->gpus : 1));
	x_close(b, "gpuInfo");
}

static void type_network_xml(struct sbuf *b, const struct itype *t)
{
	x_open(b, "networkInfo");
	x_text(b, "networkPerformance", t->network);
	x_int(b, "maximumNetworkInterfaces", 15);
	x_int(b, "maximumNetworkCards", t->cards);
	x_bool(b, "efaSupported", t->efa > 0);
	if (t->efa > 0) {
		x_open(b, "efaInfo");
		x_int(b, "maximumEfaInterfaces", t->efa);
		x_close(b, "efaInfo");
	}
	x_bool(b, "encryptionInTransitSupported", t->current);
	x_close(b, "networkInfo");
}

static void type_xml(struct ec2 *e, const struct itype *t)
{
	struct sbuf *b = &e->out;
	const struct market *m = e->sim->market;

	x_open(b, "item");
	x_text(b, "instanceType", t->name);
	x_bool(b, "currentGeneration", t->current);
	x_bool(b, "freeTierEligible", false);
	x_open(b, "supportedUsageClasses");
	if (type_spot(m, t, e->rq->region, SIDE_ON_DEMAND)) {
		x_text(b, "item", "on-demand");
	}
	if (type_spot(m, t, e->rq->region, SIDE_SPOT)) {
		x_text(b, "item", "spot");
	}
	if (str_prefix(t->name, "p4d") || str_prefix(t->name, "p5") || str_prefix(t->name, "p6")) {
		x_text(b, "item", "capacity-block");
	}
	x_close(b, "supportedUsageClasses");
	x_bool(b, "bareMetal", str_suffix(t->name, ".metal"));
	x_text(b, "hypervisor", t->current ? "nitro" : "xen");
	x_open(b, "processorInfo");
	sbuf_printf(b, "<supportedArchitectures><item>%s</item></supportedArchitectures>", t->arch);
	x_close(b, "processorInfo");
	x_open(b, "vCpuInfo");
	x_int(b, "defaultVCpus", t->vcpus);
	x_close(b, "vCpuInfo");
	x_open(b, "memoryInfo");
	x_int(b, "sizeInMiB", t->mem_mib);
	x_close(b, "memoryInfo");
	type_network_xml(b, t);
	if (*t->gpu) {
		type_gpu_xml(b, t);
	}
	x_open(b, "placementGroupInfo");
	sbuf_puts(b,
	    "<supportedStrategies><item>cluster</item><item>partition</item><item>spread</item>"
	    "</supportedStrategies>");
	x_close(b, "placementGroupInfo");
	x_close(b, "item");
}

void ec2_describe_types(struct ec2 *e)
{
	static const char *const known[] = { "instance-type", "current-generation",
		"supported-usage-class", "processor-info.supported-architecture", "bare-metal",
		"network-info.efa-supported", "vcpu-info.default-vcpus", "memory-info.size-in-mib",
		NULL };
	struct market *m = e->sim->market;
	const char **names;
	size_t names_n = form_list(&e->form, e->rq->arena, "InstanceType", &names), n;
	int64_t at = 0, shown = 0;
	struct ec2_page page;
	struct ec2_filter *f;

	ec2_bool(e, "IncludeUnsupportedInRegion", false);
	if (!ec2_filters(e, known, &f, &n) || !ec2_page(e, 5, 100, 100, &page) || !ec2_ready(e)) {
		return;
	}
	for (size_t k = 0; k < names_n; k++) {
		const struct itype *t = market_type(m, CLOUD_AWS, names[k]);

		if (!t || !type_offered(m, t, e->rq->region)) {
			ec2_fail(e, 400, "InvalidInstanceType",
			    "The following supplied instance types do not exist: [%s]", names[k]);
			return;
		}
	}
	ec2_begin(e);
	x_open(&e->out, "instanceTypeSet");
	for (size_t k = 0; k < m->types_n && shown <= page.size; k++) {
		const struct itype *t = &m->types[k];
		bool show =
		    type_offered(m, t, e->rq->region) && ec2_match_any(names, names_n, t->name);

		for (size_t i = 0; i < n && show; i++) {
			show = type_filter(e, t, &f[i]);
		}
		if (!show || at++ < page.at) {
			continue;
		}
		if (shown++ < page.size) {
			type_xml(e, t);
		}
	}
	x_close(&e->out, "instanceTypeSet");
	if (shown > page.size) {
		x_text(&e->out, "nextToken", ec2_next_token(e, page.at + page.size));
	}
}

static void offering_xml(struct ec2 *e, const char *type, const char *kind, const char *where)
{
	x_open(&e->out, "item");
	x_text(&e->out, "instanceType", type);
	x_text(&e->out, "locationType", kind);
	x_text(&e->out, "location", where);
	x_close(&e->out, "item");
}

void ec2_describe_offerings(struct ec2 *e)
{
	static const char *const known[] = { "instance-type", "location", NULL };
	const struct market *m = e->sim->market;
	const char *kind = form_get(&e->form, "LocationType");
	int64_t at = 0, shown = 0;
	struct ec2_page page;
	struct ec2_filter *f;
	const struct itype *last = NULL;
	size_t n;
	bool by_id, by_name;

	kind = kind ? kind : "region";
	by_id = str_same(kind, "availability-zone-id");
	by_name = str_same(kind, "availability-zone");
	if (!by_id && !by_name && !str_same(kind, "region") && !str_same(kind, "outpost")) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "Value (%s) for parameter LocationType is invalid.", kind);
		return;
	}
	if (!ec2_filters(e, known, &f, &n) || !ec2_page(e, 5, 1000, 1000, &page) || !ec2_ready(e)) {
		return;
	}
	ec2_begin(e);
	x_open(&e->out, "instanceTypeOfferingSet");
	/* Type by type, so that a region is told once per type. */
	for (size_t t = 0; t < m->types_n; t++) {
		for (size_t k = 0; k < m->pools_n && shown <= page.size; k++) {
			const struct pool *p = &m->pools[k];
			const char *where;
			bool show = p->type == &m->types[t] && p->cloud == CLOUD_AWS &&
			    str_same(p->region->name, e->rq->region) &&
			    str_same(p->zone->kind, "availability-zone");

			if (!show || str_same(kind, "outpost") ||
			    (!by_id && !by_name && last == p->type)) {
				continue;
			}
			where = by_id ? p->zone->id : by_name ? p->zone->name : p->region->name;
			for (size_t i = 0; i < n && show; i++) {
				show = ec2_filter_hits(&f[i],
				    str_same(f[i].name, "location") ? where : p->type->name);
			}
			last = p->type;
			if (!show || at++ < page.at) {
				continue;
			}
			if (shown++ < page.size) {
				offering_xml(e, p->type->name, kind, where);
			}
		}
	}
	x_close(&e->out, "instanceTypeOfferingSet");
	if (shown > page.size) {
		x_text(&e->out, "nextToken", ec2_next_token(e, page.at + page.size));
	}
}
