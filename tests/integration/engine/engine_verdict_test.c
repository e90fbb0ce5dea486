/*
 * Verdicts about machines that might be lost, and the stored observations with their witnesses.
 * Agents come back, providers withdraw an answer. One counter counts machines given up though they
 * were alive, another those given up too late. The test reads both as /metrics does; neither moves
 * when all goes well.
 */
#include "engine_world.h"
#include "store/q.h"

#define VERDICT(kind) "SELECT count(*) FROM verdict WHERE kind = '" kind "'"

/* ---- agents' reports, by the statement of the API -------------------------------------------- */

struct asked {
	struct pg_req req;
	bool done;
};

static void report_done(struct op *op)
{
	struct asked *a = container_of(container_of(op, struct pg_req, op), struct asked, req);

	assert_int_equal(op->rc, SPOT_OK);
	a->done = true;
}

/* The agent of a node speaks: it has this job at this step; job 0 = nothing. */
static void agent_says(struct world *w, int64_t node, int64_t job, int32_t epoch, int64_t step)
{
	const struct q_api_agents_seen_agent agent = { .node_id = node,
		.at_us = world_us(),
		.job_id = job,
		.epoch = epoch,
		.steps = step };
	struct asked a = { 0 };

	q_api_agents_seen(w->pg, &a.req,
	    &(struct q_api_agents_seen){ .agent = &agent, .agent_n = 1 }, report_done);
	while (!a.done) {
		(void)loop_turn(w->loop, 5000);
	}
	pg_req_fini(&a.req);
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void test_nothing_is_decided_or_counted_when_all_goes_well(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->conf.agent_silent_us = 5 * SPOT_US_PER_S;
	world_finish(w, world_running(w));
	assert_int_equal(world_int(w, "SELECT count(*) FROM verdict"), 0);
	world_check_counters(w, 0, 0, "");
	assert_int_equal((int64_t)world_metric(w, "spot_verdicts_total", "lost"), 0);
	assert_int_equal((int64_t)world_metric(w, "spot_suspected_nodes", "now"), 0);
}

/* Waits until the provider was asked so many times more about its machines. Earlier calls are
 * answered and written then. */
static void asked_more(struct world *w, int n)
{
	int until = w->cloud.describes + n;

	for (int i = 0; i < LIMIT / 10 && w->cloud.describes < until; i++) {
		world_for(w, 10);
	}
	assert_true(w->cloud.describes >= until);
}

/* A list may lack a machine that somebody is ending and that is not over. */
static void test_an_answer_that_lacks_a_machine_and_knows_why_is_one_answer(void **state)
{
	struct world *w = *state;
	int64_t job;

	world_reset(w, true);
	w->conf.list_lag_us = 1;
	/* an answer is written before the next question is asked */
	w->conf.watch_us = SPOT_US_PER_S / 2;
	job = world_running(w);
	for (int i = 0; i < 5; i++) { /* not every answer counts: one may be older than the last */
		w->cloud.list[0].lacks = 1;
		asked_more(w, 3);
		assert_int_equal(w->cloud.list[0].lacks, 0);
		world_until(w, LIMIT,
		    "SELECT count(*) FROM node WHERE id = 1 AND state = 'READY' AND provider_state "
		    "= 'running' AND gone_seen = 0");
		asked_more(w, 1); /* later requests read the row as it is */
	}
	w->cloud.list[0].state = SPOT_INSTANCE_GONE;
	w->cloud.list[0].lacks = 100;
	world_until(w, LIMIT,
	    "SELECT count(*) FROM verdict WHERE kind = 'lost' AND node_id = 1 AND why = 'provider "
	    "says gone_user: absent terminated by somebody'");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 2");
	world_finish(w, job);
}

/* Of too many machines for one call, say. */
static void test_a_machine_beyond_a_cut_answer_is_not_absent(void **state)
{
	struct world *w = *state;
	int64_t job;

	world_reset(w, true);
	w->conf.list_lag_us = 1;
	job = world_running(w);
	w->cloud.untold = true;
	asked_more(w, 2);
	/* a list that shows it resets the count */
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE provider_state = 'running' AND gone_seen = 0");
	w->cloud.hide = true;
	asked_more(w, 4);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node WHERE id = 1 AND state = 'READY' AND "
			     "provider_state = 'running' AND gone_seen = 0"
			     " AND unanswered = 0"),
	    1);
	assert_int_equal(world_int(w, "SELECT count(*) FROM verdict"), 0);
	w->cloud.untold = false;
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE provider_state = 'absent' AND gone_seen > 0");
	w->cloud.hide = false;
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE provider_state = 'running' AND gone_seen = 0");
	world_finish(w, job);
}

