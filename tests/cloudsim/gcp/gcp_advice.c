/*
 * advice.capacityHistory and advice.capacity (Preview). Prices are the market's record. No public
 * record of preemption rates exists: a fixed figure per machine, zone and day stands for it.
 * Today's figure counts the preemptions here, as soon as there is one.
 */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

#define DAY (86400 * SPOT_US_PER_S)

static bool advice_refuse(struct gcp_call *c, const char *field, const char *value, const char *why)
{
	gcp_fail(c, 400, "invalid", "Invalid value for field '%s': '%s'. %s", field,
	    value ? value : "", why);
	return false;
}

/* Midnight in California, at or before us. */
static int64_t pacific_midnight(int64_t us)
{
	int64_t offset = gcp_pacific_offset(us) * SPOT_US_PER_S, local = us + offset;
	int64_t midnight = local - local % DAY;

	/* The offset of that very moment: it differs on the two days of the change. */
	return midnight - gcp_pacific_offset(midnight - offset) * SPOT_US_PER_S;
}

static json_t *interval_json(int64_t from, int64_t to)
{
	char a[TIME_TEXT_MAX], b[TIME_TEXT_MAX];

	return json_pack("{s:s, s:s}", "startTime", format_time_s(from, a), "endTime",
	    format_time_s(to, b));
}

static const struct gcp_type *spot_type(struct gcp_call *c, const char *machine,
    const json_t *scheduling)
{
	const struct gcp_type *t = machine ? gcp_type_named(c->g, machine) : NULL;

	if (!str_same(gcp_text(scheduling, "provisioningModel"), "SPOT") &&
	    !str_same(gcp_text(scheduling, "provisioningModel"), "FLEX_START")) {
		advice_refuse(c, "instanceProperties.scheduling.provisioningModel",
		    gcp_text(scheduling, "provisioningModel"), "Only SPOT is supported.");
		return NULL;
	}
	if (!t || t->attached) {
		advice_refuse(c, "instanceProperties.machineType", machine,
		    "Unsupported machine type.");
	}
	return t && !t->attached ? t : NULL;
}

/* ---- history --------------------------------------------------------------------------------- */

/* The pool of the zone, or the region's first. */
static struct pool *pool_of(struct gcp_call *c, const struct gcp_type *t, const char *zone)
{
	for (size_t k = 0; k < c->sim->market->pools_n; k++) {
		struct pool *p = &c->sim->market->pools[k];

		if (p->cloud == CLOUD_GCP && p->type == t->type &&
		    str_same(p->region->name, c->arg[1]) &&
		    (!zone || str_same(p->zone->name, zone))) {
			return p;
		}
	}
	return NULL;
}

static double rate_today(struct gcp_call *c, const struct pool *p, int64_t since, double dflt)
{
	int64_t ended = 0, taken = 0;

	for (const struct inst *i = c->sim->insts; i; i = i->next) {
		if (i->pool->type != p->type || i->pool->region != p->region ||
		    i->side != SIDE_SPOT || i->state != INST_GONE || i->gone_us < since) {
			continue;
		}
		ended++;
		taken += i->reclaimed;
	}
	return ended ? (double)taken / (double)ended : dflt;
}

static json_t *preemptions_json(struct gcp_call *c, const struct pool *p, const char *zone)
{
	int64_t now = sim_wall(c->sim), day = pacific_midnight(now);
	json_t *list = json_array();

	for (int back = 29; back >= 0; back--) {
		int64_t from = pacific_midnight(day - back * DAY + DAY / 2);
		int64_t to = pacific_midnight(from + DAY + DAY / 2);
		double rate = (double)(gcp_hash_id(arena_printf(c->a, "%s|%s|%" PRId64,
					   p->type->name, zone ? zone : p->region->name, from)) %
				  45) /
		    100;

		if (back == 0) {
			rate = rate_today(c, p, from, rate);
		}
		json_array_append_new(list,
		    json_pack("{s:o, s:f}", "interval", interval_json(from, to), "preemptionRate",
			rate));
	}
	return list;
}

static json_t *money_json(int64_t micros)
{
	json_t *o = json_pack("{s:s}", "currencyCode", "USD");

	if (micros / 1000000) {
		json_object_set_new(o, "units", json_sprintf("%" PRId64, micros / 1000000));
	}
	if (micros % 1000000) {
		json_object_set_new(o, "nanos", json_integer(micros % 1000000 * 1000));
	}
	return o;
}

static json_t *prices_json(struct gcp_call *c, const struct pool *p)
{
	const struct price_log *l = &p->price[SIDE_SPOT];
	int64_t now = sim_wall(c->sim), first = pacific_midnight(now - 365 * DAY);
	json_t *list = json_array();

	for (size_t k = 0; k < l->n; k++) {
		int64_t from = k == 0 ? first : MAX(pacific_midnight(l->at[k].us), first);
		int64_t to =
		    k + 1 < l->n ? pacific_midnight(l->at[k + 1].us) : pacific_midnight(now + DAY);

		if (to > from && to > first) {
			json_array_append_new(list,
			    json_pack("{s:o, s:o}", "interval", interval_json(from, to),
				"listPrice", money_json(l->at[k].micros)));
		}
	}
	return list;
}

