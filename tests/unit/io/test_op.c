/* The asynchronous contract: once, never inside start, always a deadline, can be stopped. */
#include "base/base.h"
#include "unit.h"

#include "base/text/text.h"
#include "io/loop/loop.h"

static struct loop *loop;
static struct clock_manual clk;
static struct rng rng;

struct work {
	struct op op;
	int done, aborted;
};

static int setup(void **state)
{
	(void)state;
	clock_manual_init(&clk, 1000000);
	rng_seeded_init(&rng, 1);
	loop = loop_new(&clk.clock, &rng);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	loop_free(loop);
	return 0;
}

static void work_done(struct op *op)
{
	container_of(op, struct work, op)->done++;
}

static void work_abort(struct op *op)
{
	container_of(op, struct work, op)->aborted++;
}

static void work_start(struct work *k)
{
	op_init(&k->op, loop, work_done);
	op_begin(&k->op, "test work", 5 * SPOT_US_PER_S, SPOT_TIMEOUT, work_abort);
}

static void loop_turns(int n)
{
	for (int i = 0; i < n; i++) {
		loop_turn(loop, 0);
	}
}

static void a_result_known_at_once_is_delivered_in_a_turn_and_only_once(void **state)
{
	struct work k = { 0 };

	(void)state;
	work_start(&k);
	assert_true(op_busy(&k.op));
	op_finish(&k.op, SPOT_OK, NULL);
	assert_int_equal(k.done, 0);
	assert_true(op_busy(&k.op));
	loop_turns(3);
	assert_int_equal(k.done, 1);
	assert_false(op_busy(&k.op));
	clock_manual_advance(&clk, 60 * SPOT_US_PER_S);
	loop_turns(3);
	assert_int_equal(k.done, 1);
	assert_int_equal(k.aborted, 0);
}

static void a_failure_carries_its_words(void **state)
{
	struct work k = { 0 };
	struct spot_err err = { 0 };

	(void)state;
	work_start(&k);
	err_set(&err, SPOT_QUOTA, "too many");
	snprintf(err.code, sizeof(err.code), "VcpuLimitExceeded");
	op_finish(&k.op, SPOT_QUOTA, &err);
	loop_turns(1);
	assert_int_equal(k.op.rc, SPOT_QUOTA);
	assert_string_equal(k.op.err.text, "too many");
	assert_string_equal(k.op.err.code, "VcpuLimitExceeded");
}

static void the_deadline_aborts_the_doer_and_gives_its_own_code(void **state)
{
	struct work k = { 0 };

	(void)state;
	work_start(&k);
	clock_manual_advance(&clk, 5 * SPOT_US_PER_S - 1);
	loop_turns(2);
	assert_int_equal(k.done, 0);
	clock_manual_advance(&clk, 1);
	loop_turns(2);
	assert_int_equal(k.done, 1);
	assert_int_equal(k.aborted, 1);
	assert_int_equal(k.op.rc, SPOT_TIMEOUT);
	assert_string_equal(k.op.err.text, "test work: no answer within 5s");
}

static void stopping_works_any_number_of_times_and_at_any_time(void **state)
{
	struct work k = { 0 };

	(void)state;
	op_init(&k.op, loop, work_done);
	op_stop(&k.op); /* not started: nothing */
	work_start(&k);
	op_stop(&k.op);
	op_stop(&k.op);
	assert_int_equal(k.done, 0);
	loop_turns(2);
	op_stop(&k.op);
	loop_turns(2);
	assert_int_equal(k.done, 1);
	assert_int_equal(k.aborted, 1);
	assert_int_equal(k.op.rc, SPOT_CANCELLED);
	/* A result that is in already stands. */
	work_start(&k);
	op_finish(&k.op, SPOT_OK, NULL);
	op_stop(&k.op);
	loop_turns(2);
	assert_int_equal(k.done, 2);
	assert_int_equal(k.op.rc, SPOT_OK);
}

static void a_destroyed_owner_hears_nothing(void **state)
{
	struct work busy = { 0 }, completing = { 0 }, never = { 0 };

	(void)state;
	work_start(&busy);
	op_fini(&busy.op);
	assert_int_equal(busy.aborted, 1);
	work_start(&completing);
	op_finish(&completing.op, SPOT_OK, NULL);
	op_fini(&completing.op);
	assert_int_equal(completing.aborted, 0);
	op_fini(&never.op);
	clock_manual_advance(&clk, 60 * SPOT_US_PER_S);
	loop_turns(3);
	assert_int_equal(busy.done + completing.done + never.done, 0);
}

static int restarts;

static void restart_done(struct op *op)
{
	if (++restarts == 5) {
		return;
	}
	op_begin(op, "again", SPOT_US_PER_S, SPOT_TIMEOUT, work_abort);
	op_finish(op, SPOT_OK, NULL);
}

static void done_may_restart_the_same_op_and_each_round_takes_a_turn(void **state)
{
	struct work k = { 0 };

	(void)state;
	restarts = 0;
	op_init(&k.op, loop, restart_done);
	op_begin(&k.op, "again", SPOT_US_PER_S, SPOT_TIMEOUT, work_abort);
	uint64_t first = k.op.id;
	op_finish(&k.op, SPOT_OK, NULL);
	for (int i = 1; i <= 5; i++) {
		loop_turns(1);
		assert_int_equal(restarts, i);
	}
	assert_true(k.op.id > first);
}

static void free_done(struct op *op)
{
	free(container_of(op, struct work, op));
	restarts++;
}

static void done_may_free_its_owner(void **state)
{
	struct work *k = calloc(1, sizeof(*k));

	(void)state;
	restarts = 0;
	op_init(&k->op, loop, free_done);
	op_begin(&k->op, "x", SPOT_US_PER_S, SPOT_UNKNOWN, work_abort);
	clock_manual_advance(&clk, SPOT_US_PER_S);
	loop_turns(3);
	assert_int_equal(restarts, 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_result_known_at_once_is_delivered_in_a_turn_and_only_once),
		T(a_failure_carries_its_words),
		T(the_deadline_aborts_the_doer_and_gives_its_own_code),
		T(stopping_works_any_number_of_times_and_at_any_time),
		T(a_destroyed_owner_hears_nothing),
		T(done_may_restart_the_same_op_and_each_round_takes_a_turn),
		T(done_may_free_its_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
