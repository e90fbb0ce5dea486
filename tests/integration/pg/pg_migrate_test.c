/* The migration runner: applied files, refusals, and two runners at once. */
#include "base/base.h"
#include "base/crypto/crypto.h"
#include "harness.h"
#include "io/pg/pg.h"
#include "store/q.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static struct testdb *db;
static const char *dsn_now;
static int64_t end_us;

struct mine {
	struct migration list[4];
	char sums[4][SHA256_HEX];
};

static void migration_set(struct mine *m, int version, const char *name, const char *sql)
{
	struct migration *x = &m->list[version - 1];

	sha256_hex(sql, strlen(sql), m->sums[version - 1]);
	*x = (struct migration){ version, name, sql, m->sums[version - 1] };
}

static void mine_init(struct mine *m)
{
	migration_set(m, 1, "base", "CREATE TABLE a (id int);\nCREATE TABLE b (id int);\n");
	migration_set(m, 2, "more",
	    "ALTER TABLE a ADD COLUMN x int;\nINSERT INTO a VALUES (1, 2);\n");
	migration_set(m, 3, "third", "CREATE TABLE c (id int);\n");
}

static void our_schema_applies_to_an_empty_database_and_again_changes_nothing(void **state)
{
	const char *dsn = testdb_new_empty(db);
	struct spot_err err = { 0 };
	int applied = -1;

	(void)state;
	assert_int_equal(migrate_check(dsn, migrations_all, migrations_all_n, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "empty"));
	assert_int_equal(migrate_run(dsn, NULL, migrations_all, migrations_all_n, 5, &applied,
			     &err),
	    SPOT_OK);
	assert_int_equal(applied, (int)migrations_all_n);
	assert_int_equal(migrate_check(dsn, migrations_all, migrations_all_n, &err), SPOT_OK);
	assert_int_equal(migrate_run(dsn, NULL, migrations_all, migrations_all_n, 6, &applied,
			     &err),
	    SPOT_OK);
	assert_int_equal(applied, 0);
	assert_int_equal(testdb_int(dsn,
			     "SELECT count(*) FROM schema_version WHERE applied_us = 5"),
	    (int)migrations_all_n);
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM job"), 0);
}

/* Rows from before migration 0026: two replacements for one machine, a pool whose only price went
 * with its day. */
static void rows_of_earlier_daemons_do_not_stop_the_upgrade(void **state)
{
	const char *dsn = testdb_new_empty(db);
	struct spot_err err = { 0 };
	int applied;

	(void)state;
	assert_int_equal(migrate_run(dsn, NULL, migrations_all, 25, 1, &applied, &err), SPOT_OK);
	testdb_exec(dsn,
	    "INSERT INTO pool (provider, region, zone, zone_name, instance_type, market, gpu_name, "
	    "gpu_milli, gpu_mem_mib, vcpus, mem_mib, "
	    "arch, quota_class, offered, seen_us) SELECT 'p', 'r', 'z' || i, '', 't', 'spot', '', "
	    "0, 0, 1, 1, 'x86_64', '', true, 1 "
	    "FROM generate_series(1, 2) i; SELECT price_partitions_ensure(86400000000, "
	    "86400000001); "
	    "INSERT INTO pool_latest SELECT i, 500, 86400000009, 86400000008, 7, 'test', 'fresh' "
	    "FROM generate_series(1, 2) i; "
	    "INSERT INTO price_point VALUES (2, 86400000001, 5, 500, 'test')");
	testdb_exec(dsn,
	    "INSERT INTO job (name, owner, team, project, class, spec, source, state, state_us, "
	    "created_us, queued_us) VALUES "
	    "('j', 'o', 't', 'p', 'training', '{}', '', 'RUNNING', 1, 1, 1); "
	    "INSERT INTO node (pool_id, job_id, state, state_us, token, name, price_micros, "
	    "created_us, replaces_id) "
	    "SELECT 1, 1, state, 1, state, state, 1, 1, was FROM (VALUES ('READY', NULL::int8), "
	    "('FAILED', 1), ('UNKNOWN', 1), ('BOOTING', 1), "
	    "('GONE', 1)) v (state, was)");
	assert_int_equal(migrate_run(dsn, NULL, migrations_all, migrations_all_n, 1, &applied,
			     &err),
	    SPOT_OK);
	assert_string_equal(testdb_text(dsn,
				"SELECT string_agg(state, ' ' ORDER BY id) FROM node WHERE "
				"replaces_id = 1"),
	    "FAILED UNKNOWN GONE");
	assert_string_equal(testdb_text(dsn,
				"SELECT string_agg(concat_ws(' ', pool_id, observed_us, "
				"effective_us, price_micros), ', ' ORDER BY pool_id) "
				"FROM price_point"),
	    "1 86400000009 7 500, 2 86400000001 5 500");
}

