/* The database client against a real server: what one statement may do to another, what a lost
 * connection means, and that it comes back. */
#include "base/base.h"
#include "base/arena.h"
#include "harness.h"
#include "io/pg.h"
#include "store/bind.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <cmocka.h>

static struct testdb *db;

#define OID_BOOL   16
#define OID_INT8   20
#define OID_TEXT   25
#define OID_FLOAT8 701

static const unsigned int8_type[] = {OID_INT8};
static const struct pg_stmt stmt_echo = {
    .name = "echo", .sql = "SELECT $1 + 1", .params_n = 1, .param_types = int8_type};
static const struct pg_stmt stmt_divide = {
    .name = "divide", .sql = "SELECT 10 / $1", .params_n = 1, .param_types = int8_type};
static const struct pg_stmt stmt_broken = {.name = "broken", .sql = "SELECT nothing FROM nowhere"};
static const struct pg_stmt stmt_insert = {.name = "insert",
					   .sql = "INSERT INTO t (id) VALUES ($1)",
					   .params_n = 1,
					   .param_types = int8_type,
					   .writes = true};
static const struct pg_stmt stmt_sleep = {.name = "sleep",
					  .sql = "SELECT pg_sleep($1)",
					  .params_n = 1,
					  .param_types = (const unsigned[]){OID_FLOAT8}};
static const struct pg_stmt stmt_insert_slow = {.name = "insert_slow",
						.sql = "INSERT INTO t SELECT 77 FROM pg_sleep($1)",
						.params_n = 1,
						.param_types = (const unsigned[]){OID_FLOAT8},
						.writes = true};

struct world {
	struct loop *loop;
	struct pg *pg;
	const char *dsn;
	int connections;
};

static int done_count;

static void count_done(struct op *op)
{
	(void)op;
	done_count++;
}

static bool is_ready(void *arg)
{
	return pg_ready(arg);
}

static int world_set_up(void **state, int connections, int64_t statement_timeout_us)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	done_count = 0;
	w->loop = test_loop_new();
	w->connections = connections;
	w->dsn = testdb_new_empty(db);
	testdb_exec(w->dsn, "CREATE TABLE t (id int8 PRIMARY KEY)");
	w->pg = pg_new(w->loop, &(struct pg_conf){.dsn = w->dsn,
						  .connections = connections,
						  .statement_timeout_us = statement_timeout_us});
	assert_true(test_until(w->loop, 20 * SPOT_US_PER_S, is_ready, w->pg));
	*state = w;
	return 0;
}

static int set_up(void **state)
{
	return world_set_up(state, 2, 0);
}

static int set_up_one(void **state)
{
	return world_set_up(state, 1, 0);
}

static int set_up_hasty(void **state)
{
	return world_set_up(state, 1, SPOT_US_PER_S / 2);
}

static int tear_down(void **state)
{
	struct world *w = *state;

	pg_free(w->pg);
	loop_turn(w->loop, 0);
	loop_free(w->loop);
	free(w);
	return 0;
}

static void exec_int(struct world *w, struct pg_req *req, const struct pg_stmt *stmt, int64_t v)
{
	struct bind b;

	bind_init(&b, stmt->name);
	bind_i64(&b, v);
	pg_exec(w->pg, req, stmt, b.params, count_done);
	bind_fini(&b);
}

static void exec_float(struct world *w, struct pg_req *req, const struct pg_stmt *stmt, double v)
{
	struct bind b;

	bind_init(&b, stmt->name);
	bind_f64(&b, v);
	pg_exec(w->pg, req, stmt, b.params, count_done);
	bind_fini(&b);
}

static bool none_up(void *arg)
{
	return !pg_ready(arg);
}

static bool reconnected(void *arg)
{
	struct pg_stats s = pg_stats(arg);

	return s.reconnects > 0 && s.up > 0;
}

/* ---- statements ------------------------------------------------------------------------------ */

static void a_statement_gives_its_row_and_never_completes_inside_the_call(void **state)
{
	struct world *w = *state;
	struct pg_req req = {0};

	exec_int(w, &req, &stmt_echo, 41);
	assert_int_equal(done_count, 0);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(req.op.rc, SPOT_OK);
	assert_int_equal(pg_rows(req.result), 1);
	assert_int_equal(pg_int(req.result, 0, 0), 42);
	assert_int_equal(done_count, 1);
	pg_req_fini(&req);
	pg_req_fini(&req);
}

