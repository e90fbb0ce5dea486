/* An exhausted quota: jobs of lower priority are preempted, capacity is held for the blocked job,
 * short jobs fill the gap. */
#include "engine_world.h"

static void world_begin(struct world *w, int vcpus)
{
	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000); /* class P/spot, 12 vCPUs */
	world_pool(w, "z2", "b1", "spot", 1000000);
	world_quota(w, vcpus);
	schedule_policy_default(&w->conf.schedule);
	world_start(w);
}

static void test_a_machine_that_suits_is_handed_over(void **state)
{
	struct world *w = *state;

	world_begin(w, 12);
	world_job_of(w, 0, "a1", 36000);
	world_until_job(w, "RUNNING");
	world_job_of(w, 200, "a1", 3600);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE id = 2 AND state = 'RUNNING'");
	assert_int_equal(world_int(w, "SELECT node_id FROM attempt WHERE job_id = 2"), 1);
	assert_int_equal(w->cloud.launches, 1);
	world_until(w, LIMIT, "SELECT count(*) FROM job_queue WHERE job_id = 1 AND pos = 1");
	assert_string_equal(world_text(w, "SELECT state || ' ' || epoch FROM job WHERE id = 1"),
	    "QUEUED 1");
	assert_int_equal(world_int(w, "SELECT checkpoint_id IS NOT NULL FROM job WHERE id = 1"), 1);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision WHERE kind = 'preempt' AND job_id = 2"),
	    1);
	assert_int_equal(
	    world_int(w, "SELECT count(*) FROM decision WHERE kind = 'preempted' AND job_id = 1"),
	    1);
	world_sql(w,
	    "UPDATE attempt SET phase = 'EXITED', exit_reason = 'ok', exit_code = 0, ended_us = "
	    "%" PRId64 " WHERE job_id = 2 AND ended_us IS NULL; NOTIFY spot_engine",
	    world_us());
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job WHERE id = 1 AND state = 'RUNNING' AND epoch = 2");
	assert_int_equal(world_int(w,
			     "SELECT steps_start FROM attempt WHERE job_id = 1 AND epoch = 2"),
	    100);
	world_finish(w, 1);
}

static void test_another_machine_is_given_back_for_its_room_in_the_quota(void **state)
{
	struct world *w = *state;

	world_begin(w, 24);
	world_job_of(w, 0, "a1", 36000);
	world_job_of(w, 0, "a1", 36000);
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM job WHERE state = 'RUNNING'");
	world_job_of(w, 200, "b1", 3600);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE id = 3 AND state = 'RUNNING'");
	assert_int_equal(world_int(w, "SELECT node_id FROM attempt WHERE job_id = 3"), 3);
	assert_int_equal(w->cloud.launches, 3);
	/* One is enough, and one leaves. */
	assert_int_equal(world_int(w, "SELECT count(*) FROM decision WHERE kind = 'preempted'"), 1);
	assert_int_equal(world_int(w, "SELECT count(*) FROM job WHERE state = 'RUNNING'"), 2);
	assert_int_equal(world_int(w,
			     "SELECT checkpoint_id IS NOT NULL FROM job WHERE state = 'QUEUED'"),
	    1);
	assert_string_equal(world_text(w, "SELECT string_agg(source, ',') FROM notice"),
	    "preemption");
}

/* Of a quota's pools that suit the first needs more than can be freed. */
static void test_room_is_made_for_the_smaller_of_two_machines_of_a_quota(void **state)
{
	struct world *w = *state;

	world_begin(w, 12);
	world_pool(w, "z3", "c1", "spot", 1000000);
	world_sql(w,
	    "UPDATE pool SET vcpus = 24 WHERE instance_type = 'a1'; UPDATE pool SET gpu_name = "
	    "'H100-80GB' WHERE instance_type = 'c1'");
	world_job(w, "{\"asks\":[{\"gpus\":[{\"gpu\":\"H100\",\"milli\":1000}],\"use_spot\":-1}]}");
	world_until_job(w, "RUNNING");
	world_sql(w, "BEGIN");
	world_job(w, "{\"priority\":200}");
	world_sql(w, "UPDATE job SET priority = 200 WHERE id = 2; COMMIT");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE id = 2 AND state = 'RUNNING'");
	assert_int_equal(world_int(w, "SELECT pool_id FROM attempt WHERE job_id = 2"), 2);
}

