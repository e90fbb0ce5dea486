/* Frequent statements read only their own rows, however much was written before: budgets, sets of
 * gangs, lost work, waiting jobs. Quick ones do not wait for heartbeats. */
#include "base/base.h"
#include "store/q.h"
#include "store_world.h"
#include <libpq-fe.h>

#define COST \
	"SELECT ((SELECT micros FROM job_cost WHERE job_id = %d) = (SELECT sum(amount_micros) " \
	"FROM ledger WHERE job_id = %d))::int"

/* Two jobs that run, the second with a budget, each on a node of its own; spec is theirs. */
static void jobs_make(const char *spec)
{
	char sql[1600];

	(void)snprintf(sql, sizeof(sql),
	    "INSERT INTO pool (provider, region, zone, zone_name, instance_type, market, gpu_name, "
	    "gpu_milli, gpu_mem_mib, vcpus, mem_mib, "
	    "arch, quota_class, offered, seen_us) VALUES ('p', 'r', 'z', '', 't', 'spot', '', 0, "
	    "0, 1, 1, 'x86_64', '', true, 1); "
	    "INSERT INTO leader (name, epoch, holder, until_us) VALUES ('engine', 7, 'x', 1); "
	    "INSERT INTO job (name, owner, team, project, class, spec, source, state, state_us, "
	    "created_us, queued_us, epoch, budget_micros) "
	    "SELECT 'j', 'o', 't', 'p', 'training', '%s', '', 'RUNNING', 1, 1, 1, 1, CASE WHEN i = "
	    "2 THEN 999 END FROM generate_series(1, 2) i; "
	    "INSERT INTO node (pool_id, job_id, state, state_us, token, name, price_micros, "
	    "created_us, launched_us, billed_to_us) "
	    "SELECT 1, id, 'READY', 1, id, id, 1000000, 1, 1, 5000 FROM job; "
	    "INSERT INTO attempt (job_id, epoch, node_id, pool_id, market, phase, desired, "
	    "version, created_us) "
	    "SELECT job_id, 1, id, 1, 'spot', 'RUNNING', 'run', 1, 1 FROM node",
	    spec);
	testdb_exec(dsn, sql);
}

/* Lines from to to, each of one microsecond at one micro-dollar. */
#define LINES(job, from, to) \
	"INSERT INTO ledger (at_us, kind, node_id, pool_id, market, job_id, epoch, from_us, " \
	"to_us, price_micros, price_observed_us, amount_micros) " \
	"SELECT 1, 'compute', " #job ", 1, 'spot', " #job \
	", 1, i, i + 1, 3600000000, 0, 1 FROM generate_series(" #from ", " #to ") i"

static int64_t cost_holds(int job)
{
	char sql[200];

	(void)snprintf(sql, sizeof(sql), COST, job, job);
	return testdb_int(dsn, sql);
}

static void a_budget_is_looked_at_without_reading_the_ledger(void **state)
{
	static const char *const odd[] = { "5000", "t", "0" },
				 *const ranks[] = { "5000", "t", "0" };

	(void)state;
	jobs_make("{}");
	testdb_exec(dsn, LINES(1, 1, 3000) "; " LINES(2, 1, 3000) "; ANALYZE");
	assert_int_equal(rows_read("ledger", "engine_attempts_odd", odd, 1), 0);
	assert_int_equal(testdb_int(dsn, "SELECT job_spent(2, 5000)"), 3000);
	/* a minute to save */
	assert_int_equal(testdb_int(dsn,
			     "SELECT job_budget_left(j, 5000, 0) FROM job j WHERE id = 2"),
	    999 - 3000 - 16667);
	testdb_exec(dsn,
	    "UPDATE job SET spec = '{\"num_nodes\": 2}'; INSERT INTO node (pool_id, job_id, state, "
	    "state_us, token, name, price_micros, created_us, launched_us, billed_to_us) SELECT 1, "
	    "id, 'READY', 1, 'r' || id, 'r' || id, 1000000, 1, 1, 5000 FROM job; INSERT INTO "
	    "attempt (job_id, epoch, rank, node_id, pool_id, market, phase, desired, version, "
	    "created_us) SELECT job_id, 1, 1, id, 1, 'spot', 'RUNNING', 'run', 1, 1 FROM node "
	    "WHERE "
	    "name LIKE 'r%'");
	assert_int_equal(rows_read("ledger", "engine_gang_ranks", ranks, 4), 0);
}