static void a_failing_statement_leaves_its_pipeline_neighbours_alone(void **state)
{
	struct world *w = *state;
	struct pg_req reqs[300] = {0};

	for (int i = 0; i < 300; i++)
		exec_int(w, &reqs[i], i % 3 == 0 ? &stmt_divide : &stmt_echo, i % 6 == 0 ? 0 : i);
	for (int i = 0; i < 300; i++) {
		assert_true(test_op_wait(&reqs[i].op));
		if (i % 6 == 0) {
			assert_int_equal(reqs[i].op.rc, SPOT_INTERNAL);
			assert_string_equal(reqs[i].op.err.code, "22012");
			assert_non_null(strstr(reqs[i].op.err.text, "divide: division by zero"));
			assert_null(reqs[i].result);
		} else {
			assert_int_equal(reqs[i].op.rc, SPOT_OK);
			assert_int_equal(pg_int(reqs[i].result, 0, 0), i % 3 == 0 ? 10 / i : i + 1);
		}
		pg_req_fini(&reqs[i]);
	}
	assert_int_equal(done_count, 300);
	assert_int_equal(pg_stats(w->pg).reconnects, 0);
}

static void a_statement_that_does_not_prepare_fails_and_may_be_tried_again(void **state)
{
	struct world *w = *state;
	struct pg_req bad = {0}, good = {0};

	for (int i = 0; i < 2; i++) {
		pg_exec(w->pg, &bad, &stmt_broken, NULL, count_done);
		exec_int(w, &good, &stmt_echo, i);
		assert_true(test_op_wait(&bad.op) && test_op_wait(&good.op));
		assert_int_equal(bad.op.rc, SPOT_INTERNAL);
		assert_string_equal(bad.op.err.code, "42P01");
		assert_int_equal(good.op.rc, SPOT_OK);
	}
	testdb_exec(w->dsn, "CREATE TABLE nowhere (nothing int)");
	pg_exec(w->pg, &bad, &stmt_broken, NULL, count_done);
	assert_true(test_op_wait(&bad.op));
	assert_int_equal(bad.op.rc, SPOT_OK);
	pg_req_fini(&bad);
	pg_req_fini(&good);
}

static void a_statement_prepared_before_a_schema_change_works_again_after_one_retry(void **state)
{
	static const struct pg_stmt all = {.name = "all", .sql = "SELECT * FROM t"};
	struct world *w = *state;
	struct pg_req req = {0};
	int tries = 0;

	pg_exec(w->pg, &req, &all, NULL, count_done);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(req.op.rc, SPOT_OK);
	testdb_exec(w->dsn, "ALTER TABLE t ADD COLUMN more int");
	do {
		pg_exec(w->pg, &req, &all, NULL, count_done);
		assert_true(test_op_wait(&req.op));
	} while (req.op.rc != SPOT_OK && ++tries < 3);
	assert_int_equal(req.op.rc, SPOT_OK);
	assert_int_equal(pg_columns(req.result), 2);
	assert_true(tries <= 1);
	pg_req_fini(&req);
}

static void a_violated_constraint_is_a_conflict_with_its_name(void **state)
{
	struct world *w = *state;
	struct pg_req req = {0};

	for (int i = 0; i < 2; i++) {
		exec_int(w, &req, &stmt_insert, 5);
		assert_true(test_op_wait(&req.op));
	}
	assert_int_equal(req.op.rc, SPOT_CONFLICT);
	assert_string_equal(req.op.err.code, "t_pkey");
	assert_null(strstr(req.op.err.text, "(5)")); /* row values may be secrets */
	pg_req_fini(&req);
}

/* Deferred constraints are checked by the commit, which comes after the statement's own result. */
static void an_error_at_commit_is_an_error_of_the_statement(void **state)
{
	struct world *w = *state;
	struct pg_req req = {0};

	testdb_exec(w->dsn, "ALTER TABLE t ADD COLUMN twin int8 DEFAULT 9 REFERENCES t DEFERRABLE "
			    "INITIALLY DEFERRED");
	exec_int(w, &req, &stmt_insert, 5);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(req.op.rc, SPOT_CONFLICT);
	assert_string_equal(req.op.err.code, "t_twin_fkey");
	assert_int_equal(testdb_int(w->dsn, "SELECT count(*) FROM t"), 0);
	pg_req_fini(&req);
}

