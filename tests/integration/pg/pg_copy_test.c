/* COPY with its merge, and LISTEN. */
#include "base/base.h"
#include "harness.h"
#include "io/pg/pg.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <cmocka.h>

static struct testdb *db;
static struct loop *loop;
static struct pg *pg;
static const char *dsn;
static int woken_count;
static char woken_payload[64];

static const char setup_sql[] = "CREATE TEMP TABLE IF NOT EXISTS t_in (id int8, name text, f "
				"float8, ok bool, n int4) ON COMMIT DELETE ROWS";
static const char copy_sql[] = "COPY t_in (id, name, f, ok, n) FROM STDIN BINARY";
static const struct pg_stmt merge = { .name = "merge_t",
	.writes = true,
	.sql = "WITH m AS (INSERT INTO t SELECT * FROM t_in RETURNING "
	       "id) SELECT count(*), max(id) FROM m" };
static const struct pg_stmt stmt_one = { .name = "one", .sql = "SELECT 1::int8" };

static void no_done(struct op *op)
{
	(void)op;
}

static bool is_ready(void *arg)
{
	return pg_ready(arg);
}

static int set_up(void **state)
{
	(void)state;
	woken_count = 0;
	loop = test_loop_new();
	dsn = testdb_new_empty(db);
	testdb_exec(dsn,
	    "CREATE TABLE t (id int8 PRIMARY KEY, name text, f float8, ok bool, n "
	    "int4 CHECK (n < 1000000))");
	pg = pg_new(loop, &(struct pg_conf){ .dsn = dsn, .connections = 2 });
	assert_true(test_until(loop, 60 * SPOT_US_PER_S, is_ready, pg));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	pg_free(pg);
	loop_turn(loop, 0);
	loop_free(loop);
	return 0;
}

static void rows_add(struct pg_copy *c, int from, int n)
{
	char name[64];

	for (int i = from; i < from + n; i++) {
		(void)snprintf(name, sizeof(name), "row %d \t\\N 'q' \xc3\xa9", i);
		pg_copy_row(c, 5);
		pg_copy_i64(c, i);
		if (i % 10 == 0) {
			pg_copy_text(c, NULL);
		} else {
			pg_copy_text(c, name);
		}
		pg_copy_f64(c, i / 2.0);
		pg_copy_bool(c, i % 2 == 0);
		if (i % 7 == 0) {
			pg_copy_null(c);
		} else {
			pg_copy_i32(c, i);
		}
	}
}

static void fifty_thousand_rows_are_copied_and_merged_while_statements_go_on(void **state)
{
	struct pg_copy c = { 0 };
	struct pg_req reqs[200] = { 0 };

	(void)state;
	pg_copy_begin(&c, 64 << 20);
	rows_add(&c, 0, 50000);
	pg_copy_send(pg, &c, setup_sql, copy_sql, &merge, no_done);
	for (int i = 0; i < 200; i++) {
		pg_exec(pg, &reqs[i], &stmt_one, NULL, no_done);
	}
	assert_true(test_op_wait(&c.op));
	assert_string_equal(c.op.err.text, "");
	assert_int_equal(c.op.rc, SPOT_OK);
	assert_int_equal(pg_int(c.result, 0, 0), 50000);
	assert_int_equal(pg_int(c.result, 0, 1), 49999);
	for (int i = 0; i < 200; i++) {
		assert_true(test_op_wait(&reqs[i].op));
		assert_int_equal(reqs[i].op.rc, SPOT_OK);
		pg_req_fini(&reqs[i]);
	}
	assert_int_equal(
	    testdb_int(dsn,
		"SELECT count(*) FROM t WHERE (name IS NULL) = (id % 10 = 0) AND f = id / 2.0 "
		"AND ok = (id % 2 = 0) AND n IS NOT DISTINCT FROM nullif(id, CASE WHEN id % 7 "
		"= 0 THEN id END)"),
	    50000);
	assert_string_equal(testdb_text(dsn, "SELECT name FROM t WHERE id = 1"),
	    "row 1 \t\\N 'q' \xc3\xa9");
	pg_copy_fini(&c);
}

