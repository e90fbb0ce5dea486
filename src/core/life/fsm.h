/*
 * The two transition tables: job and node. One cell per (state, event); a missing cell is refused
 * and counted. No side effects: effects are rows the reconciler sees. Names are wire names in the
 * rows.
 */
#ifndef CORE_FSM_H
#define CORE_FSM_H

#include "base/base.h"

#define JOB_STATE_LIST(X) \
	X(QUEUED) \
	X(STARTING) \
	X(RUNNING) \
	X(DRAINING) \
	X(PARKED) \
	X(CANCELLING) \
	X(SUCCEEDED) \
	X(FAILED) \
	X(CANCELLED)
#define JOB_EVENT_LIST(X) \
	X(PLACED) /* an attempt was bound to a ready node */ \
	X(STARTED) /* the agent runs it */ \
	X(NOTICE) /* the provider will reclaim the node */ \
	X(MOVE) /* the engine moves or parks it: checkpoint, then elsewhere */ \
	X(STOPPED) /* attempt ended by drain: re-place from its newest checkpoint */ \
	X(NODE_LOST) /* evidence agrees that the node is gone */ \
	X(EXITED_OK) \
	X(EXITED_BAD) \
	X(RETRY) /* bad exit with restarts left */ \
	X(CANCEL) /* a person asked */ \
	X(KILLED) /* the attempt of a cancelled job is over */ \
	X(INFEASIBLE) /* no pool can ever satisfy it */ \
	X(OVERTIME) /* max_duration passed */ \
	X(BUDGET) /* its budget is used up (core/money/budget.h) */ \
	X(FUNDED) /* its budget again covers a start */ \
	X(RANK_ENDED) /* one rank of several failed or is lost: the others stop */
#define NODE_STATE_LIST(X) \
	X(WANTED) /* intent: token and price stored, nothing sent */ \
	X(LAUNCHING) /* claimed: the launch call may be on its way */ \
	X(UNKNOWN) /* may exist: look it up by token */ \
	X(BOOTING) /* the provider gave a ref */ \
	X(READY) /* the agent enrolled */ \
	X(DRAINING) /* will end: notice, move or release */ \
	X(TERMINATING) /* terminate sent, not yet confirmed */ \
	X(GONE) /* confirmed gone at the provider */ \
	X(FAILED) /* never existed: refused or void */
#define NODE_EVENT_LIST(X) \
	X(CLAIMED) \
	X(LAUNCHED) \
	X(REFUSED) \
	X(AMBIGUOUS) \
	X(FOUND) \
	X(VOID) \
	X(ENROLLED) \
	X(NOTICE) \
	X(RELEASE) \
	X(BOOT_TIMEOUT) \
	X(BROKEN) \
	X(TERMINATE) \
	X(VANISHED) \
	X(CONFIRMED) \
	X(UNWANTED) \
	X(RESEND)

enum job_state {
	JOB_NONE = 0,
#define X(n) JOB_##n,
	JOB_STATE_LIST(X)
#undef X
	    JOB_STATE_COUNT
};
enum job_event {
	JOB_EV_NONE = 0,
#define X(n) JOB_EV_##n,
	JOB_EVENT_LIST(X)
#undef X
	    JOB_EVENT_COUNT
};
enum node_state {
	NODE_NONE = 0,
#define X(n) NODE_##n,
	NODE_STATE_LIST(X)
#undef X
	    NODE_STATE_COUNT
};
enum node_event {
	NODE_EV_NONE = 0,
#define X(n) NODE_EV_##n,
	NODE_EVENT_LIST(X)
#undef X
	    NODE_EVENT_COUNT
};

struct fsm_edge {
	int to;
	const char *why;
}; /* to == 0: refused */
struct fsm_edge job_edge(enum job_state s, enum job_event e);
struct fsm_edge node_edge(enum node_state s, enum node_event e);
const char *job_state_name(enum job_state s);
const char *job_event_name(enum job_event e);
const char *node_state_name(enum node_state s);
const char *node_event_name(enum node_event e);
enum job_state job_state_parse(const char *s);
enum node_state node_state_parse(const char *s);
enum node_event node_event_parse(const char *s);
bool job_state_final(enum job_state s);
struct sbuf;
void fsm_mermaid(bool node, struct sbuf *out);

#endif