static void affected_rows_are_counted(void **state)
{
	static const struct pg_stmt fill = {
	    .name = "fill", .writes = true, .sql = "INSERT INTO t SELECT generate_series(1, 123)"};
	struct world *w = *state;
	struct pg_req req = {0};

	pg_exec(w->pg, &req, &fill, NULL, count_done);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(pg_affected(req.result), 123);
	pg_req_fini(&req);
}

/* ---- values ------------------------------------------------------------------------------------
 */

static void values_come_back_as_they_went(void **state)
{
	static const unsigned types[] = {OID_INT8, OID_FLOAT8, OID_BOOL, OID_TEXT,
					 OID_TEXT, 17,	       3802,	 23};
	static const struct pg_stmt stmt = {
	    .name = "values",
	    .params_n = 8,
	    .param_types = types,
	    .sql = "SELECT $1, $2, $3, $4, $5, $6, $7, $8, $1::int2 IS NULL, 7::int2, 1.5::float4"};
	static const char bytes[] = {0, 1, '\\', '\'', '\377'};
	static const char text[] = "it's \"quoted\" \\ \xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\x80 {,} \n";
	struct world *w = *state;
	struct pg_req req = {0};
	struct bind b;

	bind_init(&b, stmt.name);
	bind_null(&b);
	bind_f64(&b, -0.1);
	bind_bool(&b, true);
	bind_text(&b, text, false);
	bind_text(&b, NULL, true);
	bind_bytes(&b, (struct str){bytes, sizeof(bytes)}, false);
	bind_jsonb(&b, "{\"a\": [1, null]}", false);
	bind_i32(&b, INT32_MIN);
	pg_exec(w->pg, &req, &stmt, b.params, count_done);
	bind_fini(&b);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(req.op.rc, SPOT_OK);
	assert_true(pg_null(req.result, 0, 0));
	assert_true(pg_float(req.result, 0, 1) == -0.1);
	assert_true(pg_bool(req.result, 0, 2));
	assert_string_equal(pg_bytes(req.result, 0, 3).p, text);
	assert_true(pg_null(req.result, 0, 4));
	assert_int_equal(pg_bytes(req.result, 0, 5).n, sizeof(bytes));
	assert_memory_equal(pg_bytes(req.result, 0, 5).p, bytes, sizeof(bytes));
	assert_string_equal(pg_bytes(req.result, 0, 6).p + 1, "{\"a\": [1, null]}");
	assert_int_equal(pg_int(req.result, 0, 7), INT32_MIN);
	assert_true(pg_bool(req.result, 0, 8));
	assert_int_equal(pg_int(req.result, 0, 9), 7);
	assert_true(pg_float(req.result, 0, 10) == 1.5);
	pg_req_fini(&req);
}

static void arrays_carry_any_text_and_nulls(void **state)
{
	static const unsigned types[] = {1016, 1009, 1022, 1000, 1007, 1009};
	static const struct pg_stmt stmt = {
	    .name = "arrays",
	    .params_n = 6,
	    .param_types = types,
	    .sql = "SELECT a, b, c::text, d::text FROM unnest($1, $2, $3, $4) u (a, b, c, d) "
		   "UNION ALL SELECT cardinality($5), array_to_string($6, '-'), NULL, NULL"};
	static const int64_t ints[] = {INT64_MIN, 0, INT64_MAX};
	static const char *const texts[] = {"a \"b\" \\c, {d} 'e'", NULL, "\xe2\x82\xac NULL"};
	static const double floats[] = {1.5, -2, 0};
	static const bool bools[] = {true, false, true};
	struct world *w = *state;
	struct pg_req req = {0};
	struct bind b;

	bind_init(&b, stmt.name);
	bind_i64_array(&b, ints, 3, false);
	bind_text_array(&b, texts, 3, false);
	bind_f64_array(&b, floats, 3, false);
	bind_bool_array(&b, bools, 3, false);
	bind_i32_array(&b, NULL, 0, false);
	bind_text_array(&b, NULL, 0, true);
	pg_exec(w->pg, &req, &stmt, b.params, count_done);
	bind_fini(&b);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(req.op.rc, SPOT_OK);
	assert_int_equal(pg_rows(req.result), 4);
	for (size_t i = 0; i < 3; i++) {
		assert_true(pg_int(req.result, i, 0) == ints[i]);
		assert_int_equal(pg_null(req.result, i, 1), texts[i] == NULL);
		if (texts[i] != NULL)
			assert_string_equal(pg_bytes(req.result, i, 1).p, texts[i]);
	}
	assert_string_equal(pg_bytes(req.result, 1, 2).p, "-2");
	assert_string_equal(pg_bytes(req.result, 1, 3).p, "false");
	assert_int_equal(pg_int(req.result, 3, 0), 0);
	assert_true(pg_null(req.result, 3, 1));
	pg_req_fini(&req);
}