static void a_failing_merge_leaves_nothing_and_the_connection_is_used_again(void **state)
{
	struct pg_copy c = { 0 };
	struct pg_req req = { 0 };

	(void)state;
	testdb_exec(dsn, "INSERT INTO t (id) VALUES (5)");
	for (int i = 0; i < 6; i++) {
		pg_copy_begin(&c, 1 << 20);
		rows_add(&c, 0, 10);
		pg_copy_send(pg, &c, setup_sql, copy_sql, &merge, no_done);
		assert_true(test_op_wait(&c.op));
		assert_int_equal(c.op.rc, SPOT_CONFLICT);
		assert_string_equal(c.op.err.code, "t_pkey");
		pg_exec(pg, &req, &stmt_one, NULL, no_done);
		assert_true(test_op_wait(&req.op));
		assert_int_equal(req.op.rc, SPOT_OK);
	}
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM t"), 1);
	assert_int_equal(pg_stats(pg).reconnects, 0);
	pg_req_fini(&req);
	pg_copy_fini(&c);
}

static void rows_that_the_server_refuses_are_an_error_not_a_hang(void **state)
{
	struct pg_copy c = { 0 };

	(void)state;
	pg_copy_begin(&c, 64 << 20);
	rows_add(&c, 0, 3);
	pg_copy_row(&c, 4); /* one column short */
	for (int i = 0; i < 4; i++) {
		pg_copy_null(&c);
	}
	rows_add(&c, 10, 100000); /* more than socket buffers hold */
	pg_copy_send(pg, &c, setup_sql, copy_sql, &merge, no_done);
	assert_true(test_op_wait(&c.op));
	if (c.op.rc != SPOT_INTERNAL) {
		print_error("%s\n", c.op.err.text);
	}
	assert_int_equal(c.op.rc, SPOT_INTERNAL);
	assert_string_equal(c.op.err.code, "22P04"); /* bad_copy_file_format */
	pg_copy_send(pg, &c, NULL, "COPY nowhere FROM STDIN BINARY", NULL, no_done);
	assert_true(test_op_wait(&c.op));
	assert_string_equal(c.op.err.code, "42P01");
	pg_copy_send(pg, &c, NULL, "SELECT 1", NULL, no_done);
	assert_true(test_op_wait(&c.op));
	assert_int_equal(c.op.rc, SPOT_INTERNAL);
	pg_copy_fini(&c);
}

static void a_copy_without_setup_and_merge_goes_straight_into_the_table(void **state)
{
	struct pg_copy c = { 0 };

	(void)state;
	pg_copy_begin(&c, 1 << 20);
	rows_add(&c, 0, 100);
	pg_copy_send(pg, &c, NULL, "COPY t FROM STDIN BINARY", NULL, no_done);
	assert_true(test_op_wait(&c.op));
	assert_int_equal(c.op.rc, SPOT_OK);
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM t"), 100);
	pg_copy_fini(&c);
}

static void more_bytes_than_allowed_are_refused_before_anything_is_sent(void **state)
{
	struct pg_copy c = { 0 };

	(void)state;
	pg_copy_begin(&c, 1000);
	rows_add(&c, 0, 100);
	pg_copy_send(pg, &c, setup_sql, copy_sql, &merge, no_done);
	assert_true(test_op_wait(&c.op));
	assert_int_equal(c.op.rc, SPOT_TOO_LARGE);
	pg_copy_fini(&c);
}

static bool is_copying(void *arg)
{
	(void)arg;
	return testdb_int(dsn,
		   "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%INTO t SELECT%' AND "
		   "state = 'active' AND pid <> pg_backend_pid()") > 0;
}

static void a_copy_lost_before_its_commit_had_no_effect_and_says_so(void **state)
{
	static const struct pg_stmt slow = { .name = "merge_slow",
		.writes = true,
		.sql = "INSERT INTO t SELECT t_in.* FROM t_in, pg_sleep(20)" };
	struct pg_copy c = { 0 };

	(void)state;
	pg_copy_begin(&c, 1 << 20);
	rows_add(&c, 0, 10);
	pg_copy_send(pg, &c, setup_sql, copy_sql, &slow, no_done);
	assert_true(test_until(loop, 60 * SPOT_US_PER_S, is_copying, NULL));
	testdb_exec(dsn,
	    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE "
	    "'%pg_sleep(20)' "
	    "AND pid <> pg_backend_pid()");
	assert_true(test_op_wait(&c.op));
	assert_int_equal(c.op.rc, SPOT_UNAVAILABLE);
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM t"), 0);
	/* A stopped one, the same. */
	pg_copy_send(pg, &c, setup_sql, copy_sql, &slow, no_done);
	assert_true(test_until(loop, 60 * SPOT_US_PER_S, is_copying, NULL));
	op_stop(&c.op);
	assert_true(test_op_wait(&c.op));
	assert_int_equal(c.op.rc, SPOT_CANCELLED);
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM t"), 0);
	pg_copy_fini(&c);
}

/* ---- listen -------------------------------------------------------------------------------------
 */

