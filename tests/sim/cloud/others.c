/*
 * Machines in the same accounts that are not ours. They belong to another broker with an id of its
 * own, and to people without a broker. They run when the seed begins and must run when it ends.
 * None of the world's draws or checks takes them for ours.
 *
 * In a third of the seeds two more bear our tag and have no row. One was launched a day before
 * anybody led this database, as if a backup had been restored. It must run when the seed ends. The
 * other comes while a daemon leads, as if its row had been lost. It must be over.
 */
#include "sim/world/world.h"
#include "sim/cloud/cloud.h"
#include "sim/cloud/cloud_priv.h"
#include "sim/check/check.h"
#include "sim/broker/leaders.h"
#include "sim/world/profiles.h"

#include "base/text/text.h"

/* Nobody here ends machines older than the first leader, so these claim to be younger. */
#define BORN_US (600 * SPOT_US_PER_S)

static const struct {
	enum cloud cloud;
	/* install: a tag of AWS, part of the name at Lambda */
	const char *type, *id, *name, *install;
} known[] = {
	{ CLOUD_AWS, "g5.xlarge", "i-00000000000000001", "sb-cafe0002-n1", "cafe0002" },
	{ CLOUD_AWS, "g5.xlarge", "i-00000000000000002", "notebook", NULL },
	{ CLOUD_LAMBDA, "gpu_1x_a10", "00000000000000000000000000000001",
	    "brk.cafe0002.n1.1793491800", "cafe0002" },
	{ CLOUD_LAMBDA, "gpu_1x_a10", "00000000000000000000000000000002", "notebook", NULL },
};
static struct inst *others[ARRAY_LEN(known)];

static struct pool *pool_of(enum cloud c, const char *type)
{
	for (size_t k = 0; k < sim.market->pools_n; k++) {
		struct pool *p = &sim.market->pools[k];

		if (p->cloud == c && str_same(p->type->name, type)) {
			return p;
		}
	}
	return NULL;
}

/* ---- with our mark --------------------------------------------------------------------------- */

#define LED_US (180 * SPOT_US_PER_S)
#define SKEW_US (60 * SPOT_US_PER_S)
static struct inst *kept, *lost; /* NULL: this seed has none, or not yet */
static int64_t led_since_us; /* the leader as the second came */
static bool led; /* and went on for a minute, so that its lease says so */

static struct inst *ghost_make(const char *id, const char *node, int64_t launched_us)
{
	enum cloud c =
	    profile_is(PROFILE_GHOST_AT_AWS) || !cloud_is_here("lambda") ? CLOUD_AWS : CLOUD_LAMBDA;
	struct inst *i = inst_new(&sim, pool_of(c, c == CLOUD_AWS ? "g5.xlarge" : "gpu_1x_a10"),
	    SIDE_ON_DEMAND, id);
	char name[64];

	snprintf(name, sizeof(name),
	    c == CLOUD_AWS ? "sb-" SIM_INSTALL "-%s" : "brk." SIM_INSTALL ".%s.%" PRId64, node,
	    launched_us / SPOT_US_PER_S);
	i->name = dup_text(name);
	if (c == CLOUD_AWS) {
		inst_tag_set(&i->tags, &i->tags_n, "spotbroker:install", SIM_INSTALL);
	} else {
		i->key_name = dup_text("spotbroker");
		i->own = json_pack("{s:[]}", "files");
	}
	i->state = INST_RUNNING;
	i->running_us = i->launched_us = launched_us;
	trace("cloud has %s with our mark, which no row knows", id);
	return i;
}

void others_come(void)
{
	for (size_t k = 0; k < ARRAY_LEN(known); k++) {
		struct pool *p = pool_of(known[k].cloud, known[k].type);
		struct inst *i;

		assert(p != NULL);
		i = others[k] = inst_new(&sim, p, SIDE_ON_DEMAND, known[k].id);
		i->name = dup_text(known[k].name);
		if (known[k].cloud == CLOUD_AWS && known[k].install != NULL) {
			inst_tag_set(&i->tags, &i->tags_n, "spotbroker:install", known[k].install);
		}
		if (known[k].cloud == CLOUD_LAMBDA) {
			i->key_name = dup_text("spotbroker");
			i->own = json_pack("{s:[]}", "files");
		}
		i->state = INST_RUNNING;
		i->running_us = i->launched_us += BORN_US;
	}
	kept = lost = NULL;
	led = false;
	if (profile_is(PROFILE_RESTORED)) {
		kept = ghost_make("i-00000000000000003", "n9000000",
		    world_now() - INT64_C(86400) * SPOT_US_PER_S);
	}
}

void others_minute(void)
{
	int64_t steady = leaders_steady_since(),
		left = SIM_T0 + world.conf.minutes * 60 * SPOT_US_PER_S - world_now();

	led = led ||
	    (lost != NULL && world_now() - lost->launched_us == 60 * SPOT_US_PER_S &&
		steady == led_since_us);
	if (!profile_is(PROFILE_RESTORED) || lost != NULL || left < 120 * SPOT_US_PER_S ||
	    steady == 0 || world_now() - steady < LED_US) {
		return;
	}
	led_since_us = steady;
	lost = ghost_make("i-00000000000000004", "n9000001", world_now());
}

bool others_settled(void)
{
	return lost == NULL || lost->state == INST_GONE || !led || world.skew_max > SKEW_US;
}

void others_check_end(void)
{
	if (lost == NULL) {
		return;
	}
	sometimes("a machine with our mark was nobody's");
	/* By a clock that was far off nobody led just then, nor by a lease that was not renewed
	 * since. */
	always(others_settled(), "an orphan is ended in the end", "%s is %s", lost->id,
	    inst_state_name(lost));
}

void others_lose(bool lose)
{
	static enum inst_state was;

	if (lost == NULL) {
		return;
	}
	was = lose ? lost->state : was;
	lost->state = lose ? INST_RUNNING : was;
}

bool other_is(const struct inst *i)
{
	if (i == kept || i == lost) {
		return true;
	}
	for (size_t k = 0; k < ARRAY_LEN(others); k++) {
		if (others[k] == i) {
			return true;
		}
	}
	return false;
}

void cloud_check_others(void)
{
	always(kept == NULL || kept->state == INST_RUNNING,
	    "machines unknown to a restored backup are kept", "it is %s",
	    kept != NULL ? inst_state_name(kept) : "");
	for (size_t k = 0; k < ARRAY_LEN(others); k++) {
		always(others[k]->state == INST_RUNNING, "other people's machines are left alone",
		    "%s %s is %s", cloud_name(others[k]->cloud), others[k]->id,
		    inst_state_name(others[k]));
	}
}

void cloud_end_other(bool end)
{
	others[0]->state = end ? INST_GONE : INST_RUNNING;
	if (kept != NULL) {
		kept->state = others[0]->state;
	}
}
