/* Checkpoints of many chunks and specs of many bytes: one turn signs and holds a bounded number,
 * and nobody waits behind them for long. */
#include "engine_world.h"
#include "store/q.h"

#define PAGE 128
#define BIG "20000"

/* Chunks of a checkpoint, written down in no order: of so many files, file f00 has chunks 0, n, 2n
 * ... */
#define CHUNKS \
	"INSERT INTO checkpoint_chunk SELECT %d, 'f' || lpad((i %% %d)::text, 2, '0'), i / %d, 1 " \
	"+ i %% 7, 420, lpad(to_hex(i), 64, '0'), " \
	"'k' || i, %s FROM generate_series(0, %d - 1) i ORDER BY md5(i::text);"

static void chunks_add(struct world *w, int checkpoint, int files, int n, bool fresh)
{
	world_sql(w, CHUNKS, checkpoint, files, files, fresh ? "true" : "false", n);
}

/* The files of the rank as its checkpoint has them: whole, each chunk in its place, each sum
 * right. */
static int64_t restored_ranks(struct world *w, int rank)
{
	char sql[2048];

	snprintf(sql, sizeof(sql),
	    "WITH a AS (SELECT files, restore_id FROM attempt WHERE epoch = 2 AND rank = %d), x AS "
	    "("
	    "SELECT f.n, f.v->>'path' AS path, (f.v->>'bytes')::int8 AS bytes, "
	    "string_agg(c.v->>'sha256' || (c.v->>'bytes') || (c.v->>'url'), ' '"
	    " ORDER BY c.n) AS chunks FROM a, jsonb_array_elements(a.files) WITH ORDINALITY f (v, "
	    "n),"
	    " jsonb_array_elements(f.v->'chunks') WITH ORDINALITY c (v, n) WHERE f.v->>'root' = "
	    "'checkpoint' GROUP BY 1, 2, 3),"
	    " y AS (SELECT path, sum(bytes) AS bytes, string_agg(sha256 || bytes || "
	    "'https://bucket.fake/' || object_key || '?GET', ' ' ORDER BY seq)"
	    " AS chunks FROM checkpoint_chunk k JOIN a ON k.checkpoint_id = a.restore_id GROUP BY "
	    "1)"
	    " SELECT CASE WHEN count(*) = (SELECT count(*) FROM y) AND count(*) = (SELECT count(*) "
	    "FROM x) THEN count(*) ELSE -1 END"
	    " FROM x JOIN y USING (path, bytes, chunks)",
	    rank);
	return world_int(w, sql);
}

static void job_run(struct world *w, const char *job)
{
	world_reset(w, true);
	w->agents_save = false;
	w->cloud.gangs = true;
	w->cloud.sign_leaves = 15000; /* as AWS does with the keys of a session */
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	(void)world_job(w, job);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
}

static void node_reclaim(struct world *w)
{
	w->cloud.list[0].state = SPOT_INSTANCE_GONE;
	w->cloud.list[0].cause = SPOT_END_RECLAIM;
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = 2");
}

struct look {
	struct pg_req req;
	struct arena *arena;
	size_t n;
	bool over;
};

static void look_done(struct op *op)
{
	struct look *l = container_of(container_of(op, struct pg_req, op), struct look, req);
	struct q_api_checkpoint_urls_row *row;

	assert_int_equal(op->rc, SPOT_OK);
	assert_int_equal(q_api_checkpoint_urls_rows(&l->req, l->arena, &row), 1);
	l->n = strlen(row->doc);
	l->over = true;
}

/* So many bytes the daemon reads of its first checkpoint each time it looks whether an agent may be
 * told. */
static size_t look_bytes(struct world *w)
{
	struct look l = { .arena = arena_new(0) };

	q_api_checkpoint_urls(w->pg, &l.req, &(struct q_api_checkpoint_urls){ .id = 1 }, look_done);
	while (!l.over) {
		world_for(w, 5);
	}
	pg_req_fini(&l.req);
	arena_free(l.arena);
	return l.n;
}

/* A machine is taken while another job saves twenty thousand files: its few do not wait behind
 * them. */
