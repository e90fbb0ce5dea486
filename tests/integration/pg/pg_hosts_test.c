/* The database client with two servers in its DSN: one freezes, and says nothing on connections
 * that stand. */
#include "base/base.h"
#include "pg_world.h"

#include <signal.h>

static struct testdb *other;
static const char *first_dsn, *other_dsn;

/* As after a fail-over, or before it. */
static void takes_writes(const char *dsn, bool does)
{
	testdb_exec(dsn,
	    does ? "ALTER SYSTEM RESET default_transaction_read_only"
		 : "ALTER SYSTEM SET default_transaction_read_only = on");
	testdb_exec(dsn, "SELECT pg_reload_conf()");
	/* New connections see the change once the reload has reached the postmaster. */
	while ((testdb_int(dsn,
		    "SELECT count(*) FROM pg_settings WHERE name = 'default_transaction_read_only'"
		    " AND setting = 'off'") == 1) != does) {
	}
}

/* The postmaster and every process of its own. */
static void server_signal(struct testdb *t, int sig)
{
	char list[64], line[4096];
	int pid = testdb_pid(t);
	FILE *f;

	(void)snprintf(list, sizeof(list), "/proc/%d/task/%d/children", pid, pid);
	f = fopen(list, "r");
	assert_non_null(f);
	assert_int_equal(kill(pid, sig), 0);
	if (fgets(line, sizeof(line), f) != NULL) {
		char *save = NULL;

		for (char *w = strtok_r(line, " \n", &save); w != NULL;
		     w = strtok_r(NULL, " \n", &save)) {
			(void)kill((int)strtol(w, NULL, 10), sig);
		}
	}
	(void)fclose(f);
}

/* Copies the text between "host='" and the next quote. */
static void socket_dir(const char *dsn, char *buf, size_t n)
{
	const char *at = strchr(dsn, '\'');

	assert_non_null(at);
	(void)snprintf(buf, n, "%.*s", (int)strcspn(at + 1, "'"), at + 1);
}

static int two_up(void **state)
{
	static char dsn[2048];
	struct world *w = calloc(1, sizeof(*w));
	char a[512], b[512];
	const char *rest = strstr(first_dsn, " port=");

	assert_non_null(w);
	assert_non_null(rest);
	takes_writes(other_dsn, true);
	testdb_exec(first_dsn, "TRUNCATE t");
	testdb_exec(other_dsn, "TRUNCATE t");
	socket_dir(first_dsn, a, sizeof(a));
	socket_dir(other_dsn, b, sizeof(b));
	(void)snprintf(dsn, sizeof(dsn), "host='%s,%s'%s", a, b, rest);
	w->loop = test_loop_new();
	w->dsn = dsn;
	w->connections = 2;
	*state = w;
	return 0;
}

static bool op_over(void *arg)
{
	return !op_busy(arg);
}

static bool all_up(void *arg)
{
	const struct world *w = arg;

	return pg_stats(w->pg).up == w->connections;
}

static void connect_all(struct world *w)
{
	w->pg = pg_new(w->loop, &(struct pg_conf){ .dsn = w->dsn, .connections = w->connections });
	assert_true(test_until(w->loop, 20 * SPOT_US_PER_S, all_up, w));
}

static void a_frozen_server_is_left_when_another_one_takes_writes(void **state)
{
	struct world *w = *state;
	struct pg_req lost[2] = { 0 }, next = { 0 };
	int64_t since;

	takes_writes(other_dsn, false);
	connect_all(w);
	server_signal(db, SIGSTOP);
	for (int i = 0; i < 2; i++) {
		exec_int(w, &lost[i], &stmt_insert, i + 1);
	}
	/* nobody else takes writes */
	assert_false(test_until(w->loop, 2 * SPOT_US_PER_S, op_over, &lost[0].op));
	takes_writes(other_dsn, true);
	since = loop_mono_us(w->loop);
	assert_true(test_op_wait(&lost[0].op) && test_op_wait(&lost[1].op));
	exec_int(w, &next, &stmt_insert, 7);
	assert_true(test_op_wait(&next.op));
	/* the statement's deadline is 30 s */
	assert_in_range(loop_mono_us(w->loop) - since, 0, 20 * SPOT_US_PER_S);
	assert_int_equal(lost[0].op.rc, SPOT_UNKNOWN);
	assert_int_equal(lost[1].op.rc, SPOT_UNKNOWN);
	assert_int_equal(next.op.rc, SPOT_OK);
	assert_int_equal(testdb_int(other_dsn, "SELECT id FROM t"), 7);
	server_signal(db, SIGCONT);
	for (int i = 0; i < 2; i++) {
		pg_req_fini(&lost[i]);
	}
	pg_req_fini(&next);
}

static void a_server_that_went_on_before_another_took_writes_is_kept(void **state)
{
	struct world *w = *state;
	struct pg_req req = { 0 };

	takes_writes(other_dsn, false);
	connect_all(w);
	server_signal(db, SIGSTOP);
	exec_int(w, &req, &stmt_insert, 1);
	assert_false(test_until(w->loop, 2 * SPOT_US_PER_S, op_over, &req.op));
	server_signal(db, SIGCONT);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(req.op.rc, SPOT_OK);
	assert_int_equal(pg_stats(w->pg).reconnects, 0);
	pg_req_fini(&req);
	takes_writes(other_dsn, true);
}

/* Two proxies before one database both take writes. */
static void a_slow_statement_is_no_frozen_server(void **state)
{
	struct world *w = *state;
	struct pg_req req = { 0 };

	connect_all(w);
	exec_float(w, &req, &stmt_sleep, 3);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(req.op.rc, SPOT_OK);
	assert_int_equal(pg_stats(w->pg).reconnects, 0);
	pg_req_fini(&req);
}

static void a_client_of_a_frozen_server_does_not_wait_for_it(void **state)
{
	struct world *w = *state;

	server_signal(db, SIGSTOP);
	w->connections = 1; /* it begins with the first host */
	w->pg = pg_new(w->loop, &(struct pg_conf){ .dsn = w->dsn, .connections = 1 });
	/* the attempt may take ten */
	assert_true(test_until(w->loop, 8 * SPOT_US_PER_S, all_up, w));
	server_signal(db, SIGCONT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_frozen_server_is_left_when_another_one_takes_writes, two_up),
		T(a_server_that_went_on_before_another_took_writes_is_kept, two_up),
		T(a_slow_statement_is_no_frozen_server, two_up),
		T(a_client_of_a_frozen_server_does_not_wait_for_it, two_up),
	};
	int failed;

	db = testdb_start();
	other = testdb_start();
	first_dsn = testdb_new_empty(db);
	other_dsn = testdb_new_empty(other);
	testdb_exec(first_dsn, "CREATE TABLE t (id int8 PRIMARY KEY)");
	testdb_exec(other_dsn, "CREATE TABLE t (id int8 PRIMARY KEY)");
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	testdb_stop(other);
	testdb_stop(db);
	return failed;
}