static void test_a_job_not_far_enough_above_or_moved_lately_waits(void **state)
{
	struct world *w = *state;

	world_begin(w, 12);
	world_job_of(w, 0, "a1", 36000);
	world_until_job(w, "RUNNING");
	world_job_of(w, 99, "a1", 3600);
	world_until(w, LIMIT, "SELECT count(*) FROM job_queue WHERE job_id = 2 AND pos = 1");
	world_sql(w,
	    "INSERT INTO decision (at_us, kind, job_id, inputs, outcome, why) VALUES (%" PRId64
	    ", 'preempted', 1, '{}', '{}', '')",
	    world_us());
	world_job_of(w, 500, "a1", 3600);
	world_until(w, LIMIT, "SELECT count(*) FROM job_queue WHERE job_id = 3 AND pos = 1");
	world_for(w, 300);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM job WHERE id = 1 AND state = 'RUNNING' AND "
			     "epoch = 1"),
	    1);
	assert_int_equal(world_int(w, "SELECT count(*) FROM decision WHERE kind = 'preempt'"), 0);
}

static void test_a_job_with_a_deadline_leaves_where_it_still_meets_it(void **state)
{
	struct world *w = *state;
	int64_t now = world_us();

	world_begin(w, 12);
	world_job_of(w, 0, "a1", 3600);
	world_until_job(w, "RUNNING");
	world_sql(w, "UPDATE job SET deadline_us = %" PRId64 " WHERE id = 1",
	    now + 2 * SPOT_US_PER_HOUR);
	world_job_of(w, 200, "a1", 3600);
	world_until(w, LIMIT, "SELECT count(*) FROM job_queue WHERE job_id = 2 AND pos = 1");
	world_for(w, 300);
	assert_int_equal(world_int(w, "SELECT count(*) FROM decision WHERE kind = 'preempt'"), 0);
	world_sql(w, "UPDATE job SET deadline_us = %" PRId64 " WHERE id = 1; NOTIFY spot_engine",
	    now + 30 * SPOT_US_PER_HOUR);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE id = 2 AND state = 'RUNNING'");
	assert_int_equal(
	    world_int(w, "SELECT count(*) FROM decision WHERE kind = 'preempted' AND job_id = 1"),
	    1);
}

static void test_room_for_the_blocked_is_filled_by_jobs_gone_in_time(void **state)
{
	struct world *w = *state;

	world_begin(w, 24);
	world_sql(w, "UPDATE pool SET vcpus = 24 WHERE instance_type = 'b1'");
	world_job_of(w, 0, "a1", 36000);
	world_until_job(w, "RUNNING");
	world_job_of(w, 50, "b1", 3600); /* needs all of the quota: when job 1 ends */
	world_until(w, LIMIT, "SELECT count(*) FROM job_queue WHERE job_id = 2");
	world_job_of(w, 0, "a1", 360000);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job WHERE id = 3 AND why LIKE 'j2 is ahead and is expected to "
	    "begin by%'");
	world_job_of(w, 0, "a1", 600);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE id = 4 AND state = 'RUNNING'");
	assert_int_equal(
	    world_int(w, "SELECT count(*) FROM decision WHERE kind = 'backfill' AND job_id = 4"),
	    1);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM job WHERE id IN (2, 3) AND state = 'QUEUED'"),
	    2);
}

/* Two in its zone leave, although one there and one elsewhere would lose less. */
static void test_a_gang_makes_as_many_leave_as_it_needs_in_one_zone(void **state)
{
	struct world *w = *state;

	world_begin(w, 48);
	world_sql(w, "UPDATE pool_latest SET price_micros = 500000 WHERE pool_id = 2");
	world_job_of(w, 0, "a1", 36000);
	world_job_of(w, 0, "a1", 36000);
	world_job_of(w, 0, "b1", 36000);
	world_job_of(w, 0, "b1", 36000);
	world_until(w, LIMIT, "SELECT count(*) = 4 FROM job WHERE state = 'RUNNING'");
	world_gang_of(w, 200, "a1", 2, 3600);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE id = 5 AND state = 'RUNNING'");
	assert_string_equal(world_text(w,
				"SELECT string_agg(job_id::text, ',' ORDER BY job_id) FROM "
				"decision WHERE kind = 'preempted'"),
	    "1,2");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt WHERE job_id = 5 AND pool_id = 1"),
	    2);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM job WHERE id IN (3, 4) AND state = 'RUNNING' "
			     "AND epoch = 1"),
	    2);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM job WHERE id IN (1, 2) AND state = 'QUEUED' AND "
			     "checkpoint_id IS NOT NULL"),
	    2);
	world_job_exits(w, 5);
	world_until(w, LIMIT, "SELECT count(*) = 4 FROM job WHERE id < 5 AND state = 'RUNNING'");
}

