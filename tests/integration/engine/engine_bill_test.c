/* The cost of machines: every line by the price in force. Time that the provider does not bill is
 * credited. */
#include "engine_world.h"

static void test_the_ledger_sums_to_interval_times_price_across_a_price_change(void **state)
{
	struct world *w = *state;
	int pool;
	int64_t now;

	world_reset(w, true);
	pool = world_pool(w, "z1", "a1", "spot",
	    3600000000); /* a micro-dollar per microsecond, near enough */
	now = world_us();
	world_sql(w,
	    "CREATE TABLE pp PARTITION OF price_point FOR VALUES FROM (0) TO (9000000000000000);"
	    "INSERT INTO price_point VALUES (%d, %" PRId64 ", %" PRId64 ", 3600000000, 'test')",
	    pool, now - 5000000, now - 5000000);
	world_run_job(w, "{}");
	now = world_us();
	world_sql(w,
	    "INSERT INTO price_point VALUES (%d, %" PRId64 ", %" PRId64 ", 7200000000, 'test')",
	    pool, now + 150000, now + 150000);
	world_for(w, 500);
	world_finish(w, 1);
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE billed_to_us = ended_us");
	assert_int_equal(world_int(w,
			     "SELECT (sum(to_us - from_us) = (SELECT ended_us - "
			     "launched_us FROM node))::int FROM ledger"),
	    1);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM (SELECT from_us, lag(to_us) OVER "
			     "(ORDER BY from_us) AS was FROM ledger) x"
			     " WHERE was IS NOT NULL AND was <> from_us"),
	    0);
	assert_int_equal(world_int(w, "SELECT count(DISTINCT price_micros) FROM ledger"), 2);
	/* 1000 micro-dollars per millisecond before the change and 2000 after: exact up to the
	 * floor of a line. */
	assert_int_equal(world_int(w,
			     "SELECT (abs(sum(amount_micros) - sum((to_us - from_us) * "
			     "(price_micros / "
			     "3600000000))) <= count(*))::int FROM ledger"),
	    1);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM ledger WHERE kind = 'compute' AND "
			     "job_id = 1 AND team = 'ml'") > 0,
	    1);
}

static void test_every_ledger_line_has_the_price_that_was_in_force(void **state)
{
	struct world *w = *state;
	int64_t now = world_us();
	int pool;

	world_reset(w, true);
	pool = world_pool(w, "z1", "a1", "spot", 3600000000);
	world_sql(w,
	    "CREATE TABLE pp PARTITION OF price_point FOR VALUES FROM (0) TO (9000000000000000);"
	    "INSERT INTO price_point VALUES (%d, %" PRId64 ", %" PRId64 ", 3600000000, 'test')",
	    pool, now - 5000000, now - 5000000);
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE billed_to_us IS NOT NULL AND state = 'READY'");
	/* Two changes while nobody bills: one interval holds them both. */
	world_kill(w);
	now = world_us();
	world_sql(w,
	    "INSERT INTO price_point VALUES (%d, %" PRId64 ", %" PRId64 ", 7200000000, 'test'),"
	    " (%d, %" PRId64 ", %" PRId64 ", 1800000000, 'test')",
	    pool, now + 10000, now + 10000, pool, now + 20000, now + 20000);
	world_start(w);
	world_until_job(w, "RUNNING");
	world_finish(w, 1);
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE billed_to_us = ended_us");
	assert_int_equal(world_int(w, "SELECT count(DISTINCT price_micros) FROM ledger"), 3);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM ledger l WHERE price_micros <> (SELECT "
			     "p.price_micros FROM price_point p"
			     " WHERE p.pool_id = l.pool_id AND p.effective_us <= l.from_us ORDER "
			     "BY p.effective_us DESC LIMIT 1)"),
	    0);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM ledger l JOIN price_point p ON p.pool_id = "
			     "l.pool_id"
			     " AND p.effective_us > l.from_us AND p.effective_us < l.to_us"),
	    0);
	assert_int_equal(world_int(w,
			     "SELECT (sum(to_us - from_us) = (SELECT ended_us - launched_us FROM "
			     "node))::int FROM ledger"),
	    1);
}