/* A partition: the job went on all the time, and its agent tells so when it is heard again. */
static void test_an_agent_that_comes_back_with_progress_was_given_up_wrongly(void **state)
{
	struct world *w = *state;
	int64_t job;

	world_reset(w, true);
	w->cloud.ends_slowly = true;
	w->conf.agent_lost_us = 2 * SPOT_US_PER_S;
	job = world_running(w);
	agent_says(w, 1, job, 1, 40);
	w->agents = false;
	world_until(w, LIMIT, VERDICT("silent"));
	world_until(w, LIMIT, VERDICT("job_lost"));
	assert_int_equal(
	    world_int(w,
		"SELECT count(*) FROM verdict v, node n WHERE n.id = 1 AND v.kind = 'silent' AND "
		"v.node_id = 1 AND v.job_id = 1"
		" AND v.epoch = 1 AND v.step = 40 AND (seen->'agent'->>'spoke@')::int8 = "
		"n.last_seen_us AND seen->'agent'->>'job' = 'j1'"
		" AND (seen->'agent'->>'step')::int8 = 40 AND seen->'provider'->>'state' = "
		"'running'"
		" AND (seen->'provider'->>'said@')::int8 >= n.launched_us AND "
		"seen->'provider'->'past'->-1->>'state' = 'running'"
		" AND (seen->'daemon'->>'listens@')::int8 < v.at_us AND seen->'job'->>'phase' = "
		"'RUNNING' AND v.why LIKE 'agent silent for %'"),
	    1);
	w->agents = true;
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 2");
	/* A report without progress by the first node's agent proves nothing. Nor does the
	 * provider's "running": it said so all the time. */
	agent_says(w, 1, job, 1, 40);
	for (int i = 0; i < LIMIT / 20 &&
	     world_int(w,
		 "SELECT count(*) FROM node WHERE id = 1 AND provider_state = 'running'") == 0;
	     i++) {
		w->cloud.list[0].state = SPOT_INSTANCE_RUNNING;
		world_for(w, 20);
	}
	asked_more(w, 4);
	world_check_counters(w, 0, 0, "");
	agent_says(w, 1, job, 1, 41);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM event WHERE event = 'WAS_ALIVE' AND node_id = 1 AND job_id = 1 "
	    "AND why LIKE '%at step 41%'");
	world_check_counters(w, 1, 0, "silent");
	agent_says(w, 1, job, 1, 42);
	world_for(w, 200);
	world_check_counters(w, 1, 0, "silent");
	w->cloud.ends_slowly = false;
	w->cloud.list[0].state = SPOT_INSTANCE_GONE;
	world_finish(w, job);
}

/* Runs a job, and silences its agent for good. */
static int64_t falls_silent(struct world *w)
{
	int64_t job;

	world_reset(w, true);
	w->conf.agent_lost_us = 2 * SPOT_US_PER_S;
	job = world_running(w);
	agent_says(w, 1, job, 1, 40);
	w->agents = false;
	return job;
}

/* The simulation found it (seeds 1469, 1531): a dead agent had spoken, by times to come, for as
 * long as the clock had been ahead. */
static void test_times_of_a_clock_ahead_hide_no_loss(void **state)
{
	struct world *w = *state;
	int64_t job;

	job = falls_silent(w);
	world_sql(w,
	    "UPDATE node SET state_us = state_us + 9000000000, ready_us = ready_us + 9000000000, "
	    "last_seen_us = last_seen_us + 9000000000,"
	    " provider_seen_us = provider_seen_us + 9000000000, provider_since_us = "
	    "provider_since_us + 9000000000;"
	    " INSERT INTO rate_bucket (key, tokens, updated_us) VALUES ('ahead', 0, "
	    "9000000000000000);"
	    " INSERT INTO feed (provider, region, feed, next_us, since_us) VALUES ('fake', "
	    "'ahead', 'pools', 9000000000000000, 9000000000000000);"
	    " UPDATE leader SET epoch = epoch + 1, until_us = 0");
	world_until(w, LIMIT, VERDICT("silent"));
	/* Nor does it keep calls and prices waiting. */
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM rate_bucket WHERE key = 'ahead' AND updated_us "
			     "< 9000000000000000"),
	    1);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM feed WHERE region = 'ahead' AND "
			     "greatest(next_us, since_us) < 9000000000000000"),
	    1);
	w->agents = true;
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 2");
	world_finish(w, job);
}