/* Lines from before migration 0028 count, whether or not their job has a budget yet. */
static void lines_from_before_the_sums_count(void **state)
{
#define LINE(job) \
	"INSERT INTO ledger (at_us, kind, node_id, pool_id, market, job_id, from_us, to_us, " \
	"price_micros, price_observed_us, amount_micros) " \
	"SELECT 1, 'idle', 1, 1, 'spot', " #job ", 1, 2, 1, 0, 7 FROM generate_series(1, 3)"
#define SPENT "SELECT string_agg(job_spent(id, 9)::text, ' ' ORDER BY id) FROM job"
	const char *dsn = testdb_new_empty(db);
	struct spot_err err = { 0 };
	int applied;

	(void)state;
	assert_int_equal(migrate_run(dsn, NULL, migrations_all, 27, 1, &applied, &err), SPOT_OK);
	testdb_exec(dsn,
	    "INSERT INTO pool (provider, region, zone, zone_name, instance_type, market, gpu_name, "
	    "gpu_milli, gpu_mem_mib, vcpus, mem_mib, "
	    "arch, quota_class, offered, seen_us) VALUES ('p', 'r', 'z', '', 't', 'spot', '', 0, "
	    "0, 1, 1, 'x86_64', '', true, 1); "
	    "INSERT INTO node (pool_id, state, state_us, token, name, price_micros, created_us) "
	    "VALUES (1, 'GONE', 1, 't', 'n', 1, 1); "
	    "INSERT INTO job (name, owner, team, project, class, spec, source, state, state_us, "
	    "created_us, queued_us, budget_micros) SELECT "
	    "'j', 'o', 't', 'p', 'training', '{}', '', 'PARKED', 1, 1, 1, CASE i WHEN 1 THEN 5 "
	    "WHEN 2 THEN 6 END FROM generate_series(1, 3) i; " LINE(1) "; " LINE(3));
	assert_int_equal(migrate_run(dsn, NULL, migrations_all, migrations_all_n, 1, &applied,
			     &err),
	    SPOT_OK);
	assert_string_equal(testdb_text(dsn, SPENT), "21 0 21");
	assert_string_equal(testdb_text(dsn,
				"SELECT string_agg(job_id || ' ' || micros, ', ' ORDER BY job_id) "
				"FROM job_cost"),
	    "1 21, 2 0");
	testdb_exec(dsn, LINE(1) "; " LINE(2) "; " LINE(3));
	assert_string_equal(testdb_text(dsn, SPENT), "42 21 42");
	assert_string_equal(testdb_text(dsn,
				"SELECT string_agg(job_id || ' ' || micros, ', ' ORDER BY job_id) "
				"FROM job_cost"),
	    "1 42, 2 21, 3 42");
}