/* Only changes are kept: the last one may be older than prices are kept for. */
static void test_a_machine_is_billed_at_a_price_whose_day_was_dropped(void **state)
{
	struct world *w = *state;
	int64_t now = world_us(), day = 86400 * SPOT_US_PER_S;
	char more[200];
	int pool;

	world_reset(w, true);
	pool = world_pool(w, "z1", "a1", "spot", 3600000000);
	world_sql(w,
	    "SELECT price_partitions_ensure(%" PRId64 ", %" PRId64 ");"
	    "INSERT INTO price_point VALUES (%d, %" PRId64 ", %" PRId64 ", 3600000000, 'test')",
	    now - day, now + 3 * day, pool, now - 5000000, now - 5000000);
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE billed_to_us IS NOT NULL AND state = 'READY'");
	world_kill(w);
	now = world_us();
	world_sql(w,
	    "INSERT INTO price_point VALUES (%d, %" PRId64 ", %" PRId64 ", 7200000000, 'test')",
	    pool, now, now);
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM ledger WHERE price_micros = 7200000000");
	assert_int_not_equal(world_int(w,
				 "SELECT price_partitions_drop((extract(epoch FROM now())::int8 + "
				 "2 * 86400) * 1000000)"),
	    0);
	(void)snprintf(more, sizeof(more), "SELECT count(*) FROM ledger WHERE id > %" PRId64,
	    world_int(w, "SELECT max(id) FROM ledger"));
	world_until(w, LIMIT, more);
	world_finish(w, 1);
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE billed_to_us = ended_us");
	(void)snprintf(more + strlen(more), sizeof(more) - strlen(more),
	    " AND (price_micros <> 7200000000 OR price_observed_us = 0)");
	assert_int_equal(world_int(w, more), 0);
}

/* More lines than are read of one attempt: all that was computed since it began is lost, but for
 * half a second. */
static void test_weeks_of_work_that_were_lost_are_booked_to_the_last_line(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 3600000000);
	world_pool(w, "z2", "a1", "spot", 3700000000);
	world_run_job(w, "{}");
	world_kill(w);
	world_sql(w,
	    "INSERT INTO ledger (at_us, kind, node_id, pool_id, market, job_id, epoch, from_us, "
	    "to_us, price_micros, price_observed_us, amount_micros) "
	    "SELECT 1, 'compute', 1, 1, 'spot', 1, 1, launched_us - i * 1000000::int8, launched_us "
	    "- (i - 1) * 1000000::int8, price_micros, 0, 1000000 "
	    "FROM node, generate_series(2500, 1, -1) i; "
	    "UPDATE attempt SET created_us = n.launched_us - 2500000000, started_us = "
	    "n.launched_us - 2499500000 FROM node n; "
	    "UPDATE node SET launched_us = launched_us - 2500000000, billed_to_us = "
	    "coalesce(billed_to_us, launched_us)");
	cloud_reclaim(&w->cloud, 0);
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM ledger WHERE kind = 'lost_work'");
#define STANDS \
	" FROM ledger l WHERE node_id = 1 AND reverses IS NULL AND NOT EXISTS (SELECT FROM " \
	"ledger r WHERE r.reverses = l.id)"
	assert_int_equal(world_int(w, "SELECT sum(to_us - from_us)" STANDS " AND kind = 'compute'"),
	    500000);
	/* Lines from before our changes may have a boot in them, or the wait for its job. */
	assert_int_equal(world_int(w,
			     "SELECT sum(to_us - from_us) = (SELECT least(a.ended_us, n.ended_us) "
			     "- a.started_us FROM attempt a JOIN node n ON n.id = a.node_id"
			     " WHERE n.id = 1) - coalesce((SELECT sum(to_us - from_us)" STANDS
			     " AND kind IN ('boot', 'idle')"
			     " AND from_us < (SELECT ended_us FROM attempt WHERE node_id = 1)), "
			     "0)" STANDS " AND kind = 'lost_work'"),
	    1);
	assert_int_equal(world_int(w,
			     "SELECT sum(amount_micros) = (SELECT sum(to_us - from_us)" STANDS
			     ") FROM ledger WHERE node_id = 1"),
	    1);
	assert_int_equal(world_int(w,
			     "SELECT count(*) - count(DISTINCT reverses) FROM ledger WHERE "
			     "reverses IS NOT NULL"),
	    0);
	assert_int_equal(world_int(w,
			     "SELECT micros = (SELECT sum(amount_micros) FROM ledger WHERE job_id "
			     "= 1) FROM job_cost"),
	    1);
	world_until_epoch(w, 2);
	world_finish(w, 1);
}

