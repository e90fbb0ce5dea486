/* Upkeep: URLs, the lease, planned moves, fleets. */
#include "engine_world.h"

static void test_checkpoint_urls_are_minted(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	/* Another rank that has the same bytes has a place of its own for them. */
	world_sql(w,
	    "INSERT INTO checkpoint (job_id, epoch, rank, state, reason, steps, bytes, "
	    "created_us) VALUES (1, 1, 0, 'OPEN', 'periodic', 5, 2, 1), (1, 1, 1, 'OPEN', "
	    "'periodic', 5, 1, 1);"
	    "INSERT INTO checkpoint_chunk VALUES (1, 'a', 0, 1, 420, repeat('ab', 32), "
	    "'x', true), (1, 'b', 0, 1, 420, repeat('cd', 32), 'old', false), (2, 'a', 0, 1, 420, "
	    "repeat('ab', 32), 'y', true);"
	    "NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM checkpoint WHERE urls_us IS NOT NULL");
	assert_string_equal(world_text(w,
				"SELECT string_agg(coalesce(upload_url, '-') || ' ' || object_key, "
				"', ' "
				"ORDER BY checkpoint_id, path) FROM checkpoint_chunk"),
	    "https://bucket.fake/p/cafe0001/j1/e1/r0/"
	    "abababababababababababababababababababababababababababababababab?PUT "
	    "p/cafe0001/j1/e1/r0/abababababababababababababababababababababababababababababababab, "
	    "- "
	    "old, https://bucket.fake/p/cafe0001/j1/e1/r1/"
	    "abababababababababababababababababababababababababababababababab?PUT "
	    "p/cafe0001/j1/e1/r1/abababababababababababababababababababababababababababababababab");
	world_finish(w, 1);
}

static void test_how_to_upload_is_minted_and_blanked_when_the_attempt_ends(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	w->cloud.uploads_how = 'b';
	w->cloud.uploads_header = true;
	world_start(w);
	world_job(w, "{\"mounts\":[{\"dst\":\"data\",\"uri\":\"s3://bucket/k\"}]}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	assert_string_equal(
	    world_text(w, "SELECT files->0->'chunks'->0->'headers'->>'x-fake-kind' FROM attempt"),
	    "block");
	world_sql(w,
	    "INSERT INTO checkpoint (job_id, epoch, state, reason, steps, bytes, created_us) "
	    "VALUES (1, 1, 'OPEN', "
	    "'periodic', 1, 5, 1); INSERT INTO checkpoint_chunk SELECT 1, 'm', 0, 5, 420, "
	    "repeat('cd', 32), 'k', true; "
	    "NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) FROM checkpoint WHERE urls_us IS NOT NULL");
	assert_string_equal(world_text(w,
				"SELECT upload_how || ' ' || (upload_headers->>'x-fake-kind') FROM "
				"checkpoint_chunk"),
	    "blocks block");
	world_sql(w,
	    "UPDATE attempt SET phase = 'EXITED', exit_reason = 'ok', exit_code = 0, ended_us = "
	    "%" PRId64 "; NOTIFY spot_engine",
	    world_us());
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'SUCCEEDED'");
	assert_int_equal(world_int(w, "SELECT count(*) FROM attempt WHERE files <> '[]'"), 0);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM checkpoint_chunk WHERE upload_url IS NOT NULL "
			     "OR upload_headers IS NOT NULL"),
	    0);
	assert_string_equal(world_text(w, "SELECT state FROM checkpoint"), "ABANDONED");
	world_empty(w);
}