static void listener_woken(struct pg_listen *l, const char *channel, const char *payload)
{
	assert_string_equal(channel, l->channel);
	woken_count++;
	(void)snprintf(woken_payload, sizeof(woken_payload), "%s", payload);
}

static bool woken_times(void *arg)
{
	return woken_count >= *(int *)arg;
}

static void a_listener_wakes_on_start_on_notify_and_after_a_reconnect(void **state)
{
	struct pg_listen l = { 0 }, m = { 0 };
	int n = 1;

	(void)state;
	pg_listen(pg, &l, "work", listener_woken);
	assert_true(test_until(loop, 60 * SPOT_US_PER_S, woken_times, &n));
	testdb_exec(dsn, "NOTIFY work, 'seven'");
	n = 2;
	assert_true(test_until(loop, 60 * SPOT_US_PER_S, woken_times, &n));
	assert_string_equal(woken_payload, "seven");
	pg_listen(pg, &m, "Other channel", listener_woken);
	n = 4; /* both are woken by a new round */
	assert_true(test_until(loop, 60 * SPOT_US_PER_S, woken_times, &n));
	testdb_exec(dsn, "NOTIFY \"Other channel\", 'eight'; NOTIFY unheard");
	n = 5;
	assert_true(test_until(loop, 60 * SPOT_US_PER_S, woken_times, &n));
	assert_string_equal(woken_payload, "eight");
	testdb_exec(dsn,
	    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
	    "AND datname = current_database()");
	n = 7;
	assert_true(test_until(loop, 60 * SPOT_US_PER_S, woken_times, &n));
	testdb_exec(dsn, "NOTIFY work, 'nine'");
	n = 8;
	assert_true(test_until(loop, 60 * SPOT_US_PER_S, woken_times, &n));
	assert_string_equal(woken_payload, "nine");
}

static void a_listener_that_stopped_is_not_woken_and_the_rest_reconnects(void **state)
{
	struct pg_listen l = { 0 }, m = { 0 };
	int n = 2, before;

	(void)state;
	pg_listen(pg, &l, "a", listener_woken);
	pg_listen(pg, &m, "b", listener_woken);
	assert_true(test_until(loop, 60 * SPOT_US_PER_S, woken_times, &n));
	pg_listen_stop(pg, &l);
	pg_listen_stop(pg, &m);
	before = woken_count;
	testdb_exec(dsn,
	    "NOTIFY a; SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
	    "WHERE pid <> pg_backend_pid() AND datname = current_database()");
	assert_true(test_until(loop, 60 * SPOT_US_PER_S, is_ready, pg));
	for (int i = 0; i < 20; i++) {
		loop_turn(loop, 20000);
	}
	assert_int_equal(woken_count, before);
	pg_listen(pg, &m, "b", listener_woken);
	n = before + 1;
	assert_true(test_until(loop, 60 * SPOT_US_PER_S, woken_times, &n));
}

static void two_channels_asked_for_at_once_are_both_heard(void **state)
{
	struct pg_listen l = { 0 }, m = { 0 }, o = { 0 };
	int n = 5;

	(void)state;
	pg_listen(pg, &l, "a", listener_woken);
	pg_listen(pg, &m, "b", listener_woken);
	assert_true(test_until(loop, 60 * SPOT_US_PER_S, woken_times, &(int){ 2 }));
	/* The third while a round is under way. */
	pg_listen(pg, &o, "c", listener_woken);
	assert_true(test_until(loop, 60 * SPOT_US_PER_S, woken_times, &n));
	testdb_exec(dsn, "NOTIFY c, 'last'");
	n = woken_count + 1;
	assert_true(test_until(loop, 60 * SPOT_US_PER_S, woken_times, &n));
	assert_string_equal(woken_payload, "last");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(fifty_thousand_rows_are_copied_and_merged_while_statements_go_on),
		T(a_failing_merge_leaves_nothing_and_the_connection_is_used_again),
		T(rows_that_the_server_refuses_are_an_error_not_a_hang),
		T(a_copy_without_setup_and_merge_goes_straight_into_the_table),
		T(more_bytes_than_allowed_are_refused_before_anything_is_sent),
		T(a_copy_lost_before_its_commit_had_no_effect_and_says_so),
		T(a_listener_wakes_on_start_on_notify_and_after_a_reconnect),
		T(a_listener_that_stopped_is_not_woken_and_the_rest_reconnects),
		T(two_channels_asked_for_at_once_are_both_heard),
	};
	int failed;

	db = testdb_start();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	testdb_stop(db);
	return failed;
}