static void test_a_dead_agent_is_given_up_rightly(void **state)
{
	struct world *w = *state;
	int64_t job;

	job = falls_silent(w);
	world_until(w, LIMIT, VERDICT("silent"));
	/* Agents that speak again would speak for this machine, too, for as long as it is there. */
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE id = 1 AND state = 'GONE'");
	w->agents = true;
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 2");
	world_finish(w, job);
	assert_int_equal((int64_t)world_metric(w, "spot_verdicts_total", "silent"), 1);
	world_check_counters(w, 0, 0, "");
}

static void test_a_provider_that_takes_its_word_back(void **state)
{
	struct world *w = *state;
	int64_t job;

	world_reset(w, true);
	w->cloud.ends_slowly = true;
	job = world_running(w);
	w->cloud.list[0].state = SPOT_INSTANCE_GONE;
	world_until(w, LIMIT, VERDICT("lost"));
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM verdict WHERE kind = 'lost' AND "
			     "seen->'provider'->>'state' = 'gone'"
			     " AND seen->'provider'->>'since@' = "
			     "seen->'provider'->'past'->-1->>'@' AND "
			     "seen->'provider'->'past'->-1->>'by' = 'asked'"),
	    1);
	world_check_counters(w, 0, 0, "");
	/* The machine is there after all. The first to see it is the node's check, or the sweep for
	 * orphans. */
	for (int i = 0; i < LIMIT / 20 &&
	     world_int(w, "SELECT count(*) FROM verdict WHERE false_us IS NOT NULL") == 0;
	     i++) {
		w->cloud.list[0].state = SPOT_INSTANCE_RUNNING;
		world_for(w, 20);
	}
	world_check_counters(w, 1, 0, "lost");
	w->cloud.ends_slowly = false;
	w->cloud.list[0].state = SPOT_INSTANCE_GONE;
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 2");
	world_finish(w, job);
}

/* It was asked about when it ran; its provider told that it was gone before it answered that. */
static void test_an_answer_that_is_older_than_the_verdict_does_not_take_it_back(void **state)
{
	struct world *w = *state;
	int64_t job;

	world_reset(w, true);
	w->cloud.watches = true;
	w->cloud.watch_delay_us = 20000;
	w->conf.call_timeout_us = LIMIT * 1000;
	w->conf.reclaim_cool_us = 1000;
	/* A row that is over hears no answer. */
	world_sql(w,
	    "CREATE FUNCTION not_now() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; "
	    "END $$;"
	    "CREATE TRIGGER not_now BEFORE UPDATE ON node FOR EACH ROW WHEN (new.state = 'GONE') "
	    "EXECUTE FUNCTION not_now()");
	job = world_running(w);
	w->cloud.describe_after_us = 2 * SPOT_US_PER_S;
	asked_more(w, 1);
	snprintf(w->cloud.watch_gone, sizeof(w->cloud.watch_gone), "%s", w->cloud.list[0].ref);
	w->cloud.list[0].state = SPOT_INSTANCE_GONE;
	world_until(w, LIMIT, VERDICT("reclaimed"));
	w->cloud.describe_after_us = 0;
	asked_more(w, 4);
	world_check_counters(w, 0, 0, "");
	world_sql(w, "DROP TRIGGER not_now ON node; NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 2");
	world_finish(w, job);
}

