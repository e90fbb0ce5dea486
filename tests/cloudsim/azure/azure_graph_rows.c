/* The tables of Resource Graph: SpotResources, Resources, ResourceContainers, HealthResources. */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "base/text/text.h"

/* The vendor gives a band for the last 28 days; here it is the type's and region's for good. */
static const char *band_of(const char *type, const char *region)
{
	static const char *const bands[] = { "0-5", "5-10", "10-15", "15-20", "20+" };
	unsigned h = 5381;

	for (const char *p = type; *p; p++) {
		h = h * 33 + (unsigned char)*p;
	}
	for (const char *p = region; *p; p++) {
		h = h * 33 + (unsigned char)*p;
	}
	return bands[h % 5];
}

static json_t *spot_row(struct az_call *c, const struct pool *p, const char *kind, const char *tail,
    json_t *properties)
{
	const char *sku = az_lower(c->rq->arena, p->type->name);

	return json_pack("{s:o, s:s, s:s, s:s, s:s, s:{s:s}, s:o}", "id",
	    json_sprintf("/subscriptions/" AZ_SUBSCRIPTION
			 "/providers/microsoft.compute/%s/%s/%s/%s",
		kind, sku, p->region->name, tail),
	    "name", p->region->name, "type",
	    arena_printf(c->rq->arena, "microsoft.compute/%s", tail), "location", p->region->name,
	    "subscriptionId", AZ_SUBSCRIPTION, "sku", "name", sku, "properties", properties);
}

static json_t *price_points(struct az_call *c, const struct pool *p)
{
	const struct price_log *l = &p->price[SIDE_SPOT];
	json_t *list = json_array();

	for (size_t k = l->n; k-- > 0;) {
		if (l->at[k].us <= sim_wall(c->rq->sim)) {
			json_array_append_new(list,
			    json_pack("{s:s, s:o}", "effectiveDate",
				az_time(c->rq->arena, l->at[k].us), "priceUSD",
				json_usd(l->at[k].micros)));
		}
	}
	return list;
}

static void spot_rows(struct az_call *c, json_t *rows)
{
	const struct market *m = c->rq->sim->market;

	for (size_t k = 0; k < m->pools_n; k++) {
		const struct pool *p = &m->pools[k];

		if (p->cloud != CLOUD_AZURE || p->zone || !p->price[SIDE_SPOT].sold) {
			continue;
		}
		json_array_append_new(rows,
		    spot_row(c, p, "rate", "skuspotevictionrate/location",
			json_pack("{s:s}", "evictionRate",
			    band_of(p->type->name, p->region->name))));
		json_array_append_new(rows,
		    spot_row(c, p, "price", "skuspotpricehistory/ostype/location",
			json_pack("{s:s, s:o}", "osType", "linux", "spotPrices",
			    price_points(c, p))));
	}
}

static void resource_rows(struct az_call *c, json_t *rows, bool groups)
{
	for (const struct az_res *r = c->az->res; r; r = r->next) {
		json_t *o;

		if ((r->kind == AZ_GROUP) != groups || !az_visible(c->rq->sim, r)) {
			continue;
		}
		o = az_view(c->rq->sim, r);
		json_object_set_new(o, "type",
		    json_string(az_lower(c->rq->arena, az_kind_type(r->kind))));
		json_object_set_new(o, "resourceGroup", json_string(r->group ? r->group : r->name));
		json_object_set_new(o, "subscriptionId", json_string(AZ_SUBSCRIPTION));
		json_array_append_new(rows, o);
	}
}

/* Short-lived in the vendor's table: an hour here. */
static void health_rows(struct az_call *c, json_t *rows)
{
	int64_t now = sim_wall(c->rq->sim);

	for (const struct inst *i = c->rq->sim->insts; i; i = i->next) {
		int64_t at = i->notice_us ? i->notice_us : i->billed_to_us;

		if (i->cloud != CLOUD_AZURE || !i->reclaimed || now - at > SPOT_US_PER_HOUR) {
			continue;
		}
		json_array_append_new(rows,
		    json_pack("{s:o, s:s, s:s, s:s, s:{s:s, s:s, s:s, s:s, s:s, s:s}}", "id",
			json_sprintf("%s/providers/Microsoft.ResourceHealth/resourceAnnotations/%s",
			    i->reservation, i->id),
			"name", i->name, "type", "microsoft.resourcehealth/resourceannotations",
			"location", i->pool->region->name, "properties", "annotationName",
			"VirtualMachinePreempted", "context", "Platform Initiated", "category",
			"Unplanned", "occurredTime", az_time(c->rq->arena, at), "targetResourceId",
			i->reservation, "summary", "Virtual machine was preempted"));
	}
}

bool az_graph_rows(struct az_call *c, const char *table, json_t *rows)
{
	if (az_same(table, "SpotResources")) {
		spot_rows(c, rows);
	} else if (az_same(table, "Resources")) {
		resource_rows(c, rows, false);
	} else if (az_same(table, "ResourceContainers")) {
		resource_rows(c, rows, true);
	} else if (az_same(table, "HealthResources")) {
		health_rows(c, rows);
	} else {
		return false;
	}
	return true;
}