static void job_with_files(struct world *w)
{
	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_job(w, "{\"mounts\":[{\"dst\":\"data\",\"uri\":\"s3://bucket/k\"}]}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
}

/* An agent that is still fetching reports SETUP; a store honours neither expired URLs nor those
 * that a clock ahead signed. */
static void test_download_urls_are_signed_anew_until_the_files_are_there(void **state)
{
	struct world *w = *state;

	job_with_files(w);
	for (int ahead = 0; ahead < 2; ahead++) {
		world_sql(w,
		    "UPDATE attempt SET phase = 'SETUP', version = 1, urls_until_us = %" PRId64
		    "; NOTIFY spot_engine",
		    world_us() + ahead * 2 * w->conf.url_life_us);
		world_until(w, LIMIT, "SELECT count(*) FROM attempt WHERE version = 2");
	}
	world_finish(w, 1);
}

/* Each rank has files of its own: one fetches still, the other has begun. */
static void test_download_urls_that_are_signed_anew_go_to_their_rank(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->cloud.gangs = true;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_job(w, "{\"num_nodes\":2,\"mounts\":[{\"dst\":\"data\",\"uri\":\"s3://bucket/k\"}]}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	world_sql(w,
	    "UPDATE attempt SET version = 1, files = '[]', phase = CASE rank WHEN 1 THEN 'SETUP' "
	    "ELSE phase END, urls_until_us = %" PRId64 "; NOTIFY spot_engine",
	    world_us());
	world_until(w, LIMIT,
	    "SELECT count(*) FROM attempt WHERE rank = 1 AND version = 2 AND files <> '[]'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt WHERE rank = 0 AND version = 1 AND "
			     "files = '[]'"),
	    1);
	world_exit_all(w);
	world_check_gangs(w);
}

/* The keys of a role live for an hour: their URLs end with them, whatever their own lifetime. It is
 * signed anew before that, and not at each pass. */
static void test_download_urls_end_with_what_signed_them(void **state)
{
	struct world *w = *state;
	int64_t end = world_us() + 20 * 60 * SPOT_US_PER_S, version;
	char signed_anew[100];

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	w->cloud.urls_until_us = world_us() + 2 * 60 * SPOT_US_PER_S;
	world_start(w);
	world_job(w, "{\"mounts\":[{\"dst\":\"data\",\"uri\":\"s3://bucket/k\"}]}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	assert_int_equal(world_int(w, "SELECT urls_until_us FROM attempt"), w->cloud.urls_until_us);
	w->cloud.urls_until_us = end;
	world_sql(w, "UPDATE attempt SET phase = 'SETUP', version = 1; NOTIFY spot_engine");
	/* A signing that began before that may come first. */
	snprintf(signed_anew, sizeof(signed_anew),
	    "SELECT (urls_until_us = %" PRId64 ")::int FROM attempt", end);
	world_until(w, LIMIT, signed_anew);
	version = world_int(w, "SELECT version FROM attempt");
	assert_true(version > 1);
	world_sql(w,
	    "INSERT INTO checkpoint (job_id, epoch, state, reason, steps, bytes, created_us) "
	    "VALUES (1, 1, 'OPEN', 'periodic', 1, 0, 1); NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) FROM checkpoint WHERE urls_us IS NOT NULL");
	assert_int_equal(world_int(w, "SELECT version FROM attempt"), version);
	world_finish(w, 1);
}

/* A provider may have signed by an old estimate of our clock: the store refuses such URLs for an
 * hour, and the job would fail. */
static void test_download_urls_are_signed_anew_after_our_clock_was_set(void **state)
{
	struct world *w = *state;

	job_with_files(w);
	for (int back = 0; back < 2; back++) {
		world_sql(w, "UPDATE attempt SET phase = 'SETUP', version = 1");
		steady_set(back ? -10 * SPOT_US_PER_S : 10 * SPOT_US_PER_S);
		/* the first may be as wrong */
		world_until(w, LIMIT, "SELECT count(*) FROM attempt WHERE version > 2");
	}
	world_finish(w, 1);
}

static void test_a_second_writer_of_a_transition_gets_no_row(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	/* Another daemon takes the lease by force: the first must stop at once and change nothing
	 * more. */
	world_sql(w, "UPDATE leader SET epoch = epoch + 1, holder = 'other', until_us = %" PRId64,
	    world_us() + 60000000);
	world_sql(w, "UPDATE job SET cancel_us = 1; NOTIFY spot_engine");
	world_for(w, 500);
	world_deposed(w);
	assert_int_equal(world_int(w, "SELECT count(*) FROM job WHERE state = 'RUNNING'"), 1);
	world_sql(w, "UPDATE leader SET until_us = 0");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'CANCELLED'");
	world_check_end(w);
}

/* The simulation found that a lease was renewed only when a pass came by. */
static void test_the_lease_is_renewed_although_nothing_else_happens(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->conf.tick_us = 60 * SPOT_US_PER_S;
	/* renewed after a third: no busy machine comes later than at the end */
	w->conf.lease_us = 8 * SPOT_US_PER_S;
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM leader");
	world_idle(w, w->conf.lease_us + SPOT_US_PER_S);
	assert_int_equal(world_int(w, "SELECT max(epoch) FROM leader"), 1);
	assert_true(engine_leads(w->engine));
}

static void test_rebalance_dry_run_proposes_and_a_real_one_moves(void **state)
{
	struct world *w = *state;
	int cheap;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 4000000);
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	cheap = world_pool(w, "z2", "a1", "spot", 1000000);
	for (int dry = 1; dry >= 0; dry--) {
		world_sql(w,
		    "INSERT INTO decision (at_us, kind, inputs, outcome, why) VALUES (1, "
		    "'rebalance_request',"
		    " '{\"dry_run\":%s}', '{\"state\":\"pending\"}', ''); NOTIFY spot_engine",
		    dry ? "true" : "false");
		world_until(w, LIMIT,
		    "SELECT bool_and(outcome->>'state' = 'done')::int FROM decision WHERE "
		    "kind = 'rebalance_request'");
		if (dry) {
			world_for(w, 100);
			assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 1);
		} else {
			world_until(w, LIMIT, "SELECT count(*) = 2 FROM node");
		}
	}
	assert_int_equal(world_int(w,
			     "SELECT min(jsonb_array_length(outcome->'moves')) FROM "
			     "decision WHERE kind = 'rebalance_request'"),
	    1);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 2");
	assert_int_equal(world_int(w, "SELECT pool_id FROM attempt WHERE epoch = 2"), cheap);
	world_finish(w, 1);
}