static void the_sum_of_a_job_is_kept_whoever_writes_its_lines(void **state)
{
	(void)state;
	jobs_make("{}");
	testdb_exec(dsn, LINES(1, 1, 3));
	testdb_exec(dsn,
	    "INSERT INTO ledger (at_us, kind, node_id, pool_id, market, job_id, epoch, from_us, "
	    "to_us, price_micros, price_observed_us, amount_micros, reverses) "
	    "SELECT 1, kind, node_id, 1, market, job_id, 1, from_us, to_us, price_micros, 0, "
	    "-amount_micros, id FROM ledger WHERE id = 2; "
	    "INSERT INTO ledger (at_us, kind, node_id, pool_id, market, job_id, from_us, to_us, "
	    "price_micros, price_observed_us, amount_micros) "
	    "SELECT 1, 'idle', 1, 1, 'spot', j, 1, 2, 1, 0, 10 * coalesce(j, 1) FROM "
	    "unnest(ARRAY[2, NULL, 1, 2]) j");
	assert_int_equal(cost_holds(1), 1);
	assert_int_equal(cost_holds(2), 1);
	assert_int_equal(testdb_int(dsn, "SELECT sum(micros) FROM job_cost"), 2 + 10 + 40);
}

static PGresult *answer_of(PGconn *c, const char *sql)
{
	PGresult *r = PQexec(c, sql);

	assert_string_equal(PQresultErrorMessage(r), "");
	return r;
}

/* Of a job that has lines from before there were sums, or none: neither sees the other's. */
static void two_that_write_the_first_sum_of_a_job_count_each_line_once(void **state)
{
	PGconn *a = PQconnectdb(dsn), *b = PQconnectdb(dsn);
	PGresult *r;

	(void)state;
	jobs_make("{}");
	testdb_exec(dsn, "SET session_replication_role = replica; " LINES(1, 1, 5));
	assert_int_equal(testdb_int(dsn, "SELECT job_spent(1, 5000)"), 5);
	PQclear(answer_of(a, "BEGIN; " LINES(1, 6, 9)));
	assert_int_equal(PQsendQuery(b, LINES(1, 10, 16)), 1);
	while (testdb_int(dsn, "SELECT count(*) FROM pg_locks WHERE NOT granted") == 0) {
		assert_int_equal(PQconsumeInput(b), 1);
		assert_true(PQisBusy(b)); /* it waits for the first */
	}
	PQclear(answer_of(a, "COMMIT"));
	r = PQgetResult(b);
	assert_string_equal(PQresultErrorMessage(r), "");
	PQclear(r);
	assert_int_equal(testdb_int(dsn, "SELECT micros FROM job_cost WHERE job_id = 1"), 16);
	PQfinish(a);
	PQfinish(b);
}

static void sets_that_were_decided_are_not_read_again(void **state)
{
	static const char *const sets[] = { "6000", "7" };

	(void)state;
	jobs_make("{\"num_nodes\": 2}");
	testdb_exec(dsn,
	    "INSERT INTO checkpoint (job_id, epoch, state, reason, steps, bytes, created_us, "
	    "urls_us, committed_us, rank, set_key, set_us) "
	    "SELECT j, e, 'COMMITTED', 'periodic', k, 10, 1, 1, 1, r, k, CASE WHEN e = 1 AND k < "
	    "1000 THEN 5 END "
	    "FROM generate_series(1, 2) j, generate_series(0, 1) e, generate_series(1, 1000) k, "
	    "generate_series(0, 1) r "
	    "WHERE NOT (j = 2 AND e = 1 AND k = 1000 AND r = 1); ANALYZE");
	assert_in_range(rows_read("checkpoint", "engine_gang_sets", sets, 1), 2, 20);
}

