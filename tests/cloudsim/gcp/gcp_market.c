/* Google's zones, types, SKUs and pools. A machine's price is the sum of its parts' SKUs. */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

#define TYPES_MAX 64
#define ZONES_MAX 128

/* ---- parts ----------------------------------------------------------------------------------- */

struct gcp_part *gcp_part_find(const struct gcp *g, const char *part, const char *region)
{
	for (size_t k = 0; k < g->parts_n; k++) {
		if (str_same(g->parts[k].region, region) && str_same(g->parts[k].part, part)) {
			return &g->parts[k];
		}
	}
	return NULL;
}

static struct gcp_part *part_add(struct sim *s, const char *part, const char *region)
{
	struct gcp *g = s->gcp;
	struct gcp_part *p = gcp_part_find(g, part, region);

	if (p) {
		return p;
	}
	g->parts =
	    arena_grow(s->market->arena, g->parts, g->parts_n, &g->parts_cap, sizeof(*g->parts));
	p = &g->parts[g->parts_n++];
	*p = (struct gcp_part){ .part = market_keep(s->market, part),
		.region = market_keep(s->market, region),
		.nanos = { -1, -1 } };
	return p;
}

static bool load_skus(struct sim *s, struct spot_err *err)
{
	struct gcp *g = s->gcp;
	struct market *m = s->market;
	struct table t;

	if (!table_open(s, &t, "gcp_skus.csv", err)) {
		return false;
	}
	while (table_next(&t)) {
		struct gcp_sku *k;
		const char *region;
		int64_t nanos = 0;

		g->skus = arena_grow(m->arena, g->skus, g->skus_n, &g->skus_cap, sizeof(*g->skus));
		k = &g->skus[g->skus_n++];
		*k = (struct gcp_sku){ .id = market_keep(m, col(&t, "sku")),
			.description = market_keep(m, col(&t, "description")),
			.family = market_keep(m, col(&t, "family")),
			.group = market_keep(m, col(&t, "group")),
			.usage = market_keep(m, col(&t, "usage")),
			.unit = market_keep(m, col(&t, "unit")),
			.regions = market_keep(m, col(&t, "regions")),
			.tiers = market_keep(m, col(&t, "tiers")),
			.part = market_keep(m, col(&t, "part")),
			.side =
			    str_same(col(&t, "side"), "Preemptible") ? SIDE_SPOT : SIDE_ON_DEMAND };
		if (!*k->part) {
			continue;
		}
		if (!parse_i64(k->tiers + 2, 0, INT64_MAX / 2, &nanos)) {
			err_set(err, SPOT_CONFIG, "gcp_skus.csv line %d: bad price", t.csv.line);
			return false;
		}
		for (const char *p = k->regions; *p; p += strspn(p, " ")) {
			size_t n = strcspn(p, " ");

			region = arena_strndup(m->arena, p, n);
			part_add(s, k->part, region)->nanos[k->side] = nanos;
			p += n;
		}
	}
	return err->rc == SPOT_OK;
}

/* Adds count times the part; false: no such SKU. */
static bool add_part(const struct gcp *g, const char *part, const char *region, enum side side,
    __int128 times, __int128 divide, __int128 *sum)
{
	const struct gcp_part *p = gcp_part_find(g, part, region);

	if (!p || p->nanos[side] < 0) {
		return false;
	}
	*sum += ((__int128)p->nanos[side] * times * 1000) / divide;
	*sum += (__int128)p->shift[side] * 1000000 * (strstr(part, " gpu") ? times : 0) / divide;
	return true;
}

/* Micro-dollars per hour; 0 = not sold. Sums are in millionths of micro-dollars. */
static int64_t price_compose(struct arena *a, const struct gcp *g, const struct gcp_type *t,
    const char *region, enum side side)
{
	const char *gpu = arena_printf(a, "%s gpu", t->gpu);
	__int128 sum = 0;

	if (!*t->family) { /* A4: slices hold everything */
		if (!add_part(g, gpu, region, side, t->gpus, 1, &sum)) {
			return 0;
		}
	} else if (!add_part(g, arena_printf(a, "%s core", t->family), region, side, t->type->vcpus,
		       1, &sum) ||
	    !add_part(g, arena_printf(a, "%s ram", t->family), region, side, t->type->mem_mib, 1024,
		&sum) ||
	    !add_part(g, gpu, region, side, t->gpus, 1, &sum) ||
	    (t->ssds > 0 &&
		!add_part(g, "ssd", region, side, (__int128)t->ssds * 375, 730, &sum))) {
		return 0;
	}
	return (int64_t)((sum + 500000) / 1000000);
}