static void test_a_machine_that_boots_after_its_time_was_given_up_wrongly(void **state)
{
	struct world *w = *state;
	int64_t job;

	world_reset(w, true);
	w->agents = false;
	w->conf.boot_timeout_us = 1500000;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	job = world_job(w, "{}");
	world_until(w, LIMIT, VERDICT("boot_timeout"));
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM verdict WHERE kind = 'boot_timeout' AND node_id "
			     "= 1 AND job_id = 1 AND epoch IS NULL"
			     " AND seen->'agent'->'enrolled@' = 'null' AND seen->'job' = 'null' "
			     "AND since_us IS NULL"),
	    1);
	w->agents = true;
	world_check_counters(w, 0, 0, "");
	world_sql(w,
	    "INSERT INTO enrol_proof (node_id, boot_id, sha256, proof, asked_us, verdict) VALUES "
	    "(1, 'b', repeat('0', 64), '{}', %" PRId64 ", 'denied')",
	    world_us());
	world_until(w, LIMIT,
	    "SELECT count(*) FROM verdict WHERE kind = 'boot_timeout' AND node_id = 1 AND "
	    "false_why LIKE '%came to enrol%'");
	world_check_counters(w, 1, 0, "boot_timeout");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	world_finish(w, job);
}

/* Its provider does not answer, its agent is silent: nobody may decide before one of them tells.
 * That takes too long. */
static void test_a_loss_that_was_found_late_is_counted(void **state)
{
	struct world *w = *state;
	int64_t job;

	world_reset(w, true);
	w->conf.agent_lost_us = 60 * SPOT_US_PER_S;
	w->conf.loss_bound_us = SPOT_US_PER_S;
	job = world_running(w);
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE provider_state = 'running'");
	w->agents = false;
	w->cloud.list[0].state = SPOT_INSTANCE_GONE;
	w->cloud.describe_faults = 1000;
	world_for(w, 1500);
	assert_int_equal(
	    world_int(w, "SELECT count(*) FROM verdict WHERE kind NOT IN ('suspected', 'healthy')"),
	    0);
	assert_true(w->cloud.describe_faults < 1000);
	w->cloud.describe_faults = 0;
	world_until(w, LIMIT, VERDICT("lost"));
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM verdict WHERE kind = 'lost' AND missed AND "
			     "at_us - since_us > 1000000"
			     " AND since_us = (seen->'agent'->>'spoke@')::int8 AND "
			     "(seen->'provider'->>'unanswered@')::int8 > since_us"
			     " AND seen->'provider'->>'unanswered_why' LIKE '%out of order%'"),
	    1);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM verdict WHERE kind = 'suspected' AND "
			     "(seen->'provider'->>'unanswered')::int4 > 0"),
	    1);
	world_check_counters(w, 0, 1, "lost");
	w->agents = true;
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 2");
	world_finish(w, job);
}

/* A loss that was not heard because nobody listened is not a missed loss. */
static void test_a_loss_while_no_daemon_listened_is_not_counted_as_missed(void **state)
{
	struct world *w = *state;
	int64_t job;

	world_reset(w, true);
	w->conf.loss_bound_us = 30 * SPOT_US_PER_S;
	job = world_running(w);
	world_kill(w);
	w->cloud.list[0].state = SPOT_INSTANCE_GONE;
	world_sql(w,
	    "UPDATE node SET last_seen_us = last_seen_us - 60000000, ready_us = ready_us - "
	    "60000000");
	world_start(w);
	w->agents = false;
	world_until(w, LIMIT, VERDICT("lost"));
	w->agents = true;
	world_check_counters(w, 0, 0, "");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM verdict WHERE kind = 'lost' AND since_us = "
			     "(seen->'daemon'->>'listens@')::int8"),
	    1);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 2");
	world_finish(w, job);
}

