/* Recoveries: each time of a row is that of the fact it names, and each counts once. */
#include "engine_world.h"

#define OF "FROM recovery r JOIN attempt a ON (a.job_id, a.epoch) = (r.job_id, r.epoch) "

/* The agents of this world report no moments of their own. */
static void moments_write(struct world *w)
{
	world_sql(w,
	    "UPDATE attempt a SET left_signal_us = r.notice_us + 1000, left_saved_us = "
	    "r.notice_us + 5000 FROM recovery r WHERE (a.job_id, a.epoch) = (r.job_id, r.epoch)");
}

static void check_times(struct world *w)
{
	static const struct {
		const char *column, *fact;
	} of[] = {
		{ "notice_us", "(SELECT heard_us FROM notice WHERE node_id = r.node_id)" },
		{ "deadline_us", "(SELECT drain_deadline_us FROM node WHERE id = r.node_id)" },
		{ "signal_us", "a.left_signal_us" },
		{ "saved_us", "a.left_saved_us" },
		{ "wanted_us",
		    "(SELECT created_us FROM node WHERE id > r.node_id ORDER BY id LIMIT 1)" },
		{ "launched_us",
		    "(SELECT launched_us FROM node WHERE id > r.node_id ORDER BY id LIMIT 1)" },
		{ "enrolled_us",
		    "(SELECT enrol_used_us FROM node WHERE id > r.node_id ORDER BY id LIMIT 1)" },
		{ "step_us", "(SELECT first_step_us FROM attempt WHERE epoch = r.epoch + 1)" },
	};

	for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++) {
		char sql[320];

		snprintf(sql, sizeof(sql), "SELECT count(*) %s WHERE r.%s IS NULL OR r.%s <> %s",
		    OF, of[i].column, of[i].column, of[i].fact);
		assert_int_equal(world_int(w, sql), 0);
	}
}

static void take(struct world *w)
{
	snprintf(w->cloud.notice_ref, sizeof(w->cloud.notice_ref), "%s",
	    world_text(w, "SELECT ref FROM node WHERE state = 'READY' ORDER BY id DESC LIMIT 1"));
}

static void test_each_time_is_that_of_its_fact(void **state)
{
	struct world *w = *state;
	int64_t job;

	world_reset(w, true);
	w->conf.reclaim_cool_us = 1000;
	job = world_running(w);
	world_sql(w, "UPDATE job SET steps_total = 100, steps_done = 5");
	world_sql(w, "UPDATE attempt SET steps_done = 5");
	take(w);
	world_until(w, LIMIT, "SELECT count(*) FROM recovery");
	moments_write(w);
	world_until_epoch(w, 2);
	assert_int_equal(world_int(w, "SELECT count(*) FROM recovery WHERE outcome = 'open'"), 1);
	/* A later leader derives the same. */
	world_kill(w);
	world_start(w);
	world_sql(w, "UPDATE node SET enrol_used_us = coalesce(enrol_used_us, ready_us)");
	world_sql(w, "UPDATE attempt SET first_step_us = created_us + 90000 WHERE epoch = 2");
	world_until(w, LIMIT, "SELECT count(*) FROM recovery WHERE outcome = 'recovered'");
	check_times(w);
	assert_int_equal(world_int(w, "SELECT count(*) FROM recovery_sum WHERE phase = 'total'"),
	    1);
	/* A row of old has no effect on the sums, and a new one adds to them. */
	world_sql(w, "UPDATE attempt SET first_step_us = 1 WHERE epoch = 2");
	take(w);
	world_until_epoch(w, 3);
	world_sql(w, "UPDATE attempt SET first_step_us = created_us + 90000 WHERE epoch = 3");
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM recovery WHERE outcome = 'recovered'");
	assert_int_equal(
	    world_int(w,
		"SELECT count(*) FROM (SELECT phase, sum(n) AS n, sum(us) AS us FROM "
		"recovery_sum GROUP BY phase) s FULL JOIN (SELECT p.phase, count(*) AS "
		"n, sum(p.us) AS us FROM recovery r CROSS JOIN LATERAL "
		"recovery_phases(r) p WHERE p.us IS NOT NULL GROUP BY p.phase) x USING "
		"(phase) WHERE (s.n, s.us) IS DISTINCT FROM (x.n, x.us)"),
	    0);
	world_finish(w, job);
}

static void test_a_drain_by_hand_is_no_recovery(void **state)
{
	struct world *w = *state;
	int64_t job;

	world_reset(w, true);
	job = world_running(w);
	world_sql(w,
	    "INSERT INTO notice (node_id, kind, deadline_us, source, heard_us) SELECT id, "
	    "'maintenance', 4102444800000000, 'api', created_us FROM node");
	world_until_epoch(w, 2);
	assert_int_equal(world_int(w, "SELECT count(*) FROM recovery"), 0);
	world_finish(w, job);
}

/* The agent of a Pod knows its whole grace, the control plane the rest of it. */
static void test_a_sooner_deadline_reaches_the_agent(void **state)
{
	struct world *w = *state;
	int64_t job;

	world_reset(w, true);
	w->agents_save = false;
	job = world_running(w);
	world_sql(w,
	    "INSERT INTO notice (node_id, kind, deadline_us, source, heard_us) SELECT id, "
	    "'interruption', ready_us + 900000000, 'sigterm', ready_us FROM node");
	world_until(w, LIMIT, "SELECT count(*) FROM attempt WHERE desired = 'drain'");
	/* as api_agent_notice and the engine's own statements write one that is sooner */
	world_sql(w, "UPDATE notice SET deadline_us = deadline_us - 880000000, handled_us = NULL");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM attempt a JOIN notice o USING (node_id) WHERE epoch = 1 AND "
	    "a.drain_deadline_us = o.deadline_us");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM recovery r JOIN notice o USING (node_id) WHERE "
			     "r.deadline_us = o.deadline_us"),
	    1);
	w->agents_save = true;
	world_finish(w, job);
}

/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_time_is_that_of_its_fact),
		cmocka_unit_test(test_a_drain_by_hand_is_no_recovery),
		cmocka_unit_test(test_a_sooner_deadline_reaches_the_agent),
	};

	return WORLD_TESTS(argc, argv, tests);
}