static void of_lost_lines_the_first_are_read_and_all_are_booked(void **state)
{
	/* Lost from 11.5 on, were there halves: the line that is partly kept is older than it
	 * looks. */
	static const char *const lines[] = { "2", "1", "2", "11", "4" };
	PGconn *c = PQconnectdb(dsn);
	const struct pg_stmt *s = &q_stmt_engine_lost_write;
	static const char *const write[] = { "2", "1", "9", "{2,3,4}", "{2,2,3,4}",
		"{compute,lost_work,lost_work,lost_work}", "{10,11,13,14}", "{11,13,14,15}",
		"{1,2,1,1}", "7", "2", "11", "4" };
	PGresult *r;

	(void)state;
	jobs_make("{}");
	testdb_exec(dsn,
	    LINES(2, 9, 9) "; INSERT INTO ledger (at_us, kind, node_id, pool_id, market, job_id, "
			   "epoch, from_us, to_us, price_micros, "
			   "price_observed_us, amount_micros) VALUES (1, 'compute', 2, 1, 'spot', "
			   "2, 1, 10, 13, 3600000000, 0, 3); " LINES(2, 13, 3000) "; " LINES(1, 1,
			       20) "; ANALYZE");
	assert_in_range(rows_read("ledger", "engine_lost_lines", lines, 4), 4, 8000);
	for (int i = 0; i < 2; i++) { /* the second time there is nothing to do */
		r = PQexecParams(c, s->sql, s->params_n, s->param_types, write, NULL, NULL, 0);
		assert_string_equal(PQresultErrorMessage(r), "");
		assert_int_equal(PQntuples(r), i == 0 ? 1 : 0);
		PQclear(r);
	}
	PQfinish(c);
	assert_string_equal(testdb_text(dsn,
				"SELECT string_agg(kind || ' ' || n || ' ' || a, ', ' ORDER BY "
				"kind) FROM (SELECT kind, count(*) AS n, sum(amount_micros) AS a "
				"FROM ledger l WHERE job_id = 2 AND reverses IS NULL AND NOT "
				"EXISTS (SELECT FROM ledger r WHERE r.reverses = l.id) GROUP BY "
				"kind) x"),
	    "compute 2 2, lost_work 2989 2990");
	assert_int_equal(testdb_int(dsn,
			     "SELECT count(*) - count(DISTINCT reverses) FROM ledger WHERE "
			     "reverses IS NOT NULL"),
	    0);
	assert_int_equal(testdb_int(dsn, "SELECT sum(amount_micros) FROM ledger WHERE job_id = 2"),
	    1 + 3 + 2988);
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM ledger WHERE job_id = 1"), 20);
	assert_int_equal(cost_holds(2), 1);
}

/* The write of thousands of heartbeats takes long now and then. With one connection for each lane,
 * a quick statement comes back while that write waits. */
static void heartbeats_delay_no_quick_statement(void **state)
{
	struct pg_conf conf = { .dsn = dsn,
		.connections = 3,
		.long_connections = 1,
		.agent_connections = 1 };
	struct pg *lanes = pg_new(loop, &conf);
	struct q_api_agents_seen_agent agent = { .node_id = 1, .at_us = NOW_US, .steps = -1 };
	struct pg_req seen = { 0 }, quick = { 0 };
	PGconn *c = PQconnectdb(dsn);

	(void)state;
	PQclear(PQexec(c, "BEGIN; LOCK TABLE node IN ACCESS EXCLUSIVE MODE"));
	q_api_agents_seen(lanes, &seen,
	    &(struct q_api_agents_seen){ .agent = &agent, .agent_n = 1 }, no_done);
	q_api_listens(lanes, &quick, NULL, no_done);
	assert_true(test_op_wait(&quick.op));
	assert_int_equal(quick.op.rc, SPOT_OK);
	assert_true(op_busy(&seen.op));
	PQfinish(c);
	assert_true(test_op_wait(&seen.op));
	assert_int_equal(seen.op.rc, SPOT_OK);
	pg_req_fini(&seen);
	pg_req_fini(&quick);
	pg_free(lanes);
}

/* ---- the window of the queue
 * ---------------------------------------------------------------------------------------- */

/* The ids of a window, those of its slice in brackets; the walk goes on behind them. */
static const char *window_text(struct q_engine_assign_jobs *p)
{
	struct q_engine_assign_jobs_row *rows;
	struct pg_req req = { 0 };
	char *ret = arena_printf(arena, "%s", "");
	size_t n;

	q_engine_assign_jobs(pg, &req, p, no_done);
	assert_true(test_op_wait(&req.op));
	assert_string_equal(req.op.err.text, "");
	n = q_engine_assign_jobs_rows(&req, arena, &rows);
	for (size_t i = 0; i < n; i++) {
		ret = arena_printf(arena,
		    rows[i].slice_ask >= 0 ? "%s%s(%" PRId64 ")" : "%s%s%" PRId64, ret,
		    i > 0 ? " " : "", rows[i].id);
		p->after = MAX(p->after, rows[i].slice_ask);
	}
	pg_req_fini(&req);
	return ret;
}