static void later_migrations_continue_where_earlier_ones_ended(void **state)
{
	const char *dsn = testdb_new_empty(db);
	struct spot_err err = { 0 };
	struct mine m;
	int applied;

	(void)state;
	mine_init(&m);
	assert_int_equal(migrate_run(dsn, NULL, m.list, 1, 1, &applied, &err), SPOT_OK);
	assert_int_equal(migrate_check(dsn, m.list, 3, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "version 1"));
	assert_int_equal(migrate_run(dsn, NULL, m.list, 3, 1, &applied, &err), SPOT_OK);
	assert_int_equal(applied, 2);
	assert_int_equal(testdb_int(dsn, "SELECT x FROM a"), 2);
}

static void a_text_changed_after_it_was_applied_is_refused(void **state)
{
	const char *dsn = testdb_new_empty(db);
	struct spot_err err = { 0 };
	struct mine m;

	(void)state;
	mine_init(&m);
	assert_int_equal(migrate_run(dsn, NULL, m.list, 2, 1, NULL, &err), SPOT_OK);
	migration_set(&m, 2, "more", "ALTER TABLE a ADD COLUMN y int;\n");
	assert_int_equal(migrate_run(dsn, NULL, m.list, 3, 1, NULL, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "0002_more was changed after it was applied"));
	assert_int_equal(migrate_check(dsn, m.list, 3, &err), SPOT_CONFIG);
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM schema_version"), 2);
}

static void a_schema_newer_than_the_program_is_refused(void **state)
{
	const char *dsn = testdb_new_empty(db);
	struct spot_err err = { 0 };
	struct mine m;

	(void)state;
	mine_init(&m);
	assert_int_equal(migrate_run(dsn, NULL, m.list, 3, 1, NULL, &err), SPOT_OK);
	assert_int_equal(migrate_run(dsn, NULL, m.list, 2, 1, NULL, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "newer release"));
	assert_int_equal(migrate_check(dsn, m.list, 2, &err), SPOT_CONFIG);
}

static void a_failing_migration_leaves_nothing_of_itself(void **state)
{
	const char *dsn = testdb_new_empty(db);
	struct spot_err err = { 0 };
	struct mine m;

	(void)state;
	mine_init(&m);
	migration_set(&m, 2, "more", "CREATE TABLE half (id int);\nSELECT nonsense;\n");
	assert_int_equal(migrate_run(dsn, NULL, m.list, 3, 1, NULL, &err), SPOT_INTERNAL);
	assert_non_null(strstr(err.text, "migration 0002_more"));
	assert_non_null(strstr(err.text, "nonsense"));
	assert_string_equal(testdb_text(dsn, "SELECT to_regclass('half')"), "");
	assert_int_equal(testdb_int(dsn, "SELECT max(version) FROM schema_version"), 1);
	mine_init(&m);
	assert_int_equal(migrate_run(dsn, NULL, m.list, 3, 1, NULL, &err), SPOT_OK);
}

static void a_migration_that_commits_on_its_own_is_refused(void **state)
{
	const char *dsn = testdb_new_empty(db);
	struct spot_err err = { 0 };
	struct mine m;

	(void)state;
	mine_init(&m);
	migration_set(&m, 1, "base", "CREATE TABLE a (id int);\nCOMMIT;\n");
	assert_int_equal(migrate_run(dsn, NULL, m.list, 1, 1, NULL, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "begin or end transactions"));
}

static void a_hole_in_the_numbers_is_refused(void **state)
{
	const char *dsn = testdb_new_empty(db);
	struct spot_err err = { 0 };
	struct mine m;

	(void)state;
	mine_init(&m);
	m.list[1].version = 3;
	assert_int_equal(migrate_run(dsn, NULL, m.list, 2, 1, NULL, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "migration 2 is missing"));
}

static void two_runners_at_once_apply_each_migration_once(void **state)
{
	const char *dsn = testdb_new_empty(db);
	struct mine m;
	int pids[4], status;

	(void)state;
	mine_init(&m);
	migration_set(&m, 1, "base", "SELECT pg_sleep(0.3);\nCREATE TABLE a (id int);\n");
	for (int i = 0; i < 4; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			_exit(migrate_run(dsn, NULL, m.list, 3, i, NULL, NULL) == SPOT_OK ? 0 : 1);
		}
		assert_true(pids[i] > 0);
	}
	for (int i = 0; i < 4; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM schema_version"), 3);
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM a"), 1);
}