static void test_a_large_checkpoint_is_minted_in_parts(void **state)
{
	struct world *w = *state;

	job_run(w, "{}");
	world_sql(w,
	    "BEGIN; INSERT INTO checkpoint (job_id, epoch, rank, state, reason, steps, bytes, "
	    "created_us)"
	    " VALUES (1, 1, 0, 'OPEN', 'periodic', 5, 2, 1), (1, 1, 1, 'OPEN', 'notice', 5, 1, 1), "
	    "(1, 1, 2, 'OPEN', 'notice', 5, 1, 1);");
	chunks_add(w, 1, 10, 20000, true);
	chunks_add(w, 2, 3, 300, true);
	chunks_add(w, 3, 3, 30, true);
	world_sql(w, "COMMIT; NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) = 3 FROM checkpoint WHERE urls_us IS NOT NULL");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM checkpoint_chunk WHERE upload_url IS DISTINCT "
			     "FROM 'https://bucket.fake/' || object_key || '?PUT'"),
	    0);
	assert_int_equal(w->cloud.signed_n, 20330);
	assert_true(w->cloud.signed_most <= PAGE);
	assert_string_equal(
	    world_text(w, "SELECT string_agg(id::text, ' ' ORDER BY urls_us) FROM checkpoint"),
	    "3 2 1");
	/* And it is fetched in parts. */
	world_sql(w,
	    "UPDATE checkpoint SET state = 'COMMITTED', committed_us = 2 WHERE id = 1; UPDATE job "
	    "SET checkpoint_id = 1");
	node_reclaim(w);
	assert_int_equal(restored_ranks(w, 0), 10);
	assert_int_equal(w->cloud.signed_n, 40330);
	assert_true(w->cloud.signed_most <= PAGE);
	world_exit_all(w);
	world_empty(w);
}

/* URLs that an earlier leader signed may be of any age. */
static void test_parts_signed_by_another_leader_are_signed_again(void **state)
{
	struct world *w = *state;

	job_run(w, "{}");
	w->cloud.sign_rc = SPOT_UNAVAILABLE;
	world_sql(w,
	    "BEGIN; INSERT INTO checkpoint (job_id, epoch, state, reason, steps, bytes, "
	    "created_us) VALUES (1, 1, 'OPEN', 'periodic', 5, 2, 1)");
	chunks_add(w, 1, 3, 500, true);
	world_sql(w,
	    "UPDATE checkpoint_chunk SET upload_url = 'https://old' WHERE seq < 100; COMMIT; "
	    "NOTIFY spot_engine");
	assert_int_equal(look_bytes(w), 0);
	w->cloud.sign_rc = SPOT_OK;
	world_until(w, LIMIT, "SELECT count(*) FROM checkpoint WHERE urls_us IS NOT NULL");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM checkpoint_chunk WHERE upload_url LIKE "
			     "'https://bucket%'"),
	    500);
	assert_true(look_bytes(w) > 500 * sizeof("https://bucket.fake/"));
	world_exit_all(w);
	world_empty(w);
}

static void test_each_rank_fetches_its_own_chunks_in_order(void **state)
{
	struct world *w = *state;

	job_run(w, "{\"num_nodes\":2,\"mounts\":[{\"dst\":\"d\",\"uri\":\"s3://bucket/k\"}]}");
	world_sql(w,
	    "BEGIN; INSERT INTO checkpoint (job_id, epoch, rank, state, reason, steps, bytes, "
	    "set_key, created_us, urls_us, committed_us)"
	    " SELECT 1, 1, r, 'COMMITTED', 'periodic', 50, 9, 50, 1, 1, 1 FROM generate_series(0, "
	    "1) r");
	chunks_add(w, 1, 2, 2 * PAGE, true);
	chunks_add(w, 2, 20, 700, true);
	world_sql(w, "COMMIT; NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE checkpoint_id = 1");
	node_reclaim(w);
	assert_int_equal(restored_ranks(w, 0), 2);
	assert_int_equal(restored_ranks(w, 1), 20);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt WHERE epoch = 2 AND files->0->>'root' = "
			     "'mount' AND files->0->>'path' = 'd'"),
	    2);
	assert_true(w->cloud.signed_most <= PAGE);
	world_exit_all(w);
	world_check_gangs(w);
}

