/* The statements of src/store/sql on the migrated schema: all of them prepare and return the rows
 * of their headers. Account-wide rates. */
#include "base/base.h"
#include "store/q.h"
#include "store_world.h"
#include <libpq-fe.h>

/* ---- every statement
 * ------------------------------------------------------------------------------ */

static int column_check(const struct pg_stmt *s, const PGresult *r)
{
	int bad = 0;

	if (PQnfields(r) != s->cols_n) {
		fprintf(stderr, "%s: the header says %d columns, the statement gives %d\n", s->name,
		    s->cols_n, PQnfields(r));
		return 1;
	}
	for (int i = 0; i < s->cols_n; i++) {
		if (PQftype(r, i) != s->col_types[i]) {
			fprintf(stderr,
			    "%s: column %s: the header says type %u, the statement gives %u\n",
			    s->name, s->col_names[i], s->col_types[i], PQftype(r, i));
			bad++;
		}
	}
	return bad;
}

static int statement_check(PGconn *c, const struct pg_stmt *s)
{
	PGresult *r;
	int bad = 0;

	if (s->setup != NULL) {
		r = PQexec(c, s->setup);
		if (PQresultStatus(r) != PGRES_COMMAND_OK) {
			fprintf(stderr, "%s: setup: %s", s->name, PQerrorMessage(c));
			bad++;
		}
		PQclear(r);
	}
	r = PQprepare(c, s->name, s->sql, s->params_n, s->param_types);
	if (PQresultStatus(r) != PGRES_COMMAND_OK) {
		fprintf(stderr, "%s: %s", s->name, PQerrorMessage(c));
		bad++;
	}
	PQclear(r);
	if (bad > 0) {
		return bad;
	}
	r = PQdescribePrepared(c, s->name);
	assert_int_equal(PQresultStatus(r), PGRES_COMMAND_OK);
	if (PQnparams(r) != s->params_n) {
		fprintf(stderr, "%s: %d parameters declared, %d found\n", s->name, s->params_n,
		    PQnparams(r));
		bad++;
	}
	bad += column_check(s, r);
	PQclear(r);
	return bad;
}

static void every_statement_prepares_and_has_the_columns_of_its_header(void **state)
{
	PGconn *c = PQconnectdb(dsn);
	int bad = 0;

	(void)state;
	assert_int_equal(PQstatus(c), CONNECTION_OK);
	assert_true(q_all_n > 0);
	for (size_t i = 0; i < q_all_n; i++) {
		bad += statement_check(c, &q_all[i]);
	}
	PQfinish(c);
	assert_int_equal(bad, 0);
}

/* A statement that writes must say so: its lost reply is UNKNOWN then. */
static void statements_that_write_say_so(void **state)
{
	static const char *const verbs[] = { "INSERT INTO ", "UPDATE ", "DELETE FROM ", "NOTIFY",
		"pg_notify" };
	int bad = 0;

	(void)state;
	for (size_t i = 0; i < q_all_n; i++) {
		bool writes = false;

		for (size_t v = 0; v < ARRAY_LEN(verbs); v++) {
			const char *at = strstr(q_all[i].sql, verbs[v]);

			/* "FOR UPDATE " only locks. */
			writes |= at != NULL &&
			    !(v == 1 && at - q_all[i].sql >= 4 && memcmp(at - 4, "FOR ", 4) == 0);
		}
		if (writes && !q_all[i].writes) {
			fprintf(stderr, "%s writes, its header says it does not\n", q_all[i].name);
			bad++;
		}
	}
	assert_int_equal(bad, 0);
}

/* ---- install
 * ---------------------------------------------------------------------------------------- */

