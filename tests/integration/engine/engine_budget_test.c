/* Budgets of jobs bind. The engine begins nothing that the budget cannot pay to its end. A job that
 * has used its budget up saves and is parked, and goes on when there is more. A machine costs a
 * dollar an hour here. To save and to end takes 190.05 s of it, to begin 300 s more and the time of
 * a start. */
#include "engine_world.h"

#define PARKED "SELECT count(*) FROM job WHERE state = 'PARKED'"
#define RUNS "SELECT count(*) FROM job WHERE state = 'RUNNING'"
/* The job's cost so far, the cost of giving its machines back, and so much more. */
#define SPENT_AND(more) \
	"UPDATE job SET budget_micros = job_spent(id, %" PRId64 \
	") + (SELECT sum(ceil(price_micros * 190.05 / 3600)) FROM job_machines(id, 0) WHERE " \
	"goes_on) + " more "; NOTIFY spot_engine"

static int64_t job_with(struct world *w, const char *extra, const char *budget)
{
	int64_t id;

	world_sql(w, "BEGIN");
	id = world_job(w, extra);
	world_sql(w, "UPDATE job SET budget_micros = %s WHERE id = %" PRId64 "; COMMIT", budget,
	    id);
	return id;
}

static void budget_job_run(struct world *w, const char *extra, const char *budget)
{
	world_reset(w, true);
	w->cloud.gangs = true;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	job_with(w, extra, budget);
	world_until(w, LIMIT, RUNS);
}

static void test_a_job_that_has_used_its_budget_up_saves_and_is_parked(void **state)
{
	struct world *w = *state;

	budget_job_run(w, "{}", "10000000");
	world_sql(w, SPENT_AND("300"), world_us()); /* a second more */
	world_until(w, LIMIT, PARKED);
	assert_int_equal(world_int(w, "SELECT count(*) FROM checkpoint WHERE state = 'COMMITTED'"),
	    1);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM event WHERE event = 'BUDGET' AND now = "
			     "'DRAINING' AND why LIKE 'its budget is used up: 0.0%%'"),
	    1);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM job WHERE reason = 'budget' AND why LIKE "
			     "'%%spotctl job budget j1%%'"),
	    1);
	world_empty(w);
	world_until(w, LIMIT,
	    "SELECT count(*) = 0 FROM node WHERE billed_to_us IS DISTINCT FROM ended_us");
	assert_int_equal(world_int(w,
			     "SELECT sum(amount_micros) <= (SELECT budget_micros FROM job) FROM "
			     "ledger"),
	    1);
	world_for(w, 300);
	assert_int_equal(w->cloud.launches, 1);
	assert_int_equal(world_int(w, PARKED), 1);
}

static void test_a_parked_job_goes_on_where_it_stopped_when_there_is_more(void **state)
{
	struct world *w = *state;

	budget_job_run(w, "{}", "10000000");
	world_sql(w, SPENT_AND("0"), world_us());
	world_until(w, LIMIT, PARKED);
	world_empty(w);
	/* Not enough for a start. */
	world_sql(w,
	    "UPDATE job SET budget_micros = job_spent(id, 0) + park_need_micros - 1000; NOTIFY "
	    "spot_engine");
	world_for(w, 300);
	assert_int_equal(world_int(w, PARKED), 1);
	world_sql(w,
	    "UPDATE job SET budget_micros = job_spent(id, 0) + park_need_micros + 300; NOTIFY "
	    "spot_engine");
	world_until_epoch(w, 2);
	assert_int_equal(world_int(w, "SELECT restore_id FROM attempt WHERE epoch = 2"),
	    world_int(w, "SELECT max(id) FROM checkpoint"));
	world_finish(w, 1);
}

static void test_a_limit_that_is_lifted_lets_a_parked_job_go_on(void **state)
{
	struct world *w = *state;

	budget_job_run(w, "{}", "10000000");
	world_sql(w, SPENT_AND("0"), world_us());
	world_until(w, LIMIT, PARKED);
	world_sql(w, "UPDATE job SET budget_micros = NULL; NOTIFY spot_engine");
	world_until_epoch(w, 2);
	world_finish(w, 1);
}