/* ---- zones, types, pools --------------------------------------------------------------------- */

static bool load_types(struct sim *s, struct spot_err *err)
{
	struct gcp *g = s->gcp;
	struct market *m = s->market;
	struct table t;

	g->types = arena_array(m->arena, TYPES_MAX, sizeof(*g->types));
	if (!table_open(s, &t, "gcp_types.csv", err)) {
		return false;
	}
	while (table_next(&t) && g->types_n < TYPES_MAX) {
		struct gcp_type *y = &g->types[g->types_n++];
		char *plus;

		y->type = market_type_add(m, CLOUD_GCP, col(&t, "type"));
		y->machine = market_keep(m, col(&t, "type"));
		plus = strchr(y->machine, '+');
		y->attached = plus != NULL;
		if (plus) {
			y->machine =
			    arena_strndup(m->arena, y->machine, (size_t)(plus - y->machine));
		}
		y->family = market_keep(m, col(&t, "family"));
		y->gpu = market_keep(m, col(&t, "gpu"));
		y->accelerator = market_keep(m, col(&t, "accelerator"));
		y->gpus = y->type->gpus = col_int(&t, "gpus");
		y->ssds = col_int(&t, "ssds");
		y->type->vcpus = col_int(&t, "vcpus");
		y->type->mem_mib = col_int(&t, "mem_mib");
		y->type->gpu = market_keep(m, y->gpu);
		y->type->arch = market_keep(m, "x86_64");
	}
	return err->rc == SPOT_OK;
}

static bool load_zones(struct sim *s, struct spot_err *err)
{
	struct gcp *g = s->gcp;
	struct market *m = s->market;
	struct arena *scratch AUTO(arena) = arena_new(0);
	struct table t;

	g->zones = arena_array(m->arena, ZONES_MAX, sizeof(*g->zones));
	if (!table_open(s, &t, "gcp_zones.csv", err)) {
		return false;
	}
	while (table_next(&t) && g->zones_n < ZONES_MAX) {
		struct region *r = market_region_add(m, CLOUD_GCP, col(&t, "region"));
		struct zone *z = market_zone_add(m, r, col(&t, "zone"), col(&t, "zone"));
		const char *list = col(&t, "types");

		r->description = market_keep(m, col(&t, "city"));
		g->zones[g->zones_n++].zone = z;
		for (const char *p = list; *p; p += strspn(p, " ")) {
			size_t n = strcspn(p, " ");
			const struct gcp_type *y = gcp_type_named(g, arena_strndup(scratch, p, n));

			p += n;
			if (!y) {
				err_set(err, SPOT_CONFIG, "gcp_zones.csv line %d: unknown type",
				    t.csv.line);
				return false;
			}
			market_pool_add(s, r, z, y->type,
			    price_compose(scratch, g, y, r->name, SIDE_SPOT),
			    price_compose(scratch, g, y, r->name, SIDE_ON_DEMAND));
		}
	}
	return err->rc == SPOT_OK;
}

/* ---- the past -------------------------------------------------------------------------------- */

/* The record's end is the emulator's start. */
#define RECORD_END "2026-07-30T00:00:00Z"

static void history_point(struct sim *s, struct pool *p, int64_t us, int64_t micros)
{
	struct price_log *l = &p->price[SIDE_SPOT];

	if (!l->sold) {
		return;
	}
	if (p->recorded) {
		price_set(s, p, SIDE_SPOT, us, micros);
	} else {
		l->at[0] = (struct price_at){ us, micros };
	}
	p->recorded = true;
}

/* The price in force is the sum of the SKUs; the record is rounded. */
static void history_end(struct sim *s, struct pool *p, int64_t now)
{
	struct arena *a AUTO(arena) = arena_new(0);
	struct price_log *l = &p->price[SIDE_SPOT];
	int64_t is =
	    price_compose(a, s->gcp, gcp_type_of(s->gcp, p->type), p->region->name, SIDE_SPOT);
	int64_t was = l->at[l->n - 1].micros;

	if (is != was && llabs(is - was) <= 50) {
		l->at[l->n - 1].micros = is;
	} else {
		price_set(s, p, SIDE_SPOT, now, is);
	}
}

