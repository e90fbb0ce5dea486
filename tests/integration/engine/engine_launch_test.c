/* Launches of which one try says nothing about another, ids that are given out again, and providers
 * that nobody can ask. */
#include "engine_world.h"
#include "io/httpd/httpd.h"

/* ---- doubt within one call ------------------------------------------------------------------- */

static int faults;

static void fault_serve(void *ctx UNUSED, struct httpd_req *r)
{
	httpd_reply(r, faults-- > 0 ? 500 : 200, "text/plain", "", 0);
}

/* The first try of a launch makes machines and is answered HTTP 500; the test sets the answer to
 * the next. */
static void launched_in_doubt(struct world *w, const char *spec)
{
	static char url[64];
	struct httpd_conf conf = { .address = "127.0.0.1", .handle = fault_serve };
	struct httpd *h;
	struct spot_err err = { 0 };

	world_pool(w, "z1", "a1", "on_demand", 1000000);
	world_start(w);
	faults = 1;
	assert_int_equal(httpd_new(w->loop, &conf, &h, &err), SPOT_OK);
	snprintf(url, sizeof(url), "http://127.0.0.1:%d/launch", httpd_port(h));
	w->cloud.wire = url;
	world_job(w, spec);
	world_until(w, LIMIT, "SELECT count(*) FROM event WHERE was = 'LAUNCHING'");
	w->cloud.wire = NULL;
	httpd_free(h);
	world_until_job(w, "RUNNING");
}

static void found_and_alone(struct world *w, int64_t machines)
{
	assert_int_equal((int64_t)w->cloud.n, machines);
	assert_int_equal(cloud_doubled(&w->cloud), 0);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), machines);
	assert_int_equal(world_int(w, "SELECT count(*) FROM event WHERE event = 'FOUND'"),
	    machines);
	world_exit_all(w);
	world_until(w, LIMIT, "SELECT bool_and(state = 'SUCCEEDED')::int FROM job");
	world_check_end(w);
}

static void test_a_refusal_after_a_try_in_doubt_proves_nothing(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->cloud.denies = 1;
	launched_in_doubt(w, "{}");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM event WHERE event = 'AMBIGUOUS' AND why LIKE "
			     "'its repeat was refused: %'"),
	    1);
	found_and_alone(w, 1);
}

/* A repeat may differ from the launch: a daemon of another version wrote its user data. */
static void test_a_token_that_was_used_otherwise_has_a_machine(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->cloud.denies = 1;
	w->cloud.denies_rc = SPOT_MISMATCH;
	launched_in_doubt(w, "{}");
	found_and_alone(w, 1);
}

static void test_a_gangs_refusal_after_a_try_in_doubt_proves_nothing(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->cloud.gangs = true;
	w->cloud.denies = 1;
	launched_in_doubt(w, "{\"num_nodes\": 3}");
	found_and_alone(w, 3);
}

static void test_a_launch_put_off_after_a_try_in_doubt_is_looked_up(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->cloud.throttle = 1;
	launched_in_doubt(w, "{}");
	found_and_alone(w, 1);
}

static void test_without_tokens_no_refusal_after_a_try_in_doubt_proves_anything(void **state)
{
	struct world *w = *state;

	world_reset(w, false);
	w->cloud.throttle = 1;
	launched_in_doubt(w, "{}");
	found_and_alone(w, 1);

	world_reset(w, false);
	cloud_room(&w->cloud, "z1/a1/on_demand", 1);
	launched_in_doubt(w, "{}");
	found_and_alone(w, 1);
}

/* ---- ids that are given out again ------------------------------------------------------------ */

/* The rows of the launch under way are another's now, as on a standby that was behind: same ids,
 * another token. */
static void rows_become_anothers(struct world *w)
{
	world_sql(w,
	    "UPDATE node SET token = 'spt-cafe0001-another-' || id, name = 'brk.another.' || id, "
	    "claim_until_us = 0 "
	    "WHERE state = 'LAUNCHING'");
}

static void rows_are_anothers(struct world *w)
{
	for (int i = 0; i < LIMIT / 10 && w->cloud.n == 0; i++) {
		world_for(w, 10);
	}
	rows_become_anothers(w);
}

static void test_a_late_reply_is_not_given_to_another_launch_with_its_id(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "on_demand", 1000000);
	w->cloud.reply_after_us = 300000;
	w->conf.orphan_grace_us = 2 * SPOT_US_PER_S; /* it is there when its reply comes */
	world_start(w);
	world_job(w, "{}");
	rows_are_anothers(w);
	w->cloud.reply_after_us = 0;
	world_until_job(w, "RUNNING");
	assert_int_equal(
	    world_int(w, "SELECT count(*) FROM event WHERE entity = 'node' AND why LIKE 'i-1 %'"),
	    0);
	assert_string_equal(world_text(w, "SELECT ref FROM node WHERE state = 'READY'"), "i-2");
	/* Nobody has a row for it: the sweep ends it. */
	world_until(w, LIMIT,
	    "SELECT count(*) FROM orphan WHERE ref = 'i-1' AND gone_us IS NOT NULL");
	world_exit_all(w);
	world_empty(w);
}