/* Waits in a transaction of its own that others see. */
static void await_sql(const char *what)
{
	while (testdb_int(dsn_now, what) == 0) {
		assert_true(clock_real.mono_us(&clock_real) < end_us);
	}
}

#define WAITS "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"

static void sql_run(struct pg_sync *c, const char *sql)
{
	struct spot_err err = { 0 };

	assert_int_equal(pg_sync_exec(c, "test", sql, NULL, 0, NULL, &err), SPOT_OK);
	assert_string_equal(err.text, "");
}

/* As a backup does. */
static struct pg_sync *reader_new(const char *dsn)
{
	struct pg_sync *c = NULL;
	struct spot_err err = { 0 };

	assert_int_equal(pg_sync_open(dsn, &c, &err), SPOT_OK);
	sql_run(c, "SET application_name = 'a backup'; BEGIN; SELECT FROM a");
	return c;
}

static pid_t runner_new(const char *dsn, const struct mine *m, const char *log)
{
	pid_t pid = fork();

	if (pid == 0) {
		int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

		if (fd < 0) {
			_exit(2);
		}
		log_init(&(struct log_conf){ .fd = fd, .level = LOG_WARN, .program = "test" });
		_exit(migrate_run(dsn, NULL, m->list, 3, 1, NULL, NULL) == SPOT_OK ? 0 : 1);
	}
	assert_true(pid > 0);
	return pid;
}

static void a_migration_that_must_wait_for_a_lock_keeps_nobody_waiting(void **state)
{
	const char *dsn = dsn_now = testdb_new_empty(db);
	struct pg_sync *reader, *third = NULL;
	struct spot_err err = { 0 };
	struct mine m;
	char log[500], text[4000] = "";
	int status;
	pid_t pid;
	FILE *f;

	(void)state;
	mine_init(&m);
	end_us = clock_real.mono_us(&clock_real) + 60 * SPOT_US_PER_S;
	(void)snprintf(log, sizeof(log), "%s/waits.log", testdb_dir(db));
	assert_int_equal(migrate_run(dsn, NULL, m.list, 1, 1, NULL, &err), SPOT_OK);
	assert_int_equal(pg_sync_open(dsn, &third, &err), SPOT_OK);
	sql_run(third, "SET statement_timeout = '10s'");
	reader = reader_new(dsn);
	pid = runner_new(dsn, &m, log);
	for (int i = 0; i < 2; i++) { /* it is given up, and asked for again */
		await_sql(WAITS);
		sql_run(third, "INSERT INTO a VALUES (7)");
	}
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	sql_run(reader, "COMMIT");
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM a WHERE x = 2"), 1);
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM schema_version"), 3);
	f = fopen(log, "re");
	assert_non_null(f);
	assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
	fclose(f);
	assert_non_null(strstr(text, "schema.waits"));
	assert_non_null(strstr(text, "(a backup, for "));
	assert_non_null(strstr(text, "SELECT FROM a"));
	pg_sync_close(reader);
	pg_sync_close(third);
}

static void a_runner_that_is_killed_while_it_waits_leaves_nobody_waiting(void **state)
{
	const char *dsn = dsn_now = testdb_new_empty(db);
	struct pg_sync *reader;
	struct spot_err err = { 0 };
	struct mine m;
	char log[500];
	int status;
	pid_t pid;

	(void)state;
	mine_init(&m);
	end_us = clock_real.mono_us(&clock_real) + 60 * SPOT_US_PER_S;
	(void)snprintf(log, sizeof(log), "%s/killed.log", testdb_dir(db));
	assert_int_equal(migrate_run(dsn, NULL, m.list, 1, 1, NULL, &err), SPOT_OK);
	reader = reader_new(dsn);
	pid = runner_new(dsn, &m, log);
	await_sql(WAITS);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	await_sql("SELECT (NOT EXISTS (" WAITS " HAVING count(*) > 0) AND NOT EXISTS (SELECT FROM "
		  "pg_locks WHERE locktype = 'advisory'))::int");
	pg_sync_close(reader);
}