static void the_first_install_id_stays(void **state)
{
	static const char *const ids[] = { "0123abcd", "ffffffff" };
	struct q_install_ensure_row *row;
	struct pg_req req = { 0 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		q_install_ensure(pg, &req,
		    &(struct q_install_ensure){ .id = ids[i],
			.enrol_key = { i == 0 ? "\0k1" : "k2!", 3 },
			.now_us = NOW_US + i },
		    no_done);
		assert_true(test_op_wait(&req.op));
		assert_string_equal(req.op.err.text, "");
		assert_int_equal(q_install_ensure_rows(&req, arena, &row), 1);
		assert_string_equal(row->id, "0123abcd");
		assert_int_equal(row->enrol_key.n, 3);
		assert_memory_equal(row->enrol_key.p, "\0k1", 3);
		assert_int_equal(row->created_us, NOW_US);
	}
	pg_req_fini(&req);
}

/* ---- account-wide rates
 * ---------------------------------------------------------------------------------------- */

static int64_t rate_wait(int64_t at_us, double cost)
{
	struct q_engine_rate_take_row *row;
	struct pg_req req = { 0 };
	int64_t ret;

	q_engine_rate_take(pg, &req,
	    &(struct q_engine_rate_take){ .key = "p/general/",
		.per_second = 2,
		.burst = 4,
		.cost = cost,
		.at_us = at_us },
	    no_done);
	assert_true(test_op_wait(&req.op));
	assert_string_equal(req.op.err.text, "");
	assert_int_equal(q_engine_rate_take_rows(&req, arena, &row), 1);
	ret = row->wait_us;
	pg_req_fini(&req);
	return ret;
}

static void a_waiter_for_a_rate_owes_nothing(void **state)
{
	(void)state;
	assert_int_equal(rate_wait(NOW_US, 3), 0);
	assert_int_equal(rate_wait(NOW_US, 1), 0);
	for (int i = 0; i < 20; i++) { /* each of them may have ended since */
		assert_int_equal(rate_wait(NOW_US, 1), SPOT_US_PER_S / 2);
	}
	assert_int_equal(rate_wait(NOW_US + SPOT_US_PER_S / 4, 1), SPOT_US_PER_S / 4);
	assert_int_equal(rate_wait(NOW_US + SPOT_US_PER_S / 2, 1), 0);
	assert_int_equal(rate_wait(NOW_US + SPOT_US_PER_S / 2, 100), 2 * SPOT_US_PER_S);
	assert_int_equal(rate_wait(NOW_US + 5 * SPOT_US_PER_S / 2, 100), 0);
	/* a clock that went back */
	assert_int_equal(rate_wait(NOW_US - 60 * SPOT_US_PER_S, 1), SPOT_US_PER_S / 2);
}

/* ---- leaks ----------------------------------------------------------------------------------- */

static const char *leaks_left(int64_t before_us, int64_t keep_before_us)
{
	struct q_retention_leaks p = { .before_us = before_us,
		.keep_before_us = keep_before_us,
		.most = 100 };
	struct pg_req req = { 0 };

	q_retention_leaks(pg, &req, &p, no_done);
	assert_true(test_op_wait(&req.op));
	assert_string_equal(req.op.err.text, "");
	pg_req_fini(&req);
	return testdb_text(dsn,
	    "SELECT coalesce(string_agg(ref, ' ' ORDER BY ref), '') FROM orphan");
}

/* A machine that is stopped may come back after weeks. */
static void an_order_to_keep_is_remembered_for_long(void **state)
{
	(void)state;
	testdb_exec(dsn,
	    "INSERT INTO orphan (provider, region, ref, kind, first_us, last_us, gone_us, why, "
	    "word) VALUES "
	    "('p', 'r', 'ended', 'instance', 1, 1, 100, '', 'end'), ('p', 'r', 'kept', 'instance', "
	    "1, 1, 100, '', 'keep'), "
	    "('p', 'r', 'there', 'instance', 1, 1, NULL, '', '')");
	assert_string_equal(leaks_left(100, 50), "ended kept there");
	assert_string_equal(leaks_left(101, 50), "kept there");
	assert_string_equal(leaks_left(201, 101), "there");
}

/* ---- expired rows ---------------------------------------------------------------------------- */

static int64_t purged_rows(struct pg_req *req)
{
	int64_t n;

	assert_true(test_op_wait(&req->op));
	assert_string_equal(req->op.err.text, "");
	n = pg_int(req->result, 0, 0);
	pg_req_fini(req);
	return n;
}