static bool load_history(struct sim *s, struct spot_err *err)
{
	struct market *m = s->market;
	int64_t end, at, micros;
	char text[64];
	struct table t;

	if (!parse_time_us(RECORD_END, &end) || !table_open(s, &t, "gcp_history.csv", err)) {
		return false;
	}
	while (table_next(&t)) {
		const char *region = col(&t, "region"), *type = col(&t, "type");

		snprintf(text, sizeof(text), "%sT00:00:00Z", col(&t, "day"));
		micros = col_usd(&t, "spot");
		if (!parse_time_us(text, &at) || micros <= 0) {
			err_set(err, SPOT_CONFIG, "gcp_history.csv line %d: bad day or price",
			    t.csv.line);
			return false;
		}
		for (size_t k = 0; k < m->pools_n; k++) {
			struct pool *p = &m->pools[k];

			if (p->cloud == CLOUD_GCP && str_same(p->type->name, type) &&
			    str_same(p->region->name, region)) {
				history_point(s, p, at + s->start_us - end, micros);
			}
		}
	}
	for (size_t k = 0; k < m->pools_n; k++) {
		if (m->pools[k].cloud == CLOUD_GCP && m->pools[k].recorded) {
			history_end(s, &m->pools[k], s->start_us - SPOT_US_PER_HOUR);
		}
	}
	return err->rc == SPOT_OK;
}

bool gcp_market_load(struct sim *s, struct spot_err *err)
{
	return load_skus(s, err) && load_types(s, err) && load_zones(s, err) &&
	    load_history(s, err);
}

const struct gcp_type *gcp_type_of(const struct gcp *g, const struct itype *t)
{
	for (size_t k = 0; k < g->types_n; k++) {
		if (g->types[k].type == t) {
			return &g->types[k];
		}
	}
	return NULL;
}

const struct gcp_type *gcp_type_named(const struct gcp *g, const char *name)
{
	for (size_t k = 0; k < g->types_n; k++) {
		if (str_same(g->types[k].type->name, name)) {
			return &g->types[k];
		}
	}
	return NULL;
}

struct zone *gcp_zone(const struct sim *s, const char *name)
{
	for (size_t k = 0; k < s->gcp->zones_n; k++) {
		if (str_same(s->gcp->zones[k].zone->name, name)) {
			return s->gcp->zones[k].zone;
		}
	}
	return NULL;
}

struct gcp_zone *gcp_zone_state(const struct gcp *g, const struct zone *z)
{
	for (size_t k = 0; k < g->zones_n; k++) {
		if (g->zones[k].zone == z) {
			return &g->zones[k];
		}
	}
	return NULL;
}

/* ---- a price set by hand --------------------------------------------------------------------- */

void gcp_prices_told(struct sim *s)
{
	for (size_t k = 0; s->frozen_us[CLOUD_GCP] == 0 && k < s->gcp->parts_n; k++) {
		memcpy(s->gcp->parts[k].told, s->gcp->parts[k].shift,
		    sizeof(s->gcp->parts[k].told));
	}
}

void gcp_price_moved(struct sim *s, struct pool *p, enum side side)
{
	struct arena *a AUTO(arena) = arena_new(0);
	struct gcp *g = s->gcp;
	const struct gcp_type *t = gcp_type_of(g, p->type);
	struct gcp_part *part =
	    gcp_part_find(g, arena_printf(a, "%s gpu", t->gpu), p->region->name);
	int64_t now = sim_wall(s), want = price_at(&p->price[side], now);

	if (!part || part->nanos[side] < 0) {
		return;
	}
	if (p->price[side].held) {
		int64_t base;

		part->shift[side] = 0;
		base = price_compose(a, g, t, p->region->name, side);
		part->shift[side] = (want - base) / t->gpus;
	} else {
		part->shift[side] = 0;
	}
	gcp_prices_told(s);
	for (size_t k = 0; k < s->market->pools_n; k++) {
		struct pool *q = &s->market->pools[k];
		const struct gcp_type *u;
		int64_t micros;

		if (q->cloud != CLOUD_GCP || q->region != p->region || !q->price[side].sold) {
			continue;
		}
		u = gcp_type_of(g, q->type);
		micros = price_compose(a, g, u, q->region->name, side);
		if (micros > 0 && str_same(u->gpu, t->gpu)) {
			price_set(s, q, side, now, micros);
		}
	}
}
