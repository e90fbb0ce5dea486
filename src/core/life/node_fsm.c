/* The node's transition table. */
#include "base/base.h"
#include "core/life/life.h"

#define TO(s, w) \
	{ \
		.to = NODE_##s, .why = (w) \
	}

static const struct fsm_edge table[NODE_STATE_COUNT][NODE_EVENT_COUNT] = {
	[NODE_WANTED] = {
		[NODE_EV_CLAIMED] = TO(LAUNCHING, "launch call begins"),
		[NODE_EV_UNWANTED] = TO(FAILED, "no longer needed: nothing was launched"),
		[NODE_EV_REFUSED] = TO(FAILED, "cannot be launched"),
		[NODE_EV_AMBIGUOUS] = TO(UNKNOWN,
		    "not to be repeated: look up what an earlier call made"),
	},
	[NODE_LAUNCHING] = {
		[NODE_EV_LAUNCHED] = TO(BOOTING, "the provider gave an instance"),
		[NODE_EV_REFUSED] = TO(FAILED, "the provider refused: nothing exists"),
		[NODE_EV_AMBIGUOUS] = TO(UNKNOWN,
		    "the reply was lost: look it up before anything else"),
		[NODE_EV_RESEND] = TO(WANTED,
		    "the provider said not now: nothing exists, try again later"),
	},
	[NODE_UNKNOWN] = {
		[NODE_EV_FOUND] = TO(BOOTING, "found by its token"),
		[NODE_EV_LAUNCHED] = TO(BOOTING, "the late reply arrived"),
		[NODE_EV_RESEND] = TO(WANTED, "not found; the token makes a repeat harmless"),
		[NODE_EV_VOID] = TO(FAILED,
		    "not found after the provider's list lag: it never existed"),
		[NODE_EV_REFUSED] = TO(FAILED, "the late refusal arrived: nothing exists"),
	},
	[NODE_BOOTING] = {
		[NODE_EV_ENROLLED] = TO(READY, "the agent enrolled"),
		[NODE_EV_NOTICE] = TO(DRAINING, "the provider takes it while it boots"),
		[NODE_EV_BOOT_TIMEOUT] = TO(TERMINATING, "the agent did not enrol in time"),
		[NODE_EV_BROKEN] = TO(TERMINATING, "the instance is broken"),
		[NODE_EV_RELEASE] = TO(TERMINATING, "no longer needed"),
		[NODE_EV_TERMINATE] = TO(TERMINATING, "termination asked"),
		[NODE_EV_VANISHED] = TO(TERMINATING, "the provider ended it"),
	},
	[NODE_READY] = {
		[NODE_EV_NOTICE] = TO(DRAINING, "the provider will take it"),
		[NODE_EV_RELEASE] = TO(TERMINATING, "no job needs it"),
		[NODE_EV_TERMINATE] = TO(TERMINATING, "termination asked"),
		[NODE_EV_BROKEN] = TO(TERMINATING, "the node is broken"),
		[NODE_EV_VANISHED] = TO(TERMINATING, "the provider ended it"),
	},
	[NODE_DRAINING] = {
		[NODE_EV_NOTICE] = TO(DRAINING, "another notice"),
		[NODE_EV_ENROLLED] = TO(DRAINING, "the agent enrolled on a node that is going"),
		[NODE_EV_RELEASE] = TO(TERMINATING, "drained"),
		[NODE_EV_TERMINATE] = TO(TERMINATING, "termination asked"),
		[NODE_EV_BROKEN] = TO(TERMINATING, "the node is broken"),
		[NODE_EV_VANISHED] = TO(TERMINATING, "the provider took it"),
	},
	[NODE_TERMINATING] = {
		[NODE_EV_CONFIRMED] = TO(GONE, "the provider confirms that it is gone"),
	},
};

struct fsm_edge node_edge(enum node_state s, enum node_event e)
{
	if (s <= NODE_NONE || s >= NODE_STATE_COUNT || e <= NODE_EV_NONE || e >= NODE_EVENT_COUNT) {
		return (struct fsm_edge){ 0 };
	}
	return table[s][e];
}