/* The capacity that one of them left is not free while the other still saves, not even for the one
 * that left. */
static void test_freed_capacity_is_kept_until_all_have_left(void **state)
{
	struct world *w = *state;

	world_begin(w, 24);
	world_job_of(w, 0, "a1", 36000);
	world_job_of(w, 0, "a1", 36000);
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM job WHERE state = 'RUNNING'");
	w->agents = false;
	world_gang_of(w, 200, "a1", 2, 3600);
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM attempt WHERE desired = 'drain'");
	world_sql(w,
	    "UPDATE attempt SET phase = 'EXITED', exit_reason = 'drained', exit_code = 0, ended_us "
	    "= %" PRId64 " WHERE job_id = 1 AND ended_us IS NULL; NOTIFY spot_engine",
	    world_us());
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node n JOIN attempt a ON a.node_id = n.id JOIN job j ON j.id = "
	    "a.job_id"
	    " WHERE j.id = 1 AND n.state = 'GONE' AND j.state = 'QUEUED'");
	world_for(w, 300);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 2);
	w->agents = true;
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE id = 3 AND state = 'RUNNING'");
	assert_string_equal(world_text(w,
				"SELECT string_agg(job_id::text, ',' ORDER BY job_id) FROM "
				"decision WHERE kind = 'preempted'"),
	    "1,2");
}

/* All ranks save and stop together, and it goes on where they saved. */
static void test_a_gang_leaves_as_a_whole_and_comes_back(void **state)
{
	struct world *w = *state;

	world_begin(w, 36);
	w->cloud.gangs = true;
	world_gang_of(w, 0, "a1", 3, 36000);
	world_until_job(w, "RUNNING");
	world_job_of(w, 200, "b1", 3600);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE id = 2 AND state = 'RUNNING'");
	assert_int_equal(
	    world_int(w, "SELECT count(*) FROM decision WHERE kind = 'preempted' AND job_id = 1"),
	    1);
	assert_int_equal(world_int(w, "SELECT count(*) FROM notice WHERE source = 'preemption'"),
	    3);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE id = 1 AND state = 'QUEUED'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt WHERE job_id = 1 AND exit_reason = "
			     "'drained'"),
	    3);
	assert_int_equal(world_int(w,
			     "SELECT set_us IS NOT NULL FROM checkpoint c JOIN job j ON "
			     "j.checkpoint_id = c.id WHERE j.id = 1"),
	    1);
	world_job_exits(w, 2);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job WHERE id = 1 AND state = 'RUNNING' AND epoch = 2");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt WHERE job_id = 1 AND epoch = 2 AND "
			     "steps_start = 100"),
	    3);
}

/* New jobs do not keep the quota from a gang that needs all of it; jobs that end in time may go
 * ahead. */
static void test_room_is_held_for_a_blocked_gang(void **state)
{
	struct world *w = *state;

	world_begin(w, 36);
	world_job_of(w, 0, "a1", 36000);
	world_until_job(w, "RUNNING");
	world_gang_of(w, 50, "a1", 3, 3600);
	world_until(w, LIMIT, "SELECT count(*) FROM job_queue WHERE job_id = 2");
	/* another gang: it would fit, and does not begin before the first */
	world_gang_of(w, 40, "b1", 2, 360000);
	world_job_of(w, 0, "a1", 360000);
	world_until(w, LIMIT,
	    "SELECT count(*) = 2 FROM job WHERE id IN (3, 4) AND why LIKE '%j2 is ahead and is "
	    "expected to begin by%'");
	world_job_of(w, 0, "a1", 600);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE id = 5 AND state = 'RUNNING'");
	assert_int_equal(
	    world_int(w, "SELECT count(*) FROM decision WHERE kind = 'backfill' AND job_id = 5"),
	    1);
	world_job_exits(w, 5);
	world_for(w, 300);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM job WHERE id IN (2, 3, 4) AND state = 'QUEUED'"),
	    3);
	world_job_exits(w, 1);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE id = 2 AND state = 'RUNNING'");
	/* seen once, on a machine that stood still at times */
	if (world_int(w, "SELECT count(*) FROM attempt WHERE job_id IN (3, 4)") != 0) {
		fail_msg("%s",
		    world_text(w,
			"SELECT string_agg(concat_ws(' ', at_us, entity_id, was, now, event, why), "
			"chr(10) ORDER BY id) FROM event"));
	}
	world_job_exits(w, 2);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE id = 3 AND state = 'RUNNING'");
}