static void test_a_gangs_late_reply_is_not_given_to_another_with_its_ids(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "on_demand", 1000000);
	w->cloud.gangs = true;
	w->cloud.reply_after_us = 300000;
	w->conf.orphan_grace_us = 2 * SPOT_US_PER_S; /* it is there when its reply comes */
	world_start(w);
	world_job(w, "{\"num_nodes\": 2}");
	rows_are_anothers(w);
	w->cloud.reply_after_us = 0;
	world_until_job(w, "RUNNING");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM event WHERE entity = 'node' AND (why LIKE 'i-1 "
			     "%' OR why LIKE 'i-2 %')"),
	    0);
	assert_string_equal(world_text(w,
				"SELECT string_agg(ref, ' ' ORDER BY ref) FROM node WHERE state = "
				"'READY'"),
	    "i-3 i-4");
	world_until(w, LIMIT,
	    "SELECT count(*) = 2 FROM orphan WHERE ref IN ('i-1', 'i-2') AND gone_us IS NOT NULL");
	world_exit_all(w);
	world_empty(w);
}

static struct httpd_req *held;

static void request_hold(void *ctx UNUSED, struct httpd_req *r)
{
	held = r;
}

/* The cloud's refusal comes when another daemon has claimed the launch's rows; then the cloud takes
 * all. */
static void refused_late(struct world *w, const char *spec, const int *calls)
{
	static char url[64];
	struct httpd_conf conf = { .address = "127.0.0.1", .handle = request_hold };
	struct httpd *h;
	struct spot_err err = { 0 };

	held = NULL;
	world_start(w);
	assert_int_equal(httpd_new(w->loop, &conf, &h, &err), SPOT_OK);
	snprintf(url, sizeof(url), "http://127.0.0.1:%d/launch", httpd_port(h));
	w->cloud.wire = url;
	world_job(w, spec);
	for (int i = 0; i < LIMIT / 10 && held == NULL; i++) {
		world_for(w, 10);
	}
	assert_non_null(held);
	rows_become_anothers(w);
	httpd_reply(held, 200, "text/plain", "", 0);
	for (int i = 0; i < LIMIT / 10 && *calls == 0; i++) {
		world_for(w, 10);
	}
	w->cloud.wire = NULL;
	httpd_free(h);
	cloud_room(&w->cloud, "z1/a1/on_demand", 9);
	world_until_job(w, "RUNNING");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM event WHERE entity = 'node' AND (event = "
			     "'REFUSED' OR why LIKE 'fake launch%')"),
	    0);
	assert_int_equal(world_int(w, "SELECT count(*) FROM pool_cool"), 0);
	world_exit_all(w);
	world_empty(w);
}

static void test_a_late_refusal_is_not_given_to_another_launch_with_its_id(void **state)
{
	struct world *w = *state;

	for (int gang = 0; gang < 2; gang++) {
		world_reset(w, true);
		world_pool(w, "z1", "a1", "on_demand", 1000000);
		w->cloud.gangs = gang;
		cloud_room(&w->cloud, "z1/a1/on_demand", 0);
		refused_late(w, gang ? "{\"num_nodes\": 2}" : "{}",
		    gang ? &w->cloud.gang_launches : &w->cloud.launches);
	}
}

static void test_a_launch_put_off_late_does_not_put_off_another_with_its_id(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "on_demand", 1000000);
	w->cloud.throttle = 1;
	refused_late(w, "{}", &w->cloud.launches);
}

/* ---- providers that are not configured any more ---------------------------------------------- */

/* So many nodes at a provider without a section in the configuration; they are as old as anything,
 * so that they come first. */
static void nodes_forget(struct world *w, int n, const char *state, bool refs)
{
	world_sql(w,
	    "WITH p AS (INSERT INTO pool (provider, region, zone, zone_name, instance_type, "
	    "market, gpu_name, gpu_milli, gpu_mem_mib, vcpus, "
	    "mem_mib, arch, quota_class, offered, seen_us) SELECT 'removed', region, zone, "
	    "zone_name, instance_type, market, gpu_name, gpu_milli, "
	    "gpu_mem_mib, vcpus, mem_mib, arch, quota_class, false, 1 FROM pool LIMIT 1 RETURNING "
	    "id) "
	    "INSERT INTO node (pool_id, state, state_us, token, name, price_micros, created_us, "
	    "launched_us, launch_sent_us, why, ref) "
	    "SELECT p.id, '%s', %" PRId64 ", 'spt-old-' || i, 'brk.old.' || i, 1000000, 1, %" PRId64
	    ", 1, '', %s FROM p, generate_series(1, %d) i",
	    state, world_us(), world_us(), refs ? "'i-old-' || i" : "NULL", n);
}

