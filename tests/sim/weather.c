/* Droughts of spot, feeds of prices that are silent or absurd, machines that start again or lose their clock. */
#include "world.h"
#include "cloud.h"
#include "host.h"
#include "weather.h"

#include "../emulator/clouds.h"

static int64_t drought_until;

static void drought(const char *cloud, bool dry)
{
	char pool[64];

	snprintf(pool, sizeof(pool), "%s/*/*/*/spot", cloud);
	trace("cloud %s %s", cloud, dry ? "has no spot left" : "has spot again");
	cloud_post("/stock", dry ? json_pack("{s:s, s:i}", "pool", pool, "count", 0) : json_pack("{s:s, s:n}", "pool", pool, "count"));
}

static void drought_minute(void)
{
	if (drought_until != 0 && world_now() >= drought_until) {
		drought_until = 0;
		drought("aws", false);
	}
	if (!DICE(drought) || drought_until != 0)
		return;
	drought_until = world_now() + dice_us(60 * SPOT_US_PER_S, 1200 * SPOT_US_PER_S);
	drought("aws", true);
	sometimes("a cloud had no spot left");
}

/* The last price that was heard stays in the rows; it gets old. */
static void feed_silent(void)
{
	sometimes("a feed was silent");
	trace("cloud aws tells no prices");
	cloud_post("/fault", json_pack("{s:{s:s, s:s}, s:s, s:i, s:i, s:s}", "match", "service", "ec2", "action",
	    "DescribeSpotPriceHistory", "kind", "status", "count", (int)dice_us(3, 30), "status", 503, "code", "Unavailable"));
}

static void price_absurd(void)
{
	const struct inst *i = cloud_any(true);
	char pool[256];
	double usd = rng_below(&world.dice, 2) == 0 ? 0.000001 : 90000.0;

	if (i == NULL || i->cloud != CLOUD_AWS)
		return;
	snprintf(pool, sizeof(pool), "aws/%s/%s/%s/spot", i->pool->region->name, i->pool->zone->id, i->pool->type->name);
	trace("cloud %s costs %g", pool, usd);
	cloud_post("/price", json_pack("{s:s, s:f}", "pool", pool, "usd", usd));
	sometimes("a price could not be");
}

void weather_minute(void)
{
	struct inst *i;

	drought_minute();
	if (DICE(silent_feed)) {
		if (rng_below(&world.dice, 2) == 0)
			feed_silent();
		else
			price_absurd();
	}
	if (DICE(reboot) && (i = cloud_any(false)) != NULL)
		host_reboot(i->id);
	if (DICE(agent_clock) && (i = cloud_any(false)) != NULL)
		host_clock(i->id, clock_jump_draw());
}

void weather_calm(void)
{
	drought_until = 0; /* cloud_calm has filled all stocks */
}
