/* Notices, and the evidence that is kept of an end. */
#include "engine_world.h"

#define VERDICT(kind) "SELECT count(*) FROM verdict WHERE kind = '" kind "'"

static void test_a_notice_and_the_reclaim_after_it(void **state)
{
	struct world *w = *state;
	int64_t job;

	world_reset(w, true);
	w->agents_save = false;
	w->conf.reclaim_cool_us = 1000;
	/* the provider takes it before its time is over */
	w->conf.notice_default_us = 2000 * LIMIT;
	job = world_running(w);
	snprintf(w->cloud.notice_ref, sizeof(w->cloud.notice_ref), "%s", w->cloud.list[0].ref);
	world_until(w, LIMIT, VERDICT("notice"));
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM verdict WHERE kind = 'notice' AND job_id = 1 "
			     "AND epoch = 1"
			     " AND seen->'notices'->0->>'kind' = 'interruption' AND "
			     "seen->'notices'->0->>'by' = 'fake-control-plane'"
			     " AND (seen->'notices'->0->>'heard@')::int8 <= at_us"),
	    1);
	/* in the midst of a character */
	assert_string_equal(world_text(w, "SELECT raw FROM notice"), "cut ??");
	cloud_reclaim(&w->cloud, 0);
	world_until(w, LIMIT, VERDICT("job_lost"));
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM verdict WHERE kind = 'reclaimed' AND "
			     "jsonb_array_length(seen->'notices') = 1"
			     " AND seen->'provider'->>'state' LIKE 'gone%'"),
	    1);
	world_until_epoch(w, 2);
	world_check_counters(w, 0, 0, "");
	world_finish(w, job);
}

static void test_a_notice_of_the_control_plane_counts_for_the_named_machine(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z2", "a1", "spot", 1200000);
	world_start(w);
	world_job(w, "{}");
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM job WHERE state = 'RUNNING'");
	/* Of the machines that are asked about the first, then the last. */
	for (int epoch = 2; epoch <= 3; epoch++) {
		char sql[120];

		snprintf(w->cloud.notice_ref, sizeof(w->cloud.notice_ref), "%s",
		    world_text(w,
			epoch == 2 ? "SELECT ref FROM node ORDER BY id LIMIT 1"
				   : "SELECT ref FROM node WHERE state = 'READY' ORDER BY id DESC "
				     "LIMIT 1"));
		snprintf(sql, sizeof(sql),
		    "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = %d", epoch);
		world_until(w, LIMIT, sql);
		assert_string_equal(world_text(w,
					"SELECT n.ref FROM notice o JOIN node n ON n.id = "
					"o.node_id ORDER BY n.id DESC LIMIT 1"),
		    w->cloud.notice_ref);
	}
	assert_string_equal(world_text(w, "SELECT string_agg(DISTINCT source, ',') FROM notice"),
	    "fake-control-plane");
	assert_int_equal(world_int(w, "SELECT count(*) FROM notice"), 2);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 1"),
	    1);
	world_exit_all(w);
	world_until(w, LIMIT, "SELECT bool_and(state = 'SUCCEEDED')::int FROM job");
	world_check_end(w);
}

/* EC2 may plan a reboot and a retirement of one instance, both of them maintenance; the agent may
 * have heard of it without a time. */
static void test_two_events_of_a_machine_are_one_notice_for_the_first_of_them(void **state)
{
	struct world *w = *state;
	int64_t job, at = INT64_C(4102444800) * SPOT_US_PER_S;

	world_reset(w, true);
	job = world_running(w);
	world_sql(w,
	    "INSERT INTO notice (node_id, kind, deadline_us, source, raw, heard_us, handled_us) "
	    "VALUES (1, 'interruption', 0, 'agent', '', 1, 1)");
	w->cloud.notice_at_us[0] = at + 1;
	w->cloud.notice_at_us[1] = at;
	snprintf(w->cloud.notice_ref, sizeof(w->cloud.notice_ref), "%s", w->cloud.list[0].ref);
	world_until(w, LIMIT, "SELECT count(*) FROM notice WHERE deadline_us > 0");
	assert_int_equal(world_int(w, "SELECT deadline_us FROM notice"), at);
	w->cloud.notice_at_us[0] = at - 1;
	world_until(w, LIMIT, "SELECT count(*) FROM notice WHERE deadline_us % 1000000 = 999999");
	assert_int_equal(world_int(w, "SELECT deadline_us FROM notice"), at - 1);
	world_finish(w, job);
}

/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_notice_and_the_reclaim_after_it),
		cmocka_unit_test(test_two_events_of_a_machine_are_one_notice_for_the_first_of_them),
		cmocka_unit_test(test_a_notice_of_the_control_plane_counts_for_the_named_machine),
	};

	return WORLD_TESTS(argc, argv, tests);
}
