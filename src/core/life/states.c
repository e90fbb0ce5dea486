/* Names of states without a transition table. */
#include "base/base.h"
#include "core/life/life.h"

#define X(n) #n,
static const char *const gang_states[GANG_STATE_COUNT] = { "?", GANG_STATE_LIST(X) };
static const char *const fleet_states[FLEET_STATE_COUNT] = { "?", FLEET_STATE_LIST(X) };
static const char *const attempt_phases[ATTEMPT_PHASE_COUNT] = { "?", ATTEMPT_PHASE_LIST(X) };
static const char *const checkpoint_states[CHECKPOINT_STATE_COUNT] = { "?",
	CHECKPOINT_STATE_LIST(X) };
#undef X

static const char *name_at(const char *const *names, int count, int i)
{
	return names[i > 0 && i < count ? i : 0];
}

static int name_find(const char *const *names, int count, const char *s)
{
	for (int i = 1; s != NULL && i < count; i++) {
		if (strcmp(names[i], s) == 0) {
			return i;
		}
	}
	return 0;
}

const char *gang_state_name(enum gang_state s)
{
	return name_at(gang_states, GANG_STATE_COUNT, (int)s);
}

enum gang_state gang_state_parse(const char *s)
{
	return (enum gang_state)name_find(gang_states, GANG_STATE_COUNT, s);
}

const char *fleet_state_name(enum fleet_state s)
{
	return name_at(fleet_states, FLEET_STATE_COUNT, (int)s);
}

enum fleet_state fleet_state_parse(const char *s)
{
	return (enum fleet_state)name_find(fleet_states, FLEET_STATE_COUNT, s);
}

const char *attempt_phase_name(enum attempt_phase p)
{
	return name_at(attempt_phases, ATTEMPT_PHASE_COUNT, (int)p);
}

enum attempt_phase attempt_phase_parse(const char *s)
{
	return (enum attempt_phase)name_find(attempt_phases, ATTEMPT_PHASE_COUNT, s);
}

const char *checkpoint_state_name(enum checkpoint_state s)
{
	return name_at(checkpoint_states, CHECKPOINT_STATE_COUNT, (int)s);
}

enum checkpoint_state checkpoint_state_parse(const char *s)
{
	return (enum checkpoint_state)name_find(checkpoint_states, CHECKPOINT_STATE_COUNT, s);
}
