/*
 * The market's Azure part. A size's facts sit in struct itype's fields:
 *
 * - maker: hypervisor generations
 * - network: quota family
 * - description: series
 * - cards: GPUs in the size list (0 = not listed)
 * - partition: GPUs that it really has
 * - efa: RDMA
 * - cents: 1 if Spot is sold at all
 */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "base/text/text.h"

/* The start's date in the price record; earlier prices are history. */
#define ANCHOR "2026-04-28T00:00:00Z"

const char *az_family(const struct itype *t)
{
	return t->network;
}

static bool load_types(struct sim *s, struct spot_err *err)
{
	struct table t;

	if (!table_open(s, &t, "azure_types.csv", err)) {
		return false;
	}
	while (table_next(&t)) {
		struct itype *y = market_type_add(s->market, CLOUD_AZURE, col(&t, "instance_type"));

		y->gpu = market_keep(s->market, col(&t, "gpu"));
		y->arch = market_keep(s->market, "x64");
		y->maker = market_keep(s->market, col(&t, "generations"));
		y->network = market_keep(s->market, col(&t, "family"));
		y->description = market_keep(s->market, col(&t, "series"));
		y->cards = col_int(&t, "gpus_told");
		y->vcpus = col_int(&t, "vcpus");
		y->mem_mib = col_int(&t, "mem_mib");
		y->efa = str_same(col(&t, "rdma"), "true");
		y->cents = str_same(col(&t, "spot_capable"), "true");
		if (!parse_f64(col(&t, "gpu_count"), 0, 64, &y->partition)) {
			y->partition = 0;
		}
		y->gpus = MAX(1, (int)y->partition);
	}
	return true;
}

static bool load_regions(struct sim *s, struct spot_err *err)
{
	struct table t;

	if (!table_open(s, &t, "azure_regions.csv", err)) {
		return false;
	}
	while (table_next(&t)) {
		struct region *r = market_region_add(s->market, CLOUD_AZURE, col(&t, "region"));

		r->description = market_keep(s->market, col(&t, "display"));
		for (const char *z = col(&t, "zones"); *z; z += strspn(z, " ")) {
			char name[8], id[80];

			snprintf(name, sizeof(name), "%.1s", z++);
			snprintf(id, sizeof(id), "%s-%s", r->name, name);
			market_zone_add(s->market, r, name, id);
		}
	}
	return true;
}

/* A size is in two or three zones of a region; the choice is fixed. */
static bool in_zone(const char *region, const char *type, const char *zone)
{
	unsigned h = 5381;

	for (const char *p = region; *p; p++) {
		h = h * 33 + (unsigned char)*p;
	}
	for (const char *p = type; *p; p++) {
		h = h * 33 + (unsigned char)*p;
	}
	return !(strstr(type, "_ND") && (unsigned)(zone[0] - '1') == h % 3);
}

static bool load_pools(struct sim *s, struct spot_err *err)
{
	struct market *m = s->market;
	struct table t;

	if (!table_open(s, &t, "azure_pools.csv", err)) {
		return false;
	}
	while (table_next(&t)) {
		struct region *r = market_region(m, CLOUD_AZURE, col(&t, "region"));
		struct itype *y = market_type(m, CLOUD_AZURE, col(&t, "instance_type"));
		int64_t spot = col_usd(&t, "spot"), full = col_usd(&t, "on_demand");

		if (!r || !y) {
			continue;
		}
		market_pool_add(s, r, NULL, y, spot, full);
		for (size_t k = 0; k < m->zones_n; k++) {
			if (m->zones[k].region == r &&
			    in_zone(r->name, y->name, m->zones[k].name)) {
				market_pool_add(s, r, &m->zones[k], y, spot, full);
			}
		}
	}
	return true;
}

static void history_point(struct sim *s, struct pool *p, int64_t us, int64_t micros)
{
	if (!p->price[SIDE_SPOT].sold || micros <= 0) {
		return;
	}
	if (!p->recorded) {
		p->price[SIDE_SPOT].at[0] = (struct price_at){ MIN(us, s->start_us), micros };
		p->recorded = true;
	} else if (us <= s->start_us) {
		price_set(s, p, SIDE_SPOT, us, micros);
	} else {
		market_replay_add(s->market, us, p, false, micros);
	}
}

static bool load_history(struct sim *s, struct spot_err *err)
{
	struct market *m = s->market;
	int64_t anchor, at, micros;
	struct table t;

	if (!parse_time_us(ANCHOR, &anchor) || !table_open(s, &t, "azure_history.csv", err)) {
		return false;
	}
	while (table_next(&t)) {
		const char *region = col(&t, "region"), *type = col(&t, "instance_type");

		if (!parse_time_us(col(&t, "timestamp"), &at) ||
		    !parse_usd_micros(col(&t, "spot"), &micros)) {
			continue;
		}
		at += s->start_us - anchor;
		for (size_t k = 0; k < m->pools_n; k++) {
			struct pool *p = &m->pools[k];

			if (p->cloud == CLOUD_AZURE && str_same(p->region->name, region) &&
			    str_same(p->type->name, type)) {
				history_point(s, p, at, micros);
			}
		}
	}
	return true;
}

bool az_market_load(struct sim *s, struct spot_err *err)
{
	if (!load_types(s, err) || !load_regions(s, err) || !load_pools(s, err) ||
	    !load_history(s, err) || err->rc != SPOT_OK) {
		return false;
	}
	market_replay_start(s);
	return true;
}
