/* The embedded price list and table of types: prices.csv and types.csv. */
#include "base/base.h"
#include "coreweave_priv.h"

#include "base/text/text.h"

extern const char cw_prices_csv[]; /* made from prices.csv */
extern const char cw_types_csv[]; /* made from types.csv */

static int64_t usd_read(const char *s)
{
	int64_t micros = 0;

	return s[0] != '\0' && parse_usd_micros(s, &micros) ? micros : 0;
}

static enum spot_rc prices_read(struct cw *self, struct spot_err *err)
{
	struct csv csv;
	size_t cap = 0;
	int got;
	enum spot_rc rc = csv_open(&csv, self->arena, str_from(cw_prices_csv), err);

	while (rc == SPOT_OK && (got = csv_next(&csv, err)) != 0) {
		struct cw_price *p;
		char day[40];

		if (got < 0) {
			return err->rc;
		}
		self->prices =
		    arena_grow(self->arena, self->prices, self->prices_n, &cap, sizeof(*p));
		p = &self->prices[self->prices_n++];
		*p = (struct cw_price){
			.region = arena_strdup(self->arena, csv_get(&csv, "region")),
			.zone = arena_strdup(self->arena, csv_get(&csv, "zone")),
			.type = arena_strdup(self->arena, csv_get(&csv, "instance_type")),
			.on_demand = usd_read(csv_get(&csv, "on_demand_usd_hour")),
			.spot = usd_read(csv_get(&csv, "spot_usd_hour")),
		};
		snprintf(day, sizeof(day), "%.10sT00:00:00Z", csv_get(&csv, "as_of"));
		if (!parse_time_us(day, &p->as_of_us)) {
			return err_set(err, SPOT_INTERNAL,
			    "prices.csv, line %d: as_of is not a day", csv.line);
		}
	}
	return rc;
}

static int32_t number_read(const struct csv *csv, const char *column)
{
	int64_t v = 0;

	return parse_i64(csv_get(csv, column), 0, INT32_MAX, &v) ? (int32_t)v : 0;
}

static enum spot_rc types_read(struct cw *self, struct spot_err *err)
{
	struct csv csv;
	size_t cap = 0;
	int got;
	enum spot_rc rc = csv_open(&csv, self->arena, str_from(cw_types_csv), err);

	while (rc == SPOT_OK && (got = csv_next(&csv, err)) != 0) {
		struct cw_type *t;

		if (got < 0) {
			return err->rc;
		}
		self->types = arena_grow(self->arena, self->types, self->types_n, &cap, sizeof(*t));
		t = &self->types[self->types_n++];
		*t = (struct cw_type){
			.name = arena_strdup(self->arena, csv_get(&csv, "instance_type")),
			.shape = { .gpu_name = arena_strdup(self->arena, csv_get(&csv, "gpu_name")),
			    .gpu_milli = number_read(&csv, "gpus") * 1000,
			    .gpu_mem_mib = number_read(&csv, "gpu_mem_mib"),
			    .vcpus = number_read(&csv, "vcpus"),
			    .mem_mib = number_read(&csv, "mem_mib"),
			    .arch = arena_strdup(self->arena, csv_get(&csv, "arch")) },
			.rack = strcmp(csv_get(&csv, "rack"), "yes") == 0,
			.spot = strcmp(csv_get(&csv, "spot"), "yes") == 0,
			.rdma = arena_strdup(self->arena, csv_get(&csv, "rdma")),
		};
	}
	return rc;
}

enum spot_rc cw_catalog_read(struct cw *self, struct spot_err *err)
{
	enum spot_rc rc = prices_read(self, err);

	return rc != SPOT_OK ? rc : types_read(self, err);
}

const struct cw_type *cw_type_find(const struct cw *self, const char *name)
{
	for (size_t i = 0; i < self->types_n; i++) {
		if (strcmp(self->types[i].name, name) == 0) {
			return &self->types[i];
		}
	}
	return NULL;
}

/* By the price list; a zone that is not in it gives its region by name: "US-EAST-04A" is in
 * US-EAST. */
const char *cw_zone_region(const struct cw *self, struct arena *a, const char *zone)
{
	const char *dash = strrchr(zone, '-');

	for (size_t i = 0; i < self->prices_n; i++) {
		if (strcmp(self->prices[i].zone, zone) == 0) {
			return self->prices[i].region;
		}
	}
	return dash != NULL ? arena_strndup(a, zone, (size_t)(dash - zone)) : zone;
}