static void test_a_team_that_spent_is_behind_and_dollars_fade(void **state)
{
	struct world *w = *state;
	int64_t now = world_us();

	world_begin(w, 12);
	w->conf.bill_us = 100000;
	world_job_of(w, 0, "a1", 36000);
	world_until_job(w, "RUNNING");
	world_sql(w,
	    "INSERT INTO ledger (at_us, kind, node_id, pool_id, market, team, from_us, to_us, "
	    "price_micros, price_observed_us, "
	    "amount_micros) VALUES (1, 'compute', 1, 1, 'spot', 'old', %" PRId64 ", %" PRId64
	    ", 1, 0, 8000000), (1, 'compute', 1, "
	    "1, 'spot', 'fresh', %" PRId64 ", %" PRId64 ", 1, 0, 3000000)",
	    now - 21 * 24 * SPOT_US_PER_HOUR - 1, now - 21 * 24 * SPOT_US_PER_HOUR, now - 1, now);
	world_until(w, LIMIT,
	    "SELECT count(*) = 1 FROM team_share WHERE team = 'old' AND spent_micros BETWEEN "
	    "990000 AND 1000001");
	world_until(w, LIMIT,
	    "SELECT count(*) = 1 FROM team_share WHERE team = 'fresh' AND spent_micros BETWEEN "
	    "2990000 AND 3000001");
	world_job_of(w, 0, "a1", 36000);
	world_sql(w, "UPDATE job SET team = 'fresh' WHERE id = 2");
	world_job_of(w, 0, "a1", 36000);
	world_sql(w, "UPDATE job SET team = 'old' WHERE id = 3; NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) FROM job_queue WHERE job_id = 3 AND pos = 1");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job_queue WHERE job_id = 2 AND pos = 2 AND why LIKE 'behind j3: "
	    "team fresh used % times "
	    "its share, team old %'");
}

static void test_shares_of_the_file_count_where_none_was_set_and_leave_with_it(void **state)
{
	static const struct schedule_team filed[] = { { .team = "a", .weight_pm = 2000 },
		{ .team = "b", .weight_pm = 500 } };
	struct world *w = *state;
	struct engine_conf without;

	world_begin(w, 12);
	world_sql(w, "INSERT INTO team_share (team, weight_pm, set_by) VALUES ('b', 4000, 'root')");
	without = w->conf;
	w->conf.shares = filed;
	w->conf.shares_n = ARRAY_LEN(filed);
	engine_reload(w->engine, &w->conf);
	world_until(w, LIMIT,
	    "SELECT string_agg(team || weight_pm || source || file_pm, ' ' ORDER BY team) = "
	    "'a2000file2000 b4000set500' "
	    "FROM team_share_now");
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM event WHERE event = 'SHARE_FILE'");
	engine_reload(w->engine, &without);
	world_until(w, LIMIT,
	    "SELECT string_agg(team || weight_pm || source, ' ' ORDER BY team) = 'a1000default "
	    "b4000set' FROM "
	    "team_share_now WHERE file_pm IS NULL");
	/* Written once, not in every turn. */
	world_for(w, 200);
	assert_int_equal(world_int(w, "SELECT count(*) FROM event WHERE event = 'SHARE_FILE'"), 4);
}

static void test_jobs_that_begin_later_keep_nobody_from_being_looked_at(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_quota(w, 12);
	schedule_policy_default(&w->conf.schedule);
	world_job(w, "{}");
	world_sql(w, "UPDATE job SET not_before_us = %" PRId64, world_us() + 3600 * SPOT_US_PER_S);
	world_sql(w,
	    "INSERT INTO job (name, owner, team, project, class, spec, source, state, state_us, "
	    "created_us, queued_us, not_before_us)"
	    " SELECT name, owner, team, project, class, spec, source, state, state_us, created_us, "
	    "queued_us, not_before_us"
	    " FROM job, generate_series(1, 600)");
	world_job_of(w, 0, "a1", 36000);
	world_start(w);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job WHERE state = 'RUNNING' AND not_before_us IS NULL");
}

