/* The names of gangs', fleets', attempts' and checkpoints' states are those of the rows. */
#include "base/base.h"
#include "core/life/life.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void names_go_there_and_back(void **state UNUSED)
{
	for (int s = 1; s < (int)GANG_STATE_COUNT; s++) {
		assert_int_equal(gang_state_parse(gang_state_name((enum gang_state)s)), s);
	}
	for (int s = 1; s < (int)FLEET_STATE_COUNT; s++) {
		assert_int_equal(fleet_state_parse(fleet_state_name((enum fleet_state)s)), s);
	}
	for (int p = 1; p < (int)ATTEMPT_PHASE_COUNT; p++) {
		assert_int_equal(attempt_phase_parse(attempt_phase_name((enum attempt_phase)p)), p);
	}
	for (int s = 1; s < (int)CHECKPOINT_STATE_COUNT; s++) {
		assert_int_equal(checkpoint_state_parse(
				     checkpoint_state_name((enum checkpoint_state)s)),
		    s);
	}
	assert_string_equal(gang_state_name(GANG_ACQUIRING), "ACQUIRING");
	assert_string_equal(fleet_state_name(FLEET_CLOSING), "CLOSING");
	assert_string_equal(attempt_phase_name(ATTEMPT_SAVING), "SAVING");
	assert_string_equal(checkpoint_state_name(CHECKPOINT_OPEN), "OPEN");
}

static void other_words_and_numbers_are_no_state(void **state UNUSED)
{
	assert_int_equal(gang_state_parse("ACTIVE"), GANG_STATE_NONE);
	assert_int_equal(fleet_state_parse(NULL), FLEET_STATE_NONE);
	assert_int_equal(attempt_phase_parse("?"), ATTEMPT_PHASE_NONE);
	assert_string_equal(gang_state_name(GANG_STATE_NONE), "?");
	assert_string_equal(fleet_state_name(FLEET_STATE_COUNT), "?");
	assert_string_equal(attempt_phase_name((enum attempt_phase)99), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_go_there_and_back),
		cmocka_unit_test(other_words_and_numbers_are_no_state),
	};

	return cmocka_run_group_tests_name("states", tests, NULL, NULL);
}
