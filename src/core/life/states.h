/* States without a transition table: of gangs, fleets, attempts and checkpoints. Names are wire
 * names in the rows. */
#ifndef CORE_STATES_H
#define CORE_STATES_H

#include "base/base.h"

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

#endif