static void megabytes_both_ways_in_one_pipeline_do_not_block_each_other(void **state)
{
	enum { N = 60, BYTES = 1 << 20 };
	static const unsigned types[] = {OID_TEXT};
	static const struct pg_stmt stmt = {
	    .name = "big", .sql = "SELECT $1", .params_n = 1, .param_types = types};
	struct world *w = *state;
	struct pg_req reqs[N] = {0};
	char *text = malloc(BYTES + 1);

	assert_non_null(text);
	memset(text, 'x', BYTES);
	text[BYTES] = '\0';
	for (int i = 0; i < N; i++) {
		struct bind b;

		text[0] = (char)('0' + i);
		bind_init(&b, stmt.name);
		bind_text(&b, text, false);
		pg_exec(w->pg, &reqs[i], &stmt, b.params, count_done);
		bind_fini(&b);
	}
	for (int i = 0; i < N; i++) {
		assert_true(test_op_wait(&reqs[i].op));
		assert_string_equal(reqs[i].op.err.text, "");
		assert_int_equal(pg_bytes(reqs[i].result, 0, 0).n, BYTES);
		assert_int_equal(pg_bytes(reqs[i].result, 0, 0).p[0], '0' + i);
		pg_req_fini(&reqs[i]);
	}
	free(text);
}

/* ---- deadlines and losses
 * ------------------------------------------------------------------------ */

static void the_servers_own_timeout_ends_a_slow_statement(void **state)
{
	struct world *w = *state;
	struct pg_req req = {0}, next = {0};

	exec_float(w, &req, &stmt_sleep, 30);
	exec_int(w, &next, &stmt_echo, 1);
	assert_true(test_op_wait(&req.op) && test_op_wait(&next.op));
	assert_int_equal(req.op.rc, SPOT_TIMEOUT);
	assert_string_equal(req.op.err.code, "57014");
	assert_int_equal(next.op.rc, SPOT_OK);
	assert_int_equal(pg_stats(w->pg).reconnects, 0);
	pg_req_fini(&req);
	pg_req_fini(&next);
}

static int backend_pid(struct world *w)
{
	static const struct pg_stmt stmt = {.name = "pid", .sql = "SELECT pg_backend_pid()"};
	struct pg_req req = {0};
	int pid;

	pg_exec(w->pg, &req, &stmt, NULL, count_done);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(req.op.rc, SPOT_OK);
	pid = (int)pg_int(req.result, 0, 0);
	pg_req_fini(&req);
	return pid;
}

static void a_server_that_hangs_is_given_up_at_our_deadline_and_replaced(void **state)
{
	struct world *w = *state;
	struct pg_req write = {0}, read = {0}, later = {0};
	int pid = backend_pid(w);

	assert_int_equal(kill(pid, SIGSTOP), 0);
	exec_int(w, &write, &stmt_insert, 1);
	exec_int(w, &read, &stmt_echo, 1);
	assert_true(test_op_wait(&write.op) && test_op_wait(&read.op));
	assert_int_equal(write.op.rc, SPOT_UNKNOWN);
	assert_int_equal(read.op.rc, SPOT_TIMEOUT);
	assert_true(test_until(w->loop, 20 * SPOT_US_PER_S, reconnected, w->pg));
	exec_int(w, &later, &stmt_echo, 6);
	assert_true(test_op_wait(&later.op));
	assert_int_equal(later.op.rc, SPOT_OK);
	assert_int_equal(kill(pid, SIGCONT), 0);
	pg_req_fini(&write);
	pg_req_fini(&read);
	pg_req_fini(&later);
}