/* More mounts than a page has: they are signed in pages too, and anew. */
static void test_mounts_are_signed_in_pages(void **state)
{
	struct world *w = *state;

	job_run(w, "{}");
	world_sql(w,
	    "UPDATE job SET spec = spec || jsonb_build_object('mounts', (SELECT "
	    "jsonb_agg(jsonb_build_object('dst', 'd' || i, 'uri', 's3://bucket/k' || i)"
	    " ORDER BY i) FROM generate_series(1, 300) i));"
	    "UPDATE attempt SET phase = 'SETUP', version = 1, urls_until_us = %" PRId64
	    "; NOTIFY spot_engine",
	    world_us());
	world_until(w, LIMIT, "SELECT count(*) FROM attempt WHERE version = 2");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt a, jsonb_array_elements(a.files) WITH "
			     "ORDINALITY f (v, n) WHERE v->>'path' = 'd' || n"
			     " AND v->'chunks'->0->>'url' = 'https://bucket.fake/k' || n || "
			     "'?GET'"),
	    300);
	assert_true(w->cloud.signed_most <= PAGE);
	world_exit_all(w);
	world_empty(w);
}

/* Each has 300 kB, all of them more than a turn may hold; the jobs after them get their turn. */
static void test_large_specs_are_read_a_few_at_a_time(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->conf.infeasible_us = SPOT_US_PER_HOUR;
	world_pool(w, "z1", "a1", "spot", 1000000);
	(void)world_job(w,
	    "{\"asks\":[{\"gpus\":[{\"gpu\":\"H100\",\"milli\":1000}],\"use_spot\":-1}]}");
	world_sql(w,
	    "UPDATE job SET spec = spec || jsonb_build_object('setup', repeat('x', 300000));"
	    "INSERT INTO job (name, owner, team, project, class, spec, source, state, state_us, "
	    "created_us, queued_us)"
	    " SELECT name, owner, team, project, class, spec, source, state, state_us, created_us, "
	    "queued_us FROM job, generate_series(1, 320)");
	(void)world_job(w, "{}");
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	/* All of them had their turn: they say why they wait. */
	world_until(w, LIMIT,
	    "SELECT count(*) = 321 FROM job WHERE state = 'QUEUED' AND why <> ''");
	world_sql(w, "UPDATE job SET cancel_us = 1 WHERE state = 'QUEUED'; NOTIFY spot_engine");
	world_until(w, LIMIT, "SELECT count(*) = 321 FROM job WHERE state = 'CANCELLED'");
	world_exit_all(w);
	world_empty(w);
}

/* So many were given up by a job that goes on that no look reaches behind them. */
static void test_an_abandoned_checkpoint_of_a_running_job_blocks_no_disposal(void **state)
{
	struct world *w = *state;

	job_run(w, "{}");
	(void)world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM job WHERE state = 'RUNNING'");
	world_sql(w,
	    "UPDATE attempt SET phase = 'EXITED', exit_reason = 'ok', exit_code = 0, ended_us = "
	    "%" PRId64 " WHERE job_id = 2; NOTIFY spot_engine",
	    world_us());
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'SUCCEEDED'");
	world_sql(w,
	    "INSERT INTO checkpoint (job_id, epoch, state, reason, steps, bytes, created_us) "
	    "SELECT 1 + i / 250, 1, 'ABANDONED', 'periodic', 5, 1, 1"
	    " FROM generate_series(0, 250) i ORDER BY i; NOTIFY spot_engine");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM checkpoint WHERE job_id = 2 AND disposed_us IS NOT NULL");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM checkpoint WHERE job_id = 1 AND disposed_us IS "
			     "NULL"),
	    250);
	world_exit_all(w);
	world_until(w, LIMIT, "SELECT count(*) = 0 FROM checkpoint WHERE disposed_us IS NULL");
	world_empty(w);
}

/* So many run with a provider that is not here, where nothing else is done with them. Parts of
 * their files take more memory when they are read than as text. */