void gcp_capacity_history(struct gcp_call *c)
{
	const json_t *props = json_object_get(c->body, "instanceProperties");
	const json_t *types = json_object_get(c->body, "types");
	const char *machine = gcp_text(props, "machineType");
	const char *place = gcp_text(json_object_get(c->body, "locationPolicy"), "location");
	const struct gcp_type *t = spot_type(c, machine, json_object_get(props, "scheduling"));
	const char *zone = place ? gcp_last(place) : NULL;
	const struct pool *p;
	json_t *out, *one;
	size_t k;

	if (!t) {
		return;
	}
	p = pool_of(c, t, zone);
	if (!p) {
		advice_refuse(c, "locationPolicy.location", zone,
		    "The machine type is not offered there.");
		return;
	}
	if (json_array_size(types) == 0) {
		advice_refuse(c, "types", "", "At least one history type is required.");
		return;
	}
	out = json_pack("{s:s, s:s}", "machineType", machine, "location",
	    zone ? gcp_link(c->a, "zones/%s", zone) : gcp_link(c->a, "regions/%s", c->arg[1]));
	json_array_foreach (types, k, one) {
		if (str_same(json_string_value(one), "PREEMPTION")) {
			json_object_set_new(out, "preemptionHistory", preemptions_json(c, p, zone));
		} else if (str_same(json_string_value(one), "PRICE")) {
			json_object_set_new(out, "priceHistory", prices_json(c, p));
		} else {
			json_decref(out);
			advice_refuse(c, "types", json_string_value(one), "");
			return;
		}
	}
	gcp_reply(c, out);
}

/* ---- obtainability --------------------------------------------------------------------------- */

static bool zone_wanted(const json_t *zones, const char *name)
{
	size_t k;
	json_t *one;

	if (json_array_size(zones) == 0) {
		return true;
	}
	json_array_foreach (zones, k, one) {
		const char *z = gcp_text(one, "zone");

		if (z && str_same(gcp_last(z), name)) {
			return true;
		}
	}
	return false;
}

/* 0.9 where all would fit, in steps down to 0.1 where nothing does. */
static double score_of(int64_t room, int64_t size)
{
	return room >= 2 * size ? 0.9 : room >= size ? 0.7 : room > 0 ? 0.4 : 0.1;
}

static void shard_add(struct gcp_call *c, json_t *shards, const json_t *zones, const char *machine,
    int64_t size, double *best)
{
	const struct gcp_type *t = gcp_type_named(c->g, machine);

	for (size_t k = 0; t && k < c->sim->market->pools_n; k++) {
		const struct pool *p = &c->sim->market->pools[k];
		double s;

		if (p->cloud != CLOUD_GCP || p->type != t->type ||
		    !str_same(p->region->name, c->arg[1]) || !zone_wanted(zones, p->zone->name)) {
			continue;
		}
		s = score_of(pool_free(p, SIDE_SPOT), size);
		if (s <= *best) {
			continue;
		}
		*best = s;
		json_array_clear(shards);
		json_array_append_new(shards,
		    json_pack("{s:s, s:s, s:I, s:s}", "zone",
			gcp_link(c->a, "zones/%s", p->zone->name), "machineType", machine,
			"instanceCount", (json_int_t)size, "provisioningModel", "SPOT"));
	}
}

void gcp_capacity(struct gcp_call *c)
{
	const json_t *policy = json_object_get(c->body, "distributionPolicy");
	json_t *all = json_object_get(json_object_get(c->body, "instanceFlexibilityPolicy"),
	    "instanceSelections");
	const char *shape = gcp_text(policy, "targetShape"), *key;
	const json_t *scheduling =
	    json_object_get(json_object_get(c->body, "instanceProperties"), "scheduling");
	int64_t size = gcp_i64(c->body, "size", 0);
	json_t *shards, *one, *name;
	double best = 0;
	size_t k;

	if (str_same(c->version, "v1") && !c->g->advice_v1_spot &&
	    str_same(gcp_text(scheduling, "provisioningModel"), "SPOT")) {
		advice_refuse(c, "instanceProperties.scheduling.provisioningModel", "SPOT", "");
		return;
	}
	if (size < 1) {
		advice_refuse(c, "size", "", "size must be at least 1.");
		return;
	}
	if (shape && !str_same(shape, "ANY") && !str_same(shape, "ANY_SINGLE_ZONE") &&
	    !str_same(shape, "BALANCED")) {
		advice_refuse(c, "distributionPolicy.targetShape", shape, "");
		return;
	}
	if (json_object_size(all) == 0) {
		advice_refuse(c, "instanceFlexibilityPolicy.instanceSelections", "",
		    "At least one is required.");
		return;
	}
	shards = json_array();
	json_object_foreach (all, key, one) {
		json_array_foreach (json_object_get(one, "machineTypes"), k, name) {
			if (!spot_type(c, json_string_value(name), scheduling)) {
				json_decref(shards);
				return;
			}
			shard_add(c, shards, json_object_get(policy, "zones"),
			    json_string_value(name), size, &best);
		}
	}
	gcp_reply(c,
	    json_pack("{s:[{s:{s:f, s:s}, s:o}]}", "recommendations", "scores", "obtainability",
		best, "estimatedUptime", best > 0.5 ? "14400s" : "3600s", "shards", shards));
}