static void a_lost_write_is_unknown_a_lost_read_unavailable(void **state)
{
	struct world *w = *state;
	struct pg_req write = {0}, behind = {0}, read = {0};
	char sql[80];

	(void)snprintf(sql, sizeof(sql), "SELECT pg_terminate_backend(%d)", backend_pid(w));
	exec_float(w, &write, &stmt_insert_slow, 30);
	exec_int(w, &behind, &stmt_insert, 3);
	exec_int(w, &read, &stmt_echo, 1);
	for (int i = 0; i < 10; i++)
		loop_turn(w->loop, 20000);
	testdb_exec(w->dsn, sql);
	assert_true(test_op_wait(&write.op) && test_op_wait(&behind.op) && test_op_wait(&read.op));
	assert_int_equal(write.op.rc, SPOT_UNKNOWN);
	assert_int_equal(behind.op.rc, SPOT_UNKNOWN);
	assert_int_equal(read.op.rc, SPOT_UNAVAILABLE);
	assert_true(test_until(w->loop, 20 * SPOT_US_PER_S, reconnected, w->pg));
	exec_int(w, &write, &stmt_insert, 4);
	assert_true(test_op_wait(&write.op));
	assert_int_equal(write.op.rc, SPOT_OK);
	assert_int_equal(testdb_int(w->dsn, "SELECT count(*) FROM t"), 1);
	pg_req_fini(&write);
	pg_req_fini(&behind);
	pg_req_fini(&read);
}

static bool all_up(void *arg)
{
	const struct world *w = arg;

	return pg_stats(w->pg).up == w->connections;
}

static void it_comes_back_after_the_server_was_killed(void **state)
{
	struct world *w = *state;
	struct pg_req req = {0};

	/* One that came up only now could take the statement before its server has ended, too. */
	assert_true(test_until(w->loop, 20 * SPOT_US_PER_S, all_up, w));
	testdb_kill(db);
	assert_true(test_until(w->loop, 20 * SPOT_US_PER_S, none_up, w->pg));
	exec_int(w, &req, &stmt_insert, 8);
	for (int i = 0; i < 10; i++)
		loop_turn(w->loop, 20000);
	assert_true(
	    op_busy(&req.op)); /* waits in the queue: nothing was sent, nothing is unknown */
	testdb_restart(db);
	assert_true(test_op_wait(&req.op));
	assert_string_equal(req.op.err.text, "");
	assert_int_equal(testdb_int(w->dsn, "SELECT id FROM t"), 8);
	pg_req_fini(&req);
}

static void without_a_server_a_request_ends_unavailable_also_when_it_writes(void **state)
{
	struct loop *l = test_loop_new();
	struct pg *pg = pg_new(l, &(struct pg_conf){.dsn = "host=/nonexistent dbname=x",
						    .connections = 1,
						    .statement_timeout_us = 100000});
	struct world w = {.loop = l, .pg = pg};
	struct pg_req req = {0};

	(void)state;
	exec_int(&w, &req, &stmt_insert, 1);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(req.op.rc, SPOT_UNAVAILABLE);
	assert_false(pg_ready(pg));
	pg_req_fini(&req);
	pg_free(pg);
	loop_turn(l, 0);
	loop_free(l);
}

static void a_host_name_is_looked_up_off_the_loop(void **state)
{
	struct loop *l = test_loop_new();
	struct pg *pg =
	    pg_new(l, &(struct pg_conf){.dsn = "postgresql://nobody@no-such-host.invalid/x",
					.connections = 1,
					.statement_timeout_us = 100000});
	struct world w = {.loop = l, .pg = pg};
	struct pg_req req = {0};

	(void)state;
	exec_int(&w, &req, &stmt_echo, 1);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(req.op.rc, SPOT_UNAVAILABLE);
	pg_req_fini(&req);
	pg_free(pg); /* a look-up may be under way */
	loop_turn(l, 0);
	loop_free(l);
}