/* ---- time that the provider does not bill ---------------------------------------------------- */

/* A machine of 3,600 dollars an hour runs and is taken, or ended by the user; its job goes on
 * elsewhere and ends. */
static void machine_end(struct world *w, int64_t free_us, enum spot_end_cause cause)
{
	world_reset(w, true);
	w->cloud.reclaim_free_us = free_us;
	world_pool(w, "z1", "a1", "spot", 3600000000);
	world_pool(w, "z2", "a1", "spot", 3700000000);
	world_run_job(w, "{}");
	world_for(w, 200);
	w->cloud.list[0].state = SPOT_INSTANCE_GONE;
	w->cloud.list[0].cause = cause;
	world_until_epoch(w, 2);
	world_finish(w, 1);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node n WHERE id = 1 AND state = 'GONE' AND billed_to_us = "
	    "ended_us"
	    " AND EXISTS (SELECT FROM ledger l WHERE l.node_id = n.id)");
}

static void test_a_spot_machine_that_was_taken_early_costs_nothing_to_the_micro_dollar(void **state)
{
	struct world *w = *state;

	machine_end(w, SPOT_US_PER_HOUR, SPOT_END_RECLAIM);
	world_until(w, LIMIT, "SELECT count(*) FROM ledger WHERE kind = 'credit'");
	assert_int_equal(world_int(w, "SELECT sum(amount_micros) FROM ledger WHERE node_id = 1"),
	    0);
	assert_true(
	    world_int(w, "SELECT -sum(amount_micros) FROM ledger WHERE kind = 'credit'") > 100000);
	/* Each takes back one line that stood, its lost work too, and nothing of another
	 * machine. */
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM ledger c JOIN ledger l ON l.id = c.reverses "
			     "WHERE c.kind = 'credit'"
			     " AND (c.amount_micros <> -l.amount_micros OR l.reverses IS NOT NULL "
			     "OR c.node_id <> 1)"),
	    0);
	assert_true(world_int(w,
			"SELECT count(*) FROM ledger c JOIN ledger l ON l.id = c.reverses"
			" WHERE c.kind = 'credit' AND l.kind = 'lost_work'") > 0);
	assert_int_equal(world_int(w,
			     "SELECT max(n) FROM (SELECT count(*) AS n FROM ledger WHERE reverses "
			     "IS NOT NULL GROUP BY reverses) x"),
	    1);
	world_until(w, LIMIT, "SELECT sum(amount_micros) > 0 FROM ledger WHERE node_id <> 1");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM event WHERE node_id = 1 AND event = 'CREDITED'"),
	    1);
	/* And once. */
	world_for(w, 400);
	assert_int_equal(world_int(w, "SELECT sum(amount_micros) FROM ledger WHERE node_id = 1"),
	    0);
}

/* Azure reads a machine by itself. Without it the machine is over and its bill ends, though it is
 * younger than the lag of lists. */