/* Adds so many jobs that want a machine that no pool has. */
static void hopeless_jobs_add(struct world *w, int priority, int n)
{
	world_job_of(w, priority, "none", 3600);
	world_sql(w,
	    "INSERT INTO job (name, owner, team, project, class, priority, spec, source, state, "
	    "state_us, created_us, queued_us)"
	    " SELECT name, owner, team, project, class, priority, spec, source, state, state_us, "
	    "created_us, queued_us"
	    " FROM job, generate_series(2, %d) WHERE id = (SELECT max(id) FROM job)",
	    n);
}

static void test_jobs_that_cannot_be_placed_keep_nobody_from_being_looked_at(void **state)
{
	struct world *w = *state;
	int64_t high, low;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_quota(w, 12); /* one machine */
	schedule_policy_default(&w->conf.schedule);
	w->conf.infeasible_us = SPOT_US_PER_HOUR;
	hopeless_jobs_add(w, 200, 700);
	low = world_job_of(w, 0, "a1", 36000);
	hopeless_jobs_add(w, 50, 250);
	high = world_job_of(w, 90, "a1", 36000);
	world_start(w);
	world_until_job(w, "RUNNING");
	/* The only machine goes to the higher of the two, though both stand behind hundreds. */
	assert_int_equal(world_int(w, "SELECT job_id FROM attempt"), high);
	world_job_exits(w, (int)high);
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM attempt");
	assert_int_equal(world_int(w, "SELECT max(job_id) FROM attempt WHERE ended_us IS NULL"),
	    low);
	assert_int_equal(world_int(w, "SELECT count(*) FROM job WHERE state = 'QUEUED'"), 950);
}

/* 2,000 that run elsewhere, where nothing else is done with them; in 80 pools, of two quotas by
 * turns, there is no room. */
static void crowd_add(struct world *w)
{
	world_sql(w,
	    "INSERT INTO quota SELECT 'away', 'r1', 'Q' || i, 'spot', 'vcpu', 1, 1 FROM "
	    "generate_series(0, 1) i;"
	    "WITH p AS (INSERT INTO pool (provider, region, zone, zone_name, instance_type, "
	    "market, gpu_name, gpu_milli, gpu_mem_mib,"
	    " vcpus, mem_mib, arch, quota_class, offered, seen_us) SELECT 'away', 'r1', 'z' || i, "
	    "'', 'a1', 'spot', 'A100-80GB', 1000,"
	    " 81920, 12, 90000, 'x86_64', 'Q' || i %% 2, true, 1 FROM generate_series(1, 80) i "
	    "RETURNING id)"
	    " INSERT INTO pool_latest SELECT id, 1000000, 1, 1, 1, 'test', 'fresh' FROM p");
	world_job_of(w, 0, "a1", 36000);
	world_sql(w,
	    "INSERT INTO job (name, owner, team, project, class, spec, source, state, state_us, "
	    "epoch, created_us, queued_us)"
	    " SELECT name, owner, team, project, class, spec, source, 'RUNNING', state_us, 1, "
	    "created_us, queued_us"
	    " FROM job, generate_series(1, 2000);"
	    "INSERT INTO node (pool_id, job_id, state, state_us, token, name, ref, price_micros, "
	    "created_us, launched_us, ready_us, why)"
	    " SELECT 1 + id %% 80, id, 'READY', created_us, 'spt-' || id, 'brk.' || id, 'i-' || "
	    "id, 1000000, created_us, created_us,"
	    " created_us, '' FROM job WHERE state = 'RUNNING';"
	    "INSERT INTO attempt (job_id, epoch, node_id, pool_id, market, desired, phase, "
	    "created_us, started_us)"
	    " SELECT job_id, 1, id, pool_id, 'spot', 'run', 'RUNNING', created_us, created_us FROM "
	    "node");
}

