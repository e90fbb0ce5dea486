/* The job's transition table. */
#include "base/base.h"
#include "core/life/life.h"

#define TO(s, w) \
	{ \
		.to = JOB_##s, .why = (w) \
	}

static const struct fsm_edge table[JOB_STATE_COUNT][JOB_EVENT_COUNT] = {
	[JOB_QUEUED] = {
		[JOB_EV_PLACED] = TO(STARTING, "bound to a ready node"),
		[JOB_EV_CANCEL] = TO(CANCELLED, "cancelled while it waited: nothing ran"),
		[JOB_EV_INFEASIBLE] = TO(FAILED, "no pool can ever satisfy the request"),
		[JOB_EV_OVERTIME] = TO(FAILED, "max_duration is over"),
		[JOB_EV_BUDGET] = TO(PARKED, "its budget is used up: it waits for more"),
	},
	[JOB_STARTING] = {
		[JOB_EV_STARTED] = TO(RUNNING, "the agent runs it"),
		[JOB_EV_NOTICE] = TO(DRAINING, "the provider takes the node before the job ran"),
		[JOB_EV_MOVE] = TO(DRAINING, "moved before it ran"),
		[JOB_EV_STOPPED] = TO(QUEUED, "stopped before it ran: place it again"),
		[JOB_EV_NODE_LOST] = TO(QUEUED, "node lost before the job ran"),
		[JOB_EV_EXITED_OK] = TO(SUCCEEDED, "finished"),
		[JOB_EV_EXITED_BAD] = TO(FAILED, "failed"),
		[JOB_EV_RETRY] = TO(QUEUED, "failed; restarts are left"),
		[JOB_EV_CANCEL] = TO(CANCELLING, "cancelled: the agent is told to stop it"),
		[JOB_EV_OVERTIME] = TO(DRAINING, "max_duration is over: checkpoint, then stop"),
		[JOB_EV_BUDGET] = TO(DRAINING, "its budget is used up: checkpoint, then park"),
		[JOB_EV_RANK_ENDED] = TO(DRAINING, "a rank ended: the others are stopped"),
	},
	[JOB_RUNNING] = {
		[JOB_EV_NOTICE] = TO(DRAINING,
		    "the provider takes the node: checkpoint, replacement sought"),
		[JOB_EV_MOVE] = TO(DRAINING, "a planned move: checkpoint, then elsewhere"),
		[JOB_EV_STOPPED] = TO(QUEUED, "stopped after its checkpoint: place it again"),
		[JOB_EV_NODE_LOST] = TO(QUEUED,
		    "node lost: place it again from its newest checkpoint"),
		[JOB_EV_EXITED_OK] = TO(SUCCEEDED, "finished"),
		[JOB_EV_EXITED_BAD] = TO(FAILED, "failed"),
		[JOB_EV_RETRY] = TO(QUEUED, "failed; restarts are left"),
		[JOB_EV_CANCEL] = TO(CANCELLING, "cancelled: the agent is told to stop it"),
		[JOB_EV_OVERTIME] = TO(DRAINING, "max_duration is over: checkpoint, then stop"),
		[JOB_EV_BUDGET] = TO(DRAINING, "its budget is used up: checkpoint, then park"),
		[JOB_EV_RANK_ENDED] = TO(DRAINING, "a rank ended: the others are stopped"),
	},
	[JOB_DRAINING] = {
		[JOB_EV_NOTICE] = TO(DRAINING, "another notice for the same node"),
		[JOB_EV_STOPPED] = TO(QUEUED, "checkpoint is safe: place it again"),
		[JOB_EV_NODE_LOST] = TO(QUEUED,
		    "node lost while it saved: newest committed checkpoint counts"),
		[JOB_EV_EXITED_OK] = TO(SUCCEEDED, "finished before the node went"),
		[JOB_EV_EXITED_BAD] = TO(FAILED, "failed"),
		[JOB_EV_RETRY] = TO(QUEUED, "failed; restarts are left"),
		[JOB_EV_CANCEL] = TO(CANCELLING, "cancelled: the agent is told to stop it"),
	},
	[JOB_PARKED] = {
		[JOB_EV_FUNDED] = TO(QUEUED,
		    "its budget pays for a start again: place it from its newest checkpoint"),
		[JOB_EV_CANCEL] = TO(CANCELLED, "cancelled while it was parked: nothing ran"),
	},
	[JOB_CANCELLING] = {
		[JOB_EV_KILLED] = TO(CANCELLED, "stopped by request"),
		[JOB_EV_STOPPED] = TO(CANCELLED, "stopped by request"),
		[JOB_EV_NODE_LOST] = TO(CANCELLED, "node lost while it was being cancelled"),
		[JOB_EV_EXITED_OK] = TO(SUCCEEDED, "finished before the cancellation reached it"),
		[JOB_EV_EXITED_BAD] = TO(CANCELLED, "stopped by request"),
		[JOB_EV_RETRY] = TO(CANCELLED, "stopped by request"),
	},
};

struct fsm_edge job_edge(enum job_state s, enum job_event e)
{
	if (s <= JOB_NONE || s >= JOB_STATE_COUNT || e <= JOB_EV_NONE || e >= JOB_EVENT_COUNT) {
		return (struct fsm_edge){ 0 };
	}
	return table[s][e];
}

bool job_state_final(enum job_state s)
{
	return s == JOB_SUCCEEDED || s == JOB_FAILED || s == JOB_CANCELLED;
}
