#include "base/base.h"
#include "azure_priv.h"

/* The subscription: its name, its regions, its quotas. */

#include <strings.h>

/* ---- whoami ---------------------------------------------------------------------------------- */

enum spot_step azure_whoami(void *p, struct spot_call *c, const char **ret_account)
{
	struct azure *self = p;
	json_t *doc AUTO(json) = NULL;
	struct azure_request r = { .what = "GET subscription",
		.method = "GET",
		.limit = AZURE_LIMIT_READ,
		.path = arena_printf(c->arena, "/subscriptions/%s?api-version=" API_LOCATIONS,
		    self->subscription) };
	enum spot_step s;

	call_state_get(c, 0);
	if (c->in == NULL) {
		return azure_send(self, c, &r);
	}
	s = azure_reply(c, r.what, &doc);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (strcasecmp(azure_text(doc, "subscriptionId"), self->subscription) != 0) {
		return azure_bad_reply(c, r.what, "it is about another subscription");
	}
	*ret_account =
	    arena_printf(c->arena, "%s (%s)", self->subscription, azure_text(doc, "displayName"));
	return SPOT_DONE;
}

/* ---- regions --------------------------------------------------------------------------------- */

/* learn.microsoft.com/rest/api/resources/subscriptions/list-locations; logical "regions" are
 * continents, and the vendor's own test regions show up, too. */
static bool region_counts(const json_t *row, const char *name)
{
	const char *type = azure_text(json_object_get(row, "metadata"), "regionType");

	return azure_region_ok(name) && (*type == '\0' || strcasecmp(type, "Physical") == 0) &&
	    !str_suffix(name, "stg") && !str_suffix(name, "euap");
}

enum spot_step azure_regions(void *p, struct spot_call *c, struct spot_regions *a)
{
	struct azure *self = p;
	json_t *doc AUTO(json) = NULL;
	const json_t *rows;
	struct azure_request r = { .what = "GET locations",
		.method = "GET",
		.limit = AZURE_LIMIT_READ,
		.path = arena_printf(c->arena,
		    "/subscriptions/%s/locations?api-version=" API_LOCATIONS, self->subscription) };
	enum spot_step s;

	call_state_get(c, 0);
	if (self->regions_n > 0) {
		a->names = self->regions;
		a->n = self->regions_n;
		return SPOT_DONE;
	}
	if (c->in == NULL) {
		return azure_send(self, c, &r);
	}
	s = azure_reply(c, r.what, &doc);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	rows = json_object_get(doc, "value");
	if (!json_is_array(rows)) {
		return azure_bad_reply(c, r.what, "no list of values in it");
	}
	a->names = arena_array(c->arena, json_array_size(rows) + 1, sizeof(*a->names));
	a->n = 0;
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const char *name =
		    azure_region(c->arena, azure_text(json_array_get(rows, i), "name"));

		if (region_counts(json_array_get(rows, i), name)) {
			a->names[a->n++] = name;
		}
	}
	return SPOT_DONE;
}

/* ---- quotas ---------------------------------------------------------------------------------- */

struct counting {
	struct spot_quota *items;
	size_t n, cap;
	int64_t cores; /* all on-demand machines of the region together; -1 = not said */
};

const char *azure_quota_class(struct arena *a, const char *family)
{
	return azure_region(a, family); /* the same rule: lower case, no blanks */
}

/* One pool of vCPUs for all spot sizes of a region; families and "cores" bind on-demand only
 * (virtual-machines/quotas, spot-vms). */
static void quota_read(const struct azure *self, struct spot_call *c, const char *region,
    const json_t *row, struct counting *x)
{
	const char *class =
	    azure_quota_class(c->arena, azure_text(json_object_get(row, "name"), "value"));
	const json_t *limit = json_object_get(row, "limit");
	bool spot = strcmp(class, AZURE_CLASS_SPOT) == 0;

	if (!json_is_integer(limit) || json_integer_value(limit) < 0) {
		return;
	}
	if (strcmp(class, "cores") == 0) {
		x->cores = json_integer_value(limit);
	}
	if (!spot && !str_suffix(class, "family")) {
		return;
	}
	x->items = arena_grow(c->arena, x->items, x->n, &x->cap, sizeof(*x->items));
	x->items[x->n++] = (struct spot_quota){ .provider = self->name,
		.region = region,
		.class = class,
		.unit = "vcpu",
		.market = spot ? SPOT_MARKET_SPOT : SPOT_MARKET_ON_DEMAND,
		.limit = json_integer_value(limit),
		.observed_us = c->now_us };
}

static enum spot_step quotas_reply(struct azure *self, struct spot_call *c, const char *region,
    struct counting *x)
{
	static const char what[] = "GET usages";
	json_t *doc AUTO(json) = NULL;
	const json_t *rows;
	enum spot_step s = azure_reply(c, what, &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	rows = json_object_get(doc, "value");
	if (!json_is_array(rows)) {
		return azure_bad_reply(c, what, "no list of values in it");
	}
	for (size_t i = 0; i < json_array_size(rows); i++) {
		quota_read(self, c, region, json_array_get(rows, i), x);
	}
	return azure_next_page(c->state, c, what, self->endpoint, azure_text(doc, "nextLink"));
}

enum spot_step azure_quotas(void *p, struct spot_call *c, struct spot_quotas *a)
{
	struct azure *self = p;
	struct call_state *st = c->state;
	struct counting *x;
	enum spot_step s;

	if (!azure_region_ok(a->region)) {
		return call_fail(c, SPOT_INVALID, NULL, "azure quotas: a region is needed");
	}
	if (st == NULL) {
		st = call_state_get(c, sizeof(*x));
		((struct counting *)st->own)->cores = -1;
	}
	x = st->own;
	if (c->in != NULL) {
		s = quotas_reply(self, c, arena_strdup(c->arena, a->region), x);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	if (c->in == NULL || st->next != NULL) {
		struct azure_request r = { .what = "GET usages",
			.method = "GET",
			.limit = AZURE_LIMIT_READ,
			.url = st->next,
			.path = arena_printf(c->arena,
			    "/subscriptions/%s/providers/Microsoft.Compute/locations/"
			    "%s/usages?api-version=" API_COMPUTE,
			    self->subscription, a->region) };

		return azure_send(self, c, &r);
	}
	for (size_t i = 0; i < x->n && x->cores >= 0; i++) {
		if (x->items[i].market == SPOT_MARKET_ON_DEMAND) {
			x->items[i].limit = MIN(x->items[i].limit, x->cores);
		}
	}
	a->quotas = x->items;
	a->n = x->n;
	return SPOT_DONE;
}