static void requests_beyond_the_queue_cap_are_refused_at_once(void **state)
{
	enum { N = 10100 };
	struct world *w = *state;
	struct pg_req *reqs = calloc(N, sizeof(*reqs));
	int refused = 0;

	assert_non_null(reqs);
	for (int i = 0; i < N; i++)
		exec_int(w, &reqs[i], &stmt_echo, i);
	for (int i = 0; i < N; i++) {
		assert_true(test_op_wait(&reqs[i].op));
		refused += reqs[i].op.rc == SPOT_UNAVAILABLE;
		assert_true(reqs[i].op.rc == SPOT_OK || reqs[i].op.rc == SPOT_UNAVAILABLE);
		pg_req_fini(&reqs[i]);
	}
	assert_int_equal(refused, N - 10000);
	assert_int_equal(done_count, N);
	free(reqs);
}

static void a_stopped_request_completes_cancelled_and_its_neighbours_go_on(void **state)
{
	struct world *w = *state;
	struct pg_req sent = {0}, other = {0}, queued = {0};

	exec_float(w, &sent, &stmt_sleep, 0.2);
	loop_turn(w->loop, 1000);
	loop_turn(w->loop, 1000);
	exec_int(w, &other, &stmt_echo, 1);
	exec_int(w, &queued, &stmt_echo, 2);
	op_stop(&sent.op);
	op_stop(&queued.op);
	pg_req_fini(&queued); /* gone: no callback */
	assert_true(test_op_wait(&sent.op) && test_op_wait(&other.op));
	assert_int_equal(sent.op.rc, SPOT_CANCELLED);
	assert_int_equal(other.op.rc, SPOT_OK);
	assert_int_equal(done_count, 2);
	pg_req_fini(&sent);
	pg_req_fini(&other);
}

static void closing_the_client_completes_what_is_open(void **state)
{
	struct world *w = *state;
	struct pg_req reqs[3] = {0};

	exec_float(w, &reqs[0], &stmt_insert_slow, 5);
	exec_float(w, &reqs[1], &stmt_sleep, 5);
	for (int i = 0; i < 5; i++)
		loop_turn(w->loop, 10000);
	exec_int(w, &reqs[2], &stmt_insert, 2);
	pg_free(w->pg);
	w->pg = NULL;
	for (int i = 0; i < 3; i++)
		assert_true(test_op_wait(&reqs[i].op));
	assert_int_equal(reqs[0].op.rc, SPOT_UNKNOWN);
	assert_int_equal(reqs[1].op.rc, SPOT_CANCELLED);
	assert_int_equal(reqs[2].op.rc, SPOT_CANCELLED);
	for (int i = 0; i < 3; i++)
		pg_req_fini(&reqs[i]);
}

int main(void)
{
#define T(name, up) cmocka_unit_test_setup_teardown(name, up, tear_down)
	const struct CMUnitTest tests[] = {
	    T(a_statement_gives_its_row_and_never_completes_inside_the_call, set_up),
	    T(a_failing_statement_leaves_its_pipeline_neighbours_alone, set_up),
	    T(a_statement_that_does_not_prepare_fails_and_may_be_tried_again, set_up),
	    T(a_statement_prepared_before_a_schema_change_works_again_after_one_retry, set_up_one),
	    T(a_violated_constraint_is_a_conflict_with_its_name, set_up),
	    T(an_error_at_commit_is_an_error_of_the_statement, set_up),
	    T(affected_rows_are_counted, set_up),
	    T(values_come_back_as_they_went, set_up),
	    T(arrays_carry_any_text_and_nulls, set_up),
	    T(megabytes_both_ways_in_one_pipeline_do_not_block_each_other, set_up_one),
	    T(the_servers_own_timeout_ends_a_slow_statement, set_up_hasty),
	    T(a_server_that_hangs_is_given_up_at_our_deadline_and_replaced, set_up_hasty),
	    T(a_lost_write_is_unknown_a_lost_read_unavailable, set_up_one),
	    T(it_comes_back_after_the_server_was_killed, set_up),
	    cmocka_unit_test(without_a_server_a_request_ends_unavailable_also_when_it_writes),
	    cmocka_unit_test(a_host_name_is_looked_up_off_the_loop),
	    T(requests_beyond_the_queue_cap_are_refused_at_once, set_up_one),
	    T(a_stopped_request_completes_cancelled_and_its_neighbours_go_on, set_up_one),
	    T(closing_the_client_completes_what_is_open, set_up_one),
	};
	int failed;

	db = testdb_start();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	testdb_stop(db);
	return failed;
}