static int64_t ask_of(int job)
{
	return strtoll(testdb_text(dsn,
			   arena_printf(arena, "SELECT ask FROM job WHERE id = %d", job)),
	    NULL, 10);
}

/* Two groups of priority 0, the first of four jobs; 9 comes before them and 10 after. */
static void groups_make(void)
{
	testdb_exec(dsn,
	    "INSERT INTO job (name, owner, team, project, class, priority, spec, source, state, "
	    "state_us, created_us, queued_us, not_before_us) SELECT 'j', 'me', 'ml', 'p', "
	    "'training', CASE i WHEN 9 THEN 7 WHEN 10 THEN -5 ELSE 0 END, CASE WHEN i < 5 THEN "
	    "'{\"vcpus\":1}' ELSE '{}' END::jsonb, '', 'QUEUED', 1, 1, 1, CASE i WHEN 10 THEN 2e18 "
	    "END FROM generate_series(1, 5000) i");
}

static void every_group_of_the_queue_has_its_turn(void **state)
{
	struct q_engine_assign_jobs p = { .head = 20,
		.each = 2,
		.after = -1,
		.at_us = SPOT_US_PER_S };
	bool first;

	(void)state;
	groups_make();
	first = ask_of(1) < ask_of(5);
	assert_string_equal(window_text(&p), "9 1 2 5 6 10");
	p.head = 3;
	p.slice = 2;
	assert_string_equal(window_text(&p), first ? "(9) (1) 2" : "(9) (5) 6");
	p.head = 1;
	p.slice = 1;
	p.after = ask_of(9);
	assert_string_equal(window_text(&p), first ? "9 (1)" : "9 (5)");
	assert_string_equal(window_text(&p), first ? "9 (5)" : "9 (1)");
	assert_string_equal(window_text(&p), "9 (10)");
	testdb_exec(dsn, "UPDATE job SET state = 'CANCELLED'");
	assert_string_equal(window_text(&p), "");
}

/* Thousands of jobs of one ask stand before others. */
static void a_blocked_group_costs_no_row(void **state)
{
	const int64_t held[] = { 8 }, own[] = { 7 };
	int64_t blocked[2];
	struct q_engine_assign_jobs p = { .head = 20,
		.each = 2,
		.after = -1,
		.at_us = SPOT_US_PER_S,
		.blocked = blocked,
		.blocked_n = 1 };

	(void)state;
	groups_make();
	blocked[0] = ask_of(5);
	assert_string_equal(window_text(&p), "9 1 2 10");
	blocked[0] = MIN(ask_of(1), ask_of(5));
	blocked[1] = MAX(ask_of(1), ask_of(5));
	p.blocked_n = 2;
	assert_string_equal(window_text(&p), "9 10");
	/* A job with held capacity and one whose machine is ready are read beside others. */
	p.held = held;
	p.own = own;
	p.held_n = p.own_n = 1;
	assert_string_equal(window_text(&p), "9 7 8 10");
	/* A changed file is another ask. */
	testdb_exec(dsn, "UPDATE job SET spec = '{\"vcpus\":2}' WHERE id = 6");
	assert_string_equal(window_text(&p), "9 6 7 8 10");
	/* A job whose machine is on its way leaves its place to the next. */
	testdb_exec(dsn,
	    "INSERT INTO pool (provider, region, zone, zone_name, instance_type, market, gpu_name, "
	    "gpu_milli, gpu_mem_mib, vcpus, mem_mib, arch, quota_class, offered, seen_us) VALUES "
	    "('p', 'r', 'z', 'z', 't', 'spot', '', 0, 0, 1, 1, 'x86_64', '', true, 1)");
	testdb_exec(dsn,
	    "INSERT INTO node (pool_id, job_id, state, state_us, token, name, price_micros, "
	    "created_us) VALUES (1, 1, 'BOOTING', 1, 't', 'n', 1, 1)");
	p.held_n = p.own_n = 0;
	blocked[0] = ask_of(5);
	p.blocked_n = 1;
	assert_string_equal(window_text(&p), "9 2 3 6 10");
}