/* Nothing would be saved: the move would begin its ten hours again, whatever the other pool
 * costs. */
static void test_a_job_that_saves_nothing_is_not_moved(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 4000000);
	world_start(w);
	world_job(w, "{\"checkpoint\":{}}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	world_pool(w, "z2", "a1", "spot", 1000000);
	world_sql(w,
	    "INSERT INTO decision (at_us, kind, inputs, outcome, why) VALUES (1, "
	    "'rebalance_request',"
	    " '{\"dry_run\":false}', '{\"state\":\"pending\"}', ''); NOTIFY spot_engine");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM decision WHERE kind = 'rebalance_request' AND outcome->>'state' "
	    "= 'done'");
	assert_string_equal(world_text(w,
				"SELECT coalesce(outcome->'kept'->0->>'why', outcome::text) FROM "
				"decision WHERE kind = 'rebalance_request'"),
	    "it saves nothing: a move would throw away what it has done");
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 1);
	world_finish(w, 1);
}

/* Ten hours of work in fifteen: spot may take five hours of it away and no more. */
static void test_a_deadline_allows_spot_only_as_far_as_work_is_saved(void **state)
{
	static const struct {
		const char *extra, *market;
	} cases[] = { { "{}", "spot" }, { "{\"checkpoint\":{}}", "on_demand" } };
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		world_reset(w, true);
		world_pool(w, "z1", "a1", "spot", 1000000);
		world_pool(w, "z1", "a1", "on_demand", 3000000);
		world_job(w, cases[i].extra);
		world_sql(w, "UPDATE job SET deadline_us = created_us + 54000000000");
		world_start(w);
		world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
		assert_string_equal(world_text(w, "SELECT market FROM attempt"), cases[i].market);
		world_finish(w, 1);
	}
}

/* It was placed on spot with time in hand; reclaims eat more than the deadline leaves. */
static void test_spot_that_is_too_slow_for_the_deadline_is_left_for_on_demand(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z1", "a1", "on_demand", 3000000);
	world_job(w, "{}");
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	assert_string_equal(world_text(w, "SELECT market FROM attempt"), "spot");
	world_sql(w, "UPDATE job SET deadline_us = created_us + 100 * 3600000000");
	world_for(w, 300);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 1);
	world_sql(w,
	    "UPDATE job SET deadline_us = created_us + 10 * 3600000000; NOTIFY spot_engine");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job j JOIN attempt a ON a.job_id = j.id AND a.epoch = j.epoch"
	    " WHERE j.state = 'RUNNING' AND a.market = 'on_demand'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision WHERE kind = 'failover' AND why LIKE "
			     "'%h are left%'"),
	    1);
	world_finish(w, 1);
}