static void test_unknown_launches_of_a_gone_provider_delay_no_others(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "on_demand", 1000000);
	nodes_forget(w, 60, "UNKNOWN", false);
	w->cloud.lose_replies = 1;
	world_run_job(w, "{}");
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE state = 'UNKNOWN'"), 60);
}

static void test_machines_of_a_gone_provider_delay_no_others_end(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "on_demand", 1000000);
	nodes_forget(w, 210, "TERMINATING", true);
	world_run_job(w, "{}");
	world_exit_all(w);
	world_until_node(w, "GONE");
	assert_int_equal(cloud_live(&w->cloud), 0);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE state = 'TERMINATING'"),
	    210);
	/* A row that never had a machine needs no confirmation of its end. */
	world_sql(w, "UPDATE node SET ref = NULL WHERE state = 'TERMINATING'; NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) = 211 FROM node WHERE state = 'GONE'");
}

static void test_proofs_of_a_provider_that_is_gone_keep_no_others_from_being_judged(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "on_demand", 1000000);
	w->cloud.verifies = true;
	w->agents = false;
	w->conf.boot_timeout_us = LIMIT * 1000;
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE ref = 'i-1'");
	world_kill(w);
	nodes_forget(w, 60, "BOOTING", true);
	world_sql(w, "UPDATE node SET job_id = (SELECT id FROM job)"); /* somebody needs them */
	world_sql(w,
	    "INSERT INTO enrol_proof (node_id, boot_id, sha256, proof, asked_us) SELECT id, 'b', "
	    "repeat('a', 64), 'x', 1 FROM node WHERE ref <> 'i-1'");
	world_start(w);
	world_sql(w,
	    "INSERT INTO enrol_proof (node_id, boot_id, sha256, proof, asked_us) SELECT id, 'b', "
	    "repeat('a', 64), '{}', 2 FROM node WHERE ref = 'i-1'; "
	    "NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) FROM enrol_proof WHERE verdict = 'denied'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM enrol_proof e JOIN node n ON n.id = e.node_id "
			     "WHERE verdict = '' AND state = 'BOOTING'"),
	    60);
}

/* ---- a long line ----------------------------------------------------------------------------- */

/* All of them were decided before the pool refused: those that would wait long to hear the same
 * look elsewhere. */
static void test_a_job_in_a_long_queue_for_a_refusing_pool_looks_elsewhere(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->conf.launches_max = 1;
	w->conf.cool_min_us = w->conf.cool_max_us = SPOT_US_PER_HOUR;
	world_pool(w, "z1", "a1", "on_demand", 1000000);
	world_pool(w, "z2", "a1", "on_demand", 2000000);
	cloud_sell_out(&w->cloud, "z1/a1/on_demand");
	(void)world_job(w, "{}");
	world_sql(w,
	    "INSERT INTO job (name, owner, team, project, class, spec, source, state, state_us, "
	    "created_us, queued_us)"
	    " SELECT name, owner, team, project, class, spec, source, state, state_us, created_us, "
	    "queued_us FROM job, generate_series(2, 80);"
	    "INSERT INTO node (pool_id, state, state_us, token, name, price_micros, "
	    "price_cap_micros, created_us, job_id, why)"
	    " SELECT 1, 'WANTED', 1, 'spt-line-' || id, 'brk.line.' || id, 1000000, 1000000, 1, "
	    "id, '' FROM job ORDER BY id");
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) = 80 FROM job WHERE state = 'RUNNING'");
	assert_in_range(world_int(w, "SELECT count(*) FROM node WHERE end_cause = 'refused'"), 1,
	    40);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM node WHERE state = 'FAILED' AND pool_id = 1"),
	    80);
	assert_int_equal(cloud_doubled(&w->cloud), 0);
	world_exit_all(w);
	world_empty(w);
}

#define T(f) cmocka_unit_test(f)
/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(test_a_refusal_after_a_try_in_doubt_proves_nothing),
		T(test_a_token_that_was_used_otherwise_has_a_machine),
		T(test_a_gangs_refusal_after_a_try_in_doubt_proves_nothing),
		T(test_a_launch_put_off_after_a_try_in_doubt_is_looked_up),
		T(test_without_tokens_no_refusal_after_a_try_in_doubt_proves_anything),
		T(test_a_late_reply_is_not_given_to_another_launch_with_its_id),
		T(test_a_gangs_late_reply_is_not_given_to_another_with_its_ids),
		T(test_a_late_refusal_is_not_given_to_another_launch_with_its_id),
		T(test_a_launch_put_off_late_does_not_put_off_another_with_its_id),
		T(test_unknown_launches_of_a_gone_provider_delay_no_others),
		T(test_machines_of_a_gone_provider_delay_no_others_end),
		T(test_proofs_of_a_provider_that_is_gone_keep_no_others_from_being_judged),
		T(test_a_job_in_a_long_queue_for_a_refusing_pool_looks_elsewhere),
	};

	return WORLD_TESTS(argc, argv, tests);
}