/* A budget may run out while its machine is on its way. */
static void each_budget_on_its_way_is_looked_at(void **state)
{
	struct q_engine_assign_jobs p = { .head = 3,
		.each = 2,
		.after = -1,
		.at_us = SPOT_US_PER_S,
		.budgets = true };

	(void)state;
	jobs_make("{}");
	testdb_exec(dsn,
	    "DELETE FROM attempt; UPDATE job SET state = 'QUEUED', budget_micros = 999; UPDATE "
	    "node SET state = 'BOOTING'; INSERT INTO job (name, owner, team, project, class, spec, "
	    "source, state, state_us, created_us, queued_us, budget_micros) SELECT name, owner, "
	    "team, project, class, spec, source, state, state_us, created_us, queued_us, "
	    "budget_micros FROM job, generate_series(1, 5) WHERE id = 1; INSERT INTO node "
	    "(pool_id, job_id, state, state_us, token, name, price_micros, created_us) SELECT 1, "
	    "id, 'WANTED', 1, id, id, 1000000, 1 FROM job WHERE id > 2");
	assert_string_equal(window_text(&p), "1 2 3 4 5 6 7");
	p.budgets = false;
	assert_string_equal(window_text(&p), "");
}

/* Without a fleet, too, a machine may run one job after the other. 1 micro-dollar a second. */
static void each_job_of_a_machine_pays_its_own_time(void **state)
{
	(void)state;
	jobs_make("{}");
	testdb_exec(dsn,
	    "DELETE FROM attempt; DELETE FROM node WHERE job_id = 1; UPDATE node SET price_micros "
	    "= 3600, launched_us = 0, billed_to_us = 100000000; INSERT INTO attempt (job_id, "
	    "epoch, "
	    "node_id, pool_id, market, phase, desired, version, created_us, ended_us) VALUES "
	    "(1, 1, 2, 1, 'spot', 'EXITED', 'run', 1, 50000000, 400000000), "
	    "(2, 1, 2, 1, 'spot', 'RUNNING', 'run', 1, 410000000, NULL)");
	assert_int_equal(testdb_int(dsn, "SELECT job_spent(1, 1000000000)"), 300);
	assert_int_equal(testdb_int(dsn, "SELECT job_spent(2, 1000000000)"), 600);
	testdb_exec(dsn, "UPDATE node SET state = 'GONE', ended_us = 900000000");
	assert_int_equal(testdb_int(dsn, "SELECT job_spent(1, 1000000000)"), 300);
	assert_int_equal(testdb_int(dsn, "SELECT job_spent(2, 1000000000)"), 500);
}

/* Each job asks for something else, and the queue's order is the reverse of their ids. */
static void the_head_is_the_queues_however_many_ask(void **state)
{
	struct q_engine_assign_jobs p = { .head = 3,
		.each = 2,
		.after = -1,
		.at_us = SPOT_US_PER_S };
	int64_t blocked[1];
	const char *first, *most = "1000 999 998";

	(void)state;
	groups_make();
	testdb_exec(dsn,
	    "DELETE FROM job WHERE id > 1000; UPDATE job SET priority = 0, not_before_us = NULL, "
	    "spec = jsonb_build_object('vcpus', id); INSERT INTO job_queue SELECT id, 1001 - id, "
	    "0, "
	    "0, '', 1 FROM job");
	first = window_text(&p);
	assert_memory_equal(first, most, strlen(most));
	blocked[0] = ask_of(999);
	p.blocked = blocked;
	p.blocked_n = 1;
	first = window_text(&p);
	most = "1000 998 997";
	assert_memory_equal(first, most, strlen(most));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(heartbeats_delay_no_quick_statement),
		T(a_budget_is_looked_at_without_reading_the_ledger),
		T(the_sum_of_a_job_is_kept_whoever_writes_its_lines),
		T(two_that_write_the_first_sum_of_a_job_count_each_line_once),
		T(sets_that_were_decided_are_not_read_again),
		T(of_lost_lines_the_first_are_read_and_all_are_booked),
		T(every_group_of_the_queue_has_its_turn),
		T(a_blocked_group_costs_no_row),
		T(each_budget_on_its_way_is_looked_at),
		T(each_job_of_a_machine_pays_its_own_time),
		T(the_head_is_the_queues_however_many_ask),
	};

	return STORE_TESTS(tests);
}