static void test_a_reservation_is_used_before_anything_is_bought(void **state)
{
	static const char *const extras[] = { "{}", "{\"interruptible\":false}" };
	struct world *w = *state;

	for (size_t i = 0; i < 2 * ARRAY_LEN(extras); i++) {
		world_reset(w, true);
		world_pool(w, "z1", "a1", "spot", 1000000);
		world_pool(w, "z1", "a1", "on_demand", 3000000);
		world_pool(w, "z1", "a1", "reserved", 1000);
		world_job(w, extras[i % 2]);
		world_sql(w, "UPDATE job SET deadline_us = %s",
		    i < 2 ? "NULL" : "created_us + 40 * 3600000000");
		world_start(w);
		world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
		assert_string_equal(world_text(w, "SELECT market FROM attempt"), "reserved");
		world_finish(w, 1);
	}
}

static void test_an_off_peak_job_begins_in_the_hour_that_was_cheap(void **state)
{
	struct world *w = *state;
	int64_t hour, now = world_us();
	int pool;

	world_reset(w, true);
	pool = world_pool(w, "z1", "a1", "spot", 1000000);
	hour = (now / SPOT_US_PER_HOUR + 3) % 24;
	world_sql(w,
	    "CREATE TABLE pp PARTITION OF price_point FOR VALUES FROM (0) TO (9000000000000000);"
	    "INSERT INTO price_point SELECT %d, t, t, CASE t / 3600000000 %% 24 WHEN %" PRId64
	    " THEN 400000 ELSE 1000000 END, 'test'"
	    " FROM generate_series(%" PRId64 ", %" PRId64 ", 3600000000) t",
	    pool, hour, (now / SPOT_US_PER_HOUR - 24 * 13) * SPOT_US_PER_HOUR, now);
	world_job(w, "{\"work_s\":1500,\"off_peak\":true}");
	world_job(w, "{\"work_s\":1500,\"off_peak\":true,\"num_nodes\":2}");
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM job WHERE not_before_us IS NOT NULL");
	assert_int_equal(world_int(w, "SELECT min(not_before_us) / 3600000000 % 24 FROM job"),
	    hour);
	assert_int_equal(world_int(w, "SELECT max(not_before_us) / 3600000000 % 24 FROM job"),
	    hour);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision WHERE kind = 'defer'"
			     " AND jsonb_array_length(inputs->'hours') = 24"),
	    2);
	world_for(w, 200);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 0);
}

static void test_a_fleet_grows_serves_a_job_shrinks_and_closes(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	for (int i = 0; i < 6; i++) {
		char zone[8];

		snprintf(zone, sizeof(zone), "z%d", i);
		world_pool(w, zone, "a1", "spot", 1000000 + i * 10000);
	}
	world_start(w);
	world_sql(w,
	    "INSERT INTO fleet (name, owner, team, project, spec, state, created_us, "
	    "updated_us) VALUES ('f', 'me', 'ml', 'p',"
	    " '{\"nodes\":4,\"asks\":[{\"gpus\":[{\"gpu\":\"A100\",\"milli\":1000}]}]}', "
	    "'ACTIVE', 1, 1); NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) = 4 FROM node WHERE state = 'READY'");
	assert_true(world_int(w, "SELECT count(DISTINCT pool_id) FROM node") >= 4);
	world_for(w, 300);
	assert_int_equal(w->cloud.launches, 4);
	world_sql(w, "BEGIN");
	world_job(w, "{}");
	world_sql(w, "UPDATE job SET fleet_id = 1; COMMIT");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	world_sql(w,
	    "UPDATE fleet SET spec = jsonb_set(spec, '{nodes}', '1'), version = version + "
	    "1; NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) = 1 FROM node WHERE state = 'READY'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 1"),
	    1);
	world_sql(w,
	    "UPDATE fleet SET state = 'CLOSING'; UPDATE attempt SET phase = 'EXITED', "
	    "exit_reason = 'ok', ended_us = %" PRId64 " WHERE ended_us IS NULL; NOTIFY spot_engine",
	    world_us());
	world_until(w, LIMIT, "SELECT count(*) FROM fleet WHERE state = 'CLOSED'");
	/* A job that still waits for it is told. */
	world_sql(w, "BEGIN");
	world_job(w, "{}");
	world_sql(w, "UPDATE job SET fleet_id = 1 WHERE id = 2; COMMIT");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job WHERE id = 2 AND state = 'FAILED' AND reason = "
	    "'fleet_closed' AND why LIKE '%closed%'");
	world_check_end(w);
}

