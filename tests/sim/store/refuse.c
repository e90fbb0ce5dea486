/*
 * A server that answers and refuses: all that writes (its disk is full), all, or one statement. It
 * does so at once, and a loop that asks again at once, too, does nothing else and lets nobody else
 * act.
 */
#include "base/base.h"
#include "sim/world/world.h"
#include "base/text/text.h"
#include "io/pg/pg_priv.h"
#include "sim/broker/leaders.h"
#include "sim/store/refuse.h"
#include "sim/store/sim_store.h"
#include "store/q.h"

/*
 * Bounds on one statement in a second: a few daemons and machines may ask the same. A request asks
 * once, but all requests of some minutes wait at a daemon that was paused. A loop without a pause
 * asks thousands of times.
 */
#define ASKED_MOST 60
#define REQUESTS_MOST 600

static enum what { WRITES, ALL, ONE } what;
static int64_t until, second;
static const char *one, *last;
static int64_t asked;

void refuse_minute(void)
{
	static const enum what all[] = { WRITES, ALL, ONE };

	if (!DICE(db_refuse) || world_now() < until) {
		return;
	}
	what = all[rng_below(&world.dice, ARRAY_LEN(all))];
	one = q_all[rng_below(&world.dice, q_all_n)].name;
	/* No longer: a daemon that cannot write hears nothing, so an agent that reports in vain is
	 * as good as silent. */
	until = world_now() +
	    dice_us(5 * SPOT_US_PER_S, what == ONE ? 45 * SPOT_US_PER_S : 180 * SPOT_US_PER_S);
	world.harm_until = MAX(world.harm_until, until + 60 * SPOT_US_PER_S);
	trace("db refuses %s until %.3f",
	    what == WRITES    ? "writes"
		: what == ALL ? "all"
			      : one,
	    (double)(until - world_now()) / 1e6);
}

void refuse_calm(void)
{
	until = 0;
}

static void refusal_judge(const char *name)
{
	if (last != name || world_now() >= second + SPOT_US_PER_S) {
		last = name;
		second = world_now();
		asked = 0;
	}
	asked++;
	always(asked <= (str_prefix(name, "api_") ? REQUESTS_MOST : ASKED_MOST),
	    "a refused statement is not repeated at once", "%s %" PRId64 " times", name, asked);
}

PGresult *refuse_ran(const struct pg_stmt *s)
{
	if (world_now() >= until || (what == WRITES && !s->writes) ||
	    (what == ONE && !str_same(one, s->name))) {
		return NULL;
	}
	leaders_unsteady();
	refusal_judge(s->name);
	return PQexec(store_conn(),
	    what == WRITES
		? "DO $$BEGIN RAISE 'No space left on device' USING ERRCODE = '53100'; END$$"
		: "DO $$BEGIN RAISE 'Input/output error' USING ERRCODE = '58030'; END$$");
}

void refuse_break(void)
{
	for (int i = 0; i <= ASKED_MOST; i++) {
		refusal_judge("engine_preempt");
	}
}