static void test_a_parked_job_can_be_cancelled(void **state)
{
	struct world *w = *state;

	budget_job_run(w, "{}", "10000000");
	world_sql(w, SPENT_AND("0"), world_us());
	world_until(w, LIMIT, PARKED);
	world_cancel(w);
	world_until_job(w, "CANCELLED");
	world_check_end(w);
}

static void test_a_budget_that_pays_no_start_launches_nothing(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	job_with(w, "{}", "150000");
	world_until(w, LIMIT, PARKED);
	world_for(w, 200);
	assert_int_equal(w->cloud.launches, 0);
	assert_int_equal(world_int(w,
			     "SELECT (inputs #>> '{job,left_micros}')::int8 FROM decision WHERE "
			     "kind = 'park' AND outcome->>'need_micros' = "
			     "(SELECT park_need_micros::text FROM job)"),
	    150000);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM job WHERE why LIKE '0.1500 of 0.1500 USD of its "
			     "budget are left; a start needs 0.20%%'"),
	    1);
}

static void test_the_only_machine_is_not_taken_if_the_budget_cannot_pay_it(void **state)
{
	struct world *w = *state;
	int64_t cheap;

	world_reset(w, true);
	cheap = world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z2", "a1", "on_demand", 9000000);
	w->conf.cool_min_us = w->conf.cool_max_us = 300000;
	cloud_sell_out(&w->cloud, "z1/a1/spot");
	world_start(w);
	job_with(w, "{}", "1000000");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job WHERE state = 'QUEUED' AND why LIKE '%%pays for no pool "
	    "with capacity%%'");
	assert_int_equal(world_int(w,
			     "SELECT (inputs->>'too_dear')::int8 FROM decision WHERE kind = 'wait' "
			     "ORDER BY id DESC LIMIT 1"),
	    1);
	cloud_sell_again(&w->cloud);
	world_until(w, LIMIT, RUNS);
	assert_int_equal(world_int(w, "SELECT pool_id FROM attempt"), cheap);
	world_finish(w, 1);
}

static void test_a_machine_on_its_way_is_given_back_when_the_budget_ends_first(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	w->agents = false; /* it boots and boots */
	world_start(w);
	job_with(w, "{}", "10000000");
	world_until_node(w, "BOOTING");
	world_sql(w, SPENT_AND("0"), world_us());
	world_until(w, LIMIT, PARKED);
	world_empty(w);
	assert_int_equal(w->cloud.launches, 1);
}

static void test_a_gang_that_has_used_its_budget_up_is_parked_as_a_whole(void **state)
{
	struct world *w = *state;

	budget_job_run(w, "{\"num_nodes\": 2}", "10000000");
	world_sql(w, SPENT_AND("300"), world_us());
	world_until(w, LIMIT, PARKED);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM checkpoint WHERE state = 'COMMITTED' AND set_us "
			     "IS NOT NULL"),
	    2);
	world_empty(w);
	assert_int_equal(world_int(w, "SELECT count(*) FROM gang WHERE state <> 'RELEASED'"), 0);
	/* One machine's start is not two machines'. */
	assert_int_equal(world_int(w,
			     "SELECT park_need_micros BETWEEN 2 * 130000 AND 2 * 250000 FROM job"),
	    1);
	world_sql(w, "UPDATE job SET budget_micros = 10000000; NOTIFY spot_engine");
	world_until_epoch(w, 2);
	world_exit_all(w);
	world_check_gangs(w);
}

/* One of two is held, and the rest pays for its end and not for the other's work: the engine buys
 * no machine. */
static void test_a_gang_seeks_no_missing_machine_that_the_budget_cannot_pay(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->conf.gang_hold_us = 20 * SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "spot", 1000000);
	cloud_room(&w->cloud, "z1/a1/spot", 1);
	world_start(w);
	job_with(w, "{\"num_nodes\": 2}", "10000000");
	world_until(w, LIMIT,
	    "SELECT count(*) > 0 FROM node n JOIN node o ON o.gang_id = n.gang_id WHERE n.state = "
	    "'READY' AND o.state = 'FAILED'");
	world_sql(w, SPENT_AND("100000"), world_us());
	cloud_room(&w->cloud, "z1/a1/spot", 2);
	world_until(w, LIMIT, PARKED);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM gang WHERE state = 'RELEASED' AND why LIKE "
			     "'%%budget, of which 0.%% are left, does not pay for another "
			     "machine'"),
	    1);
	assert_int_equal(world_int(w, "SELECT count(*) FROM gang_cool"), 0);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE ref IS NOT NULL"), 1);
	world_empty(w);
}