static void jobs_lose(struct world *w, const char *market, int n, int bytes, int parts)
{
	world_reset(w, true);
	w->agents = false;
	w->conf.agent_silent_us = w->conf.agent_lost_us = w->conf.bill_us = SPOT_US_PER_HOUR;
	world_pool(w, "z1", "a1", market, 1000000);
	world_pool(w, "z2", "a1", market, 2000000);
	world_sql(w, "UPDATE pool SET provider = 'away'");
	(void)world_job(w, "{}");
	world_sql(w,
	    "UPDATE job SET state = 'RUNNING', epoch = 1, spec = spec || "
	    "jsonb_build_object('setup', repeat('x', %d), 'mounts',"
	    " coalesce((SELECT jsonb_agg('{\"dst\": \"d\", \"uri\": \"u\"}'::jsonb) FROM "
	    "generate_series(1, %d)), '[]'));"
	    "INSERT INTO job (name, owner, team, project, class, spec, source, state, state_us, "
	    "epoch, created_us, queued_us)"
	    " SELECT name, owner, team, project, class, spec, source, state, state_us, epoch, "
	    "created_us, queued_us FROM job, generate_series(2, %d);"
	    "INSERT INTO node (pool_id, job_id, state, state_us, token, name, ref, price_micros, "
	    "created_us, launched_us, ready_us, why)"
	    " SELECT 1 + (id > %d)::int, id, 'READY', created_us, 'spt-' || id, 'brk.' || id, 'i-' "
	    "|| id, 1000000, created_us, created_us,"
	    " created_us, '' FROM job;"
	    "INSERT INTO attempt (job_id, epoch, node_id, pool_id, market, desired, phase, "
	    "created_us, started_us)"
	    " SELECT job_id, 1, id, pool_id, '%s', 'run', 'RUNNING', created_us, created_us FROM "
	    "node",
	    bytes, parts, n, n - 3, market);
}

/* The return to spot looks at the last of them as well. */
static void test_large_specs_of_running_jobs_are_judged_a_few_at_a_time(void **state)
{
	struct world *w = *state;

	jobs_lose(w, "on_demand", 60, 1, 80000);
	world_sql(w,
	    "INSERT INTO node (pool_id, job_id, replaces_id, state, state_us, token, name, ref, "
	    "price_micros, created_us, launched_us, ready_us,"
	    " why) SELECT pool_id, job_id, id, 'READY', created_us, 'spt-r', 'brk.r', 'i-r', "
	    "1000000, created_us, created_us, created_us, ''"
	    " FROM node WHERE job_id = 60");
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE id = 60 AND state = 'DRAINING'");
	assert_int_equal(world_int(w, "SELECT count(*) FROM job WHERE state = 'RUNNING'"), 59);
	world_kill(w);
}

/* The three that gain most are the last that are read: of their files none is kept, and they move
 * all the same. */
static void test_a_rebalancing_of_large_specs_moves_those_that_gain_most(void **state)
{
	struct world *w = *state;

	jobs_lose(w, "spot", 310, 900000, 0);
	w->conf.rebalance.wave_max = 3;
	w->conf.rebalance.pool_max = 3;
	world_pool(w, "z3", "a1", "spot", 100000);
	world_sql(w,
	    "INSERT INTO decision (at_us, kind, inputs, outcome, why) VALUES (1, "
	    "'rebalance_request', '{\"dry_run\": false}',"
	    " '{\"state\": \"pending\"}', '')");
	world_start(w);
	world_until(w, 3 * LIMIT,
	    "SELECT count(*) FROM decision WHERE kind = 'rebalance_request' AND outcome->>'state' "
	    "= 'done'");
	world_until(w, LIMIT, "SELECT count(*) = 3 FROM decision WHERE kind = 'rebalance'");
	assert_string_equal(world_text(w,
				"SELECT string_agg(job_id::text, ' ' ORDER BY job_id) FROM "
				"decision WHERE kind = 'rebalance'"),
	    "308 309 310");
	assert_int_equal(world_int(w,
			     "SELECT jsonb_array_length(outcome->'moves') FROM decision WHERE kind "
			     "= 'rebalance_request'"),
	    3);
	assert_int_equal(world_int(w,
			     "SELECT jsonb_array_length(outcome->'kept') FROM decision WHERE kind "
			     "= 'rebalance_request'"),
	    307);
	world_kill(w);
}

/* ---- files that cannot be signed ------------------------------------------------------------- */

static void uri_infeasible(struct world *w, const char *uri, const char *why)
{
	char extra[256];

	snprintf(extra, sizeof(extra), "{\"mounts\":[{\"dst\":\"d\",\"uri\":\"%s\"}]}", uri);
	(void)world_job(w, extra);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job WHERE state = 'FAILED' AND reason = 'infeasible'");
	assert_non_null(strstr(world_text(w, "SELECT why FROM job"), why));
	world_empty(w);
}