static int64_t samples_purged(int64_t before_us, int32_t most)
{
	struct q_retention_samples p = { .before_us = before_us, .most = most };
	struct pg_req req = { 0 };

	q_retention_samples(pg, &req, &p, no_done);
	return purged_rows(&req);
}

static int64_t logs_purged(int64_t before_us, int32_t most)
{
	struct q_retention_logs p = { .before_us = before_us, .most = most };
	struct pg_req req = { 0 };

	q_retention_logs(pg, &req, &p, no_done);
	return purged_rows(&req);
}

/* However much there is, a statement takes a piece, the oldest of each node, and nothing that is
 * young. */
static void samples_and_logs_go_piece_by_piece(void **state)
{
	(void)state;
	testdb_exec(dsn,
	    "INSERT INTO pool (provider, region, zone, zone_name, instance_type, market, gpu_name, "
	    "gpu_milli, gpu_mem_mib, vcpus, mem_mib, "
	    "arch, quota_class, offered, seen_us) VALUES ('p', 'r', 'samples', '', 't', 'spot', "
	    "'', 0, 0, 1, 1, 'x86_64', '', true, 1); "
	    "INSERT INTO node (pool_id, state, state_us, token, name, price_micros, created_us) "
	    "SELECT (SELECT id FROM pool WHERE zone = 'samples'), 'GONE', 1, 'sample-' || i, "
	    "'sample-' || i, 1, 1 FROM generate_series(1, 3) i; "
	    "INSERT INTO node_sample (node_id, at_us, gpus) SELECT id, 100 * i, 0 FROM node, "
	    "generate_series(1, 10) i WHERE name LIKE 'sample-%'");
	assert_int_equal(samples_purged(500, 5), 5);
	assert_int_equal(samples_purged(500, 5), 5);
	assert_int_equal(samples_purged(500, 5), 2);
	assert_int_equal(samples_purged(500, 5), 0);
	assert_string_equal(testdb_text(dsn,
				"SELECT count(*) || ' ' || min(at_us) FROM node_sample"),
	    "18 500");
	testdb_exec(dsn,
	    "INSERT INTO job (name, owner, team, project, class, spec, source, state, state_us, "
	    "created_us, queued_us, ended_us) "
	    "SELECT 'logged-' || i, 'o', 't', 'p', 'training', '{}', '', 'FAILED', 1, 1, 1, i * "
	    "100 FROM generate_series(1, 3) i; "
	    "INSERT INTO job_log (job_id, epoch, at_offset, at_us, bytes) SELECT id, 1, i, 1, 'x' "
	    "FROM job, generate_series(1, 4) i "
	    "WHERE name LIKE 'logged-%'");
	assert_int_equal(logs_purged(300, 5), 5);
	assert_int_equal(logs_purged(300, 5), 3);
	assert_int_equal(logs_purged(300, 5), 0);
	assert_string_equal(testdb_text(dsn,
				"SELECT string_agg(DISTINCT j.name, ' ') FROM job_log JOIN job j "
				"ON j.id = job_id"),
	    "logged-3");
}

/* ---- one hash in all jobs -------------------------------------------------------------------- */

#define EMPTY "'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'"

