/* The states of jobs, nodes, gangs, fleets, attempts and checkpoints, their transition tables, and
 * what the engine does while it doubts its clock. */
#ifndef CORE_LIFE_LIFE_H
#define CORE_LIFE_LIFE_H

#include "base/base.h"

/* States without a transition table: of gangs, fleets, attempts and checkpoints. Names are wire
 * names in the rows. */

#define GANG_STATE_LIST(X) \
	X(ACQUIRING) /* its nodes come */ \
	X(SERVING) /* its job runs on it */ \
	X(RELEASED) /* over: its nodes go */
#define FLEET_STATE_LIST(X) \
	X(ACTIVE) /* kept at its size */ \
	X(CLOSING) /* its nodes go */ \
	X(CLOSED) /* all are gone */
#define ATTEMPT_PHASE_LIST(X) \
	X(ASSIGNED) /* the agent has not reported on it */ \
	X(SETUP) /* the agent fetches files and runs the setup */ \
	X(RUNNING) \
	X(SAVING) /* runs, and saves a checkpoint */ \
	X(EXITED)
#define CHECKPOINT_STATE_LIST(X) \
	X(OPEN) /* its files are uploaded */ \
	X(COMMITTED) /* a job can go on from it */ \
	X(ABANDONED)

enum gang_state {
	GANG_STATE_NONE = 0,
#define X(n) GANG_##n,
	GANG_STATE_LIST(X)
#undef X
	    GANG_STATE_COUNT
};
enum fleet_state {
	FLEET_STATE_NONE = 0,
#define X(n) FLEET_##n,
	FLEET_STATE_LIST(X)
#undef X
	    FLEET_STATE_COUNT
};
enum attempt_phase {
	ATTEMPT_PHASE_NONE = 0,
#define X(n) ATTEMPT_##n,
	ATTEMPT_PHASE_LIST(X)
#undef X
	    ATTEMPT_PHASE_COUNT
};
enum checkpoint_state {
	CHECKPOINT_STATE_NONE = 0,
#define X(n) CHECKPOINT_##n,
	CHECKPOINT_STATE_LIST(X)
#undef X
	    CHECKPOINT_STATE_COUNT
};

/* "?" for NONE. The parsers return NONE for an unknown word. */
const char *gang_state_name(enum gang_state s);
enum gang_state gang_state_parse(const char *s);
const char *fleet_state_name(enum fleet_state s);
enum fleet_state fleet_state_parse(const char *s);
const char *attempt_phase_name(enum attempt_phase p);
enum attempt_phase attempt_phase_parse(const char *s);
const char *checkpoint_state_name(enum checkpoint_state s);
enum checkpoint_state checkpoint_state_parse(const char *s);

/*
 * The two transition tables: job and node. One cell per (state, event); a missing cell is refused
 * and counted. No side effects: effects are rows the reconciler sees. Names are wire names in the
 * rows.
 */

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
	X(BUDGET) /* its budget is used up (core/money/money.h) */ \
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

/*
 * Judges whether our wall clock can be trusted for money. After a clock step, and when a daemon
 * begins to lead, it cannot. Trust returns when a cloud's own time agrees (the Date of a reply, RFC
 * 9110 6.6.1). If no cloud answers, or one disagrees for limit_us, the daemon continues with its
 * own clock. That host's clock is simply wrong, but its durations are right.
 */

/* Clocks that differ by less agree. A reply's time has a resolution of one second, and the reply
 * itself takes up to a call's timeout. */
#define DOUBT_AGREE_US (30 * SPOT_US_PER_S)

enum doubt {
	DOUBT_NONE, /* trusted, or no cloud can say better */
	DOUBT_WAITS, /* a timestamp written now may be hours off */
	DOUBT_PROVEN, /* a cloud's time, newer than the doubt, agrees */
};

/* Judges the wall clock. Times are by the monotonic clock. The doubt arose at since_us (0 = none).
 * A cloud last sent its time at told_us (0 = never). Parameter off_us says how far that time was
 * ahead of our wall clock. Doubt lasts at most limit_us; 0 = never doubt. */
enum doubt doubt_judge(int64_t since_us, int64_t told_us, int64_t off_us, int64_t now_us,
    int64_t limit_us);

#endif
