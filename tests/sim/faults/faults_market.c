/* Droughts of spot, feeds of prices that are silent, frozen or absurd, machines that start again or
 * lose their clock. */
#include "sim/world/world.h"
#include "sim/cloud/cloud.h"
#include "sim/cloud/cloud_priv.h"
#include "sim/host/host.h"
#include "sim/store/refuse.h"
#include "sim/faults/faults_market.h"

static int64_t drought_until;
static const char *drought_at; /* the cloud that has none */

/* One of the clouds that sell spot and that the daemon has; fed: by a feed of prices, which
 * CoreWeave lacks. */
static const char *spot_cloud(bool fed)
{
	static const char *const all[] = { "aws", "gcp", "azure", "coreweave" };
	size_t n = ARRAY_LEN(all) - (fed || !cloud_is_here("coreweave")), k;

	do {
		k = (size_t)rng_below(&world.dice, n);
	} while (!cloud_is_here(all[k]));
	return all[k];
}

static void drought_set(const char *cloud, bool dry)
{
	char pool[64];

	snprintf(pool, sizeof(pool), "%s/*/*/*/spot", cloud);
	trace("cloud %s %s", cloud, dry ? "has no spot left" : "has spot again");
	cloud_post("/stock",
	    dry ? json_pack("{s:s, s:i}", "pool", pool, "count", 0)
		: json_pack("{s:s, s:n}", "pool", pool, "count"));
}

static void drought_minute(void)
{
	if (drought_until != 0 && world_now() >= drought_until) {
		drought_until = 0;
		drought_set(drought_at, false);
	}
	if (!DICE(drought) || drought_until != 0) {
		return;
	}
	drought_until = world_now() + dice_us(60 * SPOT_US_PER_S, 1200 * SPOT_US_PER_S);
	drought_at = spot_cloud(false);
	drought_set(drought_at, true);
	sometimes("a cloud had no spot left");
}

/* The last price that was heard stays in the rows; it gets old. */
static void feed_silent(void)
{
	static const struct {
		const char *cloud, *service, *action;
	} feeds[] = { { "aws", "ec2", "DescribeSpotPriceHistory" },
		{ "gcp", "billing", "services.skus.list" }, { "azure", "prices", "GET prices" } };
	const char *cloud = spot_cloud(true);
	size_t k = 0;

	while (strcmp(feeds[k].cloud, cloud) != 0) {
		k++;
	}
	sometimes("a feed was silent");
	trace("cloud %s tells no prices", cloud);
	cloud_post("/fault",
	    json_pack("{s:{s:s, s:s}, s:s, s:i, s:i, s:s}", "match", "service", feeds[k].service,
		"action", feeds[k].action, "kind", "status", "count", (int)dice_us(3, 30), "status",
		503, "code", "Unavailable"));
}

static struct rng frozen_dice; /* its own, so that all else falls as it does */
static struct {
	const char *cloud;
	int64_t until; /* 0 = it is live */
} frozen[] = { { "aws", 0 }, { "gcp", 0 }, { "azure", 0 } };

static void frozen_put(size_t k, int64_t until)
{
	trace("cloud %s tells %s", frozen[k].cloud,
	    until != 0 ? "the prices of now for a while" : "its prices again");
	cloud_post("/feed",
	    json_pack("{s:s, s:b}", "cloud", frozen[k].cloud, "frozen", until != 0));
	frozen[k].until = until;
}

/* Its answers are good ones, and their content gets old. Prices that have moved are told late, with
 * the times of their changes. */
static void frozen_minute(void)
{
	size_t k;

	for (k = 0; k < ARRAY_LEN(frozen); k++) {
		if (frozen[k].until != 0 && world_now() >= frozen[k].until) {
			frozen_put(k, 0);
		}
	}
	if (!DICE(frozen_feed)) {
		return;
	}
	if (frozen_dice.fill == NULL) {
		rng_seeded_init(&frozen_dice, world.conf.seed ^ UINT64_C(0xa54ff53a5f1d36f1));
	}
	k = (size_t)rng_below(&frozen_dice, ARRAY_LEN(frozen));
	if (!cloud_is_here(frozen[k].cloud) || frozen[k].until != 0) {
		return;
	}
	sometimes("a feed was frozen");
	frozen_put(k, world_now() + (120 + (int64_t)rng_below(&frozen_dice, 1800)) * SPOT_US_PER_S);
}

