/* The database client against a real server: deadlines, lost connections and their return, and
 * refused statements. */
#include "base/base.h"
#include "pg_world.h"

#include <signal.h>

static bool none_up(void *arg)
{
	return !pg_ready(arg);
}

static bool has_reconnected(void *arg)
{
	struct pg_stats s = pg_stats(arg);

	return s.reconnects > 0 && s.up > 0;
}

static void the_servers_own_timeout_ends_a_slow_statement(void **state)
{
	struct world *w = *state;
	struct pg_req req = { 0 }, next = { 0 };

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
	static const struct pg_stmt stmt = { .name = "pid", .sql = "SELECT pg_backend_pid()" };
	struct pg_req req = { 0 };
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
	struct pg_req write = { 0 }, read = { 0 }, later = { 0 };
	int pid = backend_pid(w);

	assert_int_equal(kill(pid, SIGSTOP), 0);
	exec_int(w, &write, &stmt_insert, 1);
	exec_int(w, &read, &stmt_echo, 1);
	assert_true(test_op_wait(&write.op) && test_op_wait(&read.op));
	assert_int_equal(write.op.rc, SPOT_UNKNOWN);
	assert_int_equal(read.op.rc, SPOT_TIMEOUT);
	assert_true(test_until(w->loop, 60 * SPOT_US_PER_S, has_reconnected, w->pg));
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
	struct pg_req write = { 0 }, behind = { 0 }, read = { 0 };
	char sql[80];

	(void)snprintf(sql, sizeof(sql), "SELECT pg_terminate_backend(%d)", backend_pid(w));
	exec_float(w, &write, &stmt_insert_slow, 30);
	exec_int(w, &behind, &stmt_insert, 3);
	exec_int(w, &read, &stmt_echo, 1);
	for (int i = 0; i < 10; i++) {
		loop_turn(w->loop, 20000);
	}
	testdb_exec(w->dsn, sql);
	assert_true(test_op_wait(&write.op) && test_op_wait(&behind.op) && test_op_wait(&read.op));
	assert_int_equal(write.op.rc, SPOT_UNKNOWN);
	assert_int_equal(behind.op.rc, SPOT_UNKNOWN);
	assert_int_equal(read.op.rc, SPOT_UNAVAILABLE);
	assert_true(test_until(w->loop, 60 * SPOT_US_PER_S, has_reconnected, w->pg));
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
	struct pg_req req = { 0 };

	/* One that came up only now could take the statement before its server has ended, too. */
	assert_true(test_until(w->loop, 60 * SPOT_US_PER_S, all_up, w));
	testdb_kill(db);
	assert_true(test_until(w->loop, 60 * SPOT_US_PER_S, none_up, w->pg));
	exec_int(w, &req, &stmt_insert, 8);
	for (int i = 0; i < 10; i++) {
		loop_turn(w->loop, 20000);
	}
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
	struct pg *pg = pg_new(l,
	    &(struct pg_conf){ .dsn = "host=/nonexistent dbname=x",
		.connections = 1,
		.statement_timeout_us = 100000 });
	struct world w = { .loop = l, .pg = pg };
	struct pg_req req = { 0 };

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
	struct pg *pg = pg_new(l,
	    &(struct pg_conf){ .dsn = "postgresql://nobody@no-such-host.invalid/x",
		.connections = 1,
		.statement_timeout_us = 100000 });
	struct world w = { .loop = l, .pg = pg };
	struct pg_req req = { 0 };

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
	for (int i = 0; i < N; i++) {
		exec_int(w, &reqs[i], &stmt_echo, i);
	}
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
	struct pg_req sent = { 0 }, other = { 0 }, queued = { 0 };

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
	struct pg_req reqs[3] = { 0 };

	exec_float(w, &reqs[0], &stmt_insert_slow, 5);
	exec_float(w, &reqs[1], &stmt_sleep, 5);
	for (int i = 0; i < 5; i++) {
		loop_turn(w->loop, 10000);
	}
	exec_int(w, &reqs[2], &stmt_insert, 2);
	pg_free(w->pg);
	w->pg = NULL;
	for (int i = 0; i < 3; i++) {
		assert_true(test_op_wait(&reqs[i].op));
	}
	assert_int_equal(reqs[0].op.rc, SPOT_UNKNOWN);
	assert_int_equal(reqs[1].op.rc, SPOT_CANCELLED);
	assert_int_equal(reqs[2].op.rc, SPOT_CANCELLED);
	for (int i = 0; i < 3; i++) {
		pg_req_fini(&reqs[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
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
