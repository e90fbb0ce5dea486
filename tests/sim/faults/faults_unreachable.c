/* A daemon, or both, cannot reach one of its clouds, for minutes: its requests are lost or refused.
 * The cloud goes on, and so do agents and the other clouds. */
#include "sim/world/world.h"
#include "sim/cloud/cloud.h"
#include "sim/cloud/cloud_priv.h"
#include "sim/faults/faults_unreachable.h"

#include "base/text/text.h"

#define SHARED_PORT 9000 /* the emulator's own: AWS, Lambda, the store of objects */

static struct rng unreachable_dice; /* its own, so that all else falls as it does */
static struct {
	const char *cloud; /* NULL: nobody is cut off */
	const char *whom; /* NULL: both daemons */
	bool refused; /* at once; else nothing ever comes back */
	int64_t until;
} cut;

/* Object stores are excepted: the daemon may reach them. */
static const char *cloud_of(const char *url, int port)
{
	if (port == SHARED_PORT) {
		return strstr(url, "/api/v1/") != NULL      ? "lambda"
		    : str_same(strrchr(url, ':'), ":9000/") ? "aws"
							    : NULL;
	}
	if (port == cloud_port(&sim, CLOUD_GCP)) {
		return "gcp";
	}
	return port == cloud_port(&sim, CLOUD_AZURE) ? "azure" : "coreweave";
}

enum unreachable_cut unreachable_cut(const char *from, const char *url, int port)
{
	const char *cloud;

	if (cut.cloud == NULL || strncmp(from, "daemon-", strlen("daemon-")) != 0 ||
	    (cut.whom != NULL && !str_same(from, cut.whom))) {
		return UNREACHABLE_NOT;
	}
	cloud = cloud_of(url, port);
	if (cloud == NULL || !str_same(cloud, cut.cloud)) {
		return UNREACHABLE_NOT;
	}
	sometimes("a cloud was asked in vain while it could not be reached");
	return cut.refused ? UNREACHABLE_REFUSED : UNREACHABLE_LOST;
}

void unreachable_minute(void)
{
	static const char *const clouds[] = { "aws", "lambda", "gcp", "azure", "coreweave" },
				 *const whom[] = { "daemon-a", "daemon-b", NULL };
	const char *cloud;

	if (cut.cloud != NULL && world_now() >= cut.until) {
		unreachable_calm();
	}
	if (!DICE(far) || cut.cloud != NULL) {
		return;
	}
	if (unreachable_dice.fill == NULL) {
		rng_seeded_init(&unreachable_dice, world.conf.seed ^ UINT64_C(0x510e527fade682d1));
	}
	cloud = clouds[rng_below(&unreachable_dice, ARRAY_LEN(clouds))];
	cut.whom = whom[rng_below(&unreachable_dice, ARRAY_LEN(whom))];
	cut.refused = rng_below(&unreachable_dice, 2) == 0;
	cut.until =
	    world_now() + (60 + (int64_t)rng_below(&unreachable_dice, 1200)) * SPOT_US_PER_S;
	if (!cloud_is_here(cloud)) {
		return;
	}
	cut.cloud = cloud;
	trace("net: %s cannot reach %s", cut.whom != NULL ? cut.whom : "daemons", cloud);
	sometimes("a cloud could not be reached");
	world.taken_until = MAX(world.taken_until, cut.until + 600 * SPOT_US_PER_S);
	world.harm_until = MAX(world.harm_until, cut.until + 600 * SPOT_US_PER_S);
}

void unreachable_calm(void)
{
	if (cut.cloud != NULL) {
		trace("net %s can be reached again", cut.cloud);
	}
	cut.cloud = NULL;
}
