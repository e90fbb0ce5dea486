#include "base/base.h"
#include "harness.h"
#include "pg_image.h"
#include "steady.h"
#include "testdir.h"
#include "io/pg/pg.h"
#include "io/cluster/pgcluster.h"
#include "store/q.h"
#include <errno.h>
#include <libpq-fe.h>
#include <signal.h>

#define DBS_MAX 200

struct testdb {
	struct pgcluster *cluster;
	char dir[256];
	char admin[1200]; /* DSN of the maintenance database */
	char *dsns[DBS_MAX];
	int n;
	bool template_made;
};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "harness: %s: %s\n", what, why);
	exit(1);
}

static void cluster_start(struct testdb *t)
{
	struct spot_err err = { 0 };

	if (pgcluster_start(t->dir, "postgres", true, &t->cluster, &err) != SPOT_OK) {
		die("cannot start a database", err.text);
	}
	(void)snprintf(t->admin, sizeof(t->admin), "%s", pgcluster_dsn(t->cluster));
}

struct testdb *testdb_start(void)
{
	struct testdb *t = calloc(1, sizeof(*t));

	assert(t != NULL);
	log_init(&(struct log_conf){ .fd = 2,
	    .level = LOG_ERROR,
	    .program = "test",
	    .clock = &clock_real });
	testdir_sweep();
	testdir_make(t->dir, sizeof(t->dir));
	t->template_made = pg_image_copy(t->dir);
	cluster_start(t);
	return t;
}

static const char *database_dsn(struct testdb *t, const char *name)
{
	const char *at = strstr(t->admin, " dbname=");
	char dsn[1400];

	assert(at != NULL && t->n < DBS_MAX);
	(void)snprintf(dsn, sizeof(dsn), "%.*s dbname=%s", (int)(at - t->admin), t->admin, name);
	t->dsns[t->n] = strdup(dsn);
	assert(t->dsns[t->n] != NULL);
	return t->dsns[t->n++];
}

static const char *database_create(struct testdb *t, const char *template)
{
	char name[32], sql[128];

	(void)snprintf(name, sizeof(name), "t%d", t->n);
	(void)snprintf(sql, sizeof(sql), "CREATE DATABASE %s TEMPLATE %s", name, template);
	testdb_exec(t->admin, sql);
	return database_dsn(t, name);
}

const char *testdb_new_empty(struct testdb *t)
{
	return database_create(t, "template0");
}

const char *testdb_new(struct testdb *t)
{
	struct spot_err err = { 0 };

	if (!t->template_made) {
		const char *dsn;

		testdb_exec(t->admin, "CREATE DATABASE " PG_IMAGE_DATABASE);
		dsn = database_dsn(t, PG_IMAGE_DATABASE);
		if (migrate_run(dsn, NULL, migrations_all, migrations_all_n, 1, NULL, &err) !=
		    SPOT_OK) {
			die("migrations", err.text);
		}
		t->template_made = true;
	}
	return database_create(t, PG_IMAGE_DATABASE);
}

int testdb_pid(const struct testdb *t)
{
	return pgcluster_pid(t->cluster);
}

const char *testdb_dir(const struct testdb *t)
{
	return t->dir;
}

void testdb_kill(struct testdb *t)
{
	if (kill(pgcluster_pid(t->cluster), SIGKILL) != 0) {
		die("kill", strerror(errno));
	}
	pgcluster_stop(t->cluster);
	t->cluster = NULL;
}

void testdb_restart(struct testdb *t)
{
	assert(t->cluster == NULL);
	cluster_start(t);
}

void testdb_stop(struct testdb *t)
{
	if (t == NULL) {
		return;
	}
	pgcluster_stop(t->cluster);
	testdir_remove(t->dir);
	for (int i = 0; i < t->n; i++) {
		free(t->dsns[i]);
	}
	free(t);
}

void testdb_exec(const char *dsn, const char *sql)
{
	struct spot_err err = { 0 };

	if (pg_script(dsn, sql, &err) != SPOT_OK) {
		die(sql, err.text);
	}
}

const char *testdb_text(const char *dsn, const char *sql)
{
	static char text[4096];
	PGconn *c = PQconnectdb(dsn);
	PGresult *r = PQexec(c, sql);

	if (PQresultStatus(r) != PGRES_TUPLES_OK) {
		die(sql, PQerrorMessage(c));
	}
	text[0] = '\0';
	if (PQntuples(r) > 0) {
		(void)snprintf(text, sizeof(text), "%s", PQgetvalue(r, 0, 0));
	}
	PQclear(r);
	PQfinish(c);
	return text;
}

int64_t testdb_int(const char *dsn, const char *sql)
{
	return strtoll(testdb_text(dsn, sql), NULL, 10);
}

struct loop *test_loop_new(void)
{
	static struct rng rng;

	rng_seeded_init(&rng, 1);
	return loop_new(&steady_clock, &rng);
}

bool test_until(struct loop *l, int64_t limit_us, bool (*cond)(void *arg), void *arg)
{
	int64_t until = loop_mono_us(l) + limit_us;

	while (!cond(arg)) {
		if (loop_mono_us(l) >= until) {
			return false;
		}
		(void)loop_turn(l, 50000);
	}
	return true;
}

static bool op_idle(void *arg)
{
	return !op_busy(arg);
}

bool test_op_wait(struct op *op)
{
	return test_until(op->loop, 60 * SPOT_US_PER_S, op_idle, op);
}