static void test_a_move_that_the_budget_does_not_pay_seeks_no_machine(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z2", "a1", "on_demand", 4000000);
	cloud_sell_out(&w->cloud, "z1/a1/spot");
	w->conf.cool_min_us = w->conf.cool_max_us = 100000;
	world_start(w);
	job_with(w, "{}", "10000000");
	world_until(w, LIMIT, RUNS);
	/* The rest pays for some minutes here, and not for a second machine beside it. */
	world_sql(w, SPENT_AND("100000"), world_us());
	cloud_sell_again(&w->cloud);
	world_for(w, 800);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node WHERE replaces_id IS NOT NULL AND "
			     "created_us > (SELECT max(state_us) FROM job)"
			     " AND state NOT IN ('FAILED')"),
	    0);
	world_sql(w, "UPDATE job SET budget_micros = 10000000; NOTIFY spot_engine");
	world_until_epoch(w, 2);
	world_finish(w, 1);
}

static void fleet_with_a_machine(struct world *w)
{
	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_fleet(w, 1);
	world_until_node(w, "READY");
	world_sql(w, "BEGIN");
}

static void test_a_machine_of_a_fleet_costs_a_budget_while_the_job_is_there(void **state)
{
	struct world *w = *state;

	fleet_with_a_machine(w);
	(void)world_job(w, "{}");
	world_sql(w, "UPDATE job SET fleet_id = 1, budget_micros = 1000000; COMMIT");
	world_until(w, LIMIT, RUNS);
	world_sql(w, SPENT_AND("300"), world_us());
	world_until(w, LIMIT, PARKED);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node n WHERE state = 'READY' AND billed_to_us > (SELECT state_us "
	    "+ 200000 FROM job)");
	assert_int_equal(
	    world_int(w, "SELECT count(*) FROM ledger WHERE kind = 'idle' AND job_id IS NOT NULL"),
	    0);
	assert_int_equal(world_int(w,
			     "SELECT sum(amount_micros) <= (SELECT budget_micros FROM job) FROM "
			     "ledger WHERE job_id = 1"),
	    1);
	assert_int_equal(world_int(w, "SELECT count(*) FROM attempt"), 1);
	world_sql(w, "UPDATE job SET budget_micros = NULL; NOTIFY spot_engine");
	world_until_epoch(w, 2);
	world_sql(w, "UPDATE fleet SET state = 'CLOSING'");
	world_finish(w, 1);
}

static void test_a_fleet_machine_that_a_budget_cannot_pay_is_not_used(void **state)
{
	struct world *w = *state;

	fleet_with_a_machine(w);
	(void)world_job(w, "{}");
	world_sql(w, "UPDATE job SET fleet_id = 1, budget_micros = 100000; COMMIT");
	world_until(w, LIMIT, PARKED);
	assert_int_equal(world_int(w, "SELECT count(*) FROM attempt"), 0);
}

#define T(f) cmocka_unit_test(f)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(test_a_job_that_has_used_its_budget_up_saves_and_is_parked),
		T(test_a_parked_job_goes_on_where_it_stopped_when_there_is_more),
		T(test_a_limit_that_is_lifted_lets_a_parked_job_go_on),
		T(test_a_parked_job_can_be_cancelled),
		T(test_a_budget_that_pays_no_start_launches_nothing),
		T(test_the_only_machine_is_not_taken_if_the_budget_cannot_pay_it),
		T(test_a_machine_on_its_way_is_given_back_when_the_budget_ends_first),
		T(test_a_gang_that_has_used_its_budget_up_is_parked_as_a_whole),
		T(test_a_gang_seeks_no_missing_machine_that_the_budget_cannot_pay),
		T(test_a_move_that_the_budget_does_not_pay_seeks_no_machine),
		T(test_a_machine_of_a_fleet_costs_a_budget_while_the_job_is_there),
		T(test_a_fleet_machine_that_a_budget_cannot_pay_is_not_used),
	};

	return WORLD_TESTS(argc, argv, tests);
}
