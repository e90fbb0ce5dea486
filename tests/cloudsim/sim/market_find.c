/* Looks up regions, zones, types, pools and prices; matches selectors. */
#include "base/base.h"
#include "cloudsim/sim/cloud.h"
#include "base/text/text.h"

const char *side_name(enum side s)
{
	return s == SIDE_SPOT ? "spot" : "on_demand";
}

struct region *market_region(const struct market *m, enum cloud c, const char *name)
{
	for (size_t i = 0; i < m->regions_n; i++) {
		if (m->regions[i].cloud == c && str_same(m->regions[i].name, name)) {
			return &m->regions[i];
		}
	}
	return NULL;
}

struct zone *market_zone(const struct market *m, const char *region, const char *name_or_id)
{
	for (size_t i = 0; i < m->zones_n; i++) {
		struct zone *z = &m->zones[i];

		if (str_same(z->region->name, region) &&
		    (str_same(z->id, name_or_id) || str_same(z->name, name_or_id))) {
			return z;
		}
	}
	return NULL;
}

struct itype *market_type(const struct market *m, enum cloud c, const char *name)
{
	for (size_t i = 0; i < m->types_n; i++) {
		if (m->types[i].cloud == c && str_same(m->types[i].name, name)) {
			return &m->types[i];
		}
	}
	return NULL;
}

struct pool *market_pool(const struct market *m, enum cloud c, const char *region,
    const struct zone *z, const char *type)
{
	for (size_t i = 0; i < m->pools_n; i++) {
		struct pool *p = &m->pools[i];

		if (p->cloud == c && p->zone == z && str_same(p->type->name, type) &&
		    str_same(p->region->name, region)) {
			return p;
		}
	}
	return NULL;
}

int64_t price_at(const struct price_log *l, int64_t us)
{
	size_t lo = 0, hi = l->n;

	if (l->n == 0) {
		return 0;
	}
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (l->at[mid].us <= us) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo == 0 ? l->at[0].micros : l->at[lo - 1].micros;
}

void price_append(struct price_log *l, int64_t us, int64_t micros)
{
	if (l->n > 0 && us <= l->at[l->n - 1].us) {
		us = l->at[l->n - 1].us + 1;
	}
	if (l->n == l->cap) {
		l->cap = MAX((size_t)8, l->cap * 2);
		l->at = realloc(l->at, l->cap * sizeof(*l->at));
		if (!l->at) {
			abort();
		}
	}
	l->sold = true;
	l->at[l->n++] = (struct price_at){ us, micros };
}

int64_t pool_free(const struct pool *p, enum side side)
{
	return MAX(p->stock[side] - p->used[side], 0);
}

/* ---- selectors ------------------------------------------------------------------------------- */

static bool selector_from_path(const char *text, struct arena *a, struct selector *ret)
{
	const char **part[] = { &ret->provider, &ret->region, &ret->zone, &ret->type,
		&ret->market };
	size_t n = 0;

	for (const char *p = text; n < ARRAY_LEN(part); n++) {
		const char *end = strchrnul(p, '/');

		*part[n] = arena_strndup(a, p, (size_t)(end - p));
		if (!*end) {
			return true;
		}
		p = end + 1;
	}
	return false;
}

bool selector_from_json(const json_t *j, struct arena *a, struct selector *ret,
    struct spot_err *err)
{
	memset(ret, 0, sizeof(*ret));
	if (json_is_string(j)) {
		if (selector_from_path(json_string_value(j), a, ret)) {
			return true;
		}
		err_set(err, SPOT_INVALID, "selector is provider/region/zone/type/market");
		return false;
	}
	if (!json_is_object(j)) {
		err_set(err, SPOT_INVALID,
		    "selector is an object or a text provider/region/zone/type/market");
		return false;
	}
	ret->provider = json_str(j, "provider", NULL, err);
	ret->region = json_str(j, "region", NULL, err);
	ret->zone = json_str(j, "zone", NULL, err);
	ret->type = json_str(j, "type", NULL, err);
	ret->market = json_str(j, "market", NULL, err);
	return err->rc == SPOT_OK;
}

static bool part_matches(const char *pattern, const char *text)
{
	return !pattern || !*pattern || glob_match(pattern, text);
}

bool selector_pool(const struct selector *s, const struct pool *p)
{
	if (!part_matches(s->provider, cloud_name(p->cloud)) ||
	    !part_matches(s->region, p->region->name) || !part_matches(s->type, p->type->name)) {
		return false;
	}
	if (!p->zone) {
		return part_matches(s->zone, "");
	}
	return part_matches(s->zone, p->zone->id) || part_matches(s->zone, p->zone->name);
}

bool selector_side(const struct selector *s, enum side side)
{
	return part_matches(s->market, side_name(side));
}
