/* Lists: filter, order, pages, and the aggregated form that is keyed by scope. */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#define RESULTS_MAX 500

/* ---- pages ----------------------------------------------------------------------------------- */

/* Opaque to the client: where to go on. */
static const char *token_of(struct gcp_call *c, int64_t at)
{
	return base64_encode(c->a, arena_printf(c->a, "cloudsim:%08" PRId64, at), 17);
}

static bool token_read(struct gcp_call *c, int64_t *ret)
{
	const char *t = gcp_param(c, "pageToken");
	struct str raw;

	*ret = 0;
	if (!t) {
		return true;
	}
	if (base64_decode(c->a, t, strlen(t), &raw) && raw.n == 17 &&
	    memcmp(raw.p, "cloudsim:", 9) == 0 &&
	    parse_i64(arena_strndup(c->a, raw.p + 9 + strspn(raw.p + 9, "0"),
			  raw.n - 9 - strspn(raw.p + 9, "0")),
		1, INT64_MAX, ret)) {
		return true;
	}
	gcp_fail(c, 400, str_same(c->rq->service, "compute") ? "invalid" : "badRequest",
	    "Invalid value for field 'pageToken': '%s'. The page token is malformed.", t);
	return false;
}

static bool size_read(struct gcp_call *c, const char *name, int64_t max, int64_t *ret)
{
	const char *t = gcp_param(c, name);

	*ret = max;
	if (!t || (parse_i64(t, 0, INT64_MAX, ret) && *ret <= max)) {
		if (*ret == 0) {
			*ret = max;
		}
		return true;
	}
	/* compute refuses, the others take their maximum */
	if (!str_same(c->rq->service, "compute") && parse_i64(t, 0, INT64_MAX, ret)) {
		*ret = max;
		return true;
	}
	gcp_fail(c, 400, str_same(c->rq->service, "compute") ? "invalid" : "badRequest",
	    "Invalid value for field '%s': '%s'. Values must be within the range of [0, %" PRId64
	    "]",
	    name, t, max);
	return false;
}

void gcp_page_generic(struct gcp_call *c, const char *member, json_t *items, int64_t size_max,
    bool token_always)
{
	json_t *page = json_array(), *out;
	int64_t at, size;
	size_t n = json_array_size(items);

	if (token_read(c, &at) && size_read(c, "pageSize", size_max, &size)) {
		for (size_t k = (size_t)at; k < n && k < (size_t)(at + size); k++) {
			json_array_append(page, json_array_get(items, k));
		}
		out = json_object();
		if (json_array_size(page) > 0) {
			json_object_set(out, member, page);
		}
		if ((size_t)(at + size) < n) {
			json_object_set_new(out, "nextPageToken",
			    json_string(token_of(c, at + size)));
		} else if (token_always) {
			json_object_set_new(out, "nextPageToken", json_string(""));
		}
		gcp_reply(c, out);
	}
	json_decref(page);
	json_decref(items);
}

/* ---- filter and order ------------------------------------------------------------------------ */

static const json_t *item_of(const json_t *entry)
{
	return json_is_array(entry) ? json_array_get(entry, 1) : entry;
}

static int by_creation(const void *a, const void *b)
{
	const json_t *const *x = a, *const *y = b;
	const char *p = json_string_value(json_object_get(item_of(*x), "creationTimestamp"));
	const char *q = json_string_value(json_object_get(item_of(*y), "creationTimestamp"));
	int cmp;

	if (!p) {
		p = json_string_value(json_object_get(item_of(*x), "insertTime"));
	}
	if (!q) {
		q = json_string_value(json_object_get(item_of(*y), "insertTime"));
	}
	cmp = strcmp(q ? q : "", p ? p : "");
	return cmp;
}