static void test_a_mount_that_nobody_can_sign_ends_its_job(void **state)
{
	struct world *w = *state;
	static const struct {
		const char *uri, *why;
		bool store, machine;
	} cases[] = { { "gs://bucket/k",
			  "gs://bucket/k needs a provider of kind gcp to sign for it", true,
			  false },
		{ "s3:///k", "'s3:///k': ", true, false },
		{ "s3://bucket/k", "there is no object store", false, false },
		{ "s3://no-name/k", "'no-name' is not a bucket name", true, true } };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		world_reset(w, true);
		world_pool(w, "z1", "a1", "spot", 1000000);
		w->cloud.sign_refuses = "no-name";
		w->conf.store_bucket = cases[i].store ? w->conf.store_bucket : NULL;
		w->conf.infeasible_us = 300000; /* as long as the configuration may be mended */
		world_start(w);
		uri_infeasible(w, cases[i].uri, cases[i].why);
		assert_int_equal(w->cloud.launches, cases[i].machine ? 1 : 0);
	}
}

/* Keys that are not there now, whatever the provider calls that, are no reason to give a job up. */
static void test_a_job_waits_until_its_files_can_be_signed(void **state)
{
	struct world *w = *state;
	static const enum spot_rc causes[] = { SPOT_UNAVAILABLE, SPOT_CONFIG, SPOT_INVALID };

	for (size_t i = 0; i < ARRAY_LEN(causes); i++) {
		world_reset(w, true);
		world_pool(w, "z1", "a1", "spot", 1000000);
		w->cloud.sign_rc = causes[i];
		world_start(w);
		(void)world_job(w,
		    i == 0
			? "{\"num_nodes\":2,\"mounts\":[{\"dst\":\"d\",\"uri\":\"s3://bucket/k\"}]}"
			: "{\"mounts\":[{\"dst\":\"d\",\"uri\":\"s3://bucket/k\"}]}");
		world_until(w, LIMIT,
		    "SELECT count(*) FROM job WHERE state = 'QUEUED' AND why LIKE '%cannot be "
		    "signed: fake presign: no keys now'");
		w->cloud.sign_rc = SPOT_OK;
		world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
		world_exit_all(w);
		world_empty(w);
	}
}

/* A slip in a configuration file ends nothing that could go on when it is mended, and buys nothing
 * meanwhile. */
static void test_a_job_waits_for_a_store_that_is_not_configured(void **state)
{
	struct world *w = *state;
	const char *bucket;

	world_reset(w, true);
	w->conf.infeasible_us = SPOT_US_PER_HOUR;
	world_pool(w, "z1", "a1", "spot", 1000000);
	bucket = w->conf.store_bucket;
	w->conf.store_bucket = NULL;
	world_start(w);
	(void)world_job(w, "{\"mounts\":[{\"dst\":\"d\",\"uri\":\"s3://bucket/k\"}]}");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM job WHERE state = 'QUEUED' AND why LIKE '%there is no object "
	    "store%'");
	world_for(w, 300);
	assert_int_equal(w->cloud.launches, 0);
	w->conf.store_bucket = bucket;
	engine_reload(w->engine, &w->conf);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	world_exit_all(w);
	world_empty(w);
}

/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_large_checkpoint_is_minted_in_parts),
		cmocka_unit_test(test_parts_signed_by_another_leader_are_signed_again),
		cmocka_unit_test(test_each_rank_fetches_its_own_chunks_in_order),
		cmocka_unit_test(test_mounts_are_signed_in_pages),
		cmocka_unit_test(test_large_specs_are_read_a_few_at_a_time),
		cmocka_unit_test(test_an_abandoned_checkpoint_of_a_running_job_blocks_no_disposal),
		cmocka_unit_test(test_large_specs_of_running_jobs_are_judged_a_few_at_a_time),
		cmocka_unit_test(test_a_rebalancing_of_large_specs_moves_those_that_gain_most),
		cmocka_unit_test(test_a_mount_that_nobody_can_sign_ends_its_job),
		cmocka_unit_test(test_a_job_waits_until_its_files_can_be_signed),
		cmocka_unit_test(test_a_job_waits_for_a_store_that_is_not_configured),
	};

	if (argc > 1) {
		cmocka_set_test_filter(argv[1]);
	}
	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
