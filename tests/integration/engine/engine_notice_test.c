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

/* ---- bursts ---------------------------------------------------------------------------------- */

#define ASKED "SELECT count(*) FROM attempt WHERE save_asked_us IS NOT NULL"

/* Two machines in one zone and one in another, whose jobs have not saved for two minutes. */
static void burst_world_of(struct world *w, const char *second)
{
	world_reset(w, true);
	w->conf.reclaim_cool_us = 1000; /* only the rise keeps others away */
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_job(w, "{\"checkpoint\":{\"path\":\"c\",\"interval_off\":true}}");
	world_job(w, second);
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM job WHERE state = 'RUNNING'");
	world_pool(w, "z2", "a1", "spot", 1005000);
	world_pool(w, "z3", "other", "spot", 1300000);
	world_sql(w, "UPDATE pool SET gpu_name = 'A100-40GB' WHERE zone = 'z3'");
	/* saves take a second */
	world_sql(w,
	    "WITH c AS (INSERT INTO checkpoint (job_id, epoch, rank, state, reason, steps, bytes, "
	    "created_us, urls_us, committed_us) SELECT id, 1, 0, 'COMMITTED', 'periodic', 50, 9, "
	    "%" PRId64 ", 1, %" PRId64 " FROM job RETURNING id, job_id), k AS (INSERT INTO "
	    "checkpoint_chunk SELECT id, 'm', 0, 9, 420, repeat('ab', 32), 'key-' || id, true FROM "
	    "c) UPDATE job SET checkpoint_id = c.id FROM c WHERE job.id = c.job_id",
	    world_us() - 120 * SPOT_US_PER_S, world_us() - 119 * SPOT_US_PER_S);
	world_sql(w, "UPDATE attempt SET started_us = started_us - 600000000");
}

static void burst_world(struct world *w)
{
	burst_world_of(w, "{\"checkpoint\":{\"path\":\"c\",\"interval_off\":true}}");
}

static void first_struck(struct world *w)
{
	snprintf(w->cloud.notice_ref, sizeof(w->cloud.notice_ref), "%s",
	    world_text(w,
		"SELECT n.ref FROM node n JOIN attempt a ON a.node_id = n.id WHERE a.job_id = 1"));
	world_until(w, LIMIT, "SELECT count(*) FROM pool_reclaim");
}

static void test_after_a_reclaim_a_sibling_saves_once_and_goes_on(void **state)
{
	struct world *w = *state;

	burst_world(w);
	world_for(w, 200);
	assert_int_equal(world_int(w, ASKED), 0);
	first_struck(w);
	world_until(w, LIMIT, ASKED);
	/* the other machine of the zone, and not the one that has its own notice */
	assert_int_equal(world_int(w, "SELECT job_id FROM burst_save"), 2);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt a JOIN job j ON j.id = a.job_id WHERE "
			     "a.job_id = 2 AND a.desired = 'run' AND j.state = 'RUNNING' AND "
			     "a.version > 1"),
	    1);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision WHERE kind = 'burst_save' AND job_id "
			     "= 2 AND (outcome->>'loss_micros')::int8 > "
			     "(outcome->>'cost_micros')::int8 AND "
			     "(inputs->>'raised_per_hour')::float8 > 1 AND "
			     "(inputs->>'save_us')::int8 = 1000000 AND "
			     "(inputs->>'unsaved_us')::int8 BETWEEN 119000000 AND 300000000"),
	    1);
	/* The replacement goes elsewhere, and the decision shows the rise. */
	world_until_epoch(w, 2);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt a JOIN pool p ON p.id = a.pool_id "
			     "WHERE a.epoch = 2 AND p.zone <> 'z1'"),
	    1);
	assert_int_equal(world_int(w,
			     "SELECT count(*) > 0 FROM decision d, jsonb_path_query(d.inputs, "
			     "'$.**.hazard_raised') v WHERE d.kind = 'place' AND "
			     "v::float8 > 0"),
	    1);
	/* Another reclaim of the same burst asks nobody again. */
	world_sql(w, "UPDATE pool_reclaim SET at_us = %" PRId64 "; NOTIFY spot_engine", world_us());
	world_until(w, LIMIT, "SELECT count(*) FROM burst WHERE last_us > began_us");
	world_for(w, 300);
	assert_int_equal(world_int(w, "SELECT count(*) FROM burst_save"), 1);
	assert_int_equal(world_int(w, "SELECT count(*) FROM burst"), 1);
	assert_true(world_metric(w, "spot_bursts_total", "begun") > 0.5);
	assert_true(world_metric(w, "spot_bursts_total", "asked") > 0.5);
	assert_true(world_metric(w, "spot_bursts_total", "followed_3m") < 0.5);
	snprintf(w->cloud.notice_ref, sizeof(w->cloud.notice_ref), "%s",
	    world_text(w,
		"SELECT n.ref FROM job j JOIN attempt a ON a.job_id = j.id AND a.epoch = j.epoch "
		"JOIN node n ON n.id = a.node_id WHERE j.id = 2"));
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM job WHERE state = 'RUNNING' AND epoch = 2");
	assert_true(world_metric(w, "spot_bursts_total", "followed_3m") > 0.5);
	world_succeed(w);
}

