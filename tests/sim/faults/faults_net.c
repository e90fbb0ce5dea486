/* Faults of messages: each is looked at as it leaves, and its fate is drawn. */
#include "base/base.h"
#include "sim/world/world.h"
#include "sim/check/check.h"
#include "sim/cloud/cloud.h"
#include "sim/faults/faults_unreachable.h"
#include "sim/host/host.h"
#include "sim/net/net_priv.h"

/* The same request once more, much later; nobody waits for its reply. */
static void launch_again(const struct flight_to *t, int64_t us)
{
	fault_seen("launch_twice");
	net_again(t, us);
}

/* Of the few messages by which machines come and go, far more are lost than of all the others. */
static bool is_act_lost(struct flight *f)
{
	if (!(act_is_launch(f->url, f->body) || act_is_end(f->method, f->url, f->body)) ||
	    !DICE(act_lost)) {
		return false;
	}
	fault_seen("act_lost");
	f->unheard = rng_below(&world.dice, 4) != 0;
	return !f->unheard;
}

static void fate_draw(struct flight *f)
{
	int64_t us = dice_us(150, 3000);
	enum unreachable_cut far = unreachable_cut(f->from, f->url, f->port);

	if (DICE(net_slow)) {
		fault_seen("net_slow");
		us = dice_us(SPOT_US_PER_S / 2, 20 * SPOT_US_PER_S);
	}
	f->twice = DICE(net_twice);
	/* Later than that cloud takes two launches in a row. */
	if (strstr(f->url, "/instance-operations/launch") != NULL && DICE(launch_twice)) {
		launch_again(f->to, dice_us(NET_GHOST_US, 90 * SPOT_US_PER_S));
	}
	/* Long enough to be given up; the machine still goes on when it is heard again. */
	if (strstr(f->url, "/v1/agent/commit") != NULL && DICE(cut_commit)) {
		fault_seen("cut_commit");
		host_cut_for(f->from, dice_us(240, 480) * SPOT_US_PER_S);
	}
	if (DICE(net_lost) || is_act_lost(f) || far == UNREACHABLE_LOST) {
		fault_seen("net_lost");
		trace("net %s xx %s %s: lost", f->from, f->method, f->url);
		f->swallowed = true; /* the sender's deadline ends it */
		return;
	}
	if (DICE(net_reset) || far == UNREACHABLE_REFUSED) {
		fault_seen("net_reset");
		net_break_up(f, "reset");
		f->answered = false;
		return;
	}
	loop_timer_set(&f->timer, us);
}

static void message_left(const struct flight_to *t)
{
	check_sent(t->from, t->url, t->body);
	faults_api_act(t->method, t->url, t->body);
}

const struct net_fates net_fates = { .left = message_left,
	.drawn = fate_draw,
	.begins = cloud_list_begins,
	.ends = cloud_list_ends };
