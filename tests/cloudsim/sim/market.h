/*
 * Pools, prices and stock of both clouds, from data/ and from the control API; price changes are
 * kept, since the bill and the spot price history are read from them.
 */
#ifndef EMULATOR_MARKET_H
#define EMULATOR_MARKET_H

#include "base/text/csv.h"
#include "cloudsim/sim/sim.h"

enum side { SIDE_SPOT = 0, SIDE_ON_DEMAND, SIDE_COUNT };
#define STOCK_OPEN 1000000

struct region {
	enum cloud cloud;
	char *name, *description;
	bool opt_in, enabled;
};
struct zone {
	struct region *region;
	char *name, *id, *kind; /* kind: "availability-zone", "local-zone" */
};
struct itype {
	enum cloud cloud;
	char *name, *gpu, *maker, *arch, *network, *description;
	int gpus, gpu_mem_mib, vcpus, mem_mib, efa, cards, storage_gib, cents;
	double partition; /* of one GPU; 0 = whole GPUs */
	bool current;
};
struct price_log {
	struct price_at {
		int64_t us, micros;
	} *at;
	size_t n, cap;
	bool sold;
	bool held; /* set by hand: the replay does not move it */
};
struct pool {
	enum cloud cloud;
	struct region *region;
	struct zone *zone; /* NULL for lambda */
	struct itype *type;
	struct price_log price[SIDE_COUNT];
	int64_t stock[SIDE_COUNT]; /* how many may run at once */
	int64_t used[SIDE_COUNT];
	bool recorded; /* has a recorded history */
	bool advertised; /* lambda: listed as having capacity */
	bool advertised_by_hand;
	bool supply_held; /* stock set by hand: the replay does not move it */
};
struct market {
	struct arena *arena;
	struct region *regions;
	size_t regions_n;
	struct zone *zones;
	size_t zones_n;
	struct itype *types;
	size_t types_n;
	struct pool *pools;
	size_t pools_n;
	struct replay *replay;
	size_t replay_n, replay_at;
	size_t replay_cap;
	struct loop_timer timer;
	struct sim *sim;
	char *advisor_json;
};
struct replay {
	int64_t sim_us;
	struct pool *pool;
	int64_t value; /* micro-dollars or instances */
	bool supply;
};

const char *cloud_name(enum cloud c); /* clouds.c */
const char *side_name(enum side s); /* "spot" "on_demand" */
NODISCARD bool market_load(struct sim *s, struct spot_err *err);
void market_free(struct market *m);
struct region *market_region(const struct market *m, enum cloud c, const char *name);
struct zone *market_zone(const struct market *m, const char *region, const char *name_or_id);
struct itype *market_type(const struct market *m, enum cloud c, const char *name);
struct pool *market_pool(const struct market *m, enum cloud c, const char *region,
    const struct zone *z, const char *type);
/* Price in force at a moment; 0 = not sold then. */
int64_t price_at(const struct price_log *l, int64_t us);
void price_set(struct sim *s, struct pool *p, enum side side, int64_t us, int64_t micros);
/* A recorded row, also one that tells the price in force again. */
void price_append(struct price_log *l, int64_t us, int64_t micros);
int64_t pool_free(const struct pool *p, enum side side);
void pool_stock_set(struct sim *s, struct pool *p, enum side side, int64_t count);
/* Applies what the replay clock has reached and arms the next. */
void market_replay(struct sim *s);

/* A change to come, and the start of playing what was added (again after each load). */
void market_replay_add(struct market *m, int64_t sim_us, struct pool *p, bool supply,
    int64_t value);
void market_replay_start(struct sim *s);

/* Reading data/ for a cloud's load(): tables with a header row. */
struct table {
	struct csv csv;
	const char *name;
	struct spot_err *err;
};
bool table_open(struct sim *s, struct table *t, const char *name, struct spot_err *err);
bool table_next(struct table *t);
const char *col(const struct table *t, const char *name);
int col_int(const struct table *t, const char *name);
int64_t col_usd(const struct table *t, const char *name); /* micro-dollars, 0 if empty */
/* a copy that lives as long as the market */
char *market_keep(struct market *m, const char *text);
struct region *market_region_add(struct market *m, enum cloud c, const char *name);
struct zone *market_zone_add(struct market *m, struct region *r, const char *name, const char *id);
struct itype *market_type_add(struct market *m, enum cloud c, const char *name);
/* A pool with its first prices (0 = not sold) and open stock. z may be NULL. */
struct pool *market_pool_add(struct sim *s, struct region *r, struct zone *z, struct itype *t,
    int64_t spot_micros, int64_t on_demand_micros);

/* Selector with * and ? in each part; empty = any. zone matches name or id. */
struct selector {
	const char *provider, *region, *zone, *type, *market;
};
bool selector_from_json(const json_t *j, struct arena *a, struct selector *ret,
    struct spot_err *err);
bool selector_pool(const struct selector *s, const struct pool *p);
bool selector_side(const struct selector *s, enum side side);

#endif