/* An empty file is in every checkpoint of every job. */
static void a_jobs_chunks_are_found_beside_any_number_of_others(void **state)
{
	static const char *const open[] = { NULL, NULL, "1", "periodic", "5", "{a,b}", "{0,0}",
		"{0,7}", "{420,420}",
		"{e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855,"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}",
		"9" };
	static const char *const due[] = { "100", "10" };
	const char *values[ARRAY_LEN(open)];
	char node[24], job[24];

	(void)state;
	testdb_exec(dsn,
	    "INSERT INTO pool (provider, region, zone, zone_name, instance_type, market, gpu_name, "
	    "gpu_milli, gpu_mem_mib, vcpus, mem_mib, "
	    "arch, quota_class, offered, seen_us) VALUES ('p', 'r', 'stored', '', 't', 'spot', '', "
	    "0, 0, 1, 1, 'x86_64', '', true, 1); "
	    "INSERT INTO job (name, owner, team, project, class, spec, source, state, state_us, "
	    "created_us, queued_us, epoch) "
	    "SELECT 'stored-' || i, 'o', 't', 'p', 'training', '{}', '', 'RUNNING', 1, 1, 1, 1 "
	    "FROM generate_series(1, 21) i; "
	    "INSERT INTO node (pool_id, state, state_us, token, name, price_micros, created_us) "
	    "SELECT (SELECT id FROM pool WHERE zone = 'stored'), 'READY', 1, name, name, 1, 1 FROM "
	    "job WHERE name LIKE 'stored-%'; "
	    "INSERT INTO attempt (job_id, epoch, node_id, pool_id, market, phase, desired, "
	    "version, created_us) "
	    "SELECT j.id, 1, n.id, n.pool_id, 'spot', 'RUNNING', 'run', 1, 1 FROM job j JOIN node "
	    "n ON n.name = j.name; "
	    "INSERT INTO checkpoint (job_id, epoch, state, reason, steps, bytes, created_us, "
	    "urls_us) SELECT id, 1, "
	    "CASE WHEN name = 'stored-20' THEN 'ABANDONED' ELSE 'COMMITTED' END, 'periodic', i, 0, "
	    "1, 1 FROM job, generate_series(1, 50) i "
	    "WHERE name LIKE 'stored-%' AND (name NOT IN ('stored-20', 'stored-21') OR i = 1); "
	    "INSERT INTO checkpoint_chunk (checkpoint_id, path, seq, bytes, mode, sha256, "
	    "object_key, fresh) "
	    "SELECT c.id, i, 0, 0, 420, x.sha, 'j' || c.job_id || '/' || x.sha, true FROM "
	    "checkpoint c JOIN job j ON j.id = c.job_id, generate_series(1, 30) i, "
	    "LATERAL (SELECT CASE WHEN i <= 20 THEN " EMPTY
	    " ELSE md5(c.id || ' ' || i) || md5(c.id || ' ' || i) END AS sha) x "
	    "WHERE j.name <> 'stored-21' OR i > 20; "
	    "UPDATE attempt SET ended_us = 2, settled = true FROM job j WHERE j.id = job_id AND "
	    "j.name = 'stored-20'; ANALYZE");
	memcpy(values, open, sizeof(values));
	(void)snprintf(node, sizeof(node), "%s",
	    testdb_text(dsn, "SELECT id FROM node WHERE name = 'stored-21'"));
	(void)snprintf(job, sizeof(job), "%s",
	    testdb_text(dsn, "SELECT id FROM job WHERE name = 'stored-21'"));
	values[0] = node;
	values[1] = job;
	assert_in_range(rows_read("checkpoint_chunk", "api_checkpoint_open", values, 1), 0, 200);
	assert_in_range(rows_read("checkpoint_chunk", "engine_dispose_due", due, 10), 30, 1000);
}

/* ---- long lines and long lists --------------------------------------------------------------- */

static PGresult *query_run(PGconn *c, const char *sql)
{
	PGresult *r = PQexec(c, sql);

	assert_string_equal(PQresultErrorMessage(r), "");
	return r;
}

static int64_t query_count(PGconn *c, const char *sql)
{
	PGresult *r = query_run(c, sql);
	int64_t n = strtol(PQgetvalue(r, 0, 0), NULL, 10);

	PQclear(r);
	return n;
}

static PGconn *statement_prepare(const struct pg_stmt *s)
{
	PGconn *c = PQconnectdb(dsn);

	PQclear(query_run(c, "SET plan_cache_mode = force_generic_plan"));
	PQclear(PQprepare(c, s->name, s->sql, s->params_n, s->param_types));
	PQclear(query_run(c, "BEGIN"));
	return c;
}