static void test_a_machine_that_an_exact_read_lacks_is_billed_no_longer(void **state)
{
	struct world *w = *state;
	int64_t gone_us;

	world_reset(w, true);
	w->cloud.exact = true;
	w->cloud.leaves = true;
	w->conf.list_lag_us = SPOT_US_PER_HOUR;
	world_pool(w, "z1", "a1", "spot", 3600000000);
	world_pool(w, "z2", "a1", "spot", 3700000000);
	world_run_job(w, "{}");
	cloud_reclaim(&w->cloud, 0);
	gone_us = world_us();
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE id = 1 AND state = 'GONE' AND billed_to_us = "
	    "ended_us");
	/* The terminate took what it left behind. */
	assert_true(w->cloud.list[0].terminates > 0);
	assert_true(world_int(w, "SELECT ended_us FROM node WHERE id = 1") - gone_us < 60000000);
	world_until_epoch(w, 2);
	world_finish(w, 1);
}

static void test_a_machine_that_was_taken_before_we_ended_it_costs_nothing_either(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->cloud.reclaim_free_us = SPOT_US_PER_HOUR;
	w->conf.watch_us = 30 * SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "spot", 3600000000);
	world_run_job(w, "{}");
	/* Nobody looks for a while, half of the wait: the job ends, and the terminate finds the
	 * machine gone. */
	cloud_reclaim(&w->cloud, 0);
	world_finish(w, 1);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE state = 'GONE' AND end_cause <> 'reclaimed'");
	world_until(w, LIMIT, "SELECT count(*) FROM ledger WHERE kind = 'credit'");
	assert_int_equal(world_int(w, "SELECT sum(amount_micros) FROM ledger"), 0);
}

/* By a clock that was ahead an attempt may begin after its machine's end. None of its work is
 * billed, and none of it is booked as lost. */
static void test_a_loss_of_which_nothing_is_billed_keeps_no_credit_back(void **state)
{
	struct world *w = *state;

	machine_end(w, 1000, SPOT_END_RECLAIM);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM ledger WHERE node_id = 1 AND kind = 'lost_work'");
	world_kill(w);
	world_sql(w,
	    "SET session_replication_role = replica; DELETE FROM ledger WHERE node_id = 1 AND kind "
	    "<> 'boot'; RESET session_replication_role");
	assert_true(world_int(w, "SELECT sum(amount_micros) FROM ledger WHERE node_id = 1") > 0);
	w->cloud.reclaim_free_us = SPOT_US_PER_HOUR;
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM ledger WHERE kind = 'credit'");
	assert_int_equal(world_int(w, "SELECT sum(amount_micros) FROM ledger WHERE node_id = 1"),
	    0);
}

static void test_time_is_billed_that_the_user_ended_or_that_ran_longer_or_elsewhere(void **state)
{
	struct world *w = *state;
	static const struct {
		int64_t free_us;
		enum spot_end_cause cause;
	} cases[] = { { SPOT_US_PER_HOUR, SPOT_END_USER }, { 1000, SPOT_END_RECLAIM },
		{ 0, SPOT_END_RECLAIM } };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		machine_end(w, cases[i].free_us, cases[i].cause);
		world_for(w, 600);
		assert_int_equal(world_int(w, "SELECT count(*) FROM ledger WHERE kind = 'credit'"),
		    0);
		assert_true(
		    world_int(w, "SELECT sum(amount_micros) FROM ledger WHERE node_id = 1") > 0);
	}
}

/* ---- machines that are billed together ------------------------------------------------------- */

/* Three machines of one pool run. The engine is down, and all are due when it starts. */
static void machines_due(struct world *w)
{
	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 3600000000);
	world_run_job(w, "{}");
	world_job(w, "{}");
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) = 3 FROM job WHERE state = 'RUNNING'");
	world_kill(w);
}

static void all_billed_exactly(struct world *w)
{
	world_exit_all(w);
	world_until(w, LIMIT, "SELECT count(*) = 3 FROM node WHERE billed_to_us = ended_us");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node n WHERE (SELECT sum(to_us - from_us) = "
			     "n.ended_us - n.launched_us AND min(from_us) = n.launched_us"
			     " AND sum(amount_micros) = n.ended_us - n.launched_us"
			     " FROM ledger l WHERE l.node_id = n.id)"),
	    3);
	assert_int_equal(world_int(w,
			     "SELECT (SELECT sum(node_us) FROM pool_day) = sum(ended_us - "
			     "launched_us) AND (SELECT sum(node_us) FROM pool_hour) = "
			     "sum(ended_us - launched_us) FROM node"),
	    1);
}