static void test_a_reclaim_of_long_ago_or_of_another_kind_asks_nobody(void **state)
{
	struct world *w = *state;

	burst_world(w);
	world_sql(w,
	    "INSERT INTO pool_reclaim SELECT id, CASE zone WHEN 'z3' THEN %" PRId64 " ELSE %" PRId64
	    " END FROM pool WHERE zone <> 'z2'; NOTIFY spot_engine",
	    world_us(), world_us() - 1200 * SPOT_US_PER_S);
	world_until(w, LIMIT, "SELECT count(*) FROM burst WHERE family = 'A100-40GB'");
	world_for(w, 300);
	assert_int_equal(world_int(w, "SELECT count(*) FROM burst"), 1);
	assert_int_equal(world_int(w, ASKED), 0);
	/* one that has just saved */
	world_sql(w, "UPDATE checkpoint SET created_us = %" PRId64 ", committed_us = %" PRId64,
	    world_us() - SPOT_US_PER_S, world_us());
	first_struck(w);
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM burst");
	world_for(w, 300);
	assert_int_equal(world_int(w, ASKED), 0);
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM job WHERE state = 'RUNNING'");
	world_succeed(w);
}

static void test_after_a_reclaim_all_ranks_of_a_sibling_gang_save_as_a_set(void **state)
{
	struct world *w = *state;

	burst_world_of(w,
	    "{\"num_nodes\":3,\"checkpoint\":{\"path\":\"c\",\"interval_off\":true}}");
	world_for(w, 200);
	assert_int_equal(world_int(w, ASKED), 0);
	first_struck(w);
	world_until(w, LIMIT, ASKED);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt WHERE job_id = 2 AND save_asked_us IS "
			     "NOT NULL AND desired = 'run' AND version > 1"),
	    3);
	assert_int_equal(world_int(w, "SELECT count(DISTINCT save_asked_us) FROM attempt"), 1);
	/* The machines of all ranks count, and the loss of any. */
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision WHERE kind = 'burst_save' AND job_id = "
			     "2 AND inputs->>'nodes' = '3' AND (inputs->>'price_micros')::int8 = "
			     "3000000"),
	    1);
	assert_int_equal(world_int(w, "SELECT count(*) FROM burst_save"), 1);
	world_cancel(w);
	world_check_end(w);
}

/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_notice_and_the_reclaim_after_it),
		cmocka_unit_test(test_two_events_of_a_machine_are_one_notice_for_the_first_of_them),
		cmocka_unit_test(test_a_notice_of_the_control_plane_counts_for_the_named_machine),
		cmocka_unit_test(test_after_a_reclaim_a_sibling_saves_once_and_goes_on),
		cmocka_unit_test(test_after_a_reclaim_all_ranks_of_a_sibling_gang_save_as_a_set),
		cmocka_unit_test(test_a_reclaim_of_long_ago_or_of_another_kind_asks_nobody),
	};

	return WORLD_TESTS(argc, argv, tests);
}