#define POOLS \
	"INSERT INTO pool (provider, region, zone, zone_name, instance_type, market, gpu_name, " \
	"gpu_milli, gpu_mem_mib, vcpus, mem_mib, arch, " \
	"quota_class, offered, seen_us) SELECT p, 'r', 'long', '', 't' || i, 'spot', '', 0, 0, " \
	"1, 1, 'x86_64', '', true, 1 FROM unnest(" \
	"'{slow,quick}'::text[]) p, generate_series(1, 2) i; "

/* Three hundred wait for a provider that takes a launch in twelve seconds, before one of
 * another. */
static void a_line_at_one_provider_keeps_no_other_waiting(void **state)
{
	PGconn *c = statement_prepare(&q_stmt_engine_launch_due);
	PGresult *r;

	(void)state;
	PQclear(query_run(c,
	    POOLS "INSERT INTO node (pool_id, state, state_us, token, name, price_micros, "
		  "created_us, job_id) "
		  "SELECT p.id, 'WANTED', 1, p.id || 'line' || i, p.id || 'line' || i, 1, 5, NULL "
		  "FROM pool p, generate_series(1, 150) i "
		  "WHERE p.zone = 'long' AND (p.provider = 'slow' OR (i <= 2 AND p.instance_type = "
		  "'t1')) ORDER BY p.provider DESC"));
	r = query_run(c, "EXECUTE engine_launch_due(9, 64, '{}', '{}')");
	assert_int_equal(PQntuples(r), 66);
	assert_string_equal(PQgetvalue(r, 0, 7), "slow");
	assert_string_equal(PQgetvalue(r, 63, 7), "slow");
	assert_string_equal(PQgetvalue(r, 64, 7), "quick");
	PQclear(r);
	PQfinish(c);
}

/* How many rows the parts of a plan give or throw away, all together. */
static int64_t plan_rows(PGconn *c, const char *execute)
{
	size_t n = strlen(execute) + 64;
	char *sql = malloc(n);
	int64_t sum = 0, loops = 0;
	double rows; /* a mean from PostgreSQL 18 on */
	PGresult *r;

	assert_non_null(sql);
	(void)snprintf(sql, n, "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) %s", execute);
	r = query_run(c, sql);
	for (int i = 0; i < PQntuples(r); i++) {
		const char *line = PQgetvalue(r, i, 0), *at;

		if ((at = strstr(line, "(actual rows=")) != NULL &&
		    sscanf(at, "(actual rows=%lf loops=%" SCNd64, &rows, &loops) == 2) {
			sum += (int64_t)(rows * (double)loops);
		} else if ((at = strstr(line, "Rows Removed by")) != NULL) {
			sum += strtol(strrchr(at, ':') + 1, NULL, 10) * loops;
		}
	}
	PQclear(r);
	free(sql);
	return sum;
}