static void file_write(const char *dir, const char *name, const char *text)
{
	char path[600];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void migrations_are_read_from_a_folder_in_order(void **state)
{
	const char *dsn = testdb_new_empty(db);
	struct spot_err err = { 0 };
	char dir[500];
	int applied;

	(void)state;
	(void)snprintf(dir, sizeof(dir), "%s/migrations", testdb_dir(db));
	assert_int_equal(mkdir(dir, 0700), 0);
	file_write(dir, "0002_two.sql", "INSERT INTO a VALUES (7);\n");
	file_write(dir, "0001_one.sql", "CREATE TABLE a (id int);\n");
	file_write(dir, "README.md", "not SQL");
	assert_int_equal(migrate_run(dsn, dir, NULL, 0, 1, &applied, &err), SPOT_OK);
	assert_int_equal(applied, 2);
	assert_int_equal(testdb_int(dsn, "SELECT id FROM a"), 7);
	file_write(dir, "3_three.sql", "SELECT 1;\n");
	assert_int_equal(migrate_run(dsn, dir, NULL, 0, 1, &applied, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "3_three.sql"));
	assert_int_equal(migrate_run(dsn, "/nonexistent", NULL, 0, 1, &applied, &err), SPOT_CONFIG);
}

/* The text that is compiled in must be the bytes of the file: the runner compares their checksum.
 */
static void compiled_in_texts_have_the_checksum_they_claim(void **state)
{
	char sum[SHA256_HEX];

	(void)state;
	for (size_t i = 0; i < migrations_all_n; i++) {
		sha256_hex(migrations_all[i].sql, strlen(migrations_all[i].sql), sum);
		assert_string_equal(sum, migrations_all[i].sha256);
	}
}

static void a_dsn_that_does_not_parse_is_not_shown(void **state)
{
	struct spot_err err = { 0 };

	(void)state;
	assert_int_equal(migrate_run("passwrd=hunter2", NULL, NULL, 0, 1, NULL, &err), SPOT_CONFIG);
	assert_null(strstr(err.text, "hunter2"));
	assert_int_equal(migrate_run("host=/nonexistent dbname=x", NULL, NULL, 0, 1, NULL, &err),
	    SPOT_UNAVAILABLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(our_schema_applies_to_an_empty_database_and_again_changes_nothing),
		cmocka_unit_test(rows_of_earlier_daemons_do_not_stop_the_upgrade),
		cmocka_unit_test(lines_from_before_the_sums_count),
		cmocka_unit_test(later_migrations_continue_where_earlier_ones_ended),
		cmocka_unit_test(a_text_changed_after_it_was_applied_is_refused),
		cmocka_unit_test(a_schema_newer_than_the_program_is_refused),
		cmocka_unit_test(a_failing_migration_leaves_nothing_of_itself),
		cmocka_unit_test(a_migration_that_commits_on_its_own_is_refused),
		cmocka_unit_test(a_hole_in_the_numbers_is_refused),
		cmocka_unit_test(two_runners_at_once_apply_each_migration_once),
		cmocka_unit_test(a_migration_that_must_wait_for_a_lock_keeps_nobody_waiting),
		cmocka_unit_test(a_runner_that_is_killed_while_it_waits_leaves_nobody_waiting),
		cmocka_unit_test(migrations_are_read_from_a_folder_in_order),
		cmocka_unit_test(compiled_in_texts_have_the_checksum_they_claim),
		cmocka_unit_test(a_dsn_that_does_not_parse_is_not_shown),
	};
	int failed;

	db = testdb_start();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	testdb_stop(db);
	return failed;
}