static void price_absurd(void)
{
	const struct inst *i = cloud_any(true);
	char pool[256];
	double usd = rng_below(&world.dice, 2) == 0 ? 0.000001 : 90000.0;

	if (i == NULL) {
		return;
	}
	snprintf(pool, sizeof(pool), "%s/%s/%s/%s/spot", cloud_name(i->cloud),
	    i->pool->region->name, i->pool->zone->id, i->pool->type->name);
	trace("cloud %s costs %g", pool, usd);
	cloud_post("/price", json_pack("{s:s, s:f}", "pool", pool, "usd", usd));
	sometimes("a price could not be");
}

/* EC2's plan for a machine, and its time. */
static struct planned {
	char id[64];
	bool restart;
	int64_t at_us; /* 0 = done */
} planned[32];

static void planned_put(const char *id, bool restart, int64_t at_us)
{
	for (size_t k = 0; k < ARRAY_LEN(planned); k++) {
		if (planned[k].at_us == 0) {
			snprintf(planned[k].id, sizeof(planned[k].id), "%s", id);
			planned[k].restart = restart;
			planned[k].at_us = at_us;
			return;
		}
	}
}

static void end_plan(const struct inst *i)
{
	static const char *const codes[] = { "instance-retirement", "system-reboot" };
	int64_t in_s[2] = { dice_us(30, 1200), dice_us(30, 1200) };
	size_t first = (size_t)rng_below(&world.dice, 2);
	bool both = rng_below(&world.dice, 2) == 0;
	json_t *body = json_pack("{s:s, s:s, s:I}", "instance", i->id, "code", codes[first], "in_s",
	    (json_int_t)in_s[first]);

	trace("cloud plans %s of %s in %" PRId64 " s%s", codes[first], i->id, in_s[first],
	    both ? ", and the other" : "");
	sometimes(both ? "EC2 planned an end and a restart of one machine"
		       : "EC2 planned something with a machine");
	if (both) {
		json_object_set_new(body, "also",
		    json_pack("{s:s, s:I}", "code", codes[1 - first], "in_s",
			(json_int_t)in_s[1 - first]));
	}
	cloud_post("/maintenance", body);
	for (size_t k = 0; k < 2; k++) {
		if (k == first || both) {
			planned_put(i->id, k == 1, world_now() + in_s[k] * SPOT_US_PER_S);
		}
	}
}

static void planned_do(const struct planned *p)
{
	struct inst *i = sim.insts;

	while (i != NULL && !str_same(i->id, p->id)) {
		i = i->next;
	}
	if (i == NULL || i->state != INST_RUNNING) {
		return;
	}
	trace("cloud does what it planned with %s", i->id);
	world.taken_until = world_now() + 600 * SPOT_US_PER_S;
	if (p->restart) {
		world.harm_until = MAX(world.harm_until, world.taken_until);
		host_reboot(machine_of(i));
	} else {
		inst_end(i, "kill", "Server.ScheduledStop",
		    "Server.ScheduledStop: Stopped due to a scheduled retirement");
	}
}

static void planned_minute(void)
{
	const struct inst *i;

	for (size_t k = 0; k < ARRAY_LEN(planned); k++) {
		if (planned[k].at_us != 0 && world_now() >= planned[k].at_us) {
			planned[k].at_us = 0;
			planned_do(&planned[k]);
		}
	}
	if (DICE(planned) && (i = cloud_any(false)) != NULL && i->cloud == CLOUD_AWS &&
	    i->maintenance == NULL) {
		end_plan(i);
	}
}

void faults_market_minute(void)
{
	struct inst *i;

	swings_minute();
	planned_minute();
	drought_minute();
	frozen_minute();
	refuse_minute();
	if (DICE(silent_feed)) {
		if (rng_below(&world.dice, 2) == 0) {
			feed_silent();
		} else {
			price_absurd();
		}
	}
	if (DICE(reboot) && (i = cloud_any(false)) != NULL) {
		host_reboot(machine_of(i));
	}
	if (DICE(agent_clock) && (i = cloud_any(false)) != NULL) {
		host_clock(machine_of(i), clock_jump_draw());
	}
}

void faults_market_calm(void)
{
	refuse_calm();
	swings_calm();
	memset(planned, 0, sizeof(planned));
	drought_until = 0; /* cloud_calm has filled all stocks */
	for (size_t k = 0; k < ARRAY_LEN(frozen); k++) {
		if (frozen[k].until != 0) {
			frozen_put(k, 0);
		}
	}
}
