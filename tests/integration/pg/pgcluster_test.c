/* The private cluster: it starts, stops, survives crashes, and never outlives its owner. */
#include "base/base.h"
#include "harness.h"
#include "io/cluster/pgcluster.h"
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char root[64];
static char dir[128];

static void tree_remove(const char *path)
{
	int pid = fork();

	if (pid == 0) {
		execl("/bin/rm", "rm", "-rf", "--", path, (char *)NULL);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static int set_up(void **state)
{
	(void)state;
	(void)snprintf(root, sizeof(root), "/tmp/spotbroker-cluster-XXXXXX");
	assert_non_null(mkdtemp(root));
	assert_int_equal(chmod(root, 0755), 0);
	(void)snprintf(dir, sizeof(dir), "%s/deep/er/db", root);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	tree_remove(root);
	return 0;
}

static bool is_alive(int pid)
{
	char path[64], text[256] = "";
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (f == NULL) {
		return false;
	}
	if (fgets(text, sizeof(text), f) == NULL) {
		text[0] = '\0';
	}
	fclose(f);
	/* "pid (name) S ...": an orphan that init has not reaped is dead all the same. */
	return text[0] != '\0' && strstr(text, ") Z") == NULL;
}

static struct pgcluster *cluster_start(void)
{
	struct spot_err err = { 0 };
	struct pgcluster *c = NULL;

	if (pgcluster_start(dir, "shop", true, &c, &err) != SPOT_OK) {
		fail_msg("pgcluster_start: %s", err.text);
	}
	return c;
}

static void a_cluster_is_made_started_stopped_and_keeps_its_data(void **state)
{
	struct pgcluster *c = cluster_start();
	struct stat st;
	char sock[200];
	int pid;

	(void)state;
	testdb_exec(pgcluster_dsn(c), "CREATE TABLE kept AS SELECT 7 AS v");
	assert_string_equal(testdb_text(pgcluster_dsn(c), "SHOW data_checksums"), "on");
	assert_string_equal(testdb_text(pgcluster_dsn(c), "SHOW listen_addresses"), "");
	assert_string_equal(testdb_text(pgcluster_dsn(c), "SELECT current_database()"), "shop");
	(void)snprintf(sock, sizeof(sock), "%s/sock", dir);
	assert_int_equal(stat(sock, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	pid = pgcluster_pid(c);
	assert_true(is_alive(pid));
	pgcluster_stop(c);
	assert_false(is_alive(pid));
	c = cluster_start();
	assert_int_equal(testdb_int(pgcluster_dsn(c), "SELECT v FROM kept"), 7);
	pgcluster_stop(c);
}

static void a_second_owner_is_refused_with_the_firsts_number(void **state)
{
	struct pgcluster *c = cluster_start(), *other = NULL;
	struct spot_err err = { 0 };
	char pid[32];

	(void)state;
	assert_int_equal(pgcluster_start(dir, "shop", true, &other, &err), SPOT_CONFLICT);
	assert_null(other);
	(void)snprintf(pid, sizeof(pid), "process %d:", (int)getpid());
	assert_non_null(strstr(err.text, pid));
	assert_int_equal(testdb_int(pgcluster_dsn(c), "SELECT 1"), 1);
	pgcluster_stop(c);
}

static void after_kill_9_of_the_server_it_starts_again(void **state)
{
	struct pgcluster *c = cluster_start();

	(void)state;
	testdb_exec(pgcluster_dsn(c), "CREATE TABLE kept AS SELECT 8 AS v");
	assert_int_equal(kill(pgcluster_pid(c), SIGKILL), 0);
	pgcluster_stop(c);
	c = cluster_start();
	assert_int_equal(testdb_int(pgcluster_dsn(c), "SELECT v FROM kept"), 8);
	pgcluster_stop(c);
}

/* Runs a cluster in a child that tells the server's pid and then waits for its death. */
static int owner_spawn(int *ret_server)
{
	int pipes[2], pid;

	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (pid == 0) {
		struct pgcluster *c = NULL;
		int server;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (pgcluster_start(dir, "shop", true, &c, NULL) != SPOT_OK) {
			_exit(1);
		}
		testdb_exec(pgcluster_dsn(c),
		    "CREATE TABLE IF NOT EXISTS kept (v int); INSERT INTO kept VALUES (1)");
		server = pgcluster_pid(c);
		if (write(pipes[1], &server, sizeof(server)) != (ssize_t)sizeof(server)) {
			_exit(1);
		}
		for (;;) {
			pause();
		}
	}
	close(pipes[1]);
	assert_int_equal(read(pipes[0], ret_server, sizeof(*ret_server)), sizeof(*ret_server));
	close(pipes[0]);
	return pid;
}

static void the_server_ends_when_its_owner_is_killed(void **state)
{
	int server, owner = owner_spawn(&server);

	(void)state;
	assert_true(is_alive(server));
	assert_int_equal(kill(owner, SIGKILL), 0);
	assert_int_equal(waitpid(owner, NULL, 0), owner);
	for (int i = 0; i < 3000 && is_alive(server); i++) {
		(void)poll(NULL, 0, 20);
	}
	assert_false(is_alive(server));
}

static void a_new_owner_takes_over_at_once_after_the_old_one_was_killed(void **state)
{
	struct pgcluster *c;

	(void)state;
	for (int i = 1; i <= 3; i++) {
		int server, owner = owner_spawn(&server);

		/* No waiting for the old server: it may still be shutting down. */
		assert_int_equal(kill(owner, SIGKILL), 0);
		assert_int_equal(waitpid(owner, NULL, 0), owner);
		c = cluster_start();
		assert_true(pgcluster_pid(c) != server);
		assert_int_equal(testdb_int(pgcluster_dsn(c), "SELECT count(*) FROM kept"), i);
		pgcluster_stop(c);
	}
}

static void a_pid_file_that_names_some_other_living_process_is_stale(void **state)
{
	struct pgcluster *c = cluster_start();
	char path[200];
	FILE *f;

	(void)state;
	pgcluster_stop(c);
	(void)snprintf(path, sizeof(path), "%s/data/postmaster.pid", dir);
	f = fopen(path, "we");
	assert_non_null(f);
	fprintf(f, "%d\n%s/data\n1\n5432\n%s/sock\n\n0 0\nready\n", (int)getppid(), dir, dir);
	fclose(f);
	c = cluster_start();
	assert_int_equal(testdb_int(pgcluster_dsn(c), "SELECT 1"), 1);
	pgcluster_stop(c);
}

static void a_half_made_cluster_is_made_afresh(void **state)
{
	char path[200];
	struct pgcluster *c;

	(void)state;
	pgcluster_stop(cluster_start());
	(void)snprintf(path, sizeof(path), "%s/data", dir);
	tree_remove(path);
	(void)snprintf(path, sizeof(path), "%s/data.new", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/data.new/PG_VERSION", dir);
	assert_int_equal(symlink("/nonexistent", path), 0);
	c = cluster_start();
	assert_int_equal(testdb_int(pgcluster_dsn(c), "SELECT 1"), 1);
	pgcluster_stop(c);
}

static void a_path_too_long_for_a_socket_works(void **state)
{
	struct pgcluster *c;
	size_t n;

	(void)state;
	n = strlen(dir);
	(void)snprintf(dir + n, sizeof(dir) - n, "/%0*d", (int)(sizeof(dir) - n - 2), 1);
	c = cluster_start();
	assert_int_equal(testdb_int(pgcluster_dsn(c), "SELECT 1"), 1);
	assert_non_null(strstr(pgcluster_dsn(c), "'/tmp/spotbroker-"));
	pgcluster_stop(c);
}

static void a_folder_the_servers_user_cannot_reach_is_refused_with_words(void **state)
{
	struct pgcluster *c = NULL;
	struct spot_err err = { 0 };

	(void)state;
	if (geteuid() != 0) {
		skip();
	}
	assert_int_equal(chmod(root, 0700), 0);
	assert_int_equal(pgcluster_start(dir, "shop", true, &c, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "may not enter"));
	assert_non_null(strstr(err.text, root));
}

static void a_server_that_does_not_start_says_why(void **state)
{
	struct pgcluster *c = NULL;
	struct spot_err err = { 0 };
	char path[200];
	FILE *f;

	(void)state;
	pgcluster_stop(cluster_start());
	(void)snprintf(path, sizeof(path), "%s/data/postgresql.conf", dir);
	f = fopen(path, "ae");
	assert_non_null(f);
	fprintf(f, "shared_buffers = nonsense\n");
	fclose(f);
	assert_int_equal(pgcluster_start(dir, "shop", true, &c, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "does not start"));
	assert_non_null(strstr(err.text, "/log"));
	assert_null(c);
}

static char packed[260];

/* Makes a template with the table "kept" from a cluster of its own. */
static void template_make(void)
{
	struct spot_err err = { 0 };
	struct pgcluster *c;
	char place[200];

	(void)snprintf(place, sizeof(place), "%s/made", root);
	if (pgcluster_start(place, "shop", true, &c, &err) != SPOT_OK) {
		fail_msg("%s", err.text);
	}
	testdb_exec(pgcluster_dsn(c), "CREATE TABLE kept AS SELECT 9 AS v");
	testdb_exec(pgcluster_dsn(c), "VACUUM kept");
	testdb_exec(pgcluster_dsn(c), "DROP DATABASE postgres");
	pgcluster_stop(c);
	if (pgcluster_template_make(place, "abc123", &err) != SPOT_OK) {
		fail_msg("%s", err.text);
	}
	(void)snprintf(packed, sizeof(packed), "%s/" PGCLUSTER_TEMPLATE, place);
}

static struct pgcluster *start_from(const char *id, const char *place)
{
	struct pgcluster_template t = { packed, id };
	struct pgcluster *c = NULL;
	struct spot_err err = { 0 };
	char path[200];

	(void)snprintf(path, sizeof(path), "%s/%s", root, place);
	if (pgcluster_start_from(&t, path, "shop", true, &c, &err) != SPOT_OK) {
		fail_msg("%s", err.text);
	}
	return c;
}

static bool has_kept(const struct pgcluster *c)
{
	return testdb_int(pgcluster_dsn(c), "SELECT (to_regclass('kept') IS NOT NULL)::int") == 1;
}

/* A template has neither. The copy has a whole segment, and the server makes its maps again. */
static void the_copy_gets_its_segment_and_its_maps(const char *dsn)
{
	assert_int_equal(testdb_int(dsn,
			     "SELECT count(*) FROM pg_ls_waldir() "
			     "WHERE size = pg_size_bytes(current_setting('wal_segment_size'))"),
	    1);
	assert_int_equal(testdb_int(dsn, "SELECT pg_relation_size('kept', 'vm')"), 0);
	testdb_exec(dsn, "UPDATE kept SET v = v");
	testdb_exec(dsn, "SELECT pg_switch_wal()");
	testdb_exec(dsn, "VACUUM kept");
	assert_true(testdb_int(dsn, "SELECT pg_relation_size('kept', 'vm')") > 0);
}

#define SYSTEM "SELECT system_identifier FROM pg_control_system()"

static void copies_differ_in_identity(void)
{
	char one[40], other[40], path[200];
	struct pgcluster *c = start_from("abc123", "one");
	struct stat st;

	assert_int_equal(testdb_int(pgcluster_dsn(c), "SELECT v FROM kept"), 9);
	assert_string_equal(testdb_text(pgcluster_dsn(c), "SHOW data_checksums"), "on");
	(void)snprintf(one, sizeof(one), "%s", testdb_text(pgcluster_dsn(c), SYSTEM));
	the_copy_gets_its_segment_and_its_maps(pgcluster_dsn(c));
	testdb_exec(pgcluster_dsn(c), "UPDATE kept SET v = 10");
	pgcluster_stop(c);
	(void)snprintf(path, sizeof(path), "%s/one/data", root);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	c = start_from("abc123", "one");
	assert_int_equal(testdb_int(pgcluster_dsn(c), "SELECT v FROM kept"), 10);
	pgcluster_stop(c);
	c = start_from("abc123", "other");
	assert_int_equal(testdb_int(pgcluster_dsn(c), "SELECT v FROM kept"), 9);
	(void)snprintf(other, sizeof(other), "%s", testdb_text(pgcluster_dsn(c), SYSTEM));
	assert_string_not_equal(one, other);
	pgcluster_stop(c);
}

static void a_first_start_copies_a_template_that_fits_and_else_runs_initdb(void **state)
{
	struct pgcluster *c;
	struct stat st;
	char left[200];

	(void)state;
	template_make();
	copies_differ_in_identity();
	c = start_from("abc124", "foreign");
	assert_false(has_kept(c));
	pgcluster_stop(c);
	assert_int_equal(stat(packed, &st), 0);
	assert_int_equal(truncate(packed, st.st_size / 2), 0);
	c = start_from("abc123", "broken");
	assert_false(has_kept(c));
	pgcluster_stop(c);
	(void)snprintf(left, sizeof(left), "%s/broken/data.new", root);
	assert_int_equal(access(left, F_OK), -1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(a_cluster_is_made_started_stopped_and_keeps_its_data),
		T(a_second_owner_is_refused_with_the_firsts_number),
		T(after_kill_9_of_the_server_it_starts_again),
		T(the_server_ends_when_its_owner_is_killed),
		T(a_new_owner_takes_over_at_once_after_the_old_one_was_killed),
		T(a_pid_file_that_names_some_other_living_process_is_stale),
		T(a_half_made_cluster_is_made_afresh),
		T(a_path_too_long_for_a_socket_works),
		T(a_folder_the_servers_user_cannot_reach_is_refused_with_words),
		T(a_server_that_does_not_start_says_why),
		T(a_first_start_copies_a_template_that_fits_and_else_runs_initdb),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