/* Returns a new array of the items that pass; steals items. NULL: answered. */
static json_t *items_choose(struct gcp_call *c, json_t *items)
{
	const char *filter = gcp_param(c, "filter"), *order = gcp_param(c, "orderBy");
	json_t *out, **list;
	size_t n = 0, k;
	json_t *one;

	if ((filter && !gcp_filter_valid(filter, c->a)) ||
	    (order && !str_same(order, "name") && !str_same(order, "creationTimestamp desc"))) {
		gcp_fail(c, 400, "invalid", "Invalid value for field '%s': '%s'. Invalid list %s.",
		    order && (!filter || gcp_filter_valid(filter, c->a)) ? "orderBy" : "filter",
		    order && (!filter || gcp_filter_valid(filter, c->a)) ? order : filter,
		    order && (!filter || gcp_filter_valid(filter, c->a)) ? "order"
									 : "filter expression");
		json_decref(items);
		return NULL;
	}
	list = arena_array(c->a, json_array_size(items) + 1, sizeof(json_t *));
	json_array_foreach (items, k, one) {
		if (!filter || gcp_filter_match(filter, item_of(one), c->a)) {
			list[n++] = one;
		}
	}
	if (order && str_prefix(order, "creation") && n > 0) {
		qsort(list, n, sizeof(json_t *), by_creation);
	}
	out = json_array();
	for (k = 0; k < n; k++) {
		json_array_append(out, list[k]);
	}
	json_decref(items);
	return out;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static json_t *envelope_json(struct gcp_call *c, const char *kind, const char *path)
{
	const char *self = arena_printf(c->a, GCP_LINKS GCP_P "%s", path);

	return json_pack("{s:s, s:o, s:s}", "kind", kind, "id", json_sprintf(GCP_P "%s", path),
	    "selfLink", self);
}

void gcp_list(struct gcp_call *c, const char *kind, const char *path, json_t *items)
{
	int64_t at, size;
	json_t *out, *page;

	items = items_choose(c, items);
	if (!items) {
		return;
	}
	if (!token_read(c, &at) || !size_read(c, "maxResults", RESULTS_MAX, &size)) {
		json_decref(items);
		return;
	}
	out = envelope_json(c, kind, path);
	page = json_array();
	for (size_t k = (size_t)at; k < json_array_size(items) && k < (size_t)(at + size); k++) {
		json_array_append(page, json_array_get(items, k));
	}
	if ((size_t)(at + size) < json_array_size(items)) {
		json_object_set_new(out, "nextPageToken", json_string(token_of(c, at + size)));
	}
	if (json_array_size(page) > 0) {
		json_object_set(out, "items", page);
	}
	json_decref(page);
	json_decref(items);
	gcp_reply(c, out);
}

static json_t *scope_warning(const char *code, const char *scope)
{
	json_t *words = str_same(code, "UNREACHABLE")
	    ? json_sprintf("The scope '%s' is not reachable.", scope)
	    : json_sprintf("There are no results for scope '%s' on this page.", scope);

	return json_pack("{s:{s:s, s:o, s:[{s:s, s:s}]}}", "warning", "code", code, "message",
	    words, "data", "key", "scope", "value", scope);
}

/* Every scope is in the map; those without an item on this page have a warning alone. */
static void fill_scopes(struct gcp_call *c, json_t *map, const char *member, bool regions)
{
	for (size_t k = 0; k < c->g->zones_n; k++) {
		const struct zone *z = c->g->zones[k].zone;
		const char *scope = arena_printf(c->a, "zones/%s", z->name);

		if (!json_object_get(map, scope)) {
			json_object_set_new(map, scope,
			    scope_warning(c->g->zones[k].unreachable ? "UNREACHABLE"
								     : "NO_RESULTS_ON_PAGE",
				scope));
		}
		scope = arena_printf(c->a, "regions/%s", z->region->name);
		if (regions && !json_object_get(map, scope)) {
			json_object_set_new(map, scope, scope_warning("NO_RESULTS_ON_PAGE", scope));
		}
	}
	(void)member;
}

static void put_unreachables(struct gcp_call *c, json_t *out)
{
	json_t *list = json_array();

	for (size_t k = 0; k < c->g->zones_n; k++) {
		if (c->g->zones[k].unreachable) {
			json_array_append_new(list,
			    json_string(gcp_link(c->a, "zones/%s", c->g->zones[k].zone->name)));
		}
	}
	if (json_array_size(list) > 0) {
		json_object_set(out, "unreachables", list);
	}
	json_decref(list);
}

static bool scope_lost(struct gcp_call *c, const char *scope)
{
	const struct zone *z = str_prefix(scope, "zones/") ? gcp_zone(c->sim, scope + 6) : NULL;

	return z && gcp_zone_state(c->g, z)->unreachable;
}

static bool any_lost(struct gcp_call *c)
{
	for (size_t k = 0; k < c->g->zones_n; k++) {
		if (c->g->zones[k].unreachable) {
			return true;
		}
	}
	return false;
}

void gcp_aggregate(struct gcp_call *c, const char *kind, const char *path, const char *member,
    json_t *items, bool regions)
{
	int64_t at, size;
	json_t *out, *map = json_object();

	items = items_choose(c, items);
	if (!items || !token_read(c, &at) || !size_read(c, "maxResults", RESULTS_MAX, &size)) {
		json_decref(map);
		json_decref(items);
		return;
	}
	if (any_lost(c) && !gcp_param_bool(c, "returnPartialSuccess", false)) {
		json_decref(map);
		json_decref(items);
		gcp_fail(c, 503, "backendError", "A backend of the request is not reachable.");
		return;
	}
	for (size_t k = (size_t)at; k < json_array_size(items) && k < (size_t)(at + size); k++) {
		const json_t *pair = json_array_get(items, k);
		const char *scope = json_string_value(json_array_get(pair, 0));
		json_t *entry = json_object_get(map, scope);

		if (scope_lost(c, scope)) {
			continue;
		}
		if (!entry) {
			entry = json_pack("{s:[]}", member);
			json_object_set_new(map, scope, entry);
		}
		json_array_append(json_object_get(entry, member), json_array_get(pair, 1));
	}
	fill_scopes(c, map, member, regions);
	out = envelope_json(c, kind, path);
	json_object_set_new(out, "items", map);
	if ((size_t)(at + size) < json_array_size(items)) {
		json_object_set_new(out, "nextPageToken", json_string(token_of(c, at + size)));
	}
	put_unreachables(c, out);
	json_decref(items);
	gcp_reply(c, out);
}
