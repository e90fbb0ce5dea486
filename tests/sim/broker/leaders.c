/*
 * The leader. Each lease has an epoch; a daemon with an older one leads no longer, whatever it
 * believes.
 */
#include "base/base.h"
#include "sim/world/world.h"
#include "base/text/text.h"
#include "io/pg/pg_priv.h"
#include "sim/broker/leaders.h"

static int64_t newest;
static int64_t led[2]; /* by daemon: the epoch it was given last */
static int64_t steady; /* 0 = nobody leads, or it stands still */

int64_t leaders_steady_since(void)
{
	return steady;
}

void leaders_unsteady(void)
{
	if (steady != 0) {
		steady = world_now();
	}
}

size_t leaders_daemon(const struct pg *p)
{
	return str_same(p->application, "b");
}

void leaders_born(const struct pg *p)
{
	led[leaders_daemon(p)] = 0;
}

void leaders_stop(const struct pg *p, bool stop)
{
	if (newest != 0 && led[leaders_daemon(p)] == newest) {
		steady = stop ? 0 : world_now();
	}
}

bool leaders_leads(const struct pg *p)
{
	return led[leaders_daemon(p)] == newest;
}

int64_t leaders_newest(void)
{
	return newest;
}

int64_t leaders_epoch(size_t daemon)
{
	return led[daemon];
}

/* An epoch is one leader's, and a leader that renews in time stays: nothing went wrong for as long
 * as that. */
static void check_taken(size_t k, int64_t epoch, bool calm)
{
	always(epoch > newest, "each lease holder has an epoch of its own",
	    "%" PRId64 ", it was %" PRId64, epoch, newest);
	always(newest == 0 || led[!k] != newest || !calm, "a lease that is kept is not taken",
	    "epoch %" PRId64 " of the other daemon", newest);
}

void leaders_took(const struct pg *p, int64_t epoch)
{
	size_t k = leaders_daemon(p);

	check_taken(k, epoch, world.harm_until < world_now() && world.skew_max == 0);
	if (newest != 0 && led[!k] == newest) {
		sometimes("the other daemon took over");
	}
	led[k] = newest = epoch;
	steady = world_now();
	trace("daemon-%s leads with epoch %" PRId64, p->application, epoch);
}

void leaders_break_lease(void)
{
	int64_t was = newest;

	led[1] = newest = 7;
	check_taken(0, 7, true);
	newest = was;
}