/* Those before them want a machine that nobody sells, or close when their machines have gone. */
static void test_of_many_fleets_each_gets_its_machines_and_is_closed(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_sql(w,
	    "INSERT INTO fleet (name, owner, team, project, spec, state, created_us, updated_us) "
	    "SELECT 'f' || i, 'me', 'ml', 'p',"
	    " jsonb_build_object('nodes', 1, 'asks', jsonb_build_array(jsonb_build_object('gpus', "
	    "jsonb_build_array(jsonb_build_object("
	    "'gpu', CASE WHEN i = 449 THEN 'A100' ELSE 'H100' END, 'milli', 1000))))),"
	    " CASE i WHEN 450 THEN 'CLOSING' ELSE 'ACTIVE' END, 1, 1 FROM generate_series(1, 450) "
	    "i");
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM fleet WHERE state = 'CLOSED'");
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE state = 'READY' AND fleet_id = 449");
	/* And again, from the first on. */
	world_sql(w, "UPDATE fleet SET state = 'CLOSING'; NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) = 450 FROM fleet WHERE state = 'CLOSED'");
	world_check_end(w);
}

/* One question holds five thousand of them; the next page follows at once, and the round begins
 * again. */
static void test_of_many_machines_in_one_region_each_is_asked_about(void **state)
{
	struct world *w = *state;
	int64_t now = world_us();

	world_reset(w, true);
	w->agents = false;
	w->conf.boot_timeout_us = w->conf.list_lag_us = SPOT_US_PER_HOUR; /* none is missed */
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_sql(w,
	    "INSERT INTO fleet (name, owner, team, project, spec, state, created_us, updated_us) "
	    "VALUES ('f', 'me', 'ml', 'p',"
	    " '{\"nodes\":5003,\"asks\":[{\"gpus\":[{\"gpu\":\"A100\",\"milli\":1000}]}]}', "
	    "'ACTIVE', 1, 1);"
	    "INSERT INTO node (pool_id, fleet_id, state, state_us, token, name, ref, price_micros, "
	    "created_us, launch_sent_us, launched_us, why)"
	    " SELECT id, 1, 'BOOTING', %" PRId64
	    ", 'spt-' || i, 'brk.' || i, 'i-' || i, 1000000, %" PRId64 ", %" PRId64 ", %" PRId64
	    ", ''"
	    " FROM pool, generate_series(1, 5003) i",
	    now, now, now, now);
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) = 5003 FROM node WHERE provider_state = 'absent'");
	world_sql(w,
	    "UPDATE node SET provider_state = '' WHERE id IN (SELECT min(id) FROM node UNION "
	    "SELECT max(id) FROM node)");
	world_until(w, LIMIT, "SELECT count(*) = 5003 FROM node WHERE provider_state = 'absent'");
	world_kill(w);
}

#define T(f) cmocka_unit_test(f)
/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(test_checkpoint_urls_are_minted),
		T(test_how_to_upload_is_minted_and_blanked_when_the_attempt_ends),
		T(test_download_urls_are_signed_anew_until_the_files_are_there),
		T(test_download_urls_are_signed_anew_after_our_clock_was_set),
		T(test_download_urls_that_are_signed_anew_go_to_their_rank),
		T(test_download_urls_end_with_what_signed_them),
		T(test_of_many_fleets_each_gets_its_machines_and_is_closed),
		T(test_of_many_machines_in_one_region_each_is_asked_about),
		T(test_a_second_writer_of_a_transition_gets_no_row),
		T(test_the_lease_is_renewed_although_nothing_else_happens),
		T(test_rebalance_dry_run_proposes_and_a_real_one_moves),
		T(test_a_job_that_saves_nothing_is_not_moved),
		T(test_a_deadline_allows_spot_only_as_far_as_work_is_saved),
		T(test_spot_that_is_too_slow_for_the_deadline_is_left_for_on_demand),
		T(test_a_reservation_is_used_before_anything_is_bought),
		T(test_an_off_peak_job_begins_in_the_hour_that_was_cheap),
		T(test_a_fleet_grows_serves_a_job_shrinks_and_closes),
	};

	if (argc > 1) {
		cmocka_set_test_filter(argv[1]);
	}
	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