/* A thousand groups that launches left behind, beside three thousand machines that live. */
static void a_long_list_is_judged_without_comparing_each_with_each(void **state)
{
	PGconn *c = statement_prepare(&q_stmt_engine_sweep_judge);
	PGresult *r;

	(void)state;
	PQclear(query_run(c,
	    POOLS "INSERT INTO leader (name, holder, epoch, until_us) VALUES ('engine', 'x', 9, 9) "
		  "ON CONFLICT (name) DO UPDATE SET epoch = 9; "
		  "INSERT INTO node (pool_id, state, state_us, token, name, ref, price_micros, "
		  "created_us) SELECT p.id, 'READY', 1, "
		  "'spt-cafe0001-n' || left(md5(i::text), 16), 'brk.cafe0001.n' || "
		  "left(md5(i::text), 16), 'long-' || i, 1, 1 "
		  "FROM pool p, generate_series(1, 3000) i WHERE p.provider = 'slow' AND "
		  "p.instance_type = 't1'; "
		  "ANALYZE node"));
	/* Of every hundred one is a machine's that lives: by the random part in its ref, and the
	 * next by its token. */
	r = query_run(c,
	    "SELECT format('EXECUTE "
	    "engine_sweep_judge(%L,%L,%L,%L,%L,%L,%L,%L,%L,%L,%L,100,10,9,%L,0,0,false)', 'slow', "
	    "'r', refs, tokens, no, l, no, no, no, no, c, refs), 'EXECUTE "
	    "engine_sweep_judge(''slow'',''r'',''{}'',''{}'',''{}'',''{}'',''{}'',''{}'',''{}''"
	    ",''{}'',''{}'',120,10,9,''{}'',0,0,false)' "
	    "FROM (SELECT array_agg('/groups/brk-' || left(md5(CASE i % 100 WHEN 0 THEN '' ELSE "
	    "'x' END || i), 16) || '-os') AS refs, "
	    "array_agg(CASE i % 100 WHEN 1 THEN 'brk.cafe0001.n' || left(md5(i::text), 16) ELSE '' "
	    "END) AS tokens, array_agg(''::text) AS no, "
	    "array_agg(true) AS l, array_agg(1) AS c FROM generate_series(1, 1000) i) x");
	assert_in_range(plan_rows(c, PQgetvalue(r, 0, 0)), 1000, 200000);
	assert_in_range(plan_rows(c, PQgetvalue(r, 0, 0)), 1000, 200000);
	assert_int_equal(query_count(c,
			     "SELECT count(*) FROM orphan WHERE provider = 'slow' AND kind = "
			     "'leftover'"),
	    980);
	assert_in_range(plan_rows(c, PQgetvalue(r, 0, 1)), 1000, 200000);
	assert_int_equal(query_count(c, "SELECT count(*) FROM orphan WHERE provider = 'slow'"), 0);
	PQclear(r);
	PQfinish(c);
}

/* Two hundred machines that were given up lately, beside two thousand leaks. */
static void a_verdict_is_not_compared_with_each_leak(void **state)
{
	PGconn *c = statement_prepare(&q_stmt_engine_watch_alive);

	(void)state;
	PQclear(query_run(c,
	    POOLS
	    "INSERT INTO leader (name, holder, epoch, until_us) VALUES ('engine', 'x', 9, 9) "
	    "ON CONFLICT (name) DO UPDATE SET epoch = 9; "
	    "INSERT INTO node (pool_id, state, state_us, token, name, ref, price_micros, "
	    "created_us) SELECT p.id, 'GONE', 1, 'over' || i, 'over' || i, 'over-' || i, 1, 1 "
	    "FROM pool p, generate_series(1, 200) i WHERE p.provider = 'slow' AND "
	    "p.instance_type = 't1'; "
	    "INSERT INTO verdict (at_us, node_id, kind, why, seen) SELECT 1, id, 'lost', '', "
	    "'{}' FROM node WHERE name LIKE 'over%'; "
	    "INSERT INTO orphan (provider, region, ref, kind, first_us, last_us, terminate_us, "
	    "why) SELECT 'slow', 'r', 'over-' || i * 50, 'instance', 1, 1, 5, '' FROM "
	    "generate_series(1, 2000) i; ANALYZE orphan; ANALYZE node; ANALYZE verdict"));
	/* Each fiftieth of them was ended as a leak after all. */
	assert_in_range(plan_rows(c, "EXECUTE engine_watch_alive(100, 10, 9)"), 200, 20000);
	assert_int_equal(query_count(c,
			     "SELECT count(*) FROM verdict v JOIN node n ON n.id = v.node_id "
			     "WHERE n.name LIKE 'over%' AND v.false_us = 100"),
	    4);
	PQfinish(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(every_statement_prepares_and_has_the_columns_of_its_header),
		T(statements_that_write_say_so),
		T(the_first_install_id_stays),
		T(a_waiter_for_a_rate_owes_nothing),
		T(an_order_to_keep_is_remembered_for_long),
		T(samples_and_logs_go_piece_by_piece),
		T(a_jobs_chunks_are_found_beside_any_number_of_others),
		T(a_line_at_one_provider_keeps_no_other_waiting),
		T(a_long_list_is_judged_without_comparing_each_with_each),
		T(a_verdict_is_not_compared_with_each_leak),
	};

	return STORE_TESTS(tests);
}