/* Weighing all running jobs for each of them and each quota is more than a turn may hold. */
static void test_many_blocked_among_many_running_are_weighed_one_at_a_time(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	schedule_policy_default(&w->conf.schedule);
	w->agents = false;
	w->conf.agent_silent_us = w->conf.agent_lost_us = w->conf.bill_us = w->conf.infeasible_us =
	    SPOT_US_PER_HOUR;
	crowd_add(w);
	world_sql(w,
	    "INSERT INTO job (name, owner, team, project, class, spec, source, state, state_us, "
	    "created_us, queued_us)"
	    " SELECT name, owner, team, project, class, spec, source, state, state_us, created_us, "
	    "queued_us"
	    " FROM job, generate_series(1, 39) WHERE state = 'QUEUED'");
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) = 40 FROM job WHERE state = 'QUEUED' AND why <> ''");
	assert_int_equal(world_int(w, "SELECT count(*) FROM job WHERE state = 'RUNNING'"), 2000);
	/* One of high priority still finds whom it may ask to leave. */
	world_job_of(w, 200, "a1", 3600);
	world_until(w, LIMIT, "SELECT count(*) FROM decision WHERE kind = 'preempted'");
	world_kill(w);
}

static void fleet_job(struct world *w, const char *extra)
{
	world_sql(w, "BEGIN");
	world_job(w, extra);
	world_sql(w,
	    "UPDATE job SET fleet_id = 1 WHERE fleet_id IS NULL; COMMIT; NOTIFY spot_engine");
}

/* Placing reads the jobs that may have moved, and then the free nodes. The blocked job is not among
 * them when another has made room for it. */
static void node_handed_over(struct world *w)
{
	world_reset(w, true);
	w->conf.tick_us = SPOT_US_PER_S; /* no look meanwhile */
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_fleet(w, 1);
	world_until_node(w, "READY");
	fleet_job(w, "{\"not_preemptible\":true}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE id = 1 AND state = 'RUNNING'");
	fleet_job(w, "{\"priority\":500}");
	world_sql(w, "UPDATE job SET priority = 500 WHERE id = 2; NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE id = 2 AND why <> ''");
	w->agents = false; /* they would wake placing for more than jobs */
	world_for(w, 300);
	/* as engine_preempt and engine_attempt_settle write it */
	world_sql(w,
	    "BEGIN; UPDATE node SET job_id = 2 WHERE fleet_id = 1; UPDATE attempt SET phase = "
	    "'EXITED', exit_reason = 'drained', ended_us = %" PRId64 ", settled = true; UPDATE job "
	    "SET state = 'QUEUED', queued_us = %" PRId64 " WHERE id = 1; NOTIFY spot_engine, "
	    "'w1'; COMMIT",
	    world_us(), world_us());
	world_until(w, LIMIT, "SELECT count(*) FROM attempt WHERE ended_us IS NULL");
	assert_int_equal(world_int(w, "SELECT job_id FROM attempt WHERE ended_us IS NULL"), 2);
	assert_int_equal(w->cloud.launches, 1);
}

/* Other reads of the nodes come in between now and then. */
static void test_a_fleets_node_goes_to_the_job_that_it_was_handed_to(void **state)
{
	for (int i = 0; i < 5; i++) {
		node_handed_over(*state);
	}
}

/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
		    test_shares_of_the_file_count_where_none_was_set_and_leave_with_it),
		cmocka_unit_test(test_a_fleets_node_goes_to_the_job_that_it_was_handed_to),
		cmocka_unit_test(test_jobs_that_begin_later_keep_nobody_from_being_looked_at),
		cmocka_unit_test(test_jobs_that_cannot_be_placed_keep_nobody_from_being_looked_at),
		cmocka_unit_test(test_a_machine_that_suits_is_handed_over),
		cmocka_unit_test(test_another_machine_is_given_back_for_its_room_in_the_quota),
		cmocka_unit_test(test_room_is_made_for_the_smaller_of_two_machines_of_a_quota),
		cmocka_unit_test(test_a_job_with_a_deadline_leaves_where_it_still_meets_it),
		cmocka_unit_test(test_a_job_not_far_enough_above_or_moved_lately_waits),
		cmocka_unit_test(test_room_for_the_blocked_is_filled_by_jobs_gone_in_time),
		cmocka_unit_test(test_a_gang_makes_as_many_leave_as_it_needs_in_one_zone),
		cmocka_unit_test(test_freed_capacity_is_kept_until_all_have_left),
		cmocka_unit_test(test_a_gang_leaves_as_a_whole_and_comes_back),
		cmocka_unit_test(test_room_is_held_for_a_blocked_gang),
		cmocka_unit_test(test_a_team_that_spent_is_behind_and_dollars_fade),
		cmocka_unit_test(test_many_blocked_among_many_running_are_weighed_one_at_a_time),
	};

	return WORLD_TESTS(argc, argv, tests);
}