static void test_machines_of_one_pool_are_billed_together_and_each_exactly(void **state)
{
	struct world *w = *state;

	machines_due(w);
	world_start(w);
	/* One transaction wrote lines of all three. */
	world_until(w, LIMIT,
	    "SELECT count(*) > 0 FROM (SELECT FROM ledger GROUP BY xmin::text HAVING "
	    "count(DISTINCT node_id) = 3) x");
	all_billed_exactly(w);
}

static void test_a_machine_whose_line_is_refused_keeps_no_other_from_its_bill(void **state)
{
	struct world *w = *state;

	machines_due(w);
	/* A bill that the kill left in flight is waited for, so that it is in what was. */
	world_sql(w,
	    "LOCK TABLE ledger IN SHARE ROW EXCLUSIVE MODE;"
	    "CREATE TABLE was AS SELECT id, billed_to_us FROM node;"
	    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
	    "'BEGIN IF NEW.node_id = 2 THEN RAISE EXCEPTION ''refused''; END IF; RETURN NEW; END';"
	    "CREATE TRIGGER refuse BEFORE INSERT ON ledger FOR EACH ROW EXECUTE FUNCTION refuse()");
	world_start(w);
	world_until(w, LIMIT,
	    "SELECT count(*) = 2 FROM node n JOIN was USING (id) WHERE id <> 2 AND "
	    "n.billed_to_us > coalesce(was.billed_to_us, 0)");
	assert_int_equal(world_int(w,
			     "SELECT n.billed_to_us IS NOT DISTINCT FROM was.billed_to_us FROM "
			     "node n JOIN was USING (id) WHERE id = 2"),
	    1);
	world_sql(w, "DROP TRIGGER refuse ON ledger");
	all_billed_exactly(w);
}

/* Such as a Pod that no node took. */
static void test_a_launch_refused_after_its_reply_costs_nothing(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_finish(w, world_running(w));
	world_until(w, LIMIT, "SELECT bool_and(billed_to_us >= ended_us) FROM node");
	assert_true(world_int(w, "SELECT sum(amount_micros) FROM ledger") > 0);
	world_sql(w,
	    "UPDATE node SET end_cause = 'refused', enrol_used_us = NULL, provider_past = '[]', "
	    "provider_state = 'failed_no_capacity'");
	world_until(w, LIMIT, "SELECT count(*) FROM event WHERE event = 'CREDITED'");
	assert_int_equal(world_int(w, "SELECT sum(amount_micros) FROM ledger"), 0);
	assert_int_equal(world_int(w, "SELECT count(*) FROM event WHERE event = 'CREDITED'"), 1);
}

/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_launch_refused_after_its_reply_costs_nothing),
		cmocka_unit_test(
		    test_the_ledger_sums_to_interval_times_price_across_a_price_change),
		cmocka_unit_test(test_every_ledger_line_has_the_price_that_was_in_force),
		cmocka_unit_test(test_a_machine_is_billed_at_a_price_whose_day_was_dropped),
		cmocka_unit_test(test_weeks_of_work_that_were_lost_are_booked_to_the_last_line),
		cmocka_unit_test(
		    test_a_spot_machine_that_was_taken_early_costs_nothing_to_the_micro_dollar),
		cmocka_unit_test(test_a_loss_of_which_nothing_is_billed_keeps_no_credit_back),
		cmocka_unit_test(test_a_machine_that_an_exact_read_lacks_is_billed_no_longer),
		cmocka_unit_test(
		    test_a_machine_that_was_taken_before_we_ended_it_costs_nothing_either),
		cmocka_unit_test(test_machines_of_one_pool_are_billed_together_and_each_exactly),
		cmocka_unit_test(test_a_machine_whose_line_is_refused_keeps_no_other_from_its_bill),
		cmocka_unit_test(
		    test_time_is_billed_that_the_user_ended_or_that_ran_longer_or_elsewhere),
	};

	return WORLD_TESTS(argc, argv, tests);
}