static void test_suspicion_and_health_again(void **state)
{
	struct world *w = *state;
	int64_t job;

	world_reset(w, true);
	/* it speaks more often, on a busy machine too */
	w->conf.agent_silent_us = 2 * SPOT_US_PER_S;
	w->conf.agent_lost_us = 60 * SPOT_US_PER_S;
	job = world_running(w);
	w->agents = false;
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE suspect_us IS NOT NULL");
	assert_int_equal((int64_t)world_metric(w, "spot_suspected_nodes", "now"), 1);
	w->agents = true;
	world_until(w, LIMIT, VERDICT("healthy"));
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM verdict WHERE kind = 'suspected' AND job_id = 1 "
			     "AND why LIKE 'its agent is silent for %'"),
	    1);
	w->cloud.hide = true;
	world_until(w, LIMIT, "SELECT count(*) >= 2 FROM verdict WHERE kind = 'suspected'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM verdict WHERE kind = 'suspected' AND "
			     "(seen->'provider'->>'answers_without_it')::int4 > 0"
			     " AND seen->'provider'->>'state' = 'absent' AND why LIKE 'absent from "
			     "% answer% of its provider; its agent spoke %'"),
	    1);
	w->cloud.hide = false;
	world_until(w, LIMIT, "SELECT count(*) >= 2 FROM verdict WHERE kind = 'healthy'");
	assert_int_equal((int64_t)world_metric(w, "spot_suspected_nodes", "now"), 0);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM event WHERE event IN ('SUSPECTED', 'HEALTHY') "
			     "AND job_id = 1 AND node_id = 1"),
	    4);
	world_check_counters(w, 0, 0, "");
	world_finish(w, job);
	assert_int_equal(world_int(w, "SELECT count(*) FROM attempt"), 1);
}

static void test_a_job_that_is_cancelled_and_ends_with_its_machine(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	(void)world_running(w);
	w->agents = false;
	world_sql(w, "UPDATE job SET cancel_us = %" PRId64 "; NOTIFY spot_engine", world_us());
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'CANCELLING'");
	w->cloud.list[0].state = SPOT_INSTANCE_GONE;
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'CANCELLED'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM verdict WHERE kind = 'job_lost' AND job_id = 1 "
			     "AND epoch = 1 AND why LIKE 'n1 is lost: %'"
			     " AND seen->'provider'->>'state' = 'gone' AND seen->'job'->>'job' = "
			     "'j1'"),
	    1);
	world_check_end(w);
}

static void test_each_rank_of_a_gang_that_is_lost_has_its_evidence(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->cloud.gangs = true;
	w->conf.agent_silent_us = 5 * SPOT_US_PER_S;
	w->conf.agent_lost_us = 60 * SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	(void)world_job(w, "{\"num_nodes\": 3}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	cloud_by_ref(&w->cloud,
	    world_text(w,
		"SELECT n.ref FROM node n JOIN attempt a ON a.node_id = n.id WHERE a.rank = 2"))
	    ->state = SPOT_INSTANCE_GONE;
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 2");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM verdict WHERE kind = 'lost' AND job_id = 1 AND "
			     "epoch = 1 AND rank = 2"
			     " AND (seen->'daemon'->>'other_agents')::int4 = 2 AND "
			     "(seen->'daemon'->>'others_spoke@')::int8 >= since_us"),
	    1);
	assert_string_equal(world_text(w,
				"SELECT string_agg(rank::text, ',') FROM verdict WHERE kind = "
				"'job_lost' AND job_id = 1 AND epoch = 1"),
	    "2");
	world_check_counters(w, 0, 0, "");
	world_finish(w, 1);
}

/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_decided_or_counted_when_all_goes_well),
		cmocka_unit_test(test_an_answer_that_lacks_a_machine_and_knows_why_is_one_answer),
		cmocka_unit_test(test_a_machine_beyond_a_cut_answer_is_not_absent),
		cmocka_unit_test(test_an_agent_that_comes_back_with_progress_was_given_up_wrongly),
		cmocka_unit_test(test_times_of_a_clock_ahead_hide_no_loss),
		cmocka_unit_test(test_a_dead_agent_is_given_up_rightly),
		cmocka_unit_test(test_a_provider_that_takes_its_word_back),
		cmocka_unit_test(
		    test_an_answer_that_is_older_than_the_verdict_does_not_take_it_back),
		cmocka_unit_test(test_a_machine_that_boots_after_its_time_was_given_up_wrongly),
		cmocka_unit_test(test_a_loss_that_was_found_late_is_counted),
		cmocka_unit_test(test_a_loss_while_no_daemon_listened_is_not_counted_as_missed),
		cmocka_unit_test(test_suspicion_and_health_again),
		cmocka_unit_test(test_a_job_that_is_cancelled_and_ends_with_its_machine),
		cmocka_unit_test(test_each_rank_of_a_gang_that_is_lost_has_its_evidence),
	};

	if (argc > 1) {
		cmocka_set_test_filter(argv[1]);
	}
	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
