/*
 * A market that swings, in seeds in which fleets move. All spot is sold out for minutes, and some
 * of it is taken back as it goes, siblings within a minute. Pools become dear and cheap again.
 */
#include "sim/faults/faults_market.h"
#include "sim/cloud/cloud.h"
#include "sim/cloud/cloud_priv.h"
#include "sim/world/world.h"

#include "base/base.h"

#define DEAR_MOST 4

static struct rng rng;
static int64_t dry_until; /* 0 = there is spot */
static struct {
	char pool[256];
	double usd;
	int64_t until; /* 0 = unused */
} dear[DEAR_MOST];

static struct inst *spot_any(const struct pool *sibling)
{
	struct inst *found = NULL;
	uint64_t n = 0;

	for (struct inst *i = sim.insts; i != NULL; i = i->next) {
		if (i->state == INST_RUNNING && i->side == SIDE_SPOT && !other_is(i) &&
		    i->notice_us == 0 && i->cloud != CLOUD_COREWEAVE &&
		    (sibling == NULL ||
			(i->pool->region == sibling->region &&
			    str_same(i->pool->type->gpu, sibling->type->gpu))) &&
		    rng_below(&rng, ++n) == 0) {
			found = i;
		}
	}
	return found;
}

static void reclaim(struct inst *i)
{
	trace("cloud reclaims %s, as the market swings", i->id);
	sometimes("an instance was reclaimed");
	world.taken_until = world_now() + 600 * SPOT_US_PER_S;
	inst_reclaim(i, cloud_ops(i->cloud)->notice_s * SPOT_US_PER_S, 0, false);
}

static void spot_set(bool dry)
{
	trace("cloud %s", dry ? "nobody has spot" : "all have spot again");
	cloud_post("/stock",
	    dry ? json_pack("{s:s, s:i}", "pool", "*/*/*/*/spot", "count", 0)
		: json_pack("{s:s, s:n}", "pool", "*/*/*/*/spot", "count"));
}

/* One or two machines are taken as spot goes, the second of the first one's kind. */
static void spot_goes(void)
{
	struct inst *i = spot_any(NULL);

	dry_until = world_now() + (int64_t)(3 + rng_below(&rng, 4)) * 60 * SPOT_US_PER_S;
	spot_set(true);
	sometimes("all spot was sold out");
	if (i == NULL) {
		return;
	}
	reclaim(i);
	if (rng_below(&rng, 3) == 0 && (i = spot_any(i->pool)) != NULL) {
		reclaim(i);
	}
}

static void price_put(const char *pool, double usd)
{
	trace("cloud %s costs %.3f, as the market swings", pool, usd);
	cloud_post("/price", json_pack("{s:s, s:f}", "pool", pool, "usd", usd));
}

static void dear_end(void)
{
	for (size_t k = 0; k < DEAR_MOST; k++) {
		if (dear[k].until != 0 && world_now() >= dear[k].until) {
			dear[k].until = 0;
			price_put(dear[k].pool, dear[k].usd);
		}
	}
}

static void dear_begin(void)
{
	const struct inst *i = spot_any(NULL);
	size_t k = 0;
	char pool[256];

	if (i == NULL) {
		return;
	}
	snprintf(pool, sizeof(pool), "%s/%s/%s/%s/spot", cloud_name(i->cloud),
	    i->pool->region->name, i->pool->zone != NULL ? i->pool->zone->id : "",
	    i->pool->type->name);
	for (size_t j = 0; j < DEAR_MOST; j++) {
		if (dear[j].until != 0 && str_same(dear[j].pool, pool)) {
			return;
		}
	}
	while (k < DEAR_MOST && dear[k].until != 0) {
		k++;
	}
	if (k < DEAR_MOST) {
		memcpy(dear[k].pool, pool, sizeof(pool));
		dear[k].usd = (double)price_at(&i->pool->price[i->side], world_now()) / 1e6;
		dear[k].until =
		    world_now() + (int64_t)(5 + rng_below(&rng, 8)) * 60 * SPOT_US_PER_S;
		price_put(pool, dear[k].usd * (double)(2 + rng_below(&rng, 4)));
		sometimes("a pool became dear for a while");
	}
}

void swings_calm(void)
{
	dry_until = 0; /* cloud_calm has filled all stocks */
	for (size_t k = 0; k < DEAR_MOST; k++) {
		if (dear[k].until != 0) {
			dear[k].until = 0;
			price_put(dear[k].pool, dear[k].usd);
		}
	}
}

void swings_minute(void)
{
	struct inst *i;

	dear_end();
	if (dry_until != 0 && world_now() >= dry_until) {
		dry_until = 0;
		spot_set(false);
	}
	if (!DICE(swing)) {
		return;
	}
	if (rng.fill == NULL) {
		rng_seeded_init(&rng, world.conf.seed ^ UINT64_C(0x1f83d9abfb41bd6b));
	}
	if (dry_until == 0 && rng_below(&rng, 4) == 0) {
		spot_goes();
	}
	if (rng_below(&rng, 3) == 0) {
		dear_begin();
	}
	if (rng_below(&rng, 6) == 0 && (i = spot_any(NULL)) != NULL) {
		reclaim(i);
	}
}
